//! Counts the holders inside a lock, as reported by the contenders.

use std::cell::Cell;

use zklockbench_core::catalog::Mode;
use zklockbench_core::clock::{self, Stamp};

#[derive(Default)]
pub struct Oracle {
    capacity: usize,
    readers: Cell<usize>,
    writers: Cell<usize>,
    pub acquired: Cell<u64>,
    pub violations: Cell<u64>,
    /// Time of the last acquisition.
    pub latest: Cell<Stamp>,
}

impl Oracle {
    /// The oracle of a lock that admits this many writers.
    pub fn of(capacity: usize) -> Self {
        Self { capacity, latest: Cell::new(clock::now()), ..Self::default() }
    }

    pub fn enter(&self, mode: Mode) {
        let (readers, writers) = (self.readers.get(), self.writers.get());
        let (beside, own) = match mode {
            Mode::Read => (writers, &self.readers),
            Mode::Write => (readers + writers, &self.writers),
        };
        if beside >= self.capacity {
            self.violations.set(self.violations.get() + 1);
        }
        own.set(own.get() + 1);
        self.acquired.set(self.acquired.get() + 1);
        self.latest.set(clock::now());
    }

    pub fn exit(&self, mode: Mode) {
        let own = if mode == Mode::Read { &self.readers } else { &self.writers };
        own.set(own.get() - 1);
    }
}
