//! Facts about a finished trial: the contenders' moments, and the servers' log records of their nodes. The
//! judge and the history read both as events.
//!
//! The number of moments is unlimited, so they are spooled to disk, and dropped after judging.

use std::collections::{BTreeMap, HashSet};
use std::io;

use super::Trial;
use super::history::{
    Acquire, Deed, Event, Header, LockClaim, LockKind, Moment, Release, SessionState, Step, Trace, What,
    Write,
};
use super::judged::{CLOCKS_DIFFER_MS, Life, Lives};
use super::timeline::StepKind;
use zklockbench_core::clock::{Stamp, WallClock};
use zklockbench_core::spool::{Merge, Sorted};

/// Prefix of the locks' names in a history.
const LOCK: &str = "lock-";
/// Name of the only process in a trial's history.
const PROCESS: &str = "run";

/// A moment with the number of the generator thread that recorded it.
pub type Noted = (usize, Moment);

/// Time, contender and transaction of an acquisition.
pub type EnteredAsOf = (Stamp, usize, i64);

/// A contender, and a time that identifies one of its holds.
pub type Hold = (usize, Stamp);

/// A fault, or a contender's message shortly before an overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traced {
    pub at: Stamp,
    /// `None` for a fault.
    pub contender: Option<usize>,
    pub kind: StepKind,
    pub what: String,
}

impl Traced {
    /// Whether the step precedes a contender's action at `moment`. Requests in the same microsecond follow the
    /// action; other steps precede it.
    fn is_before(&self, moment: Stamp) -> bool {
        self.at < moment || self.at == moment && self.kind != StepKind::Request
    }

    fn event(&self) -> Event<'_> {
        let contender = self.contender.and_then(|contender| u64::try_from(contender).ok());
        let what = What::Trace(Trace { kind: self.kind, what: &self.what });
        Event { t_us: self.at, process: PROCESS, clock: None, contender, session: None, state: None, what }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub kind: LockKind,
    /// Start of the measured phase.
    pub measured_from: Stamp,
    /// Faults, and messages before overlaps, in chronological order.
    pub traced: Vec<Traced>,
    /// Recorded moments, sorted by time and then by thread.
    pub noted: Sorted<Noted, (Stamp, usize)>,
    /// Transactions that created contenders' nodes, if they are known only from the servers' logs.
    pub created: Sorted<EnteredAsOf, (Stamp, usize)>,
    /// zxids at which contenders held the lock, if known only afterwards.
    pub entered_as_of: Sorted<EnteredAsOf, (Stamp, usize)>,
    /// Holds that ended after another contender had closed their session, each identified by its end.
    pub closed: HashSet<Hold>,
    /// Time from which moments may be missing, because the disk was too slow or a thread never finished. Later
    /// moments are left out: after a missing release, acquisitions would look like violations.
    pub complete_until: Option<Stamp>,
    /// Lives of the trial's nodes from the servers' logs; empty if the logs cannot be read.
    pub lives: Lives,
    /// Whether all nodes of contenders are gone.
    pub all_gone: bool,
    /// Conversion of stamps to the wall clock of the servers' host.
    pub wall: WallClock,
    /// Maximum difference between that clock and a server's, in milliseconds: [`CLOCKS_DIFFER_MS`] plus any
    /// clock adjustment during the trial.
    pub clocks_differ_ms: i64,
}

impl Facts {
    /// Facts of a trial in which nothing happened.
    pub fn without_moments(kind: LockKind) -> Self {
        Self {
            kind,
            measured_from: 0,
            traced: Vec::new(),
            noted: Sorted::of(Self::by_time, Vec::new()),
            created: Sorted::of(Self::by_entry, Vec::new()),
            entered_as_of: Sorted::of(Self::by_entry, Vec::new()),
            closed: HashSet::new(),
            complete_until: None,
            lives: Lives::default(),
            all_gone: true,
            wall: WallClock::default(),
            clocks_differ_ms: CLOCKS_DIFFER_MS,
        }
    }

    /// Returns the facts with the moments of one thread.
    pub fn with_moments(self, moments: Vec<Moment>) -> Self {
        let noted = moments.into_iter().map(|moment| (0, moment)).collect();
        Self { noted: Sorted::of(Self::by_time, noted), ..self }
    }

    pub fn by_time((thread, moment): &Noted) -> (Stamp, usize) {
        (moment.at, *thread)
    }

    pub fn by_entry((entered, contender, _): &EnteredAsOf) -> (Stamp, usize) {
        (*entered, *contender)
    }

    /// Whether a node is gone although no server's log records its deletion. The ensemble has then lost
    /// acknowledged transactions, so the node is not evidence against the lock.
    pub fn is_forgotten(&self, life: &Life) -> bool {
        self.all_gone && life.deleted.is_none()
    }

    pub fn header(&self, trial: &Trial) -> Header {
        let is_complete = trial.cut_short.is_none() && self.complete_until.is_none();
        let locks = lock_names(trial).into_iter().map(|name| (name, self.kind));
        let interference = trial.interference.clone();
        Header { complete: Some(is_complete), locks: locks.collect(), interference }
    }

    /// Number of a lock, from its name in the header.
    pub fn lock_number(name: &str) -> usize {
        name.strip_prefix(LOCK).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Returns the moments in chronological order, with the transactions that only the servers' logs show.
    pub fn moments(&self) -> io::Result<impl Iterator<Item = io::Result<Moment>> + '_> {
        let mut noted = self.noted.iter()?;
        let [mut created, mut as_of] = [AsOf::new(&self.created)?, AsOf::new(&self.entered_as_of)?];
        Ok(std::iter::from_fn(move || {
            let mut moment = match noted.next()? {
                Ok((_, moment)) if self.complete_until.is_some_and(|until| moment.at >= until) => {
                    return None;
                }
                Ok((_, moment)) => moment,
                Err(error) => return Some(Err(error)),
            };
            if let Deed::Enters { token, zxid, .. } = &mut moment.deed {
                let found = created.find(moment.at, moment.contender);
                match found.and_then(|found| Ok((found, as_of.find(moment.at, moment.contender)?))) {
                    Ok(found) => (*token, *zxid) = (found.0.or(*token), found.1.or(*zxid)),
                    Err(error) => return Some(Err(error)),
                }
            }
            Some(Ok(moment))
        }))
    }

    /// Passes the trial's events to `each` in chronological order.
    ///
    /// # Errors
    /// The first error of `each`, or of reading the moments, converted by `unreadable`.
    pub fn each_event<E>(
        &self,
        trial: &Trial,
        unreadable: impl Fn(io::Error) -> E,
        mut each: impl FnMut(&Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let names = lock_names(trial);
        let mut events = Events {
            facts: self,
            omitted: self.misleading(trial).map_err(&unreadable)?,
            holding: BTreeMap::new(),
        };
        let mut moments = self.moments().map_err(&unreadable)?.peekable();
        let (mut at_once, mut last) = (Vec::new(), 0);
        let mut traced = self.traced.iter().peekable();
        while let Some(moment) = moments.next() {
            let moment = moment.map_err(&unreadable)?;
            last = moment.at;
            at_once.push(moment);
            if moments.peek().is_some_and(|next| next.as_ref().is_ok_and(|next| next.at == moment.at)) {
                continue;
            }
            leavers_first(&mut at_once);
            while let Some(earlier) = traced.next_if(|one| one.is_before(moment.at)) {
                each(&earlier.event())?;
            }
            for moment in at_once.drain(..) {
                let (ended, moment) = events.complete(moment).map_err(&unreadable)?;
                ended.iter().chain(&moment).try_for_each(|moment| each_named(moment, &names, &mut each))?;
            }
        }
        // The missing events may have shown that the session of an open hold had already ended.
        events.doubts(last).iter().try_for_each(|doubt| each_named(doubt, &names, &mut each))?;
        for later in traced {
            each(&later.event())?;
        }
        Ok(())
    }

    /// Returns the last start or end of a wait of each contender for which it is misleading.
    fn misleading(&self, trial: &Trial) -> io::Result<BTreeMap<usize, (Stamp, Deed)>> {
        let stuck: HashSet<usize> = trial.stuck.iter().map(|stuck| stuck.contender).collect();
        let is_cut = self.complete_until.is_some();
        let mut lasts = BTreeMap::new();
        if is_cut || !stuck.is_empty() {
            for moment in self.moments()? {
                let Moment { contender, at, deed, .. } = moment?;
                if matches!(deed, Deed::Asks(_) | Deed::Enters { .. } | Deed::Fails) {
                    lasts.insert(contender, (at, deed));
                }
            }
        }
        lasts.retain(|contender, (_, deed)| match deed {
            // The acquire failed only because the run stopped.
            Deed::Fails => stuck.contains(contender),
            // The history may have ended before the answer. Without the answer, the contender would look stuck.
            Deed::Asks(_) => is_cut && !stuck.contains(contender),
            _ => false,
        });
        Ok(lasts)
    }
}

fn lock_names(trial: &Trial) -> Vec<String> {
    (0..trial.spec.locks).map(|lock| format!("{LOCK}{lock}")).collect()
}

/// Moves exits before entries among simultaneous moments: a handoff may take less than a microsecond.
fn leavers_first(at_once: &mut Vec<Moment>) {
    if at_once.len() < 2 {
        return;
    }
    let mut known = HashSet::new();
    let (leaving, others): (Vec<_>, Vec<_>) = at_once
        .drain(..)
        .partition(|moment| known.insert(moment.contender) && matches!(moment.deed, Deed::Leaves { .. }));
    at_once.extend(leaving);
    at_once.extend(others);
}

/// A hold in progress.
struct Holding {
    /// Acquisition with which the hold began.
    began: Moment,
    /// Life of the hold's node, from the servers' logs.
    life: Option<Life>,
}

impl Holding {
    /// Whether the session outlived the node according to the logs. A lost connection then does not put the
    /// hold in doubt.
    fn session_survives(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.deleted.is_some() && !life.with_its_session)
    }
}

/// State for converting moments into events.
struct Events<'a> {
    facts: &'a Facts,
    /// Moment of each contender that must be left out, if any.
    omitted: BTreeMap<usize, (Stamp, Deed)>,
    /// Current hold of each contender.
    holding: BTreeMap<usize, Holding>,
}

impl Events<'_> {
    /// Completes a moment with data from the logs. The first result is an extra moment for the end of the
    /// hold's session, if it ended. The second is `None` if the moment must be left out.
    fn complete(&mut self, mut moment: Moment) -> io::Result<(Option<Moment>, Option<Moment>)> {
        let Moment { at, contender, .. } = moment;
        if self.omitted.get(&contender) == Some(&(at, moment.deed)) {
            return Ok((None, None));
        }
        let mut ended = None;
        match &mut moment.deed {
            Deed::Enters { token, .. } => {
                let life = token.map(|token| self.facts.lives.get(token)).transpose()?.flatten();
                self.holding.insert(contender, Holding { began: moment, life });
            }
            Deed::Session(SessionState::Suspended)
                if self.holding.get(&contender).is_some_and(Holding::session_survives) =>
            {
                return Ok((None, None));
            }
            // A holder whose release failed is inside until it acquires the lock again.
            Deed::Asks(_) | Deed::HasLeft { .. } | Deed::MayHaveLeft | Deed::CouldNotLeave => {
                // An acquire in a new session already shows that the hold's session has ended.
                let is_shown = |holding: &Holding| {
                    matches!(moment.deed, Deed::Asks(_)) && holding.began.session != moment.session
                };
                let holding = self.holding.get(&contender).filter(|holding| !is_shown(holding));
                let (entered, life) = holding.map_or((at, None), |holding| (holding.began.at, holding.life));
                if moment.deed != Deed::CouldNotLeave {
                    self.holding.remove(&contender);
                }
                if let Deed::HasLeft { deleted, .. } = &mut moment.deed {
                    *deleted = life.and_then(|life| life.deleted);
                }
                match self.session_end(life, entered, (contender, at)) {
                    Some(deed @ Deed::Session(_)) => ended = Some(Moment { deed, ..moment }),
                    Some(deed) if matches!(moment.deed, Deed::HasLeft { .. }) => moment.deed = deed,
                    _ => {}
                }
            }
            _ => {}
        }
        Ok((ended, Some(moment)))
    }

    /// Returns suspensions of the sessions of all open holds, if moments may be missing.
    fn doubts(&self, at: Stamp) -> Vec<Moment> {
        let deed = Deed::Session(SessionState::Suspended);
        let is_cut = self.facts.complete_until.is_some();
        let open = self.holding.values().filter(|holding| is_cut && !holding.session_survives());
        open.map(|holding| Moment { at, deed, ..holding.began }).collect()
    }

    /// What the logs show about the end of a hold, if anything. The session had expired if the node was deleted
    /// with it during the hold. Whether the holder has left is unknown if the ensemble lost the node.
    fn session_end(&self, life: Option<Life>, entered: Stamp, hold: Hold) -> Option<Deed> {
        let (facts, expired) = (self.facts, Some(Deed::Session(SessionState::Expired)));
        if facts.closed.contains(&hold) {
            return expired;
        }
        let life = life?;
        let [entered_ms, left_ms] = [entered, hold.1].map(|at| facts.wall.ms(at));
        let inside = entered_ms - facts.clocks_differ_ms..=left_ms + facts.clocks_differ_ms;
        if life.with_its_session && life.deleted_at_ms.is_none_or(|deleted| inside.contains(&deleted)) {
            return expired;
        }
        facts.is_forgotten(&life).then_some(Deed::MayHaveLeft)
    }
}

/// Passes a moment to `each` as an event with the names of its session and lock.
fn each_named<E>(
    moment: &Moment,
    names: &[String],
    each: &mut impl FnMut(&Event<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let session = moment.session.map(|session| format!("0x{session:x}"));
    let lock = names.get(moment.lock).map_or("", String::as_str);
    each(&event(moment, session.as_deref(), lock))
}

fn event<'a>(moment: &Moment, session: Option<&'a str>, lock: &'a str) -> Event<'a> {
    let acquire = |step: Step, claim: LockClaim, token: Option<i64>, zxid: Option<i64>| {
        What::Acquire(Acquire { lock, step, claim: claim.into(), depth: None, token, zxid })
    };
    let release = |step: Step, alone: bool, deleted_zxid: Option<i64>, there_zxid: Option<i64>| {
        What::Release(Release { lock, step, alone, deleted_zxid, there_zxid })
    };
    let (what, state) = match moment.deed {
        Deed::Asks(claim) => (acquire(Step::Invoke, claim, None, None), None),
        Deed::Enters { claim, token, zxid } => (acquire(Step::Ok, claim, token, zxid), None),
        Deed::Fails => (acquire(Step::Fail, LockClaim::WRITE, None, None), None),
        Deed::Leaves { alone } => (release(Step::Invoke, alone, None, None), None),
        Deed::HasLeft { deleted, there } => (release(Step::Ok, false, deleted, there), None),
        Deed::MayHaveLeft => (release(Step::Unknown, false, None, None), None),
        Deed::CouldNotLeave => (release(Step::Fail, false, None, None), None),
        Deed::Writes(token, accepted) => {
            let (step, token, accepted) = (Step::Ok, Some(token), Some(accepted));
            (What::Write(Write { lock, step, token, accepted, zxid: None }), None)
        }
        Deed::Session(state) => (What::Session, Some(state)),
    };
    let contender = u64::try_from(moment.contender).ok();
    Event { t_us: moment.at, process: PROCESS, clock: None, contender, session, state, what }
}

/// Transactions that only the logs show, read in parallel with the moments.
struct AsOf<'a> {
    rest: Merge<'a, EnteredAsOf, (Stamp, usize)>,
    /// Acquisitions at the last requested time, and the first later acquisition.
    found: Vec<EnteredAsOf>,
}

impl<'a> AsOf<'a> {
    fn new(known: &'a Sorted<EnteredAsOf, (Stamp, usize)>) -> io::Result<Self> {
        Ok(Self { rest: known.iter()?, found: Vec::new() })
    }

    fn find(&mut self, at: Stamp, contender: usize) -> io::Result<Option<i64>> {
        self.found.retain(|(other, ..)| *other >= at);
        while self.found.last().is_none_or(|(latest, ..)| *latest <= at) {
            let Some(next) = self.rest.next() else { break };
            self.found.push(next?);
            self.found.retain(|(other, ..)| *other >= at);
        }
        let found = self.found.iter().find(|(when, who, _)| (*when, *who) == (at, contender));
        Ok(found.map(|(_, _, zxid)| *zxid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(contender: usize, at: Stamp, deed: Deed) -> Moment {
        Moment { at, contender, lock: 0, session: None, deed }
    }

    #[test]
    fn moments_end_where_others_may_be_missing() {
        // The release of the first hold is missing, and another contender acquires the lock.
        let enters = Deed::Enters { claim: LockClaim::WRITE, token: None, zxid: None };
        let moments = vec![moment(1, 5, enters), moment(1, 20, Deed::Fails), moment(2, 20, enters)];
        let facts = Facts {
            complete_until: Some(20),
            ..Facts::without_moments(LockKind::Mutex).with_moments(moments)
        };
        let times: Vec<_> = facts.moments().unwrap().map(|moment| moment.unwrap().at).collect();
        assert_eq!(times, [5]);
    }

    #[test]
    fn open_hold_is_in_doubt_if_later_moments_may_be_missing() {
        let suspended = |complete_until| {
            let enters = Deed::Enters { claim: LockClaim::WRITE, token: None, zxid: None };
            let moments = vec![Moment { session: Some(7), ..moment(1, 5, enters) }];
            let facts =
                Facts { complete_until, ..Facts::without_moments(LockKind::Mutex).with_moments(moments) };
            let mut events = Events { facts: &facts, omitted: BTreeMap::new(), holding: BTreeMap::new() };
            for moment in facts.moments().unwrap() {
                events.complete(moment.unwrap()).unwrap();
            }
            events.doubts(5)
        };
        let doubt = Moment { session: Some(7), ..moment(1, 5, Deed::Session(SessionState::Suspended)) };
        assert_eq!((suspended(Some(20)), suspended(None)), (vec![doubt], vec![]));
    }

    #[test]
    fn release_moves_ahead_of_simultaneous_acquisitions_by_other_contenders() {
        let enters = Deed::Enters { claim: LockClaim::WRITE, token: None, zxid: None };
        let leaves = Deed::Leaves { alone: false };
        let mut at_once =
            vec![moment(1, 5, enters), moment(2, 5, leaves), moment(1, 5, leaves), moment(3, 5, enters)];
        leavers_first(&mut at_once);
        let order: Vec<_> = at_once.iter().map(|one| (one.contender, one.deed)).collect();
        assert_eq!(order, [(2, leaves), (1, enters), (1, leaves), (3, enters)]);
    }

    /// Events of a hold from 10 ms to 100 ms with node 7, as text.
    fn events_of_a_hold(life: Life, change: impl FnOnce(&mut Facts)) -> Vec<String> {
        events_of_moments(life, &[], change)
    }

    fn events_of_moments(
        life: Life,
        others: &[(Stamp, Deed)],
        change: impl FnOnce(&mut Facts),
    ) -> Vec<String> {
        let enters = Deed::Enters { claim: LockClaim::WRITE, token: Some(7), zxid: None };
        let left = Deed::HasLeft { deleted: None, there: None };
        let (asks, leaves) = (Deed::Asks(LockClaim::WRITE), Deed::Leaves { alone: false });
        let own = [(1_000, asks), (10_000, enters), (90_000, leaves), (100_000, left)];
        let mut moments: Vec<_> = own.iter().chain(others).map(|(at, deed)| moment(0, *at, *deed)).collect();
        moments.sort_by_key(|moment| moment.at);
        let mut facts = Facts { lives: [(7, life)].into(), ..Facts::without_moments(LockKind::Mutex) }
            .with_moments(moments);
        change(&mut facts);
        let mut events = Events { facts: &facts, omitted: BTreeMap::new(), holding: BTreeMap::new() };
        let mut phases = Vec::new();
        for moment in facts.moments().unwrap() {
            let (ended, moment) = events.complete(moment.unwrap()).unwrap();
            for moment in ended.into_iter().chain(moment) {
                phases.push(match event(&moment, None, "lock-0").what {
                    What::Release(Release { step, deleted_zxid, .. }) => format!("{step:?} {deleted_zxid:?}"),
                    What::Session => "session".to_owned(),
                    other => format!("{:?}", other.lock()),
                });
            }
        }
        phases.split_off(3)
    }

    #[test]
    fn lost_connection_does_not_put_a_hold_in_doubt_if_its_session_outlived_its_node() {
        let suspended = [(95_000, Deed::Session(SessionState::Suspended))];
        let deleted = Life { deleted: Some(9), deleted_at_ms: Some(95), with_its_session: false };
        assert!(!events_of_moments(deleted, &suspended, |_| {}).contains(&"session".to_owned()));
        let unknown = |facts: &mut Facts| facts.all_gone = false;
        assert!(events_of_moments(Life::default(), &suspended, unknown).contains(&"session".to_owned()));
    }

    #[test]
    fn logs_show_the_end_of_the_session_behind_a_hold() {
        let deleted = |ms| Life { deleted: Some(9), deleted_at_ms: Some(ms), with_its_session: false };
        assert_eq!(events_of_a_hold(deleted(95), |_| {}), ["Ok Some(9)"]);
        let with_session = |ms| Life { with_its_session: true, ..deleted(ms) };
        assert_eq!(events_of_a_hold(with_session(50), |_| {}), ["session", "Ok Some(9)"]);
        // The hold began at 10 ms, and the servers' clock may be `CLOCKS_DIFFER_MS` behind.
        let for_sure = 10 - CLOCKS_DIFFER_MS;
        assert_eq!(events_of_a_hold(with_session(for_sure), |_| {}), ["session", "Ok Some(9)"]);
        let found = events_of_a_hold(with_session(for_sure - 1), |_| {});
        assert_eq!(found, ["Ok Some(9)"], "the node was gone before the hold");
        assert_eq!(events_of_a_hold(Life::default(), |_| {}), ["Unknown None"], "the ensemble lost the node");
        assert_eq!(events_of_a_hold(Life::default(), |facts| facts.all_gone = false), ["Ok None"]);
        let late = 100 + CLOCKS_DIFFER_MS;
        assert_eq!(events_of_a_hold(with_session(late), |_| {}), ["session", "Ok Some(9)"]);
        assert_eq!(events_of_a_hold(with_session(late + 1), |_| {}), ["Ok Some(9)"], "the hold had ended");
        // A holder whose release failed is still inside.
        let release_failed =
            |ms| events_of_moments(with_session(ms), &[(95_000, Deed::CouldNotLeave)], |_| {});
        assert_eq!(release_failed(50)[..2], ["session", "Fail None"]);
        assert_eq!(release_failed(99)[..2], ["Fail None", "session"]);
        let asks_again = [(95_000, Deed::CouldNotLeave), (99_000, Deed::Asks(LockClaim::WRITE))];
        let events = events_of_moments(with_session(99), &asks_again, |_| {});
        assert_eq!(events[..3], ["Fail None", "session", "Some(\"lock-0\")"]);
        let closed = |facts: &mut Facts| facts.closed.extend([(0, 100_000)]);
        assert_eq!(events_of_a_hold(deleted(95), closed), ["session", "Ok Some(9)"]);
    }
}
