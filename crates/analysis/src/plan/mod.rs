//! Capacity planning: the question, an answer for each strategy, and the verification of these answers.

mod answer;
mod failure;
mod file;
mod load;
mod measured;
mod question;
mod recommendation;
mod search;
mod verification;

pub use answer::{Answer, ByServers, Evidence, VariableHolds, WRITES};
pub use failure::{FailureCost, MeasuredFailure, MeasuredRange};
pub use file::{FILE, PlanFile, RUNS, read};
pub use load::{BUSIEST, PlannedLoad, SIMULATED};
pub use measured::{FreshCost, MeasuredLoad};
pub use question::{Question, QuestionLoad, in_toml, objective, rate, wait_of};
pub use recommendation::{
    Because, MapCell, MapChoice, Recommendation, map, most_promising, recommend, settle, to_measure,
};
pub use search::{CurvePoint, Effort, Headroom, Sensitivity};
pub use verification::{Attempt, Checked, CheckedFailure, Unverified, Verification, verify};
