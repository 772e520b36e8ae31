//! Curator's revocation: a waiter that has waited long enough asks the holder to release the lock.

use std::pin::Pin;
use std::time::Duration;

use crate::prelude::*;
use crate::queue::node::if_there;
use zklockbench_zk::sequence_of;

/// Data written into the holder's node to request a release of the lock.
const MESSAGE: &[u8] = b"__REVOKE__";
const ASK_AFTER: Duration = Duration::from_millis(200);

/// Holds can be revoked, but this suite's waiters never request a revocation.
pub const ALLOWED: &str = "allowed";
pub const ASKED: &str = "asked-for";

pub const PARAMS: [Param; 2] = [
    Param {
        name: "revocation",
        kind: ParamKind::Choice(&[
            Choice { word: "none", takes: &[] },
            Choice { word: ALLOWED, takes: &[] },
            Choice { word: ASKED, takes: &["revoke_after"] },
        ]),
        default: "none",
        doc: "`allowed`: a holder releases the lock at once on request. `asked-for`: waiters also request releases.",
    },
    Param {
        name: "revoke_after",
        kind: ParamKind::Duration,
        default: "200ms",
        doc: "Time a waiter waits before it first asks the holder to release the lock, and between further requests.",
    },
];

/// Revocation state of one owner, as holder and as waiter.
pub struct Revocation {
    lock: String,
    retry: Retry,
    /// Time a waiter waits before it asks for a release; `None` if it never asks.
    ask_after: Option<Duration>,
    pub ask_at: Option<Stamp>,
    own: Option<(String, Watch)>,
}

impl Revocation {
    /// Returns the revocation configured by the scenario; `None` if off.
    pub fn of(config: &LockConfig, retry: Retry) -> Option<Self> {
        let ask_after = match config.word("revocation") {
            Some(ASKED) => Some(config.duration("revoke_after", ASK_AFTER)),
            Some(ALLOWED) => None,
            _ => return None,
        };
        Some(Self { lock: config.path.clone(), retry, ask_after, ask_at: None, own: None })
    }

    pub async fn allow(&mut self, session: &Session, node: &QueueNode) -> Acquired<()> {
        self.own = None;
        let read = self.retry.around(|| session.get_data_and_watch(&node.path)).await;
        let (_, watch) = if_there(read)?.ok_or(Failure::OwnNodeMissing)?;
        self.own = Some((node.path.clone(), watch));
        self.wait_before_asking();
        Ok(())
    }

    fn wait_before_asking(&mut self) {
        self.ask_at = self.ask_after.map(|after| clock::now() + clock::micros(after));
    }

    /// Asks the first contender in the queue to release the lock, unless its node is gone.
    pub async fn ask(&mut self, session: &Session, own: &QueueNode) -> Result<(), Failure> {
        self.wait_before_asking();
        let names = self.retry.around(|| session.get_children(&self.lock)).await?;
        let first = names.iter().filter_map(|name| Some((sequence_of(name)?, name))).min();
        let Some((_, first)) = first.filter(|(sequence, _)| *sequence < own.sequence) else { return Ok(()) };
        let path = format!("{}/{first}", self.lock);
        if_there(self.retry.around(|| session.set_data(&path, MESSAGE)).await).map(drop)
    }

    /// Waits until the hold ends or a release is requested; returns whether a release was requested.
    pub async fn hold(&mut self, session: &Session, mut end: Pin<&mut dyn Future<Output = ()>>) -> bool {
        while let Some((path, watch)) = &mut self.own {
            let event = tokio::select! {
                biased;
                () = end.as_mut() => return false,
                event = watch.changed() => event,
            };
            if event != EventKind::DataChanged {
                break;
            }
            // The end of the hold does not interrupt this read, because a pending request must be awaited.
            let Ok((data, fresh)) = self.retry.around(|| session.get_data_and_watch(path)).await else {
                break;
            };
            *watch = fresh;
            if data == MESSAGE {
                return true;
            }
        }
        end.await;
        false
    }

    /// Ends the hold. Returns whether the watch on the contender's node is still armed. The watch is not
    /// removed.
    pub fn withdraw(&mut self) -> bool {
        self.own.take().is_some_and(|(_, watch)| watch.is_armed())
    }
}
