//! The locks of other client libraries.

use zklockbench::lock::AcquireError;

use crate::rehearsal::{lines, subject};

#[test]
fn gos_lock_asks_three_times_alone_and_five_times_in_a_queue() {
    let lock = || subject("go-zookeeper");
    assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0"));
    let [_, _, third, _] = lock().queue();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-1\n get_children .\n \
                    delete _c_<id>-lock-2";
    assert_eq!(third, lines(expected));
}

#[test]
fn gos_lock_deletes_its_node_when_its_patience_ends() {
    let (sent, left) = subject("go-zookeeper").timed_out();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-0\n \
                    delete _c_<id>-lock-1";
    assert_eq!((sent, left), (lines(expected), 1));
}

#[test]
fn gos_lock_watches_the_one_before_the_one_that_leaves() {
    let [_, _, _, last] = subject("go-zookeeper").middle_leaves();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-2\n get_children .\n \
                    get_data_watch _c_<id>-lock-1\n get_children .\n delete _c_<id>-lock-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn gos_lock_makes_missing_parents_from_the_top_and_curator_looks_from_the_leaf() {
    let expected = "create _c_<id>-lock-\n exists top\n exists top/above\n create top/above\n exists .\n \
                    create .\n create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0";
    assert_eq!(subject("go-zookeeper").alone_below_nothing(), lines(expected));
    let expected = "create _c_<id>-lock-\n exists .\n exists top/above\n exists top\n create top/above\n \
                    create .\n create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0";
    assert_eq!(subject("curator-mutex").alone_below_nothing(), lines(expected));
}

#[test]
fn gos_lock_that_is_held_refuses_without_asking_anybody() {
    assert_eq!(subject("go-zookeeper").twice(), (Err(AcquireError::Deadlock), lines("")));
}
