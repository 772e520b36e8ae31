//! A picture as plain data: lines, areas, marks and texts in pixels, each with what its colour means. `paint` makes files of
//! it; a page writes it as elements whose colours are the page's.
//!
//! The font of files is embedded, so that texts have the same width, and a PNG looks the same, on a host without any font.

use std::sync::OnceLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

use super::look::{Paint, Point};
use crate::report::document::Mark;

pub(super) const MEDIUM: f64 = 14.0;
/// The smallest text. Shown 900 pixels wide, as in a README, it still has 11.7.
pub(super) const SMALL: f64 = 13.0;

/// Which point of a text its position means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// One thing drawn. Later ones cover earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    Line {
        points: Vec<Point>,
        paint: Paint,
        width: f64,
        /// Lengths of strokes and gaps in turn; empty for a solid line.
        dash: &'static [f64],
    },
    Area {
        points: Vec<Point>,
        paint: Paint,
    },
    Text {
        at: Point,
        text: String,
        size: f64,
        paint: Paint,
        anchor: Anchor,
    },
    Marker {
        at: Point,
        look: usize,
        mark: Mark,
    },
    Dot(Dot),
    /// The cross that says: this lock did not exclude.
    Cross {
        at: Point,
    },
    Group {
        of: Group,
        shapes: Vec<Shape>,
    },
}

/// A filled circle, or a ring where it is hollow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    pub at: Point,
    pub radius: f64,
    pub paint: Paint,
    pub hollow: bool,
    /// Set apart from what is behind it.
    pub rimmed: bool,
}

/// What belongs together, so that a page can hide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What has that look.
    Series(usize),
    FirstScale,
    OtherScale,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub width: f64,
    pub height: f64,
    pub shapes: Vec<Shape>,
}

impl Picture {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, shapes: Vec::new() }
    }

    pub fn line(&mut self, points: Vec<Point>, paint: Paint, width: f64) {
        self.dashed(points, &[], paint, width);
    }

    pub fn dashed(&mut self, points: Vec<Point>, dash: &'static [f64], paint: Paint, width: f64) {
        if points.len() > 1 {
            self.shapes.push(Shape::Line { points, paint, width, dash });
        }
    }

    pub fn area(&mut self, points: Vec<Point>, paint: Paint) {
        self.shapes.push(Shape::Area { points, paint });
    }

    pub fn rectangle(&mut self, from: Point, to: Point, paint: Paint) {
        self.area(vec![from, (to.0, from.1), to, (from.0, to.1)], paint);
    }

    pub fn text(&mut self, at: Point, text: impl Into<String>, size: f64, paint: Paint, anchor: Anchor) {
        let text = text.into();
        if !text.is_empty() {
            self.shapes.push(Shape::Text { at, text, size, paint, anchor });
        }
    }

    pub fn dot(&mut self, dot: Dot) {
        self.shapes.push(Shape::Dot(dot));
    }

    pub fn marker(&mut self, at: Point, look: usize, mark: Mark) {
        self.shapes.push(Shape::Marker { at, look, mark });
    }

    pub fn cross(&mut self, at: Point) {
        self.shapes.push(Shape::Cross { at });
    }

    pub fn group(&mut self, of: Group, draw: impl FnOnce(&mut Self)) {
        let before = std::mem::take(&mut self.shapes);
        draw(self);
        let shapes = std::mem::replace(&mut self.shapes, before);
        self.shapes.push(Shape::Group { of, shapes });
    }
}

/// Breaks a text into lines no wider than that; a single word that is wider is cut.
pub(super) fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().map(|line| shorten(&line, size, width)).collect()
}

/// Where things of these widths lie that stand one beside another, that far apart, in as many rows as it takes; the first row
/// is at 0.
pub(super) fn flow(
    wide: impl IntoIterator<Item = f64>,
    apart: f64,
    (left, right): (f64, f64),
    row_height: f64,
) -> Vec<Point> {
    let (mut across, mut row) = (left, 0.0);
    let place = |wide: f64| {
        if across > left && across + wide > right {
            (across, row) = (left, row + row_height);
        }
        let place = (across, row);
        across += wide + apart;
        place
    };
    wide.into_iter().map(place).collect()
}

/// The label of a strategy in lines no wider than that, three at the most.
pub(super) fn label_lines(label: &str, width: f64) -> Vec<String> {
    wrap(label, MEDIUM, width).into_iter().take(3).collect()
}

/// Cuts a text that is wider than that, with `…` at its end.
pub(super) fn shorten(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = text.to_owned();
    while !kept.is_empty() && text_width(&format!("{kept}…"), size) > width {
        kept.pop();
    }
    format!("{}…", kept.trim_end())
}

/// DejaVu Sans, cut down to Latin letters and the signs in use; its licence lies beside it.
static FILE: &[u8] = include_bytes!("../../../assets/DejaVuSans-subset.ttf");

/// The name in SVG files: the embedded font, then those of nearly the same widths, then whatever there is.
const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// The library takes a size 1.24 times that of the letter square.
const SIZE_FACTOR: f64 = 1.24;

pub(super) fn font(size: f64) -> FontDesc<'static> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FILE).is_ok());
    FontDesc::new(FontFamily::Name(FAMILY), size * SIZE_FACTOR, FontStyle::Normal)
}

/// The width of a text in pixels, rather too wide than too narrow.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    const FINENESS: f64 = 8.0;
    let guess = || f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)) * size * 0.65;
    font(size * FINENESS).box_size(text).map_or_else(|_| guess(), |(wide, _)| f64::from(wide) / FINENESS)
}
