//! What a run says to each question.

use super::blocks::Turn;
use super::cells::{Cell, CellPair};
use crate::results::StoredRun;
use crate::results::record::{Figure, Missing, Reading, Trial};

/// What is to be found out: whether a figure of one side is that of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Of what.
    pub cells: CellPair,
    /// The figure.
    pub figure: Figure,
}

/// The figure of one run, in its unit; or why there is none that could be compared. Where the queue grew, so that a wait has
/// no steady value, it is infinite: longer than any.
pub type Answer = Result<Reading, String>;

/// What the runs of one block say to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// Of the first side.
    pub a: Answer,
    /// Of the second side.
    pub b: Answer,
    /// Of the first side again.
    pub again: Answer,
}

impl Question {
    /// Which combination it asks for in that run.
    #[must_use]
    pub fn cell(&self, turn: Turn) -> &Cell {
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
        let is_it = |trial: &&Trial| {
            trial.spec.strategy.label == cell.strategy && trial.spec.contenders == cell.contenders
        };
        let trial = run.trials.iter().find(is_it).ok_or("its trial did not run")?;
        if let Some(cut) = &trial.cut_short {
            return Err(format!("its trial is partial ({})", cut.why));
        }
        if let Some(why) = &trial.health.invalid {
            return Err(format!("its trial is invalid ({why})"));
        }
        match self.figure.of(trial) {
            Err(Missing::Unstable) => Ok(Reading { value: f64::INFINITY, at_least: false, samples: None }),
            Err(missing) => Err(missing.to_string()),
            Ok(reading) => Ok(reading),
        }
    }
}
