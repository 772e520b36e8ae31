//! Warnings about scenarios that are valid but may not do what the user intends.

use std::time::Duration;

use super::arrivals::{Arrivals, Popularity};
use super::fields::{CLIENT, FAULT, GATE, POLL_INTERVAL_PARAM};
use super::gate::Subject;
use super::model::{EnsembleChoice, Load, RateOf, Scenario, Stop, TrialSpec};
use super::plan::{HANDOFF, Offered, TrialPlan, scaled_fault};
use super::value::written;
use zklockbench_core::catalog::fault::{FaultCard, FaultChoice, Start, Target};
use zklockbench_core::catalog::{Guarantees, LockCard, members};
use zklockbench_core::measure::{Figure, Measure};
use zklockbench_core::units::{contenders, counted, format_duration, number};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub key: &'static str,
    /// Index of the fault that the advice is about, if any.
    pub fault: Option<usize>,
    pub message: String,
    pub help: String,
}

/// Number of acquisitions below which even a median is unreliable.
const ACQUISITIONS_FEW: f64 = 20.0;
/// Utilisation at which queues become long, so that the results of short trials vary.
const NEAR_SATURATION: f64 = 0.8;
/// Number of simultaneous arrivals above which to warn, because each arrival lists the whole queue.
const BURST: usize = 2_000;

/// A replayed file with at most this many arrivals may be handwritten, so times in whole seconds cause no warning.
const SMALL_TRACE: usize = 20;

pub fn of(scenario: &Scenario, locks: &[LockCard], faults: &[FaultCard]) -> Vec<Advice> {
    let trials = TrialPlan::of(&Scenario { repetitions: 1, ..scenario.clone() }).trials;
    let all = [
        repetitions(scenario),
        trials.first().and_then(short_hold),
        warm_up(scenario),
        few_acquisitions(&trials, locks),
        few_samples(scenario, &trials),
        impatience(&trials, locks),
        tries_without_pause(&trials),
        idle_locks(scenario),
        idle_leases(&trials),
        session_timeout(scenario),
        burst(scenario, &trials),
        whole_seconds(scenario),
        nobody_reads(scenario, &trials, locks),
        saturation(scenario, &trials, locks),
        missing_kind(&trials),
        small_pool(&trials),
        one_popular_lock(scenario),
        unused_steps(scenario),
    ];
    let each = || (0..).zip(&scenario.faults);
    let lasting = each().filter_map(|(at, fault)| no_service(scenario, at, fault, faults));
    let alone = each().filter_map(|(at, fault)| nobody_waits(scenario, at, fault));
    let late = each().filter_map(|(at, fault)| ends_late(&trials, at, fault));
    all.into_iter().flatten().chain(lasting).chain(alone).chain(late).collect()
}

fn advice(key: &'static str, message: impl Into<String>, help: &str) -> Advice {
    Advice { key, fault: None, message: message.into(), help: help.to_owned() }
}

fn repetitions(scenario: &Scenario) -> Option<Advice> {
    let message = "one repetition shows no spread, so differences cannot be distinguished from noise";
    let help = "use at least 3 repetitions to compare times; a batch's counts are exact anyway";
    (scenario.repetitions <= 1).then(|| advice("repetitions", message, help))
}

fn short_hold(trial: &TrialSpec) -> Option<Advice> {
    let inexact = |mean: &Duration| !mean.is_zero() && *mean < Duration::from_millis(1);
    let mean = trial.kinds().iter().map(|kind| kind.hold.mean()).find(inexact)?;
    let message = format!("a hold of {} is inexact: timers tick in milliseconds", format_duration(mean));
    Some(advice("hold", message, "use 0ms or at least 1ms; the overshoot is recorded"))
}

fn warm_up(scenario: &Scenario) -> Option<Advice> {
    // Every arrival of a replay is measured.
    let replays = scenario.load.open().is_some_and(|open| matches!(open.arrivals, Arrivals::Replay(_)));
    let has_none = matches!(scenario.stop, Stop::After(_)) && scenario.warm_up.is_zero();
    let message = "without a warm-up, the slower first acquisitions are also counted";
    (has_none && !replays).then(|| advice("duration", message, "add a line such as warm_up = \"1s\""))
}

fn few_acquisitions(trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    let timed = trials.iter().filter(|trial| matches!(trial.stop, Stop::After(_)));
    let timed = timed.filter(|trial| all_locks(trial, cards, Guarantees::excludes));
    let few = timed.map(|trial| (trial.estimated_acquisitions(), trial));
    let (count, TrialSpec { strategy, contenders: number, load, .. }) =
        few.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|(count, _)| *count < ACQUISITIONS_FEW)?;
    let (label, with) = (&strategy.label, contenders(*number));
    let message = format!("`{label}` with {with} will complete only about {count:.0} acquisitions");
    let help = match load.open() {
        Some(_) => "use a longer `duration` or a higher rate".to_owned(),
        None => format!(
            "use a longer `duration`, a shorter `hold`, or a shorter `{POLL_INTERVAL_PARAM}` for a strategy that polls"
        ),
    };
    Some(advice("duration", message, &help))
}

/// Warns about a gate whose percentile needs more acquisitions than are planned.
fn few_samples(scenario: &Scenario, trials: &[TrialSpec]) -> Option<Advice> {
    // The number of acquisitions in a closed load with a duration is only a rough estimate.
    let planned = |trial: &TrialSpec| match (Offered::of(trial), trial.stop) {
        (Some(offered), _) => Some(offered.arrivals),
        (None, Stop::Acquisitions(_)) => Some(trial.estimated_acquisitions()),
        (None, Stop::After(_)) => None,
    };
    scenario.gates.iter().find_map(|gate| {
        let Subject { figure, scope } = &gate.condition.subject;
        // Each acquisition has one wait and at most one handoff.
        let Figure::Latency(Measure::Wait | Measure::Handoff, _) = figure else { return None };
        let needed = figure.samples_needed();
        let covered = trials.iter().filter(|trial| scope.covers(&trial.strategy.label, trial.contenders));
        let counted = covered.filter_map(|trial| Some((trial, planned(trial)?)));
        let short = counted.filter(|(_, count)| *count < needed as f64);
        let (trial, count) = short.min_by_key(|(trial, _)| trial.contenders)?;
        let (label, with) = (&trial.strategy.label, contenders(trial.contenders));
        let message = format!(
            "`{figure}` needs {needed} samples in each repetition, but `{label}` with {with} will complete only about \
             {count:.0} acquisitions"
        );
        let help = "use more `acquisitions`, a longer `duration` or a lower percentile; otherwise, the gate may be \
                    unknown";
        Some(advice(GATE, message, help))
    })
}

fn impatience(trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    let waits = |trial: &&TrialSpec| !trial.only_tries() && all_locks(trial, cards, Guarantees::excludes);
    let waiting = trials.iter().filter(waits).max_by_key(|trial| trial.estimated_wait())?;
    let (timeout, wait) = (waiting.acquire_timeout?, waiting.estimated_wait());
    let (label, with) = (&waiting.strategy.label, contenders(waiting.contenders));
    let message =
        format!("`{label}` with {with} will often time out: waits are about {}", format_duration(wait));
    let help = "use a longer `acquire_timeout`, unless timeouts are intended";
    (wait > timeout).then(|| advice("acquire_timeout", message, help))
}

/// Warns if contenders of a closed load retry failed tries without a pause, which keeps the servers busy.
fn tries_without_pause(trials: &[TrialSpec]) -> Option<Advice> {
    let spins =
        |trial: &&TrialSpec| trial.load == Load::Closed && trial.only_tries() && trial.mean_think().is_zero();
    let TrialSpec { strategy, .. } = trials.iter().find(spins)?;
    let message = format!(
        "contenders of `{}` retry failed try-locks immediately, which puts load on the servers",
        strategy.label
    );
    Some(advice("acquire_timeout", message, "add a pause such as think = \"100ms\", or use load = \"open\""))
}

fn idle_locks(scenario: &Scenario) -> Option<Advice> {
    let fewest = scenario.contenders.iter().min()?;
    let (locks, are) = (counted(scenario.locks, "lock", "locks"), if *fewest == 1 { "is" } else { "are" });
    let message = format!("with {}, only {fewest} of {locks} {are} used", contenders(*fewest));
    let is_idle = scenario.locks > *fewest && scenario.load.open().is_none();
    is_idle.then(|| advice("locks", message, "use larger contender counts or fewer locks"))
}

/// Warns about a semaphore with enough leases for all contenders, so that its limit is never tested.
fn idle_leases(trials: &[TrialSpec]) -> Option<Advice> {
    let most = trials.iter().map(|trial| trial.contenders).max().filter(|most| *most > 1)?;
    let is_idle = |trial: &&TrialSpec| {
        // In an open load, all contenders may request the same lock. Fresh locks have no queue anyway.
        let locks = if trial.load.open().is_some() { 1 } else { trial.locks };
        let served = trial.holders().saturating_mul(locks);
        trial.contenders == most && trial.holders() > 1 && most <= served && !trial.fresh_locks
    };
    let TrialSpec { strategy, .. } = trials.iter().find(is_idle)?;
    let message = format!(
        "`{}` has enough leases for {}, so no contender waits for a lease",
        strategy.label,
        contenders(most)
    );
    Some(advice("contenders", message, "use more contenders, or fewer leases or locks"))
}

fn session_timeout(scenario: &Scenario) -> Option<Advice> {
    let timeout = scenario.session_timeout;
    let usual = Duration::from_secs(4)..=Duration::from_secs(40);
    if scenario.ensemble.is_external() && !usual.contains(&timeout) {
        let timeout = written(timeout);
        let message = format!(
            "a server grants 4s to 40s with tickTime=2000, and 6s to 60s with the default tickTime, not {timeout}"
        );
        let help =
            "use a timeout from 6s to 40s, or change the servers' minSessionTimeout or maxSessionTimeout";
        return Some(advice("session_timeout", message, help));
    }
    let message =
        format!("a pause of {} in a server's JVM or on this host expires sessions", written(timeout));
    let help = "use at least 2s, unless expiry is intended";
    (timeout < Duration::from_secs(2)).then(|| advice("session_timeout", message, help))
}

fn burst(scenario: &Scenario, trials: &[TrialSpec]) -> Option<Advice> {
    let most = scenario.contenders.iter().max()?;
    let queue = most.div_ceil(scenario.locks.max(1));
    let together = scenario.load == Load::Closed && scenario.ramp_up.is_zero() && !scenario.fresh_locks;
    let thinks = trials.iter().any(|trial| !trial.mean_think().is_zero());
    let message =
        format!("{queue} contenders arriving together each list {queue} names: sessions may expire");
    let help = "add a line such as ramp_up = \"10s\"";
    (queue > BURST && together && !thinks).then(|| advice("contenders", message, help))
}

/// Warns about a replayed file without fractions of seconds: all arrivals of one second come at once.
fn whole_seconds(scenario: &Scenario) -> Option<Advice> {
    let Arrivals::Replay(replay) = &scenario.load.open()?.arrivals else { return None };
    let is_whole = replay.trace.iter().all(|arrival| arrival.at_us % 1_000_000 == 0);
    let seconds = || replay.trace.chunk_by(|one, other| one.at_us == other.at_us);
    let most = seconds().map(<[_]>::len).max()?;
    let are_batches =
        is_whole && replay.trace.len() > SMALL_TRACE && replay.trace.len() >= 2 * seconds().count();
    let message = format!(
        "the times in {} have no fractions of a second: up to {most} arrivals are due at the same instant",
        replay.file.display()
    );
    let help = "use a file with finer times (from k6: K6_CSV_TIME_FORMAT=unix_milli); otherwise, waits are measured \
                in batches";
    are_batches.then(|| advice("arrivals", message, help))
}

fn nobody_reads(scenario: &Scenario, trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    let mut names = scenario.strategies.iter().flat_map(|listed| members(&listed.name));
    let has_read_side =
        |name: &str| cards.iter().any(|card| card.name == name && card.guarantees.has_read_side());
    let in_vain = trials.iter().any(TrialSpec::has_readers) && !names.any(has_read_side);
    let message = "no listed strategy has a read side, so every request is a write";
    let help = "list a strategy with a read side, or remove `read_ratio`";
    in_vain.then(|| advice("read_ratio", message, help))
}

fn rate_key(scenario: &Scenario) -> &'static str {
    match (scenario.load.open().map(|open| &open.arrivals), scenario.rate_of) {
        (Some(Arrivals::Ramp { .. } | Arrivals::Steps(_) | Arrivals::Replay(_)), _) => "arrivals",
        (_, RateOf::All) => "rate",
        (_, RateOf::Each) => "rate_each",
    }
}

/// Returns whether all locks of the trial's strategy have this property in the trial's load.
fn all_locks(trial: &TrialSpec, cards: &[LockCard], has: fn(&Guarantees, bool) -> bool) -> bool {
    let reads = trial.has_readers();
    let card = |name: &str| cards.iter().find(|card| card.name == name);
    members(&trial.strategy.name).all(|name| card(name).is_some_and(|card| has(&card.guarantees, reads)))
}

fn saturation(scenario: &Scenario, trials: &[TrialSpec], cards: &[LockCard]) -> Option<Advice> {
    // Fresh locks and tries have no queue.
    let queues = trials.iter().filter(|trial| !trial.fresh_locks && !trial.only_tries());
    let offered = queues
        .filter(|trial| all_locks(trial, cards, Guarantees::has_one_holder))
        .filter_map(Offered::of)
        .max_by(|one, other| one.peak_utilisation().total_cmp(&other.peak_utilisation()))?;
    let lock = match scenario.locks {
        1 => "the lock".to_owned(),
        locks => format!("the busiest of {locks} locks"),
    };
    let at = |rate: f64, share: f64| {
        let (rate, hold, share) = (number(rate), format_duration(offered.hold), number(share * 100.0));
        format!(
            "at {rate} arrivals a second, each with a hold of {hold}, {lock} would be busy {share} % of the time"
        )
    };
    let (mean, peak) = (offered.utilisation(), offered.peak_utilisation());
    let changes = scenario.load.open().is_some_and(|open| {
        matches!(open.arrivals, Arrivals::Day { .. } | Arrivals::Ramp { .. } | Arrivals::Steps(_))
    });
    let (message, help) = if mean >= 1.0 {
        (
            format!("{}: the queue grows without limit", at(offered.rate, mean)),
            "lower the rate, shorten the hold or use more locks, unless overload is intended",
        )
    } else if changes && peak >= 1.0 {
        (
            format!("{} at the peak, so the queue grows", at(offered.peak_rate, peak)),
            "lower the rate or shorten the hold, unless overload is intended",
        )
    } else if mean >= NEAR_SATURATION {
        (
            format!("{}: near saturation", at(offered.rate, mean)),
            "waits are then long and vary between repetitions; stay below 80 %, or use a long `duration`",
        )
    } else {
        return None;
    };
    Some(advice(rate_key(scenario), message, help))
}

/// Warns if the pool of sessions is too small for the holds and handoffs alone.
fn small_pool(trials: &[TrialSpec]) -> Option<Advice> {
    // Failed tries return immediately, so they do not occupy a session.
    let waits = |trial: &TrialSpec| Offered::of(trial).filter(|_| !trial.only_tries());
    let busy = |trial: &TrialSpec| Some((trial.contenders, waits(trial)?.busy_sessions(HANDOFF)));
    let short = |(contenders, busy): &(usize, f64)| busy - *contenders as f64;
    let (count, busy) =
        trials.iter().filter_map(busy).max_by(|one, other| short(one).total_cmp(&short(other)))?;
    let (with, handoff) = (contenders(count), format_duration(HANDOFF));
    let message = format!(
        "{with} cannot serve this load: by Little's law, {} sessions are busy at once (rate × (hold + {handoff} for \
         the handoff))",
        number(busy)
    );
    let help = "use more contenders: otherwise, arrivals wait for a free session, and the pool is measured instead of \
                the lock";
    (busy > count as f64).then(|| advice("contenders", message, help))
}

/// Warns if there are too few contenders to have at least one of each kind.
fn missing_kind(trials: &[TrialSpec]) -> Option<Advice> {
    let is_missing =
        |trial: &&TrialSpec| trial.load.open().is_none() && trial.contenders_by_kind().contains(&0);
    let trial = trials.iter().filter(is_missing).min_by_key(|trial| trial.contenders)?;
    let kind = trial.contenders_by_kind().iter().position(|count| *count == 0)? + 1;
    let of = contenders(trial.contenders);
    let message = format!("none of {of} is of kind {kind}: its share is too small");
    Some(advice(CLIENT, message, "use more contenders, or increase the share of this kind"))
}

fn one_popular_lock(scenario: &Scenario) -> Option<Advice> {
    let Popularity::Zipf(_) = scenario.load.open()?.popularity else { return None };
    let message = "a single lock cannot be more popular than others";
    let help = "use more `locks`, or remove the key";
    (scenario.locks <= 1).then(|| advice("popularity", message, help))
}

fn unused_steps(scenario: &Scenario) -> Option<Advice> {
    let (Arrivals::Steps(steps), Stop::After(measured)) = (&scenario.load.open()?.arrivals, scenario.stop)
    else {
        return None;
    };
    let before = steps.iter().rev().skip(1).map(|step| step.lasts).sum::<Duration>();
    let message = format!(
        "the last step would start after {}, when the measured phase has already ended",
        written(before)
    );
    (before >= measured)
        .then(|| advice("duration", message, "use a longer `duration`, or remove the last steps"))
}

/// Warns about a fault that stops all service for longer than the session timeout.
fn no_service(scenario: &Scenario, at: usize, fault: &FaultChoice, cards: &[FaultCard]) -> Option<Advice> {
    let card = cards.iter().find(|card| card.name == fault.kind)?;
    let alone = matches!(scenario.ensemble, EnsembleChoice::Local { servers: 1, .. });
    let everywhere = card.needs.reaches_servers() && (alone || fault.target == Target::Word("all"));
    let (lasts, timeout) = (scaled_fault(fault, scenario.time_scale).duration?, scenario.session_timeout);
    let message = format!(
        "`{}` lasts {}, longer than the session timeout of {}: sessions may expire",
        fault.label,
        written(lasts),
        written(timeout)
    );
    let help = "use a shorter `duration` or a longer `session_timeout`, unless expiry is intended";
    let expires = lasts > timeout && (card.stops_service || everywhere);
    expires.then(|| Advice { fault: Some(at), ..advice(FAULT, message, help) })
}

/// Maximum time for a fault to take effect.
const TAKES_EFFECT: Duration = Duration::from_millis(500);

/// Warns about a fault that the end of the load may cut short.
fn ends_late(trials: &[TrialSpec], at: usize, fault: &FaultChoice) -> Option<Advice> {
    let time = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let end_of = |trial: &TrialSpec| {
        let (measured, fault) = (trial.measured(), trial.faults.get(at)?);
        let begins = match fault.start {
            Start::At(at) => at,
            Start::AfterAcquisitions(count) => time(measured * count as f64 / trial.estimated_acquisitions()),
        };
        let end = FaultChoice { start: Start::At(begins), ..fault.clone() }.ends_at()?;
        (end.saturating_add(TAKES_EFFECT) > time(measured)).then_some((end, time(measured)))
    };
    let (end, measured) = trials.iter().filter_map(end_of).max()?;
    let (end, measured) = (format_duration(end), format_duration(measured));
    let message = format!(
        "`{}` may last until about {end} into the measured phase of {measured}; a fault cut short by the end of the \
         load is not proved",
        fault.label
    );
    let help =
        "start the fault earlier, shorten it, fire it less often, or use a longer `duration` at the top";
    Some(Advice { fault: Some(at), ..advice(FAULT, message, help) })
}

fn nobody_waits(scenario: &Scenario, at: usize, fault: &FaultChoice) -> Option<Advice> {
    let is_alone = fault.target == Target::Word("waiter") && scenario.contenders.contains(&1);
    let message = format!("a single contender never waits, so `{}` has no effect at that count", fault.label);
    let help = "remove 1 from `contenders`, or choose another target";
    is_alone.then(|| Advice { fault: Some(at), ..advice(FAULT, message, help) })
}
