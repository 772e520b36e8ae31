//! What it means that two contenders were inside one critical section at once.

/// The class of an overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverlapClass {
    /// Nothing was the matter with either session: the lock let two in.
    Violation,
    /// A session of the two was suspended or had expired before the other entered: its contender believed that it
    /// held what the ensemble had given to the other. No lock with sessions can prevent that; fencing can.
    Zombie,
    /// The outcome of a request of the two is not known, so neither is who held.
    Uncertain,
}

/// Overlaps that are no violations, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Excused {
    /// Of the class zombie.
    pub zombies: u64,
    /// Of the class uncertain.
    pub uncertain: u64,
    /// The longest time for which a zombie was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
}

/// Exclusion as the ensemble saw it, by its transaction logs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EnsembleOrder {
    /// Entries that could be compared with the logs.
    pub checked: u64,
    /// Entries while the node of an earlier holder was still there, by the servers' clock.
    pub overlaps: u64,
    /// Entries of which it is known as of which transaction the contender found that it holds.
    pub checked_by_zxid: u64,
    /// Of those, the ones as of a transaction before the one that deleted the node of an earlier holder.
    pub too_early: u64,
    /// Nodes by which contenders held that are gone without any server's log telling of their end: the ensemble has lost
    /// transactions that it had acknowledged.
    pub forgotten: u64,
    /// The first that was wrong.
    pub first: Option<String>,
}

impl EnsembleOrder {
    /// Whether two held at once.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.overlaps > 0 || self.too_early > 0
    }
}
