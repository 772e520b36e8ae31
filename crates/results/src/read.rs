//! Reads a complete run directory, packed or not. Errors identify the faulty file and suggest a remedy.
//!
//! Invalid directories are usage errors; I/O errors are environment errors.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use tar::Archive;

use super::files::{
    BLANK, RunFile, SCHEMA_VERSION, StoredRun, TrialFile, VersionedFile, digest_in, digest_of,
};
use super::{hlog, layout};
use zklockbench_core::disk::{self, MIB, Unreadable};
use zklockbench_core::error::Error;
use zklockbench_core::measure::{Latency, Measure};
use zklockbench_core::units::counted;
use zklockbench_record::{Run, RunEnding, Trial};

/// Version and remedy of `run.json`, which also apply to the trials' files.
const RUN_FILE: VersionedFile = VersionedFile {
    of: "run",
    name: layout::RUN,
    version: SCHEMA_VERSION,
    remedy: "the directory was modified or damaged after the run; restore it from a copy, or run the scenario again",
};

/// Maximum size of a packed run, in bytes.
const PACKED_AT_MOST: u64 = 64 * MIB;
const UNPACKED_AT_MOST: u64 = 1024 * MIB;

pub fn read(dir: &Path) -> Result<StoredRun, Error> {
    let run = read_run(dir)?;
    let trials = trial_numbers(dir, &run)?;
    unchanged(dir, &run)?;
    let trials = trials.into_iter().map(|index| read_trial(dir, index)).collect::<Result<_, _>>()?;
    Ok(StoredRun::of(run, trials))
}

/// Returns the record of a run, but not its trials. Accepts the final or the hidden path.
pub fn recorded_run(dir: &Path) -> Result<Run, Error> {
    Ok(read_run(&super::staging::left_at(dir))?.run)
}

pub fn read_packed(dir: &Path) -> Result<StoredRun, Error> {
    let path = dir.join(layout::PACKED);
    let packed = disk::open(dir, Path::new(layout::PACKED), PACKED_AT_MOST).map_err(|why| why.of(&path))?;
    let place = tempfile::tempdir().map_err(Error::environment)?;
    unpack(GzDecoder::new(packed).take(UNPACKED_AT_MOST), place.path())
        .map_err(|why| Error::usage(format!("{}: {why}; restore it from a copy", path.display())))?;
    read(place.path())
}

fn unpack(packed: impl Read, into: &Path) -> Result<(), String> {
    let mut archive = Archive::new(packed);
    let not_whole = |error: std::io::Error| format!("not a complete archive: {error}");
    for entry in archive.entries().map_err(not_whole)? {
        let mut entry = entry.map_err(not_whole)?;
        let kind = entry.header().entry_type();
        if !(kind.is_file() || kind.is_dir()) || !entry.unpack_in(into).map_err(not_whole)? {
            return Err(format!(
                "contains `{}`, which does not belong to a run",
                String::from_utf8_lossy(&entry.path_bytes())
            ));
        }
    }
    Ok(())
}

pub(super) fn read_run(dir: &Path) -> Result<RunFile, Error> {
    let path = dir.join(layout::RUN);
    match disk::read(dir, layout::RUN, layout::most(layout::RUN)) {
        Ok(bytes) => {
            let run: RunFile = of_this_version::<_, Run>(&path, &bytes)?;
            return if is_own_digest(&bytes, &run.digest) { Ok(run) } else { Err(changed(&path)) };
        }
        // Missing files and directories are reported below.
        Err(Unreadable::Missing) => {}
        Err(_) if !dir.is_dir() => {}
        Err(why) => return Err(unreadable(&path, why)),
    }
    let dir_shown = dir.display();
    Err(Error::usage(if !dir.is_dir() {
        format!("{dir_shown} is not a directory; specify the directory of a run")
    } else if dir.join(layout::TRIALS).is_dir() {
        format!(
            "{dir_shown} is an incomplete run: it has no {}, because no trial has finished yet, or the run was \
             killed before the first trial finished; run the scenario again",
            layout::RUN
        )
    } else {
        format!("{dir_shown} is not a run directory: it has no {}", layout::RUN)
    }))
}

fn is_own_digest(bytes: &[u8], digest: &str) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let blank = |(head, tail): (&str, &str)| [head, BLANK, tail].concat();
    digest.len() == BLANK.len()
        && text.rsplit_once(digest).map(blank).is_some_and(|blank| digest_of(blank.as_bytes()) == digest)
}

/// Rendered or copied files that may be deleted to save space. If they exist, they must be unchanged, except
/// the report.
const CAN_BE_MISSING: [&str; 4] = ["charts/", "server-logs/", "summary.md", layout::REPORT];

fn unchanged(dir: &Path, run: &RunFile) -> Result<(), Error> {
    for (name, digest) in &run.files {
        let path = dir.join(name);
        match digest_in(dir, name) {
            Ok(now) if now == *digest => {}
            // The report may have been rewritten; it is only derived from the other files.
            Ok(_) if name == layout::REPORT => {}
            Ok(_) => return Err(changed(&path)),
            Err(Unreadable::Missing) if CAN_BE_MISSING.iter().any(|part| name.starts_with(part)) => {}
            Err(why) => return Err(unreadable(&path, why)),
        }
    }
    Ok(())
}

/// Reads a run that will be resumed. Includes replaced trials, and complete trials that `run.json` does not
/// count yet.
pub(super) fn read_to_resume(dir: &Path) -> Result<StoredRun, Error> {
    let mut stored = read(dir)?;
    stored.trials.append(&mut stored.replaced);
    if may_have_more(dir, &stored.run) {
        let uncounted =
            numbers_in(dir)?.into_iter().filter(|number| undigested(dir, &stored.run, *number).is_some());
        stored.trials.extend(uncounted.filter_map(|number| read_trial(dir, number).ok()).collect::<Vec<_>>());
    }
    stored.trials.sort_by_key(|trial| trial.spec.index);
    Ok(stored)
}

/// Whether a directory may have trials that its run does not count, because the run did not complete.
fn may_have_more(dir: &Path, run: &RunFile) -> bool {
    layout::is_partial(dir) || run.outcome.ending != RunEnding::Complete
}

/// Numbers of all trials in a directory, in order.
fn numbers_in(dir: &Path) -> Result<Vec<usize>, Error> {
    let folder = dir.join(layout::TRIALS);
    // Links to directories are also rejected.
    if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(broken(&folder, "is not a directory"));
    }
    let files = layout::files_of_trials(dir).map_err(|error| unreadable(&folder, error.into()))?;
    let mut numbers: Vec<usize> = files.iter().filter_map(|(name, _)| layout::trial_number(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Returns the trial's first file without a digest in the run, if there is one.
fn undigested(dir: &Path, run: &RunFile, number: usize) -> Option<PathBuf> {
    let files = [layout::trial_json(dir, number), layout::trial_hlog(dir, number)];
    files.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !run.files.contains_key(&format!("{}/{name}", layout::TRIALS))
    })
}

/// Returns the numbers of the existing trials, in order. Checks that the run counts each trial and has the digests of
/// its files. Trials that could not start leave gaps, and an unfinished run may have further trials.
fn trial_numbers(dir: &Path, run: &RunFile) -> Result<Vec<usize>, Error> {
    let mut numbers = numbers_in(dir)?;
    let undigested = |number: &usize| undigested(dir, run, *number);
    if may_have_more(dir, run) {
        numbers.retain(|number| undigested(number).is_none());
    }
    let trials = || counted(run.trials, "trial", "trials");
    if numbers.len() < run.trials {
        let listed = run.files.keys().filter_map(|name| layout::trial_number(name));
        let lost = listed.filter(|number| numbers.binary_search(number).is_err()).min();
        let path = layout::trial_json(dir, lost.unwrap_or(numbers.len()));
        return Err(broken(&path, &format!("is missing, though the run had {}", trials())));
    }
    if let Some(beyond) = numbers.get(run.trials) {
        let path = layout::trial_json(dir, *beyond);
        return Err(broken(&path, &format!("is unexpected: {} counts {}", layout::RUN, trials())));
    }
    match numbers.iter().find_map(undigested) {
        Some(path) => Err(broken(&path, &format!("has no digest in {}", layout::RUN))),
        None => Ok(numbers),
    }
}

fn read_trial(dir: &Path, index: usize) -> Result<Trial, Error> {
    let json = layout::trial_json(dir, index);
    let mut file: TrialFile<'static> = of_this_version::<_, Trial>(&json, &read_bytes(dir, &json)?)?;
    let path = layout::trial_hlog(dir, index);
    let log = read_bytes(dir, &path)?;
    let trial = file.trial.to_mut();
    trial.histograms =
        hlog::read(&log).map_err(|(line, what)| broken(&path, &format!("line {line}: {what}")))?;
    if trial.spec.index != index {
        return Err(broken(&json, &format!("contains trial {}", trial.spec.index)));
    }
    match contradictions(&file).into_iter().next() {
        Some(what) => Err(broken(&json, &format!("is inconsistent: {what}"))),
        None => Ok(file.trial.into_owned()),
    }
}

/// Reads a file that mostly consists of a flattened record. On failure, parses the record alone, because
/// errors in flattened fields do not name the field.
fn of_this_version<T: DeserializeOwned, Recorded: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
) -> Result<T, Error> {
    RUN_FILE
        .parse(path, bytes)
        .map_err(|error| RUN_FILE.parse::<Recorded>(path, bytes).err().unwrap_or(error))
}

/// Reads a file in a results directory, given its full path.
pub(super) fn read_bytes(dir: &Path, path: &Path) -> Result<Vec<u8>, Error> {
    let name = path.strip_prefix(dir).unwrap_or(path);
    disk::read(dir, name, layout::most(&name.to_string_lossy())).map_err(|why| unreadable(path, why))
}

fn unreadable(path: &Path, why: Unreadable) -> Error {
    RUN_FILE.unreadable(path, why)
}

fn broken(path: &Path, what: &str) -> Error {
    RUN_FILE.broken(path, what)
}

fn changed(path: &Path) -> Error {
    broken(path, "was modified: its digest in run.json is different")
}

/// Returns contradictions between one trial's numbers, which show that a file and its digest were changed.
fn contradictions(file: &TrialFile<'_>) -> Vec<String> {
    let mut found = in_spans(&file.trial);
    found.extend(in_histograms(file));
    found.extend(in_violations(&file.trial));
    if file.derived.contradicts(&file.trial.derived()) {
        found.push("`derived` does not follow from the counts".to_owned());
    }
    found
}

/// Checks that the measured phase is part of the trial, and that the contenders' acquisitions add up.
fn in_spans(trial: &Trial) -> Vec<String> {
    let (part, whole) = (&trial.measured, &trial.whole);
    // Unseen requests are missing from the totals.
    let seen = |count: u64| (whole.unseen == 0).then_some(count);
    let pairs = [
        ("requests", part.requests.total(), seen(whole.requests.total())),
        ("notifications", part.notifications.total(), seen(whole.notifications.total())),
        ("acquisitions", part.acquired(), Some(whole.acquired())),
        ("releases", part.releases, Some(whole.releases)),
    ];
    let known = pairs.into_iter().filter_map(|(what, part, whole)| Some((what, part, whole?)));
    let larger = known.filter(|(_, part, whole)| part > whole).map(|(what, part, whole)| {
        format!("{what}: {part} in the measured phase, but {whole} in the whole trial")
    });
    let (acquired, tallies) =
        (part.acquired(), trial.tallies.iter().map(|tally| tally.acquired).sum::<u64>());
    let differs =
        (acquired != tallies).then(|| format!("acquisitions: {acquired} in one place, {tallies} in another"));
    larger.chain(differs).collect()
}

/// Checks that the JSON and the `.hlog` were written from the same histograms.
fn in_histograms(file: &TrialFile<'_>) -> Vec<String> {
    let found = file.trial.latencies();
    let names = file.latencies.keys().chain(found.keys()).collect::<std::collections::BTreeSet<_>>();
    let differ = |measure: &&Measure| {
        let [said, found] = [&file.latencies, &found].map(|all| all.get(measure));
        // For parts of a wait, earlier versions recorded only served waits.
        let served = || file.trial.histograms.get(*measure).and_then(Latency::of);
        let is_part = measure.open_parts().is_some() && **measure != Measure::Wait;
        let agrees = said == found || is_part && said.copied() == served();
        (!agrees).then(|| format!("`{}`: the JSON and the .hlog have different numbers", measure.name()))
    };
    names.iter().filter_map(differ).collect()
}

fn violations(count: u64) -> String {
    counted(count, "violation", "violations")
}

/// Checks that no more violations are described than counted, and that violations come with an overlap.
fn in_violations(trial: &Trial) -> Vec<String> {
    let detailed = trial.violations.len() as u64;
    let more = (detailed > trial.violation_count).then(|| {
        format!("{} described in detail, but {} counted", violations(detailed), trial.violation_count)
    });
    let none = trial.violation_count > 0 && trial.most_inside < 2;
    let alone = none.then(|| format!("{}, but no overlap", violations(trial.violation_count)));
    [more, alone].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_run_is_read_but_paths_outside_it_are_rejected() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/example");
        let packed = |name: &str, kind| {
            let mut archive = tar::Builder::new(Vec::new());
            archive.append_dir_all(".", &example).unwrap();
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(0);
            header.set_mode(0o644);
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            archive.append(&header, std::io::empty()).unwrap();
            archive.into_inner().unwrap()
        };
        let unpacked = |name, kind| {
            let place = tempfile::tempdir().unwrap();
            unpack(&packed(name, kind)[..], place.path())?;
            read(place.path()).map_err(|error| error.to_string())
        };
        // Given the example, packed with an extra file
        let whole = unpacked("note", tar::EntryType::Regular).unwrap();
        assert_eq!(whole.trials.len(), read(&example).unwrap().trials.len());
        // Then paths outside the run, links and truncated archives are rejected
        assert!(unpacked("../note", tar::EntryType::Regular).unwrap_err().contains("`../note`"));
        assert!(unpacked("link", tar::EntryType::Symlink).unwrap_err().contains("`link`"));
        let half = &packed("note", tar::EntryType::Regular)[..10_000];
        let place = tempfile::tempdir().unwrap();
        assert!(unpack(half, place.path()).is_err() || read(place.path()).is_err());
    }
}
