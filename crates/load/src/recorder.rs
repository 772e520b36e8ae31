//! Records of one contender's cycles: latencies, outcomes, errors, and causes of notifications.

use std::cell::{Cell, RefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::attribution::Attribution;
use super::fence::token;
use super::keeper::{Note, Observation};
use super::lock_state::LockState;
use super::missing::PathQuestion;
use super::pace::{Served, Turn};
use super::shared::Shared;
use super::timeouts;
use zklockbench_core::catalog::{Holders, Mode, ParamValue};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::measure::{ArrivalWait, Measure, Outcome, ThreadRecorder};
use zklockbench_core::units::one_line;
use zklockbench_locks::{AcquireError, Held};
use zklockbench_record::history::SessionState;
use zklockbench_record::{Deed, LockClaim, Moment, Occurrences, Tally};
use zklockbench_scenario::{Load, TrialSpec};
use zklockbench_zk::{Failure, Session};

/// Number of acquisitions between the starts of two series of reads, for a lock whose requests bypass the session.
const READ_ONE_IN: usize = 128;
/// Number of consecutive acquisitions with a read in each series.
const READS_IN_A_ROW: usize = 8;

/// One acquire, from its intended start.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub intended: Stamp,
    pub called: Stamp,
    /// Position in the order of arrival.
    pub arrival: u64,
    pub mode: Mode,
    /// Intended hold time, if known in advance.
    pub hold: Option<Duration>,
    served: Option<Served>,
}

impl Attempt {
    /// Returns the delay of the acquire call after the arrival was due and a contender was free.
    fn lateness_us(&self, served: Served) -> u64 {
        self.called.saturating_sub(self.intended.max(served.taken))
    }

    /// Returns the wait of the arrival that this acquire serves.
    fn waited(&self, served: Served, ended: Stamp, is_served: bool) -> ArrivalWait {
        ArrivalWait { due: self.intended, called: Some((served.taken, self.called)), ended, is_served }
    }
}

/// An acquired lock, with data that must be read before its release.
#[derive(Debug, Clone, Copy)]
pub struct AcquiredLock {
    attempt: Attempt,
    pub acquired: Stamp,
    /// Time of the release that admitted this acquire; `None` if a holder crashed instead.
    released_before: Option<Stamp>,
    /// Time of the previous holder's acquisition.
    entered_before: Option<Stamp>,
    /// Time for which the previous holder blocked this acquire beyond the scenario's hold limit.
    blocked_us: u64,
    overtaken: bool,
    /// Overhead of the driver's pipe.
    pipe_us: Option<u64>,
    lag_us: u64,
    busy_us: u64,
}

/// State of a hold's session when its release returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HolderSession {
    Alive,
    Expired,
    /// A fault is closing the session.
    Closing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnd {
    /// The hold time has elapsed.
    Whole,
    /// The load has ended.
    Drained,
    Lost,
    /// The holder received a request to release.
    Revoked,
    Crashed,
}

/// Recorder of one contender, which writes to its thread's recorder and log.
pub struct Recorder {
    id: usize,
    shared: Arc<Shared>,
    observation: Observation,
    attribution: Attribution,
    latest_session: Rc<Cell<i64>>,
    pub acquired: u64,
    pub token: Option<i64>,
    /// Whether the servers' logs show the node of the last acquisition.
    is_logged: bool,
    /// Moments of a hold, kept until its release has returned and its transactions are known.
    held_back: Vec<Moment>,
    /// Latest transaction at which the current hold's node is known to have existed.
    pub there: Option<i64>,
}

impl Recorder {
    pub fn new(id: usize, shared: Arc<Shared>, observation: Observation) -> Self {
        observation.log.borrow_mut().occurrences.tallies.insert(id, Tally::default());
        Self {
            id,
            shared,
            observation,
            attribution: Attribution::default(),
            latest_session: Rc::default(),
            acquired: 0,
            token: None,
            is_logged: false,
            held_back: Vec::new(),
            there: None,
        }
    }

    fn lock_state(&self) -> &LockState {
        &self.shared.lock_states[self.shared.lock_of(self.id)]
    }

    pub fn occurrences(&self) -> RefMut<'_, Occurrences> {
        RefMut::map(self.observation.log.borrow_mut(), |log| &mut log.occurrences)
    }

    fn thread(&self) -> RefMut<'_, ThreadRecorder> {
        self.observation.recorder.borrow_mut()
    }

    fn part(&self, mode: Mode) -> Option<Measure> {
        part_of_waits(&self.shared.spec, mode)
    }

    pub fn error(&self, doing: &str, failure: &Failure) {
        if let Failure::Protocol(breach) = failure {
            self.shared.board.breach.get_or_init(|| one_line(breach));
        }
        self.occurrences().error(format!("{doing}: {}", failure.kind()));
    }

    /// Records the contender's crash during this activity.
    pub fn died(&mut self, session: i64, doing: &'static str) {
        self.note_held_back();
        if doing == "waiting" {
            let now = clock::now();
            self.waits_no_longer(now);
            self.note(now, Some(session), Deed::Fails);
            self.thread().count(now, |counts| counts.outcomes.add(Outcome::Crashed, 1));
        }
        self.note(clock::now(), Some(session), Deed::Session(SessionState::Expired));
        self.occurrences().error(format!("{doing}: crashed"));
    }

    fn waits_no_longer(&self, now: Stamp) {
        self.lock_state().waits_no_longer(self.claim(Mode::Write));
        if self.shared.has_faults() {
            self.shared.gaps.gives_up(self.shared.lock_of(self.id), now);
        }
    }

    /// Records that an acquire is about to be called.
    pub fn arrives(&mut self, session: &Session, turn: Turn) -> Attempt {
        let Turn { intended, arrival, mode, hold } = turn;
        self.attribution.receiver.reads = mode == Mode::Read;
        let _ = (session.take_lag_us(), session.take_busy_us(), session.take_requests());
        session.forget_observed();
        let called = clock::now();
        let claim = self.claim(mode);
        self.note(called, Some(session.id()), Deed::Asks(claim));
        let lock_state = self.lock_state();
        if self.shared.has_faults() {
            self.shared.gaps.asks(self.shared.lock_of(self.id), called);
        }
        let attempt =
            Attempt { intended, called, arrival: lock_state.arrive(claim), mode, hold, served: arrival };
        if let Some((arrivals, served)) = self.shared.open.as_ref().zip(arrival) {
            arrivals.issued(served.number, attempt.lateness_us(served));
        }
        attempt
    }

    /// Records the start of a hold, with data that may change before the record is written.
    pub fn enter(&mut self, session: &Session, held: &Held, attempt: Attempt) -> AcquiredLock {
        // Prefer the driver's own timestamp, because the pipe's delay is not part of the wait.
        let acquired = held.told.granted.unwrap_or_else(clock::now).max(attempt.called);
        let lock_state = self.lock_state();
        let claim = self.claim(attempt.mode);
        let entered_before = lock_state.follows(claim, acquired);
        let released_before = lock_state.handed_over(claim.mode, held, attempt.called);
        if lock_state.enter(self.id, claim, acquired) {
            self.shared.overlaps.note(self.id, || lock_state.all_inside());
        }
        let blocked_us = self.blocked_beyond_limit(lock_state, entered_before, &attempt, acquired);
        lock_state.waits_no_longer(claim);
        let overtaken = lock_state.serve(attempt.arrival, claim.mode);
        let zxid = session.known_zxid();
        if self.shared.has_faults() {
            self.shared.gaps.acquired(self.shared.lock_of(self.id), acquired);
        }
        let node = held.node.as_ref();
        let czxid = node.map(|node| node.czxid).filter(|czxid| *czxid > 0);
        // With several workers, only the czxid can order holds. A hold without a czxid is ordered by a write.
        self.token = if self.shared.orders_holds() { czxid } else { node.map(token) };
        self.note_of_hold(acquired, session, Deed::Enters { claim, token: czxid, zxid });
        self.is_logged = self.shared.reads_logs && node.is_some();
        if let Some(node) = node.filter(|_| self.is_logged) {
            let questions = PathQuestion::of_entry(session, node, acquired, self.id);
            questions.for_each(|question| self.pass_on(Note::Lacks(question)));
        }
        session.take_notifications(&mut self.attribution.inbox);
        self.shared.board.acquired.fetch_add(1, Ordering::AcqRel);
        AcquiredLock {
            attempt,
            acquired,
            released_before,
            entered_before,
            blocked_us,
            pipe_us: held.told.pipe_us,
            overtaken,
            lag_us: session.take_lag_us(),
            busy_us: session.take_busy_us(),
        }
    }

    /// Records that the lock is about to be released.
    pub fn exit(&mut self, session: &Session, held: &Held, mode: Mode, was_open: bool) -> Stamp {
        let at = clock::now();
        self.note_of_hold(at, session, Deed::Leaves { alone: !was_open });
        if held.node.as_ref().is_some_and(|node| session.has_asked_to_delete(&node.path)) {
            self.occurrences().given_up_early += 1;
        }
        self.lock_state().exit(self.id, held, self.claim(mode), at);
        at
    }

    /// Records that the contender crashes inside its hold.
    pub fn crash(&self, entry: &AcquiredLock, intended: Duration) {
        let at = clock::now();
        self.lock_state().crash(self.id, self.claim(entry.attempt.mode), at);
        self.write_hold(entry, at, intended, HoldEnd::Crashed);
    }

    /// Reads the lock just before its release if the lock's requests bypassed the session, as a driver's do. The
    /// zxid in the reply is an upper bound on the zxid of the hold's start.
    ///
    /// Only some acquisitions get a read, to limit the load on the servers. These acquisitions are consecutive,
    /// because they are compared with each other.
    pub fn look_beside<'a>(
        &self,
        session: &'a Session,
        lock: &'a str,
    ) -> Option<impl Future<Output = Option<i64>> + use<'a>> {
        let is_one = self.is_logged && session.has_learned_nothing();
        let is_read = is_one && self.lock_state().releases() % READ_ONE_IN < READS_IN_A_ROW;
        is_read.then(|| session.look_beside(lock))
    }

    pub fn write_look(&self, entry: &AcquiredLock, zxid: Option<i64>) {
        let Some(zxid) = zxid else { return };
        self.occurrences().looks_beside += 1;
        self.pass_on(Note::EnteredAsOf((entry.acquired, self.id, zxid)));
    }

    /// Returns whether a read is needed to date the start of the current hold.
    pub fn looks_at_entry(&self) -> bool {
        let undated =
            |moment: &Moment| matches!(moment.deed, Deed::Enters { token: Some(_), zxid: None, .. });
        self.held_back.iter().any(undated)
    }

    /// Records a transaction that followed the start of the current hold. This transaction also identifies a
    /// hold without a node.
    pub fn write_begun(&mut self, begun: Option<i64>) {
        for moment in &mut self.held_back {
            if let Deed::Enters { token, zxid, .. } = &mut moment.deed {
                *zxid = zxid.or(begun);
                *token = token.or(begun);
                self.token = *token;
            }
        }
    }

    /// Returns the claim of an acquire. A lock without a read side treats every request as a write.
    fn claim(&self, mode: Mode) -> LockClaim {
        let reads = self.shared.entry.card.guarantees.has_read_side() && mode == Mode::Read;
        LockClaim { leases: self.shared.leases, ..if reads { LockClaim::READ } else { LockClaim::WRITE } }
    }

    pub fn write_acquired(&mut self, entry: &AcquiredLock) {
        let AcquiredLock { attempt, acquired, .. } = *entry;
        let wait = acquired.saturating_sub(attempt.intended);
        let since_call = acquired.saturating_sub(attempt.called);
        // A release after this acquire call is a handoff, because the contender was already waiting.
        let released = entry.released_before.filter(|released| *released > attempt.called);
        let handoff = released.map(|released| acquired.saturating_sub(released));
        let shared = &*self.shared;
        let lock = shared.lock_of(self.id);
        let part = self.part(attempt.mode);
        let mut recorder = self.observation.recorder.borrow_mut();
        self.attribution.settle_late(shared, &mut recorder, false);
        self.attribution.settle(shared, lock, &mut recorder, true);
        shared.series.acquired(acquired, wait);
        // In an open load, a sample counts at its intended start, even if it ends much later.
        let counts_at = if attempt.served.is_some() { attempt.intended } else { acquired };
        match attempt.served {
            Some(served) => {
                shared.open.iter().for_each(|arrivals| arrivals.served(served.number, wait));
                recorder.record_arrival(part, attempt.waited(served, acquired, true));
            }
            None => self.tally_unserved(recorder.record_wait(part, attempt.intended, acquired)),
        }
        timeouts::check(&shared.spec, &mut recorder, Measure::Overrun, attempt.called, acquired);
        if let Some(pipe_us) = entry.pipe_us {
            recorder.record(Measure::Pipe, counts_at, pipe_us);
        }
        // It is unknown whether the lock was free after a crash of a holder, or with contenders of other workers.
        let is_known = entry.released_before.is_some() && !shared.slice.is_part();
        match handoff {
            Some(handoff) => {
                recorder.record(Measure::Handoff, acquired, handoff);
                let busy_us = recorder.window().overlap_us(acquired - handoff, acquired);
                shared.lock_states[lock].was_busy(busy_us);
                if let Some(before) = entry.entered_before {
                    recorder.record(Measure::Turn, acquired, acquired.saturating_sub(before));
                }
            }
            None if is_known => recorder.record(Measure::Uncontended, acquired, since_call),
            None => {}
        }
        recorder.count(acquired, |counts| {
            counts.outcomes.add(Outcome::Acquired, 1);
            counts.overtaken += u64::from(entry.overtaken);
            counts.reads_acquired += u64::from(attempt.mode == Mode::Read);
        });
        if let Some(second) = recorder.second(counts_at) {
            second.waits += 1;
            second.wait_us += wait;
            second.service_us += since_call;
        }
        let Some(second) = recorder.second(acquired) else { return };
        second.acquisitions += 1;
        if let Some(handoff) = handoff {
            second.handoffs += 1;
            second.handoff_us += handoff;
        }
        drop(recorder);
        self.acquired += 1;
        shared.board.measured.fetch_add(1, Ordering::AcqRel);
        let mut log = self.observation.log.borrow_mut();
        let watches = shared.entry.card.guarantees.watches;
        if !watches || is_known || handoff.is_some() {
            log.occurrences.lag_us += entry.lag_us;
            log.occurrences.lag_basis_us += handoff.filter(|_| watches).unwrap_or(since_call);
        }
        if let Some(ParamValue::Duration(interval)) = shared.spec.strategy.params.get("poll_interval") {
            log.occurrences.looks_by_wait +=
                polls_while_asleep(since_call.saturating_sub(entry.busy_us), *interval);
        }
        let tally = log.occurrences.tallies.entry(self.id).or_default();
        tally.acquired += 1;
        tally.longest_wait_us = tally.longest_wait_us.max(wait);
    }

    pub fn write_hold(&self, entry: &AcquiredLock, released: Stamp, intended: Duration, ended: HoldEnd) {
        let held_us = released.saturating_sub(entry.acquired);
        let has_crashed = ended == HoldEnd::Crashed;
        let mut recorder = self.observation.recorder.borrow_mut();
        if !has_crashed {
            recorder.record(Measure::Hold, released, held_us);
        }
        if self.shared.spec.load != Load::Batch && ended == HoldEnd::Whole {
            let asked_us = clock::micros(intended);
            recorder.record(Measure::HoldOvershoot, released, held_us.saturating_sub(asked_us));
            if recorder.window().contains(released) {
                self.occurrences().asked_hold_us += asked_us;
            }
        }
        self.lock_state().was_busy(recorder.window().overlap_us(entry.acquired, released));
        recorder.count(released, |counts| {
            counts.releases += u64::from(!has_crashed);
            counts.read_held_us += if entry.attempt.mode == Mode::Read { held_us } else { 0 };
            counts.lost_while_held += u64::from(has_crashed || ended == HoldEnd::Lost);
        });
    }

    /// Returns the time for which the previous holder blocked an acquire beyond the scenario's hold limit. The time
    /// ends at that holder's release call or, if there was none, when the acquire returned.
    fn blocked_beyond_limit(
        &self,
        lock_state: &LockState,
        entered_before: Option<Stamp>,
        attempt: &Attempt,
        acquired: Stamp,
    ) -> u64 {
        let (Some(limit), Some(before)) = (self.shared.spec.hold_limit, entered_before) else { return 0 };
        let released = lock_state.release_before(acquired).map(|(_, at)| at).filter(|at| *at >= before);
        let since = attempt.called.max(before + clock::micros(limit));
        released.unwrap_or(acquired).saturating_sub(since)
    }

    /// Compares a hold with the scenario's hold limit, if there is one.
    pub fn write_limited(&self, entry: &AcquiredLock, released: Stamp, ended_at_limit: bool) {
        let Some(limit) = self.shared.spec.hold_limit else { return };
        let held_us = released.saturating_sub(entry.acquired);
        let mut occurrences = self.occurrences();
        let limited = &mut occurrences.limited_holds;
        limited.ended_at_limit += u64::from(ended_at_limit);
        limited.note_overrun(held_us.saturating_sub(clock::micros(limit)));
        limited.note_blocked(entry.blocked_us);
    }

    /// Checks that a complete hold lasted as long as requested.
    pub fn check_hold(&self, entry: &AcquiredLock, released: Stamp, intended: Duration) {
        let intended_us = clock::micros(intended);
        let held_us = released.saturating_sub(entry.acquired);
        self.occurrences().short_holds.note(held_us, intended_us);
        let window = self.observation.recorder.borrow().window();
        if window.contains(released) {
            let measured_us =
                if entry.acquired < window.start { released - window.start } else { intended_us };
            self.lock_state().was_asked_to_hold(self.claim(entry.attempt.mode), intended_us.min(measured_us));
        }
    }

    /// Remembers the released node, so that later notifications of this release count as the releaser's own.
    pub fn releases(&mut self, number: Option<i64>) {
        let lock = self.shared.lock_of(self.id);
        self.attribution.receiver.released = number.map(|number| (lock, number));
    }

    /// Records the return of a release that was called at `called`.
    pub fn write_released(
        &mut self,
        session: &Session,
        called: Stamp,
        now: Stamp,
        failure: Option<&Failure>,
        state: HolderSession,
    ) {
        self.collect_notifications(session, false);
        timeouts::check(&self.shared.spec, &mut self.thread(), Measure::ReleaseOverrun, called, now);
        match failure {
            None => self.thread().record(Measure::Release, now, now.saturating_sub(called)),
            Some(failure) => self.error("release", failure),
        }
        let there = self.there.take();
        let deed = match failure {
            _ if state == HolderSession::Closing => Deed::MayHaveLeft,
            // If the node is gone, there was no lock left to release.
            None | Some(Failure::NoNode | Failure::OwnNodeMissing) => Deed::HasLeft { deleted: None, there },
            Some(failure) if failure.is_definite() => Deed::CouldNotLeave,
            Some(_) => Deed::MayHaveLeft,
        };
        self.note_held_back();
        match state {
            HolderSession::Alive => {}
            HolderSession::Expired => {
                self.note(now, Some(session.id()), Deed::Session(SessionState::Expired))
            }
            HolderSession::Closing => drop(self.occurrences().closing.insert((self.id, now), session.id())),
        }
        self.note(now, Some(session.id()), deed);
        self.shared.board.released.fetch_add(1, Ordering::AcqRel);
    }

    pub fn write_not_acquired(
        &mut self,
        session: &Session,
        attempt: &Attempt,
        now: Stamp,
        error: &AcquireError,
    ) {
        if self.shared.spec.only_tries() && *error == AcquireError::TimedOut {
            self.write_failed_try(session, attempt, now);
        } else {
            self.write_unserved(attempt, now);
        }
        timeouts::check(&self.shared.spec, &mut self.thread(), Measure::Overrun, attempt.called, now);
        if !self.lock_state().is_held() {
            self.lock_state().unserved.gave_up(attempt.called, now);
        }
        if matches!(error, AcquireError::Failed(Failure::CounterUsedUp(_))) {
            self.lock_state().unserved.used_up();
        }
        self.waits_no_longer(now);
        self.note(now, Some(session.id()), Deed::Fails);
        let outcome = match error {
            AcquireError::TimedOut => Outcome::TimedOut,
            AcquireError::Cancelled => Outcome::Cancelled,
            AcquireError::Failed(Failure::SessionExpired) => Outcome::SessionExpired,
            AcquireError::Failed(failure) if !failure.is_definite() => Outcome::ConnectionLost,
            AcquireError::Failed(_) | AcquireError::Deadlock => Outcome::Failed,
        };
        self.collect_notifications(session, false);
        self.thread().count(now, |counts| counts.outcomes.add(outcome, 1));
        if let AcquireError::Failed(failure) = error {
            self.error("acquire", failure);
        }
    }

    /// Records a failed try, which does not count as a wait.
    fn write_failed_try(&self, session: &Session, attempt: &Attempt, now: Stamp) {
        let requests = session.take_requests();
        let mut recorder = self.observation.recorder.borrow_mut();
        if let Some(served) = attempt.served {
            self.shared.open.iter().for_each(|arrivals| arrivals.not_served(served.number));
            recorder.record(Measure::Lateness, attempt.intended, attempt.lateness_us(served));
        }
        recorder.record(Measure::FailedTry, now, now.saturating_sub(attempt.called));
        recorder.count(now, |counts| counts.failed_try_requests += requests);
    }

    /// Records a wait that ended without the lock, as a lower bound. Excludes time after the measured phase.
    pub fn write_unserved(&self, attempt: &Attempt, now: Stamp) {
        let mut recorder = self.observation.recorder.borrow_mut();
        if self.shared.signals.drain.is_cancelled() {
            // A cancelled contender may run before the recorder is notified of the phase's end.
            recorder.set_window(*self.shared.signals.window.borrow());
        }
        match attempt.served {
            Some(served) => {
                drop(recorder);
                self.write_unserved_arrival(served, attempt.mode, attempt.waited(served, now, false));
            }
            None => {
                let waited = recorder.record_unserved(self.part(attempt.mode), attempt.intended, now);
                drop(recorder);
                self.tally_unserved(waited);
            }
        }
    }

    /// Records an arrival that was not served because no session could be opened.
    pub fn could_not_start(&self, turn: &Turn) {
        let Some(served) = turn.arrival else { return };
        let wait = ArrivalWait { due: turn.intended, called: None, ended: clock::now(), is_served: false };
        self.write_unserved_arrival(served, turn.mode, wait);
    }

    fn write_unserved_arrival(&self, served: Served, mode: Mode, wait: ArrivalWait) {
        self.shared.open.iter().for_each(|arrivals| arrivals.not_served(served.number));
        let mut recorder = self.thread();
        recorder.record_arrival(self.part(mode), wait);
        let is_measured = recorder.window().contains(wait.due);
        drop(recorder);
        self.tally_unserved(is_measured.then(|| wait.ended.saturating_sub(wait.due)));
    }

    fn tally_unserved(&self, waited: Option<u64>) {
        let Some(waited) = waited else { return };
        let mut log = self.observation.log.borrow_mut();
        let tally = log.occurrences.tallies.entry(self.id).or_default();
        tally.longest_wait_us = tally.longest_wait_us.max(waited);
        tally.unserved += 1;
    }

    /// Determines the causes of the notifications that have arrived.
    pub fn collect_notifications(&mut self, session: &Session, at_the_end: bool) {
        session.take_notifications(&mut self.attribution.inbox);
        let lock = self.shared.lock_of(self.id);
        let mut recorder = self.observation.recorder.borrow_mut();
        self.attribution.settle(&self.shared, lock, &mut recorder, false);
        self.attribution.settle_late(&self.shared, &mut recorder, at_the_end);
    }

    /// Writes to the guarded resource with the holder's token.
    pub fn write_to_resource(&self, session: &Session, held: &Held, entered: Stamp) {
        if !self.shared.keeps_evidence() || self.shared.entry.card.guarantees.holders != Holders::One {
            return;
        }
        let write = self.lock_state().fence.write(held, entered);
        if let (Some(write), Some(token)) = (write, self.token) {
            self.note(write.at, Some(session.id()), Deed::Writes(token, write.accepted));
        }
    }

    /// Returns a callback that records the state changes of a new session. For an earlier session, which may still be
    /// closing, only its end is recorded from now on: other changes would look like the end of the new session.
    pub fn of_session(&self, session: i64) -> impl Fn(Stamp, SessionState) + 'static {
        self.latest_session.set(session);
        let (id, shared, observation) = (self.id, Arc::clone(&self.shared), self.observation.clone());
        let latest_session = Rc::clone(&self.latest_session);
        move |at, state| {
            if state != SessionState::Connected {
                locked(&shared.board.losses).push((at, state));
            }
            if state == SessionState::Expired || latest_session.get() == session {
                note(&shared, &observation, id, Some(session), at, Deed::Session(state));
            }
        }
    }

    /// Records an action of a holder. If transactions order holds, keeps the action back until they are known.
    fn note_of_hold(&mut self, at: Stamp, session: &Session, deed: Deed) {
        if self.shared.orders_holds() {
            let (contender, lock, session) = (self.id, self.shared.lock_of(self.id), Some(session.id()));
            self.held_back.push(Moment { at, contender, lock, session, deed });
        } else {
            self.note(at, Some(session.id()), deed);
        }
    }

    /// Records the moments that were held back. All moments are sorted by time later.
    pub fn note_held_back(&mut self) {
        let notes = &mut self.observation.log.borrow_mut().notes;
        self.held_back.drain(..).for_each(|moment| notes.note(Note::Did(moment)));
    }

    fn pass_on(&self, note: Note) {
        self.observation.log.borrow_mut().notes.note(note);
    }

    fn note(&self, at: Stamp, session: Option<i64>, deed: Deed) {
        note(&self.shared, &self.observation, self.id, session, at, deed);
    }
}

/// Stores a moment for the judge.
fn note(
    shared: &Shared,
    observation: &Observation,
    contender: usize,
    session: Option<i64>,
    at: Stamp,
    deed: Deed,
) {
    let moment = Moment { at, contender, lock: shared.lock_of(contender), session, deed };
    observation.log.borrow_mut().notes.note(Note::Did(moment));
}

/// Returns the wait measure of a mode; `None` if the load has no readers.
pub fn part_of_waits(spec: &TrialSpec, mode: Mode) -> Option<Measure> {
    let part = match mode {
        Mode::Read => Measure::ReadWait,
        Mode::Write => Measure::WriteWait,
    };
    spec.has_readers().then_some(part)
}

/// Returns the number of polls during the time slept: one after each interval. Rounds the result, because a
/// few microseconds pass between the sleep and the request.
fn polls_while_asleep(slept_us: u64, interval: Duration) -> u64 {
    let interval = clock::micros(interval).max(1);
    (slept_us + interval / 2) / interval
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keeper::{Keeper, Notes};
    use crate::shared::tests::shared;
    use zklockbench_core::measure::Window;

    /// Returns the recorder of a contender in a closed load, with a measured phase from 100 to 200.
    fn recorder() -> Recorder {
        let shared = Arc::new(shared("duration = \"1s\""));
        let observation = Observation::new(&shared, Notes::default(), 1);
        observation.recorder.borrow_mut().set_window(Window { start: 100, end: 200 });
        Recorder::new(0, shared, observation)
    }

    fn acquired_lock(intended: Stamp, acquired: Stamp) -> AcquiredLock {
        let (called, mode) = (intended, Mode::Write);
        AcquiredLock {
            attempt: Attempt { intended, called, arrival: 1, mode, hold: None, served: None },
            acquired,
            released_before: Some(0),
            entered_before: None,
            blocked_us: 0,
            overtaken: false,
            pipe_us: None,
            lag_us: 0,
            busy_us: 0,
        }
    }

    #[test]
    fn wait_that_outlasts_the_phase_is_unserved_in_the_tally() {
        let mut recorder = recorder();
        recorder.write_acquired(&acquired_lock(150, 300));
        let tally = recorder.occurrences().tallies[&0];
        assert_eq!((tally.acquired, tally.unserved, tally.longest_wait_us), (0, 1, 50));
    }

    #[test]
    fn acquisitions_count_from_the_start_to_the_end_of_the_phase() {
        let mut recorder = recorder();
        for acquired in [99, 100, 199, 200] {
            recorder.write_acquired(&acquired_lock(90, acquired));
        }
        assert_eq!((recorder.acquired, recorder.shared.board.measured.load(Ordering::Acquire)), (2, 2));
    }

    #[tokio::test]
    async fn only_the_end_of_an_earlier_session_is_recorded() {
        let keeper = Keeper::start(&std::env::temp_dir(), None, 1).unwrap();
        let shared = Arc::new(shared("duration = \"1s\""));
        let observation = Observation::new(&shared, keeper.notes_of(0), 1);
        let recorder = Recorder::new(0, shared, observation.clone());
        let of_first = recorder.of_session(1);
        of_first(5, SessionState::Suspended);
        let of_second = recorder.of_session(2);
        of_first(6, SessionState::Connected);
        of_second(7, SessionState::Suspended);
        of_first(8, SessionState::Expired);
        assert_eq!(observation.log.take().notes.finish(), 0);
        let kept = keeper.end(None).await.unwrap();
        let changes: Vec<_> = kept.noted.iter().unwrap().map(|one| one.unwrap().1).collect();
        let changes: Vec<_> = changes.iter().map(|moment| (moment.at, moment.session)).collect();
        assert_eq!(changes, [(5, Some(1)), (7, Some(2)), (8, Some(1))]);
    }

    #[test]
    fn lock_is_busy_only_for_the_part_of_a_hold_within_the_phase() {
        let (recorder, intended) = (recorder(), Duration::from_micros(9));
        for (acquired, released) in [(50, 150), (160, 170), (190, 900)] {
            recorder.write_hold(&acquired_lock(acquired, acquired), released, intended, HoldEnd::Whole);
        }
        assert_eq!(recorder.lock_state().busy_us(), 50 + 10 + 10);
        assert_eq!(recorder.occurrences().asked_hold_us, 2 * 9, "one hold ended after the phase");
    }

    #[test]
    fn crash_is_no_release_and_the_next_acquisition_is_no_handoff() {
        let mut recorder = recorder();
        recorder.write_hold(&acquired_lock(110, 120), 130, Duration::ZERO, HoldEnd::Crashed);
        recorder.write_acquired(&AcquiredLock { released_before: None, ..acquired_lock(125, 190) });
        let mut thread = recorder.thread();
        thread.settle();
        let measures = [Measure::Wait, Measure::Hold, Measure::Handoff, Measure::Uncontended];
        let samples = measures.map(|measure| thread.histogram(measure).len());
        assert_eq!((samples, thread.measured.releases), ([1, 0, 0, 0], 0));
    }

    #[test]
    fn polls_while_asleep_counts_one_poll_per_interval() {
        let interval = Duration::from_millis(200);
        assert_eq!(polls_while_asleep(200_100, interval), 1);
        assert_eq!(polls_while_asleep(15 * 202_000, interval), 15);
        assert_eq!(polls_while_asleep(15 * 199_900, interval), 15);
    }
}
