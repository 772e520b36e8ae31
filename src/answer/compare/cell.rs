//! What is compared with what: cells, and the readings of a figure in one.

use schemars::JsonSchema;
use serde::Serialize;

use super::losses;
use crate::results::record::{Figure, Missing, Reading, Statistic, Trial, usual_samples};
use crate::words::units::{contenders, counted, shown};

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

/// The reading of a figure in a trial; `None` where it was not measured.
pub(super) fn reading(trial: &Trial, figure: Figure) -> Option<Reading> {
    match figure.of(trial) {
        Ok(reading) if losses::has(figure) => {
            Some(Reading { value: reading.value / losses::asked_for(trial), ..reading })
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
