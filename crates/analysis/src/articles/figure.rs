//! Metrics that decide claims, and conditions on these metrics. Conditions have a grammar like that of gates,
//! but refer to a metric by its id:
//!
//! ```text
//! condition = check { "and" check }
//! check     = figure ( "<" | "<=" | ">" | ">=" | "==" ) ( number unit | [ number "*" ] figure )
//! unit      = "us" | "ms" | "s" | "%" | nothing
//! ```
//!
//! A check holds if the whole interval of its metric satisfies the relation, fails if no part does, and is
//! otherwise unknown. A condition holds if all checks hold, fails if any fails, and is otherwise unknown.

use serde::{Deserialize, Serialize};

use zklockbench_core::units::{format_micros, number};
use zklockbench_scenario::gate::{Quantity, Relation, Written};
use zklockbench_stats::{Design, Interval, median_interval, range_interval};

/// Probability that an interval misses the true value.
const LEFT_OUT: f64 = 0.05;

/// Kind of quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    Amount,
    Us,
    Bytes,
    PerS,
    /// A share between 0 and 1.
    Share,
    /// A boolean: 1 for yes, 0 for no.
    YesNo,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub what: String,
    pub value: f64,
    pub of: Of,
    /// Bounds of a value measured in several repetitions or rounds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bounds: Option<Bounds>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
    /// Coverage of the interval; `None` if the bounds are only the range of a few repetitions.
    pub coverage: Option<f64>,
    pub repetitions: usize,
}

impl Figure {
    pub fn new(what: impl Into<String>, value: f64, of: Of) -> Self {
        Self { what: what.into(), value, of, bounds: None }
    }

    /// Returns the median of measured repetitions; `None` if there are none.
    pub fn median(what: impl Into<String>, values: &[f64], of: Of) -> Option<Self> {
        let found = median_interval(values, LEFT_OUT)?;
        Some(Self { bounds: Bounds::of(values, found), ..Self::new(what, found.value, of) })
    }

    /// Returns the ratio of two metrics, repetition by repetition; `None` if the metrics have different
    /// numbers of repetitions.
    pub fn ratio(what: impl Into<String>, over: &[f64], under: &[f64]) -> Option<Self> {
        let found = Design::Pairs.interval(under, over, LEFT_OUT).filter(|found| found.value.is_finite())?;
        let each: Vec<f64> = over.iter().zip(under).map(|(new, base)| new / base).collect();
        Some(Self { bounds: Bounds::of(&each, found), ..Self::new(what, found.value, Of::Amount) })
    }

    pub fn low(&self) -> f64 {
        self.bounds.map_or(self.value, |bounds| bounds.low)
    }

    pub fn high(&self) -> f64 {
        self.bounds.map_or(self.value, |bounds| bounds.high)
    }

    pub fn shown(&self) -> String {
        self.of.shown(self.value)
    }

    pub fn in_full(&self) -> String {
        let Some(Bounds { low, high, coverage, repetitions }) = self.bounds else { return self.shown() };
        let (low, high) = (self.of.shown(low), self.of.shown(high));
        if low == high {
            return format!("{} (the same in all {repetitions})", self.shown());
        }
        let sure =
            coverage.map_or_else(String::new, |coverage| format!(", {:.1} % confidence", 100.0 * coverage));
        format!("{} ({low} to {high} in {repetitions}{sure})", self.shown())
    }
}

impl Of {
    fn shown(self, value: f64) -> String {
        match self {
            Self::Amount => number(value),
            Self::Us => format_micros(value.max(0.0).round() as u64),
            Self::Bytes => format!("{} bytes", number(value)),
            Self::PerS => format!("{}/s", number(value)),
            Self::Share => format!("{} %", number(value * 100.0)),
            Self::YesNo => if value > 0.0 { "yes" } else { "no" }.to_owned(),
        }
    }
}

impl Bounds {
    /// Returns the bounds of an interval or, if there are too few values, the range.
    fn of(values: &[f64], found: Interval) -> Option<Self> {
        let coverage = found.is_bounded().then_some(found.coverage);
        let Interval { low, high, .. } = if found.is_bounded() { found } else { range_interval(values)? };
        high.is_finite().then_some(Self { low, high, coverage, repetitions: values.len() })
    }
}

type Lookup<'a> = dyn Fn(&str) -> Option<&'a Figure> + 'a;

/// Returns whether a condition holds; `None` if unknown.
pub fn holds(condition: &str, figures: &Lookup<'_>) -> Result<Option<bool>, String> {
    let mut all = Some(true);
    for text in condition.split(" and ") {
        all = match (all, check(text, figures)?) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        };
    }
    Ok(all)
}

fn check(text: &str, figures: &Lookup<'_>) -> Result<Option<bool>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, sign, limit @ ..] = words.as_slice() else {
        return Err(format!("expected a metric, a relation and a limit, found `{text}`"));
    };
    let relation = Relation::ALL.into_iter().find(|one| one.sign() == *sign);
    let relation = relation.ok_or_else(|| format!("`{sign}` in `{text}` is not a relation"))?;
    let figure = named(name, figures)?;
    let (low, high) = match limit {
        [factor, "*", other] => {
            let (factor, other) = (quantity(factor)?, named(other, figures)?);
            (factor * other.low(), factor * other.high())
        }
        [other] if figures(other).is_some() => {
            let other = named(other, figures)?;
            (other.low(), other.high())
        }
        [number] => (quantity(number)?, quantity(number)?),
        _ => return Err(format!("the limit of `{text}` is neither a number nor a metric")),
    };
    let corners = [(figure.low(), low), (figure.low(), high), (figure.high(), low), (figure.high(), high)];
    let held = corners.iter().filter(|(value, limit)| relation.holds(*value, *limit)).count();
    Ok(if held == corners.len() { Some(true) } else { (held == 0).then_some(false) })
}

fn named<'a>(name: &str, figures: &Lookup<'a>) -> Result<&'a Figure, String> {
    figures(name).ok_or_else(|| format!("there is no metric `{name}`"))
}

fn quantity(text: &str) -> Result<f64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number = text[..digits].parse();
    let unit = Written::ALL.into_iter().find(|unit| unit.text == &text[digits..]);
    match (number, unit) {
        (Ok(number), Some(unit)) => Ok(Quantity { number, unit }.value()),
        _ => Err(format!("`{text}` is neither a metric nor a number")),
    }
}

/// Returns a sentence with each `{name}` replaced by the metric's value.
pub fn filled(sentence: &str, figures: &Lookup<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| format!("a brace is not closed in `{sentence}`"))?;
        text += before;
        text += &named(name, figures)?.shown();
        rest = after;
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_decided_by_the_intervals_of_their_metrics() {
        // One metric between 1.5 and 2.5, and exact metrics.
        let wide = Figure::median("", &[1.5, 2.5], Of::Amount).unwrap();
        let (none, long) = (Figure::new("", 0.0, Of::Amount), Figure::new("", 2e6, Of::Us));
        let find = |name: &str| match name {
            "wide" => Some(&wide),
            "none" => Some(&none),
            "long" => Some(&long),
            _ => None,
        };
        for (condition, expected) in [
            ("wide > 1", Some(true)),
            ("wide > 3", Some(false)),
            ("wide > 2", None),
            ("none == 0", Some(true)),
            ("none == 0 and wide > 2", None),
            ("wide > 2 and none > 0", Some(false)),
            ("long >= 2s", Some(true)),
            ("long < 1500ms", Some(false)),
            ("wide < 3 * wide", Some(true)),
            ("none < wide", Some(true)),
        ] {
            assert_eq!(holds(condition, &find), Ok(expected), "{condition}");
        }
        // Invalid conditions are rejected.
        for wrong in ["wide", "wide >> 2", "other > 2", "wide > 2 3", "wide > many"] {
            assert!(holds(wrong, &find).is_err(), "{wrong}");
        }
        assert_eq!(filled("it took {long}", &find), Ok("it took 2 s".into()));
        assert!(filled("it took {other}", &find).is_err() && filled("it took {long", &find).is_err());
    }
}
