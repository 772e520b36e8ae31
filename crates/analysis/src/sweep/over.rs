//! The variable of a sweep, and its values.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::clock::micros;
use zklockbench_core::units::{format_micros, number, parse_duration, shown};
use zklockbench_core::worded;

worded! {
    /// A variable of a scenario. Its values are numbers: times in microseconds, rates in arrivals per second.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Variable by name {
        /// Number of contenders.
        Contenders = "contenders",
        /// Arrivals per second of an open load.
        Rate = "rate",
        /// Time that a contender holds the lock.
        Hold = "hold",
        /// Number of locks over which the contenders are spread.
        Locks = "locks",
        /// Number of servers of the local ensemble.
        Servers = "servers",
        /// Time added to each round trip between contenders and servers.
        Delay = "delay",
        /// Session timeout that contenders request.
        SessionTimeout = "session_timeout",
    }
}

impl Variable {
    const fn example(self) -> &'static str {
        match self {
            Self::Contenders => "contenders=1..1000",
            Self::Rate => "rate=10..2000",
            Self::Hold => "hold=1ms..1s",
            Self::Locks => "locks=1..100",
            Self::Servers => "servers=1,3,5",
            Self::Delay => "delay=0.2ms,1ms,5ms,50ms",
            Self::SessionTimeout => "session_timeout=2s,5s,10s,30s",
        }
    }

    pub const fn is_whole(self) -> bool {
        matches!(self, Self::Contenders | Self::Locks | Self::Servers)
    }

    /// Returns whether higher values are harder for the lock, so that all values above a failing value also
    /// fail.
    pub const fn is_burden(self) -> bool {
        matches!(self, Self::Contenders | Self::Rate | Self::Hold | Self::Delay)
    }

    const fn is_time(self) -> bool {
        matches!(self, Self::Hold | Self::Delay | Self::SessionTimeout)
    }

    pub fn show(self, value: f64) -> String {
        match self {
            Self::Contenders | Self::Locks | Self::Servers => format!("{value:.0}"),
            Self::Rate => format!("{}/s", number(value)),
            Self::Hold | Self::Delay | Self::SessionTimeout => format_micros(value.round() as u64),
        }
    }

    /// Rounds to the nearest permitted value: a whole number, or a number with three significant digits.
    pub fn round(self, value: f64) -> f64 {
        let digits = if self.is_whole() { 0 } else { 2 - value.log10().floor() as i32 };
        let factor = 10_f64.powi(digits);
        let rounded = (value * factor).round() / factor;
        if self.is_time() { rounded.round() } else { rounded }
    }

    fn value(self, text: &str) -> Result<f64, String> {
        let text = text.trim();
        let wrong = |what: &str| format!("`{}` is not a {what}", shown(text, 40));
        let value = if self.is_time() {
            micros(parse_duration(text)?) as f64
        } else if self == Self::Rate {
            let digits = text.strip_suffix("/s").unwrap_or(text);
            digits
                .trim()
                .parse::<f64>()
                .map_err(|_| wrong("rate; use a number of arrivals per second, such as 50"))?
        } else {
            f64::from(text.parse::<u32>().map_err(|_| wrong("whole number"))?)
        };
        let (least, most) = match self {
            Self::Contenders | Self::Locks => (1.0, 10_000.0),
            Self::Rate => (0.01, 1_000_000.0),
            Self::Hold => (100.0, 60e6),
            Self::Delay => (100.0, 10e6),
            Self::SessionTimeout => (200e3, 600e6),
            Self::Servers if [1.0, 3.0, 5.0].contains(&value) => return Ok(value),
            Self::Servers => {
                return Err(format!("a local ensemble must have 1, 3 or 5 servers, not {value}"));
            }
        };
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            let (least, most) = (self.show(least), self.show(most));
            Err(format!("{} is out of range: must be between {least} and {most}", self.show(value)))
        }
    }
}

/// A variable and its values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Over {
    /// The variable.
    pub variable: Variable,
    /// Values of the variable.
    pub values: Values,
}

/// The values of a variable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Values {
    /// A range including both ends; the sweep chooses the values in between.
    Range {
        /// Smallest value.
        from: f64,
        /// Largest value.
        to: f64,
    },
    /// Listed values, in ascending order.
    List(Vec<f64>),
}

/// Number of values of the second variable, if it has a range.
const SERIES: usize = 4;
/// Points per decade of the first variable.
const PER_DECADE: f64 = 2.0;

impl Over {
    /// Returns the initial values: all listed values or, for a range, a few with geometric spacing.
    pub fn grid(&self) -> Vec<f64> {
        match &self.values {
            Values::List(values) => values.clone(),
            Values::Range { from, to } => {
                let wanted = ((to / from).log10() * PER_DECADE).round() + 1.0;
                self.spaced(wanted.clamp(4.0, 9.0) as usize)
            }
        }
    }

    /// Returns the values of the second variable. Each value has its own series.
    pub fn few(&self) -> Vec<f64> {
        self.spaced(SERIES)
    }

    /// Returns all listed values or, for a range, `count` values with geometric spacing, without duplicates.
    pub fn spaced(&self, count: usize) -> Vec<f64> {
        let Values::Range { from, to } = self.values else { return self.grid() };
        let last = count.max(2) - 1;
        let at = |step: usize| match step {
            0 => from,
            step if step == last => to,
            // A rounded value may lie outside a very narrow range.
            step => self.variable.round(from * (to / from).powf(step as f64 / last as f64)).clamp(from, to),
        };
        let mut values: Vec<f64> = (0..=last).map(at).collect();
        values.dedup();
        values
    }

    /// Returns the geometric mean of two values, rounded; `None` if values are listed, or none lies between
    /// them.
    pub fn between(&self, low: f64, high: f64) -> Option<f64> {
        let Values::Range { .. } = self.values else { return None };
        let middle = self.variable.round((low * high).sqrt());
        (low < middle && middle < high).then_some(middle)
    }

    pub fn most(&self) -> f64 {
        match &self.values {
            Values::Range { to, .. } => *to,
            Values::List(values) => values.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let examples = || Variable::ALL.map(Variable::example).join(", ");
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| format!("expected a variable and its values, such as {}", examples()))?;
        let name = name.trim();
        let variable =
            Variable::ALL.into_iter().find(|variable| variable.name() == name).ok_or_else(|| {
                let name = shown(name, 40);
                format!("unknown variable `{name}`; use one of {}", examples())
            })?;
        let read =
            |text: &str| variable.value(text).map_err(|why| format!("{why}; e.g. {}", variable.example()));
        let values = match values.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (read(from)?, read(to)?);
                if from >= to {
                    let (from, to) = (variable.show(from), variable.show(to));
                    return Err(format!(
                        "the range {from}..{to} is empty; write the smaller end first, e.g. {}",
                        variable.example()
                    ));
                }
                if variable == Variable::Servers {
                    return Err("servers cannot be a range; use a list such as servers=1,3,5".into());
                }
                Values::Range { from, to }
            }
            None => {
                let mut all = values.split(',').map(read).collect::<Result<Vec<f64>, String>>()?;
                all.sort_by(f64::total_cmp);
                all.dedup();
                Values::List(all)
            }
        };
        Ok(Self { variable, values })
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &f64| {
            let text = self.variable.show(*value).replace(' ', "").replace('µ', "u");
            match self.variable.value(&text) {
                Ok(read) if read.total_cmp(value).is_eq() => text,
                // The text is rounded, but must mean the same value on the command line.
                _ if self.variable.is_time() => format!("{value}us"),
                _ => value.to_string(),
            }
        };
        write!(f, "{}=", self.variable.name())?;
        match &self.values {
            Values::Range { from, to } => write!(f, "{}..{}", show(from), show(to)),
            Values::List(values) => f.write_str(&values.iter().map(show).collect::<Vec<_>>().join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_more_than_three_digits_are_written_in_full() {
        for text in ["hold=12345us..20ms", "hold=10010us..10040us", "rate=1000.2..1000.4", "delay=1234us,5ms"]
        {
            let over: Over = text.parse().unwrap();
            assert_eq!(over.to_string().parse::<Over>(), Ok(over.clone()), "{over}");
            let grid = over.grid();
            assert!(grid.is_sorted_by(|one, other| one < other), "{grid:?}");
        }
    }
}
