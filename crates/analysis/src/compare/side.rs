//! The two sides of a comparison: their cells, and their valid and lost repetitions.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use zklockbench_core::error::Error;
use zklockbench_core::measure::{Measure, Survival};
use zklockbench_core::units::{contenders, counted, grouped, shown};
use zklockbench_record::{Figure, Reading, Trial, measured_in};
use zklockbench_results::{StoredRun, layout};

#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub path: PathBuf,
    pub stored: StoredRun,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    pub path: PathBuf,
    /// The runs; at least one.
    pub runs: Vec<Loaded>,
}

impl Side {
    /// Reads a run directory, or all run directories in a directory, sorted by name. Hidden directories belong
    /// to unfinished runs and are skipped. An unreadable directory is an error, because omitting it would
    /// change the side.
    ///
    /// # Errors
    /// [`Error::Usage`] if a directory is not a run, is incomplete, has another version, was changed, or
    /// contradicts itself; [`Error::Environment`] if a file cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let within = layout::runs_in(path)?;
        let directories = if within.is_empty() { vec![path.to_owned()] } else { within };
        let read = |path: PathBuf| Ok(Loaded { stored: zklockbench_results::read(&path)?, path });
        let runs = directories.into_iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Self { path: path.to_owned(), runs })
    }

    /// Returns the trials, run by run, in the order they ran.
    pub(super) fn trials(&self) -> impl Iterator<Item = &Trial> {
        self.runs.iter().flat_map(|run| &run.stored.trials)
    }

    fn sound(&self, cell: &CellUnderLoad) -> impl Iterator<Item = &Trial> {
        self.trials().filter(move |trial| trial.is_sound() && CellUnderLoad::of(trial) == *cell)
    }

    pub fn repetitions(&self, is_of: impl Fn(&Trial) -> bool) -> Repetitions<'_> {
        let mut all = Repetitions::default();
        for run in self.runs.iter().map(|run| Repetitions::of_run(run, &is_of)) {
            all.runs.extend(run.runs);
            all.asked += run.asked;
            all.kept += run.kept;
        }
        all
    }

    /// Returns the pooled samples of all valid trials of a cell; waits include unserved ones.
    pub fn pooled(&self, cell: &CellUnderLoad, measure: Measure) -> Option<Survival> {
        Survival::of_pooled(measure, |part| {
            self.sound(cell).filter_map(|trial| trial.histograms.get(&part)).collect()
        })
    }

    /// Returns whether the queue grew in any valid trial of a cell, so that waits depend on the trial's
    /// length.
    pub fn queue_grew(&self, cell: &CellUnderLoad) -> bool {
        self.sound(cell).any(Trial::is_unstable)
    }
}

/// Trials with the same strategy, contenders, load and locks, which are compared between the sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct CellUnderLoad {
    /// Label of the strategy.
    pub strategy: String,
    /// Number of contenders.
    pub contenders: usize,
    /// `closed`, `batch` or `open`.
    pub load: String,
    /// Number of locks.
    pub locks: usize,
}

/// Longest label to show, because files may contain arbitrary text.
const LABEL: usize = 200;
pub(super) const LINE: usize = 300;

impl CellUnderLoad {
    pub fn of(trial: &Trial) -> Self {
        Self {
            strategy: shown(&trial.spec.strategy.label, LABEL),
            contenders: trial.spec.contenders,
            load: trial.spec.load.name().to_owned(),
            locks: trial.spec.locks,
        }
    }

    pub fn name(&self) -> String {
        let locks = if self.locks == 1 { String::new() } else { format!(", {} locks", self.locks) };
        format!("{}, {}, {} load{locks}", self.strategy, contenders(self.contenders), self.load)
    }
}

pub(super) fn sound<'a>(trials: &[&'a Trial]) -> Vec<&'a Trial> {
    trials.iter().copied().filter(|trial| trial.is_sound()).collect()
}

/// Explains why the metrics of a trial do not count; `None` if they do.
pub(super) fn unsound_because(trial: &Trial) -> Option<String> {
    let short = trial.cut_short.as_ref().map(|cut| format!("partial, {}", cut.why));
    let why = short.or_else(|| trial.health.invalid.as_ref().map(|why| format!("invalid, {why}")));
    why.map(|why| shown(&why, 500))
}

/// Repetitions of a cell on one side, and the planned number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Repetitions<'a> {
    /// Trials that ran, valid or invalid, by run.
    pub(super) runs: Vec<Vec<&'a Trial>>,
    asked: usize,
    /// Number of repetitions with a valid trial.
    kept: usize,
}

impl<'a> Repetitions<'a> {
    fn of_run(run: &'a Loaded, is_of: impl Fn(&Trial) -> bool) -> Self {
        let trials: Vec<&Trial> = run.stored.trials.iter().filter(|trial| is_of(trial)).collect();
        let repetitions = grouped(trials.iter().map(|trial| (trial.spec.repetition, trial.is_sound())));
        let kept = repetitions.iter().filter(|(_, sound)| sound.contains(&true)).count();
        // A run without trials lost every cell; a run that has only other cells never planned this cell.
        let has_others = trials.is_empty() && !run.stored.trials.is_empty();
        let asked = if has_others { 0 } else { repetitions.len().max(planned(run)) };
        Self { runs: vec![trials], asked, kept }
    }

    /// Returns the trials that ran, valid or invalid, in the order they ran.
    pub fn trials(&self) -> Vec<&'a Trial> {
        self.runs.concat()
    }

    pub(super) fn sound_in(&self, run: usize) -> impl Iterator<Item = &'a Trial> {
        self.runs.get(run).into_iter().flatten().copied().filter(|trial| trial.is_sound())
    }

    /// Groups the readings of a metric by run. Runs without readings are dropped.
    pub(super) fn by_run(&self, figure: Figure, readings: &[Reading]) -> Vec<Vec<Reading>> {
        // Runs of earlier builds measured some metrics in only one repetition.
        let counting = measured_in(figure, &sound(&self.trials()));
        let of_run = |trials: &Vec<&Trial>| -> Vec<Reading> {
            let is_own = |trial: &Trial| trials.iter().any(|one| std::ptr::eq(*one, trial));
            let own = counting.iter().zip(readings).filter(|(trial, _)| is_own(trial));
            own.map(|(_, reading)| *reading).collect()
        };
        self.runs.iter().map(of_run).filter(|run| !run.is_empty()).collect()
    }

    fn lost(&self) -> usize {
        self.asked - self.kept
    }

    fn share(&self) -> String {
        format!("{} of {}", self.lost(), counted(self.asked, "repetition", "repetitions"))
    }

    /// Returns whether too many repetitions are lost (more than a third) for the rest to be representative.
    fn are_too_few(&self) -> bool {
        3 * self.lost() > self.asked
    }

    fn why(&self) -> String {
        let unsound = self.runs.iter().flatten().find_map(|trial| unsound_because(trial));
        unsound.unwrap_or_else(|| "the run ended before this repetition".to_owned())
    }
}

/// Returns the planned number of repetitions, the same for every cell.
fn planned(run: &Loaded) -> usize {
    let ran = grouped(run.stored.trials.iter().map(|trial| (CellUnderLoad::of(trial), ()))).len();
    let cells = if ran == 0 { run.stored.run.strategies.len() } else { ran };
    run.stored.run.planned_trials.div_ceil(cells.max(1))
}

/// Explains why the remaining repetitions cannot show that a metric is no worse; `None` if they can.
///
/// Spoiled repetitions may have been slow, so the new side must not have lost more than the base.
pub(super) fn doubt(base: &Repetitions<'_>, new: &Repetitions<'_>) -> Option<String> {
    if new.lost() * base.asked > base.lost() * new.asked {
        return Some(format!(
            "the new run lost {} and the base {}, and the cause may also have slowed other repetitions down: {}",
            new.share(),
            base.lost(),
            new.why()
        ));
    }
    let few = [("base", base), ("new run", new)].into_iter().find(|(_, side)| side.are_too_few())?;
    Some(format!("the {} lost {}, so too few remain: {}", few.0, few.1.share(), few.1.why()))
}
