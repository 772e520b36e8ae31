//! Code shared by commands that consist of many runs: their ensemble, options, expected duration and
//! resumption.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use futures_util::future::join_all;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::run::open_ensemble::{Needs, OpenEnsemble, measure_floor, warm_up};
use super::run::progress::Progress;
use super::run::sharing::Sharing;
use super::shared_args::{
    AccessArgs, CountingWhen, GeneratorArgs, JobArgs, OpeningArgs, PlaceArgs, SASL_PASSWORD,
};
use super::{drivers, output};
use zklockbench_core::error::Error;
use zklockbench_core::units::{as_a_word, counted};
use zklockbench_load::{Environment, Job, LoadLimits, Workspace};
use zklockbench_record::{EnsembleInfo, Floor};
use zklockbench_scenario::{Scenario, TrialPlan, TrialSpec};
use zklockbench_zk::{Access, Target, keep_awake, runtime};

/// An ensemble that is started or connected to once, warmed up, and shared by several runs.
pub struct ReadyEnsemble {
    pub opened: OpenEnsemble,
    pub ensemble: EnsembleInfo,
    /// Floor of the ensemble, measured once.
    pub floor: Floor,
    /// Credentials for the runs.
    pub access: AccessArgs,
    sharing: Sharing,
    /// Guard of the reads that keep the servers awake; dropping it stops the reads.
    _awake: Option<DropGuard>,
}

impl ReadyEnsemble {
    pub async fn open(
        scenario: &Scenario,
        args: &OpeningArgs,
        access: Access,
        logs: PathBuf,
        stop: &CancellationToken,
    ) -> Result<Self, Error> {
        let progress = Progress::new(&TrialPlan::of(scenario), args.quiet, false);
        let needs = Needs::of(scenario);
        let opened = OpenEnsemble::open(scenario, &needs, args, access, logs, &progress, stop).await?;
        let sharing = Sharing::of(&opened, &args.sharing, None).await;
        sharing.note().iter().for_each(|note| progress.note(note));
        let limits = LoadLimits::at_most(sharing.at_most);
        let ensemble = opened.describe().await;
        let name = format!("ab-{:08x}-floor", rand::random::<u32>());
        let workspace =
            Workspace::create(opened.target.clone(), &name).await?.limited_by(limits.throttle.clone());
        let environment = Environment { limits, ..opened.environment(workspace, &ensemble.servers) };
        warm_up(&opened, &environment, &progress, stop).await?;
        let floor = measure_floor(&opened, &environment, stop).await;
        opened.clear(&environment.workspace).await;
        let needs_reads = opened.keep_awake(&ensemble.servers).is_some();
        let awake = needs_reads.then(|| reads(&opened)).transpose()?;
        Ok(Self { opened, ensemble, floor, access: args.access.clone(), sharing, _awake: awake })
    }

    pub fn run(
        &self,
        program: &Path,
        scenario: &Path,
        place: &Path,
        mut generator: GeneratorArgs,
        job: Option<(&JobArgs, &Path)>,
        more: Vec<OsString>,
    ) -> Command {
        // Faults on local servers are always allowed.
        generator.allow_faults |= !self.opened.is_external();
        let mut words: Vec<OsString> = Vec::new();
        match job.and_then(|(job, out)| Some((job.job.as_ref()?, job.workers?, out))) {
            None => {
                words.extend(["run".into(), scenario.into(), "--no-progress".into()]);
                words.extend(options_of(place));
            }
            // This run's process is the first worker, which merges the parts of all workers.
            Some((name, workers, out)) => {
                words.extend(["worker".into(), scenario.into()]);
                words.extend(["--run-id".into(), place.file_name().unwrap_or_default().into()]);
                words.extend(["--job".into(), name.into(), "--out".into(), parts_of(out, name).into()]);
                words.extend(["--index".into(), "0".into(), "--of".into(), workers.to_string().into()]);
                words.extend(["--merge-into".into(), place.into()]);
            }
        }
        words.extend(generator.words().into_iter().chain(more));
        self.command(program, words)
    }

    /// Returns a command that measures on this ensemble. Secrets are passed in the environment, because the
    /// process list shows arguments.
    pub fn command(&self, program: &Path, words: Vec<OsString>) -> Command {
        let mut command = Command::new(program);
        let (target, access) = (&self.opened.target, &self.access);
        command.args(words).args(["--connect", &target.connect_from(0), "--quiet"]);
        command.args(with_paths(&[
            ("--tls-ca", &access.tls_ca),
            ("--tls-cert", &access.tls_cert),
            ("--tls-key", &access.tls_key),
        ]));
        command.args(access.tls.then_some("--tls"));
        command.args(access.tls_server_name.iter().flat_map(|name| ["--tls-server-name", name]));
        command.args(access.sasl.iter().flat_map(|name| ["--sasl", name]));
        command.envs(target.access.digest.as_ref().map(|identity| ("ZKLOCKBENCH_AUTH", identity.told())));
        let password = target.access.sasl.as_ref().and_then(|sasl| Some(sasl.user()?.1.told()));
        command.envs(password.map(|password| (SASL_PASSWORD, password)));
        self.sharing.pass_on(&mut command);
        without_extras(command)
    }

    /// Returns whether the servers were started here and would keep their quorum if they lost one server.
    pub fn may_lose_a_server(&self) -> bool {
        !self.opened.is_external() && self.ensemble.servers.len() > 1
    }

    pub fn close(self) {
        let Self { opened, _awake: awake, .. } = self;
        drop(awake);
        opened.close();
    }
}

/// Starts reads that keep local servers awake if their version may leave a request unprocessed. Runs with a
/// connect string treat the servers as external, and send no such reads.
pub fn reads(opened: &OpenEnsemble) -> Result<DropGuard, Error> {
    let stop = CancellationToken::new();
    let target = |connect| Target { connect, access: opened.target.access.clone() };
    let targets: Vec<Target> = opened.addresses.iter().cloned().map(target).collect();
    let until = stop.clone();
    let reading = move || {
        let each = |target| keep_awake::keep_awake(target, keep_awake::EVERY, until.clone());
        runtime::block_on(join_all(targets.into_iter().map(each)));
    };
    let started = std::thread::Builder::new().name("keep-awake".into()).spawn(reading);
    started.map_err(|error| Error::environment(format!("cannot keep the servers awake: {error}")))?;
    Ok(stop.drop_guard())
}

/// Overhead of a run in addition to its trials.
pub const AROUND_A_RUN: Duration = Duration::from_millis(700);

/// Estimates the duration of a run from its scenario alone.
pub fn expected(scenario: &Scenario) -> Duration {
    let trials = TrialPlan::of(scenario).trials;
    AROUND_A_RUN + trials.iter().map(TrialSpec::estimated_duration).sum::<Duration>()
}

pub fn own_program() -> Result<PathBuf, Error> {
    std::env::current_exe()
        .map_err(|error| Error::environment(format!("cannot find this program's own file: {error}")))
}

/// Returns the directory for the parts of a job's runs, below the directory that all workers share.
pub fn parts_of(out: &Path, job: &str) -> PathBuf {
    out.join(format!("{job}-parts"))
}

impl GeneratorArgs {
    pub fn words(&self) -> Vec<OsString> {
        let Self { allow_faults, threads, counting } = self;
        let threads = threads.map(|threads| ["--threads".into(), threads.to_string().into()]);
        let faults = allow_faults.then(|| "--allow-faults".into());
        // Omit the default, because an older binary may not support the option.
        let is_usual = *counting == CountingWhen::default();
        let counting = counting.to_possible_value().filter(|_| !is_usual);
        let counting = counting.map(|when| ["--counting".into(), when.get_name().into()]);
        threads.into_iter().flatten().chain(faults).chain(counting.into_iter().flatten()).collect()
    }
}

pub fn run_apart(scenario: &Path, place: &Path, more: Vec<OsString>) -> Result<Command, Error> {
    let mut command = Command::new(own_program()?);
    command.arg("run").arg(scenario).args(options_of(place)).arg("--no-progress").args(more);
    Ok(without_extras(command))
}

/// Returns options for a run that starts its own ensemble with the same settings.
pub fn alike(place: &PlaceArgs, opening: &OpeningArgs) -> Vec<OsString> {
    let mut words = with_paths(&[
        ("--compose", &place.compose),
        ("--data-dir", &place.data_dir),
        ("--zookeeper-home", &opening.install.zookeeper_home),
    ]);
    words.extend(
        place.servers.into_iter().flat_map(|servers| ["--servers".into(), servers.to_string().into()]),
    );
    words.extend(opening.cold.then(|| "--cold".into()));
    words
}

/// Returns options that make a run write its results to this directory.
fn options_of(place: &Path) -> [OsString; 4] {
    let (parent, name) = (place.parent().unwrap_or(place), place.file_name().unwrap_or_default());
    ["--run-id".into(), name.into(), "--out".into(), parent.into()]
}

pub fn with_paths(options: &[(&str, &Option<PathBuf>)]) -> Vec<OsString> {
    let given = |(name, path): &(&str, &Option<PathBuf>)| Some([name.into(), path.as_ref()?.into()]);
    options.iter().filter_map(given).flatten().collect()
}

/// Passes the drivers to a run of a series, and disables its floor and charts.
fn without_extras(mut command: Command) -> Command {
    drivers::pass_on(&mut command);
    command.env("ZKLOCKBENCH_NO_FLOOR", "1").env("ZKLOCKBENCH_NO_CHARTS", "1");
    command
}

pub const NEEDS_CONNECT: &str =
    "workers need an ensemble that all of them can reach: add --connect HOST:PORT,…";

/// Runs `work`, which starts runs. If the runs belong to a job, announces the job to its workers until `work` ends.
pub async fn leading<T>(
    args: &JobArgs,
    target: Result<Target, Error>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(name) = &args.job else { return work.await };
    let job = Job::begin(&target?, name).await?;
    output::note(&format!("each run waits for the other workers: zklockbench worker --follow {name} …"));
    let done = work.await;
    if let Err(error) = job.end().await {
        output::warn(error);
    }
    done
}

/// How a series of runs ended, and the reason if it ended early.
pub struct SeriesEnd<E> {
    pub ending: E,
    pub why: Option<String>,
}

impl<E> SeriesEnd<E> {
    pub fn of(ending: E) -> Self {
        Self { ending, why: None }
    }

    /// Returns the ending of a series; after an error, `interrupted` if the user stopped it, otherwise `aborted`.
    pub fn after(result: Result<E, Error>, interrupted: E, aborted: E) -> Self {
        match result {
            Ok(ending) => Self::of(ending),
            Err(Error::Interrupted) => Self::of(interrupted),
            Err(error) => Self { ending: aborted, why: Some(error.to_string()) },
        }
    }
}

pub fn tell_resumed(runs: usize, is_quiet: bool) {
    if runs > 0 && !is_quiet {
        output::note(&format!("resuming; {} already finished", counted(runs, "run", "runs")));
    }
}

/// Returns the command line for display, with invalid UTF-8 replaced.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

pub fn command_line() -> Vec<String> {
    let mut hides = false;
    let kept = words().filter_map(|word| {
        let hidden = hides || word == "--auth" || word.starts_with("--auth=");
        hides = word == "--auth";
        (!hidden).then_some(word)
    });
    kept.collect()
}

pub fn to_resume(how: Option<&str>) -> String {
    how.map_or_else(String::new, |how| format!("\nresume with: {how}"))
}

pub fn how_to_resume(directory: &Path) -> String {
    let words = command_line();
    let resume = format!("--resume {}", as_a_word(&directory.display().to_string()));
    let given = words.iter().any(|word| word == "--resume" || word.starts_with("--resume="));
    let told: Vec<String> = words.iter().map(|word| as_a_word(word)).collect();
    if given { told.join(" ") } else { format!("{} {resume}", told.join(" ")) }
}
