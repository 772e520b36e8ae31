//! The document as one HTML file: it needs no network and no script, though a script adds values under the pointer and
//! tables that can be sorted. Text from outside, such as a strategy's label, is shown as text.

mod block;
mod svg;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::{Document, Finding, Section, Tone, Value};
use super::draw::look::dash;
use crate::words::units::harmless;

/// Colours, sizes and what is switched off where.
pub const STYLE: &str = include_str!("style.css");
/// Values under the pointer, tables that can be sorted.
const SCRIPT: &str = include_str!("script.js");

/// The page of these runs; `between` is what stands before the first of several.
pub fn page(documents: &[Document], between: Option<&Section>) -> String {
    let titles: Vec<&str> = documents.iter().map(|document| document.title.as_str()).collect();
    let most = documents.iter().map(|document| document.strategies.len()).max().unwrap_or(0);
    // A chart may have two sides where a document names no strategies.
    let looks: String = (0..most.max(2)).map(look).collect();
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy"
                    content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";
                link rel="icon" href="data:,";
                title { (text(&titles.join(", "))) " - zklockbench" }
                style { (PreEscaped(STYLE)) (PreEscaped(&looks)) }
            }
            body {
                (svg::markers())
                main {
                    @if let Some(section) = between {
                        header.top { h1 { "zklockbench: " (documents.len()) " runs" } }
                        (block::section(section, "all"))
                    }
                    @for (document, number) in documents.iter().zip(1_usize..) {
                        (run(document, &format!("r{number}")))
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    markup.into_string()
}

/// How the strategy at that place looks: one of eight colours and the dash pattern that it has in every file, so that no two
/// of the first forty look the same.
fn look(strategy: usize) -> String {
    let dash: Vec<String> = dash(strategy).iter().map(f64::to_string).collect();
    let dash = if dash.is_empty() { "none".to_owned() } else { dash.join(" ") };
    format!(".k{strategy}{{--c:var(--c{});--dash:{dash}}}", strategy % 8)
}

/// Text from outside, without characters that turn round the order of others. Lines stay lines.
fn text(words: &str) -> String {
    words
        .split('\n')
        .map(|line| line.chars().map(harmless).collect::<String>())
        .collect::<Vec<_>>()
        .join("\n")
}

fn run(document: &Document, id: &str) -> Markup {
    let off: String = (0..document.strategies.len())
        .map(|at| format!("#{id}:has(#{id}-k{at}:not(:checked)) .s.k{at}{{display:none}}"))
        .collect();
    html! {
        article #(id) {
            style { (PreEscaped(off)) }
            header.top {
                h1 { (text(&document.title)) " " (badge(&document.verdict)) }
                @if !document.about.is_empty() { p.about { (text(&document.about)) } }
                ul.headline { (finding(&document.headline, document, id)) }
            }
            @if !document.findings.is_empty() {
                section.conclusions aria-labelledby=(format!("{id}-conclusions")) {
                    h2 #(format!("{id}-conclusions")) { (document.comes_to) }
                    ul { @for one in &document.findings { (finding(one, document, id)) } }
                }
            }
            nav aria-label="Parts of this report" {
                ul {
                    @for section in &document.sections {
                        li { a href=(format!("#{id}-{}", section.id)) { (section.title) } }
                    }
                }
            }
            @if !document.strategies.is_empty() {
                fieldset.strategies {
                    legend { "Strategies in the charts" }
                    @for (label, at) in document.strategies.iter().zip(0_usize..) {
                        label for=(format!("{id}-k{at}")) {
                            input type="checkbox" checked id=(format!("{id}-k{at}"));
                            (svg::swatch(at)) " " (text(label))
                        }
                    }
                }
            }
            @for section in &document.sections { (block::section(section, id)) }
        }
    }
}

fn finding(one: &Finding, document: &Document, id: &str) -> Markup {
    let class = match one.tone {
        Tone::Good => Some("good"),
        Tone::Doubtful => Some("doubtful"),
        Tone::Bad => Some("bad"),
        Tone::Plain => None,
    };
    let link = one.shown_in.filter(|link| document.sections.iter().any(|section| section.id == link.section));
    html! {
        li class=[class] {
            strong { (text(&one.topic)) } " "
            (text(&one.sentence))
            @if let Some(link) = link { " " a.evidence href=(format!("#{id}-{}", link.section)) { "See " (link.text) } }
        }
    }
}

/// A verdict as a word with a sign, so that its colour is not all there is to it.
fn badge(value: &Value) -> Markup {
    let (class, sign) = match value.tone() {
        Tone::Good => ("good", "✓ "),
        Tone::Doubtful => ("doubtful", "? "),
        Tone::Bad => ("bad", "✗ "),
        Tone::Plain => return html! { (text(&value.shown())) },
    };
    html! { span class={ "badge " (class) } { (sign) (text(&value.shown())) } }
}
