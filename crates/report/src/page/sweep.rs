//! The document of a sweep.

use super::facts::{fact, place, program};
use super::{filled, noted, section};
use crate::chart;
use crate::document::{Block, Document, Finding, Link, Tone, Value};
use crate::table::sweep::{ending, extent, headline, sentences, tables, title};
use zklockbench_analysis::sweep::{Finding as Found, SweepFile};
use zklockbench_core::units::capitalised;

const CURVES: Link = Link { section: "curves", text: "curves" };

pub fn of_sweep(sweep: &SweepFile) -> Document {
    let finding = |found: &Found| {
        Finding::new(title(sweep, found), Tone::Plain, sentences(sweep, found).join(" "), Some(CURVES))
    };
    let notes = ending(sweep).iter().map(|note| capitalised(note)).collect();
    let measured = sweep.ensembles.first().map(|ensemble| Block::Facts(place(ensemble, &sweep.host)));
    let over: Vec<String> = sweep.over.iter().map(|over| format!(" --over {over}")).collect();
    let reproduce = vec![
        Block::Code {
            caption: "The scenario, with all changes:".to_owned(),
            text: sweep.scenario_text.clone(),
        },
        Block::Code {
            caption: "Sweep it again:".to_owned(),
            text: format!("zklockbench sweep SCENARIO{} --seed {}", over.concat(), sweep.seed),
        },
        Block::Facts(vec![
            fact("Measured", humantime::format_rfc3339_seconds(sweep.started_at).to_string()),
            program(&sweep.tool_version, sweep.tool_commit.as_deref()),
        ]),
    ];
    let sections = [
        section(CURVES.section, "Curves", chart::of_sweep(sweep).into_iter().map(Block::from)),
        section("figures", "Figures", tables(sweep).into_iter().map(Block::from)),
        section("notes", "Notes", noted(notes)),
        section("environment", "Where it was measured", measured),
        section("reproduce", "How to reproduce this", reproduce),
    ];
    let verdict = Value::from(&sweep.judged());
    Document {
        title: format!("Sweep of {}", sweep.scenario),
        about: extent(sweep),
        headline: Finding::new("Found", verdict.tone(), headline(sweep), Some(CURVES)),
        verdict,
        comes_to: "Findings",
        findings: sweep.findings.iter().map(finding).collect(),
        strategies: sweep.findings.iter().map(|found| title(sweep, found)).collect(),
        sections: filled(sections),
    }
}
