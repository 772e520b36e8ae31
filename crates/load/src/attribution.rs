//! Determines the cause of each notification: a release, a newcomer, or a departed waiter.

use super::lock_state::LockState;
use super::shared::Shared;
use zklockbench_core::clock::Stamp;
use zklockbench_core::measure::{Measure, ThreadRecorder};
use zklockbench_zk::changes::ChildChange;
use zklockbench_zk::{Arm, EventKind, Notification, sequence_of};

const UNRESOLVED_AT_MOST: usize = 4096;

enum Cause {
    /// Release of the node with this number, called at this time.
    Release {
        number: i64,
        called: Stamp,
    },
    /// Release that may be another worker's, so its time is unknown.
    ReleaseElsewhere,
    Arrival,
    Departure,
    /// Unknown until the queue is listed again after the change.
    NotYetKnown,
    Unknown,
}

struct Notice {
    lock: usize,
    at: Stamp,
    /// Rank among the waiters woken by the same change.
    rank: Option<u32>,
    useful: bool,
    /// State of the receiving contender at the time.
    receiver: Receiver,
}

/// Notifications of one contender, with their causes. Allocates only until its buffers fit the largest herd.
pub struct Attribution {
    /// Notifications from the session, until [`Attribution::settle`] removes them.
    pub inbox: Vec<Notification>,
    unresolved: Vec<(Arm, Notice)>,
    pub receiver: Receiver,
}

/// Contender that receives the notifications.
#[derive(Debug, Clone, Copy, Default)]
pub struct Receiver {
    /// Lock and number of the contender's last released node.
    pub released: Option<(usize, i64)>,
    /// Whether the contender's current acquire is a read.
    pub reads: bool,
}

impl Default for Attribution {
    fn default() -> Self {
        let (inbox, unresolved) = (Vec::with_capacity(64), Vec::with_capacity(16));
        Self { inbox, unresolved, receiver: Receiver::default() }
    }
}

impl Attribution {
    /// Records all notifications in the inbox. If `acquired`, the last awaited notification counts as useful
    /// if a release caused it; all others count as spurious.
    pub fn settle(&mut self, shared: &Shared, lock: usize, recorder: &mut ThreadRecorder, acquired: bool) {
        let last_awaited =
            self.inbox.iter().rposition(|notification| notification.awaited).filter(|_| acquired);
        for (position, notification) in self.inbox.iter().enumerate() {
            let (at, rank, useful) = (notification.at, notification.rank, last_awaited == Some(position));
            // A watch left behind at one lock may fire while the contender uses another lock.
            let of_path = || shared.lock_states.lock_of_node(&notification.path);
            let lock = if shared.open.is_some() { of_path().unwrap_or(lock) } else { lock };
            let notice = Notice { lock, at, rank, useful, receiver: self.receiver };
            let cause = cause_of(&shared.lock_states[lock], notification);
            match notification.armed.filter(|_| matches!(cause, Cause::NotYetKnown | Cause::Unknown)) {
                Some(arm) if self.unresolved.len() < UNRESOLVED_AT_MOST => {
                    self.unresolved.push((arm, notice));
                }
                _ => record(recorder, &notice, &cause),
            }
        }
        self.inbox.clear();
    }

    /// Records notifications whose cause was unknown until the queue was listed again. At the end, no listing
    /// will follow, so the departure of the lowest node must be the cause.
    pub fn settle_late(&mut self, shared: &Shared, recorder: &mut ThreadRecorder, at_the_end: bool) {
        self.unresolved.retain(|(arm, notice)| {
            let lock_state = &shared.lock_states[notice.lock];
            let mut cause = cause_of_change(lock_state, arm, notice.at);
            if matches!(cause, Cause::NotYetKnown) {
                if !at_the_end {
                    return true;
                }
                cause = arm.lowest.map_or(Cause::Unknown, |number| release_or_departure(lock_state, number));
            }
            record(recorder, notice, &cause);
            false
        });
    }
}

fn cause_of(lock_state: &LockState, notification: &Notification) -> Cause {
    match (notification.kind, &notification.armed) {
        // The node's owner has moved on to another queue, or has stopped waiting.
        (EventKind::NodeDeleted, _) if !lock_state.is_of_a_holder(&notification.path) => Cause::Departure,
        (EventKind::NodeDeleted, _) => match sequence_of(&notification.path) {
            Some(number) => release_or_departure(lock_state, number),
            None => latest_release(lock_state, notification.at),
        },
        // A lock's data changes when a holder hands over.
        (EventKind::DataChanged, _) => latest_release(lock_state, notification.at),
        // The queue is a single unnumbered node, which was created or deleted.
        (EventKind::ChildrenChanged, Some(Arm { highest: None, children: 0, .. })) => Cause::Arrival,
        (EventKind::ChildrenChanged, Some(Arm { highest: None, .. })) => {
            latest_release(lock_state, notification.at)
        }
        (EventKind::ChildrenChanged, Some(arm)) => cause_of_change(lock_state, arm, notification.at),
        (EventKind::NodeCreated, _) => Cause::Arrival,
        _ => Cause::Unknown,
    }
}

fn cause_of_change(lock_state: &LockState, arm: &Arm, at: Stamp) -> Cause {
    match (lock_state.changes.fired(arm), arm.lowest) {
        (ChildChange::Created, _) => Cause::Arrival,
        (ChildChange::LowestDeleted, Some(number)) => release_or_departure(lock_state, number),
        // With several holders, any of them may leave first, and the listing does not show which.
        (ChildChange::OtherDeleted, _) if lock_state.has_room_for_two() || lock_state.most_inside() > 1 => {
            latest_release(lock_state, at)
        }
        (ChildChange::OtherDeleted, _) => Cause::Departure,
        (ChildChange::NobodyLooked, _) => Cause::NotYetKnown,
        _ => Cause::Unknown,
    }
}

/// Returns the latest release before an event that does not identify its release.
fn latest_release(lock_state: &LockState, at: Stamp) -> Cause {
    match lock_state.release_before(at) {
        _ if lock_state.has_strangers => Cause::ReleaseElsewhere,
        Some((number, called)) => Cause::Release { number, called },
        None => Cause::Unknown,
    }
}

/// Returns the node's release. A node that was never released belonged to a waiter, or disappeared with its session.
fn release_or_departure(lock_state: &LockState, number: i64) -> Cause {
    match lock_state.release_of(number) {
        Some(called) => Cause::Release { number, called },
        None if lock_state.has_strangers => Cause::ReleaseElsewhere,
        None => Cause::Departure,
    }
}

fn record(recorder: &mut ThreadRecorder, notice: &Notice, cause: &Cause) {
    let Notice { lock, at, rank, useful, receiver } = *notice;
    if let Cause::Release { called, .. } = cause {
        let took = at.saturating_sub(*called);
        recorder.record(Measure::Notification, at, took);
        if let Some(rank) = rank {
            recorder.record_woken(rank, at, took);
        }
    }
    recorder.count(at, |counts| {
        let seen = &mut counts.notifications;
        match cause {
            Cause::Release { .. } | Cause::ReleaseElsewhere if useful => seen.by_release_useful += 1,
            Cause::ReleaseElsewhere => seen.by_release_spurious += 1,
            Cause::Release { number, .. } => {
                seen.by_release_spurious += 1;
                let is_own = receiver.released == Some((lock, *number));
                seen.to_releaser += u64::from(is_own);
                seen.spurious_to_readers += u64::from(receiver.reads && !is_own);
            }
            Cause::Arrival => seen.by_arrival += 1,
            Cause::Departure => seen.by_departure += 1,
            Cause::NotYetKnown | Cause::Unknown => seen.cause_unknown += 1,
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::tests::shared;
    use zklockbench_core::measure::Window;
    use zklockbench_locks::{Held, QueueNode};
    use zklockbench_record::LockClaim;
    use zklockbench_zk::Names;

    #[test]
    fn late_attribution_uses_the_contenders_state_at_the_notification() {
        let shared = shared("duration = \"1s\"");
        let lock_state = &shared.lock_states[0];
        let list = |numbers: &[i64]| -> Arm {
            let names: Names = numbers.iter().map(|number| format!("n-{number:010}")).collect();
            Arm::of_list(&names)
        };
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 0, end: Stamp::MAX });
        // Given a contender that released node 3, and is notified of this release as a writer
        lock_state.enter(0, LockClaim::WRITE, 5);
        let node = QueueNode { path: format!("{}/n-0000000003", lock_state.path), sequence: 3, czxid: 103 };
        lock_state.exit(0, &Held::by(node), LockClaim::WRITE, 10);
        let mut attribution = Attribution::default();
        attribution.receiver.released = Some((0, 3));
        attribution.inbox.push(Notification {
            kind: EventKind::ChildrenChanged,
            path: lock_state.path.as_str().into(),
            at: 20,
            armed: Some(list(&[3, 4])),
            zxid: -1,
            awaited: true,
            rank: None,
        });
        attribution.settle(&shared, 0, &mut recorder, false);
        assert_eq!(recorder.whole.notifications.by_release(), 0, "the queue has not been listed again");
        // When the contender has released another node and reads before the queue is listed again
        attribution.receiver = Receiver { released: Some((0, 5)), reads: true };
        lock_state.changes.listed(&list(&[4]));
        attribution.settle_late(&shared, &mut recorder, false);
        let seen = recorder.whole.notifications;
        assert_eq!((seen.by_release_spurious, seen.to_releaser, seen.spurious_to_readers), (1, 1, 0));
    }
}
