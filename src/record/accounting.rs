//! The three-way count: what the client saw, what the cost model predicts, what the servers counted.

use super::beside::Beside;
use super::trial::{Accounting, Counted, ServerCounters};
use crate::words::catalog::BatchCost;
use crate::words::measure::RequestKind::{
    Create, Delete, Exists, ExistsWatch, GetChildren, GetChildrenWatch, GetData, GetDataWatch, SetData,
};
use crate::words::measure::{Counts, RequestKind};

const READS: [RequestKind; 6] = [GetChildren, GetChildrenWatch, GetData, GetDataWatch, Exists, ExistsWatch];
/// A multi is missing: the servers count each of its writes, and so does the client.
const WRITES: [RequestKind; 3] = [Create, Delete, SetData];

#[derive(Debug, Clone, Copy)]
pub struct ServersCount<'a> {
    pub counters: &'a [ServerCounters],
    /// What the suite itself asked for meanwhile.
    pub beside: Beside,
    pub knows_reads: bool,
}

impl ServersCount<'_> {
    /// What is left of a sum over all servers without what the suite asked for.
    fn without_beside(&self, key: &str, beside: fn(Beside) -> u64) -> Option<u64> {
        Some(summed(self.counters, key)?.saturating_sub(beside(self.beside)))
    }
}

/// Compares the counts of a whole trial. The servers count only requests that succeeded, so the client's
/// successes are put beside theirs.
pub fn compare(whole: &Counts, cost: Option<&BatchCost>, servers: ServersCount<'_>) -> Vec<Accounting> {
    let succeeded = |kinds: &[RequestKind]| kinds.iter().map(|kind| whole.succeeded.get(*kind)).sum();
    let with_looks = cost.filter(|cost| !cost.looks_vary);
    let seen = &whole.notifications;
    let model = |amount: fn(&BatchCost) -> u64| cost.map(amount);
    let all_seen = whole.unseen == 0;
    // What the client library keeps to itself are reads and notifications; and, when an acquire was given up, the
    // writes with which it cleans up.
    let writes_seen = all_seen || whole.unseen == whole.acquired();
    let row = |what, client, expected, servers| {
        let client = (all_seen || writes_seen && what == Counted::Writes).then_some(client);
        Accounting { what, client, expected, servers }
    };
    let watches = |key: &str, beside: fn(Beside) -> u64| {
        servers.without_beside(&format!("zk_sum_node_{key}_watch_count"), beside)
    };
    vec![
        row(Counted::Requests, whole.requests.total(), with_looks.map(BatchCost::requests_total), None),
        row(
            Counted::Reads,
            succeeded(&READS),
            predicted(with_looks, &READS),
            servers
                .without_beside("zk_cnt_ns_read_per_namespace", |beside| beside.reads)
                .filter(|_| servers.knows_reads),
        ),
        row(
            Counted::Writes,
            succeeded(&WRITES) + whole.written_by_multis,
            predicted(cost, &WRITES)
                .zip(model(|cost| cost.written_by_multis))
                .map(|(alone, in_multis)| alone + in_multis),
            applied(servers.counters, "zk_cnt_ns_write_per_namespace")
                .map(|writes| writes.saturating_sub(servers.beside.writes)),
        ),
        row(
            Counted::NodeDeleted,
            seen.node_deleted,
            model(|cost| cost.events.node_deleted),
            watches("deleted", |beside| beside.node_deleted),
        ),
        row(
            Counted::ChildrenChanged,
            seen.children_changed,
            model(|cost| cost.events.children_changed),
            watches("children", |beside| beside.children_changed),
        ),
        row(
            Counted::NodeCreated,
            seen.node_created,
            model(|cost| cost.events.node_created),
            watches("created", |beside| beside.node_created),
        ),
        row(
            Counted::DataChanged,
            seen.data_changed,
            model(|cost| cost.events.data_changed),
            watches("changed", |beside| beside.data_changed),
        ),
        row(
            Counted::ByReleaseToWaiters,
            seen.by_release() - seen.to_releaser,
            model(|cost| cost.to_waiters_by_release),
            None,
        ),
        row(Counted::Names, whole.names_returned, cost.and_then(|cost| cost.names_returned), None),
    ]
}

/// The requests of those kinds that the cost model expects to succeed.
fn predicted(cost: Option<&BatchCost>, kinds: &[RequestKind]) -> Option<u64> {
    cost.map(|cost| kinds.iter().map(|kind| cost.succeeding(*kind)).sum())
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
