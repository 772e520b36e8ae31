//! The three-way count: what the client saw, what the cost model predicts, what the servers counted.

use super::desk::Log;
use super::shared::Shared;
use crate::catalog::BatchCost;
use crate::measure::RequestKind::{
    Create, Delete, Exists, ExistsWatch, GetChildren, GetChildrenWatch, GetData, GetDataWatch, SetData,
};
use crate::measure::{Counts, RequestKind};
use crate::record::{Accounting, ServerCounters};
use crate::scenario::Load;

const READS: [RequestKind; 6] = [GetChildren, GetChildrenWatch, GetData, GetDataWatch, Exists, ExistsWatch];
/// A multi is missing here: the servers count each of its writes, and so does the client.
const WRITES: [RequestKind; 3] = [Create, Delete, SetData];

/// Compares the counts of a whole trial. The servers count only requests that succeeded, so the client's
/// successes are put beside theirs.
#[must_use]
pub fn compare(shared: &Shared, whole: &Counts, log: &Log, servers: &[ServerCounters]) -> Vec<Accounting> {
    let cost = expected(shared, log);
    let succeeded = |kinds: &[RequestKind]| kinds.iter().map(|kind| whole.succeeded.get(*kind)).sum();
    let with_looks = cost.as_ref().filter(|cost| !cost.looks_vary);
    let seen = &whole.notifications;
    let model = |amount: fn(&BatchCost) -> u64| cost.as_ref().map(amount);
    let all_seen = whole.unseen == 0;
    // What the client library keeps to itself are reads and notifications; and, when an acquire was given up, the
    // writes with which it cleans up.
    let writes_seen = all_seen || whole.unseen == whole.acquired();
    let row = |what, client, expected, servers| {
        let client = (all_seen || writes_seen && what == "writes").then_some(client);
        Accounting { what, client, expected, servers }
    };
    let watches = |key: &str| summed(servers, &format!("zk_sum_node_{key}_watch_count"));
    vec![
        row("requests", whole.requests.total(), with_looks.map(BatchCost::requests_total), None),
        row(
            "reads",
            succeeded(&READS),
            predicted(with_looks, &READS),
            summed(servers, "zk_cnt_ns_read_per_namespace"),
        ),
        row(
            "writes",
            succeeded(&WRITES) + whole.written_by_multis,
            predicted(cost.as_ref(), &WRITES)
                .zip(model(|cost| cost.written_by_multis))
                .map(|(alone, in_multis)| alone + in_multis),
            applied(servers, "zk_cnt_ns_write_per_namespace"),
        ),
        row(
            "notifications: node deleted",
            seen.node_deleted,
            model(|cost| cost.events.node_deleted),
            watches("deleted"),
        ),
        row(
            "notifications: children changed",
            seen.children_changed,
            model(|cost| cost.events.children_changed),
            watches("children"),
        ),
        row(
            "notifications: node created",
            seen.node_created,
            model(|cost| cost.events.node_created),
            watches("created"),
        ),
        row(
            "notifications: data changed",
            seen.data_changed,
            model(|cost| cost.events.data_changed),
            watches("changed"),
        ),
        row(
            "notifications by release to waiters",
            seen.by_release() - seen.to_releaser,
            model(|cost| cost.to_waiters_by_release),
            None,
        ),
        row("names returned", whole.names_returned, cost.as_ref().and_then(|cost| cost.names_returned), None),
    ]
}

/// The requests of those kinds that the cost model expects to succeed.
fn predicted(cost: Option<&BatchCost>, kinds: &[RequestKind]) -> Option<u64> {
    cost.map(|cost| kinds.iter().map(|kind| cost.succeeding(*kind)).sum())
}

/// What the cost model predicts: only a batch has exact totals, and a queue with readers has others.
fn expected(shared: &Shared, log: &Log) -> Option<BatchCost> {
    if shared.entry.card.guarantees.has_read_side() && shared.spec.read_ratio > 0.0 {
        return None;
    }
    let model = shared.entry.card.batch_cost.filter(|_| shared.spec.load == Load::Batch)?;
    let mut cost = model(&shared.spec.strategy.params, shared.spec.contenders as u64);
    if cost.open {
        return None;
    }
    if cost.looks_follow_waits {
        cost.requests.push((GetChildren, log.looks_by_wait));
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
    let restarted = server.after.get("zk_uptime") < server.before.get("zk_uptime");
    if restarted || server.after.is_empty() {
        return None;
    }
    // A counter for a namespace appears with its first use.
    let before = server.before.get(key).copied().unwrap_or(0);
    let after = server.after.get(key).copied().unwrap_or(0);
    u64::try_from(after - before).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(before: i64, after: i64, uptimes: (i64, i64)) -> ServerCounters {
        let reading = |value, uptime| [("k".to_owned(), value), ("zk_uptime".to_owned(), uptime)].into();
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
    fn servers_that_disagree_about_writes_give_no_number() {
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(1, 5, (1, 2))], "k"), Some(4));
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(0, 5, (1, 2))], "k"), None);
    }
}
