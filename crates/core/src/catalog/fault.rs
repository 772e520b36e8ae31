//! Static descriptions of faults.
//!
//! The registry in `zklockbench-ensemble` builds these cards. The scenario reader checks each `[[fault]]`
//! against them, and the documentation is generated from them.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Param, ParamValue, Params};
use crate::units::{as_us, as_us_if_any, counted, format_duration};
use crate::worded;

/// Static facts about a fault.
#[derive(Debug, Clone, Copy)]
pub struct FaultCard {
    /// Kind used in scenario files and all output.
    pub name: &'static str,
    pub summary: &'static str,
    /// Origin of the idea: tool, article or manual.
    pub source: &'static str,
    /// Mechanism, proof of effect, end of the fault, and how a correct lock behaves during the fault.
    pub details: &'static str,
    pub targets: Targets,
    /// Words from [`Targets::words`] that this fault does not accept.
    pub refuses: &'static [&'static str],
    /// Word of the default target; empty for [`Targets::Fixed`].
    pub default_target: &'static str,
    pub ends: Ends,
    /// Capability that the fault requires of the ensemble or the suite.
    pub needs: Capability,
    /// Whether the proxy must parse the requests; if so, the fault cannot be combined with TLS.
    pub reads_requests: bool,
    pub least_servers: usize,
    /// Whether all servers stop serving; if so, sessions with a timeout shorter than the fault may expire.
    pub stops_service: bool,
    /// Scenario key that the fault requires, e.g. `acquire_timeout`.
    pub needs_key: Option<&'static str>,
    pub params: &'static [Param],
}

impl FaultCard {
    /// Defaults for faults that hit contenders.
    pub const CONTENDERS: Self = Self {
        name: "",
        summary: "",
        source: "",
        details: "",
        targets: Targets::Contenders,
        refuses: &[],
        default_target: "holder",
        ends: Ends::ByItself,
        needs: Capability::Contenders,
        reads_requests: false,
        least_servers: 1,
        stops_service: false,
        needs_key: None,
        params: &[],
    };

    /// Defaults for faults that hit connections between contenders and servers.
    pub const CONNECTIONS: Self = Self { ends: Ends::Healed, needs: Capability::Proxies, ..Self::CONTENDERS };

    /// Defaults for faults that hit servers.
    pub const SERVERS: Self = Self {
        targets: Targets::Servers,
        default_target: "leader",
        ends: Ends::Healed,
        needs: Capability::Processes,
        ..Self::CONTENDERS
    };

    /// Defaults for faults with a fixed choice of servers.
    pub const FIXED: Self = Self { targets: Targets::Fixed, default_target: "", ..Self::SERVERS };

    pub fn words(&self) -> Vec<&'static str> {
        self.targets.words().iter().copied().filter(|word| !self.refuses.contains(word)).collect()
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Targets by noun {
        /// Servers: `leader`, `follower`, `any`, `all`, or a server's number.
        Servers = "servers",
        /// Contenders: `holder`, `waiter`, `any`, `all`, or a contender's number.
        Contenders = "contenders",
        Fixed = "a fixed choice of servers",
    }
}

impl Targets {
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Servers => &["leader", "follower", "any", "all"],
            Self::Contenders => &["holder", "waiter", "any", "all"],
            Self::Fixed => &[],
        }
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Ends by in_words {
        /// The suite heals the fault after its `duration`.
        Healed = "healed after its duration",
        /// The fault needs no healing and takes no `duration`.
        ByItself = "by itself",
    }
}

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Capability by in_words {
        /// Kill, start and pause servers: requires an ensemble that the suite started.
        Processes = "servers that the suite starts",
        /// Isolate a server: requires servers in their own network namespaces or in containers.
        Isolation = "servers that the suite starts, each in a network namespace or a container",
        /// Drop traffic between two servers: requires servers in their own network namespaces.
        Links = "servers that the suite starts, each in a network namespace",
        /// Intercept traffic between contenders and servers: requires the suite's proxies.
        Proxies = "proxies in front of the servers",
        Contenders = "nothing",
    }
}

impl Capability {
    /// Whether the fault manipulates servers. By default, this is allowed only if the suite started them.
    pub fn reaches_servers(self) -> bool {
        matches!(self, Self::Processes | Self::Isolation | Self::Links)
    }
}

/// Target of a fault, as specified in a scenario. Words are resolved each time the fault fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// A word from [`Targets::words`].
    Word(&'static str),
    /// A server by its number, counted from 1.
    Server(usize),
    /// A contender by its number, counted from 0.
    Contender(usize),
    /// See [`Targets::Fixed`].
    Fixed,
}

/// Target as read from a file, before its word is validated.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadTarget {
    Word(String),
    Server(usize),
    Contender(usize),
    Fixed,
}

// A derived implementation would require a `&'static str` from the input.
impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match ReadTarget::deserialize(deserializer)? {
            ReadTarget::Word(read) => {
                let words = [Targets::Servers, Targets::Contenders].map(Targets::words).concat();
                let known = words.into_iter().find(|word| *word == read);
                let unknown = || serde::de::Error::custom(format!("no fault has the target `{read}`"));
                Self::Word(known.ok_or_else(unknown)?)
            }
            ReadTarget::Server(number) => Self::Server(number),
            ReadTarget::Contender(number) => Self::Contender(number),
            ReadTarget::Fixed => Self::Fixed,
        })
    }
}

impl fmt::Display for Target {
    /// Formats the target for labels; empty for [`Target::Fixed`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Server(number) => write!(f, "server {number}"),
            Self::Contender(number) => write!(f, "contender {number}"),
            Self::Fixed => Ok(()),
        }
    }
}

/// When a fault first fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Time since the start of the measured phase.
    #[serde(rename = "at_us", with = "as_us")]
    #[schemars(with = "u64")]
    At(Duration),
    /// Number of acquisitions in the measured phase.
    AfterAcquisitions(u64),
}

/// One `[[fault]]` of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultChoice {
    /// Name of the fault in the catalog.
    pub kind: String,
    /// Target of the fault.
    pub target: Target,
    /// When the fault first fires.
    pub start: Start,
    /// Duration of the fault; `None` if it ends by itself.
    #[serde(rename = "duration_us", with = "as_us_if_any")]
    #[schemars(with = "Option<u64>")]
    pub duration: Option<Duration>,
    /// Number of times the fault fires.
    pub times: u32,
    /// Time from one start to the next; zero if the fault fires once.
    #[serde(rename = "every_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub every: Duration,
    /// Maximum random delay of each start.
    #[serde(rename = "jitter_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub jitter: Duration,
    /// Effective parameters.
    pub params: Params,
    /// Kind, target and the scenario's settings as written, e.g. `kill leader`, `delay any latency=20ms`.
    pub label: String,
}

impl FaultChoice {
    /// Returns the value of a duration parameter; zero if the parameter is not set.
    pub fn time(&self, param: &str) -> Duration {
        if let Some(ParamValue::Duration(time)) = self.params.get(param) { *time } else { Duration::ZERO }
    }

    /// Returns the value of a count parameter; 0 if the parameter is not set.
    pub fn count(&self, param: &str) -> u64 {
        if let Some(ParamValue::Count(count)) = self.params.get(param) { *count } else { 0 }
    }

    /// Returns the value of a word parameter; empty if the parameter is not set.
    pub fn word(&self, param: &str) -> &str {
        if let Some(ParamValue::Word(word)) = self.params.get(param) { word } else { "" }
    }

    /// Returns the latest time at which the fault may end, relative to the start of the measured phase. `None`
    /// if the start depends on acquisitions.
    pub fn ends_at(&self) -> Option<Duration> {
        let Start::At(at) = self.start else { return None };
        let last = self.every.saturating_mul(self.times.saturating_sub(1));
        let times = [last, self.jitter, self.duration.unwrap_or_default()];
        Some(times.into_iter().fold(at, Duration::saturating_add))
    }

    /// Describes the schedule of the fault: `at 5 s for 3 s, 2 times, every 10 s`.
    pub fn when(&self) -> String {
        let mut text = match self.start {
            Start::At(at) => format!("at {}", format_duration(at)),
            Start::AfterAcquisitions(count) => {
                format!("after {}", counted(count, "acquisition", "acquisitions"))
            }
        };
        if let Some(duration) = self.duration {
            text += &format!(" for {}", format_duration(duration));
        }
        if self.times > 1 {
            text += &format!(", {} times, every {}", self.times, format_duration(self.every));
        }
        if !self.jitter.is_zero() {
            text += &format!(", delayed by up to {} at random", format_duration(self.jitter));
        }
        text
    }
}

/// Whether a fault had its intended effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    Proved(String),
    /// No effect was observed, for the given reason. The trial's results cannot be attributed to the fault.
    NotProved(String),
}
