//! Ranking of a run's strategies by speed, load on the ensemble and fairness, based on the intervals of their
//! ratios.

use super::{Evidence, Topic};
use crate::View;
use crate::document::Value;
use crate::view::Cell;
use zklockbench_analysis::compare::{Block, Compared, ComparisonVerdict, Limits, Test, exactly};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::number;
use zklockbench_record::{Better, Counted, Figure, Reading, Statistic, Trial, figures};
use zklockbench_stats::{Design, median};

/// Criterion for ranking strategies.
pub(super) struct Aspect {
    pub topic: Topic,
    pub evidence: Evidence,
    pub better: Better,
    /// The superlative for a single best strategy, and the adjective for several equal ones.
    pub words: (&'static str, &'static str),
    /// Formats a value, which may be a lower bound.
    shown: fn(f64, bool) -> String,
    /// Formats a beaten strategy, given its name, the factor by which it is worse, and its own value.
    pub beaten: fn(&str, &str, f64) -> String,
    reading: fn(&Trial) -> Option<Reading>,
}

/// Acquisitions per second of a closed load.
const THROUGHPUT: Aspect = Aspect {
    topic: Topic::Fastest,
    evidence: Evidence::Throughput,
    better: Better::Higher,
    words: ("the fastest", "fast"),
    shown: |value, _| format!("{} acquisitions a second", number(value)),
    beaten: |label, times, _| format!(", {times} times as fast as {label}"),
    reading: |trial| figures::THROUGHPUT.of(trial).map(Reading::exact),
};

/// Time until all contenders have acquired, for a load that ends after a fixed number of acquisitions.
const TOTAL_TIME: Aspect = Aspect {
    evidence: Evidence::TotalTime,
    better: Better::Lower,
    shown: |value, _| format!("{} in all", Value::Duration(value).shown()),
    beaten: |label, times, _| format!("; {label} takes {times} times as long"),
    reading: |trial| Some(Reading::exact(trial.measured_us as f64)),
    ..THROUGHPUT
};

/// Median wait of an open load, whose throughput is the offered rate.
const WAIT: Aspect = Aspect {
    evidence: Evidence::Table,
    shown: |us, is_bound| format!("a median wait of {}", Value::Duration(us).at_least(is_bound).shown()),
    reading: |trial| trial.reading(Figure::Latency(Measure::Wait, Statistic::percent(50))).ok(),
    ..TOTAL_TIME
};

/// Requests and notifications.
const LOAD: Aspect = Aspect {
    topic: Topic::Lightest,
    evidence: Evidence::Requests,
    better: Better::Lower,
    words: ("the lightest on the ensemble", "light on the ensemble"),
    shown: |value, _| format!("{} requests and notifications per acquisition", number(value)),
    beaten: |label, times, _| format!("; {label} takes {times} times as many"),
    // Counts from a separate trial are not readings of this trial.
    reading: |one| requests_and_notifications(one).filter(|_| !one.is_counted_apart()).map(Reading::exact),
};

const FAIRNESS: Aspect = Aspect {
    topic: Topic::Fairest,
    evidence: Evidence::Fairness,
    better: Better::Higher,
    words: ("the fairest", "fair"),
    shown: |value, _| format!("a fairness index of {}", number(value)),
    beaten: |label, _, value| format!("; {label} has {}", number(value)),
    reading: |trial| figures::FAIRNESS.of(trial).map(Reading::exact),
};

/// Cells of a run that may be ranked.
pub(super) struct Field<'a> {
    view: &'a View<'a>,
    speed: &'static Aspect,
}

impl<'a> Field<'a> {
    /// Chooses the metric of speed for this load; `None` if nothing was acquired.
    pub fn of(view: &'a View<'a>) -> Option<Self> {
        let first = view.cells.iter().flat_map(Cell::all).find(|trial| trial.measured.acquired() > 0)?;
        let speed = match first.spec.load.name() {
            "open" => &WAIT,
            "batch" => &TOTAL_TIME,
            _ if first.full_crew.is_some() => &TOTAL_TIME,
            _ => &THROUGHPUT,
        };
        Some(Self { view, speed })
    }

    /// Returns the valid cells with acquisitions and a steady queue, of locks that kept their promises.
    fn ranked_at(&self, contenders: usize) -> impl Iterator<Item = &'a Cell<'a>> {
        let view = self.view;
        let acquired = |cell: &Cell<'_>| cell.counting().all(|one| one.measured.acquired() > 0);
        let is_broken = move |strategy| view.cells_of(strategy).any(Cell::is_violated);
        view.cells_at(contenders).filter(move |cell| {
            cell.is_sound() && acquired(cell) && !cell.is_unstable() && !is_broken(cell.strategy)
        })
    }

    pub fn ranked(&self, contenders: usize, label: &str) -> Option<&'a Cell<'a>> {
        self.ranked_at(contenders).find(|cell| self.view.label(cell) == label)
    }

    /// Returns the contender count for the main conclusions: the largest at which at least two strategies can
    /// be compared or, if there is none, the largest with one strategy.
    pub fn focus(&self) -> usize {
        let most = |count: &usize| (self.ranked_at(*count).count().min(2), *count);
        self.view.contender_counts().into_iter().max_by_key(most).unwrap_or(0)
    }

    /// Returns the rankings by each aspect at each contender count with at least two strategies.
    pub fn standings(&self, limits: Limits) -> Vec<Standing> {
        let aspects = [self.speed, &LOAD, &FAIRNESS].into_iter();
        let counts = self.view.contender_counts();
        let each = aspects.flat_map(|aspect| counts.iter().map(move |count| self.entries(aspect, *count)));
        let mut open: Vec<Standing> = each.filter(|standing| standing.entries.len() > 1).collect();
        // The correction is for all pairs, because the best strategy is not known in advance.
        let family: usize = open.iter().map(|one| one.entries.len() * (one.entries.len() - 1) / 2).sum();
        for standing in &mut open {
            standing.conclude(limits, family);
        }
        open
    }

    fn entries(&self, aspect: &'static Aspect, contenders: usize) -> Standing {
        let mut entries: Vec<Entry> =
            self.ranked_at(contenders).filter_map(|cell| self.entry(aspect, cell)).collect();
        entries.sort_by(|one, other| {
            let order = one.median().total_cmp(&other.median());
            if aspect.better == Better::Higher { order.reverse() } else { order }
        });
        let is_ranked = |label: &str| entries.iter().any(|entry| entry.label == label);
        let is_apart = |cell: &&Cell<'_>| {
            // Locks of other systems send nothing to the ensemble.
            let is_zookeepers = cell.all().all(|trial| trial.spec.strategy.system.is_none());
            aspect.topic == Topic::Lightest && is_zookeepers && !is_ranked(self.view.label(cell))
        };
        let amount = |cell: &Cell<'_>| {
            let counted = cell.counting().all(Trial::is_counted_apart);
            cell.median(requests_and_notifications).filter(|_| counted)
        };
        let apart = self.ranked_at(contenders).filter(is_apart);
        let apart = apart.map(|cell| (self.view.label(cell).to_owned(), amount(cell))).collect();
        Standing { aspect, contenders, entries, apart, repetitions: 0, needed: None, decidable: false }
    }

    fn entry(&self, aspect: &'static Aspect, cell: &Cell<'_>) -> Option<Entry> {
        let reading = |trial: &Trial| Some((trial.spec.repetition, (aspect.reading)(trial)?));
        let readings: Vec<(u32, Reading)> = cell.counting().map(reading).collect::<Option<_>>()?;
        let is_exact = |pair: &[(u32, Reading)]| pair[0].1.value == pair[1].1.value && !pair[0].1.at_least;
        let is_counted = aspect.topic == Topic::Lightest && readings.windows(2).all(is_exact);
        let is_determined = is_counted && cell.counting().all(is_determined);
        let label = self.view.label(cell).to_owned();
        (!readings.is_empty()).then_some(Entry { label, readings, is_determined, against: None })
    }
}

fn requests_and_notifications(trial: &Trial) -> Option<f64> {
    let requests = figures::REQUESTS_PER_ACQUISITION.of(trial)?;
    Some(requests + figures::NOTIFICATIONS_PER_ACQUISITION.of(trial)?)
}

/// Returns whether the cost model determines the numbers of requests and notifications, so that nothing is
/// random.
fn is_determined(trial: &Trial) -> bool {
    let is_of = |what: Counted| what == Counted::Requests || what.is_event();
    let mut lines = trial.accounting.iter().filter(|line| is_of(line.what)).peekable();
    let errors = figures::ERRORS.of(trial).is_some_and(|errors| errors > 0.0);
    let is_batch = trial.spec.load.name() == "batch" && !errors;
    is_batch && lines.peek().is_some() && lines.all(|line| line.expected.is_some())
}

/// A strategy with the readings of its valid repetitions.
pub(super) struct Entry {
    pub label: String,
    /// Readings, each with the number of its repetition.
    readings: Vec<(u32, Reading)>,
    /// Whether the cost model determines the value, so that no test is needed.
    is_determined: bool,
    /// Comparison of the best strategy with this strategy; `None` for the best strategy itself.
    pub against: Option<Compared>,
}

impl Entry {
    pub fn median(&self) -> f64 {
        let values: Vec<f64> = self.readings.iter().map(|(_, reading)| reading.value).collect();
        median(&values).unwrap_or(f64::NAN)
    }

    /// Returns whether the median is a lower bound, because of unserved waits.
    pub fn is_bound(&self) -> bool {
        self.readings.iter().any(|(_, reading)| reading.at_least)
    }

    /// Returns whether the best strategy is better by more than the margin.
    pub fn is_beaten(&self) -> bool {
        self.verdict() == Some(ComparisonVerdict::Improved)
    }

    fn verdict(&self) -> Option<ComparisonVerdict> {
        self.against.as_ref().map(|against| against.verdict)
    }
}

/// Strategies ranked by one aspect at one contender count, best first.
pub(super) struct Standing {
    pub aspect: &'static Aspect,
    pub contenders: usize,
    pub entries: Vec<Entry>,
    /// Strategies whose requests were not counted in every repetition, each with its load from a separate
    /// counting trial, if there was one.
    pub apart: Vec<(String, Option<f64>)>,
    /// Smallest number of repetitions of any strategy.
    pub repetitions: usize,
    /// Minimum number of repetitions for an interval with bounds.
    pub needed: Option<usize>,
    pub decidable: bool,
}

impl Standing {
    /// Compares the best strategy with every other strategy, corrected for `family` comparisons.
    fn conclude(&mut self, limits: Limits, family: usize) {
        let better = self.aspect.better;
        let all_exact = self.entries.iter().all(|entry| entry.is_determined);
        let (best, others) = self.entries.split_at_mut(1);
        let best = &best[0];
        let readings = |one: &Entry| one.readings.iter().map(|(_, reading)| *reading).collect::<Vec<_>>();
        for other in others {
            // Each repetition ran all strategies, so the values of one repetition form a block.
            let blocks = || Block::of_repetitions(other.readings.clone(), best.readings.clone());
            other.against = Some(match best.is_determined && other.is_determined {
                true => exactly(&readings(other), &readings(best), better),
                false => Test::of_blocks(&blocks(), better, limits, family).judge(family),
            });
        }
        self.repetitions = self.entries.iter().map(|entry| entry.readings.len()).min().unwrap_or(0);
        self.needed = Design::Independent.fewest(limits.share(family));
        self.decidable = all_exact || self.needed.is_some_and(|needed| self.repetitions >= needed);
    }

    /// Returns the median of a strategy as text.
    pub fn shown(&self, entry: &Entry) -> String {
        (self.aspect.shown)(entry.median(), entry.is_bound())
    }

    pub fn best(&self) -> &Entry {
        &self.entries[0]
    }

    pub fn entry(&self, label: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.label == label)
    }

    /// Returns the best strategy, and the strategies that it does not beat.
    pub fn leaders(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.is_beaten())
    }

    /// Returns the strategies that the best one beats.
    pub fn beaten(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is_beaten())
    }

    /// Returns whether all leaders differ by less than the margin.
    pub fn is_level(&self) -> bool {
        self.leaders().skip(1).all(|entry| entry.verdict() == Some(ComparisonVerdict::Same))
    }
}
