//! The faults by their labels, one by one and as they met in one trial.

use super::{Broken, View};

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
    #[must_use]
    pub fn name(&self) -> String {
        match self.labels.len() {
            many @ 3.. if self.all => format!("all {many} together"),
            _ => self.labels.join(" + "),
        }
    }

    /// The label; `None` of several.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        match self.labels.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }

    /// Whether a trial had these and no others.
    #[must_use]
    pub fn is_of(&self, broken: &Broken) -> bool {
        self.labels.iter().all(|label| broken.faults.iter().any(|fault| fault.label == *label))
            && broken.faults.iter().all(|fault| self.labels.contains(&fault.label))
    }
}

impl View {
    /// Whether anything was broken on purpose.
    #[must_use]
    pub fn has_faults(&self) -> bool {
        self.broken().next().is_some()
    }

    /// The labels of all faults, in the order in which they are met.
    #[must_use]
    pub fn fault_labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for fault in self.broken().flat_map(|broken| &broken.faults) {
            if !labels.contains(&fault.label.as_str()) {
                labels.push(&fault.label);
            }
        }
        labels
    }

    /// Each label by itself, then the combinations of several that trials had.
    #[must_use]
    pub fn fault_sets(&self) -> Vec<FaultSet> {
        let labels = self.fault_labels();
        let set = |chosen: &dyn Fn(&str) -> bool| {
            let kept: Vec<String> =
                labels.iter().filter(|label| chosen(label)).map(|&l| l.to_owned()).collect();
            FaultSet { all: kept.len() == labels.len(), labels: kept }
        };
        let mut sets: Vec<FaultSet> = labels.iter().map(|one| set(&|label| label == *one)).collect();
        for broken in self.broken() {
            let met = set(&|label| broken.faults.iter().any(|fault| fault.label == label));
            if met.labels.len() > 1 && !sets.contains(&met) {
                sets.push(met);
            }
        }
        sets
    }

    fn broken(&self) -> impl Iterator<Item = &Broken> {
        self.cells.iter().flat_map(|cell| &cell.repetitions).filter_map(|one| one.broken.as_ref())
    }
}
