//! Locks composed of several locks.

use std::time::Duration;

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::{AcquireError, LockConfig, Patience, Strategy, find};
use zklockbench_zk::{Failure, NodeKind, Session, runtime};

use crate::support::contender::Contender;
use crate::support::proxy::Fate;
use crate::support::sessions::{Scene, behind_wire, on_scene, patience, scene};

const SETTLE: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

fn multi(scene: &Scene, contender: usize, members: u64, order: &str) -> Box<dyn Strategy> {
    let params = Params::from([
        ("members".to_owned(), ParamValue::Count(members)),
        ("order".to_owned(), ParamValue::Word(order.to_owned())),
    ]);
    (find("curator-multi").unwrap().build)(&LockConfig {
        path: scene.lock.clone(),
        params,
        contender,
        drivers: None,
    })
}

#[test]
fn multi_lock_acquires_the_remaining_members_after_one_fails() {
    on_scene(async |scene| {
        let (session, trace) = scene.traced().await;
        // Given a member in which no contender can create a node
        let blocked = format!("{}/member-1", scene.lock);
        let other = scene.session().await;
        other.create(&blocked, &[], NodeKind::Ephemeral).await.unwrap();
        // When all members are acquired
        let ended = multi(&scene, 0, 3, "same").acquire(&session, Mode::Write, &patience(None)).await;
        // Then the next member is still acquired before the failure is returned
        assert!(matches!(ended, Err(AcquireError::Failed(Failure::Refused(_)))), "{ended:?}");
        let deleted: Vec<String> = trace
            .borrow()
            .iter()
            .filter(|sent| sent.kind.name() == "delete")
            .filter_map(|sent| sent.path.split('/').nth(2).map(str::to_owned))
            .collect();
        assert_eq!(deleted, ["member-2", "member-0"]);
        assert_eq!(scene.nodes().await, 1, "only the blocking node is left");
    });
}

/// Runs an acquire and a release in the background.
async fn start(
    scene: &Scene,
    contender: usize,
    patience: &Patience,
) -> runtime::Task<Result<(), AcquireError>> {
    let mut lock = multi(scene, contender, 2, "rotated");
    let (session, patience) = (scene.session().await, patience.clone());
    runtime::spawn_local(async move {
        let held = lock.acquire(&session, Mode::Write, &patience).await?;
        Ok(lock.release(&session, held).await?)
    })
}

/// Opens a session that is first in both queues until it ends.
async fn block(scene: &Scene) -> Session {
    let session = scene.session().await;
    for member in ["member-0", "member-1"] {
        let directory = format!("{}/{member}", scene.lock);
        let _ = session.create(&directory, &[], NodeKind::Persistent).await;
        session.create(&format!("{directory}/n-"), &[], NodeKind::EphemeralSequential).await.unwrap();
    }
    session
}

#[test]
fn first_member_depends_only_on_the_contenders_number() {
    runtime::block_on(async {
        let (from_the_first, from_the_next) = (["member-0", "member-1"], ["member-1", "member-0"]);
        for (contender, order) in
            [(1, from_the_next), (1, from_the_next), (0, from_the_first), (2, from_the_first)]
        {
            let scene = scene(crate::support::ensemble::shared()).await;
            let (session, trace) = scene.traced().await;
            let mut lock = multi(&scene, contender, 2, "rotated");
            let held = lock.acquire(&session, Mode::Write, &patience(None)).await.unwrap();
            lock.release(&session, held).await.unwrap();
            let trace = trace.borrow();
            let lists = trace.iter().filter(|sent| sent.kind.name() == "get_children");
            let listed: Vec<&str> = lists.filter_map(|sent| sent.path.rsplit('/').next()).collect();
            assert_eq!(listed, order, "contender {contender}");
        }
    });
}

#[test]
fn contenders_with_different_first_members_deadlock() {
    on_scene(async |scene| {
        // Without a timeout, each contender holds one member and stays queued for the other member
        let (one, other) = (patience(None), patience(None));
        let blocker = block(&scene).await;
        let (first, second) = (start(&scene, 0, &one).await, start(&scene, 1, &other).await);
        scene.has_nodes(4).await;
        blocker.close(LONG).await;
        scene.has_nodes(4).await;
        runtime::sleep(SETTLE * 3).await;
        assert_eq!((one.gauge.waiting(), other.gauge.waiting(), scene.nodes().await), (1, 1, 4));
        // The deadlock lasts until one contender gives up
        one.cancel.cancel();
        assert_eq!(first.await, Err(AcquireError::Cancelled));
        assert_eq!(second.await, Ok(()));
        assert_eq!(scene.nodes().await, 0);
        // With a timeout, no contender holds both members, and at least one contender times out
        let blocker = block(&scene).await;
        let limit = Some(SETTLE * 5);
        let (first, second) =
            (start(&scene, 0, &patience(limit)).await, start(&scene, 1, &patience(limit)).await);
        runtime::sleep(SETTLE).await;
        blocker.close(LONG).await;
        let ended = [first.await, second.await];
        assert!(ended.contains(&Err(AcquireError::TimedOut)), "{ended:?}");
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn token_of_atomic_multi_is_the_zxid_of_its_create() {
    /// Opcode of a multi.
    const MULTI: i32 = 14;
    behind_wire(async |scene, proxy| {
        let mut one = Contender::by(&proxy.connect, "atomic-multi", &scene).await;
        let mut last = 0;
        // When a contender joins: first normally, then after a deletion that restarts the sequence numbers, and
        // then with a lost reply
        for way in ["at first", "deleted", "reply lost"] {
            match way {
                "deleted" => {
                    scene.delete_all().await;
                    scene.restore().await;
                }
                "reply lost" => proxy.strike(Fate::ReplyLost, MULTI, 1),
                _ => {}
            }
            let held = one.acquire(Mode::Write).await.unwrap();
            // Then the token is the czxid of each node, and higher than the previous token
            let node = held.node.clone().unwrap();
            let outside = scene.session().await;
            for path in scene.nodes_of(one.session.id()).await {
                outside.sync(&path).await.unwrap();
                assert_eq!(outside.exists(&path).await.unwrap().unwrap().czxid, node.czxid, "{way}");
            }
            assert!(node.czxid > last, "{way}: {} after {last}", node.czxid);
            last = node.czxid;
            one.release(held).await.unwrap();
        }
    });
}
