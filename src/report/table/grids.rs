//! What each table holds: its columns, how soon one is left out where the terminal is narrow, and its rows.

use super::{Column, Grid, NOT_MEASURED, numbers, words};
use crate::measure::Measure;
use crate::report::View;
use crate::report::view::{
    AccountingRow, Cell, Compared, CrossCheck, FaultFigures, Repetition, Spread, TrialFigures, UnderFault,
    gap_word, recovery_word, verdict_word,
};
use crate::results::record::{Arrived, Timing};
use crate::units::{format_micros, number};

/// How many columns there are.
const COUNT: usize = 23;

/// Every column, from left to right.
const COLUMNS: [Column; COUNT] = [
    words("strategy"),
    numbers("contenders", 0),
    numbers("reps", 8),
    numbers("offered/s", 1),
    numbers("acq/s", 0),
    numbers("min-max", 4),
    numbers("wait p50", 0),
    numbers("wait p99", 0),
    numbers("wait max", 5),
    numbers("handoff p50", 3),
    numbers("handoff/floor", 3),
    numbers("uncontended/floor", 8),
    numbers("unserved", 1),
    numbers("standstill", 1),
    numbers("fan-out", 0),
    numbers("requests/acq", 2),
    numbers("notifications/acq", 7),
    numbers("overtaken", 6),
    numbers("fairness", 9),
    numbers("readers", 10),
    numbers("violations", 1),
    words("verdict"),
    Column { heading: "marks", numbers: false, spare: 1 },
];

impl Grid {
    /// Every heading that a legend explains.
    pub(super) fn headings() -> Vec<&'static str> {
        COLUMNS.iter().chain(&FAULT_COLUMNS).map(|column| column.heading).collect()
    }

    /// The main table: one row for each strategy and contender count.
    pub(super) fn of(view: &View) -> Self {
        let rows = view.cells.iter().map(|cell| row(view, cell).to_vec()).collect();
        Self { columns: COLUMNS.to_vec(), labels: 1, rows }.without_idle_columns()
    }
}

/// What the table's figures are, in one sentence.
pub(super) fn legend(view: &View) -> String {
    let repeated = view.cells.iter().any(|cell| cell.repetitions.len() > 1);
    let figures = if repeated { "Medians of the valid repetitions. " } else { "" };
    let unserved = view.cells.iter().any(|cell| cell.sum(Repetition::unserved) > 0);
    let bound =
        view.cells.iter().any(|cell| cell.longest(Measure::Wait).is_some_and(|longest| longest.at_least));
    let unserved = match (unserved, bound) {
        (false, _) => "",
        (true, false) => "unserved: waits that ended without the lock, or were still going on at the end; ",
        (true, true) => {
            "unserved: waits that ended without the lock, or were still going on at the end; ≥: at least, because of them; "
        }
    };
    format!(
        "{figures}acq: acquisition; {}{unserved}fan-out: notifications that one release causes; overtaken: share of acquisitions \
         where a later arrival got in first; fairness: Jain's index, 1 is fair; -: not measured.",
        floor(view)
    )
}

/// What the multiples are multiples of; nothing where no floor was measured.
fn floor(view: &View) -> String {
    let Some(floor) = &view.floor else { return String::new() };
    let told = |name: &str, what: &str, timing: Option<Timing>| {
        let Timing { count, p50_us, .. } = timing?;
        Some(format!(
            "{name}/floor: its median as a multiple of {}, the median of {count} {what}",
            format_micros(p50_us)
        ))
    };
    let told = [
        told("handoff", "handoffs without a lock, measured before the first trial", floor.handoff),
        told("uncontended", "uncontended acquires by raw requests", floor.uncontended),
    ];
    told.into_iter().flatten().map(|told| told + "; ").collect()
}

/// One row: a text for each column.
fn row(view: &View, cell: &Cell) -> [String; COUNT] {
    let percentile = |measure, quantile| match cell.percentile(measure, quantile) {
        Some(value) => value.shown(),
        None if measure == Measure::Wait && cell.is_unstable() => UNSTABLE.to_owned(),
        None => not_measured(),
    };
    [
        view.label(cell).to_owned(),
        contenders(cell),
        repetitions(cell),
        median(cell, |one| one.open.as_ref()?.offered_per_s),
        median(cell, |one| one.throughput),
        cell.spread(|one| one.throughput).map_or_else(not_measured, ends),
        percentile(Measure::Wait, 0.5),
        percentile(Measure::Wait, 0.99),
        cell.longest(Measure::Wait).map_or_else(not_measured, |value| value.shown()),
        percentile(Measure::Handoff, 0.5),
        multiple(view.handoff_over_floor(cell)),
        multiple(view.uncontended_over_floor(cell)),
        unserved(cell),
        standstill(cell),
        median(cell, |one| one.fan_out),
        median(cell, Repetition::requests_total),
        median(cell, |one| one.notifications),
        cell.median(|one| one.overtaken)
            .map_or_else(not_measured, |share| format!("{} %", number(100.0 * share))),
        median(cell, |one| one.fairness),
        median(cell, |one| one.readers),
        cell.violations().to_string(),
        verdict(cell).to_owned(),
        marks(cell),
    ]
}

/// What stands where a percentile would be, if the queue had not grown.
const UNSTABLE: &str = "unstable";

/// As a multiple of the floor: `1.4×`.
fn multiple(of_floor: Option<f64>) -> String {
    of_floor.map_or_else(not_measured, |times| format!("{}×", number(times)))
}

fn not_measured() -> String {
    NOT_MEASURED.to_owned()
}

/// How many repetitions count, and of how many.
fn repetitions(cell: &Cell) -> String {
    let (sound, all) = (cell.repetitions.iter().filter(|one| one.is_sound()).count(), cell.repetitions.len());
    if sound == all { all.to_string() } else { format!("{sound} of {all}") }
}

/// The smallest and the largest; one repetition has no spread.
fn ends(spread: Spread) -> String {
    if spread.count > 1 { format!("{}-{}", number(spread.min), number(spread.max)) } else { not_measured() }
}

fn median(cell: &Cell, figure: impl Fn(&Repetition) -> Option<f64>) -> String {
    cell.median(figure).map_or_else(not_measured, number)
}

/// How many contenders there were, and of how many where some had no session.
fn contenders(cell: &Cell) -> String {
    let took_part = cell.took_part();
    if took_part < cell.contenders as u64 {
        format!("{took_part} of {}", cell.contenders)
    } else {
        cell.contenders.to_string()
    }
}

/// Waits that were not served, in all repetitions.
fn unserved(cell: &Cell) -> String {
    match cell.sum(Repetition::unserved) {
        0 => not_measured(),
        some => some.to_string(),
    }
}

/// The longest standstill that no lock explains.
fn standstill(cell: &Cell) -> String {
    let all = cell.repetitions.iter().filter_map(|one| one.standstill.as_ref());
    all.map(|stood| stood.lasted_us).max().map_or_else(not_measured, format_micros)
}

/// The verdict in a word.
fn verdict(cell: &Cell) -> &'static str {
    let trials: Vec<&Repetition> = cell.repetitions.iter().collect();
    verdict_word(&trials, cell.contenders).unwrap_or(NOT_MEASURED)
}

/// How many trials are invalid or partial; the lines below the table say why.
fn marks(cell: &Cell) -> String {
    let count = |marked: fn(&Repetition) -> bool| cell.repetitions.iter().filter(|one| marked(one)).count();
    let marks =
        [(count(|one| one.invalid.is_some()), "invalid"), (count(|one| one.partial.is_some()), "partial")];
    let said: Vec<String> =
        marks.iter().filter(|(count, _)| *count > 0).map(|(count, mark)| format!("{count} {mark}")).collect();
    if said.is_empty() { NOT_MEASURED.to_owned() } else { said.join(", ") }
}

/// What the columns of the table of open loads are.
pub(super) const OPEN_LEGEND: &str = "wait: from when an arrival was due until it had the lock; in client: the part of it until a \
    contender was free; service: the part from the call of acquire on; lateness: how late the generator made that call; \
    lock busy: share of the time that the busiest lock was held or being handed over.";

impl Grid {
    /// The arrivals of open loads: a row for each strategy and contender count; no rows for other loads.
    pub(super) fn open(view: &View) -> Self {
        let row = |cell: &Cell| {
            let part = |measure, quantile| {
                let us = cell.part_of_wait(measure, quantile).filter(|_| !cell.is_unstable());
                us.map_or_else(not_measured, |us| format_micros(us.round() as u64))
            };
            let count = |count: fn(&Arrived) -> u64| {
                cell.sum(|one| one.open.as_ref().map_or(0, |o| count(&o.arrived)))
            };
            let share = cell.median(|one| Some(one.open.as_ref()?.utilisation?.busiest));
            let late = cell.median(|one| Some(one.open.as_ref()?.lateness_p99_us? as f64));
            let grows = cell.median(|one| one.open.as_ref()?.grows_per_s);
            vec![
                view.label(cell).to_owned(),
                contenders(cell),
                count(|arrived| arrived.offered).to_string(),
                count(|arrived| arrived.served).to_string(),
                count(|arrived| arrived.unserved).to_string(),
                count(|arrived| arrived.dropped).to_string(),
                part(Measure::ClientWait, 0.5),
                part(Measure::ClientWait, 0.99),
                part(Measure::Service, 0.5),
                part(Measure::Service, 0.99),
                late.map_or_else(not_measured, |us| format_micros(us.round() as u64)),
                share.map_or_else(not_measured, |share| format!("{} %", number(100.0 * share))),
                grows.map_or_else(not_measured, |grows| format!("+{}/s", number(grows))),
            ]
        };
        let columns = vec![
            words("open load"),
            numbers("contenders", 0),
            numbers("offered", 0),
            numbers("served", 0),
            numbers("unserved", 0),
            numbers("dropped", 3),
            numbers("in client p50", 4),
            numbers("in client p99", 1),
            numbers("service p50", 5),
            numbers("service p99", 2),
            numbers("lateness p99", 6),
            numbers("lock busy", 1),
            numbers("queue", 1),
        ];
        let rows = view.cells.iter().filter(|cell| cell.is_open()).map(row).collect();
        Self { columns, labels: 1, rows }.without_idle_columns()
    }

    /// The three-way check: client, cost model, servers, count by count.
    pub(super) fn accounting(view: &View) -> Self {
        let row = |row: AccountingRow| {
            vec![
                row.strategy,
                row.contenders.to_string(),
                row.line.what.name().to_owned(),
                counted(row.line.client),
                counted(row.line.expected),
                counted(row.line.servers),
                agree(row.agrees).to_owned(),
            ]
        };
        let columns = vec![
            words("strategy"),
            numbers("contenders", 0),
            words("counted"),
            numbers("client", 0),
            numbers("cost model", 0),
            numbers("servers", 0),
            words("agree"),
        ];
        Self { columns, labels: 1, rows: view.accounting().into_iter().map(row).collect() }
    }

    /// Client against servers in short: a row for each strategy and contender count.
    pub(super) fn cross_check(view: &View) -> Self {
        let row = |check: CrossCheck| {
            let lines = [&check.reads, &check.writes, &check.notifications];
            let agrees =
                lines.iter().filter_map(|line| Some(line.as_ref()?.agrees)).reduce(|all, one| all && one);
            let [reads, writes, notifications] = lines.map(|line| both(line.as_ref()));
            let contenders = check.contenders.to_string();
            vec![check.strategy, contenders, reads, writes, notifications, agree(agrees).to_owned()]
        };
        let columns = vec![
            words("client / servers"),
            numbers("contenders", 0),
            numbers("reads", 0),
            numbers("writes", 0),
            numbers("notifications", 0),
            words("agree"),
        ];
        Self { columns, labels: 1, rows: view.cross_checks().into_iter().map(row).collect() }
    }
}

fn counted(value: Option<u64>) -> String {
    value.map_or_else(|| NOT_MEASURED.to_owned(), |number| number.to_string())
}

fn both(line: Option<&Compared>) -> String {
    line.map_or_else(not_measured, |line| format!("{} / {}", line.client, line.servers))
}

fn agree(agrees: Option<bool>) -> &'static str {
    match agrees {
        Some(true) => "yes",
        Some(false) => "NO",
        None => NOT_MEASURED,
    }
}

/// What the columns of the table are.
const FAULT_LEGEND: &str = "faults: 1 of 2 means that the effect of only one was seen; election: longest time from a \
    fault to the first sight of a new leader; longest gap: longest time between two acquisitions around a fault; recovery: \
    median time from a fault's effect to the next acquisition, or never; recovery max: the longest; too early: entries made \
    before the logs show the previous holder's node deleted, out of those checkable; zombies: entries beside a contender \
    whose session was suspended or gone; unsafe: the longest such time; uncertain: entries that cannot be judged because \
    an outcome is unknown; stuck: contenders still not served after everything was repaired; orphans: ephemeral nodes left \
    at the end; holds lost: holds that ended with their session; waits lost: waits that ended with their session or \
    connection; stale writes: writes made after somebody else had entered; rejected: those that the fencing token turned \
    away; -: not measured.";

/// What stands with which fault.
const SEVERAL: &str = "In trials with several faults, the columns faults, election, longest gap and recovery are per fault, \
    all others per trial.";

/// What the figures of the table of faults are.
pub(super) fn faults_legend(view: &View) -> String {
    let several = view.fault_sets().iter().any(|set| set.single().is_none());
    [FAULT_LEGEND, if several { SEVERAL } else { "" }].join(" ").trim_end().to_owned()
}

/// Positions of columns that say how long nobody was served.
const ELECTION: usize = 4;
const LONGEST_GAP: usize = 5;

const FAULT_COLUMNS: [Column; 20] = [
    words("strategy"),
    words("fault"),
    numbers("contenders", 0),
    numbers("faults", 5),
    numbers("election", 0),
    numbers("longest gap", 0),
    numbers("recovery", 0),
    numbers("recovery max", 3),
    numbers("violations", 0),
    numbers("too early", 4),
    numbers("zombies", 3),
    numbers("unsafe", 7),
    numbers("uncertain", 10),
    numbers("stuck", 2),
    numbers("orphans", 4),
    numbers("sessions lost", 11),
    numbers("holds lost", 6),
    numbers("waits lost", 12),
    numbers("stale writes", 8),
    numbers("rejected", 9),
];

impl Grid {
    /// One row for each strategy, fault and contender count; no rows when nothing was broken.
    pub(super) fn faults(view: &View) -> Self {
        let names: Vec<String> = view.fault_sets().iter().map(|set| set.name()).collect();
        let row = |under: UnderFault| {
            let named = [
                view.label(under.cell).to_owned(),
                names[under.set].clone(),
                under.cell.contenders.to_string(),
            ];
            let faults = under.faults.map_or_else(Default::default, |figures| of_faults(&figures));
            let trials = under.trials.map_or_else(Default::default, |figures| of_trials(&figures));
            let all = named.into_iter().chain(faults).chain(trials);
            all.map(|text| if text.is_empty() { NOT_MEASURED.to_owned() } else { text }).collect()
        };
        let rows: Vec<Vec<String>> = view.under_faults().into_iter().map(row).collect();
        let mut columns = FAULT_COLUMNS.to_vec();
        // What stays on narrow terminals goes all the same where there is nothing of it.
        for at in ELECTION..=LONGEST_GAP {
            columns[at].spare = u8::from(rows.iter().all(|row| row[at] == NOT_MEASURED));
        }
        Self { columns, labels: 2, rows }.without_idle_columns()
    }
}

/// What stands with a fault: empty where nothing was measured.
fn of_faults(figures: &FaultFigures) -> [String; 5] {
    let FaultFigures { fired, proved, .. } = *figures;
    let faults = if proved == fired { fired.to_string() } else { format!("{proved} of {fired}") };
    let [median, longest] = figures.recovery.map_or_else(Default::default, |recovery| {
        [recovery_word(recovery.median_us), recovery_word(recovery.longest_us)]
    });
    let election = figures.elected_us.map_or_else(String::new, format_micros);
    [faults, election, gap_word(figures).unwrap_or_default(), median, longest]
}

fn of_trials(figures: &TrialFigures) -> [String; 12] {
    let unsafe_us = (figures.zombies > 0).then(|| format_micros(figures.longest_unsafe_us));
    [
        figures.violations.to_string(),
        figures.order.map_or_else(String::new, |order| format!("{} of {}", order.too_early, order.compared)),
        figures.zombies.to_string(),
        unsafe_us.unwrap_or_default(),
        figures.uncertain.to_string(),
        figures.stuck.to_string(),
        figures.orphans.map_or_else(String::new, |left| left.to_string()),
        figures.sessions_lost.to_string(),
        figures.holds_lost.to_string(),
        figures.waits_lost.to_string(),
        figures.stale_writes.to_string(),
        figures.stale_rejected.to_string(),
    ]
}
