//! Number of repetitions needed to detect a change, estimated from one side before the other is measured.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use super::both_sides::{BothSides, together};
use super::comparison::{Ask, cells};
use super::figures::{Chosen, Role, VIOLATIONS, chosen, counts_losses, is_determined, readings};
use super::judge::Sample;
use super::side::{CellUnderLoad, Side};
use super::test::MOST;
use zklockbench_record::{Figure, Unit};
use zklockbench_stats::Design;

/// Probability with which the change must be detected.
const SEEN: f64 = 0.8;
/// Efficiency of the rank test relative to a t test for normally distributed values: 3/π.
const EFFICIENCY: f64 = 3.0 / std::f64::consts::PI;

/// Repetitions needed to detect a change.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Power {
    /// The relative change: 0.05 for 5 %.
    pub change: f64,
    /// Probability of detecting the change.
    pub seen: f64,
    /// Number of comparisons that share the error probability.
    pub family: usize,
    /// One row for each metric of each cell.
    pub rows: Vec<PowerRow>,
}

/// Repetitions needed for one metric of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PowerRow {
    /// The cell.
    pub cell: CellUnderLoad,
    /// Name of the metric.
    pub figure: String,
    /// Readings of the valid repetitions.
    pub readings: Sample,
    /// Standard deviation of the repetitions' logarithms: 0.05 means 5 %. Null if unknown.
    pub spread: Option<f64>,
    /// Approximate number of repetitions per side that detect the change; null if unknown or above 500.
    pub repetitions: Option<usize>,
    /// Unit of the metric, for renderers.
    #[serde(skip)]
    pub measured_in: Unit,
}

/// Computes the number of repetitions needed to detect a change of each deciding metric, from its spread on
/// one side.
pub fn power(base: &Side, ask: &Ask, change: f64) -> Power {
    let pairs: Vec<(CellUnderLoad, BothSides<'_>)> = cells(base)
        .into_iter()
        .map(|(key, repetitions)| (key, BothSides::of(repetitions.clone(), repetitions, None)))
        .collect();
    let of_all = together(&pairs, &ask.figures, &ask.terms).into_iter();
    let mut asked: Vec<(CellUnderLoad, Figure, Sample)> =
        of_all.map(|all| (all.cell, all.chosen.figure, all.planned.base())).collect();
    for (key, pair) in &pairs {
        let trials = pair.base.trials();
        let deciding = chosen(&ask.figures, key, &trials, &trials).into_iter();
        for Chosen { figure, .. } in deciding.filter(|chosen| chosen.role == Role::Decides) {
            // An exact metric needs one repetition; a loss rate may be zero, which has no logarithm.
            let no_test = figure == VIOLATIONS
                || counts_losses(figure)
                || trials.iter().filter(|trial| trial.is_sound()).all(|trial| is_determined(figure, trial));
            if let (false, Ok(found)) = (no_test, readings(&trials, figure)) {
                asked.push((key.clone(), figure, Sample::of(&found)));
            }
        }
    }
    let family = asked.len();
    let row = |(cell, figure, readings): (CellUnderLoad, Figure, Sample)| {
        let spread = spread(&readings);
        let repetitions = spread.and_then(|spread| needed(spread, change, ask.terms.alpha, family));
        let (figure, measured_in) = (figure.to_string(), figure.unit());
        PowerRow { cell, figure, readings, spread, repetitions, measured_in }
    };
    Power { change, seen: SEEN, family, rows: asked.into_iter().map(row).collect() }
}

/// Returns the standard deviation of the logarithms; `None` for fewer than two values, or if a logarithm does
/// not exist.
fn spread(readings: &Sample) -> Option<f64> {
    if readings.values.len() < 2 || readings.at_least {
        return None;
    }
    let logs: Vec<f64> = readings.values.iter().map(|value| value.ln()).collect();
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    Some((squares / (count - 1.0)).sqrt()).filter(|spread| spread.is_finite())
}

/// Returns the number of repetitions needed to bound both error rates for normally distributed values: at least
/// the family's minimum, and `None` if more than [`MOST`].
fn needed(spread: f64, change: f64, alpha: f64, family: usize) -> Option<usize> {
    let normal = Normal::new(0.0, 1.0).ok()?;
    let demanded = Design::Independent.fewest(alpha / family.max(1) as f64)?;
    let both = normal.inverse_cdf(1.0 - alpha / (2.0 * family.max(1) as f64)) + normal.inverse_cdf(SEEN);
    let by_spread = 2.0 * (both * spread / change.ln_1p()).powi(2) / EFFICIENCY;
    let needed = (by_spread.ceil() as usize).max(demanded);
    (needed <= MOST).then_some(needed)
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::StandardNormal;

    use super::*;

    #[test]
    fn reported_repetitions_detect_the_change_with_80_percent_probability() {
        let (spread, change, family) = (0.05, 0.06, 20);
        let count = needed(spread, change, 0.05, family).unwrap();
        assert!((20..40).contains(&count), "{count}");
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let seen = (0..400).filter(|_| {
            let mut side = |middle: f64| -> Vec<f64> {
                (0..count).map(|_| middle * (spread * rng.sample::<f64, _>(StandardNormal)).exp()).collect()
            };
            let outside = 0.05 / family as f64;
            let found = Design::Independent.interval(&side(1.0), &side(1.0 + change), outside).unwrap();
            !found.contains(1.0)
        });
        let share = seen.count() as f64 / 400.0;
        assert!((0.72..0.9).contains(&share), "{share} with {count}");
    }

    #[test]
    fn metrics_without_spread_need_only_the_minimum_repetitions() {
        assert_eq!(needed(0.0, 0.05, 0.05, 24), Design::Independent.fewest(0.05 / 24.0));
        assert_eq!(needed(3.0, 0.05, 0.05, 24), None);
        let spread = |values: &[f64]| spread(&Sample { values: values.to_vec(), ..Sample::default() });
        assert_eq!(spread(&[1.0]), None);
        assert_eq!(spread(&[0.0, 1.0]), None);
        assert_eq!(spread(&[5.0, 5.0]), Some(0.0));
    }
}
