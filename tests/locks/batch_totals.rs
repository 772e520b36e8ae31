//! A batch costs exactly what the cost model predicts, according to both the client's and the servers' counts.

use std::collections::BTreeMap;

use futures_util::future::{join, join_all};
use zklockbench_core::{measure::Measure, verdict::Verdict};
use zklockbench_locks::{Entry, STRATEGIES};
use zklockbench_record::{Counted, Trial, figures};

use crate::support::{depth, trials};

/// The lock with its defaults, except that `cohort` gets a longer time limit: on a busy host, the default limit could
/// expire before all turns of a node are used.
fn chosen(entry: &Entry) -> String {
    match entry.card.name {
        "cohort" => "{ name = \"cohort\", max_local_time = \"1h\" }".to_owned(),
        name => format!("\"{name}\""),
    }
}

async fn batch(strategy: &str, contenders: usize) -> Trial {
    // Longer holds, because an `ahead` waiter must list before the next release removes another name.
    let hold = if strategy.contains("\"ahead\"") { "200ms" } else { "5ms" };
    let lines = format!(
        "strategies = [{strategy}]\ncontenders = [{contenders}]\nload = \"batch\"\nhold = \"{hold}\"\n\
         poll_interval = \"200ms\"\nsession_timeout = \"20s\"\n"
    );
    let lines =
        if strategy.contains("poll") { lines } else { lines.replace("poll_interval = \"200ms\"\n", "") };
    trials::run_one(&lines).await
}

/// Runs batches of these locks at each of these sizes, one at a time on each ensemble.
async fn batches(strategies: impl IntoIterator<Item = String>, contenders: &[usize]) -> Vec<Trial> {
    let each = strategies.into_iter().flat_map(|strategy| {
        contenders.iter().map(move |contenders| {
            let strategy = strategy.clone();
            async move { batch(&strategy, *contenders).await }
        })
    });
    join_all(each).await
}

/// Asserts that the client, the cost model and the servers agree on every quantity that at least two of them count.
fn assert_agreement(trial: &Trial) {
    assert_exclusion(trial);
    assert_counts(trial);
}

fn assert_counts(trial: &Trial) {
    let name = trial.name();
    for line in &trial.accounting {
        assert_ne!(line.agrees(), Some(false), "{name}: {line:?}");
    }
    let of = |what: Counted| trial.accounting.iter().find(|line| line.what == what).unwrap().clone();
    for what in [Counted::Requests, Counted::Reads, Counted::Writes, Counted::ByReleaseToWaiters] {
        assert!(of(what).expected.is_some(), "{name}: no expectation for {what:?}");
    }
    for what in [Counted::Reads, Counted::Writes, Counted::NodeDeleted, Counted::ChildrenChanged] {
        assert!(of(what).servers.is_some(), "{name}: the servers did not report {what:?}");
    }
}

fn to_waiters(trial: &Trial) -> u64 {
    trial.whole.notifications.by_release() - trial.whole.notifications.to_releaser
}

/// Number of notifications to each class of ranks, by the lowest rank in the class.
fn heard(trial: &Trial) -> BTreeMap<u32, u64> {
    let herd = trial.herd.as_ref().unwrap_or_else(|| panic!("{}: no herd", trial.spec.strategy.label));
    herd.iter().map(|woken| (woken.from_rank, woken.count)).collect()
}

/// Expected result of [`heard`] if every release wakes all waiters: the ranks of w waiters are 1 to w, and w falls
/// from the number of contenders minus one to zero.
fn all_woken(trial: &Trial) -> BTreeMap<u32, u64> {
    let mut classes = BTreeMap::new();
    for waiters in 0..trial.spec.contenders as u32 {
        for rank in 1..=waiters {
            let lowest = (rank - 1).checked_ilog2().map_or(1, |doublings| (1 << doublings) + 1);
            *classes.entry(lowest).or_default() += 1;
        }
    }
    classes
}

/// Asserts that the verdict is *held*. The verdict on polling may be unknown: pollers sleep for most of their wait,
/// and holds in a batch are short.
fn assert_exclusion(trial: &Trial) {
    match &trial.judged.verdict {
        Verdict::Held => {}
        Verdict::Unknown(_) if trial.spec.strategy.name == "polling" => {}
        other => panic!("{}: {other:?}", trial.spec.strategy.label),
    }
}

#[tokio::test]
async fn cost_model_of_polling_with_jitter_predicts_everything_except_reads() {
    let trial = batch("{ name = \"polling\", jitter = \"half\" }", 10).await;
    assert_exclusion(&trial);
    let of = |what: Counted| trial.accounting.iter().find(|line| line.what == what).unwrap();
    assert_eq!((of(Counted::Requests).expected, of(Counted::Reads).expected), (None, None));
    assert_eq!((of(Counted::Reads).agrees(), of(Counted::Writes).agrees()), (Some(true), Some(true)));
    assert_eq!(trial.whole.notifications.total(), 0);
}

#[tokio::test]
async fn only_the_servers_count_the_requests_of_the_library_lock() {
    let trial = batch("\"crate-lock\"", 10).await;
    let told = |what: Counted| {
        let line = trial.accounting.iter().find(|line| line.what == what).unwrap();
        (line.client, line.servers)
    };
    assert_eq!(told(Counted::Writes), (Some(20), Some(20)));
    // Every contender lists the queue, and all but the first set a watch and list again. A waiter reads the counter
    // once a second.
    let (client, reads) = told(Counted::Reads);
    let seconds = trial.survival(Measure::Wait).unwrap().longest.us / 1_000_000;
    assert!(client.is_none(), "{reads:?} in {seconds} s");
    assert!((28..=28 + 9 * seconds).contains(&reads.unwrap()), "{reads:?} in {seconds} s");
    assert_eq!(told(Counted::NodeDeleted), (None, Some(9)));
    assert_eq!(told(Counted::Requests), (None, None));
    assert_eq!((figures::REQUESTS_PER_ACQUISITION.of(&trial), trial.herd), (None, None));
}

#[tokio::test]
async fn reentrant_locks_send_no_requests_for_nested_acquires() {
    let reentrant = |entry: &&Entry| entry.card.guarantees.reentrant;
    let each = STRATEGIES.iter().filter(reentrant).map(|entry| {
        let strategy = chosen(entry);
        let lines = format!(
            "strategies = [{strategy}]\ncontenders = 10\nload = \"batch\"\nhold = \"5ms\"\ndepth = 3\n"
        );
        async move { trials::run_one(&lines).await }
    });
    for trial in join_all(each).await {
        // Then only the ten outermost acquisitions send requests, are timed and are counted
        assert_agreement(&trial);
        assert!(trial.errors.is_empty(), "{}: {:?}", trial.spec.strategy.label, trial.errors);
        let waits = trial.histograms[&Measure::Wait].len();
        assert_eq!((trial.measured.acquired(), waits), (10, 10), "{}", trial.spec.strategy.label);
    }
}

/// Notifications expected for each rank: releases wake the first waiter or all waiters. `None` if not compared.
fn woken(trial: &Trial) -> Option<BTreeMap<u32, u64>> {
    let waiters = trial.spec.contenders as u64 - 1;
    match trial.spec.strategy.name.as_str() {
        "predecessor-watch" | "curator-mutex" => {
            Some((waiters > 0).then_some((1, waiters)).into_iter().collect())
        }
        "parent-watch" | "ephemeral-node" | "ephemeral-child" => Some(all_woken(trial)),
        "polling" => Some(BTreeMap::new()),
        _ => None,
    }
}

#[tokio::test]
async fn every_lock_agrees_with_its_model_at_every_size() {
    // `no-lock` has no queue.
    let waits = |entry: &&Entry| entry.card.name != "no-lock" && entry.card.batch_cost.is_some();
    let chosen = STRATEGIES.iter().filter(waits).map(chosen);
    // The largest size takes as long as all others together.
    let sizes = depth::of(&[1, 2, 10][..], &[1, 2, 10, 50]);
    for trial in batches(chosen, sizes).await {
        assert_counts(&trial);
        if let Some(expected) = woken(&trial) {
            assert_eq!(heard(&trial), expected, "{}", trial.spec.strategy.label);
        }
    }
}

#[tokio::test]
#[ignore = "long: every variant in a trial of its own"]
async fn lock_variants_agree_with_their_models() {
    let each = trials::BATCH_VARIANTS.map(|(strategy, at)| batches([strategy.to_owned()], at));
    for trial in join_all(each).await.into_iter().flatten() {
        assert_counts(&trial);
        // A revocable mutex is notified of its own deletion.
        if trial.spec.strategy.label.contains("revocation=") {
            let label = &trial.spec.strategy.label;
            assert_eq!(trial.whole.notifications.to_releaser, trial.spec.contenders as u64, "{label}");
        }
    }
}

#[tokio::test]
async fn waiters_multiply_requests_when_they_share_a_mutex_object() {
    let lock = |shared| format!("{{ name = \"curator-mutex\", shared_object = {shared} }}");
    let (shared, each) = join(batch(&lock(true), 40), batch(&lock(false), 40)).await;
    assert_agreement(&shared);
    let per_release = |trial: &Trial| trial.whole.requests.total() as f64 / 40.0;
    // Five requests per acquisition, and about one and a half for each task at each release.
    assert!((per_release(&each) - 5.0).abs() < 0.1, "{}", per_release(&each));
    assert!((55.0..65.0).contains(&per_release(&shared)), "{}", per_release(&shared));
    // This herd is within the process, so it does not show in the servers' notifications.
    assert_eq!((to_waiters(&shared), to_waiters(&each)), (39, 39));
}
