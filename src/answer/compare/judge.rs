//! Two samples of one figure: test, ratio, verdict. The repetition is the unit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::verdict::{ComparisonVerdict, Regression};
use crate::answer::stats::{Interval, MannWhitney, Pair, RatioEstimate, SignedRank, holm, median};
use crate::results::record::{Better, Reading};
use crate::words::units::{counted, number};

/// What a comparison asks for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// The smallest difference that matters, as a share: 0.05 for 5 %. As a ratio it reaches from 1 / 1.05 to 1.05, so that
    /// it is the same whichever side comes first.
    pub margin: f64,
    /// The greatest probability that, where nothing differs, any comparison of the family is found to differ.
    pub alpha: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { margin: 0.05, alpha: 0.05 }
    }
}

impl Limits {
    /// The ratio at which the margin ends above.
    fn above(self) -> f64 {
        1.0 + self.margin
    }

    /// The ratio at which it ends below.
    fn below(self) -> f64 {
        1.0 / self.above()
    }
}

/// The readings of one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sample {
    /// One value for each sound repetition, in the unit of the figure, in the order of running; null where a queue grew, so
    /// that its waits have no steady value and count as longer than any.
    #[schemars(with = "Vec<Option<f64>>")]
    pub values: Vec<f64>,
    /// Their median; null where there is none, or where the queue grew in half of them.
    pub median: Option<f64>,
    /// At least one of the values is a lower bound, because waits had not ended.
    pub at_least: bool,
}

impl Sample {
    pub fn of(readings: &[Reading]) -> Self {
        let values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
        Self { median: median(&values), at_least: readings.iter().any(|reading| reading.at_least), values }
    }
}

/// New divided by base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SideRatio {
    /// The Hodges–Lehmann ratio; null where it is infinite, because the base is 0.
    #[schemars(with = "Option<f64>")]
    pub ratio: f64,
    /// Lower end of its interval; null where there are too few repetitions for one.
    pub low: Option<f64>,
    /// Upper end; null where there are too few repetitions for one, or where it is infinite.
    pub high: Option<f64>,
    /// With which probability the interval holds the ratio; null where there is no interval. It is that of one comparison,
    /// not of the family.
    pub coverage: Option<f64>,
}

impl From<RatioEstimate> for SideRatio {
    fn from(estimate: RatioEstimate) -> Self {
        let end = |end: fn(Interval) -> f64| estimate.interval.map(end);
        Self {
            ratio: estimate.ratio,
            low: end(|interval| interval.low),
            high: end(|interval| interval.high),
            coverage: end(|interval| interval.coverage),
        }
    }
}

impl SideRatio {
    /// How far the interval reaches to either side of its geometric middle, as a share: 0.03 for ± 3 %; `None` without
    /// an interval.
    pub fn half_width(&self) -> Option<f64> {
        let (low, high) = (self.low?, self.high?);
        Some(if low == high { 0.0 } else { (high / low).sqrt() - 1.0 })
    }
}

/// A ratio with its interval. What has no bound, because some value was 0, is null in the file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoredRatio {
    /// The middle: the median of the Walsh averages of the pairs' log ratios.
    pub ratio: Option<f64>,
    /// The lower end of the interval; `None` of too few pairs for any.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// With which probability the interval holds the ratio.
    pub coverage: Option<f64>,
    /// How far it reaches to either side of its middle, as a share.
    pub half_width: Option<f64>,
}

impl From<SideRatio> for StoredRatio {
    fn from(ratio: SideRatio) -> Self {
        let finite = |value: f64| Some(value).filter(|value| value.is_finite());
        Self {
            ratio: finite(ratio.ratio),
            low: ratio.low.and_then(finite),
            high: ratio.high.and_then(finite),
            coverage: ratio.coverage,
            half_width: ratio.half_width().and_then(finite),
        }
    }
}

/// What repetitions were compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Mann–Whitney's U test and the Hodges–Lehmann ratio.
    MannWhitney,
    /// Wilcoxon's signed ranks of log ratios, and the median of their Walsh averages.
    SignedRank,
    /// As counts: each repetition of a side has the same, because the load determines it.
    Exact,
}

/// What the comparison of one figure came to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// In a word.
    pub verdict: ComparisonVerdict,
    /// Whether it is worse by more than the margin.
    pub regression: Regression,
    /// What must be said of the verdict, in a sentence without a full stop; null where it speaks for itself.
    pub why: Option<String>,
    /// What it was compared by; null of what was not measured.
    pub method: Option<Method>,
    /// The readings of the base.
    pub base: Sample,
    /// The readings of the new.
    pub new: Sample,
    /// New divided by base; null of what was not measured.
    pub ratio: Option<SideRatio>,
    /// The probability of a difference as clear or clearer if there is none; null where there was no test.
    pub p: Option<f64>,
    /// The same after Holm's correction for the family.
    pub p_adjusted: Option<f64>,
    /// How many repetitions a side, or pairs, it would take about; null where the verdict needs no more, or where more than
    /// 500 would not suffice.
    pub repetitions_needed: Option<usize>,
}

/// Compares one figure of two sides that have nothing to do with each other, as one of `family` comparisons.
///
/// Where several are compared, [`judge_family`] corrects them together, which is less strict.
pub fn judge(base: &[Reading], new: &[Reading], better: Better, limits: Limits, family: usize) -> Compared {
    Test::unpaired(base, new, better, limits).alone(limits, family)
}

/// The readings of both sides in one block, in which they were measured side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub base: Reading,
    pub new: Reading,
}

/// The same of pairs, so that what the machine did to both of a pair cancels out. Blocks that lack a reading are left out
/// by the caller.
pub fn paired(blocks: &[Block], better: Better, limits: Limits, family: usize) -> Compared {
    Test::paired(blocks, better, limits).alone(limits, family)
}

/// The verdicts on a family of tests, in the order given. It must have been decided on before anybody looked at the
/// readings: a test that could not be made stays in it.
pub fn judge_family(tests: Vec<Test>, limits: Limits) -> Vec<Compared> {
    let adjusted = holm(&tests.iter().map(Test::p).collect::<Vec<_>>());
    let family = tests.len();
    let concluded = tests.into_iter().zip(adjusted);
    concluded.map(|(test, adjusted)| test.conclude(adjusted, limits, family)).collect()
}

/// Compares counts that the load determines, so that each repetition of a side has the same: any difference is one.
pub fn exactly(base: &[Reading], new: &[Reading], better: Better) -> Compared {
    let [was, is] = [base, new].map(Sample::of);
    let (Some(before), Some(after)) = (was.median, is.median) else {
        return Compared::not_measured(was, is, "a side has no repetition with that count".into());
    };
    let verdict = match (after.total_cmp(&before), better) {
        _ if after == before => ComparisonVerdict::Same,
        (_, Better::Neither) => ComparisonVerdict::Differs,
        (std::cmp::Ordering::Less, Better::Lower) | (std::cmp::Ordering::Greater, Better::Higher) => {
            ComparisonVerdict::Improved
        }
        _ => ComparisonVerdict::Regressed,
    };
    let ratio = if after == before { 1.0 } else { after / before };
    Compared {
        regression: if verdict == ComparisonVerdict::Regressed { Regression::Yes } else { Regression::No },
        verdict,
        why: None,
        method: Some(Method::Exact),
        base: was,
        new: is,
        ratio: Some(SideRatio { ratio, low: None, high: None, coverage: None }),
        p: None,
        p_adjusted: None,
        repetitions_needed: None,
    }
}

impl Compared {
    pub fn not_measured(base: Sample, new: Sample, why: String) -> Self {
        Self {
            verdict: ComparisonVerdict::NotMeasured,
            regression: Regression::Unknown,
            why: Some(why),
            method: None,
            base,
            new,
            ratio: None,
            p: None,
            p_adjusted: None,
            repetitions_needed: None,
        }
    }
}

/// More repetitions than this are no advice.
const MOST: usize = 500;

/// Whether a side's values have anything to do with the other's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Design {
    Unpaired,
    Paired,
}

impl Design {
    fn method(self) -> Method {
        match self {
            Self::Unpaired => Method::MannWhitney,
            Self::Paired => Method::SignedRank,
        }
    }

    fn units(self, count: usize) -> String {
        match self {
            Self::Unpaired => counted(count, "repetition a side", "repetitions a side"),
            Self::Paired => counted(count, "pair", "pairs"),
        }
    }

    fn needed(self, family: usize, alpha: f64) -> Option<usize> {
        match self {
            Self::Unpaired => MannWhitney::repetitions_needed(family, alpha),
            Self::Paired => SignedRank::pairs_needed(family, alpha),
        }
    }
}

/// A test that was made, or could not be: everything but the correction, which takes the whole family.
#[derive(Debug, Clone, PartialEq)]
pub struct Test {
    design: Design,
    better: Better,
    base: Sample,
    new: Sample,
    found: Result<Significance, String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Significance {
    p: f64,
    smallest_p: f64,
    ratio: RatioEstimate,
}

impl Test {
    /// Of two sides that have nothing to do with each other.
    pub fn unpaired(base: &[Reading], new: &[Reading], better: Better, limits: Limits) -> Self {
        let test = |base: &[f64], new: &[f64]| {
            let made = MannWhitney::of(base, new, limits.alpha)?;
            let middle = (base.len() * new.len()) as f64 / 2.0;
            Some(OneTest { p: made.p, up: middle - made.u, ratio: made.ratio })
        };
        let smallest_p = MannWhitney::smallest_p(base.len(), new.len());
        Self::of(Design::Unpaired, base, new, better, smallest_p, test)
    }

    pub fn paired(blocks: &[Block], better: Better, limits: Limits) -> Self {
        let base: Vec<Reading> = blocks.iter().map(|block| block.base).collect();
        let new: Vec<Reading> = blocks.iter().map(|block| block.new).collect();
        let test = |base: &[f64], new: &[f64]| {
            let pair = |(base, new): (&f64, &f64)| Pair { base: *base, new: *new };
            let pairs: Vec<Pair> = base.iter().zip(new).map(pair).collect();
            let made = SignedRank::of(&pairs, limits.alpha)?;
            let differing = (pairs.len() - made.equal) as f64;
            Some(OneTest { p: made.p, up: made.v - differing * (differing + 1.0) / 4.0, ratio: made.ratio })
        };
        Self::of(Design::Paired, &base, &new, better, SignedRank::smallest_p(blocks.len()), test)
    }

    fn of(
        design: Design,
        base: &[Reading],
        new: &[Reading],
        better: Better,
        smallest_p: f64,
        test: impl Fn(&[f64], &[f64]) -> Option<OneTest>,
    ) -> Self {
        let found = match (base.is_empty(), new.is_empty()) {
            (false, false) => {
                between(base, new, test).map(|OneTest { p, ratio, .. }| Significance { p, smallest_p, ratio })
            }
            _ => None,
        };
        let found = found.ok_or_else(|| match (base.is_empty(), new.is_empty()) {
            (true, true) => "neither side has it".to_owned(),
            (true, false) => "the base does not have it".to_owned(),
            (false, true) => "the new run does not have it".to_owned(),
            (false, false) => "a value is negative or no number".to_owned(),
        });
        Self { design, better, base: Sample::of(base), new: Sample::of(new), found }
    }

    /// One that could not be made, and why, with what there is.
    pub fn not_made(base: &[Reading], new: &[Reading], better: Better, why: String) -> Self {
        let [base, new] = [base, new].map(Sample::of);
        Self { design: Design::Unpaired, better, base, new, found: Err(why) }
    }

    /// Its p before any correction.
    pub fn p(&self) -> Option<f64> {
        self.found.as_ref().ok().map(|found| found.p)
    }

    /// Its verdict where nothing is known of the others of its family: Bonferroni's correction.
    pub(super) fn alone(self, limits: Limits, family: usize) -> Compared {
        let family = family.max(1);
        let adjusted = self.p().map(|p| (p * family as f64).min(1.0));
        self.conclude(adjusted, limits, family)
    }

    pub(super) fn conclude(self, adjusted: Option<f64>, limits: Limits, family: usize) -> Compared {
        let (found, adjusted) = match (self.found, adjusted) {
            (Ok(found), Some(adjusted)) => (found, adjusted),
            // Whatever was found has a p, so that it is adjusted.
            (found, _) => {
                let why = found.err().unwrap_or_default();
                return Compared::not_measured(self.base, self.new, why);
            }
        };
        let ratio = SideRatio::from(found.ratio);
        let verdict = verdict(found.ratio, adjusted <= limits.alpha, self.better, limits);
        let count = self.base.values.len().min(self.new.values.len());
        let doubt = Doubt { design: self.design, found, adjusted, count, family, limits };
        let (needed, why) = match verdict {
            ComparisonVerdict::Inconclusive => (doubt.needed(), Some(doubt.why_inconclusive())),
            ComparisonVerdict::Differs if self.better == Better::Neither => {
                (None, Some("neither way is better".into()))
            }
            ComparisonVerdict::Differs => (doubt.needed(), Some(doubt.why_not_beyond_the_margin())),
            _ => (None, None),
        };
        Compared {
            verdict,
            regression: regression(verdict, found.ratio, self.better, limits),
            why,
            method: Some(self.design.method()),
            base: self.base,
            new: self.new,
            ratio: Some(ratio),
            p: Some(found.p),
            p_adjusted: Some(adjusted),
            repetitions_needed: needed,
        }
    }
}

#[derive(Debug, Clone, Copy)]
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
    let longest = |side: &[Reading]| {
        let longest = |one: &Reading| if one.at_least { f64::INFINITY } else { one.value };
        side.iter().map(longest).collect::<Vec<_>>()
    };
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

fn verdict(ratio: RatioEstimate, significant: bool, better: Better, limits: Limits) -> ComparisonVerdict {
    let Some(interval) = ratio.interval else { return ComparisonVerdict::Inconclusive };
    if limits.below() <= interval.low && interval.high <= limits.above() {
        return ComparisonVerdict::Same;
    }
    if !significant {
        return ComparisonVerdict::Inconclusive;
    }
    match better {
        Better::Lower if interval.low > limits.above() => ComparisonVerdict::Regressed,
        Better::Lower if interval.high < limits.below() => ComparisonVerdict::Improved,
        Better::Higher if interval.high < limits.below() => ComparisonVerdict::Regressed,
        Better::Higher if interval.low > limits.above() => ComparisonVerdict::Improved,
        _ => ComparisonVerdict::Differs,
    }
}

fn regression(
    verdict: ComparisonVerdict,
    ratio: RatioEstimate,
    better: Better,
    limits: Limits,
) -> Regression {
    let not_worse = ratio.interval.is_some_and(|interval| match better {
        Better::Lower => interval.high <= limits.above(),
        Better::Higher => interval.low >= limits.below(),
        Better::Neither => verdict == ComparisonVerdict::Same || verdict == ComparisonVerdict::Differs,
    });
    match verdict {
        ComparisonVerdict::Regressed => Regression::Yes,
        _ if not_worse => Regression::No,
        _ => Regression::Unknown,
    }
}

/// Why a verdict is none, or not a clear one, and what it would take.
struct Doubt {
    design: Design,
    found: Significance,
    adjusted: f64,
    /// Repetitions of the side with the fewer, or pairs.
    count: usize,
    family: usize,
    limits: Limits,
}

impl Doubt {
    /// About how many repetitions it would take: as many as the family demands and, if the interval is what is too wide,
    /// as many as would narrow it enough if it narrows with the root of their number. `None` beyond [`MOST`].
    fn needed(&self) -> Option<usize> {
        let demanded = self.design.needed(self.family, self.limits.alpha)? as f64;
        let by_width = match self.found.ratio.interval {
            Some(interval) => {
                let half = (interval.high / interval.low).ln() / 2.0;
                let room = (self.found.ratio.ratio.ln().abs() - self.limits.above().ln()).abs();
                self.count as f64 * (half / room).powi(2)
            }
            None => demanded,
        };
        // An estimate that comes to no more than what there is was wrong.
        let needed = by_width.ceil().max(demanded).max(self.count as f64 + 1.0);
        (by_width.is_finite() && needed <= MOST as f64).then_some(needed as usize)
    }

    fn more(&self) -> String {
        match self.needed() {
            Some(needed) => format!("needs about {}", self.design.units(needed)),
            None => {
                format!("not even {} would be enough: make each repetition longer", self.design.units(MOST))
            }
        }
    }

    fn why_inconclusive(&self) -> String {
        let has = self.design.units(self.count);
        let (family, more) = (counted(self.family, "comparison", "comparisons"), self.more());
        let least = (self.found.smallest_p * self.family as f64).min(1.0);
        match self.found.ratio.interval {
            Some(interval) if least <= self.limits.alpha && !interval.contains(1.0) => {
                let adjusted = number(self.adjusted);
                format!("over {has}, p is {adjusted} after the correction for {family}; {more}")
            }
            Some(_) if least <= self.limits.alpha => format!("the interval over {has} is too wide; {more}"),
            _ => format!(
                "{has} can never be significant among {family} (p is at least {}); {more}",
                number(least)
            ),
        }
    }

    fn why_not_beyond_the_margin(&self) -> String {
        let margin = percent(self.limits.margin);
        format!("it does, but perhaps by less than {margin}; {}", self.more())
    }
}

/// A share as people write it.
pub(super) fn percent(share: f64) -> String {
    format!("{} %", number(100.0 * share))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn readings(values: &[f64]) -> Vec<Reading> {
        values.iter().map(|value| Reading { value: *value, at_least: false, samples: None }).collect()
    }

    /// Ten repetitions around that value, none like another.
    fn around(value: f64) -> Vec<Reading> {
        readings(&(0..10).map(|at| value * (1.0 + f64::from(at) / 1_000.0)).collect::<Vec<_>>())
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
            let reading = |value| Reading { value, at_least: false, samples: None };
            Block { base: reading(base), new: reading(base * (1.1 + f64::from(at) / 1_000.0)) }
        };
        let blocks: Vec<Block> = (0..8).map(block).collect();
        let limits = Limits::default();
        assert_eq!(paired(&blocks, Better::Lower, limits, 1).verdict, ComparisonVerdict::Regressed);
        let side = |of: fn(&Block) -> Reading| blocks.iter().map(of).collect::<Vec<_>>();
        let apart = judge(&side(|block| block.base), &side(|block| block.new), Better::Lower, limits, 1);
        assert_eq!(apart.verdict, ComparisonVerdict::Inconclusive);
    }

    #[test]
    fn what_was_not_measured_stays_in_the_family_and_is_never_green() {
        let limits = Limits::default();
        let test = |new: &[Reading]| Test::unpaired(&around(100.0), new, Better::Lower, limits);
        let found = judge_family(vec![test(&around(200.0)), test(&[])], limits);
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
