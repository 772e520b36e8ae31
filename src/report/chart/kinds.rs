//! The kinds of request as shares of a bar.
//!
//! Their colours are none of the strategies' and differ in lightness from one kind to the next.

use super::font;
use super::look::{INK, PAPER, ink_on};
use super::picture::{Anchor, Colour, Picture, Point};
use super::plot::SMALL;
use super::sheet::WIDTH;
use crate::measure::RequestKind;
use crate::report::view::Cell;

const HALF: f64 = 8.0;
const MARGIN: f64 = 18.0;
const LINE: f64 = 22.0;

/// The kinds that occur, in the order of outputs.
pub(super) struct Kinds(Vec<RequestKind>);

impl Kinds {
    /// The kinds that these cells used.
    pub fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Self {
        let mut kinds: Vec<RequestKind> = cells.flat_map(Cell::requests).map(|(kind, _)| kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self(kinds)
    }

    /// The height of the legend.
    pub fn height(&self) -> f64 {
        self.places().last().map_or(0.0, |(_, (_, row))| row + LINE)
    }

    /// Draws the legend in as many rows as it takes; gives the row below it.
    pub fn legend(&self, picture: &mut Picture, top: f64) -> f64 {
        for (kind, (across, below)) in self.places() {
            let row = top + below;
            picture.rectangle((across, row - 7.0), (across + 14.0, row + 7.0), colour(kind));
            picture.text((across + 20.0, row), kind.name(), (SMALL, INK, Anchor::Start));
        }
        top + self.height()
    }

    fn places(&self) -> Vec<(RequestKind, Point)> {
        let (mut across, mut row) = (MARGIN, 8.0);
        let mut places = Vec::new();
        for kind in &self.0 {
            let wide = 20.0 + font::width(kind.name(), SMALL) + 18.0;
            if across + wide > WIDTH - MARGIN {
                (across, row) = (MARGIN, row + LINE);
            }
            places.push((*kind, (across, row)));
            across += wide;
        }
        places
    }
}

/// Draws one bar of shares, with the share in each part that has room for it.
pub(super) fn bar(
    picture: &mut Picture,
    ((left, right), row): ((f64, f64), f64),
    (cell, kinds): (&Cell, &Kinds),
) {
    let requests = cell.requests();
    let total: f64 = requests.iter().map(|(_, amount)| amount).sum();
    let mut from = left;
    for (kind, amount) in requests.iter().filter(|(kind, _)| kinds.0.contains(kind)) {
        let to = from + (right - left) * amount / total;
        picture.rectangle((from, row - HALF), (to, row + HALF), colour(*kind));
        picture.line(vec![(to, row - HALF), (to, row + HALF)], PAPER, 1.0);
        let share = format!("{:.0} %", 100.0 * amount / total);
        if to - from > font::width(&share, SMALL) + 6.0 {
            let style = (SMALL, ink_on(colour(*kind)), Anchor::Middle);
            picture.text((f64::midpoint(from, to), row), share, style);
        }
        from = to;
    }
}

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
