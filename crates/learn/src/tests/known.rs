//! Logs whose truth is known, in situations that look alike.

use super::*;

fn kazoo(of: u32) -> String {
    format!("/carts/1/{HEX}{:02x}__lock__{of:010}", of % 256)
}

fn kazoo_read(of: u32) -> String {
    format!("/carts/1/{HEX}{:02x}__rlock__{of:010}", of % 256)
}

fn go(of: u32) -> String {
    format!("/carts/1/_c_{HEX}{:02x}-lock-{of:010}", of % 256)
}

#[test]
fn lost_record_does_not_turn_timeouts_of_kazoo_and_go_into_acquisitions() {
    let counts = |held: String, waiting: fn(u32) -> String, has_reconnected: bool| {
        let mut story = Story::default();
        story.at(0).create(1, &held).create(9, "/other").lost();
        for of in 2..12 {
            story.create(2, &waiting(of)).reads(2, if has_reconnected { -2 } else { 2 });
            story.at(i64::from(of) * 100).delete(2, &waiting(of));
        }
        let family = story.at(2_000).delete(1, &held).family();
        (family.acquisitions, family.endings.gave_up, family.endings.unobserved)
    };
    type NameOf = fn(u32) -> String;
    let names: [(String, NameOf); 3] = [(kazoo(1), kazoo), (kazoo(1), kazoo_read), (go(1), go)];
    for (held, waiting) in names {
        assert_eq!(counts(held, waiting, false), (1, 10, 0), "{}", waiting(2));
    }
    // kazoo numbers its requests from 1 after a reconnection, so the number of requests is unknown.
    assert_eq!(counts(kazoo(1), kazoo, true), (11, 0, 1));
}

#[test]
fn client_that_dies_while_it_waits_never_holds_the_lock() {
    // Returns the numbers of acquisitions and of sessions that ended during a hold and during a wait.
    let counts = |timeout: &[u8], end_ms: i64, end: fn(&mut Story, i64) -> &mut Story| {
        let mut story = Story::default();
        story.at(0).record(2, txn::CREATE_SESSION, timeout).create(1, &kazoo(1)).at(5).create(2, &kazoo(2));
        story.at(10).create(3, &kazoo(3)).at(20).delete(1, &kazoo(1));
        let family = end(story.at(20 + end_ms), 2).at(5_000).delete(3, &kazoo(3)).family();
        (family.acquisitions, family.endings.session_ended_holding, family.endings.session_ended_waiting)
    };
    let timeout = 4_000_i32.to_be_bytes();
    assert_eq!(counts(&timeout, 3_985, Story::expire), (2, 0, 1));
    // The server has received something from the client after the grant.
    assert_eq!(counts(&timeout, 4_030, Story::expire), (3, 1, 0));
    // The client closed its session, or the session's timeout is unknown.
    assert_eq!(counts(&timeout, 3_985, Story::close), (3, 1, 0));
    assert_eq!(counts(&[], 3_985, Story::expire), (3, 1, 0));
}

#[test]
fn timeout_of_a_session_that_is_older_than_the_logs_is_in_the_snapshot() {
    const SESSION: i64 = snapshot::written::SESSION;
    let directory = with_snapshot(2, &[(&kazoo(1), 1, 7), (&kazoo(2), 2, SESSION)]);
    let mut story = Story { records: vec![Vec::new(); 2], ..Story::default() };
    story.at(0).delete(7, &kazoo(1)).at(3_985).expire(SESSION);
    let family = families_in(&story.read_in(directory.path(), "log.3", Scope::default())).remove(0);
    assert_eq!((family.endings.session_ended_holding, family.endings.session_ended_waiting), (0, 1));
}

#[test]
fn rare_extra_requests_are_not_timeouts_if_no_request_timed_out() {
    // A few holders read a node, or send a request twice because the connection broke.
    let mut story = Story::default();
    for of in 0..100_u32 {
        let (at, first, second) = (i64::from(of) * 100, kazoo(2 * of), kazoo(2 * of + 1));
        story.at(at).create(1, &first).reads(1, 1);
        story.create(2, &second).reads(2, 3 + i32::from(of % 40 == 10));
        story.at(at + 50).delete(1, &first).at(at + 60).delete(2, &second);
    }
    let family = story.family();
    assert_eq!((family.acquisitions, family.endings.gave_up_at_grant), (200, None));
}

#[test]
fn readers_within_their_sessions_write_lock_may_send_other_requests() {
    let name = |side: &str, of: u32| format!("/rw/_c_{GUID}{:02x}-__{side}__{of:010}", of % 256);
    // Returns the numbers of cycles that were released and given up, if the reader sends these requests besides its
    // create and its delete, and ends after this time.
    let endings = |reader: fn(u32) -> (i32, i64)| {
        let mut story = Story::default();
        for of in 0..40_u32 {
            let (at, write, read) = (i64::from(of) * 1_000, name("WRIT", 2 * of), name("READ", 2 * of + 1));
            let (requests, ms) = reader(of);
            story.at(at).create(1, &write).reads(1, 1).at(at + 10).create(1, &read).reads(1, requests);
            story.at(at + 10 + ms).delete(1, &read).at(at + 11 + ms).delete(1, &write);
        }
        let family = story.family();
        assert_eq!(family.acquisitions, family.endings.released);
        (family.endings.released, family.endings.gave_up)
    };
    // The holder of both locks reads a node, for a time that is too short for a timeout or varies.
    assert_eq!(endings(|_| (2, 5)), (80, 0));
    assert_eq!(endings(|of| (2, 10 + i64::from(of))), (80, 0));
    // Other threads of the session send some requests at the same time.
    assert_eq!(endings(|of| (1 + of as i32 % 4, 30)), (80, 0));
    // Another thread of the session waits for the writer until it times out.
    assert_eq!(endings(|_| (2, 100)), (40, 40));
}

#[test]
fn readers_of_kazoo_before_2_9_wait_for_later_writers() {
    // A reader and a writer wait for the first writer and then for each other, until one of them gives up. Returns the
    // numbers of acquisitions and abandoned requests, the longest wait and the longest hold.
    let found = |reader_gives_up: bool, reads_while_alone: i32| {
        let mut story = Story::default();
        for of in 0..30_u32 {
            let at = i64::from(of) * 1_000;
            let name =
                |side: &str, more: u32| format!("/catalog/{HEX}{0:02x}__{side}__{0:010}", 4 * of + more);
            let (alone, first) = (name("rlock", 0), name("lock", 1));
            let (reader, later) = (name("rlock", 2), name("lock", 3));
            story.at(at).create(3, &alone).reads(3, 1 + reads_while_alone).at(at + 20).delete(3, &alone);
            story.at(at + 100).create(1, &first).reads(1, 1).at(at + 105).create(2, &reader).reads(2, 2);
            story.at(at + 110).create(4, &later).reads(4, 2).at(at + 120).delete(1, &first).reads(2, 2);
            if reader_gives_up {
                story.at(at + 620).delete(2, &reader).reads(4, 1).at(at + 635).delete(4, &later);
            } else {
                story.at(at + 610).delete(4, &later).reads(2, 1).at(at + 635).delete(2, &reader);
            }
        }
        let Family { acquisitions, endings, wait, hold, .. } = story.family();
        let longest = [wait, hold].map(|times| times.unwrap().max_us / 1_000);
        (acquisitions, endings.gave_up, longest)
    };
    assert_eq!(found(true, 0), (90, 30, [510, 20]));
    assert_eq!(found(false, 0), (90, 30, [505, 25]));
    // If readers also send other requests, their numbers show nothing.
    assert_eq!(found(true, 1), (120, 0, [510, 500]));
    assert_eq!(found(false, 1), (90, 30, [15, 515]));
}

#[test]
fn handoff_is_not_estimated_from_clients_of_other_locks() {
    let (mut story, mut at) = (Story::default(), 0);
    for of in 0..100 {
        story.cycle(1, &mutex(of), at, 20);
        at += 23 + i64::from(of % 2);
    }
    for of in 0..100 {
        story.cycle(2, &kazoo(of), at, 20);
        at += 21 + i64::from(of % 60);
    }
    let families = story.families();
    let basis =
        |recipe: Recipe| families.iter().find(|family| family.recipe == recipe).unwrap().handoff.basis;
    let found = [Recipe::CuratorMutex, Recipe::Kazoo].map(basis);
    assert_eq!(found, [HandoffBasis::Estimated, HandoffBasis::Bounded]);
}

#[test]
fn wait_for_a_lease_ends_with_the_first_release() {
    let mut story = Story::default();
    for of in 1..=2_u32 {
        let session = i64::from(of);
        story.at(0).create(session, &inner(of)).create(session, &lease(of)).delete(session, &inner(of));
    }
    // The third client waits for one of two leases; the fourth finds a free one. Before they leave the inner queue,
    // other clients release theirs.
    story.at(10).create(3, &inner(3)).create(3, &lease(3));
    story.at(30).delete(1, &lease(1)).at(33).delete(2, &lease(2)).at(35).delete(3, &inner(3));
    story.at(40).create(4, &inner(4)).create(4, &lease(4));
    story.at(42).delete(3, &lease(3)).at(44).delete(4, &inner(4)).at(50).delete(4, &lease(4));
    let family = story.family();
    assert_eq!((family.longest_queue, logged(family.wait.as_ref())), (2, Some((4, 0, 20_000))));
    assert_eq!(logged(family.hold.as_ref()), Some((4, 12_000, 33_000)));
}
