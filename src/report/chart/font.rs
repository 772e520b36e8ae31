//! The font of the charts: embedded, so that a PNG looks the same on a host without any font.

use std::sync::OnceLock;

use plotters::style::{FontDesc, FontFamily, FontStyle, register_font};

/// DejaVu Sans, cut down to Latin letters and the signs in use; its licence lies beside it.
static FILE: &[u8] = include_bytes!("../../../assets/DejaVuSans-subset.ttf");

/// The name in SVG files: the embedded font, then those of nearly the same widths, then whatever there is.
pub(super) const FAMILY: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// The library takes a size 1.24 times that of the letter square.
pub(super) const SIZE_FACTOR: f64 = 1.24;

/// A font of that size in pixels.
pub(super) fn of(size: f64) -> FontDesc<'static> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register_font(FAMILY, FontStyle::Normal, FILE).is_ok());
    FontDesc::new(FontFamily::Name(FAMILY), size * SIZE_FACTOR, FontStyle::Normal)
}

/// The width of a text in pixels, rather too wide than too narrow.
pub(super) fn width(text: &str, size: f64) -> f64 {
    const FINENESS: f64 = 8.0;
    let guess = || f64::from(u32::try_from(text.chars().count()).unwrap_or(u32::MAX)) * size * 0.65;
    of(size * FINENESS).box_size(text).map_or_else(|_| guess(), |(wide, _)| f64::from(wide) / FINENESS)
}
