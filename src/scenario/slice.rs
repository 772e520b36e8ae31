//! Which part of a load one of several workers makes: every worker draws the whole load from the seed and keeps what has
//! its ordinal, so that all parts together are the load that one worker would make.

use std::fmt;

/// Every n-th contender, arrival and fault, beginning with one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub index: usize,
    pub of: usize,
}

impl Slice {
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether what has that ordinal is this worker's.
    pub fn has(self, ordinal: usize) -> bool {
        ordinal % self.of == self.index
    }

    /// This worker's ordinals below a number, rising.
    pub fn below(self, count: usize) -> impl Iterator<Item = usize> + Clone {
        (self.index..count).step_by(self.of)
    }

    /// Whether others make the rest of the load.
    pub fn is_part(self) -> bool {
        self.of > 1
    }

    /// Whether it does what must be done once: reads the servers' counters, prepares and removes nodes.
    pub fn leads(self) -> bool {
        self.index == 0
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of {}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_ordinal_belongs_to_one_worker_and_to_no_other(of in 1..9_usize, count in 0..100_usize) {
            let slices = (0..of).map(|index| Slice { index, of });
            let mut all: Vec<usize> = slices.clone().flat_map(|slice| slice.below(count)).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..count).collect::<Vec<_>>());
            for ordinal in 0..count {
                prop_assert_eq!(slices.clone().filter(|slice| slice.has(ordinal)).count(), 1);
            }
        }
    }
}
