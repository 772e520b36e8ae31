//! Two sides of runs are compared as `docs/comparing-runs.md` says, whatever the directories hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use zklockbench_analysis::compare::{
    Ask, Comparison, ComparisonVerdict, Regression, Row, Side, between_parts, compare,
};
use zklockbench_record::figures;
use zklockbench_record::{Accounting, Counted, EnsembleInfo, ServerInfo, Trial};

use zklockbench_core::catalog::fault::{FaultChoice, Start, Target};
use zklockbench_core::catalog::{ParamValue, Params};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::measure::Measure;
use zklockbench_scenario::{Distribution, Load};

use crate::support::json_schema::Schema;
use crate::support::records::side;
use crate::support::{records, run_dirs};

/// By how much the repetitions of a side differ by themselves.
const NOISE: [f64; 10] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 0.985, 1.008];

/// A side whose repetitions take so many times as long as they would, each with its own noise.
pub fn taking(name: &str, times: f64, count: usize) -> Side {
    let noise = NOISE.iter().cycle().take(count).enumerate();
    side(name, &noise.map(|(index, noise)| records::trial_taking(index, times * noise)).collect::<Vec<_>>())
}

pub fn compared(base: &Side, new: &Side) -> Comparison {
    compare(base, new, &Ask::default()).unwrap()
}

fn refused(base: &Side, new: &Side) -> String {
    let error = compare(base, new, &Ask::default()).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string()
}

pub fn row<'a>(compared: &'a Comparison, figure: &str) -> &'a Row {
    compared
        .rows
        .iter()
        .find(|row| row.figure == figure)
        .unwrap_or_else(|| panic!("no {figure}: {compared:#?}"))
}

fn verdicts(compared: &Comparison) -> BTreeMap<&str, ComparisonVerdict> {
    compared.rows.iter().map(|row| (row.figure.as_str(), row.compared.verdict)).collect()
}

#[test]
fn fifty_percent_longer_is_a_regression_and_the_reverse_an_improvement() {
    let (base, new) = (taking("base", 1.0, 10), taking("new", 1.5, 10));
    let slower = compared(&base, &new);
    for figure in ["throughput", "wait.p50", "wait.p99", "handoff.p50"] {
        assert_eq!(verdicts(&slower)[figure], ComparisonVerdict::Regressed, "{figure}");
        assert_eq!(verdicts(&compared(&new, &base))[figure], ComparisonVerdict::Improved, "{figure}");
    }
    assert_eq!(slower.conclusion.exit(), Exit::Violated);
    assert!(
        slower
            .conclusion
            .sentence
            .contains("Regressed between these two runs: turn.p50 of predecessor-watch (ttl = \"1s\", a=b), 3 contenders, \
                       closed load 1.5 times; of 7 comparisons 3 regressed"),
        "{}",
        slower.conclusion.sentence
    );
    let ratio = row(&slower, "wait.p50").compared.ratio.unwrap();
    assert!((ratio.value - 1.5).abs() < 0.01 && ratio.low > 1.1, "{ratio:?}");
}

#[test]
fn equal_durations_are_the_same_and_no_regression() {
    let base = taking("base", 1.0, 10);
    let mut noise = NOISE;
    noise.reverse();
    let new: Vec<Trial> =
        noise.iter().enumerate().map(|(index, noise)| records::trial_taking(index, *noise)).collect();
    let same = compared(&base, &side("new", &new));
    assert!(
        verdicts(&same).values().all(|verdict| *verdict == ComparisonVerdict::Same),
        "{:?}",
        verdicts(&same)
    );
    assert_eq!((same.conclusion.regression, same.conclusion.exit()), (Regression::No, Exit::Held));
}

#[test]
fn three_repetitions_a_side_show_no_regression_and_report_how_many_are_needed() {
    let few = compared(&taking("base", 1.0, 3), &taking("new", 3.0, 3));
    let wait = &row(&few, "wait.p99").compared;
    assert_eq!((wait.verdict, wait.regression), (ComparisonVerdict::Inconclusive, Regression::Unknown));
    // Six comparisons: five a side can carry them.
    assert_eq!((few.family, wait.repetitions_needed), (6, Some(5)));
    assert_eq!(few.conclusion.exit(), Exit::Unknown);
    let shown = zklockbench_report::comparison(&few, zklockbench_report::Style::EVERYTHING);
    assert!(shown.contains("needs about 5 repetitions a side"), "{shown}");
}

#[test]
fn repetitions_of_several_runs_are_pooled() {
    let halves = |name: &str, times: f64| {
        let whole = taking(name, times, 10);
        let trials = whole.runs[0].stored.trials.clone();
        let runs = [&trials[..5], &trials[5..]].map(|half| side(name, half).runs.remove(0));
        Side { path: name.into(), runs: runs.into() }
    };
    assert_eq!(
        verdicts(&compared(&halves("base", 1.0), &halves("new", 1.2)))["wait.p50"],
        ComparisonVerdict::Regressed
    );
}

#[test]
fn a_cell_missing_from_the_new_run_is_not_measured_and_never_green() {
    let other = |mut trial: Trial| {
        trial.spec.strategy.label = "other".into();
        trial
    };
    let both: Vec<Trial> = (0..10)
        .flat_map(|at| [records::trial_taking(at, NOISE[at]), other(records::trial_taking(at, NOISE[at]))])
        .collect();
    let lacking = compared(&side("base", &both), &taking("new", 1.0, 10));
    assert_eq!(lacking.conclusion.exit(), Exit::Unknown);
    let missing: Vec<&Row> = lacking.rows.iter().filter(|row| row.cell.strategy == "other").collect();
    assert!(missing.iter().all(|row| row.compared.verdict == ComparisonVerdict::NotMeasured), "{missing:#?}");
    // What is missing stays in the family.
    assert_eq!(lacking.family, 11);
    // What only the new has is told, and fails nothing.
    let more = compared(&taking("base", 1.0, 10), &side("new", &both));
    assert_eq!((more.only_new.len(), more.conclusion.exit()), (1, Exit::Held));
}

#[test]
fn a_rerun_repetition_keeps_its_pair() {
    // Given a strategy that takes twice as long as another beside it, and a trial of it that was spoiled and made again
    let slower = |at: usize| {
        let mut trial = records::trial_taking(at, 2.0 * NOISE[at]);
        trial.spec.strategy.label = "slower".into();
        trial
    };
    let both: Vec<Trial> =
        (0..10).flat_map(|at| [records::trial_taking(at, NOISE[at]), slower(at)]).collect();
    let mut spoiled = slower(3);
    spoiled.health.invalid = Some("the generator was late".into());
    let with_spoiled: Vec<Trial> = [spoiled].into_iter().chain(both.clone()).collect();
    // Then all ten repetitions show which of the two is faster
    let found = compared(&side("base", &both), &side("new", &with_spoiled));
    assert_eq!(found.faster.iter().map(|faster| faster.repetitions).collect::<Vec<_>>(), [10]);
}

#[test]
fn invalid_and_partial_trials_do_not_count_and_are_reported() {
    let mut new: Vec<Trial> = (0..10).map(|at| records::trial_taking(at, NOISE[at])).collect();
    new[3].health.invalid = Some("the generator was late".into());
    let without_one = compared(&taking("base", 1.0, 10), &side("new", &new));
    assert_eq!(row(&without_one, "wait.p50").compared.new.values.len(), 9);
    assert!(without_one.unsound[0].contains("the generator was late"), "{:?}", without_one.unsound);
    for trial in &mut new {
        trial.cut_short = records::interrupted();
    }
    let none = compared(&taking("base", 1.0, 10), &side("new", &new));
    assert_eq!(
        (row(&none, "wait.p50").compared.verdict, none.conclusion.exit()),
        (ComparisonVerdict::NotMeasured, Exit::Unknown)
    );
}

/// As [`taking`], all but the first `sound` trials invalid.
fn spoiled(name: &str, count: usize, sound: usize) -> Side {
    let mut side = taking(name, 1.0, count);
    for trial in side.runs[0].stored.trials.iter_mut().skip(sound) {
        trial.health.invalid = Some("the generator was late".into());
    }
    side
}

/// What `--figure throughput` comes to.
fn of_one_figure(base: &Side, new: &Side) -> Comparison {
    let ask = Ask { figures: vec![figures::THROUGHPUT.figure()], ..Ask::default() };
    compare(base, new, &ask).unwrap()
}

#[test]
fn more_invalid_repetitions_than_the_base_make_the_comparison_unknown() {
    for (base, new, exit) in [
        ((40, 40), (10, 2), Exit::Unknown),
        ((10, 10), (10, 9), Exit::Unknown),
        ((10, 9), (10, 9), Exit::Held),
        ((10, 8), (10, 9), Exit::Held),
        // Not more often, but too few are left.
        ((20, 12), (20, 12), Exit::Unknown),
    ] {
        let [was, is] = [("base", base), ("new", new)].map(|(name, (all, sound))| spoiled(name, all, sound));
        let found = of_one_figure(&was, &is);
        assert_eq!(found.conclusion.exit(), exit, "{base:?} {new:?}: {}", found.conclusion.sentence);
    }
    let found = of_one_figure(&taking("base", 1.0, 40), &spoiled("new", 10, 2));
    let why = row(&found, "throughput").compared.why.as_deref().unwrap();
    assert!(why.contains("the new lost 8 of 10 repetitions, the base 0"), "{why}");
    assert!(why.contains("the generator was late"), "{why}");
}

#[test]
fn repetitions_missing_from_a_partial_run_count_as_lost() {
    let mut new = taking("new", 1.0, 7);
    new.runs[0].stored.run.run.planned_trials = 10;
    let found = of_one_figure(&taking("base", 1.0, 10), &new);
    assert_eq!(found.conclusion.exit(), Exit::Unknown);
    let why = row(&found, "throughput").compared.why.as_deref().unwrap();
    assert!(why.contains("the new lost 3 of 10 repetitions"), "{why}");
}

#[test]
fn slower_results_are_a_regression_even_if_repetitions_are_lost() {
    let mut new = taking("new", 1.5, 10);
    new.runs[0].stored.trials[0].health.invalid = Some("the generator was late".into());
    assert_eq!(compared(&taking("base", 1.0, 10), &new).conclusion.exit(), Exit::Violated);
}

#[test]
fn a_rerun_repetition_is_not_lost() {
    let mut again = taking("new", 1.0, 10).runs[0].stored.trials.clone();
    let invalid = Trial { spec: again[4].spec.clone(), ..records::trial(4) };
    again.push(invalid);
    again[10].health.invalid = Some("the generator was late".into());
    let mut new = side("new", &again);
    new.runs[0].stored.run.run.planned_trials = 10;
    assert_eq!(of_one_figure(&taking("base", 1.0, 10), &new).conclusion.exit(), Exit::Held);
}

#[test]
fn ten_thousand_violations_are_not_the_same_as_one() {
    let violated = |name: &str, count: u64, repetitions: usize| {
        let trials = (0..repetitions).map(|at| Trial {
            violation_count: count + at as u64 % 3,
            spec: records::trial_taking(at, 1.0).spec,
            ..records::trial_with_a_violation(at)
        });
        side(name, &trials.collect::<Vec<_>>())
    };
    let verdict = |base: &Side, new: &Side| verdicts(&compared(base, new))["violations"];
    assert_eq!(
        verdict(&violated("base", 1, 1), &violated("new", 10_000, 1)),
        ComparisonVerdict::Inconclusive
    );
    assert_eq!(verdict(&violated("base", 1, 10), &violated("new", 10_000, 10)), ComparisonVerdict::Regressed);
    assert_eq!(verdict(&violated("base", 10_000, 10), &violated("new", 10_000, 10)), ComparisonVerdict::Same);
}

#[test]
fn any_new_violation_is_a_regression() {
    let violated = Trial { spec: records::spec(0), ..records::trial_with_a_violation(0) };
    let (base, new) = (side("base", &[records::trial(0)]), side("new", &[violated]));
    let found = compared(&base, &new);
    assert_eq!(verdicts(&found)["violations"], ComparisonVerdict::Regressed);
    assert_eq!(found.conclusion.exit(), Exit::Violated);
    assert_eq!(verdicts(&compared(&new, &base))["violations"], ComparisonVerdict::Improved);
}

#[test]
fn a_lock_only_in_the_new_run_is_compared_only_if_violated() {
    let other = |trial: Trial| {
        let mut trial = trial;
        trial.spec.strategy.label = "another".into();
        trial
    };
    let of = |more: Trial| {
        let new = side("new", &[records::trial_taking(0, 1.0), other(more)]);
        let found = compared(&side("base", &[records::trial_taking(0, 1.0)]), &new);
        found.rows.into_iter().filter(|row| row.cell.strategy == "another").collect::<Vec<_>>()
    };
    assert!(of(records::trial_taking(0, 1.0)).is_empty());
    let violated = Trial { spec: records::spec(0), ..records::trial_with_a_violation(0) };
    let rows = of(violated);
    let [row] = &rows[..] else { panic!("one row") };
    assert_eq!(
        (row.figure.as_str(), row.compared.verdict),
        ("violations", ComparisonVerdict::Regressed),
        "{row:?}"
    );
}

#[test]
fn counts_determined_by_the_load_are_compared_exactly_without_repetitions() {
    let batch = |requests: u64| {
        let mut trial = records::trial(0);
        trial.spec.load = Load::Batch;
        trial.measured.requests = Default::default();
        trial.measured.requests.add(zklockbench_core::measure::RequestKind::Create, requests);
        let counts = Some(requests);
        trial.accounting =
            vec![Accounting { what: Counted::Requests, client: counts, expected: counts, servers: counts }];
        trial
    };
    let one_more = compared(&side("base", &[batch(600)]), &side("new", &[batch(601)]));
    assert_eq!(verdicts(&one_more)["requests_per_acquisition"], ComparisonVerdict::Regressed);
    let equal = compared(&side("base", &[batch(600)]), &side("new", &[batch(600)]));
    assert_eq!(verdicts(&equal)["requests_per_acquisition"], ComparisonVerdict::Same);
    // One repetition says nothing of how long it takes.
    assert_eq!(verdicts(&equal)["wait.mean"], ComparisonVerdict::Inconclusive);
}

#[test]
fn lower_bounds_of_waits_can_show_a_regression_but_no_improvement() {
    let with_open_ends = |name: &str, times: f64| {
        let open = |at: usize| {
            let mut trial = records::trial_taking(at, times * NOISE[at]);
            // Half of all had waited that long and not ended: beyond the median there are only lower bounds.
            trial.histograms.insert(
                Measure::Unserved,
                records::histogram(&[(22_000.0 * times * NOISE[at]) as u64; 1_200]),
            );
            trial
        };
        side(name, &(0..10).map(open).collect::<Vec<_>>())
    };
    let base = taking("base", 1.0, 10);
    let slower = compared(&base, &with_open_ends("new", 2.0));
    assert!(row(&slower, "wait.p99").compared.new.at_least);
    assert_eq!(verdicts(&slower)["wait.p99"], ComparisonVerdict::Regressed);
    let seems_faster = compared(&base, &with_open_ends("new", 0.5));
    assert_eq!(verdicts(&seems_faster)["wait.p99"], ComparisonVerdict::Inconclusive);
}

/// A trial of an open load whose queue grew.
fn growing(index: usize) -> Trial {
    let mut trial = records::overloaded(index);
    zklockbench_judge::judge(&mut trial);
    trial
}

#[test]
fn a_growing_queue_waits_longer_than_any_stable_one() {
    let steady = |at: usize| {
        let mut trial = records::overloaded(at);
        trial.steady = None;
        // All were served.
        trial.histograms.remove(&Measure::Unserved);
        trial
    };
    let base = side("base", &(0..10).map(steady).collect::<Vec<_>>());
    let new = side("new", &(0..10).map(growing).collect::<Vec<_>>());
    let ask = Ask { figures: vec![figures::named("wait.mean").unwrap()], ..Ask::default() };
    let grows = compare(&base, &new, &ask).unwrap();
    assert_eq!(verdicts(&grows)["wait.mean"], ComparisonVerdict::Regressed);
    assert!(zklockbench_report::comparison(&grows, zklockbench_report::Style::EVERYTHING).contains("grows"));
}

#[test]
fn another_load_or_host_is_refused_unless_forced_and_then_reported() {
    let base = taking("base", 1.0, 10);
    let with = |change: fn(&mut Side)| {
        let mut new = taking("new", 1.0, 10);
        change(&mut new);
        new
    };
    let some_read = with(|new| {
        new.runs[0].stored.trials.iter_mut().for_each(|trial| trial.spec.read_ratio = 0.5);
    });
    let more_cores = with(|new| new.runs[0].stored.run.run.host.cores = 64);
    for (new, what) in [(&some_read, "read_ratio: "), (&more_cores, "processors: 4 x")] {
        assert!(refused(&base, new).contains(what), "{}", refused(&base, new));
    }
    assert!(refused(&base, &base).contains("the same run is on both sides"));
    // Where servers of our own keep their data is known, and must agree; where others do need not.
    let on_own_servers = |name: &str, placement: &str| {
        let mut side = taking(name, 1.0, 10);
        let ensemble = &mut side.runs[0].stored.run.run.ensemble;
        (ensemble.shares_host, ensemble.placement) = (true, placement.to_owned());
        side
    };
    let on_disk = on_own_servers("base", "ext4 on /dev/sda1 (/tmp): every write waits for an fsync");
    let in_memory = on_own_servers("new", "tmpfs (/dev/shm): in memory");
    assert!(refused(&on_disk, &in_memory).contains("data: "), "{}", refused(&on_disk, &in_memory));
    let forced = compare(&base, &some_read, &Ask { force: true, ..Ask::default() }).unwrap();
    for text in [
        zklockbench_report::comparison(&forced, zklockbench_report::Style::EVERYTHING),
        zklockbench_report::comparison_markdown(&forced),
    ] {
        assert!(text.contains("Forced, although it cannot be compared: read_ratio: "), "{text}");
    }
    // A longer hold, or another version of ZooKeeper or of this program, is what one may want to compare.
    let held_longer = with(|new| {
        new.runs[0].stored.trials.iter_mut().for_each(|trial| trial.spec.hold = Distribution::ZERO);
    });
    let told = compared(&base, &held_longer);
    assert!(
        told.differences.iter().any(|one| one.what == "hold" && !one.meaningless),
        "{:?}",
        told.differences
    );
    let newer = with(|new| new.runs[0].stored.run.run.ensemble.servers[0].version = "3.9.9".into());
    let told = compared(&base, &newer);
    assert!(
        told.differences.iter().any(|one| one.what == "ZooKeeper" && !one.meaningless),
        "{:?}",
        told.differences
    );
}

#[test]
fn differences_in_the_load_are_printed_in_readable_units() {
    let [mut base, mut new] = ["base", "new"].map(|name| taking(name, 1.0, 10));
    base.runs[0].stored.run.run.overrides.clear();
    new.runs[0].stored.run.run.overrides = vec!["--set hold=5ms".into(), "--duration 3s".into()];
    let restart = FaultChoice {
        kind: "kill".into(),
        target: Target::Word("leader"),
        start: Start::At(Duration::from_secs(5)),
        duration: Some(Duration::from_secs(3)),
        times: 2,
        every: Duration::from_secs(10),
        jitter: Duration::ZERO,
        params: Params::default(),
        label: "kill leader".into(),
    };
    for trial in &mut new.runs[0].stored.trials {
        trial.spec.faults = vec![restart.clone()];
        trial.spec.hold = Distribution::Exponential { mean: Duration::from_millis(7) };
        trial.spec.acquire_timeout = Some(Duration::from_millis(1500));
        let interval = ParamValue::Duration(Duration::from_millis(50));
        trial.spec.strategy.params = Params::from([("poll_interval".into(), interval)]);
    }
    let ask = Ask { force: true, ..Ask::default() };
    let told = compare(&base, &new, &ask).unwrap().differences;
    for expected in [
        "overrides: none against --set hold=5ms, --duration 3s",
        "faults: none against kill leader at 5 s for 3 s, 2 times, every 10 s",
        "hold: 20 ms against exponential mean 7 ms",
        "acquire_timeout: 3 s against 1.5 s",
        "params: ttl 1 s against poll_interval 50 ms",
    ] {
        assert!(told.iter().any(|one| one.describe() == expected), "{expected}: {told:#?}");
    }
}

#[test]
fn metrics_can_be_chosen_and_an_unmeasured_one_is_not_measured() {
    let ask = |figure: &str| Ask { figures: vec![figures::named(figure).unwrap()], ..Ask::default() };
    let (base, new) = (taking("base", 1.0, 10), taking("new", 1.0, 10));
    let chosen = compare(&base, &new, &ask("wait.p90")).unwrap();
    assert_eq!(
        verdicts(&chosen),
        BTreeMap::from([("wait.p90", ComparisonVerdict::Same), ("violations", ComparisonVerdict::Same)])
    );
    let nothing = compare(&base, &new, &ask("uncontended.p50")).unwrap();
    assert_eq!(
        (verdicts(&nothing)["uncontended.p50"], nothing.conclusion.exit()),
        (ComparisonVerdict::NotMeasured, Exit::Unknown)
    );
    let too_few = compare(&base, &new, &ask("handoff.p99")).unwrap();
    let why = row(&too_few, "handoff.p99").compared.why.clone().unwrap();
    assert!(
        why.contains("p99 takes 1000 samples in each repetition, and half of them have at most 100"),
        "{why}"
    );
}

#[test]
fn the_json_output_matches_its_schema_and_contains_only_finite_numbers() {
    let schema = serde_json::to_value(schemars::schema_for!(Comparison)).unwrap();
    let validator = Schema::new(&schema);
    let steady = |at: usize| Trial { steady: None, ..records::overloaded(at) };
    let open = [
        side("base", &(0..4).map(steady).collect::<Vec<_>>()),
        side("new", &(0..4).map(growing).collect::<Vec<_>>()),
    ];
    let [base, new] = open;
    for found in [compared(&taking("base", 1.0, 10), &taking("new", 1.2, 9)), compared(&base, &new)] {
        let json = serde_json::to_value(&found).unwrap();
        let wrong: Vec<String> = validator.complaints(&json);
        assert!(wrong.is_empty(), "{wrong:?}\n{json:#}");
        assert_eq!(json["schema_version"], 3);
    }
}

#[test]
fn text_from_a_directory_is_escaped_in_terminal_and_page() {
    let hostile = |name: &str| {
        let mut side = taking(name, 1.0, 10);
        let stored = &mut side.runs[0].stored;
        stored.run.run.scenario = "\u{1b}[2J<script>".into();
        stored.run.run.host.hostname = "a\u{7}|b\n# c".into();
        for trial in &mut stored.trials {
            trial.spec.strategy.label = "\u{1b}]0;pwned\u{7}<img src=x>".into();
            trial.health.invalid = (trial.spec.index == 0).then(|| "\u{1b}[31m".into());
        }
        side
    };
    let found = compared(&hostile("base"), &hostile("new"));
    let (terminal, page) = (
        zklockbench_report::comparison(&found, zklockbench_report::Style::EVERYTHING),
        zklockbench_report::comparison_markdown(&found),
    );
    for text in [&terminal, &page] {
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    }
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
}

#[test]
fn a_table_too_wide_for_the_terminal_is_printed_row_by_row_without_cut_words() {
    let compared = compared(&taking("base", 1.0, 10), &taking("new", 1.5, 10));
    for (width, colour) in [(40, false), (60, false), (60, true)] {
        let shown = zklockbench_report::comparison(
            &compared,
            zklockbench_report::Style { colour, width: Some(width), ..zklockbench_report::Style::EVERYTHING },
        );
        assert!(shown.lines().all(|line| line.is_empty() || line.trim().chars().count() > 1), "{shown}");
        assert!(shown.contains("predecessor-watch"), "{shown}");
        assert!(shown.contains("metric throughput; base 2.39/s; new 1.6/s; new/base 0.667"), "{shown}");
    }
}

#[test]
fn a_comparison_at_80_columns_is_a_table_below_the_strategy_names() {
    let compared = compared(&taking("base", 1.0, 10), &taking("new", 1.5, 10));
    for colour in [false, true] {
        let shown = zklockbench_report::comparison(
            &compared,
            zklockbench_report::Style { colour, width: Some(80), ..zklockbench_report::Style::EVERYTHING },
        );
        let shown = console::strip_ansi_codes(&shown);
        assert!(shown.lines().all(|line| line.is_empty() || line.trim().chars().count() > 1), "{shown}");
        let at = shown.lines().position(|line| line.starts_with("predecessor-watch")).expect(&shown);
        let table: Vec<&str> =
            shown.lines().skip(at - 2).take_while(|line| !line.is_empty()).map(str::trim_end).collect();
        assert!(table.iter().all(|line| line.chars().count() <= 80), "{shown}");
        let words: Vec<&str> = table[0].split_whitespace().collect();
        assert_eq!(words, ["metric", "base", "new", "interval", "verdict"], "{shown}");
        assert!(table[3].starts_with("  turn.p50 "), "{shown}");
        assert!(shown.contains("Left out at this width: reps, new/base."), "{shown}");
    }
}

#[test]
fn the_chart_has_a_row_for_every_ratio_and_a_word_for_every_colour() {
    let dir = tempfile::tempdir().unwrap();
    let found = compared(&taking("base", 1.0, 10), &taking("new", 1.5, 10));
    let (svg, png) = (dir.path().join("c.svg"), dir.path().join("c.png"));
    zklockbench_report::chart::draw_comparison(&found, &svg).unwrap();
    zklockbench_report::chart::draw_comparison(&found, &png).unwrap();
    let text = fs::read_to_string(&svg).unwrap();
    assert_eq!((text.matches("\nregressed\n").count(), text.matches("\nsame\n").count()), (5, 5), "{text}");
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let error = zklockbench_report::chart::draw_comparison(&found, &dir.path().join("c.gif")).unwrap_err();
    assert!(error.to_string().contains("must end with .svg or .png"), "{error}");
}

#[test]
fn the_waits_of_both_sides_are_drawn_by_percentile_in_a_panel_for_each_cell() {
    let dir = tempfile::tempdir().unwrap();
    let (base, new) = (taking("base", 1.0, 10), taking("new", 1.2, 10));
    let (found, svg, png) = (compared(&base, &new), dir.path().join("p.svg"), dir.path().join("p.png"));
    zklockbench_report::chart::draw_percentiles(&base, &new, &found, &svg).unwrap();
    zklockbench_report::chart::draw_percentiles(&base, &new, &found, &png).unwrap();
    let text = fs::read_to_string(&svg).unwrap();
    for told in ["base: base", "new: new", "3 contenders, closed load", "99.9 %"] {
        assert!(text.contains(told), "{told}");
    }
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    // A cell that only the base has is drawn, too, with one line; one without a sample is not.
    let seven = |at: usize| {
        let mut trial = records::trial_taking(at, NOISE[at]);
        trial.spec.contenders = 7;
        trial
    };
    let both: Vec<Trial> = (0..4).flat_map(|at| [records::trial_taking(at, NOISE[at]), seven(at)]).collect();
    let more = side("base", &both);
    zklockbench_report::chart::draw_percentiles(&more, &new, &compared(&more, &new), &svg).unwrap();
    let text = fs::read_to_string(&svg).unwrap();
    let headings: Vec<&str> = text.split('\n').filter(|line| line.contains("contenders")).collect();
    assert!(text.contains(", 7 contenders"), "{headings:?}");
    let mut silent = base.clone();
    silent.runs[0].stored.trials.iter_mut().for_each(|trial| trial.histograms.clear());
    let nothing = zklockbench_report::chart::draw_percentiles(&silent, &silent, &found, &svg).unwrap_err();
    assert!(nothing.to_string().contains("no sound trial of either side measured a wait"), "{nothing}");
}

fn told(path: &Path) -> String {
    let error = Side::read(path).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string()
}

#[test]
fn all_runs_of_a_directory_are_read_and_a_damaged_one_is_named() {
    let dir = tempfile::tempdir().unwrap();
    assert!(told(dir.path()).contains("is not a run directory"), "{}", told(dir.path()));
    assert!(told(&dir.path().join("absent")).contains("is not a directory"));
    let first = run_dirs::publish(dir.path(), &[records::trial(0)]);
    let second = run_dirs::publish(dir.path(), &[records::trial(0), records::trial(1)]);
    fs::create_dir(dir.path().join(".quick.partial")).unwrap();
    fs::write(dir.path().join("README.md"), "nothing").unwrap();
    let both = Side::read(dir.path()).unwrap();
    assert_eq!(both.runs.iter().map(|run| run.stored.trials.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(Side::read(&first).unwrap().runs.len(), 1);

    let run = second.join("run.json");
    let whole = fs::read(&run).unwrap();
    let name = run.display().to_string();
    for damage in [&whole[..whole.len() / 2], b"", b"\xff\xfe", b"[]", b"{\"schema_version\": 99}"] {
        fs::write(&run, damage).unwrap();
        assert!(told(dir.path()).contains(&name), "{}", told(dir.path()));
    }
    fs::remove_file(&run).unwrap();
    assert!(told(dir.path()).contains("is only half a run"), "{}", told(dir.path()));
    fs::create_dir(&run).unwrap();
    assert!(told(dir.path()).contains("run.json: is no regular file"), "{}", told(dir.path()));
}

#[test]
fn the_example_run_is_compared_with_itself_only_when_forced() {
    let example = Side::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example")).unwrap();
    assert!(refused(&example, &example).contains("the same run"));
    let itself = compare(&example, &example, &Ask { force: true, ..Ask::default() }).unwrap();
    // Two repetitions show nothing.
    assert_eq!(itself.conclusion.exit(), Exit::Unknown);
    assert!(itself.rows.iter().all(|row| row.compared.regression != Regression::Yes));
}

#[test]
fn parts_of_a_run_differ_in_versions_only_if_both_are_known() {
    let run = |versions: &[&str]| {
        let mut run = records::run(1);
        let servers =
            versions.iter().map(|version| ServerInfo { version: (*version).into(), ..ServerInfo::default() });
        run.ensemble.servers = servers.collect();
        run
    };
    let (known, unknown) = ("3.9.3", EnsembleInfo::NOT_KNOWN);
    for (earlier, later, differ) in [
        ([known, known], [known, known], false),
        ([known, unknown], [known, known], false),
        ([unknown, unknown], [known, known], false),
        ([known, known], [unknown, known], false),
        ([known, "3.8.0"], [known, unknown], false),
        ([known, unknown], ["3.8.0", unknown], true),
        ([known, known], ["3.8.0", unknown], true),
        ([known, known], ["3.8.0", known], true),
    ] {
        let differences = between_parts(&run(&earlier), &run(&later));
        let found = differences.iter().any(|difference| difference.what == "ZooKeeper");
        assert_eq!(found, differ, "{earlier:?} and {later:?}");
    }
}

#[test]
fn only_what_changed_or_is_inconclusive_is_in_the_table_unless_all_is_asked_for() {
    let compared = compared(&taking("base", 1.0, 10), &taking("new", 1.5, 10));
    let drawn = |style| zklockbench_report::comparison(&compared, style);
    let rows = |text: &str| text.lines().filter(|line| line.trim_end().ends_with("same")).count();
    let brief = drawn(zklockbench_report::Style::default());
    assert!(rows(&brief) == 0 && brief.contains(" regressed"), "{brief}");
    assert!(brief.contains("stayed within the margin") && brief.contains("--all adds "), "{brief}");
    assert!(!brief.contains("Hodges") && brief.contains("--explain"), "{brief}");
    assert!(rows(&drawn(zklockbench_report::Style::EVERYTHING)) > 0);
}
