//! Trials on the ensemble that a test binary shares, by the library.

#![allow(dead_code)] // each test binary uses a part

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use zklockbench::ensemble::{External, Local, Started};
use zklockbench::load::{Environment, Event, Workspace, run_trial};
use zklockbench::lock::Entry;
use zklockbench::proxy::Proxy;
use zklockbench::record::Trial;
use zklockbench::scenario::{Plan, TrialSpec, parse};
use zklockbench::zk::{Access, Target};
use zklockbench::{check, fault, lock};

/// A name that no other test of this process uses.
pub fn unique(name: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The servers count for everybody and share the processors, so the tests of a binary take turns.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The trials of a scenario.
pub fn plan(lines: &str) -> Vec<TrialSpec> {
    let text = format!("name = \"test\"\nrepetitions = 1\n{lines}");
    let parsed = parse("test.toml", &text, &lock::cards(), &fault::cards())
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plan::of(&parsed.scenario).trials
}

/// Runs every trial of a scenario, judged, and removes what it made.
pub async fn run(connect: &str, lines: &str) -> Vec<Trial> {
    run_all(connect, plan(lines)).await
}

/// Runs these trials, judged, and removes what they made.
pub async fn run_all(connect: &str, plan: Vec<TrialSpec>) -> Vec<Trial> {
    run_on(connect, None, plan).await
}

/// The same on servers that may be broken, with a proxy before them.
pub async fn run_broken(local: &Arc<Local>, plan: Vec<TrialSpec>) -> Vec<Trial> {
    run_on(&local.connect(), Some(Arc::clone(local)), plan).await
}

async fn run_on(connect: &str, local: Option<Arc<Local>>, plan: Vec<TrialSpec>) -> Vec<Trial> {
    let course = Course { interrupt: &CancellationToken::new(), sink: &|_| {} };
    run_by(connect, local, (plan, course), known).await
}

/// Who may end the trials, and who hears of them.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    pub interrupt: &'a CancellationToken,
    pub sink: &'a (dyn Fn(Event<'_>) + Sync),
}

/// The same as [`run_broken`] until it is interrupted.
pub async fn run_interrupted(local: &Arc<Local>, plan: Vec<TrialSpec>, course: Course<'_>) -> Vec<Trial> {
    run_by(&local.connect(), Some(Arc::clone(local)), (plan, course), known).await
}

/// Trials of a lock that no scenario can name.
pub async fn run_of(local: &Arc<Local>, plan: Vec<TrialSpec>, entry: Entry) -> Vec<Trial> {
    let course = Course { interrupt: &CancellationToken::new(), sink: &|_| {} };
    run_by(&local.connect(), Some(Arc::clone(local)), (plan, course), |_| entry).await
}

/// As [`run_broken`], but so many trials at the same time, each with a proxy of its own: for what takes long and
/// counts nothing.
pub async fn run_broken_together(local: &Arc<Local>, plan: &[TrialSpec], many: usize) -> Vec<Trial> {
    let _alone = ALONE.lock().await;
    let connect = local.connect();
    let token = CancellationToken::new();
    let course = Course { interrupt: &token, sink: &|_| {} };
    let run = |spec: &TrialSpec| {
        run_in(&connect, Some(Arc::clone(local)), (vec![spec.clone()], course), false, known)
    };
    let mut trials = Vec::new();
    for some in plan.chunks(many) {
        trials.extend(join_all(some.iter().map(run)).await.into_iter().flatten());
    }
    trials
}

/// As [`run_broken`], with what each contender did.
pub async fn run_with_history(local: &Arc<Local>, plan: Vec<TrialSpec>) -> Vec<Trial> {
    let _alone = ALONE.lock().await;
    let course = Course { interrupt: &CancellationToken::new(), sink: &|_| {} };
    run_in(&local.connect(), Some(Arc::clone(local)), (plan, course), true, known).await
}

fn known(spec: &TrialSpec) -> Entry {
    *lock::find(&spec.strategy.name).unwrap()
}

async fn run_by(
    connect: &str,
    local: Option<Arc<Local>>,
    (plan, course): (Vec<TrialSpec>, Course<'_>),
    entry: impl Fn(&TrialSpec) -> Entry,
) -> Vec<Trial> {
    let _alone = ALONE.lock().await;
    run_in(connect, local, (plan, course), false, entry).await
}

async fn run_in(
    connect: &str,
    local: Option<Arc<Local>>,
    (plan, course): (Vec<TrialSpec>, Course<'_>),
    keeps_history: bool,
    entry: impl Fn(&TrialSpec) -> Entry,
) -> Vec<Trial> {
    let target = Target { connect: connect.into(), access: Access::default() };
    let workspace = Workspace::create(target.clone(), &unique("test")).await.unwrap();
    let servers = External::parse(connect).unwrap().addresses;
    let environment = Environment {
        target,
        workspace,
        proxy: local.as_ref().map(|_| Arc::new(Proxy::before(&servers).unwrap())),
        servers,
        namespace: "zklockbench".into(),
        threads: 1,
        keep_awake: true,
        keeps_history,
        local: local.map(|local| local as Arc<dyn Started>),
    };
    let mut trials = Vec::new();
    for spec in &plan {
        let entry = entry(spec);
        let mut trial = run_trial(&environment, spec, &entry, course.interrupt, course.sink).await.unwrap();
        trial.exclusion = check::exclusion(&trial);
        trials.push(trial);
    }
    environment.workspace.close().await.unwrap();
    trials
}

/// The only trial of a scenario.
pub async fn run_one(connect: &str, lines: &str) -> Trial {
    let mut trials = run(connect, lines).await;
    assert_eq!(trials.len(), 1);
    trials.remove(0)
}
