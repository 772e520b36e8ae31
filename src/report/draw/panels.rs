//! Several small plots of one kind in one frame, two in a row, below keys that hold for all of them.

use super::frame::{ABOVE_PLOT, BELOW_PLOT, ChartFrame, Medium};
use super::lines::{Key, draw_keys_across, draw_small};
use super::look::Paint;
use super::picture::{Anchor, MEDIUM, Picture, shorten};
use crate::report::document::{Chart, Panels};

const KEYS: f64 = 42.0;
/// Two keys beside each other have room for labels that wide.
const KEY: f64 = 380.0;
const HEADING: f64 = 36.0;
const INNER: f64 = 190.0;
const BETWEEN: f64 = 26.0;

pub(super) fn draw(chart: &Chart, Panels { keys, panels }: &Panels, medium: Medium<'_>) -> Picture {
    let across = if panels.len() > 1 { 2 } else { 1 };
    let height = HEADING + ABOVE_PLOT + INNER + BELOW_PLOT + BETWEEN;
    let rows = panels.len().div_ceil(across) as f64;
    // A page has the keys below.
    let above = if medium.is_page() { 0.0 } else { KEYS };
    let mut frame = ChartFrame::holding(chart, medium, above + rows * height);
    let (mut top, margin) = (frame.top, medium.margin());
    if !medium.is_page() {
        let key = |(look, label): (usize, &String)| Key {
            look,
            label: shorten(label, MEDIUM, KEY),
            end: (1.0, 1.0),
        };
        let keys: Vec<Key> = keys.iter().enumerate().map(key).collect();
        draw_keys_across(&mut frame.picture, (margin, top + KEYS / 2.0), &keys);
    }
    top += above;
    let width = (medium.right() - margin - (across - 1) as f64 * BETWEEN) / across as f64;
    for row in panels.chunks(across) {
        let mut left = margin;
        for (heading, lines) in row {
            let heading = shorten(heading, MEDIUM + 1.0, width);
            frame.picture.text((left, top + 8.0), heading, MEDIUM + 1.0, Paint::Ink, Anchor::Start);
            let above = top + HEADING + ABOVE_PLOT;
            draw_small(&mut frame.picture, lines, (left, above), (left + width - 10.0, above + INNER));
            left += width + BETWEEN;
        }
        top += height;
    }
    frame.picture
}
