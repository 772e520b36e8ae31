//! The document behind every renderer: typed values, tables, charts, notes and conclusions. Only renderers make strings. Until
//! then, a duration is a duration and a verdict a verdict, so a terminal can colour it and a page can sort by it without parsing
//! text.

mod axis;
mod chart;
mod value;

pub use axis::{Axis, LABEL, PERCENTILES};
pub use chart::{
    Band, Bar, BarPart, Bars, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Heat, HeatRow, Lines, Mark,
    Marked, Panels, PartName, PlotPoint, RatioRow, Ratios, Shade, Tile, Weight,
};
pub use value::{Tone, Value, violated_word};

use super::picture::Picture;

/// Complete contents of the report on a run or a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub title: String,
    /// The question or subject, shown below the title.
    pub about: String,
    pub verdict: Value,
    /// The outcome with its number, which every renderer shows first.
    pub headline: Finding,
    pub comes_to: &'static str,
    /// Other findings, most important first.
    pub findings: Vec<Finding>,
    /// Labels of the strategies; the position determines the look.
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
    Table(ExplainedTable),
    Chart(Box<Chart>),
    NoChart {
        title: String,
        /// Reason, as a sentence without a full stop.
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

/// A table with a short caption and an explanation of its columns.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedTable {
    pub caption: String,
    pub table: Table,
    /// Explanation of the columns; empty if none is needed.
    pub legend: String,
}

impl ExplainedTable {
    pub fn new(caption: impl Into<String>, table: Table, legend: impl Into<String>) -> Self {
        Self { caption: caption.into(), table, legend: legend.into() }
    }

    /// Replaces columns that are 0 in every row by a sentence in the legend.
    pub fn without_zeros(self) -> Self {
        let (table, zeros) = self.table.without_zeros();
        let zeros =
            if zeros.is_empty() { String::new() } else { format!(" 0 in every row: {}.", zeros.join(", ")) };
        Self { caption: self.caption, table, legend: self.legend + &zeros }
    }
}

impl From<Chart> for Block {
    fn from(chart: Chart) -> Self {
        Self::Chart(Box::new(chart))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading, including the unit if there is one.
    pub heading: &'static str,
    /// Whether the column contains numbers, which are aligned right.
    pub numbers: bool,
    /// Order of omission if space is short: the largest first; 0 is never omitted.
    pub spare: u8,
}

pub const fn words(heading: &'static str) -> Column {
    Column { heading, numbers: false, spare: 0 }
}

pub const fn numbers(heading: &'static str, spare: u8) -> Column {
    Column { heading, numbers: true, spare }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub columns: Vec<Column>,
    /// Number of columns on the left that identify a row. Repeated labels are left blank, and long ones are wrapped if space is
    /// short.
    pub labels: usize,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Removes columns without measurements, and `reps` if all are 1.
    pub fn without_idle_columns(self) -> Self {
        let idle = |at: usize| {
            let column = self.columns[at];
            let is_idle = |value: &Value| {
                value.is_not_measured()
                    || column.heading == "reps" && *value == (Value::OutOf { part: 1, whole: 1 })
            };
            at >= self.labels && self.rows.iter().all(|row| is_idle(&row[at]))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| !idle(*at)).collect();
        self.only(&kept)
    }

    /// Removes optional columns whose measured values are all 0, and returns their headings.
    pub fn without_zeros(self) -> (Self, Vec<&'static str>) {
        let is_zero = |at: usize| {
            let mut values =
                self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_not_measured()).peekable();
            self.columns[at].spare > 0 && values.peek().is_some() && values.all(Value::is_zero)
        };
        let (zeros, kept): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(|at| is_zero(*at));
        (self.only(&kept), zeros.iter().map(|at| self.columns[*at].heading).collect())
    }

    /// Removes the most dispensable column, preferring those without measurements; `None` if all must remain.
    pub fn without_spare_column(&self) -> Option<(Self, &'static str)> {
        let is_empty = |at: usize| self.rows.iter().all(|row| row[at].is_not_measured());
        let spare = (0..self.columns.len())
            .filter(|at| self.columns[*at].spare > 0)
            .max_by_key(|at| (is_empty(*at), self.columns[*at].spare))?;
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| *at != spare).collect();
        Some((self.only(&kept), self.columns[spare].heading))
    }

    /// Removes the columns that identify the rows.
    pub fn without_labels(&self) -> Self {
        let kept: Vec<usize> = (self.labels..self.columns.len()).collect();
        Self { labels: 0, ..self.only(&kept) }
    }

    fn only(&self, kept: &[usize]) -> Self {
        let pick = |row: &Vec<Value>| kept.iter().map(|at| row[*at].clone()).collect();
        Self {
            columns: kept.iter().map(|at| self.columns[*at]).collect(),
            labels: self.labels,
            rows: self.rows.iter().map(pick).collect(),
        }
    }
}
