//! The one view model behind every renderer: what a table row or a chart point is, before it is drawn.
//!
//! A renderer never computes a figure of its own, so a table and a chart cannot disagree.

mod accounting;
mod cell;
mod faults;
mod notes;
mod stored;

pub use accounting::AccountingRow;
pub use cell::{Bins, Cell, EntryOrder, Percentile, RateOverTime, Spread};
pub use faults::{
    Fate, FaultFigures, FaultSet, Recovery, SHORTEST_US, TrialFigures, UnderFault, gap_word, recovery_word,
};

use zklockbench_core::measure::Measure;
use zklockbench_core::units::distinct_sorted;
use zklockbench_record::{Floor, Judged};

/// A stored run as the renderers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct View<'a> {
    pub title: String,
    /// What the scenario asks; `None` where it does not say.
    pub question: Option<String>,
    /// Where it was measured: sentences without a full stop, most telling first.
    pub place: Vec<String>,
    /// The strategies by their labels, in the order of the scenario. The position gives the colour.
    pub strategies: Vec<String>,
    /// One cell for each strategy and contender count that ran, in that order.
    pub cells: Vec<Cell<'a>>,
    /// What handoffs and uncontended acquires are compared with; `None` where nothing was measured of it.
    pub floor: Option<Floor>,
    /// How many trials ran before the run was interrupted or cut short, in a sentence without a full stop; `None` where all did.
    pub unfinished: Option<String>,
    /// What must be said of the run as a whole, e.g. that it was cut short.
    pub remarks: Vec<String>,
    pub judged: Judged,
    /// What the verdict rests on, in a sentence without a full stop; `None` where it did not hold, or nothing tells.
    pub evidence: Option<String>,
}

impl<'a> View<'a> {
    pub fn label(&self, cell: &Cell<'_>) -> &str {
        self.strategies.get(cell.strategy).map_or("?", String::as_str)
    }

    /// How many times as long as the floor's median a cell's handoff took, by medians; `None` where either is missing.
    pub fn handoff_over_floor(&self, cell: &Cell<'_>) -> Option<f64> {
        self.floor.as_ref()?.handoffs(cell.percentile(Measure::Handoff, 0.5)?.us)
    }

    /// The same of acquires that no other contender delayed.
    pub fn uncontended_over_floor(&self, cell: &Cell<'_>) -> Option<f64> {
        self.floor.as_ref()?.uncontended_acquires(cell.percentile(Measure::Uncontended, 0.5)?.us)
    }

    /// The cells of one strategy, by rising contender count.
    pub fn cells_of(&self, strategy: usize) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.strategy == strategy)
    }

    /// The cells of one contender count, in the order of the strategies.
    pub fn cells_at(&self, contenders: usize) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.contenders == contenders)
    }

    pub fn contender_counts(&self) -> Vec<usize> {
        distinct_sorted(self.cells.iter().map(|cell| cell.contenders))
    }

    /// The contender count at which most strategies have that: the largest, if several have it at as many.
    ///
    /// Cells with a sound repetition count before those that only have invalid or partial ones.
    pub fn best_common_count(&self, has: impl Fn(&Cell<'_>) -> bool) -> Option<usize> {
        let score = |&contenders: &usize| {
            let found: Vec<&Cell<'a>> = self.cells_at(contenders).filter(|cell| has(cell)).collect();
            let sound = found.iter().filter(|cell| cell.is_sound()).count();
            (sound, found.len(), contenders)
        };
        self.contender_counts().into_iter().max_by_key(score).filter(|count| score(count).1 > 0)
    }

    /// The contender count at which the herd's curve is drawn; `None` where no release woke two waiters.
    pub fn herd_count(&self) -> Option<usize> {
        let wakes_two = |cell: &Cell<'_>| cell.herd().iter().any(|woken| woken.from_rank > 1);
        self.best_common_count(|cell| {
            !cell.herd().is_empty() && self.cells_at(cell.contenders).any(wakes_two)
        })
    }

    pub fn place_line(&self) -> String {
        self.place.join("; ")
    }
}
