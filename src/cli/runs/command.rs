//! What a run of a series is told: the words that one would give to `run` by hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ready_ensemble::ReadyEnsemble;
use crate::cli::shared_args::{CountingWhen, GeneratorArgs};
use crate::cli::worker_args::JobArgs;
use crate::cli::{drivers, output};
use crate::load::Job;
use crate::run::series::RunPlace;
use crate::words::error::Error;
use crate::world::zk::Target;

pub fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::environment(format!("cannot find this program's own file: {error}")))
}

#[derive(Debug, Clone)]
pub struct LoadOptions {
    pub generator: GeneratorArgs,
    /// By which workers, if by several.
    pub job: Option<JobOptions>,
}

/// The workers of a series, of which the process of each run is the first.
#[derive(Debug, Clone)]
pub struct JobOptions {
    pub name: String,
    pub workers: u16,
    /// Where all of them leave their parts.
    pub parts: PathBuf,
}

impl JobOptions {
    /// Of these options, where results go to that directory.
    pub fn of(args: &JobArgs, out: &Path) -> Option<Self> {
        let (name, workers) = (args.job.clone()?, args.workers?);
        Some(Self { parts: parts_of(out, &name), name, workers })
    }
}

/// Where the parts of a job's runs lie below the directory that all workers share.
pub fn parts_of(out: &Path, job: &str) -> PathBuf {
    out.join(format!("{job}-parts"))
}

impl GeneratorArgs {
    /// As options say it.
    pub fn words(&self) -> Vec<OsString> {
        let Self { allow_faults, threads, counting } = self;
        let threads = threads.map(|threads| ["--threads".into(), threads.to_string().into()]);
        let faults = allow_faults.then(|| "--allow-faults".into());
        // As another binary of the suite may not know.
        let is_usual = *counting == CountingWhen::default();
        let counting = (!is_usual).then(|| ["--counting".into(), counting.word().into()]);
        threads.into_iter().flatten().chain(faults).chain(counting.into_iter().flatten()).collect()
    }
}

impl ReadyEnsemble {
    /// A run on it.
    pub fn run(
        &self,
        program: &Path,
        scenario: &Path,
        place: &RunPlace,
        load: LoadOptions,
        more: Vec<OsString>,
    ) -> Command {
        let LoadOptions { mut generator, job } = load;
        // Servers of ours are there to be broken.
        generator.allow_faults |= !self.opened.is_external();
        let mut words: Vec<OsString> = Vec::new();
        match &job {
            None => {
                words.extend(["run".into(), scenario.into(), "--no-progress".into()]);
                words.extend(options_of(place));
            }
            Some(JobOptions { name, workers, parts }) => {
                words.extend(["worker".into(), scenario.into()]);
                words.extend(["--run-id".into(), place.name.clone().into()]);
                words.extend(["--job".into(), name.into(), "--out".into(), parts.into()]);
                words.extend(["--index".into(), "0".into(), "--of".into(), workers.to_string().into()]);
                words.extend(["--merge-into".into(), place.directory().into()]);
            }
        }
        words.extend(generator.words().into_iter().chain(more));
        self.command(program, words)
    }

    /// A command that measures on it. Secrets stand in no list of processes.
    pub fn command(&self, program: &Path, words: Vec<OsString>) -> Command {
        let mut command = Command::new(program);
        let (target, access) = (&self.opened.target, &self.access);
        command.args(words).args(["--connect", &target.connect, "--quiet"]);
        command.args(with_paths(&[
            ("--tls-ca", &access.tls_ca),
            ("--tls-cert", &access.tls_cert),
            ("--tls-key", &access.tls_key),
        ]));
        command.args(access.tls.then_some("--tls"));
        command.envs(target.access.digest.as_ref().map(|identity| ("ZKLOCKBENCH_AUTH", identity.told())));
        without_extras(command)
    }
}

/// A run on servers of its own.
pub fn run_apart(scenario: &Path, place: &RunPlace, more: Vec<OsString>) -> Result<Command, Error> {
    let mut command = Command::new(own_program()?);
    command.arg("run").arg(scenario).args(options_of(place)).arg("--no-progress").args(more);
    Ok(without_extras(command))
}

fn options_of(place: &RunPlace) -> [OsString; 4] {
    ["--run-id".into(), place.name.clone().into(), "--out".into(), place.parent.clone().into()]
}

/// Those of the options that have a path.
pub fn with_paths(options: &[(&str, &Option<PathBuf>)]) -> Vec<OsString> {
    let given = |(name, path): &(&str, &Option<PathBuf>)| Some([name.into(), path.as_ref()?.into()]);
    options.iter().filter_map(given).flatten().collect()
}

/// A run of several has their drivers, and needs no floor of its own and no charts. Older binaries pass over variables that they
/// do not know.
fn without_extras(mut command: Command) -> Command {
    drivers::pass_on(&mut command);
    command.env("ZKLOCKBENCH_NO_FLOOR", "1").env("ZKLOCKBENCH_NO_CHARTS", "1");
    command
}

/// What a command says that is to share its load and names no ensemble.
pub const NEEDS_CONNECT: &str = "workers need an ensemble that all of them reach: add --connect HOST:PORT,…";

/// Does something that makes runs, while the workers of the job may follow it, if there is one.
///
/// # Errors
/// Same errors as the work, and when the job can't begin.
pub async fn leading<T>(
    args: &JobArgs,
    target: Result<Target, Error>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(name) = &args.job else { return work.await };
    let job = Job::begin(&target?, name).await?;
    output::note(&format!("waiting for each run's other workers: zklockbench worker --follow {name} …"));
    let done = work.await;
    if let Err(error) = job.end().await {
        output::note(&format!("warning: {error}"));
    }
    done
}
