//! The table of a run with faults: effects of each fault on each lock.

use crate::View;
use crate::document::{Columns, Table, Tone, Value};
use crate::view::{UnderFault, recovery_word};
use zklockbench_record::Trial;

pub(super) fn table(view: &View<'_>) -> Table {
    let sets = view.fault_sets();
    const SEVERAL: &str = "In trials with several faults, the columns faults, election, outage and recovery are \
        per fault. All others are per trial.";
    let has_several = sets.iter().any(|set| set.single().is_none());
    Columns::<UnderFault<'_>>::new()
        .words("strategy", |row| view.label(row.cell))
        .words("fault", |row| sets[row.set].name())
        .numbers("contenders", 0, |row| row.cell.contenders)
        .numbers("faults", 5, |row| {
            let (part, whole) = (row.fired.iter().filter(|one| one.proved).count(), row.fired.len());
            (whole > 0).then_some(Value::OutOf(part as u64, whole as u64))
        })
        .explained("1 of 2 means that the effect of only one was seen")
        .numbers("election", 1, |row| row.longest(|fault| fault.elected_us).map(Value::micros))
        .explained("longest time from a fault until a new leader was seen")
        .numbers("outage", 1, |row| {
            let (us, word) = row.gap()?;
            Some(if us > 0.0 && us.is_finite() { Value::Duration(us) } else { word.into() })
        })
        .explained("longest time between two acquisitions around a fault")
        .numbers("recovery", 0, |row| row.recovery().map(|(median, _)| recovery(median)))
        .explained("median time from a fault's effect to the next acquisition, or never")
        .numbers("recovery max", 3, |row| row.recovery().map(|(_, longest)| recovery(longest)))
        .numbers("suspended after", 13, |row| row.longest(|fault| fault.suspended_us).map(Value::micros))
        .explained(
            "longest time from a fault's effect until a contender noticed that its connection was lost",
        )
        .numbers("violations", 0, |row| row.sum(|it| it.violation_count))
        .numbers("too early", 4, |row| row.order().map(|(early, compared)| format!("{early} of {compared}")))
        .explained(
            "acquisitions made before the logs show the deletion of the previous holder's node, out of all \
             that could be checked",
        )
        .numbers("zombies", 3, |row| row.sum(|it| it.excused.zombies))
        .explained("acquisitions while a contender with a suspended or ended session was inside")
        .numbers("unsafe", 7, |row| {
            let zombies = row.trials.iter().filter(|it| it.excused.zombies > 0);
            zombies.map(|it| it.excused.longest_unsafe_us).max().map(Value::micros)
        })
        .explained("longest time that such a contender overlapped with another holder")
        .numbers("uncertain", 10, |row| row.sum(|it| it.excused.uncertain))
        .explained("acquisitions that cannot be judged because an outcome is unknown")
        .numbers("stuck", 2, |row| row.sum(|it| it.stuck.len() as u64))
        .explained("contenders still waiting after all faults had healed")
        .numbers("orphans", 4, |row| {
            let orphans = row.trials.iter().map(|it| it.orphans).sum::<Option<u64>>();
            orphans.filter(|_| !row.trials.is_empty())
        })
        .explained("ephemeral nodes left at the end")
        .numbers("sessions lost", 11, |row| row.sum(|it| it.sessions.expired))
        .numbers("holds lost", 6, |row| row.sum(|it| it.whole.lost_while_held))
        .explained("holds that ended with their session")
        .numbers("waits lost", 12, |row| row.sum(Trial::waits_lost))
        .explained("waits that ended with their session or connection")
        .numbers("stale writes", 8, |row| row.sum(|it| it.fencing.stale))
        .explained("writes sent after a later holder had written")
        .numbers("rejected", 9, |row| row.sum(|it| it.fencing.stale_rejected))
        .explained("stale writes that the fencing token rejected")
        .table("Each strategy under each fault", 2, view.under_faults())
        .noted(if has_several { SEVERAL } else { "" })
        .lean()
}

fn recovery(us: f64) -> Value {
    match us {
        us if us.is_infinite() => Value::verdict(recovery_word(us), Tone::Bad),
        us if us < 0.5 => recovery_word(us).into(),
        us => Value::Duration(us),
    }
}
