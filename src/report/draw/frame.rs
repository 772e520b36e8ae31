//! The frame that a chart is drawn into: in a file with its title, where it was measured and its caption; on a page, which has
//! all that around it, without.

use super::look::Paint;
use super::picture::{Anchor, Picture, SMALL, shorten, wrap};
use crate::report::document::Chart;

/// Height of a chart that has no reason to be taller.
const HEIGHT: f64 = 600.0;
const LARGE: f64 = 21.0;
pub(super) const MARGIN: f64 = 18.0;
const LINE: f64 = 18.0;
/// What the title of the upright axis takes.
pub(super) const ABOVE_PLOT: f64 = 24.0;
/// What labels and title of the other axis take.
pub(super) const BELOW_PLOT: f64 = 46.0;
const CAPTION_LINES: usize = 6;

/// Where a chart is shown.
#[derive(Debug, Clone, Copy)]
pub enum Medium<'a> {
    /// In a file, with a line that says where it was measured.
    File { place: &'a str },
    /// On a page, which says the rest around it.
    Page,
}

impl Medium<'_> {
    const fn width(self) -> f64 {
        match self {
            Self::File { .. } => 1000.0,
            Self::Page => 640.0,
        }
    }
}

/// A frame with its heading and caption in place.
pub(super) struct ChartFrame {
    pub picture: Picture,
    pub top: f64,
    pub bottom: f64,
    pub margin: f64,
    pub is_page: bool,
}

impl ChartFrame {
    /// Of the common height, or taller if that much is needed between heading and caption.
    pub fn common(chart: &Chart, medium: Medium<'_>, needed: f64) -> Self {
        let common = match medium {
            Medium::File { .. } => HEIGHT - Self::overhead(chart, medium),
            Medium::Page => 360.0,
        };
        Self::holding(chart, medium, needed.max(common))
    }

    /// With that much height between heading and caption.
    pub fn holding(chart: &Chart, medium: Medium<'_>, inner: f64) -> Self {
        Self::new(chart, medium, (Self::overhead(chart, medium) + inner).ceil())
    }

    /// What heading and caption take of its height.
    fn overhead(chart: &Chart, medium: Medium<'_>) -> f64 {
        let probe = Self::new(chart, medium, HEIGHT);
        HEIGHT - (probe.bottom - probe.top)
    }

    fn new(chart: &Chart, medium: Medium<'_>, height: f64) -> Self {
        let picture = Picture::new(medium.width(), height);
        match medium {
            Medium::Page => Self { picture, top: 8.0, bottom: height, margin: 4.0, is_page: true },
            Medium::File { place } => {
                let bottom = height - MARGIN;
                let mut frame = Self { picture, top: MARGIN, bottom, margin: MARGIN, is_page: false };
                frame.heading(place, &chart.title);
                frame.caption(&chart.caption);
                frame
            }
        }
    }

    pub fn width(&self) -> f64 {
        self.picture.width
    }

    /// Where what is drawn ends at the right.
    pub fn right(&self) -> f64 {
        self.picture.width - self.margin
    }

    fn heading(&mut self, place: &str, title: &str) {
        let width = self.width() - 2.0 * MARGIN;
        let title = shorten(title, LARGE, width);
        self.picture.text((MARGIN, self.top + 8.0), title, LARGE, Paint::Ink, Anchor::Start);
        self.top += 34.0;
        for line in wrap(place, SMALL, width).into_iter().take(3) {
            self.picture.text((MARGIN, self.top), line, SMALL, Paint::FaintInk, Anchor::Start);
            self.top += LINE;
        }
        self.top += 8.0;
    }

    fn caption(&mut self, caption: &[String]) {
        let width = self.width() - 2.0 * MARGIN;
        let mut lines: Vec<String> = caption.iter().flat_map(|said| wrap(said, SMALL, width)).collect();
        if lines.len() > CAPTION_LINES {
            lines.truncate(CAPTION_LINES - 1);
            lines.push("… more below the run's table".to_owned());
        }
        for line in lines.into_iter().rev() {
            self.picture.text((MARGIN, self.bottom - 4.0), line, SMALL, Paint::FaintInk, Anchor::Start);
            self.bottom -= LINE;
        }
        self.bottom -= 6.0;
    }
}
