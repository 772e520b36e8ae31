//! Loads of programs that this project did not write.

use super::*;

#[test]
fn handoff_of_a_kazoo_semaphore_excludes_the_wait_for_a_free_lease() {
    let mut story = Story::default();
    let inner = |of: u32| format!("/sem-__lock__/{HEX}{of:02x}__lock__{of:010}");
    let lease = |of: u32| format!("/sem/{HEX}{of:02x}");
    // There are two leases. If both are taken, the next client creates its lease 3 ms after the first release.
    story.at(-3).create(0, &inner(0));
    for of in 0..30_u32 {
        let (session, other, at) = (i64::from(of), i64::from(of) + 100, i64::from(of) * 100);
        let (first, second) = (2 * of, 2 * of + 1);
        story.at(at).create(session, &lease(first)).at(at + 2).delete(session, &inner(first));
        story.at(at + 5).create(other, &inner(second)).at(at + 8).create(other, &lease(second));
        story.delete(other, &inner(second)).at(at + 10).create(session + 1, &inner(first + 2));
        story.at(at + 97).delete(session, &lease(first)).at(at + 99).delete(other, &lease(second));
    }
    let handoff = story.family().handoff;
    assert_eq!(handoff.basis, HandoffBasis::Measured);
    assert!(handoff.least_us >= 2_500 && handoff.most_us <= 3_500, "{handoff:?}");
}

/// Adds the nodes that two clients create and delete in turns, with a read in between.
fn in_turns(story: &mut Story, directory: &str, prefix: &str) {
    for of in 0..40_u32 {
        let session = i64::from(of % 2) + 1;
        story.cycle(session, &format!("{directory}/{prefix}{of:010}"), i64::from(of) * 100, 20);
    }
}

#[test]
fn queues_and_elections_of_other_systems_are_not_locks() {
    let kind = |directory: &str, prefix: &str| {
        let mut story = Story::default();
        in_turns(&mut story, directory, prefix);
        let families = story.families();
        let first = families[0].kind;
        assert!(families.iter().all(|family| family.kind == first), "{families:?}");
        first
    };
    assert_eq!(kind("/locks/a", "node-"), FamilyKind::Lock);
    for (directory, prefix, expected) in [
        ("/overseer/collection-queue-work", "qnr-", FamilyKind::Registry),
        ("/hbase/splitWAL", "RESCAN", FamilyKind::Registry),
        ("/clickhouse/t/block_numbers/all", "block-", FamilyKind::Registry),
        ("/clickhouse/t/leader_election", "leader_election-", FamilyKind::Election),
        ("/overseer_elect/election", "72057594037927936-host_8983_solr-n_", FamilyKind::Election),
    ] {
        assert_eq!(kind(directory, prefix), expected, "{directory}/{prefix}");
    }
}

#[test]
fn single_node_that_other_sessions_usually_delete_is_not_a_lock() {
    let kind = |by_others: i64| {
        let mut story = Story::default();
        for of in 0..10_i64 {
            let last = if of < by_others { 9 } else { of % 3 };
            story.at(of * 100).create(of % 3, "/jobs/ready").at(of * 100 + 50).delete(last, "/jobs/ready");
        }
        story.family().kind
    };
    // An operator may delete the nodes of some stuck clients.
    assert_eq!([kind(4), kind(6)], [FamilyKind::Lock, FamilyKind::Registry]);
}

#[test]
fn elections_of_kafka_and_hbase_are_not_locks() {
    let kind = |path: &str| {
        let mut story = Story::default();
        (0..6).for_each(|of| {
            story.cycle(of % 3, path, of * 10_000, 9_990);
        });
        story.family().kind
    };
    for path in ["/kafka/controller", "/hbase/master"] {
        assert_eq!(kind(path), FamilyKind::Election, "{path}");
    }
    // A lock may be named after a branch.
    assert_eq!(kind("/builds/master"), FamilyKind::Lock);
}

#[test]
fn single_nodes_that_clients_compete_for_are_locks_even_if_most_are_used_once() {
    let mut story = Story::default();
    for of in 0..30_i64 {
        story.cycle(of % 3, &format!("/jobs/{of}"), of * 100, 20);
    }
    for of in 0..3_i64 {
        story.at(4_000 + of * 100).create(1, "/jobs/7").at(4_010 + of * 100).refused(2);
        story.at(4_020 + of * 100).delete(1, "/jobs/7").create(2, "/jobs/7");
        story.at(4_030 + of * 100).delete(2, "/jobs/7");
    }
    assert_eq!(story.family().kind, FamilyKind::Lock);
}

#[test]
fn kazoo_locks_that_only_writers_have_used_are_in_the_family_of_those_with_readers() {
    let mut story = Story::default();
    for of in 0..20_u32 {
        let side = if of == 3 { "rlock" } else { "lock" };
        story.cycle(1, &format!("/rw/{of}/{HEX}01__{side}__{of:010}"), i64::from(of) * 100, 20);
    }
    let family = story.family();
    assert_eq!((family.recipe, family.acquisitions, family.reads), (Recipe::KazooReadWrite, 20, 1));
}

#[test]
fn failed_tries_are_neither_acquisitions_nor_replayed() {
    let mut story = Story::default();
    let name = |of: u32| format!("/locks/a/{HEX}{:02x}__lock__{of:010}", of % 256);
    for of in 0..40_u32 {
        let (at, held) = (i64::from(of) * 100, 3 * of);
        story.at(at).create(1, &name(held)).reads(1, 1);
        // One try fails while the lock is held, and another just before the release.
        story.cycle(2, &name(held + 1), at + 10, 2).at(at + 49).create(2, &name(held + 2)).reads(2, 1);
        story.at(at + 50).delete(1, &name(held)).at(at + 51).delete(2, &name(held + 2));
    }
    let family = story.family();
    assert_eq!((family.acquisitions, family.endings.released, family.endings.gave_up), (40, 40, 40));
    assert_eq!(
        (family.endings.gave_up_at_grant, logged(family.hold.as_ref())),
        (Some(40), Some((40, 50_000, 50_000)))
    );
    let (scenario, arrivals) = scenario(&story);
    assert_eq!(arrivals.lines().count(), 41, "{arrivals}");
    assert!(
        scenario.contains("80 failed tries are omitted") && !scenario.contains("abandoned"),
        "{scenario}"
    );
}

#[test]
fn requests_during_holds_do_not_turn_acquisitions_into_timeouts() {
    let mut story = Story::default();
    for of in 0..100_u32 {
        let (at, number) = (i64::from(of) * 1_000, 3 * of);
        // In half of its holds, session 2 reads its data; session 3 times out after 500 ms.
        let reads = 3 + i32::from(of % 20 < 9);
        story.at(at).create(1, &mutex(number)).reads(1, 1 + i32::from(of % 2 == 0));
        story.create(2, &mutex(number + 1)).create(3, &mutex(number + 2)).reads(3, 2);
        story.at(at + 100).delete(1, &mutex(number)).at(at + 500).delete(3, &mutex(number + 2));
        story.reads(2, reads).at(at + 600).delete(2, &mutex(number + 1));
    }
    let family = story.family();
    assert_eq!((family.acquisitions, family.endings.gave_up), (200, 100));
    assert_eq!(family.endings.gave_up_at_grant, None);
}
