//! From the text of a scenario file to a scenario, or to everything that is wrong with it.

use std::path::Path;

use toml::de::DeTable;

use super::advice;
use super::catalog::Catalog;
use super::diagnostic::Diagnostics;
use super::draft::Draft;
use super::fault_rules;
use super::model::Scenario;
use super::open::ReadTrace;
use super::read::Sink;
use super::rules;
use super::syntax;

#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    pub scenario: Scenario,
    /// What its writer may want to change.
    pub warnings: Diagnostics,
}

/// The bytes of a scenario file as text.
///
/// # Errors
/// Where they are not UTF-8, as TOML is: the place of the first byte that is not.
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
///
/// # Errors
/// Every mistake of the file at once.
pub fn parse(file_name: &str, text: &str, catalog: &Catalog) -> Result<Parsed, Diagnostics> {
    let nothing = |file: &Path| Err(format!("{} is not read here; leave the replay out", file.display()));
    parse_with_traces(file_name, text, catalog, &nothing)
}

/// The same where a scenario may name files of arrivals, which `traces` reads.
///
/// # Errors
/// Every mistake of the file at once, and the first of a file that it names.
pub fn parse_with_traces(
    file_name: &str,
    text: &str,
    catalog: &Catalog,
    traces: ReadTrace<'_>,
) -> Result<Parsed, Diagnostics> {
    let mut sink = Sink::new(text);
    let readable = syntax::readable(text);
    let (root, _) = DeTable::parse_recoverable(&readable.text);
    let whole = readable.is_whole();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Position;

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
