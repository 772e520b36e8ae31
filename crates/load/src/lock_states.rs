//! A trial's locks. Each lock's state is created on first use, so unused locks take no memory.

use std::ops::Index;
use std::sync::{Arc, OnceLock};

use super::lock_state::{LockState, LockTemplate, Presences};
use zklockbench_zk::changes::{ChangeLog, ChangeLogs};

/// Prefix of the last component of each lock's path.
pub const LOCK: &str = "lock-";
/// Prefix of a lock's witness node. A holder without its own node writes to the witness node when it enters
/// and before it leaves, which orders holds across workers.
pub const WITNESS: &str = "witness-";

#[derive(Debug)]
pub struct LockStates {
    /// Directory of all locks, with a trailing slash.
    root: String,
    template: LockTemplate,
    presences: Arc<Presences>,
    states: Box<[OnceLock<Box<LockState>>]>,
}

impl LockStates {
    pub fn of(template: LockTemplate, root: &str, locks: usize, contenders: usize) -> Self {
        Self {
            root: format!("{root}/"),
            template,
            presences: Arc::new(Presences::of(contenders)),
            states: (0..locks).map(|_| OnceLock::new()).collect(),
        }
    }

    pub fn root(&self) -> &str {
        &self.root
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn path(&self, lock: usize) -> String {
        format!("{}{LOCK}{lock}", self.root)
    }

    /// Returns the used locks, in the order of their numbers.
    pub fn used(&self) -> impl Iterator<Item = &LockState> {
        self.states.iter().filter_map(|state| state.get().map(|state| &**state))
    }

    /// Returns the contenders inside any lock, in the order of the locks.
    pub fn all_inside(&self) -> Vec<usize> {
        let mut inside: Vec<_> = self.presences.inside().collect();
        inside.sort_unstable();
        inside.into_iter().map(|(_, contender)| contender).collect()
    }

    pub fn is_any_inside(&self) -> bool {
        self.presences.inside().next().is_some()
    }

    /// Returns the number of the lock that a node belongs to.
    pub fn lock_of_node(&self, path: &str) -> Option<usize> {
        let below = path.strip_prefix(&self.root)?.strip_prefix(LOCK)?;
        below.split('/').next()?.parse().ok().filter(|lock| *lock < self.len())
    }
}

impl Index<usize> for LockStates {
    type Output = LockState;

    fn index(&self, lock: usize) -> &LockState {
        self.states[lock].get_or_init(|| {
            Box::new(LockState::among(Arc::clone(&self.presences), lock, self.path(lock), self.template))
        })
    }
}

impl ChangeLogs for LockStates {
    fn at(&self, queue: &str) -> Option<&ChangeLog> {
        let state = &self[self.lock_of_node(queue)?];
        (state.queue() == queue).then_some(&state.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::LockClaim;
    use zklockbench_record::history::LockKind;

    fn states(locks: usize, below: &'static str) -> LockStates {
        let template = LockTemplate { kind: LockKind::Mutex, leases: 1, below, has_strangers: false };
        LockStates::of(template, "/zklockbench/x/t000", locks, 3)
    }

    #[test]
    fn lock_state_is_created_on_first_use() {
        let states = states(100_000, "");
        assert_eq!((states.used().count(), states.path(7)), (0, "/zklockbench/x/t000/lock-7".to_owned()));
        states[99_999].arrive(LockClaim::WRITE);
        states[7].arrive(LockClaim::WRITE);
        let used: Vec<_> = states.used().map(|state| state.path.as_str()).collect();
        assert_eq!(used, ["/zklockbench/x/t000/lock-7", "/zklockbench/x/t000/lock-99999"]);
    }

    #[test]
    fn contenders_inside_different_locks_do_not_overlap() {
        let states = states(2, "");
        states[0].enter(0, LockClaim::WRITE, 10);
        states[1].enter(1, LockClaim::WRITE, 20);
        assert_eq!([0, 1].map(|lock| states[lock].was_crowded()), [false, false]);
        states[1].enter(2, LockClaim::WRITE, 30);
        assert_eq!([0, 1].map(|lock| states[lock].was_crowded()), [false, true]);
        assert_eq!((states[0].all_inside(), states[1].all_inside()), (vec![0], vec![1, 2]));
        assert_eq!((states.all_inside(), states.is_any_inside()), (vec![0, 1, 2], true));
    }

    #[test]
    fn change_log_is_found_by_its_queue_directory() {
        let states = states(20, "/locks");
        let of = |path: &str| states.at(&format!("/zklockbench/x/t000/{path}")).map(std::ptr::from_ref);
        assert_eq!(of("lock-12/locks"), Some(std::ptr::from_ref(&states[12].changes)));
        for other in ["lock-12", "lock-12/leases", "lock-20/locks", "lock-x/locks", "witness-1"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(states.lock_of_node("/zklockbench/x/t000/lock-12/locks/n-0000000003"), Some(12));
    }
}
