//! The locks of other client libraries.

use zklockbench_core::catalog::ParamValue;
use zklockbench_locks::AcquireError;

use crate::support::contender::LONG;
use crate::support::rehearsal::{lines, subject};

#[test]
fn go_lock_sends_three_requests_alone_and_five_in_a_queue() {
    let lock = || subject("go-zookeeper");
    assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0"));
    let [_, _, third, _] = lock().queue();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-1\n get_children .\n \
                    delete _c_<id>-lock-2";
    assert_eq!(third, lines(expected));
}

#[test]
fn go_lock_deletes_its_node_on_timeout() {
    let (sent, left) = subject("go-zookeeper").timed_out();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-0\n \
                    delete _c_<id>-lock-1";
    assert_eq!((sent, left), (lines(expected), 1));
}

#[test]
fn go_lock_watches_the_next_predecessor_when_one_leaves() {
    let [_, _, _, last] = subject("go-zookeeper").middle_leaves();
    let expected = "create _c_<id>-lock-\n get_children .\n get_data_watch _c_<id>-lock-2\n get_children .\n \
                    get_data_watch _c_<id>-lock-1\n get_children .\n delete _c_<id>-lock-3";
    assert_eq!(last, lines(expected));
}

#[test]
fn go_lock_creates_parents_from_the_top_and_curator_from_the_leaf() {
    let expected = "create _c_<id>-lock-\n exists top\n exists top/above\n create top/above\n exists .\n \
                    create .\n create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0";
    assert_eq!(subject("go-zookeeper").alone_below_nothing(), lines(expected));
    let expected = "create _c_<id>-lock-\n exists .\n exists top/above\n exists top\n create top/above\n \
                    create .\n create _c_<id>-lock-\n get_children .\n delete _c_<id>-lock-0";
    assert_eq!(subject("curator-mutex").alone_below_nothing(), lines(expected));
}

#[test]
fn held_go_lock_refuses_without_a_request() {
    assert_eq!(subject("go-zookeeper").twice(), (Err(AcquireError::Deadlock), lines("")));
}

#[test]
fn kazoo_lock_checks_the_directory_first_and_later_searches_its_prefix() {
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
fn kazoo_lock_deletes_its_node_on_timeout_and_later_waiters_skip_it() {
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
fn kazoo_lock_creates_parents_before_its_first_node() {
    let expected = "exists .\n exists top/above\n exists top\n create top/above\n create .\n \
                    create <id>__lock__\n get_children .\n delete <id>__lock__0";
    assert_eq!(subject("kazoo").alone_below_nothing(), lines(expected));
}

#[test]
fn held_kazoo_lock_waits_for_itself_without_a_request() {
    assert_eq!(subject("kazoo").twice(), (Err(AcquireError::TimedOut), lines("")));
}

#[test]
fn nonblocking_kazoo_lock_deletes_its_node_unless_it_is_first() {
    let lock = || subject("kazoo").with("blocking", ParamValue::Bool(false));
    assert_eq!(lock().alone(), subject("kazoo").alone());
    let (sent, left) = lock().timed_out();
    let expected = "exists .\n create <id>__lock__\n get_children .\n delete <id>__lock__1";
    assert_eq!((sent, left), (lines(expected), 1));
    assert_eq!(lock().twice(), (Err(AcquireError::TimedOut), lines("")));
    // It does not wait, however long its timeout.
    assert!(lock().gives_up_after() < LONG / 2);
}

#[test]
fn kazoo_lock_waits_for_curator_nodes_only_when_configured() {
    let (curator, kazoo) = (subject("curator-mutex"), || subject("kazoo"));
    assert!(kazoo().is_let_in_beside(&curator));
    assert!(!kazoo().word("extra_patterns", "lock-").is_let_in_beside(&curator));
    assert!(!curator.is_let_in_beside(&kazoo()));
}

#[test]
fn library_lock_shows_create_and_delete_and_leaves_nothing_on_timeout() {
    let lock = || subject("crate-lock");
    assert_eq!(lock().alone(), lines("create _c_<id>-lock-\n delete _c_<id>-lock-0"));
    let [_, _, third, _] = lock().queue();
    assert_eq!(third, lines("create _c_<id>-lock-\n delete _c_<id>-lock-2"));
    assert_eq!(lock().timed_out(), (lines("create _c_<id>-lock-\n get_children ."), 1));
    let [_, _, gone, last] = lock().middle_leaves();
    assert_eq!(gone, lines("create _c_<id>-lock-\n get_children ."));
    assert_eq!(last, lines("create _c_<id>-lock-\n delete _c_<id>-lock-3"));
}
