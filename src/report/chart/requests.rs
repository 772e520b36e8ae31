//! Requests per acquisition: how many, on a scale on which 4 and 400 can both be read, and of which kinds.

use super::axis::{Axis, float};
use super::look::{GRID, INK, Look, Mark, PAPER, RULE, caption_of, ink_on};
use super::picture::{Anchor, Colour, MEDIUM, Picture, Point, SMALL, label_lines, text_width};
use super::sheet::{MARGIN, Sheet, WIDTH};
use crate::report::View;
use crate::report::view::{Cell, Repetition};
use crate::words::measure::RequestKind;
use crate::words::units::number;

const LABEL: f64 = 190.0;
const LINE: f64 = 17.0;
const ROW: f64 = 21.0;
const GROUP_GAP: f64 = 9.0;
const HEAD: f64 = 30.0;
const FOOT: f64 = 30.0;

/// All rows of one strategy.
struct Group<'a> {
    label: Vec<String>,
    cells: Vec<&'a Cell>,
}

impl Group<'_> {
    fn height(&self) -> f64 {
        (float(self.cells.len()) * ROW).max(float(self.label.len()) * LINE) + GROUP_GAP
    }
}

/// Draws it; the error says why not.
pub(super) fn draw(view: &View) -> Result<Picture, String> {
    let groups = groups(view);
    let measured = |cell: &Cell| cell.median(Repetition::requests_total).is_some();
    let totals: Vec<f64> =
        groups.iter().flat_map(|group| &group.cells).filter_map(|cell| total(cell)).collect();
    if totals.is_empty() {
        let acquired = view.cells.iter().any(|cell| cell.sum(|one| one.acquired) > 0);
        let why = if acquired {
            "the strategies make no requests, or not all of theirs can be counted"
        } else {
            "no trial acquired a lock"
        };
        return Err(why.to_owned());
    }
    let said = caption_of(view, Vec::new(), measured);
    let kinds = Kinds::of(groups.iter().flat_map(|group| &group.cells).copied());
    let inner = kinds.height() + HEAD + groups.iter().map(Group::height).sum::<f64>() + FOOT;
    let mut sheet = Sheet::holding(&view.place_line(), "Requests per acquisition", &said, inner);
    let field = Field::new(&mut sheet, &groups, &kinds, &totals);
    let mut at = field.top;
    for group in &groups {
        field.group(&mut sheet.picture, group, at, &kinds);
        at += group.height();
    }
    Ok(sheet.picture)
}

fn total(cell: &Cell) -> Option<f64> {
    let total: f64 = cell.requests().iter().map(|(_, amount)| amount).sum();
    (total > 0.0).then_some(total)
}

fn groups(view: &View) -> Vec<Group<'_>> {
    let group = |strategy: usize| Group {
        label: label_lines(&view.strategies[strategy], LABEL),
        cells: view.cells_of(strategy).filter(|cell| total(cell).is_some()).collect(),
    };
    (0..view.strategies.len()).map(group).filter(|group| !group.cells.is_empty()).collect()
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
    fn new(sheet: &mut Sheet, groups: &[Group], kinds: &Kinds, totals: &[f64]) -> Self {
        let top = kinds.legend(&mut sheet.picture, sheet.top) + HEAD;
        let low = totals.iter().copied().fold(1.0, f64::min);
        let high = totals.iter().copied().fold(0.0, f64::max);
        let labels = groups.iter().flat_map(|group| &group.label).map(|line| text_width(line, MEDIUM));
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
        for (left, head) in
            [(self.amounts.0, self.axis.title.as_str()), (self.kinds.0, "share of each kind (%)")]
        {
            picture.text((left, self.top - 16.0), head, MEDIUM, INK, Anchor::Start);
        }
        picture.text((self.count_at, self.top - 16.0), "N", MEDIUM, INK, Anchor::End);
        for (value, label) in &self.axis.ticks {
            let column = self.across(*value);
            picture.line(vec![(column, self.top), (column, bottom)], GRID, 1.0);
            picture.text((column, bottom + 12.0), label.as_str(), SMALL, INK, Anchor::Middle);
        }
        for quarter in 0..=4_u32 {
            let column = self.kinds.0 + (self.kinds.1 - self.kinds.0) * f64::from(quarter) / 4.0;
            let label = format!("{} %", quarter * 25);
            picture.line(vec![(column, self.top), (column, bottom)], GRID, 1.0);
            picture.text((column, bottom + 12.0), label, SMALL, INK, Anchor::Middle);
        }
        let said = "N: contenders";
        picture.text((self.count_at, bottom + 12.0), said, SMALL, INK, Anchor::End);
    }

    fn group(&self, picture: &mut Picture, group: &Group, top: f64, kinds: &Kinds) {
        picture.line(vec![(MARGIN, top), (self.kinds.1, top)], GRID, 1.0);
        for (line, at) in group.label.iter().zip(0_u32..) {
            let row = top + GROUP_GAP / 2.0 + LINE * (f64::from(at) + 0.6);
            picture.text((MARGIN, row), line.as_str(), MEDIUM, INK, Anchor::Start);
        }
        for (cell, at) in group.cells.iter().zip(0_u32..) {
            let row = top + GROUP_GAP / 2.0 + ROW * (f64::from(at) + 0.5);
            self.row(picture, cell, row);
            kinds.bar(picture, self.kinds.0, self.kinds.1, row, cell);
        }
    }

    fn row(&self, picture: &mut Picture, cell: &Cell, row: f64) {
        let Some(total) = total(cell) else { return };
        let look = Look::of(cell.strategy);
        picture.text((self.count_at, row), cell.contenders.to_string(), SMALL, INK, Anchor::End);
        picture.line(vec![(self.amounts.0, row), (self.across(total), row)], RULE, 1.0);
        look.marker(picture, (self.across(total), row), Mark::of(cell));
        picture.text((self.across(total) + 13.0, row), number(total), SMALL, INK, Anchor::Start);
    }
}

const HALF: f64 = 8.0;
const LEGEND_LINE: f64 = 22.0;

/// The kinds that occur, in the order of outputs.
struct Kinds(Vec<RequestKind>);

impl Kinds {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut kinds: Vec<RequestKind> = cells.flat_map(Cell::requests).map(|(kind, _)| kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self(kinds)
    }

    fn height(&self) -> f64 {
        self.places().last().map_or(0.0, |(_, (_, row))| row + LEGEND_LINE)
    }

    /// Draws the legend in as many rows as it takes; gives the row below it.
    fn legend(&self, picture: &mut Picture, top: f64) -> f64 {
        for (kind, (across, below)) in self.places() {
            let row = top + below;
            picture.rectangle((across, row - 7.0), (across + 14.0, row + 7.0), colour(kind));
            picture.text((across + 20.0, row), kind.name(), SMALL, INK, Anchor::Start);
        }
        top + self.height()
    }

    fn places(&self) -> Vec<(RequestKind, Point)> {
        let (mut across, mut row) = (MARGIN, 8.0);
        let mut places = Vec::new();
        for kind in &self.0 {
            let wide = 20.0 + text_width(kind.name(), SMALL) + 18.0;
            if across + wide > WIDTH - MARGIN {
                (across, row) = (MARGIN, row + LEGEND_LINE);
            }
            places.push((*kind, (across, row)));
            across += wide;
        }
        places
    }

    /// Draws one bar of shares, with the share in each part that has room for it.
    fn bar(&self, picture: &mut Picture, left: f64, right: f64, row: f64, cell: &Cell) {
        let requests = cell.requests();
        let total: f64 = requests.iter().map(|(_, amount)| amount).sum();
        let mut from = left;
        for (kind, amount) in requests.iter().filter(|(kind, _)| self.0.contains(kind)) {
            let to = from + (right - left) * amount / total;
            picture.rectangle((from, row - HALF), (to, row + HALF), colour(*kind));
            picture.line(vec![(to, row - HALF), (to, row + HALF)], PAPER, 1.0);
            let share = format!("{:.0} %", 100.0 * amount / total);
            if to - from > text_width(&share, SMALL) + 6.0 {
                let ink = ink_on(colour(*kind));
                picture.text((f64::midpoint(from, to), row), share, SMALL, ink, Anchor::Middle);
            }
            from = to;
        }
    }
}

/// None of the strategies' colours, and from one kind to the next another lightness.
fn colour(kind: RequestKind) -> Colour {
    match kind {
        RequestKind::Create => (62, 72, 98),
        RequestKind::Delete => (160, 170, 194),
        RequestKind::GetChildren => (120, 66, 48),
        RequestKind::GetChildrenWatch => (238, 190, 160),
        RequestKind::GetData => (58, 98, 60),
        RequestKind::GetDataWatch => (190, 218, 170),
        RequestKind::Exists => (92, 70, 128),
        RequestKind::ExistsWatch => (206, 190, 230),
        RequestKind::SetData => (40, 90, 98),
        RequestKind::Multi => (196, 222, 226),
        RequestKind::Sync => (120, 100, 30),
        RequestKind::RemoveWatches => (232, 220, 160),
    }
}
