//! A picture as an SVG and as a PNG file.

use std::convert::Infallible;
use std::ops::Range;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{PathElement, Polygon, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, RGBColor, TextStyle, WHITE};
use plotters_backend::{BackendColor, BackendCoord, DrawingBackend, DrawingErrorKind};
use png::{ColorType, Encoder};

use super::{Anchor, Colour, Dot, Mark, Paint, Picture, Point, Shape, circle, font, marker};

/// Dots for each pixel, in both formats: fine lines in the SVG, whose coordinates are whole numbers, and
/// sharp text in the PNG on a dense screen.
const DENSITY: u32 = 2;
/// Rows of fine dots that are painted at a time; even, because two make one that is kept.
const BAND: u32 = 400;

/// How a backend differs from the SVG one in placing text.
#[derive(Clone, Copy)]
struct TextFit {
    dots: f64,
    size: f64,
    /// How far down to move text, as a share of its size.
    down: f64,
}

/// The text of an SVG file.
pub fn svg(picture: &Picture) -> Result<String, String> {
    let mut text = String::new();
    let (width, height) = size(picture, DENSITY);
    let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
    area.fill(&WHITE)
        .and_then(|()| paint(picture, &area, TextFit { dots: f64::from(DENSITY), size: 1.0, down: 0.0 }))
        .map_err(|error| format!("cannot draw an SVG: {error}"))?;
    drop(area);
    // Shown at its size in pixels; the view box keeps the finer coordinates.
    let fine = format!(r#"width="{width}" height="{height}""#);
    let shown = format!(r#"width="{}" height="{}""#, picture.width, picture.height);
    Ok(text.replacen(&fine, &shown, 1))
}

/// The bytes of a PNG file.
pub fn png(picture: &Picture) -> Result<Vec<u8>, String> {
    // Painted twice as fine as it is kept: the library draws thick lines and areas with hard edges. And in
    // bands, because the whole would take more memory than a run with a hundred contenders.
    let (width, height) = size(picture, 2 * DENSITY);
    let mut kept = Vec::with_capacity(width as usize / 2 * height as usize / 2 * 3);
    for above in (0..height).step_by(BAND as usize) {
        let rows = BAND.min(height - above);
        let mut fine = vec![u8::MAX; width as usize * rows as usize * 3];
        {
            let band = RowBand { dots: &mut fine, size: (width, height), rows: above..above + rows };
            let area = band.into_drawing_area();
            paint(picture, &area, TextFit { dots: f64::from(2 * DENSITY), size: 0.94, down: 0.12 })
                .map_err(|error| format!("cannot draw a PNG: {error}"))?;
        }
        halve(&fine, width as usize, &mut kept);
    }
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, width / 2, height / 2);
    encoder.set_color(ColorType::Rgb);
    let written =
        encoder.write_header().and_then(|mut file| file.write_image_data(&kept).and_then(|()| file.finish()));
    written.map_err(|error| format!("cannot draw a PNG: {error}"))?;
    Ok(bytes)
}

fn size(picture: &Picture, dots: u32) -> (u32, u32) {
    let dots = f64::from(dots);
    ((picture.width * dots).round() as u32, (picture.height * dots).round() as u32)
}

/// Half as many dots each way: the mean of each four. Most of a chart is white, and is passed over in blocks.
fn halve(fine: &[u8], width: usize, kept: &mut Vec<u8>) {
    const BLOCK: usize = 96;
    let white = [u8::MAX; BLOCK];
    for rows in fine.chunks_exact(2 * width * 3) {
        let (upper, lower) = rows.split_at(width * 3);
        for (above, below) in upper.chunks(BLOCK).zip(lower.chunks(BLOCK)) {
            if above == &white[..above.len()] && below == &white[..below.len()] {
                kept.extend_from_slice(&white[..above.len() / 2]);
            } else {
                means(above, below, kept);
            }
        }
    }
}

fn means(above: &[u8], below: &[u8], kept: &mut Vec<u8>) {
    for (above, below) in above.chunks_exact(6).zip(below.chunks_exact(6)) {
        for channel in 0..3 {
            let four = [above[channel], above[channel + 3], below[channel], below[channel + 3]];
            let sum: u16 = four.into_iter().map(u16::from).sum();
            kept.push(u8::try_from(sum / 4).unwrap_or(u8::MAX));
        }
    }
}

type Refusal<DB> = plotters::drawing::DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>;

fn paint<DB: DrawingBackend>(
    picture: &Picture,
    area: &DrawingArea<DB, Shift>,
    fit: TextFit,
) -> Result<(), Refusal<DB>> {
    Painter { area, fit }.all(&picture.shapes)?;
    area.present()
}

struct Painter<'a, DB: DrawingBackend> {
    area: &'a DrawingArea<DB, Shift>,
    fit: TextFit,
}

impl<DB: DrawingBackend> Painter<'_, DB> {
    fn all(&self, shapes: &[Shape]) -> Result<(), Refusal<DB>> {
        shapes.iter().try_for_each(|shape| self.one(shape))
    }

    fn one(&self, shape: &Shape) -> Result<(), Refusal<DB>> {
        match shape {
            Shape::Line { points, paint, width, dash } => {
                strokes(points, dash).iter().try_for_each(|stroke| self.line(stroke, *paint, *width))
            }
            Shape::Area { points, paint } => self.polygon(points, *paint),
            Shape::Text { at, text, size, paint, anchor } => {
                let fit = self.fit;
                let style = text_style(*size * fit.size * fit.dots, paint.colour(), *anchor);
                let at = (dots(at.0, fit), dots(at.1 + size * fit.down, fit));
                self.area.draw(&Text::new(text.as_str(), at, style))
            }
            Shape::Marker { at, look, mark } => self.marker(*at, *look, *mark),
            Shape::Dot(dot) => self.dot(dot),
            Shape::Cross { at } => self.cross(*at),
            Shape::Group { shapes, .. } => self.all(shapes),
        }
    }

    fn line(&self, points: &[Point], paint: Paint, width: f64) -> Result<(), Refusal<DB>> {
        let style = rgb(paint.colour()).stroke_width(dots(width, self.fit).unsigned_abs().max(1));
        self.area.draw(&PathElement::new(all_dots(points, self.fit), style))
    }

    fn polygon(&self, points: &[Point], paint: Paint) -> Result<(), Refusal<DB>> {
        self.area.draw(&Polygon::new(all_dots(points, self.fit), rgb(paint.colour()).filled()))
    }

    fn marker(&self, at: Point, look: usize, mark: Mark) -> Result<(), Refusal<DB>> {
        self.polygon(&marker(look, at, 7.5), Paint::Paper)?;
        self.polygon(&marker(look, at, 6.0), Paint::Look(look))?;
        if mark.doubtful {
            self.polygon(&marker(look, at, 3.5), Paint::Paper)?;
        }
        if mark.violated { self.cross(at) } else { Ok(()) }
    }

    fn dot(&self, dot: &Dot) -> Result<(), Refusal<DB>> {
        if dot.rimmed {
            self.polygon(&circle(dot.at, dot.radius + 1.2), Paint::Paper)?;
        }
        self.polygon(&circle(dot.at, dot.radius), dot.paint)?;
        if dot.hollow { self.polygon(&circle(dot.at, dot.radius * 0.6), Paint::Paper) } else { Ok(()) }
    }

    fn cross(&self, (x, y): Point) -> Result<(), Refusal<DB>> {
        const ARM: f64 = 8.0;
        self.line(&[(x - ARM, y - ARM), (x + ARM, y + ARM)], Paint::Alarm, 1.8)?;
        self.line(&[(x - ARM, y + ARM), (x + ARM, y - ARM)], Paint::Alarm, 1.8)
    }
}

fn strokes(points: &[Point], pattern: &[f64]) -> Vec<Vec<Point>> {
    if pattern.iter().sum::<f64>() <= 0.0 {
        return vec![points.to_vec()];
    }
    let mut strokes = vec![points.iter().take(1).copied().collect::<Vec<Point>>()];
    let (mut part, mut left) = (0, pattern[0]);
    for pair in points.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        let mut length = (to.0 - from.0).hypot(to.1 - from.1);
        while length > left {
            let share = left / length;
            from = (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share);
            turn(&mut strokes, part, from);
            length -= left;
            part = (part + 1) % pattern.len();
            left = pattern[part].max(0.5);
        }
        left -= length;
        if let Some(stroke) = strokes.last_mut().filter(|_| part.is_multiple_of(2)) {
            stroke.push(to);
        }
    }
    strokes.retain(|stroke| stroke.len() > 1);
    strokes
}

/// Ends the stroke of an even part, begins one after the gap of an odd part.
fn turn(strokes: &mut Vec<Vec<Point>>, part: usize, at: Point) {
    match strokes.last_mut().filter(|_| part.is_multiple_of(2)) {
        Some(stroke) => stroke.push(at),
        None => strokes.push(vec![at]),
    }
}

fn text_style(size: f64, colour: Colour, anchor: Anchor) -> TextStyle<'static> {
    let horizontal = match anchor {
        Anchor::Start => HPos::Left,
        Anchor::Middle => HPos::Center,
        Anchor::End => HPos::Right,
    };
    font(size).color(&rgb(colour)).pos(Pos::new(horizontal, VPos::Center))
}

fn rgb((red, green, blue): Colour) -> RGBColor {
    RGBColor(red, green, blue)
}

fn all_dots(points: &[Point], fit: TextFit) -> Vec<(i32, i32)> {
    points.iter().map(|(x, y)| (dots(*x, fit), dots(*y, fit))).collect()
}

fn dots(pixels: f64, fit: TextFit) -> i32 {
    (pixels * fit.dots).round() as i32
}

/// Some rows of a picture, three bytes a dot: what is painted outside of them is left out.
struct RowBand<'a> {
    dots: &'a mut [u8],
    /// That of the whole picture.
    size: (u32, u32),
    rows: Range<u32>,
}

impl DrawingBackend for RowBand<'_> {
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

fn mixed(old: u8, new: u8, alpha: f64) -> u8 {
    (f64::from(old) + (f64::from(new) - f64::from(old)) * alpha.clamp(0.0, 1.0)).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dots_within_the_rows_are_kept_and_half_a_colour_is_mixed() {
        let mut dots = [255; 2 * 2 * 3];
        let mut band = RowBand { dots: &mut dots, size: (2, 10), rows: 4..6 };
        let black = |alpha| BackendColor { alpha, rgb: (0, 0, 0) };
        for (at, alpha) in [((0, 3), 1.0), ((0, 6), 1.0), ((-1, 4), 1.0), ((2, 4), 1.0), ((1, 5), 0.5)] {
            band.draw_pixel(at, black(alpha)).unwrap();
        }
        assert_eq!(dots[..9], [255; 9]);
        assert_eq!(dots[9..], [128; 3]);
    }
}
