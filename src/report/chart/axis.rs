//! An axis: a scale, a range, and ticks with labels that name their unit.

use crate::words::units::{format_micros, number};

/// How values spread along an axis.
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

/// One tick: a value and what is written at it; nothing for a lesser one.
pub(super) type Tick = (f64, String);

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub title: String,
    pub ticks: Vec<Tick>,
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// How far along the axis a value lies: 0 at its low end, 1 at its high end.
    pub fn share(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.stretch(self.low), self.scale.stretch(self.high));
        if high > low { (self.scale.stretch(value) - low) / (high - low) } else { 0.5 }
    }

    /// An axis of durations on a logarithmic scale, wide enough for these microseconds.
    pub fn durations(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        let fine = duration_steps();
        let low = fine.iter().copied().rfind(|step| *step <= low).unwrap_or(1.0);
        let high = fine.iter().copied().find(|step| *step >= high && *step > low).unwrap_or(3.6e9);
        let within: Vec<f64> = fine.into_iter().filter(|step| *step >= low && *step <= high).collect();
        let sparse = within.iter().filter(|step| is_major_duration(**step)).count() < 4;
        let label =
            |step: f64| if sparse || is_major_duration(step) { duration(step) } else { String::new() };
        let ticks = within.into_iter().map(|step| (step, label(step))).collect();
        Self { title: format!("{title} (duration; log scale)"), ticks, scale: Scale::Log, low, high }
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
        let ticks: Vec<Tick> = values.iter().map(|value| (*value, number(*value))).collect();
        let (low, high) = ends(values);
        let room = (high / low).powf(0.04);
        Self { title: title.to_owned(), ticks, scale: Scale::Log, low: low / room, high: high * room }
    }

    /// An axis with a column for each of these, the first at 1.
    pub fn columns(title: &str, labels: &[String]) -> Self {
        let ticks = labels.iter().enumerate().map(|(at, label)| (float(at) + 1.0, label.clone())).collect();
        let high = float(labels.len()) + 0.5;
        Self { title: title.to_owned(), ticks, scale: Scale::Linear, low: 0.5, high }
    }

    /// The axis of percentiles, far enough for that many samples: a value is 1/(1-p).
    pub fn percentiles(samples: f64) -> Self {
        let named = ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
        let places = [1.0, 2.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6];
        let high = samples.clamp(10.0, 1e7);
        let ticks = places.into_iter().zip(named.map(str::to_owned)).filter(|(at, _)| *at <= high).collect();
        let title = "percentile (log scale towards 100 %)".to_owned();
        Self { title, ticks, scale: Scale::Log, low: 1.0, high }
    }

    /// An axis of amounts: from 0 and linear or, when they span more than a factor of 20, logarithmic. A 0
    /// among those still has its place.
    pub fn amounts(title: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let all: Vec<f64> = values.into_iter().collect();
        let (low, high) = ends(all.iter().copied().filter(|value| *value > 0.0));
        let wide = high / low > 20.0;
        match all.contains(&0.0) {
            true if wide => Self::zero_and_log(title, high),
            false if wide => Self::logarithmic(title, low, high),
            _ => Self::from_zero(title, high),
        }
    }

    /// A logarithmic axis, wide enough for these ends.
    pub fn logarithmic(title: &str, low: f64, high: f64) -> Self {
        let fine = one_two_five(-6, 12);
        let low = fine.iter().copied().rfind(|step| *step <= low * 1.0001).unwrap_or(1e-6);
        let high = fine.iter().copied().find(|step| *step >= high * 0.9999 && *step > low).unwrap_or(5e12);
        let within: Vec<f64> = fine.into_iter().filter(|step| *step >= low && *step <= high).collect();
        let sparse = within.iter().filter(|step| is_decade(**step)).count() < 3;
        let label = |step: f64| if sparse || is_decade(step) { number(step) } else { String::new() };
        let ticks = within.into_iter().map(|step| (step, label(step))).collect();
        Self { title: format!("{title} (log scale)"), ticks, scale: Scale::Log, low, high }
    }

    /// A linear axis from 0, wide enough for that value.
    pub fn from_zero(title: &str, high: f64) -> Self {
        let high = if high > 0.0 { high } else { 1.0 };
        let step = one_two_five(-6, 12).into_iter().find(|step| high / step <= 6.0).unwrap_or(high);
        let count = (high / step - 1e-9).ceil().max(1.0);
        let mut ticks = vec![(0.0, "0".to_owned())];
        while ticks.len() <= 8 && ticks.last().is_some_and(|tick| tick.0 < step * (count - 0.5)) {
            let at = ticks.last().map_or(0.0, |tick| tick.0) + step;
            ticks.push((at, number(at)));
        }
        Self { title: title.to_owned(), ticks, scale: Scale::Linear, low: 0.0, high: step * count }
    }

    /// An axis from 0 to that many, linear up to 1 and logarithmic above.
    pub fn zero_and_log(title: &str, high: f64) -> Self {
        let high = high.max(1.0);
        let decades_only = high > 100.0;
        let steps = one_two_five(0, 6).into_iter().filter(|step| *step <= high * 1.001);
        let label = |step: f64| if decades_only && !is_decade(step) { String::new() } else { number(step) };
        let mut ticks = vec![(0.0, "0".to_owned())];
        ticks.extend(steps.map(|step| (step, label(step))));
        let title = format!("{title} (linear to 1, log scale above)");
        Self { title, ticks, scale: Scale::ZeroAndLog, low: -0.06, high: high * 1.25 }
    }
}

/// The smallest and the largest, or 1 and 1 when there is none.
fn ends(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    let wider = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
    let (low, high) = values.into_iter().fold((f64::INFINITY, f64::NEG_INFINITY), wider);
    if low.is_finite() && high.is_finite() { (low, high) } else { (1.0, 1.0) }
}

/// A count as a number to reckon with.
pub(super) fn float(count: usize) -> f64 {
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
    let mut steps: Vec<f64> = one_two_five(0, 6).into_iter().collect();
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
        axis.ticks.iter().map(|tick| tick.1.as_str()).filter(|label| !label.is_empty()).collect()
    }

    fn holds(axis: &Axis, value: f64) -> bool {
        (0.0..=1.0).contains(&axis.share(value))
    }

    #[test]
    fn durations_from_a_microsecond_to_an_hour_have_labels_that_people_read() {
        let axis = Axis::durations("wait", [1.0, 3.6e9]);
        let expected =
            ["1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "1 min", "10 min", "1 h"];
        assert_eq!(labels(&axis), expected);
    }

    #[test]
    fn a_narrow_range_of_durations_has_finer_ticks() {
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
    fn percentiles_reach_as_far_as_the_samples() {
        let axis = Axis::percentiles(1_000.0);
        assert_eq!(labels(&axis), ["0 %", "50 %", "90 %", "99 %", "99.9 %"]);
        assert!(holds(&axis, 1_000.0));
    }
}
