//! A queue of readers' and writers' nodes: which nodes wait for which.
//!
//! There is one queue, in the order of numbers. A writer waits for the node just before it, and acquires the
//! lock when there is none. A reader acquires the lock when no writer is ahead. A waiting reader watches the
//! first or the last writer ahead, depending on the lock.
//!
//! Exclusion: by the monotone lower set (see `node`), a list on the contender's own session shows every
//! node ahead that still exists. Suppose a writer and another contender hold the lock at the same time.
//! The contender with the higher number saw a list without the other node, so that node was already gone.
//! Progress: each waiter watches a node ahead of it, and the lowest node waits for no other node.

use crate::QueueNode;
use zklockbench_core::catalog::{Guarantees, Holders, Mode};
use zklockbench_zk::{Failure, Names};

/// Guarantees of a lock with a read and a write side: order of arrival, with readers together.
pub const READ_WRITE: Guarantees = Guarantees { holders: Holders::ReadersOrOneWriter, ..Guarantees::QUEUE };

/// Writer that a waiting reader watches, among the writers ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    First,
    Last,
}

/// Prefixes of the two kinds of nodes, before the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    pub read: &'static str,
    pub write: &'static str,
}

/// Prefixes of the shared-lock article.
pub const BARE: Sides = Sides { read: "R-", write: "W-" };

impl Sides {
    pub fn of(self, mode: Mode) -> &'static str {
        match mode {
            Mode::Read => self.read,
            Mode::Write => self.write,
        }
    }

    /// Returns the node that `node` must wait for and watch; `None` if the lock is acquired.
    pub fn awaited(
        self,
        node: &QueueNode,
        mode: Mode,
        watched: Watched,
        names: &Names,
    ) -> Result<Option<String>, Failure> {
        let before = node.others(names)?.filter(|(distance, name)| *distance < 0 && self.matters(name, mode));
        let awaited = match (mode, watched) {
            (Mode::Read, Watched::First) => before.min_by_key(|(distance, _)| *distance),
            _ => before.max_by_key(|(distance, _)| *distance),
        };
        Ok(awaited.map(|(_, name)| name.to_owned()))
    }

    /// Returns whether a contender must wait for a node with this name: a writer for every queue node, a
    /// reader for writers only.
    fn matters(self, name: &str, mode: Mode) -> bool {
        let prefix = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        prefix.ends_with(self.write) || mode == Mode::Write && prefix.ends_with(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDES: Sides = BARE;

    fn name(kind: char, sequence: i64) -> String {
        format!("{kind}-{sequence:010}")
    }

    fn node(kind: char, sequence: i64) -> QueueNode {
        QueueNode { path: format!("/lock/{}", name(kind, sequence)), sequence, czxid: 0 }
    }

    /// Returns the queue W R R W R, numbered from 3, in arbitrary order.
    fn queue() -> Names {
        [('R', 5), ('W', 6), ('W', 3), ('R', 7), ('R', 4)]
            .map(|(kind, number)| name(kind, number))
            .iter()
            .collect()
    }

    fn awaited(kind: char, sequence: i64, watched: Watched) -> Option<String> {
        let mode = if kind == 'W' { Mode::Write } else { Mode::Read };
        SIDES.awaited(&node(kind, sequence), mode, watched, &queue()).unwrap()
    }

    #[test]
    fn writer_waits_for_the_node_just_before_it() {
        assert_eq!(awaited('W', 3, Watched::Last), None);
        for watched in [Watched::First, Watched::Last] {
            assert_eq!(awaited('W', 6, watched), Some(name('R', 5)));
        }
    }

    #[test]
    fn reader_behind_two_writers_watches_the_first_or_the_last() {
        assert_eq!(awaited('R', 7, Watched::First), Some(name('W', 3)));
        assert_eq!(awaited('R', 7, Watched::Last), Some(name('W', 6)));
        assert_eq!(awaited('R', 5, Watched::Last), Some(name('W', 3)));
    }

    #[test]
    fn no_contender_acquires_the_lock_once_the_counter_is_used_up() {
        let (end, below) = (i64::from(i32::MAX), i64::from(i32::MIN));
        for other in [name('W', end), name('R', end), name('W', below), name('R', below)] {
            for (kind, sequence, mode) in [
                ('W', end - 1, Mode::Write),
                ('R', end - 1, Mode::Read),
                ('W', end, Mode::Write),
                ('R', below, Mode::Read),
            ] {
                let queue = [name(kind, sequence), other.clone()].iter().collect();
                let awaited = SIDES.awaited(&node(kind, sequence), mode, Watched::First, &queue);
                let expected = Err(Failure::CounterUsedUp("/lock".into()));
                assert_eq!(awaited, expected, "{kind} {sequence} next to {other}");
            }
        }
    }

    #[test]
    fn reader_behind_only_readers_does_not_wait() {
        let names = [name('R', 1), name('R', 2), name('W', 3)].iter().collect();
        let awaited = SIDES.awaited(&node('R', 2), Mode::Read, Watched::First, &names);
        assert_eq!(awaited.unwrap(), None);
    }

    #[test]
    fn contender_missing_from_its_list_does_not_hold_the_lock() {
        let awaited = SIDES.awaited(&node('R', 9), Mode::Read, Watched::Last, &queue());
        assert_eq!(awaited, Err(Failure::OwnNodeMissing));
    }

    #[test]
    fn node_prefix_distinguishes_readers_from_writers() {
        for mode in [Mode::Read, Mode::Write] {
            let first = format!("{}0000000001", SIDES.of(mode));
            let names = [first.clone(), name('R', 2)].iter().collect();
            let awaited = SIDES.awaited(&node('R', 2), Mode::Read, Watched::First, &names).unwrap();
            assert_eq!(awaited, (mode == Mode::Write).then_some(first), "a reader waits for writers only");
        }
        let names = [format!("{}0000000001", SIDES.of(Mode::Read)), name('W', 2)].iter().collect();
        let awaited = SIDES.awaited(&node('W', 2), Mode::Write, Watched::Last, &names).unwrap();
        assert_eq!(awaited.as_deref(), Some("R-0000000001"), "a writer also waits for readers");
    }

    #[test]
    fn nodes_without_a_reader_or_writer_prefix_are_ignored() {
        let names = ["config".to_owned(), "n-0000000001".to_owned(), name('W', 3)].iter().collect();
        assert_eq!(SIDES.awaited(&node('W', 3), Mode::Write, Watched::Last, &names).unwrap(), None);
    }
}
