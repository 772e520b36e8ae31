//! Record of a trial, from its threads' data and the measurements around its load.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::super::counters::NearEnd;
use super::super::drivers::Driver;
use super::super::keeper::Kept;
use super::super::lock_state::LockState;
use super::super::recorder::part_of_waits;
use super::super::shared::{Closing, Shared};
use super::super::worker::ThreadRecord;
use super::super::{EnvironmentEvent, accounting, health, progress};
use super::{Conductor, Loaded, ObservedLoad};
use zklockbench_core::clock::{self, Stamp, WallClock};
use zklockbench_core::measure::{ArrivalWait, Histogram, Measure, Second, ThreadRecorder, Window};
use zklockbench_core::units::{counted, format_micros};
use zklockbench_record::{
    Arrived, Beside, CLOCKS_DIFFER_MS, DriverRecord, EchoTimes, Evidence, Excused, Facts, FullCrew, Hold,
    Judged, Lives, Occurrences, Part, ServerCounters, Sessions, ShortHolds, Tally, Trial,
};
use zklockbench_scenario::{Load, Stop};
use zklockbench_zk::keep_awake::Unread;
use zklockbench_zk::{Failure, sessions_not_resumed};

const SLOW_DISK: &str =
    "they arrived faster than the disk could write them; use a faster disk for --out, or a lower rate";
/// Maximum adjustment of the wall clock during a trial. Beyond it, times from the logs are too uncertain.
const WALL_MAY_MOVE: Duration = Duration::from_millis(20);
/// Time without a read after which a server that should be kept awake is reported.
const UNREAD_AT_MOST: Duration = Duration::from_secs(1);

/// Adds the keeper's data to the facts. Returns the interference by other clients.
fn take_kept(facts: &mut Facts, kept: Kept, is_dated: bool) -> Vec<String> {
    facts.complete_until = kept.complete_until;
    (facts.noted, facts.created, facts.entered_as_of) = (kept.noted, kept.created, kept.entered_as_of);
    // Logs with unreliable times cannot be compared with the contenders' events.
    facts.lives = if is_dated { kept.lives } else { Lives::default() };
    kept.interference
}

impl Conductor<'_> {
    /// Returns the record of a trial whose load is over and whose sessions are closed, without the judge's
    /// results.
    pub(super) async fn record(
        &mut self,
        connect_us: u64,
        observed: ObservedLoad,
        threads: Vec<ThreadRecord>,
    ) -> Trial {
        let ObservedLoad { loaded, given_up, before, after, orphans, nodes_left, near_end, spread, met } =
            observed;
        let running = threads.len();
        let unread: Vec<Unread> = threads.iter().flat_map(|thread| thread.unread.clone()).collect();
        let lost_notes = threads.iter().map(|thread| thread.lost).sum();
        let mut seen = Part::merged(threads.into_iter().map(|thread| thread.part));
        let arrived = self.arrived(&loaded, given_up, &mut seen.recorder);
        let Loaded { window, begin, end, steady, .. } = loaded;
        let has_faults = self.shared.has_faults();
        let mut health = health::judge(&begin, &seen, running, &end, has_faults, arrived.as_ref());
        let Part { recorder, occurrences: mut seen, .. } = seen;
        health.invalid = health.invalid.or(spread.as_ref().and_then(|spread| self.too_far_apart(spread)));
        health.standstill_us = self.shared.board.standstill_us.load(Ordering::Relaxed);
        let wall = WallClock::read();
        let wall_was_set = self.wall_was_set(wall);
        let (kept, unchecked) = self.kept(lost_notes).await;
        // The servers' logs are timestamped with the wall clock.
        let is_dated = wall_was_set.is_none();
        health.invalid = health.invalid.or(wall_was_set);
        let wrong_holds = self.wrong_holds(seen.short_holds, window);
        health.invalid = health.invalid.or(wrong_holds.first().cloned());
        // Without faults and stuck contenders, the logs contain the end of every node.
        let may_lack_ends = has_faults || !self.stuck.is_empty();
        let all_gone = may_lack_ends && orphans.as_ref().is_some_and(|orphans| orphans.in_queues == 0);
        let mut facts = Facts {
            measured_from: window.start,
            traced: self.shared.overlaps.traced(&self.faults, window.start),
            closed: self.closed(&seen.closing),
            all_gone,
            wall,
            clocks_differ_ms: CLOCKS_DIFFER_MS + whole_ms(wall.set_since(self.wall)),
            ..Facts::without_moments(self.shared.kind)
        };
        let interference = kept.map_or_else(Vec::new, |kept| take_kept(&mut facts, kept, is_dated));
        let evidence = Evidence { given_up_early: seen.given_up_early, ..Evidence::default() };
        let counters = accounting::pair(before, after, &unread);
        self.warn_of_unread(&counters);
        let is_whole = self.cut_short.is_none() && self.too_few.is_none();
        let accounting = accounting::compare(&self.shared, &recorder.whole, &seen, &counters, is_whole);
        let lost = lost(&seen);
        let standstill = progress::longest_standstill(&self.shared, window.start, &counters, lost, &near_end);
        if let Some(warning) = NearEnd::told(near_end) {
            (self.sink)(EnvironmentEvent::Warning(&warning));
        }
        Trial {
            spec: self.shared.spec.clone(),
            started_at: self.started_at,
            measured_from_us: window.start.saturating_sub(self.began),
            measured_us: window.end.saturating_sub(window.start),
            full_crew: self.full_crew(window),
            arrived,
            dispersion: self.shared.open.as_ref().map(|open| open.dispersion(window)).unwrap_or_default(),
            steady: Some(steady),
            utilisation: self.shared.utilisation(window.end.saturating_sub(window.start)),
            judged: Judged::none_yet(),
            // Missing contenders affected all measurements, so this cause takes precedence over later ones.
            cut_short: self.too_few.take().or(self.cut_short.take()),
            health,
            standstill,
            measured: recorder.measured,
            whole: recorder.whole,
            herd: (recorder.whole.unseen == 0 && !self.shared.drivers.are_there()).then(|| recorder.herd()),
            errors: std::mem::take(&mut seen.errors),
            // The judge derives these fields from the facts.
            violation_count: 0,
            violations: Vec::new(),
            excused: Excused::default(),
            most_inside: self.shared.most_inside(),
            evidence,
            ensemble_order: None,
            history: self.shared.keeps_history.then(|| facts.clone()),
            facts: Some(facts),
            fencing: self.shared.fencing(),
            elections: self.elections.records(window.start, &self.faults),
            faults: std::mem::take(&mut self.faults),
            interference,
            wrong_holds,
            stuck: std::mem::take(&mut self.stuck),
            orphans: orphans.as_ref().map(|orphans| orphans.count),
            orphan_nodes: orphans.map(|orphans| orphans.named).unwrap_or_default(),
            lost_holds: None,
            limited_holds: self.shared.spec.hold_limit.map(|_| seen.limited_holds),
            nodes_left,
            accounting,
            servers: counters,
            sessions: self.sessions(connect_us, &seen),
            phases: std::mem::take(&mut self.phases),
            timeline: timeline(&recorder, window),
            tallies: tallies(&seen, self.shared.spec.contenders),
            histograms: histograms(&recorder),
            unchecked,
            driver: driver_record(&self.shared),
            counting: None,
            beside: met.map(|met| Beside {
                reads: met.reads + seen.looks_beside,
                writes: met.writes + seen.writes_beside,
                ..met
            }),
            start_spread_us: spread.and_then(Result::ok).map(clock::micros),
        }
    }

    /// Returns the outcomes of an open load's arrivals. Arrivals that no contender took count as unserved waits.
    fn arrived(&self, loaded: &Loaded, given_up: Stamp, recorder: &mut ThreadRecorder) -> Option<Arrived> {
        let window = loaded.window;
        let arrivals = self.shared.open.as_ref()?;
        recorder.set_window(window);
        let (mut arrived, never_taken) = arrivals.due_within(window.start, window.end);
        for (due, mode) in never_taken {
            let wait = ArrivalWait { due, called: None, ended: given_up, is_served: false };
            recorder.record_arrival(part_of_waits(&self.shared.spec, mode), wait);
        }
        for due in arrivals.due_times(window.start, window.end) {
            if let Some(second) = recorder.second(window.start + due) {
                second.offered += 1;
            }
        }
        recorder.settle();
        arrived.backlog_us = loaded.backlog_us;
        Some(arrived)
    }

    /// Returns the part of a phase in which all contenders were still active, if acquisitions end the phase.
    fn full_crew(&self, window: Window) -> Option<FullCrew> {
        let ends_itself =
            self.shared.spec.load == Load::Closed && matches!(self.shared.spec.stop, Stop::Acquisitions(_));
        let first = self.shared.board.first_done.get().filter(|_| ends_itself)?;
        let lasted_us = first.at.saturating_sub(window.start);
        Some(FullCrew { lasted_us, acquired: first.acquired })
    }

    /// Describes how the holds deviated from their requested times.
    fn wrong_holds(&self, short: ShortHolds, window: Window) -> Vec<String> {
        let short = (short.count > 0).then(|| {
            let holds = counted(short.count, "hold was", "holds were");
            format!("{holds} shorter than requested, by up to {}", format_micros(short.lacked_us))
        });
        // Overlapping holds explain an impossible total.
        let was_crowded = self.shared.lock_states.used().any(LockState::was_crowded);
        let excludes = !was_crowded && self.shared.entry.card.guarantees.exclusive;
        let measured_us = window.end.saturating_sub(window.start);
        let of_lock = |state: &LockState| {
            let (asked_us, possible_us) = state.impossible_holds(measured_us).filter(|_| excludes)?;
            let (asked, possible) = (format_micros(asked_us), format_micros(possible_us));
            Some(format!(
                "impossible: holds of lock {} add up to {asked}, but only {possible} is possible",
                state.number
            ))
        };
        short.into_iter().chain(self.shared.lock_states.used().find_map(of_lock)).collect()
    }

    /// Returns the holds whose sessions a server has confirmed as closed. The ends of other holds remain unknown.
    fn closed(&self, closing: &HashMap<Hold, i64>) -> HashSet<Hold> {
        let is_closed = |((contender, _), session): &(&Hold, &i64)| {
            self.shared.controls[*contender].closing(**session) == Some(Closing::Answered)
        };
        closing.iter().filter(is_closed).map(|(hold, _)| *hold).collect()
    }

    /// Warns about servers that should have been kept awake but were not, unless faults explain this.
    fn warn_of_unread(&self, servers: &[ServerCounters]) {
        if self.shared.has_faults() {
            return;
        }
        for server in servers {
            let Some(unread) =
                server.unread_us.map(Duration::from_micros).filter(|time| *time > UNREAD_AT_MOST)
            else {
                continue;
            };
            let (address, seconds) = (&server.address, unread.as_secs_f64());
            (self.sink)(EnvironmentEvent::Warning(&format!(
                "{address} answered no read for {seconds:.1} s: the server was not kept awake during that time and \
                 may have delayed a request (ZOOKEEPER-4537)"
            )));
        }
    }

    /// Returns the reason why times in the servers' logs cannot be compared with the process clock.
    fn wall_was_set(&self, wall: WallClock) -> Option<String> {
        let set_by = wall.set_since(self.wall);
        (self.shared.reads_logs && set_by > WALL_MAY_MOVE).then(|| {
            format!(
                "the wall clock, which timestamps the servers' logs, was changed by {set_by:?} during the trial"
            )
        })
    }

    /// Returns the data stored for the judge, and descriptions of missing data.
    async fn kept(&mut self, lost: u64) -> (Option<Kept>, Vec<String>) {
        let Some(keeper) = self.keeper.take() else { return (None, Vec::new()) };
        let logs = match self.environment.local.as_ref().filter(|_| self.shared.reads_logs) {
            Some(local) if local.logs_at_hand().is_none() => local.logs().await.map(Some),
            _ => Ok(None),
        };
        let (logs, uncopied) = match logs {
            Ok(logs) => (logs, None),
            Err(why) => (None, Some(why.to_string())),
        };
        let mut kept = match keeper.end(logs).await {
            Ok(kept) => kept,
            Err(why) => return (None, vec![format!("the contenders' events could not be stored: {why}")]),
        };
        if let Some(why) = uncopied.or(kept.unread.take()) {
            let missing = "so the contenders' view is not compared with the ensemble's";
            (self.sink)(EnvironmentEvent::Warning(&format!(
                "the servers' logs cannot be read, {missing}: {why}"
            )));
        }
        let lost = (lost > 0).then(|| {
            let events = counted(lost, "event of the contenders is", "events of the contenders are");
            format!("{events} missing: {SLOW_DISK}")
        });
        let missing = (kept.missing > 0).then(|| {
            let missing = counted(kept.missing, "transaction is", "transactions are");
            format!("the servers' logs are incomplete: {missing} missing")
        });
        (Some(kept), lost.into_iter().chain(missing).collect())
    }

    fn sessions(&self, connect_us: u64, seen: &Occurrences) -> Sessions {
        Sessions {
            opened: seen.opened,
            connect_us,
            negotiated_timeout_us: clock::micros(self.shared.negotiated()),
            expired: seen.expired,
            rejoined: seen.rejoined,
            not_resumed: Some(sessions_not_resumed() - self.not_resumed_before).filter(|count| *count > 0),
        }
    }
}

fn lost(seen: &Occurrences) -> u64 {
    let losses = seen.errors.iter().filter(|(kind, _)| kind.ends_with(Failure::ConnectionLoss.kind()));
    losses.map(|(_, times)| times).sum()
}

fn histograms(recorder: &ThreadRecorder) -> BTreeMap<Measure, Histogram> {
    Measure::all()
        .into_iter()
        .map(|measure| (measure, recorder.histogram(measure)))
        .filter(|(_, histogram)| !histogram.is_empty())
        .map(|(measure, histogram)| (measure, histogram.clone()))
        .collect()
}

fn tallies(seen: &Occurrences, contenders: usize) -> Vec<Tally> {
    (0..contenders).map(|id| seen.tallies.get(&id).copied().unwrap_or_default()).collect()
}

fn timeline(recorder: &ThreadRecorder, window: Window) -> Vec<Second> {
    let seconds = window.end.saturating_sub(window.start).div_ceil(1_000_000);
    let seconds = usize::try_from(seconds).unwrap_or(usize::MAX).min(recorder.timeline().len());
    recorder.timeline()[..seconds].to_vec()
}

fn whole_ms(time: Duration) -> i64 {
    i64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(i64::MAX)
}

/// Returns the record of a trial's drivers; `None` if there are none.
fn driver_record(shared: &Shared) -> Option<DriverRecord> {
    let (places, taken) = shared.drivers.places();
    let of_place = |(place, driver): (usize, &Driver)| {
        let Driver { program, processes } = driver;
        let pipe = processes.pipe();
        let count = processes.count();
        let mut each = vec![0; count];
        let own = shared.own().filter(|contender| contender % places == place);
        own.for_each(|contender| each[contender % count] += 1);
        DriverRecord {
            program: program.clone(),
            processes: each.iter().filter(|contenders| **contenders > 0).count(),
            contenders_each: each.iter().copied().max().unwrap_or(0),
            clock_fits: pipe.clock_fits,
            echo: EchoTimes::of(pipe.reader),
            contender_echo: EchoTimes::of(pipe.contender),
            echo_under_load: EchoTimes::of(pipe.under_load),
        }
    };
    taken.map(of_place).reduce(|one, other| {
        let program = format!("{} and {}", one.program, other.program);
        DriverRecord { program, ..one + other }
    })
}
