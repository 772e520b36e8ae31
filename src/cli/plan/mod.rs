//! `plan`: a question, the measurements to answer it, the answer, and its verification.

mod evidence;
mod measuring;
pub mod question;

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::reading;
use super::run::open_ensemble::{Needs, warm_up_scenario};
use super::run::tool_commit;
use super::runs::{ReadyEnsemble, command_line, how_to_resume, leading, tell_resumed, to_resume};
use super::{drivers, output};
use crate::run::series::{Folders, Opening, Series};
use evidence::{StoredEvidence, VERIFIES};
use measuring::{Measuring, PlanRuns, copies};
use question::{AskedLoad, PlanArgs, verifying};
use zklockbench_analysis::plan::{
    Answer, Attempt, Candidate, CheckedFailure, Effort, Evidence, FILE, FailureCost, PlanFile, PlannedLoad,
    Question, QuestionLoad, RUNS, SIMULATED, Unverified, Verification, map, recommend, verify,
};
use zklockbench_core::catalog::{Holders, LockCard};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::shown;
use zklockbench_locks::DrivenLocks;
use zklockbench_record::RunEnding;
use zklockbench_report::page;
use zklockbench_results::layout;
use zklockbench_scenario::{Scenario, did_you_mean};
use zklockbench_stats::queueing::Order;
use zklockbench_zk::Target;

/// Default strategies: a queue that wakes one, one that wakes all, and the most used recipe.
const STRATEGIES: [&str; 3] = ["predecessor-watch", "parent-watch", "curator-mutex"];

pub async fn execute(args: PlanArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let job = args.job.clone();
    let target = || -> Result<Target, Error> {
        let connect = args.place.connect.clone().unwrap_or_default();
        Ok(Target { connect, access: args.opening.access.access(None)? })
    };
    leading(&job, target(), answer_and_verify(args, stop)).await
}

async fn answer_and_verify(args: PlanArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let AskedLoad { question, load, scenario } = AskedLoad::of(&args)?;
    let (from, round_trip) = (args.from.clone(), question.round_trip);
    let mut stored_evidence = reading(stop, move || {
        let mut stored_evidence = StoredEvidence::at(round_trip);
        from.iter().try_for_each(|path| stored_evidence.take(path))?;
        Ok(stored_evidence)
    })
    .await?;
    stored_evidence.check()?;
    let strategies = strategies(&args, &stored_evidence)?;
    check_place(&args, &scenario, &strategies)?;
    let mut series = Series::open(&Opening {
        command: "plan",
        parent: &args.out,
        name: "plan",
        is_dated: true,
        resume: args.resume.as_deref(),
        asked: asked(&args, &question, &strategies),
        folders: Folders { runs: RUNS, logs: "logs", scenarios: "scenarios" },
        shares_ensemble: true,
    })?;
    tell_resumed(series.count(), args.opening.quiet);
    let mut ready = None;
    if args.from.is_empty() {
        let opened = measuring::open(&args, &series, stop).await?;
        let runs = PlanRuns { series: &mut series, ensemble: &opened, args: &args, stop };
        let mut measuring = Measuring { question: &question, runs };
        let measured = measuring.run(&strategies, &mut stored_evidence).await;
        if let Err(why) = measured {
            output::note(&format!("resume with: {}", how_to_resume(series.path())));
            return Err(why);
        }
        ready = Some(opened);
    }
    let effort = Effort { arrivals: f64::from(args.simulate), ..Effort::whole(args.seed) };
    let known: Vec<(PlannedLoad, Evidence)> =
        strategies.iter().map(|name| load_and_evidence(name, &stored_evidence, &load)).collect();
    let answer = |(name, (load, evidence)): (&String, &(PlannedLoad, Evidence))| {
        Answer::of(name, evidence, load, &question.objective, effort)
    };
    let answers: Vec<Answer> = strategies.iter().zip(&known).map(answer).collect();
    let candidates: Vec<Candidate<'_>> = answers
        .iter()
        .zip(&known)
        .filter_map(|(one, (load, evidence))| Candidate::of(one, evidence, load))
        .collect();
    let map = map(&candidates, &question.objective, effort);
    let (host, ensemble) = stored_evidence.place.clone().unzip();
    let mut plan = PlanFile {
        schema_version: FILE.version,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        tool_commit: tool_commit(),
        asked_at: series.started_at(),
        command: command_line(),
        question,
        host,
        ensemble: ready.as_ref().map(|ready| ready.ensemble.clone()).or(ensemble),
        sources: stored_evidence.sources.clone(),
        left_out: stored_evidence.left_out.clone(),
        map,
        recommendation: recommend(&answers),
        answers,
        verifications: Vec::new(),
        unverified: Vec::new(),
    };
    keep(&mut series, &plan)?;
    if args.verify {
        if !args.opening.quiet && !output::as_json() {
            output::note(&format!("predicted: {}", zklockbench_report::plan_headline(&plan)));
        }
        // The prediction includes how servers differ from start to start, so it is verified on restarted ones.
        let opened = match ready.take() {
            Some(ready) if ready.opened.is_external() => Ok(ready),
            measured => {
                measured.into_iter().for_each(ReadyEnsemble::close);
                measuring::open(&args, &series, stop).await
            }
        };
        // The answer already exists: a failure from here on leaves it unverified, but loses nothing.
        match opened {
            Ok(ready) => {
                let mut runs = PlanRuns { series: &mut series, ensemble: &ready, args: &args, stop };
                prove(&mut plan, &mut runs, &stored_evidence).await;
                ready.close();
            }
            Err(why) => {
                let of = |strategy| Unverified { strategy, why: why.to_string() };
                plan.unverified = to_verify(&plan, &args).into_iter().map(of).collect();
            }
        }
        keep(&mut series, &plan)?;
    } else if let Some(ready) = ready {
        ready.close();
    }
    tell(&plan, &series, args.opening.quiet, stop)
}

/// Settings that must not change when the plan is resumed.
fn asked(args: &PlanArgs, question: &Question, strategies: &[String]) -> serde_json::Value {
    let (seed, threads) = (args.seed, args.generator.threads);
    let mut asked =
        json!({ "question": question, "strategies": strategies, "seed": seed, "threads": threads });
    if let Some(times) = args.failures {
        asked["failures"] = times.into();
    }
    asked
}

/// The requested strategies, each of which admits one contender at a time.
fn strategies(args: &PlanArgs, stored_evidence: &StoredEvidence) -> Result<Vec<String>, Error> {
    if args.strategies.is_empty() {
        let known = stored_evidence.strategies();
        let exclusive = |label: &String| card(label).is_some_and(|card| is_exclusive(&card));
        let known: Vec<String> = known.into_iter().filter(exclusive).collect();
        return match (args.from.is_empty(), known.is_empty()) {
            (true, _) => Ok(STRATEGIES.map(str::to_owned).into()),
            (false, false) => Ok(known),
            (false, true) => Err(Error::usage(
                "the results have no strategy that lets in one at a time: name others with --from",
            )),
        };
    }
    for name in &args.strategies {
        let Some(card) = card(name) else {
            let names = zklockbench_locks::STRATEGIES.iter().map(|entry| entry.card.name);
            let meant = did_you_mean(name, names, "`zklockbench strategies` lists them");
            return Err(Error::usage(format!("there is no strategy `{}`; {meant}", shown(name, 40))));
        };
        if !is_exclusive(&card) {
            return Err(Error::usage(format!("`{name}` isn't exclusive, so no plan can be made for it")));
        }
    }
    Ok(args.strategies.clone())
}

/// The name of a strategy, which is the first part of its label.
fn name_in(label: &str) -> &str {
    label.split(' ').next().unwrap_or_default()
}

fn card(label: &str) -> Option<LockCard> {
    zklockbench_locks::find(name_in(label)).map(|entry| entry.card)
}

fn is_exclusive(card: &LockCard) -> bool {
    card.guarantees.exclusive && matches!(card.guarantees.holders, Holders::One)
}

fn order(card: &LockCard) -> Order {
    if card.guarantees.fifo { Order::Fifo } else { Order::Unordered }
}

/// Refuses options for an ensemble that is not used, and ensembles that cannot provide the question's round trips.
fn check_place(args: &PlanArgs, scenario: &Scenario, strategies: &[String]) -> Result<(), Error> {
    let measures = args.from.is_empty() || args.verify;
    if !measures && args.place.servers.is_some() {
        return Err(Error::usage(
            "--servers says where to measure, and with --from nothing is measured: leave one of the two out, or add --verify",
        ));
    }
    if !measures {
        return Ok(());
    }
    let (place, wants_tls) = (args.place.scenario("plan")?, args.opening.access.wants_tls());
    let driven = DrivenLocks::registered();
    drivers::check_tls(strategies.iter().map(|label| name_in(label)), driven, wants_tls)?;
    Needs::of(scenario).check(&place, driven, &args.generator, &args.opening.access)
}

/// The load in the order of a strategy's queue, and the evidence on the strategy.
fn load_and_evidence(
    strategy: &str,
    stored_evidence: &StoredEvidence,
    load: &PlannedLoad,
) -> (PlannedLoad, Evidence) {
    let card = card(strategy);
    let load = load.clone().in_order(card.as_ref().map_or(Order::Fifo, order));
    (load, stored_evidence.evidence(strategy, card.is_some_and(|card| card.guarantees.watches)))
}

/// Strategies to verify under the load itself: the recommended one, or all named ones.
fn to_verify(plan: &PlanFile, args: &PlanArgs) -> Vec<String> {
    match (&plan.recommendation, args.strategies.is_empty()) {
        (Some(one), true) => vec![one.strategy.clone()],
        _ => plan.answers.iter().map(|answer| answer.strategy.clone()).collect(),
    }
}

/// Offset of the seed, so that a verification is another draw.
const VERIFIES_BY: u64 = 1_000;

/// Length of the warm-up before a verification: as much work as the calibration, which saturates the servers, did before the
/// measurements. A JVM's compiler counts calls, so under a light load new servers stay slower for minutes (by half for a free
/// lock).
const WARMS: Duration = Duration::from_secs(25);

/// Runs the load itself, and records which strategies could not be verified.
async fn prove(plan: &mut PlanFile, runs: &mut PlanRuns<'_>, stored_evidence: &StoredEvidence) {
    if !runs.ensemble.opened.is_external() {
        let name = format!("{VERIFIES}0");
        if let Err(why) = runs.run(&name, &warm_up_scenario(&name, WARMS)).await {
            output::warn(format!("the servers are not as warm as those that were measured: {why}"));
        }
    }
    for (number, strategy) in (1_u64..).zip(to_verify(plan, runs.args)) {
        let tried = prove_one(plan, (number, &strategy), runs, stored_evidence).await;
        match tried {
            Ok(verified) => plan.verifications.push(verified),
            Err(why) => {
                output::warn(format!("{strategy} is not verified: {why}"));
                plan.unverified.push(Unverified { strategy, why: why.to_string() });
            }
        }
    }
    if let Some(times) = runs.args.failures.filter(|_| runs.may_lose_a_server())
        && let Err(why) = prove_failures(plan, times, runs).await
    {
        output::warn(format!("what failures cost is not verified: {why}"));
    }
}

/// Kills the leader as often again under each verified strategy.
async fn prove_failures(plan: &mut PlanFile, times: u32, runs: &mut PlanRuns<'_>) -> Result<(), Error> {
    let strategies: Vec<String> = plan.verifications.iter().map(|one| one.strategy.clone()).collect();
    if strategies.is_empty() {
        return Ok(());
    }
    let run = measuring::lose_leaders(&plan.question, &strategies, times, runs).await?;
    let mut stored_evidence = StoredEvidence::at(plan.question.round_trip);
    stored_evidence.take(&run)?;
    let (locks, objective) = (plan.question.locks, &plan.question.objective);
    for verified in &mut plan.verifications {
        let again = stored_evidence.evidence(&verified.strategy, false).failures;
        let again = FailureCost::of_each(&again, locks, objective);
        let answer = plan.answers.iter().find(|answer| answer.strategy == verified.strategy);
        let predicted = answer.map_or(&[][..], |answer| &answer.failures);
        verified.failures = CheckedFailure::of_each(predicted, &again);
    }
    Ok(())
}

async fn prove_one(
    plan: &PlanFile,
    (number, strategy): (u64, &str),
    runs: &mut PlanRuns<'_>,
    stored_evidence: &StoredEvidence,
) -> Result<Verification, Error> {
    let args = runs.args;
    let nothing = |why: &str| Error::environment(why);
    let answer = plan.answers.iter().find(|answer| answer.strategy == strategy);
    let Some(fit) = answer.and_then(|answer| answer.fit.as_ref()) else {
        return Err(nothing("nothing was predicted of it"));
    };
    let name = format!("{VERIFIES}{number}");
    let seed = args.seed + VERIFIES_BY + number;
    let (text, said) = verifying_load(&plan.question, &name, strategy, seed, args)?;
    if !args.opening.quiet {
        output::note(&format!("verifying {strategy}: {said}"));
    }
    let run = runs.run(&name, &text).await?;
    let stored = zklockbench_results::read(&run)?;
    let trial = stored.trials.first().ok_or_else(|| nothing("its run has no trial"))?;
    let order = card(strategy).as_ref().map_or(Order::Fifo, order);
    let load = PlannedLoad::of(&trial.spec, order).ok_or_else(|| nothing("its run had another load"))?;
    let (fitted, _) = stored_evidence.evidence(strategy, false).usable();
    let attempt = Attempt { run, trial, load: &load, fit, fitted: &fitted };
    let mut verified = verify(attempt, &plan.question, args.seed).map_err(Error::Environment)?;
    verified.notes.extend(stored_evidence.differs_from(&stored.run.ensemble));
    Ok(verified)
}

/// The scenario that verifies a strategy, and its load as text: the question's, or several copies of it.
fn verifying_load(
    question: &Question,
    name: &str,
    strategy: &str,
    seed: u64,
    args: &PlanArgs,
) -> Result<(String, String), Error> {
    let label = name_in(strategy);
    if let Some(text) = &question.scenario {
        let text = verifying(text, name, label, seed, args.verify_for)?;
        return Ok((text, "the load of the scenario".to_owned()));
    }
    let base = question.copies(copies(question));
    let lasts = Duration::from_secs_f64((1.05 * SIMULATED / base.rate).max(5.0)).min(args.verify_for);
    let ask = QuestionLoad { lasts, seed, ..base };
    let (rate, locks, seconds) = (ask.rate, ask.locks, lasts.as_secs());
    let said = format!("{rate:.0} requests a second over {locks} locks for {seconds} s");
    Ok((question.scenario(name, &[label.to_owned()], &ask), said))
}

fn tell(plan: &PlanFile, series: &Series, is_quiet: bool, stop: &CancellationToken) -> Result<Exit, Error> {
    let directory = series.path();
    let resume = stop.is_cancelled().then(|| how_to_resume(directory));
    let ending = if stop.is_cancelled() { RunEnding::Interrupted } else { RunEnding::Complete };
    let exit = ending.exit(&plan.verdict());
    let report = Some(directory.join(layout::REPORT)).filter(|page| page.is_file());
    let found = json!({ "results": directory, "report": report, "resume": resume, "plan": plan });
    output::tell("plan", exit, &found, || {
        output::outcome(is_quiet, &zklockbench_report::plan_headline(plan), || {
            let mut said =
                format!("{}\nplan: {}", zklockbench_report::plan(plan, output::style()), directory.display());
            if let Some(report) = report {
                said.push_str(&format!("\nreport: {}", report.display()));
            }
            said + &to_resume(resume.as_deref())
        })
    })
}

fn keep(series: &mut Series, plan: &PlanFile) -> Result<(), Error> {
    series.keep();
    plan.write(series.path())?;
    super::report::write_into(series.path(), page::of_plan(plan));
    Ok(())
}
