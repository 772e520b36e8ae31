//! Heat map of locks by fault: time until the lock was acquired again, and violations and stuck contenders.

use super::caption_of_doubts;
use crate::View;
use crate::document::{Axis, Chart, ChartKind, Heat, HeatRow, Shade, Tile};
use crate::view::{Cell, Fate, FaultSet, SHORTEST_US, UnderFault};
use zklockbench_core::units::joined;

pub fn faults(view: &View<'_>) -> Result<Chart, String> {
    let sets = view.fault_sets();
    if sets.is_empty() {
        return Err("no faults were injected".to_owned());
    }
    let under = view.under_faults();
    let scale = scale(&under);
    let is_in = |cell: &&Cell<'_>| under.iter().any(|under| std::ptr::eq(under.cell, *cell));
    let cells: Vec<&Cell<'_>> = view.cells.iter().filter(is_in).collect();
    let tile = |cell: &Cell<'_>, set: usize| {
        let found = under.iter().find(|one| std::ptr::eq(one.cell, cell) && one.set == set)?;
        Some(tile(found, scale.as_ref()))
    };
    let several = view.contender_counts().len() > 1;
    let row = |cell: &&Cell<'_>| {
        let count = if several { format!(", {}", cell.contenders) } else { String::new() };
        let tiles = (0..sets.len()).map(|set| tile(cell, set)).collect();
        HeatRow { label: format!("{}{count}", view.label(cell)), tiles }
    };
    let rows: Vec<HeatRow> = cells.iter().map(row).collect();
    Ok(Chart {
        id: "faults".to_owned(),
        title: "Recovery from faults".to_owned(),
        said: said(&rows, &sets),
        caption: caption_of_doubts(view, how_to_read(&sets), &cells),
        kind: ChartKind::Heat(Heat { columns: sets.iter().map(FaultSet::name).collect(), rows }),
    })
}

/// Returns the scale shared by all tiles; `None` if no lock was ever acquired again. The scale starts at the
/// shortest gap that can be recorded, so times that differ little have similar colours.
fn scale(under: &[UnderFault<'_>]) -> Option<Axis> {
    let times = under.iter().filter_map(|one| Some(one.recovery()?.0)).filter(|us| us.is_finite());
    let longest = times.map(|us| us.max(SHORTEST_US)).reduce(f64::max)?;
    Some(Axis::durations("recovery", [SHORTEST_US, longest]))
}

fn tile(under: &UnderFault<'_>, scale: Option<&Axis>) -> Tile {
    let (said, fate) = under.told();
    let shade = match fate {
        Fate::Unknown => Shade::None,
        Fate::Recovered(us) => scale.map_or(Shade::None, |of| Shade::Time(of.share(us.max(SHORTEST_US)))),
        Fate::Stuck => Shade::Stuck,
        Fate::Violated => Shade::Violated,
    };
    Tile { said, shade, doubtful: !under.cell.is_sound() }
}

/// Returns the text alternative of the tiles.
fn said(rows: &[HeatRow], sets: &[FaultSet]) -> String {
    let tile = |(tile, set): (&Option<Tile>, &FaultSet)| {
        Some(format!("{}: {}", set.name(), tile.as_ref()?.said.join(", ")))
    };
    let tiles = |row: &HeatRow| joined(row.tiles.iter().zip(sets).filter_map(tile), "; ");
    joined(rows.iter().map(|row| format!("{}: {}.", row.label, tiles(row))), " ")
}

fn how_to_read(sets: &[FaultSet]) -> Vec<String> {
    const ALL: &str = "Time from a fault's effect to the next acquisition (median over proved faults). Violated, \
        stuck: violations and stuck contenders of all repetitions. Darker: longer.";
    const TOGETHER: &str = "A column with several faults shows the violations and stuck contenders of trials with \
        exactly these faults. Times are in the columns of single faults.";
    let has_several = sets.len() > 1 && sets.iter().any(|set| set.single().is_none());
    [Some(ALL), has_several.then_some(TOGETHER)].into_iter().flatten().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn chart_without_recoveries_has_no_scale() {
        assert_eq!(scale(&[]), None);
    }
}
