//! Reads a `[[fault]]` and checks it against the catalog.

use std::collections::BTreeMap;
use std::ops::Range;

use super::diagnostic::{did_you_mean, listed};
use super::fields::Section;
use super::file::Fault;
use super::read::{Given, Places, Sink, TomlValue, expect, known_keys, plain, section};
use super::value::{default_value, param_value, word};
use zklockbench_core::catalog::fault::{FaultCard, FaultChoice, Start, Target, Targets};
use zklockbench_core::catalog::{Param, ParamValue};
use zklockbench_core::units::shown;

/// Parameters set by the scenario.
pub(super) type Set = BTreeMap<&'static str, ParamValue>;

/// Returns the effective value of a parameter: as set, or the default.
pub(super) fn in_force(param: &Param, set: &Set) -> Option<ParamValue> {
    set.get(param.name).cloned().or_else(|| default_value(param))
}

pub(super) struct FaultEntry<'c> {
    pub(super) card: &'c FaultCard,
    /// Span of `kind`, for errors about missing keys.
    pub(super) span: Range<usize>,
    pub(super) places: Places,
    pub(super) said: Fault,
    /// Target, if specified as a word.
    word: Option<&'static str>,
    set: Set,
}

impl FaultEntry<'_> {
    pub(super) fn target(&self) -> Target {
        match (self.card.targets, self.said.server, self.said.contender) {
            (Targets::Fixed, _, _) => Target::Fixed,
            (Targets::Servers, Some(number), _) => Target::Server(number.0),
            (Targets::Contenders, _, Some(number)) => Target::Contender(number.0),
            _ => Target::Word(self.word.unwrap_or(self.card.default_target)),
        }
    }

    pub(super) fn choice(&self) -> Option<FaultChoice> {
        let said = &self.said;
        let start = match said.at {
            Some(at) => Start::At(at.0),
            None => Start::AfterAcquisitions(said.after_acquisitions?.0),
        };
        let in_force = |param: &Param| Some((param.name.to_owned(), in_force(param, &self.set)?));
        Some(FaultChoice {
            kind: self.card.name.to_owned(),
            target: self.target(),
            start,
            duration: said.duration.map(|time| time.0),
            times: said.times?.0,
            every: said.every.unwrap_or_default().0,
            jitter: said.jitter?.0,
            params: self.card.params.iter().filter_map(in_force).collect(),
            label: self.label(),
        })
    }

    /// Returns the kind, the target and the set parameters, in the card's order.
    fn label(&self) -> String {
        let set = |param: &Param| Some(format!("{}={}", param.name, self.set.get(param.name)?));
        let parts = [self.card.name.to_owned(), self.target().to_string()].into_iter();
        let parts = parts.chain(self.card.params.iter().filter_map(set)).filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(" ")
    }
}

pub(super) fn fault<'c>(
    item: &TomlValue<'_>,
    cards: &'c [FaultCard],
    sink: &Sink<'_>,
) -> Option<FaultEntry<'c>> {
    let help = "write { kind = \"kill\", at = \"5s\", duration = \"2s\" }";
    let keys = expect(item.get_ref().as_table(), item, "a fault", help, sink)?;
    let found = keys.get("kind").and_then(|kind| Some((card(kind, cards, sink)?, kind.span())));
    // The valid parameters depend on the kind.
    let every = || cards.iter().flat_map(|card| card.params);
    let params: Vec<Param> =
        found.as_ref().map_or_else(|| every().copied().collect(), |(card, _)| card.params.to_vec());
    let names: Vec<&'static str> = params.iter().map(|param| param.name).collect();
    let mut keys = known_keys(Section::Fault, keys, &names, |key| owners(key, cards), sink);
    if keys.get("kind").is_none() {
        let all = format!("the faults are {}", listed(cards.iter().map(|card| card.name)));
        sink.error(item.span(), "the fault has no `kind`", all);
    }
    let mut set = Set::new();
    for param in &params {
        if let (Some(value), true) = (keys.remove(param.name), found.is_some()) {
            let read = plain(&value).and_then(|plain| param_value(param, &plain));
            set.extend(sink.checked(value.span(), read).map(|value| (param.name, value)));
        }
    }
    let target = keys.get("target").cloned();
    let Given { said, places } = section(Section::Fault, &keys, sink);
    let (card, span) = found?;
    let word = target.and_then(|value| target_word(card, &value, sink));
    Some(FaultEntry { card, span, places, said, word, set })
}

fn card<'c>(kind: &TomlValue<'_>, cards: &'c [FaultCard], sink: &Sink<'_>) -> Option<&'c FaultCard> {
    let names = || cards.iter().map(|card| card.name);
    let name = expect(kind.get_ref().as_str(), kind, "a fault's name", "write it in quotes", sink)?;
    let found = cards.iter().find(|card| card.name == name);
    if found.is_none() {
        let help = did_you_mean(name, names(), &format!("the faults are {}", listed(names())));
        sink.error(kind.span(), format!("unknown fault `{}`", shown(name, 60)), help);
    }
    found
}

/// Reads the target word. If the kind has a fixed target, `fault_rules` reports the key.
fn target_word(card: &FaultCard, value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<&'static str> {
    let number = match card.targets {
        Targets::Servers => "server = 1",
        Targets::Contenders => "contender = 0",
        Targets::Fixed => return None,
    };
    let nouns = card.targets.noun();
    let help = format!(
        "`{}` hits {nouns}: use one of these words in quotes, or select one of the {nouns} with {number}",
        card.name
    );
    sink.checked(value.span(), plain(value).and_then(|plain| word(&plain, &card.words(), &help)))
}

fn owners(key: &str, cards: &[FaultCard]) -> Option<String> {
    let takes = |card: &&FaultCard| card.params.iter().any(|param| param.name == key);
    let owners: Vec<_> = cards.iter().filter(takes).map(|card| card.name).collect();
    (!owners.is_empty()).then(|| format!("it is a parameter of {}", listed(owners)))
}
