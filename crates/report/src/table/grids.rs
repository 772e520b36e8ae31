//! What each table of a run holds: its columns, how soon one is left out where the terminal is narrow, and its rows.

use super::counts::{self, CountedRow};
use super::{ExplainedTable, Table, numbers, words};
use crate::View;
use crate::document::{Column, Tone, Value};
use crate::view::{
    Cell, EntryOrder, FaultFigures, Percentile, TrialFigures, UnderFault, gap_word, recovery_word,
};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{format_micros, listed, number};
use zklockbench_record::figures::{self, OFFERED, THROUGHPUT, UTILISATION_BUSIEST};
use zklockbench_record::{Arrived, DriverRecord, EchoTimes, FigureColumn, FigureEntry, Timing, Trial};

/// The tables of a run, what was asked first: what became of the locks under faults, then all figures, then the arrivals of
/// open loads.
pub(crate) fn tables(view: &View<'_>) -> Vec<ExplainedTable> {
    let figures = (!view.cells.is_empty()).then(|| {
        let table = Table::whole(view).without_idle_columns();
        ExplainedTable::new("Each strategy with each number of contenders", table, legend(view))
            .without_zeros()
    });
    let open = view.cells.iter().any(Cell::is_open).then(|| {
        ExplainedTable::new("What became of the arrivals", Table::open(view), OPEN_LEGEND).without_zeros()
    });
    let all = [faults_table(view), figures, drivers_table(view), by_kind(view), open];
    all.into_iter().flatten().collect()
}

fn by_kind(view: &View<'_>) -> Option<ExplainedTable> {
    let cells = view.cells.iter().filter_map(|cell| Some((cell, cell.on_the_wire()?)));
    let rows = cells.map(|(cell, counting)| CountedRow {
        labels: vec![view.label(cell).into(), Value::Count(cell.contenders as u64)],
        counting,
    });
    let rows: Vec<CountedRow<'_>> = rows.collect();
    let labels = vec![words("strategy"), numbers("contenders", 0)];
    counts::by_kind(labels, &rows)
}

fn faults_table(view: &View<'_>) -> Option<ExplainedTable> {
    view.has_faults().then(|| {
        ExplainedTable::new("Each strategy under each fault", Table::faults(view), faults_legend(view))
            .without_zeros()
    })
}

const PACE: [Column; 16] = [
    words("strategy"),
    numbers("contenders", 0),
    words("verdict"),
    numbers("reps", 8),
    numbers("offered/s", 1),
    numbers("acq/s", 0),
    numbers("min-max", 4),
    numbers("total time", 1),
    numbers("wait p50", 0),
    numbers("wait p99", 0),
    numbers("wait max", 5),
    numbers("handoff p50", 3),
    numbers("handoff/floor", 3),
    numbers("uncontended/floor", 8),
    numbers("unserved", 1),
    numbers("standstill", 1),
];

const JUDGED: [Column; 2] = [numbers("violations", 1), Column { heading: "marks", numbers: false, spare: 1 }];

fn figures_with_column() -> impl Iterator<Item = (&'static FigureEntry, FigureColumn)> {
    figures::ALL.iter().filter_map(|entry| Some((*entry, entry.column?)))
}

fn columns() -> Vec<Column> {
    let figures = figures_with_column().map(|(_, column)| numbers(column.heading, column.spare));
    PACE.into_iter().chain(figures).chain(JUDGED).collect()
}

impl Table {
    pub(super) fn headings() -> Vec<&'static str> {
        columns().iter().chain(&FAULT_COLUMNS).map(|column| column.heading).collect()
    }

    /// The main table: one row for each strategy and contender count.
    pub fn whole(view: &View<'_>) -> Self {
        let rows = view.cells.iter().map(|cell| row(view, cell)).collect();
        Self { columns: columns(), labels: 1, rows }
    }
}

fn legend(view: &View<'_>) -> String {
    let repeated = view.cells.iter().any(|cell| cell.trials.len() > 1);
    let figures = if repeated { "Medians of the valid repetitions. " } else { "" };
    let has_unserved = view.cells.iter().any(|cell| cell.sum(Trial::unserved) > 0);
    let has_bound =
        view.cells.iter().any(|cell| cell.longest(Measure::Wait).is_some_and(|longest| longest.at_least));
    let unserved = match has_unserved {
        true => "unserved: waits that ended without the lock, or were still going on at the end; ",
        false => "",
    };
    let bound = if has_unserved && has_bound { "≥: at least, because of them; " } else { "" };
    let one_shot = view.cells.iter().flat_map(Cell::all).any(|one| one.total_us().is_some());
    let total = if one_shot { "total time: until everybody had made all of its acquisitions; " } else { "" };
    format!(
        "{figures}acq: acquisition; {total}{}{unserved}{bound}{}{}-: not measured.",
        floor(view),
        of_figures(view),
        on_the_wire(view)
    )
}

/// That some figures of drivers' locks are of trials of their own.
fn on_the_wire(view: &View<'_>) -> String {
    let is_driven = |cell: &&Cell<'_>| cell.all().any(Trial::is_counted_apart);
    if !view.cells.iter().filter(is_driven).any(|cell| cell.on_the_wire().is_some()) {
        return String::new();
    }
    let counted = figures_with_column().filter(|(entry, _)| entry.on_the_wire);
    let headings: Vec<&str> = counted.map(|(_, column)| column.heading).collect();
    format!("{} of drivers: {}; ", listed(&headings), counts::HOW)
}

/// What the columns of figures are of which something was measured.
fn of_figures(view: &View<'_>) -> String {
    let is_measured = |entry: &FigureEntry| view.cells.iter().any(|cell| cell.figure(entry).is_some());
    figures_with_column()
        .filter(|(entry, column)| !column.explained.is_empty() && is_measured(entry))
        .map(|(_, column)| format!("{}: {}; ", column.heading, column.explained))
        .collect()
}

/// What the multiples are multiples of; nothing where no floor was measured.
fn floor(view: &View<'_>) -> String {
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
    let told: String = told.into_iter().flatten().map(|told| told + "; ").collect();
    let multiples = |cell| [view.handoff_over_floor(cell), view.uncontended_over_floor(cell)];
    let is_below = view.cells.iter().flat_map(multiples).flatten().any(|multiple| multiple < BELOW_FLOOR);
    let below =
        if is_below { "a multiple below 1: the host was slower while the floor was measured; " } else { "" };
    told + below
}

/// What is shown as 1 is not below it.
const BELOW_FLOOR: f64 = 0.995;

fn row(view: &View<'_>, cell: &Cell<'_>) -> Vec<Value> {
    let percentile = |measure, quantile| match cell.percentile(measure, quantile) {
        Some(value) => duration(value),
        None if measure == Measure::Wait && cell.is_unstable() => Value::Unstable,
        None => Value::NotMeasured,
    };
    let pace = [
        view.label(cell).into(),
        contenders(cell),
        verdict(cell),
        repetitions(cell),
        figure(cell, &OFFERED),
        figure(cell, &THROUGHPUT),
        Value::or_missing(
            cell.spread(|one| THROUGHPUT.of(one)).filter(|spread| spread.count > 1),
            |spread| Value::Range(spread.min, spread.max),
        ),
        Value::or_missing(cell.median(|one| Some(one.total_us()? as f64)), Value::Duration),
        percentile(Measure::Wait, 0.5),
        percentile(Measure::Wait, 0.99),
        Value::or_missing(cell.longest(Measure::Wait), duration),
        percentile(Measure::Handoff, 0.5),
        Value::or_missing(view.handoff_over_floor(cell), Value::Multiple),
        Value::or_missing(view.uncontended_over_floor(cell), Value::Multiple),
        unserved(cell),
        standstill(cell),
    ];
    let figures = figures_with_column().map(|(entry, _)| figure(cell, entry));
    pace.into_iter().chain(figures).chain([Value::Count(cell.violations()), marks(cell)]).collect()
}

fn duration(value: Percentile) -> Value {
    Value::Duration(value.us).at_least(value.at_least)
}

fn repetitions(cell: &Cell<'_>) -> Value {
    let sound = cell.all().filter(|one| one.is_sound()).count();
    Value::OutOf { part: sound as u64, whole: cell.trials.len() as u64 }
}

fn figure(cell: &Cell<'_>, entry: &FigureEntry) -> Value {
    let in_percent = entry.column.is_some_and(|column| column.in_percent);
    Value::or_missing(cell.figure(entry), if in_percent { Value::Share } else { Value::Amount })
}

/// How many contenders there were, and of how many where some had no session.
fn contenders(cell: &Cell<'_>) -> Value {
    let whole = cell.contenders as u64;
    Value::OutOf { part: cell.took_part().min(whole), whole }
}

fn unserved(cell: &Cell<'_>) -> Value {
    Value::or_missing(Some(cell.sum(Trial::unserved)).filter(|some| *some > 0), Value::Count)
}

fn standstill(cell: &Cell<'_>) -> Value {
    let all = cell.all().filter_map(|one| one.standstill.as_ref());
    Value::or_missing(all.map(|stood| stood.lasted_us).max(), micros)
}

fn micros(us: u64) -> Value {
    Value::Duration(us as f64)
}

fn verdict(cell: &Cell<'_>) -> Value {
    Value::or_missing(cell.verdict(), |verdict| Value::judged(&verdict, cell.is_only_stuck()))
}

/// How many trials are invalid or partial; the lines below the table say why.
fn marks(cell: &Cell<'_>) -> Value {
    let count = |marked: fn(&Trial) -> bool| cell.all().filter(|one| marked(one)).count();
    let marks = [
        (count(|one| one.health.invalid.is_some()), "invalid"),
        (count(|one| one.cut_short.is_some()), "partial"),
    ];
    let said: Vec<String> =
        marks.iter().filter(|(count, _)| *count > 0).map(|(count, mark)| format!("{count} {mark}")).collect();
    Value::or_missing(Some(said).filter(|said| !said.is_empty()), |said| {
        Value::verdict(said.join(", "), Tone::Plain)
    })
}

const OPEN_LEGEND: &str = "wait: from when an arrival was due until it had the lock; in client: the part of it until a \
    contender was free; service: the part from the call of acquire on; lateness: how late the generator made that call; \
    lock busy: share of the time that the busiest lock was held or being handed over.";

impl Table {
    fn open(view: &View<'_>) -> Self {
        let row = |cell: &Cell<'_>| {
            let part = |measure, quantile| Value::or_missing(cell.percentile(measure, quantile), duration);
            let count = |count: fn(&Arrived) -> u64| {
                Value::Count(cell.sum(|one| one.arrived.as_ref().map_or(0, count)))
            };
            let share = cell.figure(&UTILISATION_BUSIEST);
            let late =
                cell.median(|one| Some(one.health.lateness_p99_us.filter(|_| one.arrived.is_some())? as f64));
            let grows =
                cell.median(|one| one.steady.as_ref().filter(|_| one.arrived.is_some())?.grows_per_s());
            vec![
                view.label(cell).into(),
                contenders(cell),
                count(|arrived| arrived.offered),
                count(|arrived| arrived.served),
                count(|arrived| arrived.unserved),
                count(|arrived| arrived.dropped),
                part(Measure::ClientWait, 0.5),
                part(Measure::ClientWait, 0.99),
                part(Measure::Service, 0.5),
                part(Measure::Service, 0.99),
                Value::or_missing(late, Value::Duration),
                Value::or_missing(share, Value::Share),
                Value::or_missing(grows, |grows| Value::from(format!("+{}/s", number(grows)))),
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
}

const FAULT_LEGEND: &str = "faults: 1 of 2 means that the effect of only one was seen; election: longest \
                            time from a fault to the first sight of a new leader; longest gap: longest time \
                            between two acquisitions around a fault; recovery: median time from a fault's \
                            effect to the next acquisition, or never; recovery max: the longest; too early: \
                            entries made before the logs show the previous holder's node deleted, out of \
                            those checkable; zombies: entries while a contender with a suspended or ended \
                            session was inside; unsafe: the longest such time; uncertain: entries that \
                            cannot be judged because an outcome is unknown; stuck: contenders still not \
                            served after everything was repaired; orphans: ephemeral nodes left at the end; \
                            holds lost: holds that ended with their session; waits lost: waits that ended \
                            with their session or connection; stale writes: writes made after somebody else \
                            had entered; rejected: those that the fencing token turned away; -: not \
                            measured.";

const SEVERAL: &str = "In trials with several faults, the columns faults, election, longest gap and recovery are per fault, \
    all others per trial.";

fn faults_legend(view: &View<'_>) -> String {
    let several = view.fault_sets().iter().any(|set| set.single().is_none());
    [FAULT_LEGEND, if several { SEVERAL } else { "" }].join(" ").trim_end().to_owned()
}

/// Positions of columns that say how long no contender was served.
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

impl Table {
    fn faults(view: &View<'_>) -> Self {
        let names: Vec<String> = view.fault_sets().iter().map(|set| set.name()).collect();
        let row = |under: UnderFault| {
            let named = [
                view.label(under.cell).into(),
                names[under.set].as_str().into(),
                Value::Count(under.cell.contenders as u64),
            ];
            let faults = under.faults.map_or([const { Value::NotMeasured }; 5], |it| of_faults(&it));
            let trials = under.trials.map_or([const { Value::NotMeasured }; 12], |it| of_trials(&it));
            named.into_iter().chain(faults).chain(trials).collect()
        };
        let rows: Vec<Vec<Value>> = view.under_faults().into_iter().map(row).collect();
        let mut columns = FAULT_COLUMNS.to_vec();
        // What stays on narrow terminals goes all the same where there is nothing of it.
        for at in ELECTION..=LONGEST_GAP {
            columns[at].spare = u8::from(rows.iter().all(|row| row[at].is_not_measured()));
        }
        Self { columns, labels: 2, rows }.without_idle_columns()
    }
}

fn of_faults(figures: &FaultFigures) -> [Value; 5] {
    let FaultFigures { fired, proved, .. } = *figures;
    let [median, longest] = figures.recovery.map_or([const { Value::NotMeasured }; 2], |recovery| {
        [recovery.median_us, recovery.longest_us].map(|us| match us {
            us if us.is_infinite() => Value::verdict(recovery_word(us), Tone::Bad),
            us if us < 0.5 => recovery_word(us).into(),
            us => Value::Duration(us),
        })
    });
    [
        Value::OutOf { part: proved as u64, whole: fired as u64 },
        Value::or_missing(figures.elected_us, micros),
        Value::or_missing(gap_word(figures), |word| match figures.longest_gap_us {
            Some(us) if figures.recovery.is_some_and(|it| it.longest_us.is_finite()) => micros(us),
            _ => word.into(),
        }),
        median,
        longest,
    ]
}

fn of_trials(figures: &TrialFigures) -> [Value; 12] {
    let order = |order: EntryOrder| Value::from(format!("{} of {}", order.too_early, order.compared));
    [
        Value::Count(figures.violations),
        Value::or_missing(figures.order, order),
        Value::Count(figures.zombies),
        Value::or_missing(Some(figures.longest_unsafe_us).filter(|_| figures.zombies > 0), micros),
        Value::Count(figures.uncertain),
        Value::Count(figures.stuck as u64),
        Value::or_missing(figures.orphans, Value::Count),
        Value::Count(figures.sessions_lost),
        Value::Count(figures.holds_lost),
        Value::Count(figures.waits_lost),
        Value::Count(figures.stale_writes),
        Value::Count(figures.stale_rejected),
    ]
}

const DRIVER_COLUMNS: [Column; 10] = [
    words("strategy"),
    numbers("contenders", 0),
    words("program"),
    numbers("processes", 1),
    words("clock"),
    numbers("pipe p50", 0),
    numbers("pipe p99", 2),
    numbers("echo p50", 1),
    numbers("contender's echo p50", 3),
    numbers("echo p50 under load", 2),
];

const DRIVER_LEGEND: &str = "Drivers, and what the way to them costs. Pipe: what the suite saw of an acquire, less the time within the \
                      library; it lies in the wait unless the clock is ours. Every handoff includes one way through the pipe, \
                      that of the request to release. Echo: a request that asks for nothing, there and back, before the load.";

fn drivers_table(view: &View<'_>) -> Option<ExplainedTable> {
    let row = |cell: &Cell<'_>| {
        let driver = cell.all().find_map(|trial| trial.driver.as_ref())?;
        Some(driver_row(view.label(cell).into(), cell, driver))
    };
    let rows: Vec<Vec<Value>> = view.cells.iter().filter_map(row).collect();
    (!rows.is_empty()).then(|| {
        let table = Table { columns: DRIVER_COLUMNS.to_vec(), labels: 2, rows };
        ExplainedTable::new("Drivers", table, DRIVER_LEGEND)
    })
}

fn driver_row(label: Value, cell: &Cell<'_>, driver: &DriverRecord) -> Vec<Value> {
    let micros = |us: Option<f64>| Value::or_missing(us, Value::Duration);
    let pipe = |quantile: f64| micros(cell.percentile(Measure::Pipe, quantile).map(|at| at.us));
    let echo = |times: Option<EchoTimes>| micros(times.map(|times| times.p50_us as f64));
    let clock = match driver.clock_fits {
        Some(true) => "ours",
        Some(false) => "its own",
        None => "not told",
    };
    vec![
        label,
        Value::Count(cell.contenders as u64),
        driver.program.clone().into(),
        Value::Count(driver.processes as u64),
        clock.into(),
        pipe(0.5),
        pipe(0.99),
        echo(driver.echo),
        echo(driver.contender_echo),
        echo(driver.echo_under_load),
    ]
}
