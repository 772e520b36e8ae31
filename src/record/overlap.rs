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

impl OverlapClass {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Violation, Self::Zombie, Self::Uncertain];

    /// The word for it in outputs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Violation => "violation",
            Self::Zombie => "zombie",
            Self::Uncertain => "uncertain",
        }
    }
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
    /// Entries while the node of an earlier holder was still there.
    pub overlaps: u64,
    /// The first of them.
    pub first: Option<String>,
}
