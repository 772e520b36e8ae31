//! Faults: what the table, the notes, the heat map and the shaded chart say of them.

use crate::support::drawn::texts;
use crate::support::records;
use crate::support::shown::{markdown, terminal};
use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::support::views::{
    FIVE, break_all, break_by, fault, spoil, stuck, trial, trials, trials_of, unproved, view, violate,
};
use zklockbench_core::measure::Outcome;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{EnsembleOrder, Excused, FaultRecord, FencingCounts, Judged, Parts, Stuck, Trial};
use zklockbench_report::{Style, View, chart};

const PLAIN: Style = Style::EVERYTHING;

/// The rows of the table of faults, each as its words by the column's heading.
fn rows(view: &View<'_>) -> Vec<BTreeMap<String, String>> {
    let text = markdown(view);
    let table =
        &text[text.find("| strategy | fault |").unwrap_or_else(|| panic!("no table of faults:\n{text}"))..];
    let cells = |line: &str| line.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect();
    let mut lines = table.lines().take_while(|line| line.starts_with('|')).map(cells);
    let headings: Vec<String> = lines.next().unwrap();
    lines.skip(1).map(|row: Vec<String>| headings.iter().cloned().zip(row).collect()).collect()
}

/// So many entries too early, of those compared.
fn order(checked: u64, too_early: u64) -> EnsembleOrder {
    EnsembleOrder { checked, too_early, ..EnsembleOrder::default() }
}

/// One strategy with four contenders, three repetitions, none of them broken yet.
fn one() -> View<'static> {
    view(&["predecessor-watch"], &[4])
}

fn svg(view: &View<'_>, name: &str) -> String {
    let found = chart::svgs(view).into_iter().find(|(chart, _)| chart.starts_with(name));
    found.unwrap_or_else(|| panic!("no chart {name}")).1.unwrap()
}

#[test]
fn without_faults_no_fault_section_is_printed() {
    let view = view(&FIVE, &[1, 4]);
    for shown in [terminal(&view, PLAIN), markdown(&view)] {
        assert!(!shown.contains("fault") && !shown.contains("recovery"), "{shown}");
    }
    let charts: Vec<String> = chart::svgs(&view).into_iter().map(|(name, _)| name).collect();
    assert_eq!(charts.len(), 7, "{charts:?}");
    assert!(!svg(&view, "throughput-over-time").contains("Shaded"));
}

#[test]
fn a_row_shows_one_lock_under_one_fault() {
    // Given three repetitions that recovered after 10 ms, 20 ms and 1 s, and one of them with all sorts of trouble
    let mut view = one();
    for (trial, us) in trials(&mut view).zip([10_000, 1_000_000, 20_000]) {
        break_by(trial, &[fault("crash holder", us)]);
    }
    let bad = trial(&mut view, 0, 4, 1);
    violate(bad, 2);
    bad.ensemble_order = Some(order(100, 2));
    bad.excused = Excused { zombies: 3, longest_unsafe_us: 450_000, uncertain: 4 };
    (bad.stuck, bad.orphans) = (vec![stuck(1)], Some(5));
    (bad.sessions.expired, bad.whole.lost_while_held) = (6, 7);
    bad.whole.outcomes.add(Outcome::SessionExpired, 8);
    bad.fencing = FencingCounts { stale: 9, stale_rejected: 1, ..FencingCounts::default() };
    // Then its row has the median and the longest of the three, and the sums of the rest
    let rows = rows(&view);
    assert_eq!(rows.len(), 1);
    let expected = [
        ("strategy", "predecessor-watch"),
        ("fault", "crash holder"),
        ("contenders", "4"),
        ("faults", "3"),
        ("longest gap", "1 s"),
        ("recovery", "20 ms"),
        ("recovery max", "1 s"),
        ("violations", "2"),
        ("too early", "2 of 100"),
        ("zombies", "3"),
        ("unsafe", "450 ms"),
        ("uncertain", "4"),
        ("stuck", "1"),
        ("orphans", "5"),
        ("sessions lost", "6"),
        ("holds lost", "7"),
        ("waits lost", "8"),
        ("stale writes", "9"),
        ("rejected", "1"),
    ];
    for (heading, text) in expected {
        assert_eq!(rows[0][heading], text, "{heading}");
    }
}

#[test]
fn with_several_faults_times_belong_to_each_and_other_metrics_to_all() {
    // Given trials with two faults each
    let mut view = one();
    for trial in trials(&mut view) {
        break_by(trial, &[fault("crash holder", 10_000), fault("freeze waiter", 90_000)]);
        violate(trial, 1);
    }
    // Then each fault has its own recovery, and the violations are those of both together
    let rows = rows(&view);
    let shown = |row: usize| {
        (rows[row]["fault"].as_str(), rows[row]["recovery"].as_str(), rows[row]["violations"].as_str())
    };
    assert_eq!(shown(0), ("crash holder", "10 ms", "-"));
    assert_eq!(shown(1), ("freeze waiter", "90 ms", "-"));
    assert_eq!(shown(2), ("crash holder + freeze waiter", "-", "3"));
    assert!(terminal(&view, PLAIN).contains("In trials with several faults"));
}

#[test]
fn more_than_two_faults_of_all_trials_are_not_repeated_by_name() {
    let mut view = one();
    break_all(&mut view, &["crash holder", "expire any", "freeze waiter"]);
    assert_eq!(rows(&view)[3]["fault"], "all 3 together");
}

#[test]
fn a_fault_without_a_later_acquisition_never_recovered() {
    let mut view = one();
    let never = FaultRecord { recovered_us: None, longest_gap_us: None, ..fault("kill leader", 0) };
    for (trial, fault) in trials(&mut view).zip([never.clone(), fault("kill leader", 7_000), never]) {
        break_by(trial, &[fault]);
    }
    let row = &rows(&view)[0];
    assert_eq!(
        (row["recovery"].as_str(), row["recovery max"].as_str(), row["longest gap"].as_str()),
        ("never", "never", "no end")
    );
}

#[test]
fn an_outage_too_short_to_measure_is_not_zero() {
    let mut view = one();
    let short = FaultRecord { longest_gap_us: None, ..fault("expire waiter", 0) };
    trials(&mut view).for_each(|trial| break_by(trial, std::slice::from_ref(&short)));
    let row = &rows(&view)[0];
    assert_eq!((row["recovery"].as_str(), row["longest gap"].as_str()), ("&lt; 5 ms", "&lt; 5 ms"));
}

#[test]
fn unproved_faults_and_invalid_trials_show_no_times() {
    // Given an unproved fault with a long recovery, and an invalid trial with one that is longer still
    let mut view = one();
    let unproved = unproved("the leader still answered", fault("kill leader", 5_000_000));
    let faults = [unproved, fault("kill leader", 9_000_000), fault("kill leader", 30_000)];
    trials(&mut view).zip(faults).for_each(|(trial, fault)| break_by(trial, &[fault]));
    spoil(trial(&mut view, 0, 4, 1), "timer lag");
    trial(&mut view, 0, 4, 1).orphans = None;
    // Then only the third counts, and the orphans of one trial were not counted
    let row = &rows(&view)[0];
    assert_eq!((row["faults"].as_str(), row["recovery max"].as_str()), ("2 of 3", "30 ms"));
    assert_eq!(row.get("orphans"), None, "a column without a figure");
    let note = "! not proved: predecessor-watch, 4 contenders, repetition 1: fault 1 (kill leader on contender 3 \
                (holder)): the leader still answered";
    assert!(terminal(&view, PLAIN).contains(note), "{}", terminal(&view, PLAIN));
}

#[test]
fn stuck_contenders_orphans_and_unhealed_faults_are_listed() {
    let mut view = one();
    let left =
        FaultRecord { left: Some("no permission".into()), ended_us: None, ..fault("freeze holder", 10_000) };
    let bad = trial(&mut view, 0, 4, 1);
    break_by(bad, &[left]);
    (bad.stuck, bad.orphans) = ((0..23).map(stuck).collect(), Some(2));
    let shown = terminal(&view, PLAIN);
    let of = "predecessor-watch, 4 contenders, repetition 2";
    for note in [
        format!("! stuck: {of}: contender 0 waited 13 s for lock 0, no node found, watches nothing\n"),
        format!("! stuck: {of}: 3 more; trials/042.json has them all\n"),
        "! orphans: predecessor-watch, 4 contenders: 2 nodes were left after all contenders had released, "
            .to_owned(),
        format!("! not undone: {of}: fault 1 (freeze holder on contender 3 (holder)): no permission\n"),
    ] {
        assert!(shown.contains(&note), "{note}\n{shown}");
    }
}

#[test]
fn a_lock_stuck_without_faults_must_not_be_used() {
    let mut view = one();
    let bad = trial(&mut view, 0, 4, 1);
    (bad.stuck, bad.judged) = ((0..5).map(stuck).collect(), judged_stuck(Verdict::Held));
    view.judged = judged_stuck(Verdict::Held);
    let shown = terminal(&view, PLAIN);
    let begins =
        "VIOLATED (stuck): predecessor-watch must not be used: it left contenders waiting for a free lock";
    assert!(shown.starts_with(begins), "{shown}");
}

/// What a trial is judged as in which five contenders were stuck.
fn judged_stuck(exclusion: Verdict) -> Judged {
    let why = "5 contenders are stuck although all faults are over; the first is contender 0";
    let progress = Some(Verdict::Violated(vec![why.to_owned()]));
    Parts { exclusion, progress, order: None, accounting: None, figures: None }.into()
}

#[test]
fn a_lock_that_leaves_contenders_waiting_is_called_stuck_wherever_it_is_violated() {
    let mut view = one();
    break_all(&mut view, &["crash holder"]);
    let bad = trial(&mut view, 0, 4, 1);
    (bad.stuck, bad.judged) = ((0..5).map(stuck).collect(), judged_stuck(Verdict::Held));
    view.judged = judged_stuck(Verdict::Held);
    let shown = terminal(&view, PLAIN);
    let begins = "VIOLATED (stuck): predecessor-watch must not be used where such faults happen";
    assert!(shown.starts_with(begins), "{shown}");
    assert!(shown.lines().any(|row| row.contains("  4  VIOLATED (stuck)  ")), "{shown}");
    assert!(shown.contains("o overlap seen, 5 contenders stuck."), "{shown}");
    // One that let two in as well is violated, whatever else it is.
    let let_in = Verdict::Violated(vec!["2 violations".into()]);
    let bad = trial(&mut view, 0, 4, 2);
    (bad.violation_count, bad.judged) = (2, judged_stuck(let_in.clone()));
    view.judged = judged_stuck(let_in);
    let shown = terminal(&view, PLAIN);
    assert!(shown.starts_with("VIOLATED: predecessor-watch must not be used: it did not"), "{shown}");
    assert!(!shown.contains("VIOLATED (stuck)"), "{shown}");
    assert!(shown.contains("2 violations, 5 contenders stuck."), "{shown}");
}

#[test]
fn the_table_of_faults_fits_the_terminal_and_wraps_names_before_figures() {
    let mut view = view(&["parent-watch (while_holding=relist)", "polling"], &[4, 100]);
    break_all(&mut view, &["delay any latency=20ms jitter=5ms", "crash holder"]);
    for width in [80, 120, 200] {
        let shown = terminal(&view, Style { colour: false, width: Some(width), ..Style::EVERYTHING });
        let lines =
            shown.lines().skip_while(|line| !(line.starts_with("strategy") && line.contains(" fault ")));
        let table: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
        let widest = table.iter().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= usize::from(width), "{widest} > {width}\n{shown}");
        assert!(table[0].contains("recovery") && table[0].contains("violations"), "{shown}");
        // A lock and a fault are named once, above all contender counts.
        assert_eq!(table.iter().filter(|line| line.starts_with("polling")).count(), 1, "{shown}");
    }
    // If the names do not fit beside the metrics, they are above them.
    let narrow = terminal(&view, Style { colour: false, width: Some(40), ..Style::EVERYTHING });
    assert!(narrow.contains("\npolling, crash holder\n           4 "), "{narrow}");
}

/// A trial as it is recorded: the holder died, and one contender has not been served since.
fn recorded() -> Trial {
    let mut trial = records::trial(0);
    trial.whole.lost_while_held = 1;
    trial.whole.outcomes.add(Outcome::SessionExpired, 2);
    trial.whole.outcomes.add(Outcome::ConnectionLost, 3);
    trial.sessions.expired = 4;
    trial.excused = Excused { zombies: 1, uncertain: 0, longest_unsafe_us: 77_000 };
    trial.fencing = FencingCounts { writes: 9, stale: 2, stale_rejected: 1, ..FencingCounts::default() };
    trial.ensemble_order =
        Some(EnsembleOrder { checked: 300, overlaps: 1, too_early: 2, ..EnsembleOrder::default() });
    trial.orphans = Some(0);
    trial.faults = vec![FaultRecord {
        asked_us: 500_000,
        effective_us: Some(501_000),
        ended_us: Some(700_000),
        elected_us: Some(370_000),
        longest_gap_us: Some(900_000),
        ..fault("crash holder", 800_000)
    }];
    trial.stuck = vec![Stuck {
        node: Some("n-0000000012".into()),
        position: Some(2),
        blocked_by: Some("n-0000000010 (session 0x7, contender 0)".into()),
        watches: vec!["/r/n-0000000011".into()],
        ..stuck(1)
    }];
    trial
}

#[test]
fn a_recorded_trial_shows_everything_stored_about_its_faults() {
    let stored = records::stored(&records::run(1), &[recorded()]);
    let view = View::of(&stored);
    let row = &rows(&view)[0];
    let figures = [
        "election",
        "recovery",
        "longest gap",
        "too early",
        "zombies",
        "unsafe",
        "sessions lost",
        "holds lost",
        "waits lost",
        "rejected",
    ];
    assert_eq!(
        figures.map(|of| row[of].as_str()),
        ["370 ms", "800 ms", "900 ms", "2 of 300", "1", "77 ms", "4", "1", "5", "1"]
    );
    let notes = view.notes();
    let stuck = notes.iter().find(|note| note.starts_with("stuck: ")).unwrap();
    let said = "contender 1 waited 13 s for lock 0, node n-0000000012, nodes before it: 2, \
                blocked by n-0000000010 (session 0x7, contender 0), watches /r/n-0000000011";
    assert!(stuck.ends_with(said), "{stuck}");
}

#[test]
fn the_heat_map_names_every_lock_and_fault_and_prints_the_value_on_each_tile() {
    let mut view = view(&["polling", "curator-mutex"], &[4, 20]);
    for (cell, us) in view.cells.iter_mut().zip([10_000, 200_000, 3_000_000, 60_000_000]) {
        for trial in cell.trials.iter_mut().map(Cow::to_mut) {
            break_by(trial, &[fault("crash holder", us)]);
        }
    }
    let svg = svg(&view, "faults");
    let texts = texts(&svg);
    for said in ["polling, 4", "curator-mutex, 20", "crash holder", "10 ms", "200 ms", "3 s", "60 s"] {
        assert!(texts.contains(&said), "{said}: {texts:?}");
    }
}

#[test]
fn on_the_heat_map_violated_too_early_stuck_never_and_unproved_are_words() {
    let mut view = view(&["a", "b", "c", "d", "e"], &[4]);
    break_all(&mut view, &["kill leader"]);
    violate(trial(&mut view, 0, 4, 0), 3);
    trial(&mut view, 1, 4, 0).stuck = vec![stuck(1)];
    trials_of(&mut view, 2, 4).for_each(|trial| trial.faults[0].recovered_us = None);
    trials_of(&mut view, 3, 4).for_each(|trial| trial.faults[0].proved = false);
    trial(&mut view, 4, 4, 1).ensemble_order = Some(order(50, 7));
    let svg = svg(&view, "faults");
    for said in ["3 violated", "1 stuck", "never", "not proved", "7 too early"] {
        assert!(texts(&svg).contains(&said), "{said}: {:?}", texts(&svg));
    }
    // The red of what is violated, and the orange of what is stuck
    assert!(svg.contains("#BE0000") && svg.contains("#E69F00"));
}

#[test]
fn a_lock_has_a_tile_only_for_faults_that_it_met() {
    let mut view = view(&["polling", "curator-mutex", "no-lock"], &[4]);
    for (strategy, label) in [(0, "crash holder"), (1, "kill leader")] {
        trials_of(&mut view, strategy, 4).for_each(|trial| break_by(trial, &[fault(label, 10_000)]));
    }
    let svg = svg(&view, "faults");
    assert_eq!(texts(&svg).iter().filter(|text| **text == "-").count(), 2);
    assert!(!texts(&svg).contains(&"no-lock"));
    assert_eq!(rows(&view).len(), 2);
}

#[test]
fn faults_with_names_too_long_for_their_columns_are_numbered_and_listed() {
    let labels: Vec<String> = (1..=12).map(|at| format!("delay any latency={at}00ms jitter=5ms")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut view = view(&FIVE, &[20]);
    break_all(&mut view, &labels);
    let svg = svg(&view, "faults");
    for (label, number) in labels.iter().zip(1..) {
        let entry = format!("({number}) {label}");
        assert!(texts(&svg).join(" ").contains(&entry), "{entry}: {:?}", texts(&svg));
        assert!(texts(&svg).contains(&format!("({number})").as_str()), "{number}");
    }
}

#[test]
fn words_on_tiles_are_never_cut() {
    // Given thirteen columns of trouble and a lock with a long name
    let labels: Vec<String> = (1..=12).map(|at| format!("fault {at}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut view = view(&["parent-watch (while_holding=relist)"], &[20]);
    break_all(&mut view, &labels);
    for (trial, label) in trials(&mut view).zip(&labels) {
        // Each repetition had one fault, but for the last, which had them all
        if trial.spec.repetition < 3 {
            trial.faults.retain(|fault| fault.label == *label);
            violate(trial, 123_456);
        } else {
            trial.judged = records::judged(Verdict::Unknown(vec!["an overlap is uncertain".into()]));
        }
    }
    // Then nothing is cut, neither on the tiles nor above them
    let svg = svg(&view, "faults");
    let texts = texts(&svg);
    for said in ["123456", "violated", "unknown", "all 12"] {
        assert!(texts.iter().any(|text| text.contains(said)), "{said}: {texts:?}");
    }
    assert!(!texts.iter().any(|text| text.contains('…')), "{texts:?}");
}

#[test]
fn throughput_over_time_is_shaded_while_a_fault_lasted() {
    // Given two locks, only one of which met a fault from 3 s to 5 s
    let mut view = view(&["polling", "curator-mutex"], &[4]);
    trials_of(&mut view, 0, 4).for_each(|trial| break_by(trial, &[fault("crash holder", 10_000)]));
    // Then the chart is shaded, half as deep as it would be for both, and says what that means
    let half = svg(&view, "throughput-over-time");
    assert!(half.contains("Shaded") && half.contains("crash holder"));
    assert!(half.contains("opacity=\"0.22\"") && !half.contains("opacity=\"0.32\""), "the shade of both");
    break_by(trial(&mut view, 1, 4, 0), &[fault("crash holder", 10_000)]);
    assert!(svg(&view, "throughput-over-time").contains("opacity=\"0.32\""));
}

#[test]
fn a_fault_that_did_not_happen_is_not_shaded() {
    let mut view = one();
    let not_done = FaultRecord { ended_us: None, ..fault("kill leader", 0) };
    let not_done = unproved("no such server", not_done);
    trials(&mut view).for_each(|trial| break_by(trial, std::slice::from_ref(&not_done)));
    assert!(!svg(&view, "throughput-over-time").contains("Shaded"));
}
