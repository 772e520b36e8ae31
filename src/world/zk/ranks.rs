//! Which place a waiter has among those that one and the same change wakes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::arrival::{Arm, Arrival, EventKind, sequence_of};
use crate::words::clock::Stamp;

/// Changes whose waiters are counted at the same time. An older one would begin again at 1.
const REMEMBERED: usize = 1 << 10;

/// Counts, change by change of one lock, the waiters that have heard of it. Shared by all contenders of a process, and
/// lock-free.
///
/// Places are taken in the order in which the waiters run, which on one generator thread is that of arrival. Where several
/// threads hear of a change at the same time, it can't be told who was first, and the order is that of this count.
#[derive(Debug)]
pub struct Ranks {
    latest_release: AtomicU64,
    /// In each the lower half of the change's key, and how many have heard of that.
    heard: Box<[AtomicU64]>,
}

impl Default for Ranks {
    fn default() -> Self {
        let heard = (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect();
        Self { latest_release: AtomicU64::new(0), heard }
    }
}

impl Ranks {
    pub fn released(&self, now: Stamp) {
        self.latest_release.fetch_max(now, Ordering::Relaxed);
    }

    /// A waiter hears of a change: returns its place among those that hear of the same, from 1.
    pub fn next(&self, arrival: &Arrival) -> u32 {
        let key = self.key(arrival);
        let changed = u64::from(key as u32) << 32;
        let add_one = |heard: u64| if heard & !0xffff_ffff == changed { heard + 1 } else { changed + 1 };
        let slot = &self.heard[key as usize % REMEMBERED];
        let before = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |heard| Some(add_one(heard)));
        add_one(before.unwrap_or_else(|heard| heard)) as u32
    }

    /// What all who hear of the same change have in common: a list that is out of date, a node that is gone or, where
    /// neither has a number, the latest release.
    fn key(&self, arrival: &Arrival) -> u64 {
        let number = match arrival.kind {
            EventKind::ChildrenChanged => arrival.armed.as_ref().and_then(Arm::change_number),
            EventKind::NodeDeleted => sequence_of(&arrival.path),
            _ => None,
        };
        number.map_or_else(|| self.latest_release.load(Ordering::Relaxed), i64::cast_unsigned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(kind: EventKind, path: &str, listed: Option<&[&str]>) -> Arrival {
        let armed = listed.map(|listed| Arm::of_list(&listed.iter().collect()));
        Arrival { kind, path: path.into(), at: 0, armed, zxid: -1, awaited: true, rank: None }
    }

    #[test]
    fn whoever_watches_the_same_list_or_node_is_counted_together_and_nobody_else() {
        let ranks = Ranks::default();
        let list = |names: &[&str]| ranks.next(&heard(EventKind::ChildrenChanged, "/l", Some(names)));
        let (first, second) = (["n-0000000003", "n-0000000004"], ["n-0000000004"]);
        // One waiter still hears of the first change when another has heard of the second
        assert_eq!([list(&first), list(&first), list(&second), list(&first), list(&second)], [1, 2, 1, 3, 2]);
        let ranks = Ranks::default();
        let node = |path| ranks.next(&heard(EventKind::NodeDeleted, path, None));
        assert_eq!([node("/l/n-0000000007"), node("/l/n-0000000008"), node("/l/n-0000000007")], [1, 1, 2]);
    }

    #[test]
    fn where_nothing_has_a_number_the_latest_release_is_what_is_heard_of() {
        let ranks = Ranks::default();
        let node = || ranks.next(&heard(EventKind::NodeDeleted, "/l/lock", None));
        ranks.released(5_000_000_000);
        assert_eq!([node(), node(), node()], [1, 2, 3]);
        ranks.released(5_000_001_024);
        assert_eq!([node(), node()], [1, 2], "another release begins again, even in the same slot");
    }
}
