//! State of each contender: its session, and its progress at each lock, with the transitions that are valid.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::clocks::Moment;
use super::fencing::Newest;
use zklockbench_core::worded;
use zklockbench_record::history::{LinePosition, LockClaim, SessionState, Step};

#[derive(Debug, Clone, Copy)]
pub struct CalledAcquire {
    pub at: Moment,
    pub claim: LockClaim,
    /// Total time for which the same claim had been blocked before the call.
    pub kept_out_us: u64,
}

#[derive(Debug, Default)]
pub struct Stand {
    pub at: At,
    pub depth: u32,
    /// The current hold, while it can still be judged.
    pub hold: Option<u64>,
    /// Whether the contender was notified during that hold that its session had ended.
    pub lost: bool,
    pub token: Option<i64>,
    pub asked: Option<CalledAcquire>,
    /// Result of a release that failed.
    pub not_let: Option<Step>,
    /// Newest token that the resource had accepted when a write was called.
    pub writing: Option<Option<Newest>>,
}

#[derive(Debug)]
pub struct HistoryContender {
    pub process: usize,
    pub number: u64,
    pub state: SessionState,
    pub told: Option<LinePosition>,
    /// Hash of the session's name: there are many names, and they are only compared.
    pub session: Option<u64>,
    pub stands: BTreeMap<usize, Stand>,
}

impl HistoryContender {
    pub fn stand(&mut self, lock: usize) -> &mut Stand {
        self.stands.entry(lock).or_default()
    }
}

#[derive(Debug, Default)]
pub struct Contenders {
    numbers: HashMap<(usize, u64), usize>,
    /// All contenders, in the order of their first event.
    pub all: Vec<HistoryContender>,
}

impl Contenders {
    /// Index of a contender in `all`.
    pub fn of(&mut self, process: usize, number: u64) -> usize {
        *self.numbers.entry((process, number)).or_insert_with(|| {
            let (state, stands) = (SessionState::Connected, BTreeMap::new());
            self.all.push(HistoryContender { process, number, state, told: None, session: None, stands });
            self.all.len() - 1
        })
    }

    /// Contenders of a process that may have that session.
    pub fn sharing(&self, process: usize, session: Option<u64>) -> Vec<usize> {
        let may = |contender: &HistoryContender| {
            contender.process == process
                && (session.is_none() || contender.session.is_none() || session == contender.session)
        };
        (0..self.all.len()).filter(|which| may(&self.all[*which])).collect()
    }
}

/// A compact hash of a session's name.
pub fn session_number(session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    hasher.finish()
}

worded! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum At by doing {
        #[default]
        Outside = "does not hold it",
        Asking = "is still requesting it",
        Inside = "holds it",
        AskingAgain = "holds it and requests it again",
        /// The contender holds and releases one of several acquires.
        Easing = "is releasing one of several acquires",
        /// The contender called release and has no answer.
        Leaving = "is releasing it",
        /// The contender called release, and the answer was not a success.
        NotLet = "has tried to release it, without success",
        /// The acquire ended with an unknown result.
        Maybe = "may or may not hold it",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTurn {
    Asks,
    /// The contender is inside from now on.
    Enters,
    Refused,
    /// The contender may be inside from now on.
    MayEnter,
    /// The contender starts to release and no longer believes that it holds.
    Leaves,
    Left(Step),
    /// A further acquire or release of a holder, without effect on others.
    Nested,
}

/// State of a contender after an acquire event, and the meaning of the event.
pub fn turn_of_acquire(at: At, step: Step, again: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Outside | NotLet | Maybe, Step::Invoke) if !again => (Asking, LockTurn::Asks),
        (Inside, Step::Invoke) if again => (AskingAgain, LockTurn::Nested),
        (Asking, Step::Ok) => (Inside, LockTurn::Enters),
        (Asking, Step::Fail) => (Outside, LockTurn::Refused),
        (Asking, Step::Unknown) => (Maybe, LockTurn::MayEnter),
        (AskingAgain, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (_, Step::Invoke) => return Err(format!("acquire is called by a contender that {}", at.doing())),
        _ => return Err(format!("acquire ends, but the contender {}", at.doing())),
    })
}

/// State of a contender after a release event, and the meaning of the event. `last` if the contender holds only once.
pub fn turn_of_release(at: At, step: Step, last: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Inside, Step::Invoke) if !last => (Easing, LockTurn::Nested),
        (Inside | NotLet | Maybe, Step::Invoke) => (Leaving, LockTurn::Leaves),
        (Easing, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (Leaving, Step::Ok) => (Outside, LockTurn::Left(Step::Ok)),
        (Leaving, Step::Fail | Step::Unknown) => (NotLet, LockTurn::Left(step)),
        (_, Step::Invoke) => return Err(format!("release is called by a contender that {}", at.doing())),
        _ => return Err(format!("release ends, but the contender {}", at.doing())),
    })
}
