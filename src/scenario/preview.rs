//! What `validate` shows: the trials that a scenario expands to, and how long they take.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::diagnostic::MachineDiagnostic;
use super::estimate::BASIS;
use super::model::{EnsembleChoice, Scenario, Stop, TrialSpec};
use super::parse::Parsed;
use super::plan::Plan;
use crate::units::format_duration;

/// A valid scenario as `validate` shows it: [`fmt::Display`] for people, [`Serialize`] for programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Preview {
    /// The scenario's name.
    pub name: String,
    /// Its question.
    pub description: String,
    /// Where it runs, in words.
    pub ensemble: String,
    /// The load and when it ends, in words.
    pub load: String,
    /// Every trial in the order of running.
    pub trials: Vec<TrialPreview>,
    /// The whole, in microseconds.
    pub estimated_us: u64,
    /// How the estimates are made.
    pub estimate_basis: &'static str,
    /// Advice on the file.
    pub warnings: Vec<MachineDiagnostic>,
}

/// One trial as `validate` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TrialPreview {
    /// Position in the order of running, from 0.
    pub index: usize,
    /// The strategy with the parameters that the scenario set.
    pub strategy: String,
    /// How many contenders.
    pub contenders: usize,
    /// Repetition, from 1.
    pub repetition: u32,
    /// The trial's seed.
    pub seed: u64,
    /// How long it takes, in microseconds.
    pub estimated_us: u64,
}

impl Preview {
    /// Expands a file that was read.
    #[must_use]
    pub fn of(parsed: &Parsed) -> Self {
        let plan = Plan::of(&parsed.scenario);
        Self {
            name: plan.scenario.name.clone(),
            description: plan.scenario.description.clone(),
            ensemble: ensemble(&plan.scenario),
            load: load(&plan.scenario),
            estimated_us: crate::clock::micros(plan.estimated_duration()),
            trials: plan.trials.iter().map(trial).collect(),
            estimate_basis: BASIS,
            warnings: parsed.warnings.machine(),
        }
    }
}

fn trial(spec: &TrialSpec) -> TrialPreview {
    TrialPreview {
        index: spec.index,
        strategy: spec.strategy.label.clone(),
        contenders: spec.contenders,
        repetition: spec.repetition,
        seed: spec.seed,
        estimated_us: crate::clock::micros(spec.estimated_duration()),
    }
}

fn ensemble(scenario: &Scenario) -> String {
    match &scenario.ensemble {
        EnsembleChoice::Connect(connect) => format!("existing, {connect}"),
        EnsembleChoice::Local { servers, data_dir } => {
            let place = data_dir.as_ref().map(|path| format!(", data in {}", path.display()));
            let servers = if *servers == 1 { "1 server".to_owned() } else { format!("{servers} servers") };
            format!("own, {servers} on this host{}", place.unwrap_or_default())
        }
    }
}

fn load(scenario: &Scenario) -> String {
    let end = match scenario.stop {
        Stop::After(duration) => format!("for {}", format_duration(duration.mul_f64(scenario.time_scale))),
        Stop::Acquisitions(1) => "until each has acquired once".to_owned(),
        Stop::Acquisitions(each) => format!("until each has acquired {each} times"),
    };
    format!("{}, {end}", scenario.load.name())
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.name, self.description)?;
        writeln!(f, "ensemble: {}", self.ensemble)?;
        writeln!(f, "load: {}", self.load)?;
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
        let whole = format_duration(Duration::from_micros(self.estimated_us));
        writeln!(f, "\n{} trials, about {whole} in all", self.trials.len())?;
        writeln!(f, "({})", self.estimate_basis)
    }
}
