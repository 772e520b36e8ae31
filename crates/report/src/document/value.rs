//! A value that knows what it is.

use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_core::units::{format_micros, number, one_line, percent};
use zklockbench_core::verdict::Verdict;

/// What stands in a cell of a table, or in a sentence.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A name, or words of which nothing follows.
    Text(String),
    Count(u64),
    /// So many on average, whose unit its heading says.
    Amount(f64),
    /// A time in microseconds.
    Duration(f64),
    /// A share between 0 and 1.
    Share(f64),
    Rate(f64),
    Multiple(f64),
    /// The smallest and the largest of several amounts.
    Range(f64, f64),
    /// Some of all; just all where that is all of them.
    OutOf {
        part: u64,
        whole: u64,
    },
    Verdict {
        word: String,
        tone: Tone,
    },
    /// At least that: what had not ended could make it longer.
    AtLeast(Box<Value>),
    Between {
        middle: Box<Value>,
        low: Box<Value>,
        high: Box<Value>,
    },
    /// Nothing of the kind happened, or it does not apply.
    NotMeasured,
    /// The queue of an open load grew, so it would only say how long the trial was.
    Unstable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    /// Not known, or not clear.
    Doubtful,
    Bad,
    Plain,
}

impl Value {
    pub fn verdict(word: impl Into<String>, tone: Tone) -> Self {
        Self::Verdict { word: word.into(), tone }
    }

    /// A verdict whose word says so where nothing was broken but the promise that everybody is served.
    pub fn judged(verdict: &Verdict, is_only_stuck: bool) -> Self {
        match verdict {
            Verdict::Held => Self::verdict(verdict.word(), Tone::Good),
            Verdict::Unknown(_) => Self::verdict(verdict.word(), Tone::Doubtful),
            Verdict::Violated(_) => Self::verdict(violated_word(is_only_stuck), Tone::Bad),
        }
    }

    /// One of these, or nothing was measured.
    pub fn or_missing<T>(value: Option<T>, what: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::NotMeasured, what)
    }

    /// The same as a lower bound, where it is one.
    pub fn at_least(self, at_least: bool) -> Self {
        if at_least { Self::AtLeast(Box::new(self)) } else { self }
    }

    /// The same with the ends of its interval.
    pub fn between(self, low: Self, high: Self) -> Self {
        Self::Between { middle: Box::new(self), low: Box::new(low), high: Box::new(high) }
    }

    pub fn is_not_measured(&self) -> bool {
        *self == Self::NotMeasured
    }

    pub fn is_zero(&self) -> bool {
        match self {
            Self::Count(count) => *count == 0,
            Self::Amount(amount) | Self::Share(amount) => *amount == 0.0,
            _ => false,
        }
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Verdict { word: text, .. } => one_line(text),
            Self::Count(count) => count.to_string(),
            Self::Amount(amount) => number(*amount),
            Self::Duration(us) => format_micros(us.round().max(0.0) as u64),
            Self::Share(share) => percent(*share),
            Self::Rate(rate) => format!("{}/s", number(*rate)),
            Self::Multiple(times) => format!("{}×", number(*times)),
            Self::Range(low, high) => format!("{}-{}", number(*low), number(*high)),
            Self::OutOf { part, whole } if part == whole => whole.to_string(),
            Self::OutOf { part, whole } => format!("{part} of {whole}"),
            Self::AtLeast(value) => format!("≥ {}", value.shown()),
            Self::Between { middle, low, high } => {
                format!("{} ({} to {})", middle.shown(), low.shown(), high.shown())
            }
            Self::NotMeasured => "-".to_owned(),
            Self::Unstable => "unstable".to_owned(),
        }
    }

    pub fn tone(&self) -> Tone {
        match self {
            Self::Verdict { tone, .. } => *tone,
            _ => Tone::Plain,
        }
    }

    /// A number to sort by; `None` of what has none, such as words.
    pub fn rank(&self) -> Option<f64> {
        match self {
            Self::Count(count) | Self::OutOf { part: count, .. } => Some(*count as f64),
            Self::Amount(value)
            | Self::Duration(value)
            | Self::Share(value)
            | Self::Rate(value)
            | Self::Multiple(value)
            | Self::Range(value, _) => Some(*value),
            Self::AtLeast(value) | Self::Between { middle: value, .. } => value.rank(),
            Self::Text(_) | Self::Verdict { .. } | Self::NotMeasured | Self::Unstable => None,
        }
    }
}

/// A table that counts no violation would contradict the plain word.
pub fn violated_word(is_only_stuck: bool) -> &'static str {
    if is_only_stuck { "VIOLATED (stuck)" } else { "VIOLATED" }
}

impl From<&Verdict> for Value {
    fn from(verdict: &Verdict) -> Self {
        Self::judged(verdict, false)
    }
}

impl From<ComparisonVerdict> for Value {
    fn from(verdict: ComparisonVerdict) -> Self {
        let tone = match verdict {
            ComparisonVerdict::Regressed => Tone::Bad,
            ComparisonVerdict::Improved => Tone::Good,
            ComparisonVerdict::Same => Tone::Plain,
            ComparisonVerdict::NotMeasured | ComparisonVerdict::Inconclusive | ComparisonVerdict::Differs => {
                Tone::Doubtful
            }
        };
        Self::verdict(verdict.word(), tone)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_read_as_people_write_it_and_sorts_by_what_it_is() {
        let at_least = Value::Duration(1_234.0).at_least(true);
        let between = Value::Rate(5.0).between(Value::Amount(4.5), Value::Amount(6.0));
        for (value, shown, rank) in [
            (between, "5/s (4.5 to 6)", Some(5.0)),
            (Value::Duration(1_500_000.0), "1.5 s", Some(1_500_000.0)),
            (at_least, "≥ 1.23 ms", Some(1_234.0)),
            (Value::Share(0.254), "25.4 %", Some(0.254)),
            (Value::OutOf { part: 2, whole: 3 }, "2 of 3", Some(2.0)),
            (Value::OutOf { part: 3, whole: 3 }, "3", Some(3.0)),
            (Value::Unstable, "unstable", None),
            (Value::NotMeasured, "-", None),
        ] {
            assert_eq!((value.shown().as_str(), value.rank()), (shown, rank));
        }
    }
}
