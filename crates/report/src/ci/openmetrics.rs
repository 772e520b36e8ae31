//! OpenMetrics text for Prometheus and compatible tools: a file at the end of a run, or `/metrics` during a
//! run.
//!
//! Names and units follow the OpenMetrics specification: times in seconds, units at the end of names, and
//! `_total` at the end of counters.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::remote_write::Series;
use super::{CiReport, TrackedValue, clean, tracked};
use zklockbench_record::{Figure, Trial, Unit};

/// Content type for clients that accept OpenMetrics.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of [`plain`] text for other clients.
pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Renders the file at the end of a run.
pub fn render(document: &CiReport) -> String {
    families(document).text()
}

/// Returns the samples of [`render`], for remote write.
pub fn series(document: &CiReport) -> Vec<Series> {
    families(document).series()
}

fn families(document: &CiReport) -> Families {
    let mut families = Families::default();
    let label_name = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let facts = document.facts.iter().map(|(name, value)| (label_name(name), value.clone()));
    families.gauge(RUN_INFO, "The run and its environment", facts.collect(), 1.0);
    families.run(document.began, document.took, "Duration of the run");
    for check in &document.checks {
        for word in ["held", "violated", "unknown"] {
            let labels = labels([("kind", check.kind.name()), ("check", &check.name), ("verdict", word)]);
            let is = f64::from(u8::from(check.verdict.word() == word));
            families.gauge(("check", ""), "1 if the check had this verdict, else 0", labels, is);
        }
    }
    for cell in &document.cells {
        let labels = of_cell(&cell.strategy, cell.contenders);
        families.counter(ACQUISITIONS, labels.clone(), cell.totals.acquired);
        families.counter(TIMED_OUT, labels.clone(), cell.totals.timed_out);
        families.counter(UNSERVED, labels.clone(), cell.totals.unserved);
        families.counter(VIOLATIONS, labels.clone(), cell.totals.violations);
        for TrackedValue { figure: which, over } in cell.plain() {
            let each = [("median", over.median), ("smallest", over.min), ("largest", over.max)].into_iter();
            let ends = over.interval.map(|one| [("interval_low", one.low), ("interval_high", one.high)]);
            for (aggregate, value) in each.chain(ends.into_iter().flatten()) {
                figure(&mut families, *which, value, aggregate, labels.clone());
            }
        }
    }
    families
}

/// Converts OpenMetrics text to the older Prometheus text format, which has neither units nor an EOF marker.
/// The metadata of a counter uses the name of its samples, which ends in `_total`.
pub fn plain(text: &str) -> String {
    let counters: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
    let mut plain = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        match line.splitn(4, ' ').collect::<Vec<_>>().as_slice() {
            ["#", kind, name, rest] if counters.contains(name) => {
                plain += &format!("# {kind} {name}_total {rest}\n");
            }
            _ => plain.extend([line, "\n"]),
        }
    }
    plain
}

const PREFIX: &str = "zklockbench";
/// Facts are labels of a gauge with the value 1, because Pushgateway and node_exporter reject the info type of
/// OpenMetrics.
const RUN_INFO: (&str, &str) = ("run_info", "");

const TIMED_OUT: (&str, &str) = ("timed_out", "Acquires that timed out, over all repetitions");
const UNSERVED: (&str, &str) =
    ("unserved", "Waits that ended without the lock or had not ended, over all repetitions");
const ACQUISITIONS: (&str, &str) = ("acquisitions", "Locks acquired, over all repetitions");
const VIOLATIONS: (&str, &str) = ("violations", "Violations found, over all repetitions");

/// Adds a metric in base units. Latency metrics have their statistic as a label.
fn figure(families: &mut Families, figure: Figure, value: f64, aggregate: &str, mut labels: Labels) {
    let mut name = figure.to_string();
    if let Figure::Latency(measure, statistic) = figure {
        name = measure.name();
        labels.push(("statistic".into(), statistic.to_string()));
    }
    labels.push(("aggregate".into(), aggregate.to_owned()));
    let (unit, value) = match figure.unit() {
        Unit::Micros => ("seconds", value / 1e6),
        Unit::PerSecond => ("per_second", value),
        Unit::Share => ("ratio", value),
        // The names of metrics in bytes already contain `bytes`.
        Unit::Amount | Unit::Bytes => ("", value),
    };
    let help = "The aggregate label identifies the statistic over the repetitions";
    families.gauge((&name, unit), help, labels, value);
}

fn of_cell(strategy: &str, contenders: usize) -> Labels {
    labels([("strategy", strategy), ("contenders", &contenders.to_string())])
}

type Labels = Vec<(String, String)>;

fn labels<const N: usize>(all: [(&str, &str); N]) -> Labels {
    all.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Metric families of an exposition, in order of first use.
#[derive(Debug, Default)]
struct Families(Vec<MetricFamily>);

#[derive(Debug)]
struct MetricFamily {
    name: String,
    /// Unit, appended to the name; may be empty.
    unit: &'static str,
    help: &'static str,
    is_counter: bool,
    samples: Vec<(Labels, f64)>,
}

impl MetricFamily {
    fn sample_name(&self) -> String {
        format!("{}{}", self.name, if self.is_counter { "_total" } else { "" })
    }
}

impl Families {
    fn run(&mut self, began: SystemTime, lasts: Duration, help: &'static str) {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.gauge(("run_started_timestamp", "seconds"), "Start time of the run", Vec::new(), began);
        self.gauge(("run_duration", "seconds"), help, Vec::new(), lasts.as_secs_f64());
    }

    /// Adds a value by name and unit (which may be empty), unless it is not finite.
    fn gauge(&mut self, (name, unit): (&str, &'static str), help: &'static str, labels: Labels, value: f64) {
        if value.is_finite() {
            let gap = if unit.is_empty() { "" } else { "_" };
            let name = format!("{PREFIX}_{name}{gap}{unit}");
            self.add(MetricFamily { name, unit, help, is_counter: false, samples: vec![(labels, value)] });
        }
    }

    fn counter(&mut self, (name, help): (&str, &'static str), labels: Labels, count: u64) {
        let (name, samples) = (format!("{PREFIX}_{name}"), vec![(labels, count as f64)]);
        self.add(MetricFamily { name, unit: "", help, is_counter: true, samples });
    }

    fn add(&mut self, more: MetricFamily) {
        match self.0.iter_mut().find(|family| family.name == more.name) {
            Some(family) => family.samples.extend(more.samples),
            None => self.0.push(more),
        }
    }

    fn series(self) -> Vec<Series> {
        let of_family = |family: MetricFamily| {
            let name = labels([("__name__", &family.sample_name())]);
            family.samples.into_iter().map(move |(labels, value)| ([labels, name.clone()].concat(), value))
        };
        self.0.into_iter().flat_map(of_family).collect()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for family in &self.0 {
            let MetricFamily { name, unit, help, is_counter, samples } = family;
            let kind = if *is_counter { "counter" } else { "gauge" };
            text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
            if !unit.is_empty() {
                text += &format!("# UNIT {name} {unit}\n");
            }
            for (labels, value) in samples {
                let labels: Vec<String> = labels.iter().map(label).collect();
                let value = if *is_counter { format!("{value}") } else { format!("{value:?}") };
                text += &format!("{}{{{}}} {value}\n", family.sample_name(), labels.join(","));
            }
        }
        // Parsers reject text without the EOF marker.
        text + "# EOF\n"
    }
}

fn label((name, value): &(String, String)) -> String {
    let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    format!("{name}=\"{value}\"")
}

/// State of a run in progress for `/metrics`: the current trial, and the results of the trials so far.
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

/// Results so far of one strategy at one contender count.
#[derive(Debug, Clone, Default, PartialEq)]
struct SoFar {
    /// Number of completed trials by verdict.
    ended: BTreeMap<&'static str, u64>,
    acquired: u64,
    violations: u64,
    last: Vec<(Figure, f64)>,
}

impl Live {
    /// Creates the state of a run before its first trial.
    pub fn new(scenario: &str, began: SystemTime, planned: usize) -> Self {
        Self { scenario: clean(scenario), began, planned, under_way: None, cells: BTreeMap::new() }
    }

    pub fn more_planned(&mut self, trials: usize) {
        self.planned += trials;
    }

    /// Removes a planned trial that a resumed run already has.
    pub fn already_there(&mut self) {
        self.planned = self.planned.saturating_sub(1);
    }

    pub fn trial_begins(&mut self, strategy: &str, contenders: usize, repetition: u32) {
        let (strategy, phase) = (clean(strategy), "connect".to_owned());
        self.under_way = Some(UnderWay { strategy, contenders, repetition, phase, acquired: 0 });
    }

    pub fn phase(&mut self, name: &str) {
        if let Some(trial) = &mut self.under_way {
            trial.phase = clean(name);
        }
    }

    pub fn acquired(&mut self, acquired: u64) {
        if let Some(trial) = &mut self.under_way {
            trial.acquired = trial.acquired.max(acquired);
        }
    }

    pub fn trial_ended(&mut self, trial: &Trial) {
        let seen = self.under_way.take().map_or(0, |under_way| under_way.acquired);
        let key = (clean(&trial.spec.strategy.label), trial.spec.contenders);
        let so_far = self.cells.entry(key).or_default();
        *so_far.ended.entry(trial.judged.verdict.word()).or_default() += 1;
        // Counters must not decrease, so acquisitions that were already reported stay counted.
        so_far.acquired += trial.whole.acquired().max(seen);
        so_far.violations += trial.violation_count;
        let readings = tracked().filter_map(|figure| Some((figure, trial.reading(figure).ok()?)));
        so_far.last =
            readings.filter(|(_, one)| !one.at_least).map(|(figure, one)| (figure, one.value)).collect();
    }

    pub fn render(&self, now: SystemTime) -> String {
        let mut families = Families::default();
        let facts = labels([("scenario", &self.scenario), ("version", env!("CARGO_PKG_VERSION"))]);
        families.gauge(RUN_INFO, "The run in progress", facts, 1.0);
        let lasts = now.duration_since(self.began).unwrap_or_default();
        families.run(self.began, lasts, "Time since the start of the run");
        families.gauge(("trials_planned", ""), "Trials planned so far", Vec::new(), self.planned as f64);
        let mut cells = self.cells.clone();
        if let Some(UnderWay { strategy, contenders, repetition, phase, acquired }) = &self.under_way {
            cells.entry((strategy.clone(), *contenders)).or_default().acquired += acquired;
            let trial = labels([("repetition", &repetition.to_string()), ("phase", phase)]);
            let trial = [of_cell(strategy, *contenders), trial].concat();
            families.gauge(("trial_under_way", ""), "1 for the trial in progress", trial, 1.0);
        }
        for ((strategy, contenders), so_far) in cells {
            let cell = of_cell(&strategy, contenders);
            families.counter(ACQUISITIONS, cell.clone(), so_far.acquired);
            families.counter(VIOLATIONS, cell.clone(), so_far.violations);
            for (verdict, count) in so_far.ended {
                let ended = [cell.clone(), labels([("verdict", verdict)])].concat();
                families.counter(("trials", "Completed trials by verdict"), ended, count);
            }
            for (which, value) in so_far.last {
                figure(&mut families, which, value, "last", cell.clone());
            }
        }
        families.text()
    }
}
