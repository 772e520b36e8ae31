//! What is not TOML at all: one message a line, with the slip that most often causes it.

use std::ops::Range;

use super::diagnostic::{Diagnostic, Severity};
use super::read::Sink;

/// Reports the first syntax error of each line; those after it are mostly its echoes.
pub(super) fn report(errors: &[toml::de::Error], text: &str, sink: &mut Sink<'_>) {
    let mut seen: Vec<Range<usize>> = Vec::new();
    let mut list_is_open = false;
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let lines = lines_of(text, &span);
        let echo = seen.contains(&lines) || (list_is_open && error.message().contains("array elements"));
        seen.push(lines.clone());
        if echo {
            sink.broken(None, lines);
            continue;
        }
        let swallowed = error.message().contains("`=` in array");
        list_is_open |= swallowed;
        let help = help(error.message(), text.get(lines.clone()).unwrap_or_default(), swallowed);
        let message = format!("not TOML: {}", error.message());
        let diagnostic = Diagnostic { severity: Severity::Error, span, message, help: Some(help) };
        sink.broken(Some(diagnostic), lines);
    }
}

fn help(message: &str, line: &str, swallowed: bool) -> String {
    if swallowed {
        return "close the list above with `]`".to_owned();
    }
    if message.starts_with("duplicate key") {
        return "the key stands above already: keep one of the two".to_owned();
    }
    unquoted(line).map_or_else(
        || "see https://toml.io for how keys and values are written".to_owned(),
        |(key, word)| format!("text and durations stand in quotes: {key} = \"{word}\""),
    )
}

/// The whole lines that a span touches.
fn lines_of(text: &str, span: &Range<usize>) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = span.start.min(bytes.len());
    let end = span.end.clamp(start, bytes.len());
    let from = bytes[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let to = bytes[end..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| end + at);
    from..to
}

/// A key and a bare word or duration after it, where quotes were forgotten.
fn unquoted(line: &str) -> Option<(&str, &str)> {
    let (key, rest) = line.split_once('=')?;
    let word = rest.split('#').next().unwrap_or_default().trim();
    let bare = !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || "-_. ".contains(c));
    (bare && word.chars().any(char::is_alphabetic)).then_some((key.trim(), word))
}
