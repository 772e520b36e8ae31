//! ZooKeeper's behaviour where articles on locks make claims about it, tested on the raw ensemble.
//!
//! Everything except the bystander runs on one thread with these sessions. Times do not matter: an event that
//! has not come within [`EVENT_WITHIN`] does not come.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::{join, try_join_all};

use super::bystander;
use super::sessions::{CLOSE_WITHIN, EVENT_WITHIN, On, event};
use zklockbench_core::clock;
use zklockbench_ensemble::log_follower::LogFollower;
use zklockbench_ensemble::transactions::Transaction;
use zklockbench_record::{
    Behaviour, Change, Left, NodeSize, Numbers, Raced, UpdateOrder, WatchCell, WatchedBy,
};
use zklockbench_zk::{EventKind, Failure, Names, NodeKind, Session, Watch, admin, reactor};

/// Bounds of the maximum node size with the servers' default limit.
const SURELY_HELD: u64 = 1_000_000;
const SURELY_REFUSED: u64 = 1_100_000;
const ROUNDS_OF_RACES: u64 = 300;
/// Time for which a lock is tried after its holder's session has ended.
const TRIED_FOR: Duration = Duration::from_secs(6);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
const DIRECTORIES: usize = 4;
/// Creates per session. Every other node is written, and every third is deleted.
const NODES_EACH: usize = 50;
/// Maximum lag of a server's log behind a majority.
const LOGS_LAG: Duration = Duration::from_millis(500);

/// Runs all checks below the site's directory. Failed checks are listed as missing.
pub(super) async fn try_all(on: &On<'_>) -> Behaviour {
    let mut all = Behaviour::default();
    let mut missing = Vec::new();
    all.numbers = or_missing(on.numbers().await, "numbers of sequential nodes", &mut missing);
    all.watches = or_missing(on.watches().await, "watches and changes", &mut missing);
    all.raced =
        or_missing(on.raced(ListAndWatch::OneRequest).await, "a list that races with a change", &mut missing);
    all.raced_apart = or_missing(
        on.raced(ListAndWatch::TwoRequests).await,
        "a list and a watch that race with one",
        &mut missing,
    );
    all.order = or_missing(order_of_updates(on).await, "the order of updates", &mut missing);
    all.left = or_missing(on.left().await, "what a session leaves", &mut missing);
    all.bystander = or_missing(bystander::beside_a_herd(on).await, "the bystander", &mut missing);
    // Last, because it breaks connections.
    all.node_size = or_missing(on.node_size().await, "the size of a node", &mut missing);
    all.missing = missing;
    all
}

/// Changes a node's data repeatedly under one watch. The number of events is read from the server's counters,
/// because the client library shows none without a waiter.
pub(super) async fn change_under_one_watch(on: &On<'_>) -> Result<u64, Failure> {
    const CHANGES: u64 = 5;
    let node = on.directory("one-shot").await?;
    let (_, _watch) = on.first().get_data_and_watch(&node).await?;
    for _ in 0..CHANGES {
        on.second().set_data(&node, b"x").await?;
    }
    Ok(CHANGES)
}

/// Number of fired data watches on a server, by its own count.
pub(super) async fn fired(address: &str) -> Result<i64, String> {
    const KEY: &str = "zk_sum_node_changed_watch_count";
    let mntr = admin::mntr(address).await.map_err(|why| format!("mntr: {why}"))?;
    mntr.number(KEY).ok_or_else(|| format!("mntr has no {KEY}"))
}

fn or_missing<T>(tried: Result<T, Failure>, what: &str, missing: &mut Vec<String>) -> Option<T> {
    tried.map_err(|why| missing.push(format!("{what}: {why}"))).ok()
}

#[derive(Clone, Copy, PartialEq)]
enum ListAndWatch {
    OneRequest,
    /// A list and a second request after its reply, of which only the watch counts.
    TwoRequests,
}

impl On<'_> {
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

    /// A create on one session races with a read on another, which starts up to twice a create's time later.
    async fn raced(&self, requests: ListAndWatch) -> Result<Raced, Failure> {
        const STEPS: u64 = 16;
        let directory = self
            .directory(if requests == ListAndWatch::OneRequest { "raced" } else { "raced-apart" })
            .await?;
        let mut raced = Raced { rounds: ROUNDS_OF_RACES, listed: 0, notified: 0, lost: 0 };
        let mut a_create = Duration::ZERO;
        for round in 0..ROUNDS_OF_RACES {
            let own = round.to_string();
            let node = format!("{directory}/{own}");
            let on_server = usize::try_from(round).unwrap_or(0) % self.sessions.servers.len();
            let other = self.sessions.session(on_server, 1);
            let create = async {
                let begun = clock::now();
                other.create(&node, &[], NodeKind::Ephemeral).await?;
                Ok::<_, Failure>(Duration::from_micros(clock::now().saturating_sub(begun)))
            };
            let later = a_create * 2 * u32::try_from(round % STEPS).unwrap_or(0) / STEPS as u32;
            let list_and_watch = async {
                reactor::sleep(later).await;
                self.list_and_watch(&directory, requests).await
            };
            let (created, listed) = join(create, list_and_watch).await;
            let (took, (names, mut watch)) = (created?, listed?);
            a_create = took;
            let tells_within =
                if requests == ListAndWatch::OneRequest { EVENT_WITHIN } else { EVENT_WITHIN / 10 };
            if names.iter().any(|name| name == own) {
                raced.listed += 1;
            } else if reactor::timeout(tells_within, watch.changed()).await.is_some() {
                raced.notified += 1;
            } else {
                raced.lost += 1;
            }
            other.delete(&node).await?;
            // A lagging server must not mistake the deletion for the next round's change.
            self.first().sync(&directory).await?;
        }
        Ok(raced)
    }

    async fn list_and_watch(
        &self,
        directory: &str,
        requests: ListAndWatch,
    ) -> Result<(Names, Watch), Failure> {
        if requests == ListAndWatch::OneRequest {
            return self.first().get_children_and_watch(directory).await;
        }
        let names = self.first().get_children(directory).await?;
        let (_, watch) = self.first().get_children_and_watch(directory).await?;
        Ok((names, watch))
    }

    /// Two single-node locks whose holder's session ends; another session tries to get both.
    async fn left(&self) -> Result<Left, Failure> {
        let directory = self.directory("left").await?;
        let [ephemeral, persistent] = ["ephemeral", "persistent"].map(|name| format!("{directory}/{name}"));
        let holder = self.fresh_session().await?;
        holder.create(&ephemeral, &[], NodeKind::Ephemeral).await?;
        holder.create(&persistent, &[], NodeKind::Persistent).await?;
        holder.close(CLOSE_WITHIN).await;
        let mut left = Left { looked_us: clock::micros(TRIED_FOR), ..Left::default() };
        let end = clock::now() + left.looked_us;
        while clock::now() < end {
            left.ephemeral_taken |= self.takes(&ephemeral).await?;
            left.persistent_taken |= self.takes(&persistent).await?;
            reactor::sleep(BETWEEN_TRIES).await;
        }
        Ok(left)
    }

    async fn takes(&self, node: &str) -> Result<bool, Failure> {
        match self.first().create(node, &[], NodeKind::Ephemeral).await {
            Ok(_) => Ok(true),
            Err(Failure::NodeExists) => Ok(false),
            Err(why) => Err(why),
        }
    }

    /// Bisects between an accepted and a refused size. A server breaks the connection if it gets too much
    /// data, so each attempt has its own session.
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
        // A disconnected client may wait and reconnect; another session checks whether the node exists.
        let _ = reactor::timeout(EVENT_WITHIN * 4, session.create(&node, &data, NodeKind::Ephemeral)).await;
        let is_there =
            self.first().sync(directory).await.is_ok() && self.first().exists(&node).await?.is_some();
        session.close(CLOSE_WITHIN).await;
        Ok(is_there)
    }
}

/// A change with the transaction that the client received for it.
struct LoggedChange {
    zxid: i64,
    path: String,
}

/// Whether all updates have one order with distinct transactions, by the clients' replies and the servers'
/// logs, while sessions on all servers create, write and delete at once.
async fn order_of_updates(on: &On<'_>) -> Result<UpdateOrder, Failure> {
    let place = on.directory("order").await?;
    for number in 0..DIRECTORIES {
        on.first().create(&format!("{place}/{number}"), &[], NodeKind::Persistent).await?;
    }
    let sessions: Vec<&Session> =
        on.sessions.servers.iter().flat_map(|on_server| &on_server.sessions).collect();
    for session in &sessions {
        session.sync(&place).await?;
    }
    let each = try_join_all(sessions.iter().map(|session| changes(session, &place))).await?;
    let mut order = UpdateOrder {
        sessions: sessions.len() as u64,
        directories: DIRECTORIES as u64,
        changes: each.iter().map(Vec::len).sum::<usize>() as u64,
        ..UpdateOrder::default()
    };
    let falling =
        each.iter().flat_map(|reported| reported.windows(2)).filter(|two| two[0].zxid >= two[1].zxid).count();
    let distinct: BTreeSet<i64> = each.iter().flatten().map(|reported| reported.zxid).collect();
    order.out_of_order = falling as u64 + (order.changes - distinct.len() as u64);
    reactor::sleep(LOGS_LAG).await;
    let logs =
        on.site.logs.chunks(1).map(|directory| logged(directory, &place)).collect::<io::Result<Vec<_>>>();
    // Unreadable logs count as none.
    if let Ok(logs) = logs {
        order.logs = logs.len() as u64;
        order.logged_otherwise = logged_otherwise(&each, &logs);
    }
    Ok(order)
}

async fn changes(session: &Session, place: &str) -> Result<Vec<LoggedChange>, Failure> {
    let mut reported = Vec::new();
    for number in 0..NODES_EACH {
        let prefix = format!("{place}/{}/n-", number % DIRECTORIES);
        let created = session.create(&prefix, &[], NodeKind::EphemeralSequential).await?;
        let path = created.path;
        reported.push(LoggedChange { zxid: created.czxid, path: path.clone() });
        if number % 2 == 0 {
            let stat = session.set_data(&path, b"x").await?;
            reported.push(LoggedChange { zxid: stat.mzxid, path: path.clone() });
        }
        if number % 3 == 0 {
            session.delete(&path).await?;
        }
    }
    Ok(reported)
}

/// Changes below that directory in a server's log, in order: transaction and path of each.
fn logged(directory: &[PathBuf], place: &str) -> io::Result<Vec<LoggedChange>> {
    let mut all = Vec::new();
    let mut keep = |transaction: &Transaction| {
        let changes = transaction.changes.iter();
        all.extend(changes.map(|change| LoggedChange { zxid: transaction.zxid, path: change.path.clone() }));
        Ok(())
    };
    let mut follower = LogFollower::new(&format!("{place}/"), UNIX_EPOCH);
    follower.read(directory, &mut keep)?;
    follower.end(&mut keep)?;
    Ok(all)
}

/// Number of changes that some log lacks or has under another transaction, plus differences in order between
/// two logs.
fn logged_otherwise(reported: &[Vec<LoggedChange>], logs: &[Vec<LoggedChange>]) -> u64 {
    let mut amiss = 0;
    for log in logs {
        let by_zxid: BTreeMap<i64, &str> = log.iter().map(|one| (one.zxid, one.path.as_str())).collect();
        let disagrees =
            |reported: &&LoggedChange| by_zxid.get(&reported.zxid) != Some(&reported.path.as_str());
        amiss += reported.iter().flatten().filter(disagrees).count();
        let other =
            logs[0].iter().zip(log).filter(|(one, other)| (one.zxid, &one.path) != (other.zxid, &other.path));
        amiss += other.count() + log.len().abs_diff(logs[0].len());
        amiss += log.windows(2).filter(|two| two[0].zxid > two[1].zxid).count();
    }
    amiss as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(changes: &[(i64, &str)]) -> Vec<LoggedChange> {
        changes.iter().map(|(zxid, path)| LoggedChange { zxid: *zxid, path: (*path).to_owned() }).collect()
    }

    #[test]
    fn logged_otherwise_counts_wrong_transactions_and_orders() {
        let reported = vec![log(&[(1, "/a"), (3, "/a")]), log(&[(2, "/b")])];
        let right = [(1, "/a"), (2, "/b"), (3, "/a")];
        assert_eq!(logged_otherwise(&reported, &[log(&right), log(&right)]), 0);
        // One log lacks the last change, and one has two in reverse order
        assert!(logged_otherwise(&reported, &[log(&right), log(&right[..2])]) > 0);
        assert!(logged_otherwise(&reported, &[log(&right), log(&[(1, "/b"), (2, "/a"), (3, "/a")])]) > 0);
    }
}
