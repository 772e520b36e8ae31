//! The documents of runs, plans, comparisons, sweeps and calibrations: their sections and contents. Strings are left to the
//! renderers wherever possible.

mod calibration;
mod compared;
mod facts;
mod learned;
mod plan;
mod sweep;

pub use calibration::of_calibration;
pub use compared::{of_ab, of_comparison};
pub use learned::of_learned;
pub use plan::of_plan;
pub use sweep::of_sweep;

use super::conclusions::{Certainty, Conclusion, Evidence, Topic};
use super::document::{Block, Chart, Document, ExplainedTable, Finding, Link, Section, Table, Tone, Value};
use super::picture::headline as headline_of;
use super::table::counts::accounting;
use super::table::grids::tables;
use super::table::{basis, gates_not_passed, gates_sentence, gates_table, worth_showing};
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
    let sections = [
        section(GATES.section, "Gates", gates(report.gated)),
        section("violations", "What happened", violations(view)),
        section("table", "Figures", figures(view)),
        section("total-time", "Total time", charts(view, "total-time")),
        section("faults", "Locks under faults", charts(view, "faults")),
        section("waits", "Waits, handoffs and notifications", charts(view, "waits")),
        section("throughput", "Throughput", charts(view, "throughput")),
        section("requests", "Fan-out, requests and notifications", charts(view, "requests")),
        section("time", "Over time", charts(view, "time")),
        section("outcomes", "Outcomes", facts::outcomes(source)),
        section("fairness", "Fairness", charts(view, "fairness")),
        section("servers", "Server counters", facts::servers(source)),
        section("floor", "The floor", facts::floor(view)),
        section("environment", "Where it was measured", facts::environment(source)),
        section("verdicts", "Verdicts and their evidence", facts::verdicts(source)),
        section("notes", "Notes", notes(view)),
        section("reproduce", "How to reproduce this", facts::reproduce(source)),
        section("method", "Method in short", facts::method(source)),
    ];
    Document {
        title: view.title.clone(),
        about: view.question.clone().unwrap_or_default(),
        verdict: report.headline.verdict.clone(),
        headline: headline(report),
        comes_to: "Conclusions",
        findings: not_passed(report.gated)
            .skip(usize::from(report.headline.says == Says::Gate))
            .chain(report.other_conclusions().iter().map(finding))
            .map(|finding| not_praised(finding, &view.judged.verdict))
            .collect(),
        strategies: view.strategies.clone(),
        sections: filled(sections.into_iter().filter(|section| !has_only_reasons(section))),
    }
}

/// Whether a section has no chart, only why. The notes have what matters of that.
fn has_only_reasons(section: &Section) -> bool {
    section.blocks.iter().all(|block| matches!(block, Block::NoChart { .. }))
}

/// The finding, without the colour of good news if a lock of the run is violated.
fn not_praised(finding: Finding, verdict: &Verdict) -> Finding {
    match (verdict, finding.tone) {
        (Verdict::Violated(_), Tone::Good) => Finding { tone: Tone::Plain, ..finding },
        _ => finding,
    }
}

const GATES: Link = Link { section: "gates", text: "the gates" };

fn headline(report: &RunReport<'_>) -> Finding {
    let (sentence, tone) = (report.headline.text(), report.headline.verdict.tone());
    match (report.headline.says, report.conclusions.first()) {
        (Says::Conclusions(_), Some(first)) => Finding { sentence, ..finding(first) },
        (Says::Gate, _) => Finding::new("Gate", tone, sentence, Some(GATES)),
        _ => Finding::new("Outcome", tone, sentence, Some(Evidence::Verdicts.link())),
    }
}

fn not_passed(gated: &Gated) -> impl Iterator<Item = Finding> {
    gates_not_passed(worth_showing(&gated.gates).unwrap_or_default())
        .map(|gate| Finding::new(format!("Gate {}", gate.word), gate.tone, gate.sentence, Some(GATES)))
}

fn gates(gated: &Gated) -> Vec<Block> {
    let Some(table) = gates_table(&gated.gates) else { return Vec::new() };
    let against = gated.baseline.as_ref().map(|path| format!("Compared with the baseline {path}."));
    let caption = format!("Gates: {}", gates_sentence(&gated.gates));
    let legend = "The worst first; each with the observation that failed or, if it passed, the one nearest \
        to its limit.";
    let table = ExplainedTable::new(caption, table, legend);
    against.map(Block::Text).into_iter().chain([Block::Table(table)]).collect()
}

fn finding(one: &Conclusion) -> Finding {
    let tone = match (one.topic, one.certainty) {
        (Topic::MustNotBeUsed, _) => Tone::Bad,
        // Any of several strategies is a good choice.
        (Topic::Choice, Certainty::Tied) => Tone::Good,
        (Topic::Limits, _) | (_, Certainty::Unknown | Certainty::Tied) => Tone::Doubtful,
        (_, Certainty::Shown | Certainty::Same) => Tone::Good,
    };
    let topic = match one.topic {
        Topic::MustNotBeUsed => "Must not be used",
        Topic::Limits => "Note",
        Topic::Faults => "Under faults",
        Topic::Fastest => "Fastest",
        Topic::Lightest => "Lightest",
        Topic::Fairest => "Fairest",
        Topic::Choice => "What to use",
    };
    Finding::new(topic, tone, one.sentence.clone(), Some(one.evidence.link()))
}

/// Main metrics of several runs: for each, its name and its [whole](Table::whole) table. The columns are the same in all.
pub fn side_by_side(runs: Vec<(String, Table)>) -> Option<Section> {
    let count = runs.len();
    let mut table: Option<Table> = None;
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for (name, mut whole) in runs {
        let named = |row| std::iter::once(name.as_str().into()).chain(row).collect();
        rows.extend(std::mem::take(&mut whole.rows).into_iter().map(named));
        table.get_or_insert(whole);
    }
    let mut table = table?;
    table.columns.insert(0, super::document::words("run"));
    table.labels += 1;
    let table = Table { rows, ..table }.without_idle_columns();
    let legend = "If the runs differ in ensemble, host or scenario, that alone makes their metrics differ; \
        zklockbench compare shows whether a difference is more than noise.";
    let blocks = vec![Block::Table(ExplainedTable::new("The main metrics of each run", table, legend))];
    (count > 1).then_some(Section { id: "runs", title: "The runs side by side".to_owned(), blocks })
}

pub fn section(id: &'static str, title: &str, blocks: impl IntoIterator<Item = Block>) -> Section {
    Section { id, title: title.to_owned(), blocks: blocks.into_iter().collect() }
}

pub fn filled(sections: impl IntoIterator<Item = Section>) -> Vec<Section> {
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

pub fn noted(notes: Vec<String>) -> Option<Block> {
    (!notes.is_empty()).then_some(Block::Notes(notes))
}

fn drawn(title: &str, chart: Result<Chart, String>) -> Block {
    chart.map_or_else(|why| Block::NoChart { title: title.to_owned(), why }, Block::from)
}

pub fn table(caption: &str, table: Table, legend: impl Into<String>) -> Option<Block> {
    (!table.rows.is_empty()).then(|| Block::Table(ExplainedTable::new(caption, table, legend)))
}

fn figures(view: &View<'_>) -> Vec<Block> {
    if view.cells.is_empty() {
        return vec![Block::Text("No trial ran, so there is nothing to show.".to_owned())];
    }
    let below = basis(view).into_iter().map(Block::Text);
    tables(view).into_iter().map(Block::Table).chain(below).collect()
}

/// Charts of that section, and the reasons for missing ones.
fn charts(view: &View<'_>, section: &str) -> impl Iterator<Item = Block> {
    let all = chart::of_a_run().filter(move |chart| chart.section == section);
    all.filter_map(move |chart| Some(drawn(chart.title, chart.of(view)?)))
}

/// Maximum number of violations drawn for each strategy.
const DRAWN: usize = 2;

/// The first violations of each strategy.
fn violations(view: &View<'_>) -> impl Iterator<Item = Block> {
    (0..view.strategies.len()).flat_map(|strategy| {
        view.timelines_of(strategy).take(DRAWN).map(|(trial, timeline)| {
            let caption = format!("{}: {}.", trial.name(), headline_of(timeline));
            Block::Picture { caption, picture: timeline.into() }
        })
    })
}

fn notes(view: &View<'_>) -> impl Iterator<Item = Block> {
    let counts = Some(accounting(view)).filter(|grid| !grid.is_empty()).map(Block::from);
    noted(view.notes()).into_iter().chain(counts)
}
