//! Locks under faults: what became of each, as a table of coloured tiles.

use crate::report::View;
use crate::report::document::{Block, Heat, Shade, Tile};
use crate::report::view::{Cell, TrialFigures, UnderFault, recovery_word};
use crate::units::contenders;

/// Shorter times are not told apart: trials note no shorter gap.
const SHORTEST_US: f64 = 5_000.0;

/// The tiles of all strategies under all faults; nothing where nothing was broken.
pub(super) fn blocks(view: &View) -> Vec<Block> {
    let sets = view.fault_sets();
    if sets.is_empty() {
        return Vec::new();
    }
    let under = view.under_faults();
    let times: Vec<f64> = under.iter().filter_map(median).filter(|us| us.is_finite()).collect();
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

fn median(under: &UnderFault<'_>) -> Option<f64> {
    Some(under.faults?.recovery?.median_us)
}

fn tile(under: &UnderFault<'_>, (shortest, longest): (f64, f64)) -> Tile {
    let wrong = under.trials.map(wrong).unwrap_or_default();
    let time = under.faults.map(|faults| match faults.recovery {
        None => ("not proved".to_owned(), Shade::None),
        Some(recovery) if recovery.median_us.is_infinite() => {
            (recovery_word(recovery.median_us), Shade::Stuck)
        }
        Some(recovery) => {
            let us = recovery.median_us.max(SHORTEST_US);
            let along =
                if longest > shortest { (us / shortest).ln() / (longest / shortest).ln() } else { 0.0 };
            (recovery_word(recovery.median_us), Shade::Time(along.clamp(0.0, 1.0)))
        }
    });
    let judged = under.trials.filter(|_| under.faults.is_none() && wrong.is_empty());
    let judged = judged.map(|trials| trials.verdict.unwrap_or("no verdict").to_owned());
    let worst = wrong.first().map(|(_, shade)| *shade);
    let plain = time.as_ref().map_or(Shade::None, |(_, shade)| *shade);
    let said = time.map(|(text, _)| text).into_iter().chain(judged);
    Tile {
        said: said.chain(wrong.into_iter().map(|(text, _)| text)).collect(),
        shade: worst.unwrap_or(plain),
    }
}

/// What went wrong, worst first.
fn wrong(trials: TrialFigures) -> Vec<(String, Shade)> {
    let violated =
        (trials.violations > 0).then(|| (format!("{} violated", trials.violations), Shade::Violated));
    let too_early = trials.order.map_or(0, |order| order.too_early);
    let early = (too_early > 0).then(|| (format!("{too_early} too early"), Shade::Violated));
    let stuck = (trials.stuck > 0).then(|| (format!("{} stuck", trials.stuck), Shade::Stuck));
    violated.into_iter().chain(early).chain(stuck).collect()
}
