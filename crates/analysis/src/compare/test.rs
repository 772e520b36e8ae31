//! Tests two samples of one metric: determines the unit, the intervals, the verdict, and the number of units
//! needed.

use std::collections::BTreeMap;

use super::figures::better_of;
use super::judge::{Compared, ComparisonVerdict, Limits, Method, Sample, Scale, decide};
use zklockbench_core::units::{counted, percent};
use zklockbench_record::{Better, Figure, Reading};
use zklockbench_stats::{Design, Interval, median};

/// The readings of both sides in one block, measured side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub base: Reading,
    pub new: Reading,
}

impl Block {
    /// Returns the repetitions for which both sides have a reading, matched by key. If a repetition was
    /// rerun, its first reading counts; the caller omits invalid trials.
    pub fn of_repetitions<K: Ord>(
        base: impl IntoIterator<Item = (K, Reading)>,
        new: impl IntoIterator<Item = (K, Reading)>,
    ) -> Vec<Self> {
        let mut new = first_of_each(new);
        let both = first_of_each(base).into_iter();
        both.filter_map(|(name, base)| Some(Self { base, new: new.remove(&name)? })).collect()
    }
}

fn first_of_each<K: Ord>(readings: impl IntoIterator<Item = (K, Reading)>) -> BTreeMap<K, Reading> {
    let mut first = BTreeMap::new();
    for (name, reading) in readings {
        first.entry(name).or_insert(reading);
    }
    first
}

#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    pub base: Vec<Vec<Reading>>,
    pub new: Vec<Vec<Reading>>,
}

/// Returns the verdicts on a family of tests, in the given order. The family must be fixed before any reading
/// is seen, so it includes tests without readings.
pub fn judge_family(tests: &[Test]) -> Vec<Compared> {
    tests.iter().map(|test| test.judge(tests.len())).collect()
}

/// Largest number of repetitions worth recommending.
pub(super) const MOST: usize = 500;

#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    unit: Method,
    better: Better,
    limits: Limits,
    scale: Scale,
    /// Readings of each side, for display.
    pub(super) base: Sample,
    new: Sample,
    /// One reading for each unit.
    units: [Vec<Reading>; 2],
}

impl Test {
    /// Creates a test of two independent sides.
    pub fn unpaired(base: &[Reading], new: &[Reading], better: Better, limits: Limits) -> Self {
        Self::of(Method::Repetitions, base.to_vec(), new.to_vec(), better, limits, Scale::Values)
    }

    /// Creates a test of pairs, in which shared disturbances cancel out. The caller omits incomplete blocks.
    pub fn paired(blocks: &[Block], better: Better, limits: Limits) -> Self {
        Self::on_scale(blocks, better, limits, Scale::Values)
    }

    /// Creates a test of pairs of readings of one metric, on the metric's scale.
    pub fn of_pairs(blocks: &[Block], figure: Figure, limits: Limits) -> Self {
        Self::on_scale(blocks, better_of(figure), limits, Scale::fitting(figure))
    }

    /// Returns the verdict on pairs of equal sides. Both *improved* and *regressed* mean a difference.
    pub fn of_twins(blocks: &[Block], figure: Figure, limits: Limits) -> Compared {
        Self::on_scale(blocks, Better::Lower, limits, Scale::fitting(figure)).judge(1)
    }

    fn on_scale(blocks: &[Block], better: Better, limits: Limits, scale: Scale) -> Self {
        let (base, new) = blocks.iter().map(|block| (block.base, block.new)).unzip();
        Self::of(Method::Pairs, base, new, better, limits, scale)
    }

    /// Creates a test of measurements that ran side by side. The test uses pairs if there are enough for the
    /// family. Otherwise, it treats the sides as independent, for which fewer repetitions suffice. The choice
    /// depends only on the number of blocks, not on their values.
    pub fn of_blocks(blocks: &[Block], better: Better, limits: Limits, family: usize) -> Self {
        if Design::Pairs.least_outside(blocks.len(), blocks.len()) <= limits.share(family) {
            return Self::paired(blocks, better, limits);
        }
        let (base, new): (Vec<_>, Vec<_>) = blocks.iter().map(|block| (block.base, block.new)).unzip();
        Self::unpaired(&base, &new, better, limits)
    }

    /// Creates a test that compares two sets of runs. Repetitions of a run share servers and host conditions,
    /// so the run is the unit. If there are too few runs to estimate their spread, the repetition is the unit,
    /// and the result describes only these runs.
    pub fn of_runs(runs: &Runs, better: Better, limits: Limits, scale: Scale) -> Self {
        let all = Self::of(Method::Repetitions, runs.base.concat(), runs.new.concat(), better, limits, scale);
        match (medians(&runs.base), medians(&runs.new)) {
            (Some(base), Some(new)) if base.len() + new.len() >= FEWEST_RUNS => {
                Self { unit: Method::Runs, units: [base, new], ..all }
            }
            _ => all,
        }
    }

    fn of(
        unit: Method,
        base: Vec<Reading>,
        new: Vec<Reading>,
        better: Better,
        limits: Limits,
        scale: Scale,
    ) -> Self {
        let [was, is] = [&base, &new].map(|side| Sample::of(side));
        Self { unit, better, limits, scale, base: was, new: is, units: [base, new] }
    }

    /// Returns the verdict, corrected for `family` comparisons.
    pub fn judge(&self, family: usize) -> Compared {
        let [base, new] = &self.units;
        let why_not = match (base.is_empty(), new.is_empty()) {
            (true, true) => "neither side measured this metric",
            (true, false) => "the base did not measure this metric",
            (false, true) => "the new run did not measure this metric",
            (false, false) => "a value is negative or not a number",
        };
        let both = self.interval(self.limits.alpha).zip(self.interval(self.limits.share(family)));
        let Some((alone, in_family)) = both else {
            return Compared::not_measured(self.base.clone(), self.new.clone(), why_not.into());
        };
        let (verdict, regression) = decide(&alone, &in_family, self.better, self.scale.limits(self.limits));
        let (needed, why) = match verdict {
            ComparisonVerdict::Inconclusive => {
                let needed = self.needed(&alone, &in_family, family);
                (needed, Some(self.why_inconclusive(needed, family)))
            }
            ComparisonVerdict::Differs => (None, Some("neither direction is better".into())),
            _ => (None, None),
        };
        Compared {
            verdict,
            regression,
            why,
            method: Some(self.unit),
            base: self.base.clone(),
            new: self.new.clone(),
            scale: self.scale,
            margin: Some(self.limits.margin),
            ratio: Some(self.scale.interval(alone)),
            in_family: Some(self.scale.interval(in_family)),
            repetitions_needed: needed,
        }
    }

    fn design(&self) -> Design {
        if self.unit == Method::Pairs { Design::Pairs } else { Design::Independent }
    }

    /// Returns the interval for the ratio of the new to the base amount. Some values may be lower bounds.
    ///
    /// The true value may be anything above a lower bound. The ratio is smallest if all lower bounds of the
    /// base are infinite, and largest if all lower bounds of the new side are. The interval runs from the
    /// lower end of the smallest ratio's interval to the upper end of the largest ratio's interval.
    fn interval(&self, outside: f64) -> Option<Interval> {
        let [base, new] = &self.units;
        let values = |side: &[Reading], value: fn(&Reading) -> f64| -> Vec<f64> {
            side.iter().map(|one| self.scale.of(value(one))).collect()
        };
        let known: fn(&Reading) -> f64 = |one| one.value;
        let between = |of_base: fn(&Reading) -> f64, of_new: fn(&Reading) -> f64| {
            self.design().interval(&values(base, of_base), &values(new, of_new), outside)
        };
        let found = between(known, known)?;
        if !base.iter().chain(new).any(|one| one.at_least) {
            return Some(found);
        }
        let (least, most) = (between(Reading::at_most, known)?, between(known, Reading::at_most)?);
        Some(Interval { low: least.low, high: most.high, ..found })
    }

    /// Returns the number of units on the smaller side.
    fn count(&self) -> usize {
        self.units[0].len().min(self.units[1].len())
    }

    /// Returns the estimated number of units needed for a verdict; at least the minimum for the family.
    /// Assumes that the interval shrinks with the square root of the number. `None` beyond [`MOST`].
    fn needed(&self, alone: &Interval, in_family: &Interval, family: usize) -> Option<usize> {
        let demanded = self.design().fewest(self.limits.share(family))? as f64;
        let margin = self.scale.limits(self.limits).margin.ln_1p();
        let middle = alone.value.ln().abs();
        // For a ratio beyond the margin, the family's interval must also be beyond the margin.
        let deciding = if middle > margin { in_family } else { alone };
        let by_width = if deciding.is_bounded() {
            let half = (deciding.high / deciding.low).ln() / 2.0;
            self.count() as f64 * (half / (middle - margin).abs()).powi(2)
        } else {
            demanded
        };
        // The current number is known to be insufficient.
        let needed = by_width.ceil().max(demanded).max(self.count() as f64 + 1.0);
        (by_width.is_finite() && needed <= MOST as f64).then_some(needed as usize)
    }

    fn why_inconclusive(&self, needed: Option<usize>, family: usize) -> String {
        let units = |count| match self.unit {
            Method::Pairs => counted(count, "pair", "pairs"),
            Method::Runs => counted(count, "run a side", "runs a side"),
            Method::Repetitions | Method::Exact => counted(count, "repetition a side", "repetitions a side"),
        };
        let more = match needed {
            Some(needed) => format!("needs about {}", units(needed)),
            None => format!("even {} would not be enough; make each repetition longer", units(MOST)),
        };
        let has = units(self.count());
        let [base, new] = &self.units;
        if self.design().least_outside(base.len(), new.len()) > self.limits.share(family) {
            let family = counted(family.max(1), "comparison", "comparisons");
            return format!("{has} cannot decide {family}; {more}");
        }
        format!("the interval over {has} crosses the margin of {}; {more}", percent(self.limits.margin))
    }
}

/// Minimum total number of runs needed to estimate their spread.
const FEWEST_RUNS: usize = 5;

/// Returns the median of each run; `None` if one is unknown, e.g. because a queue grew in half of the
/// repetitions.
fn medians(side: &[Vec<Reading>]) -> Option<Vec<Reading>> {
    let median_of = |run: &Vec<Reading>| {
        let middle = |of: fn(&Reading) -> f64| median(&run.iter().map(of).collect::<Vec<_>>());
        let known = middle(|reading| reading.value)?;
        // Lower bounds above the median do not change it.
        let is_known = middle(Reading::at_most)? == known && known.is_finite();
        is_known.then(|| Reading::exact(known))
    };
    side.iter().map(median_of).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::{Regression, more_lost};

    fn readings(values: &[f64]) -> Vec<Reading> {
        values.iter().copied().map(Reading::exact).collect()
    }

    /// Returns ten slightly different readings, starting at this value.
    fn around(value: f64) -> Vec<Reading> {
        readings(&(0..10).map(|at| value * (1.0 + f64::from(at) / 1_000.0)).collect::<Vec<_>>())
    }

    fn judge(base: &[Reading], new: &[Reading], better: Better) -> Compared {
        Test::unpaired(base, new, better, Limits::default()).judge(1)
    }

    #[test]
    fn the_verdict_depends_on_the_whole_interval() {
        for (new, verdict, regression) in [
            (100.0, ComparisonVerdict::Same, Regression::No),
            (103.0, ComparisonVerdict::Same, Regression::No),
            (105.0, ComparisonVerdict::Inconclusive, Regression::Unknown),
            (108.0, ComparisonVerdict::Regressed, Regression::Yes),
            (90.0, ComparisonVerdict::Improved, Regression::No),
            (95.2, ComparisonVerdict::Inconclusive, Regression::No),
        ] {
            let found = judge(&around(100.0), &around(new), Better::Lower);
            assert_eq!((found.verdict, found.regression), (verdict, regression), "{new}: {:?}", found.ratio);
        }
    }

    #[test]
    fn lost_shares_are_compared_by_their_difference() {
        let limits = Limits { margin: 0.02, ..Limits::default() };
        for (base, new, verdict, change) in [
            (0.5, 0.6, ComparisonVerdict::Regressed, "lost an additional 10 %"),
            (0.5, 0.529, ComparisonVerdict::Regressed, "lost an additional 2.9 %"),
            (0.5, 0.519, ComparisonVerdict::Same, "lost an additional 1.9 %"),
            (0.6, 0.5, ComparisonVerdict::Improved, "no longer lost 10 %"),
            // A request can fail more than once.
            (2.5, 0.5, ComparisonVerdict::Improved, "no longer lost 200 %"),
        ] {
            let side = |share: f64| vec![readings(&[share; 8])];
            let runs = Runs { base: side(base), new: side(new) };
            let found = Test::of_runs(&runs, Better::Lower, limits, Scale::SharesLost).judge(1);
            let said = more_lost(found.ratio.unwrap().value);
            assert_eq!((found.verdict, said), (verdict, format!("{change} of all requests")));
        }
    }

    #[test]
    fn an_unmeasured_metric_stays_in_the_family_and_never_passes() {
        let limits = Limits::default();
        let test = |new: &[Reading]| Test::unpaired(&around(100.0), new, Better::Lower, limits);
        let found = judge_family(&[test(&around(200.0)), test(&[])]);
        assert_eq!(found[0].in_family, test(&around(200.0)).judge(2).in_family);
        assert_ne!(found[0].in_family, found[0].ratio);
        assert_eq!(found[1].verdict, ComparisonVerdict::NotMeasured);
        assert_eq!(found[1].regression, Regression::Unknown);
    }

    proptest! {
        #[test]
        fn exchanging_the_sides_reverses_the_verdict(
            base in proptest::collection::vec(0.0..3.0_f64, 1..10),
            new in proptest::collection::vec(0.0..3.0_f64, 1..10),
        ) {
            let (base, new) = (readings(&base), readings(&new));
            let there = judge(&base, &new, Better::Lower).verdict;
            let back = judge(&new, &base, Better::Lower).verdict;
            let opposite = match there {
                ComparisonVerdict::Improved => ComparisonVerdict::Regressed,
                ComparisonVerdict::Regressed => ComparisonVerdict::Improved,
                same => same,
            };
            prop_assert_eq!(back, opposite);
            prop_assert_eq!(judge(&base, &new, Better::Higher).verdict, opposite);
        }
    }
}
