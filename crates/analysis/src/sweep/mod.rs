//! Sweep: a scenario over a range of one or two variables, refined around the largest value that meets an
//! objective.
//!
//! This module runs nothing. It defines the variables, chooses the next point, derives the findings (the
//! largest value that meets the objective, and the collapse), and defines the resulting files. `cli` runs the
//! points.

mod file;
mod findings;
mod next;
mod over;
mod series;

pub use file::{Ending, FILE, POINTS, RunRecord, SweepFile, read};
pub use findings::{Collapse, Edge, Finding, find};
pub use next::{Ask, Step, Why, next};
pub use over::{Over, Values, Variable};
pub use series::{At, Decision, FailurePoint, FailureSample, Point, Sample, Series, State, samples};
