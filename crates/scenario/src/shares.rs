//! Weighted parts of a whole, looked up by position.

/// Parts of a whole. Each entry is the end of a part, as a share of the whole.
#[derive(Debug)]
pub struct Shares(Vec<f64>);

impl Shares {
    /// Returns the parts with these weights.
    pub fn of(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let mut ends: Vec<f64> = weights.into_iter().map(|weight| (sum += weight, sum).1).collect();
        ends.iter_mut().for_each(|end| *end /= sum);
        Self(ends)
    }

    /// Returns the parts whose weights follow Zipf's law.
    pub fn zipf(count: usize, power: f64) -> Self {
        Self::of((1..=count).map(|rank| (rank as f64).powf(-power)))
    }

    pub(super) fn ends(&self) -> &[f64] {
        &self.0
    }

    /// Returns the index of the part at a position from 0 to 1.
    pub fn at(&self, position: f64) -> usize {
        self.0.partition_point(|end| *end <= position).min(self.0.len() - 1)
    }
}
