//! One strategy at one contender count, over all its repetitions, and all that a table or chart may say of each.

use std::collections::BTreeMap;

use super::bins::Bins;
use super::open::OpenFigures;
use crate::results::record::{Accounting, Election, Judged, Standstill, Trial};
use crate::words::measure::{Histogram, Measure, Quantile, RequestKind, Survival, Woken, pooled};
use crate::words::units::format_micros;
use crate::words::verdict::Verdict;

/// One strategy at one contender count.
///
/// Figures are taken over the sound repetitions. Where there is none, they are taken over all, and
/// [`Cell::is_sound`] says so: a renderer then marks the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Position in [`super::View::strategies`].
    pub strategy: usize,
    pub contenders: usize,
    /// The repetitions, in order.
    pub repetitions: Vec<Repetition>,
}

/// The middle and the ends of what the repetitions gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub count: usize,
}

impl Spread {
    /// The spread of these values; `None` when there is none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let half = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) };
        Some(Self { median, min, max, count: sorted.len() })
    }
}

/// A percentile in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentile {
    pub us: f64,
    /// Waits that were not served could make it longer: it is at least this.
    pub at_least: bool,
}

impl Percentile {
    /// As tables show it: `12 ms`, or `≥ 12 ms`.
    pub fn shown(&self) -> String {
        let text = format_micros(self.us.round() as u64);
        if self.at_least { format!("≥ {text}") } else { text }
    }
}

impl Cell {
    /// Whether at least one repetition is neither invalid nor partial.
    pub fn is_sound(&self) -> bool {
        self.repetitions.iter().any(Repetition::is_sound)
    }

    /// The repetitions whose figures count: the sound ones or, where there is none, all.
    pub fn counting(&self) -> impl Iterator<Item = &Repetition> {
        let any_sound = self.is_sound();
        self.repetitions.iter().filter(move |repetition| repetition.is_sound() || !any_sound)
    }

    /// The spread of a figure over the repetitions that count; `None` when none measured it.
    pub fn spread(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.counting().filter_map(figure))
    }

    /// The median of a figure over the repetitions that count.
    pub fn median(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// Whether a repetition that counts has samples of that measure.
    pub fn has_samples(&self, measure: Measure) -> bool {
        let all = |one| [Repetition::samples(one, measure), Repetition::unserved_samples(one, measure)];
        self.counting().flat_map(all).flatten().any(|samples| !samples.is_empty())
    }

    /// Whether the queue grew in a repetition that counts.
    pub fn is_unstable(&self) -> bool {
        self.counting().any(Repetition::is_unstable)
    }

    /// Whether its load was an open one.
    pub fn is_open(&self) -> bool {
        self.repetitions.iter().any(|one| one.open.is_some())
    }

    /// A percentile of a part of the wait: the median over the repetitions that count.
    pub fn part_of_wait(&self, measure: Measure, quantile: f64) -> Option<f64> {
        self.median(|one| Some(one.others.get(&measure)?.value_at_quantile(quantile) as f64))
    }

    /// A percentile of a measure: the median over the repetitions that count of what it is in each; a lower bound as soon
    /// as it is one in any of them. `None` when none has a sample, and for the waits of a queue that grew: they would only say
    /// how long the trial was.
    pub fn percentile(&self, measure: Measure, quantile: f64) -> Option<Percentile> {
        if measure == Measure::Wait && self.is_unstable() {
            return None;
        }
        let each: Vec<Quantile> =
            self.counting().filter_map(|one| Some(one.survival(measure)?.quantile(quantile))).collect();
        let us = Spread::of(each.iter().map(|one| one.us as f64))?.median;
        Some(Percentile { us, at_least: each.iter().any(|one| one.at_least) })
    }

    /// The longest of all samples of the repetitions that count.
    pub fn longest(&self, measure: Measure) -> Option<Percentile> {
        let each = self.counting().filter_map(|one| Some(one.survival(measure)?.longest()));
        let longest = each.max_by_key(|one| (one.us, one.at_least))?;
        Some(Percentile { us: longest.us as f64, at_least: longest.at_least })
    }

    /// The samples of all repetitions that count, pooled; `None` when there is none.
    pub fn pooled(&self, measure: Measure) -> Option<Survival> {
        let all = |samples: fn(&Repetition, Measure) -> Option<&Histogram>| {
            self.counting().filter_map(|one| samples(one, measure)).cloned().reduce(pooled)
        };
        Survival::of(all(Repetition::samples).as_ref(), all(Repetition::unserved_samples).as_ref())
    }

    /// How long after a release its waiters heard of it, class of ranks by class: the medians over the repetitions that
    /// count, and how many notifications those had together. Empty where none was recorded.
    #[must_use]
    pub fn herd(&self) -> Vec<Woken> {
        let mut classes: BTreeMap<u32, Vec<&Woken>> = BTreeMap::new();
        for woken in self.counting().flat_map(|one| &one.herd) {
            classes.entry(woken.from_rank).or_default().push(woken);
        }
        let median = |all: &[&Woken], us: fn(&Woken) -> u64| {
            let spread = Spread::of(all.iter().map(|woken| us(woken) as f64));
            spread.map_or(0, |spread| spread.median.round() as u64)
        };
        let pooled = |all: Vec<&Woken>| Woken {
            count: all.iter().map(|woken| woken.count).sum(),
            p50_us: median(&all, |woken| woken.p50_us),
            p99_us: median(&all, |woken| woken.p99_us),
            ..*all[0]
        };
        classes.into_values().map(pooled).collect()
    }

    /// Requests per acquisition, kind by kind, of the repetition with the median total (or of the two in the middle, half
    /// of each), so that the kinds add up to the median that the table shows.
    pub fn requests(&self) -> Vec<(RequestKind, f64)> {
        let mut counting: Vec<(f64, &Repetition)> =
            self.counting().filter_map(|one| Some((one.requests_total()?, one))).collect();
        counting.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let Some(last) = counting.len().checked_sub(1) else { return Vec::new() };
        let middle = [counting[last / 2].1, counting[counting.len() / 2].1];
        let amount = |kind: RequestKind| {
            let of = |one: &Repetition| {
                one.requests.iter().find(|(other, _)| *other == kind).map_or(0.0, |(_, n)| *n)
            };
            middle.into_iter().map(of).sum::<f64>() / 2.0
        };
        let kinds = RequestKind::ALL.into_iter().map(|kind| (kind, amount(kind)));
        kinds.filter(|(_, amount)| *amount > 0.0).collect()
    }

    /// What its trials are judged as, all together. Trials whose figures do not count leave it unknown. A single contender
    /// has nobody to exclude, so there is no verdict on it.
    pub fn verdict(&self) -> Option<Verdict> {
        verdict(&self.repetitions.iter().collect::<Vec<_>>(), self.contenders)
    }

    /// The trials that count, as they were recorded.
    pub fn trials<'a>(&'a self, all: &'a [Trial]) -> impl Iterator<Item = &'a Trial> {
        self.counting().filter_map(|one| one.recorded(all))
    }

    /// Whether a promise was broken in any repetition.
    pub fn is_violated(&self) -> bool {
        self.repetitions.iter().any(Repetition::is_violated)
    }

    /// Why: what was judged of the first repetition in which one was.
    pub fn why_violated(&self) -> Option<String> {
        let first = self.repetitions.iter().find(|one| one.is_violated())?;
        first.judged.why.clone()
    }

    /// Contenders, and how many of them took part in the repetition with the fewest.
    pub fn took_part(&self) -> u64 {
        self.repetitions.iter().map(|one| one.took_part).min().unwrap_or(0)
    }

    pub fn sum(&self, count: impl Fn(&Repetition) -> u64) -> u64 {
        self.repetitions.iter().map(count).sum()
    }

    pub fn violations(&self) -> u64 {
        self.sum(|repetition| repetition.violations)
    }
}

/// One trial of a cell. What was not measured is `None` or empty, never 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Repetition {
    /// Position of the trial in the order of running, from 0.
    pub trial: usize,
    /// Repetition, from 1.
    pub number: u32,
    /// Acquisitions per second.
    pub throughput: Option<f64>,
    /// How long everything took where each contender acquires so often and is done, in microseconds; `None` for loads that
    /// last as long as they are told to.
    pub total_us: Option<u64>,
    /// Notifications caused by a release, per release.
    pub fan_out: Option<f64>,
    /// Requests per acquisition, kind by kind; kinds that were not used are left out.
    pub requests: Vec<(RequestKind, f64)>,
    /// Notifications delivered per acquisition.
    pub notifications: Option<f64>,
    /// Share of acquisitions that a later arrival was served before, between 0 and 1.
    pub overtaken: Option<f64>,
    /// How often each contender acquired the lock.
    pub turns: Vec<u64>,
    /// Jain's fairness index: 1 when all contenders got the same.
    pub fairness: Option<f64>,
    /// Readers inside at a time, on average.
    pub readers: Option<f64>,
    pub took_part: u64,
    /// Length of the measured phase, in microseconds.
    pub measured_us: u64,
    pub acquired: u64,
    pub timed_out: u64,
    pub saturated: u64,
    /// Samples of the waits that were served.
    pub wait: Option<Histogram>,
    /// Samples of those that ended without the lock, timed out or otherwise, or had not ended when the measured phase did:
    /// each lasted at least so long.
    pub unserved_wait: Option<Histogram>,
    /// Samples of other measures: the parts of the wait in an open load, the waits of readers and of writers, notifications.
    pub others: BTreeMap<Measure, Histogram>,
    /// What became of the arrivals of an open load; `None` for other loads.
    pub open: Option<OpenFigures>,
    pub handoff: Option<Histogram>,
    /// Samples of the acquires that no other contender delayed.
    pub uncontended: Option<Histogram>,
    /// How long after a release its waiters heard of it; empty where that was not recorded, or no waiter was woken.
    pub herd: Vec<Woken>,
    /// Acquisitions in the course of the measured phase.
    pub bins: Option<Bins>,
    /// Why the trial is invalid: the generator did not hold up.
    pub invalid: Option<String>,
    /// Why the trial is partial: it was cut short.
    pub partial: Option<String>,
    /// The longest standstill that the lock does not explain.
    pub standstill: Option<Standstill>,
    /// Leaders that the servers elected though no fault had hit them.
    pub elections: Vec<Election>,
    pub violations: u64,
    pub judged: Judged,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<Accounting>,
    /// Requests that failed, where nothing was broken on purpose.
    pub errors: Option<String>,
    /// What has to be said of connections without TCP_NODELAY.
    pub delayed: Option<String>,
    /// What was broken on purpose, and what followed; `None` when nothing was.
    pub broken: Option<Broken>,
}

impl Repetition {
    /// The trial as it was recorded, among all of its run.
    pub fn recorded<'a>(&self, all: &'a [Trial]) -> Option<&'a Trial> {
        all.iter().find(|trial| trial.spec.index == self.trial)
    }

    /// A trial of which nothing is known yet.
    pub fn unmeasured(trial: usize, number: u32) -> Self {
        Self {
            trial,
            number,
            throughput: None,
            total_us: None,
            fan_out: None,
            requests: Vec::new(),
            notifications: None,
            overtaken: None,
            turns: Vec::new(),
            fairness: None,
            readers: None,
            took_part: 0,
            measured_us: 0,
            acquired: 0,
            timed_out: 0,
            saturated: 0,
            wait: None,
            unserved_wait: None,
            others: BTreeMap::new(),
            open: None,
            handoff: None,
            uncontended: None,
            herd: Vec::new(),
            bins: None,
            invalid: None,
            partial: None,
            standstill: None,
            elections: Vec::new(),
            violations: 0,
            judged: Judged::none_yet(),
            accounting: Vec::new(),
            errors: None,
            delayed: None,
            broken: None,
        }
    }

    /// Whether its figures count: neither invalid nor partial. A violation does not change the figures.
    pub fn is_sound(&self) -> bool {
        self.unsound().is_none()
    }

    /// Why its figures don't count; `None` where they do.
    pub fn unsound(&self) -> Option<String> {
        let invalid = self.invalid.as_ref().map(|why| format!("invalid: {why}"));
        invalid.or_else(|| self.partial.as_ref().map(|why| format!("partial: {why}")))
    }

    /// All requests per acquisition; `None` when nothing was acquired.
    pub fn requests_total(&self) -> Option<f64> {
        (!self.requests.is_empty()).then(|| self.requests.iter().map(|(_, amount)| amount).sum())
    }

    /// How many waits were not served.
    pub fn unserved(&self) -> u64 {
        self.unserved_wait.as_ref().map_or(0, Histogram::len)
    }

    pub fn bins(&self) -> Option<&Bins> {
        self.bins.as_ref().filter(|bins| !bins.acquired.is_empty())
    }

    /// Samples of the waits that were not served, where that is what is measured.
    fn unserved_samples(&self, measure: Measure) -> Option<&Histogram> {
        self.unserved_wait.as_ref().filter(|_| measure == Measure::Wait)
    }

    /// Whether its queue grew, so that percentiles of its waits would only say how long the trial was.
    pub fn is_unstable(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.grows_per_s.is_some())
    }

    pub fn is_violated(&self) -> bool {
        matches!(self.judged.verdict, Verdict::Violated(_))
    }

    /// The samples of a measure, with the waits that were not served among the others.
    pub fn survival(&self, measure: Measure) -> Option<Survival> {
        Survival::of(self.samples(measure), self.unserved_samples(measure))
    }

    /// The samples of a measure.
    pub fn samples(&self, measure: Measure) -> Option<&Histogram> {
        match measure {
            Measure::Wait => self.wait.as_ref(),
            Measure::Handoff => self.handoff.as_ref(),
            Measure::Uncontended => self.uncontended.as_ref(),
            _ => self.others.get(&measure),
        }
    }
}

fn verdict(trials: &[&Repetition], contenders: usize) -> Option<Verdict> {
    let verdict = trials.iter().map(|one| one.judged.verdict.clone()).reduce(Verdict::and)?;
    match verdict {
        Verdict::Violated(_) => Some(verdict),
        _ if contenders < 2 => None,
        Verdict::Held | Verdict::Unknown(_) => Some(verdict),
    }
}

/// What these trials are judged as in a word: `VIOLATED`, `held` or `unknown`.
pub(super) fn verdict_word(trials: &[&Repetition], contenders: usize) -> Option<&'static str> {
    let verdict = verdict(trials, contenders)?;
    Some(if matches!(verdict, Verdict::Violated(_)) { "VIOLATED" } else { verdict.word() })
}

/// The faults of one trial and what followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// The faults in the order of firing.
    pub faults: Vec<Fault>,
    /// Exclusion as the ensemble saw it; `None` where it told nothing.
    pub order: Option<EntryOrder>,
    /// Entries beside a contender whose session was suspended or gone.
    pub zombies: u64,
    /// The longest time for which one of those was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
    /// Entries beside another of which it can't be judged whether it still held.
    pub uncertain: u64,
    /// Each contender that was not served though nothing was broken any more, in words.
    pub stuck: Vec<String>,
    /// Ephemeral nodes left when all had released; `None` when the ensemble could not be asked.
    pub orphans: Option<u64>,
    pub sessions_lost: u64,
    /// Locks lost while they were held.
    pub holds_lost: u64,
    /// Waits that ended with the session or its connection.
    pub waits_lost: u64,
    /// Writes of a holder after another had entered.
    pub stale_writes: u64,
    /// Of those, the ones turned away by their fencing token.
    pub stale_rejected: u64,
}

/// Entries, compared with when the ensemble deleted the node of the holder before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryOrder {
    pub compared: u64,
    /// Those before the deletion: by the servers' clock or by their transactions, whichever tells more.
    pub too_early: u64,
}

impl EntryOrder {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { compared: self.compared + other.compared, too_early: self.too_early + other.too_early }
    }
}

/// One fault. Times are microseconds since the measured phase began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fault {
    /// Its place in the order of firing, from 1.
    pub number: usize,
    /// Kind, target and parameters, as the scenario says them.
    pub label: String,
    pub target: String,
    pub asked_us: i64,
    pub ended_us: Option<i64>,
    /// Why its effect was not seen; `None` when it was.
    pub unproved: Option<String>,
    /// Why it could not be undone; `None` when it could.
    pub left: Option<String>,
    /// From when it was asked for to the first sight of a newly elected leader; `None` when there was none.
    pub elected_us: Option<u64>,
    /// The longest time between two acquisitions around it; `None` when there was none worth the name.
    pub longest_gap_us: Option<u64>,
    /// From when its effect was seen to the next acquisition; `None` when none followed.
    pub recovered_us: Option<u64>,
}
