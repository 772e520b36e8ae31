//! An ensemble that is started or found once, warmed up, and kept for all of several runs.

use std::path::PathBuf;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::cli::run::open_ensemble::OpenEnsemble;
use crate::cli::run::prepare;
use crate::cli::run::progress::Progress;
use crate::cli::shared_args::{AccessArgs, OpeningArgs};
use crate::load::Workspace;
use crate::record::{EnsembleInfo, Floor};
use crate::scenario::{Scenario, TrialPlan};
use crate::words::error::Error;
use crate::world::zk::{Access, Target, keep_awake, reactor};

pub struct ReadyEnsemble {
    pub opened: OpenEnsemble,
    pub ensemble: EnsembleInfo,
    /// What its raw requests cost, measured once.
    pub floor: Floor,
    /// What its runs are told, to be let in.
    pub access: AccessArgs,
    _awake: Option<Awake>,
}

impl ReadyEnsemble {
    /// Starts or finds the ensemble of a scenario, warms it up if it is ours, and measures its floor.
    pub async fn open(
        scenario: &Scenario,
        args: &OpeningArgs,
        access: Access,
        logs: PathBuf,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let progress = Progress::new(&TrialPlan::of(scenario), args.quiet, false);
        let opened = OpenEnsemble::open(scenario, args, access, logs, &progress, stop).await?;
        let ensemble = opened.describe().await;
        let name = format!("ab-{:08x}-floor", rand::random::<u32>());
        let workspace = Workspace::create(opened.target.clone(), &name).await?;
        let environment = opened.environment(workspace, &ensemble.servers);
        prepare::warm_up(&opened, &environment, &progress, stop).await?;
        let floor = prepare::measure_floor(&opened, &environment, stop).await;
        opened.clear(&environment.workspace).await;
        let needs_reads = opened.keep_awake(&ensemble.servers).is_some();
        let awake = needs_reads.then(|| Awake::begin(&opened)).transpose()?;
        Ok(Self { opened, ensemble, floor, access: args.access.clone(), _awake: awake })
    }

    pub fn close(self) {
        let Self { opened, _awake: awake, .. } = self;
        drop(awake);
        opened.close();
    }
}

/// Reads that keep servers of ours awake which could forget a request. Runs that are told a connect string take the
/// servers for those of others, and send none.
struct Awake(CancellationToken);

impl Awake {
    fn begin(opened: &OpenEnsemble) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let target = |connect| Target { connect, access: opened.target.access.clone() };
        let targets: Vec<Target> = opened.addresses.iter().cloned().map(target).collect();
        let until = stop.clone();
        let reading = move || {
            let each = |target| keep_awake::keep_awake(target, keep_awake::EVERY, until.clone());
            reactor::block_on(join_all(targets.into_iter().map(each)));
        };
        let started = std::thread::Builder::new().name("keep-awake".into()).spawn(reading);
        started.map_err(|error| Error::environment(format!("cannot keep the servers awake: {error}")))?;
        Ok(Self(stop))
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
