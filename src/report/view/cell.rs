//! One strategy at one contender count, over all its repetitions.

use super::Repetition;
use crate::measure::{Histogram, Measure, RequestKind};

/// One strategy at one contender count.
///
/// Figures are taken over the sound repetitions. Where there is none, they are taken over all, and
/// [`Cell::is_sound`] says so: a renderer then marks the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Position in [`super::View::strategies`].
    pub strategy: usize,
    /// Contenders, one session each.
    pub contenders: usize,
    /// The repetitions, in order.
    pub repetitions: Vec<Repetition>,
}

/// The middle and the ends of what the repetitions gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many repetitions gave a value.
    pub count: usize,
}

impl Spread {
    /// The spread of these values; `None` when there is none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { median, min, max, count: sorted.len() })
    }
}

impl Cell {
    /// Whether at least one repetition is neither invalid nor partial.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.repetitions.iter().any(Repetition::is_sound)
    }

    /// The repetitions whose figures count: the sound ones or, where there is none, all.
    pub fn counting(&self) -> impl Iterator<Item = &Repetition> {
        let any_sound = self.is_sound();
        self.repetitions.iter().filter(move |repetition| repetition.is_sound() || !any_sound)
    }

    /// The spread of a figure over the repetitions that count; `None` when none measured it.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.counting().filter_map(figure))
    }

    /// The median of a figure over the repetitions that count.
    #[must_use]
    pub fn median(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// Whether a repetition that counts has samples of that measure.
    #[must_use]
    pub fn has_samples(&self, measure: Measure) -> bool {
        self.counting().any(|one| one.samples(measure).is_some_and(|samples| !samples.is_empty()))
    }

    /// All samples of the repetitions that count, in one histogram; `None` when there is no sample.
    #[must_use]
    pub fn merged(&self, measure: Measure) -> Option<Histogram> {
        let mut samples = self.counting().filter_map(|repetition| repetition.samples(measure));
        let mut all = samples.next()?.clone();
        for more in samples {
            // All histograms of the suite share their bounds, so this cannot fail; were it to, the rest
            // would still be a true sample.
            let _ = all.add(more);
        }
        (!all.is_empty()).then_some(all)
    }

    /// Requests per acquisition, kind by kind: for each kind the mean over the repetitions that count, so
    /// that the kinds add up to the total.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn requests(&self) -> Vec<(RequestKind, f64)> {
        let counting: Vec<&Repetition> = self.counting().filter(|r| !r.requests.is_empty()).collect();
        let mean = |kind: RequestKind| {
            let all = counting.iter().flat_map(|repetition| &repetition.requests);
            all.filter(|(other, _)| *other == kind).map(|(_, amount)| amount).sum::<f64>()
                / counting.len() as f64
        };
        let kinds = RequestKind::ALL.into_iter().map(|kind| (kind, mean(kind)));
        kinds.filter(|(_, amount)| *amount > 0.0).collect()
    }

    /// Acquisitions in each second: the median over the repetitions that count and lasted that long.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn per_second(&self) -> Vec<f64> {
        let longest = self.counting().map(|repetition| repetition.per_second.len()).max().unwrap_or(0);
        let second = |at: usize| {
            Spread::of(self.counting().filter_map(|r| r.per_second.get(at)).map(|&count| count as f64))
        };
        (0..longest).filter_map(|at| second(at).map(|spread| spread.median)).collect()
    }

    /// Violations found in all repetitions.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.repetitions.iter().map(|repetition| repetition.violations).sum()
    }
}
