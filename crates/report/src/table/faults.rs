//! The table of a run with faults: effects of each fault on each lock.

use super::columns::{Columns, Grid};
use crate::View;
use crate::document::{Tone, Value};
use crate::view::{EntryOrder, FaultFigures, Recovery, TrialFigures, UnderFault, gap_word, recovery_word};

type Row<'v> = UnderFault<'v>;

pub(super) fn grid(view: &View<'_>) -> Option<Grid> {
    if !view.has_faults() {
        return None;
    }
    let names: Vec<String> = view.fault_sets().iter().map(|set| set.name()).collect();
    let columns = Columns::<Row<'_>>::new()
        .words("strategy", |row| view.label(row.cell))
        .words("fault", |row| names[row.set].as_str())
        .numbers("contenders", |row| Value::Count(row.cell.contenders as u64));
    let columns = with_times(columns);
    let columns = with_counts(columns);
    let several = view.fault_sets().iter().any(|set| set.single().is_none());
    let note = if several {
        "In trials with several faults, the columns faults, election, longest gap and recovery are per fault. All others \
         are per trial."
    } else {
        ""
    };
    Some(columns.grid("Each strategy under each fault", 2, view.under_faults()).noted(note).lean())
}

fn with_times<'c, 'v>(columns: Columns<'c, Row<'v>>) -> Columns<'c, Row<'v>> {
    columns
        .numbers("faults", |row| {
            of_faults(row, |it| Value::OutOf { part: it.proved as u64, whole: it.fired as u64 })
        })
        .spare(5)
        .explained("1 of 2 means that the effect of only one was seen")
        .numbers("election", |row| of_faults(row, |it| Value::or_missing(it.elected_us, micros)))
        .spare(1)
        .explained("longest time from a fault until a new leader was seen")
        .numbers("longest gap", |row| of_faults(row, longest_gap))
        .spare(1)
        .explained("longest time between two acquisitions around a fault")
        .numbers("recovery", |row| recovery(row, |it| it.median_us))
        .explained("median time from a fault's effect to the next acquisition, or never")
        .numbers("recovery max", |row| recovery(row, |it| it.longest_us))
        .spare(3)
        .numbers("suspended after", |row| of_faults(row, |it| Value::or_missing(it.suspended_us, micros)))
        .spare(13)
        .explained(
            "longest time from a fault's effect until a contender learned that its connection was gone",
        )
}

fn with_counts<'c, 'v>(columns: Columns<'c, Row<'v>>) -> Columns<'c, Row<'v>> {
    columns
        .numbers("violations", |row| count(row, |it| it.violations))
        .numbers("too early", |row| {
            let order = |order: EntryOrder| Value::from(format!("{} of {}", order.too_early, order.compared));
            of_trials(row, |it| Value::or_missing(it.order, order))
        })
        .spare(4)
        .explained(
            "acquisitions made before the logs show the deletion of the previous holder's node, out of all \
             that could be checked",
        )
        .numbers("zombies", |row| count(row, |it| it.zombies))
        .spare(3)
        .explained("acquisitions while a contender with a suspended or ended session was inside")
        .numbers("unsafe", |row| {
            let longest = |it: &TrialFigures| Some(it.longest_unsafe_us).filter(|_| it.zombies > 0);
            of_trials(row, |it| Value::or_missing(longest(it), micros))
        })
        .spare(7)
        .explained("the longest such time")
        .numbers("uncertain", |row| count(row, |it| it.uncertain))
        .spare(10)
        .explained("acquisitions that cannot be judged because an outcome is unknown")
        .numbers("stuck", |row| count(row, |it| it.stuck as u64))
        .spare(2)
        .explained("contenders still not served after everything was repaired")
        .numbers("orphans", |row| of_trials(row, |it| Value::or_missing(it.orphans, Value::Count)))
        .spare(4)
        .explained("ephemeral nodes left at the end")
        .numbers("sessions lost", |row| count(row, |it| it.sessions_lost))
        .spare(11)
        .numbers("holds lost", |row| count(row, |it| it.holds_lost))
        .spare(6)
        .explained("holds that ended with their session")
        .numbers("waits lost", |row| count(row, |it| it.waits_lost))
        .spare(12)
        .explained("waits that ended with their session or connection")
        .numbers("stale writes", |row| count(row, |it| it.stale_writes))
        .spare(8)
        .explained("writes made after another contender had entered")
        .numbers("rejected", |row| count(row, |it| it.stale_rejected))
        .spare(9)
        .explained("stale writes that the fencing token turned away")
}

fn micros(us: u64) -> Value {
    Value::Duration(us as f64)
}

fn of_faults(row: &Row<'_>, read: impl Fn(&FaultFigures) -> Value) -> Value {
    Value::or_missing(row.faults.as_ref(), read)
}

fn of_trials(row: &Row<'_>, read: impl Fn(&TrialFigures) -> Value) -> Value {
    Value::or_missing(row.trials.as_ref(), read)
}

fn count(row: &Row<'_>, read: fn(&TrialFigures) -> u64) -> Value {
    of_trials(row, |it| Value::Count(read(it)))
}

fn longest_gap(figures: &FaultFigures) -> Value {
    Value::or_missing(gap_word(figures), |word| match figures.longest_gap_us {
        Some(us) if figures.recovery.is_some_and(|it| it.longest_us.is_finite()) => micros(us),
        _ => word.into(),
    })
}

fn recovery(row: &Row<'_>, read: fn(&Recovery) -> f64) -> Value {
    let time = row.faults.and_then(|faults| faults.recovery).map(|it| read(&it));
    Value::or_missing(time, |us| match us {
        us if us.is_infinite() => Value::verdict(recovery_word(us), Tone::Bad),
        us if us < 0.5 => recovery_word(us).into(),
        us => Value::Duration(us),
    })
}
