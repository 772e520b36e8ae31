//! Lock by fault as a heat map: how soon the lock was acquired again, and where it was violated or stood still.

use std::ops::Range;

use super::axis::{Axis, float};
use super::heat::{self, KEY_HEIGHT, Tile};
use super::look::{BLACK, GRID, INK, caption_of_doubts, ink_on};
use super::picture::{Anchor, Colour, MEDIUM, Picture, Point, SMALL, label_lines, shorten, text_width, wrap};
use super::sheet::{MARGIN, Sheet, WIDTH};
use crate::report::View;
use crate::report::view::{Cell, UnderFault};

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

/// Some of the columns, with the rows of all strategies that have a tile in one.
struct Panel<'a> {
    columns: Range<usize>,
    groups: Vec<Group<'a>>,
}

/// All rows of one strategy in one panel.
struct Group<'a> {
    label: Vec<String>,
    rows: Vec<Row<'a>>,
}

/// One contender count: a tile for each column of the panel.
struct Row<'a> {
    cell: &'a Cell,
    tiles: Vec<Option<(Tile, Vec<String>)>>,
}

struct Field<'a> {
    view: &'a View,
    under: Vec<UnderFault<'a>>,
    scale: Option<Axis>,
    names: Names,
    /// Where tiles begin, and how wide they are.
    left: f64,
    wide: f64,
    /// How many columns a panel has at most.
    each: usize,
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let sets = view.fault_sets();
    if sets.is_empty() {
        return Err("nothing was broken on purpose".to_owned());
    }
    let names: Vec<String> = sets.iter().map(|set| set.name()).collect();
    let field = Field::new(view, &names);
    let each = field.each;
    let starts = (0..names.len()).step_by(each);
    let panels: Vec<Panel> = starts.map(|from| field.panel(from..names.len().min(from + each))).collect();
    let heights = panels.iter().map(|panel| BETWEEN + panel.height(&field.names));
    let inner = KEY_HEIGHT + field.names.list_height() + heights.sum::<f64>();
    let caption = field.caption(names.len() > 1);
    let mut sheet = Sheet::holding(&view.place_line(), "Recovery from faults", &caption, inner);
    heat::draw_key(&mut sheet.picture, sheet.top, field.scale.as_ref());
    let mut at = sheet.top + KEY_HEIGHT;
    field.names.list(&mut sheet.picture, at);
    at += field.names.list_height();
    for panel in &panels {
        at = field.draw(&mut sheet.picture, at + BETWEEN, panel);
    }
    Ok(sheet.picture)
}

impl<'a> Field<'a> {
    fn new(view: &'a View, names: &[String]) -> Self {
        let under = view.under_faults();
        let widest = view
            .strategies
            .iter()
            .flat_map(|label| label_lines(label, LABEL))
            .map(|l| text_width(&l, MEDIUM));
        let left = MARGIN + widest.fold(0.0, f64::max) + COUNT + 10.0;
        let most = (1..names.len()).take_while(|more| float(*more + 1) * NARROWEST <= WIDTH - MARGIN - left);
        let panels = names.len().div_ceil(1 + most.count());
        let each = names.len().div_ceil(panels);
        let wide = ((WIDTH - MARGIN - left) / float(each)).min(WIDEST);
        Self { view, scale: heat::scale(&under), under, names: Names::new(names, wide), left, wide, each }
    }

    fn caption(&self, several: bool) -> Vec<String> {
        let mut said = vec![
            "The time: from a fault's effect to the next acquisition, the median over proved faults."
                .to_owned(),
            "Violated, stuck: violations and stuck contenders of all repetitions. N: contenders.".to_owned(),
        ];
        let sets = self.view.fault_sets();
        if several && sets.iter().any(|set| set.single().is_none()) {
            said.push(
                "Several faults in one column: trials that had them all, so this is about the trial, not about one \
                 fault; times are shown per fault."
                    .to_owned(),
            );
        }
        caption_of_doubts(self.view, said, |cell| self.is_in(cell))
    }

    /// A panel of these columns, without the rows of strategies that had no fault.
    fn panel(&self, columns: Range<usize>) -> Panel<'a> {
        let row = |cell: &'a Cell| Row {
            cell,
            tiles: columns.clone().map(|column| self.tile(cell, column)).collect(),
        };
        let group = |strategy: usize| Group {
            label: label_lines(&self.view.strategies[strategy], LABEL),
            rows: self.view.cells_of(strategy).filter(|cell| self.is_in(cell)).map(row).collect(),
        };
        let groups = (0..self.view.strategies.len()).map(group);
        Panel { groups: groups.filter(|group| !group.rows.is_empty()).collect(), columns }
    }

    fn is_in(&self, cell: &Cell) -> bool {
        self.under.iter().any(|under| std::ptr::eq(under.cell, cell))
    }

    fn tile(&self, cell: &Cell, column: usize) -> Option<(Tile, Vec<String>)> {
        let here = |under: &&UnderFault| std::ptr::eq(under.cell, cell) && under.set == column;
        let tile = Tile::of(self.under.iter().find(here)?, self.scale.as_ref());
        let written = tile.said.iter().flat_map(|said| wrap(said, SMALL, self.wide - 6.0)).collect();
        Some((tile, written))
    }

    /// Draws one panel; gives the row below it.
    fn draw(&self, picture: &mut Picture, top: f64, panel: &Panel) -> f64 {
        let mut at = top + self.names.height(&panel.columns);
        picture.text((self.left - 12.0, at - 14.0), "N", SMALL, INK, Anchor::End);
        for (column, place) in panel.columns.clone().zip(0_u32..) {
            self.names.heading(picture, column, (self.left + self.wide * (f64::from(place) + 0.5), at));
        }
        for group in &panel.groups {
            self.group(picture, at, group);
            at += group.height();
        }
        at
    }

    fn group(&self, picture: &mut Picture, top: f64, group: &Group) {
        picture.line(vec![(MARGIN, top), (WIDTH - MARGIN, top)], GRID, 1.0);
        for (line, at) in group.label.iter().zip(0_u32..) {
            let row = top + PAD + (SPARE + LINE) / 2.0 + LINE * f64::from(at);
            picture.text((MARGIN, row), line.as_str(), MEDIUM, INK, Anchor::Start);
        }
        let mut at = top + PAD;
        for row in &group.rows {
            self.row(picture, at, row);
            at += row.height();
        }
    }

    fn row(&self, picture: &mut Picture, top: f64, row: &Row) {
        let middle = top + row.height() / 2.0;
        let count = row.cell.contenders.to_string();
        picture.text((self.left - 12.0, middle), count, SMALL, INK, Anchor::End);
        for (tile, column) in row.tiles.iter().zip(0_u32..) {
            let left = self.left + self.wide * f64::from(column);
            let (from, to) = ((left + 1.0, top + 1.0), (left + self.wide - 1.0, top + row.height() - 1.0));
            match tile {
                Some((tile, written)) => paint(picture, from, to, tile, written),
                None => picture.text((left + self.wide / 2.0, middle), "-", SMALL, INK, Anchor::Middle),
            }
        }
    }
}

/// Draws a tile with what is written on it.
fn paint(picture: &mut Picture, from: Point, to: Point, tile: &Tile, written: &[String]) {
    let (fill, border) = tile.fill();
    let rim = if tile.hollow { 3.0 } else { 1.0 };
    picture.rectangle(from, to, border);
    picture.rectangle((from.0 + rim, from.1 + rim), (to.0 - rim, to.1 - rim), fill);
    let extra = float(written.len().saturating_sub(1));
    let mut row = f64::midpoint(from.1, to.1) - extra * LINE / 2.0;
    for line in written {
        let at = (f64::midpoint(from.0, to.0), row);
        picture.text(at, line.as_str(), SMALL, written_on(fill), Anchor::Middle);
        row += LINE;
    }
}

/// Black rather than grey on what is not dark: some of the blues are neither light nor dark.
fn written_on(fill: Colour) -> Colour {
    Some(ink_on(fill)).filter(|ink| *ink != INK).unwrap_or(BLACK)
}

impl Panel<'_> {
    fn height(&self, names: &Names) -> f64 {
        names.height(&self.columns) + self.groups.iter().map(Group::height).sum::<f64>()
    }
}

impl Group<'_> {
    fn height(&self) -> f64 {
        self.rows.iter().map(Row::height).sum::<f64>().max(float(self.label.len()) * LINE + PAD) + 2.0 * PAD
    }
}

impl Row<'_> {
    fn height(&self) -> f64 {
        let most = self.tiles.iter().flatten().map(|(_, written)| written.len()).max();
        float(most.unwrap_or(1).max(1)) * LINE + SPARE
    }
}

const NAME_LINE: f64 = 16.0;
const NAME_LINES: usize = 4;

/// The headings of the columns: the faults' names or, where one is too long for its column, numbers and a list of what
/// they stand for.
struct Names {
    headings: Vec<Vec<String>>,
    /// What numbers stand for, each with its place below the first row of the list.
    list: Vec<(String, Point)>,
}

impl Names {
    fn new(names: &[String], width: f64) -> Self {
        let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, SMALL, width - 8.0)).collect();
        if wrapped
            .iter()
            .zip(names)
            .all(|(lines, name)| lines.len() <= NAME_LINES && lines.join(" ") == *name)
        {
            return Self { headings: wrapped, list: Vec::new() };
        }
        let numbers: Vec<String> = (1..=names.len()).map(|number| format!("({number})")).collect();
        let entries = numbers.iter().zip(names).map(|(number, name)| format!("{number} {name}"));
        Self { list: flow(entries), headings: numbers.iter().map(|number| vec![number.clone()]).collect() }
    }

    fn list_height(&self) -> f64 {
        self.list.last().map_or(0.0, |(_, (_, below))| below + NAME_LINE + 10.0)
    }

    /// Draws the list from that row on.
    fn list(&self, picture: &mut Picture, top: f64) {
        for (entry, (across, below)) in &self.list {
            picture.text((*across, top + below + NAME_LINE / 2.0), entry.as_str(), SMALL, INK, Anchor::Start);
        }
    }

    fn height(&self, columns: &Range<usize>) -> f64 {
        let most = self.headings[columns.clone()].iter().map(Vec::len).max().unwrap_or(0);
        float(most) * NAME_LINE + 6.0
    }

    /// Draws the heading of a column above that place.
    fn heading(&self, picture: &mut Picture, column: usize, (middle, bottom): Point) {
        for (line, above) in self.headings[column].iter().rev().zip(0_u32..) {
            let row = bottom - 6.0 - NAME_LINE * (f64::from(above) + 0.5);
            picture.text((middle, row), line.as_str(), SMALL, INK, Anchor::Middle);
        }
    }
}

/// Entries one beside another, in as many rows as it takes.
fn flow(entries: impl Iterator<Item = String>) -> Vec<(String, Point)> {
    let (mut across, mut below) = (MARGIN, 0.0);
    let mut places = Vec::new();
    for entry in entries {
        let entry = shorten(&entry, SMALL, WIDTH - 2.0 * MARGIN);
        let wide = text_width(&entry, SMALL);
        if across > MARGIN && across + wide > WIDTH - MARGIN {
            (across, below) = (MARGIN, below + NAME_LINE + 2.0);
        }
        places.push((entry, (across, below)));
        across += wide + 22.0;
    }
    places
}
