//! Classifies changes to a node's children as creates or deletes, based on recorded lists and requests.
//!
//! A child watch reports that something changed, but not what. Sequence numbers count the creates: a list
//! with n children and highest number s was taken after s + 1 creates and s + 1 − n deletes, which is 2(s +
//! 1) − n changes. A watch set with that list fires on the next change: a create or a delete.
//!
//! All contenders record their lists here, so the kind is known if any contender lists the children right
//! after the change. If none does, request times may determine the order: a request that was answered before
//! another request was sent came first. If neither source helps, the change is reported as mixed or unknown.

use std::sync::atomic::{AtomicU64, Ordering};

use super::notification::{Arm, EventKind, Notification, sequence_of};
use zklockbench_core::clock::Stamp;
use zklockbench_core::ring::Ring;

/// The kind of change that fired a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildChange {
    Created,
    /// The lowest child was deleted: in a queue lock, the holder's node.
    LowestDeleted,
    /// Another child was deleted: a waiter left.
    OtherDeleted,
    /// Several changes of different kinds in an unknown order.
    Mixed,
    NobodyLooked,
}

/// Maximum number of changes between a watch's list and the later list that classifies the watched change.
const SEARCH_AHEAD: i64 = 64;

/// The change logs of several locks.
pub trait ChangeLogs {
    /// Returns the log of the lock with this queue directory.
    fn at(&self, queue: &str) -> Option<&ChangeLog>;
}

/// The changes in one queue directory, shared by all contenders of a process. Lock-free: a reader
/// detects from a slot's number that the slot is being overwritten, and skips the slot.
#[derive(Debug)]
pub struct ChangeLog {
    lists: Latest,
    created: Latest,
    deleted: Latest,
    /// Number of waiters notified of each change.
    pub ranks: Ranks,
}

impl ChangeLog {
    /// Creates a log sized for this number of contenders.
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

    /// Returns the kind of change that fired a watch set with this list.
    pub fn fired(&self, armed: &Arm) -> ChildChange {
        let Some(before) = armed.change_number() else { return ChildChange::NobodyLooked };
        // Try the change itself first, then later changes.
        let later = (1..=SEARCH_AHEAD).find_map(|ahead| Some((ahead, self.lists.get(before + ahead)?)));
        let Some((ahead, (creates, lowest))) = later else { return ChildChange::NobodyLooked };
        let created = creates as i64 - armed.creates();
        if created == 0 {
            let same_lowest = Some(lowest as i64) == armed.lowest;
            return if same_lowest { ChildChange::OtherDeleted } else { ChildChange::LowestDeleted };
        }
        if created == ahead { ChildChange::Created } else { self.first_by_time(armed) }
    }

    /// Determines from request times whether the next create or the delete of the lowest child came first.
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

/// The latest entries, indexed by change number or sequence number.
#[derive(Debug)]
struct Latest(Ring<Noted>);

/// An entry: its number and two values.
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

/// Number of recent changes whose waiters are counted. Counts for older changes restart at 1.
const REMEMBERED: usize = 1 << 10;

/// Counts the notified waiters for each change of one lock. Shared by all contenders of a process; lock-free.
///
/// Ranks follow the order in which waiters run. Within one generator thread, this is the order of arrival.
/// Across threads, the order of arrival is unknown.
#[derive(Debug)]
pub struct Ranks {
    releases: AtomicU64,
    /// Lower half of a change's key, and the number of waiters notified of that change.
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

    /// Returns the rank (from 1) of a waiter among all waiters notified of the same change.
    pub fn next(&self, notification: &Notification) -> u32 {
        let key = self.key(notification);
        let changed = u64::from(key as u32) << 32;
        let add_one = |heard: u64| if heard & !0xffff_ffff == changed { heard + 1 } else { changed + 1 };
        let slot = self.heard.slot(key.cast_signed());
        let before = slot.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |heard| Some(add_one(heard)));
        add_one(before.unwrap_or_else(|heard| heard)) as u32
    }

    /// Returns the key shared by all waiters notified of one change: the change number of the list, the sequence
    /// number of the deleted node, or otherwise the number of the latest release.
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
    fn next_list_distinguishes_a_create_from_a_release() {
        let armed = list(&[3, 4]);
        assert_eq!(log_of(&[&[3, 4, 5]]).fired(&armed), ChildChange::Created);
        assert_eq!(log_of(&[&[4]]).fired(&armed), ChildChange::LowestDeleted);
    }

    #[test]
    fn departure_of_a_waiter_is_not_classified_as_a_release() {
        assert_eq!(log_of(&[&[3, 5]]).fired(&list(&[3, 4, 5])), ChildChange::OtherDeleted);
    }

    #[test]
    fn changes_of_different_kinds_without_a_list_in_between_are_mixed() {
        let log = log_of(&[&[4, 5]]);
        assert_eq!(log.fired(&list(&[3, 4])), ChildChange::Mixed);
        log.listed(&list(&[4]));
        assert_eq!(log.fired(&list(&[3, 4])), ChildChange::LowestDeleted);
    }

    #[test]
    fn request_answered_before_another_is_sent_comes_first() {
        let armed = list(&[3, 4]);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 21, 30);
        assert_eq!(log.fired(&armed), ChildChange::LowestDeleted);
        let log = log_of(&[&[4, 5]]);
        log.deleted("/lock/n-0000000003", 10, 20);
        log.created(5, 19, 30);
        let found = log.fired(&armed);
        assert_eq!(found, ChildChange::Mixed, "the requests overlapped, so their order is unknown");
    }

    #[test]
    fn change_is_unknown_without_a_later_list() {
        assert_eq!(log_of(&[]).fired(&list(&[3, 4])), ChildChange::NobodyLooked);
    }

    fn heard(kind: EventKind, path: &str, listed: Option<&[&str]>) -> Notification {
        let armed = listed.map(|listed| Arm::of_list(&listed.iter().collect()));
        Notification { kind, path: path.into(), at: 0, armed, zxid: -1, awaited: true, rank: None }
    }

    #[test]
    fn waiters_are_ranked_separately_for_each_list_or_node() {
        let ranks = Ranks::default();
        let list = |names: &[&str]| ranks.next(&heard(EventKind::ChildrenChanged, "/l", Some(names)));
        let (first, second) = (["n-0000000003", "n-0000000004"], ["n-0000000004"]);
        // A waiter may be notified of the first change after another waiter was notified of the second change
        assert_eq!([list(&first), list(&first), list(&second), list(&first), list(&second)], [1, 2, 1, 3, 2]);
        let ranks = Ranks::default();
        let node = |path| ranks.next(&heard(EventKind::NodeDeleted, path, None));
        assert_eq!([node("/l/n-0000000007"), node("/l/n-0000000008"), node("/l/n-0000000007")], [1, 1, 2]);
    }

    #[test]
    fn waiters_on_unnumbered_nodes_are_ranked_per_release() {
        let ranks = Ranks::default();
        let node = || ranks.next(&heard(EventKind::NodeDeleted, "/l/lock", None));
        ranks.released();
        assert_eq!([node(), node(), node()], [1, 2, 3]);
        (0..REMEMBERED).for_each(|_| ranks.released());
        assert_eq!([node(), node()], [1, 2], "a new release restarts the count, even in a reused slot");
    }
}
