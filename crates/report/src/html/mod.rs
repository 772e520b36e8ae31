//! Renders the document as a single HTML file without external resources. An optional script adds values
//! under the pointer and sortable tables. External text, such as a label, is always escaped.

mod svg;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::document::{
    Block, Chart, ChartKind, Document, Finding, Heat, Section, Shade, Table, Tile, Tone, Value,
};
use super::draw::{hex, part};
use zklockbench_core::units::one_line;

pub const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Returns the page for these documents. If there are several, the section `between` precedes them.
pub fn page(documents: &[Document], between: Option<&Section>) -> String {
    let titles: Vec<&str> = documents.iter().map(|document| document.title.as_str()).collect();
    let most = documents.iter().map(|document| document.strategies.len()).max().unwrap_or(0);
    // Charts may show two sides even if the document has no strategies.
    let looks = svg::style(most.max(2));
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
                main {
                    @if let Some(section) = between {
                        header.top { h1 { "zklockbench: " (documents.len()) " runs" } }
                        (self::section(section, "all"))
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

/// Escapes control characters, except line breaks, in external text.
fn text(words: &str) -> String {
    words.split('\n').map(one_line).collect::<Vec<_>>().join("\n")
}

fn run(document: &Document, id: &str) -> Markup {
    let off = svg::switches(id, document.strategies.len());
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
            @for section in &document.sections { (self::section(section, id)) }
        }
    }
}

fn finding(one: &Finding, document: &Document, id: &str) -> Markup {
    let class = class_and_sign(one.tone).map(|(class, _)| class);
    let link = one.shown_in.filter(|link| document.sections.iter().any(|section| section.id == link.section));
    html! {
        li class=[class] {
            strong { (text(&one.topic)) } " "
            (text(&one.sentence))
            @if let Some(link) = link { " " a.evidence href=(format!("#{id}-{}", link.section)) { "See " (link.text) } }
        }
    }
}

/// Returns a verdict as a word with a sign, so that its meaning does not depend on colour.
fn badge(value: &Value) -> Markup {
    match class_and_sign(value.tone()) {
        Some((class, sign)) => html! { span class={ "badge " (class) } { (sign) (text(&value.shown())) } },
        None => html! { (text(&value.shown())) },
    }
}

fn class_and_sign(tone: Tone) -> Option<(&'static str, &'static str)> {
    match tone {
        Tone::Good => Some(("good", "✓ ")),
        Tone::Doubtful => Some(("doubtful", "? ")),
        Tone::Bad => Some(("bad", "✗ ")),
        Tone::Plain => None,
    }
}

/// Returns a section of a run. The ids of its elements start with `id`.
fn section(section: &Section, id: &str) -> Markup {
    let own = format!("{id}-{}", section.id);
    html! {
        section #(own) aria-labelledby=(format!("{own}-h")) {
            h2 #(format!("{own}-h")) { (text(&section.title)) }
            div.blocks {
                @for one in &section.blocks { (block(one, id)) }
            }
        }
    }
}

fn block(block: &Block, id: &str) -> Markup {
    html! {
        @match block {
            Block::Text(words) => p { (text(words)) },
            Block::Table(table) => (self::table(table)),
            Block::Chart(chart) => (self::chart(chart, id)),
            Block::NoChart { title, why } => p.missing { (text(title)) ": no chart, because " (text(why)) "." },
            Block::Notes(notes) => ul.notes { @for note in notes { li { (text(note)) } } },
            Block::Facts(facts) => dl {
                @for (name, value) in facts { dt { (text(name)) } dd { (text(&value.shown())) } }
            },
            Block::Code { caption, text: code } => {
                p { (text(caption)) }
                pre tabindex="0" { code { (text(code)) } }
            },
            Block::Picture { caption, picture } => figure.chart.whole {
                figcaption { (text(caption)) }
                div.scroll.messages tabindex="0" role="img" aria-label=(text(caption)) { (PreEscaped(picture.svg())) }
            },
        }
    }
}

fn table(table: &Table) -> Markup {
    let legend = Some(table.legend(&[])).filter(|legend| !legend.is_empty());
    let head = html! {
        @for column in &table.columns { th scope="col" class=[column.numbers.then_some("n")] { (column.heading) } }
    };
    let body = html! {
        @for row in &table.rows {
            tr { @for (value, at) in row.iter().zip(0_usize..) { (cell(value, at < table.labels, table.columns[at].numbers)) } }
        }
    };
    wide_table(&table.caption, "sortable", &head, &body, legend.as_slice())
}

/// Returns a table that scrolls sideways, with paragraphs below it.
fn wide_table(caption: &str, class: &str, head: &Markup, body: &Markup, below: &[String]) -> Markup {
    html! {
        div.wide {
            div.scroll tabindex="0" role="region" aria-label=(text(caption)) {
                table class=(class) {
                    caption { (text(caption)) }
                    thead { tr { (head) } }
                    tbody { (body) }
                }
            }
            @for said in below { p.caption { (text(said)) } }
        }
    }
}

fn cell(value: &Value, is_label: bool, is_number: bool) -> Markup {
    let class = is_number.then_some("n");
    let rank = value.rank().map(|rank| format!("{rank}"));
    html! {
        @if is_label { th scope="row" class=[class] { (text(&value.shown())) } }
        @else { td class=[class] data-v=[rank] { (badge(value)) } }
    }
}

fn chart(chart: &Chart, id: &str) -> Markup {
    if let ChartKind::Heat(heat) = &chart.kind {
        return self::heat(chart, heat);
    }
    let own = format!("{id}-chart-{}", chart.id);
    let other = if let ChartKind::Lines(lines) = &chart.kind { lines.other_y.as_ref() } else { None };
    let other = other.map(|axis| if axis.is_linear() { "linear axis" } else { "logarithmic axis" });
    // The labels of these charts need the full width of a page.
    let is_wide = matches!(chart.kind, ChartKind::Panels(_) | ChartKind::Ratios(_));
    let (drawing, values) = svg::chart(chart, &own);
    html! {
        figure.chart.whole[is_wide] #(own) {
            figcaption { h3 { (text(&chart.title)) } }
            @if let Some(other) = other { label.toggle { input.axis type="checkbox"; " " (other) } }
            div.scroll.plot tabindex="0" role="group" aria-label=(text(&format!("{}: use the arrow keys to read the values", chart.title))) {
                (drawing)
            }
            p.readout aria-live="polite" {}
            (key(&chart.kind))
            @for said in &chart.caption { p.caption { (text(said)) } }
            @if let Some(values) = values { script type="application/json" { (PreEscaped(values)) } }
        }
    }
}

/// Returns the names of the lines or bar segments. Undivided bars have their names next to them.
fn key(kind: &ChartKind) -> Markup {
    html! {
        @match kind {
            ChartKind::Lines(lines) => ul.key {
                @for series in &lines.series {
                    @let mut marks = series.markers.iter().map(|(_, mark)| *mark);
                    li class={ "k" (series.look) } data-k=(series.look) {
                        (svg::swatch(series.look)) " " (text(&series.label))
                        @if marks.clone().any(|mark| mark.violated) { " (violated: crossed out)" }
                        @else if marks.any(|mark| mark.doubtful) { " (invalid or partial: hollow)" }
                    }
                }
            },
            ChartKind::Bars(bars) => @if bars.parts.len() > 1 {
                ul.key {
                    @for one in &bars.parts {
                        li { span.part style={ "background:" (hex(part(one.colour))) } {} " " (text(&one.name)) }
                    }
                }
            },
            ChartKind::Panels(panels) => ul.key {
                @for (label, look) in panels.keys.iter().zip(0_usize..) {
                    li class={ "k" (look) } data-k=(look) { (svg::swatch(look)) " " (text(label)) }
                }
            },
            ChartKind::Ratios(_) | ChartKind::Heat(_) => {}
        }
    }
}

fn heat(chart: &Chart, heat: &Heat) -> Markup {
    let head = html! {
        td {}
        @for column in &heat.columns { th scope="col" { span { (text(column)) } } }
    };
    let body = html! {
        @for row in &heat.rows {
            tr {
                th scope="row" { (text(&row.label)) }
                @for tile in &row.tiles { (self::tile(tile.as_ref())) }
            }
        }
    };
    wide_table(&chart.title, "heat", &head, &body, &chart.caption)
}

fn tile(tile: Option<&Tile>) -> Markup {
    let class = match tile.map_or(Shade::None, |tile| tile.shade) {
        Shade::None => "plain".to_owned(),
        Shade::Time(share) => format!("t{}", (share * 4.0).round().clamp(0.0, 4.0)),
        Shade::Stuck => "stuck".to_owned(),
        Shade::Violated => "violated".to_owned(),
    };
    let hollow = if tile.is_some_and(|tile| tile.doubtful) { " hollow" } else { "" };
    html! {
        td class={ (class) (hollow) } {
            @match tile {
                None => span aria-label="not tried" { "-" },
                Some(tile) => @for said in &tile.said { div { (text(said)) } },
            }
        }
    }
}
