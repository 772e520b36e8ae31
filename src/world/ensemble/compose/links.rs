//! Taking a server off its network and putting it back, and what is seen of it from within the containers.
//!
//! Whether one container reaches another is asked by a connection to a closed port: the other
//! system's refusal has come all the way back, and no server is disturbed.

use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::command::docker;
use super::member::Member;
use super::running::Compose;
use crate::world::ensemble::state::Numbered;
use crate::world::ensemble::{Done, Fact, Links, Processes, state};
use crate::world::zk::admin;

/// A port that is closed (RFC 863).
const DISCARD: u16 = 9;
/// How long a connection may take, in seconds; otherwise it takes a millisecond.
const PATIENCE: &str = "1";
/// Docker takes a container off its network, and that is all that it does to networks.
const NO_CUTS: &str =
    "Docker can take a server off its network, but not drop what one server sends to another";

#[async_trait]
impl Links for Compose {
    async fn isolate(&self, server: usize) -> Done {
        let member = self.member(server)?;
        docker(&["network", "disconnect", &member.place()?.network, member.id()]).await.map(drop)
    }

    async fn rejoin(&self, server: usize) -> Done {
        let member = self.member(server)?;
        let place = member.place()?;
        if self.look_at(server).await?.network_settings.networks.contains_key(&place.network) {
            return Ok(());
        }
        let address = place.address.to_string();
        let aliases: Vec<&str> = place.aliases.iter().flat_map(|alias| ["--alias", alias]).collect();
        let connect =
            [&["network", "connect", "--ip", &address], &aliases[..], &[&place.network, member.id()]];
        docker(&connect.concat()).await.map(drop)
    }

    async fn cut(&self, _: usize, _: usize) -> Done {
        Err(NO_CUTS.into())
    }

    async fn heal(&self, _: usize, _: usize) -> Done {
        // What was not cut is whole.
        Ok(())
    }

    async fn heal_all(&self) -> Done {
        let mut healed = Ok(());
        for member in &self.members {
            healed = healed.and(self.rejoin(member.number).await);
        }
        healed
    }

    async fn reaches(&self, from: usize, to: usize) -> Fact {
        if self.connects(from, to).await? {
            return Ok(format!("a packet got from server {from} to {to} and back"));
        }
        Err(format!("nothing came back to server {from} from {to} within {PATIENCE} s"))
    }

    async fn is_cut(&self, from: usize, to: usize) -> Fact {
        if self.connects(from, to).await? {
            return Err(format!("a packet got from server {from} to {to} and back"));
        }
        Ok(format!("nothing came back to server {from} from {to} within {PATIENCE} s"))
    }

    async fn is_isolated(&self, server: usize) -> Fact {
        let networks = self.look_at(server).await?.network_settings.networks;
        if !networks.is_empty() {
            return Err(format!("server {server} is in a network"));
        }
        let others =
            self.awake().await?.into_iter().map(|other| other.number).filter(|other| *other != server);
        let ways = others.flat_map(|other| [(server, other), (other, server)]);
        try_join_all(ways.map(|(from, to)| self.is_cut(from, to))).await?;
        let address = self.address(server)?;
        match admin::ruok(&address, state::PATIENCE).await {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => Ok(format!(
                "server {server} is in no network: it and the others cannot connect to each other, and {address} refuses"
            )),
            _ => Err(format!("{address} still leads to server {server}")),
        }
    }

    async fn all_reach(&self) -> Fact {
        // One that is down or held still cannot be asked, and is none of this fault's business.
        let awake = self.awake().await?;
        let pairs = awake.iter().flat_map(|from| awake.iter().map(|to| (from.number, to.number)));
        let pairs = pairs.filter(|(from, to)| from != to);
        try_join_all(pairs.map(|(from, to)| self.reaches(from, to))).await?;
        try_join_all(awake.iter().map(|Numbered { number, address }| async move {
            let answer = admin::ruok(address, state::PATIENCE).await;
            answer.map_err(|error| format!("server {number} cannot be reached from here: {address}: {error}"))
        }))
        .await?;
        Ok("every server is reached by every other and by the suite".into())
    }
}

impl Compose {
    /// Whether something gets from one container to the other and back.
    async fn connects(&self, from: usize, to: usize) -> Result<bool, String> {
        let (from, to): (&Member, &Member) = (self.member(from)?, self.member(to)?);
        let connect = format!("exec 3<>/dev/tcp/{}/{DISCARD}", to.place()?.address);
        let asked = ["exec", from.id(), "timeout", PATIENCE, "bash", "-c", &connect];
        match docker(&asked).await {
            Ok(_) => Ok(true),
            Err(why) if why.contains("Connection refused") => Ok(true),
            Err(why) if is_lost(&why) => Ok(false),
            Err(why) => Err(format!("what {} reaches cannot be seen: {why}", from.name())),
        }
    }
}

/// Whether that is what bash says of a connection that leads nowhere, or `timeout` by its exit code.
fn is_lost(why: &str) -> bool {
    ["Network is unreachable", "No route to host", "exit status: 124"].iter().any(|said| why.contains(said))
}
