//! `ab`: both sides run in blocks, each run in its own process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::docker::{available, of_project, project_in};
use crate::support::foreign;
use crate::support::program::{Answers, Bench, eventually, executable, has, json, signal, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;
use zklockbench_analysis::ab::{AbFile, Ending, Turn};
use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_record::figures::THROUGHPUT;

const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [3]\nhold = \"2ms\"\n\
                     duration = \"600ms\"\nwarm_up = \"0s\"\nwarm_up_at_most = \"0s\"\n[ensemble]\nservers = 1\n";

pub(crate) fn read(directory: &Path) -> AbFile {
    serde_json::from_slice(&std::fs::read(directory.join("ab.json")).unwrap()).unwrap()
}

pub(crate) fn only(directories: Vec<PathBuf>) -> PathBuf {
    assert_eq!(directories.len(), 1, "{directories:?}");
    directories.into_iter().next().unwrap()
}

#[test]
fn ab_with_two_blocks_stores_its_runs_but_stays_inconclusive() {
    // Given a side B that holds the lock ten times as long as side A, and a gate that no run of `ab` can judge
    let gate = "gate = [\"throughput not regressed by 5% against baseline\"]\n[ensemble]";
    let bench = Bench::with(&SHORT.replace("[ensemble]", gate));
    let words = ["ab", "scenario.toml", "--a", "hold=2ms", "--b", "hold=20ms", "--blocks", "2"];
    let output = bench.drawn(&[&words[..], &["--data-dir", "data", "--markdown", "ab.md"]].concat());
    // Then two blocks are too few for a verdict, as reported before and after the runs
    let (said, shown) = (stderr(&output), stdout(&output));
    assert_eq!(output.status.code(), Some(4), "{said}{shown}");
    has(&said, &["2 blocks cannot decide a family of 3 comparisons: at least 7 are needed"]);
    has(&said, &["2 blocks of A, B and A again: 6 runs, about ", "does not judge the scenario's gates"]);
    assert!(shown.trim_start().starts_with("Inconclusive: B may or may not be worse than A"), "{shown}");
    // And every run has a directory with the block's seed and the side's scenario
    let directory = only(bench.results());
    let file = read(&directory);
    // (If this host spoils a block, another block replaces it.)
    assert_eq!((file.ending, file.comparisons.len()), (Ending::Complete, 3));
    assert!((2..=3).contains(&file.blocks.len()), "{}", file.blocks.len());
    let throughput = &file.comparisons[0];
    assert_eq!(throughput.figure, "throughput");
    for (block, values) in file.blocks.iter().zip(&throughput.values) {
        assert_eq!(block.runs.len(), 3);
        for run in &block.runs {
            let stored = zklockbench_results::read(&directory.join(&run.directory)).unwrap();
            assert_eq!(stored.run.seed, block.seed, "{run:?}");
            let hold = if run.turn == Turn::B { "20ms" } else { "2ms" };
            assert!(stored.run.scenario_text.contains(&format!("hold = \"{hold}\"")), "{run:?}");
            assert!(!directory.join(&run.directory).join("charts").exists(), "charts were not requested");
            // And each value matches its trial, or the file states why the value is missing
            let trial = &stored.trials[0];
            let is_sound = trial.cut_short.is_none() && trial.health.invalid.is_none();
            let measured = THROUGHPUT.of(trial).filter(|_| is_sound);
            let value = match run.turn {
                Turn::A => values.a,
                Turn::B => values.b,
                Turn::Again => values.again,
            };
            assert_eq!(value, measured, "{run:?}");
            let told = throughput.silent.iter().any(|of| (of.block, of.turn) == (block.number, run.turn));
            assert_eq!(told, measured.is_none(), "{throughput:?}");
        }
    }
    let is_open =
        matches!(throughput.verdict, ComparisonVerdict::Inconclusive | ComparisonVerdict::NotMeasured);
    assert!(is_open, "{throughput:?}");
    assert!(throughput.ratio.is_none_or(|ratio| ratio.value < 1.0), "{throughput:?}");
    // And a chart exists if there is a ratio, and a page can be regenerated
    let page = bench.text("ab.md");
    assert!(page.starts_with("### Inconclusive: ") && page.contains("| predecessor-watch |"), "{page}");
    let has_ratio = file.comparisons.iter().any(|one| one.ratio.is_some());
    assert_eq!(directory.join("charts/ratios.png").is_file(), has_ratio);
    let page = std::fs::read(directory.join("report.html")).unwrap();
    let again = bench.path("again.html");
    bench.shows(&format!("report {} --output {}", directory.display(), again.display()));
    assert!(std::fs::read(again).unwrap() == page);
    // And no server is left running
    assert!(bench.servers().is_empty());
    assert_eq!(std::fs::read_dir(bench.path("data")).unwrap().count(), 0);
}

#[test]
#[ignore = "long: six runs"]
fn interrupted_ab_keeps_finished_pairs_and_can_be_resumed() {
    let bench = Bench::with(SHORT);
    let typed = "ab scenario.toml --b hold=4ms --data-dir data --json";
    let child = bench.listen(bench.typed(&format!("{typed} --blocks 100")));
    eventually("a block has ended", Duration::from_secs(60), || child.has_said("[1/10"));
    eventually("the block is written", Duration::from_secs(10), || {
        only(bench.results()).join("ab.json").is_file()
    });
    assert_eq!(read(&only(bench.results())).ending, Ending::GoingOn);
    signal(child.pid(), Signal::INT);
    let (code, said) = child.end();
    assert_eq!(code, Some(130), "{said}");
    let file = read(&only(bench.results()));
    assert_eq!(file.ending, Ending::Interrupted);
    // A block in which this host spoiled a run is not a pair.
    let throughput = &file.comparisons[0];
    let of_the_pair = throughput.silent.iter().filter(|of| of.turn != Turn::Again);
    let spoiled: BTreeSet<u32> = of_the_pair.map(|of| of.block).collect();
    assert!(!file.blocks.is_empty());
    assert_eq!(throughput.pairs + spoiled.len(), file.blocks.len(), "{throughput:?}");
    eventually("no server is left", Duration::from_secs(5), || bench.servers().is_empty());
    // When the comparison is resumed for one more block
    let (directory, done) = (only(bench.results()), file.blocks.len());
    let resume = format!("{typed} --resume {} --blocks {}", directory.display(), done + 1);
    let output = bench.typed(&resume).output().unwrap();
    // Then the earlier blocks are unchanged, and the later blocks ran on a new ensemble
    let resumed = read(&only(bench.results()));
    assert_eq!(resumed.ending, Ending::Complete, "{}", stderr(&output));
    assert_eq!((&resumed.blocks[..done], &resumed.resumed_after[..]), (&file.blocks[..], &[done][..]));
    assert!(resumed.blocks.len() > done);
    // And resuming with other options is rejected
    has(&bench.refuses(&format!("{resume} --a hold=9ms")), &["other options"]);
}

#[test]
fn killing_ab_ends_its_current_run_and_servers() {
    let bench = Bench::with(SHORT);
    let typed = "ab scenario.toml --set 'duration=\"20s\"' --blocks 2 --data-dir data";
    let child = bench.listen(bench.typed(typed));
    let run = || bench.results().first()?.join("runs").read_dir().ok()?.next();
    eventually("a run is in progress", Duration::from_secs(60), || run().is_some());
    signal(child.pid(), Signal::KILL);
    assert_eq!(child.end().0, None);
    eventually("nothing is left", Duration::from_secs(10), || bench.family().is_empty());
}

#[test]
fn ab_reports_the_error_of_a_binary_that_writes_no_results() {
    // Given a scenario on standard input, and a binary that prints its hold and fails with an error message
    let bench = Bench::with(SHORT);
    let script = "#!/bin/sh\nif [ \"$1\" = --version ]; then echo zklockbench 0.0.9; exit 0; fi\n\
                  grep hold \"$2\" >&2\necho 'error: the sky fell' >&2\nexit 3\n";
    let broken = bench.path("broken");
    executable(&broken, script);
    let sides = format!("--b hold=7ms --b-program '{}' --blocks 2", broken.display());
    let mut command = bench.typed(&format!("ab - {sides} --data-dir data --json"));
    let scenario = std::fs::File::open(bench.path("scenario.toml")).unwrap();
    let output = command.stdin(scenario).output().unwrap();
    let (printed, said) = (json(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(3), "{said}{printed}");
    has(&said, &["B of block 1 left no results (exit code 3)", "hold = \"7ms\"", "the sky fell"]);
    assert_eq!((&printed["exit_code"], &printed["ab"]["ending"]), (&Value::from(3), &Value::from("aborted")));
    assert_eq!(printed["ab"]["sides"]["b"]["program_version"], "zklockbench 0.0.9");
    assert_eq!(Answers::of(&bench).complaints(&printed), Vec::<String>::new());
    assert!(bench.servers().is_empty());
}

#[test]
#[ignore = "long"]
fn ab_compares_containers_with_a_local_release() {
    let Some(docker) = available() else { return };
    // Given a server in a container, and an unpacked release
    let bench = Bench::new();
    let (scenario, release) = (bench.scenario(SHORT), bench.release());
    let compose = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/compose.1.yaml");
    let words = ["ab", scenario.to_str().unwrap(), "--a-compose", compose, "--blocks", "2"];
    let sides = ["--b-zookeeper-home", release.to_str().unwrap(), "--data-dir", "data"];
    let mut command = bench.command(&[&words[..], &sides].concat());
    let output = command.env("ZOOKEEPER_IMAGE", &docker.zookeeper).output().unwrap();
    let said = stderr(&output);
    // Then each side ran on its own ensemble, restarted for each block, and the file describes both ensembles
    let directory = only(bench.results());
    let file = read(&directory);
    assert_eq!(file.ending, Ending::Complete, "{said}");
    let (a, b) = (&file.sides.a.ensemble, &file.sides.b.ensemble);
    assert_eq!((a.kind.as_str(), b.kind.as_str()), ("compose", "local"), "{said}");
    assert_ne!(a.connect, b.connect);
    assert!(file.sides.a.opened_anew && file.sides.b.opened_anew);
    for run in &file.blocks[0].runs {
        let stored = zklockbench_results::read(&directory.join(&run.directory)).unwrap();
        let side = if run.turn == Turn::B { b } else { a };
        let ports = |connect: &str| connect.split('/').next().map(str::to_owned);
        assert_eq!(ports(&stored.run.ensemble.connect), ports(&side.connect), "{run:?}");
    }
    // And nothing is left of either ensemble
    assert!(bench.servers().is_empty());
    assert_eq!(of_project(&project_in(&said)), [""; 0]);
}

/// Copies kazoo's driver with this text replaced.
fn kazoo_but(bench: &Bench, name: &str, what: &str, by: &str) -> String {
    let text = std::fs::read_to_string(foreign::KAZOO).unwrap();
    assert!(text.contains(what), "{what}");
    std::fs::write(bench.path(name), text.replace(what, by)).unwrap();
    format!("kazoo={} {name}", foreign::python().unwrap())
}

#[test]
fn ab_sides_run_their_own_versions_of_a_driver() {
    let Some(old) = foreign::kazoo() else { return };
    let bench = Bench::with(&SHORT.replace("predecessor-watch", "kazoo:Lock"));
    let new = kazoo_but(&bench, "new.py", "\"driver\": \"kazoo 1\"", "\"driver\": \"kazoo 2\"");
    let words = ["ab", "scenario.toml", "--a-driver", &old, "--b-driver", &new, "--blocks", "1"];
    let more = ["--counting", "never", "--data-dir", "data", "--markdown", "ab.md"];
    let output = bench.drawn(&[&words[..], &more].concat());
    let (said, shown) = (stderr(&output), stdout(&output));
    assert_eq!(output.status.code(), Some(4), "{said}{shown}");
    // The runs of each side used the side's own driver, and the report describes it.
    let directory = only(bench.results());
    let file = read(&directory);
    let version = |turn| if turn == Turn::B { "kazoo 2" } else { "kazoo 1" };
    for run in file.blocks.iter().flat_map(|block| &block.runs) {
        let stored = zklockbench_results::read(&directory.join(&run.directory)).unwrap();
        let found = stored.trials[0].driver.as_ref().map(|driver| driver.program.as_str());
        assert_eq!(found, Some(version(run.turn)), "{run:?}");
        assert!(stored.trials[0].measured.acquired() > 0, "{run:?}");
    }
    for (side, name, turn) in [(&file.sides.a, "A", Turn::A), (&file.sides.b, "B", Turn::B)] {
        let [driver] = &side.drivers[..] else { panic!("{:?}", side.drivers) };
        assert_eq!((driver.name.as_str(), driver.driver.as_str()), ("kazoo", version(turn)));
        let inside = &driver.inside["kazoo"];
        let told = format!("({}: kazoo {inside}, ", driver.driver);
        let page = bench.text("ab.md");
        let html = std::fs::read_to_string(directory.join("report.html")).unwrap();
        for text in [&shown, &page, &html] {
            let line = text.lines().find(|line| line.contains(&format!("{name}: kazoo="))).unwrap();
            assert!(line.contains(&told), "{line}");
        }
    }
    assert!(!said.contains("have the same description"), "{said}");
}

#[test]
#[ignore = "long: eight blocks with a driver"]
fn one_more_request_per_acquisition_is_a_regression() {
    let Some(old) = foreign::kazoo() else { return };
    // Given long holds that hide the time of a request
    let scenario = SHORT.replace("predecessor-watch", "kazoo:Lock").replace("\"2ms\"", "\"20ms\"");
    let bench = Bench::with(&scenario);
    let new =
        kazoo_but(&bench, "new.py", "got = lock.acquire(", "self.client.exists(\"/\"); got = lock.acquire(");
    let words = ["ab", "scenario.toml", "--data-dir", "data", "--a-driver", &old, "--b-driver", &new];
    let output = bench.drawn(&words);
    let shown = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{}{shown}", stderr(&output));
    assert!(shown.starts_with("Regressed: B is worse than A: requests_per_acquisition"), "{shown}");
}

#[test]
fn ab_rejects_features_that_only_one_sides_driver_supports() {
    let Some(kazoo) = foreign::kazoo() else { return };
    let bench = Bench::new();
    let with = |more: &[&str], strategies: &str| {
        bench.scenario(&SHORT.replace("[\"predecessor-watch\"]", strategies));
        let output = bench.output(&[&["ab", "scenario.toml"], more].concat());
        (output.status.code(), stderr(&output))
    };
    let (code, said) = with(&["--a-driver", &kazoo], "[\"kazoo:Lock\"]");
    assert!(code == Some(2) && said.contains("B: ") && said.contains("unknown driver `kazoo`"), "{said}");
    let other = kazoo_but(&bench, "other.py", "\"Lock\": {", "\"Mutex\": {");
    let (code, said) = with(&["--a-driver", &kazoo, "--b-driver", &other], "[\"kazoo:Lock\"]");
    assert!(code == Some(2) && said.contains("B: ") && said.contains("has no lock `Lock`"), "{said}");
    let (code, said) = with(&["--a-driver", &kazoo, "--b-driver", "kazoo=false"], "[\"kazoo:Lock\"]");
    assert!(code == Some(3) && said.contains("B: driver `kazoo` ended: exit status 1"), "{said}");
    let read_write = "[\"kazoo:ReadWrite\"]\nread_ratio = 0.5";
    let writes = kazoo_but(&bench, "writes.py", "[\"read\", \"write\"]", "[\"write\"]");
    let (code, said) = with(&["--a-driver", &kazoo, "--b-driver", &writes], read_write);
    assert!(code == Some(2) && said.contains("`kazoo:ReadWrite` of B has no read lock"), "{said}");
    let untimed = kazoo_but(&bench, "untimed.py", "\"timeout\": \"native\"", "\"timeout\": \"none\"");
    let timed = "[\"kazoo:Lock\"]\nacquire_timeout = \"1s\"";
    let (code, said) = with(&["--a-driver", &untimed, "--b-driver", &kazoo], timed);
    assert!(code == Some(2) && said.contains("A: `kazoo:Lock` does not support timeouts"), "{said}");
    // A difference in unused features is reported, and so are identical drivers. The comparison then continues, and
    // fails because the ensemble does not exist.
    let nowhere = ["--connect", "127.0.0.1:1", "--a-driver", &kazoo, "--b-driver"];
    let (code, said) = with(&[&nowhere[..], &[&untimed]].concat(), "[\"kazoo:Lock\"]");
    assert!(code == Some(3) && said.contains("`timeout` is native on A and none on B"), "{said}");
    assert!(said.contains("the drivers `kazoo` of A and B have the same description"), "{said}");
    let (code, said) = with(&[&nowhere[..], &[&kazoo]].concat(), "[\"kazoo:Lock\"]");
    assert!(code == Some(3) && said.contains("A and B have the same driver `kazoo`"), "{said}");
    assert!(bench.results().is_empty());
}
