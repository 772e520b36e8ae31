//! What ZooKeeper itself does where articles on locks make claims about it: each tried on the raw ensemble.
//!
//! All but the bystander runs on one thread, on these sessions. Times do not matter in it: an event that has not come
//! after [`EVENT_WITHIN`] does not come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all, try_join_all};

use super::sessions::{self, CalibrationSite, ServerSessions, timed};
use crate::record::{
    Behaviour, Bystander, Change, CreationOrder, Left, NodeSize, Numbers, QueueSeen, Raced, Timing,
    WatchCell, WatchedBy,
};
use crate::words::clock;
use crate::words::measure::{Histogram, new_histogram};
use crate::world::zk::{EventKind, Failure, NodeKind, Session, Target, Watch, admin, reactor};

const EVENT_WITHIN: Duration = Duration::from_millis(500);
const CLOSE_WITHIN: Duration = Duration::from_secs(5);
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Between these two sizes lies what a node holds with the servers' default limit.
const SURELY_HELD: u64 = 1_000_000;
const SURELY_REFUSED: u64 = 1_100_000;
const ROUNDS_OF_RACES: u64 = 300;
const NODES_EACH: usize = 50;
const HERD: usize = 100;
/// How often one wake-up is compared with that of the whole herd: enough for an interval of the ratio, whatever the
/// machine does to one of them.
const ROUNDS_BESIDE_A_BYSTANDER: u64 = 8;
const BYSTANDING: Duration = Duration::from_secs(1);
const BETWEEN_CHANGES: Duration = Duration::from_millis(20);

/// Tries everything below the site's place. What fails is named as missing.
pub(super) async fn try_all(sessions: &ServerSessions, site: &CalibrationSite) -> Behaviour {
    let mut all = Behaviour::default();
    let mut missing = Vec::new();
    let on = On { sessions, site };
    all.numbers = told(on.numbers().await, "numbers of sequential nodes", &mut missing);
    all.watches = told(on.watches().await, "watches and changes", &mut missing);
    all.raced = told(on.raced().await, "a list that races with a change", &mut missing);
    all.order = told(on.order().await, "the order of creations", &mut missing);
    all.queue = told(on.queue().await, "a queue seen from outside", &mut missing);
    all.left = told(on.left().await, "what a session leaves", &mut missing);
    all.bystander = told(on.bystander().await, "the bystander", &mut missing);
    // Last, because it breaks connections.
    all.node_size = told(on.node_size().await, "the size of a node", &mut missing);
    all.missing = missing;
    all
}

/// Changes a node's data again and again under one watch. Who asks the server how many events it sent tells how many came of
/// it: the client library shows none without a waiter.
pub(super) async fn change_under_one_watch(
    sessions: &ServerSessions,
    site: &CalibrationSite,
) -> Result<u64, Failure> {
    const CHANGES: u64 = 5;
    let on = On { sessions, site };
    let node = on.directory("one-shot").await?;
    let (_, _watch) = on.first().get_data_and_watch(&node).await?;
    for _ in 0..CHANGES {
        on.second().set_data(&node, b"x").await?;
    }
    Ok(CHANGES)
}

/// Data watches that have fired on a server, by its own count.
pub(super) async fn fired(address: &str) -> Result<i64, String> {
    const KEY: &str = "zk_sum_node_changed_watch_count";
    let told = admin::mntr(address).await.map_err(|why| format!("mntr: {why}"))?;
    told.number(KEY).ok_or_else(|| format!("mntr has no {KEY}"))
}

fn told<T>(tried: Result<T, Failure>, what: &str, missing: &mut Vec<String>) -> Option<T> {
    tried.map_err(|why| missing.push(format!("{what}: {why}"))).ok()
}

struct On<'a> {
    sessions: &'a ServerSessions,
    site: &'a CalibrationSite,
}

impl On<'_> {
    fn first(&self) -> &Session {
        self.sessions.session(0, 0)
    }

    fn second(&self) -> &Session {
        self.sessions.session(0, 1)
    }

    async fn directory(&self, name: &str) -> Result<String, Failure> {
        let path = format!("{}/{name}", self.site.place);
        self.first().create(&path, &[], NodeKind::Persistent).await?;
        Ok(path)
    }

    async fn fresh_session(&self) -> Result<Session, Failure> {
        sessions::open(&self.site.single(&self.sessions.servers[0].address), OPEN_WITHIN).await
    }

    async fn numbers(&self) -> Result<Numbers, Failure> {
        let prefix = format!("{}/n-", self.directory("numbers").await?);
        let create = async || self.first().create(&prefix, &[], NodeKind::EphemeralSequential).await;
        let (first, second) = (create().await?, create().await?);
        self.first().delete(&first.path).await?;
        let children_then = 1;
        let third = create().await?;
        let number = |sequence: Option<i64>| sequence.ok_or(Failure::OwnNodeMissing);
        Ok(Numbers { second: number(second.sequence)?, children_then, third: number(third.sequence)? })
    }

    async fn watches(&self) -> Result<Vec<WatchCell>, Failure> {
        let directory = self.directory("watches").await?;
        let mut cells = Vec::new();
        for (number, watch) in
            [WatchedBy::GetData, WatchedBy::Exists, WatchedBy::GetChildren].into_iter().enumerate()
        {
            for change in [Change::ChildCreated, Change::DataSet, Change::ChildDeleted, Change::Deleted] {
                let node = format!("{directory}/{number}-{}", change as u8);
                let event = self.watch_cell(&node, watch, change).await?;
                cells.push(WatchCell { watch, change, event: event.map(|kind| format!("{kind:?}")) });
            }
        }
        Ok(cells)
    }

    async fn watch_cell(
        &self,
        node: &str,
        by: WatchedBy,
        change: Change,
    ) -> Result<Option<EventKind>, Failure> {
        let (watcher, other) = (self.first(), self.second());
        other.create(node, &[], NodeKind::Persistent).await?;
        let child = format!("{node}/child");
        if change == Change::ChildDeleted {
            other.create(&child, &[], NodeKind::Ephemeral).await?;
        }
        let mut watch = match by {
            WatchedBy::GetData => watcher.get_data_and_watch(node).await?.1,
            WatchedBy::Exists => watcher.exists_and_watch(node).await?.1,
            WatchedBy::GetChildren => watcher.get_children_and_watch(node).await?.1,
        };
        match change {
            Change::ChildCreated => other.create(&child, &[], NodeKind::Ephemeral).await.map(drop)?,
            Change::DataSet => other.set_data(node, b"x").await.map(drop)?,
            Change::ChildDeleted => other.delete(&child).await?,
            Change::Deleted => other.delete(node).await?,
        }
        Ok(event(&mut watch).await)
    }

    async fn raced(&self) -> Result<Raced, Failure> {
        let directory = self.directory("raced").await?;
        let (mut listed, mut notified, mut lost) = (0, 0, 0);
        for round in 0..ROUNDS_OF_RACES {
            let node = format!("{directory}/{round}");
            let other =
                self.sessions.session(usize::try_from(round).unwrap_or(0) % self.sessions.servers.len(), 1);
            let create = other.create(&node, &[], NodeKind::Ephemeral);
            let (created, list) = join(create, self.first().get_children_and_watch(&directory)).await;
            let (_, (names, mut watch)) = (created?, list?);
            let own = round.to_string();
            if names.iter().any(|name| name == own) {
                listed += 1;
            } else if event(&mut watch).await.is_some() {
                notified += 1;
            } else {
                lost += 1;
            }
            other.delete(&node).await?;
            // So that a lagging server does not take the deletion for the next round's change.
            self.first().sync(&directory).await?;
        }
        Ok(Raced { rounds: ROUNDS_OF_RACES, listed, notified, lost })
    }

    async fn order(&self) -> Result<CreationOrder, Failure> {
        let prefix = format!("{}/n-", self.directory("order").await?);
        let sessions: Vec<&Session> =
            self.sessions.servers.iter().flat_map(|on_server| &on_server.sessions).collect();
        let creates = sessions.iter().flat_map(|session| {
            (0..NODES_EACH).map(|_| session.create(&prefix, &[], NodeKind::EphemeralSequential))
        });
        let mut nodes: Vec<(i64, i64)> = try_join_all(creates)
            .await?
            .iter()
            .map(|created| (created.sequence.unwrap_or_default(), created.czxid))
            .collect();
        nodes.sort_unstable();
        let out_of_order = nodes.windows(2).filter(|pair| pair[0].1 >= pair[1].1).count();
        Ok(CreationOrder {
            sessions: sessions.len() as u64,
            nodes: nodes.len() as u64,
            out_of_order: out_of_order as u64,
        })
    }

    async fn queue(&self) -> Result<QueueSeen, Failure> {
        let directory = self.directory("queue").await?;
        let prefix = format!("{directory}/n-");
        let sessions = [0, 1, 2].map(|which| self.sessions.session(0, which));
        let outsider = self.sessions.session(self.sessions.servers.len() - 1, 3);
        let mut nodes = Vec::new();
        for session in sessions {
            nodes.push(session.create(&prefix, &[], NodeKind::EphemeralSequential).await?.path);
        }
        outsider.sync(&directory).await?;
        let mut names = outsider.get_children(&directory).await?.to_vec();
        names.sort_unstable();
        let listed: Vec<String> = names.iter().map(|name| format!("{directory}/{name}")).collect();
        let mut owners_told = 0;
        for (session, node) in sessions.iter().zip(&nodes) {
            let stat = outsider.exists(node).await?;
            owners_told += u64::from(stat.is_some_and(|stat| stat.owner == session.id()));
        }
        let (_, mut own) = sessions[0].get_data_and_watch(&nodes[0]).await?;
        let (_, mut before) = sessions[1].get_data_and_watch(&nodes[0]).await?;
        outsider.delete(&nodes[0]).await?;
        let (next_woken, owner_told) = join(event(&mut before), event(&mut own)).await;
        let again = sessions[0].delete(&nodes[0]).await;
        Ok(QueueSeen {
            in_order: listed == nodes,
            owners_told,
            next_woken: next_woken == Some(EventKind::NodeDeleted),
            owner_told: owner_told == Some(EventKind::NodeDeleted),
            owner_gets_no_node: again == Err(Failure::NoNode) && !sessions[0].is_over(),
        })
    }

    async fn left(&self) -> Result<Left, Failure> {
        let directory = self.directory("left").await?;
        let [ephemeral, persistent] = ["ephemeral", "persistent"].map(|name| format!("{directory}/{name}"));
        let session = self.fresh_session().await?;
        session.create(&ephemeral, &[], NodeKind::Ephemeral).await?;
        session.create(&persistent, &[], NodeKind::Persistent).await?;
        session.close(CLOSE_WITHIN).await;
        self.first().sync(&directory).await?;
        let is_there = async |path: &str| self.first().exists(path).await.map(|stat| stat.is_some());
        Ok(Left { ephemeral: is_there(&ephemeral).await?, persistent: is_there(&persistent).await? })
    }

    /// Halves the distance between a size that is held and one that is not. A server that is sent too much breaks the
    /// connection, so each attempt has a session of its own.
    async fn node_size(&self) -> Result<NodeSize, Failure> {
        let directory = self.directory("size").await?;
        let (mut held, mut refused) = (SURELY_HELD, SURELY_REFUSED);
        if !self.holds(&directory, held).await? || self.holds(&directory, refused).await? {
            return Err(Failure::Refused("the limit is not the default".into()));
        }
        while refused - held > 1 {
            let middle = u64::midpoint(held, refused);
            if self.holds(&directory, middle).await? { held = middle } else { refused = middle }
        }
        Ok(NodeSize { accepted_bytes: held, refused_bytes: refused })
    }

    async fn holds(&self, directory: &str, bytes: u64) -> Result<bool, Failure> {
        let node = format!("{directory}/{bytes:07}");
        let data = vec![b'x'; usize::try_from(bytes).unwrap_or(usize::MAX)];
        let session = self.fresh_session().await?;
        // A client that is cut off may wait and connect again; whether the node is there says another session.
        let _ = reactor::timeout(EVENT_WITHIN * 4, session.create(&node, &data, NodeKind::Ephemeral)).await;
        let is_there =
            self.first().sync(directory).await.is_ok() && self.first().exists(&node).await?.is_some();
        session.close(CLOSE_WITHIN).await;
        Ok(is_there)
    }

    async fn bystander(&self) -> Result<Vec<Bystander>, Failure> {
        let directory = self.directory("bystander").await?;
        let own = format!("{directory}/own");
        self.first().create(&own, b"x", NodeKind::Persistent).await?;
        let target = self.site.single(&self.sessions.servers[0].address);
        let herd = try_join_all((0..HERD).map(|_| sessions::open(&target, OPEN_WITHIN))).await?;
        let measured = self.stand_by(&directory, &own, &herd).await;
        join_all(herd.into_iter().map(|session| session.close(CLOSE_WITHIN))).await;
        measured
    }

    async fn stand_by(
        &self,
        directory: &str,
        own: &str,
        herd: &[Session],
    ) -> Result<Vec<Bystander>, Failure> {
        let mut all = Vec::new();
        let rounds = 0..ROUNDS_BESIDE_A_BYSTANDER;
        // The second may find a warmer server, so they take turns.
        let in_turn = |round: u64| if round.is_multiple_of(2) { [1, HERD] } else { [HERD, 1] };
        for (round, woken) in rounds.flat_map(|round| in_turn(round).map(|woken| (round, woken))) {
            let queue = format!("{directory}/{round}-woken-{woken}");
            self.first().create(&queue, &[], NodeKind::Persistent).await?;
            let waking = Arc::new(Waking::default());
            let target = self.site.single(&self.sessions.servers[0].address);
            let asking = on_its_own(target, own.to_owned(), Arc::clone(&waking));
            let changes = self.wake(&queue, &herd[..woken], &waking).await;
            waking.is_over.store(true, Ordering::SeqCst);
            let BehaviourSamples { read, write } = asking.join().map_err(|_| Failure::NoReply)??;
            let changes = changes?;
            all.push(Bystander {
                round,
                waiting: herd.len() as u64,
                woken: woken as u64,
                changes,
                read: Timing::of(&read),
                write: Timing::of(&write),
            });
        }
        Ok(all)
    }

    /// Wakes these sessions again and again, by a node that comes and goes; each then lists and sets its watch anew, as
    /// waiters of a lock do.
    async fn wake(&self, queue: &str, herd: &[Session], waking: &Waking) -> Result<u64, Failure> {
        let (node, list) = (format!("{queue}/node"), async |session: &Session| {
            session.get_children_and_watch(queue).await.map(|(_, watch)| watch)
        });
        let mut watches = try_join_all(herd.iter().map(&list)).await?;
        let (end, mut changes) = (clock::now() + clock::micros(BYSTANDING), 0_u64);
        while clock::now() < end {
            waking.turn();
            if changes.is_multiple_of(2) {
                self.second().create(&node, &[], NodeKind::Ephemeral).await?;
            } else {
                self.second().delete(&node).await?;
            }
            let told = herd.iter().zip(&mut watches).map(async |(session, watch)| {
                event(watch).await;
                list(session).await
            });
            watches = try_join_all(told).await?;
            waking.turn();
            changes += 1;
            reactor::sleep(BETWEEN_CHANGES).await;
        }
        Ok(changes)
    }
}

/// Tells a bystander when others are being woken.
#[derive(Default)]
struct Waking {
    /// Odd while they are: from before a change until all of them have listed again.
    turns: AtomicU64,
    is_over: AtomicBool,
}

impl Waking {
    fn turn(&self) {
        self.turns.fetch_add(1, Ordering::SeqCst);
    }
}

async fn event(watch: &mut Watch) -> Option<EventKind> {
    reactor::timeout(EVENT_WITHIN, watch.changed()).await
}

struct BehaviourSamples {
    read: Histogram,
    write: Histogram,
}

/// A bystander on a thread of its own, so that the woken sessions' work in this program does not delay it: reads and writes
/// its node in turn until it is told to end. Only what it asks for while others are being woken counts; between changes there
/// is nothing to be delayed by.
fn on_its_own(
    target: Target,
    own: String,
    waking: Arc<Waking>,
) -> std::thread::JoinHandle<Result<BehaviourSamples, Failure>> {
    std::thread::spawn(move || {
        reactor::block_on(async move {
            let session = sessions::open(&target, OPEN_WITHIN).await?;
            let mut samples = BehaviourSamples { read: new_histogram(), write: new_histogram() };
            while !waking.is_over.load(Ordering::SeqCst) {
                let began = waking.turns.load(Ordering::SeqCst);
                let (_, us) = timed(&session, || session.get_data(&own)).await?;
                let between = waking.turns.load(Ordering::SeqCst);
                if began % 2 == 1 || between != began {
                    samples.read.saturating_record(us);
                }
                let (_, us) = timed(&session, || session.set_data(&own, b"y")).await?;
                if between % 2 == 1 || between != waking.turns.load(Ordering::SeqCst) {
                    samples.write.saturating_record(us);
                }
            }
            session.close(CLOSE_WITHIN).await;
            Ok(samples)
        })
    })
}
