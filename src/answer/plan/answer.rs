//! The answer for one strategy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::question::{judge, predicted, wait_of};
use super::{FailureCost, MeasuredFailure, PlannedLoad, SIMULATED};
use crate::answer::model::{Fit, Observation, Predicted, Prediction, Unfit, fit, predict};
use crate::answer::objective::Objective;
use crate::answer::stats::median;
use crate::results::record::Bound;
use crate::words::units::{format_micros, number, percent};
use crate::words::verdict::Verdict;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Arrivals of a simulation: those of the trial whose chance the interval has.
    pub arrivals: f64,
    /// How often a load is simulated for an interval.
    pub simulations: usize,
    /// The same for each further rate: of the curve, and where the objective breaks.
    pub for_curve: usize,
    pub seed: u64,
}

impl Effort {
    pub fn whole(seed: u64) -> Self {
        Self { arrivals: SIMULATED, simulations: 60, for_curve: ENDS, seed }
    }
}

/// The fewest simulations whose smallest and largest are the ends of a 90 % interval: one more lies outside once in ten times.
const ENDS: usize = 19;
/// How often a load is simulated where only the middle is asked for.
const FEW: usize = 5;
/// Steps that halve where the limit lies.
const STEPS: u32 = 7;
/// Multiples of the rate from which on it is looked for a rate that keeps the objective for sure.
const LOWER: [f64; 4] = [1.0, 0.5, 0.25, 0.125];
/// As many times the clients of a closed load are tried at most.
const CLIENTS_MOST: f64 = 16.0;
/// Locks that a load is spread over at most, as a multiple of those asked for.
const SPREAD_MOST: usize = 64;

/// What an answer is made from.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Evidence {
    pub trials: Vec<Observation>,
    pub failures: Vec<MeasuredFailure>,
    /// Synced writes a second that the ensemble takes, where a calibration says so.
    pub writes_per_s: Option<f64>,
    pub watches: bool,
}

impl Evidence {
    fn outages(&self) -> impl Iterator<Item = &MeasuredFailure> {
        self.failures.iter().filter(|failure| failure.hits_servers)
    }

    /// The trials that count, if there are enough of them; otherwise all, which still say more than none, although no
    /// verdict rests on them. Whether they count.
    fn usable(&self) -> (Vec<Observation>, bool) {
        let sound: Vec<Observation> =
            self.trials.iter().filter(|trial| trial.unsound.is_none()).cloned().collect();
        let counts = fit(&sound).is_ok() || sound.len() == self.trials.len();
        if counts { (sound, true) } else { (self.trials.clone(), false) }
    }

    /// Why the trials disagree too much to predict anything from; `None` where they don't.
    pub fn disagrees(&self) -> Option<Unfit> {
        fit(&self.usable().0).err().filter(|unfit| matches!(unfit, Unfit::Bad(_)))
    }
}

/// Up to which rate the objective holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Headroom {
    /// Up to how many clients, where the load is one of clients that come back; `None` of arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<usize>,
    /// Arrivals a second; of clients that come back, those that so many would come to with a lock that takes no time.
    pub rate: f64,
    /// The same as a multiple of what was asked for.
    pub factor: f64,
    /// Whether it holds there still, and nothing was measured beyond.
    pub at_least: bool,
    /// Up to which rate the whole 90 % interval keeps the objective: the lower end of this one. `None` where no rate does.
    #[serde(default)]
    pub low: Option<f64>,
    /// From which rate on nothing of the interval does: the upper end. `None` where nothing was measured so far out.
    #[serde(default)]
    pub high: Option<f64>,
}

/// The wait that is predicted at a rate: of the objective or, where that is about something else, its 99th percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Arrivals a second.
    pub rate: f64,
    /// The wait in microseconds.
    #[serde(flatten)]
    pub wait: Predicted,
}

/// What the objective's figure would be if holds and handoffs took another time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sensitivity {
    /// So many times as long.
    pub service: f64,
    /// The figure: microseconds, or acquisitions a second.
    pub value: f64,
    /// Whether the objective would hold.
    pub holds: bool,
}

/// The answer if holds are as variable as an exponential's, where only their mean is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VariableHolds {
    /// Whether the plan holds then.
    pub verdict: Verdict,
    /// What is expected then.
    pub prediction: Prediction,
    /// Up to which rate the objective holds then; `None` where it does not hold at the rate that was asked for.
    pub headroom: Option<Headroom>,
}

/// How much longer and shorter services are tried.
const SERVICES: [f64; 4] = [0.9, 1.05, 1.1, 1.2];

/// The answer for one strategy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Its label.
    pub strategy: String,
    /// `held`: the plan holds; `violated`: it will not; `unknown`: it can't be told. With the reasons.
    pub verdict: Verdict,
    /// What is expected; `None` where nothing can be predicted.
    pub prediction: Option<Prediction>,
    /// The same if holds vary; `None` where it is known how they do, and in files of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_variable: Option<VariableHolds>,
    /// What it was predicted from.
    pub fit: Option<Fit>,
    /// Up to which rate the objective holds; `None` where it does not hold at the rate that was asked for, or is not known.
    pub headroom: Option<Headroom>,
    /// For how many seconds the prediction is made, where the lock is so busy that waits depend on that; `None` where they
    /// do not. Older versions did not keep it.
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
    /// The longest time that a failing server kept everybody waiting, of those that were measured, in microseconds.
    pub outage_us: Option<u64>,
    /// The longest 99th percentile of the waits of those that came around such a failure. Older versions did not keep it.
    #[serde(default)]
    pub outage_wait: Option<Bound>,
    /// What each kind of failure that was measured costs. Older versions did not keep it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureCost>,
    /// Trials that it rests on.
    pub sources: Vec<String>,
    /// What could not be said, and why.
    pub missing: Vec<String>,
}

/// A lock is entered and left by a write each: its node is created and deleted.
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
                answer.verdict = Verdict::Unknown(vec![unfit.to_string()]);
                return answer;
            }
        };
        answer.fit = Some(fitted.clone());
        let mut beyond = if load.is_closed() { None } else { fitted.beyond(load.rate()) };
        let search = Search { fit: &fitted, trials, load, objective, effort };
        let predicted = beyond.is_none().then(|| search.predict(&fitted, load.clone(), effort.simulations));
        // Clients that come back ask for what they get.
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
                Err(doubt) => verdict = verdict.and(Verdict::Unknown(vec![doubt])),
            }
        } else {
            answer.locks_needed = search.spread_over(SPREAD_MOST);
        }
        verdict = verdict.and(demand.verdict());
        if !load.is_closed() {
            answer.curve = search.curve(&prediction, answer.headroom);
        }
        answer.if_variable = load.varied().map(|load| Search { load: &load, ..search }.if_variable());
        if let Some(varied) = &answer.if_variable {
            verdict = whichever_holds(verdict, &varied.verdict);
        }
        (answer.verdict, answer.prediction) = (verdict, Some(prediction));
        answer
    }

    /// The trials that it was predicted from.
    pub fn rests_on(&self, evidence: &Evidence) -> Vec<Observation> {
        evidence.usable().0
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
            verdict: Verdict::Unknown(vec!["nothing is known of it".into()]),
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

    /// What is predicted of the objective's figure, with its interval.
    pub fn expected(&self, objective: &Objective) -> Option<String> {
        let Predicted { low, middle, high } = predicted(objective.figure, self.prediction.as_ref()?)?;
        let [low, middle, high] = [low, middle, high].map(|value| objective.figure.unit().show(value));
        Some(format!("{} {middle} (90 %: {low} to {high})", objective.figure))
    }

    /// For how long it holds, where that matters.
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

/// How busy the busiest lock is by what is asked of it: 1 is as much as it can do.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Demand {
    lock: &'static str,
    low: f64,
    middle: f64,
    /// The upper end of the share of time in which it is busy.
    high: f64,
}

/// From here on the waits of a load depend on how long it lasts: what a queue takes to become steady grows with the square of
/// how close its lock is to its limit.
const DEPENDS_ON_TIME: f64 = 0.95;
/// From here on one lock is busier than others.
const UNEVEN: f64 = 1.05;
/// A lock that is simulated for a while is not busy before its first holder.
const ALL_OF_THE_TIME: f64 = 0.995;

impl Demand {
    /// A lock is never busier than all the time; what it is asked for beyond that it does not serve. Clients that come back after
    /// their release ask for no more than they get.
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

    /// Whether a queue grows for as long as the load lasts.
    fn grows(self) -> bool {
        self.middle >= 1.0
    }

    fn verdict(self) -> Verdict {
        if self.low >= 1.0 {
            return Verdict::Violated(vec![format!(
                "{} would have to be busy for {} of the time, so its queue grows for as long as the load lasts",
                self.lock,
                percent(self.middle)
            )]);
        }
        let may_grow = self.grows() || self.depends_on_time() && self.high >= ALL_OF_THE_TIME;
        if !may_grow {
            return Verdict::Held;
        }
        Verdict::Unknown(vec![format!(
            "{} would have to be busy for about {} of the time, perhaps for more than there is, and then its queue grows",
            self.lock,
            percent(self.middle)
        )])
    }
}

fn unsound(trials: &[Observation], counts: bool) -> Verdict {
    if counts {
        return Verdict::Held;
    }
    let why = trials.iter().find_map(|trial| trial.unsound.clone()).unwrap_or_default();
    let count = trials.iter().filter(|trial| trial.unsound.is_some()).count();
    let all = trials.len();
    Verdict::Unknown(vec![format!(
        "{count} of {all} trials do not count, the first of them because it is {why}"
    )])
}

/// How much of a prediction's interval has to keep the objective.
#[derive(Debug, Clone, Copy)]
enum By {
    All,
    Middle,
    Any,
}

/// The largest multiple of a rate that keeps the objective.
#[derive(Debug, Clone, Copy)]
struct Last {
    factor: f64,
    /// It may be larger: nothing was measured beyond.
    is_open: bool,
}

/// What holds if holds are constant and if they vary: where that is not the same, it is not known.
fn whichever_holds(constant: Verdict, varied: &Verdict) -> Verdict {
    match (constant, varied) {
        (Verdict::Held, Verdict::Violated(why) | Verdict::Unknown(why)) => {
            let why = why.first().cloned().unwrap_or_default();
            Verdict::Unknown(vec![format!(
                "it meets the objective if every hold takes the same, and perhaps not if holds vary as an exponential's \
                 do ({why}): say how they vary, with --hold or --holds"
            )])
        }
        (constant, _) => constant,
    }
}

/// How many wait at the busiest of these locks, of which so many times as much is asked as of one on average: as in a queue of
/// one server, which grows with how busy that is, and as if the others were alike. With those as uneven it would be less.
fn at_the_busiest(prediction: &Prediction, locks: usize, uneven: f64) -> f64 {
    let (all, locks) = (prediction.waiting.middle, locks as f64);
    if locks <= 1.0 {
        return all;
    }
    let length = |busy: f64| {
        let busy = busy.clamp(0.001, 0.999);
        busy * busy / (1.0 - busy)
    };
    let busy = prediction.utilisation.middle;
    let busiest = length(busy * uneven);
    let others = (locks - 1.0) * length(busy * (locks - uneven) / (locks - 1.0));
    all * busiest / (busiest + others)
}

#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub fit: &'a Fit,
    pub trials: &'a [Observation],
    pub load: &'a PlannedLoad,
    pub objective: &'a Objective,
    pub effort: Effort,
}

/// What an evidence says of a service, if its trials agree.
pub(super) fn fitted(evidence: &Evidence) -> Option<(Fit, Vec<Observation>)> {
    let trials = evidence.usable().0;
    Some((fit(&trials).ok()?, trials))
}

impl Search<'_> {
    fn if_variable(&self) -> VariableHolds {
        let prediction = self.predict(self.fit, self.load.clone(), self.effort.simulations);
        let demand = Demand::of(&prediction, self.load);
        let verdict = judge(self.objective, &prediction).and(demand.verdict());
        let holds = self.keeps(&prediction, By::Middle) && !demand.grows();
        let headroom = if holds { self.room().ok() } else { None };
        VariableHolds { verdict, prediction, headroom }
    }

    fn predict(&self, fit: &Fit, load: PlannedLoad, simulations: usize) -> Prediction {
        let load = load.with_arrivals(self.effort.arrivals);
        load.with_case(false, |case| predict(fit, self.trials, case, simulations, self.effort.seed))
    }

    /// Whether the objective is kept by that much of a prediction.
    fn keeps(&self, prediction: &Prediction, by: By) -> bool {
        let Some(Predicted { low, middle, high }) = predicted(self.objective.figure, prediction) else {
            return false;
        };
        let holds = |value| self.objective.holds(value);
        match by {
            By::All => holds(low) && holds(high),
            By::Middle => holds(middle),
            By::Any => holds(low) || holds(high),
        }
    }

    /// Unknown where queues get longer than any that was measured and each who waits costs.
    fn known_queue(&self, prediction: &Prediction, load: &PlannedLoad) -> Verdict {
        let waiting = 1.0 + at_the_busiest(prediction, load.locks(), load.unevenness());
        if !self.fit.guesses_queue(waiting) {
            return Verdict::Held;
        }
        Verdict::Unknown(vec![format!(
            "{} would wait at a lock, {} at most were measured, and each of them makes a handoff longer",
            number(waiting),
            number(self.fit.range.waiting_to)
        )])
    }

    fn holds(&self, load: PlannedLoad, by: By) -> bool {
        self.keeps_at(load, by) == Some(true)
    }

    /// Whether a load keeps the objective; `None` where its queues are longer than those that were measured.
    fn keeps_at(&self, load: PlannedLoad, by: By) -> Option<bool> {
        let (locks, is_closed, uneven) = (load.locks(), load.is_closed(), load.unevenness());
        let prediction = self.predict(self.fit, load, self.effort.for_curve);
        let Predicted { low, middle, high } = prediction.utilisation;
        let busy = match by {
            By::All => high,
            By::Middle => middle,
            By::Any => low,
        };
        let waiting = 1.0 + at_the_busiest(&prediction, locks, uneven);
        // A queue that grows has short waits only at first; that of a closed load does not.
        let is_steady = is_closed || uneven * busy < 0.98;
        (!self.fit.guesses_queue(waiting)).then(|| is_steady && self.keeps(&prediction, by))
    }

    /// The wait at rates below what was asked for, there, and up to where the objective breaks: closer where waits rise faster.
    fn curve(&self, asked: &Prediction, headroom: Option<Headroom>) -> Vec<CurvePoint> {
        let rate = self.load.rate();
        let point = |factor: f64, prediction: &Prediction| {
            let wait = predicted(wait_of(self.objective), prediction)?;
            Some(CurvePoint { rate: factor * rate, wait })
        };
        let simulated = |factor: f64| {
            let load = self.load.clone().times(factor);
            point(factor, &self.predict(self.fit, load, self.effort.for_curve))
        };
        let end = headroom.map_or(1.0, |room| room.factor);
        let (below, above): (&[f64], &[f64]) = match end > 1.02 {
            true => (&[0.25, 0.5, 0.75], &[0.5, 0.75, 0.9, 1.0]),
            false => (&[0.25, 0.4, 0.55, 0.7, 0.85], &[]),
        };
        let before = below.iter().filter_map(|factor| simulated(*factor));
        let beyond = above.iter().filter_map(|share| simulated(1.0 + share * (end - 1.0)));
        before.chain(point(1.0, asked)).chain(beyond).collect()
    }

    fn sensitivity(&self) -> Vec<Sensitivity> {
        let at = |service: f64| {
            let fit = self.fit.times(service);
            let prediction = self.predict(&fit, self.load.clone().holding(service), FEW);
            let value = predicted(self.objective.figure, &prediction)?.middle;
            Some(Sensitivity { service, value, holds: self.objective.holds(value) })
        };
        SERVICES.into_iter().filter_map(at).collect()
    }

    /// Up to which rate the objective holds; the error says up to which it does where that is below what was asked for.
    fn room(&self) -> Result<Headroom, String> {
        if self.holds(self.load.clone(), By::Middle) {
            return Ok(self.headroom());
        }
        let below = LOWER.into_iter().find(|factor| self.holds(self.load.clone().times(*factor), By::Middle));
        let below = below.ok_or("no load is found that surely holds")?;
        let factor = self.last_that_holds(below, By::Middle).factor;
        let limit = match self.load.is_closed() {
            true => format!("{} clients", self.load.clone().times(factor).sessions()),
            false => format!("{}/s", number(factor * self.load.rate())),
        };
        Err(format!("the limit is about {limit}, below what is asked for"))
    }

    /// Where the objective breaks, given that it holds at the rate that was asked for.
    fn headroom(&self) -> Headroom {
        let middle = self.last_that_holds(1.0, By::Middle);
        let low = LOWER.into_iter().find(|factor| self.holds(self.load.clone().times(*factor), By::All));
        let low = low.map(|factor| self.last_that_holds(factor, By::All));
        let high = self.last_that_holds(middle.factor, By::Any);
        let rate = |last: Last| self.load.rate() * last.factor;
        let clients = self.load.is_closed().then(|| self.load.clone().times(middle.factor).sessions());
        Headroom {
            clients,
            rate: rate(middle),
            factor: middle.factor,
            at_least: middle.is_open,
            low: low.map(rate),
            high: Some(high).filter(|high| !high.is_open).map(rate),
        }
    }

    /// The largest multiple of the rate that keeps the objective, from one that does.
    fn last_that_holds(&self, from: f64, by: By) -> Last {
        let keeps_at = |factor: f64| self.keeps_at(self.load.clone().times(factor), by);
        let (mut holds, mut breaks) = (from, 2.0 * from);
        // Whether it is known that it breaks there.
        let mut is_known = loop {
            if self.load.is_closed() && breaks > CLIENTS_MOST {
                return Last { factor: holds, is_open: true };
            }
            if !self.load.is_closed() && self.fit.beyond(self.load.rate() * breaks).is_some() {
                breaks = self.fit.rate_at_most() / self.load.rate();
                if breaks <= holds {
                    return Last { factor: holds, is_open: true };
                }
                match keeps_at(breaks) {
                    Some(true) => return Last { factor: breaks, is_open: true },
                    other => break other.is_some(),
                }
            }
            match keeps_at(breaks) {
                Some(true) => (holds, breaks) = (breaks, 2.0 * breaks),
                other => break other.is_some(),
            }
        };
        for _ in 0..STEPS {
            let middle: f64 = (holds * breaks).sqrt();
            match keeps_at(middle) {
                Some(true) => holds = middle,
                other => (breaks, is_known) = (middle, other.is_some()),
            }
        }
        match is_known {
            true => Last { factor: (holds * breaks).sqrt(), is_open: false },
            false => Last { factor: holds, is_open: true },
        }
    }

    /// What is expected of a load, by a few simulations.
    pub fn about(&self, load: PlannedLoad) -> Prediction {
        self.predict(self.fit, load, FEW)
    }

    /// The fewest locks with which the objective is kept, those that were asked for or more, as a multiple of these at most.
    pub fn fewest_locks(&self, most: usize) -> Option<usize> {
        let few = Search { effort: Effort { for_curve: FEW, ..self.effort }, ..*self };
        match few.holds(self.load.clone(), By::Middle) {
            true => Some(self.load.locks()),
            false => few.spread_over(most),
        }
    }

    /// The fewest locks, more than those that were asked for, with which the objective is kept.
    fn spread_over(&self, most: usize) -> Option<usize> {
        let asked = self.load.locks();
        let holds = |locks: usize| self.holds(self.load.clone().over(locks), By::Middle);
        let mut enough = 2 * asked;
        while !holds(enough) {
            enough *= 2;
            if enough > most * asked {
                return None;
            }
        }
        let mut too_few = enough / 2;
        while enough - too_few > 1 {
            let middle = too_few.midpoint(enough);
            if holds(middle) { enough = middle } else { too_few = middle }
        }
        Some(enough)
    }
}
