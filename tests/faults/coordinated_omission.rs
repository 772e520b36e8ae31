//! Coordinated omission: contenders in a closed loop send no new requests during an outage.

use zklockbench_core::measure::Measure;
use zklockbench_record::Trial;

use crate::support::{breakable, trials};

/// Pauses the leader, and thereby all writes, for two seconds, four seconds into the measured phase.
const STALL: &str = "strategies = [\"predecessor-watch\"]\nhold = \"15ms\"\nwarm_up = \"1s\"\nwarm_up_at_most = \"1s\"\n\
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
#[ignore = "long: an outage of several seconds"]
async fn open_loop_waits_show_an_outage_that_a_closed_loop_hides() {
    // Given 27 arrivals per second, half of the lock's capacity, and an outage of two seconds
    let open = run("contenders = 16\nload = \"open\"\nrate = 27\narrivals = \"constant\"\n").await;
    let stall = open.longest_gap_us().unwrap() as f64 / 1e6;
    assert!((1.8..6.0).contains(&stall), "{stall}");
    // Then arrivals during the outage also count, so a tenth of all waits are long
    assert!(wait(&open, 0.9) > 0.3 * stall && wait(&open, 0.99) > 0.7 * stall, "{}", wait(&open, 0.9));
    agrees_with_the_arithmetic(&open, stall);
    // And in a closed loop, the same outage does not show in 95 % of the waits
    let closed = run("contenders = 4\n").await;
    assert!(closed.longest_gap_us().unwrap() > 1_800_000);
    assert!(wait(&closed, 0.95) < 0.5 * wait(&open, 0.95), "{} {}", wait(&closed, 0.95), wait(&open, 0.95));
}

/// Asserts that the waits match the calculation: from the start of the outage, waits fall linearly until the queue
/// is empty.
fn agrees_with_the_arithmetic(open: &Trial, stall: f64) {
    // On a busy host, there are other outages, and handoffs take longer.
    let idle = open.health.host_idle_share.unwrap_or(0.0);
    if idle < 0.4 {
        println!("not compared in detail: the host was idle for only {idle} of the time");
        return;
    }
    let arrived = open.arrived.unwrap();
    assert_eq!(arrived.served, arrived.offered);
    let service = (open.histograms[&Measure::Hold].mean() + open.histograms[&Measure::Handoff].mean()) / 1e6;
    let measured = open.measured_us as f64 / 1e6;
    let utilisation = arrived.offered as f64 / measured * service;
    assert!((0.3..0.7).contains(&utilisation), "{utilisation}");
    let affected = stall / (1.0 - utilisation);
    for quantile in [0.9, 0.95, 0.99] {
        let expected = stall * (1.0 - (1.0 - quantile) * measured / affected);
        let found = wait(open, quantile);
        println!("p{quantile}: {found} s, calculated {expected} s");
        assert!((found - expected).abs() < 0.05 * stall, "p{quantile}: {found} s, calculated {expected} s");
    }
    let (found, expected) = (open.histograms[&Measure::Wait].mean() / 1e6, stall / 2.0 * affected / measured);
    println!("mean: {found} s, calculated {expected} s");
    assert!((found - expected).abs() < 0.05 * stall, "mean: {found} s, calculated {expected} s");
}
