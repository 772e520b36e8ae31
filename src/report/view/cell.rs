//! One strategy at one contender count, over all its repetitions, and all that a table or chart may say of each.

use crate::measure::{Histogram, Measure, RequestKind};
use crate::verdict::Verdict;

/// One strategy at one contender count.
///
/// Figures are taken over the sound repetitions. Where there is none, they are taken over all, and
/// [`Cell::is_sound`] says so: a renderer then marks the figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// Position in [`super::View::strategies`].
    pub strategy: usize,
    /// Contenders, one session each.
    pub contenders: usize,
    /// The repetitions, in order.
    pub repetitions: Vec<Repetition>,
}

/// The middle and the ends of what the repetitions gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// How many repetitions gave a value.
    pub count: usize,
}

impl Spread {
    /// The spread of these values; `None` when there is none.
    #[must_use]
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

impl Cell {
    /// Whether at least one repetition is neither invalid nor partial.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.repetitions.iter().any(Repetition::is_sound)
    }

    /// The repetitions whose figures count: the sound ones or, where there is none, all.
    pub fn counting(&self) -> impl Iterator<Item = &Repetition> {
        let any_sound = self.is_sound();
        self.repetitions.iter().filter(move |repetition| repetition.is_sound() || !any_sound)
    }

    /// The spread of a figure over the repetitions that count; `None` when none measured it.
    #[must_use]
    pub fn spread(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.counting().filter_map(figure))
    }

    /// The median of a figure over the repetitions that count.
    #[must_use]
    pub fn median(&self, figure: impl Fn(&Repetition) -> Option<f64>) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// Whether a repetition that counts has samples of that measure.
    #[must_use]
    pub fn has_samples(&self, measure: Measure) -> bool {
        self.counting().any(|one| one.samples(measure).is_some_and(|samples| !samples.is_empty()))
    }

    /// All samples of the repetitions that count, in one histogram; `None` when there is no sample.
    #[must_use]
    pub fn merged(&self, measure: Measure) -> Option<Histogram> {
        let mut samples = self.counting().filter_map(|repetition| repetition.samples(measure));
        let mut all = samples.next()?.clone();
        for more in samples {
            // All histograms of the suite share their bounds, so this cannot fail; were it to, the rest
            // would still be a true sample.
            let _ = all.add(more);
        }
        (!all.is_empty()).then_some(all)
    }

    /// Requests per acquisition, kind by kind: for each kind the mean over the repetitions that count, so
    /// that the kinds add up to the total.
    #[must_use]
    pub fn requests(&self) -> Vec<(RequestKind, f64)> {
        let counting: Vec<&Repetition> = self.counting().filter(|r| !r.requests.is_empty()).collect();
        let mean = |kind: RequestKind| {
            let all = counting.iter().flat_map(|repetition| &repetition.requests);
            all.filter(|(other, _)| *other == kind).map(|(_, amount)| amount).sum::<f64>()
                / counting.len() as f64
        };
        let kinds = RequestKind::ALL.into_iter().map(|kind| (kind, mean(kind)));
        kinds.filter(|(_, amount)| *amount > 0.0).collect()
    }

    /// Acquisitions in each second: the median over the repetitions that count and lasted that long.
    #[must_use]
    pub fn per_second(&self) -> Vec<f64> {
        let longest = self.counting().map(|repetition| repetition.per_second.len()).max().unwrap_or(0);
        let second = |at: usize| {
            Spread::of(self.counting().filter_map(|r| r.per_second.get(at)).map(|&count| count as f64))
        };
        (0..longest).filter_map(|at| second(at).map(|spread| spread.median)).collect()
    }

    /// Violations found in all repetitions.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.repetitions.iter().map(|repetition| repetition.violations).sum()
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
    /// Notifications caused by a release, per release.
    pub fan_out: Option<f64>,
    /// Requests per acquisition, kind by kind; kinds that were not used are left out.
    pub requests: Vec<(RequestKind, f64)>,
    /// Notifications delivered per acquisition.
    pub notifications: Option<f64>,
    /// Share of acquisitions that a later arrival was served before, between 0 and 1.
    pub overtaken: Option<f64>,
    /// Jain's fairness index: 1 when all contenders got the same.
    pub fairness: Option<f64>,
    /// Readers inside at a time, on average.
    pub readers: Option<f64>,
    /// Samples of the wait.
    pub wait: Option<Histogram>,
    /// Samples of the handoff.
    pub handoff: Option<Histogram>,
    /// Acquisitions in each full second of the measured phase.
    pub per_second: Vec<u64>,
    /// Why the trial is invalid: the generator did not hold up.
    pub invalid: Option<String>,
    /// Why the trial is partial: it was cut short.
    pub partial: Option<String>,
    /// Violations found.
    pub violations: u64,
    /// The first violation in words.
    pub first_violation: Option<String>,
    /// Whether the lock excluded.
    pub verdict: Verdict,
    /// Client, cost model and servers side by side.
    pub accounting: Vec<AccountingLine>,
    /// What was broken on purpose, and what followed; `None` when nothing was.
    pub broken: Option<Broken>,
}

impl Repetition {
    /// A trial of which nothing is known yet.
    #[must_use]
    pub fn unmeasured(trial: usize, number: u32) -> Self {
        Self {
            trial,
            number,
            throughput: None,
            fan_out: None,
            requests: Vec::new(),
            notifications: None,
            overtaken: None,
            fairness: None,
            readers: None,
            wait: None,
            handoff: None,
            per_second: Vec::new(),
            invalid: None,
            partial: None,
            violations: 0,
            first_violation: None,
            verdict: Verdict::Unknown(Vec::new()),
            accounting: Vec::new(),
            broken: None,
        }
    }

    /// Whether its figures count: neither invalid nor partial. A violation does not change the figures.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.invalid.is_none() && self.partial.is_none()
    }

    /// All requests per acquisition; `None` when nothing was acquired.
    #[must_use]
    pub fn requests_total(&self) -> Option<f64> {
        (!self.requests.is_empty()).then(|| self.requests.iter().map(|(_, amount)| amount).sum())
    }

    /// The samples of wait or handoff; `None` for every other measure.
    #[must_use]
    pub fn samples(&self, measure: Measure) -> Option<&Histogram> {
        match measure {
            Measure::Wait => self.wait.as_ref(),
            Measure::Handoff => self.handoff.as_ref(),
            _ => None,
        }
    }
}

/// `VIOLATED`, `held` or `unknown`. Trials whose figures do not count leave it unknown. A single contender has
/// nobody to exclude, so there is no verdict on it.
#[must_use]
pub fn verdict_word(trials: &[&Repetition], contenders: usize) -> Option<&'static str> {
    let verdict = trials.iter().map(|one| one.verdict.clone()).reduce(Verdict::and)?;
    match verdict {
        Verdict::Violated(_) => Some("VIOLATED"),
        _ if trials.iter().any(|one| one.violations > 0) => Some("VIOLATED"),
        _ if contenders < 2 => None,
        Verdict::Held if trials.iter().all(|one| one.is_sound()) => Some("held"),
        _ => Some("unknown"),
    }
}

/// One line of the three-way check of one trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountingLine {
    /// What is counted.
    pub what: String,
    /// As the client counted it.
    pub client: Option<u64>,
    /// As the cost model predicts it.
    pub expected: Option<u64>,
    /// As the servers counted it.
    pub servers: Option<u64>,
    /// Whether the numbers that are there agree; `None` when there is only one.
    pub agrees: Option<bool>,
}

/// The faults of one trial and what followed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// The faults in the order of firing.
    pub faults: Vec<Fault>,
    /// Exclusion as the ensemble saw it; `None` where it told nothing.
    pub order: Option<Order>,
    /// Entries beside a contender whose session was suspended or gone.
    pub zombies: u64,
    /// The longest time for which one of those was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
    /// Entries beside another of which nobody can judge whether it still held.
    pub uncertain: u64,
    /// Each contender that was not served though nothing was broken any more, in words.
    pub stuck: Vec<String>,
    /// Ephemeral nodes left when all had released; `None` when the ensemble could not be asked.
    pub orphans: Option<u64>,
    /// Sessions that expired.
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
pub struct Order {
    /// Those that could be compared.
    pub compared: u64,
    /// Those before the deletion: by the servers' clock or by their transactions, whichever tells more.
    pub too_early: u64,
}

impl Order {
    /// Both together.
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
    /// Whom it hit.
    pub target: String,
    /// When it was asked for.
    pub asked_us: i64,
    /// When it was undone.
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
