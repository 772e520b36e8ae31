//! A run under way, as `/metrics` tells it: what the progress bar knows, and what the trials came to so far.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::document::clean;
use super::openmetrics::{ACQUISITIONS, Families, VIOLATIONS, figure, of_cell};
use super::tracked;
use crate::results::record::{Figure, Trial};

#[derive(Debug, Clone, PartialEq)]
pub struct Live {
    scenario: String,
    began: SystemTime,
    planned: usize,
    under_way: Option<UnderWay>,
    cells: BTreeMap<(String, usize), SoFar>,
}

#[derive(Debug, Clone, PartialEq)]
struct UnderWay {
    strategy: String,
    contenders: usize,
    repetition: u32,
    phase: String,
    acquired: u64,
}

/// What the trials of one strategy at one number of contenders came to so far.
#[derive(Debug, Clone, Default, PartialEq)]
struct SoFar {
    /// Trials that ended, by the word of their verdict.
    ended: BTreeMap<&'static str, u64>,
    acquired: u64,
    violations: u64,
    last: Vec<(Figure, f64)>,
}

impl Live {
    /// A run of that scenario of which no trial has begun.
    pub fn new(scenario: &str, began: SystemTime, planned: usize) -> Self {
        Self { scenario: clean(scenario), began, planned, under_way: None, cells: BTreeMap::new() }
    }

    pub fn more_planned(&mut self, trials: usize) {
        self.planned += trials;
    }

    pub fn trial_begins(&mut self, strategy: &str, contenders: usize, repetition: u32) {
        let (strategy, phase) = (clean(strategy), "connect".to_owned());
        self.under_way = Some(UnderWay { strategy, contenders, repetition, phase, acquired: 0 });
    }

    pub fn phase(&mut self, name: &str) {
        if let Some(under_way) = &mut self.under_way {
            under_way.phase = clean(name);
        }
    }

    pub fn acquired(&mut self, acquired: u64) {
        if let Some(under_way) = &mut self.under_way {
            under_way.acquired = under_way.acquired.max(acquired);
        }
    }

    pub fn trial_ended(&mut self, trial: &Trial) {
        let seen = self.under_way.take().map_or(0, |under_way| under_way.acquired);
        let key = (clean(&trial.spec.strategy.label), trial.spec.contenders);
        let so_far = self.cells.entry(key).or_default();
        *so_far.ended.entry(trial.judged.verdict.word()).or_default() += 1;
        // What was told once is not taken back.
        so_far.acquired += trial.whole.acquired().max(seen);
        so_far.violations += trial.violation_count;
        let readings = tracked().filter_map(|figure| Some((figure, figure.of(trial).ok()?)));
        so_far.last =
            readings.filter(|(_, one)| !one.at_least).map(|(figure, one)| (figure, one.value)).collect();
    }

    pub fn render(&self, now: SystemTime) -> String {
        let mut families = Families::default();
        let facts = [("scenario", self.scenario.as_str()), ("version", env!("CARGO_PKG_VERSION"))];
        families.info(
            "run",
            "The run under way",
            facts.map(|(name, value)| (name.into(), value.into())).into(),
        );
        let seconds = |time: Duration| time.as_secs_f64();
        let began = seconds(self.began.duration_since(UNIX_EPOCH).unwrap_or_default());
        let lasts = seconds(now.duration_since(self.began).unwrap_or_default());
        families.gauge(("run_started_timestamp", "seconds"), "When the run began", Vec::new(), began);
        families.gauge(("run_duration", "seconds"), "For how long it has been under way", Vec::new(), lasts);
        let planned = self.planned as f64;
        families.gauge(("trials_planned", ""), "Trials planned by now", Vec::new(), planned);
        if let Some(UnderWay { strategy, contenders, repetition, phase, .. }) = &self.under_way {
            let mut labels = of_cell(strategy, *contenders);
            labels.extend([("repetition".into(), repetition.to_string()), ("phase".into(), phase.clone())]);
            families.gauge(("trial_under_way", ""), "1 for the trial that is under way", labels, 1.0);
        }
        for ((strategy, contenders), so_far) in &self.with_under_way() {
            so_far.tell(&mut families, strategy, *contenders);
        }
        families.encode()
    }

    /// The counts with those of the trial under way.
    fn with_under_way(&self) -> BTreeMap<(String, usize), SoFar> {
        let mut cells = self.cells.clone();
        if let Some(now) = &self.under_way {
            cells.entry((now.strategy.clone(), now.contenders)).or_default().acquired += now.acquired;
        }
        cells
    }
}

impl SoFar {
    fn tell(&self, families: &mut Families, strategy: &str, contenders: usize) {
        let labels = of_cell(strategy, contenders);
        families.counter(ACQUISITIONS.0, ACQUISITIONS.1, labels.clone(), self.acquired);
        families.counter(VIOLATIONS.0, VIOLATIONS.1, labels.clone(), self.violations);
        for (verdict, count) in &self.ended {
            let mut labels = labels.clone();
            labels.push(("verdict".into(), (*verdict).to_owned()));
            families.counter("trials", "Trials that ended, by what they were judged as", labels, *count);
        }
        for (which, value) in &self.last {
            figure(families, *which, *value, "last", labels.clone());
        }
    }
}
