//! From the text of a scenario file to a scenario, or to everything that is wrong with it; what is not TOML at all is told
//! by one message a line, with the slip that most often causes it.

use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, Error};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::draft::{Catalog, Draft};
use super::model::Scenario;
use super::read::Sink;
use super::values::ReadTrace;
use super::{advice, fault_rules, rules};

#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub scenario: Scenario,
    /// What its writer may want to change.
    pub warnings: Diagnostics,
}

/// The bytes of a scenario file as text.
pub fn decode(file_name: &str, bytes: Vec<u8>) -> Result<String, Diagnostics> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(at).copied().unwrap_or_default();
        // Up to that byte nothing is replaced, so that its place stays.
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        let sink = Sink::new(&text);
        let help = "save the file as UTF-8";
        sink.error(
            at..at + char::REPLACEMENT_CHARACTER.len_utf8(),
            format!("the byte 0x{byte:02x} is not UTF-8 text"),
            help,
        );
        let mistakes = sink.into_list();
        Diagnostics::new(file_name, &text, mistakes)
    })
}

/// Reads a scenario file; `file_name` is only for the messages.
pub fn parse(file_name: &str, text: &str, catalog: &Catalog) -> Result<Parsed, Diagnostics> {
    let nothing = |file: &Path| Err(format!("{} is not read here; leave the replay out", file.display()));
    parse_with_traces(file_name, text, catalog, &nothing)
}

/// The same where a scenario may name files of arrivals, which `traces` reads.
pub fn parse_with_traces(
    file_name: &str,
    text: &str,
    catalog: &Catalog,
    traces: ReadTrace<'_>,
) -> Result<Parsed, Diagnostics> {
    let mut sink = Sink::new(text);
    let readable = readable(text);
    let (root, _) = DeTable::parse_recoverable(&readable.text);
    let whole = readable.errors.is_empty();
    readable.report(text, &mut sink);
    let draft = Draft::read(root.get_ref(), catalog, traces, &sink);
    if whole {
        rules::check(&draft, &sink);
        fault_rules::check(&draft, &sink);
    }
    let scenario = if sink.has_errors() { None } else { draft.complete() };
    let Some(scenario) = scenario else {
        return Err(Diagnostics::new(file_name, text, sink.into_list()));
    };
    let advice = Sink::new(text);
    for hint in advice::of(&scenario, &catalog.locks, &catalog.faults) {
        let fault = hint.fault.and_then(|at| draft.faults.get(at)).map(|fault| fault.span.clone());
        let span = fault.or_else(|| draft.places.value(hint.key)).unwrap_or(0..0);
        advice.warning(span, hint.message, hint.help);
    }
    Ok(Parsed { scenario, warnings: Diagnostics::new(file_name, text, advice.into_list()) })
}

/// After these the parser gives up on the rest of the file.
const STOPS: [&str; 3] = ["key with no value", "unclosed table", "unclosed array table"];
/// How many such lines are looked past; a file with more is no scenario, and only its first mistake is told.
const LOOKED_PAST: usize = 20;

/// The text as far as it is TOML, with every byte in its place, and all that is not.
struct Readable {
    /// The text, with the lines blanked at which a parser would give up.
    text: String,
    errors: Vec<Error>,
    /// Whether so much of it is not TOML that it is something else.
    is_something_else: bool,
}

fn readable(text: &str) -> Readable {
    let mut readable = Readable { text: text.to_owned(), errors: Vec::new(), is_something_else: false };
    for _ in 0..LOOKED_PAST {
        let (_, errors) = DeTable::parse_recoverable(&readable.text);
        let Some(stop) = errors.iter().find(|error| STOPS.iter().any(|s| error.message().starts_with(s)))
        else {
            readable.errors.extend(errors);
            return readable;
        };
        let lines = unreadable(stop, &readable.text);
        if readable.text.get(lines.clone()).is_none_or(|line| line.trim().is_empty()) {
            readable.errors.extend(errors);
            return readable;
        }
        readable.errors.push(stop.clone());
        readable.text = blanked(&readable.text, &lines);
    }
    readable.is_something_else = true;
    readable
}

/// The lines that an error makes unreadable: its own, and for a header also those that stand under it.
fn unreadable(error: &Error, text: &str) -> Range<usize> {
    let own = lines_of(text, &error.span().unwrap_or(0..0));
    let header = STOPS[1..].iter().any(|stop| error.message().starts_with(stop));
    if !header {
        return own;
    }
    let next = text[own.end..].find("\n[").map_or(text.len(), |at| own.end + at);
    own.start..next
}

fn blanked(text: &str, lines: &Range<usize>) -> String {
    let blank = |byte: u8| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' };
    let mut blanked = text[..lines.start].to_owned();
    blanked.extend(text[lines.clone()].bytes().map(blank));
    blanked.push_str(&text[lines.end..]);
    blanked
}

impl Readable {
    /// Reports the first error of each line; those after it are mostly its echoes. `text` is the original.
    fn report(&self, text: &str, sink: &mut Sink<'_>) {
        if let (true, Some(first)) = (self.is_something_else, self.errors.first()) {
            let message = "this is not a scenario: most of it is not TOML";
            let help = "give a scenario file; `zklockbench scenarios` lists those built in";
            let span = first.span().unwrap_or(0..0);
            sink.broken(Diagnostic::error(span, message, help), 0..text.len());
            return;
        }
        let mut errors: Vec<_> = self.errors.iter().collect();
        // Of the errors of one line, that a bracket is open explains the others.
        errors.sort_by_key(|error| {
            let span = error.span().unwrap_or(0..0);
            (lines_of(text, &span).start, !inside_brackets(error.message()), span.start)
        });
        let never_closed = self.errors.iter().any(|e| {
            e.message().starts_with("unclosed") && !STOPS.iter().any(|s| e.message().starts_with(s))
        });
        let mut seen: Vec<Range<usize>> = Vec::new();
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let mut lines = unreadable(error, text);
            if seen.contains(&lines) {
                continue;
            }
            seen.push(lines.clone());
            let swallows = never_closed && inside_brackets(error.message());
            let help = if swallows {
                lines.end = text.len();
                "close the list or table opened above".to_owned()
            } else {
                help(error.message(), text.get(lines.clone()).unwrap_or_default())
            };
            let message = format!("not TOML: {}", error.message());
            sink.broken(Diagnostic::error(span, message, help), lines);
            if swallows {
                break;
            }
        }
    }
}

fn inside_brackets(message: &str) -> bool {
    ["in array", "array elements", "key-value pairs", "unclosed"].iter().any(|part| message.contains(part))
}

const HELP: [(&str, &str); 5] = [
    ("duplicate key", "the key is already set above: keep one of the two"),
    ("unclosed array table", "close the header with `]]`, as in [[fault]]"),
    ("unclosed table", "close the header with `]`, as in [ensemble]"),
    ("key with no value", "write key = value; comments start with #"),
    ("string, expected", "close the text with the quote that opened it"),
];

fn help(message: &str, line: &str) -> String {
    if let Some((_, help)) = HELP.iter().find(|(part, _)| message.contains(part)) {
        return (*help).to_owned();
    }
    unquoted(line).map_or_else(
        || "https://toml.io explains how to write keys and values".to_owned(),
        |(key, word)| format!("text and durations need quotes: {key} = \"{word}\""),
    )
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Position;

    #[test]
    fn a_byte_that_is_no_text_is_told_with_line_and_column_in_characters() {
        let wrong = decode("a.toml", b"name = \"x\"\nhold = \"\xc2\xb5\xb5s\"\n".to_vec()).unwrap_err();
        let told = &wrong.machine()[0];
        assert_eq!((told.file.as_str(), told.position), ("a.toml", Position { line: 2, column: 10 }));
        assert_eq!(told.message, "the byte 0xb5 is not UTF-8 text");
        assert!(wrong.render(false).contains("a.toml:2:10"), "{wrong}");
        // And one that the file ends within
        let cut = decode("a.toml", b"\xc2".to_vec()).unwrap_err();
        assert_eq!(cut.machine()[0].position, Position { line: 1, column: 1 });
        assert_eq!(decode("a.toml", "µ".into()), Ok("µ".to_owned()));
    }
}
