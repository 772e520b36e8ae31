//! Damaged directories: every reader rejects them quickly and with little memory, and reports the file's name.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::support::depth;
use crate::support::program::{Bench, measured, stdout};
use crate::support::records;
use crate::support::run_dirs::{self, change, sha256};

/// Maximum time and memory for a reader to reject a directory.
const WITHIN: Duration = Duration::from_secs(5);
const MOST_KB: u64 = 100_000;

/// Scenario of a run with a hostile directory as its baseline.
const SCENARIO: &str = "name = \"quick\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\n";

type Damage = fn(&Path);

/// Damage to a valid run: description, file that the error must mention, and function that causes the damage.
const HOSTILE: [(&str, &str, Damage); 18] = [
    ("run.json is a link to an endless device", "run.json", |dir| endless(&dir.join("run.json"))),
    ("run.json is a pipe without a writer", "run.json", |dir| pipe(&dir.join("run.json"))),
    ("run.json claims to have a terabyte", "run.json", |dir| hollow(&dir.join("run.json"))),
    ("a trial is a link to an endless device", "000.json", |dir| endless(&dir.join("trials/000.json"))),
    ("a trial's histograms are a pipe", "000.hlog", |dir| pipe(&dir.join("trials/000.hlog"))),
    ("a trial's histograms are a link to the original file", "000.hlog", |dir| {
        symlink("../elsewhere", moved(dir, "trials/000.hlog")).unwrap();
    }),
    ("a trial claims to have a terabyte", "000.json", |dir| hollow(&dir.join("trials/000.json"))),
    ("the trials directory is a link", "trials", |dir| symlink("elsewhere", moved(dir, "trials")).unwrap()),
    ("the trials directory is a file", "trials", |dir| fs::write(moved(dir, "trials"), "").unwrap()),
    ("the trials directory is a pipe", "trials", |dir| pipe(&moved(dir, "trials"))),
    ("the trials directory is a circular link", "trials", |dir| {
        symlink("trials", moved(dir, "trials")).unwrap();
    }),
    ("a trial is nested a hundred thousand levels deep", "000.json", |dir| {
        let text = "[".repeat(100_000);
        fs::write(dir.join("trials/000.json"), &text).unwrap();
        change(dir, |run| run["files"]["trials/000.json"] = json!(sha256(text.as_bytes())));
    }),
    ("run.json is nested a hundred thousand levels deep", "run.json", |dir| {
        fs::write(dir.join("run.json"), "{\"a\":".repeat(100_000)).unwrap();
    }),
    ("the list of files refers to a file outside the directory", "../outside", |dir| list(dir, "../outside")),
    ("the list of files contains a device", "/dev/zero", |dir| list(dir, "/dev/zero")),
    ("the list of files contains a pipe", "charts/pipe.svg", |dir| {
        fs::create_dir_all(dir.join("charts")).unwrap();
        list(dir, "charts/pipe.svg");
        pipe(&dir.join("charts/pipe.svg"));
    }),
    ("a histogram announces four gigabytes", "000.hlog", |dir| {
        let header = histogram(u32::MAX, 3_600_000_000);
        replace_histograms(dir, &header);
    }),
    ("a histogram has the widest range of all", "000.hlog", |dir| {
        let header = histogram(100, u64::MAX);
        replace_histograms(dir, &header);
    }),
];

/// Checks that a command rejects its input quickly, uses little memory, and reports the file's name.
fn assert_rejected(bench: &Bench, arguments: &[&str], what: &str, named: &str) {
    let ended = measured(bench.command(arguments));
    let case = format!("{what}: {arguments:?}: {}", ended.said);
    assert_eq!(ended.code, Some(2), "{case}");
    assert!(ended.worked < WITHIN, "{:?}: {case}", ended.worked);
    assert!(ended.resident_kb < MOST_KB, "{} kB: {case}", ended.resident_kb);
    assert!(ended.said.contains(named), "{case}");
}

#[test]
fn readers_reject_hostile_directories_quickly() {
    let bench = Bench::new();
    for (at, (what, named, damage)) in HOSTILE.into_iter().enumerate() {
        // Given a damaged copy of a valid run
        let (_parent, dir) = run_dirs::published(&[records::trial(0), records::trial(1)]);
        damage(&dir);
        let dir = dir.to_str().unwrap();
        bench.scenario(SCENARIO);
        let run = ["run", "scenario.toml", "--baseline", dir];
        // Readers share their code, so only a third of them, in rotation, read each directory.
        let readers = readers(dir).into_iter().chain([run.to_vec()]).enumerate();
        for (_, arguments) in readers.filter(|(number, _)| depth::is_long() || (number + at) % 3 == 0) {
            assert_rejected(&bench, &arguments, what, named);
        }
        let baselines = fs::read_dir(bench.path("baselines")).into_iter().flatten();
        assert_eq!(baselines.count(), 0, "{what}");
    }
}

#[test]
fn readers_reject_links_to_plans_and_calibrations() {
    let bench = Bench::new();
    for (file, readers) in
        [("plan.json", vec!["report", "plan"]), ("calibration.json", vec!["articles", "plan"])]
    {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().to_str().unwrap();
        // A reader that follows links would accept a link to a file
        fs::write(place.path().join("elsewhere"), "{}").unwrap();
        symlink("elsewhere", place.path().join(file)).unwrap();
        for arguments in self::readers(dir).iter().filter(|one| readers.contains(&one[0])) {
            let ended = measured(bench.command(arguments));
            assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.said);
            assert!(ended.said.contains(file) && ended.said.contains("is a link"), "{}", ended.said);
        }
    }
}

#[test]
fn readers_reject_pipes_and_endless_files() {
    let bench = Bench::new();
    let damages: [(&str, Damage); 2] =
        [("a pipe", |path| pipe(path)), ("an endless device", |path| symlink("/dev/zero", path).unwrap())];
    for (what, damage) in damages {
        let (place, sound) = run_dirs::published(&[records::trial(0)]);
        damage(&sound.join("summary.json"));
        let sweep = place.path().join("sweep");
        fs::create_dir(&sweep).unwrap();
        damage(&sweep.join("sweep.json"));
        let store = place.path().join("store");
        let one = store.join("one");
        fs::create_dir_all(&one).unwrap();
        damage(&one.join("baseline.json"));
        let scenario = bench.scenario(SCENARIO);
        let [sound, sweep, store, scenario] =
            [&sound, &sweep, &store, &scenario].map(|path| path.to_str().unwrap());
        for (arguments, named) in [
            (vec!["report", sound], "summary.json"),
            (vec!["export", sound, "--junit", "junit.xml"], "summary.json"),
            (vec!["report", sweep], "sweep.json"),
            (vec!["baseline", "list", store], "baseline.json"),
            (vec!["run", scenario, "--baseline", store], "baseline.json"),
            (vec!["baseline", "add", sound, store, "--commit", "abc"], "baseline.json"),
        ] {
            assert_rejected(&bench, &arguments, what, named);
        }
    }
}

#[test]
fn report_replaces_only_its_own_page() {
    let bench = Bench::new();
    let (place, dir) = run_dirs::published(&[records::trial(0)]);
    let (page, far) = (dir.join("report.html"), place.path().join("far"));
    fs::write(&far, "precious").unwrap();
    for target in [None, Some("/dev/full"), Some("../far")] {
        let _ = fs::remove_file(&page);
        target.map_or_else(|| pipe(&page), |target| symlink(target, &page).unwrap());
        let ended = measured(bench.command(&["report", dir.to_str().unwrap()]));
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        assert!(!page.is_symlink() && fs::read_to_string(&page).unwrap().contains("<!DOCTYPE html>"));
        assert_eq!(fs::read_to_string(&far).unwrap(), "precious");
    }
}

#[test]
fn control_characters_in_histories_and_runs_are_escaped() {
    let bench = Bench::new();
    // Given a history with a violation, of a lock whose name clears the screen if printed unescaped
    let name = r"\u001b[2J\u001b[H\nverdict: held\n\u009b8m";
    let lines = [
        format!(
            r#"{{"format":"zklockbench-history","version":1,"complete":true,"locks":{{"{name}":{{"kind":"mutex"}}}}}}"#
        ),
        event(1, 1, "acquire", name, "invoke"),
        event(2, 1, "acquire", name, "ok"),
        event(3, 2, "acquire", name, "invoke"),
        event(4, 2, "acquire", name, "ok"),
        event(5, 1, "release", name, "invoke"),
        event(6, 1, "release", name, "ok"),
    ];
    let history = bench.path("history.jsonl");
    fs::write(&history, lines.join("\n") + "\n").unwrap();
    // And a run with a similarly hostile name
    let mut run = records::run(1);
    run.scenario = "quick\n\u{1b}[2Jverdict: held".into();
    run.ensemble.servers[0].version = "3.9\nverdict: held\u{1b}[8m".into();
    let dir = run_dirs::publish_run(bench.dir.path(), run, &[records::trial(0)]);
    let [history, dir] = [&history, &dir].map(|path| path.to_str().unwrap());
    for (arguments, verdicts) in [
        (vec!["check", history], vec!["verdict: violated"]),
        (vec!["check", history, "--json"], vec![]),
        (vec!["compare", dir, dir], vec![]),
        (vec!["compare", dir, dir, "--json"], vec![]),
        (vec!["baseline", "add", dir, "--commit", "abc"], vec![]),
        (vec!["articles", dir], vec![]),
    ] {
        // When the results are shown
        let output = bench.output(&arguments);
        // Then the output contains no control characters, and the only verdict is the program's own
        for said in [&output.stdout, &output.stderr] {
            let said = String::from_utf8(said.clone()).unwrap();
            let is_read = |c: char| c == '\n' || zklockbench_core::units::harmless(c) == c.to_string();
            assert!(said.chars().all(is_read), "{arguments:?}: {said:?}");
        }
        let said = stdout(&output);
        let found: Vec<&str> =
            said.lines().filter(|line| line.trim_start().starts_with("verdict:")).collect();
        assert_eq!(found, verdicts, "{arguments:?}: {said}");
    }
    // And no directory has the hostile name
    let entries = fs::read_dir(bench.path("baselines"));
    let names: Vec<_> = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.is_empty(), "{names:?}");
}

fn event(at: u64, contender: u64, op: &str, lock: &str, phase: &str) -> String {
    format!(
        r#"{{"t_us":{at},"process":"w","contender":{contender},"op":"{op}","lock":"{lock}","phase":"{phase}"}}"#
    )
}

fn readers(dir: &str) -> [Vec<&str>; 7] {
    [
        vec!["check", dir],
        vec!["compare", dir, dir],
        vec!["report", dir],
        vec!["export", dir, "--junit", "junit.xml"],
        vec!["articles", dir],
        vec!["baseline", "add", dir, "--commit", "abc"],
        vec!["plan", "--clients=5", "--rate=5/s", "--hold=5ms", "--slo=wait.p99 < 1s", "--from", dir],
    ]
}

/// Moves a file or directory to `elsewhere`; returns its former path.
fn moved(dir: &Path, name: &str) -> PathBuf {
    fs::rename(dir.join(name), dir.join("elsewhere")).unwrap();
    dir.join(name)
}

fn endless(path: &Path) {
    fs::remove_file(path).unwrap();
    symlink("/dev/zero", path).unwrap();
}

fn pipe(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

fn hollow(path: &Path) {
    File::create(path).unwrap().set_len(1 << 40).unwrap();
}

fn list(dir: &Path, name: &str) {
    change(dir, |run| run["files"][name] = json!(sha256(b"")));
}

/// Returns the header of a compressed histogram that announces this many bytes of counts, for values up to
/// `highest`.
fn histogram(announced: u32, highest: u64) -> Vec<u8> {
    let counts = [0x1c84_9303, announced, 0, 3].map(u32::to_be_bytes).concat();
    let range = [1, highest, 1_f64.to_bits()].map(u64::to_be_bytes).concat();
    let mut compressed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&[counts, range].concat()).unwrap();
    let compressed = compressed.finish().unwrap();
    let length = u32::try_from(compressed.len()).unwrap().to_be_bytes();
    [&0x1c84_9304_u32.to_be_bytes()[..], &length, &compressed].concat()
}

/// Replaces the histograms of the first trial and updates the digests.
fn replace_histograms(dir: &Path, histogram: &[u8]) {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(histogram);
    let line = format!("Tag=wait,0.0,1.0,1.0,{encoded}\n");
    fs::write(dir.join("trials/000.hlog"), &line).unwrap();
    change(dir, |run| run["files"]["trials/000.hlog"] = json!(sha256(line.as_bytes())));
}
