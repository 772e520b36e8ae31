//! Writing a run directory: each trial as it ends, the run at the end, then everything visible at once.
//!
//! The order is held by types: a [`RunWriter`] takes trials; sealing it writes what is true of the whole and
//! gives a [`SealedRun`], which alone can be published. So no published directory lacks its `run.json`. What is true so
//! far is also written after each trial: whatever ends the run then, what was measured can be read.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::OFlags;
use serde::Serialize;

use super::files::{
    BLANK, RunFile, SCHEMA_VERSION, StoredRun, TrialFile, digest_of, digest_of_file, digests_of_all,
};
use super::layout::cannot;
use super::read::{read, read_run, read_to_resume};
use super::staging::{ClaimedDirectory, Staging};
use super::{hlog, layout, rows};
use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_record::{Floor, Judged, Precision, Run, RunEnding, RunOutcome, Trial};

/// A run that is going on, in a hidden directory beside its final one. Dropped, it leaves nothing before its first trial has
/// ended, and after that a partial run.
#[derive(Debug)]
pub struct RunWriter {
    staging: Staging,
    trials: usize,
    floor: Option<Floor>,
    /// What is true of the run before its end; `None` where it wasn't said.
    begun: Option<Run>,
    digests: BTreeMap<String, String>,
    /// Whether the run had begun before.
    is_resumed: bool,
    logs: PathBuf,
    /// The numbers of the trials that it has written itself, and of those, the ones that were there and are made again.
    written: Vec<usize>,
    made_again: Vec<usize>,
}

/// What a run comes to so far.
pub struct SoFar {
    /// Trials that are to run.
    pub planned: usize,
    pub precision: Option<Precision>,
    pub judged: Judged,
}

/// What there is to do about a run that was to be resumed.
#[derive(Debug)]
pub enum Resumed {
    /// Nothing: it has come to its end. Its directory.
    Whole(PathBuf, StoredRun),
    /// Its missing trials are to be made.
    Partial(Box<RunWriter>, StoredRun),
}

impl RunWriter {
    /// Begins a run directory of exactly that name below that parent, which is created if it is missing.
    pub fn create(parent: &Path, name: &str) -> Result<Self, Error> {
        layout::check_name(name)?;
        let staging = Staging::claim(parent, name)?.ok_or_else(|| taken(parent, name))?;
        Self::within(staging)
    }

    /// Begins a run directory named after the scenario and the time; when the name is taken, `-2` and so on
    /// is appended.
    pub fn create_dated(parent: &Path, scenario: &str, began: SystemTime) -> Result<Self, Error> {
        layout::check_name(&layout::run_name(scenario, began))?;
        Self::within(Staging::claim_dated(parent, scenario, began)?)
    }

    fn within(staging: Staging) -> Result<Self, Error> {
        let trials = staging.dir().join(layout::TRIALS);
        fs::create_dir(&trials).map_err(|e| cannot("create", &trials, &e))?;
        Ok(Self::of(staging))
    }

    fn of(staging: Staging) -> Self {
        let (written, made_again) = (Vec::new(), Vec::new());
        let (is_resumed, digests, logs) = (false, BTreeMap::new(), PathBuf::from(layout::SERVER_LOGS));
        Self { staging, trials: 0, floor: None, begun: None, digests, is_resumed, logs, written, made_again }
    }

    /// Goes on with a run that was killed, interrupted or aborted, by its directory or by the name that it would have had.
    /// Nothing in it changes before [`RunWriter::begins`].
    pub fn resume(dir: &Path) -> Result<Resumed, Error> {
        let claim = ClaimedDirectory::of(dir)?;
        if claim.is_published() {
            let stored = read(claim.dir())?;
            if stored.run.outcome.ending == RunEnding::Complete {
                return Ok(Resumed::Whole(claim.dir().to_owned(), stored));
            }
        }
        let stored = read_to_resume(claim.dir())?;
        for folder in [layout::TRIALS, layout::CHARTS, layout::SERVER_LOGS].map(|name| claim.dir().join(name))
        {
            if folder.is_symlink() {
                let folder = folder.display();
                return Err(Error::usage(format!("{folder} is a link, which a run is not resumed through")));
            }
        }
        let mut writer = Self::of(claim.take_back()?);
        (writer.is_resumed, writer.trials) = (true, stored.trials.len());
        let parts = (2_u32..).map(|part| Path::new(layout::SERVER_LOGS).join(part.to_string()));
        writer.logs = parts.into_iter().find(|part| !disk::has(writer.dir(), part)).unwrap_or_default();
        writer.digests = stored.run.files.clone();
        Ok(Resumed::Partial(Box::new(writer), stored))
    }

    /// With what handoffs and uncontended acquires of the trials to come are compared.
    pub fn compare_with(&mut self, floor: Floor) {
        self.floor = Some(floor);
    }

    /// What is true of the run before its first trial, or before the first after these, of a run that is resumed. With that
    /// the directory can be read at any time.
    pub fn begins(&mut self, run: Run, there: &[Trial], judged: Judged) -> Result<(), Error> {
        self.forget_all_but(there)?;
        let (planned, precision) = (run.planned_trials, run.precision.clone());
        self.begun = Some(run);
        self.so_far(SoFar { planned, precision, judged })?;
        if self.is_resumed { self.anew(there) } else { Ok(()) }
    }

    /// Removes what belongs to none of these trials: a killed run leaves half of one.
    fn forget_all_but(&mut self, there: &[Trial]) -> Result<(), Error> {
        let counts = |number: usize| there.iter().any(|trial| trial.spec.index == number);
        for (name, number) in self.files_of_trials()? {
            let path = self.dir().join(&name);
            if !counts(number) {
                fs::remove_file(&path).map_err(|error| cannot("delete", &path, &error))?;
            }
        }
        let is_of_a_trial =
            |name: &str| name.strip_prefix(layout::TRIALS).is_some_and(|rest| rest.starts_with('/'));
        self.digests.retain(|name, _| is_of_a_trial(name));
        Ok(())
    }

    /// Removes what was concluded from fewer trials, and writes the tables again: a killed run leaves half a row, and a full
    /// disk none.
    fn anew(&self, there: &[Trial]) -> Result<(), Error> {
        const CONCLUDED: [&str; 3] = [layout::REPORT, "summary.json", "summary.md"];
        const TABLES: [&str; 3] = [layout::SUMMARY, layout::TIMELINE, layout::FAULTS];
        for path in CONCLUDED.into_iter().chain(TABLES).map(|name| self.dir().join(name)) {
            remove(&path)?;
        }
        let charts = fs::read_dir(self.dir().join(layout::CHARTS)).into_iter().flatten().flatten();
        for path in charts.map(|entry| entry.path()) {
            if path.extension().is_some_and(|kind| kind == "svg" || kind == "png") {
                remove(&path)?;
            }
        }
        let run = self.begun.as_ref();
        there.iter().try_for_each(|trial| {
            let floor = run.and_then(|run| run.floor_of(trial.spec.index));
            self.add_rows(trial, &TrialFile::from(trial), floor)
        })
    }

    pub fn tell_if_kept(&mut self, tell: fn(&Path)) {
        self.staging.tell_if_kept(tell);
    }

    pub fn dir(&self) -> &Path {
        self.staging.dir()
    }

    /// Where servers' logs belong: of a resumed run, beside those that are there. The folder comes with the first logs.
    pub fn server_logs(&self) -> PathBuf {
        self.dir().join(&self.logs)
    }

    /// Writes all that a trial yielded at once, so that a crash later in the run does not lose it. Leaves nothing of it
    /// where that fails.
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
        write_file(&layout::trial_hlog(dir, index), |out| {
            hlog::write(out, hlog::SampledSpan::measured(trial), &trial.histograms)
        })?;
        self.add_rows(trial, &file, self.floor.as_ref())
    }

    fn add_rows(&self, trial: &Trial, file: &TrialFile<'_>, floor: Option<&Floor>) -> Result<(), Error> {
        let table = |name: &str| {
            let path = self.dir().join(name);
            let is_new = path.metadata().map_or(true, |found| found.len() == 0);
            (path, is_new)
        };
        let (path, header) = table(layout::SUMMARY);
        append(&path, |out| rows::summary(out, &rows::SummaryRow { file, floor }, header))?;
        let (path, header) = table(layout::TIMELINE);
        append(&path, |out| rows::timeline(out, trial, header))?;
        if !trial.faults.is_empty() {
            let (path, header) = table(layout::FAULTS);
            append(&path, |out| rows::faults(out, trial, header))?;
        }
        Ok(())
    }

    /// Forgets a trial that was cut short and is written again next, so that the directory can be read at any time between.
    pub fn forget(&mut self, number: usize, so_far: SoFar) -> Result<(), Error> {
        let files: Vec<String> = self
            .files_of_trials()?
            .into_iter()
            .filter(|(_, of)| *of == number)
            .map(|(name, _)| name)
            .collect();
        files.iter().for_each(|name| drop(self.digests.remove(name)));
        self.trials -= 1;
        self.made_again.push(number);
        self.note_so_far(so_far)?;
        files.iter().try_for_each(|name| remove(&self.dir().join(name)))?;
        let tables = [layout::SUMMARY, layout::TIMELINE, layout::FAULTS].map(|name| self.dir().join(name));
        tables.iter().filter(|path| path.exists()).try_for_each(|path| without_rows_of(number, path))
    }

    /// Writes what the run comes to so far, as a run whose end was not noted: what a reader of the directory finds if it
    /// goes no further.
    pub fn so_far(&mut self, so_far: SoFar) -> Result<(), Error> {
        self.digest_trials()?;
        self.note_so_far(so_far)
    }

    fn note_so_far(&self, SoFar { planned, precision, judged }: SoFar) -> Result<(), Error> {
        let Some(run) = self.begun.clone() else { return Ok(()) };
        let run = Run {
            planned_trials: planned,
            precision,
            ended_at: now(),
            outcome: RunOutcome::not_noted(),
            ..run
        };
        write_run(self.dir(), &self.file(run, judged))?;
        reserve(self.dir());
        Ok(())
    }

    /// Those of its files that a reader can't do without; what else there is may still grow.
    fn digest_trials(&mut self) -> Result<(), Error> {
        for (name, _) in self.files_of_trials()? {
            let path = self.dir().join(&name);
            if let Entry::Vacant(new) = self.digests.entry(name) {
                new.insert(digest_of_file(&path).map_err(|error| cannot("read", &path, &error))?);
            }
        }
        Ok(())
    }

    fn files_of_trials(&self) -> Result<Vec<(String, usize)>, Error> {
        let folder = self.dir().join(layout::TRIALS);
        let entries = fs::read_dir(&folder).map_err(|error| cannot("read", &folder, &error))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        Ok(names
            .filter_map(|name| Some((format!("{}/{name}", layout::TRIALS), layout::trial_of(&name)?)))
            .collect())
    }

    fn file(&self, mut run: Run, judged: Judged) -> RunFile {
        // A run that only lacked its end has no new segment.
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
        // What is true so far is there already, where a trial has ended; the rest is tried once more at the end.
        match write_run(self.dir(), &run) {
            Err(error) if !self.dir().join(layout::RUN).is_file() => return Err(error),
            _ => {}
        }
        let _ = fs::remove_file(fresh(&self.dir().join(layout::RUN)));
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

    pub fn end(&self) -> PathBuf {
        self.staging.end()
    }

    pub fn name(&self) -> String {
        self.staging.name().to_owned()
    }

    pub fn summary(&self, name: &str, summary: &impl Serialize) -> Result<(), Error> {
        write_json(&self.dir().join(name), summary)
    }

    /// Notes the digests of all that is in the directory by now; nothing is added after that. Where that fails, the
    /// directory can be published all the same, and read: it has the digests of its trials.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.is_finished = true;
        let dir = self.staging.dir();
        self.run.files = digests_of_all(dir).map_err(|error| cannot("read", dir, &error))?;
        write_run(dir, &self.run)
    }

    /// Makes the directory durable and visible under its final name, with the digests of all that is in it by now.
    /// Returns its path.
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
        .map_err(|error| cannot("write", &path, &io::Error::other(error)))?;
    text.push('\n');
    let own = digest_of(text.as_bytes());
    // Its place is the last one: a scenario's text may hold as many zeros.
    let text = text.rsplit_once(BLANK).map_or_else(String::new, |(head, tail)| [head, &own, tail].concat());
    replace(&path, text.as_bytes())
}

fn taken(parent: &Path, name: &str) -> Error {
    let (end, partial) = (parent.join(name), layout::partial(parent, name));
    if partial.is_dir() {
        return Error::usage(format!(
            "a run named `{name}` is going on or was killed ({}); if it was killed, resume it with `zklockbench run \
             --resume {}`, or choose another name",
            partial.display(),
            end.display()
        ));
    }
    let is_cut_short = read_run(&end).is_ok_and(|run| run.outcome.ending != RunEnding::Complete);
    let resume =
        is_cut_short.then(|| format!("resume it with `zklockbench run --resume {}`, ", end.display()));
    let resume = resume.unwrap_or_default();
    Error::usage(format!("{} already exists; {resume}choose another name, or move it away", end.display()))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write_file(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Writes a file that may be there already, so that a reader, or a kill, meanwhile finds the old one or the new.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let new = fresh(path);
    // What was reserved there is used before more is asked of the disk.
    let written = open_fresh(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.set_len(bytes.len() as u64)
    });
    written.and_then(|()| fs::rename(&new, path)).map_err(|error| {
        let _ = fs::remove_file(&new);
        cannot("write", path, &error)
    })
}

/// Where a file is written that is to take the place of another.
fn fresh(path: &Path) -> PathBuf {
    path.with_file_name(format!(".{}.new", path.file_name().unwrap_or_default().to_string_lossy()))
}

/// Opens that with the room that is reserved there; what is no file of the run's own is replaced: the directory may come
/// from elsewhere.
fn open_fresh(path: &Path) -> io::Result<File> {
    let is_own = path.symlink_metadata().is_ok_and(|found| found.is_file() && found.nlink() == 1);
    if !is_own {
        return disk::create_anew(path);
    }
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    File::options().write(true).custom_flags(no_link).open(path)
}

/// Keeps room on the disk for the next `run.json`, with a trial more: a disk that fills up then still takes what makes that
/// trial readable.
fn reserve(dir: &Path) {
    const A_TRIAL_MORE: u64 = 8 << 10;
    let path = dir.join(layout::RUN);
    let room = path.metadata().map_or(0, |found| found.len()) + A_TRIAL_MORE;
    // Without it a full disk costs the last trial, until the run is resumed.
    let _ =
        open_fresh(&fresh(&path)).and_then(|mut file| io::copy(&mut io::repeat(b' ').take(room), &mut file));
}

fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(cannot("delete", path, &error)),
        _ => Ok(()),
    }
}

/// Writes a table again without the rows of a trial, whose number is the first cell of each.
fn without_rows_of(number: usize, path: &Path) -> Result<(), Error> {
    let number = number.to_string();
    let kept = csv::ReaderBuilder::new().has_headers(false).from_path(path).and_then(|mut rows| {
        let mut out = csv::Writer::from_writer(Vec::new());
        for row in rows.records() {
            let row = row?;
            if row.get(0) != Some(&number) {
                out.write_record(&row)?;
            }
        }
        out.into_inner().map_err(|error| error.into_error().into())
    });
    replace(path, &kept.map_err(|error| cannot("read", path, &error.into()))?)
}

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
fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), Error> {
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
