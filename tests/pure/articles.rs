//! The articles' claims, how runs decide them, and the page that lists them.

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use zklockbench_analysis::articles::Answer::{Confirmed, NotDecided};
use zklockbench_analysis::articles::{
    Decision, Decisions, Evidence, Named, TESTS, claims, decide, evidence_page, text,
};
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::catalog::fault::FaultChoice;
use zklockbench_core::measure::{Counts, Measure, Outcome, RequestKind, Woken, new_histogram};
use zklockbench_record::{
    Accounting, Calibration, Counted, Counting, FaultRecord, FencingCounts, RawRequest, RequestFigures,
    Saturation, ServerFigures, Tally, Timing, Trial,
};
use zklockbench_results::StoredRun;
use zklockbench_scenario::{Distribution, Stop};

use crate::support::{answered::answered, views};

const DECISIONS: &str = include_str!("snapshots/pure__articles__decisions.snap");

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A stored example run, read only once because it has many histograms.
fn example() -> &'static StoredRun {
    static EXAMPLE: LazyLock<StoredRun> =
        LazyLock::new(|| zklockbench_results::read(&root().join("results/example")).unwrap());
    &EXAMPLE
}

/// A valid trial without counts.
fn trial(label: &str, contenders: usize) -> Trial {
    static EMPTY: LazyLock<Trial> = LazyLock::new(|| emptied(example().trials[0].clone()));
    let mut trial = EMPTY.clone();
    trial.spec.strategy.name = label.split(' ').next().unwrap().to_owned();
    trial.spec.strategy.label = label.to_owned();
    trial.spec.contenders = contenders;
    trial
}

fn emptied(mut trial: Trial) -> Trial {
    trial.spec.strategy.params.clear();
    trial.spec.repetition = 1;
    trial.cut_short = None;
    trial.health.invalid = None;
    trial.measured = Counts::default();
    trial.whole = Counts::default();
    trial.violation_count = 0;
    trial.violations.clear();
    trial.faults.clear();
    trial.stuck.clear();
    trial.fencing = FencingCounts::default();
    trial.tallies.clear();
    trial.errors.clear();
    trial.servers.clear();
    trial.accounting.clear();
    trial.histograms.clear();
    trial.herd = None;
    trial.full_crew = None;
    trial.excused.zombies = 0;
    trial.sessions.expired = 0;
    trial.sessions.rejoined = 0;
    trial
}

pub fn calibration() -> Calibration {
    let run = &example().run.run;
    Calibration {
        tool_version: String::new(),
        tool_commit: None,
        started_at: run.started_at,
        ended_at: run.ended_at,
        budget_us: 0,
        rest_us: None,
        saturating_sessions: 0,
        in_flight: 0,
        host: run.host.clone(),
        ensemble: run.ensemble.clone(),
        floor: Default::default(),
        synced_writes_per_s: None,
        servers: Vec::new(),
        pairs: Vec::new(),
        missing: Vec::new(),
    }
}

/// Parses one trial or six repetitions from `label @contenders [x6] key=value …`.
fn described(line: &str) -> Vec<Trial> {
    let (label, rest) = line.split_once(" @").unwrap();
    let mut words = rest.split_whitespace().peekable();
    let contenders = words.next().unwrap().parse().unwrap();
    let repetitions = if words.next_if_eq(&"x6").is_some() { 1..=6 } else { 0..=0 };
    let repetition = |number: u64| {
        let mut trial = trial(label, contenders);
        trial.spec.repetition = u32::try_from(number.max(1)).unwrap();
        for (key, value) in words.clone().map(|word| word.split_once('=').unwrap()) {
            set(&mut trial, key, value, number);
        }
        trial
    };
    repetitions.map(repetition).collect()
}

/// Sets one measurement of a trial. `number` makes the repetitions differ.
fn set(trial: &mut Trial, key: &str, value: &str, number: u64) {
    let amount = value.parse::<u64>().unwrap_or_default();
    let kind = |key: &str| RequestKind::ALL.into_iter().find(|kind| kind.name() == key);
    match key {
        "acquired" => {
            trial.whole.outcomes.add(Outcome::Acquired, amount + number);
            trial.measured.outcomes.add(Outcome::Acquired, amount + number);
        }
        "timed_out" => trial.whole.outcomes.add(Outcome::TimedOut, amount),
        "failed" => trial.whole.outcomes.add(Outcome::ConnectionLost, amount),
        "violations" => trial.violation_count = amount,
        "rejected_releases" => drop(trial.errors.insert("release again: bad request".into(), amount)),
        "measured_us" => trial.measured_us = amount,
        "overtaken" => trial.measured.overtaken = amount,
        "most_inside" => trial.most_inside = amount,
        "bytes" => trial.whole.bytes_received = amount,
        "told" => trial.whole.notifications.by_release_useful = amount,
        "useful" => trial.measured.notifications.by_release_useful = amount,
        "to_readers" => trial.measured.notifications.spurious_to_readers = amount,
        "tally" => trial.tallies = vec![Tally { acquired: 0, unserved: amount, longest_wait_us: 1 }],
        "spurious" => trial.measured.notifications.by_release_spurious = amount,
        "rejoined" => trial.sessions.rejoined = amount,
        "negotiated" => trial.sessions.negotiated_timeout_us = amount,
        "zombies" => trial.excused.zombies = amount,
        "writes" => trial.fencing.writes = amount,
        "stale" => trial.fencing.stale = amount,
        "rejected" => trial.fencing.stale_rejected = amount,
        "stuck" => trial.stuck = vec![views::stuck(0); amount as usize],
        "invalid" => trial.health.invalid = Some("the generator was late".into()),
        "stop" => trial.spec.stop = Stop::Acquisitions(amount),
        "seconds" => trial.spec.stop = Stop::After(Duration::from_secs(amount)),
        "longest" => tallies(trial, 10, amount + number),
        "each" => tallies(trial, amount, 1),
        "first" => trial.tallies[0].acquired = amount,
        "wait" => {
            let mut waits = new_histogram();
            waits.record(amount + number).unwrap();
            trial.histograms.insert(Measure::Wait, waits);
        }
        "herd" => {
            let from_rank = amount as u32;
            trial.herd = Some(vec![Woken { from_rank, to_rank: None, count: 1, p50_us: 1, p99_us: 1 }]);
        }
        "sent" => {
            let (client, expected) = (Some(amount), Some(98));
            trial.accounting = vec![Accounting { what: Counted::Requests, client, expected, servers: None }];
        }
        "served" => {
            let mut server = example().trials[0].servers[0].clone();
            for (kind, count) in [("read", 9 * amount), ("write", amount)] {
                let key = format!("zk_cnt_ns_{kind}_per_namespace");
                server.before.insert(key.clone(), 1);
                server.after.insert(key, i64::try_from(count + 1).unwrap());
            }
            trial.servers = vec![server];
        }
        "watches" => {
            let mut server = example().trials[0].servers[0].clone();
            server.before.insert("zk_watch_count".into(), 0);
            server.after.insert("zk_watch_count".into(), i64::try_from(amount).unwrap());
            trial.servers = vec![server];
        }
        "interval_ms" => {
            let interval = Duration::from_millis(amount);
            trial.spec.hold = Distribution::Fixed(interval);
            trial.spec.strategy.params.insert("poll_interval".into(), ParamValue::Duration(interval));
        }
        "fault" => trial.faults.push(fault(value)),
        "gap" => trial.faults.last_mut().unwrap().longest_gap_us = Some(amount),
        "recovered" => trial.faults.last_mut().unwrap().recovered_us = value.parse().ok(),
        "proved" => trial.faults.last_mut().unwrap().proved = amount == 1,
        "crashes" => {
            let crash = |more| FaultRecord { recovered_us: Some(amount + more), ..fault("crash") };
            trial.faults = (1..=6).map(crash).collect();
        }
        "asked" => trial.spec.faults.push(asked(value)),
        _ => {
            if let Some(kind) = key.strip_prefix("counted_").and_then(kind) {
                let none = || Counting { missing: None, ..Counting::failed(String::new()) };
                let counted = &mut trial.counting.get_or_insert_with(none).counted;
                counted.acquired = 10;
                counted.requests.add(kind, amount);
            } else if let Some(kind) = key.strip_prefix("ok_").and_then(kind) {
                trial.whole.succeeded.add(kind, amount);
            } else {
                let kind = kind(key).unwrap_or_else(|| panic!("no key {key}"));
                trial.whole.requests.add(kind, amount + number);
            }
        }
    }
}

fn tallies(trial: &mut Trial, acquired: u64, longest_wait_us: u64) {
    trial.tallies = vec![Tally { acquired, unserved: 0, longest_wait_us }; trial.spec.contenders];
}

fn fault(kind: &str) -> FaultRecord {
    let fault = views::fault(kind, 1_000_000);
    let longest_gap_us = fault.recovered_us;
    FaultRecord { asked_us: 0, effective_us: Some(0), ended_us: Some(1), longest_gap_us, ..fault }
}

/// Parses a fault of a scenario from `kind:seconds`.
fn asked(fault: &str) -> FaultChoice {
    let (kind, seconds) = fault.split_once(':').unwrap();
    let text = format!(
        "name = \"x\"\nstrategies = [\"curator-mutex\"]\ncontenders = 2\nduration = \"60s\"\n[[fault]]\n\
         kind = \"{kind}\"\nat = \"1s\"\nduration = \"{seconds}s\"\n"
    );
    let parsed = zklockbench_scenario::parse("x.toml", &text, &zklockbench_load::catalog());
    parsed.unwrap_or_else(|errors| panic!("{errors}")).scenario.faults.swap_remove(0)
}

/// Parses a calibration from `COUNT shared=0 reads=… writes=…`, with rates per second.
fn measured(words: &str) -> Named<Calibration> {
    let numbers: Vec<f64> = words.split([' ', '=']).filter_map(|word| word.parse().ok()).collect();
    let [count, shared, reads, writes] = numbers[..] else { panic!("{words}") };
    let mut what = calibration();
    what.ensemble.shares_host = shared == 1.0;
    what.synced_writes_per_s = Some(writes);
    let figures = |request, per_s| RequestFigures {
        request,
        alone: Some(Timing { count: 9, p50_us: 300, p90_us: 400, p99_us: 500 }),
        saturated: Some(Saturation { per_s, count: 1, lasted_us: 1, generator_share: None }),
    };
    let server = ServerFigures {
        address: String::new(),
        role: String::new(),
        requests: vec![figures(RawRequest::GetData, reads / count), figures(RawRequest::SetData, writes)],
        watch: None,
        session_open: None,
        session_close: None,
        ruok: None,
    };
    what.servers = vec![server; count as usize];
    Named { name: format!("calibration-{count}"), what }
}

/// Parses evidence from lines: `run SCENARIO` followed by its trials, `curator JSON`, or `servers COUNT …`.
fn evidence(text: &str) -> Evidence {
    let mut evidence = Evidence { sources: Some(zklockbench_locks::COMPARED_SOURCES), ..Evidence::default() };
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(scenario) = line.strip_prefix("run ") {
            let mut run = example().run.clone();
            run.run.scenario = scenario.to_owned();
            let what = StoredRun { run, trials: Vec::new(), replaced: Vec::new() };
            evidence.runs.push(Named { name: format!("{scenario}-run"), what });
        } else if let Some(facts) = line.strip_prefix("curator {") {
            let what = serde_json::from_str(&format!("{{{facts}")).unwrap();
            evidence.curators.push(Named { name: "curator".into(), what });
        } else if let Some(words) = line.strip_prefix("servers ") {
            evidence.calibrations.push(measured(words));
        } else {
            evidence.runs.last_mut().unwrap().what.trials.extend(described(line));
        }
    }
    evidence
}

fn claim(number: u8, evidence: &Evidence) -> Decision {
    decide(evidence).into_iter().find(|claim| claim.number == number).unwrap()
}

/// Numbers of lines, branches and states in the sources. The numbers change over time.
static OF_SOURCES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"((?:lines|branches|waits): )[\d.]+|\b\d+, \d+ and \d+").unwrap());

/// Decides the claims in the first line from the evidence in the remaining lines.
fn decided(case: &str) -> String {
    let (numbers, lines) = case.split_once('\n').unwrap();
    let evidence = evidence(lines);
    let decision = |word: &str| {
        let decision = claim(word.parse().unwrap(), &evidence);
        let figures = decision.figures.iter().map(|figure| format!("; {}: {:.3}", figure.what, figure.value));
        let said = format!("{:?}: {}{}", decision.answer, decision.sentence, figures.collect::<String>());
        if word == "27" { OF_SOURCES.replace_all(&said, "$1…").into_owned() } else { said }
    };
    numbers.split(' ').skip(1).map(decision).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_claim_is_decided_by_the_metrics_of_its_runs() {
    insta::assert_snapshot!("decisions", answered(DECISIONS, decided));
}

/// Longest waits of 2, 10 and 50 contenders: in a race, where each wait is three times the previous wait, and in a
/// queue.
fn waits(few: u64, queue: u64) -> Evidence {
    let (some, many) = (3 * few, 9 * few);
    evidence(&format!(
        "run articles-growth\nephemeral-node @2 x6 longest={few}\nephemeral-node @10 x6 longest={some}\n\
         ephemeral-node @50 x6 longest={many}\npredecessor-watch @2 x6 longest={queue}\n\
         predecessor-watch @10 x6 longest={queue}\npredecessor-watch @50 x6 longest={queue}"
    ))
}

#[test]
fn claims_are_numbered_from_1_to_43_and_have_sources_and_cases() {
    let numbers: Vec<u8> = claims().iter().map(|claim| claim.number).collect();
    assert_eq!(numbers, (1..=43).collect::<Vec<u8>>());
    assert_eq!(sources().len(), 5);
    // Every claim that is decided by runs has cases in the snapshot.
    let has_cases = |number: &u8| {
        let lines = DECISIONS.lines().filter_map(|line| line.strip_prefix("claim "));
        lines.flat_map(str::split_whitespace).any(|word| word.parse() == Ok(*number))
    };
    let without: Vec<u8> = numbers.into_iter().filter(|number| !has_cases(number)).collect();
    assert_eq!(without, BY_TESTS);
}

/// Claims that are decided by tests instead of runs.
const BY_TESTS: [u8; 9] = [6, 10, 11, 12, 13, 15, 17, 41, 42];

#[test]
fn claims_without_runs_are_decided_by_tests_or_list_the_runs_they_need() {
    for decision in decide(&Evidence::default()) {
        if BY_TESTS.contains(&decision.number) {
            assert!(decision.answer != NotDecided && !decision.tests.is_empty(), "{decision:?}");
        } else {
            assert!(decision.answer == NotDecided && decision.runs.is_empty(), "{decision:?}");
            let needs = ["scripts/articles", "calibrate"];
            assert!(needs.iter().any(|word| decision.sentence.contains(word)), "{decision:?}");
        }
    }
    assert_eq!(claim(7, &Evidence::default()).sentence, "needs `scripts/articles majority`");
}

#[test]
fn every_test_that_decides_a_claim_exists() {
    for test in claims().iter().flat_map(|claim| &claim.tests) {
        let (file, name) = test.split_once("::").unwrap();
        let source = std::fs::read_to_string(root().join(TESTS).join(format!("{file}.rs"))).unwrap();
        assert!(source.contains(&format!("]\nfn {name}()")), "{test}");
    }
}

#[test]
fn every_claim_is_listed_in_a_shipped_scenario() {
    let folders = ["scenarios/articles", "drivers/articles", "drivers/redis", "drivers/curator"];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(root().join(folder)).unwrap());
    let texts: Vec<String> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    for claim in claims() {
        for scenario in claim.scenarios() {
            let named = format!("\nname = \"{scenario}\"\n");
            let text =
                texts.iter().find(|text| text.contains(&named)).unwrap_or_else(|| panic!("{scenario}"));
            let head: String = text.split("\nname").next().unwrap().replace("\n#", "");
            let numbers = head.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok());
            assert!(numbers.collect::<Vec<u8>>().contains(&claim.number), "{scenario}: {}", claim.number);
        }
    }
}

#[test]
fn ratio_of_repeated_trials_has_a_confidence_interval() {
    let figures = claim(1, &waits(10_000, 10_000)).figures;
    let figure = figures.into_iter().find(|figure| figure.what.contains("no queue / queue"));
    assert!(figure.unwrap().bounds.unwrap().coverage.unwrap() > 0.95);
}

#[test]
fn claim_is_decided_by_the_newest_run_of_its_scenario() {
    let mut evidence = waits(1_000, 10_000);
    let mut newer = waits(10_000, 10_000).runs.swap_remove(0);
    newer.what.run.run.started_at += Duration::from_secs(60);
    newer.name = "newer".into();
    evidence.runs.insert(0, newer);
    let decision = claim(1, &evidence);
    assert_eq!((decision.answer, decision.runs), (Confirmed, vec!["newer".to_owned()]));
}

#[test]
fn article_pages_show_claims_answers_runs_and_the_host() {
    let note = "With a debug build.";
    let decisions = Decisions::by(&waits(10_000, 10_000), Some(note.into()));
    let text = text(&decisions);
    assert!(text.starts_with("43 claims: 6 confirmed, 2 refuted, 2 holds when, 33 not decided.\n"), "{text}");
    for told in [" 1  confirmed    With one ephemeral node and many clients", "from articles-growth-run"] {
        assert!(text.contains(told), "{text}");
    }
    let page = evidence_page(&decisions);
    assert!(page.contains("\nMeasured with 2 processors") && page.contains(note), "{page}");
    assert!(page.contains("is the holder notified?\n"), "{page}");
    let row = "| [1](reference/articles.md#claim-1) | A1 | With one ephemeral node";
    assert!(overview(&decisions).contains(row), "{}", overview(&decisions));
}

#[test]
fn claims_without_runs_keep_their_stored_decision() {
    let whole = Decisions::by(&waits(10_000, 10_000), Some("On a quiet host.".into()));
    let of_claim_1 = |decisions: &Decisions| decisions.claims[0].clone();
    // When the evidence is a calibration without data on claim 1
    let calibrations = vec![Named { name: "calibration".into(), what: calibration() }];
    let evidence = Evidence { calibrations, ..Evidence::default() };
    let calibrated = Decisions::by(&evidence, None).or_kept(whole.clone());
    // Then the decision is unchanged
    assert_eq!(of_claim_1(&calibrated), of_claim_1(&whole));
    assert_eq!((&calibrated.note, &calibrated.measured_on), (&whole.note, &whole.measured_on));
    // And a run that decides the claim replaces the stored decision
    let anew = Decisions::by(&waits(1_000, 10_000), None);
    assert_ne!(of_claim_1(&anew), of_claim_1(&whole));
    assert_eq!(of_claim_1(&anew.clone().or_kept(whole)), of_claim_1(&anew));
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    article: String,
    about: String,
    title: Option<String>,
    author: Option<String>,
    date: Option<String>,
    link: Option<String>,
    figures: String,
}

/// Articles listed in `claims.toml`.
fn sources() -> Vec<Source> {
    #[derive(Deserialize)]
    struct Book {
        article: Vec<Source>,
    }
    let text = include_str!("../../crates/analysis/src/articles/claims.toml");
    toml::from_str::<Book>(text).unwrap().article
}

/// Renders `docs/articles.md`: one row per claim, linked to the evidence that `evidence_page` renders.
fn overview(decisions: &Decisions) -> String {
    let counts = decisions.counts().map(|(answer, count)| format!("{count} {}", answer.name()));
    let mut text = String::from(
        "# The articles' claims\n\n\
         Which published claims about ZooKeeper locks hold? Generated from `results/articles/decisions.json`; do not edit. \
         Each number links to the [evidence](reference/articles.md). `scripts/articles` repeats all \
         measurements.\n\n",
    );
    text += &format!("**{} claims: {}.**\n\n", decisions.claims.len(), counts.join(", "));
    text += "| # | article | claim | verdict | reason |\n|---:|---|---|---|---|\n";
    for claim in &decisions.claims {
        text += &format!(
            "| [{0}](reference/articles.md#claim-{0}) | {1} | {2} | **{3}** | {4} |\n",
            claim.number,
            claim.articles.iter().map(|article| format!("{article:?}")).collect::<Vec<_>>().join(", "),
            claim.claim,
            claim.answer.name(),
            claim.sentence
        );
    }
    text += "\n## The comparison as printed\n\n\
             [drivers/articles](../drivers/README.md#included-drivers) rebuilds the articles' Java classes step by step. This command \
             repeats A3's comparison with these classes and this suite's locks in about six minutes; claims 24 and 25 show the results:\n\n\
             ```sh\nzklockbench run drivers/articles/printed.toml --driver articles=drivers/articles/run --counting never\n```\n\n\
             Scenarios, options and gates also accept the article's names: `parent-node-watch` for `parent-watch`, and `child-watch`, \
             `child-node-watch`, `node-watch` and `previous-node-watch` for `predecessor-watch`. Results keep our names.\n";
    text += "\n## Articles\n\n";
    text.extend(sources().into_iter().map(article));
    text
}

fn article(source: Source) -> String {
    let Source { article, about, title, author, date, link, figures } = source;
    let title = title.map_or_else(String::new, |title| format!("*{title}*, "));
    let by = author.map_or_else(|| "author unknown".to_owned(), |author| format!("by {author}"));
    let rest: String = [date, link].into_iter().flatten().map(|known| format!(", {known}")).collect();
    format!("- **{article}**: {title}{by}{rest}: {about}. Published figures: {figures}.\n")
}

#[test]
fn articles_page_is_up_to_date() {
    let json = std::fs::read_to_string(root().join("results/articles/decisions.json")).unwrap();
    let decisions: Decisions = serde_json::from_str(&json).unwrap();
    crate::generated_docs::assert_fresh("docs/articles.md", &overview(&decisions));
    crate::generated_docs::assert_fresh("docs/reference/articles.md", &evidence_page(&decisions));
}
