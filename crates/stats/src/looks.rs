//! The sizes of a growing sample at which one may stop.
//!
//! Stopping at the first interval that is narrow enough errs more often than a single look would. The looks therefore share
//! the error probability. By Bonferroni's inequality, their intervals together miss no more often than asked, whatever the
//! rule of stopping.

use super::design::Design;

#[derive(Debug, Clone, PartialEq)]
pub struct Looks {
    /// Sample sizes, rising.
    sizes: Vec<u32>,
}

impl Looks {
    /// A few looks, each at a sample half as large again as the one before, the last at the most. Looks at which no interval
    /// has bounds are left out, because they would only spend error probability.
    pub fn growing(design: Design, least: u32, most: u32, outside: f64) -> Self {
        let smaller =
            |size: &u32| Some(*size).filter(|size| *size > least).map(|size| (size * 2 / 3).max(least));
        let mut sizes: Vec<u32> = std::iter::successors(Some(most.max(least)), smaller).collect();
        let is_useless = |sizes: &[u32]| {
            let fewest = design.fewest(outside / sizes.len() as f64);
            sizes.len() > 1 && fewest.is_none_or(|fewest| (sizes[sizes.len() - 1] as usize) < fewest)
        };
        while is_useless(&sizes) {
            sizes.pop();
        }
        sizes.reverse();
        Self { sizes }
    }

    /// Whether one may stop at that size.
    pub fn is_at(&self, size: u32) -> bool {
        self.sizes.contains(&size)
    }

    /// Each look's share of an error probability.
    pub fn share(&self, outside: f64) -> f64 {
        outside / self.sizes.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_and_each_can_have_an_interval() {
        let sizes = |least, most| Looks::growing(Design::One, least, most, 0.05).sizes;
        assert_eq!(sizes(3, 30), [8, 13, 20, 30]);
        assert_eq!(sizes(10, 30), [10, 13, 20, 30]);
        assert_eq!((sizes(1, 6), sizes(3, 10), sizes(10, 4)), (vec![6], vec![10], vec![10]));
        for most in 6..200 {
            let looks = Looks::growing(Design::One, 1, most, 0.05);
            let fewest = Design::One.fewest(looks.share(0.05)).unwrap();
            assert!(looks.sizes[0] as usize >= fewest && looks.is_at(most), "{looks:?}");
        }
    }
}
