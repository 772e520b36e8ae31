//! Herd curve: time from a release until the first, second, … woken waiter is notified.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Histogram, value_at};

/// Number of rank classes: 1, 2, 3-4, 5-8 and so on by powers of two; the last class is 1025 and above.
pub const RANK_CLASSES: usize = 12;

/// Returns the class of a rank; ranks start at 1.
pub fn rank_class(rank: u32) -> usize {
    rank.clamp(1, 1 << (RANK_CLASSES - 1)).next_power_of_two().trailing_zeros() as usize
}

/// Returns the chart label of a class: its ranks.
pub fn rank_label(class: usize) -> String {
    let last = 1_u32 << class;
    match class {
        0 | 1 => last.to_string(),
        _ if class + 1 < RANK_CLASSES => format!("{}-{last}", last / 2 + 1),
        _ => format!("{}+", last / 2 + 1),
    }
}

/// Notification delays of one class of ranks. The first waiter that a release wakes has rank 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Woken {
    /// Lowest rank of the class: 1, 2, 3, 5, 9 and so on.
    pub from_rank: u32,
    /// Highest rank of the class; null for the last class, which has no upper bound.
    pub to_rank: Option<u32>,
    /// Number of notifications with these ranks.
    pub count: u64,
    /// Median time from the release call to the arrival of these notifications.
    pub p50_us: u64,
    /// 99th percentile of that time.
    pub p99_us: u64,
}

impl Woken {
    /// Computes the statistics of a class; `None` if no release woke that many waiters.
    pub fn of(class: usize, samples: &Histogram) -> Option<Self> {
        let last = 1_u32 << class;
        (!samples.is_empty()).then(|| Self {
            from_rank: last / 2 + 1,
            to_rank: (class + 1 < RANK_CLASSES).then_some(last),
            count: samples.len(),
            p50_us: value_at(samples, 0.5),
            p99_us: value_at(samples, 0.99),
        })
    }

    pub fn class(&self) -> usize {
        rank_class(self.from_rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::new_histogram;

    #[test]
    fn rank_classes_are_powers_of_two_and_the_last_is_open() {
        let classes = [1, 2, 3, 4, 5, 8, 9, 512, 513, 1024, 1025, 5_000, u32::MAX].map(rank_class);
        assert_eq!(classes, [0, 1, 2, 2, 3, 3, 4, 9, 10, 10, 11, 11, 11]);
        assert_eq!([0, 1, 2, 3, 10, 11].map(rank_label), ["1", "2", "3-4", "5-8", "513-1024", "1025+"]);
    }

    #[test]
    fn woken_has_the_bounds_of_its_class_and_is_none_without_samples() {
        let mut samples = new_histogram();
        assert_eq!(Woken::of(0, &samples), None);
        (1..=100).for_each(|value| samples.record(value).unwrap());
        let ends = |class| Woken::of(class, &samples).map(|woken| (woken.from_rank, woken.to_rank)).unwrap();
        assert_eq!([0, 1, 2, 11].map(ends), [(1, Some(1)), (2, Some(2)), (3, Some(4)), (1025, None)]);
        let woken = Woken::of(4, &samples).unwrap();
        assert_eq!((woken.class(), woken.count, woken.p50_us, woken.p99_us), (4, 100, 50, 99));
    }
}
