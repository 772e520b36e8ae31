//! Applies events to locks one by one, and tracks sessions.

mod conclusion;

use std::collections::{BTreeMap, HashMap};

use super::clocks::{Clocks, Moment};
use super::contender::{
    At, CalledAcquire, Contenders, LockTurn, SessionNews, Stand, session_number, turn_of_acquire,
    turn_of_release,
};
use super::fencing::{FencedWrite, Fencing};
use super::judgement::LockReport;
use super::occupancy::{Hold, Occupancy};
use super::order::{Grant, LockHolds};
use super::overlap::Traces;
use crate::weigh::Soundness;
use zklockbench_core::units::counted;
use zklockbench_record::KeptOut;
use zklockbench_record::history::{
    Acquire, Event, Header, LinePosition, LockClaim, LockKind, Release, SessionState, StatedClaim, Step,
    What, Write,
};

/// Judges a history while reading it. Memory grows with contenders and locks, not with events.
#[derive(Debug, Default)]
pub struct Checker {
    complete: Option<bool>,
    /// Kinds of all locks in the header. Locks without events take no other memory.
    kinds: BTreeMap<String, LockKind>,
    interference: Option<String>,
    /// Locks in the order of their first event.
    locks: Vec<Lock>,
    clocks: Clocks,
    contenders: Contenders,
    events: u64,
    numbers: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Lock {
    /// Counts so far. The report's other fields are filled in at the end.
    report: LockReport,
    /// Contenders inside, by clock: holds on different clocks are not compared.
    occupancies: Vec<(usize, Occupancy)>,
    order: LockHolds,
    fencing: Fencing,
    holds: u64,
    /// Evidence from acquisitions that had to wait for a holder.
    kept_out: KeptOut,
    /// Evidence from blocked acquires that ended without the lock.
    refused: KeptOut,
    first: Option<usize>,
}

impl Lock {
    fn new(name: &str, kind: LockKind) -> Self {
        Self { report: LockReport::new(name, kind), order: LockHolds::new(kind), ..Self::default() }
    }

    fn occupancy(&mut self, clock: usize) -> &mut Occupancy {
        let found = self.occupancies.iter().position(|(of, _)| *of == clock).unwrap_or_else(|| {
            self.occupancies.push((clock, Occupancy::new(self.report.kind)));
            self.occupancies.len() - 1
        });
        &mut self.occupancies[found].1
    }

    fn next_hold(&mut self) -> u64 {
        self.holds += 1;
        self.holds
    }

    fn check(&self, claim: LockClaim) -> Result<(), String> {
        match self.report.kind {
            LockKind::Semaphore(all) if claim.leases == 0 || claim.leases > all => {
                let asked = counted(claim.leases, "lease is", "leases are");
                Err(format!("{asked} requested; the semaphore has {all}"))
            }
            _ => Ok(()),
        }
    }

    fn was_used(&self) -> bool {
        let writes = self.fencing.report;
        !self.occupancies.is_empty() || writes.accepted + writes.stale_rejected + writes.other_rejected > 0
    }
}

impl Checker {
    pub fn new(header: &Header) -> Self {
        let interference = header.interference.first().cloned();
        Self { complete: header.complete, kinds: header.locks.clone(), interference, ..Self::default() }
    }

    /// Processes the next event.
    ///
    /// # Errors
    /// If the event contradicts earlier events. The history then cannot be judged.
    pub fn feed(&mut self, place: LinePosition, event: &Event<'_>) -> Result<(), String> {
        let (process, at) = self.clocks.read(event, place)?;
        if matches!(event.what, What::Trace(_)) {
            return Ok(());
        }
        self.events += 1;
        let Some(number) = event.contender else { return self.learn_all(process, event, at) };
        let who = self.contenders.of(process, number, event.session);
        self.learn(who, event, at);
        let done = match &event.what {
            What::Session | What::Trace(_) => Ok(()),
            What::Acquire(acquire) => self.acquire(who, acquire, at),
            What::Release(release) => self.release(who, release, at),
            What::Write(write) => self.write(who, write, at),
        };
        let lock = || event.what.lock().unwrap_or_default();
        done.map_err(|what| format!("contender {number} of `{}`, lock `{}`: {what}", event.process, lock()))
    }

    fn lock(&mut self, name: &str) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let kind = self.kinds.get(name).ok_or_else(|| "the header does not list this lock".to_owned())?;
        self.locks.push(Lock::new(name, *kind));
        self.numbers.insert(name.to_owned(), self.locks.len() - 1);
        Ok(self.locks.len() - 1)
    }

    fn context(&mut self, who: usize, lock: &str, at: Moment) -> Result<EventContext<'_>, String> {
        let number = self.lock(lock)?;
        let contender = &mut self.contenders.all[who];
        let suspended = (contender.state != SessionState::Connected).then_some(contender.told);
        Ok(EventContext { who, lock: &mut self.locks[number], stand: contender.stand(number), suspended, at })
    }

    fn acquire(&mut self, who: usize, event: &Acquire<'_>, at: Moment) -> Result<(), String> {
        let mut context = self.context(who, event.lock, at)?;
        let called = context.stand.asked.filter(|_| event.step != Step::Invoke);
        let stated = context.lock.report.kind.relevant(event.claim);
        let claim = stated.of_answer(called.map(|called| called.stated).unwrap_or_default())?;
        context.lock.check(claim)?;
        let again = context.again(event.depth)?;
        if event.step == Step::Invoke && !again {
            context.forget_lost_hold();
        }
        let before = context.stand.at;
        let (after, turn) = turn_of_acquire(before, event.step, again)?;
        context.stand.at = after;
        match turn {
            LockTurn::Asks => context.ask(before, claim, stated),
            LockTurn::Enters => context.enter(event, claim),
            LockTurn::MayEnter => {
                context.lock.report.unknown += 1;
                context.put_inside(event, claim, None, true);
            }
            LockTurn::Refused => context.refuse(claim),
            LockTurn::Nested => context.stand.depth += u32::from(event.step == Step::Ok),
            LockTurn::Leaves | LockTurn::Left(_) => {}
        }
        let contender = &mut self.contenders.all[who];
        if turn == LockTurn::Asks && contender.state == SessionState::Expired {
            // An acquire that is not nested requires a session, so the contender must have a new session.
            contender.state = SessionState::Connected;
        }
        Ok(())
    }

    fn release(&mut self, who: usize, event: &Release<'_>, at: Moment) -> Result<(), String> {
        let mut context = self.context(who, event.lock, at)?;
        let before = context.stand.at;
        let (after, turn) = turn_of_release(before, event.step, context.stand.depth < 2)?;
        context.stand.at = after;
        if let (Some(token), Some(zxid)) = (context.stand.token, event.deleted_from()) {
            context.lock.order.delete(token, zxid, at.place);
        }
        match turn {
            LockTurn::Leaves => context.leave(before, event.alone),
            LockTurn::Left(Step::Ok) => context.has_left(Soundness::Sound),
            LockTurn::Left(step) => context.has_not_left(step),
            LockTurn::Nested if matches!(event.step, Step::Ok | Step::Unknown) => context.stand.depth -= 1,
            _ => {}
        }
        Ok(())
    }

    /// Handles the call or the result of a write to the guarded resource.
    fn write(&mut self, who: usize, event: &Write<'_>, at: Moment) -> Result<(), String> {
        let EventContext { lock, stand, .. } = self.context(who, event.lock, at)?;
        let newest = lock.fencing.newest_on(at.clock);
        if event.step == Step::Invoke {
            stand.writing = Some(newest);
            return Ok(());
        }
        let called = stand.writing.take().unwrap_or(newest);
        let Write { token, zxid, .. } = *event;
        match (event.step, event.accepted) {
            (Step::Ok, None) => return Err("a write that ended with `ok` needs `accepted`".into()),
            (Step::Ok | Step::Fail, Some(accepted)) => {
                lock.fencing.answer(FencedWrite { token, accepted, zxid, at }, called);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A contender and a lock during one event.
struct EventContext<'a> {
    who: usize,
    lock: &'a mut Lock,
    stand: &'a mut Stand,
    /// Set if the contender's session may be dead, with the line that reported this.
    suspended: Option<Option<LinePosition>>,
    at: Moment,
}

impl EventContext<'_> {
    /// Returns whether the acquire is nested. Fails if the depth is unexpected.
    fn again(&self, depth: Option<u32>) -> Result<bool, String> {
        let again = depth.is_some_and(|depth| depth > 1);
        let expected = self.stand.depth + 1;
        if again && self.stand.at == At::Inside && depth != Some(expected) {
            return Err(format!("`depth` is {}, expected {expected}", depth.unwrap_or(0)));
        }
        Ok(again)
    }

    /// Drops a hold whose session has ended, because its contender is acquiring the lock again.
    fn forget_lost_hold(&mut self) {
        if self.stand.lost
            && let Some(hold) = self.stand.hold.take()
        {
            self.lock.occupancy(self.at.clock).vanish(hold);
            self.stand.lost = false;
            self.stand.at = At::Outside;
        }
    }

    fn ask(&mut self, before: At, claim: LockClaim, stated: StatedClaim) {
        match before {
            At::Maybe => self.vanish(),
            At::NotLet => self.goes_on_without(),
            _ => {}
        }
        let occupancy = self.lock.occupancy(self.at.clock);
        let kept_out_us = occupancy.asks(claim, self.at.t_us);
        self.stand.asked = Some(CalledAcquire { at: self.at, stated, kept_out_us });
    }

    fn enter(&mut self, event: &Acquire<'_>, claim: LockClaim) {
        let occupancy = self.lock.occupancy(self.at.clock);
        let asked = self.stand.asked.take();
        if let Some(asked) = asked {
            occupancy.waits.ended(asked.at.t_us, self.at.t_us);
            let kept_out_us = occupancy.kept_out_us(claim, self.at.t_us).saturating_sub(asked.kept_out_us);
            // An acquisition during another hold does not show that the lock excludes others.
            let kept_out_us = if occupancy.meets_evidence(claim, self.at.t_us) { 0 } else { kept_out_us };
            self.lock.kept_out.entry(kept_out_us, self.at.t_us.saturating_sub(asked.at.t_us));
        }
        self.lock.report.acquired += 1;
        self.lock.report.contended |= self.who != *self.lock.first.get_or_insert(self.who);
        self.put_inside(event, claim, asked.map(|asked| asked.at.t_us), false);
        self.grant(event, claim);
    }

    fn refuse(&mut self, claim: LockClaim) {
        self.lock.report.failed += 1;
        let Some(asked) = self.stand.asked.take() else { return };
        let kept_out_us = self.lock.occupancy(self.at.clock).kept_out_us(claim, self.at.t_us);
        let waited_us = self.at.t_us.saturating_sub(asked.at.t_us);
        self.lock.refused.entry(kept_out_us.saturating_sub(asked.kept_out_us), waited_us);
    }

    fn put_inside(&mut self, event: &Acquire<'_>, claim: LockClaim, asked_us: Option<u64>, possible: bool) {
        let number = self.lock.next_hold();
        let session = self.suspended.flatten();
        let traces = Traces {
            who: self.who,
            token: event.token,
            entered_us: self.at.t_us,
            acquired: self.at.place,
            session,
            released: None,
        };
        let hold = Hold {
            number,
            claim,
            asked_us,
            possible,
            suspended: self.suspended.is_some(),
            traces,
            lost: None,
            overlooked: 0,
        };
        self.lock.occupancy(self.at.clock).enter(hold, self.at);
        self.stand.hold = Some(number);
        self.stand.lost = false;
        self.stand.depth = 1;
        self.stand.token = event.token;
    }

    fn grant(&mut self, event: &Acquire<'_>, claim: LockClaim) {
        let Some(token) = event.token else {
            self.lock.order.report.without_token += 1;
            return;
        };
        let (who, clock, acquired) = (self.who, self.at.clock, self.at.place);
        let zxid = event.zxid;
        self.lock.order.grant(Grant {
            who,
            clock,
            claim,
            token,
            asked: token,
            zxid,
            deleted: None,
            acquired,
            released: None,
        });
    }

    fn leave(mut self, before: At, alone: bool) {
        match (before, self.stand.hold) {
            (At::Inside, Some(hold)) => {
                self.lock.occupancy(self.at.clock).leave(hold, self.at, alone);
                if self.stand.lost {
                    self.stand.hold = None;
                }
            }
            (At::NotLet, Some(hold)) => self.lock.occupancy(self.at.clock).leave_again(hold, self.at),
            (At::Maybe, _) => self.vanish(),
            _ => {}
        }
    }

    /// Ends a hold after its release took effect.
    fn has_left(&mut self, soundness: Soundness) {
        if let Some(hold) = self.stand.hold.take() {
            let occupancy = self.lock.occupancy(self.at.clock);
            occupancy.is_gone(hold);
            occupancy.resolve(hold, soundness);
        }
    }

    /// Records that the release failed, or that its result is unknown.
    fn has_not_left(&mut self, step: Step) {
        self.stand.failed = (step == Step::Fail).then_some(self.at.place);
        if let Some(hold) = self.stand.hold.filter(|_| step == Step::Fail) {
            self.lock.occupancy(self.at.clock).stays(hold, self.at);
        }
    }

    /// Ends a hold without a confirmed release: the contender acquires the lock again, so it considers itself
    /// outside.
    fn goes_on_without(&mut self) {
        let soundness = self.stand.after_release();
        if let Some(hold) = self.stand.hold.filter(|_| self.stand.failed.is_some()) {
            self.lock.occupancy(self.at.clock).leave(hold, self.at, false);
        }
        self.has_left(soundness);
    }

    fn vanish(&mut self) {
        if let Some(hold) = self.stand.hold.take() {
            self.lock.occupancy(self.at.clock).vanish(hold);
        }
    }
}

impl Stand {
    /// Soundness of the session after an unsuccessful release: only a live session reports a failure.
    fn after_release(&self) -> Soundness {
        if self.failed.is_some() { Soundness::Sound } else { Soundness::Unknown }
    }
}

impl Checker {
    /// Applies a session event to all contenders of a process that may use the session.
    fn learn_all(&mut self, process: usize, event: &Event<'_>, at: Moment) -> Result<(), String> {
        if event.what != What::Session {
            return Err("this event needs `contender`".into());
        }
        let session = event.session.map(session_number);
        if let Some(state) = event.state {
            self.contenders.remember(process, SessionNews { session, state, told: at.place });
        }
        for who in self.contenders.sharing(process, session) {
            self.learn(who, event, at);
        }
        Ok(())
    }

    fn learn(&mut self, who: usize, event: &Event<'_>, at: Moment) {
        let known = self.contenders.all[who].session;
        let named = event.session.map(session_number);
        let another = named.is_some() && known.is_some() && named != known;
        if another && event.state == Some(SessionState::Expired) {
            return; // Late event of the contender's previous session.
        }
        if another {
            self.stop_waiting_for_releases(who, at);
            self.tell(who, SessionState::Expired, at);
            self.tell(who, SessionState::Connected, at);
        }
        if named.is_some() && named == known && event.state == Some(SessionState::Connected) {
            self.prove_alive(who, at);
        }
        if named.is_some() {
            self.contenders.all[who].session = named;
        }
        if let Some(state) = event.state {
            self.tell(who, state, at);
            if state == SessionState::Expired {
                self.contenders.all[who].session = None;
            }
        }
    }

    /// Handles a reconnection to the same session: the session was alive during all earlier overlaps.
    fn prove_alive(&mut self, who: usize, at: Moment) {
        for (lock, stand) in &self.contenders.all[who].stands {
            if let Some(hold) = stand.hold {
                self.locks[*lock].occupancy(at.clock).resolve(hold, Soundness::Sound);
            }
        }
    }

    /// Marks holds with an unanswered release as unknown: the previous session may have been alive when another
    /// contender entered.
    fn stop_waiting_for_releases(&mut self, who: usize, at: Moment) {
        for (lock, stand) in &mut self.contenders.all[who].stands {
            if let Some(hold) = stand.hold.filter(|_| stand.at == At::NotLet && stand.failed.is_none()) {
                self.locks[*lock].occupancy(at.clock).resolve(hold, Soundness::Unknown);
            }
        }
    }

    fn tell(&mut self, who: usize, state: SessionState, at: Moment) {
        let contender = &mut self.contenders.all[who];
        contender.state = state;
        contender.told = Some(at.place);
        for (lock, stand) in &mut contender.stands {
            if stand.hold.is_some() {
                tell_holder(stand, &mut self.locks[*lock], state, at);
            }
        }
    }
}

fn tell_holder(stand: &mut Stand, lock: &mut Lock, state: SessionState, at: Moment) {
    let Some(hold) = stand.hold else { return };
    let occupancy = lock.occupancy(at.clock);
    let holds_on = stand.at == At::NotLet && stand.failed.is_some();
    let believes = holds_on || matches!(stand.at, At::Inside | At::AskingAgain | At::Easing);
    match state {
        SessionState::Suspended => occupancy.suspend(hold, true, at.place),
        SessionState::Connected => {
            if believes && !stand.lost {
                occupancy.suspend(hold, false, at.place);
            }
            if stand.at == At::NotLet {
                occupancy.resolve(hold, stand.after_release());
            }
        }
        SessionState::Expired if believes => {
            stand.lost = true;
            occupancy.lose(hold, at);
        }
        SessionState::Expired => {
            if stand.at == At::Maybe {
                occupancy.vanish(hold);
            } else {
                occupancy.is_gone(hold);
                occupancy.expire(hold, at.place);
            }
            stand.hold = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semaphore_rejects_claims_for_zero_or_too_many_leases() {
        let refused = |kind| {
            let lock = Lock::new("lock", kind);
            [0, 1, 3, 4].map(|leases| lock.check(LockClaim { leases, ..LockClaim::WRITE }).is_err())
        };
        assert_eq!(refused(LockKind::Semaphore(3)), [true, false, false, true]);
        assert_eq!([LockKind::Mutex, LockKind::ReadWrite].map(refused), [[false; 4]; 2]);
    }
}
