//! The question that a plan is asked: by options, or as the load of a scenario.

use std::path::Path;
use std::time::Duration;

use toml::{Table, Value};

use super::args::PlanArgs;
use super::holds::{self, Holds};
use crate::answer::plan::{PlannedLoad, Question};
use crate::answer::queueing::Order;
use crate::cli::scenario_file::{Overrides, ScenarioFile};
use crate::load;
use crate::scenario::{self, Late, Scenario, TrialPlan, parse};
use crate::words::error::Error;

/// A question, and the load that it is about, in the order of a queue.
pub struct AskedLoad {
    pub question: Question,
    pub load: PlannedLoad,
    /// The scenario of one trial of it.
    pub scenario: Scenario,
}

impl AskedLoad {
    /// What these options ask.
    ///
    /// # Errors
    /// Usage, where no lock could do that or no trial can have such a load.
    pub fn of(args: &PlanArgs) -> Result<Self, Error> {
        match &args.from_scenario {
            Some(path) => Self::of_scenario(args, path),
            None => Self::of_options(args),
        }
    }

    fn of_options(args: &PlanArgs) -> Result<Self, Error> {
        let text = args.arrivals.trim();
        let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let Holds { mean, toml } = match (&args.hold, &args.holds) {
            (Some(hold), _) => hold.clone(),
            (None, Some(file)) => holds::read(file)?,
            (None, None) => return Err(missing("--hold or --holds")),
        };
        let question = Question {
            clients: args.clients.ok_or_else(|| missing("--clients"))? as usize,
            rate: args.rate.ok_or_else(|| missing("--rate"))?,
            hold: mean,
            holds: toml,
            locks: args.locks as usize,
            think: None,
            arrivals: if is_word { format!("\"{text}\"") } else { text.to_owned() },
            round_trip: args.round_trip,
            scenario: None,
            objective: args.slo.clone(),
        };
        question.check().map_err(Error::usage)?;
        // Before anything is measured: a process that is none, or a load that no trial can have.
        let text = question.scenario("plan", &["predecessor-watch".to_owned()], &question.copies(1.0));
        let parsed = parse("the question", &text, &load::catalog());
        let scenario = parsed.map_err(|mistakes| Error::usage(mistakes.render(false)))?.scenario;
        let load =
            TrialPlan::of(&scenario).trials.first().and_then(|trial| PlannedLoad::of(trial, Order::Fifo));
        let load = load.ok_or_else(|| Error::usage("the question has no load of its own"))?;
        let load = if question.holds.is_none() { load.knowing_mean_only() } else { load };
        Ok(Self { question, load, scenario })
    }

    fn of_scenario(args: &PlanArgs, path: &Path) -> Result<Self, Error> {
        let file =
            ScenarioFile::read(path, &Overrides::default()).map_err(|unusable| unusable.report(path))?;
        let scenario = &file.parsed.scenario;
        let refuse = |why: &str| Error::usage(format!("{}: {why}", path.display()));
        let spec =
            TrialPlan::of(scenario).trials.into_iter().next().ok_or_else(|| refuse("it has no trial"))?;
        if spec.load == scenario::Load::Batch {
            return Err(refuse("a plan is about a load that goes on: write load = \"open\" or \"closed\""));
        }
        if scenario.contenders.len() != 1 {
            return Err(refuse("a plan is about one number of contenders: name one"));
        }
        if spec.load.open().is_some_and(|open| open.late == Late::Drop) {
            return Err(refuse("a plan says how long all wait, so none may be dropped: leave `late` out"));
        }
        if spec.acquire_timeout.is_some() {
            return Err(refuse(
                "a plan says how long all wait, so none may give up: leave `acquire_timeout` out",
            ));
        }
        if spec.has_readers() || spec.depth > 1 || !spec.faults.is_empty() {
            return Err(refuse(
                "a plan is about locks that let in one at a time and are not broken: leave `read_ratio`, `depth` and faults out",
            ));
        }
        let load =
            PlannedLoad::of(&spec, Order::Fifo).ok_or_else(|| refuse("its load has no end by the clock"))?;
        let question = Question {
            clients: spec.contenders,
            rate: load.rate(),
            hold: spec.mean_hold(),
            holds: Some(spec.all_holds().to_toml()),
            locks: spec.locks,
            arrivals: "\"poisson\"".to_owned(),
            think: load.is_closed().then(|| spec.all_thinks().to_toml()),
            round_trip: None,
            scenario: Some(standing_alone(&file.text, path)?),
            objective: args.slo.clone(),
        };
        question.check().map_err(|why| refuse(&why))?;
        Ok(Self { question, load, scenario: scenario.clone() })
    }
}

fn missing(options: &str) -> Error {
    Error::usage(format!("say what is asked with {options}, or with --from-scenario"))
}

/// The scenario so that it can be read from anywhere: a file of arrivals is named from the root.
fn standing_alone(text: &str, path: &Path) -> Result<String, Error> {
    let mut table: Table =
        text.parse().map_err(|error| Error::usage(format!("{}: {error}", path.display())))?;
    if let Some(Value::String(replay)) =
        table.get_mut("arrivals").and_then(|arrivals| arrivals.get_mut("replay"))
    {
        let beside = path.parent().unwrap_or(Path::new("")).join(&*replay);
        let absolute = std::path::absolute(&beside).map_err(|error| Error::environment(error.to_string()))?;
        *replay = absolute.display().to_string();
    }
    Ok(table.to_string())
}

/// The scenario of a question for the verification with one strategy; `longest` is for how long it is run at most.
pub fn verifying(
    text: &str,
    name: &str,
    strategy: &str,
    seed: u64,
    longest: Duration,
) -> Result<String, Error> {
    let mut table: Table = text.parse().map_err(|error| Error::usage(format!("the scenario: {error}")))?;
    for key in ["gate", "ensemble", "precision", "repetitions_at_most", "order"] {
        table.remove(key);
    }
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("name", name.into());
    set("strategies", Value::Array(vec![strategy.into()]));
    set("repetitions", Value::Integer(1));
    set("seed", Value::Integer(i64::try_from(seed).unwrap_or(1)));
    let lasts = table.get("duration").and_then(Value::as_str).map(crate::words::units::parse_duration);
    if let Some(Ok(lasts)) = lasts
        && lasts > longest
    {
        table.insert("duration".to_owned(), format!("{}ms", longest.as_millis()).into());
    }
    Ok(table.to_string())
}
