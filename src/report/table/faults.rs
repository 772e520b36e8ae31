//! Lock by fault: what broke, how long nobody got the lock, and what went wrong meanwhile.

use super::Grid;
use super::columns::{Column, NOT_MEASURED};
use crate::report::View;
use crate::report::view::{FaultFigures, TrialFigures, UnderFault, gap_word, recovery_word};
use crate::units::format_micros;

/// What the columns of the table are.
pub(super) const LEGEND: &str = "faults: \"1 of 2\" where the effect of one only was seen; election: from a fault \
    to the first sight of a leader elected since, the longest; longest gap: between two acquisitions around a \
    fault; recovery: from a fault's effect to the next acquisition, the median and the longest (never: there was \
    none); too early: entries before the servers' transaction logs have the node of the holder before as deleted, \
    of those that they tell of; zombies: entries beside a contender whose session was suspended or gone; unsafe: \
    the longest such time; uncertain: entries that nobody can judge, as an outcome is not known; stuck: contenders \
    not served when nothing was broken any more; orphans: ephemeral nodes left at the end; holds and waits lost: \
    with their sessions or connections; stale writes: after another had entered; rejected: of those, the ones that \
    the fencing token turned away.";

/// What stands with which fault.
pub(super) const SEVERAL: &str = "Where a trial had several faults: faults, election, longest gap and recovery \
    stand with each of them, everything else with all of them together.";

const fn words(heading: &'static str) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

const fn numbers(heading: &'static str, spare: u8) -> Column {
    Column { heading, numbers: true, spare }
}

const COLUMNS: [Column; 20] = [
    words("strategy"),
    words("fault"),
    numbers("contenders", 0),
    numbers("faults", 5),
    numbers("election", 13),
    numbers("longest gap", 1),
    numbers("recovery", 0),
    numbers("recovery max", 3),
    numbers("violations", 0),
    numbers("too early", 1),
    numbers("zombies", 2),
    numbers("unsafe", 7),
    numbers("uncertain", 10),
    numbers("stuck", 0),
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
        let rows = view.under_faults().into_iter().map(row).collect();
        Self { columns: COLUMNS.to_vec(), labels: 2, rows }.without_idle_columns()
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
