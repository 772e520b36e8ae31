//! Servers that are cut off from each other by the kernel itself: cuts are seen, and heal without a trace.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what prepares a test may stop it at once
#![allow(clippy::print_stdout, clippy::print_stderr)] // told to whoever reads the output, or owns a process
#![cfg(target_os = "linux")] // network namespaces

#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "support/faults.rs"]
mod faults;

use faults::{Owner, WITHIN, a_follower, another_leads, is_alive, until, whole};
use tokio::sync::{Mutex, MutexGuard};
use zklockbench::ensemble::{Links, Local, Processes, links_capability};

/// What is left on this machine is looked at, so one test at a time; `None` where servers cannot live apart.
async fn alone() -> Option<MutexGuard<'static, ()>> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    let alone = ALONE.lock().await;
    links_capability().inspect_err(|why| eprintln!("skipped: {why}")).ok().map(|()| alone)
}

/// Which names of a network there are on this machine: its namespaces, and its interface.
fn names(network: &str) -> Vec<String> {
    let namespaces = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let interfaces = std::fs::read_dir("/sys/class/net").unwrap().flatten();
    let names = namespaces.chain(interfaces).map(|entry| entry.file_name().into_string().unwrap());
    let mut ours: Vec<String> = names.filter(|name| name.split('-').next() == Some(network)).collect();
    ours.sort();
    ours
}

/// The name of an ensemble's network. Its number is in the addresses, too.
fn network_of(local: &Local) -> String {
    format!("zklb{}", local.addresses()[0].split('.').nth(2).unwrap())
}

#[tokio::test]
async fn an_isolated_leader_is_replaced_and_follows_when_it_is_back() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(3).await;
    let first = local.leader_and_epoch().await.unwrap();
    until("all reach each other", || local.all_reach()).await;
    assert!(local.is_isolated(first.server).await.is_err());
    // When it is taken off the network
    local.isolate(first.server).await.unwrap();
    // Then nothing gets there, its process lives on, and another leads
    local.is_isolated(first.server).await.unwrap();
    assert!(local.is_running(first.server) && local.serves(first.server).await.is_err());
    let second = another_leads(&local, first).await;
    // And when it is back, it follows
    local.rejoin(first.server).await.unwrap();
    until("all reach each other", || local.all_reach()).await;
    whole(&local).await;
    assert_eq!(local.leader().await.unwrap(), second.server);
    assert_eq!(local.ended(), None);
}

#[tokio::test]
async fn a_cut_is_in_one_direction() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(3).await;
    let (leader, follower) = (local.leader().await.unwrap(), a_follower(&local).await);
    // When nothing more gets from the leader to a follower
    local.cut(leader, follower).await.unwrap();
    // Then the other direction is open, and all other ways are
    local.is_cut(leader, follower).await.unwrap();
    assert!(local.reaches(leader, follower).await.is_err() && local.all_reach().await.is_err());
    local.reaches(follower, leader).await.unwrap();
    let third = 6 - leader - follower;
    local.reaches(leader, third).await.unwrap();
    local.reaches(third, follower).await.unwrap();
    // And the ensemble is not whole until it is healed
    until("not whole", || async {
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
async fn with_one_server_between_two_that_are_cut_off_a_majority_still_serves() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(3).await;
    // Given two servers that see only the third
    let [one, other] = local.followers().await.unwrap()[..] else { panic!("two follow") };
    for (from, to) in [(one, other), (other, one)] {
        local.cut(from, to).await.unwrap();
        local.is_cut(from, to).await.unwrap();
    }
    // Then somebody leads whom a majority follows
    until("somebody leads", || local.leader()).await;
    // And an isolation and all cuts are healed at once
    local.isolate(one).await.unwrap();
    local.is_isolated(one).await.unwrap();
    local.heal_all().await.unwrap();
    local.all_reach().await.unwrap();
    whole(&local).await;
    // And to heal what is not cut does no harm
    local.heal(one, other).await.unwrap();
    local.heal_all().await.unwrap();
}

#[tokio::test]
async fn a_server_that_lives_apart_is_killed_paused_and_started_like_any_other() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(3).await;
    let server = a_follower(&local).await;
    local.kill(server).await.unwrap();
    local.is_down(server).await.unwrap();
    // Given that it cannot be reached, it still starts
    local.isolate(server).await.unwrap();
    local.start(server).await.unwrap();
    assert!(local.is_running(server) && local.serves(server).await.is_err());
    local.rejoin(server).await.unwrap();
    whole(&local).await;
    local.pause(server).await.unwrap();
    local.is_silent(server).await.unwrap();
    local.resume(server).await.unwrap();
    whole(&local).await;
}

#[tokio::test]
async fn nothing_of_a_network_is_left_after_its_close_or_drop() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(3).await;
    let network = network_of(&local);
    // A namespace for each server and one for the bridge, and an interface that leads there.
    assert_eq!(names(&network).len(), 5, "{:?}", names(&network));
    local.isolate(1).await.unwrap();
    local.cut(2, 3).await.unwrap();
    local.close();
    assert_eq!(names(&network), [""; 0]);
    drop(local);
    let local = ensemble::start_apart(1).await;
    let network = network_of(&local);
    assert_eq!(names(&network).len(), 3, "{:?}", names(&network));
    drop(local);
    assert_eq!(names(&network), [""; 0]);
}

#[tokio::test]
#[ignore = "owns an ensemble for the test below, which kills it"]
async fn owner() {
    let local = ensemble::start_apart(3).await;
    let pids: Vec<String> = local.pids().iter().map(u32::to_string).collect();
    println!("owned: {} {} {}", local.directory().display(), network_of(&local), pids.join(" "));
    tokio::time::sleep(10 * WITHIN).await;
}

#[tokio::test]
async fn what_a_killed_run_left_is_removed_by_the_next() {
    let Some(_alone) = alone().await else { return };
    // Given what is left of a process that was killed
    let mut owner = Owner::start("owner");
    let network = owner.told[1].clone();
    owner.kill();
    assert_eq!(names(&network).len(), 5, "{:?}", names(&network));
    let pids: Vec<u32> = owner.told[2..].iter().map(|pid| pid.parse().unwrap()).collect();
    until("its servers are gone", || async {
        if pids.iter().any(|pid| is_alive(*pid)) { Err("one is alive".to_owned()) } else { Ok(()) }
    })
    .await;
    // When another network is made, with fewer servers
    let local = ensemble::start_apart(1).await;
    // Then nothing of the old one is there: the new one may have got its number
    let own = if network_of(&local) == network { 3 } else { 0 };
    assert_eq!(names(&network).len(), own, "{:?}", names(&network));
    let _ = std::fs::remove_dir_all(&owner.told[0]);
}

#[tokio::test]
async fn servers_that_share_a_network_cannot_be_cut_off() {
    let local = ensemble::start(1).await;
    for done in [local.isolate(1).await, local.cut(1, 2).await, local.heal_all().await] {
        assert!(done.unwrap_err().contains("share one network"));
    }
    assert!(local.is_isolated(1).await.is_err() && local.all_reach().await.is_err());
}

#[tokio::test]
async fn a_server_has_no_link_to_itself_or_to_one_that_is_not_there() {
    let Some(_alone) = alone().await else { return };
    let local = ensemble::start_apart(1).await;
    assert!(local.cut(1, 1).await.unwrap_err().contains("itself"));
    assert!(local.cut(1, 2).await.unwrap_err().contains("there is no server 2"));
    assert!(local.isolate(0).await.unwrap_err().contains("there is no server 0"));
}
