//! What a closed loop hides: while nobody is served, nobody asks.

use zklockbench::measure::Measure;
use zklockbench::record::Trial;

use crate::support::{breakable, trials};

/// All servers that could answer are held still for two seconds, four seconds into the measured phase.
const STALL: &str = "strategies = [\"predecessor-watch\"]\nhold = \"15ms\"\nwarm_up = \"1s\"\nwarm_up_at_most = \"1s\"\n\
                     duration = \"16s\"\nsession_timeout = \"10s\"\n\
                     [[fault]]\nkind = \"pause\"\ntarget = \"leader\"\nat = \"4s\"\nduration = \"2s\"\n";

async fn run(load: &str) -> Trial {
    let local = breakable::plain().await;
    let plan = trials::plan(&format!("{load}{STALL}"));
    let trial = trials::run_beside(&local, &plan[0], trials::known(&plan[0]), trials::uninterrupted()).await;
    assert_eq!(trial.health.invalid, None);
    trial
}

fn wait(trial: &Trial, quantile: f64) -> f64 {
    trial.histograms[&Measure::Wait].value_at_quantile(quantile) as f64 / 1e6
}

#[tokio::test]
async fn waits_of_an_open_loop_agree_with_the_arithmetic_and_a_closed_one_hides_the_stall() {
    // Given 27 arrivals a second, half of what the lock can do, and two seconds in which nobody is served
    let open = run("contenders = 16\nload = \"open\"\nrate = 27\narrivals = \"constant\"\n").await;
    let stall = open.longest_gap_us().unwrap() as f64 / 1e6;
    assert!((1.8..4.0).contains(&stall), "{stall}");
    // Then whoever comes at the beginning waits for all of it, and each that comes later for less: the queue that has
    // gathered is served as fast as the lock can, while others go on coming
    let service = (open.histograms[&Measure::Hold].mean() + open.histograms[&Measure::Handoff].mean()) / 1e6;
    let measured = open.measured_us as f64 / 1e6;
    let arrived = open.arrived.unwrap();
    assert_eq!(arrived.served, arrived.offered);
    let utilisation = arrived.offered as f64 / measured * service;
    assert!((0.3..0.7).contains(&utilisation), "{utilisation}");
    let affected = stall / (1.0 - utilisation);
    let expected = |quantile: f64| stall * (1.0 - (1.0 - quantile) * measured / affected);
    for quantile in [0.9, 0.95, 0.99] {
        let (found, expected) = (wait(&open, quantile), expected(quantile));
        assert!(
            (found - expected).abs() < 0.05 * stall,
            "p{quantile}: {found} s, by the arithmetic {expected} s"
        );
    }
    let (found, expected) = (open.histograms[&Measure::Wait].mean() / 1e6, stall / 2.0 * affected / measured);
    assert!((found - expected).abs() < 0.05 * stall, "mean: {found} s, by the arithmetic {expected} s");
    // And in a closed loop through the same stall 99 % of the waits know nothing of it
    let closed = run("contenders = 4\n").await;
    assert!(closed.longest_gap_us().unwrap() > 1_800_000);
    assert!(wait(&closed, 0.99) < 0.2 * wait(&open, 0.99), "{} {}", wait(&closed, 0.99), wait(&open, 0.99));
}
