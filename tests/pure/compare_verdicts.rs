//! Results of comparing two sides, metric by metric. The snapshot contains the expected results.

use std::fmt::Write as _;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zklockbench_analysis::compare::{
    Ask, Comparison, ComparisonVerdict, Loaded, Method, Regression, Row, Side, Terms, compare, power,
};
use zklockbench_record::{Accounting, Counted, Trial, figures};
use zklockbench_report::Style;
use zklockbench_report::document::{Block, ChartKind};

use zklockbench_core::catalog::fault::{FaultChoice, Start, Target};
use zklockbench_core::catalog::{ParamValue, Params};
use zklockbench_core::measure::{Counts, Measure, Outcome, RequestKind};
use zklockbench_core::verdict::Verdict;
use zklockbench_scenario::{Distribution, Late, Load};

use crate::compare::{NOISE, base, each, new, open, repetition, taking, with};
use crate::support::ranked::counted_apart;
use crate::support::records::{self, side};

/// A side with one run of seven repetitions per factor.
fn runs(name: &str, times: &[f64]) -> Side {
    let run =
        |(at, times): (usize, &f64)| -> Loaded { taking(&format!("{name} {at}"), *times, 7).runs.remove(0) };
    Side { path: name.into(), runs: times.iter().enumerate().map(run).collect() }
}

fn late(trial: &mut Trial) {
    trial.health.invalid = Some("the generator was late".into());
}

fn named(label: &str, mut trial: Trial) -> Trial {
    trial.spec.strategy.label = label.into();
    trial
}

/// Repetitions of two locks. The second lock takes `other` times as long as the first.
fn beside(name: &str, other: f64) -> Side {
    let both = (0..10).flat_map(|at| [repetition(at, 1.0), named("other", repetition(at, other))]);
    side(name, &both.collect::<Vec<_>>())
}

fn violated(name: &str, count: u64, repetitions: usize) -> Side {
    let trials = (0..repetitions).map(|at| Trial {
        violation_count: count + at as u64 % 3,
        spec: records::trial_taking(at, 1.0).spec,
        ..records::trial_with_a_violation(at)
    });
    side(name, &trials.collect::<Vec<_>>())
}

fn batch(name: &str, requests: u64) -> Side {
    let mut trial = records::trial(0);
    trial.spec.load = Load::Batch;
    trial.measured.requests = Default::default();
    trial.measured.requests.add(RequestKind::Create, requests);
    let counts = Some(requests);
    trial.accounting =
        vec![Accounting { what: Counted::Requests, client: counts, expected: counts, servers: counts }];
    side(name, &[trial])
}

/// A side in which half of all waits are unfinished, so percentiles above the median are lower bounds.
fn open_ended(times: f64) -> Side {
    each(new(times), |at, trial| {
        let waited = (22_000.0 * times * NOISE[at]) as u64;
        trial.histograms.insert(Measure::Unserved, records::histogram(&[waited; 1_200]));
    })
}

fn acquired(times: u64) -> Counts {
    let mut counts = Counts::default();
    counts.outcomes.add(Outcome::Acquired, times);
    counts
}

/// An open load that drops this many of every thousand arrivals. Waits get shorter as more arrivals are dropped.
fn shedding(name: &str, dropped: u64) -> Side {
    each(open(name, false), |at, trial| {
        if let Load::Open(open) = &mut trial.spec.load {
            open.late = Late::Drop;
        }
        let dropped = dropped + at as u64;
        let served = 1_000 - dropped;
        trial.measured = acquired(served);
        let arrived = trial.arrived.as_mut().unwrap();
        (arrived.offered, arrived.started, arrived.served) = (1_000, served, served);
        (arrived.unserved, arrived.dropped) = (0, dropped);
        let samples: Vec<u64> = (0..served).map(|at| (20_000 + at) * served / 1_000).collect();
        trial.histograms.insert(Measure::Wait, records::histogram(&samples));
        trial.spec.repetition = u32::try_from(at).unwrap() + 1;
    })
}

fn failing(name: &str, outcome: Option<Outcome>, errors: u64) -> Side {
    each(taking(name, 1.0, 7), |_, trial| {
        trial.measured = acquired(1_200);
        outcome.into_iter().for_each(|outcome| trial.measured.outcomes.add(outcome, 400));
        trial.errors =
            (errors > 0).then(|| ("create: connection loss".to_owned(), errors)).into_iter().collect();
    })
}

fn sampled(name: &str, samples: usize) -> Side {
    let waits: Vec<u64> = (0..samples).map(|at| 10_000 + 10 * at as u64).collect();
    each(runs(name, &[1.0]), |_, trial| {
        drop(trial.histograms.insert(Measure::Wait, records::histogram(&waits)))
    })
}

fn with_floor(side: Side, handoff_us: u64) -> Side {
    with(side, |run| {
        let mut floor = records::floor();
        floor.handoff.as_mut().unwrap().p50_us = handoff_us;
        run.stored.run.run.floor = Some(floor);
    })
}

fn lagging(side: Side, share: f64) -> Side {
    each(side, |_, trial| trial.health.lag_share = Some(share))
}

/// An approximately normal value: the sum of twelve uniform values.
pub fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

/// A run with seven repetitions of each lock and log-normal noise.
fn noisy(name: &str, locks: usize, times: f64, deviation: f64, random: &mut ChaCha8Rng) -> Side {
    let trial = |index: usize| {
        let trial = records::trial_taking(index, times * (deviation * normal(random)).exp());
        let mut trial = named(&format!("lock {}", index % locks), trial);
        trial.spec.repetition = u32::try_from(index / locks).unwrap() + 1;
        trial
    };
    side(name, &(0..locks * 7).map(trial).collect::<Vec<_>>())
}

/// Two pairs of sides: four locks that became 10 % slower, and two locks of which one lost a repetition.
fn noisy_pairs() -> [(Side, Side); 2] {
    let (mut five, mut six) = (ChaCha8Rng::seed_from_u64(5), ChaCha8Rng::seed_from_u64(6));
    let lacking = each(noisy("base", 2, 1.0, 0.01, &mut six), |at, trial| {
        if at == 3 {
            trial.cut_short = records::interrupted();
        }
    });
    [
        (noisy("base", 4, 1.0, 0.03, &mut five), noisy("new", 4, 1.1, 0.03, &mut five)),
        (lacking, noisy("new", 2, 1.0, 0.01, &mut six)),
    ]
}

fn figure(name: &str) -> Ask {
    Ask { figures: vec![figures::named(name).unwrap()], ..Ask::default() }
}

fn margins(all: Option<f64>, tail: Option<f64>) -> Ask {
    let margins = tail.map(|share| ("wait.p99".to_owned(), share)).into_iter().collect();
    Ask { terms: Terms { margin: all, margins, ..Terms::default() }, ..Ask::default() }
}

/// A side with a different load: other faults, hold, timeout, parameters and overrides.
fn another_load() -> Side {
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
    let side = each(new(1.0), |_, trial| {
        trial.spec.faults = vec![restart.clone()];
        trial.spec.hold = Distribution::Exponential { mean: Duration::from_millis(7) };
        trial.spec.acquire_timeout = Some(Duration::from_millis(1500));
        let interval = ParamValue::Duration(Duration::from_millis(50));
        trial.spec.strategy.params = Params::from([("poll_interval".into(), interval)]);
    });
    with(side, |run| run.stored.run.run.overrides = vec!["--set hold=5ms".into(), "--duration 3s".into()])
}

fn on_own_servers(side: Side, placement: &str) -> Side {
    with(side, |run| {
        let ensemble = &mut run.stored.run.run.ensemble;
        (ensemble.shares_host, ensemble.placement) = (true, placement.to_owned());
    })
}

/// Cases that differ in load, host, servers or floor rather than in speed.
fn circumstances() -> Vec<Case> {
    let case = |name, new| Case { name, base: base(), new, ask: Ask::default() };
    let some_read = each(new(1.0), |_, trial| trial.spec.read_ratio = 0.5);
    let force = Ask { force: true, ..Ask::default() };
    let newer = |side| with(side, |run| run.stored.run.run.ensemble.servers[0].version = "3.9.9".into());
    let in_memory = on_own_servers(new(1.0), "tmpfs (/dev/shm): in memory");
    vec![
        Case { ask: force.clone(), ..case("another load, forced", some_read.clone()) },
        case("another load", some_read),
        case("another host", with(new(1.0), |run| run.stored.run.run.host.cores = 64)),
        case("the same run", base()),
        Case {
            base: on_own_servers(base(), "ext4 on /dev/sda1 (/tmp): every write waits for an fsync"),
            ..case("own servers on a disk and in memory", in_memory)
        },
        case("another hold", each(new(1.0), |_, trial| trial.spec.hold = Distribution::ZERO)),
        case("another version of ZooKeeper", newer(new(1.0))),
        Case { ask: force, ..case("much else", another_load()) },
        Case {
            base: with_floor(runs("base", &[1.0]), 1_000),
            ..case("a slower floor on newer servers", newer(with_floor(runs("new", &[1.5]), 2_000)))
        },
    ]
}

struct Case {
    name: &'static str,
    base: Side,
    new: Side,
    ask: Ask,
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn cases() -> Vec<Case> {
    let of = |name, base, new, ask| Case { name, base, new, ask };
    let case = |name, base, new| of(name, base, new, Ask::default());
    let throughput = |name, base, new| of(name, base, new, figure("throughput"));
    let late_if = |side, is_late: &dyn Fn(usize) -> bool| {
        each(side, |at, trial| {
            if is_late(at) {
                late(trial)
            }
        })
    };
    let lost = |name, base: (usize, usize), new: (usize, usize)| {
        let spoiled = |name: &str, all, valid| late_if(taking(name, 1.0, all), &|at| at >= valid);
        throughput(name, spoiled("base", base.0, base.1), spoiled("new", new.0, new.1))
    };
    let halves = |name: &str, times| {
        let trials = taking(name, times, 10).runs.remove(0).stored.trials;
        let runs = [&trials[..5], &trials[5..]].map(|half| side(name, half).runs.remove(0));
        Side { path: name.into(), runs: runs.into() }
    };
    let rerun = |mut side: Side, at: usize| {
        let run = &mut side.runs[0].stored;
        let mut again = run.trials[at].clone();
        late(&mut again);
        run.trials.insert(0, again);
        run.run.run.planned_trials = run.trials.len() - 1;
        side
    };
    let planned = |side, planned| with(side, move |run| run.stored.run.run.planned_trials = planned);
    let one = |name: &str, trial| side(name, &[trial]);
    let broken = || Trial { spec: records::spec(0), ..records::trial_with_a_violation(0) };
    let appears = |name, trial| {
        let beside_one = side("new", &[records::trial_taking(0, 1.0), named("another", trial)]);
        case(name, one("base", records::trial_taking(0, 1.0)), beside_one)
    };
    let partial = each(new(1.0), |_, trial| trial.cut_short = records::interrupted());
    let reversed: Vec<Trial> = (0..10).map(|at| repetition(9 - at, 1.0)).collect();
    let more = |name, times| case(name, violated("base", 1, times), violated("new", 10_000, times));
    let of_runs = |name, base: &[f64], new: &[f64]| case(name, runs("base", base), runs("new", new));
    let thrice = |name: &str, times| taking(name, times, 3);
    let unended = each(runs("new", &[1.0, 1.01, 0.99]), |_, trial| {
        trial.histograms.insert(Measure::Unserved, records::histogram(&[60_000; 120]));
    });
    let slow_handoff = || {
        each(runs("new", &[1.0001]), |_, trial| {
            trial.histograms.insert(Measure::Handoff, records::histogram(&[40_000; 1_000]));
        })
    };
    let mut empty = runs("new", &[1.0001, 1.0]);
    empty.runs[1].stored.trials.clear();
    let one_run = || runs("base", &[1.0]);
    let longer = |name, all, tail| of(name, one_run(), runs("new", &[1.2]), margins(all, tail));
    let floor = |name, us| case(name, with_floor(one_run(), 1_000), with_floor(runs("new", &[1.5]), us));
    let lag = |name, share| case(name, lagging(one_run(), 0.02), lagging(runs("new", &[1.5]), share));
    let [slower, lacking] = noisy_pairs();
    let mut cases = vec![
        case("50 % longer", base(), new(1.5)),
        case("the reverse", taking("base", 1.5, 10), new(1.0)),
        case("equally long", base(), side("new", &reversed)),
        case("three repetitions per side, three times as long", thrice("base", 1.0), thrice("new", 3.0)),
        case("repetitions of several runs", halves("base", 1.0), halves("new", 1.2)),
        case("a cell missing from the new side", beside("base", 1.0), new(1.0)),
        case("a cell only on the new side", base(), beside("new", 1.0)),
        case("a rerun repetition keeps its pair", beside("base", 2.0), rerun(beside("new", 2.0), 7)),
        case("an invalid repetition", base(), late_if(new(1.0), &|at| at == 3)),
        case("partial repetitions", base(), partial),
        lost("8 of 10 repetitions lost, none on the base side", (40, 40), (10, 2)),
        lost("1 of 10 repetitions lost, none on the base side", (10, 10), (10, 9)),
        lost("1 of 10 repetitions lost on each side", (10, 9), (10, 9)),
        lost("more repetitions lost on the base side", (10, 8), (10, 9)),
        lost("too few repetitions left on each side", (20, 12), (20, 12)),
        throughput("3 of 10 never ran", base(), planned(taking("new", 1.0, 7), 10)),
        throughput("a rerun repetition is not lost", base(), rerun(new(1.0), 4)),
        case("slower, although a repetition was lost", base(), late_if(new(1.5), &|at| at == 0)),
        more("1 violation, then 10,000, once each", 1),
        more("1 violation, then 10,000, ten times each", 10),
        case("10,000 violations on each side", violated("base", 10_000, 10), violated("new", 10_000, 10)),
        case("a new violation", one("base", records::trial(0)), one("new", broken())),
        case("a violation that is gone", one("base", broken()), one("new", records::trial(0))),
        appears("a lock only on the new side", records::trial(0)),
        appears("a violated lock only on the new side", broken()),
        case("a batch with one more request", batch("base", 600), batch("new", 601)),
        case("a batch with the same number of requests", batch("base", 600), batch("new", 600)),
        case("lower bounds of longer waits", base(), open_ended(2.0)),
        case("lower bounds of shorter waits", base(), open_ended(0.5)),
        of("a growing queue", open("base", false), open("new", true), figure("wait.mean")),
        of("a chosen metric", base(), new(1.0), figure("wait.p90")),
        of("a metric that was not measured", base(), new(1.0), figure("uncontended.p50")),
        of("a metric with too few samples", base(), new(1.0), figure("handoff.p99")),
        case("20 % longer, each metric with its own margin", one_run(), runs("new", &[1.2])),
        longer("20 % longer, a margin of 5 %", Some(0.05), None),
        longer("20 % longer, a margin of 30 %", Some(0.3), None),
        longer("20 % longer, 5 % for the tail", None, Some(0.05)),
        longer("20 % longer, margins of 30 % and, for the tail, 5 %", Some(0.3), Some(0.05)),
        case("a tail with too few samples on the new side", sampled("base", 100), sampled("new", 99)),
        case("a tail with too few samples on the base side", sampled("base", 99), sampled("new", 100)),
        case("a median with too few samples", sampled("base", 100), sampled("new", 5)),
        of_runs("five runs per side", &[1.0, 1.01, 0.99, 1.02, 0.98], &[1.5, 1.52, 1.49, 1.51, 1.48]),
        of_runs("three runs per side", &[1.0, 1.01, 0.99], &[1.5, 1.52, 1.49]),
        of_runs("runs of one side that differ widely", &[1.0, 1.4, 0.7], &[1.1, 1.5, 0.8]),
        case("10 % of the waits unfinished", runs("base", &[1.0, 1.01, 0.99]), unended),
        case("a run that ended before its first trial", one_run(), empty),
        floor("the floor rose as much", 2_000),
        floor("the floor rose by less", 1_300),
        floor("the floor hardly rose", 1_050),
        lag("the generator's lag rose", 0.19),
        lag("the generator's lag hardly rose", 0.03),
        case("a lock that sheds a fifth of its load", shedding("base", 10), shedding("new", 200)),
        case("a lock that sheds a little more", shedding("base", 10), shedding("new", 14)),
        case("new timeouts", failing("base", None, 0), failing("new", Some(Outcome::TimedOut), 0)),
        case("new errors", failing("base", None, 0), failing("new", None, 300)),
        case("four locks a tenth slower", slower.0, slower.1),
        case("a repetition that one of two locks lost", lacking.0, lacking.1),
        case("handoffs twice as long, only shown", one_run(), slow_handoff()),
        of("handoffs twice as long, requested", one_run(), slow_handoff(), figure("handoff.p50")),
    ];
    cases.extend(circumstances());
    cases
}

fn described(found: &Comparison) -> String {
    let conclusion = &found.conclusion;
    let mut said = format!("{:?}, {:?}: {}\n", conclusion.exit(), found.about, conclusion.sentence);
    for Row { cell, strategies, figure, role, compared, .. } in &found.rows {
        let of =
            if strategies.is_empty() { cell.strategy.clone() } else { format!("{} locks", strategies.len()) };
        let ratio = compared
            .ratio
            .map_or_else(String::new, |of| format!(" {:.3} ({:.3} to {:.3})", of.value, of.low, of.high));
        let (verdict, regression, method) = (compared.verdict, compared.regression, compared.method);
        let (base, new) = (compared.base.values.len(), compared.new.values.len());
        let needed =
            compared.repetitions_needed.map_or_else(String::new, |needed| format!(", needs {needed}"));
        let why = compared.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        writeln!(
            said,
            "  {of} {figure}: {verdict:?}, {regression:?}{ratio}, {role:?}, {base} and {new} {method:?}{needed}{why}"
        )
        .unwrap();
    }
    let mut list = |what: &str, items: Vec<String>| {
        items.iter().for_each(|item| writeln!(said, "  {what}: {item}").unwrap());
    };
    list("family", vec![found.family.to_string()]);
    list("left out", found.left_out.iter().map(|one| format!("{}: {}", one.figure, one.why)).collect());
    list("only new", found.only_new.iter().map(|cell| cell.strategy.clone()).collect());
    list(
        "faster",
        found.faster.iter().map(|one| format!("{} in {}", one.sentence(), one.repetitions)).collect(),
    );
    list(
        "differs",
        found.differences.iter().map(|one| format!("{} ({})", one.describe(), one.meaningless)).collect(),
    );
    list("does not count", found.unsound.clone());
    list("forced", found.forced.clone());
    said
}

#[test]
fn comparison_verdicts_match_the_snapshot() {
    let found = cases().into_iter().map(|Case { name, base, new, ask }| {
        let found = compare(&base, &new, &ask);
        let said =
            found.map_or_else(|error| format!("{:?}: {error}\n", error.exit()), |found| described(&found));
        format!("## {name}\n{said}")
    });
    insta::assert_snapshot!("verdicts", found.collect::<Vec<_>>().join("\n"));
}

#[test]
fn required_repetitions_cannot_be_estimated_from_a_single_repetition() {
    let found = power(&taking("base", 1.0, 1), &Ask::default(), 0.05);
    assert!(found.rows.iter().all(|row| row.repetitions.is_none()), "{found:?}");
    let said = zklockbench_report::power(&found, Style::EVERYTHING);
    assert!(said.starts_with("The spread of the repetitions is unknown with a single repetition"), "{said}");
}

#[test]
fn strategies_with_too_few_samples_for_a_percentile_are_not_compared_together() {
    // Each trial has 100 handoffs.
    let rows = |name: &str| {
        let found = compare(&beside("base", 1.0), &beside("new", 2.0), &figure(name)).unwrap();
        found.rows.into_iter().filter(|row| !row.strategies.is_empty()).count()
    };
    assert_eq!((rows("handoff.p50"), rows("handoff.p99")), (1, 0));
}

#[test]
fn counts_of_a_single_repetition_belong_to_their_own_run() {
    let counted = |name: &str| each(runs(name, &[1.0; 5]), |_, trial| counted_apart::<4>(trial));
    let found = compare(&counted("base"), &counted("new"), &figure("requests_per_acquisition")).unwrap();
    let row = found.rows.iter().find(|row| row.figure == "requests_per_acquisition").unwrap();
    assert_eq!((row.compared.base.values.len(), row.compared.method), (5, Some(Method::Runs)));
}

#[test]
fn unknown_exclusion_does_not_improve_on_violations() {
    let unchecked = |_: usize, trial: &mut Trial| {
        trial.violation_count = 0;
        trial.judged = records::judged(Verdict::Unknown(vec!["nothing was checked".into()]));
    };
    let base = each(violated("base", 3, 4), |at, trial| {
        if at == 1 {
            unchecked(at, trial);
        }
    });
    let unknown = each(taking("new", 1.0, 4), unchecked);
    let verdict = |new: &Side| {
        let found = compare(&base, new, &figure("violations")).unwrap();
        found.rows.iter().find(|row| row.figure == "violations").unwrap().compared.verdict
    };
    assert_eq!(verdict(&taking("new", 1.0, 4)), ComparisonVerdict::Improved);
    assert_eq!(verdict(&unknown), ComparisonVerdict::NotMeasured);
}

#[test]
fn fewer_losses_are_not_reported_as_negative_additional_losses() {
    let found = compare(&shedding("base", 200), &shedding("new", 10), &figure("dropped")).unwrap();
    let said = &found.conclusion.sentence;
    assert!(said.contains("something improved") && said.contains(" no longer lost "), "{said}");
}

#[test]
fn lost_requests_do_not_hide_a_regression() {
    let five_runs = |name: &str, times: f64, lost: u64| {
        each(runs(name, &[times; 5]), |_, trial| {
            trial.measured = acquired(1_200);
            trial.measured.outcomes.add(Outcome::TimedOut, lost);
            trial.errors = [("create: connection loss".to_owned(), lost)].into_iter().collect();
            trial.sessions.expired = lost;
        })
    };
    let base = five_runs("base", 1.0, 0);
    for (lost, compared) in [(0, 0), (1, 3)] {
        let found = compare(&base, &five_runs("new", 1.5, lost), &Ask::default()).unwrap();
        let losses = ["timed_out", "errors", "sessions_expired"];
        let rows = found.rows.iter().filter(|row| losses.contains(&row.figure.as_str())).count();
        assert_eq!((found.conclusion.regression, rows), (Regression::Yes, compared), "{}", described(&found));
    }
}

#[test]
fn page_states_and_draws_losses_as_additional_losses() {
    let (base, new) = (shedding("base", 100), shedding("new", 210));
    let found = compare(&base, &new, &figure("dropped")).unwrap();
    let document = zklockbench_report::page::of_comparison(&base, &new, &found);
    let dropped = document.findings.iter().find(|one| one.sentence.starts_with("dropped of "));
    let said = &dropped.unwrap().sentence;
    assert!(said.contains(": lost an additional ") && !said.contains("times"), "{said}");
    let charts = document.sections.iter().flat_map(|section| &section.blocks);
    let ratios = charts.filter_map(|block| match block {
        Block::Chart(chart) => Some(&chart.kind),
        _ => None,
    });
    let rows = ratios.filter_map(|kind| match kind {
        ChartKind::Ratios(ratios) => ratios.rows.first(),
        _ => None,
    });
    // The dots are near the interval: about 1 + 0.21 - 0.1.
    let dots: Vec<f64> = rows.flat_map(|row| row.below.clone()).collect();
    assert!(dots.len() == 10 && dots.iter().all(|dot| (1.09..1.13).contains(dot)), "{dots:?}");
}
