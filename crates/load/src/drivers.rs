//! Drivers of a trial's locks: assignment of contenders to drivers and processes, overhead of the pipes, and
//! warnings at the end of the trial.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::{EnvironmentEvent, Sink};
use zklockbench_core::catalog::members;
use zklockbench_core::clock;
use zklockbench_core::error::Error;
use zklockbench_core::measure::Window;
use zklockbench_core::units::counted;
use zklockbench_locks::Entry;
use zklockbench_locks::driver::Processes;
use zklockbench_scenario::{DriverProcesses, TrialSpec};
use zklockbench_zk::{Access, Target};

/// Faults that affect a whole process, so few contenders should share a process.
const OF_PROCESSES: [&str; 2] = ["crash", "freeze"];
/// Default number of processes if a fault affects whole processes. More virtual machines would distort the
/// measurement.
const FOR_FAULTS: usize = 8;

/// Drivers of a trial's locks, by member of a mixed strategy. The suite's own locks have empty slots.
#[derive(Clone, Default)]
pub struct Drivers(Vec<Option<Driver>>);

#[derive(Clone)]
pub struct Driver {
    /// Name that the driver reported.
    pub program: String,
    pub processes: Arc<Processes>,
}

impl Drivers {
    /// Creates a trial's drivers without starting any processes.
    pub fn of(entry: &Entry, spec: &TrialSpec, target: &Target) -> Result<Self, Error> {
        let all = (0..members(entry.card.name).count()).map(|place| {
            let (entry, params) = zklockbench_locks::member_of(entry, &spec.strategy.params, place);
            let Some(lock) = zklockbench_locks::driven(entry.card.name) else { return Ok(None) };
            let Access { tls, sasl, .. } = &target.access;
            if let Some(why) = lock.unfit_for(entry.card.name, tls.is_some(), sasl.is_some()) {
                return Err(Error::usage(why));
            }
            if sasl.as_ref().is_some_and(|sasl| sasl.user().is_none()) {
                let why = "drivers support only digest-md5: remove --sasl gssapi or the drivers' locks";
                return Err(Error::usage(why));
            }
            let wanted = lock.wanted(&params, count_of(spec, lock.program.ready.contenders));
            let program = lock.program.ready.driver.clone();
            Ok(Some(Driver { program, processes: Arc::new(Processes::new(wanted)) }))
        });
        all.collect::<Result<_, _>>().map(Self)
    }

    pub fn all(&self) -> impl Iterator<Item = &Driver> {
        self.0.iter().flatten()
    }

    /// Returns the number of slots, and the driver of each filled slot.
    pub fn places(&self) -> (usize, impl Iterator<Item = (usize, &Driver)>) {
        let taken = self.0.iter().enumerate();
        (self.0.len(), taken.filter_map(|(place, driver)| Some((place, driver.as_ref()?))))
    }

    pub fn are_there(&self) -> bool {
        self.all().next().is_some()
    }

    pub fn of_contender(&self, contender: usize) -> Option<&Arc<Processes>> {
        let place = contender.checked_rem(self.0.len())?;
        self.0[place].as_ref().map(|driver| &driver.processes)
    }

    pub async fn measure_at_rest(&self) {
        for driver in self.all() {
            driver.processes.measure_at_rest().await;
        }
    }

    /// Measures the overhead of the drivers' pipes, but stops before the measured phase to avoid disturbing it.
    pub async fn measure_until_measured(&self, window: &watch::Sender<Window>) -> Infallible {
        let mut window = window.subscribe();
        let measured = async {
            let opens = window.wait_for(|window| *window != Window::CLOSED).await.map(|window| window.start);
            if let Ok(opens) = opens {
                tokio::time::sleep(Duration::from_micros(opens.saturating_sub(clock::now()))).await;
            }
        };
        let measuring = join_all(self.all().map(|driver| driver.processes.measure_under_load()));
        tokio::select! {
            () = measured => {}
            _ = measuring => {}
        }
        std::future::pending().await
    }

    /// Ends the drivers' processes and reports failures. Returns the failure that invalidates the trial, if
    /// any.
    pub async fn end(self, strategy: &str, sink: Sink<'_>) -> Option<String> {
        let mut failed = None;
        for driver in self.0.into_iter().flatten() {
            failed = failed.or(end_one(driver.processes, strategy, sink).await);
        }
        failed
    }
}

/// Returns the number of processes for a trial's contenders, with at most `at_most_each` contenders per process.
fn count_of(spec: &TrialSpec, at_most_each: usize) -> usize {
    let contenders = spec.contenders.max(1);
    let breaks_processes = spec.faults.iter().any(|fault| OF_PROCESSES.contains(&fault.kind.as_str()));
    let asked = match spec.strategy.processes {
        Some(DriverProcesses::One) => 1,
        Some(DriverProcesses::PerContender) => contenders,
        Some(DriverProcesses::Count(count)) => count,
        None if breaks_processes => FOR_FAULTS,
        None => 1,
    };
    asked.max(contenders.div_ceil(at_most_each.max(1))).min(contenders)
}

/// Ends a driver's processes and reports their failures. If a process failed unexpectedly, returns why the
/// measurements are invalid: its contenders waited for a new process or for sessions to expire.
async fn end_one(processes: Arc<Processes>, driver: &str, sink: Sink<'_>) -> Option<String> {
    let failed = processes.failed();
    for failure in processes.failures(&failed) {
        sink(EnvironmentEvent::Warning(&failure));
    }
    let late = processes.late_grants();
    if late > 0 {
        let granted = counted(late, "lock was", "locks were");
        sink(EnvironmentEvent::Warning(&format!(
            "{granted} granted to `{driver}` after it had reported the wait as ended; each lock was released \
             immediately"
        )));
    }
    // Closing the processes may take seconds.
    let _ = tokio::task::spawn_blocking(move || processes.close()).await;
    let first = failed.first()?;
    let times = match failed.len() {
        1 => String::new(),
        times => format!(" (the first of {times} failures)"),
    };
    Some(format!("the driver `{}` {}{times}; no fault caused this failure", first.driver, first.what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zklockbench_scenario::{TrialPlan, parse};

    #[test]
    fn process_count_depends_on_scenario_capacity_and_faults() {
        let text = |faults: &str| {
            format!(
                "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 20\nduration = \"9s\"\n[ensemble]\nservers = 3\n{faults}"
            )
        };
        let spec = |faults: &str| {
            let parsed = parse("x", &text(faults), &crate::catalog()).unwrap();
            TrialPlan::of(&parsed.scenario).trials.remove(0)
        };
        let whole = spec("");
        assert_eq!([count_of(&whole, 4_096), count_of(&whole, 7)], [1, 3]);
        let crash = spec("[[fault]]\nkind = \"crash\"\nat = \"1s\"\n");
        assert_eq!(count_of(&crash, 4_096), FOR_FAULTS);
        let few = TrialSpec { contenders: 3, ..crash.clone() };
        assert_eq!(count_of(&few, 4_096), 3);
        let kill = spec("[[fault]]\nkind = \"kill\"\nat = \"1s\"\nduration = \"1s\"\n");
        assert_eq!(count_of(&kill, 4_096), 1);
        let mut said = crash;
        let expected = [
            (DriverProcesses::One, 1),
            (DriverProcesses::PerContender, 20),
            (DriverProcesses::Count(4), 4),
            (DriverProcesses::Count(30), 20),
        ];
        for (processes, count) in expected {
            said.strategy.processes = Some(processes);
            assert_eq!(count_of(&said, 4_096), count, "{processes:?}");
        }
    }
}
