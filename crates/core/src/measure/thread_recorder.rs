//! The recorder for all measurements of one generator thread.
//!
//! Only that thread uses the recorder, so recording needs neither locks nor atomics. All memory is allocated
//! before the clock starts. Recorders are merged at the end.
//!
//! Samples are buffered and added to their histograms in batches. The histograms take megabytes, which
//! servers on the same host evict from the cache. Fetching the histograms for every sample would cost more
//! than the rest of the recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Counts, HIGHEST_US, Histogram, Measure, OpenParts, RANK_CLASSES, Woken, new_histogram, rank_class,
};
use crate::clock::Stamp;

/// Time span during which samples count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start: Stamp,
    /// First stamp that no longer counts; `Stamp::MAX` while the window is open.
    pub end: Stamp,
}

impl Window {
    /// The window before the measured phase: nothing counts.
    pub const CLOSED: Window = Window { start: Stamp::MAX, end: Stamp::MAX };

    pub fn contains(&self, at: Stamp) -> bool {
        at >= self.start && at < self.end
    }

    /// Returns the part of a period that is within the window, in microseconds.
    pub fn overlap_us(&self, from: Stamp, to: Stamp) -> u64 {
        to.min(self.end).saturating_sub(from.max(self.start))
    }
}

/// Counts of one second of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Second {
    /// Locks acquired.
    pub acquisitions: u64,
    /// Requests sent.
    pub requests: u64,
    /// Notifications delivered.
    pub notifications: u64,
    /// Arrivals due in this second; only in an open load.
    pub offered: u64,
    /// Waits that ended in this second; in an open load, waits of arrivals that were due in this second.
    pub waits: u64,
    /// Total duration of these waits, in microseconds.
    pub wait_us: u64,
    /// Part of `wait_us` spent inside the acquire call.
    pub service_us: u64,
    /// Handoffs that ended in this second.
    pub handoffs: u64,
    /// Total duration of the counted handoffs, in microseconds.
    pub handoff_us: u64,
}

added_up!(Second {
    acquisitions,
    requests,
    notifications,
    offered,
    waits,
    wait_us,
    service_us,
    handoffs,
    handoff_us,
});

/// Maximum number of buffered samples.
const SAMPLES_AT_ONCE: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    /// Value in microseconds; [`super::HIGHEST_US`] fits into 32 bits.
    value_us: u32,
    place: u32,
}

/// The wait of an arrival in an open load.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalWait {
    pub due: Stamp,
    /// Stamps at which a contender became free, and at which it called acquire. `None` if no contender became
    /// free.
    pub called: Option<(Stamp, Stamp)>,
    pub ended: Stamp,
    /// Whether a contender acquired the lock for this arrival.
    pub is_served: bool,
}

fn measures_of(part: Option<Measure>) -> impl Iterator<Item = Measure> {
    [Some(Measure::Wait), part].into_iter().flatten()
}

fn parts_of(part: Option<Measure>) -> impl Iterator<Item = OpenParts> {
    measures_of(part).filter_map(Measure::open_parts)
}

/// Histograms, counts and timeline of one generator thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRecorder {
    /// One histogram per measure, then one per rank class.
    histograms: Vec<Histogram>,
    samples: Vec<Sample>,
    window: Window,
    pub measured: Counts,
    /// Counts of the whole trial, from the first request to the last, for comparison with the servers'
    /// counters.
    pub whole: Counts,
    timeline: Vec<Second>,
}

impl ThreadRecorder {
    /// Creates an empty recorder with a timeline of `seconds`; the last second includes everything later.
    pub fn new(seconds: usize) -> Self {
        Self {
            histograms: (0..Measure::COUNT + RANK_CLASSES).map(|_| new_histogram()).collect(),
            samples: Vec::with_capacity(SAMPLES_AT_ONCE),
            window: Window::CLOSED,
            measured: Counts::default(),
            whole: Counts::default(),
            timeline: vec![Second::default(); seconds.max(1)],
        }
    }

    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    pub fn window(&self) -> Window {
        self.window
    }

    /// Records a sample unless `ended` is outside the window. Waits have separate methods, which also record
    /// unfinished waits.
    #[inline]
    pub fn record(&mut self, measure: Measure, ended: Stamp, value_us: u64) {
        debug_assert!(measure.open_parts().is_none(), "{measure:?} also has unfinished samples");
        self.put(measure, ended, value_us);
    }

    #[inline]
    fn put(&mut self, measure: Measure, ended: Stamp, value_us: u64) {
        if !self.window.contains(ended) {
            return;
        }
        if value_us > HIGHEST_US {
            self.measured.saturated += 1;
            self.whole.saturated += 1;
        }
        self.keep(measure.index(), value_us);
    }

    /// Records the delay from a release to the notification of the waiter with this rank (from 1). Ignores
    /// notifications outside the window.
    #[inline]
    pub fn record_woken(&mut self, rank: u32, heard: Stamp, after_us: u64) {
        if self.window.contains(heard) {
            self.keep(Measure::COUNT + rank_class(rank), after_us);
        }
    }

    #[inline]
    fn keep(&mut self, place: usize, value_us: u64) {
        if self.samples.len() == SAMPLES_AT_ONCE {
            self.settle();
        }
        let value_us = u32::try_from(value_us.max(1)).unwrap_or(u32::MAX);
        self.samples.push(Sample { value_us, place: place as u32 });
    }

    /// Records a wait that ended without the lock, or had not ended when the window closed. Its length
    /// includes the time before the window and excludes the time after it. Returns the length, or `None` if
    /// the wait did not overlap the window.
    ///
    /// `part` is the measure of read or write waits, if the load includes reads.
    pub fn record_unserved(&mut self, part: Option<Measure>, intended: Stamp, ended: Stamp) -> Option<u64> {
        let at = ended.min(self.window.end.saturating_sub(1));
        if at < self.window.start || intended >= self.window.end {
            return None;
        }
        let waited = ended.min(self.window.end).saturating_sub(intended);
        for parts in parts_of(part) {
            self.put(parts.not_ended, at, waited);
            self.record_begun_before(parts, intended, at);
        }
        Some(waited)
    }

    /// Records a wait in a closed load: as served if it ended within the window, or as unserved if it ended
    /// later. Returns the length of an unserved wait.
    pub fn record_wait(&mut self, part: Option<Measure>, intended: Stamp, acquired: Stamp) -> Option<u64> {
        if acquired >= self.window.end {
            return self.record_unserved(part, intended, acquired);
        }
        for measure in measures_of(part) {
            self.put(measure, acquired, acquired.saturating_sub(intended));
        }
        for parts in parts_of(part) {
            self.record_begun_before(parts, intended, acquired);
        }
        None
    }

    /// Records how long a wait had lasted when the window opened, if it started earlier.
    fn record_begun_before(&mut self, parts: OpenParts, intended: Stamp, ended: Stamp) {
        if let Some(measure) = parts.begun_before
            && intended < self.window.start
        {
            self.put(measure, ended, self.window.start - intended);
        }
    }

    /// Records an arrival's wait and the two stages of the wait. The samples count if the arrival was due within
    /// the window, even if the wait ended later.
    pub fn record_arrival(&mut self, part: Option<Measure>, wait: ArrivalWait) {
        let ArrivalWait { due, called, ended, .. } = wait;
        let waited = ended.saturating_sub(due);
        for measure in measures_of(part) {
            self.put_stage(measure, due, waited, wait.is_served);
        }
        match called {
            Some((taken, called)) => {
                self.put_stage(Measure::ClientWait, due, taken.saturating_sub(due), true);
                self.put_stage(Measure::Service, due, ended.saturating_sub(called), wait.is_served);
                self.record(Measure::Lateness, due, called.saturating_sub(due.max(taken)));
            }
            None => self.put_stage(Measure::ClientWait, due, waited, false),
        }
    }

    fn put_stage(&mut self, measure: Measure, due: Stamp, us: u64, has_ended: bool) {
        match measure.open_parts() {
            Some(parts) if !has_ended => self.put(parts.not_ended, due, us),
            _ => self.put(measure, due, us),
        }
    }

    pub fn settle(&mut self) {
        for sample in self.samples.drain(..) {
            self.histograms[sample.place as usize].saturating_record(u64::from(sample.value_us));
        }
    }

    /// Applies a change to the whole trial's counts and, if the time is within the window, to the measured
    /// counts.
    #[inline]
    pub fn count(&mut self, at: Stamp, change: impl Fn(&mut Counts)) {
        change(&mut self.whole);
        if self.window.contains(at) {
            change(&mut self.measured);
        }
    }

    /// Returns the second of the timeline that contains this time, if the time is within the window.
    #[inline]
    pub fn second(&mut self, at: Stamp) -> Option<&mut Second> {
        if !self.window.contains(at) {
            return None;
        }
        let index = usize::try_from((at - self.window.start) / 1_000_000).unwrap_or(usize::MAX);
        let last = self.timeline.len() - 1;
        self.timeline.get_mut(index.min(last))
    }

    /// Returns the histogram of one measure, as of the last [`ThreadRecorder::settle`].
    pub fn histogram(&self, measure: Measure) -> &Histogram {
        &self.histograms[measure.index()]
    }

    /// Returns the rank classes with samples, as of the last [`ThreadRecorder::settle`].
    pub fn herd(&self) -> Vec<Woken> {
        let classes = self.histograms[Measure::COUNT..].iter().enumerate();
        classes.filter_map(|(class, samples)| Woken::of(class, samples)).collect()
    }

    pub fn timeline(&self) -> &[Second] {
        &self.timeline
    }

    /// Adds all data of another thread's settled recorder.
    #[allow(clippy::expect_used, reason = "all recorders use the same bounds, so adding cannot fail")]
    pub fn merge(&mut self, other: &Self) {
        for (own, theirs) in self.histograms.iter_mut().zip(&other.histograms) {
            own.add(theirs).expect("recorders share their bounds");
        }
        self.measured += other.measured;
        self.whole += other.whole;
        for (own, theirs) in self.timeline.iter_mut().zip(&other.timeline) {
            *own += *theirs;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(recorder: &ThreadRecorder, measure: Measure) -> Vec<u64> {
        let steps = recorder.histogram(measure).iter_recorded();
        steps.flat_map(|step| vec![step.value_iterated_to(); step.count_at_value() as usize]).collect()
    }

    #[test]
    fn changes_outside_the_window_count_only_towards_the_whole_trial() {
        let mut recorder = ThreadRecorder::new(2);
        recorder.count(5, |counts| counts.releases += 1);
        recorder.set_window(Window { start: 10, end: 3_000_010 });
        recorder.record(Measure::Hold, 9, 1);
        recorder.record(Measure::Hold, 10, 1);
        recorder.count(11, |counts| counts.releases += 1);
        recorder.settle();
        assert_eq!(recorder.histogram(Measure::Hold).len(), 1);
        assert_eq!((recorder.measured.releases, recorder.whole.releases), (1, 2));
    }

    #[test]
    fn unserved_wait_counts_until_the_window_closes() {
        let mut recorder = ThreadRecorder::new(1);
        assert_eq!(recorder.record_unserved(None, 1, 5), None, "the window is closed");
        recorder.set_window(Window { start: 100, end: 100 });
        assert_eq!(recorder.record_unserved(None, 10, 300), None, "the window is empty");
        recorder.set_window(Window { start: 100, end: 200 });
        assert_eq!(recorder.record_unserved(None, 10, 99), None, "the wait ended before the window");
        assert_eq!(recorder.record_unserved(None, 200, 300), None, "the wait began after the window");
        let found = recorder.record_unserved(None, 50, 150);
        assert_eq!(found, Some(100), "the wait timed out within the window");
        let found = recorder.record_unserved(None, 50, 900);
        assert_eq!(found, Some(150), "the wait had not ended when the window closed");
        recorder.settle();
        assert_eq!(recorder.histogram(Measure::Unserved).len(), 2);
        assert_eq!(recorder.histogram(Measure::Unserved).max(), 150);
    }

    #[test]
    fn record_wait_stores_how_long_earlier_waits_had_lasted_when_the_window_opened() {
        let (mut recorder, part) = (ThreadRecorder::new(1), Some(Measure::WriteWait));
        recorder.set_window(Window { start: 100, end: 200 });
        // One wait ends before the window, two end within the window, and two end after it. The first wait of
        // each pair starts before the window.
        let waits = [(10, 90), (60, 150), (110, 150), (70, 300), (120, 300)];
        let unserved = waits.map(|(intended, acquired)| recorder.record_wait(part, intended, acquired));
        assert_eq!(unserved, [None, None, None, Some(130), Some(80)]);
        recorder.settle();
        let of = |measure| values(&recorder, measure);
        // All acquires are writes
        for (measure, of_writes, expected) in [
            (Measure::Wait, Measure::WriteWait, [40, 90]),
            (Measure::Unserved, Measure::WriteUnserved, [80, 130]),
            (Measure::WaitedBefore, Measure::WriteWaitedBefore, [30, 40]),
        ] {
            assert_eq!([of(measure), of(of_writes)], [expected; 2], "{measure:?}");
        }
        assert!(of(Measure::ReadWait).is_empty() && of(Measure::ReadUnserved).is_empty());
    }

    #[test]
    fn unserved_arrival_counts_in_the_stage_it_reached() {
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 100, end: 200 });
        let wait = ArrivalWait { due: 150, called: Some((160, 165)), ended: 400, is_served: true };
        recorder.record_arrival(Some(Measure::ReadWait), wait);
        recorder.record_arrival(Some(Measure::ReadWait), ArrivalWait { is_served: false, ..wait });
        let never_called = ArrivalWait { called: None, is_served: false, ..wait };
        recorder.record_arrival(Some(Measure::WriteWait), never_called);
        recorder.record_arrival(None, ArrivalWait { due: 300, ..wait });
        recorder.settle();
        let of = |measure| values(&recorder, measure);
        assert_eq!((of(Measure::Wait), of(Measure::Unserved)), (vec![250], vec![250, 250]));
        assert_eq!((of(Measure::ReadWait), of(Measure::ReadUnserved)), (vec![250], vec![250]));
        assert_eq!((of(Measure::WriteWait), of(Measure::WriteUnserved)), (vec![], vec![250]));
        assert_eq!((of(Measure::ClientWait), of(Measure::ClientUnserved)), (vec![10, 10], vec![250]));
        assert_eq!((of(Measure::Service), of(Measure::ServiceUnserved)), (vec![235], vec![235]));
        assert_eq!(of(Measure::Lateness), [5, 5]);
    }

    #[test]
    fn acquisitions_past_the_timeline_count_in_its_last_second() {
        let mut recorder = ThreadRecorder::new(2);
        recorder.set_window(Window { start: 0, end: Stamp::MAX });
        recorder.second(9_000_000).unwrap().acquisitions += 1;
        assert_eq!(recorder.timeline()[1].acquisitions, 1);
        assert!(recorder.second(0).is_some());
    }

    #[test]
    fn every_sample_reaches_its_histogram() {
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 0, end: Stamp::MAX });
        let many = SAMPLES_AT_ONCE as u64 * 2 + 7;
        for value in 1..=many {
            recorder.record(Measure::Hold, value, value);
            recorder.record(Measure::Release, value, 3);
        }
        recorder.settle();
        assert_eq!(recorder.histogram(Measure::Hold).len(), many);
        assert_eq!(recorder.histogram(Measure::Release).len(), many);
        assert_eq!(recorder.histogram(Measure::Release).max(), 3);
    }

    #[test]
    fn values_outside_the_range_are_recorded_as_its_ends_and_counted_if_above() {
        let mut recorder = ThreadRecorder::new(1);
        recorder.set_window(Window { start: 0, end: 10 });
        for value in [HIGHEST_US, HIGHEST_US + 1, u64::MAX] {
            recorder.record(Measure::Hold, 1, value);
            recorder.record(Measure::Hold, 10, value);
        }
        recorder.record(Measure::Hold, 1, 0);
        recorder.settle();
        let holds = recorder.histogram(Measure::Hold);
        assert_eq!((holds.len(), holds.min()), (4, 1));
        assert!(holds.max() >= HIGHEST_US);
        assert_eq!((recorder.measured.saturated, recorder.whole.saturated), (2, 2));
    }

    #[test]
    fn window_contains_its_start_but_not_its_end() {
        let window = Window { start: 10, end: 20 };
        assert_eq!([9, 10, 19, 20].map(|at| window.contains(at)), [false, true, true, false]);
        assert!(![0, 1, Stamp::MAX].iter().any(|at| Window::CLOSED.contains(*at)));
        let overlaps = [(0, 10), (0, 15), (12, 15), (15, 90), (0, 90), (20, 90)];
        assert_eq!(overlaps.map(|(from, to)| window.overlap_us(from, to)), [0, 5, 3, 5, 10, 0]);
        assert_eq!(Window::CLOSED.overlap_us(0, Stamp::MAX), 0);
        let mut recorder = ThreadRecorder::new(1);
        assert_eq!(recorder.window(), Window::CLOSED, "the window is closed at first");
        recorder.set_window(window);
        assert_eq!(recorder.window(), window);
    }

    #[test]
    fn seconds_are_counted_from_the_start_of_the_window() {
        let mut recorder = ThreadRecorder::new(3);
        recorder.set_window(Window { start: 500_000, end: 4_000_000 });
        for at in [499_999, 500_000, 1_499_999, 1_500_000, 2_500_000, 3_999_999, 4_000_000] {
            if let Some(second) = recorder.second(at) {
                second.acquisitions += 1;
            }
        }
        let acquisitions: Vec<_> = recorder.timeline().iter().map(|second| second.acquisitions).collect();
        assert_eq!(acquisitions, [2, 1, 2]);
        assert_eq!(ThreadRecorder::new(0).timeline().len(), 1, "there is at least one second");
    }

    #[test]
    fn merge_adds_histograms_counts_and_timelines() {
        let second = |times| {
            let (requests, wait_us) = (10 * times, 100 * times);
            Second { acquisitions: times, requests, wait_us, ..Second::default() }
        };
        let filled = |times: u64| {
            let mut recorder = ThreadRecorder::new(2);
            recorder.set_window(Window { start: 0, end: Stamp::MAX });
            for value in 1..=times {
                recorder.record(Measure::Handoff, 1, value);
                recorder.record_woken(value as u32, 1, value);
            }
            recorder.count(1, |counts| counts.releases += times);
            *recorder.second(1_000_000).unwrap() = second(times);
            recorder.settle();
            recorder
        };
        let mut both = filled(2);
        both.merge(&filled(3));
        assert_eq!(both.histogram(Measure::Handoff).len(), 5);
        let herd: Vec<_> = both.herd().iter().map(|woken| (woken.from_rank, woken.count)).collect();
        assert_eq!(herd, [(1, 2), (2, 2), (3, 1)]);
        assert_eq!((both.measured.releases, both.whole.releases), (5, 5));
        assert_eq!(both.timeline(), [Second::default(), second(5)]);
    }
}
