//! The page of a run: a self-contained file that never executes text from the results.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use regex::Regex;
use zklockbench_analysis::gate::Outcome;
use zklockbench_core::measure::{Histogram, Measure, Woken, new_histogram};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Trial;
use zklockbench_report::Gated;
use zklockbench_report::document::{Block, Table, Value};
use zklockbench_report::html::{self, STYLE};
use zklockbench_report::page::{Source, document, side_by_side};
use zklockbench_report::{RunReport, View};
use zklockbench_results::StoredRun;

use crate::support::views::{break_by, fault};
use crate::support::{records, shown};

fn page(runs: &[StoredRun]) -> String {
    let views: Vec<View> = runs.iter().map(View::of).collect();
    let gated = Gated::default();
    let sources: Vec<Source<'_>> =
        runs.iter().zip(&views).map(|(stored, view)| Source { name: "a-run", stored, view }).collect();
    let report = |source: &Source<'_>| document(source, &RunReport::of(source.view, &gated));
    let documents: Vec<_> = sources.iter().map(report).collect();
    let tables = views.iter().map(|view| ("a-run".to_owned(), Table::whole(view)));
    html::page(&documents, side_by_side(tables.collect()).as_ref())
}

fn example(name: &str) -> StoredRun {
    zklockbench_results::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)).unwrap()
}

fn run(labels: &[&str], change: impl Fn(usize, &mut Trial)) -> StoredRun {
    let trials: Vec<Trial> = labels
        .iter()
        .enumerate()
        .map(|(at, label)| {
            let mut trial = records::trial(at);
            trial.spec.strategy.label = (*label).to_owned();
            change(at, &mut trial);
            trial
        })
        .collect();
    let mut run = records::run(trials.len());
    run.strategies = labels.iter().map(|label| (*label).to_owned()).collect();
    records::stored(&run, &trials)
}

fn all<'a>(pattern: &str, text: &'a str) -> Vec<&'a str> {
    Regex::new(pattern).unwrap().captures_iter(text).map(|found| found.get(1).unwrap().as_str()).collect()
}

fn gated(verdict: Verdict) -> Gated {
    let sentence = "throughput regressed; 0.6 times that";
    let outcome = shown::gate(Outcome::NO_REGRESSION, ("baton", 20), sentence, verdict);
    Gated { gates: vec![outcome], baseline: Some("baselines/main".into()) }
}

#[test]
fn page_of_a_run_starts_with_the_failed_gate_and_the_baseline() {
    let run = example("example");
    let badge = |page: &str| all("(?s)<h1>(.*?)</h1>", page)[0].to_owned();
    assert!(badge(&shown::page(&run, &Gated::default())).contains("✓ held"));
    let why = vec!["throughput regressed".to_owned()];
    let failed = shown::page(&run, &gated(Verdict::Violated(why.clone())));
    assert!(badge(&failed).contains("✗ gate FAILED"), "{}", badge(&failed));
    let first = all("(?s)<ul class=\"headline\">(.*?)</li>", &failed)[0];
    assert!(first.contains("FAILED: nothing regressed against baseline: baton"), "{first}");
    for told in ["0.6 times that", "baselines/main"] {
        assert!(failed.contains(told), "{told}");
    }
    assert!(badge(&shown::page(&run, &gated(Verdict::Unknown(why)))).contains("? gate unknown"));
}

#[test]
fn every_link_has_a_target_and_every_id_is_unique() {
    for page in [page(&[example("example")]), page(&[example("example"), example("example-faults")])] {
        let ids = all(r#" id="([^"]+)""#, &page);
        let unique: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), unique.len());
        for target in all(r##" href="#([^"]+)""##, &page) {
            assert!(unique.contains(target), "{target}");
        }
        for named in all(r#"aria-labelledby="([^"]+)""#, &page).iter().flat_map(|names| names.split(' ')) {
            assert!(unique.contains(named), "{named}");
        }
    }
}

/// The command must not repeat the overrides: the scenario on the page already contains them.
#[test]
fn command_to_repeat_a_run_uses_the_scenario_of_the_run() {
    let stored = example("example");
    assert_eq!(stored.run.run.overrides, ["ensemble.data_dir=\"/tmp\"", "contenders=[1, 5, 20]"]);
    assert!(stored.run.run.scenario_text.contains("data_dir = \"/tmp\""));
    let page = page(&[stored]);
    assert!(page.contains(">zklockbench run quick.toml --seed 1<"));
}

#[test]
fn chart_of_a_constant_metric_has_a_valid_axis() {
    // Given waits and handoffs of exactly one millisecond
    let stored = run(&["a", "b"], |_, trial| {
        for measure in [Measure::Wait, Measure::Handoff] {
            trial.histograms.insert(measure, records::histogram(&[1_000; 50]));
        }
    });
    // Then no chart contains invalid coordinates
    assert!(!page(&[stored]).contains("NaN"));
}

#[test]
fn page_needs_no_network_and_describes_every_chart() {
    let page = page(&[example("example-faults")]);
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    assert!(!page.contains("@import"));
    let charts = page.matches("role=\"img\"").count();
    assert!(charts >= 5, "{charts}");
    assert_eq!(page.matches("<desc ").count(), charts);
    assert!(page.contains("Content-Security-Policy"));
}

#[test]
fn page_shows_the_herd_curve_if_a_release_woke_two_waiters() {
    let woken = |rank, count, p50_us| Woken {
        from_rank: rank,
        to_rank: Some(rank),
        count,
        p50_us,
        p99_us: 4 * p50_us,
    };
    let herds = [None, Some(vec![woken(1, 9, 700)]), Some(vec![woken(1, 9, 700), woken(2, 8, 1_500)])];
    let pages = herds.map(|herd| page(&[run(&["parent-watch"], |_, trial| trial.herd = herd.clone())]));
    let title = "Time from a release to its k-th notification, 3 contenders";
    assert_eq!(pages.each_ref().map(|page| page.contains(title)), [false, false, true]);
    let said = "parent-watch: 700 µs (99th percentile 2.8 ms) for waiter 1, 1.5 ms (99th percentile 6 ms) for waiter 2.";
    assert!(pages[2].contains(said));
}

#[test]
fn tiles_of_invalid_trials_are_hollow() {
    let page = page(&[run(&["a", "b"], |at, trial| {
        break_by(trial, &[fault("crash holder", 20_000)]);
        trial.health.invalid = (at == 0).then(|| "timer lag".to_owned());
    })]);
    let tiles = all(r#"<td class="(t\d[^"]*)""#, &page);
    assert_eq!(tiles.iter().map(|class| class.ends_with(" hollow")).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn server_counters_exclude_trials_in_which_every_server_restarted() {
    let stored = run(&["a", "a"], |at, trial| {
        if at == 1 {
            trial.servers[0].before.insert("zk_uptime".into(), 9);
            trial.servers[0].after.insert("zk_uptime".into(), 1);
        }
    });
    let (view, gated) = (View::of(&stored), Gated::default());
    let source = Source { name: "a-run", stored: &stored, view: &view };
    let document = document(&source, &RunReport::of(&view, &gated));
    let counters = document.sections.iter().find(|section| section.id == "servers").unwrap();
    // Each trial has 24 packets and 12 acquisitions.
    assert!(matches!(&counters.blocks[0], Block::Table(table) if table.rows[0][2] == Value::Amount(2.0)));
}

#[test]
fn hostile_names_are_escaped_on_the_page() {
    // Given names that could run a script, end an attribute or a script, or reverse text
    let hostile = [
        "<script>alert(1)</script>",
        "\"' onload=\"alert(2)",
        "</title></script><img src=x>",
        "a\u{202e}b\u{2066}",
    ];
    let mut stored = run(&hostile, |_, trial| trial.errors.clear());
    stored.run.run.scenario = "</style><script>alert(3)</script>".into();
    stored.run.run.scenario_text = "name = \"</code></pre><script>alert(4)</script>\"".into();
    stored.run.run.host.hostname = "<b>host</b>".into();
    let page = page(&[stored]);
    for text in ["<script>alert", "<img", "<b>", "\u{202e}", "\u{2066}", "\" onload=\"alert"] {
        assert!(!page.contains(text), "{text}");
    }
    for text in ["&lt;script&gt;alert(1)", "&quot;' onload=&quot;alert(2)", "a\\u{202e}b", "&lt;b&gt;host"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn page_with_a_million_samples_per_strategy_is_small_and_renders_quickly() {
    let mut samples: Histogram = new_histogram();
    for step in 1..=1_000_000_u64 {
        samples.record(200 + step * step / 40_000_000 + (step * 7_919) % 997).unwrap();
    }
    let labels: Vec<String> = (0..8).map(|at| format!("strategy-{at}")).collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let stored = run(&labels, |_, trial| {
        for measure in [Measure::Wait, Measure::Handoff, Measure::Notification] {
            trial.histograms.insert(measure, samples.clone());
        }
    });
    let began = Instant::now();
    let page = page(&[stored]);
    let (took, bytes) = (began.elapsed(), page.len());
    println!("{bytes} bytes in {took:?}");
    assert!(bytes < 3_000_000, "{bytes}");
    // A release build takes two seconds, and a test build on a busy host much longer.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// Contrast ratio of two colours according to WCAG 2.
fn contrast(one: &str, other: &str) -> f64 {
    let luminance = |colour: &str| {
        let digits = colour.trim_start_matches('#');
        let full: String =
            if digits.len() == 3 { digits.chars().flat_map(|c| [c, c]).collect() } else { digits.into() };
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&full[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_and_lines_have_enough_contrast_in_light_and_dark_mode() {
    let dark = STYLE.find("@media(prefers-color-scheme:dark)").unwrap();
    let end = dark + STYLE[dark..].find("}}").unwrap();
    for (name, part) in [("light", &STYLE[..dark]), ("dark", &STYLE[dark..end])] {
        let colour = |variable: &str| {
            let found = Regex::new(&format!("--{variable}:(#[0-9a-f]+)")).unwrap();
            found.captures(part).unwrap_or_else(|| panic!("{name}: no --{variable}"))[1].to_owned()
        };
        let mut pairs = vec![("rule", "paper", 3.0)];
        for behind in ["paper", "card"] {
            pairs.extend([("ink", behind, 4.5), ("faint", behind, 4.5), ("link", behind, 4.5)]);
            pairs.extend(
                ["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "bad"].map(|line| (line, behind, 3.0)),
            );
        }
        pairs.extend([("good", "good-bg", 4.5), ("doubtful", "doubtful-bg", 4.5), ("bad", "bad-bg", 4.5)]);
        pairs.extend(["t0", "t1", "t2", "t3", "t4", "stuck"].map(|tile| ("tile-ink", tile, 4.5)));
        pairs.push(("violated-ink", "violated", 4.5));
        for (front, behind, least) in pairs {
            let found = contrast(&colour(front), &colour(behind));
            assert!(found >= least, "{name}: {front} on {behind}: {found:.2}");
        }
    }
}

#[test]
fn a_page_without_measurements_has_no_empty_sections() {
    let mut stored = records::stored(&records::run(1), &[records::trial_without_measurements(0)]);
    stored.run.run.floor = None;
    let page = page(&[stored]);
    assert!(page.contains("No lock was acquired in any trial"));
    assert!(!page.contains("Waits, handoffs and notifications"), "found a section without a chart");
    assert!(!page.contains("NaN") && !page.contains(">inf"));
}

#[test]
fn page_reports_the_cell_in_which_the_generator_was_saturated() {
    // Given two generator threads that are both 95 % busy in the second cell
    let run = run(&["polling", "baton"], |at, trial| trial.health.cpu_share = [1.7, 1.9][at]);
    let remarks = View::of(&run).remarks;
    let busy: Vec<&String> = remarks.iter().filter(|remark| remark.starts_with("busy generator: ")).collect();
    assert!(matches!(busy[..], [one] if one.contains("baton") && one.contains("95 %")), "{remarks:?}");
}
