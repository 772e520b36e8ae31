//! A lock-protected resource that rejects writes with a token older than the newest token so far.
//!
//! Every holder writes when it enters and before it leaves. A lock cannot exclude a holder that has not yet
//! noticed its session's expiry, but the resource can.
//!
//! Source: Kleppmann, "How to do distributed locking" (2016); Junqueira, "Note on fencing and distributed
//! locks" (2016): the first write with a new token excludes the old holder.

use std::sync::Mutex;

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_locks::{Held, QueueNode};
use zklockbench_record::FencingCounts;

/// Token of a hold: the identity of its node, and its rank among the holds through that node.
type FenceToken = (i64, u32);

/// A resource with two fences: by the transaction that created the holder's node, and by the node's number.
#[derive(Debug, Default)]
pub struct Fence(Mutex<Newest>);

/// The newest values among all writes so far, and the counts of these writes.
#[derive(Debug)]
struct Newest {
    token: FenceToken,
    number: FenceToken,
    /// Entry time of the writer that entered last.
    entered: Stamp,
    written: Stamp,
    counts: FencingCounts,
}

impl Default for Newest {
    fn default() -> Self {
        let (oldest, counts) = ((i64::MIN, 0), FencingCounts::default());
        Self { token: oldest, number: oldest, entered: 0, written: 0, counts }
    }
}

/// A write that the resource answered. No two writes have the same time, and their times follow the order of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FencedWrite {
    pub at: Stamp,
    pub accepted: bool,
}

/// Returns whether `own` is older than the newest value; if not, `own` becomes the newest.
fn is_older<T: Ord + Copy>(newest: &mut T, own: T) -> bool {
    let is_older = *newest > own;
    *newest = own.max(*newest);
    is_older
}

impl Fence {
    /// Records a write of a holder that entered at `entered`. The write is stale if a holder that entered later
    /// has already written. Returns `None` if the holder has no token.
    pub fn write(&self, held: &Held, entered: Stamp) -> Option<FencedWrite> {
        let node = held.node.as_ref()?;
        // One lock for all decisions and the time: otherwise, another holder's write could come between them.
        let mut newest = locked(&self.0);
        let rejected = is_older(&mut newest.token, (token(node), held.turn));
        let rejected_by_number = is_older(&mut newest.number, (node.sequence, held.turn));
        let is_stale = is_older(&mut newest.entered, entered);
        newest.written = clock::now().max(newest.written + 1);
        newest.counts += FencingCounts {
            writes: 1,
            stale: is_stale.into(),
            stale_rejected: (is_stale && rejected).into(),
            stale_rejected_by_number: (is_stale && rejected_by_number).into(),
            sound_rejected: (!is_stale && rejected).into(),
        };
        Some(FencedWrite { at: newest.written, accepted: !rejected })
    }

    pub fn counts(&self) -> FencingCounts {
        locked(&self.0).counts
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

    fn is_accepted(fence: &Fence, held: &Held, entered: Stamp) -> bool {
        fence.write(held, entered).expect("the holder has a token").accepted
    }

    #[test]
    fn fence_accepts_the_newest_holder_and_rejects_older_holders() {
        let fence = Fence::default();
        let writes = [(1, 10), (1, 10), (2, 20), (1, 10)];
        let accepted = writes.map(|(sequence, entered)| is_accepted(&fence, &held(sequence), entered));
        assert_eq!(accepted, [true, true, true, false]);
        let counts = fence.counts();
        assert_eq!((counts.writes, counts.stale, counts.stale_rejected, counts.sound_rejected), (4, 1, 1, 0));
        assert_eq!(counts.stale_rejected_by_number, 1);
    }

    #[test]
    fn old_token_of_a_later_holder_is_a_sound_write_that_is_rejected() {
        let fence = Fence::default();
        assert!(is_accepted(&fence, &held(2), 10));
        assert!(!is_accepted(&fence, &held(1), 20));
        assert!(is_accepted(&fence, &held(2), 10), "no token prevents this stale write");
        let counts = fence.counts();
        assert_eq!((counts.stale, counts.stale_rejected, counts.sound_rejected), (1, 0, 1));
    }

    #[test]
    fn later_hold_with_the_same_node_has_a_newer_token() {
        let fence = Fence::default();
        let turn = |turn| Held { turn, ..held(1) };
        let writes = [(turn(0), 10), (turn(1), 20), (turn(0), 10), (held(2), 30), (turn(9), 25)];
        let accepted = writes.map(|(held, entered)| is_accepted(&fence, &held, entered));
        assert_eq!(accepted, [true, true, false, true, false]);
        let counts = fence.counts();
        assert_eq!((counts.stale_rejected, counts.stale_rejected_by_number), (2, 2));
        assert_eq!(counts.sound_rejected, 0);
    }

    #[test]
    fn concurrent_writes_are_classified_and_timed_in_the_order_of_their_answers() {
        // Given holders that all write at the same time, each later one with a newer token
        let fence = Fence::default();
        let mut writes: Vec<(FencedWrite, i64)> = std::thread::scope(|scope| {
            let writers: Vec<_> = (1..=8)
                .map(|number: i64| {
                    let fence = &fence;
                    scope.spawn(move || {
                        let write =
                            |_| (fence.write(&held(number), number as Stamp).expect("a token"), number);
                        (0..500).map(write).collect::<Vec<_>>()
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().expect("no writer panics")).collect()
        });
        // Then exactly the stale writes are rejected, and no accepted write follows one with a newer token
        let counts = fence.counts();
        assert_eq!((counts.writes, counts.stale_rejected, counts.sound_rejected), (4_000, counts.stale, 0));
        writes.sort_unstable_by_key(|(write, _)| write.at);
        let accepted = writes.iter().filter(|(write, _)| write.accepted);
        assert!(accepted.is_sorted_by_key(|(_, number)| *number));
    }

    #[test]
    fn holder_without_a_node_has_no_token() {
        let fence = Fence::default();
        assert_eq!(fence.write(&Held::of(None), 10), None);
        assert_eq!(fence.counts(), FencingCounts::default());
    }
}
