//! The sheet that every chart is drawn on: title, where it was measured, plot with axes, keys, caption.

use super::axis::Axis;
use super::look::{FAINT_INK, GRID, INK, RULE};
use super::picture::{Anchor, MEDIUM, Picture, SMALL, shorten, text_width, wrap};
use super::plot::{Key, Plot, draw_keys, keys_height, keys_width};

pub(super) const WIDTH: f64 = 1000.0;
/// Height of a chart that has no reason to be taller.
pub(super) const HEIGHT: f64 = 600.0;
const LARGE: f64 = 21.0;
pub(super) const MARGIN: f64 = 18.0;
const LINE: f64 = 18.0;
/// What the title of the upright axis takes.
pub(super) const ABOVE_PLOT: f64 = 24.0;
/// What labels and title of the other axis take.
pub(super) const BELOW_PLOT: f64 = 46.0;
const CAPTION_LINES: usize = 6;

/// A sheet with its heading and caption in place.
pub(super) struct Sheet {
    pub picture: Picture,
    pub top: f64,
    pub bottom: f64,
}

impl Sheet {
    /// A sheet of the common height, or taller if these keys need it.
    pub fn for_keys(place: &str, title: &str, caption: &[String], keys: &[Key]) -> Self {
        let needed = Self::overhead(place, caption) + ABOVE_PLOT + keys_height(keys) + BELOW_PLOT;
        Self::new(place, title, caption, needed.max(HEIGHT).ceil())
    }

    /// A sheet with that much height between heading and caption.
    pub fn holding(place: &str, title: &str, caption: &[String], inner: f64) -> Self {
        Self::new(place, title, caption, (Self::overhead(place, caption) + inner).ceil())
    }

    /// What heading and caption take of a sheet's height.
    fn overhead(place: &str, caption: &[String]) -> f64 {
        let probe = Self::new(place, "", caption, HEIGHT);
        HEIGHT - (probe.bottom - probe.top)
    }

    /// A sheet of that height; the place is the line below the title: where it was measured.
    pub fn new(place: &str, title: &str, caption: &[String], height: f64) -> Self {
        let mut sheet = Self { picture: Picture::new(WIDTH, height), top: MARGIN, bottom: height - MARGIN };
        sheet.heading(place, title);
        sheet.caption(caption);
        sheet
    }

    fn heading(&mut self, place: &str, title: &str) {
        let width = WIDTH - 2.0 * MARGIN;
        let title = shorten(title, LARGE, width);
        self.picture.text((MARGIN, self.top + 8.0), title, LARGE, INK, Anchor::Start);
        self.top += 34.0;
        for line in wrap(place, SMALL, width).into_iter().take(3) {
            self.picture.text((MARGIN, self.top), line, SMALL, FAINT_INK, Anchor::Start);
            self.top += LINE;
        }
        self.top += 8.0;
    }

    fn caption(&mut self, caption: &[String]) {
        let width = WIDTH - 2.0 * MARGIN;
        let mut lines: Vec<String> = caption.iter().flat_map(|said| wrap(said, SMALL, width)).collect();
        if lines.len() > CAPTION_LINES {
            lines.truncate(CAPTION_LINES - 1);
            lines.push("… more below the run's table".to_owned());
        }
        for line in lines.into_iter().rev() {
            self.picture.text((MARGIN, self.bottom - 4.0), line, SMALL, FAINT_INK, Anchor::Start);
            self.bottom -= LINE;
        }
        self.bottom -= 6.0;
    }

    /// Draws axes, grid and keys, and gives the rectangle within them.
    pub fn plot(&mut self, x: Axis, y: Axis, keys: &[Key]) -> Plot {
        self.plot_on(x, y, keys, |_, _| ())
    }

    /// The same, with something drawn below the grid.
    pub fn plot_on(
        &mut self,
        x: Axis,
        y: Axis,
        keys: &[Key],
        ground: impl FnOnce(&mut Picture, &Plot),
    ) -> Plot {
        let labels = y.ticks.iter().map(|(_, label)| text_width(label, MEDIUM));
        let plot = Plot {
            left: MARGIN + labels.fold(0.0, f64::max) + 10.0,
            top: self.top + ABOVE_PLOT,
            right: WIDTH - MARGIN - keys_width(keys),
            bottom: self.bottom - BELOW_PLOT,
            x,
            y,
        };
        ground(&mut self.picture, &plot);
        draw_axes(&mut self.picture, &plot, MARGIN);
        draw_keys(&mut self.picture, &plot, keys);
        plot
    }
}

/// Draws axes and grid; the title of the upright one begins at `left`.
pub(super) fn draw_axes(picture: &mut Picture, plot: &Plot, left: f64) {
    rows(picture, plot, left);
    columns(picture, plot);
}

fn rows(picture: &mut Picture, plot: &Plot, left: f64) {
    picture.text((left, plot.top - 22.0), plot.y.title.as_str(), MEDIUM, INK, Anchor::Start);
    for (value, label) in &plot.y.ticks {
        let row = plot.bottom - plot.y.share(*value) * (plot.bottom - plot.top);
        let width = if label.is_empty() { 0.5 } else { 1.0 };
        picture.line(vec![(plot.left, row), (plot.right, row)], GRID, width);
        picture.text((plot.left - 8.0, row), label.as_str(), MEDIUM, INK, Anchor::End);
    }
}

fn columns(picture: &mut Picture, plot: &Plot) {
    for (value, _) in &plot.x.ticks {
        let column = plot.at(*value, 0.0).0;
        picture.line(vec![(column, plot.top), (column, plot.bottom + 5.0)], GRID, 1.0);
    }
    picture.line(vec![(plot.left, plot.bottom), (plot.right, plot.bottom)], RULE, 1.5);
    for (column, label) in readable(plot) {
        picture.text((column, plot.bottom + 16.0), label, MEDIUM, INK, Anchor::Middle);
    }
    let middle = f64::midpoint(plot.left, plot.right);
    picture.text((middle, plot.bottom + 38.0), plot.x.title.as_str(), MEDIUM, INK, Anchor::Middle);
}

/// The labels below the plot, without those that would touch one another; the last one always stays.
fn readable(plot: &Plot) -> Vec<(f64, &str)> {
    let mut kept: Vec<(f64, &str)> = Vec::new();
    for (value, label) in plot.x.ticks.iter().rev().filter(|tick| !tick.1.is_empty()) {
        let column = plot.at(*value, 0.0).0;
        let reach = text_width(label, MEDIUM) / 2.0 + 5.0;
        let free =
            kept.last().is_none_or(|(next, text)| column + reach < next - text_width(text, MEDIUM) / 2.0);
        if free {
            kept.push((column, label));
        }
    }
    kept
}
