//! Run directories written for a test.

use std::fs;
use std::path::{Path, PathBuf};

use zklockbench::check;
use zklockbench::record::{Run, Trial};
use zklockbench::results::RunWriter;

use crate::support::records;

pub fn publish(parent: &Path, trials: &[Trial]) -> PathBuf {
    publish_run(parent, records::run(trials.len()), trials)
}

pub fn publish_run(parent: &Path, run: Run, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create_dated(parent, "quick", records::began()).unwrap();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let judged = check::of_run(trials, run.planned_trials);
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
