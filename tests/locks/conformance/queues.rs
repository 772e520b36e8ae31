//! The locks of the three-strategy article.

use std::time::Duration;

use zklockbench_core::catalog::ParamValue;
use zklockbench_locks::STRATEGIES;

use crate::support::rehearsal::{lines, subject};

#[test]
fn predecessor_watch_lists_watches_and_lists_again() {
    for (watch, request) in [("data", "get_data_watch"), ("exists", "exists_watch")] {
        let lock = || subject("predecessor-watch").word("watch", watch);
        assert_eq!(lock().alone(), lines("create n-\n get_children .\n delete n-0"));
        let [first, second, third, last] = lock().queue();
        assert_eq!(first, lines("create n-\n get_children .\n delete n-0"));
        for (waiter, own) in [(second, 1), (third, 2), (last, 3)] {
            let before = own - 1;
            let expected = format!(
                "create n-\n get_children .\n {request} n-{before}\n get_children .\n delete n-{own}"
            );
            assert_eq!(waiter, lines(&expected));
        }
    }
}

#[test]
fn predecessor_watch_deletes_its_node_on_timeout() {
    let (sent, left) = subject("predecessor-watch").timed_out();
    assert_eq!(sent, lines("create n-\n get_children .\n get_data_watch n-0\n delete n-1"));
    assert_eq!(left, 1);
}

#[test]
fn waiter_watches_the_next_predecessor_when_one_leaves() {
    let [_, _, gone, last] = subject("predecessor-watch").middle_leaves();
    assert_eq!(gone, lines("create n-\n get_children .\n get_data_watch n-1\n delete n-2"));
    let expected = "create n-\n get_children .\n get_data_watch n-2\n get_children .\n get_data_watch n-1\n \
                    get_children .\n delete n-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn parent_watch_lists_after_every_change() {
    let lock = || subject("parent-watch");
    assert_eq!(lock().alone(), lines("create temp\n get_children_watch .\n delete temp0"));
    let counts = lock().queue().map(|sent| sent.len() - 2);
    // The first contender lists once; the others at their own arrival, at each later one, and at each release
    // before theirs.
    assert_eq!(counts, [1, 4, 4, 4]);
}

#[test]
fn polled_flag_changes_the_time_but_not_the_requests() {
    let interval = Duration::from_millis(300);
    for name in ["predecessor-watch", "parent-watch"] {
        let at_once = subject(name).queue();
        let by_flag = || {
            let interval = ParamValue::Duration(interval);
            subject(name).word("wake", "poll-flag").with("flag_interval", interval)
        };
        assert_eq!(by_flag().queue()[1].len(), at_once[1].len(), "{name}");
        let begin = std::time::Instant::now();
        by_flag().alone();
        assert!(begin.elapsed() >= interval, "{name}");
    }
}

#[test]
fn polling_sleeps_before_its_first_list() {
    let interval = ParamValue::Duration(Duration::from_millis(100));
    for jitter in ["none", "half"] {
        let sent = subject("polling").with("poll_interval", interval.clone()).word("jitter", jitter).alone();
        assert_eq!(sent, lines("create temp\n get_children .\n delete temp0"));
    }
}

#[test]
fn curator_mutex_sends_three_requests_alone_five_in_a_queue_and_six_on_timeout() {
    let lock = || subject("curator-mutex");
    assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0"));
    let [_, _, third, _] = lock().queue();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-1\n get_children .\n \
                    delete _c_<id>-lock-2";
    assert_eq!(third, lines(expected));
    let (sent, left) = lock().timed_out();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-0\n get_children .\n \
                    get_data_watch _c_<id>-lock-0\n delete _c_<id>-lock-1";
    assert_eq!((sent, left), (lines(expected), 1));
}

#[test]
fn shared_mutex_object_checks_every_watch_and_makes_every_task_watch_again() {
    let shared = subject("curator-mutex").with("shared_object", ParamValue::Bool(true));
    let [first, second, third, last] = shared.queue();
    let node = |number: usize| format!("_c_<id>-lock-{number}");
    let (create, list) = ("create _c_<id>-lock-\n", " get_children .\n");
    let (watch, check) = (
        |number| format!(" get_data_watch {}\n", node(number)),
        |number| format!(" exists {}\n", node(number)),
    );
    // A release by the object checks the watches of all waiters, in any order.
    let sorted = |mut sent: Vec<String>| {
        let release = sent.iter().position(|line| line.starts_with("exists")).unwrap_or(sent.len());
        let checks = sent.len().saturating_sub(1);
        sent[release.min(checks)..checks].sort();
        sent
    };
    let expected = [create, list, &check(0), &check(1), &check(2), " delete ", &node(0)].concat();
    assert_eq!(sorted(first), lines(&expected));
    let expected = [create, list, &watch(0), list, &check(1), &check(2), " delete ", &node(1)].concat();
    assert_eq!(sorted(second), lines(&expected));
    let expected = [create, list, &watch(1), list, &watch(1), list, &check(2), " delete ", &node(2)].concat();
    assert_eq!(sorted(third), lines(&expected));
    let again = [list, &watch(2)].concat();
    let expected = [create, list, &watch(2), &again, &again, list, " delete ", &node(3)].concat();
    assert_eq!(sorted(last), lines(&expected));
}

#[test]
fn nested_acquires_of_a_reentrant_lock_send_no_requests() {
    let expected = lines("create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0");
    assert_eq!(subject("curator-mutex").nested(3), expected);
    let reentrant: Vec<_> = STRATEGIES.iter().filter(|entry| entry.card.guarantees.reentrant).collect();
    assert!(reentrant.len() >= 4, "{}", reentrant.len());
    for entry in reentrant {
        let name = entry.card.name;
        assert_eq!(subject(name).nested(3), subject(name).alone(), "{name}");
    }
}

#[test]
fn revoked_curator_mutex_is_released_and_wakes_the_next_waiter_twice() {
    // Given a waiter that asks after two seconds
    let after = ParamValue::Duration(Duration::from_secs(2));
    let lock = subject("curator-mutex").word("revocation", "asked-for").with("revoke_after", after);
    let [holder, waiter] = lock.revoked();
    // Then the holder reads its node's data again, and the release checks the watch that was set then
    let expected = "create _c_<id>-lock-\n get_data_watch _c_<id>-lock-0\n get_children .\n \
                    get_data_watch _c_<id>-lock-0\n exists _c_<id>-lock-0\n delete _c_<id>-lock-0";
    assert_eq!(holder, lines(expected));
    // And the waiter is woken by its own message, and then by the release
    let expected = "create _c_<id>-lock-\n get_data_watch _c_<id>-lock-1\n get_children .\n \
                    get_data_watch _c_<id>-lock-0\n get_children .\n set_data _c_<id>-lock-0\n get_children .\n \
                    get_data_watch _c_<id>-lock-0\n get_children .\n exists _c_<id>-lock-1\n \
                    delete _c_<id>-lock-1";
    assert_eq!(waiter, lines(expected));
}

#[test]
fn only_the_revocation_message_revokes_and_only_when_allowed() {
    let allowed = || subject("curator-mutex").word("revocation", "allowed");
    let read_twice = "create _c_<id>-lock-\n get_data_watch _c_<id>-lock-0\n get_children .\n \
                      get_data_watch _c_<id>-lock-0\n exists _c_<id>-lock-0\n delete _c_<id>-lock-0";
    assert_eq!(allowed().overwritten(b"__REVOKE__"), (true, lines(read_twice)));
    assert_eq!(allowed().overwritten(b"unlock"), (false, lines(read_twice)));
    let unread = "create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0";
    assert_eq!(subject("curator-mutex").overwritten(b"__REVOKE__"), (false, lines(unread)));
}

#[test]
fn revocable_mutex_sends_two_more_requests_and_leaves_nothing_on_timeout() {
    let lock = || subject("curator-mutex").word("revocation", "allowed");
    let expected = "create _c_<id>-lock-\n get_data_watch _c_<id>-lock-0\n get_children .\n \
                    exists _c_<id>-lock-0\n delete _c_<id>-lock-0";
    assert_eq!(lock().alone(), lines(expected));
    let (sent, left) = lock().timed_out();
    let expected = "create _c_<id>-lock-\n get_data_watch _c_<id>-lock-1\n get_children .\n \
                    get_data_watch _c_<id>-lock-0\n get_children .\n get_data_watch _c_<id>-lock-0\n \
                    delete _c_<id>-lock-1";
    assert_eq!((sent, left), (lines(expected), 1));
}
