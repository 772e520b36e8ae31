//! Every kind of fault on real servers. Each fault has a visible effect and is healed. No contender enters before
//! the previous holder's node is deleted, no contender is stuck, and no node is left behind.

use crate::support::breakable::{self, Breakable};
use crate::support::faults::needs_links;
use crate::support::trials;
use crate::support::{depth, ensemble};
use std::time::Duration;

use zklockbench_core::{catalog::fault::Capability, measure::RequestKind};
use zklockbench_ensemble::fault;
use zklockbench_record::Trial;
use zklockbench_scenario::TrialSpec;

/// Each kind of fault, its parameters, and the length of the measured phase in seconds.
const ASKED: &[(&str, &str, u32)] = &[
    ("kill", "target = \"leader\"\nduration = \"2s\"", 3),
    ("restart", "target = \"leader\"\nduration = \"2s\"", 3),
    ("rolling-restart", "", 2),
    ("pause", "target = \"follower\"\nduration = \"2s\"", 3),
    ("wipe", "duration = \"2s\"", 3),
    ("lose-majority", "duration = \"2s\"", 3),
    ("counter-near-end", "left = 1000000", 2),
    ("isolate", "target = \"leader\"\nduration = \"8s\"", 9),
    ("partition", "shape = \"minority\"\nduration = \"8s\"", 9),
    ("delay", "latency = \"10ms\"\nduration = \"1s\"", 3),
    ("bandwidth", "bytes_per_second = 50000\nduration = \"1s\"", 3),
    ("stall", "target = \"holder\"\nduration = \"5s\"", 7),
    ("reset", "target = \"all\"", 3),
    ("refuse", "target = \"holder\"\nduration = \"1s\"", 3),
    ("drop-reply", "target = \"any\"\nrequest = \"create\"", 3),
    ("drop-request", "target = \"any\"\nrequest = \"delete\"", 3),
    ("crash", "target = \"holder\"", 6),
    ("freeze", "target = \"holder\"\nduration = \"5s\"", 7),
    ("expire", "target = \"holder\"", 3),
    ("slow-consumer", "lag = \"10ms\"\nduration = \"1s\"", 3),
    ("clock-jump", "by = \"1h\"", 3),
    ("burst", "duration = \"500ms\"", 3),
];

/// Maximum delay in the detection of a new leader.
const LOOK: Duration = Duration::from_secs(10);

/// Locks with different ways of waiting, assigned to the kinds of faults in turn.
const LOCKS: [&str; 5] = ["predecessor-watch", "curator-mutex", "kazoo", "ticket", "parent-watch"];

/// Locks that join by count.
const BY_COUNT: [&str; 4] = [
    "\"count\"",
    "{ name = \"curator-mutex\", join = \"count\" }",
    "{ name = \"predecessor-watch\", join = \"count\" }",
    "{ name = \"ahead\", join = \"count\" }",
];

/// A trial of a lock under this kind of fault.
fn spec(strategy: &str, load: &str, (kind, asked, seconds): (&str, &str, u32)) -> TrialSpec {
    let lines = format!(
        "strategies = [{strategy}]\n{load}\nhold = \"50ms\"\nduration = \"{seconds}s\"\n\
         session_timeout = \"3s\"\nacquire_timeout = \"90s\"\n[[fault]]\nkind = \"{kind}\"\nat = \"500ms\"\n{asked}\n"
    );
    trials::plan(&lines).remove(0)
}

/// Kinds of faults whose required capability matches `needs`, with their positions among all kinds.
fn asked(
    needs: impl Fn(Capability) -> bool,
) -> impl Iterator<Item = (usize, (&'static str, &'static str, u32))> {
    let is_meant = move |kind: &str| needs(fault::find(kind).unwrap().card.needs);
    ASKED.iter().copied().enumerate().filter(move |(_, (kind, ..))| is_meant(kind))
}

/// One trial for each of these kinds of faults. The trials use the locks in turn.
fn plan(needs: impl Fn(Capability) -> bool) -> Vec<TrialSpec> {
    let of = |number: usize| format!("\"{}\"", LOCKS[number % LOCKS.len()]);
    asked(needs).map(|(number, asked)| spec(&of(number), "contenders = 6", asked)).collect()
}

/// Like [`plan`], with locks that join by count. The faults lose joins and releases instead of creates and deletes.
fn plan_by_count(needs: impl Fn(Capability) -> bool) -> Vec<TrialSpec> {
    let trial = |(number, (kind, asked, seconds)): (usize, (&str, &str, u32))| {
        let asked = asked.replace("\"create\"", "\"join\"").replace("\"delete\"", "\"release\"");
        // The think time often leaves a contender alone, so a join by count succeeds.
        let load = "contenders = 3\nthink = \"60ms\"";
        spec(BY_COUNT[number % BY_COUNT.len()], load, (kind, &asked, seconds))
    };
    asked(needs).map(trial).collect()
}

/// Runs half of the trials on each of two ensembles. On each ensemble, only one trial runs at a time, because a
/// trial needs all servers.
async fn break_servers([one, other]: [Breakable; 2], plan: &[TrialSpec]) {
    let half = async |local: Breakable, plan: &[TrialSpec]| {
        for spec in plan {
            let course = trials::uninterrupted();
            assert_kept(&trials::run_beside(&local, spec, trials::known(spec), course).await);
        }
    };
    let (first, second) = plan.split_at(plan.len() / 2);
    tokio::join!(half(one, first), half(other, second));
}

fn assert_kept(trial: &Trial) {
    let [fault] = &trial.faults[..] else { panic!("{}: {:?}", trial.spec.strategy.label, trial.faults) };
    let name = format!("{} under {}", trial.spec.strategy.label, fault.label);
    println!(
        "{name}: {}; a new leader after {:?} us; no contender was served for up to {:?} us, and the first was \
         served {:?} us after the effect; {:?}",
        fault.target, fault.elected_us, fault.longest_gap_us, fault.recovered_us, trial.excused
    );
    trials::assert_kept(trial);
    let order = trial.ensemble_order.as_ref().unwrap_or_else(|| panic!("{name}: the logs show no order"));
    assert!(order.checked_by_zxid > 0 && order.too_early == 0, "{name}: {order:?}");
    let verdict = &trial.judged.verdict;
    assert!(trials::held_unless_the_host_was_busy(verdict), "{name}: {verdict:?}");
    assert_eq!(trial.fencing.stale_rejected, trial.fencing.stale, "{name}: {:?}", trial.fencing);
}

#[test]
fn every_kind_of_fault_is_tested_in_this_file() {
    let asked: Vec<&str> = ASKED.iter().map(|(kind, ..)| *kind).collect();
    let kinds: Vec<&str> = fault::cards().into_iter().map(|card| card.name).collect();
    assert_eq!(asked, kinds);
}

#[tokio::test]
async fn locks_ensure_exclusion_under_every_contender_and_connection_fault() {
    // All trials run concurrently, because each fault hits only contenders of its own trial.
    let plan = plan(|capability| !capability.reaches_servers());
    let local = ensemble::alone().await;
    let trials = trials::run_side_by_side(&local, &plan).await;
    trials.iter().for_each(assert_kept);
}

#[tokio::test]
#[ignore = "long: every fault again, with other locks"]
async fn locks_that_join_by_count_ensure_exclusion_under_every_fault() {
    let plan = plan_by_count(|capability| !capability.reaches_servers());
    let local = breakable::plain().await;
    for trial in trials::run_side_by_side(&local, &plan).await {
        assert_kept(&trial);
        let counted = trial.whole.requests.get(RequestKind::Multi);
        assert!(counted > 0, "{}: no join by count", trial.spec.strategy.label);
    }
    let plan = plan_by_count(|capability| capability.reaches_servers() && !needs_links(capability));
    let both = [breakable::apart_if_possible().await, breakable::apart_if_possible().await];
    break_servers(both, &plan).await;
}

#[tokio::test]
async fn locks_ensure_exclusion_under_every_server_fault() {
    let plan = plan(|capability| capability.reaches_servers() && !needs_links(capability));
    let both = [breakable::apart_if_possible().await, breakable::apart_if_possible().await];
    break_servers(both, &plan).await;
}

#[tokio::test]
async fn locks_ensure_exclusion_under_every_link_fault() {
    let (Some(one), Some(other)) = (breakable::apart().await, breakable::apart().await) else { return };
    break_servers([one, other], &plan(needs_links)).await;
}

#[tokio::test]
#[ignore = "long: fifty contenders"]
async fn fifty_contenders_recover_without_errors_when_the_leader_is_killed() {
    let local = breakable::plain().await;
    for repetition in 0..depth::of(1, 5) {
        let lines = "strategies = [\"curator-mutex\"]\ncontenders = 50\nhold = \"1ms\"\nduration = \"6s\"\n\
                     session_timeout = \"30s\"\n[[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"1s\"\n\
                     duration = \"2s\"\n";
        let trial = trials::run_side_by_side(&local, &trials::plan(lines)).await.remove(0);
        assert_kept(&trial);
        // Even a ten-second election on a slow host is shorter than the timeouts, so there are no errors and no lost
        // sessions.
        assert!(trial.errors.is_empty(), "{:?}", trial.errors);
        assert_eq!((trial.sessions.expired, trial.sessions.rejoined), (0, 0));
        let gap = Duration::from_micros(trial.faults[0].longest_gap_us.unwrap());
        let elected = Duration::from_micros(trial.faults[0].elected_us.unwrap());
        println!(
            "repetition {repetition}: a new leader after {elected:?}; no contender was served for {gap:?}"
        );
        assert!(elected < gap + LOOK && gap < Duration::from_secs(30), "{elected:?} {gap:?}");
    }
}
