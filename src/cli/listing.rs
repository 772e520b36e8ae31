//! `strategies`, `faults` and `scenarios`: list all items, one per row, or describe one.

use serde_json::{Value, json};

use super::output;
use super::scenario_source::Shipped;

use zklockbench_core::catalog::after::{After, Event, Outcome};
use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::catalog::{LockCard, Param};
use zklockbench_core::error::{Error, Exit};
use zklockbench_report::{Columns, Style, table_text};
use zklockbench_scenario::did_you_mean;

pub trait Listing: Sized {
    const NOUN: &'static str;

    /// Name of both the command and the JSON field with the items.
    const COMMAND: &'static str;

    /// Whether the description may be wrapped.
    const IS_PROSE: bool = true;

    /// Returns all names of the item, starting with the canonical name.
    fn names(&self) -> Vec<&'static str>;

    /// Columns of the list: the name, a text that may wrap, and any others.
    fn columns<'c>() -> Columns<'c, &'c Self>;

    fn describe(&self) -> String;

    fn machine(&self) -> Value;
}

/// Minimum width of a list.
const WIDTH: u16 = 80;

pub fn print<T: Listing>(all: Vec<T>, named: Option<&str>) -> Result<Exit, Error> {
    let chosen = match named {
        Some(name) => vec![find(name, all)?],
        None => all,
    };
    let all: Vec<Value> = chosen.iter().map(T::machine).collect();
    output::tell(T::COMMAND, Exit::Held, &json!({ T::COMMAND: all }), || {
        if named.is_none() {
            let list = T::columns().table("", 2, &chosen);
            let width = Some(output::width().unwrap_or(WIDTH).max(WIDTH));
            return output::data(&table_text(&list, Style { width, ..output::style() }));
        }
        let text: String = chosen.iter().map(T::describe).collect();
        if T::IS_PROSE { output::text(&text) } else { output::data(&text) }
    })
}

pub fn strategy(name: &str) -> Result<LockCard, Error> {
    find(name, zklockbench_locks::cards())
}

fn find<T: Listing>(name: &str, all: Vec<T>) -> Result<T, Error> {
    let names: Vec<&str> = all.iter().map(|one| one.names()[0]).collect();
    let every: Vec<&str> = all.iter().flat_map(T::names).collect();
    all.into_iter().find(|one| one.names().contains(&name)).ok_or_else(|| {
        let help = did_you_mean(name, every, &format!("available: {}", names.join(", ")));
        Error::usage(format!("there is no {} `{name}`; {help}", T::NOUN))
    })
}

fn head(name: &str, summary: &str, source: &str, details: &str) -> String {
    format!("{name}: {summary}\n\nSource: {source}\n\n{}\n", details.trim())
}

fn parameter(param: &Param, only_with: &str) -> String {
    let Param { name, default, doc, .. } = param;
    format!("\nParameter {name} ({}; default {default}): {doc}{only_with}\n", param.kind.in_words(""))
}

fn params(params: &[Param]) -> Vec<Value> {
    let values = |param: &Param| param.kind.in_words("");
    let one = |param: &Param| json!({ "name": param.name, "values": values(param), "default": param.default, "doc": param.doc });
    params.iter().map(one).collect()
}

impl Listing for LockCard {
    const NOUN: &'static str = "strategy";
    const COMMAND: &'static str = "strategies";

    fn names(&self) -> Vec<&'static str> {
        Self::names(self).collect()
    }

    fn columns<'c>() -> Columns<'c, &'c Self> {
        Columns::<&Self>::new().words("strategy", |card| card.marked_name()).words("how", |card| card.summary)
    }

    fn describe(&self) -> String {
        let mut text = head(&self.marked_name(), self.summary, self.source, &self.described());
        for after in self.after {
            let with = after.with.map(|with| format!(", with {with}")).unwrap_or_default();
            text += &format!("\nAfter an event{with}:\n");
            text.extend(
                after.rows(&self.after[0]).iter().map(|row| format!("  {}: {}\n", row.after, row.it)),
            );
        }
        if !self.aliases.is_empty() {
            text += &format!("\nAlso called: {}\n", self.aliases.join(", "));
        }
        text += &format!("\nProperties: {}\n", promises(self).join(", "));
        for param in self.params {
            text += &parameter(param, &self.only_with(param));
        }
        text
    }

    fn machine(&self) -> Value {
        let given = self.guarantees;
        json!({
            "name": self.name,
            "aliases": self.aliases,
            "system": self.system,
            "summary": self.summary,
            "source": self.source,
            "details": self.described(),
            "guarantees": {
                "exclusive": given.exclusive,
                "fifo": given.fifo,
                "reentrant": given.reentrant,
                "protection": given.protection,
                "watches": given.watches,
            },
            "after": self.after.iter().map(after).collect::<Vec<_>>(),
            "params": params(self.params),
        })
    }
}

fn after(after: &After) -> Value {
    let can_happen = Event::ALL.into_iter().filter(|event| after.outcome(*event) != Outcome::Never);
    let outcomes: serde_json::Map<String, Value> = can_happen
        .map(|event| (event.name().to_owned(), after.outcome(event).in_words(event).into()))
        .collect();
    let with = after.with.map(|with| json!({ with.param: with.word }));
    json!({ "with": with, "outcomes": outcomes })
}

fn promises(card: &LockCard) -> Vec<&'static str> {
    let given = card.guarantees;
    [
        if given.exclusive { "mutual exclusion" } else { "no mutual exclusion" },
        if given.fifo { "order of arrival" } else { "no order" },
        if given.reentrant { "reentrant" } else { "not reentrant" },
        given.protection.in_words(),
        if given.watches { "waits on watches" } else { "waits by polling" },
    ]
    .into()
}

impl Listing for FaultCard {
    const NOUN: &'static str = "fault";
    const COMMAND: &'static str = "faults";

    fn names(&self) -> Vec<&'static str> {
        vec![self.name]
    }

    fn columns<'c>() -> Columns<'c, &'c Self> {
        let named = Columns::<&Self>::new().words("fault", |card| card.name);
        named.words("what", |card| card.summary).words("hits", |card| card.targets.noun())
    }

    fn describe(&self) -> String {
        let mut text = head(self.name, self.summary, self.source, self.details);
        text += &match self.words().as_slice() {
            [] => format!("\nHits: {}\n", self.targets.noun()),
            words => {
                format!(
                    "\nHits: {}, or one by its number; default {}\n",
                    words.join(", "),
                    self.default_target
                )
            }
        };
        text += &format!("Ends: {}\nNeeds: {}\n", self.ends.in_words(), self.needs.in_words());
        if self.least_servers > 1 {
            text += &format!("Servers: at least {}\n", self.least_servers);
        }
        for param in self.params {
            text += &parameter(param, "");
        }
        text
    }

    fn machine(&self) -> Value {
        json!({
            "name": self.name,
            "summary": self.summary,
            "source": self.source,
            "details": self.details.trim(),
            "hits": self.targets.noun(),
            "targets": self.words(),
            "default_target": (!self.default_target.is_empty()).then_some(self.default_target),
            "healed": self.ends == Ends::Healed,
            "needs": self.needs.in_words(),
            "least_servers": self.least_servers,
            "params": params(self.params),
        })
    }
}

impl Listing for Shipped {
    const NOUN: &'static str = "scenario";
    const COMMAND: &'static str = "scenarios";
    const IS_PROSE: bool = false;

    fn names(&self) -> Vec<&'static str> {
        vec![self.name]
    }

    fn columns<'c>() -> Columns<'c, &'c Self> {
        Columns::<&Self>::new().words("scenario", |one| one.name).words("asks", |one| one.description())
    }

    fn describe(&self) -> String {
        self.text.to_owned()
    }

    fn machine(&self) -> Value {
        json!({ "name": self.name, "description": self.description(), "text": self.text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_are_reported_with_the_nearest_name_or_all_names() {
        let told = |name| strategy(name).unwrap_err().to_string();
        assert_eq!(told("poling"), "there is no strategy `poling`; did you mean `polling`?");
        assert_eq!(told("child-wach"), "there is no strategy `child-wach`; did you mean `child-watch`?");
        assert_eq!(strategy("child-watch").unwrap().name, "predecessor-watch");
        let zebra = told("zebra");
        assert!(zebra.starts_with("there is no strategy `zebra`; available: "), "{zebra}");
    }
}
