//! Ranks with ties.

/// Twice the rank of each value among all, from 2: equal values share the mean of their ranks, which twice is whole.
pub(super) fn doubled_mid_ranks(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0; values.len()];
    for (first, tied) in tied_groups(&order, values) {
        // The ranks first + 1 to first + n have the mean first + (n + 1) / 2.
        for at in tied {
            ranks[*at] = 2 * first + tied.len() + 1;
        }
    }
    ranks
}

/// Groups of positions with equal values, each with how many lie before it.
fn tied_groups<'a>(order: &'a [usize], values: &'a [f64]) -> impl Iterator<Item = (usize, &'a [usize])> {
    let mut first = 0;
    order.chunk_by(|one, other| values[*one] == values[*other]).map(move |group| {
        let before = first;
        first += group.len();
        (before, group)
    })
}

/// How many values there are in each group of equal ranks.
pub(super) fn sizes_of_ties(ranks: &[usize]) -> Vec<usize> {
    let mut sorted = ranks.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|one, other| one == other).map(<[usize]>::len).collect()
}

pub(super) fn has_ties(ranks: &[usize]) -> bool {
    sizes_of_ties(ranks).iter().any(|size| *size > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_of_their_ranks() {
        assert_eq!(doubled_mid_ranks(&[10.0, 11.0, 11.0, 12.0]), [2, 5, 5, 8]);
        assert_eq!(doubled_mid_ranks(&[3.0, 1.0, 2.0]), [6, 2, 4]);
        assert_eq!(doubled_mid_ranks(&[7.0, 7.0, 7.0]), [4, 4, 4]);
        assert_eq!(sizes_of_ties(&[2, 5, 8, 5]), [1, 2, 1]);
        assert!(has_ties(&[5, 2, 5]) && !has_ties(&[2, 4, 6]));
    }

    #[test]
    fn zero_has_one_sign_and_infinity_is_the_largest() {
        assert_eq!(doubled_mid_ranks(&[0.0, -0.0, f64::INFINITY, 1.0]), [3, 3, 8, 6]);
    }
}
