//! Whether the figures of a run are as precise as its scenario asks: repetitions are added until they are.
//!
//! Of each strategy at each contender count the figure is taken of every sound repetition: the throughput in a closed load,
//! the mean handoff in a batch, the mean wait in an open load. The interval is Student's for the mean of their logarithms,
//! because what disturbs a repetition makes it slower or faster by a share, not by an amount.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::record::figures::THROUGHPUT;
use crate::record::{CellKey, Figure, Precision, Statistic, Trial, Widest};
use crate::scenario::{self, Load, TrialSpec};
use crate::words::measure::Measure;

/// Of fewer repetitions an interval says nothing of use: with two, Student's factor is 12.7.
const REPETITIONS_AT_LEAST: usize = 3;
/// What lies below the upper end of a two-sided interval of 95 %.
const UPPER_END: f64 = 0.975;

struct CellLogarithms {
    key: CellKey,
    /// The logarithm of the figure of each sound repetition.
    logarithms: Vec<f64>,
}

pub(super) struct Figures {
    asked: scenario::Precision,
    cells: Vec<CellLogarithms>,
}

impl Figures {
    pub(super) fn of(asked: scenario::Precision, round: &[TrialSpec]) -> Self {
        let cell = |spec: &TrialSpec| CellLogarithms { key: CellKey::of(spec), logarithms: Vec::new() };
        Self { asked, cells: round.iter().map(cell).collect() }
    }

    /// Takes the figure of a trial that has ended, with its histograms. A cut-short or invalid one counts for nothing.
    pub(super) fn note(&mut self, trial: &Trial) {
        if !trial.is_sound() {
            return;
        }
        let logarithm = figure(trial).filter(|figure| *figure > 0.0).map(f64::ln);
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.key.is_of(trial)) {
            cell.logarithms.extend(logarithm);
        }
    }

    pub(super) fn precision(&self, rounds: u32) -> Precision {
        let widest = self.cells.iter().map(|cell| (cell, half_width(&cell.logarithms)));
        let widest = widest.max_by(|(_, one), (_, other)| {
            one.unwrap_or(f64::INFINITY).total_cmp(&other.unwrap_or(f64::INFINITY))
        });
        Precision {
            asked: self.asked.share,
            reached: widest
                .as_ref()
                .is_some_and(|(_, half)| half.is_some_and(|half| half <= self.asked.share)),
            rounds,
            widest: widest.map(|(cell, half_width)| Widest {
                strategy: cell.key.strategy.clone(),
                contenders: cell.key.contenders,
                half_width,
            }),
        }
    }

    pub(super) fn wants_more(&self, so_far: &Precision) -> bool {
        !so_far.reached && so_far.rounds < self.asked.repetitions_at_most
    }
}

/// What is to be precise of a trial; `None` where not measured.
fn figure(trial: &Trial) -> Option<f64> {
    // The mean wait of a queue that grew is missing: it would only say how long the trial was.
    let of = |figure: Figure| figure.of(trial).ok().map(|reading| reading.value);
    let mean = |measure| of(Figure::Latency(measure, Statistic::Mean));
    match trial.spec.load {
        Load::Closed => of(THROUGHPUT.figure()),
        // Its throughput is that of the conductor, who lets contenders queue up one by one. Alone there is no handoff.
        Load::Batch => mean(Measure::Handoff).or_else(|| mean(Measure::Wait)),
        Load::Open(_) => mean(Measure::Wait),
    }
}

/// How far the interval of the mean reaches up, as a share of the mean. (It reaches down less.) `None` of too few.
fn half_width(logarithms: &[f64]) -> Option<f64> {
    if logarithms.len() < REPETITIONS_AT_LEAST {
        return None;
    }
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let variance = logarithms.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    Some((student.inverse_cdf(UPPER_END) * (variance / count).sqrt()).exp_m1())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn logarithms(figures: &[f64]) -> Vec<f64> {
        figures.iter().map(|figure| figure.ln()).collect()
    }

    #[test]
    fn the_factor_is_the_one_of_the_printed_tables() {
        for (freedom, factor) in [(2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045)] {
            let student = StudentsT::new(0.0, 1.0, freedom).unwrap();
            assert!((student.inverse_cdf(UPPER_END) - factor).abs() < 5e-4, "{freedom}");
        }
    }

    #[test]
    fn three_figures_give_the_interval_that_is_worked_out_by_hand() {
        // Logarithms -0.1, 0 and 0.1 have a deviation of 0.1: 4.303 * 0.1 / √3 = 0.2484, and e to that is 1.282.
        let half = half_width(&[-0.1, 0.0, 0.1]).unwrap();
        assert!((half - 0.282).abs() < 1e-3, "{half}");
    }

    #[test]
    fn of_two_repetitions_nothing_is_said_and_of_equal_ones_that_they_are_exact() {
        assert_eq!(half_width(&logarithms(&[10.0, 10.0])), None);
        assert_eq!(half_width(&logarithms(&[10.0, 10.0, 10.0])), Some(0.0));
    }

    proptest! {
        #[test]
        fn another_unit_changes_nothing_and_a_repetition_in_the_middle_narrows_the_interval(
            figures in proptest::collection::vec(1.0..1e6_f64, 3..12),
            unit in 1e-3..1e3_f64,
        ) {
            let of = |figures: &[f64]| half_width(&logarithms(figures)).unwrap();
            let narrow = of(&figures);
            let scaled: Vec<f64> = figures.iter().map(|figure| figure * unit).collect();
            prop_assert!((of(&scaled) - narrow).abs() <= 1e-6 * narrow.max(1.0));
            let mean = (logarithms(&figures).iter().sum::<f64>() / figures.len() as f64).exp();
            prop_assert!(of(&[figures, vec![mean]].concat()) <= narrow + 1e-9);
        }
    }
}
