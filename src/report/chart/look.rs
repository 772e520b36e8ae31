//! What a strategy looks like, in every chart: a colour, a dash pattern and a marker of its own; what is marked on its
//! figures, and what a chart must say of these marks.
//!
//! The colours are those of Okabe and Ito, which people with any kind of colour blindness can tell apart.
//! Their yellow is left out, because it cannot be read on white; grey stands in for it. Past the eighth
//! strategy the colours come again, but never with the same dash pattern and marker.

use std::collections::BTreeMap;
use std::f64::consts::TAU;

use super::picture::{Colour, Picture, Point};
use crate::report::View;
use crate::report::view::{Cell, Repetition};
use crate::words::units::counted;

pub(super) const INK: Colour = (51, 51, 51);
/// Text on a colour that is neither light nor dark.
pub(super) const BLACK: Colour = (0, 0, 0);
pub(super) const FAINT_INK: Colour = (95, 95, 95);
pub(super) const RULE: Colour = (140, 140, 140);
pub(super) const GRID: Colour = (226, 226, 226);
pub(super) const PAPER: Colour = (255, 255, 255);
/// The cross over a violated lock's figure.
pub(super) const ALARM: Colour = (190, 0, 0);

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

/// How one strategy is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Look {
    pub colour: Colour,
    /// Lengths of strokes and gaps in turn, in pixels; empty for a solid line.
    pub dash: &'static [f64],
    marker: Outline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    pub doubtful: bool,
    /// The lock did not exclude: crossed out.
    pub violated: bool,
}

impl Mark {
    /// The mark of a figure over all repetitions of a cell.
    pub fn of(cell: &Cell) -> Self {
        Self { doubtful: !cell.is_sound(), violated: cell.is_violated() }
    }

    pub fn of_one(repetition: &Repetition) -> Self {
        Self { doubtful: !repetition.is_sound(), violated: repetition.is_violated() }
    }
}

impl Look {
    pub fn of(strategy: usize) -> Self {
        Self {
            colour: COLOURS[strategy % COLOURS.len()],
            dash: DASHES[strategy % DASHES.len()],
            marker: MARKERS[strategy % MARKERS.len()],
        }
    }

    /// The colour, thinned with white: for the dots of single repetitions.
    pub fn pale(&self) -> Colour {
        let thin = |channel: u8| u8::MAX - (u8::MAX - channel) / 2;
        (thin(self.colour.0), thin(self.colour.1), thin(self.colour.2))
    }

    pub fn marker(&self, picture: &mut Picture, at: Point, mark: Mark) {
        picture.area(self.outline(at, 7.5), PAPER);
        picture.area(self.outline(at, 6.0), self.colour);
        if mark.doubtful {
            picture.area(self.outline(at, 3.5), PAPER);
        }
        if mark.violated {
            cross(picture, at);
        }
    }

    /// Draws the small dot of a single repetition: a ring when its figure does not count.
    pub fn dot(&self, picture: &mut Picture, at: Point, mark: Mark) {
        let circle = |radius| corners(at, radius, outline(16, 0.0, 1.0));
        picture.area(circle(if mark.doubtful { 4.0 } else { 2.5 }), self.pale());
        if mark.doubtful {
            picture.area(circle(2.4), PAPER);
        }
    }

    fn outline(&self, at: Point, radius: f64) -> Vec<Point> {
        // A triangle or star of the same radius would look smaller than a circle.
        let radius = if self.marker.corners == 3 || self.marker.depth < 1.0 { radius * 1.2 } else { radius };
        corners(at, radius, self.marker)
    }
}

/// The cross that says: this lock did not exclude.
pub(super) fn cross(picture: &mut Picture, (x, y): Point) {
    const ARM: f64 = 8.0;
    picture.line(vec![(x - ARM, y - ARM), (x + ARM, y + ARM)], ALARM, 1.8);
    picture.line(vec![(x - ARM, y + ARM), (x + ARM, y - ARM)], ALARM, 1.8);
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

/// The colour of a text that can be read on that colour.
pub(super) fn ink_on((red, green, blue): Colour) -> Colour {
    let is_dark = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue) < 1300;
    if is_dark { PAPER } else { INK }
}

/// The colour that lies between two, that part of the way from the first to the second.
pub(super) fn between(from: Colour, to: Colour, part: f64) -> Colour {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * part).round() as u8;
    (mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Draws a line in a dash pattern: lengths of strokes and gaps in turn, in pixels; empty for a solid line.
pub(super) fn dashed(picture: &mut Picture, points: &[Point], pattern: &[f64], colour: Colour, width: f64) {
    for stroke in strokes(points, pattern) {
        picture.line(stroke, colour, width);
    }
}

/// Cuts a line into the strokes of a dash pattern.
fn strokes(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    if pattern.iter().sum::<f64>() <= 0.0 {
        return vec![points.to_vec()];
    }
    let mut strokes = vec![points.iter().take(1).copied().collect::<Vec<Point>>()];
    let (mut part, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        let mut length = (to.0 - from.0).hypot(to.1 - from.1);
        while length > left {
            let share = left / length;
            from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            turn(&mut strokes, part, from);
            length -= left;
            part = (part + 1) % pattern.len();
            left = pattern[part].max(0.5);
        }
        left -= length;
        if let Some(stroke) = strokes.last_mut().filter(|_| part.is_multiple_of(2)) {
            stroke.push(to);
        }
    }
    strokes.retain(|stroke| stroke.len() > 1);
    strokes
}

/// Ends the stroke of an even part, begins one after the gap of an odd part.
fn turn(strokes: &mut Vec<Vec<Point>>, part: usize, at: Point) {
    match strokes.last_mut().filter(|_| part.is_multiple_of(2)) {
        Some(stroke) => stroke.push(at),
        None => strokes.push(vec![at]),
    }
}

/// What the marks of a chart mean, in one paragraph with what else there is to say, then the trials that they stand
/// for.
pub(super) fn caption_of(view: &View, mut said: Vec<String>, shown: impl Fn(&Cell) -> bool) -> Vec<String> {
    let cells: Vec<&Cell> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let violated = by_strategy(&cells, Cell::is_violated);
    if !violated.is_empty() {
        said.push("Red cross: the lock broke a promise.".to_owned());
    }
    let mut caption = caption_of_doubts(view, said, shown);
    caption.extend(violated.iter().map(|(strategy, cells)| {
        let why = cells.iter().find_map(|cell| cell.why_violated()).unwrap_or_default();
        format!("Violated: {}: {why}", named(view, *strategy, cells))
    }));
    caption
}

/// The same for a chart that marks violations in its own way.
pub(super) fn caption_of_doubts(
    view: &View,
    mut said: Vec<String>,
    shown: impl Fn(&Cell) -> bool,
) -> Vec<String> {
    let cells: Vec<&Cell> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let doubtful = by_strategy(&cells, |cell| cell.repetitions.iter().any(|one| !one.is_sound()));
    if !doubtful.is_empty() {
        said.push(
            "Hollow: invalid or partial trials; medians leave them out if there is a sound one.".to_owned(),
        );
    }
    said.extend(view.remarks.iter().map(|remark| format!("{remark}.")));
    let mut caption = vec![said.join(" ")];
    caption.extend(doubtful.iter().map(|(strategy, cells)| doubt(view, *strategy, cells)));
    caption
}

fn by_strategy<'a>(cells: &[&'a Cell], holds: impl Fn(&Cell) -> bool) -> BTreeMap<usize, Vec<&'a Cell>> {
    let mut found: BTreeMap<usize, Vec<&Cell>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| holds(cell)) {
        found.entry(cell.strategy).or_default().push(cell);
    }
    found
}

fn doubt(view: &View, strategy: usize, cells: &[&Cell]) -> String {
    let all = || cells.iter().flat_map(|cell| &cell.repetitions);
    let why = all().find_map(Repetition::unsound);
    let unsound = all().filter(|one| !one.is_sound()).count();
    let of = format!("{unsound} of {}", counted(all().count(), "trial", "trials"));
    format!("Hollow: {}: {of}, the first {}", named(view, strategy, cells), why.unwrap_or_default())
}

fn named(view: &View, strategy: usize, cells: &[&Cell]) -> String {
    let label = view.strategies.get(strategy).map_or("?", String::as_str);
    let counts: Vec<String> = cells.iter().map(|cell| cell.contenders.to_string()).collect();
    let noun = if counts == ["1"] { "contender" } else { "contenders" };
    format!("{label} at {} {noun}", counts.join(", "))
}
