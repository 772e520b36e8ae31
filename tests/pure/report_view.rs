//! From a stored run to the view that everything is drawn from.

use std::collections::BTreeMap;

use crate::support::records;

use zklockbench_core::measure::{Counts, Measure, Outcome, RequestKind, Second, new_histogram};
use zklockbench_record::figures::{FAIRNESS, FAN_OUT, OVERTAKEN_SHARE, REQUESTS_PER_ACQUISITION, THROUGHPUT};
use zklockbench_record::{
    Accounting, Counted, EnsembleInfo, Floor, Health, Holder, HostInfo, Run, RunOutcome, ServerCounters,
    ServerInfo, Tally, Trial, Violation,
};
use zklockbench_report::View;
use zklockbench_report::view::Bins;
use zklockbench_results::RunFile;

fn run() -> Run {
    let server = |role: &str| ServerInfo {
        address: "127.0.0.1:2181".into(),
        role: role.into(),
        version: "3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19".into(),
        shares_host: None,
    };
    Run {
        scenario: "demo".into(),
        strategies: ["polling", "parent-watch (while_holding=relist)", "curator-mutex"]
            .map(str::to_owned)
            .into(),
        seed: 7,
        host: HostInfo { cores: 2, ..HostInfo::default() },
        ensemble: EnsembleInfo {
            kind: "local".into(),
            servers: vec![server("leader"), server("follower"), server("follower")],
            placement: "/data (ext4: every write is synced)".into(),
            shares_host: true,
            ..EnsembleInfo::default()
        },
        ..records::run(6)
    }
}

fn trial(index: usize, label: &str, contenders: usize) -> Trial {
    let mut measured = Counts { releases: 50, overtaken: 5, ..Counts::default() };
    measured.outcomes.add(Outcome::Acquired, 50);
    measured.requests.add(RequestKind::Create, 50);
    measured.requests.add(RequestKind::GetChildren, 150);
    measured.notifications.by_release_useful = 50;
    measured.notifications.node_deleted = 50;
    let mut wait = new_histogram();
    (0..50).for_each(|_| wait.saturating_record(1_000));
    let mut spec = records::spec(index);
    spec.strategy.name = label.split(' ').next().unwrap_or_default().into();
    spec.strategy.label = label.into();
    spec.contenders = contenders;
    Trial {
        spec,
        histograms: [(Measure::Wait, wait)].into(),
        measured,
        whole: measured,
        timeline: vec![Second { acquisitions: 20, ..Second::default() }; 3],
        tallies: vec![Tally { acquired: 25, longest_wait_us: 1_000, unserved: 0 }; 2],
        errors: BTreeMap::new(),
        accounting: vec![Accounting {
            what: Counted::Reads,
            client: Some(150),
            expected: None,
            servers: Some(150),
        }],
        health: Health::default(),
        ..records::trial(index)
    }
}

#[test]
fn strategies_keep_the_order_of_the_scenario() {
    let shuffled = [
        trial(0, "curator-mutex", 10),
        trial(1, "parent-watch (while_holding=relist)", 2),
        trial(2, "polling", 2),
        trial(3, "curator-mutex", 2),
    ];
    let stored = records::stored(&run(), &shuffled);
    let view = View::of(&stored);
    assert_eq!(view.strategies, ["polling", "parent-watch (while_holding=relist)", "curator-mutex"]);
    let cells: Vec<_> = view.cells.iter().map(|cell| (cell.strategy, cell.contenders)).collect();
    assert_eq!(cells, [(0, 2), (1, 2), (2, 2), (2, 10)]);
}

#[test]
fn metrics_equal_those_of_the_stored_trial() {
    let stored = records::stored(&run(), &[trial(0, "polling", 2)]);
    let view = View::of(&stored);
    let cell = &view.cells[0];
    let figure = |entry| cell.figure(entry);
    assert_eq!((figure(&THROUGHPUT), figure(&FAN_OUT)), (Some(20.0), Some(1.0)));
    assert_eq!(cell.requests(), [(RequestKind::Create, 1.0), (RequestKind::GetChildren, 3.0)]);
    assert_eq!((figure(&OVERTAKEN_SHARE), figure(&FAIRNESS)), (Some(0.1), Some(1.0)));
    assert_eq!(cell.pooled(Measure::Wait).map(|samples| samples.count()), Some(50));
    assert_eq!(cell.pooled(Measure::Handoff), None);
    assert_eq!(view.accounting()[0].agrees, Some(true));
}

#[test]
fn a_partial_last_second_is_omitted() {
    // Given a measured phase of two and a half seconds
    assert_eq!(Bins::of(&trial(0, "polling", 2)).acquired, [20, 20]);
}

#[test]
fn no_acquisition_means_not_measured_rather_than_zero() {
    let mut idle = trial(0, "polling", 2);
    (idle.measured, idle.histograms, idle.tallies) = (Counts::default(), BTreeMap::new(), Vec::new());
    let stored = records::stored(&run(), &[idle]);
    let view = View::of(&stored);
    for missing in [&FAN_OUT, &REQUESTS_PER_ACQUISITION, &FAIRNESS, &OVERTAKEN_SHARE] {
        assert_eq!(view.cells[0].figure(missing), None, "{}", missing.card.name);
    }
    assert!(!view.cells[0].has_samples(Measure::Wait));
}

#[test]
fn repetitions_of_one_combination_share_a_cell_in_order() {
    let mut second = trial(0, "polling", 2);
    second.spec.repetition = 2;
    let stored = records::stored(&run(), &[second, trial(1, "polling", 2)]);
    let view = View::of(&stored);
    assert_eq!(view.cells.len(), 1);
    let numbers: Vec<u32> = view.cells[0].all().map(|one| one.spec.repetition).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn the_environment_names_servers_version_host_data_and_seed() {
    let line = View::of(&records::stored(&run(), &[trial(0, "polling", 2)])).place_line();
    for said in [
        "local ensemble, 3 servers (ZooKeeper 3.9.4)",
        "share one host with 2 cores",
        "/data (ext4: every write is synced)",
        "scenario demo, closed load, seed 7",
    ] {
        assert!(line.contains(said), "{line}");
    }
}

#[test]
fn servers_with_unknown_or_mixed_versions_have_none() {
    let place = |versions: &[&str]| {
        let mut run = run();
        for (server, version) in run.ensemble.servers.iter_mut().zip(versions) {
            (*version).clone_into(&mut server.version);
        }
        View::of(&records::stored(&run, &[trial(0, "polling", 2)])).place_line()
    };
    let unknown = place(&["not known"; 3]);
    assert!(unknown.contains("3 servers (ZooKeeper's version not known)"), "{unknown}");
    let two = place(&["3.9.4", "3.8.0--1, built on", "not known"]);
    assert!(two.contains("3 servers (ZooKeeper 3.8.0 and 3.9.4)"), "{two}");
}

#[test]
fn the_reason_for_uncompared_server_counts_is_given_once() {
    let silent = |trial: Trial| Trial {
        servers: vec![ServerCounters {
            address: "zk1:2181".into(),
            silent: Some("`mntr` is not allowed there; do this".into()),
            ..ServerCounters::default()
        }],
        ..trial
    };
    let trials = [silent(trial(0, "polling", 2)), silent(trial(1, "polling", 10))];
    let stored = records::stored(&run(), &trials);
    let view = View::of(&stored);
    let expected = "not compared with the client's counts: zk1:2181: `mntr` is not allowed there; do this";
    assert_eq!(view.notes(), [expected]);
}

#[test]
fn invalid_partial_and_violated_trials_keep_their_reasons() {
    let mut bad = trial(0, "polling", 2);
    bad.health.invalid = Some("timer lag".into());
    bad.cut_short = records::interrupted();
    let holder = |contender| Holder { contender, sequence: None, czxid: None, entered_us: 5 };
    bad.violations = vec![Violation { lock: 0, inside: holder(1), entered: holder(3), at: 9 }];
    bad.violation_count = 4;
    zklockbench_judge::judge(&mut bad);
    let stored = records::stored(&run(), &[bad]);
    let view = View::of(&stored);
    assert_eq!(
        view.notes(),
        [
            "violated: polling, 2 contenders, repetition 1: 4 violations; the first: contender 3 (no node, in since 5 µs) \
             entered lock 0 while contender 1 (no node, in since 5 µs) was inside",
            "invalid: polling, 2 contenders, repetition 1: timer lag",
            "partial: polling, 2 contenders, repetition 1: interrupted",
        ]
    );
}

#[test]
fn a_partial_run_states_how_much_of_it_ran() {
    let cut = Run { outcome: RunOutcome::aborted("ensemble lost"), ..run() };
    let stored = records::stored(&cut, &[trial(0, "polling", 2)]);
    let view = View::of(&stored);
    assert_eq!(view.remarks, ["The run ended early: ensemble lost; 1 of 6 trials ran"]);
}

#[test]
fn a_run_without_trials_gives_an_empty_view() {
    let stored = records::stored(&run(), &[]);
    let view = View::of(&stored);
    assert!(view.cells.is_empty() && view.strategies.is_empty());
}

#[test]
fn unplanned_elections_and_samples_above_the_range_are_noted() {
    let mut shaken = trial(0, "polling", 2);
    let election = |seen_us, after_fault| zklockbench_record::Election {
        seen_us,
        leader: "zk2:2181".into(),
        epoch: 5,
        after_fault,
    };
    shaken.elections = Some(vec![election(1_240_000, None), election(2_000_000, Some(1))]);
    shaken.measured.saturated = 1;
    let notes = View::of(&records::stored(&run(), &[shaken])).notes();
    let told = |what: &str| notes.iter().filter(|note| note.starts_with(what)).cloned().collect::<Vec<_>>();
    assert_eq!(
        told("election"),
        ["election: polling, 2 contenders, repetition 1: the servers elected a new leader, zk2:2181, first \
             seen 1.24 s into the measured phase; no fault caused this"]
    );
    assert_eq!(
        told("too long"),
        ["too long: polling, 2 contenders, repetition 1: 1 sample counts as 1h but took longer"]
    );
}

#[test]
fn the_notes_state_the_precision_of_a_run() {
    let precision = |half_width, reached| zklockbench_record::Precision {
        asked: 0.02,
        reached,
        rounds: 7,
        widest: Some(zklockbench_record::Widest { strategy: "polling".into(), contenders: 2, half_width }),
    };
    let note = |precision| {
        let run = Run { precision: Some(precision), ..run() };
        View::of(&records::stored(&run, &[trial(0, "polling", 2)])).notes().remove(0)
    };
    assert_eq!(
        note(precision(Some(0.0151), true)),
        "precision: ± 2 % reached after 7 repetitions; the widest interval is ± 1.51 % (polling, 2 \
         contenders)"
    );
    assert_eq!(
        note(precision(None, false)),
        "precision: ± 2 % not reached after 7 repetitions; polling, 2 contenders has too few valid repetitions \
         with data"
    );
}

#[test]
fn a_missing_floor_is_reported_unless_the_version_measured_none() {
    let remarks = |floor| View::of(&records::stored(&Run { floor, ..run() }, &[])).remarks;
    assert!(remarks(None).is_empty() && remarks(Some(records::floor())).is_empty());
    let told = remarks(Some(Floor::not_measured("the servers were not warmed up (--cold)")));
    assert_eq!(told, ["floor not measured: the servers were not warmed up (--cold)"]);
    let part = Floor { missing: Some("no session on zk3:2181".into()), ..records::floor() };
    assert_eq!(remarks(Some(part)), ["the floor does not cover all servers: no session on zk3:2181"]);
}

#[test]
fn a_run_file_of_a_version_that_measured_no_floor_is_still_read() {
    let mut file = serde_json::to_value(&records::stored(&run(), &[]).run).unwrap();
    assert!(file.as_object_mut().unwrap().remove("floor").is_some());
    let read: RunFile = serde_json::from_value(file).unwrap();
    assert_eq!((read.run.floor, read.run.scenario.as_str()), (None, "demo"));
}
