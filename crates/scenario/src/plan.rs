//! Expands a scenario into trials, and estimates their duration and the demand of an open load.

use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::arrivals::{Arrivals, Late, Open, Replay};
use super::fields::POLL_INTERVAL_PARAM;
use super::model::{
    EnsembleChoice, Load, Order, RateOf, Scenario, Settling, Stop, StrategyChoice, TrialSpec,
};
use zklockbench_core::catalog::fault::{FaultChoice, Start};
use zklockbench_core::catalog::{ParamValue, Params};
use zklockbench_core::clock::micros;

#[derive(Debug, Clone, PartialEq)]
pub struct TrialPlan {
    pub scenario: Scenario,
    pub trials: Vec<TrialSpec>,
}

impl TrialPlan {
    /// Expands strategies × contenders × repetitions.
    ///
    /// Every repetition contains every combination once, so machine drift affects all strategies alike. The
    /// seed shuffles each repetition unless the scenario fixes the order. The plan is identical on every platform.
    pub fn of(scenario: &Scenario) -> Self {
        let load = scaled_load(scenario);
        let trials =
            (1..=scenario.repetitions).flat_map(|repetition| round(scenario, &load, repetition)).collect();
        Self { scenario: scenario.clone(), trials }
    }

    /// Returns the trials of a repetition (from 1) in running order, even beyond the planned repetitions.
    pub fn round(&self, repetition: u32) -> Vec<TrialSpec> {
        round(&self.scenario, &scaled_load(&self.scenario), repetition)
    }
}

/// Returns replacements for invalid trials: the same trials in a new random order, numbered from `first`.
pub fn again(invalid: &[TrialSpec], first: usize) -> Vec<TrialSpec> {
    let mut again: Vec<TrialSpec> =
        invalid.iter().map(|spec| TrialSpec { makes_up_for: Some(spec.index), ..spec.clone() }).collect();
    let seed = again.first().map_or(0, |spec| spec.seed);
    again.shuffle(&mut stream(seed, Purpose::Again, first as u64));
    for (index, spec) in (first..).zip(&mut again) {
        spec.index = index;
    }
    again
}

/// Returns every combination once, in running order.
fn round(scenario: &Scenario, load: &Load, repetition: u32) -> Vec<TrialSpec> {
    let mut round = one_of_each(scenario, load, repetition);
    if scenario.order == Order::Shuffled {
        round.shuffle(&mut stream(scenario.seed, Purpose::Order, u64::from(repetition)));
    }
    let before = usize::try_from(repetition.saturating_sub(1)).unwrap_or(usize::MAX);
    let first = before.saturating_mul(round.len());
    for (position, trial) in round.iter_mut().enumerate() {
        trial.index = first.saturating_add(position);
    }
    round
}

/// Returns every combination once, in the scenario's order.
fn one_of_each(scenario: &Scenario, load: &Load, repetition: u32) -> Vec<TrialSpec> {
    let mut round = Vec::new();
    for strategy in &scenario.strategies {
        for contenders in &scenario.contenders {
            let load = offered(load, scenario.rate_of, *contenders);
            round.push(trial(scenario, strategy, load, *contenders, repetition));
        }
    }
    // Seeds are assigned before shuffling, so that they do not depend on the running order.
    let first = u64::from(repetition).saturating_mul(round.len() as u64);
    for (position, trial) in (0..).zip(&mut round) {
        trial.seed = stream(scenario.seed, Purpose::Trial, first.saturating_add(position)).next_u64();
    }
    round
}

fn trial(
    scenario: &Scenario,
    strategy: &StrategyChoice,
    load: Load,
    contenders: usize,
    repetition: u32,
) -> TrialSpec {
    let scale = scenario.time_scale;
    // The label stays as written.
    let mut strategy = strategy.clone();
    scale_params(&mut strategy.params, scale);
    let stop = match scenario.stop {
        Stop::After(duration) => Stop::After(duration.mul_f64(scale)),
        Stop::Acquisitions(each) => Stop::Acquisitions(each),
    };
    TrialSpec {
        index: 0,
        strategy,
        contenders,
        repetition,
        locks: if scenario.fresh_locks { contenders } else { scenario.locks },
        fresh_locks: scenario.fresh_locks,
        hold: scenario.hold.scaled(scale),
        think: scenario.think.scaled(scale),
        read_ratio: scenario.read_ratio,
        clients: scenario.clients.iter().map(|kind| kind.scaled(scale)).collect(),
        depth: scenario.depth,
        load,
        stop,
        ramp_up: scenario.ramp_up.mul_f64(scale),
        warm_up: scenario.warm_up.mul_f64(scale),
        warm_up_at_most: scenario.warm_up_at_most.mul_f64(scale),
        session_timeout: scenario.session_timeout,
        acquire_timeout: scenario.acquire_timeout,
        give_up_after: scenario.give_up_after,
        session_each: scenario.session_each,
        in_doubt: scenario.in_doubt,
        on_lost: scenario.on_lost,
        hold_limit: scenario.hold_limit,
        evidence: scenario.evidence,
        faults: scenario.faults.iter().map(|fault| scaled_fault(fault, scale)).collect(),
        settling: Settling::of(scenario.session_timeout),
        seed: 0,
        makes_up_for: None,
    }
}

/// Returns the load with scaled times. All trials share the load, because a replay may be large.
fn scaled_load(scenario: &Scenario) -> Load {
    let Load::Open(open) = &scenario.load else { return scenario.load.clone() };
    Load::Open(Open { arrivals: open.arrivals.clone().scaled(scenario.time_scale), ..open.clone() })
}

fn offered(load: &Load, rate_of: RateOf, contenders: usize) -> Load {
    match (load, rate_of) {
        (Load::Open(open), RateOf::Each) => {
            Load::Open(Open { arrivals: open.arrivals.clone().times(contenders as f64), ..open.clone() })
        }
        _ => load.clone(),
    }
}

fn scale_params(params: &mut Params, scale: f64) {
    for value in params.values_mut() {
        if let ParamValue::Duration(time) = value {
            *time = time.mul_f64(scale);
        }
    }
}

/// Scales all times of a fault, but keeps its label as written.
pub(super) fn scaled_fault(fault: &FaultChoice, scale: f64) -> FaultChoice {
    let mut fault = fault.clone();
    if let Start::At(at) = &mut fault.start {
        *at = at.mul_f64(scale);
    }
    for time in fault.duration.iter_mut().chain([&mut fault.every, &mut fault.jitter]) {
        *time = time.mul_f64(scale);
    }
    scale_params(&mut fault.params, scale);
    fault
}

/// Purposes of random numbers; each purpose has an independent generator.
#[derive(Clone, Copy)]
enum Purpose {
    Order = 1,
    Trial = 2,
    Again = 3,
}

fn stream(seed: u64, purpose: Purpose, number: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(number);
    rng
}

pub const BASIS: &str = "estimate: connecting (0.3 s and 3 ms per contender), ramp-up, warm-up, measured phase \
                         and drain (0.3 s and 1 ms per contender); 0.25 ms per lock to create and remove its \
                         node; if the phase ends after a fixed number of acquisitions, the mean hold plus 3 ms for \
                         the handoff and, for polling, half an interval, times the acquisitions of the busiest \
                         lock; the backlog of an open load, at most `backlog_at_most`; 8 s to start and warm up \
                         an ensemble. The handoff depends on the ensemble; on a slow disk, it takes longer.";

pub const MEMORY_BASIS: &str = "excluding servers: 90 MB, 90 kB per contender, 85 bytes per name when all \
                                contenders of a lock list its queue at once (less for locks that do not list it), \
                                130 bytes per lock, 2.5 kB per lock that is used, 120 bytes per acquisition up to \
                                0.5 MB per lock, 500 bytes per lock and contender that uses it in an open load, \
                                8 bytes per arrival of an open load, and 500 bytes per second";

/// Base memory in bytes, including 20 MB of buffers for a slow disk.
const MEMORY_BYTES: u128 = 90_000_000;
const CONTENDER_BYTES: u128 = 90_000;
/// Memory for a name of 12 to 55 bytes, in the reply and in the list built from the reply (measured).
const NAME_BYTES: u128 = 85;
/// Size of a lock before its first use.
const LOCK_BYTES: u128 = 130;
/// Size of a lock that has been used once.
const USED_LOCK_BYTES: u128 = 2_500;
/// Size of a lock's record of an acquisition and its release.
const REMEMBERED_BYTES: u128 = 120;
/// Maximum size of a lock's record: a fixed part, and a part for each contender.
const REMEMBERED_AT_MOST: [u128; 2] = [500_000, 2_500];
/// Size of a contender's lock object.
const OBJECT_BYTES: u128 = 500;
/// Size of an arrival's outcome and the generator's delay.
const ARRIVAL_BYTES: u128 = 8;
/// Size of a replayed arrival.
const REPLAYED_BYTES: u128 = 40;
/// Size of a second of the timeline: in each thread, in the total, and while the timeline is written.
const SECOND_BYTES: u128 = 500;

pub const DISK_BASIS: &str = "on servers that the run starts: 300 bytes per acquisition until the trial is judged, \
                              plus 1,000 with --history, of which 900 are kept; each server's transaction logs \
                              also keep about the last hour, at 300 bytes per acquisition";

/// Disk space for an acquisition until its trial is judged, including space for judging.
const DISK_BYTES: f64 = 300.0;

const ENSEMBLE_START_S: f64 = 8.0;
const PHASE_S: f64 = 0.3;
const CONNECT_S: f64 = 0.003;
const DRAIN_S: f64 = 0.001;
/// Seconds to create a lock's directory, and to list and delete it, with 64 requests in flight.
const CREATE_S: f64 = 0.000_1;
const REMOVE_S: f64 = 0.000_15;
/// Requests per acquisition of a queue lock: create, list, watch, delete, and one spare.
const REQUESTS_PER_ACQUISITION: f64 = 5.0;
/// Default estimate of a handoff.
pub(super) const HANDOFF: Duration = Duration::from_millis(3);
/// Seconds for each contender of a batch to join the queue.
const ENQUEUE_S: f64 = 0.005;
/// Longer than any plan, in seconds, but small enough that sums cannot overflow.
const FOREVER_S: f64 = 1e12;

impl TrialSpec {
    /// Returns the estimated duration of the whole trial, from connecting to the end of the drain; see [`BASIS`].
    pub fn estimated_duration(&self) -> Duration {
        time(self.seconds())
    }

    /// Returns the approximate peak memory of this process during the trial, in bytes.
    pub fn estimated_memory(&self) -> u64 {
        let (locks, contenders) = (self.locks as u128, self.contenders as u128);
        // Each contender lists all contenders of its lock.
        let names = contenders * contenders.div_ceil(locks.max(1));
        let acquisitions = self.estimated_acquisitions() as u128;
        let (used, objects) = match self.load {
            Load::Open(_) => (locks.min(acquisitions), acquisitions.min(locks * contenders)),
            // Each contender uses a single lock for the whole trial.
            Load::Closed | Load::Batch => (locks.min(contenders), 0),
        };
        let [of_lock, of_contender] = REMEMBERED_AT_MOST;
        let remembered = (of_contender * contenders + of_lock) * used;
        let bytes = MEMORY_BYTES
            + CONTENDER_BYTES * contenders
            + NAME_BYTES * names
            + LOCK_BYTES * locks
            + USED_LOCK_BYTES * used
            + remembered.min(REMEMBERED_BYTES * acquisitions)
            + OBJECT_BYTES * objects
            + ARRIVAL_BYTES * self.drawn() as u128
            + REPLAYED_BYTES * self.replayed() as u128
            + SECOND_BYTES * self.measured() as u128;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the peak disk space in bytes that a trial takes until it is judged, excluding a history; see
    /// [`DISK_BASIS`].
    fn estimated_disk(&self) -> u64 {
        (DISK_BYTES * self.estimated_acquisitions()) as u64
    }

    pub fn estimated_acquisitions(&self) -> f64 {
        match self.stop {
            Stop::Acquisitions(each) => each as f64 * self.contenders as f64,
            Stop::After(duration) => {
                let holders = self.locks.saturating_mul(self.holders()).min(self.contenders);
                let by_lock = duration.as_secs_f64() / self.cycle() * holders as f64;
                let by_contender = duration.as_secs_f64() / self.own_cycle() * self.contenders as f64;
                let arrives = Offered::of(self).map_or(f64::INFINITY, |offered| offered.arrivals);
                by_lock.min(by_contender).min(arrives)
            }
        }
    }

    /// Returns the estimated requests per second in the measured phase; a lower bound for a closed load.
    pub fn estimated_requests_per_s(&self) -> f64 {
        let lasts = self.measured().max(1e-3);
        let polling = self.strategy.poll_interval().map_or(0.0, |every| {
            let waiting = self.contenders.saturating_sub(self.locks) as f64;
            waiting / every.as_secs_f64().max(1e-3)
        });
        REQUESTS_PER_ACQUISITION * self.estimated_acquisitions() / lasts + polling
    }

    /// Returns the number of arrivals drawn for the longest warm-up and the measured phase.
    fn drawn(&self) -> u64 {
        match (&self.load, self.stop) {
            (Load::Open(open), Stop::After(measured)) => {
                let warm_up = open.arrivals.first_rate() * self.warm_up_at_most.as_secs_f64();
                (warm_up + open.arrivals.mean_rate(measured) * measured.as_secs_f64()) as u64
            }
            _ => 0,
        }
    }

    /// Returns the number of replayed arrivals kept in memory.
    fn replayed(&self) -> u64 {
        match self.load.open().map(|open| &open.arrivals) {
            Some(Arrivals::Replay(replay)) => replay.count as u64,
            _ => 0,
        }
    }

    /// Returns the estimated wait of the last contender in a lock's queue or, in an open load, the mean wait.
    /// For an overloaded open load, returns the wait of the last arrival.
    pub fn estimated_wait(&self) -> Duration {
        if let Some(offered) = Offered::of(self) {
            let busy = self.service_utilisation(&offered);
            let between = self.cycle() / self.holders() as f64;
            let waits = if busy < 1.0 { between * busy / (1.0 - busy) } else { self.backlog(busy) };
            return time(waits);
        }
        time(self.busiest().max(1.0) * self.cycle() - self.mean_hold().as_secs_f64())
    }

    fn seconds(&self) -> f64 {
        let around = 2.0 * PHASE_S
            + self.contenders as f64 * (CONNECT_S + DRAIN_S)
            + self.locks as f64 * (CREATE_S + REMOVE_S);
        let left = Offered::of(self).map_or(0.0, |offered| {
            // Dropped arrivals do not wait for a session.
            let keeps = self.load.open().is_some_and(|open| open.late == Late::Keep);
            let pool = if keeps { offered.busy_sessions(HANDOFF) / self.contenders as f64 } else { 0.0 };
            self.backlog(self.service_utilisation(&offered).max(pool))
        });
        around + self.ramp_up.as_secs_f64() + self.warm_up.as_secs_f64() + self.measured() + left
    }

    /// Returns the utilisation of an open load's most popular lock, including handoffs; above 1 if arrivals
    /// exceed the lock's capacity.
    fn service_utilisation(&self, offered: &Offered) -> f64 {
        offered.rate * offered.hottest * (offered.hold + HANDOFF).as_secs_f64() / self.holders() as f64
    }

    /// Returns the seconds needed to serve the arrivals that are still waiting at the end of the measured phase.
    fn backlog(&self, busy: f64) -> f64 {
        if self.only_tries() {
            return 0.0;
        }
        let most = self.load.open().map_or(0.0, |open| match open.late {
            Late::Keep => open.backlog_at_most.as_secs_f64(),
            // Only arrivals with a contender wait.
            Late::Drop => {
                let queue = self.contenders as f64 / self.holders() as f64;
                open.backlog_at_most.as_secs_f64().min(queue * self.cycle())
            }
        });
        ((busy - 1.0) * self.measured()).clamp(0.0, most)
    }

    /// Returns the length of the measured phase in seconds; estimated if acquisitions end it.
    pub(super) fn measured(&self) -> f64 {
        let queueing = if self.load == Load::Batch { self.contenders as f64 * ENQUEUE_S } else { 0.0 };
        match self.stop {
            Stop::After(duration) => duration.as_secs_f64(),
            Stop::Acquisitions(each) => {
                queueing + each as f64 * (self.busiest() * self.cycle()).max(self.own_cycle())
            }
        }
    }

    /// Returns the maximum number of simultaneous holders of a lock: for a semaphore, its leases divided by the
    /// permits of an acquire; otherwise one.
    pub(super) fn holders(&self) -> usize {
        // Drivers and mixed strategies prefix these names: `max_leases`, `curator-semaphore.leases`.
        let counts = |name: &'static str| {
            self.strategy.params.iter().filter_map(move |(param, value)| match value {
                ParamValue::Count(count) if param.ends_with(name) => usize::try_from(*count).ok(),
                _ => None,
            })
        };
        let (leases, permits) = (counts("leases").min().unwrap_or(1), counts("permits").max().unwrap_or(1));
        (leases / permits.max(1)).max(1)
    }

    /// Returns the number of rounds in which all contenders of the busiest lock acquire once.
    fn busiest(&self) -> f64 {
        self.contenders.div_ceil(self.locks.max(1).saturating_mul(self.holders())) as f64
    }

    /// Returns the seconds between acquisitions of a busy lock.
    fn cycle(&self) -> f64 {
        let looking = self.strategy.poll_interval().unwrap_or_default().as_secs_f64();
        // A lone poller sleeps for a whole interval before its first poll. In a queue, the next poll is half
        // an interval away on average.
        let looking = if self.busiest() > 1.0 { looking / 2.0 } else { looking };
        self.mean_hold().as_secs_f64() + HANDOFF.as_secs_f64() + looking
    }

    /// Returns the seconds between a lone contender's acquisitions.
    fn own_cycle(&self) -> f64 {
        self.cycle() + self.mean_think().as_secs_f64()
    }
}

impl TrialPlan {
    pub fn estimated_requests_per_s(&self) -> f64 {
        self.trials.iter().map(TrialSpec::estimated_requests_per_s).fold(0.0, f64::max)
    }

    /// Describes the rate of requests to the ensemble.
    pub fn requests_in_words(&self) -> String {
        let (rate, is_open) = (self.estimated_requests_per_s(), self.scenario.load.open().is_some());
        // Without holds and pauses, the rate of a closed load depends on the ensemble.
        let or_more = if is_open { "" } else { " or more" };
        format!("about {rate:.0} requests/s{or_more}")
    }

    pub fn estimated_memory(&self) -> u64 {
        self.trials.iter().map(TrialSpec::estimated_memory).max().unwrap_or(0)
    }

    pub fn estimated_disk(&self) -> u64 {
        self.trials.iter().map(TrialSpec::estimated_disk).max().unwrap_or(0)
    }

    pub fn estimated_duration(&self) -> Duration {
        let start = match self.scenario.ensemble {
            EnsembleChoice::Local { .. } | EnsembleChoice::Compose(_) => ENSEMBLE_START_S,
            EnsembleChoice::Connect(_) => 0.0,
        };
        time(start + self.trials.iter().map(TrialSpec::seconds).sum::<f64>())
    }
}

impl StrategyChoice {
    pub(super) fn poll_interval(&self) -> Option<Duration> {
        match self.params.get(POLL_INTERVAL_PARAM) {
            Some(ParamValue::Duration(interval)) => Some(*interval),
            _ => None,
        }
    }
}

fn time(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds.clamp(0.0, FOREVER_S))
}

/// Arrivals in the measured phase of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Offered {
    /// Mean arrivals per second.
    pub(super) rate: f64,
    /// Peak arrivals per second.
    pub(super) peak_rate: f64,
    pub(super) arrivals: f64,
    pub(super) hold: Duration,
    /// Share of all arrivals that request the most popular lock.
    pub(super) hottest: f64,
}

impl Offered {
    /// Returns the arrivals of an open load; `None` for other loads.
    pub(super) fn of(trial: &TrialSpec) -> Option<Self> {
        let (open, Stop::After(measured)) = (trial.load.open()?, trial.stop) else { return None };
        let rate = open.arrivals.mean_rate(measured);
        let (hold, hottest) = match &open.arrivals {
            Arrivals::Replay(replay) => of_replay(replay, open, trial, measured),
            _ => (trial.mean_hold(), open.popularity.hottest(trial.locks)),
        };
        let arrivals = rate * measured.as_secs_f64();
        // Each fresh lock is used once.
        let hottest = if trial.fresh_locks { hottest.min(1.0 / arrivals) } else { hottest };
        Some(Self { rate, peak_rate: open.arrivals.peak_rate(measured), arrivals, hold, hottest })
    }

    /// Returns the share of the time that the most popular lock is held, excluding handoffs. At 1 or more,
    /// the lock is overloaded.
    pub(super) fn utilisation(&self) -> f64 {
        self.rate * self.hottest * self.hold.as_secs_f64()
    }

    /// Returns the utilisation at the peak rate.
    pub(super) fn peak_utilisation(&self) -> f64 {
        self.peak_rate * self.hottest * self.hold.as_secs_f64()
    }

    /// Returns a lower bound on the mean number of busy sessions (Little's law). Each session is busy for its
    /// hold plus `longer`.
    pub(super) fn busy_sessions(&self, longer: Duration) -> f64 {
        self.rate * (self.hold + longer).as_secs_f64()
    }
}

impl TrialSpec {
    /// Returns the most popular lock's share of all acquisitions. In a closed load, all locks have equal shares.
    pub fn hottest_share(&self) -> f64 {
        Offered::of(self).map_or(1.0 / self.locks.max(1) as f64, |offered| offered.hottest)
    }
}

/// Returns the mean hold of the arrivals replayed within this time, and the most popular lock's share of
/// these arrivals.
fn of_replay(replay: &Replay, open: &Open, trial: &TrialSpec, measured: Duration) -> (Duration, f64) {
    let end = micros(measured);
    let within = || replay.trace.iter().take_while(|arrival| arrival.at_us < end);
    let count = within().count();
    if count == 0 {
        return (trial.mean_hold(), open.popularity.hottest(trial.locks));
    }
    let drawn = trial.mean_hold().as_secs_f64();
    let held: f64 = within().map(|arrival| arrival.hold.map_or(drawn, |hold| hold.as_secs_f64())).sum();
    let mut asks = vec![0_usize; replay.locks()];
    let mut unnamed = 0_usize;
    for arrival in within() {
        match arrival.lock.and_then(|lock| asks.get_mut(lock)) {
            Some(count) => *count += 1,
            None => unnamed += 1,
        }
    }
    let most = asks.iter().max().copied().unwrap_or(0) as f64;
    let hottest = (most + unnamed as f64 * open.popularity.hottest(trial.locks)) / count as f64;
    (Duration::try_from_secs_f64(held / count as f64).unwrap_or(Duration::MAX), hottest)
}
