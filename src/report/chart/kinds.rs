//! Of which kinds the requests of an acquisition are.

use super::marks::{caption_of, mark_of};
use crate::report::View;
use crate::report::document::{Axis, Bar, BarPart, Bars, Chart, ChartKind, PartName};
use crate::report::view::Cell;
use crate::results::record::figures::REQUESTS_PER_ACQUISITION;
use crate::words::measure::RequestKind;
use crate::words::units::{contenders, listed, number};

/// The chart, with the number of contenders that most strategies have; the error says why there is none.
pub fn kinds(view: &View<'_>) -> Result<Chart, String> {
    let has = |cell: &Cell<'_>| !cell.requests().is_empty();
    let count = view
        .best_common_count(has)
        .ok_or(REQUESTS_PER_ACQUISITION.chart.map_or("", |chart| chart.missing))?;
    let cells: Vec<&Cell<'_>> = view.cells_at(count).filter(|cell| has(cell)).collect();
    let used =
        |kind: &RequestKind| cells.iter().any(|cell| cell.requests().iter().any(|(other, _)| other == kind));
    let kinds: Vec<RequestKind> = RequestKind::ALL.into_iter().filter(used).collect();
    let said = cells.iter().map(|cell| {
        let parts: Vec<String> = cell
            .requests()
            .iter()
            .map(|(kind, amount)| format!("{} {}", number(*amount), name(*kind)))
            .collect();
        format!("{}: {}", view.label(cell), listed(&parts))
    });
    let colour = |kind: &RequestKind| RequestKind::ALL.iter().position(|one| one == kind).unwrap_or(0);
    let parts = kinds.iter().map(|kind| PartName { name: name(*kind), colour: colour(kind) });
    let caption = "Bar: the share of each kind; beside it: requests per acquisition, of the repetition with the median total.";
    Ok(Chart {
        id: format!("requests-by-kind-n{count}"),
        title: format!("Requests by kind, {}", contenders(count)),
        said: format!("{}.", said.collect::<Vec<_>>().join("; ")),
        caption: caption_of(view, vec![caption.to_owned()], |cell| cell.contenders == count && has(cell)),
        kind: ChartKind::Bars(Bars {
            axis: Axis::from_zero("share of the requests per acquisition (%)", 100.0),
            parts: parts.collect(),
            references: Vec::new(),
            rows: cells.iter().map(|cell| row(view, cell, &kinds)).collect(),
        }),
    })
}

fn row(view: &View<'_>, cell: &Cell<'_>, kinds: &[RequestKind]) -> Bar {
    let requests = cell.requests();
    let total: f64 = requests.iter().map(|(_, amount)| amount).sum();
    let part = |(kind, amount): &(RequestKind, f64)| {
        let share = 100.0 * amount / total;
        let of = kinds.iter().position(|one| one == kind)?;
        Some(BarPart { of, length: share, label: format!("{share:.0} %") })
    };
    Bar {
        look: cell.strategy,
        label: view.label(cell).to_owned(),
        parts: requests.iter().filter_map(part).collect(),
        value: number(total),
        mark: mark_of(cell),
        dots: Vec::new(),
    }
}

fn name(kind: RequestKind) -> String {
    kind.name().replace('_', " ")
}
