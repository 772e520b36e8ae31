//! `strategies`: every lock in one line, or all about one.

use serde_json::{Value, json};

use super::args::StrategiesArgs;
use super::listing::{self, Listed};
use crate::catalog::LockCard;
use crate::error::{Error, Exit};
use crate::lock;

/// Prints the list, or the one that was named.
///
/// # Errors
/// A usage error for a name that there is not.
pub fn execute(args: &StrategiesArgs) -> Result<Exit, Error> {
    listing::print(lock::cards(), args.name.as_deref(), args.json)
}

impl Listed for LockCard {
    const NOUN: &'static str = "strategy";

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

fn list(cards: &[LockCard]) -> String {
    let row = |card: &LockCard| [card.name, card.summary, card.source];
    listing::table(["STRATEGY", "HOW", "SOURCE"], cards.iter().map(row))
}

fn describe(card: &LockCard) -> String {
    let mut text =
        format!("{}: {}\n\nSource: {}\n\n{}\n", card.name, card.summary, card.source, card.details.trim());
    text += &format!("\nGives: {}\n", promises(card).join(", "));
    for param in card.params {
        let values = param.kind.in_words("");
        let meaning = format!("{}{}", param.doc, card.only_with(param));
        text += &format!("\nParameter {} ({values}; default {}): {meaning}\n", param.name, param.default);
    }
    text
}

fn promises(card: &LockCard) -> Vec<&'static str> {
    let given = card.guarantees;
    [
        if given.exclusive { "mutual exclusion" } else { "no mutual exclusion" },
        if given.fifo { "order of arrival" } else { "no order" },
        if given.reentrant { "reentrant" } else { "not reentrant" },
        if given.protected { "protected against a lost create response" } else { "not protected" },
        if given.watches { "waits by watches" } else { "waits by looking again" },
    ]
    .into()
}

fn machine(card: &LockCard) -> Value {
    let given = card.guarantees;
    json!({
        "name": card.name,
        "summary": card.summary,
        "source": card.source,
        "details": card.details.trim(),
        "guarantees": {
            "exclusive": given.exclusive,
            "fifo": given.fifo,
            "reentrant": given.reentrant,
            "protected": given.protected,
            "watches": given.watches,
        },
        "params": listing::params(card.params),
    })
}
