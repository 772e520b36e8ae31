//! Sample sizes at which sampling may stop.
//!
//! Stopping at the first sufficiently narrow interval errs more often than a single look. The looks therefore
//! share the error probability, so no stopping rule can exceed it (Bonferroni).

use super::design::Design;

#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    /// Sample sizes, ascending, each with its share of the error probability.
    shares: Vec<(u32, f64)>,
}

impl Looks {
    /// Plans a few looks at sample sizes that grow by half each time, up to `most`. Each look gets the
    /// smallest error probability possible at its size. The rest of the error budget `outside` is divided in
    /// proportion to size, because small samples look precise by chance. The earliest looks are dropped until
    /// the remaining ones fit the budget.
    pub fn growing(design: Design, least: u32, most: u32, outside: f64) -> Self {
        let smaller =
            |size: &u32| Some(*size).filter(|size| *size > least).map(|size| (size * 2 / 3).max(least));
        let mut sizes: Vec<u32> = std::iter::successors(Some(most.max(least)), smaller).collect();
        let needed = |size: u32| design.least_outside(size as usize, size as usize);
        let spent = |sizes: &[u32]| sizes.iter().map(|size| needed(*size)).sum::<f64>();
        while sizes.len() > 1 && spent(&sizes) > outside {
            sizes.pop();
        }
        sizes.reverse();
        let rest = (outside - spent(&sizes)) / sizes.iter().sum::<u32>() as f64;
        let share = |size: u32| if rest > 0.0 { needed(size) + rest * f64::from(size) } else { outside };
        Self { shares: sizes.into_iter().map(|size| (size, share(size))).collect() }
    }

    /// Returns whether sampling may stop at this size.
    pub fn is_at(&self, size: u32) -> bool {
        self.shares.iter().any(|(look, _)| *look == size)
    }

    /// Returns the error probability of the interval at this size; between two looks, the share of the next look.
    pub fn share(&self, size: u32) -> f64 {
        let next = self.shares.iter().find(|(look, _)| *look >= size).or(self.shares.last());
        next.map_or(0.0, |(_, share)| *share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(least: u32, most: u32) -> Vec<u32> {
        Looks::growing(Design::One, least, most, 0.05).shares.into_iter().map(|(size, _)| size).collect()
    }

    #[test]
    fn looks_grow_by_half_and_end_at_the_largest_sample() {
        assert_eq!(sizes(3, 30), [8, 13, 20, 30]);
        assert_eq!(sizes(10, 30), [10, 13, 20, 30]);
        assert_eq!((sizes(1, 6), sizes(3, 10), sizes(10, 4)), (vec![6], vec![6, 10], vec![10]));
        assert_eq!(sizes(1, 4), [4], "four values have no interval");
    }

    #[test]
    fn looks_use_the_whole_error_budget_and_each_yields_an_interval() {
        for most in 6..200 {
            let looks = Looks::growing(Design::One, 1, most, 0.05);
            let spent: f64 = looks.shares.iter().map(|(size, _)| looks.share(*size)).sum();
            assert!((spent - 0.05).abs() < 1e-12 && looks.is_at(most), "{looks:?}");
            for (size, share) in &looks.shares {
                assert!(Design::One.least_outside(0, *size as usize) <= *share, "{looks:?}");
            }
        }
        let looks = Looks::growing(Design::One, 3, 30, 0.05);
        assert!(!looks.is_at(14) && looks.share(14) == looks.share(20) && looks.share(31) == looks.share(30));
    }
}
