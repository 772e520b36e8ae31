//! Typed values.

use zklockbench_analysis::compare::ComparisonVerdict;
use zklockbench_core::units::{format_micros, number, one_line, percent};
use zklockbench_core::verdict::Verdict;

/// Contents of a table cell or of a sentence.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A name or any other text without special meaning.
    Text(String),
    Count(u64),
    /// An average; its unit is in the heading.
    Amount(f64),
    /// Microseconds.
    Duration(f64),
    /// A share between 0 and 1.
    Share(f64),
    Rate(f64),
    Multiple(f64),
    /// Minimum and maximum of several amounts.
    Range(f64, f64),
    /// A part and the whole; displayed as the whole if both are equal.
    OutOf(u64, u64),
    Verdict(String, Tone),
    /// A lower bound, e.g. because a wait had not ended.
    AtLeast(Box<Value>),
    /// A value with the lower and the upper end of its interval.
    Between(Box<[Value; 3]>),
    /// Not measured, or not applicable.
    NotMeasured,
    /// The queue of an open load grew, so the value would depend on the length of the trial.
    Unstable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    /// Unknown or inconclusive.
    Doubtful,
    Bad,
    Plain,
}

impl Value {
    pub fn verdict(word: impl Into<String>, tone: Tone) -> Self {
        Self::Verdict(word.into(), tone)
    }

    /// Creates a verdict, with a special word if the only violation is that contenders were stuck.
    pub fn judged(verdict: &Verdict, is_only_stuck: bool) -> Self {
        Self::worded(verdict, ["held", violated_word(is_only_stuck), "unknown"])
    }

    /// Creates a verdict with these words for held, violated and unknown.
    pub fn worded(verdict: &Verdict, [held, violated, unknown]: [&str; 3]) -> Self {
        match verdict {
            Verdict::Held => Self::verdict(held, Tone::Good),
            Verdict::Violated(_) => Self::verdict(violated, Tone::Bad),
            Verdict::Unknown(_) => Self::verdict(unknown, Tone::Doubtful),
        }
    }

    pub fn micros(us: u64) -> Self {
        Self::Duration(us as f64)
    }

    /// Returns the value as a lower bound if `at_least`.
    pub fn at_least(self, at_least: bool) -> Self {
        if at_least { Self::AtLeast(Box::new(self)) } else { self }
    }

    /// Returns the value with the ends of its interval.
    pub fn between(self, low: Self, high: Self) -> Self {
        Self::Between(Box::new([self, low, high]))
    }

    pub fn is_not_measured(&self) -> bool {
        *self == Self::NotMeasured
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Self::Count(0)) || matches!(self, Self::Amount(of) | Self::Share(of) if *of == 0.0)
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::Verdict(text, _) => one_line(text),
            Self::Count(count) => count.to_string(),
            Self::Amount(amount) => number(*amount),
            Self::Duration(us) => format_micros(us.round().max(0.0) as u64),
            Self::Share(share) => percent(*share),
            Self::Rate(rate) => format!("{}/s", number(*rate)),
            Self::Multiple(times) => format!("{}×", number(*times)),
            Self::Range(low, high) => format!("{}-{}", number(*low), number(*high)),
            Self::OutOf(part, whole) if part == whole => whole.to_string(),
            Self::OutOf(part, whole) => format!("{part} of {whole}"),
            Self::AtLeast(value) => format!("≥ {}", value.shown()),
            Self::Between(value_and_ends) => {
                let [value, low, high] = value_and_ends.each_ref().map(Self::shown);
                format!("{value} ({low} to {high})")
            }
            Self::NotMeasured => "-".to_owned(),
            Self::Unstable => "unstable".to_owned(),
        }
    }

    pub fn tone(&self) -> Tone {
        if let Self::Verdict(_, tone) = self { *tone } else { Tone::Plain }
    }

    /// Returns a number to sort by; `None` for text.
    pub fn rank(&self) -> Option<f64> {
        match self {
            Self::Count(count) | Self::OutOf(count, _) => Some(*count as f64),
            Self::Amount(value)
            | Self::Duration(value)
            | Self::Share(value)
            | Self::Rate(value)
            | Self::Multiple(value)
            | Self::Range(value, _) => Some(*value),
            Self::AtLeast(value) => value.rank(),
            Self::Between(value_and_ends) => value_and_ends[0].rank(),
            Self::Text(_) | Self::Verdict(..) | Self::NotMeasured | Self::Unstable => None,
        }
    }
}

/// Returns the word for a violated verdict. Stuck contenders are distinguished, because they are not counted
/// as violations.
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

/// `None` becomes [`Value::NotMeasured`].
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::NotMeasured, Into::into)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
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
    fn every_value_is_formatted_as_text_and_ranked_by_its_number() {
        let at_least = Value::Duration(1_234.0).at_least(true);
        let between = Value::Rate(5.0).between(Value::Amount(4.5), Value::Amount(6.0));
        for (value, shown, rank) in [
            (between, "5/s (4.5 to 6)", Some(5.0)),
            (Value::Duration(1_500_000.0), "1.5 s", Some(1_500_000.0)),
            (at_least, "≥ 1.23 ms", Some(1_234.0)),
            (Value::Share(0.254), "25.4 %", Some(0.254)),
            (Value::OutOf(2, 3), "2 of 3", Some(2.0)),
            (Value::OutOf(3, 3), "3", Some(3.0)),
            (Value::Unstable, "unstable", None),
            (Value::NotMeasured, "-", None),
        ] {
            assert_eq!((value.shown().as_str(), value.rank()), (shown, rank));
        }
    }
}
