//! The document of a learned load.

use super::facts::{fact, program};
use super::{filled, noted, section};
use crate::chart;
use crate::document::{Block, Document, Finding, Link, Tone, Value};
use crate::table::learned::{endings, extent, families, headline, others, remarks, sentence};
use zklockbench_core::units::capitalised;
use zklockbench_learn::{Learned, ScenarioFile};

const FAMILIES: Link = Link { section: "families", text: "lock families" };

pub fn of_learned(learned: &Learned) -> Document {
    let tables = [families(learned), endings(learned)].into_iter().filter(|grid| !grid.is_empty());
    let notes = remarks(learned).iter().map(|note| capitalised(note.trim_start_matches("! "))).collect();
    let others = Some(others(learned)).filter(|grid| !grid.is_empty()).map(Block::from);
    let unknowable = learned.unknowable.iter().map(|fact| capitalised(fact)).collect();
    let facts = Block::Facts(vec![
        fact("Read", extent(learned)),
        fact("From", humantime::format_rfc3339_seconds(learned.source.from).to_string()),
        fact("To", humantime::format_rfc3339_seconds(learned.source.to).to_string()),
        program(&learned.tool_version, learned.tool_commit.as_deref()),
    ]);
    let sections = [
        section(FAMILIES.section, "Lock families", tables.map(Block::from)),
        section("charts", "Over time, by percentile and by lock", charts(learned)),
        section("others", "Ephemeral nodes that are not locks", others),
        section("notes", "Notes", noted(notes)),
        section("scenarios", "Scenarios with these loads", learned.scenarios.iter().flat_map(scenario)),
        section("unknowable", "What cannot be learned this way", noted(unknowable)),
        section("source", "Where it is from", [facts]),
    ];
    let finding = |family| Finding::new("Load", Tone::Plain, sentence(family), Some(FAMILIES));
    Document {
        title: "Locks of a running ensemble".to_owned(),
        about: extent(learned),
        verdict: Value::verdict("learned", Tone::Plain),
        headline: Finding::new("Found", Tone::Plain, headline(learned), Some(FAMILIES)),
        comes_to: "Findings",
        findings: learned.families.iter().take(FINDINGS).map(finding).collect(),
        strategies: learned.families.iter().map(|family| family.name.clone()).collect(),
        sections: filled(sections),
    }
}

const FINDINGS: usize = 6;

fn charts(learned: &Learned) -> impl Iterator<Item = Block> {
    chart::of_learned(learned).into_iter().map(Block::from)
}

fn scenario(scenario: &ScenarioFile) -> [Block; 1] {
    let list = |facts: &[String]| if facts.is_empty() { "nothing".to_owned() } else { facts.join("; ") };
    [Block::Facts(vec![
        fact("Scenario", format!("{} ({})", scenario.file, scenario.family)),
        fact("Learned", list(&scenario.learned)),
        fact("Assumed", list(&scenario.assumed)),
    ])]
}
