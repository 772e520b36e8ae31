//! A strip of a larger bitmap: what is painted outside of it is left out.

use std::convert::Infallible;
use std::ops::Range;

use plotters_backend::{BackendColor, BackendCoord, DrawingBackend, DrawingErrorKind};

/// Some rows of a picture, three bytes a dot.
pub(super) struct Band<'a> {
    dots: &'a mut [u8],
    size: (u32, u32),
    rows: Range<u32>,
}

impl<'a> Band<'a> {
    /// Those rows of a picture of that size, with room for each dot's three bytes.
    pub fn new(dots: &'a mut [u8], size: (u32, u32), rows: Range<u32>) -> Self {
        Self { dots, size, rows }
    }
}

impl DrawingBackend for Band<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    /// Everything else that can be drawn comes down to this.
    fn draw_pixel(
        &mut self,
        (x, y): BackendCoord,
        colour: BackendColor,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return Ok(()) };
        if x < self.size.0 && self.rows.contains(&y) {
            let at = ((y - self.rows.start) * self.size.0 + x) as usize * 3;
            let (red, green, blue) = colour.rgb;
            for (dot, new) in self.dots[at..at + 3].iter_mut().zip([red, green, blue]) {
                *dot = mixed(*dot, new, colour.alpha);
            }
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between two bytes
fn mixed(old: u8, new: u8, alpha: f64) -> u8 {
    (f64::from(old) + (f64::from(new) - f64::from(old)) * alpha.clamp(0.0, 1.0)).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dots_within_the_rows_are_kept_and_half_a_colour_is_mixed() {
        let mut dots = [255; 2 * 2 * 3];
        let mut band = Band::new(&mut dots, (2, 10), 4..6);
        let black = |alpha| BackendColor { alpha, rgb: (0, 0, 0) };
        for (at, alpha) in [((0, 3), 1.0), ((0, 6), 1.0), ((-1, 4), 1.0), ((2, 4), 1.0), ((1, 5), 0.5)] {
            band.draw_pixel(at, black(alpha)).unwrap();
        }
        assert_eq!(dots[..9], [255; 9]);
        assert_eq!(dots[9..], [128; 3]);
    }
}
