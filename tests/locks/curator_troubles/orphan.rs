//! CURATOR-79: an acquire that is interrupted during its create leaves a node that no client deletes.

use zklockbench_core::catalog::Mode::Write;
use zklockbench_zk::runtime;

use super::java_by;
use crate::support::contender::{Contender, SETTLE, Waiting};
use crate::support::sessions::behind_wire;

#[test]
#[ignore = "long: tests Java's Curator, not this program"]
fn curator_79_does_not_occur_in_java_5_4_0_when_a_create_is_interrupted() {
    behind_wire(async |scene, proxy| {
        // Given a held lock, and Java's client behind a proxy
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        let mut java = java_by(&proxy.connect, &scene, 20_000).await;
        // When its create has been applied but not answered, and its thread is interrupted
        proxy.hold_back();
        java.tell("acquire a mutex");
        scene.has_nodes(2).await;
        java.obeys("interrupt a", "a failed InterruptedException").await;
        assert_eq!(scene.nodes().await, 2);
        // Then the node is deleted in the background as soon as the reply arrives
        proxy.let_go();
        scene.has_nodes(1).await;
        // And no orphan blocks the next contender
        holder.release(held).await.unwrap();
        java.obeys("acquire b mutex", "b in mutex").await;
        assert_eq!(scene.nodes().await, 1);
    });
}

#[test]
fn curator_79_does_not_occur_in_our_mutex_when_a_create_is_cancelled() {
    behind_wire(async |scene, proxy| {
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        let other = Contender::by(&proxy.connect, "curator-mutex", &scene).await;
        proxy.hold_back();
        let waiting = Waiting::start(other, Write);
        scene.has_nodes(2).await;
        waiting.cancel.cancel();
        runtime::sleep(SETTLE).await;
        // The acquire waits for the reply, because only the reply contains the name of the node to delete
        assert!(!waiting.is_over());
        proxy.let_go();
        let other = waiting.gone().await;
        assert_eq!(scene.nodes().await, 1);
        assert_eq!(other.kinds().last(), Some(&"delete"));
        holder.release(held).await.unwrap();
    });
}

#[test]
fn curator_79_does_not_occur_in_our_mutex_when_a_cancelled_create_loses_its_reply() {
    behind_wire(async |scene, proxy| {
        let (mut holder, held) = Contender::holding("curator-mutex", &scene).await;
        let other = Contender::by(&proxy.connect, "curator-mutex", &scene).await;
        proxy.mute();
        let waiting = Waiting::start(other, Write);
        scene.has_nodes(2).await;
        waiting.cancel.cancel();
        proxy.cut();
        proxy.mend();
        let other = waiting.gone().await;
        assert_eq!(scene.nodes().await, 1);
        assert_eq!(other.kinds().iter().filter(|kind| **kind == "create").count(), 1, "{:?}", other.kinds());
        holder.release(held).await.unwrap();
    });
}
