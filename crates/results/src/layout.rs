//! Where things lie: the name of a run directory and of every file in it; and what to do when the disk refuses one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zklockbench_core::disk::{self, MIB};
use zklockbench_core::error::Error;
use zklockbench_core::units::{one_line, shown};

/// The page of a run; `report` may have made it again.
pub const REPORT: &str = "report.html";
/// What is true of the run as a whole. It is written last: a directory without it is not whole.
pub const RUN: &str = "run.json";
/// A whole run, packed to be kept; its directory has no [`RUN`].
pub const PACKED: &str = "run.tar.gz";
/// One row for each trial, every number that one would plot.
pub const SUMMARY: &str = "summary.csv";
/// One row for each second of each trial.
pub const TIMELINE: &str = "timeline.csv";
/// One row for each fault of each trial; there only when there were faults.
pub const FAULTS: &str = "faults.csv";
/// What a calibration came to; it lies in a directory of its own.
pub const CALIBRATION: &str = "calibration.json";
/// The folder with one `.json` and one `.hlog` for each trial.
pub const TRIALS: &str = "trials";
/// The folder for charts; there only where one was drawn.
pub const CHARTS: &str = "charts";
/// The folder for the logs of servers that the suite started.
pub const SERVER_LOGS: &str = "server-logs";

/// The name of a run: the scenario's name and the UTC time at which the run began, in a form that every
/// file system takes, such as `quick-2026-11-21T08-45-08Z`.
pub fn run_name(scenario: &str, began: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(began).to_string().replace(':', "-");
    format!("{scenario}-{time}")
}

/// That name, or with `-2`, `-3` ... the same for the next attempt, when another run has taken it.
pub(super) fn numbered(name: &str, attempt: u32) -> String {
    if attempt < 2 { name.to_owned() } else { format!("{name}-{attempt}") }
}

/// The directory of a run that is not over: hidden, beside the final one, so on the same file system.
pub fn partial(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.partial"))
}

/// The final name, of a hidden one.
pub(super) fn of_partial(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".partial")
}

pub(super) fn is_partial(dir: &Path) -> bool {
    of_partial(&dir.file_name().unwrap_or_default().to_string_lossy()).is_some() && dir.is_dir()
}

/// A trial's numbers: `trials/007.json`.
pub fn trial_json(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.json"))
}

/// The trial whose numbers lie in a file of that name; `None` for any other file.
pub(super) fn trial_number(file: &str) -> Option<usize> {
    file.strip_suffix(".json")?.parse().ok()
}

/// The trial that a file of that name belongs to; `None` where it belongs to none.
pub(super) fn trial_of(file: &str) -> Option<usize> {
    let (number, rest) = file.split_once('.')?;
    ["json", "hlog", "history.jsonl"].contains(&rest).then(|| number.parse().ok())?
}

/// A trial's histograms: `trials/007.hlog`.
pub fn trial_hlog(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.hlog"))
}

/// What the contenders of a trial did: `trials/007.history.jsonl`, where a history was asked for.
pub fn trial_history(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.history.jsonl"))
}

/// The most bytes that are read of a file of that name in a directory of results: more than any run comes to. What holds
/// trials, counted up to the most that a plan may have, is kept in memory; other files are only hashed or copied.
pub(super) fn most(name: &str) -> u64 {
    match name.strip_prefix(TRIALS).and_then(|rest| rest.strip_prefix('/')) {
        Some(trial) if trial.ends_with(".json") => 64 * MIB,
        Some(trial) if trial.ends_with(".hlog") => 16 * MIB,
        // Histories.
        Some(_) => 64 * 1024 * MIB,
        None if name == RUN => 4 * MIB,
        None => 4 * 1024 * MIB,
    }
}

pub fn check_name(name: &str) -> Result<(), Error> {
    let one_step = Path::new(name).file_name().is_some_and(|last| last == name);
    // Other systems take a backslash for a step.
    if one_step && !name.starts_with('.') && !name.contains('\\') && one_line(name) == name {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{}` cannot name a run; give one directory name, without `/`, `\\` and control characters, and without a dot in \
         front",
        shown(name, 60)
    )))
}

/// Whether it is a run directory, or half of one, which reading then says.
fn is_run(path: &Path) -> bool {
    disk::has(path, RUN) || path.join(TRIALS).is_dir()
}

/// The run directories in a directory, by their names; that directory alone where it is one itself. Hidden ones are of runs
/// that are not over, and links are not followed.
pub fn runs_in(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if is_run(path) {
        return Ok(vec![path.to_owned()]);
    }
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = disk::directories(path).map_err(|error| cannot("read", path, &error))?;
    found.retain(|path| is_run(path));
    Ok(found)
}

pub(super) fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!("cannot {what} {}: {error}; {}", path.display(), remedy(error.kind())))
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or choose a directory on another disk"
        }
        ErrorKind::PermissionDenied => "give yourself the right to it, or choose another directory",
        ErrorKind::ReadOnlyFilesystem => "choose a directory that can be written to",
        ErrorKind::NotFound => "check whether it was removed or renamed meanwhile",
        _ => "check the disk, or choose another directory",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_is_named_after_its_scenario_and_the_second_it_began() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_250_708_900);
        assert_eq!(run_name("quick", began), "quick-2026-11-21T08-45-08Z");
        assert_eq!([1, 2, 3].map(|attempt| numbered("quick", attempt)), ["quick", "quick-2", "quick-3"]);
    }

    #[test]
    fn a_chosen_name_is_one_visible_step() {
        assert!(check_name("before-upgrade").is_ok());
        for name in ["", ".", "..", ".hidden", "a/b", "/a", "a/", "a\\b", "a\nb", "a\u{1b}[2J", "a\u{202e}b"]
        {
            assert!(matches!(check_name(name), Err(Error::Usage(_))), "{name}");
        }
    }

    #[test]
    fn trials_are_numbered_so_that_they_sort() {
        assert_eq!(trial_json(Path::new("r"), 7), Path::new("r/trials/007.json"));
        assert_eq!(trial_hlog(Path::new("r"), 1234), Path::new("r/trials/1234.hlog"));
    }

    #[test]
    fn a_full_disk_is_told_with_its_path_and_its_remedy() {
        let error = std::io::Error::from(ErrorKind::StorageFull);
        let told = cannot("write", Path::new("out/run.json"), &error);
        assert!(matches!(told, Error::Environment(_)));
        assert!(told.to_string().starts_with("cannot write out/run.json: "), "{told}");
        assert!(
            told.to_string().ends_with("free some space, or choose a directory on another disk"),
            "{told}"
        );
    }
}
