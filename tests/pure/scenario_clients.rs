//! Kinds of clients: the kind of each contender, and values combined over all kinds.

use std::time::Duration;

use zklockbench_scenario::{Distribution, TrialPlan, TrialSpec, parse};

/// The first trial of a scenario.
pub fn first_of(text: &str) -> TrialSpec {
    let parsed = parse("x.toml", text, &zklockbench_load::catalog());
    TrialPlan::of(&parsed.unwrap_or_else(|wrong| panic!("{wrong}")).scenario).trials[0].clone()
}

/// A trial of 20 contenders with these `[[client]]` tables.
fn spec(clients: &str) -> TrialSpec {
    let head = "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 20\nacquisitions = 1\nhold = \"7ms\"\nthink = \"3ms\"\n";
    first_of(&format!("{head}{clients}"))
}

const THREE: &str = "[[client]]\nshare = 10\nhold = \"1ms\"\n[[client]]\nshare = 5\nthink = \"11ms\"\n\
                     [[client]]\nshare = 5\nhold = { exponential = { mean = \"20ms\" } }\nread_ratio = 1\n";

#[test]
fn client_kinds_are_assigned_in_order_and_by_share() {
    let spec = spec(THREE);
    let milliseconds = |contender| spec.kind_of(contender).hold.mean().as_millis();
    let holds: Vec<u128> = (0..20).map(milliseconds).collect();
    assert_eq!(holds, [[1; 10].as_slice(), &[7; 5], &[20; 5]].concat());
    assert_eq!(spec.contenders_by_kind(), [10, 5, 5]);
}

#[test]
fn a_client_kind_inherits_missing_keys_and_the_time_scale() {
    let spec = spec(&format!("time_scale = 2\n{THREE}"));
    let kind = spec.kind_of(12);
    assert_eq!((kind.hold.mean().as_millis(), kind.think.mean().as_millis()), (14, 22));
    assert_eq!((kind.read_ratio, spec.has_readers()), (0.0, true));
}

#[test]
fn mean_over_client_kinds_matches_drawn_values() {
    let spec = spec(THREE);
    let mean = Duration::from_micros((10 * 1_000 + 5 * 7_000 + 5 * 20_000) / 20);
    assert_eq!(spec.mean_hold(), mean);
    let together = spec.all_holds().mean().as_secs_f64() / mean.as_secs_f64();
    assert!((together - 1.0).abs() < 0.03, "{together}");
    assert_eq!(spec.mean_think(), Duration::from_millis(5));
}

#[test]
fn contenders_without_client_kinds_use_the_top_level_keys() {
    let spec = spec("");
    assert_eq!((spec.kinds().len(), spec.contenders_by_kind()), (1, vec![20]));
    assert_eq!(spec.all_holds(), Distribution::Fixed(Duration::from_millis(7)));
}
