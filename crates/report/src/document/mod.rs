//! The document behind every renderer: typed values, tables, charts, notes and conclusions. Renderers convert
//! values to text, so a terminal can colour verdicts and a page can sort by durations.

mod axis;
mod chart;
mod table;
mod value;

pub use axis::{Axis, LABEL, PERCENTILES};
pub use chart::{
    Band, Bar, BarPart, Bars, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Heat, HeatRow, Lines, Mark,
    Marked, Panels, PartName, PlotPoint, RatioRow, Ratios, Shade, Tile, Weight,
};
pub use table::{Column, Columns, GAP, Table, words};
pub use value::{Tone, Value, violated_word};

use super::picture::Picture;

/// Complete contents of a report, e.g. on a run or a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub title: String,
    /// The question or subject, shown below the title.
    pub about: String,
    pub verdict: Value,
    /// The main outcome, which every renderer shows first.
    pub headline: Finding,
    pub comes_to: &'static str,
    /// Other findings, most important first.
    pub findings: Vec<Finding>,
    /// Labels of the strategies; the position determines the colour and the marker.
    pub strategies: Vec<String>,
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Topic in one or two words.
    pub topic: String,
    pub tone: Tone,
    pub sentence: String,
    pub shown_in: Option<Link>,
}

impl Finding {
    pub fn new(topic: impl Into<String>, tone: Tone, sentence: String, shown_in: Option<Link>) -> Self {
        Self { topic: topic.into(), tone, sentence, shown_in }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub section: &'static str,
    pub text: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Target of links; unique in a document.
    pub id: &'static str,
    pub title: String,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Table(Table),
    Chart(Box<Chart>),
    /// The title of a chart, and the reason why there is none as a sentence without a full stop.
    NoChart {
        title: String,
        why: String,
    },
    /// Notes that every renderer must show.
    Notes(Vec<String>),
    Facts(Vec<(String, Value)>),
    Code {
        caption: String,
        text: String,
    },
    /// A sequence of messages.
    Picture {
        caption: String,
        picture: Picture,
    },
}

impl Block {
    pub fn code(caption: impl Into<String>, text: String) -> Self {
        Self::Code { caption: caption.into(), text }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
    }
}
