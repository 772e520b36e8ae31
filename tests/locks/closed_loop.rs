//! The closed loop: wake-ups, admissions, and exclusion.

use std::time::Duration;

use futures_util::future::join_all;
use rustix::process::Signal;
use zklockbench_core::measure::{Measure, Outcome};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures;

use crate::support::{ensemble, program, trials};

#[tokio::test]
async fn release_wakes_one_predecessor_watcher_or_most_parent_watchers() {
    // Given holds long enough for every watcher to set its watch again, and enough cycles that a pause of the host
    // in the first or last cycle does not matter
    let trials = join_all(["parent-watch", "predecessor-watch", "curator-mutex"].map(async |strategy| {
        let lines = "contenders = 20\nhold = \"50ms\"\nduration = \"5s\"\nwarm_up = \"500ms\"\n";
        trials::run_one(&format!("strategies = [\"{strategy}\"]\n{lines}")).await
    }));
    for trial in trials.await {
        // Then a release wakes all 19 watchers of the parent that have set their watch again, or the only watcher of
        // the node
        let fan_out = figures::FAN_OUT.of(&trial).unwrap();
        let expected = if trial.spec.strategy.name == "parent-watch" { 10.0..=20.0 } else { 0.95..=1.05 };
        assert!(expected.contains(&fan_out), "{}: {fan_out}", trial.spec.strategy.label);
        // And each cycle of the lock consists of a hold and a handoff
        let of = |measure| &trial.histograms[&measure];
        let (turn, handoff) = (of(Measure::Turn), of(Measure::Handoff));
        assert_eq!(turn.len(), handoff.len());
        let both = of(Measure::Hold).mean() + handoff.mean();
        assert!(turn.min() >= 50_000, "{} {both}", turn.mean());
        assert!((0.97..1.03).contains(&(turn.mean() / both)), "{} {both}", turn.mean());
    }
}

#[tokio::test]
async fn each_kind_of_client_has_its_own_hold_time() {
    let loads = ["load = \"closed\"\n", "load = \"open\"\nrate = 20\n"];
    for load in loads {
        let trial = trials::run_one(&format!(
            "strategies = [\"predecessor-watch\"]\ncontenders = 6\n{load}duration = \"3s\"\nhold = \"2ms\"\n\
             [[client]]\nshare = 1\n[[client]]\nshare = 1\nhold = \"50ms\"\n"
        ))
        .await;
        // Then about half of the holds take 2 ms, and the others take 50 ms
        let holds = &trial.histograms[&Measure::Hold];
        let short = holds.count_between(0, 40_000) as f64 / holds.len() as f64;
        assert!((0.25..0.75).contains(&short), "{load}{short}");
        assert!(holds.min() >= 2_000 && holds.max() >= 50_000, "{load}{} {}", holds.min(), holds.max());
        // Each hold is compared with its own client's hold time, unless the host itself was late.
        let (health, share) = (&trial.health, trial.health.hold_overshoot_share);
        let is_late = health.timer_lag_max_us > 20_000;
        assert!(is_late || share.is_none_or(|share| share < 0.5), "{health:?}");
    }
}

#[tokio::test]
async fn several_locks_are_held_at_once_and_each_ensures_exclusion() {
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 8\nlocks = 4\nhold = \"200ms\"\nacquisitions = 5\n";
    let trial = trials::run_one(lines).await;
    assert_eq!(trial.judged.verdict, Verdict::Held);
    // A single lock could not be held for longer than the phase.
    let (held_us, lasted_us) = (200_000 * trial.measured.acquired(), trial.measured_us);
    assert!(held_us > lasted_us, "held for {held_us} us in {lasted_us} us");
}

#[tokio::test]
async fn acquisitions_without_contention_have_no_handoff() {
    // Given a lease for every contender, or readers only
    let ways = [
        "strategies = [{ name = \"curator-semaphore\", leases = 8 }]\n",
        "strategies = [\"curator-read-write\"]\nread_ratio = 1.0\n",
    ];
    for way in ways {
        let trial =
            trials::run_one(&format!("{way}contenders = 4\nhold = \"2ms\"\nacquisitions = 40\n")).await;
        // Then every acquisition is uncontended, and the absence of waits is not evidence
        let (acquired, verdict) = (trial.measured.acquired(), &trial.judged.verdict);
        assert!(acquired > 10, "{way}: {acquired}");
        let samples = |measure| trial.histograms.get(&measure).map_or(0, |histogram| histogram.len());
        let seen = [Measure::Turn, Measure::Handoff, Measure::Uncontended].map(samples);
        assert_eq!(seen, [0, 0, acquired], "{way}");
        assert!(matches!(verdict, Verdict::Unknown(_)), "{way}: {verdict:?}");
    }
}

#[tokio::test]
async fn timed_out_acquire_is_counted_and_blocks_no_contender() {
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 6\nhold = \"200ms\"\nduration = \"4s\"\n\
                 acquire_timeout = \"350ms\"\n";
    let trial = trials::run_one(lines).await;
    let outcomes = &trial.measured.outcomes;
    assert!(outcomes.get(Outcome::TimedOut) > 0 && outcomes.get(Outcome::Acquired) > 2, "{outcomes:?}");
    assert_eq!(trial.judged.verdict, Verdict::Held, "{:?}", trial.judged);
    // And the waits include all unserved contenders, even those still waiting at the end of the phase
    let unserved = &trial.histograms[&Measure::Unserved];
    let waiting = unserved.len() - outcomes.get(Outcome::TimedOut);
    assert!((1..=6).contains(&waiting), "{waiting} of 6 contenders were waiting when the phase ended");
    let wait = trial.latencies()[&Measure::Wait];
    assert_eq!(wait.count, outcomes.get(Outcome::Acquired) + unserved.len());
    // The longest waits are unserved, unless a pause of the host made a served wait longer
    let longest_served = trial.histograms[&Measure::Wait].max();
    assert!(wait.known < 1.0 || longest_served >= unserved.max(), "{wait:?}");
    assert!(wait.max_us >= 350_000, "{wait:?}");
}

#[tokio::test]
async fn contender_that_never_acquires_counts_as_an_unserved_wait() {
    // Given a lock held for longer than the measured phase
    let lines =
        "strategies = [\"predecessor-watch\"]\ncontenders = 2\nhold = \"10s\"\nduration = \"1500ms\"\n";
    let trial = trials::run_one(lines).await;
    // Then the other contender's wait is unfinished, and as long as the phase unless the host delayed its start
    assert_eq!(trial.measured.acquired(), 1);
    let unserved = &trial.histograms[&Measure::Unserved];
    assert_eq!(unserved.len(), 1);
    assert!((500_000..=1_520_000).contains(&unserved.max()), "{} us", unserved.max());
    let starved: Vec<u64> = trial.tallies.iter().map(|tally| tally.unserved).collect();
    assert_eq!(starved.iter().sum::<u64>(), 1, "{starved:?}");
}

#[tokio::test]
async fn herd_drains_in_time() {
    let lines = "strategies = [\"parent-watch\"]\ncontenders = 200\nhold = \"0ms\"\nduration = \"1s\"\n\
                 session_timeout = \"20s\"\n";
    let trial = trials::run_one(lines).await;
    assert_eq!(trial.cut_short, None);
    assert!(trial.measured.outcomes.get(Outcome::Acquired) > 0);
}

#[tokio::test]
async fn readers_hold_together_but_never_with_a_writer() {
    let lines = "strategies = [\"shared-parent-watch\", \"shared-predecessor-watch\", \"curator-read-write\", \
                 \"kazoo-read-write\"]\ncontenders = 8\nread_ratio = 0.8\nhold = \"20ms\"\nacquisitions = 15\n";
    for trial in trials::run(lines).await {
        let (label, reads) = (&trial.spec.strategy.label, trial.measured.reads_acquired);
        assert_eq!(trial.judged.verdict, Verdict::Held, "{label}");
        assert!(trial.most_inside > 1, "{label}: {}", trial.most_inside);
        assert!(reads > 0 && reads < trial.measured.acquired(), "{label}: {reads}");
        let readers = figures::MEAN_READERS.of(&trial).unwrap();
        assert!(readers > 0.5, "{label}: {readers}");
        let samples = |measure| trial.histograms.get(&measure).map_or(0, |samples| samples.len());
        assert_eq!(samples(Measure::ReadWait), reads, "{label}");
        assert_eq!(reads + samples(Measure::WriteWait), samples(Measure::Wait), "{label}");
    }
}

#[tokio::test]
async fn mutex_treats_every_request_as_a_write() {
    let lines = "strategies = [\"curator-mutex\"]\ncontenders = 4\nread_ratio = 1\nhold = \"5ms\"\nacquisitions = 30\n";
    let trial = trials::run_one(lines).await;
    assert_eq!((trial.judged.verdict, trial.most_inside), (Verdict::Held, 1));
    assert_eq!(trial.measured.reads_acquired, trial.measured.acquired());
}

#[tokio::test]
async fn sessions_are_spread_evenly_over_the_servers() {
    // Given so many sessions that a random choice of servers would not spread them evenly
    let lines =
        "strategies = [\"predecessor-watch\"]\ncontenders = 30\nhold = \"1ms\"\nduration = \"200ms\"\n";
    let trial = trials::run_one(lines).await;
    for server in &trial.servers {
        let connections = server.after["zk_num_alive_connections"];
        assert!(connections >= 10, "{}: {connections}", server.address);
    }
}

#[tokio::test]
async fn trial_reports_an_outage_of_the_ensemble_and_stays_valid() {
    // Given servers that no other test uses meanwhile
    let local = ensemble::alone_of(3).await;
    let pids = local.pids();
    let signal = |sent| pids.iter().for_each(|pid| program::signal(*pid, sent));
    // When all servers are paused for two seconds in the middle of the trial
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 5\nhold = \"20ms\"\nacquisitions = 40\n";
    let pause = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        signal(Signal::STOP);
        tokio::time::sleep(Duration::from_millis(2_000)).await;
        signal(Signal::CONT);
    };
    let trial = trials::run_while(&local, lines, pause).await;
    // Then the results report the length of the outage, and the trial is valid
    let stood = trial.standstill.unwrap();
    assert!(stood.lasted_us > 1_500_000, "{stood:?}");
    let silent = stood.signs.iter().filter(|sign| sign.contains("did not answer")).count();
    assert_eq!(silent, 3, "silent servers: {stood:?}");
    assert!(stood.began_us >= 0, "{stood:?}");
    assert_eq!((trial.health.invalid, trial.cut_short), (None, None));
    let wait = trial.histograms[&Measure::Wait].max();
    assert!(wait > 1_500_000, "the longest wait was {wait} us");
    assert!(!matches!(trial.judged.verdict, Verdict::Violated(_)), "{:?}", trial.judged);
}

#[tokio::test]
async fn holder_releases_early_when_a_waiter_requests_revocation() {
    // Given holds longer than the trial
    let acquired = async |params: &str| {
        let strategy = format!("strategies = [{{ name = \"curator-mutex\"{params} }}]");
        let lines = format!("{strategy}\ncontenders = 3\nhold = \"1h\"\nduration = \"3s\"\n");
        let trial = trials::run_one(&lines).await;
        assert_eq!((trial.violation_count, trial.most_inside), (0, 1), "{}", trial.spec.strategy.label);
        assert!(trial.errors.is_empty(), "{}: {:?}", trial.spec.strategy.label, trial.errors);
        trial.measured.acquired()
    };
    let (none, allowed, asked) = tokio::join!(
        acquired(""),
        acquired(", revocation = \"allowed\""),
        acquired(", revocation = \"asked-for\", revoke_after = \"100ms\"")
    );
    // Then the first holder keeps the lock even if it allows revocation, because no waiter requests revocation
    assert_eq!((none, allowed), (1, 1));
    // And the holder hands the lock over when waiters request revocation
    assert!(asked >= 4, "{asked}");
}
