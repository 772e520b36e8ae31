//! The outcome of a schedule: its trace, the promise that it broke, and the nodes that it left.

use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schedule::{Choice, Schedule, TraceStep};
use zklockbench_core::worded;

worded! {
    /// A broken promise of the lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fault by word {
        /// A contender entered while another held the lock with a live session.
        Violated = "violated",
        /// A contender waits forever although the lock is free.
        Stuck = "stuck",
        /// A contender has finished, but its node still exists.
        NodeLeft = "node left",
    }
}

/// Outcome of a schedule.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub schedule: Schedule,
    pub trace: Vec<TraceStep>,
    pub fault: Option<Fault>,
    /// What happened, in one sentence; empty if all promises were kept.
    pub sentence: String,
    /// Index in the trace of the first entry that was a violation.
    pub entry: Option<usize>,
    /// Number of decisions that were taken before the first violation, or at all.
    pub needs: usize,
    pub zombies: u64,
    /// Why the schedule could not run.
    pub unexplored: Option<String>,
    /// Why the schedule's fault or order is impossible.
    pub impossible: Option<String>,
    /// The choices at each step of an order, with the index of the chosen one.
    pub choices: Vec<(Vec<Choice>, usize)>,
    /// Names of the delivered events in order, each with the contender's number.
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
    /// The nodes beyond the usual ones. Locks may keep some ephemeral nodes, of whichever contender; persistent nodes are
    /// usually directories.
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
    /// Equal for runs with the same messages in the same order.
    pub fn class(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trace.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ephemeral: &[&str], persistent: &[&str]) -> Nodes {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Nodes { ephemeral: names(ephemeral), persistent: names(persistent) }
    }

    #[test]
    fn a_persistent_node_that_an_undisturbed_run_does_not_leave_is_left() {
        let usual = nodes(&["c1.node1"], &["lock/leases"]);
        assert!(nodes(&["c2.node1"], &["lock/leases"]).beyond(&usual).is_empty());
        assert!(nodes(&[], &[]).beyond(&usual).is_empty());
        assert_eq!(nodes(&[], &["lock/held", "lock/leases"]).beyond(&usual), ["lock/held"]);
        assert_eq!(nodes(&[], &["lock/leases", "lock/leases"]).beyond(&usual), ["lock/leases"]);
        assert_eq!(nodes(&["c1.node1", "c2.node1"], &[]).beyond(&usual), ["c1.node1", "c2.node1"]);
    }
}
