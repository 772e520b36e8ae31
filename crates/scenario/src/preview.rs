//! Output of `validate`: the trials of a scenario and their duration.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::arrivals::{Late, Popularity};
use super::diagnostic::MachineDiagnostic;
use super::model::{EnsembleChoice, Precision, RateOf, Scenario, Stop, TrialSpec};
use super::parse::Parsed;
use super::plan::{BASIS, DISK_BASIS, MEMORY_BASIS, Offered, TrialPlan, scaled_fault};
use crate::gate::Gate;
use zklockbench_core::catalog::fault::{FaultChoice, Start};
use zklockbench_core::clock::micros;
use zklockbench_core::units::{contenders, counted, format_duration, number, percent};

/// A valid scenario as shown by `validate`: [`fmt::Display`] as text, [`Serialize`] as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Preview {
    pub name: String,
    pub description: String,
    pub ensemble: String,
    /// The load and when it ends, as text.
    pub load: String,
    /// Arrivals of an open load, with one entry per contender count if the rate depends on it. Omitted
    /// for other loads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offered: Vec<OfferedPreview>,
    /// Faults of each trial, in file order; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultPreview>,
    /// Gates, in file order; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<GatePreview>,
    /// Limits on the repetitions if the scenario requests a precision; otherwise omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<PrecisionPreview>,
    /// All trials in running order or, with a precision, the minimum set of trials.
    pub trials: Vec<TrialPreview>,
    pub estimated_us: u64,
    pub estimate_basis: &'static str,
    /// Requests per second to the ensemble; for a closed load, an approximate minimum.
    pub estimated_requests_per_s: f64,
    /// Peak memory of the program in bytes, excluding local servers.
    pub estimated_memory_bytes: u64,
    pub memory_basis: &'static str,
    /// Peak disk space in bytes that a trial takes until it is judged, excluding its results and servers.
    pub estimated_disk_bytes: u64,
    pub disk_basis: &'static str,
    pub warnings: Vec<MachineDiagnostic>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GatePreview {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub require: String,
    /// Whether the gate requires a baseline.
    pub needs_baseline: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PrecisionPreview {
    /// Requested relative precision.
    pub asked: f64,
    pub repetitions_at_most: u32,
    pub trials_at_most: usize,
    /// Maximum duration in microseconds.
    pub estimated_at_most_us: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TrialPreview {
    /// Position in the run order, starting at 0.
    pub index: usize,
    pub strategy: String,
    pub contenders: usize,
    pub repetition: u32,
    pub seed: u64,
    pub estimated_us: u64,
}

/// Arrivals in the measured phase of an open load.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfferedPreview {
    /// Number of contenders; absent if the rate does not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contenders: Option<usize>,
    /// Average arrivals per second.
    pub rate: f64,
    /// Peak arrivals per second.
    pub peak_rate: f64,
    pub arrivals: f64,
    /// Share of the time that the busiest lock is held, excluding handoffs.
    pub utilisation: f64,
    /// Utilisation at the peak rate.
    pub peak_utilisation: f64,
}

/// One fault. Times are in microseconds, scaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultPreview {
    pub kind: String,
    /// Target as a word or a number; empty if the kind determines it.
    pub target: String,
    pub label: String,
    /// Schedule and duration, as text.
    pub when: String,
    /// Time of the first start, from the start of the measured phase.
    pub at_us: Option<u64>,
    pub after_acquisitions: Option<u64>,
    /// Duration; omitted if the fault ends on its own.
    pub duration_us: Option<u64>,
    pub times: u32,
    /// Time from one start to the next.
    pub every_us: u64,
    /// Maximum random delay of each start.
    pub jitter_us: u64,
}

impl Preview {
    pub fn of(parsed: &Parsed) -> Self {
        let plan = TrialPlan::of(&parsed.scenario);
        Self {
            name: plan.scenario.name.clone(),
            description: plan.scenario.description.clone(),
            ensemble: ensemble(&plan.scenario),
            load: format!("{}{}", load(&plan.scenario), requests(&plan)),
            offered: offered(&plan),
            faults: plan.scenario.faults.iter().map(|one| fault(one, plan.scenario.time_scale)).collect(),
            gates: plan.scenario.gates.iter().map(gate).collect(),
            estimated_us: micros(plan.estimated_duration()),
            precision: plan.scenario.precision.map(|asked| precision(&plan.scenario, asked)),
            trials: plan.trials.iter().map(trial).collect(),
            estimate_basis: BASIS,
            estimated_requests_per_s: plan.estimated_requests_per_s().round(),
            estimated_memory_bytes: plan.estimated_memory(),
            estimated_disk_bytes: plan.estimated_disk(),
            disk_basis: DISK_BASIS,
            memory_basis: MEMORY_BASIS,
            warnings: parsed.warnings.machine(),
        }
    }
}

fn precision(scenario: &Scenario, asked: Precision) -> PrecisionPreview {
    let whole = TrialPlan::of(&Scenario { repetitions: asked.repetitions_at_most, ..scenario.clone() });
    PrecisionPreview {
        asked: asked.share,
        repetitions_at_most: asked.repetitions_at_most,
        trials_at_most: whole.trials.len(),
        estimated_at_most_us: micros(whole.estimated_duration()),
    }
}

fn offered(plan: &TrialPlan) -> Vec<OfferedPreview> {
    let is_each = plan.scenario.rate_of == RateOf::Each;
    let counts = plan.scenario.contenders.iter().take(if is_each { usize::MAX } else { 1 });
    let preview = |count: &usize| {
        let offered = plan.trials.iter().find(|trial| trial.contenders == *count).and_then(Offered::of)?;
        Some(OfferedPreview {
            contenders: is_each.then_some(*count),
            rate: offered.rate,
            peak_rate: offered.peak_rate,
            arrivals: offered.arrivals,
            utilisation: offered.utilisation(),
            peak_utilisation: offered.peak_utilisation(),
        })
    };
    counts.filter_map(preview).collect()
}

impl fmt::Display for OfferedPreview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(count) = self.contenders {
            write!(f, "with {}, ", contenders(count))?;
        }
        write!(f, "{} arrivals a second, about {:.0} in all", number(self.rate), self.arrivals)?;
        write!(f, "; the busiest lock is held {} % of the time", number(self.utilisation * 100.0))?;
        if self.peak_rate > self.rate {
            let (rate, share) = (number(self.peak_rate), number(self.peak_utilisation * 100.0));
            write!(f, "; at the peak {rate} a second and {share} %")?;
        }
        Ok(())
    }
}

fn trial(spec: &TrialSpec) -> TrialPreview {
    TrialPreview {
        index: spec.index,
        strategy: spec.strategy.label.clone(),
        contenders: spec.contenders,
        repetition: spec.repetition,
        seed: spec.seed,
        estimated_us: micros(spec.estimated_duration()),
    }
}

fn fault(written: &FaultChoice, scale: f64) -> FaultPreview {
    let fault = scaled_fault(written, scale);
    let (at, after_acquisitions) = match fault.start {
        Start::At(at) => (Some(at), None),
        Start::AfterAcquisitions(count) => (None, Some(count)),
    };
    FaultPreview {
        when: fault.when(),
        at_us: at.map(micros),
        after_acquisitions,
        duration_us: fault.duration.map(micros),
        times: fault.times,
        every_us: micros(fault.every),
        jitter_us: micros(fault.jitter),
        target: fault.target.to_string(),
        kind: fault.kind,
        label: fault.label,
    }
}

fn gate(gate: &Gate) -> GatePreview {
    GatePreview {
        name: gate.name.clone(),
        require: gate.condition.to_string(),
        needs_baseline: gate.condition.needs_baseline(),
    }
}

fn ensemble(scenario: &Scenario) -> String {
    match &scenario.ensemble {
        EnsembleChoice::Connect(connect) => format!("existing, {connect}"),
        EnsembleChoice::Compose(file) => format!("own, in containers, {}", file.display()),
        EnsembleChoice::Local { servers, data_dir } => {
            let place = data_dir.as_ref().map(|path| format!(", data in {}", path.display()));
            let servers = counted(*servers, "server", "servers");
            format!("own, {servers} on this host{}", place.unwrap_or_default())
        }
    }
}

/// Describes the requests to an existing ensemble, as a phrase that follows the load.
fn requests(plan: &TrialPlan) -> String {
    if !plan.scenario.ensemble.is_external() {
        return String::new();
    }
    format!("; {} to the ensemble (at most 200 if other clients are connected)", plan.requests_in_words())
}

fn load(scenario: &Scenario) -> String {
    let end = match scenario.stop {
        Stop::After(duration) => format!("for {}", format_duration(duration.mul_f64(scenario.time_scale))),
        Stop::Acquisitions(1) => "until each has acquired once".to_owned(),
        Stop::Acquisitions(each) => format!("until each has acquired {each} times"),
    };
    let kinds = match scenario.clients.len() {
        0 => String::new(),
        kinds => format!(", {}", counted(kinds, "kind of client", "kinds of clients")),
    };
    let only_tries = scenario.acquire_timeout.is_some_and(|timeout| timeout.is_zero());
    let kinds = kinds + if only_tries { ", try-locks" } else { "" };
    let Some(open) = scenario.load.open() else { return format!("{}{kinds}, {end}", scenario.load.name()) };
    let locks = match (open.popularity, scenario.locks) {
        _ if scenario.fresh_locks => ", a new lock each time".to_owned(),
        (_, 1) => String::new(),
        (Popularity::Uniform, locks) => format!(", {locks} equally popular locks"),
        (Popularity::Zipf(power), locks) => format!(", {locks} locks by Zipf's law ({})", number(power)),
    };
    let late = match open.late {
        Late::Keep => "",
        Late::Drop => ", dropped if no contender is free",
    };
    format!("open, {}{locks}{kinds}{late}, {end}", open.arrivals.described(scenario.time_scale))
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = format_duration(Duration::from_micros(self.estimated_us));
        let trials = counted(self.trials.len(), "trial", "trials");
        match &self.precision {
            None => writeln!(f, "{} is valid: {trials}, about {whole} in all", self.name)?,
            Some(precision) => writeln!(
                f,
                "{} is valid: at least {trials}, about {whole} in all; to reach ± {}, at most {}, about {}",
                self.name,
                percent(precision.asked),
                counted(precision.trials_at_most, "trial", "trials"),
                format_duration(Duration::from_micros(precision.estimated_at_most_us))
            )?,
        }
        if !self.description.is_empty() {
            writeln!(f, "description: {}", self.description)?;
        }
        writeln!(f, "ensemble: {}", self.ensemble)?;
        writeln!(f, "load: {}", self.load)?;
        for offered in &self.offered {
            writeln!(f, "offered: {offered}")?;
        }
        for fault in &self.faults {
            writeln!(f, "fault: {}, {}", fault.label, fault.when)?;
        }
        for gate in &self.gates {
            let name = gate.name.as_ref().map_or_else(String::new, |name| format!("{name}: "));
            writeln!(f, "gate: {name}{}", gate.require)?;
        }
        let width = self.trials.iter().map(|trial| trial.strategy.chars().count()).max().unwrap_or(0).max(8);
        writeln!(
            f,
            "\n{:>5}  {:width$}  {:>10}  {:>10}  {:>9}",
            "trial", "strategy", "contenders", "repetition", "estimated"
        )?;
        for trial in &self.trials {
            writeln!(
                f,
                "{:>5}  {:width$}  {:>10}  {:>10}  {:>9}",
                trial.index,
                trial.strategy,
                trial.contenders,
                trial.repetition,
                format_duration(Duration::from_micros(trial.estimated_us))
            )?;
        }
        writeln!(f)?;
        writeln!(f, "({})", self.estimate_basis)?;
        let megabytes = self.estimated_memory_bytes.div_ceil(1_000_000);
        writeln!(f, "at most about {megabytes} MB of memory ({})", self.memory_basis)?;
        let megabytes = self.estimated_disk_bytes.div_ceil(1_000_000);
        writeln!(f, "about {megabytes} MB of disk besides the results ({})", self.disk_basis)
    }
}
