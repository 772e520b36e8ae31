//! Faults during a trial's load, with their targets and records, and all leader elections.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::gaps::FaultTime;
use super::shared::{Control, Shared};
use super::{Environment, EnvironmentEvent, Sink};
use zklockbench_core::catalog::fault::{Ends, FaultChoice, Proof, Target};
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_ensemble::fault::{
    Admission, Contenders, CrashOrder, Doing, FaultReach, Fired, InEffect, News, Schedule, find,
    reaches_servers, run,
};
use zklockbench_ensemble::proxy::Proxy;
use zklockbench_ensemble::{Leader, roles, voters};
use zklockbench_record::history::SessionState;
use zklockbench_record::{Election, FaultRecord};
use zklockbench_scenario::{Slice, TrialSpec};
use zklockbench_zk::SessionKey;
use zklockbench_zk::gate::Gate;

/// Poll interval for each server if a fault hits servers. It limits how late an election is observed.
const OFTEN: Duration = Duration::from_millis(40);
const SELDOM: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum time from a driver's last data on the wire to the resulting grant.
const GRANTED_WITHIN: Duration = Duration::from_secs(1);

struct ContenderStates<'a> {
    shared: &'a Shared,
    /// Number of acquisitions before the measured phase.
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

    fn locks(&self) -> Vec<String> {
        let states = &self.shared.lock_states;
        states.used().map(|lock_state| states.path(lock_state.number)).collect()
    }

    fn inside(&self) -> Vec<usize> {
        self.shared.lock_states.all_inside()
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

    fn bypasses(&self, contender: usize, proxy: &Proxy) -> bool {
        let control = self.control(contender);
        let Some(session) = control.session() else { return false };
        let served = control.served_at();
        let passed = proxy.last_passed(contender, session.id());
        passed.is_none_or(|passed| served > passed + clock::micros(GRANTED_WITHIN))
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

/// Fires the trial's faults until `stop` or `interrupt`. Fault times count from `begin`.
pub async fn break_things(
    environment: &Environment,
    shared: &Shared,
    begin: Stamp,
    stop: CancellationToken,
    interrupt: CancellationToken,
    elections: &Elections,
    sink: Sink<'_>,
) -> Vec<FaultRecord> {
    let before = shared.board.acquired.load(Ordering::Acquire);
    let seen = ContenderStates { shared, before };
    let reach = FaultReach {
        contenders: &seen,
        target: &environment.target,
        processes: environment.local.as_deref(),
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

/// Returns whether a firing of a fault belongs to this worker. Faults on servers belong to the first worker, faults
/// on a numbered contender to its worker, and faults on all contenders to every worker. All other firings are
/// distributed over the workers by ordinal.
fn is_of(slice: Slice, choice: &FaultChoice, ordinal: usize) -> bool {
    if reaches_servers(&choice.kind) {
        return slice.leads();
    }
    match choice.target {
        Target::Contender(number) => slice.has(number),
        Target::Word("all") => true,
        _ => slice.has(ordinal),
    }
}

/// Reports an event of a fault. A fault that needs no healing is not reported as healed.
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
            sink(EnvironmentEvent::Warning(&format!("fault `{label}` is not proved: {why}")));
        }
        News::Undone if is_healed => sink(EnvironmentEvent::Note(&format!("fault `{label}` was healed"))),
        News::Undone => {}
        News::Left(why) => {
            sink(EnvironmentEvent::Warning(&format!("fault `{label}` could not be healed: {why}")))
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
        ..FaultRecord::default()
    }
}

/// Records the gaps around each fault. Called after the load, because a gap's length is known only at its end.
pub fn measure_gaps(shared: &Shared, begin: Stamp, faults: &mut [FaultRecord]) {
    let stamp = |at: i64| begin.saturating_add_signed(at);
    let now = clock::now();
    let asked: Vec<Stamp> = faults.iter().map(|fault| stamp(fault.asked_us)).collect();
    let next_after = |from| asked.iter().copied().filter(|at| *at > from).min().unwrap_or(Stamp::MAX);
    let losses = locked(&shared.board.losses).clone();
    // Start of the undisturbed load before the fault.
    let mut since = begin;
    for fault in faults {
        let from = stamp(fault.asked_us);
        let until = fault.ended_us.or(fault.effective_us).map_or(from, stamp);
        let next = next_after(from);
        let learned = |since: Stamp, of: SessionState| {
            losses
                .iter()
                .filter(move |(at, state)| (since..next).contains(at) && *state == of)
                .map(|(at, _)| *at)
        };
        let lost = learned(from, SessionState::Expired).count() as u64;
        fault.sessions_lost = (!shared.slice.is_part()).then_some(lost);
        fault.suspended_us = fault
            .effective_us
            .map(stamp)
            .and_then(|effective| learned(effective, SessionState::Suspended).min().map(|at| at - effective));
        let gaps = shared.gaps.due_to(FaultTime { from, until, next }, now);
        fault.longest_gap_us = gaps.iter().flatten().map(|gap| gap.lasted_us()).max();
        let gaps_end = gaps.iter().flatten().map(|gap| gap.end).max();
        // Include the arrivals within the gaps, which wait longest.
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

#[derive(Debug, Clone, Copy)]
struct Sight {
    at: Stamp,
    epoch: u64,
    server: usize,
}

/// Leaders of the ensemble, starting with the initial one, each with its epoch and the time at which a server
/// first reported it.
///
/// Two servers may briefly both claim to lead. A later epoch takes precedence, and a leader counts only after
/// a majority has synchronised with it.
///
/// Each server is polled independently, so that a stalled server does not delay the others. Polls are
/// frequent if a fault may cause elections, to measure the time to a new leader; otherwise, they run once per
/// second. A change of leader between two polls is still noticed, because every election increases the epoch.
#[derive(Debug, Default)]
pub struct Elections {
    servers: Vec<String>,
    /// Number of voting servers.
    voters: usize,
    seen: Mutex<Vec<Sight>>,
}

impl Elections {
    /// Determines the current leader. Each later leader counts as an election.
    pub async fn from_now_on(servers: &[String]) -> Self {
        let voters = voters(&roles(servers).await).len();
        let elections = Self { servers: servers.to_vec(), voters, seen: Mutex::default() };
        elections.look_once().await;
        elections
    }

    /// Polls the servers at an interval that suits the trial; never returns.
    pub async fn watch(&self, spec: &TrialSpec) {
        let hits_servers = spec.faults.iter().any(|fault| reaches_servers(&fault.kind));
        let every = if hits_servers { OFTEN } else { SELDOM };
        let watches = (0..self.servers.len()).map(|server| async move {
            loop {
                tokio::time::sleep(every).await;
                self.look(server).await;
            }
        });
        let _: Vec<()> = join_all(watches).await;
        // Without servers, there is nothing to poll.
        std::future::pending().await
    }

    pub async fn look_once(&self) {
        join_all((0..self.servers.len()).map(|server| self.look(server))).await;
    }

    async fn look(&self, server: usize) {
        let known = locked(&self.seen).last().map(|newest| newest.epoch);
        let (address, all) = (&self.servers[server], &self.servers);
        if let Some(leader) = Leader::elected_after(known, server, address, all, PATIENCE).await
            && leader.is_backed(self.voters)
        {
            self.sees(Sight { at: clock::now(), epoch: leader.epoch, server });
        }
    }

    fn sees(&self, sight: Sight) {
        let mut seen = locked(&self.seen);
        if seen.last().is_none_or(|newest| newest.epoch < sight.epoch) {
            seen.push(sight);
        }
    }

    /// Returns the leaders elected since the start, without the initial leader.
    fn elected(&self) -> Vec<Sight> {
        locked(&self.seen).iter().skip(1).copied().collect()
    }

    /// Returns the time in microseconds from `from` to the first report of a new leader, if there was one by `to`.
    pub fn first_between(&self, from: Stamp, to: Stamp) -> Option<u64> {
        let first = self.elected().into_iter().find(|sight| (from..=to).contains(&sight.at))?;
        Some(first.at - from)
    }

    /// Returns all elections, each with its time relative to the measured phase and the fault that may have
    /// caused it. Returns `None` if no server ever reported a leader.
    pub fn records(&self, begin: Stamp, faults: &[FaultRecord]) -> Option<Vec<Election>> {
        if locked(&self.seen).is_empty() {
            return None;
        }
        let record = |sight: Sight| {
            let seen_us = clock::signed_difference(sight.at, begin);
            let may_be_due = |fault: &&FaultRecord| {
                fault.asked_us <= seen_us && fault.proved && reaches_servers(&fault.kind)
            };
            Election {
                seen_us,
                leader: self.servers[sight.server].clone(),
                epoch: sight.epoch,
                after_fault: faults.iter().filter(may_be_due).map(|fault| fault.number).next_back(),
            }
        };
        Some(self.elected().into_iter().map(record).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns elections in which two servers lead alternately.
    fn seen(sights: &[(Stamp, u64)]) -> Elections {
        let elections =
            Elections { servers: vec!["zk1:2181".into(), "zk2:2181".into()], ..Elections::default() };
        for (at, epoch) in sights {
            let server = usize::from(epoch % 2 == 0);
            elections.sees(Sight { at: *at, epoch: *epoch, server });
        }
        elections
    }

    fn fault(number: usize, kind: &str, asked_us: i64) -> FaultRecord {
        FaultRecord {
            number,
            kind: kind.into(),
            label: kind.into(),
            asked_us,
            effective_us: Some(asked_us),
            proved: true,
            ..FaultRecord::default()
        }
    }

    #[test]
    fn election_is_recognised_by_a_later_epoch() {
        let elections = seen(&[(10, 4), (20, 4), (350, 5), (360, 4), (400, 5), (900, 6)]);
        assert_eq!(elections.first_between(0, 100), None, "the initial leader was not elected");
        assert_eq!(elections.first_between(100, 500), Some(250));
        assert_eq!(elections.first_between(355, 800), None, "the old leader still claims to lead");
        assert_eq!(elections.first_between(500, Stamp::MAX), Some(400));
    }

    #[test]
    fn election_is_attributed_to_the_last_server_fault_before_it() {
        let elections = seen(&[(10, 4), (350, 5), (900, 6)]);
        let faults = [fault(1, "freeze", 100), fault(2, "kill", 500), fault(3, "kill", 950)];
        let records = elections.records(300, &faults).unwrap();
        let records: Vec<_> = records
            .iter()
            .map(|one| (one.seen_us, one.leader.as_str(), one.epoch, one.after_fault))
            .collect();
        assert_eq!(records, [(50, "zk1:2181", 5, None), (600, "zk2:2181", 6, Some(2))]);
    }

    #[test]
    fn records_are_none_if_no_server_reported_a_leader() {
        assert_eq!(seen(&[]).records(0, &[]), None);
        assert_eq!(seen(&[(10, 4)]).records(0, &[]), Some(Vec::new()));
    }
}
