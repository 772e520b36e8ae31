//! What the rounds of `torture` are: a lock with its parameters, a load, and what goes wrong meanwhile. All of it is drawn
//! from the seed, and everything is drawn once before anything is drawn again.

use std::fmt::Write as _;

use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::cli::drivers::{self, unfit};
use crate::cli::shared_args::SEEDS;

use zklockbench_core::catalog::fault::{Ends, FaultCard, Targets};
use zklockbench_core::catalog::{BatchCost, Holders, LockCard, Param, ParamKind, ParamValue, Params};
use zklockbench_ensemble::fault;
use zklockbench_scenario::default_value;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    pub what: String,
    pub why: String,
}

impl LeftOut {
    fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// Values of parameters that are not drawn: lock, parameter, value, why.
const NO_VALUES: [(&str, &str, &str, &str); 2] = [
    ("kazoo", "blocking", "false", "contenders that never wait do not show whether they are kept out"),
    ("curator-multi", "order", "rotated", "contenders deadlock, as its description says"),
];
const TIMEOUT: &str = "acquire_timeout";
/// Locks that are not given a deadline, and why.
const NO_TIMEOUT: [(&str, &str); 1] = [(
    "apache-write-lock",
    "who gives up after an unanswered create leaves its node, as its description says",
)];
/// What a scenario can say beside locks and faults and is not drawn.
const NO_KEYS: [(&str, &str); 4] = [
    ("arrivals = { replay = … }", "it needs a file"),
    ("in_doubt = \"keep-session\"", "nodes that nobody owns then block the queue, as they should"),
    ("acquisitions", "a round has to last long enough for its faults"),
    ("servers = 5", "a server alone or three show the same, and start sooner"),
];

/// Faults that are not drawn, and why.
const NO_FAULTS: [(&str, &str); 1] =
    [(fault::COUNTER_NEAR_END, "no lock goes on once its counter is used up")];

/// Every kind of fault that can be done, with why the others cannot.
pub struct Faults {
    pub cards: Vec<FaultCard>,
    pub left_out: Vec<LeftOut>,
}

impl Faults {
    pub fn without(mut cards: Vec<FaultCard>, why_not: impl Fn(&FaultCard) -> Option<String>) -> Self {
        let never = |card: &FaultCard| {
            NO_FAULTS.iter().find(|(name, _)| *name == card.name).map(|(_, why)| (*why).to_owned())
        };
        let why_not = |card: &FaultCard| never(card).or_else(|| why_not(card));
        let why = |card: &FaultCard| Some(LeftOut::new(card.name, why_not(card)?));
        let left_out = cards.iter().filter_map(why).collect();
        cards.retain(|card| why_not(card).is_none());
        Self { cards, left_out }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// From 1.
    pub number: u64,
    pub text: String,
}

/// Gives each of its things once before it gives any of them again.
struct Bag<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Copy> Bag<T> {
    fn of(all: Vec<T>) -> Self {
        Self { all, left: Vec::new() }
    }

    fn next(&mut self, draw: &mut ChaCha8Rng) -> Option<T> {
        if self.left.is_empty() {
            self.left.clone_from(&self.all);
            self.left.shuffle(draw);
        }
        self.left.pop()
    }

    fn take(&mut self, count: usize, draw: &mut ChaCha8Rng) -> Vec<T> {
        (0..count).filter_map(|_| self.next(draw)).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DrawnLoad {
    Closed,
    Open,
    Batch,
}

/// How often each load comes. Nothing is broken in a batch, whose counts are exact.
const LOADS: [DrawnLoad; 5] =
    [DrawnLoad::Closed, DrawnLoad::Open, DrawnLoad::Closed, DrawnLoad::Open, DrawnLoad::Batch];
/// How many kinds of faults of servers a round has: one after the other, for several at a time often leave no quorum.
const OF_SERVERS: usize = 2;
const OF_CONTENDERS: usize = 4;
/// From one fault of servers to the next, in milliseconds: most have been undone by then.
const APART_MS: u64 = 8_000;
/// What restarting one server after the other takes beside that.
const ROLLING_MS: u64 = 7_000;

pub struct Rounds {
    seed: u64,
    draw: ChaCha8Rng,
    drawn: u64,
    locks: Bag<LockCard>,
    loads: Bag<DrawnLoad>,
    of_servers: Bag<FaultCard>,
    of_contenders: Bag<FaultCard>,
    pub left_out: Vec<LeftOut>,
}

impl Rounds {
    /// Rounds of these locks, as far as they promise something, and of these faults.
    pub fn new(seed: u64, locks: Vec<LockCard>, faults: Faults) -> Self {
        let (judged, others): (Vec<_>, Vec<_>) =
            locks.into_iter().partition(|card| card.guarantees.exclusive);
        let (of_servers, of_contenders) =
            faults.cards.into_iter().partition(|card| card.needs.reaches_servers());
        let no_promise = |card: &LockCard| LeftOut::new(card.name, "it does not promise to exclude");
        let values =
            NO_VALUES.map(|(lock, param, value, why)| LeftOut::new(format!("{lock} {param}={value}"), why));
        let timeouts = NO_TIMEOUT.map(|(lock, why)| LeftOut::new(format!("{TIMEOUT} with {lock}"), why));
        let keys = NO_KEYS.map(|(key, why)| LeftOut::new(key, why));
        let left_out = others.iter().map(no_promise).chain(faults.left_out);
        let left_out = left_out.chain(values).chain(timeouts).chain(keys).collect();
        Self {
            seed,
            draw: ChaCha8Rng::seed_from_u64(seed),
            drawn: 0,
            locks: Bag::of(judged),
            loads: Bag::of(LOADS.to_vec()),
            of_servers: Bag::of(of_servers),
            of_contenders: Bag::of(of_contenders),
            left_out,
        }
    }
}

impl Iterator for Rounds {
    type Item = Round;

    fn next(&mut self) -> Option<Round> {
        self.drawn += 1;
        let draw = &mut self.draw;
        let (mut lock, load) = (self.locks.next(draw)?, self.loads.next(draw)?);
        let (mut of_servers, mut of_contenders) = match load {
            DrawnLoad::Batch => (Vec::new(), Vec::new()),
            DrawnLoad::Closed | DrawnLoad::Open => {
                (self.of_servers.take(OF_SERVERS, draw), self.of_contenders.take(OF_CONTENDERS, draw))
            }
        };
        if !may_time_out(&lock) && of_contenders.iter().any(needs_timeout) {
            lock = self.locks.next(draw)?;
        }
        // Of drivers' locks, whatever is not for the one that was drawn is left out of this round.
        let fits = |card: &FaultCard| {
            let is_unfit =
                zklockbench_locks::driven(lock.name).is_some_and(|driven| unfit(driven, card).is_some());
            !is_unfit && (may_time_out(&lock) || !needs_timeout(card))
        };
        of_servers.retain(fits);
        of_contenders.retain(fits);
        let sketch = Sketch::of(lock, load, of_servers, of_contenders, draw);
        Some(Round { number: self.drawn, text: sketch.text(self.seed, self.drawn, draw) })
    }
}

struct Sketch {
    lock: LockCard,
    load: DrawnLoad,
    contenders: u64,
    params: Params,
    of_servers: Vec<FaultCard>,
    of_contenders: Vec<FaultCard>,
    lasts_ms: u64,
}

impl Sketch {
    fn of(
        lock: LockCard,
        load: DrawnLoad,
        of_servers: Vec<FaultCard>,
        of_contenders: Vec<FaultCard>,
        draw: &mut ChaCha8Rng,
    ) -> Self {
        let contenders = draw.random_range(4..=16);
        let params = params(&lock, contenders, load, draw);
        let rolling = of_servers.iter().filter(|card| is_rolling(card)).count() as u64;
        let lasts_ms = 8_000 + APART_MS * of_servers.len() as u64 + ROLLING_MS * rolling;
        Self { lock, load, contenders, params, of_servers, of_contenders, lasts_ms }
    }

    fn text(&self, seed: u64, number: u64, draw: &mut ChaCha8Rng) -> String {
        let Self { lock, contenders, lasts_ms, .. } = self;
        let mut text = format!(
            "# Round {number} of `zklockbench torture --seed {seed}`\nname = \"torture\"\ndescription = \"Round {number}, \
             drawn by seed {seed}\"\nstrategies = [{}]\ncontenders = {contenders}\nrepetitions = 1\nseed = {}\n\
             session_timeout = \"{}s\"\n",
            strategy(lock, &self.params),
            draw.random_range(0..=SEEDS),
            draw.random_range(2..=6),
        );
        match self.load {
            DrawnLoad::Batch => {
                let hold = draw.random_range(2..=20);
                let _ = writeln!(text, "load = \"batch\"\nhold = \"{hold}ms\"");
            }
            DrawnLoad::Closed => {
                let (hold_ms, hold) = time(1..=20, draw);
                let think = if draw.random_bool(0.5) { time(1..=20, draw).1 } else { "\"0ms\"".to_owned() };
                let _ = writeln!(text, "hold = {hold}\nthink = {think}");
                self.locks(&mut text, contenders / 3, draw);
                self.common(&mut text, hold_ms, draw);
            }
            DrawnLoad::Open => {
                let (hold_ms, hold) = time(5..=30, draw);
                let locks = self.locks(&mut text, 4, draw);
                let late = ["keep", "drop"].choose(draw).copied().unwrap_or_default();
                let _ = writeln!(
                    text,
                    "load = \"open\"\nhold = {hold}\nlate = \"{late}\"\nbacklog_at_most = \"5s\"\n{}",
                    arrivals(locks as f64 * 1e3 / (hold_ms as f64 + 15.0), *lasts_ms, draw)
                );
                if locks > 1 && draw.random_bool(0.5) {
                    let _ = writeln!(text, "popularity = {{ zipf = {:.1} }}", draw.random_range(0.3..1.5));
                }
                self.common(&mut text, hold_ms, draw);
            }
        }
        // Nothing in a batch asks for a quorum.
        let _ =
            writeln!(text, "\n[ensemble]\nservers = {}", if self.load == DrawnLoad::Batch { 1 } else { 3 });
        self.faults(&mut text, draw);
        text
    }

    fn locks(&self, text: &mut String, most: u64, draw: &mut ChaCha8Rng) -> u64 {
        let locks = if draw.random_bool(0.3) { draw.random_range(1..=most.max(1)) } else { 1 };
        let _ = writeln!(text, "locks = {locks}");
        locks
    }

    fn common(&self, text: &mut String, hold_ms: u64, draw: &mut ChaCha8Rng) {
        let _ = writeln!(text, "duration = \"{}ms\"\nwarm_up = \"500ms\"", self.lasts_ms);
        if self.lock.guarantees.has_read_side() {
            let _ = writeln!(text, "read_ratio = {:.1}", draw.random_range(0.2..0.8));
        }
        if self.lock.guarantees.reentrant && draw.random_bool(0.3) {
            let _ = writeln!(text, "depth = {}", draw.random_range(2..=3));
        }
        let asked_for = self.of_contenders.iter().any(needs_timeout);
        // Who waits with some of its leases in hand may do so for ever.
        let may_block = matches!(self.params.get("permits"), Some(ParamValue::Count(2..)));
        if asked_for || may_block || draw.random_bool(0.4) && may_time_out(&self.lock) {
            let turns = draw.random_range(2..=4 * self.contenders);
            let _ = writeln!(text, "acquire_timeout = \"{}ms\"", 300 + turns * (hold_ms + 10));
        }
    }

    fn faults(&self, text: &mut String, draw: &mut ChaCha8Rng) {
        let mut at = 1_000;
        for card in &self.of_servers {
            let (at_ms, lasts_ms) = (at + draw.random_range(0..=1_500), draw.random_range(1_000..=4_000));
            let once = Firing { at_ms, lasts_ms, jitter_ms: 0, times: 1, every_ms: 0 };
            self.fault(text, card, once, draw);
            at += APART_MS + if is_rolling(card) { ROLLING_MS } else { 0 };
        }
        for card in &self.of_contenders {
            let times = draw.random_range(1..=3);
            // What waits for a request needs a sender.
            let within =
                if card.params.iter().any(is_request) { self.lasts_ms / 2 } else { self.lasts_ms - 2_000 };
            let every_ms = (within - 500) / u64::from(times);
            let lasts_ms = draw.random_range(300..=every_ms.min(4_000) * 2 / 3);
            let rest = every_ms - lasts_ms - 1;
            let jitter_ms = draw.random_range(0..=rest / 2);
            let at_ms = 500 + draw.random_range(0..=rest - jitter_ms);
            self.fault(text, card, Firing { at_ms, lasts_ms, jitter_ms, times, every_ms }, draw);
        }
    }

    fn fault(&self, text: &mut String, card: &FaultCard, firing: Firing, draw: &mut ChaCha8Rng) {
        let Firing { at_ms, lasts_ms, jitter_ms, times, every_ms } = firing;
        let _ = write!(text, "\n[[fault]]\nkind = \"{}\"\nat = \"{at_ms}ms\"\n", card.name);
        if let Some(word) = card.words().choose(draw).filter(|_| card.targets != Targets::Fixed) {
            let _ = writeln!(text, "target = \"{word}\"");
        }
        if card.ends == Ends::Healed {
            let _ = writeln!(text, "duration = \"{lasts_ms}ms\"");
        }
        if jitter_ms > 0 {
            let _ = writeln!(text, "jitter = \"{jitter_ms}ms\"");
        }
        if times > 1 {
            let _ = writeln!(text, "times = {times}\nevery = \"{every_ms}ms\"");
        }
        for param in card.params {
            let value = if is_request(param) { self.request(param, draw) } else { value(param, draw) };
            if let Some(value) = value {
                let _ = writeln!(text, "{} = {}", param.name, written(&value));
            }
        }
    }

    /// Which request is to be lost: one that this lock sends, and that succeeds, as its cost model says. Of a lock without
    /// one it is known only that it joins and releases.
    fn request(&self, param: &Param, draw: &mut ChaCha8Rng) -> Option<ParamValue> {
        let cost = self.lock.batch_cost.map(|cost| cost(&self.params_in_force(), self.contenders));
        let sends = |cost: &BatchCost, word: &str| {
            fault::requests(word).iter().any(|kind| cost.succeeding(*kind) > 0)
        };
        let words = param.kind.words();
        let is_sent = |word: &&&str| {
            cost.as_ref().map_or(matches!(**word, "join" | "release"), |cost| sends(cost, word))
        };
        let word = words.iter().filter(is_sent).copied().collect::<Vec<_>>().choose(draw).copied()?;
        Some(ParamValue::Word(word.to_owned()))
    }

    fn params_in_force(&self) -> Params {
        let defaults = self.lock.params.iter().filter_map(|p| Some((p.name.to_owned(), default_value(p)?)));
        defaults.chain(self.params.clone()).collect()
    }
}

#[derive(Clone, Copy)]
struct Firing {
    at_ms: u64,
    lasts_ms: u64,
    jitter_ms: u64,
    times: u32,
    every_ms: u64,
}

fn may_time_out(lock: &LockCard) -> bool {
    let by_itself = !NO_TIMEOUT.iter().any(|(name, _)| *name == lock.name);
    by_itself && zklockbench_locks::driven(lock.name).is_none_or(drivers::may_time_out)
}

fn needs_timeout(card: &FaultCard) -> bool {
    card.needs_key == Some(TIMEOUT)
}

/// One that takes the longer the more servers there are.
fn is_rolling(card: &FaultCard) -> bool {
    card.needs.reaches_servers() && card.ends == Ends::ByItself
}

fn is_request(param: &Param) -> bool {
    param.name == fault::REQUEST.name
}

/// Half of a lock's parameters, as far as they mean something beside each other.
fn params(lock: &LockCard, contenders: u64, load: DrawnLoad, draw: &mut ChaCha8Rng) -> Params {
    let mut params = Params::new();
    for param in lock.params {
        let means_nothing = lock.idle(param.name, &params).is_some();
        // The last of a batch may wait with some of its leases in hand.
        let blocks_batch = (load == DrawnLoad::Batch || !may_time_out(lock))
            && matches!(param.kind, ParamKind::CountWithin(..));
        if means_nothing || blocks_batch || draw.random_bool(0.5) {
            continue;
        }
        let drawn = match (lock.guarantees.holders, param.kind) {
            // At least one contender has to be kept out.
            (Holders::Leases(leases), ParamKind::Count(least, _)) if leases == param.name => {
                Some(ParamValue::Count(draw.random_range(least..=contenders / 2)))
            }
            (_, ParamKind::CountWithin(least, _, whole)) => match params.get(whole) {
                Some(ParamValue::Count(most)) => Some(ParamValue::Count(draw.random_range(least..=*most))),
                _ => None,
            },
            _ => value(param, draw),
        };
        let is_left_out = |value: &ParamValue| {
            NO_VALUES.iter().any(|(of, name, word, _)| {
                (*of, *name) == (lock.name, param.name) && *word == value.to_string()
            })
        };
        if let Some(value) = drawn.filter(|value| !is_left_out(value)) {
            params.insert(param.name.to_owned(), value);
        }
    }
    params
}

fn value(param: &Param, draw: &mut ChaCha8Rng) -> Option<ParamValue> {
    Some(match (param.kind, default_value(param)?) {
        (ParamKind::Bool, _) => ParamValue::Bool(draw.random()),
        (ParamKind::OneOf(_) | ParamKind::Choice(_), _) => {
            ParamValue::Word((*param.kind.words().choose(draw)?).to_owned())
        }
        (_, ParamValue::Duration(usual)) => {
            let usual_ms = u64::try_from(usual.as_millis()).ok()?.max(20);
            ParamValue::Duration(std::time::Duration::from_millis(
                draw.random_range(usual_ms / 10..=usual_ms),
            ))
        }
        (ParamKind::Count(least, most), ParamValue::Count(usual)) => {
            ParamValue::Count(draw.random_range(least.max(usual / 2)..=most.min(usual.max(2) * 2)))
        }
        _ => return None,
    })
}

fn written(value: &ParamValue) -> String {
    match value {
        ParamValue::Duration(time) => format!("\"{}ms\"", time.as_millis()),
        ParamValue::Bool(is) => is.to_string(),
        ParamValue::Word(word) => format!("\"{word}\""),
        ParamValue::Count(count) => count.to_string(),
    }
}

fn strategy(lock: &LockCard, params: &Params) -> String {
    let set: String = params.iter().map(|(name, value)| format!(", {name} = {}", written(value))).collect();
    format!("{{ name = \"{}\"{set} }}", lock.name)
}

/// A distribution of times with about that mean, and the mean, in milliseconds.
fn time(mean_ms: std::ops::RangeInclusive<u64>, draw: &mut ChaCha8Rng) -> (u64, String) {
    let mean = draw.random_range(mean_ms);
    let text = match draw.random_range(0..4) {
        0 => {
            format!("{{ uniform = {{ min = \"{}ms\", max = \"{}ms\" }} }}", mean / 2, mean + mean.div_ceil(2))
        }
        1 => format!("{{ exponential = {{ mean = \"{mean}ms\" }} }}"),
        2 => format!("{{ log-normal = {{ median = \"{mean}ms\", sigma = 0.5 }} }}"),
        _ => format!("\"{mean}ms\""),
    };
    (mean, text)
}

/// Arrivals that make waiters of some, for a lock that could serve about so many a second.
fn arrivals(capacity: f64, lasts_ms: u64, draw: &mut ChaCha8Rng) -> String {
    let rate = capacity * draw.random_range(0.4..0.9);
    let with_rate = |arrivals: &str| format!("rate = {rate:.1}\narrivals = {arrivals}");
    match draw.random_range(0..6) {
        0 => with_rate("\"constant\""),
        1 => with_rate("{ bursts = { peak = 3.0, length = \"500ms\" } }"),
        2 => with_rate(&format!("{{ day = {{ amplitude = 0.8, period = \"{}ms\" }} }}", lasts_ms / 2)),
        3 => format!("arrivals = {{ ramp = {{ from = {:.1}, to = {rate:.1} }} }}", rate / 4.0),
        4 => format!(
            "arrivals = {{ steps = [{{ rate = {:.1}, for = \"{}ms\" }}, {{ rate = {rate:.1}, for = \"{}ms\" }}] }}",
            rate / 2.0,
            lasts_ms / 2,
            lasts_ms / 2
        ),
        _ => with_rate("\"poisson\""),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    use zklockbench_scenario::{Parsed, parse};

    fn all_faults() -> Faults {
        Faults::without(fault::cards(), |_| None)
    }

    fn parsed(round: &Round) -> Parsed {
        parse("torture.toml", &round.text, &zklockbench_load::catalog())
            .unwrap_or_else(|wrong| panic!("{}\n{wrong}", round.text))
    }

    proptest! {
        #[test]
        fn whatever_the_seed_its_rounds_can_be_run_and_come_again(seed in 0..=SEEDS) {
            let rounds = || Rounds::new(seed, zklockbench_locks::cards(), all_faults()).take(10).collect::<Vec<_>>();
            rounds().iter().for_each(|round| drop(parsed(round)));
            prop_assert_eq!(rounds(), rounds());
        }

        #[test]
        fn within_six_rounds_every_kind_of_fault_has_been_drawn(seed in 0..=SEEDS) {
            let rounds = Rounds::new(seed, zklockbench_locks::cards(), all_faults());
            let drawn: BTreeSet<String> = rounds
                .take(6)
                .flat_map(|round| parsed(&round).scenario.faults.into_iter().map(|fault| fault.kind))
                .collect();
            let all: BTreeSet<String> = all_faults().cards.iter().map(|card| card.name.to_owned()).collect();
            prop_assert_eq!(drawn, all);
        }
    }

    #[test]
    fn every_lock_that_promises_something_is_drawn_with_every_parameter_and_the_rest_is_told() {
        let rounds = Rounds::new(7, zklockbench_locks::cards(), all_faults());
        let told: BTreeSet<String> = rounds.left_out.iter().map(|left| left.what.clone()).collect();
        let mut drawn = BTreeSet::new();
        for round in rounds.take(3_000) {
            let scenario = parsed(&round).scenario;
            let strategy = &scenario.strategies[0];
            drawn.insert(strategy.name.clone());
            let is_set = |param: &&String| strategy.label.contains(&format!(" {param}="));
            let set = strategy.params.keys().filter(is_set);
            drawn.extend(set.map(|param| format!("{} {param}", strategy.name)));
        }
        for card in zklockbench_locks::cards() {
            assert!(drawn.contains(card.name) != told.contains(card.name), "{}", card.name);
            for param in card.params.iter().filter(|_| drawn.contains(card.name)) {
                let name = format!("{} {}", card.name, param.name);
                let values_told = told.iter().any(|told| told.starts_with(&format!("{name}=")));
                assert!(drawn.contains(&name) || values_told, "{name}");
            }
        }
    }

    #[test]
    fn a_fault_that_cannot_be_done_is_left_out_and_told() {
        let why_not = |card: &FaultCard| (card.name == "partition").then(|| "no namespaces".to_owned());
        let rounds = Rounds::new(1, zklockbench_locks::cards(), Faults::without(fault::cards(), why_not));
        assert!(rounds.left_out.contains(&LeftOut::new("partition", "no namespaces")));
        assert!(rounds.take(20).all(|round| !round.text.contains("partition")));
    }
}
