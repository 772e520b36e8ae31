//! The reference page of faults, generated from their cards.

use zklockbench_core::{catalog::fault::FaultCard, units::capitalised};
use zklockbench_ensemble::fault::cards;

pub fn page() -> String {
    let mut text = String::from(
        "# Faults\n\n\
         Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit. It lists \
         every\nfault; `zklockbench faults NAME` prints the same for one fault. \
         [Scenario keys](scenario-keys.md#faults) shows how to put a fault into a scenario.\n\n\
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
    format!("\nTargets: {}, or one by its number; default `{}`.\n", words.join(", "), card.default_target)
}
