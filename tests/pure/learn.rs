//! Output of `learn` for transaction logs: text, page and scenarios.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use zklockbench_core::txn;
use zklockbench_learn::{
    Asked, Family, FamilyKind, Learned, Read, Scope, Source, SourceKind, WatchFacts, read_logs, summarise,
    write_scenarios, writes,
};
use zklockbench_report::{Style, document::Block, html, page::of_learned};
use zklockbench_scenario::{Columns, TrialPlan, parse_with_traces, trace_from_csv};

const GUID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";
const HEX: &str = "0f8fad5bd9cb469fa16570867728950e";

/// A transaction log in which a cycle of about 30 ms starts every 20 ms, with node names from `name`.
fn log(cycles: i64, name: impl Fn(i64) -> String) -> Vec<u8> {
    let mut moments: Vec<(i64, i64, bool)> =
        (0..cycles).flat_map(|of| [(of * 20, of, true), (of * 20 + 30 + of % 5, of, false)]).collect();
    moments.sort_unstable();
    let mut log = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
    for ((ms, of, is_create), zxid) in moments.into_iter().zip(1..) {
        let path = txn::buffer(name(of).as_bytes());
        let (kind, body) = match is_create {
            // No data, no ACLs, ephemeral, the parent's version
            true => {
                let parent = (of as i32 + 1).to_be_bytes();
                (txn::CREATE, [&path[..], &[0xff; 4], &[0; 4], &[1], &parent].concat())
            }
            false => (txn::DELETE, path),
        };
        let header = txn::header(1 + of % 7, (1 + of) as i32 * 3, zxid, 1_700_000_000_000 + ms, kind);
        log.extend(txn::written(header, &body));
    }
    log
}

/// Learns the load from a log, and writes the log and the scenarios to `directory`.
fn learned(directory: &Path, log: &[u8]) -> Learned {
    std::fs::write(directory.join("log.1"), log).unwrap();
    let directories = [directory.to_owned()];
    let Read { observed, logs } =
        read_logs(&directories, Scope::default(), true, directory, &|| false).unwrap();
    let found = summarise(&observed, Asked::default()).unwrap();
    let scenarios = write_scenarios(&observed, &found, Some(1), directory).unwrap();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let source = Source {
        kind: SourceKind::Logs,
        from: at,
        to: at + std::time::Duration::from_millis((observed.last_ms - observed.first_ms) as u64),
        lasts_us: (observed.last_ms - observed.first_ms) as u64 * 1_000,
        clock_steps: observed.clock_steps,
        has_folded_locks: false,
        is_anonymous: false,
        logs: Some(logs),
        watch: None,
    };
    let written = writes(&observed, &found);
    Learned { scenarios, ..Learned::of(source, written, found.families) }
}

fn orders(of: i64) -> String {
    match of % 3 {
        0 => format!("/orders/{}/lock/_c_{GUID}-lock-{of:010}", 100 + of % 20),
        _ => format!("/stock/{HEX}__lock__{of:010}"),
    }
}

/// The load of thirty cycles.
fn few() -> Learned {
    load_of(30)
}

/// The load of this many cycles.
pub fn load_of(cycles: i64) -> Learned {
    let directory = tempfile::tempdir().unwrap();
    learned(directory.path(), &log(cycles, orders))
}

#[test]
fn learned_load_is_printed_with_the_outcome_first_and_fits_a_terminal() {
    let learned = load_of(300);
    let text = zklockbench_report::learned(&learned, Style::default());
    insta::assert_snapshot!(text);
    let table: Vec<&str> = text.lines().skip_while(|line| !line.is_empty()).take(5).collect();
    assert!(table[1].starts_with("family") && table.iter().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(Learned::of(learned.source.clone(), learned.writes.clone(), Vec::new()).families, []);
}

#[test]
fn locks_and_other_families_are_limited_separately() {
    let learned = few();
    let lock = learned.families[0].clone();
    let other = Family { kind: FamilyKind::Registry, ..lock.clone() };
    let limited = |locks: usize, others: usize| {
        let families = [vec![other.clone(); others], vec![lock.clone(); locks]].concat();
        let Learned { families, others, left_out, .. } =
            Learned::of(learned.source.clone(), learned.writes.clone(), families);
        (families.len(), others.len(), left_out)
    };
    assert_eq!([limited(1, 300), limited(250, 1)], [(1, 200, 0), (200, 1, 50)]);
}

#[test]
fn rate_includes_omitted_families() {
    let learned = few();
    let lock = learned.families[0].clone();
    let of = |count: usize| {
        Learned::of(learned.source.clone(), learned.writes.clone(), vec![lock.clone(); count]).rate()
    };
    assert!((of(400) / of(1) - 400.0).abs() < 1e-9, "{} {}", of(400), of(1));
    // Files of older versions have no rate.
    let mut older = serde_json::to_value(&learned).unwrap();
    older.as_object_mut().unwrap().remove("rate").unwrap();
    let older: Learned = serde_json::from_value(older).unwrap();
    assert!((older.rate() - learned.rate()).abs() < 1e-9);
}

#[test]
fn uncommitted_transactions_and_unread_nodes_are_reported_with_a_remedy() {
    let mut learned = few();
    let logs = learned.source.logs.as_mut().unwrap();
    (logs.uncommitted, logs.unconfirmed) = (21, 1);
    learned.source.watch = Some(WatchFacts { has_unread_nodes: true, ..WatchFacts::default() });
    let text = zklockbench_report::learned(&learned, Style::default());
    for said in [
        "uncommitted: 21 transactions of a deposed leader skipped",
        "end: the last 1 transaction is not in the logs of a majority",
        "nodes: not all existing nodes were read",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn learn_page_has_every_chart_and_lists_the_scenarios_assumptions() {
    let directory = tempfile::tempdir().unwrap();
    let learned = learned(directory.path(), &log(300, orders));
    let document = of_learned(&learned);
    let blocks = document.sections.iter().flat_map(|section| &section.blocks);
    let charts: Vec<&str> = blocks
        .filter_map(|block| match block {
            Block::Chart(chart) => Some(&*chart.id),
            _ => None,
        })
        .collect();
    assert_eq!(charts, ["arrivals", "queue", "waits", "holds", "keys", "longest-waits"]);
    let page = html::page(&[document], None);
    for part in ["/orders/{id}/lock", "scenario.toml", "1.5 times the maximum", "whether a session expired"] {
        assert!(page.to_lowercase().contains(&part.to_lowercase()), "{part}");
    }
}

/// A strategy and a function that names its nodes.
type Named = (&'static str, fn(i64) -> String);

#[test]
fn learned_scenarios_of_every_recipe_are_valid() {
    let names: [Named; 9] = [
        ("curator-mutex", |of| format!("/l/_c_{GUID}-lock-{of:010}")),
        ("curator-read-write", |of| {
            format!("/l/_c_{GUID}-__{}__{of:010}", if of % 3 == 0 { "WRIT" } else { "READ" })
        }),
        ("curator-semaphore", |of| format!("/l/leases/_c_{GUID}-lease-{of:010}")),
        ("kazoo", |of| format!("/l/{HEX}__lock__{of:010}")),
        ("go-zookeeper", |of| format!("/l/_c_{HEX}-lock-{of:010}")),
        ("apache-write-lock", |of| format!("/l/x-72057594037927936-{of:010}")),
        ("shared-predecessor-watch", |of| {
            format!("/l/{}-{of:010}", if of % 3 == 0 { "write" } else { "read" })
        }),
        // Programs in Java and Python share the lock.
        ("shared-predecessor-watch", |of| match of % 3 {
            0 => format!("/l/{HEX}__lock__{of:010}"),
            _ => format!("/l/_c_{GUID}-__READ__{of:010}"),
        }),
        ("predecessor-watch", |of| format!("/l/mine-{of:010}")),
    ];
    for (strategy, name) in names {
        let directory = tempfile::tempdir().unwrap();
        learned(directory.path(), &log(60, name));
        let text = std::fs::read_to_string(directory.path().join("scenario.toml")).unwrap();
        let traces = |file: &Path, columns: &Columns| {
            trace_from_csv(
                BufReader::new(File::open(directory.path().join(file)).map_err(|error| error.to_string())?),
                columns,
            )
        };
        let parsed = parse_with_traces("scenario.toml", &text, &zklockbench_load::catalog(), &traces);
        let scenario =
            parsed.unwrap_or_else(|wrong| panic!("{strategy}: {}\n{text}", wrong.render(false))).scenario;
        assert_eq!(scenario.strategies[0].name, strategy);
        let trial = &TrialPlan::of(&scenario).trials[0];
        let arrivals = zklockbench_scenario::schedule::draw(trial, std::time::Duration::from_secs(60));
        assert!(arrivals.len() == 60 || trial.load == zklockbench_scenario::Load::Closed, "{strategy}");
    }
}
