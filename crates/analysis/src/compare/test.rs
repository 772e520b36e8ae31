//! Two samples of one figure, tested: what is the unit, which test that takes, and what its verdict lacks.

use std::collections::BTreeMap;

use super::figures::better_of;
use super::judge::{Compared, ComparisonVerdict, Judged, Limits, Method, Sample, Scale, SideRatio};
use zklockbench_core::units::{counted, number, percent};
use zklockbench_record::{Better, Figure, Reading};
use zklockbench_stats::{Interval, MannWhitney, Pair, RatioEstimate, SignedRank, StudentRatio, holm, median};

/// The readings of both sides in one block, in which they were measured side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub base: Reading,
    pub new: Reading,
}

impl Block {
    /// The repetitions that both sides have a reading of, by what names a repetition. Of one that was made again because a
    /// trial was spoiled, the first reading counts: the caller leaves out trials that are not sound.
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

/// The verdicts on a family of tests, in the order given. It must have been decided on before anybody looked at the
/// readings: a test that could not be made stays in it.
pub fn judge_family(tests: Vec<Test>) -> Vec<Compared> {
    let adjusted = holm(&tests.iter().map(Test::p).collect::<Vec<_>>());
    let family = tests.len();
    let concluded = tests.into_iter().zip(adjusted);
    concluded.map(|(test, adjusted)| test.conclude(adjusted, family)).collect()
}

/// More repetitions than this are no advice.
pub(super) const MOST: usize = 500;

/// What the unit is, and whether a side's have anything to do with the other's.
#[derive(Debug, Clone, PartialEq)]
enum Design {
    /// Repetitions that have nothing to do with each other.
    Unpaired,
    /// Repetitions side by side.
    Paired,
    Runs(RunMedians),
}

#[derive(Debug, Clone, PartialEq)]
struct RunMedians {
    base: Vec<f64>,
    new: Vec<f64>,
}

impl RunMedians {
    /// With fewer runs than this, both sides together, nothing can be said of how much they differ by themselves.
    const FEWEST: usize = 5;

    /// `None` where there are too few, and where the median of one is not known: where a queue grew in half of its repetitions,
    /// for example.
    fn of(base: &[Vec<Reading>], new: &[Vec<Reading>], scale: Scale) -> Option<Self> {
        let middle = |run: &Vec<Reading>| {
            let middle = |of: &dyn Fn(&Reading) -> f64| median(&run.iter().map(of).collect::<Vec<_>>());
            let known = middle(&|reading| scale.of(reading.value))?;
            // Lower bounds leave it as it is where they lie above it whatever they really are.
            let most = middle(&|reading| scale.of(reading.at_most()))?;
            (known == most && known > 0.0 && known.is_finite()).then_some(known)
        };
        let medians = |side: &[Vec<Reading>]| side.iter().map(middle).collect::<Option<Vec<f64>>>();
        let (base, new) = (medians(base)?, medians(new)?);
        (base.len() + new.len() >= Self::FEWEST).then_some(Self { base, new })
    }
}

impl Design {
    fn method(&self) -> Method {
        match self {
            Self::Unpaired => Method::MannWhitney,
            Self::Paired => Method::SignedRank,
            Self::Runs(_) => Method::Runs,
        }
    }

    fn units(&self, count: usize) -> String {
        match self {
            Self::Unpaired => counted(count, "repetition a side", "repetitions a side"),
            Self::Paired => counted(count, "pair", "pairs"),
            Self::Runs(_) => counted(count, "run a side", "runs a side"),
        }
    }

    fn count(&self, base: &[Reading], new: &[Reading]) -> usize {
        match self {
            Self::Unpaired | Self::Paired => base.len().min(new.len()),
            Self::Runs(RunMedians { base, new }) => base.len().min(new.len()),
        }
    }

    /// How many it takes so that one of so many comparisons can be significant.
    fn needed(&self, family: usize, alpha: f64) -> Option<usize> {
        match self {
            Self::Unpaired => MannWhitney::repetitions_needed(family, alpha),
            Self::Paired => SignedRank::pairs_needed(family, alpha),
            Self::Runs(_) => Some(RunMedians::FEWEST.div_ceil(2)),
        }
    }

    fn smallest_p(&self, base: usize, new: usize) -> f64 {
        match self {
            Self::Unpaired => MannWhitney::smallest_p(base, new),
            Self::Paired => SignedRank::smallest_p(base),
            Self::Runs(_) => 0.0,
        }
    }

    /// The test of values that stand on their scale, with an interval that leaves out `alpha`.
    fn test(&self, base: &[Reading], new: &[Reading], alpha: f64) -> Option<OneTest> {
        match self {
            Self::Unpaired => between(base, new, |base, new| {
                let made = MannWhitney::of(base, new, alpha)?;
                let middle = (base.len() * new.len()) as f64 / 2.0;
                Some(OneTest { p: made.p, up: middle - made.u, ratio: made.ratio })
            }),
            Self::Paired => between(base, new, |base, new| {
                let pair = |(base, new): (&f64, &f64)| Pair { base: *base, new: *new };
                let pairs: Vec<Pair> = base.iter().zip(new).map(pair).collect();
                let made = SignedRank::of(&pairs, alpha)?;
                let differing = (pairs.len() - made.equal) as f64;
                Some(OneTest {
                    p: made.p,
                    up: made.v - differing * (differing + 1.0) / 4.0,
                    ratio: made.ratio,
                })
            }),
            Self::Runs(RunMedians { base, new }) => {
                let made = StudentRatio::of(base, new, alpha)?;
                Some(OneTest { p: made.p, up: made.ratio.ratio.ln(), ratio: made.ratio })
            }
        }
    }
}

/// A test that was made, or could not be: everything but the correction, which takes the whole family.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    data: TestData,
    found: Result<OneTest, String>,
}

#[derive(Debug, Clone, PartialEq)]
struct TestData {
    design: Design,
    better: Better,
    limits: Limits,
    scale: Scale,
    base: Vec<Reading>,
    new: Vec<Reading>,
}

impl TestData {
    fn made(self) -> Test {
        let found = match (self.base.is_empty(), self.new.is_empty()) {
            (true, true) => Err("neither side has it"),
            (true, false) => Err("the base does not have it"),
            (false, true) => Err("the new run does not have it"),
            (false, false) => self.leaving_out(self.limits.alpha).ok_or("a value is negative or no number"),
        };
        Test { found: found.map_err(str::to_owned), data: self }
    }

    fn leaving_out(&self, alpha: f64) -> Option<OneTest> {
        let on_scale = |side: &[Reading]| -> Vec<Reading> {
            side.iter().map(|reading| Reading { value: self.scale.of(reading.value), ..*reading }).collect()
        };
        self.design.test(&on_scale(&self.base), &on_scale(&self.new), alpha)
    }
}

impl Test {
    /// Of two sides that have nothing to do with each other.
    pub fn unpaired(base: &[Reading], new: &[Reading], better: Better, limits: Limits) -> Self {
        let (design, scale) = (Design::Unpaired, Scale::Values);
        TestData { design, better, limits, scale, base: base.to_vec(), new: new.to_vec() }.made()
    }

    /// Of pairs: what the machine did to both cancels out. The caller leaves out blocks that lack a reading.
    pub fn paired(blocks: &[Block], better: Better, limits: Limits) -> Self {
        Self::on_scale(blocks, better, limits, Scale::Values)
    }

    /// The same of a figure: on its scale, by which way it is worse.
    pub fn of_pairs(blocks: &[Block], figure: Figure, limits: Limits) -> Self {
        Self::on_scale(blocks, better_of(figure), limits, Scale::fitting(figure))
    }

    /// The same of two of one kind, where no way is the worse one: improved or regressed is what differs by more than the margin.
    pub fn of_twins(blocks: &[Block], figure: Figure, limits: Limits) -> Compared {
        Self::on_scale(blocks, Better::Lower, limits, Scale::fitting(figure)).alone(1)
    }

    fn on_scale(blocks: &[Block], better: Better, limits: Limits, scale: Scale) -> Self {
        let (base, new) = blocks.iter().map(|block| (block.base, block.new)).unzip();
        TestData { design: Design::Paired, better, limits, scale, base, new }.made()
    }

    /// Of what was measured side by side: as pairs where there are enough of these for a family of that size; else the sides
    /// as a whole, for which fewer repetitions suffice. Which of the two depends on how many there are, and not on what they
    /// gave.
    pub fn of_blocks(blocks: &[Block], better: Better, limits: Limits, family: usize) -> Self {
        if Self::pairs_suffice(blocks.len(), family, limits) {
            return Self::paired(blocks, better, limits);
        }
        let (base, new): (Vec<_>, Vec<_>) = blocks.iter().map(|block| (block.base, block.new)).unzip();
        Self::unpaired(&base, &new, better, limits)
    }

    /// Whether so many pairs can decide one of so many comparisons.
    pub fn pairs_suffice(pairs: usize, family: usize, limits: Limits) -> bool {
        SignedRank::pairs_needed(family, limits.alpha).is_some_and(|needed| pairs >= needed)
    }

    /// Of two sides of runs, each with its repetitions. What is common to the repetitions of a run (its servers, its minute
    /// of the host) makes them alike, so the run is the unit; where there are too few of them, the repetitions are, and what
    /// is found is said of these runs alone.
    pub fn of_runs(runs: &Runs, better: Better, limits: Limits, scale: Scale) -> Self {
        let design = RunMedians::of(&runs.base, &runs.new, scale).map_or(Design::Unpaired, Design::Runs);
        let (base, new) = (runs.base.concat(), runs.new.concat());
        TestData { design, better, limits, scale, base, new }.made()
    }

    /// Its p before any correction.
    pub fn p(&self) -> Option<f64> {
        self.found.as_ref().ok().map(|found| found.p)
    }

    /// Its verdict where nothing is known of the others of its family: Bonferroni's correction. That of [`judge_family`] is
    /// less strict.
    pub fn alone(self, family: usize) -> Compared {
        let family = family.max(1);
        let adjusted = self.p().map(|p| (p * family as f64).min(1.0));
        self.conclude(adjusted, family)
    }

    pub(super) fn conclude(self, adjusted: Option<f64>, family: usize) -> Compared {
        let Self { data, found } = self;
        let (base, new) = (Sample::of(&data.base), Sample::of(&data.new));
        let (found, adjusted) = match (found, adjusted) {
            (Ok(found), Some(adjusted)) => (found, adjusted),
            // Whatever was found has a p, so that it is adjusted.
            (found, _) => return Compared::not_measured(base, new, found.err().unwrap_or_default()),
        };
        let (limits, better) = (data.limits, data.better);
        let widened = data.leaving_out(limits.alpha / family.max(1) as f64);
        let in_family = widened.and_then(|widened| widened.ratio.interval);
        let judged = Judged { alone: found.ratio, in_family, significant: adjusted <= limits.alpha };
        let verdict = judged.verdict(better, limits);
        let regression = judged.regression(verdict, better, limits);
        let doubt = Doubt { data: &data, judged, found, adjusted, family };
        let (needed, why) = match verdict {
            ComparisonVerdict::Inconclusive => (doubt.needed(), Some(doubt.why_inconclusive())),
            ComparisonVerdict::Differs if better == Better::Neither => {
                (None, Some("neither way is better".into()))
            }
            ComparisonVerdict::Differs => (doubt.needed(), Some(doubt.why_not_beyond_the_margin())),
            _ => (None, None),
        };
        Compared {
            verdict,
            regression,
            why,
            method: Some(data.design.method()),
            base,
            new,
            scale: data.scale,
            margin: Some(limits.margin),
            ratio: Some(SideRatio::of(found.ratio.ratio, found.ratio.interval)),
            in_family: Some(SideRatio::of(found.ratio.ratio, in_family)),
            p: Some(found.p),
            p_adjusted: Some(adjusted),
            repetitions_needed: needed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct OneTest {
    p: f64,
    /// Above 0 when the new is larger, below when the base is.
    up: f64,
    ratio: RatioEstimate,
}

/// The test of readings some of which may be lower bounds.
///
/// What is only known to be at least so long could be longer by any amount. The ratio is smallest when all of the base's are
/// infinite, and largest when all of the new's are: the interval reaches from the lower end of the one to the upper end of
/// the other, and p is the larger, or 1 where they point to opposite sides. What is said then holds whatever the waits
/// would have come to.
fn between(
    base: &[Reading],
    new: &[Reading],
    test: impl Fn(&[f64], &[f64]) -> Option<OneTest>,
) -> Option<OneTest> {
    let known = |side: &[Reading]| side.iter().map(|one| one.value).collect::<Vec<_>>();
    let longest = |side: &[Reading]| side.iter().map(Reading::at_most).collect::<Vec<_>>();
    let as_known = test(&known(base), &known(new))?;
    if !base.iter().chain(new).any(|one| one.at_least) {
        return Some(as_known);
    }
    let least = test(&longest(base), &known(new))?;
    let most = test(&known(base), &longest(new))?;
    let interval = least.ratio.interval.zip(most.ratio.interval).map(|(mut least, most)| {
        least.high = most.high;
        least
    });
    let agree = least.up * most.up > 0.0;
    Some(OneTest {
        p: if agree { least.p.max(most.p) } else { 1.0 },
        up: as_known.up,
        ratio: RatioEstimate { ratio: as_known.ratio.ratio, interval },
    })
}

/// Why a verdict is none, or not a clear one, and what it would take.
struct Doubt<'a> {
    data: &'a TestData,
    judged: Judged,
    found: OneTest,
    adjusted: f64,
    family: usize,
}

impl Doubt<'_> {
    fn count(&self) -> usize {
        self.data.design.count(&self.data.base, &self.data.new)
    }

    /// About how many repetitions it would take: as many as the family demands and, if the interval is what is too wide,
    /// as many as would narrow it enough if it narrows with the root of their number. `None` beyond [`MOST`].
    fn needed(&self) -> Option<usize> {
        let limits = self.data.limits;
        let demanded = self.data.design.needed(self.family, limits.alpha)? as f64;
        let middle = self.found.ratio.ratio.ln().abs();
        // What seems to lie beyond the margin has to by the interval of the family.
        let beyond = middle > limits.above().ln();
        let deciding = if beyond { self.judged.in_family } else { self.judged.alone.interval };
        let by_width = match deciding {
            Some(Interval { low, high, .. }) => {
                let half = (high / low).ln() / 2.0;
                self.count() as f64 * (half / (middle - limits.above().ln()).abs()).powi(2)
            }
            None => demanded,
        };
        // An estimate that comes to no more than what there is was wrong.
        let needed = by_width.ceil().max(demanded).max(self.count() as f64 + 1.0);
        (by_width.is_finite() && needed <= MOST as f64).then_some(needed as usize)
    }

    fn more(&self) -> String {
        let units = |count| self.data.design.units(count);
        match (self.needed(), &self.data.design) {
            (Some(needed), _) => format!("needs about {}", units(needed)),
            (None, Design::Runs(_)) => format!("not even {} would be enough", units(MOST)),
            (None, _) => format!("not even {} would be enough: make each repetition longer", units(MOST)),
        }
    }

    fn why_inconclusive(&self) -> String {
        let alpha = self.data.limits.alpha;
        let has = self.data.design.units(self.count());
        let (family, more) = (counted(self.family, "comparison", "comparisons"), self.more());
        let smallest = self.data.design.smallest_p(self.data.base.len(), self.data.new.len());
        let least = (smallest * self.family as f64).min(1.0);
        match self.found.ratio.interval {
            Some(interval) if least <= alpha && !interval.contains(1.0) => {
                let adjusted = number(self.adjusted);
                format!("over {has}, p is {adjusted} after the correction for {family}; {more}")
            }
            Some(_) if least <= alpha => format!("the interval over {has} is too wide; {more}"),
            _ => format!(
                "{has} can never be significant among {family} (p is at least {}); {more}",
                number(least)
            ),
        }
    }

    fn why_not_beyond_the_margin(&self) -> String {
        let margin = percent(self.data.limits.margin);
        format!("it does, but perhaps by less than {margin}; {}", self.more())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compare::Regression;

    fn readings(values: &[f64]) -> Vec<Reading> {
        values.iter().copied().map(Reading::exact).collect()
    }

    /// Ten repetitions around that value, none like another.
    fn around(value: f64) -> Vec<Reading> {
        readings(&(0..10).map(|at| value * (1.0 + f64::from(at) / 1_000.0)).collect::<Vec<_>>())
    }

    fn judge(base: &[Reading], new: &[Reading], better: Better, limits: Limits, family: usize) -> Compared {
        Test::unpaired(base, new, better, limits).alone(family)
    }

    fn of(base: f64, new: f64) -> Compared {
        judge(&around(base), &around(new), Better::Lower, Limits::default(), 1)
    }

    #[test]
    fn the_whole_interval_decides() {
        for (new, verdict, regression) in [
            (100.0, ComparisonVerdict::Same, Regression::No),
            (103.0, ComparisonVerdict::Same, Regression::No),
            (105.0, ComparisonVerdict::Differs, Regression::Unknown),
            (108.0, ComparisonVerdict::Regressed, Regression::Yes),
            (90.0, ComparisonVerdict::Improved, Regression::No),
            (95.2, ComparisonVerdict::Differs, Regression::No),
        ] {
            let found = of(100.0, new);
            assert_eq!((found.verdict, found.regression), (verdict, regression), "{new}: {:?}", found.ratio);
        }
    }

    #[test]
    fn in_a_family_that_is_too_large_for_the_repetitions_nothing_regresses() {
        let limits = Limits::default();
        let found = judge(&around(100.0), &around(200.0), Better::Lower, limits, 5_000);
        assert_eq!((found.verdict, found.repetitions_needed), (ComparisonVerdict::Inconclusive, Some(11)));
    }

    #[test]
    fn of_a_figure_that_belongs_to_the_load_neither_way_is_worse() {
        let found = judge(&around(100.0), &around(200.0), Better::Neither, Limits::default(), 1);
        assert_eq!((found.verdict, found.regression), (ComparisonVerdict::Differs, Regression::No));
    }

    #[test]
    fn pairs_show_what_the_drift_of_the_machine_hides() {
        // Each block is slower than the one before; within each the new takes a tenth longer.
        let block = |at: u32| {
            let base = 100.0 * 1.5_f64.powi(i32::try_from(at).unwrap());
            let new = base * (1.1 + f64::from(at) / 1_000.0);
            Block { base: Reading::exact(base), new: Reading::exact(new) }
        };
        let blocks: Vec<Block> = (0..8).map(block).collect();
        let limits = Limits::default();
        let pairs = Test::paired(&blocks, Better::Lower, limits).alone(1);
        assert_eq!(pairs.verdict, ComparisonVerdict::Regressed);
        let side = |of: fn(&Block) -> Reading| blocks.iter().map(of).collect::<Vec<_>>();
        let apart = judge(&side(|block| block.base), &side(|block| block.new), Better::Lower, limits, 1);
        assert_eq!(apart.verdict, ComparisonVerdict::Inconclusive);
    }

    #[test]
    fn what_was_not_measured_stays_in_the_family_and_is_never_green() {
        let limits = Limits::default();
        let test = |new: &[Reading]| Test::unpaired(&around(100.0), new, Better::Lower, limits);
        let found = judge_family(vec![test(&around(200.0)), test(&[])]);
        assert_eq!(found[0].p_adjusted, found[0].p.map(|p| 2.0 * p));
        assert_eq!(
            (found[1].verdict, found[1].regression),
            (ComparisonVerdict::NotMeasured, Regression::Unknown)
        );
    }

    proptest! {
        #[test]
        fn the_other_way_round_the_verdict_is_the_opposite(
            base in proptest::collection::vec(0.0..3.0_f64, 1..10),
            new in proptest::collection::vec(0.0..3.0_f64, 1..10),
        ) {
            let (base, new) = (readings(&base), readings(&new));
            let limits = Limits::default();
            let there = judge(&base, &new, Better::Lower, limits, 1).verdict;
            let back = judge(&new, &base, Better::Lower, limits, 1).verdict;
            let opposite = match there {
                ComparisonVerdict::Improved => ComparisonVerdict::Regressed,
                ComparisonVerdict::Regressed => ComparisonVerdict::Improved,
                same => same,
            };
            prop_assert_eq!(back, opposite);
            prop_assert_eq!(judge(&base, &new, Better::Higher, limits, 1).verdict, opposite);
        }
    }
}
