//! The ensemble, and the trials and bare loops that run on it.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zklockbench_load::{Environment, EnvironmentEvent, LoadLimits, TOP, Workspace, run_trial};

use zklockbench_core::error::Error;
use zklockbench_ensemble::{Installation, Local, LocalSpec, Places, parse_connect};
use zklockbench_record::Trial;
use zklockbench_scenario::{Slice, TrialPlan, TrialSpec, parse};
use zklockbench_zk::{Access, Target};

use crate::bare::{Loop, Running};
use crate::{Args, WARM_UP};

const STRATEGY: &str = "predecessor-watch";
const MEMORY: &str = "/dev/shm";
/// Number of the first bare loop, higher than the numbers of all trials.
const FIRST_BARE: usize = 500;

/// An ensemble with a root for this comparison.
pub struct World {
    pub description: String,
    environment: Environment,
    // Stops the servers when dropped.
    _local: Option<Local>,
}

/// A running bare loop, and the root of its lock.
pub struct BareLoop {
    pub running: Running,
    root: String,
}

impl World {
    /// Finds or starts the ensemble.
    pub async fn open(args: &Args) -> Result<Self, Error> {
        let local = if args.connect.is_some() { None } else { Some(start().await?) };
        let connect = local.as_ref().map_or_else(|| args.connect.clone().unwrap_or_default(), Local::connect);
        let description = local.as_ref().map_or_else(
            || format!("{connect} (existing)"),
            |local| format!("{connect}, data in {}", local.placement()),
        );
        let servers = parse_connect(&connect)?.addresses;
        // All sessions of both sides use one server. Sessions on the leader are faster, and the two loops could
        // otherwise have different numbers of them.
        let target = Target { connect: pinned(&connect, &servers), access: Access::default() };
        let workspace =
            Workspace::create(target.clone(), &format!("overhead-{}", std::process::id())).await?;
        let environment = Environment {
            target,
            workspace,
            servers,
            namespace: TOP.trim_start_matches('/').to_owned(),
            threads: args.threads.into(),
            // Extra work on the trial's side would count as its cost.
            keep_awake: None,
            local: None,
            keeps_history: false,
            scratch: std::env::temp_dir(),
            proxy: None,
            rendezvous: None,
            limits: LoadLimits::default(),
            outlasts_faults: false,
        };
        Ok(Self { description, environment, _local: local })
    }

    pub fn trials(&self, args: &Args) -> Result<Vec<TrialSpec>, Error> {
        let text = format!(
            "name = \"overhead\"\nstrategies = [\"{STRATEGY}\"]\ncontenders = [{}]\nhold = \"0ms\"\n\
             duration = \"{}s\"\nwarm_up = \"{}s\"\nrepetitions = {}\n",
            args.contenders,
            args.seconds,
            WARM_UP.as_secs(),
            args.rounds
        );
        let parsed = parse("overhead", &text, &zklockbench_load::catalog()).map_err(Error::usage)?;
        Ok(TrialPlan::of(&parsed.scenario).trials)
    }

    /// Runs a trial as the suite does, and calls `phase` at the start of each phase.
    pub async fn trial(&self, spec: &TrialSpec, phase: &(dyn Fn(&str) + Sync)) -> Result<Trial, Error> {
        let entry = zklockbench_locks::find(STRATEGY)
            .ok_or_else(|| Error::usage(format!("no strategy {STRATEGY}")))?;
        let sink = |event: EnvironmentEvent<'_>| {
            if let EnvironmentEvent::Phase { name, .. } = event {
                phase(name);
            }
        };
        run_trial(&self.environment, spec, entry, &CancellationToken::new(), &sink).await
    }

    pub async fn bare(&self, number: usize, args: &Args, handicap: Duration) -> Result<BareLoop, Error> {
        let root = self.environment.workspace.prepare(FIRST_BARE + number, 1, Slice::WHOLE).await?;
        let run = Loop {
            connect: self.environment.target.connect.clone(),
            lock: format!("{root}/lock-0"),
            contenders: args.contenders as usize,
            threads: args.threads.into(),
            handicap,
        };
        Ok(BareLoop { running: Running::start(&run)?, root })
    }

    pub async fn end(&self, bare: BareLoop) -> Result<(), Error> {
        bare.running.stop()?;
        self.environment.workspace.clear(&bare.root).await
    }

    pub async fn close(self) -> Result<(), Error> {
        self.environment.workspace.close().await
    }
}

/// Returns the first server of the connect string, with the chroot.
fn pinned(connect: &str, servers: &[String]) -> String {
    let chroot = connect.find('/').map_or("", |at| &connect[at..]);
    servers.first().map_or_else(|| connect.to_owned(), |first| format!("{first}{chroot}"))
}

async fn start() -> Result<Local, Error> {
    let installation = Installation::find(&Places::of_this_machine(None))?;
    let memory = Path::new(MEMORY);
    let data_dir = tempfile::tempfile_in(memory).is_ok().then(|| memory.to_path_buf());
    Local::start(&LocalSpec { servers: 3, data_dir, logs: None, apart: false, nicer_by: 0 }, &installation)
        .await
}
