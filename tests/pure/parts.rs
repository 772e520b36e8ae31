//! The parts of a trial add up to the same result in any order and grouping.

use proptest::prelude::*;
use zklockbench_core::measure::{RequestKind, ThreadRecorder, Window, new_histogram};
use zklockbench_record::{Occurrences, Part, Tally};

/// The part of one contender with these waits, each given by its end and length.
fn part(contender: usize, waits: &[(u64, u64)]) -> Part {
    let mut recorder = ThreadRecorder::new(3);
    recorder.set_window(Window { start: 0, end: 3_000_000 });
    let mut occurrences = Occurrences::default();
    let mut timer_lag = new_histogram();
    for (ended, lasted) in waits {
        recorder.record_wait(None, ended.saturating_sub(*lasted), *ended);
        recorder.count(*ended, |counts| counts.requests.add(RequestKind::Create, 1));
        if let Some(second) = recorder.second(*ended) {
            second.acquisitions += 1;
        }
        occurrences.error(format!("acquire: {}", lasted % 3));
        occurrences.closing.insert((contender, *ended), i64::from(*lasted % 3 == 0));
        occurrences.lag_us += lasted % 7;
        timer_lag.saturating_record(lasted % 11);
    }
    recorder.settle();
    let acquired = waits.len() as u64;
    occurrences.tallies.insert(contender, Tally { acquired, ..Tally::default() });
    Part { recorder, occurrences, timer_lag }
}

fn some_waits() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0_u64..4_000_000, 1_u64..1 << 20), 0..40)
}

proptest! {
    // Each case merges megabytes of histograms several times.
    #![proptest_config(ProptestConfig { cases: crate::cases().cases / 8, ..crate::cases() })]
    #[test]
    fn merged_result_does_not_depend_on_the_order_of_parts(
        waits in prop::array::uniform3(some_waits())
    ) {
        let parts: Vec<Part> = waits.iter().enumerate().map(|(id, waits)| part(id, waits)).collect();
        let [a, b, c] = [0, 1, 2].map(|at| parts[at].clone());
        prop_assert_eq!(Part::merged([a.clone()]), a.clone());
        let all = Part::merged([a.clone(), b.clone(), c.clone()]);
        let other = Part::merged([c, Part::merged([b, a])]);
        prop_assert_eq!(&all.recorder, &other.recorder);
        prop_assert_eq!(&all.timer_lag, &other.timer_lag);
        prop_assert_eq!(&all.occurrences.errors, &other.occurrences.errors);
        prop_assert_eq!(&all.occurrences.tallies, &other.occurrences.tallies);
        prop_assert_eq!(all.occurrences.lag_us, other.occurrences.lag_us);
        prop_assert_eq!(&all.occurrences.closing, &other.occurrences.closing);
        let seen: usize = waits.iter().map(Vec::len).sum();
        prop_assert_eq!(all.recorder.whole.requests.total(), seen as u64);
    }
}

#[test]
fn merging_no_parts_yields_an_empty_part() {
    let nothing = Part::merged([]);
    assert_eq!(nothing, Part::nothing());
    assert_eq!(nothing.recorder.whole.requests.total(), 0);
}
