//! A heat map: what became of each row under each column, as words on tiles, and the key to the colours.
//!
//! Times run from pale to dark blue, so that they can be ranked by lightness alone. What went wrong has a colour that
//! is none of the scale's, and a word.

use std::ops::Range;

use super::picture::{
    ALARM, Anchor, Colour, MEDIUM, Paint, Picture, Point, SMALL, between, flow, ink_on, label_lines, shorten,
    text_width, wrap,
};
use super::{ChartFrame, MARGIN, Medium};
use crate::document::{Axis, Chart, Heat, HeatRow, Shade, Tile, float};

const LABEL: f64 = 190.0;
const LINE: f64 = 17.0;
const COUNT: f64 = 52.0;
/// The narrowest column that has room for each word that is written in one.
const NARROWEST: f64 = 68.0;
const WIDEST: f64 = 150.0;
const PAD: f64 = 4.0;
/// What a row is higher than its lines.
const SPARE: f64 = 9.0;
const BETWEEN: f64 = 12.0;

/// Some of the columns, with the rows that have a tile in one of them.
struct Panel<'a> {
    columns: Range<usize>,
    /// Those of one label stand together.
    groups: Vec<Vec<&'a HeatRow>>,
}

struct HeatArea<'a> {
    heat: &'a Heat,
    names: Names,
    /// Where tiles begin, and how wide they are.
    left: f64,
    wide: f64,
    right: f64,
}

pub(super) fn draw(chart: &Chart, heat: &Heat, medium: Medium<'_>) -> Picture {
    let right = medium.right();
    let labels = heat.rows.iter().flat_map(|row| label_lines(&row.label, LABEL));
    let widest = labels.map(|line| text_width(&line, MEDIUM)).fold(0.0, f64::max);
    let left = MARGIN + widest + COUNT + 10.0;
    let columns = heat.columns.len().max(1);
    let most = (1..columns).take_while(|more| float(*more + 1) * NARROWEST <= right - left);
    let each = columns.div_ceil(columns.div_ceil(1 + most.count()));
    let wide = ((right - left) / float(each)).min(WIDEST);
    let field = HeatArea { heat, names: Names::new(&heat.columns, wide, right), left, wide, right };
    let starts = (0..columns).step_by(each);
    let panels: Vec<Panel> = starts.map(|from| field.panel(from..columns.min(from + each))).collect();
    let heights = panels.iter().map(|panel| BETWEEN + field.height(panel));
    let inner = KEY_HEIGHT + field.names.list_height() + heights.sum::<f64>();
    let mut frame = ChartFrame::holding(chart, medium, inner);
    draw_key(&mut frame.picture, frame.top, heat.scale.as_ref());
    let mut at = frame.top + KEY_HEIGHT;
    field.names.list(&mut frame.picture, at);
    at += field.names.list_height();
    for panel in &panels {
        at = field.draw(&mut frame.picture, at + BETWEEN, panel);
    }
    frame.picture
}

impl<'a> HeatArea<'a> {
    fn panel(&self, columns: Range<usize>) -> Panel<'a> {
        let groups = self.heat.rows.chunk_by(|one, other| one.label == other.label);
        Panel { columns, groups: groups.map(|rows| rows.iter().collect()).collect() }
    }

    fn written(&self, tile: &Tile) -> Vec<String> {
        tile.said.iter().flat_map(|said| wrap(said, SMALL, self.wide - 6.0)).collect()
    }

    fn row_height(&self, row: &HeatRow, columns: &Range<usize>) -> f64 {
        let tiles = row.tiles[columns.clone()].iter().flatten();
        let most = tiles.map(|tile| self.written(tile).len()).max();
        float(most.unwrap_or(1).max(1)) * LINE + SPARE
    }

    fn group_height(&self, group: &[&HeatRow], columns: &Range<usize>) -> f64 {
        let rows: f64 = group.iter().map(|row| self.row_height(row, columns)).sum();
        let labels = group.first().map_or(0, |row| label_lines(&row.label, LABEL).len());
        rows.max(float(labels) * LINE + PAD) + 2.0 * PAD
    }

    fn height(&self, panel: &Panel<'_>) -> f64 {
        let groups = panel.groups.iter().map(|group| self.group_height(group, &panel.columns));
        self.names.height(&panel.columns) + groups.sum::<f64>()
    }

    /// Draws one panel; gives the row below it.
    fn draw(&self, picture: &mut Picture, top: f64, panel: &Panel<'_>) -> f64 {
        let mut at = top + self.names.height(&panel.columns);
        picture.text((self.left - 12.0, at - 14.0), "N", SMALL, Paint::Ink, Anchor::End);
        for (column, place) in panel.columns.clone().zip(0_u32..) {
            self.names.heading(picture, column, (self.left + self.wide * (f64::from(place) + 0.5), at));
        }
        for group in &panel.groups {
            self.group(picture, at, group, &panel.columns);
            at += self.group_height(group, &panel.columns);
        }
        at
    }

    fn group(&self, picture: &mut Picture, top: f64, group: &[&HeatRow], columns: &Range<usize>) {
        picture.line(vec![(MARGIN, top), (self.right, top)], Paint::Grid, 1.0);
        let label = group.first().map(|row| label_lines(&row.label, LABEL)).unwrap_or_default();
        for (line, at) in label.iter().zip(0_u32..) {
            let row = top + PAD + (SPARE + LINE) / 2.0 + LINE * f64::from(at);
            picture.text((MARGIN, row), line.as_str(), MEDIUM, Paint::Ink, Anchor::Start);
        }
        let mut at = top + PAD;
        for row in group {
            let below = at + self.row_height(row, columns);
            self.row(picture, at, below, row, columns);
            at = below;
        }
    }

    fn row(&self, picture: &mut Picture, top: f64, below: f64, row: &HeatRow, columns: &Range<usize>) {
        let middle = f64::midpoint(top, below);
        let count = row.contenders.to_string();
        picture.text((self.left - 12.0, middle), count, SMALL, Paint::Ink, Anchor::End);
        for (tile, column) in row.tiles[columns.clone()].iter().zip(0_u32..) {
            let left = self.left + self.wide * f64::from(column);
            let (from, to) = ((left + 1.0, top + 1.0), (left + self.wide - 1.0, below - 1.0));
            match tile {
                Some(tile) => draw_tile(picture, from, to, tile, &self.written(tile)),
                None => {
                    let at = (left + self.wide / 2.0, middle);
                    picture.text(at, "-", SMALL, Paint::Ink, Anchor::Middle);
                }
            }
        }
    }
}

fn draw_tile(picture: &mut Picture, from: Point, to: Point, tile: &Tile, written: &[String]) {
    let colour = colour(tile.shade).map(Paint::Tile);
    let fill = if tile.doubtful { Paint::Paper } else { colour.unwrap_or(Paint::Paper) };
    let rim = if tile.doubtful { 3.0 } else { 1.0 };
    picture.rectangle(from, to, colour.unwrap_or(Paint::Rule));
    picture.rectangle((from.0 + rim, from.1 + rim), (to.0 - rim, to.1 - rim), fill);
    let mut row = f64::midpoint(from.1, to.1) - float(written.len().saturating_sub(1)) * LINE / 2.0;
    for line in written {
        let at = (f64::midpoint(from.0, to.0), row);
        picture.text(at, line.as_str(), SMALL, written_on(fill), Anchor::Middle);
        row += LINE;
    }
}

/// Black rather than grey on what is not dark: some of the blues are neither light nor dark.
fn written_on(fill: Paint) -> Paint {
    let paper = Paint::Paper.colour();
    Paint::Tile(if ink_on(fill.colour()) == paper { paper } else { (0, 0, 0) })
}

const NAME_LINE: f64 = 16.0;
const NAME_LINES: usize = 4;

/// The headings of the columns: their names or, where one is too long for its column, numbers and a list of what they stand
/// for.
struct Names {
    headings: Vec<Vec<String>>,
    /// What numbers stand for, each with its place below the first row of the list.
    list: Vec<(String, Point)>,
}

impl Names {
    fn new(names: &[String], width: f64, right: f64) -> Self {
        let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, SMALL, width - 8.0)).collect();
        let fits =
            |(lines, name): (&Vec<String>, &String)| lines.len() <= NAME_LINES && lines.join(" ") == *name;
        if wrapped.iter().zip(names).all(fits) {
            return Self { headings: wrapped, list: Vec::new() };
        }
        let numbers: Vec<String> = (1..=names.len()).map(|number| format!("({number})")).collect();
        let entries = numbers.iter().zip(names).map(|(number, name)| format!("{number} {name}"));
        let entries: Vec<String> = entries.map(|entry| shorten(&entry, SMALL, right - MARGIN)).collect();
        let wide = entries.iter().map(|entry| text_width(entry, SMALL));
        let places = flow(wide, 22.0, (MARGIN, right), NAME_LINE + 2.0);
        let list = entries.into_iter().zip(places).collect();
        Self { list, headings: numbers.into_iter().map(|number| vec![number]).collect() }
    }

    fn list_height(&self) -> f64 {
        self.list.last().map_or(0.0, |(_, (_, below))| below + NAME_LINE + 10.0)
    }

    fn list(&self, picture: &mut Picture, top: f64) {
        for (entry, (across, below)) in &self.list {
            let at = (*across, top + below + NAME_LINE / 2.0);
            picture.text(at, entry.as_str(), SMALL, Paint::Ink, Anchor::Start);
        }
    }

    fn height(&self, columns: &Range<usize>) -> f64 {
        let most = self.headings[columns.clone()].iter().map(Vec::len).max().unwrap_or(0);
        float(most) * NAME_LINE + 6.0
    }

    fn heading(&self, picture: &mut Picture, column: usize, (middle, bottom): Point) {
        for (line, above) in self.headings[column].iter().rev().zip(0_u32..) {
            let row = bottom - 6.0 - NAME_LINE * (f64::from(above) + 0.5);
            picture.text((middle, row), line.as_str(), SMALL, Paint::Ink, Anchor::Middle);
        }
    }
}

const STUCK: Colour = (230, 159, 0);
const RAMP: [Colour; 4] = [(226, 238, 248), (140, 190, 222), (28, 100, 168), (6, 38, 88)];

fn colour(shade: Shade) -> Option<Colour> {
    match shade {
        Shade::None => None,
        Shade::Time(share) => Some(time(share)),
        Shade::Stuck => Some(STUCK),
        Shade::Violated => Some(ALARM),
    }
}

fn time(share: f64) -> Colour {
    let along = share.clamp(0.0, 1.0) * 3.0;
    let (from, to, part) = match along {
        at if at < 1.0 => (RAMP[0], RAMP[1], at),
        at if at < 2.0 => (RAMP[1], RAMP[2], at - 1.0),
        at => (RAMP[2], RAMP[3], at - 2.0),
    };
    between(from, to, part)
}

const BAR: f64 = 300.0;
const STEPS: u32 = 60;
const TILE: f64 = 18.0;
const KEY_HEIGHT: f64 = 50.0;

/// Draws what the colours mean, the scale of times and the tiles with words, from that row on.
fn draw_key(picture: &mut Picture, top: f64, scale: Option<&Axis>) {
    let mut across = MARGIN;
    if let Some(scale) = scale {
        bar(picture, top, scale);
        across += BAR + 40.0;
    }
    let words = ["violated, or entered too early", "stuck, or never acquired again", "not ranked"];
    for (word, colour) in words.into_iter().zip([Some(ALARM), Some(STUCK), None]) {
        swatch(picture, (across, top), colour);
        across += TILE + 6.0;
        picture.text((across, top + TILE / 2.0), word, SMALL, Paint::Ink, Anchor::Start);
        across += text_width(word, SMALL) + 24.0;
    }
}

/// A square of a colour; with a border and nothing in it where there is none.
fn swatch(picture: &mut Picture, (left, top): Point, colour: Option<Colour>) {
    picture.rectangle((left, top), (left + TILE, top + TILE), colour.map_or(Paint::Rule, Paint::Tile));
    if colour.is_none() {
        picture.rectangle((left + 1.5, top + 1.5), (left + TILE - 1.5, top + TILE - 1.5), Paint::Paper);
    }
}

fn bar(picture: &mut Picture, top: f64, scale: &Axis) {
    for step in 0..STEPS {
        let at = |step: u32| MARGIN + BAR * f64::from(step) / f64::from(STEPS);
        let share = (f64::from(step) + 0.5) / f64::from(STEPS);
        picture.rectangle((at(step), top), (at(step + 1), top + TILE), Paint::Tile(time(share)));
    }
    let mut free = 0.0;
    for tick in scale.ticks.iter().filter(|tick| !tick.label.is_empty()) {
        let column = MARGIN + BAR * scale.share(tick.at);
        let wide = text_width(&tick.label, SMALL);
        let start = (column - wide / 2.0).max(MARGIN);
        if start >= free {
            picture.line(vec![(column, top + TILE), (column, top + TILE + 4.0)], Paint::Rule, 1.0);
            let at = (start, top + TILE + 13.0);
            picture.text(at, tick.label.as_str(), SMALL, Paint::Ink, Anchor::Start);
            free = start + wide + 12.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RAMP, time};

    #[test]
    fn a_longer_time_is_darker_so_that_the_scale_can_be_read_without_colours() {
        let lightness =
            |(red, green, blue): (u8, u8, u8)| u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue);
        let shades = [0.0, 0.1, 0.4, 0.7, 1.0].map(|share| lightness(time(share)));
        assert!(shades.is_sorted_by(|one, other| one > other), "{shades:?}");
        assert_eq!(shades[0], lightness(RAMP[0]));
    }
}
