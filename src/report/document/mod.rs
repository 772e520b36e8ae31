//! The document behind every renderer: values that know what they are, tables, charts, notes and conclusions. A renderer
//! makes the strings; until then a duration is a duration and a verdict a verdict, so that a terminal can colour it, a page
//! can sort by it, and none has to look at a text to find out what it is.

mod chart;
mod curve;
mod table;
pub mod value;

pub use chart::{Axis, Band, Bars, Chart, Ends, Guide, Kind, Lines, Part, Row, Scale, Series, Tick, Unit};
pub use curve::simplified;
pub use table::{Column, Table, numbers, words};
pub use value::{Missing, Tone, Value};

/// All that is said of one run, or of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub title: String,
    /// In one word, and what that rests on.
    pub verdict: Value,
    /// What stands below the title: full sentences.
    pub subtitle: String,
    /// The heading of what it comes to.
    pub comes_to: &'static str,
    /// What it comes to, the most telling first.
    pub findings: Vec<Finding>,
    /// The strategies by their labels; the position gives the look.
    pub strategies: Vec<String>,
    /// The parts, in order.
    pub sections: Vec<Section>,
}

/// One thing that a document comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it is about, in a word or two.
    pub topic: String,
    pub tone: Tone,
    pub sentence: String,
    /// Where it is shown, if anywhere.
    pub shown_in: Option<Link>,
}

/// A link to a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub section: &'static str,
    pub text: &'static str,
}

/// A part with a heading.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// By what links name it; unique in a document.
    pub id: &'static str,
    pub title: String,
    pub blocks: Vec<Block>,
}

/// A piece of a section.
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
    Chart(Chart),
    NoChart {
        title: String,
        /// Why, in a sentence without a full stop.
        why: String,
    },
    /// Lines, each of which must be said.
    Notes(Vec<String>),
    Facts(Vec<(String, Value)>),
    /// Text to copy, and what it is.
    Code {
        caption: String,
        text: String,
    },
    /// A table of words on coloured tiles.
    Heat(Heat),
}

/// A table of what became of each row under each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    pub caption: String,
    pub columns: Vec<String>,
    /// The rows by their names, with a tile for each column.
    pub rows: Vec<(String, Vec<Tile>)>,
    pub legend: String,
}

/// One tile.
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// What is written on it, line by line; nothing where there is nothing to say.
    pub said: Vec<String>,
    pub shade: Shade,
}

/// What colours a tile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shade {
    None,
    /// How long it took, as a share of the way from the shortest to the longest.
    Time(f64),
    /// It did not go on.
    Stuck,
    Violated,
}
