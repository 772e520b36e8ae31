//! Charts of durations: measures by percentile, on a scale that shows the tail, and the herd curve (delays
//! from a release to its first, second, … notification).

use super::{caption_of, in_common, mark_of, one_by_one};
use crate::View;
use crate::document::{
    Axis, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, Mark, Marked, PERCENTILES, PlotPoint, Weight,
};
use crate::view::Cell;
use zklockbench_core::measure::{Measure, Survival, Woken, rank_label};
use zklockbench_core::units::{self, capitalised, format_micros, joined};
use zklockbench_record::{Timing, Trial};

pub fn by_percentile(view: &View<'_>, measure: Measure) -> Result<Chart, String> {
    let name = measure.name().replace('_', " ");
    let grows = |cell: &Cell<'_>| measure.is_of_the_queue() && cell.is_unstable();
    let has = |cell: &Cell<'_>| cell.has_samples(measure) && !grows(cell);
    let missing = || match view.cells.iter().any(|cell| cell.has_samples(measure)) {
        true => format!("the queue grew, so each {name} depends on the length of the trial"),
        false => format!("no trial measured a {name}"),
    };
    let (contenders, cells) = in_common(view, has).ok_or_else(missing)?;
    let curve = |cell: &&Cell<'_>| {
        let samples = cell.pooled(measure)?;
        Some((series(cell.strategy, view.label(cell), &samples, mark_of(cell)), samples))
    };
    let all: Vec<(Curve, Survival)> = cells.iter().filter_map(curve).collect();
    let told = one_by_one(all.iter().map(|(series, samples)| told(&series.label, samples)));
    let furthest = Curve::furthest(all.iter().map(|(series, _)| series), 10.0);
    // Only handoffs have a floor.
    let floor = view.floor.as_ref().and_then(|floor| floor.handoff);
    let floor = floor.filter(|floor| measure == Measure::Handoff && floor.p50_us > 0);
    let heights = all.iter().flat_map(|(series, _)| series.heights());
    let y = Axis::durations(&name, heights.chain(floor.map(|floor| floor.p50_us as f64)));
    let series = all.into_iter().map(|(series, _)| series).collect();
    let guide = floor.map(|Timing { p50_us, .. }| {
        let label = format!("floor: {}", format_micros(p50_us));
        Guide::new(GuideCourse::Level(p50_us as f64), label, Weight::Strong)
    });
    let unserved = measure.open_parts().is_some() && cells.iter().any(|cell| cell.sum(Trial::unserved) > 0);
    Ok(Chart {
        id: format!("{}-by-percentile-n{contenders}", measure.name().replace('_', "-")),
        title: format!("{} by percentile, {}", capitalised(&name), units::contenders(contenders)),
        said: told,
        caption: caption_of(view, vec![how_to_read(measure, floor, unserved)], &cells),
        kind: ChartKind::Lines(Lines {
            guides: guide.into_iter().collect(),
            ..Lines::either_way(Axis::percentiles(furthest), y, series)
        }),
    })
}

fn told(label: &str, samples: &Survival) -> String {
    let at = |share| {
        let found = samples.quantile(share);
        let bound = if found.at_least { "at least " } else { "" };
        format!("{bound}{}", format_micros(found.us))
    };
    format!("{label}: median {}, 99th percentile {}", at(0.5), at(0.99))
}

fn how_to_read(measure: Measure, floor: Option<Timing>, unserved: bool) -> String {
    let what = match measure {
        Measure::Handoff => {
            "Handoff: from one holder's release call to the next holder's return from acquire."
        }
        Measure::ReadWait => "From the intended start of a read acquire to its return.",
        Measure::WriteWait => "From the intended start of a write acquire to its return.",
        Measure::Notification => "From a release call to the arrival of each notification that it caused.",
        _ => "Wait: from the intended start of the acquire to its return.",
    };
    let pooled = "The samples of all repetitions are pooled; a line ends where fewer than ten samples remain beyond it.";
    let floor = floor.map(|floor| {
        let median = format_micros(floor.p50_us);
        format!("Dashed: the floor, {median}, a handoff without a lock (median of {}).", floor.count)
    });
    let open = "The length of an unserved wait is unknown: a line ends where only unserved waits remain.";
    let open = unserved.then(|| open.to_owned());
    joined([what, pooled].map(str::to_owned).into_iter().chain(floor).chain(open), " ")
}

/// Returns a line through these samples, with markers at its end and at the percentiles that have a tick.
pub(crate) fn series(look: usize, label: &str, samples: &Survival, mark: Mark) -> Curve {
    Curve { line: curve(samples), markers: markers(samples, mark), ..Curve::new(look, label) }
}

/// Returns a step for each duration, which spans the percentiles of the samples with that duration.
fn curve(samples: &Survival) -> Vec<PlotPoint> {
    let end = samples.rarest_shown();
    let rarity = |share: f64| if share < 1.0 { 1.0 / (1.0 - share) } else { f64::INFINITY };
    let mut points = Vec::new();
    let mut before = 1.0;
    for (us, share) in &samples.steps {
        let (value, after) = ((*us).min(samples.longest.us).max(1) as f64, rarity(*share));
        points.push((before, value));
        points.push((after.min(end), value));
        before = after;
        // Shares are sums of fractions, so rounding errors may leave them just short of the end.
        if after >= end * (1.0 - 1e-9) {
            break;
        }
    }
    points
}

fn markers(samples: &Survival, mark: Mark) -> Vec<Marked> {
    let end = samples.rarest_shown();
    let value = |rarity: f64| samples.quantile(1.0 - 1.0 / rarity).us.max(1) as f64;
    let inner = PERCENTILES.into_iter().map(|(rarity, _)| rarity).filter(|rarity| *rarity < end * 0.8);
    // If all samples are shown, the line ends at the longest one.
    let longest = samples.longest;
    let shows_all = end >= samples.count() as f64 && !longest.at_least;
    let last = (end, if shows_all { longest.us.max(1) as f64 } else { value(end) });
    Curve::marked(inner.map(|rarity| (rarity, value(rarity))).chain([last]), mark)
}

pub fn herd(view: &View<'_>) -> Result<Chart, String> {
    let wakes_two = |cell: &Cell<'_>| cell.herd().iter().any(|woken| woken.from_rank > 1);
    let has = |cell: &Cell<'_>| !cell.herd().is_empty() && view.cells_at(cell.contenders).any(wakes_two);
    let (contenders, cells) = in_common(view, has).ok_or("no release woke two waiters")?;
    let all: Vec<Curve> = cells.iter().map(|cell| herd_series(view, cell)).collect();
    let last = Curve::furthest(&all, 1.0);
    let labels: Vec<String> = (0..last as usize).map(rank_label).collect();
    let x = Axis::columns("k: position among the waiters that one release wakes", &labels);
    let heights = all.iter().flat_map(Curve::heights);
    let y = Axis::durations("from the release to the notification", heights);
    Ok(Chart {
        id: format!("herd-n{contenders}"),
        title: format!("Time from a release to its k-th notification, {}", units::contenders(contenders)),
        said: one_by_one(cells.iter().filter_map(|cell| herd_said(view, cell))),
        caption: caption_of(view, vec![HOW_TO_READ.to_owned()], &cells),
        kind: ChartKind::Lines(Lines::either_way(x, y, all)),
    })
}

const HOW_TO_READ: &str = "One release may wake many waiters, one after the other. The curve shows the time from \
    the release call to the first, second, … notification. The line is the median, the dots are the 99th percentile \
    (medians over the repetitions). A lock that wakes one waiter at a time has a single point, at 1.";

/// Returns a curve with one point for each class of ranks: medians as a line, 99th percentiles as dots.
fn herd_series(view: &View<'_>, cell: &Cell<'_>) -> Curve {
    let herd = cell.herd();
    let point = |woken: &Woken, us: u64| ((woken.class() + 1) as f64, us.max(1) as f64);
    let line: Vec<PlotPoint> = herd.iter().map(|woken| point(woken, woken.p50_us)).collect();
    let plain = Mark { violated: false, ..mark_of(cell) };
    let dots = herd.iter().map(|woken| (point(woken, woken.p99_us), plain)).collect();
    Curve { dots, ..Curve::new(cell.strategy, view.label(cell)).through(line, mark_of(cell)) }
}

fn herd_said(view: &View<'_>, cell: &Cell<'_>) -> Option<String> {
    let herd = cell.herd();
    let (first, last) = (herd.first()?, herd.last()?);
    let told = |woken: &Woken| {
        let [p50, p99] = [woken.p50_us, woken.p99_us].map(format_micros);
        format!("{p50} (99th percentile {p99}) for waiter {}", rank_label(woken.class()))
    };
    let more = if first == last { String::new() } else { format!(", {}", told(last)) };
    Some(format!("{}: {}{more}", view.label(cell), told(first)))
}
