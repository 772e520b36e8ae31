//! From what runs measured of a strategy to what it would do under another load: the parts of its service, fitted over trials,
//! and predictions by simulation, with what is not known of them.
//!
//! A fit that does not describe what was measured is called bad, and predicts nothing.

mod fit;
mod observation;
mod predict;

pub use fit::{Fit, FitRange, Part, Unfit, fit};
pub use observation::Observation;
pub use predict::{Coming, LoadCase, Predicted, Prediction, predict, simulate};
