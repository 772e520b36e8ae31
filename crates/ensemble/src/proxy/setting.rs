//! Settings of connections, the combination of several settings for one connection, and the requests and
//! replies that must be lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::ClientRequest;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::RequestKind;

/// Longer than any trial; without a limit, a time could be too far ahead for the clock.
const AGES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Target of a setting: existing connections and new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// All connections, also those without a session.
    All,
    /// Connections of the client with this number, whatever its session; see [`Proxy::connect_for`].
    ///
    /// [`Proxy::connect_for`]: super::Proxy::connect_for
    Client(usize),
    /// Connections of this session, however often it reconnects, but not of the client's next session.
    Session(i64),
}

/// Owner of a connection, as far as known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner {
    /// Client of the listener; known from the first byte on.
    pub client: Option<usize>,
    /// Session that the connect request named or the server granted.
    pub session: Option<i64>,
}

impl Who {
    /// Owner of a connection that only this target covers.
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

/// Additional time in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// Least delay, in each direction.
    pub latency: Duration,
    /// Upper bound of an additional random delay.
    pub extra: Duration,
    pub seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Delay(Delay),
    /// Bytes per second in each direction of each connection.
    Bandwidth(u64),
    Stall,
    Refuse,
    /// Time by which data from the server are read late.
    SlowReader(Duration),
}

/// Combination of all settings for one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Delays, which add up.
    pub delays: Vec<Delay>,
    /// Lowest limit, in bytes per second.
    pub bandwidth: Option<u64>,
    pub stalled: bool,
    pub refused: bool,
    /// Longest time by which data from the server are read late.
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
    /// Both sides see the other one close the connection.
    Cut,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    pub settings: Arc<Settings>,
    pub ending: Option<ConnectionEnd>,
}

impl Orders {
    /// How the connection must end, if it must.
    pub fn ending(&self) -> Option<ConnectionEnd> {
        self.ending.or(self.settings.refused.then_some(ConnectionEnd::Reset))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPart {
    /// The request itself, which no server sees.
    Request,
    /// The reply to a request that was carried out. Refusals are passed on.
    Reply,
}

/// A request that never reached its server, or whose reply never reached the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    pub request: ClientRequest,
    /// Zxid in the lost reply's header; 0 if the request itself was lost.
    pub zxid: i64,
    /// Time of the loss, on the process's clock.
    pub at: Stamp,
}

impl Struck {
    pub fn now(request: ClientRequest, zxid: i64) -> Self {
        Self { request, zxid, at: clock::now() }
    }
}

#[derive(Debug)]
struct Armed {
    who: Who,
    part: LostPart,
    kinds: Vec<RequestKind>,
    /// Connection on which a matching request was found.
    found_on: Option<u64>,
    told: watch::Sender<Option<Struck>>,
}

/// Pending losses by number: the requests they wait for, and where to report them.
#[derive(Debug, Default)]
pub struct Losses(BTreeMap<u64, Armed>);

impl Losses {
    pub fn arm(
        &mut self,
        number: u64,
        who: Who,
        part: LostPart,
        kinds: &[RequestKind],
    ) -> watch::Receiver<Option<Struck>> {
        let (told, hears) = watch::channel(None);
        self.0.insert(number, Armed { who, part, kinds: kinds.to_vec(), found_on: None, told });
        hears
    }

    /// Number and part of the pending loss that matches a request on this connection, if any.
    pub fn find(&mut self, connection: u64, owner: Owner, kind: RequestKind) -> Option<(u64, LostPart)> {
        let is_for = |armed: &Armed| {
            armed.found_on.is_none() && armed.who.covers(owner) && armed.kinds.contains(&kind)
        };
        let (number, armed) = self.0.iter_mut().find(|(_, armed)| is_for(armed))?;
        armed.found_on = Some(connection);
        Some((*number, armed.part))
    }

    /// The server refused the request, so the loss waits for the next one.
    pub fn spare(&mut self, number: u64) {
        if let Some(armed) = self.0.get_mut(&number) {
            armed.found_on = None;
        }
    }

    /// Reports that the request or reply was swallowed.
    pub fn strike(&mut self, number: u64, struck: Struck) {
        if let Some(armed) = self.0.remove(&number) {
            armed.told.send_replace(Some(struck));
        }
    }

    /// The connection is gone: a loss that was found on it waits for another request.
    pub fn gone(&mut self, connection: u64) {
        for armed in self.0.values_mut().filter(|armed| armed.found_on == Some(connection)) {
            armed.found_on = None;
        }
    }

    pub fn disarm(&mut self, number: u64) {
        self.0.remove(&number);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up_and_the_worst_of_other_settings_counts() {
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
    fn session_is_covered_once_known_and_client_in_any_session() {
        let owner = |client, session| Owner { client, session };
        assert!(Who::All.covers(Owner::default()) && Who::Session(1).covers(owner(None, Some(1))));
        assert!(!Who::Session(1).covers(owner(Some(1), None)));
        assert!(!Who::Session(1).covers(owner(Some(1), Some(2))));
        assert!(
            [None, Some(1), Some(2)].iter().all(|session| Who::Client(3).covers(owner(Some(3), *session)))
        );
        assert!(!Who::Client(3).covers(owner(None, Some(3))) && !Who::Client(3).covers(owner(Some(4), None)));
    }

    const CREATE: RequestKind = RequestKind::Create;

    fn of(session: i64) -> Owner {
        Owner { client: None, session: Some(session) }
    }

    fn struck() -> Struck {
        let request = ClientRequest { xid: 1, opcode: 1, kind: CREATE, path: "/a".into() };
        Struck::now(request, 5)
    }

    #[test]
    fn loss_matches_one_request_of_its_session_and_kind() {
        let mut losses = Losses::default();
        let told = losses.arm(1, Who::Session(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, of(11), CREATE), None);
        assert_eq!(losses.find(1, of(10), RequestKind::Delete), None);
        assert_eq!(losses.find(1, of(10), CREATE), Some((1, LostPart::Reply)));
        assert_eq!(losses.find(1, of(10), CREATE), None);
        assert!(told.borrow().is_none());
        losses.strike(1, struck());
        assert_eq!(told.borrow().as_ref().map(|struck| struck.zxid), Some(5));
        assert_eq!(losses.len(), 0);
    }

    #[test]
    fn broken_connection_leaves_the_loss_to_the_next() {
        let mut losses = Losses::default();
        let _told = losses.arm(1, Who::Session(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, of(10), CREATE), Some((1, LostPart::Reply)));
        losses.gone(2);
        assert_eq!(losses.find(2, of(10), CREATE), None);
        losses.gone(1);
        assert_eq!(losses.find(2, of(10), CREATE), Some((1, LostPart::Reply)));
        losses.disarm(1);
        losses.strike(1, struck());
        assert_eq!(losses.len(), 0);
    }
}
