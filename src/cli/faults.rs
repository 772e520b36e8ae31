//! `faults`: everything that can go wrong on purpose in one line each, or all about one.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use super::args::FaultsArgs;
use super::output;
use crate::catalog::fault::{Ends, FaultCard};
use crate::error::{Error, Exit};
use crate::fault;
use crate::scenario::nearest;

/// Prints the list, or the one that was named.
///
/// # Errors
/// A usage error for a name that there is not.
pub fn execute(args: &FaultsArgs) -> Result<Exit, Error> {
    let cards = match &args.kind {
        Some(kind) => vec![find(kind)?],
        None => fault::cards(),
    };
    if args.json {
        let values: Vec<_> = cards.iter().map(machine).collect();
        output::json(&values)?;
    } else if args.kind.is_some() {
        output::data(&cards.iter().map(describe).collect::<String>())?;
    } else {
        output::data(&list(&cards))?;
    }
    Ok(Exit::Held)
}

fn find(kind: &str) -> Result<FaultCard, Error> {
    fault::find(kind).map(|entry| entry.card).ok_or_else(|| {
        let names: Vec<&str> = fault::FAULTS.iter().map(|entry| entry.card.name).collect();
        let hint = nearest(kind, names.iter().copied())
            .map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
        Error::usage(format!("there is no fault `{kind}`{hint} There are: {}", names.join(", ")))
    })
}

fn list(cards: &[FaultCard]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["FAULT", "WHAT", "HITS", "ENDS"]);
    for card in cards {
        table.add_row([card.name, card.summary, card.targets.noun(), card.ends.in_words()]);
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
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

fn machine(card: &FaultCard) -> serde_json::Value {
    let params: Vec<_> = card
        .params
        .iter()
        .map(|param| {
            let values = param.kind.in_words("");
            json!({ "name": param.name, "values": values, "default": param.default, "doc": param.doc })
        })
        .collect();
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
        "params": params,
    })
}
