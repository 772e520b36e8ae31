//! The scenario and the swept variables of `sweep`. Checks that the sweep is possible.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use toml::{Table, Value};

use crate::cli::output;
use crate::cli::run::open_ensemble::Needs;
use crate::cli::scenario_file::{Overrides, ScenarioFile, name_of};
use crate::cli::shared_args::{GeneratorArgs, JobArgs, OpeningArgs, duration_within};
use zklockbench_analysis::objective::Objective;
use zklockbench_analysis::sweep::{At, Over, Values, Variable};
use zklockbench_core::error::Error;
use zklockbench_core::units::{format_duration, run_id, shown};
use zklockbench_scenario::fields::POLL_INTERVAL_PARAM;
use zklockbench_scenario::{
    Arrivals, Catalog, DISTANCE_NOTE, EnsembleChoice, Load, Scenario, Stop, distance, parse,
};

#[derive(Debug, Args)]
pub struct SweepArgs {
    /// Scenario file, name of a built-in scenario (`zklockbench scenarios`), or - for standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    /// Sweep a variable over a range or a list: contenders=1..1000, rate=10..2000, hold=1ms..1s,
    /// locks=1..100, servers=1,3,5, delay=0.2ms,1ms,5ms,50ms (added to every round trip) or
    /// session_timeout=2s,5s,10s,30s (with crashes and pauses); a second variable adds a curve for each of
    /// its values
    #[arg(long, value_name = "VARIABLE=VALUES", required = true)]
    pub over: Vec<Over>,
    /// Objective, e.g. 'wait.p99 < 100ms': find the values that meet it
    #[arg(long, value_name = "CONDITION")]
    pub objective: Option<Objective>,
    /// Time limit, including server start; the whole range is covered first [default: 15m]
    #[arg(long, value_name = "TIME", value_parser = duration_within("1s", "7days"))]
    pub budget: Option<Duration>,
    /// Maximum number of values of the first variable per strategy
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u16).range(2..=500))]
    pub points_at_most: u16,
    /// Resume the sweep in this directory; pass the original options again
    #[arg(long, value_name = "DIR", conflicts_with = "run_id")]
    pub resume: Option<PathBuf>,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Create the sweep's directory in DIR
    #[arg(long, short, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
    /// Name of the sweep's directory; an existing sweep is resumed [default: scenario and time]
    #[arg(long, value_name = "NAME", value_parser = run_id)]
    pub run_id: Option<String>,
    /// Skip the charts
    #[arg(long, env = "ZKLOCKBENCH_NO_CHARTS", value_parser = clap::builder::FalseyValueParser::new())]
    pub no_charts: bool,
    #[command(flatten)]
    pub overrides: Overrides,
    #[command(flatten)]
    pub opening: OpeningArgs,
    #[command(flatten)]
    pub job: JobArgs,
}

/// Keys that a sweep sets itself or ignores.
const DROPPED: [&str; 5] = ["repetitions", "precision", "repetitions_at_most", "gate", "order"];

pub struct SweepQuestion {
    /// One or two swept variables.
    pub over: Vec<Over>,
    pub objective: Option<Objective>,
    /// Scenario with the smallest value of each variable.
    pub scenario: Scenario,
    /// Text of the scenario with overrides and without the keys in `DROPPED`.
    pub text: String,
    pub strategies: Vec<String>,
    /// Failures that the sweep adds to each point.
    failures: Option<AddedFailures>,
    base: Table,
}

impl SweepQuestion {
    pub fn read(args: &SweepArgs) -> Result<Self, Error> {
        let path = args.scenario.as_path();
        refuse(&args.overrides, &args.over)?;
        let file = ScenarioFile::read(path, &args.overrides).map_err(|unusable| unusable.report(path))?;
        check(&file.parsed.scenario, &args.over)?;
        let (over, objective) = (args.over.clone(), args.objective.clone());
        let mut base: Table = file.text.parse().map_err(Error::usage)?;
        for key in DROPPED {
            base.remove(key);
        }
        base.insert("repetitions".into(), Value::from(1));
        let has_rate = base.contains_key("rate");
        refuse_if!(
            over.iter().any(|over| over.variable == Variable::Rate) && !has_rate,
            "rate cannot be swept: the scenario has no total `rate`; write load = \"open\" and rate = …, with \
             arrivals that have a single rate (docs/workloads.md)"
        );
        let text = toml::to_string(&base).map_err(Error::usage)?;
        let failures = AddedFailures::to(&file.parsed.scenario, &over);
        let table = |at| table_at(&base, &over, failures.as_ref(), at);
        let at = |at| parsed(&toml::to_string(&table(at)?).map_err(Error::usage)?);
        let corners = corners(&over);
        let scenario = at(corners[0])?;
        // Also parse the other ends of the ranges, to report mistakes before anything starts.
        corners[1..].iter().try_for_each(|corner| at(*corner).map(drop))?;
        let adds_faults = failures.is_some() || over.iter().any(|over| over.variable == Variable::Delay);
        refuse_if!(
            adds_faults && scenario.ensemble.is_external() && !args.generator.allow_faults,
            "the sweep adds faults, but does not start this ensemble: --allow-faults permits faults on the sweep's \
             own contenders and connections"
        );
        let strategies = scenario.strategies.iter().map(|choice| choice.label.clone()).collect();
        Ok(Self { strategies, over, objective, scenario, text, failures, base })
    }

    /// Returns the scenario of a point with these strategies.
    pub fn point(&self, at: At, strategies: &[String]) -> Result<(String, Scenario), Error> {
        let mut table = table_at(&self.base, &self.over, self.failures.as_ref(), at)?;
        if let Some(Value::Array(all)) = table.get("strategies").cloned() {
            let wanted = |(at, _): &(usize, Value)| {
                self.strategies.get(*at).is_some_and(|label| strategies.contains(label))
            };
            choose(&mut table, all.into_iter().enumerate().filter(wanted).map(|(_, one)| one).collect());
        }
        let text = toml::to_string(&table).map_err(Error::usage)?;
        let scenario = parsed(&text)?;
        Ok((text, scenario))
    }

    pub fn servers(&self, at: At) -> Option<usize> {
        let value = |(over, value): (&Over, Option<f64>)| {
            value.filter(|_| over.variable == Variable::Servers).map(|value| value as usize)
        };
        self.over.iter().zip([Some(at.x), at.beside]).find_map(value)
    }

    /// Returns the values of the second variable; a single `None` if only one variable is swept.
    pub fn beside(&self) -> Vec<Option<f64>> {
        self.over.get(1).map_or_else(|| vec![None], |over| over.few().into_iter().map(Some).collect())
    }

    /// Returns whether the sweep measures the cost of failures instead of the speed of the lock.
    pub fn breaks_sessions(&self) -> bool {
        self.over.iter().any(|over| over.variable == Variable::SessionTimeout)
    }

    /// Returns whether each run starts its own servers, because its faults break servers.
    pub fn breaks_servers(&self) -> bool {
        Needs::of(&self.scenario).own_servers()
    }

    pub fn notes(&self) -> Vec<String> {
        let has = |variable| self.over.iter().any(|over| over.variable == variable);
        let mut notes = Vec::new();
        if has(Variable::Servers) && self.scenario.ensemble.is_local() {
            notes.push(
                "All servers share the processors and the disk of this host. On separate hosts, \
                 additional servers would cost less than here."
                    .to_owned(),
            );
        }
        if has(Variable::Delay) {
            notes.push(DISTANCE_NOTE.to_owned());
        }
        notes.extend(self.failures.as_ref().map(AddedFailures::note));
        notes
    }
}

/// Returns the points at the ends of the ranges, the smallest values first.
fn corners(over: &[Over]) -> Vec<At> {
    let ends = |over: &Over| [over.grid().first().copied().unwrap_or(1.0), over.most()];
    let besides = over.get(1).map_or_else(|| vec![None], |over| ends(over).map(Some).to_vec());
    besides.into_iter().flat_map(|beside| ends(&over[0]).map(|x| At { x, beside })).collect()
}

/// Replaces the strategies, and removes the poll interval if no new strategy polls.
fn choose(table: &mut Table, strategies: Vec<Value>) {
    let polls = |one: &Value| {
        let card = name_of(one).and_then(|name| zklockbench_locks::find(&name));
        card.is_some_and(|entry| entry.card.params.iter().any(|param| param.name == POLL_INTERVAL_PARAM))
    };
    if !strategies.iter().any(polls) {
        table.remove(POLL_INTERVAL_PARAM);
    }
    table.insert("strategies".into(), Value::Array(strategies));
}

/// Rejects options that the sweep sets itself.
fn refuse(overrides: &Overrides, over: &[Over]) -> Result<(), Error> {
    refuse_if!(over.len() > 2, "--over was passed {} times: sweep one or two variables", over.len());
    refuse_if!(
        matches!(over, [one, other] if one.variable == other.variable),
        "--over {} was passed twice: sweep one variable, or two different variables",
        over[0].variable.name()
    );
    let swept = |variable| over.iter().any(|over: &Over| over.variable == variable);
    let refuse = |is_given: bool, option: &str, why: &str| -> Result<(), Error> {
        refuse_if!(is_given, "cannot use {option} with this sweep: {why}");
        Ok(())
    };
    let sets = "the sweep sets it";
    refuse(!overrides.contenders.is_empty() && swept(Variable::Contenders), "--contenders", sets)?;
    refuse(overrides.place.servers.is_some() && swept(Variable::Servers), "--servers", sets)?;
    let repeats = "the sweep repeats each point until it is precise enough";
    refuse(overrides.repetitions.is_some(), "--repetitions", repeats)?;
    refuse(!overrides.gate.is_empty(), "--gate", "set the condition with --objective instead")?;
    let scaled = [Variable::Rate, Variable::Hold, Variable::Delay, Variable::SessionTimeout];
    let changes = overrides.time_scale.is_some() && scaled.into_iter().any(swept);
    refuse(changes, "--time-scale", "it would change the swept values")
}

fn check(scenario: &Scenario, over: &[Over]) -> Result<(), Error> {
    let swept = |variable| over.iter().any(|over: &Over| over.variable == variable);
    refuse_if!(
        Needs::of(scenario).own_servers() && scenario.ensemble.is_external(),
        "the scenario breaks servers that the sweep does not start: remove --connect or these faults"
    );
    let arrivals = scenario.load.open().map(|open| &open.arrivals);
    refuse_if!(
        matches!(arrivals, Some(Arrivals::Replay(_))),
        "arrivals from a file cannot be swept: choose another arrival process"
    );
    refuse_if!(
        swept(Variable::Rate) && scenario.load.open().is_none(),
        "rate cannot be swept: the scenario's load is {}, so the contenders determine the rate; sweep \
         contenders instead, or write load = \"open\" and a rate",
        scenario.load.name()
    );
    refuse_if!(
        scenario.contenders.len() > 1 && !swept(Variable::Contenders),
        "the scenario has {} contender counts: choose one with --contenders, or use --over contenders=…",
        scenario.contenders.len()
    );
    refuse_if!(
        scenario.time_scale != 1.0
            && [Variable::Rate, Variable::Hold, Variable::Delay].into_iter().any(swept),
        "`time_scale` would change the swept values: remove it from the scenario"
    );
    refuse_if!(
        swept(Variable::Servers) && !scenario.ensemble.is_local(),
        "servers cannot be swept on an existing ensemble: remove --connect and --compose"
    );
    refuse_if!(
        swept(Variable::Delay) && !scenario.faults.is_empty(),
        "delay cannot be swept if the scenario has faults: remove its [[fault]] tables"
    );
    if swept(Variable::SessionTimeout) {
        check_session_timeout(scenario, swept(Variable::Delay))?;
    }
    refuse_if!(
        swept(Variable::Delay) && !matches!(scenario.stop, Stop::After(_)),
        "delay can be swept only if the measured phase has a duration: set one with --duration"
    );
    Ok(())
}

/// Rejects scenarios to which a session timeout sweep cannot add failures.
fn check_session_timeout(scenario: &Scenario, sweeps_delay: bool) -> Result<(), Error> {
    refuse_if!(sweeps_delay, "delay and session_timeout both add faults: sweep one of the two");
    refuse_if!(
        scenario.load == Load::Batch,
        "session_timeout is swept with failures, which a batch does not support: use load = \"closed\""
    );
    refuse_if!(
        scenario.time_scale != 1.0 && scenario.faults.is_empty(),
        "session_timeout is swept with failures, and `time_scale` would change their times: remove it"
    );
    Ok(())
}

fn parsed(text: &str) -> Result<Scenario, Error> {
    // Accept all faults: reading the scenario already checked which faults are possible on this host.
    let catalog = Catalog { has_host_commands: true, ..zklockbench_load::catalog() };
    let told = parse("the scenario with the sweep's values", text, &catalog);
    told.map(|parsed| parsed.scenario).map_err(|mistakes| {
        output::note(&mistakes.render(output::may_colour(&std::io::stderr())));
        Error::usage("the scenario cannot be run with the swept values; nothing was started")
    })
}

fn table_at(base: &Table, over: &[Over], failures: Option<&AddedFailures>, at: At) -> Result<Table, Error> {
    let mut table = base.clone();
    for (over, value) in over.iter().zip([Some(at.x), at.beside]) {
        let Some(value) = value else { continue };
        let whole = Value::from(value.round() as i64);
        match over.variable {
            Variable::Contenders => drop(table.insert("contenders".into(), whole)),
            Variable::Locks => drop(table.insert("locks".into(), whole)),
            Variable::Rate => drop(table.insert("rate".into(), Value::from(value))),
            Variable::Hold => drop(table.insert("hold".into(), Value::from(format!("{value}us")))),
            Variable::Servers => {
                let ensemble = table.entry("ensemble").or_insert_with(|| Value::Table(Table::new()));
                let ensemble =
                    ensemble.as_table_mut().ok_or_else(|| Error::usage("`ensemble` is not a table"))?;
                ensemble.insert("servers".into(), whole);
            }
            Variable::Delay => {
                let lasts = table.get("duration").and_then(Value::as_str).unwrap_or("10s").to_owned();
                let fault = distance(Duration::from_micros(value.round() as u64), &lasts);
                table.insert("fault".into(), Value::Array(vec![Value::Table(fault)]));
            }
            Variable::SessionTimeout => {
                table.insert("session_timeout".into(), Value::from(format!("{value}us")));
                failures.iter().for_each(|failures| failures.add(value, &mut table));
            }
        }
    }
    Ok(table)
}

pub fn announcement(question: &SweepQuestion, grid: &[f64], budget: Duration) -> String {
    let over = &question.over[0];
    let values: Vec<String> = grid.iter().map(|value| over.variable.show(*value)).collect();
    let second = question.over.get(1).map_or_else(String::new, |over| {
        let values: Vec<String> = over.few().iter().map(|value| over.variable.show(*value)).collect();
        format!(", for {} {}", over.variable.name(), values.join(", "))
    });
    let more = if matches!(over.values, Values::Range { .. }) {
        ", then more where they are most informative"
    } else {
        ""
    };
    format!(
        "{} of {}: first {}{second}{more}; at most {}",
        over.variable.name(),
        shown(&question.strategies.join(", "), 200),
        values.join(", "),
        format_duration(budget)
    )
}

/// Time before the first failure.
const LEAD: Duration = Duration::from_secs(2);
/// Resembles a long garbage collection in a contender or a server.
const PAUSE: Duration = Duration::from_secs(3);
/// Recovery time after a failure: servers expire sessions in whole ticks, and contenders open new sessions.
const RECOVERS: Duration = Duration::from_secs(4);
/// Additional time for an election after a pause of the leader.
const ELECTS: Duration = Duration::from_secs(4);

struct AddedFailures {
    /// Whether the leader can be paused.
    of_leader: bool,
}

impl AddedFailures {
    /// Returns the failures to add to this scenario; `None` if it has its own faults, or if the session timeout is
    /// not swept.
    fn to(scenario: &Scenario, over: &[Over]) -> Option<Self> {
        let is_swept = over.iter().any(|over| over.variable == Variable::SessionTimeout);
        let of_leader = match scenario.ensemble {
            EnsembleChoice::Local { servers, .. } => servers > 1,
            EnsembleChoice::Compose(_) => true,
            EnsembleChoice::Connect(_) => false,
        };
        (is_swept && scenario.faults.is_empty()).then_some(Self { of_leader })
    }

    fn note(&self) -> String {
        let pause = format_duration(PAUSE);
        let leader = if self.of_leader {
            format!(", and the leader is paused for {pause}")
        } else {
            "; the leader is paused only on local ensembles of 3 or 5 servers".to_owned()
        };
        format!("At each point, a holder crashes and a holder is frozen for {pause}{leader}.")
    }

    /// Adds consecutive failures for a session timeout in microseconds, and extends the duration to cover them.
    fn add(&self, timeout_us: f64, table: &mut Table) {
        let timeout = Duration::from_secs_f64(timeout_us / 1e6);
        let (mut at, mut faults) = (LEAD, Vec::new());
        let mut fault = |kind: &str, target: &str, lasts: Option<Duration>, takes: Duration| {
            let times = [("at", Some(at)), ("duration", lasts)];
            let times =
                times.into_iter().filter_map(|(key, time)| Some((key, format!("{}ms", time?.as_millis()))));
            let words = [("kind", kind.to_owned()), ("target", target.to_owned())].into_iter().chain(times);
            faults
                .push(Value::Table(words.map(|(key, value)| (key.to_owned(), Value::from(value))).collect()));
            at += takes + RECOVERS;
        };
        fault("crash", "holder", None, timeout);
        fault("freeze", "holder", Some(PAUSE), PAUSE);
        if self.of_leader {
            fault("pause", "leader", Some(PAUSE), PAUSE + ELECTS);
        }
        table.insert("fault".to_owned(), Value::Array(faults));
        table.remove("acquisitions");
        table.insert("duration".to_owned(), Value::from(format!("{}ms", at.as_millis())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_time_scale_would_change_cannot_be_swept() {
        let scaled =
            "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 3\nduration = \"10s\"\ntime_scale = 0.1\n";
        let scenario = parsed(scaled).unwrap();
        let mistake = |over: &str| {
            let over: Over = over.parse().unwrap();
            check(&scenario, &[over]).err().map(|error| error.to_string())
        };
        for over in ["hold=1ms..1s", "delay=1ms,5ms"] {
            assert!(mistake(over).is_some_and(|why| why.contains("`time_scale` would change")), "{over}");
        }
        assert_eq!(mistake("contenders=1..10"), None);
    }

    #[test]
    fn each_end_of_a_range_is_checked_with_both_ends_of_the_other_range() {
        let overs = ["contenders=1..100", "locks=1,5,10"].map(|text| text.parse::<Over>().unwrap());
        let all: Vec<_> = corners(&overs).iter().map(|at| (at.x, at.beside)).collect();
        // The third point has more locks than contenders, which a closed load does not permit.
        assert_eq!(all, [(1.0, Some(1.0)), (100.0, Some(1.0)), (1.0, Some(10.0)), (100.0, Some(10.0))]);
        let alone: Vec<_> = corners(&overs[..1]).iter().map(|at| (at.x, at.beside)).collect();
        assert_eq!(alone, [(1.0, None), (100.0, None)]);
    }
}
