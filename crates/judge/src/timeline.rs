//! Timeline of each violation, from a second pass over the history: the last events of both contenders before the
//! violation, and the events during it. The summary states what the entering contender last observed.

use std::collections::VecDeque;

use super::history::FoundViolation;
use zklockbench_core::units::{counted, format_micros, listed};
use zklockbench_record::history::{Acquire, Event, Release, SessionState, Step, Trace, What, Write};
use zklockbench_record::{StepKind, Timeline, TimelineStep, Trial};

/// Name of the request that lists a queue.
const LIST: &str = "getChildren";
/// Suffix of the name of a fault that has ended.
const OVER: &str = " is over";

/// Maximum number of holders that the summary names besides the first.
const HOLDERS_NAMED: usize = 4;

/// Timelines of violations, built while the events are read.
#[derive(Debug)]
pub struct Timelines(Vec<Course>);

impl Timelines {
    /// Timelines of the first violations.
    pub fn of(found: &[FoundViolation]) -> Self {
        Self(found.iter().take(Trial::VIOLATIONS_KEPT).map(Course::new).collect())
    }

    /// Processes the next event of the history.
    pub fn feed(&mut self, event: &Event<'_>) {
        self.0.iter_mut().for_each(|course| course.feed(event));
    }

    /// Timelines in the order of the violations.
    pub fn finish(self) -> Vec<Timeline> {
        self.0.into_iter().map(Course::finish).collect()
    }
}

/// Kinds of steps that the summary distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Asks,
    Enters,
    /// A listing of the queue arrived.
    Listed,
    Session(SessionState),
    /// A request failed.
    Failed,
    /// A release certainly had no effect.
    NotReleased,
    /// Another reply or a notification arrived.
    Answered,
    Fault,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    step: TimelineStep,
    meaning: Meaning,
}

#[derive(Debug)]
struct Course {
    lock: String,
    /// Process and number of the holder, and of the contender that entered.
    lanes: [(String, u64); 2],
    /// The other live holders.
    beside: Vec<(String, u64)>,
    clock: String,
    at: u64,
    together_us: u64,
    before: VecDeque<Seen>,
    /// Steps that are always shown: the holder's acquisition, the entering contender's request and the last fault.
    inside: Option<Seen>,
    asked: Option<Seen>,
    fault: Option<Seen>,
    has_entered: bool,
    since: Vec<TimelineStep>,
}

impl Course {
    fn new(found: &FoundViolation) -> Self {
        let FoundViolation { lock, violation, processes: [inside, entered], .. } = found;
        let number = |contender: usize| u64::try_from(contender).unwrap_or(u64::MAX);
        Self {
            lock: lock.clone(),
            lanes: [
                (inside.clone(), number(violation.inside.contender)),
                (entered.clone(), number(violation.entered.contender)),
            ],
            at: violation.at,
            beside: found.beside.clone(),
            clock: found.clock.clone(),
            together_us: found.together_us,
            before: VecDeque::new(),
            inside: None,
            asked: None,
            fault: None,
            has_entered: false,
            since: Vec::new(),
        }
    }

    fn feed(&mut self, event: &Event<'_>) {
        if event.t_us > self.at.saturating_add(self.together_us)
            || event.what.lock().is_some_and(|lock| lock != self.lock)
        {
            return;
        }
        // Any process on the same clock may record faults.
        if let What::Trace(Trace { kind: StepKind::Fault, .. }) = event.what {
            if let Some((kind, meaning, what)) = step(&event.what)
                && event.clock.unwrap_or(event.process) == self.clock
            {
                self.note(event.t_us, None, kind, meaning, what);
            }
            return;
        }
        let is_lane = |(process, number): &(String, u64)| {
            process == event.process && event.contender.is_none_or(|contender| contender == *number)
        };
        let concerns = [0, 1].map(|lane: usize| is_lane(&self.lanes[lane]));
        let lanes = || [0, 1].into_iter().filter(|lane| concerns[*lane]);
        let Some(first) = lanes().next() else { return };
        let is_session = matches!(event.what, What::Session);
        if let Some(state) =
            event.state.filter(|_| is_session || event.state != Some(SessionState::Connected))
        {
            let meaning = Meaning::Session(state);
            for lane in lanes() {
                self.note(event.t_us, Some(lane), StepKind::Deed, meaning, told_of_session(state));
            }
        }
        if let Some((kind, meaning, what)) = step(&event.what) {
            self.note(event.t_us, event.contender.map(|_| first), kind, meaning, what);
        }
    }

    fn note(&mut self, t_us: u64, lane: Option<usize>, kind: StepKind, meaning: Meaning, what: &str) {
        let at_us = zklockbench_core::clock::signed_difference(t_us, self.at);
        let step = TimelineStep { at_us, contender: lane, kind, what: what.to_owned() };
        if self.has_entered {
            if self.since.len() <= Timeline::DURING {
                self.since.push(step);
            }
            return;
        }
        if t_us == self.at && lane == Some(1) && meaning == Meaning::Enters {
            self.has_entered = true;
            self.since.push(step);
            return;
        }
        let seen = Seen { step, meaning };
        match (lane, meaning) {
            (Some(0), Meaning::Enters) => self.inside = Some(seen.clone()),
            (Some(1), Meaning::Asks) => self.asked = Some(seen.clone()),
            _ => {}
        }
        if meaning == Meaning::Fault {
            self.fault = Some(seen.clone());
        }
        self.before.push_back(seen);
        if self.before.len() > Timeline::BEFORE {
            self.before.pop_front();
        }
    }

    fn finish(self) -> Timeline {
        let summary = self.summary();
        let contenders = [self.name(0), self.name(1)];
        let Self { mut before, inside, asked, fault, since, together_us, .. } = self;
        let mut pinned: Vec<Seen> = inside.into_iter().chain(asked).chain(fault).collect();
        pinned.retain(|seen| !before.contains(seen));
        pinned.sort_by_key(|seen| seen.step.at_us);
        while before.len() + pinned.len() > Timeline::BEFORE {
            before.pop_front();
        }
        let before = pinned.into_iter().chain(before).map(|seen| seen.step);
        Timeline { summary, contenders, together_us, steps: before.chain(since).collect() }
    }

    fn name(&self, lane: usize) -> String {
        self.name_of(&self.lanes[lane])
    }

    fn name_of(&self, (process, number): &(String, u64)) -> String {
        match self.lanes.iter().chain(&self.beside).all(|(other, _)| other == process) {
            true => format!("contender {number}"),
            false => format!("contender {number} of `{process}`"),
        }
    }

    /// Names of all holders, or of the first few.
    fn holders(&self) -> String {
        let named = self.lanes[..1].iter().chain(self.beside.iter().take(HOLDERS_NAMED));
        let mut all: Vec<String> = named.map(|one| self.name_of(one)).collect();
        let others = self.beside.len().saturating_sub(HOLDERS_NAMED);
        if others > 0 {
            all.push(counted(others, "other", "others"));
        }
        listed(&all)
    }

    fn summary(&self) -> String {
        let fault = self.fault.as_ref().map_or_else(String::new, |fault| {
            format!(", {} after the fault {}", before(&fault.step), fault.step.what)
        });
        let asked = self.before.iter().rposition(|seen| self.asked.as_ref() == Some(seen));
        let since_asked = || self.before.iter().skip(asked.map_or(0, |asked| asked + 1));
        let by_holder = since_asked().rfind(|seen| seen.step.contender == Some(0));
        if let Some(failed) = by_holder.filter(|seen| seen.meaning == Meaning::NotReleased) {
            let time = before(&failed.step);
            return format!("{} entered {time} after {}'s release failed{fault}", self.name(1), self.name(0));
        }
        let own = since_asked().filter(|seen| seen.step.contender == Some(1));
        let own: Vec<&Seen> = self.asked.iter().chain(own).collect();
        let listed = own.iter().rposition(|seen| seen.meaning == Meaning::Listed);
        let later = &own[listed.map_or(0, |at| at + 1)..];
        let last = |steps: &[&Seen], is: fn(Meaning) -> bool| {
            steps.iter().rev().find(|seen| is(seen.meaning)).map(|seen| (*seen).clone())
        };
        let trouble = last(later, |meaning| {
            matches!(
                meaning,
                Meaning::Failed | Meaning::Session(SessionState::Suspended | SessionState::Expired)
            )
        });
        let learned = trouble.or_else(|| last(later, |meaning| meaning == Meaning::Answered));
        let lists = own.iter().any(|seen| seen.step.what.starts_with(LIST));
        let again = if learned.is_some() && lists { ", without listing again" } else { "" };
        let cause = learned.or_else(|| listed.map(|at| own[at].clone()));
        let cause = cause.or_else(|| self.asked.clone());
        let after = cause
            .map_or_else(String::new, |seen| format!(" {} after {}{again}", before(&seen.step), told(&seen)));
        let comma = if again.is_empty() { "" } else { "," };
        format!("{} entered{after}{comma} while {} held the lock{fault}", self.name(1), self.holders())
    }
}

/// Time from a step to the acquisition.
fn before(step: &TimelineStep) -> String {
    format_micros(step.at_us.unsigned_abs())
}

/// The last step of the entering contender, phrased as the cause of its acquisition.
fn told(seen: &Seen) -> String {
    let what = &seen.step.what;
    match (seen.meaning, what.split_once(": ")) {
        (Meaning::Asks, _) => "its request".to_owned(),
        (Meaning::Session(SessionState::Suspended), _) => "its connection was suspended".to_owned(),
        (Meaning::Session(SessionState::Expired), _) => "its session had expired".to_owned(),
        (Meaning::Failed, Some((request, why))) => format!("its {request} failed ({why})"),
        (Meaning::Failed, None) => format!("its {what} failed"),
        _ if seen.step.kind == StepKind::Notification => format!("a notification ({what})"),
        _ => format!("the reply to its {}", what.strip_suffix(", reply").unwrap_or(what)),
    }
}

fn told_of_session(state: SessionState) -> &'static str {
    match state {
        SessionState::Connected => "connected",
        SessionState::Suspended => "connection suspended",
        SessionState::Expired => "session expired",
    }
}

/// Converts an event to a step; `None` for an event that only changes the session's state.
fn step<'a>(what: &What<'a>) -> Option<(StepKind, Meaning, &'a str)> {
    let deed = |meaning, what| Some((StepKind::Deed, meaning, what));
    match *what {
        What::Session => None,
        What::Acquire(Acquire { step, .. }) => match step {
            Step::Invoke => deed(Meaning::Asks, "asks for the lock"),
            Step::Ok => deed(Meaning::Enters, "enters"),
            Step::Fail => deed(Meaning::Other, "does not get the lock"),
            Step::Unknown => deed(Meaning::Other, "may have the lock"),
        },
        What::Release(Release { step, .. }) => deed(
            if step == Step::Fail { Meaning::NotReleased } else { Meaning::Other },
            match step {
                Step::Invoke => "leaves",
                Step::Ok => "has released",
                Step::Fail => "could not release",
                Step::Unknown => "may have released",
            },
        ),
        What::Write(Write { accepted, .. }) => deed(
            Meaning::Other,
            match accepted {
                Some(true) => "write accepted",
                Some(false) => "write rejected",
                None => "writes",
            },
        ),
        What::Trace(Trace { kind, what }) => {
            let has_failed = what.contains(": ");
            let meaning = match kind {
                StepKind::Fault if what.ends_with(OVER) => Meaning::Other,
                StepKind::Fault => Meaning::Fault,
                StepKind::LostReply | StepKind::LostRequest => Meaning::Failed,
                StepKind::Reply if has_failed => Meaning::Failed,
                StepKind::Reply if what.starts_with(LIST) => Meaning::Listed,
                StepKind::Reply | StepKind::Notification => Meaning::Answered,
                StepKind::Request | StepKind::Deed => Meaning::Other,
            };
            Some((kind, meaning, what))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::history::LockClaim;
    use zklockbench_record::{Holder, Violation};

    const LOCK: &str = "lock-0";

    fn event(t_us: u64, contender: Option<u64>, what: What<'_>) -> Event<'_> {
        Event { t_us, process: "run", clock: Some("host"), contender, session: None, state: None, what }
    }

    fn acquire(step: Step) -> What<'static> {
        let (claim, lock) = (LockClaim::WRITE.into(), LOCK);
        What::Acquire(Acquire { lock, step, claim, depth: None, token: None, zxid: None })
    }

    fn trace(kind: StepKind, what: &str) -> What<'_> {
        What::Trace(Trace { kind, what })
    }

    /// Timeline of a violation from 1,000 µs to 1,500 µs: contender 1 holds, and 3 enters after these events.
    fn timeline(events: &[Event<'_>]) -> Timeline {
        timeline_beside(Vec::new(), events)
    }

    fn timeline_beside(beside: Vec<(String, u64)>, events: &[Event<'_>]) -> Timeline {
        let holder = |contender| Holder { contender, sequence: None, czxid: None, entered_us: 0 };
        let (inside, entered) = (holder(1), holder(3));
        let found = FoundViolation {
            lock: LOCK.to_owned(),
            violation: Violation { lock: 0, inside, entered, at: 1_000, timeline: None },
            processes: ["run", "run"].map(str::to_owned),
            beside,
            clock: "host".to_owned(),
            together_us: 500,
        };
        let mut timelines = Timelines::of(&[found]);
        let release =
            Release { lock: LOCK, step: Step::Invoke, alone: false, deleted_zxid: None, there_zxid: None };
        let mut all = vec![
            event(100, Some(1), acquire(Step::Ok)),
            event(150, Some(3), acquire(Step::Invoke)),
            event(160, Some(2), acquire(Step::Invoke)),
        ];
        all.extend(events);
        all.push(event(1_000, Some(3), acquire(Step::Ok)));
        all.push(event(1_500, Some(1), What::Release(release)));
        all.push(event(1_501, Some(1), acquire(Step::Invoke)));
        all.iter().for_each(|event| timelines.feed(event));
        timelines.finish().remove(0)
    }

    #[test]
    fn summary_states_the_last_observation_of_the_entering_contender() {
        let listed = || event(200, Some(3), trace(StepKind::Reply, "getChildren, reply"));
        let suspended = Event { state: Some(SessionState::Suspended), ..event(932, Some(3), What::Session) };
        let of_all = Event { contender: None, ..suspended };
        let of_another = |clock| Event {
            process: "faults",
            clock,
            ..event(400, None, trace(StepKind::Fault, "freeze on server 2"))
        };
        let release = |step| {
            What::Release(Release { lock: LOCK, step, alone: false, deleted_zxid: None, there_zxid: None })
        };
        // `|` stands for " while contender 1 held the lock".
        let cases: [(&[Event<'_>], &str); 11] = [
            (&[], "entered 850 µs after its request|"),
            (&[listed()], "entered 800 µs after the reply to its getChildren|"),
            (
                &[listed(), suspended],
                "entered 68 µs after its connection was suspended, without listing again,|",
            ),
            (&[of_all], "entered 68 µs after its connection was suspended|"),
            (
                &[event(900, Some(3), trace(StepKind::LostReply, "getChildren: connection loss"))],
                "entered 100 µs after its getChildren failed (connection loss), without listing again,|",
            ),
            (
                &[listed(), event(990, Some(3), trace(StepKind::Notification, "n-1 deleted"))],
                "entered 10 µs after a notification (n-1 deleted), without listing again,|",
            ),
            (
                &[suspended, event(940, Some(3), trace(StepKind::Reply, "getChildren, reply"))],
                "entered 60 µs after the reply to its getChildren|",
            ),
            (
                &[
                    listed(),
                    event(400, None, trace(StepKind::Fault, "freeze on server 2")),
                    event(500, None, trace(StepKind::Fault, "freeze on server 2 is over")),
                ],
                "entered 800 µs after the reply to its getChildren|, 600 µs after the fault freeze on server 2",
            ),
            (
                &[of_another(Some("host"))],
                "entered 850 µs after its request|, 600 µs after the fault freeze on server 2",
            ),
            (&[of_another(None)], "entered 850 µs after its request|"),
            (
                &[
                    listed(),
                    event(500, Some(1), release(Step::Invoke)),
                    event(600, Some(1), release(Step::Fail)),
                ],
                "entered 400 µs after contender 1's release failed",
            ),
        ];
        for (events, expected) in cases {
            let expected = expected.replace('|', " while contender 1 held the lock");
            assert_eq!(timeline(events).summary, format!("contender 3 {expected}"));
        }
    }

    #[test]
    fn summary_names_all_holders_of_a_semaphore_or_the_first_five() {
        let beside =
            |numbers: std::ops::Range<u64>| numbers.map(|number| ("run".to_owned(), number)).collect();
        for (others, names) in [
            (4..6, "contender 1, contender 4 and contender 5"),
            (4..10, "contender 1, contender 4, contender 5, contender 6, contender 7 and 2 others"),
        ] {
            let expected =
                format!("contender 3 entered 850 µs after its request while {names} held the lock");
            assert_eq!(timeline_beside(beside(others), &[]).summary, expected);
        }
        let elsewhere = timeline_beside(vec![("other".to_owned(), 4)], &[]).summary;
        let wanted = "contender 1 of `run` and contender 4 of `other` held the lock";
        assert!(elsewhere.ends_with(wanted), "{elsewhere}");
    }

    #[test]
    fn timeline_has_the_steps_of_both_contenders_until_the_overlap_ends() {
        let steps: Vec<(i64, Option<usize>, String)> =
            timeline(&[]).steps.into_iter().map(|step| (step.at_us, step.contender, step.what)).collect();
        let step = |at, lane, what: &str| (at, Some(lane), what.to_owned());
        let expected = [
            step(-900, 0, "enters"),
            step(-850, 1, "asks for the lock"),
            step(0, 1, "enters"),
            step(500, 0, "leaves"),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn long_timelines_keep_the_holders_acquisition_the_request_and_the_fault() {
        let mut events = vec![event(170, None, trace(StepKind::Fault, "freeze on server 2"))];
        events.extend((200..240).map(|at| event(at, Some(3), trace(StepKind::Request, "exists n-1"))));
        let timeline = timeline(&events);
        let summary = "contender 3 entered 850 µs after its request while contender 1 held the lock, 830 µs after the \
                       fault freeze on server 2";
        assert_eq!(timeline.summary, summary);
        let steps = timeline.steps;
        let before: Vec<&str> =
            steps.iter().filter(|step| step.at_us < 0).map(|step| step.what.as_str()).collect();
        assert_eq!(before.len(), Timeline::BEFORE);
        assert_eq!(before[..3], ["enters", "asks for the lock", "freeze on server 2"]);
    }
}
