//! Locks that do not exclude, under every load: none of them is ever said to have held, and each is found wherever it
//! could be seen at all. Beside them locks that do exclude.

use std::cell::Cell;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use zklockbench::catalog::{Guarantees, Holders, LockCard, Mode};
use zklockbench::lock::{self, AcquireError, Entry, Held, LockConfig, Patience, QueueNode, Strategy};
use zklockbench::record::Trial;
use zklockbench::scenario::TrialSpec;
use zklockbench::verdict::Verdict;
use zklockbench::zk::{Failure, Session};

use crate::support::{breakable, depth, trials};

/// What is wrong with a queue lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Now and then it enters without waiting for anybody.
    EntersEarly,
    /// It lets readers in beside a writer.
    ReadersPassWriters,
    /// It admits one more than it has leases.
    OneTooMany,
    /// It deletes its node while it still holds.
    GivesUpItsNode,
}

const LEASES: usize = 2;

struct Broken {
    lock: String,
    flaw: Flaw,
    turns: Cell<usize>,
}

impl Broken {
    /// Whether it may enter with these before it, as it believes.
    fn may_enter(&self, mode: Mode, before: usize, early: bool) -> bool {
        match self.flaw {
            Flaw::EntersEarly => before == 0 || early,
            Flaw::ReadersPassWriters => before == 0 || mode == Mode::Read,
            Flaw::OneTooMany => before < LEASES + 1,
            Flaw::GivesUpItsNode => before == 0,
        }
    }
}

#[async_trait(?Send)]
impl Strategy for Broken {
    async fn acquire(
        &mut self,
        session: &Session,
        mode: Mode,
        patience: &Patience,
    ) -> Result<Held, AcquireError> {
        let node = QueueNode::join(session, &self.lock, "n-", &[]).await?;
        self.turns.set(self.turns.get() + 1);
        let early = self.turns.get().is_multiple_of(once_in());
        loop {
            let names = session.get_children(&self.lock).await?;
            let before = node.nearest_before(&names, names.len()).unwrap_or_default().len();
            if self.may_enter(mode, before, early) {
                break;
            }
            if let Err(ended) = patience.sleep(Duration::from_millis(2)).await {
                return Err(node.give_up(session, ended.into()).await);
            }
        }
        if self.flaw == Flaw::GivesUpItsNode {
            session.delete(&node.path).await?;
        }
        Ok(Held::by(node))
    }

    async fn release(&mut self, session: &Session, held: Held) -> Result<(), Failure> {
        match (self.flaw, held.node) {
            (Flaw::GivesUpItsNode, _) | (_, None) => Ok(()),
            (_, Some(node)) => node.leave(session).await,
        }
    }
}

/// How often a lock enters early that does so.
fn once_in() -> usize {
    depth::of(4, 100)
}

const fn card(holders: Holders) -> LockCard {
    LockCard {
        name: "broken",
        summary: "",
        source: "",
        details: "",
        guarantees: Guarantees { holders, ..Guarantees::QUEUE },
        params: &[],
        batch_cost: None,
    }
}

fn broken(config: &LockConfig, flaw: Flaw) -> Box<dyn Strategy> {
    // Every other contender begins with its early turn, because in a batch it has no other.
    let turns = if config.contender % 2 == 1 { once_in() - 1 } else { 0 };
    Box::new(Broken { lock: config.path.clone(), flaw, turns: Cell::new(turns) })
}

/// Each with the registered lock whose parameters its scenario names.
const CONTROLS: [(&str, Option<Entry>); 5] = [
    ("strategies = [\"no-lock\"]", None),
    (
        "strategies = [\"predecessor-watch\"]",
        Some(Entry { card: card(Holders::One), build: |config| broken(config, Flaw::EntersEarly) }),
    ),
    (
        "strategies = [\"curator-read-write\"]\nread_ratio = 0.5",
        Some(Entry {
            card: card(Holders::ReadersOrOneWriter),
            build: |config| broken(config, Flaw::ReadersPassWriters),
        }),
    ),
    (
        "strategies = [{ name = \"curator-semaphore\", leases = 2 }]",
        Some(Entry {
            card: card(Holders::Leases("leases")),
            build: |config| broken(config, Flaw::OneTooMany),
        }),
    ),
    (
        "strategies = [\"predecessor-watch\"]",
        Some(Entry { card: card(Holders::One), build: |config| broken(config, Flaw::GivesUpItsNode) }),
    ),
];

/// One way to run a lock.
#[derive(Debug, Clone)]
struct Way {
    hold: &'static str,
    threads: usize,
    batch: bool,
    locks: usize,
    reads_logs: bool,
}

/// Trials at the same time.
const AT_ONCE: usize = 8;

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    for hold in ["0ms", "1ms", "20ms"] {
        for threads in [1, 4] {
            for batch in [false, true] {
                for locks in [1, 4] {
                    // A batch has one lock, for which all queue.
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
        ways.retain(|way| way.hold != "1ms" && !way.batch && (way.threads == 1) == (way.locks == 1));
    }
    ways
}

fn spec(strategy: &str, way: &Way, until: &str) -> TrialSpec {
    let Way { hold, batch, locks, .. } = way;
    // Four contenders for each lock.
    let contenders = 4 * locks;
    let load = if *batch {
        "load = \"batch\"\nwarm_up = \"0s\"".to_owned()
    } else {
        format!("warm_up = \"0s\"\n{until}")
    };
    let lines =
        format!("{strategy}\ncontenders = {contenders}\nlocks = {locks}\nhold = \"{hold}\"\n{load}\n");
    trials::plan(&lines).remove(0)
}

/// In depth each of these tests keeps all processors busy by itself: four at once starve each other's sessions.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The trials of one lock in all ways, a few at a time on the same servers.
async fn run_all(strategy: &str, entry: Option<Entry>, ways: &[Way], until: &str) -> Vec<Trial> {
    let _turn = if depth::is_long() { Some(TURN.lock().await) } else { None };
    let local = breakable::plain().await;
    let mut all = Vec::new();
    for some in ways.chunks(AT_ONCE) {
        let running = some.iter().map(|way| {
            let (spec, local) = (spec(strategy, way, until), &local);
            let entry = entry.unwrap_or_else(|| trials::known(&spec));
            async move { trials::run_on_threads(local, &spec, entry, way.threads, way.reads_logs).await }
        });
        all.extend(join_all(running).await);
    }
    all
}

/// Whether two are inside together for long enough to be seen.
fn shows(way: &Way) -> bool {
    way.batch || way.hold != "0ms"
}

async fn control(control: usize, is_found_without_a_hold: impl Fn(&Way) -> bool) {
    let (strategy, entry) = CONTROLS[control];
    let mut ways = ways();
    // Nobody queues up for no lock.
    ways.retain(|way| entry.is_some() || !way.batch);
    // Long enough for some forty early entries, in depth for thirty.
    let until = format!("acquisitions = {}", depth::of(40, 750));
    let trials = run_all(strategy, entry, &ways, &until).await;
    let told: Vec<String> = ways
        .iter()
        .zip(&trials)
        .filter(|(way, trial)| match trial.judged.verdict {
            Verdict::Held => true,
            Verdict::Unknown(_) => shows(way) || is_found_without_a_hold(way),
            Verdict::Violated(_) => false,
        })
        .map(|(way, trial)| format!("{way:?}: {:?}, {:?}", trial.judged.verdict, trial.evidence))
        .collect();
    assert!(told.is_empty(), "{strategy}:\n{}", told.join("\n"));
}

#[tokio::test]
async fn contenders_that_just_walk_in_are_found_wherever_they_stay_and_never_said_to_have_held() {
    control(0, |_| false).await;
}

#[tokio::test]
async fn who_enters_early_now_and_then_is_found_by_its_stay_or_by_transactions() {
    control(1, |way| way.reads_logs).await;
}

#[tokio::test]
async fn a_reader_beside_a_writer_is_found_by_its_stay_or_by_transactions() {
    control(2, |way| way.reads_logs).await;
}

#[tokio::test]
async fn one_more_than_there_are_leases_is_found_by_its_stay_or_by_transactions() {
    control(3, |way| way.reads_logs).await;
}

#[tokio::test]
async fn who_gives_up_its_node_while_it_still_holds_is_found_by_what_it_asked_for() {
    control(4, |_| true).await;
}

/// Locks whose nodes do not tell as of which transaction somebody holds: those that have none of their own, that are
/// handed over within the process, or that are let in by an event alone. Without a hold there is no evidence of them.
const DO_NOT_TELL: [&str; 4] = ["atomic-multi", "baton", "crate-lock", "local-then-remote"];

#[tokio::test]
#[ignore = "long: every lock in two dozen ways"]
async fn locks_that_exclude_are_held_on_servers_whose_logs_can_be_read_and_elsewhere_never_violated() {
    let names = lock::STRATEGIES.iter().map(|entry| entry.card.name).filter(|name| *name != "no-lock");
    let mut told = Vec::new();
    for name in names {
        let more = if name == "polling" { ", poll_interval = \"20ms\"" } else { "" };
        let strategy = format!("strategies = [{{ name = \"{name}\"{more} }}]");
        let ways: Vec<Way> = ways().into_iter().filter(|way| way.locks == 1 && way.threads == 1).collect();
        for (way, trial) in ways.iter().zip(run_all(&strategy, None, &ways, "duration = \"3s\"").await) {
            let may_be_unknown = !way.reads_logs || !shows(way) && DO_NOT_TELL.contains(&name);
            let is_right = match &trial.judged.verdict {
                Verdict::Held => true,
                Verdict::Unknown(_) => may_be_unknown,
                Verdict::Violated(_) => false,
            };
            if !is_right {
                told.push(format!("{name}: {way:?}: {:?}, {:?}", trial.judged.verdict, trial.evidence));
            }
        }
    }
    assert!(told.is_empty(), "{}", told.join("\n"));
}
