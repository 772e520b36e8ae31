//! The documents of a run and of a plan: which parts they have, and what is in them. No string is made here that a renderer could make.

mod ab;
mod calibration;
mod comparison;
mod facts;
mod plan;
mod sweep;

pub use ab::of_ab;
pub use calibration::of_calibration;
pub use comparison::of_comparison;
pub use plan::of_plan;
pub use sweep::of_sweep;

use super::View;
use super::chart;
use super::conclusions::{Certainty, Conclusion, Topic, conclusions};
use super::document::{Block, Chart, Document, Finding, Link, Section, Table, Tone, Value};
use super::summary::Gated;
use super::table::grids::{OPEN_LEGEND, faults_legend, legend};
use super::table::{evidence, gates_not_passed, gates_sentence, gates_table, headline};
use crate::answer::gate::overall;
use crate::results::StoredRun;
use crate::words::verdict::Verdict;

/// A run that was read, and where from.
#[derive(Debug)]
pub struct Source<'a> {
    pub name: &'a str,
    pub stored: &'a StoredRun,
    pub view: &'a View<'a>,
    pub gated: &'a Gated,
}

/// All that is said of a run.
pub fn document(source: &Source<'_>) -> Document {
    let view = source.view;
    let sections = [
        section(GATES.section, "Gates", gates(source.gated)),
        section("environment", "Where it was measured", facts::environment(source)),
        section("table", "Figures", figures(view)),
        section("waits", "Waits, handoffs and notifications", charts(view, "waits")),
        section("throughput", "Throughput", charts(view, "throughput")),
        section("requests", "Fan-out, requests and notifications", charts(view, "requests")),
        section("time", "Over time", charts(view, "time")),
        section("outcomes", "Outcomes", facts::outcomes(source)),
        section("fairness", "Fairness", charts(view, "fairness")),
        section("servers", "Server counters", facts::servers(source)),
        section("faults", "Locks under faults", charts(view, "faults")),
        section("floor", "The floor", facts::floor(view)),
        section("verdicts", "Verdicts and their evidence", facts::verdicts(source)),
        section("notes", "Notes", notes(view)),
        section("reproduce", "How to reproduce this", facts::reproduce(source)),
        section("method", "Method in short", facts::method(source)),
    ];
    Document {
        title: view.title.clone(),
        verdict: verdict(source),
        subtitle: subtitle(view),
        comes_to: "Conclusions",
        findings: failed(source.gated)
            .chain(conclusions(source.stored, view).into_iter().map(finding))
            .collect(),
        strategies: view.strategies.clone(),
        sections: filled(sections),
    }
}

const GATES: Link = Link { section: "gates", text: "the gates" };

/// What a build hangs on: the gates, where they say worse than the verdict on the locks.
fn verdict(source: &Source<'_>) -> Value {
    let judged = &source.view.judged.verdict;
    match (judged, overall(&source.gated.gates)) {
        (Verdict::Held | Verdict::Unknown(_), Verdict::Violated(_)) => {
            Value::verdict("gate FAILED", Tone::Bad)
        }
        (Verdict::Held, Verdict::Unknown(_)) => Value::verdict("gate unknown", Tone::Doubtful),
        _ => Value::from(judged),
    }
}

/// The gates that did not pass, as the first of what a run comes to.
fn failed(gated: &Gated) -> impl Iterator<Item = Finding> {
    let any = gates_table(&gated.gates).is_some();
    let gates = if any { gated.gates.as_slice() } else { &[] };
    gates_not_passed(gates).map(|(tone, sentence)| Finding {
        topic: "Gate".to_owned(),
        tone,
        sentence,
        shown_in: Some(GATES),
    })
}

fn gates(gated: &Gated) -> Vec<Block> {
    let Some(table) = gates_table(&gated.gates) else { return Vec::new() };
    let against = gated.baseline.as_ref().map(|path| format!("Compared with the baseline {path}."));
    let caption = format!("Gates: {}", gates_sentence(&gated.gates));
    let legend = "The worst first; each with what was observed where it did not pass or, where it passed, nearest to \
                  its limit.";
    let table = Block::Table { caption, table, legend: legend.to_owned() };
    against.map(Block::Text).into_iter().chain([table]).collect()
}

fn subtitle(view: &View<'_>) -> String {
    let said: Vec<String> = [Some(headline(view)), evidence(view)].into_iter().flatten().collect();
    format!("{}.", said.join(". ").trim_end_matches('.'))
}

fn finding(one: Conclusion) -> Finding {
    let tone = match (one.topic, one.certainty) {
        (Topic::MustNotBeUsed, _) => Tone::Bad,
        (Topic::Limits, _) | (_, Certainty::Unknown | Certainty::Ahead | Certainty::Tied) => Tone::Doubtful,
        (_, Certainty::Shown | Certainty::Same) => Tone::Good,
    };
    let topic = match one.topic {
        Topic::MustNotBeUsed => "Must not be used",
        Topic::Limits => "Note",
        Topic::Fastest => "Fastest",
        Topic::Lightest => "Lightest",
        Topic::Fairest => "Fairest",
        Topic::Choice => "What to use",
    };
    let link = Link { section: one.evidence.anchor(), text: one.evidence.link() };
    Finding { topic: topic.to_owned(), tone, sentence: one.sentence, shown_in: Some(link) }
}

/// The main figures of several runs below each other.
pub fn side_by_side(sources: &[Source<'_>]) -> Option<Section> {
    let (first, others) = sources.split_first()?;
    let with_run = |source: &Source<'_>, table: &Table| -> Vec<Vec<Value>> {
        let name =
            |row: &Vec<Value>| std::iter::once(source.name.into()).chain(row.iter().cloned()).collect();
        table.rows.iter().map(name).collect()
    };
    // With all columns, so that they are the same in each.
    let mut table = Table::whole(first.view);
    let mut rows = with_run(first, &table);
    rows.extend(others.iter().flat_map(|source| with_run(source, &Table::whole(source.view))));
    table.columns.insert(0, super::document::words("run"));
    table.labels += 1;
    let table = Table { rows, ..table }.without_idle_columns();
    let caption = "The main figures of each run".to_owned();
    let legend = "If the runs differ in ensemble, host or scenario, that alone makes their figures differ; \
                  zklockbench compare says whether a difference is more than noise."
        .to_owned();
    let blocks = vec![Block::Table { caption, table, legend }];
    (!others.is_empty()).then_some(Section { id: "runs", title: "The runs side by side".to_owned(), blocks })
}

fn section(id: &'static str, title: &str, blocks: Vec<Block>) -> Section {
    Section { id, title: title.to_owned(), blocks }
}

/// Those with something in them.
fn filled(sections: impl IntoIterator<Item = Section>) -> Vec<Section> {
    sections.into_iter().filter(|section| !section.blocks.is_empty()).collect()
}

/// These notes; `None` where there is none.
fn noted(notes: Vec<String>) -> Option<Block> {
    (!notes.is_empty()).then_some(Block::Notes(notes))
}

fn drawn(title: &str, chart: Result<Chart, String>) -> Block {
    chart.map_or_else(|why| Block::NoChart { title: title.to_owned(), why }, Block::from)
}

fn table(caption: &str, table: Table, legend: impl Into<String>) -> Option<Block> {
    let is_empty = table.rows.is_empty();
    (!is_empty).then(|| Block::Table { caption: caption.to_owned(), table, legend: legend.into() })
}

fn figures(view: &View<'_>) -> Vec<Block> {
    if view.cells.is_empty() {
        return vec![Block::Text("No trial ran, so there is nothing to show.".to_owned())];
    }
    let all = table("Each strategy with each number of contenders", Table::of(view), legend(view));
    let open = table("What became of the arrivals", Table::open(view), OPEN_LEGEND);
    all.into_iter().chain(open).collect()
}

/// The charts of that section, and why some are missing.
fn charts(view: &View<'_>, section: &str) -> Vec<Block> {
    let all = chart::of_a_run().filter(|chart| chart.section == section);
    all.filter_map(|chart| Some(drawn(chart.title, chart.of(view)?))).collect()
}

fn notes(view: &View<'_>) -> Vec<Block> {
    let mut blocks: Vec<Block> = noted(view.notes()).into_iter().collect();
    blocks.extend(table(
        "What the client counted, what the cost model expects, and what the servers counted",
        Table::accounting(view),
        "Sums over all repetitions; agree: in each of them.",
    ));
    if view.has_faults() {
        blocks.extend(table("Each strategy under each fault", Table::faults(view), faults_legend(view)));
    }
    blocks
}
