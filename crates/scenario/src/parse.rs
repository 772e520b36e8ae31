//! Parses the text of a scenario file into a scenario, or reports everything wrong with the text.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use toml::de::{DeTable, Error};

use super::columns::Columns;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Catalog, Document};
use super::fields::{Section, field};
use super::model::Scenario;
use super::read::Sink;
use super::shapes::ReadTrace;
use super::{advice, fault_rules, rules};

#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub scenario: Scenario,
    pub warnings: Diagnostics,
}

/// Decodes the bytes of a scenario file.
pub fn decode(file_name: &str, bytes: Vec<u8>) -> Result<String, Diagnostics> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let byte = error.as_bytes().get(at).copied().unwrap_or_default();
        // Bytes before the first invalid byte are not replaced, so the offset stays valid.
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

/// Parses a scenario file; `file_name` appears only in messages.
pub fn parse(file_name: &str, text: &str, catalog: &Catalog) -> Result<Parsed, Diagnostics> {
    let nothing =
        |file: &Path, _: &Columns| Err(format!("{} cannot be read here; remove the replay", file.display()));
    parse_with_traces(file_name, text, catalog, &nothing)
}

/// Like [`parse`], but reads replay files with `traces`.
pub fn parse_with_traces(
    file_name: &str,
    text: &str,
    catalog: &Catalog,
    traces: ReadTrace<'_>,
) -> Result<Parsed, Diagnostics> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let mut found = not_toml(text, &errors);
        let is_known = |key: &str| field(Section::Top, key).is_some();
        if !root.get_ref().keys().any(|key| is_known(key.get_ref())) {
            if found.len() > MISTAKES_OF_A_SCENARIO {
                found.truncate(1);
            }
            if let [only] = found.as_mut_slice() {
                only.help = Some(NO_SCENARIO.to_owned());
            }
        }
        return Err(Diagnostics::new(file_name, text, found));
    }
    let sink = Sink::new(text);
    let document = Document::read(root.get_ref(), catalog, traces, &sink);
    rules::check(&document, &sink);
    fault_rules::check(&document, &sink);
    let scenario = if sink.errors() > 0 { None } else { document.scenario() };
    let Some(scenario) = scenario else {
        return Err(Diagnostics::new(file_name, text, sink.into_list()));
    };
    let advice = Sink::new(text);
    for hint in advice::of(&scenario, &catalog.locks, &catalog.faults) {
        let fault = hint.fault.and_then(|at| document.faults.get(at)).map(|fault| fault.span.clone());
        let span = fault.or_else(|| document.places.value(hint.key)).unwrap_or(0..0);
        advice.warning(span, hint.message, hint.help);
    }
    Ok(Parsed { scenario, warnings: Diagnostics::new(file_name, text, advice.into_list()) })
}

/// Maximum number of syntax errors to report if the file has no scenario keys. If there are more, only the
/// first is reported.
const MISTAKES_OF_A_SCENARIO: usize = 5;

/// Help for a file that has no scenario keys.
const NO_SCENARIO: &str =
    "write key = value; if this is not a scenario: `zklockbench scenarios` lists the built-in ones";

/// Returns the first syntax error of each line, because later errors mostly follow from it.
fn not_toml(text: &str, errors: &[Error]) -> Vec<Diagnostic> {
    let never_closed = |error: &Error| {
        ["unclosed array,", "unclosed inline"].iter().any(|part| error.message().contains(part))
    };
    let is_open = errors.iter().any(never_closed);
    let (mut found, mut lines) = (Vec::new(), BTreeSet::new());
    for error in errors {
        let span = error.span().unwrap_or(0..0);
        let line = line_of(text, span.start);
        if lines.insert(line.start) {
            let help = help(error.message(), &text[line]);
            found.push(Diagnostic::error(span, format!("not TOML: {}", error.message()), help));
        }
        // Everything after an unclosed list or table counts as part of it.
        if is_open
            && ["in array", "array elements", "unclosed"].iter().any(|part| error.message().contains(part))
        {
            break;
        }
    }
    found
}

const HELP: [(&str, &str); 6] = [
    ("duplicate key", "the key is already set above; keep one of the two"),
    ("unclosed array table", "close the header with `]]`, as in [[fault]]"),
    ("unclosed table", "close the header with `]`, as in [ensemble]"),
    ("key with no value", "write key = value; comments start with #"),
    ("in array", "close the list or table opened above"),
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

/// Returns the line that contains this byte.
fn line_of(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let at = at.min(bytes.len());
    let from = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let to = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end);
    from..to
}

/// Returns a key and its unquoted word or duration, if quotes are missing.
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
    fn invalid_byte_is_reported_with_its_line_and_column_in_characters() {
        let wrong = decode("a.toml", b"name = \"x\"\nhold = \"\xc2\xb5\xb5s\"\n".to_vec()).unwrap_err();
        let told = &wrong.machine()[0];
        assert_eq!((told.file.as_str(), told.position), ("a.toml", Position { line: 2, column: 10 }));
        assert_eq!(told.message, "the byte 0xb5 is not UTF-8 text");
        assert!(wrong.render(false).contains("a.toml:2:10"), "{wrong}");
        // An incomplete character at the end of the file.
        let cut = decode("a.toml", b"\xc2".to_vec()).unwrap_err();
        assert_eq!(cut.machine()[0].position, Position { line: 1, column: 1 });
        assert_eq!(decode("a.toml", "µ".into()), Ok("µ".to_owned()));
    }
}
