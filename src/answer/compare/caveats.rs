//! What may not be concluded of a cell, whatever its figures came to: for a comparison and for a gate alike.

use super::differences::{FloorRise, takes_time};
use super::generator::{ShareApart, shares, unless_generator};
use super::judge::Compared;
use super::lost::{Repetitions, doubt, unless};
use crate::results::record::Figure;

/// What of both sides of a cell speaks against a verdict.
#[derive(Debug, Clone)]
pub(super) struct Caveats {
    floor: Option<FloorRise>,
    /// What the load generator adds to figures on either side.
    generator: Vec<ShareApart>,
    /// What the repetitions that were lost make doubtful.
    lost: Option<String>,
}

impl Caveats {
    pub fn of(base: &Repetitions<'_>, new: &Repetitions<'_>, floor: Option<FloorRise>) -> Self {
        Self { floor, generator: shares(&base.trials(), &new.trials()), lost: doubt(base, new) }
    }

    /// Of several cells together: what speaks against any of them; `None` of none.
    pub fn of_any<'a>(cells: impl Iterator<Item = &'a Self>) -> Option<Self> {
        cells.cloned().reduce(|mut all, one| {
            all.generator.extend(one.generator);
            Self { lost: all.lost.or(one.lost), ..all }
        })
    }

    /// What was found of a figure, as far as it may be concluded.
    pub fn allow(&self, figure: Figure, found: Compared) -> Compared {
        let found = match self.floor {
            Some(rise) => rise.unless(figure, found),
            None => found,
        };
        let found = if takes_time(figure) { unless_generator(&self.generator, found) } else { found };
        unless(self.lost.as_deref(), found)
    }
}
