//! What became of each lock under each fault: the rows behind the table and the heat map.
//!
//! A trial may have several faults. How long the lock was not acquired is known fault by fault and stands with the
//! fault's label. Everything else is known of the trial as a whole, and stands with all that was broken in it.

use super::cell::verdict_word;
use super::{Cell, EntryOrder, View};
use zklockbench_core::units::{distinct, format_micros};
use zklockbench_record::{FaultRecord, Trial};
use zklockbench_stats::median;

/// One label, or several that one trial had together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSet {
    /// The labels, in the order of the run's.
    pub labels: Vec<String>,
    /// Whether these are all labels of the run.
    all: bool,
}

impl FaultSet {
    /// What it is called in outputs. More than two labels are not repeated where they are all that there are.
    pub fn name(&self) -> String {
        match self.labels.len() {
            many @ 3.. if self.all => format!("all {many} together"),
            _ => self.labels.join(" + "),
        }
    }

    pub fn single(&self) -> Option<&str> {
        match self.labels.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    fn is_of(&self, trial: &Trial) -> bool {
        !trial.faults.is_empty()
            && self.labels.iter().all(|label| trial.faults.iter().any(|fault| fault.label == *label))
            && trial.faults.iter().all(|fault| self.labels.contains(&fault.label))
    }
}

impl View<'_> {
    pub fn has_faults(&self) -> bool {
        self.broken().next().is_some()
    }

    /// Each label by itself, then the combinations of several that trials had.
    pub fn fault_sets(&self) -> Vec<FaultSet> {
        let faults = self.broken().flat_map(|trial| &trial.faults);
        let labels = distinct(faults.map(|fault| fault.label.as_str()));
        let set = |chosen: &dyn Fn(&str) -> bool| {
            let kept: Vec<String> =
                labels.iter().filter(|label| chosen(label)).map(|&l| l.to_owned()).collect();
            FaultSet { all: kept.len() == labels.len(), labels: kept }
        };
        let single = labels.iter().map(|one| set(&|label| label == *one));
        let met = |trial: &Trial| set(&|label| trial.faults.iter().any(|fault| fault.label == label));
        let together = self.broken().map(met).filter(|met| met.labels.len() > 1);
        distinct(single.chain(together))
    }

    pub(crate) fn broken(&self) -> impl Iterator<Item = &Trial> {
        self.cells.iter().flat_map(Cell::all).filter(|trial| !trial.faults.is_empty())
    }

    /// What became of each lock under each fault: by strategy, then by fault, then by contenders.
    pub fn under_faults(&self) -> Vec<UnderFault<'_>> {
        let sets = self.fault_sets();
        let pairs = (0..self.strategies.len()).flat_map(|s| (0..sets.len()).map(move |set| (s, set)));
        pairs
            .flat_map(|(strategy, set)| self.cells_of(strategy).map(move |cell| (cell, set)))
            .filter_map(|(cell, set)| UnderFault::of(cell, set, &sets[set]))
            .collect()
    }
}

/// One strategy at one contender count under one fault, or under several together.
#[derive(Debug, Clone, PartialEq)]
pub struct UnderFault<'a> {
    pub cell: &'a Cell<'a>,
    /// Position in [`View::fault_sets`].
    pub set: usize,
    /// What is known fault by fault; `None` of several together.
    pub faults: Option<FaultFigures>,
    /// What is known of the trials that had just these faults; `None` when there is none.
    pub trials: Option<TrialFigures>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    Unknown,
    /// It was acquired again after so many microseconds, the median.
    Recovered(f64),
    /// It was never acquired again, or a contender was not served.
    Stuck,
    Violated,
}

/// What is known fault by fault. Times are those of proved faults of the repetitions that count, for what an
/// unproved one did not do cannot be put down to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultFigures {
    pub fired: usize,
    /// Of those, the ones whose effect was seen.
    pub proved: usize,
    /// The longest time from any of them to the first sight of a newly elected leader; `None` when there was none.
    pub elected_us: Option<u64>,
    /// The longest gap between acquisitions around any of them, in microseconds; `None` when all were too short to note.
    pub longest_gap_us: Option<u64>,
    /// How soon the lock was acquired again; `None` when no effect was seen.
    pub recovery: Option<Recovery>,
}

/// From a fault's effect to the next acquisition, in microseconds. Infinite where none followed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recovery {
    pub median_us: f64,
    pub longest_us: f64,
}

/// Sums over all repetitions, also those whose figures do not count, so that nothing bad is hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialFigures {
    /// Whether the lock excluded, in a word; `None` of a single contender.
    pub verdict: Option<&'static str>,
    pub violations: u64,
    /// Exclusion as the ensemble saw it: the sum of those trials of which it told something.
    pub order: Option<EntryOrder>,
    /// Entries beside a contender whose session was suspended or gone.
    pub zombies: u64,
    /// The longest time for which one of those was inside beside another, in microseconds.
    pub longest_unsafe_us: u64,
    /// Entries beside another of which it can't be judged whether it still held.
    pub uncertain: u64,
    /// Contenders that were not served though nothing was broken any more.
    pub stuck: usize,
    /// Ephemeral nodes left when all had released; `None` when one of the trials could not be asked.
    pub orphans: Option<u64>,
    pub sessions_lost: u64,
    pub holds_lost: u64,
    /// Waits that ended with the session or its connection.
    pub waits_lost: u64,
    /// Writes of a holder after another had entered.
    pub stale_writes: u64,
    /// Of those, the ones turned away by their fencing token.
    pub stale_rejected: u64,
}

impl<'a> UnderFault<'a> {
    /// `None` when no trial of the cell had that fault.
    fn of(cell: &'a Cell<'a>, set: usize, named: &FaultSet) -> Option<Self> {
        let faults = named.single().and_then(|label| FaultFigures::of(cell, label));
        let trials = TrialFigures::of(cell, named);
        (faults.is_some() || trials.is_some()).then_some(Self { cell, set, faults, trials })
    }

    /// The median time to the next acquisition, in microseconds; infinite where none came, `None` where no effect was seen.
    pub fn recovery_us(&self) -> Option<f64> {
        Some(self.faults?.recovery?.median_us)
    }

    /// What is told of it, part by part, and the worst that happened.
    pub fn told(&self) -> (Vec<String>, Fate) {
        let wrong = self.trials.map(wrong).unwrap_or_default();
        let time = self.faults.map(|_| match self.recovery_us() {
            None => ("not proved".to_owned(), Fate::Unknown),
            Some(us) => (recovery_word(us), if us.is_finite() { Fate::Recovered(us) } else { Fate::Stuck }),
        });
        let judged = self.trials.filter(|_| time.is_none() && wrong.is_empty());
        let judged = judged.map(|trials| trials.verdict.unwrap_or("no verdict").to_owned());
        let fate = wrong.first().or(time.as_ref()).map_or(Fate::Unknown, |(_, fate)| *fate);
        let said = time.map(|(text, _)| text).into_iter().chain(judged);
        (said.chain(wrong.into_iter().map(|(text, _)| text)).collect(), fate)
    }
}

fn wrong(trials: TrialFigures) -> Vec<(String, Fate)> {
    let too_early = trials.order.map_or(0, |order| order.too_early);
    let all = [
        (trials.violations, "violated", Fate::Violated),
        (too_early, "too early", Fate::Violated),
        (trials.stuck as u64, "stuck", Fate::Stuck),
    ];
    all.into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, word, fate)| (format!("{count} {word}"), fate))
        .collect()
}

impl FaultFigures {
    fn of(cell: &Cell<'_>, label: &str) -> Option<Self> {
        let fired: Vec<&FaultRecord> = cell.all().flat_map(|one| faults(one, label)).collect();
        let counting: Vec<&FaultRecord> = cell.counting().flat_map(|one| faults(one, label)).collect();
        let seen = || counting.iter().filter(|fault| fault.proved);
        (!fired.is_empty()).then(|| Self {
            fired: fired.len(),
            proved: fired.iter().filter(|fault| fault.proved).count(),
            elected_us: seen().filter_map(|fault| fault.elected_us).max(),
            longest_gap_us: seen().filter_map(|fault| fault.longest_gap_us).max(),
            recovery: Recovery::of(seen().map(|fault| fault.recovered_us)),
        })
    }
}

fn faults<'a>(trial: &'a Trial, label: &str) -> impl Iterator<Item = &'a FaultRecord> {
    trial.faults.iter().filter(move |fault| fault.label == label)
}

impl Recovery {
    fn of(times: impl Iterator<Item = Option<u64>>) -> Option<Self> {
        let times: Vec<f64> = times.map(|time| time.map_or(f64::INFINITY, |us| us as f64)).collect();
        Some(Self { median_us: median(&times)?, longest_us: times.into_iter().reduce(f64::max)? })
    }
}

impl TrialFigures {
    fn of(cell: &Cell<'_>, set: &FaultSet) -> Option<Self> {
        let trials: Vec<&Trial> = cell.all().filter(|trial| set.is_of(trial)).collect();
        let all = || trials.iter().copied();
        let sum = |of: fn(&Trial) -> u64| all().map(of).sum();
        (!trials.is_empty()).then(|| Self {
            verdict: verdict_word(all(), cell.contenders),
            violations: sum(|one| one.violation_count),
            order: all().filter_map(|one| Some(one.ensemble_order.as_ref()?.into())).reduce(EntryOrder::and),
            zombies: sum(|one| one.excused.zombies),
            longest_unsafe_us: all().map(|one| one.excused.longest_unsafe_us).max().unwrap_or(0),
            uncertain: sum(|one| one.excused.uncertain),
            stuck: all().map(|one| one.stuck.len()).sum(),
            orphans: all().map(|one| one.orphans).sum(),
            sessions_lost: sum(|one| one.sessions.expired),
            holds_lost: sum(|one| one.whole.lost_while_held),
            waits_lost: sum(Trial::waits_lost),
            stale_writes: sum(|one| one.fencing.stale),
            stale_rejected: sum(|one| one.fencing.stale_rejected),
        })
    }
}

/// Shorter times, in microseconds, are not told apart.
pub const SHORTEST_US: f64 = 5_000.0;

/// What stands for a time too short to be noted: trials with faults keep gaps of 5 ms and more.
const SHORT: &str = "< 5 ms";

/// A time until the lock was acquired again, in microseconds: 0 when there was no gap that is noted, infinite when
/// it was not acquired any more.
pub fn recovery_word(us: f64) -> String {
    match us {
        us if us.is_infinite() => "never".to_owned(),
        us if us < 0.5 => SHORT.to_owned(),
        us => format_micros(us.round() as u64),
    }
}

/// The longest gap around a fault; `None` when no effect of the fault was seen.
pub fn gap_word(figures: &FaultFigures) -> Option<String> {
    let recovery = figures.recovery?;
    Some(match figures.longest_gap_us {
        _ if recovery.longest_us.is_infinite() => "no end".to_owned(),
        Some(us) => format_micros(us),
        None => SHORT.to_owned(),
    })
}
