//! Locks that join by one multi, whose reply shows how many are ahead.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_core::verdict::Verdict;
use zklockbench_locks::AcquireError;
use zklockbench_zk::NodeKind;

use super::faster::{Sharer, closed_loop};
use crate::support::contender::Contender;
use crate::support::rehearsal::{Lines, Subject, lines, subject};
use crate::support::sessions::{Scene, each_on_scene, on_scene};
use crate::support::trials;

fn by_count() -> Params {
    Params::from([("join".to_owned(), ParamValue::Word("count".into()))])
}

fn counting(name: &'static str) -> Subject {
    subject(name).word("join", "count")
}

const BARE: [&str; 3] = ["count", "baton", "predecessor-watch"];
const MARKED: [&str; 2] = ["curator-mutex", "ahead"];
const EACH: [&str; 6] =
    ["count", "predecessor-watch", "curator-mutex", "curator-read-write", "ahead", "count-semaphore"];

#[test]
fn uncontended_acquire_and_release_take_one_request_each() {
    for name in BARE {
        assert_eq!(counting(name).alone(), lines("multi create n-; setData .\n delete n-0"), "{name}");
    }
    for name in MARKED {
        let expected = "multi create _c_<id>-lock-; setData .\n delete _c_<id>-lock-0";
        assert_eq!(counting(name).alone(), lines(expected), "{name}");
    }
    let expected = "multi create _c_<id>-lease-; setData .\n delete _c_<id>-lease-0";
    assert_eq!(subject("count-semaphore").alone(), lines(expected));
    assert_eq!(subject("count").alone(), counting("count").alone(), "it needs not be told");
}

#[test]
fn second_contender_does_not_list_and_later_ones_wait_as_usual() {
    let [first, second, third, last] = counting("predecessor-watch").queue();
    assert_eq!(first, lines("multi create n-; setData .\n delete n-0"));
    assert_eq!(second, lines("multi create n-; setData .\n get_data_watch n-0\n delete n-1"));
    for (waiter, own) in [(third, 2), (last, 3)] {
        let before = own - 1;
        let expected = format!(
            "multi create n-; setData .\n get_children .\n get_data_watch n-{before}\n get_children .\n delete n-{own}"
        );
        assert_eq!(waiter, lines(&expected));
    }
    let [first, second, third, last] = counting("baton").queue();
    assert_eq!(first, lines("multi create n-; setData .\n delete n-0"));
    let expected = "multi create n-; setData .\n get_data_watch n-0\n multi setData n-2; delete n-1";
    assert_eq!(second, lines(expected));
    let join = "multi create n-; setData .\n";
    let expected =
        format!("{join} get_data_watch n-2\n get_children_watch n-1\n multi setData n-3; delete n-2");
    assert_eq!(third, lines(&expected));
    let expected = format!(
        "{join} get_data_watch n-3\n get_children_watch n-2\n multi setData n-4; delete n-3\n get_children .\n delete n-3"
    );
    assert_eq!(last, lines(&expected));
}

#[test]
fn contenders_with_marked_names_list_unless_alone() {
    let join = "multi create _c_<id>-lock-; setData .\n get_children .\n";
    let [first, second, third, _] = counting("curator-mutex").queue();
    assert_eq!(first, lines("multi create _c_<id>-lock-; setData .\n delete _c_<id>-lock-0"));
    for (waiter, own) in [(second, 1), (third, 2)] {
        let before = own - 1;
        let rest =
            format!("get_data_watch _c_<id>-lock-{before}\n get_children .\n delete _c_<id>-lock-{own}");
        assert_eq!(waiter, lines(&format!("{join}{rest}")));
    }
    let [_, second, third, _] = counting("ahead").queue();
    assert_eq!(second, lines(&format!("{join} get_data_watch _c_<id>-lock-0\n delete _c_<id>-lock-1")));
    let rest = "get_data_watch _c_<id>-lock-1\n get_data_watch _c_<id>-lock-0\n get_children .\n delete _c_<id>-lock-2";
    assert_eq!(third, lines(&format!("{join}{rest}")));
}

#[test]
fn second_contender_leaves_no_node_on_timeout() {
    for name in BARE {
        let (sent, left) = counting(name).timed_out();
        let expected = "multi create n-; setData .\n get_data_watch n-0\n delete n-1";
        assert_eq!((sent, left), (lines(expected), 1), "{name}");
    }
    let [_, second, _, _] = counting("predecessor-watch").middle_leaves();
    assert_eq!(second, lines("multi create n-; setData .\n get_data_watch n-0\n delete n-1"));
}

#[test]
fn nonblocking_attempt_ends_after_its_join_and_leaves_no_node() {
    on_scene(async |scene| {
        let try_lock = Params::from([("blocking".to_owned(), ParamValue::Bool(false))]);
        let mut holder = Contender::with("count", &Params::new(), &scene).await;
        let mut one = Contender::with("count", &try_lock, &scene).await;
        let held = holder.acquire(Mode::Write).await.unwrap();
        // Given more failed attempts than would make a blocking acquire stop counting
        for time in 1..=5 {
            one.trace.borrow_mut().clear();
            assert_eq!(one.acquire(Mode::Write).await.unwrap_err(), AcquireError::TimedOut);
            assert_eq!(kinds(&sent(&one, &scene)), ["multi", "delete"], "{time}");
        }
        assert_eq!(one.session.get_children(&scene.lock).await.unwrap().len(), 1);
        // Then the next attempt succeeds once the holder has left
        holder.release(held).await.unwrap();
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["multi", "delete"]);
        // And a lock that joins by a create needs a list to know its position
        let by_create = Params::from([
            ("join".to_owned(), ParamValue::Word("create".into())),
            ("blocking".to_owned(), ParamValue::Bool(false)),
        ]);
        let mut other = Contender::with("count", &by_create, &scene).await;
        assert_eq!(kinds(&turn(&mut other, &scene).await), ["create", "get_children", "delete"]);
        let held = one.acquire(Mode::Write).await.unwrap();
        other.trace.borrow_mut().clear();
        assert_eq!(other.acquire(Mode::Write).await.unwrap_err(), AcquireError::TimedOut);
        assert_eq!(kinds(&sent(&other, &scene)), ["create", "get_children", "delete"]);
        one.release(held).await.unwrap();
    });
}

#[test]
fn token_is_the_zxid_of_the_create() {
    on_scene(async |scene| {
        for name in EACH {
            let mut one = Contender::with(name, &by_count(), &scene).await;
            let node = one.acquire(Mode::Write).await.unwrap().node.unwrap();
            let found = one.session.exists(&node.path).await.unwrap().unwrap();
            assert_eq!(node.czxid, found.czxid, "{name}");
            one.die().await;
        }
    });
}

/// Acquires and releases; returns the requests for that.
async fn turn(one: &mut Contender, scene: &Scene) -> Lines {
    one.trace.borrow_mut().clear();
    let held = one.acquire(Mode::Write).await.unwrap();
    one.release(held).await.unwrap();
    sent(one, scene)
}

fn sent(one: &Contender, scene: &Scene) -> Lines {
    let first_word = |path: &str| path.split(' ').next().unwrap_or_default().replace(&scene.lock, ".");
    let trace = one.trace.borrow();
    trace.iter().map(|sent| format!("{} {}", sent.kind.name(), first_word(&sent.path))).collect()
}

fn kinds(sent: &Lines) -> Vec<&str> {
    sent.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect()
}

/// Requests of a contender that joins behind another, enters, and leaves.
async fn turn_behind_another(one: Contender, scene: &Scene) -> (Contender, Lines) {
    one.trace.borrow_mut().clear();
    let mut other = Contender::of("predecessor-watch", scene).await;
    let held = other.acquire(Mode::Write).await.unwrap();
    let waiting = one.queue_up().await;
    other.release(held).await.unwrap();
    other.die().await;
    let one = waiting.serve().await;
    let lines = sent(&one, scene);
    (one, lines)
}

#[test]
fn lock_creates_after_three_waits_until_it_is_first_again() {
    each_on_scene(&MARKED, async |name, scene| {
        let mut one = Contender::with(name, &by_count(), &scene).await;
        // Given a contender that has been behind another three times
        for _ in 0..3 {
            let sent;
            (one, sent) = turn_behind_another(one, &scene).await;
            assert_eq!(kinds(&sent)[0], "multi", "{name}");
        }
        // Then it joins by creates, both behind another and alone
        let (mut one, sent) = turn_behind_another(one, &scene).await;
        assert_eq!(kinds(&sent)[..2], ["create", "get_children"], "{name}");
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["create", "get_children", "delete"], "{name}");
        // And counts again, once it was alone
        assert_eq!(kinds(&turn(&mut one, &scene).await), ["multi", "delete"], "{name}");
    });
}

#[test]
fn count_helps_the_second_contender_unless_a_foreign_node_is_there() {
    on_scene(async |scene| {
        let mut one = Contender::with("predecessor-watch", &by_count(), &scene).await;
        for _ in 0..5 {
            let sent;
            (one, sent) = turn_behind_another(one, &scene).await;
            assert_eq!(kinds(&sent), ["multi", "get_data_watch", "delete"]);
        }
        // Given a node that does not belong to the queue
        scene.add_foreign_child().await;
        let in_vain = ["multi", "get_data_watch", "get_children", "delete"];
        // Then the lock searches for a predecessor that does not exist, and finds itself first in a list
        for _ in 0..3 {
            assert_eq!(kinds(&turn(&mut one, &scene).await), in_vain);
        }
        // Until the count has been useless three times
        for _ in 0..3 {
            assert_eq!(kinds(&turn(&mut one, &scene).await), ["create", "get_children", "delete"]);
        }
    });
}

#[test]
fn lock_without_write_permission_joins_by_creates() {
    each_on_scene(&EACH, async |name, scene| {
        scene.forbid_writing().await;
        let mut one = Contender::with(name, &by_count(), &scene).await;
        let first = turn(&mut one, &scene).await;
        assert_eq!(kinds(&first)[..2], ["multi", "create"], "{name}");
        let second = turn(&mut one, &scene).await;
        assert!(kinds(&second)[0] == "create" && !kinds(&second).contains(&"multi"), "{name}: {second:?}");
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

#[test]
fn deleted_directory_is_created_again() {
    each_on_scene(&EACH, async |name, scene| {
        let mut one = Contender::with(name, &by_count(), &scene).await;
        turn(&mut one, &scene).await;
        scene.delete_all().await;
        let sent = turn(&mut one, &scene).await;
        let kinds = kinds(&sent);
        assert_eq!((kinds[0], kinds[kinds.len() - 2]), ("multi", "multi"), "{name}: {sent:?}");
        assert!(kinds.contains(&"create"), "{name}: {sent:?}");
    });
}

/// Cycles of contenders of these locks on one queue, each joining as given; returns each contender's number.
fn mixed(locks: &[(&'static str, bool)], turns: i32) -> Vec<i32> {
    let sharer = |(name, counts): &(&'static str, bool)| {
        let params = if *counts { by_count() } else { Params::new() };
        Sharer { name, params }
    };
    closed_loop(&locks.iter().map(sharer).collect::<Vec<_>>(), turns, Some(Duration::from_millis(3)))
}

#[test]
fn counting_and_listing_contenders_share_a_queue() {
    let sides = &[("curator-read-write", true), ("curator-read-write", false), ("curator-read-write", true)];
    let curators: &[(&str, bool)] =
        &[("curator-mutex", true), ("curator-mutex", false), ("ahead", true), ("ahead", false)];
    let predecessors =
        &[("predecessor-watch", true), ("predecessor-watch", false), ("predecessor-watch", true)];
    let batons = &[("count", true), ("baton", false), ("baton", true), ("baton", false)];
    let two = &[("count", true), ("count", true)];
    for locks in [curators, sides, predecessors, batons, two] {
        let acquired = mixed(locks, 800);
        assert!(acquired.iter().sum::<i32>() >= 800);
        assert!(acquired.iter().all(|count| *count > 50), "{locks:?}: {acquired:?}");
    }
}

#[test]
fn uncontended_readers_and_writers_take_one_request_and_others_list() {
    let readwrite = counting("curator-read-write");
    for (mode, kind) in [(Mode::Read, "__READ__"), (Mode::Write, "__WRIT__")] {
        let [one] = readwrite.queue_of([mode]);
        assert_eq!(one, lines(&format!("multi create _c_<id>-{kind}; setData .\n delete _c_<id>-{kind}0")));
    }
    // The count does not show the kinds of the others: a reader behind a reader lists, and enters.
    let read = "multi create _c_<id>-__READ__; setData .\n";
    let [first, second, writer, last] = readwrite.queue_of([Mode::Read, Mode::Read, Mode::Write, Mode::Read]);
    assert_eq!(first, lines(&format!("{read} delete _c_<id>-__READ__0")));
    assert_eq!(second, lines(&format!("{read} get_children .\n delete _c_<id>-__READ__1")));
    let expected = "multi create _c_<id>-__WRIT__; setData .\n get_children .\n get_data_watch _c_<id>-__READ__1\n \
                    get_children .\n delete _c_<id>-__WRIT__2";
    assert_eq!(writer, lines(expected));
    let expected = format!(
        "{read} get_children .\n get_data_watch _c_<id>-__WRIT__2\n get_children .\n delete _c_<id>-__READ__3"
    );
    assert_eq!(last, lines(&expected));
    // Nor would the count help a writer that takes the read side as well
    let listed =
        "create _c_<id>-__READ__0\n get_children .\n delete _c_<id>-__WRIT__0\n delete _c_<id>-__READ__0";
    let expected = format!("multi create _c_<id>-__WRIT__; setData .\n {listed}");
    assert_eq!(readwrite.downgrade().owner, lines(&expected));
}

fn leases(count: u64) -> Subject {
    subject("count-semaphore").with("leases", ParamValue::Count(count))
}

#[test]
fn semaphore_takes_one_request_while_leases_are_free() {
    let [first, second, third, last] = leases(2).queue();
    let join = "multi create _c_<id>-lease-; setData .\n";
    assert_eq!(first, lines(&format!("{join} delete _c_<id>-lease-0")));
    assert_eq!(second, lines(&format!("{join} delete _c_<id>-lease-1")));
    for (waiter, own) in [(third, 2), (last, 3)] {
        let (near, far) = (own - 1, own - 2);
        let expected = format!(
            "{join} get_children .\n get_data_watch _c_<id>-lease-{near}\n get_data_watch _c_<id>-lease-{far}\n \
             get_children .\n delete _c_<id>-lease-{own}"
        );
        assert_eq!(waiter, lines(&expected));
    }
}

#[test]
fn uncontended_semaphore_takes_two_requests_instead_of_curators_seven() {
    let ours = leases(3).again(2).remove(1);
    assert_eq!(ours, lines("multi create _c_<id>-lease-; setData .\n delete _c_<id>-lease-1"));
    let curators = subject("curator-semaphore").with("leases", ParamValue::Count(3)).again(2).remove(1);
    let writes = curators.iter().filter(|line| line.starts_with("create ") || line.starts_with("delete "));
    assert_eq!((curators.len(), writes.count()), (7, 4), "{curators:?}");
}

#[test]
fn lease_released_by_a_later_holder_goes_to_the_first_waiter() {
    // The second of three holders leaves first, then the third: both waiters are in before the first has
    // left.
    let lease = leases(3).queue_served([Mode::Write; 5], [1, 2, 3, 4, 0]);
    assert_eq!(lease[0], lines("multi create _c_<id>-lease-; setData .\n delete _c_<id>-lease-0"));
}

#[test]
fn foreign_nodes_cost_a_list_but_not_exclusion() {
    each_on_scene(&EACH, async |name, scene| {
        scene.add_foreign_child().await;
        let stranger = scene.session().await;
        let path = format!("{}/x", scene.lock);
        stranger.create(&path, &[], NodeKind::Ephemeral).await.unwrap();
        let mut one = Contender::with(name, &by_count(), &scene).await;
        let held = one.acquire(Mode::Write).await.unwrap();
        let mut other = Contender::with(name, &by_count(), &scene).await;
        assert!(other.acquire_within(Duration::from_millis(100), Mode::Write).await.is_err(), "{name}");
        one.release(held).await.unwrap();
    });
}

#[tokio::test]
async fn semaphore_never_has_more_holders_than_leases() {
    let lines = "strategies = [{ name = \"count-semaphore\", leases = 3 }]\ncontenders = 8\n\
                 hold = \"100ms\"\nduration = \"2s\"\n";
    let trial = trials::run_one(lines).await;
    assert_eq!(trial.judged.verdict, Verdict::Held);
    assert!(trial.errors.is_empty(), "{:?}", trial.errors);
    // One holder at a time would allow 20 acquisitions.
    assert!(trial.measured.acquired() > 24, "{}", trial.measured.acquired());
}
