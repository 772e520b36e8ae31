//! Repeated looks at samples that grow: stopping at the first interval that is narrow enough, or at the first decision, errs
//! more often than a single look would. What may be left out in all is spent over the looks.
//!
//! By Bonferroni's inequality the intervals of all looks together leave out no more than that, whatever the rule by which one
//! stops. It needs no assumption on how the looks depend on each other.

/// The sizes of a sample at which one may stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    /// Each size, rising, and its share of what is left out.
    shares: Vec<(u32, f64)>,
}

impl Looks {
    /// Looks at each size, with equal shares.
    pub fn each(least: u32, most: u32) -> Self {
        Self::weighted((least..=most.max(least)).map(|size| (size, 1.0)).collect())
    }

    /// A few looks, each at a sample half as large again as at the one before, the last at the most. The shares grow with the
    /// sizes: small samples are seldom precise, and are right to stop at only by chance.
    pub fn growing(least: u32, most: u32) -> Self {
        let smaller =
            |size: &u32| Some(*size).filter(|size| *size > least).map(|size| (size * 2 / 3).max(least));
        let mut sizes: Vec<u32> = std::iter::successors(Some(most.max(least)), smaller).collect();
        sizes.reverse();
        Self::weighted(sizes.into_iter().map(|size| (size, f64::from(size))).collect())
    }

    fn weighted(weights: Vec<(u32, f64)>) -> Self {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        Self { shares: weights.into_iter().map(|(size, weight)| (size, weight / total)).collect() }
    }

    /// Whether one may stop at that size.
    pub fn is_at(&self, size: u32) -> bool {
        self.shares.iter().any(|(look, _)| *look == size)
    }

    /// What the interval may leave out at that size, of what all may together. Between two looks it takes the place of the
    /// next one.
    pub fn outside(&self, size: u32, together: f64) -> f64 {
        let next = self.shares.iter().find(|(look, _)| *look >= size).or(self.shares.last());
        next.map_or(together, |(_, share)| share * together)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_looks_together_leave_out_what_was_asked() {
        for looks in
            [Looks::each(2, 9), Looks::growing(3, 30), Looks::growing(3, 1_000), Looks::growing(7, 7)]
        {
            let spent: f64 = looks.shares.iter().map(|(size, _)| looks.outside(*size, 0.05)).sum();
            assert!((spent - 0.05).abs() < 1e-12, "{looks:?}");
        }
    }

    #[test]
    fn looks_at_growing_samples_are_few_and_include_the_first_and_the_last() {
        let sizes = |least, most| {
            Looks::growing(least, most).shares.iter().map(|(size, _)| *size).collect::<Vec<_>>()
        };
        assert_eq!(sizes(3, 30), [3, 5, 8, 13, 20, 30]);
        assert_eq!(sizes(5, 30), [5, 8, 13, 20, 30]);
        assert_eq!((sizes(3, 3), sizes(10, 4)), (vec![3], vec![10]));
        let looks = Looks::growing(3, 30);
        assert!(looks.is_at(13) && !looks.is_at(14));
        assert_eq!(looks.outside(14, 0.05), looks.outside(20, 0.05));
        assert!(looks.outside(3, 0.05) < looks.outside(30, 0.05));
    }
}
