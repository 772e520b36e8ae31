//! Charts before they are drawn: what is on the axes, and each series in the units of its figure. A picture and a page draw
//! the same.

pub use zklockbench_picture::Mark;

use super::Axis;
use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_stats::Interval;

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

    /// The same with two scales for the upright axis, of which the first is shown.
    pub fn either_way(x: Axis, [y, other]: [Axis; 2], series: Vec<Curve>) -> Self {
        Self { other_y: Some(other), ..Self::new(x, y, series) }
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
    pub intervals: Intervals,
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
            intervals: Intervals::None,
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
        points.map(|place| place.1).chain(self.ends().iter().flat_map(|ends| [ends.low, ends.high]))
    }

    pub fn ends(&self) -> &[Ends] {
        match &self.intervals {
            Intervals::None => &[],
            Intervals::Whiskers(ends) | Intervals::Shaded(ends) => ends,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Intervals {
    None,
    /// Of a few points.
    Whiskers(Vec<Ends>),
    /// Of a whole curve.
    Shaded(Vec<Ends>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ends {
    pub at: f64,
    pub low: f64,
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
    /// Values to compare with, and their names.
    pub references: Vec<(f64, String)>,
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
    /// How times are ranked; `None` where there is none.
    pub scale: Option<Axis>,
}

/// One strategy with one number of contenders.
#[derive(Debug, Clone, PartialEq)]
pub struct HeatRow {
    pub label: String,
    pub contenders: usize,
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

/// The points of a curve without those that lie within `tolerance` of the line between the ones that are kept.
///
/// Source: D. Douglas and T. Peucker, Algorithms for the reduction of the number of points required to represent a
/// digitized line or its caricature, 1973. The distance is taken in whatever the points are in: pixels, for what is drawn.
pub fn simplified(points: &[(f64, f64)], tolerance: f64) -> Vec<(f64, f64)> {
    let mut kept = vec![false; points.len()];
    let mut parts = vec![(0, points.len().saturating_sub(1))];
    if let (Some(first), last) = (kept.first_mut(), points.len().saturating_sub(1)) {
        *first = true;
        kept[last] = true;
    }
    while let Some((from, to)) = parts.pop() {
        let furthest = (from + 1..to)
            .map(|at| (at, distance(points[at], points[from], points[to])))
            .max_by(|one, other| one.1.total_cmp(&other.1));
        if let Some((at, away)) = furthest
            && away > tolerance
        {
            kept[at] = true;
            parts.extend([(from, at), (at, to)]);
        }
    }
    points.iter().zip(kept).filter(|(_, kept)| *kept).map(|(point, _)| *point).collect()
}

fn distance(point: (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length == 0.0 {
        return (point.0 - from.0).hypot(point.1 - from.1);
    }
    (dx * (from.1 - point.1) - dy * (from.0 - point.0)).abs() / length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_straight_line_keeps_its_ends_and_a_step_its_corners() {
        let line: Vec<(f64, f64)> = (0..1_000).map(|at| (f64::from(at), 2.0 * f64::from(at))).collect();
        assert_eq!(simplified(&line, 0.25), [line[0], line[999]]);
        let step: Vec<(f64, f64)> =
            (0..1_000).map(|at| (f64::from(at), if at < 500 { 0.0 } else { 50.0 })).collect();
        assert_eq!(simplified(&step, 0.25), [step[0], step[499], step[500], step[999]]);
        assert_eq!(simplified(&[], 1.0), []);
        assert_eq!(simplified(&[(1.0, 2.0)], 1.0), [(1.0, 2.0)]);
    }
}
