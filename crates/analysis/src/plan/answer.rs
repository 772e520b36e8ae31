//! The answer for one strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::UNEVEN;
use super::question::{judge, predicted, wait_of};
use super::search::{By, CurvePoint, Effort, Headroom, Search, Sensitivity};
use super::{FailureCost, MeasuredFailure, MeasuredLoad, PlannedLoad, Question};
use crate::model::{Fit, Observation, Predicted, Prediction, fit};
use crate::objective::Objective;
use zklockbench_core::measure::Figure;
use zklockbench_core::units::{format_micros, number, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Bound;
use zklockbench_stats::median;

/// Largest factor by which the number of locks is increased to spread a load.
const SPREAD_MOST: usize = 64;

/// Measurements on which an answer is based.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    pub trials: Vec<Observation>,
    pub failures: Vec<MeasuredFailure>,
    /// Synced writes per second that the ensemble sustains, if a calibration measured them.
    pub writes_per_s: Option<f64>,
    pub watches: bool,
}

impl Evidence {
    fn outages(&self) -> impl Iterator<Item = &MeasuredFailure> {
        self.failures.iter().filter(|failure| failure.hits_servers)
    }

    /// Returns the valid trials, or all trials if too few are valid. The flag is true if only valid trials
    /// are returned.
    pub fn usable(&self) -> (Vec<Observation>, bool) {
        let sound: Vec<Observation> =
            self.trials.iter().filter(|trial| trial.unsound.is_none()).cloned().collect();
        let counts = fit(&sound).is_ok() || sound.len() == self.trials.len();
        if counts { (sound, true) } else { (self.trials.clone(), false) }
    }

    /// Returns the fit over the usable trials, if there are enough.
    pub(super) fn fitted(&self) -> Option<(Fit, Vec<Observation>)> {
        let trials = self.usable().0;
        Some((fit(&trials).ok()?, trials))
    }
}

/// The answer for exponentially distributed holds; present if only the mean is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableHolds {
    /// Whether the load meets the objective with these holds.
    pub verdict: Verdict,
    /// Prediction for these holds.
    pub prediction: Prediction,
    /// Highest rate that meets the objective with these holds; `None` if the requested rate misses the
    /// objective.
    pub headroom: Option<Headroom>,
}

impl VariableHolds {
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
    /// Label of the strategy.
    pub strategy: String,
    /// `held` if the load meets the objective, `violated` if it misses the objective, `unknown` if
    /// inconclusive.
    pub verdict: Verdict,
    /// Prediction; `None` if the load cannot be predicted.
    pub prediction: Option<Prediction>,
    /// The answer if holds vary; `None` if the variation is known, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_variable: Option<VariableHolds>,
    /// Fit on which the prediction is based.
    pub fit: Option<Fit>,
    /// The objective's metric as measured under the planned load. Older versions did not measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredLoad>,
    /// Highest rate that meets the objective; `None` if the requested rate misses the objective, or if the
    /// highest rate is unknown.
    pub headroom: Option<Headroom>,
    /// Length of the predicted period in seconds, if the lock is so busy that waits depend on it; `None` if
    /// they do not. Older versions did not store it.
    #[serde(default)]
    pub horizon_s: Option<f64>,
    /// Waits by ascending rate, from a quarter of the requested rate to the highest rate that meets the
    /// objective or can be predicted. Empty in files of older versions.
    #[serde(default)]
    pub curve: Vec<CurvePoint>,
    /// Values of the metric for other service times.
    pub sensitivity: Vec<Sensitivity>,
    /// Number of locks to spread the load over; `None` if unknown, or if spreading does not help.
    pub locks_needed: Option<usize>,
    /// Requests per second to the ensemble, as predicted from busy locks, which need more requests per acquisition.
    pub requests_per_s: Option<f64>,
    /// Share of the ensemble's capacity for synced writes that the load uses.
    pub ensemble_utilisation: Option<f64>,
    /// Average number of watches that are set at the same time.
    pub watches: Option<f64>,
    /// Longest measured time that a server failure made every client wait, in microseconds.
    pub outage_us: Option<u64>,
    /// Highest 99th percentile of the waits around a server failure. Older versions did not store it.
    #[serde(default)]
    pub outage_wait: Option<Bound>,
    /// Cost of each measured kind of failure. Empty in files of older versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureCost>,
    /// Trials on which the answer is based.
    pub sources: Vec<String>,
    /// Facts that could not be determined, with the reasons.
    pub missing: Vec<String>,
}

/// Spread of the trials around the fit above which the host counts as noisy.
const NOISY: f64 = 0.35;

/// Share of the clients in use above which requests often wait until a client is free.
const CLIENTS_BUSY: f64 = 0.6;
/// Utilisation of the locks below which nearly every request finds a free lock.
const LOCKS_FREE: f64 = 0.1;

/// Writes per acquisition: the lock's node is created and deleted.
pub const WRITES: f64 = 2.0;

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
            Err(too_few) => {
                answer.verdict = Verdict::unknown(too_few.to_string()).and(possible(load));
                return answer;
            }
        };
        if fitted.spread > NOISY {
            let spread = percent(fitted.spread);
            answer.missing.push(format!(
                "waits on a quiet host, because the trials' mean handoffs scatter by {spread} around the fit"
            ));
        }
        answer.fit = Some(fitted.clone());
        let is_bounded = load.is_closed() || load.only_tries();
        let mut beyond = if is_bounded { None } else { fitted.beyond(load.rate()) };
        let search = Search { fit: &fitted, trials, load, objective, effort };
        let predicted = beyond.is_none().then(|| search.predict(&fitted, load.clone(), effort.simulations));
        // Returning clients and tries load the lock only at the rate at which they are served.
        let got = predicted.as_ref().filter(|_| is_bounded).map(|one| one.throughput.middle);
        beyond = beyond.or_else(|| fitted.beyond(got?));
        let prediction = match (predicted, beyond) {
            (Some(prediction), None) => prediction,
            (_, beyond) => {
                answer.verdict = Verdict::Unknown(beyond.into_iter().collect()).and(possible(load));
                return answer;
            }
        };
        let mut verdict = search.known_queue(&prediction, load).and(judge(objective, &prediction));
        let demand = Demand::of(&prediction, load);
        if demand.depends_on_time() {
            answer.horizon_s = Some(load.clone().with_arrivals(effort.arrivals).lasts().as_secs_f64());
            answer.missing.push(
                "waits under a longer load: the lock is so busy that waits depend on the load's length"
                    .into(),
            );
        }
        answer.predicts(evidence, got.unwrap_or_else(|| load.rate()), &prediction);
        answer.sensitivity = search.sensitivity();
        let possible = possible(load);
        if search.keeps(&prediction, By::Middle) && !demand.grows() && possible == Verdict::Held {
            match search.room() {
                Ok(room) => answer.headroom = Some(room),
                Err(doubt) => verdict = verdict.and(Verdict::unknown(doubt)),
            }
        } else {
            answer.locks_needed = search.spread_over(SPREAD_MOST);
        }
        if !load.is_closed() {
            answer.curve = search.curve(&prediction, answer.headroom);
        }
        answer.if_variable = load.varied().map(|load| VariableHolds::of(&Search { load: &load, ..search }));
        if let Some(varied) = &answer.if_variable {
            verdict = whichever_holds(verdict, &varied.verdict);
        }
        verdict = answer.doubted(verdict, &evidence.trials, counts);
        // If holds alone exceed the capacity, other reasons do not matter.
        verdict = match possible {
            Verdict::Held => verdict.and(demand.verdict()),
            impossible => impossible,
        };
        (answer.verdict, answer.prediction) = (verdict, Some(prediction));
        answer
    }

    /// Returns whether the predicted median misses the objective.
    fn misses(&self, objective: &Objective) -> bool {
        let middle = |prediction| predicted(objective.figure, prediction).map(|one| one.middle);
        self.prediction.as_ref().and_then(middle).is_some_and(|middle| !objective.holds(middle))
    }

    /// Returns whether the predicted interval includes the objective's threshold.
    pub fn is_close(&self, objective: &Objective) -> bool {
        let ends = self.prediction.as_ref().and_then(|prediction| predicted(objective.figure, prediction));
        ends.is_some_and(|ends| objective.holds(ends.low) != objective.holds(ends.high))
    }

    /// Returns whether the clients limit the load: most of them hold a lock at any time, and requests wait for one.
    pub fn lacks_clients(&self, question: &Question) -> bool {
        let Some(one) = &self.prediction else { return false };
        let held = one.utilisation.middle * question.locks as f64;
        one.pool_runs_out > 0.5 && held > CLIENTS_BUSY * question.clients as f64
    }

    /// Returns whether the objective is a wait that is shorter than acquiring a free lock usually takes: nearly every
    /// request finds a free lock, but even the median wait misses the objective.
    pub fn needs_longer_even_if_free(&self, question: &Question) -> bool {
        let objective = &question.objective;
        self.prediction.as_ref().is_some_and(|one| {
            matches!(objective.figure, Figure::Latency(..))
                && one.utilisation.middle < LOCKS_FREE
                && !objective.holds(one.wait_p50.middle)
        })
    }

    /// Adds a measurement of the load itself. The measurement decides if the prediction is inconclusive. The
    /// verdict is violated if either of them misses the objective, because a load at the limit is not reliable.
    pub fn add_measured(&mut self, measured: MeasuredLoad, objective: &Objective) {
        let doubt = measured.doubt(objective);
        self.missing.extend(doubt.map(|why| format!("a reliable measurement of your load: {why}")));
        let said = measured.in_words(objective);
        let decided = match (&self.verdict, &measured.verdict) {
            (Verdict::Violated(_), _) => None,
            (_, Verdict::Violated(_)) => Some(Verdict::violated(format!(
                "{} was {said}, but must be {}",
                objective.figure,
                objective.wanted()
            ))),
            (Verdict::Unknown(_), Verdict::Held) if self.misses(objective) => {
                let expected = self.expected(objective).unwrap_or_default();
                Some(Verdict::violated(format!(
                    "too close to the limit to rely on: {expected} is predicted, and {said} was measured"
                )))
            }
            (Verdict::Unknown(_), Verdict::Held) => Some(Verdict::Held),
            _ => None,
        };
        self.verdict = decided.unwrap_or_else(|| self.verdict.clone());
        self.measured = Some(measured);
    }

    /// Returns the requests per second to the ensemble: as measured under the load itself, or else as predicted.
    pub fn requests(&self) -> Option<f64> {
        let served = self.prediction.as_ref().map(|prediction| prediction.throughput.middle);
        let each = self.measured.as_ref().and_then(|measured| measured.requests_per_acquisition);
        each.zip(served).map(|(each, served)| each * served).or(self.requests_per_s)
    }

    /// Decides an inconclusive verdict by the predicted median or, without a prediction, by the measured value,
    /// once all measurements have been made. `missed` states whether a lock with a better prediction missed the
    /// objective when measured.
    pub fn settle(&mut self, evidence: &Evidence, load: &PlannedLoad, objective: &Objective, missed: bool) {
        let Verdict::Unknown(reasons) = &self.verdict else { return };
        let Some(prediction) = &self.prediction else { return self.settle_without_prediction() };
        let why = reasons.join("; ");
        let grows = Demand::of(prediction, load).grows();
        let is_met = !missed && !grows && !self.misses(objective);
        let is_close = grows || self.is_close(objective);
        let by_median = format!("decided by the predicted median ({why})");
        if is_met {
            self.verdict = Verdict::Held;
            let close = format!("the load is close to the limit ({why})");
            self.missing.push(format!("a reliable verdict: {}", if is_close { close } else { by_median }));
        } else if evidence.usable().1 {
            // A miss in invalid trials may be the generator's fault, so the verdict stays inconclusive.
            let better =
                if missed { "; a lock with a better prediction missed it when measured" } else { "" };
            let close = format!("too close to the limit to rely on: {why}");
            self.verdict = Verdict::violated(format!("{}{better}", if is_close { close } else { by_median }));
        }
    }

    /// Decides by the measured value of the load itself.
    fn settle_without_prediction(&mut self) {
        let Some(measured) = &self.measured else { return };
        let why = measured.verdict.why().unwrap_or_default();
        match measured.by_value {
            Some(Verdict::Held) => {
                self.verdict = Verdict::Held;
                self.missing.push(format!("a reliable verdict: the load is close to the limit ({why})"));
            }
            Some(Verdict::Violated(_)) => {
                self.verdict = Verdict::violated(format!("too close to the limit to rely on: {why}"));
            }
            _ => {}
        }
    }

    fn nothing(strategy: &str, evidence: &Evidence, trials: &[Observation]) -> Self {
        let mut missing = Vec::new();
        let outage_us = evidence.outages().filter_map(|failure| failure.record.longest_gap_us).max();
        if outage_us.is_none() {
            missing.push("behaviour while a server is down: none of the results has a failing server".into());
        }
        if evidence.writes_per_s.is_none() {
            missing.push("utilisation of the ensemble: the results contain no calibration".into());
        }
        Self {
            strategy: strategy.to_owned(),
            verdict: Verdict::unknown("the results contain no trial of this strategy"),
            prediction: None,
            if_variable: None,
            fit: None,
            measured: None,
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

    /// Returns the verdict that invalid trials support: `held` or unknown. The generator's lag lengthens
    /// handoffs, so it cannot hide a miss.
    fn doubted(&mut self, verdict: Verdict, trials: &[Observation], counts: bool) -> Verdict {
        if counts {
            return verdict;
        }
        let why = trials.iter().find_map(|trial| trial.unsound.clone()).unwrap_or_default();
        let count = trials.iter().filter(|trial| trial.unsound.is_some()).count();
        let said = format!("{count} of {} trials were invalid; the first: {why}", trials.len());
        match verdict {
            Verdict::Held => {
                self.missing.push(format!("waits on a quiet host, which are shorter: {said}"));
                Verdict::Held
            }
            verdict => Verdict::Unknown([vec![said], verdict.reasons().to_vec()].concat()),
        }
    }

    fn predicts(&mut self, evidence: &Evidence, rate: f64, prediction: &Prediction) {
        let known: Vec<f64> = evidence.trials.iter().filter_map(|one| one.requests_per_acquisition).collect();
        let served = prediction.throughput.middle;
        self.requests_per_s = median(&known).map(|requests| requests * served);
        if self.requests_per_s.is_none() {
            self.missing.push("requests per second: no trial counted them".into());
        }
        self.ensemble_utilisation = evidence.writes_per_s.map(|writes| WRITES * rate / writes);
        self.watches = evidence.watches.then_some(prediction.waiting.middle);
        if prediction.pool_runs_out > 0.05 {
            self.missing.push(format!(
                "time spent waiting for a free session: in {:.0} % of the simulations, all sessions were in use",
                100.0 * prediction.pool_runs_out
            ));
        }
    }

    /// Returns the predicted value of the objective's metric, with its interval.
    pub fn expected(&self, objective: &Objective) -> Option<String> {
        let Predicted { low, middle, high } = predicted(objective.figure, self.prediction.as_ref()?)?;
        let [low, middle, high] = [low, middle, high].map(|value| objective.figure.unit().show(value));
        Some(format!("{} {middle} (90 %: {low} to {high})", objective.figure))
    }

    /// Describes the period for which the prediction is valid, if it is limited.
    fn horizon(&self) -> String {
        let told = |seconds: f64| format!(" for {} of this load", format_micros((1e6 * seconds) as u64));
        self.horizon_s.map(told).unwrap_or_default()
    }

    /// Returns the answer in one sentence, without the name of the strategy.
    pub fn sentence(&self, objective: &Objective) -> String {
        let why = self.verdict.why().unwrap_or_default();
        let measured = self.measured.as_ref().map(|measured| measured.in_words(objective));
        let known: Vec<String> = self.expected(objective).into_iter().chain(measured.clone()).collect();
        let expected =
            if known.is_empty() { String::new() } else { format!(": {}", known.join("; measured: ")) };
        let measured = measured.filter(|measured| !why.contains(measured.as_str()));
        let measured = measured.map_or_else(String::new, |measured| format!("; measured: {measured}"));
        match (&self.verdict, self.headroom, self.locks_needed) {
            (Verdict::Held, Some(headroom), _) => {
                let at_least = if headroom.at_least { "at least " } else { "" };
                if let Some(clients) = headroom.clients {
                    return format!("meets the objective{expected}; limit {at_least}{clients} clients");
                }
                let varied = self.if_variable.as_ref().and_then(|varied| varied.headroom);
                let varied = varied.map_or_else(String::new, |room| {
                    let at_least = if room.at_least { "at least " } else { "" };
                    format!(", or {at_least}{}/s if holds are exponentially distributed", number(room.rate))
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
                format!("misses the objective: {why}{measured}; {locks} locks would meet it")
            }
            (Verdict::Violated(_), _, None) => format!("misses the objective: {why}{measured}"),
            (Verdict::Unknown(_), ..) => format!("unknown: {why}{measured}"),
        }
    }
}

/// Utilisation that the load requires of the busiest lock, where 1 is the lock's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Demand {
    lock: &'static str,
    low: f64,
    middle: f64,
    /// Upper end of the interval.
    high: f64,
}

/// Utilisation above which waits depend on the duration of the load. The time until a queue is steady grows
/// with the inverse square of the lock's spare capacity.
const DEPENDS_ON_TIME: f64 = 0.95;
/// Simulated utilisation that counts as full, because a simulated lock is idle before its first holder.
const ALL_OF_THE_TIME: f64 = 0.995;

impl Demand {
    /// Computes the demand. The simulated utilisation never exceeds 1, so it is scaled by the ratio of the
    /// requested to the served rate. The demand counts as zero for loads whose queues do not grow without end:
    /// returning clients never request more than they get, tries do not queue, and a changing load may exceed
    /// the capacity only for a while.
    fn of(prediction: &Prediction, load: &PlannedLoad) -> Self {
        let Prediction { utilisation, throughput, .. } = prediction;
        if load.is_closed() || load.only_tries() || load.is_changing() {
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

    /// Returns whether the queue grows until the load ends.
    fn grows(self) -> bool {
        self.middle >= 1.0
    }

    fn verdict(self) -> Verdict {
        if self.low >= 1.0 {
            return Verdict::violated(format!(
                "{} would have to be busy for {} of the time, so its queue grows until the load ends",
                self.lock,
                percent(self.middle)
            ));
        }
        let may_grow = self.grows() || self.depends_on_time() && self.high >= ALL_OF_THE_TIME;
        if !may_grow {
            return Verdict::Held;
        }
        Verdict::unknown(format!(
            "{} would have to be busy for about {} of the time, possibly more than 100 %, in which case its \
             queue grows",
            self.lock,
            percent(self.middle)
        ))
    }
}

/// Returns violated if holds alone exceed the capacity.
fn possible(load: &PlannedLoad) -> Verdict {
    load.impossible().map_or(Verdict::Held, Verdict::violated)
}

/// Combines the verdicts for constant and for varying holds: the load must meet the objective with both.
fn whichever_holds(constant: Verdict, varied: &Verdict) -> Verdict {
    match (constant, varied) {
        (Verdict::Violated(why), _) => Verdict::Violated(why),
        (constant, Verdict::Held) => constant,
        (constant, Verdict::Violated(why) | Verdict::Unknown(why)) => {
            let met = if constant == Verdict::Held { "is met" } else { "may be met" };
            let why = why.first().cloned().unwrap_or_default();
            Verdict::violated(format!(
                "the objective {met} if all holds take equally long, but not reliably if holds are \
                 exponentially distributed \
                 ({why}); specify how they vary, e.g. --hold 'mean 10ms p99 40ms'"
            ))
        }
    }
}

/// Results for the load on this many servers, with one strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByServers {
    /// Number of servers.
    pub servers: usize,
    /// Label of the strategy.
    pub strategy: String,
    /// Whether the load meets the objective.
    pub verdict: Verdict,
    /// Wait in microseconds: the objective's metric or, if that is not a wait, the 99th percentile.
    pub wait: Option<Predicted>,
    /// Highest rate that meets the objective.
    pub headroom: Option<Headroom>,
    /// Median time of a synced write through the leader without other load, in microseconds.
    pub write_us: Option<u64>,
    /// Synced writes per second at saturation.
    pub writes_per_s: Option<f64>,
    /// Longest outage after the leader was killed, in microseconds; `None` for a single server.
    pub outage_us: Option<u64>,
}

impl ByServers {
    /// Creates the row of an answer that was measured on this many servers.
    pub fn of(servers: usize, answer: &Answer, objective: &Objective) -> Self {
        let wait = answer.prediction.as_ref().and_then(|one| predicted(wait_of(objective), one));
        Self {
            servers,
            strategy: answer.strategy.clone(),
            verdict: answer.verdict.clone(),
            wait,
            headroom: answer.headroom,
            write_us: None,
            writes_per_s: None,
            outage_us: answer.outage_us,
        }
    }
}
