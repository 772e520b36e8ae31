//! Which change of a node's children was a create and which a delete, as told by lists, creates and deletes.
//!
//! A child watch says that something changed, not what. But the sequence suffix counts creates, so a list
//! of n children whose highest number is s was taken after s + 1 creates and s + 1 − n deletes: it is the
//! list after change number 2(s + 1) − n. A watch that was set with that list is fired by the very next
//! change, and that is either the create of number s + 1 or a delete. Every list of every contender is noted
//! here, so the kind of that change is known as soon as anybody has listed right after it. Where none did,
//! the requests themselves may tell: one that was answered before the other was sent came first. Where not
//! even that decides, the cause stays open and is reported as unknown.

use std::sync::atomic::{AtomicU64, Ordering};

use super::notification::{Arm, EventKind, Notification, sequence_of};
use zklockbench_core::clock::Stamp;
use zklockbench_core::ring::Ring;

/// What the change that fired a watch was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildChange {
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

/// The change logs of several locks.
pub trait ChangeLogs {
    /// The log of the lock whose queue is in that directory.
    fn at(&self, queue: &str) -> Option<&ChangeLog>;
}

/// The changes of one lock path, shared by all contenders of a process. Lock-free; a slot that is being
/// overwritten is recognised by its number and skipped.
#[derive(Debug)]
pub struct ChangeLog {
    lists: Latest,
    created: Latest,
    deleted: Latest,
    /// How many waiters have heard of each change.
    pub ranks: Ranks,
}

impl ChangeLog {
    /// A log that remembers enough for that many contenders.
    pub fn new(contenders: usize) -> Self {
        let [lists, created, deleted] = [(); 3].map(|()| Latest(Ring::of(contenders * 16 + 1024)));
        Self { lists, created, deleted, ranks: Ranks::default() }
    }

    pub fn listed(&self, list: &Arm) {
        if let (Some(number), Some(lowest)) = (list.change_number(), list.lowest) {
            self.lists.put(number, list.creates() as u64, lowest as u64);
        }
    }

    pub fn created(&self, number: i64, sent: Stamp, answered: Stamp) {
        self.created.put(number, sent, answered);
    }

    pub fn deleted(&self, path: &str, sent: Stamp, answered: Stamp) {
        if let Some(number) = sequence_of(path) {
            self.deleted.put(number, sent, answered);
        }
    }

    /// What the change was that fired a watch set with that list.
    pub fn fired(&self, armed: &Arm) -> ChildChange {
        let Some(before) = armed.change_number() else { return ChildChange::NobodyLooked };
        // Look at the change itself first, then at the ones after it.
        let later = (1..=LOOK_AHEAD).find_map(|ahead| Some((ahead, self.lists.get(before + ahead)?)));
        let Some((ahead, (creates, lowest))) = later else { return ChildChange::NobodyLooked };
        let created = creates as i64 - armed.creates();
        if created == 0 {
            let same_lowest = Some(lowest as i64) == armed.lowest;
            return if same_lowest { ChildChange::OtherDeleted } else { ChildChange::LowestDeleted };
        }
        if created == ahead { ChildChange::Created } else { self.first_by_time(armed) }
    }

    /// The next create against the delete of the lowest, by when they were sent and answered.
    fn first_by_time(&self, armed: &Arm) -> ChildChange {
        let create = self.created.get(armed.creates());
        let delete = armed.lowest.and_then(|lowest| self.deleted.get(lowest));
        match (create, delete) {
            (Some((_, created)), Some((deleting, _))) if created < deleting => ChildChange::Created,
            (Some((creating, _)), Some((_, deleted))) if deleted < creating => ChildChange::LowestDeleted,
            _ => ChildChange::Mixed,
        }
    }
}

/// The latest values by number.
#[derive(Debug)]
struct Latest(Ring<Noted>);

/// A number, and what was noted for it.
#[derive(Debug)]
struct Noted([AtomicU64; 3]);

impl Default for Noted {
    fn default() -> Self {
        Self([const { AtomicU64::new(u64::MAX) }; 3])
    }
}

impl Latest {
    fn put(&self, number: i64, first: u64, second: u64) {
        let Noted([tag, a, b]) = self.0.slot(number);
        if tag.load(Ordering::Acquire) == number as u64 {
            return;
        }
        tag.store(u64::MAX, Ordering::Release);
        a.store(first, Ordering::Release);
        b.store(second, Ordering::Release);
        tag.store(number as u64, Ordering::Release);
    }

    fn get(&self, number: i64) -> Option<(u64, u64)> {
        let Noted([tag, a, b]) = self.0.get(number)?;
        let ours = || tag.load(Ordering::Acquire) == number as u64;
        let before = ours();
        let values = (a.load(Ordering::Acquire), b.load(Ordering::Acquire));
        (before && ours()).then_some(values)
    }
}

/// Changes whose waiters are counted at the same time. An older one would begin again at 1.
const REMEMBERED: usize = 1 << 10;

/// Counts, change by change of one lock, the waiters that have heard of it. Shared by all contenders of a process, and
/// lock-free.
///
/// Places are taken in the order in which the waiters run, which on one generator thread is that of arrival. Where several
/// threads hear of a change at the same time, it can't be told who was first, and the order is that of this count.
#[derive(Debug)]
pub struct Ranks {
    releases: AtomicU64,
    /// In each the lower half of the change's key, and how many have heard of that.
    heard: Ring<AtomicU64>,
}

impl Default for Ranks {
    fn default() -> Self {
        Self { releases: AtomicU64::new(0), heard: Ring::of(REMEMBERED) }
    }
}

impl Ranks {
    pub fn released(&self) {
        self.releases.fetch_add(1, Ordering::Relaxed);
    }

    /// A waiter hears of a change: returns its place among those that hear of the same, from 1.
    pub fn next(&self, notification: &Notification) -> u32 {
        let key = self.key(notification);
        let changed = u64::from(key as u32) << 32;
        let add_one = |heard: u64| if heard & !0xffff_ffff == changed { heard + 1 } else { changed + 1 };
        let slot = self.heard.slot(key.cast_signed());
        let before = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |heard| Some(add_one(heard)));
        add_one(before.unwrap_or_else(|heard| heard)) as u32
    }

    /// What all who hear of the same change have in common: a list that is out of date, a node that is gone or, where
    /// neither has a number, the latest release.
    fn key(&self, notification: &Notification) -> u64 {
        let number = match notification.kind {
            EventKind::ChildrenChanged => notification.armed.as_ref().and_then(Arm::change_number),
            EventKind::NodeDeleted => sequence_of(&notification.path),
            _ => None,
        };
        number.map_or_else(|| self.releases.load(Ordering::Relaxed), i64::cast_unsigned)
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
        assert_eq!(log_of(&[&[3, 4, 5]]).fired(&armed), ChildChange::Created);
        assert_eq!(log_of(&[&[4]]).fired(&armed), ChildChange::LowestDeleted);
    }

    #[test]
    fn a_waiter_that_left_is_not_taken_for_a_release() {
        assert_eq!(log_of(&[&[3, 5]]).fired(&list(&[3, 4, 5])), ChildChange::OtherDeleted);
    }

    #[test]
    fn two_changes_of_different_kinds_stay_open_until_somebody_listed_between_them() {
        let log = log_of(&[&[4, 5]]);
        assert_eq!(log.fired(&list(&[3, 4])), ChildChange::Mixed);
        log.listed(&list(&[4]));
        assert_eq!(log.fired(&list(&[3, 4])), ChildChange::LowestDeleted);
    }

    #[test]
    fn a_request_answered_before_the_other_was_sent_came_first() {
        let armed = list(&[3, 4]);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 21, 30);
        assert_eq!(log.fired(&armed), ChildChange::LowestDeleted);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 19, 30);
        assert_eq!(log.fired(&armed), ChildChange::Mixed, "they overlapped: nothing is claimed");
    }

    #[test]
    fn with_no_later_list_nothing_is_claimed() {
        assert_eq!(log_of(&[]).fired(&list(&[3, 4])), ChildChange::NobodyLooked);
    }

    fn heard(kind: EventKind, path: &str, listed: Option<&[&str]>) -> Notification {
        let armed = listed.map(|listed| Arm::of_list(&listed.iter().collect()));
        Notification { kind, path: path.into(), at: 0, armed, zxid: -1, awaited: true, rank: None }
    }

    #[test]
    fn whoever_watches_the_same_list_or_node_is_counted_together_and_nobody_else() {
        let ranks = Ranks::default();
        let list = |names: &[&str]| ranks.next(&heard(EventKind::ChildrenChanged, "/l", Some(names)));
        let (first, second) = (["n-0000000003", "n-0000000004"], ["n-0000000004"]);
        // One waiter still hears of the first change when another has heard of the second
        assert_eq!([list(&first), list(&first), list(&second), list(&first), list(&second)], [1, 2, 1, 3, 2]);
        let ranks = Ranks::default();
        let node = |path| ranks.next(&heard(EventKind::NodeDeleted, path, None));
        assert_eq!([node("/l/n-0000000007"), node("/l/n-0000000008"), node("/l/n-0000000007")], [1, 1, 2]);
    }

    #[test]
    fn where_nothing_has_a_number_the_latest_release_is_what_is_heard_of() {
        let ranks = Ranks::default();
        let node = || ranks.next(&heard(EventKind::NodeDeleted, "/l/lock", None));
        ranks.released();
        assert_eq!([node(), node(), node()], [1, 2, 3]);
        (0..REMEMBERED).for_each(|_| ranks.released());
        assert_eq!([node(), node()], [1, 2], "another release begins again, even in the same slot");
    }
}
