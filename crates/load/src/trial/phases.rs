//! The load of a trial: ramp, warm-up, the measured phase with its faults, and the remaining waiters.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use tokio_util::sync::CancellationToken;

use super::super::breaking::{break_things, measure_gaps};
use super::super::health::Vitals;
use super::super::shared::{Board, COUNTING_LASTS, Shared};
use super::super::{Environment, batch, progress};
use super::{Conductor, INTERRUPTED, LOOK_EVERY, Loaded, STARTED, meeting, servers_ended, until};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::measure::Window;
use zklockbench_ensemble::fault::reaches_servers;
use zklockbench_record::{Cause, Steady, WarmUpEnd};
use zklockbench_scenario::{Load, TrialSpec};

/// Time between announcing and opening the window, so that every thread is notified in time.
const NOTICE: Duration = Duration::from_millis(20);
/// Maximum duration of an election on a slow host.
const SERVED_AGAIN_WITHIN: Duration = Duration::from_secs(60);
const WARM_UP_POLL_INTERVAL: Duration = Duration::from_millis(50);

impl Conductor<'_> {
    pub(super) async fn load(&mut self) -> Loaded {
        let spec = self.shared.spec.clone();
        let start = clock::now() + clock::micros(NOTICE);
        self.shared.series.begin_at(start);
        if let Some(arrivals) = &self.shared.open {
            arrivals.begin_at(start);
        }
        // A warm-up of fixed length has a known end. Workers need a known end, so that all of them measure
        // the same part of the load.
        let warm_up = match self.environment.rendezvous {
            None => (!spec.has_open_end()).then_some(spec.warm_up),
            Some(_) => Some(spec.warm_up_at_most.max(spec.warm_up)),
        };
        let fixed = warm_up
            .map(|warm_up| (self.measures_from(start + clock::micros(spec.ramp_up + warm_up)), warm_up));
        self.shared.signals.start.send_replace(Some(start));
        // A batch waits for signals instead of the clock, and must not start before the window.
        tokio::time::sleep(NOTICE + LOOK_EVERY).await;
        if let Some(rendezvous) = &self.environment.rendezvous {
            rendezvous.stamp(&meeting(spec.index, STARTED)).await;
        }
        self.lead_in("ramp", spec.ramp_up).await;
        let (Window { start: open, end: close }, warm_up_ended) = match fixed {
            Some((window, warm_up)) => {
                self.lead_in("warm-up", warm_up).await;
                (window, WarmUpEnd::Fixed)
            }
            None => self.warm_up_until_steady(&spec).await,
        };
        let begin = self.phase_begins("measure", spec.stop.lasts());
        self.shared.board.begin_measured();
        let vitals = Vitals::now();
        self.measure_broken(open, close).await;
        let end = Vitals::now();
        self.phase_ended("measure", begin);
        let now = clock::now();
        let window = Window { start: open.min(now), end: close.min(now) };
        self.measures_within(window);
        let backlog_us = self.serve_backlog().await;
        self.settle(open).await;
        let warm_up_us = open.saturating_sub(start + clock::micros(spec.ramp_up));
        let steady = self.course(window, warm_up_ended, warm_up_us);
        Loaded { window, begin: vitals, end, backlog_us, steady }
    }

    fn measures_from(&self, open: Stamp) -> Window {
        let spec = &self.shared.spec;
        let lasts = spec.stop.lasts().filter(|_| self.environment.rest_after_faults(spec).is_none());
        let end = lasts.map_or(Stamp::MAX, |lasts| open + clock::micros(lasts));
        let window = Window { start: open, end };
        self.measures_within(window);
        window
    }

    /// Runs the warm-up until throughput and waits are steady, within its minimum and maximum length.
    async fn warm_up_until_steady(&mut self, spec: &TrialSpec) -> (Window, WarmUpEnd) {
        let begin = self.phase_begins("warm-up", Some(spec.warm_up));
        let longest = begin + clock::micros(spec.warm_up_at_most);
        self.until_cut_short(tokio::time::sleep(spec.warm_up)).await;
        let ended = loop {
            let now = clock::now();
            match self.shared.series.warm_up_end(now) {
                Some(ended) => break ended,
                None if now >= longest || self.cut_short.is_some() => break WarmUpEnd::Cap,
                None => self.until_cut_short(tokio::time::sleep(WARM_UP_POLL_INTERVAL)).await,
            }
        };
        let window = self.measures_from(clock::now() + clock::micros(NOTICE));
        tokio::time::sleep(NOTICE).await;
        self.phase_ended("warm-up", begin);
        (window, ended)
    }

    /// Returns the acquisitions and waits of the load over time, and the backlog of an open load.
    fn course(&self, window: Window, warm_up_ended: WarmUpEnd, warm_up_us: u64) -> Steady {
        let (series, shared) = (&self.shared.series, &self.shared);
        let slots = series.ended(window.end);
        let slot_us = series.slot_us();
        let backlog =
            shared.open.as_ref().map(|arrivals| arrivals.backlog(window, slot_us)).unwrap_or_default();
        Steady {
            warm_up_ended,
            warm_up_us,
            slot_us,
            acquired: series.acquisitions(slots),
            wait_us: series.waits_us(slots),
            backlog,
            queue: None,
        }
    }

    /// Announces the window and, for an open load, the end of its arrivals.
    fn measures_within(&self, window: Window) {
        self.shared.signals.window.send_replace(window);
        if let Some(arrivals) = &self.shared.open {
            arrivals.end_at(window.end);
        }
    }

    /// Serves an open load's remaining arrivals, within its time limit. Returns the time taken, in microseconds.
    async fn serve_backlog(&mut self) -> u64 {
        let shared = Arc::clone(&self.shared);
        let (Some(arrivals), Some(open)) = (&shared.open, shared.spec.load.open()) else { return 0 };
        if self.cut_short.is_some() {
            return 0;
        }
        let begin = self.phase_begins("backlog", None);
        let served = until(|| arrivals.have_all_ended());
        // Remaining arrivals are a result, not a failure.
        let bounded = async { drop(tokio::time::timeout(open.backlog_at_most, served).await) };
        self.until_cut_short(bounded).await;
        self.phase_ended("backlog", begin)
    }

    async fn lead_in(&mut self, name: &'static str, takes: Duration) {
        if takes.is_zero() || self.cut_short.is_some() {
            return;
        }
        let begin = self.phase_begins(name, Some(takes));
        self.until_cut_short(tokio::time::sleep(takes)).await;
        self.phase_ended(name, begin);
    }

    /// Measures while the trial's faults fire. Returns after all faults have ended.
    async fn measure_broken(&mut self, open: Stamp, close: Stamp) {
        let (environment, shared) = (self.environment, Arc::clone(&self.shared));
        let stop = CancellationToken::new();
        // Measuring borrows the conductor mutably.
        let elections = std::mem::take(&mut self.elections);
        let (stopped, interrupt, sink) = (stop.clone(), self.interrupt.clone(), self.sink);
        let healed = CancellationToken::new();
        let breaking = async {
            let faults = break_things(environment, &shared, open, stopped, interrupt, &elections, sink).await;
            healed.cancel();
            faults
        };
        let measuring = async {
            self.measure(close, outlasted(environment, &shared, open, &healed)).await;
            stop.cancel();
        };
        let faults = tokio::select! {
            (faults, ()) = join(breaking, measuring) => faults,
            () = elections.watch(&shared.spec) => Vec::new(),
        };
        self.elections = elections;
        self.faults = faults;
    }

    /// Continues the load until all waiters have been served, after faults or if a lock may be stuck.
    async fn settle(&mut self, open: Stamp) {
        let settles = self.shared.has_faults() || progress::may_be_stuck(&self.shared);
        if self.cut_short.is_none() && settles {
            let begin = self.phase_begins("settle", None);
            let shared = Arc::clone(&self.shared);
            let Environment { target, servers, .. } = self.environment;
            tokio::select! {
                stuck = progress::settle(&shared, target, servers) => self.stuck = stuck,
                () = self.interrupt.cancelled() => self.cut_short(Cause::Interrupted, INTERRUPTED),
                why = servers_ended(self.environment, &shared) => self.cut_short(Cause::EnsembleLost, why),
            }
            self.phase_ended("settle", begin);
        }
        measure_gaps(&self.shared, open, &mut self.faults);
    }

    async fn measure(&mut self, close: Stamp, outlasted: impl Future<Output = ()>) {
        if self.cut_short.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let (counts, is_batch) = (shared.wire.is_some(), shared.spec.load == Load::Batch);
        let ends = async {
            match &shared.spec.load {
                Load::Batch => {
                    batch::conduct(&shared).await;
                    batch::quiet(&shared).await;
                }
                Load::Closed => closed_loop_ends(&shared, close).await,
                // Contenders may run out of arrivals before the phase ends.
                Load::Open(_) => {
                    let left = Duration::from_micros(close.saturating_sub(clock::now()));
                    tokio::time::sleep(left).await;
                }
            }
        };
        let mut given_up = None;
        let bounded = async {
            tokio::select! {
                () = ends => {}
                () = outlasted => {}
                // A phase that ends by the clock needs no other limit.
                why = progress::give_up(&shared), if close == Stamp::MAX => given_up = Some(why),
                // A batch has one cycle per contender, and all cycles are counted.
                () = tokio::time::sleep(COUNTING_LASTS), if counts && !is_batch => {}
            }
        };
        self.until_cut_short(bounded).await;
        if let Some(why) = given_up {
            self.cut_short(Cause::NoProgress, why);
        }
    }
}

/// Waits until the load has outlasted its faults: the last fault has healed, a lock has been acquired since
/// then, and the rest of the planned time has passed. Never returns if only the clock ends the load.
async fn outlasted(environment: &Environment, shared: &Shared, open: Stamp, healed: &CancellationToken) {
    let spec = &shared.spec;
    let Some(rest) = environment.rest_after_faults(spec) else { return std::future::pending().await };
    healed.cancelled().await;
    let acquired = || shared.board.acquired.load(Ordering::Acquire);
    let (before, healed_at) = (acquired(), clock::now());
    let hits_servers = spec.faults.iter().any(|fault| reaches_servers(&fault.kind));
    let patience = if hits_servers { SERVED_AGAIN_WITHIN } else { Duration::ZERO };
    until(|| acquired() != before || clock::now() - healed_at >= clock::micros(patience)).await;
    let planned = open + clock::micros(spec.stop.lasts().unwrap_or_default());
    let end = planned.max(clock::now() + clock::micros(rest));
    tokio::time::sleep(Duration::from_micros(end.saturating_sub(clock::now()))).await;
}

async fn closed_loop_ends(shared: &Shared, close: Stamp) {
    // With a time limit, contenders finish early only if they cannot continue.
    let look_every = if close == Stamp::MAX { LOOK_EVERY } else { LOOK_EVERY * 20 };
    while clock::now() < close && Board::read(&shared.board.finished) < shared.count_own() {
        let left = Duration::from_micros(close.saturating_sub(clock::now()));
        tokio::time::sleep(look_every.min(left)).await;
    }
}
