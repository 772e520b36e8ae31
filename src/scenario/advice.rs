//! What can be run but may not be what the writer wants.

use std::time::Duration;

use super::arrivals::{Arrivals, Popularity};
use super::fields::{CLIENT, FAULT, POLL_INTERVAL_PARAM};
use super::model::{EnsembleChoice, Load, RateOf, Scenario, Stop, TrialSpec};
use super::offered::Offered;
use super::plan::{HANDOFF, Plan, scaled_fault};
use super::read::written;
use crate::words::catalog::fault::{FaultCard, FaultChoice, Target};
use crate::words::catalog::{Holders, LockCard};
use crate::words::units::{contenders, counted, format_duration, number};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub key: &'static str,
    /// Which of the faults it is about, from 0, if it is about one.
    pub fault: Option<usize>,
    pub message: String,
    pub help: String,
}

/// Too few to say anything of a 99th percentile, or even of a median.
const ACQUISITIONS_FEW: f64 = 20.0;
/// From here on queues are long enough to make results of short trials vary.
const NEAR_SATURATION: f64 = 0.8;
/// A queue that arrives at once lists as many names as it has members, each.
const BURST: usize = 2_000;

pub fn of(scenario: &Scenario, locks: &[LockCard], faults: &[FaultCard]) -> Vec<Advice> {
    let mut once = scenario.clone();
    once.repetitions = 1;
    let trials = Plan::of(&once).trials;
    let all = [
        repetitions(scenario),
        trials.first().and_then(short_hold),
        warm_up(scenario),
        few_acquisitions(&trials),
        impatience(&trials),
        idle_locks(scenario),
        session_timeout(scenario),
        burst(scenario, &trials),
        nobody_reads(scenario, &trials, locks),
        saturation(scenario, &trials, locks),
        missing_kind(&trials),
        small_pool(&trials),
        one_popular_lock(scenario),
        unused_steps(scenario),
    ];
    let lasting =
        (0..).zip(&scenario.faults).filter_map(|(at, fault)| no_service(scenario, at, fault, faults));
    let alone = (0..).zip(&scenario.faults).filter_map(|(at, fault)| nobody_waits(scenario, at, fault));
    all.into_iter().flatten().chain(lasting).chain(alone).collect()
}

fn advice(key: &'static str, message: String, help: &str) -> Option<Advice> {
    Some(Advice { key, fault: None, message, help: help.to_owned() })
}

fn of_fault(at: usize, message: String, help: &str) -> Option<Advice> {
    Some(Advice { key: FAULT, fault: Some(at), message, help: help.to_owned() })
}

fn repetitions(scenario: &Scenario) -> Option<Advice> {
    if scenario.repetitions > 1 {
        return None;
    }
    advice(
        "repetitions",
        "one repetition shows no spread, so differences cannot be told from noise".to_owned(),
        "use at least 3 repetitions to compare times; a batch's counts are exact anyway",
    )
}

fn short_hold(trial: &TrialSpec) -> Option<Advice> {
    let inexact = |mean: &Duration| !mean.is_zero() && *mean < Duration::from_millis(1);
    let mean = trial.kinds().iter().map(|kind| kind.hold.mean()).find(inexact)?;
    advice(
        "hold",
        format!("a hold of {} is inexact: timers tick in milliseconds", format_duration(mean)),
        "use 0ms or at least 1ms; the overshoot is recorded",
    )
}

fn warm_up(scenario: &Scenario) -> Option<Advice> {
    // Every arrival of a replay is measured.
    if scenario.load.open().is_some_and(|open| matches!(open.arrivals, Arrivals::Replay(_))) {
        return None;
    }
    if !matches!(scenario.stop, Stop::After(_)) || !scenario.warm_up.is_zero() {
        return None;
    }
    advice(
        "duration",
        "without a warm-up, the slower first acquisitions count too".to_owned(),
        "add a line such as warm_up = \"1s\"",
    )
}

fn few_acquisitions(trials: &[TrialSpec]) -> Option<Advice> {
    let timed = trials.iter().filter(|trial| matches!(trial.stop, Stop::After(_)));
    let few = timed.map(|trial| (trial.estimated_acquisitions(), trial));
    let (count, trial) =
        few.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(count, _)| *count < ACQUISITIONS_FEW)?;
    advice(
        "duration",
        format!(
            "`{}` with {} will acquire only about {count:.0} times",
            trial.strategy.label,
            contenders(trial.contenders)
        ),
        &if trial.load.open().is_some() {
            "measure longer, or raise the rate".to_owned()
        } else {
            format!(
                "measure longer, hold shorter, or shorten `{POLL_INTERVAL_PARAM}` of a strategy that polls"
            )
        },
    )
}

fn impatience(trials: &[TrialSpec]) -> Option<Advice> {
    let waiting = trials.iter().max_by_key(|trial| trial.estimated_wait())?;
    let timeout = waiting.acquire_timeout?;
    let wait = waiting.estimated_wait();
    if wait <= timeout {
        return None;
    }
    advice(
        "acquire_timeout",
        format!(
            "`{}` with {} will often time out: waits are about {}",
            waiting.strategy.label,
            contenders(waiting.contenders),
            format_duration(wait)
        ),
        "use a longer `acquire_timeout`, unless timeouts are the point",
    )
}

fn idle_locks(scenario: &Scenario) -> Option<Advice> {
    let fewest = scenario.contenders.iter().min()?;
    if scenario.locks <= *fewest || scenario.load.open().is_some() {
        return None;
    }
    advice(
        "locks",
        format!(
            "with {} only {fewest} of {} {} used",
            contenders(*fewest),
            counted(scenario.locks, "lock", "locks"),
            if *fewest == 1 { "is" } else { "are" }
        ),
        "list larger contender counts, or fewer locks",
    )
}

fn session_timeout(scenario: &Scenario) -> Option<Advice> {
    let timeout = scenario.session_timeout;
    let usual = Duration::from_secs(4)..=Duration::from_secs(40);
    if matches!(scenario.ensemble, EnsembleChoice::Connect(_)) && !usual.contains(&timeout) {
        return advice(
            "session_timeout",
            format!("a server with the default tickTime grants 4s to 40s, not {}", written(timeout)),
            "use a timeout between the two, or raise the servers' maxSessionTimeout",
        );
    }
    if timeout >= Duration::from_secs(2) {
        return None;
    }
    advice(
        "session_timeout",
        format!("a pause of {} in a server's JVM or on this host expires sessions", written(timeout)),
        "use at least 2s, unless expiry is the point",
    )
}

fn burst(scenario: &Scenario, trials: &[TrialSpec]) -> Option<Advice> {
    let most = scenario.contenders.iter().max()?;
    let queue = most.div_ceil(scenario.locks.max(1));
    let together = scenario.load == Load::Closed && scenario.ramp_up.is_zero();
    let thinks = trials.iter().any(|trial| !trial.mean_think().is_zero());
    if queue <= BURST || !together || thinks {
        return None;
    }
    advice(
        "contenders",
        format!("{queue} contenders arriving together each list {queue} names: sessions may expire"),
        "add a line such as ramp_up = \"10s\"",
    )
}

fn nobody_reads(scenario: &Scenario, trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    let has_read_side = |name: &str| {
        let card = cards.iter().find(|card| card.name == name);
        card.is_some_and(|card| card.guarantees.has_read_side())
    };
    let reads = trials.iter().any(TrialSpec::has_readers);
    if !reads || scenario.strategies.iter().any(|one| has_read_side(&one.name)) {
        return None;
    }
    advice(
        "read_ratio",
        "no listed strategy has a read side, so every request is a write".to_owned(),
        "list a strategy that lets readers in together, or leave `read_ratio` out",
    )
}

fn rate_key(scenario: &Scenario) -> &'static str {
    match (scenario.load.open().map(|open| &open.arrivals), scenario.rate_of) {
        (Some(Arrivals::Ramp { .. } | Arrivals::Steps(_) | Arrivals::Replay(_)), _) => "arrivals",
        (_, RateOf::All) => "rate",
        (_, RateOf::Each) => "rate_each",
    }
}

/// Whether a lock serves one request of this trial at a time.
fn is_alone(trial: &TrialSpec, card: &LockCard) -> bool {
    let one = match card.guarantees.holders {
        Holders::One => true,
        Holders::ReadersOrOneWriter => !trial.has_readers(),
        Holders::Leases(_) => false,
    };
    card.guarantees.exclusive && one
}

/// More than a lock can serve, or nearly so.
fn saturation(scenario: &Scenario, trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    let card = |trial: &TrialSpec| cards.iter().find(|card| card.name == trial.strategy.name);
    let alone = trials.iter().filter(|trial| card(trial).is_some_and(|card| is_alone(trial, card)));
    let offered = alone
        .filter_map(Offered::of)
        .max_by(|one, other| one.peak_utilisation().total_cmp(&other.peak_utilisation()))?;
    let lock = match scenario.locks {
        1 => "the lock".to_owned(),
        locks => format!("the busiest of {locks} locks"),
    };
    let held = |share: f64| format!("{lock} would be busy {} % of the time", number(share * 100.0));
    let arrivals = |rate: f64| {
        format!(
            "at {} arrivals a second, each with a hold of {},",
            number(rate),
            format_duration(offered.hold)
        )
    };
    let (mean, peak) = (offered.utilisation(), offered.peak_utilisation());
    let changes = scenario.load.open().is_some_and(|open| {
        matches!(open.arrivals, Arrivals::Day { .. } | Arrivals::Ramp { .. } | Arrivals::Steps(_))
    });
    let (message, help) = if mean >= 1.0 {
        (
            format!(
                "{} {}: this cannot work, the queue grows without end",
                arrivals(offered.rate),
                held(mean)
            ),
            "lower the rate, hold shorter or use more locks, unless overload is the point",
        )
    } else if changes && peak >= 1.0 {
        (
            format!("{} {} at the peak, while the queue grows", arrivals(offered.peak_rate), held(peak)),
            "lower the rate or hold shorter, unless overload is the point",
        )
    } else if mean >= NEAR_SATURATION {
        (
            format!("{} {}: near saturation", arrivals(offered.rate), held(mean)),
            "waits are long there and vary between repetitions; stay below 80 %, or measure for a long time",
        )
    } else {
        return None;
    };
    advice(rate_key(scenario), message, help)
}

/// A pool of sessions that is too small even for holds without any wait.
fn small_pool(trials: &[TrialSpec]) -> Option<Advice> {
    let busy = |trial: &TrialSpec| Some((trial.contenders, Offered::of(trial)?.busy_sessions(HANDOFF)));
    let short = |(contenders, busy): &(usize, f64)| busy - *contenders as f64;
    let (count, busy) =
        trials.iter().filter_map(busy).max_by(|one, other| short(one).total_cmp(&short(other)))?;
    if busy <= count as f64 {
        return None;
    }
    advice(
        "contenders",
        format!(
            "{} are too few: by Little's law {} sessions are busy at once (rate × (hold + {} for the handoff))",
            contenders(count),
            number(busy),
            format_duration(HANDOFF)
        ),
        "use more contenders: otherwise arrivals wait for a free session, and the pool is measured instead of \
         the lock",
    )
}

/// Fewer contenders than it takes to have one of each kind.
fn missing_kind(trials: &[TrialSpec]) -> Option<Advice> {
    let is_missing =
        |trial: &&TrialSpec| trial.load.open().is_none() && trial.contenders_by_kind().contains(&0);
    let trial = trials.iter().filter(is_missing).min_by_key(|trial| trial.contenders)?;
    let kind = trial.contenders_by_kind().iter().position(|count| *count == 0)? + 1;
    advice(
        CLIENT,
        format!("of {} none is of kind {kind}: its share is too small", contenders(trial.contenders)),
        "use more contenders, or give that kind a larger share",
    )
}

fn one_popular_lock(scenario: &Scenario) -> Option<Advice> {
    let Popularity::Zipf(_) = scenario.load.open()?.popularity else { return None };
    if scenario.locks > 1 {
        return None;
    }
    let message = "a single lock cannot be more popular than others".to_owned();
    advice("popularity", message, "use more `locks`, or leave the key out")
}

fn unused_steps(scenario: &Scenario) -> Option<Advice> {
    let (Arrivals::Steps(steps), Stop::After(measured)) = (&scenario.load.open()?.arrivals, scenario.stop)
    else {
        return None;
    };
    let before = steps.iter().rev().skip(1).map(|step| step.lasts).sum::<Duration>();
    if before < measured {
        return None;
    }
    let message = format!("the last step would start after {}, when the trial is over", written(before));
    advice("duration", message, "measure longer, or drop the last steps")
}

/// While no server serves, no session can be kept alive.
fn no_service(scenario: &Scenario, at: usize, fault: &FaultChoice, cards: &[FaultCard]) -> Option<Advice> {
    let card = cards.iter().find(|card| card.name == fault.kind)?;
    let alone = matches!(scenario.ensemble, EnsembleChoice::Local { servers: 1, .. });
    let everywhere = card.needs.reaches_servers() && (alone || fault.target == Target::Word("all"));
    let (lasts, timeout) = (scaled_fault(fault, scenario.time_scale).duration?, scenario.session_timeout);
    if lasts <= timeout || !(card.stops_service || everywhere) {
        return None;
    }
    let label = &fault.label;
    of_fault(
        at,
        format!(
            "`{label}` lasts {}, longer than the session timeout of {}: sessions may expire",
            written(lasts),
            written(timeout)
        ),
        "use a shorter `duration` or a longer `session_timeout`, unless expiry is the point",
    )
}

fn nobody_waits(scenario: &Scenario, at: usize, fault: &FaultChoice) -> Option<Advice> {
    if fault.target != Target::Word("waiter") || !scenario.contenders.contains(&1) {
        return None;
    }
    let message = format!("with 1 contender nobody ever waits, so `{}` hits nobody there", fault.label);
    of_fault(at, message, "drop 1 from `contenders`, or choose another target")
}
