//! What was broken on purpose in one trial, and what became of the lock, as the renderers see it.

/// The faults of one trial and what followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// The faults in the order of firing.
    pub faults: Vec<Fault>,
    /// Exclusion as the ensemble saw it; `None` where it told nothing.
    pub order: Option<Order>,
    /// Entries beside a contender whose session was suspended or gone.
    pub zombies: u64,
    /// The longest time for which one of those was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
    /// Entries beside another of which nobody can judge whether it still held.
    pub uncertain: u64,
    /// Each contender that was not served though nothing was broken any more, in words.
    pub stuck: Vec<String>,
    /// Ephemeral nodes left when all had released; `None` when the ensemble could not be asked.
    pub orphans: Option<u64>,
    /// Sessions that expired.
    pub sessions_lost: u64,
    /// Locks lost while they were held.
    pub holds_lost: u64,
    /// Waits that ended with the session or its connection.
    pub waits_lost: u64,
    /// Writes of a holder after another had entered.
    pub stale_writes: u64,
    /// Of those, the ones turned away by their fencing token.
    pub stale_rejected: u64,
}

/// Entries, compared with when the ensemble deleted the node of the holder before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Order {
    /// Those that could be compared.
    pub compared: u64,
    /// Those before the deletion: by the servers' clock or by their transactions, whichever tells more.
    pub too_early: u64,
}

impl Order {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { compared: self.compared + other.compared, too_early: self.too_early + other.too_early }
    }
}

/// One fault. Times are microseconds since the measured phase began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// Its place in the order of firing, from 1.
    pub number: usize,
    /// Kind, target and parameters, as the scenario says them.
    pub label: String,
    /// Whom it hit.
    pub target: String,
    /// When it was asked for.
    pub asked_us: i64,
    /// When it was undone.
    pub ended_us: Option<i64>,
    /// Why its effect was not seen; `None` when it was.
    pub unproved: Option<String>,
    /// Why it could not be undone; `None` when it could.
    pub left: Option<String>,
    /// From when it was asked for to the first sight of a newly elected leader; `None` when there was none.
    pub elected_us: Option<u64>,
    /// The longest time between two acquisitions around it; `None` when there was none worth the name.
    pub longest_gap_us: Option<u64>,
    /// From when its effect was seen to the next acquisition; `None` when none followed.
    pub recovered_us: Option<u64>,
}
