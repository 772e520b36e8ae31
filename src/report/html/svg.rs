//! Charts as SVG within the page: text is text, colours come from the page's style, and no curve has more points than can
//! be seen.

use maud::{Markup, PreEscaped, html};
use serde_json::json;

use super::text;
use crate::report::document::{
    Axis, Bars, Chart, Ends, Kind, Lines, Row, Scale, Series, Tick, Unit, simplified,
};
use crate::words::units::{format_micros, number};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 48.0;
/// Points that lie within that many pixels of a line are not drawn.
const TOLERANCE: f64 = 0.25;
/// More positions than that cannot be pointed at.
const POSITIONS: usize = 160;

const MARKERS: [&str; 8] = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.2L5 3.8H-5z",
    "M0-5.6L5.6 0L0 5.6L-5.6 0z",
    "M0 5.2L5-3.8H-5z",
    "M-1.8-5h3.6v3.2H5v3.6H1.8V5h-3.6V1.8H-5v-3.6h3.2z",
    "M-2.9-5h5.8L5.8 0L2.9 5h-5.8L-5.8 0z",
    "M0-6L1.6-1.9L6-1.6L2.6 1.1L3.7 5.4L0 3L-3.7 5.4L-2.6 1.1L-6-1.6L-1.6-1.9z",
];

/// The outlines of all markers, to be used by every chart of the page.
pub(super) fn markers() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" {
            defs {
                @for (outline, at) in MARKERS.iter().zip(0_usize..) { path id={ "m" (at) } d=(outline) {} }
                path id="crossed" d="M-7-7L7 7M-7 7L7-7" {}
            }
        }
    }
}

fn marker(strategy: usize) -> String {
    format!("#m{}", strategy % MARKERS.len())
}

/// A short piece of a strategy's line with its marker.
pub(super) fn swatch(strategy: usize) -> Markup {
    html! {
        svg class={ "swatch k" (strategy) } viewBox="0 0 34 14" width="34" height="14" aria-hidden="true" {
            path.line d="M1 7H33" {}
            use.mark href=(marker(strategy)) x="17" y="7" {}
        }
    }
}

/// A chart, and the values under the pointer as JSON that may stand in a page.
pub(super) fn chart(chart: &Chart, id: &str, strategies: &[String]) -> (Markup, Option<String>) {
    let (height, drawing, values) = match &chart.kind {
        Kind::Lines(lines) => {
            let (drawing, values) = self::lines(lines, strategies);
            (HEIGHT, drawing, Some(values))
        }
        Kind::Bars(bars) => {
            let (height, drawing) = self::bars(bars);
            (height, drawing, None)
        }
    };
    let (title, said) = (format!("{id}-t"), format!("{id}-d"));
    let drawn = html! {
        svg role="img" aria-labelledby={ (title) " " (said) } viewBox={ "0 0 " (WIDTH) " " (height) }
            preserveAspectRatio="xMidYMid meet" {
            title id=(title) { (text(&chart.title)) }
            desc id=(said) { (text(&chart.said)) }
            (drawing)
        }
    };
    (drawn, values)
}

/// Where values lie on an axis.
struct AxisRange {
    is_log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    ticks: Vec<Tick>,
}

impl AxisRange {
    /// Over these values, from one pixel to another.
    fn over(axis: &Axis, is_log: bool, values: &[f64], from: f64, to: f64) -> Self {
        let known = || values.iter().copied().filter(|value| value.is_finite() && (!is_log || *value > 0.0));
        let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        let most = if most > 0.0 { most } else { 1.0 };
        if is_log {
            let least = if least.is_finite() { least } else { most / 10.0 };
            let (low, high) = match axis.ticks.is_empty() {
                true if below(least) < above(most) => (below(least), above(most)),
                true => (below(least * 0.99), above(most * 1.01)),
                false => (least, most.max(least * 1.5)),
            };
            let ticks = match axis.ticks.as_slice() {
                [] => steps(low, high).into_iter().map(|at| tick(axis, at)).collect(),
                given => given
                    .iter()
                    .filter(|tick| tick.at >= low * 0.999 && tick.at <= high * 1.001)
                    .cloned()
                    .collect(),
            };
            return Self { is_log, low, high, from, to, ticks };
        }
        let step = nice(most / 5.0);
        let high = if axis.ticks.is_empty() && axis.unit != Unit::Seconds {
            (most / step).ceil() * step
        } else {
            most
        };
        let low = if axis.ticks.is_empty() { 0.0 } else { (least - (most - least) * 0.05).max(0.0) };
        let count = (high / step + 1e-9).floor() as u32;
        let ticks = match axis.ticks.as_slice() {
            [] => (0..=count).map(|at| tick(axis, f64::from(at) * step)).collect(),
            given => given.to_vec(),
        };
        Self { is_log, low, high: high.max(low + f64::EPSILON), from, to, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

fn tick(axis: &Axis, at: f64) -> Tick {
    let label = match axis.unit {
        Unit::Micros => format_micros(at.round() as u64),
        Unit::Seconds | Unit::Amount | Unit::Rarity => number(at),
    };
    Tick { at, label }
}

/// The step of 1, 2 or 5 times a power of ten that is no smaller.
fn nice(least: f64) -> f64 {
    let decade = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * decade)
        .find(|step| *step >= least * 0.999)
        .unwrap_or(decade)
}

fn all_steps() -> Vec<f64> {
    (-4..=10).flat_map(|decade| [1.0, 2.0, 5.0].map(|times| times * 10_f64.powi(decade))).collect()
}

/// The step of 1, 2 or 5 below, and above.
fn below(value: f64) -> f64 {
    all_steps().into_iter().rev().find(|step| *step <= value * 1.000_001).unwrap_or(value)
}

fn above(value: f64) -> f64 {
    all_steps().into_iter().find(|step| *step >= value * 0.999_999).unwrap_or(value)
}

/// The labelled steps between two values: each power of ten, and 2 and 5 of it where there is room.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let inside = |step: &f64| *step >= low * 0.999 && *step <= high * 1.001;
    let all: Vec<f64> = all_steps().into_iter().filter(inside).collect();
    let is_decade = |step: &f64| (step.log10() - step.log10().round()).abs() < 1e-6;
    if all.len() <= 8 { all } else { all.into_iter().filter(is_decade).collect() }
}

fn lines(lines: &Lines, strategies: &[String]) -> (Markup, String) {
    let placed = lines.series.iter().flat_map(|series| series.line.iter().chain(&series.measured));
    let xs: Vec<f64> = placed.map(|point| point.0).collect();
    let x = AxisRange::over(&lines.x, lines.x.scale == Scale::Log, &xs, LEFT + 6.0, WIDTH - RIGHT);
    let (first_is_log, has_other) = match lines.y.scale {
        Scale::Log => (true, false),
        Scale::Linear => (false, false),
        Scale::LogOrLinear => (true, true),
        Scale::LinearOrLog => (false, true),
    };
    let drawing = html! {
        (bands(lines, &x, strategies))
        (across(lines, &x))
        (upright(lines, &x))
        g.plot-a { (plot(lines, &x, first_is_log)) }
        @if has_other { g.plot-b { (plot(lines, &x, !first_is_log)) } }
        line.cursor x1="0" x2="0" y1=(TOP) y2=(HEIGHT - BOTTOM) {}
    };
    (drawing, values(lines, &x))
}

fn across(lines: &Lines, x: &AxisRange) -> Markup {
    let bottom = HEIGHT - BOTTOM;
    let mut free = 0.0;
    let shown: Vec<(f64, &Tick)> = x
        .ticks
        .iter()
        .filter_map(|tick| {
            let (at, half) = (x.at(tick.at), tick.label.chars().count() as f64 * 3.6);
            let fits = at - half >= free;
            if fits {
                free = at + half + 6.0;
            }
            fits.then_some((at, tick))
        })
        .collect();
    html! {
        g.axis {
            @for (at, tick) in shown {
                line.grid x1=(px(at)) x2=(px(at)) y1=(TOP) y2=(bottom) {}
                text x=(px(at)) y=(bottom + 17.0) text-anchor="middle" { (tick.label) }
            }
            text.name x=(px((LEFT + WIDTH - RIGHT) / 2.0)) y=(HEIGHT - 8.0) text-anchor="middle" { (lines.x.title) }
        }
    }
}

fn bands(lines: &Lines, x: &AxisRange, strategies: &[String]) -> Markup {
    html! {
        @for band in &lines.bands {
            @let (from, to) = (x.at(band.from), x.at(band.to));
            rect.band x=(px(from)) y=(TOP) width=(px((to - from).max(2.5))) height=(HEIGHT - BOTTOM - TOP) {
                title { (text(&band.label)) " (" (text(strategies.get(band.strategy).map_or("?", String::as_str))) ")" }
            }
        }
    }
}

fn upright(lines: &Lines, x: &AxisRange) -> Markup {
    html! {
        @for guide in &lines.upright {
            @let at = x.at(guide.at);
            @let is_right = at > (LEFT + WIDTH - RIGHT) / 2.0;
            line.guide x1=(px(at)) x2=(px(at)) y1=(TOP) y2=(HEIGHT - BOTTOM) {}
            text.guide x=(px(if is_right { at - 5.0 } else { at + 5.0 })) y=(HEIGHT - BOTTOM - 6.0)
                text-anchor=(if is_right { "end" } else { "start" }) { (text(&guide.label)) }
        }
    }
}

fn plot(lines: &Lines, x: &AxisRange, is_log: bool) -> Markup {
    let heights = lines.series.iter().flat_map(|series| {
        let points = series.line.iter().chain(&series.dots).chain(&series.measured).map(|point| point.1);
        points.chain(series.ends.iter().flat_map(|ends| [ends.low, ends.high]))
    });
    let heights: Vec<f64> = heights.chain(lines.guides.iter().map(|guide| guide.at)).collect();
    let y = AxisRange::over(&lines.y, is_log, &heights, HEIGHT - BOTTOM, TOP);
    html! {
        g.axis {
            text.name x="4" y="16" { (lines.y.title) @if is_log { " (log scale)" } }
            @for tick in &y.ticks {
                @let at = y.at(tick.at);
                line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(px(at)) y2=(px(at)) {}
                text x=(LEFT - 7.0) y=(px(at + 4.0)) text-anchor="end" { (tick.label) }
            }
        }
        @for guide in &lines.guides {
            @let at = y.at(guide.at);
            line.guide x1=(LEFT) x2=(WIDTH - RIGHT) y1=(px(at)) y2=(px(at)) {}
            @let is_left = has_room_left(lines, &y, at);
            text.guide x=(if is_left { LEFT + 8.0 } else { WIDTH - RIGHT - 4.0 }) y=(px(at - 5.0))
                text-anchor=(if is_left { "start" } else { "end" }) { (text(&guide.label)) }
        }
        @for series in &lines.series { (drawn(series, x, &y)) }
    }
}

/// Whether a label at that height has more room at the left, because lines come nearer to it at the right.
fn has_room_left(lines: &Lines, y: &AxisRange, at: f64) -> bool {
    let away = |value: f64| (y.at(value) - at).abs();
    let ends = lines.series.iter().filter_map(|series| Some((series.line.first()?.1, series.line.last()?.1)));
    let (left, right) = ends.fold((f64::INFINITY, f64::INFINITY), |(left, right), (first, last)| {
        (left.min(away(first)), right.min(away(last)))
    });
    left > right
}

fn drawn(series: &Series, x: &AxisRange, y: &AxisRange) -> Markup {
    let place =
        |points: &[(f64, f64)]| points.iter().map(|point| (x.at(point.0), y.at(point.1))).collect::<Vec<_>>();
    let line = simplified(&place(&series.line), TOLERANCE);
    let class = format!(
        "s k{}{}{}",
        series.strategy,
        if series.doubtful { " hollow" } else { "" },
        if series.violated { " broken" } else { "" }
    );
    html! {
        g class=(class) data-k=(series.strategy) {
            @if series.ends.len() > 1 { path.area d=(area(&series.ends, x, y)) {} }
            @if line.len() > 1 { path.line d=(path(&line)) {} }
            @for dot in place(&series.dots) { circle.dot cx=(px(dot.0)) cy=(px(dot.1)) r="2" {} }
            @for mark in place(&series.marked) { use.mark href=(marker(series.strategy)) x=(px(mark.0)) y=(px(mark.1)) {} }
            @for ring in place(&series.measured) { circle.measured cx=(px(ring.0)) cy=(px(ring.1)) r="8" {} }
            @if series.violated {
                @if let Some(last) = place(&series.marked).last() { use.cross href="#crossed" x=(px(last.0)) y=(px(last.1)) {} }
            }
        }
    }
}

/// A coordinate, to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (at, (x, y)) in points.iter().enumerate() {
        path.push(if at == 0 { 'M' } else { 'L' });
        path.push_str(&px(*x));
        path.push(' ');
        path.push_str(&px(*y));
    }
    path
}

/// What lies between the ends of the intervals, from one point to the next.
fn area(ends: &[Ends], x: &AxisRange, y: &AxisRange) -> String {
    let above = ends.iter().map(|ends| (x.at(ends.at), y.at(ends.high)));
    let below = ends.iter().rev().map(|ends| (x.at(ends.at), y.at(ends.low)));
    path(&above.chain(below).collect::<Vec<_>>()) + "Z"
}

/// What stands under the pointer, place by place: where it is, what it is called, and each strategy's value there.
fn values(lines: &Lines, x: &AxisRange) -> String {
    let points = |series: &Series| match lines.x.unit {
        Unit::Rarity => series.marked.clone(),
        _ => series.line.clone(),
    };
    let mut places: Vec<f64> = lines.series.iter().flat_map(points).map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let every = places.len().div_ceil(POSITIONS).max(1);
    let places: Vec<f64> = places.into_iter().step_by(every).collect();
    let named = |at: f64| {
        let given = lines.x.ticks.iter().find(|tick| tick.at == at).map(|tick| tick.label.clone());
        given.unwrap_or_else(|| tick(&lines.x, at).label)
    };
    let shown = |value: f64| match lines.y.unit {
        Unit::Micros => format_micros(value.round() as u64),
        _ => number(value),
    };
    let series: Vec<_> = lines
        .series
        .iter()
        .map(|series| {
            let own = points(series);
            let at = |place: &f64| {
                let value = shown(own.iter().find(|point| point.0 == *place)?.1);
                let ends = series.ends.iter().find(|ends| ends.at == *place);
                let ends = ends.map(|ends| format!(" ({} to {})", shown(ends.low), shown(ends.high)));
                Some(value + &ends.unwrap_or_default())
            };
            json!({ "k": series.strategy, "v": places.iter().map(at).collect::<Vec<_>>() })
        })
        .collect();
    let places: Vec<_> =
        places.iter().map(|at| json!([(x.at(*at) * 10.0).round() / 10.0, named(*at)])).collect();
    let what = json!({ "width": WIDTH, "name": lines.x.title, "x": places, "s": series });
    what.to_string().replace('<', "\\u003c")
}

const BAR: f64 = 16.0;
const NAME: f64 = 18.0;
const GAP: f64 = 12.0;
/// Letters of a bar's name on a line.
const LETTERS: usize = 84;

fn bars(bars: &Bars) -> (f64, Markup) {
    let total = |row: &Row| row.parts.iter().map(|part| part.amount).sum::<f64>();
    let most = bars.rows.iter().map(total).fold(0.0, f64::max);
    let most = if most > 0.0 { most } else { 1.0 };
    let wide = WIDTH - RIGHT - 70.0;
    let mut at = 8.0;
    let placed: Vec<(f64, Vec<String>, &Row)> = bars
        .rows
        .iter()
        .map(|row| {
            let letters: Vec<char> = text(&row.label).chars().collect();
            let names: Vec<String> = letters.chunks(LETTERS).map(|part| part.iter().collect()).collect();
            let top = at;
            at += NAME * names.len() as f64 + BAR + GAP;
            (top, names, row)
        })
        .collect();
    let drawing = html! {
        @for (top, names, row) in &placed {
            g class={ "s k" (row.strategy) } {
                @for (name, line) in names.iter().zip(0_u32..) {
                    text.label x="0" y=(px(top + 12.0 + NAME * f64::from(line))) { (name) }
                }
                @let bar = top + NAME * names.len() as f64;
                (parts(bars, row, bar, wide / most))
                text.value x=(px(wide * total(row) / most + 6.0)) y=(px(bar + 12.5)) { (number(total(row))) }
            }
        }
        text.name x="0" y=(px(at + 12.0)) { (bars.title) }
    };
    (at + 20.0, drawing)
}

fn parts(bars: &Bars, row: &Row, top: f64, scale: f64) -> Markup {
    let mut left = 0.0;
    let single = bars.parts.len() < 2;
    let placed: Vec<(f64, f64, usize, f64)> = row
        .parts
        .iter()
        .map(|part| {
            let from = left;
            left += part.amount * scale;
            (from, left, part.of, part.amount)
        })
        .collect();
    html! {
        @for (from, to, of, amount) in placed {
            rect class=(if single { "bar".to_owned() } else { format!("part p{}", of % 12) })
                x=(px(from)) y=(px(top)) width=(px((to - from - if single { 0.0 } else { 1.5 }).max(0.8))) height=(BAR) {
                title { (bars.parts.get(of).map_or("", String::as_str)) ": " (number(amount)) }
            }
            @if !single && to - from > 34.0 {
                text.inside x=(px((from + to) / 2.0)) y=(px(top + 12.5)) text-anchor="middle" { (PreEscaped(number(amount))) }
            }
        }
    }
}
