//! Who is the fastest, the lightest, the fairest: the readings of each strategy, how strategies stand to each other in one
//! respect with one number of contenders, and the sentences on that.

use super::{Certainty, Conclusion, Evidence, Topic};
use crate::View;
use crate::document::Value;
use crate::view::Cell;
use zklockbench_analysis::compare::{Block, Compared, ComparisonVerdict, Limits, Test, exactly};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{contenders, counted, listed, number, percent};
use zklockbench_record::{Better, Counted, Figure, Reading, Statistic, Trial, figures};
use zklockbench_stats::{Design, Interval, median};

/// What tells how fast a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    /// Acquisitions a second, of a closed load.
    Throughput,
    /// How long it took until all had acquired, of a batch and of a load that acquisitions end.
    TotalTime,
    /// The median wait, of an open load: its throughput is the one that is offered.
    Wait,
}

pub(super) struct RankingContext<'a> {
    view: &'a View<'a>,
    pub speed: Speed,
}

impl<'a> RankingContext<'a> {
    /// Of a run; `None` where nothing was acquired.
    pub fn of(view: &'a View<'a>) -> Option<Self> {
        let first = view.cells.iter().flat_map(Cell::all).find(|trial| trial.measured.acquired() > 0)?;
        let speed = match first.spec.load.name() {
            "open" => Speed::Wait,
            "batch" => Speed::TotalTime,
            _ if first.full_crew.is_some() => Speed::TotalTime,
            _ => Speed::Throughput,
        };
        Some(Self { view, speed })
    }

    /// The cells that may be ranked: sound, with acquisitions, and of locks that kept their promises.
    pub fn ranked_at(&self, contenders: usize) -> impl Iterator<Item = &'a Cell<'a>> {
        let view = self.view;
        let is_broken = move |strategy| view.cells_of(strategy).any(Cell::is_violated);
        let is_ranked = move |cell: &&Cell<'_>| {
            cell.is_sound() && acquired(cell) && !cell.is_unstable() && !is_broken(cell.strategy)
        };
        view.cells_at(contenders).filter(is_ranked)
    }

    /// The number of contenders that the sentences are about: where most can be compared, and of these the largest.
    pub fn focus(&self) -> usize {
        let counts = self.view.contender_counts();
        let most = |count: &usize| (self.ranked_at(*count).count().min(2), *count);
        counts.into_iter().max_by_key(most).unwrap_or(0)
    }

    pub fn ranked(&self, contenders: usize, label: &str) -> Option<&'a Cell<'a>> {
        self.ranked_at(contenders).find(|cell| self.view.label(cell) == label)
    }

    /// How the strategies stand, in every respect and with every number of contenders that has two of them.
    pub fn standings(&self, limits: Limits) -> Vec<Standing> {
        let aspects = [Aspect::Speed, Aspect::Load, Aspect::Fairness];
        let counts = self.view.contender_counts();
        let questions =
            aspects.iter().flat_map(|aspect| counts.iter().map(|count| self.question(*aspect, *count)));
        let questions: Vec<OpenQuestion> = questions.filter(|question| question.entries.len() > 1).collect();
        let family = questions.iter().map(OpenQuestion::pairs).sum();
        questions.into_iter().map(|question| Standing::of(question, limits, family)).collect()
    }

    fn question(&self, aspect: Aspect, contenders: usize) -> OpenQuestion {
        let ranked = || self.ranked_at(contenders);
        let entries: Vec<StrategyReadings> = ranked().filter_map(|cell| self.entry(aspect, cell)).collect();
        let is_apart = |cell: &&Cell<'_>| {
            // What is no lock of ZooKeeper asks nothing of the ensemble.
            let is_asked = cell.all().all(|trial| trial.spec.strategy.system.is_none());
            aspect == Aspect::Load && is_asked && entries.iter().all(|entry| entry.strategy != cell.strategy)
        };
        let apart = ranked().filter(is_apart).map(|cell| self.apart(cell)).collect();
        let better = match (aspect, self.speed) {
            (Aspect::Speed, Speed::Throughput) | (Aspect::Fairness, _) => Better::Higher,
            _ => Better::Lower,
        };
        OpenQuestion { aspect, contenders, better, entries, apart }
    }

    fn entry(&self, aspect: Aspect, cell: &Cell<'_>) -> Option<StrategyReadings> {
        let reading = |trial: &Trial| Some((trial.spec.repetition, self.reading(aspect, trial)?));
        let readings: Option<Vec<(u32, Reading)>> = cell.counting().map(reading).collect();
        let determined = aspect == Aspect::Load && cell.counting().all(is_determined);
        let entry = StrategyReadings {
            strategy: cell.strategy,
            label: self.view.label(cell).to_owned(),
            readings: readings?,
            determined,
        };
        (!entry.readings.is_empty()).then_some(entry)
    }

    fn apart(&self, cell: &Cell<'_>) -> Apart {
        let counted_apart = cell.counting().all(Trial::is_counted_apart);
        let amount = cell.median(requests_and_notifications).filter(|_| counted_apart);
        Apart { label: self.view.label(cell).to_owned(), amount }
    }

    fn reading(&self, aspect: Aspect, trial: &Trial) -> Option<Reading> {
        let exact = Reading::exact;
        match (aspect, self.speed) {
            (Aspect::Speed, Speed::Throughput) => figures::THROUGHPUT.of(trial).map(exact),
            (Aspect::Speed, Speed::TotalTime) => Some(exact(trial.measured_us as f64)),
            (Aspect::Speed, Speed::Wait) => {
                trial.reading(Figure::Latency(Measure::Wait, Statistic::percent(50))).ok()
            }
            (Aspect::Fairness, _) => figures::FAIRNESS.of(trial).map(exact),
            // What a trial of its own has counted is no reading of this one.
            (Aspect::Load, _) if trial.is_counted_apart() => None,
            (Aspect::Load, _) => requests_and_notifications(trial).map(exact),
        }
    }
}

fn requests_and_notifications(trial: &Trial) -> Option<f64> {
    let requests = figures::REQUESTS_PER_ACQUISITION.of(trial)?;
    Some(requests + figures::NOTIFICATIONS_PER_ACQUISITION.of(trial)?)
}

fn acquired(cell: &Cell<'_>) -> bool {
    cell.counting().all(|one| one.measured.acquired() > 0)
}

/// Whether a batch's cost model says how many requests and notifications there are, so that nothing is left to chance.
fn is_determined(trial: &Trial) -> bool {
    let is_of = |what: Counted| what == Counted::Requests || what.is_event();
    let mut lines = trial.accounting.iter().filter(|line| is_of(line.what)).peekable();
    let errors = figures::ERRORS.of(trial).is_some_and(|errors| errors > 0.0);
    trial.spec.load.name() == "batch"
        && !errors
        && lines.peek().is_some()
        && lines.all(|line| line.expected.is_some())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aspect {
    Speed,
    /// How much they ask of the ensemble for an acquisition.
    Load,
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

    fn is_determined(&self) -> bool {
        let is_same = |pair: &[(u32, Reading)]| pair[0].1.value == pair[1].1.value && !pair[0].1.at_least;
        self.determined && self.readings.windows(2).all(is_same)
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
    pub apart: Vec<Apart>,
    /// What the best is to each of the others, in their order.
    pub against: Vec<Against>,
    /// How many repetitions the strategy with the fewest has.
    pub repetitions: usize,
    /// With how many an interval has bounds.
    pub needed: Option<usize>,
    pub decidable: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Against {
    pub verdict: ComparisonVerdict,
    pub ratio: Option<Interval>,
}

#[derive(Debug, Clone)]
struct OpenQuestion {
    pub aspect: Aspect,
    pub contenders: usize,
    pub better: Better,
    pub entries: Vec<StrategyReadings>,
    pub apart: Vec<Apart>,
}

impl OpenQuestion {
    /// All its pairs of strategies, because which one is the best is seen only afterwards.
    fn pairs(&self) -> usize {
        self.entries.len() * self.entries.len().saturating_sub(1) / 2
    }
}

impl Standing {
    /// The answer to a question, as one of so many pairs of strategies.
    fn of(question: OpenQuestion, limits: Limits, family: usize) -> Self {
        let OpenQuestion { aspect, contenders, better, mut entries, apart } = question;
        entries.sort_by(|one, other| {
            let order = one.median().total_cmp(&other.median());
            if better == Better::Higher { order.reverse() } else { order }
        });
        let best = &entries[0];
        let is_exact = |other: &StrategyReadings| best.is_determined() && other.is_determined();
        let against = |other: &StrategyReadings| {
            // Strategies of one repetition ran side by side.
            let blocks = || Block::of_repetitions(other.readings.clone(), best.readings.clone());
            let Compared { verdict, ratio, .. } = match is_exact(other) {
                true => exactly(&other.of(), &best.of(), better),
                false => Test::of_blocks(&blocks(), better, limits, family).judge(family),
            };
            Against { verdict, ratio }
        };
        let against = entries[1..].iter().map(against).collect();
        let repetitions = entries.iter().map(|entry| entry.readings.len()).min().unwrap_or(0);
        let needed = Design::Independent.fewest(limits.share(family));
        let decidable =
            entries[1..].iter().all(is_exact) || needed.is_some_and(|needed| repetitions >= needed);
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

    /// Whether it is shown that all leaders are the same within the margin.
    pub fn leaders_are_same(&self) -> bool {
        self.against
            .iter()
            .all(|one| matches!(one.verdict, ComparisonVerdict::Same | ComparisonVerdict::Improved))
    }

    /// What it is about and what shows that, and how the best is called: `the fastest`, `fast`.
    fn words(&self) -> (Topic, Evidence, &'static str, &'static str) {
        match (self.aspect, self.better) {
            (Aspect::Speed, Better::Higher) => (Topic::Fastest, Evidence::Throughput, "the fastest", "fast"),
            (Aspect::Speed, _) => (Topic::Fastest, Evidence::Table, "the fastest", "fast"),
            (Aspect::Load, _) => {
                let (superlative, adjective) = ("the lightest on the ensemble", "light on the ensemble");
                (Topic::Lightest, Evidence::Requests, superlative, adjective)
            }
            (Aspect::Fairness, _) => (Topic::Fairest, Evidence::Fairness, "the fairest", "fair"),
        }
    }

    pub fn value(&self, entry: &StrategyReadings, speed: Speed) -> String {
        let median = entry.median();
        match (self.aspect, speed) {
            (Aspect::Speed, Speed::Throughput) => format!("{} acquisitions a second", number(median)),
            (Aspect::Speed, Speed::TotalTime) => format!("{} in all", Value::Duration(median).shown()),
            (Aspect::Speed, Speed::Wait) => format!("a median wait of {}", Value::Duration(median).shown()),
            (Aspect::Load, _) => format!("{} requests and notifications per acquisition", number(median)),
            (Aspect::Fairness, _) => format!("a fairness index of {}", number(median)),
        }
    }

    fn compared(&self, other: &StrategyReadings, against: &Against) -> Option<String> {
        let ratio = against.ratio?;
        let inverted = self.better == Better::Lower;
        let turn = |value: f64| if inverted { 1.0 / value } else { value };
        let (low, high) = if inverted { (ratio.high, ratio.low) } else { (ratio.low, ratio.high) };
        let interval = match (turn(low), turn(high)) {
            (low, high) if low < high && high.is_finite() && self.decidable => {
                format!(" [{}, {}]", number(low), number(high))
            }
            _ => String::new(),
        };
        let times = turn(ratio.value);
        if !times.is_finite() {
            return None;
        }
        let times = format!("{}{interval} times", number(times));
        Some(match (self.aspect, self.better) {
            (Aspect::Speed, Better::Higher) => format!("{times} the throughput of {}", other.label),
            (Aspect::Speed, _) => format!("{} takes {times} as long", other.label),
            (Aspect::Load, _) => format!("{} takes {times} as many", other.label),
            (Aspect::Fairness, _) => format!("{} has {}", other.label, number(other.median())),
        })
    }

    /// What a strategy comes to, and the last of those that the best is better than: as a multiple of it where that strategy is
    /// the best, otherwise side by side, as no test has compared the two.
    pub fn in_numbers_of(&self, label: &str, speed: Speed, is_beaten: impl Fn(&Against) -> bool) -> String {
        let own = self.entries.iter().find(|entry| entry.label == label).unwrap_or_else(|| self.best());
        let is_best = own.strategy == self.best().strategy;
        let last = self.others().filter(|(_, against)| is_beaten(against)).last();
        let last = last.and_then(|(entry, against)| match is_best {
            true => self.compared(entry, against),
            false => Some(format!("against {} of {}", self.value(entry, speed), entry.label)),
        });
        [self.value(own, speed)].into_iter().chain(last).collect::<Vec<_>>().join(", ")
    }

    /// What the nearest and the last of these are to the best.
    fn compared_with<'a>(
        &'a self,
        others: impl Iterator<Item = (&'a StrategyReadings, &'a Against)>,
    ) -> String {
        let all: Vec<_> = others.collect();
        let ends = match all.as_slice() {
            [] => Vec::new(),
            [one] => vec![one],
            [first, .., last] => vec![first, last],
        };
        let said: Vec<String> =
            ends.into_iter().filter_map(|(entry, against)| self.compared(entry, against)).collect();
        if said.is_empty() { String::new() } else { format!("; {}", listed(&said)) }
    }

    fn told_apart(&self) -> String {
        self.apart.iter().map(|one| format!("; {}", one.told())).collect()
    }

    fn conclude(&self, speed: Speed, limits: Limits) -> Conclusion {
        let (topic, evidence, superlative, adjective) = self.words();
        let at = contenders(self.contenders);
        let best = self.best();
        let names = |entries: &[&StrategyReadings]| {
            entries.iter().map(|entry| entry.label.clone()).collect::<Vec<_>>()
        };
        let value = self.value(best, speed);
        let repeated = counted(self.repetitions, "repetition", "repetitions");
        let more = match self.needed {
            Some(needed) => format!("; an interval needs {needed}"),
            None => String::new(),
        };
        let (certainty, strategies, sentence) = if self.decidable {
            let leaders = self.leaders();
            let beaten = self.others().filter(|(_, against)| against.verdict == ComparisonVerdict::Improved);
            let beaten = self.compared_with(beaten) + &self.told_apart();
            // What is counted once may be less.
            let of = if self.apart.is_empty() { "" } else { " of those counted in each repetition" };
            // Exact counts need no interval.
            let once = if self.repetitions < 2 { ", counted in one trial only" } else { "" };
            let value = format!("{value}{once}");
            let margin = percent(limits.margin);
            let names = names(&leaders);
            match (leaders.len(), self.leaders_are_same()) {
                (1, _) => {
                    let said = format!("With {at} {} is {superlative}{of}: {value}{beaten}.", best.label);
                    (Certainty::Shown, names, said)
                }
                (_, true) => {
                    let said = format!(
                        "With {at} {} are equally {adjective}, to within {margin}: {value}{beaten}.",
                        listed(&names)
                    );
                    (Certainty::Same, names, said)
                }
                _ => {
                    let said = format!(
                        "With {at} none of {} is shown to be {superlative}: over {repeated} they differ by no more \
                         than noise could explain; {} has {value}{beaten}.",
                        listed(&names),
                        best.label
                    );
                    (Certainty::Tied, names, said)
                }
            }
        } else if self.repetitions < 2 {
            let said = format!(
                "With {at} it is not known which is {superlative}: a single repetition does not show how much the \
                 next would differ{more}."
            );
            (Certainty::Unknown, Vec::new(), said)
        } else {
            let said =
                format!("With {at} it is not shown which is {superlative}: {repeated} are too few{more}.");
            (Certainty::Unknown, Vec::new(), said)
        };
        Conclusion { topic, certainty, contenders: Some(self.contenders), strategies, sentence, evidence }
    }
}

impl Apart {
    pub fn told(&self) -> String {
        let label = &self.label;
        match self.amount {
            Some(amount) => format!(
                "{label} has {} requests and notifications per acquisition, counted in a trial of its own",
                number(amount)
            ),
            None => format!("the requests of {label} are not known"),
        }
    }
}

/// The sentence on the number of contenders that the run is about; and one on each other whose answer is another.
pub(super) fn sentences<'a>(
    standings: impl Iterator<Item = &'a Standing>,
    speed: Speed,
    focus: usize,
    limits: Limits,
) -> Vec<Conclusion> {
    let all: Vec<Conclusion> = standings.map(|one| one.conclude(speed, limits)).collect();
    let (first, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.contenders == Some(focus));
    let said: Vec<Vec<String>> = first.iter().map(|one| one.strategies.clone()).collect();
    let differs = |one: &Conclusion| {
        let is_sure = matches!(one.certainty, Certainty::Shown | Certainty::Same);
        is_sure && !said.contains(&one.strategies)
    };
    first.into_iter().chain(others.into_iter().filter(differs)).collect()
}
