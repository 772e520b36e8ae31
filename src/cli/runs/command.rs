//! What a run of a series is told: the words that one would give to `run` by hand.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::place::ReadyEnsemble;
use crate::cli::output;
use crate::cli::shared_args::{AccessArgs, CountingWhen, GeneratorArgs};
use crate::cli::worker_args::JobArgs;
use crate::load::Job;
use crate::words::error::Error;
use crate::world::zk::{Secret, Target};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunPlace {
    pub parent: PathBuf,
    pub name: String,
}

impl RunPlace {
    pub fn directory(&self) -> PathBuf {
        self.parent.join(&self.name)
    }

    /// As `run` is told.
    pub fn options(&self) -> [OsString; 4] {
        ["--run-id".into(), self.name.clone().into(), "--out".into(), self.parent.clone().into()]
    }
}

pub fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::environment(format!("cannot find this program's own file: {error}")))
}

/// A program, and the ensemble that is kept for all its runs.
pub struct OnKeptEnsemble<'a> {
    pub program: &'a Path,
    pub ensemble: &'a ReadyEnsemble,
    pub access: &'a AccessArgs,
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

impl LoadOptions {
    pub fn words(&self) -> Vec<OsString> {
        self.shared_words().into_iter().chain(["--no-progress".into()]).collect()
    }

    /// What `run` and `worker` are told alike.
    fn shared_words(&self) -> Vec<OsString> {
        let GeneratorArgs { allow_faults, threads, counting } = &self.generator;
        let threads = threads.map(|threads| ["--threads".into(), threads.to_string().into()]);
        let faults = allow_faults.then(|| "--allow-faults".into());
        // As another binary of the suite may not know.
        let is_usual = *counting == CountingWhen::default();
        let counting = (!is_usual).then(|| ["--counting".into(), counting.word().into()]);
        threads.into_iter().flatten().chain(faults).chain(counting.into_iter().flatten()).collect()
    }
}

impl OnKeptEnsemble<'_> {
    pub fn run(
        self,
        scenario: &Path,
        place: &RunPlace,
        mut load: LoadOptions,
        more: Vec<OsString>,
    ) -> Command {
        // Servers of ours are there to be broken.
        load.generator.allow_faults |= !self.ensemble.is_external();
        let mut words: Vec<OsString> = Vec::new();
        match &load.job {
            None => {
                words.extend(["run".into(), scenario.into()]);
                words.extend(place.options());
                words.extend(load.words());
            }
            Some(JobOptions { name, workers, parts }) => {
                words.extend([
                    "worker".into(),
                    scenario.into(),
                    "--run-id".into(),
                    place.name.clone().into(),
                ]);
                words.extend(["--job".into(), name.into(), "--out".into(), parts.into()]);
                words.extend(["--index".into(), "0".into(), "--of".into(), workers.to_string().into()]);
                words.extend(["--merge-into".into(), place.directory().into()]);
                words.extend(load.shared_words());
            }
        }
        words.extend(more);
        self.command(words)
    }

    pub fn command(self, words: Vec<OsString>) -> Command {
        let mut command = Command::new(self.program);
        command.args(words).args(["--connect", &self.ensemble.connect(), "--quiet"]);
        let_in(&mut command, self.access, self.ensemble.identity());
        without_extras(&mut command);
        command
    }
}

/// A run of several needs no floor of its own and no charts. Older binaries pass over variables that they do not know.
pub fn without_extras(command: &mut Command) {
    command.env("ZKLOCKBENCH_NO_FLOOR", "1").env("ZKLOCKBENCH_NO_CHARTS", "1");
}

/// Tells a run what it needs to be let in, where it goes by that identity; secrets stand in no list of processes.
fn let_in(command: &mut Command, access: &AccessArgs, identity: Option<&Secret>) {
    let files =
        [("--tls-ca", &access.tls_ca), ("--tls-cert", &access.tls_cert), ("--tls-key", &access.tls_key)];
    for (option, file) in files {
        if let Some(file) = file {
            command.arg(option).arg(file);
        }
    }
    if access.tls {
        command.arg("--tls");
    }
    if let Some(identity) = identity {
        command.env("ZKLOCKBENCH_AUTH", identity.told());
    }
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
