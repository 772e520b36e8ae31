//! Sweep: a scenario over a range of one or two of its variables, measured closest around the edge of an objective.
//!
//! This is the part that starts nothing: what can be swept, which point is measured next, what the points come to (the
//! objective's edge, the collapse), and the file that is left. `cli` runs the points.

mod file;
mod findings;
mod next;
mod over;
mod series;

pub use file::{Ending, FILE, POINTS, RunRecord, SweepFile, read};
pub use findings::{Collapse, Edge, Finding, find};
pub use next::{Ask, Next, Step, Why, next};
pub use over::{Over, Values, Variable};
pub use series::{At, Decision, Point, Sample, Series, State, samples};
