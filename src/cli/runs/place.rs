//! An ensemble that is started or found once, warmed up, and kept for all of several runs.

use std::path::PathBuf;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::cli::run::capabilities::Needs;
use crate::cli::run::prepare;
use crate::cli::run::progress::Progress;
use crate::cli::run::world::OpenEnsemble;
use crate::cli::shared_args::OpeningArgs;
use crate::load::{Workspace, make_chroot};
use crate::record::{EnsembleInfo, Floor};
use crate::scenario::{Plan, Scenario};
use crate::words::error::Error;
use crate::world::zk::{Access, Secret, Target, keep_awake, reactor};

pub struct ReadyEnsemble {
    world: OpenEnsemble,
    access: Access,
    pub ensemble: EnsembleInfo,
    /// What its raw requests cost, measured once.
    pub floor: Floor,
    logs: PathBuf,
    _awake: Option<Awake>,
}

impl ReadyEnsemble {
    /// Starts or finds the ensemble of a scenario, warms it up if it is ours, and measures its floor.
    pub async fn open(
        scenario: &Scenario,
        needs: &Needs,
        args: &OpeningArgs,
        access: &Access,
        logs: PathBuf,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let progress = Progress::new(&Plan::of(scenario), args.quiet, false);
        let opening = OpenEnsemble::open(scenario, args, needs, &logs, &progress);
        let world = stop.run_until_cancelled(opening).await.unwrap_or(Err(Error::Interrupted))?;
        let access = world.access(access.clone());
        let target = Target { connect: world.connect(), access: access.clone() };
        let mut ensemble = world.describe().await;
        ensemble.starts_cold = args.cold && !world.is_external();
        if args.create_chroot {
            make_chroot(&target).await?;
        }
        let floor = prepare(&world, &target, &ensemble, args, &progress, stop).await?;
        let needs_reads = world.keep_awake(&ensemble.servers);
        let awake = needs_reads.then(|| Awake::begin(&world, &access)).transpose()?;
        Ok(Self { world, access, ensemble, floor, logs, _awake: awake })
    }

    pub fn connect(&self) -> String {
        self.world.connect()
    }

    pub fn identity(&self) -> Option<&Secret> {
        self.access.digest.as_ref()
    }

    pub fn is_external(&self) -> bool {
        self.world.is_external()
    }

    pub fn ended(&self) -> Option<String> {
        self.world.ended()
    }

    pub fn close(self) {
        let Self { world, logs, _awake: awake, .. } = self;
        drop(awake);
        world.close(&logs);
    }
}

/// Warms the servers up and measures their floor.
async fn prepare(
    world: &OpenEnsemble,
    target: &Target,
    ensemble: &EnsembleInfo,
    args: &OpeningArgs,
    progress: &Progress,
    stop: &CancellationToken,
) -> Result<Floor, Error> {
    let name = format!("ab-{:08x}-floor", rand::random::<u32>());
    let workspace = Workspace::create(target.clone(), &name).await?;
    let environment = world.environment(target.clone(), workspace, &ensemble.servers);
    if !world.is_external() && !args.cold && !stop.is_cancelled() {
        progress.note(prepare::NOTE);
        prepare::warm_up(&environment, stop).await?;
    }
    let floor = prepare::measure_floor(&environment, args.cold, stop).await;
    world.clear(&environment, &name).await;
    Ok(floor)
}

/// Reads that keep servers of ours awake which could forget a request. Runs that are told a connect string take the
/// servers for those of others, and send none.
struct Awake(CancellationToken);

impl Awake {
    fn begin(world: &OpenEnsemble, access: &Access) -> Result<Self, Error> {
        let stop = CancellationToken::new();
        let target = |connect| Target { connect, access: access.clone() };
        let targets: Vec<Target> = world.addresses().into_iter().map(target).collect();
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
