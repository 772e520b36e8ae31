//! What `strategies` and `faults` have in common: the one that was named, and a table of all.

use comfy_table::{ContentArrangement, Table, presets};

use crate::error::Error;
use crate::scenario::nearest;

/// The one of that name.
///
/// # Errors
/// Usage, with the nearest name and all names, when there is none.
pub fn find<T>(
    what: &str,
    name: &str,
    all: Vec<T>,
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, Error> {
    let names: Vec<&str> = all.iter().map(&name_of).collect();
    all.into_iter().find(|one| name_of(one) == name).ok_or_else(|| {
        let hint = nearest(name, names.iter().copied())
            .map_or(".".to_owned(), |near| format!("; did you mean `{near}`?"));
        Error::usage(format!("there is no {what} `{name}`{hint} There are: {}", names.join(", ")))
    })
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
