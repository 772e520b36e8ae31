//! Prints data to stdout and everything else to stderr.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::ColorChoice;
use schemars::JsonSchema;
use serde::Serialize;

use super::args::GlobalArgs;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units;
use zklockbench_report::document::Table;
use zklockbench_report::{Style, table_text};
use zklockbench_scenario::MachineDiagnostic;

/// Options of the command line, set before any output.
static CHOSEN: OnceLock<GlobalArgs> = OnceLock::new();

pub(in crate::cli) fn choose(chosen: &GlobalArgs) {
    // Setting fails only if this function is called twice.
    let _ = CHOSEN.set(chosen.clone());
}

pub(in crate::cli) fn as_json() -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.json)
}

pub(in crate::cli) fn verbose() -> bool {
    CHOSEN.get().is_some_and(|chosen| chosen.verbose > 0)
}

/// Writes data to stdout. A closed pipe, as with `| head`, is not an error.
pub fn data(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    let text = harmless(text, may_colour(&out));
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::environment(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes text to stdout and wraps lines that are wider than the terminal.
pub fn text(text: &str) -> Result<(), Error> {
    data(&wrapped(text, width()))
}

/// Writes an outcome as text to stdout, or only its first line with `--quiet`.
pub(in crate::cli) fn outcome(
    is_quiet: bool,
    first_line: &str,
    whole: impl FnOnce() -> String,
) -> Result<(), Error> {
    if is_quiet { text(first_line) } else { text(&whole()) }
}

/// Wraps overlong lines between words; continuation lines keep the indentation.
fn wrapped(text: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| *width > 20) else { return text.to_owned() };
    let broken = |line: &str| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start_matches(' ').len());
        let letters = pieces(line).filter_map(|piece| match piece {
            Piece::Letter(letter) => Some(letter),
            Piece::Colour(_) => None,
        });
        let fits = letters.collect::<String>().trim_end().chars().count() <= width;
        if fits { line.to_owned() } else { zklockbench_report::wrapped(rest, indent, width) }
    };
    text.split('\n').map(broken).collect::<Vec<_>>().join("\n")
}

/// Version of the `--json` format. New fields do not change it.
const ANSWER_VERSION: u32 = 1;

/// Output of a command with `--json`: the fields of [`Envelope`], followed by the command's own fields.
#[derive(Serialize)]
struct JsonAnswer<'a, T> {
    #[serde(flatten)]
    envelope: Envelope<'a>,
    /// Results of the command, if any.
    #[serde(flatten)]
    found: Option<T>,
}

/// Common fields of every command's `--json` output.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "Output of a zklockbench command with --json")]
pub struct Envelope<'a> {
    /// Version of this layout: 1. New fields do not change it.
    schema_version: u32,
    /// Command, e.g. `run` or `ensemble up`; empty if the command line could not be parsed.
    command: &'a str,
    /// Exit code of the program.
    exit_code: u8,
    /// Error; null if the command completed, regardless of its findings.
    error: Option<Failure>,
}

#[derive(Serialize, JsonSchema)]
struct Failure {
    /// Category of the error.
    kind: Kind,
    /// Message as printed to stderr.
    message: String,
    /// Mistakes in a file, each with its position; empty for other errors.
    mistakes: Vec<MachineDiagnostic>,
}

/// Category of an error.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// A mistake in the arguments or in an input file.
    Usage,
    /// A problem with the host or the ensemble.
    Environment,
    /// Too little evidence for a verdict.
    Unknown,
    /// The user stopped the command.
    Interrupted,
}

/// Prints a command's outcome and returns its exit code. With `--json`, prints `found`; otherwise, calls
/// `to_people`. Fields of `found` must not clash with fields of [`Envelope`].
pub(in crate::cli) fn tell(
    command: &str,
    exit: Exit,
    found: &impl Serialize,
    to_people: impl FnOnce() -> Result<(), Error>,
) -> Result<Exit, Error> {
    conclude(command, exit, None, || found, to_people)
}

/// Like [`tell`], but also reports the error of a command that ended early.
pub(in crate::cli) fn conclude<T: Serialize>(
    command: &str,
    exit: Exit,
    cut_short: Option<Error>,
    found: impl FnOnce() -> T,
    to_people: impl FnOnce() -> Result<(), Error>,
) -> Result<Exit, Error> {
    if !as_json() {
        to_people()?;
        return cut_short.map_or(Ok(exit), Err);
    }
    let Some(error) = cut_short else { return answer(command, exit, None, Some(found())) };
    complain(&error);
    answer(command, error.exit(), Some((&error, Vec::new())), Some(found()))
}

/// Prints an error as JSON, with any mistakes in a file. [`complain`] prints the error as text.
pub fn answer_error(command: &str, error: &Error, mistakes: Vec<MachineDiagnostic>) -> Result<Exit, Error> {
    answer(command, error.exit(), Some((error, mistakes)), None::<()>)
}

fn answer(
    command: &str,
    exit: Exit,
    error: Option<(&Error, Vec<MachineDiagnostic>)>,
    found: Option<impl Serialize>,
) -> Result<Exit, Error> {
    let error = error.map(|(error, mistakes)| {
        let kind = match error {
            Error::Usage(_) => Kind::Usage,
            Error::Environment(_) => Kind::Environment,
            Error::Unknown(_) => Kind::Unknown,
            Error::Interrupted => Kind::Interrupted,
        };
        Failure { kind, message: error.to_string(), mistakes }
    });
    let envelope = Envelope { schema_version: ANSWER_VERSION, command, exit_code: exit as u8, error };
    json(&JsonAnswer { envelope, found }).map(|()| exit)
}

pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::environment(error.to_string()))?;
    data(&ascii_controls(&text))
}

/// Escapes control characters outside ASCII, which the JSON library does not escape.
fn ascii_controls(json: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => c.to_string(),
        c if !units::is_harmless(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    json.chars().map(escaped).collect()
}

/// Returns paths as text for JSON. `json!` panics on a path that is not UTF-8.
pub fn paths(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

pub fn file(path: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(path, text).map_err(Error::cannot("write", path))
}

/// Writes a message to stderr, wrapped to the width of the terminal.
pub fn note(text: &str) {
    let width = console::Term::stderr().size_checked().map(|(_, columns)| columns);
    verbatim(&wrapped(text, width));
}

/// Reports a problem that does not affect the requested result.
pub fn warn(what: impl std::fmt::Display) {
    note(&format!("warning: {what}"));
}

/// Writes preformatted text to stderr.
pub fn verbatim(text: &str) {
    let mut out = io::stderr().lock();
    let text = harmless(text, may_colour(&out));
    // If stderr is closed, the failure cannot be reported.
    let _ = writeln!(out, "{text}");
}

pub fn complain(error: &Error) {
    let word = if may_colour(&io::stderr()) { "\u{1b}[1;31merror\u{1b}[0m" } else { "error" };
    note(&format!("{word}: {}", harmless(&error.to_string(), false)));
}

/// Escapes terminal control sequences, which quoted text may contain. Keeps line breaks and tabs and, if
/// `coloured`, the program's own colours.
fn harmless(text: &str, coloured: bool) -> String {
    let letter = |letter: char| match letter {
        '\n' | '\t' => letter.to_string(),
        other => units::harmless(other),
    };
    let shown = |piece: Piece<'_>| match piece {
        Piece::Letter(one) => letter(one),
        Piece::Colour(sequence) if coloured => sequence.to_owned(),
        Piece::Colour(sequence) => sequence.chars().map(letter).collect(),
    };
    pieces(text).map(shown).collect()
}

enum Piece<'t> {
    Colour(&'t str),
    Letter(char),
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if let Some(sequence) = colour_at(rest) {
            rest = &rest[sequence.len()..];
            return Some(Piece::Colour(sequence));
        }
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        Some(Piece::Letter(letter))
    })
}

/// Returns the sequence at the start of the text if it sets or resets the foreground colour or weight, but not if
/// it could hide text or move the cursor.
fn colour_at(text: &str) -> Option<&str> {
    let codes = text.strip_prefix("\u{1b}[")?.split_once('m')?.0;
    let is_number =
        |code: &str| !code.is_empty() && code.len() < 4 && code.bytes().all(|b| b.is_ascii_digit());
    let plain = |code: &str| matches!(code.parse(), Ok(0 | 1 | 2 | 22 | 31..=36 | 39 | 91..=96));
    let is_ours = codes
        .strip_prefix("38;5;")
        .map_or_else(|| codes.split(';').all(|code| is_number(code) && plain(code)), is_number);
    is_ours.then(|| &text[..codes.len() + 3])
}

/// Returns whether a stream may be coloured: as set by --color or, by default, on a terminal unless `NO_COLOR`
/// is set.
pub fn may_colour(stream: &impl IsTerminal) -> bool {
    match CHOSEN.get().map(|chosen| chosen.color) {
        Some(ColorChoice::Always) => return true,
        Some(ColorChoice::Never) => return false,
        Some(ColorChoice::Auto) | None => {}
    }
    let forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !forbidden && !dumb
}

pub fn style() -> Style {
    Style {
        colour: may_colour(&io::stdout()),
        width: width(),
        all: CHOSEN.get().is_some_and(|chosen| chosen.all),
        explain: CHOSEN.get().is_some_and(|chosen| chosen.explain),
    }
}

/// Maximum width of a table without `--all`.
const WIDTH: u16 = 80;

/// Returns a table. Without `--all`, columns of zeros are omitted, and others if the table is too wide.
pub fn table(grid: Table, style: Style) -> String {
    if style.all {
        return table_text(&grid, style);
    }
    let width = style.width.unwrap_or(WIDTH).min(WIDTH);
    table_text(&grid.lean(), Style { width: Some(width), ..style })
}

/// Returns the width of stdout in columns; `None` if stdout is not a terminal.
pub fn width() -> Option<u16> {
    console::Term::stdout().size_checked().map(|(_, columns)| columns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_overlong_lines_wrap_between_words() {
        let text = "strategy   acq/s\n  the first of all words, then others\nshort\n";
        let shown = "strategy   acq/s\n  the first of all\n  words, then others\nshort\n";
        assert_eq!(wrapped(text, Some(21)), shown);
        assert_eq!(wrapped(text, None), text);
    }

    #[test]
    fn wrapping_ignores_colours_and_keeps_padding() {
        let row = "\u{1b}[1mstrategy            \u{1b}[0m \u{1b}[38;5;9mVIOLATED   \u{1b}[39m\n";
        assert_eq!(wrapped(row, Some(30)), row);
        let text = "the \u{1b}[1;31mfirst\u{1b}[0m of all words, then others\n";
        assert_eq!(wrapped(text, Some(21)), "the \u{1b}[1;31mfirst\u{1b}[0m of all\nwords, then others\n");
    }

    #[test]
    fn errors_keep_line_breaks_but_no_terminal_sequences() {
        assert_eq!(harmless("a\nb\u{1b}[31mc\u{7}", false), "a\nb\\u{1b}[31mc\\u{7}");
    }

    #[test]
    fn only_colour_sequences_are_kept_and_only_if_allowed() {
        let table = "\u{1b}[1mstrategy\u{1b}[0m \u{1b}[38;5;9mVIOLATED\u{1b}[39m \u{1b}[1;31merror\u{1b}[0m";
        assert_eq!(harmless(table, true), table);
        for hides in
            ["\u{1b}[8m", "\u{1b}[2J", "\u{1b}[41m", "\u{1b}[m", "\u{1b}[38;2;0;0;0m", "\u{1b}[", "\u{9b}31m"]
        {
            assert_eq!(harmless(hides, true), units::one_line(hides));
        }
    }

    proptest! {
        #[test]
        fn output_contains_no_terminal_control_sequences(text: String, before in "[a-z\u{1b}\u{9b}\n\r\t\u{202e}]*") {
            let text = before + &text;
            let is_read = |c: char| matches!(c, '\n' | '\t') || units::is_harmless(c);
            prop_assert!(harmless(&text, false).chars().all(is_read));
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let safe = ascii_controls(&json);
            prop_assert!(safe.chars().all(is_read));
            prop_assert_eq!(serde_json::from_str::<[String; 1]>(&safe).unwrap(), [text]);
        }
    }
}
