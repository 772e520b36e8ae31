//! Locks without a queue: the contender that creates the lock's only node holds the lock.

use std::time::Duration;

use zklockbench_core::catalog::Mode;
use zklockbench_core::measure::RequestKind;
use zklockbench_locks::AcquireError;

use crate::support::contender::{Contender, words};
use crate::support::proxy::Fate;
use crate::support::sessions::{behind_wire, on_scene};

/// Opcode of the create whose reply contains the node's stat.
const CREATE2: i32 = 15;

#[test]
fn persistent_node_outlives_its_holder() {
    on_scene(async |scene| {
        // Given a dead holder
        let params = words(&[("node", "persistent")]);
        Contender::with("ephemeral-node", &params, &scene).await.enter().await.0.die().await;
        // When another contender requests the lock
        let mut other = Contender::with("ephemeral-node", &params, &scene).await;
        let ended = other.acquire_within(Duration::from_millis(300), Mode::Write).await;
        // Then the contender waits until its timeout, and the node remains
        assert_eq!(ended.unwrap_err(), AcquireError::TimedOut);
        let left = other.session.exists(&format!("{}/lock", scene.lock)).await.unwrap();
        assert!(left.is_some());
    });
}

#[test]
fn node_with_an_owner_id_is_recognised_after_a_lost_reply() {
    for kind in ["ephemeral", "persistent"] {
        behind_wire(async |scene, proxy| {
            // Given a lock whose directories exist
            let params = words(&[("owner", "value"), ("node", kind)]);
            let mut one = Contender::by_with(&proxy.connect, "ephemeral-node", &params, &scene).await;
            one.cycle().await;
            let sent = one.trace.borrow().len();
            // When the reply to a contender's create is lost
            proxy.strike(Fate::ReplyLost, CREATE2, 1);
            one.cycle().await;
            // Then the contender recognises its value in the existing node and holds the lock
            let kinds: Vec<RequestKind> = one.trace.borrow()[sent..].iter().map(|sent| sent.kind).collect();
            let expected =
                [RequestKind::Create, RequestKind::Create, RequestKind::GetData, RequestKind::Delete];
            assert_eq!(kinds, expected, "{kind}");
            assert!(proxy.has_struck() && scene.nodes().await == 0, "{kind}");
        });
    }
}
