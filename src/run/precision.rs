//! Whether the metrics of a run are as precise as its scenario asks; repetitions are added until they are.
//!
//! For each strategy and contender count, every valid repetition yields a metric: the throughput under closed
//! load, the mean handoff in a batch, the mean wait under open load. The interval is Student's for the mean
//! of their logarithms, because a disturbance makes a repetition slower or faster by a share, not by an
//! amount.
//!
//! A run that stops at the first narrow interval stops where the spread happens to look small. So it may stop
//! only after certain numbers of repetitions, which share the error probability of the intervals ([`Looks`]).

use statrs::distribution::{ContinuousCDF, StudentsT};

use zklockbench_core::measure::Measure;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{CellKey, Figure, Precision, Statistic, Trial, Widest};
use zklockbench_scenario::{Load, TrialSpec};
use zklockbench_stats::Looks;

/// With fewer repetitions an interval is useless: with two, Student's factor is 12.7.
const REPETITIONS_AT_LEAST: usize = 3;
/// Error probability of the intervals of all looks together.
const OUTSIDE: f64 = 0.05;

struct CellLogarithms {
    key: CellKey,
    /// Logarithm of the metric of each valid repetition.
    logarithms: Vec<f64>,
}

pub(super) struct Figures {
    asked: zklockbench_scenario::Precision,
    looks: Looks,
    cells: Vec<CellLogarithms>,
}

impl Figures {
    /// Metrics of a run with at least this many repetitions.
    pub(super) fn of(asked: zklockbench_scenario::Precision, repetitions: u32, round: &[TrialSpec]) -> Self {
        let cell = |spec: &TrialSpec| CellLogarithms { key: CellKey::of(spec), logarithms: Vec::new() };
        Self {
            asked,
            looks: looks(repetitions, asked.repetitions_at_most),
            cells: round.iter().map(cell).collect(),
        }
    }

    /// Records the metric of a trial that has ended, with its histograms. Cut-short or invalid trials are
    /// ignored.
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
        let outside = self.looks.outside(rounds, OUTSIDE);
        let widest = self.cells.iter().map(|cell| (cell, half_width(&cell.logarithms, outside)));
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
        let may_stop = so_far.reached && self.looks.is_at(so_far.rounds);
        !may_stop && so_far.rounds < self.asked.repetitions_at_most
    }
}

/// Numbers of repetitions after which a run may stop.
fn looks(repetitions: u32, at_most: u32) -> Looks {
    Looks::growing(repetitions.max(REPETITIONS_AT_LEAST as u32), at_most)
}

/// Metric of a trial that must be precise; `None` if not measured.
fn figure(trial: &Trial) -> Option<f64> {
    // The mean wait of a growing queue is missing: it would only reflect the length of the trial.
    let of = |figure: Figure| trial.reading(figure).ok().map(|reading| reading.value);
    let mean = |measure| of(Figure::Latency(measure, Statistic::Mean));
    match trial.spec.load {
        Load::Closed => of(THROUGHPUT.figure()),
        // A batch's throughput is the conductor's, which lets contenders queue one by one. A lone contender
        // has no handoff.
        Load::Batch => mean(Measure::Handoff).or_else(|| mean(Measure::Wait)),
        Load::Open(_) => mean(Measure::Wait),
    }
}

/// Upper half width of the interval of the mean, as a share of the mean. (The lower one is narrower.) `None`
/// with too few repetitions.
fn half_width(logarithms: &[f64], outside: f64) -> Option<f64> {
    if logarithms.len() < REPETITIONS_AT_LEAST {
        return None;
    }
    let count = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / count;
    let variance = logarithms.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    Some((student.inverse_cdf(1.0 - outside / 2.0) * (variance / count).sqrt()).exp_m1())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::StandardNormal;

    use super::*;

    fn logarithms(figures: &[f64]) -> Vec<f64> {
        figures.iter().map(|figure| figure.ln()).collect()
    }

    #[test]
    fn student_factor_agrees_with_printed_tables() {
        for (freedom, factor) in [(2.0, 4.303), (4.0, 2.776), (9.0, 2.262), (29.0, 2.045)] {
            let student = StudentsT::new(0.0, 1.0, freedom).unwrap();
            assert!((student.inverse_cdf(0.975) - factor).abs() < 5e-4, "{freedom}");
        }
    }

    #[test]
    fn interval_of_three_figures_agrees_with_a_manual_calculation() {
        // Logarithms -0.1, 0 and 0.1 have a deviation of 0.1: 4.303 * 0.1 / √3 = 0.2484, and e to that is
        // 1.282.
        let half = half_width(&[-0.1, 0.0, 0.1], 0.05).unwrap();
        assert!((half - 0.282).abs() < 1e-3, "{half}");
    }

    #[test]
    fn half_width_is_unknown_for_two_repetitions_and_zero_for_equal_ones() {
        assert_eq!(half_width(&logarithms(&[10.0, 10.0]), 0.05), None);
        assert_eq!(half_width(&logarithms(&[10.0, 10.0, 10.0]), 0.05), Some(0.0));
    }

    /// Outcomes of simulated runs whose repetitions spread by `sigma`, as shares, and their mean number of
    /// repetitions.
    #[derive(Debug, Default)]
    struct Stopped {
        reached: f64,
        /// Share of runs whose interval does not contain the true mean.
        missed: f64,
        /// Share of runs that reached the precision although their mean is farther from the true one.
        outside: f64,
        rounds: f64,
    }

    fn simulated(sigma: f64, asked: f64, at_most: u32) -> Stopped {
        const RUNS: u32 = 4_000;
        let looks = looks(3, at_most);
        // The factors of Student's t depend only on the look.
        let factors: Vec<Option<f64>> = (0..=at_most)
            .map(|rounds| {
                let student = StudentsT::new(0.0, 1.0, f64::from(rounds) - 1.0).ok()?;
                let outside = looks.outside(rounds, OUTSIDE);
                looks
                    .is_at(rounds)
                    .then(|| student.inverse_cdf(1.0 - outside / 2.0) / f64::from(rounds).sqrt())
            })
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(18);
        let mut all = Stopped::default();
        for _ in 0..RUNS {
            let (mut sum, mut squares) = (0.0, 0.0);
            for rounds in 1..=at_most {
                let logarithm: f64 = sigma * random.sample::<f64, _>(StandardNormal);
                (sum, squares) = (sum + logarithm, squares + logarithm * logarithm);
                let Some(factor) = factors[rounds as usize] else { continue };
                let count = f64::from(rounds);
                let mean: f64 = sum / count;
                let half = factor * ((squares - count * mean * mean).max(0.0) / (count - 1.0)).sqrt();
                let reached = half.exp_m1() <= asked;
                if reached || rounds == at_most {
                    all.reached += f64::from(u8::from(reached));
                    all.missed += f64::from(u8::from(mean.abs() > half));
                    all.outside += f64::from(u8::from(reached && mean.exp_m1().abs() > asked));
                    all.rounds += count;
                    break;
                }
            }
        }
        for share in [&mut all.reached, &mut all.missed, &mut all.outside, &mut all.rounds] {
            *share /= f64::from(RUNS);
        }
        all
    }

    #[test]
    fn intervals_contain_the_mean_in_95_percent_of_runs_despite_early_stopping() {
        for (sigma, asked, at_most) in [
            (0.05, 0.03, 30),
            (0.10, 0.03, 30),
            (0.10, 0.05, 30),
            (0.02, 0.03, 30),
            (0.05, 0.05, 30),
            (0.05, 0.02, 30),
            (0.15, 0.05, 30),
            (0.05, 0.03, 100),
        ] {
            let found = simulated(sigma, asked, at_most);
            eprintln!("sigma {sigma}, asked {asked}, at most {at_most}: {found:?}");
            // Three standard errors of a share of 5 % in 4,000 runs are 1 %.
            assert!(found.missed <= 0.06, "sigma {sigma}, asked {asked}: {found:?}");
            assert!(found.outside <= 0.06, "sigma {sigma}, asked {asked}: {found:?}");
        }
        let usual = simulated(0.05, 0.03, 30);
        assert!(usual.reached > 0.95 && usual.rounds < 29.0, "{usual:?}");
    }

    proptest! {
        #[test]
        fn interval_is_independent_of_units_and_narrowed_by_a_central_repetition(
            figures in proptest::collection::vec(1.0..1e6_f64, 3..12),
            unit in 1e-3..1e3_f64,
        ) {
            let of = |figures: &[f64]| half_width(&logarithms(figures), 0.05).unwrap();
            let narrow = of(&figures);
            let scaled: Vec<f64> = figures.iter().map(|figure| figure * unit).collect();
            prop_assert!((of(&scaled) - narrow).abs() <= 1e-6 * narrow.max(1.0));
            let mean = (logarithms(&figures).iter().sum::<f64>() / figures.len() as f64).exp();
            prop_assert!(of(&[figures, vec![mean]].concat()) <= narrow + 1e-9);
        }
    }
}
