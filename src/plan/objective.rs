//! What the load is to keep, as gates write it: `wait.p99 < 200ms`, `throughput >= 49/s`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::gate::{Condition, Limit, Relation, Rule, Scope, parse};
use crate::measure::{Figure, Measure, Ratio, Statistic};
use crate::model::{Interval, Prediction};
use crate::units::shown;
use crate::verdict::Verdict;

/// An objective that a plan can predict.
/// In files: its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct Objective {
    /// As it was written.
    pub text: String,
    /// The figure.
    pub figure: Figure,
    /// How it must stand to the limit.
    pub relation: Relation,
    /// The limit, in microseconds or in acquisitions a second.
    pub limit: f64,
}

impl Objective {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, or why no plan predicts that, and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let told = shown(text, 80);
        let example = "write e.g. --slo 'wait.p99 < 200ms'";
        let Condition { subject, rule } =
            parse(text, None).map_err(|mistake| format!("--slo {told}: {mistake}; {example}"))?;
        let figure = subject.figure;
        if read(figure).is_none() {
            return Err(format!(
                "--slo {told}: a plan does not predict {figure}, only wait.p50, wait.p99, wait.p99.9, wait.mean and throughput; \
                 {example}"
            ));
        }
        if subject.scope != Scope::default() {
            return Err(format!(
                "--slo {told}: an objective is for all strategies and the clients that --clients says; leave `of` and `at` out"
            ));
        }
        let Rule::Compare(relation, Limit::Value(quantity)) = rule else {
            return Err(format!("--slo {told}: a plan compares with a number only; {example}"));
        };
        let fits = match figure {
            Figure::Ratio(_) => matches!(relation, Relation::More | Relation::AtLeast),
            _ => matches!(relation, Relation::Less | Relation::AtMost),
        };
        if !fits || quantity.value() <= 0.0 {
            return Err(format!(
                "--slo {told}: a wait is to stay below a limit, and throughput above one, which is more than nothing; {example}"
            ));
        }
        Ok(Self { text: text.trim().to_owned(), figure, relation, limit: quantity.value() })
    }

    /// What is predicted of its figure.
    #[must_use]
    pub fn of<'p>(&self, prediction: &'p Prediction) -> Option<&'p Interval> {
        read(self.figure).map(|read| read(prediction))
    }

    /// Whether one value keeps it.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.relation.holds(value, self.limit)
    }

    /// Whether a prediction keeps it: with all of its interval, or with nothing of it, or nobody can tell.
    #[must_use]
    pub fn judge(&self, prediction: &Prediction) -> Verdict {
        let Some(interval) = self.of(prediction) else {
            return Verdict::Unknown(vec![format!("{} is not predicted", self.figure)]);
        };
        let said = |value: f64| match self.figure {
            Figure::Ratio(_) => format!("{}/s", crate::units::number(value)),
            _ => crate::units::format_micros(value.max(0.0) as u64),
        };
        let between = format!(
            "{} is predicted between {} and {}",
            self.figure,
            said(interval.low),
            said(interval.high)
        );
        match (self.holds(interval.low), self.holds(interval.high)) {
            (true, true) => Verdict::Held,
            (false, false) => Verdict::Violated(vec![format!(
                "{between}, and is to be {} {}",
                self.relation.sign(),
                said(self.limit)
            )]),
            _ => Verdict::Unknown(vec![format!(
                "{between}, and the limit of {} lies within",
                said(self.limit)
            )]),
        }
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.text
    }
}

impl TryFrom<String> for Objective {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

fn read(figure: Figure) -> Option<fn(&Prediction) -> &Interval> {
    match figure {
        Figure::Latency(Measure::Wait, Statistic::Percentile(50_000)) => Some(|one| &one.wait_p50),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_000)) => Some(|one| &one.wait_p99),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_900)) => Some(|one| &one.wait_p999),
        Figure::Latency(Measure::Wait, Statistic::Mean) => Some(|one| &one.wait_mean),
        Figure::Ratio(Ratio::Throughput) => Some(|one| &one.throughput),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_written_as_a_gate_is() {
        let objective = Objective::parse("wait.p99<200ms").unwrap();
        assert_eq!((objective.limit, objective.relation), (200_000.0, Relation::Less));
        assert!(objective.holds(199_999.0) && !objective.holds(200_000.0));
        assert!(Objective::parse("throughput >= 49/s").is_ok());
    }

    #[test]
    fn what_no_plan_predicts_is_refused_with_what_to_write() {
        for (text, says) in [
            ("wait.p99", "column"),
            ("speed < 3", "column"),
            ("handoff.p50 < 9ms", "does not predict handoff.p50"),
            ("wait.p99 < 2 * wait.p50", "with a number only"),
            ("wait.p99 > 3ms", "stay below a limit"),
            ("wait.p99 < 0ms", "never below 0"),
            ("wait.p99 at 5 contenders < 3ms", "leave `of` and `at` out"),
        ] {
            let told = Objective::parse(text).unwrap_err();
            assert!(told.contains(says), "{text}: {told}");
        }
    }
}
