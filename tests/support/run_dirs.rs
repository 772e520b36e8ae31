//! Run directories written for a test.

use std::path::{Path, PathBuf};

use zklockbench::check;
use zklockbench::record::{Run, Trial};
use zklockbench::results::RunWriter;

use crate::support::records;

/// Publishes a run of those trials below that parent.
pub fn publish(parent: &Path, trials: &[Trial]) -> PathBuf {
    publish_run(parent, records::run(trials.len()), trials)
}

/// Publishes that run, of those trials, below that parent.
pub fn publish_run(parent: &Path, run: Run, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create_dated(parent, "quick", records::began()).unwrap();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let judged = check::of_run(trials, run.planned_trials);
    writer.seal(run, judged).unwrap().publish().unwrap()
}
