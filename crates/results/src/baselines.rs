//! A store of runs for comparison: copies of run directories, each with its commit.
//!
//! ```text
//! baselines/
//!   quick-2026-11-21T08-45-08Z/    a run directory as it was written
//!     baseline.json                the commit, and when it was added
//! ```
//!
//! Copies are independent, so a store can be cached, merged and pruned with ordinary tools.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::files::{RunFile, VersionedFile};
use super::layout;
use super::layout::cannot;
use super::read::{read, read_bytes, read_run};
use super::staging::Staging;
use super::writer::write_json;
use zklockbench_core::disk::{self, Unreadable};
use zklockbench_core::error::Error;
use zklockbench_core::units::{as_utc, distinct, shown};
use zklockbench_record::RunEnding;

const FILE: &str = "baseline.json";

const VERSION: u32 = 1;

const BASELINE_FILE: VersionedFile = VersionedFile {
    of: "baseline",
    name: FILE,
    version: VERSION,
    remedy: "the file was modified or damaged; add the run again with `zklockbench baseline add RUN`",
};

/// Contents of `baseline.json`: the commit of a run, and the time when it was added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineFile {
    /// Version of this layout: 1.
    pub schema_version: u32,
    /// Commit that was measured.
    pub commit: String,
    /// Wall time at which the run was added, for display only.
    #[serde(with = "as_utc")]
    #[schemars(with = "String")]
    pub added_at: SystemTime,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Baseline {
    pub dir: PathBuf,
    pub commit: String,
    pub run: RunFile,
}

/// Copies a run into a store, which is created if missing. By default, the commit is the one recorded in the run.
///
/// # Errors
/// [`Error::Usage`] if the run is incomplete, is already in the store, or has no known commit;
/// [`Error::Environment`] if it cannot be copied. After an error, nothing remains in the store.
pub fn add(store: &Path, run: &Path, commit: Option<&str>, now: SystemTime) -> Result<Baseline, Error> {
    let stored = read(run)?.run;
    let commit = match commit.map(str::to_owned).or_else(|| stored.tool_commit.clone()) {
        Some(commit) => commit_name(&commit)?,
        None => {
            return Err(Error::usage(format!("{}: its commit is unknown; use --commit", run.display())));
        }
    };
    if store.is_dir()
        && let Some(same) = list(store)?.into_iter().find(|one| one.run.digest == stored.digest)
    {
        let (run, at, commit) = (run.display(), same.dir.display(), same.commit);
        return Err(Error::usage(format!("{run} is already in the store: {at}, with commit {commit}")));
    }
    let name = layout::run_name(&stored.scenario, stored.started_at);
    if layout::check_name(&name).is_err() {
        let (path, scenario) = (run.join(layout::RUN), shown(&stored.scenario, 60));
        return Err(Error::usage(format!(
            "{}: `scenario`: `{scenario}` is not a valid directory name; restore the file from a copy",
            path.display()
        )));
    }
    let staging = Staging::claim_numbered(store, &name)?;
    copy(run, &stored, staging.dir())?;
    let file = BaselineFile { schema_version: VERSION, commit: commit.clone(), added_at: now };
    write_json(&staging.dir().join(FILE), &file)?;
    Ok(Baseline { dir: staging.publish()?, commit, run: stored })
}

/// Copies the files that the run lists, and nothing else.
fn copy(from: &Path, run: &RunFile, to: &Path) -> Result<(), Error> {
    for name in run.files.keys().map(String::as_str).chain([layout::RUN]) {
        let (source, target) = (from.join(name), to.join(name));
        let mut opened = match disk::open(from, Path::new(name), layout::most(name)) {
            Ok(file) => file,
            // Charts may have been deleted to save space.
            Err(Unreadable::Missing) => continue,
            Err(why) => return Err(why.of(&source)),
        };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|error| cannot("create", parent, &error))?;
        }
        File::create_new(&target)
            .and_then(|mut copy| io::copy(&mut opened, &mut copy))
            .map_err(|error| cannot("copy", &source, &error))?;
    }
    Ok(())
}

/// All runs of a store, oldest first. A run's files are verified only when the run is read.
pub fn list(store: &Path) -> Result<Vec<Baseline>, Error> {
    // The store may contain other files, such as a README, and hidden directories of copies in progress.
    let directories = disk::directories(store).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::usage(format!(
            "there is no baseline store at {}; `zklockbench baseline add RUN` creates one",
            store.display()
        )),
        io::ErrorKind::NotADirectory => {
            Error::usage(format!("{} is not a directory; specify a baseline store", store.display()))
        }
        _ => cannot("read", store, &error),
    })?;
    let mut baselines = directories.into_iter().map(baseline).collect::<Result<Vec<_>, _>>()?;
    baselines.sort_by(|a, b| (a.run.started_at, &a.dir).cmp(&(b.run.started_at, &b.dir)));
    Ok(baselines)
}

fn baseline(dir: PathBuf) -> Result<Baseline, Error> {
    let path = dir.join(FILE);
    if !disk::has(&dir, FILE) {
        return Err(Error::usage(format!(
            "{} is not a baseline: it has no {FILE}; move it away, and add runs with `zklockbench baseline add RUN`",
            dir.display()
        )));
    }
    let file: BaselineFile = BASELINE_FILE.parse(&path, &read_bytes(&dir, &path)?)?;
    let commit = commit_name(&file.commit).map_err(|_| {
        Error::usage(format!(
            "{}: `commit` is not a valid commit name; remove {}",
            path.display(),
            dir.display()
        ))
    })?;
    Ok(Baseline { commit, run: read_run(&dir)?, dir })
}

/// Whether a directory is a store, i.e. contains a baseline. A plain directory of runs is not a store.
pub fn is_store(dir: &Path) -> bool {
    disk::directories(dir).unwrap_or_default().iter().any(|path| disk::has(path, FILE))
}

/// Returns the complete runs of a scenario in a directory of runs, newest first. Runs with an unreadable `run.json`
/// are skipped, and their errors are returned.
pub fn runs_of(dir: &Path, scenario: &str) -> Result<(Vec<PathBuf>, Vec<Error>), Error> {
    let (mut runs, mut passed_over) = (Vec::new(), Vec::new());
    for path in layout::runs_in(dir)? {
        match read_run(&path) {
            Ok(run) if run.scenario == scenario && run.outcome.ending == RunEnding::Complete => {
                runs.push((run.started_at, path));
            }
            Ok(_) => {}
            Err(error) => passed_over.push(error),
        }
    }
    runs.sort();
    Ok((runs.into_iter().rev().map(|(_, path)| path).collect(), passed_over))
}

/// Directories of a scenario's runs, grouped by commit, the newest commit first.
pub fn by_commit(baselines: &[Baseline], scenario: &str) -> Vec<Vec<PathBuf>> {
    let of_scenario = || baselines.iter().filter(|one| one.run.scenario == scenario);
    let commits = distinct(of_scenario().rev().map(|one| one.commit.as_str()));
    let runs_of =
        |commit: &str| of_scenario().filter(|one| one.commit == commit).map(|one| one.dir.clone()).collect();
    commits.into_iter().map(runs_of).collect()
}

/// Checks that a commit name is safe in tables and charts, and returns it.
fn commit_name(text: &str) -> Result<String, Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_./+".contains(c);
    if text.is_empty() || text.len() > 100 || !text.chars().all(fits) {
        let text = shown(text, 60);
        return Err(Error::usage(format!(
            "`{text}` is not a valid commit name: use 1 to 100 letters, digits, `-`, `_`, `.`, `/` and `+`"
        )));
    }
    Ok(text.to_owned())
}
