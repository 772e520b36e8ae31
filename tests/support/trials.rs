//! Trials on the ensemble that a test binary shares, by the library.

#![allow(dead_code)] // each test binary uses a part

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use zklockbench::ensemble::External;
use zklockbench::load::{Environment, Workspace, run_trial};
use zklockbench::record::Trial;
use zklockbench::scenario::{Plan, TrialSpec, parse};
use zklockbench::zk::{Access, Target};
use zklockbench::{check, lock};

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
    let parsed = parse("test.toml", &text, &lock::cards()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    Plan::of(&parsed.scenario).trials
}

/// Runs every trial of a scenario, judged, and removes what it made.
pub async fn run(connect: &str, lines: &str) -> Vec<Trial> {
    let _alone = ALONE.lock().await;
    let plan = plan(lines);
    let target = Target { connect: connect.into(), access: Access::default() };
    let workspace = Workspace::create(target.clone(), &unique("test")).await.unwrap();
    let environment = Environment {
        target,
        workspace,
        servers: External::parse(connect).unwrap().addresses,
        namespace: "zklockbench".into(),
        threads: 1,
        keep_awake: true,
    };
    let mut trials = Vec::new();
    for spec in &plan {
        let entry = lock::find(&spec.strategy.name).unwrap();
        let mut trial =
            run_trial(&environment, spec, entry, &CancellationToken::new(), &|_| {}).await.unwrap();
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
