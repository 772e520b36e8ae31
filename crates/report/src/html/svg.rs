//! Embeds SVG from plotters in a page, whose style replaces the colours.

use maud::{Markup, PreEscaped, html};
use plotters::coord::ranged1d::Ranged;
use serde_json::json;

use super::text;
use crate::document::{Chart, ChartKind, Curve, Lines, PlotPoint};
use crate::draw::{self, DENSITY, THEMED, colour, hex, page_colour, page_svg, plot_area};

/// Maximum number of positions at which a chart shows the values under the pointer.
const POSITIONS: usize = 160;

/// Returns the style that maps drawn colours to the page's colours, for this many strategies.
pub(super) fn style(strategies: usize) -> String {
    let themed = THEMED.map(|(drawn, name)| (hex(drawn), name.to_owned()));
    let looks = (0..strategies).map(|look| (hex(colour(look)), format!("c{}", page_colour(look))));
    let rule = |(drawn, name): (String, String)| {
        format!(
            "svg [fill=\"{drawn}\"]{{fill:var(--{name})}}svg [stroke=\"{drawn}\"]{{stroke:var(--{name})}}"
        )
    };
    themed.into_iter().chain(looks).map(rule).collect()
}

/// Returns the style that hides deselected strategies within the element with this id.
pub(super) fn switches(id: &str, strategies: usize) -> String {
    let rule = |look| {
        let (drawn, off) = (hex(colour(look)), format!("#{id}:has(#{id}-k{look}:not(:checked))"));
        let hidden = ["fill", "stroke"].map(|what| format!("{off} .plot [{what}=\"{drawn}\"],")).concat();
        format!("{hidden}{off} li.k{look}{{display:none}}")
    };
    (0..strategies).map(rule).collect()
}

pub(super) fn swatch(look: usize) -> Markup {
    let (drawn, (width, height)) = draw::page_key(look);
    html! {
        svg.swatch viewBox={ "0 0 " (width) " " (height) } width=(width / DENSITY) height=(height / DENSITY) aria-hidden="true" {
            (PreEscaped(drawn))
        }
    }
}

/// Returns a chart, and the values under the pointer as JSON that is safe within a page.
pub(super) fn chart(chart: &Chart, id: &str) -> (Markup, Option<String>) {
    let (drawn, (width, height)) = page_svg(chart, false);
    let lines = if let ChartKind::Lines(lines) = &chart.kind { Some(lines) } else { None };
    let other = lines.and_then(|lines| lines.other_y.as_ref()).map(|_| page_svg(chart, true).0);
    let (title, said) = (format!("{id}-t"), format!("{id}-d"));
    let markup = html! {
        svg role="img" aria-labelledby={ (title) " " (said) } viewBox={ "0 0 " (width) " " (height) } {
            title id=(title) { (text(&chart.title)) }
            desc id=(said) { (text(&chart.said)) }
            g.plot-a { (PreEscaped(text(&drawn))) }
            @if let Some(other) = other { g.plot-b { (PreEscaped(text(&other))) } }
            @if let Some(lines) = lines {
                @let (top, bottom) = plot_area(lines)[1];
                line.cursor x1="0" x2="0" y1=(top) y2=(bottom) {}
            }
        }
    };
    (markup, lines.map(|lines| values(lines, width)))
}

/// Returns the values under the pointer, for each position: coordinate, name, and the value of each strategy.
fn values(lines: &Lines, width: u32) -> String {
    let points = |series: &Curve| -> Vec<PlotPoint> {
        let markers = series.markers.iter().map(|(place, _)| *place);
        if lines.x.is_of_percentiles() { markers.collect() } else { series.line.clone() }
    };
    let mut places: Vec<f64> = lines.series.iter().flat_map(points).map(|point| point.0).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let every = places.len().div_ceil(POSITIONS).max(1);
    let places: Vec<f64> = places.into_iter().step_by(every).collect();
    let of_series = |series: &Curve| {
        let own = points(series);
        let at = |place: &f64| {
            let value = lines.y.told(own.iter().find(|point| point.0 == *place)?.1);
            let ends = series.ends().find(|ends| ends.at == *place);
            let ends = ends.map(|of| format!(" ({} to {})", lines.y.told(of.low), lines.y.told(of.high)));
            Some(value + &ends.unwrap_or_default())
        };
        json!({ "k": series.look, "v": places.iter().map(at).collect::<Vec<_>>() })
    };
    let series: Vec<_> = lines.series.iter().map(of_series).collect();
    let named = |at: &f64| json!([lines.x.map(at, plot_area(lines)[0]), lines.x.told(*at)]);
    let places: Vec<_> = places.iter().map(named).collect();
    let what = json!({ "width": width, "name": lines.x.title(), "x": places, "s": series });
    what.to_string().replace('<', "\\u003c")
}
