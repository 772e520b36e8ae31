//! Data of a run's charts, shared by files and pages; `draw` draws them.

mod faults;
mod over_contenders;
mod over_time;
mod shares;
mod times;

use std::path::{Path, PathBuf};

use super::View;
use super::document::{Chart, Mark};
use super::draw;
use super::view::Cell;
use zklockbench_core::error::Error;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{counted, grouped, joined};
use zklockbench_record::{Trial, figures};

pub use super::ab::draw_ab;
pub use super::comparison::{draw_comparison, draw_percentiles};
pub use super::sweep::draw_sweep;
pub(super) use times::series;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    pub files: Vec<PathBuf>,
    /// Charts that were not drawn, each with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A chart of a run, for the page and, if it has a file name, for a file.
pub struct RunChart {
    pub file: Option<&'static str>,
    /// Title to use if there is no chart.
    pub title: &'static str,
    pub section: &'static str,
    /// The chart, or the reason why there is none.
    pub chart: Result<Chart, String>,
}

/// Returns the charts of a run, including expected charts that are missing.
pub fn of_run(view: &View<'_>) -> Vec<RunChart> {
    let of = |file, title, section, is_missed: bool, chart: Result<Chart, String>| {
        (chart.is_ok() || is_missed).then_some(RunChart { file, title, section, chart })
    };
    let of_measure = |name: Option<&'static str>, title, measure| {
        of(name, title, "waits", name.is_some(), times::by_percentile(view, measure))
    };
    let times = [
        of_measure(Some("wait-by-percentile"), "Waits by percentile", Measure::Wait),
        of_measure(Some("handoff-by-percentile"), "Handoffs by percentile", Measure::Handoff),
        of_measure(None, "Waits of readers by percentile", Measure::ReadWait),
        of_measure(None, "Waits of writers by percentile", Measure::WriteWait),
        of_measure(None, "Notifications by percentile", Measure::Notification),
        of(Some("herd"), "The herd", "waits", false, times::herd(view)),
    ];
    let figures = figures::ALL.iter().map(|entry| {
        let chart = entry.chart?;
        let drawn = over_contenders::over_contenders(view, entry, chart);
        of(Some(chart.id), chart.title, chart.section, chart.missing.is_some(), drawn)
    });
    let others = [
        of(Some("requests-by-kind"), "Requests by kind", "requests", true, shares::kinds(view)),
        of(Some("throughput-over-time"), "Throughput over time", "time", false, over_time::over_time(view)),
        of(None, "Shares of the acquisitions", "fairness", true, shares::shares(view)),
        of(Some("faults"), "Recovery from faults", "faults", view.has_faults(), faults::faults(view)),
    ];
    times.into_iter().chain(figures).chain(others).flatten().collect()
}

/// Draws all charts of a run into a directory, which is created if needed. Overwrites existing files.
pub fn draw_all(view: &View<'_>, dir: &Path) -> Result<Drawn, Error> {
    let charts = of_run(view).into_iter().filter_map(|one| Some((one.file?, one.chart)));
    draw_each(charts, &view.place_line(), dir)
}

pub(super) fn draw_each<C>(charts: C, place: &str, dir: &Path) -> Result<Drawn, Error>
where
    C: IntoIterator<Item = (&'static str, Result<Chart, String>)>,
{
    let mut drawn = Drawn::default();
    for (name, chart) in charts {
        match chart {
            Ok(chart) => {
                // The directory is created only if there is a chart to write.
                std::fs::create_dir_all(dir).map_err(Error::cannot("create", dir))?;
                for kind in ["svg", "png"] {
                    let path = dir.join(format!("{}.{kind}", chart.id));
                    draw::write(&chart, place, &path)?;
                    drawn.files.push(path);
                }
            }
            Err(why) => drawn.left_out.push((name.to_owned(), why)),
        }
    }
    Ok(drawn)
}

/// Returns the text alternative of a chart, with one statement per item.
pub(super) fn one_by_one(said: impl Iterator<Item = String>) -> String {
    joined(said, "; ") + "."
}

fn mark_of(cell: &Cell<'_>) -> Mark {
    Mark { doubtful: !cell.is_sound(), violated: cell.is_violated() }
}

/// Returns the contender count at which the most cells satisfy `has`, and those cells.
fn in_common<'v>(view: &'v View<'_>, has: impl Fn(&Cell<'_>) -> bool) -> Option<(usize, Vec<&'v Cell<'v>>)> {
    let count = view.best_common_count(&has)?;
    Some((count, view.cells_at(count).filter(|cell| has(cell)).collect()))
}

/// Returns a caption: a paragraph with the given sentences and the meaning of the marks, then the marked
/// trials.
fn caption_of(view: &View<'_>, mut said: Vec<String>, cells: &[&Cell<'_>]) -> Vec<String> {
    let violated = by_strategy(cells, |cell| cell.is_violated());
    said.extend((!violated.is_empty()).then(|| "Red cross: the lock broke a promise.".to_owned()));
    let mut caption = caption_of_doubts(view, said, cells);
    caption.extend(violated.iter().map(|(strategy, cells)| {
        let why = cells.iter().find_map(|cell| cell.why_violated()).unwrap_or_default();
        format!("Violated: {}: {why}", named(view, *strategy, cells))
    }));
    caption
}

/// Like [`caption_of`], but for a chart with its own marks for violations.
fn caption_of_doubts(view: &View<'_>, mut said: Vec<String>, cells: &[&Cell<'_>]) -> Vec<String> {
    let doubtful = by_strategy(cells, |cell| cell.all().any(|one| !one.is_sound()));
    let hollow = "Hollow: invalid or partial trials; medians exclude them if there is a valid one.";
    said.extend((!doubtful.is_empty()).then(|| hollow.to_owned()));
    said.extend(view.remarks.iter().map(|remark| format!("{remark}.")));
    let doubt = |(strategy, cells): (usize, Vec<&Cell<'_>>)| {
        let all = || cells.iter().flat_map(|cell| cell.all());
        let why = all().find_map(Trial::unsound).unwrap_or_default();
        let unsound = all().filter(|one| !one.is_sound()).count();
        let of = format!("{unsound} of {}", counted(all().count(), "trial", "trials"));
        format!("Hollow: {}: {of}, the first {why}", named(view, strategy, &cells))
    };
    [said.join(" ")].into_iter().chain(doubtful.into_iter().map(doubt)).collect()
}

fn by_strategy<'a>(
    cells: &[&'a Cell<'a>],
    holds: impl Fn(&Cell<'_>) -> bool,
) -> Vec<(usize, Vec<&'a Cell<'a>>)> {
    grouped(cells.iter().filter(|cell| holds(cell)).map(|cell| (cell.strategy, *cell)))
}

fn named(view: &View<'_>, strategy: usize, cells: &[&Cell<'_>]) -> String {
    let label = view.strategies.get(strategy).map_or("?", String::as_str);
    let counts = joined(cells.iter().map(|cell| cell.contenders.to_string()), ", ");
    let noun = if counts == "1" { "contender" } else { "contenders" };
    format!("{label} at {counts} {noun}")
}
