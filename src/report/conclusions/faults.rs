//! What faults did to the lock, as its users saw it: for how long nobody got it, and what was lost.

use super::{Certainty, Conclusion, Evidence, Topic};
use crate::report::View;
use crate::report::view::{UnderFault, gap_word};
use crate::results::record::Trial;
use crate::words::units::{capitalised, counted, format_micros, listed};
use crate::words::verdict::Verdict;

/// More faults than that are told by the table.
const FAULTS_TOLD: usize = 3;
/// More strategies than that are told by the two at the ends.
const STRATEGIES_TOLD: usize = 3;

/// One sentence for each fault, the longest gap first.
pub(super) fn of(view: &View<'_>) -> Vec<Conclusion> {
    let sets = view.fault_sets();
    let rows = view.under_faults();
    let singles = sets.iter().enumerate().filter_map(|(at, set)| Some((at, set.single()?)));
    let mut told: Vec<(f64, Conclusion)> = singles
        .filter_map(|(at, label)| {
            let rows: Vec<&UnderFault<'_>> = rows.iter().filter(|row| row.set == at).collect();
            let gaps = Gap::of_each(view, &rows);
            Some((gaps.last()?.us, of_fault(view, label, &gaps)))
        })
        .collect();
    told.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    told.into_iter().map(|(_, one)| one).take(FAULTS_TOLD).collect()
}

/// For how long a fault kept everybody from the lock, with one strategy.
struct Gap {
    strategy: String,
    /// The longest, in microseconds; infinite where it did not end.
    us: f64,
    text: String,
}

impl Gap {
    /// The longest with each strategy of which an effect was seen, the shortest first.
    fn of_each(view: &View<'_>, rows: &[&UnderFault<'_>]) -> Vec<Self> {
        let of = |strategy: usize| {
            let own = rows.iter().filter(|row| row.cell.strategy == strategy);
            own.filter_map(|row| {
                let figures = row.faults?;
                let text = gap_word(&figures)?;
                let ends = figures.recovery?.longest_us.is_finite();
                let us = if ends { figures.longest_gap_us.unwrap_or(0) as f64 } else { f64::INFINITY };
                Some(Self { strategy: view.strategies[strategy].clone(), us, text })
            })
            .max_by(|one, other| one.us.total_cmp(&other.us))
        };
        let mut gaps: Vec<Self> = (0..view.strategies.len()).filter_map(of).collect();
        gaps.sort_by(|one, other| one.us.total_cmp(&other.us));
        gaps
    }

    fn with_strategy(&self) -> String {
        format!("{} with {}", self.text, self.strategy)
    }
}

fn of_fault(view: &View<'_>, label: &str, gaps: &[Gap]) -> Conclusion {
    let (endless, ended): (Vec<&Gap>, Vec<&Gap>) = gaps.iter().partition(|gap| gap.us.is_infinite());
    let mut said = Vec::new();
    match ended.as_slice() {
        [] => {}
        [one] => said.push(format!("nobody got the lock for {}", one.with_strategy())),
        some if some.len() <= STRATEGIES_TOLD => {
            let each: Vec<String> = some.iter().map(|gap| gap.with_strategy()).collect();
            said.push(format!("nobody got the lock for {}", listed(&each)));
        }
        [first, .., last] => said.push(format!(
            "nobody got the lock for {} ({}) to {} ({})",
            first.text, first.strategy, last.text, last.strategy
        )),
    }
    if !endless.is_empty() {
        let names: Vec<&str> = endless.iter().map(|gap| gap.strategy.as_str()).collect();
        said.push(format!("with {} it was never acquired again", listed(&names)));
    }
    said.extend(aftermath(view, label));
    Conclusion {
        topic: Topic::Faults,
        certainty: Certainty::Shown,
        contenders: None,
        strategies: Vec::new(),
        sentence: format!("{}: {}.", capitalised(label), said.join("; ")),
        evidence: Evidence::Faults,
    }
}

/// What became of holders and waiters in the trials with that fault.
fn aftermath(view: &View<'_>, label: &str) -> Vec<String> {
    let trials: Vec<&Trial> =
        view.broken().filter(|trial| trial.faults.iter().any(|fault| fault.label == label)).collect();
    let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial)).sum::<u64>();
    let waits = trials
        .iter()
        .flat_map(|trial| &trial.faults)
        .filter(|fault| fault.label == label)
        .filter_map(|fault| fault.wait_p99)
        .max();
    let waits = waits.map(|wait| {
        let at_least = if wait.at_least { "≥ " } else { "" };
        format!("waits around it: 99th percentile {at_least}{}", format_micros(wait.us))
    });
    let exclusion = trials.iter().map(|trial| trial.judged.exclusion.clone()).reduce(Verdict::and);
    let stuck = sum(|trial| trial.stuck.len() as u64);
    let is_violated = trials.iter().any(|trial| trial.is_violated());
    let is_only_stuck = trials.iter().all(|trial| !trial.is_violated() || trial.judged.is_only_stuck());
    let violations = match (sum(|trial| trial.violation_count), exclusion) {
        (0, _) if is_violated && !is_only_stuck => "exclusion violated".to_owned(),
        // Whoever is stuck makes it violated all the same.
        (0, _) if stuck > 0 => "no overlap seen".to_owned(),
        (0, Some(Verdict::Held)) => "nothing violated".to_owned(),
        (0, _) => "no violation seen".to_owned(),
        (some, _) => counted(some, "violation", "violations"),
    };
    let stuck = match stuck {
        0 => "nothing stuck".to_owned(),
        some => format!("{} stuck", counted(some, "contender", "contenders")),
    };
    let lost = [
        (sum(|trial| trial.whole.lost_while_held), "hold", "holds"),
        (sum(Trial::waits_lost), "wait", "waits"),
    ];
    let lost: Vec<String> = lost
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| counted(count, one, many))
        .collect();
    let lost = (!lost.is_empty()).then(|| format!("{} lost", listed(&lost)));
    waits.into_iter().chain(lost).chain([format!("{violations}, {stuck}")]).collect()
}
