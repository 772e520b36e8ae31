//! Acquisitions by contender, and requests per acquisition by kind, at the most common contender count.

use super::{caption_of, in_common, mark_of, one_by_one};
use crate::View;
use crate::document::{
    Axis, Bar, BarPart, Bars, Chart, ChartKind, Curve, Guide, GuideCourse, Lines, PartName, PlotPoint, Weight,
};
use crate::view::Cell;
use zklockbench_core::measure::RequestKind;
use zklockbench_core::units::{contenders, listed, number};
use zklockbench_record::figures::{FAIRNESS, REQUESTS_PER_ACQUISITION};
use zklockbench_stats::median;

/// Returns the acquisitions of each contender as a multiple of an even share, largest first.
pub fn shares(view: &View<'_>) -> Result<Chart, String> {
    let has = |cell: &Cell<'_>| cell.contenders > 1 && cell.figure(&FAIRNESS).is_some();
    let (count, cells) =
        in_common(view, has).ok_or("all contenders had the same number of cycles, or too few to compare")?;
    let of = |cell: &&Cell<'_>| {
        let line = line(cell);
        let every = (line.len() / 8).max(1);
        let marked: Vec<PlotPoint> = line.iter().step_by(every).chain(line.last()).copied().collect();
        let markers = Curve::marked(marked, mark_of(cell));
        (!line.is_empty()).then(|| Curve { line, markers, ..Curve::new(cell.strategy, view.label(cell)) })
    };
    let all: Vec<Curve> = cells.iter().filter_map(of).collect();
    let said = all.iter().filter_map(|one| {
        let (most, least) = (one.line.first()?.1, one.line.last()?.1);
        Some(format!("{}: {} to {}", one.label, number(most), number(least)))
    });
    let said = one_by_one(said);
    let x = Axis::from_zero("contenders, by descending number of acquisitions", count as f64);
    let highest = all.iter().flat_map(Curve::heights).fold(1.0, f64::max);
    let caption = "A flat line at 1 is perfectly fair. Medians over the repetitions, with contenders ordered by their \
                   number of acquisitions.";
    let read = "From the contender with the most to the one with the least, as multiples of an even share.";
    let guides = vec![Guide::new(GuideCourse::Level(1.0), "even share", Weight::Faint)];
    let lines = Lines::new(x, Axis::from_zero("multiple of an even share", highest), all);
    Ok(Chart {
        id: format!("shares-n{count}"),
        title: format!("Shares of the acquisitions, {}", contenders(count)),
        said: format!("{read} {said}"),
        caption: caption_of(view, vec![caption.to_owned()], &cells),
        kind: ChartKind::Lines(Lines { guides, ..lines }),
    })
}

fn line(cell: &Cell<'_>) -> Vec<PlotPoint> {
    let mut shares = vec![Vec::new(); cell.contenders];
    for trial in cell.counting() {
        let mut turns: Vec<u64> = trial.tallies.iter().map(|tally| tally.acquired).collect();
        let even = turns.iter().sum::<u64>() as f64 / turns.len().max(1) as f64;
        turns.sort_unstable_by(|one, other| other.cmp(one));
        if even > 0.0 {
            shares.iter_mut().zip(turns).for_each(|(all, turns)| all.push(turns as f64 / even));
        }
    }
    let ranked = shares.iter().zip(1_u32..);
    ranked.filter_map(|(all, rank)| Some((f64::from(rank), median(all)?))).collect()
}

pub fn kinds(view: &View<'_>) -> Result<Chart, String> {
    let has = |cell: &Cell<'_>| !cell.requests().is_empty();
    let missing = || REQUESTS_PER_ACQUISITION.chart.and_then(|chart| chart.missing).unwrap_or_default();
    let (count, cells) = in_common(view, has).ok_or_else(missing)?;
    let used = cells.iter().flat_map(|cell| cell.requests()).map(|(kind, _)| kind).collect::<Vec<_>>();
    let kinds: Vec<RequestKind> = RequestKind::ALL.into_iter().filter(|kind| used.contains(kind)).collect();
    let said = cells.iter().map(|cell| {
        let parts =
            cell.requests().into_iter().map(|(kind, amount)| format!("{} {}", number(amount), name(kind)));
        format!("{}: {}", view.label(cell), listed(&parts.collect::<Vec<_>>()))
    });
    let colour = |kind: &RequestKind| RequestKind::ALL.iter().position(|one| one == kind).unwrap_or(0);
    let parts = kinds.iter().map(|kind| PartName { name: name(*kind), colour: colour(kind) });
    let caption = "The repetition with the median total is drawn.";
    let rows: Vec<Bar> = cells.iter().map(|cell| row(view, cell, &kinds)).collect();
    let axis = Axis::from_zero("requests per acquisition", rows.iter().map(Bar::length).fold(0.0, f64::max));
    Ok(Chart {
        id: format!("requests-by-kind-n{count}"),
        title: format!("Requests by kind, {}", contenders(count)),
        said: one_by_one(said),
        caption: caption_of(view, vec![caption.to_owned()], &cells),
        kind: ChartKind::Bars(Bars { axis, parts: parts.collect(), guides: Vec::new(), rows }),
    })
}

fn row(view: &View<'_>, cell: &Cell<'_>, kinds: &[RequestKind]) -> Bar {
    let part = |(kind, length): (RequestKind, f64)| {
        let of = kinds.iter().position(|one| *one == kind)?;
        Some(BarPart { of, length, label: number(length) })
    };
    let parts: Vec<BarPart> = cell.requests().into_iter().filter_map(part).collect();
    let whole = Bar::new(cell.strategy, view.label(cell), 0.0, String::new());
    let bar = Bar { parts, mark: mark_of(cell), ..whole };
    Bar { value: number(bar.length()), ..bar }
}

fn name(kind: RequestKind) -> String {
    kind.name().replace('_', " ")
}
