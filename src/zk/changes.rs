//! Which change of a node's children was a create and which a delete, as told by the lists themselves.
//!
//! A child watch says that something changed, not what. But the sequence suffix counts creates, so a list
//! of n children whose highest number is s was taken after s + 1 creates and s + 1 − n deletes: it is the
//! list after change number 2(s + 1) − n. A watch that was set with that list is fired by the very next
//! change. Every list of every contender is noted here, and so the kind of that next change is known as
//! soon as anybody has listed after it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::watch::Arm;

/// How many changes are remembered; older ones are overwritten.
const REMEMBERED: usize = 1 << 16;

/// What the change that fired a watch was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A child was created.
    Created,
    /// The lowest child, which is the holder's in a queue lock, was deleted.
    LowestDeleted,
    /// Another child was deleted: a waiter left.
    OtherDeleted,
    /// Several changes came between two lists, and they were of different kinds.
    Unknown,
}

/// The changes of one lock path, shared by all contenders of a process.
#[derive(Debug)]
pub struct ChangeLog {
    // For each change: its number + 1 (high half) and the creates so far (low half); and, apart, the lowest
    // child. Written by whoever lists, without a lock: a torn pair is detected by the number and skipped.
    creates: Box<[AtomicU64]>,
    lowest: Box<[AtomicU64]>,
}

impl Default for ChangeLog {
    fn default() -> Self {
        let zeroes = || (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect();
        Self { creates: zeroes(), lowest: zeroes() }
    }
}

impl ChangeLog {
    /// Notes what a list showed.
    pub fn note(&self, list: &Arm) {
        let (Some(number), Some(lowest)) = (list.change_number(), list.lowest) else { return };
        let Ok(slot) = usize::try_from(number) else { return };
        let slot = slot % REMEMBERED;
        self.lowest[slot].store(pair(number, lowest), Ordering::Relaxed);
        self.creates[slot].store(pair(number, list.creates()), Ordering::Release);
    }

    /// What the change was that fired a watch set with that list.
    #[must_use]
    pub fn fired(&self, armed: &Arm) -> Change {
        let Some(before) = armed.change_number() else { return Change::Unknown };
        // Look at the change itself first, then at the few after it.
        for ahead in 1..=64 {
            let Some((creates, lowest)) = self.look(before + ahead) else { continue };
            let created = creates - armed.creates();
            return if created == 0 {
                if Some(lowest) == armed.lowest { Change::OtherDeleted } else { Change::LowestDeleted }
            } else if created == ahead {
                Change::Created
            } else {
                Change::Unknown
            };
        }
        Change::Unknown
    }

    fn look(&self, number: i64) -> Option<(i64, i64)> {
        let slot = usize::try_from(number).ok()? % REMEMBERED;
        let creates = unpair(self.creates[slot].load(Ordering::Acquire), number)?;
        let lowest = unpair(self.lowest[slot].load(Ordering::Relaxed), number)?;
        Some((creates, lowest))
    }
}

/// Both halves keep 32 bits, as sequence numbers have.
fn pair(number: i64, value: i64) -> u64 {
    let low = |value: i64| u64::from(value.cast_unsigned() as u32);
    (low(number + 1) << 32) | low(value)
}

fn unpair(stored: u64, number: i64) -> Option<i64> {
    let value = i64::from(stored as u32);
    (stored >> 32 == u64::from((number + 1).cast_unsigned() as u32)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sequences: &[i64]) -> Arm {
        let names: Vec<String> = sequences.iter().map(|s| format!("n-{s:010}")).collect();
        Arm::of_list(&names)
    }

    #[test]
    fn a_create_and_a_release_are_told_apart_by_the_next_list() {
        let log = ChangeLog::default();
        let armed = list(&[3, 4]);
        log.note(&list(&[3, 4, 5]));
        assert_eq!(log.fired(&armed), Change::Created);
        let log = ChangeLog::default();
        log.note(&list(&[4]));
        assert_eq!(log.fired(&armed), Change::LowestDeleted);
    }

    #[test]
    fn a_waiter_that_left_is_not_taken_for_a_release() {
        let log = ChangeLog::default();
        let armed = list(&[3, 4, 5]);
        log.note(&list(&[3, 5]));
        assert_eq!(log.fired(&armed), Change::OtherDeleted);
    }

    #[test]
    fn two_changes_of_different_kinds_stay_unknown_until_somebody_listed_between_them() {
        let log = ChangeLog::default();
        let armed = list(&[3, 4]);
        log.note(&list(&[4, 5]));
        assert_eq!(log.fired(&armed), Change::Unknown);
        log.note(&list(&[4]));
        assert_eq!(log.fired(&armed), Change::LowestDeleted);
    }

    #[test]
    fn with_no_later_list_nothing_is_claimed() {
        assert_eq!(ChangeLog::default().fired(&list(&[3, 4])), Change::Unknown);
    }
}
