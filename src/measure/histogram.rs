//! Fixed-range histograms of microseconds: recording neither fails nor allocates.

/// The histogram that every measure uses: three significant digits, 1 µs to [`HIGHEST_US`].
pub type Histogram = hdrhistogram::Histogram<u64>;

/// The largest value kept apart, one hour; anything longer is recorded as this.
pub const HIGHEST_US: u64 = 3_600_000_000;

/// An empty histogram with the suite's range and precision.
#[must_use]
#[allow(clippy::expect_used)] // The bounds are constants that satisfy the constructor's conditions.
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, HIGHEST_US, 3).expect("constant bounds are valid")
}
