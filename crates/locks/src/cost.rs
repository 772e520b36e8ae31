//! Cost models shared by several strategies, as exact functions of the number of contenders.
//!
//! In a batch, contenders arrive one after another, and each arrival settles before the next. Each contender
//! then holds the lock once, and releases it when all watches are set again.

use std::collections::VecDeque;

use zklockbench_core::catalog::{BatchCost, Events};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::measure::RequestKind::{
    CheckWatches, Create, Delete, Exists, GetChildren, GetChildrenWatch, GetDataWatch, Multi,
};

/// Computes the cost of a queue in which each waiter watches its predecessor. All but the first contender
/// list twice and set one watch.
pub fn predecessor_queue(watch: RequestKind, n: u64) -> BatchCost {
    // Arrival k lists k names; a waiter that is woken with m nodes left lists m.
    BatchCost { names_returned: Some(n * n), ..queue(watch, n, n - 1) }
}

/// Computes the cost of a queue of `nodes` nodes, of which `contended` are not first when created.
fn queue(watch: RequestKind, nodes: u64, contended: u64) -> BatchCost {
    BatchCost {
        requests: vec![
            (Create, nodes),
            (Delete, nodes),
            (GetChildren, nodes + contended),
            (watch, contended),
        ],
        events: Events { node_deleted: contended, ..Events::default() },
        to_waiters_by_release: contended,
        ..BatchCost::default()
    }
}

/// Computes the cost of a queue in which each waiter watches the two nodes ahead, and lists again when the
/// farther node is deleted.
pub fn two_back_queue(n: u64) -> BatchCost {
    // The first contender watches no nodes, the second watches one, and all others watch two.
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
        // Arrival k lists k names. All but the first two list again, when only one node is left ahead of them.
        names_returned: Some(if n == 1 { 1 } else { n * n - 1 }),
        ..BatchCost::default()
    }
}

/// Computes the cost of a queue like [`predecessor_queue`] in which the `size` contenders of each process share
/// one node at a time. Up to `turns` contenders hold the lock with one node. Processes alternate, because each
/// creates its next node after releasing the last one.
pub fn processes_in_turns(n: u64, size: u64, turns: u64) -> BatchCost {
    let mut left: Vec<u64> = (0..n.div_ceil(size)).map(|process| size.min(n - process * size)).collect();
    let mut waiting: VecDeque<usize> = (0..left.len()).collect();
    // All nodes but the first are created behind another node.
    let (mut nodes, mut contended) = (0, waiting.len().saturating_sub(1) as u64);
    while let Some(process) = waiting.pop_front() {
        nodes += 1;
        left[process] = left[process].saturating_sub(turns);
        if left[process] > 0 {
            contended += u64::from(!waiting.is_empty());
            waiting.push_back(process);
        }
    }
    queue(GetDataWatch, nodes, contended)
}

/// Computes the cost of a queue joined by count: like [`predecessor_queue`], but the first `without_a_list`
/// contenders need no list.
pub fn counted_queue(watch: RequestKind, without_a_list: u64, n: u64) -> BatchCost {
    let listing = n.saturating_sub(without_a_list);
    // Arrival k lists k names; when woken, it lists the n - k + 1 names that are left, starting with its own.
    let names_returned = Some(listing * (n + 1));
    BatchCost { names_returned, ..joined_by_count(predecessor_queue(watch, n), 2 * (n - listing) - 1, n) }
}

/// Like [`two_back_queue`], joined by count: all but the first contender list after the join.
pub fn counted_two_back_queue(n: u64) -> BatchCost {
    let created = two_back_queue(n);
    let names_returned = created.names_returned.map(|names| names - 1);
    BatchCost { names_returned, ..joined_by_count(created, 1, n) }
}

/// Computes the cost of a semaphore based on a queue. A waiter watches as many nodes ahead as there are
/// leases, and lists again at the first deletion among them.
pub fn queue_semaphore(leases: u64, n: u64) -> BatchCost {
    let waiting = n.saturating_sub(leases);
    // Arrival k lists k names; the waiter that release r admits lists all names left at that time.
    let names = n * (n + 1) / 2 + (1..=waiting).map(|release| n - release).sum::<u64>();
    BatchCost {
        requests: vec![
            (Create, n),
            (Delete, n),
            (GetChildren, n + waiting),
            (GetDataWatch, leases * waiting),
        ],
        // The first watch of each waiter wakes the waiter; the others fire while the waiter holds a lease.
        events: Events { node_deleted: leases * waiting, ..Events::default() },
        to_waiters_by_release: leases * waiting,
        names_returned: Some(names),
        ..BatchCost::default()
    }
}

/// Like [`queue_semaphore`], joined by count: contenders that arrive while leases are free need no list.
pub fn counted_semaphore(leases: u64, n: u64) -> BatchCost {
    let straight = n.min(leases);
    let listed = queue_semaphore(leases, n);
    BatchCost {
        names_returned: listed.names_returned.map(|names| names - straight * (straight + 1) / 2),
        ..joined_by_count(listed, straight, n)
    }
}

/// Converts the cost of a queue joined by creates to the cost of one joined by multis, which save
/// `lists_saved` lists.
fn joined_by_count(created: BatchCost, lists_saved: u64, n: u64) -> BatchCost {
    let requests = created.requests.iter().map(|(kind, count)| match kind {
        Create => (Multi, *count),
        GetChildren => (GetChildren, count - lists_saved),
        kind => (*kind, *count),
    });
    BatchCost { requests: requests.collect(), written_by_multis: 2 * n, ..created }
}

/// Computes the cost of a race for one node: each release wakes all waiters, all of them create, and all but
/// the winner read again. Callers add events and names, which depend on the kind of read.
pub fn race(look: RequestKind, n: u64) -> BatchCost {
    let lost = n * (n - 1) / 2;
    BatchCost {
        requests: vec![(Create, n + lost), (Delete, n), (look, lost)],
        refused: vec![(Create, lost)],
        // Release r wakes n - r waiters, one of which wins.
        to_waiters_by_release: lost,
        ..BatchCost::default()
    }
}

/// Computes the cost of a queue in which each waiter watches the parent directory and holders do not list again.
/// Every arrival and every release wakes all waiters, and each of them lists.
pub fn parent_queue(n: u64) -> BatchCost {
    let pairs = n * (n - 1) / 2;
    let squares_below_n = (n - 1) * n * (2 * n - 1) / 6;
    let (by_arrival, to_releaser, names_at_arrivals) = if n == 1 {
        (0, 1, 1)
    } else {
        // The second arrival fires the first holder's watch, which is not set again.
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

/// Adds the first contender's cost of creating missing directories whose parent exists. Each directory costs
/// a refused create, an exists of the directory and of its parent, and a create of the container.
fn make_directories(cost: &mut BatchCost, directories: u64) {
    cost.requests.extend([(Create, 2 * directories), (Exists, 2 * directories)]);
    cost.refused.extend([(Create, directories), (Exists, directories)]);
}

/// Computes the cost of leases taken under a queue lock: one contender waits for a lease, all others wait in
/// the queue.
pub fn semaphore(leases: u64, n: u64) -> BatchCost {
    // Contenders that must wait for a lease, and those among them that must first wait in the inner queue.
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
            (CheckWatches, n),
        ],
        // Each contender's last watch on the leases fires needlessly: at the next lease's creation or, for
        // the last lease, at the first release.
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

/// Computes the cost of queue locks taken one after another in the same order: only the first lock has
/// waiters, all others are free.
pub fn one_queue_after_another(members: u64, n: u64) -> BatchCost {
    let free = members - 1;
    let mut cost = predecessor_queue(GetDataWatch, n);
    cost.requests.extend([(Create, free * n), (Delete, free * n), (GetChildren, free * n)]);
    cost.names_returned = Some(n * n + free * n);
    make_directories(&mut cost, members);
    cost
}

/// Computes the cost of queue locks that are joined in one transaction and left in another; every check lists
/// all of them.
pub fn queues_at_once(members: u64, n: u64) -> BatchCost {
    BatchCost {
        // The first contender finds no directory: its multi and its lists are refused, and it creates all directories.
        requests: vec![
            (Multi, 2 * n + 1),
            (GetChildren, members * 2 * n),
            (GetDataWatch, n - 1),
            (Exists, 2 * members),
            (Create, members),
        ],
        refused: vec![(Multi, 1), (GetChildren, members), (Exists, members)],
        // A join also sets a directory's data.
        written_by_multis: (2 * members + 1) * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        names_returned: Some(members * n * n),
        ..BatchCost::default()
    }
}
