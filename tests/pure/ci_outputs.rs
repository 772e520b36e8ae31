//! Output for CI in each format, for a real run and for names that try to break out of the syntax.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use regex::Regex;
use serde_json::Value;
use zklockbench_analysis::compare::{Ask, Regression, Side, compare};
use zklockbench_analysis::gate::Outcome;
use zklockbench_record::{Trial, figures};
use zklockbench_report::Gated;
use zklockbench_report::ci::{Check, CheckKind, CiReport, Live, github, junit, openmetrics, trackers};

use zklockbench_core::{measure::Measure, verdict::Verdict};

use crate::support::{depth, json_schema::Schema, records, run_dirs, shown, skip::skipped};

/// A label with markup, a workflow command, an entity, an end-of-file marker and bidirectional control
/// characters.
const HOSTILE: &str = "<script>alert(\"1\")</script>]]>&amp;|`x`%0A::set-output name=a::b\n#EOF\\ \u{202e}evil\u{200f} $x$ @all";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Report of the example run with gates that passed, failed and were unknown.
fn example() -> CiReport {
    let stored = zklockbench_results::read(&root().join("results/example")).unwrap();
    let too_few = ["35 samples are too few", "and so are 6"];
    let gates = vec![
        gate("every lock held", Verdict::Held),
        gate("throughput > 1/s", Verdict::Held),
        gate("wait.p99 of polling < 50ms", Verdict::Violated(vec!["wait.p99 is 1.02 s".into()])),
        gate("wait.p99.9 < 1s", Verdict::Unknown(too_few.map(str::to_owned).into())),
    ];
    shown::ci_report(&stored, &Gated { gates, baseline: None })
}

fn gate(text: &str, verdict: Verdict) -> Outcome {
    shown::gate(text, ("polling", 20), "what was observed", verdict)
}

/// Report of a held, a violated and an invalid trial with the hostile name as strategy, scenario and reason.
fn hostile() -> CiReport {
    let named = |mut trial: Trial, contenders| {
        trial.spec.strategy.label = HOSTILE.into();
        trial.spec.contenders = contenders;
        trial
    };
    let mut invalid = records::trial(2);
    invalid.health.invalid = Some(HOSTILE.into());
    let mut violated = records::trial_with_a_violation(1);
    violated.judged = records::judged(Verdict::Violated(vec![HOSTILE.into(), "another reason".into()]));
    let trials = [named(records::trial(0), 3), named(violated, 4), named(invalid, 5)];
    let mut run = records::run(3);
    (run.scenario, run.strategies) = (HOSTILE.into(), vec![HOSTILE.into()]);
    run.host.hostname = HOSTILE.into();
    let stored = records::stored(&run, &trials);
    let gates = vec![gate(HOSTILE, Verdict::Violated(vec![HOSTILE.into()]))];
    shown::ci_report(&stored, &Gated { gates, baseline: None }).with_fact("results", HOSTILE)
}

#[test]
fn trial_and_its_replacement_count_as_one_planned_trial() {
    let mut invalid = records::trial(0);
    invalid.health.invalid = Some("the host was busy".into());
    let mut replacement = records::trial(1);
    replacement.spec.makes_up_for = Some(0);
    let stored = records::stored(&records::run(1), &[invalid, replacement]);
    let report = shown::ci_report(&stored, &Gated { gates: Vec::new(), baseline: None });
    assert_eq!(report.checks[0].seen, ["1 of 1 trial ran"]);
}

fn failing(checks: usize) -> CiReport {
    let check = |number| {
        let verdict = match number % 2 {
            0 => Verdict::Unknown(vec!["too few samples".into()]),
            _ => Verdict::Violated(vec!["x".repeat(400)]),
        };
        let (kind, name) = (CheckKind::Gate, format!("gate {number}"));
        Check { kind, name, verdict, seen: Vec::new(), took: Duration::ZERO }
    };
    CiReport::of_failure("quick", records::began(), "why").with_checks((0..checks).map(check))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn ci_outputs_match_the_snapshots() {
    for (name, document) in
        [("the_example", example()), ("hostile_names", hostile()), ("a_comparison", comparison())]
    {
        let annotations = github::annotations(&document);
        assert!(annotations.iter().all(|line| line.lines().count() == 1), "{annotations:?}");
        for (format, text) in [
            ("junit", junit::render(&document).unwrap()),
            ("github_summary", github::summary(&document, github::SUMMARY_AT_MOST)),
            ("github_annotations", annotations.join("\n")),
        ] {
            insta::assert_snapshot!(format!("{format}_of_{name}"), text);
        }
    }
    insta::assert_snapshot!("openmetrics_of_hostile_names", openmetrics::render(&hostile()));
    let text = live().render(records::began() + Duration::from_secs(90));
    insta::assert_snapshot!("openmetrics_of_a_run_under_way", text);
}

#[test]
fn tracker_outputs_match_their_published_formats() {
    let schema = json(&std::fs::read_to_string(root().join("tests/data/published/bmf.json")).unwrap());
    let validator = Schema::new(&schema);
    for (at, document) in [example(), hostile()].iter().enumerate() {
        for (name, text) in trackers::benchmark_action(document).unwrap() {
            insta::assert_snapshot!(format!("{}_{at}", name.replace('-', "_")), text);
            let all = json(&text);
            let all = all.as_array().unwrap();
            let names: BTreeSet<&str> = all.iter().map(|one| one["name"].as_str().unwrap()).collect();
            assert!(all.iter().all(|one| one["value"].is_f64() && one["unit"].is_string()), "{text}");
            assert_eq!(names.len(), all.len(), "chart names must be unique");
        }
        let text = trackers::bencher(document).unwrap();
        insta::assert_snapshot!(format!("bencher_{at}"), text);
        let all = json(&text);
        assert!(validator.is_valid(&all), "{text}");
        for metric in all.as_object().unwrap().values().flat_map(|one| one.as_object().unwrap().values()) {
            let [low, value, high] =
                ["lower_value", "value", "upper_value"].map(|name| metric[name].as_f64().unwrap());
            assert!(low <= value && value <= high, "{metric}");
        }
    }
}

// --- JUnit -------------------------------------------------------------------------------------------------

#[test]
fn junit_report_matches_the_schema_of_jenkins() {
    if Command::new("xmllint").arg("--version").output().is_err() {
        return skipped("xmllint not found (Debian: libxml2-utils)");
    }
    let place = tempfile::tempdir().unwrap();
    let schema = root().join("tests/data/published/junit-10.xsd");
    let validate = |text: &str| {
        let file = place.path().join("junit.xml");
        std::fs::write(&file, text).unwrap();
        let output =
            Command::new("xmllint").args(["--noout", "--nonet", "--schema"]).arg(&schema).arg(&file).output();
        let output = output.unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for document in [example(), hostile(), failing(30), comparison()] {
        let text = junit::render(&document).unwrap();
        let (valid, told) = validate(&text);
        assert!(valid, "{told}\n{text}");
        // The validator must reject an invalid attribute.
        assert!(!validate(&text.replacen("<testsuites ", "<testsuites skipped=\"0\" ", 1)).0);
    }
}

// --- GitHub ------------------------------------------------------------------------------------------------

#[test]
fn summary_counts_annotations_that_github_would_drop() {
    let document = failing(10_000);
    let lines = github::annotations(&document);
    assert_eq!(lines.len(), github::ANNOTATIONS_AT_MOST);
    let expected = "and 9992 more checks did not pass; see the step summary";
    assert!(lines.last().unwrap().ends_with(expected), "{lines:?}");
    for most in [2_000, 50_000, github::SUMMARY_AT_MOST] {
        let text = github::summary(&document, most);
        assert!(text.len() <= most, "{} of {most}", text.len());
        assert!(text.contains("more checks did not pass"), "{most}");
        // Failed checks come first.
        assert!(text.find("❌").unwrap() < text.find("❔").unwrap_or(usize::MAX), "{most}");
    }
    assert_eq!(github::summary(&document, 0), "");
}

// --- A comparison ------------------------------------------------------------------------------------------

/// Ten repetitions of each strategy. Each strategy is given by its label and its slowdown factor.
fn side(name: &str, strategies: &[(&str, f64)]) -> Side {
    let trial = |(at, (label, times)): (usize, &(&str, f64))| {
        let repetition = at / strategies.len();
        let mut trial = records::trial_taking(at, times * (1.0 + repetition as f64 / 500.0));
        trial.spec.strategy.label = (*label).into();
        trial.spec.repetition = u32::try_from(repetition).unwrap() + 1;
        trial
    };
    let each = strategies.iter().cycle().take(10 * strategies.len()).enumerate();
    let trials: Vec<Trial> = each.map(trial).collect();
    records::side(name, &trials)
}

/// A comparison of three strategies: the first regressed, the second is the same, and the third, with a hostile
/// name, is only in the base.
fn comparison() -> CiReport {
    let base = side("base", &[("slower", 1.0), ("same", 1.0), (HOSTILE, 1.0)]);
    let new = side("new", &[("slower", 1.3), ("same", 1.0)]);
    let figures = ["throughput", "wait.p50"].map(|figure| figures::named(figure).unwrap()).to_vec();
    let compared = compare(&base, &new, &Ask { figures, ..Ask::default() }).unwrap();
    assert_eq!(compared.conclusion.regression, Regression::Yes);
    CiReport::of_comparison(&compared)
}

// --- github-action-benchmark and Bencher -------------------------------------------------------------------

#[test]
fn tracker_outputs_omit_violated_locks_and_invalid_trials() {
    // Only the first of the three trials is valid and held.
    let all = json(&trackers::bencher(&hostile()).unwrap());
    let names: Vec<&String> = all.as_object().unwrap().keys().collect();
    assert!(names.len() == 1 && names[0].ends_with(", 3 contenders"), "{names:?}");
    // A wait that is only a lower bound is not reported.
    let mut trial = records::trial(0);
    trial.histograms.insert(Measure::Unserved, records::histogram(&[2_000_000; 6]));
    let stored = records::stored(&records::run(1), &[trial]);
    let document = shown::ci_report(&stored, &Gated::default());
    let text = trackers::bencher(&document).unwrap();
    assert!(!text.contains("wait-p99") && text.contains("handoff-p99"), "{text}");
    let shown =
        document.cells[0].values.iter().find(|value| value.figure.to_string() == "wait.p99").unwrap().shown();
    assert!(shown.starts_with('≥'), "{shown}");
}

#[test]
fn empty_and_aborted_runs_yield_an_error_and_no_metric() {
    let stored = records::stored(&records::run(2), &[]);
    for document in [
        shown::ci_report(&stored, &Gated::default()),
        CiReport::of_failure("quick", records::began(), "no ZooKeeper was found"),
    ] {
        assert!(junit::render(&document).unwrap().contains("errors=\"1\""));
        assert_eq!(trackers::bencher(&document).unwrap(), "{}\n");
        assert!(trackers::benchmark_action(&document).unwrap().iter().all(|(_, text)| text == "[]\n"));
        assert_eq!(github::annotations(&document).len(), 1);
    }
}

// --- OpenMetrics -------------------------------------------------------------------------------------------

/// A run in progress, in its second trial.
fn live() -> Live {
    let mut live = Live::new(HOSTILE, records::began(), 3);
    live.trial_begins("polling", 3, 1);
    live.phase("measure");
    live.acquired(4);
    let mut trial = records::trial(0);
    trial.spec.strategy.label = "polling".into();
    live.trial_ended(&trial);
    live.more_planned(2);
    live.trial_begins(HOSTILE, 20, 1);
    live.acquired(7);
    live.acquired(5);
    live
}

#[test]
fn counters_never_decrease_when_a_trial_ends() {
    let mut live = live();
    let acquired = |live: &Live| {
        let text = live.render(records::began());
        let line =
            text.lines().find(|line| line.starts_with("zklockbench_acquisitions_total{strategy=\"polling\""));
        line.unwrap().rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
    };
    let before = acquired(&live);
    live.trial_begins("polling", 3, 2);
    live.acquired(100);
    let during = acquired(&live);
    let mut trial = records::trial(1);
    trial.spec.strategy.label = "polling".into();
    live.trial_ended(&trial);
    assert_eq!((during, acquired(&live)), (before + 100, before + 100));
}

/// Parses an exposition from stdin, and prints the type, name, strategy and value of each sample.
const PARSE: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(family.type, sample.name, sample.labels.get('strategy', ''), sample.value, sep='\\t')
";

#[test]
fn prometheus_parser_reads_every_metric() {
    let Some(python) = python_with("prometheus_client") else {
        return skipped("prometheus_client for Python not found (Debian: python3-prometheus-client)");
    };
    for text in
        [openmetrics::render(&example()), openmetrics::render(&hostile()), live().render(records::began())]
    {
        let read = feed(&python, PARSE, &text);
        let lines: Vec<&str> = read.lines().collect();
        let samples = text.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(lines.len(), samples, "{read}");
    }
    let read = feed(&python, PARSE, &openmetrics::render(&example()));
    assert!(read.contains("counter\tzklockbench_acquisitions_total\tpolling\t"), "{read}");
    assert!(read.contains("gauge\tzklockbench_wait_seconds\tcurator-mutex\t"), "{read}");
    // The parser for the older format also recognises counters.
    let parse = PARSE.replace("openmetrics.parser", "parser");
    let read = feed(&python, &parse, &openmetrics::plain(&openmetrics::render(&example())));
    assert!(read.contains("counter\tzklockbench_acquisitions_total\tpolling\t"), "{read}");
    // The parser must reject a broken exposition.
    let broken = openmetrics::render(&example()).replace("# EOF", "");
    assert_eq!(feed(&python, PARSE, &broken), "");
}

/// Queries of the dashboard, with its variables substituted.
fn dashboard_queries() -> Vec<String> {
    let dashboard = json(&std::fs::read_to_string(root().join("docs/grafana/zklockbench.json")).unwrap());
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let names: Vec<&str> = variables.map(|variable| variable["name"].as_str().unwrap()).collect();
    let filled = |target: &Value| {
        let query = target["expr"].as_str().unwrap().replace("$__rate_interval", "1m");
        names.iter().fold(query, |query, name| query.replace(&format!("${name}"), ".*"))
    };
    targets.map(filled).collect()
}

#[test]
fn dashboard_queries_only_metrics_and_labels_that_a_run_exports() {
    let text = live().render(records::began());
    // Labels of each metric. Prometheus adds `instance`.
    let mut exported: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let label = Regex::new("([a-z_]+)=").unwrap();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap();
        let labels = label.captures_iter(rest).map(|found| found[1].to_owned());
        exported.entry(name.to_owned()).or_default().extend(labels.chain(["instance".to_owned()]));
    }
    let selector = Regex::new(r"(zklockbench_[a-z_]+)\{([^}]*)\}").unwrap();
    let queries = dashboard_queries();
    assert!(queries.len() >= 10, "{queries:?}");
    for query in queries {
        assert!(!query.contains('$'), "variable without a value in {query}");
        let asked: Vec<_> = selector.captures_iter(&query).collect();
        assert_eq!(asked.len(), query.matches("zklockbench_").count(), "{query}");
        for one in asked {
            let labels = exported.get(&one[1]).unwrap_or_else(|| panic!("no run exports {}", &one[1]));
            for label in label.captures_iter(&one[2]) {
                assert!(labels.contains(&label[1]), "{query}: {} has no label {}", &one[1], &label[1]);
            }
        }
    }
}

#[test]
fn promtool_accepts_the_metrics_and_the_queries_of_the_dashboard() {
    if !depth::is_long() {
        return;
    }
    let promtool = |words: &[&str], input: &str| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), input).unwrap();
        let stdin = std::fs::File::open(file.path()).unwrap();
        let mut command = Command::new("promtool");
        command.args(words).stdin(stdin);
        if words.contains(&"rules") {
            command.arg(file.path());
        }
        let output = command.output().ok()?;
        let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        Some((output.status.success(), told))
    };
    for text in
        [openmetrics::render(&example()), openmetrics::render(&hostile()), live().render(records::began())]
    {
        let Some((accepted, told)) = promtool(&["check", "metrics"], &openmetrics::plain(&text)) else {
            return skipped("promtool not found (Debian: prometheus)");
        };
        assert!(accepted, "{told}");
    }
    let rules = |queries: &[String]| {
        let rule = |query: &String| serde_json::json!({ "record": "a", "expr": query });
        let all: Vec<Value> = queries.iter().map(rule).collect();
        serde_json::json!({ "groups": [{ "name": "dashboard", "rules": all }] }).to_string()
    };
    // The linter is off because all rules have the same name.
    let (accepted, told) =
        promtool(&["check", "rules", "--lint=none"], &rules(&dashboard_queries())).unwrap();
    assert!(accepted, "{told}");
    // promtool must reject invalid input.
    assert!(!promtool(&["check", "metrics"], "a{").unwrap().0);
    assert!(!promtool(&["check", "rules", "--lint=none"], &rules(&["rate(".into()])).unwrap().0);
}

/// A Python with this module: from `ZKLOCKBENCH_TEST_PYTHON`, `PATH`, or the system.
fn python_with(module: &str) -> Option<String> {
    let has = |python: &&str| {
        let asked = Command::new(python).args(["-c", &format!("import {module}")]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let named = std::env::var("ZKLOCKBENCH_TEST_PYTHON").ok();
    named.or_else(|| ["python3", "/usr/bin/python3"].into_iter().find(has).map(str::to_owned))
}

/// Output of a Python program for this input; empty if the program fails.
fn feed(python: &str, program: &str, input: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), input).unwrap();
    let stdin = std::fs::File::open(file.path()).unwrap();
    let output = Command::new(python).args(["-c", program]).stdin(stdin).output().unwrap();
    if !output.status.success() {
        println!("{}", String::from_utf8_lossy(&output.stderr));
        return String::new();
    }
    String::from_utf8(output.stdout).unwrap()
}

// --- A run directory ---------------------------------------------------------------------------------------

#[test]
fn intervals_of_six_repetitions_appear_in_every_format_that_supports_them() {
    let trial = |index: usize| {
        let mut trial = records::trial(index);
        trial.spec.repetition = u32::try_from(index).unwrap() + 1;
        trial.measured_us = 1_000_000 * (index as u64 + 1);
        trial
    };
    let parent = tempfile::tempdir().unwrap();
    let trials: Vec<Trial> = (0..depth::of(6, 9)).map(trial).collect();
    let stored = zklockbench_results::read(&run_dirs::publish(parent.path(), &trials)).unwrap();
    let document = shown::ci_report(&stored, &Gated::default());
    let throughput = document.cells[0].values[0];
    let interval = throughput.over.interval.unwrap();
    assert!(interval.low <= throughput.over.median && throughput.over.median <= interval.high);
    assert!(openmetrics::render(&document).contains("aggregate=\"interval_low\""));
    let bencher = json(&trackers::bencher(&document).unwrap());
    let metric = &bencher.as_object().unwrap().values().next().unwrap()["throughput-per-s"];
    assert_eq!(metric["lower_value"].as_f64(), Some(interval.low));
}
