//! The two sides of a comparison, the cells of each, and what is read of a cell: its samples, and what its acquisitions ended
//! in instead of the lock. With a slower lock that sheds load those that it still serves wait less, so that no other figure
//! shows it.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::results::record::figures::{self, FigureEntry};
use crate::results::record::{Better, Figure, Missing, Reading, Statistic, Trial, usual_samples};
use crate::results::{self, StoredRun, layout};
use crate::words::error::Error;
use crate::words::measure::{Measure, Survival};
use crate::words::units::{contenders, counted, shown};

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

const LOSSES: [&FigureEntry; 5] = [
    &figures::DROPPED,
    &figures::TIMED_OUT,
    &figures::UNSERVED,
    &figures::ERRORS,
    &figures::SESSIONS_EXPIRED,
];

/// Whether a figure counts what was lost, so that it is compared as a share of what was asked for.
pub fn counts_losses(figure: Figure) -> bool {
    LOSSES.iter().any(|entry| entry.figure() == figure)
}

/// Which way a figure is better: it is worse to lose more, also where the figure by itself is that of the load.
pub fn better_of(figure: Figure) -> Better {
    if counts_losses(figure) { Better::Lower } else { figure.better() }
}

/// All that counts losses.
pub fn losses() -> impl Iterator<Item = Figure> {
    LOSSES.iter().map(|entry| entry.figure())
}

/// Which are compared under that load: at the end of a closed one some contender always waits, which is no loss.
pub fn losses_under(load: &str) -> impl Iterator<Item = Figure> + use<> {
    let always_some = (load == "closed").then_some(figures::UNSERVED.figure());
    losses().filter(move |figure| Some(*figure) != always_some)
}

/// Whether any of these trials lost something of the kind: zeros on both sides say nothing and are not compared.
pub(super) fn any_lost<'a>(figure: Figure, trials: impl IntoIterator<Item = &'a &'a Trial>) -> bool {
    trials.into_iter().any(|trial| figure.of(trial).is_ok_and(|reading| reading.value > 0.0))
}

/// How many acquisitions were asked for, at least one: those that were, and all that ended otherwise.
pub(super) fn asked_for(trial: &Trial) -> f64 {
    let dropped = trial.arrived.map_or(0, |arrived| arrived.dropped);
    (trial.measured.acquired() + trial.timed_out() + trial.unserved() + dropped).max(1) as f64
}

/// What a cell is: the same question on both sides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct CellUnderLoad {
    /// The strategy's label.
    pub strategy: String,
    /// Contenders.
    pub contenders: usize,
    /// `closed`, `batch` or `open`.
    pub load: String,
    /// Locks.
    pub locks: usize,
}

/// Labels are no longer than this: a directory may have anything in it.
const LABEL: usize = 200;

/// Texts are no longer than this: a directory may have anything in it.
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

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoReadings {
    NothingSound(String),
    /// In no sound repetition did anything of the kind happen, or it does not apply.
    NotApplicable,
    /// The samples of most repetitions are too few for the percentile.
    TooFew(String),
    /// Some repetitions have it, and others do not. To leave these out would be to choose.
    Gaps(String),
}

impl NoReadings {
    pub(super) fn why(&self) -> String {
        match self {
            Self::NothingSound(why) | Self::TooFew(why) | Self::Gaps(why) => why.clone(),
            Self::NotApplicable => Missing::NotMeasured.to_string(),
        }
    }
}

/// The readings of a figure in the trials of a cell of one side, one for each sound repetition.
///
/// Where the queue grew, waits have no steady value: they count as longer than any.
pub(super) fn readings(trials: &[&Trial], figure: Figure) -> Result<Vec<Reading>, NoReadings> {
    let counting = sound(trials);
    if counting.is_empty() {
        return Err(NoReadings::NothingSound(why_nothing_sound(trials)));
    }
    let counting = figure.measured_in(&counting);
    let each: Vec<Option<Reading>> = counting.iter().map(|trial| reading(trial, figure)).collect();
    let found: Vec<Reading> = each.iter().copied().flatten().collect();
    let missing = each.len() - found.len();
    if found.is_empty() {
        return Err(NoReadings::NotApplicable);
    }
    if missing > 0 {
        let all = counted(each.len(), "repetition", "repetitions");
        return Err(NoReadings::Gaps(format!("{missing} of {all} did not measure it")));
    }
    if let Figure::Latency(_, statistic) = figure
        && let Some(usual) = usual_samples(&found)
        && usual < statistic.samples_needed()
    {
        let needed = statistic.samples_needed();
        return Err(NoReadings::TooFew(format!(
            "{statistic} takes {needed} samples in each repetition, and half of them have at most {usual}"
        )));
    }
    Ok(found)
}

/// The reading of a figure in a trial, of what was lost the share of all that was asked for; `None` where it was not measured.
/// Where the queue grew, a wait has no steady value and is infinite: longer than any.
pub fn reading(trial: &Trial, figure: Figure) -> Option<Reading> {
    match figure.of(trial) {
        Ok(reading) if counts_losses(figure) => {
            Some(Reading { value: reading.value / asked_for(trial), ..reading })
        }
        Ok(reading) => Some(reading),
        Err(Missing::Unstable) => Some(Reading { value: f64::INFINITY, at_least: false, samples: None }),
        Err(Missing::NotMeasured) => None,
    }
}

fn why_nothing_sound(trials: &[&Trial]) -> String {
    let Some(first) = trials.first() else { return "it has no such cell".to_owned() };
    let why = unsound_because(first).unwrap_or_default();
    format!("none of its {} is sound: {why}", counted(trials.len(), "repetition", "repetitions"))
}

/// Why the figures of a trial do not count; `None` where they do.
pub(super) fn unsound_because(trial: &Trial) -> Option<String> {
    let short = trial.cut_short.as_ref().map(|cut| format!("partial, {}", cut.why));
    let why = short.or_else(|| trial.health.invalid.as_ref().map(|why| format!("invalid, {why}")));
    why.map(|why| shown(&why, 500))
}

/// The largest of some percentiles for which most repetitions of both sides have samples; the smallest where none has. It
/// is chosen by how many samples there are, not by what they are.
pub(super) fn tail(measure: crate::words::measure::Measure, base: &[&Trial], new: &[&Trial]) -> Figure {
    const TAILS: [Statistic; 3] = [Statistic::percent(99), Statistic::percent(95), Statistic::percent(90)];
    let of = |statistic| Figure::Latency(measure, statistic);
    let has = |side: &[&Trial], figure| {
        side.is_empty() || !matches!(readings(side, figure), Err(NoReadings::TooFew(_)))
    };
    let found = TAILS.into_iter().map(of).find(|figure| has(base, *figure) && has(new, *figure));
    found.unwrap_or_else(|| of(Statistic::percent(90)))
}
