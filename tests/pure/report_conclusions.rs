//! Conclusions: which sentences a run must give, and which it must not.

use std::collections::BTreeMap;

use crate::support::records;
use zklockbench::record::{Tally, Trial};
use zklockbench::report::View;
use zklockbench::report::conclusions::{Certainty, Conclusion, Topic, conclusions};
use zklockbench::results::StoredRun;
use zklockbench::words::measure::{Counts, Outcome, RequestKind};
use zklockbench::words::verdict::Verdict;

/// A strategy, and how many acquisitions a second each of its repetitions came to.
struct Lock {
    label: &'static str,
    pace: Vec<f64>,
    /// Requests per acquisition.
    requests: u64,
    /// What happened to each of its trials.
    what: fn(&mut Trial),
}

fn lock(label: &'static str, pace: impl IntoIterator<Item = f64>) -> Lock {
    Lock { label, pace: pace.into_iter().collect(), requests: 4, what: |_| {} }
}

/// So many repetitions around that pace, none like another, none further from it than one in a hundred.
fn around(pace: f64, repetitions: u32) -> Vec<f64> {
    (0..repetitions).map(|at| pace * (1.0 + f64::from(at % 7) / 1_000.0)).collect()
}

fn trial(index: usize, repetition: usize, lock: &Lock) -> Trial {
    let acquired = (lock.pace[repetition] * 100.0) as u64;
    let mut counts = Counts::default();
    counts.outcomes.add(Outcome::Acquired, acquired);
    counts.requests.add(RequestKind::Create, acquired * lock.requests);
    counts.notifications.node_deleted = acquired;
    counts.releases = acquired;
    let mut trial = records::trial(index);
    trial.spec.strategy.label = lock.label.into();
    trial.spec.repetition = u32::try_from(repetition).unwrap() + 1;
    trial.measured_us = 100_000_000;
    trial.measured = counts;
    trial.tallies = vec![Tally { acquired: acquired / 3, ..Tally::default() }; 3];
    trial.errors = BTreeMap::new();
    (lock.what)(&mut trial);
    trial
}

fn stored(locks: &[Lock]) -> StoredRun {
    let pairs = locks.iter().flat_map(|lock| (0..lock.pace.len()).map(move |at| (lock, at)));
    let trials: Vec<Trial> = pairs.enumerate().map(|(index, (lock, at))| trial(index, at, lock)).collect();
    let mut run = records::run(trials.len());
    run.strategies = locks.iter().map(|lock| lock.label.to_owned()).collect();
    records::stored(&run, &trials)
}

fn of(locks: &[Lock]) -> Vec<Conclusion> {
    let stored = stored(locks);
    conclusions(&stored, &View::of(&stored))
}

fn text(said: &[Conclusion]) -> String {
    said.iter().map(|one| one.sentence.clone() + "\n").collect()
}

fn invalid(trial: &mut Trial) {
    trial.health.invalid = Some("the generator was late".into());
}

fn violated(trial: &mut Trial) {
    trial.violation_count = 3;
    trial.judged = records::judged(Verdict::Violated(vec!["3 entries beside a holder".into()]));
}

fn unknown(trial: &mut Trial) {
    trial.judged = records::judged(Verdict::Unknown(vec!["nothing could have been caught".into()]));
}

fn idle(trial: &mut Trial) {
    trial.measured = Counts::default();
    trial.tallies = vec![Tally::default(); 3];
}

fn overloaded(trial: &mut Trial) {
    let like = records::overloaded(trial.spec.index);
    (trial.spec.load, trial.steady, trial.arrived) = (like.spec.load, like.steady, like.arrived);
    if let Some(steady) = &mut trial.steady {
        steady.queue = Some(steady.growth());
    }
}

/// A run, what must be said of it, and what must not.
struct Case {
    name: &'static str,
    locks: Vec<Lock>,
    must: &'static [&'static str],
    must_not: &'static [&'static str],
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn cases() -> Vec<Case> {
    let three = |repetitions| {
        vec![
            lock("a", around(400.0, repetitions)),
            lock("b", around(200.0, repetitions)),
            lock("c", around(100.0, repetitions)),
        ]
    };
    vec![
        Case {
            name: "a clear winner",
            locks: three(8),
            must: &[
                "With 3 contenders a is the fastest: 401",
                "times the throughput of b",
                "of c",
                "Use a with 3 contenders",
                "It costs 4 requests",
            ],
            must_not: &["b is the fastest", "not shown", "No recommendation", "must not be used"],
        },
        Case {
            name: "a tie",
            locks: vec![lock("a", around(400.0, 10)), lock("b", around(401.0, 10))],
            must: &["equally fast, to within 5 %", "a", "b"],
            must_not: &["a is the fastest", "b is the fastest", "times the throughput"],
        },
        Case {
            name: "a tie of which one is lighter",
            locks: vec![
                Lock { requests: 12, ..lock("heavy", around(400.0, 10)) },
                lock("light", around(401.0, 10)),
            ],
            must: &["equally fast", "light is the lightest on the ensemble", "heavy takes", "Use light with"],
            must_not: &["Use heavy", "heavy is the"],
        },
        Case {
            name: "noise",
            locks: vec![
                lock("a", [300.0, 520.0, 350.0, 450.0, 380.0, 420.0, 310.0, 500.0]),
                lock("b", [510.0, 310.0, 440.0, 360.0, 430.0, 370.0, 490.0, 320.0]),
            ],
            must: &["none of", "is shown to be the fastest", "no more than noise could explain"],
            must_not: &["a is the fastest", "b is the fastest", "times the throughput", "equally fast"],
        },
        Case {
            name: "a single repetition",
            locks: three(1),
            must: &["a single repetition does not show", "No recommendation"],
            must_not: &["a is the", "b is the", "came out ahead", "Use a"],
        },
        Case {
            name: "three repetitions, far apart",
            locks: three(3),
            must: &[
                "a came out ahead of b and c in each of 3 repetitions",
                "not statistically confirmed yet",
                "No recommendation",
            ],
            must_not: &["a is the fastest", "Use a"],
        },
        Case {
            name: "an invalid winner",
            locks: vec![
                Lock { what: invalid, ..lock("a", around(900.0, 8)) },
                lock("b", around(200.0, 8)),
                lock("c", around(100.0, 8)),
            ],
            must: &["b is the fastest", "Use b", "There are only invalid or partial trials of a"],
            must_not: &["a is the fastest", "Use a"],
        },
        Case {
            name: "a violated winner",
            locks: vec![
                Lock { what: violated, ..lock("a", around(900.0, 8)) },
                lock("b", around(200.0, 8)),
                lock("c", around(100.0, 8)),
            ],
            must: &[
                "a must not be used: it did not keep others out in 8 of 8 trials",
                "b is the fastest",
                "Use b",
            ],
            must_not: &["a is the fastest", "Use a"],
        },
        Case {
            name: "a winner of which nobody knows whether it excludes",
            locks: vec![Lock { what: unknown, ..lock("a", around(900.0, 8)) }, lock("b", around(200.0, 8))],
            must: &["It is not known whether a kept others out", "No recommendation"],
            must_not: &["Use a", "Use b", "must not be used"],
        },
        Case {
            name: "nothing acquired",
            locks: vec![
                Lock { what: idle, ..lock("a", around(400.0, 8)) },
                Lock { what: idle, ..lock("b", around(200.0, 8)) },
            ],
            must: &["No lock was acquired in any trial"],
            must_not: &["fastest", "Use ", "lightest"],
        },
        Case {
            name: "an unstable open loop",
            locks: vec![
                Lock { what: overloaded, ..lock("a", around(400.0, 8)) },
                Lock { what: overloaded, ..lock("b", around(200.0, 8)) },
            ],
            must: &["a and b could not keep up with the arrivals"],
            must_not: &["the fastest", "Use "],
        },
        Case {
            name: "one strategy",
            locks: vec![lock("a", around(400.0, 8))],
            must: &[],
            must_not: &["fastest", "Use ", "lightest", "fairest"],
        },
    ]
}

#[test]
fn a_run_gives_the_sentences_that_its_figures_carry_and_no_others() {
    for Case { name, locks, must, must_not } in cases() {
        let said = text(&of(&locks));
        for sentence in must {
            assert!(said.contains(sentence), "{name}: lacks `{sentence}`:\n{said}");
        }
        for sentence in must_not {
            assert!(!said.contains(sentence), "{name}: must not say `{sentence}`:\n{said}");
        }
    }
}

#[test]
fn what_must_not_be_used_is_said_first_and_what_to_use_next() {
    let locks = [
        lock("b", around(400.0, 8)),
        Lock { what: violated, ..lock("a", around(900.0, 8)) },
        lock("c", around(100.0, 8)),
    ];
    let topics: Vec<Topic> = of(&locks).into_iter().map(|one| one.topic).collect();
    assert_eq!(topics[..3], [Topic::MustNotBeUsed, Topic::Choice, Topic::Fastest]);
}

#[test]
fn every_conclusion_says_how_sure_it_is_in_a_word_too() {
    let fastest = |locks: &[Lock]| of(locks).into_iter().find(|one| one.topic == Topic::Fastest).unwrap();
    let clear = fastest(&[lock("a", around(400.0, 8)), lock("b", around(200.0, 8))]);
    assert_eq!((clear.certainty, clear.strategies), (Certainty::Shown, vec!["a".to_owned()]));
    let single = fastest(&[lock("a", around(400.0, 1)), lock("b", around(200.0, 1))]);
    assert_eq!((single.certainty, single.strategies.len()), (Certainty::Unknown, 0));
}
