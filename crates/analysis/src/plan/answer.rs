//! The answer for one strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{judge, predicted};
use super::search::{By, CurvePoint, Effort, Headroom, Search, Sensitivity};
use super::{FailureCost, MeasuredFailure, PlannedLoad};
use crate::model::{Fit, Observation, Predicted, Prediction, Unfit, fit};
use crate::objective::Objective;
use zklockbench_core::units::{format_micros, number, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Bound;
use zklockbench_stats::median;

/// Largest factor on the number of locks when a load is spread over more of them.
const SPREAD_MOST: usize = 64;

/// What an answer is based on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    pub trials: Vec<Observation>,
    pub failures: Vec<MeasuredFailure>,
    /// Synced writes a second that the ensemble sustains, if a calibration measured it.
    pub writes_per_s: Option<f64>,
    pub watches: bool,
}

impl Evidence {
    fn outages(&self) -> impl Iterator<Item = &MeasuredFailure> {
        self.failures.iter().filter(|failure| failure.hits_servers)
    }

    /// The valid trials, if there are enough; otherwise all of them, which support no verdict. The flag is true for valid trials.
    pub fn usable(&self) -> (Vec<Observation>, bool) {
        let sound: Vec<Observation> =
            self.trials.iter().filter(|trial| trial.unsound.is_none()).cloned().collect();
        let counts = fit(&sound).is_ok() || sound.len() == self.trials.len();
        if counts { (sound, true) } else { (self.trials.clone(), false) }
    }

    /// Fit over the usable trials, if they agree.
    pub(super) fn fitted(&self) -> Option<(Fit, Vec<Observation>)> {
        let trials = self.usable().0;
        Some((fit(&trials).ok()?, trials))
    }

    /// Why the trials disagree too much for a prediction; `None` if they agree.
    pub fn disagrees(&self) -> Option<Unfit> {
        fit(&self.usable().0).err().filter(|unfit| matches!(unfit, Unfit::Bad(_)))
    }
}

/// The answer if holds are as variable as an exponential's, where only their mean is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableHolds {
    /// Whether the plan holds then.
    pub verdict: Verdict,
    /// What is expected then.
    pub prediction: Prediction,
    /// Highest rate that meets the objective then; `None` if the requested rate misses it.
    pub headroom: Option<Headroom>,
}

impl VariableHolds {
    /// The outcome of a search with varying holds.
    fn of(search: &Search<'_>) -> Self {
        let prediction = search.predict(search.fit, search.load.clone(), search.effort.simulations);
        let demand = Demand::of(&prediction, search.load);
        let verdict = judge(search.objective, &prediction).and(demand.verdict());
        let holds = search.keeps(&prediction, By::Middle) && !demand.grows();
        let headroom = if holds { search.room().ok() } else { None };
        Self { verdict, prediction, headroom }
    }
}

/// The answer for one strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Its label.
    pub strategy: String,
    /// `held`: the plan meets the objective; `violated`: it misses it; `unknown`: inconclusive. With the reasons.
    pub verdict: Verdict,
    /// Prediction; `None` if there is none.
    pub prediction: Option<Prediction>,
    /// The same if holds vary; `None` where it is known how they do, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_variable: Option<VariableHolds>,
    /// What it was predicted from.
    pub fit: Option<Fit>,
    /// Highest rate that meets the objective; `None` if the requested rate misses it, or if it is unknown.
    pub headroom: Option<Headroom>,
    /// Length of the predicted period in seconds, if the lock is so busy that waits depend on it; `None` if they
    /// do not. Older versions did not store it.
    #[serde(default)]
    pub horizon_s: Option<f64>,
    /// The wait over the rate, rising: from a quarter of what was asked for to where the objective breaks or nothing is known
    /// any more. Empty in files of versions that did not keep it.
    #[serde(default)]
    pub curve: Vec<CurvePoint>,
    /// What it would be if services took another time.
    pub sensitivity: Vec<Sensitivity>,
    /// Over how many locks the load would have to be spread; `None` where that is not known or does not help.
    pub locks_needed: Option<usize>,
    /// Requests a second to the ensemble.
    pub requests_per_s: Option<f64>,
    /// The share of the ensemble's synced writes, two for each acquisition.
    pub ensemble_utilisation: Option<f64>,
    /// Watches set at a time, on average.
    pub watches: Option<f64>,
    /// Longest measured time in which a server failure made every client wait, in microseconds.
    pub outage_us: Option<u64>,
    /// Longest 99th percentile of the waits around such a failure. Older versions did not store it.
    #[serde(default)]
    pub outage_wait: Option<Bound>,
    /// What each kind of failure that was measured costs. Older versions did not keep it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureCost>,
    /// Trials that it rests on.
    pub sources: Vec<String>,
    /// Open questions, with reasons.
    pub missing: Vec<String>,
}

/// Writes per acquisition: the lock's node is created and deleted.
const WRITES: f64 = 2.0;

impl Answer {
    pub fn of(
        strategy: &str,
        evidence: &Evidence,
        load: &PlannedLoad,
        objective: &Objective,
        effort: Effort,
    ) -> Self {
        let (trials, counts) = evidence.usable();
        let trials = &trials;
        let mut answer = Self::nothing(strategy, evidence, trials);
        answer.failures = FailureCost::of_each(&evidence.failures, load.locks(), objective);
        let fitted = match fit(trials) {
            Ok(fitted) => fitted,
            Err(unfit) => {
                answer.verdict = Verdict::unknown(unfit.to_string());
                return answer;
            }
        };
        answer.fit = Some(fitted.clone());
        let mut beyond = if load.is_closed() { None } else { fitted.beyond(load.rate()) };
        let search = Search { fit: &fitted, trials, load, objective, effort };
        let predicted = beyond.is_none().then(|| search.predict(&fitted, load.clone(), effort.simulations));
        // The rate of returning clients is the rate at which they are served.
        let got = predicted.as_ref().filter(|_| load.is_closed()).map(|one| one.throughput.middle);
        beyond = beyond.or_else(|| fitted.beyond(got?));
        let prediction = match (predicted, beyond) {
            (Some(prediction), None) => prediction,
            (_, beyond) => {
                answer.verdict = Verdict::Unknown(beyond.into_iter().collect());
                return answer;
            }
        };
        let judged = search.known_queue(&prediction, load).and(judge(objective, &prediction));
        let mut verdict = judged.and(unsound(&evidence.trials, counts));
        let demand = Demand::of(&prediction, load);
        if demand.depends_on_time() {
            answer.horizon_s = Some(effort.arrivals / load.rate());
            answer
                .missing
                .push("waits of a load that lasts longer: the lock is so busy that they depend on it".into());
        }
        answer.predicts(evidence, got.unwrap_or_else(|| load.rate()), &prediction);
        answer.sensitivity = search.sensitivity();
        if search.keeps(&prediction, By::Middle) && !demand.grows() {
            match search.room() {
                Ok(room) => answer.headroom = Some(room),
                Err(doubt) => verdict = verdict.and(Verdict::unknown(doubt)),
            }
        } else {
            answer.locks_needed = search.spread_over(SPREAD_MOST);
        }
        verdict = verdict.and(demand.verdict());
        if !load.is_closed() {
            answer.curve = search.curve(&prediction, answer.headroom);
        }
        answer.if_variable = load.varied().map(|load| VariableHolds::of(&Search { load: &load, ..search }));
        if let Some(varied) = &answer.if_variable {
            verdict = whichever_holds(verdict, &varied.verdict);
        }
        (answer.verdict, answer.prediction) = (verdict, Some(prediction));
        answer
    }

    fn nothing(strategy: &str, evidence: &Evidence, trials: &[Observation]) -> Self {
        let mut missing = Vec::new();
        let outage_us = evidence.outages().filter_map(|failure| failure.record.longest_gap_us).max();
        if outage_us.is_none() {
            missing.push(
                "what happens while a server is down: no run with a failing server is among the results"
                    .into(),
            );
        }
        if evidence.writes_per_s.is_none() {
            missing.push("how busy the ensemble is: no calibration is among the results".into());
        }
        Self {
            strategy: strategy.to_owned(),
            verdict: Verdict::unknown("nothing is known of it"),
            prediction: None,
            if_variable: None,
            fit: None,
            headroom: None,
            horizon_s: None,
            curve: Vec::new(),
            sensitivity: Vec::new(),
            locks_needed: None,
            requests_per_s: None,
            ensemble_utilisation: None,
            watches: None,
            outage_us,
            outage_wait: evidence.outages().filter_map(|failure| failure.record.wait_p99).max(),
            failures: Vec::new(),
            sources: trials.iter().map(|trial| trial.source.clone()).collect(),
            missing,
        }
    }

    fn predicts(&mut self, evidence: &Evidence, rate: f64, prediction: &Prediction) {
        let known: Vec<f64> = evidence.trials.iter().filter_map(|one| one.requests_per_acquisition).collect();
        let served = prediction.throughput.middle;
        self.requests_per_s = median(&known).map(|requests| requests * served);
        if self.requests_per_s.is_none() {
            self.missing.push("requests a second: no trial counted them".into());
        }
        self.ensemble_utilisation = evidence.writes_per_s.map(|writes| WRITES * rate / writes);
        self.watches = evidence.watches.then_some(prediction.waiting.middle);
        if prediction.pool_runs_out > 0.05 {
            self.missing.push(format!(
                "how much of the wait is for a session: in {:.0} % of the simulations the clients ran out",
                100.0 * prediction.pool_runs_out
            ));
        }
    }

    /// Predicted value of the objective's metric, with its interval.
    pub fn expected(&self, objective: &Objective) -> Option<String> {
        let Predicted { low, middle, high } = predicted(objective.figure, self.prediction.as_ref()?)?;
        let [low, middle, high] = [low, middle, high].map(|value| objective.figure.unit().show(value));
        Some(format!("{} {middle} (90 %: {low} to {high})", objective.figure))
    }

    /// Duration for which the prediction is valid, where it matters.
    fn horizon(&self) -> String {
        let told = |seconds: f64| format!(" for {} of this load", format_micros((1e6 * seconds) as u64));
        self.horizon_s.map(told).unwrap_or_default()
    }

    /// One sentence, without the name of the strategy.
    pub fn sentence(&self, objective: &Objective) -> String {
        let why = self.verdict.why().unwrap_or_default();
        let expected = self.expected(objective).map_or_else(String::new, |expected| format!(": {expected}"));
        match (&self.verdict, self.headroom, self.locks_needed) {
            (Verdict::Held, Some(headroom), _) => {
                let at_least = if headroom.at_least { "at least " } else { "" };
                if let Some(clients) = headroom.clients {
                    return format!("meets the objective{expected}; limit {at_least}{clients} clients");
                }
                let varied = self.if_variable.as_ref().and_then(|varied| varied.headroom);
                let varied = varied.map_or_else(String::new, |room| {
                    let at_least = if room.at_least { "at least " } else { "" };
                    format!(", or {at_least}{}/s if holds vary as an exponential's do", number(room.rate))
                });
                let limit = number(headroom.rate);
                let times = number(headroom.factor);
                format!(
                    "meets the objective{}{expected}; limit {at_least}{limit}/s, {times} times your rate{varied}",
                    self.horizon()
                )
            }
            (Verdict::Held, None, _) => format!("meets the objective{}{expected}", self.horizon()),
            (Verdict::Violated(_), _, Some(locks)) => {
                format!("misses the objective: {why}; over {locks} locks it would meet it")
            }
            (Verdict::Violated(_), _, None) => format!("misses the objective: {why}"),
            (Verdict::Unknown(_), ..) => format!("not known: {why}"),
        }
    }
}

/// Utilisation that the load asks of the busiest lock: 1 is its capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Demand {
    lock: &'static str,
    low: f64,
    middle: f64,
    /// Upper end of the share of time for which the lock is busy.
    high: f64,
}

/// Utilisation from which waits depend on the duration of the load. The time until a queue is steady grows with the inverse
/// square of the lock's distance from its limit.
const DEPENDS_ON_TIME: f64 = 0.95;
/// Unevenness from which one lock counts as busier than the others.
const UNEVEN: f64 = 1.05;
/// Measured utilisation that counts as full: a simulated lock is idle before its first holder.
const ALL_OF_THE_TIME: f64 = 0.995;

impl Demand {
    /// The simulated utilisation never exceeds 1, so demand beyond the served rate is added. Returning clients never ask for more
    /// than they get.
    fn of(prediction: &Prediction, load: &PlannedLoad) -> Self {
        let Prediction { utilisation, throughput, .. } = prediction;
        if load.is_closed() {
            return Self { lock: "the lock", low: 0.0, middle: 0.0, high: utilisation.high };
        }
        let uneven = load.unevenness();
        let asked = |busy: f64, served: f64| uneven * busy * (load.rate() / served).max(1.0);
        Self {
            lock: if uneven > UNEVEN { "the busiest lock" } else { "the lock" },
            low: asked(utilisation.low, throughput.high),
            middle: asked(utilisation.middle, throughput.middle),
            high: uneven * utilisation.high,
        }
    }

    fn depends_on_time(self) -> bool {
        self.middle >= DEPENDS_ON_TIME
    }

    /// Whether the queue grows for as long as the load lasts.
    fn grows(self) -> bool {
        self.middle >= 1.0
    }

    fn verdict(self) -> Verdict {
        if self.low >= 1.0 {
            return Verdict::violated(format!(
                "{} would have to be busy for {} of the time, so its queue grows for as long as the load lasts",
                self.lock,
                percent(self.middle)
            ));
        }
        let may_grow = self.grows() || self.depends_on_time() && self.high >= ALL_OF_THE_TIME;
        if !may_grow {
            return Verdict::Held;
        }
        Verdict::unknown(format!(
            "{} would have to be busy for about {} of the time, perhaps for more than there is, and then its queue grows",
            self.lock,
            percent(self.middle)
        ))
    }
}

fn unsound(trials: &[Observation], counts: bool) -> Verdict {
    if counts {
        return Verdict::Held;
    }
    let why = trials.iter().find_map(|trial| trial.unsound.clone()).unwrap_or_default();
    let count = trials.iter().filter(|trial| trial.unsound.is_some()).count();
    let all = trials.len();
    Verdict::unknown(format!("{count} of {all} trials do not count, the first of them because it is {why}"))
}

/// Combines the verdicts for constant and for varying holds; unknown where they differ.
fn whichever_holds(constant: Verdict, varied: &Verdict) -> Verdict {
    match (constant, varied) {
        (Verdict::Held, Verdict::Violated(why) | Verdict::Unknown(why)) => {
            let why = why.first().cloned().unwrap_or_default();
            Verdict::unknown(format!(
                "it meets the objective if every hold takes the same, and perhaps not if holds vary as an exponential's \
                 do ({why}): say how they vary, with --hold or --holds"
            ))
        }
        (constant, _) => constant,
    }
}
