//! What contenders learn of their sessions, and what that means for what they hold.

use super::checker::Checker;
use super::clocks::Moment;
use super::contender::{Stand, session_number};
use super::lock::Lock;
use super::overlap::Character;
use super::turn::At;
use crate::record::history::{Event, LinePosition, SessionState, What};

impl Checker {
    /// All contenders of a process that share a session learn something of it.
    pub(super) fn learn_all(&mut self, process: usize, event: &Event<'_>, at: Moment) -> Result<(), String> {
        if event.what != What::Session {
            return Err("this event needs `contender`".into());
        }
        for who in self.contenders.sharing(process, event.session.map(session_number)) {
            self.learn(who, event, at);
        }
        Ok(())
    }

    /// A contender learns what an event says of its session.
    pub(super) fn learn(&mut self, who: usize, event: &Event<'_>, at: Moment) {
        let known = self.contenders.all[who].session;
        let named = event.session.map(session_number);
        let another = named.is_some() && known.is_some() && named != known;
        if another && event.state == Some(SessionState::Expired) {
            return; // Late news of a session that is not the contender's any more.
        }
        if another {
            self.tell(who, SessionState::Expired, at);
            self.tell(who, SessionState::Connected, at);
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
    let believes = matches!(stand.at, At::Inside | At::AskingAgain | At::Easing);
    match state {
        SessionState::Suspended => occupancy.suspend(hold, true, at.place),
        SessionState::Connected if believes && !stand.lost => occupancy.suspend(hold, false, at.place),
        SessionState::Connected if stand.at == At::NotLet => {
            let character = stand.after_release();
            occupancy.resolve(hold, character);
            stand.hold = None;
        }
        SessionState::Connected => {}
        SessionState::Expired if believes => {
            stand.lost = true;
            occupancy.lose(hold, at);
        }
        SessionState::Expired => {
            if stand.at == At::Maybe {
                occupancy.vanish(hold);
            } else {
                occupancy.expire(hold, at.place);
            }
            stand.hold = None;
        }
    }
}

/// What is left to say of a hold when the history ends; `lived` tells whether its process was heard of since a line.
pub fn end_of_history(
    stand: &mut Stand,
    lock: &mut Lock,
    clock: usize,
    lived: impl Fn(LinePosition) -> bool,
) {
    let Some(hold) = stand.hold.take() else { return };
    let occupancy = lock.occupancy(clock);
    match stand.at {
        At::Inside | At::AskingAgain | At::Easing if stand.lost => occupancy.vanish(hold),
        At::Inside | At::AskingAgain | At::Easing => occupancy.remain(hold, lived),
        At::NotLet => occupancy.resolve(hold, stand.after_release()),
        At::Leaving => occupancy.resolve(hold, Character::Unknown),
        At::Outside | At::Asking | At::Maybe => {}
    }
}
