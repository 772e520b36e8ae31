//! Runs trials with the library, on ensembles reserved for one test at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use zklockbench_core::{error::Error, verdict::Verdict};
use zklockbench_ensemble::{Local, Processes, parse_connect, proxy::Proxy};
use zklockbench_load::{
    Credentials, Environment, EnvironmentEvent, LoadLimits, MeetingPlace, Rendezvous, Workspace, run_trial,
};
use zklockbench_locks::Entry;
use zklockbench_record::{Counting, Trial};
use zklockbench_results::history::{merge_histories, write_trial};
use zklockbench_scenario::{Slice, StrategyChoice, TrialPlan, TrialSpec, parse};
use zklockbench_zk::{Access, Secret, Target, keep_awake::EVERY};

use crate::support::{ensemble, story};

/// A name that is unique in this process.
pub fn unique(name: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{name}-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn plan(lines: &str) -> Vec<TrialSpec> {
    let text = format!("name = \"test\"\nrepetitions = 1\n{lines}");
    let parsed = parse("test.toml", &text, &zklockbench_load::catalog())
        .unwrap_or_else(|mistakes| panic!("{mistakes}"));
    TrialPlan::of(&parsed.scenario).trials
}

/// Parses a strategy of a scenario, in TOML.
pub fn strategy(toml: &str) -> StrategyChoice {
    plan(&format!("strategies = [{toml}]\ncontenders = 1\nduration = \"1s\"\n")).remove(0).strategy
}

pub async fn count(lines: &str) -> Vec<Counting> {
    let ensemble = ensemble::alone().await;
    let setting = Setting::on(&ensemble.connect());
    let environment =
        setting.environment(Workspace::create(setting.target(), &unique("counted")).await.unwrap());
    let mut counted = Vec::new();
    for spec in plan(lines) {
        let Course { interrupt, sink } = setting.course;
        let (counting, trial) =
            zklockbench_load::count(&environment, &spec, &known(&spec), interrupt, sink).await.unwrap();
        assert!(trial.errors.is_empty(), "{}: {:?}", trial.name(), trial.errors);
        counted.push(counting);
    }
    environment.workspace.close().await.unwrap();
    counted
}

/// Runs and judges every trial of a scenario, and cleans up.
pub async fn run(lines: &str) -> Vec<Trial> {
    let ensemble = ensemble::alone().await;
    run_in(&Setting::on(&ensemble.connect()), &plan(lines), known).await
}

pub async fn run_one(lines: &str) -> Trial {
    only(run(lines).await)
}

/// Like [`run_one`], on this many generator threads.
pub async fn run_one_on_threads(lines: &str, threads: usize) -> Trial {
    let ensemble = ensemble::alone().await;
    let setting = Setting { threads, ..Setting::on(&ensemble.connect()) };
    only(run_in(&setting, &plan(lines), known).await)
}

/// Like [`run_one`], on the test's own servers.
pub async fn run_one_on(local: &Local, lines: &str) -> Trial {
    only(run_in(&Setting::on(&local.connect()), &plan(lines), known).await)
}

/// Like [`run_one_on`]; also runs `happens` from the start of the measured phase.
pub async fn run_while(local: &Local, lines: &str, happens: impl Future<Output = ()>) -> Trial {
    let measures = Notify::new();
    let sink = |event: EnvironmentEvent<'_>| {
        if matches!(event, EnvironmentEvent::Phase { name: "measure", .. }) {
            measures.notify_one();
        }
    };
    let course = Course { sink: &sink, ..uninterrupted() };
    let (setting, plan) = (Setting { course, ..Setting::on(&local.connect()) }, plan(lines));
    let meanwhile = async {
        measures.notified().await;
        happens.await;
    };
    let (trials, ()) = tokio::join!(run_in(&setting, &plan, known), meanwhile);
    only(trials)
}

/// Runs the only trial of a scenario through another address of these servers.
pub async fn try_one_by(connect: &str, local: &Local, lines: &str) -> Result<Trial, Error> {
    let setting = Setting { servers: Some(local.connect()), ..Setting::on(connect) };
    let environment = setting.environment(Workspace::create(setting.target(), &unique("test")).await?);
    let spec = plan(lines).remove(0);
    let Course { interrupt, sink } = setting.course;
    let tried = run_trial(&environment, &spec, &known(&spec), interrupt, sink).await;
    environment.workspace.close().await?;
    let mut trial = tried?;
    zklockbench_judge::judge(&mut trial);
    Ok(trial)
}

/// Like [`run_one`], with a history.
pub async fn run_with_history(lines: &str) -> Trial {
    run_spec_with_history(&plan(lines).remove(0)).await
}

pub async fn run_spec_with_history(spec: &TrialSpec) -> Trial {
    let ensemble = ensemble::alone().await;
    let setting = Setting { keeps_history: true, keep_awake: EVERY, ..Setting::breaking(&ensemble) };
    only(run_in(&setting, std::slice::from_ref(spec), known).await)
}

fn only(mut trials: Vec<Trial>) -> Trial {
    assert_eq!(trials.len(), 1);
    trials.remove(0)
}

/// Interrupt and event sink of trials.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    pub interrupt: &'a CancellationToken,
    pub sink: &'a (dyn Fn(EnvironmentEvent<'_>) + Sync),
}

/// A course without interrupts or events.
pub fn uninterrupted() -> Course<'static> {
    static NEVER: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
    Course { interrupt: &NEVER, sink: &|_| {} }
}

/// Runs the only trial of a scenario below the root `name`, on servers with readable logs and with optional digest
/// credentials.
pub async fn run_one_below(local: &Arc<Local>, lines: &str, name: &str, digest: Option<Secret>) -> Trial {
    let (name, access) = (Some(name.to_owned()), Access { digest, ..Access::default() });
    only(run_in(&Setting { name, access, ..Setting::breaking(local) }, &plan(lines), known).await)
}

/// Runs several trials at the same time on the same servers, each with its own proxy. The servers' counters cover
/// all trials together.
pub async fn run_side_by_side(local: &Arc<Local>, plan: &[TrialSpec]) -> Vec<Trial> {
    join_all(plan.iter().map(|spec| run_beside(local, spec, known(spec), uninterrupted()))).await
}

/// Runs one of several simultaneous trials, with any lock. `course` can interrupt the trial.
pub async fn run_beside(local: &Arc<Local>, spec: &TrialSpec, entry: Entry, course: Course<'_>) -> Trial {
    let setting = Setting { course, ..Setting::breaking(local) };
    only(run_in(&setting, std::slice::from_ref(spec), |_| entry).await)
}

/// Runs one of several simultaneous trials on this many generator threads. Without `reads_logs`, the servers
/// are treated as foreign.
pub async fn run_on_threads(
    local: &Arc<Local>,
    spec: &TrialSpec,
    entry: Entry,
    threads: usize,
    reads_logs: bool,
) -> Trial {
    let own = if reads_logs { Setting::breaking(local) } else { Setting::on(&local.connect()) };
    let setting = Setting { threads, keep_awake: SELDOM, ..own };
    only(run_in(&setting, std::slice::from_ref(spec), |_| entry).await)
}

/// Runs a trial of any lock with several workers, and merges their records as `merge` does.
pub async fn run_by_workers(local: &Local, spec: &TrialSpec, entry: Entry, of: usize) -> Trial {
    let setting = Setting { keeps_history: true, keep_awake: SELDOM, ..Setting::on(&local.connect()) };
    let name = unique("workers");
    let workspace = Workspace::create(setting.target(), &name).await.unwrap();
    let (setting, name) = (&setting, name.as_str());
    let worker = |index| async move { run_part(setting, spec, entry, name, Slice { index, of }).await };
    let parts = join_all((0..of).map(worker)).await;
    workspace.close().await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let histories: Vec<_> = parts
        .iter()
        .enumerate()
        .map(|(index, part)| {
            let path = dir.path().join(format!("{index}.jsonl"));
            write_trial(&path, part).unwrap();
            (index, path)
        })
        .collect();
    let merged = dir.path().join("merged.jsonl");
    merge_histories(&histories, &merged).unwrap();
    let mut trial = Trial::of_workers(parts).unwrap();
    zklockbench_judge::add_order(&mut trial, &story::check(&merged, false).unwrap());
    zklockbench_judge::judge(&mut trial);
    trial
}

/// Runs one worker's part of a trial.
async fn run_part(setting: &Setting<'_>, spec: &TrialSpec, entry: Entry, name: &str, slice: Slice) -> Trial {
    let credentials = Credentials {
        version: env!("CARGO_PKG_VERSION").into(),
        program: String::new(),
        scenario: String::new(),
        of: slice.of,
        host: "test".into(),
        at_most: None,
    };
    let (target, place, patience) = (setting.target(), MeetingPlace::SameServers, Duration::from_secs(60));
    let rendezvous = Rendezvous::join(&target, name, slice, &credentials, place, patience).await.unwrap();
    let workspace = Workspace::made_by_another(target, name);
    let mut environment = Environment { rendezvous: Some(rendezvous), ..setting.environment(workspace) };
    let Course { interrupt, sink } = setting.course;
    let trial = run_trial(&environment, spec, &entry, interrupt, sink).await;
    environment.rendezvous.take().unwrap().leave(trial.is_ok()).await;
    let mut trial = trial.unwrap();
    zklockbench_judge::judge(&mut trial);
    trial
}

/// Keep-awake interval of trials without exact counts. Longer than [`EVERY`], to save processor time.
const SELDOM: Duration = Duration::from_millis(100);

/// Settings of trials that are not part of the scenario.
struct Setting<'a> {
    connect: String,
    /// Addresses of the servers; `None` if `connect` contains them.
    servers: Option<String>,
    access: Access,
    /// Name of the root; random if `None`.
    name: Option<String>,
    /// The servers; `None` if they are treated as foreign.
    local: Option<Arc<Local>>,
    course: Course<'a>,
    keeps_history: bool,
    threads: usize,
    /// Interval between reads that keep the servers awake.
    keep_awake: Duration,
}

impl Setting<'_> {
    fn on(connect: &str) -> Self {
        Self {
            connect: connect.to_owned(),
            servers: None,
            access: Access::default(),
            name: None,
            local: None,
            course: uninterrupted(),
            keeps_history: false,
            threads: 1,
            keep_awake: EVERY,
        }
    }

    fn breaking(local: &Arc<Local>) -> Self {
        Self { local: Some(Arc::clone(local)), keep_awake: SELDOM, ..Self::on(&local.connect()) }
    }

    fn target(&self) -> Target {
        Target { connect: self.connect.as_str().into(), access: self.access.clone() }
    }

    /// Environment of trials in this workspace.
    fn environment(&self, workspace: Workspace) -> Environment {
        let servers = self.servers.as_ref().unwrap_or(&self.connect);
        let servers = parse_connect(servers).unwrap().addresses;
        let local = self.local.clone();
        Environment {
            target: self.target(),
            workspace,
            proxy: local.as_ref().map(|_| Arc::new(Proxy::before(&servers).unwrap())),
            scratch: std::env::temp_dir(),
            servers,
            namespace: "zklockbench".into(),
            threads: self.threads,
            keep_awake: Some(self.keep_awake),
            keeps_history: self.keeps_history,
            local: local.map(|local| local as Arc<dyn Processes>),
            rendezvous: None,
            outlasts_faults: true,
            limits: LoadLimits::default(),
        }
    }
}

/// Returns whether the verdict is *held*, or *unknown* only for lack of evidence: on a busy host, contenders rarely
/// wait.
pub fn held_unless_the_host_was_busy(verdict: &Verdict) -> bool {
    match verdict {
        Verdict::Held => true,
        Verdict::Unknown(reasons) => reasons.iter().all(|why| why.starts_with("too little evidence")),
        Verdict::Violated(_) => false,
    }
}

/// Asserts that a trial's faults took effect and ended, and that its lock neither violated exclusion nor got stuck.
pub fn assert_kept(trial: &Trial) {
    let name = trial.name();
    assert_eq!(trial.violation_count, 0, "{name}: {:?}", trial.violations);
    assert_eq!((trial.stuck.as_slice(), trial.orphans), ([].as_slice(), Some(0)), "{name}");
    for fault in &trial.faults {
        assert!(fault.proved && fault.ended_us.is_some() && fault.left.is_none(), "{name}: {fault:?}");
    }
    // The servers' logs must show no overlap either, whatever the contenders believed.
    if let Some(order) = &trial.ensemble_order {
        assert!(order.checked > 0 && order.overlaps == 0, "{name}: {order:?}");
    }
}

/// The lock of a trial's strategy.
pub fn known(spec: &TrialSpec) -> Entry {
    *zklockbench_locks::find(&spec.strategy.name).unwrap()
}

async fn run_in(
    setting: &Setting<'_>,
    plan: &[TrialSpec],
    entry: impl Fn(&TrialSpec) -> Entry,
) -> Vec<Trial> {
    let name = setting.name.clone().unwrap_or_else(|| unique("test"));
    let environment = setting.environment(Workspace::create(setting.target(), &name).await.unwrap());
    let mut trials = Vec::new();
    for spec in plan {
        let entry = entry(spec);
        let mut trial = run_trial(&environment, spec, &entry, setting.course.interrupt, setting.course.sink)
            .await
            .unwrap();
        zklockbench_judge::judge(&mut trial);
        trials.push(trial);
    }
    environment.workspace.close().await.unwrap();
    trials
}

/// Lock variants whose batch costs differ from the default, and the numbers of contenders to test.
pub const BATCH_VARIANTS: [(&str, &[usize]); 28] = [
    (r#"{ name = "predecessor-watch", watch = "exists" }"#, &[10, 50]),
    (r#"{ name = "parent-watch", while_holding = "relist" }"#, &[10, 50]),
    (r#"{ name = "polling", class = "article", poll_interval = "100ms" }"#, &[2, 10]),
    (r#"{ name = "parent-watch", class = "article", flag_interval = "100ms" }"#, &[2, 10]),
    (r#"{ name = "predecessor-watch", class = "article", flag_interval = "100ms" }"#, &[2, 10]),
    (r#"{ name = "curator-mutex", shared_object = true }"#, &[1, 2, 10]),
    (r#"{ name = "curator-mutex", revocation = "allowed" }"#, &[1, 2, 10]),
    (r#"{ name = "curator-semaphore", leases = 3 }"#, &[1, 3, 4, 10]),
    (r#"{ name = "curator-semaphore", leases = 3, leases_from = "count-node" }"#, &[1, 3, 4, 10]),
    (r#"{ name = "predecessor-watch", join = "count" }"#, &[1, 2, 3, 10]),
    (r#"{ name = "predecessor-watch", watch = "exists", join = "count" }"#, &[2, 3, 10]),
    (r#"{ name = "curator-mutex", join = "count" }"#, &[1, 2, 3, 10]),
    (r#"{ name = "curator-mutex", revocation = "allowed", join = "count" }"#, &[1, 3, 10]),
    (r#"{ name = "curator-read-write", join = "count" }"#, &[1, 3, 10]),
    (r#"{ name = "ahead", join = "count" }"#, &[1, 2, 3, 10]),
    (r#"{ name = "baton", join = "count" }"#, &[1, 2, 3, 10]),
    (r#"{ name = "count", join = "create" }"#, &[1, 2, 3, 10]),
    (r#"{ name = "count-semaphore", leases = 1 }"#, &[3, 10]),
    (r#"{ name = "count-semaphore", leases = 1, join = "create" }"#, &[3, 10]),
    (r#"{ name = "count-semaphore", leases = 3 }"#, &[3, 4, 10]),
    (r#"{ name = "count-semaphore", leases = 3, join = "create" }"#, &[3, 4, 10]),
    (r#"{ name = "count-semaphore", leases = 4 }"#, &[4, 10]),
    (r#"{ name = "count-semaphore", leases = 4, join = "create" }"#, &[4, 10]),
    (r#"{ name = "local-then-remote", tasks_per_process = 2 }"#, &[3, 10]),
    (
        r#"{ name = "cohort", contenders_per_process = 4, max_local_turns = 2, max_local_time = "1h" }"#,
        &[12, 50],
    ),
    (
        r#"{ name = "cohort", contenders_per_process = 3, max_local_turns = 10, max_local_time = "1h" }"#,
        &[7, 50],
    ),
    (
        r#"{ name = "cohort", contenders_per_process = 3, max_local_turns = 1, max_local_time = "1h" }"#,
        &[6, 50],
    ),
    (
        r#"{ name = "cohort", contenders_per_process = 10, max_local_turns = 2, max_local_time = "1h" }"#,
        &[6, 50],
    ),
];
