//! Holm's correction: of many tests some are significant by chance alone.

/// The adjusted p of each test of a family, in the order given: the smallest level at which Holm's step-down procedure
/// rejects it. A family in which nothing differs then has a probability of at most α to show any p ≤ α, whatever the
/// tests have to do with each other.
///
/// A test that could not be made is `None`: it stays in the family, as one that is not significant, because a family
/// that shrinks with what is missing is chosen after the data. What is no number counts as missing, too.
///
/// Source: S. Holm, A Simple Sequentially Rejective Multiple Test Procedure, 1979.
pub fn holm(family: &[Option<f64>]) -> Vec<Option<f64>> {
    let known = |at: &usize| family[*at].filter(|p| !p.is_nan());
    let mut order: Vec<(usize, f64)> = (0..family.len()).filter_map(|at| Some((at, known(&at)?))).collect();
    order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let mut adjusted = vec![None; family.len()];
    let mut so_far: f64 = 0.0;
    for (rank, (at, p)) in order.into_iter().enumerate() {
        so_far = so_far.max((family.len() - rank) as f64 * p).min(1.0);
        adjusted[at] = Some(so_far);
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn close(found: &[Option<f64>], expected: &[Option<f64>]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            match (found, expected) {
                (Some(found), Some(expected)) => {
                    assert!((found - expected).abs() < 1e-12, "{found} {expected}")
                }
                _ => assert_eq!(found, expected),
            }
        }
    }

    #[test]
    fn the_worked_example_holds_in_any_order() {
        // R: p.adjust(c(.0079, .012, .03, .04), "holm") is .0316 .0360 .0600 .0600.
        close(&holm(&[0.0079, 0.012, 0.03, 0.04].map(Some)), &[0.0316, 0.036, 0.06, 0.06].map(Some));
        close(&holm(&[0.04, 0.0079, 0.03, 0.012].map(Some)), &[0.06, 0.0316, 0.06, 0.036].map(Some));
    }

    #[test]
    fn a_test_that_could_not_be_made_stays_in_the_family() {
        close(&holm(&[Some(0.01), None, Some(f64::NAN), Some(0.02)]), &[Some(0.04), None, None, Some(0.06)]);
        assert_eq!(holm(&[None]), [None]);
        assert_eq!(holm(&[]), []);
    }

    proptest! {
        #[test]
        fn it_is_never_below_the_plain_p_nor_above_what_bonferroni_says_and_keeps_the_order(
            family in proptest::collection::vec(0.0..=1.0_f64, 1..20)
        ) {
            let given: Vec<_> = family.iter().copied().map(Some).collect();
            let adjusted: Vec<f64> = holm(&given).into_iter().flatten().collect();
            for (p, adjusted) in family.iter().zip(&adjusted) {
                prop_assert!(adjusted >= p && *adjusted <= (p * family.len() as f64).min(1.0));
            }
            for (one, first) in family.iter().zip(&adjusted) {
                for (other, second) in family.iter().zip(&adjusted) {
                    prop_assert!(one > other || first <= second);
                }
            }
        }
    }
}
