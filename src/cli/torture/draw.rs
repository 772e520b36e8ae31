//! Draws scenarios for `torture`. Each scenario depends only on the seed and the round's number.

use std::fmt::Write as _;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::cli::drivers;
use crate::cli::shared_args::SEEDS;

use zklockbench_core::catalog::fault::{Ends, FaultCard, Targets};
use zklockbench_core::catalog::{Holders, LockCard};
use zklockbench_core::clock::millis;
use zklockbench_core::units::parse_duration;
use zklockbench_ensemble::fault;

const TIMEOUT: &str = "acquire_timeout";
/// Lock that leaves a node when it times out after an unanswered create, as its description states.
const NO_TIMEOUT: &str = "apache-write-lock";
/// Kinds of requests that every lock sends.
const REQUESTS: [&str; 2] = ["join", "release"];

pub struct Rounds {
    seed: u64,
    locks: Vec<LockCard>,
    of_servers: Vec<FaultCard>,
    of_contenders: Vec<FaultCard>,
}

impl Rounds {
    pub fn new(seed: u64, mut locks: Vec<LockCard>, mut faults: Vec<FaultCard>) -> Self {
        let draw = &mut ChaCha8Rng::seed_from_u64(seed);
        locks.retain(|card| card.guarantees.exclusive);
        // Skip this fault, because no lock works with an exhausted counter.
        faults.retain(|card| card.name != fault::COUNTER_NEAR_END);
        locks.shuffle(draw);
        faults.shuffle(draw);
        let (of_servers, of_contenders) = faults.into_iter().partition(|card| card.needs.reaches_servers());
        Self { seed, locks, of_servers, of_contenders }
    }

    pub fn lock(&self, number: u64) -> LockCard {
        dealt(&self.locks, number, 1)[0]
    }

    /// Returns the scenario of a round; rounds are numbered from 1.
    pub fn scenario(&self, number: u64) -> String {
        let mut draw = ChaCha8Rng::seed_from_u64(self.seed);
        draw.set_stream(number);
        let lock = self.lock(number);
        let driven = zklockbench_locks::driven(lock.name);
        let may_time_out = lock.name != NO_TIMEOUT && driven.is_none_or(drivers::may_time_out);
        let fits = |card: &FaultCard| {
            driven.is_none_or(|driven| drivers::unfit(driven, card).is_none())
                && (may_time_out || card.needs_key != Some(TIMEOUT))
        };
        // Server faults are consecutive, because simultaneous faults often leave no quorum.
        let [mut of_servers, mut of_contenders] =
            [dealt(&self.of_servers, number, 2), dealt(&self.of_contenders, number, 4)];
        of_servers.retain(fits);
        of_contenders.retain(fits);
        let lasts_ms = 8_000 + of_servers.iter().map(slot_ms).sum::<u64>();
        let needs_timeout = of_contenders.iter().any(|card| card.needs_key.is_some());
        let may_time_out = needs_timeout || may_time_out && draw.random_bool(0.4);
        let mut text = format!(
            "# Round {number} of `zklockbench torture --seed {}`\nname = \"torture\"\nrepetitions = 1\nduration = \"{lasts_ms}ms\"\n\
             warm_up = \"500ms\"\n",
            self.seed
        );
        load(&mut text, &lock, may_time_out, &mut draw);
        text += "\n[ensemble]\nservers = 3\n";
        let mut from_ms = 1_000;
        for card in &of_servers {
            let (at_ms, for_ms) = (from_ms + draw.random_range(0..=1_500), draw.random_range(1_000..=4_000));
            fault(&mut text, card, at_ms, for_ms, &mut draw);
            from_ms += slot_ms(card);
        }
        for card in &of_contenders {
            let times = draw.random_range(1..=3);
            // Inject the fault early enough for a contender to send the affected request.
            let every_ms = (lasts_ms / 2 - 500) / times;
            let (at_ms, for_ms) = (
                draw.random_range(500..=500 + every_ms / 4),
                draw.random_range(300..=every_ms.min(8_000) / 2),
            );
            fault(&mut text, card, at_ms, for_ms, &mut draw);
            if times > 1 {
                let _ = writeln!(text, "times = {times}\nevery = \"{every_ms}ms\"");
            }
        }
        text
    }
}

/// Deals the cards of a round. Every card is dealt once before any card is repeated.
fn dealt<T: Copy>(cards: &[T], number: u64, count: usize) -> Vec<T> {
    let first = (number as usize - 1) * count % cards.len().max(1);
    cards.iter().copied().cycle().skip(first).take(count).collect()
}

/// Returns the time from this server fault to the next one. A rolling restart takes longer than other faults.
fn slot_ms(card: &FaultCard) -> u64 {
    if card.ends == Ends::ByItself { 15_000 } else { 8_000 }
}

fn load(text: &mut String, lock: &LockCard, may_time_out: bool, draw: &mut ChaCha8Rng) {
    let (contenders, hold_ms) = (draw.random_range(4..=16), draw.random_range(2..=30));
    let locks = if draw.random_bool(0.3) { draw.random_range(1..=contenders / 3) } else { 1 };
    // Limit the leases, so contenders must wait.
    let leases = match lock.guarantees.holders {
        Holders::Leases(param) => format!(", {param} = {}", draw.random_range(1..=contenders / 2)),
        _ => String::new(),
    };
    let hold = format!("\"{hold_ms}ms\"");
    let hold = if draw.random() { format!("{{ exponential = {{ mean = {hold} }} }}") } else { hold };
    let _ = writeln!(
        text,
        "strategies = [{{ name = \"{}\"{leases} }}]\ncontenders = {contenders}\nlocks = {locks}\nhold = {hold}\nseed = {}\n\
         session_timeout = \"{}s\"",
        lock.name,
        draw.random_range(0..=SEEDS),
        draw.random_range(2..=6),
    );
    *text += &if draw.random() {
        let rate = locks as f64 * 1e3 / (hold_ms + 15) as f64 * draw.random_range(0.4..0.9);
        format!("load = \"open\"\nrate = {rate:.1}\nbacklog_at_most = \"5s\"\n")
    } else {
        format!("think = \"{}ms\"\n", draw.random_range(0..=20))
    };
    if lock.guarantees.has_read_side() {
        let _ = writeln!(text, "read_ratio = {:.1}", draw.random_range(0.2..0.8));
    }
    if lock.guarantees.reentrant && draw.random_bool(0.3) {
        let _ = writeln!(text, "depth = {}", draw.random_range(2..=3));
    }
    if may_time_out {
        let cycles = draw.random_range(2..=4 * contenders);
        // The timeout must exceed the poll interval, or a lock that sleeps first could never be acquired.
        let _ = writeln!(text, "{TIMEOUT} = \"{}ms\"", 300 + 2 * pause_ms(lock) + cycles * (hold_ms + 10));
    }
}

/// Returns the default poll interval of a polling lock; 0 for other locks.
fn pause_ms(lock: &LockCard) -> u64 {
    let pause = lock.params.iter().find(|param| param.name == "poll_interval");
    pause.and_then(|param| parse_duration(param.default).ok()).map_or(0, millis)
}

fn fault(text: &mut String, card: &FaultCard, at_ms: u64, for_ms: u64, draw: &mut ChaCha8Rng) {
    let _ = write!(text, "\n[[fault]]\nkind = \"{}\"\nat = \"{at_ms}ms\"\n", card.name);
    if let Some(word) = card.words().choose(draw).filter(|_| card.targets != Targets::Fixed) {
        let _ = writeln!(text, "target = \"{word}\"");
    }
    if card.ends == Ends::Healed {
        let _ = writeln!(text, "duration = \"{for_ms}ms\"");
    }
    for param in card.params {
        let mut words = param.kind.words();
        words.retain(|word| param.name != fault::REQUEST.name || REQUESTS.contains(word));
        if let Some(word) = words.choose(draw) {
            let _ = writeln!(text, "{} = \"{word}\"", param.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    use zklockbench_scenario::{Scenario, parse};

    fn drawn(seed: u64, count: u64) -> Vec<Scenario> {
        let rounds = Rounds::new(seed, zklockbench_locks::cards(), fault::cards());
        let parsed = |number| {
            let text = rounds.scenario(number);
            let parsed = parse("torture.toml", &text, &zklockbench_load::catalog());
            parsed.unwrap_or_else(|wrong| panic!("{text}\n{wrong}")).scenario
        };
        (1..=count).map(parsed).collect()
    }

    proptest! {
        #[test]
        fn same_seed_draws_the_same_valid_scenarios(seed in 0..=SEEDS) {
            prop_assert_eq!(drawn(seed, 6), drawn(seed, 6));
        }
    }

    #[test]
    fn drawn_timeouts_exceed_the_poll_interval() {
        let rounds = drawn(3, 60);
        let polling = rounds.iter().filter(|round| round.strategies[0].name == "polling");
        let timeouts: Vec<_> = polling.filter_map(|round| round.acquire_timeout).collect();
        assert!(!timeouts.is_empty(), "{timeouts:?}");
        assert!(timeouts.iter().all(|timeout| timeout.as_secs() >= 2), "{timeouts:?}");
    }

    #[test]
    fn rounds_cover_every_exclusive_lock_and_every_fault() {
        let rounds = drawn(7, 40);
        let locks: BTreeSet<_> = rounds.iter().map(|round| round.strategies[0].name.as_str()).collect();
        let exclusive = zklockbench_locks::cards().into_iter().filter(|card| card.guarantees.exclusive);
        assert_eq!(locks, exclusive.map(|card| card.name).collect());
        let faults: BTreeSet<_> =
            rounds.iter().flat_map(|round| &round.faults).map(|fault| fault.kind.as_str()).collect();
        let possible = fault::cards().into_iter().map(|card| card.name);
        assert_eq!(faults, possible.filter(|name| *name != fault::COUNTER_NEAR_END).collect());
    }
}
