//! Between which of a few values the median of all lies that could be drawn.

use super::Interval;

/// How often it may lie outside, on each side.
const OUTSIDE: f64 = 0.025;

/// The interval of the median by order statistics, which assumes nothing of how the values are distributed: as many of them
/// are left out on either side as the binomial distribution allows. `None` of fewer than six, of which even the smallest and
/// the largest are not sure enough.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    // How probable it is that at most so many of the values are below the median, each by the toss of a coin.
    let mut ln_one = -(count as f64) * std::f64::consts::LN_2;
    let (mut below, mut outside, mut end) = (0.0, 0.0, 0);
    for fewer in 0..count / 2 {
        below += ln_one.exp();
        if below > OUTSIDE {
            break;
        }
        (outside, end) = (below, fewer + 1);
        ln_one += ((count - fewer) as f64 / (fewer + 1) as f64).ln();
    }
    (end > 0).then(|| Interval {
        low: sorted[end - 1],
        high: sorted[count - end],
        coverage: 1.0 - 2.0 * outside,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_those_of_the_published_tables() {
        // 95 % confidence intervals of the median by ranks: n, lower and upper rank.
        for (count, low, high) in
            [(6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (12, 3, 10), (15, 4, 12), (20, 6, 15)]
        {
            let values: Vec<f64> = (1..=count).rev().map(f64::from).collect();
            let found = median_interval(&values).unwrap();
            assert_eq!((found.low, found.high), (f64::from(low), f64::from(high)), "of {count}");
            assert!((0.95..1.0).contains(&found.coverage), "{found:?}");
        }
        assert!((median_interval(&[1.0; 6]).unwrap().coverage - 0.96875).abs() < 1e-12);
    }

    #[test]
    fn five_values_are_too_few() {
        assert_eq!((0..6).map(|count| median_interval(&vec![1.0; count])).collect::<Vec<_>>(), vec![None; 6]);
    }

    #[test]
    fn very_many_values_have_one_too() {
        let values: Vec<f64> = (1..=10_000).map(f64::from).collect();
        let found = median_interval(&values).unwrap();
        assert!(found.low > 4_890.0 && found.high < 5_110.0 && found.coverage < 0.956, "{found:?}");
    }
}
