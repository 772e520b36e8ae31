//! The ensemble on which a plan measures and verifies, and its runs there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use tokio_util::sync::CancellationToken;

use super::args::PlanArgs;
use crate::cli::runs::command::{JobOptions, LoadOptions, own_program, run_apart, with_paths};
use crate::cli::runs::ready_ensemble::ReadyEnsemble;
use crate::cli::shared_args::GeneratorArgs;
use crate::run::series::{RunPlace, Series};
use crate::words::error::Error;

/// Starts or finds the ensemble, and warms it up if it is ours.
pub async fn open(
    args: &PlanArgs,
    series: &Series,
    stop: &CancellationToken,
) -> Result<ReadyEnsemble, Error> {
    let access = args.opening.access.access(None)?;
    let (scenario, logs) = (args.place.scenario("plan")?, series.server_logs("plan"));
    ReadyEnsemble::open(&scenario, &args.opening, access, logs, stop).await
}

/// The runs of a plan, and the ensemble that most of them share.
pub struct PlanRuns<'a> {
    pub series: &'a mut Series,
    pub ensemble: &'a ReadyEnsemble,
    pub args: &'a PlanArgs,
    pub stop: &'a CancellationToken,
}

impl PlanRuns<'_> {
    /// Whether its servers were started here and others carry on when one of them fails.
    pub fn may_lose_a_server(&self) -> bool {
        !self.ensemble.opened.is_external() && self.ensemble.ensemble.servers.len() > 1
    }

    /// Runs a scenario. Returns the directory of its results.
    pub async fn run(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let (file, program, ensemble) =
            (self.series.scenario(name, scenario)?, own_program()?, self.ensemble);
        let job = JobOptions::of(&self.args.job, &self.args.out);
        let load = LoadOptions { generator: self.args.generator.clone(), job };
        self.left(name, |place| Ok(ensemble.run(&program, &file, place, load, Vec::new()))).await
    }

    /// The same on an ensemble of the run's own, like the plan's: it breaks servers.
    ///
    /// # Errors
    /// Same errors as [`PlanRuns::run`].
    pub async fn run_apart(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let file = self.series.scenario(name, scenario)?;
        let generator = GeneratorArgs { allow_faults: true, ..self.args.generator.clone() };
        let mut words = [alike(self.args), generator.words()].concat();
        words.push("--quiet".into());
        self.left(name, |place| run_apart(&file, place, words)).await
    }

    /// Measures what the raw ensemble takes. Returns the directory.
    pub async fn calibrate(&mut self) -> Result<PathBuf, Error> {
        let ensemble = self.ensemble;
        let command = |place: &RunPlace| {
            let words = ["calibrate".into(), "--quick".into(), "--out".into(), place.directory().into()];
            Ok(ensemble.command(&own_program()?, words.into()))
        };
        self.left("calibration", command).await
    }

    async fn left(
        &mut self,
        name: &str,
        command: impl FnOnce(&RunPlace) -> Result<Process, Error>,
    ) -> Result<PathBuf, Error> {
        let run = self.series.run(name, command, self.stop).await?;
        run.results(name, self.ensemble.opened.ended()).map(Path::to_owned)
    }
}

/// How another ensemble like this one is started.
fn alike(args: &PlanArgs) -> Vec<OsString> {
    let mut words = with_paths(&[
        ("--compose", &args.place.compose),
        ("--data-dir", &args.place.data_dir),
        ("--zookeeper-home", &args.opening.install.zookeeper_home),
    ]);
    words.extend(
        args.place.servers.into_iter().flat_map(|servers| ["--servers".into(), servers.to_string().into()]),
    );
    words.extend(args.opening.cold.then(|| "--cold".into()));
    words
}
