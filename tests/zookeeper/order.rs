//! The order of updates in replies to clients and in the servers' transaction logs.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use futures_util::future::join_all;
use zklockbench_ensemble::{log_follower::LogFollower, transactions::Transaction};
use zklockbench_zk::{NodeKind, Session, runtime};

use crate::support::{ensemble, proxy::next_packet, sessions::scene};

const SESSIONS_EACH: usize = 4;
const DIRECTORIES: usize = 4;
/// Number of creates per session. Every second node is updated, and every third node is deleted.
const NODES_EACH: usize = 50;

/// The zxid and the path of a change.
type Change = (i64, String);

#[test]
fn updates_have_one_order_in_the_logs_of_all_servers() {
    let alone = runtime::block_on(ensemble::alone_of(3));
    runtime::block_on(async {
        // Given sessions on all servers that concurrently change nodes in several directories
        let scene = scene(&alone.connect()).await;
        let mut sessions = Vec::new();
        for server in alone.addresses().iter().cycle().take(3 * SESSIONS_EACH) {
            sessions.push(scene.traced_by(server).await.0);
        }
        for number in 0..DIRECTORIES {
            let path = format!("{}/{number}", scene.lock);
            sessions[0].create(&path, &[], NodeKind::Persistent).await.unwrap();
        }
        let reported = join_all(sessions.iter().map(|session| changes(session, &scene.lock))).await;
        // Then the zxids of each session increase, and no two changes have the same zxid
        for changes in &reported {
            assert!(changes.is_sorted_by(|one, next| one.0 < next.0), "{changes:?}");
        }
        let all: BTreeSet<Change> = reported.into_iter().flatten().collect();
        let transactions: BTreeSet<i64> = all.iter().map(|(zxid, _)| *zxid).collect();
        assert_eq!((all.len(), transactions.len()), (900, 900));
        // And once all servers have caught up, their logs contain these changes in the same order
        let logs = runtime::timeout(Duration::from_secs(30), async {
            loop {
                let logs: Vec<Vec<Change>> =
                    alone.data().into_iter().map(|data| logged(data, &scene.lock)).collect();
                if logs.iter().all(|log| *log == logs[0] && log.last() >= all.last()) {
                    return logs;
                }
                runtime::sleep(Duration::from_millis(50)).await;
            }
        });
        let logs = logs.await.expect("the logs must agree within 30 s");
        assert_eq!(logs.len(), 3);
        assert!(logs[0].is_sorted_by(|one, next| one.0 < next.0));
        assert!(all.is_subset(&logs[0].iter().cloned().collect()));
    });
}

async fn changes(session: &Session, place: &str) -> Vec<Change> {
    let mut reported = Vec::new();
    for number in 0..NODES_EACH {
        let prefix = format!("{place}/{}/n-", number % DIRECTORIES);
        let created = session.create(&prefix, &[], NodeKind::EphemeralSequential).await.unwrap();
        reported.push((created.czxid, created.path.clone()));
        if number % 2 == 0 {
            let stat = session.set_data(&created.path, b"x").await.unwrap();
            reported.push((stat.mzxid, created.path.clone()));
        }
        if number % 3 == 0 {
            session.delete(&created.path).await.unwrap();
        }
    }
    reported
}

/// Changes below a path in the log of the server with this data directory.
fn logged(directory: PathBuf, below: &str) -> Vec<Change> {
    let mut all = Vec::new();
    let mut keep = |transaction: &Transaction| {
        all.extend(transaction.changes.iter().map(|change| (transaction.zxid, change.path.clone())));
        Ok(())
    };
    let mut follower = LogFollower::new(&format!("{below}/"), UNIX_EPOCH);
    follower.read(&[directory], &mut keep).unwrap();
    follower.end(&mut keep).unwrap();
    all
}

const EXISTS: i32 = 3;
const SYNC: i32 = 9;

#[test]
fn reply_to_a_read_carries_the_zxid_of_its_server() {
    let alone = runtime::block_on(ensemble::alone_of(3));
    // Given a session on a raw socket to each server
    let mut readers: Vec<TcpStream> = alone.addresses().iter().map(|server| opened(server)).collect();
    runtime::block_on(async {
        let scene = scene(&alone.connect()).await;
        let session = scene.session().await;
        let create = async |name: &str| {
            let path = format!("{}/{name}", scene.lock);
            session.create(&path, &[], NodeKind::Persistent).await.unwrap()
        };
        // When another session creates a node and then another node
        let (node, other) = (create("node").await, create("other").await);
        // And each server, once it has caught up, answers a read of the first node
        let zxids: Vec<i64> = readers
            .iter_mut()
            .map(|reader| {
                zxid_of_reply(reader, SYNC, &node.path, &[]);
                zxid_of_reply(reader, EXISTS, &node.path, &[0])
            })
            .collect();
        // Then each reply has the zxid of the last change, not of the node's
        let next = create("next").await;
        assert!(zxids.iter().all(|zxid| (other.czxid..next.czxid).contains(zxid)), "{zxids:x?}: {node:?}");
    });
}

/// Opens a session on a raw socket.
fn opened(server: &str) -> TcpStream {
    let mut reader = TcpStream::connect(server).unwrap();
    // Protocol version and last zxid; timeout; session; length of the password; password and read-only flag
    let open = [&[0; 12][..], &10_000_i32.to_be_bytes(), &[0; 8], &16_i32.to_be_bytes(), &[0; 17]].concat();
    send(&mut reader, &open);
    next_packet(&mut reader).unwrap();
    reader
}

/// Sends a request with this path and these further bytes, and returns the zxid of the reply.
fn zxid_of_reply(server: &mut TcpStream, kind: i32, path: &str, more: &[u8]) -> i64 {
    let length = i32::try_from(path.len()).unwrap().to_be_bytes();
    send(server, &[&1_i32.to_be_bytes()[..], &kind.to_be_bytes(), &length, path.as_bytes(), more].concat());
    let reply = next_packet(server).unwrap();
    i64::from_be_bytes(reply[8..16].try_into().unwrap())
}

/// Sends a packet, preceded by its length.
fn send(server: &mut TcpStream, packet: &[u8]) {
    let length = i32::try_from(packet.len()).unwrap().to_be_bytes();
    server.write_all(&[&length[..], packet].concat()).unwrap();
}
