//! Cuts servers off from each other, and verifies cuts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::local::Local;
use super::network::{Network, inside};
use super::state::{Done, Fact};

/// Network links between servers, each in its own network namespace or container. Servers are numbered from 1.
///
/// Every method returns an error if the servers share one network. Each check takes at most a few seconds.
/// Only `Ok` is a proof: `Err` may also mean that the check itself failed.
#[async_trait]
pub trait Links: Send + Sync {
    /// Disconnects a server from all other servers and from the suite's clients.
    async fn isolate(&self, server: usize) -> Done;

    /// Reconnects an isolated server, without healing cuts.
    async fn rejoin(&self, server: usize) -> Done;

    /// Drops everything that `from` sends to `to`. The opposite direction still works, but connections stall
    /// in both directions because `from` cannot acknowledge anything.
    async fn cut(&self, from: usize, to: usize) -> Done;

    /// Heals a cut; does nothing if there is none.
    async fn heal(&self, from: usize, to: usize) -> Done;

    /// Heals all cuts and isolations, even after a failure. Returns the first failure.
    async fn heal_all(&self) -> Done;

    async fn reaches(&self, from: usize, to: usize) -> Fact;

    async fn is_cut(&self, from: usize, to: usize) -> Fact;

    /// Checks that nothing passes between a server and the other servers or the suite.
    async fn is_isolated(&self, server: usize) -> Fact;

    /// Checks that each server can be reached from every other server and from the suite. The direction from
    /// servers to the suite is not checked, because this machine's firewall may block it.
    async fn all_reach(&self) -> Fact;
}

#[async_trait]
impl Links for Local {
    async fn isolate(&self, server: usize) -> Done {
        network_of(self, &[server])?.unplug(server)
    }

    async fn rejoin(&self, server: usize) -> Done {
        network_of(self, &[server])?.plug(server)
    }

    async fn cut(&self, from: usize, to: usize) -> Done {
        network_of(self, &[from, to])?.block(from, to)
    }

    async fn heal(&self, from: usize, to: usize) -> Done {
        network_of(self, &[from, to])?.unblock(from, to)
    }

    async fn heal_all(&self) -> Done {
        let network = self.network()?;
        let healed = numbers(self).map(|server| network.plug(server).and(network.unblock_all(server)));
        healed.collect::<Vec<_>>().into_iter().collect()
    }

    async fn reaches(&self, from: usize, to: usize) -> Fact {
        let network = network_of(self, &[from, to])?;
        reaches(way(network, from, to)).await
    }

    async fn is_cut(&self, from: usize, to: usize) -> Fact {
        let network = network_of(self, &[from, to])?;
        is_cut(way(network, from, to)).await
    }

    async fn is_isolated(&self, server: usize) -> Fact {
        let network = network_of(self, &[server])?;
        let others = numbers(self).chain([SUITE]).filter(|other| *other != server);
        let ways = others.flat_map(|other| [way(network, server, other), way(network, other, server)]);
        try_join_all(ways.map(is_cut)).await?;
        Ok(format!("no datagram reaches or leaves server {server}"))
    }

    async fn all_reach(&self) -> Fact {
        let network = self.network()?;
        let froms = numbers(self).chain([SUITE]);
        let pairs = froms.flat_map(|from| numbers(self).map(move |to| (from, to)));
        let ways = pairs.filter(|(from, to)| from != to).map(|(from, to)| way(network, from, to));
        try_join_all(ways.map(reaches)).await?;
        Ok("every server can be reached from every other and from the suite".into())
    }
}

/// Number that identifies the suite among the numbered servers.
const SUITE: usize = 0;

/// One direction of a link, with its human-readable name.
struct Way {
    words: String,
    from: End,
    to: End,
}

fn way(network: &Network, from: usize, to: usize) -> Way {
    let end = |server| match server {
        SUITE => End { namespace: None, address: network.suite() },
        server => End { namespace: Some(network.namespace(server)), address: network.address(server) },
    };
    let name = |server| match server {
        SUITE => "the suite".to_owned(),
        server => format!("server {server}"),
    };
    Way { words: format!("from {} to {}", name(from), name(to)), from: end(from), to: end(to) }
}

async fn reaches(way: Way) -> Fact {
    match arrives(&way.from, &way.to, PATIENCE).await {
        Ok(true) => Ok(format!("a datagram passed {}", way.words)),
        Ok(false) => Err(format!("no datagram passed {} within {:?}", way.words, PATIENCE)),
        Err(error) => Err(format!("cannot check for datagrams {}: {error}", way.words)),
    }
}

async fn is_cut(way: Way) -> Fact {
    match arrives(&way.from, &way.to, SILENCE).await {
        Ok(false) => Ok(format!("no datagram passed {} within {:?}", way.words, SILENCE)),
        Ok(true) => Err(format!("a datagram passed {}", way.words)),
        Err(error) => Err(format!("cannot check for datagrams {}: {error}", way.words)),
    }
}

/// Checks that these servers exist, and returns the network.
fn network_of<'a>(local: &'a Local, servers: &[usize]) -> Result<&'a Network, String> {
    let network = local.network()?;
    for server in servers {
        drop(local.server(*server)?);
    }
    match servers {
        [from, to] if from == to => Err(format!("server {from} cannot be cut off from itself")),
        _ => Ok(network),
    }
}

fn numbers(local: &Local) -> impl Iterator<Item = usize> + use<> {
    1..=local.addresses().len()
}

/// Timeout for a datagram to arrive.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time without a datagram that proves a cut; on a working link, a datagram takes microseconds.
const SILENCE: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_millis(20);

struct End {
    /// `None` for the suite's own namespace.
    namespace: Option<PathBuf>,
    address: Ipv4Addr,
}

/// Sends datagrams from one end to the other. Returns whether any of them arrived in time.
///
/// A datagram needs no reply, so each direction can be checked separately. A connection would need both directions.
async fn arrives(from: &End, to: &End, within: Duration) -> io::Result<bool> {
    let (sender, receiver) = (open(from)?, open(to)?);
    let target = receiver.local_addr()?;
    // Only datagrams with this source and content count.
    let (own, word) = (sender.local_addr()?, uuid::Uuid::new_v4().into_bytes());
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        // A cut may reject the datagram immediately instead of dropping it.
        let _ = sender.send_to(&word, target).await;
        let next = (Instant::now() + EVERY).min(deadline);
        if heard(&receiver, own, &word, next).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn heard(receiver: &UdpSocket, from: SocketAddr, word: &[u8], until: Instant) -> io::Result<bool> {
    let mut text = [0; 64];
    loop {
        match timeout_at(until, receiver.recv_from(&mut text)).await {
            Err(_) => return Ok(false),
            Ok(Ok((length, sender))) if sender == from && &text[..length] == word => return Ok(true),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Err(error),
        }
    }
}

fn open(end: &End) -> io::Result<UdpSocket> {
    let bind = || std::net::UdpSocket::bind((end.address, 0));
    let socket = inside(end.namespace.as_deref(), bind)??;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn datagrams_arrive_on_loopback_but_cannot_be_sent_from_a_foreign_address() {
        let at = |address| End { namespace: None, address };
        let here = at(Ipv4Addr::LOCALHOST);
        assert!(arrives(&here, &here, PATIENCE).await.unwrap());
        assert!(arrives(&here, &at(Ipv4Addr::new(192, 0, 2, 77)), SILENCE).await.is_err());
    }
}
