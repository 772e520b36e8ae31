//! What faults are done to, as they see it.

use std::sync::Arc;
use std::time::Duration;

use super::admission::Admission;
use super::crash_orders::{CrashOrder, Doing};
use super::in_effect::{Effect, How, InEffect};
use crate::words::clock::Stamp;
use crate::world::ensemble::{Done, Links, Processes};
use crate::world::proxy::Proxy;
use crate::world::zk::gate::Gate;
use crate::world::zk::{SessionKey, Target};

/// The contenders of a trial, by number.
pub trait Contenders: Send + Sync {
    /// All of them. Of a run by several workers, those of this one.
    fn all(&self) -> Vec<usize>;
    /// Those that hold a lock at this moment.
    fn inside(&self) -> Vec<usize>;
    /// Those that wait for one, the longest first.
    fn waiting(&self) -> Vec<usize>;
    fn waits_since(&self, contender: usize) -> Option<Stamp>;
    /// What stands before all that one runs.
    fn gate(&self, contender: usize) -> Arc<Gate>;
    /// By which one is let in to ask for the lock.
    fn admission(&self, contender: usize) -> Arc<Admission>;
    fn session(&self, contender: usize) -> Option<SessionKey>;
    /// That session of it is about to be closed from outside.
    fn is_being_closed(&self, contender: usize, session: i64);
    /// A server has said that this session of it is over.
    fn was_closed(&self, contender: usize, session: i64);
    /// The clock by which it keeps its deadlines jumps ahead.
    fn clock_jumps(&self, contender: usize, by: Duration);
    /// Orders it to crash in the middle of what it does, once it does that.
    fn crash(&self, contender: usize, doing: Doing) -> CrashOrder;
    /// Locks acquired by all of them in the measured phase; of a run by several workers, as many as all of these have if they
    /// share alike.
    fn acquired(&self) -> u64;
}

/// All that a fault may be done to.
pub struct FaultReach<'a> {
    pub contenders: &'a dyn Contenders,
    /// The ensemble, by another connection than theirs.
    pub target: &'a Target,
    /// The servers' processes, where they are ours.
    pub processes: Option<&'a dyn Processes>,
    /// The links between servers, where they live apart.
    pub links: Option<&'a dyn Links>,
    pub proxy: Option<&'a Proxy>,
    pub in_effect: InEffect,
}

impl<'a> FaultReach<'a> {
    pub fn processes(&self) -> Result<&'a dyn Processes, String> {
        self.processes.ok_or_else(|| "the ensemble was not started for this run".into())
    }

    pub fn links(&self) -> Result<&'a dyn Links, String> {
        self.links.ok_or_else(|| "the servers share one network".into())
    }

    pub fn proxy(&self) -> Result<&'a Proxy, String> {
        self.proxy.ok_or_else(|| "nothing stands between contenders and servers".into())
    }

    /// Does this, unless another fault has done it already. It is to be ended, also after a failure.
    pub async fn begin(&self, effect: Effect) -> Done {
        self.in_effect.add(effect);
        self.bring_about(effect, How::Killed).await
    }

    /// Takes a server down in that way, unless it is down already. It is to be ended, also after a failure.
    pub async fn begin_down(&self, server: usize, how: How) -> Done {
        self.in_effect.add(Effect::Down(server));
        self.bring_about(Effect::Down(server), how).await
    }

    /// Undoes this, unless another fault does it still.
    pub async fn end(&self, effect: Effect) -> Done {
        self.in_effect.take_away(effect);
        self.bring_about(effect, How::Killed).await
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
