//! Extracts the text and the colours from a chart's SVG.

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};
use zklockbench_report::{View, chart, document::Chart, draw};

/// Every chart of a run as SVG, by file name, or the reason why it was not drawn.
pub fn svgs(view: &View<'_>) -> Vec<(String, Result<String, String>)> {
    let place = view.place_line();
    let named = |(name, chart): (&'static str, Result<Chart, String>)| match chart {
        Ok(chart) => (chart.id.clone(), draw::svg(&chart, &place).map_err(|error| error.to_string())),
        Err(why) => (name.to_owned(), Err(why)),
    };
    chart::of_run(view).into_iter().filter_map(|one| Some((one.file?, one.chart))).map(named).collect()
}

/// All pieces of text, in drawing order.
pub fn texts(svg: &str) -> Vec<&str> {
    texts_with_attributes(svg).map(|(_, text)| text).collect()
}

/// Colours of all elements except text.
pub fn colours(svg: &str) -> Vec<&str> {
    let shapes = svg.split('<').filter(|element| !element.starts_with(['t', '/']));
    shapes.flat_map(|shape| shape.match_indices('#').map(|(at, _)| &shape[at..at + 7])).collect()
}

/// Bounding box of a piece of text, as high as a capital letter.
#[derive(Debug)]
pub struct TextBox<'a> {
    pub text: &'a str,
    across: [f64; 2],
    down: [f64; 2],
}

impl TextBox<'_> {
    pub fn is_inside(&self, svg: &str) -> bool {
        let size: Vec<f64> = attribute(svg, "viewBox").split(' ').map(|one| one.parse().unwrap()).collect();
        self.across[0] >= 0.0 && self.across[1] <= size[2] && self.down[0] >= 0.0 && self.down[1] <= size[3]
    }

    pub fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: [f64; 2], other: [f64; 2]| one[0] < other[1] && other[0] < one[1];
        meet(self.across, other.across) && meet(self.down, other.down)
    }
}

pub fn boxes(svg: &str) -> Vec<TextBox<'_>> {
    let font = include_bytes!("../../crates/report/assets/DejaVuSans-subset.ttf");
    let family = "the charts' font";
    register_font(family, FontStyle::Normal, font).unwrap_or_else(|_| panic!("the font cannot be read"));
    texts_with_attributes(svg)
        .map(|(attributes, text)| {
            let number = |name: &str| attribute(attributes, name).parse::<f64>().unwrap();
            let (x, y, size) = (number("x"), number("y"), number("font-size"));
            let escapes = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
            let plain =
                escapes.iter().fold(text.to_owned(), |text, (escape, sign)| text.replace(escape, sign));
            let font = FontDesc::new(FontFamily::Name(family), size * 1.24, FontStyle::Normal);
            let width = f64::from(font.box_size(&plain).unwrap().0);
            let left = match attribute(attributes, "text-anchor") {
                "start" => x,
                "middle" => x - width / 2.0,
                _ => x - width,
            };
            // Distance of the baseline below the position, as a share of the font size.
            let foot = match attribute(attributes, "dy") {
                "0.76em" => 0.76,
                "0.5ex" => 0.365,
                _ => -0.27,
            };
            let bottom = y + size * foot;
            TextBox { text, across: [left, left + width], down: [bottom - size * 0.73, bottom] }
        })
        .collect()
}

fn texts_with_attributes(svg: &str) -> impl Iterator<Item = (&str, &str)> {
    let elements = svg.split("<text").skip(1);
    elements.map(|element| {
        let (attributes, rest) = element.split_once('>').unwrap();
        (attributes, rest.split_once("</text>").unwrap().0.trim())
    })
}

fn attribute<'a>(element: &'a str, name: &str) -> &'a str {
    let (_, value) =
        element.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("no {name}: {element}"));
    value.split_once('"').unwrap().0
}
