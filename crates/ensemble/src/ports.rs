//! Loopback ports for a local ensemble, chosen without races.
//!
//! A chosen port could be taken before the server binds it. Each possible cause is handled:
//! - An outgoing connection: ports in the system's ephemeral range are never chosen.
//! - Another run of the suite: each run holds a lock on a file for its block of ports.
//! - A foreign server: a start that fails because a port is taken is retried with another block.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::private;
use zklockbench_core::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerPorts {
    pub host: Ipv4Addr,
    pub client: u16,
    pub quorum: u16,
    pub election: u16,
}

/// Claimed ports for each server of an ensemble, released when dropped.
#[derive(Debug)]
pub struct ClaimedPorts {
    pub servers: Vec<ServerPorts>,
    _claimed: File,
}

/// Ports per block: enough for five servers.
const BLOCK: u16 = 20;
/// Port range above well-known services and below every default ephemeral range.
const POOL: RangeInclusive<u16> = 21_000..=31_990;

impl ClaimedPorts {
    /// Claims a block of ports that are free and not claimed by another run. Skips the first `skip` such
    /// blocks, whose ports turned out to be taken.
    pub fn new(servers: usize, skip: usize) -> Result<Self, Error> {
        let directory = claims()
            .map_err(|error| Error::environment(format!("cannot claim ports for the servers: {error}")))?;
        let ephemeral = ephemeral_range();
        let blocks = POOL.step_by(usize::from(BLOCK)).filter(|first| !overlaps(*first, &ephemeral));
        blocks.filter_map(|first| claim_block(&directory, first, servers)).nth(skip).ok_or_else(|| {
            Error::environment(format!(
                "found no block of {} free ports in {POOL:?} on loopback",
                servers * 3
            ))
        })
    }
}

fn claims() -> io::Result<PathBuf> {
    let directory = private::directory()?.join("ports");
    private::make(&directory)?;
    Ok(directory)
}

fn overlaps(first: u16, ephemeral: &RangeInclusive<u16>) -> bool {
    first <= *ephemeral.end() && first + BLOCK > *ephemeral.start()
}

fn ephemeral_range() -> RangeInclusive<u16> {
    let configured =
        std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().and_then(|text| {
            let mut bounds = text.split_whitespace().map(str::parse);
            Some(bounds.next()?.ok()?..=bounds.next()?.ok()?)
        });
    configured.unwrap_or(32_768..=60_999)
}

fn claim_block(directory: &Path, first: u16, servers: usize) -> Option<ClaimedPorts> {
    let claimed = private::open_lock(&directory.join(first.to_string()), true).ok()?;
    flock(&claimed, FlockOperation::NonBlockingLockExclusive).ok()?;
    let ports = |server: u16| {
        let base = first + 3 * server;
        ServerPorts { host: Ipv4Addr::LOCALHOST, client: base, quorum: base + 1, election: base + 2 }
    };
    let servers: Vec<ServerPorts> = (0..u16::try_from(servers).ok()?).map(ports).collect();
    servers.iter().all(|ports| is_free(*ports)).then_some(ClaimedPorts { servers, _claimed: claimed })
}

pub fn is_free(ports: ServerPorts) -> bool {
    [ports.client, ports.quorum, ports.election]
        .into_iter()
        .all(|port| TcpListener::bind((ports.host, port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_claims_do_not_share_ports() {
        let (one, other) = (ClaimedPorts::new(3, 0).unwrap(), ClaimedPorts::new(3, 0).unwrap());
        assert_ne!(one.servers[0].client, other.servers[0].client);
    }

    #[test]
    fn claims_directory_is_private() {
        private::check(&claims().unwrap()).unwrap();
    }

    #[test]
    fn port_in_use_is_not_claimed() {
        let first = ClaimedPorts::new(1, 0).unwrap();
        let port = first.servers[0].client;
        let _listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        drop(first);
        assert_ne!(ClaimedPorts::new(1, 0).unwrap().servers[0].client, port);
    }

    #[test]
    fn claimed_ports_are_outside_the_ephemeral_range() {
        let ephemeral = ephemeral_range();
        let claim = ClaimedPorts::new(5, 0).unwrap();
        assert!(claim.servers.iter().all(|ports| !ephemeral.contains(&ports.election)));
    }
}
