//! Will it carry my load? A question, an answer for each strategy with what it rests on, and how the answer stood up to being
//! tried.

mod answer;
mod file;
mod load;
mod objective;
mod question;
mod verification;

pub use answer::{Answer, Effort, Evidence, Headroom, Sensitivity, recommend};
pub use file::{FILE, PlanFile, RUNS, Recommendation, VERSION, schema};
pub use load::{Load, SIMULATED};
pub use objective::Objective;
pub use question::{Ask, Question, rate};
pub use verification::{Checked, Verification, verify};
