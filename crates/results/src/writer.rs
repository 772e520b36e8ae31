//! Writes a run directory: each trial when it ends, the run at the end. A rename then makes the directory
//! visible.
//!
//! Types enforce the order: a [`RunWriter`] takes trials, and sealing it returns a [`SealedRun`], the only
//! type that can be published. A preliminary `run.json` is written after each trial, so that measurements are
//! readable however the run ends.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use serde::Serialize;

use super::files::{
    BLANK, RunFile, SCHEMA_VERSION, StoredRun, TrialFile, digest_in, digest_of, digests_of_all,
};
use super::layout::cannot;
use super::read::{read, read_run, read_to_resume};
use super::staging::{ClaimedDirectory, Staging};
use super::{hlog, layout, rows};
use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_record::{Judged, Precision, Run, RunEnding, RunOutcome, Trial};

/// A run in progress, in a hidden directory next to its final one. Dropping the writer removes the directory if
/// no trial has ended, and leaves a partial run otherwise.
#[derive(Debug)]
pub struct RunWriter {
    staging: Staging,
    trials: usize,
    /// Facts about the run that are known before its end.
    begun: Option<Run>,
    digests: BTreeMap<String, String>,
    is_resumed: bool,
    logs: PathBuf,
    /// Numbers of the trials that this writer has written.
    written: Vec<usize>,
    /// Numbers of the trials that were cut short and are rerun.
    made_again: Vec<usize>,
}

pub struct SoFar {
    pub planned: usize,
    pub precision: Option<Precision>,
    pub judged: Judged,
}

/// Outcome of an attempt to resume a run.
#[derive(Debug)]
pub enum Resumed {
    /// The run is complete: its directory and contents.
    Whole(PathBuf, StoredRun),
    /// The run has missing trials.
    Partial(Box<RunWriter>, StoredRun),
}

impl RunWriter {
    /// Creates a run directory with exactly this name in `parent`, which is created if missing.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        layout::check_name(name)?;
        let staging = Staging::claim(parent, name)?.ok_or_else(|| taken(parent, name))?;
        Self::within(staging)
    }

    /// Creates a run directory named after the scenario and the time; if the name is taken, a suffix (`-2`,
    /// `-3`, …) is appended.
    pub fn create_dated(parent: &Path, scenario: &str, began: SystemTime) -> Result<Self, Error> {
        let name = layout::run_name(scenario, began);
        layout::check_name(&name)?;
        Self::within(Staging::claim_numbered(parent, &name)?)
    }

    fn within(staging: Staging) -> Result<Self, Error> {
        let trials = staging.dir().join(layout::TRIALS);
        fs::create_dir(&trials).map_err(|e| cannot("create", &trials, &e))?;
        Ok(Self::of(staging))
    }

    fn of(staging: Staging) -> Self {
        let (written, made_again) = (Vec::new(), Vec::new());
        let (is_resumed, digests, logs) = (false, BTreeMap::new(), PathBuf::from(layout::SERVER_LOGS));
        Self { staging, trials: 0, begun: None, digests, is_resumed, logs, written, made_again }
    }

    /// Resumes a run that was killed, interrupted or aborted. Its directory does not change before
    /// [`RunWriter::begins`].
    pub fn resume(dir: &Path) -> Result<Resumed, Error> {
        let claim = ClaimedDirectory::of(dir)?;
        if claim.is_published() {
            let stored = read(claim.dir())?;
            // Without tables, the run was not finished although all trials ran, e.g. because the disk was full.
            let has_tables = stored.run.files.contains_key(layout::SUMMARY);
            if stored.run.outcome.ending == RunEnding::Complete && has_tables {
                return Ok(Resumed::Whole(claim.dir().to_owned(), stored));
            }
        }
        let stored = read_to_resume(claim.dir())?;
        // A single worker has the whole load.
        if let Some(workers) = stored.run.workers.as_ref().filter(|workers| workers.of > 1) {
            let dir = claim.dir().display();
            let remedy = if workers.is_part() {
                "restart all workers with another --run-id"
            } else {
                "merge the workers' parts again"
            };
            return Err(Error::usage(format!(
                "{dir} was run by several workers and cannot be resumed; {remedy}"
            )));
        }
        let mut folders = [layout::TRIALS, layout::CHARTS, layout::SERVER_LOGS]
            .map(|name| claim.dir().join(name))
            .into_iter();
        if let Some(link) = folders.find(|folder| folder.is_symlink()) {
            let link = link.display();
            return Err(Error::usage(format!("{link} is a link; a run cannot be resumed through a link")));
        }
        let mut writer = Self::of(claim.take_back()?);
        (writer.is_resumed, writer.trials) = (true, stored.trials.len());
        let parts = (2_u32..).map(|part| Path::new(layout::SERVER_LOGS).join(part.to_string()));
        writer.logs = parts.into_iter().find(|part| !disk::has(writer.dir(), part)).unwrap_or_default();
        writer.digests = stored.run.files.clone();
        Ok(Resumed::Partial(Box::new(writer), stored))
    }

    /// Records the facts about the run before its first trial, or before the first new trial of a resumed
    /// run. The directory is readable from this point.
    pub fn begins(&mut self, run: Run, there: &[Trial], judged: Judged) -> Result<(), Error> {
        self.forget_all_but(there)?;
        let (planned, precision) = (run.planned_trials, run.precision.clone());
        self.begun = Some(run);
        self.so_far(SoFar { planned, precision, judged })?;
        if self.is_resumed { self.forget_conclusions() } else { Ok(()) }
    }

    /// Removes files of any other trials, such as incomplete trials of a killed run.
    fn forget_all_but(&mut self, there: &[Trial]) -> Result<(), Error> {
        let counts = |number: usize| there.iter().any(|trial| trial.spec.index == number);
        for (name, _) in self.files_of_trials()?.into_iter().filter(|(_, number)| !counts(*number)) {
            remove(&self.dir().join(name))?;
        }
        self.digests.retain(|name, _| Path::new(name).starts_with(layout::TRIALS));
        Ok(())
    }

    /// Removes reports and tables, because they cover only the earlier trials.
    fn forget_conclusions(&self) -> Result<(), Error> {
        const CONCLUDED: [&str; 6] =
            [layout::REPORT, "summary.json", "summary.md", layout::SUMMARY, layout::TIMELINE, layout::FAULTS];
        CONCLUDED.iter().try_for_each(|name| remove(&self.dir().join(name)))?;
        let charts = fs::read_dir(self.dir().join(layout::CHARTS)).into_iter().flatten().flatten();
        let is_chart = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "svg" || kind == "png");
        charts.map(|entry| entry.path()).filter(is_chart).try_for_each(|path| remove(&path))
    }

    pub fn tell_if_kept(&mut self, tell: fn(&Path)) {
        self.staging.tell_if_kept(tell);
    }

    pub fn dir(&self) -> &Path {
        self.staging.dir()
    }

    /// Directory for server logs; for a resumed run, a new numbered directory. It is created with the first logs.
    pub fn server_logs(&self) -> PathBuf {
        self.dir().join(&self.logs)
    }

    /// Writes the results of a trial at once, so that a later crash does not lose them. On failure, no file
    /// of the trial remains.
    pub fn trial(&mut self, trial: &Trial) -> Result<(), Error> {
        let (dir, index) = (self.dir().to_owned(), trial.spec.index);
        if let Err(error) = self.write_trial(&dir, trial) {
            for path in [layout::trial_json(&dir, index), layout::trial_hlog(&dir, index)] {
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        self.trials += 1;
        self.written.push(index);
        self.staging.keep();
        Ok(())
    }

    fn write_trial(&self, dir: &Path, trial: &Trial) -> Result<(), Error> {
        let (index, file) = (trial.spec.index, TrialFile::from(trial));
        write_json(&layout::trial_json(dir, index), &file)?;
        let measured = [trial.measured_from_us, trial.measured_us].map(Duration::from_micros);
        write_file(&layout::trial_hlog(dir, index), |out| {
            hlog::write(out, trial.started_at, measured, &trial.histograms)
        })
    }

    /// Removes a trial that was cut short and will be rerun. The directory stays readable.
    pub fn forget(&mut self, number: usize, so_far: SoFar) -> Result<(), Error> {
        let mut files = self.files_of_trials()?;
        files.retain(|(_, of)| *of == number);
        files.iter().for_each(|(name, _)| drop(self.digests.remove(name)));
        self.trials -= 1;
        self.made_again.push(number);
        self.note_so_far(so_far)?;
        files.iter().try_for_each(|(name, _)| remove(&self.dir().join(name)))
    }

    /// Writes the current state of the run with a preliminary outcome, so that the directory is readable if the
    /// run is killed.
    pub fn so_far(&mut self, so_far: SoFar) -> Result<(), Error> {
        self.digest_trials()?;
        self.note_so_far(so_far)
    }

    fn note_so_far(&self, SoFar { planned, precision, judged }: SoFar) -> Result<(), Error> {
        let Some(run) = self.begun.clone() else { return Ok(()) };
        let (ended_at, outcome) = (now(), RunOutcome::not_noted());
        let run = Run { planned_trials: planned, precision, ended_at, outcome, ..run };
        write_run(self.dir(), &self.file(run, judged))?;
        reserve(self.dir());
        Ok(())
    }

    /// Computes the digests of the trials' files, which readers require. Other files may still grow.
    fn digest_trials(&mut self) -> Result<(), Error> {
        let mut files = self.files_of_trials()?;
        files.retain(|(name, _)| !self.digests.contains_key(name));
        for (name, _) in files {
            let digest = digest_in(self.dir(), &name).map_err(|why| why.of(&self.dir().join(&name)))?;
            self.digests.insert(name, digest);
        }
        Ok(())
    }

    fn files_of_trials(&self) -> Result<Vec<(String, usize)>, Error> {
        layout::files_of_trials(self.dir())
            .map_err(|error| cannot("read", &self.dir().join(layout::TRIALS), &error))
    }

    fn file(&self, mut run: Run, judged: Judged) -> RunFile {
        // If a resumed run lacked only its final record, no trial was written, and the segments stay unchanged.
        if let [earlier @ .., last] = run.segments.as_mut_slice()
            && !self.written.is_empty()
        {
            earlier.iter_mut().for_each(|one| one.trials.retain(|number| !self.written.contains(number)));
            (last.trials, last.made_again) = (self.written.clone(), self.made_again.clone());
            (last.ended_at, last.outcome) = (run.ended_at, run.outcome.clone());
        }
        let (files, digest) = (self.digests.clone(), BLANK.to_owned());
        RunFile { schema_version: SCHEMA_VERSION, run, judged, trials: self.trials, files, digest }
    }

    pub fn seal(mut self, run: Run, judged: Judged) -> Result<SealedRun, Error> {
        self.digest_trials()?;
        let run = self.file(run, judged);
        // If a trial has ended, a preliminary `run.json` exists, and writing the final file is retried when
        // publishing.
        match write_run(self.dir(), &run) {
            Err(error) if !self.dir().join(layout::RUN).is_file() => return Err(error),
            _ => {}
        }
        let _ = fs::remove_file(fresh(&self.dir().join(layout::RUN)));
        Ok(SealedRun { staging: self.staging, run, is_finished: false })
    }
}

/// A run directory that is complete but not visible yet: charts and logs can still be added. Dropping it
/// keeps the directory if it has a trial.
#[derive(Debug)]
pub struct SealedRun {
    staging: Staging,
    run: RunFile,
    is_finished: bool,
}

impl SealedRun {
    /// Current path of the files, readable by [`super::read()`].
    pub fn dir(&self) -> &Path {
        self.staging.dir()
    }

    pub fn end(&self) -> PathBuf {
        self.staging.end()
    }

    pub fn name(&self) -> String {
        self.staging.name().to_owned()
    }

    pub fn summary(&self, name: &str, summary: &impl Serialize) -> Result<(), Error> {
        write_json(&self.dir().join(name), summary)
    }

    /// Writes the tables, and records the digests of all files in the directory; nothing may be added
    /// afterwards. If that fails, the directory can still be published and read, because it has the digests
    /// of its trials.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.is_finished = true;
        let stored = read(self.dir())?;
        self.finish_with(&stored)
    }

    /// Like [`Self::finish`], for a caller that has read the directory.
    pub fn finish_with(&mut self, stored: &StoredRun) -> Result<(), Error> {
        self.is_finished = true;
        let dir = self.staging.dir();
        write_tables(dir, stored)?;
        self.run.files = digests_of_all(dir).map_err(|error| cannot("read", dir, &error))?;
        write_run(dir, &self.run)
    }

    /// Makes the directory durable and visible under its final name, with the digests of all its files.
    /// Returns its path.
    pub fn publish(mut self) -> Result<PathBuf, Error> {
        if !self.is_finished {
            self.finish()?;
        }
        self.staging.publish()
    }
}

fn write_tables(dir: &Path, stored: &StoredRun) -> Result<(), Error> {
    let mut trials: Vec<&Trial> = stored.trials.iter().chain(&stored.replaced).collect();
    trials.sort_by_key(|trial| trial.spec.index);
    let write = |name: &str, rows: &dyn Fn(&mut BufWriter<File>) -> csv::Result<()>| {
        let path = dir.join(name);
        remove(&path)?;
        write_file(&path, |out| rows(out).map_err(io::Error::from))
    };
    write(layout::SUMMARY, &|out| rows::summary(out, &stored.run, &trials))?;
    write(layout::TIMELINE, &|out| rows::timeline(out, &trials))?;
    match trials.iter().any(|trial| !trial.faults.is_empty()) {
        true => write(layout::FAULTS, &|out| rows::faults(out, &trials)),
        false => Ok(()),
    }
}

#[expect(clippy::disallowed_methods, reason = "the end time of a run is only a label")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn write_run(dir: &Path, run: &RunFile) -> Result<(), Error> {
    let path = dir.join(layout::RUN);
    let mut text = serde_json::to_string_pretty(run)
        .map_err(|error| cannot("write", &path, &io::Error::other(error)))?;
    text.push('\n');
    let own = digest_of(text.as_bytes());
    // The digest is the last match: the scenario's text, which comes earlier, may also contain 64 zeros.
    let text = text.rsplit_once(BLANK).map_or_else(String::new, |(head, tail)| [head, &own, tail].concat());
    replace(&path, text.as_bytes())
}

fn taken(parent: &Path, name: &str) -> Error {
    let (end, partial) = (parent.join(name), layout::partial(parent, name));
    if partial.is_dir() {
        let is_of_workers = read_run(&partial).is_ok_and(|run| run.workers.is_some());
        let remedy = match is_of_workers {
            true => "delete the directory".to_owned(),
            false => format!("resume it with `zklockbench run --resume {}`", end.display()),
        };
        return Error::usage(format!(
            "a run named `{name}` is in progress or was killed ({}); if it was killed, {remedy}, or choose another \
             name",
            partial.display()
        ));
    }
    let can_resume =
        read_run(&end).is_ok_and(|run| run.outcome.ending != RunEnding::Complete && run.workers.is_none());
    let resume = can_resume.then(|| format!("resume it with `zklockbench run --resume {}`, ", end.display()));
    let resume = resume.unwrap_or_default();
    Error::usage(format!("{} already exists; {resume}choose another name, or move it away", end.display()))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write_file(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Replaces a file atomically, so that it always has either the old or the new content.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = fresh(path);
    // Overwriting before truncating keeps the reserved space available on a full disk.
    let written = open_fresh(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)
    });
    written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
        let _ = fs::remove_file(&new);
        cannot("write", path, &error)
    })
}

/// Path of the temporary file that will replace this file.
fn fresh(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Opens the temporary file without truncating its reserved space. A symbolic or hard link at this path is
/// replaced, because the directory may come from an untrusted source.
fn open_fresh(path: &Path) -> io::Result<File> {
    let is_own = path.symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1);
    if !is_own {
        return disk::create_anew(path);
    }
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    File::options().write(true).custom_flags(no_link).open(path)
}

/// Reserves disk space for the next `run.json`, so that the next trial can be recorded on a full disk.
fn reserve(dir: &Path) {
    const A_TRIAL_MORE: u64 = 8 << 10;
    let path = dir.join(layout::RUN);
    let room = path.metadata().map_or(0, |found| found.len()) + A_TRIAL_MORE;
    // If reserving fails, a full disk may keep the next trial out of `run.json` until the run is resumed.
    let _ =
        open_fresh(&fresh(&path)).and_then(|mut file| io::copy(&mut io::repeat(b' ').take(room), &mut file));
}

fn remove(path: &Path) -> Result<(), Error> {
    disk::remove(path).map_err(|error| cannot("delete", path, &error))
}

pub fn replace_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(Error::cannot("write", path))?;
    replace(path, (text + "\n").as_bytes())
}

/// Writes a new file completely or not at all.
fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Error> {
    let written = File::create_new(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        let written = fill(&mut out).and_then(|()| out.flush());
        if written.is_err() {
            // Discards the buffer instead of retrying the write.
            let _ = out.into_parts();
            let _ = fs::remove_file(path);
        }
        written
    });
    written.map_err(|error| cannot("write", path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_run_within_the_same_second_gets_the_next_number() {
        let parent = tempfile::tempdir().unwrap();
        let began = SystemTime::UNIX_EPOCH;
        let first = RunWriter::create_dated(parent.path(), "quick", began).unwrap();
        let second = RunWriter::create_dated(parent.path(), "quick", began).unwrap();
        assert!(first.dir().ends_with(".quick-1970-01-01T00-00-00Z.partial"), "{first:?}");
        assert!(second.dir().ends_with(".quick-1970-01-01T00-00-00Z-2.partial"), "{second:?}");
    }

    #[test]
    fn error_for_a_taken_name_identifies_the_existing_run() {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("done")).unwrap();
        let _going = RunWriter::create(parent.path(), "going").unwrap();
        let done = RunWriter::create(parent.path(), "done").unwrap_err();
        let going = RunWriter::create(parent.path(), "going").unwrap_err();
        assert!(done.to_string().contains("done already exists; choose another name"), "{done}");
        assert!(going.to_string().contains(".going.partial"), "{going}");
        assert!(matches!((done, going), (Error::Usage(_), Error::Usage(_))));
    }

    #[test]
    fn error_identifies_a_parent_that_is_a_file() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for below in [file.clone(), file.join("deeper")] {
            let error = RunWriter::create(&below, "quick").unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error:?}");
            let (below, file) = (below.display(), file.display());
            let expected = format!(
                "cannot write results to {below}: {file} is not a directory; choose another with --out"
            );
            assert!(error.to_string().ends_with(&expected), "{error}");
        }
    }
}
