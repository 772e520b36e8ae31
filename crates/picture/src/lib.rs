//! A picture as plain data: lines, areas, marks and texts in pixels, each with what its colour means. `paint` makes files of
//! it; a page writes it as elements whose colours are the page's.
//!
//! The font of files is embedded, so that texts have the same width, and a PNG looks the same, on a host without any font.
//!
//! Each strategy has a colour, a dash pattern and a marker. The colours are those of Okabe and Ito, which people with any
//! kind of colour blindness can tell apart. Their yellow is left out, because it cannot be read on white; grey stands in for
//! it. Past the eighth strategy the colours come again, but never with the same dash pattern and marker.

use std::f64::consts::TAU;
use std::sync::OnceLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

mod paint;

pub use paint::{png, svg};

pub const MEDIUM: f64 = 14.0;
/// The smallest text. Shown 900 pixels wide, as in a README, it still has 11.7.
pub const SMALL: f64 = 13.0;

/// Which point of a text its position means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// What a marker says of the trials that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// It is that of invalid or partial trials, or a bound.
    pub doubtful: bool,
    /// The lock did not exclude.
    pub violated: bool,
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
pub fn wrap(text: &str, size: f64, width: f64) -> Vec<String> {
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
pub fn flow(
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
pub fn label_lines(label: &str, width: f64) -> Vec<String> {
    wrap(label, MEDIUM, width).into_iter().take(3).collect()
}

/// Cuts a text that is wider than that, with `…` at its end.
pub fn shorten(text: &str, size: f64, width: f64) -> String {
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
static FILE: &[u8] = include_bytes!("../assets/DejaVuSans-subset.ttf");

/// The name in SVG files: the embedded font, then those of nearly the same widths, then whatever there is.
const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// The library takes a size 1.24 times that of the letter square.
const SIZE_FACTOR: f64 = 1.24;

fn font(size: f64) -> FontDesc<'static> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FILE).is_ok());
    FontDesc::new(FontFamily::Name(FAMILY), size * SIZE_FACTOR, FontStyle::Normal)
}

/// The width of a text in pixels, rather too wide than too narrow.
pub fn text_width(text: &str, size: f64) -> f64 {
    const FINENESS: f64 = 8.0;
    let guess = || f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)) * size * 0.65;
    font(size * FINENESS).box_size(text).map_or_else(|_| guess(), |(wide, _)| f64::from(wide) / FINENESS)
}

/// A point in pixels, from the top left corner.
pub type Point = (f64, f64);

pub type Colour = (u8, u8, u8);

/// What a colour means. A file has one colour for it, a page one by light and one in the dark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Paint {
    Ink,
    FaintInk,
    Rule,
    Grid,
    /// What is behind everything.
    Paper,
    /// What must be seen: a violation, a limit.
    Alarm,
    /// What is better than before.
    Good,
    Look(usize),
    /// The same, thinned.
    Pale(usize),
    /// What lies between the ends of intervals of that look.
    Shaded(usize),
    /// A part of a bar, by its colour's number.
    Part(usize),
    OnPart(usize),
    /// Behind a span of time in which something was broken, for that share of the strategies.
    Band(f64),
    /// Of heat maps, which pages show as tables.
    Tile(Colour),
}

const INK: Colour = (51, 51, 51);
const PAPER: Colour = (255, 255, 255);
/// The cross over a violated lock's figure.
pub const ALARM: Colour = (190, 0, 0);
/// While a fault lasts for one lock of many, and for all of them. Grid lines can still be seen on both.
const PALE: Colour = (254, 248, 234);
const DEEP: Colour = (251, 236, 200);

impl Paint {
    pub fn colour(self) -> Colour {
        match self {
            Self::Ink => INK,
            Self::FaintInk => (95, 95, 95),
            Self::Rule => (140, 140, 140),
            Self::Grid => (226, 226, 226),
            Self::Paper => PAPER,
            Self::Alarm => ALARM,
            Self::Good => (0, 110, 80),
            Self::Look(look) => COLOURS[look % COLOURS.len()],
            Self::Pale(look) => between(Self::Look(look).colour(), PAPER, 0.5),
            Self::Shaded(look) => between(Self::Look(look).colour(), PAPER, 0.85),
            Self::Part(number) => PARTS[number % PARTS.len()],
            Self::OnPart(number) => ink_on(Self::Part(number).colour()),
            Self::Band(share) => between(PALE, DEEP, share),
            Self::Tile(colour) => colour,
        }
    }
}

const COLOURS: [Colour; 8] = [
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (230, 159, 0),
    (86, 180, 233),
    (0, 0, 0),
    (130, 130, 130),
];

/// None of the strategies' colours, and from one part to the next another lightness.
const PARTS: [Colour; 12] = [
    (62, 72, 98),
    (160, 170, 194),
    (120, 66, 48),
    (238, 190, 160),
    (58, 98, 60),
    (190, 218, 170),
    (92, 70, 128),
    (206, 190, 230),
    (40, 90, 98),
    (196, 222, 226),
    (120, 100, 30),
    (232, 220, 160),
];

const DASHES: [&[f64]; 10] = [
    &[],
    &[10.0, 4.0],
    &[3.0, 3.0],
    &[12.0, 4.0, 3.0, 4.0],
    &[6.0, 3.0],
    &[16.0, 5.0],
    &[12.0, 3.0, 3.0, 3.0, 3.0, 3.0],
    &[2.0, 5.0],
    &[5.0, 6.0],
    &[18.0, 3.0, 6.0, 3.0],
];

/// How many corners, turned by how many eighths, and how deep: below 1, it is a star.
type Outline = (u32, f64, f64);

const MARKERS: [Outline; 10] = [
    (24, 0.0, 1.0),
    (4, 1.0, 1.0),
    (3, -2.0, 1.0),
    (4, 0.0, 1.0),
    (3, 2.0, 1.0),
    (5, -2.0, 0.45),
    (6, 0.0, 1.0),
    (3, 0.0, 1.0),
    (4, 0.0, 0.4),
    (3, 4.0, 1.0),
];

pub const MARKER_COUNT: usize = MARKERS.len();

/// The dash pattern of a look: lengths of strokes and gaps in turn, in pixels; empty for a solid line.
pub fn dash(look: usize) -> &'static [f64] {
    DASHES[look % DASHES.len()]
}

pub fn marker(look: usize, at: Point, radius: f64) -> Vec<Point> {
    let (count, turn, depth) = MARKERS[look % MARKERS.len()];
    // A triangle or star of the same radius would look smaller than a circle.
    let radius = if count == 3 || depth < 1.0 { radius * 1.2 } else { radius };
    corners(at, radius, (count, turn, depth))
}

pub fn circle(at: Point, radius: f64) -> Vec<Point> {
    corners(at, radius, (16, 0.0, 1.0))
}

fn corners((x, y): Point, radius: f64, (count, turn, depth): Outline) -> Vec<Point> {
    let inner = depth < 1.0;
    let steps = if inner { 2 * count } else { count };
    let corner = |step: u32| {
        let angle = TAU * (f64::from(step) / f64::from(steps) + turn / 8.0);
        let reach = if inner && step % 2 == 1 { radius * depth } else { radius };
        (x + reach * angle.cos(), y + reach * angle.sin())
    };
    (0..steps).map(corner).collect()
}

pub fn ink_on((red, green, blue): Colour) -> Colour {
    let is_dark = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue) < 1300;
    if is_dark { PAPER } else { INK }
}

pub fn between(from: Colour, to: Colour, part: f64) -> Colour {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
