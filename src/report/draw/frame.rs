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

#[derive(Debug, Clone, Copy)]
pub enum Medium<'a> {
    /// In a file, with a line that says where it was measured.
    File { place: &'a str },
    /// On a page, which says the rest around it, beside other charts.
    Page,
    /// On a page, as wide as that.
    WholePage,
}

impl Medium<'_> {
    pub(super) const fn width(self) -> f64 {
        match self {
            Self::File { .. } | Self::WholePage => 1000.0,
            Self::Page => 640.0,
        }
    }

    pub(super) const fn margin(self) -> f64 {
        match self {
            Self::File { .. } => MARGIN,
            Self::Page | Self::WholePage => 4.0,
        }
    }

    pub(super) const fn right(self) -> f64 {
        self.width() - self.margin()
    }

    pub(super) const fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::WholePage)
    }
}

pub(super) struct ChartFrame {
    pub picture: Picture,
    pub top: f64,
    pub bottom: f64,
}

impl ChartFrame {
    /// Of the common height, or taller if that much is needed between heading and caption.
    pub fn common(chart: &Chart, medium: Medium<'_>, needed: f64) -> Self {
        Self::new(chart, medium, |overhead| match medium {
            Medium::File { .. } => needed.max(HEIGHT - overhead),
            Medium::Page | Medium::WholePage => needed.max(360.0),
        })
    }

    /// With that much height between heading and caption.
    pub fn holding(chart: &Chart, medium: Medium<'_>, inner: f64) -> Self {
        Self::new(chart, medium, |_| inner)
    }

    /// `inner` says how high it is between heading and caption, by what these take.
    fn new(chart: &Chart, medium: Medium<'_>, inner: impl FnOnce(f64) -> f64) -> Self {
        let Medium::File { place } = medium else {
            let (top, inner) = (8.0, inner(8.0));
            let height = (top + inner).ceil();
            return Self { picture: Picture::new(medium.width(), height), top, bottom: height };
        };
        let width = medium.right() - MARGIN;
        let place: Vec<String> = wrap(place, SMALL, width).into_iter().take(3).collect();
        let caption = caption_lines(&chart.caption, width);
        let top = MARGIN + 34.0 + place.len() as f64 * LINE + 8.0;
        let below = caption.len() as f64 * LINE + 6.0 + MARGIN;
        let height = (top + inner(top + below) + below).ceil();
        let mut picture = Picture::new(medium.width(), height);
        let title = shorten(&chart.title, LARGE, width);
        picture.text((MARGIN, MARGIN + 8.0), title, LARGE, Paint::Ink, Anchor::Start);
        let mut small = |row: f64, line: String| {
            picture.text((MARGIN, row), line, SMALL, Paint::FaintInk, Anchor::Start);
        };
        for (line, at) in place.into_iter().zip(0_u32..) {
            small(MARGIN + 34.0 + f64::from(at) * LINE, line);
        }
        for (line, at) in caption.into_iter().rev().zip(0_u32..) {
            small(height - MARGIN - 4.0 - f64::from(at) * LINE, line);
        }
        Self { picture, top, bottom: height - below }
    }
}

fn caption_lines(caption: &[String], width: f64) -> Vec<String> {
    let mut lines: Vec<String> = caption.iter().flat_map(|said| wrap(said, SMALL, width)).collect();
    if lines.len() > CAPTION_LINES {
        lines.truncate(CAPTION_LINES - 1);
        lines.push("… more below the run's table".to_owned());
    }
    lines
}
