//! Holders that lost their session during a hold: when they were notified, and how long they stayed.
//!
//! The servers' logs date a session's end by the deletion of the holder's node, in whole milliseconds. All
//! other times come from the contenders.

use std::collections::HashMap;
use std::io;

use zklockbench_core::clock::Stamp;
use zklockbench_record::history::SessionState;
use zklockbench_record::{Deed, Facts, LostHold, LostHolds, Moment};

/// Returns the holds that outlasted their session, or `None` if the logs contain no nodes.
pub(super) fn find(facts: &Facts) -> io::Result<Option<LostHolds>> {
    if facts.lives.is_empty() {
        return Ok(None);
    }
    let (mut found, mut holding) = (LostHolds::default(), HashMap::new());
    for moment in facts.moments()? {
        let moment = moment?;
        if let Some(hold) = happens(facts, &moment, &mut holding)? {
            found.note(hold);
        }
    }
    Ok(Some(found))
}

/// A hold whose node was deleted with its session.
struct Holding {
    ended_ms: i64,
    session: Option<i64>,
    suspended: Option<Stamp>,
    told: Option<Stamp>,
    left: Option<Stamp>,
}

/// Applies a moment to its contender's hold. Returns the hold when it is over, if it was lost.
fn happens(
    facts: &Facts,
    moment: &Moment,
    holding: &mut HashMap<usize, Holding>,
) -> io::Result<Option<LostHold>> {
    let Moment { at, contender, session, deed, .. } = *moment;
    if let Deed::Enters { token, .. } = deed {
        holding.remove(&contender);
        let life = token.map(|token| facts.lives.get(token)).transpose()?.flatten();
        let ended_ms = life.filter(|life| life.with_its_session).and_then(|life| life.deleted_at_ms);
        let hold =
            ended_ms.map(|ended_ms| Holding { ended_ms, session, suspended: None, told: None, left: None });
        holding.extend(hold.map(|hold| (contender, hold)));
        return Ok(None);
    }
    let Some(hold) = holding.get_mut(&contender).filter(|hold| hold.session == session) else {
        return Ok(None);
    };
    match deed {
        Deed::Session(SessionState::Suspended) => hold.suspended = hold.suspended.or(Some(at)),
        Deed::Session(SessionState::Connected) => hold.suspended = None,
        Deed::Session(SessionState::Expired) => hold.told = hold.told.or(Some(at)),
        Deed::Leaves { .. } => hold.left = Some(at),
        Deed::HasLeft { .. } | Deed::MayHaveLeft | Deed::CouldNotLeave => {
            return Ok(holding.remove(&contender).and_then(|hold| lost(facts, contender, &hold)));
        }
        _ => {}
    }
    Ok(None)
}

/// Returns the hold if its session ended while the holder was still inside.
fn lost(facts: &Facts, contender: usize, hold: &Holding) -> Option<LostHold> {
    let since = |at: Stamp| (facts.wall.ms(at) - hold.ended_ms).saturating_mul(1_000);
    let inside_us = u64::try_from(since(hold.left?)).ok().filter(|us| *us > 0)?;
    Some(LostHold {
        contender,
        suspended_us: hold.suspended.map(since),
        // A notification within the same millisecond may seem to come before the end.
        told_us: hold.told.map(|at| u64::try_from(since(at)).unwrap_or(0)),
        inside_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_record::history::LockKind;
    use zklockbench_record::{Life, Lives, LockClaim};

    const NODE: i64 = 7;

    /// Lost holds of a trial with one hold that starts at 10 ms and whose node is deleted at 100 ms.
    fn found(with_its_session: bool, later: &[(Stamp, Deed)]) -> LostHolds {
        let life = Life { deleted: Some(9), deleted_at_ms: Some(100), with_its_session };
        let enters = Deed::Enters { claim: LockClaim::WRITE, token: Some(NODE), zxid: None };
        let moments = [(10_000, enters)].into_iter().chain(later.iter().copied());
        let moments =
            moments.map(|(at, deed)| Moment { at, contender: 3, lock: 0, session: Some(1), deed }).collect();
        let facts = Facts { lives: Lives::from([(NODE, life)]), ..Facts::without_moments(LockKind::Mutex) };
        find(&facts.with_moments(moments)).unwrap().unwrap()
    }

    const SUSPENDED: Deed = Deed::Session(SessionState::Suspended);
    const EXPIRED: Deed = Deed::Session(SessionState::Expired);
    const LEAVES: Deed = Deed::Leaves { alone: false };

    #[test]
    fn holder_leaves_when_notified_of_its_sessions_end() {
        let holds = found(
            true,
            &[(60_000, SUSPENDED), (150_000, EXPIRED), (151_000, LEAVES), (152_000, Deed::MayHaveLeft)],
        );
        let hold =
            LostHold { contender: 3, suspended_us: Some(-40_000), told_us: Some(50_000), inside_us: 51_000 };
        assert_eq!(holds.holds, [hold]);
        assert_eq!((holds.told_max_us(), holds.inside_max_us()), (Some(50_000), Some(51_000)));
    }

    #[test]
    fn holder_that_was_not_notified_learns_of_its_lost_session_at_release() {
        let holds = found(true, &[(900_000, LEAVES), (903_000, EXPIRED), (903_000, Deed::MayHaveLeft)]);
        let hold = LostHold { contender: 3, suspended_us: None, told_us: Some(803_000), inside_us: 800_000 };
        assert_eq!(holds.holds, [hold]);
    }

    #[test]
    fn hold_that_ends_before_its_session_is_not_lost() {
        let left = [(90_000, LEAVES), (95_000, Deed::MayHaveLeft)];
        assert_eq!(found(true, &left).count, 0, "the session ended after the holder had left");
        assert_eq!(found(false, &[(150_000, LEAVES), (151_000, Deed::MayHaveLeft)]).count, 0);
        // A crashed contender never leaves.
        assert_eq!(found(true, &[(50_000, EXPIRED)]).count, 0);
    }
}
