//! Several creates lost in a row: the lock searches for the node of each create.

use futures_util::future::{join, join_all};
use zklockbench_core::catalog::{Mode::Write, Params};
use zklockbench_core::measure::RequestKind;
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, NodeKind, Sent, runtime};

use crate::support::contender::{Contender, words};
use crate::support::ensemble::shared;
use crate::support::proxy::Fate::{ReplyLost, RequestLost};
use crate::support::proxy::{Fate, Proxy};
use crate::support::sessions::{Scene, scene};

/// Opcodes of a create whose reply contains the stat, of a sync, and of a multi.
const CREATE2: i32 = 15;
const SYNC: i32 = 9;
const MULTI: i32 = 14;

/// Acquires on a connection that applies these fates to the first creates, in order.
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

/// A lock that sends another create after a lost create.
struct Protected {
    name: &'static str,
    /// Value of `join`, unless it is the default.
    join: Option<&'static str>,
    /// Opcode of the request that creates the node.
    create: i32,
    /// Whether the lock sends a sync and searches for the node; otherwise, the next create finds the node.
    syncs: bool,
}

const fn protected(name: &'static str, create: i32) -> Protected {
    Protected { name, join: None, create, syncs: true }
}

const PROTECTED: [Protected; 6] = [
    protected("ahead", CREATE2),
    Protected { join: Some("count"), ..protected("curator-mutex", MULTI) },
    protected("count-semaphore", MULTI),
    protected("atomic-multi", MULTI),
    Protected { syncs: false, ..protected("ephemeral-node", CREATE2) },
    Protected { syncs: false, ..protected("ephemeral-child", CREATE2) },
];

impl Protected {
    fn params(&self) -> Params {
        self.join.map(|word| words(&[("join", word)])).unwrap_or_default()
    }

    async fn syncs_after_each_lost_create(&self, fates: &[Fate]) {
        // Given a lock whose directories exist
        let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
        let one = Contender::by_with(&proxy.connect, self.name, &self.params(), &scene).await;
        let (mut one, held) = one.enter().await;
        let usual = scene.nodes().await;
        one.release(held).await.unwrap();
        let before = proxy.requests().len();
        // When the next creates, or the replies to them, are lost as `fates` specifies
        fates.iter().for_each(|fate| proxy.strike(*fate, self.create, 1));
        one.acquire(Write).await.unwrap();
        // Then a sync follows each create, and no node exists that the lock has not found
        let sent = proxy.requests().split_off(before).into_iter().map(|request| request.kind);
        let of_interest: Vec<i32> = sent.filter(|kind| [self.create, SYNC].contains(kind)).collect();
        assert_eq!(of_interest, [self.create, SYNC].repeat(fates.len()), "{}, {fates:?}", self.name);
        assert!(proxy.is_done_striking(), "{}, {fates:?}", self.name);
        assert_eq!(scene.nodes().await, usual, "{}, {fates:?}", self.name);
    }
}

#[test]
fn lock_syncs_and_searches_for_the_node_after_each_lost_create() {
    let fates = [&[ReplyLost][..], &[RequestLost, ReplyLost], &[RequestLost, RequestLost, ReplyLost]];
    let locks = PROTECTED.iter().filter(|lock| lock.syncs);
    let runs = locks.flat_map(|lock| fates.map(|fates| lock.syncs_after_each_lost_create(fates)));
    runtime::block_on(join_all(runs));
}

/// Applies a lost create in the same session, as a paused server would do later.
async fn apply_late(one: &Contender, first: &Sent) {
    let paths = first.path.split("; ").filter_map(|operation| match first.kind {
        RequestKind::Create => Some(operation),
        _ => operation.strip_prefix("create "),
    });
    for path in paths {
        let kind = if path.ends_with('-') { NodeKind::EphemeralSequential } else { NodeKind::Ephemeral };
        one.session.create(path, &[], kind).await.unwrap();
    }
}

#[test]
fn lost_create_that_is_applied_late_blocks_no_contender() {
    for lock in PROTECTED {
        runtime::block_on(async {
            let (params, name, create) = (lock.params(), lock.name, lock.create);
            let (scene, proxy) = (scene(shared()).await, Proxy::before(shared()));
            // Given a create that was lost, and an acquisition with another node
            let mut one = Contender::by_with(&proxy.connect, name, &params, &scene).await;
            if create == CREATE2 {
                // The lock's directories must exist.
                one.cycle().await;
            }
            let sent = one.trace.borrow().len();
            proxy.strike(RequestLost, create, 1);
            one.cycle().await;
            assert!(proxy.has_struck() && scene.nodes().await == 0, "{name}");
            // When a server applies the first create only now, and two contenders request the lock
            let first = one.trace.borrow()[sent].clone();
            apply_late(&one, &first).await;
            assert!(scene.nodes().await > 0, "{name}");
            let other = Contender::with(name, &params, &scene).await.queue_up().await;
            let one = one.queue_up().await;
            // Then both contenders acquire the lock, and no node is left
            join(one.serve(), other.serve()).await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}

#[test]
fn go_zookeeper_searches_for_its_node_even_after_the_third_lost_create() {
    runtime::block_on(async {
        let lost_thrice = [RequestLost, RequestLost, ReplyLost];
        let (scene, _, _one, ended) = acquire("go-zookeeper", &lost_thrice).await;
        assert_eq!((ended, scene.nodes().await), (Ok(()), 1));
        // And if there is no node, the client does not send a fourth create
        let (scene, proxy, _one, ended) = acquire("go-zookeeper", &[RequestLost; 3]).await;
        assert_eq!((ended, scene.nodes().await), (Err(Failure::ConnectionLoss.into()), 0));
        let creates = proxy.requests().iter().filter(|request| request.kind == CREATE2).count();
        assert_eq!(creates, 3);
    });
}
