//! A coordinate axis for plotters. Ticks include their unit.

use std::ops::Range;

use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use zklockbench_core::units::{format_micros, number};
use zklockbench_core::worded;

worded! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Scale by suffix {
        Linear = "",
        Log = " (log scale)",
        /// Logarithm of the value + 1, so that 0 has a position.
        LogFromZero = " (log scale from 0)",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros,
    Number,
    /// Rarity of a percentile p, 1/(1-p): one in this many samples is larger.
    Rarity,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    name: String,
    unit: Unit,
    scale: Scale,
    pub low: f64,
    pub high: f64,
    /// Ticks with labels that override the labels of the scale.
    ticks: Vec<(f64, String)>,
    has_all_ticks: bool,
}

/// Width in pixels of a tick label below a plot.
pub const LABEL: u32 = 85;

pub const PERCENTILES: [(f64, &str); 8] = [
    (1.0, "0 %"),
    (2.0, "50 %"),
    (1e1, "90 %"),
    (1e2, "99 %"),
    (1e3, "99.9 %"),
    (1e4, "99.99 %"),
    (1e5, "99.999 %"),
    (1e6, "99.9999 %"),
];

impl Axis {
    fn new(name: &str, unit: Unit, scale: Scale, (low, high): (f64, f64)) -> Self {
        Self { name: name.to_owned(), unit, scale, low, high, ticks: Vec::new(), has_all_ticks: false }
    }

    /// Creates a logarithmic axis of durations that includes these microseconds.
    pub fn durations(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, Unit::Micros, Scale::Log, around(ends(values)))
    }

    pub fn logarithmic(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::new(name, Unit::Number, Scale::Log, around(ends(values)))
    }

    /// Creates a linear axis from 0 that includes this value.
    pub fn from_zero(name: &str, high: f64) -> Self {
        Self::new(name, Unit::Number, Scale::Linear, (0.0, if high > 0.0 { high * 1.04 } else { 1.0 }))
    }

    /// Creates an axis of counts from 0, on a logarithmic scale.
    pub fn counts(name: &str, high: f64) -> Self {
        Self::new(name, Unit::Number, Scale::LogFromZero, (0.0, high.max(1.0) * 1.25))
    }

    /// Creates a linear axis of amounts from 0, or a logarithmic axis if they span more than a factor of 20.
    pub fn amounts(name: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let all: Vec<f64> = values.into_iter().collect();
        let (low, high) = ends(all.iter().copied().filter(|value| *value > 0.0));
        match (high / low > 20.0, all.contains(&0.0)) {
            (true, true) => Self::counts(name, high),
            (true, false) => Self::logarithmic(name, [low, high]),
            (false, _) => Self::from_zero(name, high),
        }
    }

    /// Creates a logarithmic axis with a tick at each measured value; meant for few values.
    pub fn measured(name: &str, values: &[f64]) -> Self {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let (low, high) = ends(values.iter().copied());
        let room = (high / low).max(2.0).powf(0.04);
        let axis = Self::new(name, Unit::Number, Scale::Log, (low / room, high * room));
        axis.labelled(values.into_iter().map(|value| (value, number(value))))
    }

    /// Creates an axis with one column for each label, starting at 1.
    pub fn columns(name: &str, labels: &[String]) -> Self {
        let axis = Self::new(name, Unit::Number, Scale::Linear, (0.5, labels.len() as f64 + 0.5));
        axis.labelled(labels.iter().zip(1_u32..).map(|(label, at)| (f64::from(at), label.clone())))
    }

    /// Creates an axis with one row for each label, starting at 1 at the top.
    pub fn rows(labels: &[String]) -> Self {
        let axis = Self::tiles(labels);
        Self { low: axis.high, high: axis.low, ..axis }
    }

    pub fn tiles(labels: &[String]) -> Self {
        Self { has_all_ticks: true, ..Self::columns("", labels) }
    }

    /// Creates an axis of percentiles for this many samples. Its values are 1/(1-p).
    pub fn percentiles(samples: f64) -> Self {
        let axis = Self::new("percentile", Unit::Rarity, Scale::Log, (1.0, samples.clamp(10.0, 1e7)));
        axis.labelled(PERCENTILES.into_iter().map(|(at, label)| (at, label.to_owned())))
    }

    /// Adds labels for the given ticks that lie on the axis.
    fn labelled(self, ticks: impl Iterator<Item = (f64, String)>) -> Self {
        Self { ticks: ticks.filter(|(at, _)| (self.low..=self.high).contains(at)).collect(), ..self }
    }

    /// Returns the ticks whose labels do not overlap, if the axis has space for `most` labels of [`LABEL`]
    /// pixels.
    fn apart(&self, most: usize) -> Vec<f64> {
        let wide = |label: &str| (label.chars().count() as f64 * 8.0 + 10.0) / (LABEL as f64 * most as f64);
        let mut kept: Vec<&(f64, String)> = Vec::new();
        for tick in self.ticks.iter().rev() {
            let is_free = |next: &&(f64, String)| {
                self.share(next.0) - self.share(tick.0) > f64::midpoint(wide(&tick.1), wide(&next.1))
            };
            if self.has_all_ticks || kept.last().is_none_or(is_free) {
                kept.push(tick);
            }
        }
        kept.into_iter().map(|tick| tick.0).collect()
    }

    /// Returns the axis on the other scale: logarithmic if it is linear, linear otherwise.
    pub fn other_scale(&self) -> Self {
        let scale = if self.is_linear() { Scale::LogFromZero } else { Scale::Linear };
        Self { scale, low: 0.0, ..self.clone() }
    }

    /// Returns the name and scale of the axis; ticks show the unit.
    pub fn title(&self) -> String {
        self.name.clone() + self.scale.suffix()
    }

    /// Returns the position of a value on the axis: 0 at its low end, 1 at its high end.
    pub fn share(&self, value: f64) -> f64 {
        f64::from(self.map(&value, (0, 1_000_000))) / 1e6
    }

    pub fn is_of_percentiles(&self) -> bool {
        self.unit == Unit::Rarity
    }

    pub fn is_linear(&self) -> bool {
        self.scale == Scale::Linear
    }

    /// Returns the labels of the ticks, of which there are at most about `most`.
    pub fn labels(&self, most: usize) -> Vec<String> {
        self.key_points(BoldPoints(most)).iter().map(|tick| self.format_ext(tick)).collect()
    }

    /// Returns the label of a value: the label of its tick, or else the value formatted in the axis's unit.
    pub fn told(&self, value: f64) -> String {
        if let Some((_, label)) = self.ticks.iter().find(|(at, _)| *at == value) {
            return label.clone();
        }
        match self.unit {
            Unit::Micros => format_micros(value.round() as u64),
            Unit::Number => number(value),
            Unit::Rarity => {
                let digits = (value.max(1.0).log10().ceil() as usize).saturating_sub(1);
                format!("{:.digits$} %", 100.0 * (1.0 - 1.0 / value.max(1.0)))
            }
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let value = value.clamp(self.low.min(self.high), self.high.max(self.low));
        let zero = match self.scale {
            Scale::Linear => return RangedCoordf64::from(self.range()).map(&value, limit),
            Scale::Log => 0.0,
            Scale::LogFromZero => -1.0,
        };
        LogCoord::from(self.range().log_scale().zero_point(zero)).map(&value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let most = hint.max_num_points();
        match self.scale {
            _ if hint.weight().allow_light_points() => Vec::new(),
            _ if !self.ticks.is_empty() => self.apart(most),
            Scale::Linear => RangedCoordf64::from(self.range()).key_points(hint),
            Scale::Log => steps(self.low, self.high, most),
            Scale::LogFromZero => std::iter::once(0.0).chain(steps(1.0, self.high, most - 1)).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match self.unit {
            _ if *value == 0.0 => "0".to_owned(),
            Unit::Micros if *value >= 1e6 => format!("{} s", number(value / 1e6)),
            _ => self.told(*value),
        }
    }
}

/// Returns the minimum and maximum of the values, or 1 and 1 without values.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), wider);
    if low.is_finite() && high.is_finite() { (low.max(1e-9), high.max(1e-9)) } else { (1.0, 1.0) }
}

/// Returns steps of 1, 2 and 5 in each decade, or only powers of ten if there would be more than `most`.
fn steps(low: f64, high: f64, most: usize) -> Vec<f64> {
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of_each = |steps: &[f64]| -> Vec<f64> {
        let all = decades.clone().flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        all.filter(|step| (low * 0.9999..=high * 1.0001).contains(step)).collect()
    };
    let several = of_each(&[1.0, 2.0, 5.0]);
    if several.len() <= most { several } else { of_each(&[1.0]) }
}

/// Returns the nearest steps that enclose this range.
fn around((low, high): (f64, f64)) -> (f64, f64) {
    let all = steps(low / 10.0, high * 10.0, usize::MAX);
    let below = all.iter().copied().rfind(|step| *step <= low * 1.0001).unwrap_or(low);
    let above = all.into_iter().find(|step| *step >= high * 0.9999 && *step > below);
    (below, above.unwrap_or(high * 2.0))
}

#[cfg(test)]
mod tests {
    use super::Axis;

    #[test]
    fn durations_have_readable_labels_and_finer_ticks_if_the_range_is_narrow() {
        let expected =
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s", "1000 s"];
        assert_eq!(Axis::durations("wait", [1.0, 3.6e9]).labels(9), expected);
        assert_eq!(Axis::durations("wait", [1_200.0, 8_000.0]).labels(9), ["1 ms", "2 ms", "5 ms", "10 ms"]);
    }

    #[test]
    fn every_scale_has_a_position_for_each_value_and_at_least_two_ticks() {
        for values in [vec![0.0], vec![0.0, 900.0, 3.0], vec![0.2, 400.0], vec![5.0, 5.0], vec![]] {
            let axis = Axis::amounts("requests", values.clone());
            assert!(
                values.iter().all(|value| (axis.low..=axis.high).contains(value)),
                "{values:?}: {axis:?}"
            );
            assert!(axis.labels(9).len() > 1, "{axis:?}");
            assert!(axis.share(axis.low) == 0.0 && axis.share(axis.high) == 1.0, "{axis:?}");
        }
    }

    #[test]
    fn a_value_is_labelled_like_its_tick_or_with_its_unit() {
        let percentiles = Axis::percentiles(700.0);
        assert_eq!([percentiles.told(100.0), percentiles.told(700.0)], ["99 %", "99.86 %"]);
        let log = Axis::durations("wait", [1_200.0, 8_000.0]);
        assert_eq!([log.told(1_500.0), log.other_scale().labels(5)[0].clone()], ["1.5 ms", "0"]);
    }

    #[test]
    fn overlapping_ticks_are_omitted() {
        let axis = Axis::measured("contenders", &[1.0, 100.0, 101.0, 1000.0]);
        assert_eq!(axis.labels(7), ["1000", "101", "1"]);
    }
}
