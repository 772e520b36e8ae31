//! Open loops: each arrival starts at its due time and waits for the lock.

use zklockbench_core::measure::{Growth, Measure, Slope};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Trial, figures};

use crate::support::trials;

/// Mean of a measure's samples, in microseconds.
fn mean(trial: &Trial, measure: Measure) -> f64 {
    trial.histograms[&measure].mean()
}

/// Returns whether the served, dropped and unserved arrivals add up to all arrivals.
fn adds_up(trial: &Trial) -> bool {
    let arrived = trial.arrived.unwrap();
    arrived.offered == arrived.served + arrived.dropped + arrived.unserved
        && arrived.served == trial.histograms.get(&Measure::Wait).map_or(0, |waits| waits.len())
        && arrived.unserved == trial.histograms.get(&Measure::Unserved).map_or(0, |waits| waits.len())
}

#[tokio::test]
async fn waits_of_arrivals_equal_the_sum_of_their_parts() {
    // Given 50 evenly spaced arrivals per second, and a lock that can serve more
    let trial = trials::run_one(
        "strategies = [\"predecessor-watch\"]\ncontenders = 4\nload = \"open\"\nrate = 50\narrivals = \"constant\"\n\
         hold = \"5ms\"\nwarm_up = \"500ms\"\nwarm_up_at_most = \"500ms\"\nduration = \"3s\"\n",
    )
    .await;
    // Then exactly the arrivals of the measured phase are counted and served
    let arrived = trial.arrived.unwrap();
    assert!((149..=151).contains(&arrived.offered), "{arrived:?}");
    assert_eq!((arrived.served, arrived.unserved, arrived.dropped), (arrived.offered, 0, 0), "{arrived:?}");
    assert!(adds_up(&trial));
    let offered = figures::OFFERED.of(&trial).unwrap();
    assert!((49.0..51.0).contains(&offered), "{offered}");
    // And waits start at the arrivals' due times, so each wait is the sum of its parts
    let parts = [Measure::ClientWait, Measure::Lateness, Measure::Service].map(|part| mean(&trial, part));
    let (sum, wait) = (parts.iter().sum::<f64>(), mean(&trial, Measure::Wait));
    assert!((sum / wait - 1.0).abs() < 0.01, "parts {parts:?} do not add up to {wait}");
    let offered: u64 = trial.timeline.iter().map(|second| second.offered).sum();
    assert_eq!(offered, arrived.offered);
    assert_eq!(trial.judged.accounting, Some(Verdict::Held), "{:?}", trial.judged);
}

#[tokio::test]
async fn queue_grows_by_the_missed_rate_when_the_load_exceeds_saturation() {
    // Given 60 arrivals per second, and a lock that can serve about 20
    let trial = trials::run_one(
        "strategies = [\"predecessor-watch\"]\ncontenders = 8\nload = \"open\"\nrate = 60\nhold = \"45ms\"\n\
         duration = \"4s\"\nbacklog_at_most = \"1s\"\n",
    )
    .await;
    // Then the trial is valid, because the lock is the cause, unless concurrent tests or other virtual machines
    // used the processors. (Time taken by a hypervisor counts as the thread's own.)
    let health = &trial.health;
    if health.run_queue_share.is_none_or(|share| share < 0.3) && health.cpu_share < 0.5 {
        assert_eq!(trial.health.invalid, None);
    }
    let Some(Growth::Growing(Slope { per_second: per_s, .. })) = trial.steady.as_ref().unwrap().queue else {
        panic!("{:?}", trial.steady.map(|steady| (steady.queue, steady.backlog)))
    };
    // And the queue grows by the difference between offered and achieved rates
    let missed = figures::OFFERED.of(&trial).unwrap() - figures::THROUGHPUT.of(&trial).unwrap();
    assert!((per_s / missed - 1.0).abs() < 0.25, "grew by {per_s}/s, but {missed}/s were missed");
    assert!(trial.utilisation.unwrap().busiest > 0.9, "{:?}", trial.utilisation);
    // And arrivals still waiting when the backlog was abandoned count with their waits so far, as lower bounds
    let arrived = trial.arrived.unwrap();
    assert!(arrived.unserved > 50 && adds_up(&trial), "{arrived:?}");
    assert!(trial.histograms[&Measure::Unserved].max() > 2_500_000);
    // (Serving all arrivals would take about eight seconds.)
    assert!((900_000..6_000_000).contains(&arrived.backlog_us), "{arrived:?}");
}

#[tokio::test]
async fn arrivals_wait_or_are_dropped_as_configured_when_no_session_is_free() {
    let lines = |late: &str| {
        format!(
            "strategies = [\"predecessor-watch\"]\ncontenders = 2\nlocks = 2\nload = \"open\"\nrate = 80\nhold = \"30ms\"\n\
             duration = \"3s\"\nlate = \"{late}\"\nbacklog_at_most = \"3s\"\nwarm_up_at_most = \"0s\"\n"
        )
    };
    // Given two sessions, each busy for more than 30 ms with each of 80 arrivals per second
    let kept = trials::run_one(&lines("keep")).await;
    // Then `keep` makes arrivals wait in the client
    assert!(mean(&kept, Measure::ClientWait) > 50_000.0, "{}", mean(&kept, Measure::ClientWait));
    assert_eq!(kept.arrived.unwrap().dropped, 0);
    // And `drop` drops and counts arrivals
    let dropped = trials::run_one(&lines("drop")).await;
    let arrived = dropped.arrived.unwrap();
    assert!(arrived.dropped > 20 && arrived.served > 20 && adds_up(&dropped), "{arrived:?}");
    let waits = [&dropped, &kept].map(|trial| mean(trial, Measure::ClientWait));
    assert!(waits[0] < waits[1] / 4.0, "{waits:?}");
}

#[tokio::test]
async fn arrivals_at_several_locks_are_served_and_each_lock_ensures_exclusion() {
    // Given arrivals at five locks, one of them by far the most popular, on two generator threads
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 12\nlocks = 5\nload = \"open\"\nrate = 50\n\
                 popularity = { zipf = 2.0 }\nhold = \"8ms\"\nduration = \"4s\"\n";
    let trial = trials::run_one_on_threads(lines, 2).await;
    assert_eq!(trial.violation_count, 0, "{:?}", trial.violations);
    assert_eq!(trial.judged.verdict, Verdict::Held, "{:?}", trial.judged.why);
    assert!(adds_up(&trial) && trial.arrived.unwrap().unserved == 0, "{:?}", trial.arrived);
    // Then the most popular lock, with two thirds of all arrivals, is busier than the others
    let used = trial.utilisation.unwrap();
    assert!(used.busiest > 2.0 * used.mean, "{used:?}");
    assert_eq!(trial.judged.accounting, Some(Verdict::Held), "{:?}", trial.judged);
}

#[tokio::test]
async fn missing_exclusion_is_detected_in_an_open_loop() {
    let trial = trials::run_one(
        "strategies = [\"no-lock\"]\ncontenders = 6\nload = \"open\"\nrate = 100\nhold = \"20ms\"\nduration = \"1s\"\n",
    )
    .await;
    assert!(matches!(trial.judged.verdict, Verdict::Violated(_)), "{:?}", trial.judged);
}
