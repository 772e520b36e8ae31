//! The plan and estimates of a scenario, and the advice to its author.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use zklockbench_scenario::{
    Columns, Diagnostics, MachineDiagnostic, Order, Parsed, Preview, Trace, TraceArrival, TrialPlan,
    TrialSpec, parse, parse_with_traces,
};

use crate::support::{answered::answered, cards};

const HEAD: &str = "name = \"x\"\nstrategies = [\"polling\", \"parent-watch\", \"predecessor-watch\"]\n";

fn parsed(lines: &str) -> Parsed {
    parse("x.toml", &format!("{HEAD}{lines}"), &cards::catalog()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn plan(lines: &str) -> TrialPlan {
    TrialPlan::of(&parsed(lines).scenario)
}

fn combinations(plan: &TrialPlan, repetition: u32) -> Vec<(String, usize)> {
    let trials = plan.trials.iter().filter(|trial| trial.repetition == repetition);
    trials.map(|trial| (trial.strategy.label.clone(), trial.contenders)).collect()
}

/// Traces for replays: `a.csv` with three arrivals in 2 s, `seconds.csv` with 15 arrivals in each of 2 s, and
/// `empty.csv`.
fn trace(file: &Path, _: &Columns) -> Result<Trace, String> {
    let held = Some(Duration::from_millis(100));
    let arrivals = match file.to_str() {
        Some("a.csv") => Ok(vec![
            TraceArrival { at_us: 0, lock: Some(4), hold: held, mode: None },
            TraceArrival { at_us: 1_000_000, lock: Some(4), hold: None, mode: None },
            TraceArrival { at_us: 2_000_000, lock: Some(0), hold: held, mode: None },
        ]),
        Some("seconds.csv") => {
            let arrival =
                |at: u64| TraceArrival { at_us: at / 15 * 1_000_000, lock: None, hold: held, mode: None };
            Ok((0..30).map(arrival).collect())
        }
        Some("empty.csv") => Ok(Vec::new()),
        _ => Err("b.csv line 3: wrong; correct it".to_owned()),
    };
    arrivals.map(Trace::from)
}

fn fields(trial: &TrialSpec) -> Map<String, Value> {
    let mut fields = serde_json::to_value(trial).unwrap().as_object().unwrap().clone();
    fields.retain(|name, _| {
        !["index", "strategy", "label", "contenders", "repetition", "seed"].contains(&name.as_str())
    });
    fields
}

/// Errors of an invalid scenario. For a valid scenario: its warnings, its preview without the table, and the trials
/// of one repetition in written order. The first trial lists the fields that differ from a minimal scenario. Each
/// later trial lists the fields that differ from the previous trial.
pub fn planned(text: &str) -> String {
    let mut parsed = match parse_with_traces("x.toml", text, &cards::catalog(), &trace) {
        Ok(parsed) => parsed,
        Err(errors) => return told(&errors),
    };
    let preview = Preview::of(&parsed).to_string();
    let (above, below) = preview.split_once("\n\n").unwrap();
    let costs = below.lines().filter_map(|line| line.split_once(" (")).map(|(cost, _)| cost);
    let costs: Vec<_> = costs.filter(|cost| cost.contains(" of ")).collect();
    parsed.scenario.order = Order::AsWritten;
    let mut before = fields(&plan("contenders = 1\nduration = \"1s\"\norder = \"as-written\"\n").trials[0]);
    let mut trials = String::new();
    for trial in TrialPlan::of(&parsed.scenario).round(1) {
        let after = fields(&trial);
        let changed: Map<_, _> =
            after.clone().into_iter().filter(|(name, value)| before.get(name) != Some(value)).collect();
        let (label, contenders) = (&trial.strategy.label, trial.contenders);
        let (seconds, acquired) = (trial.estimated_duration().as_secs_f64(), trial.estimated_acquisitions());
        trials += &format!("{label} with {contenders}: {seconds:.1} s, {acquired:.0} acquisitions");
        trials +=
            &if changed.is_empty() { "\n".to_owned() } else { format!(", {}\n", Value::Object(changed)) };
        before = after;
    }
    format!("{}{above}\n{}\n{trials}", told(&parsed.warnings), costs.join(", "))
}

/// Messages with lines and columns.
fn told(messages: &Diagnostics) -> String {
    let line = |one: MachineDiagnostic| {
        let help = one.help.map(|help| format!(" => {help}")).unwrap_or_default();
        format!("{}:{} {}{help}\n", one.position.line, one.position.column, one.message)
    };
    messages.machine().into_iter().map(line).collect()
}

#[test]
fn missing_keys_have_their_documented_defaults() {
    insta::assert_debug_snapshot!("defaults", parsed("contenders = 4\nduration = \"5s\"\n").scenario);
}

#[test]
fn scenario_keys_appear_in_trials_estimates_and_advice() {
    let snapshot = include_str!("snapshots/pure__scenario_plan__planned.snap");
    let head = |lines: &str| match lines.contains("strategies") {
        true => "name = \"x\"\n",
        false => "name = \"x\"\nstrategies = [\"polling\", \"predecessor-watch\"]\n",
    };
    insta::assert_snapshot!(
        "planned",
        answered(snapshot, |lines| planned(&format!("{}{lines}", head(lines))))
    );
}

#[test]
fn advice_and_estimates_allow_for_locks_that_contenders_share() {
    let warned = |strategy: &str, lines: &str| {
        let text =
            format!("name = \"x\"\nstrategies = [{strategy}]\ncontenders = 20\nhold = \"1s\"\n{lines}");
        let parsed = parse("x.toml", &text, &zklockbench_load::catalog());
        let parsed = parsed.unwrap_or_else(|errors| panic!("{errors}"));
        (told(&parsed.warnings), TrialPlan::of(&parsed.scenario).trials[0].estimated_acquisitions().round())
    };
    let timed = "duration = \"10s\"\nwarm_up = \"1s\"\n";
    let (few, count) = warned("\"baton\"", timed);
    assert!(few.contains("`baton` with 20 contenders will complete only about 10 acquisitions"), "{few}");
    assert_eq!(count, 10.0);
    assert_eq!(warned("\"no-lock\"", timed).0, "");
    let semaphore = "{ name = \"curator-semaphore\", leases = 10, permits = 2 }";
    assert_eq!(warned(semaphore, timed), (String::new(), 50.0));
    let served = "{ name = \"count-semaphore\", leases = 20 }";
    let idle = warned(served, timed).0;
    assert!(idle.contains("`count-semaphore leases=20` has enough leases for 20 contenders"), "{idle}");
    assert_eq!(warned(served, &format!("{timed}locks = \"fresh\"\n")).0, "");
    // All contenders may request the same lock, and the mean wait is about 1 s.
    let open = "load = \"open\"\nrate = 9\nlocks = 1\nduration = \"60s\"\nwarm_up = \"1s\"\nacquire_timeout = \"5s\"\n";
    let ten = "{ name = \"count-semaphore\", leases = 10 }";
    assert_eq!(warned(ten, open), (String::new(), 540.0));
    assert_eq!(warned(ten, &open.replace("locks = 1", "locks = 2")).0, "");
    let mixed = "{ name = \"curator-semaphore+count-semaphore\", \"curator-semaphore.leases\" = 10, \
                 \"count-semaphore.leases\" = 10 }";
    assert_eq!(warned(mixed, timed), (String::new(), 100.0));
    let mixed = "\"curator-read-write+kazoo-read-write\"";
    assert_eq!(warned(mixed, &format!("{timed}read_ratio = 0.5\n")).0, "");
}

#[test]
fn only_arrivals_that_wait_for_a_session_prolong_a_trial() {
    let seconds = |late: &str| {
        let lines =
            "load = \"open\"\nduration = \"60s\"\nrate = 100\nlocks = 20\nhold = \"50ms\"\ncontenders = 5\n";
        plan(&format!("{lines}late = \"{late}\"\n")).trials[0].estimated_duration().as_secs_f64()
    };
    // 100 arrivals a second keep 5.3 sessions busy, 6 % more than there are.
    assert!((seconds("keep") - seconds("drop") - 0.06 * 60.0).abs() < 0.01);
}

#[test]
fn gate_on_a_percentile_with_too_few_planned_samples_gets_advice() {
    for (lines, count) in [
        ("acquisitions = 10\ncontenders = [100, 4, 3]", "3 contenders will complete only about 30"),
        (
            "load = \"open\"\nrate = 40\nduration = \"10s\"\ncontenders = 3",
            "3 contenders will complete only about 400",
        ),
        ("acquisitions = 1000\ncontenders = [4, 1]", ""),
        ("duration = \"60s\"\ncontenders = 3", ""),
    ] {
        for gate in ["wait.p99 < 1s", "handoff.p99 not regressed by 5% against baseline"] {
            let warned = told(&parsed(&format!("{lines}\nwarm_up = \"1s\"\ngate = [\"{gate}\"]\n")).warnings);
            assert_eq!(warned.contains("needs 1000 samples"), !count.is_empty(), "{lines}: {warned}");
            assert!(warned.contains(count), "{lines}: {warned}");
        }
    }
}

#[test]
fn the_json_preview_lists_all_trials_and_the_offered_load() {
    let lines = "load = \"open\"\nduration = \"60s\"\nwarm_up = \"1s\"\ncontenders = [10, 20]\nrate_each = 2\n\
                 precision = \"2.5 %\"\nrepetitions = 1\n";
    insta::assert_snapshot!("preview", serde_json::to_string_pretty(&Preview::of(&parsed(lines))).unwrap());
}

#[test]
fn every_repetition_contains_every_combination_once() {
    let plan = plan("contenders = [1, 5, 20]\nduration = \"5s\"\nrepetitions = 4\n");
    assert_eq!(plan.trials.len(), 3 * 3 * 4);
    for repetition in 1..=4 {
        assert_eq!(combinations(&plan, repetition).into_iter().collect::<BTreeSet<_>>().len(), 9);
    }
    assert!(plan.trials.iter().enumerate().all(|(index, trial)| trial.index == index));
    assert!(plan.trials.is_sorted_by_key(|trial| trial.repetition));
}

#[test]
fn seed_shuffles_the_order_differently_in_each_repetition() {
    let lines = "contenders = [1, 5, 20]\nduration = \"5s\"\n";
    let one = plan(lines);
    assert_eq!(one, plan(lines));
    assert_ne!(combinations(&one, 1), combinations(&one, 2));
    assert_ne!(combinations(&one, 1), combinations(&plan(&format!("{lines}seed = 2\n")), 1));
}

#[test]
fn shuffled_order_is_the_same_on_every_platform() {
    let plan = plan("contenders = [1, 2]\nduration = \"5s\"\nrepetitions = 1\nseed = 7\n");
    let order: Vec<_> = combinations(&plan, 1).into_iter().map(|(label, n)| format!("{label}/{n}")).collect();
    assert_eq!(
        order,
        [
            "polling/2",
            "predecessor-watch/2",
            "polling/1",
            "parent-watch/2",
            "parent-watch/1",
            "predecessor-watch/1"
        ]
    );
    assert_eq!(plan.trials[0].seed, 12_790_295_526_863_346_087);
}

#[test]
fn written_order_varies_strategies_first_and_then_contenders() {
    let plan = plan("contenders = [5, 1]\nduration = \"5s\"\norder = \"as-written\"\nrepetitions = 2\n");
    let written = [("polling", 5), ("polling", 1), ("parent-watch", 5), ("parent-watch", 1)];
    let order = combinations(&plan, 2);
    assert_eq!(order[..4], written.map(|(label, contenders)| (label.to_owned(), contenders)));
    assert_eq!(order, combinations(&plan, 1));
}

#[test]
fn every_trial_has_its_own_seed_independent_of_the_order() {
    let lines = "contenders = [1, 5, 20]\nduration = \"5s\"\n";
    let key = |plan: TrialPlan| -> BTreeSet<_> {
        plan.trials.into_iter().map(|t| (t.strategy.label, t.contenders, t.repetition, t.seed)).collect()
    };
    let shuffled = plan(lines);
    let seeds: BTreeSet<_> = shuffled.trials.iter().map(|trial| trial.seed).collect();
    assert_eq!(seeds.len(), 27);
    assert_eq!(key(shuffled), key(plan(&format!("{lines}order = \"as-written\"\n"))));
}

#[test]
fn estimated_memory_grows_with_contenders_and_the_square_of_the_queue_length() {
    let megabytes = |lines: &str| plan(&format!("duration = \"5s\"\n{lines}")).estimated_memory() / 1_000_000;
    // Memory in MB, measured for predecessor-watch with simultaneous arrivals
    for (contenders, measured) in [(500, 103), (1_000, 163), (1_500, 281), (2_000, 510), (10_000, 6_600)] {
        let estimated = megabytes(&format!("contenders = {contenders}\n"));
        assert!((measured..2 * measured).contains(&estimated), "{contenders}: {estimated} for {measured}");
    }
    // With ten queues, lists are a tenth as long. The largest number of contenders determines the estimate.
    assert!(megabytes("contenders = 10000\nlocks = 10\n") < 1_900);
    assert_eq!(megabytes("contenders = [10, 1000]\n"), megabytes("contenders = 1000\n"));
}

#[test]
fn extra_round_equals_the_same_round_of_a_longer_plan() {
    let lines =
        |repetitions| format!("contenders = [1, 5]\nduration = \"1s\"\nrepetitions = {repetitions}\n");
    let (short, long) = (plan(&lines(2)), plan(&lines(7)));
    let rounds: Vec<_> = (1..=7).flat_map(|number| short.round(number)).collect();
    assert_eq!(rounds, long.trials);
    assert_eq!(rounds[..short.trials.len()], short.trials);
}
