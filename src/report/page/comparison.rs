//! The document of a comparison of stored runs.

use super::{drawn, filled, noted, section, table};
use crate::answer::compare::{Comparison, Role, Row, Side};
use crate::report::chart;
use crate::report::document::{Block, Document, Finding, Link, Tone, Value};
use crate::report::table::comparison::{faster, forced, grid, legend, notes, sides, times};
use crate::words::units::capitalised;
use crate::words::verdict::Verdict;

const RATIOS: Link = Link { section: "ratios", text: "ratios" };

pub fn of_comparison(base: &Side, new: &Side, compared: &Comparison) -> Document {
    let figures = table("Each figure of each combination", grid(compared, |_| true), legend(compared));
    let percentiles = chart::percentiles_compared(base, new, compared);
    let sections = [
        section(RATIOS.section, "Ratios", vec![drawn("Ratios", chart::ratios_compared(compared))]),
        section("figures", "Figures", figures.into_iter().collect()),
        section("waits", "Waits by percentile", vec![drawn("Waits by percentile", percentiles)]),
        section("faster", "Within the new", faster(compared).into_iter().map(Block::Text).collect()),
        section("notes", "Notes", noted(notes(compared)).into_iter().collect()),
    ];
    Document {
        title: "Comparison of stored runs".to_owned(),
        verdict: verdict(compared),
        about: sides(compared).join("; "),
        headline: conclusion(compared),
        comes_to: "Conclusions",
        findings: forced(compared).map(doubtful).chain(compared.rows.iter().filter_map(finding)).collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

fn verdict(compared: &Comparison) -> Value {
    match compared.conclusion.regression.verdict("") {
        Verdict::Held => Value::verdict("nothing regressed", Tone::Good),
        Verdict::Violated(_) => Value::verdict("regressed", Tone::Bad),
        Verdict::Unknown(_) => Value::verdict("inconclusive", Tone::Doubtful),
    }
}

fn conclusion(compared: &Comparison) -> Finding {
    Finding {
        topic: "New against base".to_owned(),
        tone: verdict(compared).tone(),
        sentence: format!("{}.", compared.conclusion.sentence),
        shown_in: Some(RATIOS),
    }
}

fn doubtful(sentence: String) -> Finding {
    Finding { topic: "Limits".to_owned(), tone: Tone::Doubtful, sentence, shown_in: None }
}

/// A figure that differs for sure.
fn finding(row: &Row) -> Option<Finding> {
    let tone = Value::from(row.compared.verdict).tone();
    let is_clear = row.role == Role::Decides && matches!(tone, Tone::Good | Tone::Bad);
    is_clear.then(|| {
        let ratio = row
            .compared
            .ratio
            .map_or_else(String::new, |one| format!(": {} times the base's", times(one.ratio)));
        Finding {
            topic: capitalised(row.compared.verdict.word()),
            tone,
            sentence: format!("{} of {}{ratio}.", row.figure, row.cell.name()),
            shown_in: Some(RATIOS),
        }
    })
}
