//! Where one contender stands with one lock: what it may do next, and what would make no sense.

use crate::record::history::Step;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum At {
    #[default]
    Outside,
    Asking,
    Inside,
    AskingAgain,
    /// It holds and gives one of several acquires back.
    Easing,
    /// It called release and has no answer.
    Leaving,
    /// It called release, and the answer was not that it is done.
    NotLet,
    /// Its acquire ended without saying how.
    Maybe,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTurn {
    Asks,
    /// It is inside from now on.
    Enters,
    Refused,
    /// It may be inside from now on.
    MayEnter,
    /// It begins to let go: it believes no longer.
    Leaves,
    Left(Step),
    /// A holder's further acquire or its release: nothing changes for others.
    Nested,
}

/// Where a contender stands after an event of acquire, and what that means.
pub fn acquire(at: At, step: Step, again: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Outside | NotLet | Maybe, Step::Invoke) if !again => (Asking, LockTurn::Asks),
        (Inside, Step::Invoke) if again => (AskingAgain, LockTurn::Nested),
        (Asking, Step::Ok) => (Inside, LockTurn::Enters),
        (Asking, Step::Fail) => (Outside, LockTurn::Refused),
        (Asking, Step::Unknown) => (Maybe, LockTurn::MayEnter),
        (AskingAgain, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (_, Step::Invoke) => return Err(format!("acquire is called by a contender that {}", doing(at))),
        _ => return Err(format!("acquire ends, but the contender {}", doing(at))),
    })
}

/// Where a contender stands after an event of release, and what that means. `last` when it holds only once.
pub fn release(at: At, step: Step, last: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Inside, Step::Invoke) if !last => (Easing, LockTurn::Nested),
        (Inside | NotLet | Maybe, Step::Invoke) => (Leaving, LockTurn::Leaves),
        (Easing, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (Leaving, Step::Ok) => (Outside, LockTurn::Left(Step::Ok)),
        (Leaving, Step::Fail | Step::Unknown) => (NotLet, LockTurn::Left(step)),
        (_, Step::Invoke) => return Err(format!("release is called by a contender that {}", doing(at))),
        _ => return Err(format!("release ends, but the contender {}", doing(at))),
    })
}

fn doing(at: At) -> &'static str {
    match at {
        At::Outside => "does not hold it",
        At::Asking => "is still asking for it",
        At::Inside => "holds it",
        At::AskingAgain => "holds it and asks for it again",
        At::Easing => "is releasing one of several acquires",
        At::Leaving => "is releasing it",
        At::NotLet => "has tried to release it, without success",
        At::Maybe => "does not know whether it holds it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_goes_from_asking_to_inside_to_outside() {
        let (at, turn) = acquire(At::Outside, Step::Invoke, false).unwrap();
        assert_eq!((at, turn), (At::Asking, LockTurn::Asks));
        assert_eq!(acquire(at, Step::Ok, false), Ok((At::Inside, LockTurn::Enters)));
        assert_eq!(release(At::Inside, Step::Invoke, true), Ok((At::Leaving, LockTurn::Leaves)));
        assert_eq!(release(At::Leaving, Step::Ok, true), Ok((At::Outside, LockTurn::Left(Step::Ok))));
    }

    #[test]
    fn a_release_without_success_may_be_called_again_and_one_with_success_not() {
        assert!(release(At::NotLet, Step::Invoke, true).is_ok());
        let told = release(At::Outside, Step::Invoke, true).unwrap_err();
        assert_eq!(told, "release is called by a contender that does not hold it");
    }

    #[test]
    fn a_second_acquire_needs_a_depth() {
        assert_eq!(acquire(At::Inside, Step::Invoke, true), Ok((At::AskingAgain, LockTurn::Nested)));
        let told = acquire(At::Inside, Step::Invoke, false).unwrap_err();
        assert_eq!(told, "acquire is called by a contender that holds it");
    }

    #[test]
    fn an_answer_without_a_question_is_refused() {
        for at in [At::Outside, At::Inside, At::Leaving, At::Maybe] {
            assert!(acquire(at, Step::Ok, false).is_err(), "{at:?}");
        }
        for at in [At::Outside, At::Inside, At::Asking, At::NotLet] {
            assert!(release(at, Step::Ok, true).is_err(), "{at:?}");
        }
    }

    #[test]
    fn every_outcome_of_an_acquire_leads_somewhere_else() {
        assert_eq!(acquire(At::Asking, Step::Fail, false), Ok((At::Outside, LockTurn::Refused)));
        assert_eq!(acquire(At::Asking, Step::Unknown, false), Ok((At::Maybe, LockTurn::MayEnter)));
        for at in [At::NotLet, At::Maybe] {
            assert_eq!(acquire(at, Step::Invoke, false), Ok((At::Asking, LockTurn::Asks)), "{at:?}");
        }
        for step in [Step::Ok, Step::Fail, Step::Unknown] {
            assert_eq!(acquire(At::AskingAgain, step, true), Ok((At::Inside, LockTurn::Nested)), "{step:?}");
        }
    }

    #[test]
    fn only_a_holder_can_ask_for_more_of_the_same() {
        for at in [At::Outside, At::NotLet, At::Maybe, At::Asking, At::Leaving] {
            assert!(acquire(at, Step::Invoke, true).is_err(), "{at:?}");
        }
    }

    #[test]
    fn whoever_may_hold_can_release_and_whoever_holds_several_times_eases() {
        for at in [At::Inside, At::NotLet, At::Maybe] {
            assert_eq!(release(at, Step::Invoke, true), Ok((At::Leaving, LockTurn::Leaves)), "{at:?}");
        }
        assert_eq!(release(At::Inside, Step::Invoke, false), Ok((At::Easing, LockTurn::Nested)));
        for step in [Step::Ok, Step::Fail, Step::Unknown] {
            assert_eq!(release(At::Easing, step, false), Ok((At::Inside, LockTurn::Nested)), "{step:?}");
        }
        for step in [Step::Fail, Step::Unknown] {
            assert_eq!(release(At::Leaving, step, true), Ok((At::NotLet, LockTurn::Left(step))), "{step:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_with_what_the_contender_is_doing() {
        let doing = [
            (At::Asking, "is still asking for it"),
            (At::AskingAgain, "holds it and asks for it again"),
            (At::Easing, "is releasing one of several acquires"),
            (At::Leaving, "is releasing it"),
        ];
        for (at, what) in doing {
            let called = acquire(at, Step::Invoke, false).unwrap_err();
            assert_eq!(called, format!("acquire is called by a contender that {what}"));
            let called = release(at, Step::Invoke, true).unwrap_err();
            assert_eq!(called, format!("release is called by a contender that {what}"));
        }
        let told = |at| acquire(at, Step::Ok, false).unwrap_err();
        assert_eq!(
            told(At::NotLet),
            "acquire ends, but the contender has tried to release it, without success"
        );
        assert_eq!(told(At::Maybe), "acquire ends, but the contender does not know whether it holds it");
        let ended = release(At::Inside, Step::Fail, true).unwrap_err();
        assert_eq!(ended, "release ends, but the contender holds it");
    }
}
