//! The list of strategies, read against the cards of the locks that exist.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::de::DeValue;

use super::diagnostic::{did_you_mean, listed};
use super::fields::POLL_INTERVAL_PARAM;
use super::model::{DriverProcesses, StrategyChoice};
use super::read::{KeyValue, Sink, TomlTable, TomlValue, expect_count, expect_text, shortened, wrong_type};
use super::values::{Given, given_value, in_force};
use zklockbench_core::catalog::{LockCard, MIXED_WITH, ParamKind, ParamValue, members};

pub(super) struct ListedStrategy<'c> {
    pub(super) card: &'c LockCard,
    pub(super) choice: StrategyChoice,
    pub(super) span: Range<usize>,
}

impl ListedStrategy<'_> {
    /// Looks again after an interval instead of waiting for a notification.
    pub(super) fn polls(&self) -> bool {
        self.card.params.iter().any(|param| param.name == POLL_INTERVAL_PARAM)
    }
}

pub(super) fn takers<'c>(cards: &'c [LockCard], param: &str) -> Vec<&'c str> {
    cards.iter().filter(|card| card.params.iter().any(|p| p.name == param)).map(|card| card.name).collect()
}

/// Reads the list: the strategies without mistakes, and whether those are all.
pub(super) fn strategies<'c>(
    value: &TomlValue<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> (Vec<ListedStrategy<'c>>, bool) {
    let DeValue::Array(items) = value.get_ref() else {
        let quoted = sink.quoted(&value.span());
        let help = format!("put it in brackets: strategies = [{quoted}]");
        return wrong_type(value, "a list of strategies", &help, sink).unwrap_or_default();
    };
    if items.is_empty() {
        sink.missing(value.span(), "the list is empty", format!("the strategies are {}", names(cards)));
    }
    let read: Vec<_> = items.iter().filter_map(|item| strategy(item, cards, sink)).collect();
    let whole = !read.is_empty() && read.len() == items.len();
    (read, whole)
}

/// Gives the scenario's poll interval to every strategy that polls and did not set its own.
pub(super) fn apply_poll_interval(listed: &mut [ListedStrategy<'_>], interval: Duration) {
    for strategy in listed.iter_mut().filter(|strategy| strategy.polls()) {
        if !strategy.choice.label.contains(&format!(" {POLL_INTERVAL_PARAM}=")) {
            strategy.choice.params.insert(POLL_INTERVAL_PARAM.to_owned(), ParamValue::Duration(interval));
        }
    }
}

fn strategy<'c>(item: &TomlValue<'_>, cards: &'c [LockCard], sink: &Sink<'_>) -> Option<ListedStrategy<'c>> {
    match item.get_ref() {
        DeValue::String(name) => {
            let card = card(name, item, cards, sink)?;
            Some(ListedStrategy { card, choice: choice(card, &BTreeMap::new(), None), span: item.span() })
        }
        DeValue::Table(entries) => from_table(item, TomlTable::new(entries), cards, sink),
        _ => {
            let help = "write its name in quotes, or { name = \"polling\", poll_interval = \"500ms\" }";
            wrong_type(item, "a strategy", help, sink)
        }
    }
}

fn from_table<'c>(
    item: &TomlValue<'_>,
    mut table: TomlTable<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<ListedStrategy<'c>> {
    let mut whole = true;
    let mut processes = None;
    let card = match table.take("driver") {
        Some(driver) => {
            // It says how the driver is run, and is no parameter of its locks.
            if let Some(entry) = table.take(PROCESSES) {
                processes = read_processes(entry.value, sink);
                whole = processes.is_some();
            }
            driven(item, &driver, &mut table, cards, sink)?
        }
        None => named(item, &mut table, cards, sink)?,
    };
    let entries = table.finish();
    let set: Given = entries.iter().filter_map(|entry| param(card, entry, cards, sink)).collect();
    whole = whole
        && set.len() == entries.len()
        && has_no_idle(card, &set, &entries, sink)
        && can_be_served(card, &set, &entries, sink);
    whole.then(|| ListedStrategy { card, choice: choice(card, &set, processes), span: item.span() })
}

/// The key that says over how many processes of a driver the contenders are spread.
const PROCESSES: &str = "processes";
const PROCESSES_WITHIN: RangeInclusive<u64> = 1..=1_000;

fn read_processes(value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<DriverProcesses> {
    match value.get_ref().as_str() {
        Some("one") => Some(DriverProcesses::One),
        Some("per-contender") => Some(DriverProcesses::PerContender),
        Some(word) => {
            let message = format!("`{}` is no number of processes", shortened(word));
            let help = "write \"one\", \"per-contender\", or a number without quotes";
            sink.refuse(value.span(), message, help)
        }
        None => {
            let count = expect_count(value, &PROCESSES_WITHIN, sink)?;
            usize::try_from(count).ok().map(DriverProcesses::Count)
        }
    }
}

fn named<'c>(
    item: &TomlValue<'_>,
    table: &mut TomlTable<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<&'c LockCard> {
    let Some(entry) = table.take("name") else {
        let help = format!("the strategies are {}", names(cards));
        sink.missing(item.span(), "the strategy has no `name`", help);
        return None;
    };
    let name = expect_text(entry.value, "a strategy's name", "write it in quotes", sink)?;
    card(name, entry.value, cards, sink)
}

/// The lock of a driver, which has two names: the driver's, and the lock's within it.
fn driven<'c>(
    item: &TomlValue<'_>,
    driver: &KeyValue<'_>,
    table: &mut TomlTable<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<&'c LockCard> {
    let driver_name = expect_text(driver.value, "a driver's name", "write it in quotes", sink)?;
    let Some(entry) = table.take("lock") else {
        let help = format!("write {{ driver = \"{}\", lock = \"Lock\" }}", shortened(driver_name));
        sink.missing(item.span(), "the driver has no `lock`", help);
        return None;
    };
    let lock = expect_text(entry.value, "a lock's name", "write it in quotes", sink)?;
    // Where nothing is known of the driver, that is what is wrong, and not its lock.
    let at = if locks_of(driver_name, cards).is_empty() { driver.value } else { entry.value };
    card(&format!("{driver_name}:{lock}"), at, cards, sink)
}

fn locks_of<'c>(driver: &str, cards: &'c [LockCard]) -> Vec<&'c str> {
    cards.iter().filter_map(|card| card.name.strip_prefix(driver)?.strip_prefix(':')).collect()
}

/// Why there is no such lock of a driver, and what to do about it.
fn unknown_lock(driver: &str, lock: &str, cards: &[LockCard]) -> (String, String) {
    let (locks, driver) = (locks_of(driver, cards), shortened(driver));
    if locks.is_empty() {
        let help = format!("say on the command line how it is started: --driver {driver}=COMMAND");
        return (format!("unknown driver `{driver}`"), help);
    }
    let all = format!("its locks are {}", listed(locks.iter().copied()));
    (format!("driver `{driver}` has no lock `{}`", shortened(lock)), did_you_mean(lock, locks, &all))
}

fn card<'c>(name: &str, at: &TomlValue<'_>, cards: &'c [LockCard], sink: &Sink<'_>) -> Option<&'c LockCard> {
    if name.contains(MIXED_WITH) {
        return mixed(name, at, cards, sink);
    }
    let found = cards.iter().find(|card| card.name == name);
    if let (None, Some((driver, lock))) = (found, name.split_once(':')) {
        let (message, help) = unknown_lock(driver, lock, cards);
        return sink.refuse(at.span(), message, help);
    }
    if found.is_none() {
        let otherwise = format!("the strategies are {}", names(cards));
        let help = did_you_mean(name, cards.iter().map(|card| card.name), &otherwise);
        sink.error(at.span(), format!("unknown strategy `{}`", shortened(name)), help);
    }
    found
}

/// Several locks, of which each contender uses one.
fn mixed<'c>(name: &str, at: &TomlValue<'_>, cards: &'c [LockCard], sink: &Sink<'_>) -> Option<&'c LockCard> {
    let members: Vec<_> = members(name).map(|name| card(name, at, cards, sink)).collect::<Option<_>>()?;
    match LockCard::mixed(&members) {
        Ok(card) => Some(card),
        Err(why) => sink.refuse(at.span(), format!("`{}` can't be mixed", shortened(name)), why),
    }
}

fn param(
    card: &LockCard,
    entry: &KeyValue<'_>,
    cards: &[LockCard],
    sink: &Sink<'_>,
) -> Option<(&'static str, ParamValue)> {
    let Some(param) = card.params.iter().find(|param| param.name == entry.key) else {
        let message = format!("`{}` has no parameter `{}`", card.name, shortened(entry.key));
        return sink.refuse(entry.key_span(), message, param_help(card, entry.key, cards));
    };
    Some((param.name, given_value(param, entry.value, sink)?))
}

/// Reports every parameter that has no meaning beside the others; whether there is none.
fn has_no_idle(card: &LockCard, set: &Given, entries: &[KeyValue<'_>], sink: &Sink<'_>) -> bool {
    let mut none = true;
    for entry in entries {
        let Some((decider, chosen, words)) = card.idle(entry.key, set) else { continue };
        let message = format!("`{}` has no effect with {} = \"{chosen}\"", entry.key, decider.name);
        let help = format!("leave it out, or set `{}` to one of {}", decider.name, listed(words));
        sink.error(entry.key_span(), message, help);
        none = false;
    }
    none
}

/// Reports every parameter that asks for more than there is; whether there is none.
fn can_be_served(card: &LockCard, set: &Given, entries: &[KeyValue<'_>], sink: &Sink<'_>) -> bool {
    let mut all = true;
    for param in card.params {
        let ParamKind::CountWithin(_, _, whole) = param.kind else { continue };
        let (Some(part), Some(most)) = (count(card, set, param.name), count(card, set, whole)) else {
            continue;
        };
        let Some(entry) = entries.iter().find(|entry| entry.key == param.name).filter(|_| part > most) else {
            continue;
        };
        let message =
            format!("{part} `{}` are more than the {most} `{whole}`: nobody could ever get them", param.name);
        let help = format!("write at most {most}, or give `{}` {part} `{whole}` or more", card.name);
        sink.error(entry.value.span(), message, help);
        all = false;
    }
    all
}

fn count(card: &LockCard, set: &Given, name: &str) -> Option<u64> {
    let param = card.params.iter().find(|param| param.name == name)?;
    match in_force(param, set)? {
        ParamValue::Count(count) => Some(count),
        _ => None,
    }
}

fn param_help(card: &LockCard, key: &str, cards: &[LockCard]) -> String {
    let others = takers(cards, key);
    if !others.is_empty() {
        return format!("it is a parameter of {}", listed(others));
    }
    if card.params.is_empty() {
        return format!("`{}` takes no parameters", card.name);
    }
    let own = || card.params.iter().map(|param| param.name);
    did_you_mean(key, own(), &format!("`{}` takes {}", card.name, listed(own())))
}

fn choice(card: &LockCard, set: &Given, processes: Option<DriverProcesses>) -> StrategyChoice {
    let mut params = BTreeMap::new();
    let mut label = card.name.to_owned();
    for param in card.params.iter().filter(|param| card.idle(param.name, set).is_none()) {
        if let Some(value) = set.get(param.name) {
            label = format!("{label} {}={value}", param.name);
        }
        params.extend(in_force(param, set).map(|value| (param.name.to_owned(), value)));
    }
    if let Some(said) = processes {
        label = format!("{label} {PROCESSES}={said}");
    }
    let system = card.other_system().map(str::to_owned);
    StrategyChoice { name: card.name.to_owned(), params, label: label + card.mark(), system, processes }
}

fn names(cards: &[LockCard]) -> String {
    listed(cards.iter().map(|card| card.name))
}
