//! What is not TOML at all: one message a line, with the slip that most often causes it.

use std::ops::Range;

use super::diagnostic::{Diagnostic, Severity};
use super::read::Sink;

/// Reports the first syntax error of each line; those after it are mostly its echoes.
pub(super) fn report(errors: &[toml::de::Error], text: &str, sink: &mut Sink<'_>) {
    let mut seen: Vec<Range<usize>> = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let lines = lines_of(text, &span);
        if seen.contains(&lines) {
            continue;
        }
        let help = match unquoted(text.get(lines.clone()).unwrap_or_default()) {
            Some((key, word)) => Some(format!("text and durations stand in quotes: {key} = \"{word}\"")),
            None => Some("see https://toml.io for how values are written".to_owned()),
        };
        let message = format!("not TOML: {}", error.message());
        sink.broken(Diagnostic { severity: Severity::Error, span, message, help }, lines.clone());
        seen.push(lines);
    }
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
