//! Reads a scenario file and applies the command line's overrides.
//!
//! Overrides change the parsed file, and the changed file is then parsed again. All rules for files therefore
//! also apply to overrides, and the results contain the scenario that actually ran.

use std::borrow::Cow;
use std::cell::RefCell;
use std::path::{Path, PathBuf};

use clap::Args;
use toml::{Table, Value};

use super::args::STRATEGIES;
use super::scenario_source::{STDIN, Source, read_trace};
use super::shared_args::{ColumnArgs, PlaceArgs};
use super::{drivers, output};

use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{counted, shown};
use zklockbench_ensemble::{parse_connect, source_of_connect};
use zklockbench_locks::{DrivenLocks, own_label};
use zklockbench_record::{Replayed, Run, figures};
use zklockbench_scenario::fields::GATE;
use zklockbench_scenario::gate::{Known, KnownCells, Mistake, parse as parse_gate};
use zklockbench_scenario::{
    Catalog, Columns, Diagnostic, Diagnostics, EnsembleChoice, Parsed, Scenario, Written, decode,
    parse_with_traces,
};

pub struct ScenarioFile {
    pub parsed: Parsed,
    pub text: String,
    pub overrides: Vec<String>,
    /// Notes on keys that were dropped because the overrides made them meaningless.
    pub left_out: Vec<String>,
    /// File of replayed arrivals, and its digest.
    pub replayed: Option<Replayed>,
}

pub enum Unusable {
    Mistakes(Diagnostics),
    /// Any other error, such as a missing file or an invalid override.
    Other(Error),
}

impl ScenarioFile {
    /// Reads the file, applies the overrides and parses the result. Drops keys that the overrides make
    /// meaningless; in the file itself, such keys would be mistakes.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self, Unusable> {
        Self::read_with(path, overrides, DrivenLocks::registered())
    }

    /// Like [`ScenarioFile::read`], but with these drivers' locks.
    pub fn read_with(path: &Path, overrides: &Overrides, driven: &DrivenLocks) -> Result<Self, Unusable> {
        let Source { name, directory, bytes } = Source::read(path).map_err(Unusable::Other)?;
        let text = decode(&name, bytes).map_err(Unusable::Mistakes)?;
        let has_host_commands = overrides.hosts.is_some();
        let catalog = Catalog { locks: driven.cards(), has_host_commands, ..zklockbench_load::catalog() };
        let replayed = RefCell::new(None);
        let options = overrides.columns.columns();
        let traces = |file: &Path, columns: &Columns| {
            let columns = options.clone().or(columns);
            let (arrivals, sha256) = read_trace(&directory, file, &columns)?;
            replayed.replace(Some(Replayed { file: file.display().to_string(), sha256 }));
            Ok(arrivals)
        };
        let parse = |name: &str, text: &str| parse_with_traces(name, text, &catalog, &traces);
        let parsed = parse(&name, &text).map_err(Unusable::Mistakes)?;
        overrides.check_gates(&parsed.scenario).map_err(Unusable::Mistakes)?;
        let mut read = match overrides.apply(&text).map_err(Unusable::Other)? {
            None => Self { parsed, text, overrides: Vec::new(), left_out: Vec::new(), replayed: None },
            Some(changed) => {
                replayed.take();
                changed.read(&name, parse)?
            }
        };
        read.replayed = replayed.into_inner();
        read.overrides.extend(overrides.hosts.as_ref().map(|file| format!("--hosts {}", file.display())));
        overrides.check_containers(&name, &read.parsed.scenario).map_err(Unusable::Other)?;
        drivers::check(&read.parsed.scenario, driven).map_err(Unusable::Other)?;
        Ok(read)
    }

    /// Reads the scenario of a recorded run. Fails if its file of replayed arrivals has changed since.
    pub fn recorded(run: &Run) -> Result<Self, Error> {
        const NAME: &str = "the scenario of the run";
        let traces = |file: &Path, columns: &Columns| {
            let (arrivals, sha256) = read_trace(Path::new(""), file, columns).map_err(|why| {
                format!("{why}; run this command in the directory that the path is relative to")
            })?;
            match run.replayed.as_ref().is_some_and(|replayed| replayed.sha256 == sha256) {
                true => Ok(arrivals),
                false => Err(format!("{} has changed since the run started", file.display())),
            }
        };
        // Accept all faults: another check decides which faults are possible on this host.
        let catalog = Catalog { has_host_commands: true, ..zklockbench_load::catalog() };
        let parsed = parse_with_traces(NAME, &run.scenario_text, &catalog, &traces);
        let parsed = parsed.map_err(|mistakes| Unusable::Mistakes(mistakes).report(Path::new(NAME)))?;
        Ok(Self {
            parsed,
            text: run.scenario_text.clone(),
            overrides: run.overrides.clone(),
            left_out: Vec::new(),
            replayed: run.replayed.clone(),
        })
    }

    /// Returns the scenario's keys, with an absolute path to any replayed file, so that it runs in any directory.
    pub fn standing_alone(&self, path: &Path) -> Result<Table, Error> {
        let mut table: Table = self.text.parse().map_err(Error::usage)?;
        let replay = table.get_mut("arrivals").and_then(|arrivals| arrivals.get_mut("replay"));
        if let (Some(replay), Some(replayed)) = (replay, &self.replayed) {
            let beside = path.parent().unwrap_or(Path::new("")).join(&replayed.file);
            let absolute = std::path::absolute(&beside).map_err(Error::cannot("find", &beside))?;
            let file = if replay.is_str() { replay } else { &mut replay["file"] };
            *file = absolute.display().to_string().into();
        }
        Ok(table)
    }
}

impl Unusable {
    /// Reports the mistakes as JSON with `--json`, otherwise like [`Self::report`]; returns the exit code.
    pub fn tell(self, command: &str, path: &Path) -> Result<Exit, Error> {
        if !output::as_json() {
            return Err(self.report(path));
        }
        let mistakes = match &self {
            Self::Mistakes(mistakes) => mistakes.machine(),
            Self::Other(_) => Vec::new(),
        };
        let error = self.report(path);
        output::complain(&error);
        output::answer_error(command, &error, mistakes)
    }

    /// Prints the mistakes as text, and returns the error to exit with.
    pub fn report(self, path: &Path) -> Error {
        match self {
            Self::Other(error) => error,
            Self::Mistakes(mistakes) => {
                output::verbatim(&mistakes.render(output::may_colour(&std::io::stderr())));
                let count = mistakes.len();
                let count = counted(count, "mistake", "mistakes");
                let name = if path == Path::new(STDIN) {
                    "standard input".into()
                } else {
                    path.display().to_string()
                };
                Error::usage(format!("{name}: {count}; nothing was started"))
            }
        }
    }
}

impl PlaceArgs {
    /// Returns a minimal scenario with these options. It never runs; parsing it checks the options by the rules for
    /// ensembles.
    pub fn scenario(&self, name: &str) -> Result<Scenario, Error> {
        let any = format!(
            "name = \"{name}\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 1\nduration = \"1s\"\n"
        );
        let overrides = Overrides { place: self.clone(), ..Overrides::default() };
        let text = match overrides.apply(&any)? {
            Some(changed) => toml::to_string(&changed.table).map_err(Error::usage)?,
            None => any,
        };
        let parsed = zklockbench_scenario::parse("the options", &text, &zklockbench_load::catalog());
        Ok(parsed?.scenario)
    }
}

struct Changed {
    table: Table,
    changes: Vec<KeyChange>,
    gates: Vec<String>,
}

impl Changed {
    /// Parses the scenario without the keys that the overrides made meaningless.
    fn read(
        mut self,
        name: &str,
        parse: impl Fn(&str, &str) -> Result<Parsed, Diagnostics>,
    ) -> Result<ScenarioFile, Unusable> {
        let options: Vec<&str> = self.changes.iter().map(|change| change.option.text.as_str()).collect();
        let changed = format!("{name} with {}", options.join(" "));
        let written = || self.changes.iter().map(|change| change.option.clone()).collect::<Vec<_>>();
        let mut left_out = Vec::new();
        loop {
            let text = toml::to_string(&self.table).map_err(|error| Unusable::Other(Error::usage(error)))?;
            let mistakes = match parse(&changed, &text) {
                Ok(parsed) => {
                    let without = left_out.iter().map(|key| format!("without {key}"));
                    let told = |key| {
                        format!(
                            "`{key}` of {name} is ignored, because it has no effect with {}",
                            options.join(" ")
                        )
                    };
                    return Ok(ScenarioFile {
                        parsed: Parsed { warnings: parsed.warnings.with_options(written()), ..parsed },
                        text,
                        overrides: self.told().chain(without).collect(),
                        left_out: left_out.iter().map(told).collect(),
                        replayed: None,
                    });
                }
                Err(mistakes) => mistakes,
            };
            let found = mistakes.iter().flat_map(|mistake| &mistake.idle).find(|key| !self.sets(key));
            let Some(idle) = found.copied().filter(|key| remove(&mut self.table, key)) else {
                return Err(Unusable::Mistakes(mistakes.with_options(written())));
            };
            left_out.push(idle);
        }
    }

    fn sets(&self, key: &str) -> bool {
        self.changes.iter().any(|change| change.option.key.iter().any(|part| part == key))
    }

    fn told(&self) -> impl Iterator<Item = String> {
        let told = self
            .changes
            .iter()
            .map(|KeyChange { option, value }| format!("{}={value}", option.key.join(".")));
        told.chain(self.gates.iter().map(|gate| format!("--gate '{gate}'")))
    }
}

/// Removes a key of the scenario or of its ensemble; returns whether it was present.
fn remove(table: &mut Table, key: &str) -> bool {
    let ensemble = |table: &mut Table| table.get_mut("ensemble")?.as_table_mut()?.remove(key);
    table.remove(key).is_some() || ensemble(table).is_some()
}

/// Options that override keys of the scenario.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes to the scenario")]
pub struct Overrides {
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Use these strategies instead of the scenario's
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = STRATEGIES, hide_possible_values = true)]
    pub strategies: Vec<String>,
    /// Numbers of contenders, e.g. 1,10,100
    #[arg(long, short, value_name = "N,…", value_delimiter = ',', value_parser = contender_count)]
    pub contenders: Vec<i64>,
    /// Repetitions of each combination
    #[arg(long, short, value_name = "N")]
    pub repetitions: Option<i64>,
    /// Duration of the measured phase, e.g. 5s
    #[arg(long, short, value_name = "TIME")]
    pub duration: Option<String>,
    /// Multiply all times in the scenario by this factor, e.g. 0.1 to run ten times faster
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<f64>,
    /// Seed for all random numbers
    #[arg(long, value_name = "N")]
    pub seed: Option<i64>,
    /// Error rate that each trial must rule out for a verdict of held. With 0.99@1%, a lock that errs in 1% of its
    /// acquisitions is caught with a probability of 0.99
    #[arg(long, value_name = "P@RATE")]
    pub evidence: Option<String>,
    /// Add a gate, e.g. --gate 'wait.p99 < 50ms': the exit code is 1 if the gate fails, 4 if it is unknown
    #[arg(long, value_name = "CONDITION")]
    pub gate: Vec<String>,
    /// Inject server faults on the servers of --connect with the commands in this file (docs/operating.md)
    #[arg(long, value_name = "FILE", requires = "connect")]
    pub hosts: Option<PathBuf>,
    #[command(flatten)]
    pub columns: ColumnArgs,
    /// Set any key, e.g. --set hold=5ms or --set ensemble.servers=5
    #[arg(long, short, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

fn contender_count(text: &str) -> Result<i64, String> {
    text.trim().parse().map_err(|_| "not a whole number; write, for example, `20` or `1,10,100`".to_owned())
}

struct KeyChange {
    option: Written,
    value: Value,
}

impl Overrides {
    /// Rejects a Compose file that is specified only in the scenario: a scenario may be untrusted, and containers
    /// may use any directory of this host with any privilege.
    pub fn check_containers(&self, file: &str, scenario: &Scenario) -> Result<(), Error> {
        let EnsembleChoice::Compose(compose) = &scenario.ensemble else { return Ok(()) };
        if self.place.compose.is_some() || self.sets_ensemble("compose") {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{file}: the `compose` key of a scenario does not start containers, because a Compose file can do anything \
             to this host. Inspect {} and, if you trust it, add --compose FILE to the command line",
            compose.display()
        )))
    }

    /// Returns the scenario's external ensemble after overrides, unless the command line specifies it.
    pub fn unnamed<'a>(&self, scenario: &'a Scenario) -> Option<&'a str> {
        match &scenario.ensemble {
            EnsembleChoice::Connect(connect) => {
                let is_named = self.place.connect.is_some() || self.sets_ensemble("connect");
                (!is_named).then_some(connect)
            }
            EnsembleChoice::Local { .. } | EnsembleChoice::Compose(_) => None,
        }
    }

    fn sets_ensemble(&self, key: &str) -> bool {
        let sets = |text: &String| {
            let set = text.split_once('=').map_or(text.as_str(), |(set, _)| set).trim();
            set == "ensemble" || set.strip_prefix("ensemble.") == Some(key)
        };
        self.set.iter().any(sets)
    }

    pub fn change_more_than_the_place(&self) -> Result<bool, Error> {
        let place = PlaceArgs { connect: None, compose: None, ..self.place.clone() };
        Ok((Self { place, ..self.clone() }).apply("")?.is_some())
    }

    /// Applies the overrides to the parsed file; `None` if there are none.
    fn apply(&self, text: &str) -> Result<Option<Changed>, Error> {
        // Check the connect string here, so an error quotes the option and not a line of a file.
        self.place.connect.as_deref().map(parse_connect).transpose()?;
        let mut changes = self.changes()?;
        if changes.is_empty() && self.gate.is_empty() && self.strategies.is_empty() {
            return Ok(None);
        }
        let mut table: Table = text.parse().map_err(|error| Error::usage(format!("{error}")))?;
        changes.extend(self.chosen(&table));
        if self.place.connect.is_some() || self.place.compose.is_some() {
            table.remove("ensemble");
        }
        if self.columns.are_given() {
            spell_out_replay(&mut table)?;
        }
        for KeyChange { option, value } in &changes {
            put(&mut table, &option.key, value.clone())?;
        }
        if !self.gate.is_empty() {
            let gates = table.entry(GATE).or_insert_with(|| Value::Array(Vec::new()));
            let gates = gates.as_array_mut().ok_or_else(|| Error::usage("`gate` is not a list"))?;
            gates.extend(self.gate.iter().map(|gate| Value::from(gate.as_str())));
        }
        Ok(Some(Changed { table, changes, gates: self.gate.clone() }))
    }

    /// Parses the gates before the scenario, so mistakes are reported with their columns in the option.
    ///
    /// Strategies and contenders in gates are checked later if overrides change them.
    fn check_gates(&self, scenario: &Scenario) -> Result<(), Diagnostics> {
        let labels: Vec<String> = scenario.strategies.iter().map(|strategy| strategy.label.clone()).collect();
        let locks = zklockbench_locks::cards();
        let cells = KnownCells { strategies: &labels, locks: &locks, contenders: &scenario.contenders };
        let is_as_written = self.contenders.is_empty() && self.strategies.is_empty() && self.set.is_empty();
        let known = Known { figures: &figures::cards(), cells: is_as_written.then_some(cells) };
        for gate in &self.gate {
            if let Err(mistake) = parse_gate(gate, known) {
                let Mistake { span, message, help, .. } = mistake;
                return Err(Diagnostics::new("--gate", gate, vec![Diagnostic::error(span, message, help)]));
            }
        }
        Ok(())
    }

    /// Returns the requested strategies as listed in the scenario; unlisted strategies get default parameters.
    fn chosen(&self, table: &Table) -> Option<KeyChange> {
        let listed = table.get("strategies").and_then(Value::as_array).cloned().unwrap_or_default();
        let named = |name: &String| {
            let name = own_label(name.trim());
            let own = listed.iter().filter(|one| name_of(one).is_some_and(|own| own_label(&own) == name));
            let own: Vec<Value> = own.cloned().collect();
            if own.is_empty() { vec![Value::from(name)] } else { own }
        };
        let chosen: Vec<Value> = self.strategies.iter().flat_map(named).collect();
        let text = format!("--strategies {}", self.strategies.join(","));
        let option = Written { key: path("strategies"), text };
        (!chosen.is_empty()).then(|| KeyChange { option, value: chosen.into() })
    }

    fn changes(&self) -> Result<Vec<KeyChange>, Error> {
        let mut changes = Vec::new();
        let mut change = |option: &str, key: &str, value: Option<Value>| {
            changes.extend(value.map(|value| {
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                KeyChange { option: Written { key: path(key), text: format!("{option} {shown}") }, value }
            }));
        };
        let shown = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string().into());
        let connect = self.place.connect.as_deref();
        change(connect.map_or("", source_of_connect), "ensemble.connect", connect.map(Value::from));
        change("--compose", "ensemble.compose", shown(&self.place.compose));
        change("--servers", "ensemble.servers", self.place.servers.map(Value::from));
        change("--data-dir", "ensemble.data_dir", shown(&self.place.data_dir));
        let contenders = (!self.contenders.is_empty()).then(|| self.contenders.clone().into());
        change("--contenders", "contenders", contenders);
        change("--repetitions", "repetitions", self.repetitions.map(Value::from));
        change("--duration", "duration", self.duration.clone().map(Value::from));
        change("--time-scale", "time_scale", self.time_scale.map(Value::from));
        change("--evidence", "evidence", self.evidence.clone().map(Value::from));
        change("--seed", "seed", self.seed.map(Value::from));
        let ColumnArgs { time_column, lock_column, hold_column, time_unit, hold_unit } = &self.columns;
        for (name, column) in [("time", time_column), ("lock", lock_column), ("hold", hold_column)] {
            let key = format!("arrivals.replay.{name}_column");
            change(&format!("--{name}-column"), &key, column.clone().map(Value::from));
        }
        for (name, unit) in [("time", time_unit), ("hold", hold_unit)] {
            let value = unit.map(|unit| unit.name().into());
            change(&format!("--{name}-unit"), &format!("arrivals.replay.{name}_unit"), value);
        }
        for text in &self.set {
            let (key, value) = assignment("--set", text)?;
            let option = Written { key: path(&key), text: format!("--set {text}") };
            changes.push(KeyChange { option, value });
        }
        Ok(changes)
    }
}

/// Replaces the path of a file of arrivals with a table, so the columns can be set.
fn spell_out_replay(table: &mut Table) -> Result<(), Error> {
    let replay = table.get_mut("arrivals").and_then(|arrivals| arrivals.get_mut("replay"));
    let replay = replay.ok_or_else(|| {
        Error::usage(
            "--time-column and other column options need a scenario with `arrivals = { replay = … }`",
        )
    })?;
    if replay.is_str() {
        *replay = Table::from_iter([("file".to_owned(), replay.clone())]).into();
    }
    Ok(())
}

/// Returns the name of a strategy in a scenario's list.
pub fn name_of(listed: &Value) -> Option<Cow<'_, str>> {
    let text = |key: &str| listed.get(key)?.as_str();
    let driven = || Some(format!("{}:{}", text("driver")?, text("lock")?));
    let name = listed.as_str().or_else(|| text("name"));
    name.map(Cow::Borrowed).or_else(|| driven().map(Cow::Owned))
}

fn path(key: &str) -> Vec<String> {
    key.split('.').map(str::to_owned).collect()
}

/// Parses `KEY=VALUE`. A value that is not valid TOML is text: `hold=5ms` means `hold="5ms"`.
pub fn assignment(option: &str, text: &str) -> Result<(String, Value), Error> {
    // The length also limits the nesting.
    let is_plain = |key: &str| {
        (1..=200).contains(&key.len()) && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
    };
    let wrong = |help: &str| Error::usage(format!("{option} {}: {help}", shown(text, 80)));
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    let Some((key, value)) = parts.filter(|(key, value)| is_plain(key) && !value.is_empty()) else {
        return Err(wrong(&format!(
            "invalid assignment; write {option} KEY=VALUE, e.g. {option} hold=5ms or {option} 'strategies=[\"baton\"]'"
        )));
    };
    let read = format!("value = {value}").parse::<Table>().ok().filter(|table| table.len() == 1);
    match read.and_then(|mut table| table.remove("value")) {
        Some(value) => Ok((key.to_owned(), value)),
        None if value.starts_with(['[', '{', '"', '\'']) => Err(wrong(
            "invalid value; quote text in a list or a table: 'strategies=[\"baton\", \"polling\"]'",
        )),
        None => Ok((key.to_owned(), Value::from(value))),
    }
}

fn put(table: &mut Table, path: &[String], value: Value) -> Result<(), Error> {
    match path {
        [] => Ok(()),
        [key] => {
            table.insert(key.clone(), value);
            Ok(())
        }
        [key, rest @ ..] => {
            let inner = table.entry(key.clone()).or_insert_with(|| Table::new().into());
            let inner = inner.as_table_mut();
            put(inner.ok_or_else(|| Error::usage(format!("`{key}` is not a table")))?, rest, value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: PlaceArgs) -> Overrides {
        Overrides { place, ..Overrides::default() }
    }

    #[test]
    fn overrides_change_the_scenario_and_are_recorded() {
        assert!(Overrides::default().apply("a = 1").unwrap().is_none());
        let overrides = Overrides {
            contenders: vec![2, 5],
            set: vec!["hold=\"5ms\"".into(), "ensemble.servers=1".into()],
            ..Overrides::default()
        };
        let changed = overrides.apply("contenders = [1]\nname = \"x\"").unwrap().unwrap();
        let (table, told) = (&changed.table, changed.told().collect::<Vec<_>>());
        assert_eq!(table["contenders"].as_array().unwrap().len(), 2);
        assert_eq!(table["ensemble"]["servers"].as_integer(), Some(1));
        assert_eq!(told, ["contenders=[2, 5]", "hold=\"5ms\"", "ensemble.servers=1"]);
    }

    #[test]
    fn strategies_from_options_keep_parameters_listed_in_the_scenario() {
        let overrides =
            Overrides { strategies: vec!["polling".into(), "baton".into()], ..Overrides::default() };
        let text = "strategies = [\"no-lock\", { name = \"polling\", poll_interval = \"5ms\" }]";
        let changed = overrides.apply(text).unwrap().unwrap();
        let strategies = changed.table["strategies"].as_array().unwrap();
        assert_eq!(strategies[0]["poll_interval"].as_str(), Some("5ms"));
        assert_eq!((strategies.len(), strategies[1].as_str()), (2, Some("baton")));
    }

    #[test]
    fn strategy_aliases_match_the_strategies_listed_in_a_scenario() {
        let listed = "[{ name = \"child-watch\", watch = \"exists\" }, \"parent-watch\"]";
        let text = format!("name = \"x\"\nstrategies = {listed}\ncontenders = 2\nduration = \"1s\"\n");
        for (named, label) in [
            ("node-watch", "predecessor-watch watch=exists"),
            ("predecessor-watch", "predecessor-watch watch=exists"),
            ("parent-node-watch", "parent-watch"),
            ("baton+child-watch", "baton+predecessor-watch"),
        ] {
            let overrides = Overrides { strategies: vec![named.into()], ..Overrides::default() };
            let changed = overrides.apply(&text).unwrap().unwrap().table.to_string();
            let parsed = zklockbench_scenario::parse("x", &changed, &zklockbench_load::catalog());
            let labels: Vec<_> =
                parsed.unwrap().scenario.strategies.into_iter().map(|one| one.label).collect();
            assert_eq!(labels, [label]);
        }
    }

    #[test]
    fn compose_files_are_rejected_unless_the_command_line_specifies_them() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\n\
                    [ensemble]\ncompose = \"/somewhere/x.yaml\"\n";
        std::fs::write(file.path(), text).unwrap();
        let read = |overrides: Overrides| match ScenarioFile::read(file.path(), &overrides) {
            Ok(read) => Ok(read.parsed.scenario.ensemble),
            Err(unusable) => Err(unusable.report(file.path()).to_string()),
        };
        let refused = read(Overrides::default()).unwrap_err();
        assert!(refused.contains("/somewhere/x.yaml") && refused.contains("--compose FILE"), "{refused}");
        let refused = read(Overrides { seed: Some(3), ..Overrides::default() }).unwrap_err();
        assert!(refused.contains("does not start containers"), "{refused}");
        // The command line may specify the file, or another ensemble
        let named = at(PlaceArgs { compose: Some("mine.yaml".into()), ..PlaceArgs::default() });
        assert_eq!(read(named), Ok(EnsembleChoice::Compose("mine.yaml".into())));
        let connected = at(PlaceArgs { connect: Some("zk:1".into()), ..PlaceArgs::default() });
        assert_eq!(read(connected), Ok(EnsembleChoice::Connect("zk:1".into())));
        // Only the exact key specifies the file
        let set = |text: &str| Overrides { set: vec![text.into()], ..Overrides::default() };
        assert!(read(set("ensemble.compose=mine.yaml")).is_ok());
        assert!(read(set("ensemble.composed=1")).is_err());
    }

    #[test]
    fn connect_option_replaces_the_whole_ensemble_and_is_named_in_errors() {
        let overrides = at(PlaceArgs { connect: Some("zk:1".into()), ..PlaceArgs::default() });
        let changed = overrides.apply("[ensemble]\nservers = 3").unwrap().unwrap();
        assert_eq!(changed.table["ensemble"], Value::Table("connect = \"zk:1\"".parse().unwrap()));
        let overrides = at(PlaceArgs { connect: Some("zk:1/../b".into()), ..PlaceArgs::default() });
        let told = overrides.apply("").err().unwrap().to_string();
        assert!(told.starts_with("--connect: `/../b` is not a chroot"), "{told}");
    }

    #[test]
    fn assignments_accept_toml_or_plain_text_values() {
        let of = |text| assignment("--set", text).unwrap();
        let is = |key: &str, value: Value| (key.to_owned(), value);
        assert_eq!(of("hold=5ms"), is("hold", "5ms".into()));
        assert_eq!(of("hold = \"5ms\""), is("hold", "5ms".into()));
        assert_eq!(of("locks=3"), is("locks", 3.into()));
        assert_eq!(of("ensemble.servers=1"), is("ensemble.servers", 1.into()));
        // After a line break, a second assignment is part of the text.
        assert_eq!(of("hold=1\nlocks=2"), is("hold", "1\nlocks=2".into()));
    }

    #[test]
    fn invalid_assignments_are_rejected_with_an_example() {
        let nested = format!("{}=1", "a.".repeat(60_000));
        for wrong in ["hold", "=5ms", "hold=", "a b=1", "", &nested] {
            let told = assignment("--b", wrong).unwrap_err().to_string();
            assert!(told.starts_with("--b ") && told.contains("write --b KEY=VALUE"), "{told}");
        }
        let told = assignment("--set", "strategies=[baton]").unwrap_err().to_string();
        assert!(told.contains("quote text in a list"), "{told}");
    }

    const BASIS: &str = "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 2\nacquisitions = 5\n\
                         poll_interval = \"50ms\"\n";

    fn read(text: &str, overrides: &Overrides) -> Result<ScenarioFile, Unusable> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        ScenarioFile::read(file.path(), overrides)
    }

    #[test]
    fn keys_that_an_option_makes_meaningless_are_dropped_and_reported() {
        let overrides = Overrides {
            duration: Some("5s".into()),
            set: vec!["strategies=[\"baton\"]".into()],
            ..Overrides::default()
        };
        let Ok(file) = read(BASIS, &overrides) else { panic!("refused") };
        assert_eq!(file.left_out.len(), 2, "{:?}", file.left_out);
        assert!(!file.text.contains("acquisitions") && !file.text.contains("poll_interval"), "{}", file.text);
        assert!(file.overrides.contains(&"without poll_interval".to_owned()), "{:?}", file.overrides);
        let open = "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nload = \"open\"\nrate = 5\nduration = \"9s\"\n\
                    warm_up = \"1s\"\nwarm_up_at_most = \"3s\"\n";
        let ramp = "arrivals={ramp={from=1,to=9}}".into();
        let Ok(file) = read(open, &Overrides { set: vec![ramp], ..Overrides::default() }) else {
            panic!("refused")
        };
        assert_eq!(file.left_out.len(), 2, "{:?}", file.left_out);
        assert!(!file.text.contains("rate = 5") && !file.text.contains("warm_up_at_most"), "{}", file.text);
        // Both keys are mistakes in the file itself, and so are two contradictory options.
        assert!(read(&format!("{BASIS}duration = \"5s\"\n"), &Overrides::default()).is_err());
        let both = Overrides {
            set: vec!["acquisitions=3".into()],
            duration: Some("5s".into()),
            ..Overrides::default()
        };
        assert!(read(BASIS, &both).is_err());
    }

    #[test]
    fn scenario_that_stands_alone_has_the_absolute_path_of_its_replayed_file() {
        let place = tempfile::tempdir().unwrap();
        let (path, trace) = (place.path().join("scenario.toml"), place.path().join("trace.csv"));
        std::fs::write(&trace, "time\n0\n0.5\n").unwrap();
        for replay in ["\"trace.csv\"", "{ file = \"trace.csv\", time_column = \"time\" }"] {
            let load = format!("load = \"open\"\narrivals = {{ replay = {replay} }}\n");
            let text = format!("name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\n{load}");
            std::fs::write(&path, text).unwrap();
            let Ok(file) = ScenarioFile::read(&path, &Overrides::default()) else { panic!("refused") };
            let table = file.standing_alone(&path).unwrap();
            let replay = &table["arrivals"]["replay"];
            assert_eq!(replay.get("file").unwrap_or(replay).as_str(), trace.to_str());
        }
    }

    #[test]
    fn mistakes_in_options_quote_the_option() {
        let overrides = Overrides { set: vec!["holdd=3".into()], ..Overrides::default() };
        let Err(Unusable::Mistakes(mistakes)) = read(BASIS, &overrides) else { panic!("accepted") };
        let told = mistakes.render(false);
        assert!(told.contains("--set holdd=3") && told.contains("did you mean `hold`?"), "{told}");
        assert!(!told.contains("holdd = 3"), "{told}");
    }
}
