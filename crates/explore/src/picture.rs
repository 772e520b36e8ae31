//! A run as a sequence diagram: one lane for each contender, with time running downwards.

use std::fmt::Write as _;

use super::names::contender_name;
use super::schedule::{StepKind, TraceStep};
use zklockbench_core::units::shown;

const WIDTH: usize = 80;

/// A text diagram at most 80 columns wide.
pub fn as_text(trace: &[TraceStep], contenders: usize) -> String {
    let lane = WIDTH / contenders.max(1);
    let heads: Vec<String> = (0..contenders).map(|one| format!("{:<lane$}", contender_name(one))).collect();
    let mut text = format!("{}\n", heads.concat().trim_end());
    for step in trace.iter().filter(|step| step.contender < contenders) {
        let line = shown(&format!("{} {}", mark(step.kind), step.what), lane.saturating_sub(2));
        let _ = writeln!(text, "{:indent$}{line}", "", indent = lane * step.contender);
    }
    text
}

fn mark(kind: StepKind) -> char {
    match kind {
        StepKind::Request => '→',
        StepKind::Reply => '←',
        StepKind::Notification => '◁',
        StepKind::LostRequest | StepKind::LostReply => '✗',
        StepKind::Deed => '■',
        StepKind::Fault => '!',
    }
}

/// Legend of the symbols.
pub const LEGEND: &str = "→ request  ← reply  ◁ notification  ✗ lost  ■ contender  ! fault";

const ROW: usize = 22;
const HEAD: usize = 34;
const LANE: usize = 330;
const MARGIN: usize = 20;

/// An SVG diagram: contenders as lanes with the server between the first and the others, messages as arrows.
pub fn as_svg(trace: &[TraceStep], contenders: usize) -> String {
    let steps: Vec<&TraceStep> = trace.iter().filter(|step| step.contender < contenders).collect();
    let (width, height) = (2 * MARGIN + LANE * contenders, HEAD + ROW * (steps.len() + 1));
    let server = MARGIN + LANE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<style>line{{stroke:#888}}.lost{{stroke:#c0392b;stroke-dasharray:4 3}}.fault{{fill:#c0392b}}\
         .deed{{font-weight:bold}}text{{fill:#222}}@media(prefers-color-scheme:dark){{text{{fill:#ddd}}}}</style>\n"
    );
    let lanes =
        (0..contenders).map(|one| (lane_at(one), contender_name(one))).chain([(server, "server".to_owned())]);
    for (x, name) in lanes {
        let _ = writeln!(
            svg,
            "<line x1=\"{x}\" y1=\"{HEAD}\" x2=\"{x}\" y2=\"{height}\"/><text x=\"{x}\" y=\"20\" text-anchor=\"middle\">{name}</text>"
        );
    }
    for (row, step) in steps.iter().enumerate() {
        svg += &drawn(step, HEAD + ROW * (row + 1), server);
    }
    svg + "</svg>\n"
}

/// The first contender is to the left of the server, the others are to the right.
fn lane_at(contender: usize) -> usize {
    MARGIN + if contender == 0 { 0 } else { LANE * (contender + 1) - LANE / 4 }
}

fn drawn(step: &TraceStep, y: usize, server: usize) -> String {
    let x = lane_at(step.contender);
    let (what, above) = (escaped(&step.what), y - 4);
    let is_left = x < server;
    let (anchor, near) = if is_left { ("start", x + 6) } else { ("end", x - 6) };
    let label = |class: &str| {
        format!("<text class=\"{class}\" x=\"{near}\" y=\"{above}\" text-anchor=\"{anchor}\">{what}</text>")
    };
    let half = usize::midpoint(x, server);
    let arrow = |from: usize, to: usize, class: &str| {
        let head = if to > from { to - 6 } else { to + 6 };
        format!(
            "<line class=\"{class}\" x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\"/><path d=\"M{to} {y}L{head} {}L{head} {}z\" fill=\"#888\"/>",
            y - 4,
            y + 4
        )
    };
    let body = match step.kind {
        StepKind::Request => arrow(x, server, ""),
        StepKind::Reply | StepKind::Notification => arrow(server, x, ""),
        StepKind::LostRequest => arrow(x, half, "lost"),
        StepKind::LostReply => arrow(server, half, "lost"),
        StepKind::Deed => return label("deed") + "\n",
        StepKind::Fault => return label("fault") + "\n",
    };
    body + &label("") + "\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Vec<TraceStep> {
        let step = |contender, kind, what: &str| TraceStep { contender, kind, what: what.into() };
        vec![
            step(0, StepKind::Request, "create own node"),
            step(1, StepKind::LostReply, "create own node, reply"),
            step(1, StepKind::Fault, "a very long sentence that does not fit into its lane at all & more"),
        ]
    }

    #[test]
    fn each_contender_has_a_lane_within_80_columns() {
        let text = as_text(&steps(), 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "→ create own node");
        assert_eq!(lines[2], format!("{:40}✗ create own node, reply", ""));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn the_svg_is_well_formed() {
        let svg = as_svg(&steps(), 2);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("&amp; more"), "{svg}");
        assert_eq!(svg.matches("class=\"lost\"").count(), 1);
    }
}
