//! The servers' own counters around a trial, and whether the servers are still there.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::TcpStream;

use crate::record::ServerCounters;
use crate::zk::admin;

/// Counters have come to rest when two looks this far apart agree.
const REST: Duration = Duration::from_millis(50);
/// How many looks to wait for that.
const LOOKS_AT_MOST: usize = 40;

/// The counters that are kept of `mntr`; `{ns}` stands for the top-level node that the suite works under.
const KEYS: &[&str] = &[
    "zk_sum_node_created_watch_count",
    "zk_sum_node_deleted_watch_count",
    "zk_sum_node_changed_watch_count",
    "zk_sum_node_children_watch_count",
    "zk_max_node_children_watch_count",
    "zk_max_node_deleted_watch_count",
    "zk_cnt_{ns}_read_per_namespace",
    "zk_sum_{ns}_read_per_namespace",
    "zk_cnt_{ns}_write_per_namespace",
    "zk_packets_received",
    "zk_packets_sent",
    "zk_proposal_count",
    "zk_cnt_fsynctime",
    "zk_sum_fsynctime",
    "zk_watch_count",
    "zk_ephemerals_count",
    "zk_znode_count",
    "zk_outstanding_requests",
    "zk_num_alive_connections",
    "zk_uptime",
];

/// Counters of one server at one moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// `host:port`.
    pub address: String,
    /// Its role, or why it could not be asked.
    pub role: String,
    /// The counters by key, `{ns}` written out as `ns`.
    pub counters: BTreeMap<String, i64>,
}

/// Reads all servers' counters.
pub async fn read(addresses: &[String], namespace: &str) -> Vec<Reading> {
    join_all(addresses.iter().map(|address| read_one(address, namespace))).await
}

async fn read_one(address: &str, namespace: &str) -> Reading {
    let mut reading = Reading { address: address.to_owned(), ..Reading::default() };
    match admin::mntr(address).await {
        Ok(mntr) => {
            mntr.state().unwrap_or("unknown").clone_into(&mut reading.role);
            for key in KEYS {
                if let Some(value) = mntr.number(&key.replace("{ns}", namespace)) {
                    reading.counters.insert(key.replace("{ns}", "ns"), value);
                }
            }
        }
        Err(error) => reading.role = format!("not known ({error})"),
    }
    reading
}

/// Reads the counters once they have come to rest: a follower applies writes a little later than the leader
/// answers them.
pub async fn read_at_rest(addresses: &[String], namespace: &str) -> Vec<Reading> {
    let mut before = read(addresses, namespace).await;
    for _ in 0..LOOKS_AT_MOST {
        tokio::time::sleep(REST).await;
        let now = read(addresses, namespace).await;
        let rests = before.iter().zip(&now).all(|(a, b)| work(a) == work(b));
        before = now;
        if rests {
            break;
        }
    }
    before
}

/// The counters that a look itself does not move.
fn work(reading: &Reading) -> Vec<i64> {
    let counted = |key: &&String| key.contains("watch_count") || key.contains("namespace");
    reading.counters.iter().filter(|(key, _)| counted(key)).map(|(_, value)| *value).collect()
}

/// Puts the readings before and after a trial side by side.
#[must_use]
pub fn pair(before: Vec<Reading>, after: Vec<Reading>) -> Vec<ServerCounters> {
    before
        .into_iter()
        .zip(after)
        .map(|(before, after)| ServerCounters {
            address: before.address,
            role: after.role,
            before: before.counters,
            after: after.counters,
        })
        .collect()
}

/// Whether any server accepts a connection.
pub async fn any_reachable(addresses: &[String]) -> bool {
    let attempts = addresses.iter().map(|address| async move {
        matches!(
            tokio::time::timeout(Duration::from_millis(500), TcpStream::connect(address)).await,
            Ok(Ok(_))
        )
    });
    join_all(attempts).await.into_iter().any(|reached| reached)
}
