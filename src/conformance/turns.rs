//! Records acquisitions for the exclusion check, and builds the timeline of the first overlap.

use std::cell::{Cell, RefCell};

use zklockbench_core::clock::{self, Stamp};
use zklockbench_judge::Timelines;
use zklockbench_judge::history::FoundViolation;
use zklockbench_record::history::{Acquire, Event, LockClaim, Release, Step, What};
use zklockbench_record::{Holder, Timeline, Violation};

const LOCK: &str = "lock";
const PROCESS: &str = "check";

#[derive(Debug, Default)]
pub(super) struct Turns {
    inside: Cell<Option<usize>>,
    /// First overlap: the holder, the contender that acquired the held lock, the time, and the number of
    /// earlier events.
    overlap: Cell<Option<(usize, usize, Stamp, usize)>>,
    events: RefCell<Vec<(Stamp, usize, What<'static>)>>,
}

impl Turns {
    pub fn asks(&self, contender: usize) {
        self.note(contender, acquire(Step::Invoke));
    }

    pub fn enters(&self, contender: usize) {
        let at = self.note(contender, acquire(Step::Ok));
        let before = self.inside.replace(Some(contender));
        if let (Some(before), None) = (before, self.overlap.get()) {
            self.overlap.set(Some((before, contender, at, self.events.borrow().len())));
        }
    }

    pub fn leaves(&self, contender: usize) {
        self.note(contender, release(Step::Invoke));
        self.inside.set(self.inside.get().filter(|inside| *inside != contender));
    }

    pub fn has_released(&self, contender: usize) {
        self.note(contender, release(Step::Ok));
    }

    /// Returns whether two contenders have held the lock at the same time.
    pub fn overlap(&self) -> bool {
        self.overlap.get().is_some()
    }

    fn note(&self, contender: usize, what: What<'static>) -> Stamp {
        let at = clock::now();
        self.events.borrow_mut().push((at, contender, what));
        at
    }

    /// Returns the timeline of the first overlap, once either contender has left.
    pub fn violation(&self) -> Option<Timeline> {
        let (inside, entered, at, so_far) = self.overlap.get()?;
        let events = self.events.borrow();
        let ends = |(_, who, what): &&(Stamp, usize, What<'_>)| {
            (*who == inside || *who == entered) && matches!(what, What::Release(_))
        };
        let until = events[so_far..].iter().find(ends)?.0;
        let holder = |contender| Holder { contender, sequence: None, czxid: None, entered_us: 0 };
        let (inside, entered) = (holder(inside), holder(entered));
        let violation = Violation { lock: 0, inside, entered, at, timeline: None };
        let processes = [PROCESS, PROCESS].map(str::to_owned);
        let (lock, together_us) = (LOCK.to_owned(), until - at);
        let (beside, clock) = (Vec::new(), PROCESS.to_owned());
        let found = FoundViolation { lock, violation, processes, beside, clock, together_us };
        let mut timelines = Timelines::of(&[found]);
        for (t_us, contender, what) in events.iter().copied() {
            let contender = u64::try_from(contender).ok();
            timelines.feed(&Event {
                t_us,
                process: PROCESS,
                clock: None,
                contender,
                session: None,
                state: None,
                what,
            });
        }
        timelines.finish().pop()
    }
}

fn acquire(step: Step) -> What<'static> {
    What::Acquire(Acquire {
        lock: LOCK,
        step,
        claim: LockClaim::WRITE.into(),
        depth: None,
        token: None,
        zxid: None,
    })
}

fn release(step: Step) -> What<'static> {
    What::Release(Release { lock: LOCK, step, alone: false, deleted_zxid: None, there_zxid: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_reported_after_one_contender_leaves() {
        let turns = Turns::default();
        turns.asks(0);
        turns.enters(0);
        turns.leaves(0);
        turns.has_released(0);
        turns.asks(0);
        turns.enters(0);
        turns.asks(1);
        turns.enters(1);
        assert_eq!(turns.violation(), None);
        turns.leaves(0);
        let timeline = turns.violation().unwrap();
        assert!(timeline.summary.starts_with("contender 1 entered"), "{timeline:?}");
        assert!(timeline.summary.ends_with("while contender 0 held the lock"), "{timeline:?}");
        let steps: Vec<&str> = timeline.steps.iter().rev().take(3).map(|step| step.what.as_str()).collect();
        assert_eq!(steps, ["leaves", "enters", "asks for the lock"]);
    }
}
