//! Tests with handwritten logs.

mod foreign;
mod known;

use std::collections::HashMap;
use std::fs;

use super::*;
use crate::written::log;
use zklockbench_core::txn;

/// Builder for a log. Each request increments its session's request number.
#[derive(Default)]
struct Story {
    records: Vec<Vec<u8>>,
    requests: HashMap<i64, i32>,
    at_ms: i64,
}

impl Story {
    fn at(&mut self, ms: i64) -> &mut Self {
        self.at_ms = 1_000_000 + ms;
        self
    }

    fn record(&mut self, session: i64, kind: i32, body: &[u8]) -> &mut Self {
        let request = self.requests.entry(session).or_default();
        *request += 1;
        let zxid = self.records.len() as i64 + 1;
        let header = txn::header(session, *request, zxid, self.at_ms, kind);
        self.records.push(txn::written(header, body));
        self
    }

    /// Removes the last record, as if it were damaged.
    fn lost(&mut self) -> &mut Self {
        self.records.last_mut().unwrap().clear();
        self
    }

    /// Sends requests that are not logged.
    fn reads(&mut self, session: i64, count: i32) -> &mut Self {
        *self.requests.entry(session).or_default() += count;
        self
    }

    fn create_as(&mut self, session: i64, path: &str, is_ephemeral: bool, is_old: bool) -> &mut Self {
        let acl = [&31_i32.to_be_bytes()[..], &txn::buffer(b"world"), &txn::buffer(b"anyone")].concat();
        let lists = [&(-1_i32).to_be_bytes()[..], &1_i32.to_be_bytes(), &acl].concat();
        // The parent's version after the create of a sequential node is the node's number plus 1.
        let digits = path.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        let number = digits[digits.len().saturating_sub(10)..].parse().ok();
        let parent = number.map_or(7, |number: i32| number + 1).to_be_bytes();
        let parent = if is_old { &[][..] } else { &parent };
        let body = [&txn::buffer(path.as_bytes())[..], &lists, &[u8::from(is_ephemeral)], parent].concat();
        self.record(session, txn::CREATE, &body)
    }

    fn create(&mut self, session: i64, path: &str) -> &mut Self {
        self.create_as(session, path, true, false)
    }

    fn delete(&mut self, session: i64, path: &str) -> &mut Self {
        self.record(session, txn::DELETE, &txn::buffer(path.as_bytes()))
    }

    /// Sends a create that fails because the node exists.
    fn refused(&mut self, session: i64) -> &mut Self {
        self.record(session, txn::ERROR, &(-110_i32).to_be_bytes())
    }

    fn close(&mut self, session: i64) -> &mut Self {
        self.record(session, txn::CLOSE_SESSION, &[])
    }

    /// Ends an expired session, like a server: with the request number 0.
    fn expire(&mut self, session: i64) -> &mut Self {
        self.requests.insert(session, -1);
        self.close(session)
    }

    /// Adds an uncontended cycle with the requests that most clients send.
    fn cycle(&mut self, session: i64, path: &str, from_ms: i64, hold_ms: i64) -> &mut Self {
        self.at(from_ms).create(session, path).reads(session, 1).at(from_ms + hold_ms).delete(session, path)
    }

    fn read_as(&self, scope: Scope) -> Read {
        let directory = tempfile::tempdir().unwrap();
        self.read_in(directory.path(), "log.1", scope)
    }

    /// Reads the log in a directory, which may contain snapshots.
    fn read_in(&self, directory: &Path, name: &str, scope: Scope) -> Read {
        fs::write(directory.join(name), log(&self.records)).unwrap();
        let directories = [directory.to_owned()];
        read_logs(&directories, scope, true, directory, &|| false).unwrap()
    }

    fn families(&self) -> Vec<Family> {
        families_in(&self.read_as(Scope::default()))
    }

    fn family(&self) -> Family {
        let mut families = self.families();
        assert_eq!(families.len(), 1, "{families:?}");
        families.remove(0)
    }
}

fn families_in(read: &Read) -> Vec<Family> {
    summarise(&read.observed, Asked::default()).unwrap().families
}

/// Creates a directory with a snapshot of the root and these nodes.
fn with_snapshot(zxid: i64, nodes: &[(&str, i64, i64)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bytes = snapshot::written::snapshot(&[&[("", 0, 0)][..], nodes].concat());
    fs::write(directory.path().join(format!("snapshot.{zxid}")), bytes).unwrap();
    directory
}

const GUID: &str = "0f8fad5b-d9cb-469f-a165-7086772895";
const HEX: &str = "0f8fad5bd9cb469fa1657086772895";

fn mutex(of: u32) -> String {
    format!("/orders/lock/_c_{GUID}{:02x}-lock-{of:010}", of % 256)
}

/// A request's node in the inner queue of a semaphore.
fn inner(of: u32) -> String {
    format!("/pool/locks/_c_{GUID}{of:02x}-lock-{of:010}")
}

fn lease(of: u32) -> String {
    format!("/pool/leases/_c_{GUID}{of:02x}-lease-{of:010}")
}

fn logged(times: Option<&Times>) -> Option<(u64, u64, u64)> {
    times.map(|times| (times.count, times.p50.logged_us, times.max_us))
}

#[test]
fn waits_end_and_holds_start_when_the_previous_holder_releases() {
    let mut story = Story::default();
    story.at(0).create(1, &mutex(1)).at(10).create(2, &mutex(2)).at(15).create(3, &mutex(3));
    story.at(50).delete(1, &mutex(1)).at(80).delete(2, &mutex(2)).at(100).delete(3, &mutex(3));
    let family = story.family();
    assert_eq!((family.recipe, family.kind), (Recipe::CuratorMutex, FamilyKind::Lock));
    assert_eq!(family.name, "/orders/lock");
    assert_eq!((family.acquisitions, family.sessions, family.longest_queue), (3, 3, 3));
    assert_eq!(logged(family.wait.as_ref()), Some((3, 40_000, 65_000)));
    assert_eq!(logged(family.hold.as_ref()), Some((3, 30_000, 50_000)));
    assert_eq!(family.longest_waits[0].waited_us, 65_000);
    assert_eq!((family.longest_waits[0].at_us, &*family.longest_waits[0].session), (15_000, "0x3"));
}

#[test]
fn requests_that_never_get_the_lock_wait_until_they_end() {
    let mut story = Story::default();
    (1..=20).for_each(|of| {
        story.at(0).create(i64::from(of), &mutex(of));
    });
    // One request gives up, and another ends with its session; the others wait until the end.
    story.at(2_000).delete(2, &mutex(2)).at(5_000).close(3);
    story.at(10_000).record(99, txn::CREATE_SESSION, &[]);
    let family = story.family();
    let waits: Vec<u64> = family.longest_waits.iter().map(|wait| wait.waited_us / 1_000_000).collect();
    assert_eq!(waits, [&[10_u64; 17][..], &[5, 2]].concat());
    // 17 requests wait for 10 s, one for 5 s and one for 2 s, all within 10 s.
    assert!((family.waiting_mean - 17.7).abs() < 1e-9, "{}", family.waiting_mean);
    let (scenario, _) = scenario(&story);
    assert!(scenario.contains("contenders = 32\n"), "{scenario}");
}

#[test]
fn requests_are_counted_by_outcome() {
    let mut story = Story::default();
    (1..=6).for_each(|of| {
        story.at(i64::from(of)).create(i64::from(of), &mutex(of));
    });
    // Session 2 gives up, session 1 is closed without a list of its nodes, and session 9 deletes the third
    // node.
    story.at(10).delete(2, &mutex(2)).at(20).close(1).at(30).delete(9, &mutex(3));
    // Session 5 is closed while waiting, session 4 releases, and session 6 still holds the lock at the end.
    story.at(40).close(5).at(50).delete(4, &mutex(4));
    let family = story.family();
    let expected = Endings {
        released: 1,
        gave_up: 1,
        gave_up_at_grant: None,
        session_ended_holding: 1,
        session_ended_waiting: 1,
        broken: 1,
        open: 1,
        unobserved: 0,
    };
    assert_eq!((family.endings, family.acquisitions), (expected, 4));
    // Only releases show the intended hold.
    assert_eq!(logged(family.hold.as_ref()), Some((1, 20_000, 20_000)));
}

#[test]
fn lost_delete_or_session_close_affects_only_the_cycles_that_it_ended() {
    // Session 1's delete is lost while the session holds the lock, or session 2's close while it waits.
    let losses: [fn(&mut Story) -> &mut Story; 2] = [
        |story| story.at(40).delete(1, &mutex(1)).lost().at(50).delete(2, &mutex(2)),
        |story| story.at(30).close(2).lost().at(40).delete(1, &mutex(1)),
    ];
    for lose in losses {
        let mut story = Story::default();
        (1..=4).for_each(|of| {
            story.at(i64::from(of)).create(i64::from(of), &mutex(of)).reads(i64::from(of), 3);
        });
        lose(&mut story).at(80).delete(3, &mutex(3)).at(100).delete(4, &mutex(4));
        assert_eq!(story.read_as(Scope::default()).logs.missing, 1);
        let Family { acquisitions, endings, hold, .. } = story.family();
        assert_eq!((acquisitions, endings.gave_up, endings.released, endings.unobserved), (4, 0, 3, 1));
        // The next holder's wait and hold are unknown, but its successor's are not.
        assert_eq!(hold.map(|hold| (hold.count, hold.p50.logged_us)), Some((2, 20_000)));
    }
    // If the holder's end cannot be missing, a request behind it that deletes its node has given up.
    let mut story = Story::default();
    story.at(0).create(1, "/other").lost().create(1, &mutex(1)).create(2, &mutex(2)).delete(2, &mutex(2));
    assert_eq!(story.family().endings.gave_up, 1);
}

#[test]
fn lost_record_does_not_turn_later_timeouts_into_acquisitions() {
    // An unrelated record is lost. Then ten requests time out while session 1 holds the lock.
    let gave_up = |reads: i32, has_snapshot: bool| {
        let mut directory = tempfile::tempdir().unwrap();
        let mut story = Story::default();
        story.at(0).create(1, &mutex(1)).create(9, "/other").lost();
        if has_snapshot {
            directory = with_snapshot(4, &[(&mutex(1), 1, 1)]);
            story.create(9, "/another").create(9, "/third").lost();
        }
        for of in 2..12 {
            story.create(2, &mutex(of)).reads(2, reads).at(i64::from(of) * 100).delete(2, &mutex(of));
        }
        let families = families_in(&story.read_in(directory.path(), "log.1", Scope::default()));
        families.iter().map(|family| family.endings.gave_up).sum::<u64>()
    };
    assert_eq!(gave_up(2, false), 10);
    // Without a snapshot, an even number of requests may be an acquisition.
    assert_eq!([gave_up(3, false), gave_up(3, true)], [0, 10]);
}

#[test]
fn directory_with_only_snapshots_is_not_another_server() {
    let directory = tempfile::tempdir().unwrap();
    let directories = ["datalog", "data"].map(|name| directory.path().join(name));
    directories.iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 10);
    fs::write(directories[0].join("log.1"), log(&story.records)).unwrap();
    fs::write(directories[1].join("snapshot.0"), snapshot::written::snapshot(&[("", 0, 0)])).unwrap();
    let read = read_logs(&directories, Scope::default(), true, directory.path(), &|| false).unwrap();
    assert_eq!(read.logs.servers, 1);
}

#[test]
fn node_from_a_snapshot_that_the_logs_do_not_continue_blocks_no_requests() {
    let directory = with_snapshot(5, &[(&mutex(1), 4, 77)]);
    let mut story = Story { records: vec![Vec::new(); 9], ..Story::default() };
    story.at(0).create(2, &mutex(2)).reads(2, 3).at(10).delete(2, &mutex(2)).cycle(3, &mutex(3), 20, 10);
    let read = story.read_in(directory.path(), "log.a", Scope::default());
    let family = families_in(&read).remove(0);
    assert_eq!((read.logs.missing, family.acquisitions, family.endings.gave_up), (4, 2, 0));
}

#[test]
fn node_that_the_snapshot_after_a_gap_contains_too_early_blocks_no_requests() {
    // The server created the second node while it wrote the snapshot.
    let directory = with_snapshot(2, &[(&mutex(2), 5, 2)]);
    let mut story = Story::default();
    story.cycle(3, &mutex(0), 0, 5).lost();
    story.cycle(1, &mutex(1), 10, 20).cycle(2, &mutex(2), 40, 10);
    let read = story.read_in(directory.path(), "log.1", Scope::default());
    let Endings { released, gave_up, unobserved, .. } = families_in(&read).remove(0).endings;
    // The gap hides the end of the first cycle.
    assert_eq!((read.logs.missing, released, gave_up, unobserved), (1, 2, 0, 1));
}

#[test]
fn single_node_that_another_session_created_during_a_gap_is_another_cycle() {
    let directory = with_snapshot(3, &[("/jobs/nightly", 3, 2)]);
    let mut story = Story::default();
    story.cycle(1, "/jobs/nightly", 0, 5).lost().at(6).create(2, "/jobs/nightly").lost();
    story.at(60_000).delete(2, "/jobs/nightly");
    let family = families_in(&story.read_in(directory.path(), "log.1", Scope::default())).remove(0);
    let Endings { released, broken, unobserved, .. } = family.endings;
    assert_eq!((released, broken, unobserved, family.hold), (1, 0, 1, None));
}

#[test]
fn nodes_that_disappear_together_do_not_grant_the_lock_to_each_other() {
    let names: Vec<String> = (1..=9).map(mutex).collect();
    let crowd = |kind: i32, body: &[u8]| {
        let mut story = Story::default();
        for name in &names {
            story.at(0).create(1, name);
        }
        story.at(500).record(1, kind, body).cycle(2, &mutex(10), 600, 10).family()
    };
    let listed: Vec<Vec<u8>> = names.iter().map(|name| txn::buffer(name.as_bytes())).collect();
    let list = [&9_i32.to_be_bytes()[..], &listed.concat()].concat();
    for list in [&list[..], &[]] {
        let family = crowd(txn::CLOSE_SESSION, list);
        assert_eq!((family.acquisitions, family.endings.session_ended_waiting), (2, 8), "{list:?}");
    }
    let part = |path: &Vec<u8>| [&txn::DELETE.to_be_bytes()[..], &txn::buffer(path)].concat();
    let parts: Vec<Vec<u8>> = listed.iter().map(part).collect();
    let multi = [&9_i32.to_be_bytes()[..], &parts.concat()].concat();
    let family = crowd(txn::MULTI, &multi);
    assert_eq!((family.acquisitions, family.endings.released, family.endings.gave_up), (2, 2, 8));
}

#[test]
fn unknown_node_of_a_closed_session_does_not_separate_the_sessions_other_nodes() {
    // The session registered itself before the logs began.
    let paths = [mutex(1), "/services/host-1".to_owned(), mutex(2)];
    let listed = paths.map(|path| txn::buffer(path.as_bytes()));
    let list = [&3_i32.to_be_bytes()[..], &listed.concat()].concat();
    let mut story = Story::default();
    story.at(0).create(1, &mutex(1)).create(1, &mutex(2)).at(500).record(1, txn::CLOSE_SESSION, &list);
    let family = story.family();
    let Endings { session_ended_holding, session_ended_waiting, .. } = family.endings;
    assert_eq!((family.acquisitions, session_ended_holding, session_ended_waiting), (1, 1, 1));
}

#[test]
fn readers_share_the_lock_and_writers_hold_it_exclusively() {
    let name = |of: u32, side: &str| format!("/rw/_c_{GUID}{of:02x}-__{side}__{of:010}");
    let mut story = Story::default();
    for (of, side) in [(1, "READ"), (2, "READ"), (3, "WRIT"), (4, "READ"), (5, "READ")] {
        story.at(i64::from(of)).create(i64::from(of), &name(of, side));
    }
    story.at(20).delete(1, &name(1, "READ")).at(30).delete(2, &name(2, "READ"));
    story.at(50).delete(3, &name(3, "WRIT"));
    story.at(60).delete(4, &name(4, "READ")).delete(5, &name(5, "READ"));
    let family = story.family();
    assert_eq!((family.recipe, family.reads, family.acquisitions), (Recipe::CuratorReadWrite, 4, 5));
    // Waits: 0, 0, 27, 46 and 45 ms; holds: 19, 28, 20, 10 and 10 ms.
    assert_eq!(logged(family.wait.as_ref()), Some((5, 27_000, 46_000)));
    assert_eq!(logged(family.hold.as_ref()), Some((5, 19_000, 28_000)));
}

#[test]
fn reader_downgrades_a_write_hold_only_if_it_has_the_writers_number() {
    let name = |of: u32, side: &str, number: u32| format!("/rw/_c_{GUID}{of:02x}-__{side}__{number:010}");
    let hold = |number: u32| {
        let mut story = Story::default();
        let reader = name(3, "READ", number);
        story.at(0).create(1, &name(1, "WRIT", 1)).at(10).create(2, &name(2, "WRIT", 2));
        // The name of a downgrading reader ends with the writer's number, not with a number from its own create.
        story.at(50).create_as(1, &reader, true, number == 1).at(60).delete(1, &name(1, "WRIT", 1));
        story.at(160);
        if number == 1 {
            story.delete(1, &reader).at(200).delete(2, &name(2, "WRIT", 2));
        } else {
            story.delete(2, &name(2, "WRIT", 2)).at(200).delete(1, &reader);
        }
        let family = story.family();
        assert_eq!(family.endings.released, 3, "{number}");
        let waits = family.wait.map(|wait| wait.max_us);
        (waits, family.hold.map(|hold| (hold.p50.logged_us, hold.max_us)))
    };
    // The second writer waits for the downgraded hold, which lasts from 50 to 160 ms.
    assert_eq!(hold(1), (Some(150_000), Some((60_000, 110_000))));
    // Another thread's reader waits for both writers.
    assert_eq!(hold(3), (Some(110_000), Some((60_000, 100_000))));
}

#[test]
fn reader_without_its_writers_number_holds_within_its_sessions_write_lock() {
    let name = |of: u32, side: &str| format!("/rw/_c_{GUID}{:02x}-__{side}__{of:010}", of % 256);
    let endings = |reader: i64, reads: i32| {
        let mut story = Story::default();
        for of in 0..20_u32 {
            let (at, write, read) = (i64::from(of) * 1_000, name(3 * of, "WRIT"), name(3 * of + 2, "READ"));
            let waiting = name(3 * of + 1, "WRIT");
            story.at(at).create(1, &write).reads(1, 1).at(at + 10).create(2, &waiting).reads(2, 3);
            story.at(at + 20).create(reader, &read).reads(reader, reads).at(at + 50).delete(reader, &read);
            story.at(at + 60).delete(1, &write).at(at + 70).delete(2, &waiting);
        }
        let family = story.family();
        (family.endings.released, family.endings.gave_up, family.timeout_us)
    };
    assert_eq!(endings(1, 1), (60, 0, None));
    // These requests time out: one client sends another request first, and the other has no write lock.
    assert_eq!([endings(1, 2).1, endings(3, 1).1], [20, 20]);
}

#[test]
fn semaphore_requests_arrive_in_the_inner_queue_and_are_granted_by_leases() {
    let mut story = Story::default();
    for of in 1..=3_u32 {
        let (session, at) = (i64::from(of), i64::from(of) * 10);
        story.at(at).create(session, &inner(of)).at(at + 2).create(session, &lease(of));
        // There are two leases, so the third contender must wait.
        if of < 3 {
            story.at(at + 4).delete(session, &inner(of));
        }
    }
    story.at(50).delete(1, &lease(1)).at(53).delete(3, &inner(3));
    story.at(60).delete(2, &lease(2)).at(70).delete(3, &lease(3));
    let family = story.family();
    assert_eq!((family.recipe, &*family.name, family.locks), (Recipe::CuratorSemaphore, "/pool", 1));
    assert_eq!((family.acquisitions, family.longest_queue), (3, 2));
    // Waits from the inner create: 2, 2 and 20 ms.
    assert_eq!(logged(family.wait.as_ref()), Some((3, 2_000, 20_000)));
}

#[test]
fn abandoned_requests_in_the_inner_queue_of_a_semaphore_do_not_count_as_leases() {
    let mut story = Story::default();
    (1..=6).for_each(|of| {
        story.at(0).create(i64::from(of), &inner(of));
    });
    // There is one lease. Sessions 5 and 6 give up, the latter before the first lease.
    story.at(1).delete(6, &inner(6)).at(2).create(1, &lease(1)).at(3).delete(1, &inner(1));
    story.at(4).create(2, &lease(2)).at(5).delete(5, &inner(5));
    story.at(6).delete(1, &lease(1)).at(7).delete(2, &inner(2)).at(8).delete(2, &lease(2));
    let family = story.family();
    assert_eq!((family.recipe, family.acquisitions), (Recipe::CuratorSemaphore, 2));
    assert_eq!((family.endings.gave_up, family.longest_queue), (2, 1));
}

#[test]
fn timeout_at_the_grant_is_recognised_by_an_odd_number_of_requests() {
    let mut story = Story::default();
    for of in 0..40_u32 {
        story.cycle(i64::from(of), &mutex(of), i64::from(of) * 100, 10);
    }
    // Session 51 lists, watches, and times out without another list, just as the lock becomes free.
    story.at(9_000).create(50, &mutex(50)).at(9_001).create(51, &mutex(51)).reads(51, 2);
    story.reads(50, 1).at(9_010).delete(50, &mutex(50)).at(9_012).delete(51, &mutex(51));
    // If no request has timed out before, an odd number of requests has another cause.
    let family = story.family();
    assert_eq!((family.endings.gave_up_at_grant, family.acquisitions), (None, 42));
    story.at(9_020).create(50, &mutex(52)).at(9_021).create(51, &mutex(53)).reads(51, 2);
    story.at(9_031).delete(51, &mutex(53)).reads(50, 1).at(9_040).delete(50, &mutex(52));
    let family = story.family();
    let Endings { gave_up_at_grant, released, .. } = family.endings;
    assert_eq!((gave_up_at_grant, family.acquisitions, released), (Some(1), 42, 42));
    // If clients also send other requests, the number of requests is inconclusive.
    for at in (10_000..10_400).step_by(10) {
        story.at(at).create(60, &mutex(60)).reads(60, 2).at(at + 4).delete(60, &mutex(60));
    }
    assert_eq!(story.family().endings.gave_up_at_grant, None);
}

#[test]
fn times_across_a_clock_change_are_omitted() {
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 10).at(20).create(1, &mutex(2)).at(5).delete(1, &mutex(2));
    story.cycle(1, &mutex(3), 30, 10);
    assert_eq!(story.read_as(Scope::default()).observed.clock_steps, 1);
    let family = story.family();
    assert_eq!((family.acquisitions, logged(family.hold.as_ref())), (3, Some((2, 10_000, 10_000))));
}

#[test]
fn arrivals_after_the_clock_is_set_back_before_the_first_transaction_are_replayed() {
    let mut story = Story::default();
    story.cycle(1, &mutex(0), 60_000, 10);
    (1..=9).for_each(|of| {
        story.cycle(1, &mutex(of), i64::from(of) * 1_000, 10);
    });
    let (_, arrivals) = scenario(&story);
    assert_eq!(arrivals.lines().count(), 11, "{arrivals}");
    assert!(arrivals.starts_with("time,lock,hold\n0.000,0,"), "{arrivals}");
}

#[test]
fn registries_and_work_queues_are_not_locks() {
    let mut story = Story::default();
    for of in 1..=10_i64 {
        story.at(of).create(of, &format!("/services/host-{of}:8080"));
        // Producers and consumers of work items.
        let item = format!("/queue/qn-{of:010}");
        story.create_as(of, &item, false, false).delete(of + 1, &item);
    }
    let families = story.families();
    assert!(families.iter().all(|family| family.kind == FamilyKind::Registry), "{families:?}");
    assert!(families.iter().all(|family| family.name.starts_with("/services")));
}

#[test]
fn single_nodes_that_end_with_their_sessions_are_registries_or_elections() {
    let kind = |is_contended: bool| {
        let mut story = Story::default();
        for of in 1..=5_i64 {
            story.at(of * 1_000).create(of, "/services/host-1:8080");
            if is_contended {
                story.refused(of + 1);
            }
            story.at(of * 1_000 + 999).close(of);
        }
        story.family().kind
    };
    assert_eq!((kind(false), kind(true)), (FamilyKind::Registry, FamilyKind::Election));
    // A node that existed before the logs is no evidence of a lock.
    let member = "/members/m-0000000001";
    let directory = with_snapshot(2, &[("/brokers/ids/1", 1, 7), ("/controller", 2, 7), (member, 2, 8)]);
    let mut story = Story { records: vec![Vec::new(); 2], ..Story::default() };
    let read = story.at(0).delete(8, member).read_in(directory.path(), "log.3", Scope::default());
    let families = families_in(&read);
    assert_eq!(families.len(), 3);
    assert!(families.iter().all(|family| family.kind == FamilyKind::Registry), "{families:?}");
}

#[test]
fn sequential_queue_with_timeouts_is_a_lock() {
    let mut story = Story::default();
    for of in 0..30_u32 {
        let (at, names) =
            (i64::from(of) * 1_000, [0, 1].map(|more| format!("/q/lock-{:010}", 2 * of + more)));
        story.at(at).create(1, &names[0]).create(2, &names[1]);
        if of % 3 == 0 {
            story.at(at + 200).delete(2, &names[1]).at(at + 300).delete(1, &names[0]);
        } else {
            story.at(at + 100).delete(1, &names[0]).at(at + 150).delete(2, &names[1]);
        }
    }
    let family = story.family();
    assert_eq!((family.kind, family.timeout_us), (FamilyKind::Lock, Some(200_000)));
}

#[test]
fn queue_whose_clients_send_no_request_between_create_and_delete_is_a_lock() {
    // In a free `count` lock, the reply to the create shows that no other node is ahead.
    let mut story = Story::default();
    for of in 0..40_u32 {
        let (session, at, name) = (i64::from(of % 2), i64::from(of) * 100, format!("/q/n-{of:010}"));
        story.at(at).create(session, &name).at(at + 20).delete(session, &name);
    }
    assert_eq!((story.family().kind, story.family().acquisitions), (FamilyKind::Lock, 40));
}

#[test]
fn nodes_whose_names_merely_end_with_digits_are_not_a_queue() {
    let mut story = Story::default();
    (0..10_i64).for_each(|of| {
        story.cycle(of % 3, &format!("/locks/customer-491511234{}", of % 3), of * 100, 20);
    });
    let families = story.families();
    assert!(families.iter().all(|family| family.recipe == Recipe::SingleNode), "{families:?}");
    // The marks of kazoo's LockingQueue have the same numbers as its entries.
    let mut story = Story::default();
    (0..10_i64).for_each(|of| {
        story.cycle(of % 3, &format!("/q/taken/entry-100-{of:010}"), of * 100, 150);
    });
    assert_eq!(story.family().kind, FamilyKind::Registry);
    // If a client's own number precedes the sequence number, only the create shows which digits are which.
    let mut story = Story::default();
    for of in 0..10_i64 {
        story.at(of * 100).create(of % 3, &format!("/locks/a/client-{}{of:010}", of % 3));
    }
    let family = story.family();
    assert_eq!((family.recipe, family.locks), (Recipe::Sequential, 1));
}

#[test]
fn lease_belongs_to_the_thread_at_the_head_of_the_inner_queue() {
    let mut story = Story::default();
    // Two threads share a session; the second thread's node sorts first by name.
    story.at(0).create(1, &inner(9)).at(1).create(1, &inner(2)).at(2).create(1, &lease(9));
    story.at(4).delete(1, &inner(9)).at(5).create(1, &lease(2)).at(7).delete(1, &inner(2));
    story.at(20).delete(1, &lease(9)).at(30).delete(1, &lease(2));
    let family = story.family();
    assert_eq!((family.acquisitions, family.endings.released, family.endings.gave_up), (2, 2, 0));
    assert_eq!(logged(family.wait.as_ref()), Some((2, 2_000, 4_000)));
}

#[test]
fn inner_queue_of_a_semaphore_is_not_a_lock_even_before_the_first_lease() {
    let lease = format!("/pool/leases/_c_{GUID}02-lease-0000000001");
    let mut story = Story::default();
    story.at(0).create(1, &inner(1)).at(1).create(2, &inner(2)).at(5).delete(1, &inner(1));
    story.at(7).create(2, &lease).at(9).delete(2, &inner(2)).at(20).delete(2, &lease);
    let family = story.family();
    assert_eq!((family.recipe, &*family.name, family.locks), (Recipe::CuratorSemaphore, "/pool", 1));
}

#[test]
fn implausible_times_do_not_cause_a_panic() {
    for times in [[0, i64::MAX], [i64::MIN, 5], [i64::MAX, i64::MIN]] {
        let mut story = Story { at_ms: times[0], ..Story::default() };
        story.create(1, &mutex(1));
        story.at_ms = times[1];
        assert_eq!(story.delete(1, &mutex(1)).family().acquisitions, 1, "{times:?}");
    }
}

#[test]
fn logs_without_a_readable_transaction_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |contents: &[u8]| {
        fs::write(directory.path().join("log.1"), contents).unwrap();
        let directories = [directory.path().to_owned()];
        let read = read_logs(&directories, Scope::default(), false, directory.path(), &|| false);
        read.unwrap_err().to_string()
    };
    let unknown = refused(b"something else entirely");
    assert!(unknown.starts_with("no transaction could be read; log.1: not a ZooKeeper"), "{unknown}");
    assert_eq!(refused(&log(&[])), "no transaction could be read");
}

#[test]
fn wait_for_a_single_node_starts_at_the_first_failed_create() {
    let mut story = Story::default();
    story.at(0).create(1, "/jobs/nightly").at(10).refused(2).at(20).refused(3);
    story.at(30).delete(1, "/jobs/nightly").create(3, "/jobs/nightly").refused(2);
    story.at(50).delete(3, "/jobs/nightly").create(2, "/jobs/nightly").at(60).delete(2, "/jobs/nightly");
    let family = story.family();
    // Waits of 0, 10 and 40 ms; holds of 30, 20 and 10 ms.
    assert_eq!(logged(family.wait.as_ref()), Some((3, 10_000, 40_000)));
    assert_eq!(logged(family.hold.as_ref()), Some((3, 20_000, 30_000)));
}

#[test]
fn polling_client_waits_for_a_single_node_even_if_others_hold_it_in_between() {
    let longest_us = |refused: &[i64], created: i64| {
        let mut story = Story::default();
        for at in 0..3_000_i64 {
            story.at(at);
            if at == created {
                story.create(9, "/jobs/nightly").delete(9, "/jobs/nightly");
            }
            match at % 150 {
                0 => _ = story.create(1 + at / 150 % 3, "/jobs/nightly"),
                100 => _ = story.delete(1 + at / 150 % 3, "/jobs/nightly"),
                _ if refused.contains(&at) => _ = story.refused(9),
                _ => {}
            }
        }
        story.family().wait.map(|wait| wait.max_us)
    };
    assert_eq!(longest_us(&[20, 520], 1_020), Some(1_000_000));
    assert_eq!(longest_us(&[20, 1_520], 2_990), Some(2_970_000));
    // A single failure long before the create has another cause.
    assert_eq!(longest_us(&[20], 2_990), Some(0));
}

#[test]
fn wait_for_a_single_node_does_not_start_at_an_unrelated_failure() {
    let mut story = Story::default();
    // Each session first fails to create the parent of its node, because the parent exists.
    (1..=3).for_each(|session| {
        story.at(session).refused(session);
    });
    (0..20).for_each(|of| {
        story.cycle(of % 3 + 1, "/jobs/nightly", 60_000 + of * 2_000, 20);
    });
    // A session that failed to create one node creates another node much later.
    story.at(500_000).create(1, "/jobs/a").refused(2).at(501_000).delete(1, "/jobs/a");
    story.cycle(2, "/jobs/nightly", 900_000, 20);
    let families = story.families();
    let nightly = families.iter().find(|family| &*family.name == "/jobs/nightly").unwrap();
    assert_eq!(logged(nightly.wait.as_ref()), Some((21, 0, 0)));
}

#[test]
fn timeouts_are_recognised_if_they_take_fewer_requests_than_acquisitions() {
    let mut story = Story::default();
    // ZooKeeper's WriteLock sends five requests after contention, but three before a timeout.
    for of in 0..60_u32 {
        let (at, one, other) = (i64::from(of) * 100, i64::from(of), i64::from(of) + 100);
        let (first, second) = (mutex(2 * of), mutex(2 * of + 1));
        story.at(at).create(one, &first).at(at + 1).create(other, &second);
        story.reads(other, if of == 7 { 2 } else { 4 });
        story.at(at + 10).delete(one, &first).at(at + 20).delete(other, &second);
    }
    assert_eq!(story.family().endings.gave_up_at_grant, None);
    story.at(9_000).create(1, &mutex(250)).create(2, &mutex(251)).reads(2, 2);
    story.delete(2, &mutex(251)).delete(1, &mutex(250));
    let family = story.family();
    let Endings { gave_up_at_grant, gave_up, .. } = family.endings;
    assert_eq!((gave_up_at_grant, gave_up, family.acquisitions), (Some(1), 1, 120));
}

#[test]
fn logs_of_version_3_4_are_read() {
    let mut story = Story::default();
    let name = format!("/l/{HEX}01__lock__0000000001");
    story.at(0).create_as(1, &name, true, true).at(30).close(1);
    let family = story.family();
    assert_eq!((family.recipe, family.endings.session_ended_holding), (Recipe::Kazoo, 1));
}

#[test]
fn only_requests_within_the_scope_are_counted() {
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 10).cycle(1, &format!("/other/{HEX}01__lock__0000000001"), 20, 10);
    story.cycle(1, &mutex(2), 5_000, 10);
    let read = |path: &str, since_ms: Option<i64>| {
        let families = families_in(&story.read_as(Scope { path: path.to_owned(), since_ms, until_ms: None }));
        (families.len(), families.iter().map(|family| family.acquisitions).sum::<u64>())
    };
    let found = [read("", None), read("/orders", None), read("/ord", None), read("/", Some(1_004_000))];
    assert_eq!(found, [(2, 3), (1, 2), (0, 0), (1, 1)]);
    assert_eq!(story.read_as(Scope::default()).observed.covers_ms, (1_000_000, 1_005_010));
}

#[test]
fn nodes_created_after_the_scope_are_not_uses_of_a_lock() {
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 10).at(5_000).create(1, &mutex(2)).create(1, "/other/lock");
    let families = |until_ms: Option<i64>| {
        let read = story.read_as(Scope { until_ms, ..Scope::default() });
        let families = families_in(&read);
        let names: Vec<String> = families.iter().map(|family| family.name.clone()).collect();
        (names, families[0].empty_directories, read.observed.staying.len())
    };
    let (orders, other) = ("/orders/lock".to_owned(), "/other/lock".to_owned());
    assert_eq!(families(Some(1_001_000)), (vec![orders.clone()], 0, 0));
    assert_eq!(families(Some(1_006_000)), (vec![orders, other], 0, 2));
}

#[test]
fn directory_deleted_with_its_last_node_is_not_an_empty_directory() {
    let mut story = Story::default();
    let node = format!("/orders/1/_c_{GUID}00-lock-0000000000");
    let part = |path: &str| [&txn::DELETE.to_be_bytes()[..], &txn::buffer(path.as_bytes())].concat();
    let multi = [&2_i32.to_be_bytes()[..], &part(&node), &part("/orders/1")].concat();
    story.at(0).create_as(1, "/orders/1", false, false).create(1, &node);
    let family = story.at(10).record(1, txn::MULTI, &multi).family();
    assert_eq!((family.acquisitions, family.empty_directories), (1, 0));
}

#[test]
fn requests_from_before_the_logs_that_end_outside_the_scope_are_not_counted() {
    let directory = with_snapshot(1, &[(&mutex(1), 1, 77)]);
    let story = || Story { records: vec![Vec::new()], ..Story::default() };
    let (mut early, mut late) = (story(), story());
    early.at(0).close(77).cycle(2, &mutex(2), 5_000, 10);
    late.cycle(2, &mutex(2), 0, 10).at(60_000).close(77);
    let lost = |story: &Story, since_ms: Option<i64>, until_ms: Option<i64>| {
        let scope = Scope { since_ms, until_ms, ..Scope::default() };
        let family = families_in(&story.read_in(directory.path(), "log.2", scope)).remove(0);
        (family.endings.session_ended_holding, family.endings.released)
    };
    assert_eq!([lost(&early, None, None), lost(&early, Some(1_004_000), None)], [(1, 1), (0, 1)]);
    assert_eq!([lost(&late, None, None).0, lost(&late, None, Some(1_030_000)).0], [1, 0]);
}

#[test]
fn path_of_a_kazoo_semaphore_includes_its_inner_queue() {
    let mut story = Story::default();
    for of in 0..10_u32 {
        let inner = format!("/locks/sem-__lock__/{HEX}01__lock__{of:010}");
        let (lease, at) = (format!("/locks/sem/{HEX}{of:02x}"), i64::from(of) * 50);
        story.at(at).create(1, &inner).at(at + 1).create(1, &lease).at(at + 2).delete(1, &inner);
        story.at(at + 45).delete(1, &lease);
    }
    let scope = Scope { path: "/locks/sem".to_owned(), ..Scope::default() };
    let families = families_in(&story.read_as(scope));
    let found: Vec<_> =
        families.iter().map(|family| (&*family.name, family.recipe, family.acquisitions)).collect();
    assert_eq!(found, [("/locks/sem", Recipe::KazooSemaphore, 10)]);
}

#[test]
fn directories_that_differ_only_in_a_number_are_one_family() {
    let mut story = Story::default();
    for of in 0..100_000_i64 {
        let name = format!("/orders/{of}/_c_{GUID}00-lock-0000000000");
        story.create_as(1, &format!("/orders/{of}"), false, false).cycle(of % 50, &name, of, 1);
    }
    let family = story.family();
    assert_eq!((&*family.name, family.locks, family.acquisitions), ("/orders/{id}", 100_000, 100_000));
    assert_eq!(family.empty_directories, 100_000);
    assert_eq!(family.zipf, None);
}

#[test]
fn registrations_do_not_count_as_writes_of_locks() {
    let mut story = Story::default();
    (1..=8_i64).for_each(|of| {
        story.at(of).create(of, &format!("/services/host-{of}:8080"));
    });
    story.cycle(9, &mutex(1), 100, 10);
    // Servers before version 3.6 do not list the nodes of a closed session.
    (1..=8).for_each(|of| {
        story.at(200 + of).close(of);
    });
    let read = story.read_as(Scope::default());
    let found = summarise(&read.observed, Asked::default()).unwrap();
    let Writes { all, by_locks, lock_share, .. } = writes(&read.observed, &found);
    assert_eq!((all, by_locks, lock_share), (18, 2, 2.0 / 18.0));
}

#[test]
fn all_stuck_nodes_are_counted_but_only_some_are_listed() {
    let mut story = Story::default();
    (1..=50).for_each(|of| {
        story.at(0).create(i64::from(of), &mutex(of));
    });
    story.at(2 * 3_600_000).record(99, txn::CREATE_SESSION, &[]);
    let family = story.family();
    assert_eq!((family.staying.len(), family.staying_nodes), (20, 50));
}

#[test]
fn names_are_hashed_with_a_different_key_in_each_run() {
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 10);
    let read = story.read_as(Scope::default());
    let asked = Asked { is_anonymous: true, ..Asked::default() };
    let name = || summarise(&read.observed, asked).unwrap().families[0].name.clone();
    let (one, other) = (name(), name());
    assert!(one != other && !one.contains("orders") && one.matches('/').count() == 2, "{one} {other}");
}

#[test]
fn scenario_replays_the_arrivals_without_the_handoff() {
    let mut story = Story::default();
    (0..30_u32).for_each(|of| {
        story.cycle(i64::from(of), &mutex(of), i64::from(of) * 100, 12);
    });
    let asked = Asked { handoff: Some(std::time::Duration::from_millis(2)), ..Asked::default() };
    let (written, scenario, arrivals) = written(&story, asked);
    assert_eq!((written.len(), &*written[0].file), (1, "scenario.toml"));
    assert!(arrivals.starts_with("time,lock,hold\n0.000,0,10000us\n0.100,0,10000us\n"), "{arrivals}");
    assert!(scenario.contains("strategies = [\"curator-mutex\"]\ncontenders = 3\nlocks = 1\n"), "{scenario}");
}

#[test]
fn holds_of_more_than_a_day_do_not_make_the_scenario_invalid() {
    const HOUR_MS: i64 = 3_600_000;
    let mut story = Story::default();
    story.cycle(1, &mutex(1), 0, 25 * HOUR_MS);
    let (scenario, arrivals) = scenario(&story);
    assert_eq!(arrivals, "time,lock,hold\n0.000,0,86400000000us\n");
    assert!(scenario.contains("hold = { measured = [\"86400000000us\"] }\n"), "{scenario}");
}

#[test]
fn handoff_is_estimated_only_if_requests_follow_releases_without_a_pause() {
    let handoff = |pause_ms: &dyn Fn(i64) -> i64| {
        let (mut story, mut at) = (Story::default(), 0);
        for of in 0..100 {
            story.cycle(1, &mutex(1), at, 20);
            at += 20 + pause_ms(of);
        }
        let handoff = story.family().handoff;
        (handoff.basis, handoff.estimate_us.div_ceil(1_000))
    };
    assert_eq!(handoff(&|of| 3 + of % 2), (HandoffBasis::Estimated, 4));
    assert_eq!(handoff(&|of| 1 + of % 10), (HandoffBasis::Bounded, 2));
    assert_eq!(handoff(&|of| 1 + of % 60), (HandoffBasis::Bounded, 2));
    assert_eq!(handoff(&|of| 3 + of % 30), (HandoffBasis::Bounded, 2));
}

/// Writes a family's scenario, and returns its text and its arrivals.
fn written(story: &Story, asked: Asked) -> (Vec<ScenarioFile>, String, String) {
    let directory = tempfile::tempdir().unwrap();
    let read = story.read_as(Scope::default());
    let found = summarise(&read.observed, asked).unwrap();
    let written = write_scenarios(&read.observed, &found, Some(1), directory.path()).unwrap();
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
    (written, read("scenario.toml"), read("arrivals.csv"))
}

/// Returns a family's scenario and arrivals.
fn scenario(story: &Story) -> (String, String) {
    let (_, scenario, arrivals) = written(story, Asked::default());
    (scenario, arrivals)
}

#[test]
fn scenarios_of_an_earlier_learn_are_removed_from_a_reused_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let write = |with_learned: bool| {
        for name in ["scenario-2.toml", "arrivals-5.csv", "scenario-6.toml"] {
            fs::write(path(name), "").unwrap();
        }
        if with_learned {
            fs::write(path(FILE.name), "").unwrap();
        }
        let mut story = Story::default();
        story.cycle(1, &mutex(1), 0, 10);
        let read = story.read_as(Scope::default());
        let found = summarise(&read.observed, Asked::default()).unwrap();
        write_scenarios(&read.observed, &found, Some(1), directory.path()).unwrap();
        ["scenario.toml", "scenario-2.toml", "arrivals-5.csv", "scenario-6.toml"]
            .map(|name| path(name).exists())
    };
    assert_eq!([write(false), write(true)], [[true; 4], [true, false, false, true]]);
}

/// A closed load on kazoo's lock: 8 requests are served in order, and each is followed by another after its
/// release. A handoff takes 8 ms.
fn closed_load(session: impl Fn(u32) -> i64) -> Story {
    closed_load_after(Story::default(), session)
}

fn closed_load_after(mut story: Story, session: impl Fn(u32) -> i64) -> Story {
    let name = |of: u32| format!("/locks/a/{HEX}{:02x}__lock__{of:010}", of % 256);
    (0..8).for_each(|of| {
        story.at(0).create(session(of), &name(of));
    });
    for of in 0..200 {
        let (at, one) = (i64::from(of + 1) * 28, session(of));
        story.reads(one, 2).at(at).delete(one, &name(of)).reads(one, 1).create(one, &name(of + 8));
    }
    story
}

#[test]
fn releases_by_other_threads_of_a_session_do_not_count_as_the_requesters_own() {
    let own = closed_load(|of| i64::from(of % 8));
    assert!(matches!(own.family().load, LearnedLoad::Closed { .. }));
    assert_eq!(own.family().handoff.basis, HandoffBasis::Estimated);
    let shared = closed_load(|_| 1);
    let family = shared.family();
    assert_eq!((family.load, family.handoff.basis), (LearnedLoad::Open, HandoffBasis::Bounded));
    assert!(family.handoff.most_us >= 8_000, "{:?}", family.handoff);
    let (scenario, _) = scenario(&shared);
    assert!(scenario.contains("\ncontenders = 14\n"), "{scenario}");
}

#[test]
fn load_of_registered_clients_is_closed() {
    let mut registered = Story::default();
    (0..8).for_each(|of| {
        registered.at(0).create(of, &format!("/services/pay/member-{of:010}"));
    });
    let families = closed_load_after(registered, |of| i64::from(of % 8)).families();
    let lock = families.iter().find(|family| family.recipe == Recipe::Kazoo).unwrap();
    assert!(matches!(lock.load, LearnedLoad::Closed { .. }), "{lock:?}");
}

#[test]
fn closed_load_has_as_many_contenders_as_sessions_at_the_same_time() {
    // Each of 8 clients opens a new session after 10 cycles.
    let story = closed_load(|of| i64::from(of % 8 + of / 80 * 8));
    assert_eq!(story.family().sessions, 24);
    let (scenario, _) = scenario(&story);
    assert!(scenario.contains("contenders = 8\nload = \"closed\"\n"), "{scenario}");
}

#[test]
fn scenario_of_a_long_log_replays_the_fullest_ten_minutes() {
    const HOUR_MS: i64 = 3_600_000;
    let mut story = Story::default();
    for day in 0..7 {
        let from = day * 24 * HOUR_MS + 160 * 60_000;
        for of in 0..20 + i64::from(day == 3) {
            story.cycle(of % 4, &mutex(of as u32), from + of * 500, 50);
        }
    }
    story.at(7 * 24 * HOUR_MS).record(9, txn::CREATE_SESSION, &[]);
    let (_, arrivals) = scenario(&story);
    assert_eq!(arrivals.lines().count(), 22, "{arrivals}");
    assert!(arrivals.lines().nth(1).is_some_and(|line| line.starts_with("0.000,0,")), "{arrivals}");
}

#[test]
fn abandoned_requests_show_no_timeout_if_they_are_tries_or_others_wait_longer() {
    let timeout_us = |gives_up_ms: i64, waits_ms: i64, uncontended: u32| {
        let mut story = Story::default();
        for of in 0..uncontended {
            story.cycle(4, &mutex(1_000 + of), i64::from(of) * 10 - 100_000, 5);
        }
        for of in 0..10_u32 {
            let at = i64::from(of) * 10_000;
            story.at(at).create(1, &mutex(3 * of)).create(2, &mutex(3 * of + 1));
            story.create(3, &mutex(3 * of + 2)).reads(2, 3).reads(3, 2);
            story.at(at + gives_up_ms).delete(3, &mutex(3 * of + 2)).at(at + waits_ms);
            story.delete(1, &mutex(3 * of)).delete(2, &mutex(3 * of + 1));
        }
        story.family().timeout_us
    };
    assert_eq!(timeout_us(200, 220, 0), Some(200_000));
    assert_eq!(timeout_us(200, 900, 0), None);
    assert_eq!(timeout_us(2, 5, 0), None);
    // Uncontended requests are no evidence of a timeout.
    assert_eq!(timeout_us(200, 900, 5_000), None);
}

#[test]
fn many_timeouts_at_the_grant_without_any_before_it_are_implausible() {
    let at_grant = |odd: u32, even: u32| {
        let mut story = Story::default();
        for of in 0..odd + even {
            let (at, first, second) = (i64::from(of) * 100, mutex(2 * of), mutex(2 * of + 1));
            let reads = if of < even { 3 } else { 2 };
            story.at(at).create(1, &first).create(2, &second).reads(1, 1).reads(2, reads);
            story.at(at + 50).delete(1, &first).at(at + 60).delete(2, &second);
        }
        let family = story.family();
        (family.endings.gave_up_at_grant, family.acquisitions)
    };
    assert_eq!(at_grant(16, 24), (None, 80));
    // At the end of a load, the last requests may be cancelled one after another.
    assert_eq!(at_grant(3, 97), (Some(3), 197));
}

#[test]
fn scenario_includes_the_timeout_of_abandoned_requests() {
    let mut story = Story::default();
    (0..30_u32).for_each(|of| {
        let (at, holder) = (i64::from(of) * 1_000, i64::from(of));
        let (held, given_up) = (mutex(2 * of), mutex(2 * of + 1));
        story.at(at).create(holder, &held).at(at + 5).create(holder + 100, &given_up);
        story.at(at + 105).delete(holder + 100, &given_up).at(at + 300).delete(holder, &held);
    });
    assert_eq!(story.families()[0].timeout_us, Some(100_000));
    let (written, scenario, arrivals) = written(&story, Asked::default());
    assert!(written[0].learned.contains(&"a timeout of 100 ms".to_owned()), "{written:?}");
    assert!(scenario.contains("acquire_timeout = \"100000us\"\n"), "{scenario}");
    // The holds of abandoned requests are unknown, so they are drawn at random.
    assert!(arrivals.starts_with("time,lock,hold\n0.000,0,298000us\n0.005,0,\n"), "{arrivals}");
}

/// Writes a log of uncontended cycles by a hundred sessions on a thousand locks; returns its length.
fn write_long_log(path: &std::path::Path, cycles: i64) -> u64 {
    use std::io::Write as _;
    let mut file = std::io::BufWriter::new(fs::File::create(path).unwrap());
    file.write_all(crate::written::BEGIN).unwrap();
    for of in 0..cycles {
        let mut story = Story::default();
        let name = format!("/orders/{}/_c_{GUID}00-lock-{:010}", of % 1_000, of / 1_000);
        story.requests.insert(of % 100, (of / 100) as i32 * 3);
        story.cycle(of % 100, &name, of * 2, 1);
        for (record, at) in story.records.iter().zip([0, 1]) {
            // The zxid is the third field of the payload.
            let mut payload = record[txn::FRAME..record.len() - 1].to_vec();
            payload[12..20].copy_from_slice(&(2 * of + at + 1).to_be_bytes());
            let Some(numbered) = txn::Record::of(&payload) else { panic!("no record") };
            file.write_all(&txn::written(numbered, &payload[32..])).unwrap();
        }
    }
    file.flush().unwrap();
    fs::metadata(path).unwrap().len()
}

#[test]
#[ignore = "long: writes and reads a gigabyte"]
fn reading_a_gigabyte_takes_less_than_300_mb_of_memory() {
    let directory = tempfile::tempdir().unwrap();
    let length = write_long_log(&directory.path().join("log.1"), 3_800_000);
    assert!(length > 1_000_000_000, "{length}");
    #[expect(clippy::disallowed_methods, reason = "measures seconds, not latencies")]
    let began = std::time::Instant::now();
    let read = read_logs(&[directory.path().to_owned()], Scope::default(), true, directory.path(), &|| false);
    let family = summarise(&read.unwrap().observed, Asked::default()).unwrap().families.remove(0);
    assert_eq!((family.acquisitions, family.locks), (3_800_000, 1_000));
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak_kb: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    println!("{length} bytes in {:?}, {peak_kb} kB", began.elapsed());
    assert!(peak_kb < 300_000, "{peak_kb} kB");
}
