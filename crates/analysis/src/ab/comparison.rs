//! Pairs the combinations of strategy and contenders on two sides, and judges each pair by its blocks.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocks::Turn;
use crate::compare::{
    self, Compared, ComparisonVerdict, Regression, Scale, Terms, Test, better_of, counts_losses,
    judge_family, reading, unit_of,
};
use zklockbench_core::units::{cell_name, counted};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{CellKey, Figure, Missing, Reading, Unit, usual_samples};
use zklockbench_results::StoredRun;
use zklockbench_stats::Interval;

/// Two compared combinations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CellPair {
    /// Combination of the first side.
    pub a: CellKey,
    /// Combination of the second side.
    pub b: CellKey,
}

impl CellPair {
    /// Returns the name of the strategy; both names if they differ.
    pub fn strategy(&self) -> String {
        either(&self.a.strategy, &self.b.strategy)
    }

    /// Returns the number of contenders; both numbers if they differ.
    pub fn contenders(&self) -> String {
        either(&self.a.contenders, &self.b.contenders)
    }
}

impl Display for CellPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.a.contenders == self.b.contenders {
            return f.write_str(&cell_name(&self.strategy(), self.a.contenders));
        }
        write!(f, "{}, {} contenders", self.strategy(), self.contenders())
    }
}

fn either<T: Display + PartialEq>(a: &T, b: &T) -> String {
    if a == b { a.to_string() } else { format!("{a} / {b}") }
}

/// The combinations in a side's scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    pub strategies: Vec<String>,
    pub contenders: Vec<usize>,
}

/// Pairs the combinations of two sides: by name if both have the same names, otherwise by position.
pub fn pair(a: &Matrix, b: &Matrix) -> Result<Vec<CellPair>, String> {
    let strategies = paired(&a.strategies, &b.strategies, ["strategy", "strategies"])?;
    let counts = paired(&a.contenders, &b.contenders, ["contender count", "contender counts"])?;
    let cell = |strategy: &String, contenders: usize| CellKey { strategy: strategy.clone(), contenders };
    let each = strategies.iter().flat_map(|(first, second)| {
        counts.iter().map(move |(one, other)| CellPair { a: cell(first, *one), b: cell(second, *other) })
    });
    Ok(each.collect())
}

fn paired<T: Clone + Ord>(a: &[T], b: &[T], [one, many]: [&str; 2]) -> Result<Vec<(T, T)>, String> {
    let sorted = |of: &[T]| {
        let mut of = of.to_vec();
        of.sort_unstable();
        of
    };
    if sorted(a) == sorted(b) {
        return Ok(a.iter().map(|one| (one.clone(), one.clone())).collect());
    }
    if a.len() != b.len() {
        return Err(format!(
            "A has {} and B {}, so they cannot be paired: use the same on both sides, or equal numbers to \
             pair them in order",
            counted(a.len(), one, many),
            counted(b.len(), one, many)
        ));
    }
    Ok(a.iter().cloned().zip(b.iter().cloned()).collect())
}

/// A metric to compare between two combinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FigureQuestion {
    pub cells: CellPair,
    pub figure: Figure,
    /// Whether the metric counts losses, which are reported only if a run lost something.
    pub only_if_lost: bool,
}

/// A run's value of the metric, or the reason why the value is not comparable. A wait is infinite if the
/// queue grew.
pub type Answer = Result<Reading, Silence>;

/// Reason why a run has no comparable value, as a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Silence {
    /// The trial is invalid or partial; another run may succeed.
    Spoiled(String),
    /// The trial is missing, or does not measure the metric; another run would not help.
    Unknown(String),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Spoiled(why) | Self::Unknown(why)) = self;
        f.write_str(why)
    }
}

/// Values of one metric in a block's three runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    pub a: Answer,
    pub b: Answer,
    pub again: Answer,
}

impl Answers {
    /// Returns whether the block lacks a pair of A and B because a run was spoiled.
    pub fn is_spoiled(&self) -> bool {
        [&self.a, &self.b].into_iter().any(|answer| matches!(answer, Err(Silence::Spoiled(_))))
    }
}

impl FigureQuestion {
    pub fn cell(&self, turn: Turn) -> &CellKey {
        match turn {
            Turn::A | Turn::Again => &self.cells.a,
            Turn::B => &self.cells.b,
        }
    }

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

/// Values of the metric in one block; `None` if missing, or infinite because the queue grew.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Values {
    /// Number of the block.
    pub block: u32,
    /// Value of A.
    pub a: Option<f64>,
    /// Value of B.
    pub b: Option<f64>,
    /// Value of the second run of A.
    pub again: Option<f64>,
}

/// A run without a comparable value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Silent {
    /// Number of the block.
    pub block: u32,
    /// Role of the run in the block.
    pub turn: Turn,
    /// Reason why there is no value.
    pub why: String,
    /// Whether the run's trial was invalid or partial, so its block may have been replaced.
    #[serde(default)]
    pub spoiled: bool,
}

/// One metric of one combination, on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The compared combinations.
    pub cells: CellPair,
    /// Name of the metric.
    pub figure: String,
    /// Unit: `us`, `per_s`, `amount`, `bytes` or `share`.
    pub unit: Unit,
    /// Better direction: `lower`, `higher` or `neither`.
    pub better: String,
    /// Median of A over the compared pairs.
    pub a: Option<f64>,
    /// Median of B over the same pairs.
    pub b: Option<f64>,
    /// Whether one of A's values is a lower bound, because waits had not ended.
    pub a_at_least: bool,
    /// Whether one of B's values is a lower bound.
    pub b_at_least: bool,
    /// Number of compared pairs.
    pub pairs: usize,
    /// Smallest relative difference that matters; `None` if not measured, and in files of older versions.
    #[serde(default)]
    pub margin: Option<f64>,
    /// Scale of the ratios.
    #[serde(default)]
    pub scale: Scale,
    /// B divided by A, with the interval of this comparison alone.
    pub ratio: Option<Interval>,
    /// The ratio with an interval corrected for multiple comparisons. A metric is worse or better if this
    /// interval is entirely beyond the margin. `None` in files of older versions.
    #[serde(default)]
    pub in_family: Option<Interval>,
    /// The second run of A divided by the first, which shows the noise.
    pub itself: Option<Interval>,
    /// Verdict.
    pub verdict: ComparisonVerdict,
    /// Whether B is worse by more than the margin.
    pub regression: Regression,
    /// Explanation of the verdict, without a full stop; `None` if none is needed.
    pub why: Option<String>,
    /// Approximate number of pairs needed; `None` if no more are needed, or if no number suffices.
    pub pairs_needed: Option<usize>,
    /// The values of each block.
    pub values: Vec<Values>,
    /// Runs without a comparable value.
    pub silent: Vec<Silent>,
}

/// Conclusion from all comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Conclusion {
    /// At least one metric is worse.
    Regressed,
    /// No metric was found to be worse, but at least one comparison is inconclusive.
    Unknown,
    /// No metric is worse, and at least one is better.
    Improved,
    /// No metric is worse.
    NotWorse,
    /// All metrics are the same.
    Same,
}

impl Conclusion {
    /// Returns the verdict for this conclusion: a regression is violated, and inconclusive results are
    /// unknown.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Regressed => Verdict::violated("B regressed in at least one metric"),
            Self::Unknown => Verdict::unknown("for at least one metric, it is unknown whether B regressed"),
            Self::Improved | Self::NotWorse | Self::Same => Verdict::Held,
        }
    }

    /// Returns the conclusion from these comparisons; unknown if there are none.
    pub fn of(comparisons: &[Comparison]) -> Self {
        let any = |regression| comparisons.iter().any(|one| one.regression == regression);
        let is = |verdict| move |one: &Comparison| one.verdict == verdict;
        if any(Regression::Yes) {
            Self::Regressed
        } else if comparisons.is_empty() || any(Regression::Unknown) {
            Self::Unknown
        } else if comparisons.iter().any(is(ComparisonVerdict::Improved)) {
            Self::Improved
        } else if comparisons.iter().all(is(ComparisonVerdict::Same)) {
            Self::Same
        } else {
            Self::NotWorse
        }
    }
}

/// Compares all metrics over the blocks so far. `blocks` contains each block's number and its values, in the order
/// of `questions`; `asked` is the planned number of blocks. Comparisons of losses, if any, come last.
pub fn compare(
    questions: &[FigureQuestion],
    blocks: &[(u32, Vec<Answers>)],
    asked: u32,
    terms: &Terms,
) -> Vec<Comparison> {
    let answers = |at: usize| blocks.iter().filter_map(move |(block, each)| Some((*block, each.get(at)?)));
    let asked = usize::try_from(asked).unwrap_or(usize::MAX);
    let (losses, others): (Vec<usize>, Vec<usize>) =
        (0..questions.len()).partition(|at| counts_losses(questions[*at].figure));
    let lose_any =
        |(_, Answers { a, b, .. }): (u32, &Answers)| [a, b].into_iter().flatten().any(|one| one.value > 0.0);
    let is_reported = |at: usize| !questions[at].only_if_lost || answers(at).any(lose_any);
    let judge = |family: Vec<usize>| {
        let measured = family.iter().map(|at| Measured::of(&questions[*at], answers(*at), asked, terms));
        let (measured, tests): (Vec<_>, Vec<_>) = measured.unzip();
        let each = family.iter().zip(measured).zip(judge_family(&tests));
        let reported = each.filter(|((at, _), _)| is_reported(**at));
        reported
            .map(|((at, measured), compared)| measured.judge(&questions[*at], compared))
            .collect::<Vec<_>>()
    };
    // Losses form a separate family, so that they do not weaken the other comparisons. The family also contains
    // losses that no run has, so that its size does not depend on the values.
    [others, losses].into_iter().flat_map(judge).collect()
}

/// Measurements for one comparison, without the test.
struct Measured {
    itself: Compared,
    values: Vec<Values>,
    silent: Vec<Silent>,
    pairs: usize,
    /// Number of planned pairs.
    asked: usize,
    /// Message if most runs have too few samples for the percentile.
    too_few: Option<String>,
}

impl Measured {
    fn of<'a>(
        question: &FigureQuestion,
        blocks: impl Iterator<Item = (u32, &'a Answers)> + Clone,
        asked: usize,
        terms: &Terms,
    ) -> (Self, Test) {
        let limits = terms.of(question.figure);
        let (mut values, mut silent) = (Vec::new(), Vec::new());
        for (block, Answers { a, b, again }) in blocks.clone() {
            let finite = |reading: &Reading| Some(reading.value).filter(|value| value.is_finite());
            let value = |answer: &Answer| answer.as_ref().ok().and_then(finite);
            values.push(Values { block, a: value(a), b: value(b), again: value(again) });
            for (turn, answer) in [(Turn::A, a), (Turn::B, b), (Turn::Again, again)] {
                silent.extend(answer.as_ref().err().map(|why| Silent {
                    block,
                    turn,
                    why: why.to_string(),
                    spoiled: matches!(why, Silence::Spoiled(_)),
                }));
            }
        }
        let pairs = |other: fn(&Answers) -> &Answer| {
            let pair = |(_, answers): (u32, &Answers)| {
                Some(compare::Block { base: *answers.a.as_ref().ok()?, new: *other(answers).as_ref().ok()? })
            };
            blocks.clone().filter_map(pair).collect::<Vec<_>>()
        };
        let of_both = pairs(|answers| &answers.b);
        // The direction of the difference between the two runs of A does not matter.
        let itself = Test::of_twins(&pairs(|answers| &answers.again), question.figure, limits);
        let too_few = too_few(question, &of_both);
        let measured = Self { itself, values, silent, pairs: of_both.len(), asked, too_few };
        (measured, Test::of_pairs(&of_both, question.figure, limits))
    }

    fn judge(self, question: &FigureQuestion, compared: Compared) -> Comparison {
        let (verdict, regression, why) = self.conclude(&compared);
        let figure = question.figure;
        let unit: Unit = unit_of(figure);
        Comparison {
            cells: question.cells.clone(),
            figure: figure.to_string(),
            unit,
            better: better_of(figure).name().into(),
            a: compared.base.median.filter(|median| median.is_finite()),
            b: compared.new.median.filter(|median| median.is_finite()),
            a_at_least: compared.base.at_least,
            b_at_least: compared.new.at_least,
            pairs: self.pairs,
            margin: compared.margin,
            scale: compared.scale,
            ratio: compared.ratio,
            in_family: compared.in_family,
            itself: self.itself.ratio,
            verdict,
            regression,
            why,
            pairs_needed: compared.repetitions_needed,
            values: self.values,
            silent: self.silent,
        }
    }

    /// Returns the conclusion from the pairs; unknown if pairs are missing, or if the two runs of A differ
    /// just as clearly.
    fn conclude(&self, compared: &Compared) -> (ComparisonVerdict, Regression, Option<String>) {
        let found = (compared.verdict, compared.regression, compared.why.clone());
        let unknown = |why: String| (ComparisonVerdict::Inconclusive, Regression::Unknown, Some(why));
        if let Some(why) = &self.too_few {
            return (ComparisonVerdict::NotMeasured, Regression::Unknown, Some(why.clone()));
        }
        match compared.verdict {
            ComparisonVerdict::NotMeasured => {
                (found.0, found.1, Some(self.lost().or(found.2).unwrap_or_default()))
            }
            ComparisonVerdict::Inconclusive if compared.regression == Regression::Unknown => {
                let why =
                    [self.lost(), found.2].into_iter().flatten().collect::<Vec<_>>().join("; the rest: ");
                unknown(why)
            }
            _ if matches!(
                self.itself.verdict,
                ComparisonVerdict::Regressed | ComparisonVerdict::Improved
            ) =>
            {
                unknown("the two runs of A differ just as clearly, so the machine may be the cause".into())
            }
            ComparisonVerdict::Regressed => found,
            _ => match self.lost() {
                Some(lost) if !self.is_made_up_for() => unknown(lost),
                lost => (found.0, found.1, found.2.or(lost)),
            },
        }
    }

    /// Returns whether there are as many pairs as planned and the spoiled runs cause no bias. Whatever spoils
    /// a run may also slow it down, so B must not have been spoiled more often than A, which runs twice as
    /// often.
    fn is_made_up_for(&self) -> bool {
        let spoiled = |is_it: fn(Turn) -> bool| {
            self.silent.iter().filter(|silent| silent.spoiled && is_it(silent.turn)).count()
        };
        let all_spoiled = self.silent.iter().all(|silent| silent.spoiled);
        let (of_b, of_a) = (spoiled(|turn| turn == Turn::B), spoiled(|turn| turn != Turn::B));
        all_spoiled && self.pairs >= self.asked && of_b <= of_a
    }

    /// Describes the number of missing pairs and the first run that lacks a value.
    fn lost(&self) -> Option<String> {
        let Silent { block, turn, why, .. } = self.silent.iter().find(|silent| silent.turn != Turn::Again)?;
        Some(format!(
            "{} of {} missing; the first, in block {block}, lacks {}: {why}",
            self.values.len() - self.pairs,
            counted(self.values.len(), "pair is", "pairs are"),
            turn.title()
        ))
    }
}

/// Explains why the percentile has too few samples; `None` if it has enough. A percentile from few samples is
/// biased low, and so is the median of many such percentiles.
fn too_few(question: &FigureQuestion, pairs: &[compare::Block]) -> Option<String> {
    let needed = question.figure.samples_needed();
    let usual =
        |side: fn(&compare::Block) -> Reading| usual_samples(&pairs.iter().map(side).collect::<Vec<_>>());
    let fewest = [usual(|block| block.base), usual(|block| block.new)].into_iter().flatten().min()?;
    let of_runs = "samples in each run, but half of the runs of one side have at most";
    (fewest < needed).then(|| format!("{} needs {needed} {of_runs} {fewest}", question.figure))
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
    fn sides_with_the_same_combinations_in_any_order_are_paired_by_name() {
        let (a, b) = (matrix(&["baton", "polling"], &[1, 5]), matrix(&["polling", "baton"], &[5, 1]));
        assert_eq!(
            told(&a, &b),
            ["baton, 1 contender", "baton, 5 contenders", "polling, 1 contender", "polling, 5 contenders"]
        );
    }

    #[test]
    fn different_strategies_or_contender_counts_are_paired_by_position() {
        let a = matrix(&["baton"], &[5, 10]);
        let found = told(&a, &matrix(&["curator-mutex"], &[5, 10]));
        assert_eq!(found, ["baton / curator-mutex, 5 contenders", "baton / curator-mutex, 10 contenders"]);
        let found = told(&a, &matrix(&["baton"], &[6, 12]));
        assert_eq!(found, ["baton, 5 / 6 contenders", "baton, 10 / 12 contenders"]);
    }

    #[test]
    fn sides_of_different_sizes_cannot_be_paired() {
        let a = matrix(&["baton"], &[5]);
        let refused = pair(&a, &matrix(&["baton", "polling"], &[5])).unwrap_err();
        let expected = "A has 1 strategy and B 2 strategies, so they cannot be paired";
        assert!(refused.starts_with(expected), "{refused}");
        let refused = pair(&a, &matrix(&["baton"], &[5, 6])).unwrap_err();
        assert!(refused.starts_with("A has 1 contender count and B 2 contender counts"), "{refused}");
    }
}
