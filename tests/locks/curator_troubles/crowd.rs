//! CURATOR-716: a mutex that a thousand wait for is slow.

use zklockbench_core::measure::Measure;
use zklockbench_record::Trial;
use zklockbench_zk::reactor;

use crate::support::ensemble::shared;
use crate::support::foreign;
use crate::support::sessions::scene;
use crate::support::trials;

/// What one handoff between Java's threads takes.
struct Handoff {
    requests: f64,
    milliseconds: f64,
}

/// So many threads of one client, with one lock object for all or one for each.
fn java(threads: u32, objects: &str, handoffs: u32) -> Handoff {
    let lock = reactor::block_on(async { scene(shared()).await.lock });
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

/// One lock object for each thread, and one for all.
fn own_and_shared(threads: u32) -> (Handoff, Handoff) {
    let (own, one) = (java(threads, "own", 50), java(threads, "shared", if threads > 100 { 4 } else { 20 }));
    assert!(own.requests < 8.0, "one is woken: {}", own.requests);
    // Of those that are woken not every one gets to its list before the lock has been handed on again.
    assert!(one.requests > f64::from(threads) / 10.0, "{}", one.requests);
    (own, one)
}

#[test]
fn curator_716_reproduced_with_java_threads_that_share_a_mutex_object_are_all_woken_at_each_release() {
    for threads in [10, 100] {
        own_and_shared(threads);
    }
}

#[test]
#[ignore = "long: a thousand threads"]
fn curator_716_reproduced_with_java_a_thousand_threads_that_share_a_mutex_object_are_slow() {
    let (own, one) = own_and_shared(1_000);
    assert!(one.milliseconds > own.milliseconds * 5.0, "{} {}", one.milliseconds, own.milliseconds);
}

fn per_acquisition(trial: &Trial, amount: u64) -> f64 {
    amount as f64 / trial.measured.acquired() as f64
}

/// A closed loop of each of these sizes, warm when each has had a turn.
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
        // create, list, watch, list, delete
        let requests = per_acquisition(trial, counts.requests.total());
        assert!((4.0..6.5).contains(&requests), "{requests}");
        // Each of its two lists shows all who wait
        let names = per_acquisition(trial, counts.names_returned) / trial.spec.contenders as f64;
        assert!((1.2..3.0).contains(&names), "{names}");
    }
}

#[tokio::test]
async fn curator_716_absent_between_sessions_where_only_the_list_of_names_grows_with_the_waiters() {
    assert_only_names_grow("contenders = [10, 100]\nwarm_up = \"1s\"\nduration = \"2s\"\n").await;
}

#[tokio::test]
#[ignore = "long: a thousand waiters"]
async fn curator_716_absent_between_a_thousand_sessions() {
    let lines = "contenders = [1000]\nwarm_up = \"6s\"\nduration = \"4s\"\nsession_timeout = \"30s\"\n";
    assert_only_names_grow(lines).await;
}
