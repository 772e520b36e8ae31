//! Layout of tables, lists and text for a terminal's width or as Markdown.

use comfy_table::{
    Attribute, Cell as Text, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle,
    Table as Drawing, TableStyle,
};

use crate::document::{Table, Tone, Value};
use zklockbench_core::units::{harmless, joined};

/// The only rule is below the headings, in a character that every terminal supports.
const LEAN: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-'));

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    pub colour: bool,
    /// Width in characters; `None` for no limit.
    pub width: Option<u16>,
    /// Whether every table, column and remark is printed.
    pub all: bool,
    /// Whether columns are explained below their table.
    pub explain: bool,
}

impl Style {
    /// All output, without colours or wrapping.
    pub const EVERYTHING: Self = Self { colour: false, width: None, all: true, explain: true };

    /// Returns the line width of text.
    pub(super) fn text_width(self) -> usize {
        self.width.map_or(usize::MAX, usize::from).max(40)
    }
}

/// Returns a paragraph wrapped at `width`. The first line starts with `begin`; the others are indented to match.
pub fn wrapped(text: &str, begin: &str, width: usize) -> String {
    let indent = " ".repeat(begin.len());
    let options = textwrap::Options::new(width).initial_indent(begin).subsequent_indent(&indent);
    textwrap::fill(text, options.break_words(false).word_splitter(textwrap::WordSplitter::NoHyphenation))
}

/// Returns a table that fits the width.
pub fn table_text(table: &Table, style: Style) -> String {
    fitted(table, style).0
}

/// Returns a table that fits the width, then its omitted columns and, if requested, explanations of its
/// columns.
pub(super) fn drawn(grid: &Table, style: Style) -> Vec<String> {
    let (table, left_out) = fitted(grid, style);
    let mut said = vec![table];
    let legend = grid.legend(&left_out);
    if style.explain && !legend.is_empty() {
        said.extend([String::new(), legend]);
    }
    let names = left_out.join(", ");
    said.extend((!left_out.is_empty()).then(|| format!("Left out at this width: {names}.")));
    said
}

/// Returns the table without columns that do not fit, and their headings. If the required columns do not fit,
/// labels are wrapped or placed above their rows; as a last resort, each row becomes a line of text.
pub(super) fn fitted(grid: &Table, style: Style) -> (String, Vec<&'static str>) {
    let Some(width) = style.width.map(usize::from) else { return (draw(grid, style, None), Vec::new()) };
    let (narrow, left_out) = without_spare_columns(grid.clone(), width);
    if width_of(&narrow) <= width {
        return (draw(&narrow, style, None), left_out);
    }
    if has_room_for_labels(&narrow, width) {
        return (draw(&narrow, style, style.width), left_out);
    }
    let beside = grid.clone().without_labels();
    let (rest, left_out) = without_spare_columns(beside, width.saturating_sub(INDENT.len()));
    if width_of(&rest) + INDENT.len() <= width {
        return (below_labels(grid, &draw(&rest, style, None)), left_out);
    }
    (stacked(grid, style), Vec::new())
}

fn without_spare_columns(mut grid: Table, width: usize) -> (Table, Vec<&'static str>) {
    let mut left_out = Vec::new();
    while width_of(&grid) > width
        && let Some(heading) = grid.remove_spare_column()
    {
        left_out.push(heading);
    }
    (grid, left_out)
}

const INDENT: &str = "  ";

/// Returns a table drawn without its label columns, with the labels on lines above their rows.
fn below_labels(grid: &Table, drawn: &str) -> String {
    let mut lines = drawn.lines();
    let mut said: Vec<String> = lines.by_ref().take(2).map(|line| format!("{INDENT}{line}")).collect();
    let mut last: &[Value] = &[];
    for (row, line) in grid.rows.iter().zip(lines) {
        let labels = &row[..grid.labels];
        said.extend(named_above(grid, labels, last));
        said.push(format!("{INDENT}{line}"));
        last = labels;
    }
    said.join("\n")
}

/// Returns the labels of a row on one line, unless they match those of the previous row.
fn named_above(grid: &Table, labels: &[Value], last: &[Value]) -> Option<String> {
    let named = grid.columns.iter().zip(labels).map(|(column, value)| match column.numbers {
        true => format!("{} {}", value.shown(), column.heading),
        false => value.shown(),
    });
    (labels != last).then(|| joined(named, ", "))
}

/// Returns the width of a table without wrapping, measured without colour codes, which take no space.
fn width_of(grid: &Table) -> usize {
    let plain = draw(grid, Style::default(), None);
    plain.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// Returns whether the label columns are at least as wide as their longest word.
fn has_room_for_labels(grid: &Table, width: usize) -> bool {
    let longest = |at: usize, of: fn(&str) -> usize| {
        let values = grid.rows.iter().map(|row| of(&row[at].shown()));
        values.max().unwrap_or(0).max(of(grid.columns[at].heading))
    };
    let sum = |of: fn(&str) -> usize| (0..grid.labels).map(|at| longest(at, of)).sum::<usize>();
    let whole = |text: &str| text.chars().count();
    let word = |text: &str| text.split_whitespace().map(|word| word.chars().count()).max().unwrap_or(0);
    width_of(grid) - sum(whole) + sum(word) <= width
}

/// Returns each row as a line of text with the headings, below its labels.
fn stacked(grid: &Table, style: Style) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut last: &[Value] = &[];
    for row in &grid.rows {
        let (labels, values) = row.split_at(grid.labels);
        lines.extend(named_above(grid, labels, last));
        last = labels;
        let columns = grid.columns[grid.labels..].iter().zip(values);
        let told = columns.filter(|(_, value)| !value.is_not_measured());
        let told = told.map(|(column, value)| format!("{} {}", column.heading, painted(value, style)));
        lines.push(format!("{INDENT}{}", joined(told, "; ")));
    }
    lines.join("\n")
}

pub(super) fn painted(value: &Value, style: Style) -> String {
    let text = console::style(value.shown()).force_styling(style.colour);
    let text = match value.tone() {
        Tone::Bad => text.red().bold(),
        Tone::Doubtful => text.yellow(),
        Tone::Good => text.green(),
        Tone::Plain => text,
    };
    text.to_string()
}

fn draw(grid: &Table, style: Style, width: Option<u16>) -> String {
    let mut table = Drawing::new();
    table.load_style(LEAN);
    if style.colour {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let headings = grid.columns.iter().map(|column| Text::new(column.heading));
    table.set_header(headings.map(|heading| heading.add_attribute(Attribute::Bold)));
    let mut last: &[Value] = &[];
    for row in &grid.rows {
        // A strategy is named once, above all its contender counts.
        let same = row.iter().zip(last).take(grid.labels).take_while(|(value, above)| value == above).count();
        last = row;
        let shown = row.iter().enumerate();
        table.add_row(shown.map(|(at, value)| if at < same { Text::new("") } else { coloured(value) }));
    }
    for (column, look) in table.column_iter_mut().zip(&grid.columns) {
        column.set_padding((0, 1));
        column.set_cell_alignment(if look.numbers { CellAlignment::Right } else { CellAlignment::Left });
    }
    if let Some(width) = width {
        // Only the columns on the left are wrapped, because they have the longest labels.
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        for column in table.column_iter_mut().skip(grid.labels) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn coloured(value: &Value) -> Text {
    let cell = Text::new(value.shown());
    match value.tone() {
        Tone::Bad => cell.fg(Color::Red).add_attribute(Attribute::Bold),
        Tone::Doubtful => cell.fg(Color::Yellow),
        Tone::Good => cell.fg(Color::Green),
        Tone::Plain => cell,
    }
}

pub(crate) fn markdown_table(grid: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let headings: Vec<String> = grid.columns.iter().map(|column| column.heading.to_owned()).collect();
    let rule = grid.columns.iter().map(|column| if column.numbers { "---:" } else { "---" }.into()).collect();
    let rows = grid.rows.iter().map(|row| row.iter().map(|value| escaped(&value.shown())).collect());
    joined([headings, rule].into_iter().chain(rows).map(line), "\n")
}

/// Returns a text that Markdown shows verbatim, on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '[' | ']' => safe.extend(['\\', letter]),
            '<' => safe.push_str("&lt;"),
            '\n' | '\r' => safe.push(' '),
            other => safe += &harmless(other),
        }
    }
    safe
}

/// Returns a Markdown list; `None` if there are no lines.
pub(crate) fn bullets<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> Option<String> {
    let lines: Vec<String> = lines.into_iter().map(|line| format!("- {}", escaped(line.as_ref()))).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

pub(crate) fn folded(summary: &str, text: &str) -> String {
    format!("<details><summary>{summary}</summary>\n\n{text}\n\n</details>")
}
