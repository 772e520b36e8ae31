//! The cost to an uninvolved client when many sessions are woken.

use std::cell::Cell;
use std::process::Command;
use std::time::Duration;

use futures_util::future::{join, join_all};
use zklockbench_core::clock;
use zklockbench_zk::{NodeKind, Session, runtime};

use super::counter;
use crate::support::ensemble;
use crate::support::sessions::{Scene, scene};

const HERD: usize = 1_000;
const ROUNDS: usize = 8;
const WAKING: Duration = Duration::from_secs(1);

#[test]
#[ignore = "long: half a minute of waking a thousand sessions"]
fn herd_delays_the_writes_of_a_bystander() {
    // Given a server and clients on separate processors
    let alone = runtime::block_on(ensemble::alone_of(1));
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    let (server, clients) = (alone.pids()[0], rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs());
    keep(server, &format!("1-{last}"));
    keep(clients, "0");
    // When a single session or a herd is woken repeatedly
    let mut factors = runtime::block_on(async {
        let scene = scene(&alone.connect()).await;
        let herd = join_all((0..HERD).map(|_| scene.session())).await;
        let bystander = scene.session().await;
        let mut factors = Vec::new();
        for round in 0..ROUNDS {
            let mut write_us = [0.0; 2];
            // The order alternates, because the server may be warmer for the second measurement.
            for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let woken = &herd[..[1, HERD][which]];
                write_us[which] = beside(&scene, &alone.connect(), woken, &bystander).await;
            }
            println!("{write_us:?}");
            factors.push(write_us[1] / write_us[0]);
        }
        factors
    });
    keep(server, &format!("0-{last}"));
    // Then in all rounds but one, a write takes more than twice as long with the herd
    factors.sort_by(f64::total_cmp);
    println!("{factors:?}");
    assert!(factors[1] > 2.0, "{factors:?}");
}

/// Pins a process to these processors.
fn keep(process: u32, processors: &str) {
    let process = process.to_string();
    let kept = Command::new("taskset").args(["-a", "-p", "-c", processors, &process]).output().unwrap();
    assert!(kept.status.success(), "{kept:?}");
}

/// Mean time in µs from when the server reads an update request until it replies, while sessions are woken.
async fn beside(scene: &Scene, server: &str, woken: &[Session], bystander: &Session) -> f64 {
    let (node, lock) = (format!("{}/node", scene.lock), &scene.lock);
    let list = async |session: &Session| session.get_children_and_watch(lock).await.unwrap().1;
    let count_and_ms = || ["zk_cnt_updatelatency", "zk_sum_updatelatency"].map(|key| counter(server, key));
    let mut watches = join_all(woken.iter().map(&list)).await;
    let before = count_and_ms();
    let (end, mut is_there) = (clock::now() + clock::micros(WAKING), false);
    while clock::now() < end || is_there {
        match is_there {
            true => bystander.delete(&node).await.unwrap(),
            false => drop(bystander.create(&node, &[], NodeKind::Ephemeral).await.unwrap()),
        }
        is_there = !is_there;
        let is_over = Cell::new(false);
        let listing = async {
            let each = woken.iter().zip(&mut watches).map(async |(session, watch)| {
                watch.changed().await;
                list(session).await
            });
            let listed = join_all(each).await;
            is_over.set(true);
            listed
        };
        let writing = async {
            while !is_over.get() {
                bystander.set_data(lock, b"x").await.unwrap();
            }
        };
        watches = join(listing, writing).await.0;
    }
    let after = count_and_ms();
    1_000.0 * (after[1] - before[1]) as f64 / (after[0] - before[0]) as f64
}
