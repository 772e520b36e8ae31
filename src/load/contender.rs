//! One contender: a would-be holder with its own session, from joining to closing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::attribution::Attribution;
use super::desk::Desk;
use super::pace::Pace;
use super::scene::{Occupant, Scene};
use super::shared::Shared;
use crate::catalog::ParamValue;
use crate::clock::{self, Stamp};
use crate::lock::{AcquireError, Held, Patience, Strategy};
use crate::measure::{Measure, Outcome};
use crate::record::{Holder, Trial, Violation};
use crate::scenario::{Load, Stop};
use crate::zk::{Failure, Session, reactor};

/// Pause after an error, before the next attempt.
const ERROR_PAUSE: Duration = Duration::from_millis(50);
/// How long a session may take to close.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// One contender's state.
pub struct Contender {
    id: usize,
    shared: Arc<Shared>,
    desk: Desk,
    strategy: Box<dyn Strategy>,
    session: Option<Session>,
    pace: Pace,
    attribution: Attribution,
    acquired: u64,
}

/// One acquire, from when it should have begun.
#[derive(Clone, Copy)]
struct Attempt {
    intended: Stamp,
    called: Stamp,
    arrival: u64,
}

impl Contender {
    /// A contender that has not joined yet.
    #[must_use]
    pub fn new(id: usize, shared: Arc<Shared>, desk: Desk) -> Self {
        let strategy = (shared.entry.build)(&shared.lock_config(id));
        let pace = Pace::new(&shared.spec, id);
        desk.log.borrow_mut().tallies.insert(id, crate::record::Tally::default());
        Self {
            id,
            shared,
            desk,
            strategy,
            session: None,
            pace,
            attribution: Attribution::default(),
            acquired: 0,
        }
    }

    /// Joins, contends until the load ends, waits for the close signal, closes.
    pub async fn run(mut self) {
        self.join().await;
        if self.await_start().await.is_some() {
            self.contend().await;
        }
        self.shared.board.finished.fetch_add(1, Ordering::AcqRel);
        self.shared.signals.close.cancelled().await;
        self.leave().await;
    }

    fn scene(&self) -> &Scene {
        &self.shared.scenes[self.shared.scene_of(self.id)]
    }

    async fn join(&mut self) {
        let joined = self.open().await;
        let board = &self.shared.board;
        match joined {
            Ok(session) => {
                let timeout = u64::try_from(session.timeout().as_millis()).unwrap_or(u64::MAX);
                board.negotiated_ms.store(timeout, Ordering::Release);
                self.session = Some(session);
                self.desk.log.borrow_mut().opened += 1;
                board.connected.fetch_add(1, Ordering::AcqRel);
            }
            Err(failure) => {
                self.note_error("connect", &failure);
                board.unconnected.fetch_add(1, Ordering::AcqRel);
            }
        }
    }

    async fn open(&self) -> Result<Session, Failure> {
        let shared = &self.shared;
        let _permit = shared.opening.acquire().await;
        shared
            .target
            .open(shared.spec.session_timeout, shared.open_deadline(), self.desk.observed.clone())
            .await
    }

    /// Waits for the conductor; `None` when the trial ends before it has begun.
    async fn await_start(&mut self) -> Option<()> {
        let signals = &self.shared.signals;
        let mut start = signals.start.subscribe();
        let started = signals.drain.run_until_cancelled(start.wait_for(Option::is_some)).await?;
        let start = (*started.ok()?)?;
        if self.shared.spec.load == Load::Batch {
            let mut arrivals = signals.arrivals.subscribe();
            signals.drain.run_until_cancelled(arrivals.wait_for(|open| *open > self.id)).await?.ok()?;
            self.pace.done_without_thinking(clock::now());
        } else {
            self.pace.begin(start, &self.shared.spec, self.id);
        }
        Some(())
    }

    async fn contend(&mut self) {
        let drain = self.shared.signals.drain.clone();
        while let Some(intended) = self.pace.intended_start(&drain).await {
            self.turn(intended).await;
            if self.is_done() {
                return;
            }
        }
    }

    fn is_done(&self) -> bool {
        match (self.shared.spec.load, self.shared.spec.stop) {
            (Load::Batch, _) => true,
            (Load::Closed, Stop::Acquisitions(wanted)) => self.acquired >= wanted,
            (Load::Closed, Stop::After(_)) => false,
        }
    }

    /// One acquire, hold and release, or whatever else comes of it.
    async fn turn(&mut self, intended: Stamp) {
        let Some(session) = self.session_or_rejoin().await else {
            self.pace.pause(clock::now(), ERROR_PAUSE);
            return;
        };
        let attempt = Attempt { intended, called: clock::now(), arrival: self.scene().arrive() };
        let patience = Patience {
            deadline: self.shared.spec.acquire_timeout.map(|limit| clock::now() + clock::micros(limit)),
            cancel: self.shared.signals.drain.clone(),
            gauge: self.shared.gauge.clone(),
        };
        let _ = session.take_lag_us();
        match self.strategy.acquire(&session, &patience).await {
            Ok(held) => self.hold_and_release(&session, held, attempt).await,
            Err(error) => self.not_acquired(&session, &error),
        }
    }

    async fn session_or_rejoin(&mut self) -> Option<Session> {
        if self.session.is_none() {
            match self.shared.signals.drain.run_until_cancelled(self.open()).await? {
                Ok(session) => {
                    self.desk.log.borrow_mut().rejoined += 1;
                    self.session = Some(session);
                }
                Err(failure) => self.note_error("rejoin", &failure),
            }
        }
        self.session.clone()
    }

    async fn hold_and_release(&mut self, session: &Session, held: Held, attempt: Attempt) {
        let acquired = clock::now();
        let inside = self.scene().enter(self.id, &held, acquired);
        if let Some(inside) = inside {
            self.note_violation(inside, acquired);
        }
        let order = self.shared.board.acquired.fetch_add(1, Ordering::AcqRel);
        self.book_acquired(session, attempt, acquired);
        let hold = self.pace.hold();
        let lost = self.hold(session, acquired, hold, order).await;
        let released = clock::now();
        self.scene().exit(self.id, &held, released);
        self.book_hold(acquired, released, hold, lost);
        self.attribution.own_release = held.node.as_ref().map(|node| node.sequence);
        let result = self.strategy.release(session, held).await;
        self.book_released(session, released, &result);
        self.shared.board.released.fetch_add(1, Ordering::AcqRel);
    }

    /// Holds the lock; returns whether the session ended meanwhile.
    async fn hold(&self, session: &Session, acquired: Stamp, hold: Duration, order: u64) -> bool {
        let batch = self.shared.spec.load == Load::Batch;
        if hold.is_zero() && !batch {
            return false;
        }
        let mut releases = self.shared.signals.releases.subscribe();
        let until = acquired + clock::micros(hold);
        let held = async {
            reactor::sleep_until(Some(until)).await;
            if batch {
                let _ = releases.wait_for(|allowed| *allowed > order).await;
            }
        };
        tokio::select! {
            () = held => false,
            () = self.shared.signals.drain.cancelled() => false,
            () = session.over() => true,
        }
    }

    fn book_acquired(&mut self, session: &Session, attempt: Attempt, acquired: Stamp) {
        let lag = session.take_lag_us();
        session.take_arrivals(&mut self.attribution.inbox);
        let shared = Arc::clone(&self.shared);
        let scene = &shared.scenes[shared.scene_of(self.id)];
        let overtaken = scene.serve(attempt.arrival);
        let released = scene.last_release();
        let wait = acquired.saturating_sub(attempt.intended);
        let mut sheet = self.desk.sheet.borrow_mut();
        self.attribution.settle_late(scene, &mut sheet, false);
        self.attribution.settle(scene, &mut sheet, true);
        sheet.record(Measure::Wait, acquired, wait);
        // Released after this acquire was called: it was waiting then, so the lock was handed to it.
        let handoff = (released > attempt.called).then(|| acquired.saturating_sub(released));
        match handoff {
            Some(handoff) => sheet.record(Measure::Handoff, acquired, handoff),
            None => sheet.record(Measure::Uncontended, acquired, acquired.saturating_sub(attempt.called)),
        }
        sheet.count(acquired, |counts| {
            counts.outcomes.add(Outcome::Acquired, 1);
            counts.overtaken += u64::from(overtaken);
        });
        let Some(second) = sheet.second(acquired) else { return };
        second.acquisitions += 1;
        drop(sheet);
        self.acquired += 1;
        let mut log = self.desk.log.borrow_mut();
        let watches = self.shared.entry.card.guarantees.watches;
        log.lag_us += lag;
        log.lag_basis_us += handoff.filter(|_| watches).unwrap_or(acquired.saturating_sub(attempt.called));
        if let Some(ParamValue::Duration(interval)) = self.shared.spec.strategy.params.get("poll_interval") {
            log.looks_by_wait += acquired.saturating_sub(attempt.called) / clock::micros(*interval).max(1);
        }
        let tally = log.tallies.entry(self.id).or_default();
        tally.acquired += 1;
        tally.longest_wait_us = tally.longest_wait_us.max(wait);
    }

    fn book_hold(&self, acquired: Stamp, released: Stamp, hold: Duration, lost: bool) {
        let mut sheet = self.desk.sheet.borrow_mut();
        let drained = self.shared.signals.drain.is_cancelled();
        if self.shared.spec.load == Load::Closed && !lost && !drained {
            let overshoot = (released - acquired).saturating_sub(clock::micros(hold));
            sheet.record(Measure::HoldOvershoot, released, overshoot);
        }
        sheet.count(released, |counts| {
            counts.releases += 1;
            counts.outcomes.add(Outcome::LostWhileHeld, u64::from(lost));
        });
    }

    fn book_released(&mut self, session: &Session, called: Stamp, result: &Result<(), Failure>) {
        let now = clock::now();
        self.collect_arrivals(session, false);
        match result {
            Ok(()) => {
                self.desk.sheet.borrow_mut().record(Measure::Release, now, now.saturating_sub(called));
                self.pace.done(now);
            }
            Err(failure) => {
                self.note_error("release", failure);
                self.give_up_session_after(failure);
                self.pace.pause(now, ERROR_PAUSE);
            }
        }
    }

    fn not_acquired(&mut self, session: &Session, error: &AcquireError) {
        let now = clock::now();
        let outcome = match error {
            AcquireError::TimedOut => Outcome::TimedOut,
            AcquireError::Cancelled => Outcome::Cancelled,
            AcquireError::Failed(Failure::SessionExpired) => Outcome::SessionExpired,
            AcquireError::Failed(failure) if !failure.is_definite() => Outcome::ConnectionLost,
            AcquireError::Failed(_) => Outcome::Failed,
        };
        self.collect_arrivals(session, false);
        self.desk.sheet.borrow_mut().count(now, |counts| counts.outcomes.add(outcome, 1));
        match error {
            AcquireError::Failed(failure) => {
                self.note_error("acquire", failure);
                self.give_up_session_after(failure);
                self.pace.pause(now, ERROR_PAUSE);
            }
            AcquireError::TimedOut | AcquireError::Cancelled => self.pace.done(now),
        }
    }

    /// After an indefinite failure a node of this contender may be left, in front of its own next one. It
    /// goes with the session, so the session is ended and the contender rejoins with a new one.
    fn give_up_session_after(&mut self, failure: &Failure) {
        if failure.is_definite() {
            return;
        }
        if *failure == Failure::SessionExpired {
            self.desk.log.borrow_mut().expired += 1;
        }
        self.strategy = (self.shared.entry.build)(&self.shared.lock_config(self.id));
        if let Some(session) = self.session.take() {
            reactor::spawn_local(session.close(CLOSE_DEADLINE)).detach();
        }
    }

    fn collect_arrivals(&mut self, session: &Session, at_the_end: bool) {
        session.take_arrivals(&mut self.attribution.inbox);
        let scene = &self.shared.scenes[self.shared.scene_of(self.id)];
        let mut sheet = self.desk.sheet.borrow_mut();
        self.attribution.settle(scene, &mut sheet, false);
        self.attribution.settle_late(scene, &mut sheet, at_the_end);
    }

    async fn leave(mut self) {
        let Some(session) = self.session.take() else { return };
        self.collect_arrivals(&session, true);
        drop(self.strategy);
        session.close(CLOSE_DEADLINE).await;
    }

    fn note_error(&self, doing: &str, failure: &Failure) {
        *self.desk.log.borrow_mut().errors.entry(format!("{doing}: {}", failure.kind())).or_default() += 1;
    }

    fn note_violation(&self, inside: Occupant, now: Stamp) {
        let mut log = self.desk.log.borrow_mut();
        log.violation_count += 1;
        if log.violations.len() < Trial::VIOLATIONS_KEPT {
            let start = self.shared.signals.start.borrow().unwrap_or(0);
            let entered = self.scene().occupant(self.id);
            log.violations.push(Violation {
                lock: self.shared.scene_of(self.id),
                inside: holder(inside, start),
                entered: holder(entered, start),
                at: now,
            });
        }
    }
}

fn holder(occupant: Occupant, start: Stamp) -> Holder {
    Holder {
        contender: occupant.contender,
        sequence: occupant.sequence,
        czxid: occupant.czxid,
        entered_us: occupant.entered as i64 - start as i64,
    }
}
