//! Messages for every mistake in a scenario file, except for mistakes in faults. The snapshots contain the cases and
//! messages.

use crate::support::cards::{CARDS, catalog_of};
use crate::support::diagnosed::{file, said_of_added_lines, said_of_files};

use zklockbench_core::catalog::{Choice, LockCard, Param, ParamKind};
use zklockbench_scenario::parse;

#[test]
fn errors_in_lines_added_to_a_valid_file_are_explained() {
    insta::assert_snapshot!(
        "errors_in_added_lines",
        said_of_added_lines(
            &CARDS,
            include_str!("snapshots/pure__scenario_errors__errors_in_added_lines.snap")
        )
    );
}

#[test]
fn invalid_files_are_explained() {
    insta::assert_snapshot!(
        "errors_in_files",
        said_of_files(&CARDS, include_str!("snapshots/pure__scenario_errors__errors_in_files.snap"))
    );
}

/// A lock with a parameter that determines which other parameters apply.
const DECIDES: [LockCard; 1] = [LockCard {
    name: "decides",
    params: &[
        Param {
            name: "policy",
            kind: ParamKind::Choice(&[
                Choice { word: "never", takes: &[] },
                Choice { word: "some", takes: &["pause", "times"] },
                Choice { word: "always", takes: &["pause"] },
            ]),
            default: "never",
            doc: "Decides.",
        },
        Param { name: "pause", kind: ParamKind::Duration, default: "1s", doc: "A pause." },
        Param { name: "times", kind: ParamKind::Count(1, 9), default: "3", doc: "A number." },
    ],
    ..CARDS[4]
}];

#[test]
fn invalid_combinations_of_parameters_are_explained() {
    insta::assert_snapshot!(
        "errors_in_deciding_parameters",
        said_of_files(
            &DECIDES,
            include_str!("snapshots/pure__scenario_errors__errors_in_deciding_parameters.snap")
        )
    );
}

#[test]
fn an_acquire_must_not_request_more_permits_than_leases() {
    let with = |params: &str| {
        format!(
            "name = \"x\"\nduration = \"60s\"\ncontenders = 3\nstrategies = [{{ name = \"curator-semaphore\", \
             {params} }}]\n"
        )
    };
    file(&zklockbench_locks::cards(), &with("leases = 9, permits = 9"), &[]);
    file(
        &zklockbench_locks::cards(),
        &with("leases = 2, permits = 5"),
        &[
            "4:67 5 `permits` exceed the 2 `leases`, so no contender could ever acquire them => use at most 2, or set \
           `leases` of `curator-semaphore` to at least 5",
        ],
    );
    // Without a `leases` key, the default applies.
    let alone = "4:55 2 `permits` exceed the 1 `leases`, so no contender could ever acquire them => use at most 1, or \
                 set `leases` of `curator-semaphore` to at least 2";
    file(&zklockbench_locks::cards(), &with("permits = 2"), &[alone]);
}

#[test]
fn a_batch_of_a_shared_lock_does_not_wait_for_the_holds_of_all_others() {
    let batch = |strategies: &str| {
        format!(
            "name = \"x\"\nload = \"batch\"\ncontenders = 4\nstrategies = [{strategies}]\nhold = \"10s\"\n\
             acquire_timeout = \"20s\"\n"
        )
    };
    let semaphore = "{ name = \"curator-semaphore\", leases = 3 }";
    file(&zklockbench_locks::cards(), &batch(semaphore), &[]);
    file(&zklockbench_locks::cards(), &format!("{}read_ratio = 1\n", batch("\"curator-read-write\"")), &[]);
    let mutex = "6:19 the last contender of a batch of 4 waits at least 30s => use a longer `acquire_timeout`, or \
                 remove it to wait without a limit";
    file(&zklockbench_locks::cards(), &batch(&format!("{semaphore}, \"curator-mutex\"")), &[mutex]);
}

#[test]
fn parameters_without_effect_are_dropped() {
    let strategies =
        "\"decides\", { name = \"decides\", policy = \"always\" }, { name = \"decides\", policy = \"some\" }";
    let text = format!("name = \"x\"\nduration = \"60s\"\ncontenders = 1\nstrategies = [{strategies}]\n");
    let parsed = parse("x.toml", &text, &catalog_of(&DECIDES)).unwrap_or_else(|errors| panic!("{errors}"));
    let names = |at: usize| parsed.scenario.strategies[at].params.keys().cloned().collect::<Vec<_>>();
    assert_eq!((names(0), names(1)), (vec!["policy".into()], vec!["pause".into(), "policy".into()]));
    assert_eq!(names(2), ["pause", "policy", "times"]);
}
