//! The view model behind every renderer: the contents of tables and charts, before drawing.
//!
//! Renderers do not compute metrics, so tables and charts cannot disagree.

mod accounting;
mod cell;
mod faults;
mod notes;
mod stored;

pub use accounting::AccountingRow;
pub use cell::{Bins, Cell, Percentile, RateOverTime, Spread};
pub use faults::{Fate, FaultSet, SHORTEST_US, UnderFault, recovery_word};
pub(crate) use stored::{ended_early, trials_ran};

use zklockbench_core::measure::Measure;
use zklockbench_core::units::distinct_sorted;
use zklockbench_record::{Floor, Judged, Timeline, Trial};

/// A stored run for the renderers.
#[derive(Debug, Clone, PartialEq)]
pub struct View<'a> {
    pub title: String,
    /// The scenario's question; `None` if it has no question.
    pub question: Option<String>,
    /// Measurement environment: sentences without a full stop, most important first.
    pub place: Vec<String>,
    /// Labels of the strategies in the scenario's order. The position determines the colour.
    pub strategies: Vec<String>,
    /// One cell for each strategy and contender count that ran, sorted by strategy, then by count.
    pub cells: Vec<Cell<'a>>,
    /// Floor for handoffs and uncontended acquires; `None` if it was not measured.
    pub floor: Option<Floor>,
    /// Number of trials before the run was interrupted or ended early, as a sentence without a full stop.
    /// `None` if the run is complete.
    pub unfinished: Option<String>,
    /// Remarks on the run as a whole, e.g. that it ended early.
    pub remarks: Vec<String>,
    pub judged: Judged,
    /// Evidence for the verdict, as a sentence without a full stop; `None` unless the verdict is held.
    pub evidence: Option<String>,
}

impl<'a> View<'a> {
    pub fn label(&self, cell: &Cell<'_>) -> &str {
        self.strategies.get(cell.strategy).map_or("?", String::as_str)
    }

    /// Returns the median handoff of a cell as a multiple of the floor's median; `None` if either is missing.
    pub fn handoff_over_floor(&self, cell: &Cell<'_>) -> Option<f64> {
        self.floor.as_ref()?.handoffs(cell.percentile(Measure::Handoff, 0.5)?.us)
    }

    /// Returns the median uncontended acquire of a cell as a multiple of the floor's median; `None` if either
    /// is missing.
    pub fn uncontended_over_floor(&self, cell: &Cell<'_>) -> Option<f64> {
        self.floor.as_ref()?.uncontended_acquires(cell.percentile(Measure::Uncontended, 0.5)?.us)
    }

    /// Returns the cells of one strategy, by ascending contender count.
    pub fn cells_of(&self, strategy: usize) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.strategy == strategy)
    }

    /// Returns the recorded timelines of one strategy's violations, with their trials.
    pub fn timelines_of(&self, strategy: usize) -> impl Iterator<Item = (&Trial, &Timeline)> {
        let trials = self.cells_of(strategy).flat_map(Cell::all);
        trials.flat_map(|trial| trial.timelines().map(move |timeline| (trial, timeline)))
    }

    /// Returns the cells at one contender count, in strategy order.
    pub fn cells_at(&self, contenders: usize) -> impl Iterator<Item = &Cell<'a>> {
        self.cells.iter().filter(move |cell| cell.contenders == contenders)
    }

    pub fn contender_counts(&self) -> Vec<usize> {
        distinct_sorted(self.cells.iter().map(|cell| cell.contenders))
    }

    /// Returns the contender count at which the most cells satisfy `has`; the largest in case of a tie.
    ///
    /// Cells with a valid repetition take precedence over cells with only invalid or partial ones.
    pub fn best_common_count(&self, has: impl Fn(&Cell<'_>) -> bool) -> Option<usize> {
        let score = |&contenders: &usize| {
            let found: Vec<&Cell<'a>> = self.cells_at(contenders).filter(|cell| has(cell)).collect();
            let sound = found.iter().filter(|cell| cell.is_sound()).count();
            (sound, found.len(), contenders)
        };
        self.contender_counts().into_iter().max_by_key(score).filter(|count| score(count).1 > 0)
    }

    pub fn place_line(&self) -> String {
        self.place.join("; ")
    }
}
