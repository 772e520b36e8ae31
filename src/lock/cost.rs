//! Cost models that several strategies share, as exact functions of the number of contenders.
//!
//! The batch: contenders arrive one after the other, each arrival settles; then each holds once and
//! releases when all watches are set again.

use crate::catalog::{BatchCost, Events};
use crate::measure::RequestKind;
use crate::measure::RequestKind::{
    Create, Delete, Exists, GetChildren, GetChildrenWatch, GetDataWatch, Multi,
};

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

/// What it takes the first comer to make one missing directory, whose parent is there: a create that is refused
/// and one of a container, a look for the directory and one for its parent.
fn make_directories(cost: &mut BatchCost, directories: u64) {
    cost.requests.extend([(Create, 2 * directories), (Exists, 2 * directories)]);
    cost.refused.extend([(Create, directories), (Exists, directories)]);
}

/// Leases that are taken under a queue lock: whoever waits for a lease is alone, the others wait for the queue.
pub fn semaphore(leases: u64, n: u64) -> BatchCost {
    // Who must wait for a lease, and who of these must first wait in the inner queue.
    let for_lease = n.saturating_sub(leases);
    let in_queue = for_lease.saturating_sub(1);
    let straight = n - in_queue;
    let last_armed_is_releasers = n.min(leases) == 1;
    let queue_names = straight + (in_queue + 1).pow(2) - 1;
    let lease_names = straight * (straight + 1) / 2 + in_queue * (leases + 1) + for_lease * leases;
    let mut cost = BatchCost {
        requests: vec![
            (Create, 2 * n),
            (Delete, 2 * n),
            (GetChildren, n + in_queue),
            (GetDataWatch, in_queue),
            (GetChildrenWatch, n + for_lease),
            (Exists, n),
        ],
        // Each one's last watch on the leases is fired for nothing: by the next lease, or by the first release
        // after the last of them.
        events: Events { node_deleted: in_queue, children_changed: for_lease + n, ..Events::default() },
        to_waiters_by_release: for_lease + u64::from(!last_armed_is_releasers),
        to_releaser: u64::from(last_armed_is_releasers),
        by_arrival: n - 1,
        names_returned: Some(queue_names + lease_names),
        ..BatchCost::default()
    };
    make_directories(&mut cost, 2);
    cost
}

/// Queue locks taken in turn, by all in one order: the first has the queue, the others are free when it is held.
pub fn one_queue_after_another(members: u64, n: u64) -> BatchCost {
    let free = members - 1;
    let mut cost = predecessor_queue(GetDataWatch, n);
    cost.requests.extend([(Create, free * n), (Delete, free * n), (GetChildren, free * n)]);
    cost.names_returned = Some(n * n + free * n);
    make_directories(&mut cost, members);
    cost
}

/// Queue locks joined and left in one transaction each; every look is at all of them.
pub fn queues_at_once(members: u64, n: u64) -> BatchCost {
    BatchCost {
        // The first comer finds no directory: its multi and its lists are refused, and it makes them all.
        requests: vec![
            (Multi, 2 * n + 1),
            (GetChildren, members * 2 * n),
            (GetDataWatch, n - 1),
            (Exists, 2 * members),
            (Create, members),
        ],
        refused: vec![(Multi, 1), (GetChildren, members), (Exists, members)],
        written_by_multis: 2 * members * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        names_returned: Some(members * n * n),
        ..BatchCost::default()
    }
}
