//! Run directories for tests.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use zklockbench_record::{Run, Trial};
use zklockbench_results::RunWriter;

use crate::support::records;

pub fn publish(parent: &Path, trials: &[Trial]) -> PathBuf {
    publish_run(parent, records::run(trials.len()), trials)
}

/// Like [`publish`], in a temporary directory.
pub fn published(trials: &[Trial]) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = publish(parent.path(), trials);
    (parent, dir)
}

pub fn publish_run(parent: &Path, run: Run, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create_dated(parent, "quick", records::began()).unwrap();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let judged = zklockbench_judge::of_run(trials, run.planned_trials);
    writer.seal(run, judged).unwrap().publish().unwrap()
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, end) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &end);
        } else {
            fs::copy(&path, &end).unwrap();
        }
    }
}

/// Changes `run.json` and updates its digest.
pub fn change(dir: &Path, with: impl FnOnce(&mut Value)) {
    let path = dir.join("run.json");
    let mut run: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    with(&mut run);
    let blank = "0".repeat(64);
    run["digest"] = blank.as_str().into();
    let text = serde_json::to_string_pretty(&run).unwrap();
    fs::write(path, text.replace(&blank, &sha256(text.as_bytes()))).unwrap();
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
