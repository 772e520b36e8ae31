//! Line charts with bands, guides, intervals, markers and dots; and panels of small line charts.

use std::iter::once;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{
    ALARM, BAND, FAINT, GRID, GUIDE_DASH, GUIDE_WIDTH, INK, LINE_WIDTH, MEDIUM, RULE, SMALL, colour, corners,
    dash, gaps, shorten, text, text_width, units,
};
use super::{Area, Backend, Medium, PAGE_MARGIN, PAGE_WIDTH, Painted, Plot};
use crate::document::{Axis, Curve, Guide, GuideCourse, LABEL, Lines, Mark, Panels, Weight};

/// Heights of the areas above a plot, for the title of the y axis and the labels of guides, and below a plot, for
/// the labels and the title of the x axis.
const ABOVE: u32 = 44;
const BELOW: u32 = 46;
const RIGHT: u32 = 20;
pub(super) const PAGE_HEIGHT: u32 = 376;
/// Height of a panel.
pub(super) const PANEL: u32 = 306;
const BETWEEN: u32 = 16;
pub(super) const BESIDE: usize = 2;

/// Margins of a plot, in units.
pub(super) struct Around {
    pub above: u32,
    pub left: u32,
    pub right: u32,
}

pub(super) fn axes<'a, D: Backend>(
    area: &Area<D>,
    x: &Axis,
    y: &Axis,
    around: &Around,
) -> Painted<Plot<'a, D>> {
    if !y.title().is_empty() {
        area.draw(&Text::new(y.title(), (0, 0), text(MEDIUM, INK)))?;
    }
    let mut chart = ChartBuilder::on(area)
        .margin_top(around.above)
        .margin_right(around.right)
        .x_label_area_size(units(BELOW))
        .y_label_area_size(around.left)
        .build_cartesian_2d(x.clone(), y.clone())?;
    let (width, height) = chart.plotting_area().dim_in_pixel();
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID.stroke_width(2))
        .axis_style(RULE.stroke_width(2))
        .label_style(text(MEDIUM, INK))
        .set_all_tick_mark_size(units(4))
        .x_labels((width / units(LABEL)) as usize)
        .y_labels(upright_labels(height));
    if !x.title().is_empty() {
        mesh.x_desc(x.title());
    }
    if y.title().is_empty() {
        mesh.disable_y_mesh();
    }
    mesh.draw()?;
    Ok(chart)
}

fn upright_labels(height: u32) -> usize {
    (height / units(32)) as usize
}

/// Returns the width of the widest label on either scale.
fn labels_width(lines: &Lines, height: u32) -> u32 {
    let labels = once(&lines.y).chain(&lines.other_y).flat_map(|axis| axis.labels(upright_labels(height)));
    labels.map(|label| text_width(&label, MEDIUM)).max().unwrap_or(0) + units(12)
}

/// Returns the position of a chart's plot on a page: its left and right ends, and its top and bottom.
pub fn plot_area(lines: &Lines) -> [(i32, i32); 2] {
    let inner = units(PAGE_HEIGHT - ABOVE - BELOW);
    let ends = |from: u32, to: u32| (from.cast_signed(), to.cast_signed());
    [
        ends(units(PAGE_MARGIN) + labels_width(lines, inner), units(PAGE_WIDTH - PAGE_MARGIN - RIGHT)),
        ends(units(PAGE_MARGIN + ABOVE), units(PAGE_MARGIN + ABOVE) + inner),
    ]
}

pub(super) fn draw(lines: &Lines, medium: Medium<'_>, area: &Area<impl Backend>) -> Painted {
    let y = lines.other_y.as_ref().filter(|_| medium.is_other_scale).unwrap_or(&lines.y);
    let left = labels_width(lines, area.dim_in_pixel().1 - units(ABOVE + BELOW));
    let mut chart = axes(area, &lines.x, y, &Around { above: units(ABOVE), left, right: units(RIGHT) })?;
    for band in &lines.bands {
        let shade = BAND.mix(0.12 + 0.2 * band.share);
        let (from, to) = ((band.from, y.low), (band.to, y.high));
        chart.draw_series([Rectangle::new([from, to], shade.filled())])?;
        // The edge makes even the shortest band visible.
        chart.draw_series([PathElement::new([from, (band.from, to.1)], shade.stroke_width(4))])?;
    }
    draw_guides(&mut chart, &lines.guides, &lines.series, medium)?;
    lines.series.iter().try_for_each(|curve| draw_around(&mut chart, curve))?;
    for curve in &lines.series {
        let (long, gap) = gaps(dash(curve.look), medium.has_gaps);
        let style = colour(curve.look).stroke_width(LINE_WIDTH);
        chart.draw_series(DashedLineSeries::new(curve.line.iter().copied(), long, gap, style))?;
    }
    draw_markers(&mut chart, &lines.series)
}

/// Draws the intervals, repetitions and measurements around a line.
fn draw_around(chart: &mut Plot<'_, impl Backend>, curve: &Curve) -> Painted {
    let colour = colour(curve.look);
    if !curve.shaded.is_empty() {
        let above = curve.shaded.iter().map(|ends| (ends.at, ends.high));
        let corners = above.chain(curve.shaded.iter().rev().map(|ends| (ends.at, ends.low)));
        chart.draw_series([Polygon::new(corners.collect::<Vec<_>>(), colour.mix(0.15))])?;
    }
    chart.draw_series(curve.whiskers.iter().map(|ends| {
        ErrorBar::new_vertical(ends.at, ends.low, ends.middle, ends.high, colour.filled().stroke_width(2), 16)
    }))?;
    chart.draw_series(curve.dots.iter().map(|(at, mark)| {
        let style = if mark.doubtful { colour.stroke_width(2) } else { colour.mix(0.5).filled() };
        Circle::new(*at, if mark.doubtful { 8 } else { 5 }, style)
    }))?;
    // The ring of a lower bound is thin.
    let ring = |mark: Mark| INK.stroke_width(if mark.doubtful { 2 } else { 4 });
    chart.draw_series(curve.measured.iter().map(|(at, mark)| Circle::new(*at, 18, ring(*mark))))?;
    Ok(())
}

/// Draws all markers, side by side if they would overlap: hollow if doubtful, crossed out if violated.
fn draw_markers(chart: &mut Plot<'_, impl Backend>, all: &[Curve]) -> Painted {
    let mut taken: Vec<(i32, i32)> = Vec::new();
    for curve in all {
        for (at, mark) in &curve.markers {
            let (x, y) = chart.backend_coord(at);
            let is_near = |other: &&(i32, i32)| (other.0 - x).abs() < 10 && (other.1 - y).abs() < 8;
            let near = taken.iter().filter(is_near).count();
            taken.push((x, y));
            let side = if near % 2 == 0 { -1 } else { 1 };
            let right = side * 16 * near.div_ceil(2).min(4) as i32;
            let mut corners = corners(curve.look, right);
            if mark.doubtful {
                corners.push(corners[0]);
                let outline = PathElement::new(corners, colour(curve.look).stroke_width(4));
                chart.draw_series([EmptyElement::at(*at) + outline])?;
            } else {
                chart.draw_series([EmptyElement::at(*at) + Polygon::new(corners, colour(curve.look))])?;
            }
            if mark.violated {
                draw_cross(chart, *at, right)?;
            }
        }
    }
    Ok(())
}

/// Crosses out the value of a lock that broke a promise.
pub(super) fn draw_cross(chart: &mut Plot<'_, impl Backend>, at: (f64, f64), right: i32) -> Painted {
    chart.draw_series([EmptyElement::at(at) + Cross::new((right, 0), 16, ALARM.stroke_width(4))])?;
    Ok(())
}

/// Draws reference lines and their labels: above the plot for upright lines, otherwise on the line.
pub(super) fn draw_guides(
    chart: &mut Plot<'_, impl Backend>,
    guides: &[Guide],
    series: &[Curve],
    medium: Medium<'_>,
) -> Painted {
    let (x, y) = (chart.x_range(), chart.y_range());
    let mut above: Vec<(f64, &str)> = Vec::new();
    for guide in guides {
        let (line, ink) = match guide.weight {
            Weight::Faint => (RULE, FAINT),
            Weight::Strong => (INK, INK),
            Weight::Limit => (ALARM, ALARM),
        };
        let points = match &guide.course {
            GuideCourse::Level(height) => vec![(x.start, *height), (x.end, *height)],
            GuideCourse::Along(points) => points.clone(),
            GuideCourse::Upright(at) => vec![(*at, y.start), (*at, y.end)],
            GuideCourse::Above(_) => Vec::new(),
        };
        if let GuideCourse::Upright(at) | GuideCourse::Above(at) = guide.course {
            above.push((at, &guide.label));
        } else if !guide.label.is_empty() {
            let is_left = points.len() == 2 && has_room_left(chart, series, points[0].1);
            let (at, across, right) = match points.get(points.len() * 4 / 5) {
                Some(at) if points.len() > 2 => (*at, HPos::Right, -24),
                _ if is_left => (points[0], HPos::Left, 12),
                _ => (points[1], HPos::Right, -8),
            };
            let style = text(SMALL, ink).pos(Pos::new(across, VPos::Bottom));
            let label = Text::new(guide.label.clone(), (right, -4), style);
            chart.draw_series([EmptyElement::at(at) + label])?;
        }
        let (long, gap) = gaps(GUIDE_DASH, medium.has_gaps);
        chart.draw_series(DashedLineSeries::new(points, long, gap, line.stroke_width(GUIDE_WIDTH)))?;
    }
    write_above(chart, above)
}

/// Returns whether the lines are at least as far from `height` at their left ends as at their right ends.
fn has_room_left(chart: &Plot<'_, impl Backend>, series: &[Curve], height: f64) -> bool {
    let away = |at: &(f64, f64)| (chart.backend_coord(at).1 - chart.backend_coord(&(at.0, height)).1).abs();
    let left = series.iter().map(|one| one.line.first().map_or(0, away)).min();
    let right = series.iter().map(|one| one.line.last().map_or(0, away)).min();
    left >= right
}

/// Writes labels above the plot, and skips labels that would touch the previous label.
fn write_above(chart: &mut Plot<'_, impl Backend>, mut labels: Vec<(f64, &str)>) -> Painted {
    let (top, across) = (chart.y_range().end, chart.plotting_area().get_pixel_range().0);
    let mut free = across.start;
    labels.retain(|(_, label)| !label.is_empty());
    labels.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (at, label) in labels {
        let label = shorten(label, SMALL, across.len() as u32);
        let wide = text_width(&label, SMALL).cast_signed();
        let column = chart.backend_coord(&(at, top)).0;
        let start = (column - 4).min(across.end - wide);
        if start >= free {
            let style = text(SMALL, FAINT).pos(Pos::new(HPos::Left, VPos::Bottom));
            let label = Text::new(label, (start - column, -8), style);
            chart.draw_series([EmptyElement::at((at, top)) + label])?;
            free = start + wide + 10;
        }
    }
    Ok(())
}

pub(super) fn draw_panels(all: &Panels, medium: Medium<'_>, area: &Area<impl Backend>) -> Painted {
    let beside = all.panels.len().clamp(1, BESIDE);
    let cells = area.split_evenly((all.panels.len().div_ceil(BESIDE), beside));
    for (cell, (heading, lines)) in cells.iter().zip(&all.panels) {
        let heading = shorten(heading, MEDIUM, cell.dim_in_pixel().0 - units(RIGHT));
        let cell = cell.margin(0, units(BETWEEN), 0, units(BETWEEN)).titled(&heading, text(MEDIUM, INK))?;
        draw(lines, medium, &cell)?;
    }
    Ok(())
}
