//! The reference page of scenario keys, generated from the parser's definitions.

use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::catalog::{LockCard, Param, ParamKind};
use zklockbench_scenario::fields::{
    Field, Form, PROCESSES_WITH_RATE, Section, distributions, fields_of, processes,
};

/// Renders `docs/reference/scenario-keys.md`.
pub fn page(locks: &[LockCard], kinds: &[FaultCard]) -> String {
    let tables = [
        ("{top}", keys(Section::Top)),
        ("{ensemble}", keys(Section::Ensemble)),
        ("{client}", keys(Section::Client)),
        ("{fault}", keys(Section::Fault)),
        ("{gate}", keys(Section::Gate)),
        ("{distributions}", table("distribution | draws", distributions().iter().map(distribution))),
        ("{arrivals}", table("arrivals | rate | how they arrive", processes().iter().map(process))),
        ("{strategies}", strategies(locks)),
        ("{kinds}", table("fault | what | target | duration", kinds.iter().map(kind))),
        ("{parameters}", parameters(kinds)),
    ];
    tables.iter().fold(include_str!("scenario-keys.txt").to_owned(), |page, (mark, table)| {
        page.replace(mark, table.trim_end())
    })
}

/// A Markdown table. `|` separates the headings and the cells of each row.
fn table(headings: &str, rows: impl Iterator<Item = String>) -> String {
    let rule = "|---".repeat(headings.split('|').count());
    rows.fold(format!("| {headings} |\n{rule}|\n"), |table, row| table + "| " + &row + " |\n")
}

fn keys(section: Section) -> String {
    let row = |field: &Field| {
        let need = match (field.default(), field.absent()) {
            (Some(text), _) => format!("`{}`", cell(text)),
            (None, Some(meaning)) => format!("absent: {}", cell(meaning)),
            (None, None) => "required".to_owned(),
        };
        format!("`{}` | {} | {need} | {}", field.name, cell(field.words()), cell(field.doc()))
    };
    table("key | value | default | meaning", fields_of(section).map(row))
}

fn distribution(form: &Form) -> String {
    format!("`{}` | {}", form.example, form.doc)
}

fn process(form: &Form) -> String {
    let takes_rate = PROCESSES_WITH_RATE.contains(&form.name.as_str());
    let rate = if takes_rate { "`rate` or `rate_each`" } else { "its own" };
    format!("`{}` | {rate} | {}", form.example, form.doc)
}

fn strategies(cards: &[LockCard]) -> String {
    let rows = cards.iter().flat_map(|card| {
        let alone = card.params.is_empty().then(|| format!("`{}` | | | | {}", card.name, cell(card.summary)));
        let row = |param: &Param| {
            let (doc, only) = (cell(param.doc), card.only_with(param));
            format!(
                "`{}` | `{}` | {} | `{}` | {doc}{only}",
                card.name,
                param.name,
                values(param),
                param.default
            )
        };
        alone.into_iter().chain(card.params.iter().map(row)).collect::<Vec<_>>()
    });
    table("strategy | parameter | value | default | meaning", rows)
}

fn parameters(cards: &[FaultCard]) -> String {
    let params = cards.iter().flat_map(|card| card.params.iter().map(move |param| (card.name, param)));
    let row = |(name, param): (&str, &Param)| {
        format!("`{name}` | `{}` | {} | `{}` | {}", param.name, values(param), param.default, cell(param.doc))
    };
    table("fault | parameter | value | default | meaning", params.map(row))
}

fn kind(card: &FaultCard) -> String {
    let default = |word: &str| if word == card.default_target { " (default)" } else { "" };
    let words: Vec<_> = card.words().iter().map(|word| format!("`{word}`{}", default(word))).collect();
    let target = if words.is_empty() { "-".to_owned() } else { words.join(", ") };
    let duration = if card.ends == Ends::Healed { "required" } else { "-" };
    format!("`{}` | {} | {target} | {duration}", card.name, cell(card.summary))
}

fn values(param: &Param) -> String {
    match param.kind {
        ParamKind::Duration => "duration".to_owned(),
        ParamKind::Bool => "`true` or `false`".to_owned(),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            let words = param.kind.words().into_iter().map(|word| format!("`{word}`"));
            words.collect::<Vec<_>>().join(", ")
        }
        ParamKind::Count(least, most) => format!("{least} to {most}"),
        ParamKind::CountWithin(least, most, whole) => format!("{least} to {most}, at most `{whole}`"),
    }
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
