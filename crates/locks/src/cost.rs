//! Cost models that several strategies share, as exact functions of the number of contenders.
//!
//! In a batch, contenders arrive one after the other, and each arrival settles before the next. Then each
//! contender holds once, and releases when all watches are set again.

use std::collections::VecDeque;

use zklockbench_core::catalog::{BatchCost, Events};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::measure::RequestKind::{
    Create, Delete, Exists, GetChildren, GetChildrenWatch, GetDataWatch, Multi,
};

/// A queue in which each waiter watches the one before it: two lists and one watch for all but the first
/// contender.
pub fn predecessor_queue(watch: RequestKind, n: u64) -> BatchCost {
    BatchCost {
        requests: vec![(Create, n), (Delete, n), (GetChildren, 2 * n - 1), (watch, n - 1)],
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names; a waiter that is woken with m nodes left lists m.
        names_returned: Some(n * n),
        ..BatchCost::default()
    }
}

/// A queue in which each waiter watches the two nodes before it, and lists again when the farther one is
/// gone.
pub fn two_back_queue(n: u64) -> BatchCost {
    // The first contender watches no node, the second one node, each other contender two.
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
        // Arrival k lists k names. All but the first two list once more, when only one node is left ahead of
        // them.
        names_returned: Some(if n == 1 { 1 } else { n * n - 1 }),
        ..BatchCost::default()
    }
}

/// Processes of `size` contenders, each with one node in a queue like [`predecessor_queue`], by which `turns`
/// of them hold in a row. Processes alternate, because each queues its next node when the last one is
/// released.
pub fn processes_in_turns(n: u64, size: u64, turns: u64) -> BatchCost {
    let Queued { nodes, contended } = queued(n, size, turns);
    BatchCost {
        requests: vec![
            (Create, nodes),
            (Delete, nodes),
            (GetChildren, nodes + contended),
            (GetDataWatch, contended),
        ],
        events: Events { node_deleted: contended, ..Events::default() },
        to_waiters_by_release: contended,
        ..BatchCost::default()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Queued {
    nodes: u64,
    /// Nodes that are not first when created.
    contended: u64,
}

fn queued(n: u64, size: u64, turns: u64) -> Queued {
    let mut left: Vec<u64> = (0..n.div_ceil(size)).map(|process| size.min(n - process * size)).collect();
    let mut queue: VecDeque<usize> = (0..left.len()).collect();
    // All but the very first node arrive behind another.
    let (mut nodes, mut contended) = (0, queue.len().saturating_sub(1) as u64);
    while let Some(process) = queue.pop_front() {
        nodes += 1;
        left[process] = left[process].saturating_sub(turns);
        if left[process] > 0 {
            contended += u64::from(!queue.is_empty());
            queue.push_back(process);
        }
    }
    Queued { nodes, contended }
}

/// A queue joined by count: like [`predecessor_queue`], but the first `without_a_list` contenders need no
/// list.
pub fn counted_queue(watch: RequestKind, without_a_list: u64, n: u64) -> BatchCost {
    let listing = n.saturating_sub(without_a_list);
    BatchCost {
        requests: vec![(Multi, n), (Delete, n), (GetChildren, 2 * listing), (watch, n - 1)],
        written_by_multis: 2 * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names; when it is woken, it lists those that are left, from its own on.
        names_returned: Some((n - listing + 1..=n).map(|k| k + n - k + 1).sum()),
        ..BatchCost::default()
    }
}

/// Like [`two_back_queue`], joined by count: all but the first contender list after the join.
pub fn counted_two_back_queue(n: u64) -> BatchCost {
    let created = two_back_queue(n);
    let names_returned = created.names_returned.map(|names| names - 1);
    BatchCost { names_returned, ..joined_by_count(created, 1, n) }
}

/// A semaphore that is a queue. A waiter watches as many nodes before it as there are leases, and lists again
/// when the first of these is gone.
pub fn queue_semaphore(leases: u64, n: u64) -> BatchCost {
    let waiting = n.saturating_sub(leases);
    // Arrival k lists k names; the waiter that release r admits lists all that are left then.
    let names = n * (n + 1) / 2 + (1..=waiting).map(|release| n - release).sum::<u64>();
    BatchCost {
        requests: vec![
            (Create, n),
            (Delete, n),
            (GetChildren, n + waiting),
            (GetDataWatch, leases * waiting),
        ],
        // All but the first watch of each waiter fire while it holds.
        events: Events { node_deleted: leases * waiting, ..Events::default() },
        to_waiters_by_release: leases * waiting,
        names_returned: Some(names),
        ..BatchCost::default()
    }
}

/// Like [`queue_semaphore`], joined by count: contenders that arrive while leases are free don't list.
pub fn counted_semaphore(leases: u64, n: u64) -> BatchCost {
    let straight = n.min(leases);
    let listed = queue_semaphore(leases, n);
    BatchCost {
        names_returned: listed.names_returned.map(|names| names - straight * (straight + 1) / 2),
        ..joined_by_count(listed, straight, n)
    }
}

/// Converts a queue's cost from creates to multis, of which `lists_saved` made a list needless.
fn joined_by_count(created: BatchCost, lists_saved: u64, n: u64) -> BatchCost {
    let requests = created.requests.iter().map(|(kind, count)| match kind {
        Create => (Multi, *count),
        GetChildren => (GetChildren, count - lists_saved),
        kind => (*kind, *count),
    });
    BatchCost { requests: requests.collect(), written_by_multis: 2 * n, ..created }
}

/// A race for one node: each release wakes all waiters, all of them create, and all but one read again. The
/// lock adds events and names, which depend on its read.
pub fn race(look: RequestKind, n: u64) -> BatchCost {
    let lost = n * (n - 1) / 2;
    BatchCost {
        requests: vec![(Create, n + lost), (Delete, n), (look, lost)],
        refused: vec![(Create, lost)],
        // Arrival k loses once; release r wakes n - r waiters, and one of them wins.
        to_waiters_by_release: lost,
        ..BatchCost::default()
    }
}

/// A queue in which each waiter watches the parent, and a holder does not list again: every arrival and every
/// release wakes all waiters, and each of them lists.
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

/// Adds the first contender's cost of creating missing directories whose parent exists. Each takes a refused
/// create, an exists of the directory and one of its parent, and a create of the container.
fn make_directories(cost: &mut BatchCost, directories: u64) {
    cost.requests.extend([(Create, 2 * directories), (Exists, 2 * directories)]);
    cost.refused.extend([(Create, directories), (Exists, directories)]);
}

/// Leases that are taken under a queue lock: one contender waits for a lease, the others wait in the queue.
pub fn semaphore(leases: u64, n: u64) -> BatchCost {
    // Contenders that must wait for a lease, and of these, the contenders that must first wait in the inner
    // queue.
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
        // Each contender's last watch on the leases fires in vain: by the next lease, or by the first release
        // after the last lease.
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

/// Queue locks taken one after the other, in the same order: only the first has waiters, the others are free.
pub fn one_queue_after_another(members: u64, n: u64) -> BatchCost {
    let free = members - 1;
    let mut cost = predecessor_queue(GetDataWatch, n);
    cost.requests.extend([(Create, free * n), (Delete, free * n), (GetChildren, free * n)]);
    cost.names_returned = Some(n * n + free * n);
    make_directories(&mut cost, members);
    cost
}

/// Queue locks joined and left in one transaction each; every check lists all of them.
pub fn queues_at_once(members: u64, n: u64) -> BatchCost {
    BatchCost {
        // The first contender finds no directory: its multi and its lists are refused, and it creates them
        // all.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Join {
        Create,
        /// The count tells this many contenders everything they need.
        Count {
            without_a_list: usize,
        },
    }

    impl Join {
        fn needs_a_list(self, queued: usize) -> bool {
            match self {
                Self::Create => true,
                Self::Count { without_a_list } => queued > without_a_list,
            }
        }
    }

    /// A batch that is simulated step by step, each step costing what the protocol requires.
    #[derive(Default)]
    struct Simulated {
        cost: BatchCost,
        names: u64,
        /// Contenders with a watch on the children.
        armed: BTreeSet<u64>,
    }

    impl Simulated {
        fn sends(&mut self, kind: RequestKind) {
            self.cost.requests.push((kind, 1));
        }

        /// Creates a node, the `queued`-th in the queue, and lists the queue unless the count makes that
        /// needless.
        fn joins(&mut self, by: Join, queued: usize) {
            match by {
                Join::Create => self.sends(Create),
                // One transaction creates the node and counts the directory.
                Join::Count { .. } => {
                    self.sends(Multi);
                    self.cost.written_by_multis += 2;
                }
            }
            if by.needs_a_list(queued) {
                self.lists(GetChildren, queued);
            }
        }

        fn is_refused(&mut self, kind: RequestKind) {
            self.sends(kind);
            self.cost.refused.push((kind, 1));
        }

        fn lists(&mut self, kind: RequestKind, names: usize) {
            self.sends(kind);
            self.names += names as u64;
        }

        /// Counts the deletion of a watched node by a release.
        fn wakes(&mut self) {
            self.cost.events.node_deleted += 1;
            self.cost.to_waiters_by_release += 1;
        }

        /// Counts a child that was created, or deleted by this releaser; returns the notified contenders.
        fn children_change(&mut self, releaser: Option<u64>) -> BTreeSet<u64> {
            let told = std::mem::take(&mut self.armed);
            self.cost.events.children_changed += told.len() as u64;
            for one in &told {
                match releaser {
                    None => self.cost.by_arrival += 1,
                    Some(releaser) if releaser == *one => self.cost.to_releaser += 1,
                    Some(_) => self.cost.to_waiters_by_release += 1,
                }
            }
            told
        }

        /// Creates a missing directory, as the first contender does.
        fn makes_directory(&mut self) {
            self.is_refused(Create);
            self.is_refused(Exists);
            self.sends(Exists);
            self.sends(Create);
        }

        fn ended(mut self) -> BatchCost {
            self.cost.names_returned = Some(self.names);
            self.cost
        }
    }

    fn assert_agree(model: &BatchCost, simulated: &BatchCost, which: &str) {
        for kind in RequestKind::ALL {
            assert_eq!(model.requests_of(kind), simulated.requests_of(kind), "{which}: {kind:?}");
            assert_eq!(model.succeeding(kind), simulated.succeeding(kind), "{which}: {kind:?} that succeed");
        }
        let rest = |cost: &BatchCost| {
            let releases = (cost.to_waiters_by_release, cost.to_releaser);
            (cost.events, releases, cost.by_arrival, cost.names_returned, cost.written_by_multis)
        };
        assert_eq!(rest(model), rest(simulated), "{which}");
    }

    fn simulate_predecessor_queue(by: Join, watch: RequestKind, n: usize) -> Simulated {
        let mut simulated = Simulated::default();
        for queued in 1..=n {
            simulated.joins(by, queued);
            if queued > 1 {
                simulated.sends(watch);
            }
        }
        for next in 2..=n {
            simulated.sends(Delete);
            simulated.wakes();
            // A contender that knows its predecessors from the count knows that none is left.
            if by.needs_a_list(next) {
                simulated.lists(GetChildren, n - next + 1);
            }
        }
        simulated.sends(Delete);
        simulated
    }

    #[test]
    fn queue_cost_agrees_with_its_simulation() {
        for n in 1..=8 {
            for watch in [GetDataWatch, Exists] {
                let simulated = simulate_predecessor_queue(Join::Create, watch, n).ended();
                assert_agree(&predecessor_queue(watch, n as u64), &simulated, &format!("{n} contenders"));
            }
        }
    }

    fn simulate_two_back_queue(by: Join, n: usize) -> Simulated {
        let mut simulated = Simulated::default();
        for queued in 1..=n {
            simulated.joins(by, queued);
            (1..queued).rev().take(2).for_each(|_| simulated.sends(GetDataWatch));
        }
        for left in (0..n).rev() {
            simulated.sends(Delete);
            if left > 0 {
                simulated.wakes(); // The waiter knows that no node is ahead of the deleted one.
            }
            if left > 1 {
                simulated.wakes();
                simulated.lists(GetChildren, left);
            }
        }
        simulated
    }

    #[test]
    fn two_back_queue_cost_agrees_with_its_simulation() {
        for n in 1..=8 {
            let simulated = simulate_two_back_queue(Join::Create, n).ended();
            assert_agree(&two_back_queue(n as u64), &simulated, &format!("{n} contenders"));
        }
    }

    #[test]
    fn counted_queue_cost_agrees_with_its_simulation() {
        for (without_a_list, n) in (1..=2).flat_map(|without| (1..=8).map(move |n| (without, n))) {
            let simulated = simulate_predecessor_queue(Join::Count { without_a_list }, Exists, n).ended();
            let which = format!("{n} contenders, {without_a_list} without a list");
            assert_agree(&counted_queue(Exists, without_a_list as u64, n as u64), &simulated, &which);
        }
    }

    #[test]
    fn counted_two_back_queue_cost_agrees_with_its_simulation() {
        for n in 1..=8 {
            let simulated = simulate_two_back_queue(Join::Count { without_a_list: 1 }, n).ended();
            assert_agree(&counted_two_back_queue(n as u64), &simulated, &format!("{n} contenders"));
        }
    }

    /// Each waiter watches as many nodes before it as there are leases; holders leave in order.
    fn simulate_queue_semaphore(by: Join, leases: usize, n: usize) -> Simulated {
        let mut simulated = Simulated::default();
        let watched_by = |waiter: usize| waiter - leases..waiter;
        for queued in 1..=n {
            simulated.joins(by, queued);
            if queued > leases {
                watched_by(queued).for_each(|_| simulated.sends(GetDataWatch));
            }
        }
        for left in 1..=n {
            simulated.sends(Delete);
            for waiter in (leases + 1..=n).filter(|waiter| watched_by(*waiter).contains(&left)) {
                simulated.wakes();
                if watched_by(waiter).start == left {
                    simulated.lists(GetChildren, n - left);
                }
            }
        }
        simulated
    }

    #[test]
    fn queue_semaphore_cost_agrees_with_its_simulation() {
        for (leases, n) in (1..=5).flat_map(|leases| (1..=9).map(move |n| (leases, n))) {
            let which = format!("{leases} leases, {n} contenders");
            let created = simulate_queue_semaphore(Join::Create, leases, n).ended();
            assert_agree(&queue_semaphore(leases as u64, n as u64), &created, &which);
            let counted = simulate_queue_semaphore(Join::Count { without_a_list: leases }, leases, n).ended();
            assert_agree(
                &counted_semaphore(leases as u64, n as u64),
                &counted,
                &format!("{which}, by count"),
            );
        }
    }

    #[test]
    fn processes_in_turns_cost_agrees_with_its_simulation() {
        for (n, size, turns) in [(1, 1, 1), (8, 4, 1), (5, 4, 1), (10, 10, 4), (6, 3, 2), (20, 10, 10)] {
            let mut simulated = Simulated::default();
            let mut left = vec![size; n / size];
            left.extend(Some(n % size).filter(|rest| *rest > 0));
            let joins = |simulated: &mut Simulated, is_first: bool| {
                simulated.sends(Create);
                simulated.sends(GetChildren);
                if !is_first {
                    simulated.sends(GetDataWatch);
                }
            };
            let mut queue: VecDeque<usize> = (0..left.len()).collect();
            (0..left.len()).for_each(|process| joins(&mut simulated, process == 0));
            while let Some(process) = queue.pop_front() {
                left[process] -= turns.min(left[process]);
                simulated.sends(Delete);
                if !queue.is_empty() {
                    simulated.wakes();
                    simulated.sends(GetChildren);
                }
                if left[process] > 0 {
                    joins(&mut simulated, queue.is_empty());
                    queue.push_back(process);
                }
            }
            let which = format!("{n} contenders, {size} a process, {turns} at a turn");
            let model = processes_in_turns(n as u64, size as u64, turns as u64);
            assert_agree(&model, &simulated.cost, &which);
        }
    }

    #[test]
    fn race_cost_agrees_with_its_simulation() {
        for n in 1..=8 {
            let mut simulated = Simulated::default();
            let tries = |simulated: &mut Simulated, wins: bool| {
                if wins {
                    return simulated.sends(Create);
                }
                simulated.is_refused(Create);
                simulated.sends(GetDataWatch);
            };
            (0..n).for_each(|others| tries(&mut simulated, others == 0));
            for waiting in (0..n).rev() {
                simulated.sends(Delete);
                simulated.cost.to_waiters_by_release += waiting;
                (0..waiting).for_each(|place| tries(&mut simulated, place == 0));
            }
            assert_agree(&race(GetDataWatch, n), &simulated.cost, &format!("{n} contenders"));
        }
    }

    #[test]
    fn parent_queue_cost_agrees_with_its_simulation() {
        for n in 1..=8 {
            let mut simulated = Simulated::default();
            let looks = |simulated: &mut Simulated, who: u64, names: usize| {
                simulated.lists(GetChildrenWatch, names);
                simulated.armed.insert(who);
            };
            let mut queue = VecDeque::new();
            for who in 0..n {
                queue.push_back(who);
                simulated.sends(Create);
                let told = simulated.children_change(None);
                // The holder is notified, too, but has no reason to list.
                told.into_iter()
                    .filter(|one| *one != 0)
                    .for_each(|one| looks(&mut simulated, one, queue.len()));
                looks(&mut simulated, who, queue.len());
            }
            while let Some(releaser) = queue.pop_front() {
                simulated.sends(Delete);
                let told = simulated.children_change(Some(releaser));
                let waiting = told.into_iter().filter(|one| *one != releaser);
                waiting.for_each(|one| looks(&mut simulated, one, queue.len()));
            }
            assert_agree(&parent_queue(n), &simulated.ended(), &format!("{n} contenders"));
        }
    }

    /// Leases under a mutex: its holder takes a lease, waiting while there are too many.
    struct Semaphore {
        simulated: Simulated,
        leases: usize,
        mutex: VecDeque<u64>,
        /// Leases in the order in which they were taken; the last may be a waiter's.
        taken: VecDeque<u64>,
    }

    impl Semaphore {
        fn arrives(&mut self, who: u64) {
            self.mutex.push_back(who);
            self.simulated.sends(Create);
            self.simulated.lists(GetChildren, self.mutex.len());
            if self.mutex.len() == 1 { self.has_the_mutex(who) } else { self.simulated.sends(GetDataWatch) }
        }

        fn has_the_mutex(&mut self, who: u64) {
            self.taken.push_back(who);
            self.simulated.sends(Create);
            self.simulated.children_change(None);
            self.looks(who);
        }

        fn looks(&mut self, who: u64) {
            self.simulated.lists(GetChildrenWatch, self.taken.len());
            self.simulated.armed.insert(who);
            if self.taken.len() > self.leases {
                return;
            }
            self.simulated.sends(Exists);
            self.simulated.sends(Delete);
            self.mutex.pop_front();
            if let Some(next) = self.mutex.front().copied() {
                self.simulated.cost.events.node_deleted += 1;
                self.simulated.lists(GetChildren, self.mutex.len());
                self.has_the_mutex(next);
            }
        }

        fn releases(&mut self) {
            let Some(releaser) = self.taken.pop_front() else { return };
            self.simulated.sends(Delete);
            let told = self.simulated.children_change(Some(releaser));
            if let Some(waiting) = self.mutex.front().copied().filter(|waiting| told.contains(waiting)) {
                self.looks(waiting);
            }
        }
    }

    #[test]
    fn semaphore_cost_agrees_with_its_simulation() {
        for (leases, n) in (1..=5).flat_map(|leases| (1..=9).map(move |n| (leases, n))) {
            let (mutex, taken) = (VecDeque::new(), VecDeque::new());
            let mut game = Semaphore { simulated: Simulated::default(), leases, mutex, taken };
            (0..2).for_each(|_| game.simulated.makes_directory());
            (0..n).for_each(|who| game.arrives(who));
            (0..n).for_each(|_| game.releases());
            assert!(game.taken.is_empty() && game.mutex.is_empty());
            let which = format!("{leases} leases, {n} contenders");
            assert_agree(&semaphore(leases as u64, n), &game.simulated.ended(), &which);
        }
    }

    #[test]
    fn queues_one_after_another_cost_agrees_with_its_simulation() {
        for (members, n) in (1..=4).flat_map(|members| (1..=6).map(move |n| (members, n))) {
            let mut simulated = simulate_predecessor_queue(Join::Create, GetDataWatch, n);
            (0..members).for_each(|_| simulated.makes_directory());
            for _ in 0..n * (members - 1) {
                simulated.sends(Create);
                simulated.lists(GetChildren, 1);
                simulated.sends(Delete);
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&one_queue_after_another(members as u64, n as u64), &simulated.ended(), &which);
        }
    }

    #[test]
    fn queues_at_once_cost_agrees_with_its_simulation() {
        for (members, n) in (1..=4).flat_map(|members| (1..=6).map(move |n| (members, n))) {
            let mut simulated = Simulated::default();
            let writes = |simulated: &mut Simulated, operations: u64| {
                simulated.sends(Multi);
                simulated.cost.written_by_multis += operations;
            };
            let lists = |simulated: &mut Simulated, names: usize| {
                (0..members).for_each(|_| simulated.lists(GetChildren, names));
            };
            simulated.is_refused(Multi);
            for _ in 0..members {
                simulated.is_refused(GetChildren);
                simulated.is_refused(Exists);
                simulated.sends(Exists);
                simulated.sends(Create);
            }
            for queued in 1..=n {
                writes(&mut simulated, members + 1);
                lists(&mut simulated, queued);
                if queued > 1 {
                    simulated.sends(GetDataWatch);
                }
            }
            for left in (0..n).rev() {
                writes(&mut simulated, members);
                if left > 0 {
                    simulated.wakes();
                    lists(&mut simulated, left);
                }
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&queues_at_once(members, n as u64), &simulated.ended(), &which);
        }
    }

    #[test]
    fn process_queues_one_node_for_each_k_turns() {
        let cases = [
            ("one process alone never waits for another", (4, 4, 1), (4, 0)),
            ("a process that is not full", (1, 4, 1), (1, 0)),
            ("equal processes are always behind each other", (8, 4, 1), (8, 7)),
            ("also when the last is not full", (50, 4, 1), (50, 49)),
            ("4 and 1: the second is served once, and the first goes on by itself", (5, 4, 1), (5, 2)),
            ("one node is enough for all turns", (10, 10, 10), (1, 0)),
            ("it is enough for four", (10, 10, 4), (3, 0)),
            ("one node for each of two", (20, 10, 10), (2, 1)),
            ("3 and 3 by two: two nodes each, and only the very first finds nobody", (6, 3, 2), (4, 3)),
            ("one node for each of ten", (100, 10, 10), (10, 9)),
        ];
        for (name, (n, size, turns), (nodes, contended)) in cases {
            assert_eq!(queued(n, size, turns), Queued { nodes, contended }, "{name}");
        }
    }
}
