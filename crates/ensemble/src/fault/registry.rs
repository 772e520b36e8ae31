//! Lookup of faults in all tables.

use super::{FaultEntry, on_connections, on_contenders, on_servers};
use zklockbench_core::catalog::fault::FaultCard;

fn faults() -> impl Iterator<Item = &'static FaultEntry> {
    [on_servers::FAULTS, on_connections::FAULTS, on_contenders::FAULTS].into_iter().flatten()
}

pub fn cards() -> Vec<FaultCard> {
    faults().map(|entry| entry.card).collect()
}

pub fn find(name: &str) -> Option<&'static FaultEntry> {
    faults().find(|entry| entry.card.name == name)
}

/// Returns whether faults of this kind act on servers or their links.
pub fn reaches_servers(kind: &str) -> bool {
    find(kind).is_some_and(|entry| entry.card.needs.reaches_servers())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::catalog::fault::Targets;

    #[test]
    fn every_fault_is_found_by_its_unique_name() {
        for card in cards() {
            assert_eq!(cards().iter().filter(|other| other.name == card.name).count(), 1, "{}", card.name);
            assert_eq!(find(card.name).map(|found| found.card.summary), Some(card.summary));
        }
    }

    #[test]
    fn every_fault_without_a_fixed_target_has_a_default_target() {
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
