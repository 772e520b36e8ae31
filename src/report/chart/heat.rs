//! The tiles of the heat map: what is written on each, and in which colour.
//!
//! Times run from pale to dark blue, so that they can be ranked by lightness alone. What went wrong has a colour that
//! is none of the scale's, and a word.

use super::axis::Axis;
use super::look::{ALARM, PAPER, RULE};
use super::picture::Colour;
use crate::report::view::{FaultFigures, TrialFigures, UnderFault, recovery_word};

/// The lock stood still, or somebody was not served.
pub(super) const STUCK: Colour = (230, 159, 0);
/// Times from short to long.
const RAMP: [Colour; 4] = [(226, 238, 248), (140, 190, 222), (28, 100, 168), (6, 38, 88)];
/// Shorter times are not told apart: trials note no shorter gap.
const SHORTEST_US: f64 = 5_000.0;

/// One tile.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tile {
    /// What is written on it, part by part.
    pub said: Vec<String>,
    /// Its colour; none where there is nothing to rank.
    pub colour: Option<Colour>,
    /// Whether its figures are those of invalid or partial trials.
    pub hollow: bool,
}

/// The scale of all these tiles; none when no lock was ever acquired again.
pub(super) fn scale(under: &[UnderFault]) -> Option<Axis> {
    let times: Vec<f64> =
        under.iter().filter_map(median).filter(|us| us.is_finite()).map(|us| us.max(SHORTEST_US)).collect();
    (!times.is_empty()).then(|| Axis::durations("recovery", times))
}

fn median(under: &UnderFault) -> Option<f64> {
    Some(under.faults?.recovery?.median_us)
}

/// The colour of a time.
pub(super) fn colour(scale: &Axis, us: f64) -> Colour {
    let along = scale.share(us.max(SHORTEST_US)).clamp(0.0, 1.0) * 3.0;
    let (from, to, part) = match along {
        at if at < 1.0 => (RAMP[0], RAMP[1], at),
        at if at < 2.0 => (RAMP[1], RAMP[2], at - 1.0),
        at => (RAMP[2], RAMP[3], at - 2.0),
    };
    super::look::between(from, to, part)
}

impl Tile {
    /// The tile of what became of a lock under a fault.
    pub fn of(under: &UnderFault, scale: Option<&Axis>) -> Self {
        let wrong = under.trials.map(wrong).unwrap_or_default();
        let time = under.faults.as_ref().map(|faults| recovery(faults, scale));
        let judged = under.trials.filter(|_| under.faults.is_none() && wrong.is_empty()).map(verdict);
        let worst = wrong.first().map(|(_, colour)| Some(*colour));
        let plain = time.as_ref().and_then(|(_, colour)| *colour);
        let said = time.map(|(text, _)| text).into_iter().chain(judged);
        Self {
            said: said.chain(wrong.into_iter().map(|(text, _)| text)).collect(),
            colour: worst.unwrap_or(plain),
            hollow: !under.cell.is_sound(),
        }
    }

    /// What fills it, and what its border is.
    pub fn fill(&self) -> (Colour, Colour) {
        match (self.colour, self.hollow) {
            (Some(colour), true) => (PAPER, colour),
            (Some(colour), false) => (colour, colour),
            (None, _) => (PAPER, RULE),
        }
    }
}

fn recovery(faults: &FaultFigures, scale: Option<&Axis>) -> (String, Option<Colour>) {
    let Some(recovery) = faults.recovery else { return ("not proved".to_owned(), None) };
    let time = recovery.median_us;
    let colour = if time.is_finite() { scale.map(|scale| colour(scale, time)) } else { Some(STUCK) };
    (recovery_word(time), colour)
}

/// What went wrong, worst first.
fn wrong(trials: TrialFigures) -> Vec<(String, Colour)> {
    let violated = (trials.violations > 0).then(|| (format!("{} violated", trials.violations), ALARM));
    let too_early = trials.order.map_or(0, |order| order.too_early);
    let early = (too_early > 0).then(|| (format!("{too_early} too early"), ALARM));
    let stuck = (trials.stuck > 0).then(|| (format!("{} stuck", trials.stuck), STUCK));
    violated.into_iter().chain(early).chain(stuck).collect()
}

fn verdict(trials: TrialFigures) -> String {
    trials.verdict.unwrap_or("no verdict").to_owned()
}

#[cfg(test)]
mod tests {
    use super::{RAMP, colour, scale};
    use crate::report::chart::axis::Axis;

    fn lightness((red, green, blue): (u8, u8, u8)) -> u32 {
        u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue)
    }

    #[test]
    fn a_longer_time_is_darker_so_that_the_scale_can_be_read_without_colours() {
        let axis = Axis::durations("recovery", [5_000.0, 10_000_000.0]);
        let shades: Vec<u32> =
            [0.0, 20_000.0, 300_000.0, 4e6, 1e7].map(|us| lightness(colour(&axis, us))).into();
        assert!(shades.is_sorted_by(|one, other| one > other), "{shades:?}");
        assert_eq!(shades[0], lightness(RAMP[0]));
    }

    #[test]
    fn without_any_recovery_there_is_no_scale() {
        assert_eq!(scale(&[]), None);
    }
}
