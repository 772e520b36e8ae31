//! Static descriptions of locks, their parameters and their cost models.
//!
//! The registry in `zklockbench-locks` builds these cards. The scenario reader, the documentation and the
//! accounting check all use these cards, so they stay consistent with the code.

pub mod after;
pub mod fault;

use std::borrow::Borrow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::after::After;
pub use crate::measure::Events;
use crate::measure::RequestKind;
use crate::worded;

/// Static facts about a lock strategy.
#[derive(Debug, Clone, Copy)]
pub struct LockCard {
    /// Name used in scenario files and all output.
    pub name: &'static str,
    /// Names for the lock in articles, accepted wherever a strategy name is expected.
    pub aliases: &'static [&'static str],
    pub summary: &'static str,
    /// Origin of the lock: article, recipe or class.
    pub source: &'static str,
    /// Request sequence, fan-out, guarantees and failure modes; printed by `strategies NAME`.
    pub details: &'static str,
    pub guarantees: Guarantees,
    /// Reactions to each event: first with default parameters, then one entry for each setting that changes a
    /// reaction. Empty for a driver's lock.
    pub after: &'static [After],
    pub params: &'static [Param],
    pub system: &'static str,
    /// Computes the exact cost of one batch with this many contenders; `None` if no exact cost is known.
    pub batch_cost: Option<fn(&Params, contenders: u64) -> BatchCost>,
}

/// Suffix shown after the name of a lock that does not use ZooKeeper.
pub const NOT_ZOOKEEPER: &str = " (not ZooKeeper)";

impl LockCard {
    pub const ZOOKEEPER: &'static str = "zookeeper";

    /// Defaults shared by most ZooKeeper locks.
    pub const OF_ZOOKEEPER: Self = Self {
        name: "",
        aliases: &[],
        summary: "",
        source: "",
        details: "",
        guarantees: Guarantees::QUEUE,
        after: &[],
        params: &[],
        system: Self::ZOOKEEPER,
        batch_cost: None,
    };

    /// Returns the system behind the lock; `None` for ZooKeeper.
    pub fn other_system(&self) -> Option<&'static str> {
        (self.system != Self::ZOOKEEPER).then_some(self.system)
    }

    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns a sentence that lists the aliases, with a leading space; empty if there are none.
    pub fn also_called(&self) -> String {
        match self.aliases {
            [] => String::new(),
            names => format!(" Also called `{}`.", names.join("`, `")),
        }
    }

    pub fn marked_name(&self) -> String {
        format!("{}{}", self.name, self.mark())
    }

    pub fn mark(&self) -> &'static str {
        if self.other_system().is_some() { NOT_ZOOKEEPER } else { "" }
    }

    /// Returns the details, followed by the hazard of the protection level, if any.
    pub fn described(&self) -> String {
        let details = self.details.trim();
        match self.guarantees.protection.hazard() {
            Some(hazard) => format!("{details}\n{hazard}"),
            None => details.to_owned(),
        }
    }

    /// Returns why `param` has no effect with the settings in `set`: the deciding parameter, its current word, and
    /// the words that enable `param`. `None` if `param` has an effect.
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

    /// Returns the parameter that enables `param`, with the enabling words.
    fn decider(&self, param: &str) -> Option<(&'static Param, Vec<&'static str>)> {
        self.params.iter().find_map(|decider| {
            let ParamKind::Choice(choices) = decider.kind else { return None };
            let takes = choices.iter().filter(|choice| choice.takes.contains(&param));
            let words: Vec<_> = takes.map(|choice| choice.word).collect();
            (!words.is_empty()).then_some((decider, words))
        })
    }

    /// Returns a sentence that lists the words enabling `param`, with a leading space; empty if `param` is
    /// always enabled.
    pub fn only_with(&self, param: &Param) -> String {
        match self.decider(param.name) {
            Some((decider, words)) if words.len() < decider.kind.words().len() => {
                format!(" Only with `{}` {}.", decider.name, words.join(", "))
            }
            _ => String::new(),
        }
    }
}

/// Guarantees of a lock, and how its contenders wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarantees {
    pub exclusive: bool,
    /// Whether contenders acquire the lock in the order in which they arrive at the ensemble.
    pub fifo: bool,
    /// Whether an owner can acquire the lock again without waiting.
    pub reentrant: bool,
    /// Recovery of the lock's own node after a lost create response. An orphaned node blocks the queue.
    pub protection: Protection,
    /// Whether contenders wait on watches instead of polling.
    pub watches: bool,
    pub holders: Holders,
    /// Path of the directory whose nodes represent holds, relative to the lock (e.g. `/leases`). Empty if
    /// every node of the lock represents a hold.
    pub queue: &'static str,
}

impl Guarantees {
    /// Guarantees of most locks: an exclusive FIFO queue with watches.
    pub const QUEUE: Self = Self {
        exclusive: true,
        fifo: true,
        reentrant: false,
        protection: Protection::None,
        watches: true,
        holders: Holders::One,
        queue: "",
    };

    /// Returns whether the lock distinguishes reads from writes. Without a read side, every request is a
    /// write.
    pub fn has_read_side(&self) -> bool {
        self.holders == Holders::ReadersOrOneWriter
    }

    /// Returns whether the lock limits the number of holders, in a load with or without reads.
    pub fn excludes(&self, reads: bool) -> bool {
        self.exclusive && !(reads && self.has_read_side())
    }

    /// Returns whether at most one contender can hold the lock at a time, in a load with or without reads.
    pub fn has_one_holder(&self, reads: bool) -> bool {
        self.excludes(reads) && !matches!(self.holders, Holders::Leases(_))
    }
}

worded! {
    /// Whether a lock finds its own node again after a lost create response.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Protection by in_words {
        /// The lock does not search for its node.
        None = "not protected",
        /// The lock searches without a `sync`, so a lagging server can hide the node.
        ///
        /// Sources: Curator, kazoo and the Go client, none of which calls `sync`.
        Unsynced = "protected against a lost create response, but not on a lagging server",
        Complete = "protected against a lost create response",
    }
}

impl Protection {
    /// Describes the hazard that remains despite this protection.
    pub fn hazard(self) -> Option<&'static str> {
        (self == Self::Unsynced).then_some(
            "After a lost create response, the lock searches for its node once, without a sync. A lagging server can hide the\n\
             node, and a paused server can apply the create later. The lock then has a second node, and the first keeps its\n\
             position until the session ends.",
        )
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holders {
    One,
    ReadersOrOneWriter,
    /// Name of the parameter that limits the number of holders.
    Leases(&'static str),
}

/// Mode of an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
// Histories and drivers use these names.
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WantedMode")]
pub enum Mode {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    pub kind: ParamKind,
    /// Default value, as written in a scenario file.
    pub default: &'static str,
    pub doc: &'static str,
}

/// Word accepted by a parameter, with the other parameters that the word enables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    pub word: &'static str,
    /// Parameters enabled by this word. Parameters enabled only by other words have no effect.
    pub takes: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    Duration,
    Bool,
    OneOf(&'static [&'static str]),
    /// One of several words, each enabling different parameters.
    Choice(&'static [Choice]),
    /// A whole number in this inclusive range.
    Count(u64, u64),
    /// A whole number in this inclusive range, and at most the value of the named parameter.
    CountWithin(u64, u64, &'static str),
}

impl ParamKind {
    /// Returns the accepted words; empty for kinds without words.
    pub fn words(&self) -> Vec<&'static str> {
        match self {
            Self::OneOf(words) => words.to_vec(),
            Self::Choice(choices) => choices.iter().map(|choice| choice.word).collect(),
            Self::Duration | Self::Bool | Self::Count(..) | Self::CountWithin(..) => Vec::new(),
        }
    }

    /// Describes the accepted values; `quote` encloses each literal word.
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

/// Value of a parameter, as set in a scenario. In files, counts are numbers, words are strings, and durations
/// are objects: `{"us": 1000000}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ParamValue {
    /// Value of a [`ParamKind::Duration`].
    #[serde(with = "time_as_object")]
    #[schemars(with = "time_as_object::Time")]
    Duration(std::time::Duration),
    /// Value of a [`ParamKind::Bool`].
    Bool(bool),
    /// Value of a [`ParamKind::OneOf`] or [`ParamKind::Choice`].
    Word(String),
    /// Value of a [`ParamKind::Count`] or [`ParamKind::CountWithin`].
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

/// Effective parameters of a strategy, by name.
pub type Params = BTreeMap<String, ParamValue>;

/// Exact totals of one batch: N contenders queue up one after another, and each acquires the lock once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BatchCost {
    /// Requests by kind; a missing kind means 0.
    pub requests: Vec<(RequestKind, u64)>,
    /// Requests that the server rejects, e.g. a create of an existing node; also counted in `requests`.
    pub refused: Vec<(RequestKind, u64)>,
    /// Writes inside successful multis; the servers count each write.
    pub written_by_multis: u64,
    pub events: Events,
    /// Notifications delivered to waiters because of releases.
    pub to_waiters_by_release: u64,
    /// Notifications delivered to the releasing holder because its own watch was still armed.
    pub to_releaser: u64,
    /// Notifications delivered because a newcomer created its node.
    pub by_arrival: u64,
    /// Total number of names returned by `getChildren`; `None` if the number depends on timing.
    pub names_returned: Option<u64>,
    /// Whether contenders poll once per interval; if so, the accounting check derives the number of
    /// `getChildren` requests from the measured waits.
    pub looks_follow_waits: bool,
    /// Whether the number of `getChildren` requests is unpredictable; if so, the totals of requests and reads
    /// are also unpredictable.
    pub looks_vary: bool,
    /// Whether every total depends on timing, which rules out predictions.
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

/// Separator between the locks in the name of a mixed strategy: `curator:InterProcessMutex+curator-mutex`.
pub const MIXED_WITH: char = '+';

/// Returns the locks of a strategy: several if the strategy is mixed, otherwise one.
pub fn members(name: &str) -> impl Iterator<Item = &str> {
    name.split(MIXED_WITH)
}

/// Replaces lock aliases in a strategy label with the locks' own names; the rest stays unchanged.
pub fn own_label(label: &str, locks: &[LockCard]) -> String {
    let (name, params) = label.split_at(label.find(' ').unwrap_or(label.len()));
    let own = |name| locks.iter().find(|lock| lock.is_called(name)).map_or(name, |lock| lock.name);
    format!("{}{params}", members(name).map(own).collect::<Vec<_>>().join(&MIXED_WITH.to_string()))
}

impl LockCard {
    /// Builds the card of a mixed strategy, in which contenders use different locks on the same path. The
    /// strategy tests whether the locks exclude each other. The card has the guarantees common to all
    /// members, except protection; the first of several semaphores sets the leases. Parameters are prefixed
    /// with their lock, e.g. `curator-mutex.retry_times`. The card's memory is never freed.
    pub fn mixed(members: &[&Self]) -> Result<&'static Self, String> {
        let (Some(first), Some(_)) = (members.first(), members.get(1)) else {
            return Err(format!("name at least two locks, separated by `{MIXED_WITH}`"));
        };
        let other = |card: &&&Self| card.guarantees.holders != first.guarantees.holders;
        if let Some(other) = members.iter().find(other) {
            let (first, other) = (first.name, other.name);
            return Err(format!(
                "`{first}` and `{other}` cannot be mixed: they allow different sets of concurrent holders"
            ));
        }
        if let Some(card) = members.iter().find(|card| card.other_system().is_some()) {
            return Err(format!(
                "`{}` is not a ZooKeeper lock, so it cannot be mixed with other locks",
                card.name
            ));
        }
        let holders = match first.guarantees.holders {
            Holders::Leases(param) => Holders::Leases(leaked(format!("{}.{param}", first.name))),
            others => others,
        };
        let each = |given: fn(&Guarantees) -> bool| members.iter().all(|card| given(&card.guarantees));
        let names: Vec<&str> = members.iter().map(|card| card.name).collect();
        let params = members.iter().flat_map(|card| {
            card.params
                .iter()
                .map(|param| Param { name: leaked(format!("{}.{}", card.name, param.name)), ..*param })
        });
        let details = format!(
            "Contenders alternate between {}, starting with the first. The locks exclude each other \
             only if they\n\
             agree on nodes and order.",
            names.join(", ")
        );
        Ok(Box::leak(Box::new(Self {
            name: leaked(names.join(&MIXED_WITH.to_string())),
            aliases: &[],
            summary: "several locks on the same path; each contender uses one of them",
            source: "the named locks",
            details: leaked(details),
            guarantees: Guarantees {
                exclusive: each(|given| given.exclusive),
                fifo: each(|given| given.fifo),
                reentrant: each(|given| given.reentrant),
                protection: Protection::None,
                watches: each(|given| given.watches),
                holders,
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
