//! The failures that a sweep over the session timeout adds to a scenario without faults: a crash and two pauses.

use std::time::Duration;

use toml::{Table, Value};

use zklockbench_analysis::sweep::{Over, Variable};
use zklockbench_core::units::format_duration;
use zklockbench_scenario::{EnsembleChoice, Scenario};

/// Time before the first failure.
const LEAD: Duration = Duration::from_secs(2);
/// A long garbage collection of a contender or a server.
const PAUSE: Duration = Duration::from_secs(3);
/// Time after a failure: servers end sessions in whole ticks, and contenders open new ones.
const RECOVERS: Duration = Duration::from_secs(4);
/// Additional time after a pause of the leader, for an election.
const ELECTS: Duration = Duration::from_secs(4);

pub struct AddedFailures {
    /// Whether a leader can be paused.
    of_leader: bool,
}

impl AddedFailures {
    /// The failures for this scenario; `None` if it has faults, or if another variable is swept.
    pub fn to(scenario: &Scenario, over: &[Over]) -> Option<Self> {
        let is_swept = over.iter().any(|over| over.variable == Variable::SessionTimeout);
        let of_leader = match scenario.ensemble {
            EnsembleChoice::Local { servers, .. } => servers > 1,
            EnsembleChoice::Compose(_) => true,
            EnsembleChoice::Connect(_) => false,
        };
        (is_swept && scenario.faults.is_empty()).then_some(Self { of_leader })
    }

    pub fn note(&self) -> String {
        let pause = format_duration(PAUSE);
        let leader = if self.of_leader {
            format!(", and the leader for {pause}")
        } else {
            "; a leader is paused only on local ensembles of 3 or 5 servers".to_owned()
        };
        format!("At each point, a holder crashes and a holder is frozen for {pause}{leader}.")
    }

    /// Adds the failures for a session timeout in microseconds, one after the other, and the time that they take.
    pub fn add(&self, timeout_us: f64, table: &mut Table) {
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
