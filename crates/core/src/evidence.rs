//! How much evidence a verdict of *held* needs, and which error rate a given amount of evidence excludes.
//!
//! A lock that errs independently with probability r per acquisition escapes n checks with probability at
//! most exp(-rn). If each acquisition is checked for its whole wait, the exact value is (1-r)^n. The bound
//! exp(-rn) also holds when some acquisitions are checked for only part of their wait; (1-r)^n does not.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Required evidence: the probability with which a lock must be caught if it errs in `percent` percent of its
/// acquisitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Sensitivity {
    probability: f64,
    percent: f64,
}

/// Detection probability assumed for printed error rates.
const SHOWN: f64 = 0.95;
const PERCENT: std::ops::RangeInclusive<f64> = 1e-4..=100.0;

impl Sensitivity {
    /// Default requirement for *held*: a lock that always errs escapes in at most one of 100 trials.
    pub const DEFAULT: Self = Self { probability: 0.99, percent: 100.0 };

    /// Returns the number of acquisitions that must be checked; at least 1.
    pub fn acquisitions(self) -> u64 {
        (exponent(self.probability).mul_add(100.0 / self.percent, -1e-9).ceil() as u64).max(1)
    }

    pub fn is_default(&self) -> bool {
        *self == Self::DEFAULT
    }

    pub fn is_met_by(self, checked: u64) -> bool {
        checked >= self.acquisitions()
    }

    /// Returns the stricter of the two requirements.
    pub fn max(self, other: Self) -> Self {
        if other.acquisitions() > self.acquisitions() { other } else { self }
    }
}

impl Default for Sensitivity {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Returns the value of rn at which a lock is caught with this probability.
fn exponent(probability: f64) -> f64 {
    -(-probability).ln_1p()
}

/// Returns the smallest error rate that `checked` acquisitions would have revealed with probability 0.95.
/// `None` if even a lock that errs in every acquisition may have escaped.
pub fn smallest_rate(checked: u64) -> Option<f64> {
    Some(exponent(SHOWN) / checked as f64).filter(|rate| *rate <= 1.0)
}

/// Describes the error rate that `checked` acquisitions exclude.
pub fn excluded(checked: u64) -> String {
    let caught = |errs: &str, probability: f64| {
        format!("a lock that errs {errs} would have been caught with probability {probability:.2}")
    };
    match smallest_rate(checked) {
        _ if checked == 0 => "no error in the lock would have been caught".to_owned(),
        None => caught("in every acquisition", -(-(checked as f64)).exp_m1()),
        Some(rate) if rate > 0.5 => caught("in every acquisition", SHOWN),
        Some(rate) => caught(&format!("once in {} acquisitions", rate.recip() as u64), SHOWN),
    }
}

impl fmt::Display for Sensitivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}%", self.probability, self.percent)
    }
}

impl FromStr for Sensitivity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not PROBABILITY@RATE, such as 0.99@1%: a lock that errs in 1% of its acquisitions must be caught \
                 with probability 0.99"
            )
        };
        let (probability, rate) = text.split_once('@').ok_or_else(wrong)?;
        let probability: f64 = probability.trim().parse().map_err(|_| wrong())?;
        let percent: f64 =
            rate.trim().strip_suffix('%').ok_or_else(wrong)?.trim().parse().map_err(|_| wrong())?;
        if !(probability > 0.0 && probability <= 0.999_999) {
            return Err(format!("`{text}`: the probability must be above 0 and at most 0.999999"));
        }
        if !PERCENT.contains(&percent) {
            return Err(format!(
                "`{text}`: the rate must be from {}% to {}%",
                PERCENT.start(),
                PERCENT.end()
            ));
        }
        Ok(Self { probability, percent })
    }
}

impl TryFrom<String> for Sensitivity {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Sensitivity> for String {
    fn from(asked: Sensitivity) -> Self {
        asked.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn needs(text: &str) -> u64 {
        text.parse::<Sensitivity>().unwrap().acquisitions()
    }

    #[test]
    fn held_needs_five_acquisitions_by_default() {
        assert_eq!(Sensitivity::DEFAULT.acquisitions(), 5);
        assert!((0..5).all(|checked| !Sensitivity::DEFAULT.is_met_by(checked)));
        assert!(Sensitivity::DEFAULT.is_met_by(5));
        assert_eq!([needs("0.99@100%"), needs("0.999@100%")], [5, 7]);
        assert_eq!([needs("0.5@100%"), needs("0.01@100%")], [1, 1], "at least one");
        assert_eq!([needs("0.95@1%"), needs("0.99@1%"), needs("0.99 @ 0.1 %")], [300, 461, 4_606]);
    }

    #[test]
    fn excluded_describes_the_error_rate_that_would_have_been_caught() {
        let caught = "would have been caught with probability";
        for (checked, text) in [
            (0, "no error in the lock would have been caught".to_owned()),
            (2, format!("a lock that errs in every acquisition {caught} 0.86")),
            (5, format!("a lock that errs in every acquisition {caught} 0.95")),
            (7, format!("a lock that errs once in 2 acquisitions {caught} 0.95")),
            (19, format!("a lock that errs once in 6 acquisitions {caught} 0.95")),
            (300, format!("a lock that errs once in 100 acquisitions {caught} 0.95")),
        ] {
            assert_eq!(excluded(checked), text);
        }
    }

    #[test]
    fn sensitivity_round_trips_as_text_and_parse_errors_are_explained() {
        for text in ["0.99@1%", "0.999@100%", "0.95@0.07%"] {
            assert_eq!(text.parse::<Sensitivity>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("0.99", "is not PROBABILITY@RATE"),
            ("0.99@1", "is not PROBABILITY@RATE"),
            ("x@1%", "is not PROBABILITY@RATE"),
            ("1@1%", "the probability must be above 0"),
            ("NaN@1%", "the probability must be above 0"),
            ("0.99@0%", "the rate must be from"),
            ("0.99@101%", "the rate must be from"),
        ] {
            let error = text.parse::<Sensitivity>().unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn escape_probability_bound_holds_for_any_checked_shares(
            shares in prop::collection::vec(0.0..=1.0_f64, 1..400),
            percent in 0.1..=100.0_f64,
        ) {
            let sum: f64 = shares.iter().sum();
            let rate = percent / 100.0;
            let unseen: f64 = shares.iter().map(|share| 1.0 - rate * share).product();
            prop_assert!(unseen <= (-rate * sum).exp() + 1e-12);
        }

        #[test]
        fn sensitivity_needs_the_fewest_acquisitions_that_reach_the_probability(
            probability in 0.5..0.9999_f64,
            percent in 0.01..20.0_f64,
        ) {
            let needed = Sensitivity { probability, percent }.acquisitions();
            let caught = |count: u64| 1.0 - (-percent / 100.0 * count as f64).exp();
            prop_assert!(caught(needed) >= probability - 1e-9);
            prop_assert!(caught(needed - 1) < probability + 1e-9);
        }
    }
}
