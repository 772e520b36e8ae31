//! The syntax of gates: conditions that a run must meet for a build to continue.
//!
//! ```text
//! condition = [ "every" | "median" ] subject ( relation limit | "not" "regressed" "by" percent "against" "baseline" )
//! subject   = figure [ "of" strategy ] [ "at" number ( "contenders" | "contender" ) ]
//! relation  = "<" | "<=" | ">" | ">=" | "=="
//! limit     = number unit | [ number "*" ] ( "floor" | subject )
//! unit      = "us" | "ms" | "s" | "m" | "h" | "/s" | "%" | "B" | "kB" | "MB" | nothing
//! percent   = number "%"
//! number    = digits [ "." digits ]
//! strategy  = word | '"' label '"' | "'" label "'"
//! ```
//!
//! The analysis crate evaluates conditions on the results of runs, in its module `gate`.

mod parse;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::{Figure, Measure, Unit};
use zklockbench_core::worded;

pub use parse::{Known, KnownCells, Mistake, parse};

#[derive(Debug, Clone, PartialEq)]
pub struct Gate {
    /// Name in reports; `None` if the gate has none.
    pub name: Option<String>,
    pub condition: Condition,
}

/// A condition on every cell (a strategy at a number of contenders) of its subject. See [`parse()`].
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// How repetitions are combined; `None` means every repetition for a count, and the median for other
    /// metrics.
    pub across: Option<Across>,
    pub subject: Subject,
    pub rule: Rule,
}

worded! {
    /// How repetitions are combined into the value that is compared with a limit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Across by word {
        Every = "every",
        Median = "median",
    }
}

impl Across {
    /// Returns the default for a metric.
    pub fn usual(figure: Figure) -> Self {
        if figure.is_count() { Self::Every } else { Self::Median }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub figure: Figure,
    pub scope: Scope,
}

/// Cells that a condition covers, optionally limited to one strategy or one contender count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scope {
    /// Label of the strategy; `None` for all.
    pub strategy: Option<String>,
    /// Number of contenders; `None` for all.
    pub contenders: Option<usize>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Rule {
    /// The value has this relation to the limit.
    Compare(Relation, Limit),
    /// A comparison with a baseline does not show the metric to be worse by this percentage or more.
    NotRegressed { percent: f64 },
}

worded! {
/// Required relation of a metric to its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub enum Relation by sign {
        /// Below the limit.
        #[serde(rename = "<")]
        Less = "<",
        /// At most the limit.
        #[serde(rename = "<=")]
        AtMost = "<=",
        /// Above the limit.
        #[serde(rename = ">")]
        More = ">",
        /// At least the limit.
        #[serde(rename = ">=")]
        AtLeast = ">=",
        /// Equal to the limit; only for counts.
        #[serde(rename = "==")]
        Equal = "==",
    }
}

impl Relation {
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::More => value > limit,
            Self::AtLeast => value >= limit,
            #[expect(clippy::float_cmp, reason = "counts are whole numbers")]
            Self::Equal => value == limit,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Limit {
    Value(Quantity),
    /// A multiple of another measurement of the same run.
    Times(f64, Reference),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// The median of the ensemble's floor: a handoff or an uncontended acquire, depending on the metric.
    Floor,
    /// Another metric. A missing strategy or number of contenders defaults to the compared cell's.
    Figure(Subject),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// From 0 to 1e18, so that the value is finite.
    pub number: f64,
    pub unit: Written,
}

impl Quantity {
    /// Returns the value in the metric's unit.
    pub fn value(self) -> f64 {
        self.number * self.unit.times / self.unit.per
    }
}

/// A unit as written in a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Written {
    pub text: &'static str,
    /// Metric units that this unit can be compared with.
    fits: &'static [Unit],
    /// Factor for converting a number to the metric's unit; `per` is the divisor.
    times: f64,
    per: f64,
}

impl Written {
    pub const NOTHING: Self = Self::of("", &[Unit::Amount, Unit::Share], 1.0);

    pub const ALL: [Self; 11] = [
        Self::NOTHING,
        Self::of("us", &[Unit::Micros], 1.0),
        Self::of("ms", &[Unit::Micros], 1e3),
        Self::of("s", &[Unit::Micros], 1e6),
        // Scenarios also write durations in these units.
        Self::of("m", &[Unit::Micros], 6e7),
        Self::of("h", &[Unit::Micros], 3.6e9),
        Self::of("/s", &[Unit::PerSecond], 1.0),
        Self { per: 1e2, ..Self::of("%", &[Unit::Share], 1.0) },
        Self::of("B", &[Unit::Bytes], 1.0),
        Self::of("kB", &[Unit::Bytes], 1e3),
        Self::of("MB", &[Unit::Bytes], 1e6),
    ];

    const fn of(text: &'static str, fits: &'static [Unit], times: f64) -> Self {
        Self { text, fits, times, per: 1.0 }
    }

    pub fn fits(self, unit: Unit) -> bool {
        self.fits.contains(&unit)
    }
}

impl Condition {
    pub fn needs_baseline(&self) -> bool {
        matches!(self.rule, Rule::NotRegressed { .. })
    }
}

impl Scope {
    pub fn covers(&self, strategy: &str, contenders: usize) -> bool {
        self.strategy.as_ref().is_none_or(|label| label == strategy)
            && self.contenders.is_none_or(|count| count == contenders)
    }
}

pub fn has_floor(figure: Figure) -> bool {
    matches!(figure, Figure::Latency(Measure::Handoff | Measure::Uncontended, _))
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}: {}", self.condition),
            None => self.condition.fmt(f),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(across) = self.across {
            write!(f, "{} ", across.word())?;
        }
        write!(f, "{} ", self.subject)?;
        match &self.rule {
            Rule::Compare(relation, limit) => write!(f, "{} {limit}", relation.sign()),
            Rule::NotRegressed { percent } => write!(f, "not regressed by {percent}% against baseline"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.figure.fmt(f)?;
        if let Some(label) = &self.scope.strategy {
            write!(f, " of {}", parse::quoted(label))?;
        }
        match self.scope.contenders {
            None => Ok(()),
            Some(1) => f.write_str(" at 1 contender"),
            Some(count) => write!(f, " at {count} contenders"),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(Quantity { number, unit }) => write!(f, "{number}{}", unit.text),
            Self::Times(1.0, reference) => reference.fmt(f),
            Self::Times(factor, reference) => write!(f, "{factor} * {reference}"),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Floor => f.write_str("floor"),
            Self::Figure(subject) => subject.fmt(f),
        }
    }
}
