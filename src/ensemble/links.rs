//! Cutting servers off from each other, and what can be seen of it.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::fact::{Done, Fact};
use super::local::Local;
use super::network::Network;
use super::reach::{self, End};

/// The links between servers that live apart. Servers are numbered from 1.
///
/// All of it fails with a reason where servers share one network. What is seen is one look of a few seconds at
/// most; an `Err` says that it is not so or could not be seen, and only an `Ok` proves anything.
#[async_trait]
pub trait Links: Send + Sync {
    /// Takes a server off the network: from all others, and from the suite's clients.
    async fn isolate(&self, server: usize) -> Done;

    /// Puts a server back that was isolated. Cuts stay.
    async fn rejoin(&self, server: usize) -> Done;

    /// Loses everything that one server sends to another. What the other sends still arrives; but the one
    /// cannot acknowledge it, so a connection between the two stalls both ways.
    async fn cut(&self, from: usize, to: usize) -> Done;

    /// Undoes a cut. What was not cut stays so.
    async fn heal(&self, from: usize, to: usize) -> Done;

    /// Undoes all cuts and isolations. It goes on after a failure and then tells the first.
    async fn heal_all(&self) -> Done;

    /// What one server sends reaches another.
    async fn reaches(&self, from: usize, to: usize) -> Fact;

    /// Nothing that one server sends reaches another.
    async fn is_cut(&self, from: usize, to: usize) -> Fact;

    /// Nothing gets from a server to another one or to the suite, or from there to it.
    async fn is_isolated(&self, server: usize) -> Fact;

    /// Everything gets from each server to each other one, and from the suite to each. What a server sends to the
    /// suite unasked is not looked at: a firewall of this machine may rightly turn it away.
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
        Ok(format!("nothing gets to server {server} or from it"))
    }

    async fn all_reach(&self) -> Fact {
        let network = self.network()?;
        let froms = numbers(self).chain([SUITE]);
        let pairs = froms.flat_map(|from| numbers(self).map(move |to| (from, to)));
        let ways = pairs.filter(|(from, to)| from != to).map(|(from, to)| way(network, from, to));
        try_join_all(ways.map(reaches)).await?;
        Ok("every server is reached by every other and by the suite".into())
    }
}

/// Stands for the suite where servers have their numbers.
const SUITE: usize = 0;

/// From where to where, in words and to be looked at.
struct Way {
    words: String,
    from: End,
    to: End,
}

fn way(network: &Network, from: usize, to: usize) -> Way {
    let end = |server| match server {
        SUITE => (None, network.suite()),
        server => (Some(network.namespace(server)), network.address(server)),
    };
    let name = |server| match server {
        SUITE => "the suite".to_owned(),
        server => format!("server {server}"),
    };
    Way { words: format!("from {} to {}", name(from), name(to)), from: end(from), to: end(to) }
}

async fn reaches(way: Way) -> Fact {
    match reach::arrives(&way.from, &way.to, reach::PATIENCE).await {
        Ok(true) => Ok(format!("a datagram got {}", way.words)),
        Ok(false) => Err(format!("nothing got {} within {:?}", way.words, reach::PATIENCE)),
        Err(error) => Err(format!("what gets {} cannot be seen: {error}", way.words)),
    }
}

async fn is_cut(way: Way) -> Fact {
    match reach::arrives(&way.from, &way.to, reach::SILENCE).await {
        Ok(false) => Ok(format!("nothing got {} within {:?}", way.words, reach::SILENCE)),
        Ok(true) => Err(format!("a datagram got {}", way.words)),
        Err(error) => Err(format!("what gets {} cannot be seen: {error}", way.words)),
    }
}

/// The network, once it is known that these servers are in it.
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
