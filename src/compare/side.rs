//! A side of a comparison: one run, or several whose repetitions are pooled.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::results::record::Trial;
use crate::results::{self, StoredRun, layout};

/// A run that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Its directory.
    pub path: PathBuf,
    /// What it holds.
    pub stored: StoredRun,
}

/// One side.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The directory that was named.
    pub path: PathBuf,
    /// Its runs; at least one.
    pub runs: Vec<Loaded>,
}

impl Side {
    /// Reads a run directory, or all run directories in a directory, by their names. Hidden ones are of runs that are not
    /// over.
    ///
    /// # Errors
    /// As [`results::read()`] of the first that cannot be read: a side of which something is missing would be another one.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let within = if is_run(path) { Vec::new() } else { runs_in(path)? };
        let directories = if within.is_empty() { vec![path.to_owned()] } else { within };
        let read = |path: PathBuf| Ok(Loaded { stored: results::read(&path)?, path });
        let runs = directories.into_iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Self { path: path.to_owned(), runs })
    }

    /// Its trials, run by run in the order of running.
    pub(super) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.runs.iter().flat_map(|run| &run.stored.trials)
    }
}

/// Whether it is a run directory, or half of one, which reading then says.
fn is_run(path: &Path) -> bool {
    path.join(layout::RUN).is_file() || path.join(layout::TRIALS).is_dir()
}

fn runs_in(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let cannot = |error| Error::environment(format!("cannot read {}: {error}", path.display()));
    let entries = fs::read_dir(path).map_err(cannot)?.collect::<Result<Vec<_>, _>>().map_err(cannot)?;
    let visible = |entry: &fs::DirEntry| !entry.file_name().to_string_lossy().starts_with('.');
    let mut found: Vec<PathBuf> = entries
        .iter()
        .filter(|entry| visible(entry))
        .map(fs::DirEntry::path)
        .filter(|path| is_run(path))
        .collect();
    found.sort();
    Ok(found)
}
