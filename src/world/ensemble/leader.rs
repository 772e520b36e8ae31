//! Who leads. Of two that say so, the one that was elected later.

use std::time::Duration;

use futures_util::future::join_all;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::state::{Numbered, PATIENCE};
use crate::words::units::counted;
use crate::world::zk::admin::{self, Srvr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leader {
    /// Its number, from 1.
    pub server: usize,
    /// Grows with each election: a later epoch proves that there was one.
    pub epoch: u64,
    /// How many followers are in step with it.
    pub synced_followers: usize,
}

impl Leader {
    /// Asks one server, by its number and address, whether it leads. Both of its answers may take that long.
    pub async fn told_by(server: usize, address: &str, patience: Duration) -> Option<Self> {
        Self::elected_after(None, server, address, patience).await
    }

    /// The same, but `None` for a leader of that epoch or an earlier one, which costs it only the short answer: the long one takes
    /// a millisecond of its processor time.
    pub async fn elected_after(
        epoch: Option<u64>,
        server: usize,
        address: &str,
        patience: Duration,
    ) -> Option<Self> {
        let srvr = admin::srvr(address, patience).await.ok()??;
        if epoch.is_some_and(|known| srvr.epoch() <= known) {
            return None;
        }
        let synced_followers = match srvr.mode.as_str() {
            "standalone" => 0,
            "leader" => {
                let mntr = tokio::time::timeout(patience, admin::mntr(address)).await.ok()?.ok()?;
                usize::try_from(mntr.synced_followers()?).ok()?
            }
            _ => return None,
        };
        Some(Self { server, epoch: srvr.epoch(), synced_followers })
    }

    /// Whether it and those in step with it are more than half of so many servers.
    pub fn is_backed(&self, servers: usize) -> bool {
        self.synced_followers + 1 >= quorum(servers)
    }
}

/// Asks those of so many servers that can answer.
pub async fn of(awake: &[Numbered], servers: usize) -> Result<Leader, String> {
    let looks = awake.iter().map(|server| Leader::told_by(server.number, &server.address, PATIENCE));
    let told: Vec<Leader> = join_all(looks).await.into_iter().flatten().collect();
    choose(&told, servers)
}

/// Asks all that can answer whether they follow.
pub async fn followers(awake: &[Numbered]) -> Result<Vec<usize>, String> {
    let looks = awake.iter().map(|Numbered { number, address }| async move {
        let srvr: Srvr = admin::srvr(address, PATIENCE).await.ok()??;
        (srvr.mode == "follower").then_some(*number)
    });
    let followers: Vec<usize> = join_all(looks).await.into_iter().flatten().collect();
    if followers.is_empty() { Err("no server says that it follows".into()) } else { Ok(followers) }
}

fn choose(told: &[Leader], servers: usize) -> Result<Leader, String> {
    let backed = told.iter().filter(|leader| leader.is_backed(servers));
    backed.max_by_key(|leader| leader.epoch).copied().ok_or_else(|| match told {
        [] => "no server says that it leads".to_owned(),
        [told, ..] => format!(
            "server {} says that it leads, but only {} in step with it",
            told.server,
            counted(told.synced_followers, "follower is", "followers are")
        ),
    })
}

fn quorum(servers: usize) -> usize {
    servers / 2 + 1
}

/// More than half of the servers, drawn by the seed.
pub fn majority(servers: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (1..=servers).collect();
    let (drawn, _) = numbers.partial_shuffle(&mut ChaCha8Rng::seed_from_u64(seed), quorum(servers));
    drawn.sort_unstable();
    drawn.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leader(server: usize, epoch: u64, synced_followers: usize) -> Leader {
        Leader { server, epoch, synced_followers }
    }

    #[test]
    fn of_two_that_say_that_they_lead_the_one_of_the_later_epoch_does() {
        let (old, new) = (leader(1, 4, 2), leader(2, 5, 1));
        assert_eq!(choose(&[old, new], 3), Ok(new));
        assert_eq!(choose(&[new, old], 3), Ok(new));
    }

    #[test]
    fn who_has_no_majority_in_step_does_not_lead_however_late_it_was_elected() {
        let (old, new) = (leader(1, 4, 2), leader(2, 5, 1));
        assert_eq!(choose(&[old, new], 5), Ok(old));
        assert!(choose(&[new], 5).unwrap_err().contains("only 1 follower is in step"));
        assert!(choose(&[], 3).is_err());
        assert_eq!(choose(&[leader(1, 0, 0)], 1), Ok(leader(1, 0, 0)));
    }

    #[test]
    fn a_majority_is_the_same_for_the_same_seed_and_each_server_is_in_some() {
        for (servers, size) in [(1, 1), (3, 2), (5, 3)] {
            let drawn: Vec<Vec<usize>> = (0..50).map(|seed| majority(servers, seed)).collect();
            assert!(drawn.iter().all(|drawn| drawn.len() == size));
            assert!((1..=servers).all(|server| drawn.iter().any(|drawn| drawn.contains(&server))));
            assert_eq!(majority(servers, 7), drawn[7]);
        }
    }
}
