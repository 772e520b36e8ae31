//! Charts before they are drawn: what is on the axes, and each series in its own units.

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// By what it is named in a document.
    pub id: String,
    pub title: String,
    /// What it shows, with its extremes, for whoever cannot see it; full sentences.
    pub said: String,
    /// How to read it; empty where that is plain.
    pub caption: String,
    pub kind: Kind,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Lines(Lines),
    Bars(Bars),
}

/// Lines over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    /// The lines, one for each strategy that has one.
    pub series: Vec<Series>,
    /// Where something was broken.
    pub bands: Vec<Band>,
    pub guides: Vec<Guide>,
    /// Lines upright, such as what was asked for.
    pub upright: Vec<Guide>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is on it, with its unit.
    pub title: String,
    pub scale: Scale,
    /// Where it has labels, if those do not follow from the scale.
    pub ticks: Vec<Tick>,
    pub unit: Unit,
}

/// A place on an axis with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where.
    pub at: f64,
    pub label: String,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    Log,
    /// Either, as the reader likes: logarithmic at first.
    LogOrLinear,
    /// Either, as the reader likes: linear at first.
    LinearOrLog,
}

/// What the values of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Times in microseconds.
    Micros,
    /// Times in seconds.
    Seconds,
    Amount,
    /// How rare something is: 1 in so many.
    Rarity,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub strategy: usize,
    pub line: Vec<(f64, f64)>,
    /// The ends of their intervals, where they have some.
    pub ends: Vec<Ends>,
    pub marked: Vec<(f64, f64)>,
    /// Single values around it, such as one for each repetition.
    pub dots: Vec<(f64, f64)>,
    /// What was measured of what the line predicts.
    pub measured: Vec<(f64, f64)>,
    /// Its figures are those of invalid or partial trials.
    pub doubtful: bool,
    /// Its lock did not exclude.
    pub violated: bool,
}

impl Series {
    /// One without points.
    #[must_use]
    pub const fn of(strategy: usize) -> Self {
        Self {
            strategy,
            line: Vec::new(),
            ends: Vec::new(),
            marked: Vec::new(),
            dots: Vec::new(),
            measured: Vec::new(),
            doubtful: false,
            violated: false,
        }
    }
}

/// The ends of the interval of one point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ends {
    /// Where on the horizontal axis.
    pub at: f64,
    pub low: f64,
    pub high: f64,
}

/// A span of the horizontal axis that stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    pub label: String,
    pub strategy: usize,
}

/// A line through the whole chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    pub at: f64,
    pub label: String,
}

/// Bars of parts, one for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    pub title: String,
    /// What the parts are, in the order in which they follow each other.
    pub parts: Vec<String>,
    pub rows: Vec<Row>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub strategy: usize,
    pub label: String,
    /// Its parts that are not nothing.
    pub parts: Vec<Part>,
}

/// A part of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Which of [`Bars::parts`].
    pub of: usize,
    pub amount: f64,
}
