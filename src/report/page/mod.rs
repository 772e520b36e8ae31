//! The document of a run: which parts it has, and what is in them. No string is made here that a renderer could make.

mod charts;
mod facts;
mod faults;

use super::View;
use super::conclusions::conclusions;
use super::document::{Block, Chart, Document, Section, Table, Value};
use super::table::grids::{OPEN_LEGEND, faults_legend, legend};
use super::table::{evidence, headline};
use crate::measure::Measure;
use crate::results::StoredRun;

/// A run that was read, and where from.
#[derive(Debug)]
pub struct Source<'a> {
    /// The name of its directory.
    pub name: &'a str,
    /// What it holds.
    pub stored: &'a StoredRun,
    /// The same as renderers see it.
    pub view: &'a View,
}

/// All that is said of a run.
#[must_use]
pub fn document(source: &Source<'_>) -> Document {
    let view = source.view;
    let sections = [
        environment(source),
        table(view),
        waits(source),
        by_contenders(source),
        requests(source),
        over_time(source),
        outcomes(source),
        fairness(source),
        section("servers", "Server counters", facts::servers(source)),
        section("faults", "Locks under faults", faults::blocks(view)),
        section("floor", "The floor", facts::floor(view)),
        section("verdicts", "Verdicts and their evidence", facts::verdicts(source)),
        section("notes", "Notes", notes(view)),
        section("reproduce", "How to reproduce this", facts::reproduce(source)),
        section("method", "Method in short", facts::method(source)),
    ];
    Document {
        title: view.title.clone(),
        conclusions: conclusions(source.stored, view),
        verdict: Value::from(&view.judged.verdict),
        subtitle: [Some(headline(view)), evidence(view)].into_iter().flatten().collect::<Vec<_>>().join(". "),
        strategies: view.strategies.clone(),
        sections: sections.into_iter().filter(|section| !section.blocks.is_empty()).collect(),
    }
}

/// The main figures of several runs below each other.
#[must_use]
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

/// A chart, or why there is none.
fn drawn(title: &str, chart: Result<Chart, String>) -> Block {
    chart.map_or_else(|why| Block::NoChart { title: title.to_owned(), why }, Block::Chart)
}

fn environment(source: &Source<'_>) -> Section {
    section("environment", "Where it was measured", facts::environment(source))
}

fn table(view: &View) -> Section {
    let mut blocks = Vec::new();
    if view.cells.is_empty() {
        blocks.push(Block::Text("No trial ran, so there is nothing to show.".to_owned()));
        return section("table", "Figures", blocks);
    }
    let block = |caption: &str, table: Table, legend: String| Block::Table {
        caption: caption.to_owned(),
        table,
        legend,
    };
    blocks.push(block("Each strategy with each number of contenders", Table::of(view), legend(view)));
    let open = Table::open(view);
    if !open.rows.is_empty() {
        blocks.push(block("What became of the arrivals", open, OPEN_LEGEND.to_owned()));
    }
    section("table", "Figures", blocks)
}

fn waits(source: &Source<'_>) -> Section {
    let mut blocks = vec![
        drawn("Waits by percentile", charts::by_percentile(source, Measure::Wait)),
        drawn("Handoffs by percentile", charts::by_percentile(source, Measure::Handoff)),
    ];
    // Nobody misses a chart of what the load does not have.
    let others = [Measure::ReadWait, Measure::WriteWait, Measure::Notification];
    blocks.extend(
        others
            .into_iter()
            .filter_map(|measure| charts::by_percentile(source, measure).ok())
            .map(Block::Chart),
    );
    section("waits", "Waits, handoffs and notifications", blocks)
}

fn by_contenders(source: &Source<'_>) -> Section {
    section("throughput", "Throughput", vec![drawn("Throughput", charts::throughput(source))])
}

fn requests(source: &Source<'_>) -> Section {
    let blocks = vec![
        drawn("Fan-out", charts::fan_out(source)),
        drawn("Requests and notifications", charts::requests(source)),
        drawn("Requests by kind", charts::kinds(source)),
    ];
    section("requests", "Fan-out, requests and notifications", blocks)
}

fn over_time(source: &Source<'_>) -> Section {
    section("time", "Over time", vec![drawn("Throughput over time", charts::over_time(source))])
}

fn outcomes(source: &Source<'_>) -> Section {
    section("outcomes", "Outcomes", facts::outcomes(source))
}

fn fairness(source: &Source<'_>) -> Section {
    section("fairness", "Fairness", vec![drawn("Shares of the acquisitions", charts::fairness(source))])
}

fn notes(view: &View) -> Vec<Block> {
    let mut blocks = Vec::new();
    let notes = view.notes();
    if !notes.is_empty() {
        blocks.push(Block::Notes(notes));
    }
    let accounting = Table::accounting(view);
    if !accounting.rows.is_empty() {
        blocks.push(Block::Table {
            caption: "What the client counted, what the cost model expects, and what the servers counted"
                .to_owned(),
            table: accounting,
            legend: "Sums over all repetitions; agree: in each of them.".to_owned(),
        });
    }
    if view.has_faults() {
        blocks.push(Block::Table {
            caption: "Each strategy under each fault".to_owned(),
            table: Table::faults(view),
            legend: faults_legend(view),
        });
    }
    blocks
}
