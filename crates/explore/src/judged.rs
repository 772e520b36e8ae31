//! Verdict on one schedule. The history judge decides whether the lock was exclusive.

use zklockbench_core::catalog::{Holders, LockCard, Params};
use zklockbench_judge::history::{Breach, Checker, Finding, HistoryEnd};
use zklockbench_locks::leases_of;
use zklockbench_record::history::{
    Acquire, Event, Header, LinePosition, LockClaim, LockKind, Release, SessionState, Step, What,
};

/// Line number of the first action, after the history's header.
const FIRST_LINE: usize = 2;

/// Actions of contenders, in order. The position of an action is its time.
#[derive(Debug)]
pub struct Deeds {
    kind: LockKind,
    /// Contenders that acquire as readers.
    readers: Vec<usize>,
    all: Vec<(usize, Deed)>,
}

#[derive(Debug, Clone, Copy)]
pub enum Deed {
    Asks,
    Enters {
        token: Option<i64>,
    },
    IsRefused,
    Leaves,
    HasLeft {
        is_sure: bool,
    },
    /// The session has ended, or the node of the hold is gone, so another contender may acquire the lock.
    LosesRight,
    /// The contender has a new node.
    GainsRight,
}

/// Overlaps found by the history judge.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exclusion {
    pub violations: u64,
    /// Overlaps with a holder that had lost its session, which no lock can prevent.
    pub zombies: u64,
    /// The first violation.
    pub first: Option<Intrusion>,
}

/// An acquisition while another contender held the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intrusion {
    pub intruder: usize,
    pub holder: Option<usize>,
    /// Number of earlier acquisitions.
    pub entry: usize,
}

/// Returns the kind of lock that a card describes.
pub fn kind_of(card: &LockCard, params: &Params) -> LockKind {
    match card.guarantees.holders {
        Holders::One => LockKind::Mutex,
        Holders::ReadersOrOneWriter => LockKind::ReadWrite,
        Holders::Leases(param) => LockKind::Semaphore(leases_of(params, param)),
    }
}

impl Deeds {
    pub fn new(kind: LockKind, readers: &[usize]) -> Self {
        Self { kind, readers: readers.to_vec(), all: Vec::new() }
    }

    fn claim(&self, contender: usize) -> LockClaim {
        if self.readers.contains(&contender) { LockClaim::READ } else { LockClaim::WRITE }
    }

    pub fn add(&mut self, contender: usize, deed: Deed) {
        self.all.push((contender, deed));
    }

    /// # Errors
    /// If the actions contradict each other, which is a bug in the exploration.
    pub fn judge(&self) -> Result<Exclusion, String> {
        const LOCK: &str = "lock";
        let locks = [(LOCK.to_owned(), self.kind)].into();
        let mut checker = Checker::new(&Header { complete: Some(true), locks, ..Header::default() });
        for (number, (contender, deed)) in self.all.iter().enumerate() {
            let number = (number + FIRST_LINE) as u64;
            let (state, what) = what(LOCK, self.claim(*contender), *deed);
            let event = Event {
                t_us: number * 10,
                process: "explore",
                clock: None,
                contender: Some(*contender as u64),
                session: None,
                state,
                what,
            };
            checker.feed(LinePosition { line: number, offset: number }, &event)?;
        }
        let judgement = checker.conclude(HistoryEnd::default());
        let count =
            |breach| judgement.findings.iter().filter(|finding| finding.breach == breach).count() as u64;
        let violation = judgement.findings.iter().find(|finding| finding.breach == Breach::Violation);
        let first = violation.and_then(|finding| self.intrusion(finding));
        Ok(Exclusion { violations: count(Breach::Violation), zombies: count(Breach::Zombie), first })
    }

    /// Identifies the intruder: the contender with the latest acquisition in the violation.
    fn intrusion(&self, violation: &Finding) -> Option<Intrusion> {
        let is_entry = |number: &usize| matches!(self.all[*number].1, Deed::Enters { .. });
        let deeds = violation.lines.iter().map(|line| line.line as usize - FIRST_LINE);
        let mut entries: Vec<usize> = deeds.filter(is_entry).collect();
        entries.sort_unstable();
        let last = entries.pop()?;
        let who = |number: usize| self.all[number].0;
        let entry = (0..last).filter(is_entry).count();
        Some(Intrusion { intruder: who(last), holder: entries.pop().map(who), entry })
    }
}

fn what(lock: &str, claim: LockClaim, deed: Deed) -> (Option<SessionState>, What<'_>) {
    let acquire = |step, token| {
        let (depth, zxid) = (None, None);
        What::Acquire(Acquire { lock, step, claim: claim.into(), depth, token, zxid })
    };
    let release =
        |step| What::Release(Release { lock, step, alone: false, deleted_zxid: None, there_zxid: None });
    match deed {
        Deed::Asks => (None, acquire(Step::Invoke, None)),
        Deed::Enters { token } => (None, acquire(Step::Ok, token)),
        Deed::IsRefused => (None, acquire(Step::Fail, None)),
        Deed::Leaves => (None, release(Step::Invoke)),
        Deed::HasLeft { is_sure: true } => (None, release(Step::Ok)),
        Deed::HasLeft { is_sure: false } => (None, release(Step::Unknown)),
        Deed::LosesRight => (Some(SessionState::Expired), What::Session),
        Deed::GainsRight => (Some(SessionState::Connected), What::Session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(deeds: &[(usize, Deed)]) -> Exclusion {
        judged_as(LockKind::Mutex, &[], deeds)
    }

    fn judged_as(kind: LockKind, readers: &[usize], deeds: &[(usize, Deed)]) -> Exclusion {
        let mut all = Deeds::new(kind, readers);
        deeds.iter().for_each(|(contender, deed)| all.add(*contender, *deed));
        all.judge().unwrap()
    }

    const ENTERS: Deed = Deed::Enters { token: None };

    #[test]
    fn an_acquisition_during_a_valid_hold_is_a_violation() {
        let deeds = [(0, Deed::Asks), (0, ENTERS), (1, Deed::Asks), (1, ENTERS)];
        let first = Some(Intrusion { intruder: 1, holder: Some(0), entry: 1 });
        assert_eq!(judged(&deeds), Exclusion { violations: 1, zombies: 0, first });
    }

    #[test]
    fn readers_exclude_only_writers() {
        let deeds = [(0, Deed::Asks), (0, ENTERS), (1, Deed::Asks), (1, ENTERS)];
        let violations = |readers: &[usize]| judged_as(LockKind::ReadWrite, readers, &deeds).violations;
        assert_eq!([violations(&[0, 1]), violations(&[0]), violations(&[1]), violations(&[])], [0, 1, 1, 1]);
    }

    #[test]
    fn hold_after_an_earlier_attempt_still_excludes_other_contenders() {
        let again = [(0, Deed::Asks), (0, ENTERS)];
        let released = [Deed::Asks, ENTERS, Deed::Leaves, Deed::HasLeft { is_sure: true }];
        let gave_up = [Deed::Asks, Deed::LosesRight, Deed::IsRefused, Deed::GainsRight];
        for first in [released, gave_up] {
            let first = first.map(|deed| (0, deed));
            let deeds = [&first[..], &again, &[(1, Deed::Asks), (1, ENTERS)]].concat();
            assert_eq!(judged(&deeds).violations, 1);
        }
    }

    #[test]
    fn holder_without_a_session_is_a_zombie_when_another_contender_acquires() {
        let loses = [(0, Deed::Asks), (0, ENTERS), (1, Deed::Asks), (0, Deed::LosesRight)];
        let leaves = [(1, ENTERS), (0, Deed::Leaves), (0, Deed::HasLeft { is_sure: true })];
        let found = judged(&[&loses[..], &leaves].concat());
        assert_eq!(found, Exclusion { violations: 0, zombies: 1, first: None });
    }

    #[test]
    fn intruders_lost_session_does_not_excuse_a_violation() {
        let deeds = [(0, Deed::Asks), (0, ENTERS), (1, Deed::Asks), (1, Deed::LosesRight), (1, ENTERS)];
        assert_eq!(judged(&deeds).violations, 1);
    }

    #[test]
    fn consecutive_holds_are_neither_violations_nor_zombies() {
        let turn = |contender| {
            [Deed::Asks, ENTERS, Deed::Leaves, Deed::HasLeft { is_sure: true }].map(|deed| (contender, deed))
        };
        assert_eq!(judged(&[turn(0), turn(1)].concat()), Exclusion::default());
    }
}
