//! Conclusions: which sentences a run must give, and which it must not.

use crate::support::ranked::{
    Lock, around, counted_apart, idle, invalid, lock, not_counted, overloaded, stored, unknown, violated,
};
use zklockbench_report::View;
use zklockbench_report::conclusions::{Certainty, Conclusion, Topic, conclusions};

fn of(locks: &[Lock]) -> Vec<Conclusion> {
    let stored = stored(locks);
    conclusions(&View::of(&stored))
}

fn text(said: &[Conclusion]) -> String {
    said.iter().map(|one| one.sentence.clone() + "\n").collect()
}

/// A run, what must be said of it, and what must not.
struct Case {
    name: &'static str,
    locks: Vec<Lock>,
    must: &'static [&'static str],
    must_not: &'static [&'static str],
}

/// As fast as two others, of which one asks for less.
fn tied_with(other: Lock) -> Vec<Lock> {
    let heavy = Lock { requests: 12, ..lock("heavy", around(400.0, 10)) };
    vec![heavy, lock("light", around(401.0, 10)), other]
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
                "With 3 contenders, a is the fastest: 401",
                "times as fast as b",
                "times as fast as c",
                "Use a with 3 contenders",
                "It costs 4 requests",
            ],
            must_not: &["b is the fastest", "not shown", "Provisional", "must not be used"],
        },
        Case {
            name: "a tie",
            locks: vec![lock("a", around(400.0, 10)), lock("b", around(401.0, 10))],
            must: &["equally fast, to within 5 %", "a", "b"],
            must_not: &["a is the fastest", "b is the fastest", "times as fast"],
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
            name: "a tie with a driver's lock that was counted once, and asks for more",
            locks: tied_with(Lock { what: counted_apart::<6>, ..lock("team:Lock", around(400.0, 10)) }),
            must: &[
                "Use light with 3 contenders",
                "faster, and it puts the least load on the ensemble. It costs 4 requests",
                "light is the lightest on the ensemble of those counted: 5",
            ],
            must_not: &["they put", "or team:Lock"],
        },
        Case {
            name: "a tie with a driver's lock that was counted once, and asks for less",
            locks: tied_with(Lock { what: counted_apart::<2>, ..lock("team:Lock", around(400.0, 10)) }),
            must: &[
                "Use light or team:Lock with 3 contenders",
                "faster, and light puts the least load on the ensemble of those counted.",
            ],
            must_not: &["they put"],
        },
        Case {
            name: "a tie with a driver's lock that was not counted, and is the first by its pace",
            locks: tied_with(Lock { what: not_counted, ..lock("team:Lock", around(402.0, 10)) }),
            must: &[
                "Use team:Lock or light with 3 contenders",
                "faster, and light puts the least load on the ensemble of those counted.",
            ],
            must_not: &["they put", "team:Lock has"],
        },
        Case {
            name: "noise",
            locks: vec![
                lock("a", [300.0, 520.0, 350.0, 450.0, 380.0, 420.0, 310.0, 500.0]),
                lock("b", [510.0, 310.0, 440.0, 360.0, 430.0, 370.0, 490.0, 320.0]),
            ],
            must: &["no single lock is shown to be the fastest: ", "no more than noise could explain"],
            must_not: &["a is the fastest", "b is the fastest", "times as fast", "equally fast"],
        },
        Case {
            name: "a single repetition",
            locks: three(1),
            must: &[
                "No winner yet with 3 contenders: 1 repetition is too few for an interval; run with --repetitions",
                "Medians: 400 acquisitions a second (a) to 100 acquisitions a second (c).",
            ],
            must_not: &["a is the", "b is the", "in each of", "Use a"],
        },
        Case {
            name: "three repetitions, far apart",
            locks: three(3),
            must: &[
                "No winner yet with 3 contenders: 3 repetitions are too few for an interval; run with --repetitions",
            ],
            must_not: &["a is the fastest", "Use a", "ahead"],
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
                "a must not be used: it did not exclude others in 8 of 8 trials",
                "b is the fastest",
                "Use b",
            ],
            must_not: &["a is the fastest", "Use a"],
        },
        Case {
            name: "a winner of which nobody knows whether it excludes",
            locks: vec![Lock { what: unknown, ..lock("a", around(900.0, 8)) }, lock("b", around(200.0, 8))],
            must: &["It is not known whether a excluded others", "No recommendation"],
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
fn a_run_states_only_conclusions_that_its_metrics_support() {
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
fn locks_to_avoid_come_first_and_recommended_locks_next() {
    let locks = [
        lock("b", around(400.0, 8)),
        Lock { what: violated, ..lock("a", around(900.0, 8)) },
        lock("c", around(100.0, 8)),
    ];
    let topics: Vec<Topic> = of(&locks).into_iter().map(|one| one.topic).collect();
    assert_eq!(topics[..3], [Topic::MustNotBeUsed, Topic::Choice, Topic::Fastest]);
}

#[test]
fn every_conclusion_names_its_certainty_as_text() {
    let fastest = |locks: &[Lock]| of(locks).into_iter().find(|one| one.topic == Topic::Fastest).unwrap();
    let clear = fastest(&[lock("a", around(400.0, 8)), lock("b", around(200.0, 8))]);
    assert_eq!((clear.certainty, clear.strategies), (Certainty::Shown, vec!["a".to_owned()]));
    let of_few = |repetitions| {
        let locks = [lock("a", around(400.0, repetitions)), lock("b", around(200.0, repetitions))];
        of(&locks).into_iter().find(|one| one.topic == Topic::Choice).unwrap()
    };
    for repetitions in [1, 2] {
        let choice = of_few(repetitions);
        assert_eq!((choice.certainty, choice.strategies.len()), (Certainty::Unknown, 0));
    }
}

#[test]
fn no_sentence_has_more_than_25_words() {
    for Case { name, locks, .. } in cases() {
        for conclusion in of(&locks) {
            for sentence in conclusion.sentence.split_inclusive(". ") {
                let words = sentence.split_whitespace().count();
                assert!(words <= 25, "{name}: {words} words: {sentence}");
            }
        }
    }
}
