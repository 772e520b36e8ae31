//! Names of run directories and their files, and remedies for file system errors.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use zklockbench_core::disk::{self, MIB};
use zklockbench_core::error::Error;
use zklockbench_core::units::{one_line, shown};

/// HTML page of a run. The `report` command may rewrite it.
pub const REPORT: &str = "report.html";
/// Facts about the run as a whole, rewritten after each trial. A directory without this file is incomplete.
pub const RUN: &str = "run.json";
/// A compressed run, in a directory without [`RUN`].
pub const PACKED: &str = "run.tar.gz";
/// Table with one row per trial, containing every number worth plotting.
pub const SUMMARY: &str = "summary.csv";
/// Table with one row per second of each trial.
pub const TIMELINE: &str = "timeline.csv";
/// Table with one row per fault of each trial; absent if no trial had faults.
pub const FAULTS: &str = "faults.csv";
/// Result of a calibration, in its own directory.
pub const CALIBRATION: &str = "calibration.json";
/// Folder with one `.json` and one `.hlog` per trial.
pub const TRIALS: &str = "trials";
/// Folder for charts; absent if there are no charts.
pub const CHARTS: &str = "charts";
/// Folder for logs of servers that the suite started.
pub const SERVER_LOGS: &str = "server-logs";

/// Name of a run: the scenario's name and the UTC start time, e.g. `quick-2026-11-21T08-45-08Z`.
pub fn run_name(scenario: &str, began: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(began).to_string().replace(':', "-");
    format!("{scenario}-{time}")
}

/// Returns the name for an attempt; later attempts append `-2`, `-3` and so on.
pub(super) fn numbered(name: &str, attempt: u32) -> String {
    if attempt < 2 { name.to_owned() } else { format!("{name}-{attempt}") }
}

/// Directory of a run in progress: hidden, and next to the final one so that both are on the same file
/// system.
pub fn partial(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!(".{name}.partial"))
}

/// Final name of a hidden directory.
pub(super) fn of_partial(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(".partial")
}

pub(super) fn is_partial(dir: &Path) -> bool {
    of_partial(&dir.file_name().unwrap_or_default().to_string_lossy()).is_some() && dir.is_dir()
}

/// Path of a trial's results: `trials/007.json`.
pub fn trial_json(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.json"))
}

/// Number of the trial whose JSON file has this name, relative to the run; `None` for any other file.
pub(super) fn trial_number(name: &str) -> Option<usize> {
    trial_of(name).filter(|_| name.ends_with(".json"))
}

/// Number of the trial that a file belongs to; `None` if the file belongs to no trial.
fn trial_of(name: &str) -> Option<usize> {
    let (number, rest) = name.strip_prefix(TRIALS)?.strip_prefix('/')?.split_once('.')?;
    let index = number.parse().ok().filter(|index: &usize| format!("{index:03}") == number)?;
    ["json", "hlog", "history.jsonl"].contains(&rest).then_some(index)
}

/// Names of all trials' files relative to the run, each with the trial's number.
pub(super) fn files_of_trials(run: &Path) -> io::Result<Vec<(String, usize)>> {
    let names =
        fs::read_dir(run.join(TRIALS))?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names = names.map(|name| format!("{TRIALS}/{name}"));
    Ok(names.filter_map(|name| trial_of(&name).map(|number| (name, number))).collect())
}

/// Path of a trial's histograms: `trials/007.hlog`.
pub fn trial_hlog(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.hlog"))
}

/// Path of a trial's history, if one was requested: `trials/007.history.jsonl`.
pub fn trial_history(run: &Path, index: usize) -> PathBuf {
    run.join(TRIALS).join(format!("{index:03}.history.jsonl"))
}

/// Returns the maximum size in bytes of a file of a run, which depends on its kind.
pub(super) fn most(name: &str) -> u64 {
    match name.strip_prefix(TRIALS).and_then(|rest| rest.strip_prefix('/')) {
        Some(trial) if trial.ends_with(".json") => 256 * MIB,
        Some(trial) if trial.ends_with(".hlog") => 16 * MIB,
        Some(_) => 64 * 1024 * MIB,
        None if name == RUN => 16 * MIB,
        None => 4 * 1024 * MIB,
    }
}

pub fn check_name(name: &str) -> Result<(), Error> {
    let one_step = Path::new(name).file_name().is_some_and(|last| last == name);
    // Other systems treat a backslash as a separator.
    if one_step && !name.starts_with('.') && !name.contains('\\') && one_line(name) == name {
        return Ok(());
    }
    Err(Error::usage(format!(
        "`{}` is not a valid run name; use one directory name without `/`, `\\`, control characters \
         or a leading dot",
        shown(name, 60)
    )))
}

/// Whether the directory is a complete or incomplete run.
fn is_run(path: &Path) -> bool {
    disk::has(path, RUN) || path.join(TRIALS).is_dir()
}

/// Run directories in a directory, sorted by name, or the directory itself if it is a run. Hidden directories
/// and links are skipped.
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

pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> Error {
    Error::environment(format!("cannot {what} {}: {error}; {}", path.display(), remedy(error.kind())))
}

fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or choose a directory on another disk"
        }
        ErrorKind::PermissionDenied => "fix its permissions, or choose another directory",
        ErrorKind::ReadOnlyFilesystem => "choose a writable directory",
        ErrorKind::NotFound => "check whether it was removed or renamed",
        ErrorKind::AlreadyExists | ErrorKind::DirectoryNotEmpty => "rename the existing file or directory",
        ErrorKind::InvalidFilename => "choose a shorter name",
        _ => "check the disk, or choose another directory",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use zklockbench_core::measure::Second;

    #[test]
    fn run_name_contains_the_scenario_and_the_start_time() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_250_708_900);
        assert_eq!(run_name("quick", began), "quick-2026-11-21T08-45-08Z");
        assert_eq!([1, 2, 3].map(|attempt| numbered("quick", attempt)), ["quick", "quick-2", "quick-3"]);
    }

    #[test]
    fn check_name_accepts_only_one_visible_path_component() {
        assert!(check_name("before-upgrade").is_ok());
        for name in ["", ".", "..", ".hidden", "a/b", "/a", "a/", "a\\b", "a\nb", "a\u{1b}[2J", "a\u{202e}b"]
        {
            assert!(matches!(check_name(name), Err(Error::Usage(_))), "{name}");
        }
    }

    #[test]
    fn trial_file_names_have_at_least_three_digits() {
        assert_eq!(trial_json(Path::new("r"), 7), Path::new("r/trials/007.json"));
        assert_eq!(trial_hlog(Path::new("r"), 1234), Path::new("r/trials/1234.hlog"));
        let names =
            ["007.json", "1234.hlog", "000.history.jsonl", "7.json", "+07.json", "0007.json", "007.bak"];
        let found = [Some(7), Some(1234), Some(0), None, None, None, None];
        assert_eq!(names.map(|name| trial_of(&format!("trials/{name}"))), found);
        assert_eq!(trial_of("007.json"), None);
    }

    #[test]
    fn the_longest_run_and_trial_are_not_too_large_to_read() {
        // A scenario has at most 10,000 trials, each of which may be rerun once.
        let digests = 20_000 * 3 * ("    \"trials/00000.history.jsonl\": \"\",\n".len() + 64);
        assert!(most(RUN) > digests as u64 + MIB);
        // A trial lasts at most a week, and has at most 100,000 contenders.
        let (count, us) = (1_000_000, 10_000_000_000);
        let second = Second {
            acquisitions: count,
            requests: count,
            notifications: count,
            offered: count,
            waits: count,
            wait_us: us,
            service_us: us,
            handoffs: count,
            handoff_us: us,
        };
        let second = serde_json::to_string_pretty(&BTreeMap::from([("timeline", [second])])).unwrap().len();
        assert!(most("trials/000.json") > second as u64 * 7 * 24 * 3_600 + 32 * MIB);
    }

    #[test]
    fn file_system_errors_contain_the_path_and_a_remedy() {
        for (kind, remedy) in [
            (ErrorKind::StorageFull, "free some space, or choose a directory on another disk"),
            (ErrorKind::DirectoryNotEmpty, "rename the existing file or directory"),
            (ErrorKind::InvalidFilename, "choose a shorter name"),
        ] {
            let told = cannot("write", Path::new("out/run.json"), &kind.into());
            assert!(matches!(told, Error::Environment(_)));
            let told = told.to_string();
            assert!(told.starts_with("cannot write out/run.json: ") && told.ends_with(remedy), "{told}");
        }
    }
}
