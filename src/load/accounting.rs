//! The three-way count: what the client saw, what the cost model predicts, what the servers counted.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::shared::Shared;
use crate::record::{Accounting, Counted, Occurrences, ServerCounters};
use crate::scenario::Load;
use crate::words::catalog::BatchCost;
use crate::words::measure::RequestKind::{
    Create, Delete, Exists, ExistsWatch, GetChildren, GetChildrenWatch, GetData, GetDataWatch, SetData,
};
use crate::words::measure::{Counts, RequestKind};
use crate::world::zk::admin;
use crate::world::zk::keep_awake::Unread;

const READS: [RequestKind; 6] = [GetChildren, GetChildrenWatch, GetData, GetDataWatch, Exists, ExistsWatch];
/// A multi is missing: the servers count each of its writes, and so does the client.
const WRITES: [RequestKind; 3] = [Create, Delete, SetData];

/// Compares the counts of a whole trial. The servers count only requests that succeeded, so the client's
/// successes are put beside theirs. Nothing where faults were injected: servers that are broken forget their counts,
/// and delete what belonged to sessions that have ended. What the cost model predicts is true of a trial that is whole.
pub fn compare(
    shared: &Shared,
    whole: &Counts,
    noted: &Occurrences,
    servers: &[ServerCounters],
    is_whole: bool,
) -> Vec<Accounting> {
    if shared.has_faults() {
        return Vec::new();
    }
    let cost = is_whole.then(|| expected(shared, noted)).flatten();
    let succeeded = |kinds: &[RequestKind]| kinds.iter().map(|kind| whole.succeeded.get(*kind)).sum();
    let with_looks = cost.as_ref().filter(|cost| !cost.looks_vary);
    let seen = &whole.notifications;
    let model = |amount: fn(&BatchCost) -> u64| cost.as_ref().map(amount);
    let all_seen = whole.unseen == 0;
    // What the client library keeps to itself are reads and notifications; and, when an acquire was given up, the
    // writes with which it cleans up.
    let writes_seen = all_seen || whole.unseen == whole.acquired();
    let row = |what, client, expected, servers| {
        let client = (all_seen || writes_seen && what == Counted::Writes).then_some(client);
        Accounting { what, client, expected, servers }
    };
    let watches = |key: &str| summed(servers, &format!("zk_sum_node_{key}_watch_count"));
    vec![
        row(Counted::Requests, whole.requests.total(), with_looks.map(BatchCost::requests_total), None),
        row(
            Counted::Reads,
            succeeded(&READS),
            predicted(with_looks, &READS),
            // What was looked at on behalf of the suite is no request of the lock.
            summed(servers, "zk_cnt_ns_read_per_namespace")
                .zip(looked(shared, noted))
                .map(|(reads, looked)| reads.saturating_sub(looked)),
        ),
        row(
            Counted::Writes,
            succeeded(&WRITES) + whole.written_by_multis,
            predicted(cost.as_ref(), &WRITES)
                .zip(model(|cost| cost.written_by_multis))
                .map(|(alone, in_multis)| alone + in_multis),
            applied(servers, "zk_cnt_ns_write_per_namespace"),
        ),
        row(
            Counted::NodeDeleted,
            seen.node_deleted,
            model(|cost| cost.events.node_deleted),
            watches("deleted"),
        ),
        row(
            Counted::ChildrenChanged,
            seen.children_changed,
            model(|cost| cost.events.children_changed),
            watches("children"),
        ),
        row(
            Counted::NodeCreated,
            seen.node_created,
            model(|cost| cost.events.node_created),
            watches("created"),
        ),
        row(
            Counted::DataChanged,
            seen.data_changed,
            model(|cost| cost.events.data_changed),
            watches("changed"),
        ),
        row(
            Counted::ByReleaseToWaiters,
            seen.by_release() - seen.to_releaser,
            model(|cost| cost.to_waiters_by_release),
            None,
        ),
        row(Counted::Names, whole.names_returned, cost.as_ref().and_then(|cost| cost.names_returned), None),
    ]
}

/// Reads on behalf of the suite; `None` where a look did not come to its end, so that it is not known how many it took.
fn looked(shared: &Shared, noted: &Occurrences) -> Option<u64> {
    let board = &shared.board;
    (board.looking.load(Ordering::Acquire) == 0)
        .then(|| noted.looks_beside + board.looked.load(Ordering::Acquire))
}

/// The requests of those kinds that the cost model expects to succeed.
fn predicted(cost: Option<&BatchCost>, kinds: &[RequestKind]) -> Option<u64> {
    cost.map(|cost| kinds.iter().map(|kind| cost.succeeding(*kind)).sum())
}

/// What the cost model predicts: only a batch has exact totals, and a queue with readers has others.
fn expected(shared: &Shared, noted: &Occurrences) -> Option<BatchCost> {
    if shared.entry.card.guarantees.has_read_side() && shared.spec.read_ratio > 0.0 {
        return None;
    }
    let model = shared.entry.card.batch_cost.filter(|_| shared.spec.load == Load::Batch)?;
    let mut cost = model(&shared.spec.strategy.params, shared.spec.contenders as u64);
    if cost.open {
        return None;
    }
    if cost.looks_follow_waits {
        cost.requests.push((GetChildren, noted.looks_by_wait));
    }
    Some(cost)
}

/// The sum over all servers; `None` when a server could not be asked or has restarted meanwhile.
fn summed(servers: &[ServerCounters], key: &str) -> Option<u64> {
    deltas(servers, key).map(|deltas| deltas.iter().sum())
}

/// Every server applies every write, so they must all tell the same; `None` when they do not.
fn applied(servers: &[ServerCounters], key: &str) -> Option<u64> {
    let deltas = deltas(servers, key)?;
    let first = *deltas.first()?;
    deltas.iter().all(|delta| *delta == first).then_some(first)
}

fn deltas(servers: &[ServerCounters], key: &str) -> Option<Vec<u64>> {
    if servers.is_empty() {
        return None;
    }
    servers.iter().map(|server| delta(server, key)).collect()
}

fn delta(server: &ServerCounters, key: &str) -> Option<u64> {
    // Servers of other versions or with other metrics answer without such counters, which is not the same as zero.
    if server.has_restarted() || !server.after.contains_key(ALWAYS_THERE) {
        return None;
    }
    // A counter for a namespace appears with its first use.
    let before = server.before.get(key).copied().unwrap_or(0);
    let after = server.after.get(key).copied().unwrap_or(0);
    u64::try_from(after - before).ok()
}

/// What every server that keeps such counters tells, from its start on.
const ALWAYS_THERE: &str = "zk_sum_node_deleted_watch_count";
/// Counters have come to rest when two looks this far apart agree.
const REST: Duration = Duration::from_millis(50);
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
pub struct CounterReading {
    /// `host:port`.
    pub address: String,
    pub role: String,
    pub version: Option<String>,
    /// Why it could not be asked.
    pub silent: Option<String>,
    /// The counters by key, `{ns}` written out as `ns`.
    pub counters: BTreeMap<String, i64>,
}

pub async fn read(addresses: &[String], namespace: &str) -> Vec<CounterReading> {
    join_all(addresses.iter().map(|address| read_one(address, namespace))).await
}

async fn read_one(address: &str, namespace: &str) -> CounterReading {
    let mut reading = CounterReading { address: address.to_owned(), ..CounterReading::default() };
    match admin::mntr(address).await {
        Ok(mntr) => {
            mntr.state().unwrap_or("unknown").clone_into(&mut reading.role);
            reading.version = mntr.version().map(str::to_owned);
            for key in KEYS {
                if let Some(value) = mntr.number(&key.replace("{ns}", namespace)) {
                    reading.counters.insert(key.replace("{ns}", "ns"), value);
                }
            }
        }
        Err(error) => reading.silent = Some(error.to_string()),
    }
    reading
}

/// Reads the counters once they have come to rest: a follower applies writes a little later than the leader
/// answers them.
pub async fn read_at_rest(addresses: &[String], namespace: &str) -> Vec<CounterReading> {
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
fn work(reading: &CounterReading) -> Vec<i64> {
    let counted = |key: &&String| key.contains("watch_count") || key.contains("namespace");
    reading.counters.iter().filter(|(key, _)| counted(key)).map(|(_, value)| *value).collect()
}

/// Puts the readings before and after a trial side by side, with what is known of reads that kept the servers awake.
pub fn pair(
    before: Vec<CounterReading>,
    after: Vec<CounterReading>,
    unread: &[Unread],
) -> Vec<ServerCounters> {
    let unread_us = |address: &str| unread.iter().find(|one| one.server == address).map(|one| one.longest_us);
    before
        .into_iter()
        .zip(after)
        .map(|(before, after)| ServerCounters {
            unread_us: unread_us(&before.address),
            address: before.address,
            role: after.role,
            version: after.version.or(before.version),
            silent: before.silent.or(after.silent),
            before: before.counters,
            after: after.counters,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(before: i64, after: i64, uptimes: (i64, i64)) -> ServerCounters {
        let reading = |value, uptime| {
            [("k", value), (ALWAYS_THERE, 0), ("zk_uptime", uptime)].map(|(k, v)| (k.to_owned(), v)).into()
        };
        ServerCounters {
            before: reading(before, uptimes.0),
            after: reading(after, uptimes.1),
            ..ServerCounters::default()
        }
    }

    #[test]
    fn a_server_that_restarted_makes_the_sum_unknown() {
        let servers = [server(5, 9, (100, 200)), server(0, 3, (100, 200))];
        assert_eq!(summed(&servers, "k"), Some(7));
        let servers = [server(5, 9, (100, 200)), server(8, 3, (100, 20))];
        assert_eq!(summed(&servers, "k"), None);
    }

    #[test]
    fn a_server_that_keeps_no_such_counters_gives_no_number_instead_of_zero() {
        let mut without = server(5, 9, (100, 200));
        without.after.remove(ALWAYS_THERE);
        assert_eq!((summed(&[without.clone()], "k"), applied(&[without], "k")), (None, None));
        let unused = server(0, 0, (100, 200));
        assert_eq!(summed(&[unused], "appears_with_its_first_use"), Some(0));
    }

    #[test]
    fn servers_that_disagree_about_writes_give_no_number() {
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(1, 5, (1, 2))], "k"), Some(4));
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(0, 5, (1, 2))], "k"), None);
    }
}
