//! Cost models that several strategies share, as exact functions of the number of contenders.
//!
//! The batch: contenders arrive one after the other, each arrival settles; then each holds once and
//! releases when all watches are set again.

use crate::catalog::{BatchCost, Events};
use crate::measure::RequestKind;
use crate::measure::RequestKind::{Create, Delete, GetChildren, GetChildrenWatch, GetDataWatch};

/// A queue in which each waiter watches the one before it: two looks and one watch for all but the first.
pub fn predecessor_queue(watch: RequestKind, n: u64) -> BatchCost {
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildren, 2 * n - 1), (watch, n - 1)],
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names; the one that is woken with m left lists m.
        names_returned: Some(n * n),
        ..BatchCost::default()
    }
}

/// A queue in which each waiter watches the two before it and looks again when the farther one has gone.
pub fn two_back_queue(n: u64) -> BatchCost {
    // The first watches nobody, the second one node, each other two.
    let watches = (2 * n).saturating_sub(3);
    BatchCost {
        requests: vec![
            (Create, n),
            (Delete, n),
            (GetChildren, n + n.saturating_sub(2)),
            (GetDataWatch, watches),
        ],
        events: Events { node_deleted: watches, ..Events::default() },
        to_waiters_by_release: watches,
        // Arrival k lists k names. Each but the first two lists once more, when only the one before it is left
        // in front.
        names_returned: Some(if n == 1 { 1 } else { n * n - 1 }),
        ..BatchCost::default()
    }
}

/// A race for one node: each release wakes all waiters, all of them create, and all but one look again.
/// Events and names are left to the lock, which knows what it looks at.
pub fn race(look: RequestKind, n: u64) -> BatchCost {
    let lost = n * (n - 1) / 2;
    BatchCost {
        requests: vec![(Create, n + lost), (Delete, n), (look, lost)],
        refused: vec![(Create, lost)],
        // Arrival k loses once; release r wakes the n - r that wait, of whom one wins.
        to_waiters_by_release: lost,
        ..BatchCost::default()
    }
}

/// A queue in which each waiter watches the parent, and a holder does not look again: every arrival and every
/// release wakes all who wait, and each of them lists.
pub fn parent_queue(n: u64) -> BatchCost {
    let pairs = n * (n - 1) / 2;
    let squares_below_n = (n - 1) * n * (2 * n - 1) / 6;
    let (by_arrival, to_releaser, names_at_arrivals) = if n == 1 {
        (0, 1, 1)
    } else {
        // The first holder's watch is fired by the second arrival and not set again.
        (pairs - (n - 1) + 1, n - 1, 1 + (n - 1) * n * (n + 1) / 3)
    };
    let notifications = by_arrival + pairs + to_releaser;
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildrenWatch, notifications)],
        events: Events { children_changed: notifications, ..Events::default() },
        to_waiters_by_release: pairs,
        to_releaser,
        by_arrival,
        names_returned: Some(names_at_arrivals + squares_below_n),
        ..BatchCost::default()
    }
}
