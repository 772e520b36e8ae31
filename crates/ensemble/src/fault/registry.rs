//! The faults of all tables, from whose cards `docs/reference/faults.md` is generated.

use super::{FaultEntry, on_connections, on_contenders, on_servers};
use zklockbench_core::catalog::fault::FaultCard;
use zklockbench_core::units::capitalised;

fn faults() -> impl Iterator<Item = &'static FaultEntry> {
    [on_servers::FAULTS, on_connections::FAULTS, on_contenders::FAULTS].into_iter().flatten()
}

pub fn cards() -> Vec<FaultCard> {
    faults().map(|entry| entry.card).collect()
}

pub fn find(name: &str) -> Option<&'static FaultEntry> {
    faults().find(|entry| entry.card.name == name)
}

pub fn reference() -> String {
    let mut text = String::from(
        "# Faults\n\n\
         Generated from the code by `ZKLOCKBENCH_UPDATE_DOCS=1 cargo test --test pure docs`; do not edit. It lists \
         every\nfault; `zklockbench faults NAME` prints the same for one. [Scenario keys](scenario-keys.md#faults) shows how to \
         put a fault into a scenario.\n\n\
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

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::fault::Targets;

    #[test]
    fn every_kind_is_found_by_its_unique_name() {
        for card in cards() {
            assert_eq!(cards().iter().filter(|other| other.name == card.name).count(), 1, "{}", card.name);
            assert_eq!(find(card.name).map(|found| found.card.summary), Some(card.summary));
        }
    }

    #[test]
    fn a_fault_has_a_default_target() {
        for card in cards() {
            let fixed = card.targets == Targets::Fixed;
            assert_eq!(fixed, card.default_target.is_empty(), "{}", card.name);
            assert!(fixed || card.words().contains(&card.default_target), "{}", card.name);
        }
    }

    #[test]
    fn every_fault_card_describes_injection_proof_end_and_expected_behaviour() {
        for card in cards() {
            for part in ["Inject: ", "\nProof: ", "\n\nA correct lock: "] {
                assert!(card.details.contains(part), "{}: {part}", card.name);
            }
            let healed = card.ends == zklockbench_core::catalog::fault::Ends::Healed;
            assert_eq!(healed, card.details.contains("\nHeal: "), "{}", card.name);
            assert_eq!(!healed, card.details.contains("\nEnds by itself"), "{}", card.name);
        }
    }
}
