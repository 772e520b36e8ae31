//! Curator's semaphore, and the mutex built on it: the requests that each sends.
//!
//! `exists leases` replaces the checkWatches request that Java sends before it releases the inner mutex. This
//! client library has no such request, and the watch stays set either way.

use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_core::verdict::Verdict;

use crate::support::contender::{Contender, settled};
use crate::support::rehearsal::{Subject, lines, subject};
use crate::support::sessions::on_scene;
use crate::support::trials;

/// The first contender creates both directories.
const FIRST: &str = "create locks/_c_<id>-lock-\n exists locks\n exists .\n create locks\n \
                     create locks/_c_<id>-lock-\n get_children locks\n \
                     create leases/_c_<id>-lease-\n exists leases\n exists .\n create leases\n \
                     create leases/_c_<id>-lease-\n get_children_watch leases\n exists leases\n \
                     delete locks/_c_<id>-lock-0\n delete leases/_c_<id>-lease-0";

fn both() -> [Subject; 2] {
    [subject("curator-semaphore-mutex"), subject("curator-semaphore")]
}

fn leases(count: u64) -> Subject {
    subject("curator-semaphore").with("leases", ParamValue::Count(count))
}

#[test]
fn one_lease_takes_seven_requests_alone_and_ten_behind_two_others() {
    for lock in both() {
        assert_eq!(lock.alone(), lines(FIRST));
        let [first, second, third, last] = lock.queue();
        assert_eq!(first, lines(FIRST));
        // The second contender waits for the lease only; it is alone there.
        let expected = "create locks/_c_<id>-lock-\n get_children locks\n \
                        create leases/_c_<id>-lease-\n get_children_watch leases\n \
                        get_children_watch leases\n exists leases\n \
                        delete locks/_c_<id>-lock-1\n delete leases/_c_<id>-lease-1";
        assert_eq!(second, lines(expected));
        for (waiter, own) in [(third, 2), (last, 3)] {
            let before = own - 1;
            let expected = format!(
                "create locks/_c_<id>-lock-\n get_children locks\n get_data_watch locks/_c_<id>-lock-{before}\n \
                 get_children locks\n create leases/_c_<id>-lease-\n get_children_watch leases\n \
                 get_children_watch leases\n exists leases\n \
                 delete locks/_c_<id>-lock-{own}\n delete leases/_c_<id>-lease-{own}"
            );
            assert_eq!(waiter, lines(&expected));
        }
    }
}

#[test]
fn no_contender_waits_with_as_many_leases_as_contenders() {
    let [_, second, third, last] = leases(4).queue();
    for (sent, own) in [(second, 1), (third, 2), (last, 3)] {
        let expected = format!(
            "create locks/_c_<id>-lock-\n get_children locks\n create leases/_c_<id>-lease-\n \
             get_children_watch leases\n exists leases\n delete locks/_c_<id>-lock-{own}\n \
             delete leases/_c_<id>-lease-{own}"
        );
        assert_eq!(sent, lines(&expected));
    }
}

#[test]
fn timed_out_contender_deletes_its_lease_and_its_inner_node() {
    for lock in both() {
        let (sent, left) = lock.timed_out();
        let expected = "create locks/_c_<id>-lock-\n get_children locks\n \
                        create leases/_c_<id>-lease-\n get_children_watch leases\n \
                        get_children_watch leases\n delete leases/_c_<id>-lease-1\n \
                        delete locks/_c_<id>-lock-1";
        assert_eq!((sent, left), (lines(expected), 1));
    }
}

#[test]
fn contender_that_cannot_get_all_its_permits_returns_the_ones_it_has() {
    // Of three leases the holder has two. The other contender gets one, and waits for its second in vain.
    let (sent, left) = leases(3).with("permits", ParamValue::Count(2)).timed_out();
    assert_eq!(left, 2, "the holder's");
    let deleted: Vec<_> = sent.iter().filter(|line| line.starts_with("delete leases")).collect();
    assert_eq!(deleted, ["delete leases/_c_<id>-lease-3", "delete leases/_c_<id>-lease-2"]);
}

#[tokio::test]
async fn holders_are_inside_together_but_never_exceed_the_leases() {
    let lines = "strategies = [{ name = \"curator-semaphore\", leases = 3 }]\ncontenders = 8\n\
                 hold = \"100ms\"\nduration = \"2s\"\n";
    let trial = trials::run_one(lines).await;
    assert_eq!(trial.judged.verdict, Verdict::Held);
    assert!(trial.errors.is_empty(), "{:?}", trial.errors);
    // A single holder at a time could have acquired only 20 times.
    assert!(trial.measured.acquired() > 24, "{}", trial.measured.acquired());
}

#[test]
fn lease_count_node_is_created_once_and_read_by_every_contender() {
    let lock = leases(2).word("leases_from", "count-node");
    let [first, second, _, _] = lock.queue();
    let expected = format!("create count\n get_data_watch count\n {FIRST}");
    assert_eq!(first, lines(&expected));
    let expected = "create count\n get_data_watch count\n create locks/_c_<id>-lock-\n get_children locks\n \
                    create leases/_c_<id>-lease-\n get_children_watch leases\n exists leases\n \
                    delete locks/_c_<id>-lock-1\n delete leases/_c_<id>-lease-1";
    assert_eq!(second, lines(expected));
    let [first, second] = <[_; 2]>::try_from(lock.again(2)).unwrap();
    assert!(first.iter().any(|line| line == "create count"), "{first:?}");
    assert!(second.iter().all(|line| !line.ends_with("count")), "{second:?}");
}

#[test]
fn waiter_is_admitted_as_soon_as_the_node_allows_more_leases() {
    on_scene(async |scene| {
        let params = [("leases_from".to_owned(), ParamValue::Word("count-node".into()))].into();
        let contender = async || Contender::with("curator-semaphore", &params, &scene).await;
        // Given one lease, a holder, a contender that waits for a lease, and another behind that contender
        let mut holder = contender().await;
        let held = holder.acquire(Mode::Write).await.unwrap();
        let waiting = contender().await.queue_up().await;
        let behind = contender().await.queue_up().await;
        assert!(!waiting.is_over());
        // When the node allows two leases, in the format of Java's SharedCount
        let outside = scene.session().await;
        outside.set_data(&format!("{}/count", scene.lock), &[0, 0, 0, 2]).await.unwrap();
        // Then the first waiter reads the node, lists again and is admitted beside the holder; the other is
        // not
        let (mut second, got) = waiting.over().await;
        let got = got.unwrap();
        settled([&behind]).await;
        assert!(!behind.is_over());
        let kinds = second.kinds();
        let read = kinds.iter().filter(|kind| **kind == "get_data_watch").count();
        assert_eq!(read, 2, "{kinds:?}");
        // And the other is admitted after a release
        holder.release(held).await.unwrap();
        behind.serve().await;
        second.release(got).await.unwrap();
    });
}
