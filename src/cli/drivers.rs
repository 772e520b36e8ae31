//! `--driver`: programs of others whose locks can be contenders. Only the command line names them, and never a scenario: what
//! they do is up to them.

use std::process::Command;
use std::sync::OnceLock;

use crate::lock::{self, Program};
use crate::scenario::Scenario;
use crate::words::error::Error;
use crate::world::driver::protocol::How;
use crate::world::driver::{DriverCommand, Process};

/// Drivers by name, one on each line, as `--driver` takes them.
const VARIABLE: &str = "ZKLOCKBENCH_DRIVERS";

/// All that were named, for processes that this one starts.
static ALL: OnceLock<String> = OnceLock::new();

/// A driver as it is named: `NAME=COMMAND`, the command as a shell would take it.
pub fn named(text: &str) -> Result<DriverCommand, String> {
    let (name, command) = text.split_once('=').ok_or("write NAME=COMMAND")?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.starts_with('-') || !name.chars().all(fine) {
        return Err(format!("`{name}` is not a name: lower-case letters, digits and hyphens"));
    }
    let words = shlex::split(command).ok_or_else(|| format!("`{command}` has a quote without its end"))?;
    let (program, arguments) = words.split_first().ok_or("write NAME=COMMAND")?;
    let (name, program) = (name.to_owned(), program.clone());
    Ok(DriverCommand { name, program, arguments: arguments.to_vec() })
}

/// Starts each driver once, to learn what locks it has. From then on they are strategies.
pub fn register(given: &[DriverCommand]) -> Result<(), Error> {
    let all = with_those_of(given, &std::env::var(VARIABLE).unwrap_or_default())?;
    if all.is_empty() {
        return Ok(());
    }
    let programs = all.iter().map(asked).collect::<Result<_, Error>>()?;
    lock::register(programs).map_err(Error::environment)?;
    let lines: Result<Vec<String>, Error> = all.iter().map(written).collect();
    let _ = ALL.set(lines?.join("\n"));
    Ok(())
}

/// Those of the command line, and what of the variable's have other names.
fn with_those_of(given: &[DriverCommand], variable: &str) -> Result<Vec<DriverCommand>, Error> {
    let mut all: Vec<DriverCommand> = Vec::new();
    for driver in given {
        if all.iter().any(|other| other.name == driver.name) {
            return Err(Error::usage(format!("--driver {}: there are two of that name", driver.name)));
        }
        all.push(driver.clone());
    }
    for line in variable.lines().filter(|line| !line.trim().is_empty()) {
        let driver = named(line).map_err(|why| Error::usage(format!("{VARIABLE}: {line}: {why}")))?;
        if !all.iter().any(|other| other.name == driver.name) {
            all.push(driver);
        }
    }
    Ok(all)
}

fn asked(command: &DriverCommand) -> Result<Program, Error> {
    let process = Process::start_here(command).map_err(Error::environment)?;
    process.close();
    Ok(Program { command: command.clone(), ready: process.ready.clone() })
}

fn written(driver: &DriverCommand) -> Result<String, Error> {
    let words = std::iter::once(&driver.program).chain(&driver.arguments).map(String::as_str);
    let command = shlex::try_join(words).map_err(Error::usage)?;
    Ok(format!("{}={command}", driver.name))
}

/// Tells a run of its own which drivers there are. A variable, because older binaries pass over one that they don't know.
pub fn pass_on(command: &mut Command) {
    if let Some(all) = ALL.get() {
        command.env(VARIABLE, all);
    }
}

/// Refuses what a driver has said that it can't do.
pub fn check(scenario: &Scenario) -> Result<(), Error> {
    let driven = scenario.strategies.iter().filter_map(|one| Some((&one.name, lock::driven(&one.name)?)));
    for (name, lock) in driven {
        if scenario.acquire_timeout.is_some() && lock.abilities.timeout == How::None {
            return Err(Error::usage(format!(
                "`{name}` knows no timeout, as its driver says: leave `acquire_timeout` out, or `{name}`"
            )));
        }
        if scenario.faults.iter().any(|fault| fault.kind == "clock-jump") {
            return Err(Error::usage(format!(
                "`{name}` has a clock of its own: leave the fault `clock-jump` out, or `{name}`"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_a_name_and_a_command_as_a_shell_takes_it() {
        let driver = named("kazoo=/usr/bin/python3 'my driver.py' --fast").unwrap();
        assert_eq!((driver.name.as_str(), driver.program.as_str()), ("kazoo", "/usr/bin/python3"));
        assert_eq!(driver.arguments, ["my driver.py", "--fast"]);
        assert_eq!(named(&written(&driver).unwrap()), Ok(driver));
        for wrong in ["kazoo", "kazoo=", "Kazoo=run", "a:b=run", "=run", "a='run"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_goes_before_the_variable() {
        let given = [named("a=one").unwrap()];
        let all = with_those_of(&given, "a=two\n\nb=three\n").unwrap();
        let programs: Vec<_> = all.iter().map(|driver| driver.program.as_str()).collect();
        assert_eq!(programs, ["one", "three"]);
        assert!(with_those_of(&[given[0].clone(), given[0].clone()], "").is_err());
        assert!(with_those_of(&[], "nonsense").unwrap_err().to_string().starts_with(VARIABLE));
    }
}
