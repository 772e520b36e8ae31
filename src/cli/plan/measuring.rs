//! Measurements of a plan: the service times of each lock, the loss of the leader under each lock, and the
//! planned load itself. Also the ensemble on which a plan measures and verifies.
//!
//! Under a light load, or over many locks, hardly any request waits. Service times are therefore measured
//! separately on a few busy locks, at the planned rate or higher. If the prediction is inconclusive, a
//! measurement of the planned load itself decides.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toml::Table;

use super::VERIFIES_BY;
use super::countdown::{Countdown, expected};
use super::evidence::{StoredEvidence, VERIFIES};
use super::own_load::{BUSY, OwnLoad, Wanted, copies};
use super::question::{AskedLoad, PlanArgs};
use crate::cli::output;
use crate::cli::runs::{ReadyEnsemble, alike, own_program, run_apart};
use crate::cli::shared_args::{GeneratorArgs, PlaceArgs};
use crate::run::series::Series;
use zklockbench_analysis::plan::{Answer, FreshCost, MeasuredLoad, Question, QuestionLoad, WRITES};
use zklockbench_core::error::Error;
use zklockbench_core::units::{counted, format_duration, number};
use zklockbench_core::verdict::Verdict;

/// Service loads: rate as a multiple of the base rate, and utilisation of each lock. The loads differ to separate
/// handoff costs that depend on the queue from costs that depend on the ensemble's load.
const POINTS: [(f64, f64); 3] = [(0.5, 0.5), (1.0, 0.8), (1.3, 0.7)];
/// Approximate handoff time for estimating a lock's utilisation, and the number of round trips in a handoff.
pub const HANDOFF: Duration = Duration::from_millis(5);
pub const ROUND_TRIPS: u32 = 2;
/// Maximum mean hold of service loads. Handoffs hardly depend on holds, and shorter holds yield more handoffs.
const HOLD_MOST: Duration = Duration::from_millis(30);
/// Sessions per busy lock, most of which wait.
const SESSIONS_EACH: usize = 7;
const MEASURES: Duration = Duration::from_secs(7);
const WARMS_UP: Duration = Duration::from_millis(1_500);
const REPETITIONS: usize = 2;
/// Duration of a quick calibration, including its setup.
const CALIBRATES: Duration = Duration::from_secs(9);
/// Expected time to start and warm up an ensemble.
pub const STARTS: Duration = Duration::from_secs(12);
const OUTAGE: &str = "outage";
/// Number of arrivals when measuring the planned load itself.
const OWN_ARRIVALS: f64 = 1_000.0;
const OWN_LASTS: Duration = Duration::from_secs(45);
/// Minimum and maximum duration of that measurement if the prediction is inconclusive.
const OPEN_LASTS: Duration = Duration::from_secs(60);
const OPEN_MOST: Duration = Duration::from_secs(180);
/// Maximum share of the ensemble's write capacity that service loads of returning clients use.
const OF_WRITES: f64 = 0.5;
/// Share of the headroom that a multiplied light load may use.
const OF_HEADROOM: f64 = 0.7;
/// Name of the run with a fresh lock per request, and the value of `locks` in its scenario.
const FRESH: &str = "fresh";
/// Approximate number of acquisitions in the run with fresh locks.
const FRESH_LOCKS: f64 = 500.0;

/// A plan in progress.
pub struct Planning<'a> {
    pub args: &'a PlanArgs,
    pub asked: &'a AskedLoad,
    pub series: Series,
    pub countdown: Countdown,
    pub stop: &'a CancellationToken,
}

/// An ensemble on which a plan measures.
pub struct PlanEnsemble {
    pub ready: ReadyEnsemble,
    pub place: PlaceArgs,
    /// Prefix of run names.
    pub prefix: String,
    /// Number of repetitions of each service load.
    pub repetitions: usize,
}

/// A planned run: its name, its scenario, and its load as a phrase.
struct Step {
    name: String,
    text: String,
    said: String,
}

impl Step {
    fn expected(&self) -> Duration {
        expected(&self.name, &self.text).unwrap_or(MEASURES)
    }
}

/// Returns the expected duration of all measurements.
pub fn takes(asked: &AskedLoad, strategies: &[String], args: &PlanArgs, breaks_servers: bool) -> Duration {
    service_takes(asked, strategies, args, REPETITIONS, breaks_servers) + own_takes(asked, strategies, args)
}

/// Returns the expected time to measure the planned load itself with one strategy.
pub fn own_takes(asked: &AskedLoad, strategies: &[String], args: &PlanArgs) -> Duration {
    let Some(first) = strategies.first() else { return Duration::ZERO };
    own(args, asked, ("own", first), 0, false, None).map_or(OWN_LASTS, |own| own.takes)
}

/// Returns the planned load for measuring a strategy, for longer if it is measured `again`. `answer` is `None` if
/// nothing has been predicted yet.
fn own(
    args: &PlanArgs,
    asked: &AskedLoad,
    (name, strategy): (&str, &str),
    number: u64,
    again: bool,
    answer: Option<&Answer>,
) -> Result<OwnLoad, Error> {
    let needed = needed(&asked.question);
    let is_open = answer.is_some_and(|answer| matches!(answer.verdict, Verdict::Unknown(_)));
    let longest = match is_open {
        // The load must reach each of its rates.
        _ if asked.load.is_changing() => args.verify_for,
        _ if again => OPEN_LASTS,
        true => Duration::from_secs_f64(needed / asked.question.rate).clamp(OPEN_LASTS, OPEN_MOST),
        false => OWN_LASTS,
    };
    let arrivals = if is_open || again { 4.0 * OWN_ARRIVALS } else { OWN_ARRIVALS };
    let wanted = Wanted {
        name,
        strategy: &asked.spelled(strategy),
        seed: args.seed + OWN_BY + number,
        arrivals: arrivals.max(needed),
        needed,
        longest,
        sessions: answer.and_then(sessions),
        times_at_most: answer.map_or(1.0, times_at_most),
    };
    OwnLoad::of(asked, &wanted)
}

/// Returns the expected duration of the calibration, the service loads and the loss of the leader.
pub fn service_takes(
    asked: &AskedLoad,
    strategies: &[String],
    args: &PlanArgs,
    repetitions: usize,
    breaks_servers: bool,
) -> Duration {
    let steps = service(asked, strategies, args.seed, repetitions, None);
    let outage = match breaks_servers && loses_leader(asked) {
        true => outage(asked, strategies, args).1,
        false => Duration::ZERO,
    };
    CALIBRATES + steps.iter().map(Step::expected).sum::<Duration>() + outage
}

/// Returns whether the plan measures the loss of the leader. Tries never wait, so a plan for tries has no outage to
/// measure.
fn loses_leader(asked: &AskedLoad) -> bool {
    asked.load.impossible().is_none() && !asked.question.only_tries
}

/// Returns the scenario that measures the cost of failures, and its expected duration with the start of its servers.
fn outage(asked: &AskedLoad, strategies: &[String], args: &PlanArgs) -> (String, Duration) {
    let failures = Failures::of(args.failures, asked.scenario.session_timeout);
    let text = failures.scenario(OUTAGE, asked, &asked.all_spelled(strategies), args.seed);
    let takes = STARTS + expected(OUTAGE, &text).unwrap_or(failures.last);
    (text, takes)
}

/// Returns runs of each lock at every service load, on an ensemble that sustains `writes_per_s`.
fn service(
    asked: &AskedLoad,
    strategies: &[String],
    seed: u64,
    repetitions: usize,
    writes_per_s: Option<f64>,
) -> Vec<Step> {
    let holds = asked.load.holds_at_most(HOLD_MOST);
    let question = asked.question.in_service(&holds);
    let busy_for = question.hold + HANDOFF + ROUND_TRIPS * question.round_trip.unwrap_or_default();
    let spelled = asked.all_spelled(strategies);
    let base = BUSY.max(usual_rate(asked, writes_per_s));
    let step = |(at, (factor, utilisation)): (u64, (f64, f64))| {
        let rate = factor * base;
        let locks = (rate * busy_for.as_secs_f64() / utilisation).ceil().max(1.0) as usize;
        let clients = (SESSIONS_EACH * locks + 20).min(1_000);
        let (lasts, warm_up, seed) = (MEASURES, WARMS_UP, seed + at);
        let load = QuestionLoad { rate, locks, clients, lasts, warm_up, seed };
        let name = format!("measure-{at}");
        let text = question.scenario(&name, &spelled, &load);
        let locks = counted(locks as u64, "busy lock", "busy locks");
        Step { name, text, said: format!("{} requests a second over {locks}", number(rate)) }
    };
    let points = std::iter::repeat_n(POINTS, repetitions).flatten();
    (1..).zip(points).map(step).collect()
}

/// Returns the rate of the load. For returning clients, which have no planned rate, returns the rate that their
/// locks can serve, within a share of the ensemble's write capacity.
fn usual_rate(asked: &AskedLoad, writes_per_s: Option<f64>) -> f64 {
    if !asked.load.is_closed() {
        return asked.question.rate;
    }
    let by_ensemble = writes_per_s.map_or(f64::INFINITY, |writes| OF_WRITES * writes / WRITES);
    asked.load.served_at_most(HANDOFF).min(by_ensemble)
}

impl AskedLoad {
    fn all_spelled(&self, strategies: &[String]) -> Vec<String> {
        strategies.iter().map(|label| self.spelled(label)).collect()
    }
}

impl Planning<'_> {
    /// Opens an ensemble and, if local, warms it up.
    pub async fn open(&self, place: PlaceArgs) -> Result<PlanEnsemble, Error> {
        let access = self.args.opening.access.access(None)?;
        let (scenario, logs) = (place.scenario("plan")?, self.series.server_logs("plan"));
        let ready = ReadyEnsemble::open(&scenario, &self.args.opening, access, logs, self.stop).await?;
        Ok(PlanEnsemble { ready, place, prefix: String::new(), repetitions: REPETITIONS })
    }

    /// Measures the evidence for predictions: service times and the cost of losing the leader.
    pub async fn measure(
        &mut self,
        on: &PlanEnsemble,
        strategies: &[String],
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let prefix = &on.prefix;
        self.countdown.note(&format!("measuring {}", strategies.join(", ")));
        stored_evidence.take(&self.calibrate(on, &format!("{prefix}calibration")).await?)?;
        let steps =
            service(self.asked, strategies, self.args.seed, on.repetitions, stored_evidence.writes_per_s());
        for (number, step) in (1..).zip(&steps) {
            self.countdown.note(&format!("[{number}/{}] {}", steps.len(), step.said));
            let name = format!("{prefix}{}", step.name);
            stored_evidence.take(&self.run(on, &name, &step.text, step.expected()).await?)?;
        }
        if on.ready.may_lose_a_server() && loses_leader(self.asked) {
            self.outage(on, strategies, stored_evidence).await?;
        }
        Ok(())
    }

    async fn outage(
        &mut self,
        on: &PlanEnsemble,
        strategies: &[String],
        stored_evidence: &mut StoredEvidence,
    ) -> Result<(), Error> {
        let what = self.args.failures.map_or("killing the leader once", |_| "breaking servers and holders");
        self.countdown.note(&format!("{what} under each strategy, on separate servers"));
        let (text, takes) = outage(self.asked, strategies, self.args);
        match self.run_apart(on, &format!("{}{OUTAGE}", on.prefix), &text, takes).await {
            Ok(run) => stored_evidence.take(&run),
            Err(Error::Interrupted) => Err(Error::Interrupted),
            // Continue, because the plan is useful without the cost of failures.
            Err(why) => {
                output::warn(format!("the cost of failures was not measured: {why}"));
                Ok(())
            }
        }
    }

    /// Measures the planned load itself with one strategy, for longer if it is measured `again`.
    pub async fn own_load(
        &mut self,
        on: &PlanEnsemble,
        answer: &Answer,
        number: u64,
        again: bool,
    ) -> Result<Option<MeasuredLoad>, Error> {
        let name = format!("own-{number}");
        let own = own(self.args, self.asked, (&name, &answer.strategy), number, again, Some(answer))?;
        self.countdown.expect(Duration::ZERO, own.takes);
        let load = if again { "your load again" } else { "your load" };
        self.countdown.note(&format!("{}: {load}, {}", answer.strategy, own.said));
        let run = self.run(on, &name, &own.text, own.takes).await?;
        let stored = zklockbench_results::read(&run)?;
        let shown = |trial| MeasuredLoad::of(run.clone(), trial, &self.asked.question, own.times, own.whole);
        Ok(stored.trials.first().and_then(shown))
    }

    /// Measures the planned load with a fresh lock for each request.
    pub async fn fresh(&mut self, on: &PlanEnsemble, strategies: &[String]) -> Result<Vec<FreshCost>, Error> {
        // Requests never share a fresh lock, so popularity does not apply.
        let question = Question { popularity: None, ..self.asked.question.clone() };
        let seed = self.args.seed;
        let lasts = Duration::from_secs_f64((FRESH_LOCKS / question.rate).clamp(3.0, 60.0));
        let load = QuestionLoad { lasts, warm_up: Duration::ZERO, seed, ..question.copies(1.0) };
        let spelled = self.asked.all_spelled(strategies);
        let text = question.scenario(FRESH, &spelled, &QuestionLoad { locks: 1, ..load });
        let mut table: Table = text.parse().map_err(Error::usage)?;
        table.insert("locks".to_owned(), FRESH.into());
        self.countdown
            .note(&format!("a new lock for each request, with each strategy: {}", format_duration(lasts)));
        let run = self.run(on, FRESH, &table.to_string(), Duration::ZERO).await?;
        let stored = zklockbench_results::read(&run)?;
        Ok(stored.trials.iter().map(|trial| FreshCost::of(trial, question.rate)).collect())
    }

    /// Kills leaders again under the load, on separate servers, to verify the predicted cost.
    pub async fn lose_leaders(
        &mut self,
        on: &PlanEnsemble,
        strategies: &[String],
        times: u32,
    ) -> Result<PathBuf, Error> {
        let failures = Failures::of_leaders(times);
        if !self.args.opening.quiet {
            let last = format_duration(failures.last);
            output::note(&format!("verifying the cost of losing the leader, with each strategy: {last}"));
        }
        let (name, seed) = (format!("{VERIFIES}{OUTAGE}"), self.args.seed + VERIFIES_BY);
        let text = failures.scenario(&name, self.asked, strategies, seed);
        self.run_apart(on, &name, &text, Duration::ZERO).await
    }

    /// Runs a scenario; `takes` is its expected duration.
    pub async fn run(
        &mut self,
        on: &PlanEnsemble,
        name: &str,
        scenario: &str,
        takes: Duration,
    ) -> Result<PathBuf, Error> {
        let (file, program) = (self.series.scenario(name, scenario)?, own_program()?);
        let job = Some((&self.args.job, self.args.out.as_path()));
        let generator = self.args.generator.clone();
        let command = |place: &Path| Ok(on.ready.run(&program, &file, place, generator, job, Vec::new()));
        self.left(on, name, takes, command).await
    }

    /// Like `run`, but on a separate ensemble of the same kind, because the run breaks servers.
    async fn run_apart(
        &mut self,
        on: &PlanEnsemble,
        name: &str,
        scenario: &str,
        takes: Duration,
    ) -> Result<PathBuf, Error> {
        let file = self.series.scenario(name, scenario)?;
        let generator = GeneratorArgs { allow_faults: true, ..self.args.generator.clone() };
        let mut words = [alike(&on.place, &self.args.opening), generator.words()].concat();
        words.push("--quiet".into());
        self.left(on, name, takes, |place| run_apart(&file, place, words)).await
    }

    async fn calibrate(&mut self, on: &PlanEnsemble, name: &str) -> Result<PathBuf, Error> {
        let command = |place: &Path| {
            let words = ["calibrate".into(), "--quick".into(), "--out".into(), place.into()];
            Ok(on.ready.command(&own_program()?, words.into()))
        };
        self.left(on, name, CALIBRATES, command).await
    }

    async fn left(
        &mut self,
        on: &PlanEnsemble,
        name: &str,
        takes: Duration,
        command: impl FnOnce(&Path) -> Result<Process, Error>,
    ) -> Result<PathBuf, Error> {
        // An invalid trial may suffice if the objective is far above the generator's delay.
        let once = |place: &Path| {
            let mut command = command(place)?;
            command.env("ZKLOCKBENCH_NO_RERUNS", "1");
            Ok(command)
        };
        let run = self.countdown.during(self.series.run(name, &(), once, self.stop)).await;
        self.countdown.done(takes);
        run?.results(name, on.ready.opened.ended()).map(Path::to_owned)
    }
}

/// Returns the minimum number of waits needed to judge the objective.
pub fn needed(question: &Question) -> f64 {
    question.objective.figure.samples_needed().max(100) as f64
}

/// Offset of the seed for measurements of the planned load itself.
const OWN_BY: u64 = 500;

/// Returns the largest multiple of the load that is predicted to meet the objective, minus a margin.
pub fn times_at_most(answer: &Answer) -> f64 {
    match (&answer.verdict, answer.headroom) {
        (Verdict::Held, Some(headroom)) => OF_HEADROOM * headroom.factor,
        _ => 1.0,
    }
}

/// Returns the highest predicted number of sessions in use, if there is a prediction.
pub fn sessions(answer: &Answer) -> Option<f64> {
    answer.prediction.as_ref().map(|prediction| prediction.sessions.high)
}

/// Maximum number of locks in a trial with faults. More locks would take a long time to create,
/// and none of them would be busy.
const LOCKS_MOST: usize = 2_000;

/// Returns the planned load over copies of its locks, up to the maximum number of locks.
fn outage_load(asked: &AskedLoad) -> QuestionLoad {
    let question = &asked.question;
    let load = question.copies(copies(question, asked.sessions_used(None)));
    QuestionLoad { locks: load.locks.min(LOCKS_MOST), ..load }
}

/// Consecutive faults of a trial.
struct Failures {
    /// Faults as `[[fault]]` tables of a scenario.
    toml: String,
    last: Duration,
}

/// A fault in TOML, and the time until the ensemble has recovered.
type KindOfFailure = (&'static str, Duration);

const LEADER: KindOfFailure =
    ("kind = \"kill\"\ntarget = \"leader\"\nduration = \"2s\"\n", Duration::from_secs(8));
/// Keeps the follower down long enough for contenders to arrive in the meantime.
const FOLLOWER: KindOfFailure =
    ("kind = \"kill\"\ntarget = \"follower\"\nduration = \"10s\"\n", Duration::from_secs(16));
/// Resembles a long garbage collection in a client, which loses its session if the session timeout is shorter.
const FROZEN: KindOfFailure =
    ("kind = \"freeze\"\ntarget = \"holder\"\nduration = \"3s\"\n", Duration::from_secs(8));
const PAUSED: KindOfFailure =
    ("kind = \"pause\"\ntarget = \"leader\"\nduration = \"3s\"\n", Duration::from_secs(10));

const ROLLING: KindOfFailure = ("kind = \"rolling-restart\"\n", Duration::from_secs(30));

impl Failures {
    /// Returns each kind of failure `times` times and one rolling restart; for `None`, a single loss of the leader.
    fn of(times: Option<u32>, session_timeout: Duration) -> Self {
        let Some(times) = times else { return Self::of_leaders(1) };
        let mut all = Self::of_leaders(times);
        // The lock is blocked until the session has expired.
        let crash = ("kind = \"crash\"\ntarget = \"holder\"\n", session_timeout + Duration::from_secs(6));
        for kind in [FOLLOWER, PAUSED, FROZEN, crash] {
            (0..times).for_each(|_| all.add(kind));
        }
        all.add(ROLLING);
        all
    }

    fn of_leaders(times: u32) -> Self {
        let mut all = Self { toml: String::new(), last: Duration::from_secs(2) };
        (0..times).for_each(|_| all.add(LEADER));
        all
    }

    fn scenario(&self, name: &str, asked: &AskedLoad, strategies: &[String], seed: u64) -> String {
        let ask = QuestionLoad { lasts: self.last, seed, ..outage_load(asked) };
        asked.question.scenario(name, strategies, &ask) + &self.toml
    }

    fn add(&mut self, (fault, takes): KindOfFailure) {
        let at = self.last.as_millis();
        self.toml.push_str(&format!("\n[[fault]]\nat = \"{at}ms\"\n{fault}"));
        self.last += takes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::question::tests::of_scenario;

    #[test]
    fn service_loads_of_returning_clients_use_at_most_half_the_ensembles_writes() {
        let closed = "load = \"closed\"\nthink = \"0s\"\nhold = \"1ms\"\nlocks = 20\nduration = \"20s\"\n";
        let (_, asked) = of_scenario(&[], closed, "").unwrap();
        // Given 20 clients whose cycle takes 6 ms with a handoff
        assert_eq!(usual_rate(&asked, None).round(), 3_333.0);
        // And an ensemble that completes 4,000 writes a second, enough for 2,000 acquisitions
        assert_eq!(usual_rate(&asked, Some(4_000.0)), 1_000.0);
        let open = "load = \"open\"\nrate = 300\nhold = \"1ms\"\nlocks = 20\nduration = \"20s\"\n";
        let (_, asked) = of_scenario(&[], open, "").unwrap();
        assert_eq!(usual_rate(&asked, Some(400.0)), 300.0, "the planned rate");
    }

    #[test]
    fn announced_time_covers_the_outage_and_the_planned_load() {
        let light = "load = \"open\"\nrate = 5\npopularity = { zipf = 1.0 }\nhold = \"5ms\"\nlocks = 20\n\
                     duration = \"20s\"\n";
        let (args, asked) = of_scenario(&[], light, "").unwrap();
        let said = |again: bool| own(&args, &asked, ("own", "baton"), 1, again, None).unwrap().said;
        assert!(said(false).ends_with(" for 45 s") && said(true).ends_with(" for 60 s"), "{}", said(true));
        let strategies = ["baton".to_owned()];
        let takes = own_takes(&asked, &strategies, &args);
        assert!(takes >= OWN_LASTS && takes < 2 * OWN_LASTS, "{takes:?}");
        let (takes, lasts) = (outage(&asked, &strategies, &args).1 - STARTS, Failures::of_leaders(1).last);
        assert!(takes > lasts && takes < 2 * lasts, "{takes:?}");
    }
}
