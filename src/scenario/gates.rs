//! The `[[gate]]` tables: conditions on the results, each a text with a grammar of its own.

use toml::de::DeValue;

use super::fields::{GATE, Section};
use super::gate::{Condition, Gate, Known, parse};
use super::keys::{GateKeys, Keys};
use super::read::{ListOfTables, Sink, TomlValue, expect_text, wrong_type};

/// Reads the list: every gate without mistakes. What a gate may name is not checked where the
/// scenario's own strategies or contenders could not be read.
pub(super) fn gates(value: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Vec<Gate> {
    const WHAT: &str = "a list of gates";
    if let DeValue::String(_) = value.get_ref() {
        let help = format!("put it in brackets: gate = [{}]", sink.quoted(&value.span()));
        wrong_type(value, WHAT, &help, sink);
        return gate(value, known, sink).into_iter().collect();
    }
    let help = "write `[[gate]]` and, under it, require = \"wait.p99 < 50ms\"";
    ListOfTables { key: GATE, what: WHAT, help }.read(value, sink, |item| gate(item, known, sink))
}

/// A gate is a table, or its condition alone.
fn gate(item: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Option<Gate> {
    let entries = match item.get_ref() {
        DeValue::Table(entries) => entries,
        DeValue::String(_) => return Some(Gate { name: None, condition: condition(item, known, sink)? }),
        _ => {
            let help = "write { require = \"wait.p99 < 50ms\" }";
            wrong_type(item, "a gate", help, sink);
            return None;
        }
    };
    let mut keys = Keys::new(entries, Section::Gate, sink);
    let condition = keys.read("require", |value, _, sink| condition(value, known, sink));
    let GateKeys { name } = GateKeys::read(&mut keys);
    keys.finish();
    Some(Gate { name, condition: condition? })
}

/// Points at the very part of the text that is wrong, where the file has the text as it is.
fn condition(value: &TomlValue<'_>, known: Known<'_>, sink: &Sink<'_>) -> Option<Condition> {
    let text = expect_text(value, "a condition", "write it in quotes, e.g. \"wait.p99 < 50ms\"", sink)?;
    let mistake = match parse(text, known) {
        Ok(condition) => return Some(condition),
        Err(mistake) => mistake,
    };
    match sink.within(&value.span(), text, &mistake.span) {
        Some(span) => sink.error(span, mistake.message, mistake.help),
        None => {
            let message = format!("column {} of the gate: {}", mistake.column, mistake.message);
            sink.error(value.span(), message, mistake.help);
        }
    }
    None
}
