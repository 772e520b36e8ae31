//! The sweep file: round trips, older versions, damage, and output.

use std::fs;

use zklockbench_analysis::sweep::{
    Ask, At, Edge, Ending, FILE, Over, RunRecord, Sample, State, SweepFile, find, read,
};
use zklockbench_record::Reading;
use zklockbench_report::{Style, chart, html, page};

use crate::support::{json_schema::Schema, records};
use crate::sweep::sample;

fn reading(value: f64) -> Option<Reading> {
    Some(Reading { value, at_least: false, samples: Some(3_000) })
}

pub fn file() -> SweepFile {
    let over: Over = "contenders=1..1000".parse().unwrap();
    let grid = over.grid();
    let strategies = ["baton", "parent-watch"].map(str::to_owned).to_vec();
    let objective = "wait.p99 < 100ms";
    let (mut samples, mut runs) = (Vec::new(), Vec::new());
    for (at, x) in grid.iter().enumerate() {
        for repetition in 0..5_u32 {
            let number = at as u32 * 5 + repetition + 1;
            let at = At { x: *x, beside: None };
            let noise = 1.0 + 0.02 * (f64::from(number) * 2.4).sin();
            for (strategy, cost) in strategies.iter().zip([0.0, 0.02]) {
                let throughput = 300.0 * noise * (x / (1.0 + x)) / (1.0 + cost * x);
                let wait = 1e6 * x / throughput;
                let is_lost = cost > 0.0 && *x > 300.0;
                samples.push(Sample {
                    run: number,
                    strategy: strategy.clone(),
                    state: if is_lost { State::Failed } else { State::Sound },
                    why: is_lost.then(|| "900 sessions expired".to_owned()),
                    throughput: Some(throughput),
                    wait_p50: reading(wait / 2.0),
                    wait_p99: reading(wait),
                    granted_us: 10_000_000,
                    ..sample(*x, reading(wait))
                });
            }
            runs.push(RunRecord {
                number,
                directory: format!("{number:03}"),
                at,
                strategies: strategies.clone(),
                seed: u64::from(number),
                took_us: 4_000_000,
                exit_code: Some(0),
                ensemble: 0,
            });
        }
    }
    let ask = Ask {
        over: over.clone(),
        grid: grid.clone(),
        beside: vec![None],
        strategies: strategies.clone(),
        objective: Some(objective.parse().unwrap()),
        points_at_most: 25,
        precise: 0.1,
    };
    SweepFile {
        schema_version: FILE.version,
        tool_version: "0.1.0".into(),
        tool_commit: None,
        scenario: "crowd".into(),
        scenario_text: "name = \"crowd\"\n".into(),
        load: "closed".into(),
        over: vec![over],
        grid,
        strategies,
        objective: Some(objective.parse().unwrap()),
        seed: 1,
        budget_us: 900_000_000,
        spent_us: 84_000_000,
        points_at_most: 25,
        threads: None,
        host: records::run(1).host,
        ensembles: vec![records::run(1).ensemble],
        started_at: records::began(),
        written_at: records::began(),
        ending: Ending::Complete,
        why: None,
        findings: find(&ask, &samples),
        runs,
        samples,
    }
}

#[test]
fn sweep_files_round_trip_and_match_the_schema() {
    let place = tempfile::tempdir().unwrap();
    let file = file();
    file.write(place.path()).unwrap();
    assert_eq!(read(place.path()).unwrap(), file);
    let text = fs::read_to_string(place.path().join(FILE.name)).unwrap();
    let schema = Schema::new(schemars::schema_for!(SweepFile).as_value());
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema.is_valid(&value), "{:?}", schema.complaints(&value));
    // Every point has a row in the CSV file.
    let csv = fs::read_to_string(place.path().join("sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * file.grid.len(), "{csv}");
    assert!(csv.starts_with("strategy,contenders,repetitions,sound,throughput_per_s,"), "{csv}");
    // No temporary file is left.
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn reader_ignores_knees_and_scaling_laws_in_older_sweep_files() {
    let place = tempfile::tempdir().unwrap();
    let file = file();
    let mut value = serde_json::to_value(&file).unwrap();
    value["samples"][0]["uncontended_p50"] = 900.0.into();
    value["findings"][0]["knee"] = serde_json::json!({ "not_found": { "up_to": 1000.0, "why": "" } });
    value["findings"][0]["usl"] = serde_json::json!({ "silent": "too_few" });
    fs::write(place.path().join(FILE.name), value.to_string()).unwrap();
    assert_eq!(read(place.path()).unwrap(), file);
}

#[test]
fn error_for_a_damaged_sweep_file_contains_its_name() {
    let place = tempfile::tempdir().unwrap();
    let told = |text: &[u8]| {
        fs::write(place.path().join(FILE.name), text).unwrap();
        let error = read(place.path()).unwrap_err();
        assert_eq!(error.exit() as u8, 2, "{error}");
        error.to_string()
    };
    let whole = serde_json::to_string(&file()).unwrap();
    for cut in [0, 1, whole.len() / 3, whole.len() - 2] {
        let said = told(&whole.as_bytes()[..cut]);
        assert!(said.contains("sweep.json: "), "{said}");
        assert!(said.contains("the file is incomplete or damaged; run the sweep again"), "{said}");
    }
    let changed = |from: &str, to: &str| {
        assert!(whole.contains(from), "{from}");
        whole.replacen(from, to, 1)
    };
    let wrong = [
        changed("\"schema_version\":1", "\"schema_version\":7"),
        changed("\"run\":1,\"strategy\":\"baton\"", "\"run\":99,\"strategy\":\"baton\""),
        changed("\"run\":1,\"strategy\":\"baton\"", "\"run\":1,\"strategy\":\"\\u001b[31m\""),
        changed("\"from\":1.0,\"to\":1000.0", "\"from\":1000.0,\"to\":1.0"),
        changed("\"from\":1.0", "\"from\":-3.0"),
        changed("\"grid\":[1.0", "\"grid\":[-1.0"),
        changed("\"complete\"", "\"perhaps\""),
        "[]".into(),
        "null".into(),
    ];
    let said =
        wrong.map(|text| told(text.as_bytes()).replace(place.path().to_str().unwrap(), "SWEEP") + "\n");
    assert!(said.iter().all(|said| !said.contains('\u{1b}')), "{said:?}");
    insta::assert_snapshot!("errors", said.concat());
    fs::remove_file(place.path().join(FILE.name)).unwrap();
    let said = read(place.path()).unwrap_err().to_string();
    assert!(said.contains("is not the directory of a sweep: it has no sweep.json"), "{said}");
}

#[test]
fn sweep_is_printed_and_its_page_has_both_charts() {
    insta::assert_snapshot!("printed", zklockbench_report::sweep(&file(), &[], Style::EVERYTHING));
    let page = html::page(&[page::of_sweep(&file())], None);
    assert_eq!(page.matches("role=\"img\"").count(), 2);
    for told in ["wait.p99 &lt; 100ms", "Wait p99 by", "zklockbench sweep SCENARIO --over"] {
        assert!(page.contains(told), "{told}");
    }
    assert!(!page.contains("NaN"));
    let place = tempfile::tempdir().unwrap();
    let files = chart::draw_sweep(&file(), place.path()).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["sweep-throughput.svg", "sweep-throughput.png", "sweep-wait.svg", "sweep-wait.png"]);
    let wait = fs::read_to_string(&files[2]).unwrap();
    assert!(wait.contains("wait.p99 &lt; 100ms"), "the objective is missing from the chart");
}

#[test]
fn headline_gives_the_lowest_value_if_higher_values_meet_the_objective() {
    let mut file = file();
    for finding in &mut file.findings {
        finding.objective = Some(Edge::Between { kept: 32.0, missed: 10.0, undecided: Vec::new() });
    }
    let headline = zklockbench_report::sweep_headline(&file);
    assert!(headline.ends_with(": baton from 32 on, parent-watch from 32 on."), "{headline}");
}
