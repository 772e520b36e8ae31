//! What was found the last few times: what a contender goes by where nothing tells it what it will find.

use std::cell::Cell;

const REMEMBERED: usize = 3;

/// Whether it was so, each of the last times.
#[derive(Debug, Clone, Default)]
pub struct Lately(Cell<[bool; REMEMBERED]>);

impl Lately {
    /// As if it had always been so.
    pub fn always() -> Self {
        Self(Cell::new([true; REMEMBERED]))
    }

    pub fn note(&self, is_so: bool) {
        let [_, before, last] = self.0.get();
        self.0.set([before, last, is_so]);
    }

    /// How many of the last times it was so.
    pub fn times(&self) -> usize {
        self.0.get().iter().filter(|is_so| **is_so).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_three_times_count() {
        let lately = Lately::always();
        let after = |is_so| {
            lately.note(is_so);
            lately.times()
        };
        assert_eq!([false, false, true, false, false, false, true].map(after), [2, 1, 1, 1, 1, 0, 1]);
        assert_eq!((Lately::default().times(), Lately::always().times()), (0, 3));
    }
}
