//! CURATOR-716: a mutex with a thousand waiters is slow.

use zklockbench_core::measure::Measure;
use zklockbench_record::Trial;
use zklockbench_zk::runtime;

use crate::support::{ensemble::shared, foreign, sessions::scene, trials};

/// Cost of one handoff between Java's threads.
struct Handoff {
    requests: f64,
    milliseconds: f64,
}

/// Runs threads of one client, with one lock object for all threads ("shared") or for each thread ("own").
fn java(threads: u32, objects: &str, handoffs: u32) -> Handoff {
    let lock = runtime::block_on(async { scene(shared()).await.lock });
    let mut crowd = foreign::java("CuratorCrowd");
    crowd.args([shared(), &lock, &threads.to_string(), objects, &handoffs.to_string()]);
    let output = crowd.output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let numbers: Vec<f64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
    let [requests, microseconds] = numbers[..] else { panic!("{text}") };
    let handoffs = f64::from(handoffs);
    let handoff = Handoff { requests: requests / handoffs, milliseconds: microseconds / 1_000.0 / handoffs };
    println!(
        "CURATOR-716, Java, {threads} threads, {objects}: a handoff takes {:.1} requests and {:.2} ms",
        handoff.requests, handoff.milliseconds
    );
    handoff
}

/// Cost with one lock object per thread, and with a single lock object for all threads.
fn own_and_shared(threads: u32) -> (Handoff, Handoff) {
    let (own, one) = (java(threads, "own", 50), java(threads, "shared", if threads > 100 { 4 } else { 20 }));
    assert!(own.requests < 8.0, "more than one thread was woken: {} requests", own.requests);
    // Some woken threads list the queue only after the next handoff.
    assert!(one.requests > f64::from(threads) / 10.0, "{}", one.requests);
    (own, one)
}

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_716_occurs_in_java_when_threads_share_a_mutex_object() {
    for threads in [10, 100] {
        own_and_shared(threads);
    }
}

#[test]
#[ignore = "long: a thousand threads"]
fn curator_716_occurs_in_java_when_a_thousand_threads_share_a_mutex_object() {
    let (own, one) = own_and_shared(1_000);
    assert!(one.milliseconds > own.milliseconds * 5.0, "{} {}", one.milliseconds, own.milliseconds);
}

fn per_acquisition(trial: &Trial, amount: u64) -> f64 {
    amount as f64 / trial.measured.acquired() as f64
}

/// Asserts, in closed loops of these sizes, that only the list grows with the number of waiters.
async fn assert_only_names_grow(lines: &str) {
    let common = "strategies = [\"curator-mutex\"]\nhold = \"0ms\"\norder = \"as-written\"\n";
    let trials = trials::run(&format!("{common}{lines}")).await;
    for trial in &trials {
        let counts = &trial.measured;
        let median = |measure| trial.histograms[&measure].value_at_quantile(0.5) as f64 / 1_000.0;
        println!(
            "CURATOR-716, ours, {} sessions: {:.1} requests, {:.0} names, {:.0} bytes, handoff {:.2} ms, wait {:.1} ms",
            trial.spec.contenders,
            per_acquisition(trial, counts.requests.total()),
            per_acquisition(trial, counts.names_returned),
            per_acquisition(trial, counts.bytes_sent + counts.bytes_received),
            median(Measure::Handoff),
            median(Measure::Wait),
        );
        let requests = per_acquisition(trial, counts.requests.total());
        assert!((4.0..6.5).contains(&requests), "{requests}");
        // Each acquisition's two lists contain all waiters.
        let names = per_acquisition(trial, counts.names_returned) / trial.spec.contenders as f64;
        assert!((1.2..3.0).contains(&names), "{names}");
    }
}

#[tokio::test]
#[ignore = "long: a hundred waiters"]
async fn curator_716_does_not_occur_between_separate_sessions() {
    assert_only_names_grow("contenders = [10, 100]\nwarm_up = \"1s\"\nduration = \"2s\"\n").await;
}

#[tokio::test]
#[ignore = "long: a thousand waiters"]
async fn curator_716_does_not_occur_between_a_thousand_sessions() {
    let lines = "contenders = [1000]\nwarm_up = \"6s\"\nduration = \"4s\"\nsession_timeout = \"30s\"\n";
    assert_only_names_grow(lines).await;
}
