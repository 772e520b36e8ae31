//! Everything that a fault can act on, and the effects of all current faults on servers and their links.
//!
//! A fault adds its effects and removes them when it ends. A server's intended state is derived from all
//! effects, so ending one fault does not end another fault's effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use super::contenders::Contenders;
use crate::proxy::Proxy;
use crate::{Done, Fact, Links, Processes};
use zklockbench_core::locked::locked;
use zklockbench_zk::Target;

pub struct FaultReach<'a> {
    pub contenders: &'a dyn Contenders,
    /// Ensemble address for connections other than the contenders'.
    pub target: &'a Target,
    /// Server processes, if this run can control them.
    pub processes: Option<&'a dyn Processes>,
    pub proxy: Option<&'a Proxy>,
    pub in_effect: InEffect,
}

/// Reason why a fault was not injected, or why it ended too early.
pub const LOAD_ENDED: &str = "the load ended";

impl<'a> FaultReach<'a> {
    /// Waits for a target. Fails if the load ends first.
    pub async fn while_loaded<T>(&self, wait: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        self.in_effect.load_ended.run_until_cancelled(wait).await.unwrap_or_else(|| Err(LOAD_ENDED.into()))
    }

    /// Fails once the load has ended.
    pub fn is_loaded(&self) -> Done {
        if self.in_effect.load_ended.is_cancelled() { Err(LOAD_ENDED.into()) } else { Ok(()) }
    }

    pub fn processes(&self) -> Result<&'a dyn Processes, String> {
        self.processes.ok_or_else(|| "the ensemble was not started for this run".into())
    }

    pub fn links(&self) -> Result<&'a dyn Links, String> {
        self.processes()?.links().ok_or_else(|| "the servers share one network".into())
    }

    pub fn proxy(&self) -> Result<&'a Proxy, String> {
        self.proxy.ok_or_else(|| "there is no proxy between contenders and servers".into())
    }

    /// Starts an effect unless another fault already has. The caller must end the effect, even after a failure.
    pub async fn begin(&self, effect: Effect, how: How) -> Done {
        self.in_effect.add(effect);
        self.is_loaded()?;
        self.bring_about(effect, how).await
    }

    /// Ends an effect unless another fault still needs it.
    pub async fn end(&self, effect: Effect) -> Done {
        self.in_effect.take_away(effect);
        self.bring_about(effect, How::Killed).await
    }

    pub async fn is_in_effect(&self, effect: Effect) -> Fact {
        match effect {
            Effect::Down(server) => self.processes()?.is_down(server).await,
            Effect::Still(server) => {
                // Wait until other faults have finished their changes, e.g. a restart before a pause.
                let _settled = self.in_effect.made(server).lock_owned().await;
                let processes = self.processes()?;
                if self.in_effect.has(Effect::Down(server)) {
                    // The server will be paused when the other fault ends.
                    return Ok(format!("{} because of another fault", processes.is_down(server).await?));
                }
                processes.is_silent(server).await
            }
            Effect::Off(server) => self.links()?.is_isolated(server).await,
            Effect::Cut(from, to) => self.links()?.is_cut(from, to).await,
        }
    }

    async fn bring_about(&self, effect: Effect, how: How) -> Done {
        match effect {
            Effect::Down(server) | Effect::Still(server) => {
                self.in_effect.make_of(server, how, self.processes()?).await
            }
            Effect::Off(_) | Effect::Cut(..) => self.in_effect.link(effect, self.links()?).await,
        }
    }
}

/// An effect on servers, which are numbered from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    Down(usize),
    Still(usize),
    Off(usize),
    /// Nothing that the first server sends reaches the second server.
    Cut(usize, usize),
}

impl Effect {
    pub fn breaks_a_link(&self) -> bool {
        matches!(self, Self::Off(_) | Self::Cut(..))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Killed,
    Stopped,
    /// Killed, and its data deleted.
    Wiped,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Running,
    Still,
    /// Takes precedence over `Still`.
    Down,
}

/// Effects of all faults, and the resulting server states.
#[derive(Debug, Default)]
pub struct InEffect {
    counts: Mutex<BTreeMap<Effect, usize>>,
    /// Last intended state of each server; locked while the server is being changed.
    made: Mutex<BTreeMap<usize, Arc<tokio::sync::Mutex<Wanted>>>>,
    /// Broken links; locked while a link is being cut or healed.
    broken: tokio::sync::Mutex<BTreeSet<Effect>>,
    /// Lock held while a server's data is being deleted.
    wiping: tokio::sync::Mutex<()>,
    /// Cancelled at the end of the measured load, after which no fault is injected.
    load_ended: CancellationToken,
}

impl InEffect {
    /// Marks the end of the measured load, after which faults are only healed.
    pub fn load_ends(&self) {
        self.load_ended.cancel();
    }

    fn add(&self, effect: Effect) {
        *locked(&self.counts).entry(effect).or_default() += 1;
    }

    fn take_away(&self, effect: Effect) {
        let mut counts = locked(&self.counts);
        let Some(count) = counts.get_mut(&effect) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&effect);
        }
    }

    fn has(&self, effect: Effect) -> bool {
        locked(&self.counts).contains_key(&effect)
    }

    /// Returns whether any effect on servers is active, in which case the ensemble may be unhealthy.
    pub fn is_any(&self) -> bool {
        !locked(&self.counts).is_empty()
    }

    /// Returns whether no active fault breaks a link.
    pub fn links_are_whole(&self) -> bool {
        !locked(&self.counts).keys().any(Effect::breaks_a_link)
    }

    /// Returns whether the faults leave a majority of `voters` that can commit.
    pub fn leaves_a_majority_of(&self, voters: &[usize]) -> bool {
        let mut lost = BTreeSet::new();
        for effect in locked(&self.counts).keys() {
            match effect {
                Effect::Down(server) | Effect::Still(server) | Effect::Off(server) => lost.insert(*server),
                // With cuts, whether a majority can commit depends on which server leads.
                Effect::Cut(..) => return false,
            };
        }
        2 * voters.iter().filter(|server| !lost.contains(server)).count() > voters.len()
    }

    fn wanted(&self, server: usize) -> Wanted {
        if self.has(Effect::Down(server)) {
            Wanted::Down
        } else if self.has(Effect::Still(server)) {
            Wanted::Still
        } else {
            Wanted::Running
        }
    }

    fn made(&self, server: usize) -> Arc<tokio::sync::Mutex<Wanted>> {
        let mut made = locked(&self.made);
        Arc::clone(made.entry(server).or_default())
    }

    /// Brings a server into the state that all effects together require.
    async fn make_of(&self, server: usize, how: How, processes: &dyn Processes) -> Done {
        let made = self.made(server);
        let mut made = made.lock().await;
        let wanted = self.wanted(server);
        // Record the new state first, because a change that fails halfway must be undone, too.
        let before = std::mem::replace(&mut *made, wanted);
        let runs = processes.is_running(server).await;
        match wanted {
            Wanted::Down if runs => end(processes, server, how).await,
            Wanted::Down => Ok(()),
            Wanted::Still if runs && before == Wanted::Still => Ok(()),
            Wanted::Still => {
                if !runs {
                    processes.start(server).await?;
                }
                processes.pause(server).await
            }
            Wanted::Running if !runs => processes.start(server).await,
            Wanted::Running if before == Wanted::Running => Ok(()),
            Wanted::Running => processes.resume(server).await,
        }
    }

    /// Waits until no other fault is deleting data, and blocks other wipes until the guard is dropped.
    pub async fn wipes_alone(&self) -> impl Sized {
        self.wiping.lock().await
    }

    async fn link(&self, effect: Effect, links: &dyn Links) -> Done {
        let mut broken = self.broken.lock().await;
        let is_wanted = self.has(effect);
        // Record the change even if it fails, as in `make_of`.
        let was = if is_wanted { !broken.insert(effect) } else { broken.remove(&effect) };
        match (effect, was, is_wanted) {
            (Effect::Off(server), false, true) => links.isolate(server).await,
            (Effect::Off(server), true, false) => links.rejoin(server).await,
            (Effect::Cut(from, to), false, true) => links.cut(from, to).await,
            (Effect::Cut(from, to), true, false) => links.heal(from, to).await,
            _ => Ok(()),
        }
    }

    /// Clears all effects. The caller must then restore all servers and links.
    pub async fn forget(&self) {
        locked(&self.counts).clear();
        self.broken.lock().await.clear();
        locked(&self.made).clear();
    }
}

async fn end(processes: &dyn Processes, server: usize, how: How) -> Done {
    match how {
        How::Stopped => processes.stop(server).await,
        How::Killed | How::Wiped => processes.kill(server).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strongest_effect_determines_the_server_state() {
        let all = InEffect::default();
        for effect in [Effect::Still(1), Effect::Down(1), Effect::Down(1), Effect::Still(2)] {
            all.add(effect);
        }
        let found = [1, 2, 3].map(|server| all.wanted(server));
        assert_eq!(found, [Wanted::Down, Wanted::Still, Wanted::Running]);
        all.take_away(Effect::Down(1));
        assert_eq!(all.wanted(1), Wanted::Down, "the other fault keeps the server down");
        all.take_away(Effect::Down(1));
        assert_eq!(all.wanted(1), Wanted::Still);
        all.take_away(Effect::Still(1));
        assert_eq!((all.wanted(1), all.is_any()), (Wanted::Running, true));
        all.take_away(Effect::Still(2));
        assert!(!all.is_any());
    }

    #[test]
    fn majority_check_counts_all_faults_and_fails_for_cuts() {
        let all = InEffect::default();
        all.add(Effect::Down(1));
        all.add(Effect::Still(1));
        let (three, five) = ([1, 2, 3], [1, 2, 3, 4, 5]);
        assert!(all.leaves_a_majority_of(&three) && all.links_are_whole());
        all.add(Effect::Off(2));
        assert!(!all.leaves_a_majority_of(&three) && all.leaves_a_majority_of(&five));
        assert!(all.leaves_a_majority_of(&[3, 4, 5]), "only observers are down");
        assert!(!all.links_are_whole());
        all.add(Effect::Cut(4, 5));
        assert!(!all.leaves_a_majority_of(&five));
    }
}
