//! What is set for connections, and what several settings together mean for one of them while it lives.

use std::sync::Arc;
use std::time::Duration;

/// Longer than any trial. Without a limit a time could lie too far ahead for the clock.
const AGES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Whose connections are meant, those there are and those to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// Everybody's, also those of clients that have no session.
    All,
    /// Those of the client that was given that number, whichever session it has: [`Proxy::connect_for`].
    ///
    /// [`Proxy::connect_for`]: super::Proxy::connect_for
    Client(usize),
    /// Those of the session with that number, however often it connects anew. The client's next session is not meant.
    Session(i64),
}

/// Whose a connection is, as far as that is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner {
    /// The client that the listener is for; known from the first byte on.
    pub client: Option<usize>,
    /// The session that it has named, or that it was granted.
    pub session: Option<i64>,
}

impl Who {
    /// The owner of a connection of theirs alone.
    pub(super) fn owner(self) -> Owner {
        match self {
            Self::All => Owner::default(),
            Self::Client(client) => Owner { client: Some(client), session: None },
            Self::Session(session) => Owner { client: None, session: Some(session) },
        }
    }

    pub fn covers(self, owner: Owner) -> bool {
        match self {
            Self::All => true,
            Self::Client(meant) => owner.client == Some(meant),
            Self::Session(meant) => owner.session == Some(meant),
        }
    }
}

/// How long data are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// At least so long, in each direction.
    pub latency: Duration,
    /// And a random part of this on top.
    pub extra: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Delay(Delay),
    /// So many bytes a second in each direction of each connection.
    Bandwidth(u64),
    Stall,
    Refuse,
    /// What the server sends is read so late.
    SlowReader(Duration),
}

/// What all settings together mean for one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// One after the other: they add up.
    pub delays: Vec<Delay>,
    /// The narrowest, in bytes a second.
    pub bandwidth: Option<u64>,
    pub stalled: bool,
    pub refused: bool,
    /// The longest that a server's data wait to be read.
    pub lag: Option<Duration>,
}

impl Settings {
    pub fn of(settings: impl Iterator<Item = Setting>) -> Self {
        let mut all = Self::default();
        for setting in settings {
            match setting {
                Setting::Delay(Delay { latency, extra, seed }) => {
                    all.delays.push(Delay { latency: latency.min(AGES), extra: extra.min(AGES), seed });
                }
                Setting::Bandwidth(rate) => {
                    all.bandwidth = Some(all.bandwidth.map_or(rate, |other| other.min(rate)));
                }
                Setting::Stall => all.stalled = true,
                Setting::Refuse => all.refused = true,
                Setting::SlowReader(lag) => all.lag = all.lag.max(Some(lag.min(AGES))),
            }
        }
        all
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    Reset,
    /// Both sides see the other close it.
    Cut,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    pub settings: Arc<Settings>,
    pub ending: Option<ConnectionEnd>,
}

impl Orders {
    /// How the connection is to end, if it is.
    pub fn ending(&self) -> Option<ConnectionEnd> {
        self.ending.or(self.settings.refused.then_some(ConnectionEnd::Reset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up_and_of_the_rest_the_worst_counts() {
        let delay = Delay { latency: Duration::from_millis(5), extra: Duration::ZERO, seed: 1 };
        let lag = Duration::from_millis;
        let settings = [
            Setting::Delay(delay),
            Setting::Bandwidth(10),
            Setting::Bandwidth(20),
            Setting::SlowReader(lag(3)),
            Setting::SlowReader(lag(2)),
            Setting::Delay(delay),
        ];
        let expected = Settings {
            delays: vec![delay; 2],
            bandwidth: Some(10),
            lag: Some(lag(3)),
            ..Settings::default()
        };
        assert_eq!(Settings::of(settings.into_iter()), expected);
        assert!(Settings::of([Setting::Stall].into_iter()).stalled);
        assert!(Settings::of([Setting::Refuse].into_iter()).refused);
    }

    #[test]
    fn a_session_is_meant_only_once_it_is_known_and_a_client_whatever_its_session_is() {
        let owner = |client, session| Owner { client, session };
        assert!(Who::All.covers(Owner::default()) && Who::Session(1).covers(owner(None, Some(1))));
        assert!(!Who::Session(1).covers(owner(Some(1), None)));
        assert!(!Who::Session(1).covers(owner(Some(1), Some(2))));
        assert!(
            [None, Some(1), Some(2)].iter().all(|session| Who::Client(3).covers(owner(Some(3), *session)))
        );
        assert!(!Who::Client(3).covers(owner(None, Some(3))) && !Who::Client(3).covers(owner(Some(4), None)));
    }
}
