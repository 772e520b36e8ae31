//! Colours, line styles, markers and the font of charts.
//!
//! Each strategy has a look: a unique combination of colour, dash pattern and marker. The colours are those
//! of Okabe and Ito, which remain distinguishable with any kind of colour blindness; grey replaces yellow,
//! which is illegible on white. Each colour has only one meaning, so pages can replace it.

use std::sync::OnceLock;

use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Units per pixel, because plotters uses integer coordinates.
pub const DENSITY: u32 = 2;
pub const LARGE: f64 = 21.0;
pub const MEDIUM: f64 = 14.0;
/// Smallest text size: still legible when a README shrinks the chart to 900 pixels.
pub const SMALL: f64 = 13.0;

pub const INK: RGBColor = RGBColor(51, 51, 51);
pub const FAINT: RGBColor = RGBColor(95, 95, 95);
pub const RULE: RGBColor = RGBColor(140, 140, 140);
pub const GRID: RGBColor = RGBColor(226, 226, 226);
/// Colour of violations and limits.
pub const ALARM: RGBColor = RGBColor(190, 0, 0);
pub const GOOD: RGBColor = RGBColor(0, 110, 80);
/// Background during a fault; transparent.
pub const BAND: RGBColor = RGBColor(230, 160, 0);
pub const STUCK: RGBColor = RGBColor(230, 159, 0);

/// Colours that pages define as variables.
pub const THEMED: [(RGBColor, &str); 6] =
    [(INK, "ink"), (FAINT, "faint"), (RULE, "rule"), (GRID, "grid"), (ALARM, "bad"), (GOOD, "good")];

const COLOURS: [u32; 8] = [0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7, 0xE69F00, 0x56B4E9, 0x000000, 0x828282];

/// Colours for bar segments. No strategy uses any of these colours, and neighbours differ in lightness.
const PARTS: [u32; 12] = [
    0x3E4862, 0xA0AAC2, 0x784230, 0xEEBEA0, 0x3A623C, 0xBEDAAA, 0x5C4680, 0xCEBEE6, 0x285A62, 0xC4DEE2,
    0x78641E, 0xE8DCA0,
];

/// Lengths of dashes and gaps in pixels. The first pattern is a solid line.
const DASHES: [(u32, u32); 5] = [(SOLID, 0), (10, 4), (3, 3), (18, 5), (6, 3)];
pub const SOLID: u32 = 1_000_000;
pub const GUIDE_DASH: (u32, u32) = (6, 4);

/// Widths of strategies' lines and of guides; no other line has either width.
pub const LINE_WIDTH: u32 = 5;
pub const GUIDE_WIDTH: u32 = 3;

/// Corners of the markers, relative to their points: a hexagon, a square, triangles, a diamond, an hourglass and
/// a bow tie.
const MARKERS: [&[(i32, i32)]; 7] = [
    &[(12, 0), (6, 11), (-6, 11), (-12, 0), (-6, -11), (6, -11)],
    &[(-10, -10), (10, -10), (10, 10), (-10, 10)],
    &[(0, -14), (13, 9), (-13, 9)],
    &[(0, -14), (14, 0), (0, 14), (-14, 0)],
    &[(0, 14), (13, -9), (-13, -9)],
    &[(-11, -12), (11, -12), (3, 0), (11, 12), (-11, 12), (-3, 0)],
    &[(-12, -11), (0, -3), (12, -11), (12, 11), (0, 3), (-12, 11)],
];

pub const fn units(pixels: u32) -> u32 {
    pixels * DENSITY
}

pub fn colour(look: usize) -> RGBColor {
    // Each look has a unique colour, but the differences beyond the eighth look are invisible.
    let round = u32::try_from(look / COLOURS.len()).unwrap_or(0);
    rgb(COLOURS[look % COLOURS.len()] ^ (round & 15))
}

fn rgb(hex: u32) -> RGBColor {
    let [_, red, green, blue] = hex.to_be_bytes();
    RGBColor(red, green, blue)
}

/// Returns the index of the look in the palette of pages.
pub const fn page_colour(look: usize) -> usize {
    look % COLOURS.len()
}

pub fn part(number: usize) -> RGBColor {
    rgb(PARTS[number % PARTS.len()])
}

pub const fn dash(look: usize) -> (u32, u32) {
    DASHES[look % DASHES.len()]
}

/// Returns the dash and gap lengths for plotters; a solid line if gaps are not drawn.
pub const fn gaps(dash: (u32, u32), has_gaps: bool) -> (u32, u32) {
    if has_gaps { (units(dash.0), units(dash.1)) } else { (SOLID, 0) }
}

/// Returns the colour in SVG notation.
pub fn hex(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Returns a readable text colour for this background, distinct from the themed colours.
pub fn ink_on(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let is_dark = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue) < 1300;
    if is_dark { RGBColor(254, 254, 254) } else { RGBColor(20, 20, 20) }
}

/// Returns the colour of a duration, given its position between the shortest and the longest: darker is
/// longer.
pub fn heat(share: f64) -> RGBColor {
    let (from, to, share) = (RGBColor(226, 238, 248), RGBColor(10, 60, 120), share.clamp(0.0, 1.0));
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * share) as u8;
    RGBColor(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Returns the corners of a look's marker, moved to the right by `right`.
pub fn corners(look: usize, right: i32) -> Vec<(i32, i32)> {
    MARKERS[look % MARKERS.len()].iter().map(|(x, y)| (x + right, *y)).collect()
}

/// DejaVu Sans with only Latin letters and the signs in use, so that text looks the same on every host.
static FONT: &[u8] = include_bytes!("../../assets/DejaVuSans-subset.ttf");

/// Font in SVG files: the embedded one, then fonts with nearly the same widths, then any.
const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

fn font(size: f64) -> FontDesc<'static> {
    /// Divisor that plotters applies to font sizes in SVG files.
    const FACTOR: f64 = 1.24;
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FONT).is_ok());
    FontDesc::new(FontFamily::Name(FAMILY), size * FACTOR * f64::from(DENSITY), FontStyle::Normal)
}

pub fn text(size: f64, colour: RGBColor) -> TextStyle<'static> {
    font(size).color(&colour)
}

pub fn anchored(size: f64, colour: RGBColor, across: HPos) -> TextStyle<'static> {
    text(size, colour).pos(Pos::new(across, VPos::Center))
}

/// Returns the width of a text in units.
pub fn text_width(text: &str, size: f64) -> u32 {
    font(size).box_size(text).map_or(0, |(wide, _)| wide)
}

/// Truncates the text with `…` if it is wider than `width` units.
pub fn shorten(text: &str, size: f64, width: u32) -> String {
    let mut kept = text.to_owned();
    while text_width(&kept, size) > width && kept.pop().is_some() {
        kept.truncate(kept.trim_end_matches('…').len());
        kept.pop();
        kept.push('…');
    }
    kept
}

/// Wraps text at about `width` units, based on the width of common letters.
pub fn wrap(text: &str, size: f64, width: u32) -> Vec<String> {
    let common = f64::from(text_width("the bar of a lock: 95 %", size)) / 23.0;
    let letters = (f64::from(width) / common / 1.05) as usize;
    textwrap::wrap(text, letters.max(1)).into_iter().map(std::borrow::Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn heat_colours_darken_with_duration() {
        let lightness = |RGBColor(red, green, blue): RGBColor| {
            u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue)
        };
        let shades = [0.0, 0.1, 0.4, 0.7, 1.0].map(|share| lightness(heat(share)));
        assert!(shades.is_sorted_by(|one, other| one > other), "{shades:?}");
    }

    #[test]
    fn sixty_strategies_have_distinct_colours_and_line_styles() {
        let colours: BTreeSet<String> = (0..60).map(|look| hex(colour(look))).collect();
        let looks: BTreeSet<_> =
            (0..60).map(|look| (page_colour(look), dash(look), corners(look, 0))).collect();
        assert_eq!((colours.len(), looks.len()), (60, 60));
    }
}
