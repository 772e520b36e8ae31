//! Precision of a run's metrics: adds repetitions until the scenario's requirement is met.
//!
//! For each strategy and contender count, every valid repetition yields one value: the throughput of a closed
//! load, the mean handoff of a batch, or the mean wait of an open load. The confidence interval is computed
//! from the Walsh averages of the logarithms, because a disturbance slows a repetition by a factor, not by a
//! fixed amount.
//!
//! Stopping at the first narrow interval would favour spreads that are small by chance. A run may therefore stop
//! only after fixed numbers of repetitions, which share the error probability of the intervals ([`Looks`]).

use zklockbench_core::measure::Measure;
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{CellKey, Figure, Precision, Statistic, Trial, Widest};
use zklockbench_scenario::{Load, TrialPlan, TrialSpec};
use zklockbench_stats::{Design, Interval, Looks};

/// Total error probability of the intervals at all stopping points.
const OUTSIDE: f64 = 0.05;

struct CellValues {
    key: CellKey,
    /// Metric of each valid repetition.
    values: Vec<f64>,
}

pub(super) struct Figures {
    asked: zklockbench_scenario::Precision,
    looks: Looks,
    cells: Vec<CellValues>,
}

impl Figures {
    /// Returns a run's metrics, still without values; `None` if the scenario requires no precision.
    pub(super) fn of(plan: &TrialPlan) -> Option<Self> {
        let asked = plan.scenario.precision?;
        let cell = |spec: &TrialSpec| CellValues { key: CellKey::of(spec), values: Vec::new() };
        let looks = looks(plan.scenario.repetitions, asked.repetitions_at_most);
        Some(Self { asked, looks, cells: plan.round(1).iter().map(cell).collect() })
    }

    /// Records the metric of a trial that still has its histograms. Ignores invalid and cut-short trials.
    pub(super) fn note(&mut self, trial: &Trial) {
        if !trial.is_sound() {
            return;
        }
        let value = figure(trial).filter(|figure| *figure > 0.0);
        if let Some(cell) = self.cells.iter_mut().find(|cell| cell.key.is_of(trial)) {
            cell.values.extend(value);
        }
    }

    pub(super) fn precision(&self, rounds: u32) -> Precision {
        let outside = self.looks.share(rounds);
        let half_width = |cell: &CellValues| {
            Design::One.interval(&[], &cell.values, outside).as_ref().and_then(Interval::half_width)
        };
        let widest = self.cells.iter().map(|cell| (cell, half_width(cell)));
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

/// Returns the numbers of repetitions after which a run may stop.
fn looks(repetitions: u32, at_most: u32) -> Looks {
    Looks::growing(Design::One, repetitions, at_most, OUTSIDE)
}

/// Returns the value whose precision is required; `None` if it was not measured.
fn figure(trial: &Trial) -> Option<f64> {
    // A growing queue has no reading, because its mean wait would only reflect the length of the trial.
    let of = |figure: Figure| trial.reading(figure).ok().map(|reading| reading.value);
    let mean = |measure| of(Figure::Latency(measure, Statistic::Mean));
    match trial.spec.load {
        Load::Closed => of(THROUGHPUT.figure()),
        // The conductor, not the lock, sets the pace of a batch. A single contender has no handoffs.
        Load::Batch => mean(Measure::Handoff).or_else(|| mean(Measure::Wait)),
        Load::Open(_) => mean(Measure::Wait),
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::StandardNormal;

    use super::*;

    /// Outcomes of simulated runs as shares, and their mean number of repetitions.
    #[derive(Debug, Default)]
    struct Stopped {
        reached: f64,
        /// Share of runs whose interval misses the true centre.
        missed: f64,
        /// Share of runs that reached the precision, but whose estimate is off by more than the precision.
        outside: f64,
        rounds: f64,
    }

    fn simulated(sigma: f64, asked: f64, at_most: u32) -> Stopped {
        const RUNS: u32 = 2_000;
        let looks = looks(1, at_most);
        let mut random = ChaCha8Rng::seed_from_u64(18);
        let mut all = Stopped::default();
        for _ in 0..RUNS {
            let mut values = Vec::new();
            for rounds in 1..=at_most {
                values.push((sigma * random.sample::<f64, _>(StandardNormal)).exp());
                if !looks.is_at(rounds) {
                    continue;
                }
                let found = Design::One.interval(&[], &values, looks.share(rounds)).unwrap();
                let reached = found.half_width().is_some_and(|half| half <= asked);
                if reached || rounds == at_most {
                    let is_outside = found.value.max(1.0 / found.value) > 1.0 + asked;
                    all.reached += f64::from(u8::from(reached));
                    all.missed += f64::from(u8::from(!found.contains(1.0)));
                    all.outside += f64::from(u8::from(reached && is_outside));
                    all.rounds += f64::from(rounds);
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
    fn intervals_contain_the_centre_in_95_percent_of_runs_despite_early_stopping() {
        for (sigma, asked, at_most) in [
            (0.05, 0.03, 30),
            (0.10, 0.03, 30),
            (0.10, 0.05, 30),
            (0.02, 0.03, 30),
            (0.05, 0.05, 30),
            (0.05, 0.02, 30),
            (0.15, 0.05, 30),
            (0.02, 0.03, 6),
            (0.05, 0.03, 60),
        ] {
            let found = simulated(sigma, asked, at_most);
            eprintln!("sigma {sigma}, asked {asked}, at most {at_most}: {found:?}");
            // For a share of 5 % in 2,000 runs, two standard errors are 1 %.
            assert!(found.missed <= 0.06, "sigma {sigma}, asked {asked}: {found:?}");
            assert!(found.outside <= 0.06, "sigma {sigma}, asked {asked}: {found:?}");
        }
        let usual = simulated(0.05, 0.03, 30);
        assert!(usual.reached > 0.95 && usual.rounds < 29.0, "{usual:?}");
    }
}
