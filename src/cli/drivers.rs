//! `--driver`: external programs that acquire locks for contenders. Only the command line can specify
//! drivers, never a scenario, because a driver runs arbitrary commands.

use std::process::Command;
use std::sync::OnceLock;

use super::shared_args::AccessArgs;
use zklockbench_core::catalog::fault::{Capability, FaultCard};
use zklockbench_core::catalog::{LockCard, members};
use zklockbench_core::error::Error;
use zklockbench_core::units::as_a_word;
use zklockbench_ensemble::fault;
use zklockbench_locks::driver::protocol::How;
use zklockbench_locks::driver::{DriverCommand, Process};
use zklockbench_locks::{DrivenLock, DrivenLocks, Program};
use zklockbench_scenario::Scenario;

/// Environment variable with one driver per line, in the format of `--driver`.
const VARIABLE: &str = "ZKLOCKBENCH_DRIVERS";

/// All drivers in the format of the variable, for child processes.
static ALL: OnceLock<String> = OnceLock::new();

/// Drivers as options for a command line, each preceded by a space.
static OPTIONS: OnceLock<String> = OnceLock::new();

/// Parses `NAME=COMMAND`; splits the command like a shell.
pub fn named(text: &str) -> Result<DriverCommand, String> {
    const AS_IN: &str = "my='python3 my-lock.py'";
    let how = || format!("write NAME=COMMAND, e.g. --driver {AS_IN}");
    let (name, command) = text.split_once('=').ok_or_else(|| match text.trim() {
        "" => how(),
        command => {
            format!("the driver has no name: write NAME=COMMAND, e.g. --driver my={}", as_a_word(command))
        }
    })?;
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.starts_with('-') || !name.chars().all(fine) {
        return Err(format!(
            "`{name}` is not a driver name: use lower-case letters, digits and -, e.g. {AS_IN}"
        ));
    }
    let words = shlex::split(command).ok_or_else(|| format!("`{command}` has an unclosed quote"))?;
    let (program, arguments) = words.split_first().ok_or_else(how)?;
    let (name, program) = (name.to_owned(), program.clone());
    Ok(DriverCommand { name, program, arguments: arguments.to_vec() })
}

/// Starts each driver once to get its locks, and registers the locks as strategies.
pub fn register(given: &[DriverCommand]) -> Result<(), Error> {
    let option = |driver: &DriverCommand| format!(" --driver {}", as_a_word(&written(driver)));
    let _ = OPTIONS.set(given.iter().map(option).collect());
    let all = with_those_of(given, &std::env::var(VARIABLE).unwrap_or_default())?;
    if all.is_empty() {
        return Ok(());
    }
    let programs = all.iter().map(asked).collect::<Result<_, Error>>()?;
    zklockbench_locks::register(programs).map_err(Error::environment)?;
    let _ = ALL.set(lines(&all));
    Ok(())
}

/// Returns the drivers as options for a command line that resumes or repeats this command.
pub fn options() -> &'static str {
    OPTIONS.get().map_or("", String::as_str)
}

/// Returns the drivers from the command line, followed by drivers with other names from the variable.
fn with_those_of(given: &[DriverCommand], variable: &str) -> Result<Vec<DriverCommand>, Error> {
    let mut all: Vec<DriverCommand> = Vec::new();
    for driver in given {
        refuse_if!(
            all.iter().any(|other| other.name == driver.name),
            "--driver {}: duplicate driver name",
            driver.name
        );
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

fn lines(drivers: &[DriverCommand]) -> String {
    drivers.iter().map(written).collect::<Vec<_>>().join("\n")
}

fn written(driver: &DriverCommand) -> String {
    format!("{}={}", driver.name, command_of(driver))
}

/// Describes a driver by its name, command and own description.
pub fn told(program: &Program) -> String {
    format!("{} ({})", written(&program.command), program.said())
}

pub fn command_of(driver: &DriverCommand) -> String {
    let words = std::iter::once(&driver.program).chain(&driver.arguments);
    words.map(|word| as_a_word(word)).collect::<Vec<_>>().join(" ")
}

/// Passes the drivers to a child run as an environment variable, which older binaries ignore.
pub fn pass_on(command: &mut Command) {
    command.envs(ALL.get().map(|all| (VARIABLE, all)));
}

/// Drivers for some runs only, in addition to the drivers for all runs.
#[derive(Debug)]
pub struct OwnDrivers {
    /// The additional drivers.
    pub own: Vec<Program>,
    /// Locks of all drivers.
    pub locks: DrivenLocks,
    /// All drivers in the format of the variable.
    lines: String,
}

impl OwnDrivers {
    pub fn of(given: &[DriverCommand]) -> Result<Self, Error> {
        let all = with_those_of(given, ALL.get().map_or("", String::as_str))?;
        let own = given.iter().map(asked).collect::<Result<Vec<_>, Error>>()?;
        let locks = DrivenLocks::of(own.clone()).map_err(Error::environment)?.or(DrivenLocks::registered());
        Ok(Self { own, locks, lines: lines(&all) })
    }

    /// Passes these drivers to a child run, instead of the drivers for all runs.
    pub fn pass_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.lines);
    }
}

/// Returns the driver locks that these strategies use.
fn used<'a>(
    names: impl Iterator<Item = &'a str>,
    driven: &'a DrivenLocks,
) -> impl Iterator<Item = (&'a str, &'a DrivenLock)> {
    names.flat_map(members).filter_map(|name| Some((name, driven.find(name)?)))
}

pub fn names(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.strategies.iter().map(|one| one.name.as_str())
}

/// Rejects driver locks that cannot encrypt connections or authenticate as required.
pub fn check_access<'a>(
    names: impl Iterator<Item = &'a str>,
    driven: &'a DrivenLocks,
    access: &AccessArgs,
) -> Result<(), Error> {
    let unfit =
        |(name, lock): (&str, &DrivenLock)| lock.unfit_for(name, access.wants_tls(), access.sasl.is_some());
    used(names, driven).find_map(unfit).map_or(Ok(()), |why| Err(Error::usage(why)))
}

/// Rejects scenarios that require features that a driver does not support.
pub fn check(scenario: &Scenario, driven: &DrivenLocks) -> Result<(), Error> {
    for (name, lock) in used(names(scenario), driven) {
        refuse_if!(
            scenario.acquire_timeout.is_some() && !may_time_out(lock),
            "`{name}` does not support timeouts, according to its driver: remove `acquire_timeout` or \
             `{name}`"
        );
        let faults = scenario.faults.iter().filter_map(|choice| fault::find(&choice.kind));
        if let Some((fault, why)) = faults.filter_map(|fault| Some((fault, unfit(lock, &fault.card)?))).next()
        {
            return Err(Error::usage(format!(
                "`{name}` {why}: remove the fault `{}` or `{name}`",
                fault.card.name
            )));
        }
    }
    Ok(())
}

pub fn may_time_out(lock: &DrivenLock) -> bool {
    lock.abilities.timeout != How::None
}

pub fn unfit(lock: &DrivenLock, fault: &FaultCard) -> Option<String> {
    if fault.name == "clock-jump" {
        return Some("has its own clock".to_owned());
    }
    if lock.program.ready.system == LockCard::ZOOKEEPER {
        return None;
    }
    // The fault would not reach the lock, so the lock would wrongly appear to survive the fault.
    let what = match fault.needs {
        Capability::Contenders if fault.name == "expire" => "a ZooKeeper session",
        Capability::Contenders => return None,
        Capability::Proxies => "connections to ZooKeeper servers",
        Capability::Processes | Capability::Isolation | Capability::Links => "ZooKeeper servers",
    };
    Some(format!(
        "is not a ZooKeeper lock and does not use {what}, which the fault breaks; `crash` and `freeze` work"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn driver_option_is_a_name_and_a_shell_command() {
        let driver = named("kazoo=/usr/bin/python3 'my driver.py' --fast").unwrap();
        assert_eq!((driver.name.as_str(), driver.program.as_str()), ("kazoo", "/usr/bin/python3"));
        assert_eq!(driver.arguments, ["my driver.py", "--fast"]);
        assert_eq!(named(&written(&driver)), Ok(driver));
        for wrong in ["kazoo", "kazoo=", "Kazoo=run", "a:b=run", "=run", "a='run"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
        let told = named("python3 my-lock.py").unwrap_err();
        assert_eq!(told, "the driver has no name: write NAME=COMMAND, e.g. --driver my='python3 my-lock.py'");
        for wrong in ["", "kazoo=", "My=run"] {
            let told = named(wrong).unwrap_err();
            assert!(told.ends_with(" my='python3 my-lock.py'"), "{told}");
        }
    }

    #[test]
    fn drivers_without_the_required_tls_or_sasl_are_rejected() {
        // Given one driver that supports TLS and SASL, and one that supports neither
        let program = |name: &str, can: bool| {
            let lock = serde_json::json!({ "timeout": "native", "cancel": "none" });
            let ready = serde_json::json!({ "t": "ready", "v": 1, "driver": name, "tls": can, "sasl": can, "locks": { "L": lock } });
            Program {
                command: named(&format!("{name}=x")).unwrap(),
                ready: serde_json::from_value(ready).unwrap(),
            }
        };
        let driven = DrivenLocks::of(vec![program("can", true), program("open", false)]).unwrap();
        let check = |name: &str, access: &AccessArgs| check_access([name].into_iter(), &driven, access);
        // Then only the second driver is rejected, even alongside the first, and only if TLS or SASL is required
        let none = AccessArgs::default();
        let tls = AccessArgs { tls: true, ..none.clone() };
        let sasl = AccessArgs { sasl: Some("bench".into()), ..none.clone() };
        assert!(check("open:L", &none).is_ok());
        for (access, expected) in
            [(&tls, "cannot encrypt connections"), (&sasl, "cannot authenticate with SASL")]
        {
            assert!(check("can:L", access).is_ok() && check("baton", access).is_ok());
            for name in ["open:L", "can:L+open:L"] {
                let refused = check(name, access).unwrap_err().to_string();
                assert!(refused.contains("`open:L` ") && refused.contains(expected), "{refused}");
            }
        }
    }

    #[test]
    fn command_line_drivers_override_the_environment_variable() {
        let given = [named("a=one").unwrap()];
        let all = with_those_of(&given, "a=two\n\nb=three\n").unwrap();
        let programs: Vec<_> = all.iter().map(|driver| driver.program.as_str()).collect();
        assert_eq!(programs, ["one", "three"]);
        assert!(with_those_of(&[given[0].clone(), given[0].clone()], "").is_err());
        assert!(with_those_of(&[], "nonsense").unwrap_err().to_string().starts_with(VARIABLE));
    }
}
