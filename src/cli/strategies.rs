//! `strategies`: every lock in one line, or all about one.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use super::args::StrategiesArgs;
use super::output;
use crate::catalog::LockCard;
use crate::error::{Error, Exit};
use crate::lock;
use crate::scenario::nearest;

/// Prints the list, or the one that was named.
///
/// # Errors
/// A usage error for a name that there is not.
pub fn execute(args: &StrategiesArgs) -> Result<Exit, Error> {
    let cards = match &args.name {
        Some(name) => vec![find(name)?],
        None => lock::cards(),
    };
    if args.json {
        let values: Vec<_> = cards.iter().map(machine).collect();
        output::json(&values)?;
    } else if args.name.is_some() {
        output::data(&cards.iter().map(describe).collect::<String>())?;
    } else {
        output::data(&list(&cards))?;
    }
    Ok(Exit::Held)
}

fn find(name: &str) -> Result<LockCard, Error> {
    let cards = lock::cards();
    let names: Vec<&str> = cards.iter().map(|card| card.name).collect();
    cards.iter().find(|card| card.name == name).copied().ok_or_else(|| {
        let hint = nearest(name, names.iter().copied())
            .map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
        Error::usage(format!("there is no strategy `{name}`{hint} There are: {}", names.join(", ")))
    })
}

fn list(cards: &[LockCard]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["STRATEGY", "HOW", "SOURCE"]);
    for card in cards {
        table.add_row([card.name, card.summary, card.source]);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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

fn machine(card: &LockCard) -> serde_json::Value {
    let given = card.guarantees;
    let params: Vec<_> = card
        .params
        .iter()
        .map(|param| json!({ "name": param.name, "values": param.kind.in_words(""), "default": param.default, "doc": param.doc }))
        .collect();
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
        "params": params,
    })
}
