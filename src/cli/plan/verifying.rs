//! Verification: the load runs with the recommended lock on restarted servers, and is compared with the prediction.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::countdown::{Countdown, expected};
use super::evidence::{StoredEvidence, VERIFIES};
use super::measuring::{self, PlanRuns, STARTS, needed, times_at_most};
use super::own_load::{OwnLoad, Wanted};
use super::question::{AskedLoad, PlanArgs};
use super::{VERIFIES_BY, card, order};
use crate::cli::output;
use crate::cli::run::open_ensemble::warm_up_scenario;
use crate::cli::runs::ReadyEnsemble;
use crate::run::series::Series;
use zklockbench_analysis::plan::{
    Attempt, CheckedFailure, FailureCost, PlanFile, PlannedLoad, SIMULATED, Unverified, Verification,
    most_promising, verify,
};
use zklockbench_core::error::Error;
use zklockbench_stats::queueing::Order;

/// Length of the warm-up before a verification: as much work as the calibration did before the measurements by
/// saturating the servers. A JVM's compiler counts calls, so under a light load new servers stay slower for minutes (by
/// half for a free lock).
const WARMS: Duration = Duration::from_secs(25);

pub struct Verifying<'a> {
    pub args: &'a PlanArgs,
    pub asked: &'a AskedLoad,
    pub stored_evidence: &'a StoredEvidence,
    pub stop: &'a CancellationToken,
}

/// Expected time of the verification.
pub fn takes(args: &PlanArgs, asked: &AskedLoad, strategies: &[String]) -> Duration {
    let Some(first) = strategies.first() else { return Duration::ZERO };
    let run = load(args, asked, ("verify", first), 1.0).and_then(|own| expected("verify", &own.text));
    STARTS + WARMS + run.unwrap_or(args.verify_for)
}

/// The load that verifies an answer.
fn load(
    args: &PlanArgs,
    asked: &AskedLoad,
    (name, strategy): (&str, &str),
    times_at_most: f64,
) -> Result<OwnLoad, Error> {
    let wanted = Wanted {
        name,
        strategy: &asked.spelled(strategy),
        seed: args.seed + VERIFIES_BY + 1,
        arrivals: SIMULATED,
        needed: needed(&asked.question),
        longest: args.verify_for,
        times_at_most,
    };
    OwnLoad::of(asked, &wanted)
}

impl Verifying<'_> {
    /// Runs the load itself, and records which strategies could not be verified. The answer already exists, so a
    /// failure only leaves it unverified.
    pub async fn run(
        &self,
        plan: &mut PlanFile,
        series: &mut Series,
        ready: Option<ReadyEnsemble>,
        countdown: &mut Countdown,
    ) {
        if !self.args.opening.quiet && !output::as_json() {
            output::note(&format!("predicted: {}", zklockbench_report::plan_headline(plan)));
        }
        countdown.note("restarting the servers, to verify the prediction on others");
        match self.restarted(series, ready).await {
            Ok(ready) => {
                countdown.done(STARTS);
                let mut runs = PlanRuns { series, ensemble: &ready, args: self.args, stop: self.stop };
                self.prove(plan, &mut runs, countdown).await;
                ready.close();
            }
            Err(why) => {
                let of = |strategy| Unverified { strategy, why: why.to_string() };
                plan.unverified = self.to_verify(plan).into_iter().map(of).collect();
            }
        }
    }

    /// Restarts the servers, unless they are the user's, because the prediction includes how servers differ from start
    /// to start.
    async fn restarted(&self, series: &Series, ready: Option<ReadyEnsemble>) -> Result<ReadyEnsemble, Error> {
        match ready {
            Some(ready) if ready.opened.is_external() => Ok(ready),
            measured => {
                measured.into_iter().for_each(ReadyEnsemble::close);
                measuring::open(self.args, series, self.stop).await
            }
        }
    }

    /// The strategy to verify under the load itself: the recommended one, or the most promising one if none is
    /// recommended.
    fn to_verify(&self, plan: &PlanFile) -> Option<String> {
        let recommended = plan.recommendation.as_ref().map(|one| one.strategy.clone());
        let promising = || {
            let at = most_promising(&plan.answers, &plan.question.objective)?;
            Some(plan.answers[at].strategy.clone())
        };
        recommended.or_else(promising)
    }

    async fn prove(&self, plan: &mut PlanFile, runs: &mut PlanRuns<'_>, countdown: &mut Countdown) {
        if !runs.ensemble.opened.is_external() {
            let name = format!("{VERIFIES}0");
            if let Err(why) = runs.run(&name, &warm_up_scenario(&name, WARMS)).await {
                output::warn(format!("the servers are not as warm as those that were measured: {why}"));
            }
            countdown.done(WARMS);
        }
        if let Some(strategy) = self.to_verify(plan) {
            match self.prove_one(plan, &strategy, runs, countdown).await {
                Ok(verified) => plan.verifications.push(verified),
                Err(why) => {
                    output::warn(format!("{strategy} is not verified: {why}"));
                    plan.unverified.push(Unverified { strategy, why: why.to_string() });
                }
            }
        }
        if let Some(times) = runs.args.failures.filter(|_| runs.ensemble.may_lose_a_server())
            && let Err(why) = self.prove_failures(plan, times, runs).await
        {
            output::warn(format!("what failures cost is not verified: {why}"));
        }
    }

    /// Repeats the leader kills under each verified strategy.
    async fn prove_failures(
        &self,
        plan: &mut PlanFile,
        times: u32,
        runs: &mut PlanRuns<'_>,
    ) -> Result<(), Error> {
        let spelled: Vec<String> =
            plan.verifications.iter().map(|one| self.asked.spelled(&one.strategy)).collect();
        if spelled.is_empty() {
            return Ok(());
        }
        let run = measuring::lose_leaders(&plan.question, &spelled, times, runs).await?;
        let mut stored_evidence = StoredEvidence::of(self.asked);
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
        &self,
        plan: &PlanFile,
        strategy: &str,
        runs: &mut PlanRuns<'_>,
        countdown: &mut Countdown,
    ) -> Result<Verification, Error> {
        let nothing = |why: &str| Error::environment(why);
        let answer = plan.answers.iter().find(|answer| answer.strategy == strategy);
        let answer = answer.ok_or_else(|| nothing("the plan has no answer for it"))?;
        let fit = answer.fit.as_ref().ok_or_else(|| nothing("nothing was predicted for it"))?;
        let name = format!("{VERIFIES}1");
        let own = load(self.args, self.asked, (&name, strategy), times_at_most(answer))?;
        countdown.note(&format!("verifying {strategy}: {}", own.said));
        let run = countdown.during(runs.run(&name, &own.text)).await?;
        countdown.done(expected(&name, &own.text)?);
        let stored = zklockbench_results::read(&run)?;
        let trial = stored.trials.first().ok_or_else(|| nothing("its run has no trial"))?;
        let order = card(strategy).as_ref().map_or(Order::Fifo, order);
        let load = PlannedLoad::of(&trial.spec, order).ok_or_else(|| {
            nothing(
                "its run had a different \
            load",
            )
        })?;
        let (fitted, _) = self.stored_evidence.evidence(strategy, false).usable();
        let attempt = Attempt { run, trial, load: &load, fit, fitted: &fitted };
        let mut verified = verify(attempt, &plan.question, self.args.seed).map_err(Error::Environment)?;
        verified.notes.extend(self.stored_evidence.differs_from(&stored.run.ensemble));
        Ok(verified)
    }
}
