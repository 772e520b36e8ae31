//! Every lock sends exactly the requests of its recipe: alone, in a queue, on a timeout, and when a waiter in the
//! middle leaves. The snapshot has a line for each contender.

use futures_util::StreamExt;
use futures_util::stream::iter;
use zklockbench_core::catalog::Mode::{self, Read, Write};
use zklockbench_locks::STRATEGIES;
use zklockbench_zk::runtime;

use crate::support::rehearsal::{ALONE, Lines, QUEUE, Script, Subject, subject};

use Script::{
    Again, BelowNothing, Downgrade, MiddleLeaves, Nested, Overwritten, Race, Revoked, Served, TimedOut, Twice,
};

/// Number of concurrent scripts, which mostly wait until no message is in flight.
const AT_ONCE: usize = 12;

const READ: Script = Served(&[Read], &[0]);
const TWO_READERS_AND_A_WRITER: Script = Served(&[Read, Read, Write], &[0, 1, 2]);
const MIXED: &[Mode] = &[Write, Read, Read, Write, Read];
const IN_ORDER: &[usize] = &[0, 1, 2, 3, 4];
const SIDES: [Script; 5] = [READ, ALONE, TWO_READERS_AND_A_WRITER, Served(MIXED, IN_ORDER), TimedOut];
const READERS_THEN_A_WRITER: &[Mode] = &[Read, Read, Read, Write];

/// Strategies, as in scenarios, and the scripts that they play.
const CASES: &[(&str, &[Script])] = &[
    // Strategies of the three-strategy article
    (r#""predecessor-watch""#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    (r#"{ name = "predecessor-watch", watch = "exists" }"#, &[ALONE, QUEUE]),
    (r#"{ name = "predecessor-watch", wake = "poll-flag", flag_interval = "50ms" }"#, &[QUEUE]),
    (r#"{ name = "predecessor-watch", class = "article", flag_interval = "100ms" }"#, &[ALONE]),
    (r#""parent-watch""#, &[ALONE, QUEUE]),
    (r#"{ name = "parent-watch", wake = "poll-flag", flag_interval = "50ms" }"#, &[QUEUE]),
    (r#"{ name = "parent-watch", class = "article", flag_interval = "100ms" }"#, &[ALONE]),
    (r#"{ name = "polling", poll_interval = "100ms" }"#, &[ALONE]),
    (r#"{ name = "polling", poll_interval = "100ms", jitter = "half" }"#, &[ALONE]),
    (r#"{ name = "polling", poll_interval = "100ms", class = "article" }"#, &[ALONE]),
    // Races for one node
    (r#""ephemeral-node""#, &[ALONE, Race(4), TimedOut]),
    (r#"{ name = "ephemeral-node", watch = "data" }"#, &[ALONE, Race(4), TimedOut]),
    (r#"{ name = "ephemeral-node", node = "persistent" }"#, &[ALONE]),
    (r#"{ name = "ephemeral-node", owner = "value" }"#, &[ALONE]),
    (r#""ephemeral-child""#, &[ALONE, Race(4), TimedOut]),
    // Published classes
    (r#""predecessor-watch-wait-limited""#, &[ALONE, QUEUE, TimedOut]),
    (r#""apache-write-lock""#, &[ALONE, QUEUE, TimedOut]),
    // Curator
    (r#""curator-mutex""#, &[ALONE, BelowNothing, QUEUE, TimedOut]),
    (r#"{ name = "curator-mutex", shared_object = true }"#, &[QUEUE]),
    (r#"{ name = "curator-mutex", revocation = "allowed" }"#, &[ALONE, TimedOut, Overwritten("__REVOKE__")]),
    (r#"{ name = "curator-mutex", revocation = "allowed" }"#, &[Overwritten("unlock")]),
    (r#"{ name = "curator-mutex", revocation = "none" }"#, &[Overwritten("__REVOKE__")]),
    (r#"{ name = "curator-mutex", revocation = "asked-for", revoke_after = "2s" }"#, &[Revoked]),
    (r#""curator-read-write""#, &SIDES),
    (r#""curator-read-write""#, &[Downgrade]),
    (r#""curator-semaphore-mutex""#, &[ALONE, QUEUE, TimedOut]),
    (r#""curator-semaphore""#, &[ALONE, QUEUE, TimedOut]),
    (r#"{ name = "curator-semaphore", leases = 3 }"#, &[Again(2)]),
    (r#"{ name = "curator-semaphore", leases = 4 }"#, &[QUEUE]),
    (r#"{ name = "curator-semaphore", leases = 3, permits = 2 }"#, &[TimedOut]),
    (r#"{ name = "curator-semaphore", leases = 2, leases_from = "count-node" }"#, &[Again(2), QUEUE]),
    (r#"{ name = "curator-multi", members = 2 }"#, &[ALONE, QUEUE]),
    // Other clients
    (r#""go-zookeeper""#, &[ALONE, BelowNothing, QUEUE, TimedOut, MiddleLeaves, Twice(Write)]),
    (r#""kazoo""#, &[Again(2), BelowNothing, QUEUE, TimedOut, MiddleLeaves, Twice(Write)]),
    (r#"{ name = "kazoo", blocking = false }"#, &[ALONE, TimedOut, Twice(Write)]),
    (r#""kazoo-read-write""#, &SIDES),
    (r#""kazoo-read-write""#, &[Twice(Read), Twice(Write)]),
    (r#""crate-lock""#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    // Readers and writers
    (r#""shared-predecessor-watch""#, &SIDES),
    (r#""shared-predecessor-watch""#, &[MiddleLeaves]),
    (r#""shared-predecessor-watch""#, &[Served(READERS_THEN_A_WRITER, &[0, 1, 2, 3])]),
    (r#""shared-predecessor-watch""#, &[Served(READERS_THEN_A_WRITER, &[2, 1, 0, 3])]),
    (r#""shared-parent-watch""#, &SIDES),
    // Locks of this suite
    (r#""ahead""#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    (r#"{ name = "ahead", flush = false }"#, &[ALONE, QUEUE]),
    (r#""baton""#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    (r#"{ name = "baton", release = "count" }"#, &[ALONE, QUEUE]),
    (r#""ticket""#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    (r#"{ name = "atomic-multi", members = 2 }"#, &[ALONE, QUEUE, TimedOut]),
    // Joined by count
    (r#""count""#, &[ALONE, QUEUE, TimedOut]),
    (r#"{ name = "count", release = "count" }"#, &[ALONE, QUEUE]),
    (r#"{ name = "predecessor-watch", join = "count" }"#, &[ALONE, QUEUE, TimedOut, MiddleLeaves]),
    (r#"{ name = "baton", join = "count" }"#, &[ALONE, QUEUE, TimedOut]),
    (r#"{ name = "curator-mutex", join = "count" }"#, &[ALONE, QUEUE]),
    (r#"{ name = "ahead", join = "count" }"#, &[ALONE, QUEUE]),
    (r#"{ name = "curator-read-write", join = "count" }"#, &[READ, ALONE, Downgrade]),
    (
        r#"{ name = "curator-read-write", join = "count" }"#,
        &[Served(&[Read, Read, Write, Read], &[0, 1, 2, 3])],
    ),
    (r#""count-semaphore""#, &[ALONE]),
    (r#"{ name = "count-semaphore", leases = 2 }"#, &[QUEUE]),
    // Both waiters enter before the first holder leaves.
    (r#"{ name = "count-semaphore", leases = 3 }"#, &[Again(2), Served(&[Write; 5], &[1, 2, 3, 4, 0])]),
];

/// Sorts the watch checks in a shared object's release, because their order varies.
fn in_one_order(mut sent: Lines) -> Lines {
    let is_check = |line: &String| line.starts_with("check_watches _");
    for checks in sent.chunk_by_mut(|one, next| is_check(one) && is_check(next)) {
        checks.sort();
    }
    sent
}

#[test]
fn every_lock_sends_the_requests_of_its_transcript() {
    let scripts =
        CASES.iter().flat_map(|(strategy, scripts)| scripts.iter().map(move |script| (strategy, script)));
    let played = scripts.map(|(strategy, script)| async move {
        let subject = subject(strategy);
        let sent = subject.play(*script).await.into_iter().map(in_one_order);
        let lines: String = sent.map(|sent| format!("  {}\n", sent.join(", "))).collect();
        format!("{}, {script:?}\n{lines}", subject.label)
    });
    let played: Vec<String> = runtime::block_on(async { iter(played).buffered(AT_ONCE).collect().await });
    insta::assert_snapshot!(played.concat());
}

#[test]
fn nested_acquires_of_a_reentrant_lock_send_no_requests() {
    let reentrant = STRATEGIES.iter().filter(|entry| entry.card.guarantees.reentrant);
    let played = reentrant.map(|entry| async move {
        let subject = subject(&format!("\"{}\"", entry.card.name));
        assert_eq!(subject.play(Nested).await, subject.play(ALONE).await, "{}", subject.label);
    });
    let played = runtime::block_on(async { iter(played).buffered(AT_ONCE).count().await });
    assert!(played >= 4, "{played}");
}

#[test]
fn only_the_wait_limited_class_admits_two_holders_when_a_middle_waiter_leaves() {
    let expected = [
        (r#""predecessor-watch-wait-limited""#, 2),
        (r#""predecessor-watch""#, 1),
        (r#""apache-write-lock""#, 1),
    ];
    for (class, inside) in expected {
        let subject = subject(class);
        assert_eq!(runtime::block_on(subject.inside_after_the_middle_has_left()), inside, "{class}");
    }
}

#[test]
fn kazoo_lock_waits_for_curator_nodes_only_when_configured() {
    let [curator, kazoo, configured]: [Subject; 3] =
        [r#""curator-mutex""#, r#""kazoo""#, r#"{ name = "kazoo", extra_patterns = "lock-" }"#].map(subject);
    runtime::block_on(async {
        assert!(kazoo.is_let_in_beside(&curator).await);
        assert!(!configured.is_let_in_beside(&curator).await);
        assert!(!curator.is_let_in_beside(&kazoo).await);
    });
}
