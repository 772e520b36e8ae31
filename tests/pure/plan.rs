//! What is predicted from trials, and what is not.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, LogNormal, Normal};
use zklockbench::model::{Fit, LoadCase, Observation, fit, predict, simulate};
use zklockbench::plan::{Answer, Effort, Evidence, Load, Objective, Question};
use zklockbench::queueing::{Arrival, Empirical, Order, Pace};
use zklockbench::scenario::{Plan, parse};
use zklockbench::verdict::Verdict;
use zklockbench::{fault, lock};

/// A trial whose handoffs are lognormal with that mean, in microseconds.
fn trial(handoff: f64, rate: f64) -> Observation {
    let mut rng = ChaCha8Rng::seed_from_u64((handoff + rate) as u64);
    let shape = LogNormal::new(-0.125, 0.5).unwrap();
    let handoffs: Vec<f64> = (0..2_000).map(|_| handoff * shape.sample(&mut rng)).collect();
    Observation {
        source: "run, trial 0".into(),
        strategy: "predecessor-watch".into(),
        waiting: 1.5,
        rate,
        handoff: Empirical::of_values(&handoffs).unwrap(),
        pace: Pace::default(),
        uncontended: Some(Empirical::fixed(handoff)),
        release: Empirical::fixed(2_000.0),
        overshoot: Empirical::fixed(0.0),
        late: None,
        fan_out: Some(1.0),
        requests_per_acquisition: Some(4.0),
        unsound: None,
    }
}

/// Trials that differ as trials of a noisy host do.
fn trials(seed: u64, count: usize, spread: f64) -> Vec<Observation> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let noise = Normal::new(0.0, spread).unwrap();
    (0..count).map(|n| trial(4_000.0 * f64::exp(noise.sample(&mut rng)), 100.0 + n as f64)).collect()
}

fn case_of<T>(then: impl FnOnce(&LoadCase<'_>) -> T) -> T {
    let draw = |seed: u64| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at = 0.0;
        let arrival = |n| {
            let gap: f64 = Exp1.sample(&mut rng);
            at += gap * 10_000.0;
            Arrival { at, lock: n % 4, hold: 20_000.0 }
        };
        (0..2_000_usize).map(arrival).collect()
    };
    then(&LoadCase {
        arrivals: &draw,
        locks: 4,
        sessions: 400,
        rate: 100.0,
        from: 0.0,
        to: 2e7,
        order: Order::Fifo,
    })
}

fn fitted(trials: &[Observation]) -> Fit {
    fit(trials).unwrap()
}

#[test]
fn nine_of_ten_further_trials_lie_within_the_interval() {
    // Given twenty plans, each from six trials of a service that varies by 5 % from trial to trial
    let mut inside = [0_u32; 2];
    for seed in 0..20 {
        let known = trials(seed, 6, 0.05);
        let prediction = case_of(|case| predict(&fitted(&known), &known, case, 40, seed));
        // When a seventh trial is tried
        let further = trials(1_000 + seed, 1, 0.05).remove(0);
        let measured = case_of(|case| simulate(&further, case, 5_000 + seed));
        inside[0] += u32::from(prediction.wait_p50.contains(measured.quantile(0.5).unwrap()));
        inside[1] += u32::from(prediction.wait_p99.contains(measured.quantile(0.99).unwrap()));
    }
    // Then most lie within; of twenty at 90 %, fewer than fourteen are less probable than 1 in 400
    assert!(inside.iter().all(|count| *count >= 14), "{inside:?}");
}

#[test]
fn an_interval_reaches_farther_up_than_down_and_is_wider_the_less_is_known() {
    let [sure, unsure] = [0.01, 0.15].map(|spread| {
        let known = trials(3, 6, spread);
        case_of(|case| predict(&fitted(&known), &known, case, 60, 1)).wait_p99
    });
    assert!(unsure.high - unsure.middle > unsure.middle - unsure.low, "{unsure:?}");
    assert!(unsure.high / unsure.low > sure.high / sure.low, "{unsure:?} {sure:?}");
}

fn question(slo: &str, rate: f64, locks: usize) -> Question {
    Question {
        clients: 200,
        rate,
        hold: std::time::Duration::from_millis(20),
        locks,
        arrivals: "\"poisson\"".into(),
        objective: Objective::parse(slo).unwrap(),
    }
}

fn answer(question: &Question, evidence: &Evidence) -> Answer {
    let text = question.scenario("plan", &["predecessor-watch".into()], &question.copies(1.0));
    let parsed = parse("question", &text, &lock::cards(), &fault::cards()).unwrap();
    let load = Load::of(&Plan::of(&parsed.scenario).trials[0], Order::Fifo).unwrap();
    // As little as shows what is asked here
    let effort = Effort { arrivals: 2_000.0, simulations: 20, seed: 1 };
    Answer::of("predecessor-watch", evidence, &load, &question.objective, effort)
}

#[test]
fn a_load_that_fits_holds_with_room_and_one_that_does_not_says_over_how_many_locks_it_would() {
    let evidence = Evidence { trials: trials(1, 6, 0.02), watches: true, ..Evidence::default() };
    // Given 20 ms of hold and 4 ms of handoff: a lock takes 41 a second
    let holds = answer(&question("wait.p99 < 500ms", 20.0, 1), &evidence);
    assert_eq!(holds.verdict, Verdict::Held, "{}", holds.sentence());
    let room = holds.headroom.unwrap();
    assert!((25.0..41.0).contains(&room.rate) && !room.at_least, "{room:?}");
    let breaks = answer(&question("wait.p99 < 100ms", 38.0, 1), &evidence);
    assert!(matches!(breaks.verdict, Verdict::Violated(_)), "{}", breaks.sentence());
    assert!(breaks.locks_needed.is_some_and(|locks| (2..=4).contains(&locks)), "{}", breaks.sentence());
    assert!(breaks.sentence().contains("will not hold, because wait.p99 is predicted between"));
    // What was never measured is said, and not guessed
    assert!(holds.missing.iter().any(|missing| missing.contains("server is down")));
    assert_eq!((holds.outage_us, holds.ensemble_utilisation), (None, None));
}

#[test]
fn without_enough_or_sound_trials_nothing_is_promised() {
    let of =
        |trials| answer(&question("wait.p99 < 500ms", 20.0, 1), &Evidence { trials, ..Evidence::default() });
    let few = of(trials(1, 2, 0.0));
    assert!(few.prediction.is_none() && few.sentence().contains("2 usable trials"), "{}", few.sentence());
    let unsound: Vec<_> = trials(1, 6, 0.02)
        .into_iter()
        .map(|one| Observation { unsound: Some("invalid: late".into()), ..one })
        .collect();
    let unsure = of(unsound);
    assert!(
        matches!(unsure.verdict, Verdict::Unknown(_)) && unsure.prediction.is_some(),
        "{}",
        unsure.sentence()
    );
    assert!(unsure.sentence().contains("6 of 6 trials do not count"), "{}", unsure.sentence());
    let far = answer(
        &question("wait.p99 < 5s", 900.0, 100),
        &Evidence { trials: trials(1, 6, 0.02), ..Evidence::default() },
    );
    assert!(
        far.prediction.is_none() && far.sentence().contains("more than was measured"),
        "{}",
        far.sentence()
    );
}

#[test]
fn the_same_question_has_the_same_answer() {
    let evidence = Evidence { trials: trials(1, 6, 0.02), ..Evidence::default() };
    let ask = || answer(&question("wait.p99 < 500ms", 20.0, 1), &evidence);
    assert_eq!(ask(), ask());
}
