//! What must be said below a table or chart: one line for each thing that was marked.

use super::{Cell, Repetition, View};
use crate::units::contenders;

impl View {
    /// One line for each mark: the run's own remarks, violations, invalid and partial trials, what faults
    /// left behind, and counts on which client, cost model and servers disagree.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.remarks.clone();
        notes.extend(self.marks());
        notes.extend(self.fault_notes());
        notes.extend(self.disagreements());
        notes
    }

    /// One line for each cell in which the lock did not exclude, then one for each trial whose figures do not
    /// count, with the reason.
    fn marks(&self) -> Vec<String> {
        let violations = self.cells.iter().filter_map(|cell| self.violations_of(cell));
        let trials = self.cells.iter().flat_map(|cell| cell.repetitions.iter().map(move |one| (cell, one)));
        let doubts = trials.flat_map(|(cell, one)| self.doubts_of(cell, one));
        violations.chain(doubts).collect()
    }

    fn violations_of(&self, cell: &Cell) -> Option<String> {
        let first = cell.repetitions.iter().find_map(|repetition| repetition.first_violation.clone());
        let first = first.map_or_else(String::new, |first| format!("; the first: {first}"));
        let count = cell.violations();
        let noun = if count == 1 { "violation" } else { "violations" };
        (count > 0).then(|| format!("violated: {}: {count} {noun}{first}", self.name(cell)))
    }

    fn doubts_of(&self, cell: &Cell, repetition: &Repetition) -> Vec<String> {
        let name = self.name(cell);
        let number = repetition.number;
        let invalid =
            repetition.invalid.iter().map(|why| format!("invalid: {name}, repetition {number}: {why}"));
        let partial =
            repetition.partial.iter().map(|why| format!("partial: {name}, repetition {number}: {why}"));
        invalid.chain(partial).collect()
    }

    fn disagreements(&self) -> Vec<String> {
        let shown = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let rows = self.accounting().into_iter().filter(|row| row.line.agrees == Some(false));
        rows.map(|row| {
            format!(
                "counts disagree: {}, {}: {}: client {}, cost model {}, servers {}",
                row.strategy,
                contenders(row.contenders),
                row.line.what,
                shown(row.line.client),
                shown(row.line.expected),
                shown(row.line.servers)
            )
        })
        .collect()
    }

    fn name(&self, cell: &Cell) -> String {
        format!("{}, {}", self.label(cell), contenders(cell.contenders))
    }
}
