//! Which combinations are compared with each other, and what a run says to the question that is asked of such a pair.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::Turn;
use crate::answer::compare::reading;
use crate::results::StoredRun;
use crate::results::record::{CellKey, Figure, Missing, Reading};
use crate::words::units::{contenders, counted};

/// What is compared with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellPair {
    /// Of the first side.
    pub a: CellKey,
    /// Of the second side.
    pub b: CellKey,
}

impl CellPair {
    /// The strategy in a word: both, where they differ.
    pub fn strategy(&self) -> String {
        either(&self.a.strategy, &self.b.strategy)
    }

    /// The contenders: both, where they differ.
    pub fn contenders(&self) -> String {
        either(&self.a.contenders, &self.b.contenders)
    }
}

impl Display for CellPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.a.contenders == self.b.contenders {
            return write!(f, "{}, {}", self.strategy(), contenders(self.a.contenders));
        }
        write!(f, "{}, {} contenders", self.strategy(), self.contenders())
    }
}

fn either<T: Display + PartialEq>(a: &T, b: &T) -> String {
    if a == b { a.to_string() } else { format!("{a} / {b}") }
}

/// The combinations of a side, as its scenario has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    pub strategies: Vec<String>,
    pub contenders: Vec<usize>,
}

/// Pairs the combinations of two sides: like with like where both have the same, else by their position.
///
/// # Errors
/// What cannot be paired, in a sentence with what to do.
pub fn pair(a: &Matrix, b: &Matrix) -> Result<Vec<CellPair>, String> {
    let strategies = paired(&a.strategies, &b.strategies).ok_or_else(|| {
        let count = |of: &Matrix| counted(of.strategies.len(), "strategy", "strategies");
        cannot(&count(a), &count(b))
    })?;
    let counts = paired(&a.contenders, &b.contenders).ok_or_else(|| {
        let count =
            |of: &Matrix| counted(of.contenders.len(), "number of contenders", "numbers of contenders");
        cannot(&count(a), &count(b))
    })?;
    let cell = |strategy: &String, contenders: usize| CellKey { strategy: strategy.clone(), contenders };
    let each = strategies.iter().flat_map(|(first, second)| {
        counts.iter().map(move |(one, other)| CellPair { a: cell(first, *one), b: cell(second, *other) })
    });
    Ok(each.collect())
}

fn cannot(a: &str, b: &str) -> String {
    format!(
        "A has {a} and B {b}, so it is not clear which is compared with which: give both sides the same or equally \
         many, which are then paired by their order"
    )
}

/// The pairs; `None` where there are more on one side.
fn paired<T: Clone + Ord>(a: &[T], b: &[T]) -> Option<Vec<(T, T)>> {
    let sorted = |of: &[T]| {
        let mut of = of.to_vec();
        of.sort_unstable();
        of
    };
    if sorted(a) == sorted(b) {
        return Some(a.iter().map(|one| (one.clone(), one.clone())).collect());
    }
    (a.len() == b.len()).then(|| a.iter().cloned().zip(b.iter().cloned()).collect())
}

/// What is to be found out: whether a figure of one side is that of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureQuestion {
    pub cells: CellPair,
    pub figure: Figure,
    /// It counts what may be lost, and is compared only where a run lost something of the kind.
    pub only_if_lost: bool,
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

    /// Whether either side lost anything of what is counted.
    pub(super) fn lose_any(&self) -> bool {
        [&self.a, &self.b].into_iter().flatten().any(|reading| reading.value > 0.0)
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
        reading(trial, self.figure).ok_or_else(|| Silence::Unknown(Missing::NotMeasured.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(strategies: &[&str], contenders: &[usize]) -> Matrix {
        Matrix {
            strategies: strategies.iter().map(|&label| label.into()).collect(),
            contenders: contenders.to_vec(),
        }
    }

    fn told(a: &Matrix, b: &Matrix) -> Vec<String> {
        pair(a, b).unwrap().iter().map(CellPair::to_string).collect()
    }

    #[test]
    fn sides_with_the_same_combinations_are_paired_like_with_like_whatever_their_order() {
        let (a, b) = (matrix(&["baton", "polling"], &[1, 5]), matrix(&["polling", "baton"], &[5, 1]));
        assert_eq!(
            told(&a, &b),
            ["baton, 1 contender", "baton, 5 contenders", "polling, 1 contender", "polling, 5 contenders"]
        );
    }

    #[test]
    fn other_strategies_or_contender_counts_are_paired_by_their_position() {
        let a = matrix(&["baton"], &[5, 10]);
        assert_eq!(
            told(&a, &matrix(&["curator-mutex"], &[5, 10])),
            ["baton / curator-mutex, 5 contenders", "baton / curator-mutex, 10 contenders"]
        );
        assert_eq!(
            told(&a, &matrix(&["baton"], &[6, 12])),
            ["baton, 5 / 6 contenders", "baton, 10 / 12 contenders"]
        );
    }

    #[test]
    fn sides_of_different_sizes_cannot_be_paired() {
        let a = matrix(&["baton"], &[5]);
        let refused = pair(&a, &matrix(&["baton", "polling"], &[5])).unwrap_err();
        assert!(refused.starts_with("A has 1 strategy and B 2 strategies, so it is not clear"), "{refused}");
        let refused = pair(&a, &matrix(&["baton"], &[5, 6])).unwrap_err();
        assert!(refused.starts_with("A has 1 number of contenders and B 2 numbers"), "{refused}");
    }
}
