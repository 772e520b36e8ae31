//! An ensemble on which a plan measures and verifies: every run is a process of its own, told what `run` would be told by
//! hand, and leaves an ordinary directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::args::PlanArgs;
use crate::answer::plan::RUNS;
use crate::cli::output;
use crate::cli::run::capabilities::Needs;
use crate::cli::runs::child;
use crate::cli::runs::place::ReadyEnsemble;
use crate::cli::shared_args::AccessArgs;
use crate::results::layout;
use crate::results::record::EnsembleInfo;
use crate::words::error::Error;

/// The ensemble, and where runs leave their directories.
pub struct PlanEnsemble {
    place: ReadyEnsemble,
    /// How another ensemble like this one is started.
    alike: Vec<OsString>,
    directory: PathBuf,
    /// What the names of runs on the ensemble begin with.
    name: String,
    threads: Option<u16>,
    /// Whether connections to it may be held up.
    may_delay: bool,
    access: AccessArgs,
}

impl PlanEnsemble {
    /// Starts or finds the ensemble, and warms it up if it is ours.
    ///
    /// # Errors
    /// Same errors as `run`.
    pub async fn open(args: &PlanArgs, directory: &Path, stop: &CancellationToken) -> Result<Self, Error> {
        let access = args.opening.access.access(None)?;
        let scenario = args.place.scenario("plan")?;
        for folder in [RUNS, "logs", "scenarios"] {
            let path = directory.join(folder);
            let cannot = |error| Error::environment(format!("cannot create {}: {error}", path.display()));
            fs::create_dir_all(&path).map_err(cannot)?;
        }
        let (needs, logs) = (Needs::of(&scenario), directory.join(layout::SERVER_LOGS));
        let place = ReadyEnsemble::open(&scenario, &needs, &args.opening, &access, &logs, stop);
        let place = place.await.inspect_err(|_| tidy(directory))?;
        let name = format!("plan-{:08x}", rand::random::<u32>());
        Ok(Self {
            place,
            alike: alike(args),
            directory: directory.to_owned(),
            name,
            threads: args.threads,
            may_delay: args.allow_faults,
            access: args.opening.access.clone(),
        })
    }

    pub fn ensemble(&self) -> &EnsembleInfo {
        &self.place.ensemble
    }

    /// Whether its servers were started here and others carry on when one of them fails.
    pub fn may_lose_a_server(&self) -> bool {
        !self.place.is_external() && self.ensemble().servers.len() > 1
    }

    pub fn close(self) {
        let Self { place, directory, .. } = self;
        place.close(&directory.join(layout::SERVER_LOGS));
    }

    /// Says something to the person who waits.
    pub fn note(&self, text: &str, args: &PlanArgs) {
        if !args.opening.quiet {
            output::note(text);
        }
    }

    /// Runs a scenario. Returns the directory of its results.
    ///
    /// # Errors
    /// When it leaves none.
    pub async fn run(&self, name: &str, scenario: &str, stop: &CancellationToken) -> Result<PathBuf, Error> {
        self.run_on(self.here(), name, scenario, stop).await
    }

    /// The same on an ensemble of the run's own, like this one: it breaks servers.
    ///
    /// # Errors
    /// As [`PlanEnsemble::run`].
    pub async fn run_apart(
        &self,
        name: &str,
        scenario: &str,
        stop: &CancellationToken,
    ) -> Result<PathBuf, Error> {
        self.run_on(self.alike.clone(), name, scenario, stop).await
    }

    fn here(&self) -> Vec<OsString> {
        vec!["--connect".into(), self.place.connect().into()]
    }

    async fn run_on(
        &self,
        place: Vec<OsString>,
        name: &str,
        scenario: &str,
        stop: &CancellationToken,
    ) -> Result<PathBuf, Error> {
        let file = self.directory.join("scenarios").join(format!("{name}.toml"));
        output::file(&file, scenario)?;
        let id = format!("{}-{name}", self.name);
        let out = self.directory.join(RUNS);
        let mut words: Vec<OsString> = vec!["run".into(), file.into(), "--run-id".into(), id.clone().into()];
        words.push("--no-progress".into());
        words.extend(place);
        if self.may_delay || !self.place.is_external() {
            words.push("--allow-faults".into());
        }
        if let Some(threads) = self.threads {
            words.extend(["--threads".into(), threads.to_string().into()]);
        }
        self.child(words, &out, name, stop).await?;
        self.left(&out.join(id), name)
    }

    /// Measures what the raw ensemble takes. Returns the directory.
    ///
    /// # Errors
    /// When that is not to be had.
    pub async fn calibrate(&self, stop: &CancellationToken) -> Result<PathBuf, Error> {
        let out = self.directory.join(RUNS).join("calibration");
        let words = ["calibrate".into(), "--quick".into()].into_iter().chain(self.here()).collect();
        self.child(words, &out, "calibration", stop).await?;
        self.left(&out, "calibration")
    }

    async fn child(
        &self,
        words: Vec<OsString>,
        out: &Path,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        if stop.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let mut command = child::of_this_program()?;
        command.args(words).arg("--out").arg(out).arg("--quiet");
        child::let_in(&mut command, &self.access, self.place.identity());
        command.env("ZKLOCKBENCH_NO_FLOOR", "1").env("ZKLOCKBENCH_NO_CHARTS", "1");
        child::run(command, &self.said(name), stop).await?;
        if stop.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn said(&self, name: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{name}.txt"))
    }

    fn left(&self, results: &Path, name: &str) -> Result<PathBuf, Error> {
        if results.is_dir() {
            return Ok(results.to_owned());
        }
        let said = self.said(name);
        let last = child::last_words(&said);
        let server = self.place.ended().map_or_else(String::new, |server| format!("; {server}"));
        Err(Error::environment(format!(
            "{name} left no results{server}; the end of {}:\n  {last}",
            said.display()
        )))
    }
}

/// What starts servers like those of a plan.
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

fn tidy(directory: &Path) {
    for folder in [RUNS, "logs", "scenarios"] {
        let _ = fs::remove_dir(directory.join(folder));
    }
}
