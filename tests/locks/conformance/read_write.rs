//! Read-write locks: the requests that each sends.

use zklockbench_core::catalog::Mode;
use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_locks::AcquireError;

use crate::support::rehearsal::{Lines, lines, subject};

/// A queue with every kind of neighbours; three contenders wait behind a writer.
const MIXED: [Mode; 5] = [Write, Read, Read, Write, Read];
const TWO_AND_TWO: [Mode; 6] = [Write, Read, Read, Write, Read, Read];

fn sent(queue: &[Lines], request: &str) -> usize {
    queue.iter().flatten().filter(|line| line.starts_with(request)).count()
}

#[test]
fn lone_reader_or_writer_creates_lists_and_deletes() {
    for mode in [Read, Write] {
        let kind = if mode == Read { "R-" } else { "W-" };
        let [one] = subject("shared-predecessor-watch").queue_of([mode]);
        assert_eq!(one, lines(&format!("create {kind}\n get_children .\n delete {kind}0")));
        let [one] = subject("shared-parent-watch").queue_of([mode]);
        assert_eq!(one, lines(&format!("create {kind}\n get_children_watch .\n delete {kind}0")));
        let kind = if mode == Read { "_c_<id>-__READ__" } else { "_c_<id>-__WRIT__" };
        let [one] = subject("curator-read-write").queue_of([mode]);
        assert_eq!(one, lines(&format!("create {kind}\n get_children .\n delete {kind}0")));
        let kind = if mode == Read { "<id>__rlock__" } else { "<id>__lock__" };
        let [one] = subject("kazoo-read-write").queue_of([mode]);
        assert_eq!(one, lines(&format!("exists .\n create {kind}\n get_children .\n delete {kind}0")));
    }
}

#[test]
fn readers_before_any_writer_hold_together_without_waiting() {
    for lock in ["shared-predecessor-watch", "curator-read-write", "kazoo-read-write"] {
        let queue = subject(lock).queue_of([Read, Read, Write]);
        assert_eq!(sent(&queue[..2], "get_data_watch"), 0, "{lock}");
        assert_eq!(sent(&queue[2..], "get_data_watch"), 1, "{lock}: the second reader left last");
    }
}

#[test]
fn readers_watch_the_last_writer_before_them_and_writers_the_node_before_them() {
    let [first, one, two, second, last] = subject("shared-predecessor-watch").queue_of(MIXED);
    assert_eq!(first, lines("create W-\n get_children .\n delete W-0"));
    for (reader, number) in [(one, 1), (two, 2)] {
        let expected =
            format!("create R-\n get_children .\n get_data_watch W-0\n get_children .\n delete R-{number}");
        assert_eq!(reader, lines(&expected));
    }
    let expected = "create W-\n get_children .\n get_data_watch R-2\n get_children .\n delete W-3";
    assert_eq!(second, lines(expected));
    let expected = "create R-\n get_children .\n get_data_watch W-3\n get_children .\n delete R-4";
    assert_eq!(last, lines(expected));
}

#[test]
fn curators_readers_all_watch_the_first_writer_of_the_queue() {
    let [_, one, _, second, last] = subject("curator-read-write").queue_of(MIXED);
    let read = "create _c_<id>-__READ__\n get_children .\n get_data_watch _c_<id>-__WRIT__0\n get_children .";
    assert_eq!(one, lines(&format!("{read}\n delete _c_<id>-__READ__1")));
    let expected = "create _c_<id>-__WRIT__\n get_children .\n get_data_watch _c_<id>-__READ__2\n \
                    get_children .\n delete _c_<id>-__WRIT__3";
    assert_eq!(second, lines(expected));
    // The first writer wakes the last reader too early, so the last reader goes on to watch the second.
    let again = "get_data_watch _c_<id>-__WRIT__3\n get_children .\n delete _c_<id>-__READ__4";
    assert_eq!(last, lines(&format!("{read}\n {again}")));
}

#[test]
fn kazoos_readers_watch_the_last_write_lock_before_them() {
    let [_, one, _, second, last] = subject("kazoo-read-write").queue_of(MIXED);
    let reader = |watched: u32, own: u32| {
        format!(
            "exists .\n create <id>__rlock__\n get_children .\n get_data_watch <id>__lock__{watched}\n \
             get_children .\n delete <id>__rlock__{own}"
        )
    };
    assert_eq!(one, lines(&reader(0, 1)));
    let expected = "exists .\n create <id>__lock__\n get_children .\n get_data_watch <id>__rlock__2\n \
                    get_children .\n delete <id>__lock__3";
    assert_eq!(second, lines(expected));
    assert_eq!(last, lines(&reader(3, 4)));
}

#[test]
fn parent_watchers_list_at_every_change_until_admitted() {
    let lists = subject("shared-parent-watch").queue_of(MIXED).map(|sent| sent.len() - 2);
    // The second writer lists at its arrival, at the last reader's, and at three releases. The last reader
    // lists at its arrival and at four releases. The readers before them saw two or three arrivals and one
    // release.
    assert_eq!(lists, [1, 5, 4, 5, 5]);
}

/// Every notification is of a data watch, and each watch fires once.
#[test]
fn readers_of_the_second_writer_wake_twice_when_all_watch_the_first_writer() {
    let (a, b) = (2, 2);
    for (lock, notifications) in [
        ("shared-predecessor-watch", a + 1 + b),
        ("kazoo-read-write", a + 1 + b),
        ("curator-read-write", (a + b) + 1 + b),
    ] {
        let queue = subject(lock).queue_of(TWO_AND_TWO);
        assert_eq!(sent(&queue, "get_data_watch"), notifications, "{lock}");
        // All contenders were served, so all watches have fired, and each led to a list.
        assert_eq!(sent(&queue, "get_children"), TWO_AND_TWO.len() + notifications, "{lock}");
    }
}

#[test]
fn writer_lists_after_each_reader_that_leaves_in_reverse_order() {
    let left = |order| subject("shared-predecessor-watch").queue_served([Read, Read, Read, Write], order);
    let [.., writer] = left([0, 1, 2, 3]);
    assert_eq!(sent(&[writer], "get_data_watch"), 1);
    let [.., writer] = left([2, 1, 0, 3]);
    assert_eq!(sent(&[writer], "get_data_watch"), 3);
}

#[test]
fn timed_out_acquire_leaves_no_node() {
    let (sent, left) = subject("shared-predecessor-watch").timed_out();
    assert_eq!(sent, lines("create W-\n get_children .\n get_data_watch W-0\n delete W-1"));
    assert_eq!(left, 1);
    let (sent, left) = subject("shared-parent-watch").timed_out();
    assert_eq!((sent, left), (lines("create W-\n get_children_watch .\n delete W-1"), 1));
    let (sent, left) = subject("curator-read-write").timed_out();
    let once = "get_children .\n get_data_watch _c_<id>-__WRIT__0";
    let expected = format!("create _c_<id>-__WRIT__\n {once}\n {once}\n delete _c_<id>-__WRIT__1");
    assert_eq!((sent, left), (lines(&expected), 1));
    let (sent, left) = subject("kazoo-read-write").timed_out();
    let expected = "exists .\n create <id>__lock__\n get_children .\n get_data_watch <id>__lock__0\n \
                    delete <id>__lock__1";
    assert_eq!((sent, left), (lines(expected), 1));
}

#[test]
fn departed_waiter_in_the_middle_is_skipped() {
    let [_, _, gone, last] = subject("shared-predecessor-watch").middle_leaves();
    assert_eq!(gone, lines("create W-\n get_children .\n get_data_watch W-1\n delete W-2"));
    let expected = "create W-\n get_children .\n get_data_watch W-2\n get_children .\n get_data_watch W-1\n \
                    get_children .\n delete W-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn writer_that_also_reads_keeps_its_position_when_it_stops_writing() {
    let story = subject("curator-read-write").downgrade();
    let expected = "create _c_<id>-__WRIT__\n get_children .\n create _c_<id>-__READ__0\n get_children .\n \
                    delete _c_<id>-__WRIT__0\n delete _c_<id>-__READ__0";
    assert_eq!(story.owner, lines(expected));
    // The downgrade wakes the waiting writer, which finds the reader in its way, and is admitted after that.
    let expected = "create _c_<id>-__WRIT__\n get_children .\n get_data_watch _c_<id>-__WRIT__0\n \
                    get_children .\n get_data_watch _c_<id>-__READ__0\n get_children .\n delete _c_<id>-__WRIT__1";
    assert_eq!(story.writer, lines(expected));
}

#[test]
fn second_acquire_of_kazoos_held_side_times_out_without_a_request() {
    for mode in [Read, Write] {
        let twice = subject("kazoo-read-write").twice_as(mode);
        assert_eq!(twice, (Err(AcquireError::TimedOut), lines("")), "{mode:?}");
    }
}
