//! Figures: the numbers of a trial that can be compared, gated and drawn, each with its name, unit and which way is better.
//! How each is read from a trial is `record`'s.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measure;
use crate::words::units::{counted, format_micros, number};

/// A number of a trial. Its text is its name: `wait.p99`, `throughput`, `requests_per_acquisition`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Figure {
    /// A statistic of the samples of a measure: `handoff.p50`.
    Latency(Measure, Statistic),
    /// A ratio of the measured phase.
    Ratio(Ratio),
    /// A count of the measured phase or, of what must not happen at all, of the whole trial.
    Count(Count),
}

/// What is taken of the samples of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Statistic {
    /// The mean.
    Mean,
    /// The smallest sample.
    Min,
    /// A percentile in thousandths of a percent, so that 99.9 is 99,900.
    Percentile(u32),
    /// The largest sample.
    Max,
}

/// The unit of a figure. In files: `us`, `per_s`, `amount`, `bytes`, `share`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Microseconds.
    #[serde(rename = "us")]
    Micros,
    /// So many a second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// So many, whole or on average.
    Amount,
    /// Bytes.
    Bytes,
    /// A share between 0 and 1.
    Share,
}

impl Unit {
    /// What files call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Micros => "us",
            Self::PerSecond => "per_s",
            Self::Amount => "amount",
            Self::Bytes => "bytes",
            Self::Share => "share",
        }
    }

    /// A value in this unit, for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Micros => format_micros(value.max(0.0).round() as u64),
            Self::PerSecond => format!("{}/s", number(value)),
            Self::Amount | Self::Share => number(value),
            Self::Bytes => format!("{} B", number(value)),
        }
    }
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// It belongs to the load: neither is better.
    Neither,
}

impl Better {
    /// What files call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Neither => "neither",
        }
    }
}

/// Makes an enum of figures without a parameter, with the name, unit and direction of each.
macro_rules! named {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident: $text:literal, $unit:ident, $better:ident;)* }) => {
        $(#[$of])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order in which outputs list them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            const fn unit(self) -> Unit {
                match self { $(Self::$variant => Unit::$unit,)* }
            }

            const fn better(self) -> Better {
                match self { $(Self::$variant => Better::$better,)* }
            }
        }
    };
}

named! {
    /// A ratio of the measured phase, by its name in `summary.csv`, where rates end with `_per_s`.
    Ratio {
        /// Acquisitions a second.
        Throughput: "throughput", PerSecond, Higher;
        /// Arrivals a second, of an open load.
        Offered: "offered", PerSecond, Neither;
        /// Jain's index over the contenders.
        Fairness: "fairness", Share, Higher;
        /// Notifications that a release causes.
        FanOut: "fan_out", Amount, Lower;
        /// Of those, the ones that woke a contender for nothing.
        FanOutSpurious: "fan_out_spurious", Amount, Lower;
        /// Requests.
        RequestsPerAcquisition: "requests_per_acquisition", Amount, Lower;
        /// Notifications, whatever caused them.
        NotificationsPerAcquisition: "notifications_per_acquisition", Amount, Lower;
        /// Names that getChildren returned.
        NamesPerAcquisition: "names_per_acquisition", Amount, Lower;
        /// Bytes in both directions.
        BytesPerAcquisition: "bytes_per_acquisition", Bytes, Lower;
        /// How much of the time the busiest lock was in use.
        UtilisationBusiest: "utilisation_busiest", Share, Neither;
    }
}

named! {
    /// A count.
    Count {
        /// Locks acquired.
        Acquired: "acquired", Amount, Neither;
        /// Acquires that timed out.
        TimedOut: "timed_out", Amount, Lower;
        /// Waits that ended without the lock, or had not ended when the measured phase did.
        Unserved: "unserved", Amount, Neither;
        /// Requests sent.
        Requests: "requests", Amount, Lower;
        /// Notifications delivered.
        Notifications: "notifications", Amount, Lower;
        /// Names that getChildren returned.
        Names: "names", Amount, Lower;
        /// Bytes in both directions.
        Bytes: "bytes", Bytes, Lower;
        /// Acquisitions before which an earlier arrival was still waiting.
        Overtaken: "overtaken", Amount, Lower;
        /// Locks that were lost while they were held.
        LostWhileHeld: "lost_while_held", Amount, Lower;
        /// Violations in the whole trial.
        Violations: "violations", Amount, Lower;
        /// Errors in the whole trial.
        Errors: "errors", Amount, Lower;
        /// Sessions that expired.
        SessionsExpired: "sessions_expired", Amount, Lower;
        /// Watches that were left when all had released, by the servers' count.
        WatchesLeft: "watches_left", Amount, Lower;
    }
}

impl Statistic {
    /// What tables show unless something else is asked for.
    pub const USUAL: [Self; 6] = [
        Self::Mean,
        Self::percent(50),
        Self::percent(90),
        Self::percent(99),
        Self::Percentile(99_900),
        Self::Max,
    ];

    /// A whole percentile.
    pub const fn percent(percent: u32) -> Self {
        Self::Percentile(percent * 1_000)
    }

    /// How many samples it takes for the statistic to say something: ten beyond a percentile.
    pub fn samples_needed(self) -> u64 {
        match self {
            Self::Percentile(at) => 1_000_000_u64.div_ceil(u64::from(100_000_u32.saturating_sub(at).max(1))),
            Self::Mean | Self::Min | Self::Max => 1,
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mean => f.write_str("mean"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
            Self::Percentile(at) => write!(f, "p{}", f64::from(*at) / 1e3),
        }
    }
}

impl FromStr for Statistic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || {
            format!("`{text}` is not a statistic: use mean, min, max or a percentile such as p50 or p99.9")
        };
        match text {
            "mean" => return Ok(Self::Mean),
            "min" => return Ok(Self::Min),
            "max" => return Ok(Self::Max),
            "median" => return Ok(Self::percent(50)),
            _ => {}
        }
        let digits = text.strip_prefix('p').ok_or_else(unknown)?;
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) || whole.len() > 2 || fraction.len() > 3 {
            return Err(unknown());
        }
        let thousandths: u32 = format!("{whole}{fraction:0<3}").parse().map_err(|_| unknown())?;
        if thousandths == 0 { Err(unknown()) } else { Ok(Self::Percentile(thousandths)) }
    }
}

impl Figure {
    /// The acquisitions a second.
    pub const THROUGHPUT: Self = Self::Ratio(Ratio::Throughput);

    /// Every figure of which there is one name: the measures with their usual statistics, ratios and counts.
    pub fn all() -> Vec<Self> {
        let latencies = Measure::all()
            .into_iter()
            .flat_map(|measure| Statistic::USUAL.map(|statistic| Self::Latency(measure, statistic)));
        let ratios = Ratio::ALL.iter().map(|ratio| Self::Ratio(*ratio));
        let counts = Count::ALL.iter().map(|count| Self::Count(*count));
        ratios.chain(counts).chain(latencies).collect()
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        match self {
            Self::Latency(..) => Unit::Micros,
            Self::Ratio(ratio) => ratio.unit(),
            Self::Count(count) => count.unit(),
        }
    }

    /// Which way it is better.
    pub fn better(self) -> Better {
        match self {
            // How long a lock was held is the load's.
            Self::Latency(Measure::Hold, _) => Better::Neither,
            Self::Latency(..) => Better::Lower,
            Self::Ratio(ratio) => ratio.better(),
            Self::Count(count) => count.better(),
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency(measure, statistic) => write!(f, "{}.{statistic}", measure.name()),
            Self::Ratio(ratio) => f.write_str(ratio.name()),
            Self::Count(count) => f.write_str(count.name()),
        }
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((measure, statistic)) = text.split_once('.') {
            let measure = Measure::from_name(measure).ok_or_else(|| unknown(measure))?;
            return Ok(Self::Latency(measure, statistic.parse()?));
        }
        if Measure::from_name(text).is_some() && Count::ALL.iter().all(|count| count.name() != text) {
            return Err(format!("`{text}` has many samples: say which statistic, e.g. `{text}.p99`"));
        }
        let plain = text.strip_suffix("_per_s").unwrap_or(text);
        let ratio = Ratio::ALL.iter().find(|ratio| ratio.name() == plain).map(|ratio| Self::Ratio(*ratio));
        let count = || Count::ALL.iter().find(|count| count.name() == text).map(|count| Self::Count(*count));
        ratio.or_else(count).ok_or_else(|| unknown(text))
    }
}

/// There is no such figure; names the one that was probably meant.
fn unknown(text: &str) -> String {
    let names = || {
        let measures = Measure::all().into_iter().map(Measure::name);
        let ratios = Ratio::ALL.iter().map(|ratio| ratio.name().to_owned());
        measures.chain(ratios).chain(Count::ALL.iter().map(|count| count.name().to_owned()))
    };
    let nearest = names().map(|name| (strsim::damerau_levenshtein(text, &name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= 2 => {
            format!("there is no figure `{text}`; did you mean `{name}`?")
        }
        _ => format!(
            "there is no figure `{text}`; of {} there are e.g. wait.p99, handoff.p50, throughput and requests_per_acquisition",
            counted(names().count(), "figure", "figures")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_by_its_name_and_no_two_share_one() {
        let all = Figure::all();
        for figure in &all {
            assert_eq!(figure.to_string().parse::<Figure>(), Ok(*figure));
        }
        let names: std::collections::BTreeSet<String> = all.iter().map(Figure::to_string).collect();
        assert_eq!(names.len(), all.len());
    }

    #[test]
    fn a_percentile_is_written_as_people_write_it_and_one_that_cannot_be_is_refused() {
        assert_eq!("p99.9".parse(), Ok(Statistic::Percentile(99_900)));
        assert_eq!("p5".parse(), Ok(Statistic::percent(5)));
        assert_eq!("median".parse(), Ok(Statistic::percent(50)));
        for refused in ["p0", "p100", "p", "p99.", "p.9", "p-1", "p1e3", "p99.9999", "pNaN", "avg", ""] {
            assert!(refused.parse::<Statistic>().is_err(), "{refused}");
        }
    }

    #[test]
    fn a_name_that_is_almost_one_is_corrected_and_a_measure_without_a_statistic_is_asked_for_one() {
        let told = |text: &str| text.parse::<Figure>().unwrap_err();
        assert!(told("wiat.p99").contains("did you mean `wait`?"), "{}", told("wiat.p99"));
        assert!(told("wait").contains("`wait.p99`"), "{}", told("wait"));
        assert!(told("xyzzy").contains("wait.p99"), "{}", told("xyzzy"));
    }

    #[test]
    fn ten_samples_must_lie_beyond_a_percentile() {
        assert_eq!(Statistic::percent(50).samples_needed(), 20);
        assert_eq!(Statistic::percent(99).samples_needed(), 1_000);
        assert_eq!(Statistic::Percentile(99_900).samples_needed(), 10_000);
    }
}
