//! The document of an A/B comparison.

use super::facts::{fact, place, program};
use super::{drawn, filled, noted, section};
use crate::answer::ab::{AbFile, Comparison, SideRecord, Turn};
use crate::report::chart;
use crate::report::document::{Block, Document, Finding, Link, Tone, Value};
use crate::report::table::ab::{ab_headline, by_kind, grid, legend, notes, outcome, ratio, sides};
use crate::words::units::capitalised;

const RATIOS: Link = Link { section: "ratios", text: "ratios" };

pub fn of_ab(file: &AbFile) -> Document {
    let table = Block::Table {
        caption: "Each figure of each combination".to_owned(),
        table: grid(file),
        legend: legend(file),
    };
    let counted = by_kind(file).map(|(table, legend)| Block::Table {
        caption: "Requests by kind".to_owned(),
        table,
        legend,
    });
    let figures = (!file.comparisons.is_empty()).then_some(table).into_iter().chain(counted);
    let charts = [("Ratios", chart::ab_ratios(file)), ("Ratios block by block", chart::ab_blocks(file))];
    let (a, b) = (&file.sides.a, &file.sides.b);
    let same = a.ensemble.connect == b.ensemble.connect;
    let mut measured = vec![Block::Facts(place(&a.ensemble, &file.host))];
    measured.extend((!same).then(|| Block::Facts(place(&b.ensemble, &file.host))));
    let scenario = |turn: Turn, side: &SideRecord| Block::Code {
        caption: format!("The scenario of {}:", turn.title()),
        text: side.scenario_text.clone(),
    };
    let reproduce = vec![
        scenario(Turn::A, a),
        scenario(Turn::B, b),
        Block::Facts(vec![
            fact("Measured", humantime::format_rfc3339_seconds(file.started_at).to_string()),
            fact("Seed", file.seed.to_string()),
            program(&file.tool_version, file.tool_commit.as_deref()),
        ]),
    ];
    let sections = [
        section(RATIOS.section, "Ratios", charts.map(|(title, chart)| drawn(title, chart)).into()),
        section("figures", "Figures", figures.collect()),
        section("notes", "Notes", noted(notes(file)).into_iter().collect()),
        section("environment", "Where it was measured", measured),
        section("reproduce", "How to reproduce this", reproduce),
    ];
    Document {
        title: format!("A/B comparison: {}", file.scenario),
        verdict: outcome(file).0,
        about: [sides(Turn::A, &a.differs), sides(Turn::B, &b.differs)].join("; "),
        headline: conclusion(file),
        comes_to: "Conclusions",
        findings: file.comparisons.iter().filter_map(finding).collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

fn conclusion(file: &AbFile) -> Finding {
    Finding {
        topic: "B against A".to_owned(),
        tone: outcome(file).0.tone(),
        sentence: ab_headline(file),
        shown_in: Some(RATIOS),
    }
}

/// A figure that differs for sure.
fn finding(one: &Comparison) -> Option<Finding> {
    let tone = Value::from(one.verdict).tone();
    matches!(tone, Tone::Good | Tone::Bad).then(|| Finding {
        topic: capitalised(one.verdict.word()),
        tone,
        sentence: format!("{} of {}: B/A {}.", one.figure, one.cells, ratio(one, one.ratio)),
        shown_in: Some(RATIOS),
    })
}
