//! The tables of a run: strategies, lost holds, drivers, requests by kind, and arrivals of open loads.

use super::counts::{self, CountedRow};
use super::{faults, metric_value};
use crate::View;
use crate::document::{Column, Columns, Table, Value, words};
use crate::summary::Repetitions;
use crate::view::Cell;
use zklockbench_core::measure::{Measure, Statistic};
use zklockbench_core::units::{format_micros, joined, listed, number};
use zklockbench_record::figures::{
    self, FAILED_TRY_P50, HANDOFF_P50, OFFERED, THROUGHPUT, TOTAL_TIME, UTILISATION_BUSIEST, WAIT_MAX,
    WAIT_P50, WAIT_P99,
};
use zklockbench_record::{
    Arrived, DriverRecord, EchoTimes, FigureEntry, Floor, LostHold, LostHolds, Timing, Trial,
};
use zklockbench_stats::median;

/// Returns the tables of a run, most important first: locks under faults, then all metrics, then arrivals.
pub(crate) fn tables(view: &View<'_>) -> Vec<Table> {
    let metrics = Table::whole(view).lean();
    let (lost, drivers) = (lost_holds(view), drivers(view));
    let all = [faults::table(view), metrics, lost, drivers, by_kind(view), arrivals(view).lean()];
    all.into_iter().filter(|table| !table.is_empty()).collect()
}

fn by_kind(view: &View<'_>) -> Table {
    let row = |cell| {
        let (strategy, contenders) = (view.label(cell), cell.contenders);
        Some(CountedRow { side: None, strategy, contenders, counting: cell.on_the_wire()? })
    };
    counts::by_kind(&view.cells.iter().filter_map(row).collect::<Vec<_>>())
}

impl Table {
    /// Returns the main table: one row for each strategy at each contender count.
    pub fn whole(view: &View<'_>) -> Self {
        let mut columns = Columns::<&Cell<'_>>::new()
            .words("strategy", |cell| view.label(cell))
            .numbers("contenders", 0, |cell| contenders(cell))
            .words("verdict", |cell| cell.judged())
            .numbers("reps", 8, |cell| {
                let Repetitions { ran, sound } = Repetitions::of(cell);
                Value::OutOf(sound as u64, ran as u64)
            })
            .explained("valid repetitions");
        columns = columns
            .metric(&OFFERED, |cell| measured(cell, &OFFERED))
            .metric(&THROUGHPUT, |cell| measured(cell, &THROUGHPUT))
            .numbers("min-max", 4, |cell| {
                let spread = cell.spread(|one| THROUGHPUT.of(one)).filter(|spread| spread.count > 1)?;
                Some(Value::Range(spread.min, spread.max))
            })
            .explained("smallest and largest repetition");
        for entry in [&TOTAL_TIME, &WAIT_P50, &WAIT_P99, &WAIT_MAX, &HANDOFF_P50, &FAILED_TRY_P50] {
            columns = columns.metric(entry, move |cell| measured(cell, entry));
        }
        let (handoffs, uncontended) = floors(view);
        columns = columns
            .numbers("handoff/floor", 3, |cell| view.handoff_over_floor(cell).map(Value::Multiple))
            .explained(handoffs)
            .numbers("uncontended/floor", 8, |cell| view.uncontended_over_floor(cell).map(Value::Multiple))
            .explained(uncontended)
            .numbers("unserved", 1, |cell| Some(cell.sum(Trial::unserved)).filter(|some| *some > 0))
            .explained("waits that ended without the lock, or were still in progress at the end")
            .numbers("outage", 1, |cell| {
                let stood = cell.all().filter_map(|one| one.standstill.as_ref());
                stood.map(|stood| stood.lasted_us).max().map(Value::micros)
            })
            .explained("longest time that a lock was free, wanted and not acquired");
        let placed = [THROUGHPUT.card, OFFERED.card, TOTAL_TIME.card];
        for entry in figures::ALL.iter().filter(|entry| !placed.contains(&entry.card)) {
            columns = columns.metric(entry, move |cell| measured(cell, entry));
        }
        columns
            .numbers("violations", 1, |cell| cell.violations())
            .column(Column { spare: 1, ..words("marks") }, |cell| marks(cell))
            .table("Each strategy at each contender count", 1, &view.cells)
            .noted(note(view))
    }
}

/// Returns a metric of a cell over its repetitions, as a table value.
fn measured(cell: &Cell<'_>, entry: &FigureEntry) -> Value {
    let Some((measure, statistic)) = entry.latency else {
        return cell.figure(entry).map(|value| metric_value(entry, value)).into();
    };
    let found = match statistic {
        Statistic::Percentile(at) => cell.percentile(measure, f64::from(at) / 100_000.0),
        Statistic::Max | Statistic::Mean | Statistic::Min => cell.longest(measure),
    };
    match found {
        None if measure == Measure::Wait && cell.is_unstable() => Value::Unstable,
        found => found.into(),
    }
}

/// Returns notes on the whole table.
fn note(view: &View<'_>) -> String {
    /// Values that are displayed as 1 do not count as below the floor.
    const BELOW_FLOOR: f64 = 0.995;
    let any = |is: &dyn Fn(&Cell<'_>) -> bool| view.cells.iter().any(is);
    let is_bound = |cell: &Cell<'_>| cell.longest(Measure::Wait).is_some_and(|longest| longest.at_least);
    let is_below = |multiple: Option<f64>| multiple.is_some_and(|multiple| multiple < BELOW_FLOOR);
    let has_bounds = any(&|cell| cell.sum(Trial::unserved) > 0) && any(&is_bound);
    let is_below_floor = any(&|cell| is_below(view.handoff_over_floor(cell)))
        || any(&|cell| is_below(view.uncontended_over_floor(cell)));
    let notes = [
        (any(&|cell| cell.trials.len() > 1), "Medians of the valid repetitions."),
        (has_bounds, "≥: at least, because of unserved waits."),
        (is_below_floor, "A multiple below 1 means that the host was slower while the floor was measured."),
    ];
    let notes = notes.into_iter().filter(|(is_so, _)| *is_so).map(|(_, note)| note.to_owned());
    joined(notes.chain(on_the_wire(view)), " ")
}

/// Returns a sentence on the metrics that were counted in a separate trial for drivers' locks.
fn on_the_wire(view: &View<'_>) -> Option<String> {
    let is_driven = |cell: &&Cell<'_>| cell.all().any(Trial::is_counted_apart);
    let mut driven = view.cells.iter().filter(is_driven);
    driven.find(|cell| cell.on_the_wire().is_some())?;
    let counted = figures::ALL.iter().filter(|entry| entry.on_the_wire);
    let headings: Vec<&str> = counted.filter_map(|entry| Some(entry.column?.heading)).collect();
    Some(format!("{} of drivers: {}.", listed(&headings), counts::HOW))
}

/// Returns the explanations of the floors on which multiples are based; empty if no floor was measured.
fn floors(view: &View<'_>) -> (String, String) {
    let told = |what: &str, of: fn(&Floor) -> Option<Timing>| {
        let Some(Timing { count, p50_us, .. }) = view.floor.as_ref().and_then(of) else {
            return String::new();
        };
        format!("its median as a multiple of {}, the median of {count} {what}", format_micros(p50_us))
    };
    let handoff = told("handoffs without a lock, measured before the first trial", |floor| floor.handoff);
    (handoff, told("uncontended acquires made with raw requests", |floor| floor.uncontended))
}

/// Returns the number of contenders, and how many had a session if some had none.
fn contenders(cell: &Cell<'_>) -> Value {
    let whole = cell.contenders as u64;
    Value::OutOf(cell.took_part().min(whole), whole)
}

/// Describes the numbers of invalid and partial trials; remarks state the reasons.
fn marks(cell: &Cell<'_>) -> Option<String> {
    let count = |marked: fn(&Trial) -> bool| cell.all().filter(|one| marked(one)).count();
    let invalid = (count(|one| one.health.invalid.is_some()), "invalid");
    let marks = [invalid, (count(|one| one.cut_short.is_some()), "partial")].into_iter();
    let said = marks.filter(|(count, _)| *count > 0).map(|(count, mark)| format!("{count} {mark}"));
    Some(joined(said, ", ")).filter(|said| !said.is_empty())
}

/// One strategy at one contender count, and the holds lost in its trials.
type LostRow<'a> = (&'a Cell<'a>, Vec<&'a LostHolds>);

/// Returns one row for each cell in which a session ended during a hold.
fn lost_holds(view: &View<'_>) -> Table {
    let lost = |cell| {
        let lost: Vec<_> = Cell::all(cell).filter_map(|trial| trial.lost_holds.as_ref()).collect();
        lost.iter().any(|holds| holds.count > 0).then_some((cell, lost))
    };
    Columns::<LostRow<'_>>::of_cells(view, |(cell, _)| cell)
        .words("on lost", |(cell, _)| cell.all().next().map(|trial| trial.spec.on_lost.name()))
        .explained("what a holder does when it is notified that its session has ended")
        .numbers("sessions ended", 0, |(_, lost)| lost.iter().map(|holds| holds.count).sum::<u64>())
        .explained("during a hold, according to the servers' logs")
        .numbers("suspended before", 0, |row| {
            middle(row, |hold| hold.suspended_us.filter(|us| *us <= 0).map(i64::unsigned_abs))
        })
        .explained("time before the end at which the holder noticed that its connection was lost")
        .numbers("notified after", 0, |row| middle(row, |hold| hold.told_us))
        .explained("time from the end until the holder was notified")
        .numbers("stayed inside", 0, |row| middle(row, |hold| Some(hold.inside_us)))
        .explained("time from the end until the holder left its critical section")
        .table("Holders whose session ended", 2, view.cells.iter().filter_map(lost))
        .noted("Medians, with the shortest and the longest time.")
}

fn middle((_, lost): &LostRow<'_>, time: fn(&LostHold) -> Option<u64>) -> Option<Value> {
    let times: Vec<u64> = lost.iter().flat_map(|holds| &holds.holds).filter_map(time).collect();
    let [least, most] = [*times.iter().min()?, *times.iter().max()?].map(Value::micros);
    let middle = median(&times.iter().map(|us| *us as f64).collect::<Vec<_>>()).map(Value::Duration)?;
    Some(if times.len() == 1 { middle } else { middle.between(least, most) })
}

fn drivers(view: &View<'_>) -> Table {
    let driver = |cell| Some((cell, Cell::all(cell).find_map(|trial| trial.driver.as_ref())?));
    let echo = |times: Option<EchoTimes>| times.map(|times| Value::micros(times.p50_us));
    let pipe = |cell: &Cell<'_>, at| Some(Value::Duration(cell.percentile(Measure::Pipe, at)?.us));
    Columns::<(&Cell<'_>, &DriverRecord)>::of_cells(view, |(cell, _)| cell)
        .words("program", |(_, driver)| driver.program.clone())
        .numbers("processes", 1, |(_, driver)| driver.processes)
        .words("clock", |(_, driver)| match driver.clock_fits {
            Some(true) => "ours",
            Some(false) => "its own",
            None => "not reported",
        })
        .numbers("pipe p50", 0, move |(cell, _)| pipe(cell, 0.5))
        .explained(
            "duration of an acquire as seen by the suite, minus the time within the library; part of the wait \
             unless the driver uses the suite's clock; every handoff includes the trip of the release request",
        )
        .numbers("pipe p99", 2, move |(cell, _)| pipe(cell, 0.99))
        .numbers("echo p50", 1, move |(_, driver)| echo(driver.echo))
        .explained("round trip of a request that does nothing, before the load")
        .numbers("contender's echo p50", 3, move |(_, driver)| echo(driver.contender_echo))
        .numbers("echo p50 under load", 2, move |(_, driver)| echo(driver.echo_under_load))
        .table("Drivers", 2, view.cells.iter().filter_map(driver))
}

fn arrivals(view: &View<'_>) -> Table {
    let is_open = |cell: &&Cell<'_>| cell.all().any(|one| one.arrived.is_some());
    let count = |cell: &Cell<'_>, of: fn(&Arrived) -> u64| cell.sum(|one| one.arrived.as_ref().map_or(0, of));
    Columns::<&Cell<'_>>::new()
        .words("open load", |cell| view.label(cell))
        .numbers("contenders", 0, |cell| contenders(cell))
        .numbers("offered", 0, |cell| count(cell, |arrived| arrived.offered))
        .numbers("served", 0, |cell| count(cell, |arrived| arrived.served))
        .numbers("unserved", 0, |cell| count(cell, |arrived| arrived.unserved))
        .numbers("dropped", 3, |cell| count(cell, |arrived| arrived.dropped))
        .numbers("in client p50", 4, |cell| cell.percentile(Measure::ClientWait, 0.5))
        .explained("the part of the wait until a contender was free")
        .numbers("in client p99", 1, |cell| cell.percentile(Measure::ClientWait, 0.99))
        .numbers("service p50", 5, |cell| cell.percentile(Measure::Service, 0.5))
        .explained("the part of the wait after the call to acquire")
        .numbers("service p99", 2, |cell| cell.percentile(Measure::Service, 0.99))
        .numbers("lateness p99", 6, |cell| {
            let late = |one: &Trial| one.health.lateness_p99_us.filter(|_| one.arrived.is_some());
            cell.median(|one| Some(late(one)? as f64)).map(Value::Duration)
        })
        .explained("delay of the generator's acquire calls")
        .numbers("lock busy", 1, |cell| cell.figure(&UTILISATION_BUSIEST).map(Value::Share))
        .explained("share of the time that the busiest lock was held or being handed over")
        .numbers("queue", 1, |cell| {
            let grows = |one: &Trial| one.steady.as_ref().filter(|_| one.arrived.is_some())?.grows_per_s();
            cell.median(grows).map(|grows| format!("+{}/s", number(grows)))
        })
        .explained("growth of the queue")
        .table("Outcome of the arrivals", 1, view.cells.iter().filter(is_open))
        .noted("A wait starts when the arrival is due.")
}
