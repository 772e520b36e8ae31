//! `cohort` on a real ensemble: requests of a process, consecutive handovers, and contenders that give up, die, or
//! lose the session that owns the node.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_core::measure::RequestKind;
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::{AcquireError, Held, HoldOver};
use zklockbench_record::{Trial, figures};
use zklockbench_zk::{Failure, Session, SessionState, runtime};

use crate::support::contender::{Contender, LONG, Waiting};
use crate::support::ensemble::shared;
use crate::support::sessions::{Scene, behind_wire, on_scene, target};
use crate::support::trials;

const SHORT: Duration = Duration::from_millis(300);

fn params(size: u64, turns: u64) -> Params {
    Params::from([
        ("contenders_per_process".to_owned(), ParamValue::Count(size)),
        ("max_local_turns".to_owned(), ParamValue::Count(turns)),
    ])
}

/// The contender with this number. A process has ten contenders and hands over at most nine times.
async fn one(scene: &Scene, number: usize) -> Contender {
    one_of(shared(), scene, number, &params(10, 10)).await
}

async fn one_of(connect: &str, scene: &Scene, number: usize, params: &Params) -> Contender {
    Contender::numbered(connect, ("cohort", number), params, scene).await
}

fn token(held: &Held) -> (i64, u32) {
    (held.node.as_ref().unwrap().czxid, held.turn)
}

async fn ends(session: Session) {
    target(shared()).expire(session.key(), LONG).await.unwrap();
}

/// Three contenders of a process: the second holds the lock through the first contender's node, and the third waits.
struct HandedOn {
    first: Contender,
    second: Contender,
    held: Held,
    third: Waiting,
}

async fn handed_on(first: Contender, scene: &Scene) -> HandedOn {
    let (mut first, held) = first.enter().await;
    let second = one(scene, 1).await.queue_up().await;
    let third = one(scene, 2).await.queue_up().await;
    let before = token(&held);
    first.release(held).await.unwrap();
    let (second, held) = second.entered().await;
    assert_eq!(token(&held), (before.0, 1));
    HandedOn { first, second, held, third }
}

#[test]
fn process_of_four_contenders_sends_the_requests_of_a_single_contender() {
    on_scene(async |scene| {
        let (mut first, held) = one(&scene, 0).await.enter().await;
        let mut waits = Vec::new();
        for number in 1..4 {
            waits.push(one(&scene, number).await.queue_up().await);
        }
        let mut tokens = vec![token(&held)];
        first.release(held).await.unwrap();
        for waiting in waits {
            let (mut next, held) = waiting.entered().await;
            tokens.push(token(&held));
            assert_eq!(scene.nodes().await, 1);
            next.release(held).await.unwrap();
            assert_eq!(next.kinds(), [""; 0]);
        }
        assert_eq!(first.kinds(), ["create", "get_children", "delete"]);
        assert_eq!(scene.nodes().await, 0);
        assert!(tokens.is_sorted_by(|one, next| one.0 == next.0 && one.1 + 1 == next.1), "{tokens:?}");
        // And any contender of the process can acquire the lock again
        let held = first.acquire(Mode::Write).await.unwrap();
        assert!(token(&held) > tokens[3] && held.turn == 0);
        first.release(held).await.unwrap();
    });
}

/// One acquisition. All counts and positions refer to the order of acquisitions.
#[derive(Debug)]
struct Entry {
    process: usize,
    contender: usize,
    token: (i64, u32),
    /// Number of acquisitions before the contender requested the lock.
    asked: usize,
    /// Number of acquisitions before its node was known to be in the queue; `None` for a handover.
    queued: Option<usize>,
}

type Entries = Rc<RefCell<Vec<Entry>>>;

/// Acquires the lock. Also returns the number of acquisitions before the node was known to be in the queue.
async fn acquire(contender: &mut Contender, entries: &Entries) -> (Held, Option<usize>) {
    let trace = Rc::clone(&contender.trace);
    trace.borrow_mut().clear();
    let mut queued = None;
    let mut acquire = pin!(contender.acquire(Mode::Write));
    let held = poll_fn(|cx| {
        let polled = acquire.as_mut().poll(cx);
        // The list is requested as soon as the create is answered.
        if trace.borrow().iter().any(|sent| sent.kind == RequestKind::GetChildren) {
            queued.get_or_insert_with(|| entries.borrow().len());
        }
        polled
    });
    let held = held.await.unwrap();
    (held, queued)
}

async fn contend(
    mut contender: Contender,
    (number, process): (usize, usize),
    times: usize,
    entries: Entries,
) -> Contender {
    for _ in 0..times {
        let asked = entries.borrow().len();
        let (held, queued) = acquire(&mut contender, &entries).await;
        let entry = Entry { process, contender: number, token: token(&held), asked, queued };
        entries.borrow_mut().push(entry);
        let before = entries.borrow().len();
        runtime::sleep(Duration::from_millis(1)).await;
        assert_eq!(entries.borrow().len(), before, "two contenders were inside");
        contender.release(held).await.unwrap();
    }
    contender
}

/// Acquisitions by three busy processes of `size` contenders, in order; each contender acquires `times` times.
fn three_busy_processes(size: usize, turns: usize, times: usize) -> Vec<Entry> {
    on_scene(async |scene| {
        let entries = Entries::default();
        let mut tasks = Vec::new();
        for number in 0..3 * size {
            let one = one_of(shared(), &scene, number, &params(size as u64, turns as u64)).await;
            let contending = contend(one, (number, number / size), times, Rc::clone(&entries));
            tasks.push(runtime::spawn_local(contending));
        }
        let mut done = Vec::new();
        for task in tasks {
            done.push(task.await);
        }
        assert_eq!(scene.nodes().await, 0);
        drop(done);
        let entries = entries.take();
        assert_eq!(entries.len(), 3 * size * times);
        entries
    })
}

/// Largest number of acquisitions by one other party during any wait. `other` selects the parties to count for a
/// waiter.
fn most_turns_of_another(
    entries: &[Entry],
    begin: impl Fn(&Entry) -> Option<usize>,
    other: impl Fn(&Entry, &Entry) -> Option<usize>,
) -> usize {
    let waits = entries.iter().enumerate().filter_map(|(end, waiter)| Some((begin(waiter)?, end, waiter)));
    let most = waits.map(|(begin, end, waiter)| {
        let mut turns = BTreeMap::<usize, usize>::new();
        for name in entries[begin..end].iter().filter_map(|passed| other(waiter, passed)) {
            *turns.entry(name).or_default() += 1;
        }
        turns.into_values().max().unwrap_or(0)
    });
    most.max().unwrap_or(0)
}

#[test]
fn process_never_exceeds_its_turn_limit_while_another_process_waits() {
    for (size, turns) in [(3, 1), (3, 2), (4, 4), (2, 5)] {
        let entries = three_busy_processes(size, turns, 40);
        assert!(entries.is_sorted_by(|one, next| one.token < next.token), "{entries:?}");
        let of_node = entries.chunk_by(|one, next| one.token.0 == next.token.0).map(<[Entry]>::len).max();
        let of_process = most_turns_of_another(
            &entries,
            |waiter| waiter.queued,
            |waiter, passed| (passed.process != waiter.process).then_some(passed.process),
        );
        let of_neighbour = most_turns_of_another(
            &entries,
            |waiter| Some(waiter.asked),
            |waiter, passed| (passed.process == waiter.process).then_some(passed.contender),
        );
        // Each process sometimes takes the maximum number of turns, and no process ever exceeds the maximum
        assert_eq!((of_node, of_process), (Some(turns), turns), "{size} contenders per process");
        // And the contenders of a process alternate
        assert_eq!(of_neighbour, 1, "{size} contenders per process, {turns} turns");
    }
}

#[test]
fn process_does_not_hand_the_lock_over_after_its_time_limit() {
    on_scene(async |scene| {
        let mut params = params(10, 100);
        params.insert("max_local_time".into(), ParamValue::Duration(Duration::from_millis(50)));
        let (mut first, held) = one_of(shared(), &scene, 0, &params).await.enter().await;
        let next = one_of(shared(), &scene, 1, &params).await.queue_up().await;
        let before = token(&held);
        first.release(held).await.unwrap();
        let (mut next, held) = next.entered().await;
        assert!(held.turn == 0 && token(&held) > before);
        next.release(held).await.unwrap();
    });
}

#[test]
fn contender_that_gives_up_leaves_no_node_and_blocks_no_contender() {
    on_scene(async |scene| {
        let (mut other, outside) = one(&scene, 10).await.enter().await;
        // Given a process whose first contender waits in the queue, with others behind it
        let first = one(&scene, 0).await.queue_up().await;
        let third = one(&scene, 2).await.queue_up().await;
        let fourth = one(&scene, 3).await.queue_up().await;
        let mut second = one(&scene, 1).await;
        assert_eq!(scene.nodes().await, 2);
        // When contenders that wait within the process give up, and then the contender in the queue does so too
        let ended = second.acquire_within(SHORT, Mode::Write).await;
        assert_eq!(ended.unwrap_err(), AcquireError::TimedOut);
        assert_eq!((second.kinds(), scene.nodes().await), (vec![], 2));
        third.cancel.cancel();
        let third = third.gone().await;
        assert_eq!(third.kinds(), [""; 0]);
        first.cancel.cancel();
        first.gone().await;
        // Then the next contender of the process queues up instead, and acquires the lock
        scene.has_nodes(2).await;
        assert!(!fourth.is_over());
        other.release(outside).await.unwrap();
        fourth.serve().await;
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn holder_is_notified_when_the_session_of_its_node_ends() {
    on_scene(async |scene| {
        // Given a contender that holds the lock through another contender's node, and a contender of another
        // process behind it
        let HandedOn { first, mut second, held, third } = handed_on(one(&scene, 0).await, &scene).await;
        let outside = one(&scene, 10).await.queue_up().await;
        let before = token(&held);
        // When the session of the node ends
        ends(first.session.clone()).await;
        // Then the holder is notified, although its own session is still open
        assert_eq!(second.hold_on(LONG).await, HoldOver::Lost);
        assert!(!second.session.is_over());
        let (mut outside, next) = outside.entered().await;
        assert_eq!(second.release(held).await.unwrap_err(), Failure::SessionExpired);
        // And the next contender of the process queues up with its own session, behind the other process
        scene.has_nodes(2).await;
        assert!(!third.is_over() && token(&next) > before);
        outside.release(next).await.unwrap();
        let (mut third, held) = third.entered().await;
        assert_eq!((held.turn, scene.nodes_of(third.session.id()).await.len()), (0, 1));
        third.release(held).await.unwrap();
        // And the contender whose session ended gets an error at its next acquire
        let mut first = first;
        let ended = first.acquire(Mode::Write).await;
        assert_eq!(ended.unwrap_err(), AcquireError::Failed(Failure::SessionExpired));
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn lock_is_not_handed_over_while_the_session_of_its_node_is_disconnected() {
    behind_wire(async |scene, proxy| {
        let first = one_of(&proxy.connect, &scene, 0, &params(10, 10)).await;
        let HandedOn { first, mut second, held, third } = handed_on(first, &scene).await;
        let before = token(&held);
        proxy.cut();
        let mut states = first.session.states();
        while states.peek_state() == SessionState::SyncConnected {
            states.changed().await;
        }
        // The owner of the node is notified at the same time.
        runtime::sleep(Duration::from_millis(20)).await;
        // When the lock is released during the disconnection
        let mut release = Box::pin(second.release(held));
        assert!(runtime::timeout(SHORT, &mut release).await.is_none());
        assert!(!third.is_over(), "handed over although the node may be gone");
        // Then the release deletes the node once the session is connected again
        proxy.mend();
        release.await.unwrap();
        let (mut third, held) = third.entered().await;
        assert!(held.turn == 0 && token(&held) > before);
        third.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}

fn lock(size: u64, turns: u64) -> String {
    format!("{{ name = \"cohort\", contenders_per_process = {size}, max_local_turns = {turns} }}")
}

fn closed(strategy: &str, contenders: usize, duration: &str, more: &str) -> String {
    format!(
        "strategies = [{strategy}]\ncontenders = {contenders}\nhold = \"0ms\"\nduration = \"{duration}\"\n\
         warm_up = \"500ms\"\nwarm_up_at_most = \"1s\"\nsession_timeout = \"20s\"\n{more}"
    )
}

fn requests(trial: &Trial) -> f64 {
    figures::REQUESTS_PER_ACQUISITION.of(trial).unwrap()
}

#[tokio::test]
async fn processes_on_two_threads_need_half_a_request_per_acquisition() {
    let lines = closed(&lock(10, 10), 20, "2s", "").replace("\"0ms\"", "\"1ms\"");
    let trial = trials::run_one_on_threads(&lines, 2).await;
    assert_eq!(trial.judged.verdict, Verdict::Held, "{:?}", trial.evidence);
    assert!(trial.errors.is_empty(), "{:?}", trial.errors);
    println!("{:.3} requests per acquisition", requests(&trial));
    assert!((0.45..0.65).contains(&requests(&trial)), "{}", requests(&trial));
}

/// Difference between the highest and the lowest number of cycles, as a share of the lowest.
fn spread(turns: &[u64]) -> f64 {
    let (most, fewest) = (turns.iter().max().unwrap(), turns.iter().min().unwrap());
    (most - fewest) as f64 / *fewest as f64
}

#[tokio::test]
#[ignore = "long: a hundred contenders"]
async fn cohort_is_five_times_as_fast_as_curator_mutex_with_a_hundred_contenders() {
    let mut rates = Vec::new();
    for strategy in ["\"curator-mutex\"", &lock(10, 10)] {
        let trial = trials::run_one(&closed(strategy, 100, "10s", "")).await;
        let acquired: Vec<u64> = trial.tallies.iter().map(|tally| tally.acquired).collect();
        let of_process: Vec<u64> = acquired.chunks(10).map(|process| process.iter().sum()).collect();
        let longest = trial.tallies.iter().map(|tally| tally.longest_wait_us).max();
        let within = acquired.chunks(10).map(spread).fold(0.0, f64::max);
        println!(
            "{strategy}: {} acquired, {:.2} requests each, {:?}; by process {of_process:?}, spread {:.3}, within a \
             process at most {within:.3}, longest wait {longest:?} us",
            trial.measured.acquired(),
            requests(&trial),
            trial.judged.verdict,
            spread(&of_process),
        );
        rates.push(trial.measured.acquired());
    }
    assert!(rates[1] >= 5 * rates[0], "{rates:?}");
}
