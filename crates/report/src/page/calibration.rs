//! The document of a calibration.

use super::facts::{fact, place, program};
use super::{filled, noted, section};
use crate::document::{Block, Document, Finding, Link, Tone, Value};
use crate::table::calibration::{floor, headline, pairs, requests};
use zklockbench_core::units::{counted, number};
use zklockbench_record::Calibration;

const FLOOR: Link = Link { section: "floor", text: "the floor" };

pub fn of_calibration(calibration: &Calibration) -> Document {
    let servers = calibration.servers.iter().map(|server| Block::from(requests(calibration, server)));
    let pairs = Some(pairs(calibration)).filter(|pairs| pairs.table.rows.len() > 1).map(Block::from);
    let missing = calibration.missing.iter().map(|missing| format!("not measured: {missing}")).collect();
    let place = Block::Facts(place(&calibration.ensemble, &calibration.host));
    let measured = Block::Facts(vec![
        fact("Measured", humantime::format_rfc3339_seconds(calibration.started_at).to_string()),
        program(&calibration.tool_version, calibration.tool_commit.as_deref()),
    ]);
    let sections = [
        section(FLOOR.section, "The floor", [floor(calibration).into()].into_iter().chain(pairs)),
        section("requests", "Requests, server by server", servers),
        section("notes", "Notes", noted(missing)),
        section("environment", "Where it was measured", [place, measured]),
    ];
    let verdict = match calibration.missing.is_empty() {
        true => Value::verdict("measured", Tone::Good),
        false => Value::verdict("measured in part", Tone::Doubtful),
    };
    let writes = calibration.synced_writes_per_s.map(|per_s| {
        let sentence = format!(
            "The leader takes {} synced writes a second; an acquisition has at least two.",
            number(per_s)
        );
        Finding::new("Writes", Tone::Plain, sentence, None)
    });
    Document {
        title: "Calibration of an ensemble".to_owned(),
        about: format!("{}, without any lock.", counted(calibration.servers.len(), "server", "servers")),
        headline: Finding::new("Floor", verdict.tone(), headline(calibration), Some(FLOOR)),
        verdict,
        comes_to: "Findings",
        findings: writes.into_iter().collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}
