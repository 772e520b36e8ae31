//! Discrete-event simulation of locks and their clients.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter;

use rand::Rng;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Empirical, Pace};

/// Order in which waiters get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Fifo,
    /// Any order. A newcomer may take a free lock before the waiters notice.
    Unordered,
    /// No waiters: a client leaves if the lock is taken.
    Tries,
}

/// Time from a release call to the next holder's acquisition, with at least one waiter.
#[derive(Debug, Clone, PartialEq)]
pub struct Handoff {
    /// Distribution, scaled to a mean of 1.
    pub shape: Empirical,
    /// Mean with one waiter.
    pub first: f64,
    /// Additional mean time for each further waiter.
    pub each_more: f64,
}

impl Handoff {
    /// Creates a handoff that does not depend on the number of waiters.
    pub fn of(times: &Empirical) -> Self {
        let mean = times.mean();
        let shape = if mean > 0.0 { times.scaled(1.0 / mean) } else { Empirical::fixed(0.0) };
        Self { shape, first: mean, each_more: 0.0 }
    }

    pub fn mean(&self, waiting: f64) -> f64 {
        (self.first + self.each_more * (waiting - 1.0).max(0.0)).max(0.0)
    }

    fn draw(&self, waiting: usize, rng: &mut ChaCha8Rng) -> f64 {
        self.mean(waiting as f64) * self.shape.draw(rng)
    }
}

/// Identical locks and the durations of their operations.
#[derive(Debug, Clone, PartialEq)]
pub struct Locks {
    pub count: usize,
    pub order: Order,
    /// Time from the request for a free lock to its acquisition.
    pub uncontended: Empirical,
    /// Time from a release to the next acquisition, with at least one waiter.
    pub handoff: Handoff,
    /// Duration of a release call, during which the session is busy.
    pub release: Empirical,
    /// Time for which a lock is held beyond the intended hold.
    pub overshoot: Empirical,
    /// Delay of an arrival's request; ignored if the client joins a queue.
    pub late: Empirical,
    pub pace: Pace,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    pub at: f64,
    /// Index of the requested lock.
    pub lock: usize,
    pub hold: f64,
}

#[derive(Debug, Clone, Copy)]
pub struct Open<'a> {
    pub arrivals: &'a [Arrival],
    /// Number of sessions; further clients wait for a free session.
    pub sessions: usize,
    /// Start of the window during which waits count.
    pub from: f64,
    pub to: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AlikeClients {
    pub count: usize,
    /// Time from a client's release to its next request.
    pub think: Empirical,
    pub hold: Empirical,
}

/// Clients that request their lock again after each release, spread evenly over the locks.
#[derive(Debug, Clone, Copy)]
pub struct Closed<'a> {
    pub clients: &'a [AlikeClients],
    pub acquisitions: usize,
    /// Number of initial acquisitions that do not count.
    pub warm_up: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimulationOutcome {
    /// Counted waits, from arrival to acquisition.
    pub waits: Vec<f64>,
    pub entries: usize,
    pub lasted: f64,
    /// Total duration of the holds and handoffs that began within the window, over all locks.
    pub busy: f64,
    /// Largest number of sessions in use at the same time.
    pub sessions: usize,
    pub starved: usize,
    /// Number of tries within the window that found the lock taken.
    pub failed: usize,
}

impl SimulationOutcome {
    /// Returns a quantile of the waits, or `None` if there are no waits.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let mut waits = self.waits.clone();
        let at = ((quantile * waits.len() as f64).ceil() as usize).clamp(1, waits.len().max(1)) - 1;
        (!waits.is_empty()).then(|| *waits.select_nth_unstable_by(at, f64::total_cmp).1)
    }

    pub fn mean(&self) -> Option<f64> {
        (!self.waits.is_empty()).then(|| self.waits.iter().sum::<f64>() / self.waits.len() as f64)
    }

    /// Returns the share of tries that acquired the lock; 1 if clients queue instead.
    pub fn won_share(&self) -> f64 {
        self.entries as f64 / (self.entries + self.failed).max(1) as f64
    }

    pub fn throughput(&self) -> f64 {
        if self.lasted > 0.0 { self.entries as f64 / self.lasted } else { 0.0 }
    }

    /// Returns the share of the time that a lock was held or being handed over.
    pub fn utilisation(&self, locks: usize) -> f64 {
        if self.lasted > 0.0 { self.busy / (self.lasted * locks as f64) } else { 0.0 }
    }

    /// Returns the mean number of waiters, by Little's law.
    pub fn waiting(&self) -> f64 {
        self.throughput() * self.mean().unwrap_or(0.0)
    }
}

/// Simulates an open load until its last arrival has been served.
pub fn open(locks: &Locks, load: Open<'_>, seed: u64) -> SimulationOutcome {
    let mut world = Simulation::new(locks, load.sessions, seed);
    world.window = (load.from, load.to);
    world.clients.reserve(load.arrivals.len());
    let mut coming = load.arrivals.iter().peekable();
    loop {
        let next = world.events.peek().map_or(f64::INFINITY, |Reverse(event)| event.at);
        match coming.peek() {
            Some(arrival) if arrival.at <= next => {
                let arrival = **arrival;
                coming.next();
                world.comes(
                    Client { due: arrival.at, lock: arrival.lock % locks.count, hold: arrival.hold },
                    arrival.at,
                );
            }
            _ if !world.step() => break,
            _ => {}
        }
    }
    let all = world.clients.iter().zip(&world.waits);
    let counting = all.filter(|(client, _)| client.due >= load.from && client.due < load.to);
    let waits = counting.map(|(_, wait)| *wait).filter(|wait| !wait.is_nan()).collect();
    SimulationOutcome { waits, lasted: load.to - load.from, ..world.outcome }
}

/// Maximum number of events per client without an acquisition while the simulated time stands still.
const STANDSTILL: usize = 1_000;

/// Simulates a closed load until it has made its acquisitions. Ends early if tries that take no time repeat forever while
/// the lock is held.
pub fn closed(locks: &Locks, load: Closed<'_>, seed: u64) -> SimulationOutcome {
    let clients: Vec<&AlikeClients> =
        load.clients.iter().flat_map(|alike| iter::repeat_n(alike, alike.count)).collect();
    let mut world = Simulation::new(locks, clients.len(), seed);
    let mut thinking = BinaryHeap::new();
    for (client, alike) in clients.iter().enumerate() {
        let at = alike.think.draw(&mut world.rng);
        thinking.push(Reverse(ScheduledEvent { at, what: What::Frees(client) }));
    }
    let mut began = None;
    let mut now = 0.0;
    let (mut reached, mut repeated) = ((f64::NEG_INFINITY, 0), 0);
    while world.outcome.waits.len() < load.acquisitions {
        let coming = thinking.peek().map_or(f64::INFINITY, |Reverse(event)| event.at);
        let next = world.events.peek().map_or(f64::INFINITY, |Reverse(event)| event.at);
        now = coming.min(next);
        let here = (now, world.outcome.waits.len());
        repeated = if here == reached { repeated + 1 } else { 0 };
        if repeated > STANDSTILL * clients.len() {
            break;
        }
        reached = here;
        if began.is_none() && world.outcome.waits.len() >= load.warm_up {
            began = Some(now);
            world.window.0 = now;
            (world.outcome.entries, world.outcome.failed, world.outcome.busy) = (0, 0, 0.0);
        }
        if coming <= next {
            let Some(Reverse(event)) = thinking.pop() else { break };
            let What::Frees(who) = event.what else { break };
            let client = Client {
                due: event.at,
                lock: who % locks.count,
                hold: clients[who].hold.draw(&mut world.rng),
            };
            world.who.push(who);
            world.comes(client, event.at);
        } else {
            world.step();
            if let Some(turn) = world.freed.take() {
                let who = world.who[turn];
                let at = now + clients[who].think.draw(&mut world.rng);
                thinking.push(Reverse(ScheduledEvent { at, what: What::Frees(who) }));
            }
        }
    }
    world.outcome.lasted = now - began.unwrap_or(now);
    let mut outcome = world.outcome;
    outcome.waits.drain(..load.warm_up.min(outcome.waits.len()));
    outcome
}

#[derive(Debug, Clone, Copy)]
struct Client {
    due: f64,
    lock: usize,
    hold: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The client acquires the lock, unless the lock's number changed because another client took the lock.
    Enters {
        client: usize,
        number: u32,
    },
    Releases(usize),
    Frees(usize),
}

#[derive(Debug, Clone, Copy)]
struct ScheduledEvent {
    at: f64,
    what: What,
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.at.total_cmp(&other.at).is_eq()
    }
}

impl Eq for ScheduledEvent {}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum LockPhase {
    Idle,
    /// A client holds the lock, or is acquiring it.
    Taken,
    /// The lock was released; this waiter will acquire it at time `enters`.
    HandedTo {
        client: usize,
        enters: f64,
    },
}

struct Lock {
    state: LockPhase,
    /// Number of the last announced acquisition.
    number: u32,
    queue: VecDeque<usize>,
}

struct Simulation<'a> {
    locks: &'a Locks,
    lock: Vec<Lock>,
    events: BinaryHeap<Reverse<ScheduledEvent>>,
    clients: Vec<Client>,
    /// Client of each cycle, in a closed load.
    who: Vec<usize>,
    /// Wait of each entry in `clients`; NaN before the acquisition.
    waits: Vec<f64>,
    backlog: VecDeque<usize>,
    sessions: usize,
    in_use: usize,
    /// Cycle whose session was just freed.
    freed: Option<usize>,
    window: (f64, f64),
    rng: ChaCha8Rng,
    outcome: SimulationOutcome,
}

impl<'a> Simulation<'a> {
    fn new(locks: &'a Locks, sessions: usize, seed: u64) -> Self {
        let lock = || Lock { state: LockPhase::Idle, number: 0, queue: VecDeque::new() };
        Self {
            lock: (0..locks.count).map(|_| lock()).collect(),
            locks,
            events: BinaryHeap::new(),
            clients: Vec::new(),
            who: Vec::new(),
            waits: Vec::new(),
            backlog: VecDeque::new(),
            sessions,
            in_use: 0,
            freed: None,
            window: (0.0, f64::INFINITY),
            rng: ChaCha8Rng::seed_from_u64(seed),
            outcome: SimulationOutcome::default(),
        }
    }

    fn comes(&mut self, client: Client, now: f64) {
        let number = self.clients.len();
        self.clients.push(client);
        self.waits.push(f64::NAN);
        if self.in_use < self.sessions {
            self.in_use += 1;
            self.outcome.sessions = self.outcome.sessions.max(self.in_use);
            self.asks(number, now);
        } else {
            self.outcome.starved += 1;
            self.backlog.push_back(number);
        }
    }

    fn asks(&mut self, client: usize, now: f64) {
        let at = self.clients[client].lock;
        match self.lock[at].state {
            LockPhase::Idle => {
                let enters = self.enters_alone(now);
                self.lock[at].state = LockPhase::Taken;
                self.announce(client, at, enters);
            }
            _ if self.locks.order == Order::Tries => self.leaves(client, now),
            LockPhase::HandedTo { client: waiter, enters } if self.locks.order == Order::Unordered => {
                let enters_first = self.enters_alone(now);
                if enters_first < enters {
                    // The newcomer acquires the lock before the waiters notice that it is free.
                    self.lock[at].queue.push_back(waiter);
                    self.lock[at].state = LockPhase::Taken;
                    self.announce(client, at, enters_first);
                } else {
                    self.lock[at].queue.push_back(client);
                }
            }
            LockPhase::Taken | LockPhase::HandedTo { .. } => self.lock[at].queue.push_back(client),
        }
    }

    /// Ends a try that finds the lock taken. A failed try takes about as long as a successful one.
    fn leaves(&mut self, client: usize, now: f64) {
        self.outcome.failed += usize::from(self.counts(now));
        let at = self.enters_alone(now);
        self.events.push(Reverse(ScheduledEvent { at, what: What::Frees(client) }));
    }

    fn enters_alone(&mut self, now: f64) -> f64 {
        let alone = self.locks.uncontended.draw(&mut self.rng) * self.locks.pace.at(now);
        now + self.locks.late.draw(&mut self.rng) + alone
    }

    fn announce(&mut self, client: usize, at: usize, enters: f64) {
        let lock = &mut self.lock[at];
        lock.number += 1;
        let what = What::Enters { client, number: lock.number };
        self.events.push(Reverse(ScheduledEvent { at: enters, what }));
    }

    /// Processes the next event; returns false if there is none.
    fn step(&mut self) -> bool {
        let Some(Reverse(ScheduledEvent { at: now, what })) = self.events.pop() else { return false };
        match what {
            What::Enters { client, number } if self.lock[self.clients[client].lock].number == number => {
                self.enters(client, now);
            }
            What::Enters { .. } => {}
            What::Releases(client) => self.releases(client, now),
            What::Frees(client) => {
                self.freed = Some(client);
                let has_held = !self.waits[client].is_nan();
                if self.locks.order == Order::Tries && has_held {
                    self.lock[self.clients[client].lock].state = LockPhase::Idle;
                }
                match self.backlog.pop_front() {
                    Some(next) => self.asks(next, now),
                    None => self.in_use -= 1,
                }
            }
        }
        true
    }

    fn counts(&self, now: f64) -> bool {
        now >= self.window.0 && now < self.window.1
    }

    fn enters(&mut self, client: usize, now: f64) {
        let Client { due, lock, hold } = self.clients[client];
        self.waits[client] = now - due;
        if !self.who.is_empty() {
            self.outcome.waits.push(now - due);
        }
        self.lock[lock].state = LockPhase::Taken;
        let held = hold + self.locks.overshoot.draw(&mut self.rng) * self.locks.pace.at(now);
        if self.counts(now) {
            self.outcome.entries += 1;
            self.outcome.busy += held;
        }
        self.events.push(Reverse(ScheduledEvent { at: now + held, what: What::Releases(client) }));
    }

    fn releases(&mut self, client: usize, now: f64) {
        let free = now + self.locks.release.draw(&mut self.rng);
        self.events.push(Reverse(ScheduledEvent { at: free, what: What::Frees(client) }));
        if self.locks.order == Order::Tries {
            // The lock is free once the release has returned.
            return;
        }
        let at = self.clients[client].lock;
        let waiting = self.lock[at].queue.len();
        let next = match self.locks.order {
            Order::Fifo => self.lock[at].queue.pop_front(),
            Order::Unordered if waiting > 0 => {
                let lucky = self.rng.random_range(0..waiting);
                self.lock[at].queue.swap_remove_back(lucky)
            }
            Order::Unordered | Order::Tries => None,
        };
        let Some(next) = next else {
            self.lock[at].state = LockPhase::Idle;
            return;
        };
        let handoff = self.locks.handoff.draw(waiting, &mut self.rng) * self.locks.pace.at(now);
        if self.counts(now) {
            self.outcome.busy += handoff;
        }
        self.lock[at].state = LockPhase::HandedTo { client: next, enters: now + handoff };
        self.announce(next, at, now + handoff);
    }
}
