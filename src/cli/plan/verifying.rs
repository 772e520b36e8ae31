//! Verification: runs the recommended strategy on restarted servers, and compares it with the prediction.

use std::time::Duration;

use super::evidence::{StoredEvidence, VERIFIES};
use super::measuring::{PlanEnsemble, Planning, STARTS, needed, sessions, times_at_most};
use super::own_load::{OwnLoad, Wanted};
use super::question::{AskedLoad, PlanArgs};
use super::{VERIFIES_BY, card, order};
use crate::cli::output;
use crate::cli::run::open_ensemble::warm_up_scenario;
use zklockbench_analysis::plan::{
    Answer, Attempt, CheckedFailure, FailureCost, PlanFile, PlannedLoad, SIMULATED, Unverified, Verification,
    most_promising, verify,
};
use zklockbench_core::error::Error;
use zklockbench_core::verdict::Verdict;
use zklockbench_stats::queueing::Order;

/// Duration of the warm-up before a verification. The warm-up does as much work as a calibration: a JVM compiles code
/// after a number of calls, so new servers stay slow for minutes under a light load.
const WARMS: Duration = Duration::from_secs(25);
/// Maximum duration of a second trial, if the host spoiled the first.
const AGAIN: Duration = Duration::from_secs(60);

/// Returns the expected duration of the verification.
pub fn takes(args: &PlanArgs, asked: &AskedLoad, strategies: &[String]) -> Duration {
    STARTS + WARMS + run_takes(args, asked, strategies)
}

/// Returns the expected duration of the verifying run, before anything has been predicted.
fn run_takes(args: &PlanArgs, asked: &AskedLoad, strategies: &[String]) -> Duration {
    let Some(first) = strategies.first() else { return Duration::ZERO };
    load(args, asked, first, 1, None).map_or(args.verify_for, |own| own.takes)
}

/// Returns the load of a trial that verifies a strategy. `answer` is `None` if nothing has been predicted yet.
fn load(
    args: &PlanArgs,
    asked: &AskedLoad,
    strategy: &str,
    number: u64,
    answer: Option<&Answer>,
) -> Result<OwnLoad, Error> {
    let wanted = Wanted {
        name: &format!("{VERIFIES}{number}"),
        strategy: &asked.spelled(strategy),
        seed: args.seed + VERIFIES_BY + number,
        arrivals: SIMULATED,
        needed: needed(&asked.question),
        longest: if number > 1 { AGAIN.min(args.verify_for) } else { args.verify_for },
        sessions: answer.and_then(sessions),
        times_at_most: answer.map_or(1.0, times_at_most),
    };
    OwnLoad::of(asked, &wanted)
}

/// Returns the answer to verify or compare, for the recommended strategy or else for the most promising one.
pub fn foremost(plan: &PlanFile) -> Option<&Answer> {
    let recommended = plan.recommendation.as_ref().map(|one| one.strategy.as_str());
    let recommended = plan.answers.iter().find(|answer| Some(answer.strategy.as_str()) == recommended);
    let promising = || most_promising(&plan.answers, &plan.question.objective).map(|at| &plan.answers[at]);
    recommended.or_else(promising)
}

impl Planning<'_> {
    /// Runs the load itself, and records strategies that could not be verified. After a failure, the answer is
    /// still valid, but unverified.
    pub async fn verify(
        &mut self,
        plan: &mut PlanFile,
        measured: Option<PlanEnsemble>,
        stored_evidence: &StoredEvidence,
    ) {
        if !self.args.opening.quiet && !output::as_json() {
            output::note(&format!("predicted: {}", zklockbench_report::plan_headline(plan)));
        }
        self.countdown.note("restarting the servers to verify the prediction");
        match self.restarted(measured).await {
            Ok(on) => {
                self.countdown.done(STARTS);
                self.prove(plan, &on, stored_evidence).await;
                on.ready.close();
            }
            Err(why) => {
                let of =
                    |answer: &Answer| Unverified { strategy: answer.strategy.clone(), why: why.to_string() };
                plan.unverified = foremost(plan).into_iter().map(of).collect();
            }
        }
    }

    /// Restarts the servers unless they are external, because the prediction must also hold after a restart.
    async fn restarted(&self, measured: Option<PlanEnsemble>) -> Result<PlanEnsemble, Error> {
        match measured {
            Some(on) if on.ready.opened.is_external() => Ok(on),
            measured => {
                measured.into_iter().for_each(|on| on.ready.close());
                self.open(self.args.place.clone()).await
            }
        }
    }

    async fn prove(&mut self, plan: &mut PlanFile, on: &PlanEnsemble, stored_evidence: &StoredEvidence) {
        if !on.ready.opened.is_external() {
            let name = format!("{VERIFIES}0");
            if let Err(why) = self.run(on, &name, &warm_up_scenario(&name, WARMS), WARMS).await {
                output::warn(format!(
                    "the warm-up failed, so the servers may be slower than when measured: {why}"
                ));
            }
        }
        if let Some(answer) = foremost(plan) {
            let strategy = answer.strategy.clone();
            match self.prove_one(answer, on, stored_evidence).await {
                Ok(verified) => plan.verifications.push(verified),
                Err(why) => {
                    output::warn(format!("{strategy} was not verified: {why}"));
                    plan.unverified.push(Unverified { strategy, why: why.to_string() });
                }
            }
        }
        if let Some(times) = self.args.failures.filter(|_| on.ready.may_lose_a_server())
            && let Err(why) = self.prove_failures(plan, times, on).await
        {
            output::warn(format!("the cost of failures was not verified: {why}"));
        }
    }

    /// Kills the leader again with each verified strategy.
    async fn prove_failures(
        &mut self,
        plan: &mut PlanFile,
        times: u32,
        on: &PlanEnsemble,
    ) -> Result<(), Error> {
        let spelled: Vec<String> =
            plan.verifications.iter().map(|one| self.asked.spelled(&one.strategy)).collect();
        if spelled.is_empty() {
            return Ok(());
        }
        let run = self.lose_leaders(on, &spelled, times).await?;
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

    /// Verifies an answer. If the host spoiled the trial, a second, shorter trial replaces it if conclusive.
    async fn prove_one(
        &mut self,
        answer: &Answer,
        on: &PlanEnsemble,
        stored_evidence: &StoredEvidence,
    ) -> Result<Verification, Error> {
        let (first, is_spoiled) = self.prove_by(1, answer, on, stored_evidence).await?;
        // A shorter trial would cover only a part of a changing load.
        if !is_spoiled || self.asked.load.is_changing() {
            return Ok(first);
        }
        match self.prove_by(2, answer, on, stored_evidence).await {
            Ok((mut again, _)) if !matches!(again.verdict(), Verdict::Unknown(_)) => {
                let why = first.verdict().why().unwrap_or_default();
                again.notes.push(format!("verified again, because the first trial was inconclusive: {why}"));
                Ok(again)
            }
            Ok(_) => Ok(first),
            Err(why) => {
                output::warn(format!("{} was not verified again: {why}", answer.strategy));
                Ok(first)
            }
        }
    }

    /// Runs a trial that verifies an answer. The flag is true if the host spoiled the trial, so that the
    /// verification is inconclusive.
    async fn prove_by(
        &mut self,
        number: u64,
        answer: &Answer,
        on: &PlanEnsemble,
        stored_evidence: &StoredEvidence,
    ) -> Result<(Verification, bool), Error> {
        let nothing = |why: &str| Error::environment(why);
        let strategy = &answer.strategy;
        let fit = answer.fit.as_ref().ok_or_else(|| nothing("no prediction exists"))?;
        let name = format!("{VERIFIES}{number}");
        let own = load(self.args, self.asked, strategy, number, Some(answer))?;
        let planned = run_takes(self.args, self.asked, std::slice::from_ref(strategy));
        self.countdown.expect(if number > 1 { Duration::ZERO } else { planned }, own.takes);
        let again = if number > 1 { " again, because the host was busy" } else { "" };
        self.countdown.note(&format!("verifying {strategy}{again}: {}", own.said));
        let run = self.run(on, &name, &own.text, own.takes).await?;
        let stored = zklockbench_results::read(&run)?;
        let trial = stored.trials.first().ok_or_else(|| nothing("the run has no trial"))?;
        let order = card(strategy).as_ref().map_or(Order::Fifo, order);
        let load =
            PlannedLoad::of(&trial.spec, order).ok_or_else(|| nothing("the run had a different load"))?;
        let load = load.replaying(&self.asked.load);
        let (fitted, _) = stored_evidence.evidence(strategy, false).usable();
        let attempt = Attempt { run, trial, load: &load, times: own.times, fit, fitted: &fitted };
        let mut verified =
            verify(attempt, &self.asked.question, self.args.seed).map_err(Error::Environment)?;
        verified.notes.extend(stored_evidence.differs_from(&stored.run.ensemble));
        let is_spoiled = trial.is_spoiled() && matches!(verified.verdict(), Verdict::Unknown(_));
        Ok((if own.whole.is_some() { verified.of_part(&own.said) } else { verified }, is_spoiled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::question::tests::of_scenario;

    #[test]
    fn a_second_verification_lasts_at_most_a_minute() {
        let scenario = "load = \"open\"\nrate = 50\nhold = \"5ms\"\nlocks = 5\nduration = \"20s\"\n";
        let (args, asked) = of_scenario(&["--verify"], scenario, "").unwrap();
        let said = |number: u64| load(&args, &asked, "baton", number, None).unwrap().said;
        assert!(said(1).ends_with(" for 3m") && said(2).ends_with(" for 60 s"), "{} {}", said(1), said(2));
    }
}
