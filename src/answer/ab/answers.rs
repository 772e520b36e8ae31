//! What a run says to each question.

use std::fmt;

use super::blocks::Turn;
use super::cells::CellPair;
use crate::results::StoredRun;
use crate::results::record::{CellKey, Figure, Missing, Reading};

/// What is to be found out: whether a figure of one side is that of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureQuestion {
    pub cells: CellPair,
    pub figure: Figure,
}

/// The figure of one run, in its unit; or why there is none that could be compared. Where the queue grew, so that a wait has
/// no steady value, it is infinite: longer than any.
pub type Answer = Result<Reading, Silence>;

/// Why a run says nothing to a question, in a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// Its trial is invalid or partial: another run may say something.
    Spoiled(String),
    /// There is no such trial, or the figure is not measured in it: another run would say no more.
    Unknown(String),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Spoiled(why) | Self::Unknown(why)) = self;
        f.write_str(why)
    }
}

/// What the runs of one block say to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    pub a: Answer,
    /// Of the second side.
    pub b: Answer,
    pub again: Answer,
}

impl Answers {
    /// Whether the block gives no pair of A and B because a run was spoiled.
    pub fn is_spoiled(&self) -> bool {
        [&self.a, &self.b].into_iter().any(|answer| matches!(answer, Err(Silence::Spoiled(_))))
    }
}

impl FigureQuestion {
    /// Which combination it asks for in that run.
    pub fn cell(&self, turn: Turn) -> &CellKey {
        match turn {
            Turn::A | Turn::Again => &self.cells.a,
            Turn::B => &self.cells.b,
        }
    }

    /// What that run says.
    ///
    /// # Errors
    /// Why it says nothing that could be compared: there is no such trial, it is invalid or partial, or the figure is not
    /// known in it.
    pub fn answer(&self, turn: Turn, run: &StoredRun) -> Answer {
        let cell = self.cell(turn);
        let trial = run.trials.iter().find(|trial| cell.is_of(trial));
        let trial = trial.ok_or_else(|| Silence::Unknown("its trial did not run".to_owned()))?;
        if let Some(cut) = &trial.cut_short {
            return Err(Silence::Spoiled(format!("its trial is partial ({})", cut.why)));
        }
        if let Some(why) = &trial.health.invalid {
            return Err(Silence::Spoiled(format!("its trial is invalid ({why})")));
        }
        match self.figure.of(trial) {
            Err(Missing::Unstable) => Ok(Reading { value: f64::INFINITY, at_least: false, samples: None }),
            Err(missing) => Err(Silence::Unknown(missing.to_string())),
            Ok(reading) => Ok(reading),
        }
    }
}
