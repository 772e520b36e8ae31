//! Cost models that several strategies share, as exact functions of the number of contenders.
//!
//! The batch: contenders arrive one after the other, each arrival settles; then each holds once and
//! releases when all watches are set again.

use std::collections::VecDeque;

use zklockbench_core::catalog::{BatchCost, Events};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::measure::RequestKind::{
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
    // The first watches none, the second one node, each other two.
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

/// Processes of so many contenders, each with one node in a queue like [`predecessor_queue`], by which so many of them hold
/// one after the other: the processes take turns, because each queues the next node when that one is released.
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
    /// How many of these find another before them.
    contended: u64,
}

fn queued(n: u64, size: u64, turns: u64) -> Queued {
    let mut left: Vec<u64> = (0..n.div_ceil(size)).map(|process| size.min(n - process * size)).collect();
    let mut queue: VecDeque<usize> = (0..left.len()).collect();
    // All but the very first arrive behind another.
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

/// A queue that is joined by count: as [`predecessor_queue`], but the first one or two need no list.
pub fn counted_queue(watch: RequestKind, without_a_list: u64, n: u64) -> BatchCost {
    let listing = n.saturating_sub(without_a_list);
    BatchCost {
        requests: vec![(Multi, n), (Delete, n), (GetChildren, 2 * listing), (watch, n - 1)],
        written_by_multis: 2 * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        // Arrival k lists k names; the k-th, when it is woken, lists those that are left from itself on.
        names_returned: Some((n - listing + 1..=n).map(|k| k + n - k + 1).sum()),
        ..BatchCost::default()
    }
}

/// As [`two_back_queue`], joined by count: all but the first list after that.
pub fn counted_two_back_queue(n: u64) -> BatchCost {
    let created = two_back_queue(n);
    let names_returned = created.names_returned.map(|names| names - 1);
    BatchCost { names_returned, ..joined_by_count(created, 1, n) }
}

/// A semaphore that is a queue: a contender with too many before it watches as many of them as there are leases, and lists
/// again when the first of these has gone.
pub fn queue_semaphore(leases: u64, n: u64) -> BatchCost {
    let waiting = n.saturating_sub(leases);
    // Arrival k lists k names; the one that release r lets in lists all that are left then.
    let names = n * (n + 1) / 2 + (1..=waiting).map(|release| n - release).sum::<u64>();
    BatchCost {
        requests: vec![
            (Create, n),
            (Delete, n),
            (GetChildren, n + waiting),
            (GetDataWatch, leases * waiting),
        ],
        // All but the first watch of each are fired while it holds.
        events: Events { node_deleted: leases * waiting, ..Events::default() },
        to_waiters_by_release: leases * waiting,
        names_returned: Some(names),
        ..BatchCost::default()
    }
}

/// As [`queue_semaphore`], joined by count: who comes while there is room doesn't list.
pub fn counted_semaphore(leases: u64, n: u64) -> BatchCost {
    let straight = n.min(leases);
    let listed = queue_semaphore(leases, n);
    BatchCost {
        names_returned: listed.names_returned.map(|names| names - straight * (straight + 1) / 2),
        ..joined_by_count(listed, straight, n)
    }
}

/// The same for a queue whose creates have become multis, of which so many made a list needless.
fn joined_by_count(created: BatchCost, lists_saved: u64, n: u64) -> BatchCost {
    let requests = created.requests.iter().map(|(kind, count)| match kind {
        Create => (Multi, *count),
        GetChildren => (GetChildren, count - lists_saved),
        kind => (*kind, *count),
    });
    BatchCost { requests: requests.collect(), written_by_multis: 2 * n, ..created }
}

/// A race for one node: each release wakes all waiters, all of them create, and all but one look again.
/// Events and names are left to the lock, which knows what it looks at.
pub fn race(look: RequestKind, n: u64) -> BatchCost {
    let lost = n * (n - 1) / 2;
    BatchCost {
        requests: vec![(Create, n + lost), (Delete, n), (look, lost)],
        refused: vec![(Create, lost)],
        // Arrival k loses once; release r wakes the n - r that wait, and one of them wins.
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

/// Leases that are taken under a queue lock: a single contender waits for a lease, the others wait for the queue.
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
        /// So many know all that they need from the count.
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

    /// A batch that is played step by step, each step costing what the protocol says.
    #[derive(Default)]
    struct Played {
        cost: BatchCost,
        names: u64,
        /// Who will be told of the next change among the children.
        armed: BTreeSet<u64>,
    }

    impl Played {
        fn sends(&mut self, kind: RequestKind) {
            self.cost.requests.push((kind, 1));
        }

        /// Makes its node, as one of so many in the queue then, and lists them unless it has no need to.
        fn joins(&mut self, by: Join, queued: usize) {
            match by {
                Join::Create => self.sends(Create),
                // Creates its node and has the directory counted in one transaction.
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

        /// A watched node was deleted by a release.
        fn wakes(&mut self) {
            self.cost.events.node_deleted += 1;
            self.cost.to_waiters_by_release += 1;
        }

        /// A child was created, or deleted by that releaser; gives those who are told.
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

        /// Makes a missing directory, as the first one who comes.
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

    fn assert_agree(model: &BatchCost, played: &BatchCost, which: &str) {
        for kind in RequestKind::ALL {
            assert_eq!(model.requests_of(kind), played.requests_of(kind), "{which}: {kind:?}");
            assert_eq!(model.succeeding(kind), played.succeeding(kind), "{which}: {kind:?} that succeed");
        }
        let rest = |cost: &BatchCost| {
            let releases = (cost.to_waiters_by_release, cost.to_releaser);
            (cost.events, releases, cost.by_arrival, cost.names_returned, cost.written_by_multis)
        };
        assert_eq!(rest(model), rest(played), "{which}");
    }

    fn predecessor_queue_played(by: Join, watch: RequestKind, n: usize) -> Played {
        let mut played = Played::default();
        for queued in 1..=n {
            played.joins(by, queued);
            if queued > 1 {
                played.sends(watch);
            }
        }
        for next in 2..=n {
            played.sends(Delete);
            played.wakes();
            // Who knows from the count who was before it knows that nobody is now.
            if by.needs_a_list(next) {
                played.lists(GetChildren, n - next + 1);
            }
        }
        played.sends(Delete);
        played
    }

    #[test]
    fn a_queue_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            for watch in [GetDataWatch, Exists] {
                let played = predecessor_queue_played(Join::Create, watch, n).ended();
                assert_agree(&predecessor_queue(watch, n as u64), &played, &format!("{n} contenders"));
            }
        }
    }

    fn two_back_played(by: Join, n: usize) -> Played {
        let mut played = Played::default();
        for queued in 1..=n {
            played.joins(by, queued);
            (1..queued).rev().take(2).for_each(|_| played.sends(GetDataWatch));
        }
        for left in (0..n).rev() {
            played.sends(Delete);
            if left > 0 {
                played.wakes(); // It knows already that nobody is before the one that has gone.
            }
            if left > 1 {
                played.wakes();
                played.lists(GetChildren, left);
            }
        }
        played
    }

    #[test]
    fn watching_two_back_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            let played = two_back_played(Join::Create, n).ended();
            assert_agree(&two_back_queue(n as u64), &played, &format!("{n} contenders"));
        }
    }

    #[test]
    fn a_queue_that_is_joined_by_count_costs_what_it_costs_to_play_it() {
        for (without_a_list, n) in (1..=2).flat_map(|without| (1..=8).map(move |n| (without, n))) {
            let played = predecessor_queue_played(Join::Count { without_a_list }, Exists, n).ended();
            let which = format!("{n} contenders, {without_a_list} without a list");
            assert_agree(&counted_queue(Exists, without_a_list as u64, n as u64), &played, &which);
        }
    }

    #[test]
    fn watching_two_back_after_a_join_by_count_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            let played = two_back_played(Join::Count { without_a_list: 1 }, n).ended();
            assert_agree(&counted_two_back_queue(n as u64), &played, &format!("{n} contenders"));
        }
    }

    /// Each watches as many before it as there are leases; these leave in their order.
    fn queue_semaphore_played(by: Join, leases: usize, n: usize) -> Played {
        let mut played = Played::default();
        let watched_by = |waiter: usize| waiter - leases..waiter;
        for queued in 1..=n {
            played.joins(by, queued);
            if queued > leases {
                watched_by(queued).for_each(|_| played.sends(GetDataWatch));
            }
        }
        for left in 1..=n {
            played.sends(Delete);
            for waiter in (leases + 1..=n).filter(|waiter| watched_by(*waiter).contains(&left)) {
                played.wakes();
                if watched_by(waiter).start == left {
                    played.lists(GetChildren, n - left);
                }
            }
        }
        played
    }

    #[test]
    fn a_semaphore_that_is_a_queue_costs_what_it_costs_to_play_it() {
        for (leases, n) in (1..=5).flat_map(|leases| (1..=9).map(move |n| (leases, n))) {
            let which = format!("{leases} leases, {n} contenders");
            let created = queue_semaphore_played(Join::Create, leases, n).ended();
            assert_agree(&queue_semaphore(leases as u64, n as u64), &created, &which);
            let counted = queue_semaphore_played(Join::Count { without_a_list: leases }, leases, n).ended();
            assert_agree(
                &counted_semaphore(leases as u64, n as u64),
                &counted,
                &format!("{which}, by count"),
            );
        }
    }

    #[test]
    fn processes_that_take_turns_cost_what_it_costs_to_play_them() {
        for (n, size, turns) in [(1, 1, 1), (8, 4, 1), (5, 4, 1), (10, 10, 4), (6, 3, 2), (20, 10, 10)] {
            let mut played = Played::default();
            let mut left = vec![size; n / size];
            left.extend(Some(n % size).filter(|rest| *rest > 0));
            let joins = |played: &mut Played, is_first: bool| {
                played.sends(Create);
                played.sends(GetChildren);
                if !is_first {
                    played.sends(GetDataWatch);
                }
            };
            let mut queue: VecDeque<usize> = (0..left.len()).collect();
            (0..left.len()).for_each(|process| joins(&mut played, process == 0));
            while let Some(process) = queue.pop_front() {
                left[process] -= turns.min(left[process]);
                played.sends(Delete);
                if !queue.is_empty() {
                    played.wakes();
                    played.sends(GetChildren);
                }
                if left[process] > 0 {
                    joins(&mut played, queue.is_empty());
                    queue.push_back(process);
                }
            }
            let which = format!("{n} contenders, {size} a process, {turns} at a turn");
            let model = processes_in_turns(n as u64, size as u64, turns as u64);
            assert_agree(&model, &played.cost, &which);
        }
    }

    #[test]
    fn a_race_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            let mut played = Played::default();
            let tries = |played: &mut Played, wins: bool| {
                if wins {
                    return played.sends(Create);
                }
                played.is_refused(Create);
                played.sends(GetDataWatch);
            };
            (0..n).for_each(|others| tries(&mut played, others == 0));
            for waiting in (0..n).rev() {
                played.sends(Delete);
                played.cost.to_waiters_by_release += waiting;
                (0..waiting).for_each(|place| tries(&mut played, place == 0));
            }
            assert_agree(&race(GetDataWatch, n), &played.cost, &format!("{n} contenders"));
        }
    }

    #[test]
    fn watching_the_parent_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            let mut played = Played::default();
            let looks = |played: &mut Played, who: u64, names: usize| {
                played.lists(GetChildrenWatch, names);
                played.armed.insert(who);
            };
            let mut queue = VecDeque::new();
            for who in 0..n {
                queue.push_back(who);
                played.sends(Create);
                let told = played.children_change(None);
                // The holder is told, too, but has no reason to look.
                told.into_iter().filter(|one| *one != 0).for_each(|one| looks(&mut played, one, queue.len()));
                looks(&mut played, who, queue.len());
            }
            while let Some(releaser) = queue.pop_front() {
                played.sends(Delete);
                let told = played.children_change(Some(releaser));
                let waiting = told.into_iter().filter(|one| *one != releaser);
                waiting.for_each(|one| looks(&mut played, one, queue.len()));
            }
            assert_agree(&parent_queue(n), &played.ended(), &format!("{n} contenders"));
        }
    }

    /// Leases below a mutex: its holder takes a lease, waiting while there are too many.
    struct Semaphore {
        played: Played,
        leases: usize,
        mutex: VecDeque<u64>,
        /// In the order in which they were taken; the last may be of one that waits.
        taken: VecDeque<u64>,
    }

    impl Semaphore {
        fn arrives(&mut self, who: u64) {
            self.mutex.push_back(who);
            self.played.sends(Create);
            self.played.lists(GetChildren, self.mutex.len());
            if self.mutex.len() == 1 { self.has_the_mutex(who) } else { self.played.sends(GetDataWatch) }
        }

        fn has_the_mutex(&mut self, who: u64) {
            self.taken.push_back(who);
            self.played.sends(Create);
            self.played.children_change(None);
            self.looks(who);
        }

        fn looks(&mut self, who: u64) {
            self.played.lists(GetChildrenWatch, self.taken.len());
            self.played.armed.insert(who);
            if self.taken.len() > self.leases {
                return;
            }
            self.played.sends(Exists);
            self.played.sends(Delete);
            self.mutex.pop_front();
            if let Some(next) = self.mutex.front().copied() {
                self.played.cost.events.node_deleted += 1;
                self.played.lists(GetChildren, self.mutex.len());
                self.has_the_mutex(next);
            }
        }

        fn releases(&mut self) {
            let Some(releaser) = self.taken.pop_front() else { return };
            self.played.sends(Delete);
            let told = self.played.children_change(Some(releaser));
            if let Some(waiting) = self.mutex.front().copied().filter(|waiting| told.contains(waiting)) {
                self.looks(waiting);
            }
        }
    }

    #[test]
    fn a_semaphore_costs_what_it_costs_to_play_it() {
        for (leases, n) in (1..=5).flat_map(|leases| (1..=9).map(move |n| (leases, n))) {
            let (mutex, taken) = (VecDeque::new(), VecDeque::new());
            let mut game = Semaphore { played: Played::default(), leases, mutex, taken };
            (0..2).for_each(|_| game.played.makes_directory());
            (0..n).for_each(|who| game.arrives(who));
            (0..n).for_each(|_| game.releases());
            assert!(game.taken.is_empty() && game.mutex.is_empty());
            let which = format!("{leases} leases, {n} contenders");
            assert_agree(&semaphore(leases as u64, n), &game.played.ended(), &which);
        }
    }

    #[test]
    fn queues_in_turn_cost_what_it_costs_to_play_them() {
        for (members, n) in (1..=4).flat_map(|members| (1..=6).map(move |n| (members, n))) {
            let mut played = predecessor_queue_played(Join::Create, GetDataWatch, n);
            (0..members).for_each(|_| played.makes_directory());
            for _ in 0..n * (members - 1) {
                played.sends(Create);
                played.lists(GetChildren, 1);
                played.sends(Delete);
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&one_queue_after_another(members as u64, n as u64), &played.ended(), &which);
        }
    }

    #[test]
    fn queues_at_once_cost_what_it_costs_to_play_them() {
        for (members, n) in (1..=4).flat_map(|members| (1..=6).map(move |n| (members, n))) {
            let mut played = Played::default();
            let writes = |played: &mut Played, operations: u64| {
                played.sends(Multi);
                played.cost.written_by_multis += operations;
            };
            let lists = |played: &mut Played, names: usize| {
                (0..members).for_each(|_| played.lists(GetChildren, names));
            };
            played.is_refused(Multi);
            for _ in 0..members {
                played.is_refused(GetChildren);
                played.is_refused(Exists);
                played.sends(Exists);
                played.sends(Create);
            }
            for queued in 1..=n {
                writes(&mut played, members + 1);
                lists(&mut played, queued);
                if queued > 1 {
                    played.sends(GetDataWatch);
                }
            }
            for left in (0..n).rev() {
                writes(&mut played, members);
                if left > 0 {
                    played.wakes();
                    lists(&mut played, left);
                }
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&queues_at_once(members, n as u64), &played.ended(), &which);
        }
    }

    #[test]
    fn a_process_queues_up_once_for_each_k_turns_behind_those_that_have_turns_left() {
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
