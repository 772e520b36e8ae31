//! The simulator, compared with exact formulas for means and with Lindley's recursion, which is exact for every
//! wait. The formulas use the rate and the mean service time of the simulated arrivals. Errors below 2 % need a
//! number of arrivals proportional to 1/(1 - utilisation)², so only `--long` tests all utilisations from 10 to 90 %.

use crate::queueing_formulas as formulas;
use crate::support::depth;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1};
use zklockbench_stats::queueing::{
    AlikeClients, Arrival, Closed, Empirical, Handoff, Locks, Open, Order, Pace, SimulationOutcome, closed,
    open,
};

/// Mean service time in microseconds.
const SERVICE: f64 = 1_000.0;
const UTILISATIONS: [f64; 9] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];

/// Utilisations that need only a few hundred thousand arrivals, or all utilisations with `--long`.
fn utilisations() -> &'static [f64] {
    depth::of(&UTILISATIONS[2..5], &UTILISATIONS)
}

/// Number of arrivals at which the standard error of the mean wait is about 0.6 %.
fn enough(utilisation: f64) -> usize {
    (400_000.0 * (0.5 / (1.0 - utilisation)).powi(2)).max(if utilisation < 0.3 {
        1_000_000.0
    } else {
        400_000.0
    }) as usize
}

/// Locks without overhead, which serve waiters like the server in the formulas.
fn plain(count: usize) -> Locks {
    let nothing = Empirical::fixed(0.0);
    Locks {
        count,
        order: Order::Fifo,
        uncontended: nothing.clone(),
        handoff: Handoff::of(&nothing),
        release: nothing.clone(),
        overshoot: nothing.clone(),
        late: nothing,
        pace: Pace::default(),
    }
}

fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}

/// Poisson arrivals at one lock, with holds from `hold`.
fn arrivals(utilisation: f64, hold: impl FnMut(&mut ChaCha8Rng) -> f64) -> Vec<Arrival> {
    arrivals_of(enough(utilisation), utilisation, hold)
}

fn arrivals_of(count: usize, utilisation: f64, mut hold: impl FnMut(&mut ChaCha8Rng) -> f64) -> Vec<Arrival> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut at = 0.0;
    let arrival = |_| {
        at += exponential(&mut rng) * SERVICE / utilisation;
        Arrival { at, lock: 0, hold: hold(&mut rng) }
    };
    (0..count).map(arrival).collect()
}

/// Observed arrivals per microsecond, and their mean hold.
fn drawn(arrivals: &[Arrival]) -> (f64, f64) {
    let count = arrivals.len() as f64;
    let holds: f64 = arrivals.iter().map(|one| one.hold).sum();
    (count / arrivals.last().map_or(1.0, |last| last.at), holds / count)
}

fn served(arrivals: &[Arrival]) -> SimulationOutcome {
    let to = arrivals.last().map_or(0.0, |last| last.at);
    open(&plain(1), Open { arrivals, sessions: usize::MAX, from: 0.0, to }, 1)
}

fn within(found: f64, expected: f64, share: f64, of: &str) {
    let error = found / expected - 1.0;
    assert!(
        error.abs() <= share,
        "{of}: {found:.1}, but the formula predicts {expected:.1} ({:+.2} %)",
        100.0 * error
    );
}

#[test]
fn every_wait_matches_lindleys_recursion() {
    for utilisation in UTILISATIONS {
        // Given arrivals with random holds
        let arrivals =
            arrivals(utilisation.min(0.5), |rng| SERVICE * (utilisation / 0.5).max(1.0) * exponential(rng));
        let arrivals = &arrivals[..20_000];
        // When Lindley's recursion computes each wait from the previous wait and hold
        let mut expected = vec![0.0];
        for pair in arrivals.windows(2) {
            let before: f64 = expected[expected.len() - 1];
            expected.push((before + pair[0].hold - (pair[1].at - pair[0].at)).max(0.0));
        }
        // Then the simulator computes the same waits
        let load = Open { arrivals, sessions: usize::MAX, from: 0.0, to: f64::INFINITY };
        let found = open(&plain(1), load, 1);
        assert_eq!(found.waits.len(), expected.len());
        for (found, expected) in found.waits.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-3, "{found} {expected} at {utilisation}");
        }
        // And a quantile is one of these waits
        expected.sort_by(f64::total_cmp);
        assert!((found.quantile(0.99).unwrap() - expected[19_799]).abs() < 1e-3);
    }
}

#[test]
fn waits_with_service_times_from_a_list_match_pollaczek_khinchine() {
    let list: Vec<f64> = (0..97).map(|n| if n % 10 == 0 { 3_000.0 } else { 700.0 + f64::from(n) }).collect();
    let measured = Empirical::of_values(&list).unwrap();
    let measured = measured.scaled(SERVICE / measured.mean());
    for &utilisation in utilisations() {
        let arrivals = arrivals(utilisation, |rng| measured.draw(rng));
        let ((rate, service), outcome) = (drawn(&arrivals), served(&arrivals));
        let square = (1.0 + measured.relative_variance()) * measured.mean().powi(2);
        let expected = formulas::mg1(rate, service, square).unwrap();
        within(outcome.mean().unwrap(), expected, 0.02, &format!("M/G/1 at {utilisation}"));
    }
}

#[test]
fn returning_clients_match_the_machine_repairman_model() {
    // Given exponential times as a list of quantiles, because the simulator draws from lists
    let quantiles: Vec<f64> = (0..20_000).map(|n| -(1.0 - (f64::from(n) + 0.5) / 20_000.0).ln()).collect();
    let exponential = Empirical::of_values(&quantiles).unwrap();
    let (hold, think) = (exponential.scaled(SERVICE), exponential.scaled(9.0 * SERVICE));
    for clients in [1, 2, 5, 10, 20] {
        let alike = [AlikeClients { count: clients, think: think.clone(), hold: hold.clone() }];
        let load = Closed { clients: &alike, acquisitions: 120_000, warm_up: 5_000 };
        let outcome = closed(&plain(1), load, 7);
        let expected = formulas::machine_repairman(clients, 9.0 * SERVICE, SERVICE);
        within(outcome.throughput(), expected.throughput, 0.02, &format!("throughput of {clients}"));
        within(outcome.mean().unwrap() + SERVICE, expected.response, 0.02, &format!("response of {clients}"));
    }
}

#[test]
fn each_kind_of_client_has_its_own_think_and_hold_times() {
    // Given one kind of client that holds for 1 µs and thinks for 9 µs, and another kind that holds for 5 µs but
    // acquires rarely
    let fixed = |us: f64| Empirical::fixed(us);
    let often = |count| AlikeClients { count, think: fixed(9.0), hold: fixed(1.0) };
    let seldom = AlikeClients { count: 1, think: fixed(9_995.0), hold: fixed(5.0) };
    let run = |clients: &[AlikeClients]| {
        closed(&plain(2), Closed { clients, acquisitions: 50_000, warm_up: 1_000 }, 7)
    };
    // Then two equal kinds behave like a single kind
    assert_eq!(run(&[often(3), often(2)]), run(&[often(5)]));
    // And on separate locks, each client acquires as often as its cycle allows
    let both = run(&[often(1), seldom]);
    within(both.throughput(), 0.1 + 0.0001, 0.001, "throughput of both");
    within(both.busy / both.lasted, 0.1 + 0.0005, 0.001, "utilisation of both locks together");
}

#[test]
fn simulated_waits_depend_on_the_seed() {
    let drawn = Empirical::of_values(&[500.0, 1_500.0]).unwrap();
    let locks = Locks { handoff: Handoff::of(&drawn), uncontended: drawn.clone(), ..plain(3) };
    let arrivals: Vec<Arrival> = arrivals(0.5, |_| 500.0)
        .into_iter()
        .take(2_000)
        .zip(0..)
        .map(|(one, n)| Arrival { lock: n % 3, ..one })
        .collect();
    let run = |seed| open(&locks, Open { arrivals: &arrivals, sessions: 100, from: 0.0, to: 1e9 }, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn handoffs_grow_with_the_queue_and_idle_locks_use_the_uncontended_time() {
    let locks = Locks {
        uncontended: Empirical::fixed(5.0),
        handoff: Handoff { shape: Empirical::fixed(1.0), first: 10.0, each_more: 3.0 },
        ..plain(1)
    };
    let arrival = |at| Arrival { at, lock: 0, hold: 100.0 };
    // Given an arrival at an idle lock and three arrivals that wait behind it
    let arrivals = [arrival(0.0), arrival(1.0), arrival(2.0), arrival(3.0)];
    let outcome = open(&locks, Open { arrivals: &arrivals, sessions: 10, from: 0.0, to: 1e6 }, 1);
    // Then handoffs take 16, 13 and 10, because three, two and one arrivals wait
    assert_eq!(outcome.waits, [5.0, 120.0, 232.0, 341.0]);
    assert_eq!((outcome.sessions, outcome.starved), (4, 0));
}

#[test]
fn arrival_without_a_free_session_waits_even_if_its_lock_is_idle() {
    let arrival = |at, lock| Arrival { at, lock, hold: 100.0 };
    let locks = Locks { release: Empirical::fixed(7.0), ..plain(2) };
    let arrivals = [arrival(0.0, 0), arrival(10.0, 1)];
    let outcome = open(&locks, Open { arrivals: &arrivals, sessions: 1, from: 0.0, to: 1e6 }, 1);
    assert_eq!((outcome.waits.as_slice(), outcome.starved), ([0.0, 97.0].as_slice(), 1));
}

#[test]
fn unordered_service_keeps_the_mean_wait_but_lengthens_the_tail() {
    let arrivals = &arrivals(0.7, |_| SERVICE)[..300_000];
    let to = arrivals.last().unwrap().at;
    let run =
        |order| open(&Locks { order, ..plain(1) }, Open { arrivals, sessions: usize::MAX, from: 0.0, to }, 3);
    let (fifo, unordered) = (run(Order::Fifo), run(Order::Unordered));
    within(unordered.mean().unwrap(), fifo.mean().unwrap(), 0.02, "the mean");
    assert!(unordered.quantile(0.99) > fifo.quantile(0.99).map(|p99| 1.3 * p99));
}

#[test]
fn failed_tries_match_erlangs_loss_formula_for_one_server() {
    for utilisation in [0.2, 0.5, 2.0] {
        let arrivals = arrivals_of(200_000, utilisation, |rng| exponential(rng) * SERVICE);
        let (rate, service) = drawn(&arrivals);
        let to = arrivals.last().map_or(0.0, |last| last.at);
        let locks = Locks { order: Order::Tries, ..plain(1) };
        let outcome = open(&locks, Open { arrivals: &arrivals, sessions: usize::MAX, from: 0.0, to }, 1);
        within(outcome.won_share(), 1.0 / (1.0 + rate * service), 0.02, "share won");
        assert_eq!(outcome.waits.len(), outcome.entries, "failed tries must have no wait");
        assert_eq!(
            outcome.entries + outcome.failed,
            arrivals.len() - 1,
            "the last arrival must be at the end of the window"
        );
    }
}

#[test]
fn tries_that_take_no_time_do_not_repeat_forever() {
    // Given clients that try again at once while the lock is held
    let locks = Locks { order: Order::Tries, ..plain(1) };
    let run = |hold: f64| {
        let alike = [AlikeClients { count: 3, think: Empirical::fixed(0.0), hold: Empirical::fixed(hold) }];
        closed(&locks, Closed { clients: &alike, acquisitions: 100, warm_up: 0 }, 1)
    };
    let stuck = run(10.0);
    assert!(stuck.waits.len() < 100 && stuck.failed > 0, "{stuck:?}");
    assert_eq!((stuck.throughput(), stuck.utilisation(1)), (0.0, 0.0));
    assert_eq!(run(0.0).waits.len(), 100);
}
