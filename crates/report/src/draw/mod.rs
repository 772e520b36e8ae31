//! Drawing: one function makes the picture of any chart. For a file it comes within a frame, with its title, where it was
//! measured and its caption; for a page, which has all that around it, without.

mod heat;
mod lines;
mod rows;

use std::io::Write as _;
use std::path::Path;

use super::document::{Chart, ChartKind};
use zklockbench_core::disk;
use zklockbench_core::error::Error;
use zklockbench_picture::{self as picture, Anchor, Paint, Picture, SMALL, shorten, wrap};

pub use lines::{Plot, plot_on_page};

pub fn svg(picture: &Picture, path: &Path) -> Result<(), Error> {
    write(path, svg_text(picture)?.as_bytes())
}

pub fn svg_text(picture: &Picture) -> Result<String, Error> {
    picture::svg(picture).map_err(Error::environment)
}

pub fn png(picture: &Picture, path: &Path) -> Result<(), Error> {
    write(path, &picture::png(picture).map_err(Error::environment)?)
}

fn write(path: &Path, file: &[u8]) -> Result<(), Error> {
    disk::create_anew(path).and_then(|mut new| new.write_all(file)).map_err(Error::cannot("write", path))
}

pub fn draw(chart: &Chart, medium: Medium<'_>) -> Picture {
    match &chart.kind {
        ChartKind::Lines(all) => lines::draw(chart, all, medium),
        ChartKind::Panels(all) => lines::draw_panels(chart, all, medium),
        ChartKind::Bars(all) => rows::draw_bars(chart, all, medium),
        ChartKind::Ratios(all) => rows::draw_ratios(chart, all, medium),
        ChartKind::Heat(heat) => heat::draw(chart, heat, medium),
    }
}

/// Height of a chart that has no reason to be taller.
const HEIGHT: f64 = 600.0;
const LARGE: f64 = 21.0;
const MARGIN: f64 = 18.0;
const LINE: f64 = 18.0;
/// What the title of the upright axis takes.
const ABOVE_PLOT: f64 = 24.0;
/// What labels and title of the other axis take.
const BELOW_PLOT: f64 = 46.0;
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
    const fn width(self) -> f64 {
        match self {
            Self::File { .. } | Self::WholePage => 1000.0,
            Self::Page => 640.0,
        }
    }

    const fn margin(self) -> f64 {
        match self {
            Self::File { .. } => MARGIN,
            Self::Page | Self::WholePage => 4.0,
        }
    }

    const fn right(self) -> f64 {
        self.width() - self.margin()
    }

    const fn is_page(self) -> bool {
        matches!(self, Self::Page | Self::WholePage)
    }
}

struct ChartFrame {
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
