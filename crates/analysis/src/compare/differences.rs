//! Differences between the sides other than the measured metrics. Some differences make a comparison
//! meaningless.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::judge::{Compared, Regression};
use super::side::{CellUnderLoad, Loaded, Side, unsound_because};
use zklockbench_core::units::{counted, distinct, format_micros, percent, shown};
use zklockbench_record::figures::THROUGHPUT;
use zklockbench_record::{EnsembleInfo, Figure, Floor, LIMITED, OTHERS, Run, Timing, Trial};
use zklockbench_stats::median;

type Share = fn(&Trial) -> Option<f64>;

/// Shares of metrics that are due to the load generator itself.
const SHARES: [(&str, Share); 2] = [
    ("the share of a handoff that is the load generator's own lag", |trial| trial.health.lag_share),
    ("the share by which locks were held longer than intended", |trial| trial.health.hold_overshoot_share),
];

const PART_OF_MARGIN: f64 = 0.5;
/// Smallest difference in shares to report.
const APART: f64 = 0.05;

/// The generator's share of a metric on both sides, over the valid trials of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ShareApart {
    pub what: &'static str,
    pub base: f64,
    pub new: f64,
}

pub(super) fn shares(base: &[&Trial], new: &[&Trial]) -> Vec<ShareApart> {
    let of = |trials: &[&Trial], share: Share| {
        let sound = trials.iter().filter(|trial| trial.is_sound());
        median(&sound.filter_map(|trial| share(trial)).collect::<Vec<_>>())
    };
    let apart = |(what, share)| Some(ShareApart { what, base: of(base, share)?, new: of(new, share)? });
    SHARES.into_iter().filter_map(apart).collect()
}

impl ShareApart {
    pub fn is_told(&self) -> bool {
        (self.new - self.base).abs() > APART
    }

    pub fn told(&self) -> [String; 2] {
        [self.base, self.new].map(percent)
    }
}

/// Makes a regression inconclusive if the growth of the generator's share may explain it.
pub(super) fn unless_generator(shares: &[ShareApart], found: Compared) -> Compared {
    let Some(margin) = found.margin.filter(|_| found.regression == Regression::Yes) else { return found };
    let grew = shares.iter().find(|share| share.new - share.base > PART_OF_MARGIN * margin);
    let Some(grew) = grew else { return found };
    let [was, is] = grew.told();
    found.inconclusive(format!(
        "{} rose from {was} to {is}, more than half of the margin; compare again with fewer contenders or more \
         generator threads",
        grew.what
    ))
}

/// A fact that differs between the sides, or between the runs of a side.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Name of the fact.
    pub what: String,
    /// Value on the base side; several values if its runs differ.
    pub base: String,
    /// Value on the new side.
    pub new: String,
    /// Whether the difference makes the comparison meaningless, such as a different load or machine.
    pub meaningless: bool,
    /// Whether the difference concerns the servers: their number or configuration.
    pub of_servers: bool,
}

impl Difference {
    /// Creates a difference between measured values, which never match exactly.
    fn measured(what: &str, [base, new]: [String; 2]) -> Self {
        Self { what: what.into(), base, new, meaningless: false, of_servers: false }
    }

    pub fn describe(&self) -> String {
        format!("{}: {} against {}", self.what, self.base, self.new)
    }
}

/// A fact about runs or cells: its name, its value in each run or cell, and whether the values must match.
struct ComparedFact {
    what: String,
    values: Vec<String>,
    must_agree: bool,
    of_servers: bool,
}

impl ComparedFact {
    fn stated(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), values: vec![value.into()], must_agree: false, of_servers: false }
    }

    fn of_servers(self) -> Self {
        Self { of_servers: true, ..self }
    }

    fn needed(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { must_agree: true, ..Self::stated(what, value) }
    }
}

/// Returns all differences, starting with those that make the comparison meaningless.
pub fn differences(base: &Side, new: &Side) -> Vec<Difference> {
    let mut found: Vec<Difference> = same_run(base, new).into_iter().collect();
    found.extend(apart(facts(base), facts(new)));
    found.extend(of_cells(base, new));
    found.extend(floors(base, new));
    found.extend(generators(base, new));
    found.sort_by_key(|difference| !difference.meaningless);
    found
}

/// Detects a run that is on both sides: comparing a run with itself proves nothing.
fn same_run(base: &Side, new: &Side) -> Option<Difference> {
    let both = base.runs.iter().find_map(|one| {
        let is_same = |other: &&Loaded| other.stored.run.digest == one.stored.run.digest;
        Some((one, new.runs.iter().find(is_same)?))
    });
    both.map(|(one, other)| Difference {
        what: "the same run is on both sides".into(),
        base: one.path.display().to_string(),
        new: other.path.display().to_string(),
        meaningless: true,
        of_servers: false,
    })
}

/// Merges facts with the same name, keeping their order and all distinct values.
fn collected(facts: Vec<ComparedFact>) -> Vec<ComparedFact> {
    let mut all: Vec<ComparedFact> = Vec::new();
    for fact in facts {
        match all.iter_mut().find(|one| one.what == fact.what) {
            Some(one) => one.values.extend(fact.values),
            None => all.push(fact),
        }
    }
    for one in &mut all {
        one.values.sort();
        one.values.dedup();
    }
    all
}

fn apart(base: Vec<ComparedFact>, new: Vec<ComparedFact>) -> Vec<Difference> {
    const MOST: usize = 120;
    let (base, new) = (collected(base), collected(new));
    let find = |what: &str, all: &[ComparedFact]| all.iter().position(|one| one.what == what);
    let only_new = new.iter().filter(|one| find(&one.what, &base).is_none());
    let difference = |one: &ComparedFact| {
        let of = |all: &[ComparedFact]| find(&one.what, all).map_or(Vec::new(), |at| all[at].values.clone());
        // A fact that one side cannot know, such as the storage of remote servers, need not match.
        let needed = |all: &[ComparedFact]| find(&one.what, all).is_none_or(|at| all[at].must_agree);
        let must_agree = needed(&base) && needed(&new);
        let (was, is) = (of(&base), of(&new));
        let text = |values: &[String]| match values {
            [] => "none".to_owned(),
            some => shown(&some.join(" and "), MOST),
        };
        let differs = was != is || must_agree && was.len() > 1;
        differs.then(|| Difference {
            what: shown(&one.what, MOST),
            base: text(&was),
            new: text(&is),
            meaningless: must_agree,
            of_servers: one.of_servers,
        })
    };
    base.iter().chain(only_new).filter_map(difference).collect()
}

fn facts(side: &Side) -> Vec<ComparedFact> {
    side.runs.iter().flat_map(|run| of_run(&run.stored.run.run)).collect()
}

/// Returns the differences in host, ensemble, program and settings between two parts of one run.
pub fn between_parts(earlier: &Run, later: &Run) -> Vec<Difference> {
    let mut found = apart(of_run(earlier), of_run(later));
    if could_be_same(&earlier.ensemble, &later.ensemble) {
        found.retain(|difference| difference.what != ZOOKEEPER);
    }
    found
}

const ZOOKEEPER: &str = "ZooKeeper";

/// Returns whether the versions may differ only because a server did not report its version.
fn could_be_same(one: &EnsembleInfo, other: &EnsembleInfo) -> bool {
    let known = |ensemble: &EnsembleInfo| -> (BTreeSet<String>, bool) {
        let (known, unknown): (Vec<_>, Vec<_>) = ensemble
            .versions()
            .into_iter()
            .map(str::to_owned)
            .partition(|version| version != EnsembleInfo::NOT_KNOWN);
        (known.into_iter().collect(), !unknown.is_empty())
    };
    let ((one, one_has_gaps), (other, other_has_gaps)) = (known(one), known(other));
    (one_has_gaps && one.is_subset(&other)) || (other_has_gaps && other.is_subset(&one))
}

fn of_run(run: &Run) -> Vec<ComparedFact> {
    let (host, ensemble) = (&run.host, &run.ensemble);
    let yes_or_no = |is: bool| if is { "yes" } else { "no" };
    let mut facts = vec![
        ComparedFact::needed("processors", format!("{} x {}", host.cores, host.cpu)),
        ComparedFact {
            must_agree: ensemble.shares_host,
            ..ComparedFact::stated("data", without_path(&ensemble.placement)).of_servers()
        },
        ComparedFact::stated("ensemble", ensemble.kind.as_str()).of_servers(),
        ComparedFact::needed("ensemble on the generator's host", yes_or_no(ensemble.shares_host))
            .of_servers(),
        ComparedFact::stated("servers", ensemble.servers.len().to_string()).of_servers(),
        ComparedFact::stated(ZOOKEEPER, ensemble.versions().join(" and ")).of_servers(),
        ComparedFact::stated("servers started cold", yes_or_no(ensemble.starts_cold)).of_servers(),
        ComparedFact::stated("host", host.hostname.as_str()),
        ComparedFact::stated("operating system", format!("{}, kernel {}", host.os, host.kernel)),
        ComparedFact::stated("scenario", run.scenario.as_str()),
        ComparedFact::stated("overrides", listed(&run.overrides)),
        ComparedFact::stated("generator threads", run.generator_threads.to_string()),
        ComparedFact::stated("seed", run.seed.to_string()),
        ComparedFact::stated(
            "version of the program",
            format!("{} {}", run.tool_version, run.tool_commit.as_deref().unwrap_or("of unknown commit")),
        ),
    ];
    // A run of an older version may have replayed the same file without recording its hash.
    facts.extend(
        run.replayed.as_ref().map(|file| ComparedFact::needed("replayed arrivals (SHA-256)", &*file.sha256)),
    );
    facts.push(ComparedFact::needed(LIMITED, ensemble.load_limit().unwrap_or("no rate")));
    let configured = ensemble.config.iter().filter(|(key, _)| key != LIMITED && key != OTHERS);
    let configured = configured.map(|(key, value)| {
        let fact = ComparedFact::stated(format!("server configuration, {key}"), value.as_str());
        if says_where(key) { fact } else { fact.of_servers() }
    });
    facts.extend(configured);
    facts
}

fn listed(texts: &[String]) -> String {
    if texts.is_empty() { "none".into() } else { texts.join(", ") }
}

/// Returns whether a server's configuration key is only a location, which changes with each start.
fn says_where(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key.ends_with("port") || key.ends_with("dir") || key.starts_with("server.") || key.contains("address")
}

/// Returns the storage without the path: `ext4 on /dev/sda1: every write waits for an fsync`.
fn without_path(placement: &str) -> String {
    match (placement.split_once(" ("), placement.rsplit_once("): ")) {
        (Some((kind, _)), Some((_, meaning))) => format!("{kind}: {meaning}"),
        _ => placement.to_owned(),
    }
}

/// Fields of a trial's specification that identify the trial or are reported elsewhere.
const TOLD_APART: [&str; 8] =
    ["index", "repetition", "seed", "label", "contenders", "settling", "makes_up_for", "fault_plan"];
/// Fields that must match for metrics to be comparable. A longer hold or a fault only makes conditions harder, so
/// its cost is a result.
const QUESTION: [&str; 5] = ["locks", "read_ratio", "depth", "load", "acquire_timeout_us"];

/// Returns the differences between the specifications of the cells on both sides.
fn of_cells(base: &Side, new: &Side) -> Vec<Difference> {
    let (base, mut new) = (asked(base), asked(new));
    let both = base.into_iter().filter_map(|(key, was)| Some((was, new.remove(&key)?)));
    distinct(both.flat_map(|(was, is)| apart(was, is)))
}

fn asked(side: &Side) -> BTreeMap<CellUnderLoad, Vec<ComparedFact>> {
    let mut asked: BTreeMap<CellUnderLoad, Vec<ComparedFact>> = BTreeMap::new();
    for trial in side.trials() {
        asked.entry(CellUnderLoad::of(trial)).or_default().extend(of_spec(trial));
    }
    asked
}

fn of_spec(trial: &Trial) -> Vec<ComparedFact> {
    let spec = &trial.spec;
    let faults: Vec<String> =
        spec.faults.iter().map(|fault| format!("{} {}", fault.label, fault.when())).collect();
    let mut facts = vec![ComparedFact::stated("faults", listed(&faults))];
    let fields = serde_json::to_value(spec).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    facts.extend(fields.filter(|(name, _)| !TOLD_APART.contains(&name.as_str())).map(|(name, value)| {
        let fact = ComparedFact::stated(without_unit(name), readable(name, value));
        ComparedFact { must_agree: QUESTION.contains(&name.as_str()), ..fact }
    }));
    facts
}

fn without_unit(name: &str) -> &str {
    name.strip_suffix("_us").unwrap_or(name)
}

/// Formats a value: `10 ms` for `{"fixed_us":10000}`, `exponential mean 10 ms` for
/// `{"exponential":{"mean_us":10000}}`.
fn readable(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(values) => listed(&values.iter().map(|value| readable(name, value)).collect::<Vec<_>>()),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| match (&**name, readable(name, value)) {
                ("fixed_us" | "us", time) => time,
                (name, value) => format!("{} {value}", without_unit(name)),
            };
            listed(&fields.iter().map(field).collect::<Vec<_>>())
        }
        Value::Number(number) if name == "us" || name.ends_with("_us") => {
            number.as_u64().map_or_else(|| value.to_string(), format_micros)
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Handoff floors of both sides, in microseconds: the median over runs of the lower of two measurements. A
/// rise on equal servers points to a slower or busier host, which may explain an apparent regression.
#[derive(Debug, Clone, Copy)]
pub struct FloorRise {
    pub(super) base_us: f64,
    new_us: f64,
}

impl FloorRise {
    fn of(base: &Side, new: &Side) -> Option<Self> {
        // The floor is measured before and after the trials; the lower value is less likely to be disturbed.
        let lower = |run: &Loaded| {
            let run = &run.stored.run.run;
            let both = [&run.floor, &run.floor_after].into_iter().flatten();
            both.filter_map(|floor: &Floor| floor.handoff).map(|timing: Timing| timing.p50_us).min()
        };
        let of = |side: &Side| {
            let each: Vec<f64> = side.runs.iter().filter_map(lower).map(|us| us as f64).collect();
            median(&each).filter(|floor| *floor > 0.0)
        };
        Some(Self { base_us: of(base)?, new_us: of(new)? })
    }
    fn told(self) -> [String; 2] {
        [self.base_us, self.new_us].map(|floor| format_micros(floor.round() as u64))
    }

    /// Returns the rise of the floor; `None` if the floor did not rise, or if the servers differ on purpose,
    /// because their cost is then part of the result. `apart` contains all differences between the sides.
    pub fn between(base: &Side, new: &Side, apart: &[Difference]) -> Option<Self> {
        let rise = Self::of(base, new)?;
        let is_part_of_it = apart.iter().any(|one| one.of_servers);
        (rise.share() > Floor::APART - 1.0 && !is_part_of_it).then_some(rise)
    }

    fn share(self) -> f64 {
        self.new_us / self.base_us - 1.0
    }

    /// Makes a regression inconclusive if a higher floor may explain it: the metric depends on request times,
    /// and the floor has risen by more than the margin and by enough to explain the whole regression.
    /// `requests` is the share of the metric that requests take; `None` if unknown.
    pub(super) fn unless(self, figure: Figure, found: Compared, requests: Option<f64>) -> Compared {
        let Some(margin) = found.margin.filter(|_| found.regression == Regression::Yes && takes_time(figure))
        else {
            return found;
        };
        let explained = requests.map(|share| (1.0 + margin) * (1.0 + share * self.share()));
        let surely = found.in_family.map(|ratio| ratio.low.max(1.0 / ratio.high));
        let is_more = surely.zip(explained).is_some_and(|(surely, explained)| surely > explained);
        if self.share() <= margin || is_more {
            return found;
        }
        let [was, is] = self.told();
        found.inconclusive(format!(
            "the floor of a handoff rose from {was} to {is}, so the host is the likely cause, not the lock; \
             compare again when the host is quiet"
        ))
    }
}

/// Smallest ratio of the floors to report; measured floors always differ a little.
const FLOORS_APART: f64 = 1.1;

fn floors(base: &Side, new: &Side) -> Option<Difference> {
    let floors = FloorRise::of(base, new)?;
    let apart = (floors.base_us / floors.new_us).max(floors.new_us / floors.base_us) > FLOORS_APART;
    apart.then(|| Difference::measured("floor of a handoff (median)", floors.told()))
}

/// Returns whether a metric depends on the time that a request takes.
pub(super) fn takes_time(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(..)) || figure == THROUGHPUT.figure()
}

fn generators(base: &Side, new: &Side) -> Vec<Difference> {
    let [was, is] = [base, new].map(|side| side.trials().collect::<Vec<&Trial>>());
    let told = shares(&was, &is).into_iter().filter(ShareApart::is_told);
    told.map(|share| Difference::measured(share.what, share.told())).collect()
}

pub(super) fn unsound(side: &Side) -> Vec<String> {
    let of_run = |run: &Loaded| {
        let path = run.path.display().to_string();
        let told = |trial: &Trial| {
            let why = unsound_because(trial)?;
            Some(shown(&format!("{path}: {}: {why}", trial.name()), 500))
        };
        let mut told: Vec<String> = run.stored.trials.iter().filter_map(told).collect();
        let (ran, planned) = (run.stored.trials.len(), run.stored.run.planned_trials);
        if ran < planned {
            told.push(format!("{path}: {ran} of {} ran", counted(planned, "trial", "trials")));
        }
        told
    };
    side.runs.iter().flat_map(of_run).collect()
}
