//! Charts, each drawn as SVG and PNG from the same picture.

mod ab;
mod axis;
mod both;
mod by_contenders;
mod comparison;
mod faults;
mod heat;
mod herd;
mod look;
mod over_time;
mod paint;
mod panels;
mod percentile;
mod picture;
mod plot;
mod ratios;
mod requests;
mod sheet;
mod sweep;
mod trend;

use std::path::{Path, PathBuf};

use super::View;
use crate::answer::ab::AbFile;
use crate::answer::compare::{Comparison, Side};
use crate::words::error::Error;
use crate::words::measure::Measure;
use picture::Picture;
pub use sweep::draw_sweep;
pub use trend::draw_trend;

/// What was drawn, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    pub files: Vec<PathBuf>,
    /// The charts that were not drawn, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Draws every chart of a run into a directory, which is created if there is any; files there are overwritten.
///
/// # Errors
/// [`Error::Environment`] when a file cannot be written.
pub fn draw_all(view: &View, dir: &Path) -> Result<Drawn, Error> {
    draw_each(charts(view), dir)
}

fn draw_each(
    charts: impl IntoIterator<Item = (String, Result<Picture, String>)>,
    dir: &Path,
) -> Result<Drawn, Error> {
    let mut drawn = Drawn::default();
    for (name, chart) in charts {
        match chart {
            Ok(picture) => {
                // Not before there is something to put into it.
                std::fs::create_dir_all(dir).map_err(Error::cannot("create", dir))?;
                drawn.files.extend(write(&picture, dir, &name)?);
            }
            Err(why) => drawn.left_out.push((name, why)),
        }
    }
    Ok(drawn)
}

/// Every chart of a run as SVG text, by the name of its file, or why it is not drawn: for pages that hold
/// their charts themselves.
pub fn svgs(view: &View) -> Vec<(String, Result<String, String>)> {
    let text = |picture: Picture| paint::svg_text(&picture).map_err(|error| error.to_string());
    charts(view).into_iter().map(|(name, chart)| (name, chart.and_then(text))).collect()
}

/// Draws every ratio of a comparison with its interval, as SVG or PNG by the end of the file's name.
///
/// # Errors
/// [`Error::Usage`] for another end or when there is no ratio, [`Error::Environment`] when the file cannot be written.
pub fn draw_comparison(compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, || comparison::draw(compared))
}

/// Draws the waits of both sides of a comparison by percentile, a panel for each cell, in the same way.
///
/// # Errors
/// As [`draw_comparison`]; it is a usage error, too, when neither side measured a wait.
pub fn draw_percentiles(base: &Side, new: &Side, compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, || both::draw(base, new, compared))
}

/// Draws what an A/B comparison came to into a directory: every ratio with its interval, and the ratios block by block.
/// What has no ratio is not drawn, and named with the reason.
///
/// # Errors
/// [`Error::Environment`] when a file cannot be written.
pub fn draw_ab(file: &AbFile, dir: &Path) -> Result<Drawn, Error> {
    draw_each([("ratios".to_owned(), ab::ratios(file)), ("blocks".to_owned(), ab::blocks(file))], dir)
}

fn draw_into(path: &Path, draw: impl FnOnce() -> Result<Picture, String>) -> Result<(), Error> {
    let kind = path.extension().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
    let paint = match kind {
        "svg" => paint::svg,
        "png" => paint::png,
        _ => return Err(Error::usage(format!("{} must end with .svg or .png", path.display()))),
    };
    let picture = draw().map_err(|why| Error::usage(format!("there is no chart: {why}")))?;
    paint(&picture, path)
}

/// Every chart by the name of its file. A name ends with the contender count where the chart has one only.
fn charts(view: &View) -> Vec<(String, Result<Picture, String>)> {
    let at = |name: &str, count: Option<usize>| {
        count.map_or_else(|| name.to_owned(), |count| format!("{name}-n{count}"))
    };
    let percentile = |measure: Measure| {
        let name = format!("{}-by-percentile", measure.name());
        (at(&name, percentile::count(view, measure)), percentile::draw(view, measure))
    };
    let mut charts = vec![
        percentile(Measure::Wait),
        percentile(Measure::Handoff),
        ("throughput".to_owned(), by_contenders::throughput(view)),
        ("fan-out".to_owned(), by_contenders::fan_out(view)),
        ("requests".to_owned(), requests::draw(view)),
        (at("throughput-over-time", over_time::count(view)), over_time::draw(view)),
    ];
    // Where each release wakes one waiter there is no herd to show.
    if let Some(count) = view.herd_count() {
        charts.push((at("herd", Some(count)), Ok(herd::draw(view, count))));
    }
    // Nobody misses a chart of faults where there was to be none.
    if view.has_faults() {
        charts.push(("faults".to_owned(), faults::draw(view)));
    }
    charts
}

fn write(picture: &Picture, dir: &Path, name: &str) -> Result<[PathBuf; 2], Error> {
    let files = [dir.join(format!("{name}.svg")), dir.join(format!("{name}.png"))];
    paint::svg(picture, &files[0])?;
    paint::png(picture, &files[1])?;
    Ok(files)
}
