//! The tables of a calibration: the floor, then each server's requests.

use super::layout::fitted;
use super::{Style, Table, numbers, words};
use crate::document::Value;
use zklockbench_core::units::{listed, number};
use zklockbench_record::{Calibration, PairFigures, RawRequest, Saturation, ServerFigures, Timing};

/// A share of the generator's thread from which on the generator is taken for the limit.
const BUSY: f64 = 0.9;

/// The floor by placement, requests by server, and what must be said of them.
pub fn calibration(calibration: &Calibration, style: Style) -> String {
    let mut said = vec![headline(calibration), String::new()];
    said.extend([fitted(floor(calibration), style).0, String::new(), LEGEND.to_owned(), String::new()]);
    if calibration.servers.len() > 1 {
        said.extend([fitted(pairs(calibration), style).0, String::new()]);
    }
    for server in &calibration.servers {
        said.push(format!("{} ({})", server.address, server.role));
        said.extend([String::new(), fitted(requests(server), style).0, String::new()]);
    }
    said.push(legend(calibration));
    said.extend(calibration.missing.iter().map(|missing| format!("! not measured: {missing}")));
    said.join("\n") + "\n"
}

/// What no lock can undercut here.
pub fn headline(calibration: &Calibration) -> String {
    let took = |what: &str, of: Option<Timing>| {
        of.map(|of| format!("{what} takes {}", Value::Duration(of.p50_us as f64).shown()))
    };
    let floor = &calibration.floor;
    let parts = [took("a handoff", floor.handoff), took("an acquire of a free lock", floor.uncontended)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.as_slice() {
        [] => "The floor could not be measured.".to_owned(),
        parts => format!(
            "Without a lock {} (medians{}): no lock can be faster here.",
            listed(parts),
            rest(calibration)
        ),
    }
}

/// What was done before each, where that is not as always.
fn rest(calibration: &Calibration) -> String {
    let told = |us| format!(", each after {} of rest", Value::Duration(us as f64).shown());
    calibration.rest_us.map_or_else(String::new, told)
}

pub(crate) const LEGEND: &str = "handoff: from one session's call of delete to the arrival of the event at a session that watches the \
    node, without any lock; uncontended acquire: an ephemeral sequential create and a getChildren of that one name.";

fn timed(name: &str, of: Option<Timing>) -> Vec<Value> {
    let values = of.map_or([const { Value::NotMeasured }; 4], |Timing { count, p50_us, p90_us, p99_us }| {
        let [p50, p90, p99] = [p50_us, p90_us, p99_us].map(|us| Value::Duration(us as f64));
        [p50, p90, p99, Value::Count(count)]
    });
    std::iter::once(name.into()).chain(values).collect()
}

pub(crate) fn floor(calibration: &Calibration) -> Table {
    let floor = &calibration.floor;
    let mut rows = vec![("handoff, over all", floor.handoff)];
    if floor.handoff_other_server.is_some() {
        rows.push(("handoff, both sessions on one server", floor.handoff_same_server));
        rows.push(("handoff, sessions on two servers", floor.handoff_other_server));
    }
    rows.push(("uncontended acquire", floor.uncontended));
    floor_table(rows)
}

pub(crate) fn floor_table(rows: impl IntoIterator<Item = (&'static str, Option<Timing>)>) -> Table {
    let columns =
        vec![words("floor"), numbers("p50", 0), numbers("p90", 0), numbers("p99", 0), numbers("samples", 1)];
    Table { columns, labels: 1, rows: rows.into_iter().map(|(name, of)| timed(name, of)).collect() }
}

pub(crate) fn pairs(calibration: &Calibration) -> Table {
    let role = |address: &String| {
        let server = calibration.servers.iter().find(|server| server.address == *address);
        server.map_or_else(|| address.clone(), |server| format!("{address} ({})", server.role))
    };
    let median = |of: Option<Timing>| Value::or_missing(of, |of| Value::Duration(of.p50_us as f64));
    let row = |pair: &PairFigures| {
        vec![
            role(&pair.from).into(),
            role(&pair.to).into(),
            median(pair.handoff),
            median(pair.reply),
            median(pair.confirmed),
        ]
    };
    let columns = vec![
        words("deletes on"),
        words("watches on"),
        numbers("handoff p50", 0),
        numbers("reply p50", 1),
        numbers("confirmed p50", 1),
    ];
    Table { columns, labels: 1, rows: calibration.pairs.iter().map(row).collect() }
}

pub(crate) fn requests(server: &ServerFigures) -> Table {
    let row = |name: &str, alone: Option<Timing>, saturated: Option<Saturation>| {
        timed(name, alone).into_iter().chain([rate(saturated)]).collect()
    };
    let of = |request: RawRequest| {
        let figures = server.of(request);
        let (alone, saturated) = (figures.and_then(|f| f.alone), figures.and_then(|f| f.saturated));
        row(request.name(), alone, saturated)
    };
    let others = [
        ("watch (change to event)", server.watch),
        ("open a session", server.session_open),
        ("close a session", server.session_close),
        ("ruok", server.ruok),
    ];
    let rows =
        RawRequest::ALL.into_iter().map(of).chain(others.map(|(name, timing)| row(name, timing, None)));
    let columns = vec![
        words("alone"),
        numbers("p50", 0),
        numbers("p90", 1),
        numbers("p99", 0),
        numbers("samples", 2),
        numbers("at saturation", 0),
    ];
    Table { columns, labels: 1, rows: rows.collect() }
}

/// Replies a second; at least so many where the generator had no time for more.
fn rate(saturated: Option<Saturation>) -> Value {
    Value::or_missing(saturated, |saturated| Value::Rate(saturated.per_s).at_least(is_bound(&saturated)))
}

fn is_bound(saturated: &Saturation) -> bool {
    saturated.generator_share.is_some_and(|share| share >= BUSY)
}

pub(crate) fn legend(calibration: &Calibration) -> String {
    let (sessions, in_flight) = (calibration.saturating_sessions, calibration.in_flight);
    let all = calibration.servers.iter().flat_map(|server| &server.requests);
    let bound = all.filter_map(|figures| figures.saturated.as_ref()).any(is_bound);
    let bound = if bound {
        " ≥: the generator had no processor time for more, so the server may take more;"
    } else {
        ""
    };
    let writes = calibration.synced_writes_per_s.map_or_else(String::new, |per_s| {
        format!(" Synced writes, through the leader: {} a second.", number(per_s))
    });
    format!(
        "alone: one request at a time; at saturation: {sessions} sessions with {in_flight} requests each under way;{bound} \
         -: not measured.{writes}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_the_generator_limited_is_a_lower_bound() {
        let at = |share| {
            rate(Some(Saturation { per_s: 12_345.6, count: 1, lasted_us: 1, generator_share: Some(share) }))
        };
        assert_eq!((at(0.5).shown(), at(0.95).shown()), ("12346/s".to_owned(), "≥ 12346/s".to_owned()));
        assert_eq!(rate(None), Value::NotMeasured);
    }
}
