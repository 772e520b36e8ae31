//! `plan`: reads a load and an objective, measures, predicts the waits, and verifies the prediction.

mod by_servers;
mod countdown;
mod evidence;
mod holds;
mod measuring;
mod own_load;
pub mod question;
mod verifying;

use std::panic::resume_unwind;
use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::reading;
use super::run::open_ensemble::Needs;
use super::run::tool_commit;
use super::runs::{command_line, how_to_resume, leading, tell_resumed, to_resume};
use super::{drivers, output};
use crate::run::series::{Layout, Name, Series};
use countdown::Countdown;
use evidence::StoredEvidence;
use measuring::{PlanEnsemble, Planning, STARTS};
use question::{AskedLoad, PlanArgs};
use verifying::foremost;
use zklockbench_analysis::plan::{
    Answer, BUSIEST, ByServers, Effort, Evidence, FILE, MapCell, MeasuredLoad, PlanFile, PlannedLoad,
    Question, RUNS, map, recommend, settle, to_measure,
};
use zklockbench_core::catalog::{Holders, LockCard};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::shown;
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::parse_connect;
use zklockbench_locks::{DrivenLocks, own_label};
use zklockbench_record::RunEnding;
use zklockbench_report::page;
use zklockbench_results::layout;
use zklockbench_scenario::{Scenario, did_you_mean};
use zklockbench_stats::queueing::Order;
use zklockbench_zk::Target;

/// Offset of the seed for a verification, because it must use other random numbers.
const VERIFIES_BY: u64 = 1_000;

/// Default strategies: queues that notify one waiter or all, and the most widely used recipe.
const STRATEGIES: [&str; 3] = ["predecessor-watch", "parent-watch", "curator-mutex"];

pub async fn execute(args: PlanArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let asked_load = AskedLoad::of(&args)?;
    let args = PlanArgs { place: asked_load.place(&args)?, ..args };
    let job = args.job.clone();
    let target = || -> Result<Target, Error> {
        let connect = args.place.connect.as_deref().map(parse_connect).transpose()?;
        let connect = connect.map_or_else(String::new, |connect| connect.text());
        Ok(Target { connect, access: args.opening.access.access(None)? })
    };
    leading(&job, target(), answer_and_verify(args, asked_load, stop)).await
}

async fn answer_and_verify(
    args: PlanArgs,
    asked_load: AskedLoad,
    stop: &CancellationToken,
) -> Result<Exit, Error> {
    let mut stored_evidence = read_evidence(&args, &asked_load, stop).await?;
    let strategies = strategies(&args, &asked_load, &stored_evidence)?;
    check_place(&args, &asked_load.scenario, &strategies)?;
    let asked = asked(&args, &asked_load.question, &strategies);
    let (name, resume) = (Name::Dated("plan"), args.resume.as_deref());
    let series = Series::open("plan", Layout::Separate(RUNS), &args.out, name, resume, asked)?;
    tell_resumed(series.count(), args.opening.quiet);
    let takes = |breaks_servers| takes(&args, &asked_load, &strategies, breaks_servers);
    let countdown = Countdown::of(takes(None), args.opening.quiet);
    let mut planning = Planning { args: &args, asked: &asked_load, series, countdown, stop };
    let (mut on, mut fresh) = (None, Vec::new());
    if args.from.is_empty() {
        let opened = planning.open(args.place.clone()).await?;
        // The servers have started, so estimate the remaining time again.
        planning.countdown.left = STARTS + takes(Some(opened.ready.may_lose_a_server()));
        planning.countdown.done(STARTS);
        let mut measured = planning.measure(&opened, &strategies, &mut stored_evidence).await;
        if args.fresh_locks && measured.is_ok() {
            measured = planning.fresh(&opened, &strategies).await.map(|costs| fresh = costs);
        }
        resumable(measured, &planning.series)?;
        on = Some(opened);
    }
    planning.countdown.note("predicting");
    let (mut answers, map) = predictions(&args, &asked_load, &strategies, &stored_evidence);
    planning.countdown.done(predicting(&strategies));
    let objective = &asked_load.question.objective;
    for answer in &mut answers {
        let measured = stored_evidence.own_load(&answer.strategy).cloned();
        measured.into_iter().for_each(|measured| answer.add_measured(measured, objective));
    }
    if let Some(on) = &on {
        resumable(planning.decide(&mut answers, on, &strategies).await, &planning.series)?;
        settle(&mut answers, objective, |strategy| {
            load_and_evidence(strategy, &stored_evidence, &asked_load.load)
        });
    }
    let (host, ensemble) = stored_evidence.place.clone().unzip();
    let mut plan = PlanFile {
        schema_version: FILE.version,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        tool_commit: tool_commit(),
        asked_at: planning.series.started_at(),
        command: command_line(),
        question: asked_load.question.clone(),
        host,
        ensemble: on.as_ref().map(|on| on.ready.ensemble.clone()).or(ensemble),
        sources: stored_evidence.sources.clone(),
        left_out: stored_evidence.left_out.clone(),
        map,
        by_servers: Vec::new(),
        recommendation: recommend(&answers),
        answers,
        fresh,
        verifications: Vec::new(),
        unverified: Vec::new(),
    };
    keep(&mut planning.series, &plan)?;
    if args.compare_servers {
        on.take().into_iter().for_each(|on| on.ready.close());
        let compared = planning.compare_servers(&plan, &stored_evidence).await;
        plan.by_servers = resumable(compared, &planning.series)?;
        keep(&mut planning.series, &plan)?;
    }
    if args.verify {
        planning.verify(&mut plan, on, &stored_evidence).await;
        keep(&mut planning.series, &plan)?;
    } else {
        on.into_iter().for_each(|on| on.ready.close());
    }
    tell(&plan, &planning.series, args.opening.quiet, stop)
}

/// Reads the stored results in `--from`.
async fn read_evidence(
    args: &PlanArgs,
    asked: &AskedLoad,
    stop: &CancellationToken,
) -> Result<StoredEvidence, Error> {
    let from = args.from.clone();
    let mut stored_evidence = StoredEvidence::of(asked);
    let stored_evidence = reading(stop, move || {
        from.iter().try_for_each(|path| stored_evidence.take(path))?;
        Ok(stored_evidence)
    })
    .await?;
    stored_evidence.check()?;
    Ok(stored_evidence)
}

/// Returns the result unchanged; after an error, prints how to resume.
fn resumable<T>(result: Result<T, Error>, series: &Series) -> Result<T, Error> {
    result.inspect_err(|_| output::note(&format!("resume with: {}", how_to_resume(series.path()))))
}

impl Planning<'_> {
    /// Compares the load on 1, 3 and 5 servers.
    async fn compare_servers(
        &mut self,
        plan: &PlanFile,
        stored_evidence: &StoredEvidence,
    ) -> Result<Vec<ByServers>, Error> {
        let Some(answer) = foremost(plan) else { return Ok(Vec::new()) };
        let mut rows = self.other_sizes(&answer.strategy).await?;
        let servers = usize::try_from(by_servers::own(self.args)).unwrap_or_default();
        let own = ByServers::of(servers, answer, &self.asked.question.objective);
        rows.push(stored_evidence.with_writes(own));
        rows.sort_by_key(|row| row.servers);
        Ok(rows)
    }

    /// Measures the load itself with the best strategy, and with the next strategies if the best misses the
    /// objective.
    async fn decide(
        &mut self,
        answers: &mut [Answer],
        on: &PlanEnsemble,
        strategies: &[String],
    ) -> Result<(), Error> {
        let objective = &self.asked.question.objective;
        // Each measurement adds its own duration.
        self.countdown.expect(measuring::own_takes(self.asked, strategies, self.args), Duration::ZERO);
        for number in 1..=TRIED_MOST {
            let Some(at) = to_measure(answers, objective) else { break };
            match self.own_load_for_certain(on, &mut answers[at], number).await {
                Ok(measured) => {
                    let is_part = measured.as_ref().is_some_and(|measured| measured.whole_s.is_some());
                    measured.into_iter().for_each(|measured| answers[at].add_measured(measured, objective));
                    // If the time limit cuts the load short, no lock can be decided by measuring.
                    if is_part {
                        break;
                    }
                }
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(why) => {
                    output::warn(format!("{}: your load was not measured: {why}", answers[at].strategy));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Measures the load itself with one strategy. Measures again, for longer, if a short stall may have caused a
    /// miss that contradicts the prediction. The miss counts unless the second measurement meets the objective.
    async fn own_load_for_certain(
        &mut self,
        on: &PlanEnsemble,
        answer: &mut Answer,
        number: u64,
    ) -> Result<Option<MeasuredLoad>, Error> {
        let objective = &self.asked.question.objective;
        let Some(first) = self.own_load(on, answer, number, false).await? else { return Ok(None) };
        if answer.verdict != Verdict::Held || !first.may_be_a_stall(objective) {
            return Ok(Some(first));
        }
        let again = match self.own_load(on, answer, TRIED_MOST + number, true).await {
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // Without a second measurement, the miss counts.
            Err(why) => {
                output::warn(format!("{}: cannot remeasure your load: {why}", answer.strategy));
                None
            }
            Ok(again) => again,
        };
        let missed = first.in_words(objective);
        let counts = first.or_again(again);
        if counts.verdict == Verdict::Held {
            answer.missing.push(format!(
                "a reliable measurement of your load: the first measurement missed the objective ({missed})"
            ));
        }
        Ok(Some(counts))
    }
}

fn effort(args: &PlanArgs) -> Effort {
    Effort { arrivals: f64::from(args.simulate), ..Effort::whole(args.seed) }
}

/// Returns the expected duration of the whole plan; `breaks_servers` is `None` if nothing is measured.
fn takes(
    args: &PlanArgs,
    asked: &AskedLoad,
    strategies: &[String],
    breaks_servers: Option<bool>,
) -> Duration {
    let measures = breaks_servers.map(|breaks| measuring::takes(asked, strategies, args, breaks));
    let compares = args.compare_servers.then(|| by_servers::takes(args, asked, strategies));
    let verifies = args.verify.then(|| verifying::takes(args, asked, strategies));
    predicting(strategies) + [measures, compares, verifies].into_iter().flatten().sum::<Duration>()
}

/// Returns the expected duration of the simulations.
fn predicting(strategies: &[String]) -> Duration {
    const EACH: Duration = Duration::from_secs(5);
    EACH * u32::try_from(strategies.len()).unwrap_or(u32::MAX)
}

/// Returns the answers that follow from predictions alone, and a map of predictions for other loads.
fn predictions(
    args: &PlanArgs,
    asked: &AskedLoad,
    strategies: &[String],
    stored_evidence: &StoredEvidence,
) -> (Vec<Answer>, Vec<MapCell>) {
    let objective = &asked.question.objective;
    let effort = effort(args);
    let known: Vec<(&String, PlannedLoad, Evidence)> = strategies
        .iter()
        .map(|name| {
            let (load, evidence) = load_and_evidence(name, stored_evidence, &asked.load);
            (name, load, evidence)
        })
        .collect();
    // Simulations take seconds, so each strategy runs on its own thread.
    let mut answers: Vec<Answer> = std::thread::scope(|scope| {
        let answer = |(name, load, evidence): &(&String, PlannedLoad, Evidence)| {
            Answer::of(name, evidence, load, objective, effort)
        };
        let threads: Vec<_> = known.iter().map(|one| scope.spawn(move || answer(one))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let answered = answers.iter().zip(&known).map(|(answer, (_, load, evidence))| (answer, load, evidence));
    let map = map(answered, objective, effort);
    if asked.load.busiest(BUSIEST).is_some() {
        let part = format!("waits at other times: only the busiest {BUSIEST} arrivals were simulated");
        answers.iter_mut().for_each(|answer| answer.missing.push(part.clone()));
    }
    (answers, map)
}

/// Maximum number of strategies for which the load itself is measured.
const TRIED_MOST: u64 = 3;

/// Settings that must be the same when the plan is resumed.
fn asked(args: &PlanArgs, question: &Question, strategies: &[String]) -> serde_json::Value {
    let (seed, threads) = (args.seed, args.generator.threads);
    let mut asked =
        json!({ "question": question, "strategies": strategies, "seed": seed, "threads": threads });
    if let Some(times) = args.failures {
        asked["failures"] = times.into();
    }
    if args.fresh_locks {
        asked["fresh_locks"] = true.into();
    }
    asked
}

/// Returns the requested or default strategies, each of which admits one contender at a time.
fn strategies(
    args: &PlanArgs,
    asked: &AskedLoad,
    stored_evidence: &StoredEvidence,
) -> Result<Vec<String>, Error> {
    if args.strategies.is_empty() {
        let exclusive = |label: &String| card(label).is_some_and(|card| is_exclusive(&card));
        let own: Vec<String> = asked.strategies.keys().filter(|label| exclusive(label)).cloned().collect();
        let known: Vec<String> = stored_evidence.strategies().into_iter().filter(exclusive).collect();
        let both: Vec<String> = own.iter().filter(|label| known.contains(label)).cloned().collect();
        return match args.from.is_empty() {
            true if !own.is_empty() => Ok(own),
            true => Ok(STRATEGIES.map(str::to_owned).into()),
            false if !both.is_empty() => Ok(both),
            false if !known.is_empty() => Ok(known),
            false => Err(Error::usage(
                "--from: the results contain no strategy that admits one contender at a time; specify other results",
            )),
        };
    }
    for name in &args.strategies {
        let Some(card) = card(name) else {
            let names = zklockbench_locks::STRATEGIES.iter().flat_map(|entry| entry.card.names());
            let meant = did_you_mean(name, names, "`zklockbench strategies` lists them");
            return Err(Error::usage(format!("there is no strategy `{}`; {meant}", shown(name, 40))));
        };
        refuse_if!(!is_exclusive(&card), "cannot plan for `{name}`, because it is not exclusive");
    }
    Ok(args.strategies.iter().map(|label| own_label(label)).collect())
}

/// Returns the name of a strategy, which is the first word of its label.
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

/// Rejects options for an ensemble that is not used, and an ensemble that cannot add the round-trip time.
fn check_place(args: &PlanArgs, scenario: &Scenario, strategies: &[String]) -> Result<(), Error> {
    let measures = args.from.is_empty() || args.verify;
    refuse_if!(
        !measures && args.place.servers.is_some(),
        "--servers has no effect with --from, because nothing is measured: remove one of the two, or \
         add --verify"
    );
    if !measures {
        return Ok(());
    }
    let (place, access) = (args.place.scenario("plan")?, &args.opening.access);
    let driven = DrivenLocks::registered();
    drivers::check_access(strategies.iter().map(|label| name_in(label)), driven, access)?;
    Needs::of(scenario).check(&place, driven, &args.generator, access)
}

/// Returns the load with the strategy's queue order, and the evidence for the strategy.
fn load_and_evidence(
    strategy: &str,
    stored_evidence: &StoredEvidence,
    load: &PlannedLoad,
) -> (PlannedLoad, Evidence) {
    let card = card(strategy);
    let load = load.busiest(BUSIEST).unwrap_or_else(|| load.clone());
    let load = load.in_order(card.as_ref().map_or(Order::Fifo, order));
    (load, stored_evidence.evidence(strategy, card.is_some_and(|card| card.guarantees.watches)))
}

fn tell(plan: &PlanFile, series: &Series, is_quiet: bool, stop: &CancellationToken) -> Result<Exit, Error> {
    let directory = series.path();
    let resume = stop.is_cancelled().then(|| how_to_resume(directory));
    let ending = if stop.is_cancelled() { RunEnding::Interrupted } else { RunEnding::Complete };
    let exit = ending.exit(&plan.verdict());
    let page = directory.join(layout::REPORT);
    let report = page.is_file().then(|| page.display().to_string());
    let results = directory.display().to_string();
    let found = json!({ "results": results, "report": report, "resume": resume, "plan": plan });
    output::tell("plan", exit, &found, || {
        output::outcome(is_quiet, &zklockbench_report::plan_headline(plan), || {
            let mut said = format!("{}\nplan: {results}", zklockbench_report::plan(plan, output::style()));
            if let Some(report) = report {
                said.push_str(&format!("\nreport: {report}"));
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
