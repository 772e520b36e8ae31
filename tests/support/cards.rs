//! Lock cards for tests of scenarios, independent of the registry of locks.

use zklockbench_core::catalog::{Guarantees, LockCard, Param, ParamKind};
use zklockbench_scenario::Catalog;

const WATCHES: Guarantees = Guarantees::QUEUE;

const PLAIN: LockCard = LockCard { summary: "a lock", source: "a test", ..LockCard::OF_ZOOKEEPER };

/// A polling lock, two locks with a choice parameter, a reentrant lock without parameters, and a lock without
/// exclusion.
pub const CARDS: [LockCard; 5] = [
    LockCard {
        name: "polling",
        guarantees: Guarantees { watches: false, ..WATCHES },
        params: &[
            Param {
                name: "poll_interval",
                kind: ParamKind::Duration,
                default: "1s",
                doc: "Time between two polls.",
            },
            Param {
                name: "look_first",
                kind: ParamKind::Bool,
                default: "false",
                doc: "Number of polls before the first sleep.",
            },
        ],
        ..PLAIN
    },
    LockCard {
        name: "parent-watch",
        params: &[Param {
            name: "while_holding",
            kind: ParamKind::OneOf(&["stop", "relist"]),
            default: "stop",
            doc: "Reaction of a holder to its own notification.",
        }],
        ..PLAIN
    },
    LockCard {
        name: "predecessor-watch",
        params: &[Param {
            name: "watch",
            kind: ParamKind::OneOf(&["data", "exists"]),
            default: "data",
            doc: "How the predecessor is watched.",
        }],
        ..PLAIN
    },
    LockCard { name: "curator-mutex", guarantees: Guarantees { reentrant: true, ..WATCHES }, ..PLAIN },
    LockCard {
        name: "no-lock",
        guarantees: Guarantees { exclusive: false, fifo: false, watches: false, ..Guarantees::QUEUE },
        ..PLAIN
    },
];

/// The program's catalog, with its locks replaced by these.
pub fn catalog_of(locks: &[LockCard]) -> Catalog {
    Catalog { locks: locks.to_vec(), ..zklockbench_load::catalog() }
}

pub fn catalog() -> Catalog {
    catalog_of(&CARDS)
}
