//! What the colours of the heat map mean: the scale of times and the tiles with words.

use super::axis::Axis;
use super::font;
use super::heat::{STUCK, colour};
use super::look::{ALARM, INK, PAPER, RULE};
use super::picture::{Anchor, Colour, Picture};
use super::plot::SMALL;

const MARGIN: f64 = 18.0;
const BAR: f64 = 300.0;
const STEPS: u32 = 60;
const TILE: f64 = 18.0;
/// The height that it takes.
pub(super) const HEIGHT: f64 = 50.0;

/// Draws it from that row on.
pub(super) fn draw(picture: &mut Picture, top: f64, scale: Option<&Axis>) {
    let mut across = MARGIN;
    if let Some(scale) = scale {
        bar(picture, top, scale);
        across += BAR + 40.0;
    }
    let words = ["violated, or entered too early", "stuck, or never acquired again", "not ranked"];
    for (word, colour) in words.into_iter().zip([Some(ALARM), Some(STUCK), None]) {
        swatch(picture, (across, top), colour);
        across += TILE + 6.0;
        picture.text((across, top + TILE / 2.0), word, (SMALL, INK, Anchor::Start));
        across += font::width(word, SMALL) + 24.0;
    }
}

/// A square of a colour; with a border and nothing in it where there is none.
fn swatch(picture: &mut Picture, (left, top): (f64, f64), colour: Option<Colour>) {
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
        let wide = font::width(label, SMALL);
        let start = (column - wide / 2.0).max(MARGIN);
        if start >= free {
            picture.line(vec![(column, top + TILE), (column, top + TILE + 4.0)], RULE, 1.0);
            picture.text((start, top + TILE + 13.0), label.as_str(), (SMALL, INK, Anchor::Start));
            free = start + wide + 12.0;
        }
    }
}
