//! Plain descriptions of locks, their parameters and their cost models. No behaviour.
//!
//! The registry in `lock` builds these cards; the scenario reader, the documentation and the accounting
//! check read them, so none of the three can disagree with the code.

pub mod after;
pub mod fault;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::after::After;
pub use crate::measure::Events;
use crate::measure::RequestKind;

/// Everything that is known of a lock strategy before it runs.
#[derive(Debug, Clone, Copy)]
pub struct LockCard {
    /// The name used in scenario files and in every output.
    pub name: &'static str,
    pub summary: &'static str,
    /// Where it comes from: article, recipe or class.
    pub source: &'static str,
    /// Request sequence, fan-out, what it gives, where it breaks; printed by `strategies NAME`.
    pub details: &'static str,
    pub guarantees: Guarantees,
    /// What it does after each event: as it is by default first, then with each parameter that changes that. Of another
    /// program's lock nothing is said.
    pub after: &'static [After],
    pub params: &'static [Param],
    pub system: &'static str,
    /// The exact cost of one batch of that many contenders, where a proof gives it.
    pub batch_cost: Option<fn(&Params, contenders: u64) -> BatchCost>,
}

/// Stands behind the names of locks that are not ZooKeeper's, wherever one is shown.
pub const NOT_ZOOKEEPER: &str = " (not ZooKeeper)";

impl LockCard {
    pub const ZOOKEEPER: &'static str = "zookeeper";

    /// What most of ZooKeeper's locks have in common.
    pub const OF_ZOOKEEPER: Self = Self {
        name: "",
        summary: "",
        source: "",
        details: "",
        guarantees: Guarantees::QUEUE,
        after: &[],
        params: &[],
        system: Self::ZOOKEEPER,
        batch_cost: None,
    };

    /// The system whose lock it is, where that is another one than ZooKeeper.
    pub fn other_system(&self) -> Option<&'static str> {
        (self.system != Self::ZOOKEEPER).then_some(self.system)
    }

    pub fn marked_name(&self) -> String {
        format!("{}{}", self.name, self.mark())
    }

    pub fn mark(&self) -> &'static str {
        if self.other_system().is_some() { NOT_ZOOKEEPER } else { "" }
    }

    /// All of its details, with the hazards that follow from what it guarantees.
    pub fn described(&self) -> String {
        let details = self.details.trim();
        match self.guarantees.protection.hazard() {
            Some(hazard) => format!("{details}\n{hazard}"),
            None => details.to_owned(),
        }
    }

    /// Why a parameter means nothing beside what was set: the one that decides, its word in force, and those with which it
    /// would mean something.
    pub fn idle<'s, K: Borrow<str> + Ord>(
        &self,
        param: &str,
        set: &'s BTreeMap<K, ParamValue>,
    ) -> Option<(&'static Param, &'s str, Vec<&'static str>)> {
        let (decider, words) = self.decider(param)?;
        let chosen = match set.get(decider.name) {
            Some(ParamValue::Word(word)) => word.as_str(),
            _ => decider.default,
        };
        (!words.contains(&chosen)).then_some((decider, chosen, words))
    }

    /// The parameter that gives this one its meaning, if one does, and the words of it that do.
    fn decider(&self, param: &str) -> Option<(&'static Param, Vec<&'static str>)> {
        self.params.iter().find_map(|decider| {
            let ParamKind::Choice(choices) = decider.kind else { return None };
            let takes = choices.iter().filter(|choice| choice.takes.contains(&param));
            let words: Vec<_> = takes.map(|choice| choice.word).collect();
            (!words.is_empty()).then_some((decider, words))
        })
    }

    /// A sentence on beside what else the parameter has a meaning, after a space; nothing when beside all.
    pub fn only_with(&self, param: &Param) -> String {
        match self.decider(param.name) {
            Some((decider, words)) if words.len() < decider.kind.words().len() => {
                format!(" Only with `{}` {}.", decider.name, words.join(", "))
            }
            _ => String::new(),
        }
    }
}

/// What a lock promises, and how it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantees {
    pub exclusive: bool,
    /// Served in the order of arrival at the ensemble.
    pub fifo: bool,
    /// The same owner may take it again without waiting.
    pub reentrant: bool,
    /// Whether its node is found again after a lost create response, so that no orphan blocks the queue.
    pub protection: Protection,
    /// Waits by watches (true) or by looking again after a time (false).
    pub watches: bool,
    pub holders: Holders,
    /// Where the nodes by which it is held stand, below the lock's path: `/leases`, for instance. Nodes in
    /// other places are steps on the way. Empty where every node of a holder has the same number.
    pub queue: &'static str,
}

impl Guarantees {
    /// A queue of watching waiters for one holder, as most locks are: exclusive, in the order of arrival.
    pub const QUEUE: Self = Self {
        exclusive: true,
        fifo: true,
        reentrant: false,
        protection: Protection::None,
        watches: true,
        holders: Holders::One,
        queue: "",
    };

    /// Whether it has a read side; else every request is a write.
    pub fn has_read_side(&self) -> bool {
        self.holders == Holders::ReadersOrOneWriter
    }
}

/// Whether a lock finds its own node again when the response to its create was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// It does not look for it.
    None,
    /// It looks without a `sync`, so that a server that lags can hide it.
    ///
    /// Sources: Curator, kazoo and the Go client, none of which asks for one.
    Unsynced,
    Complete,
}

impl Protection {
    pub fn in_words(self) -> &'static str {
        match self {
            Self::None => "not protected",
            Self::Unsynced => "protected against a lost create response, but not on a server that lags",
            Self::Complete => "protected against a lost create response",
        }
    }

    /// Where it breaks, in a sentence or two.
    pub fn hazard(self) -> Option<&'static str> {
        (self == Self::Unsynced).then_some(
            "After a lost response to its create it looks for the node once, and without a sync. A server that lags can hide\n\
             it, and one that stood still can apply the create later. It then has a second node, and the first keeps its place\n\
             until the session ends.",
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holders {
    One,
    ReadersOrOneWriter,
    /// As many as the parameter of this name says.
    Leases(&'static str),
}

/// What an acquire asks for. A lock without a read side takes every request as a write. Histories have these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    /// The default, as a scenario file would write it.
    pub default: &'static str,
    pub doc: &'static str,
}

/// A word that a parameter may be set to, and what else may be said then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub word: &'static str,
    /// The parameters that belong to it. A parameter that belongs to other words only means nothing beside it.
    pub takes: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    Duration,
    Bool,
    OneOf(&'static [&'static str]),
    /// One of these words, each of which gives other parameters their meaning.
    Choice(&'static [Choice]),
    /// A whole number from the first to the second.
    Count(u64, u64),
    /// The same, and no more than the parameter of that name.
    CountWithin(u64, u64, &'static str),
}

impl ParamKind {
    /// The words that it takes; none where it takes something else.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Self::OneOf(words) => words.to_vec(),
            Self::Choice(choices) => choices.iter().map(|choice| choice.word).collect(),
            Self::Duration | Self::Bool | Self::Count(..) | Self::CountWithin(..) => Vec::new(),
        }
    }

    /// What it takes, in words; words of a scenario file stand between two of `quote`.
    pub fn in_words(&self, quote: &str) -> String {
        let quoted = |word: &&str| format!("{quote}{word}{quote}");
        match self {
            Self::Duration => "a time".to_owned(),
            Self::Bool => ["true", "false"].iter().map(quoted).collect::<Vec<_>>().join(" or "),
            Self::OneOf(_) | Self::Choice(_) => {
                self.words().iter().map(quoted).collect::<Vec<_>>().join(" or ")
            }
            Self::Count(least, most) => format!("{least} to {most}"),
            Self::CountWithin(least, most, whole) => {
                format!("{least} to {most}, at most {quote}{whole}{quote}")
            }
        }
    }
}

/// A parameter's value as given in a scenario. In files a number is a number, a word is a text, and a time is an object:
/// `{"us": 1000000}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParamValue {
    /// For [`ParamKind::Duration`].
    #[serde(with = "time_as_object")]
    #[schemars(with = "time_as_object::Time")]
    Duration(std::time::Duration),
    /// For [`ParamKind::Bool`].
    Bool(bool),
    /// For [`ParamKind::OneOf`] and [`ParamKind::Choice`].
    Word(String),
    /// For [`ParamKind::Count`] and [`ParamKind::CountWithin`].
    Count(u64),
}

mod time_as_object {
    use std::time::Duration;

    use schemars::JsonSchema;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::units::as_us;

    #[derive(Serialize, Deserialize, JsonSchema)]
    pub(super) struct Time {
        #[serde(with = "as_us")]
        #[schemars(with = "u64")]
        us: Duration,
    }

    pub(super) fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        Time { us: *time }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Time::deserialize(deserializer).map(|time| time.us)
    }
}

impl std::fmt::Display for ParamValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Duration(value) => write!(f, "{}", humantime::format_duration(*value)),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Word(value) => f.write_str(value),
            Self::Count(value) => write!(f, "{value}"),
        }
    }
}

pub const fn joined<const A: usize, const B: usize, const ALL: usize>(
    one: [Param; A],
    other: [Param; B],
) -> [Param; ALL] {
    assert!(A > 0 && A + B == ALL);
    let mut all = [one[0]; ALL];
    let mut at = 1;
    while at < ALL {
        all[at] = if at < A { one[at] } else { other[at - A] };
        at += 1;
    }
    all
}

/// The parameters in force for a strategy, by name.
pub type Params = BTreeMap<String, ParamValue>;

/// The exact totals of one batch: all N queue up one after the other, then each acquires once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchCost {
    /// Requests by kind; a kind that is missing is expected to be 0.
    pub requests: Vec<(RequestKind, u64)>,
    /// Of those, the ones that the server refuses: a create that finds the node there, for instance.
    pub refused: Vec<(RequestKind, u64)>,
    /// Writes that successful multis consist of: the servers count each of them.
    pub written_by_multis: u64,
    pub events: Events,
    /// Notifications delivered to waiters because of releases.
    pub to_waiters_by_release: u64,
    /// Notifications delivered to the releasing holder itself, because its watch was still armed.
    pub to_releaser: u64,
    /// Notifications delivered because a newcomer's node appeared.
    pub by_arrival: u64,
    /// Names returned by getChildren, in all; `None` where that depends on timing.
    pub names_returned: Option<u64>,
    /// The number of getChildren follows from how long each contender waited: one look for each poll
    /// interval. The accounting check then computes it from the measured waits.
    pub looks_follow_waits: bool,
    /// The number of getChildren can't be known, so no total of requests and none of reads is expected.
    pub looks_vary: bool,
    /// With these parameters nothing is known: the totals depend on timing.
    pub open: bool,
}

impl BatchCost {
    pub fn requests_total(&self) -> u64 {
        self.requests.iter().map(|(_, count)| count).sum()
    }

    pub fn requests_of(&self, kind: RequestKind) -> u64 {
        self.requests.iter().filter(|(k, _)| *k == kind).map(|(_, count)| count).sum()
    }

    pub fn succeeding(&self, kind: RequestKind) -> u64 {
        let refused: u64 = self.refused.iter().filter(|(k, _)| *k == kind).map(|(_, count)| count).sum();
        self.requests_of(kind).saturating_sub(refused)
    }
}

/// Stands between the names: `curator:InterProcessMutex+curator-mutex`.
pub const MIXED_WITH: char = '+';

/// The names of the locks that a strategy consists of: one, unless it is several.
pub fn members(name: &str) -> impl Iterator<Item = &str> {
    name.split(MIXED_WITH)
}

impl LockCard {
    /// The card of these locks together: contenders that use different ones contend for the same path, to show that these
    /// exclude each other. What all of them promise is what is promised; a parameter is one's own,
    /// `curator-mutex.retry_times`. It lives as long as this process, as the others do.
    pub fn mixed(members: &[&Self]) -> Result<&'static Self, String> {
        let (Some(first), Some(_)) = (members.first(), members.get(1)) else {
            return Err(format!("write two locks with a `{MIXED_WITH}` between them"));
        };
        let other = |card: &&&Self| card.guarantees.holders != first.guarantees.holders;
        if let Some(other) = members.iter().find(other) {
            let (first, other) = (first.name, other.name);
            return Err(format!("`{first}` and `{other}` do not let the same contenders in together"));
        }
        if let Some(card) = members.iter().find(|card| card.other_system().is_some()) {
            return Err(format!("`{}` is not ZooKeeper's, and shares no lock with others", card.name));
        }
        let each = |given: fn(&Guarantees) -> bool| members.iter().all(|card| given(&card.guarantees));
        let names: Vec<&str> = members.iter().map(|card| card.name).collect();
        let params = members.iter().flat_map(|card| {
            card.params
                .iter()
                .map(|param| Param { name: leaked(format!("{}.{}", card.name, param.name)), ..*param })
        });
        let details = format!(
            "Each contender uses one of {}, the first the first one, and so on in turns. They exclude each other only if they\n\
             agree on nodes and order.",
            names.join(", ")
        );
        Ok(Box::leak(Box::new(Self {
            name: leaked(names.join(&MIXED_WITH.to_string())),
            summary: "several locks, of which each contender uses one",
            source: "the locks that it names",
            details: leaked(details),
            guarantees: Guarantees {
                exclusive: each(|given| given.exclusive),
                fifo: each(|given| given.fifo),
                reentrant: each(|given| given.reentrant),
                protection: Protection::None,
                watches: each(|given| given.watches),
                holders: first.guarantees.holders,
                queue: first.guarantees.queue,
            },
            after: &[],
            params: Box::leak(params.collect()),
            system: Self::ZOOKEEPER,
            batch_cost: None,
        })))
    }
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}
