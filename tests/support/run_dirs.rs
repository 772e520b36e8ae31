//! Run directories written for a test.

use std::path::{Path, PathBuf};

use zklockbench::record::Trial;
use zklockbench::results::RunWriter;
use zklockbench::verdict::Verdict;

use crate::support::records;

/// Publishes a run of those trials below that parent.
pub fn publish(parent: &Path, trials: &[Trial]) -> PathBuf {
    let mut writer = RunWriter::create_dated(parent, "quick", records::began()).unwrap();
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    writer.seal(&records::run(trials.len()), &Verdict::Held).unwrap().publish().unwrap()
}
