//! How a lock reacts to events that can hit a contender: the table that `strategies NAME` and the documentation
//! show below each lock's card. A test compares the table with observed behaviour.

use crate::worded;

worded! {
    /// An event that can hit a contender while it acquires or releases the lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Event by name {
        CreateReplyLost = "create's reply lost",
        CreateRequestLost = "create's request lost",
        CreatesExhausted = "creates exhausted",
        ListReplyLost = "list's reply lost",
        WatchReplyLost = "watch's reply lost",
        DeleteReplyLost = "delete's reply lost",
        DeleteRequestLost = "delete's request lost",
        SessionMoved = "session moved",
        SessionExpired = "session expired",
        TimedOut = "timed out",
        TimedOutInBackOff = "timed out in back-off",
        OwnNodeDeleted = "own node deleted",
        ForeignChild = "foreign child",
        NoDirectory = "no directory",
        DirectoryDeleted = "directory deleted",
    }
}

impl Event {
    pub fn meaning(self) -> &'static str {
        match self {
            Self::CreateReplyLost => {
                "The server creates the contender's node, but the connection breaks before the reply \
                 arrives."
            }
            Self::CreateRequestLost => "The connection breaks before the create reaches the server.",
            Self::CreatesExhausted => {
                "Every create attempt fails: the last attempt loses its reply, the others lose their \
                 request. The number in parentheses is the lock's number of attempts. If there is no number, \
                 the lock never gives up, and three attempts fail."
            }
            Self::ListReplyLost => {
                "The reply to the first list after the create is lost. Another contender holds the lock, and \
                 the directory contains another program's node."
            }
            Self::WatchReplyLost => {
                "The reply to the first request that sets a watch is lost, while another contender holds \
                 the lock."
            }
            Self::DeleteReplyLost => "The request that releases the lock is executed, but its reply is lost.",
            Self::DeleteRequestLost => "The request that releases the lock does not reach the server.",
            Self::SessionMoved => {
                "A waiter's connection breaks. The waiter reconnects, to another server if there is one."
            }
            Self::SessionExpired => "A waiter's session expires.",
            Self::TimedOut => "A waiter times out.",
            Self::TimedOutInBackOff => {
                "Like `list's reply lost`, but the acquire times out during the pause that may follow."
            }
            Self::OwnNodeDeleted => "Another client deletes a waiter's nodes.",
            Self::ForeignChild => "The directory contains a node that does not belong to the queue.",
            Self::NoDirectory => "The lock's directory is missing when a contender arrives.",
            Self::DirectoryDeleted => {
                "Another client deletes the lock's directory while one contender holds the lock and another waits."
            }
        }
    }

    /// Returns whether the event hits a release; all other events hit an acquire.
    fn is_of_release(self) -> bool {
        matches!(self, Self::DeleteReplyLost | Self::DeleteRequestLost)
    }
}

/// How an acquire or a release ends. Nodes left behind disappear when the contender closes its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The event cannot happen to this lock.
    Never,
    /// The acquire or release succeeds.
    GoesOn,
    /// The acquire succeeds, but the contender has no node.
    WithoutNode,
    /// The call fails and leaves no node.
    Fails(FailedWith),
    FailsAndLeaves(FailedWith),
    /// The acquire times out and leaves no node.
    TimesOut,
    TimesOutAndLeaves,
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum FailedWith by in_words {
        ConnectionLoss = "connection loss",
        SessionExpired = "session expired",
        NoNode = "no node",
        OwnNodeMissing = "own node missing",
    }
}

impl Outcome {
    pub fn in_words(self, event: Event) -> String {
        let is_of_release = event.is_of_release();
        const GONE: &str = "no node remains";
        const LEFT: &str = "its node remains until the session ends";
        let words = match self {
            Self::Never => "does not happen".into(),
            Self::GoesOn if is_of_release => "succeeds".into(),
            Self::GoesOn => "gets the lock".into(),
            Self::WithoutNode => "gets the lock without a node, so the next contender may get it, too".into(),
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
    /// Parameter setting that these reactions require; `None` for the defaults.
    pub with: Option<Set>,
    /// Number of lost creates after which the lock gives up; `None` if the lock never gives up.
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

/// A row of the table below a lock's card.
#[derive(Debug, PartialEq, Eq)]
pub struct Comes {
    /// Names of the events, separated by commas.
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

    /// Returns one row per outcome, with its events. If these reactions require a parameter setting, returns
    /// only differences from `by_default`.
    pub fn rows(&self, by_default: &Self) -> Vec<Comes> {
        let is_listed = |event: &Event| match self.with {
            None => self.outcome(*event) != Outcome::Never,
            Some(_) => {
                self.outcome(*event) != by_default.outcome(*event)
                    || *event == Event::CreatesExhausted && self.creates != by_default.creates
            }
        };
        let mut rows: Vec<Comes> = Vec::new();
        for event in Event::ALL.into_iter().filter(is_listed) {
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
    fn event_list_is_in_declaration_order() {
        for (place, event) in Event::ALL.into_iter().enumerate() {
            assert_eq!(event as usize, place, "{}", event.name());
        }
    }

    #[test]
    fn events_with_the_same_outcome_share_a_row_and_impossible_events_have_none() {
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
            row("creates exhausted (3)", "fails: connection loss; no node remains"),
            row("delete's reply lost", "the release succeeds"),
        ];
        assert_eq!(after.rows(&after), rows);
    }

    #[test]
    fn rows_for_a_parameter_show_only_differences_from_the_defaults() {
        let by_default = After::NOTHING.but([(Event::ForeignChild, Outcome::GoesOn)]);
        let other = by_default.but([(Event::NoDirectory, Outcome::WithoutNode)]).with("join", "count");
        let rows = other.rows(&by_default);
        assert_eq!(rows.iter().map(|row| row.after.as_str()).collect::<Vec<_>>(), ["no directory"]);
    }
}
