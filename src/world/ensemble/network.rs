//! A network for one ensemble: each server in a network namespace of its own, all on one bridge.
//!
//! The bridge is in a namespace, too. There no firewall rule of this machine applies to what servers say to each
//! other; Docker's, for one, drops what crosses a bridge that is not its own. A pair of virtual interfaces
//! leads from the bridge to the suite.
//!
//! The namespaces have no names: they end with the suite and the servers, and the interface ends with the
//! namespace that it leads to. So a run that is killed leaves nothing of its network behind.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;

use super::namespace;
use super::namespace::{Namespace, inside, ip, ip_in};
use super::ports::ServerPorts;

/// The last part of the suite's own address.
const SUITE: u8 = 254;
/// Every server has an address of its own, so all use the same ports: the usual ones.
const PORTS: (u16, u16, u16) = (2181, 2888, 3888);
/// What `ip` says of a name that is taken.
const TAKEN: &str = "File exists";

/// A network that is removed when dropped.
#[derive(Debug)]
pub struct Network {
    subnet: Subnet,
    hub: PathBuf,
    servers: Vec<PathBuf>,
    /// What keeps the namespaces there: of the bridge, then of the servers.
    held: Mutex<Vec<Namespace>>,
}

impl Network {
    pub fn create(servers: usize) -> Result<Self, String> {
        let held: Vec<Namespace> = (0..=servers)
            .map(|_| Namespace::create())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("no network namespace can be made: {error}"))?;
        let mut paths = held.iter().map(Namespace::path);
        let hub = paths.next().unwrap_or_default();
        let servers = paths.collect();
        let network = Self { subnet: claim(&hub)?, hub, servers, held: Mutex::new(held) };
        network.build().map(|()| network)
    }

    fn build(&self) -> Result<(), String> {
        let suite = self.subnet.interface();
        ip_in(&self.hub, &["link", "add", "name", "hub", "type", "bridge"])?;
        ip_in(&self.hub, &["link", "set", "hub", "up"])?;
        ip_in(&self.hub, &["link", "set", "suite", "master", "hub", "up"])?;
        ip(&["addr", "add", &self.with_mask(SUITE), "dev", &suite])?;
        ip(&["link", "set", &suite, "up"])?;
        (1..=self.servers.len()).try_for_each(|server| self.build_for(server))
    }

    fn build_for(&self, server: usize) -> Result<(), String> {
        let (hub, own, port) = (&self.hub, &self.servers[server - 1], port(server));
        let there = own.display().to_string();
        let pair = ["link", "add", "name", &port, "type", "veth", "peer", "name", "eth0", "netns", &there];
        ip_in(hub, &pair)?;
        ip_in(hub, &["link", "set", &port, "master", "hub", "up"])?;
        ip_in(own, &["addr", "add", &self.with_mask(host(server)), "dev", "eth0"])?;
        ip_in(own, &["link", "set", "eth0", "up"])?;
        ip_in(own, &["link", "set", "lo", "up"])?;
        accept_from_unroutable(own)
            .map_err(|error| format!("cannot switch rp_filter off for server {server}: {error}"))
    }

    pub fn ports(&self) -> Vec<ServerPorts> {
        let (client, quorum, election) = PORTS;
        (1..=self.servers.len())
            .map(|server| ServerPorts { host: self.address(server), client, quorum, election })
            .collect()
    }

    pub fn address(&self, server: usize) -> Ipv4Addr {
        self.subnet.address(host(server))
    }

    pub fn suite(&self) -> Ipv4Addr {
        self.subnet.address(SUITE)
    }

    pub fn namespace(&self, server: usize) -> PathBuf {
        self.servers.get(server - 1).cloned().unwrap_or_default()
    }

    /// Takes a server off the bridge: nothing reaches it and nothing comes from it.
    pub fn unplug(&self, server: usize) -> Result<(), String> {
        ip_in(&self.hub, &["link", "set", &port(server), "down"]).map(drop)
    }

    pub fn plug(&self, server: usize) -> Result<(), String> {
        ip_in(&self.hub, &["link", "set", &port(server), "up"]).map(drop)
    }

    /// Lets nothing more go from one server to another. What comes the other way still arrives.
    pub fn block(&self, from: usize, to: usize) -> Result<(), String> {
        let to = self.address(to).to_string();
        ip_in(&self.namespace(from), &["route", "replace", "blackhole", &to]).map(drop)
    }

    /// Lets everything go from one server to another again.
    pub fn unblock(&self, from: usize, to: usize) -> Result<(), String> {
        let to = self.address(to).to_string();
        match ip_in(&self.namespace(from), &["route", "del", "blackhole", &to]) {
            Err(why) if !why.contains("No such process") => Err(why),
            _ => Ok(()),
        }
    }

    /// Lets everything go from one server to all others again.
    pub fn unblock_all(&self, from: usize) -> Result<(), String> {
        ip_in(&self.namespace(from), &["-4", "route", "flush", "type", "blackhole"]).map(drop)
    }

    /// Removes all of it. Doing it twice does no harm.
    pub fn remove(&self) {
        let held: Vec<Namespace> = self.held().drain(..).collect();
        // The interface first: it would otherwise go some time after its namespace. Only who still has the
        // namespaces has it: by now another one may bear its name.
        if !held.is_empty() {
            let _ = ip(&["link", "del", &self.subnet.interface()]);
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Namespace>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_mask(&self, host: u8) -> String {
        format!("{}/24", self.subnet.address(host))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Whether this machine lets the suite make such a network. It is tried, with one server.
///
/// # Errors
/// Why not, and what to do.
pub fn links_capability() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("servers can be partitioned on Linux only, which has network namespaces".into());
    }
    namespace::is_allowed()?;
    Network::create(1).map(drop)
}

/// Finds a free number. The pair of interfaces between suite and bridge claims it: two cannot bear one name.
fn claim(hub: &Path) -> Result<Subnet, String> {
    let there = hub.display().to_string();
    for subnet in free_subnets()? {
        let own = subnet.interface();
        let pair = ["link", "add", "name", &own, "type", "veth", "peer", "name", "suite", "netns", &there];
        match ip(&pair) {
            Err(why) if why.contains(TAKEN) => {}
            made => return made.map(|_| subnet),
        }
    }
    Err("all address ranges for servers are in use (see `ip route`)".into())
}

/// With a filter on return paths, a namespace that has no way *to* a server would hear nothing *from* it
/// either, and no cut would be in one direction.
fn accept_from_unroutable(namespace: &Path) -> std::io::Result<()> {
    let switch_off = || -> std::io::Result<()> {
        for interface in ["all", "eth0"] {
            let path = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
            // Where it is off, the file need not be writable.
            if std::fs::read_to_string(&path)?.trim() != "0" {
                std::fs::write(&path, "0")?;
            }
        }
        Ok(())
    };
    inside(Some(namespace), switch_off).and_then(|done| done)
}

/// A server's end of the line on the bridge.
fn port(server: usize) -> String {
    format!("server{server}")
}

/// The last part of a server's address.
fn host(server: usize) -> u8 {
    u8::try_from(server).unwrap_or(u8::MAX)
}

const PREFIX: &str = "zklb";
/// The third part of an address, so that no two networks overlap.
const NUMBERS: std::ops::Range<u8> = 0..250;
/// The first two parts: of private ranges that few use, then of the range reserved for benchmarks.
const BASES: [[u8; 2]; 3] = [[10, 213], [172, 29], [198, 18]];

/// A number, and the addresses that go with it.
#[derive(Debug)]
pub struct Subnet {
    number: u8,
    base: [u8; 2],
}

impl Subnet {
    /// An address of it; servers have their numbers.
    pub fn address(&self, host: u8) -> Ipv4Addr {
        Ipv4Addr::new(self.base[0], self.base[1], self.number, host)
    }

    /// What the suite's interface is called. The suite that made it owns the number.
    pub fn interface(&self) -> String {
        format!("{PREFIX}{}", self.number)
    }
}

/// Every number, with addresses that collide with no route of this machine.
pub fn free_subnets() -> Result<impl Iterator<Item = Subnet>, String> {
    let routes = routes()?;
    Ok(NUMBERS.filter_map(move |number| free_base(number, &routes).map(|base| Subnet { number, base })))
}

/// The first address of a range that collides with no route of this machine. It is unclaimed, and drawn at
/// random, so that two who ask at once hardly get the same.
pub fn any_free_subnet() -> Option<Ipv4Addr> {
    // Where routes cannot be read, making a network there tells whether its addresses collide.
    let routes = routes().unwrap_or_default();
    let first = rand::random_range(NUMBERS);
    let base = (first..NUMBERS.end).chain(NUMBERS.start..first);
    base.into_iter().find_map(|number| {
        let [a, b] = free_base(number, &routes)?;
        Some(Ipv4Addr::new(a, b, number, 0))
    })
}

/// First address and number of leading bits.
type Range = (u32, u32);

#[derive(Deserialize)]
struct Route {
    dst: String,
}

/// What this machine reaches otherwise than by its default route.
fn routes() -> Result<Vec<Range>, String> {
    let told = ip(&["-j", "-4", "route", "show", "table", "all"])?;
    if told.trim().is_empty() {
        return Ok(Vec::new());
    }
    let routes: Vec<Route> = serde_json::from_str(&told)
        .map_err(|error| format!("`ip -j -4 route show table all` is not understood: {error}"))?;
    Ok(routes.iter().filter_map(|route| range(&route.dst)).collect())
}

/// `None` for `default`, which covers everything and collides with nothing.
fn range(text: &str) -> Option<Range> {
    let (address, bits) = text.split_once('/').unwrap_or((text, "32"));
    let bits = bits.parse().ok().filter(|bits| (1..=32).contains(bits))?;
    Some((address.parse::<Ipv4Addr>().ok()?.to_bits(), bits))
}

fn free_base(number: u8, routes: &[Range]) -> Option<[u8; 2]> {
    BASES.into_iter().find(|[first, second]| {
        let own = (Ipv4Addr::new(*first, *second, number, 0).to_bits(), 24);
        !routes.iter().any(|other| overlap(own, *other))
    })
}

fn overlap(one: Range, other: Range) -> bool {
    let common = 32 - one.1.min(other.1);
    one.0.checked_shr(common) == other.0.checked_shr(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &[&str]) -> Vec<Range> {
        text.iter().filter_map(|text| range(text)).collect()
    }

    #[test]
    fn a_range_that_a_route_covers_or_lies_in_is_not_taken() {
        assert_eq!(free_base(7, &[]), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.8.0/24", "172.17.0.0/16"])), Some([10, 213]));
        assert_eq!(free_base(7, &ranges(&["10.213.7.9"])), Some([172, 29]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12"])), Some([198, 18]));
        assert_eq!(free_base(7, &ranges(&["10.0.0.0/8", "172.16.0.0/12", "198.18.0.0/15"])), None);
    }

    #[test]
    fn the_default_route_is_in_nobodys_way() {
        assert_eq!(ranges(&["default", "0.0.0.0/0"]), []);
    }
}
