//! Throughput over time. Shaded areas mark faults; dashed lines mark elections that no fault caused.

use super::{caption_of, in_common, mark_of, one_by_one};
use crate::View;
use crate::document::{Axis, Band, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, PlotPoint, Weight};
use crate::view::Cell;
use zklockbench_core::units::{self, distinct, joined, number};
use zklockbench_record::{FaultRecord, Trial};

pub fn over_time(view: &View<'_>) -> Result<Chart, String> {
    let (contenders, cells) = in_common(view, |cell| cell.over_time().is_some())
        .ok_or("no measured phase was long enough to plot over time")?;
    let all: Vec<Curve> = cells.iter().map(|cell| series(view, cell)).collect();
    let is_repeated = cells.iter().any(|cell| cell.trials.len() > 1);
    let step = is_repeated.then(|| "Each step: the median over the repetitions.".to_owned());
    let x = Axis::from_zero("seconds since the start of the measured phase", Curve::furthest(&all, 1.0));
    let (shade, elections) = (Shade::of(&cells, x.high), elections(view, &cells, x.high));
    let how_to_read = [step, shade.said(), elections_said(&elections)].into_iter().flatten().collect();
    let election = |at: f64| Guide::new(GuideCourse::Upright(at), "election", Weight::Strong);
    let elections = elections.iter().map(|(at, _)| election(*at));
    let y = Axis::amounts("acquisitions per second", all.iter().flat_map(Curve::heights));
    let said = one_by_one(all.iter().map(|curve| {
        let (low, high) = curve.extremes();
        format!("{}: from {} to {}", curve.label, number(low), number(high))
    }));
    Ok(Chart {
        id: format!("throughput-over-time-n{contenders}"),
        title: format!("Throughput over time, {}", units::contenders(contenders)),
        said: format!("Acquisitions a second. {said}"),
        caption: caption_of(view, how_to_read, &cells),
        kind: ChartKind::Lines(Lines {
            bands: shade.bands(),
            guides: shade.numbers().chain(elections).collect(),
            ..Lines::either_way(x, y, all)
        }),
    })
}

/// Returns a line with a point in the middle of each step, and markers on about a dozen points.
fn series(view: &View<'_>, cell: &Cell<'_>) -> Curve {
    let line: Vec<PlotPoint> = cell.over_time().map_or_else(Vec::new, |course| {
        let long = course.bin_us as f64 / 1e6;
        let middles = (0_u32..).map(|step| (f64::from(step) + 0.5) * long);
        middles.zip(course.per_second).collect()
    });
    let every = (line.len() / 12).max(1);
    let marked = line.iter().skip(cell.strategy % every).step_by(every).copied();
    let markers = Curve::marked(marked, mark_of(cell));
    Curve { markers, line, ..Curve::new(cell.strategy, view.label(cell)) }
}

/// Duration of a fault, in seconds since the start of the measured phase.
#[derive(Debug, Clone, PartialEq)]
struct Span {
    from: f64,
    to: f64,
    label: String,
}

/// Faults of all locks in a chart, taken from each lock's first valid repetition.
struct Shade {
    locks: Vec<Vec<Span>>,
    labels: Vec<String>,
}

impl Shade {
    /// Returns the faults of these cells up to `end`, the end of the chart in seconds.
    fn of(cells: &[&Cell<'_>], end: f64) -> Self {
        // If no trial is valid, the first trial's faults are shaded.
        let of_lock = |cell: &&Cell<'_>| cell.counting().next().map_or_else(Vec::new, |one| spans(one, end));
        let locks: Vec<Vec<Span>> = cells.iter().map(of_lock).collect();
        let labels = distinct(locks.iter().flatten().map(|span| span.label.clone()));
        Self { locks, labels }
    }

    fn said(&self) -> Option<String> {
        let names = match self.labels.as_slice() {
            [] => return None,
            [one] => one.clone(),
            many => joined(many.iter().zip(1..).map(|(label, at)| format!("({at}) {label}")), ", "),
        };
        let several = self.locks.len() > 1;
        let deeper = if several { "; darker: more strategies under the fault" } else { "" };
        let shaded = "Shaded: from the request for a fault to its end, in the first valid repetition";
        Some(format!("{shaded}{deeper}: {names}."))
    }

    /// Returns one band for each period during which the same locks were under a fault.
    fn bands(&self) -> Vec<Band> {
        let mut edges: Vec<f64> = self.locks.iter().flatten().flat_map(|span| [span.from, span.to]).collect();
        edges.sort_by(f64::total_cmp);
        edges.dedup();
        let last = edges.last().copied();
        let spans = edges.iter().zip(edges.iter().skip(1).chain(&last));
        let bands = spans.map(|(from, to)| Band { from: *from, to: *to, share: self.share(*from) });
        bands.filter(|band| band.share > 0.0).collect()
    }

    fn share(&self, at: f64) -> f64 {
        let broken = |spans: &&Vec<Span>| {
            spans.iter().any(|span| span.from <= at && (at < span.to || span.from == span.to))
        };
        self.locks.iter().filter(broken).count() as f64 / self.locks.len().max(1) as f64
    }

    /// Returns a label with the number of each fault, if there are several.
    fn numbers(&self) -> impl Iterator<Item = Guide> {
        let number = move |span: &Span| {
            let at = self.labels.iter().position(|label| *label == span.label)?;
            Some(Guide::new(GuideCourse::Above(span.from), format!("({})", at + 1), Weight::Faint))
        };
        self.locks.iter().flatten().filter(|_| self.labels.len() > 1).filter_map(number)
    }
}

/// Returns the periods of all faults within the chart. A fault that could not be healed lasts to the end.
fn spans(trial: &Trial, end: f64) -> Vec<Span> {
    let seconds = |us: i64| (us as f64 / 1e6).clamp(0.0, end);
    let span = |fault: &FaultRecord| {
        let to = fault.ended_us.map(seconds).or_else(|| fault.left.as_ref().map(|_| end))?;
        let from = seconds(fault.asked_us);
        (from < end).then(|| Span { from, to: to.max(from), label: fault.label.clone() })
    };
    trial.faults.iter().filter_map(span).collect()
}

const ELECTIONS_TOLD: usize = 4;

/// Returns the elections that no fault explains, each with its trial and the time at which it was seen, in
/// seconds from the start of the measured phase. All repetitions are included, because these elections occur
/// at random times.
fn elections(view: &View<'_>, cells: &[&Cell<'_>], end: f64) -> Vec<(f64, String)> {
    let trials = cells.iter().flat_map(|cell| cell.all().map(move |one| (view.label(cell), one)));
    let elections = trials.flat_map(|(label, trial)| {
        let of = format!("{label}, repetition {}", trial.spec.repetition);
        trial.unexplained_elections().map(move |one| (one.seen_us as f64 / 1e6, of.clone()))
    });
    let mut seen: Vec<(f64, String)> = elections.filter(|(at, _)| (0.0..=end).contains(at)).collect();
    seen.sort_by(|one, other| one.0.total_cmp(&other.0));
    seen
}

fn elections_said(seen: &[(f64, String)]) -> Option<String> {
    let told = seen.iter().take(ELECTIONS_TOLD).map(|(at, trial)| format!("{trial}, at {at:.1} s"));
    let more = seen.len().saturating_sub(ELECTIONS_TOLD);
    let told = joined(told.chain((more > 0).then(|| format!("and {more} more"))), "; ");
    let what = "Dashed: a leader election that nothing in the scenario caused";
    (!seen.is_empty()).then(|| format!("{what}: {told}."))
}
