//! Reading a scenario file and making the command line's changes to it.
//!
//! Changes are made in the file's data, which are then read again as a whole: so every rule that holds for a
//! file holds for an override, and the results keep the scenario as it was really run.

use std::cell::RefCell;
use std::path::Path;

use clap::Args;
use toml::{Table, Value};

use super::shared_args::PlaceArgs;
use super::trace_file::TraceFile;
use super::{output, trace_file};
use crate::catalog::gate::{Known, Mistake, parse as parse_gate};
use crate::ensemble::External;
use crate::error::{Error, Exit};
use crate::record::Replayed;
use crate::scenario::fields::GATE;
use crate::scenario::{
    Diagnostic, Diagnostics, EnsembleChoice, Parsed, Scenario, Severity, decode, parse_with_traces,
};
use crate::units::shown;
use crate::{fault, lock};

/// A scenario, ready to run.
pub struct ScenarioFile {
    /// What it says, and advice.
    pub parsed: Parsed,
    /// The text as run.
    pub text: String,
    /// The changes in words.
    pub overrides: Vec<String>,
    /// The file of arrivals that it replays, as it is now.
    pub replayed: Option<Replayed>,
}

/// Why a scenario cannot be run.
pub enum Unusable {
    /// The file's mistakes.
    Mistakes(Diagnostics),
    /// Something else: no such file, a change that was not understood.
    Other(Error),
}

impl ScenarioFile {
    /// Reads the file, then makes the changes and reads the result again.
    ///
    /// # Errors
    /// Every mistake of the file, each at its place; mistakes that only the changes make are reported for the
    /// changed text.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self, Unusable> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|error| Unusable::Other(cannot_read(path, &error)))?;
        let text = decode(&name, bytes).map_err(Unusable::Mistakes)?;
        let (locks, faults) = (lock::cards(), fault::cards());
        let directory = path.parent().unwrap_or(Path::new(""));
        let replayed = RefCell::new(None);
        let traces = |file: &Path| {
            let TraceFile { arrivals, sha256 } = trace_file::read(directory, file)?;
            replayed.replace(Some(Replayed { file: file.display().to_string(), sha256 }));
            Ok(arrivals)
        };
        let parsed = parse_with_traces(&name, &text, &locks, &faults, &traces).map_err(Unusable::Mistakes)?;
        overrides.check_gates(&parsed.scenario).map_err(Unusable::Mistakes)?;
        let read = match overrides.apply(&text).map_err(Unusable::Other)? {
            None => Self { parsed, text, overrides: Vec::new(), replayed: replayed.take() },
            Some((text, told)) => {
                let changed = format!("{name} with {}", told.join(" "));
                replayed.take();
                let parsed = parse_with_traces(&changed, &text, &locks, &faults, &traces)
                    .map_err(Unusable::Mistakes)?;
                Self { parsed, text, overrides: told, replayed: replayed.take() }
            }
        };
        read.check_containers(&name, overrides).map_err(Unusable::Other)?;
        Ok(read)
    }

    /// A scenario may come from anywhere, and what a Compose file says is done: with any directory of this host, and
    /// any privilege. So that file is named by whoever runs the scenario, not by the scenario.
    fn check_containers(&self, file: &str, overrides: &Overrides) -> Result<(), Error> {
        let EnsembleChoice::Compose(compose) = &self.parsed.scenario.ensemble else { return Ok(()) };
        let is_set = |text: &String| text.trim_start().starts_with("ensemble");
        if overrides.place.compose.is_some() || overrides.set.iter().any(is_set) {
            return Ok(());
        }
        Err(Error::usage(format!(
            "{file}: `compose` in a scenario starts nothing, because containers can do to this host whatever their file \
             says. Look at {}, and name it on the command line if that is what you want: --compose FILE",
            compose.display()
        )))
    }
}

impl Unusable {
    /// Tells programs why, each mistake at its place, and people as [`Self::report`] does; gives the exit code.
    ///
    /// # Errors
    /// When it cannot be told.
    pub fn answer(self, command: &str, path: &Path) -> Result<Exit, Error> {
        let mistakes = match &self {
            Self::Mistakes(mistakes) => mistakes.machine(),
            Self::Other(_) => Vec::new(),
        };
        let error = self.report(path);
        output::complain(&error);
        output::answer_error(command, &error, mistakes, None::<&()>)?;
        Ok(error.exit())
    }

    /// Prints the mistakes for people; returns the error that ends the program.
    pub fn report(self, path: &Path) -> Error {
        match self {
            Self::Other(error) => error,
            Self::Mistakes(mistakes) => {
                output::note(&mistakes.render(output::may_colour(&std::io::stderr())));
                let count = mistakes.len();
                let noun = if count == 1 { "mistake" } else { "mistakes" };
                Error::usage(format!("{}: {count} {noun}; nothing was started", path.display()))
            }
        }
    }
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Error {
    let help = if error.kind() == std::io::ErrorKind::NotFound {
        "; scenarios that come with zklockbench are in its directory scenarios/"
    } else {
        ""
    };
    Error::usage(format!("cannot read the scenario {}: {error}{help}", path.display()))
}

/// Options that change the scenario.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Changes to the scenario")]
pub struct Overrides {
    /// Where to run.
    #[command(flatten)]
    pub place: PlaceArgs,
    /// Contender counts, e.g. 1,10,100
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub contenders: Vec<i64>,
    /// How often each combination runs
    #[arg(long, value_name = "N")]
    pub repetitions: Option<i64>,
    /// Length of the measured phase, e.g. 5s
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Factor on all times of the scenario
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<f64>,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: Option<i64>,
    /// Add a gate, e.g. --gate 'wait.p99 < 50ms': the run then exits with 1 where it fails and 4 where it is unknown
    #[arg(long, value_name = "CONDITION")]
    pub gate: Vec<String>,
    /// Set any key, e.g. --set 'hold="5ms"' or --set ensemble.servers=5
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// One change: the key's path and the value.
type Change = (Vec<String>, Value);

impl Overrides {
    /// The file's text with the changes made, and each change in words; `None` when there is none.
    ///
    /// # Errors
    /// When a `--set` or a `--connect` cannot be understood.
    pub fn apply(&self, text: &str) -> Result<Option<(String, Vec<String>)>, Error> {
        // Told as what was written, not as a line of a file that nobody has written.
        self.place.connect.as_deref().map(External::parse).transpose()?;
        let changes = self.changes()?;
        if changes.is_empty() && self.gate.is_empty() {
            return Ok(None);
        }
        let mut table: Table = text.parse().map_err(|error| Error::usage(format!("{error}")))?;
        if self.place.connect.is_some() || self.place.compose.is_some() {
            table.remove("ensemble");
        }
        let told = changes.iter().map(|(path, value)| format!("{}={value}", path.join(".")));
        let told = told.chain(self.gate.iter().map(|gate| format!("--gate '{gate}'"))).collect();
        for (path, value) in changes {
            put(&mut table, &path, value)?;
        }
        if !self.gate.is_empty() {
            let gates = table.entry(GATE).or_insert_with(|| Value::Array(Vec::new()));
            let gates = gates.as_array_mut().ok_or_else(|| Error::usage("`gate` is no list"))?;
            gates.extend(self.gate.iter().map(|gate| Value::from(gate.as_str())));
        }
        let text = toml::to_string(&table).map_err(|error| Error::usage(error.to_string()))?;
        Ok(Some((text, told)))
    }

    /// Reads the gates before they become lines of a file that nobody has written, so that a mistake is told by its column.
    ///
    /// What they may name is what the scenario has before other changes; those are checked once they are made.
    fn check_gates(&self, scenario: &Scenario) -> Result<(), Diagnostics> {
        let labels: Vec<String> = scenario.strategies.iter().map(|strategy| strategy.label.clone()).collect();
        let known = Known { strategies: &labels, contenders: &scenario.contenders };
        let is_as_written = self.contenders.is_empty() && self.set.is_empty();
        for gate in &self.gate {
            if let Err(mistake) = parse_gate(gate, is_as_written.then_some(known)) {
                let Mistake { span, message, help, .. } = mistake;
                let diagnostic = Diagnostic { severity: Severity::Error, span, message, help: Some(help) };
                return Err(Diagnostics::new("--gate", gate, vec![diagnostic]));
            }
        }
        Ok(())
    }

    fn changes(&self) -> Result<Vec<Change>, Error> {
        let at = |path: &str| path.split('.').map(str::to_owned).collect::<Vec<_>>();
        let mut changes = Vec::new();
        let mut change = |path: &str, value: Option<Value>| {
            changes.extend(value.map(|value| (at(path), value)));
        };
        change("ensemble.connect", self.place.connect.clone().map(Value::from));
        change("ensemble.compose", self.place.compose.as_ref().map(|file| file.display().to_string().into()));
        change("ensemble.servers", self.place.servers.map(Value::from));
        change("ensemble.data_dir", self.place.data_dir.as_ref().map(|dir| dir.display().to_string().into()));
        change("contenders", (!self.contenders.is_empty()).then(|| self.contenders.clone().into()));
        change("repetitions", self.repetitions.map(Value::from));
        change("duration", self.duration.clone().map(Value::from));
        change("time_scale", self.time_scale.map(Value::from));
        change("seed", self.seed.map(Value::from));
        for text in &self.set {
            let parsed = text.split_once('=').and_then(|(key, value)| {
                let value = format!("value = {value}").parse::<Table>().ok()?.remove("value")?;
                Some((at(key.trim()), value))
            });
            let wrong = || {
                let help = "write --set 'key=value' with the value as in a scenario file: 5, true, '\"20ms\"', [1, 2]";
                Error::usage(format!("--set {}: not understood; {help}", shown(text, 80)))
            };
            changes.push(parsed.ok_or_else(wrong)?);
        }
        Ok(changes)
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
            put(inner.ok_or_else(|| Error::usage(format!("`{key}` is no table")))?, rest, value)
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
    fn without_options_the_text_stays_as_it_is() {
        assert_eq!(Overrides::default().apply("a = 1").unwrap(), None);
    }

    #[test]
    fn options_and_set_change_the_data_and_are_told() {
        let overrides = Overrides {
            contenders: vec![2, 5],
            set: vec!["hold=\"5ms\"".into(), "ensemble.servers=1".into()],
            ..Overrides::default()
        };
        let (text, told) = overrides.apply("contenders = [1]\nname = \"x\"").unwrap().unwrap();
        let table: Table = text.parse().unwrap();
        assert_eq!(table["contenders"].as_array().unwrap().len(), 2);
        assert_eq!(table["ensemble"]["servers"].as_integer(), Some(1));
        assert_eq!(told, ["contenders=[2, 5]", "hold=\"5ms\"", "ensemble.servers=1"]);
    }

    #[test]
    fn containers_are_started_only_when_the_command_line_names_their_file() {
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
        assert!(refused.contains("`compose` in a scenario starts nothing"), "{refused}");
        // And when it does, or says something else
        let named = at(PlaceArgs { compose: Some("mine.yaml".into()), ..PlaceArgs::default() });
        assert_eq!(read(named), Ok(EnsembleChoice::Compose("mine.yaml".into())));
        let connected = at(PlaceArgs { connect: Some("zk:1".into()), ..PlaceArgs::default() });
        assert_eq!(read(connected), Ok(EnsembleChoice::Connect("zk:1".into())));
    }

    #[test]
    fn a_connect_string_replaces_the_whole_ensemble() {
        let overrides = at(PlaceArgs { connect: Some("zk:1".into()), ..PlaceArgs::default() });
        let (text, _) = overrides.apply("[ensemble]\nservers = 3").unwrap().unwrap();
        assert!(!text.contains("servers") && text.contains("zk:1"), "{text}");
    }

    #[test]
    fn a_connect_string_that_cannot_be_is_told_by_its_option() {
        let overrides = at(PlaceArgs { connect: Some("zk:1/../b".into()), ..PlaceArgs::default() });
        let told = overrides.apply("").unwrap_err().to_string();
        assert!(told.starts_with("--connect: `/../b` is not a chroot"), "{told}");
    }

    #[test]
    fn a_set_that_is_no_assignment_says_how_to_write_one() {
        let overrides = Overrides { set: vec!["hold=5ms".into()], ..Overrides::default() };
        assert!(overrides.apply("").unwrap_err().to_string().contains("--set 'key=value'"));
    }
}
