//! Broken locks under every load. No verdict is *held*, and every detectable flaw is found. Correct locks run for
//! comparison.

use std::cell::Cell;
use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::{Either, join_all, select};
use zklockbench_core::catalog::{Guarantees, Holders, LockCard, Mode};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::Local;
use zklockbench_locks::{AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use zklockbench_record::Trial;
use zklockbench_scenario::TrialSpec;
use zklockbench_zk::{Failure, Op, Session, runtime, sequence_of};

use crate::support::{depth, ensemble, trials};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Occasionally enters without waiting.
    EntersEarly,
    ReadersPassWriters,
    /// Admits one more contender than it has leases.
    OneTooMany,
    /// Deletes its node while it still holds the lock.
    GivesUpItsNode,
    /// Like `EntersEarly`, but creates its node with a multi. The reply to a multi has no zxid.
    EntersEarlyByMulti,
    /// Grants the lock with a write to the next node before it deletes its own node.
    GrantsTooSoon,
    /// Uses the client library's lock in a way that hides the other contenders' nodes.
    SeesOnlyItself,
    /// Waits only for other contenders of its process, and leaves once the next contender is inside.
    WaitsOnlyInTheProcess,
}

const LEASES: usize = 2;

struct Broken {
    lock: String,
    flaw: Flaw,
    turns: Cell<usize>,
    contender: usize,
}

#[derive(Default)]
struct InProcess {
    turn: tokio::sync::Mutex<()>,
    /// Number of acquisitions so far.
    entries: AtomicUsize,
}

/// Queues within the process, by path.
static IN_PROCESS: LazyLock<Mutex<HashMap<String, Arc<InProcess>>>> = LazyLock::new(Mutex::default);

impl Broken {
    /// Returns whether a contender enters with this many nodes ahead.
    fn may_enter(&self, mode: Mode, before: usize, early: bool) -> bool {
        match self.flaw {
            Flaw::EntersEarly | Flaw::EntersEarlyByMulti => before == 0 || early,
            Flaw::ReadersPassWriters => before == 0 || mode == Mode::Read,
            Flaw::OneTooMany => before < LEASES + 1,
            Flaw::GivesUpItsNode | Flaw::GrantsTooSoon => before == 0,
            Flaw::SeesOnlyItself | Flaw::WaitsOnlyInTheProcess => true,
        }
    }

    /// Queue within the process, shared only by contenders with `WaitsOnlyInTheProcess`.
    fn in_process(&self) -> Arc<InProcess> {
        match self.flaw {
            Flaw::WaitsOnlyInTheProcess => {
                IN_PROCESS.lock().unwrap().entry(self.lock.clone()).or_default().clone()
            }
            _ => Arc::default(),
        }
    }

    /// Waits briefly for the next contender to enter. Without the wait, this contender's node might be gone first.
    async fn let_the_next_one_in(&self) {
        let in_process = self.in_process();
        let entered = || in_process.entries.load(Ordering::SeqCst);
        let (before, mut looks) = (entered(), 0);
        while entered() == before && looks < LOOKS_AT_MOST {
            runtime::sleep(Duration::from_millis(1)).await;
            looks += 1;
        }
    }

    async fn join(&self, session: &Session) -> Result<QueueNode, Failure> {
        if self.flaw != Flaw::EntersEarlyByMulti {
            return QueueNode::join(session, &self.lock, "n-", &[]).await;
        }
        let join = [Op::Join { path: &format!("{}/n-", self.lock), data: &[] }];
        let created = session.multi(&join).await?.remove(0);
        Ok(QueueNode { path: created.path, sequence: created.sequence.unwrap(), czxid: -1 })
    }

    /// Uses the client library's lock in a way that makes it queue only behind nodes with this contender's name.
    async fn locked_by_the_library(&self, session: &Session) -> Result<Held, AcquireError> {
        let name = format!("c{}x-", self.contender);
        let path = session.crate_lock(&format!("{}/{name}", self.lock), &name).await?;
        let sequence = sequence_of(&path).unwrap();
        Ok(Held::by(QueueNode { path, sequence, czxid: -1 }))
    }

    /// Grants the lock to the next contender while this contender still holds it.
    async fn grant_the_next(&self, session: &Session, node: &QueueNode) -> Result<(), Failure> {
        let names = session.get_children(&self.lock).await?;
        if let Ok(Some(next)) = node.next_behind(&names) {
            // The next contender's node may have disappeared.
            let _ = session.set_data(&format!("{}/{next}", self.lock), b"go").await;
        }
        Ok(())
    }

    /// Waits for a grant, or until no node is ahead. There may be no holder to grant the lock.
    async fn granted(
        &self,
        session: &Session,
        node: &QueueNode,
        patience: &Patience,
    ) -> Result<(), AcquireError> {
        let (data, mut own) = session.get_data_and_watch(&node.path).await?;
        if data == b"go" {
            return Ok(());
        }
        loop {
            let (names, mut queue) = session.get_children_and_watch(&self.lock).await?;
            if node.nearest_before(&names, 1)?.is_empty() {
                return Ok(());
            }
            let (granted, look_again) = (pin!(own.changed()), pin!(queue.changed()));
            if matches!(patience.wait(select(granted, look_again)).await?, Either::Left(_)) {
                return Ok(());
            }
        }
    }
}

/// Maximum time in milliseconds that a leaving contender waits for the next contender.
const LOOKS_AT_MOST: usize = 50;

#[async_trait(?Send)]
impl Strategy for Broken {
    async fn acquire(
        &mut self,
        session: &Session,
        mode: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        if self.flaw == Flaw::SeesOnlyItself {
            return self.locked_by_the_library(session).await;
        }
        let in_process = self.in_process();
        let _taken = in_process.turn.lock().await;
        let node = self.join(session).await?;
        if self.flaw == Flaw::GrantsTooSoon {
            if let Err(why) = self.granted(session, &node, patience).await {
                return Err(node.give_up(session, why).await);
            }
            self.grant_the_next(session, &node).await?;
            return Ok(Held::by(node));
        }
        self.turns.set(self.turns.get() + 1);
        let early = self.turns.get().is_multiple_of(once_in(self.flaw));
        loop {
            // Polls would keep the servers busy and never let a batch settle, so use a watch.
            let (names, mut queue) = session.get_children_and_watch(&self.lock).await?;
            let before = node.nearest_before(&names, names.len()).unwrap_or_default().len();
            if self.may_enter(mode, before, early) {
                break;
            }
            if let Err(ended) = patience.wait(queue.changed()).await {
                return Err(node.give_up(session, ended).await);
            }
        }
        if self.flaw == Flaw::GivesUpItsNode {
            session.delete(&node.path).await?;
        }
        in_process.entries.fetch_add(1, Ordering::SeqCst);
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        if self.flaw == Flaw::WaitsOnlyInTheProcess {
            self.let_the_next_one_in().await;
        }
        match (self.flaw, held.node) {
            (Flaw::GivesUpItsNode, _) | (_, None) => Ok(()),
            (_, Some(node)) => node.leave(session).await,
        }
    }
}

/// Number of cycles per early entry.
fn once_in(flaw: Flaw) -> usize {
    if flaw == Flaw::EntersEarly { depth::of(4, 100) } else { 4 }
}

const fn card(holders: Holders) -> LockCard {
    let guarantees = Guarantees { holders, ..Guarantees::QUEUE };
    LockCard { name: "broken", guarantees, ..LockCard::OF_ZOOKEEPER }
}

fn broken(config: &LockConfig, flaw: Flaw) -> Box<dyn Strategy> {
    // A batch has only one cycle, so every second contender enters early in its first cycle.
    let turns = if config.contender % 2 == 1 { once_in(flaw) - 1 } else { 0 };
    let (lock, contender) = (config.path.clone(), config.contender);
    Box::new(Broken { lock, flaw, turns: Cell::new(turns), contender })
}

const fn flawed(holders: Holders, build: fn(&LockConfig) -> Box<dyn Strategy>) -> Option<Entry> {
    Some(Entry { card: card(holders), build })
}

const QUEUE: &str = "strategies = [\"predecessor-watch\"]";

/// Scenario lines of each control, and the broken lock that replaces the registered lock.
const CONTROLS: [(&str, Option<Entry>); 9] = [
    ("strategies = [\"no-lock\"]", None),
    (QUEUE, flawed(Holders::One, |config| broken(config, Flaw::EntersEarly))),
    (
        "strategies = [\"curator-read-write\"]\nread_ratio = 0.5",
        flawed(Holders::ReadersOrOneWriter, |config| broken(config, Flaw::ReadersPassWriters)),
    ),
    (
        "strategies = [{ name = \"curator-semaphore\", leases = 2 }]",
        flawed(Holders::Leases("leases"), |config| broken(config, Flaw::OneTooMany)),
    ),
    (QUEUE, flawed(Holders::One, |config| broken(config, Flaw::GivesUpItsNode))),
    (QUEUE, flawed(Holders::One, |config| broken(config, Flaw::EntersEarlyByMulti))),
    (QUEUE, flawed(Holders::One, |config| broken(config, Flaw::GrantsTooSoon))),
    ("strategies = [\"crate-lock\"]", flawed(Holders::One, |config| broken(config, Flaw::SeesOnlyItself))),
    (QUEUE, flawed(Holders::One, |config| broken(config, Flaw::WaitsOnlyInTheProcess))),
];

/// Index of the control that enters early only occasionally.
const NOW_AND_THEN: usize = 1;
const TOO_MANY_LEASES: usize = 3;
/// Index of the first control that is revealed only by the servers' logs when holds have no length.
const FOUND_IN_LOGS: usize = 5;

/// One way to run a lock.
#[derive(Debug, Clone)]
struct Way {
    hold: &'static str,
    threads: usize,
    batch: bool,
    locks: usize,
    reads_logs: bool,
}

impl Way {
    /// Number of contenders: four for each lock.
    fn contenders(&self) -> usize {
        4 * self.locks
    }
}

/// Number of concurrent trials. With --long, trials with equal hold times run together.
const AT_ONCE: usize = 12;

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for hold in ["0ms", "1ms", "20ms"] {
        for threads in [1, 4] {
            for batch in [false, true] {
                for locks in [1, 4] {
                    // In a batch, all contenders queue for one lock.
                    if batch && locks > 1 {
                        continue;
                    }
                    for reads_logs in [false, true] {
                        ways.push(Way { hold, threads, batch, locks, reads_logs });
                    }
                }
            }
        }
    }
    if !depth::is_long() {
        // Violations are least visible with no hold, one thread and one lock, and most visible with a long hold,
        // four threads and four locks.
        let is_default = |way: &Way| way.hold == "0ms" && way.threads == 1 && way.locks == 1;
        let is_most = |way: &Way| way.hold == "20ms" && way.threads == 4 && way.locks == 4;
        ways.retain(|way| !way.batch && (is_default(way) || is_most(way)));
    }
    ways
}

fn spec(strategy: &str, way: &Way, until: &str) -> TrialSpec {
    let Way { hold, batch, locks, .. } = way;
    let contenders = way.contenders();
    let load = if *batch {
        "load = \"batch\"\nwarm_up = \"0s\"".to_owned()
    } else {
        format!("warm_up = \"0s\"\n{until}")
    };
    let lines =
        format!("{strategy}\ncontenders = {contenders}\nlocks = {locks}\nhold = \"{hold}\"\n{load}\n");
    trials::plan(&lines).remove(0)
}

/// With --long, two of these tests use all processors. Four tests would starve each other's sessions.
static TURN: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Runs the trials of one lock in all ways, a few at a time on the same servers.
async fn run_all(
    strategy: &str,
    entry: Option<Entry>,
    ways: &[Way],
    until: impl Fn(&Way) -> String,
) -> Vec<Trial> {
    let _turn = if depth::is_long() { Some(TURN.acquire().await) } else { None };
    let local = ensemble::alone().await;
    let mut all = Vec::new();
    for some in ways.chunks(AT_ONCE) {
        let running = some.iter().map(|way| {
            let (spec, local) = (spec(strategy, way, &until(way)), &local);
            let entry = entry.unwrap_or_else(|| trials::known(&spec));
            async move { trials::run_on_threads(local, &spec, entry, way.threads, way.reads_logs).await }
        });
        all.extend(join_all(running).await);
    }
    all
}

/// Returns whether the violation must be visible. A semaphore that grants one lease too many is found only while
/// three contenders are inside, which is rare with short holds.
fn shows(control: usize, way: &Way) -> bool {
    let meets = if control == TOO_MANY_LEASES { way.hold == "20ms" } else { way.hold != "0ms" };
    way.batch || meets
}

async fn control(control: usize, is_found_without_a_hold: impl Fn(&Way) -> bool) {
    let (strategy, entry) = CONTROLS[control];
    let mut ways = ways();
    // `no-lock` has no queue, so it has no batch.
    ways.retain(|way| entry.is_some() || !way.batch);
    // Only logs reveal these controls. With short holds, their contenders may happen to enter one after the
    // other.
    if control >= FOUND_IN_LOGS {
        ways.retain(|way| way.reads_logs || way.hold == "20ms");
        ways.retain(|way| depth::is_long() || way.hold == "0ms");
    }
    // Acquisitions per contender, enough for about 40 early entries in each trial, or 32 with --long.
    let acquisitions = |way: &Way| match control {
        NOW_AND_THEN => depth::of(40, 3_200 / way.contenders()),
        _ => 40,
    };
    let until = |way: &Way| format!("acquisitions = {}", acquisitions(way));
    let trials = run_all(strategy, entry, &ways, until).await;
    let told: Vec<String> = ways
        .iter()
        .zip(&trials)
        .filter(|(way, trial)| match trial.judged.verdict {
            Verdict::Held => true,
            Verdict::Unknown(_) => shows(control, way) || is_found_without_a_hold(way),
            Verdict::Violated(_) => false,
        })
        .map(|(way, trial)| format!("{way:?}: {:?}, {:?}", trial.judged.verdict, trial.evidence))
        .collect();
    assert!(told.is_empty(), "{strategy}:\n{}", told.join("\n"));
}

#[tokio::test]
async fn missing_lock_is_judged_violated_with_long_holds_and_never_judged_held() {
    control(0, |_| false).await;
}

#[tokio::test]
async fn occasional_early_entry_is_found_by_holds_or_transactions() {
    control(1, |way| way.reads_logs).await;
}

#[tokio::test]
async fn reader_alongside_a_writer_is_found_by_holds_or_transactions() {
    control(2, |way| way.reads_logs).await;
}

#[tokio::test]
async fn holder_without_a_lease_is_found_by_holds_or_transactions() {
    control(TOO_MANY_LEASES, |way| way.reads_logs).await;
}

#[tokio::test]
async fn holder_that_deletes_its_own_node_early_is_found_by_requests() {
    control(4, |_| true).await;
}

#[tokio::test]
async fn early_entry_is_found_even_if_a_multi_created_the_node() {
    control(5, |way| way.reads_logs).await;
}

#[tokio::test]
async fn early_grant_is_found_by_its_transaction() {
    control(6, |way| way.reads_logs).await;
}

#[tokio::test]
async fn library_lock_that_ignores_other_nodes_is_found_by_independent_checks() {
    control(7, |way| way.reads_logs).await;
}

#[tokio::test]
async fn lock_that_ignores_other_processes_is_found_by_its_nodes() {
    control(8, |way| way.reads_logs).await;
}

/// Controls that are found when several contenders are inside together. Excludes controls found only in logs, and
/// the control that waits only in its process, because the workers of these tests share a process.
const FOUND_BY_WORKERS: [usize; 5] = [0, 1, 2, TOO_MANY_LEASES, 4];

/// Verdict on `entry`, or on the registered lock if `None`, with four contenders that each have their own worker.
async fn by_workers(local: &Local, control: usize, entry: Option<Entry>) -> Verdict {
    let way = Way { hold: "20ms", threads: 1, batch: false, locks: 1, reads_logs: false };
    let spec = spec(CONTROLS[control].0, &way, "acquisitions = 40");
    let entry = entry.unwrap_or_else(|| trials::known(&spec));
    let trial = trials::run_by_workers(local, &spec, entry, way.contenders()).await;
    println!("{control}: {:?}, {:?}", trial.judged.verdict, trial.ensemble_order);
    trial.judged.verdict
}

#[tokio::test]
async fn workers_find_violations_in_broken_locks_but_none_in_correct_locks() {
    let alone = ensemble::alone().await;
    let found = FOUND_BY_WORKERS.map(|control| by_workers(&alone, control, CONTROLS[control].1));
    let found = join_all(found).await;
    assert!(found.iter().all(|verdict| matches!(verdict, Verdict::Violated(_))), "{found:?}");
    let right = FOUND_BY_WORKERS.into_iter().filter(|control| CONTROLS[*control].1.is_some());
    let held = join_all(right.map(|control| by_workers(&alone, control, None))).await;
    assert!(held.iter().all(trials::held_unless_the_host_was_busy), "{held:?}");
}

/// Locks that once yielded too little evidence when holds had no length. Their nodes are created by multis or by the
/// client library, or their contenders are admitted by an event alone or within the process.
const TELL_BY_THE_LOGS: [&str; 4] = ["atomic-multi", "baton", "crate-lock", "local-then-remote"];

#[tokio::test]
async fn server_logs_are_evidence_when_a_locks_replies_are_not() {
    let mut ways = ways();
    ways.retain(|way| way.reads_logs && way.hold == "0ms" && !way.batch);
    ways.truncate(depth::of(1, ways.len()));
    for name in TELL_BY_THE_LOGS {
        let strategy = format!("strategies = [\"{name}\"]");
        for (way, trial) in
            ways.iter().zip(run_all(&strategy, None, &ways, |_| "acquisitions = 40".to_owned()).await)
        {
            println!("{name}: {way:?}: {:?}", trial.evidence);
            let what = format!("{name}: {way:?}: {:?}, {:?}", trial.judged.verdict, trial.evidence);
            assert_eq!(trial.judged.verdict, Verdict::Held, "{what}");
            assert!(trial.evidence.by_transactions >= 5, "{what}");
        }
    }
}

#[tokio::test]
#[ignore = "long: every lock in two dozen ways"]
async fn correct_locks_are_judged_held_with_logs_and_never_violated_without_logs() {
    let cards = zklockbench_locks::STRATEGIES.iter().map(|entry| &entry.card);
    let names = cards.filter(|card| card.guarantees.exclusive).map(|card| card.name);
    let mut told = Vec::new();
    for name in names {
        let more = if name == "polling" { ", poll_interval = \"20ms\"" } else { "" };
        let strategy = format!("strategies = [{{ name = \"{name}\"{more} }}]");
        let ways: Vec<Way> = ways().into_iter().filter(|way| way.locks == 1 && way.threads == 1).collect();
        let trials = run_all(&strategy, None, &ways, |_| "acquisitions = 40".to_owned()).await;
        for (way, trial) in ways.iter().zip(trials) {
            let is_right = match &trial.judged.verdict {
                Verdict::Held => true,
                Verdict::Unknown(_) => !way.reads_logs,
                Verdict::Violated(_) => false,
            };
            if !is_right {
                told.push(format!("{name}: {way:?}: {:?}, {:?}", trial.judged.verdict, trial.evidence));
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}
