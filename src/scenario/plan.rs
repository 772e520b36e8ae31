//! From a scenario to the list of trials in the order in which they run.

use rand::RngCore;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::model::{Order, Scenario, Stop, StrategyChoice, TrialSpec};
use crate::catalog::fault::{FaultChoice, Start};
use crate::catalog::{ParamValue, Params};

/// A scenario, expanded.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What was expanded.
    pub scenario: Scenario,
    /// The trials in the order of running.
    pub trials: Vec<TrialSpec>,
}

impl Plan {
    /// Expands strategies × contenders × repetitions.
    ///
    /// Every repetition holds every combination once, so a drift of the machine meets all strategies alike;
    /// within a repetition the order is shuffled by the seed unless the scenario wants it as written. The same
    /// scenario gives the same plan on every platform.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let mut trials = Vec::new();
        for repetition in 1..=scenario.repetitions {
            let mut round = one_of_each(scenario, repetition);
            if scenario.order == Order::Shuffled {
                round.shuffle(&mut stream(scenario.seed, Purpose::Order, u64::from(repetition)));
            }
            trials.append(&mut round);
        }
        for (index, trial) in trials.iter_mut().enumerate() {
            trial.index = index;
        }
        Self { scenario: scenario.clone(), trials }
    }
}

/// Every combination once, as written.
fn one_of_each(scenario: &Scenario, repetition: u32) -> Vec<TrialSpec> {
    let mut round = Vec::new();
    for strategy in &scenario.strategies {
        for contenders in &scenario.contenders {
            round.push(trial(scenario, strategy, *contenders, repetition));
        }
    }
    // Counted as written, not as shuffled: another order leaves each trial its seed.
    let first = u64::from(repetition).saturating_mul(round.len() as u64);
    for (position, trial) in (0..).zip(&mut round) {
        trial.seed = stream(scenario.seed, Purpose::Trial, first.saturating_add(position)).next_u64();
    }
    round
}

fn trial(scenario: &Scenario, strategy: &StrategyChoice, contenders: usize, repetition: u32) -> TrialSpec {
    let scale = scenario.time_scale;
    let stop = match scenario.stop {
        Stop::After(duration) => Stop::After(duration.mul_f64(scale)),
        Stop::Acquisitions(each) => Stop::Acquisitions(each),
    };
    TrialSpec {
        index: 0,
        strategy: scaled(strategy, scale),
        contenders,
        repetition,
        locks: scenario.locks,
        hold: scenario.hold.scaled(scale),
        think: scenario.think.scaled(scale),
        read_ratio: scenario.read_ratio,
        depth: scenario.depth,
        load: scenario.load,
        stop,
        ramp_up: scenario.ramp_up.mul_f64(scale),
        warm_up: scenario.warm_up.mul_f64(scale),
        session_timeout: scenario.session_timeout,
        acquire_timeout: scenario.acquire_timeout,
        in_doubt: scenario.in_doubt,
        faults: scenario.faults.iter().map(|fault| scaled_fault(fault, scale)).collect(),
        seed: 0,
    }
}

/// Its durations scaled; the label stays as written, because it names the strategy in every output.
fn scaled(strategy: &StrategyChoice, scale: f64) -> StrategyChoice {
    let mut strategy = strategy.clone();
    scale_params(&mut strategy.params, scale);
    strategy
}

fn scale_params(params: &mut Params, scale: f64) {
    for value in params.values_mut() {
        if let ParamValue::Duration(time) = value {
            *time = time.mul_f64(scale);
        }
    }
}

/// All its times scaled; the label stays as written here, too.
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

/// What random numbers are for; each purpose has its own key, so that none disturbs another.
#[derive(Clone, Copy)]
enum Purpose {
    Order = 1,
    Trial = 2,
}

fn stream(seed: u64, purpose: Purpose, number: u64) -> ChaCha8Rng {
    let mut key = [0; 32];
    key[..8].copy_from_slice(&seed.to_le_bytes());
    key[8] = purpose as u8;
    let mut rng = ChaCha8Rng::from_seed(key);
    rng.set_stream(number);
    rng
}
