//! `faults`: everything that can go wrong on purpose in one line each, or all about one.

use serde_json::{Value, json};

use super::args::FaultsArgs;
use super::listing::{self, Listed};
use crate::catalog::fault::{Ends, FaultCard};
use crate::error::{Error, Exit};
use crate::fault;

/// Prints the list, or the one that was named.
///
/// # Errors
/// A usage error for a name that there is not.
pub fn execute(args: &FaultsArgs) -> Result<Exit, Error> {
    listing::print(fault::cards(), args.kind.as_deref(), args.json)
}

impl Listed for FaultCard {
    const NOUN: &'static str = "fault";

    fn name(&self) -> &'static str {
        self.name
    }

    fn list(all: &[Self]) -> String {
        list(all)
    }

    fn describe(&self) -> String {
        describe(self)
    }

    fn machine(&self) -> Value {
        machine(self)
    }
}

fn list(cards: &[FaultCard]) -> String {
    let row = |card: &FaultCard| [card.name, card.summary, card.targets.noun(), card.ends.in_words()];
    listing::table(["FAULT", "WHAT", "HITS", "ENDS"], cards.iter().map(row))
}

fn describe(card: &FaultCard) -> String {
    let mut text =
        format!("{}: {}\n\nSource: {}\n\n{}\n", card.name, card.summary, card.source, card.details.trim());
    text += &match card.words().as_slice() {
        [] => format!("\nHits: {}\n", card.targets.noun()),
        words => {
            format!("\nHits: {}, or one by its number; default {}\n", words.join(", "), card.default_target)
        }
    };
    text += &format!("Ends: {}\nNeeds: {}\n", card.ends.in_words(), card.needs.in_words());
    if card.least_servers > 1 {
        text += &format!("Servers: at least {}\n", card.least_servers);
    }
    for param in card.params {
        let values = param.kind.in_words("");
        text += &format!("\nParameter {} ({values}; default {}): {}\n", param.name, param.default, param.doc);
    }
    text
}

fn machine(card: &FaultCard) -> Value {
    json!({
        "name": card.name,
        "summary": card.summary,
        "source": card.source,
        "details": card.details.trim(),
        "hits": card.targets.noun(),
        "targets": card.words(),
        "default_target": (!card.default_target.is_empty()).then_some(card.default_target),
        "healed": card.ends == Ends::Healed,
        "needs": card.needs.in_words(),
        "least_servers": card.least_servers,
        "params": listing::params(card.params),
    })
}
