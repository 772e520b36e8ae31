//! Charts before they are drawn: what is on the axes, and each series in its own units.

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// By what it is named in a document.
    pub id: String,
    /// The heading.
    pub title: String,
    /// What it shows, with its extremes, for whoever cannot see it; full sentences.
    pub said: String,
    /// How to read it; empty where that is plain.
    pub caption: String,
    /// What is drawn.
    pub kind: Kind,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Lines over a common axis.
    Lines(Lines),
    /// Bars of parts.
    Bars(Bars),
}

/// Lines over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, one for each strategy that has one.
    pub series: Vec<Series>,
    /// Where something was broken.
    pub bands: Vec<Band>,
    /// Lines across, such as the floor.
    pub guides: Vec<Guide>,
    /// Lines upright, such as what was asked for.
    pub upright: Vec<Guide>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is on it, with its unit.
    pub title: String,
    /// How values are spread over it.
    pub scale: Scale,
    /// Where it has labels, if those do not follow from the scale.
    pub ticks: Vec<Tick>,
    /// What its values are.
    pub unit: Unit,
}

/// A place on an axis with a label.
#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    /// Where.
    pub at: f64,
    /// The label.
    pub label: String,
}

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Evenly by their logarithms.
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
    /// Amounts.
    Amount,
    /// How rare something is: 1 in so many.
    Rarity,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The strategy's place in the document.
    pub strategy: usize,
    /// Its points.
    pub line: Vec<(f64, f64)>,
    /// The ends of their intervals, where they have some.
    pub ends: Vec<Ends>,
    /// Points that get a marker.
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
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// A span of the horizontal axis that stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is.
    pub label: String,
    /// Of which strategy.
    pub strategy: usize,
}

/// A line through the whole chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    /// At which value.
    pub at: f64,
    /// What it is.
    pub label: String,
}

/// Bars of parts, one for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// What a bar's length is.
    pub title: String,
    /// What the parts are, in the order in which they follow each other.
    pub parts: Vec<String>,
    /// The bars.
    pub rows: Vec<Row>,
}

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The strategy's place in the document.
    pub strategy: usize,
    /// What it is called.
    pub label: String,
    /// Its parts that are not nothing.
    pub parts: Vec<Part>,
}

/// A part of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Which of [`Bars::parts`].
    pub of: usize,
    /// How much.
    pub amount: f64,
}
