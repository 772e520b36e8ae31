//! The document behind every renderer: values that know what they are, tables, charts, notes and conclusions. A renderer
//! makes the strings; until then a duration is a duration and a verdict a verdict, so that a terminal can colour it, a page
//! can sort by it, and none has to look at a text to find out what it is.

mod axis;
mod chart;
mod value;

pub use axis::{Axis, LABEL, PERCENTILES};
pub use chart::{
    Band, Bar, BarPart, Bars, Chart, ChartKind, Curve, Ends, Guide, GuideCourse, Heat, HeatRow, Lines, Mark,
    Marked, Panels, PartName, PlotPoint, RatioRow, Ratios, Shade, Tile, Weight,
};
pub use value::{Tone, Value, violated_word};

/// All that is said of one run, or of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub title: String,
    /// What was asked, or of what it is: stands below the title.
    pub about: String,
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
    /// By what links name it; unique in a document.
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

/// A table, what it shows in a few words, and what its columns are.
#[derive(Debug, Clone, PartialEq)]
pub struct ExplainedTable {
    pub caption: String,
    pub table: Table,
    /// How to read it; empty where it needs no words.
    pub legend: String,
}

impl ExplainedTable {
    pub fn new(caption: impl Into<String>, table: Table, legend: impl Into<String>) -> Self {
        Self { caption: caption.into(), table, legend: legend.into() }
    }

    /// Columns that are 0 everywhere are told instead of shown.
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
    /// The heading, with its unit where it has one.
    pub heading: &'static str,
    /// Whether it holds numbers, which stand at the right.
    pub numbers: bool,
    /// The larger, the sooner it is left out where there is little room; 0 stays.
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
    /// How many columns at the left name what a row is about: these are not repeated from row to row, and wrapped where
    /// there is no room.
    pub labels: usize,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Without the columns that hold no measurement in any row, and without `reps` where all are 1.
    pub fn without_idle_columns(self) -> Self {
        let idle = |at: usize| {
            let column = self.columns[at];
            let is_idle = |value: &Value| {
                value.is_not_measured()
                    || column.heading == "reps" && *value == (Value::OutOf { part: 1, whole: 1 })
            };
            column.spare > 0 && self.rows.iter().all(|row| is_idle(&row[at]))
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| !idle(*at)).collect();
        self.only(&kept)
    }

    /// Without the columns that can be spared and are 0 wherever they were measured, and their headings.
    pub fn without_zeros(self) -> (Self, Vec<&'static str>) {
        let is_zero = |at: usize| {
            let mut values =
                self.rows.iter().map(|row| &row[at]).filter(|value| !value.is_not_measured()).peekable();
            self.columns[at].spare > 0 && values.peek().is_some() && values.all(Value::is_zero)
        };
        let (zeros, kept): (Vec<usize>, Vec<usize>) = (0..self.columns.len()).partition(|at| is_zero(*at));
        (self.only(&kept), zeros.iter().map(|at| self.columns[*at].heading).collect())
    }

    /// Without the column that can best be spared, first those that hold no measurement; `None` when all must stay.
    pub fn without_spare_column(&self) -> Option<(Self, &'static str)> {
        let is_empty = |at: usize| self.rows.iter().all(|row| row[at].is_not_measured());
        let spare = (0..self.columns.len())
            .filter(|at| self.columns[*at].spare > 0)
            .max_by_key(|at| (is_empty(*at), self.columns[*at].spare))?;
        let kept: Vec<usize> = (0..self.columns.len()).filter(|at| *at != spare).collect();
        Some((self.only(&kept), self.columns[spare].heading))
    }

    /// Without what names the rows.
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
