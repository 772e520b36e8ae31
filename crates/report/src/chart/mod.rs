//! Contents of charts: the list of charts of a run, a comparison or a sweep, and their data. Files and pages share
//! these charts; `draw` draws them.

mod compared;
mod faults;
mod learned;
mod over_contenders;
mod over_time;
mod shares;
mod sweep;
mod times;

use std::path::{Path, PathBuf};

use super::document::{Chart, Mark};
use super::draw;
use super::view::Cell;
use super::{View, ab_headline};
use zklockbench_analysis::ab::AbFile;
use zklockbench_analysis::compare::{Comparison, Side};
use zklockbench_analysis::sweep::SweepFile;
use zklockbench_core::error::Error;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{counted, grouped};
use zklockbench_record::{FigureChart, FigureEntry, Trial, figures};

pub use compared::{ab_blocks, ab_ratios, percentiles_compared, ratios_compared};
pub use learned::of_learned;
pub use sweep::of_sweep;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    pub files: Vec<PathBuf>,
    /// Charts that were not drawn, each with the reason.
    pub left_out: Vec<(String, String)>,
}

type NamedChart = (&'static str, Result<Chart, String>);

/// A chart of a run. It appears on the page, and some charts also go to files.
pub struct RunChart {
    pub name: &'static str,
    /// Title to use if there is no chart.
    pub title: &'static str,
    pub section: &'static str,
    has_files: bool,
    missed: Missed,
    of: ChartSource,
}

enum ChartSource {
    Function(fn(&View<'_>) -> Result<Chart, String>),
    Percentiles(Measure),
    Figure(&'static FigureEntry, FigureChart),
}

/// When a missing chart is reported.
enum Missed {
    Always,
    /// Only in runs with faults.
    UnderFaults,
    /// A load without this metric needs no chart of it.
    Never,
}

impl RunChart {
    const fn on_the_page_alone(self) -> Self {
        Self { has_files: false, ..self }
    }

    const fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    pub fn of(&self, view: &View<'_>) -> Option<Result<Chart, String>> {
        let is_missed = match self.missed {
            Missed::Always => true,
            Missed::UnderFaults => view.has_faults(),
            Missed::Never => false,
        };
        let chart = match self.of {
            ChartSource::Function(of) => of(view),
            ChartSource::Percentiles(measure) => times::by_percentile(view, measure),
            ChartSource::Figure(entry, chart) => over_contenders::over_contenders(view, entry, chart),
        };
        Some(chart).filter(|chart| chart.is_ok() || is_missed)
    }
}

const fn run_chart(
    name: &'static str,
    title: &'static str,
    section: &'static str,
    of: fn(&View<'_>) -> Result<Chart, String>,
) -> RunChart {
    RunChart { name, title, section, has_files: true, missed: Missed::Always, of: ChartSource::Function(of) }
}

const fn by_percentile(name: &'static str, title: &'static str, measure: Measure) -> RunChart {
    let of = ChartSource::Percentiles(measure);
    RunChart { name, title, section: "waits", has_files: true, missed: Missed::Always, of }
}

fn of_figures() -> impl Iterator<Item = RunChart> {
    figures::ALL.iter().filter_map(|entry| {
        let chart = entry.chart?;
        let missed = if chart.missing.is_some() { Missed::Always } else { Missed::Never };
        let FigureChart { id: name, title, section, .. } = chart;
        Some(RunChart {
            name,
            title,
            section,
            has_files: true,
            missed,
            of: ChartSource::Figure(entry, chart),
        })
    })
}

pub fn of_a_run() -> impl Iterator<Item = RunChart> {
    TIMES.into_iter().chain(of_figures()).chain(OTHERS)
}

const TIMES: [RunChart; 6] = [
    by_percentile("wait-by-percentile", "Waits by percentile", Measure::Wait),
    by_percentile("handoff-by-percentile", "Handoffs by percentile", Measure::Handoff),
    by_percentile("read-wait-by-percentile", "Waits of readers by percentile", Measure::ReadWait)
        .on_the_page_alone()
        .missed(Missed::Never),
    by_percentile("write-wait-by-percentile", "Waits of writers by percentile", Measure::WriteWait)
        .on_the_page_alone()
        .missed(Missed::Never),
    by_percentile("notification-by-percentile", "Notifications by percentile", Measure::Notification)
        .on_the_page_alone()
        .missed(Missed::Never),
    run_chart("herd", "The herd", "waits", times::herd).missed(Missed::Never),
];

const OTHERS: [RunChart; 4] = [
    run_chart("requests-by-kind", "Requests by kind", "requests", shares::kinds),
    run_chart("throughput-over-time", "Throughput over time", "time", over_time::over_time)
        .missed(Missed::Never),
    run_chart("shares", "Shares of the acquisitions", "fairness", shares::shares).on_the_page_alone(),
    run_chart("faults", "Recovery from faults", "faults", faults::faults).missed(Missed::UnderFaults),
];

fn of_run(view: &View<'_>) -> Vec<NamedChart> {
    let with_files = of_a_run().filter(|chart| chart.has_files);
    with_files.filter_map(|chart| Some((chart.name, chart.of(view)?))).collect()
}

/// Draws all charts of a run into a directory, which is created if needed. Overwrites existing files.
pub fn draw_all(view: &View<'_>, dir: &Path) -> Result<Drawn, Error> {
    draw_each(of_run(view), &view.place_line(), dir)
}

/// Every chart of a run as SVG, by file name, or the reason why it was not drawn.
pub fn svgs(view: &View<'_>) -> Vec<(String, Result<String, String>)> {
    let place = view.place_line();
    let text = |chart: &Chart| draw::svg(chart, &place).map_err(|error| error.to_string());
    let named = |(name, chart): NamedChart| match chart {
        Ok(chart) => (chart.id.clone(), text(&chart)),
        Err(why) => (name.to_owned(), Err(why)),
    };
    of_run(view).into_iter().map(named).collect()
}

fn draw_each(charts: Vec<NamedChart>, place: &str, dir: &Path) -> Result<Drawn, Error> {
    let mut drawn = Drawn::default();
    for (name, chart) in charts {
        match chart {
            Ok(chart) => {
                // Created only when there is a chart to write.
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

/// Draws each ratio of a comparison with its interval, as SVG or PNG depending on the file extension.
///
/// # Errors
/// [`Error::Usage`] for any other extension, or if there is no ratio; [`Error::Environment`] if the file cannot be written.
pub fn draw_comparison(compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, &compared.conclusion.sentence, || ratios_compared(compared))
}

/// Draws the waits of both sides of a comparison by percentile, one panel per cell. File types and errors are those of
/// [`draw_comparison`].
pub fn draw_percentiles(base: &Side, new: &Side, compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, &compared.conclusion.sentence, || percentiles_compared(base, new, compared))
}

/// Draws the results of an A/B comparison into a directory: each ratio with its interval, and the ratios by block. Charts without
/// a ratio are listed with the reason instead.
pub fn draw_ab(file: &AbFile, dir: &Path) -> Result<Drawn, Error> {
    draw_each(vec![("ratios", ab_ratios(file)), ("blocks", ab_blocks(file))], &ab_headline(file), dir)
}

pub fn draw_sweep(file: &SweepFile, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let charts = of_sweep(file).into_iter().map(|chart| ("sweep", Ok(chart)));
    Ok(draw_each(charts.collect(), &sweep::place(file), dir)?.files)
}

fn draw_into(path: &Path, place: &str, chart: impl FnOnce() -> Result<Chart, String>) -> Result<(), Error> {
    let chart = chart().map_err(|why| Error::usage(format!("there is no chart: {why}")))?;
    draw::write(&chart, place, path)
}

/// Text alternative of a chart: one statement per item.
fn one_by_one(said: impl Iterator<Item = String>) -> String {
    format!("{}.", said.collect::<Vec<_>>().join("; "))
}

fn mark_of(cell: &Cell<'_>) -> Mark {
    Mark { doubtful: !cell.is_sound(), violated: cell.is_violated() }
}

fn mark_of_one(trial: &Trial) -> Mark {
    Mark { doubtful: !trial.is_sound(), violated: trial.is_violated() }
}

/// Caption: a paragraph with the given sentences and the meaning of the marks, then the marked trials.
fn caption_of(view: &View<'_>, mut said: Vec<String>, shown: impl Fn(&Cell<'_>) -> bool) -> Vec<String> {
    let cells: Vec<&Cell<'_>> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let violated = by_strategy(&cells, |cell| cell.is_violated());
    if !violated.is_empty() {
        said.push("Red cross: the lock broke a promise.".to_owned());
    }
    let mut caption = caption_of_doubts(view, said, shown);
    caption.extend(violated.iter().map(|(strategy, cells)| {
        let why = cells.iter().find_map(|cell| cell.why_violated()).unwrap_or_default();
        format!("Violated: {}: {why}", named(view, *strategy, cells))
    }));
    caption
}

/// Like [`caption_of`], for a chart with its own marks for violations.
fn caption_of_doubts(
    view: &View<'_>,
    mut said: Vec<String>,
    shown: impl Fn(&Cell<'_>) -> bool,
) -> Vec<String> {
    let cells: Vec<&Cell<'_>> = view.cells.iter().filter(|cell| shown(cell)).collect();
    let doubtful = by_strategy(&cells, |cell| cell.all().any(|one| !one.is_sound()));
    if !doubtful.is_empty() {
        said.push(
            "Hollow: invalid or partial trials; medians leave them out if there is a valid one.".to_owned(),
        );
    }
    said.extend(view.remarks.iter().map(|remark| format!("{remark}.")));
    let mut caption = vec![said.join(" ")];
    caption.extend(doubtful.iter().map(|(strategy, cells)| doubt(view, *strategy, cells)));
    caption
}

fn by_strategy<'a>(
    cells: &[&'a Cell<'a>],
    holds: impl Fn(&Cell<'_>) -> bool,
) -> Vec<(usize, Vec<&'a Cell<'a>>)> {
    grouped(cells.iter().filter(|cell| holds(cell)).map(|cell| (cell.strategy, *cell)))
}

fn doubt(view: &View<'_>, strategy: usize, cells: &[&Cell<'_>]) -> String {
    let all = || cells.iter().flat_map(|cell| cell.all());
    let why = all().find_map(Trial::unsound);
    let unsound = all().filter(|one| !one.is_sound()).count();
    let of = format!("{unsound} of {}", counted(all().count(), "trial", "trials"));
    format!("Hollow: {}: {of}, the first {}", named(view, strategy, cells), why.unwrap_or_default())
}

fn named(view: &View<'_>, strategy: usize, cells: &[&Cell<'_>]) -> String {
    let label = view.strategies.get(strategy).map_or("?", String::as_str);
    let counts: Vec<String> = cells.iter().map(|cell| cell.contenders.to_string()).collect();
    let noun = if counts == ["1"] { "contender" } else { "contenders" };
    format!("{label} at {} {noun}", counts.join(", "))
}
