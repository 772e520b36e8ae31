//! `docs/faults.md`, made from the descriptions that stand beside the code.

use super::cards;
use crate::catalog::fault::FaultCard;
use crate::units::capitalised;

/// The page on every kind of fault.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from(
        "# Faults\n\n\
         Made from the descriptions in the code: `zklockbench faults KIND` prints the same. How a scenario \
         asks for them is in [scenario.md](scenario.md).\n\n\
         | fault | what | hits | ends | needs |\n\
         |---|---|---|---|---|\n",
    );
    text.extend(cards().iter().map(row));
    text.extend(cards().iter().map(section));
    text
}

fn row(card: &FaultCard) -> String {
    format!(
        "| [`{0}`](#{0}) | {1} | {2} | {3} | {4} |\n",
        card.name,
        card.summary,
        card.targets.noun(),
        card.ends.in_words(),
        card.needs.in_words(),
    )
}

fn section(card: &FaultCard) -> String {
    let mut text = format!(
        "\n## {}\n\n{}.\n\nSource: {}.\n\n```text\n{}\n```\n",
        card.name,
        capitalised(card.summary),
        card.source,
        card.details.trim()
    );
    text += &targets(card);
    if !card.params.is_empty() {
        text += "\n| parameter | values | default | meaning |\n|---|---|---|---|\n";
    }
    for param in card.params {
        let values = param.kind.in_words("`");
        text += &format!("| `{}` | {values} | `{}` | {} |\n", param.name, param.default, param.doc);
    }
    text
}

fn targets(card: &FaultCard) -> String {
    let words: Vec<_> = card.words().iter().map(|word| format!("`{word}`")).collect();
    if words.is_empty() {
        return String::new();
    }
    format!("\nTargets: {}, or one by its number; `{}` unless said.\n", words.join(", "), card.default_target)
}
