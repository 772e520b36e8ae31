//! Locks under faults: what became of each, as a table of coloured tiles.

use crate::report::View;
use crate::report::document::{Block, Heat, Shade, Tile};
use crate::report::view::{Cell, Fate, SHORTEST_US, UnderFault};
use crate::words::units::contenders;

/// The tiles of all strategies under all faults; nothing where nothing was broken.
pub(super) fn blocks(view: &View) -> Vec<Block> {
    let sets = view.fault_sets();
    if sets.is_empty() {
        return Vec::new();
    }
    let under = view.under_faults();
    let times: Vec<f64> =
        under.iter().filter_map(UnderFault::recovery_us).filter(|us| us.is_finite()).collect();
    let span = (
        times.iter().copied().fold(f64::INFINITY, f64::min).max(SHORTEST_US),
        times.iter().copied().fold(SHORTEST_US, f64::max),
    );
    let cells: Vec<&Cell> =
        view.cells.iter().filter(|cell| under.iter().any(|one| std::ptr::eq(one.cell, *cell))).collect();
    let several = view.contender_counts().len() > 1;
    let row = |cell: &&Cell| {
        let find = |set: usize| under.iter().find(|one| std::ptr::eq(one.cell, *cell) && one.set == set);
        let name = match several {
            true => format!("{}, {}", view.label(cell), contenders(cell.contenders)),
            false => view.label(cell).to_owned(),
        };
        let tiles = (0..sets.len()).map(|set| find(set).map_or_else(none, |one| tile(one, span))).collect();
        (name, tiles)
    };
    vec![Block::Heat(Heat {
        caption: "How soon each lock was acquired again after each fault".to_owned(),
        columns: sets.iter().map(crate::report::view::FaultSet::name).collect(),
        rows: cells.iter().map(row).collect(),
        legend: "The time from a fault's effect to the next acquisition, the median over faults whose effect was \
                 seen: darker means longer. Violated and too early: entries while a holder was inside, over all \
                 repetitions. Stuck: contenders not served after everything had healed. If a trial had several faults \
                 at once, each has its own times, and what went wrong counts for all of them together."
            .to_owned(),
    })]
}

fn none() -> Tile {
    Tile { said: Vec::new(), shade: Shade::None }
}

fn tile(under: &UnderFault<'_>, (shortest, longest): (f64, f64)) -> Tile {
    let (said, fate) = under.told();
    let shade = match fate {
        Fate::Unknown => Shade::None,
        Fate::Recovered(_) if longest <= shortest => Shade::Time(0.0),
        Fate::Recovered(us) => {
            let along = (us.max(SHORTEST_US) / shortest).ln() / (longest / shortest).ln();
            Shade::Time(along.clamp(0.0, 1.0))
        }
        Fate::Stuck => Shade::Stuck,
        Fate::Violated => Shade::Violated,
    };
    Tile { said, shade }
}
