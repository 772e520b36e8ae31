//! The counter by which a directory numbers its sequential children, and its end.
//!
//! It is the directory's child version, a signed number of 32 bits that does not wrap: `DataTree.createNode` stores only
//! larger values, so it stays at 2^31 - 1. From then on every node gets that number. Nodes created while another create is
//! under way get negative numbers, because `PrepRequestProcessor` adds one to the outstanding value without such a check.

/// The value at which the counter stays.
pub const END: i64 = i32::MAX as i64;

/// A run warns when fewer creates than this are left: nearly three hours at 1,000 creates a second.
pub const WARNS_WITHIN: i64 = 10_000_000;

/// Whether the server gives a number only once, and in order.
pub fn is_unique(number: i64) -> bool {
    (0..END).contains(&number)
}

/// The number of the next sequential child.
///
/// Clients see another child version than the one that servers store: twice the creates minus the children, in 32 bits
/// (`DataNode.copyStat`).
pub fn next_number(cversion: i32, children: i32) -> i64 {
    i64::from(cversion.wrapping_add(children).cast_unsigned() / 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_unique_from_zero_to_the_last_but_one() {
        for unique in [0, 7, END - 1] {
            assert!(is_unique(unique), "{unique}");
        }
        for repeated in [END, END + 1, -1, i64::from(i32::MIN)] {
            assert!(!is_unique(repeated), "{repeated}");
        }
    }

    #[test]
    fn a_directory_at_its_end_shows_clients_a_negative_child_version() {
        // As seen on 3.8.0 and 3.9.4: before, and after three children.
        assert_eq!((next_number(-6, 0), next_number(-5, 3)), (END - 2, END));
    }

    proptest! {
        #[test]
        fn the_next_number_follows_from_what_clients_see(creates in 0..=i32::MAX, children in 0..200_000_i32) {
            let children = children.min(creates);
            let shown = creates.wrapping_mul(2).wrapping_sub(children);
            prop_assert_eq!(next_number(shown, children), i64::from(creates));
        }
    }
}
