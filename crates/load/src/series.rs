//! Acquisitions and waits of a load in slots of equal length, used to decide when the warm-up is over.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Truncation, truncation};
use zklockbench_record::WarmUpEnd;
use zklockbench_scenario::TrialSpec;

const SHORTEST: Duration = Duration::from_millis(5);
/// Number of slots in the shortest warm-up: ten batches of five.
const SLOTS_OF_WARM_UP: u32 = 50;
/// Number of slots of the measured phase, enough to detect a growing queue.
const SLOTS_OF_MEASURED: u32 = 200;
/// Maximum number of slots; a longer trial has longer slots.
const SLOTS: u32 = 2_000;
/// Minimum average number of acquisitions per batch of five slots for a meaningful rate.
const ACQUISITIONS_PER_BATCH: u64 = 2;

#[derive(Debug, Default)]
struct Slot {
    acquired: AtomicU32,
    wait_us: AtomicU64,
}

/// Acquisitions and their waits, by the slot in which they ended.
#[derive(Debug)]
pub struct SlotSeries {
    begin: AtomicU64,
    slot_us: u64,
    slots: Box<[Slot]>,
}

impl SlotSeries {
    pub fn of(spec: &TrialSpec) -> Self {
        let measured = spec.stop.lasts().unwrap_or(Duration::from_secs(60));
        let longest = spec.ramp_up + spec.warm_up_at_most.max(spec.warm_up) + measured;
        let warm_up = if spec.has_open_end() { spec.warm_up / SLOTS_OF_WARM_UP } else { measured };
        let slot = warm_up.min(measured / SLOTS_OF_MEASURED).max(SHORTEST).max(longest / SLOTS);
        let slot_us = clock::micros(slot).max(1);
        let count = clock::micros(longest) / slot_us + 1;
        let slots = (0..count).map(|_| Slot::default()).collect();
        Self { begin: AtomicU64::new(0), slot_us, slots }
    }

    pub fn begin_at(&self, start: Stamp) {
        self.begin.store(start, Ordering::Release);
    }

    /// Records an acquisition and its wait, unless the acquisition is beyond the last slot.
    pub fn acquired(&self, at: Stamp, wait_us: u64) {
        let since = at.saturating_sub(self.begin.load(Ordering::Relaxed));
        let index = usize::try_from(since / self.slot_us).unwrap_or(usize::MAX);
        if let Some(slot) = self.slots.get(index) {
            slot.acquired.fetch_add(1, Ordering::Relaxed);
            slot.wait_us.fetch_add(wait_us, Ordering::Relaxed);
        }
    }

    pub fn slot_us(&self) -> u64 {
        self.slot_us
    }

    pub fn ended(&self, now: Stamp) -> usize {
        let since = now.saturating_sub(self.begin.load(Ordering::Acquire));
        usize::try_from(since / self.slot_us).unwrap_or(usize::MAX).min(self.slots.len())
    }

    pub fn acquisitions(&self, slots: usize) -> Vec<u32> {
        self.slots[..slots].iter().map(|slot| slot.acquired.load(Ordering::Relaxed)).collect()
    }

    /// Returns the total of the waits that ended in each of the first `slots` slots, in microseconds.
    pub fn waits_us(&self, slots: usize) -> Vec<u64> {
        self.slots[..slots].iter().map(|slot| slot.wait_us.load(Ordering::Relaxed)).collect()
    }

    /// Returns why the warm-up may end; `None` if the load is not steady, or not steady for long enough.
    pub fn warm_up_end(&self, now: Stamp) -> Option<WarmUpEnd> {
        let slots = self.ended(now);
        warm_up_end(&self.acquisitions(slots), &self.waits_us(slots))
    }
}

/// Returns whether throughput and waits are steady, given the acquisitions and the total wait of each slot. Tests
/// both with MSER-5, which determines how much of the start to discard (White, Cobb and Spratt, 2000).
fn warm_up_end(acquired: &[u32], waits_us: &[u64]) -> Option<WarmUpEnd> {
    let all: u64 = acquired.iter().map(|count| u64::from(*count)).sum();
    if all * 5 < ACQUISITIONS_PER_BATCH * acquired.len() as u64 {
        return Some(WarmUpEnd::TooFew);
    }
    let rates: Vec<f64> = acquired.iter().map(|count| f64::from(*count)).collect();
    let with_any = acquired.iter().zip(waits_us).filter(|(count, _)| **count > 0);
    let waits: Vec<f64> = with_any.map(|(count, sum)| *sum as f64 / f64::from(*count)).collect();
    let is_steady = |values: &[f64]| matches!(truncation(values), Truncation::At(_));
    (is_steady(&rates) && is_steady(&waits)).then_some(WarmUpEnd::Steady)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use zklockbench_core::measure::{Growth, growth};

    /// Timeline recorded from a trial on real servers.
    #[derive(Deserialize)]
    struct Timeline {
        slot_us: u64,
        acquired: Vec<u32>,
        wait_us: Vec<u64>,
        backlog: Vec<u64>,
    }

    fn recorded(name: &str) -> Timeline {
        let path = format!("{}/../../tests/data/timelines/{name}.json", env!("CARGO_MANIFEST_DIR"));
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    }

    impl Timeline {
        /// Returns why the warm-up may end after this many seconds.
        fn by(&self, seconds: u64) -> Option<WarmUpEnd> {
            let slots = usize::try_from(seconds * 1_000_000 / self.slot_us).unwrap().min(self.acquired.len());
            warm_up_end(&self.acquired[..slots], &self.wait_us[..slots])
        }

        /// Returns the end of the warm-up in seconds, judged by all waits; slots without acquisitions are ignored.
        fn warm_up_s(&self) -> Option<f64> {
            let slots = self.acquired.iter().zip(&self.wait_us).enumerate();
            let waits: Vec<(usize, f64)> = slots
                .filter(|(_, (count, _))| **count > 0)
                .map(|(at, (count, sum))| (at, *sum as f64 / f64::from(*count)))
                .collect();
            let values: Vec<f64> = waits.iter().map(|(_, wait)| *wait).collect();
            let Truncation::At(left_out) = truncation(&values) else { return None };
            Some((waits[left_out].0 as u64 * self.slot_us) as f64 / 1e6)
        }

        fn growth(&self) -> Growth {
            let backlog: Vec<f64> = self.backlog.iter().map(|waiting| *waiting as f64).collect();
            growth(&backlog, Duration::from_micros(self.slot_us))
        }
    }

    #[test]
    fn constant_load_is_steady_after_the_shortest_warm_up() {
        let steady = recorded("steady");
        assert_eq!((steady.by(4), steady.by(5)), (None, Some(WarmUpEnd::Steady)));
    }

    #[test]
    fn warm_up_ends_when_the_last_contender_has_arrived() {
        // Given twenty contenders that arrive one by one over six seconds
        let warming = recorded("warming");
        let ended = warming.warm_up_s().unwrap();
        assert!((5.0..7.5).contains(&ended), "{ended} s");
        // Then the load counts as steady only after twice that time
        assert!((1..=11).all(|second| warming.by(second).is_none()));
        assert_eq!(warming.by(14), Some(WarmUpEnd::Steady));
    }

    #[test]
    fn growing_queue_is_never_steady() {
        let growing = recorded("growing");
        let steady: Vec<u64> =
            (1..=20).filter(|second| growing.by(*second) == Some(WarmUpEnd::Steady)).collect();
        assert_eq!(steady, [0_u64; 0]);
        let said = growing.growth();
        assert!(
            matches!(said, Growth::Growing(slope) if (20.0..26.0).contains(&slope.per_second)),
            "{said:?}"
        );
    }

    #[test]
    fn load_with_a_step_is_unsteady_but_only_a_rise_is_growth() {
        // Given a rate that drops after a quarter of the time, and a rate that rises beyond the capacity near the end
        let (down, up) = (recorded("step-early"), recorded("step-late"));
        assert_eq!((down.by(20), up.by(20)), (None, None));
        assert!(matches!(down.growth(), Growth::Stable(_)), "{:?}", down.growth());
        assert!(matches!(up.growth(), Growth::Growing(_)), "{:?}", up.growth());
    }
}
