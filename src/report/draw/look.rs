//! What things look like: the colours, and a colour, a dash pattern and a marker for each strategy.
//!
//! The colours are those of Okabe and Ito, which people with any kind of colour blindness can tell apart.
//! Their yellow is left out, because it cannot be read on white; grey stands in for it. Past the eighth
//! strategy the colours come again, but never with the same dash pattern and marker.

use std::f64::consts::TAU;

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
pub(super) const ALARM: Colour = (190, 0, 0);
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

#[derive(Debug, Clone, Copy, PartialEq)]
struct Outline {
    corners: u32,
    turn: f64,
    /// Below 1, it is a star.
    depth: f64,
}

const fn outline(corners: u32, turn: f64, depth: f64) -> Outline {
    Outline { corners, turn, depth }
}

const MARKERS: [Outline; 10] = [
    outline(24, 0.0, 1.0),
    outline(4, 1.0, 1.0),
    outline(3, -2.0, 1.0),
    outline(4, 0.0, 1.0),
    outline(3, 2.0, 1.0),
    outline(5, -2.0, 0.45),
    outline(6, 0.0, 1.0),
    outline(3, 0.0, 1.0),
    outline(4, 0.0, 0.4),
    outline(3, 4.0, 1.0),
];

pub const MARKER_COUNT: usize = MARKERS.len();

/// The dash pattern of a look: lengths of strokes and gaps in turn, in pixels; empty for a solid line.
pub fn dash(look: usize) -> &'static [f64] {
    DASHES[look % DASHES.len()]
}

pub fn marker(look: usize, at: Point, radius: f64) -> Vec<Point> {
    let outline = MARKERS[look % MARKERS.len()];
    // A triangle or star of the same radius would look smaller than a circle.
    let radius = if outline.corners == 3 || outline.depth < 1.0 { radius * 1.2 } else { radius };
    corners(at, radius, outline)
}

/// The corners of what looks like a circle.
pub(super) fn circle(at: Point, radius: f64) -> Vec<Point> {
    corners(at, radius, outline(16, 0.0, 1.0))
}

fn corners((x, y): Point, radius: f64, outline: Outline) -> Vec<Point> {
    let Outline { corners, turn, depth } = outline;
    let inner = depth < 1.0;
    let steps = if inner { 2 * corners } else { corners };
    let corner = |step: u32| {
        let angle = TAU * (f64::from(step) / f64::from(steps) + turn / 8.0);
        let reach = if inner && step % 2 == 1 { radius * depth } else { radius };
        (x + reach * angle.cos(), y + reach * angle.sin())
    };
    (0..steps).map(corner).collect()
}

pub(super) fn ink_on((red, green, blue): Colour) -> Colour {
    let is_dark = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue) < 1300;
    if is_dark { PAPER } else { INK }
}

/// The colour that lies between two, that part of the way from the first to the second.
pub(super) fn between(from: Colour, to: Colour, part: f64) -> Colour {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}
