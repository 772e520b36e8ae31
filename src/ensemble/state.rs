//! What servers do now: down, serving, or up without serving.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::future::join_all;

use super::fact::Fact;
use super::ready;
use crate::zk::admin;

/// How long a server is waited for that may not answer.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long a silent server is listened to. One that runs answers within a millisecond or two.
const SILENCE: Duration = Duration::from_millis(300);

/// A server's number and where its clients find it.
pub type Numbered = (usize, String);

/// It says that it leads, follows, or stands alone.
pub async fn serves((number, address): &Numbered) -> Fact {
    let answer = admin::mntr(address).await.map_err(|error| format!("server {number}: {error}"))?;
    match answer.state() {
        Some(state @ ("leader" | "follower" | "standalone")) => {
            Ok(format!("server {number} serves ({state})"))
        }
        other => Err(format!("server {number} is {}", other.unwrap_or("in no known state"))),
    }
}

/// Nobody of so many servers serves, as each that is awake says of itself or cannot say at all.
pub async fn nobody_serves(awake: &[Numbered], servers: usize) -> Fact {
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
    let others = servers - awake.len();
    if others > 0 {
        seen.push(format!("{others} are down or held still"));
    }
    Ok(seen.join("; "))
}

/// The whole ensemble serves.
pub async fn whole(addresses: &[String]) -> Fact {
    let roles = ready::roles(addresses).await;
    let states: Vec<String> =
        roles.iter().map(|role| format!("{}: {}", role.address, role.describe())).collect();
    let states = states.join("; ");
    if ready::is_whole(&roles) { Ok(states) } else { Err(format!("not whole ({states})")) }
}

/// Its port is open, and it does not answer. That alone is what a busy machine looks like, too.
pub async fn answers_nothing((number, address): &Numbered) -> Fact {
    match admin::ruok(address, SILENCE).await {
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            Ok(format!("{address} is open and did not answer within {SILENCE:?}"))
        }
        Err(error) => Err(format!("server {number} is not merely silent: {error}")),
        Ok(()) => Err(format!("server {number} answers")),
    }
}
