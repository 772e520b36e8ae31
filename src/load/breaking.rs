//! The faults of a trial, beside its load: where they find what they hit, and what is written down of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use tokio_util::sync::CancellationToken;

use super::elections::Elections;
use super::environment::Environment;
use super::event::{Event, Sink};
use super::knobs::Knobs;
use super::shared::Shared;
use crate::catalog::fault::{Ends, FaultChoice, Proof};
use crate::clock::Stamp;
use crate::ensemble::{Links, Processes};
use crate::fault::{Contenders, Doing, Door, Fired, News, Schedule, Site, find, run};
use crate::record::FaultRecord;
use crate::scenario::TrialSpec;
use crate::zk::SessionKey;
use crate::zk::gate::Gate;

/// The contenders as faults see them.
struct Seen<'a> {
    shared: &'a Shared,
    /// Locks acquired before the measured phase.
    before: u64,
}

impl Seen<'_> {
    fn knobs(&self, contender: usize) -> &Arc<Knobs> {
        &self.shared.knobs[contender]
    }
}

impl Contenders for Seen<'_> {
    fn count(&self) -> usize {
        self.shared.knobs.len()
    }

    fn inside(&self) -> Vec<usize> {
        self.shared.scenes.iter().flat_map(super::scene::Scene::all_inside).collect()
    }

    fn waiting(&self) -> Vec<usize> {
        let since = |id: usize| self.knobs(id).waiting_since().map(|since| (since, id));
        let mut waiting: Vec<_> = (0..self.count()).filter_map(since).collect();
        waiting.sort_unstable();
        waiting.into_iter().map(|(_, id)| id).collect()
    }

    fn waits_since(&self, contender: usize) -> Option<Stamp> {
        self.knobs(contender).waiting_since()
    }

    fn gate(&self, contender: usize) -> Arc<Gate> {
        Arc::clone(&self.knobs(contender).gate)
    }

    fn door(&self, contender: usize) -> Arc<Door> {
        Arc::clone(&self.knobs(contender).door)
    }

    fn session(&self, contender: usize) -> Option<SessionKey> {
        self.knobs(contender).session()
    }

    fn has_expired(&self, contender: usize, session: i64) {
        self.knobs(contender).has_expired(session);
    }

    fn clock_jumps(&self, contender: usize, by: Duration) {
        self.knobs(contender).clock.jump(by);
    }

    fn crash(&self, contender: usize, doing: Doing) {
        self.knobs(contender).crash(doing);
    }

    fn times_died(&self, contender: usize) -> u64 {
        self.knobs(contender).times_died()
    }

    fn acquired(&self) -> u64 {
        self.shared.board.acquired.load(Ordering::Acquire) - self.before
    }
}

/// When faults may fire, and who hears of them.
pub struct Course<'a> {
    /// The begin of the measured phase.
    pub begin: Stamp,
    /// Its end.
    pub stop: CancellationToken,
    /// The user's wish to end all.
    pub interrupt: CancellationToken,
    /// Where it is told what happens.
    pub sink: Sink<'a>,
}

/// Does what the trial's faults say, from the begin of the measured phase until it is told to stop.
pub async fn break_things(
    environment: &Environment,
    shared: &Shared,
    course: Course<'_>,
) -> Vec<FaultRecord> {
    let Course { begin, stop, interrupt, sink } = course;
    let before = shared.board.acquired.load(Ordering::Acquire);
    let seen = Seen { shared, before };
    let site = Site {
        contenders: &seen,
        target: &environment.target,
        processes: environment.local.as_deref().map(|local| local as &dyn Processes),
        links: environment.local.as_deref().map(|local| local as &dyn Links),
        proxy: environment.proxy.as_deref(),
    };
    let spec = &shared.spec;
    let tell = |choice: &FaultChoice, news: News<'_>| tell(sink, choice, news);
    let schedule = Schedule { faults: &spec.faults, seed: spec.seed, begin, stop, interrupt, tell: &tell };
    let servers = servers_to_watch(environment, spec);
    let elections = Elections::from_now_on(servers).await;
    let over = CancellationToken::new();
    let firing = async {
        let fired = run(&schedule, &site).await;
        over.cancel();
        fired
    };
    let watching = elections.watch(servers, &over);
    let (fired, ()) = join(firing, watching).await;
    let numbered = fired.into_iter().enumerate();
    numbered.map(|(place, fired)| record(shared, begin, (place + 1, fired), &elections)).collect()
}

/// The servers, if any of the faults hits servers: no other one makes them elect.
fn servers_to_watch<'a>(environment: &'a Environment, spec: &TrialSpec) -> &'a [String] {
    let hits_servers =
        |choice: &FaultChoice| find(&choice.kind).is_some_and(|entry| entry.card.needs.reaches_servers());
    if spec.faults.iter().any(hits_servers) { &environment.servers } else { &[] }
}

/// Says what has happened to a fault. One that ends by itself is over when it is done.
fn tell(sink: Sink<'_>, choice: &FaultChoice, news: News<'_>) {
    let label = &choice.label;
    let is_healed = find(&choice.kind).is_some_and(|entry| entry.card.ends == Ends::Healed);
    match news {
        News::Done(target, Proof::Proved(_)) => {
            sink(Event::Note(&format!("fault `{label}` took effect on {target}")));
        }
        News::Done(_, Proof::NotProved(why)) => {
            sink(Event::Note(&format!("fault `{label}`: no effect was seen: {why}")));
        }
        News::Undone if is_healed => sink(Event::Note(&format!("fault `{label}` is undone"))),
        News::Undone => {}
        News::Left(why) => sink(Event::Warning(&format!("fault `{label}` is not undone: {why}"))),
    }
}

fn record(
    shared: &Shared,
    begin: Stamp,
    (number, fired): (usize, Fired),
    elections: &Elections,
) -> FaultRecord {
    let choice = &shared.spec.faults[fired.fault];
    let since = |at: Stamp| at as i64 - begin as i64;
    FaultRecord {
        number,
        kind: choice.kind.clone(),
        label: choice.label.clone(),
        target: fired.target,
        asked_us: since(fired.asked),
        effective_us: fired.effective.map(since),
        ended_us: fired.ended.map(since),
        proof: fired.proof,
        left: fired.left,
        elected_us: elections.first_between(fired.asked, fired.ended.unwrap_or(Stamp::MAX)),
        longest_gap_us: None,
        recovered_us: None,
    }
}

/// Writes down how long nobody got a lock around each fault. To be asked when the load has ended: a gap is known
/// when it is over.
pub fn measure_gaps(shared: &Shared, begin: Stamp, faults: &mut [FaultRecord]) {
    let stamp = |at: i64| begin.saturating_add_signed(at);
    for fault in faults {
        let from = stamp(fault.asked_us);
        let until = fault.ended_us.or(fault.effective_us).map_or(from, stamp);
        fault.longest_gap_us = shared.gaps.longest_between(from, until);
        fault.recovered_us = fault.effective_us.and_then(|at| shared.gaps.recovered_after(stamp(at)));
    }
}
