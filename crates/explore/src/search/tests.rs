use std::cell::{Cell, RefCell};

use super::*;
use crate::cast::Lock;
use crate::stale::Servers;
use zklockbench_core::catalog::{ParamValue, Params};
use zklockbench_record::StepKind;
use zklockbench_zk::{Access, Target};

/// Fake pool in which each run ends immediately. Takes the outcomes from the end of `faults`.
#[derive(Default)]
struct Fake {
    waiting: RefCell<Vec<Schedule>>,
    faults: RefCell<Vec<Option<Fault>>>,
    /// Text of each run's step after its acquisition; `None` for a run without an acquisition. The last text is next.
    steps: RefCell<Vec<Option<&'static str>>>,
    forgotten: Cell<bool>,
}

fn outcome(schedule: Schedule, fault: Option<Fault>) -> Outcome {
    Outcome::of(schedule, fault)
}

fn step(what: &str) -> TraceStep {
    TraceStep { contender: 0, kind: StepKind::Deed, what: what.into() }
}

impl Runs for Fake {
    fn add(&self, schedule: Schedule, _: Option<Nodes>, _: bool) {
        self.waiting.borrow_mut().push(schedule);
    }

    fn next(&self, _: Instant) -> Result<Option<Outcome>, Error> {
        let next = self.waiting.borrow_mut().pop();
        let after = self.steps.borrow_mut().pop();
        let trace = after.flatten().map_or_else(Vec::new, |after| vec![step(HOLDS), step(after)]);
        let fault = self.faults.borrow_mut().pop().flatten();
        Ok(next.map(|schedule| {
            let ephemeral = if schedule.acquires_again { vec!["c1.node2".to_owned()] } else { Vec::new() };
            let left = Nodes { ephemeral, ..Nodes::default() };
            Outcome { trace, left, ..outcome(schedule, fault) }
        }))
    }

    fn forget(&self) {
        self.forgotten.set(true);
    }
}

fn site() -> Site {
    let entry = *zklockbench_locks::find("count").unwrap();
    let lock = Lock { label: "count".into(), entry, params: Params::new(), driven: None };
    let target = Target { connect: String::new(), access: Access::default() };
    let servers = Servers { home: String::new(), other: None, held: Err("there is one server".into()) };
    Site { lock, target, servers, root: String::new(), contenders: 2, worlds: 1 }
}

fn search<'a>(site: &'a Site, is_late: bool, faults: &[Option<Fault>]) -> Search<'a, Fake> {
    let now = Instant::now();
    let ends_at_last = if is_late { now } else { now + Duration::from_secs(60) };
    let pool = Fake { faults: RefCell::new(faults.to_vec()), ..Fake::default() };
    Search::of(pool, site, now, ends_at_last, &|| false)
}

fn fault(act: Act) -> Schedule {
    Schedule::with(2, vec![Decision::new(act, "c1: create own node")])
}

#[test]
fn repetitions_after_the_deadline_do_not_extend_the_budget() {
    let site = site();
    let mut search = search(&site, false, &[Some(Fault::Stuck); 2]);
    search.count(vec![("x", outcome(fault(Act::Kill), Some(Fault::Stuck)))]).unwrap();
    assert_eq!(search.findings[&("x", Fault::Stuck)].seen, Seen { times: 3, runs: 3 });
    assert!(search.all(vec![fault(Act::Expire)]).unwrap().is_empty());
    assert_eq!(search.tally("expired session").unexplored, 1);
}

#[test]
fn violation_is_a_finding_even_if_it_does_not_always_recur() {
    let site = site();
    let mut search = search(&site, false, &[None, Some(Fault::Violated)]);
    search.count(vec![("x", outcome(fault(Act::Kill), Some(Fault::Violated)))]).unwrap();
    assert_eq!(search.findings[&("x", Fault::Violated)].seen, Seen { times: 2, runs: 3 });
    search.count(vec![("y", outcome(fault(Act::Kill), Some(Fault::Stuck)))]).unwrap();
    assert_eq!((search.tally("y").flaky, search.tally("y").stuck), (1, 0));
}

#[test]
fn stuck_finding_is_described_by_its_last_repetition() {
    let site = site();
    let mut search = search(&site, false, &[Some(Fault::Stuck); 2]);
    let first = Outcome { needs: 7, ..outcome(fault(Act::Kill), Some(Fault::Stuck)) };
    search.count(vec![("x", first)]).unwrap();
    assert_eq!(search.findings[&("x", Fault::Stuck)].needs, 0);
}

#[test]
fn stuck_contender_is_reported_as_unexplored_if_its_schedule_was_not_repeated() {
    let site = site();
    let mut search = search(&site, true, &[]);
    let failed = |fault_of| outcome(fault(Act::Kill), Some(fault_of));
    search.count(vec![("x", failed(Fault::Violated)), ("x", failed(Fault::Stuck))]).unwrap();
    assert_eq!(search.findings[&("x", Fault::Violated)].seen, Seen::ONCE);
    let why = search.unexplored.keys().next().unwrap();
    assert!(why.starts_with("stuck, but not repeated in time"), "{why}");
}

#[test]
fn contender_count_includes_a_waiter_behind_another_waiter() {
    let mut site = site();
    assert_eq!(with_a_middle(&site), 3);
    site.lock.entry = *zklockbench_locks::find("curator-semaphore").unwrap();
    site.lock.params = [("leases".to_owned(), ParamValue::Count(2))].into();
    assert_eq!(with_a_middle(&site), 4);
}

#[test]
fn moves_between_servers_are_listed_as_untried_if_there_is_only_one_server() {
    let mut site = site();
    let scope = Scope { budget: Duration::ZERO, pairs: false };
    let lists = |site: &Site, what: &str| not_tried(site, scope).iter().any(|one| one.starts_with(what));
    assert!(lists(&site, "moves between servers") && !lists(&site, "moves to a stale server"));
    site.servers.other = Some(String::new());
    assert!(!lists(&site, "moves between servers"));
    assert!(lists(&site, "moves to a stale server (there is one server)"));
}

#[test]
fn acquires_without_a_wait_are_listed_as_untried_unless_the_lock_never_waits() {
    let mut site = site();
    let lists = |site: &Site| {
        let scope = Scope { budget: Duration::ZERO, pairs: false };
        not_tried(site, scope).iter().any(|one| one == "acquires that must not wait")
    };
    assert!(lists(&site));
    site.lock.params = [("blocking".to_owned(), ParamValue::Bool(false))].into();
    assert!(!lists(&site));
}

#[test]
fn findings_are_sorted_by_kind_then_by_number_of_decisions() {
    let finding = |fault, needs, order: Option<Vec<String>>| {
        let schedule = Schedule { order, ..Schedule::undisturbed(2) };
        Finding::of(Outcome { needs, ..outcome(schedule, None) }, fault)
    };
    let mut all = [
        finding(Fault::Stuck, 0, None),
        finding(Fault::Violated, 1, None),
        finding(Fault::Violated, 0, Some(Vec::new())),
        finding(Fault::Violated, 0, None),
    ];
    all.sort_by_key(Finding::rank);
    let ranks = all.map(|one| (one.fault, one.needs, one.schedule.order.is_some()));
    let violated = Fault::Violated;
    assert_eq!(
        ranks,
        [(violated, 0, false), (violated, 0, true), (violated, 1, false), (Fault::Stuck, 0, false)]
    );
}

/// Repeats undisturbed runs with these steps; returns the last step of the base, and the number of unexplored schedules.
fn base(steps: &[Option<&'static str>]) -> (Result<Option<String>, String>, u64) {
    let site = site();
    let mut search = search(&site, false, &[]);
    search.deadline = search.ends_at_last;
    search.pool.steps = RefCell::new(steps.iter().rev().copied().collect());
    let base = search.undisturbed_later(2, &[], "no faults were tried");
    let last = base.map(|run| run.and_then(|run| run.trace.last().map(|step| step.what.clone())));
    (last.map_err(|error| error.to_string()), search.tally(NO_FAULT).unexplored)
}

#[test]
fn base_of_all_faults_is_the_second_of_two_equal_undisturbed_runs() {
    assert_eq!(base(&[Some("a"), Some("a")]), (Ok(Some("a".into())), 0));
    assert_eq!(base(&[Some("cold"), Some("a"), Some("b"), Some("b")]), (Ok(Some("b".into())), 0));
    let all_differ = [Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), Some("f")];
    assert_eq!(base(&all_differ), (Ok(Some("f".into())), 1));
}

/// Prepares undisturbed runs with these last steps and faults.
fn undisturbed<'a>(site: &'a Site, steps: &[&'static str], faults: &[Option<Fault>]) -> Search<'a, Fake> {
    let mut search = search(site, false, &faults.iter().rev().copied().collect::<Vec<_>>());
    search.deadline = search.ends_at_last;
    search.pool.steps = RefCell::new(steps.iter().rev().copied().map(Some).collect());
    search
}

#[test]
fn violation_in_an_early_undisturbed_run_is_a_finding() {
    let site = site();
    let mut search = undisturbed(&site, &["cold", "a", "a"], &[Some(Fault::Violated)]);
    search.undisturbed(2, &[]).unwrap().unwrap();
    // The last run and the run with second acquisitions were held.
    assert_eq!((search.tally(NO_FAULT).violated, search.tally(NO_FAULT).held), (1, 2));
}

#[test]
fn nodes_left_by_second_acquisitions_are_a_finding_of_the_undisturbed_run_only() {
    let site = site();
    let left = Some(Fault::NodeLeft);
    let mut search = undisturbed(&site, &["a", "a"], &[None, None, left, left, left]);
    search.undisturbed(2, &[]).unwrap().unwrap();
    let found = &search.findings[&(NO_FAULT, Fault::NodeLeft)];
    assert!(found.schedule.acquires_again && found.schedule.decisions.is_empty());
    assert_eq!(found.seen, Seen { times: 3, runs: 3 });
    let expected = &search.usually_left[&(2_usize, Vec::<usize>::new())];
    assert_eq!(expected.ephemeral, ["c1.node2"]);
}

#[test]
fn undisturbed_run_before_the_end_of_an_exploration_is_counted() {
    let (site, calls) = (site(), Cell::new(0));
    let is_stopped = || calls.replace(calls.get() + 1) > 0;
    let mut search =
        Search { is_stopped: &is_stopped, ..undisturbed(&site, &["cold"], &[Some(Fault::Violated)]) };
    assert!(search.undisturbed(2, &[]).unwrap().is_some());
    assert_eq!((search.tally(NO_FAULT).violated, search.tally(NO_FAULT).unexplored), (1, 1));
    assert!(search.unexplored.contains_key(STOPPED), "{:?}", search.unexplored);
}

#[test]
fn learning_does_not_repeat_a_stuck_undisturbed_run_as_a_failure() {
    let site = site();
    let mut search = undisturbed(&site, &["a", "a"], &[Some(Fault::Stuck); 2]);
    assert_eq!(search.learn(2, &[]).unwrap().len(), 2);
    assert_eq!((search.runs, search.findings.len()), (2, 0));
}

#[test]
fn stopped_exploration_does_not_blame_the_budget() {
    let site = site();
    let mut search = Search { is_stopped: &|| true, ..search(&site, true, &[]) };
    search.all(vec![fault(Act::Expire)]).unwrap();
    assert!(search.unexplored.contains_key(STOPPED), "{:?}", search.unexplored);
}

#[test]
fn violation_of_a_failed_undisturbed_run_is_kept() {
    let failed = |fault_of| Outcome {
        unexplored: Some("the driver exited".into()),
        trace: vec![step(HOLDS)],
        ..outcome(Schedule::undisturbed(2), Some(fault_of))
    };
    assert!(carried_out(failed(Fault::Violated)).is_ok());
    assert!(carried_out(failed(Fault::Stuck)).is_err());
}

#[test]
fn undisturbed_run_without_an_acquisition_is_no_base() {
    assert_eq!(base(&[None, None]), (Ok(None), 1));
    let refused =
        Outcome { sentence: "c1's acquire failed".into(), ..outcome(fault(Act::Kill), Some(Fault::Refused)) };
    let error = carried_out(refused).unwrap_err().to_string();
    assert!(error.contains("no contender got the lock") && error.contains("c1's acquire failed"), "{error}");
}

#[test]
fn readers_compete_with_a_writer_before_between_and_after_them() {
    assert!(readers(2, 3).eq([
        (2, &[1][..]),
        (2, &[0]),
        (3, &[2]),
        (3, &[1, 2]),
        (3, &[0, 2]),
        (3, &[0, 1])
    ]));
    assert!(readers(1, 3).all(|(contenders, readers)| readers.iter().all(|reader| *reader < contenders)));
}
