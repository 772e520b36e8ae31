//! Does everybody who wants the lock get it, once nothing is broken any more?
//!
//! Progress is demanded only while the ensemble can serve: after the last fault has been undone. The load then
//! goes on until all that had been waiting have been served.
//!
//! Source: TigerBeetle's vortex, which checks liveness only while its faults are within what is tolerated.

use std::time::Duration;

use zookeeper_client::Client;

use super::shared::Shared;
use super::workspace::open;
use crate::clock::{self, Stamp};
use crate::record::Stuck;
use crate::zk::{Target, admin, sequence_of};

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a lock may be acquired by others, for each contender, while one waits.
const TURNS_BY_OTHERS: u64 = 20;

/// How long a lock may go without an acquisition, or a contender wait while others are served: what a session that
/// nobody uses may still live, a round of elections, and what a loaded host adds to both.
fn patience(shared: &Shared) -> Duration {
    3 * shared.spec.session_timeout + Duration::from_secs(10)
}

/// Lets the load go on until all have been served that wait now. Returns those that were not.
pub async fn settle(shared: &Shared, environment: (&Target, &[String])) -> Vec<Stuck> {
    let mark = clock::now();
    let mut last = (shared.board.acquired.load(std::sync::atomic::Ordering::Acquire), mark);
    let patience = clock::micros(patience(shared));
    let first = last.0;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let waiting = waiting_since(shared, mark);
        if waiting.is_empty() {
            return Vec::new();
        }
        let (now, acquired) =
            (clock::now(), shared.board.acquired.load(std::sync::atomic::Ordering::Acquire));
        if acquired != last.0 {
            last = (acquired, now);
        }
        let others = (acquired - first) / (shared.spec.contenders as u64).max(1);
        let is_passed_over = now - mark > patience && others > TURNS_BY_OTHERS;
        if now - last.1 > patience || is_passed_over {
            return describe(shared, &waiting, environment).await;
        }
    }
}

/// Contenders that have been waiting since before that time.
fn waiting_since(shared: &Shared, mark: Stamp) -> Vec<(usize, Stamp)> {
    let knobs = shared.knobs.iter().enumerate();
    knobs
        .filter_map(|(id, knobs)| Some((id, knobs.waiting_since()?)))
        .filter(|(_, since)| *since <= mark)
        .collect()
}

/// Finds out where each of them stands.
async fn describe(
    shared: &Shared,
    waiting: &[(usize, Stamp)],
    (target, servers): (&Target, &[String]),
) -> Vec<Stuck> {
    let now = clock::now();
    let mut stuck: Vec<Stuck> = waiting
        .iter()
        .map(|(contender, since)| Stuck {
            contender: *contender,
            lock: shared.scene_of(*contender),
            waited_us: now - since,
            node: None,
            position: None,
            blocked_by: None,
            watches: Vec::new(),
        })
        .collect();
    let watches = watches(servers).await;
    let Ok(client) = open(target).await else { return stuck };
    for one in &mut stuck {
        let session = shared.knobs[one.contender].session().map(|key| key.id());
        let queue = queue(&client, shared.scenes[one.lock].queue()).await;
        one.position = queue.iter().position(|node| Some(node.owner) == session);
        one.node = one.position.map(|position| queue[position].name.clone());
        one.blocked_by =
            queue.first().filter(|_| one.position != Some(0)).map(|node| node.with_owner(shared));
        one.watches = watches.iter().filter(|(of, _)| Some(*of) == session).map(|(_, p)| p.clone()).collect();
    }
    stuck
}

/// A node of a queue, and whose it is.
struct Node {
    name: String,
    owner: i64,
}

impl Node {
    fn with_owner(&self, shared: &Shared) -> String {
        let is_owner = |id: &usize| shared.knobs[*id].session().map(|key| key.id()) == Some(self.owner);
        let owner = (0..shared.knobs.len()).find(is_owner);
        let whose = owner.map_or("no contender knows of it".to_owned(), |id| format!("contender {id}"));
        format!("{} (session 0x{:x}, {whose})", self.name, self.owner)
    }
}

/// The nodes of a queue in the order of their numbers.
async fn queue(client: &Client, path: &str) -> Vec<Node> {
    let mut nodes = Vec::new();
    for name in client.list_children(path).await.unwrap_or_default() {
        if let Ok(Some(stat)) = client.check_stat(&format!("{path}/{name}")).await {
            nodes.push((sequence_of(&name), Node { name, owner: stat.ephemeral_owner }));
        }
    }
    nodes.sort_by_key(|(sequence, _)| *sequence);
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// Each session's watched paths, as far as servers tell.
async fn watches(servers: &[String]) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    for server in servers {
        all.extend(admin::watches(server).await.unwrap_or_default());
    }
    all
}
