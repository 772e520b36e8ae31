//! Requests and notifications counted independently: by the client, the cost model and the servers, and on
//! the wire in a separate trial.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::catalog::{BatchCost, Events};
use zklockbench_core::measure::RequestKind::{
    Create, Delete, Exists, ExistsWatch, GetChildren, GetChildrenWatch, GetData, GetDataWatch, SetData,
};
use zklockbench_core::measure::{Counts, RequestKind, WireCounts, added_up};
use zklockbench_core::worded;

/// One line of the three-way check: client, cost model, servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounting {
    /// Counted quantity.
    pub what: Counted,
    /// Client's count; `None` if the client library hides it.
    pub client: Option<u64>,
    /// Cost model's prediction, if a model applies.
    pub expected: Option<u64>,
    /// Servers' count, if they answered.
    pub servers: Option<u64>,
}

worded! {
    /// Quantity compared by the three-way check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Counted by name {
        /// Requests sent.
        Requests = "requests",
        /// Successful reads.
        Reads = "reads",
        /// Successful writes, including those inside multis.
        Writes = "writes",
        /// `NodeDeleted` events delivered.
        NodeDeleted = "notifications: node deleted",
        /// `NodeChildrenChanged` events delivered.
        ChildrenChanged = "notifications: children changed",
        /// `NodeCreated` events delivered.
        NodeCreated = "notifications: node created",
        /// `NodeDataChanged` events delivered.
        DataChanged = "notifications: data changed",
        /// Notifications caused by releases, excluding notifications to the releasers themselves.
        ByReleaseToWaiters = "notifications by release to waiters",
        /// Names returned by `getChildren`.
        Names = "names returned",
    }
}

impl Counted {
    /// Whether the quantity is one of the four event types that servers deliver.
    pub fn is_event(self) -> bool {
        matches!(self, Self::NodeDeleted | Self::ChildrenChanged | Self::NodeCreated | Self::DataChanged)
    }
}

impl Accounting {
    /// Whether all available counts agree; `None` if there are fewer than two.
    pub fn agrees(&self) -> Option<bool> {
        let known: Vec<u64> = [self.client, self.expected, self.servers].into_iter().flatten().collect();
        (known.len() > 1).then(|| known.windows(2).all(|pair| pair[0] == pair[1]))
    }
}

/// Counters of one server (`mntr`) before and after a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerCounters {
    /// `host:port` of the server.
    pub address: String,
    /// Last reported role: `leader`, `follower` or `standalone`; empty if none was reported.
    pub role: String,
    /// Version without build details.
    pub version: Option<String>,
    /// Reason why the server did not answer; `None` if it did.
    pub silent: Option<String>,
    /// Selected keys before the first request.
    pub before: BTreeMap<String, i64>,
    /// The same keys after the last request.
    pub after: BTreeMap<String, i64>,
    /// Longest time between two answered reads, in microseconds; only for servers that the suite keeps awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_us: Option<u64>,
}

impl ServerCounters {
    /// Whether the server restarted during the trial: its uptime is shorter than before. Uptime counts from
    /// the start of the process or the last election that the server took part in.
    pub fn has_restarted(&self) -> bool {
        const KEY: &str = "zk_uptime";
        self.after.get(KEY) < self.before.get(KEY)
    }

    /// Growth of a counter during the trial; `None` if a reading lacks it. Counters come from servers and stored files,
    /// so their difference may exceed `i64`.
    pub fn growth(&self, key: &str) -> Option<i128> {
        Some(i128::from(*self.after.get(key)?) - i128::from(*self.before.get(key)?))
    }
}

/// The suite's own successful requests and delivered events during a trial. The servers count them too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    /// Successful reads.
    pub reads: u64,
    /// Successful writes.
    pub writes: u64,
    /// `NodeCreated` events.
    pub node_created: u64,
    /// `NodeDeleted` events.
    pub node_deleted: u64,
    /// `NodeDataChanged` events.
    pub data_changed: u64,
    /// `NodeChildrenChanged` events.
    pub children_changed: u64,
}

added_up!(Beside { reads, writes, node_created, node_deleted, data_changed, children_changed });

const READS: [RequestKind; 6] = [GetChildren, GetChildrenWatch, GetData, GetDataWatch, Exists, ExistsWatch];
/// Multis are not listed, because the servers and the client count each write inside a multi separately.
const WRITES: [RequestKind; 3] = [Create, Delete, SetData];

/// Compares the counts of a whole trial. Servers count only successful requests, so their counts are compared with
/// the client's successful requests. `beside` is the suite's own part of the servers' counts; if `None`, its reads
/// are unknown.
pub fn compare_counts(
    whole: &Counts,
    cost: Option<&BatchCost>,
    servers: &[ServerCounters],
    beside: Option<Beside>,
) -> Vec<Accounting> {
    let succeeded = |kinds: &[RequestKind]| kinds.iter().map(|kind| whole.succeeded.get(*kind)).sum();
    let with_looks = cost.filter(|cost| !cost.looks_vary);
    let seen = &whole.notifications;
    let all_seen = whole.unseen == 0;
    // Some client libraries hide reads and notifications and, after an abandoned acquire, also the clean-up
    // writes.
    let writes_seen = all_seen || whole.unseen == whole.acquired();
    let row = |what, client, expected, servers| {
        let client = (all_seen || writes_seen && what == Counted::Writes).then_some(client);
        Accounting { what, client, expected, servers }
    };
    let own = beside.unwrap_or_default();
    let without = |own: u64, key: &str| Some(summed(servers, key)?.saturating_sub(own));
    let event = |what, seen, own, key: &str, expected: fn(&Events) -> u64| {
        let counted = without(own, &format!("zk_sum_node_{key}_watch_count"));
        row(what, seen, cost.map(|cost| expected(&cost.events)), counted)
    };
    vec![
        row(Counted::Requests, whole.requests.total(), with_looks.map(BatchCost::requests_total), None),
        row(
            Counted::Reads,
            succeeded(&READS),
            predicted(with_looks, &READS),
            beside.and_then(|own| without(own.reads, "zk_cnt_ns_read_per_namespace")),
        ),
        row(
            Counted::Writes,
            succeeded(&WRITES) + whole.written_by_multis,
            predicted(cost, &WRITES)
                .zip(cost.map(|cost| cost.written_by_multis))
                .map(|(alone, in_multis)| alone + in_multis),
            applied(servers, "zk_cnt_ns_write_per_namespace").map(|writes| writes.saturating_sub(own.writes)),
        ),
        event(Counted::NodeDeleted, seen.node_deleted, own.node_deleted, "deleted", |e| e.node_deleted),
        event(Counted::ChildrenChanged, seen.children_changed, own.children_changed, "children", |e| {
            e.children_changed
        }),
        event(Counted::NodeCreated, seen.node_created, own.node_created, "created", |e| e.node_created),
        event(Counted::DataChanged, seen.data_changed, own.data_changed, "changed", |e| e.data_changed),
        row(
            Counted::ByReleaseToWaiters,
            seen.by_release() - seen.to_releaser,
            cost.map(|cost| cost.to_waiters_by_release),
            None,
        ),
        row(Counted::Names, whole.names_returned, cost.and_then(|cost| cost.names_returned), None),
    ]
}

fn predicted(cost: Option<&BatchCost>, kinds: &[RequestKind]) -> Option<u64> {
    cost.map(|cost| kinds.iter().map(|kind| cost.succeeding(*kind)).sum())
}

/// Sum over all servers; `None` if a server did not answer or restarted.
fn summed(servers: &[ServerCounters], key: &str) -> Option<u64> {
    deltas(servers, key).map(|deltas| deltas.iter().sum())
}

/// Number of writes that every server applied; `None` if the servers differ.
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
    // Without this counter, the server did not answer or reports none of these metrics, so a missing key does not
    // mean zero.
    let answered = [&server.before, &server.after].iter().all(|reading| reading.contains_key(ALWAYS_THERE));
    if server.has_restarted() || !answered {
        return None;
    }
    // A server reports a namespace's counter only after its first use, so a missing key means zero.
    let before = server.before.get(key).copied().unwrap_or(0);
    let after = server.after.get(key).copied().unwrap_or(0);
    u64::try_from(after.checked_sub(before)?).ok()
}

/// Counter that every server with these metrics reports from startup.
const ALWAYS_THERE: &str = "zk_sum_node_deleted_watch_count";

/// Result of a separate counting trial, in which a proxy reads the frames between contenders and servers. Its
/// waits are discarded, because the proxy delays them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counting {
    /// Reason why nothing was counted; `None` if the trial succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Counted cycles of each contender.
    pub turns: CountedTurns,
    /// Counts of these cycles.
    pub counted: WireCounts,
    /// Notifications caused by the releases of these cycles, including notifications to the releasers. `None`
    /// if unknown.
    pub by_release: Option<u64>,
    /// Reason why `by_release` is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_release_missing: Option<String>,
    /// Counts of the whole trial, from the first connection to the last, including unfinished cycles.
    pub whole: WireCounts,
    /// Notifications caused by releases in the whole trial.
    pub whole_by_release: Option<u64>,
    /// The client's own counts of the whole trial; `None` for a driver's lock, which does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<Counts>,
}

/// Counted cycles of each contender. A cycle is one acquire, hold and release, or a failed acquire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedTurns {
    /// All cycles except the first, in which a client may create nodes that it needs.
    AfterTheFirst,
    /// All cycles, because contenders had only one cycle each.
    #[default]
    All,
}

impl CountedTurns {
    pub fn told(self) -> &'static str {
        match self {
            Self::AfterTheFirst => "excluding each contender's first cycle",
            Self::All => "including first cycles",
        }
    }
}

/// A difference between the wire's and the client's counts in the same trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disagreement {
    pub what: &'static str,
    pub wire: u64,
    pub client: u64,
}

impl Counting {
    pub fn failed(why: String) -> Self {
        Self { missing: Some(why), ..Self::default() }
    }

    pub fn is_there(&self) -> bool {
        self.missing.is_none()
    }

    /// Differences between the wire and the client's own counts; empty if all agree or the counts are not
    /// comparable.
    pub fn disagreements(&self) -> Vec<Disagreement> {
        let Some(client) = self.client.as_ref().filter(|client| client.unseen == 0) else {
            return Vec::new();
        };
        let wire = &self.whole;
        let by_kind = RequestKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), wire.requests.get(kind), client.requests.get(kind)));
        let succeeded = RequestKind::ALL
            .into_iter()
            .map(|kind| (kind.name(), wire.succeeded.get(kind), client.succeeded.get(kind)));
        let others = [
            ("other requests", wire.all_requests() - wire.requests.total(), 0),
            ("notifications", wire.notifications.total(), client.notifications.total()),
            ("names", wire.names_returned, client.names_returned),
        ];
        let by_release = self.whole_by_release.filter(|_| client.notifications.cause_unknown == 0);
        let by_release =
            by_release.map(|wire| ("notifications by release", wire, client.notifications.by_release()));
        by_kind
            .chain(succeeded)
            .chain(others)
            .chain(by_release)
            .filter(|(_, wire, client)| wire != client)
            .map(|(what, wire, client)| Disagreement { what, wire, client })
            .collect()
    }
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
    fn sum_is_unknown_if_a_server_restarted_or_a_counter_wrapped() {
        let servers = [server(5, 9, (100, 200)), server(0, 3, (100, 200))];
        assert_eq!(summed(&servers, "k"), Some(7));
        let servers = [server(5, 9, (100, 200)), server(8, 3, (100, 20))];
        assert_eq!(summed(&servers, "k"), None);
        assert_eq!(summed(&[server(1, i64::MIN, (100, 200))], "k"), None);
    }

    #[test]
    fn missing_counter_is_none_not_zero() {
        let mut without = server(5, 9, (100, 200));
        without.after.remove(ALWAYS_THERE);
        assert_eq!((summed(&[without.clone()], "k"), applied(&[without], "k")), (None, None));
        let silent_before = ServerCounters { before: BTreeMap::new(), ..server(5, 9, (100, 200)) };
        assert_eq!(summed(&[silent_before], "k"), None);
        let unused = server(0, 0, (100, 200));
        assert_eq!(summed(&[unused], "appears_with_its_first_use"), Some(0));
    }

    #[test]
    fn applied_writes_are_unknown_if_servers_disagree() {
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(1, 5, (1, 2))], "k"), Some(4));
        assert_eq!(applied(&[server(0, 4, (1, 2)), server(0, 5, (1, 2))], "k"), None);
    }

    #[test]
    fn wire_and_client_counts_are_compared_by_kind() {
        let mut client = Counts::default();
        client.requests.add(RequestKind::Create, 5);
        client.notifications.node_deleted = 3;
        client.notifications.by_release_useful = 3;
        let mut whole = WireCounts::default();
        whole.requests.add(RequestKind::Create, 5);
        whole.notifications.node_deleted = 3;
        let agreed = Counting {
            missing: None,
            whole,
            whole_by_release: Some(3),
            client: Some(client),
            ..Counting::failed(String::new())
        };
        assert_eq!(agreed.disagreements(), []);
        let mut more = agreed.clone();
        more.whole.requests.add(RequestKind::Delete, 1);
        more.whole_by_release = Some(2);
        let found = more.disagreements();
        assert_eq!(found[0], Disagreement { what: "delete", wire: 1, client: 0 });
        assert_eq!(found[1], Disagreement { what: "notifications by release", wire: 2, client: 3 });
        // Counts that the client library hides cannot be compared.
        client.unseen = 1;
        assert_eq!(Counting { client: Some(client), ..more }.disagreements(), []);
    }
}
