//! Small histories in a short notation, judged like history files.
//!
//! The first line contains the lock's kind (`mutex`, `semaphore 2`, `read-write`) and optionally `complete`.
//! Every other line is an event: `time process/contender operation phase field=value ...`. A line with two times,
//! such as `10-11 a/1 acquire ok`, stands for two events, a call and its reply. For `session`, the phase is the
//! session's state. The first event is on line 2 of the history.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use zklockbench_core::error::Error;
use zklockbench_judge::history::{Breach, Checker, Finding, HistoryEnd, Judgement, LockReport};
use zklockbench_results::history::HistoryReader;

pub fn lines(story: &str) -> String {
    let mut told = story.lines().map(str::trim).filter(|line| !line.is_empty());
    let header = header(told.next().unwrap());
    std::iter::once(header).chain(told.flat_map(events)).map(|line| format!("{line}\n")).collect()
}

fn header(line: &str) -> Value {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut lock = json!({ "kind": words[0] });
    if let Some(leases) = words.get(1).and_then(|word| word.parse::<u32>().ok()) {
        lock["leases"] = leases.into();
    }
    let mut header = json!({ "format": "zklockbench-history", "version": 1, "locks": { "lock": lock } });
    if words.contains(&"complete") {
        header["complete"] = true.into();
    }
    header
}

fn events(line: &str) -> Vec<Value> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((called, answered)) = words[0].split_once('-') else { return vec![event(&words)] };
    // Some fields belong only to the call or only to the reply.
    let with = |word: &str, is_call: bool| match word.split_once('=').map(|(field, _)| field) {
        Some("session" | "clock" | "depth" | "mode" | "leases") => true,
        Some("token") if words[2] == "write" => true,
        Some("alone") => is_call,
        _ => !is_call,
    };
    let half = |time, phase, is_call| {
        let fields = words[4..].iter().copied().filter(|word| with(word, is_call));
        event(&[time, words[1], words[2], phase].into_iter().chain(fields).collect::<Vec<_>>())
    };
    vec![half(called, "invoke", true), half(answered, words[3], false)]
}

fn event(words: &[&str]) -> Value {
    let (process, contender) = words[1].split_once('/').unwrap();
    let mut event = Map::new();
    event.insert("t_us".into(), value(words[0]));
    event.insert("process".into(), process.into());
    event.insert("contender".into(), value(contender));
    event.insert("op".into(), words[2].into());
    if words[2] == "session" {
        event.insert("state".into(), words[3].into());
    } else {
        event.insert("lock".into(), "lock".into());
        event.insert("phase".into(), words[3].into());
    }
    for (field, text) in words[4..].iter().map(|word| word.split_once('=').unwrap()) {
        event.insert(field.into(), value(text));
    }
    event.into()
}

/// Parses a number or a boolean if possible, and returns any other text as a string.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

pub fn check(path: &Path, strict: bool) -> Result<Judgement, Error> {
    let mut reader = HistoryReader::open(path)?;
    let mut checker = Checker::new(reader.header());
    while let Some(line) = reader.next_event()? {
        let place = line.place;
        if let Err(what) = line.event().and_then(|event| checker.feed(place, &event)) {
            return Err(reader.mistake(place.line, &what));
        }
    }
    // Require minimal evidence, because these histories are tiny.
    let evidence = "0.5@100%".parse().unwrap();
    Ok(checker.conclude(HistoryEnd { cut_off_at: reader.cut_off_at(), strict, evidence }))
}

/// Writes text to a file in a temporary directory.
pub fn file(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("history.jsonl");
    std::fs::write(&path, text).unwrap();
    (dir, path)
}

pub fn check_text(text: &[u8]) -> Result<Judgement, Error> {
    let (_dir, path) = file(text);
    check(&path, false)
}

/// Judges a valid story.
pub fn judged(story: &str) -> Judgement {
    check_text(lines(story).as_bytes()).unwrap()
}

pub fn lock(judgement: &Judgement) -> &LockReport {
    assert_eq!(judgement.locks.len(), 1, "{judgement:?}");
    &judgement.locks[0]
}

/// Numbers of violations, zombies and uncertain overlaps of a single lock.
pub fn overlaps(judgement: &Judgement) -> [u64; 3] {
    let lock = lock(judgement);
    [lock.violations.count, lock.zombies.count, lock.uncertain.count]
}

/// Line numbers of the only finding of a kind.
pub fn lines_of(judgement: &Judgement, breach: Breach) -> Vec<u64> {
    let found: Vec<&Finding> = judgement.findings.iter().filter(|finding| finding.breach == breach).collect();
    assert_eq!(found.len(), 1, "{judgement:?}");
    found[0].lines.iter().map(|place| place.line).collect()
}
