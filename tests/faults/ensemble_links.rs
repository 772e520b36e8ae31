//! Network faults between servers: each cut takes effect, and nothing is left after healing.

#![cfg(target_os = "linux")] // network namespaces

use crate::support::breakable;
use crate::support::ensemble;
use crate::support::faults::{Owner, WITHIN, a_follower, another_leads, is_alive, is_owner, until, whole};
use crate::support::skip::skipped;
use std::path::Path;

use zklockbench_ensemble::{Links, Local, Processes, links_capability};

fn can_live_apart() -> bool {
    links_capability()
        .inspect_err(|why| skipped(format!("cannot create separate networks for servers here: {why}")))
        .is_ok()
}

/// Host interface to an ensemble's network namespaces. The interface disappears with the namespaces.
struct Interface {
    name: String,
    /// Interface index; unlike the name, the index is never reused.
    index: String,
}

impl Interface {
    /// Finds the interface by the network's number, which is part of the servers' addresses.
    fn of(local: &Local) -> Self {
        Self::named(&format!("zklb{}", local.addresses()[0].split('.').nth(2).unwrap()))
    }

    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), index: index_of(name).unwrap() }
    }

    fn is_there(&self) -> bool {
        index_of(&self.name).as_ref() == Some(&self.index)
    }
}

fn index_of(interface: &str) -> Option<String> {
    std::fs::read_to_string(Path::new("/sys/class/net").join(interface).join("ifindex")).ok()
}

/// Network namespace of a process.
fn namespace_of(pid: u32) -> std::path::PathBuf {
    std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap()
}

#[tokio::test]
async fn isolated_leader_is_replaced_and_follows_once_it_rejoins() {
    let Some(local) = breakable::apart().await else { return };
    let first = local.leader_and_epoch().await.unwrap();
    until("all servers reach each other", || local.all_reach()).await;
    assert!(local.is_isolated(first.server).await.is_err());
    // When the leader is isolated
    local.isolate(first.server).await.unwrap();
    // Then the old leader's process is still running but receives no packets, and another server leads
    local.is_isolated(first.server).await.unwrap();
    assert!(local.is_running(first.server).await && local.serves(first.server).await.is_err());
    another_leads(&local, first).await;
    // And after rejoining, the old leader follows
    local.rejoin(first.server).await.unwrap();
    until("all servers reach each other", || local.all_reach()).await;
    whole(&local).await;
    assert_ne!(local.leader().await.unwrap(), first.server);
    assert_eq!(local.ended(), None);
}

#[tokio::test]
async fn cut_blocks_only_one_direction_of_a_link() {
    let Some(local) = breakable::apart().await else { return };
    let (leader, follower) = (local.leader().await.unwrap(), a_follower(&local).await);
    // When no packet from the leader reaches one follower
    local.cut(leader, follower).await.unwrap();
    // Then the opposite direction and all other links still work
    local.is_cut(leader, follower).await.unwrap();
    assert!(local.reaches(leader, follower).await.is_err() && local.all_reach().await.is_err());
    local.reaches(follower, leader).await.unwrap();
    let third = 6 - leader - follower;
    local.reaches(leader, third).await.unwrap();
    local.reaches(third, follower).await.unwrap();
    // And the ensemble is not healthy until the cut is healed
    until("the ensemble is not healthy", || async {
        match local.whole().await {
            Ok(seen) => Err(seen),
            Err(why) => Ok(why),
        }
    })
    .await;
    local.heal(leader, follower).await.unwrap();
    local.reaches(leader, follower).await.unwrap();
    local.all_reach().await.unwrap();
    whole(&local).await;
}

#[tokio::test]
#[ignore = "long: cuts of other links are always tested"]
async fn ensemble_serves_when_two_servers_reach_only_the_third() {
    let Some(local) = breakable::apart().await else { return };
    // Given two servers that reach only the third
    let [one, other] = local.followers().await.unwrap()[..] else { panic!("expected two followers") };
    for (from, to) in [(one, other), (other, one)] {
        local.cut(from, to).await.unwrap();
        local.is_cut(from, to).await.unwrap();
    }
    // Then a server that reaches a majority leads
    until("a server leads", || local.leader()).await;
    // And an isolation and all cuts can be healed together
    local.isolate(one).await.unwrap();
    local.is_isolated(one).await.unwrap();
    local.heal_all().await.unwrap();
    local.all_reach().await.unwrap();
    whole(&local).await;
    // And healing a link without a cut is not an error
    local.heal(one, other).await.unwrap();
    local.heal_all().await.unwrap();
}

#[tokio::test]
async fn network_leaves_nothing_behind_when_closed_or_dropped() {
    if !can_live_apart() {
        return;
    }
    let local = ensemble::start_apart(3).await;
    let interface = Interface::of(&local);
    assert!(interface.is_there());
    local.isolate(1).await.unwrap();
    local.cut(2, 3).await.unwrap();
    local.close();
    assert!(!interface.is_there());
    drop(local);
    let local = ensemble::start_apart(1).await;
    let interface = Interface::of(&local);
    assert!(interface.is_there());
    assert!(local.cut(1, 1).await.unwrap_err().contains("itself"));
    assert!(local.cut(1, 2).await.unwrap_err().contains("there is no server 2"));
    assert!(local.isolate(0).await.unwrap_err().contains("there is no server 0"));
    drop(local);
    assert!(!interface.is_there());
}

#[tokio::test]
async fn each_server_has_its_own_namespace() {
    let Some(local) = breakable::apart().await else { return };
    let pids = local.pids().into_iter().chain([std::process::id()]);
    let namespaces: std::collections::BTreeSet<_> = pids.map(namespace_of).collect();
    assert_eq!(namespaces.len(), 4, "{namespaces:?}");
}

#[tokio::test]
#[ignore = "helper process that the test below kills"]
async fn owner() {
    if !is_owner() {
        return;
    }
    let local = ensemble::start_apart(3).await;
    local.kill(1).await.unwrap();
    local.start(1).await.unwrap();
    local.pause(2).await.unwrap();
    let pids: Vec<String> = local.pids().iter().map(u32::to_string).collect();
    println!("owned: {} {} {}", local.directory().display(), Interface::of(&local).name, pids.join(" "));
    tokio::time::sleep(10 * WITHIN).await;
}

#[tokio::test]
async fn killed_process_leaves_no_servers_or_network_behind() {
    if !can_live_apart() {
        return;
    }
    // Given a process with an ensemble that has a restarted server and a paused server
    let mut owner = Owner::start("ensemble_links::owner");
    let (interface, pids) = (Interface::named(&owner.told[1]), owner.told[2..].to_vec());
    let alive = |pid: &String| is_alive(pid.parse().unwrap());
    assert!(interface.is_there() && pids.len() == 3 && pids.iter().all(alive));
    // When the process is killed, the kernel ends its servers
    owner.kill();
    until("nothing is left", || async {
        if interface.is_there() || pids.iter().any(alive) {
            Err("a server or the network is left".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    let _ = std::fs::remove_dir_all(&owner.told[0]);
}
