//! `sweep`: points as separate processes on a shared ensemble, and the directory of a killed sweep.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use zklockbench_analysis::sweep::{Ending, State, SweepFile, read};

use crate::support::program::{Bench, eventually, signal, stderr, stdout, went_through};

const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\", \"parent-watch\"]\ncontenders = 3\n\
                     hold = \"2ms\"\nduration = \"500ms\"\nwarm_up = \"0s\"\nwarm_up_at_most = \"0s\"\n\
                     session_timeout = \"10s\"\n[ensemble]\nservers = 1\n";

fn finished(directory: &Path) -> SweepFile {
    read(directory).unwrap()
}

#[test]
fn sweep_with_a_link_in_place_of_a_subdirectory_is_not_resumed() {
    let bench = Bench::with(SHORT);
    // Given the directory of a sweep that was stopped during its first run
    let sweep = "sweep scenario.toml --over contenders=1,2 --data-dir data --out other --run-id swept";
    let child = bench.listen(bench.typed(sweep));
    eventually("the first run has started", Duration::from_secs(90), || child.has_said("[1]"));
    signal(child.pid(), Signal::KILL);
    let _ = child.end();
    let directory = bench.path("other/swept");
    let files = || fs::read_dir(bench.path("far")).unwrap().count();
    fs::create_dir(bench.path("far")).unwrap();
    for folder in ["points", "scenarios", "logs", "server-logs"] {
        let path = directory.join(folder);
        let _ = fs::remove_dir_all(&path);
        symlink(bench.path("far"), &path).unwrap();
        let said = bench.refuses(sweep);
        assert!(said.contains(folder) && said.contains("are not followed"), "{said}");
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(files(), 0);
}

#[test]
#[ignore = "long: measures many points"]
fn killed_sweep_resumes_without_repeating_points() {
    // Given a sweep over three values that is killed after its second run
    let bench = Bench::with(SHORT);
    let typed = "sweep scenario.toml --over contenders=1,2,4 --data-dir data --budget 2m";
    let child = bench.listen(bench.typed(typed));
    eventually("the third run has started", Duration::from_secs(90), || child.has_said("[3]"));
    signal(child.pid(), Signal::KILL);
    let _ = child.end();
    let directory = bench.results().pop().unwrap();
    let before = finished(&directory);
    assert_eq!((before.runs.len(), before.ending), (2, Ending::GoingOn));
    // And unrelated files and links in the sweep's directory
    let notes = ["points/notes/precious.txt", "points/017/precious.txt"];
    for note in notes {
        let note = directory.join(note);
        fs::create_dir_all(note.parent().unwrap()).unwrap();
        fs::write(&note, "precious").unwrap();
    }
    let far = bench.path("far");
    fs::write(&far, "precious").unwrap();
    let links = ["scenarios/003.toml", "scenarios/018.toml", "logs/018.txt", "sweep-throughput.svg"];
    for link in links.into_iter().chain([".sweep.json.new", ".sweep.csv.new"]) {
        let _ = fs::remove_file(directory.join(link));
        symlink(&far, directory.join(link)).unwrap();
    }
    // When the sweep is resumed
    let words: Vec<&str> = typed.split(' ').chain(["--resume", directory.to_str().unwrap()]).collect();
    let output = bench.drawn(&words);
    went_through(&output);
    let (said, shown) = (stderr(&output), stdout(&output));
    assert!(said.contains("resuming; 2 runs already finished"), "{said}");
    // Then the unrelated files are unchanged
    for note in notes.map(|note| directory.join(note)).iter().chain([&far]) {
        assert_eq!(fs::read_to_string(note).unwrap(), "precious", "{}", note.display());
    }
    // And the finished runs are unchanged, and every point has been measured twice
    let after = finished(&directory);
    assert_eq!(after.runs[..2], before.runs[..]);
    assert_eq!(after.samples[..before.samples.len()], before.samples[..]);
    assert!(matches!(after.ending, Ending::Complete | Ending::OutOfTime), "{shown}");
    for finding in &after.findings {
        let points = &finding.series.points;
        assert_eq!(points.iter().map(|point| point.at.x).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
        assert!(points.iter().all(|point| point.repetitions >= 2), "{shown}");
    }
    // And each run is an ordinary run in its own directory
    for run in &after.runs {
        let stored = zklockbench_results::read(&directory.join("points").join(&run.directory)).unwrap();
        assert_eq!(stored.run.seed, run.seed);
        let told: Vec<_> = stored.trials.iter().map(|trial| trial.spec.contenders as f64).collect();
        // A run may contain only one strategy if the other needs no further repetition.
        assert!(!told.is_empty() && told.iter().all(|contenders| *contenders == run.at.x), "{told:?}");
    }
    let sound = after.samples.iter().filter(|sample| sample.state == State::Sound);
    assert!(sound.clone().count() == 0 || sound.clone().all(|sample| sample.throughput.is_some()));
    assert!(directory.join("sweep.csv").is_file() && directory.join("sweep-throughput.svg").is_file());
    assert!(bench.servers().is_empty());
}

#[test]
#[ignore = "long: a sweep with crashes"]
fn session_timeout_sweep_measures_how_long_a_crashed_holder_blocks() {
    // Given a scenario with a crash as its only fault
    let crash = "[[fault]]\nkind = \"crash\"\nat = \"500ms\"\n";
    let bench = Bench::with(&format!("{}{crash}", SHORT.replace("500ms", "4s")));
    // When two timeouts are swept, and the servers extend the first timeout
    let typed = "sweep scenario.toml --over session_timeout=500ms,2s --strategies predecessor-watch \
                 --data-dir data --cold --budget 2m";
    let shown = bench.shows(typed);
    let file = finished(&bench.results().pop().unwrap());
    // Then each point shows the granted timeout, and an outage of about the same length
    let points = &file.findings[0].series.points;
    assert_eq!(points.iter().map(|point| point.granted_us).collect::<Vec<_>>(), [1_000_000, 2_000_000]);
    for point in points {
        let (granted, gap) = (point.granted_us, point.failures[0].gap.unwrap());
        let expected = granted / 2..granted + 2_500_000;
        assert!(expected.contains(&gap.least_us) && expected.contains(&gap.most_us), "{point:?}");
        assert_eq!(point.failures[0].sessions_lost_most, Some(0), "{point:?}");
    }
    assert!(shown.contains("`crash holder` stops the lock for"), "{shown}");
}

#[test]
#[ignore = "long: a thousand contenders, four strategies, about seven minutes"]
fn sweep_to_a_thousand_contenders_takes_less_than_fifteen_minutes() {
    let bench = Bench::new();
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/sweep-contenders.toml");
    let began = std::time::Instant::now();
    let typed = format!("sweep '{scenario}' --over contenders=1..1000 --data-dir data --budget 6m");
    bench.completes(&typed);
    assert!(began.elapsed() < Duration::from_secs(15 * 60));
    let file = finished(&bench.results().pop().unwrap());
    assert_eq!(file.findings.len(), 4);
    // Each strategy was measured up to 1,000 contenders, or until the strategy or the generator broke down
    for finding in &file.findings {
        let last = finding.series.points.last().unwrap();
        assert!(last.at.x >= 1000.0 || last.state != State::Sound, "{}: {last:?}", finding.series.strategy);
    }
}
