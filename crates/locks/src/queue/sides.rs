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

    /// Writes a kind and a number, such as `R5`, as a name of a node.
    fn name(text: &str) -> String {
        match text[1..].parse::<i64>() {
            Ok(number) => format!("{}-{number:010}", &text[..1]),
            Err(_) => text.to_owned(),
        }
    }

    fn awaited(queue: &str, own: &str, watched: Watched) -> Result<Option<String>, Failure> {
        let mode = if own.starts_with('W') { Mode::Write } else { Mode::Read };
        let path = format!("/lock/{}", name(own));
        let node = QueueNode { path, sequence: own[1..].parse().unwrap(), czxid: 0 };
        let names: Names = queue.split(' ').map(name).collect();
        BARE.awaited(&node, mode, watched, &names)
    }

    #[test]
    fn writer_waits_for_the_node_before_it_and_reader_for_the_first_or_last_writer() {
        use Watched::{First, Last};
        let queue = "R5 W6 W3 R7 R4";
        for (queue, own, watched, expected) in [
            (queue, "W3", Last, None),
            (queue, "W6", First, Some("R5")),
            (queue, "W6", Last, Some("R5")),
            (queue, "R7", First, Some("W3")),
            (queue, "R7", Last, Some("W6")),
            (queue, "R5", Last, Some("W3")),
            ("R1 R2 W3", "R2", First, None),
            ("W1 R2", "R2", First, Some("W1")),
            ("R1 W2", "W2", Last, Some("R1")),
            // Nodes without a prefix of a reader or a writer are ignored.
            ("config n1 W3", "W3", Last, None),
        ] {
            let found = awaited(queue, own, watched);
            assert_eq!(found, Ok(expected.map(name)), "{own} in {queue}, {watched:?}");
        }
        // A contender that is missing from its list does not hold the lock.
        assert_eq!(awaited(queue, "R9", Last), Err(Failure::OwnNodeMissing));
    }

    #[test]
    fn no_contender_acquires_the_lock_once_the_counter_is_used_up() {
        for other in ["W2147483647", "R2147483647", "W-2147483648", "R-2147483648"] {
            for own in ["W2147483646", "R2147483646", "W2147483647", "R-2147483648"] {
                let found = awaited(&format!("{own} {other}"), own, Watched::First);
                assert_eq!(found, Err(Failure::CounterUsedUp("/lock".into())), "{own} next to {other}");
            }
        }
    }
}
