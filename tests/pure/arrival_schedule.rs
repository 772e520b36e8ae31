//! Arrivals of open loads, compared with the formulas in `docs/workloads.md`.

use std::f64::consts::TAU;
use std::time::Duration;

use proptest::prelude::*;

use crate::scenario_clients::first_of;
use zklockbench_core::{catalog::Mode, clock::micros};
use zklockbench_scenario::schedule::{Arrival, draw, ranked};
use zklockbench_scenario::{Arrivals, Load, Open, Replay, TraceArrival, TrialSpec};

/// The only trial of a scenario with an open load and these lines.
fn spec(lines: &str) -> TrialSpec {
    first_of(&format!("name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 5\nload = \"open\"\n{lines}\n"))
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn times(lines: &str, lasts: u64) -> Vec<u64> {
    let spec = spec(&format!("duration = \"{lasts}s\"\n{lines}"));
    draw(&spec, seconds(lasts)).iter().map(|one| one.at_us).collect()
}

/// Number of arrivals in each window.
fn counts(times: &[u64], lasts_s: u64, window_ms: u64) -> Vec<f64> {
    let mut counts = vec![0.0; usize::try_from(lasts_s * 1_000 / window_ms).unwrap()];
    for at in times {
        if let Some(count) = counts.get_mut(usize::try_from(at / (window_ms * 1_000)).unwrap()) {
            *count += 1.0;
        }
    }
    counts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// Index of dispersion: the variance of the counts divided by their mean.
fn dispersion(times: &[u64], lasts_s: u64, window_ms: u64) -> f64 {
    let counts = counts(times, lasts_s, window_ms);
    variance(&counts) / mean(&counts)
}

fn gaps(times: &[u64]) -> Vec<f64> {
    times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
}

/// Correlation of each gap with the next gap.
fn autocorrelation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let product: f64 = values.windows(2).map(|pair| (pair[0] - centre) * (pair[1] - centre)).sum();
    product / (values.len() - 1) as f64 / variance(values)
}

fn close(seen: f64, expected: f64, share: f64) {
    assert!((seen / expected - 1.0).abs() <= share, "{seen}, expected {expected} ± {:.0} %", 100.0 * share);
}

#[test]
fn every_arrival_process_has_its_configured_rate() {
    for (process, within) in [
        ("\"constant\"", 0.001),
        ("\"poisson\"", 0.02),
        ("{ bursts = { peak = 4.0, length = \"500ms\" } }", 0.10),
        ("{ day = { amplitude = 0.8, period = \"60s\" } }", 0.02),
    ] {
        close(times(&format!("rate = 40\narrivals = {process}"), 1_200).len() as f64, 48_000.0, within);
    }
    // The default, a Poisson process, is tested at a low rate.
    close(times("rate = 0.4", 10_000).len() as f64, 4_000.0, 0.06);
}

#[test]
fn poisson_arrivals_have_a_dispersion_of_one_and_independent_gaps() {
    let times = times("rate = 40", 10_000);
    for window in [100, 1_000, 10_000] {
        close(dispersion(&times, 10_000, window), 1.0, 0.14);
    }
    let gaps = gaps(&times);
    assert!(autocorrelation(&gaps).abs() < 3.0 / (gaps.len() as f64).sqrt());
    close(variance(&gaps).sqrt() / mean(&gaps), 1.0, 0.02);
}

#[test]
fn constant_arrivals_are_evenly_spaced() {
    let times = times("rate = 40\narrivals = \"constant\"", 1_000);
    assert!(times.iter().take(3).eq(&[0, 25_000, 50_000]));
    assert!([130, 1_000, 10_000].iter().all(|window| dispersion(&times, 1_000, *window) < 0.1));
}

#[test]
fn bursts_vary_like_an_interrupted_poisson_process() {
    let times = times("rate = 40\narrivals = { bursts = { peak = 4.0, length = \"500ms\" } }", 20_000);
    let (rate, ends, begins) = (160.0, 2.0, 2.0 / 3.0);
    let both: f64 = ends + begins;
    let limit = 1.0 + 2.0 * rate * ends / both.powi(2);
    for (window, within) in [(100, 0.05), (1_000, 0.10), (10_000, 0.20)] {
        let t = f64::from(window) / 1e3;
        let expected = limit - (limit - 1.0) * (1.0 - (-both * t).exp()) / (both * t);
        close(dispersion(&times, 20_000, window.try_into().unwrap()), expected, within);
    }
    // An interrupted Poisson process is a renewal process: its gaps vary but are independent.
    let gaps = gaps(&times);
    assert!(autocorrelation(&gaps).abs() < 0.01, "{}", autocorrelation(&gaps));
    assert!(variance(&gaps).sqrt() / mean(&gaps) > 2.0);
}

#[test]
fn daily_arrivals_follow_a_sine_curve() {
    let times = times("rate = 40\narrivals = { day = { amplitude = 0.8, period = \"60s\" } }", 6_000);
    let mut hours = [0.0; 24];
    times.iter().for_each(|at| hours[usize::try_from(at % 60_000_000 / 2_500_000).unwrap()] += 1.0);
    let chi_square: f64 = (0_u32..)
        .zip(hours)
        .map(|(hour, seen)| {
            let primitive = |hour: u32| -(TAU * f64::from(hour) / 24.0).cos() / TAU;
            let expected = 240_000.0 * (1.0 / 24.0 + 0.8 * (primitive(hour + 1) - primitive(hour)));
            (seen - expected).powi(2) / expected
        })
        .sum();
    // 99.9th percentile of the chi-squared distribution with 24 degrees of freedom.
    assert!(chi_square < 51.2, "{chi_square}");
    assert!(autocorrelation(&gaps(&times)) > 0.05);
}

#[test]
fn ramps_and_steps_keep_their_initial_rate_during_the_warm_up() {
    let ramp = spec(
        "duration = \"1000s\"\nwarm_up = \"500s\"\narrivals = { ramp = { from = 10, to = 110 } }\nlocks = 3",
    );
    let at: Vec<_> = draw(&ramp, seconds(2_000)).iter().map(|one| one.at_us).collect();
    let counts = counts(&at, 2_000, 250_000);
    for (seen, expected) in counts.iter().zip([10.0, 10.0, 22.5, 47.5, 72.5, 97.5, 110.0, 110.0]) {
        close(*seen, expected * 250.0, 0.06);
    }
    let steps = spec(
        "duration = \"600s\"\nwarm_up = \"200s\"\n\
         arrivals = { steps = [{ rate = 20, for = \"200s\" }, { rate = 0, for = \"200s\" }, { rate = 80, for = \"10s\" }] }",
    );
    let at: Vec<_> = draw(&steps, seconds(1_000)).iter().map(|one| one.at_us).collect();
    let counts = self::counts(&at, 1_000, 200_000);
    for (seen, expected) in counts.iter().zip([20.0, 20.0, 0.0, 80.0, 80.0]) {
        assert!((seen - expected * 200.0).abs() < 5.0 * (expected * 200.0).sqrt() + 0.5, "{counts:?}");
    }
}

#[test]
fn ramp_drawn_in_part_equals_the_start_of_the_whole_ramp() {
    let ramp = spec("arrivals = { ramp = { from = 10, to = 110 } }\nduration = \"60s\"");
    let whole = draw(&ramp, seconds(60));
    let half = whole.partition_point(|one| one.at_us < 30_000_000);
    assert_eq!(draw(&ramp, seconds(30)), whole[..half]);
}

#[test]
fn stationary_arrivals_do_not_depend_on_warm_up_or_duration() {
    for process in ["\"poisson\"", "\"constant\"", "{ bursts = { peak = 2, length = \"1s\" } }"] {
        let lines = format!("rate = 10\nduration = \"60s\"\narrivals = {process}\n");
        let (short, long) = (spec(&lines), spec(&format!("{lines}warm_up = \"30s\"\n")));
        let shorter = draw(&short, seconds(60));
        assert_eq!(shorter, draw(&long, seconds(60)), "a longer warm-up must not change the arrivals");
        assert_eq!(
            shorter,
            draw(&long, seconds(120))[..shorter.len()],
            "a later end must not change earlier arrivals"
        );
    }
}

#[test]
fn replay_uses_the_values_of_its_file_and_draws_missing_values() {
    let mut replayed = spec("rate = 1\nduration = \"2s\"\nlocks = 4\nhold = \"7ms\"");
    let trace = [(0, Some(3), None), (1_500_000, None, Some(40)), (2_000_000, Some(0), None)];
    let trace = trace.map(|(at_us, lock, hold)| TraceArrival {
        at_us,
        lock,
        hold: hold.map(Duration::from_millis),
        mode: None,
    });
    let replay =
        Replay { file: "a.csv".into(), count: trace.len(), inferred: None, trace: trace.to_vec().into() };
    replayed.load = match replayed.load {
        Load::Open(open) => Load::Open(Open { arrivals: Arrivals::Replay(replay), ..open }),
        other => other,
    };
    let drawn = draw(&replayed, seconds(2));
    let seen: Vec<_> = drawn.iter().map(|one| (one.at_us, one.hold.as_millis())).collect();
    assert_eq!(seen, [(0, 7), (1_500_000, 40)], "an arrival at the end must be dropped");
    assert!(drawn[0].lock == 3 && drawn[1].lock < 4);
}

#[test]
fn same_seed_gives_the_same_arrivals_and_parameters_affect_only_their_own_draws() {
    let lines = "rate = 100\nduration = \"10s\"\nhold = { exponential = { mean = \"5ms\" } }\n";
    let drawn = |more: &str| draw(&spec(&format!("{lines}{more}")), seconds(10));
    let base = drawn("locks = 20\nread_ratio = 0.5");
    assert_eq!(base, drawn("locks = 20\nread_ratio = 0.5"));
    assert_ne!(base, drawn("locks = 20\nread_ratio = 0.5\nseed = 2"));
    let times = |of: &[Arrival]| of.iter().map(|one| one.at_us).collect::<Vec<_>>();
    let holds = |of: &[Arrival]| of.iter().map(|one| one.hold).collect::<Vec<_>>();
    let modes = |of: &[Arrival]| of.iter().map(|one| one.mode).collect::<Vec<_>>();
    let locks = |of: &[Arrival]| of.iter().map(|one| one.lock).collect::<Vec<_>>();
    let popular = drawn("locks = 20\nread_ratio = 0.5\npopularity = { zipf = 1.0 }");
    assert_ne!(locks(&base), locks(&popular));
    assert_eq!((times(&base), holds(&base)), (times(&popular), holds(&popular)));
    assert_eq!(modes(&base), modes(&popular));
    let readers = drawn("locks = 20\nread_ratio = 0.9");
    assert_ne!(modes(&base), modes(&readers));
    assert_eq!((times(&base), holds(&base)), (times(&readers), holds(&readers)));
    assert_eq!(locks(&base), locks(&readers));
}

#[test]
fn client_kinds_receive_their_shares_of_the_arrivals() {
    let lines = "rate = 1000\nduration = \"100s\"\nhold = \"2ms\"\n";
    let kinds = "[[client]]\nshare = 9\n[[client]]\nshare = 1\nhold = \"50ms\"\nread_ratio = 1\n";
    let (alike, mixed) =
        (draw(&spec(lines), seconds(100)), draw(&spec(&format!("{lines}{kinds}")), seconds(100)));
    let times = |of: &[Arrival]| of.iter().map(|one| (one.at_us, one.lock)).collect::<Vec<_>>();
    assert_eq!(times(&alike), times(&mixed), "kinds must not change arrival times or locks");
    let of_second = mixed.iter().filter(|one| one.hold.as_millis() == 50).count();
    close(of_second as f64 / mixed.len() as f64, 0.1, 0.05);
    let reads = |one: &Arrival| one.mode == Mode::Read;
    assert!(mixed.iter().all(|one| reads(one) == (one.hold.as_millis() == 50)));
    // A single kind of client has the same effect as none.
    let one = spec(&format!("{lines}[[client]]\nshare = 3\n"));
    assert_eq!(draw(&one, seconds(100)), alike);
}

#[test]
fn lock_popularity_follows_zipf_and_the_seed_picks_the_hottest_lock() {
    let hot = spec("rate = 1000\nduration = \"100s\"\nlocks = 100\npopularity = { zipf = 1.0 }");
    let drawn = draw(&hot, seconds(100));
    let mut asked = [0.0; 100];
    drawn.iter().for_each(|one| asked[one.lock] += 1.0);
    let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
    let by_rank = ranked(hot.seed, 100);
    let chi_square: f64 = (1_u32..)
        .zip(&by_rank)
        .map(|(rank, lock)| {
            let expected = drawn.len() as f64 / f64::from(rank) / harmonic;
            (asked[*lock] - expected).powi(2) / expected
        })
        .sum();
    // 99.9th percentile of the chi-squared distribution with 99 degrees of freedom.
    assert!(chi_square < 148.2, "{chi_square}");
    close(asked[by_rank[0]] / drawn.len() as f64, 0.1928, 0.03);
    let other = ranked(7, 100);
    assert_ne!(by_rank, other);
    // With uniform popularity, all locks receive similar numbers of requests.
    let alike = draw(&spec("rate = 1000\nduration = \"100s\"\nlocks = 10"), seconds(100));
    (0..10).for_each(|lock| close(alike.iter().filter(|one| one.lock == lock).count() as f64, 1e4, 0.05));
}

/// Every arrival process, with random parameters small enough to draw quickly.
fn processes() -> impl Strategy<Value = String> {
    let rate = 0.001..2_000.0_f64;
    let step = (0.0..1_000.0_f64, 1_u64..20_000);
    prop_oneof![
        rate.clone().prop_map(|rate| format!("rate = {rate}")),
        rate.clone().prop_map(|rate| format!("rate = {rate}\narrivals = \"constant\"")),
        (0.001..20.0_f64, 1.01..1000.0_f64, 1_u64..100_000).prop_map(|(rate, peak, ms)| format!(
            "rate = {rate}\narrivals = {{ bursts = {{ peak = {peak}, length = \"{ms}ms\" }} }}"
        )),
        (rate.clone(), 0.0..=1.0_f64, 1_u64..100_000).prop_map(|(rate, amplitude, ms)| format!(
            "rate_each = {rate}\narrivals = {{ day = {{ amplitude = {amplitude}, period = \"{ms}ms\" }} }}"
        )),
        (0.0..1_000.0_f64, 1.0..1_000.0_f64)
            .prop_map(|(from, to)| format!("arrivals = {{ ramp = {{ from = {from}, to = {to} }} }}")),
        (1.0..100.0_f64, proptest::collection::vec(step, 0..5)).prop_map(|(first, steps)| {
            let step = |(rate, ms): &(f64, u64)| format!(", {{ rate = {rate}, for = \"{ms}ms\" }}");
            let more: String = steps.iter().map(step).collect();
            format!("arrivals = {{ steps = [{{ rate = {first}, for = \"1s\" }}{more}] }}")
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arrivals_are_always_sorted_and_within_bounds(
        process in processes(), locks in 1_usize..50, zipf in 0.0..5.0_f64, warm_up in 0_u64..3_000,
        lasts in 0_u64..6_000, scale in 0.5..10.0_f64, seed in 0_u64..1_000,
    ) {
        let lines = format!(
            "{process}\nduration = \"2s\"\nwarm_up = \"{warm_up}ms\"\nlocks = {locks}\n\
             popularity = {{ zipf = {zipf} }}\ntime_scale = {scale}\nseed = {seed}"
        );
        let (text, lasts) = (lines, Duration::from_millis(lasts));
        let spec = spec(&text);
        let drawn = draw(&spec, lasts);
        prop_assert!(drawn.is_sorted_by_key(|one| one.at_us));
        prop_assert!(drawn.iter().all(|one| one.at_us < micros(lasts).max(1) && one.lock < locks));
    }
}
