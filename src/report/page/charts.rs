//! The charts of a run, in the units of their figures.

use super::Source;
use crate::report::View;
use crate::report::document::{
    Axis, Band, Bars, Chart, Guide, Kind, Lines, Part, Row, Scale, Series, Tick, Unit,
};
use crate::report::view::{Cell, Fault, Repetition};
use crate::results::record::Trial;
use crate::words::measure::{Histogram, Measure, RequestKind, Survival, Woken, pooled, rank_label};
use crate::words::units::{capitalised, contenders, format_micros, listed, number};

impl Source<'_> {
    /// The trials of a cell whose figures count.
    pub fn trials<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Trial> {
        cell.trials(&self.stored.trials)
    }

    fn pooled(&self, cell: &Cell, measure: Measure) -> Option<Survival> {
        if measure == Measure::Wait {
            return cell.pooled(measure);
        }
        let all = self.trials(cell).filter_map(|trial| trial.histograms.get(&measure));
        let all: Option<Histogram> = all.cloned().reduce(pooled);
        Survival::of(all.as_ref(), None)
    }

    fn has(&self, cell: &Cell, measure: Measure) -> bool {
        let samples = |trial: &Trial| trial.histograms.get(&measure).is_some_and(|all| !all.is_empty());
        self.trials(cell).any(samples)
    }
}

fn amounts(title: &str, scale: Scale) -> Axis {
    Axis { title: title.to_owned(), scale, ticks: Vec::new(), unit: Unit::Amount }
}

/// A series of a cell's strategy without points yet.
fn series<'a>(cells: impl IntoIterator<Item = &'a Cell>, strategy: usize) -> Series {
    let (mut doubtful, mut violated) = (false, false);
    for cell in cells {
        doubtful |= !cell.is_sound();
        violated |= cell.is_violated();
    }
    Series { doubtful, violated, ..Series::of(strategy) }
}

/// What a measure is called, and what it is.
fn named(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::Handoff => {
            ("Handoffs", "From one holder's release call to the next holder's return from acquire.")
        }
        Measure::ReadWait => {
            ("Waits of readers", "From when an acquire to read should have started to its return.")
        }
        Measure::WriteWait => {
            ("Waits of writers", "From when an acquire to write should have started to its return.")
        }
        Measure::Notification => {
            ("Notifications", "From a release call to the arrival of each notification that it caused.")
        }
        _ => (
            "Waits",
            "From when the acquire should have started to its return; unserved waits count as at least that long.",
        ),
    }
}

/// A measure by percentile, each step to the right ten times rarer; the error says why not.
pub(super) fn by_percentile(source: &Source<'_>, measure: Measure) -> Result<Chart, String> {
    let (name, what) = named(measure);
    let view = source.view;
    let has = |cell: &Cell| source.has(cell, measure) && !(measure.is_of_the_queue() && cell.is_unstable());
    let count =
        view.best_common_count(has).ok_or_else(|| format!("no trial measured {}", name.to_lowercase()))?;
    let cells = || view.cells_at(count).filter(|cell| has(cell));
    let all: Vec<(Series, Survival)> = cells()
        .filter_map(|cell| {
            let samples = source.pooled(cell, measure)?;
            let (line, marked) = (curve(&samples), percentiles(&samples));
            Some((Series { line, marked, ..series([cell], cell.strategy) }, samples))
        })
        .collect();
    let label = |one: &Series| view.strategies[one.strategy].as_str();
    let said: Vec<String> = all
        .iter()
        .map(|(series, samples)| {
            let at = |share| {
                let found = samples.quantile(share);
                let bound = if found.at_least { "at least " } else { "" };
                format!("{bound}{}", format_micros(found.us))
            };
            format!("{}: median {}, 99th percentile {}", label(series), at(0.5), at(0.99))
        })
        .collect();
    let floor = view.floor.as_ref().and_then(|floor| floor.handoff).filter(|_| measure == Measure::Handoff);
    let guides = floor.map(|floor| Guide {
        at: floor.p50_us as f64,
        label: format!("floor: {}", format_micros(floor.p50_us)),
    });
    let floor_said = if guides.is_some() { " Dashed: the floor, a handoff without any lock." } else { "" };
    let title = format!("{name} by percentile, {}", contenders(count));
    Ok(Chart {
        id: format!("{}-by-percentile", measure.name().replace('_', "-")),
        title,
        said: format!("{}.", said.join("; ")),
        caption: format!(
            "{what} The repetitions are pooled; a line ends where fewer than ten samples remain beyond it.{floor_said}"
        ),
        kind: Kind::Lines(Lines {
            x: Axis {
                title: "percentile".to_owned(),
                scale: Scale::Log,
                ticks: ticks_of_percentiles(),
                unit: Unit::Rarity,
            },
            y: Axis {
                title: capitalised(&measure.name().replace('_', " ")),
                scale: Scale::LogOrLinear,
                ticks: Vec::new(),
                unit: Unit::Micros,
            },
            series: all.into_iter().map(|(series, _)| series).collect(),
            bands: Vec::new(),
            guides: guides.into_iter().collect(),
            upright: Vec::new(),
        }),
    })
}

const PERCENTILES: [(f64, &str); 9] = [
    (1.0, "0 %"),
    (2.0, "50 %"),
    (4.0, "75 %"),
    (1e1, "90 %"),
    (1e2, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
];

fn ticks_of_percentiles() -> Vec<Tick> {
    PERCENTILES.iter().map(|(at, label)| Tick { at: *at, label: (*label).to_owned() }).collect()
}

/// A step for each length, as long as the share of those that took that long.
fn curve(samples: &Survival) -> Vec<(f64, f64)> {
    let end = samples.rarest_shown();
    let rarity = |share: f64| if share < 1.0 { 1.0 / (1.0 - share) } else { f64::INFINITY };
    let mut points = Vec::new();
    let mut before = 1.0;
    for (us, share) in samples.steps() {
        let (value, after) = ((*us).min(samples.longest().us).max(1) as f64, rarity(*share));
        points.push((before, value));
        points.push((after.min(end), value));
        before = after;
        if after >= end {
            break;
        }
    }
    points
}

fn percentiles(samples: &Survival) -> Vec<(f64, f64)> {
    let end = samples.rarest_shown();
    let at = |rarity: f64| samples.quantile(1.0 - 1.0 / rarity);
    let inner = PERCENTILES.iter().map(|(rarity, _)| *rarity).filter(|rarity| *rarity <= end);
    inner.filter(|rarity| !at(*rarity).at_least).map(|rarity| (rarity, at(rarity).us.max(1) as f64)).collect()
}

/// How long after a release its first, second, … waiter hears of it; `None` where no release woke two.
pub(super) fn herd(view: &View) -> Option<Chart> {
    let count = view.herd_count()?;
    let point = |woken: &Woken, us: u64| ((woken.class() + 1) as f64, us.max(1) as f64);
    let (mut all, mut said, mut classes) = (Vec::new(), Vec::new(), 0);
    for cell in view.cells_at(count) {
        let herd = cell.herd();
        let (Some(first), Some(last)) = (herd.first(), herd.last()) else { continue };
        classes = classes.max(last.class() + 1);
        let told = |woken: &Woken| {
            let [p50, p99] = [woken.p50_us, woken.p99_us].map(format_micros);
            format!("{p50} (99th percentile {p99}) for waiter {}", rank_label(woken.class()))
        };
        let more = if first == last { String::new() } else { format!(", {}", told(last)) };
        said.push(format!("{}: {}{more}", view.label(cell), told(first)));
        let line: Vec<(f64, f64)> = herd.iter().map(|woken| point(woken, woken.p50_us)).collect();
        let dots = herd.iter().map(|woken| point(woken, woken.p99_us)).collect();
        all.push(Series { marked: line.clone(), line, dots, ..series([cell], cell.strategy) });
    }
    let tick = |class: usize| Tick { at: (class + 1) as f64, label: rank_label(class) };
    Some(Chart {
        id: "herd".to_owned(),
        title: format!("When the k-th waiter hears of a release, {}", contenders(count)),
        said: format!("{}.", said.join("; ")),
        caption: View::HERD_CAPTION.to_owned(),
        kind: Kind::Lines(Lines {
            x: Axis {
                title: "k: place among the waiters that one release wakes".to_owned(),
                scale: Scale::Linear,
                ticks: (0..classes).map(tick).collect(),
                unit: Unit::Amount,
            },
            y: Axis {
                title: "From the release to the notification".to_owned(),
                scale: Scale::LogOrLinear,
                ticks: Vec::new(),
                unit: Unit::Micros,
            },
            series: all,
            bands: Vec::new(),
            guides: Vec::new(),
            upright: Vec::new(),
        }),
    })
}

/// A figure over the numbers of contenders; bars where there is one number only.
fn over_contenders(
    source: &Source<'_>,
    (id, title, axis): (&str, &str, &str),
    caption: &str,
    figure: impl Fn(&Repetition) -> Option<f64>,
) -> Result<Chart, String> {
    let view = source.view;
    let cells: Vec<&Cell> = view.cells.iter().filter(|cell| cell.median(&figure).is_some()).collect();
    if cells.is_empty() {
        return Err("no trial measured it".to_owned());
    }
    let last = cells.iter().map(|cell| cell.contenders).max().unwrap_or(0);
    let median = |cell: &Cell| cell.median(&figure).unwrap_or(0.0);
    let said: Vec<String> = cells
        .iter()
        .filter(|cell| cell.contenders == last)
        .map(|cell| format!("{}: {}", view.label(cell), number(median(cell))))
        .collect();
    let said = format!("With {}: {}.", contenders(last), said.join("; "));
    let mut counts: Vec<usize> = cells.iter().map(|cell| cell.contenders).collect();
    counts.sort_unstable();
    counts.dedup();
    if let [count] = counts.as_slice() {
        let row = |cell: &&Cell| Row {
            strategy: cell.strategy,
            label: view.label(cell).to_owned(),
            parts: vec![Part { of: 0, amount: median(cell) }],
        };
        let bars = Bars {
            title: axis.to_owned(),
            parts: vec![axis.to_owned()],
            rows: cells.iter().map(row).collect(),
        };
        let title = format!("{title}, {}", contenders(*count));
        return Ok(Chart {
            id: id.to_owned(),
            title,
            said,
            caption: caption.to_owned(),
            kind: Kind::Bars(bars),
        });
    }
    let one = |strategy: usize| {
        let own: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.strategy == strategy).collect();
        let line: Vec<(f64, f64)> = own.iter().map(|cell| (cell.contenders as f64, median(cell))).collect();
        let dots = own
            .iter()
            .filter(|cell| cell.counting().count() > 1)
            .flat_map(|cell| cell.counting().filter_map(|one| Some((cell.contenders as f64, figure(one)?))));
        let dots = dots.collect();
        (!line.is_empty()).then(|| Series { marked: line.clone(), line, dots, ..series(own, strategy) })
    };
    let wide = counts.last().zip(counts.first()).is_some_and(|(last, first)| *last >= 8 * (*first).max(1));
    let ticks = counts.iter().map(|count| Tick { at: *count as f64, label: count.to_string() }).collect();
    let scale = if wide { Scale::Log } else { Scale::Linear };
    let lines = Lines {
        x: Axis { title: "contenders".to_owned(), scale, ticks, unit: Unit::Amount },
        y: amounts(axis, Scale::LinearOrLog),
        series: (0..view.strategies.len()).filter_map(one).collect(),
        bands: Vec::new(),
        guides: Vec::new(),
        upright: Vec::new(),
    };
    let caption = format!("{caption} Lines: medians; dots: each repetition.");
    Ok(Chart {
        id: id.to_owned(),
        title: format!("{title} over contenders"),
        said,
        caption,
        kind: Kind::Lines(lines),
    })
}

pub(super) fn throughput(source: &Source<'_>) -> Result<Chart, String> {
    let what = ("throughput-by-contenders", "Throughput", "acquisitions a second");
    over_contenders(source, what, "Locks acquired a second, by all contenders together.", |one| {
        one.throughput
    })
}

pub(super) fn fan_out(source: &Source<'_>) -> Result<Chart, String> {
    let what = ("fan-out-by-contenders", "Fan-out", "notifications per release");
    over_contenders(source, what, "Notifications caused by one release.", |one| one.fan_out)
}

pub(super) fn requests(source: &Source<'_>) -> Result<Chart, String> {
    let what = ("requests-by-contenders", "Requests", "requests per acquisition");
    over_contenders(source, what, "Requests sent per acquisition.", Repetition::requests_total)
}

/// Requests per acquisition kind by kind, and notifications, with the number of contenders that most strategies have.
pub(super) fn kinds(source: &Source<'_>) -> Result<Chart, String> {
    let view = source.view;
    let has = |cell: &Cell| !cell.requests().is_empty();
    let count = view.best_common_count(has).ok_or("no trial acquired a lock whose requests were all seen")?;
    let cells: Vec<&Cell> = view.cells_at(count).filter(|cell| has(cell)).collect();
    let used =
        |kind: &RequestKind| cells.iter().any(|cell| cell.requests().iter().any(|(other, _)| other == kind));
    let kinds: Vec<RequestKind> = RequestKind::ALL.into_iter().filter(used).collect();
    let row = |cell: &&Cell| Row {
        strategy: cell.strategy,
        label: view.label(cell).to_owned(),
        parts: cell
            .requests()
            .into_iter()
            .filter_map(|(kind, amount)| {
                Some(Part { of: kinds.iter().position(|one| *one == kind)?, amount })
            })
            .collect(),
    };
    let rows: Vec<Row> = cells.iter().map(row).collect();
    let said: Vec<String> = rows
        .iter()
        .map(|row| {
            let parts: Vec<String> = row
                .parts
                .iter()
                .map(|part| format!("{} {}", number(part.amount), said_kind(kinds[part.of])))
                .collect();
            format!("{}: {}", row.label, listed(&parts))
        })
        .collect();
    let parts = kinds.iter().map(|kind| said_kind(*kind)).collect();
    Ok(Chart {
        id: "requests-by-kind".to_owned(),
        title: format!("Requests by kind, {}", contenders(count)),
        said: format!("{}.", said.join("; ")),
        caption: "Requests per acquisition, from the repetition with the median total.".to_owned(),
        kind: Kind::Bars(Bars { title: "requests per acquisition".to_owned(), parts, rows }),
    })
}

fn said_kind(kind: RequestKind) -> String {
    kind.name().replace('_', " ")
}

/// Acquisitions a second in the course of the trials, with what was broken meanwhile behind them.
pub(super) fn over_time(source: &Source<'_>) -> Result<Chart, String> {
    let view = source.view;
    let lasted = |cell: &Cell| cell.over_time().is_some();
    let count =
        view.best_common_count(lasted).ok_or("no measured phase was long enough to plot over time")?;
    let cells: Vec<&Cell> = view.cells_at(count).filter(|cell| lasted(cell)).collect();
    let mut widths: Vec<f64> = Vec::new();
    let mut all = Vec::new();
    for cell in &cells {
        let Some(course) = cell.over_time() else { continue };
        let width = course.bin_us as f64 / 1e6;
        let line: Vec<(f64, f64)> = course
            .per_second
            .iter()
            .zip(0_u32..)
            .map(|(rate, bin)| ((f64::from(bin) + 0.5) * width, *rate))
            .collect();
        let every = (line.len() / 10).max(1);
        let marked = line.iter().skip(cell.strategy % every).step_by(every).copied().collect();
        widths.push(width);
        all.push(Series { line, marked, ..series([*cell], cell.strategy) });
    }
    let end = all.iter().filter_map(|one: &Series| one.line.last()).map(|end| end.0).fold(0.0, f64::max);
    let bands: Vec<Band> = cells.iter().flat_map(|cell| bands(cell, end)).collect();
    let mut labels: Vec<&str> = bands.iter().map(|band| band.label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    let shaded = match labels.as_slice() {
        [] => String::new(),
        names => format!(
            " Shaded: {}, from when it was asked for to its end, in the first sound repetition; darker: with more \
             strategies at that time.",
            listed(names)
        ),
    };
    widths.sort_by(f64::total_cmp);
    let width = match (widths.first(), widths.last()) {
        (Some(least), Some(most)) if least == most => number(*least),
        (Some(least), Some(most)) => format!("{} to {}", number(*least), number(*most)),
        _ => String::new(),
    };
    let said: Vec<String> = all
        .iter()
        .map(|one| {
            let low = one.line.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            let high = one.line.iter().map(|point| point.1).fold(0.0, f64::max);
            format!("{}: from {} to {}", view.strategies[one.strategy], number(low), number(high))
        })
        .collect();
    let linear = if bands.is_empty() { Scale::LinearOrLog } else { Scale::Linear };
    Ok(Chart {
        id: "throughput-over-time".to_owned(),
        title: format!("Throughput over time, {}", contenders(count)),
        said: format!("Acquisitions a second. {}.", said.join("; ")),
        caption: format!("In steps of {width} s, the median over the repetitions.{shaded}"),
        kind: Kind::Lines(Lines {
            x: Axis {
                title: "seconds since the measured phase began".to_owned(),
                scale: Scale::Linear,
                ticks: Vec::new(),
                unit: Unit::Seconds,
            },
            y: amounts("acquisitions a second", linear),
            series: all,
            bands,
            guides: Vec::new(),
            upright: Vec::new(),
        }),
    })
}

fn bands(cell: &Cell, end: f64) -> Vec<Band> {
    let shown = cell.repetitions.iter().find(|one| one.is_sound()).or_else(|| cell.repetitions.first());
    let faults = shown.and_then(|one| one.broken.as_ref()).map(|broken| broken.faults.as_slice());
    let band = |fault: &Fault| Band {
        from: (fault.asked_us as f64 / 1e6).clamp(0.0, end),
        to: fault.ended_us.map_or(end, |us| us as f64 / 1e6).clamp(0.0, end),
        label: fault.label.clone(),
        strategy: cell.strategy,
    };
    faults.unwrap_or_default().iter().map(band).filter(|band| band.to > 0.0 && band.from < end).collect()
}

/// What each contender got, the one with the most first, as a multiple of an even share.
pub(super) fn fairness(source: &Source<'_>) -> Result<Chart, String> {
    let view = source.view;
    let has = |cell: &Cell| cell.contenders > 1 && cell.median(|one| one.fairness).is_some();
    let count = view
        .best_common_count(has)
        .ok_or("each contender had as many turns as the others, or too few to tell")?;
    let one = |cell: &Cell| {
        let mut shares = vec![Vec::new(); count];
        for trial in source.trials(cell) {
            let mut turns: Vec<u64> = trial.tallies.iter().map(|tally| tally.acquired).collect();
            let even = turns.iter().sum::<u64>() as f64 / turns.len().max(1) as f64;
            turns.sort_unstable_by(|one, other| other.cmp(one));
            if even > 0.0 {
                shares.iter_mut().zip(turns).for_each(|(all, turns)| all.push(turns as f64 / even));
            }
        }
        let middle = |all: &Vec<f64>| crate::answer::stats::median(all);
        let line: Vec<(f64, f64)> = shares
            .iter()
            .zip(1_u32..)
            .filter_map(|(all, rank)| Some((f64::from(rank), middle(all)?)))
            .collect();
        let every = (line.len() / 8).max(1);
        let marked = line.iter().step_by(every).chain(line.last()).copied().collect();
        (!line.is_empty()).then(|| Series { line, marked, ..series([cell], cell.strategy) })
    };
    let all: Vec<Series> = view.cells_at(count).filter(|cell| has(cell)).filter_map(one).collect();
    let said: Vec<String> = all
        .iter()
        .filter_map(|one| {
            let (most, least) = (one.line.first()?.1, one.line.last()?.1);
            Some(format!("{}: {} to {}", view.strategies[one.strategy], number(most), number(least)))
        })
        .collect();
    Ok(Chart {
        id: "shares".to_owned(),
        title: format!("Shares of the acquisitions, {}", contenders(count)),
        said: format!("From the contender with the most to the one with the least, as multiples of an even share. {}.", said.join("; ")),
        caption: "A flat line at 1 is perfectly fair. Medians over the repetitions, contender by contender in the order of what they got.".to_owned(),
        kind: Kind::Lines(Lines {
            x: Axis {
                title: "contenders, the one with the most acquisitions first".to_owned(),
                scale: Scale::Linear,
                ticks: Vec::new(),
                unit: Unit::Amount,
            },
            y: amounts("multiple of an even share", Scale::Linear),
            series: all,
            bands: Vec::new(),
            guides: vec![Guide { at: 1.0, label: "even share".to_owned() }],
            upright: Vec::new(),
        }),
    })
}
