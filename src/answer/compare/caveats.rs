//! What may not be concluded of a cell, whatever its figures came to: for a comparison and for a gate alike.

use super::differences::{FloorRise, takes_time};
use super::differences::{ShareApart, shares, unless_generator};
use super::judge::Compared;
use super::lost::{Repetitions, doubt, unless};
use super::side::sound;
use crate::answer::stats::median;
use crate::results::record::figures::THROUGHPUT;
use crate::results::record::{Figure, Trial};
use crate::words::measure::Measure;

/// What of both sides of a cell speaks against a verdict.
#[derive(Debug, Clone)]
pub(super) struct Caveats {
    floor: Option<FloorCaveat>,
    /// What the load generator adds to figures on either side.
    generator: Vec<ShareApart>,
    lost: Option<String>,
}

/// A floor that rose, and how much of a figure of turns depends on it.
#[derive(Debug, Clone, Copy)]
struct FloorCaveat {
    rise: FloorRise,
    requests: f64,
}

impl Caveats {
    pub fn of(base: &Repetitions<'_>, new: &Repetitions<'_>, floor: Option<FloorRise>) -> Self {
        let (were, are) = (base.trials(), new.trials());
        let floor =
            floor.map(|rise| FloorCaveat { rise, requests: requests_in_a_turn(&were, rise.base_us()) });
        Self { floor, generator: shares(&were, &are), lost: doubt(base, new) }
    }

    /// Of several cells together: what speaks against any of them; `None` of none.
    pub fn of_any<'a>(cells: impl Iterator<Item = &'a Self> + Clone) -> Option<Self> {
        // Turns of all are told together, so it is the mean share of requests that counts.
        let floors: Vec<FloorCaveat> = cells.clone().filter_map(|cell| cell.floor).collect();
        let requests = floors.iter().map(|floor| floor.requests).sum::<f64>() / floors.len() as f64;
        cells.cloned().reduce(|mut all, one| {
            all.generator.extend(one.generator);
            let floor = all.floor.map(|floor| FloorCaveat { requests, ..floor });
            Self { lost: all.lost.or(one.lost), floor, ..all }
        })
    }

    /// What was found of a figure, as far as it may be concluded.
    pub fn allow(&self, figure: Figure, found: Compared) -> Compared {
        let found = match self.floor {
            Some(FloorCaveat { rise, requests }) => {
                rise.unless(figure, found, is_of_turns(figure).then_some(requests))
            }
            None => found,
        };
        let found = if takes_time(figure) { unless_generator(&self.generator, found) } else { found };
        unless(self.lost.as_deref(), found)
    }
}

/// Whether a figure is of turns, of which holds are a part that does not depend on how long a request takes. How far waits in an
/// open load grow with that is not known without a model.
fn is_of_turns(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(Measure::Turn, _)) || figure == THROUGHPUT.figure()
}

/// A handoff takes so many times its floor at most because of requests. What is more is an interval between two looks.
const FLOORS_MOST: f64 = 4.0;

/// The share of a turn that requests take, in the trials that count; 1 where that is not known.
fn requests_in_a_turn(trials: &[&Trial], floor_us: f64) -> f64 {
    let middle = |trial: &Trial, measure| Some(trial.latency(measure)?.p50_us as f64);
    let share = |trial: &&Trial| {
        let handoff = middle(trial, Measure::Handoff)?.min(FLOORS_MOST * floor_us);
        Some((handoff / middle(trial, Measure::Turn)?).min(1.0))
    };
    median(&sound(trials).iter().filter_map(share).collect::<Vec<_>>()).unwrap_or(1.0)
}
