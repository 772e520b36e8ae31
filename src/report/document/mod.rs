//! The document behind every renderer: values that know what they are, tables, charts, notes and conclusions. A renderer
//! makes the strings; until then a duration is a duration and a verdict a verdict, so that a terminal can colour it, a page
//! can sort by it, and none has to look at a text to find out what it is.

mod axis;
mod chart;
mod table;
pub mod value;

pub use axis::{Axis, PERCENTILES, float};
pub use chart::{
    Band, Bar, BarPart, Bars, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Heat, HeatRow, Intervals,
    KneeMark, Lines, Mark, Marked, Panels, PartName, PlotPoint, RatioRow, Ratios, Shade, Tile, Weight,
    simplified,
};
pub use table::{Column, Table, numbers, words};
pub use value::{NoValue, Tone, Value, violated_word};

/// All that is said of one run, or of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub title: String,
    /// What was asked, or of what it is: stands below the title.
    pub about: String,
    /// In one word.
    pub verdict: Value,
    /// The outcome in words, with its number: what every renderer shows first.
    pub headline: Finding,
    pub comes_to: &'static str,
    /// What else it comes to, the most telling first.
    pub findings: Vec<Finding>,
    /// The strategies by their labels; the position gives the look.
    pub strategies: Vec<String>,
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it is about, in a word or two.
    pub topic: String,
    pub tone: Tone,
    pub sentence: String,
    pub shown_in: Option<Link>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub section: &'static str,
    pub text: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// By what links name it; unique in a document.
    pub id: &'static str,
    pub title: String,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    /// A table, what it shows in a few words, and what its columns are.
    Table {
        caption: String,
        table: Table,
        /// How to read it; empty where it needs no words.
        legend: String,
    },
    Chart(Box<Chart>),
    NoChart {
        title: String,
        /// Why, in a sentence without a full stop.
        why: String,
    },
    /// Lines, each of which must be said.
    Notes(Vec<String>),
    Facts(Vec<(String, Value)>),
    Code {
        caption: String,
        text: String,
    },
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
    }
}
