//! Effects of each fault on each lock: the rows behind the table and the heat map.
//!
//! A trial may have several faults. Times without an acquisition are known for each fault and listed under its label. Everything
//! else is known only for a trial as a whole and listed under all its faults together.

use super::cell::verdict_word;
use super::{Cell, EntryOrder, View};
use zklockbench_core::units::{distinct, format_micros};
use zklockbench_record::{FaultRecord, Trial};
use zklockbench_stats::median;

/// One label, or several of the same trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSet {
    /// Labels in the run's order.
    pub labels: Vec<String>,
    /// Whether these are all labels of the run.
    all: bool,
}

impl FaultSet {
    /// Name in outputs. A set of more than two labels is not spelled out if it has all labels of the run.
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

    /// Each label on its own, then the combinations in trials with several.
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

    /// Effects of each fault on each lock, by strategy, fault and number of contenders.
    pub fn under_faults(&self) -> Vec<UnderFault<'_>> {
        let sets = self.fault_sets();
        let pairs = (0..self.strategies.len()).flat_map(|s| (0..sets.len()).map(move |set| (s, set)));
        pairs
            .flat_map(|(strategy, set)| self.cells_of(strategy).map(move |cell| (cell, set)))
            .filter_map(|(cell, set)| UnderFault::of(cell, set, &sets[set]))
            .collect()
    }
}

/// One strategy with one number of contenders, under one fault or several together.
#[derive(Debug, Clone, PartialEq)]
pub struct UnderFault<'a> {
    pub cell: &'a Cell<'a>,
    /// Position in [`View::fault_sets`].
    pub set: usize,
    /// Metrics of each fault; `None` for several together.
    pub faults: Option<FaultFigures>,
    /// Metrics of the trials with exactly these faults; `None` if there are none.
    pub trials: Option<TrialFigures>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fate {
    Unknown,
    /// The lock was acquired again after this median time, in microseconds.
    Recovered(f64),
    /// The lock was never acquired again, or a contender was not served.
    Stuck,
    Violated,
}

/// Metrics of one kind of fault. Times come from proved faults in counting repetitions, because the effects of an unproved fault
/// cannot be attributed to it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FaultFigures {
    pub fired: usize,
    /// Number of these whose effect was seen.
    pub proved: usize,
    /// Longest time from a fault until a newly elected leader was first seen; `None` if there was none.
    pub elected_us: Option<u64>,
    /// Longest gap between acquisitions around a fault, in microseconds; `None` if all were too short to record.
    pub longest_gap_us: Option<u64>,
    /// Longest time from an effect until a contender first learned that its connection was gone; `None` if none did.
    pub suspended_us: Option<u64>,
    /// Time until the lock was acquired again; `None` if no effect was seen.
    pub recovery: Option<Recovery>,
}

/// Time from a fault's effect to the next acquisition, in microseconds; infinite if there was none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recovery {
    pub median_us: f64,
    pub longest_us: f64,
}

/// Sums over all repetitions, including invalid and partial ones, so that no problem is hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrialFigures {
    /// Verdict as a word; `None` for a single contender.
    pub verdict: Option<&'static str>,
    pub violations: u64,
    /// Exclusion from the ensemble's view, summed over the trials with data on it.
    pub order: Option<EntryOrder>,
    /// Acquisitions during the hold of a contender whose session was suspended or gone.
    pub zombies: u64,
    /// Longest overlap of such a hold with another, in microseconds.
    pub longest_unsafe_us: u64,
    /// Acquisitions while another contender may still have held the lock.
    pub uncertain: u64,
    /// Contenders that were not served although the ensemble was healthy again.
    pub stuck: usize,
    /// Ephemeral nodes left after all contenders had released; `None` if a trial could not be checked.
    pub orphans: Option<u64>,
    pub sessions_lost: u64,
    pub holds_lost: u64,
    /// Waits that ended with the session or its connection.
    pub waits_lost: u64,
    /// Writes of a holder after another contender had acquired the lock.
    pub stale_writes: u64,
    /// Number of these that were rejected because of their fencing token.
    pub stale_rejected: u64,
}

impl<'a> UnderFault<'a> {
    /// `None` if no trial of the cell had this fault.
    fn of(cell: &'a Cell<'a>, set: usize, named: &FaultSet) -> Option<Self> {
        let faults = named.single().and_then(|label| FaultFigures::of(cell, label));
        let trials = TrialFigures::of(cell, named);
        (faults.is_some() || trials.is_some()).then_some(Self { cell, set, faults, trials })
    }

    /// Median time to the next acquisition, in microseconds; infinite if there was none, `None` if no effect was seen.
    pub fn recovery_us(&self) -> Option<f64> {
        Some(self.faults?.recovery?.median_us)
    }

    /// Results as text, one entry each, and the worst of them.
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
            suspended_us: seen().filter_map(|fault| fault.suspended_us).max(),
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

/// Resolution in microseconds: shorter times are not distinguished.
pub const SHORTEST_US: f64 = 5_000.0;

/// Text for times below the resolution: trials with faults record gaps of 5 ms and more.
const SHORT: &str = "< 5 ms";

/// Text for a recovery time in microseconds: 0 if there was no recorded gap, infinite if the lock was not acquired again.
pub fn recovery_word(us: f64) -> String {
    match us {
        us if us.is_infinite() => "never".to_owned(),
        us if us < 0.5 => SHORT.to_owned(),
        us => format_micros(us.round() as u64),
    }
}

/// Text for the longest gap around a fault; `None` if no effect of the fault was seen.
pub fn gap_word(figures: &FaultFigures) -> Option<String> {
    let recovery = figures.recovery?;
    Some(match figures.longest_gap_us {
        _ if recovery.longest_us.is_infinite() => "no end".to_owned(),
        Some(us) => format_micros(us),
        None => SHORT.to_owned(),
    })
}
