//! The headings of the heat map's columns: the faults' names or, where one is too long for its column, numbers and a
//! list of what they stand for.

use super::font;
use super::look::INK;
use super::picture::{Anchor, Picture, Point, shorten, wrap};
use super::plot::SMALL;
use super::sheet::WIDTH;

const MARGIN: f64 = 18.0;
const LINE: f64 = 16.0;
const LINES: usize = 4;

/// The names of all columns.
pub(super) struct Names {
    /// The lines above each column.
    headings: Vec<Vec<String>>,
    /// What numbers stand for, each with its place below the first row of the list.
    list: Vec<(String, Point)>,
}

impl Names {
    /// The names in columns of that width.
    pub fn new(names: &[String], width: f64) -> Self {
        let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, SMALL, width - 8.0)).collect();
        if wrapped.iter().zip(names).all(|(lines, name)| lines.len() <= LINES && lines.join(" ") == *name) {
            return Self { headings: wrapped, list: Vec::new() };
        }
        let numbers: Vec<String> = (1..=names.len()).map(|number| format!("({number})")).collect();
        let entries = numbers.iter().zip(names).map(|(number, name)| format!("{number} {name}"));
        Self { list: flow(entries), headings: numbers.iter().map(|number| vec![number.clone()]).collect() }
    }

    /// The height that the list takes.
    pub fn list_height(&self) -> f64 {
        self.list.last().map_or(0.0, |(_, (_, below))| below + LINE + 10.0)
    }

    /// Draws the list from that row on.
    pub fn list(&self, picture: &mut Picture, top: f64) {
        for (entry, (across, below)) in &self.list {
            picture.text((*across, top + below + LINE / 2.0), entry.as_str(), (SMALL, INK, Anchor::Start));
        }
    }

    /// The height of the headings of these columns.
    pub fn height(&self, columns: std::ops::Range<usize>) -> f64 {
        let most = self.headings[columns].iter().map(Vec::len).max().unwrap_or(0);
        f64::from(u32::try_from(most).unwrap_or(0)) * LINE + 6.0
    }

    /// Draws the heading of a column above that place.
    pub fn heading(&self, picture: &mut Picture, column: usize, (middle, bottom): Point) {
        for (line, above) in self.headings[column].iter().rev().zip(0_u32..) {
            let row = bottom - 6.0 - LINE * (f64::from(above) + 0.5);
            picture.text((middle, row), line.as_str(), (SMALL, INK, Anchor::Middle));
        }
    }
}

/// Entries one beside another, in as many rows as it takes.
fn flow(entries: impl Iterator<Item = String>) -> Vec<(String, Point)> {
    let (mut across, mut below) = (MARGIN, 0.0);
    let mut places = Vec::new();
    for entry in entries {
        let entry = shorten(&entry, SMALL, WIDTH - 2.0 * MARGIN);
        let wide = font::width(&entry, SMALL);
        if across > MARGIN && across + wide > WIDTH - MARGIN {
            (across, below) = (MARGIN, below + LINE + 2.0);
        }
        places.push((entry, (across, below)));
        across += wide + 22.0;
    }
    places
}
