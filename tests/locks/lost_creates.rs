//! Creates that are lost more than once: each time their node is looked for.

use zklockbench::lock::AcquireError;
use zklockbench::words::catalog::Mode::Write;
use zklockbench::world::zk::{Failure, reactor};

use crate::support::contender::Contender;
use crate::support::ensemble::shared;
use crate::support::proxy::Fate::{ReplyLost, RequestLost};
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::{Scene, scene};

/// How the protocol numbers a create whose reply tells the node's stat, and a sync.
const CREATE2: i32 = 15;
const SYNC: i32 = 9;

/// Acquires by a connection on which that becomes of the first creates, one after the other.
async fn acquire(name: &str, fates: &[Fate]) -> (Scene, Proxy, Contender, Result<(), AcquireError>) {
    let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
    let mut one = Contender::by(&proxy.connect, name, &scene).await;
    for fate in fates {
        proxy.strike(*fate, CREATE2, 1);
    }
    let ended = one.acquire(Write).await.map(drop);
    assert!(proxy.has_struck(), "{name}");
    (scene, proxy, one, ended)
}

#[test]
fn ahead_looks_after_a_sync_for_the_node_of_each_create_that_is_lost() {
    reactor::block_on(async {
        for fates in [&[ReplyLost][..], &[RequestLost, ReplyLost], &[RequestLost, RequestLost, ReplyLost]] {
            let (scene, proxy, _one, ended) = acquire("ahead", fates).await;
            assert_eq!(ended, Ok(()), "{fates:?}");
            // Then a sync follows each create, and the only node is the one that was found
            let sent: Vec<i32> = proxy.requests().iter().map(|request| request.kind).collect();
            let of_interest = sent.into_iter().filter(|kind| [CREATE2, SYNC].contains(kind));
            assert_eq!(of_interest.collect::<Vec<_>>(), [CREATE2, SYNC].repeat(fates.len()));
            assert_eq!(scene.nodes().await, 1);
        }
    });
}

#[test]
fn gos_client_looks_for_its_node_after_its_third_create_too() {
    reactor::block_on(async {
        let lost_thrice = [RequestLost, RequestLost, ReplyLost];
        let (scene, _, _one, ended) = acquire("go-zookeeper", &lost_thrice).await;
        assert_eq!((ended, scene.nodes().await), (Ok(()), 1));
        // And without a node to find it makes no fourth
        let (scene, proxy, _one, ended) = acquire("go-zookeeper", &[RequestLost; 3]).await;
        assert_eq!((ended, scene.nodes().await), (Err(Failure::ConnectionLoss.into()), 0));
        let creates = proxy.requests().iter().filter(|request| request.kind == CREATE2).count();
        assert_eq!(creates, 3);
    });
}
