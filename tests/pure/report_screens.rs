//! Complete screens of unusual runs. The name of the strategy in each row states what is unusual.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::support::drawn::{svgs, texts};
use crate::support::shown::{markdown, terminal};
use crate::support::views::{
    FIVE, acquire, break_all, break_by, fault, interrupt, line, pace, samples, spoil, stuck, trial, trials,
    unproved, view, violate,
};
use crate::support::{records, views};
use zklockbench_core::measure::RequestKind::{Create, Delete};
use zklockbench_core::measure::{Counts, Measure, Outcome, OutcomeCounts};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{
    Cause, Counted, CutShort, Election, EnsembleOrder, Excused, FaultRecord, FencingCounts, Floor, Judged,
    Parts, Precision, Run, RunOutcome, ServerCounters, ServerInfo, Standstill, Stuck, Trial, Widest,
};
use zklockbench_report::{Style, View, view::Bins};

const PLAIN: Style = Style::EVERYTHING;

/// A strategy, and a change to its repetitions. The change receives the repetition's index.
type Row = (&'static str, fn(usize, &mut Trial));

/// A view of these rows, with four contenders and three repetitions each.
fn rows(rows: &[Row]) -> View<'static> {
    let labels: Vec<&str> = rows.iter().map(|(label, _)| *label).collect();
    let mut view = view(&labels, &[4]);
    for (cell, (_, change)) in view.cells.iter_mut().zip(rows) {
        cell.trials.iter_mut().map(Cow::to_mut).enumerate().for_each(|(at, trial)| change(at, trial));
    }
    view
}

fn screens(of: &[(&str, View<'_>)]) -> String {
    let mut shown = String::new();
    for (title, view) in of {
        writeln!(shown, "=== {title}\n{}", terminal(view, PLAIN)).unwrap();
    }
    shown
}

fn waits(trial: &mut Trial, us: &[u64]) {
    trial.histograms = [(Measure::Wait, records::histogram(us))].into();
}

fn judged_stuck(exclusion: Verdict) -> Judged {
    let why = "5 contenders are stuck although all faults are over; the first is contender 0";
    let progress = Some(Verdict::Violated(vec![why.to_owned()]));
    Parts { exclusion, progress, order: None, accounting: None, figures: None }.into()
}

const ODD: &[Row] = &[
    ("all-alike", |_, trial| {
        pace(trial, 123.456);
        trial.histograms = [(Measure::Wait, samples(0.0, 100, 1))].into();
    }),
    ("median-and-range", |at, trial| pace(trial, [30.0, 10.0, 20.0][at])),
    ("an-invalid-repetition", |at, trial| {
        pace(trial, [900.0, 10.0, 20.0][at]);
        if at == 0 {
            spoil(trial, "timer lag 40 ms");
        }
    }),
    ("violated", |at, trial| {
        if at == 1 {
            let why = "12 violations; the first: contender 3 entered lock 0 while contender 1 was inside";
            trial.violation_count = 12;
            trial.judged = records::judged(Verdict::Violated(vec![why.into()]));
        }
    }),
    ("violated-without-an-overlap", |at, trial| {
        if at == 1 {
            trial.judged = records::judged(Verdict::Violated(vec!["1 contender is stuck".into()]));
        }
    }),
    // A hundred waits of one microsecond, a timeout after four seconds, and a pending wait
    ("unserved", |_, trial| {
        waits(trial, &[1; 100]);
        trial.measured.outcomes = OutcomeCounts::default();
        trial.measured.outcomes.add(Outcome::Acquired, 100);
        trial.measured.outcomes.add(Outcome::TimedOut, 1);
        trial.histograms.insert(Measure::Unserved, records::histogram(&[4_000_000, 4_000_000]));
    }),
    // One of 101 waits is never served and lasts for the entire trial.
    ("starved", |_, trial| {
        waits(trial, &[1; 100]);
        trial.histograms.insert(Measure::Unserved, records::histogram(&[10_000_000]));
    }),
    // Two repetitions with a few short waits, and one repetition with many long waits
    ("percentiles-not-pooled", |at, trial| {
        let (us, times) = [(10, 5), (1_000, 500), (20, 5)][at];
        waits(trial, &vec![us; times]);
    }),
    ("an-outage", |at, trial| {
        pace(trial, [10.0, 20.0, 30.0][at]);
        if at == 0 {
            let signs = vec!["zk1:2181 was restarted".into()];
            trial.standstill = Some(Standstill { lasted_us: 1_500_000, began_us: 9, signs });
        }
    }),
    ("half-took-part", |_, trial| trial.sessions.opened = 2),
    ("errors", |at, trial| {
        if at == 0 {
            trial.errors = [("create: connection loss".into(), 2)].into();
        }
    }),
    ("elections", |at, trial| {
        let election =
            |seen_us, after_fault| Election { seen_us, leader: "zk2:2181".into(), epoch: 5, after_fault };
        if at == 0 {
            trial.elections = Some(vec![election(1_240_000, None), election(2_000_000, Some(1))]);
            trial.measured.saturated = 1;
        }
    }),
    ("nothing-acquired", |_, trial| {
        (trial.measured, trial.tallies) = (Counts::default(), Vec::new());
        trial.histograms.clear();
    }),
    // The servers counted one notification fewer than the client.
    ("counts-differ", |_, trial| {
        trial.accounting = vec![
            line(Counted::Requests, 10, None, None),
            line(Counted::Reads, 100, Some(101), None),
            line(Counted::Writes, 50, None, Some(50)),
            line(Counted::NodeDeleted, 7, None, Some(6)),
            line(Counted::ChildrenChanged, 1, None, Some(1)),
        ];
    }),
    // The servers' sum over only two of three repetitions would look like a disagreement, so there is no sum.
    ("counts-incomplete", |at, trial| {
        let servers = (at > 0).then_some(100);
        trial.accounting = vec![line(Counted::Reads, 100, Some(100), servers)];
    }),
];

#[test]
fn unusual_trials_are_marked_in_their_rows_and_notes() {
    let view = rows(ODD);
    insta::assert_snapshot!("odd_rows", screens(&[("odd", view.clone())]) + &markdown(&view));
}

#[test]
fn a_run_shows_its_counts_floor_evidence_and_missing_data() {
    let counts = |expected| {
        let mut view = view(&["polling"], &[4]);
        trials(&mut view)
            .for_each(|trial| trial.accounting = vec![line(Counted::Reads, 100, expected, None)]);
        view
    };
    let one_and_four = || view(&["polling"], &[1, 4]);
    let floor = |handoff_us, floor| {
        let mut view = one_and_four();
        for trial in views::trials_of(&mut view, 0, 4) {
            trial.histograms.insert(Measure::Handoff, records::histogram(&[handoff_us]));
            trial.histograms.insert(Measure::Uncontended, records::histogram(&[5_000]));
        }
        view.floor = Some(floor);
        view
    };
    let mut evidence = one_and_four();
    evidence.evidence = Some("in the weakest trial, 40 of 60 acquisitions were checked".into());
    let mut violated = evidence.clone();
    violated.judged = records::judged(Verdict::Violated(vec!["two".into()]));
    let mut empty = views::empty();
    empty.judged = records::judged(Verdict::Unknown(vec!["0 of 15 trials ran".into()]));
    let shown = screens(&[
        ("the servers returned no counts", counts(None)),
        ("client and cost model agree", counts(Some(100))),
        ("client and cost model disagree", counts(Some(101))),
        ("above the floor", floor(1_500, records::floor())),
        ("below the floor", floor(900, records::floor())),
        ("the floor was not measured", floor(1_500, Floor::not_measured("why"))),
        ("evidence of a lock that held", evidence),
        ("no evidence for a violated lock", violated),
        ("an empty run", empty.clone()),
    ]);
    insta::assert_snapshot!("special_runs", shown + &markdown(&empty));
}

/// Rows of trials with faults.
const BROKEN: &[Row] = &[
    ("all-sorts-of-trouble", |at, trial| {
        break_by(trial, &[fault("crash holder", [10_000, 1_000_000, 20_000][at])]);
        if at == 1 {
            violate(trial, 2);
            trial.ensemble_order =
                Some(EnsembleOrder { checked: 100, too_early: 2, ..EnsembleOrder::default() });
            trial.excused = Excused { zombies: 3, longest_unsafe_us: 450_000, uncertain: 4 };
            (trial.stuck, trial.orphans) = ((0..23).map(stuck).collect(), Some(5));
            (trial.sessions.expired, trial.whole.lost_while_held) = (6, 7);
            trial.whole.outcomes.add(Outcome::SessionExpired, 8);
            trial.fencing = FencingCounts { stale: 9, stale_rejected: 1, ..FencingCounts::default() };
        }
    }),
    ("two-faults", |_, trial| {
        break_by(trial, &[fault("crash holder", 10_000), fault("freeze waiter", 90_000)]);
        violate(trial, 1);
    }),
    ("never-recovered", |at, trial| {
        let never = FaultRecord { recovered_us: None, longest_gap_us: None, ..fault("kill leader", 0) };
        break_by(trial, &[if at == 1 { fault("kill leader", 7_000) } else { never }]);
    }),
    ("too-short-to-measure", |_, trial| {
        break_by(trial, &[FaultRecord { longest_gap_us: None, ..fault("expire waiter", 0) }]);
    }),
    // An unproved fault, a fault in an invalid trial, and a valid fault. Only the valid fault counts.
    ("unproved-and-invalid", |at, trial| {
        let unproved = unproved("the leader still answered", fault("kill leader", 5_000_000));
        let faults = [unproved, fault("kill leader", 9_000_000), fault("kill leader", 30_000)];
        break_by(trial, &faults[at..=at]);
        if at == 1 {
            spoil(trial, "timer lag");
            trial.orphans = None;
        }
    }),
    ("not-undone", |at, trial| {
        let ended_us = (at > 0).then_some(5_000_000);
        let left = (at == 0).then(|| "no permission".into());
        break_by(trial, &[FaultRecord { left, ended_us, ..fault("freeze holder", 10_000) }]);
    }),
    ("recorded", |at, trial| {
        if at == 0 {
            break_by(trial, &[FaultRecord { elected_us: Some(370_000), ..fault("crash holder", 800_000) }]);
            trial.stuck = vec![Stuck {
                node: Some("n-0000000012".into()),
                position: Some(2),
                blocked_by: Some("n-0000000010 (session 0x7, contender 0)".into()),
                watches: vec!["/r/n-0000000011".into()],
                ..stuck(1)
            }];
        }
    }),
];

fn heat_map(view: &View<'_>) -> String {
    let charts = svgs(view).into_iter().filter(|(name, _)| name.starts_with("faults"));
    charts.map(|(name, svg)| format!("{name}: {}\n", texts(&svg.unwrap()).join(" | "))).collect()
}

#[test]
fn problems_under_faults_are_shown_in_rows_notes_and_tiles() {
    let view = rows(BROKEN);
    let mut three = rows(&BROKEN[..1]);
    break_all(&mut three, &["crash holder", "expire any", "freeze waiter"]);
    let shown = screens(&[("broken", view.clone()), ("three faults in all trials", three)]);
    insta::assert_snapshot!("broken_rows", shown + &heat_map(&view));
}

#[test]
fn lock_with_stuck_contenders_is_shown_as_stuck_unless_exclusion_is_violated() {
    let stuck_view = |faults: &[&str]| {
        let mut view = view(&["predecessor-watch"], &[4]);
        if !faults.is_empty() {
            break_all(&mut view, faults);
        }
        let bad = trial(&mut view, 0, 4, 1);
        (bad.stuck, bad.judged) = ((0..5).map(stuck).collect(), judged_stuck(Verdict::Held));
        view.judged = judged_stuck(Verdict::Held);
        view
    };
    let mut let_in = stuck_view(&["crash holder"]);
    let why = Verdict::Violated(vec!["2 violations".into()]);
    let bad = trial(&mut let_in, 0, 4, 2);
    (bad.violation_count, bad.judged) = (2, judged_stuck(why.clone()));
    let_in.judged = judged_stuck(why);
    insta::assert_snapshot!(
        "stuck_locks",
        screens(&[
            ("without faults", stuck_view(&[])),
            ("under a fault", stuck_view(&["crash holder"])),
            ("stuck and violated", let_in),
        ])
    );
}

/// A view of a stored run. The run is leaked, so the view is `'static`.
fn stored(run: &Run, trials: &[Trial]) -> View<'static> {
    View::of(Box::leak(Box::new(records::stored(run, trials))))
}

fn demo() -> Run {
    let server = |role: &str| ServerInfo {
        address: "127.0.0.1:2181".into(),
        role: role.into(),
        version: "3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19".into(),
        shares_host: None,
    };
    let mut run = Run {
        scenario: "demo".into(),
        strategies: ["polling", "parent-watch (while_holding=relist)", "curator-mutex"]
            .map(str::to_owned)
            .into(),
        ..records::run(6)
    };
    run.ensemble.kind = "local".into();
    run.ensemble.servers = vec![server("leader"), server("follower"), server("follower")];
    run.ensemble.placement = "/data (ext4: every write is synced)".into();
    run.ensemble.shares_host = true;
    run
}

fn labelled(index: usize, label: &str, contenders: usize, repetition: u32) -> Trial {
    let mut trial = records::trial(index);
    trial.spec.strategy.label = label.into();
    (trial.spec.contenders, trial.spec.repetition) = (contenders, repetition);
    trial
}

#[test]
fn stored_run_is_shown_in_scenario_order_with_its_missing_data() {
    let shuffled = [
        labelled(0, "curator-mutex", 10, 1),
        labelled(1, "parent-watch (while_holding=relist)", 2, 1),
        labelled(2, "polling", 2, 2),
        labelled(3, "polling", 2, 1),
        labelled(4, "curator-mutex", 2, 1),
    ];
    let silent = |label| Trial {
        servers: vec![ServerCounters {
            address: "zk1:2181".into(),
            silent: Some("`mntr` is not allowed there; do this".into()),
            ..ServerCounters::default()
        }],
        ..labelled(0, label, 2, 1)
    };
    let mut bad = records::trial_with_a_violation(0);
    bad.health.invalid = Some("timer lag".into());
    bad.cut_short = records::interrupted();
    let mut growing = records::overloaded(1);
    for trial in [&mut bad, &mut growing] {
        trial.spec.strategy.label = "polling".into();
        zklockbench_judge::judge(trial);
    }
    let precision = |half_width, reached| {
        let widest = Some(Widest { strategy: "polling".into(), contenders: 2, half_width });
        let precision = Precision { asked: 0.02, reached, rounds: 7, widest };
        stored(&Run { precision: Some(precision), ..demo() }, &[labelled(0, "polling", 2, 1)])
    };
    let versions = |versions: [&str; 3]| {
        let mut run = demo();
        for (server, version) in run.ensemble.servers.iter_mut().zip(versions) {
            version.clone_into(&mut server.version);
        }
        stored(&run, &[])
    };
    let floor = |floor| stored(&Run { floor, ..demo() }, &[]);
    let part = Floor { missing: Some("no session on zk3:2181".into()), ..records::floor() };
    insta::assert_snapshot!(
        "stored_runs",
        screens(&[
            ("shuffled", stored(&demo(), &shuffled)),
            ("silent servers", stored(&demo(), &[silent("polling"), silent("curator-mutex")])),
            ("violated, invalid and partial", stored(&demo(), &[bad])),
            ("a growing queue", stored(&demo(), &[growing])),
            ("aborted", stored(&Run { outcome: RunOutcome::aborted("ensemble lost"), ..demo() }, &shuffled)),
            ("precise enough", precision(Some(0.0151), true)),
            ("not precise enough", precision(None, false)),
            ("unknown versions", versions(["not known"; 3])),
            ("several versions", versions(["3.9.4", "3.8.0--1, built on", "not known"])),
            ("no floor", floor(None)),
            (
                "floor not measured",
                floor(Some(Floor::not_measured("the servers were not warmed up (--cold)")))
            ),
            ("floor of some servers", floor(Some(part))),
        ])
    );
}

#[test]
fn timeline_omits_a_partial_last_second() {
    // Given a measured phase of 2.5 seconds
    assert_eq!(Bins::of(&records::trial(0)).acquired, [3, 2]);
}

#[test]
fn a_cell_shows_the_requests_of_its_median_repetition() {
    let mut view = view(&["polling"], &[4]);
    let kinds =
        [[(Create, 1.0), (Delete, 1.0)], [(Create, 5.0), (Delete, 5.0)], [(Create, 1.0), (Delete, 2.0)]];
    trials(&mut view).zip(kinds).for_each(|(trial, kinds)| acquire(trial, &kinds));
    assert_eq!(view.cells[0].requests(), [(Create, 1.0), (Delete, 2.0)]);
    // With an even number of repetitions, the cell shows the mean of the middle two.
    view.cells[0].trials.truncate(2);
    assert_eq!(view.cells[0].requests(), [(Create, 3.0), (Delete, 3.0)]);
}

#[test]
fn terminal_and_markdown_show_every_kind_of_problem() {
    let mut view = view(&["predecessor-watch", "no-lock"], &[1, 4]);
    interrupt(trial(&mut view, 0, 1, 2));
    trial(&mut view, 1, 1, 0).accounting = vec![line(Counted::Reads, 100, Some(101), None)];
    break_all(&mut view, &["crash holder", "kill leader"]);
    spoil(trial(&mut view, 0, 4, 1), "timer lag 40 ms");
    violate(trial(&mut view, 1, 4, 0), 7);
    view.remarks = vec!["The run was interrupted: 12 of 15 trials ran".into()];
    view.judged = records::judged(Verdict::Violated(vec!["no-lock admitted two holders".into()]));
    insta::assert_snapshot!([terminal(&view, PLAIN), markdown(&view)].join("\n"));
}

#[test]
fn tables_omit_columns_or_become_lists_on_narrow_terminals() {
    let mut with_floor = view(&FIVE, &[1, 10, 100]);
    with_floor.floor = Some(records::floor());
    let mut broken = view(&["parent-watch (while_holding=relist)", "polling"], &[4, 100]);
    break_all(&mut broken, &["delay any latency=20ms jitter=5ms", "crash holder"]);
    let shown = [(&with_floor, 80), (&with_floor, 120), (&broken, 80), (&broken, 40)]
        .map(|(view, width)| terminal(view, Style { width: Some(width), ..PLAIN }));
    insta::assert_snapshot!("narrow", shown.join("\n===\n"));
}

#[test]
fn zombies_are_reported_even_without_faults() {
    let mut view = view(&["polling"], &[4]);
    view.evidence = Some("40 of 60 acquisitions were checked".into());
    trial(&mut view, 0, 4, 1).excused = Excused { zombies: 3, longest_unsafe_us: 450_000, uncertain: 0 };
    let shown = terminal(&view, PLAIN);
    assert!(shown.contains("Zombies: 3 acquisitions were made while"), "{shown}");
}

#[test]
fn colour_is_used_only_if_allowed() {
    let (escape, view) = ('\u{1b}', view(&["polling"], &[4]));
    assert!(!terminal(&view, PLAIN).contains(escape));
    assert!(terminal(&view, Style { colour: true, ..PLAIN }).contains(escape));
}

#[test]
fn markdown_tables_escape_special_characters_and_have_rows_of_equal_length() {
    let mut view = view(&["a|b <i>", "c"], &[4, 10]);
    let why = "lost | gone\nfor good".into();
    trial(&mut view, 0, 4, 0).cut_short = Some(CutShort { cause: Cause::EnsembleLost, why });
    let shown = markdown(&view);
    assert!(shown.contains("| a\\|b &lt;i> | 4 |") && shown.contains("lost \\| gone for good"), "{shown}");
    let rows = shown.lines().skip_while(|line| !line.starts_with('|'));
    let cells: Vec<usize> =
        rows.take_while(|line| line.starts_with('|')).map(|row| row.matches(" | ").count()).collect();
    assert!(cells.len() == 2 + 4 && cells.iter().all(|count| *count == cells[0]), "{shown}");
}
