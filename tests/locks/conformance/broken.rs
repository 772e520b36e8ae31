//! Behaviour of locks when a contender's connection breaks, or when a holder's node is deleted.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime};

use crate::support::contender::{Contender, SETTLE, Waiting, settled, words};
use crate::support::proxy::Proxy;
use crate::support::sessions::{behind_wire, each_behind_wire, each_on_scene, scene};

const FASTER: [&str; 3] = ["ahead", "baton", "ticket"];

#[test]
fn waiter_without_a_connection_acquires_the_lock_after_reconnecting() {
    each_behind_wire(&FASTER, async |name, scene, proxy| {
        let (mut holder, held) = Contender::holding(name, &scene).await;
        // Given a holder that was admitted by a grant, so that with `baton`, its release is also a grant
        let second = Contender::of(name, &scene).await.queue_up().await;
        let third = Contender::of(name, &scene).await.queue_up().await;
        let waiter = Contender::by(&proxy.connect, name, &scene).await.queue_up().await;
        holder.release(held).await.unwrap();
        second.serve().await;
        let (mut holder, held) = third.entered().await;
        // When the third contender releases while the waiter behind it is cut off
        proxy.cut();
        holder.release(held).await.unwrap();
        runtime::sleep(SETTLE).await;
        assert!(!waiter.is_over(), "{name}");
        // Then the waiter acquires the lock as soon as it has reconnected
        proxy.mend();
        waiter.serve().await;
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

/// A retry policy of `curator-mutex`: its name, its parameters, and whether it retries.
type Policy = (&'static str, &'static [(&'static str, ParamValue)], bool);

fn policies() -> [Policy; 6] {
    const ONCE: ParamValue = ParamValue::Count(1);
    const NEVER: ParamValue = ParamValue::Count(0);
    const LONG: ParamValue = ParamValue::Duration(Duration::from_secs(30));
    const NO_TIME: ParamValue = ParamValue::Duration(Duration::ZERO);
    [
        ("exponential-backoff", &[("retry_times", ONCE)], true),
        ("bounded-exponential", &[("retry_times", NEVER)], false),
        ("n-times", &[("retry_times", NEVER)], false),
        ("until-elapsed", &[("retry_elapsed", LONG)], true),
        ("until-elapsed", &[("retry_elapsed", NO_TIME)], false),
        ("forever", &[], true),
    ]
}

#[test]
fn curator_mutex_searches_for_a_lost_node_only_if_its_policy_retries() {
    for (word, params, again) in policies() {
        runtime::block_on(async {
            let params = params.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
            let params = words(&[("retry", word)]).into_iter().chain(params).collect();
            let scene = scene(crate::support::ensemble::shared()).await;
            let proxy = Proxy::before(crate::support::ensemble::shared());
            let contender = Contender::by_with(&proxy.connect, "curator-mutex", &params, &scene).await;
            // When the reply to a contender's create is lost
            proxy.mute();
            let acquiring = Waiting::start(contender, Mode::Write);
            scene.has_nodes(1).await;
            proxy.cut();
            proxy.mend();
            // Then the contender finds its node and holds the lock, or fails and deletes the node in the background
            let (contender, held) = acquiring.over().await;
            if again {
                let held = held.unwrap_or_else(|error| panic!("{word}: {error}"));
                assert_eq!(contender.kinds(), ["create", "get_children", "exists", "get_children"], "{word}");
                assert!(held.node.is_some() && scene.nodes().await == 1, "{word}");
            } else {
                assert_eq!(held, Err(AcquireError::Failed(Failure::ConnectionLoss)), "{word}");
                scene.has_nodes(0).await;
                assert!(!contender.session.is_over(), "{word}: the session ended");
                assert_eq!(contender.kinds(), ["create", "get_children", "delete"], "{word}");
            }
            contender.die().await;
            assert_eq!(scene.nodes().await, 0, "{word}");
        });
    }
}

#[test]
fn holder_without_a_node_does_not_hand_the_lock_over() {
    each_on_scene(&FASTER, async |name, scene| {
        // Given a holder without its node, as after the end of its session, and two waiters
        let (mut zombie, held) = Contender::holding(name, &scene).await;
        let next = Contender::of(name, &scene).await.queue_up().await;
        let last = Contender::of(name, &scene).await.queue_up().await;
        let outside = scene.session().await;
        outside.delete(&held.node.as_ref().unwrap().path).await.unwrap();
        let (mut next, next_held) = next.entered().await;
        // When the zombie releases although the next contender is already inside
        zombie.release(held).await.unwrap();
        runtime::sleep(SETTLE).await;
        // Then no other contender is admitted
        assert!(!last.is_over(), "{name}: entered while the holder was inside");
        next.release(next_held).await.unwrap();
        last.serve().await;
        assert_eq!(scene.nodes().await, 0, "{name}");
    });
}

#[test]
fn apache_write_lock_checks_again_after_a_reconnect() {
    behind_wire(async |scene, proxy| {
        let (mut holder, held) = Contender::holding("apache-write-lock", &scene).await;
        let waiting = Contender::by(&proxy.connect, "apache-write-lock", &scene).await.queue_up().await;
        // When a waiter's connection is replaced
        proxy.cut();
        proxy.mend();
        settled([&waiting]).await;
        holder.release(held).await.unwrap();
        // Then the waiter checks once more than usual
        let look = ["exists", "get_children", "exists_watch"];
        let sent = waiting.serve().await.kinds();
        let looks = sent.windows(look.len()).filter(|window| *window == look).count();
        assert!(looks >= 1, "{sent:?}");
        assert_eq!(sent[sent.len() - 3..], ["exists", "get_children", "delete"]);
    });
}
