//! The floor: what the cheapest handoff and the cheapest uncontended acquire take on an ensemble, by its raw requests and
//! without any lock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Histogram, value_at};

/// How long something took, over so many times that it was done. In microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// How often it was done.
    pub count: u64,
    /// The median.
    pub p50_us: u64,
    /// The 90th percentile.
    pub p90_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
}

impl Timing {
    /// Of the samples of a histogram; `None` when there are none.
    pub fn of(samples: &Histogram) -> Option<Self> {
        let at = |quantile| value_at(samples, quantile);
        (!samples.is_empty()).then(|| Self {
            count: samples.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
        })
    }
}

/// The floor of an ensemble. `docs/capacity-planning.md` says how each figure is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// From one session's call of delete to the arrival of the event at another session that watches the node: over all
    /// placements of the two, each as often as the others.
    pub handoff: Option<Timing>,
    /// Of those, where both sessions were on the same server.
    pub handoff_same_server: Option<Timing>,
    /// Of those, where they were on two servers.
    pub handoff_other_server: Option<Timing>,
    /// An ephemeral sequential create and a getChildren of that one name, by a session that is alone.
    pub uncontended: Option<Timing>,
    /// How long it took to measure this, in microseconds.
    pub took_us: u64,
    /// Why something of it was not measured; `None` when all of it was.
    pub missing: Option<String>,
}

impl Floor {
    /// Floors of one ensemble vary from measurement to measurement; medians this many times as long are another floor.
    pub const APART: f64 = 1.25;

    /// Whether two medians of floors are farther apart than measurements of one are.
    pub fn are_apart(one_us: u64, other_us: u64) -> bool {
        one_us.max(other_us) as f64 > one_us.min(other_us) as f64 * Self::APART
    }

    pub fn is_measured(&self) -> bool {
        self.handoff.is_some() || self.uncontended.is_some()
    }

    pub fn not_measured(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// How many times as long as the floor's median a handoff of that many microseconds took.
    pub fn handoffs(&self, us: f64) -> Option<f64> {
        multiple(us, self.handoff)
    }

    /// How many times as long as the floor's median an uncontended acquire of that many microseconds took.
    pub fn uncontended_acquires(&self, us: f64) -> Option<f64> {
        multiple(us, self.uncontended)
    }
}

fn multiple(us: f64, floor: Option<Timing>) -> Option<f64> {
    let floor = floor?.p50_us;
    (floor > 0).then(|| us / floor as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_core::measure::new_histogram;

    #[test]
    fn what_was_never_done_took_no_time_that_could_be_told() {
        assert_eq!(Timing::of(&new_histogram()), None);
        assert_eq!(Floor::not_measured("why").handoffs(1_000.0), None);
    }

    #[test]
    fn a_multiple_is_taken_of_the_median() {
        let mut samples = new_histogram();
        [1_000, 2_000, 9_000].into_iter().for_each(|us| samples.record(us).unwrap());
        let floor = Floor { handoff: Timing::of(&samples), ..Floor::default() };
        let of_median = floor.handoffs(3_000.0).unwrap();
        assert!((of_median - 1.5).abs() < 0.01, "{of_median}");
        assert_eq!(floor.uncontended_acquires(3_000.0), None);
    }
}
