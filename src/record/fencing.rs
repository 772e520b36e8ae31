//! What a resource behind a lock saw of its holders' writes.

/// Writes to fenced resources, counted over a trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FencingCounts {
    /// Writes in all: each holder's when it enters, and before it leaves.
    pub writes: u64,
    /// Writes of a holder after another had entered. Without fencing each of them would have overwritten what the
    /// other had written.
    pub stale: u64,
    /// Of those, the ones turned away because the token, the czxid of the holder's node, was older than the newest.
    pub stale_rejected: u64,
    /// The ones that would have been turned away by the node's number as the token.
    pub stale_rejected_by_number: u64,
    /// Writes turned away although nobody had entered since: a token that does not grow from holder to holder.
    pub sound_rejected: u64,
}

impl FencingCounts {
    /// These and others.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            writes: self.writes + other.writes,
            stale: self.stale + other.stale,
            stale_rejected: self.stale_rejected + other.stale_rejected,
            stale_rejected_by_number: self.stale_rejected_by_number + other.stale_rejected_by_number,
            sound_rejected: self.sound_rejected + other.sound_rejected,
        }
    }
}
