//! Directories that somebody else made: every reader refuses what is wrong with them at once, with the file's name, and with
//! little memory.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::support::program::Bench;
use crate::support::{records, run_dirs};

/// How long a reader may take to refuse, and how much memory.
const WITHIN: Duration = Duration::from_secs(1);
const MOST_KB: u64 = 100_000;

type Damage = fn(&Path);

/// What is done to a sound run, and the file that the error must name.
const HOSTILE: [(&str, &str, Damage); 15] = [
    ("run.json is a link to an endless device", "run.json", |dir| endless(&dir.join("run.json"))),
    ("run.json is a pipe into which nobody writes", "run.json", |dir| pipe(&dir.join("run.json"))),
    ("run.json pretends to have a terabyte", "run.json", |dir| hollow(&dir.join("run.json"))),
    ("run.json is a directory", "run.json", |dir| {
        fs::remove_file(dir.join("run.json")).unwrap();
        fs::create_dir(dir.join("run.json")).unwrap();
    }),
    ("a trial is a link to an endless device", "000.json", |dir| endless(&dir.join("trials/000.json"))),
    ("a trial's histograms are a pipe", "000.hlog", |dir| pipe(&dir.join("trials/000.hlog"))),
    ("a trial's histograms are a link to the same", "000.hlog", |dir| {
        fs::rename(dir.join("trials/000.hlog"), dir.join("elsewhere")).unwrap();
        symlink("../elsewhere", dir.join("trials/000.hlog")).unwrap();
    }),
    ("a trial pretends to have a terabyte", "000.json", |dir| hollow(&dir.join("trials/000.json"))),
    ("the folder of trials is a link", "trials", |dir| {
        fs::rename(dir.join("trials"), dir.join("elsewhere")).unwrap();
        symlink("elsewhere", dir.join("trials")).unwrap();
    }),
    ("the list of files leads out of the directory", "../outside", |dir| list(dir, "../outside")),
    ("the list of files names a device", "/dev/zero", |dir| list(dir, "/dev/zero")),
    ("the list of files has a pipe", "charts/pipe.svg", |dir| {
        fs::create_dir_all(dir.join("charts")).unwrap();
        list(dir, "charts/pipe.svg");
        pipe(&dir.join("charts/pipe.svg"));
    }),
    ("the list of files is empty", "000.json", |dir| {
        change(dir, |run| run["files"] = json!({}));
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

#[test]
fn every_reader_refuses_every_hostile_directory_within_a_second() {
    let bench = Bench::new();
    for (what, named, damage) in HOSTILE {
        // Given a run that was sound before
        let parent = tempfile::tempdir().unwrap();
        let dir = run_dirs::publish(parent.path(), &[records::trial(0), records::trial(1)]);
        damage(&dir);
        let dir = dir.to_str().unwrap();
        for arguments in readers(dir) {
            // When it is read
            let ended = measured(bench.command(&arguments));
            // Then that is refused: at once, with little memory, and with the name of the file
            let case = format!("{what}: {}: {}", arguments[0], ended.said);
            assert_eq!(ended.code, Some(2), "{case}");
            assert!(ended.took < WITHIN, "{:?}: {case}", ended.took);
            assert!(ended.resident_kb < MOST_KB, "{} kB: {case}", ended.resident_kb);
            assert!(ended.said.contains(named), "{case}");
        }
        assert!(
            !bench.path("baselines").exists() || fs::read_dir(bench.path("baselines")).unwrap().count() == 0
        );
    }
}

#[test]
fn a_plan_and_a_calibration_that_are_links_are_refused() {
    let bench = Bench::new();
    for (file, readers) in
        [("plan.json", vec!["report", "plan"]), ("calibration.json", vec!["articles", "plan"])]
    {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().to_str().unwrap();
        // It looks like a file to whoever follows links
        fs::write(place.path().join("elsewhere"), "{}").unwrap();
        symlink("elsewhere", place.path().join(file)).unwrap();
        for arguments in self::readers(dir).iter().filter(|one| readers.contains(&one[0])) {
            let ended = measured(bench.command(arguments));
            assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.said);
            assert!(ended.said.contains(file) && ended.said.contains("is a link"), "{}", ended.said);
        }
    }
}

fn readers(dir: &str) -> [Vec<&str>; 7] {
    [
        vec!["check", dir],
        vec!["compare", dir, dir],
        vec!["report", dir],
        vec!["export", dir, "--junit", "junit.xml"],
        vec!["articles", dir],
        vec!["baseline", "add", dir, "--commit", "abc"],
        vec![
            "plan",
            "--clients",
            "5",
            "--rate",
            "5/s",
            "--hold",
            "5ms",
            "--slo",
            "wait.p99 < 1s",
            "--from",
            dir,
        ],
    ]
}

struct Ended {
    code: Option<i32>,
    said: String,
    took: Duration,
    /// The most memory that it had at any time.
    resident_kb: u64,
}

/// Runs it to its end, or for ten seconds.
fn measured(mut command: Command) -> Ended {
    let began = Instant::now();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut resident_kb, status) = (0, format!("/proc/{}/status", child.id()));
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let peak = text
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        resident_kb = resident_kb.max(peak.unwrap_or(0));
        if began.elapsed() > 10 * WITHIN {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let took = began.elapsed();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ended { code: output.status.code(), said, took, resident_kb }
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

/// Adds a file to the list.
fn list(dir: &Path, name: &str) {
    change(dir, |run| run["files"][name] = json!(hexadecimal(b"")));
}

/// Changes run.json, with the digest that belongs to it.
fn change(dir: &Path, with: impl FnOnce(&mut Value)) {
    let path = dir.join("run.json");
    let mut run: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    with(&mut run);
    let blank = "0".repeat(64);
    run["digest"] = json!(blank);
    let text = serde_json::to_string_pretty(&run).unwrap();
    fs::write(path, text.replace(&blank, &hexadecimal(text.as_bytes()))).unwrap();
}

fn hexadecimal(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The beginning of a compressed histogram: so many bytes of counts are to follow, for values up to that one.
fn histogram(announced: u32, highest: u64) -> Vec<u8> {
    let mut inner = Vec::new();
    inner.extend(0x1c84_9303_u32.to_be_bytes());
    inner.extend(announced.to_be_bytes());
    inner.extend(0_u32.to_be_bytes());
    inner.extend(3_u32.to_be_bytes());
    inner.extend(1_u64.to_be_bytes());
    inner.extend(highest.to_be_bytes());
    inner.extend(1_f64.to_be_bytes());
    let mut compressed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    compressed.write_all(&inner).unwrap();
    let compressed = compressed.finish().unwrap();
    let mut whole = 0x1c84_9304_u32.to_be_bytes().to_vec();
    whole.extend(u32::try_from(compressed.len()).unwrap().to_be_bytes());
    whole.extend(compressed);
    whole
}

/// Makes the histograms of the first trial that one, with the digests that belong to it.
fn replace_histograms(dir: &Path, histogram: &[u8]) {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(histogram);
    let line = format!("Tag=wait,0.0,1.0,1.0,{encoded}\n");
    fs::write(dir.join("trials/000.hlog"), &line).unwrap();
    change(dir, |run| run["files"]["trials/000.hlog"] = json!(hexadecimal(line.as_bytes())));
}
