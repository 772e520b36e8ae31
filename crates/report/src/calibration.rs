//! Renders a calibration for a terminal and as a page: the floor, then each server's requests.

use super::document::{Block, Columns, Document, Finding, Link, Table, Tone, Value};
use super::page::{filled, measured, noted, place, section};
use super::table::{Printed, Style};
use zklockbench_core::units::{counted, format_micros, listed, number};
use zklockbench_record::{Calibration, PairFigures, RawRequest, Saturation, ServerFigures, Timing};

/// Utilisation of the generator's thread above which the generator is assumed to be the bottleneck.
const BUSY: f64 = 0.9;

/// Renders the outcome and the floor and, with `--all`, the requests of each server.
pub fn calibration(calibration: &Calibration, style: Style) -> String {
    let requests = calibration.servers.iter().map(|server| requests(calibration, server));
    let writes = calibration.synced_writes_per_s.map(number);
    let writes = writes.map(|per_s| format!("The leader takes {per_s} synced writes a second."));
    let tables = [floor(calibration), pairs(calibration)].into_iter().chain(requests).collect();
    let remarks = missing(calibration).map(|missing| format!("! {missing}")).chain(writes).collect();
    Printed { outcome: headline(calibration), tables, remarks, ..Printed::default() }.text(style)
}

fn missing(calibration: &Calibration) -> impl Iterator<Item = String> {
    calibration.missing.iter().map(|missing| format!("not measured: {missing}"))
}

/// Returns a sentence with the lower bounds for any lock in this environment.
pub fn headline(calibration: &Calibration) -> String {
    let took = |what, of: Option<Timing>| Some(format!("{what} takes {}", format_micros(of?.p50_us)));
    let floor = &calibration.floor;
    let parts = [took("a handoff", floor.handoff), took("an acquire of a free lock", floor.uncontended)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return "The floor could not be measured.".to_owned();
    }
    // The pause before each measurement is stored if it differs from the default.
    let rest = calibration.rest_us.map(|us| format!(", each after {} of rest", format_micros(us)));
    let (parts, rest) = (listed(&parts), rest.unwrap_or_default());
    format!("Without a lock, {parts} (medians{rest}): no lock can be faster here.")
}

/// A request, its latency without other requests, and its rate at saturation.
type Request = (&'static str, Option<Timing>, Option<Saturation>);

type Row = (&'static str, Option<Timing>);

fn times<R>(
    columns: Columns<'static, R>,
    timing: impl Fn(&R) -> Option<Timing> + Copy + 'static,
) -> Columns<'static, R> {
    let at = move |row: &R, read: fn(Timing) -> u64| timing(row).map(|timing| Value::micros(read(timing)));
    columns
        .numbers("p50", 0, move |row| at(row, |timing| timing.p50_us))
        .numbers("p90", 1, move |row| at(row, |timing| timing.p90_us))
        .numbers("p99", 0, move |row| at(row, |timing| timing.p99_us))
        .numbers("samples", 2, move |row| timing(row).map(|timing| timing.count))
}

fn floor(calibration: &Calibration) -> Table {
    let floor = &calibration.floor;
    let mut rows = vec![("handoff, over all", floor.handoff)];
    if floor.handoff_other_server.is_some() {
        rows.push(("handoff, both sessions on one server", floor.handoff_same_server));
        rows.push(("handoff, sessions on two servers", floor.handoff_other_server));
    }
    rows.push(("uncontended acquire", floor.uncontended));
    floor_grid(rows)
}

pub(crate) fn floor_grid(rows: impl IntoIterator<Item = Row>) -> Table {
    let named = Columns::<Row>::new().words("floor", |(name, _)| *name).explained(
        "handoff: from one session's delete call to the arrival of the event at a session that watches the node, \
         without any lock; uncontended acquire: the create of an ephemeral sequential node, then a \
         getChildren that returns only its name",
    );
    times(named, |(_, timing): &Row| *timing).table("Lower bounds for any lock on this ensemble", 1, rows)
}

fn pairs(calibration: &Calibration) -> Table {
    let role = |address: &String| {
        let server = calibration.servers.iter().find(|server| server.address == *address);
        server.map_or_else(|| address.clone(), |server| format!("{address} ({})", server.role))
    };
    let median = |of: Option<Timing>| of.map(|of| Value::micros(of.p50_us));
    Columns::<&PairFigures>::new()
        .words("deletes on", move |pair| role(&pair.from))
        .words("watches on", move |pair| role(&pair.to))
        .numbers("handoff p50", 0, move |pair| median(pair.handoff))
        .numbers("reply p50", 1, move |pair| median(pair.reply))
        .numbers("confirmed p50", 1, move |pair| median(pair.confirmed))
        .table("Handoffs between servers", 1, &calibration.pairs)
        .shown_if(calibration.servers.len() > 1)
}

fn requests(calibration: &Calibration, server: &ServerFigures) -> Table {
    let of = |request: RawRequest| {
        let figures = server.of(request);
        (request.name(), figures.and_then(|f| f.alone), figures.and_then(|f| f.saturated))
    };
    let rows = RawRequest::ALL.into_iter().map(of);
    let others = [
        ("watch (change to event)", server.watch, None),
        ("open a session", server.session_open, None),
        ("close a session", server.session_close, None),
        ("ruok", server.ruok, None),
    ];
    let named =
        Columns::<Request>::new().words("alone", |(name, ..)| *name).explained("one request at a time");
    let (sessions, in_flight) = (calibration.saturating_sessions, calibration.in_flight);
    times(named, |(_, alone, _): &Request| *alone)
        .numbers("at saturation", 0, |(.., saturated)| saturated.map(rate))
        .explained(format!(
            "{sessions} sessions with {in_flight} requests each in flight; ≥: the generator's processor was the \
             bottleneck"
        ))
        .table(format!("{} ({})", server.address, server.role), 1, rows.chain(others))
}

/// Returns the replies per second; a lower bound if the generator was saturated.
fn rate(saturated: Saturation) -> Value {
    Value::Rate(saturated.per_s).at_least(saturated.generator_share.is_some_and(|share| share >= BUSY))
}

const FLOOR: Link = Link { section: "floor", text: "the floor" };

pub fn of_calibration(calibration: &Calibration) -> Document {
    let servers = calibration.servers.iter().map(|server| requests(calibration, server));
    let place = Block::Facts(place(&calibration.ensemble, &calibration.host));
    let commit = calibration.tool_commit.as_deref();
    let measured = measured(calibration.started_at, &calibration.tool_version, commit);
    let sections = [
        section(FLOOR.section, "The floor", [floor(calibration), pairs(calibration)]),
        section("requests", "Requests by server", servers),
        section("notes", "Notes", noted(missing(calibration).collect())),
        section("environment", "Measurement environment", [place, measured]),
    ];
    let is_whole = calibration.missing.is_empty();
    let (word, tone) = if is_whole { ("measured", Tone::Good) } else { ("measured in part", Tone::Doubtful) };
    let writes = calibration.synced_writes_per_s.map(|per_s| {
        let leader = format!("The leader takes {} synced writes a second", number(per_s));
        Finding::new("Writes", Tone::Plain, format!("{leader}; an acquisition needs at least two."), None)
    });
    Document {
        title: "Calibration of an ensemble".to_owned(),
        about: format!("{}, without any lock.", counted(calibration.servers.len(), "server", "servers")),
        headline: Finding::new("Floor", tone, headline(calibration), Some(FLOOR)),
        verdict: Value::verdict(word, tone),
        comes_to: "Findings",
        findings: writes.into_iter().collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_a_lower_bound_when_the_generator_is_saturated() {
        let at = |share| {
            rate(Saturation { per_s: 12_345.6, count: 1, lasted_us: 1, generator_share: Some(share) })
        };
        assert_eq!((at(0.5).shown(), at(0.95).shown()), ("12346/s".to_owned(), "≥ 12346/s".to_owned()));
    }
}
