//! Creates that the leader has begun, and that no majority has yet: who has lost the reply must not take them for absent.

use std::time::Duration;

use tokio::sync::oneshot;
use zklockbench::words::catalog::Mode::Write;
use zklockbench::words::catalog::{ParamValue, Params};
use zklockbench::world::ensemble::{Links, Processes, eventually};
use zklockbench::world::zk::reactor;

use crate::support::breakable;
use crate::support::contender::{Contender, SETTLE, Waiting};
use crate::support::faults::WITHIN;
use crate::support::proxy::Proxy;
use crate::support::sessions::scene;

/// For that long the create stays uncommitted after its connection was made anew; the leader gives followers up after 5 s.
const UNCOMMITTED_FOR: Duration = Duration::from_secs(1);

/// When the leader is to reach no follower, and when it may again.
struct Cut {
    may_begin: oneshot::Sender<()>,
    has_begun: oneshot::Receiver<()>,
    may_end: oneshot::Sender<()>,
}

/// Loses the reply to a create that a follower has passed on to a leader who reaches nobody, and goes to that leader. Returns how
/// many nodes there are while it holds.
async fn nodes_of_a_holder(
    follower: &str,
    leader: &str,
    name: &str,
    params: &Params,
    leaders_way: Cut,
) -> usize {
    let (scene, proxy) = (scene(leader).await, Proxy::before(follower));
    let mut one = Contender::by_with(&proxy.connect, name, params, &scene).await;
    // The lock's directories have to be there.
    let held = one.acquire(Write).await.unwrap();
    one.release(held).await.unwrap();
    leaders_way.may_begin.send(()).unwrap();
    leaders_way.has_begun.await.unwrap();
    proxy.mute();
    let acquiring = Waiting::start(one, Write);
    reactor::sleep(SETTLE).await;
    proxy.mend();
    proxy.move_to(leader);
    reactor::sleep(UNCOMMITTED_FOR).await;
    leaders_way.may_end.send(()).unwrap();
    let (mut one, held) = acquiring.over().await;
    let held = held.unwrap();
    let nodes = scene.nodes().await;
    one.release(held).await.unwrap();
    assert_eq!(scene.nodes().await, 0, "{name}");
    nodes
}

#[tokio::test]
async fn a_node_that_no_majority_has_yet_is_found_by_who_lost_the_reply() {
    let Some(local) = breakable::apart().await else { return };
    let count = ("join".to_owned(), ParamValue::Word("count".into()));
    let members = ("members".to_owned(), ParamValue::Count(2));
    let locks: [(&str, Params, usize); 3] = [
        ("ahead", Params::new(), 1),
        ("curator-mutex", Params::from_iter([count]), 1),
        ("atomic-multi", Params::from_iter([members]), 2),
    ];
    for (name, params, expected) in locks {
        let leader = local.leader().await.unwrap();
        let followers = local.followers().await.unwrap();
        let address = |server: usize| local.addresses()[server - 1].clone();
        let (of_follower, of_leader) = (address(followers[0]), address(leader));
        let (may_begin, begin) = oneshot::channel();
        let (begun, has_begun) = oneshot::channel();
        let (may_end, end) = oneshot::channel();
        let cut = Cut { may_begin, has_begun, may_end };
        let holding = std::thread::spawn(move || {
            reactor::block_on(nodes_of_a_holder(&of_follower, &of_leader, name, &params, cut))
        });
        begin.await.unwrap();
        for follower in &followers {
            local.cut(leader, *follower).await.unwrap();
        }
        begun.send(()).unwrap();
        end.await.unwrap();
        local.heal_all().await.unwrap();
        let holding = tokio::task::spawn_blocking(|| holding.join());
        assert_eq!(holding.await.unwrap().unwrap(), expected, "{name}");
        eventually(WITHIN, || local.whole()).await.unwrap();
    }
}
