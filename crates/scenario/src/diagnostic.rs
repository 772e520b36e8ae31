//! Problems in a scenario file, their positions, and how to fix them.
//!
//! A [`Diagnostic`] has a position, a message and help. [`Diagnostics`] contains all diagnostics of one file,
//! rendered as text or data. [`nearest`] suggests a valid name for a mistyped one.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use schemars::JsonSchema;
use serde::Serialize;

use zklockbench_core::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file cannot be run.
    Error,
    /// The file can be run, but the result may not be what the user intends.
    Warning,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Byte range of the offending text; empty if something is missing.
    pub span: Range<usize>,
    pub message: String,
    pub help: Option<String>,
    /// Keys that have no effect; removing any of them makes the file valid.
    pub idle: Vec<&'static str>,
}

impl Diagnostic {
    pub fn error(span: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Self {
        let (message, help) = (message.into(), Some(help.into()));
        Self { severity: Severity::Error, span, message, help, idle: Vec::new() }
    }
}

/// A setting that comes from the command line instead of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub key: Vec<String>,
    /// The setting as written, such as `--set hold=5ms`.
    pub text: String,
}

/// Line and column, as editors count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Position {
    /// Line, starting at 1.
    pub line: usize,
    /// Column in characters, starting at 1.
    pub column: usize,
}

/// A diagnostic in `--json` output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MachineDiagnostic {
    /// Name of the file, as specified.
    pub file: String,
    /// Start of the offending text.
    #[serde(flatten)]
    pub position: Position,
    pub severity: Severity,
    /// Offending text; empty if something is missing.
    pub text: String,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

/// Maximum number of diagnostics to render, because rendering scans the whole text for each.
const SHOWN: usize = 100;

/// All diagnostics for one file, sorted by position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    file: String,
    text: String,
    list: Vec<Diagnostic>,
    /// Settings from options. If there are any, the line numbers of the text differ from the file's.
    options: Vec<Written>,
}

impl Diagnostics {
    /// Sorts the list by position, removes duplicates and clamps every span to the text.
    pub fn new(file: &str, text: &str, mut list: Vec<Diagnostic>) -> Self {
        for diagnostic in &mut list {
            diagnostic.span = inside(text, &diagnostic.span);
        }
        list.sort_by(|a, b| {
            (a.span.start, a.span.end, a.severity).cmp(&(b.span.start, b.span.end, b.severity))
        });
        list.dedup();
        Self { file: file.to_owned(), text: text.to_owned(), list, options: Vec::new() }
    }

    /// Marks the text as generated from a file and options, so that errors quote the option instead of a
    /// line.
    pub fn with_options(self, options: Vec<Written>) -> Self {
        Self { options, ..self }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn machine(&self) -> Vec<MachineDiagnostic> {
        self.list
            .iter()
            .map(|diagnostic| MachineDiagnostic {
                file: self.file.clone(),
                position: position(&self.text, diagnostic.span.start),
                severity: diagnostic.severity,
                text: self.text.get(diagnostic.span.clone()).unwrap_or_default().to_owned(),
                message: diagnostic.message.clone(),
                help: diagnostic.help.clone(),
            })
            .collect()
    }

    pub fn render(&self, coloured: bool) -> String {
        let renderer = if coloured { Renderer::styled() } else { Renderer::plain() };
        let mut shown: Vec<_> =
            self.list.iter().take(SHOWN).map(|diagnostic| self.render_one(diagnostic, &renderer)).collect();
        if let Some(more @ 1..) = self.list.len().checked_sub(SHOWN) {
            shown.push(format!("and {more} more"));
        }
        shown.join("\n\n")
    }

    fn render_one(&self, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(diagnostic.message.as_str());
        let snippet = |text, file, span| {
            Snippet::source(text).path(file).annotation(AnnotationKind::Primary.span(span))
        };
        let key = key_at(&self.text, diagnostic.span.start);
        let option = self.options.iter().find(|option| key.starts_with(&option.key));
        let mut group = match option {
            _ if self.options.is_empty() => {
                title.element(snippet(self.text.as_str(), self.file.as_str(), diagnostic.span.clone()))
            }
            Some(option) => {
                title.element(snippet(option.text.as_str(), "command line", 0..option.text.len()))
            }
            None => title.element(Origin::path(self.file.as_str())),
        };
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        renderer.render(&[group])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

/// A usage error, without the leading `error: `, which is added when the error is printed.
impl From<Diagnostics> for Error {
    fn from(mistakes: Diagnostics) -> Self {
        let text = mistakes.to_string();
        Self::usage(text.strip_prefix("error: ").unwrap_or(&text))
    }
}

impl std::error::Error for Diagnostics {}

/// Clamps a span to the text and to character boundaries; parsers may point past the end.
fn inside(text: &str, span: &Range<usize>) -> Range<usize> {
    let floor = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = floor(span.start);
    start..floor(span.end).max(start)
}

/// Returns the path of the key at this offset, from the outermost table. The serialiser writes each key and
/// its value on one line.
fn key_at(text: &str, offset: usize) -> Vec<String> {
    let before = inside(text, &(offset..offset)).start;
    let start = text[..before].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or_default();
    let header = text[..start].lines().rev().find(|line| line.starts_with('['));
    let header = if line.starts_with('[') { None } else { header };
    let names = header.into_iter().chain([line]).flat_map(|part| {
        let part = part.split('=').next().unwrap_or_default();
        part.trim().trim_matches(['[', ']']).split('.').map(str::to_owned)
    });
    names.collect()
}

fn position(text: &str, offset: usize) -> Position {
    let before = &text[..inside(text, &(offset..offset)).start];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// Maximum number of characters of a name to compare with candidates.
const LONGEST_NAME: usize = 500;

/// Returns the closest candidate, if it is close enough to suggest.
///
/// Case is ignored, and so is the difference between `_` and `-`. A different word order or a missing prefix
/// before `:` or `/` costs little. Otherwise, about one typo per three characters is tolerated.
pub fn nearest<'a>(typed: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The rest of a longer text resembles no name, and the comparison would take minutes.
    let typed: String = typed.chars().take(LONGEST_NAME).collect();
    let letters = plain(&typed).chars().count();
    candidates
        .into_iter()
        .map(|candidate| (how_far(&typed, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count().min(letters) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn how_far(typed: &str, candidate: &str) -> usize {
    const OWNED_BY: [char; 2] = [':', '/'];
    let whole = distance(&plain(typed), &plain(candidate));
    let without_owner = candidate.rsplit_once(OWNED_BY).filter(|_| !typed.contains(OWNED_BY));
    let without_owner =
        without_owner.map(|(_, name)| 1 + strsim::damerau_levenshtein(&plain(typed), &plain(name)));
    let turned = has_same_words(typed, candidate).then_some(1);
    [without_owner, turned].into_iter().flatten().fold(whole, usize::min)
}

/// Returns whether both have the same words in any order: `kill-leader` and `leader-killed`.
fn has_same_words(typed: &str, candidate: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        name.split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect()
    };
    let (typed, mut left) = (words(typed), words(candidate));
    if typed.len() < 2 || typed.len() != left.len() {
        return false;
    }
    let takes = |word: &String| {
        let found = left.iter().position(|other| is_same_word(word, other));
        found.map(|at| left.swap_remove(at)).is_some()
    };
    typed.iter().all(takes)
}

/// Returns whether both are the same word, possibly with different endings.
fn is_same_word(one: &str, other: &str) -> bool {
    let (shorter, longer) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    let ending = longer.strip_prefix(shorter);
    ending.is_some_and(|ending| ending.is_empty() || shorter.len() >= 3 && ending.len() <= 3)
}

/// Formats the names in backticks, separated by commas.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Suggests a close candidate, or returns `otherwise`.
pub fn did_you_mean<'a>(
    typed: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    otherwise: &str,
) -> String {
    nearest(typed, candidates).map_or_else(|| otherwise.to_owned(), |name| format!("did you mean `{name}`?"))
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

fn distance(typed: &str, candidate: &str) -> usize {
    let shorter = typed.len().min(candidate.len());
    let prefix = shorter >= 4 && (typed.starts_with(candidate) || candidate.starts_with(typed));
    if prefix { 1 } else { strsim::damerau_levenshtein(typed, candidate) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, span: Range<usize>) -> Diagnostics {
        Diagnostics::new("a.toml", text, vec![Diagnostic::error(span, "wrong", "do this")])
    }

    #[test]
    fn diagnostic_positions_start_at_one_and_count_characters() {
        let text = "a = 1\nµ = \"é\"\n";
        let at = text.find('"').unwrap();
        let machine = one(text, at..at + 4).machine();
        assert_eq!(machine[0].position, Position { line: 2, column: 5 });
        assert_eq!(machine[0].text, "\"é\"");
    }

    #[test]
    fn invalid_span_is_clamped_to_the_text_and_to_character_boundaries() {
        let diagnostics = one("é", 1..99);
        assert_eq!(diagnostics.iter().next().unwrap().span, 0..2);
        assert!(diagnostics.render(false).contains("wrong"));
    }

    #[test]
    fn diagnostic_shows_file_line_column_text_and_help() {
        let shown = one("name = \"x\"\nhold = 20\n", 18..20).render(false);
        for expected in ["error: wrong", "a.toml:2:8", "hold = 20", "^^", "help: do this"] {
            assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
        }
        assert!(!shown.contains('\x1b'));
        assert!(one("hold = 20\n", 7..9).render(true).contains('\x1b'));
    }

    #[test]
    fn only_the_first_100_diagnostics_are_rendered() {
        let of = |count| (0..count).map(|at| Diagnostic::error(at..at + 1, "wrong", "do this")).collect();
        let shown = |count| Diagnostics::new("a.toml", &"x".repeat(500), of(count)).render(false);
        assert!(!shown(100).contains("more") && shown(500).ends_with("\n\nand 400 more"));
        assert_eq!(shown(500).matches("error: wrong").count(), 100);
    }

    #[test]
    fn error_in_an_option_quotes_the_option_instead_of_generated_text() {
        let text = "seed = 1\n\n[ensemble]\nservers = 2\n";
        let option = |key: &[&str], text: &str| Written {
            key: key.iter().map(|&name| name.to_owned()).collect(),
            text: text.to_owned(),
        };
        let at = text.find('2').unwrap();
        let shown = one(text, at..at + 1).with_options(vec![option(&["ensemble", "servers"], "--servers 2")]);
        let shown = shown.render(false);
        assert!(shown.contains("--> command line") && shown.contains("--servers 2"), "{shown}");
        assert!(!shown.contains("servers = 2"), "{shown}");
        let other = one(text, at..at + 1).with_options(vec![option(&["seed"], "--seed 1")]).render(false);
        assert!(other.contains("--> a.toml") && !other.contains("servers = 2"), "{other}");
    }

    #[test]
    fn machine_diagnostic_is_flat_json() {
        let json = serde_json::to_value(one("hold = 20\n", 7..9).machine()).unwrap();
        assert_eq!(json[0]["line"], 1);
        assert_eq!(json[0]["column"], 8);
        assert_eq!(json[0]["severity"], "error");
    }

    #[test]
    fn similar_name_is_suggested_for_a_mistyped_name() {
        let locks = ["parent-watch", "predecessor-watch", "polling", "no-lock"];
        let scenarios = ["faults/slow-reader", "faults/leader-killed", "parent-watch"];
        let owned = ["baton", "team:TeamLock", "faults/leader-killed"];
        for (why, names, typed, near) in [
            ("separators and case are ignored", &locks[..], "Parent_Watch", Some("parent-watch")),
            ("separators and case are ignored", &locks[..], "nolock", Some("no-lock")),
            ("a typo is tolerated", &locks[..], "predecesor-watch", Some("predecessor-watch")),
            ("a prefix is enough", &locks[..], "predecessor", Some("predecessor-watch")),
            ("an unrelated name has no suggestion", &locks[..], "zebra", None),
            ("an empty name has no suggestion", &locks[..], "", None),
            ("only the start of a long text counts", &locks[..], "x".repeat(1_000_000).as_str(), None),
            ("words in another order", &scenarios[..], "faults/kill-leader", Some("faults/leader-killed")),
            ("words in another order", &scenarios[..], "watch-parent", Some("parent-watch")),
            ("itself", &scenarios[..], "faults/slow-reader", Some("faults/slow-reader")),
            ("an extra word", &scenarios[..], "watch-the-parent", None),
            ("a missing owner", &owned[..], "TeamLock", Some("team:TeamLock")),
            ("a missing owner", &owned[..], "team_lock", Some("team:TeamLock")),
            ("a missing owner", &owned[..], "TeamLok", Some("team:TeamLock")),
            ("a missing owner", &owned[..], "leader-killed", Some("faults/leader-killed")),
            ("a different owner", &owned[..], "other:Batn", None),
        ] {
            assert_eq!(nearest(typed, names.iter().copied()), near, "{typed}: {why}");
        }
    }
}
