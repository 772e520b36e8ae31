//! A side of a comparison: one run, or several whose repetitions are pooled.

use std::path::{Path, PathBuf};

use super::cell::CellUnderLoad;
use crate::results::record::Trial;
use crate::results::{self, StoredRun, layout};
use crate::words::error::Error;
use crate::words::measure::{Measure, Survival};

#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub path: PathBuf,
    pub stored: StoredRun,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    pub path: PathBuf,
    /// Its runs; at least one.
    pub runs: Vec<Loaded>,
}

impl Side {
    /// Reads a run directory, or all run directories in a directory, by their names. Hidden ones are of runs that are not
    /// over.
    ///
    /// # Errors
    /// Same errors as [`results::read()`] of the first that cannot be read: a side of which something is missing would be another one.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let within = layout::runs_in(path)?;
        let directories = if within.is_empty() { vec![path.to_owned()] } else { within };
        let read = |path: PathBuf| Ok(Loaded { stored: results::read(&path)?, path });
        let runs = directories.into_iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Self { path: path.to_owned(), runs })
    }

    /// Its trials, run by run in the order of running.
    pub(super) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.runs.iter().flat_map(|run| &run.stored.trials)
    }

    fn sound(&self, cell: &CellUnderLoad) -> impl Iterator<Item = &Trial> {
        self.trials().filter(move |trial| trial.is_sound() && CellUnderLoad::of(trial) == *cell)
    }

    /// The samples of all sound trials of a cell, pooled; of waits also those that were not served.
    pub fn pooled(&self, cell: &CellUnderLoad, measure: Measure) -> Option<Survival> {
        Survival::of_pooled(measure, |part| {
            self.sound(cell).filter_map(|trial| trial.histograms.get(&part)).collect()
        })
    }

    /// Whether the queue grew in any sound trial of a cell, so that its waits say how long the trial was.
    pub fn queue_grew(&self, cell: &CellUnderLoad) -> bool {
        self.sound(cell).any(Trial::is_unstable)
    }
}
