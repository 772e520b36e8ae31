//! What a lock does after what may happen to a contender: the table under each card, which a test compares with what it did.

/// What may happen to a contender that acquires and releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    CreateReplyLost,
    CreateRequestLost,
    CreatesExhausted,
    ListReplyLost,
    WatchReplyLost,
    DeleteReplyLost,
    DeleteRequestLost,
    SessionMoved,
    SessionExpired,
    TimedOut,
    TimedOutInBackOff,
    OwnNodeDeleted,
    ForeignChild,
    NoDirectory,
    DirectoryDeleted,
}

impl Event {
    /// In the order of their declaration.
    pub const ALL: [Self; 15] = [
        Self::CreateReplyLost,
        Self::CreateRequestLost,
        Self::CreatesExhausted,
        Self::ListReplyLost,
        Self::WatchReplyLost,
        Self::DeleteReplyLost,
        Self::DeleteRequestLost,
        Self::SessionMoved,
        Self::SessionExpired,
        Self::TimedOut,
        Self::TimedOutInBackOff,
        Self::OwnNodeDeleted,
        Self::ForeignChild,
        Self::NoDirectory,
        Self::DirectoryDeleted,
    ];

    pub fn name(self) -> &'static str {
        self.in_words()[0]
    }

    pub fn meaning(self) -> &'static str {
        self.in_words()[1]
    }

    fn in_words(self) -> [&'static str; 2] {
        match self {
            Self::CreateReplyLost => [
                "create's reply lost",
                "The request that makes its node is carried out, and the connection breaks before the answer comes.",
            ],
            Self::CreateRequestLost => {
                ["create's request lost", "The connection breaks before that request reaches the server."]
            }
            Self::CreatesExhausted => [
                "creates exhausted",
                "That request is lost as often as the lock sends it, of the last one only the reply. The number says how \
                 often that is; without one, the lock never gives up, and three are lost.",
            ],
            Self::ListReplyLost => [
                "list's reply lost",
                "The reply to its first list after that is lost. Another holds the lock, and a stranger's node is in \
                 the directory.",
            ],
            Self::WatchReplyLost => [
                "watch's reply lost",
                "The reply to the first request that sets a watch is lost, while another holds the lock.",
            ],
            Self::DeleteReplyLost => [
                "delete's reply lost",
                "The request by which it releases is carried out, and its reply is lost.",
            ],
            Self::DeleteRequestLost => ["delete's request lost", "That request does not reach the server."],
            Self::SessionMoved => [
                "session moved",
                "The connection of a waiter breaks, and the next one is to another server, if there is one.",
            ],
            Self::SessionExpired => ["session expired", "The session of a waiter ends."],
            Self::TimedOut => ["timed out", "The patience of a waiter ends."],
            Self::TimedOutInBackOff => [
                "timed out in back-off",
                "As list's reply lost, and the patience ends before the pause that follows, if one does.",
            ],
            Self::OwnNodeDeleted => ["own node deleted", "Another client deletes the nodes of a waiter."],
            Self::ForeignChild => ["foreign child", "The directory has a node that is not in the queue."],
            Self::NoDirectory => ["no directory", "The lock's directory is missing when it comes."],
            Self::DirectoryDeleted => [
                "directory deleted",
                "Another client deletes the lock's directory with its contents, while one contender holds and one waits.",
            ],
        }
    }

    /// Whether it happens to a release; all others happen to an acquire.
    fn is_of_release(self) -> bool {
        matches!(self, Self::DeleteReplyLost | Self::DeleteRequestLost)
    }
}

/// What an acquire comes to, or a release. Nodes that are left go with the session, which its user ends then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// That can't happen to this lock.
    Never,
    /// It gets the lock, or has released it.
    GoesOn,
    /// It gets the lock, and has no node.
    WithoutNode,
    /// None of its nodes is left.
    Fails(FailedWith),
    FailsAndLeaves(FailedWith),
    /// None of its nodes is left.
    TimesOut,
    TimesOutAndLeaves,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedWith {
    ConnectionLoss,
    SessionExpired,
    NoNode,
    OwnNodeMissing,
}

impl FailedWith {
    /// As the session calls it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::ConnectionLoss => "connection loss",
            Self::SessionExpired => "session expired",
            Self::NoNode => "no node",
            Self::OwnNodeMissing => "own node missing",
        }
    }
}

impl Outcome {
    pub fn in_words(self, event: Event) -> String {
        let is_of_release = event.is_of_release();
        const GONE: &str = "none of its nodes is left";
        const LEFT: &str = "its node is left until its session ends";
        let words = match self {
            Self::Never => "does not happen".into(),
            Self::GoesOn if is_of_release => "succeeds".into(),
            Self::GoesOn => "gets the lock".into(),
            Self::WithoutNode => {
                "gets the lock without a node, so the next to come may be let in as well".into()
            }
            Self::Fails(with) => format!("fails: {}; {GONE}", with.in_words()),
            Self::FailsAndLeaves(with) => format!("fails: {}; {LEFT}", with.in_words()),
            Self::TimesOut => format!("times out; {GONE}"),
            Self::TimesOutAndLeaves => format!("times out; {LEFT}"),
        };
        if is_of_release { format!("the release {words}") } else { words }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct After {
    /// Which parameter has to be set; `None` for the lock as it is by default.
    pub with: Option<Set>,
    /// How many creates are lost one after the other before it gives up; `None` where it goes on for as long as it may.
    pub creates: Option<u32>,
    outcomes: [Outcome; Event::ALL.len()],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Set {
    pub param: &'static str,
    pub word: &'static str,
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = \"{}\"", self.param, self.word)
    }
}

/// A row of the table under a card.
#[derive(Debug, PartialEq, Eq)]
pub struct Comes {
    /// After these, as a list in words.
    pub after: String,
    pub it: String,
}

impl After {
    pub const NOTHING: Self =
        Self { with: None, creates: None, outcomes: [Outcome::Never; Event::ALL.len()] };

    #[must_use]
    pub const fn but<const COUNT: usize>(mut self, others: [(Event, Outcome); COUNT]) -> Self {
        let mut at = 0;
        while at < COUNT {
            let (event, outcome) = others[at];
            self.outcomes[event as usize] = outcome;
            at += 1;
        }
        self
    }

    #[must_use]
    pub const fn trying_creates(self, creates: Option<u32>) -> Self {
        Self { creates, ..self }
    }

    #[must_use]
    pub const fn with(self, param: &'static str, word: &'static str) -> Self {
        Self { with: Some(Set { param, word }), ..self }
    }

    pub fn outcome(&self, event: Event) -> Outcome {
        self.outcomes[event as usize]
    }

    /// A row for each outcome, with the events that come to it; of a lock with a parameter that is set, only what is otherwise
    /// than by default.
    pub fn rows(&self, by_default: &Self) -> Vec<Comes> {
        let is_told = |event: &Event| match self.with {
            None => self.outcome(*event) != Outcome::Never,
            Some(_) => {
                self.outcome(*event) != by_default.outcome(*event)
                    || *event == Event::CreatesExhausted && self.creates != by_default.creates
            }
        };
        let mut rows: Vec<Comes> = Vec::new();
        for event in Event::ALL.into_iter().filter(is_told) {
            let (after, it) = (self.named(event), self.outcome(event).in_words(event));
            match rows.iter_mut().find(|row| row.it == it) {
                Some(row) => row.after += &format!(", {after}"),
                None => rows.push(Comes { after, it }),
            }
        }
        rows
    }

    fn named(&self, event: Event) -> String {
        match (event, self.creates) {
            (Event::CreatesExhausted, Some(creates)) => format!("{} ({creates})", event.name()),
            _ => event.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_stand_in_their_places() {
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place, "{}", event.name());
        }
    }

    #[test]
    fn events_with_one_outcome_share_a_row_and_what_cannot_happen_has_none() {
        let after = After::NOTHING
            .but([
                (Event::CreateReplyLost, Outcome::GoesOn),
                (Event::CreatesExhausted, Outcome::Fails(FailedWith::ConnectionLoss)),
                (Event::DeleteReplyLost, Outcome::GoesOn),
                (Event::ForeignChild, Outcome::GoesOn),
            ])
            .trying_creates(Some(3));
        let row = |after: &str, it: &str| Comes { after: after.into(), it: it.into() };
        let rows = [
            row("create's reply lost, foreign child", "gets the lock"),
            row("creates exhausted (3)", "fails: connection loss; none of its nodes is left"),
            row("delete's reply lost", "the release succeeds"),
        ];
        assert_eq!(after.rows(&after), rows);
    }

    #[test]
    fn of_a_lock_with_a_parameter_only_differences_are_told() {
        let by_default = After::NOTHING.but([(Event::ForeignChild, Outcome::GoesOn)]);
        let other = by_default.but([(Event::NoDirectory, Outcome::WithoutNode)]).with("join", "count");
        let rows = other.rows(&by_default);
        assert_eq!(rows.iter().map(|row| row.after.as_str()).collect::<Vec<_>>(), ["no directory"]);
    }
}
