//! Writing a run directory: each trial as it ends, the run at the end, then everything visible at once.
//!
//! The order is held by types: a [`RunWriter`] takes trials; sealing it writes what is true of the whole and
//! gives a [`SealedRun`], which alone can be published. So no published directory lacks its `run.json`. What is true so
//! far is also written after each trial: whatever ends the run then, what was measured can be read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use super::files::{RunFile, SCHEMA_VERSION, TrialFile};
use super::layout::cannot;
use super::staging::Staging;
use super::{digest, faults, hlog, layout, summary, timeline};
use crate::disk;
use crate::error::Error;
use crate::record::{Floor, Judged, Precision, Run, RunOutcome, Trial};

/// A run that is going on, in a hidden directory beside its final one. Dropped, it leaves nothing before its first trial has
/// ended, and after that a partial run.
#[derive(Debug)]
pub struct RunWriter {
    staging: Staging,
    trials: usize,
    floor: Option<Floor>,
    /// What is true of the run before its end; `None` where nobody said it.
    begun: Option<Run>,
    /// The digests of the trials' files.
    digests: BTreeMap<String, String>,
}

impl RunWriter {
    /// Begins a run directory of exactly that name below that parent, which is created if it is missing.
    ///
    /// # Errors
    /// [`Error::Usage`] when the name cannot name a run or is taken, or the parent is no directory;
    /// [`Error::Environment`] when the parent cannot be written to.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        layout::check_name(name)?;
        let staging = Staging::claim(parent, name)?.ok_or_else(|| taken(parent, name))?;
        Self::within(staging)
    }

    /// Begins a run directory named after the scenario and the time; when the name is taken, `-2` and so on
    /// is appended.
    ///
    /// # Errors
    /// As [`RunWriter::create`].
    pub fn create_dated(parent: &Path, scenario: &str, began: SystemTime) -> Result<Self, Error> {
        layout::check_name(&layout::run_name(scenario, began))?;
        Self::within(Staging::claim_dated(parent, scenario, began)?)
    }

    fn within(staging: Staging) -> Result<Self, Error> {
        let trials = staging.dir().join(layout::TRIALS);
        fs::create_dir(&trials).map_err(|e| cannot("create", &trials, &e))?;
        Ok(Self { staging, trials: 0, floor: None, begun: None, digests: BTreeMap::new() })
    }

    /// With what handoffs and uncontended acquires of the trials to come are compared.
    pub fn compare_with(&mut self, floor: Floor) {
        self.floor = Some(floor);
    }

    /// What is true of the run before its first trial. With that the directory can be read after each trial.
    pub fn begins(&mut self, run: Run) {
        self.begun = Some(run);
    }

    /// Names who hears where the directory is when the run is broken off and its trials are kept.
    pub fn tell_if_kept(&mut self, tell: fn(&Path)) {
        self.staging.tell_if_kept(tell);
    }

    /// Where the files are written now.
    pub fn dir(&self) -> &Path {
        self.staging.dir()
    }

    /// Where the logs of servers belong. The folder is not created before somebody has logs.
    pub fn server_logs(&self) -> PathBuf {
        self.dir().join(layout::SERVER_LOGS)
    }

    /// Writes all that a trial yielded at once, so that a crash later in the run does not lose it. Leaves nothing of it
    /// where that fails.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the file that could not be written.
    pub fn trial(&mut self, trial: &Trial) -> Result<(), Error> {
        let (dir, index) = (self.dir().to_owned(), trial.spec.index);
        if let Err(error) = self.write_trial(&dir, trial) {
            for path in [layout::trial_json(&dir, index), layout::trial_hlog(&dir, index)] {
                let _ = fs::remove_file(path);
            }
            return Err(error);
        }
        self.trials += 1;
        self.staging.keep();
        Ok(())
    }

    fn write_trial(&self, dir: &Path, trial: &Trial) -> Result<(), Error> {
        let (index, header) = (trial.spec.index, self.trials == 0);
        let file = TrialFile::from(trial);
        write_json(&layout::trial_json(dir, index), &file)?;
        write_file(&layout::trial_hlog(dir, index), |out| {
            hlog::write(out, hlog::Span::measured(trial), &trial.histograms)
        })?;
        let row = summary::Row { file: &file, floor: self.floor.as_ref() };
        append(&dir.join(layout::SUMMARY), |out| summary::write(out, &row, header))?;
        append(&dir.join(layout::TIMELINE), |out| timeline::write(out, trial, header))?;
        if !trial.faults.is_empty() {
            let path = dir.join(layout::FAULTS);
            let header = !path.exists();
            append(&path, |out| faults::write(out, trial, header))?;
        }
        Ok(())
    }

    /// Writes what the run comes to so far, as a run that was interrupted: what whoever reads the directory finds if it goes
    /// no further.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the file that could not be written or read.
    pub fn so_far(
        &mut self,
        planned: usize,
        precision: Option<Precision>,
        judged: Judged,
    ) -> Result<(), Error> {
        self.digest_trials()?;
        let Some(run) = self.begun.clone() else { return Ok(()) };
        let run = Run {
            planned_trials: planned,
            precision,
            ended_at: now(),
            outcome: RunOutcome::INTERRUPTED,
            ..run
        };
        write_run(self.dir(), &self.file(run, judged))
    }

    /// Those of its files that a reader can't do without; what else there is may still grow.
    fn digest_trials(&mut self) -> Result<(), Error> {
        let folder = self.dir().join(layout::TRIALS);
        for entry in fs::read_dir(&folder).map_err(|error| cannot("read", &folder, &error))? {
            let path = entry.map_err(|error| cannot("read", &folder, &error))?.path();
            let name =
                format!("{}/{}", layout::TRIALS, path.file_name().unwrap_or_default().to_string_lossy());
            if let Entry::Vacant(new) = self.digests.entry(name) {
                new.insert(digest::of_file(&path).map_err(|error| cannot("read", &path, &error))?);
            }
        }
        Ok(())
    }

    fn file(&self, run: Run, judged: Judged) -> RunFile {
        let (files, digest) = (self.digests.clone(), digest::BLANK.to_owned());
        RunFile { schema_version: SCHEMA_VERSION, run, judged, trials: self.trials, files, digest }
    }

    /// Writes what is true of the run as a whole, with what was judged of it.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the file that could not be written.
    pub fn seal(mut self, run: Run, judged: Judged) -> Result<SealedRun, Error> {
        self.digest_trials()?;
        let run = self.file(run, judged);
        // What is true so far is there already, where a trial has ended; the rest is tried once more at the end.
        match write_run(self.dir(), &run) {
            Err(error) if !self.dir().join(layout::RUN).is_file() => return Err(error),
            _ => {}
        }
        Ok(SealedRun { staging: self.staging, run, is_finished: false })
    }
}

/// A run directory that is whole but not visible yet: charts and logs can still be added. Dropped, it leaves
/// what it has, if that is a trial at least.
#[derive(Debug)]
pub struct SealedRun {
    staging: Staging,
    run: RunFile,
    is_finished: bool,
}

impl SealedRun {
    /// Where the files lie now; [`super::read()`] reads it.
    pub fn dir(&self) -> &Path {
        self.staging.dir()
    }

    /// The name that its directory will have.
    pub fn name(&self) -> String {
        self.staging.name().to_owned()
    }

    /// Adds a file of what the run comes to.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the file that could not be written.
    pub fn summary(&self, name: &str, summary: &impl Serialize) -> Result<(), Error> {
        write_json(&self.dir().join(name), summary)
    }

    /// Notes the digests of all that is in the directory by now; nothing is added after that. Where that fails, the
    /// directory can be published all the same, and read: it has the digests of its trials.
    ///
    /// # Errors
    /// [`Error::Environment`] naming the file that could not be written or read.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.is_finished = true;
        let dir = self.staging.dir();
        self.run.files = digest::of_all(dir).map_err(|error| cannot("read", dir, &error))?;
        write_run(dir, &self.run)
    }

    /// Makes the directory durable and visible under its final name, with the digests of all that is in it by now.
    /// Returns its path.
    ///
    /// # Errors
    /// [`Error::Environment`] when the disk refuses.
    pub fn publish(mut self) -> Result<PathBuf, Error> {
        if !self.is_finished {
            self.finish()?;
        }
        self.staging.publish()
    }
}

#[expect(clippy::disallowed_methods, reason = "when a run ended is a label")]
fn now() -> SystemTime {
    SystemTime::now()
}

fn write_run(dir: &Path, run: &RunFile) -> Result<(), Error> {
    let path = dir.join(layout::RUN);
    let mut text = serde_json::to_string_pretty(run)
        .map_err(|error| cannot("write", &path, &std::io::Error::other(error)))?;
    text.push('\n');
    let own = digest::of(text.as_bytes());
    // Its place is the last one: a scenario's text may hold as many zeros.
    let text =
        text.rsplit_once(digest::BLANK).map_or_else(String::new, |(head, tail)| [head, &own, tail].concat());
    replace(&path, text.as_bytes())
}

fn taken(parent: &Path, name: &str) -> Error {
    let (end, partial) = (parent.join(name), layout::partial(parent, name));
    if partial.is_dir() {
        return Error::usage(format!(
            "a run named `{name}` is in progress or was killed ({}); choose another name, or delete that \
             directory if nothing writes to it",
            partial.display()
        ));
    }
    Error::usage(format!("{} already exists; choose another name, or move it away", end.display()))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write_file(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Writes a file that may be there already, so that whoever reads it meanwhile or kills this finds the old one or the new.
///
/// # Errors
/// [`Error::Environment`] naming the file.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let written = disk::create_anew(&new).and_then(|mut file| file.write_all(bytes));
    written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
        let _ = fs::remove_file(&new);
        cannot("write", path, &error)
    })
}

/// The same with a value as JSON.
///
/// # Errors
/// As [`replace`].
pub fn replace_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(Error::cannot("write", path))?;
    replace(path, (text + "\n").as_bytes())
}

/// Adds rows to a table, all of them or none.
fn append(path: &Path, rows: impl FnOnce(&mut BufWriter<File>) -> csv::Result<()>) -> Result<(), Error> {
    let written = File::options().create(true).append(true).open(path).and_then(|file| {
        let before = file.metadata()?.len();
        let mut out = BufWriter::new(file);
        let written = rows(&mut out).map_err(Into::into).and_then(|()| out.flush());
        if written.is_err() {
            let (file, _) = out.into_parts();
            let _ = file.set_len(before);
        }
        written
    });
    written.map_err(|error| cannot("write", path, &error))
}

/// Writes a file that is not there yet, whole or not at all.
fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), Error> {
    let written = File::create_new(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        let written = fill(&mut out).and_then(|()| out.flush());
        if written.is_err() {
            // What is left in the buffer is not worth another attempt.
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
    fn a_second_run_within_the_same_second_gets_the_next_number() {
        let parent = tempfile::tempdir().unwrap();
        let began = SystemTime::UNIX_EPOCH;
        let first = RunWriter::create_dated(parent.path(), "quick", began).unwrap();
        let second = RunWriter::create_dated(parent.path(), "quick", began).unwrap();
        assert!(first.dir().ends_with(".quick-1970-01-01T00-00-00Z.partial"), "{first:?}");
        assert!(second.dir().ends_with(".quick-1970-01-01T00-00-00Z-2.partial"), "{second:?}");
    }

    #[test]
    fn a_chosen_name_that_is_taken_is_refused_and_what_took_it_is_named() {
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
    fn a_parent_that_is_a_file_is_named_in_the_error() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        for below in [file.clone(), file.join("deeper")] {
            let error = RunWriter::create(&below, "quick").unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{error:?}");
            let (below, file) = (below.display(), file.display());
            let told = format!(
                "cannot write results to {below}: {file} is not a directory; choose another with --out"
            );
            assert!(error.to_string().ends_with(&told), "{error}");
        }
    }
}
