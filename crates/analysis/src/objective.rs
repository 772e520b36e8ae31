//! Objectives: conditions that a load must meet, each written as a gate of one metric and a number.

use std::ops::RangeInclusive;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use zklockbench_core::measure::Figure;
use zklockbench_core::units::shown;
use zklockbench_record::figures;
use zklockbench_scenario::gate::{Known, Limit, Relation, Rule, Scope, parse};

/// A limit for a metric of every strategy, stored as text such as `wait.p99 < 200ms`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", try_from = "String")]
#[schemars(with = "String")]
pub struct Objective {
    /// Text of the objective, as written.
    pub text: String,
    /// Metric.
    pub figure: Figure,
    /// Required relation to the limit.
    pub relation: Relation,
    /// Limit, in the metric's unit.
    pub limit: f64,
}

impl Objective {
    pub fn holds(&self, value: f64) -> bool {
        self.relation.holds(value, self.limit)
    }

    /// Returns the values that meet the objective.
    pub fn range(&self) -> RangeInclusive<f64> {
        range(self.relation, self.limit)
    }

    /// Formats the relation and the limit: `< 100 ms`.
    pub fn wanted(&self) -> String {
        format!("{} {}", self.relation.sign(), self.figure.unit().show(self.limit))
    }
}

/// Returns the range of values that satisfy this relation to a limit.
pub(crate) fn range(relation: Relation, limit: f64) -> RangeInclusive<f64> {
    match relation {
        Relation::Less => 0.0..=limit.next_down(),
        Relation::AtMost => 0.0..=limit,
        Relation::More => limit.next_up()..=f64::INFINITY,
        Relation::AtLeast => limit..=f64::INFINITY,
        Relation::Equal => limit..=limit,
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let told = shown(text, 80);
        let known = Known { figures: &figures::cards(), cells: None };
        let condition = parse(text, known).map_err(|mistake| format!("`{told}`: {mistake}"))?;
        let own = "an objective has a metric and a limit, such as 'wait.p99 < 100ms'";
        if condition.subject.scope != Scope::default() {
            return Err(format!("`{told}`: {own}; it applies to every strategy, so omit `of` and `at`"));
        }
        if let Some(across) = condition.across {
            let word = across.word();
            return Err(format!("`{told}`: {own}; it does not combine repetitions, so omit `{word}`"));
        }
        let figure = condition.subject.figure;
        match condition.rule {
            Rule::Compare(relation, Limit::Value(limit)) if relation != Relation::Equal => {
                Ok(Self { text: condition.to_string(), figure, relation, limit: limit.value() })
            }
            _ => Err(format!("`{told}`: {own}, compared with <, <=, > or >=")),
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
        text.parse()
    }
}
