//! Value of a metric in one cell of a run, and doubts about the value.

use zklockbench_core::measure::{Figure, Unit};
use zklockbench_core::units::counted;
use zklockbench_record::{CellKey, Reading, Trial, figures, usual_samples};
use zklockbench_results::StoredRun;
use zklockbench_scenario::gate::Relation;
use zklockbench_stats::median;

use super::Observed;

pub struct CellReadings {
    pub observed: Option<Observed>,
    /// Reasons why the value supports no verdict, each as a clause.
    pub doubts: Vec<String>,
    /// Repetitions that did not run or do not count, each as a clause. They do not matter if every repetition
    /// must meet the limit and one repetition misses it.
    pub missing: Vec<String>,
}

impl CellReadings {
    /// Observes a cell that was planned with at least this many repetitions. The value is the median
    /// over the valid repetitions or, if every repetition must meet the limit, the worst repetition.
    pub fn of(figure: Figure, cell: &CellKey, stored: &StoredRun, repetitions: usize, worst: Worst) -> Self {
        let ran: Vec<&Trial> = stored.trials.iter().filter(|trial| cell.is_of(trial)).collect();
        let (sound, unsound): (Vec<&Trial>, Vec<&Trial>) =
            ran.iter().copied().partition(|trial| trial.is_sound());
        // A violation counts even in an invalid trial.
        let all_count = figure == figures::VIOLATIONS.figure();
        let counting = if all_count { &ran } else { &sound };
        let mut doubts = Vec::new();
        if ran.is_empty() {
            return Self { observed: None, doubts: vec!["the cell did not run".into()], missing: Vec::new() };
        }
        let too_few = ran.len() < repetitions;
        let too_few = too_few.then(|| format!("only {} of {repetitions} repetitions ran", ran.len()));
        let mut missing: Vec<String> = too_few.into_iter().collect();
        if let Some((trial, why)) = unsound.first().and_then(|trial| Some((trial, trial.unsound()?)))
            && !all_count
        {
            let all = ran.len();
            let first = format!("repetition {} of {all} is {why}", trial.spec.repetition);
            missing.push(match unsound.len() {
                1 => first,
                count => {
                    format!("{first}; and {} more", counted(count - 1, "repetition is", "repetitions are"))
                }
            });
        }
        let mut readings = Vec::new();
        for trial in zklockbench_record::measured_in(figure, counting) {
            match trial.reading(figure) {
                Ok(reading) if reading.value.is_finite() => readings.push(reading),
                Ok(_) => {
                    doubts.push(format!("its value in repetition {} is not a number", trial.spec.repetition))
                }
                Err(missing) => {
                    doubts.push(format!("repetition {}: {missing}", trial.spec.repetition));
                }
            }
        }
        let is_cut = all_count && !unsound.is_empty();
        let observed = observed(figure, &readings, worst, is_cut);
        // A percentile from few samples is biased low, and the median of many such percentiles is no better.
        // If every repetition must meet the limit, the repetition with the fewest samples decides.
        let (fewest, of_them) = match worst {
            Worst::Median => (usual_samples(&readings), "half of them have at most"),
            Worst::Of(..) => (readings.iter().filter_map(|one| one.samples).min(), "one of them has only"),
        };
        if let Some(fewest) = fewest.filter(|fewest| *fewest < figure.samples_needed()) {
            let (samples, needed) = (counted(fewest, "sample", "samples"), figure.samples_needed());
            doubts
                .push(format!("{figure} needs {needed} samples in each repetition, and {of_them} {samples}"));
        }
        Self { observed, doubts, missing }
    }
}

#[derive(Clone, Copy)]
pub enum Worst {
    Median,
    /// The value farthest on the wrong side of the limit.
    Of(Relation, f64),
}

fn observed(figure: Figure, readings: &[Reading], worst: Worst, is_cut: bool) -> Option<Observed> {
    let mut values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
    values.sort_by(f64::total_cmp);
    let (min, max) = (*values.first()?, *values.last()?);
    let (value, at_least) = match worst {
        Worst::Of(relation, limit) => {
            // The true value may miss an upper limit by more than its lower bound shows.
            let upwards = matches!(relation, Relation::Less | Relation::AtMost);
            let open = upwards && readings.iter().any(|reading| reading.at_least);
            (worst_of(min, max, relation, limit), is_cut || open)
        }
        Worst::Median => {
            // Lower bounds above the median leave it unchanged, whatever their true values.
            let value = median(&values)?;
            let longest: Vec<f64> = readings.iter().map(Reading::at_most).collect();
            (value, is_cut || median(&longest)? > value)
        }
    };
    let samples = readings.iter().map(|reading| reading.samples).sum::<Option<u64>>();
    Some(Observed { unit: figure.unit(), value, min, max, at_least, repetitions: values.len(), samples })
}

fn worst_of(min: f64, max: f64, relation: Relation, limit: f64) -> f64 {
    match relation {
        Relation::Less | Relation::AtMost => max,
        Relation::More | Relation::AtLeast => min,
        Relation::Equal if limit - min > max - limit => min,
        Relation::Equal => max,
    }
}

impl Observed {
    /// Describes the value and, in parentheses, its range, with enough digits to distinguish the value from
    /// the limit.
    pub(super) fn describe(&self, limit: Option<f64>) -> String {
        let at_least = if self.at_least { "≥ " } else { "" };
        let value = apart(self.value, limit, self.unit);
        #[expect(clippy::float_cmp, reason = "no range is shown only if the values are equal")]
        let spread = if self.min == self.max {
            String::new()
        } else {
            let (min, max) = (self.unit.show(self.min), self.unit.show(self.max));
            format!(" ({min} to {max} in {} repetitions)", self.repetitions)
        };
        format!("{at_least}{value}{spread}")
    }
}

/// Returns a value in its unit, with more digits if it would otherwise look equal to the limit.
fn apart(value: f64, limit: Option<f64>, unit: Unit) -> String {
    let usual = unit.show(value);
    #[expect(clippy::float_cmp, reason = "only a value equal to the limit is shown as the limit")]
    let looks_like = |limit: f64| limit != value && unit.show(limit) == usual;
    if !limit.is_some_and(looks_like) {
        return usual;
    }
    match unit {
        Unit::Micros => format!("{value} µs"),
        Unit::PerSecond => format!("{value:.6}/s"),
        Unit::Amount | Unit::Share => format!("{value:.6}"),
        Unit::Bytes => format!("{value} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(value: f64, at_least: bool) -> Reading {
        Reading { value, at_least, samples: Some(100) }
    }

    fn of(values: &[(f64, bool)]) -> Observed {
        let readings: Vec<_> = values.iter().map(|(value, at_least)| reading(*value, *at_least)).collect();
        let figure = figures::named("wait.p99").unwrap();
        observed(figure, &readings, Worst::Median, false).unwrap()
    }

    #[test]
    fn median_is_a_lower_bound_only_if_a_lower_bound_could_change_it() {
        assert!(!of(&[(1.0, false), (2.0, false), (3.0, true)]).at_least);
        assert!(of(&[(1.0, true), (2.0, false), (3.0, false)]).at_least);
        assert!(of(&[(1.0, false), (2.0, true)]).at_least);
        assert_eq!(of(&[(3.0, false), (1.0, false)]).value, 2.0);
        assert_eq!(of(&[(3.0, false), (1.0, false)]).samples, Some(200));
    }

    #[test]
    fn worst_repetition_decides_the_verdict_on_a_count() {
        assert_eq!(worst_of(0.0, 3.0, Relation::Equal, 0.0), 3.0);
        assert_eq!(worst_of(0.0, 3.0, Relation::Equal, 3.0), 0.0);
        assert_eq!(worst_of(0.0, 3.0, Relation::AtMost, 5.0), 3.0);
        assert_eq!(worst_of(0.0, 3.0, Relation::AtLeast, 5.0), 0.0);
    }

    #[test]
    fn values_that_round_to_the_limit_are_shown_with_more_digits() {
        assert_eq!(apart(50_040.0, Some(50_000.0), Unit::Micros), "50040 µs");
        assert_eq!(apart(50_000.0, Some(50_000.0), Unit::Micros), "50 ms");
        assert_eq!(apart(38_200.0, Some(50_000.0), Unit::Micros), "38.2 ms");
    }
}
