//! Verdict on one metric: its limits, the decision from intervals, and the result.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::figures::counts_losses;
use zklockbench_core::error::Exit;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::percent;
use zklockbench_core::verdict::Verdict;
use zklockbench_core::worded;
use zklockbench_record::figures::{REQUESTS_PER_ACQUISITION, THROUGHPUT};
use zklockbench_record::{Better, Figure, Reading, RunEnding, Statistic};
use zklockbench_stats::{Interval, Position, median};

/// Rules for a comparison of many metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Terms {
    /// Largest probability that any metric of a family is wrongly found to be worse by more than its margin.
    pub alpha: f64,
    /// Relative margin of every metric that is not in `margins`: 0.05 for 5 %. Null if each metric has its
    /// own default.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Chosen margins, by metric name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub margins: BTreeMap<String, f64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { alpha: Limits::default().alpha, margin: None, margins: BTreeMap::new() }
    }
}

impl Terms {
    pub fn of_one_margin(margin: f64) -> Self {
        Self { margin: Some(margin), ..Self::default() }
    }

    pub fn of(&self, figure: Figure) -> Limits {
        self.with_margin(figure, usual_margin(figure))
    }

    /// Returns the limits for the metric's mean over all strategies.
    pub fn of_all(&self, figure: Figure) -> Limits {
        self.with_margin(figure, OF_ALL_STRATEGIES)
    }

    fn with_margin(&self, figure: Figure, usual: f64) -> Limits {
        let chosen = self.margins.get(&figure.to_string()).copied().or(self.margin);
        Limits { margin: chosen.unwrap_or(usual), alpha: self.alpha }
    }
}

/// Returns the default relative margin of a metric: the difference expected between two equal runs.
fn usual_margin(figure: Figure) -> f64 {
    match figure {
        Figure::Latency(Measure::Handoff | Measure::Uncontended, _) => 0.30,
        Figure::Latency(_, Statistic::Percentile(at)) if at > 75_000 => 0.25,
        Figure::Latency(_, Statistic::Max) => 0.50,
        Figure::Latency(Measure::Turn, _) => 0.12,
        Figure::Latency(..) => 0.10,
        figure if counts_losses(figure) => 0.02,
        figure if figure == THROUGHPUT.figure() => 0.15,
        figure if figure == REQUESTS_PER_ACQUISITION.figure() => 0.10,
        Figure::Plain(_) => 0.05,
    }
}

/// Default margin of the mean over all strategies, which varies less.
const OF_ALL_STRATEGIES: f64 = 0.05;

/// Limits of the comparison of one metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The smallest relative difference that matters: 0.05 for 5 %. As a ratio, the margin spans
    /// 1 / 1.05 to 1.05, so the order of the sides does not matter.
    pub margin: f64,
    /// Maximum probability that any metric of the family is wrongly found to be worse by more than its margin.
    pub alpha: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { margin: 0.05, alpha: 0.05 }
    }
}

impl Limits {
    /// Returns each comparison's share of the error probability.
    pub fn share(self, comparisons: usize) -> f64 {
        self.alpha / comparisons.max(1) as f64
    }

    /// Returns the range of ratios within the margin.
    pub(super) fn range(self) -> RangeInclusive<f64> {
        let [low, high] = Scale::Values.margin(self.margin);
        low..=high
    }
}

/// Readings of one side.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Sample {
    /// One value for each valid repetition, in the metric's unit and in repetition order. Null if the queue
    /// grew: the wait then has no steady value and counts as infinite.
    #[schemars(with = "Vec<Option<f64>>")]
    pub values: Vec<f64>,
    /// Median; null if there is none, or if the queue grew in half of the repetitions.
    pub median: Option<f64>,
    /// Whether any value is a lower bound, because waits had not ended.
    pub at_least: bool,
}

impl Sample {
    pub fn of(readings: &[Reading]) -> Self {
        let values: Vec<f64> = readings.iter().map(|reading| reading.value).collect();
        Self { median: median(&values), at_least: readings.iter().any(|reading| reading.at_least), values }
    }
}

/// Returns the item whose ratio is farthest from 1, up or down; `None` if there are no items.
pub fn farthest_from_one<T>(changed: impl Iterator<Item = (T, f64)>) -> Option<(T, f64)> {
    let distance = |ratio: f64| ratio.max(f64::MIN_POSITIVE).ln().abs();
    changed.max_by(|(_, one), (_, other)| distance(*one).total_cmp(&distance(*other)))
}

/// Scale of a ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Ratio of the values.
    #[default]
    Values,
    /// 1 plus the difference between the shares of lost requests: 1.05 means five more losses per hundred requests.
    SharesLost,
}

/// Exponent for a share of 1; small, so that many errors per request do not overflow.
const EXPONENT: f64 = 1e-3;

impl Scale {
    /// Returns the scale on which a metric is compared.
    pub(super) fn fitting(figure: Figure) -> Self {
        if counts_losses(figure) { Self::SharesLost } else { Self::Values }
    }

    /// Returns the amount whose ratios are tested. For lost shares, the ratio of two amounts depends only on
    /// the difference of the shares.
    pub(super) fn of(self, value: f64) -> f64 {
        match self {
            Self::Values => value,
            Self::SharesLost => (EXPONENT * value).exp(),
        }
    }

    /// Returns a value relative to the base's on this scale; `None` for a ratio without a positive base.
    pub fn relative(self, base: f64, value: f64) -> Option<f64> {
        match self {
            Self::Values => (base > 0.0 && base.is_finite()).then(|| value / base),
            Self::SharesLost => Some(1.0 + value - base),
        }
    }

    /// Returns the bounds of a margin on this scale.
    pub fn margin(self, margin: f64) -> [f64; 2] {
        match self {
            Self::Values => [1.0 / (1.0 + margin), 1.0 + margin],
            Self::SharesLost => [1.0 - margin, 1.0 + margin],
        }
    }

    /// Returns the limits for ratios of these amounts.
    pub(super) fn limits(self, limits: Limits) -> Limits {
        match self {
            Self::Values => limits,
            Self::SharesLost => Limits { margin: (EXPONENT * limits.margin).exp_m1(), ..limits },
        }
    }

    /// Returns the interval on this scale for an interval of ratios of these amounts.
    pub(super) fn interval(self, tested: Interval) -> Interval {
        let end = |ratio: f64| match self {
            Self::Values => ratio,
            Self::SharesLost if ratio > 0.0 => 1.0 + ratio.ln() / EXPONENT,
            Self::SharesLost => 0.0,
        };
        Interval { value: end(tested.value), low: end(tested.low), high: end(tested.high), ..tested }
    }
}

/// Describes a change on the scale of lost shares.
pub fn more_lost(ratio: f64) -> String {
    if ratio < 1.0 {
        return format!("no longer lost {} of all requests", percent(1.0 - ratio));
    }
    format!("lost an additional {} of all requests", percent(ratio - 1.0))
}

/// Unit of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Independent repetitions.
    Repetitions,
    /// Repetitions measured side by side.
    Pairs,
    /// Medians of independent runs.
    Runs,
    /// Counts that the load determines, which are equal in all repetitions of a side.
    Exact,
}

/// Result of the comparison of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// Verdict.
    pub verdict: ComparisonVerdict,
    /// Whether the new side is worse by more than the margin.
    pub regression: Regression,
    /// Explanation of the verdict, without a full stop; null if none is needed.
    pub why: Option<String>,
    /// Unit of the comparison; null if nothing was measured.
    pub method: Option<Method>,
    /// Readings of the base side.
    pub base: Sample,
    /// Readings of the new side.
    pub new: Sample,
    /// Scale of the ratios.
    pub scale: Scale,
    /// Smallest relative difference that matters. Null for counts, where any difference matters, and if
    /// nothing was measured.
    pub margin: Option<f64>,
    /// New divided by base, with the interval of this comparison alone: if it is entirely within the margin,
    /// the metric is the same. Null if nothing was measured.
    pub ratio: Option<Interval>,
    /// The ratio with an interval corrected for multiple comparisons: if it is entirely beyond the margin,
    /// the metric is worse or better.
    pub in_family: Option<Interval>,
    /// Approximate number of repetitions per side, or of pairs, that a verdict needs. Null if it needs no
    /// more, or if 500 would not suffice.
    pub repetitions_needed: Option<usize>,
}

/// Compares counts that the load determines: any difference is real.
pub fn exactly(base: &[Reading], new: &[Reading], better: Better) -> Compared {
    let [was, is] = [base, new].map(Sample::of);
    let (Some(before), Some(after)) = (was.median, is.median) else {
        return Compared::not_measured(was, is, "one side has no repetition with that count".into());
    };
    let ratio = if after == before { 1.0 } else { (after / before).abs() };
    let ratio = Interval { value: ratio, low: ratio, high: ratio, coverage: 1.0 };
    let (verdict, regression) = decide(&ratio, &ratio, better, Limits { margin: 0.0, alpha: 0.0 });
    Compared {
        method: Some(Method::Exact),
        ratio: Some(ratio),
        ..Compared::untested(was, is, verdict, regression)
    }
}

impl Compared {
    pub fn not_measured(base: Sample, new: Sample, why: String) -> Self {
        let nothing = Self::untested(base, new, ComparisonVerdict::NotMeasured, Regression::Unknown);
        Self { why: Some(why), ..nothing }
    }

    fn untested(base: Sample, new: Sample, verdict: ComparisonVerdict, regression: Regression) -> Self {
        Self {
            verdict,
            regression,
            why: None,
            method: None,
            base,
            new,
            scale: Scale::Values,
            margin: None,
            ratio: None,
            in_family: None,
            repetitions_needed: None,
        }
    }

    /// Makes the result inconclusive for this reason.
    pub(super) fn inconclusive(self, why: String) -> Self {
        Self {
            verdict: ComparisonVerdict::Inconclusive,
            regression: Regression::Unknown,
            why: Some(why),
            ..self
        }
    }
}

/// Returns the verdict from the comparison's own interval and the interval corrected for multiple
/// comparisons.
///
/// Among many comparisons, some lie beyond the margin by chance, so the wider interval decides whether a
/// metric is worse or better. "Same" requires every interval inside its margin, so no correction applies.
pub(super) fn decide(
    alone: &Interval,
    in_family: &Interval,
    better: Better,
    limits: Limits,
) -> (ComparisonVerdict, Regression) {
    let range = limits.range();
    let verdict = match (alone.against(&range), in_family.against(&range), better) {
        (Position::Within, ..) => ComparisonVerdict::Same,
        (_, Position::Above, Better::Lower) | (_, Position::Below, Better::Higher) => {
            ComparisonVerdict::Regressed
        }
        (_, Position::Below, Better::Lower) | (_, Position::Above, Better::Higher) => {
            ComparisonVerdict::Improved
        }
        (_, Position::Below | Position::Above, Better::Neither) => ComparisonVerdict::Differs,
        _ => ComparisonVerdict::Inconclusive,
    };
    let not_worse = match better {
        Better::Lower => alone.high <= *range.end(),
        Better::Higher => alone.low >= *range.start(),
        Better::Neither => verdict != ComparisonVerdict::Inconclusive,
    };
    let regression = match verdict {
        ComparisonVerdict::Regressed => Regression::Yes,
        _ if not_worse => Regression::No,
        _ => Regression::Unknown,
    };
    (verdict, regression)
}

worded! {
    /// Verdicts on a metric, most important first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ComparisonVerdict by word {
        /// Worse by more than the margin: the whole interval is beyond it.
        Regressed = "regressed",
        /// A side did not measure the metric.
        NotMeasured = "not measured",
        /// The interval is partly within the margin and partly beyond it.
        Inconclusive = "inconclusive",
        /// Different by more than the margin, where neither direction is better.
        Differs = "differs",
        /// Better by more than the margin: the whole interval is beyond it.
        Improved = "improved",
        /// The difference is smaller than the margin: the whole interval is within it.
        Same = "same",
    }
}

impl fmt::Display for ComparisonVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Whether a metric is worse by more than the margin, which decides gates and the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Regression {
    /// Not worse: no part of the interval is beyond the margin on the worse side, even if the verdict is
    /// inconclusive because the metric could be better.
    No,
    /// Unknown: the repetitions are inconclusive.
    Unknown,
    Yes,
}

impl Regression {
    /// Returns the verdict, with this reason. An inconclusive result is unknown: it does not rule out a
    /// regression.
    pub fn verdict(self, why: &str) -> Verdict {
        match self {
            Self::No => Verdict::Held,
            Self::Yes => Verdict::violated(why),
            Self::Unknown => Verdict::unknown(why),
        }
    }

    /// Returns the exit code, which is independent of the reason.
    pub(super) fn exit(self) -> Exit {
        RunEnding::Complete.exit(&self.verdict(""))
    }
}
