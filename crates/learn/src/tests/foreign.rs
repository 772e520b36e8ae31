//! Loads of programs that this project did not write.

use super::*;

#[test]
fn handoff_of_a_kazoo_semaphore_excludes_the_wait_for_a_free_lease() {
    let mut story = Story::default();
    let inner = |of: u32| format!("/sem-__lock__/{HEX}{of:02x}__lock__{of:010}");
    let lease = |of: u32| format!("/sem/{HEX}{of:02x}");
    // There is one lease, held for 97 ms. The next client creates its lease 3 ms after the release.
    for of in 0..30_u32 {
        let (session, at) = (i64::from(of), i64::from(of) * 100);
        story.at(at).create(session, &lease(of)).at(at + 2).delete(session, &inner(of));
        story.at(at + 10).create(session + 1, &inner(of + 1)).at(at + 97).delete(session, &lease(of));
    }
    let families = story.families();
    let family = families.iter().find(|family| family.recipe == Recipe::KazooSemaphore).unwrap();
    assert_eq!(family.handoff.basis, HandoffBasis::Measured);
    assert!((2_500..3_500).contains(&family.handoff.estimate_us), "{:?}", family.handoff);
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
