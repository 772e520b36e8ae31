//! Which combination of one side is compared with which of the other.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::results::record::CellKey;
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
