//! The parts of a page: tables, lists, charts with what belongs to them.

use maud::{Markup, PreEscaped, html};

use super::{badge, svg, text};
use crate::report::document::{Block, Chart, Heat, Kind, Scale, Section, Shade, Table, Tile, Value};

/// A section of a run whose elements' ids begin with that.
pub(super) fn section(section: &Section, id: &str, strategies: &[String]) -> Markup {
    let own = format!("{id}-{}", section.id);
    html! {
        section #(own) aria-labelledby=(format!("{own}-h")) {
            h2 #(format!("{own}-h")) { (text(&section.title)) }
            div.blocks {
                @for one in &section.blocks { (block(one, id, strategies)) }
            }
        }
    }
}

fn block(block: &Block, id: &str, strategies: &[String]) -> Markup {
    html! {
        @match block {
            Block::Text(words) => p { (text(words)) },
            Block::Table { caption, table, legend } => (self::table(caption, table, legend)),
            Block::Chart(chart) => (self::chart(chart, id, strategies)),
            Block::NoChart { title, why } => p.missing { (text(title)) ": no chart, because " (text(why)) "." },
            Block::Notes(notes) => ul.notes { @for note in notes { li { (text(note)) } } },
            Block::Facts(facts) => dl {
                @for (name, value) in facts { dt { (text(name)) } dd { (text(&value.shown())) } }
            },
            Block::Code { caption, text: code } => {
                p { (text(caption)) }
                pre tabindex="0" { code { (text(code)) } }
            },
            Block::Heat(heat) => (self::heat(heat)),
        }
    }
}

fn table(caption: &str, table: &Table, legend: &str) -> Markup {
    html! {
        div.wide {
            div.scroll tabindex="0" role="region" aria-label=(text(caption)) {
                table.sortable {
                    caption { (text(caption)) }
                    thead {
                        tr { @for column in &table.columns { th scope="col" class=[column.numbers.then_some("n")] { (column.heading) } } }
                    }
                    tbody {
                        @for row in &table.rows {
                            tr { @for (value, at) in row.iter().zip(0_usize..) { (cell(value, at < table.labels, table.columns[at].numbers)) } }
                        }
                    }
                }
            }
            @if !legend.is_empty() { p.caption { (text(legend)) } }
        }
    }
}

fn cell(value: &Value, is_label: bool, is_number: bool) -> Markup {
    let class = is_number.then_some("n");
    let rank = value.rank().map(|rank| format!("{rank}"));
    html! {
        @if is_label { th scope="row" { (text(&value.shown())) } }
        @else { td class=[class] data-v=[rank] { (badge(value)) } }
    }
}

fn chart(chart: &Chart, id: &str, strategies: &[String]) -> Markup {
    let own = format!("{id}-{}", chart.id);
    let other = match &chart.kind {
        Kind::Lines(lines) => match lines.y.scale {
            Scale::LogOrLinear => Some("linear axis"),
            Scale::LinearOrLog => Some("logarithmic axis"),
            Scale::Log | Scale::Linear => None,
        },
        Kind::Bars(_) => None,
    };
    let (drawing, values) = svg::chart(chart, &own, strategies);
    html! {
        figure.chart #(own) {
            figcaption { h3 { (text(&chart.title)) } }
            @if let Some(other) = other {
                label.toggle { input.axis type="checkbox"; " " (other) }
            }
            div.scroll.plot tabindex="0" role="group" aria-label=(text(&format!("{}: arrow keys read the values", chart.title))) {
                (drawing)
            }
            p.readout aria-live="polite" {}
            (key(&chart.kind, strategies))
            @if !chart.caption.is_empty() { p.caption { (text(&chart.caption)) } }
            @if let Some(values) = values { script type="application/json" { (PreEscaped(values)) } }
        }
    }
}

/// What the lines or the parts of bars are. Bars of one part have their names beside them.
fn key(kind: &Kind, strategies: &[String]) -> Markup {
    html! {
        @match kind {
            Kind::Lines(lines) => ul.key {
                @for series in &lines.series {
                    li class={ "s k" (series.strategy) } data-k=(series.strategy) {
                        (svg::swatch(series.strategy)) " "
                        (text(strategies.get(series.strategy).map_or("?", String::as_str)))
                        @if series.violated { " (violated: crossed out)" }
                        @else if series.doubtful { " (invalid or partial: hollow)" }
                    }
                }
            },
            Kind::Bars(bars) => @if bars.parts.len() > 1 {
                ul.key { @for (part, at) in bars.parts.iter().zip(0_usize..) { li { span class={ "part p" (at % 12) } {} " " (text(part)) } } }
            },
        }
    }
}

fn heat(heat: &Heat) -> Markup {
    html! {
        div.wide {
            div.scroll tabindex="0" role="region" aria-label=(text(&heat.caption)) {
                table.heat {
                    caption { (text(&heat.caption)) }
                    thead {
                        tr {
                            td {}
                            @for column in &heat.columns { th scope="col" { span { (text(column)) } } }
                        }
                    }
                    tbody {
                        @for (name, tiles) in &heat.rows {
                            tr { th scope="row" { (text(name)) } @for tile in tiles { (self::tile(tile)) } }
                        }
                    }
                }
            }
            p.caption { (text(&heat.legend)) }
        }
    }
}

fn tile(tile: &Tile) -> Markup {
    let class = match tile.shade {
        Shade::None => "plain".to_owned(),
        Shade::Time(share) => format!("t{}", (share * 4.0).round().clamp(0.0, 4.0)),
        Shade::Stuck => "stuck".to_owned(),
        Shade::Violated => "violated".to_owned(),
    };
    html! {
        td class=(class) {
            @if tile.said.is_empty() { span aria-label="not tried" { "-" } }
            @for said in &tile.said { div { (text(said)) } }
        }
    }
}
