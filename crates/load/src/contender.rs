//! A contender with its own session, from joining to closing.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt, poll};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::fresh::FreshLocks;
use super::keeper::Observation;
use super::pace::{Pace, Served, Turn};
use super::recorder::{Attempt, HoldEnd, HolderSession, Recorder};
use super::shared::{Closing, Control, FirstDone, Shared, follow};
use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_ensemble::fault::Doing;
use zklockbench_locks::{AcquireError, Held, HoldOver, Patience, Strategy};
use zklockbench_scenario::{InDoubt, Load, OnLost, Stop};
use zklockbench_zk::gate::TaskScope;
use zklockbench_zk::{Failure, ForeignSession, Observed, Session, runtime};

const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// Number of requests that the rate limit assumes for a cycle; any further requests delay later cycles.
const CYCLE_REQUESTS: u32 = 4;
/// Number of requests that the rate limit assumes for a cycle of a driver's lock.
const DRIVER_REQUESTS: u64 = 10;
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

pub struct Contender {
    id: usize,
    shared: Arc<Shared>,
    observation: Observation,
    recorder: Recorder,
    /// Lock object in use.
    strategy: Box<dyn Strategy>,
    /// Other lock objects, by lock number.
    others: BTreeMap<usize, Box<dyn Strategy>>,
    session: Option<Session>,
    control: Arc<Control>,
    pace: Pace,
    fresh: FreshLocks,
}

impl Contender {
    pub fn new(id: usize, shared: Arc<Shared>, observation: Observation) -> Self {
        let control = Arc::clone(&shared.controls[id]);
        let strategy = shared.build(id, control.lock());
        let pace = Pace::new(&shared.spec, id);
        let recorder = Recorder::new(id, Arc::clone(&shared), observation.clone());
        let others = BTreeMap::new();
        let (session, fresh) = (None, FreshLocks::of(&shared));
        Self { id, shared, observation, recorder, strategy, others, session, control, pace, fresh }
    }

    /// Joins, contends until the load ends, waits for the close signal, and closes the session.
    pub async fn run(mut self) {
        self.join().await;
        if self.await_start().await.is_some() {
            self.contend().await;
        }
        self.shared.board.finished.fetch_add(1, Ordering::AcqRel);
        self.shared.signals.close.cancelled().await;
        self.leave().await;
    }

    async fn join(&mut self) {
        let joined = self.open().await;
        let shared = Arc::clone(&self.shared);
        let board = &shared.board;
        match joined {
            Ok(session) => {
                let timeout = u64::try_from(session.timeout().as_millis()).unwrap_or(u64::MAX);
                board.negotiated_ms.fetch_max(timeout, Ordering::AcqRel);
                self.recorder.occurrences().opened += 1;
                self.has_session(session);
                self.ends_session_between_acquisitions();
                board.connected.fetch_add(1, Ordering::AcqRel);
            }
            Err(failure) => {
                self.recorder.error("connect", &failure);
                board.unconnected.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    fn has_session(&mut self, session: Session) {
        if self.shared.keeps_evidence() {
            follow(&session, self.recorder.of_session(session.id()));
        }
        debug!("contender {} has session 0x{:x}", self.id, session.id());
        self.control.set_session(Some(session.key()));
        self.session = Some(session);
    }

    /// Opens a session. The future is boxed because it is larger than all other state of a contender.
    fn open(&self) -> Pin<Box<dyn Future<Output = Result<Session, Failure>> + '_>> {
        Box::pin(async {
            let shared = &self.shared;
            if let Some(throttle) = &shared.throttle {
                throttle.admit_session().await;
            }
            let _permit = shared.opening.acquire().await;
            let (target, timeout, within) =
                (shared.target_of(self.id), shared.spec.session_timeout, shared.open_deadline());
            let own = || {
                // A driver's lock exchanges its messages on the driver's own connections.
                let is_own = shared.driver_of(self.id).is_none();
                let messages = is_own.then(|| Arc::clone(&shared.overlaps.messages[self.id]));
                let observed = Observed { messages, ..self.observation.observed.clone() };
                shared.own_target_of(self.id).open_at(self.id, timeout, within, observed)
            };
            let Some(drivers) = shared.driver_of(self.id) else { return own().await };
            let link = drivers.open(self.id, target, timeout, within, &self.control.gate).await?;
            match own().await {
                Ok(session) => Ok(session.standing_for(link)),
                Err(failure) => {
                    link.close().await;
                    Err(failure)
                }
            }
        })
    }

    /// Waits for the start of the load. Returns `None` if the trial ends first.
    async fn await_start(&mut self) -> Option<()> {
        let signals = &self.shared.signals;
        let mut start = signals.start.subscribe();
        let started = signals.drain.run_until_cancelled(start.wait_for(Option::is_some)).await?;
        let start = (*started.ok()?)?;
        if self.shared.spec.load == Load::Batch {
            let mut arrivals = signals.arrivals.subscribe();
            signals.drain.run_until_cancelled(arrivals.wait_for(|open| *open > self.id)).await?.ok()?;
            self.pace.pause(clock::now(), Duration::ZERO);
        } else {
            self.pace.begin(start, &self.shared.spec, self.id);
        }
        Some(())
    }

    async fn contend(&mut self) {
        while let Some(turn) = self.next_turn().await {
            self.take_turn(turn).await;
            self.ends_session_between_acquisitions();
            if let Some((wire, _)) = &self.shared.wire {
                wire.turn_ended(self.id);
            }
            if self.shared.has_faults() {
                self.control.admission.go_out();
            }
            if self.is_done() {
                let board = &self.shared.board;
                let acquired = board.measured.load(Ordering::Acquire);
                board.first_done.get_or_init(|| FirstDone { at: clock::now(), acquired });
                return;
            }
        }
    }

    /// Waits for the next cycle. Returns `None` if there are no more cycles.
    async fn next_turn(&mut self) -> Option<Turn> {
        let drain = self.shared.signals.last_turns.clone();
        if self.shared.open.is_some() {
            return self.next_arrival(&drain).await;
        }
        let intended = self.pace.intended_start(&drain).await?;
        let intended = self.come_in(intended, &drain).await?;
        let intended = self.admitted(intended, &drain).await?;
        Some(self.pace.turn(intended))
    }

    async fn next_arrival(&mut self, drain: &CancellationToken) -> Option<Turn> {
        // A contender that has no session, or that a fault blocks, takes no arrivals: it could not serve them.
        loop {
            let intended = self.pace.intended_start(drain).await?;
            self.come_in(intended, drain).await?;
            if self.session_or_rejoin().await.is_some() {
                break;
            }
            if self.shared.has_faults() {
                self.control.admission.go_out();
            }
            self.pace.pause(clock::now(), ERROR_PAUSE);
        }
        let shared = Arc::clone(&self.shared);
        let arrivals = shared.open.as_ref()?;
        let taken = clock::now();
        let next = arrivals.take(taken)?;
        drain.run_until_cancelled(runtime::sleep_until(Some(next.due))).await?;
        if arrivals.is_cancelled(&next) {
            return None;
        }
        if !shared.spec.fresh_locks {
            self.turn_to(next.arrival.lock);
        }
        let (mode, hold) = (next.arrival.mode, Some(next.arrival.hold));
        Some(Turn { intended: next.due, arrival: Some(Served { number: next.number, taken }), mode, hold })
    }

    fn turn_to(&mut self, lock: usize) {
        let before = self.control.lock();
        if lock != before {
            let build = || self.shared.build(self.id, lock);
            let strategy = self.others.remove(&lock).unwrap_or_else(build);
            self.others.insert(before, std::mem::replace(&mut self.strategy, strategy));
            self.control.uses(lock);
        }
    }

    /// Starts a cycle. Returns `None` if the load ends while a fault blocks the contender.
    async fn come_in(&self, intended: Stamp, drain: &CancellationToken) -> Option<Stamp> {
        if !self.shared.has_faults() {
            return Some(intended);
        }
        drain.run_until_cancelled(self.control.admission.come_in(intended)).await
    }

    /// Waits until the rate limit admits another cycle. The cycle's wait for the lock starts only then.
    async fn admitted(&self, intended: Stamp, drain: &CancellationToken) -> Option<Stamp> {
        let Some(throttle) = &self.shared.throttle else { return Some(intended) };
        if throttle.try_admit(CYCLE_REQUESTS).is_err() {
            drain.run_until_cancelled(throttle.admit(CYCLE_REQUESTS)).await?;
        }
        // A driver's requests bypass the session, so count an estimate.
        if self.shared.driver_of(self.id).is_some() {
            throttle.spend(DRIVER_REQUESTS);
        }
        Some(clock::now().max(intended))
    }

    fn is_done(&self) -> bool {
        match (&self.shared.spec.load, self.shared.spec.stop) {
            (Load::Batch, _) => true,
            (Load::Closed, Stop::Acquisitions(wanted)) => self.recorder.acquired >= wanted,
            (Load::Closed, Stop::After(_)) | (Load::Open(_), _) => false,
        }
    }

    async fn take_turn(&mut self, turn: Turn) {
        let Some(session) = self.session_or_rejoin().await else {
            self.recorder.could_not_start(&turn);
            self.pace.pause(clock::now(), ERROR_PAUSE);
            return;
        };
        if self.shared.spec.fresh_locks {
            self.strategy = self.fresh.next(&self.shared, self.id);
        }
        let attempt = self.recorder.arrives(&session, turn);
        let patience = Patience {
            deadline: self
                .shared
                .spec
                .acquire_timeout
                .map(|limit| self.control.clock.now() + clock::micros(limit)),
            tries_once: self.shared.spec.only_tries(),
            clock: self.control.clock.clone(),
            cancel: self.shared.signals.drain.clone(),
            gauge: self.shared.gauge.clone(),
        };
        self.control.waits(attempt.called);
        let acquired = tokio::select! {
            biased;
            acquired = self.fresh.acquire(&mut *self.strategy, &session, attempt.mode, &patience) => Some(acquired),
            () = asked_to_die(&self.shared, &self.control, Doing::Waiting) => None,
        };
        self.control.waits_no_longer();
        match acquired {
            Some(Ok(held)) => self.hold_and_release(&session, held, attempt, &patience).await,
            Some(Err(error)) => self.not_acquired(&session, &attempt, &error),
            None => {
                self.recorder.write_unserved(&attempt, clock::now());
                self.die(session, "waiting");
            }
        }
    }

    /// Crashes the contender in the middle of its work, like a killed process. It then returns as a new process.
    fn die(&mut self, session: Session, doing: &'static str) {
        self.recorder.died(session.id(), doing);
        self.new_strategies();
        self.session = None;
        session.crash();
        self.has_crashed();
        self.pace.pause(clock::now(), ERROR_PAUSE);
    }

    fn has_crashed(&self) {
        self.control.set_session(None);
        self.control.crashes.has_crashed();
    }

    async fn session_or_rejoin(&mut self) -> Option<Session> {
        if self.session.is_none() {
            let opened = tokio::select! {
                biased;
                opened = self.shared.signals.drain.run_until_cancelled(self.open()) => opened?,
                () = asked_to_die(&self.shared, &self.control, Doing::Anything) => {
                    // Without a session, no nodes are left behind.
                    self.has_crashed();
                    return None;
                }
            };
            match opened {
                Ok(session) => {
                    if !self.shared.spec.session_each {
                        self.recorder.occurrences().rejoined += 1;
                    }
                    self.has_session(session);
                }
                Err(failure) => self.recorder.error("rejoin", &failure),
            }
        }
        self.session.clone()
    }

    async fn hold_and_release(
        &mut self,
        session: &Session,
        held: Held,
        attempt: Attempt,
        patience: &Patience,
    ) {
        if let Some((wire, _)) = &self.shared.wire {
            wire.granted(self.id);
        }
        if session.stands_for_another() {
            self.control.served(held.told.granted.unwrap_or_else(clock::now));
        }
        let entry = self.recorder.enter(session, &held, attempt);
        let ordering = self.orders_hold(session, &held);
        let begins = ordering.as_ref().and_then(|ordering| ordering.begins(session));
        self.recorder.write_to_resource(session, &held, entry.acquired);
        let thaws = self.control.gate.times_opened();
        let (inner, was_open_before) = with_wait_flag(self.take_again(session, attempt.mode, patience)).await;
        let planned = attempt.hold.unwrap_or_else(|| self.pace.hold());
        let intended = self.shared.spec.hold_limit.map_or(planned, |limit| limit.min(planned));
        let dies = self.shared.has_faults() && self.control.crashes.waits_for_a_hold();
        let stays = !intended.is_zero() || self.shared.spec.load == Load::Batch || dies;
        if stays {
            self.recorder.write_acquired(&entry);
        }
        let hold =
            async { if stays { self.hold(session, entry.acquired, intended).await } else { HoldEnd::Whole } };
        let (ended, was_open) = with_wait_flag(hold).await;
        if ended == HoldEnd::Crashed {
            self.recorder.crash(&entry, intended);
            return self.die(session.clone(), "holding");
        }
        self.let_go_again(session, inner).await;
        // A holder that was notified of its session's end stops writing. A paused holder has not been notified yet.
        if ended != HoldEnd::Lost || self.control.gate.times_opened() != thaws {
            self.recorder.write_to_resource(session, &held, entry.acquired);
        }
        let was_open = was_open || was_open_before;
        if let Some(ordering) = ordering.as_ref().filter(|ordering| ordering.is_written) {
            let there = session.write_beside(&ordering.path).await;
            self.recorder.occurrences().writes_beside += u64::from(there.is_some());
            self.recorder.there = there;
        }
        let released = self.recorder.exit(session, &held, attempt.mode, was_open);
        let number = held.node.as_ref().map(|node| node.sequence);
        let shared = Arc::clone(&self.shared);
        let lock = &shared.lock_states[shared.lock_of(self.id)];
        // Send the read together with the release, so that the read does not lengthen a hold of zero duration.
        let looking = if stays { None } else { self.recorder.look_beside(session, &lock.path) };
        let last_look = ordering.as_ref().and_then(|ordering| ordering.ends(session));
        let mut release = self.strategy.release(session, held);
        let early = sent(&mut release).await;
        // Other contenders wait for this release, so record everything else while the reply is in flight.
        if !stays {
            self.recorder.write_acquired(&entry);
        }
        self.recorder.write_hold(&entry, released, intended, ended);
        self.recorder.write_limited(&entry, released, intended < planned && ended == HoldEnd::Whole);
        self.recorder.releases(number);
        let result = match early {
            Some(result) => result,
            None => release.as_mut().await,
        };
        drop(release);
        let now = clock::now();
        // Replies arrive in the order of the requests, so a reply that is missing by now will not arrive.
        if let Some(looking) = looking {
            self.recorder.write_look(&entry, looking.now_or_never().flatten());
        }
        if let Some(begun) = begins {
            let begun = begun.now_or_never().flatten();
            let is_written = ordering.as_ref().is_some_and(|ordering| ordering.is_written);
            let came = u64::from(begun.is_some());
            match is_written {
                true => self.recorder.occurrences().writes_beside += came,
                false => self.recorder.occurrences().looks_beside += came,
            }
            self.recorder.write_begun(begun);
        }
        if let Some(look) = last_look {
            let there = look.now_or_never().flatten();
            self.recorder.occurrences().looks_beside += u64::from(there.is_some());
            self.recorder.there = there;
        }
        let failure = result.as_ref().err();
        let state = self.holder_session(session, ended, entry.acquired, failure);
        let is_certain = failure.is_none_or(Failure::is_definite);
        if state == HolderSession::Alive && is_certain && ended == HoldEnd::Whole {
            self.recorder.check_hold(&entry, released, intended);
        }
        self.recorder.write_released(session, released, now, failure, state);
        match result {
            Ok(()) => self.pace.done(now),
            Err(failure) => self.pause_after(now, &failure),
        }
    }

    /// Returns how to order this hold relative to other workers' holds; `None` if no order is needed.
    fn orders_hold(&self, session: &Session, held: &Held) -> Option<HoldOrdering> {
        if !self.shared.orders_holds() {
            return None;
        }
        // If the node's transaction is unknown, order the hold by writes. A read is sent together with the
        // release, and another program's release may overtake the read; a write is awaited.
        if session.stands_for_another() || self.recorder.token.is_none() {
            let path = self.shared.witness(self.shared.lock_of(self.id));
            return Some(HoldOrdering { path, is_written: true, is_undated: true });
        }
        let (directory, _) = held.node.as_ref()?.path.rsplit_once('/')?;
        let is_undated = self.recorder.looks_at_entry();
        Some(HoldOrdering { path: directory.to_owned(), is_written: false, is_undated })
    }

    /// Returns whether a fault has ended the session without notifying the contender.
    fn was_taken_away(&self, session: &Session, entered: Stamp) -> bool {
        let too_long = || self.control.gate.shut_since(entered) >= clock::micros(session.timeout());
        let was_closed = || self.control.closing(session.id()) == Some(Closing::Answered);
        self.shared.has_faults() && (too_long() || was_closed())
    }

    /// Returns the state of a hold's session after the hold has ended.
    fn holder_session(
        &self,
        session: &Session,
        ended: HoldEnd,
        entered: Stamp,
        failure: Option<&Failure>,
    ) -> HolderSession {
        let is_over = failure.is_some_and(|failure| !failure.session_survives());
        if ended == HoldEnd::Lost || is_over || self.was_taken_away(session, entered) {
            HolderSession::Expired
        } else if self.control.closing(session.id()) == Some(Closing::Begun) {
            HolderSession::Closing
        } else {
            HolderSession::Alive
        }
    }

    /// Acquires the held lock again, up to the scenario's depth. These acquires do not count as waits, because
    /// the lock has been held since the outermost acquire.
    async fn take_again(&mut self, session: &Session, mode: Mode, patience: &Patience) -> Vec<Held> {
        let mut inner = Vec::new();
        for _ in 1..self.shared.spec.depth {
            match self.strategy.acquire(session, mode, patience).await {
                Ok(held) => inner.push(held),
                Err(error) => {
                    if let AcquireError::Failed(failure) = error {
                        self.recorder.error("acquire again", &failure);
                    }
                    break;
                }
            }
        }
        inner
    }

    /// Releases the nested acquires of [`Contender::take_again`] in reverse order.
    async fn let_go_again(&mut self, session: &Session, inner: Vec<Held>) {
        for held in inner.into_iter().rev() {
            if let Err(failure) = self.strategy.release(session, held).await {
                self.recorder.error("release again", &failure);
            }
        }
    }

    async fn hold(&mut self, session: &Session, acquired: Stamp, hold: Duration) -> HoldEnd {
        let Self { id, shared, strategy, control, .. } = self;
        let (batch, listens) = (shared.spec.load == Load::Batch, shared.spec.on_lost == OnLost::Stop);
        let mut releases = shared.signals.releases.subscribe();
        let until = acquired + clock::micros(hold);
        let held = async {
            runtime::sleep_until(Some(until)).await;
            if batch {
                let _ = releases.wait_for(|allowed| *allowed == Some(*id)).await;
            }
        };
        let mut ended = HoldEnd::Whole;
        let end = async {
            // After a pause, a contender completes its next step before it notices its session's end.
            ended = tokio::select! {
                biased;
                () = asked_to_die(shared, control, Doing::Holding) => HoldEnd::Crashed,
                () = held => HoldEnd::Whole,
                () = shared.signals.drain.cancelled() => HoldEnd::Drained,
                () = session.over(), if listens => HoldEnd::Lost,
            };
        };
        let over = strategy.hold(session, pin!(end)).await;
        match over {
            _ if ended == HoldEnd::Crashed => ended,
            HoldOver::ByItself => ended,
            HoldOver::Asked => HoldEnd::Revoked,
            HoldOver::Lost => HoldEnd::Lost,
        }
    }

    fn not_acquired(&mut self, session: &Session, attempt: &Attempt, error: &AcquireError) {
        let now = clock::now();
        self.recorder.write_not_acquired(session, attempt, now, error);
        match error {
            AcquireError::Failed(failure) => self.pause_after(now, failure),
            AcquireError::Deadlock => self.pace.pause(now, ERROR_PAUSE),
            AcquireError::TimedOut | AcquireError::Cancelled => self.pace.done(now),
        }
    }

    fn pause_after(&mut self, now: Stamp, failure: &Failure) {
        if !self.is_careless_after(failure) {
            self.give_up_session_after(failure);
        }
        self.pace.pause(now, ERROR_PAUSE);
    }

    /// Returns whether the scenario lets the contender continue with its session despite this failure.
    fn is_careless_after(&self, failure: &Failure) -> bool {
        let lives = || self.session.as_ref().is_some_and(|session| !session.is_over());
        self.shared.spec.in_doubt == InDoubt::KeepSession && failure.session_survives() && lives()
    }

    /// Closes the session after an indefinite failure, which may have left one of this contender's nodes in the
    /// queue. The node disappears with the session.
    fn give_up_session_after(&mut self, failure: &Failure) {
        if failure.is_definite() {
            return;
        }
        if *failure == Failure::SessionExpired {
            self.recorder.occurrences().expired += 1;
        }
        self.end_session();
    }

    /// Ends the session if the scenario requires a new session for each acquisition.
    fn ends_session_between_acquisitions(&mut self) {
        if self.shared.spec.session_each
            && let Some(session) = &self.session
        {
            self.recorder.collect_notifications(session, true);
            self.end_session();
        }
    }

    fn end_session(&mut self) {
        self.give_up_strategy();
        self.control.set_session(None);
        if let Some(session) = self.session.take() {
            runtime::spawn_closing(async {
                session.close(CLOSE_DEADLINE).await;
            });
        }
    }

    fn new_strategies(&mut self) {
        self.strategy = self.shared.build(self.id, self.control.lock());
        self.others.clear();
    }

    /// Replaces the lock objects, and ends all tasks that the old objects have started.
    fn give_up_strategy(&mut self) {
        self.new_strategies();
        if let Some(scope) = TaskScope::here() {
            scope.end_detached();
        }
    }

    async fn leave(mut self) {
        if let Some(session) = self.session.take() {
            self.recorder.collect_notifications(&session, true);
            self.give_up_strategy();
            // Let ended tasks release the session, which must have no other user when it is closed.
            runtime::yield_now().await;
            session.close(CLOSE_DEADLINE).await;
        }
        // Sessions abandoned earlier may still be closing.
        if let Some(scope) = TaskScope::here() {
            scope.let_go();
        }
    }
}

/// How a hold's transactions are determined, for comparison with other workers' holds: by reading the node's
/// directory, or by writing to a node.
struct HoldOrdering {
    path: String,
    is_written: bool,
    /// Whether the transaction of the hold's start is still unknown.
    is_undated: bool,
}

impl HoldOrdering {
    /// Determines the zxid of the hold's start. Runs during the hold.
    fn begins<'a>(&'a self, session: &'a Session) -> Option<Pin<Box<dyn Future<Output = Option<i64>> + 'a>>> {
        match (self.is_undated, self.is_written) {
            (false, _) => None,
            (true, true) => Some(Box::pin(session.write_beside(&self.path))),
            (true, false) => Some(Box::pin(session.look_beside(&self.path))),
        }
    }

    /// Reads once more, in the same flush as the release.
    fn ends<'a>(&'a self, session: &'a Session) -> Option<impl Future<Output = Option<i64>> + use<'a>> {
        (!self.is_written).then(|| session.look_beside(&self.path))
    }
}

/// Waits until a fault orders a crash during this activity. Never returns if the trial has no faults.
async fn asked_to_die(shared: &Shared, control: &Control, doing: Doing) {
    if shared.has_faults() { control.crashes.due(doing).await } else { std::future::pending().await }
}

/// Runs a future. Also returns whether the future ever waited, which let other contenders run.
async fn with_wait_flag<F: Future>(work: F) -> (F::Output, bool) {
    let mut work = pin!(work);
    let mut waited = false;
    let outcome = poll_fn(|cx| {
        let polled = work.as_mut().poll(cx);
        waited |= polled.is_pending();
        polled
    });
    let outcome = outcome.await;
    (outcome, waited)
}

/// Polls a future once, so that its request is sent. Returns the outcome if it is ready.
async fn sent<F: Future + Unpin>(work: &mut F) -> Option<F::Output> {
    if let Poll::Ready(outcome) = poll!(&mut *work) {
        return Some(outcome);
    }
    // Let the session's own task, which has been woken, write to the socket.
    runtime::yield_now().await;
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<F>(_: impl FnOnce(Contender) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn contender_uses_less_than_eight_kibibytes_of_memory() {
        let bytes = bytes(Contender::run);
        assert!(bytes < 8 << 10, "{bytes} bytes");
    }
}
