//! Measurements for an answer without stored results: the question's own load, over more locks and fewer, and the loss of the
//! leader under each strategy. Also the ensemble on which a plan measures and verifies, with its runs there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::VERIFIES_BY;
use super::evidence::{StoredEvidence, VERIFIES};
use super::question::PlanArgs;
use crate::cli::output;
use crate::cli::runs::{JobOptions, ReadyEnsemble, own_program, run_apart, with_paths};
use crate::cli::shared_args::GeneratorArgs;
use crate::run::series::{RunPlace, Series};
use zklockbench_analysis::plan::{Question, QuestionLoad};
use zklockbench_core::error::Error;
use zklockbench_core::units::{counted, format_duration};

/// Target load of the ensemble during measurements, in acquisitions per second, unless the question asks for more.
const BUSY: f64 = 120.0;
/// Factors on the number of locks (half, all, and more), to show how results depend on the ensemble's load.
const POINTS: [f64; 3] = [0.5, 1.0, 1.3];
/// Utilisation of each lock in another trial with fewer locks. It shows how results depend on the queue, so that predicted queues
/// are not much longer than measured ones.
const BUSIER: f64 = 0.8;
/// Approximate handoff time, used to estimate how busy a lock will be.
const HANDOFF: Duration = Duration::from_millis(5);
const MEASURES: Duration = Duration::from_secs(8);
const REPETITIONS: u32 = 2;
/// Warm-up, and the steps before and after a trial.
const AROUND_A_TRIAL: Duration = Duration::from_secs(3);
const CALIBRATES: Duration = Duration::from_secs(15);
const STARTS: Duration = Duration::from_secs(8);
/// Factor on the duration if trials disagree: longer trials are affected by disturbances more evenly.
const LONGER: u32 = 3;
const OUTAGE: &str = "outage";

pub struct Measuring<'a> {
    pub question: &'a Question,
    pub runs: PlanRuns<'a>,
}

/// Trials of some strategies at all points.
struct Trials<'a> {
    name: &'a str,
    strategies: &'a [String],
    lasts: Duration,
    /// Seed before that of the first point.
    seed: u64,
}

impl Measuring<'_> {
    /// Adds the evidence that separates the parts of the service time.
    pub async fn run(
        &mut self,
        strategies: &[String],
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let whole = CALIBRATES + self.takes(strategies.len(), 0);
        self.note(&format!("measuring {}: about {}", strategies.join(", "), in_minutes(whole)));
        stored_evidence.take(&self.runs.calibrate().await?)?;
        let seed = self.runs.args.seed;
        self.points(&Trials { name: "measure", strategies, lasts: MEASURES, seed }, stored_evidence).await?;
        self.again(strategies, stored_evidence).await?;
        if self.runs.may_lose_a_server() {
            self.outage(strategies, stored_evidence).await?;
        }
        Ok(())
    }

    /// Measures the question's own load, over more locks and fewer, so that handoffs are frequent.
    async fn points(
        &mut self,
        trials: &Trials<'_>,
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let question = self.question;
        let at = |point: f64| question.copies((copies(question) * point).max(1.0 / question.locks as f64));
        let loads: Vec<QuestionLoad> = POINTS.into_iter().map(at).chain(busier(question, at(1.0))).collect();
        let all = loads.len();
        for (number, load) in (1_u64..).zip(loads) {
            let seed = trials.seed + number;
            let ask = QuestionLoad { lasts: trials.lasts, repetitions: REPETITIONS, seed, ..load };
            let name = format!("{}-{number}", trials.name);
            let text = question.scenario(&name, trials.strategies, &ask);
            let run = self.runs.run(&name, &text).await?;
            let left = in_minutes(self.takes(trials.strategies.len(), number as usize));
            self.note(&format!("[{number}/{all}] {}; about {left} left", said(question, &ask)));
            stored_evidence.take(&run)?;
        }
        Ok(())
    }

    /// Approximate time to measure that many strategies at the remaining points.
    fn takes(&self, strategies: usize, points: usize) -> Duration {
        let strategies = u32::try_from(strategies).unwrap_or(u32::MAX);
        let left = u32::try_from((POINTS.len() + 1).saturating_sub(points)).unwrap_or(0);
        let points = left * strategies * REPETITIONS * (MEASURES + AROUND_A_TRIAL);
        let outage = strategies * (Failures::of(self.runs.args.failures).last + AROUND_A_TRIAL) + STARTS;
        points + if self.runs.may_lose_a_server() { outage } else { Duration::ZERO }
    }

    /// Repeats, for longer, strategies whose trials disagree.
    async fn again(
        &mut self,
        strategies: &[String],
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let mut disagree = Vec::new();
        for strategy in strategies {
            let Some(why) = stored_evidence.evidence(strategy, false).disagrees() else { continue };
            stored_evidence.drop_trials_of(
                strategy,
                &format!("{why}; so it was rerun, {LONGER} times as long, and only that counts"),
            );
            disagree.push(strategy.clone());
        }
        if disagree.is_empty() {
            return Ok(());
        }
        let names = disagree.join(", ");
        self.note(&format!("trials of {names} disagree; measuring again, {LONGER} times as long"));
        let seed = self.runs.args.seed + POINTS.len() as u64 + 1;
        let longer = Trials { name: "again", strategies: &disagree, lasts: LONGER * MEASURES, seed };
        self.points(&longer, stored_evidence).await
    }

    async fn outage(
        &mut self,
        strategies: &[String],
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let failures = Failures::of(self.runs.args.failures);
        self.note(&format!(
            "{} under each strategy, on servers of their own: {}",
            self.runs.args.failures.map_or("killing the leader once", |_| "breaking servers and holders"),
            format_duration(failures.last)
        ));
        let text = failures.scenario(OUTAGE, self.question, strategies, self.runs.args.seed);
        match self.runs.run_apart(OUTAGE, &text).await {
            Ok(run) => stored_evidence.take(&run),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Other questions can still be answered.
            Err(why) => {
                output::warn(format!("what happens while a server is down was not measured: {why}"));
                Ok(())
            }
        }
    }

    fn note(&self, what: &str) {
        if !self.runs.args.opening.quiet {
            output::note(what);
        }
    }
}

/// Kills leaders under a plan's load again, on other servers, to check the prediction.
pub async fn lose_leaders(
    question: &Question,
    strategies: &[String],
    times: u32,
    runs: &mut PlanRuns<'_>,
) -> Result<PathBuf, Error> {
    let failures = Failures::of_leaders(times);
    if !runs.args.opening.quiet {
        let last = format_duration(failures.last);
        output::note(&format!("verifying what a leader's death costs, under each strategy: {last}"));
    }
    let name = format!("{VERIFIES}{OUTAGE}");
    let text = failures.scenario(&name, question, strategies, runs.args.seed + VERIFIES_BY);
    runs.run_apart(&name, &text).await
}

/// Description of the measured load, and how busy its locks are compared with the question's.
fn said(question: &Question, ask: &QuestionLoad) -> String {
    let locks = counted(ask.locks, "lock", "locks");
    let load = match question.think {
        Some(_) => counted(ask.clients, "client", "clients"),
        None => format!("{:.0} requests a second", ask.rate),
    };
    let for_each_lock = ask.rate / ask.locks as f64;
    let busy = if for_each_lock > 1.05 * question.rate / question.locks as f64 {
        "each busier than yours"
    } else {
        "each as busy as yours"
    };
    format!("{load} over {locks}, {busy}")
}

fn in_minutes(time: Duration) -> String {
    match (time.as_secs() + 30) / 60 {
        0 => "half a minute".to_owned(),
        minutes => counted(minutes, "minute", "minutes"),
    }
}

/// The same arrivals over fewer locks, so that each is busier than in the question; `None` if they are already that busy.
fn busier(question: &Question, load: QuestionLoad) -> Option<QuestionLoad> {
    let busy = load.rate * (question.hold + HANDOFF).as_secs_f64();
    let locks = (busy / BUSIER).ceil().max(1.0) as usize;
    (locks < load.locks).then_some(QuestionLoad { locks, ..load })
}

/// Factor on the requested number of locks that makes handoffs frequent enough, with no more sessions than this host can handle.
pub fn copies(question: &Question) -> f64 {
    // Returning clients are part of the load: each lock must keep its own.
    let by_clients = if question.think.is_some() { CLIENTS_AT_ONCE / question.clients as f64 } else { 100.0 };
    let most = (100.0 / question.locks as f64).min(by_clients).max(1.0);
    (BUSY / question.rate).clamp(1.0, most).floor()
}

/// Most concurrent clients of a closed load, unless the question itself has more.
const CLIENTS_AT_ONCE: f64 = 200.0;

/// The faults of a trial, one after the other.
struct Failures {
    /// As `[[fault]]` tables of a scenario.
    toml: String,
    last: Duration,
}

/// A failure, and the time until everything is back to normal.
struct KindOfFailure {
    fault: &'static str,
    takes: Duration,
}

const LEADER: KindOfFailure = KindOfFailure {
    fault: "kind = \"kill\"\ntarget = \"leader\"\nduration = \"2s\"\n",
    takes: Duration::from_secs(8),
};
/// Long enough to show how contenders fare that arrive while a server is missing.
const FOLLOWER: KindOfFailure = KindOfFailure {
    fault: "kind = \"kill\"\ntarget = \"follower\"\nduration = \"10s\"\n",
    takes: Duration::from_secs(16),
};
/// Its lock stands still until its session has expired.
const HOLDER: KindOfFailure =
    KindOfFailure { fault: "kind = \"crash\"\ntarget = \"holder\"\n", takes: Duration::from_secs(16) };
const ROLLING: KindOfFailure =
    KindOfFailure { fault: "kind = \"rolling-restart\"\n", takes: Duration::from_secs(30) };

impl Failures {
    /// Each kind this many times, and one rolling restart of all servers; a single loss of the leader for `None`.
    fn of(times: Option<u32>) -> Self {
        let Some(times) = times else { return Self::of_leaders(1) };
        let mut all = Self::of_leaders(times);
        for kind in [&FOLLOWER, &HOLDER] {
            (0..times).for_each(|_| all.add(kind));
        }
        all.add(&ROLLING);
        all
    }

    fn of_leaders(times: u32) -> Self {
        let mut all = Self { toml: String::new(), last: Duration::from_secs(2) };
        (0..times).for_each(|_| all.add(&LEADER));
        all
    }

    fn scenario(&self, name: &str, question: &Question, strategies: &[String], seed: u64) -> String {
        let ask = QuestionLoad { lasts: self.last, seed, ..question.copies(copies(question)) };
        question.scenario(name, strategies, &ask) + &self.toml
    }

    fn add(&mut self, kind: &KindOfFailure) {
        let at = self.last.as_secs();
        self.toml.push_str(&format!("\n[[fault]]\nat = \"{at}s\"\n{}", kind.fault));
        self.last += kind.takes;
    }
}

/// Starts or finds the ensemble, and warms it up if it is local.
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
    /// Whether its servers were started here and the rest can continue without one of them.
    pub fn may_lose_a_server(&self) -> bool {
        !self.ensemble.opened.is_external() && self.ensemble.ensemble.servers.len() > 1
    }

    pub async fn run(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let (file, program, ensemble) =
            (self.series.scenario(name, scenario)?, own_program()?, self.ensemble);
        let job = JobOptions::of(&self.args.job, &self.args.out);
        let generator = self.args.generator.clone();
        self.left(name, |place| Ok(ensemble.run(&program, &file, place, generator, job, Vec::new()))).await
    }

    /// The same on a separate ensemble like the plan's, because it breaks servers.
    pub async fn run_apart(&mut self, name: &str, scenario: &str) -> Result<PathBuf, Error> {
        let file = self.series.scenario(name, scenario)?;
        let generator = GeneratorArgs { allow_faults: true, ..self.args.generator.clone() };
        let mut words = [alike(self.args), generator.words()].concat();
        words.push("--quiet".into());
        self.left(name, |place| run_apart(&file, place, words)).await
    }

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

/// Options that start another ensemble like this one.
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
