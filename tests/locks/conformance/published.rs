//! Classes that were published with an article or with ZooKeeper itself.

use crate::support::contender::{Contender, settled};
use crate::support::rehearsal::{lines, subject};
use crate::support::sessions::behind_wire;

#[test]
fn wait_limited_class_takes_its_wake_up_for_the_lock() {
    let lock = || subject("predecessor-watch-wait-limited");
    let join = "exists .\n create mutex_lock_\n get_children .";
    let first = lines(&format!("{join}\n exists mutex_lock_0\n delete mutex_lock_0"));
    assert_eq!(lock().alone(), first);
    let [holder, second, third, last] = lock().queue();
    assert_eq!(holder, first);
    for (waiter, own) in [(second, 1), (third, 2), (last, 3)] {
        let before = own - 1;
        let waited =
            format!("exists_watch mutex_lock_{before}\n exists mutex_lock_{own}\n delete mutex_lock_{own}");
        assert_eq!(waiter, lines(&format!("{join}\n {waited}")));
    }
}

#[test]
fn wait_limited_class_leaves_its_node_on_timeout() {
    let (sent, left) = subject("predecessor-watch-wait-limited").timed_out();
    let expected = "exists .\n create mutex_lock_\n get_children .\n exists_watch mutex_lock_0";
    assert_eq!((sent, left), (lines(expected), 2));
}

#[test]
fn wait_limited_class_admits_two_when_a_middle_waiter_leaves() {
    assert_eq!(subject("predecessor-watch-wait-limited").inside_after_the_middle_has_left(), 2);
    assert_eq!(subject("predecessor-watch").inside_after_the_middle_has_left(), 1);
    assert_eq!(subject("apache-write-lock").inside_after_the_middle_has_left(), 1);
}

#[test]
fn apache_write_lock_searches_its_node_and_checks_the_directory_each_time() {
    let lock = || subject("apache-write-lock");
    let join = "exists .\n get_children .\n create x-<session>-\n get_children .";
    let first = lines(&format!("{join}\n delete x-<session>-0"));
    assert_eq!(lock().alone(), first);
    let [holder, second, third, last] = lock().queue();
    assert_eq!(holder, first);
    for (waiter, own) in [(second, 1), (third, 2), (last, 3)] {
        let watch = format!("exists_watch x-<session>-{}", own - 1);
        let expected = format!("{join}\n {watch}\n exists .\n get_children .\n delete x-<session>-{own}");
        assert_eq!(waiter, lines(&expected));
    }
    let (sent, left) = lock().timed_out();
    let expected = format!("{join}\n exists_watch x-<session>-0\n delete x-<session>-1");
    assert_eq!((sent, left), (lines(&expected), 1));
}

#[test]
fn apache_write_lock_checks_again_after_a_reconnect() {
    behind_wire(async |scene, proxy| {
        let (mut holder, held) = Contender::holding("apache-write-lock", &scene).await;
        let waiting = Contender::by(&proxy.connect, "apache-write-lock", &scene).await.queue_up().await;
        // When a waiter's connection is replaced
        proxy.cut();
        proxy.mend();
        settled([&waiting]).await;
        holder.release(held).await.unwrap();
        // Then it has checked once more than usual
        let look = ["exists", "get_children", "exists_watch"];
        let sent = waiting.serve().await.kinds();
        let looks = sent.windows(look.len()).filter(|window| *window == look).count();
        assert!(looks >= 1, "{sent:?}");
        assert_eq!(sent[sent.len() - 3..], ["exists", "get_children", "delete"]);
    });
}
