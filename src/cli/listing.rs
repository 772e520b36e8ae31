//! What `strategies` and `faults` have in common: all of a kind in one line each, or all about the one that was named.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::output;
use crate::catalog::Param;
use crate::error::{Error, Exit};
use crate::scenario::nearest;

/// What can be listed.
pub trait Listed: Sized {
    /// What one of them is called.
    const NOUN: &'static str;

    /// Its name.
    fn name(&self) -> &'static str;

    /// One line for each of them.
    fn list(all: &[Self]) -> String;

    /// All about it, for people.
    fn describe(&self) -> String;

    /// All about it, for programs.
    fn machine(&self) -> Value;
}

/// Prints the list, or the one that was named.
///
/// # Errors
/// Usage, with the nearest name and all names, for one that there is not.
pub fn print<T: Listed>(all: Vec<T>, named: Option<&str>, as_json: bool) -> Result<Exit, Error> {
    let chosen = match named {
        Some(name) => vec![find(name, all)?],
        None => all,
    };
    if as_json {
        output::json(&chosen.iter().map(T::machine).collect::<Vec<_>>())?;
    } else if named.is_some() {
        output::data(&chosen.iter().map(T::describe).collect::<String>())?;
    } else {
        output::data(&T::list(&chosen))?;
    }
    Ok(Exit::Held)
}

fn find<T: Listed>(name: &str, all: Vec<T>) -> Result<T, Error> {
    let names: Vec<&str> = all.iter().map(T::name).collect();
    all.into_iter().find(|one| one.name() == name).ok_or_else(|| {
        let hint = nearest(name, names.iter().copied())
            .map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
        Error::usage(format!("there is no {} `{name}`{hint} There are: {}", T::NOUN, names.join(", ")))
    })
}

/// Parameters for programs.
#[must_use]
pub fn params(params: &[Param]) -> Vec<Value> {
    let values = |param: &Param| param.kind.in_words("");
    let one = |param: &Param| json!({ "name": param.name, "values": values(param), "default": param.default, "doc": param.doc });
    params.iter().map(one).collect()
}

/// One line for each, below a heading.
#[must_use]
pub fn table<const COLUMNS: usize>(
    heading: [&str; COLUMNS],
    rows: impl Iterator<Item = [&'static str; COLUMNS]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heading);
    rows.for_each(|row| {
        table.add_row(row);
    });
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
