//! Outcome of a schedule: trace, broken promise and remaining nodes.

use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::{Choice, Schedule, TraceStep};
use zklockbench_core::worded;
use zklockbench_record::StepKind;

worded! {
    /// A broken promise of the lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fault by word {
        /// A contender acquired the lock while another contender held it with a live session.
        Violated = "violated",
        /// A contender waits forever although the lock is free.
        Stuck = "stuck",
        /// An acquire fails although no fault hit its contender, or a release fails without any fault.
        Refused = "refused",
        /// A lock that promises the order of arrival admits a contender before one that was already waiting.
        OutOfOrder = "out of order",
        /// A contender has finished, but its node still exists.
        NodeLeft = "node left",
    }
}

/// Result of one run of a schedule.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub schedule: Schedule,
    pub trace: Vec<TraceStep>,
    pub fault: Option<Fault>,
    /// Description of the failure in one sentence; empty if the lock kept all promises.
    pub sentence: String,
    /// Index in the trace of the first violating acquisition.
    pub entry: Option<usize>,
    /// Number of decisions taken before the first violation; all decisions if there was none.
    pub needs: usize,
    pub zombies: u64,
    /// Reason why the schedule could not run.
    pub unexplored: Option<String>,
    /// Reason why the schedule's fault or order is impossible.
    pub impossible: Option<String>,
    /// Choices at each step of an order, with the index of the chosen action.
    pub choices: Vec<(Vec<Choice>, usize)>,
    /// Delivered events in order, each with its contender's number.
    pub events: Vec<(usize, String)>,
    /// Nodes that remain after all contenders have finished.
    pub left: Nodes,
}

/// Nodes below the lock, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    pub ephemeral: Vec<String>,
    pub persistent: Vec<String>,
}

impl Nodes {
    /// Returns the nodes beyond the usual ones. A lock may keep ephemeral nodes of any contender, so only their
    /// number is compared.
    pub fn beyond(&self, usual: &Self) -> Vec<String> {
        let mut usually = usual.persistent.clone();
        let is_new = |name: &&String| match usually.iter().position(|other| other == *name) {
            Some(known) => {
                usually.swap_remove(known);
                false
            }
            None => true,
        };
        let mut beyond: Vec<String> = self.persistent.iter().filter(is_new).cloned().collect();
        if self.ephemeral.len() > usual.ephemeral.len() {
            beyond.extend(self.ephemeral.iter().cloned());
        }
        beyond.sort();
        beyond
    }
}

impl Outcome {
    /// Creates the outcome of a run without events, for tests.
    #[cfg(test)]
    pub fn of(schedule: Schedule, fault: Option<Fault>) -> Self {
        Self {
            schedule,
            trace: Vec::new(),
            fault,
            sentence: String::new(),
            entry: None,
            needs: 0,
            zombies: 0,
            unexplored: None,
            impossible: None,
            choices: Vec::new(),
            events: Vec::new(),
            left: Nodes::default(),
        }
    }

    /// Returns a hash of the trace, which is equal for runs with the same messages in the same order.
    pub fn class(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trace.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns whether the run differs from a recorded trace up to the schedule's last fault. After the fault, a fixed
    /// lock behaves differently.
    pub fn differs_from(&self, recorded: &[TraceStep]) -> bool {
        let is_fault = |(_, step): &(usize, &TraceStep)| step.kind == StepKind::Fault;
        let faults = recorded.iter().enumerate().filter(is_fault);
        let last = faults.take(self.schedule.decisions.len()).last();
        let compared = last.map_or(0, |(last, _)| last + 1);
        self.unexplored.is_some() || self.trace.get(..compared) != recorded.get(..compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Act, Decision};

    fn nodes(ephemeral: &[&str], persistent: &[&str]) -> Nodes {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Nodes { ephemeral: names(ephemeral), persistent: names(persistent) }
    }

    #[test]
    fn replay_differs_from_its_case_only_up_to_the_last_fault() {
        let step = |kind, what: &str| TraceStep { contender: 0, kind, what: what.into() };
        let steps = |last: &str| {
            vec![
                step(StepKind::Request, "create own node"),
                step(StepKind::Fault, "the session ends"),
                step(StepKind::Request, last),
            ]
        };
        let of = |trace: Vec<TraceStep>, unexplored: Option<&str>| {
            let decision = Decision::new(Act::Expire, "c1: getChildren lock");
            let unexplored = unexplored.map(str::to_owned);
            Outcome { trace, unexplored, ..Outcome::of(Schedule::with(2, vec![decision]), None) }
        };
        let recorded = steps("getChildren lock");
        assert!(!of(recorded.clone(), None).differs_from(&recorded));
        assert!(!of(steps("create own node"), None).differs_from(&recorded), "a fixed lock must not differ");
        assert!(of(recorded[1..].to_vec(), None).differs_from(&recorded));
        assert!(of(Vec::new(), None).differs_from(&recorded));
        assert!(of(recorded.clone(), Some("late")).differs_from(&recorded));
    }

    #[test]
    fn only_nodes_beyond_the_usual_ones_count_as_left() {
        let usual = nodes(&["c1.node1"], &["lock/leases"]);
        assert!(nodes(&["c2.node1"], &["lock/leases"]).beyond(&usual).is_empty());
        assert!(nodes(&[], &[]).beyond(&usual).is_empty());
        assert_eq!(nodes(&[], &["lock/held", "lock/leases"]).beyond(&usual), ["lock/held"]);
        assert_eq!(nodes(&[], &["lock/leases", "lock/leases"]).beyond(&usual), ["lock/leases"]);
        assert_eq!(nodes(&["c1.node1", "c2.node1"], &[]).beyond(&usual), ["c1.node1", "c2.node1"]);
    }
}
