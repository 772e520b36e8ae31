//! Charts of rows: bars, ratios with their intervals, and tiles of heat maps.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_core::units::joined;

use super::lines::{Around, axes, draw_cross, draw_guides};
use super::style::{
    ALARM, FAINT, GOOD, INK, MEDIUM, RULE, SMALL, STUCK, anchored, colour, heat, ink_on, part, shorten,
    text_width, units, wrap,
};
use super::{Area, Backend, Medium, Painted, Plot};
use crate::document::{Axis, Bar, Bars, Heat, RatioRow, Ratios, Shade, Tile};

pub(super) const BAR: u32 = 44;
pub(super) const RATIO: u32 = 28;
/// Height of the axis labels, the axis title and the labels of guides.
const AXIS: u32 = 74;
/// Width of the text to the right of bars and ratios.
const VALUE: u32 = 90;
const VERDICT: u32 = 110;
const LINE: u32 = 17;

/// Returns a y axis with these labels, and the width of the labels, which is at most `share` of `width`.
fn labelled<'a>(labels: impl Iterator<Item = &'a str>, width: u32, share: f64) -> (Axis, u32) {
    let most = (f64::from(width) * share) as u32;
    let labels: Vec<String> = labels.map(|label| shorten(label, MEDIUM, most)).collect();
    let widest = labels.iter().map(|label| text_width(label, MEDIUM)).max().unwrap_or(0);
    (Axis::rows(&labels), widest + units(12))
}

/// Returns the height of a chart with this many rows of this height.
pub(super) const fn height(rows: usize, row: u32) -> u32 {
    row * rows as u32 + AXIS
}

pub(super) fn draw_bars(bars: &Bars, medium: Medium<'_>, area: &Area<impl Backend>) -> Painted {
    let labels = bars.rows.iter().map(|row| row.label.as_str());
    let (y, left) = labelled(labels, area.dim_in_pixel().0, 0.42);
    let mut chart = axes(area, &bars.axis, &y, &Around { above: units(24), left, right: units(VALUE) })?;
    draw_guides(&mut chart, &bars.guides, &[], medium)?;
    for (row, at) in bars.rows.iter().zip(1_u32..) {
        draw_bar(&mut chart, bars, row, f64::from(at))?;
    }
    Ok(())
}

fn draw_bar(chart: &mut Plot<'_, impl Backend>, bars: &Bars, row: &Bar, at: f64) -> Painted {
    let mut length = 0.0;
    for one in &row.parts {
        let (from, to) = ((length, at - 0.32), (length + one.length, at + 0.32));
        length = to.0;
        if bars.parts.len() > 1 {
            let fill = part(bars.parts.get(one.of).map_or(0, |part| part.colour));
            chart.draw_series([Rectangle::new([from, to], fill.filled())])?;
            if one.length >= 0.1 * bars.axis.high {
                let (middle, style) =
                    (f64::midpoint(from.0, to.0), anchored(SMALL, ink_on(fill), HPos::Center));
                chart.draw_series([Text::new(one.label.clone(), (middle, at), style)])?;
            }
        } else if row.mark.doubtful {
            let outline = vec![from, (to.0, from.1), to, (from.0, to.1), from];
            chart.draw_series([PathElement::new(outline, colour(row.look).stroke_width(4))])?;
        } else {
            chart.draw_series([Rectangle::new([from, to], colour(row.look).filled())])?;
        }
    }
    chart.draw_series(row.dots.iter().map(|(value, doubtful)| {
        let style = if *doubtful { INK.stroke_width(3) } else { INK.filled() };
        Circle::new((*value, at), 6, style)
    }))?;
    let end = row.dots.iter().map(|dot| dot.0).fold(length, f64::max);
    let beside = if row.mark.violated { 56 } else { 16 };
    if row.mark.violated {
        draw_cross(chart, (end, at), 32)?;
    }
    let value = Text::new(row.value.clone(), (beside, 0), anchored(MEDIUM, INK, HPos::Left));
    chart.draw_series([EmptyElement::at((end, at)) + value])?;
    Ok(())
}

/// Largest ratio on the scale. Larger ratios, and ratios below its reciprocal, are drawn at the ends of the scale.
const FARTHEST: f64 = 10.0;

pub(super) fn draw_ratios(ratios: &Ratios, area: &Area<impl Backend>) -> Painted {
    let labels = ratios.rows.iter().map(|row| row.label.as_str());
    let (y, left) = labelled(labels, area.dim_in_pixel().0, 0.55);
    let values = |row: &RatioRow| {
        let ends = row.interval.into_iter().flat_map(|one| [one.low, one.value, one.high]);
        let dots = row.above.iter().chain(&row.below).copied();
        ends.chain(dots).chain(row.margin.into_iter().flatten()).collect::<Vec<f64>>()
    };
    let all = ratios.rows.iter().flat_map(values).chain([1.0]);
    let x = Axis::logarithmic(ratios.of, all.map(|ratio| ratio.clamp(1.0 / FARTHEST, FARTHEST)));
    let mut chart = axes(area, &x, &y, &Around { above: units(24), left, right: units(VERDICT) })?;
    let below = ratios.rows.len() as f64 + 0.5;
    chart.draw_series([PathElement::new([(1.0, 0.5), (1.0, below)], INK.stroke_width(4))])?;
    for (row, at) in ratios.rows.iter().zip(1_u32..) {
        draw_ratio(&mut chart, row, f64::from(at))?;
    }
    Ok(())
}

fn draw_ratio(chart: &mut Plot<'_, impl Backend>, row: &RatioRow, at: f64) -> Painted {
    let ink = match row.verdict {
        ComparisonVerdict::Regressed => ALARM,
        ComparisonVerdict::Improved => GOOD,
        ComparisonVerdict::Same => colour(0),
        ComparisonVerdict::Differs | ComparisonVerdict::Inconclusive | ComparisonVerdict::NotMeasured => {
            FAINT
        }
    };
    let edge = |end: f64| PathElement::new([(end, at - 0.5), (end, at + 0.5)], RULE.stroke_width(2));
    chart.draw_series(row.margin.into_iter().flatten().map(edge))?;
    for (values, up, ink) in [(&row.above, -0.25, FAINT), (&row.below, 0.25, ink)] {
        chart.draw_series(values.iter().map(|value| Circle::new((*value, at + up), 4, ink.filled())))?;
    }
    if let Some(one) = row.interval {
        let (low, high) = if one.is_bounded() { (one.low, one.high) } else { (one.value, one.value) };
        let bar = ErrorBar::new_horizontal(at, low, one.value, high, ink.filled().stroke_width(6), 16);
        chart.draw_series([bar])?;
    }
    let word = Text::new(row.verdict.word(), (16, 0), anchored(SMALL, ink, HPos::Left));
    chart.draw_series([EmptyElement::at((chart.x_range().end, at)) + word])?;
    Ok(())
}

/// Returns the width of a tile in pixels, wide enough for any verdict.
fn tile_width(heat: &Heat) -> u32 {
    let room = super::WIDTH.saturating_sub(heat_labels(heat) + 60);
    (room / heat.columns.len().max(1) as u32).clamp(84, 170)
}

/// Returns the width of the row labels in pixels.
fn heat_labels(heat: &Heat) -> u32 {
    const MOST: u32 = 480;
    let widths = heat.rows.iter().map(|row| text_width(&row.label, MEDIUM));
    (widths.max().unwrap_or(0) / units(1) + 1).min(MOST)
}

fn written(tile: &Tile, width: u32) -> Vec<String> {
    tile.said.iter().flat_map(|said| wrap(said, SMALL, units(width - 6))).collect()
}

pub(super) fn heat_size(heat: &Heat) -> (u32, u32) {
    let tile = tile_width(heat);
    let tiles = heat.rows.iter().flat_map(|row| row.tiles.iter().flatten());
    let lines = tiles.map(|one| written(one, tile).len()).max().unwrap_or(1).max(1) as u32;
    let width = heat_labels(heat) + tile * heat.columns.len() as u32 + 60;
    (width.max(super::WIDTH), height(heat.rows.len(), LINE * lines + 12))
}

/// Returns the names of the numbered columns, if they are too long to fit below the tiles.
pub(super) fn numbered_columns(heat: &Heat) -> Option<String> {
    let most = units(tile_width(heat) - 6);
    let fit = heat.columns.iter().all(|name| text_width(name, MEDIUM) < most);
    let named = heat.columns.iter().zip(1..).map(|(name, number)| format!("({number}) {name}"));
    (!fit).then(|| format!("Columns: {}.", joined(named, ", ")))
}

pub(super) fn draw_heat(heat: &Heat, area: &Area<impl Backend>) -> Painted {
    let width = area.dim_in_pixel().0;
    let labels = heat.rows.iter().map(|row| row.label.as_str());
    let (y, left) = labelled(labels, width, f64::from(units(heat_labels(heat))) / f64::from(width));
    let names = match numbered_columns(heat) {
        Some(_) => (1..=heat.columns.len()).map(|number| format!("({number})")).collect(),
        None => heat.columns.clone(),
    };
    let tile_width = tile_width(heat);
    let unused = width.saturating_sub(left + units(tile_width) * names.len() as u32);
    let mut chart = axes(area, &Axis::tiles(&names), &y, &Around { above: units(24), left, right: unused })?;
    for (row, down) in heat.rows.iter().zip(1_u32..) {
        for (tile, across) in row.tiles.iter().zip(1_u32..) {
            draw_tile(&mut chart, tile.as_ref(), tile_width, (f64::from(across), f64::from(down)))?;
        }
    }
    Ok(())
}

fn draw_tile(chart: &mut Plot<'_, impl Backend>, tile: Option<&Tile>, width: u32, at: (f64, f64)) -> Painted {
    let (from, to) = ((at.0 - 0.48, at.1 - 0.46), (at.0 + 0.48, at.1 + 0.46));
    let colour = match tile.map_or(Shade::None, |tile| tile.shade) {
        Shade::None => WHITE,
        Shade::Time(share) => self::heat(share),
        Shade::Stuck => STUCK,
        Shade::Violated => ALARM,
    };
    chart.draw_series([Rectangle::new([from, to], colour.filled())])?;
    let is_doubtful = tile.is_some_and(|tile| tile.doubtful);
    if is_doubtful {
        let inner = [(from.0 + 0.03, from.1 + 0.1), (to.0 - 0.03, to.1 - 0.1)];
        chart.draw_series([Rectangle::new(inner, WHITE.filled())])?;
    }
    let ink = ink_on(if is_doubtful { WHITE } else { colour });
    let lines = tile.map_or_else(|| vec!["-".to_owned()], |tile| written(tile, width));
    let middle = lines.len().saturating_sub(1) as i32 * LINE.cast_signed();
    for (line, row) in lines.into_iter().zip(0_i32..) {
        let down = row * units(LINE).cast_signed() - middle;
        let text = Text::new(line, (0, down), anchored(SMALL, ink, HPos::Center));
        chart.draw_series([EmptyElement::at(at) + text])?;
    }
    Ok(())
}
