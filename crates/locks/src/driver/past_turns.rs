//! Holds that a process has ended by itself, by its stamps. Where acquires are sent ahead their answers come many at a time, and
//! each contender looks at its own: what a hold came behind is found here, in whatever order they look.

use std::collections::BTreeMap;

use zklockbench_core::clock::Stamp;

/// So many are kept. One is asked for when it becomes known, or as soon as its contender gets round to it.
const KEPT: usize = 4_096;

#[derive(Debug, Clone, Copy)]
pub struct PastTurn {
    /// When the library was called to take the lock.
    pub called: Stamp,
    /// When it was called to release it.
    pub left: Stamp,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Behind {
    /// When the lock was released before; 0 for never.
    pub released: Stamp,
    /// When the one before had entered.
    pub entered: Option<Stamp>,
    /// Whether one that had called later was served before it.
    pub overtaken: bool,
    /// For how long others held it meanwhile.
    pub kept_out_us: u64,
}

/// The latest holds, by when they began.
#[derive(Debug, Default)]
pub struct PastTurns {
    latest: BTreeMap<Stamp, PastTurn>,
    /// How many were told after others that had begun later.
    pub out_of_order: u64,
}

impl PastTurns {
    pub fn add(&mut self, entered: Stamp, turn: PastTurn) {
        self.out_of_order += u64::from(self.latest.last_key_value().is_some_and(|(last, _)| *last > entered));
        self.latest.insert(entered, turn);
        while self.latest.len() > KEPT {
            self.latest.pop_first();
        }
    }

    /// What a hold came behind that began then, after a call at that time.
    pub fn behind(&self, called: Stamp, entered: Stamp) -> Behind {
        let mut before = self.latest.range(..entered).rev().peekable();
        let mut behind = before.peek().map_or_else(Behind::default, |(entered, turn)| Behind {
            released: turn.left,
            entered: Some(**entered),
            ..Behind::default()
        });
        // Nobody has called later and entered before that call.
        for (entered, turn) in before.take_while(|(entered, _)| **entered > called) {
            behind.overtaken |= turn.called > called;
            behind.kept_out_us += turn.left.saturating_sub(*entered);
        }
        behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_hold_came_behind_is_found_whatever_the_order_in_which_holds_become_known() {
        let turns = [(20, PastTurn { called: 1, left: 25 }), (40, PastTurn { called: 5, left: 41 })];
        for order in [[0, 1], [1, 0]] {
            let mut past = PastTurns::default();
            order.iter().for_each(|at| past.add(turns[*at].0, turns[*at].1));
            assert_eq!(past.behind(1, 20), Behind::default());
            let second = past.behind(5, 40);
            assert_eq!((second.released, second.entered, second.kept_out_us), (25, Some(20), 5), "{order:?}");
            assert!(!second.overtaken && past.behind(3, 50).overtaken, "{order:?}");
            assert_eq!(
                past.behind(30, 50),
                Behind { released: 41, entered: Some(40), overtaken: false, kept_out_us: 1 }
            );
            assert_eq!(past.out_of_order, u64::from(order == [1, 0]));
        }
    }

    #[test]
    fn only_the_latest_are_kept() {
        let mut past = PastTurns::default();
        (0..3 * KEPT as u64).for_each(|at| past.add(10 * at, PastTurn { called: 0, left: 10 * at + 1 }));
        assert_eq!((past.latest.len(), past.behind(0, 10).entered), (KEPT, None));
    }
}
