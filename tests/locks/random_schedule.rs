//! Every lock under a random schedule: acquires that are cancelled or time out at any moment, holds of any
//! length, and sessions that end while their contender waits or holds. Locks that guarantee exclusion must keep
//! the guarantee. To prove that the check works, it must find violations of locks without the guarantee.
//!
//! `ZKLOCKBENCH_ACQUISITIONS` sets the number of acquisitions per lock (default 250; 10,000 with
//! `scripts/test --long`). `ZKLOCKBENCH_SEED` repeats a schedule, except for the order in which requests reach
//! the servers.

use std::rc::Rc;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zklockbench_core::catalog::{Holders, Mode, ParamValue, Params};
use zklockbench_core::clock;
use zklockbench_locks::{Entry, LockConfig, Patience, STRATEGIES, Strategy};
use zklockbench_zk::{Session, runtime};

use crate::support::oracle::Oracle;
use crate::support::sessions::{Scene, patience, scene};
use crate::support::{depth, ensemble};

const CONTENDERS: usize = 5;
/// One in this many cycles is cut short because its session ends.
const SESSION_ENDS: u32 = 60;
/// One acquire in this many is cut short.
const CUT_SHORT: u32 = 8;
/// Time without an acquisition after which a contender counts as stuck.
const STUCK: Duration = Duration::from_secs(60);
const CLOSE: Duration = Duration::from_secs(5);

struct Contest {
    entry: &'static Entry,
    joins_by_count: bool,
    scene: Scene,
    oracle: Oracle,
    wanted: u64,
}

impl Contest {
    async fn prepare(entry: &'static Entry, joins_by_count: bool, wanted: u64) -> Self {
        let capacity = match entry.card.guarantees.holders {
            Holders::One | Holders::ReadersOrOneWriter => 1,
            Holders::Leases(_) => leases(entry),
        };
        let oracle = Oracle::of(capacity);
        Self { entry, joins_by_count, scene: scene(ensemble::shared()).await, oracle, wanted }
    }

    fn is_over(&self) -> bool {
        // One violation is enough for a lock without guarantees.
        let found = !self.entry.card.guarantees.exclusive && self.oracle.violations.get() > 0;
        found || self.oracle.acquired.get() >= self.wanted || self.is_stuck()
    }

    fn is_stuck(&self) -> bool {
        clock::now() - self.oracle.latest.get() > clock::micros(STUCK)
    }

    fn lock(&self, contender: usize) -> Box<dyn Strategy> {
        let mut params = Params::new();
        for param in self.entry.card.params {
            let value = match param.name {
                "poll_interval" => ParamValue::Duration(Duration::from_millis(2)),
                "tasks_per_process" | "contenders_per_process" => ParamValue::Count(2),
                "join" | "release" if self.joins_by_count => ParamValue::Word("count".into()),
                _ => continue,
            };
            params.insert(param.name.into(), value);
        }
        (self.entry.build)(&LockConfig { path: self.scene.lock.clone(), params, contender, drivers: None })
    }

    fn mode(&self, rng: &mut ChaCha8Rng) -> Mode {
        let reads = self.entry.card.guarantees.has_read_side();
        if reads && rng.random_bool(0.6) { Mode::Read } else { Mode::Write }
    }
}

fn leases(entry: &Entry) -> usize {
    let Holders::Leases(name) = entry.card.guarantees.holders else { return 1 };
    let param = entry.card.params.iter().find(|param| param.name == name);
    param.and_then(|param| param.default.parse().ok()).unwrap_or(1)
}

struct Contender {
    number: usize,
    contest: Rc<Contest>,
    rng: ChaCha8Rng,
    session: Session,
    lock: Box<dyn Strategy>,
}

impl Contender {
    async fn new(number: usize, contest: Rc<Contest>, rng: ChaCha8Rng) -> Self {
        let (session, lock) = (contest.scene.session().await, contest.lock(number));
        Self { number, contest, rng, session, lock }
    }

    async fn run(mut self) {
        while !self.contest.is_over() {
            self.cycle().await;
        }
        drop(self.lock);
        self.session.close(CLOSE).await;
    }

    async fn cycle(&mut self) {
        self.pause(4).await;
        let mode = self.contest.mode(&mut self.rng);
        let patience = self.patience();
        let ends = self.rng.random_ratio(1, SESSION_ENDS);
        if ends && self.rng.random() {
            // The session ends in the middle of an acquire.
            let moment = Duration::from_micros(self.rng.random_range(0..4_000));
            let acquire = self.lock.acquire(&self.session, mode, &patience);
            let cut = runtime::timeout(moment, acquire).await;
            if let Some(Ok(held)) = cut {
                let _ = self.lock.release(&self.session, held).await;
            }
            return self.rejoin().await;
        }
        match self.lock.acquire(&self.session, mode, &patience).await {
            Ok(held) => {
                let contest = Rc::clone(&self.contest);
                contest.oracle.enter(mode);
                self.pause(3).await;
                contest.oracle.exit(mode);
                if ends {
                    // The session ends instead of a release.
                    return self.rejoin().await;
                }
                if self.lock.release(&self.session, held).await.is_err() {
                    self.rejoin().await;
                }
            }
            Err(zklockbench_locks::AcquireError::Failed(_)) => self.rejoin().await,
            Err(_) => {}
        }
    }

    /// Usually returns a long timeout. Occasionally, the acquire times out or is cancelled. Locks that leave their
    /// node on a timeout are only cancelled, because the node would block every other contender.
    fn patience(&mut self) -> Patience {
        let long = Duration::from_secs(20);
        if !self.rng.random_ratio(1, CUT_SHORT) {
            return patience(Some(long));
        }
        let limit = Duration::from_micros(self.rng.random_range(0..8_000));
        if self.contest.entry.card.guarantees.exclusive && self.rng.random() {
            return patience(Some(limit));
        }
        let patience = patience(Some(long));
        let cancel = patience.cancel.clone();
        let cancelling = async move {
            runtime::sleep(limit).await;
            cancel.cancel();
        };
        runtime::spawn_local(cancelling).detach();
        patience
    }

    /// Pauses for a random time: often not at all, sometimes for a yield, occasionally for a few milliseconds.
    async fn pause(&mut self, longest_ms: u64) {
        match self.rng.random_range(0..10) {
            0..6 => {}
            6..9 => runtime::yield_now().await,
            _ => runtime::sleep(Duration::from_micros(self.rng.random_range(0..longest_ms * 1_000))).await,
        }
    }

    async fn rejoin(&mut self) {
        self.lock = self.contest.lock(self.number);
        let fresh = self.contest.scene.session().await;
        std::mem::replace(&mut self.session, fresh).close(CLOSE).await;
    }
}

/// Runs all these locks concurrently under the random schedule.
fn contest(entries: impl Iterator<Item = (&'static Entry, bool)>, wanted: u64) -> Vec<Rc<Contest>> {
    let seed = number("ZKLOCKBENCH_SEED", 1);
    runtime::block_on(async {
        let (mut contests, mut tasks) = (Vec::new(), Vec::new());
        for (group, (entry, joins_by_count)) in entries.enumerate() {
            let contest = Rc::new(Contest::prepare(entry, joins_by_count, wanted).await);
            for one in 0..CONTENDERS {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream((group * CONTENDERS + one) as u64);
                let contender = Contender::new(one, Rc::clone(&contest), rng).await;
                tasks.push(runtime::spawn_local(contender.run()));
            }
            contests.push(contest);
        }
        for task in tasks {
            task.await;
        }
        contests
    })
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn locks_that_promise_exclusion_neither_violate_it_nor_get_stuck() {
    let wanted = number("ZKLOCKBENCH_ACQUISITIONS", depth::of(250, 10_000));
    let promising = STRATEGIES.iter().filter(|entry| entry.card.guarantees.exclusive);
    let can_count = |entry: &&Entry| entry.card.params.iter().any(|param| param.name == "join");
    let by_count = promising.clone().filter(can_count).map(|entry| (entry, true));
    let promising = promising.map(|entry| (entry, false)).chain(by_count);
    let mut broken = Vec::new();
    for contest in contest(promising, wanted) {
        let how = if contest.joins_by_count { " by count" } else { "" };
        let (name, oracle) = (format!("{}{how}", contest.entry.card.name), &contest.oracle);
        println!("{name}: {} acquisitions, {} violations", oracle.acquired.get(), oracle.violations.get());
        if oracle.violations.get() > 0 || oracle.acquired.get() < wanted {
            broken.push(name);
        }
    }
    assert!(broken.is_empty(), "violated or stuck: {broken:?}");
}

#[test]
fn violations_are_found_in_locks_without_guaranteed_exclusion() {
    let others = STRATEGIES.iter().filter(|entry| !entry.card.guarantees.exclusive);
    for contest in contest(others.map(|entry| (entry, false)), 5_000) {
        let (name, acquired) = (contest.entry.card.name, contest.oracle.acquired.get());
        let violations = contest.oracle.violations.get();
        assert!(violations > 0, "{name}: no violation in {acquired} acquisitions");
    }
}
