//! Values of metrics in a trial.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Trial;
use super::figures::FigureEntry;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::cell_name;
use zklockbench_scenario::TrialSpec;

/// Value of a metric in one repetition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reading {
    /// Value in the metric's unit.
    pub value: f64,
    /// Whether the value is a lower bound.
    pub at_least: bool,
    /// Number of samples, if the metric is a statistic of samples.
    pub samples: Option<u64>,
}

impl Reading {
    pub const fn exact(value: f64) -> Self {
        Self { value, at_least: false, samples: None }
    }

    /// Largest possible value: infinite for a lower bound.
    pub const fn at_most(&self) -> f64 {
        if self.at_least { f64::INFINITY } else { self.value }
    }
}

/// Median number of samples per repetition, which decides whether the samples suffice for a statistic. Slow
/// repetitions have fewer samples; excluding them would make their side of a comparison look faster.
pub fn usual_samples(readings: &[Reading]) -> Option<u64> {
    let mut samples: Vec<u64> = readings.iter().filter_map(|reading| reading.samples).collect();
    samples.sort_unstable();
    samples.get(samples.len().saturating_sub(1) / 2).copied()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The event did not happen, or the metric does not apply to the load.
    NotMeasured,
    /// The queue grew, so the value would only reflect the length of the trial.
    Unstable,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMeasured => "not measured",
            Self::Unstable => "the queue kept growing, so there is no steady value",
        })
    }
}

impl Trial {
    /// Value of a metric in the trial; latencies need the trial's histograms.
    pub fn reading(&self, figure: Figure) -> Result<Reading, Missing> {
        match figure {
            Figure::Latency(measure, statistic) => latency(self, measure, statistic),
            Figure::Plain(card) => {
                let value = FigureEntry::of_card(card).and_then(|entry| entry.of(self));
                value.map(Reading::exact).ok_or(Missing::NotMeasured)
            }
        }
    }
}

/// Returns a cell's repetitions that measured a metric, or all if none did. Earlier builds counted a driver's
/// requests in only one repetition.
pub fn measured_in<'t>(figure: Figure, trials: &[&'t Trial]) -> Vec<&'t Trial> {
    let on_the_wire = is_counted_on_the_wire(figure);
    let measures =
        |trial: &&&Trial| !on_the_wire || !trial.is_counted_apart() || trial.reading(figure).is_ok();
    let found: Vec<&Trial> = trials.iter().filter(measures).copied().collect();
    if found.is_empty() { trials.to_vec() } else { found }
}

pub fn is_counted_on_the_wire(figure: Figure) -> bool {
    match figure {
        Figure::Latency(..) => false,
        Figure::Plain(card) => FigureEntry::of_card(card).is_some_and(|entry| entry.on_the_wire),
    }
}

fn latency(trial: &Trial, measure: Measure, statistic: Statistic) -> Result<Reading, Missing> {
    if measure.is_of_the_queue() && trial.is_unstable() {
        return Err(Missing::Unstable);
    }
    let all = trial.survival(measure).ok_or(Missing::NotMeasured)?;
    let (value, at_least) = match statistic {
        // The same mean as in `summary.csv`.
        Statistic::Mean => {
            let mean = trial.latency(measure).ok_or(Missing::NotMeasured)?;
            (mean.mean_us, mean.known < 1.0)
        }
        Statistic::Min => (all.shortest_us as f64, false),
        Statistic::Max => (all.longest.us as f64, all.longest.at_least),
        Statistic::Percentile(at) => {
            let found = all.quantile(f64::from(at) / 100_000.0);
            (found.us as f64, found.at_least)
        }
    };
    Ok(Reading { value, at_least, samples: Some(all.count()) })
}

/// A strategy and a number of contenders.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct CellKey {
    /// Label of the strategy.
    pub strategy: String,
    /// Number of contenders.
    pub contenders: usize,
}

impl CellKey {
    pub fn of(spec: &TrialSpec) -> Self {
        Self { strategy: spec.strategy.label.clone(), contenders: spec.contenders }
    }

    pub fn is_of(&self, trial: &Trial) -> bool {
        trial.spec.strategy.label == self.strategy && trial.spec.contenders == self.contenders
    }

    pub fn name(&self) -> String {
        cell_name(&self.strategy, self.contenders)
    }
}
