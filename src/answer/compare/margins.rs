//! By how much each figure of two equal runs differs: the smallest difference that a comparison of runs can call a change.

use super::losses;
use crate::results::record::figures::THROUGHPUT;
use crate::results::record::{Figure, Statistic};
use crate::words::measure::Measure;

/// The margin of a figure unless another is chosen, as a share.
pub(super) fn of(figure: Figure) -> f64 {
    match figure {
        Figure::Latency(Measure::Handoff | Measure::Uncontended, _) => 0.30,
        Figure::Latency(_, Statistic::Percentile(at)) if at > 75_000 => 0.25,
        Figure::Latency(_, Statistic::Max) => 0.50,
        Figure::Latency(..) => 0.10,
        figure if losses::has(figure) => 0.02,
        figure if figure == THROUGHPUT.figure() => 0.10,
        Figure::Plain(_) => 0.05,
    }
}
