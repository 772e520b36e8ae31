//! One trial as the renderers see it.

use super::accounting_line::AccountingLine;
use super::broken::Broken;
use crate::measure::{Histogram, Measure, RequestKind};
use crate::verdict::Verdict;

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
