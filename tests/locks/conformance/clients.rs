//! The locks of other client libraries.

use zklockbench_core::catalog::ParamValue;
use zklockbench_locks::AcquireError;

use crate::support::contender::LONG;
use crate::support::rehearsal::{lines, subject};

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

#[test]
fn kazoos_lock_looks_at_the_directory_first_and_at_its_second_turn_for_its_own_prefix() {
    let lock = || subject("kazoo");
    let [first, second] = <[_; 2]>::try_from(lock().again(2)).unwrap();
    assert_eq!(first, lines("exists .\n create <id>__lock__\n get_children .\n delete <id>__lock__0"));
    let expected = "get_children .\n create <id>__lock__\n get_children .\n delete <id>__lock__1";
    assert_eq!(second, lines(expected));
    let [_, _, third, _] = lock().queue();
    let expected = "exists .\n create <id>__lock__\n get_children .\n get_data_watch <id>__lock__1\n \
                    get_children .\n delete <id>__lock__2";
    assert_eq!(third, lines(expected));
}

#[test]
fn kazoos_lock_deletes_its_node_when_its_patience_ends_and_is_passed_by_those_behind() {
    let (sent, left) = subject("kazoo").timed_out();
    let expected = "exists .\n create <id>__lock__\n get_children .\n get_data_watch <id>__lock__0\n \
                    delete <id>__lock__1";
    assert_eq!((sent, left), (lines(expected), 1));
    let [_, _, _, last] = subject("kazoo").middle_leaves();
    let expected = "exists .\n create <id>__lock__\n get_children .\n get_data_watch <id>__lock__2\n \
                    get_children .\n get_data_watch <id>__lock__1\n get_children .\n delete <id>__lock__3";
    assert_eq!(last, lines(expected));
}

#[test]
fn kazoos_lock_makes_missing_parents_before_its_first_node() {
    let expected = "exists .\n exists top/above\n exists top\n create top/above\n create .\n \
                    create <id>__lock__\n get_children .\n delete <id>__lock__0";
    assert_eq!(subject("kazoo").alone_below_nothing(), lines(expected));
}

#[test]
fn kazoos_lock_that_is_held_waits_for_itself_without_asking_anybody() {
    assert_eq!(subject("kazoo").twice(), (Err(AcquireError::TimedOut), lines("")));
}

#[test]
fn kazoos_lock_that_does_not_block_deletes_its_node_at_once_unless_it_is_the_first() {
    let lock = || subject("kazoo").with("blocking", ParamValue::Bool(false));
    assert_eq!(lock().alone(), subject("kazoo").alone());
    let (sent, left) = lock().timed_out();
    let expected = "exists .\n create <id>__lock__\n get_children .\n delete <id>__lock__1";
    assert_eq!((sent, left), (lines(expected), 1));
    assert_eq!(lock().twice(), (Err(AcquireError::TimedOut), lines("")));
    // It waits for nothing, however much patience it has.
    assert!(lock().gives_up_after() < LONG / 2);
}

#[test]
fn kazoos_lock_waits_for_curators_nodes_only_when_it_is_told_to() {
    let (curator, kazoo) = (subject("curator-mutex"), || subject("kazoo"));
    assert!(kazoo().is_let_in_beside(&curator));
    assert!(!kazoo().word("extra_patterns", "lock-").is_let_in_beside(&curator));
    assert!(!curator.is_let_in_beside(&kazoo()));
}

#[test]
fn the_librarys_lock_shows_its_create_and_its_delete_and_leaves_nothing_when_it_ends_early() {
    let lock = || subject("crate-lock");
    assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n delete _c_<id>-lock-0"));
    let [_, _, third, _] = lock().queue();
    assert_eq!(third, lines("create _c_<id>-lock-\n delete _c_<id>-lock-2"));
    assert_eq!(lock().timed_out(), (lines("create _c_<id>-lock-\n get_children ."), 1));
    let [_, _, gone, last] = lock().middle_leaves();
    assert_eq!(gone, lines("create _c_<id>-lock-\n get_children ."));
    assert_eq!(last, lines("create _c_<id>-lock-\n delete _c_<id>-lock-3"));
}
