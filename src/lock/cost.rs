//! Cost models that several strategies share, as exact functions of the number of contenders.
//!
//! The batch: contenders arrive one after the other, each arrival settles; then each holds once and
//! releases when all watches are set again.

use crate::words::catalog::{BatchCost, Events};
use crate::words::measure::RequestKind;
use crate::words::measure::RequestKind::{
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
        written_by_multis: 2 * members * n,
        events: Events { node_deleted: n - 1, ..Events::default() },
        to_waiters_by_release: n - 1,
        names_returned: Some(members * n * n),
        ..BatchCost::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

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

    /// That the model says of a batch what was played.
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

    fn predecessor_queue_played(watch: RequestKind, n: u64) -> Played {
        let mut played = Played::default();
        for queued in 1..=n {
            played.sends(Create);
            played.lists(GetChildren, queued as usize);
            if queued > 1 {
                played.sends(watch);
            }
        }
        for left in (0..n).rev() {
            played.sends(Delete);
            if left > 0 {
                played.wakes();
                played.lists(GetChildren, left as usize);
            }
        }
        played
    }

    #[test]
    fn a_queue_costs_what_it_costs_to_play_it() {
        for n in 1..=8 {
            for watch in [GetDataWatch, Exists] {
                let played = predecessor_queue_played(watch, n).ended();
                assert_agree(&predecessor_queue(watch, n), &played, &format!("{n} contenders"));
            }
        }
    }

    #[test]
    fn watching_two_back_costs_what_it_costs_to_play_it() {
        for n in 1..=8_usize {
            let mut played = Played::default();
            for queued in 1..=n {
                played.sends(Create);
                played.lists(GetChildren, queued);
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
            assert_agree(&two_back_queue(n as u64), &played.ended(), &format!("{n} contenders"));
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
            let mut played = predecessor_queue_played(GetDataWatch, n);
            (0..members).for_each(|_| played.makes_directory());
            for _ in 0..n * (members - 1) {
                played.sends(Create);
                played.lists(GetChildren, 1);
                played.sends(Delete);
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&one_queue_after_another(members, n), &played.ended(), &which);
        }
    }

    #[test]
    fn queues_at_once_cost_what_it_costs_to_play_them() {
        for (members, n) in (1..=4).flat_map(|members| (1..=6).map(move |n| (members, n))) {
            let mut played = Played::default();
            let writes = |played: &mut Played| {
                played.sends(Multi);
                played.cost.written_by_multis += members;
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
                writes(&mut played);
                lists(&mut played, queued);
                if queued > 1 {
                    played.sends(GetDataWatch);
                }
            }
            for left in (0..n).rev() {
                writes(&mut played);
                if left > 0 {
                    played.wakes();
                    lists(&mut played, left);
                }
            }
            let which = format!("{members} members, {n} contenders");
            assert_agree(&queues_at_once(members, n as u64), &played.ended(), &which);
        }
    }
}
