//! A chart's picture as SVG within the page: text is text, and colours come from the page's style.

use maud::{Markup, html};
use serde_json::json;

use super::text;
use crate::document::{Chart, ChartKind, Curve, Lines, Mark, PlotPoint};
use crate::draw::{Medium, Plot, draw, plot_on_page};
use zklockbench_picture::{Anchor, Dot, Group, MARKER_COUNT, Paint, Point, Shape, marker};

/// More positions than that cannot be pointed at.
const POSITIONS: usize = 160;

/// The outlines of all markers, to be used by every chart of the page.
pub(super) fn markers() -> Markup {
    html! {
        svg.defs width="0" height="0" aria-hidden="true" {
            defs {
                @for look in 0..MARKER_COUNT { path id={ "m" (look) } d={ (path(&marker(look, (0.0, 0.0), 5.5))) "Z" } {} }
                path id="crossed" d="M-7-7L7 7M-7 7L7-7" {}
            }
        }
    }
}

fn marker_of(look: usize) -> String {
    format!("#m{}", look % MARKER_COUNT)
}

pub(super) fn swatch(look: usize) -> Markup {
    html! {
        svg class={ "swatch k" (look) } viewBox="0 0 34 14" width="34" height="14" aria-hidden="true" {
            path.line.dash d="M1 7H33" stroke-width="2.2" {}
            use.mark href=(marker_of(look)) x="17" y="7" {}
        }
    }
}

/// A chart, and the values under the pointer as JSON that may stand in a page.
pub(super) fn chart(chart: &Chart, id: &str) -> (Markup, Option<String>) {
    let picture = draw(chart, if chart.kind.is_wide() { Medium::WholePage } else { Medium::Page });
    let pointed = match &chart.kind {
        ChartKind::Lines(lines) => Some((plot_on_page(chart, lines), lines)),
        _ => None,
    };
    let (title, said) = (format!("{id}-t"), format!("{id}-d"));
    let drawn = html! {
        svg role="img" aria-labelledby={ (title) " " (said) } viewBox={ "0 0 " (picture.width) " " (picture.height) }
            preserveAspectRatio="xMidYMid meet" {
            title id=(title) { (text(&chart.title)) }
            desc id=(said) { (text(&chart.said)) }
            (shapes(&picture.shapes))
            @if let Some((plot, _)) = &pointed { line.cursor x1="0" x2="0" y1=(plot.top) y2=(plot.bottom) {} }
        }
    };
    (drawn, pointed.map(|(plot, lines)| values(lines, &plot, picture.width)))
}

fn shapes(all: &[Shape]) -> Markup {
    html! { @for one in all { (shape(one)) } }
}

fn shape(shape: &Shape) -> Markup {
    match shape {
        Shape::Line { points, paint, width, dash } => {
            // The dashes of strategies are in the page's style.
            let own = matches!(paint, Paint::Look(_)) && !dash.is_empty();
            let given: Vec<String> = dash.iter().filter(|_| !own).map(f64::to_string).collect();
            let given = (!given.is_empty()).then(|| given.join(" "));
            html! {
                path class={ "line " (class(*paint)) @if own { " dash" } } d=(path(points)) stroke-width=(px(*width))
                    stroke-dasharray=[given] {}
            }
        }
        Shape::Area { points, paint } => {
            let opacity = match paint {
                Paint::Band(share) => Some(px(0.4 + 0.6 * share)),
                _ => None,
            };
            html! { path class={ "area " (class(*paint)) } d={ (path(points)) "Z" } opacity=[opacity] {} }
        }
        Shape::Text { at, text: words, paint, anchor, .. } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            html! { text class=(class(*paint)) x=(px(at.0)) y=(px(at.1)) text-anchor=(anchor) { (text(words)) } }
        }
        Shape::Marker { at, look, mark } => self::mark(*at, *look, *mark),
        Shape::Dot(dot) => self::dot(dot),
        Shape::Cross { at } => html! { use.cross href="#crossed" x=(px(at.0)) y=(px(at.1)) {} },
        Shape::Group { of, shapes } => group(*of, shapes),
    }
}

fn group(of: Group, all: &[Shape]) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    html! {
        @match of {
            Group::Series(look) => g class={ "s k" (look) } data-k=(look) { (shapes(all)) },
            Group::FirstScale => g.plot-a { (shapes(all)) },
            Group::OtherScale => g.plot-b { (shapes(all)) },
        }
    }
}

fn mark(at: Point, look: usize, mark: Mark) -> Markup {
    html! {
        use class={ "mark k" (look) @if mark.doubtful { " hollow" } } href=(marker_of(look)) x=(px(at.0)) y=(px(at.1)) {}
        @if mark.violated { use.cross href="#crossed" x=(px(at.0)) y=(px(at.1)) {} }
    }
}

fn dot(dot: &Dot) -> Markup {
    let (hollow, rimmed) = (if dot.hollow { " hollow" } else { "" }, if dot.rimmed { " rimmed" } else { "" });
    html! {
        circle class={ "dot " (class(dot.paint)) (hollow) (rimmed) } cx=(px(dot.at.0)) cy=(px(dot.at.1)) r=(px(dot.radius)) {}
    }
}

/// What the page's style calls a colour.
fn class(paint: Paint) -> String {
    match paint {
        Paint::Ink | Paint::OnPart(_) | Paint::Tile(_) => "ink".to_owned(),
        Paint::FaintInk => "faint".to_owned(),
        Paint::Rule => "rule".to_owned(),
        Paint::Grid => "grid".to_owned(),
        Paint::Paper => "paper".to_owned(),
        Paint::Alarm => "alarm".to_owned(),
        Paint::Good => "improved".to_owned(),
        Paint::Look(look) => format!("k{look}"),
        Paint::Pale(look) => format!("k{look} pale"),
        Paint::Shaded(look) => format!("k{look} shaded"),
        Paint::Part(colour) => format!("part p{colour}"),
        Paint::Band(_) => "band".to_owned(),
    }
}

/// A coordinate, to a tenth of a pixel.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn path(points: &[Point]) -> String {
    let mut path = String::with_capacity(points.len() * 12);
    for (at, (x, y)) in points.iter().enumerate() {
        path.push(if at == 0 { 'M' } else { 'L' });
        path.push_str(&px(*x));
        path.push(' ');
        path.push_str(&px(*y));
    }
    path
}

/// What stands under the pointer, place by place: where it is, what it is called, and each strategy's value there.
fn values(lines: &Lines, plot: &Plot<'_>, width: f64) -> String {
    let points = |series: &Curve| -> Vec<PlotPoint> {
        match lines.x.is_of_percentiles() {
            true => series.markers.iter().map(|(place, _)| *place).collect(),
            false => series.line.clone(),
        }
    };
    let mut places: Vec<f64> = lines.series.iter().flat_map(points).map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let every = places.len().div_ceil(POSITIONS).max(1);
    let places: Vec<f64> = places.into_iter().step_by(every).collect();
    let series: Vec<_> = lines
        .series
        .iter()
        .map(|series| {
            let own = points(series);
            let at = |place: &f64| {
                let value = lines.y.told(own.iter().find(|point| point.0 == *place)?.1);
                let ends = series.ends().iter().find(|ends| ends.at == *place);
                let ends =
                    ends.map(|ends| format!(" ({} to {})", lines.y.told(ends.low), lines.y.told(ends.high)));
                Some(value + &ends.unwrap_or_default())
            };
            json!({ "k": series.look, "v": places.iter().map(at).collect::<Vec<_>>() })
        })
        .collect();
    let named = |at: &f64| json!([(plot.across(*at) * 10.0).round() / 10.0, lines.x.told(*at)]);
    let places: Vec<_> = places.iter().map(named).collect();
    let what = json!({ "width": width, "name": lines.x.title, "x": places, "s": series });
    what.to_string().replace('<', "\\u003c")
}
