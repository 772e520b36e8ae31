//! The two sides: their scenarios, ensembles, binaries and drivers. Also compares the drivers' declarations
//! and chooses default metrics for the load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::{AbArgs, SideArgs};
use crate::cli::drivers::{self, OwnDrivers, command_of};
use crate::cli::run::open_ensemble::Needs;
use crate::cli::runs::own_program;
use crate::cli::scenario_file::{Overrides, ScenarioFile, assignment};
use crate::cli::shared_args::CountingWhen;
use zklockbench_analysis::ab::{CellPair, FigureQuestion, Matrix, SideDriver, Turn, pair};
use zklockbench_analysis::compare::{losses_under, without_twins};
use zklockbench_core::catalog::Mode;
use zklockbench_core::error::Error;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::listed;
use zklockbench_locks::{DrivenLock, DrivenLocks, Program as DriverProgram};
use zklockbench_record::figures::{REQUESTS_PER_ACQUISITION, THROUGHPUT};
use zklockbench_record::{Figure, Statistic};
use zklockbench_scenario::{Load, Scenario, StrategyChoice, TrialPlan, TrialSpec};

/// Scenario keys that `ab` sets itself, each with what to use instead.
const DECIDED: [(&str, &str); 5] = [
    ("repetitions", "each block runs every combination once; use --blocks"),
    ("precision", "use --until, which adds blocks until the intervals are narrow enough"),
    ("repetitions_at_most", "use --blocks-at-most"),
    ("seed", "each block draws its own seed from the comparison's --seed"),
    ("gate", "choose metrics with --figure and --margin, and check gates with `run`"),
];

pub struct BySide<T> {
    pub a: T,
    pub b: T,
}

impl<T> BySide<T> {
    pub fn of(&self, turn: Turn) -> &T {
        if turn == Turn::B { &self.b } else { &self.a }
    }

    pub fn of_mut(&mut self, turn: Turn) -> &mut T {
        if turn == Turn::B { &mut self.b } else { &mut self.a }
    }
}

pub struct Side {
    /// Either [`Turn::A`] or [`Turn::B`].
    pub turn: Turn,
    /// Options of the side as typed, and descriptions of its drivers.
    pub differs: Vec<String>,
    pub file: ScenarioFile,
    /// Scenario for the runs, which may use another binary and cannot read standard input again.
    pub text: String,
    /// ZooKeeper directory of this side, if specified.
    pub zookeeper_home: Option<PathBuf>,
    pub program: Program,
    /// Drivers used only by this side, if any.
    pub drivers: Option<OwnDrivers>,
    overrides: Overrides,
}

/// A zklockbench binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub path: PathBuf,
    /// Version as reported by the binary, such as `zklockbench 0.1.0`.
    pub version: String,
}

impl Side {
    pub async fn read(turn: Turn, args: &AbArgs, own: &SideArgs) -> Result<Self, Error> {
        let overrides = overrides(turn, &args.overrides, own)?;
        // If the sides have different drivers, an error may affect only one side, so the message names the side.
        let differ = !args.side_a.drivers.is_empty() || !args.side_b.drivers.is_empty();
        let of_side = |error: Error| if differ { error.about(turn.title()) } else { error };
        let drivers = (!own.drivers.is_empty()).then(|| OwnDrivers::of(&own.drivers));
        let drivers = drivers.transpose().map_err(of_side)?;
        let locks = drivers.as_ref().map_or(DrivenLocks::registered(), |drivers| &drivers.locks);
        let file = ScenarioFile::read_with(&args.scenario, &overrides, locks)
            .map_err(|unusable| of_side(unusable.report(&args.scenario)))?;
        let scenario = &file.parsed.scenario;
        refuse_if!(
            scenario.precision.is_some(),
            "{} sets `precision`, which `ab` does not support: remove the key, and use --until {}%",
            args.scenario.display(),
            scenario.precision.map_or(5.0, |precision| 100.0 * precision.share)
        );
        refuse_if!(
            Needs::of(scenario).own_servers(),
            "`ab` cannot inject faults that break servers, because all blocks share the servers: remove these \
             faults, or compare two runs with `zklockbench compare`"
        );
        refuse_if!(
            own.zookeeper_home.is_some() && !scenario.ensemble.is_local(),
            "--{}-zookeeper-home needs local servers, but {} runs against other servers",
            turn.name(),
            turn.title()
        );
        let mut written = file.standing_alone(&args.scenario)?;
        // The comparison judges no gates, and `run` refuses a gate on a baseline if it has no baseline.
        written.remove("gate");
        Ok(Self {
            turn,
            text: written.to_string(),
            differs: differs(own, drivers.as_ref()),
            zookeeper_home: own
                .zookeeper_home
                .clone()
                .or_else(|| args.opening.install.zookeeper_home.clone()),
            program: Program::find(turn, own.program.as_deref()).await?,
            drivers,
            overrides,
            file,
        })
    }

    pub fn scenario(&self) -> &Scenario {
        &self.file.parsed.scenario
    }

    pub fn locks(&self) -> &DrivenLocks {
        self.drivers.as_ref().map_or(DrivenLocks::registered(), |drivers| &drivers.locks)
    }

    /// Returns the external ensemble that is specified only in the scenario, if any.
    pub fn unnamed(&self) -> Option<&str> {
        self.overrides.unnamed(self.scenario())
    }

    /// Returns whether `ab` starts the side's servers, and can therefore restart them.
    pub fn has_own_servers(&self) -> bool {
        !self.scenario().ensemble.is_external()
    }

    pub fn shares_ensemble_with(&self, other: &Self) -> bool {
        self.scenario().ensemble == other.scenario().ensemble && self.zookeeper_home == other.zookeeper_home
    }

    pub fn matrix(&self) -> Matrix {
        let scenario = self.scenario();
        Matrix {
            strategies: scenario.strategies.iter().map(|strategy| strategy.label.clone()).collect(),
            contenders: scenario.contenders.clone(),
        }
    }

    pub fn recorded_drivers(&self) -> Vec<SideDriver> {
        let record = |program: &DriverProgram| SideDriver {
            name: program.command.name.clone(),
            command: command_of(&program.command),
            driver: program.ready.driver.clone(),
            inside: program.ready.inside.clone(),
        };
        self.drivers.iter().flat_map(|drivers| &drivers.own).map(record).collect()
    }
}

/// Returns the overrides of a side: its own overrides, and all common ones that they do not replace.
fn overrides(turn: Turn, common: &Overrides, own: &SideArgs) -> Result<Overrides, Error> {
    let mut all = common.clone();
    if own.connect.is_some() || own.compose.is_some() {
        (all.place.servers, all.place.data_dir) = (None, None);
    }
    if own.connect.is_some() || own.compose.is_some() || own.zookeeper_home.is_some() {
        (all.place.connect, all.place.compose) = (own.connect.clone(), own.compose.clone());
    }
    for text in &own.set {
        // Uses the syntax of `--set`.
        let (key, value) = assignment(&format!("--{}", turn.name()), text)?;
        all.set.push(format!("{key}={value}"));
    }
    let options = [("repetitions", all.repetitions.is_some()), ("gate", !all.gate.is_empty())];
    for (key, why) in DECIDED {
        if options.contains(&(key, true)) || all.set.iter().any(|set| is_about(set, key)) {
            return Err(Error::usage(format!("`{key}` cannot be set for a comparison: {why}")));
        }
    }
    all.repetitions = Some(1);
    Ok(all)
}

fn is_about(set: &str, key: &str) -> bool {
    let path = set.split('=').next().unwrap_or_default().trim();
    path == key || path.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'))
}

fn differs(own: &SideArgs, drivers: Option<&OwnDrivers>) -> Vec<String> {
    let path =
        |name: &str, path: &Option<PathBuf>| path.as_ref().map(|path| format!("{name}={}", path.display()));
    let places = [
        own.connect.as_ref().map(|connect| format!("connect={connect}")),
        path("compose", &own.compose),
        path("zookeeper-home", &own.zookeeper_home),
        path("program", &own.program),
    ];
    let drivers = drivers.into_iter().flat_map(|drivers| &drivers.own).map(drivers::told);
    own.set.iter().cloned().chain(places.into_iter().flatten()).chain(drivers).collect()
}

const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

impl Program {
    async fn find(turn: Turn, named: Option<&Path>) -> Result<Self, Error> {
        let Some(named) = named else {
            return Ok(Self {
                path: own_program()?,
                version: format!("zklockbench {}", env!("CARGO_PKG_VERSION")),
            });
        };
        let unusable = |why: &str| {
            let (option, path) = (turn.name(), named.display());
            Error::usage(format!("--{option}-program {path}: {why}; specify a zklockbench binary"))
        };
        // A bare name is looked up in PATH, unless a file of that name exists.
        let path = named.canonicalize().unwrap_or_else(|_| named.to_owned());
        let mut command = tokio::process::Command::new(&path);
        command.arg("--version").stdin(std::process::Stdio::null()).kill_on_drop(true);
        let answer = tokio::time::timeout(ANSWERS_WITHIN, command.output()).await;
        let answer = answer.map_err(|_| unusable("does not report its version"))?;
        let answer = answer.map_err(|error| unusable(&format!("cannot be started: {error}")))?;
        let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        if !answer.status.success() || !said.starts_with("zklockbench ") {
            return Err(unusable("is not zklockbench"));
        }
        Ok(Self { path, version: said })
    }
}

/// Checks that the sides' drivers can be compared; returns notes on their differences.
pub fn compared_drivers(a: &Side, b: &Side) -> Result<Vec<String>, Error> {
    let mut notes = same_drivers(a, b);
    for (choices, locks) in compared_locks(a, b) {
        let name = &choices[0].name;
        let reads = locks.map(|lock| lock.abilities.modes.contains(&Mode::Read));
        if a.scenario().read_ratio > 0.0 && reads[0] != reads[1] {
            let lacks = if reads[0] { Turn::B } else { Turn::A };
            return Err(Error::usage(format!(
                "the scenario sets `read_ratio`, but `{name}` of {} has no read lock, unlike the other side's: remove \
                 `read_ratio` or `{name}`",
                lacks.title()
            )));
        }
        let differences = differences(choices, locks);
        if !differences.is_empty() {
            notes.push(format!(
                "note: the drivers of A and B declare `{name}` differently: {}",
                listed(&differences)
            ));
        }
    }
    Ok(notes)
}

/// Returns notes on drivers that describe themselves identically on both sides.
fn same_drivers(a: &Side, b: &Side) -> Vec<String> {
    let (Some(of_a), Some(of_b)) = (&a.drivers, &b.drivers) else { return Vec::new() };
    let twin = |one: &DriverProgram| {
        let other = of_b.own.iter().find(|other| other.command.name == one.command.name)?;
        (other.said() == one.said()).then_some(())?;
        let (name, said) = (&one.command.name, one.said());
        Some(match one.command == other.command {
            true => {
                format!("note: A and B have the same driver `{name}` ({said}), started by the same command")
            }
            false => format!(
                "warning: the drivers `{name}` of A and B have the same description ({said}): if \
                 they should be different versions, check both commands"
            ),
        })
    };
    of_a.own.iter().filter_map(twin).collect()
}

/// A driver's lock that both sides use, if at least one side has its own drivers.
type ComparedLock<'a> = ([&'a StrategyChoice; 2], [&'a DrivenLock; 2]);

fn compared_locks<'a>(a: &'a Side, b: &'a Side) -> impl Iterator<Item = ComparedLock<'a>> {
    let has_own = a.drivers.is_some() || b.drivers.is_some();
    a.scenario().strategies.iter().filter(move |_| has_own).filter_map(|choice| {
        let other = b.scenario().strategies.iter().find(|other| other.label == choice.label)?;
        let locks = [a.locks().find(&choice.name)?, b.locks().find(&other.name)?];
        Some(([choice, other], locks))
    })
}

/// Returns the differences in declared abilities and default parameters.
fn differences([a, b]: [&StrategyChoice; 2], locks: [&DrivenLock; 2]) -> Vec<String> {
    let declared = |lock: &DrivenLock| {
        let abilities = lock.abilities;
        let word = |of: &dyn std::fmt::Debug| format!("{of:?}").to_lowercase();
        [
            ("timeout", word(&abilities.timeout)),
            ("cancel", word(&abilities.cancel)),
            ("token", word(&abilities.token)),
            ("order", word(&abilities.order)),
            ("reentrant", word(&abilities.reentrant)),
        ]
    };
    let [of_a, of_b] = locks.map(declared);
    let abilities = of_a.into_iter().zip(of_b).filter(|(a, b)| a != b);
    let abilities = abilities.map(|((what, a), (_, b))| format!("`{what}` is {a} on A and {b} on B"));
    let value = |of: &StrategyChoice, name: &str| {
        of.params.get(name).map_or_else(|| "missing".to_owned(), ToString::to_string)
    };
    let names: std::collections::BTreeSet<&String> = a.params.keys().chain(b.params.keys()).collect();
    let params = names.into_iter().filter(|name| a.params.get(*name) != b.params.get(*name));
    let params = params
        .map(|name| format!("`{name}` is {} on A and {} on B by default", value(a, name), value(b, name)));
    abilities.chain(params).collect()
}

/// Returns the metrics to compare: the requested metrics, or the defaults for the loads of both sides.
///
/// By default, requests are compared if both sides use drivers: one additional request slows a lock by less than
/// the margins, but can be counted exactly.
pub fn questions(
    a: &Side,
    b: &Side,
    asked: &[Figure],
    counting: CountingWhen,
) -> Result<Vec<FigureQuestion>, Error> {
    let cells = pair(&a.matrix(), &b.matrix()).map_err(Error::usage)?;
    let plans = [TrialPlan::of(a.scenario()), TrialPlan::of(b.scenario())];
    let common = |cells: &CellPair, of: &dyn Fn(&TrialSpec) -> Vec<Figure>| -> Vec<Figure> {
        let [first, second] = [(&plans[0], &cells.a), (&plans[1], &cells.b)].map(|(plan, cell)| {
            let is_it = |trial: &&TrialSpec| {
                trial.strategy.label == cell.strategy && trial.contenders == cell.contenders
            };
            plan.trials.iter().find(is_it).map(of).unwrap_or_default()
        });
        first.into_iter().filter(|figure| second.contains(figure)).collect()
    };
    if !asked.is_empty() {
        return Ok(each(&cells, false, |_| without_twins(asked)));
    }
    let is_counted = |strategy: &StrategyChoice| {
        let is_driven = |side: &Side| side.locks().find(&strategy.name).is_some();
        counting != CountingWhen::Never && strategy.system.is_none() && is_driven(a) && is_driven(b)
    };
    let planned =
        each(&cells, false, |cells| common(cells, &|trial| usual(trial, is_counted(&trial.strategy))));
    refuse_if!(planned.is_empty(), "A and B have no default metric in common: choose one with --figure");
    Ok([planned, each(&cells, true, |cells| common(cells, &lost))].concat())
}

fn each(
    cells: &[CellPair],
    only_if_lost: bool,
    figures: impl Fn(&CellPair) -> Vec<Figure>,
) -> Vec<FigureQuestion> {
    let of = |cells: &CellPair| {
        let question = |figure| FigureQuestion { cells: cells.clone(), figure, only_if_lost };
        figures(cells).into_iter().map(question).collect::<Vec<_>>()
    };
    cells.iter().flat_map(of).collect()
}

fn lost(trial: &TrialSpec) -> Vec<Figure> {
    losses_under(trial.load.name()).collect()
}

/// Returns the default metrics for which the trial will have enough samples. `is_counted` is whether the
/// lock's requests are counted on the wire.
fn usual(trial: &TrialSpec, is_counted: bool) -> Vec<Figure> {
    let percentile = |measure, percent| Figure::Latency(measure, Statistic::percent(percent));
    let mut figures = match trial.load {
        // The conductor sets the pace of a batch, so throughput is not a metric.
        Load::Batch => Vec::new(),
        Load::Closed | Load::Open(_) => vec![percentile(Measure::Wait, 50), percentile(Measure::Wait, 99)],
    };
    if trial.load == Load::Closed {
        figures.insert(0, THROUGHPUT.figure());
    }
    if trial.contenders.div_ceil(trial.locks.max(1)) > 1 {
        figures.push(percentile(Measure::Handoff, 50));
    }
    if figures.is_empty() {
        figures.push(percentile(Measure::Uncontended, 50));
    }
    if is_counted {
        figures.push(REQUESTS_PER_ACQUISITION.figure());
    }
    let expected = trial.estimated_acquisitions();
    figures.retain(|figure| {
        let needed = figure.samples_needed();
        needed == 1 || needed as f64 <= expected
    });
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::shared_args::PlaceArgs;

    use zklockbench_scenario::{EnsembleChoice, parse};

    fn own(set: &[&str]) -> SideArgs {
        SideArgs { set: set.iter().map(|&text| text.into()).collect(), ..SideArgs::default() }
    }

    #[test]
    fn side_options_are_passed_on_as_toml_assignments() {
        let all = |turn, text: &str| overrides(turn, &Overrides::default(), &own(&[text]));
        assert_eq!(all(Turn::A, "hold=5ms").unwrap().set, ["hold=\"5ms\""]);
        assert_eq!(all(Turn::A, "strategies=[\"baton\"]").unwrap().set, ["strategies=[\"baton\"]"]);
        let told = all(Turn::B, "hold").unwrap_err().to_string();
        assert!(told.starts_with("--b hold: "), "{told}");
    }

    #[test]
    fn keys_set_by_ab_cannot_be_overridden() {
        let refused =
            |common: Overrides, set: &[&str]| overrides(Turn::A, &common, &own(set)).unwrap_err().to_string();
        assert!(refused(Overrides::default(), &["repetitions=5"]).contains("--blocks"));
        assert!(refused(Overrides::default(), &["seed=5"]).contains("--seed"));
        assert!(
            refused(Overrides { set: vec!["precision=\"2%\"".into()], ..Overrides::default() }, &[])
                .contains("--until")
        );
        assert!(
            refused(Overrides { repetitions: Some(3), ..Overrides::default() }, &[]).contains("--blocks")
        );
        // A gate that `ab` accepted but did not judge would always pass.
        let gated = Overrides { gate: vec!["throughput > 1/s".into()], ..Overrides::default() };
        assert!(refused(gated, &[]).contains("check gates with `run`"));
        let expected = "check gates with `run`";
        assert!(refused(Overrides::default(), &["gate=[\"throughput > 1/s\"]"]).contains(expected));
    }

    #[test]
    fn ensemble_of_one_side_replaces_the_common_ensemble() {
        let place = PlaceArgs { connect: Some("zk1:2181".into()), servers: Some(5), ..PlaceArgs::default() };
        let common = Overrides { place, ..Overrides::default() };
        let elsewhere = SideArgs { connect: Some("zk2:2181".into()), ..SideArgs::default() };
        let all = overrides(Turn::B, &common, &elsewhere).unwrap();
        assert_eq!((all.place.connect.as_deref(), all.place.servers), (Some("zk2:2181"), None));
        let all = overrides(Turn::A, &common, &own(&["hold=5ms"])).unwrap();
        assert_eq!(all.place.connect.as_deref(), Some("zk1:2181"));
    }

    #[tokio::test]
    async fn runs_of_a_side_get_a_scenario_with_all_overrides() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(
            file.path(),
            "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\n\
             gate = [\"throughput not regressed by 5% against baseline\"]\n",
        )
        .unwrap();
        let scenario = file.path().to_str().unwrap();
        use clap::Parser;
        let words = [
            "zklockbench",
            "ab",
            scenario,
            "--b",
            "hold=6ms",
            "--b",
            "ensemble.servers=1",
            "--duration",
            "2s",
            "--strategies",
            "baton",
            "--evidence",
            "0.99@1%",
        ];
        let crate::cli::args::Command::Ab(args) =
            crate::cli::args::Cli::try_parse_from(words).unwrap().command
        else {
            panic!("`ab` was not parsed")
        };
        let side = Side::read(Turn::B, &args, &args.side_b.clone().into()).await.unwrap();
        assert_eq!(side.differs, ["hold=6ms", "ensemble.servers=1"]);
        assert!(matches!(side.scenario().ensemble, EnsembleChoice::Local { servers: 1, .. }));
        let written: toml::Table = side.text.parse().unwrap();
        let duration = written["duration"].as_str();
        assert_eq!((written["hold"].as_str(), duration), (Some("6ms"), Some("2s")), "{}", side.text);
        assert_eq!(written["repetitions"].as_integer(), Some(1));
        // `run` would refuse this gate, because it has no baseline.
        assert_eq!(written.get("gate"), None);
    }

    fn names(text: &str) -> Vec<String> {
        let text = format!("name = \"x\"\nstrategies = [\"baton\"]\n{text}");
        let parsed =
            parse("x", &text, &zklockbench_load::catalog()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        usual(&TrialPlan::of(&parsed.scenario).trials[0], false).iter().map(Figure::to_string).collect()
    }

    #[test]
    fn default_metrics_depend_on_the_load() {
        let closed = "contenders = 5\nhold = \"5ms\"\n";
        assert_eq!(names(&format!("{closed}duration = \"2s\"")), ["throughput", "wait.p50", "handoff.p50"]);
        assert_eq!(
            names(&format!("{closed}duration = \"30s\"")),
            ["throughput", "wait.p50", "wait.p99", "handoff.p50"],
            "once a trial has a thousand samples"
        );
        assert_eq!(names("contenders = 1\nhold = \"5ms\"\nduration = \"2s\""), ["throughput", "wait.p50"]);
        assert_eq!(names("contenders = 50\nload = \"batch\"\nhold = \"1ms\""), ["handoff.p50"]);
    }
}
