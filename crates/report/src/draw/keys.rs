//! Legend of a chart in a file: the names of its lines or bar segments.

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::style::{
    INK, LINE_WIDTH, MEDIUM, anchored, colour, corners, dash, gaps, part, text_width, units, wrap,
};
use super::{Area, Backend, Medium, Painted};
use crate::document::{ChartKind, Curve};

#[derive(Debug, Clone, Copy)]
pub(super) enum Key {
    Look(usize),
    Part(usize),
}

/// Returns the entries of the legend. A line chart's entries are ordered by the lines' last values, highest first.
fn keys(kind: &ChartKind) -> Vec<(Key, &str)> {
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

const MARGIN: u32 = 4;
const SAMPLE: u32 = 48;
const ABOVE: u32 = 24;
const LINE: u32 = 22;

fn lines(label: &str) -> Vec<String> {
    const WIDTH: u32 = 190;
    wrap(label, MEDIUM, units(WIDTH))
}

/// Returns the height of the keys in pixels.
pub(super) fn keys_height(kind: &ChartKind) -> u32 {
    let all = keys(kind).into_iter().map(|(_, label)| lines(label).len() as u32);
    ABOVE + 2 * LINE + LINE * all.sum::<u32>()
}

/// Draws the keys on the right and returns the remaining area.
pub(super) fn with_keys<D: Backend>(kind: &ChartKind, medium: Medium<'_>, area: Area<D>) -> Painted<Area<D>> {
    let keys = keys(kind);
    let widest = keys.iter().flat_map(|(_, label)| lines(label)).map(|line| text_width(&line, MEDIUM)).max();
    let Some(widest) = widest else { return Ok(area) };
    let right = widest + units(SAMPLE + 3 * MARGIN);
    let (area, side) = area.split_horizontally(area.dim_in_pixel().0 - right);
    let mut y = units(ABOVE + MARGIN + LINE / 2).cast_signed();
    for (key, label) in keys {
        draw_sample(&side, key, (units(MARGIN).cast_signed(), y), medium.has_gaps)?;
        for line in lines(label) {
            let x = units(MARGIN + SAMPLE).cast_signed();
            side.draw(&Text::new(line, (x, y), anchored(MEDIUM, INK, HPos::Left)))?;
            y += units(LINE).cast_signed();
        }
    }
    Ok(area)
}

/// Draws a key's sample: a line with its marker, or a piece of a bar.
pub(super) fn draw_sample(on: &Area<impl Backend>, key: Key, (x, y): (i32, i32), has_gaps: bool) -> Painted {
    match key {
        Key::Look(look) => {
            let (ends, (long, gap)) = ([(x, y), (x + 84, y)], gaps(dash(look), has_gaps));
            on.draw(&DashedPathElement::new(ends, long, gap, colour(look).stroke_width(LINE_WIDTH)))?;
            let corners = corners(look, x + 42).into_iter().map(|(across, down)| (across, y + down));
            on.draw(&Polygon::new(corners.collect::<Vec<_>>(), colour(look)))?;
        }
        Key::Part(number) => {
            on.draw(&Rectangle::new([(x + 50, y - 14), (x + 80, y + 14)], part(number).filled()))?;
        }
    }
    Ok(())
}
