//! Batch costs according to the cards. `tests/locks/batch_totals` compares some costs with real servers. This
//! snapshot reveals a change to any formula, and needs no server.

use std::fmt::Write;

use zklockbench_core::{catalog::BatchCost, measure::RequestKind};
use zklockbench_locks::{STRATEGIES, find};

use crate::support::trials;

const CONTENDERS: std::ops::RangeInclusive<u64> = 1..=8;

/// Additional variants that are not compared with servers.
const MORE: [&str; 6] = [
    "{ name = \"atomic-multi\", members = 2 }",
    "{ name = \"atomic-multi\", members = 4 }",
    "{ name = \"curator-multi\", members = 2 }",
    "{ name = \"curator-multi\", members = 4 }",
    "{ name = \"ephemeral-node\", watch = \"data\" }",
    "{ name = \"polling\", jitter = \"half\" }",
];

/// Describes the totals that the card does not predict.
fn unpredicted(cost: &BatchCost) -> String {
    let flags = [
        (cost.looks_follow_waits, "; reads follow from the waits"),
        (cost.looks_vary, "; reads vary"),
        (cost.open, "; all totals vary"),
    ];
    flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, text)| text).collect()
}

/// Sent and refused requests of each kind, and notifications, per number of contenders.
fn costs(strategy: &str) -> String {
    let spec = trials::strategy(strategy);
    let cost = find(&spec.name).unwrap().card.batch_cost.unwrap();
    let mut text = format!("{}\n", spec.label);
    for contenders in CONTENDERS {
        let cost = cost(&spec.params, contenders);
        write!(text, "{contenders:3}:").unwrap();
        for kind in RequestKind::ALL.into_iter().filter(|kind| cost.requests_of(*kind) > 0) {
            let (sent, refused) = (cost.requests_of(kind), cost.requests_of(kind) - cost.succeeding(kind));
            let refused = if refused > 0 { format!("-{refused}") } else { String::new() };
            write!(text, " {} {sent}{refused},", kind.name()).unwrap();
        }
        let events = cost.events;
        let notified =
            [events.node_created, events.node_deleted, events.data_changed, events.children_changed];
        writeln!(
            text,
            " written {}, notified {notified:?}: {} waiting, {} releasing, {} by arrival; names {:?}{}",
            cost.written_by_multis,
            cost.to_waiters_by_release,
            cost.to_releaser,
            cost.by_arrival,
            cost.names_returned,
            unpredicted(&cost),
        )
        .unwrap();
    }
    text
}

#[test]
fn batch_costs_of_every_card_match_the_snapshot() {
    let defaults = STRATEGIES.iter().filter(|entry| entry.card.batch_cost.is_some());
    let defaults = defaults.map(|entry| format!("\"{}\"", entry.card.name));
    let variants = trials::BATCH_VARIANTS.map(|(variant, _)| variant).into_iter().chain(MORE);
    let strategies = defaults.chain(variants.map(str::to_owned));
    let all: Vec<String> = strategies.map(|strategy| costs(&strategy)).collect();
    insta::assert_snapshot!(all.join("\n"));
}
