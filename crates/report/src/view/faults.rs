//! Effects of each fault on each lock: the rows behind the table and the heat map.
//!
//! A trial may have several faults. Outages are known for each fault and listed under its label. Other
//! effects are known only for a whole trial, and listed under all its faults together.

use super::cell::verdict;
use super::{Cell, View};
use zklockbench_core::units::{distinct, format_micros};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{FaultRecord, Trial};
use zklockbench_stats::median;

/// The label of a fault, or several labels of the same trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultSet {
    /// Labels in the run's order.
    pub labels: Vec<String>,
    /// Whether these are all labels of the run.
    all: bool,
}

impl FaultSet {
    /// Returns the name in outputs. A set of all labels of the run is abbreviated if there are more than two.
    pub fn name(&self) -> String {
        match self.labels.len() {
            many @ 3.. if self.all => format!("all {many} together"),
            _ => self.labels.join(" + "),
        }
    }

    pub fn single(&self) -> Option<&str> {
        if let [one] = self.labels.as_slice() { Some(one) } else { None }
    }
}

impl View<'_> {
    pub fn has_faults(&self) -> bool {
        self.broken().next().is_some()
    }

    /// Returns each label alone, then the combinations that occurred in trials with several faults.
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

    /// Returns the effects of each fault on each lock, by strategy, fault and contender count.
    pub fn under_faults(&self) -> Vec<UnderFault<'_>> {
        let sets = self.fault_sets();
        let pairs = (0..self.strategies.len()).flat_map(|s| (0..sets.len()).map(move |set| (s, set)));
        let cells = pairs.flat_map(|(s, set)| self.cells_of(s).map(move |cell| (cell, set)));
        cells.filter_map(|(cell, set)| UnderFault::of(cell, set, &sets[set])).collect()
    }
}

/// One strategy at one contender count, under one fault or several together.
#[derive(Debug, Clone, PartialEq)]
pub struct UnderFault<'a> {
    pub cell: &'a Cell<'a>,
    /// Position in [`View::fault_sets`].
    pub set: usize,
    /// Occurrences in all repetitions; empty for several faults together.
    pub fired: Vec<&'a FaultRecord>,
    /// Proved occurrences in the valid repetitions (in all repetitions if none is valid). Times come from
    /// these, because an unproved fault may not have caused anything.
    seen: Vec<&'a FaultRecord>,
    /// Trials with exactly these faults, including invalid and partial ones.
    pub trials: Vec<&'a Trial>,
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

impl<'a> UnderFault<'a> {
    /// Selects the records of a fault; `None` if no trial of the cell had this fault.
    fn of(cell: &'a Cell<'a>, set: usize, named: &FaultSet) -> Option<Self> {
        let is_of_set = |fault: &&FaultRecord| named.single() == Some(&fault.label);
        let fired: Vec<_> = cell.all().flat_map(|one| &one.faults).filter(is_of_set).collect();
        let counting = cell.counting().flat_map(|one| &one.faults).filter(is_of_set);
        let seen = counting.filter(|fault| fault.proved).collect();
        let has = |trial: &Trial, label: &str| trial.faults.iter().any(|fault| fault.label == label);
        let has_all = |trial: &Trial| named.labels.iter().all(|label| has(trial, label));
        let has_only = |trial: &Trial| trial.faults.iter().all(|fault| named.labels.contains(&fault.label));
        let trials: Vec<_> = cell.all().filter(|trial| has_all(trial) && has_only(trial)).collect();
        (!fired.is_empty() || !trials.is_empty()).then_some(Self { cell, set, fired, seen, trials })
    }

    /// Returns the longest `time` of the proved occurrences; `None` if none has one.
    pub fn longest(&self, time: fn(&FaultRecord) -> Option<u64>) -> Option<u64> {
        self.seen.iter().filter_map(|fault| time(fault)).max()
    }

    /// Returns the sum of `count` over the trials; `None` if there are none.
    pub fn sum(&self, count: fn(&Trial) -> u64) -> Option<u64> {
        (!self.trials.is_empty()).then(|| self.trials.iter().map(|trial| count(trial)).sum())
    }

    /// Returns the number of acquisitions made before the ensemble deleted the previous holder's node, and
    /// the number that were checked. Uses the servers' clock or transactions, whichever finds more.
    pub fn order(&self) -> Option<(u64, u64)> {
        let each = self.trials.iter().filter_map(|trial| trial.ensemble_order.as_ref());
        let each = each.map(|order| (order.overlaps.max(order.too_early), order.checked));
        each.reduce(|(early, all), (more, others)| (early + more, all + others))
    }

    /// Returns the median and longest time from a fault's effect to the next acquisition, in microseconds;
    /// infinite if there was no further acquisition. `None` if no effect was seen.
    pub fn recovery(&self) -> Option<(f64, f64)> {
        let time = |fault: &&FaultRecord| fault.recovered_us.map_or(f64::INFINITY, |us| us as f64);
        let times: Vec<f64> = self.seen.iter().map(time).collect();
        Some((median(&times)?, times.into_iter().reduce(f64::max)?))
    }

    /// Returns the longest gap between acquisitions around a fault, in microseconds and as text. Infinite if
    /// the gap did not end, 0 if gaps were too short to record. `None` if no effect was seen.
    pub fn gap(&self) -> Option<(f64, String)> {
        let (_, longest) = self.recovery()?;
        Some(match self.longest(|fault| fault.longest_gap_us) {
            _ if longest.is_infinite() => (longest, "no end".to_owned()),
            Some(us) => (us as f64, format_micros(us)),
            None => (0.0, SHORT.to_owned()),
        })
    }

    /// Returns the results as text, one entry each, and the worst result.
    pub fn told(&self) -> (Vec<String>, Fate) {
        let all = [
            (self.sum(|trial| trial.violation_count), "violated", Fate::Violated),
            (self.order().map(|(early, _)| early), "too early", Fate::Violated),
            (self.sum(|trial| trial.stuck.len() as u64), "stuck", Fate::Stuck),
        ];
        let wrong = all.into_iter().filter_map(|(count, word, fate)| {
            let count = count.filter(|count| *count > 0)?;
            Some((format!("{count} {word}"), fate))
        });
        let wrong: Vec<(String, Fate)> = wrong.collect();
        let time = (!self.fired.is_empty()).then(|| match self.recovery() {
            None => ("not proved".to_owned(), Fate::Unknown),
            Some((us, _)) if us.is_finite() => (recovery_word(us), Fate::Recovered(us)),
            Some((us, _)) => (recovery_word(us), Fate::Stuck),
        });
        let is_judged = time.is_none() && wrong.is_empty() && !self.trials.is_empty();
        let judged = is_judged.then(|| match verdict(self.trials.iter().copied(), self.cell.contenders) {
            Some(Verdict::Violated(_)) => "VIOLATED".to_owned(),
            other => other.as_ref().map_or("no verdict", Verdict::word).to_owned(),
        });
        let fate = wrong.first().or(time.as_ref()).map_or(Fate::Unknown, |(_, fate)| *fate);
        let said = time.map(|(text, _)| text).into_iter().chain(judged);
        (said.chain(wrong.into_iter().map(|(text, _)| text)).collect(), fate)
    }
}

/// Resolution of recorded times, in microseconds.
pub const SHORTEST_US: f64 = 5_000.0;

/// Text for times below the resolution.
const SHORT: &str = "< 5 ms";

/// Returns the text for a recovery time in microseconds: 0 if there was no recorded gap, infinite if the lock
/// was not acquired again.
pub fn recovery_word(us: f64) -> String {
    match us {
        us if us.is_infinite() => "never".to_owned(),
        us if us < 0.5 => SHORT.to_owned(),
        us => format_micros(us.round() as u64),
    }
}
