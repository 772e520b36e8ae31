//! Run directories written for a test.

use std::path::{Path, PathBuf};

use zklockbench::check;
use zklockbench::record::Trial;
use zklockbench::results::RunWriter;

use crate::support::records;

/// Publishes a run of those trials below that parent.
pub fn publish(parent: &Path, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create_dated(parent, "quick", records::began()).unwrap();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    let judged = check::of_run(trials, trials.len());
    writer.seal(records::run(trials.len()), judged).unwrap().publish().unwrap()
}
