//! An axis: a scale, a range, and ticks with labels that name their unit.

use zklockbench_core::units::{format_micros, number};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Evenly up to 1, by their logarithm above: so that 0 has a place.
    ZeroAndLog,
}

impl Scale {
    fn stretch(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-9).log10(),
            Self::ZeroAndLog if value <= 1.0 => value,
            Self::ZeroAndLog => 1.0 + value.log10(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Tick {
    pub at: f64,
    /// Empty for a lesser one.
    pub label: String,
}

impl Tick {
    fn new(at: f64, label: impl Into<String>) -> Self {
        Self { at, label: label.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Micros,
    Number,
    /// 1/(1-p): how rare something is, as one in so many.
    Rarity,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What is on it, with its unit and its scale.
    pub title: String,
    pub ticks: Vec<Tick>,
    unit: Unit,
    scale: Scale,
    low: f64,
    high: f64,
}

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
    /// How far along the axis a value lies: 0 at its low end, 1 at its high end.
    pub fn share(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.stretch(self.low), self.scale.stretch(self.high));
        if high > low { (self.scale.stretch(value) - low) / (high - low) } else { 0.5 }
    }

    /// What a value is called: as its tick, if it has one.
    pub fn told(&self, value: f64) -> String {
        let named = self.ticks.iter().find(|tick| tick.at == value && !tick.label.is_empty());
        named.map_or_else(|| self.unit.told(value), |tick| tick.label.clone())
    }

    pub fn is_of_percentiles(&self) -> bool {
        self.unit == Unit::Rarity
    }

    pub fn is_linear(&self) -> bool {
        self.scale == Scale::Linear
    }

    /// Durations on a logarithmic scale and, for a reader who prefers it, from zero.
    pub fn durations_either_way(title: &str, values: impl IntoIterator<Item = f64>) -> [Self; 2] {
        let values: Vec<f64> = values.into_iter().collect();
        let high = ends(values.iter().copied()).1;
        [Self::durations(title, values), Self::linear(title, high, Unit::Micros)]
    }

    /// Amounts on the scale that suits them, and on the other.
    pub fn amounts_either_way(title: &str, values: impl IntoIterator<Item = f64>) -> [Self; 2] {
        let values: Vec<f64> = values.into_iter().collect();
        let high = ends(values.iter().copied()).1;
        let suits = Self::amounts(title, values);
        let other = match suits.scale {
            Scale::Linear => Self::zero_and_log(title, high),
            Scale::Log | Scale::ZeroAndLog => Self::from_zero(title, high),
        };
        [suits, other]
    }

    /// Counts on a scale on which 0, 1 and the highest can be told apart, and from zero evenly.
    pub fn counts_either_way(title: &str, high: f64) -> [Self; 2] {
        [Self::zero_and_log(title, high), Self::from_zero(title, high)]
    }

    /// An axis of durations on a logarithmic scale, wide enough for these microseconds.
    pub fn durations(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        Self::stepped(format!("{title} (duration; log scale)"), duration_steps(), ends(values), Unit::Micros)
    }

    /// From one of these steps to another, with a tick at each. All have labels where few of them are major.
    fn stepped(title: String, steps: Vec<f64>, (low, high): (f64, f64), unit: Unit) -> Self {
        let is_time = unit == Unit::Micros;
        let is_major = |step| if is_time { is_major_duration(step) } else { is_decade(step) };
        let told = |step| if is_time { duration(step) } else { number(step) };
        let few = if is_time { 4 } else { 3 };
        let last = steps[steps.len() - 1];
        let low = steps.iter().copied().rfind(|step| *step <= low).unwrap_or(steps[0]);
        let high = steps.iter().copied().find(|step| *step >= high && *step > low).unwrap_or(last);
        let within: Vec<f64> = steps.into_iter().filter(|step| (low..=high).contains(step)).collect();
        let sparse = within.iter().filter(|step| is_major(**step)).count() < few;
        let label = |step: f64| if sparse || is_major(step) { told(step) } else { String::new() };
        let ticks = within.into_iter().map(|step| Tick::new(step, label(step))).collect();
        Self { title, ticks, unit, scale: Scale::Log, low, high }
    }

    /// The axis of contender counts: a tick at each that was measured.
    pub fn contenders(counts: &[usize]) -> Self {
        let counts: Vec<f64> = counts.iter().map(|count| float((*count).max(1))).collect();
        Self::measured("contenders (one session each; log scale)", &counts)
    }

    /// A logarithmic axis with a tick at each of a few values that were measured.
    pub fn measured(title: &str, values: &[f64]) -> Self {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let ticks = values.iter().map(|value| Tick::new(*value, number(*value))).collect();
        let (low, high) = ends(values);
        let room = (high / low).powf(0.04);
        let (low, high) = (low / room, high * room);
        Self { title: title.to_owned(), ticks, unit: Unit::Number, scale: Scale::Log, low, high }
    }

    /// An axis with a column for each of these, the first at 1.
    pub fn columns(title: &str, labels: &[String]) -> Self {
        let tick = |(at, label): (usize, &String)| Tick::new(float(at) + 1.0, label.clone());
        let ticks = labels.iter().enumerate().map(tick).collect();
        let high = float(labels.len()) + 0.5;
        Self { title: title.to_owned(), ticks, unit: Unit::Number, scale: Scale::Linear, low: 0.5, high }
    }

    /// The axis of percentiles, far enough for that many samples: a value is 1/(1-p).
    pub fn percentiles(samples: f64) -> Self {
        let high = samples.clamp(10.0, 1e7);
        let reached = PERCENTILES.into_iter().filter(|(at, _)| *at <= high);
        let ticks = reached.map(|(at, label)| Tick::new(at, label)).collect();
        let title = "percentile (log scale towards 100 %)".to_owned();
        Self { title, ticks, unit: Unit::Rarity, scale: Scale::Log, low: 1.0, high }
    }

    /// An axis of amounts: from 0 and linear or, when they span more than a factor of 20, logarithmic. A 0
    /// among those still has its place.
    pub fn amounts(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let all: Vec<f64> = values.into_iter().collect();
        let (low, high) = ends(all.iter().copied().filter(|value| *value > 0.0));
        let wide = high / low > 20.0;
        match all.contains(&0.0) {
            true if wide => Self::zero_and_log(title, high),
            false if wide => Self::logarithmic(title, [low, high]),
            _ => Self::from_zero(title, high),
        }
    }

    pub fn logarithmic(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        let title = format!("{title} (log scale)");
        Self::stepped(title, one_two_five(-6, 12), (low * 1.0001, high * 0.9999), Unit::Number)
    }

    /// A linear axis from 0, wide enough for that value.
    pub fn from_zero(title: &str, high: f64) -> Self {
        Self::linear(title, high, Unit::Number)
    }

    fn linear(title: &str, high: f64, unit: Unit) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = one_two_five(-6, 12).into_iter().find(|step| high / step <= 6.0).unwrap_or(high);
        let count = (high / step - 1e-9).ceil().clamp(1.0, 8.0) as u32;
        let tick = |at: f64| Tick::new(at, if at > 0.0 { unit.told(at) } else { "0".to_owned() });
        let ticks = (0..=count).map(|at| tick(step * f64::from(at))).collect();
        let high = step * f64::from(count);
        Self { title: title.to_owned(), ticks, unit, scale: Scale::Linear, low: 0.0, high }
    }

    /// An axis from 0 to that many, linear up to 1 and logarithmic above.
    pub fn zero_and_log(title: &str, high: f64) -> Self {
        let high = high.max(1.0);
        let decades_only = high > 100.0;
        let steps = one_two_five(0, 6).into_iter().filter(|step| *step <= high * 1.001);
        let label = |step: f64| if decades_only && !is_decade(step) { String::new() } else { number(step) };
        let mut ticks = vec![Tick::new(0.0, "0")];
        ticks.extend(steps.map(|step| Tick::new(step, label(step))));
        let title = format!("{title} (linear to 1, log scale above)");
        let (low, high) = (-0.06, high * 1.25);
        Self { title, ticks, unit: Unit::Number, scale: Scale::ZeroAndLog, low, high }
    }
}

impl Unit {
    fn told(self, value: f64) -> String {
        match self {
            Self::Micros => format_micros(value.round() as u64),
            Self::Number => number(value),
            Self::Rarity => {
                let digits = (value.max(1.0).log10().ceil() as usize).saturating_sub(1);
                format!("{:.digits$} %", 100.0 * (1.0 - 1.0 / value.max(1.0)))
            }
        }
    }
}

/// The smallest and the largest, or 1 and 1 when there is none.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), wider);
    if low.is_finite() && high.is_finite() { (low, high) } else { (1.0, 1.0) }
}

pub fn float(count: usize) -> f64 {
    count as f64
}

fn one_two_five(from: i32, to: i32) -> Vec<f64> {
    (from..=to).flat_map(|decade| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(decade))).collect()
}

fn is_decade(step: f64) -> bool {
    let power = step.log10();
    (power - power.round()).abs() < 1e-6
}

const MINUTE: f64 = 6e7;

/// Steps that people count time in: 1, 2, 5 of each decade up to 10 s, then minutes up to an hour.
fn duration_steps() -> Vec<f64> {
    let mut steps = one_two_five(0, 6);
    steps.extend([1e7, 2e7].into_iter().chain([1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0].map(|n| n * MINUTE)));
    steps
}

fn is_major_duration(step: f64) -> bool {
    step >= MINUTE && [1.0, 10.0, 60.0].iter().any(|minutes| (step / MINUTE - minutes).abs() < 1e-9)
        || step < MINUTE && is_decade(step)
}

fn duration(step: f64) -> String {
    match step / MINUTE {
        hours if hours >= 60.0 => "1 h".to_owned(),
        minutes if minutes >= 1.0 => format!("{minutes:.0} min"),
        _ => format_micros(step.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::Axis;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.label.as_str()).filter(|label| !label.is_empty()).collect()
    }

    fn holds(axis: &Axis, value: f64) -> bool {
        (0.0..=1.0).contains(&axis.share(value))
    }

    #[test]
    fn durations_have_labels_that_people_read_and_in_a_narrow_range_finer_ones() {
        let expected =
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h"];
        assert_eq!(labels(&Axis::durations("wait", [1.0, 3.6e9])), expected);
        assert_eq!(labels(&Axis::durations("wait", [1_200.0, 8_000.0])), ["1 ms", "2 ms", "5 ms", "10 ms"]);
    }

    #[test]
    fn every_scale_has_a_place_for_each_of_its_values() {
        for values in [vec![0.0], vec![0.0, 900.0, 3.0], vec![0.2, 400.0], vec![5.0, 5.0], vec![]] {
            let axis = Axis::amounts("requests", values.clone());
            assert!(values.iter().all(|value| holds(&axis, *value)), "{values:?}: {axis:?}");
            assert!(axis.ticks.len() > 1, "{axis:?}");
        }
        assert!(holds(&Axis::durations("wait", [7.0, 7.0]), 7.0));
    }

    #[test]
    fn a_value_is_called_as_its_tick_or_by_its_unit() {
        let percentiles = Axis::percentiles(700.0);
        assert_eq!([percentiles.told(100.0), percentiles.told(700.0)], ["99 %", "99.86 %"]);
        let [log, linear] = Axis::durations_either_way("wait", [1_200.0, 8_000.0]);
        assert_eq!([log.told(1_500.0), linear.told(0.0)], ["1.5 ms", "0"]);
        assert_eq!(labels(&linear), ["0", "2 ms", "4 ms", "6 ms", "8 ms"]);
    }

    #[test]
    fn percentiles_reach_as_far_as_the_samples() {
        let axis = Axis::percentiles(1_000.0);
        assert_eq!(labels(&axis), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        assert!(holds(&axis, 1_000.0));
    }
}
