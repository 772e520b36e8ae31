//! No matter how a run ends, nothing is left behind, and finished measurements are kept.

use crate::support::depth;
use crate::support::ensemble;
use std::time::{Duration, Instant};

use crate::support::program::{
    Answers, Bench, SmallDisk, Watched, eventually, json, left_on, signal, stderr, stdout, went_through,
};
use crate::verbose::step;
use rustix::process::Signal;

const LONG: &str = "name = \"long\"\nstrategies = [\"predecessor-watch\", \"parent-watch\"]\ncontenders = [4]\n\
                    hold = \"50ms\"\nduration = \"60s\"\nsession_timeout = \"4s\"\nensemble = { servers = 1 }\n";

const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [3]\nhold = \"50ms\"\n\
                     duration = \"500ms\"\nensemble = { servers = 1 }\n";

#[test]
fn full_data_directory_is_reported_as_the_cause() {
    // The disk is full either at the start or during the warm-up.
    for size in ["8k", "300k"] {
        let bench = Bench::with(&LONG.replace("50ms", "0s"));
        let Some(disk) = SmallDisk::mount(bench.path("small"), size) else { return };
        let mut command = bench.typed("run scenario.toml --data-dir small --no-floor");
        let output = command.env_remove("ZKLOCKBENCH_COLD").output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        let said = stderr(&output);
        let place = disk.0.canonicalize().unwrap();
        assert!(said.contains("error: "), "{said}");
        let error = said.rsplit("error: ").next().unwrap();
        assert!(error.contains("no space is left for the servers' data in"), "{size}: {said}");
        assert!(error.contains(place.to_str().unwrap()) || error.contains("small"), "{size}: {said}");
    }
}

/// Starts a run with its own servers.
fn started(bench: &Bench, scenario: &str) -> Watched {
    bench.scenario(scenario);
    bench.listen(bench.typed("run scenario.toml --data-dir data -v"))
}

/// Starts a run with its own servers and waits until the run is measuring.
fn measuring(bench: &Bench, scenario: &str) -> Watched {
    let child = started(bench, scenario);
    measures(&child);
    child
}

/// Waits until a run with `-v` has measured for a second.
fn measures(child: &Watched) {
    eventually("the run measures", Duration::from_secs(90), || child.has_said("trial 0: measure"));
    std::thread::sleep(Duration::from_secs(1));
}

fn no_server_is_left(bench: &Bench) {
    eventually("no server is left", Duration::from_secs(5), || bench.servers().is_empty());
}

fn is_partial(bench: &Bench) {
    let stored = bench.stored();
    let trial = &stored.trials[0];
    assert!(trial.cut_short.is_some());
    assert!(trial.measured.acquired() > 0, "the measurements were lost");
    let summary = std::fs::read_to_string(bench.results()[0].join("summary.csv")).unwrap();
    assert!(summary.contains("partial"), "{summary}");
}

#[test]
fn completed_run_leaves_complete_results_and_no_server() {
    let bench = Bench::with(SHORT);
    // The warm-up takes most of the time, so a short test uses only one server.
    let servers = depth::of("1", "3");
    let run = format!("run scenario.toml --data-dir data --servers {servers} --repetitions 1");
    let mut command = bench.typed(&run);
    command.env_remove("ZKLOCKBENCH_COLD").env_remove("ZKLOCKBENCH_NO_CHARTS");
    let output = command.output().unwrap();
    went_through(&output);
    assert!(stderr(&output).contains("warming up the servers"), "{}", stderr(&output));
    // Steps are logged only on request
    assert_eq!(stderr(&output).lines().find_map(step), None, "{}", stderr(&output));
    assert!(!stdout(&output).contains("not warmed up"), "{}", stdout(&output));
    assert!(bench.servers().is_empty());
    assert_eq!(std::fs::read_dir(bench.path("data")).unwrap().count(), 0, "data was left behind");
    let dir = &bench.results()[0];
    for file in [
        "run.json",
        "summary.csv",
        "timeline.csv",
        "report.html",
        "charts/throughput.svg",
        "charts/throughput.png",
        "trials/000.json",
        "trials/000.hlog",
        &format!("server-logs/server-{servers}.log"),
    ] {
        assert!(dir.join(file).is_file(), "{file}");
    }
    assert!(stdout(&output).contains(dir.file_name().unwrap().to_str().unwrap()), "{}", stdout(&output));
}

fn keeps_partial_results_and_exits_with_130(sent: Signal) {
    let bench = Bench::new();
    let child = measuring(&bench, LONG);
    signal(child.pid(), sent);
    let (code, said) = child.end();
    assert_eq!(code, Some(130), "{said}");
    no_server_is_left(&bench);
    is_partial(&bench);
}

#[test]
fn run_stopped_by_ctrl_c_keeps_partial_results_and_exits_with_130() {
    keeps_partial_results_and_exits_with_130(Signal::INT);
}

#[test]
fn run_stopped_by_sigterm_keeps_partial_results_and_exits_with_130() {
    keeps_partial_results_and_exits_with_130(Signal::TERM);
}

#[test]
fn second_ctrl_c_stops_the_run_immediately() {
    let bench = Bench::new();
    let child = measuring(&bench, LONG);
    signal(child.pid(), Signal::INT);
    eventually("the run is stopping", Duration::from_secs(10), || {
        child.has_said("Press Ctrl-C again to abort")
    });
    let begin = Instant::now();
    signal(child.pid(), Signal::INT);
    assert_eq!(child.end().0, Some(130));
    assert!(begin.elapsed() < Duration::from_secs(20));
    no_server_is_left(&bench);
}

#[test]
fn table_of_finished_trials_is_printed_even_if_the_disk_is_full() {
    let bench = Bench::with(SHORT);
    let Some(disk) = SmallDisk::mount(bench.path("small"), "160k") else { return };
    // (The charts and the page fill the disk.)
    let output = bench.drawn(&["run", "scenario.toml", "--data-dir", "data", "--out", "small"]);
    let run = std::fs::read_dir(&disk.0).unwrap().flatten().next().expect("no run directory").path();
    let read = bench.output(&["check", run.to_str().unwrap()]);
    let said = stderr(&output);
    assert!(said.contains("No space left on device"), "{said}");
    assert!(stdout(&output).contains("results: "), "the table is missing: {said}");
    assert_ne!(read.status.code(), Some(2), "{}", stderr(&read));
}

#[test]
fn ctrl_c_while_the_servers_start_leaves_nothing_behind() {
    let bench = Bench::new();
    let child = started(&bench, LONG);
    eventually("a server was started", Duration::from_secs(30), || !bench.servers().is_empty());
    signal(child.pid(), Signal::INT);
    assert_eq!(child.end().0, Some(130));
    no_server_is_left(&bench);
    assert!(bench.results().is_empty());
}

#[test]
fn lost_ensemble_ends_the_run_with_an_error_and_partial_results() {
    let bench = Bench::new();
    // The run's own servers never return, so the run must not wait for sessions to end.
    let child = measuring(&bench, &LONG.replace("4s", "30s"));
    let begin = Instant::now();
    for pid in bench.servers() {
        signal(pid, Signal::KILL);
    }
    let (code, said) = child.end();
    assert!(begin.elapsed() < Duration::from_secs(28), "{:?}: {said}", begin.elapsed());
    assert!(said.contains("the ensemble was lost"), "{said}");
    assert_eq!(code, Some(3), "{said}");
    is_partial(&bench);
}

#[test]
fn interrupted_run_leaves_no_nodes_on_an_existing_ensemble() {
    let connect = ensemble::place_on_shared();
    let bench = Bench::with(LONG);
    let child =
        bench.listen(bench.typed(&format!("run scenario.toml --connect {connect} --run-id interrupted -v")));
    measures(&child);
    assert_ne!(left_on(&connect), []);
    signal(child.pid(), Signal::INT);
    assert_eq!(child.end().0, Some(130));
    assert_eq!(left_on(&connect), []);
    is_partial(&bench);
}

#[test]
#[ignore = "long: repeats runs"]
fn run_adds_repetitions_until_it_is_precise_or_reaches_the_limit() {
    // Given a scenario with one repetition, which is too few to determine the precision
    let bench = Bench::with(
        "name = \"precise\"\nstrategies = [\"predecessor-watch\", \"baton\"]\ncontenders = 3\nhold = \"50ms\"\n\
         duration = \"1s\"\nrepetitions = 1\nprecision = \"20%\"\nrepetitions_at_most = 6\n[ensemble]\nservers = 1\n",
    );
    let output = bench.typed("run scenario.toml --data-dir data --json").output().unwrap();
    let (said, printed) = (stderr(&output), json(&output));
    // Then rounds of both strategies are added, up to the minimum for an interval
    let stored = bench.stored();
    let precision = stored.run.precision.clone().unwrap();
    assert_eq!(precision.rounds, 6, "{precision:?}\n{said}");
    assert_eq!(stored.trials.len(), 2 * precision.rounds as usize);
    assert_eq!(stored.run.planned_trials, stored.trials.len());
    assert!(said.contains("running another repetition of each"), "{said}");
    // And the precision is reported as reached only if the interval is narrow enough
    let half_width = precision.widest.and_then(|widest| widest.half_width);
    assert_eq!(precision.reached, half_width.is_some_and(|half| half <= 0.2), "{half_width:?}");
    // And the summary has one cell for each strategy, in the directory and in the output
    let text = std::fs::read_to_string(bench.results()[0].join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(summary["cells"].as_array().unwrap().len(), 2);
    assert_eq!(printed["summary"], summary);
    assert_eq!(Answers::of(&bench).complaints(&printed), Vec::<String>::new());
    assert!(stored.run.files.contains_key("summary.json"));
}
