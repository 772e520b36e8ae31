//! The counter for a directory's sequential children, and the counter's limit.
//!
//! The counter is the directory's child version, a signed 32-bit number. `DataTree.createNode` stores only
//! larger values, so the counter stops at 2^31 - 1, and every later node gets this number. A node created
//! while another create is in progress gets a negative number, because `PrepRequestProcessor` increments the
//! pending value without this check.

/// Final value of the counter.
pub const END: i64 = i32::MAX as i64;

/// Number of remaining creates below which a run prints a warning: nearly three hours at 1,000 creates per
/// second.
pub const WARNS_WITHIN: i64 = 10_000_000;

/// Returns whether the server assigns this number only once and in order.
pub fn is_unique(number: i64) -> bool {
    (0..END).contains(&number)
}

/// Computes the number of the next sequential child.
///
/// The child version in a stat differs from the stored counter: it is twice the number of creates minus the
/// number of children, in 32 bits (`DataNode.copyStat`).
pub fn next_number(cversion: i32, children: i32) -> i64 {
    i64::from(cversion.wrapping_add(children).cast_unsigned() / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_numbers_from_zero_to_below_the_counter_limit_are_unique() {
        for unique in [0, 7, END - 1] {
            assert!(is_unique(unique), "{unique}");
        }
        for repeated in [END, END + 1, -1, i64::from(i32::MIN)] {
            assert!(!is_unique(repeated), "{repeated}");
        }
    }

    #[test]
    fn next_number_handles_negative_child_versions_near_the_counter_limit() {
        // Observed on 3.8.0 and 3.9.4, before and after creating three children.
        assert_eq!((next_number(-6, 0), next_number(-5, 3)), (END - 2, END));
    }

    proptest! {
        #[test]
        fn next_number_is_derived_from_the_visible_child_version(creates in 0..=i32::MAX, children in 0..200_000_i32) {
            let children = children.min(creates);
            let shown = creates.wrapping_mul(2).wrapping_sub(children);
            prop_assert_eq!(next_number(shown, children), i64::from(creates));
        }
    }
}
