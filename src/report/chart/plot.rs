//! Where values lie on a picture, and how large its letters are.

use super::axis::Axis;
use super::picture::Point;

/// The text of axes and keys.
pub(super) const MEDIUM: f64 = 14.0;
/// The smallest text. Shown 900 pixels wide, as in a README, it still has 11.7.
pub(super) const SMALL: f64 = 13.0;

/// The rectangle within the axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Plot {
    /// Left edge, in pixels.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Right edge.
    pub right: f64,
    /// Bottom edge.
    pub bottom: f64,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis along the left.
    pub y: Axis,
}

impl Plot {
    /// Where a pair of values lies.
    pub fn at(&self, x: f64, y: f64) -> Point {
        let across = self.left + self.x.share(x) * (self.right - self.left);
        (across, self.bottom - self.y.share(y) * (self.bottom - self.top))
    }
}
