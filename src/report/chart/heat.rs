//! The tiles of the heat map: what is written on each, and in which colour; and the key to the colours.
//!
//! Times run from pale to dark blue, so that they can be ranked by lightness alone. What went wrong has a colour that
//! is none of the scale's, and a word.

use super::axis::Axis;
use super::look::{ALARM, INK, PAPER, RULE, between};
use super::picture::{Anchor, Colour, Picture, Point, SMALL, text_width};
use super::sheet::MARGIN;
use crate::report::view::{Fate, SHORTEST_US, UnderFault};

/// The lock stood still, or somebody was not served.
const STUCK: Colour = (230, 159, 0);
/// Times from short to long.
const RAMP: [Colour; 4] = [(226, 238, 248), (140, 190, 222), (28, 100, 168), (6, 38, 88)];

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
    let times: Vec<f64> = under
        .iter()
        .filter_map(UnderFault::recovery_us)
        .filter(|us| us.is_finite())
        .map(|us| us.max(SHORTEST_US))
        .collect();
    (!times.is_empty()).then(|| Axis::durations("recovery", times))
}

fn colour(scale: &Axis, us: f64) -> Colour {
    let along = scale.share(us.max(SHORTEST_US)).clamp(0.0, 1.0) * 3.0;
    let (from, to, part) = match along {
        at if at < 1.0 => (RAMP[0], RAMP[1], at),
        at if at < 2.0 => (RAMP[1], RAMP[2], at - 1.0),
        at => (RAMP[2], RAMP[3], at - 2.0),
    };
    between(from, to, part)
}

impl Tile {
    /// The tile of what became of a lock under a fault.
    pub fn of(under: &UnderFault, scale: Option<&Axis>) -> Self {
        let (said, fate) = under.told();
        let colour = match fate {
            Fate::Unknown => None,
            Fate::Recovered(us) => scale.map(|scale| colour(scale, us)),
            Fate::Stuck => Some(STUCK),
            Fate::Violated => Some(ALARM),
        };
        Self { said, colour, hollow: !under.cell.is_sound() }
    }

    pub fn fill(&self) -> (Colour, Colour) {
        match (self.colour, self.hollow) {
            (Some(colour), true) => (PAPER, colour),
            (Some(colour), false) => (colour, colour),
            (None, _) => (PAPER, RULE),
        }
    }
}

const BAR: f64 = 300.0;
const STEPS: u32 = 60;
const TILE: f64 = 18.0;
pub(super) const KEY_HEIGHT: f64 = 50.0;

/// Draws what the colours mean, the scale of times and the tiles with words, from that row on.
pub(super) fn draw_key(picture: &mut Picture, top: f64, scale: Option<&Axis>) {
    let mut across = MARGIN;
    if let Some(scale) = scale {
        bar(picture, top, scale);
        across += BAR + 40.0;
    }
    let words = ["violated, or entered too early", "stuck, or never acquired again", "not ranked"];
    for (word, colour) in words.into_iter().zip([Some(ALARM), Some(STUCK), None]) {
        swatch(picture, (across, top), colour);
        across += TILE + 6.0;
        picture.text((across, top + TILE / 2.0), word, SMALL, INK, Anchor::Start);
        across += text_width(word, SMALL) + 24.0;
    }
}

/// A square of a colour; with a border and nothing in it where there is none.
fn swatch(picture: &mut Picture, (left, top): Point, colour: Option<Colour>) {
    picture.rectangle((left, top), (left + TILE, top + TILE), colour.unwrap_or(RULE));
    if colour.is_none() {
        picture.rectangle((left + 1.5, top + 1.5), (left + TILE - 1.5, top + TILE - 1.5), PAPER);
    }
}

fn bar(picture: &mut Picture, top: f64, scale: &Axis) {
    let (Some(low), Some(high)) = (scale.ticks.first(), scale.ticks.last()) else { return };
    for step in 0..STEPS {
        let at = |step: u32| MARGIN + BAR * f64::from(step) / f64::from(STEPS);
        let value = low.0 * (high.0 / low.0).powf((f64::from(step) + 0.5) / f64::from(STEPS));
        picture.rectangle((at(step), top), (at(step + 1), top + TILE), colour(scale, value));
    }
    let mut free = 0.0;
    for (value, label) in scale.ticks.iter().filter(|tick| !tick.1.is_empty()) {
        let column = MARGIN + BAR * scale.share(*value);
        let wide = text_width(label, SMALL);
        let start = (column - wide / 2.0).max(MARGIN);
        if start >= free {
            picture.line(vec![(column, top + TILE), (column, top + TILE + 4.0)], RULE, 1.0);
            picture.text((start, top + TILE + 13.0), label.as_str(), SMALL, INK, Anchor::Start);
            free = start + wide + 12.0;
        }
    }
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
