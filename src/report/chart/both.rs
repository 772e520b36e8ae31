//! The waits of both sides of a comparison by percentile, on the same axes: a panel for each cell.

use super::axis::Axis;
use super::look::{Look, Mark};
use super::panels::{Panel, Panels};
use super::percentile::{curve, markers};
use super::picture::{MEDIUM, Picture, shorten};
use super::plot::{Key, Series};
use crate::answer::compare::{CellUnderLoad, Comparison, Side};
use crate::words::measure::{Measure, Survival};

const SIDES: [&str; 2] = ["base", "new"];
/// Two keys beside each other have room for labels that wide.
const KEY: f64 = 380.0;

/// Draws it, the cells with the worst verdicts first; says why when neither side has a sample.
pub(super) fn draw(base: &Side, new: &Side, compared: &Comparison) -> Result<Picture, String> {
    let mut rows: Vec<_> = compared.rows.iter().collect();
    rows.sort_by_key(|row| row.compared.verdict);
    let mut cells: Vec<&CellUnderLoad> = Vec::new();
    for row in rows {
        if !cells.contains(&&row.cell) {
            cells.push(&row.cell);
        }
    }
    let panels: Vec<Panel> = cells.into_iter().filter_map(|cell| panel(cell, [base, new])).collect();
    if panels.is_empty() {
        return Err("no sound trial of either side measured a wait".to_owned());
    }
    let paths = [&compared.base.path, &compared.new.path];
    let key = |at: usize| Key {
        look: Look::of(at),
        label: shorten(&format!("{}: {}", SIDES[at], paths[at]), MEDIUM, KEY),
        end: (1.0, 1.0),
    };
    let mut caption = vec![
        "Wait: from when the acquire should have started to its return. The samples of all sound repetitions of a \
         side are pooled; a line ends where fewer than ten samples remain beyond it, or only unserved waits."
            .to_owned(),
    ];
    caption
        .extend(compared.forced.iter().map(|why| format!("Forced, although it cannot be compared: {why}.")));
    let panels = Panels {
        title: "Wait by percentile, both sides".to_owned(),
        place: format!("{}.", compared.conclusion.sentence),
        keys: vec![key(0), key(1)],
        panels,
        caption,
    };
    Ok(panels.draw())
}

/// The panel of a cell; `None` where neither side has a sample.
fn panel(cell: &CellUnderLoad, sides: [&Side; 2]) -> Option<Panel> {
    let samples = sides.map(|side| side.pooled(cell, Measure::Wait));
    let series: Vec<Series> =
        samples.iter().enumerate().filter_map(|(at, samples)| Some(of(at, samples.as_ref()?))).collect();
    let furthest =
        series.iter().filter_map(|series| series.line.last()).map(|end| end.0).fold(10.0, f64::max);
    let y = Axis::durations("wait", series.iter().flat_map(Series::heights));
    let grew: Vec<&str> = SIDES
        .into_iter()
        .zip(sides)
        .filter(|(_, side)| side.queue_grew(cell))
        .map(|(name, _)| name)
        .collect();
    let grew = match grew.as_slice() {
        [] => String::new(),
        names => format!(" (the queue of the {} grew)", names.join(" and the ")),
    };
    (!series.is_empty()).then(|| Panel {
        heading: format!("{}{grew}", cell.name()),
        x: Axis::percentiles(furthest),
        y,
        series,
        rules: Vec::new(),
    })
}

fn of(at: usize, samples: &Survival) -> Series {
    Series {
        strategy: at,
        label: SIDES[at].to_owned(),
        line: curve(samples),
        markers: markers(samples, Mark::default()),
        dots: Vec::new(),
    }
}
