//! Reads the list of strategies and checks it against the catalog.

use std::ops::Range;
use std::time::Duration;

use toml::de::{DeTable, DeValue};

use super::diagnostic::{did_you_mean, listed};
use super::faults::{Set, in_force};
use super::fields::POLL_INTERVAL_PARAM;
use super::model::{DriverProcesses, StrategyChoice};
use super::read::{Sink, TomlValue, expect, plain};
use super::value::{param_value, processes, wrong};
use zklockbench_core::catalog::{LockCard, MIXED_WITH, ParamKind, ParamValue, Params, members};
use zklockbench_core::units::shown;

pub(super) struct ListedStrategy<'c> {
    pub(super) card: &'c LockCard,
    pub(super) choice: StrategyChoice,
    pub(super) span: Range<usize>,
}

impl ListedStrategy<'_> {
    /// Returns whether the strategy polls instead of waiting for a notification.
    pub(super) fn polls(&self) -> bool {
        self.card.params.iter().any(|param| param.name == POLL_INTERVAL_PARAM)
    }
}

pub(super) fn takers<'c>(cards: &'c [LockCard], param: &str) -> Vec<&'c str> {
    cards.iter().filter(|card| card.params.iter().any(|p| p.name == param)).map(|card| card.name).collect()
}

/// Reads the list. Returns the valid strategies, and whether all are valid.
pub(super) fn strategies<'c>(
    value: &TomlValue<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> (Vec<ListedStrategy<'c>>, bool) {
    let help = "put it in brackets: strategies = [\"polling\"]";
    let Some(items) = expect(value.get_ref().as_array(), value, "a list of strategies", help, sink) else {
        return (Vec::new(), false);
    };
    if items.is_empty() {
        sink.error(value.span(), "the list is empty", format!("the strategies are {}", names(cards)));
    }
    let read: Vec<_> = items.iter().filter_map(|item| strategy(item, cards, sink)).collect();
    let whole = !read.is_empty() && read.len() == items.len();
    (read, whole)
}

/// Sets the scenario's poll interval for every polling strategy that does not set its own.
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
            Some(ListedStrategy { card, choice: choice(card, &Set::new(), None), span: item.span() })
        }
        DeValue::Table(entries) => from_table(item, entries.clone(), cards, sink),
        _ => {
            let help = "write its name in quotes, or { name = \"polling\", poll_interval = \"500ms\" }";
            expect(None, item, "a strategy", help, sink)
        }
    }
}

fn from_table<'c>(
    item: &TomlValue<'_>,
    mut table: DeTable<'_>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<ListedStrategy<'c>> {
    let before = sink.errors();
    let mut spread = None;
    let card = match table.remove("driver") {
        Some(driver) => {
            // The key controls how the driver runs, so it is not a parameter of the driver's locks.
            if let Some(value) = table.remove(PROCESSES) {
                let read = plain(&value).and_then(|value| processes(&value));
                spread = sink.checked(value.span(), read);
            }
            driven(item, &driver, table.remove("lock"), cards, sink)?
        }
        None => named(item, table.remove("name"), cards, sink)?,
    };
    let mut set = Set::new();
    for (key, value) in &table {
        let Some(param) = card.params.iter().find(|param| param.name == *key.get_ref()) else {
            let message = format!("`{}` has no parameter `{}`", card.name, shown(key.get_ref(), 60));
            sink.error(key.span(), message, param_help(card, key.get_ref(), cards));
            continue;
        };
        let read = plain(value).and_then(|value| param_value(param, &value));
        set.extend(sink.checked(value.span(), read).map(|value| (param.name, value)));
    }
    for check in [report_idle, report_unservable] {
        if sink.errors() == before {
            check(card, &set, &table, sink);
        }
    }
    (sink.errors() == before).then(|| ListedStrategy {
        card,
        choice: choice(card, &set, spread),
        span: item.span(),
    })
}

/// Key for the number of driver processes over which the contenders are spread.
const PROCESSES: &str = "processes";

fn named<'c>(
    item: &TomlValue<'_>,
    name: Option<TomlValue<'_>>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<&'c LockCard> {
    let Some(value) = name else {
        sink.error(item.span(), "the strategy has no `name`", format!("the strategies are {}", names(cards)));
        return None;
    };
    let name = expect(value.get_ref().as_str(), &value, "a strategy's name", "write it in quotes", sink)?;
    card(name, &value, cards, sink)
}

/// Finds a driver's lock by the name of the driver and the name of the lock within the driver.
fn driven<'c>(
    item: &TomlValue<'_>,
    driver: &TomlValue<'_>,
    lock: Option<TomlValue<'_>>,
    cards: &'c [LockCard],
    sink: &Sink<'_>,
) -> Option<&'c LockCard> {
    let driver_name =
        expect(driver.get_ref().as_str(), driver, "a driver's name", "write it in quotes", sink)?;
    let Some(value) = lock else {
        let help = format!("write {{ driver = \"{}\", lock = \"Lock\" }}", shown(driver_name, 60));
        sink.error(item.span(), "the driver has no `lock`", help);
        return None;
    };
    let lock = expect(value.get_ref().as_str(), &value, "a lock's name", "write it in quotes", sink)?;
    // If the driver is unknown, report the driver instead of its lock.
    let at = if locks_of(driver_name, cards).is_empty() { driver } else { &value };
    card(&format!("{driver_name}:{lock}"), at, cards, sink)
}

fn locks_of<'c>(driver: &str, cards: &'c [LockCard]) -> Vec<&'c str> {
    cards.iter().filter_map(|card| card.name.strip_prefix(driver)?.strip_prefix(':')).collect()
}

/// Returns the message and advice for an unknown lock of a driver.
fn unknown_lock(driver: &str, lock: &str, cards: &[LockCard]) -> (String, String) {
    let (locks, driver) = (locks_of(driver, cards), shown(driver, 60));
    if locks.is_empty() {
        let help = format!("specify its command on the command line: --driver {driver}=COMMAND");
        return (format!("unknown driver `{driver}`"), help);
    }
    let all = format!("its locks are {}", listed(locks.iter().copied()));
    (format!("driver `{driver}` has no lock `{}`", shown(lock, 60)), did_you_mean(lock, locks, &all))
}

fn card<'c>(name: &str, at: &TomlValue<'_>, cards: &'c [LockCard], sink: &Sink<'_>) -> Option<&'c LockCard> {
    if name.contains(MIXED_WITH) {
        return mixed(name, at, cards, sink);
    }
    let found = cards.iter().find(|card| card.is_called(name));
    if let (None, Some((driver, lock))) = (found, name.split_once(':')) {
        let (message, help) = unknown_lock(driver, lock, cards);
        sink.error(at.span(), message, help);
        return None;
    }
    if found.is_none() {
        let otherwise = format!("the strategies are {}", names(cards));
        let help = did_you_mean(name, cards.iter().flat_map(LockCard::names), &otherwise);
        sink.error(at.span(), format!("unknown strategy `{}`", shown(name, 60)), help);
    }
    found
}

/// Creates a mix of several locks; each contender uses one of them.
fn mixed<'c>(name: &str, at: &TomlValue<'_>, cards: &'c [LockCard], sink: &Sink<'_>) -> Option<&'c LockCard> {
    let members: Vec<_> = members(name).map(|name| card(name, at, cards, sink)).collect::<Option<_>>()?;
    let mixed = LockCard::mixed(&members);
    sink.checked(at.span(), mixed.map_err(|why| wrong(format!("`{}` cannot be mixed", shown(name, 60)), why)))
}

/// Reports every parameter that has no effect in combination with the other parameters.
fn report_idle(card: &LockCard, set: &Set, params: &DeTable<'_>, sink: &Sink<'_>) {
    for key in params.keys() {
        let Some((decider, chosen, words)) = card.idle(key.get_ref(), set) else { continue };
        let message = format!("`{}` has no effect with {} = \"{chosen}\"", key.get_ref(), decider.name);
        let help = format!("remove it, or set `{}` to one of {}", decider.name, listed(words));
        sink.error(key.span(), message, help);
    }
}

/// Reports every parameter that exceeds the parameter that limits it.
fn report_unservable(card: &LockCard, set: &Set, params: &DeTable<'_>, sink: &Sink<'_>) {
    for (key, value) in params {
        let key: &str = key.get_ref();
        let Some(ParamKind::CountWithin(_, _, whole)) =
            card.params.iter().find(|param| param.name == key).map(|param| param.kind)
        else {
            continue;
        };
        let (Some(part), Some(most)) = (count(card, set, key), count(card, set, whole)) else { continue };
        if part > most {
            let message = format!(
                "{part} `{key}` exceed the {most} `{whole}`, so no contender could ever acquire them"
            );
            let help = format!("use at most {most}, or set `{whole}` of `{}` to at least {part}", card.name);
            sink.error(value.span(), message, help);
        }
    }
}

fn count(card: &LockCard, set: &Set, name: &str) -> Option<u64> {
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

fn choice(card: &LockCard, set: &Set, processes: Option<DriverProcesses>) -> StrategyChoice {
    let mut params = Params::new();
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
