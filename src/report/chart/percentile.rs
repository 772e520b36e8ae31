//! A measure by percentile, on the scale that shows the tail: each step to the right is ten times rarer.

use super::axis::Axis;
use super::look::{INK, Mark, caption_of, dashed};
use super::picture::{Anchor, Picture, SMALL};
use super::plot::{Marked, Plot, Series, draw_series};
use super::sheet::Sheet;
use crate::report::View;
use crate::report::view::{Cell, Repetition};
use crate::results::record::Timing;
use crate::words::measure::{Measure, Survival};
use crate::words::units::{self, format_micros};

/// The contender count that the chart is drawn for; `None` when there is no sample.
pub(super) fn count(view: &View, measure: Measure) -> Option<usize> {
    view.best_common_count(|cell| cell.has_samples(measure))
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View, measure: Measure) -> Result<Picture, String> {
    let name = measure.name();
    let contenders = count(view, measure).ok_or_else(|| format!("no trial measured a {name}"))?;
    let all: Vec<Series> = view.cells_at(contenders).filter_map(|cell| series(view, cell, measure)).collect();
    let shown = |cell: &Cell| cell.contenders == contenders && cell.has_samples(measure);
    let unserved = |cell: &Cell| cell.sum(Repetition::unserved);
    let bound = view.cells.iter().any(|cell| shown(cell) && measure == Measure::Wait && unserved(cell) > 0);
    let bound = bound.then(|| {
        "Unserved waits would have lasted longer than is known: a line ends where only they are left."
            .to_owned()
    });
    let floor = floor(view, measure);
    let under = floor.map(|floor| {
        format!(
            "Dashed: the floor, {}, a handoff without a lock (median of {}).",
            format_micros(floor.p50_us),
            floor.count
        )
    });
    let said = [explain(measure)].into_iter().chain(under).chain(bound).collect::<Vec<_>>().join(" ");
    let said = caption_of(view, vec![said], shown);
    let title = format!("{} by percentile, {}", units::capitalised(&name), units::contenders(contenders));
    let keys: Vec<_> = all.iter().map(Series::key).collect();
    let mut sheet = Sheet::for_keys(&view.place_line(), &title, &said, &keys);
    let furthest = all.iter().filter_map(|series| series.line.last()).map(|end| end.0).fold(10.0, f64::max);
    let heights = all.iter().flat_map(Series::heights);
    let y = Axis::durations(&name, heights.chain(floor.map(|floor| floor.p50_us as f64)));
    let plot = sheet.plot(Axis::percentiles(furthest), y, &keys);
    if let Some(floor) = floor {
        draw_floor(&mut sheet.picture, &plot, floor);
    }
    draw_series(&mut sheet.picture, &plot, &all);
    Ok(sheet.picture)
}

/// What the samples of a measure cannot fall below; only of handoffs.
fn floor(view: &View, measure: Measure) -> Option<Timing> {
    view.floor.as_ref()?.handoff.filter(|floor| measure == Measure::Handoff && floor.p50_us > 0)
}

/// A dashed line across, and its value at the left end.
fn draw_floor(picture: &mut Picture, plot: &Plot, floor: Timing) {
    let row = plot.bottom - plot.y.share(floor.p50_us as f64) * (plot.bottom - plot.top);
    dashed(picture, &[(plot.left, row), (plot.right, row)], &[6.0, 4.0], INK, 1.5);
    let name = format!("floor: {}", format_micros(floor.p50_us));
    picture.text((plot.left + 6.0, row + 10.0), name, SMALL, INK, Anchor::Start);
}

fn explain(measure: Measure) -> String {
    let what = match measure {
        Measure::Handoff => {
            "Handoff: from one holder's release call to the next holder's return from acquire."
        }
        _ => "Wait: from when the acquire should have started to its return.",
    };
    format!(
        "{what} The samples of all repetitions are pooled; a line ends where fewer than ten samples remain beyond it."
    )
}

fn series(view: &View, cell: &Cell, measure: Measure) -> Option<Series> {
    let samples = cell.pooled(measure)?;
    let mark = Mark::of(cell);
    Some(Series {
        strategy: cell.strategy,
        label: view.label(cell).to_owned(),
        line: curve(&samples),
        markers: markers(&samples, mark),
        dots: Vec::new(),
    })
}

/// The curve: from the smallest sample to the rarest that is shown.
pub(super) fn curve(samples: &Survival) -> Vec<(f64, f64)> {
    const STEPS: u32 = 240;
    let end = samples.rarest_shown();
    let point = |step: u32| {
        let rarity = end.powf(f64::from(step) / f64::from(STEPS));
        (rarity, value_at(samples, rarity))
    };
    let mut points: Vec<(f64, f64)> = (0..STEPS).map(point).collect();
    points.push(last(samples, end));
    points
}

/// Where the curve ends: of so few samples that all are shown, at the largest.
fn last(samples: &Survival, end: f64) -> (f64, f64) {
    let longest = samples.longest();
    let shows_all = end >= samples.count() as f64 && !longest.at_least;
    (end, if shows_all { longest.us.max(1) as f64 } else { value_at(samples, end) })
}

/// Markers at the percentiles that have a tick, and at the end.
pub(super) fn markers(samples: &Survival, mark: Mark) -> Vec<Marked> {
    let end = samples.rarest_shown();
    let named = [1.0, 2.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6].into_iter().filter(|rarity| *rarity < end * 0.8);
    // One cross a line is enough.
    let plain = Mark { violated: false, ..mark };
    let mut markers: Vec<_> = named.map(|rarity| ((rarity, value_at(samples, rarity)), plain)).collect();
    markers.push((last(samples, end), mark));
    markers
}

fn value_at(samples: &Survival, rarity: f64) -> f64 {
    samples.quantile(1.0 - 1.0 / rarity).us.max(1) as f64
}
