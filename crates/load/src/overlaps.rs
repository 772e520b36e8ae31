//! Messages of contenders that were inside a lock together. They are copied as soon as the overlap is noticed,
//! because later messages would replace them. Whether the overlap is a violation is judged later.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use zklockbench_core::clock::Stamp;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::capitalised;
use zklockbench_record::{FaultRecord, StepKind, Traced, Trial};
use zklockbench_zk::{EventKind, Message, MessageKind, Messages};

/// Maximum number of contenders whose messages are kept for one overlap.
const INSIDE: usize = 8;
/// Maximum number of overlaps whose messages are copied. Includes overlaps with zombies, which are not violations.
const KEPT: usize = 4 * Trial::VIOLATIONS_KEPT;

#[derive(Debug)]
pub struct Overlaps {
    /// Latest messages of each contender.
    pub messages: Box<[Arc<Messages>]>,
    noted: AtomicUsize,
    /// Copied messages, by contender and message number.
    kept: Mutex<BTreeMap<(usize, u64), Message>>,
}

impl Overlaps {
    pub fn of(contenders: usize) -> Self {
        let messages = (0..contenders).map(|_| Arc::default()).collect();
        Self { messages, noted: AtomicUsize::new(0), kept: Mutex::default() }
    }

    /// Copies the messages of a contender that has entered, and of the other contenders inside.
    pub fn note(&self, entered: usize, inside: impl FnOnce() -> Vec<usize>) {
        if self.noted.fetch_add(1, Ordering::Relaxed) >= KEPT {
            return;
        }
        let mut kept = locked(&self.kept);
        let others = inside().into_iter().filter(|other| *other != entered);
        for contender in std::iter::once(entered).chain(others).take(INSIDE) {
            let latest = self.messages[contender].latest();
            kept.extend(latest.into_iter().map(|message| ((contender, message.number), message)));
        }
    }

    /// Returns the copied messages and the faults in chronological order. Fault times are relative to `begin`.
    pub fn traced(&self, faults: &[FaultRecord], begin: Stamp) -> Vec<Traced> {
        let kept = locked(&self.kept);
        let messages = kept.iter().map(|((contender, _), message)| traced(*contender, message));
        let faults = faults.iter().flat_map(|fault| {
            let name = format!("{} on {}", fault.kind, fault.target);
            let over = fault.ended_us.map(|at| (at, format!("{name} is over")));
            [Some((fault.effective_us.unwrap_or(fault.asked_us), name)), over].into_iter().flatten()
        });
        let faults = faults.map(|(at, what)| {
            let at = begin.saturating_add_signed(at);
            Traced { at, contender: None, kind: StepKind::Fault, what }
        });
        let mut all: Vec<Traced> = faults.chain(messages).collect();
        // Within the same microsecond, requests come last.
        all.sort_by_key(|one| (one.at, one.kind == StepKind::Request));
        all
    }
}

fn traced(contender: usize, message: &Message) -> Traced {
    let (kind, what) = match message.kind {
        MessageKind::Request(RequestKind::Multi) => (StepKind::Request, name(RequestKind::Multi)),
        MessageKind::Request(kind) => (StepKind::Request, format!("{} {}", name(kind), message.name())),
        MessageKind::Reply(kind) => (StepKind::Reply, format!("{}, reply", name(kind))),
        MessageKind::Refusal(kind, why) => (StepKind::Reply, format!("{}: {why}", name(kind))),
        MessageKind::NoReply(kind, why) => (StepKind::LostReply, format!("{}: {why}", name(kind))),
        MessageKind::Notification(event) => {
            let happened = match event {
                EventKind::NodeCreated => "created",
                EventKind::NodeDeleted => "deleted",
                EventKind::DataChanged => "changed",
                EventKind::ChildrenChanged => "children changed",
                EventKind::SessionOver => "session over",
            };
            (StepKind::Notification, format!("{} {happened}", message.name()))
        }
    };
    Traced { at: message.at, contender: Some(contender), kind, what }
}

/// Returns the request's name in ZooKeeper's API, e.g. `getChildren and watch`.
fn name(kind: RequestKind) -> String {
    let (words, watch) = match kind.name().strip_suffix("_watch") {
        Some(words) => (words, " and watch"),
        None => (kind.name(), ""),
    };
    let mut words = words.split('_');
    let first = words.next().unwrap_or_default();
    format!("{first}{}{watch}", words.map(capitalised).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_names_in_zookeepers_api() {
        use RequestKind::{CheckWatches, Exists, ExistsWatch, GetChildrenWatch, SetData};
        let names = [Exists, ExistsWatch, GetChildrenWatch, SetData, CheckWatches].map(name);
        assert_eq!(names, ["exists", "exists and watch", "getChildren and watch", "setData", "checkWatches"]);
    }

    #[test]
    fn faults_and_messages_are_in_chronological_order() {
        let fault = FaultRecord {
            kind: "freeze".into(),
            target: "contender 2".into(),
            asked_us: 5,
            ended_us: Some(30),
            ..FaultRecord::default()
        };
        let overlaps = Overlaps::of(3);
        let told = |overlaps: &Overlaps| -> Vec<(Stamp, String)> {
            let traced = overlaps.traced(std::slice::from_ref(&fault), 100);
            traced.into_iter().map(|one| (one.at, one.what)).collect()
        };
        let began = (105, "freeze on contender 2".to_owned());
        let over = (130, "freeze on contender 2 is over".to_owned());
        assert_eq!(told(&overlaps), [began, over]);
    }

    #[test]
    fn messages_of_the_entering_contender_are_copied_even_if_many_are_inside() {
        let overlaps = Overlaps::of(INSIDE + 1);
        overlaps.messages[INSIDE].note(7, MessageKind::Reply(RequestKind::GetChildren), "/run/lock-0");
        overlaps.note(INSIDE, || Vec::from_iter(0..=INSIDE));
        assert_eq!(overlaps.traced(&[], 0).len(), 1);
    }

    #[test]
    fn request_follows_a_reply_from_the_same_microsecond() {
        let overlaps = Overlaps::of(2);
        overlaps.messages[0].note(7, MessageKind::Request(RequestKind::GetChildren), "/run/lock-0");
        overlaps.messages[1].note(7, MessageKind::Reply(RequestKind::GetChildren), "/run/lock-0");
        overlaps.note(1, || vec![0, 1]);
        let kinds: Vec<StepKind> = overlaps.traced(&[], 0).into_iter().map(|one| one.kind).collect();
        assert_eq!(kinds, [StepKind::Reply, StepKind::Request]);
    }

    #[test]
    fn messages_are_copied_once_and_only_for_the_first_overlaps() {
        let overlaps = Overlaps::of(2);
        let asks = |at| {
            overlaps.messages[1].note(at, MessageKind::Request(RequestKind::GetChildren), "/run/lock-0");
        };
        asks(7);
        (0..KEPT).for_each(|_| overlaps.note(1, || vec![0, 1]));
        asks(8);
        overlaps.note(1, || vec![0, 1]);
        let (kind, what) = (StepKind::Request, "getChildren lock-0".to_owned());
        assert_eq!(overlaps.traced(&[], 0), [Traced { at: 7, contender: Some(1), kind, what }]);
    }
}
