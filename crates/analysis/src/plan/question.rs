//! The question that a plan answers: a load, its scenario, and an objective that a plan can predict.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Predicted, Prediction};
use crate::objective::Objective;
use zklockbench_core::measure::{Figure, Measure, Statistic};
use zklockbench_core::units::{as_us, as_us_if_any, counted, format_duration, number, shown};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{THROUGHPUT, WON_SHARE};
use zklockbench_scenario::gate::Relation;
use zklockbench_scenario::{Distribution, distance};

/// Arrivals, sessions, holds and the objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// Number of sessions that request locks.
    pub clients: usize,
    /// Lock requests per second, over all locks.
    pub rate: f64,
    /// Mean hold.
    #[serde(rename = "hold_us", with = "as_us")]
    #[schemars(with = "u64")]
    pub hold: Duration,
    /// Distribution of the holds, as scenario TOML; `None` if only their mean is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<String>,
    /// Number of equal locks that the clients share.
    pub locks: usize,
    /// Arrival process, as scenario TOML.
    pub arrivals: String,
    /// Popularity of the locks, as scenario TOML; `None` if it is uniform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub popularity: Option<String>,
    /// Think time of returning clients between a release and the next request, as scenario TOML.
    /// `None` if the load consists of arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<String>,
    /// Time added to every round trip between clients and servers; `None` if none is added, and in files of
    /// older versions.
    #[serde(rename = "round_trip_us", with = "as_us_if_any", default)]
    #[schemars(with = "Option<u64>")]
    pub round_trip: Option<Duration>,
    /// Session timeout that clients request; `None` for the default of a scenario.
    #[serde(
        rename = "session_timeout_us",
        with = "as_us_if_any",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<u64>")]
    pub session_timeout: Option<Duration>,
    /// Text of the scenario that defines the load, if any; the fields above then only summarise it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Whether a request for a lock that is taken gives up at once. False in older versions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_tries: bool,
    /// Objective.
    pub objective: Objective,
}

/// Maximum utilisation of the locks when a load of tries is measured. The measured requests wait instead of
/// giving up, so a higher load would overload the locks.
const TRIES_HOLD: f64 = 0.6;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuestionLoad {
    /// Arrivals per second.
    pub rate: f64,
    pub locks: usize,
    pub clients: usize,
    pub lasts: Duration,
    pub warm_up: Duration,
    pub seed: u64,
}

impl Question {
    /// Creates a question with Poisson arrivals, spread evenly over the locks.
    pub fn plain(clients: usize, rate: f64, hold: Duration, locks: usize, objective: Objective) -> Self {
        Self {
            clients,
            rate,
            hold,
            holds: None,
            locks,
            arrivals: "\"poisson\"".to_owned(),
            popularity: None,
            think: None,
            round_trip: None,
            session_timeout: None,
            scenario: None,
            only_tries: false,
            objective,
        }
    }

    /// Rejects a question that has no answer, before anything is measured.
    pub fn check(&self) -> Result<(), String> {
        if self.objective.figure == WON_SHARE.figure() && !self.only_tries {
            return Err(
                "won_share needs try-locks: use --from-scenario with acquire_timeout = \"0s\"".to_owned()
            );
        }
        match self.clients.min(self.locks) {
            0 => Err("--clients and --locks must be at least 1".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns a Poisson load with these holds, for measuring many handoffs.
    pub fn in_service(&self, holds: &Distribution) -> Self {
        Self {
            hold: holds.mean(),
            holds: Some(holds.to_toml()),
            arrivals: "\"poisson\"".to_owned(),
            popularity: None,
            think: None,
            scenario: None,
            ..self.clone()
        }
    }

    /// Returns the same load on `copies` times as many locks, so that only the load on the ensemble differs.
    pub fn copies(&self, copies: f64) -> QuestionLoad {
        let locks = ((self.locks as f64 * copies).round() as usize).max(1);
        let copies = locks as f64 / self.locks as f64;
        QuestionLoad {
            rate: self.measured_rate() * copies,
            locks,
            clients: ((self.clients as f64 * copies).ceil() as usize)
                .clamp(1, CLIENTS_MOST.max(self.clients)),
            lasts: Duration::from_secs(60),
            warm_up: Duration::from_secs(2),
            seed: 1,
        }
    }

    /// Returns the rate at which the load is measured; limited for tries, because the measured requests wait.
    fn measured_rate(&self) -> f64 {
        let most = TRIES_HOLD * self.locks as f64 / self.hold.as_secs_f64().max(1e-6);
        if self.only_tries { self.rate.min(most) } else { self.rate }
    }

    pub fn scenario(&self, name: &str, strategies: &[String], ask: &QuestionLoad) -> String {
        let strategies: Vec<String> = strategies.iter().map(|strategy| in_toml(strategy)).collect();
        let (lasts, warm_up) = (ask.lasts.as_millis(), ask.warm_up.as_millis());
        let QuestionLoad { rate, locks, clients, seed, .. } = ask;
        let coming = match &self.think {
            Some(think) => format!("load = \"closed\"\nthink = {think}"),
            None => {
                let popularity =
                    self.popularity.as_ref().map(|popularity| format!("\npopularity = {popularity}"));
                let popularity = popularity.unwrap_or_default();
                format!(
                    "load = \"open\"\nrate = {rate}\narrivals = {}{popularity}\nbacklog_at_most = \"{BACKLOG_S}s\"",
                    self.arrivals
                )
            }
        };
        let timeout = self
            .session_timeout
            .map_or_else(String::new, |timeout| format!("session_timeout = \"{}ms\"\n", timeout.as_millis()));
        let fault = self.round_trip.map_or_else(String::new, |added| {
            format!("\n[[fault]]\n{}", distance(added, &format!("{lasts}ms")))
        });
        format!(
            "name = \"{name}\"\nstrategies = [{}]\ncontenders = {clients}\n{coming}\nlocks = {locks}\nhold = {}\nduration = \"{lasts}ms\"\nwarm_up = \"{warm_up}ms\"\n\
             warm_up_at_most = \"{warm_up}ms\"\nrepetitions = 1\nseed = {seed}\n{timeout}{fault}",
            strategies.join(", "),
            self.holds.clone().unwrap_or_else(|| format!("\"{}us\"", self.hold.as_micros())),
        )
    }

    pub fn describe(&self) -> String {
        let coming = match (&self.think, &self.scenario) {
            (Some(think), _) => format!("that return after {}", shown(think.trim_matches('"'), 60)),
            (None, None) => {
                let arrivals = self.arrivals.trim_matches('"');
                format!("with {} lock requests a second ({arrivals} arrivals)", number(self.rate))
            }
            (None, Some(_)) => {
                format!("with {} lock requests a second (the scenario's arrivals)", number(self.rate))
            }
        };
        let held = if self.think.is_some() { "and" } else { "that" };
        format!(
            "{} {coming} {held} hold for {}{}, over {}{}.{}{} Is {}?",
            counted(self.clients, "client", "clients"),
            format_duration(self.hold),
            match &self.holds {
                None => " on average".to_owned(),
                Some(holds) if !holds.contains("measured") => format!(" on average ({})", told(holds)),
                Some(_) if self.scenario.is_some() => " on average (the scenario's holds)".to_owned(),
                Some(_) => " on average (as measured)".to_owned(),
            },
            counted(self.locks, "lock", "locks"),
            self.popularity.as_ref().map_or_else(String::new, |by| format!(" ({})", told(by))),
            self.round_trip.map_or_else(String::new, |added| {
                format!(" {} is added to every round trip.", format_duration(added))
            }),
            if self.only_tries { " A request gives up if its lock is taken." } else { "" },
            self.objective.text
        )
    }
}

/// Maximum time for serving waiting arrivals after the load ends, in seconds.
const BACKLOG_S: u64 = 10;

/// Formats a strategy as a scenario lists it: its name, or a table with its parameters.
pub fn in_toml(strategy: &str) -> String {
    match strategy.starts_with('{') {
        true => strategy.to_owned(),
        false => toml::Value::from(strategy).to_string(),
    }
}

/// Formats a popularity or a distribution: `zipf 1.0` for `{ zipf = 1.0 }`.
fn told(toml: &str) -> String {
    let words = toml.replace(['{', '}', '='], " ").replace('"', "");
    shown(&words.split_whitespace().collect::<Vec<_>>().join(" "), 60)
}

/// Maximum number of sessions in a trial of several copies, unless the question has more.
const CLIENTS_MOST: usize = 200;

/// Parses a rate such as `50/s` or `3000/min`.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{}` is not a rate; use a value such as 50/s or 3000/min", shown(text, 40));
    let (digits, seconds) = match text.trim().split_once('/') {
        None => (text.trim(), 1.0),
        Some((digits, "s")) => (digits.trim(), 1.0),
        Some((digits, "min")) => (digits.trim(), 60.0),
        Some(_) => return Err(wrong()),
    };
    let rate = digits.parse::<f64>().map_err(|_| wrong())? / seconds;
    if (0.001..=100_000.0).contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("`{}` is out of range: must be between 0.001/s and 100000/s", shown(text, 40)))
    }
}

/// Parses an objective that a plan can predict: an upper limit for a wait, or a lower limit for throughput or
/// `won_share`.
pub fn objective(text: &str) -> Result<Objective, String> {
    const EXAMPLE: &str = "write, for example, 'wait.p99 < 200ms'";
    let objective: Objective = text.parse()?;
    let figure = objective.figure;
    if reader(figure).is_none() {
        return Err(format!(
            "a plan does not predict {figure}, only wait.p50, wait.p99, wait.p99.9, wait.mean, throughput and won_share; \
             {EXAMPLE}"
        ));
    }
    let fits = match figure {
        Figure::Plain(_) => matches!(objective.relation, Relation::More | Relation::AtLeast),
        _ => matches!(objective.relation, Relation::Less | Relation::AtMost),
    };
    if fits && objective.limit > 0.0 {
        return Ok(objective);
    }
    Err(format!(
        "a wait needs an upper limit, and throughput and won_share need a lower limit above 0; {EXAMPLE}"
    ))
}

/// Returns the prediction for a metric; `None` if the metric is not predicted.
pub fn predicted(figure: Figure, prediction: &Prediction) -> Option<Predicted> {
    reader(figure).map(|read| read(prediction))
}

/// Judges whether a prediction meets the objective: held if its whole interval does, violated if no part of
/// the interval does, otherwise unknown.
pub fn judge(objective: &Objective, prediction: &Prediction) -> Verdict {
    let Objective { figure, limit, .. } = objective;
    let Some(interval) = predicted(*figure, prediction) else {
        return Verdict::unknown(format!("{figure} is not predicted"));
    };
    let [low, high, limit] = [interval.low, interval.high, *limit].map(|value| figure.unit().show(value));
    let between = format!("{figure} is predicted to be between {low} and {high}");
    match (objective.holds(interval.low), objective.holds(interval.high)) {
        (true, true) => Verdict::Held,
        (false, false) => Verdict::violated(format!("{between}, but must be {}", objective.wanted())),
        _ => Verdict::unknown(format!("{between}, which includes the limit of {limit}")),
    }
}

/// Returns the wait shown in curves: the objective's metric or, if that is not a wait, the 99th percentile.
pub fn wait_of(objective: &Objective) -> Figure {
    match objective.figure {
        figure @ Figure::Latency(Measure::Wait, _) => figure,
        _ => Figure::Latency(Measure::Wait, Statistic::percent(99)),
    }
}

fn reader(figure: Figure) -> Option<fn(&Prediction) -> Predicted> {
    match figure {
        Figure::Latency(Measure::Wait, Statistic::Percentile(50_000)) => Some(|one| one.wait_p50),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_000)) => Some(|one| one.wait_p99),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_900)) => Some(|one| one.wait_p999),
        Figure::Latency(Measure::Wait, Statistic::Mean) => Some(|one| one.wait_mean),
        figure if figure == THROUGHPUT.figure() => Some(|one| one.throughput),
        figure if figure == WON_SHARE.figure() => Some(|one| one.won_share.unwrap_or(Predicted::NONE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(clients: usize, rate: f64, hold_ms: u64, locks: usize) -> Question {
        let objective = "wait.p99 < 200ms".parse().unwrap();
        Question::plain(clients, rate, Duration::from_millis(hold_ms), locks, objective)
    }

    #[test]
    fn rate_without_a_unit_is_per_second() {
        assert_eq!((rate("50/s"), rate("50"), rate("3000/min")), (Ok(50.0), Ok(50.0), Ok(50.0)));
        for wrong in ["-5/s", "0", "fast", "5/h", "NaN", "inf/s", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_strategy_with_parameters_is_written_as_a_table() {
        let asked = question(30, 10.0, 20, 2);
        let strategies = ["baton", "{ name = \"polling\", poll_interval = \"20ms\" }"].map(str::to_owned);
        let text = asked.scenario("x", &strategies, &asked.copies(1.0));
        let listed = "strategies = [\"baton\", { name = \"polling\", poll_interval = \"20ms\" }]";
        assert!(text.contains(listed), "{text}");
    }

    #[test]
    fn tries_may_exceed_lock_capacity_but_are_measured_below_capacity() {
        let tries = |objective: &str| Question {
            only_tries: true,
            objective: objective.parse().unwrap(),
            ..question(40, 200.0, 100, 10)
        };
        assert_eq!(tries("won_share > 0.5").check(), Ok(()));
        assert_eq!(tries("wait.p99 < 10ms").check(), Ok(()));
        assert_eq!(tries("won_share > 0.5").copies(1.0).rate, 60.0);
        let waits = Question { only_tries: false, ..tries("won_share > 0.5") };
        assert!(waits.check().unwrap_err().contains("won_share needs try-locks"));
    }

    #[test]
    fn copies_do_not_change_the_load_on_each_lock() {
        let ask = question(30, 10.0, 20, 2).copies(5.0);
        assert_eq!((ask.rate, ask.locks, ask.clients), (50.0, 10, 150));
    }

    #[test]
    fn objectives_use_gate_syntax() {
        let read = objective("wait.p99<200ms").unwrap();
        assert_eq!((read.limit, read.relation), (200_000.0, Relation::Less));
        assert!(read.holds(199_999.0) && !read.holds(200_000.0));
        assert!(objective("throughput >= 49/s").is_ok());
    }

    #[test]
    fn unpredictable_objectives_are_rejected_with_a_suggestion() {
        for (text, says) in [
            ("wait.p99", "column"),
            ("speed < 3", "column"),
            ("handoff.p50 < 9ms", "does not predict handoff.p50"),
            ("wait.p99 < 2 * wait.p50", "a metric and a limit"),
            ("wait.p99 > 3ms", "a wait needs an upper limit"),
            ("wait.p99 < 0ms", "never below 0"),
            ("wait.p99 at 5 contenders < 3ms", "omit `of` and `at`"),
        ] {
            let told = objective(text).unwrap_err();
            assert!(told.contains(says), "{text}: {told}");
        }
    }

    #[test]
    fn question_describes_holds_and_popularity_without_toml() {
        let asked = Question {
            holds: Some("{ log-normal = { median = \"1581us\", sigma = 1.1318 } }".into()),
            popularity: Some("{ zipf = 1.0 }".into()),
            ..question(236, 4.0, 3, 2)
        };
        let told = asked.describe();
        let says =
            "hold for 3 ms on average (log-normal median 1581us, sigma 1.1318), over 2 locks (zipf 1.0).";
        assert!(told.contains(says), "{told}");
    }

    #[test]
    fn curve_shows_the_objectives_wait_or_else_the_99th_percentile() {
        let shows = |text| wait_of(&objective(text).unwrap()).to_string();
        assert_eq!([shows("wait.mean < 1s"), shows("throughput >= 49/s")], ["wait.mean", "wait.p99"]);
    }
}
