//! Settings of connections, the combination of several settings for one connection, and the requests and
//! replies that must be lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::ClientRequest;
use super::traffic::Direction;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::RequestKind;

/// Longer than any trial. Without a limit, a time could exceed the clock's range.
const AGES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Target of a setting: existing connections and new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Who {
    /// All connections, including those without a session.
    All,
    /// Connections of the client with this number; see [`Proxy::connect_for`].
    ///
    /// [`Proxy::connect_for`]: super::Proxy::connect_for
    Client(usize),
}

impl Who {
    /// Whether the target includes the connections of this client; `None` for connections through the shared listeners.
    pub fn covers(self, client: Option<usize>) -> bool {
        match self {
            Self::All => true,
            Self::Client(meant) => client == Some(meant),
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
    /// The only direction that is delayed; `None` for both.
    pub only: Option<Direction>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Delay(Delay),
    /// Bytes per second in each direction of each connection.
    Bandwidth(u64),
    Stall,
    Refuse,
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
}

impl Settings {
    pub fn of(settings: impl Iterator<Item = Setting>) -> Self {
        let mut all = Self::default();
        for setting in settings {
            match setting {
                Setting::Delay(delay) => {
                    let (latency, extra) = (delay.latency.min(AGES), delay.extra.min(AGES));
                    all.delays.push(Delay { latency, extra, ..delay });
                }
                Setting::Bandwidth(rate) => {
                    all.bandwidth = Some(all.bandwidth.map_or(rate, |other| other.min(rate)));
                }
                Setting::Stall => all.stalled = true,
                Setting::Refuse => all.refused = true,
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
    /// The reply to an executed request. Refusals are passed on.
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
    pub fn find(
        &mut self,
        connection: u64,
        client: Option<usize>,
        kind: RequestKind,
    ) -> Option<(u64, LostPart)> {
        let is_for = |armed: &Armed| {
            armed.found_on.is_none() && armed.who.covers(client) && armed.kinds.contains(&kind)
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
        let delay = Delay { latency: Duration::from_millis(5), extra: Duration::ZERO, seed: 1, only: None };
        let settings =
            [Setting::Delay(delay), Setting::Bandwidth(10), Setting::Bandwidth(20), Setting::Delay(delay)];
        let expected = Settings { delays: vec![delay; 2], bandwidth: Some(10), ..Settings::default() };
        assert_eq!(Settings::of(settings.into_iter()), expected);
        assert!(Settings::of([Setting::Stall].into_iter()).stalled);
        assert!(Settings::of([Setting::Refuse].into_iter()).refused);
    }

    const CREATE: RequestKind = RequestKind::Create;

    fn struck() -> Struck {
        let request = ClientRequest { xid: 1, opcode: 1, kind: CREATE, path: "/a".into() };
        Struck::now(request, 5)
    }

    #[test]
    fn loss_matches_one_request_of_its_client_and_kind() {
        let mut losses = Losses::default();
        let told = losses.arm(1, Who::Client(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, Some(11), CREATE), None);
        assert_eq!(losses.find(1, Some(10), RequestKind::Delete), None);
        assert_eq!(losses.find(1, Some(10), CREATE), Some((1, LostPart::Reply)));
        assert_eq!(losses.find(1, Some(10), CREATE), None);
        assert!(told.borrow().is_none());
        losses.strike(1, struck());
        assert_eq!(told.borrow().as_ref().map(|struck| struck.zxid), Some(5));
        assert_eq!(losses.len(), 0);
    }

    #[test]
    fn loss_moves_to_the_next_connection_if_the_first_breaks() {
        let mut losses = Losses::default();
        let _told = losses.arm(1, Who::Client(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, Some(10), CREATE), Some((1, LostPart::Reply)));
        losses.gone(2);
        assert_eq!(losses.find(2, Some(10), CREATE), None);
        losses.gone(1);
        assert_eq!(losses.find(2, Some(10), CREATE), Some((1, LostPart::Reply)));
        losses.disarm(1);
        losses.strike(1, struck());
        assert_eq!(losses.len(), 0);
    }
}
