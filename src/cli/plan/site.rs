//! The ensemble on which a plan measures and verifies, and its runs there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use tokio_util::sync::CancellationToken;

use super::args::PlanArgs;
use crate::cli::run::capabilities::Needs;
use crate::cli::runs::command::{self, JobOptions, LoadOptions, OnKeptEnsemble, RunPlace};
use crate::cli::runs::place::ReadyEnsemble;
use crate::cli::runs::series::Series;
use crate::cli::shared_args::AccessArgs;
use crate::results::record::EnsembleInfo;
use crate::words::error::Error;

pub struct PlanEnsemble {
    ensemble: ReadyEnsemble,
    program: PathBuf,
    /// How another ensemble like this one is started.
    alike: Vec<OsString>,
    load: LoadOptions,
    access: AccessArgs,
}

impl PlanEnsemble {
    /// Starts or finds the ensemble, and warms it up if it is ours.
    pub async fn open(args: &PlanArgs, series: &Series, stop: &CancellationToken) -> Result<Self, Error> {
        let access = args.opening.access.access(None)?;
        let scenario = args.place.scenario("plan")?;
        let (needs, logs) = (Needs::of(&scenario), series.server_logs("plan"));
        let ensemble = ReadyEnsemble::open(&scenario, &needs, &args.opening, &access, logs, stop).await?;
        Ok(Self {
            ensemble,
            program: command::own_program()?,
            alike: alike(args),
            load: LoadOptions {
                generator: args.generator.clone(),
                job: JobOptions::of(&args.job, &args.out),
            },
            access: args.opening.access.clone(),
        })
    }

    pub fn info(&self) -> &EnsembleInfo {
        &self.ensemble.ensemble
    }

    pub fn is_external(&self) -> bool {
        self.ensemble.is_external()
    }

    /// Whether its servers were started here and others carry on when one of them fails.
    pub fn may_lose_a_server(&self) -> bool {
        !self.ensemble.is_external() && self.info().servers.len() > 1
    }

    pub fn close(self) {
        self.ensemble.close();
    }
}

/// The runs of a plan, and the ensemble that most of them share.
pub struct PlanRuns<'a> {
    pub series: &'a mut Series,
    pub ensemble: &'a PlanEnsemble,
    pub stop: &'a CancellationToken,
}

impl<'a> PlanRuns<'a> {
    /// Runs a scenario. Returns the directory of its results.
    pub async fn run(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let (file, on) = (self.series.scenario(name, scenario)?, self.on());
        let load = self.ensemble.load.clone();
        self.left(name, |place| Ok(on.run(&file, place, load, Vec::new()))).await
    }

    /// The same on an ensemble of the run's own, like the plan's: it breaks servers.
    ///
    /// # Errors
    /// Same errors as [`PlanRuns::run`].
    pub async fn run_apart(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let (file, ensemble) = (self.series.scenario(name, scenario)?, self.ensemble);
        let mut load = LoadOptions { job: None, ..ensemble.load.clone() };
        load.generator.allow_faults = true;
        let command = |place: &RunPlace| {
            let mut command = Process::new(&ensemble.program);
            command.arg("run").arg(&file).args(place.options()).args(&ensemble.alike);
            command.args(load.words()).arg("--quiet");
            command::without_extras(&mut command);
            Ok(command)
        };
        self.left(name, command).await
    }

    /// Measures what the raw ensemble takes. Returns the directory.
    pub async fn calibrate(&mut self) -> Result<PathBuf, Error> {
        let on = self.on();
        let command = |place: &RunPlace| {
            let words = ["calibrate".into(), "--quick".into(), "--out".into(), place.directory().into()];
            Ok(on.command(words.into()))
        };
        self.left("calibration", command).await
    }

    fn on(&self) -> OnKeptEnsemble<'a> {
        let PlanEnsemble { ensemble, program, access, .. } = self.ensemble;
        OnKeptEnsemble { program, ensemble, access }
    }

    async fn left(
        &mut self,
        name: &str,
        command: impl FnOnce(&RunPlace) -> Result<Process, Error>,
    ) -> Result<PathBuf, Error> {
        let run = self.series.run(name, command, self.stop).await?;
        run.results(name, self.ensemble.ensemble.ended()).map(Path::to_owned)
    }
}

fn alike(args: &PlanArgs) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: &dyn AsRef<OsStr>| {
        words.extend([name.into(), value.as_ref().to_owned()]);
    };
    if let Some(file) = &args.place.compose {
        option("--compose", file);
    }
    if let Some(servers) = args.place.servers {
        option("--servers", &servers.to_string());
    }
    if let Some(directory) = &args.place.data_dir {
        option("--data-dir", directory);
    }
    if let Some(home) = &args.opening.install.zookeeper_home {
        option("--zookeeper-home", home);
    }
    if args.opening.cold {
        words.push("--cold".into());
    }
    words
}
