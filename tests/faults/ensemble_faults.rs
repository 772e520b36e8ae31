//! Faults of real servers: each fault takes effect, is verified, and ends.

use crate::support::breakable;
use crate::support::ensemble;
use std::sync::Arc;
use std::time::Duration;

use crate::support::faults::{a_follower, another_leads, is_alive, until, whole};
use crate::support::sessions::{PERSISTENT, target};
use crate::support::{program, trials};
use zklockbench_ensemble::{Links, Local, Processes};
use zklockbench_zk::admin;

async fn write(local: &Local, nodes: usize) {
    let below = trials::unique("nodes");
    let client = target(&local.connect()).client(Duration::from_secs(30)).await.unwrap();
    for node in 0..nodes {
        client.create(&format!("/{below}-{node}"), b"data", &PERSISTENT).await.unwrap();
    }
}

async fn nodes(local: &Local, server: usize) -> i64 {
    let answer = admin::mntr(&local.addresses()[server - 1]).await.unwrap();
    answer.number("zk_znode_count").unwrap()
}

#[tokio::test]
async fn paused_leader_is_replaced_and_does_not_lead_after_resuming() {
    let local = breakable::plain().await;
    let first = local.leader_and_epoch().await.unwrap();
    assert!(local.is_silent(first.server).await.is_err());
    // When the leader is paused
    local.pause(first.server).await.unwrap();
    let seen = local.is_silent(first.server).await.unwrap();
    assert!(seen.contains("is stopped") && seen.contains("did not answer"), "{seen}");
    assert!(local.is_running(first.server).await && local.is_down(first.server).await.is_err());
    // Then another server leads
    another_leads(&local, first).await;
    // And once resumed, the old leader does not lead again
    local.resume(first.server).await.unwrap();
    assert!(local.is_silent(first.server).await.is_err());
    whole(&local).await;
    assert_ne!(local.leader().await.unwrap(), first.server);
    assert_eq!(local.ended(), None);
}

#[tokio::test]
#[ignore = "long: every_fault also restarts servers"]
async fn cleanly_stopped_server_keeps_its_data_and_appends_to_its_log() {
    let local = breakable::plain().await;
    write(&local, 20).await;
    let server = a_follower(&local).await;
    let log = local.directory().join(format!("logs/server-{server}.log"));
    let before = std::fs::read_to_string(&log).unwrap();
    // When the server is stopped while it is paused
    local.pause(server).await.unwrap();
    local.stop(server).await.unwrap();
    local.is_down(server).await.unwrap();
    // Then the server can be started again
    local.start(server).await.unwrap();
    whole(&local).await;
    assert_eq!(nodes(&local, server).await, nodes(&local, local.leader().await.unwrap()).await);
    let after = std::fs::read_to_string(log).unwrap();
    assert!(after.len() > before.len() && after.starts_with(&before), "the log was overwritten");
    assert_eq!(local.ended(), None);
}

#[tokio::test]
#[ignore = "long: every_fault also wipes a server"]
async fn wiped_follower_fetches_everything_from_the_leader() {
    let local = breakable::plain().await;
    write(&local, 50).await;
    let (leader, server) = (local.leader().await.unwrap(), a_follower(&local).await);
    let data = local.directory().join(format!("server-{server}/data"));
    // Given a follower that is down and has lost its data
    local.kill(server).await.unwrap();
    assert!(data.join("version-2").exists());
    local.wipe(server).await.unwrap();
    assert!(!data.join("version-2").exists());
    assert_eq!(std::fs::read_to_string(data.join("myid")).unwrap(), server.to_string());
    // When the follower is started
    local.start(server).await.unwrap();
    whole(&local).await;
    // Then the follower has the leader's data
    let expected = nodes(&local, leader).await;
    assert!(expected > 50, "{expected}");
    until("the follower has all nodes", || async {
        let now = nodes(&local, server).await;
        if now == expected { Ok(()) } else { Err(format!("{now} of {expected}")) }
    })
    .await;
}

#[tokio::test]
async fn ensemble_reports_only_unexpected_server_exits() {
    let local = breakable::plain().await;
    let [first, second] = local.pids()[..2] else { panic!("expected three servers") };
    local.kill(1).await.unwrap();
    assert!(!is_alive(first));
    assert_eq!(local.ended(), None);
    // When a server's process is killed from outside
    program::signal(second, rustix::process::Signal::KILL);
    let told =
        until("the exit is reported", || async { local.ended().ok_or_else(|| "not reported".to_owned()) })
            .await;
    assert!(told.contains("server 2 ended"), "{told}");
    // Then the server can be started again, and its exit is no longer reported
    local.start(2).await.unwrap();
    assert_eq!(local.ended(), None);
    local.start(1).await.unwrap();
    whole(&local).await;
}

#[tokio::test]
async fn stop_waits_until_a_concurrent_start_is_done() {
    // Given a server that is down
    let local = breakable::plain().await;
    local.kill(1).await.unwrap();
    // When the server is started, and stopped as soon as its process exists
    let stopped = async {
        until("the server's process exists", || async {
            if local.is_running(1).await { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        local.stop(1).await
    };
    let (started, stopped) = futures_util::future::join(local.start(1), stopped).await;
    // Then the stop takes effect after the start
    started.unwrap();
    stopped.unwrap();
    assert!(!local.is_running(1).await);
    local.start(1).await.unwrap();
    whole(&local).await;
}

#[tokio::test]
async fn impossible_actions_fail_with_a_reason_and_start_waits_for_its_port() {
    let local = Arc::new(ensemble::start(1).await);
    assert!(local.start(1).await.unwrap_err().contains("it is already running"));
    assert!(local.wipe(1).await.unwrap_err().contains("while it is running"));
    assert!(local.kill(2).await.unwrap_err().contains("there is no server 2"));
    assert!(local.kill(0).await.unwrap_err().contains("there is no server 0"));
    for done in [local.isolate(1).await, local.cut(1, 2).await, local.heal_all().await] {
        assert!(done.unwrap_err().contains("share one network"));
    }
    assert!(local.is_isolated(1).await.is_err() && local.all_reach().await.is_err());
    local.kill(1).await.unwrap();
    for done in [local.kill(1).await, local.pause(1).await, local.resume(1).await] {
        assert!(done.unwrap_err().contains("is not running"));
    }
    assert!(local.is_silent(1).await.is_err());
    // Given another listener on the server's port
    let other = std::net::TcpListener::bind(&local.addresses()[0]).unwrap();
    assert!(local.is_down(1).await.unwrap_err().contains("another program is listening"));
    // When the server is started, and the port is freed
    let shared = Arc::clone(&local);
    let start = tokio::spawn(async move { shared.start(1).await });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!start.is_finished() && !local.is_running(1).await);
    drop(other);
    // Then the server runs
    start.await.unwrap().unwrap();
    until("the server serves clients", || local.serves(1)).await;
}

#[tokio::test]
async fn closing_a_shared_ensemble_ends_paused_and_stopped_servers() {
    let local = Arc::new(ensemble::start(3).await);
    let shared = Arc::clone(&local);
    let (pids, data) = (local.pids(), local.directory().to_path_buf());
    local.pause(1).await.unwrap();
    local.kill(2).await.unwrap();
    local.close();
    assert!(!data.exists() && !pids.iter().any(|pid| is_alive(*pid)));
    let refused = shared.start(2).await.unwrap_err();
    assert!(refused.contains("closed"), "{refused}");
    assert!(shared.pids().is_empty() && shared.ended().is_none());
}

#[tokio::test]
async fn dropped_ensemble_leaves_no_paused_process() {
    let local = ensemble::start(1).await;
    let pids = local.pids();
    local.pause(1).await.unwrap();
    drop(local);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}
