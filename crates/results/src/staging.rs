//! The directory of a run in progress, owned by a guard.
//!
//! Everything is written to `.<name>.partial` next to the final directory and becomes visible in one rename.
//! Only one process can create the partial directory, so creating it claims the name.
//!
//! Dropping the guard removes the directory, unless something was measured ([`Staging::keep`]). A kept
//! directory becomes visible if it is readable. Otherwise, and after a panic or a kill, it stays hidden. The
//! next run then removes it, unless it has a complete trial.
//!
//! A directory without a writer is recognised by its lock, which the system releases when the writer exits. A
//! resumed run moves back to the hidden name ([`ClaimedDirectory`]).

use std::fs::{self, File};
use std::io::{ErrorKind, Result as IoResult};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::layout;
use super::layout::cannot;
use zklockbench_core::error::Error;

/// Guard of a directory that is removed when the guard is dropped, unless it was published or must be kept.
#[derive(Debug)]
pub struct Staging {
    parent: PathBuf,
    name: String,
    dir: PathBuf,
    published: bool,
    /// Whether the directory has measurements that must not be lost.
    keeps: bool,
    /// Function to call with the path of the directory if it is kept when the guard is dropped.
    tell_kept: Option<fn(&Path)>,
    /// Lock held while a program writes to the directory; `None` on a file system that does not support locks.
    _lock: Option<File>,
}

impl Staging {
    /// Claims a name in `parent`; if it is taken, a suffix (`-2`, `-3`, …) is appended.
    pub fn claim_numbered(parent: &Path, name: &str) -> Result<Self, Error> {
        first_free(name, |name| Self::claim(parent, name))
    }

    /// Claims the name in `parent`, which is created if missing; `None` if the name is taken.
    pub fn claim(parent: &Path, name: &str) -> Result<Option<Self>, Error> {
        fs::create_dir_all(parent).map_err(|e| cannot_create(parent, &e))?;
        let dir = layout::partial(parent, name);
        let is_free = parent.join(name).symlink_metadata().is_err() && create(&dir)?;
        Ok(is_free.then(|| Self::of(parent.into(), name.into(), lock(&dir), dir)))
    }

    fn of(parent: PathBuf, name: String, lock: Option<File>, dir: PathBuf) -> Self {
        Self { parent, name, dir, published: false, keeps: false, tell_kept: None, _lock: lock }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn end(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// Keeps the directory when the guard is dropped.
    pub fn keep(&mut self) {
        self.keeps = true;
    }

    pub fn tell_if_kept(&mut self, tell: fn(&Path)) {
        self.tell_kept = Some(tell);
    }

    /// Makes the files durable and the directory visible under its final name. Returns its path.
    pub fn publish(mut self) -> Result<PathBuf, Error> {
        self.show()
    }

    fn show(&mut self) -> Result<PathBuf, Error> {
        sync_all_below(&self.dir).map_err(|e| cannot("flush", &self.dir, &e))?;
        let end = self.end();
        fs::rename(&self.dir, &end).map_err(|e| cannot("move the finished run to", &end, &e))?;
        self.published = true;
        sync(&self.parent).map_err(|e| cannot("flush", &self.parent, &e))?;
        Ok(end)
    }
}

/// Returns the current path of a run's directory, given its final or hidden path.
pub fn left_at(dir: &Path) -> PathBuf {
    let named = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let other = match layout::of_partial(&named) {
        Some(name) => dir.with_file_name(name),
        None => layout::partial(dir.parent().unwrap_or(Path::new("")), &named),
    };
    if !dir.is_dir() && other.is_dir() { other } else { dir.to_owned() }
}

/// A run's directory, published or not, locked against writers in other processes. Dropping the claim only releases
/// the lock.
#[derive(Debug)]
pub struct ClaimedDirectory {
    parent: PathBuf,
    name: String,
    dir: PathBuf,
    lock: File,
}

impl ClaimedDirectory {
    /// Claims a run's directory by its final or hidden path.
    pub fn of(dir: &Path) -> Result<Self, Error> {
        let found = left_at(dir);
        let dir = found.canonicalize().map_err(|error| {
            Error::usage(format!("{}: {error}; specify the directory of a run", dir.display()))
        })?;
        let (parent, last) = (dir.parent().unwrap_or(&dir), dir.file_name().unwrap_or_default());
        let last = last.to_string_lossy();
        let name = layout::of_partial(&last).unwrap_or(&last);
        layout::check_name(name)?;
        let (parent, name) = (parent.to_owned(), name.to_owned());
        let in_the_way =
            if layout::is_partial(&dir) { parent.join(&name) } else { layout::partial(&parent, &name) };
        if in_the_way.symlink_metadata().is_ok() {
            return Err(Error::usage(format!(
                "{} cannot be resumed while {} exists; move one of them away",
                dir.display(),
                in_the_way.display()
            )));
        }
        let lock = File::open(&dir).map_err(|error| cannot("open", &dir, &error))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            // The directory may have been renamed before it was locked.
            Ok(()) if is_at(&lock, &dir) => Ok(Self { parent, name, dir, lock }),
            Ok(()) | Err(Errno::WOULDBLOCK) => Err(Error::usage(format!(
                "{} is in use: its run is still in progress, or is being resumed by another process",
                dir.display()
            ))),
            Err(error) => Err(Error::environment(format!(
                "cannot determine whether a run is still writing to {}: locking failed ({error}); copy it to a \
                 file system that supports locks, and resume it there",
                dir.display()
            ))),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn is_published(&self) -> bool {
        !layout::is_partial(&self.dir)
    }

    /// Moves the directory back to its hidden name for writing. Dropping the result makes it visible again.
    pub fn take_back(self) -> Result<Staging, Error> {
        let Self { parent, name, dir, lock } = self;
        let hidden = layout::partial(&parent, &name);
        fs::rename(&dir, &hidden).map_err(|error| cannot("rename", &dir, &error))?;
        let mut staging = Staging::of(parent, name, Some(lock), hidden);
        staging.keep();
        Ok(staging)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.published || std::thread::panicking() {
            return;
        }
        if !self.keeps {
            let _ = fs::remove_dir_all(&self.dir);
            return;
        }
        let shown = if self.dir.join(layout::RUN).is_file() { self.show().ok() } else { None };
        if let Some(tell) = self.tell_kept {
            tell(shown.as_deref().unwrap_or(&self.dir));
        }
    }
}

/// Creates a directory that is visible from the start, for files that are complete individually. Its name
/// consists of the purpose and the time, with a suffix (`-2`, `-3`, …) if that name is taken.
pub fn create_dated(parent: &Path, name: &str, began: SystemTime) -> Result<PathBuf, Error> {
    fs::create_dir_all(parent).map_err(|e| cannot_create(parent, &e))?;
    let name = layout::run_name(name, began);
    layout::check_name(&name)?;
    first_free(&name, |name| {
        let path = parent.join(name);
        Ok(create(&path)?.then_some(path))
    })
}

/// Tries `claim` with the name, then with `-2`, `-3`, … appended.
fn first_free<T>(name: &str, claim: impl Fn(&str) -> Result<Option<T>, Error>) -> Result<T, Error> {
    let mut attempt = 1;
    loop {
        if let Some(claimed) = claim(&layout::numbered(name, attempt))? {
            return Ok(claimed);
        }
        attempt += 1;
    }
}

/// Creates a directory; false if the name is taken.
fn create(dir: &Path) -> Result<bool, Error> {
    match fs::create_dir(dir) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(cannot("create", dir, &error)),
    }
}

/// A file at the path of a directory is a usage error, not a disk error.
fn cannot_create(directory: &Path, error: &std::io::Error) -> Error {
    match directory.ancestors().find(|above| above.symlink_metadata().is_ok()) {
        Some(file) if !file.is_dir() => Error::usage(format!(
            "cannot write results to {}: {} is not a directory; choose another with --out",
            directory.display(),
            file.display()
        )),
        _ => cannot("create", directory, error),
    }
}

/// Removes leftover directories without trials from `parent`, and returns leftover directories with trials.
pub fn tidy(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten().map(|entry| entry.path());
    let left: Vec<PathBuf> = entries.filter(|path| layout::is_partial(path) && is_left(path)).collect();
    let (with_trials, without): (Vec<_>, Vec<_>) =
        left.into_iter().partition(|dir| holds_something(&dir.join(layout::TRIALS)));
    for dir in without {
        // The directory may belong to another user.
        let _ = fs::remove_dir_all(dir);
    }
    with_trials
}

/// Whether the directory has no writer. An empty directory may be in use, because it may just have been
/// created.
fn is_left(dir: &Path) -> bool {
    holds_something(dir) && lock(dir).is_some()
}

/// Whether the directory exists and is not empty.
fn holds_something(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether an open directory is still the directory at `path`.
fn is_at(open: &File, path: &Path) -> bool {
    let both = (open.metadata(), fs::metadata(path));
    matches!(both, (Ok(one), Ok(other)) if (one.dev(), one.ino()) == (other.dev(), other.ino()))
}

fn lock(dir: &Path) -> Option<File> {
    let lock = File::open(dir).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(lock)
}

/// Flushes every file and directory to disk before the rename. Done once at the end, because flushing would
/// disturb an ensemble on the same disk.
fn sync_all_below(dir: &Path) -> IoResult<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => sync_all_below(&entry.path())?,
            kind if kind.is_file() => sync(&entry.path())?,
            _ => {}
        }
    }
    sync(dir)
}

fn sync(path: &Path) -> IoResult<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_directory_survives_dropping_and_is_visible_if_readable() {
        let parent = tempfile::tempdir().unwrap();
        for (name, is_readable) in [("whole", true), ("half", false)] {
            let mut staging = Staging::claim(parent.path(), name).unwrap().unwrap();
            staging.keep();
            fs::write(staging.dir().join("a"), "a").unwrap();
            if is_readable {
                fs::write(staging.dir().join(layout::RUN), "{}").unwrap();
            }
            drop(staging);
            let (end, partial) = (parent.path().join(name), layout::partial(parent.path(), name));
            assert_eq!((end.join("a").exists(), partial.join("a").exists()), (is_readable, !is_readable));
        }
    }

    #[test]
    fn tidy_removes_leftovers_without_trials_or_writers() {
        let parent = tempfile::tempdir().unwrap();
        let partial = |name: &str| {
            let dir = layout::partial(parent.path(), name);
            fs::create_dir_all(dir.join(layout::TRIALS)).unwrap();
            dir
        };
        let (left, measured, foreign) = (partial("left"), partial("measured"), parent.path().join(".other"));
        // A calibration's directory, which has no trials
        let calibration = layout::partial(parent.path(), "calibration");
        fs::create_dir_all(calibration.join(layout::SERVER_LOGS)).unwrap();
        fs::write(layout::trial_json(&measured, 0), "{}").unwrap();
        fs::create_dir(&foreign).unwrap();
        let going = Staging::claim(parent.path(), "going").unwrap().unwrap();
        fs::create_dir(going.dir().join(layout::TRIALS)).unwrap();
        assert_eq!(tidy(parent.path()), [measured.as_path()]);
        assert!(!left.exists() && !calibration.exists());
        assert!(measured.exists() && foreign.exists() && going.dir().exists());
        // A directory that was just created is left to its writer
        let new = layout::partial(parent.path(), "new");
        fs::create_dir(&new).unwrap();
        tidy(parent.path());
        assert!(new.exists());
    }

    #[test]
    fn panic_leaves_the_partial_directory_for_inspection() {
        let parent = tempfile::tempdir().unwrap();
        let at = parent.path().to_owned();
        let crashed = std::thread::spawn(move || {
            let _staging = Staging::claim(&at, "quick").unwrap().unwrap();
            panic!("a crash in the middle of a run");
        });
        assert!(crashed.join().is_err());
        assert!(layout::partial(parent.path(), "quick").is_dir());
        assert!(!parent.path().join("quick").exists());
    }
}
