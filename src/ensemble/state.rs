//! What servers do now: down, serving, or up without serving.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;

use super::fact::Fact;
use super::local::Local;
use super::{ready, restart};
use crate::zk::admin;

/// How long a server is waited for that may not answer.
pub const PATIENCE: Duration = Duration::from_secs(1);

/// Its process is gone, and its port refuses.
pub fn is_down(local: &Local, number: usize) -> Fact {
    let mut server = local.server(number)?;
    if server.is_running() {
        return Err(format!("the process of server {number} is there"));
    }
    match restart::accepts(&server) {
        Ok(()) => Err(format!("somebody listens on {} though server {number} is gone", server.address())),
        Err(why) => Ok(format!("the process of server {number} is gone ({why})")),
    }
}

/// It says that it leads, follows, or stands alone.
pub async fn serves(local: &Local, number: usize) -> Fact {
    let address = local.server(number)?.address();
    let answer = admin::mntr(&address).await.map_err(|error| format!("server {number}: {error}"))?;
    match answer.state() {
        Some(state @ ("leader" | "follower" | "standalone")) => {
            Ok(format!("server {number} serves ({state})"))
        }
        other => Err(format!("server {number} is {}", other.unwrap_or("in no known state"))),
    }
}

/// Nobody serves, as each says of itself or cannot say at all.
pub async fn nobody_serves(local: &Local) -> Fact {
    let awake: Vec<(usize, String)> = awake(local);
    let looks = awake.iter().map(|(number, address)| async move {
        match admin::srvr(address, PATIENCE).await {
            Ok(None) => Ok(format!("server {number} says that it does not serve")),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                Ok(format!("server {number} refuses"))
            }
            Ok(Some(srvr)) => Err(format!("server {number} serves ({})", srvr.mode)),
            Err(error) => Err(format!("server {number} cannot be asked: {error}")),
        }
    });
    let mut seen = join_all(looks).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    let others = local.addresses().len() - awake.len();
    if others > 0 {
        seen.push(format!("{others} are down or held still"));
    }
    Ok(seen.join("; "))
}

/// The whole ensemble serves.
pub async fn whole(local: &Local) -> Fact {
    let addresses = local.addresses();
    let roles = ready::roles(&addresses).await;
    let states: Vec<String> =
        roles.iter().map(|role| format!("{}: {}", role.address, role.describe())).collect();
    let states = states.join("; ");
    if ready::is_whole(&roles) { Ok(states) } else { Err(format!("not whole ({states})")) }
}

/// Numbers and addresses of the servers that could answer: that are there and not held still.
pub fn awake(local: &Local) -> Vec<(usize, String)> {
    let awake = local.each().map(|mut server| server.is_awake().then(|| (server.number, server.address())));
    awake.flatten().collect()
}
