//! When an ensemble is ready: every server serves, one of them leads, and the others are in step with it.

use std::time::{Duration, Instant};

use futures_util::future::join_all;

use crate::zk::admin::{self, Mntr};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What one server says of its place in the ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// `host:port`.
    pub address: String,
    /// `leader`, `follower`, `standalone`; or why it could not be asked.
    pub state: Result<String, String>,
    /// The version that it reports.
    pub version: Option<String>,
    /// How many followers are in step, as a leader knows.
    pub synced_followers: Option<i64>,
}

impl Role {
    fn of(address: &str, answer: std::io::Result<Mntr>) -> Self {
        let (state, version, synced_followers) = match answer {
            Ok(mntr) => (
                Ok(mntr.state().unwrap_or("unknown").to_owned()),
                mntr.version().map(str::to_owned),
                mntr.synced_followers(),
            ),
            Err(error) => (Err(error.to_string()), None, None),
        };
        Self { address: address.to_owned(), state, version, synced_followers }
    }

    fn is(&self, state: &str) -> bool {
        self.state.as_deref() == Ok(state)
    }

    /// The state, or `not known (why)`.
    #[must_use]
    pub fn describe(&self) -> String {
        self.state.clone().unwrap_or_else(|why| format!("not known ({why})"))
    }
}

/// Asks every server.
pub async fn roles(addresses: &[String]) -> Vec<Role> {
    join_all(addresses.iter().map(|address| async move { Role::of(address, admin::mntr(address).await) }))
        .await
}

/// Whether these are the roles of an ensemble that is whole.
#[must_use]
pub fn is_whole(roles: &[Role]) -> bool {
    if let [alone] = roles {
        return alone.is("standalone");
    }
    let followers = roles.iter().filter(|role| role.is("follower")).count();
    let mut leaders = roles.iter().filter(|role| role.is("leader"));
    let (leader, second) = (leaders.next(), leaders.next());
    let in_step = leader.and_then(|leader| leader.synced_followers);
    second.is_none() && followers + 1 == roles.len() && in_step == i64::try_from(followers).ok()
}

/// Waits until the ensemble is whole. `broken` is asked between looks and may end the wait.
///
/// # Errors
/// What `broken` said, or which server was not ready at the deadline, and why.
pub async fn wait(
    addresses: &[String],
    deadline: Instant,
    mut broken: impl FnMut() -> Option<String>,
) -> Result<(), String> {
    loop {
        let now = roles(addresses).await;
        if is_whole(&now) {
            return Ok(());
        }
        if let Some(why) = broken() {
            return Err(why);
        }
        if Instant::now() >= deadline {
            let states = now.iter().map(|role| format!("{}: {}", role.address, role.describe()));
            return Err(format!("not ready in time ({})", states.collect::<Vec<_>>().join("; ")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(state: &str, synced_followers: Option<i64>) -> Role {
        Role { address: String::new(), state: Ok(state.into()), version: None, synced_followers }
    }

    #[test]
    fn three_servers_are_whole_with_one_leader_and_both_followers_in_step() {
        let (leader, follower) = (role("leader", Some(2)), role("follower", None));
        assert!(is_whole(&[follower.clone(), leader.clone(), follower.clone()]));
        assert!(!is_whole(&[follower.clone(), follower.clone(), follower.clone()]));
        assert!(!is_whole(&[follower.clone(), leader.clone(), leader]));
        assert!(!is_whole(&[follower.clone(), role("leader", Some(1)), follower]));
    }

    #[test]
    fn a_silent_server_leaves_the_ensemble_not_whole() {
        let silent = Role { state: Err("refused".into()), ..role("", None) };
        assert!(!is_whole(&[role("follower", None), role("leader", Some(2)), silent]));
    }

    #[test]
    fn one_server_is_whole_when_it_stands_alone() {
        assert!(is_whole(&[role("standalone", None)]));
        assert!(!is_whole(&[role("follower", None)]));
    }
}
