//! The documents of comparisons: of stored runs, and A/B.

use super::facts::{fact, place, program};
use super::{drawn, filled, noted, section};
use crate::chart;
use crate::document::{Block, Document, Finding, Link, Tone, Value};
use crate::table::{ab, comparison};
use zklockbench_analysis::ab::{AbFile, SideRecord, Turn};
use zklockbench_analysis::compare::{Comparison, ComparisonVerdict, Role, Row, Side};
use zklockbench_core::units::capitalised;
use zklockbench_core::verdict::Verdict;

const RATIOS: Link = Link { section: "ratios", text: "ratios" };

pub fn of_comparison(base: &Side, new: &Side, compared: &Comparison) -> Document {
    let figures = Some(comparison::grid(compared, |_| true)).filter(|grid| !grid.is_empty()).map(Block::from);
    let percentiles = chart::percentiles_compared(base, new, compared);
    let faster = comparison::faster(compared).into_iter().map(Block::Text);
    let sections = [
        section(RATIOS.section, "Ratios", [drawn("Ratios", chart::ratios_compared(compared))]),
        section("figures", "Figures", figures),
        section("waits", "Waits by percentile", [drawn("Waits by percentile", percentiles)]),
        section("faster", "Within the new", faster),
        section("notes", "Notes", noted(comparison::notes(compared))),
    ];
    let verdict = match compared.conclusion.regression.verdict("") {
        Verdict::Held => Value::verdict("nothing regressed", Tone::Good),
        Verdict::Violated(_) => Value::verdict("regressed", Tone::Bad),
        Verdict::Unknown(_) => Value::verdict("inconclusive", Tone::Doubtful),
    };
    let limits =
        comparison::forced(compared).map(|sentence| Finding::new("Limits", Tone::Doubtful, sentence, None));
    Document {
        title: "Comparison of stored runs".to_owned(),
        about: comparison::sides(compared).join("; "),
        headline: Finding::new(
            "New against base",
            verdict.tone(),
            format!("{}.", compared.conclusion.sentence),
            Some(RATIOS),
        ),
        verdict,
        comes_to: "Conclusions",
        findings: limits.chain(compared.rows.iter().filter_map(of_row)).collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

fn of_row(row: &Row) -> Option<Finding> {
    let ratio = row.compared.ratio;
    let ratio =
        ratio.map_or_else(String::new, |one| format!(": {} times the base's", comparison::times(one.value)));
    let sentence = format!("{} of {}{ratio}.", row.figure, row.cell.name());
    finding(row.compared.verdict, sentence).filter(|_| row.role == Role::Decides)
}

/// A metric with a certain difference.
fn finding(verdict: ComparisonVerdict, sentence: String) -> Option<Finding> {
    let tone = Value::from(verdict).tone();
    matches!(tone, Tone::Good | Tone::Bad)
        .then(|| Finding::new(capitalised(verdict.word()), tone, sentence, Some(RATIOS)))
}

pub fn of_ab(file: &AbFile) -> Document {
    let figures = Some(ab::grid(file, |_| true)).filter(|grid| !grid.is_empty()).map(Block::from);
    let counted = ab::by_kind(file).map(Block::from);
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
        section(RATIOS.section, "Ratios", charts.map(|(title, chart)| drawn(title, chart))),
        section("figures", "Figures", figures.into_iter().chain(counted)),
        section("notes", "Notes", noted(ab::notes(file))),
        section("environment", "Where it was measured", measured),
        section("reproduce", "How to reproduce this", reproduce),
    ];
    let (verdict, _) = ab::outcome(file);
    let differing = file.comparisons.iter().filter_map(|one| {
        let ratio = ab::ratio(one, one.ratio);
        finding(one.verdict, format!("{} of {}: B/A {ratio}.", one.figure, one.cells))
    });
    Document {
        title: format!("A/B comparison: {}", file.scenario),
        about: ab::both_sides(file).join("; "),
        headline: Finding::new("B against A", verdict.tone(), ab::ab_headline(file), Some(RATIOS)),
        verdict,
        comes_to: "Conclusions",
        findings: differing.collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}
