//! `calibrate`, and the floor measured by every run.

use std::time::Duration;

use rustix::process::Signal;
use zklockbench_core::measure::{Latency, Measure};
use zklockbench_results::read_calibration;

use crate::support::ensemble;
use crate::support::json_schema::Schema;
use crate::support::program::{Bench, eventually, has, left_on, signal, stdout, went_through};

#[test]
#[ignore = "long: a calibration of three servers"]
fn quick_calibration_output_matches_its_schema() {
    let bench = Bench::new();
    // When the command starts, measures and stops servers
    let printed = bench.json(0, "calibrate --quick --json --servers 3 --data-dir data");
    // Then the output matches the schema and the file in the directory
    let wrong = Schema::new(&bench.json(0, "schema calibration")).complaints(&printed["calibration"]);
    assert!(wrong.is_empty(), "{wrong:?}");
    let dir = bench.path(printed["results"].as_str().unwrap());
    let stored = read_calibration(&dir).unwrap();
    assert_eq!(serde_json::to_value(&stored).unwrap(), printed["calibration"]);
    let calibration = stored.calibration;
    assert!(calibration.ensemble.starts_cold, "tests run without a warm-up");
    assert!(calibration.floor.handoff.is_some() && calibration.synced_writes_per_s.is_some());
    assert_eq!((calibration.servers.len(), calibration.pairs.len()), (3, 9));
    assert!(dir.join("server-logs/server-3.log").is_file());
    assert!(bench.servers().is_empty());
}

#[test]
fn calibration_leaves_no_nodes_on_an_existing_ensemble() {
    let connect = ensemble::place_on(ensemble::shared_of_three());
    let bench = Bench::new();
    let said = bench.shows(&format!("calibrate --budget 2s --connect {connect} --all"));
    has(&said, &["handoff, sessions on two servers", "uncontended acquire", "getChildren (1,000 names)"]);
    has(&said, &["results: "]);
    assert_eq!(left_on(&connect), []);
}

#[test]
fn interrupted_calibration_leaves_no_nodes_and_no_results() {
    let connect = ensemble::place_on_shared();
    let bench = Bench::new();
    let child = bench.watch(&["calibrate", "--connect", &connect]);
    eventually("the calibration measures", Duration::from_secs(30), || child.has_said("measuring for 40 s"));
    eventually("the calibration's node exists", Duration::from_secs(20), || !left_on(&connect).is_empty());
    std::thread::sleep(Duration::from_secs(1));
    signal(child.pid(), Signal::INT);
    let (code, said) = child.end();
    assert_eq!(code, Some(130), "{said}");
    assert_eq!(left_on(&connect), []);
    assert!(bench.results().is_empty());
    assert_eq!(std::fs::read_dir(bench.path("results")).unwrap().count(), 0);
}

const CONTENDED: &str = "name = \"floored\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [1, 3]\n\
                         hold = \"5ms\"\nduration = \"1s\"\nrepetitions = 1\n";

#[test]
fn run_table_shows_handoffs_as_multiples_of_the_measured_floor() {
    // Given a run whose servers are warmed up
    let (connect, bench) = (ensemble::place_on_shared(), Bench::new());
    bench.scenario(CONTENDED);
    let run = ["run", "scenario.toml", "--connect", &connect, "--all", "--explain"];
    let output = bench.command(&run).env_remove("ZKLOCKBENCH_COLD").output().unwrap();
    went_through(&output);
    let (said, stored, dir) = (stdout(&output), bench.stored(), bench.results().remove(0));
    // On a slow host, too few handoffs may fit into the time limit. The run must then report this.
    if let Some(why) = &stored.run.floor.as_ref().unwrap().missing {
        assert!(why.contains("handoffs fitted") && said.contains("handoffs fitted"), "{why}: {said}");
        return;
    }
    // Then the run has a floor, and the table and the summary show multiples of the floor's medians
    let floor = stored.run.floor.clone().unwrap();
    let summary = dir.join("summary.csv");
    let mut rows = csv::Reader::from_path(summary).unwrap();
    let header = rows.headers().unwrap().clone();
    // (The summary also contains trials that were rerun because a slow host spoiled them.)
    let rows: Vec<_> = rows.records().map(Result::unwrap).collect();
    for trial in &stored.trials {
        let row = rows.iter().find(|row| row[0] == trial.spec.index.to_string()).unwrap();
        let cell = |name: &str| row[header.iter().position(|column| column == name).unwrap()].to_owned();
        let (measure, column, base) = match trial.spec.contenders {
            1 => (Measure::Uncontended, "uncontended_p50_over_floor", floor.uncontended.unwrap()),
            _ => (Measure::Handoff, "handoff_p50_over_floor", floor.handoff.unwrap()),
        };
        let p50 = Latency::of(&trial.histograms[&measure]).unwrap().p50_us;
        let multiple = p50 as f64 / base.p50_us as f64;
        assert!((cell(column).parse::<f64>().unwrap() - multiple).abs() < 1e-9, "{column}: {}", cell(column));
        let shown = format!("{}×", zklockbench_core::units::number(multiple));
        assert!(said.contains(&shown), "{shown} in {said}");
        println!("{} contenders: {p50} µs, {shown}", trial.spec.contenders);
    }
    assert!(said.contains("handoff/floor: its median as a multiple of"), "{said}");
    assert_eq!(left_on(&connect), []);
}

#[test]
#[ignore = "long: two runs with warm-up"]
fn cold_run_reports_that_it_measured_no_floor() {
    let (connect, bench) = (ensemble::place_on_shared(), Bench::new());
    bench.scenario(CONTENDED);
    let said = stdout(&bench.completes(&format!("run scenario.toml --cold --connect {connect} --all")));
    assert!(said.contains("! floor not measured: the servers were not warmed up (--cold)"), "{said}");
    assert!(!said.contains("handoff/floor"), "{said}");
    assert_eq!(bench.stored().run.floor.clone().unwrap().handoff, None);
}
