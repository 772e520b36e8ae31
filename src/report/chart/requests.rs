//! Requests per acquisition: how many, on a scale on which 4 and 400 can both be read, and of which kinds.

use super::axis::Axis;
use super::font;
use super::kinds;
use super::look::{GRID, INK, Look, RULE};
use super::picture::{Anchor, Picture, wrap};
use super::plot::{MEDIUM, SMALL};
use super::series::mark_of;
use super::sheet::{Sheet, WIDTH};
use super::{caption, kinds::Kinds};
use crate::report::View;
use crate::report::view::{Cell, Repetition};
use crate::units::number;

const LABEL: f64 = 190.0;
const LINE: f64 = 17.0;
const ROW: f64 = 21.0;
const GROUP_GAP: f64 = 9.0;
const MARGIN: f64 = 18.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 30.0;

/// All rows of one strategy.
struct Group<'a> {
    label: Vec<String>,
    cells: Vec<&'a Cell>,
}

impl Group<'_> {
    fn height(&self) -> f64 {
        (rows(self.cells.len()) * ROW).max(rows(self.label.len()) * LINE) + GROUP_GAP
    }
}

fn rows(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let groups = groups(view);
    let measured = |cell: &Cell| cell.median(Repetition::requests_total).is_some();
    let totals: Vec<f64> =
        groups.iter().flat_map(|group| &group.cells).filter_map(|cell| total(cell)).collect();
    if totals.is_empty() {
        return Err("no trial acquired a lock".to_owned());
    }
    let said = caption::of(view, Vec::new(), measured);
    let kinds = Kinds::of(groups.iter().flat_map(|group| &group.cells).copied());
    let inner = kinds.height() + HEAD + groups.iter().map(Group::height).sum::<f64>() + FOOT;
    let mut sheet = Sheet::holding(view, "Requests per acquisition", &said, inner);
    let field = Field::new(&mut sheet, &groups, (&kinds, &totals));
    let mut at = field.top;
    for group in &groups {
        field.group(&mut sheet.picture, group, (at, &kinds));
        at += group.height();
    }
    Ok(sheet.picture)
}

fn total(cell: &Cell) -> Option<f64> {
    let total: f64 = cell.requests().iter().map(|(_, amount)| amount).sum();
    (total > 0.0).then_some(total)
}

fn groups(view: &View) -> Vec<Group<'_>> {
    let group = |(strategy, label): (usize, &String)| Group {
        label: wrap(label, MEDIUM, LABEL).into_iter().take(3).collect(),
        cells: view.cells_of(strategy).filter(|cell| total(cell).is_some()).collect(),
    };
    view.strategies.iter().enumerate().map(group).filter(|group| !group.cells.is_empty()).collect()
}

/// Where the two panels lie: amounts at the left, kinds at the right.
struct Field {
    top: f64,
    count_at: f64,
    amounts: (f64, f64),
    kinds: (f64, f64),
    axis: Axis,
}

impl Field {
    fn new(sheet: &mut Sheet, groups: &[Group], (kinds, totals): (&Kinds, &[f64])) -> Self {
        let top = kinds.legend(&mut sheet.picture, sheet.top) + HEAD;
        let low = totals.iter().copied().fold(1.0, f64::min);
        let high = totals.iter().copied().fold(0.0, f64::max);
        let labels = groups.iter().flat_map(|group| &group.label).map(|line| font::width(line, MEDIUM));
        let count_at = MARGIN + labels.fold(0.0, f64::max) + 62.0;
        let middle = count_at + (WIDTH - MARGIN - count_at) * 0.5;
        let field = Self {
            top,
            count_at,
            amounts: (count_at + 14.0, middle - 66.0),
            kinds: (middle, WIDTH - MARGIN - 16.0),
            axis: Axis::logarithmic("requests per acquisition", low, high),
        };
        let bottom = top + groups.iter().map(Group::height).sum::<f64>();
        field.axes(&mut sheet.picture, bottom);
        field
    }

    fn across(&self, amount: f64) -> f64 {
        self.amounts.0 + self.axis.share(amount) * (self.amounts.1 - self.amounts.0)
    }

    fn axes(&self, picture: &mut Picture, bottom: f64) {
        let head = (MEDIUM, INK, Anchor::Start);
        picture.text((self.amounts.0, self.top - 16.0), self.axis.title.as_str(), head);
        picture.text((self.kinds.0, self.top - 16.0), "share of each kind (%)", head);
        picture.text((self.count_at, self.top - 16.0), "N", (MEDIUM, INK, Anchor::End));
        for (value, label) in &self.axis.ticks {
            let column = self.across(*value);
            picture.line(vec![(column, self.top), (column, bottom)], GRID, 1.0);
            picture.text((column, bottom + 12.0), label.as_str(), (SMALL, INK, Anchor::Middle));
        }
        for quarter in 0..=4_u32 {
            let column = self.kinds.0 + (self.kinds.1 - self.kinds.0) * f64::from(quarter) / 4.0;
            let label = format!("{} %", quarter * 25);
            picture.line(vec![(column, self.top), (column, bottom)], GRID, 1.0);
            picture.text((column, bottom + 12.0), label, (SMALL, INK, Anchor::Middle));
        }
        let said = "N: contenders";
        picture.text((self.count_at, bottom + 12.0), said, (SMALL, INK, Anchor::End));
    }

    fn group(&self, picture: &mut Picture, group: &Group, (top, kinds): (f64, &Kinds)) {
        picture.line(vec![(MARGIN, top), (self.kinds.1, top)], GRID, 1.0);
        for (line, at) in group.label.iter().zip(0_u32..) {
            let row = top + GROUP_GAP / 2.0 + LINE * (f64::from(at) + 0.6);
            picture.text((MARGIN, row), line.as_str(), (MEDIUM, INK, Anchor::Start));
        }
        for (cell, at) in group.cells.iter().zip(0_u32..) {
            let row = top + GROUP_GAP / 2.0 + ROW * (f64::from(at) + 0.5);
            self.row(picture, cell, row);
            kinds::bar(picture, (self.kinds, row), (cell, kinds));
        }
    }

    fn row(&self, picture: &mut Picture, cell: &Cell, row: f64) {
        let Some(total) = total(cell) else { return };
        let look = Look::of(cell.strategy);
        picture.text((self.count_at, row), cell.contenders.to_string(), (SMALL, INK, Anchor::End));
        picture.line(vec![(self.amounts.0, row), (self.across(total), row)], RULE, 1.0);
        look.marker(picture, (self.across(total), row), mark_of(cell));
        picture.text((self.across(total) + 13.0, row), number(total), (SMALL, INK, Anchor::Start));
    }
}
