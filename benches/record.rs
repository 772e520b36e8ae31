//! The cost of recording: nanoseconds and allocations per sample in a recorder.
//!
//! Measures one sample, one count, one sample with a read of the clock, and all samples that a session and a
//! contender record for one contended acquisition of `predecessor-watch`. Each round repeats its work so often
//! that the clock's resolution does not matter. The limit applies to the median over the rounds, because other load
//! on the machine disturbs single rounds.
//!
//! The exit code is 1 if a sample exceeds the limit or allocates.

#![allow(clippy::print_stdout, reason = "the output is a table")]
#![allow(clippy::disallowed_methods, reason = "the recording itself is timed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::{Measure, Outcome, RequestKind, ThreadRecorder, Window};

/// Limit per sample, in nanoseconds.
const LIMIT_NS: f64 = 200.0;
const ROUNDS: usize = 500;
/// Repetitions of the work in each round.
const REPEATS: u64 = 2_000;
const WARM_UP_ROUNDS: usize = 50;
/// Length of a typical trial.
const TIMELINE_SECONDS: usize = 60;

/// Counts every allocation and forwards it to the system allocator.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[allow(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait, and every call is forwarded unchanged")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One kind of work, and the number of samples that it records.
struct Work {
    name: &'static str,
    samples: u64,
    run: fn(&mut ThreadRecorder, Stamp),
}

const WORKS: [Work; 4] = [
    Work { name: "record", samples: 1, run: record },
    Work { name: "count", samples: 1, run: count },
    Work { name: "clock and record", samples: 1, run: stamped },
    Work { name: "one acquisition", samples: ACQUISITION_SAMPLES, run: acquisition },
];

fn main() -> ExitCode {
    if let Err(why) = counter_counts() {
        println!("{why}");
        return ExitCode::FAILURE;
    }
    println!("{:<16} {:>8} {:>12} {:>12} {:>14}", "work", "samples", "median ns", "p99 ns", "allocations");
    let held = WORKS.iter().filter(|work| !measure(work)).count() == 0;
    println!(
        "per sample; {ROUNDS} rounds of {REPEATS} repetitions; limit: median {LIMIT_NS} ns, no allocation"
    );
    println!("{}", if held { "held" } else { "violated" });
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks the allocation counter itself. Otherwise, a result of zero would prove nothing.
fn counter_counts() -> Result<(), String> {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    drop(black_box(Box::new(black_box(1_u64))));
    match ALLOCATIONS.load(Ordering::Relaxed) - before {
        0 => Err("the counting allocator does not count allocations".to_owned()),
        _ => Ok(()),
    }
}

/// Measures one kind of work, prints its row, and returns whether the work is within the limits.
fn measure(work: &Work) -> bool {
    let mut recorder = ThreadRecorder::new(TIMELINE_SECONDS);
    recorder.set_window(Window { start: 0, end: Stamp::MAX });
    let mut rounds = Vec::with_capacity(ROUNDS);
    let mut now = 1;
    for _ in 0..WARM_UP_ROUNDS {
        round(work, &mut recorder, &mut now);
    }
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    for _ in 0..ROUNDS {
        rounds.push(round(work, &mut recorder, &mut now));
    }
    let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
    black_box(&recorder);
    rounds.sort_by(f64::total_cmp);
    let (median, p99) = (rounds[ROUNDS / 2], rounds[ROUNDS * 99 / 100]);
    println!("{:<16} {:>8} {median:>12.1} {p99:>12.1} {allocations:>14}", work.name, work.samples);
    median < LIMIT_NS && allocations == 0
}

/// Nanoseconds per sample.
fn round(work: &Work, recorder: &mut ThreadRecorder, now: &mut Stamp) -> f64 {
    let begin = Instant::now();
    for _ in 0..REPEATS {
        *now += 37;
        (work.run)(black_box(&mut *recorder), black_box(*now));
    }
    let samples = (REPEATS * work.samples) as f64;
    begin.elapsed().as_secs_f64() * 1e9 / samples
}

/// Returns a latency. Latencies are spread over the histogram, so its cells are not always in the nearest cache.
fn spread(now: Stamp) -> u64 {
    now.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44
}

fn record(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.record(Measure::Release, now, spread(now));
}

/// Reads the clock as for a real sample, and records a sample.
fn stamped(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.record(Measure::Release, clock::now(), spread(now));
}

fn count(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.count(now, |counts| counts.outcomes.add(Outcome::Acquired, 1));
}

/// Number of samples recorded by [`acquisition`]: for each of 5 requests, the send, second, latency, lag and reply;
/// for each of 2 lists, the names; for the notification, the lag, count, second and latency; for the acquire, two
/// latencies, the outcome and the second; for the hold and the release, the overshoot, count and latency.
const ACQUISITION_SAMPLES: u64 = 5 * 5 + 2 + 4 + 4 + 3;

fn acquisition(recorder: &mut ThreadRecorder, now: Stamp) {
    use RequestKind::{Create, Delete, GetChildren, GetDataWatch};
    request(recorder, now, Create);
    request(recorder, now, GetChildren);
    listed(recorder, now);
    request(recorder, now, GetDataWatch);
    notified(recorder, now);
    request(recorder, now, GetChildren);
    listed(recorder, now);
    acquired(recorder, now);
    released(recorder, now);
    request(recorder, now, Delete);
}

/// Records a request and its reply as `Session` does.
fn request(recorder: &mut ThreadRecorder, now: Stamp, kind: RequestKind) {
    recorder.count(now, |counts| {
        counts.requests.add(kind, 1);
        counts.bytes_sent += 60;
    });
    if let Some(second) = recorder.second(now) {
        second.requests += 1;
    }
    recorder.record(Measure::Request(kind), now, spread(now));
    recorder.record(Measure::DispatchLag, now, spread(now) >> 8);
    recorder.count(now, |counts| {
        counts.succeeded.add(kind, 1);
        counts.bytes_received += 120;
    });
}

fn listed(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.count(now, |counts| counts.names_returned += 10);
}

fn notified(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.record(Measure::DispatchLag, now, spread(now) >> 8);
    recorder.count(now, |counts| {
        counts.notifications.node_deleted += 1;
        counts.bytes_received += 70;
    });
    if let Some(second) = recorder.second(now) {
        second.notifications += 1;
    }
    recorder.record(Measure::Notification, now, spread(now));
}

fn acquired(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.record(Measure::Release, now, spread(now));
    recorder.record(Measure::Handoff, now, spread(now));
    recorder.count(now, |counts| counts.outcomes.add(Outcome::Acquired, 1));
    if let Some(second) = recorder.second(now) {
        second.acquisitions += 1;
    }
}

fn released(recorder: &mut ThreadRecorder, now: Stamp) {
    recorder.record(Measure::HoldOvershoot, now, 1);
    recorder.count(now, |counts| counts.releases += 1);
    recorder.record(Measure::Release, now, spread(now));
}
