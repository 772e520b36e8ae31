//! The floor: times of the cheapest handoff and the cheapest uncontended acquire on an ensemble, measured
//! with raw requests and without a lock.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Histogram, value_at};

/// Statistics of repeated measurements, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// Number of measurements.
    pub count: u64,
    /// 50th percentile.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
}

impl Timing {
    /// Statistics of a histogram; `None` if it is empty.
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

/// The floor of an ensemble. See `docs/capacity-planning.md` for how each part is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// Time from one session's delete call until the event arrives at another session that watches the node. All
    /// pairs of servers are equally frequent.
    pub handoff: Option<Timing>,
    /// Handoffs with both sessions on the same server.
    pub handoff_same_server: Option<Timing>,
    /// Handoffs with the sessions on two servers.
    pub handoff_other_server: Option<Timing>,
    /// Time of an ephemeral sequential create and a `getChildren` that returns one name, while there are no
    /// other sessions.
    pub uncontended: Option<Timing>,
    /// Duration of the measurement, in microseconds.
    pub took_us: u64,
    /// Reason why a part was not measured; `None` if all parts were.
    pub missing: Option<String>,
    /// Median handoff of the outlier that this measurement replaced, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlier_us: Option<u64>,
}

impl Floor {
    /// Ratio of medians beyond which two floors differ. Repeated measurements of the same floor differ by
    /// less.
    pub const APART: f64 = 1.25;

    /// Whether two medians differ more than repeated measurements of the same floor do.
    pub fn are_apart(one_us: u64, other_us: u64) -> bool {
        one_us.max(other_us) as f64 > one_us.min(other_us) as f64 * Self::APART
    }

    /// Ratio of medians beyond which a third floor is measured, because one of the two may be an outlier.
    const FAR_APART: u64 = 2;

    /// Whether the handoffs of two floors are so far apart that one of them may be an outlier.
    pub fn is_far_from(&self, other: &Self) -> bool {
        let Some((one, other)) = self.handoff.zip(other.handoff) else { return false };
        one.p50_us.max(other.p50_us) > Self::FAR_APART * one.p50_us.min(other.p50_us)
    }

    /// Returns the floors before and after the trials. If a third floor is close to only one of them, the third
    /// replaces the other.
    pub fn without_outlier(before: Self, after: Self, third: Self) -> [Self; 2] {
        match (third.is_far_from(&before), third.is_far_from(&after)) {
            (true, false) => [Self { outlier_us: before.handoff.map(|all| all.p50_us), ..after }, third],
            (false, true) => [before, Self { outlier_us: after.handoff.map(|all| all.p50_us), ..third }],
            _ => [before, after],
        }
    }

    pub fn is_measured(&self) -> bool {
        self.handoff.is_some() || self.uncontended.is_some()
    }

    pub fn not_measured(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }

    /// Ratio of a handoff of `us` microseconds to the floor's median.
    pub fn handoffs(&self, us: f64) -> Option<f64> {
        multiple(us, self.handoff)
    }

    /// Ratio of an uncontended acquire of `us` microseconds to the floor's median.
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
    fn timing_and_ratio_are_none_without_measurements() {
        assert_eq!(Timing::of(&new_histogram()), None);
        assert_eq!(Floor::not_measured("why").handoffs(1_000.0), None);
    }

    #[test]
    fn third_floor_replaces_an_outlier() {
        let floor = |p50_us| Floor {
            handoff: Some(Timing { count: 300, p50_us, p90_us: p50_us, p99_us: p50_us }),
            ..Floor::default()
        };
        let medians = |before, after, third| {
            let kept = Floor::without_outlier(floor(before), floor(after), floor(third));
            kept.map(|one| (one.handoff.unwrap().p50_us, one.outlier_us))
        };
        assert!(floor(2_900).is_far_from(&floor(501)) && !floor(600).is_far_from(&floor(501)));
        assert_eq!(medians(2_900, 501, 520), [(501, Some(2_900)), (520, None)]);
        assert_eq!(medians(501, 2_900, 520), [(501, None), (520, Some(2_900))]);
        // If all three floors differ, none of them is an outlier.
        assert_eq!(medians(2_900, 1_100, 300), [(2_900, None), (1_100, None)]);
        let failed = Floor::not_measured("interrupted");
        assert_eq!(Floor::without_outlier(floor(501), floor(2_900), failed), [floor(501), floor(2_900)]);
    }

    #[test]
    fn handoff_times_are_expressed_as_multiples_of_the_floors_median() {
        let mut samples = new_histogram();
        [1_000, 2_000, 9_000].into_iter().for_each(|us| samples.record(us).unwrap());
        let floor = Floor { handoff: Timing::of(&samples), ..Floor::default() };
        let of_median = floor.handoffs(3_000.0).unwrap();
        assert!((of_median - 1.5).abs() < 0.01, "{of_median}");
        assert_eq!(floor.uncontended_acquires(3_000.0), None);
    }
}
