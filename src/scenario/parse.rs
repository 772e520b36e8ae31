//! From the text of a scenario file to a scenario, or to everything that is wrong with it.

use toml::de::DeTable;

use super::advice;
use super::diagnostic::Diagnostics;
use super::draft::Draft;
use super::model::Scenario;
use super::read::Sink;
use super::rules;
use super::syntax;
use crate::catalog::LockCard;

/// A file that can be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// What it says.
    pub scenario: Scenario,
    /// What its writer may want to change.
    pub warnings: Diagnostics,
}

/// Reads a scenario file; `file_name` is only for the messages, `cards` are the strategies that exist.
///
/// # Errors
/// Every mistake of the file at once.
pub fn parse(file_name: &str, text: &str, cards: &[LockCard]) -> Result<Parsed, Diagnostics> {
    let mut sink = Sink::new(text);
    let readable = syntax::readable(text);
    let (root, _) = DeTable::parse_recoverable(&readable.text);
    let whole = readable.is_whole();
    readable.report(text, &mut sink);
    let draft = Draft::read(root.get_ref(), cards, &sink);
    if whole {
        rules::check(&draft, cards, &sink);
    }
    let scenario = if sink.has_errors() { None } else { draft.complete() };
    let Some(scenario) = scenario else {
        return Err(Diagnostics::new(file_name, text, sink.into_list()));
    };
    let advice = Sink::new(text);
    for hint in advice::of(&scenario, cards) {
        let span = draft.places.get(hint.key).map_or(0..0, |place| place.value.clone());
        advice.warning(span, hint.message, hint.help);
    }
    Ok(Parsed { scenario, warnings: Diagnostics::new(file_name, text, advice.into_list()) })
}
