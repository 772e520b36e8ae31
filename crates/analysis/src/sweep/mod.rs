//! Sweep: a scenario over a range of one or two of its variables, measured where the curve says something.
//!
//! This is the part that starts nothing: what can be swept, which point is measured next, what the points come to (the
//! objective's edge, the knee, the collapse, the Universal Scalability Law), and the file that is left. `cli` runs the points.

mod file;
mod findings;
mod knee;
mod next;
mod over;
mod series;

pub use file::{Ending, FILE, POINTS, RunRecord, SweepFile, read};
pub use findings::{Collapse, Edge, Finding, find};
pub use knee::{Bend, Dot, Fit, Knee, KneeFigure, Law, NoLaw, Opinion, Saturation, fit, knee, usl};
pub use next::{Ask, Next, Step, Why, next};
pub use over::{Over, Values, Variable};
pub use series::{At, Decision, Estimate, Point, Sample, Series, State, samples};
