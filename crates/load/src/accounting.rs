//! Request counts from the client, the cost model and the servers, and wire counts from a separate trial.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::shared::Shared;

use zklockbench_core::catalog::BatchCost;
use zklockbench_core::measure::Counts;
use zklockbench_core::measure::RequestKind::GetChildren;
use zklockbench_ensemble::proxy::Wired;
use zklockbench_record::{Accounting, Beside, CountedTurns, Counting, Occurrences, ServerCounters, Trial};
use zklockbench_scenario::Load;
use zklockbench_zk::admin;
use zklockbench_zk::keep_awake::Unread;

/// Compares the counts of a whole trial. The cost model applies only to a complete trial.
///
/// Compares nothing in a trial with faults (broken servers lose counts), in one worker's part (servers count
/// the requests of all workers), or with drivers (their requests are not observed).
pub fn compare(
    shared: &Shared,
    whole: &Counts,
    noted: &Occurrences,
    servers: &[ServerCounters],
    is_whole: bool,
) -> Vec<Accounting> {
    if shared.has_faults() || shared.slice.is_part() || shared.drivers.are_there() {
        return Vec::new();
    }
    let cost = is_whole.then(|| expected(shared, noted)).flatten();
    zklockbench_record::compare_counts(whole, cost.as_ref(), servers, beside(shared, noted))
}

/// Returns the suite's own requests; `None` if a search did not complete.
fn beside(shared: &Shared, noted: &Occurrences) -> Option<Beside> {
    let board = &shared.board;
    let reads = || noted.looks_beside + board.looked.load(Ordering::Acquire);
    (board.looking.load(Ordering::Acquire) == 0).then(|| Beside { reads: reads(), ..Beside::default() })
}

/// Returns the cost model's prediction. Only batches have exact totals, and the model does not cover readers.
fn expected(shared: &Shared, noted: &Occurrences) -> Option<BatchCost> {
    if shared.entry.card.guarantees.has_read_side() && shared.spec.has_readers() {
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

/// Time between two readings. The counters are at rest when two consecutive readings agree.
const REST: Duration = Duration::from_millis(50);
const READINGS_AT_MOST: usize = 40;
/// Time limit for a server's answer to `srvr`.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// Counters read from `mntr`; `{ns}` stands for the suite's top-level node.
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

async fn read(addresses: &[String], namespace: &str) -> Vec<ServerCounters> {
    join_all(addresses.iter().map(|address| read_one(address, namespace))).await
}

/// Reads one server's counters into `after`, with `ns` in place of the namespace.
async fn read_one(address: &str, namespace: &str) -> ServerCounters {
    let mut reading = ServerCounters { address: address.to_owned(), ..ServerCounters::default() };
    match admin::mntr(address).await {
        Ok(mntr) => {
            mntr.state().unwrap_or("unknown").clone_into(&mut reading.role);
            reading.version = mntr.version().map(str::to_owned);
            for key in KEYS {
                if let Some(value) = mntr.number(&key.replace("{ns}", namespace)) {
                    reading.after.insert(key.replace("{ns}", "ns"), value);
                }
            }
        }
        Err(error) => reading.silent = Some(error.to_string()),
    }
    reading
}

/// Reads the counters once they are at rest, because followers apply writes slightly after the leader's reply.
pub async fn read_at_rest(addresses: &[String], namespace: &str) -> Vec<ServerCounters> {
    let mut before = read(addresses, namespace).await;
    for _ in 0..READINGS_AT_MOST {
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

/// Returns the servers whose answers to `srvr` show that they serve clients.
pub async fn serving(addresses: &[String]) -> Vec<String> {
    let asked = addresses.iter().map(|address| async move {
        let answer = admin::srvr(address, ANSWERS_WITHIN).await;
        matches!(answer, Ok(Some(_))).then(|| address.clone())
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Returns the counters that reading does not change.
fn work(reading: &ServerCounters) -> Vec<i64> {
    let counted = |key: &&String| key.contains("watch_count") || key.contains("namespace");
    reading.after.iter().filter(|(key, _)| counted(key)).map(|(_, value)| *value).collect()
}

/// Combines the readings before and after a load.
pub fn pair(
    before: Vec<ServerCounters>,
    after: Vec<ServerCounters>,
    unread: &[Unread],
) -> Vec<ServerCounters> {
    let unread_us = |address: &str| unread.iter().find(|one| one.server == address).map(|one| one.longest_us);
    let pairs = before.into_iter().zip(after).map(|(before, after)| ServerCounters {
        unread_us: unread_us(&before.address),
        version: after.version.or(before.version),
        silent: before.silent.or(after.silent),
        before: before.after,
        ..after
    });
    pairs.collect()
}

pub fn on_the_wire(Wired { first, later, whole, fan_out }: Wired, trial: &Trial) -> Counting {
    if let Some(cut) = &trial.cut_short {
        return Counting::failed(cut.why.clone());
    }
    let turns = if later.acquired > 0 { CountedTurns::AfterTheFirst } else { CountedTurns::All };
    let counted = match turns {
        CountedTurns::AfterTheFirst => later,
        CountedTurns::All => first + later,
    };
    if counted.acquired == 0 {
        return Counting::failed("no contender acquired the lock in the counting trial".into());
    }
    let is_driven = zklockbench_locks::driven(&trial.spec.strategy.name).is_some();
    if is_driven && whole.all_requests() == 0 {
        return Counting::failed(
            "none of the lock's requests passed through the proxy; the lock may have connected elsewhere"
                .into(),
        );
    }
    Counting {
        missing: None,
        turns,
        counted,
        by_release: fan_out.as_ref().ok().map(|fan_out| match turns {
            CountedTurns::AfterTheFirst => fan_out.by_later,
            CountedTurns::All => fan_out.by_first + fan_out.by_later,
        }),
        whole,
        whole_by_release: fan_out.as_ref().ok().map(|fan_out| fan_out.by_all),
        by_release_missing: fan_out.err(),
        client: (!is_driven).then_some(trial.whole),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn serving_returns_only_servers_that_answer_srvr() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answering = async {
            let (mut connection, _) = listener.accept().await.unwrap();
            connection.read_exact(&mut [0; 4]).await.unwrap();
            let answer = b"Zookeeper version: 3.8.0, built on x\nZxid: 0x1\nMode: follower\nConnections: 1\n";
            connection.write_all(answer).await.unwrap();
        };
        let servers = [address.clone()];
        let (before, ()) = futures_util::future::join(serving(&servers), answering).await;
        assert_eq!(before, servers);
        drop(listener);
        assert_eq!(serving(&before).await, [""; 0]);
    }
}
