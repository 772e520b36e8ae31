//! A sequence of messages as text and as SVG, with one lane per contender and time running downwards.

use std::fmt::Write as _;

use maud::{Markup, PreEscaped, html};
use zklockbench_core::units::{format_micros, one_line, shown};
use zklockbench_record::{StepKind, Timeline, TimelineStep};

/// Width of the text in columns.
const WIDTH: usize = 80;
/// Width of the column of times in the text, with the mark of shaded rows.
const TIMES: usize = 13;

/// A sequence of messages between two or more contenders and the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// Names of the contenders.
    pub lanes: Vec<String>,
    pub rows: Vec<Row>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Time, if the picture has times.
    pub at: Option<String>,
    /// Lane of the contender; `None` for a row about all contenders.
    pub lane: Option<usize>,
    pub kind: StepKind,
    pub what: String,
    /// Whether the row is within the overlap.
    pub is_shaded: bool,
}

impl From<&Timeline> for Picture {
    fn from(timeline: &Timeline) -> Self {
        let until = i64::try_from(timeline.together_us).unwrap_or(i64::MAX);
        let is_deed = |step: &TimelineStep| step.contender == Some(1) && step.kind == StepKind::Deed;
        let entry = timeline.steps.iter().rposition(|step| step.at_us <= 0 && is_deed(step)).unwrap_or(0);
        let rows = timeline.steps.iter().enumerate().map(|(number, step)| Row {
            at: Some(relative(step.at_us)),
            lane: step.contender.filter(|lane| *lane < timeline.contenders.len()),
            kind: step.kind,
            what: step.what.clone(),
            is_shaded: number >= entry && step.at_us <= until,
        });
        Self { lanes: timeline.contenders.to_vec(), rows: rows.collect() }
    }
}

/// Renders a violation in at most 30 lines of 80 columns: what happened, and the last steps before the
/// violation.
pub fn timeline_text(timeline: &Timeline) -> String {
    let picture = Picture::from(timeline);
    let summary = super::table::wrapped(&one_line(&headline(timeline)), "", WIDTH);
    format!("{summary}\n\n{}{}\n", picture.text(), picture.legend())
}

/// Returns the summary of a violation, with the length of the overlap.
pub fn headline(timeline: &Timeline) -> String {
    format!("{}; both were inside for {}", timeline.summary, format_micros(timeline.together_us))
}

/// Formats a time relative to the violating acquisition: `-68 µs`.
fn relative(us: i64) -> String {
    let sign = match us {
        ..0 => "-",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", format_micros(us.unsigned_abs()))
}

impl Picture {
    fn has_times(&self) -> bool {
        self.rows.iter().any(|row| row.at.is_some())
    }

    fn is_shaded(&self) -> bool {
        self.rows.iter().any(|row| row.is_shaded)
    }

    pub fn legend(&self) -> String {
        format!("{MARKS}{}", if self.is_shaded() { "  ▒ both inside" } else { "" })
    }

    /// Renders the picture as text of at most 80 columns.
    pub fn text(&self) -> String {
        let is_shaded = self.is_shaded();
        let left = match (self.has_times(), is_shaded) {
            (true, _) => TIMES,
            (false, true) => 2,
            (false, false) => 0,
        };
        let lane = (WIDTH - left) / self.lanes.len().max(1);
        let heads: Vec<String> =
            self.lanes.iter().map(|name| format!("{:<lane$}", shown(name, lane.saturating_sub(2)))).collect();
        let mut text = format!("{:left$}{}\n", "", heads.concat().trim_end());
        for row in &self.rows {
            let shade = if row.is_shaded { '▒' } else { ' ' };
            let at = match &row.at {
                Some(at) => format!("{at:>10} {shade} "),
                None if is_shaded => format!("{shade} "),
                None => String::new(),
            };
            let room = if row.lane.is_some() { lane.saturating_sub(2) } else { WIDTH - left };
            let line = shown(&format!("{} {}", mark(row.kind), row.what), room);
            let _ = writeln!(text, "{at}{:indent$}{line}", "", indent = lane * row.lane.unwrap_or(0));
        }
        text
    }

    /// Renders an SVG picture with lanes for contenders and the server, and arrows for messages.
    pub fn svg(&self) -> String {
        let left = if self.has_times() { TIMES_WIDTH } else { MARGIN };
        let (width, height) = (left + MARGIN + LANE * self.lanes.len(), HEAD + ROW * (self.rows.len() + 1));
        let shaded = self.rows.iter().position(|row| row.is_shaded);
        let shaded_rows = self.rows.iter().filter(|row| row.is_shaded).count();
        let lanes = self.lanes.iter().enumerate().map(|(one, name)| (lane_x(left, one), name.as_str()));
        let markup = html! {
            svg xmlns="http://www.w3.org/2000/svg" class="messages" viewBox={ "0 0 " (width) " " (height) }
                font-family="sans-serif" font-size="12" {
                style { (PreEscaped(STYLE)) }
                @if let Some(first) = shaded {
                    rect.together x="0" y=(HEAD + ROW * first + ROW / 4) width=(width) height=(ROW * shaded_rows) {}
                }
                @for (x, name) in lanes.chain([(left + LANE, "server")]) {
                    line x1=(x) y1=(HEAD) x2=(x) y2=(height) {}
                    text x=(x) y="20" text-anchor=(if x == left { "start" } else { "middle" }) { (one_line(name)) }
                }
                @for (row, number) in self.rows.iter().zip(1..) { (row.svg(left, HEAD + ROW * number)) }
            }
        };
        markup.into_string() + "\n"
    }
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

/// Meaning of the marks.
const MARKS: &str = "→ request  ← reply  ◁ notification  ✗ lost  ■ contender  ! fault";

const ROW: usize = 22;
const HEAD: usize = 34;
const LANE: usize = 330;
const MARGIN: usize = 20;
/// Width of the column of times.
const TIMES_WIDTH: usize = 90;
/// The class limits the style to these pictures.
const STYLE: &str = ".messages line{stroke:#888}.messages .lost{stroke:#c0392b;stroke-dasharray:4 3}\
                     .messages .together{fill:#c0392b;fill-opacity:.15}.messages .deed{font-weight:bold}\
                     .messages text{fill:#222;font-size:12px}.messages .fault{fill:#c0392b}\
                     @media(prefers-color-scheme:dark){.messages text{fill:#ddd}.messages .fault{fill:#ff8a7a}}";

/// Returns the x coordinate of a contender's lane: the first lane is left of the server, and the others are right
/// of the server.
const fn lane_x(left: usize, contender: usize) -> usize {
    left + if contender == 0 { 0 } else { LANE * (contender + 1) - LANE / 4 }
}

impl Row {
    /// Draws the row at this height, in a picture whose first lane is at `left`.
    fn svg(&self, left: usize, y: usize) -> Markup {
        let (above, what, server) = (y - 4, one_line(&self.what), left + LANE);
        let lane = self.lane.map(|lane| lane_x(left, lane));
        let (anchor, near) = match lane {
            None => ("middle", server),
            Some(x) if x < server => ("start", x + 6),
            Some(x) => ("end", x - 6),
        };
        let class = match (lane, self.kind) {
            (None, _) | (_, StepKind::Fault) => "fault",
            (_, StepKind::Deed) => "deed",
            _ => "",
        };
        html! {
            @if let Some(x) = lane { (arrow(self.kind, x, server, y)) }
            @if let Some(at) = &self.at {
                text x=(left - 12) y=(above) text-anchor="end" { (one_line(at)) }
            }
            text class=(class) x=(near) y=(above) text-anchor=(anchor) { (what) }
        }
    }
}

/// Returns the arrow of a message to or from the lane at `x`.
fn arrow(kind: StepKind, x: usize, server: usize, y: usize) -> Markup {
    let half = usize::midpoint(x, server);
    let (from, to, class) = match kind {
        StepKind::Request => (x, server, ""),
        StepKind::Reply | StepKind::Notification => (server, x, ""),
        StepKind::LostRequest => (x, half, "lost"),
        StepKind::LostReply => (server, half, "lost"),
        StepKind::Deed | StepKind::Fault => return html! {},
    };
    let (head, up, down) = (if to > from { to - 6 } else { to + 6 }, y - 4, y + 4);
    html! {
        line class=(class) x1=(from) y1=(y) x2=(to) y2=(y) {}
        path d={ "M" (to) " " (y) "L" (head) " " (up) "L" (head) " " (down) "z" } fill="#888" {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let row = |lane, kind, what: &str| Row {
            at: None,
            lane: Some(lane),
            kind,
            what: what.into(),
            is_shaded: false,
        };
        let rows = vec![
            row(0, StepKind::Request, "create own node"),
            row(1, StepKind::LostReply, "create own node, reply"),
            row(1, StepKind::Fault, "a very long sentence that does not fit into its lane at all & more"),
        ];
        Picture { lanes: ["c1", "c2"].map(str::to_owned).to_vec(), rows }
    }

    /// Creates a violation with the maximum number of steps of a timeline.
    fn timeline() -> Timeline {
        let step =
            |at_us, contender, kind, what: &str| TimelineStep { at_us, contender, kind, what: what.into() };
        let mut steps = vec![step(-2_500_000, None, StepKind::Fault, "connection-lost on contender 3")];
        let before = 1..Timeline::BEFORE as i64;
        steps.extend(before.map(|number| {
            step(
                number * 10 - 268,
                Some(1),
                StepKind::Reply,
                "getChildren and watch 1c2d3e4f-lock-0000000012",
            )
        }));
        steps.push(step(0, Some(1), StepKind::Deed, "enters"));
        steps.extend(
            (1..=Timeline::DURING as i64)
                .map(|number| step(number * 1_400, Some(0), StepKind::Deed, "leaves")),
        );
        let contenders = ["contender 1", "contender 3"].map(str::to_owned);
        let summary = "contender 3 entered 68 µs after its connection was suspended, without listing again, while \
                       contender 1 held, 2.5 s after the fault connection-lost on contender 3";
        Timeline { summary: summary.into(), contenders, together_us: 4_200, steps }
    }

    #[test]
    fn each_contender_has_its_own_lane_within_80_columns() {
        let text = picture().text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "→ create own node");
        assert_eq!(lines[2], format!("{:40}✗ create own node, reply", ""));
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn picture_is_well_formed_svg() {
        let svg = picture().svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains("&amp; more"), "{svg}");
        assert_eq!(svg.matches("class=\"lost\"").count(), 1);
        assert!(!svg.contains("class=\"together\""), "{svg}");
    }

    #[test]
    fn violation_fits_in_30_lines_with_a_shaded_overlap() {
        let text = timeline_text(&timeline());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= 30 && lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[0].starts_with("contender 3 entered 68 µs after"), "{text}");
        let shaded: Vec<&str> =
            lines.iter().copied().filter(|line| line.chars().nth(11) == Some('▒')).collect();
        assert_eq!(shaded.len(), 1 + Timeline::DURING, "{text}");
        assert!(shaded[0].trim_start().starts_with("0 µs ▒"), "{text}");
        assert!(shaded[Timeline::DURING].trim_start().starts_with("+4.2 ms ▒ ■ leaves"), "{text}");
        assert_eq!(Picture::from(&timeline()).svg().matches("class=\"together\"").count(), 1);
    }
}
