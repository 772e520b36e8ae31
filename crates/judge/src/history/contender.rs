//! State of each contender: its session, its progress at each lock, and the valid transitions.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::clocks::Moment;
use super::fencing::Newest;
use zklockbench_core::units::distinct_sorted;
use zklockbench_core::worded;
use zklockbench_record::history::{LinePosition, SessionState, StatedClaim, Step};

#[derive(Debug, Clone, Copy)]
pub struct CalledAcquire {
    pub at: Moment,
    pub stated: StatedClaim,
    /// Total time that this claim had been blocked before the call.
    pub kept_out_us: u64,
}

#[derive(Debug, Default)]
pub struct Stand {
    pub at: At,
    pub depth: u32,
    /// The current hold, or the last hold if its release is not confirmed.
    pub hold: Option<u64>,
    /// Whether the contender was notified during this hold that its session had ended.
    pub lost: bool,
    pub token: Option<i64>,
    pub asked: Option<CalledAcquire>,
    /// Line of the last unsuccessful release's answer, if the answer was `fail`.
    pub failed: Option<LinePosition>,
    /// Newest token that the resource had accepted when the pending write was called.
    pub writing: Option<Option<Newest>>,
}

#[derive(Debug)]
pub struct HistoryContender {
    pub process: usize,
    pub number: u64,
    pub state: SessionState,
    pub told: Option<LinePosition>,
    /// Hash of the session's id, used only for comparisons.
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
    /// Session states reported for each process, for its contenders that have no event yet.
    news: HashMap<usize, Vec<SessionNews>>,
}

/// State of a session, or of all sessions of a process.
#[derive(Debug, Clone, Copy)]
pub struct SessionNews {
    pub session: Option<u64>,
    pub state: SessionState,
    pub told: LinePosition,
}

impl Contenders {
    /// Returns a contender's index in `all`, and adds the contender if it is new.
    pub fn of(&mut self, process: usize, number: u64, session: Option<&str>) -> usize {
        *self.numbers.entry((process, number)).or_insert_with(|| {
            let session = session.map(session_number);
            let may = |news: &&SessionNews| session.is_none() || session == news.session;
            let known = self.news.get(&process).and_then(|news| news.iter().rfind(may));
            let state = known.map_or(SessionState::Connected, |news| news.state);
            let (told, stands) = (known.map(|news| news.told), BTreeMap::new());
            self.all.push(HistoryContender { process, number, state, told, session: None, stands });
            self.all.len() - 1
        })
    }

    /// Keeps the state of a process's session for contenders that have no event yet. A session that has ended is
    /// forgotten.
    pub fn remember(&mut self, process: usize, news: SessionNews) {
        let known = self.news.entry(process).or_default();
        match (news.session, news.state) {
            (Some(_), _) => known.retain(|other| other.session != news.session),
            // Without an ID, the event concerns each session that the process is known to have.
            (None, SessionState::Suspended) => {
                let sharing = self.all.iter().filter(|contender| contender.process == process);
                let shared = sharing.filter_map(|contender| contender.session);
                let named = distinct_sorted(known.iter().filter_map(|other| other.session).chain(shared));
                known.clear();
                known.extend(named.into_iter().map(|session| SessionNews { session: Some(session), ..news }));
            }
            (None, _) => known.clear(),
        }
        let changes = match news.state {
            SessionState::Connected => !known.is_empty(),
            SessionState::Suspended => true,
            SessionState::Expired => false,
        };
        known.extend(changes.then_some(news));
    }

    /// Contenders of a process that may use the session.
    pub fn sharing(&self, process: usize, session: Option<u64>) -> Vec<usize> {
        let may = |contender: &HistoryContender| {
            contender.process == process
                && (session.is_none() || contender.session.is_none() || session == contender.session)
        };
        (0..self.all.len()).filter(|which| may(&self.all[*which])).collect()
    }
}

/// Hash of a session id: a hexadecimal number with `0x`, a decimal number, or any other text. The case of letters
/// is ignored.
pub fn session_number(session: &str) -> u64 {
    let hex = session.strip_prefix("0x").or_else(|| session.strip_prefix("0X"));
    let number = match hex {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => session.parse().or_else(|_| session.parse().map(i64::cast_unsigned)).ok(),
    };
    let mut hasher = DefaultHasher::new();
    number.ok_or_else(|| session.to_lowercase()).hash(&mut hasher);
    hasher.finish()
}

worded! {
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum At by doing {
        #[default]
        Outside = "does not hold the lock",
        Asking = "is still requesting the lock",
        Inside = "holds the lock",
        AskingAgain = "holds the lock and is requesting it again",
        /// The contender is releasing a nested acquire and still holds the lock.
        Easing = "is releasing one of several acquires",
        /// The release has not returned yet.
        Leaving = "is releasing the lock",
        /// The release returned without a definite success.
        NotLet = "tried to release the lock without success",
        /// The acquire returned with an unknown result.
        Maybe = "may or may not hold the lock",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockTurn {
    Asks,
    Enters,
    Refused,
    /// The outcome of the acquire is unknown.
    MayEnter,
    /// The contender calls release and no longer considers itself inside.
    Leaves,
    Left(Step),
    /// A nested acquire or release, which does not affect other contenders.
    Nested,
}

/// State of a contender after an acquire event, and the event's meaning.
pub fn turn_of_acquire(at: At, step: Step, again: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Outside | NotLet | Maybe, Step::Invoke) if !again => (Asking, LockTurn::Asks),
        (Inside, Step::Invoke) if again => (AskingAgain, LockTurn::Nested),
        (Asking, Step::Ok) => (Inside, LockTurn::Enters),
        (Asking, Step::Fail) => (Outside, LockTurn::Refused),
        (Asking, Step::Unknown) => (Maybe, LockTurn::MayEnter),
        (AskingAgain, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (_, Step::Invoke) => return Err(format!("acquire was called by a contender that {}", at.doing())),
        _ => return Err(format!("acquire ended, but none was in progress: the contender {}", at.doing())),
    })
}

/// State of a contender after a release event, and the event's meaning. `last` means that no nested acquire
/// remains.
pub fn turn_of_release(at: At, step: Step, last: bool) -> Result<(At, LockTurn), String> {
    use At::*;
    Ok(match (at, step) {
        (Inside, Step::Invoke) if !last => (Easing, LockTurn::Nested),
        (Inside | NotLet | Maybe, Step::Invoke) => (Leaving, LockTurn::Leaves),
        (Easing, Step::Ok | Step::Fail | Step::Unknown) => (Inside, LockTurn::Nested),
        (Leaving, Step::Ok) => (Outside, LockTurn::Left(Step::Ok)),
        (Leaving, Step::Fail | Step::Unknown) => (NotLet, LockTurn::Left(step)),
        (_, Step::Invoke) => return Err(format!("release was called by a contender that {}", at.doing())),
        _ => return Err(format!("release ended, but none was in progress: the contender {}", at.doing())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_session_ids_are_compared_as_numbers() {
        let is_same = |other: &str| session_number("0x1000A") == session_number(other);
        assert_eq!(["0x1000a", "0X1000a", "65546", "0x01000a"].map(is_same), [true; 4]);
        assert_eq!(["1000A", "0x1000b", "65547"].map(is_same), [false; 3]);
        assert_eq!(session_number("0xffffffffffffffff"), session_number("-1"));
        assert_eq!(session_number("Session-A"), session_number("session-a"));
    }

    #[test]
    fn suspension_of_an_unnamed_session_does_not_affect_new_contenders_with_a_named_session() {
        let mut contenders = Contenders::default();
        let told = LinePosition::default();
        contenders.remember(0, SessionNews { session: None, state: SessionState::Suspended, told });
        let states = [(1, None), (2, Some("0x7"))].map(|(number, session)| {
            let who = contenders.of(0, number, session);
            contenders.all[who].state
        });
        assert_eq!(states, [SessionState::Suspended, SessionState::Connected]);
    }

    #[test]
    fn suspension_of_an_unnamed_session_affects_each_known_session_of_the_process() {
        let mut contenders = Contenders::default();
        let told = LinePosition::default();
        for session in [Some(session_number("0x7")), None] {
            contenders.remember(0, SessionNews { session, state: SessionState::Suspended, told });
        }
        let first = contenders.of(0, 1, Some("0x7"));
        assert_eq!(contenders.all[first].state, SessionState::Suspended);
    }

    #[test]
    fn only_suspended_sessions_are_remembered_for_new_contenders() {
        let mut contenders = Contenders::default();
        let mut told = |session, state| {
            contenders.remember(0, SessionNews { session, state, told: LinePosition::default() });
            contenders.news[&0].len()
        };
        assert_eq!(told(Some(1), SessionState::Connected), 0);
        assert_eq!(told(Some(1), SessionState::Suspended), 1);
        assert_eq!(told(Some(2), SessionState::Suspended), 2);
        assert_eq!(told(Some(1), SessionState::Expired), 1);
        assert_eq!(told(None, SessionState::Suspended), 2, "session 2 is suspended like the others");
        assert_eq!(told(Some(2), SessionState::Connected), 2, "session 2 is connected again, others are not");
        assert_eq!(told(None, SessionState::Connected), 0);
    }
}
