//! A run that is cut short at any point, in any way, keeps its finished trials, and `run --resume` completes the
//! run with the same trials as an undisturbed run.
//!
//! The points are random. A failure prints the seed; set `ZKLOCKBENCH_SEED` to repeat the points. The short version
//! has one or two points of each kind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use zklockbench_record::{RunEnding, Trial};

use zklockbench::run::is_unfinished;
use zklockbench_scenario::{TrialPlan, TrialSpec, parse};

use crate::support::program::{
    Bench, SmallDisk, Watched, eventually, left_on, signal, stderr, stdout, went_through,
};
use crate::support::{depth, ensemble};

const SCENARIO: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\", \"parent-watch\"]\ncontenders = [3]\n\
                        hold = \"5ms\"\nduration = \"300ms\"\nwarm_up = \"0s\"\nwarm_up_at_most = \"0s\"\nrepetitions = 3\n\
                        session_timeout = \"4s\"\n[ensemble]\nservers = 1\n";
const NAME: &str = "cut";
/// Time limit that is long enough for a busy host.
const LONG: Duration = Duration::from_secs(120);

/// Identity of a trial: label, contenders, repetition, seed.
type Identity = (String, usize, u32, u64);

fn identity(spec: &TrialSpec) -> (usize, Identity) {
    (spec.index, (spec.strategy.label.clone(), spec.contenders, spec.repetition, spec.seed))
}

/// Returns the trials of an undisturbed run.
fn undisturbed() -> BTreeMap<usize, Identity> {
    let parsed = parse("short", SCENARIO, &zklockbench_load::catalog()).unwrap();
    TrialPlan::of(&parsed.scenario).trials.iter().map(identity).collect()
}

/// Runs an attempt at each point with its own random numbers, a few attempts at a time.
fn at_each_point(attempt: impl Fn(&mut ChaCha8Rng) + Sync) {
    const AT_ONCE: usize = 4;
    let given = std::env::var("ZKLOCKBENCH_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random::<u64>);
    println!("the points are drawn from ZKLOCKBENCH_SEED={seed}");
    let points = depth::of(1, 20);
    let draw = |point: usize| ChaCha8Rng::seed_from_u64(seed.wrapping_add(point as u64));
    std::thread::scope(|scope| {
        for first in 0..AT_ONCE.min(points) {
            let attempt = &attempt;
            scope.spawn(move || (first..points).step_by(AT_ONCE).for_each(|point| attempt(&mut draw(point))));
        }
    });
}

/// Returns the directory of a run that is in progress, was killed or has ended.
fn directory(parent: &Path) -> Option<PathBuf> {
    [format!(".{NAME}.partial"), NAME.to_owned()]
        .map(|name| parent.join(name))
        .into_iter()
        .find(|path| path.is_dir())
}

/// Returns the finished trials recorded by the run, each with the digest of its file.
fn recorded(parent: &Path) -> BTreeMap<String, String> {
    let Some(dir) = directory(parent) else { return BTreeMap::new() };
    let json = |name: &str| -> serde_json::Value {
        let text = fs::read_to_string(dir.join(name)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    };
    let run = json("run.json");
    let files = run["files"].as_object().into_iter().flatten();
    files
        .filter(|(name, _)| name.starts_with("trials/") && name.ends_with(".json"))
        .filter(|(name, _)| json(name).get("cut_short").is_some_and(serde_json::Value::is_null))
        .map(|(name, digest)| (name.clone(), digest.as_str().unwrap().to_owned()))
        .collect()
}

/// Waits until this many trials are recorded and this time has passed, or until the program has ended.
fn until(child: &Watched, parent: &Path, trials: usize, beyond: Duration) {
    let deadline = Instant::now() + LONG;
    let is_over = || !Path::new(&format!("/proc/{}/fd/0", child.pid())).exists();
    while recorded(parent).len() < trials && !is_over() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(beyond);
}

/// Checks that every recorded trial still exists, is unchanged and was judged; returns the trials that need no
/// rerun.
fn kept(bench: &Bench, parent: &Path, before: &BTreeMap<String, String>, said: &str) -> Vec<Trial> {
    let Some(dir) = directory(parent) else {
        assert!(before.is_empty(), "{before:?} are gone: {said}");
        return Vec::new();
    };
    if !dir.join("run.json").is_file() {
        assert!(before.is_empty(), "{said}");
        return Vec::new();
    }
    let now = recorded(parent);
    for (name, digest) in before {
        assert_eq!(now.get(name), Some(digest), "{name} has changed or is gone: {said}");
    }
    let stored = zklockbench_results::read(&dir).unwrap_or_else(|error| panic!("{error}\n{said}"));
    let checked = bench.output(&["check", dir.to_str().unwrap()]);
    assert!(matches!(checked.status.code(), Some(0 | 4)), "{}\n{said}", stderr(&checked));
    stored.trials.into_iter().filter(|trial| !is_unfinished(trial)).collect()
}

/// Resumes the run until it is complete, and checks that the result matches an undisturbed run.
fn completed(bench: &Bench, parent: &Path, there: &[Trial], more: &[&str]) {
    let Some(dir) = directory(parent) else { return };
    // Resume by the run's final name, even if the directory still has another name
    let name = parent.join(NAME);
    let words = [&["run", "--resume", name.to_str().unwrap()], more].concat();
    let output = bench.output(&words);
    if !dir.join("run.json").is_file() && there.is_empty() && output.status.code() == Some(2) {
        assert!(stderr(&output).contains("run the scenario again"), "{}", stderr(&output));
        return;
    }
    went_through(&output);
    let stored = zklockbench_results::read(&name).unwrap();
    assert_eq!(stored.run.outcome.ending, RunEnding::Complete);
    // Trials spoiled by a busy host were rerun under new numbers
    let all: BTreeMap<usize, &Trial> =
        stored.trials.iter().chain(&stored.replaced).map(|trial| (trial.spec.index, trial)).collect();
    let planned = all.values().filter(|trial| trial.spec.makes_up_for.is_none());
    assert_eq!(planned.map(|trial| identity(&trial.spec)).collect::<BTreeMap<_, _>>(), undisturbed());
    let mut counting: Vec<Identity> = stored.trials.iter().map(|trial| identity(&trial.spec).1).collect();
    let mut expected: Vec<Identity> = undisturbed().into_values().collect();
    counting.sort();
    expected.sort();
    assert_eq!(counting, expected);
    assert!(all.values().all(|trial| trial.cut_short.is_none()));
    for trial in there {
        let now = all[&trial.spec.index];
        assert_eq!(now.started_at, trial.started_at, "trial {} was rerun", trial.spec.index);
    }
    // Each trial belongs to one segment and has one row
    if !stored.run.segments.is_empty() {
        let mut of_segments: Vec<usize> =
            stored.run.segments.iter().flat_map(|one| one.trials.iter().copied()).collect();
        of_segments.sort_unstable();
        assert_eq!(of_segments, all.keys().copied().collect::<Vec<_>>());
    }
    let table = fs::read_to_string(name.join("summary.csv")).unwrap();
    let mut rows: Vec<usize> =
        table.lines().skip(1).map(|row| row.split(',').next().unwrap().parse().unwrap()).collect();
    rows.sort_unstable();
    assert_eq!(rows, all.keys().copied().collect::<Vec<_>>());
    let checked = bench.output(&["check", name.to_str().unwrap()]);
    assert_eq!(checked.status.code(), output.status.code(), "{}", stderr(&checked));
    // And resuming again does nothing
    let again = bench.output(&words);
    assert_eq!(again.status.code(), output.status.code(), "{}", stderr(&again));
    assert!(stderr(&again).contains("nothing to do"), "{}", stderr(&again));
    assert!(
        directory(parent) == Some(name),
        "{:?}",
        fs::read_dir(parent).unwrap().flatten().collect::<Vec<_>>()
    );
}

/// Cuts a run short with `cut_short` at random points, sometimes again after resuming it, and then completes the run.
fn cut(cut_short: impl Fn(u32, &mut ChaCha8Rng) + Sync) {
    let trials = undisturbed().len();
    at_each_point(|random| {
        let connect = ensemble::place_on_shared();
        let bench = Bench::new();
        let (scenario, parent) = (bench.scenario(SCENARIO), bench.path("results"));
        let more = ["--connect", connect.as_str(), "--no-floor"];
        let first = ["run", scenario.to_str().unwrap(), "--run-id", NAME];
        let name = parent.join(NAME);
        let again = ["run", "--resume", name.to_str().unwrap()];
        let mut there = Vec::new();
        for time in 0..random.random_range(1..=2) {
            if time > 0 && directory(&parent).is_none() {
                break;
            }
            let start: &[&str] = if time == 0 { &first } else { &again };
            let child = bench.watch(&[start, &more].concat());
            let (after, beyond) = (random.random_range(there.len()..=trials), random.random_range(0..400));
            until(&child, &parent, after, Duration::from_millis(beyond));
            let before = recorded(&parent);
            // The run may already have ended.
            cut_short(child.pid(), random);
            let (_, said) = child.end();
            there = kept(&bench, &parent, &before, &said);
        }
        let mut of_connect = vec!["--no-floor"];
        // Resuming works with and without --connect, because the record contains the address
        if random.random() {
            of_connect.extend(["--connect", &connect]);
        }
        completed(&bench, &parent, &there, &of_connect);
    });
}

fn send(pid: u32, what: Signal) {
    if Path::new(&format!("/proc/{pid}")).exists() {
        signal(pid, what);
    }
}

#[test]
fn finished_trials_survive_sigkill() {
    cut(|pid, _| send(pid, Signal::KILL));
}

/// Signals from a supervisor or a closed terminal; sometimes, a second signal follows immediately.
#[test]
#[ignore = "long: SIGKILL is always tested"]
fn finished_trials_survive_signals() {
    cut(|pid, random| {
        send(pid, if random.random() { Signal::TERM } else { Signal::HUP });
        if random.random() {
            std::thread::sleep(Duration::from_millis(random.random_range(0..4)));
            send(pid, Signal::HUP);
        }
    });
}

#[test]
fn finished_trials_survive_a_full_disk() {
    at_each_point(|random| {
        let connect = ensemble::place_on_shared();
        let bench = Bench::new();
        let (scenario, parent) = (bench.scenario(SCENARIO), bench.path("small"));
        let size = format!("{}k", random.random_range(60..500));
        let Some(disk) = SmallDisk::mount(parent.clone(), &size) else { return };
        let more = ["--connect", connect.as_str(), "--no-floor"];
        let first = ["run", scenario.to_str().unwrap(), "--run-id", NAME, "--out", "small"];
        let child = bench.watch(&[&first[..], &more].concat());
        let (mut before, is_over) = (BTreeMap::new(), format!("/proc/{}/fd/0", child.pid()));
        while Path::new(&is_over).exists() {
            before.extend(recorded(&parent));
            std::thread::sleep(Duration::from_millis(10));
        }
        let (_, said) = child.end();
        let there = kept(&bench, &parent, &before, &said);
        // When space is available again
        disk.grow("64m");
        completed(&bench, &parent, &there, &more);
    });
}

#[test]
#[ignore = "long: waits until the run gives up on a dead server"]
fn finished_trials_survive_a_dead_server() {
    let trials = undisturbed().len();
    at_each_point(|random| {
        let bench = Bench::new();
        let (scenario, parent) = (bench.scenario(SCENARIO), bench.path("results"));
        let words = ["run", scenario.to_str().unwrap(), "--run-id", NAME, "--data-dir", "data"];
        let child = bench.watch(&words);
        let (after, beyond) = (random.random_range(0..trials), random.random_range(0..400));
        until(&child, &parent, after, Duration::from_millis(beyond));
        let before = recorded(&parent);
        bench.servers().into_iter().for_each(|pid| send(pid, Signal::KILL));
        let (code, said) = child.end();
        assert!(matches!(code, Some(0 | 3 | 4)), "{said}");
        let there = kept(&bench, &parent, &before, &said);
        completed(&bench, &parent, &there, &[]);
    });
}

#[tokio::test]
async fn tables_of_a_complete_run_can_be_written_without_its_ensemble() {
    // Given a complete run whose tables were not written, and whose server has ended
    let local = ensemble::start(1).await;
    let connect = local.connect();
    let finish = move || {
        let bench = Bench::with(SCENARIO);
        let parent = bench.path("results");
        let words = ["run", "scenario.toml", "--connect", &connect, "--no-floor", "--run-id", NAME];
        let child = bench.watch(&words);
        eventually("a trial has ended", LONG, || !recorded(&parent).is_empty());
        fs::create_dir(directory(&parent).unwrap().join("summary.csv")).unwrap();
        let (_, said) = child.end();
        local.close();
        let dir = directory(&parent).unwrap();
        fs::remove_dir(dir.join("summary.csv")).unwrap_or_else(|error| panic!("{error}: {said}"));
        // When the run is resumed
        let name = parent.join(NAME);
        let output = bench.output(&["run", "--resume", name.to_str().unwrap()]);
        // Then its tables exist
        went_through(&output);
        assert!(stderr(&output).contains("all trials exist"), "{}", stderr(&output));
        // Both invalid trials and their reruns have rows
        let rows = fs::read_to_string(name.join("summary.csv")).unwrap().lines().count() - 1;
        assert!(rows == recorded(&parent).len() && rows >= 6, "{rows}");
    };
    tokio::task::spawn_blocking(finish).await.unwrap();
}

#[test]
fn resume_rejects_a_second_process_and_changed_options() {
    let connect = ensemble::place_on_shared();
    let bench = Bench::new();
    let (scenario, parent) = (bench.scenario(SCENARIO), bench.path("results"));
    let name = parent.join(NAME);
    let (name, at) = (name.to_str().unwrap(), ["--connect", connect.as_str()]);
    let first = ["run", scenario.to_str().unwrap(), "--run-id", NAME, "--history"];
    let child = bench.watch(&[&first[..], &at].concat());
    eventually("two trials have ended", LONG, || recorded(&parent).len() > 1);
    let refused = |words: &[&str], why: &str| {
        let output = bench.output(&[&["run", "--resume", name], words].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{words:?}: {}", stderr(&output));
    };
    // Resuming is rejected during the run, and later with options that would change the measurement. The run is
    // stopped meanwhile, so that it does not end first on a slow host.
    signal(child.pid(), Signal::STOP);
    refused(&[], "is in use");
    signal(child.pid(), Signal::KILL);
    child.end();
    refused(&["--seed", "7"], "remove the options that change the scenario");
    refused(&["--set", "hold=9ms"], "remove the options that change the scenario");
    refused(&["--threads", "3"], "cannot be used with");
    refused(&["--connect", "127.0.0.1:1"], "the run used");
    refused(&["--compose", "x.yaml", "--connect", &connect], "cannot be used with");
    refused(&["--tls"], "add --connect");
    // And the error for a name that is already taken suggests resuming the run
    let taken = bench.output(&[&first[..], &at].concat());
    assert!(stderr(&taken).contains("zklockbench run --resume"), "{}", stderr(&taken));

    let resumed = bench.watch(&["run", "--resume", name]);
    eventually("another trial has ended", LONG, || {
        ["[3/6]", "[4/6]", "[5/6]"].iter().any(|ended| resumed.has_said(ended))
    });
    signal(resumed.pid(), Signal::STOP);
    refused(&[], "is being resumed by another process");
    signal(resumed.pid(), Signal::CONT);
    let (code, said) = resumed.end();
    assert!(matches!(code, Some(0 | 4)), "{said}");
    assert!(said.contains("of 6 trials exist"), "{said}");
    // The record, summary and page report that the run was resumed, and all trials have a history
    let stored = zklockbench_results::read(Path::new(name)).unwrap();
    assert_eq!(stored.run.segments.len(), 2);
    assert!(stored.run.segments[0].outcome.why.as_ref().unwrap().contains("killed"));
    assert_eq!(stored.run.segments[1].outcome.ending, RunEnding::Complete);
    assert!((0..6).all(|index| Path::new(name).join(format!("trials/{index:03}.history.jsonl")).is_file()));
    for file in ["summary.json", "summary.md"] {
        let text = fs::read_to_string(Path::new(name).join(file)).unwrap_or_default();
        assert!(text.contains("The run was resumed once"), "{file}");
    }
    let shown = bench.output(&["report", name]);
    assert!(shown.status.success(), "{}{}", stdout(&shown), stderr(&shown));
    let page = fs::read_to_string(Path::new(name).join("report.html")).unwrap();
    assert!(page.contains("The run was resumed once"));
}

#[test]
#[ignore = "long: waits for sessions to expire"]
fn clean_removes_a_killed_runs_nodes_once_its_sessions_have_ended() {
    let connect = ensemble::place_on_shared();
    let bench = Bench::with(SCENARIO);
    let child = bench.watch(&["run", "scenario.toml", "--run-id", NAME, "--connect", &connect]);
    eventually("the run shows that it is alive", LONG, || {
        left_on(&connect).iter().any(|run| run.shows_life && run.ephemeral > 0)
    });
    // While the run is alive, `clean` keeps its nodes
    let cleaned = bench.output(&["clean", "--connect", &connect, "--all"]);
    assert!(stdout(&cleaned).contains("may be in progress"), "{}", stdout(&cleaned));
    signal(child.pid(), Signal::KILL);
    child.end();
    // And the nodes are removed once the run's sessions have ended, not ten minutes later
    eventually("clean removes the nodes", Duration::from_secs(40), || {
        bench.output(&["clean", "--connect", &connect, "--all"]);
        left_on(&connect).is_empty()
    });
}
