//! Which change of a node's children was a create and which a delete, as told by lists, creates and deletes.
//!
//! A child watch says that something changed, not what. But the sequence suffix counts creates, so a list
//! of n children whose highest number is s was taken after s + 1 creates and s + 1 − n deletes: it is the
//! list after change number 2(s + 1) − n. A watch that was set with that list is fired by the very next
//! change, and that is either the create of number s + 1 or a delete. Every list of every contender is noted
//! here, so the kind of that change is known as soon as anybody has listed right after it. Where none did,
//! the requests themselves may tell: one that was answered before the other was sent came first. Where not
//! even that decides, the cause stays open and is reported as unknown.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::arrival::{Arm, sequence_of};
use super::ranks::Ranks;
use crate::words::clock::Stamp;

/// What the change that fired a watch was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Created,
    /// The lowest child, which is the holder's in a queue lock, was deleted.
    LowestDeleted,
    /// Another child was deleted: a waiter left.
    OtherDeleted,
    /// Changes of different kinds came at the same time, and nothing tells which was first.
    Mixed,
    NobodyLooked,
}

/// How far after a list another one is looked for.
const LOOK_AHEAD: i64 = 64;

/// The changes of one lock path, shared by all contenders of a process. Lock-free; a slot that is being
/// overwritten is recognised by its number and skipped.
#[derive(Debug)]
pub struct ChangeLog {
    remembered: usize,
    lists: OnceLock<Ring>,
    created: OnceLock<Ring>,
    deleted: OnceLock<Ring>,
    /// How many waiters have heard of each change.
    pub ranks: Ranks,
}

impl ChangeLog {
    /// A log that remembers enough for that many contenders.
    pub fn new(contenders: usize) -> Self {
        let remembered = (contenders * 16 + 1024).next_power_of_two();
        let [lists, created, deleted] = [const { OnceLock::new() }; 3];
        Self { remembered, lists, created, deleted, ranks: Ranks::default() }
    }

    pub fn listed(&self, list: &Arm) {
        if let (Some(number), Some(lowest)) = (list.change_number(), list.lowest) {
            self.ring(&self.lists).put(number, list.creates() as u64, lowest as u64);
        }
    }

    /// Notes when the create of a number was sent and answered.
    pub fn created(&self, number: i64, sent: Stamp, answered: Stamp) {
        self.ring(&self.created).put(number, sent, answered);
    }

    /// Notes when the delete of a node was sent and answered.
    pub fn deleted(&self, path: &str, sent: Stamp, answered: Stamp) {
        if let Some(number) = sequence_of(path) {
            self.ring(&self.deleted).put(number, sent, answered);
        }
    }

    /// What the change was that fired a watch set with that list.
    pub fn fired(&self, armed: &Arm) -> Change {
        let Some(before) = armed.change_number() else { return Change::NobodyLooked };
        // Look at the change itself first, then at the ones after it.
        let later =
            (1..=LOOK_AHEAD).find_map(|ahead| Some((ahead, self.ring(&self.lists).get(before + ahead)?)));
        let Some((ahead, (creates, lowest))) = later else { return Change::NobodyLooked };
        let created = creates as i64 - armed.creates();
        if created == 0 {
            let same_lowest = Some(lowest as i64) == armed.lowest;
            return if same_lowest { Change::OtherDeleted } else { Change::LowestDeleted };
        }
        if created == ahead { Change::Created } else { self.first_by_time(armed) }
    }

    /// The next create against the delete of the lowest, by when they were sent and answered.
    fn first_by_time(&self, armed: &Arm) -> Change {
        let create = self.ring(&self.created).get(armed.creates());
        let delete = armed.lowest.and_then(|lowest| self.ring(&self.deleted).get(lowest));
        match (create, delete) {
            (Some((_, created)), Some((deleting, _))) if created < deleting => Change::Created,
            (Some((creating, _)), Some((_, deleted))) if deleted < creating => Change::LowestDeleted,
            _ => Change::Mixed,
        }
    }

    fn ring<'a>(&self, ring: &'a OnceLock<Ring>) -> &'a Ring {
        ring.get_or_init(|| Ring::new(self.remembered))
    }
}

/// The latest values by number.
#[derive(Debug)]
struct Ring(Box<[[AtomicU64; 3]]>);

impl Ring {
    fn new(size: usize) -> Self {
        Self((0..size).map(|_| [const { AtomicU64::new(u64::MAX) }; 3]).collect())
    }

    fn slot(&self, number: i64) -> &[AtomicU64; 3] {
        &self.0[usize::try_from(number.rem_euclid(self.0.len() as i64)).unwrap_or(0)]
    }

    fn put(&self, number: i64, first: u64, second: u64) {
        let [tag, a, b] = self.slot(number);
        if tag.load(Ordering::Acquire) == number as u64 {
            return;
        }
        tag.store(u64::MAX, Ordering::Release);
        a.store(first, Ordering::Release);
        b.store(second, Ordering::Release);
        tag.store(number as u64, Ordering::Release);
    }

    fn get(&self, number: i64) -> Option<(u64, u64)> {
        let [tag, a, b] = self.slot(number);
        let ours = || tag.load(Ordering::Acquire) == number as u64;
        let before = ours();
        let values = (a.load(Ordering::Acquire), b.load(Ordering::Acquire));
        (before && ours()).then_some(values)
    }
}

#[cfg(test)]
mod tests {
    use zookeeper_client::Names;

    use super::*;

    fn list(sequences: &[i64]) -> Arm {
        let names: Names = sequences.iter().map(|s| format!("n-{s:010}")).collect();
        Arm::of_list(&names)
    }

    fn log_of(lists: &[&[i64]]) -> ChangeLog {
        let log = ChangeLog::new(10);
        for sequences in lists {
            log.listed(&list(sequences));
        }
        log
    }

    #[test]
    fn a_create_and_a_release_are_told_apart_by_the_next_list() {
        let armed = list(&[3, 4]);
        assert_eq!(log_of(&[&[3, 4, 5]]).fired(&armed), Change::Created);
        assert_eq!(log_of(&[&[4]]).fired(&armed), Change::LowestDeleted);
    }

    #[test]
    fn a_waiter_that_left_is_not_taken_for_a_release() {
        assert_eq!(log_of(&[&[3, 5]]).fired(&list(&[3, 4, 5])), Change::OtherDeleted);
    }

    #[test]
    fn two_changes_of_different_kinds_stay_open_until_somebody_listed_between_them() {
        let log = log_of(&[&[4, 5]]);
        assert_eq!(log.fired(&list(&[3, 4])), Change::Mixed);
        log.listed(&list(&[4]));
        assert_eq!(log.fired(&list(&[3, 4])), Change::LowestDeleted);
    }

    #[test]
    fn a_request_answered_before_the_other_was_sent_came_first() {
        let armed = list(&[3, 4]);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 21, 30);
        assert_eq!(log.fired(&armed), Change::LowestDeleted);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 19, 30);
        assert_eq!(log.fired(&armed), Change::Mixed, "they overlapped: nothing is claimed");
    }

    #[test]
    fn with_no_later_list_nothing_is_claimed() {
        assert_eq!(log_of(&[]).fired(&list(&[3, 4])), Change::NobodyLooked);
    }
}
