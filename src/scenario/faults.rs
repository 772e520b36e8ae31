//! The `[[fault]]` tables, read against the cards of the faults that exist.
//!
//! Values only: what does not go together is `fault_rules`' business.

use std::ops::Range;

use toml::de::DeValue;

use super::fields::{FAULT, Section};
use super::keys::{FaultKeys, Keys, Places};
use super::nearest::{did_you_mean, listed};
use super::read::{ListOfTables, Sink, TomlValue, expect_text, shortened, wrong_type};
use super::values::{Given, default_value, given_value};
use crate::words::catalog::fault::{FaultCard, FaultChoice, Start, Target, Targets};
use crate::words::catalog::{Param, Params};

/// A fault as far as it could be read.
pub(super) struct FaultDraft<'c> {
    pub(super) card: &'c FaultCard,
    /// Where its kind stands: a place to point at for what is not there.
    pub(super) span: Range<usize>,
    pub(super) places: Places,
    pub(super) said: FaultKeys,
    /// Its target, where that is a word.
    word: Option<&'static str>,
    given: Given,
}

impl FaultDraft<'_> {
    pub(super) fn target(&self) -> Target {
        match (self.card.targets, self.said.server, self.said.contender) {
            (Targets::Fixed, _, _) => Target::Fixed,
            (Targets::Servers, Some(number), _) => Target::Server(number),
            (Targets::Contenders, _, Some(number)) => Target::Contender(number),
            _ => Target::Word(self.word.unwrap_or(self.card.default_target)),
        }
    }

    pub(super) fn choice(&self) -> Option<FaultChoice> {
        let start = match self.said.at {
            Some(at) => Start::At(at),
            None => Start::AfterAcquisitions(self.said.after_acquisitions?),
        };
        Some(FaultChoice {
            kind: self.card.name.to_owned(),
            target: self.target(),
            start,
            duration: self.said.duration,
            times: self.said.times?,
            every: self.said.every.unwrap_or_default(),
            jitter: self.said.jitter?,
            params: self.params(),
            label: self.label(),
        })
    }

    fn params(&self) -> Params {
        let value = |param| self.given.get(param).cloned();
        let params = self.card.params.iter();
        params
            .filter_map(|param| {
                Some((param.name.to_owned(), value(param.name).or_else(|| default_value(param))?))
            })
            .collect()
    }

    /// Kind, target and what was set, in the order of the card.
    pub(super) fn label(&self) -> String {
        let target = self.target().to_string();
        let set =
            self.card.params.iter().filter_map(|param| {
                self.given.get(param.name).map(|value| format!("{}={value}", param.name))
            });
        let parts = [self.card.name.to_owned(), target].into_iter().chain(set);
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// Reads the list: every fault whose kind could be read.
pub(super) fn faults<'c>(
    value: &TomlValue<'_>,
    cards: &'c [FaultCard],
    sink: &Sink<'_>,
) -> Vec<FaultDraft<'c>> {
    let list = ListOfTables {
        key: FAULT,
        what: "a list of faults",
        help: "write `[[fault]]` and, under it, kind = \"kill\"",
    };
    list.read(value, sink, |item| fault(item, cards, sink))
}

fn fault<'c>(item: &TomlValue<'_>, cards: &'c [FaultCard], sink: &Sink<'_>) -> Option<FaultDraft<'c>> {
    let DeValue::Table(entries) = item.get_ref() else {
        let help = "write { kind = \"kill\", at = \"5s\", duration = \"2s\" }";
        wrong_type(item, "a fault", help, sink);
        return None;
    };
    let mut keys = Keys::new(entries, Section::Fault, sink);
    let found = kind(&mut keys, item, cards, sink);
    let card = found.as_ref().map(|(card, _)| *card);
    keys.know(card.iter().flat_map(|card| card.params).map(|param| param.name));
    let said = FaultKeys::read(&mut keys);
    let word = keys.read("target", |value, _, sink| word(card?, value, sink));
    // Without its kind it can't be told which other keys it takes.
    let (card, span) = found?;
    let given = given(&mut keys, card, sink);
    let places = keys.finish_beside(|key| owners(key, cards));
    Some(FaultDraft { card, span, places, said, word, given })
}

fn kind<'c>(
    keys: &mut Keys<'_, '_, '_>,
    item: &TomlValue<'_>,
    cards: &'c [FaultCard],
    sink: &Sink<'_>,
) -> Option<(&'c FaultCard, Range<usize>)> {
    let names = || cards.iter().map(|card| card.name);
    let all = format!("the faults are {}", listed(names()));
    let Some(entry) = keys.take("kind") else {
        sink.missing(item.span(), "the fault has no `kind`", all);
        return None;
    };
    let name = expect_text(entry.value, "a fault's name", "write it in quotes", sink)?;
    let found = cards.iter().find(|card| card.name == name);
    if found.is_none() {
        let message = format!("unknown fault `{}`", shortened(name));
        sink.error(entry.value.span(), message, did_you_mean(name, names(), &all));
    }
    found.map(|card| (card, entry.value.span()))
}

/// One of the words for the kind's targets. Where the kind has none, that is said by the rules.
fn word(card: &FaultCard, value: &TomlValue<'_>, sink: &Sink<'_>) -> Option<&'static str> {
    let words = card.words();
    let number = match card.targets {
        Targets::Servers => "server = 1",
        Targets::Contenders => "contender = 0",
        Targets::Fixed => return None,
    };
    let all = listed(words.iter().copied());
    let help =
        format!("write one of these words in quotes, or name one of the {} by {number}", card.targets.noun());
    let text = expect_text(value, &format!("one of {all}"), &help, sink)?;
    let found = words.iter().copied().find(|word| *word == text);
    if found.is_none() {
        let otherwise = format!("`{}` hits {}: {help}", card.name, card.targets.noun());
        let message = format!("`{}` is not one of {all}", shortened(text));
        sink.error(value.span(), message, did_you_mean(text, words, &otherwise));
    }
    found
}

fn given(keys: &mut Keys<'_, '_, '_>, card: &FaultCard, sink: &Sink<'_>) -> Given {
    let set = |param: &Param| {
        let entry = keys.take(param.name)?;
        Some((param.name, given_value(param, entry.value, sink)?))
    };
    card.params.iter().filter_map(set).collect()
}

/// What to do about a key that is a parameter of other kinds.
fn owners(key: &str, cards: &[FaultCard]) -> Option<String> {
    let takes = |card: &&FaultCard| card.params.iter().any(|param| param.name == key);
    let owners: Vec<_> = cards.iter().filter(takes).map(|card| card.name).collect();
    (!owners.is_empty()).then(|| format!("it is a parameter of {}", listed(owners)))
}
