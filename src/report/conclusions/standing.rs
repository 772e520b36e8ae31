//! How strategies stand to each other in one respect with one number of contenders.

use crate::answer::compare::{
    Block, Compared, ComparisonVerdict, Limits, SideRatio, Test, exactly, judge_family,
};
use crate::answer::stats::{MannWhitney, median};
use crate::results::record::{Better, Reading};

/// In which respect strategies are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aspect {
    /// How fast they are, by what tells that in the load.
    Speed,
    /// How much they ask of the ensemble for an acquisition.
    Load,
    /// How evenly they share the lock out.
    Fairness,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StrategyReadings {
    pub strategy: usize,
    pub label: String,
    /// What each of its sound repetitions gave, by the number of the repetition.
    pub readings: Vec<(u32, Reading)>,
    /// Whether the load determines it, so that no test is needed.
    pub determined: bool,
}

impl StrategyReadings {
    pub fn median(&self) -> f64 {
        median(&self.values()).unwrap_or(f64::NAN)
    }

    fn values(&self) -> Vec<f64> {
        self.readings.iter().map(|(_, reading)| reading.value).collect()
    }

    fn of(&self) -> Vec<Reading> {
        self.readings.iter().map(|(_, reading)| *reading).collect()
    }

    fn is_constant(&self) -> bool {
        self.readings.windows(2).all(|pair| pair[0].1.value == pair[1].1.value && !pair[0].1.at_least)
    }
}

/// A strategy that is not ranked with the others, as what it is was not measured in each of its repetitions: what a driver's
/// lock asks of the ensemble is counted in one trial of its own.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Apart {
    pub label: String,
    /// What that one trial came to; `None` where nothing of it is known.
    pub amount: Option<f64>,
}

/// The strategies with one number of contenders, the best first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Standing {
    pub aspect: Aspect,
    pub contenders: usize,
    pub better: Better,
    pub entries: Vec<StrategyReadings>,
    /// Those that could not be ranked with them.
    pub apart: Vec<Apart>,
    /// What the best is to each of the others, in their order.
    pub against: Vec<Against>,
    /// How many repetitions the strategy with the fewest has.
    pub repetitions: usize,
    /// With how many a test could decide.
    pub needed: Option<usize>,
    pub decidable: bool,
}

/// The best, compared with another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Against {
    pub verdict: ComparisonVerdict,
    pub ratio: Option<SideRatio>,
    /// In each repetition the best is better than the other is in any, by more than the margin.
    pub ahead: bool,
}

#[derive(Debug, Clone)]
pub(super) struct OpenQuestion {
    pub aspect: Aspect,
    pub contenders: usize,
    pub better: Better,
    pub entries: Vec<StrategyReadings>,
    pub apart: Vec<Apart>,
}

impl OpenQuestion {
    /// Every pair of it takes a test, whichever turns out to be the best: to count only those of the best would be to
    /// choose after having looked.
    fn pairs(&self) -> usize {
        self.entries.len() * self.entries.len().saturating_sub(1) / 2
    }
}

pub(super) fn answers(questions: Vec<OpenQuestion>, limits: Limits) -> Vec<Standing> {
    let family: usize = questions.iter().map(OpenQuestion::pairs).sum();
    let mut tests = Vec::new();
    let mut open: Vec<(OpenQuestion, Vec<RankedPair>)> = Vec::new();
    for mut question in questions {
        question.entries.sort_by(|one, other| {
            let order = one.median().total_cmp(&other.median());
            if question.better == Better::Higher { order.reverse() } else { order }
        });
        let mut pairs = Vec::new();
        for first in 0..question.entries.len() {
            for second in first + 1..question.entries.len() {
                let (best, other) = (&question.entries[first], &question.entries[second]);
                let exact = best.determined && other.determined && best.is_constant() && other.is_constant();
                let known = exact.then(|| exactly(&other.of(), &best.of(), question.better));
                tests.push(test(best, other, question.better, limits, family));
                pairs.push(RankedPair { first, second, known });
            }
        }
        open.push((question, pairs));
    }
    let mut judged = judge_family(tests).into_iter();
    let mut standings = Vec::new();
    for (question, pairs) in open {
        let found: Vec<(RankedPair, Compared)> = pairs.into_iter().zip(judged.by_ref()).collect();
        standings.push(Standing::of(question, found, limits, family));
    }
    standings
}

/// Two entries of a question.
#[derive(Debug)]
struct RankedPair {
    first: usize,
    second: usize,
    known: Option<Compared>,
}

/// Strategies of one repetition ran side by side, so they are pairs, where there are enough of these for the family to be
/// decided by pairs; else the sides are compared as a whole, for which fewer repetitions suffice. Which of the two depends
/// on how many repetitions there are, and not on what they gave.
fn test(
    best: &StrategyReadings,
    other: &StrategyReadings,
    better: Better,
    limits: Limits,
    family: usize,
) -> Test {
    let block = |(number, new): &(u32, Reading)| {
        let found = other.readings.iter().find(|(same, _)| same == number);
        found.map(|(_, base)| Block { base: *base, new: *new })
    };
    let blocks: Vec<Block> = best.readings.iter().filter_map(block).collect();
    match Test::pairs_suffice(blocks.len(), family, limits) {
        true => Test::paired(&blocks, better, limits),
        false => Test::unpaired(&other.of(), &best.of(), better, limits),
    }
}

impl Standing {
    fn of(question: OpenQuestion, found: Vec<(RankedPair, Compared)>, limits: Limits, family: usize) -> Self {
        let OpenQuestion { aspect, contenders, better, entries, apart } = question;
        let of_best = found.into_iter().filter(|(pair, _)| pair.first == 0);
        let mut exact = true;
        let against = of_best
            .map(|(pair, tested)| {
                exact &= pair.known.is_some();
                let compared = pair.known.unwrap_or(tested);
                Against {
                    verdict: compared.verdict,
                    ratio: compared.ratio,
                    ahead: is_ahead(&entries[0], &entries[pair.second], better, limits),
                }
            })
            .collect();
        let repetitions = entries.iter().map(|entry| entry.readings.len()).min().unwrap_or(0);
        let needed = MannWhitney::repetitions_needed(family, limits.alpha);
        let decidable = exact || needed.is_some_and(|needed| repetitions >= needed);
        Self { aspect, contenders, better, entries, apart, against, repetitions, needed, decidable }
    }

    pub fn best(&self) -> &StrategyReadings {
        &self.entries[0]
    }

    pub fn others(&self) -> impl Iterator<Item = (&StrategyReadings, &Against)> {
        self.entries[1..].iter().zip(&self.against)
    }

    pub fn has(&self, label: &str) -> bool {
        self.entries.iter().any(|entry| entry.label == label)
    }

    /// The best and those that it is not shown to be better than by more than the margin.
    pub fn leaders(&self) -> Vec<&StrategyReadings> {
        let level = self.others().filter(|(_, against)| against.verdict != ComparisonVerdict::Improved);
        std::iter::once(self.best()).chain(level.map(|(entry, _)| entry)).collect()
    }

    /// Those that no other came out ahead of in every repetition; none where no strategy came out ahead of another.
    pub fn in_front(&self) -> Vec<&StrategyReadings> {
        if !self.against.iter().any(|one| one.ahead) {
            return Vec::new();
        }
        let level = self.others().filter(|(_, against)| !against.ahead).map(|(entry, _)| entry);
        std::iter::once(self.best()).chain(level).collect()
    }

    /// Whether it is shown that all leaders are the same within the margin.
    pub fn leaders_are_same(&self) -> bool {
        self.against
            .iter()
            .all(|one| matches!(one.verdict, ComparisonVerdict::Same | ComparisonVerdict::Improved))
    }
}

/// Whether each repetition of the best is better than every one of the other, by more than the margin.
fn is_ahead(best: &StrategyReadings, other: &StrategyReadings, better: Better, limits: Limits) -> bool {
    let span = |entry: &StrategyReadings| {
        let values = entry.values();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        (low, values.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    };
    let ((low, high), (other_low, other_high)) = (span(best), span(other));
    let beyond = 1.0 + limits.margin;
    let bound = |entry: &StrategyReadings| entry.readings.iter().any(|(_, reading)| reading.at_least);
    match better {
        Better::Higher => low > other_high * beyond,
        Better::Lower => high * beyond < other_low && !bound(best),
        Better::Neither => false,
    }
}
