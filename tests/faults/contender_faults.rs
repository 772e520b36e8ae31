//! Behaviour of locks when contenders die, freeze, or lose their sessions.

use crate::support::trials::{self, assert_kept};
use crate::support::{depth, ensemble};
use std::time::Duration;

use zklockbench_core::catalog::fault::{FaultChoice, Start, Target};
use zklockbench_core::catalog::{Holders, Params};
use zklockbench_core::measure::Outcome;
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::STRATEGIES;
use zklockbench_record::{Deed, Trial};
use zklockbench_scenario::{OnLost, TrialSpec};

const SECOND: Duration = Duration::from_secs(1);

fn fault(kind: &str, target: &'static str) -> FaultChoice {
    FaultChoice {
        kind: kind.into(),
        target: Target::Word(target),
        start: Start::At(Duration::from_millis(500)),
        duration: None,
        times: 1,
        every: Duration::ZERO,
        jitter: Duration::ZERO,
        params: Params::new(),
        label: format!("{kind} {target}"),
    }
}

/// A trial with four contenders, holds of 40 ms, and a session timeout of 1 s.
fn spec(strategy: &str, seconds: u32, faults: &[FaultChoice]) -> TrialSpec {
    held_for("40ms", strategy, seconds, faults)
}

fn held_for(hold: &str, strategy: &str, seconds: u32, faults: &[FaultChoice]) -> TrialSpec {
    let lines = format!(
        "strategies = [{strategy}]\ncontenders = 4\nhold = \"{hold}\"\nduration = \"{seconds}s\"\n\
         session_timeout = \"1s\"\n"
    );
    let mut spec = trials::plan(&lines).remove(0);
    spec.faults = faults.to_vec();
    spec
}

/// Runs the trials concurrently, because each fault hits only contenders of its own trial.
async fn broken(plan: &[TrialSpec]) -> Vec<Trial> {
    let local = ensemble::alone().await;
    trials::run_side_by_side(&local, plan).await
}

/// Runs one trial per lock.
async fn each_broken(strategies: &[&str], seconds: u32, faults: &[FaultChoice]) -> Vec<Trial> {
    let plan: Vec<_> =
        strategies.iter().map(|strategy| spec(&format!("\"{strategy}\""), seconds, faults)).collect();
    broken(&plan).await
}

/// One lock for each way of waiting. With --long, tests use every mutex.
const CHOSEN: [&str; 5] = ["polling", "ephemeral-node", "predecessor-watch", "curator-mutex", "baton"];

/// Locks that guarantee exclusion with one holder. Excludes locks with a queue inside the process, in which a
/// frozen contender blocks its neighbours.
fn mutexes() -> impl Iterator<Item = &'static str> {
    let is_one = |entry: &&zklockbench_locks::Entry| {
        let given = entry.card.guarantees;
        let queues_within = ["local-then-remote", "cohort"].contains(&entry.card.name);
        given.exclusive && given.holders == Holders::One && !queues_within
    };
    let names = STRATEGIES.iter().filter(is_one).map(|entry| entry.card.name);
    names.filter(|name| depth::is_long() || CHOSEN.contains(name))
}

#[tokio::test]
async fn lock_of_a_dead_holder_is_free_only_after_the_session_timeout() {
    let strategies = ["predecessor-watch", "curator-mutex", "ephemeral-node", "baton"];
    let trials = each_broken(&strategies, 4, &[fault("crash", "holder")]).await;
    for (strategy, trial) in strategies.iter().zip(&trials) {
        assert_kept(trial);
        let [crash] = &trial.faults[..] else { panic!("{:?}", trial.faults) };
        assert!(crash.target.starts_with("contender ") && crash.target.ends_with(" (holder)"), "{crash:?}");
        // The timeout runs from the last heartbeat. Clients send a heartbeat every third of the timeout.
        let gap = Duration::from_micros(crash.longest_gap_us.unwrap());
        assert!(gap > SECOND / 2 && gap < 60 * SECOND, "{strategy}: {gap:?}");
        println!("{strategy}: a dead holder's lock was free after {gap:?}, with a session timeout of 1 s");
        // On a busy host, the sessions of other contenders may also expire.
        let (zombies, expired) = (trial.excused.zombies, trial.sessions.expired);
        assert!(zombies == 0 || expired > 0, "a dead contender is not a zombie: {zombies}");
    }
}

#[tokio::test]
async fn stale_writes_are_refused_when_a_holder_freezes_beyond_its_timeout() {
    let freeze = FaultChoice { duration: Some(3 * SECOND), ..fault("freeze", "holder") };
    let frozen = |strategy: &str| {
        // Pollers must find the lock free before the zombie resumes.
        let often = if strategy == "polling" { ", poll_interval = \"50ms\"" } else { "" };
        // The chosen contender must still hold the lock when it is frozen, so holds are long.
        held_for("100ms", &format!("{{ name = \"{strategy}\"{often} }}"), 4, std::slice::from_ref(&freeze))
    };
    let trials = broken(&mutexes().map(frozen).collect::<Vec<_>>()).await;
    for (strategy, trial) in mutexes().zip(&trials) {
        assert_kept(trial);
        let (excused, fencing) = (trial.excused, trial.fencing);
        println!("{strategy}: {excused:?} {fencing:?} {:?}", trial.faults[0]);
        // Then two contenders believe that they hold the lock
        assert!(excused.zombies > 0, "{strategy}: {excused:?}");
        assert!(excused.longest_unsafe_us > 100_000, "{strategy}: {excused:?}");
        // And the zombie's later writes are refused if the lock provides a fencing token
        if fencing.writes > 0 {
            assert!(fencing.stale > 0, "{strategy}: {fencing:?}");
            assert_eq!(fencing.stale_rejected, fencing.stale, "{strategy}: {fencing:?}");
            assert_eq!(fencing.sound_rejected, 0, "{strategy}: {fencing:?}");
        }
        let verdict = &trial.judged.verdict;
        let is_held = trials::held_unless_the_host_was_busy(verdict);
        assert!(is_held, "{strategy}: a zombie is not a violation: {verdict:?}");
    }
}

#[tokio::test]
async fn cohort_does_not_hand_over_a_lock_that_its_process_has_lost() {
    // Given two processes of two contenders each, in which every second holder uses its neighbour's node
    let cohort = "{ name = \"cohort\", contenders_per_process = 2, max_local_turns = 2 }";
    let freeze = FaultChoice { duration: Some(2 * SECOND), ..fault("freeze", "holder") };
    let often = |kind| FaultChoice { times: 3, every: SECOND, ..fault(kind, "holder") };
    let faults = [freeze.clone(), freeze.clone(), freeze.clone(), freeze, often("crash"), often("expire")];
    // When a holder freezes for longer than its session timeout, dies, or loses its session
    let trials = broken(&faults.map(|fault| spec(cohort, 5, &[fault]))).await;
    // Then no contender enters with a node that no longer exists
    for trial in &trials {
        let (excused, fencing) = (trial.excused, trial.fencing);
        println!("{}: {excused:?} {fencing:?}", trial.faults[0].kind);
        assert_kept(trial);
        assert_eq!((fencing.stale_rejected, fencing.sound_rejected), (fencing.stale, 0), "{fencing:?}");
        let is_held = trials::held_unless_the_host_was_busy(&trial.judged.verdict);
        assert!(is_held, "{:?}: {:?}", trial.judged.verdict, trial.faults);
    }
}

#[tokio::test]
async fn holder_frozen_for_less_than_its_timeout_keeps_the_lock() {
    // Given a session timeout that is much longer than the freeze, however late it ends on a busy host
    let session_timeout = 10 * SECOND;
    let freeze = FaultChoice { duration: Some(SECOND / 4), ..fault("freeze", "holder") };
    let spec = TrialSpec { session_timeout, ..spec("\"predecessor-watch\"", 2, &[freeze]) };
    let trial = broken(&[spec]).await.remove(0);
    assert_kept(&trial);
    assert_eq!((trial.excused.zombies, trial.fencing.stale, trial.sessions.expired), (0, 0, 0));
    assert!(trial.faults[0].longest_gap_us.unwrap() > 200_000);
}

#[tokio::test]
async fn expired_session_frees_the_lock_at_once() {
    // Given a session timeout that is longer than a recovery on a busy host
    let session_timeout = 30 * SECOND;
    let expire = [FaultChoice { times: 5, every: SECOND / 2, ..fault("expire", "holder") }];
    let strategies = ["predecessor-watch", "curator-mutex", "kazoo", "ticket"];
    let specs = strategies
        .map(|strategy| TrialSpec { session_timeout, ..spec(&format!("\"{strategy}\""), 4, &expire) });
    let trials = broken(&specs).await;
    for (strategy, trial) in strategies.iter().zip(&trials) {
        assert_kept(trial);
        assert_eq!(trial.faults.len(), 5);
        for fault in &trial.faults {
            println!("{strategy}: next acquisition {:?} us after the session ended", fault.recovered_us);
            assert!(fault.recovered_us.unwrap() < 20_000_000, "{strategy}: {fault:?}");
        }
        // On a busy host, the fault may hit a contender twice: until the contender is notified, it counts as the
        // holder.
        assert!(trial.sessions.rejoined >= 3, "{strategy}: {:?}", trial.sessions);
    }
}

#[tokio::test]
async fn every_acquire_has_exactly_one_outcome() {
    // Given waiters that time out, and waiters and holders that die
    let crash = |target| {
        format!(
            "[[fault]]\nkind = \"crash\"\ntarget = \"{target}\"\nat = \"500ms\"\n\
                                  times = 2\nevery = \"1200ms\"\n"
        )
    };
    let lines = format!(
        "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"40ms\"\nduration = \"4s\"\nwarm_up = \"0s\"\n\
         session_timeout = \"1s\"\nacquire_timeout = \"300ms\"\n{}{}",
        crash("waiter"),
        crash("holder")
    );
    // When the trial has ended
    let trial = trials::run_with_history(&lines).await;
    // Then each acquire has exactly one outcome
    let history = trial.history.as_ref().unwrap();
    let moments = history.moments().unwrap().map(Result::unwrap);
    let calls = moments.filter(|moment| matches!(moment.deed, Deed::Asks(_))).count();
    let outcomes = trial.whole.outcomes;
    let ended: u64 = Outcome::ALL.into_iter().map(|outcome| outcomes.get(outcome)).sum();
    assert_eq!(ended, calls as u64, "{outcomes:?}");
    // A waiter chosen to die may acquire the lock or time out just before its death.
    assert!((1..=2).contains(&outcomes.get(Outcome::Crashed)), "{outcomes:?}");
    assert!(outcomes.get(Outcome::TimedOut) > 0, "{outcomes:?}");
    // And lost holds are counted separately
    assert!(trial.whole.lost_while_held >= 2, "{:?}", trial.whole.lost_while_held);
}

#[tokio::test]
async fn verdict_is_unknown_if_a_fault_has_no_target_or_never_starts_or_ends() {
    // Given a fault without a target, a fault that never starts, and a freeze that outlasts the load
    let start = Start::At(Duration::ZERO);
    let nowhere = FaultChoice { start, target: Target::Contender(7), ..fault("freeze", "any") };
    let never = FaultChoice { start: Start::AfterAcquisitions(1_000_000), ..fault("reset", "any") };
    let start = Start::AfterAcquisitions(15);
    let late =
        FaultChoice { start, duration: Some(Duration::from_millis(2_990)), ..fault("freeze", "holder") };
    let plan = [nowhere, never, late].map(|fault| spec("\"curator-mutex\"", 3, &[fault]));
    for (trial, proof) in broken(&plan).await.iter().zip(["no contender 7", "never fired", "the load ended"])
    {
        // Then the fault ends with the load, and the verdict states the reason
        let [fault] = &trial.faults[..] else { panic!("{:?}", trial.faults) };
        assert!(!fault.proved && fault.proof.contains(proof) && fault.left.is_none(), "{fault:?}");
        let Verdict::Unknown(why) = &trial.judged.verdict else { panic!("{:?}", trial.judged.verdict) };
        assert!(why.iter().any(|why| why.contains(&fault.proof)), "{why:?}");
        if proof == "never fired" {
            assert_eq!((fault.effective_us, fault.ended_us, fault.recovered_us), (None, None, None));
        }
    }
}

#[tokio::test]
async fn background_tasks_of_a_holder_stop_when_the_holder_dies() {
    // Given holders that list the queue in the background, like the article's class
    let lines = "strategies = [{ name = \"parent-watch\", while_holding = \"relist\" }]\ncontenders = 8\n\
                 hold = \"50ms\"\nduration = \"8s\"\nsession_timeout = \"3s\"\n[[fault]]\nkind = \"crash\"\n\
                 target = \"holder\"\nat = \"500ms\"\ntimes = 2\nevery = \"3500ms\"\n";
    // When two holders die
    let trial = broken(&trials::plan(lines)).await.remove(0);
    // Then the trial and its lock continue
    assert_kept(&trial);
    assert_eq!(trial.faults.len(), 2);
}

#[tokio::test]
async fn connection_fault_also_affects_the_contenders_next_session() {
    // Given a single contender whose connections are refused for three times the session timeout
    let refuse =
        FaultChoice { target: Target::Contender(0), duration: Some(3 * SECOND), ..fault("refuse", "any") };
    let plan = [TrialSpec { contenders: 1, ..spec("\"baton\"", 9, &[refuse]) }];
    let trial = broken(&plan).await.remove(0);
    // Then the contender's next session cannot acquire the lock either, until the fault has healed
    assert_kept(&trial);
    let gap = Duration::from_micros(trial.faults[0].longest_gap_us.unwrap());
    assert!(gap > 5 * SECOND / 2, "the contender acquired again after {gap:?}");
    assert!(trial.sessions.rejoined > 0, "{:?}", trial.sessions);
}

#[tokio::test]
async fn only_holders_that_listen_leave_when_their_session_ends() {
    // Given holds of 1.5 s, and a holder that loses its session or is frozen beyond its session timeout
    let freeze = FaultChoice { duration: Some(3 * SECOND), ..fault("freeze", "holder") };
    let of = |fault: &FaultChoice, on_lost| {
        let spec = held_for("1500ms", "\"predecessor-watch\"", 5, std::slice::from_ref(fault));
        TrialSpec { on_lost, ..spec }
    };
    let expire = fault("expire", "holder");
    let plan = [of(&expire, OnLost::Stop), of(&expire, OnLost::Ignore), of(&freeze, OnLost::Stop)];
    let mut seen = Vec::new();
    // A busy host may delay the fault until the hold is nearly over, delay a notification, or end other sessions.
    for _ in 0..4 {
        let trials = broken(&plan).await;
        trials.iter().for_each(assert_kept);
        let lost: Vec<_> = trials.iter().map(|trial| trial.lost_holds.as_ref().unwrap()).collect();
        let times: Vec<_> =
            lost.iter().map(|lost| (lost.told_max_us().unwrap(), lost.inside_max_us().unwrap())).collect();
        let [(told, left), (ignored, stayed), (thawed, woke)] = times[..] else { panic!("{times:?}") };
        // Then a holder that listens leaves when it is notified of the end
        let leaves = told < 1_200_000 && left < told + 200_000;
        // And a holder that does not listen stays for its entire hold
        let stays = ignored < 1_200_000 && (400_000..1_600_000).contains(&stayed);
        // And a frozen holder notices the end of its session only when it resumes
        let wakes = thawed > 1_000_000 && woke > 1_000_000;
        if lost.iter().all(|lost| lost.count == 1) && leaves && stays && wakes {
            return;
        }
        seen.push(times);
    }
    panic!("times until notified and until outside: {seen:?}");
}

#[tokio::test]
async fn holds_end_at_their_limit_unless_the_holder_is_frozen() {
    // Given holds of 300 ms with a limit of 100 ms, and a holder that is frozen for 2 s, which is less than its
    // session timeout
    let lines = "strategies = [\"predecessor-watch\"]\ncontenders = 4\nhold = \"300ms\"\nhold_limit = \"100ms\"\n\
                 duration = \"5s\"\nsession_timeout = \"10s\"\n";
    let freeze = FaultChoice { duration: Some(2 * SECOND), ..fault("freeze", "holder") };
    let spec = TrialSpec { faults: vec![freeze], ..trials::plan(lines).remove(0) };
    let trial = broken(&[spec]).await.remove(0);
    assert_kept(&trial);
    // Then all other holds end at the limit
    let limited = trial.limited_holds.unwrap();
    assert!(limited.ended_at_limit >= 5, "{limited:?}");
    // And the stuck holder blocks the next contender until it resumes
    let fault = &trial.faults[0];
    let frozen_us = u64::try_from(fault.ended_us.unwrap() - fault.effective_us.unwrap()).unwrap();
    let expected = 1_500_000..2 * frozen_us;
    assert!(limited.overran >= 1, "{limited:?}");
    assert!(expected.contains(&limited.longest_overrun_us), "{limited:?} {frozen_us}");
    assert!(limited.blocked >= 1, "{limited:?}");
    assert!(expected.contains(&limited.longest_blocked_us), "{limited:?} {frozen_us}");
}
