//! Creates that the leader has proposed but no majority has acknowledged. A contender that lost the reply must find
//! its node.

use std::time::Duration;

use futures_util::future::{join, join_all};
use tokio::sync::{Barrier, oneshot};
use tokio_util::sync::CancellationToken;
use zklockbench_core::catalog::{LockCard, Mode::Write, ParamValue, Params, Protection};
use zklockbench_ensemble::{Links, Processes, eventually, links_capability};
use zklockbench_locks::STRATEGIES;
use zklockbench_zk::runtime;

use crate::support::contender::{Contender, SETTLE, Waiting, words};
use crate::support::faults::WITHIN;
use crate::support::proxy::{Proxy, Request};
use crate::support::sessions::{Scene, scene};
use crate::support::skip::skipped;
use crate::support::{breakable, ensemble};

/// Time during which the create stays uncommitted after the reconnection. The leader drops followers after 5 s.
const UNCOMMITTED_FOR: Duration = Duration::from_secs(1);

/// Signals for the cut between the leader and its followers.
struct Cut {
    may_begin: oneshot::Sender<()>,
    has_begun: oneshot::Receiver<()>,
    may_end: oneshot::Sender<()>,
}

/// Loses the reply to a create that a follower has forwarded to a leader without followers, and then reconnects to
/// the leader. Returns the number of nodes while the contender holds the lock.
async fn nodes_of_a_holder(
    follower: &str,
    leader: &str,
    name: &str,
    params: &Params,
    leaders_way: Cut,
) -> usize {
    let (scene, proxy) = (scene(leader).await, Proxy::before(follower));
    let mut one = Contender::by_with(&proxy.connect, name, params, &scene).await;
    // The lock's directories must exist.
    one.cycle().await;
    leaders_way.may_begin.send(()).unwrap();
    leaders_way.has_begun.await.unwrap();
    proxy.mute();
    let acquiring = Waiting::start(one, Write);
    runtime::sleep(SETTLE).await;
    proxy.mend();
    proxy.move_to(leader);
    runtime::sleep(UNCOMMITTED_FOR).await;
    leaders_way.may_end.send(()).unwrap();
    let (mut one, held) = acquiring.entered().await;
    let nodes = scene.nodes().await;
    one.release(held).await.unwrap();
    assert_eq!(scene.nodes().await, 0, "{name}");
    nodes
}

#[tokio::test]
async fn lock_finds_the_node_of_an_uncommitted_create_after_a_lost_reply() {
    let Some(local) = breakable::apart().await else { return };
    let members = Params::from([("members".to_owned(), ParamValue::Count(2))]);
    let locks: [(&str, Params, usize); 3] = [
        ("ahead", Params::new(), 1),
        ("curator-mutex", words(&[("join", "count")]), 1),
        ("atomic-multi", members, 2),
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
            runtime::block_on(nodes_of_a_holder(&of_follower, &of_leader, name, &params, cut))
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

/// State of a lock after its uncommitted create was lost and its client reconnected to a follower without the node.
struct Seen {
    card: LockCard,
    is_in: bool,
    nodes: usize,
}

/// A contender that loses its create.
struct Loser {
    card: LockCard,
    scene: Scene,
    proxy: Proxy,
    one: Contender,
}

impl Loser {
    /// Prepares a contender on the first server, with the lock's directories.
    async fn prepared(card: LockCard, first: &str, next: &str) -> Self {
        let (scene, proxy) = (scene(next).await, Proxy::before(first));
        let mut one = Contender::by(&proxy.connect, card.name, &scene).await;
        one.cycle().await;
        Self { card, scene, proxy, one }
    }

    /// Starts an acquire, and moves to the next server once the create is in progress.
    async fn loses(self, next: &str, has_lost: &Barrier, may_look: &CancellationToken) -> Seen {
        let Self { card, scene, proxy, one } = self;
        let before = proxy.requests().len();
        let acquiring = Waiting::start(one, Write);
        while !proxy.requests()[before..].iter().any(Request::may_create) {
            runtime::sleep(Duration::from_millis(5)).await;
        }
        runtime::sleep(SETTLE).await;
        proxy.move_to(next);
        has_lost.wait().await;
        may_look.cancelled().await;
        let over = async {
            while !acquiring.is_over() {
                runtime::sleep(SETTLE).await;
            }
        };
        let is_in = runtime::timeout(Duration::from_secs(5), over).await.is_some();
        let nodes = scene.nodes().await;
        acquiring.cancel.cancel();
        let (one, ended) = acquiring.over().await;
        assert_eq!(is_in, ended.is_ok(), "{}: {ended:?}", card.name);
        one.die().await;
        assert_eq!(scene.nodes().await, 0, "{}", card.name);
        Seen { card, is_in, nodes }
    }
}

fn lost_by_all(first: &str, next: &str, leaders_way: Cut) -> Vec<Seen> {
    runtime::block_on(async {
        let cards = STRATEGIES.iter().map(|entry| entry.card);
        let protected = cards.filter(|card| card.guarantees.protection != Protection::None);
        let losers = join_all(protected.map(|card| Loser::prepared(card, first, next))).await;
        leaders_way.may_begin.send(()).unwrap();
        leaders_way.has_begun.await.unwrap();
        let (has_lost, may_look) = (Barrier::new(losers.len() + 1), CancellationToken::new());
        let losing = join_all(losers.into_iter().map(|loser| loser.loses(next, &has_lost, &may_look)));
        let healing = async {
            has_lost.wait().await;
            runtime::sleep(UNCOMMITTED_FOR).await;
            leaders_way.may_end.send(()).unwrap();
            may_look.cancel();
        };
        join(losing, healing).await.0
    })
}

#[tokio::test]
#[ignore = "long: five servers"]
async fn contender_waits_behind_its_own_first_node_if_its_lock_sends_no_sync() {
    if let Err(why) = links_capability() {
        return skipped(format!("servers cannot have separate networks here: {why}"));
    }
    let local = ensemble::start_apart(5).await;
    eventually(WITHIN, || local.whole()).await.unwrap();
    let leader = local.leader().await.unwrap();
    let followers = local.followers().await.unwrap();
    let address = |server: usize| local.addresses()[server - 1].clone();
    let (first, next) = (address(followers[0]), address(followers[1]));
    let (may_begin, begin) = oneshot::channel();
    let (begun, has_begun) = oneshot::channel();
    let (may_end, end) = oneshot::channel();
    let cut = Cut { may_begin, has_begun, may_end };
    let losing = std::thread::spawn(move || lost_by_all(&first, &next, cut));
    begin.await.unwrap();
    // The leader reaches only the next server, and two of five servers are not a majority.
    for follower in followers.iter().filter(|follower| **follower != followers[1]) {
        local.cut(leader, *follower).await.unwrap();
    }
    begun.send(()).unwrap();
    end.await.unwrap();
    local.heal_all().await.unwrap();
    let all = tokio::task::spawn_blocking(|| losing.join()).await.unwrap().unwrap();
    // Then locks that send a sync find their node, and other locks wait behind it, as stated on their cards
    for Seen { card, is_in, nodes } in all {
        let syncs = card.guarantees.protection == Protection::Complete;
        assert_eq!(is_in, syncs, "{}: {nodes} nodes", card.name);
        assert!(syncs || nodes == 2, "{}: {nodes} nodes", card.name);
    }
}
