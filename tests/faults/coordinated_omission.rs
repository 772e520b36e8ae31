//! What a closed loop hides: while nobody is served, nobody asks.

use zklockbench::measure::Measure;
use zklockbench::record::Trial;

use crate::support::{breakable, trials};

/// The leader, without which nothing is committed, is held still for two seconds, four seconds into the measured phase. Holds
/// are long beside handoffs, which take longer when other tests keep the machine busy.
const STALL: &str = "strategies = [\"predecessor-watch\"]\nhold = \"45ms\"\nwarm_up = \"1s\"\nwarm_up_at_most = \"1s\"\n\
                     duration = \"16s\"\nsession_timeout = \"10s\"\n\
                     [[fault]]\nkind = \"pause\"\ntarget = \"leader\"\nat = \"4s\"\nduration = \"2s\"\n";

async fn run(load: &str) -> Trial {
    let local = breakable::plain().await;
    let plan = trials::plan(&format!("{load}{STALL}"));
    trials::run_beside(&local, &plan[0], trials::known(&plan[0]), trials::uninterrupted()).await
}

fn wait(trial: &Trial, quantile: f64) -> f64 {
    trial.histograms[&Measure::Wait].value_at_quantile(quantile) as f64 / 1e6
}

#[tokio::test]
async fn waits_of_an_open_loop_agree_with_the_arithmetic_and_a_closed_one_hides_the_stall() {
    // Given arrivals at half the rate that the lock can do, and two seconds in which nobody is served
    let open = run("contenders = 16\nload = \"open\"\nrate = 9.5\narrivals = \"constant\"\n").await;
    let stall = open.longest_gap_us().unwrap() as f64 / 1e6;
    assert!((1.8..4.0).contains(&stall), "{stall}");
    // Then whoever comes at the beginning waits for all of it, and each that comes later for less: the queue that has
    // gathered is served as fast as the lock can, while others go on coming
    // (The median handoff, because one of them lasted as long as the stall.)
    let handoff = open.histograms[&Measure::Handoff].value_at_quantile(0.5) as f64;
    let service = (open.histograms[&Measure::Hold].mean() + handoff) / 1e6;
    let measured = open.measured_us as f64 / 1e6;
    let arrived = open.arrived.unwrap();
    assert_eq!(arrived.served, arrived.offered);
    let utilisation = arrived.offered as f64 / measured * service;
    assert!((0.3..0.8).contains(&utilisation), "{utilisation}");
    let affected = stall / (1.0 - utilisation);
    let expected = |quantile: f64| stall * (1.0 - (1.0 - quantile) * measured / affected);
    // A machine that other tests keep busy stalls in other ways, too.
    let is_quiet = open.health.host_idle_share.is_some_and(|idle| idle > 0.4);
    let room = if is_quiet { 0.05 } else { 0.2 } * stall;
    for quantile in [0.9, 0.95, 0.99] {
        let (found, expected) = (wait(&open, quantile), expected(quantile));
        println!("p{quantile}: {found} s, by the arithmetic {expected} s; give or take {room} s");
        assert!((found - expected).abs() < room, "p{quantile}: {found} s, by the arithmetic {expected} s");
    }
    let (found, expected) = (open.histograms[&Measure::Wait].mean() / 1e6, stall / 2.0 * affected / measured);
    assert!((found - expected).abs() < room, "mean: {found} s, by the arithmetic {expected} s");
    // And in a closed loop through the same stall 95 % of the waits know nothing of it
    let closed = run("contenders = 4\n").await;
    assert!(closed.longest_gap_us().unwrap() > 1_800_000);
    assert!(wait(&closed, 0.95) < 0.3 * wait(&open, 0.95), "{} {}", wait(&closed, 0.95), wait(&open, 0.95));
}
