//! A lock-protected resource that rejects writes with a token older than the newest token so far.
//!
//! Every holder writes when it enters and before it leaves. A lock cannot exclude a holder that has not yet
//! noticed its session's expiry, but the resource can.
//!
//! Source: Kleppmann, "How to do distributed locking" (2016); Junqueira, "Note on fencing and distributed
//! locks" (2016): the first write with a new token excludes the old holder.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use zklockbench_core::locked::locked;
use zklockbench_locks::{Held, QueueNode};
use zklockbench_record::FencingCounts;

/// Token of a hold: the identity of its node, and its rank among the holds through that node.
type FenceToken = (i64, u32);

/// A resource with two fences: by the transaction that created the holder's node, and by the node's number.
#[derive(Debug, Default)]
pub struct Fence {
    newest: Mutex<Newest>,
    writes: AtomicU64,
    stale: AtomicU64,
    stale_rejected: AtomicU64,
    stale_rejected_by_number: AtomicU64,
    sound_rejected: AtomicU64,
}

#[derive(Debug)]
struct Newest {
    token: FenceToken,
    number: FenceToken,
}

impl Default for Newest {
    fn default() -> Self {
        Self { token: (i64::MIN, 0), number: (i64::MIN, 0) }
    }
}

/// Returns whether `own` is older than the newest token; if not, `own` becomes the newest.
fn is_older(newest: &mut FenceToken, own: FenceToken) -> bool {
    let is_older = *newest > own;
    *newest = own.max(*newest);
    is_older
}

impl Fence {
    /// Records a holder's write. Returns whether the write is accepted; `None` if the holder has no token. `is_stale`
    /// means that another contender entered later, so the write would overwrite that contender's data.
    pub fn write(&self, held: &Held, is_stale: bool) -> Option<bool> {
        let node = held.node.as_ref()?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        let (rejected, rejected_by_number) = {
            let mut newest = locked(&self.newest);
            let rejected = is_older(&mut newest.token, (token(node), held.turn));
            (rejected, is_older(&mut newest.number, (node.sequence, held.turn)))
        };
        if is_stale {
            self.stale.fetch_add(1, Ordering::Relaxed);
            self.stale_rejected.fetch_add(u64::from(rejected), Ordering::Relaxed);
            self.stale_rejected_by_number.fetch_add(u64::from(rejected_by_number), Ordering::Relaxed);
        } else {
            self.sound_rejected.fetch_add(u64::from(rejected), Ordering::Relaxed);
        }
        Some(!rejected)
    }

    pub fn counts(&self) -> FencingCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        FencingCounts {
            writes: of(&self.writes),
            stale: of(&self.stale),
            stale_rejected: of(&self.stale_rejected),
            stale_rejected_by_number: of(&self.stale_rejected_by_number),
            sound_rejected: of(&self.sound_rejected),
        }
    }
}

/// Returns a holder's token without the rank: its node's creation zxid or, if that is unknown, its node's number.
pub fn token(node: &QueueNode) -> i64 {
    if node.czxid > 0 { node.czxid } else { node.sequence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(sequence: i64) -> Held {
        Held::by(QueueNode { path: format!("/l/n-{sequence:010}"), sequence, czxid: 100 + sequence })
    }

    #[test]
    fn fence_accepts_the_newest_holder_and_rejects_older_holders() {
        let fence = Fence::default();
        fence.write(&held(1), false);
        fence.write(&held(1), false);
        fence.write(&held(2), false);
        fence.write(&held(1), true);
        let counts = fence.counts();
        assert_eq!((counts.writes, counts.stale, counts.stale_rejected, counts.sound_rejected), (4, 1, 1, 0));
        assert_eq!(counts.stale_rejected_by_number, 1);
    }

    #[test]
    fn old_holder_may_write_until_the_new_holder_writes() {
        let fence = Fence::default();
        fence.write(&held(1), false);
        fence.write(&held(1), true);
        assert_eq!(fence.counts().stale_rejected, 0);
    }

    #[test]
    fn later_hold_with_the_same_node_has_a_newer_token() {
        let fence = Fence::default();
        let turn = |turn| Held { turn, ..held(1) };
        assert_eq!(fence.write(&turn(0), false), Some(true));
        assert_eq!(fence.write(&turn(1), false), Some(true));
        assert_eq!(fence.write(&turn(0), true), Some(false));
        assert_eq!(fence.write(&held(2), false), Some(true));
        assert_eq!(fence.write(&turn(9), true), Some(false));
        let counts = fence.counts();
        assert_eq!(
            (counts.stale_rejected, counts.stale_rejected_by_number, counts.sound_rejected),
            (2, 2, 0)
        );
    }

    #[test]
    fn holder_without_a_node_has_no_token() {
        let fence = Fence::default();
        fence.write(&Held::of(None), false);
        assert_eq!(fence.counts(), FencingCounts::default());
    }
}
