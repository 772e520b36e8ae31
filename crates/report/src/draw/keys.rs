//! Keys of a chart in a file: names of its lines, or of the parts of its bars.

use plotters::element::{DashedPathElement, Drawable, PointCollection};
use plotters::prelude::*;
use plotters_backend::{BackendCoord, DrawingErrorKind};

use super::style::{
    INK, LINE_WIDTH, MEDIUM, colour, corners, dash, gaps, part, text, text_width, units, wrap,
};
use super::{Area, Medium};
use crate::document::{ChartKind, Curve};

#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    Look(usize),
    Part(usize),
}

/// Names of lines, from the one that ends at the top; or of parts of bars. Undivided bars have their names beside them.
pub(super) fn keys(kind: &ChartKind) -> Vec<(Key, &str)> {
    match kind {
        ChartKind::Lines(lines) => {
            let end = |series: &Curve| series.line.last().map_or(0.0, |end| end.1);
            let mut series: Vec<&Curve> = lines.series.iter().collect();
            series.sort_by(|one, other| end(other).total_cmp(&end(one)));
            series.into_iter().map(|series| (Key::Look(series.look), series.label.as_str())).collect()
        }
        ChartKind::Panels(panels) => {
            panels.keys.iter().enumerate().map(|(look, label)| (Key::Look(look), label.as_str())).collect()
        }
        ChartKind::Bars(bars) if bars.parts.len() > 1 => {
            bars.parts.iter().map(|part| (Key::Part(part.colour), part.name.as_str())).collect()
        }
        ChartKind::Bars(_) | ChartKind::Ratios(_) | ChartKind::Heat(_) => Vec::new(),
    }
}

const SAMPLE: u32 = 48;
const ABOVE: u32 = 24;
/// Height of a line of the keys, which plotters derives from the text size.
const LINE: u32 = 22;

fn lines(label: &str) -> Vec<String> {
    const WIDTH: u32 = 190;
    wrap(label, MEDIUM, units(WIDTH))
}

/// Height of the keys in pixels.
pub(super) fn keys_height(kind: &ChartKind) -> u32 {
    let all = keys(kind).into_iter().map(|(_, label)| lines(label).len() as u32);
    ABOVE + 2 * LINE + LINE * all.sum::<u32>()
}

/// Draws the keys on the right and returns the remaining area.
pub(super) fn with_keys<DB: DrawingBackend>(
    keys: &[(Key, &str)],
    medium: Medium<'_>,
    area: Area<DB>,
) -> DrawResult<Area<DB>, DB> {
    if keys.is_empty() {
        return Ok(area);
    }
    let widest = keys.iter().flat_map(|(_, label)| lines(label)).map(|line| text_width(&line, MEDIUM)).max();
    let right = widest.unwrap_or(0) + units(SAMPLE + 12);
    let (area, side) = area.split_horizontally(area.dim_in_pixel().0 - right);
    let mut legend =
        ChartBuilder::on(&side).margin_top(units(ABOVE)).build_cartesian_2d(0.0..1.0, 0.0..1.0)?;
    for (key, label) in keys {
        for (at, line) in lines(label).into_iter().enumerate() {
            let entry = legend.draw_series(std::iter::empty::<Circle<(f64, f64), u32>>())?.label(line);
            if at == 0 {
                let key = *key;
                entry.legend(move |at| Sample::new(key, at, medium.has_gaps));
            }
        }
    }
    let mut labels = legend.configure_series_labels();
    labels.position(SeriesLabelPosition::Coordinate(0, 0)).margin(units(4)).legend_area_size(units(SAMPLE));
    labels.label_font(text(MEDIUM, INK)).draw()?;
    Ok(area)
}

/// A line with its marker, or a piece of a bar, beside a key.
pub(super) struct Sample {
    key: Key,
    at: [BackendCoord; 1],
    has_gaps: bool,
}

impl Sample {
    pub(super) const fn new(key: Key, at: BackendCoord, has_gaps: bool) -> Self {
        Self { key, at: [at], has_gaps }
    }
}

impl<'a> PointCollection<'a, BackendCoord> for &'a Sample {
    type Point = &'a BackendCoord;
    type IntoIter = &'a [BackendCoord];

    fn point_iter(self) -> &'a [BackendCoord] {
        &self.at
    }
}

impl<DB: DrawingBackend> Drawable<DB> for Sample {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        mut points: I,
        backend: &mut DB,
        size: (u32, u32),
    ) -> Result<(), DrawingErrorKind<DB::ErrorType>> {
        let Some((x, y)) = points.next() else { return Ok(()) };
        match self.key {
            Key::Look(look) => {
                let (ends, (long, gap)) = ([(x, y), (x + 84, y)], gaps(dash(look), self.has_gaps));
                let style = colour(look).stroke_width(LINE_WIDTH);
                DashedPathElement::new(ends, long, gap, style).draw(ends.into_iter(), backend, size)?;
                let corners = corners(look, x + 42).into_iter().map(|(across, down)| (across, y + down));
                backend.fill_polygon(corners, &colour(look).filled())
            }
            Key::Part(number) => {
                backend.draw_rect((x + 50, y - 14), (x + 80, y + 14), &part(number).filled(), true)
            }
        }
    }
}
