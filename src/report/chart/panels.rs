//! Several small plots of one kind on one sheet, two in a row, below keys that hold for all of them.

use super::axis::Axis;
use super::look::{INK, RULE, dashed};
use super::picture::{Anchor, MEDIUM, Picture, shorten, text_width};
use super::plot::{Key, Plot, Series, draw_keys_across, draw_series};
use super::sheet::{ABOVE_PLOT, BELOW_PLOT, MARGIN, Sheet, WIDTH, draw_axes};

/// How many one sheet shows at most.
pub(super) const AT_MOST: usize = 12;
const KEYS: f64 = 42.0;
const HEADING: f64 = 36.0;
const INNER: f64 = 190.0;
const BETWEEN: f64 = 26.0;

pub(super) struct Panel {
    pub heading: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Values of the upright axis at which a dashed line goes across.
    pub rules: Vec<f64>,
}

pub(super) struct Panels {
    pub title: String,
    pub place: String,
    pub keys: Vec<Key>,
    /// The plots, of which only the first [`AT_MOST`] are drawn.
    pub panels: Vec<Panel>,
    pub caption: Vec<String>,
}

impl Panels {
    pub fn draw(mut self) -> Picture {
        if let Some(more) = self.panels.len().checked_sub(AT_MOST).filter(|more| *more > 0) {
            self.caption.push(format!("{more} more are not shown."));
            self.panels.truncate(AT_MOST);
        }
        let across = if self.panels.len() > 1 { 2 } else { 1 };
        let height = HEADING + ABOVE_PLOT + INNER + BELOW_PLOT + BETWEEN;
        let rows = self.panels.len().div_ceil(across) as f64;
        let mut sheet = Sheet::holding(&self.place, &self.title, &self.caption, KEYS + rows * height);
        let (mut top, picture) = (sheet.top, &mut sheet.picture);
        draw_keys_across(picture, (MARGIN, top + KEYS / 2.0), &self.keys);
        top += KEYS;
        let width = (WIDTH - 2.0 * MARGIN - (across - 1) as f64 * BETWEEN) / across as f64;
        for row in self.panels.chunks(across) {
            let mut left = MARGIN;
            for panel in row {
                panel.draw(picture, (left, top), width);
                left += width + BETWEEN;
            }
            top += height;
        }
        sheet.picture
    }
}

impl Panel {
    fn draw(&self, picture: &mut Picture, (left, top): (f64, f64), width: f64) {
        let heading = shorten(&self.heading, MEDIUM + 1.0, width);
        picture.text((left, top + 8.0), heading, MEDIUM + 1.0, INK, Anchor::Start);
        let labels = self.y.ticks.iter().map(|(_, label)| text_width(label, MEDIUM));
        let plot = Plot {
            left: left + labels.fold(0.0, f64::max) + 10.0,
            top: top + HEADING + ABOVE_PLOT,
            right: left + width - 10.0,
            bottom: top + HEADING + ABOVE_PLOT + INNER,
            x: self.x.clone(),
            y: self.y.clone(),
        };
        draw_axes(picture, &plot, left);
        for rule in &self.rules {
            let row = plot.bottom - plot.y.share(*rule) * (plot.bottom - plot.top);
            dashed(picture, &[(plot.left, row), (plot.right, row)], &[4.0, 4.0], RULE, 1.0);
        }
        draw_series(picture, &plot, &self.series);
    }
}
