//! Connection settings, their combination for one connection, and messages to drop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::protocol::ClientRequest;
use super::traffic::Direction;
use zklockbench_core::measure::RequestKind;

/// Maximum delay: longer than any trial, but within the clock's range.
const AGES: Duration = Duration::from_secs(365 * 24 * 3600);

/// Target of a setting, which applies to existing and new connections.
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
    /// Returns whether the target includes this client's connections; `None` stands for the shared listeners.
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
    /// Minimum delay in each direction.
    pub latency: Duration,
    /// Maximum additional random delay.
    pub extra: Duration,
    pub seed: u64,
    /// Only direction that is delayed; `None` for both directions.
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
    /// All delays, which add up.
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
    /// Looks to each side as if the other side had closed the connection.
    Cut,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Orders {
    pub settings: Arc<Settings>,
    pub ending: Option<ConnectionEnd>,
}

impl Orders {
    /// Returns how the connection must end; `None` if it may continue.
    pub fn ending(&self) -> Option<ConnectionEnd> {
        self.ending.or(self.settings.refused.then_some(ConnectionEnd::Reset))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPart {
    /// The request itself, which never reaches a server.
    Request,
    /// The reply to an executed request. Refusals are passed on.
    Reply,
}

/// A request that was dropped, or whose reply was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    pub request: ClientRequest,
    /// Zxid in the lost reply's header; 0 if the request itself was lost.
    pub zxid: i64,
}

/// A loss that waits for a matching request.
#[derive(Debug)]
pub struct Armed {
    pub who: Who,
    pub part: LostPart,
    pub kinds: Vec<RequestKind>,
    /// Reports the loss. A cancelled loss has no receiver.
    pub told: watch::Sender<Option<Struck>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_add_up_and_the_strictest_other_setting_applies() {
        let delay = Delay { latency: Duration::from_millis(5), extra: Duration::ZERO, seed: 1, only: None };
        let settings =
            [Setting::Delay(delay), Setting::Bandwidth(10), Setting::Bandwidth(20), Setting::Delay(delay)];
        let expected = Settings { delays: vec![delay; 2], bandwidth: Some(10), ..Settings::default() };
        assert_eq!(Settings::of(settings.into_iter()), expected);
        assert!(Settings::of([Setting::Stall].into_iter()).stalled);
        assert!(Settings::of([Setting::Refuse].into_iter()).refused);
    }
}
