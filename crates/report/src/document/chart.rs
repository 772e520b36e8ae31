//! Charts as data: axes, and series in the units of their metrics. Image files and pages show the same charts.

use super::Axis;
use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_stats::Interval;

/// State of the trials behind a marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Whether the trials are invalid or partial, or the value is only a bound.
    pub doubtful: bool,
    pub violated: bool,
}

pub type PlotPoint = (f64, f64);

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Name of the chart's file, and its id on a page.
    pub id: String,
    pub title: String,
    /// Text alternative: contents and extremes in full sentences.
    pub said: String,
    /// Explanations and caveats, one paragraph each.
    pub caption: Vec<String>,
    pub kind: ChartKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ChartKind {
    Lines(Lines),
    Panels(Panels),
    Bars(Bars),
    Ratios(Ratios),
    Heat(Heat),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    /// The y axis on an alternative scale that readers of a page can select.
    pub other_y: Option<Axis>,
    pub series: Vec<Curve>,
    pub bands: Vec<Band>,
    pub guides: Vec<Guide>,
}

impl Lines {
    pub const fn new(x: Axis, y: Axis, series: Vec<Curve>) -> Self {
        Self { x, y, other_y: None, series, bands: Vec::new(), guides: Vec::new() }
    }

    /// Returns lines with an alternative scale of the y axis, which readers of a page can select.
    pub fn either_way(x: Axis, y: Axis, series: Vec<Curve>) -> Self {
        Self { other_y: Some(y.other_scale()), ..Self::new(x, y, series) }
    }
}

pub type Marked = (PlotPoint, Mark);

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// Position of the strategy in the document, which determines its colour, dash pattern and marker.
    pub look: usize,
    pub label: String,
    pub line: Vec<PlotPoint>,
    pub markers: Vec<Marked>,
    /// Individual values around the line, such as one for each repetition.
    pub dots: Vec<Marked>,
    /// Intervals of individual points.
    pub whiskers: Vec<Ends>,
    /// Intervals along the whole line.
    pub shaded: Vec<Ends>,
    /// Measured points that verify a predicted line; doubtful if they are lower bounds.
    pub measured: Vec<Marked>,
}

impl Curve {
    pub fn new(look: usize, label: impl Into<String>) -> Self {
        Self { look, label: label.into(), ..Self::default() }
    }

    /// Adds a line with a marker at each point. Only the last marker shows a violation.
    pub fn through(self, line: Vec<PlotPoint>, mark: Mark) -> Self {
        Self { markers: Self::marked(line.iter().copied(), mark), line, ..self }
    }

    /// Marks these points. Only the last mark shows a violation.
    pub fn marked(places: impl IntoIterator<Item = PlotPoint>, mark: Mark) -> Vec<Marked> {
        let plain = Mark { violated: false, ..mark };
        let mut all: Vec<Marked> = places.into_iter().map(|at| (at, plain)).collect();
        if let Some(last) = all.last_mut() {
            last.1 = mark;
        }
        all
    }

    /// Returns the largest x at which a line ends, or `least` if that is larger.
    pub fn furthest<'a>(all: impl IntoIterator<Item = &'a Self>, least: f64) -> f64 {
        all.into_iter().filter_map(|curve| curve.line.last()).map(|end| end.0).fold(least, f64::max)
    }

    /// Returns all y values.
    pub fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        let marked = self.dots.iter().chain(&self.measured).map(|(place, _)| place);
        let points = self.line.iter().chain(marked).map(|place| place.1);
        points.chain(self.ends().flat_map(|ends| [ends.low, ends.high]))
    }

    /// Returns the lowest and the highest value.
    pub fn extremes(&self) -> (f64, f64) {
        self.heights().fold((f64::INFINITY, 0.0), |(low, high), y| (low.min(y), high.max(y)))
    }

    pub fn ends(&self) -> impl Iterator<Item = &Ends> {
        self.whiskers.iter().chain(&self.shaded)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ends {
    pub at: f64,
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// A highlighted range of the x axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    /// Share of the strategies under the fault, between 0 and 1.
    pub share: f64,
}

/// A reference line.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    pub course: GuideCourse,
    /// Label of the line; empty if the caption explains it.
    pub label: String,
    pub weight: Weight,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GuideCourse {
    /// A horizontal line at this y.
    Level(f64),
    /// A vertical line at this x.
    Upright(f64),
    Along(Vec<PlotPoint>),
    Above(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Faint,
    Strong,
    /// A limit that must not be exceeded.
    Limit,
}

impl Guide {
    pub fn new(course: GuideCourse, label: impl Into<String>, weight: Weight) -> Self {
        Self { course, label: label.into(), weight }
    }
}

/// Several small charts of one kind with the same series.
#[derive(Debug, Clone, PartialEq)]
pub struct Panels {
    /// Legend of the series, by look.
    pub keys: Vec<String>,
    /// Panels with their headings.
    pub panels: Vec<(String, Lines)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    pub axis: Axis,
    /// Parts of a bar, in order; at most one if bars are not divided.
    pub parts: Vec<PartName>,
    /// Reference values.
    pub guides: Vec<Guide>,
    pub rows: Vec<Bar>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartName {
    pub name: String,
    /// Colour of the part; the same part has the same colour in every chart.
    pub colour: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub look: usize,
    pub label: String,
    pub parts: Vec<BarPart>,
    /// Text to the right of the bar.
    pub value: String,
    pub mark: Mark,
    /// Values of individual repetitions, and whether each is doubtful.
    pub dots: Vec<(f64, bool)>,
}

impl Bar {
    /// Creates a bar with a single part.
    pub fn new(look: usize, label: impl Into<String>, length: f64, value: String) -> Self {
        let parts = vec![BarPart { of: 0, length, label: String::new() }];
        Self { look, label: label.into(), parts, value, mark: Mark::default(), dots: Vec::new() }
    }

    pub fn length(&self) -> f64 {
        self.parts.iter().map(|part| part.length).sum()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct BarPart {
    pub of: usize,
    pub length: f64,
    /// Text on the part, if it fits.
    pub label: String,
}

/// Ratios with their intervals, one below the other on a shared axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    /// Dividend and divisor of the ratios.
    pub of: &'static str,
    pub rows: Vec<RatioRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RatioRow {
    pub label: String,
    pub verdict: ComparisonVerdict,
    pub interval: Option<Interval>,
    /// Bounds of the margin, within which differences do not matter.
    pub margin: Option<[f64; 2]>,
    /// Values behind the ratio, as dots above and below its interval.
    pub above: Vec<f64>,
    pub below: Vec<f64>,
}

/// Results of each row under each column, as text on coloured tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    pub columns: Vec<String>,
    pub rows: Vec<HeatRow>,
}

/// A strategy at one contender count. The label includes the count if there are several.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatRow {
    pub label: String,
    /// A tile for each column; `None` for combinations that were not tried.
    pub tiles: Vec<Option<Tile>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// Lines of text on the tile.
    pub said: Vec<String>,
    pub shade: Shade,
    /// Whether the row's metrics come from invalid or partial trials.
    pub doubtful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shade {
    None,
    /// Duration as a position on the scale, from 0 (shortest) to 1 (longest).
    Time(f64),
    /// The lock was not acquired again.
    Stuck,
    Violated,
}
