//! Draws charts with plotters: complete SVG and PNG files, and SVG for pages, which add title, keys and
//! caption.

mod keys;
mod lines;
mod rows;
mod style;

use std::io::Write as _;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use png::{ColorType, Encoder};

use super::document::{Axis, Chart, ChartKind};
use zklockbench_core::disk;
use zklockbench_core::error::Error;

use keys::{Key, draw_sample, keys_height, with_keys};
pub use lines::plot_area;
pub use style::{DENSITY, THEMED, colour, hex, page_colour, part};
use style::{
    GUIDE_DASH, GUIDE_WIDTH, INK, LARGE, LINE_WIDTH, SMALL, SOLID, dash, shorten, text, units, wrap,
};

/// Destination of a chart.
#[derive(Debug, Clone, Copy)]
pub struct Medium<'a> {
    /// Place of measurement, for files; `None` for pages, whose charts omit it.
    place: Option<&'a str>,
    /// Whether dashed lines are drawn with gaps instead of the SVG attribute for dashes.
    has_gaps: bool,
    /// Whether the y axis uses its alternative scale.
    is_other_scale: bool,
}

type Area<DB> = DrawingArea<DB, Shift>;
type Plot<'a, DB> = ChartContext<'a, DB, Cartesian2d<Axis, Axis>>;
type Painted<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A backend of plotters whose errors can be boxed.
trait Backend: DrawingBackend<ErrorType: 'static> {}
impl<DB: DrawingBackend<ErrorType: 'static>> Backend for DB {}

const WIDTH: u32 = 1000;
pub const PAGE_WIDTH: u32 = 640;
const MARGIN: u32 = 18;
const PAGE_MARGIN: u32 = 4;
const TITLE: u32 = 26;
const LINE: u32 = 18;
const APART: u32 = 8;
const CAPTION_LINES: usize = 6;

/// Writes an SVG or PNG file, depending on the extension.
pub fn write(chart: &Chart, place: &str, path: &Path) -> Result<(), Error> {
    let file = match path.extension().and_then(std::ffi::OsStr::to_str) {
        Some("svg") => svg(chart, place)?.into_bytes(),
        Some("png") => png(chart, place)?,
        _ => return Err(Error::usage(format!("{} must end with .svg or .png", path.display()))),
    };
    disk::create_anew(path).and_then(|mut new| new.write_all(&file)).map_err(Error::cannot("write", path))
}

pub fn svg(chart: &Chart, place: &str) -> Result<String, Error> {
    let medium = Medium { place: Some(place), has_gaps: false, is_other_scale: false };
    let (width, height) = size(chart, medium);
    let text = drawn(chart, medium, (width, height))?;
    // The width and height of the picture are in pixels; the view box stays in units, which are finer.
    let fine = format!(r#"width="{width}" height="{height}""#);
    Ok(text.replacen(&fine, &format!(r#"width="{}" height="{}""#, width / DENSITY, height / DENSITY), 1))
}

/// Returns the contents of the SVG element of a chart on a page, and the size of that element.
pub fn page_svg(chart: &Chart, is_other_scale: bool) -> (String, (u32, u32)) {
    let medium = Medium { place: None, has_gaps: false, is_other_scale };
    let size = size(chart, medium);
    (svg_contents(&drawn(chart, medium, size).unwrap_or_default()), size)
}

/// Returns the line and marker of a strategy as contents of an SVG element, and the size of that element.
pub fn page_key(look: usize) -> (String, (u32, u32)) {
    let (mut text, size) = (String::new(), (units(42), units(14)));
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    // Writing to a string cannot fail.
    drop(draw_sample(&root, Key::Look(look), (0, 14), false));
    drop(root);
    (svg_contents(&with_dashes(text)), size)
}

/// Returns the contents of an SVG element.
fn svg_contents(svg: &str) -> String {
    let (_, inner) = svg.split_once('>').unwrap_or_default();
    inner.trim_end().trim_end_matches("</svg>").to_owned()
}

fn drawn(chart: &Chart, medium: Medium<'_>, size: (u32, u32)) -> Result<String, Error> {
    let mut text = String::new();
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    paint(chart, medium, &root).map_err(|why| Error::environment(format!("cannot draw an SVG: {why}")))?;
    drop(root);
    Ok(with_dashes(text))
}

/// Adds `stroke-dasharray` to the lines that should be dashed: lines of strategies are recognised by colour and
/// width, and guides by width.
fn with_dashes(mut text: String) -> String {
    let line = |look: usize| format!(r#"stroke="{}" stroke-width="{LINE_WIDTH}""#, hex(colour(look)));
    let looks = (0..64).map(|look| (line(look), dash(look)));
    for (line, dash) in looks.chain([(format!(r#"stroke-width="{GUIDE_WIDTH}" points"#), GUIDE_DASH)]) {
        if dash.0 != SOLID && text.contains(&line) {
            let gaps = format!(r#"stroke-dasharray="{} {}" {line}"#, units(dash.0), units(dash.1));
            text = text.replace(&line, &gaps);
        }
    }
    text
}

pub fn png(chart: &Chart, place: &str) -> Result<Vec<u8>, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::environment(format!("cannot draw a PNG: {why}"));
    let medium = Medium { place: Some(place), has_gaps: true, is_other_scale: false };
    let (width, height) = size(chart, medium);
    let mut dots = vec![u8::MAX; width as usize * height as usize * 3];
    let root = BitMapBackend::with_buffer(&mut dots, (width, height)).into_drawing_area();
    paint(chart, medium, &root).map_err(|error| failed(&error))?;
    drop(root);
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    let mut file = encoder.write_header().map_err(|error| failed(&error))?;
    file.write_image_data(&dots).and_then(|()| file.finish()).map_err(|error| failed(&error))?;
    Ok(bytes)
}

impl Medium<'_> {
    const fn is_page(self) -> bool {
        self.place.is_none()
    }
}

/// Returns the size of the entire picture in units.
fn size(chart: &Chart, medium: Medium<'_>) -> (u32, u32) {
    let keys = if medium.is_page() { 0 } else { keys_height(&chart.kind) };
    let wide = if medium.is_page() { PAGE_WIDTH } else { WIDTH };
    let (width, height) = match &chart.kind {
        ChartKind::Lines(_) if medium.is_page() => (wide, lines::PAGE_HEIGHT),
        ChartKind::Lines(_) => (wide, 480.max(keys)),
        ChartKind::Panels(all) => (WIDTH, lines::PANEL * all.panels.len().div_ceil(lines::BESIDE) as u32),
        ChartKind::Bars(bars) => (wide, rows::height(bars.rows.len(), rows::BAR).max(keys)),
        ChartKind::Ratios(ratios) => (WIDTH, rows::height(ratios.rows.len(), rows::RATIO)),
        ChartKind::Heat(heat) => rows::heat_size(heat),
    };
    let around = match medium.place {
        Some(place) => {
            let [place, caption] = around(chart, place, width);
            2 * MARGIN + TITLE + 3 * APART + LINE * (place.len() + caption.len()) as u32
        }
        None => 2 * PAGE_MARGIN,
    };
    (units(width), units(height + around))
}

/// Returns lines of text below the title and below the chart.
fn around(chart: &Chart, place: &str, width: u32) -> [Vec<String>; 2] {
    let lines = |text: &String| wrap(text, SMALL, units(width - 2 * MARGIN));
    let headings = if let ChartKind::Heat(heat) = &chart.kind { rows::numbered_columns(heat) } else { None };
    let mut caption: Vec<String> = chart.caption.iter().flat_map(lines).collect();
    if caption.len() > CAPTION_LINES {
        caption.truncate(CAPTION_LINES - 1);
        caption.push("… more below the run's table".to_owned());
    }
    let caption = headings.iter().flat_map(lines).chain(caption).collect();
    [lines(&place.to_owned()).into_iter().take(3).collect(), caption]
}

fn paint(chart: &Chart, medium: Medium<'_>, root: &Area<impl Backend>) -> Painted {
    let area = match medium.place {
        Some(place) => framed(chart, place, root)?,
        None => root.margin(units(PAGE_MARGIN), units(PAGE_MARGIN), units(PAGE_MARGIN), units(PAGE_MARGIN)),
    };
    let area = if medium.is_page() { area } else { with_keys(&chart.kind, medium, area)? };
    match &chart.kind {
        ChartKind::Lines(all) => lines::draw(all, medium, &area)?,
        ChartKind::Panels(all) => lines::draw_panels(all, medium, &area)?,
        ChartKind::Bars(all) => rows::draw_bars(all, medium, &area)?,
        ChartKind::Ratios(all) => rows::draw_ratios(all, &area)?,
        ChartKind::Heat(all) => rows::draw_heat(all, &area)?,
    }
    Ok(root.present()?)
}

/// Draws the frame of a chart in a file and returns the remaining area.
fn framed<DB: Backend>(chart: &Chart, place: &str, root: &Area<DB>) -> Painted<Area<DB>> {
    root.fill(&WHITE)?;
    let width = root.dim_in_pixel().0;
    let [place, caption] = around(chart, place, width / DENSITY);
    let inner = root.margin(units(MARGIN), units(MARGIN), units(MARGIN), units(MARGIN));
    let title = shorten(&chart.title, LARGE, width - 2 * units(MARGIN));
    let inner = inner.titled(&title, text(LARGE, INK))?;
    let (head, inner) = inner.split_vertically(units(LINE * place.len() as u32 + 2 * APART));
    let foot = units(LINE * caption.len() as u32);
    let (body, foot) = inner.split_vertically(inner.dim_in_pixel().1 - foot - units(APART));
    for (area, lines) in [(head, place), (foot, caption)] {
        let mut block =
            MultiLineText::<_, String>::new((0, units(APART).cast_signed()), text(SMALL, style::FAINT));
        lines.into_iter().for_each(|line| block.push_line(line));
        area.draw(block.set_line_height(f64::from(LINE) / SMALL / 1.24))?;
    }
    Ok(body)
}
