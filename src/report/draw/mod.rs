//! Drawing: one function makes the picture of any chart, for a file or for a page.

mod bars;
mod frame;
mod heat;
mod lines;
pub mod look;
mod paint;
mod panels;
pub mod picture;
mod ratios;

pub use frame::Medium;
pub use lines::{Plot, plot_on_page};
pub use paint::{png, svg, svg_text};

use super::document::{Chart, ChartKind};
use picture::Picture;

pub fn draw(chart: &Chart, medium: Medium<'_>) -> Picture {
    match &chart.kind {
        ChartKind::Lines(all) => lines::draw(chart, all, medium),
        ChartKind::Panels(all) => panels::draw(chart, all, medium),
        ChartKind::Bars(all) => bars::draw(chart, all, medium),
        ChartKind::Ratios(all) => ratios::draw(chart, all, medium),
        ChartKind::Heat(heat) => heat::draw(chart, heat, medium),
    }
}
