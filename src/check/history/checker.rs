//! The checker itself: takes event after event, and what acquires, releases and writes mean for their lock.

use std::collections::HashMap;

use super::clocks::{Clocks, Moment};
use super::contender::{CalledAcquire, Contenders, Stand};
use super::fencing::FencedWrite;
use super::lock::Lock;
use super::occupancy::Hold;
use super::order::Grant;
use super::overlap::{Character, Traces};
use super::turn::{self, At, LockTurn};
use crate::record::history::{
    Acquire, Event, Header, LinePosition, LockClaim, Release, SessionState, Step, What, Write,
};

/// How a history ended, and how it is to be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HistoryEnd {
    /// The number of its last line, when that broke off in its middle.
    pub cut_off_at: Option<u64>,
    pub strict: bool,
}

/// Judges a history while it is read. What it keeps grows with contenders and locks, not with events.
#[derive(Debug)]
pub struct Checker {
    pub(super) complete: Option<bool>,
    pub(super) locks: Vec<Lock>,
    pub(super) clocks: Clocks,
    pub(super) contenders: Contenders,
    pub(super) events: u64,
    numbers: HashMap<String, usize>,
}

impl Checker {
    pub fn new(header: &Header) -> Self {
        Self {
            complete: header.complete,
            locks: header.locks.iter().map(|(name, kind)| Lock::new(name.clone(), *kind)).collect(),
            clocks: Clocks::default(),
            contenders: Contenders::default(),
            events: 0,
            numbers: header.locks.keys().cloned().zip(0..).collect(),
        }
    }

    /// Takes the next event.
    ///
    /// # Errors
    /// What makes no sense about it after what went before; the history can't be judged then.
    pub fn feed(&mut self, place: LinePosition, event: &Event<'_>) -> Result<(), String> {
        let (process, at) = self.clocks.read(event, place)?;
        self.events += 1;
        let Some(number) = event.contender else { return self.learn_all(process, event, at) };
        let who = self.contenders.of(process, number);
        self.learn(who, event, at);
        let done = match &event.what {
            What::Session => Ok(()),
            What::Acquire(acquire) => self.acquire(who, acquire, at),
            What::Release(release) => self.release(who, release, at),
            What::Write(write) => self.write(who, write, at),
        };
        let lock = || event.what.lock().unwrap_or_default();
        done.map_err(|what| format!("contender {number} of `{}`, lock `{}`: {what}", event.process, lock()))
    }

    fn lock(&self, name: &str) -> Result<usize, String> {
        self.numbers.get(name).copied().ok_or_else(|| "the header does not name this lock".to_owned())
    }
    fn context(&mut self, who: usize, lock: &str, at: Moment) -> Result<EventContext<'_>, String> {
        let number = self.lock(lock)?;
        let contender = &mut self.contenders.all[who];
        let suspended = (contender.state != SessionState::Connected).then_some(contender.told);
        Ok(EventContext { who, lock: &mut self.locks[number], stand: contender.stand(number), suspended, at })
    }

    fn acquire(&mut self, who: usize, event: &Acquire<'_>, at: Moment) -> Result<(), String> {
        let mut context = self.context(who, event.lock, at)?;
        context.lock.check(event.claim)?;
        if event.step == Step::Invoke {
            context.forget_lost_hold();
        }
        let again = context.again(event.depth)?;
        let before = context.stand.at;
        let (after, turn) = turn::acquire(before, event.step, again)?;
        context.stand.at = after;
        match turn {
            LockTurn::Asks => context.ask(before, event.claim),
            LockTurn::Enters => context.enter(event),
            LockTurn::MayEnter => {
                context.lock.unknown += 1;
                context.put_inside(event, true);
            }
            LockTurn::Refused => context.lock.failed += 1,
            LockTurn::Nested => context.stand.depth += u32::from(event.step == Step::Ok),
            LockTurn::Leaves | LockTurn::Left(_) => {}
        }
        let contender = &mut self.contenders.all[who];
        if event.step == Step::Invoke && contender.state == SessionState::Expired {
            // Asking takes a session: this one is new.
            contender.state = SessionState::Connected;
        }
        Ok(())
    }

    fn release(&mut self, who: usize, event: &Release<'_>, at: Moment) -> Result<(), String> {
        let mut context = self.context(who, event.lock, at)?;
        let before = context.stand.at;
        let (after, turn) = turn::release(before, event.step, context.stand.depth < 2)?;
        context.stand.at = after;
        if let (Some(token), Some(zxid)) = (context.stand.token, event.deleted_from()) {
            context.lock.order.delete(token, zxid, at.place);
        }
        match turn {
            LockTurn::Leaves => context.leave(before, event.alone),
            LockTurn::Left(Step::Ok) => context.resolve(Character::Sound),
            LockTurn::Left(step) => context.stand.not_let = Some(step),
            LockTurn::Nested if matches!(event.step, Step::Ok | Step::Unknown) => context.stand.depth -= 1,
            _ => {}
        }
        Ok(())
    }

    /// One end of a write to the resource that a lock guards.
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

/// A contender at one lock, at the moment of an event.
struct EventContext<'a> {
    who: usize,
    lock: &'a mut Lock,
    stand: &'a mut Stand,
    /// Whether the contender's session is not known to be alive, and the line that said so.
    suspended: Option<Option<LinePosition>>,
    at: Moment,
}

impl EventContext<'_> {
    /// Whether a holder asks for more of the same.
    fn again(&self, depth: Option<u32>) -> Result<bool, String> {
        let again = depth.is_some_and(|depth| depth > 1);
        let expected = self.stand.depth + 1;
        if again && self.stand.at == At::Inside && depth != Some(expected) {
            return Err(format!("`depth` is {}, expected {expected}", depth.unwrap_or(0)));
        }
        Ok(again)
    }

    /// A contender that asks anew after the end of its session did not go on as a holder.
    fn forget_lost_hold(&mut self) {
        if self.stand.lost
            && let Some(hold) = self.stand.hold.take()
        {
            self.lock.occupancy(self.at.clock).vanish(hold);
            self.stand.lost = false;
            self.stand.at = At::Outside;
        }
    }

    fn ask(&mut self, before: At, claim: LockClaim) {
        match before {
            At::Maybe => self.vanish(),
            At::NotLet => self.resolve(self.stand.after_release()),
            _ => {}
        }
        let occupancy = self.lock.occupancy(self.at.clock);
        let kept_out_us = occupancy.asks(claim, self.at.t_us);
        self.stand.asked = Some(CalledAcquire { at: self.at, kept_out_us });
    }

    fn enter(&mut self, event: &Acquire<'_>) {
        let occupancy = self.lock.occupancy(self.at.clock);
        if let Some(asked) = self.stand.asked.take() {
            occupancy.waits.ended(asked.at.t_us, self.at.t_us);
            let kept_out_us =
                occupancy.kept_out_us(event.claim, self.at.t_us).saturating_sub(asked.kept_out_us);
            self.lock.kept_out.entry(kept_out_us, self.at.t_us.saturating_sub(asked.at.t_us));
        }
        self.lock.acquired += 1;
        self.lock.contended |= self.who != *self.lock.first.get_or_insert(self.who);
        self.put_inside(event, false);
        self.grant(event);
    }

    fn put_inside(&mut self, event: &Acquire<'_>, possible: bool) {
        let number = self.lock.next_hold();
        let session = self.suspended.flatten();
        let traces = Traces { who: self.who, acquired: self.at.place, session, released: None };
        let hold = Hold {
            number,
            claim: event.claim,
            token: event.token,
            possible,
            suspended: self.suspended.is_some(),
            traces,
            lost: None,
        };
        self.lock.occupancy(self.at.clock).enter(hold, self.at);
        self.stand.hold = Some(number);
        self.stand.lost = false;
        self.stand.depth = 1;
        self.stand.token = event.token;
    }

    fn grant(&mut self, event: &Acquire<'_>) {
        let Some(token) = event.token else {
            self.lock.order.report.without_token += 1;
            return;
        };
        let (who, clock, acquired) = (self.who, self.at.clock, self.at.place);
        let Acquire { claim, zxid, .. } = *event;
        self.lock.order.grant(Grant {
            who,
            clock,
            claim,
            token,
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
            (At::Maybe, _) => self.vanish(),
            _ => {}
        }
    }

    fn vanish(&mut self) {
        if let Some(hold) = self.stand.hold.take() {
            self.lock.occupancy(self.at.clock).vanish(hold);
        }
    }

    fn resolve(&mut self, character: Character) {
        if let Some(hold) = self.stand.hold.take() {
            self.lock.occupancy(self.at.clock).resolve(hold, character);
        }
    }
}

impl Stand {
    /// What a release that was not done leaves to be said of the session: a definite failure came from a live one.
    pub(super) fn after_release(&self) -> Character {
        if self.not_let == Some(Step::Fail) { Character::Sound } else { Character::Unknown }
    }
}
