//! Charts before they are drawn: what is on the axes, and each series in the units of its figure. A picture and a page draw
//! the same.

use super::Axis;
use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_stats::Interval;

/// What a marker says of the trials behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Invalid or partial trials, or a bound.
    pub doubtful: bool,
    /// The lock broke a promise.
    pub violated: bool,
}

/// A pair of values, along the axis below and along the upright one.
pub type PlotPoint = (f64, f64);

#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name of its file, and of its place on a page.
    pub id: String,
    pub title: String,
    /// What it shows, with its extremes, for readers who can't see it; full sentences.
    pub said: String,
    /// How to read it, and what must be known of its figures, paragraph by paragraph.
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

impl ChartKind {
    /// Whether its labels need the whole width of a page.
    pub const fn is_wide(&self) -> bool {
        matches!(self, Self::Panels(_) | Self::Ratios(_))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    /// The upright axis on another scale, for a reader of a page who prefers it.
    pub other_y: Option<Axis>,
    pub series: Vec<Curve>,
    pub bands: Vec<Band>,
    pub guides: Vec<Guide>,
}

impl Lines {
    pub const fn new(x: Axis, y: Axis, series: Vec<Curve>) -> Self {
        Self { x, y, other_y: None, series, bands: Vec::new(), guides: Vec::new() }
    }

    /// The same with a second scale for the upright axis, which a reader of a page can choose.
    pub fn either_way(x: Axis, y: Axis, series: Vec<Curve>) -> Self {
        Self { other_y: Some(y.other_scale()), ..Self::new(x, y, series) }
    }
}

pub type Marked = (PlotPoint, Mark);

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Which colour, dash pattern and marker it has: the place of its strategy among those of its document.
    pub look: usize,
    pub label: String,
    pub line: Vec<PlotPoint>,
    pub markers: Vec<Marked>,
    /// Single values around it, such as one for each repetition.
    pub dots: Vec<Marked>,
    /// Intervals of a few points.
    pub whiskers: Vec<Ends>,
    /// Intervals of the whole line.
    pub shaded: Vec<Ends>,
    /// What was measured of what the line predicts.
    pub measured: Vec<PlotPoint>,
}

impl Curve {
    pub fn new(look: usize, label: impl Into<String>) -> Self {
        Self {
            look,
            label: label.into(),
            line: Vec::new(),
            markers: Vec::new(),
            dots: Vec::new(),
            whiskers: Vec::new(),
            shaded: Vec::new(),
            measured: Vec::new(),
        }
    }

    /// The same with a line through these points, each of them marked; one cross a line is enough, so it's at the last.
    pub fn through(self, line: Vec<PlotPoint>, mark: Mark) -> Self {
        Self { markers: Self::marked(line.iter().copied(), mark), line, ..self }
    }

    /// Marks of these points, with the cross at the last.
    pub fn marked(places: impl IntoIterator<Item = PlotPoint>, mark: Mark) -> Vec<Marked> {
        let plain = Mark { violated: false, ..mark };
        let mut all: Vec<Marked> = places.into_iter().map(|at| (at, plain)).collect();
        if let Some(last) = all.last_mut() {
            last.1 = mark;
        }
        all
    }

    /// Where the last of these lines ends along the axis below, or at `least`.
    pub fn furthest<'a>(all: impl IntoIterator<Item = &'a Self>, least: f64) -> f64 {
        all.into_iter().filter_map(|curve| curve.line.last()).map(|end| end.0).fold(least, f64::max)
    }

    /// All values along the upright axis.
    pub fn heights(&self) -> impl Iterator<Item = f64> + '_ {
        let points = self.line.iter().chain(self.dots.iter().map(|(place, _)| place)).chain(&self.measured);
        points.map(|place| place.1).chain(self.ends().flat_map(|ends| [ends.low, ends.high]))
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

/// A span of the axis below that stands out.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    pub from: f64,
    pub to: f64,
    /// Of how many of the strategies it is true, between 0 and 1.
    pub share: f64,
}

/// A line to compare with.
#[derive(Debug, Clone, PartialEq)]
pub struct Guide {
    pub course: GuideCourse,
    /// Empty where the caption says it.
    pub label: String,
    pub weight: Weight,
}

#[derive(Debug, Clone, PartialEq)]
pub enum GuideCourse {
    /// Across the chart, at that height.
    Level(f64),
    /// From top to bottom, at that place of the axis below.
    Upright(f64),
    Along(Vec<PlotPoint>),
    Above(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Faint,
    Strong,
    /// What must not be exceeded.
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
    /// What each look stands for.
    pub keys: Vec<String>,
    /// Each with its heading.
    pub panels: Vec<(String, Lines)>,
}

impl Panels {
    const AT_MOST: usize = 12;

    /// The first of these, and what a caption has to say of the others.
    pub fn of(keys: Vec<String>, mut panels: Vec<(String, Lines)>) -> (Self, Option<String>) {
        let more = panels.len().saturating_sub(Self::AT_MOST);
        panels.truncate(Self::AT_MOST);
        (Self { keys, panels }, (more > 0).then(|| format!("{more} more are not shown.")))
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    pub axis: Axis,
    /// What the parts of a bar are, in the order in which they follow each other; one where bars have no parts.
    pub parts: Vec<PartName>,
    /// Values to compare with.
    pub guides: Vec<Guide>,
    pub rows: Vec<Bar>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartName {
    pub name: String,
    /// Which colour it has: the same for the same thing in every chart.
    pub colour: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub look: usize,
    pub label: String,
    /// Its parts that are not nothing.
    pub parts: Vec<BarPart>,
    /// What is written beside it.
    pub value: String,
    pub mark: Mark,
    /// The values of single repetitions, and whether each is doubtful.
    pub dots: Vec<(f64, bool)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BarPart {
    pub of: usize,
    pub length: f64,
    /// What is written on it where there is room.
    pub label: String,
}

/// Ratios with their intervals on one axis, one below the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratios {
    /// What is divided by what.
    pub of: &'static str,
    pub rows: Vec<RatioRow>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RatioRow {
    pub label: String,
    pub verdict: ComparisonVerdict,
    pub interval: Option<Interval>,
    /// The smallest difference that matters, as a share.
    pub margin: Option<f64>,
    /// The values it is of, as dots above and below its interval.
    pub above: Vec<f64>,
    pub below: Vec<f64>,
}

/// What became of each row under each column, as words on coloured tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    pub columns: Vec<String>,
    pub rows: Vec<HeatRow>,
}

/// One strategy with one number of contenders, which the label names if there are several.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatRow {
    pub label: String,
    /// A tile for each column; none where it was not tried.
    pub tiles: Vec<Option<Tile>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    /// What is written on it, line by line.
    pub said: Vec<String>,
    pub shade: Shade,
    /// Its figures are those of invalid or partial trials.
    pub doubtful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shade {
    None,
    /// How long it took, as a share of the way from the shortest to the longest of the scale.
    Time(f64),
    /// It did not go on.
    Stuck,
    Violated,
}
