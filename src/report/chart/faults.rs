//! Lock by fault as a heat map: how soon the lock was acquired again, and where it was violated or stood still.

use std::ops::Range;

use super::axis::Axis;
use super::caption;
use super::fault_names::Names;
use super::font;
use super::heat::{self, Tile};
use super::heat_key;
use super::look::{BLACK, GRID, INK, ink_on};
use super::picture::{Anchor, Colour, Picture, wrap};
use super::plot::{MEDIUM, SMALL};
use super::sheet::{Sheet, WIDTH};
use crate::report::View;
use crate::report::view::{Cell, UnderFault};

const MARGIN: f64 = 18.0;
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

/// What all panels share.
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
    let panels: Vec<(Range<usize>, Vec<Group>)> = starts
        .map(|from| from..names.len().min(from + each))
        .map(|columns| (columns.clone(), field.groups(&columns)))
        .collect();
    let of_panel = |(columns, groups): &(Range<usize>, Vec<Group>)| {
        BETWEEN + field.names.height(columns.clone()) + groups.iter().map(Group::height).sum::<f64>()
    };
    let inner = heat_key::HEIGHT + field.names.list_height() + panels.iter().map(of_panel).sum::<f64>();
    let mut sheet = Sheet::holding(view, "Recovery from faults", &field.caption(names.len() > 1), inner);
    heat_key::draw(&mut sheet.picture, sheet.top, field.scale.as_ref());
    let mut at = sheet.top + heat_key::HEIGHT;
    field.names.list(&mut sheet.picture, at);
    at += field.names.list_height();
    for (columns, groups) in &panels {
        at = field.panel(&mut sheet.picture, at + BETWEEN, (columns, groups));
    }
    Ok(sheet.picture)
}

impl<'a> Field<'a> {
    fn new(view: &'a View, names: &[String]) -> Self {
        let under = view.under_faults();
        let widest = view.strategies.iter().flat_map(|label| lines(label)).map(|l| font::width(&l, MEDIUM));
        let left = MARGIN + widest.fold(0.0, f64::max) + COUNT + 10.0;
        let most = (1..names.len()).take_while(|more| tiles(*more + 1) * NARROWEST <= WIDTH - MARGIN - left);
        let panels = names.len().div_ceil(1 + most.count());
        let each = names.len().div_ceil(panels);
        let wide = ((WIDTH - MARGIN - left) / tiles(each)).min(WIDEST);
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
                "Several faults in one column: trials that had them all, which tells of the trial, not of \
                       one fault; times stand with each fault."
                    .to_owned(),
            );
        }
        caption::of_doubts(self.view, said, |cell| self.is_in(cell))
    }

    /// The rows of a panel, without those of strategies that had no fault.
    fn groups(&self, columns: &Range<usize>) -> Vec<Group<'a>> {
        let row = |cell: &'a Cell| Row {
            cell,
            tiles: columns.clone().map(|column| self.tile(cell, column)).collect(),
        };
        let group = |strategy: usize| Group {
            label: lines(&self.view.strategies[strategy]),
            rows: self.view.cells_of(strategy).filter(|cell| self.is_in(cell)).map(row).collect(),
        };
        let groups = (0..self.view.strategies.len()).map(group);
        groups.filter(|group| !group.rows.is_empty()).collect()
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
    fn panel(&self, picture: &mut Picture, top: f64, (columns, groups): (&Range<usize>, &[Group])) -> f64 {
        let mut at = top + self.names.height(columns.clone());
        picture.text((self.left - 12.0, at - 14.0), "N", (SMALL, INK, Anchor::End));
        for (column, place) in columns.clone().zip(0_u32..) {
            self.names.heading(picture, column, (self.left + self.wide * (f64::from(place) + 0.5), at));
        }
        for group in groups {
            self.group(picture, at, group);
            at += group.height();
        }
        at
    }

    fn group(&self, picture: &mut Picture, top: f64, group: &Group) {
        picture.line(vec![(MARGIN, top), (WIDTH - MARGIN, top)], GRID, 1.0);
        for (line, at) in group.label.iter().zip(0_u32..) {
            let row = top + PAD + (SPARE + LINE) / 2.0 + LINE * f64::from(at);
            picture.text((MARGIN, row), line.as_str(), (MEDIUM, INK, Anchor::Start));
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
        picture.text((self.left - 12.0, middle), count, (SMALL, INK, Anchor::End));
        for (tile, column) in row.tiles.iter().zip(0_u32..) {
            let left = self.left + self.wide * f64::from(column);
            let corners = ((left + 1.0, top + 1.0), (left + self.wide - 1.0, top + row.height() - 1.0));
            match tile {
                Some((tile, written)) => paint(picture, corners, (tile, written)),
                None => picture.text((left + self.wide / 2.0, middle), "-", (SMALL, INK, Anchor::Middle)),
            }
        }
    }
}

/// Draws a tile with what is written on it.
fn paint(picture: &mut Picture, (from, to): ((f64, f64), (f64, f64)), (tile, written): (&Tile, &[String])) {
    let (fill, border) = tile.fill();
    let rim = if tile.hollow { 3.0 } else { 1.0 };
    picture.rectangle(from, to, border);
    picture.rectangle((from.0 + rim, from.1 + rim), (to.0 - rim, to.1 - rim), fill);
    let extra = f64::from(u32::try_from(written.len().saturating_sub(1)).unwrap_or(0));
    let mut row = f64::midpoint(from.1, to.1) - extra * LINE / 2.0;
    for line in written {
        let style = (SMALL, written_on(fill), Anchor::Middle);
        picture.text((f64::midpoint(from.0, to.0), row), line.as_str(), style);
        row += LINE;
    }
}

/// Black rather than grey on what is not dark: some of the blues are neither light nor dark.
fn written_on(fill: Colour) -> Colour {
    Some(ink_on(fill)).filter(|ink| *ink != INK).unwrap_or(BLACK)
}

fn lines(label: &str) -> Vec<String> {
    wrap(label, MEDIUM, LABEL).into_iter().take(3).collect()
}

fn tall(lines: usize) -> f64 {
    tiles(lines) * LINE
}

fn tiles(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Group<'_> {
    fn height(&self) -> f64 {
        self.rows.iter().map(Row::height).sum::<f64>().max(tall(self.label.len()) + PAD) + 2.0 * PAD
    }
}

impl Row<'_> {
    fn height(&self) -> f64 {
        let most = self.tiles.iter().flatten().map(|(_, written)| written.len()).max();
        tall(most.unwrap_or(1).max(1)) + SPARE
    }
}
