//! Charts of learned loads: arrivals and queues over time, distributions of holds and waits, popular locks.

use crate::document::{Axis, Bar, BarPart, Bars, Chart, ChartKind, Curve, Lines, Mark, PartName, PlotPoint};
use zklockbench_core::units::{format_micros, number, one_line, percent};
use zklockbench_learn::{Family, Learned, LongWait, Times};

/// Families with a curve in each chart.
const CURVES: usize = 6;
const ROWS: usize = 10;

fn shown(learned: &Learned) -> impl Iterator<Item = (usize, &Family)> {
    learned.families.iter().take(CURVES).enumerate()
}

/// Every chart that has data.
pub fn of_learned(learned: &Learned) -> Vec<Chart> {
    let over_time = [
        over_time(learned, "arrivals", "Arrivals over time", "arrivals per second", |family| {
            &family.over_time.arrivals
        }),
        over_time(learned, "queue", "Waiting requests over time", "waiting requests", |family| {
            &family.over_time.waiting
        }),
    ];
    let distributions = [
        distribution(learned, "waits", "Waits by percentile", "wait, as logged", |family| {
            family.wait.as_ref()
        }),
        distribution(learned, "holds", "Holds by percentile", "hold, as logged", |family| {
            family.hold.as_ref()
        }),
    ];
    over_time.into_iter().chain(distributions).chain([keys(learned), waits(learned)]).flatten().collect()
}

fn lines(id: &str, title: &str, caption: &str, x: Axis, y: Axis, series: Vec<Curve>) -> Chart {
    let said = series.iter().map(|curve| {
        let (low, high) =
            curve.heights().fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
        format!("{}: from {} to {}.", curve.label, y.told(low), y.told(high))
    });
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        said: said.collect::<Vec<_>>().join(" "),
        caption: vec![caption.to_owned()],
        kind: ChartKind::Lines(Lines::new(x, y, series)),
    }
}

fn over_time<'l>(
    learned: &'l Learned,
    id: &str,
    title: &str,
    axis: &str,
    of: impl Fn(&'l Family) -> &'l [f64],
) -> Option<Chart> {
    let series: Vec<Curve> = shown(learned)
        .filter(|(_, family)| of(family).iter().any(|value| *value > 0.0))
        .map(|(at, family)| {
            let bin_s = family.over_time.bin_us as f64 / 1e6;
            let middles = (0_u32..).map(|bin| (f64::from(bin) + 0.5) * bin_s);
            let line: Vec<PlotPoint> = middles.zip(of(family).iter().copied()).collect();
            Curve { line, ..Curve::new(at, one_line(&family.name)) }
        })
        .collect();
    let high = series.iter().flat_map(Curve::heights).fold(0.0, f64::max);
    let x = Axis::from_zero("seconds since the first transaction", Curve::furthest(&series, 1.0));
    let caption = "Means over intervals of equal length.";
    (!series.is_empty()).then(|| lines(id, title, caption, x, Axis::from_zero(axis, high), series))
}

fn distribution<'l>(
    learned: &'l Learned,
    id: &str,
    title: &str,
    axis: &str,
    of: impl Fn(&'l Family) -> Option<&'l Times>,
) -> Option<Chart> {
    let curve = |(at, family): (usize, &'l Family)| {
        let times = of(family)?;
        let last = times.count.max(2) as f64;
        let rarity = |share: f64| (1.0 / (1.0 - share).max(1.0 / last)).min(last);
        // The log has a resolution of a millisecond, so the shortest times are below one.
        let line: Vec<PlotPoint> =
            times.curve.iter().map(|point| (rarity(point.share), point.us.max(1_000) as f64)).collect();
        Some(Curve::new(at, one_line(&family.name)).through(line, Mark::default()))
    };
    let series: Vec<Curve> = shown(learned).filter_map(curve).collect();
    let samples = series.iter().filter_map(|curve| curve.line.last()).map(|end| end.0).fold(2.0, f64::max);
    let y = Axis::durations(axis, series.iter().flat_map(Curve::heights));
    let caption =
        "As logged, to the millisecond: a client's hold is shorter by the handoff, and its wait longer.";
    (!series.is_empty()).then(|| lines(id, title, caption, Axis::percentiles(samples), y, series))
}

fn bars(id: &str, title: &str, caption: &str, axis: Axis, part: &str, rows: Vec<Bar>) -> Chart {
    let said = rows.iter().map(|row| format!("{}: {}.", row.label, row.value));
    Chart {
        id: id.to_owned(),
        title: title.to_owned(),
        said: said.collect::<Vec<_>>().join(" "),
        caption: vec![caption.to_owned()],
        kind: ChartKind::Bars(Bars {
            axis,
            parts: vec![PartName { name: part.to_owned(), colour: 0 }],
            guides: Vec::new(),
            rows,
        }),
    }
}

fn bar(label: String, length: f64, value: String) -> Bar {
    let parts = vec![BarPart { of: 0, length, label: String::new() }];
    Bar { look: 0, label, parts, value, mark: Mark::default(), dots: Vec::new() }
}

/// The most popular locks of the busiest family that has several locks.
fn keys(learned: &Learned) -> Option<Chart> {
    let family = learned.families.iter().find(|family| family.locks > 1)?;
    let row = |key: &zklockbench_learn::Key| {
        bar(one_line(&key.lock), 100.0 * key.share, format!("{} ({})", percent(key.share), key.arrivals))
    };
    let rows: Vec<Bar> = family.keys.iter().take(ROWS).map(row).collect();
    let most = family.keys.first().map_or(1.0, |key| 100.0 * key.share);
    let axis = Axis::from_zero("share of the requests (%)", most);
    let caption = format!("Locks in the family {}: {}.", one_line(&family.name), family.locks);
    Some(bars("keys", "Most popular locks", &caption, axis, "requests", rows))
}

/// The longest waits of all families.
fn waits(learned: &Learned) -> Option<Chart> {
    let mut all: Vec<&LongWait> = learned.families.iter().flat_map(|family| &family.longest_waits).collect();
    all.sort_by_key(|wait| std::cmp::Reverse(wait.waited_us));
    all.truncate(ROWS);
    all.sort_by_key(|wait| wait.at_us);
    let most = all.iter().map(|wait| wait.waited_us).max()? as f64 / 1e6;
    let row = |wait: &&LongWait| {
        let label = format!("{} s: {}", number(wait.at_us as f64 / 1e6), one_line(&wait.lock));
        let end = if wait.is_granted { "" } else { ", in vain" };
        let value = format!("{}{end}, session {}", format_micros(wait.waited_us), wait.session);
        bar(label, wait.waited_us as f64 / 1e6, value)
    };
    let rows: Vec<Bar> = all.iter().map(row).collect();
    let caption = "In the order of the requests, in seconds since the first transaction.";
    Some(bars("longest-waits", "The longest waits", caption, Axis::from_zero("wait (s)", most), "wait", rows))
}
