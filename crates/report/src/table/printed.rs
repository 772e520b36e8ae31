//! Output of a command: the outcome, one table, and a few lines; with `--all`, every table and remark.

use super::layout::{Style, drawn, fitted, wrapped};
use crate::document::Table;
use zklockbench_core::units::{counted, grouped, joined, one_line, shown};

/// Everything that a command may print.
#[derive(Debug, Default)]
pub(crate) struct Printed {
    /// The outcome, already coloured and wrapped.
    pub outcome: String,
    /// Text above the tables, such as gates.
    pub above: Option<String>,
    /// Tables; the first one with rows is always printed.
    pub tables: Vec<Table>,
    /// Pictures below the first table; only the first is printed without `--all`.
    pub pictures: Vec<String>,
    /// Remarks, most important first. A prefix `!` marks a remark that starts with its kind. Without `--all`,
    /// only the first remark of each kind is printed.
    pub remarks: Vec<String>,
    /// Lines that are always printed: the basis of the outcome.
    pub basis: Vec<String>,
    /// Additional lines with `--all`.
    pub more: Vec<String>,
}

/// Default and maximum width of the brief output.
const WIDTH: u16 = 80;
/// Maximum number of lines below the table, besides the path of the results.
const LINES: usize = 4;
/// Maximum length of a remark, in characters.
const LETTERS: usize = 240;

impl Printed {
    pub fn text(self, style: Style) -> String {
        if style.all { self.whole(style) } else { self.brief(style) }
    }

    fn whole(self, style: Style) -> String {
        let mut said = vec![self.outcome, String::new()];
        said.extend(self.above);
        let tables = self.tables.iter().filter(|table| !table.is_empty());
        said.extend(tables.flat_map(|table| [drawn(table, style), vec![String::new()]].concat()));
        said.extend(self.pictures);
        said.extend(self.remarks.iter().map(|remark| line(remark, style)));
        said.extend(self.more.iter().map(|remark| line(remark, style)));
        said.extend(self.basis);
        finished(said)
    }

    fn brief(self, style: Style) -> String {
        let narrow = Style { width: Some(style.width.unwrap_or(WIDTH).min(WIDTH)), ..style };
        let mut said = vec![self.outcome, String::new()];
        said.extend(self.above);
        let mut tables = self.tables.iter().filter(|table| !table.is_empty());
        let first = tables.next();
        let can_explain = first.is_some() && !style.explain;
        let mut columns = 0;
        if let Some(grid) = first {
            let (table, left_out) = fitted(grid, narrow);
            columns = left_out.len();
            said.extend([table, String::new()]);
            said.extend(style.explain.then(|| line(&grid.legend(&left_out), style) + "\n"));
        }
        let mut pictures = self.pictures.into_iter();
        said.extend(pictures.next());
        let remarks = once_a_kind(&self.remarks);
        let room = LINES.saturating_sub(self.basis.len()).max(1);
        let more = self.remarks.len() + self.more.len() - remarks.len().min(room);
        let hidden = hidden([columns, tables.count(), pictures.len(), more], can_explain);
        said.extend(remarks.into_iter().take(room).map(|remark| line(&shown(&remark, LETTERS), style)));
        said.extend(self.basis);
        said.extend(hidden);
        finished(said)
    }
}

fn finished(mut said: Vec<String>) -> String {
    while said.last().is_some_and(String::is_empty) {
        said.pop();
    }
    said.join("\n") + "\n"
}

fn line(remark: &str, style: Style) -> String {
    let width = style.text_width();
    let (begin, rest) = remark.strip_prefix("! ").map_or(("", remark), |rest| ("! ", rest));
    wrapped(&one_line(rest), begin, width)
}

/// Returns the remarks, with only the first of each kind.
fn once_a_kind(remarks: &[String]) -> Vec<String> {
    let kind = |at: usize, remark: &str| {
        let kind = remark.strip_prefix("! ").and_then(|rest| rest.split_once(':'));
        kind.map_or_else(|| at.to_string(), |(kind, _)| kind.to_owned())
    };
    let kinds = grouped(remarks.iter().enumerate().map(|(at, remark)| (kind(at, remark), remark)));
    let first = |(_, same): (String, Vec<&String>)| match same.as_slice() {
        [one] => (*one).clone(),
        [first, others @ ..] => format!("{first} ({} more)", others.len()),
        [] => String::new(),
    };
    kinds.into_iter().map(first).collect()
}

/// Returns a line on the columns, tables, pictures and remarks that `--all` adds, and on `--explain`.
fn hidden(counts: [usize; 4], can_explain: bool) -> Option<String> {
    const NOUNS: [[&str; 2]; 4] =
        [["column", "columns"], ["table", "tables"], ["picture", "pictures"], ["remark", "remarks"]];
    let parts = counts.into_iter().zip(NOUNS).filter(|(count, _)| *count > 0);
    let parts = joined(parts.map(|(count, [one, many])| counted(count, one, many)), ", ");
    let all = (!parts.is_empty()).then(|| format!("--all adds {parts}"));
    let explain = can_explain.then(|| "--explain explains the columns".to_owned());
    let both = joined(all.into_iter().chain(explain), "; ");
    (!both.is_empty()).then(|| format!("({both})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_remark_of_each_kind_is_printed_with_the_number_of_omitted_remarks() {
        let remarks = ["! invalid: a", "b is faster.", "! stuck: c", "! invalid: d"].map(str::to_owned);
        assert_eq!(once_a_kind(&remarks), ["! invalid: a (1 more)", "b is faster.", "! stuck: c"]);
    }
}
