//! The faults of a trial, beside its load: where they find what they hit, and what is written down of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::control::Control;
use super::elections::Elections;
use super::environment::{Environment, EnvironmentEvent, Sink};
use super::gaps::FaultTime;
use super::shared::Shared;
use crate::record::FaultRecord;
use crate::scenario::Slice;
use crate::words::catalog::fault::{Ends, FaultChoice, Proof, Target};
use crate::words::clock::{self, Stamp};
use crate::world::ensemble::Processes;
use crate::world::fault::{
    Admission, Contenders, CrashOrder, Doing, FaultReach, Fired, InEffect, News, Schedule, find, run,
};
use crate::world::zk::SessionKey;
use crate::world::zk::gate::Gate;

struct ContenderStates<'a> {
    shared: &'a Shared,
    /// Locks acquired before the measured phase.
    before: u64,
}

impl ContenderStates<'_> {
    fn control(&self, contender: usize) -> &Arc<Control> {
        &self.shared.controls[contender]
    }
}

impl Contenders for ContenderStates<'_> {
    fn all(&self) -> Vec<usize> {
        self.shared.own().collect()
    }

    fn inside(&self) -> Vec<usize> {
        self.shared.lock_states.iter().flat_map(super::lock_state::LockState::all_inside).collect()
    }

    fn waiting(&self) -> Vec<usize> {
        let since = |id: usize| self.control(id).waiting_since().map(|since| (since, id));
        let mut waiting: Vec<_> = self.shared.own().filter_map(since).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    fn waits_since(&self, contender: usize) -> Option<Stamp> {
        self.control(contender).waiting_since()
    }

    fn gate(&self, contender: usize) -> Arc<Gate> {
        Arc::clone(&self.control(contender).gate)
    }

    fn admission(&self, contender: usize) -> Arc<Admission> {
        Arc::clone(&self.control(contender).admission)
    }

    fn session(&self, contender: usize) -> Option<SessionKey> {
        self.control(contender).session()
    }

    fn is_being_closed(&self, contender: usize, session: i64) {
        self.control(contender).is_being_closed(session);
    }

    fn was_closed(&self, contender: usize, session: i64) {
        self.control(contender).was_closed(session);
    }

    fn clock_jumps(&self, contender: usize, by: Duration) {
        self.control(contender).clock.jump(by);
    }

    fn crash(&self, contender: usize, doing: Doing) -> CrashOrder {
        self.control(contender).crashes.give(doing)
    }

    fn acquired(&self) -> u64 {
        (self.shared.board.acquired.load(Ordering::Acquire) - self.before) * self.shared.slice.of as u64
    }
}

/// When faults may fire, and who hears of them.
pub struct FaultWindow<'a> {
    pub begin: Stamp,
    pub stop: CancellationToken,
    pub interrupt: CancellationToken,
    pub elections: &'a Elections,
    /// Where it is told what happens.
    pub sink: Sink<'a>,
}

/// Does what the trial's faults say, from the begin of the measured phase until it is told to stop.
pub async fn break_things(
    environment: &Environment,
    shared: &Shared,
    window: FaultWindow<'_>,
) -> Vec<FaultRecord> {
    let FaultWindow { begin, stop, interrupt, elections, sink } = window;
    let before = shared.board.acquired.load(Ordering::Acquire);
    let seen = ContenderStates { shared, before };
    let reach = FaultReach {
        contenders: &seen,
        target: &environment.target,
        processes: environment.local.as_deref().map(|local| local as &dyn Processes),
        links: environment.local.as_deref().and_then(|local| local.links()),
        proxy: environment.proxy.as_deref(),
        in_effect: InEffect::default(),
    };
    let spec = &shared.spec;
    let tell = |choice: &FaultChoice, news: News<'_>| tell(sink, choice, news);
    let is_ours = |fault: usize, time: u32| is_of(shared.slice, &spec.faults[fault], fault + time as usize);
    let (faults, seed) = (&spec.faults, spec.seed);
    let schedule = Schedule { faults, is_ours: &is_ours, seed, begin, stop, interrupt, tell: &tell };
    let fired = run(&schedule, &reach).await;
    let numbered = fired.into_iter().enumerate();
    numbered.map(|(place, fired)| record(shared, begin, place + 1, fired, elections)).collect()
}

/// Whether a firing of that ordinal is of that worker: the first, where it hits servers; the one whose contender it names; of
/// all, where it hits all contenders; or the one that has its ordinal.
fn is_of(slice: Slice, choice: &FaultChoice, ordinal: usize) -> bool {
    if find(&choice.kind).is_some_and(|entry| entry.card.needs.reaches_servers()) {
        return slice.leads();
    }
    match choice.target {
        Target::Contender(number) => slice.has(number),
        Target::Word("all") => true,
        _ => slice.has(ordinal),
    }
}

/// Says what has happened to a fault. One that ends by itself is over when it is done.
fn tell(sink: Sink<'_>, choice: &FaultChoice, news: News<'_>) {
    let label = &choice.label;
    let is_healed = find(&choice.kind).is_some_and(|entry| entry.card.ends == Ends::Healed);
    match news {
        News::Done(target, Proof::Proved(_)) => {
            sink(EnvironmentEvent::Note(&format!("fault `{label}` took effect on {target}")));
        }
        News::Done(_, Proof::NotProved(why)) => {
            sink(EnvironmentEvent::Note(&format!("fault `{label}` had no visible effect: {why}")));
        }
        News::Lost(why) => {
            sink(EnvironmentEvent::Warning(&format!("fault `{label}` did not last until its end: {why}")));
        }
        News::Undone if is_healed => sink(EnvironmentEvent::Note(&format!("fault `{label}` was undone"))),
        News::Undone => {}
        News::Left(why) => {
            sink(EnvironmentEvent::Warning(&format!("fault `{label}` could not be undone: {why}")))
        }
    }
}

fn record(shared: &Shared, begin: Stamp, number: usize, fired: Fired, elections: &Elections) -> FaultRecord {
    let choice = &shared.spec.faults[fired.fault];
    let since = |at: Stamp| clock::signed_difference(at, begin);
    let (proved, proof) = match fired.proof {
        Proof::Proved(how) => (true, how),
        Proof::NotProved(why) => (false, why),
    };
    FaultRecord {
        number,
        kind: choice.kind.clone(),
        label: choice.label.clone(),
        target: fired.target,
        asked_us: since(fired.asked),
        effective_us: fired.effective.map(since),
        ended_us: fired.ended.map(since),
        proved,
        proof,
        left: fired.left,
        elected_us: elections.first_between(fired.asked, fired.ended.unwrap_or(Stamp::MAX)),
        longest_gap_us: None,
        wait_p99: None,
        recovered_us: None,
        disturbance: None,
        meanwhile: None,
    }
}

/// Writes down how long no lock was acquired around each fault, once the load has ended: a gap is known when it is over.
pub fn measure_gaps(shared: &Shared, begin: Stamp, faults: &mut [FaultRecord]) {
    let stamp = |at: i64| begin.saturating_add_signed(at);
    let now = clock::now();
    let asked: Vec<Stamp> = faults.iter().map(|fault| stamp(fault.asked_us)).collect();
    let next_after = |from| asked.iter().copied().filter(|at| *at > from).min().unwrap_or(Stamp::MAX);
    // From when on the load is as it usually is.
    let mut since = begin;
    for fault in faults {
        let from = stamp(fault.asked_us);
        let until = fault.ended_us.or(fault.effective_us).map_or(from, stamp);
        let next = next_after(from);
        let gaps = shared.gaps.due_to(FaultTime { from, until, next }, now);
        fault.longest_gap_us = gaps.iter().flatten().map(|gap| gap.lasted_us()).max();
        let gaps_end = gaps.iter().flatten().map(|gap| gap.end).max();
        // An arrival in a gap waits for longest.
        let over = until.saturating_add(fault.longest_gap_us.unwrap_or(0)).max(gaps_end.unwrap_or(from));
        if let Some(open) = &shared.open {
            fault.wait_p99 = open.waits(from..over).map(|waits| waits.p99);
            fault.disturbance = open.disturbed(since..from, &gaps);
            let drained = fault.disturbance.and_then(|of| of.drained_us).unwrap_or(0);
            let settled = gaps_end.unwrap_or(from) + drained;
            fault.meanwhile =
                fault.ended_us.and_then(|ended| open.waits(settled.min(stamp(ended))..stamp(ended)));
        }
        since = over;
        fault.recovered_us = fault.effective_us.map(stamp).and_then(|effective| {
            let fault = FaultTime { from: effective, until: effective, next };
            shared.gaps.recovered_after(fault, now)
        });
    }
}
