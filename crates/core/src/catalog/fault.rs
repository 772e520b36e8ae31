//! Plain descriptions of faults. No behaviour.
//!
//! The registry in `fault` builds these cards; the scenario reader checks a `[[fault]]` against them, and the
//! documentation is generated from them.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Param, Params};
use crate::units::{as_us, as_us_if_any, counted, format_duration};

/// Everything that is known of a fault before it fires.
#[derive(Debug, Clone, Copy)]
pub struct FaultCard {
    /// The kind used in scenario files and in every output.
    pub name: &'static str,
    pub summary: &'static str,
    /// Where the idea comes from: tool, article or manual.
    pub source: &'static str,
    /// How it is done, how its effect is proved, how it ends, and what a right lock does meanwhile.
    pub details: &'static str,
    pub targets: Targets,
    /// Those of [`Targets::words`] that make no sense for it.
    pub refuses: &'static [&'static str],
    /// The target when the scenario does not say: a word, empty for [`Targets::Fixed`].
    pub default_target: &'static str,
    pub ends: Ends,
    /// What the ensemble or the suite must be able to do for it.
    pub needs: Capability,
    pub least_servers: usize,
    /// No server serves while it lasts, so sessions whose timeout is shorter may end though nothing aims at them.
    pub stops_service: bool,
    /// The key of the scenario without which it has nothing to act on.
    pub needs_key: Option<&'static str>,
    pub params: &'static [Param],
}

impl FaultCard {
    /// What most faults of contenders have in common. A card names only what differs from it.
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
        least_servers: 1,
        stops_service: false,
        needs_key: None,
        params: &[],
    };

    /// What most faults of the connections between contenders and servers have in common.
    pub const CONNECTIONS: Self = Self { ends: Ends::Healed, needs: Capability::Proxies, ..Self::CONTENDERS };

    /// What most faults of servers have in common.
    pub const SERVERS: Self = Self {
        targets: Targets::Servers,
        default_target: "leader",
        ends: Ends::Healed,
        needs: Capability::Processes,
        ..Self::CONTENDERS
    };

    /// What most faults have in common that choose their servers themselves.
    pub const FIXED: Self = Self { targets: Targets::Fixed, default_target: "", ..Self::SERVERS };

    pub fn words(&self) -> Vec<&'static str> {
        self.targets.words().iter().copied().filter(|word| !self.refuses.contains(word)).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// Servers: `leader`, `follower`, `any`, `all`, or one by number.
    Servers,
    /// Contenders: `holder`, `waiter`, `any`, `all`, or one by number.
    Contenders,
    Fixed,
}

impl Targets {
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Self::Servers => &["leader", "follower", "any", "all"],
            Self::Contenders => &["holder", "waiter", "any", "all"],
            Self::Fixed => &[],
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Contenders => "contenders",
            Self::Fixed => "a fixed choice of servers",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// After its `duration`, by being healed.
    Healed,
    /// By itself; it takes no `duration`.
    ByItself,
}

impl Ends {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Healed => "healed after its duration",
            Self::ByItself => "by itself",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Capability {
    /// To end, start and stop servers: an ensemble that the suite has started for the run.
    Processes,
    /// To take a server off the network: servers in network namespaces of their own, or in containers.
    Isolation,
    /// To drop what one server sends to another: servers in network namespaces of their own.
    Links,
    /// To stand between contenders and servers: a proxy of the suite.
    Proxies,
    Contenders,
}

impl Capability {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Processes => "servers that the suite starts",
            Self::Isolation => "servers that the suite starts, each in a network namespace or a container",
            Self::Links => "servers that the suite starts, each in a network namespace",
            Self::Proxies => "proxies in front of the servers",
            Self::Contenders => "nothing",
        }
    }

    /// Whether it reaches into the servers, which is only done to those that the suite has started itself.
    pub fn reaches_servers(self) -> bool {
        matches!(self, Self::Processes | Self::Isolation | Self::Links)
    }
}

/// The target of a fault, as a scenario names it. Words are resolved each time the fault fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// One of [`Targets::words`].
    Word(&'static str),
    /// The server of that number, from 1.
    Server(usize),
    /// The contender of that number, from 0.
    Contender(usize),
    /// See [`Targets::Fixed`].
    Fixed,
}

/// A target as a file has it, before its word is known to be one.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadTarget {
    Word(String),
    Server(usize),
    Contender(usize),
    Fixed,
}

// Derived, it would take a text that lives for ever.
impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match ReadTarget::deserialize(deserializer)? {
            ReadTarget::Word(read) => {
                let words = [Targets::Servers, Targets::Contenders].map(Targets::words).concat();
                let known = words.into_iter().find(|word| *word == read);
                let unknown = || serde::de::Error::custom(format!("no fault aims at `{read}`"));
                Self::Word(known.ok_or_else(unknown)?)
            }
            ReadTarget::Server(number) => Self::Server(number),
            ReadTarget::Contender(number) => Self::Contender(number),
            ReadTarget::Fixed => Self::Fixed,
        })
    }
}

impl fmt::Display for Target {
    /// As labels show it; nothing for [`Target::Fixed`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Server(number) => write!(f, "server {number}"),
            Self::Contender(number) => write!(f, "contender {number}"),
            Self::Fixed => Ok(()),
        }
    }
}

/// When a fault fires for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// So long after the measured phase has begun.
    #[serde(rename = "at_us", with = "as_us")]
    #[schemars(with = "u64")]
    At(Duration),
    /// When that many locks have been acquired in the measured phase.
    AfterAcquisitions(u64),
}

/// One `[[fault]]` of a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultChoice {
    /// Its name in the catalog.
    pub kind: String,
    /// Its target.
    pub target: Target,
    /// When it fires first.
    pub start: Start,
    /// How long it lasts; `None` where it ends by itself.
    #[serde(rename = "duration_us", with = "as_us_if_any")]
    #[schemars(with = "Option<u64>")]
    pub duration: Option<Duration>,
    /// How often it fires.
    pub times: u32,
    /// From one start to the next; zero where it fires once.
    #[serde(rename = "every_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub every: Duration,
    /// Each start is delayed by a random part of this.
    #[serde(rename = "jitter_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub jitter: Duration,
    /// The parameters in force.
    pub params: Params,
    /// Kind, target and what the scenario set, as written, e.g. `kill leader`, `delay any latency=20ms`.
    pub label: String,
}

impl FaultChoice {
    /// When it is over at the latest, from the begin of the measured phase; `None` where acquisitions decide.
    pub fn ends_at(&self) -> Option<Duration> {
        let Start::At(at) = self.start else { return None };
        let last = self.every.saturating_mul(self.times.saturating_sub(1));
        let times = [last, self.jitter, self.duration.unwrap_or_default()];
        Some(times.into_iter().fold(at, Duration::saturating_add))
    }

    /// When it fires and for how long, in words: `at 5 s for 3 s, 2 times, every 10 s`.
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

/// Whether a fault did what it was meant to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    Proved(String),
    /// That could not be seen; why. Nothing that the trial shows can be put down to it then.
    NotProved(String),
}
