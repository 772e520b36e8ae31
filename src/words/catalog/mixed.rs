//! Several locks in one: contenders that use different ones contend for the same path, to show that these exclude each other.

use super::{Guarantees, LockCard, Param, Protection};

/// Stands between the names: `curator:InterProcessMutex+curator-mutex`.
pub const MIXED_WITH: char = '+';

/// The names of the locks that a strategy consists of: one, unless it is several.
pub fn members(name: &str) -> impl Iterator<Item = &str> {
    name.split(MIXED_WITH)
}

impl LockCard {
    /// The card of these locks together. What all of them promise is what is promised; a parameter is one's own,
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
