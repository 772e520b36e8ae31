//! Curator's semaphore when a node contains the number of leases.

use crate::support::contender::{Contender, settled, words};
use crate::support::sessions::on_scene;

#[test]
fn semaphore_admits_a_waiter_as_soon_as_its_node_allows_more_leases() {
    on_scene(async |scene| {
        let params = words(&[("leases_from", "count-node")]);
        let contender = async || Contender::with("curator-semaphore", &params, &scene).await;
        // Given one lease, a holder, a waiter, and another waiter behind
        let (mut holder, held) = contender().await.enter().await;
        let waiting = contender().await.queue_up().await;
        let behind = contender().await.queue_up().await;
        assert!(!waiting.is_over());
        // When the node allows two leases, in the format of Java's SharedCount
        let outside = scene.session().await;
        outside.set_data(&format!("{}/count", scene.lock), &[0, 0, 0, 2]).await.unwrap();
        // Then the first waiter reads the node, lists again and is admitted alongside the holder; the second
        // waiter is not
        let (mut second, got) = waiting.entered().await;
        settled([&behind]).await;
        assert!(!behind.is_over());
        let kinds = second.kinds();
        let read = kinds.iter().filter(|kind| **kind == "get_data_watch").count();
        assert_eq!(read, 2, "{kinds:?}");
        // And the second waiter is admitted after a release
        holder.release(held).await.unwrap();
        behind.serve().await;
        second.release(got).await.unwrap();
    });
}
