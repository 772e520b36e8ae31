//! Execution of trials: contenders on generator threads, load models and phases.

mod accounting;
mod arrivals;
mod attribution;
mod batch;
mod breaking;
pub mod calibrate;
mod contender;
mod counters;
mod drivers;
mod fence;
mod first_contact;
mod fresh;
mod gaps;
mod health;
mod job;
mod keeper;
mod limits;
mod lock_state;
mod lock_states;
mod missing;
mod one_ensemble;
mod orphans;
mod overlaps;
mod pace;
mod progress;
mod recorder;
mod rendezvous;
mod series;
mod shared;
mod timeouts;
mod trial;
mod unserved;
mod worker;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

pub use shared::COUNTING_LASTS;
use zklockbench_core::catalog::fault::FaultChoice;
use zklockbench_core::error::Error;
use zklockbench_ensemble::Processes;
use zklockbench_ensemble::fault;
use zklockbench_ensemble::proxy::Proxy;
use zklockbench_locks::Entry;
use zklockbench_record::{Counting, Trial, figures};
use zklockbench_scenario::{Catalog, Load, Slice, Stop, TrialSpec};
use zklockbench_zk::Target;

pub use counters::NearEnd;
pub use first_contact::granted_timeout;
pub use job::{Job, PublishedRun};
pub use limits::{LoadLimits, Probing, configured_servers, sessions_of_workers};
pub use one_ensemble::check_one_ensemble;
pub use rendezvous::{Credentials, MeetingError, MeetingPlace, Rendezvous};
pub use trial::run_trial;
pub use workspace::{Alive, FLOOR, Leftover, SignOfLife, TOP, Workspace, leftovers, make_chroot, remove};

/// Returns everything that a scenario may refer to.
pub fn catalog() -> Catalog {
    let (locks, faults, figures) = (zklockbench_locks::cards(), fault::cards(), figures::cards());
    Catalog { locks, faults, figures, has_host_commands: false }
}

/// Environment of trials: the ensemble, and the run's directory on it.
pub struct Environment {
    pub target: Target,
    pub workspace: Workspace,
    pub servers: Vec<String>,
    /// Top-level node, without the slash, under which the servers count this run's requests.
    pub namespace: String,
    pub threads: usize,
    /// Interval between the reads that keep the suite's own servers awake; `None` if no reads are needed.
    pub keep_awake: Option<Duration>,
    /// Server processes, if the run started them.
    pub local: Option<Arc<dyn Processes>>,
    pub keeps_history: bool,
    /// Directory for a trial's data until the trial is judged.
    pub scratch: PathBuf,
    /// Proxy between contenders and servers, if there is one.
    pub proxy: Option<Arc<Proxy>>,
    /// Coordination with the run's other workers; `None` if there are none.
    pub rendezvous: Option<Rendezvous>,
    /// Whether a closed load continues for the planned time after the last fault, even if the faults were late.
    pub outlasts_faults: bool,
    pub limits: LoadLimits,
}

impl Environment {
    /// Returns the targets of the contenders' sessions: one target for all, or a separate proxy address for
    /// each contender. A fault on a separate address outlasts the contender's session.
    fn for_contenders(&self, contenders: usize) -> Result<Vec<Target>, Error> {
        let Some(proxy) = &self.proxy else { return Ok(vec![self.target.clone()]) };
        let through =
            |contender| Ok::<_, Error>(self.target.through(&proxy.connect_for(contender)?, &self.servers));
        (0..contenders).map(through).collect()
    }

    /// Describes a server of the run that ended unexpectedly, unless the message already does.
    pub fn server_ended(&self, message: &str) -> Option<String> {
        let ended = self.local.as_ref()?.ended_by_itself()?;
        (!message.contains(&ended)).then_some(ended)
    }

    /// Adds the unexpected end of a server, as the probable cause, to an error.
    pub fn blame(&self, error: Error) -> Error {
        let Error::Environment(why) = &error else { return error };
        match self.server_ended(why) {
            Some(ended) => Error::environment(format!("{why}; {ended}")),
            None => error,
        }
    }

    pub fn slice(&self) -> Slice {
        self.rendezvous.as_ref().map_or(Slice::WHOLE, |rendezvous| rendezvous.slice)
    }

    /// Returns the servers that this worker observes. Only one worker observes servers, to avoid double counts.
    fn observed_servers(&self) -> &[String] {
        if self.slice().leads() { &self.servers } else { &[] }
    }

    async fn any_reachable(&self) -> bool {
        let attempts = self.servers.iter().map(|address| async move {
            matches!(
                tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await,
                Ok(Ok(_))
            )
        });
        join_all(attempts).await.into_iter().any(|reached| reached)
    }

    /// Returns the time for which the load continues after the last fault; `None` if only the clock ends the load.
    fn rest_after_faults(&self, spec: &TrialSpec) -> Option<Duration> {
        let measured = spec.stop.lasts().filter(|_| self.outlasts_faults && spec.load == Load::Closed)?;
        let ends: Option<Vec<Duration>> = spec.faults.iter().map(FaultChoice::ends_at).collect();
        Some(measured.saturating_sub(ends?.into_iter().max()?))
    }

    fn single_servers(&self) -> impl Iterator<Item = Target> {
        let access = &self.target.access;
        self.servers.iter().map(|server| Target { connect: server.clone(), access: access.clone() })
    }
}

/// An event for a progress display.
#[derive(Debug, Clone)]
pub enum EnvironmentEvent<'a> {
    Phase {
        name: &'static str,
        /// Expected duration, if known.
        expected: Option<Duration>,
    },
    Tick {
        acquired: u64,
        /// Total number, if the scenario sets it.
        of: Option<u64>,
    },
    /// A notable event, for a user watching the run.
    Note(&'a str),
    /// A warning for the user, repeated at the end.
    Warning(&'a str),
}

pub type Sink<'a> = &'a (dyn Fn(EnvironmentEvent<'_>) + Sync);

/// Counts requests on the wire in a shorter trial without faults. Returns the trial for judging.
pub async fn count(
    environment: &Environment,
    spec: &TrialSpec,
    entry: &Entry,
    interrupt: &CancellationToken,
    sink: Sink<'_>,
) -> Result<(Counting, Trial), Error> {
    let (proxy, wire) = Proxy::counting(&environment.servers)?;
    let through = Environment {
        target: environment.target.clone(),
        workspace: environment.workspace.clone(),
        servers: environment.servers.clone(),
        namespace: environment.namespace.clone(),
        threads: environment.threads,
        keep_awake: environment.keep_awake,
        local: None,
        keeps_history: false,
        scratch: environment.scratch.clone(),
        proxy: Some(Arc::new(proxy)),
        rendezvous: None,
        outlasts_faults: false,
        limits: environment.limits.clone(),
    };
    let stop = match spec.stop {
        Stop::After(duration) => Stop::After(duration.min(COUNTING_LASTS)),
        acquisitions @ Stop::Acquisitions(_) => acquisitions,
    };
    let none = Duration::ZERO;
    let spec = TrialSpec {
        stop,
        ramp_up: none,
        warm_up: none,
        warm_up_at_most: none,
        faults: Vec::new(),
        ..spec.clone()
    };
    // Progress and times of this trial do not matter.
    let only_warnings = |event: EnvironmentEvent<'_>| {
        if matches!(event, EnvironmentEvent::Warning(_)) {
            sink(event);
        }
    };
    let passes = Some((Arc::clone(&wire), through.target.clone()));
    let trial = trial::run(&through, &spec, entry, interrupt, &only_warnings, passes).await?;
    drop(through);
    Ok((accounting::on_the_wire(wire.counted(), &trial), trial))
}
