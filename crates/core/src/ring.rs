//! A ring of slots that allocates memory as slots are used.

use std::sync::OnceLock;

/// Number of slots in the first segment.
const FIRST: usize = 8;

/// Slots by number, modulo the ring's size. A segment is allocated at the first write to one of its slots,
/// and is as large as all earlier segments together. A lock that is released ten times allocates 16 slots,
/// not thousands. Reading does not allocate.
#[derive(Debug)]
pub struct Ring<T> {
    size: usize,
    first: Segment<T>,
    rest: OnceLock<Box<[Segment<T>]>>,
}

type Segment<T> = OnceLock<Box<[T]>>;

impl<T: Default> Ring<T> {
    /// Creates an empty ring with at least `size` slots.
    pub const fn of(size: usize) -> Self {
        let size = if size < FIRST { FIRST } else { size.next_power_of_two() };
        Self { size, first: OnceLock::new(), rest: OnceLock::new() }
    }

    /// Returns the slot; `None` if the slot is not allocated.
    pub fn get(&self, number: i64) -> Option<&T> {
        match self.position(number) {
            Position::First(at) => self.first.get()?.get(at),
            Position::Rest(segment, at) => self.rest.get()?.get(segment)?.get()?.get(at),
        }
    }

    /// Returns the slot, allocating it if necessary.
    pub fn slot(&self, number: i64) -> &T {
        let of = |count| (0..count).map(|_| T::default()).collect();
        match self.position(number) {
            Position::First(at) => &self.first.get_or_init(|| of(FIRST))[at],
            Position::Rest(segment, at) => {
                let segments = || (0..(self.size / FIRST).ilog2()).map(|_| OnceLock::new()).collect();
                &self.rest.get_or_init(segments)[segment].get_or_init(|| of(FIRST << segment))[at]
            }
        }
    }

    fn position(&self, number: i64) -> Position {
        // The size is a power of two, so the low bits are the remainder, even for negative numbers.
        let index = number as usize & (self.size - 1);
        match (index / FIRST).checked_ilog2() {
            None => Position::First(index),
            Some(segment) => Position::Rest(segment as usize, index - (FIRST << segment)),
        }
    }
}

enum Position {
    First(usize),
    /// Index of a segment after the first, and index of a slot in that segment.
    Rest(usize, usize),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use proptest::prelude::*;

    use super::*;

    fn slots_made<T>(ring: &Ring<T>) -> usize {
        let rest = ring.rest.get().into_iter().flatten().filter_map(OnceLock::get);
        ring.first.get().into_iter().chain(rest).map(|slots| slots.len()).sum()
    }

    #[test]
    fn slots_are_allocated_at_their_first_write() {
        let ring: Ring<AtomicI64> = Ring::of(1 << 14);
        assert!(ring.get(0).is_none() && ring.get(16_383).is_none());
        assert_eq!(slots_made(&ring), 0, "reading allocates no slots");
        for number in 0..10 {
            ring.slot(number);
        }
        assert_eq!(slots_made(&ring), 16);
        for number in 0..100_000 {
            ring.slot(number);
        }
        assert_eq!(slots_made(&ring), 1 << 14);
    }

    proptest! {
        #[test]
        fn numbers_share_a_slot_only_if_equal_modulo_the_ring_size(
            size in 1_usize..5_000, one: i64, other: i64, near in -20_000_i64..20_000,
        ) {
            let ring: Ring<AtomicI64> = Ring::of(size);
            prop_assert!(ring.size >= size);
            for other in [other, one.saturating_add(near)] {
                let is_same = std::ptr::eq(ring.slot(one), ring.slot(other));
                let differ = i128::from(one) - i128::from(other);
                prop_assert_eq!(is_same, differ % ring.size as i128 == 0);
            }
            ring.slot(one).store(7, Ordering::Relaxed);
            prop_assert_eq!(ring.get(one).map(|slot| slot.load(Ordering::Relaxed)), Some(7));
        }
    }
}
