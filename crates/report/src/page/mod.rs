//! Builds the document of a run from its sections, and parts of other documents.

mod facts;

pub use super::ab::of_ab;
pub use super::calibration::of_calibration;
pub use super::comparison::of_comparison;
pub use super::learned::of_learned;
pub use super::plan::of_plan;
pub use super::sweep::of_sweep;
pub(super) use facts::{fact, measured, place, program, when};

use super::conclusions::{Certainty, Conclusion, Evidence, Topic};
use super::document::{Block, Chart, Document, Finding, Section, Table, Tone, Value, words};
use super::picture::headline as headline_of;
use super::table::counts::accounting;
use super::table::{GATES, basis, gates_not_passed, gates_sentence, gates_table, tables, worth_showing};
use super::{Gated, RunReport, Says, View, chart};
use zklockbench_core::verdict::Verdict;
use zklockbench_results::StoredRun;

#[derive(Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub stored: &'a StoredRun,
    pub view: &'a View<'a>,
}

pub fn document(source: &Source<'_>, report: &RunReport<'_>) -> Document {
    let view = source.view;
    let mut rest = chart::of_run(view);
    let mut charts = |section: &str| -> Vec<Block> {
        rest.extract_if(.., |one| one.section == section).map(|one| drawn(one.title, one.chart)).collect()
    };
    let sections = [
        section(GATES.section, "Gates", gates(report.gated)),
        section("violations", "What happened", violations(view)),
        section("table", "Figures", figures(view)),
        section("total-time", "Total time", charts("total-time")),
        section("faults", "Locks under faults", charts("faults")),
        section("waits", "Waits, handoffs and notifications", charts("waits")),
        section("throughput", "Throughput", charts("throughput")),
        section("requests", "Fan-out, requests and notifications", charts("requests")),
        section("time", "Over time", charts("time")),
        section("outcomes", "Outcomes", [facts::outcomes(source)]),
        section("fairness", "Fairness", charts("fairness")),
        section("servers", "Server counters", [facts::servers(source)]),
        section("floor", "The floor", facts::floor(view)),
        section("environment", "Measurement environment", facts::environment(source)),
        section("verdicts", "Verdicts and their evidence", [facts::verdicts(source)]),
        section("notes", "Notes", noted(view.notes()).into_iter().chain([accounting(view).into()])),
        section("reproduce", "How to reproduce this", facts::reproduce(source)),
        section("method", "Method in short", facts::method(source)),
    ];
    // A section that consists only of reasons for missing charts is omitted.
    let has_contents = |one: &Section| !one.blocks.iter().all(|block| matches!(block, Block::NoChart { .. }));
    // If a lock of the run broke a promise, no finding has a positive tone.
    let is_violated = matches!(view.judged.verdict, Verdict::Violated(_));
    let dampened = |one: Finding| match one.tone {
        Tone::Good if is_violated => Finding { tone: Tone::Plain, ..one },
        _ => one,
    };
    let not_passed = gates_not_passed(worth_showing(&report.gated.gates).unwrap_or_default());
    Document {
        title: view.title.clone(),
        about: view.question.clone().unwrap_or_default(),
        verdict: report.headline.verdict.clone(),
        headline: headline(report),
        comes_to: "Conclusions",
        findings: not_passed
            .skip(usize::from(report.headline.says == Says::Gate))
            .chain(report.other_conclusions().iter().map(finding))
            .map(dampened)
            .collect(),
        strategies: view.strategies.clone(),
        sections: filled(sections.into_iter().filter(has_contents)),
    }
}

fn headline(report: &RunReport<'_>) -> Finding {
    let (sentence, tone) = (report.headline.text(), report.headline.verdict.tone());
    match (report.headline.says, report.conclusions.first()) {
        (Says::Conclusions(_), Some(first)) => Finding { sentence, ..finding(first) },
        (Says::Gate, _) => Finding::new("Gate", tone, sentence, Some(GATES)),
        _ => Finding::new("Outcome", tone, sentence, Some(Evidence::Verdicts.link())),
    }
}

fn gates(gated: &Gated) -> impl Iterator<Item = Block> {
    let table = gates_table(&gated.gates).captioned(
        format!("Gates: {}", gates_sentence(&gated.gates)),
        "Worst first, each with the observation that failed or, if the gate passed, the one nearest to its limit.",
    );
    let against = gated.baseline.as_ref().filter(|_| !table.is_empty());
    let against = against.map(|path| Block::Text(format!("Compared with the baseline {path}.")));
    against.into_iter().chain([table.into()])
}

fn finding(one: &Conclusion) -> Finding {
    let tone = match (one.topic, one.certainty) {
        (Topic::MustNotBeUsed, _) => Tone::Bad,
        // Any of the tied strategies is a good choice.
        (Topic::Choice, Certainty::Tied) => Tone::Good,
        (Topic::Limits, _) | (_, Certainty::Unknown | Certainty::Tied) => Tone::Doubtful,
        (_, Certainty::Shown | Certainty::Same) => Tone::Good,
    };
    Finding::new(one.topic.title(), tone, one.sentence.clone(), Some(one.evidence.link()))
}

/// Returns the main metrics of several runs, given the name and the [whole](Table::whole) table of each.
pub fn side_by_side(runs: Vec<(String, Table)>) -> Option<Section> {
    let first = runs.first().filter(|_| runs.len() > 1)?.1.clone();
    let columns = [words("run")].into_iter().chain(first.columns).collect();
    let rows = runs.into_iter().flat_map(|(name, table)| {
        table.rows.into_iter().map(move |row| [Value::from(name.as_str())].into_iter().chain(row).collect())
    });
    let table = Table::new(columns, first.labels + 1, rows.collect()).without_idle_columns().captioned(
        "The main metrics of each run",
        "Differences in ensemble, host or scenario also affect the metrics; zklockbench compare \
         shows whether a difference is more than noise.",
    );
    Some(section("runs", "The runs side by side", [table]))
}

/// Returns a section with these blocks, without empty tables.
pub fn section<B: Into<Block>>(id: &'static str, title: &str, all: impl IntoIterator<Item = B>) -> Section {
    let is_filled = |block: &Block| !matches!(block, Block::Table(table) if table.is_empty());
    let blocks = all.into_iter().map(Into::into).filter(is_filled).collect();
    Section { id, title: title.to_owned(), blocks }
}

pub fn filled(sections: impl IntoIterator<Item = Section>) -> Vec<Section> {
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

pub fn noted(notes: Vec<String>) -> Option<Block> {
    (!notes.is_empty()).then_some(Block::Notes(notes))
}

pub(super) fn drawn(title: &str, chart: Result<Chart, String>) -> Block {
    chart.map_or_else(|why| Block::NoChart { title: title.to_owned(), why }, Block::from)
}

fn figures(view: &View<'_>) -> Vec<Block> {
    if view.cells.is_empty() {
        return vec![Block::Text("No trial ran, so there is nothing to show.".to_owned())];
    }
    let below = basis(view).into_iter().map(Block::Text);
    tables(view).into_iter().map(Block::Table).chain(below).collect()
}

/// Maximum number of violations drawn for each strategy.
const DRAWN: usize = 2;

/// Returns the first violations of each strategy.
fn violations(view: &View<'_>) -> impl Iterator<Item = Block> {
    (0..view.strategies.len()).flat_map(|strategy| {
        view.timelines_of(strategy).take(DRAWN).map(|(trial, timeline)| {
            let caption = format!("{}: {}.", trial.name(), headline_of(timeline));
            Block::Picture { caption, picture: timeline.into() }
        })
    })
}
