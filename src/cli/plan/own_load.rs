//! Builds the scenario of the planned load, to decide an inconclusive prediction and to verify a prediction.

use std::time::Duration;

use toml::{Table, Value};

use super::countdown::expected;
use super::measuring::{HANDOFF, ROUND_TRIPS};
use super::question::AskedLoad;
use zklockbench_analysis::plan::{Question, QuestionLoad, in_toml};
use zklockbench_core::error::Error;
use zklockbench_core::units::{counted, format_duration, number};

/// Minimum load during measurements, in acquisitions per second.
pub const BUSY: f64 = 120.0;
/// Maximum number of sessions in a trial, unless the planned load has more.
const SESSIONS: f64 = 200.0;
/// Maximum mean share of sessions in use, so that requests rarely wait for a session.
const IN_USE: f64 = 0.5;
/// Maximum number of locks in a trial, unless the planned load has more.
const LOCKS: f64 = 1_000.0;
/// Minimum duration of a trial, and its minimum length in holds.
const SHORTEST: Duration = Duration::from_secs(10);
const SHORTEST_HOLDS: u32 = 30;
/// Length of a warm-up in holds of an idle lock, and its maximum duration.
const WARM_UP_HOLDS: f64 = 5.0;
const WARM_UP_MOST: Duration = Duration::from_secs(30);
/// Maximum duration of a trial with an impossible load.
const IMPOSSIBLE: Duration = Duration::from_secs(15);
/// Minimum rate multiplier that justifies measuring a different load.
const WORTH_IT: f64 = 1.2;
/// Extra time, as a factor, because the number of arrivals is random.
const SPARE: f64 = 1.05;

/// Load and strategy to run.
pub struct Wanted<'a> {
    pub name: &'a str,
    /// Strategy as listed in a scenario.
    pub strategy: &'a str,
    pub seed: u64,
    pub arrivals: f64,
    /// Minimum number of arrivals for judging the objective.
    pub needed: f64,
    pub longest: Duration,
    /// Highest predicted number of sessions in use, if there is a prediction.
    pub sessions: Option<f64>,
    /// Maximum multiple of the planned rate, in case that rate yields too few arrivals.
    pub times_at_most: f64,
}

/// Load as a scenario and as a phrase.
pub struct OwnLoad {
    pub text: String,
    pub said: String,
    /// Expected duration of the run.
    pub takes: Duration,
    /// Factor by which the planned rate of each lock is multiplied.
    pub times: f64,
    /// Length of the planned load if its rate changes and this load covers only a part of it.
    pub whole: Option<Duration>,
}

impl OwnLoad {
    /// Builds the planned load over several copies of its locks, so arrivals are frequent. If copies are
    /// impossible, a light load runs at a multiple of its rate.
    pub fn of(asked: &AskedLoad, wanted: &Wanted<'_>) -> Result<Self, Error> {
        let question = &asked.question;
        let used = asked.sessions_used(wanted.sessions);
        let copies = if asked.may_be_copied() { copies(question, used) } else { 1.0 };
        let base = question.copies(copies);
        // A short trial is enough to detect an impossible load.
        let longest = match asked.load.impossible() {
            Some(_) => wanted.longest.min(IMPOSSIBLE),
            None => wanted.longest,
        };
        let times = match asked.load.is_stationary() {
            true => SPARE * wanted.needed / (base.rate * longest.as_secs_f64()),
            false => 1.0,
        };
        // Copies share their sessions, and must not make requests wait for a session more often than planned.
        let by_sessions = if copies > 1.0 { base.clients as f64 / (used * copies) } else { f64::INFINITY };
        let most = wanted.times_at_most.min(BUSY / base.rate).min(by_sessions);
        let times = times.clamp(1.0, most.max(1.0));
        let times = if times < WORTH_IT { 1.0 } else { times };
        let rate = times * base.rate;
        let lasts = Duration::try_from_secs_f64(SPARE * wanted.arrivals / rate).unwrap_or(longest);
        let shortest = SHORTEST.max(SHORTEST_HOLDS * question.hold);
        let lasts = match asked.load.is_changing() {
            // A shorter or longer load would have other rates.
            true => asked.load.lasts().min(longest),
            false => lasts.clamp(shortest.min(longest), longest),
        };
        // Queues take longer to build up with long holds or busy locks.
        let idle = 1.0 - (asked.load.held().unwrap_or(0.0) / question.locks as f64).clamp(0.0, 0.9);
        let warm_up = question.hold.mul_f64(WARM_UP_HOLDS / idle).clamp(base.warm_up, WARM_UP_MOST);
        let load = QuestionLoad { rate, lasts, warm_up, seed: wanted.seed, ..base };
        let text = match &question.scenario {
            Some(text) => of_scenario(text, asked, wanted, &load)?,
            None => question.scenario(wanted.name, &[wanted.strategy.to_owned()], &load),
        };
        let said = match question.think {
            Some(_) => counted(load.clients as u64, "client", "clients"),
            None => format!("{} requests a second", number(rate)),
        };
        let more = if times > 1.0 { format!(", {} times your rate,", number(times)) } else { String::new() };
        let whole = Some(asked.load.lasts()).filter(|whole| asked.load.is_changing() && lasts < *whole);
        let of_whole = whole.map_or_else(String::new, |whole| format!(" of {}", format_duration(whole)));
        let (locks, lasts) = (counted(load.locks as u64, "lock", "locks"), format_duration(lasts));
        let said = format!("{said}{more} over {locks} for {lasts}{of_whole}");
        Ok(Self { takes: expected(wanted.name, &text)?, text, said, times, whole })
    }
}

impl AskedLoad {
    /// Returns the highest number of sessions in use: as predicted or, without a prediction, a multiple of the
    /// estimated mean.
    pub fn sessions_used(&self, predicted: Option<f64>) -> f64 {
        let handoff = HANDOFF + ROUND_TRIPS * self.question.round_trip.unwrap_or_default();
        predicted.or_else(|| Some(self.load.in_use(handoff)? / IN_USE)).unwrap_or(f64::INFINITY)
    }
}

/// Returns how many copies of the planned load make handoffs frequent, within the limits on sessions and locks.
/// `used` is the highest number of sessions that the planned load uses.
pub fn copies(question: &Question, used: f64) -> f64 {
    if question.popularity.is_some() {
        return 1.0;
    }
    let clients = question.clients as f64;
    let by_clients = match question.think {
        // Returning clients are part of the load, so each copy needs its own clients.
        Some(_) => SESSIONS / clients,
        // If requests may wait for a session, copies would change the waits by sharing sessions.
        None if used >= clients => 1.0,
        None => SESSIONS.max(clients) / used.max(1e-9),
    };
    let most = (LOCKS / question.locks as f64).min(by_clients).max(1.0);
    (BUSY / question.rate).clamp(1.0, most).floor()
}

/// Returns a scenario with one strategy and this load.
fn of_scenario(
    text: &str,
    asked: &AskedLoad,
    wanted: &Wanted<'_>,
    load: &QuestionLoad,
) -> Result<String, Error> {
    let wrong = |error: toml::de::Error| Error::usage(format!("the scenario: {error}"));
    let mut table: Table = text.parse().map_err(wrong)?;
    for key in ["gate", "ensemble", "precision", "repetitions_at_most", "order"] {
        table.remove(key);
    }
    let (locks, contenders) = (load.locks as i64, load.clients as i64);
    table.extend(
        [("locks", locks), ("contenders", contenders)].map(|(key, value)| (key.to_owned(), value.into())),
    );
    let times = load.rate / asked.question.rate;
    let rate = ["rate", "rate_each"].into_iter().find(|key| table.contains_key(*key));
    if let Some(rate) = rate.and_then(|key| table.get_mut(key)).filter(|_| times > 1.0) {
        let written = rate.as_float().or_else(|| Some(rate.as_integer()? as f64));
        *rate = Value::Float(times * written.unwrap_or_default());
    }
    let listed: Table = format!("listed = [{}]", in_toml(wanted.strategy)).parse().map_err(wrong)?;
    table.extend(listed.into_iter().map(|(_, value)| ("strategies".to_owned(), value)));
    let mut set = |key: &str, value: Value| table.insert(key.to_owned(), value);
    set("name", wanted.name.into());
    set("repetitions", Value::Integer(1));
    set("seed", Value::Integer(i64::try_from(wanted.seed).unwrap_or(1)));
    // A replay without a duration would last as long as its file.
    let written = load.lasts.div_f64(asked.scenario.time_scale);
    set("duration", format!("{}ms", written.as_millis()).into());
    Ok(table.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::question::tests::of_scenario;

    fn question(clients: usize, rate: f64, hold_ms: u64, locks: usize) -> Question {
        let objective = "wait.p99 < 300ms".parse().unwrap();
        Question::plain(clients, rate, Duration::from_millis(hold_ms), locks, objective)
    }

    #[test]
    fn light_loads_are_copied_up_to_the_limits_on_locks_and_sessions() {
        assert_eq!(copies(&question(20, 5.0, 100, 1), 8.0), 24.0);
        assert_eq!(copies(&question(200, 150.0, 10, 5), 20.0), 1.0, "requests are frequent enough");
        assert_eq!(copies(&question(100, 25.0, 40, 500), 8.0), 2.0, "limited to a thousand locks");
        assert_eq!(copies(&question(2_000, 1.0, 10, 2_000), 2.0), 1.0);
        let hot = Question { popularity: Some("{ zipf = 1.0 }".into()), ..question(20, 5.0, 100, 10) };
        assert_eq!(copies(&hot, 8.0), 1.0);
    }

    #[test]
    fn copies_of_a_load_never_run_out_of_sessions() {
        for (clients, rate, hold_ms, locks, used, expected) in [
            // Six locks are held on average, and nine requests wait
            (100, 6.0, 1_000, 10, 60.0, 3.0),
            (30, 1.0, 2_000, 3, 12.0, 16.0),
            (30, 5.0, 2_000, 20, 22.0, 9.0),
            (1_000, 20.0, 300, 20, 400.0, 2.0),
            // Requests wait for sessions
            (30, 10.0, 2_000, 40, 30.0, 1.0),
            (30, 10.0, 2_000, 40, f64::INFINITY, 1.0),
        ] {
            let question = question(clients, rate, hold_ms, locks);
            let copies = copies(&question, used);
            assert_eq!(copies, expected, "{clients} clients at {rate}/s");
            let sessions = question.copies(copies).clients as f64;
            assert!(copies == 1.0 || sessions >= used * copies, "{sessions} sessions of {clients} clients");
        }
    }

    /// Returns the load for a scenario, limited to a minute, and the duration in the load's text.
    fn own(scenario: &str, replay: &str) -> (OwnLoad, Duration) {
        own_of(scenario, replay, None, 1.0)
    }

    fn own_of(
        scenario: &str,
        replay: &str,
        sessions: Option<f64>,
        times_at_most: f64,
    ) -> (OwnLoad, Duration) {
        let (_, asked) = of_scenario(&[], scenario, replay).unwrap();
        let wanted = Wanted {
            name: "own",
            strategy: "baton",
            seed: 1,
            arrivals: 1_000.0,
            needed: 1_000.0,
            longest: Duration::from_mins(1),
            sessions,
            times_at_most,
        };
        let own = OwnLoad::of(&asked, &wanted).unwrap();
        let table: Table = own.text.parse().unwrap();
        let written = table["duration"].as_str().unwrap().trim_end_matches("ms").parse().unwrap();
        (own, Duration::from_millis(written))
    }

    #[test]
    fn copies_of_a_faster_load_never_run_out_of_sessions() {
        // Given 20 sessions, at most 12 of which are in use, so that 16 copies use nearly all of 200 sessions
        let load = "load = \"open\"\nrate = 0.5\nhold = \"500ms\"\nlocks = 3\nduration = \"20s\"\n";
        assert_eq!(own_of(load, "", Some(12.0), 4.0).0.times, 1.0);
    }

    #[test]
    fn load_with_a_changing_rate_runs_at_full_length_within_the_time_limit() {
        let steps = |last: &str| {
            format!(
                "load = \"open\"\narrivals = {{ steps = [{{ rate = 5, for = \"30s\" }}, \
                 {{ rate = 40, for = \"{last}\" }}] }}\nhold = \"5ms\"\nduration = \"{last}\"\n"
            )
        };
        let seconds = Duration::from_secs;
        let (own, lasts) = own(&steps("50s"), "");
        assert_eq!((lasts, own.whole), (seconds(50), None));
        let (own, lasts) = self::own(&steps("2min"), "");
        assert_eq!((lasts, own.whole), (seconds(60), Some(seconds(120))));
        assert!(own.said.ends_with("for 60 s of 2m"), "{}", own.said);
    }

    #[test]
    fn replay_without_a_duration_keeps_the_time_limit() {
        let replay = |last_s: u64| format!("time\n0\n1000\n{}\n", 1_000 * last_s);
        let scenario = "load = \"open\"\narrivals = { replay = { file = \"replay.csv\", time_column = \"time\", \
                        time_unit = \"ms\" } }\nhold = \"5ms\"\n";
        let (own, lasts) = own(scenario, &replay(7_200));
        assert_eq!(lasts, Duration::from_mins(1));
        assert_eq!(own.whole, Some(Duration::from_millis(7_200_001)));
        let (own, lasts) = self::own(scenario, &replay(40));
        assert_eq!((lasts, own.whole), (Duration::from_millis(40_001), None));
        let takes = own.takes;
        assert!((lasts..lasts + Duration::from_secs(5)).contains(&takes), "{takes:?}");
    }
}
