//! Remarks on a run: one line for each mark or problem.

use std::ops::Add;

use super::{AccountingRow, Cell, View};
use zklockbench_core::measure::{HIGHEST_US, Measure};
use zklockbench_core::units::{
    a_day, cell_name, counted, format_duration, format_micros, joined, number, percent,
};
use zklockbench_record::figures::{NODES_LEFT, OFFERED, OVERRAN, RELEASES_OVERRAN, THROUGHPUT};
use zklockbench_record::{Arrived, Disagreement, Election, FigureEntry, LimitedHolds, Stuck, Trial};

/// Maximum number of listed reasons for a violation per cell.
const REASONS_TOLD: usize = 3;

/// A remark on a cell, without its kind and the name of the cell.
type Remark = fn(&Cell<'_>) -> Option<String>;

impl View<'_> {
    /// Returns all remarks: those on the run itself, violations, invalid and partial trials, leftovers of
    /// faults, and disagreements in counts.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks.clone();
        notes.extend(self.marks());
        notes.extend(self.cells.iter().flat_map(Cell::all).flat_map(notes_on_faults));
        notes.extend(self.disagreements());
        notes.extend(self.cells.iter().flat_map(|cell| self.notes_on_the_wire(cell)));
        notes
    }

    /// Returns remarks on violated cells, on trials with doubtful results, and on problems of whole cells such as
    /// unserved waits.
    fn marks(&self) -> Vec<String> {
        let violated = self.cells.iter().flat_map(|cell| self.violated(cell));
        let doubts = self.cells.iter().flat_map(Cell::all).flat_map(doubts_of);
        let remarks: [(&str, Remark); 5] = [
            ("unserved", unserved),
            ("hold limit", limited),
            ("overran", overran),
            ("nodes left", nodes_left),
            ("orphans", orphans),
        ];
        let of_cells = remarks.iter().flat_map(|(what, remark)| {
            let told = move |cell| Some(format!("{what}: {}: {}", self.name(cell), remark(cell)?));
            self.cells.iter().filter_map(told)
        });
        violated.chain(doubts).chain(of_cells).collect()
    }

    fn violated(&self, cell: &Cell<'_>) -> Vec<String> {
        let of = format!("violated: {}", self.name(cell));
        let trials = cell.all().filter(|trial| trial.is_violated());
        let reasons = trials.flat_map(|trial| {
            let number = trial.spec.repetition;
            trial.judged.verdict.reasons().iter().map(move |why| (number, why))
        });
        let reasons = reasons.map(|(number, why)| format!("{of}, repetition {number}: {why}"));
        let mut lines: Vec<String> = reasons.collect();
        let more = lines.drain(lines.len().min(REASONS_TOLD)..).count();
        let reasons = counted(more, "more reason", "more reasons");
        lines.extend((more > 0).then(|| format!("{of}: {reasons}, in the files of its trials")));
        lines
    }

    fn disagreements(&self) -> Vec<String> {
        let shown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let told = |row: AccountingRow| {
            let (name, what) = (cell_name(&row.strategy, row.contenders), row.line.what.name());
            let [client, model, servers] = [row.line.client, row.line.expected, row.line.servers].map(shown);
            format!("counts disagree: {name}: {what}: client {client}, cost model {model}, servers {servers}")
        };
        self.accounting().into_iter().filter(|row| row.agrees == Some(false)).map(told).collect()
    }

    /// Returns remarks on missing wire counts, and on wire counts that differ from the client's.
    fn notes_on_the_wire(&self, cell: &Cell<'_>) -> Vec<String> {
        let name = self.name(cell);
        let Some(counting) = cell.on_the_wire() else {
            let mut failed = cell.counting().filter_map(|one| one.counting.as_ref()?.missing.as_ref());
            let why = failed.next().map(|why| format!("not counted: {name}: on the wire: {why}"));
            return why.into_iter().collect();
        };
        let fan_out =
            counting.by_release_missing.iter().map(|why| format!("not counted: {name}: fan-out: {why}"));
        let disagree = counting.disagreements().into_iter().map(|Disagreement { what, wire, client }| {
            let what = what.replace('_', " ");
            format!("counts disagree: {name}: {what}: on the wire {wire}, client {client}")
        });
        fan_out.chain(disagree).collect()
    }

    fn name(&self, cell: &Cell<'_>) -> String {
        cell_name(self.label(cell), cell.contenders)
    }
}

/// Returns reasons to doubt the results of a trial, such as outages and errors.
fn doubts_of(trial: &Trial) -> Vec<String> {
    let of = trial.repetition();
    let stood = trial.standstill.as_ref().map(|stood| {
        let signs = stood.signs.join("; ");
        let signs = if signs.is_empty() { "cause unknown" } else { &signs };
        let lasted = format_micros(stood.lasted_us);
        format!("for {lasted} the lock was free, but no waiter acquired it: {signs}")
    });
    let saturated = trial.measured.saturated;
    let saturated = (saturated > 0).then(|| {
        let samples = counted(saturated, "sample counts", "samples count");
        format!("{samples} as {}, but took longer", format_micros(HIGHEST_US))
    });
    // Errors are expected in trials with faults.
    let errors = trial.told_errors().filter(|_| trial.faults.is_empty());
    let elections = trial.unexplained_elections();
    let elections = elections.map(|one| ("election", Some(told(one, trial.measured_us))));
    let before = [
        ("invalid", trial.health.invalid.clone()),
        ("partial", trial.cut_short.as_ref().map(|cut| cut.why.clone())),
        ("outage", stood),
    ];
    let not_resumed = ("not resumed", trial.sessions.told_not_resumed());
    let after = [("too long", saturated), ("errors", errors), not_resumed];
    let doubts = before.into_iter().chain(elections).chain(after).chain(of_open_load(trial));
    doubts.filter_map(|(what, text)| Some(format!("{what}: {of}: {}", text?))).collect()
}

/// Returns one line for each stuck contender, and for each fault that was not proved or not healed.
fn notes_on_faults(trial: &Trial) -> Vec<String> {
    let of = trial.repetition();
    let mut notes = stuck(trial, &of);
    for fault in &trial.faults {
        let which = format!("{of}: fault {} ({} on {})", fault.number, fault.label, fault.target);
        notes.extend((!fault.proved).then(|| format!("not proved: {which}: {}", fault.proof)));
        notes.extend(fault.left.as_ref().map(|why| format!("not healed: {which}: {why}")));
    }
    notes
}

/// Describes the unserved waits of a cell, if there are many. A few waits are in progress whenever a phase
/// ends.
fn unserved(cell: &Cell<'_>) -> Option<String> {
    let (unserved, timed_out) = (cell.sum(Trial::unserved), cell.sum(Trial::timed_out));
    let acquired = cell.sum(|one| one.measured.acquired());
    let told = timed_out > 0 || cell.longest(Measure::Wait).is_some_and(|longest| longest.at_least);
    let others = unserved.saturating_sub(timed_out);
    let said = format!(
        "{acquired} acquired, {timed_out} timed out, {others} failed otherwise or were still waiting"
    );
    (unserved > 0 && told).then_some(said)
}

/// Describes the holds at and beyond the scenario's limit.
fn limited(cell: &Cell<'_>) -> Option<String> {
    let all = cell.all().filter_map(|trial| trial.limited_holds).reduce(LimitedHolds::add)?;
    let [overrun, blocked] = [all.longest_overrun_us, all.longest_blocked_us].map(format_micros);
    let ended = format!("{} ended at the limit", counted(all.ended_at_limit, "hold", "holds"));
    let overran = (all.overran > 0).then(|| format!("{} lasted longer, by up to {overrun}", all.overran));
    let blocked = format!("stuck holders blocked others beyond it for up to {blocked}");
    let blocked = (all.blocked > 0).then_some(blocked);
    Some(joined([ended].into_iter().chain(overran).chain(blocked), "; "))
}

/// Describes the nodes that fresh locks leave, and their growth over a day at the measured rate.
fn nodes_left(cell: &Cell<'_>) -> Option<String> {
    let nodes = cell.figure(&NODES_LEFT)?;
    if nodes <= 0.0 {
        return Some("none".to_owned());
    }
    let growth = |rate: f64| format!(", {} a day at {}/s", a_day(nodes * rate), number(rate));
    let growth = cell.figure(&THROUGHPUT).map_or_else(String::new, growth);
    Some(format!("{} per acquisition{growth}; of these, servers remove empty containers", number(nodes)))
}

/// Describes the acquires and releases that exceeded the acquire timeout, with the longest excess of each.
fn overran(cell: &Cell<'_>) -> Option<String> {
    let timeout = cell.all().find_map(|one| one.spec.acquire_timeout)?;
    let told = |entry: &FigureEntry, measure, one: &str, many: &str| {
        let count = cell.sum(|trial| entry.of(trial).unwrap_or(0.0) as u64);
        let longest = cell.longest(measure)?;
        Some(format!("{} by up to {}", counted(count, one, many), longest.shown()))
    };
    let acquires = told(&OVERRAN, Measure::Overrun, "acquire", "acquires");
    let releases = told(&RELEASES_OVERRAN, Measure::ReleaseOverrun, "release", "releases");
    let all = joined(acquires.into_iter().chain(releases), " and ");
    let timeout = format_duration(timeout);
    (!all.is_empty()).then(|| format!("the timeout of {timeout} was exceeded by {all}"))
}

/// Describes the nodes left in the trials of a cell, with examples.
fn orphans(cell: &Cell<'_>) -> Option<String> {
    let left: u64 = cell.sum(|trial| trial.orphans.unwrap_or(0));
    let first = cell.all().find(|trial| trial.orphans.is_some_and(|left| left > 0))?;
    let acquired = cell.sum(|trial| trial.whole.acquired()).max(1);
    let each = number(left as f64 / acquired as f64);
    let nodes = counted(left, "node was", "nodes were");
    let named = joined(first.orphan_nodes.iter().take(ORPHANS_TOLD).map(String::as_str), ", ");
    let named = if named.is_empty() { named } else { format!(": {named}") };
    Some(format!("{nodes} left after all contenders had released, {each} per acquisition{named}"))
}

/// Returns remarks on one trial: a growing queue, a missed rate with its likely limit, and dropped arrivals.
fn of_open_load(trial: &Trial) -> Vec<(&'static str, Option<String>)> {
    let Some(Arrived { offered, dropped, .. }) = trial.arrived else { return Vec::new() };
    let grows = trial.steady.as_ref().and_then(|steady| steady.grows_per_s()).map(number);
    let unstable =
        grows.map(|grows| format!("the queue grew by {grows} a second, so waits have no percentiles"));
    // Failed tries do not count as missed acquisitions.
    let rates = OFFERED.of(trial).zip(THROUGHPUT.of(trial)).filter(|_| !trial.spec.only_tries());
    let missed = rates.filter(|(due, achieved)| *achieved < Arrived::ACHIEVED * due);
    let missed = missed.map(|(due, achieved)| {
        let (due, achieved) = (number(due), number(achieved));
        format!("{achieved} of {due} acquisitions a second; in use: {}", in_use(trial))
    });
    let distorted = trial.dispersion.iter().find(|one| one.is_off()).map(|first| {
        let [issued, scheduled] = [first.issued, first.scheduled].map(number);
        let windows = format!("{} windows of {}", first.windows, format_micros(first.width_us));
        format!(
            "arrivals were not issued as scheduled: over {windows} the index of dispersion is {issued}, but \
             {scheduled} was scheduled"
        )
    });
    let dropped = (dropped > 0).then(|| format!("{dropped} of {offered} arrivals found no free session"));
    vec![("unstable", unstable), ("missed", missed), ("distorted", distorted), ("dropped", dropped)]
}

/// Describes the possible limits of the throughput, each with its utilisation, highest first.
fn in_use(trial: &Trial) -> String {
    let lock = trial.utilisation.map(|used| ("the busiest lock", used.busiest));
    let generator = Some(("the generator's processor", trial.health.cpu_share));
    let host = trial.health.host_idle_share.map(|idle| ("this host's processors", 1.0 - idle));
    let disk = trial.busiest_disk().map(|share| ("the servers' log", share));
    let mut used: Vec<(&str, f64)> = [lock, generator, host, disk].into_iter().flatten().collect();
    used.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    joined(used.into_iter().map(|(what, share)| format!("{what} {}", percent(share))), ", ")
}

/// Returns a sentence on an election and its time.
fn told(election: &Election, measured_us: u64) -> String {
    let Election { leader, seen_us, .. } = election;
    let when = match u64::try_from(*seen_us) {
        Err(_) => "before the measured phase".to_owned(),
        Ok(us) if us > measured_us => "after the measured phase".to_owned(),
        Ok(us) => format!("{} into the measured phase", format_micros(us)),
    };
    format!("the servers elected a new leader, {leader}, first seen {when}; no fault caused this")
}

/// Maximum number of listed stuck contenders per trial. If a lock is blocked, all its contenders are stuck.
const STUCK_TOLD: usize = 20;

fn stuck(trial: &Trial, of: &str) -> Vec<String> {
    let told = trial.stuck.iter().take(STUCK_TOLD).map(|one| format!("stuck: {of}: {}", who(one)));
    let (more, file) = (trial.stuck.len().saturating_sub(STUCK_TOLD), trial.spec.index);
    let all = format!("stuck: {of}: {more} more; trials/{file:03}.json lists them all");
    told.chain((more > 0).then_some(all)).collect()
}

fn who(stuck: &Stuck) -> String {
    let Stuck { contender, lock, waited_us, node, position, blocked_by, watches, .. } = stuck;
    let node = node.as_ref().map_or_else(|| "no node found".to_owned(), |node| format!("node {node}"));
    let before = position.map(|before| format!("nodes before it: {before}"));
    let blocked = blocked_by.as_ref().map(|first| format!("blocked by {first}"));
    let watches = if watches.is_empty() { "nothing".to_owned() } else { watches.join(" ") };
    let waited = format!("contender {contender} waited {} for lock {lock}", format_micros(*waited_us));
    let parts = [Some(waited), Some(node), before, blocked, Some(format!("watches {watches}"))];
    joined(parts.into_iter().flatten(), ", ")
}

/// Maximum number of orphans listed in a note.
const ORPHANS_TOLD: usize = 3;
