//! Whether all updates are in one order, each with a transaction of its own: by what clients are told, and by the servers' logs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::try_join_all;

use super::probe::On;
use crate::record::UpdateOrder;
use crate::world::ensemble::log_follower::LogFollower;
use crate::world::ensemble::transactions::Transaction;
use crate::world::zk::{Failure, NodeKind, Session, reactor};

const DIRECTORIES: usize = 4;
/// Creates of each session. Every other node is written, and every third is deleted.
const NODES_EACH: usize = 50;
/// By how much a server's log may lag behind what a majority has.
const LOGS_LAG: Duration = Duration::from_millis(500);

/// A change, and the transaction of which the client was told.
struct LoggedChange {
    zxid: i64,
    path: String,
}

/// Sessions on all servers create, write and delete at once.
pub(super) async fn of_updates(on: &On<'_>) -> Result<UpdateOrder, Failure> {
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
        each.iter().flat_map(|told| told.windows(2)).filter(|two| two[0].zxid >= two[1].zxid).count();
    let distinct: BTreeSet<i64> = each.iter().flatten().map(|told| told.zxid).collect();
    order.out_of_order = falling as u64 + (order.changes - distinct.len() as u64);
    reactor::sleep(LOGS_LAG).await;
    let logs =
        on.site.logs.chunks(1).map(|directory| logged(directory, &place)).collect::<io::Result<Vec<_>>>();
    // Logs that cannot be read are as good as none.
    if let Ok(logs) = logs {
        order.logs = logs.len() as u64;
        order.logged_otherwise = logged_otherwise(&each, &logs);
    }
    Ok(order)
}

async fn changes(session: &Session, place: &str) -> Result<Vec<LoggedChange>, Failure> {
    let mut told = Vec::new();
    for number in 0..NODES_EACH {
        let prefix = format!("{place}/{}/n-", number % DIRECTORIES);
        let created = session.create(&prefix, &[], NodeKind::EphemeralSequential).await?;
        let path = created.path;
        told.push(LoggedChange { zxid: created.czxid, path: path.clone() });
        if number % 2 == 0 {
            let stat = session.set_data(&path, b"x").await?;
            told.push(LoggedChange { zxid: stat.mzxid, path: path.clone() });
        }
        if number % 3 == 0 {
            session.delete(&path).await?;
        }
    }
    Ok(told)
}

/// What a server's log has below that place, in its order: each change's transaction and path.
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

/// Changes that some log has under another transaction or not at all, and those at which two logs differ in their order.
fn logged_otherwise(told: &[Vec<LoggedChange>], logs: &[Vec<LoggedChange>]) -> u64 {
    let mut amiss = 0;
    for log in logs {
        let by_zxid: BTreeMap<i64, &str> = log.iter().map(|one| (one.zxid, one.path.as_str())).collect();
        let disagrees = |told: &&LoggedChange| by_zxid.get(&told.zxid) != Some(&told.path.as_str());
        amiss += told.iter().flatten().filter(disagrees).count();
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
    fn a_change_under_another_transaction_and_two_logs_in_another_order_are_counted() {
        let told = vec![log(&[(1, "/a"), (3, "/a")]), log(&[(2, "/b")])];
        let right = [(1, "/a"), (2, "/b"), (3, "/a")];
        assert_eq!(logged_otherwise(&told, &[log(&right), log(&right)]), 0);
        // One that lacks the last change, and one that has two the other way round
        assert!(logged_otherwise(&told, &[log(&right), log(&right[..2])]) > 0);
        assert!(logged_otherwise(&told, &[log(&right), log(&[(1, "/b"), (2, "/a"), (3, "/a")])]) > 0);
    }
}
