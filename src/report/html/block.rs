//! The parts of a page: tables, lists, charts with what belongs to them.

use maud::{Markup, PreEscaped, html};

use super::{badge, svg, text};
use crate::report::document::{Block, Chart, ChartKind, Heat, Section, Shade, Table, Tile, Value};
use crate::words::units::contenders;

/// A section of a run whose elements' ids begin with that.
pub(super) fn section(section: &Section, id: &str) -> Markup {
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
            Block::Table { caption, table, legend } => (self::table(caption, table, legend)),
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

fn chart(chart: &Chart, id: &str) -> Markup {
    if let ChartKind::Heat(heat) = &chart.kind {
        return self::heat(chart, heat);
    }
    let own = format!("{id}-chart-{}", chart.id);
    let other = match &chart.kind {
        ChartKind::Lines(lines) => lines.other_y.as_ref(),
        _ => None,
    };
    let other = other.map(|axis| if axis.is_linear() { "linear axis" } else { "logarithmic axis" });
    let (drawing, values) = svg::chart(chart, &own);
    html! {
        figure.chart.whole[chart.kind.is_wide()] #(own) {
            figcaption { h3 { (text(&chart.title)) } }
            @if let Some(other) = other { label.toggle { input.axis type="checkbox"; " " (other) } }
            div.scroll.plot tabindex="0" role="group" aria-label=(text(&format!("{}: arrow keys read the values", chart.title))) {
                (drawing)
            }
            p.readout aria-live="polite" {}
            (key(&chart.kind))
            @for said in &chart.caption { p.caption { (text(said)) } }
            @if let Some(values) = values { script type="application/json" { (PreEscaped(values)) } }
        }
    }
}

/// What the lines or the parts of bars are. Bars of one part have their names beside them.
fn key(kind: &ChartKind) -> Markup {
    html! {
        @match kind {
            ChartKind::Lines(lines) => ul.key {
                @for series in &lines.series {
                    @let mut marks = series.markers.iter().map(|(_, mark)| *mark);
                    li class={ "s k" (series.look) } data-k=(series.look) {
                        (svg::swatch(series.look)) " " (text(&series.label))
                        @if marks.clone().any(|mark| mark.violated) { " (violated: crossed out)" }
                        @else if marks.any(|mark| mark.doubtful) { " (invalid or partial: hollow)" }
                    }
                }
            },
            ChartKind::Bars(bars) => @if bars.parts.len() > 1 {
                ul.key { @for part in &bars.parts { li { span class={ "part p" (part.colour) } {} " " (text(&part.name)) } } }
            },
            ChartKind::Panels(panels) => ul.key {
                @for (label, look) in panels.keys.iter().zip(0_usize..) {
                    li class={ "s k" (look) } data-k=(look) { (svg::swatch(look)) " " (text(label)) }
                }
            },
            ChartKind::Ratios(_) | ChartKind::Heat(_) => {}
        }
    }
}

fn heat(chart: &Chart, heat: &Heat) -> Markup {
    let several = heat.rows.windows(2).any(|rows| rows[0].contenders != rows[1].contenders);
    html! {
        div.wide {
            div.scroll tabindex="0" role="region" aria-label=(text(&chart.title)) {
                table.heat {
                    caption { (text(&chart.title)) }
                    thead {
                        tr {
                            td {}
                            @for column in &heat.columns { th scope="col" { span { (text(column)) } } }
                        }
                    }
                    tbody {
                        @for row in &heat.rows {
                            tr {
                                th scope="row" { (text(&row.label)) @if several { ", " (contenders(row.contenders)) } }
                                @for tile in &row.tiles { (self::tile(tile.as_ref())) }
                            }
                        }
                    }
                }
            }
            @for said in &chart.caption { p.caption { (text(said)) } }
        }
    }
}

fn tile(tile: Option<&Tile>) -> Markup {
    let class = match tile.map_or(Shade::None, |tile| tile.shade) {
        Shade::None => "plain".to_owned(),
        Shade::Time(share) => format!("t{}", (share * 4.0).round().clamp(0.0, 4.0)),
        Shade::Stuck => "stuck".to_owned(),
        Shade::Violated => "violated".to_owned(),
    };
    html! {
        td class=(class) {
            @match tile {
                None => span aria-label="not tried" { "-" },
                Some(tile) => @for said in &tile.said { div { (text(said)) } },
            }
        }
    }
}
