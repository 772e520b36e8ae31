//! Regressions against a baseline: all comparisons of a run's gates form one family.

use std::collections::BTreeSet;

use super::{Check, Outcome};
use crate::compare::{
    BothSides, CellUnderLoad, Compared, Comparison, Difference, FloorRise, Method, Regression, Role, Row,
    Scale, Side, Terms, differences, more_lost,
};
use zklockbench_core::error::Error;
use zklockbench_core::measure::{Better, Figure};
use zklockbench_core::units::{number, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::CellKey;
use zklockbench_scenario::gate::Scope;
use zklockbench_stats::Interval;

/// A run and its baseline runs, whose repetitions are pooled.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    pub base: &'a Side,
    pub new: &'a Side,
}

/// All comparisons with the baseline that gates require. They share one error probability.
pub struct GateFamily<'a> {
    sides: Sides<'a>,
    size: usize,
    /// Reasons why comparisons are meaningless; empty if they are not.
    meaningless: Vec<String>,
    floor: Option<FloorRise>,
}

pub struct ComparedFigure {
    /// Whether the metric has become worse by more than the margin.
    pub regression: Regression,
    /// Factor by which the metric has become worse.
    pub ratio: f64,
    /// The comparison as a sentence without a full stop.
    pub sentence: String,
}

impl<'a> GateFamily<'a> {
    pub fn of(sides: Sides<'a>, size: usize) -> Self {
        let differences = differences(sides.base, sides.new);
        let meaningless =
            differences.iter().filter(|one| one.meaningless).map(Difference::describe).collect();
        let floor = FloorRise::between(sides.base, sides.new, &differences);
        Self { sides, size, meaningless, floor }
    }

    /// Judges whether the metric has become worse by more than this percentage.
    pub fn judge(&self, figure: Figure, cell: &CellKey, percents: f64) -> ComparedFigure {
        let cannot = |why: &str| {
            let sentence = format!("it cannot be compared with the baseline: {why}");
            ComparedFigure { regression: Regression::Unknown, ratio: 0.0, sentence }
        };
        if !self.meaningless.is_empty() {
            return cannot(&self.meaningless.join("; "));
        }
        let own = |side: &'a Side| side.repetitions(|trial| cell.is_of(trial));
        let terms = Terms::of_one_margin(percents / 100.0);
        let (base, new) = (own(self.sides.base), own(self.sides.new));
        let both = base.trials().into_iter().chain(new.trials());
        let asked: BTreeSet<CellUnderLoad> = both.map(CellUnderLoad::of).collect();
        if asked.len() > 1 {
            let asked: Vec<String> = asked.iter().map(CellUnderLoad::name).collect();
            return cannot(&asked.join(" against "));
        }
        let both = BothSides::of(base, new, self.floor);
        let mut compared = both.compare(figure, &terms, self.size);
        // An exact metric has no noise, but the gate still tolerates differences within its margin.
        let is_small = compared.method == Some(Method::Exact)
            && times_as_bad(figure, &compared) <= 1.0 + percents / 100.0;
        if is_small && compared.regression == Regression::Yes {
            compared = both.tolerated(compared);
        }
        found(figure, &compared)
    }
}

fn found(figure: Figure, compared: &Compared) -> ComparedFigure {
    let times = times_as_bad(figure, compared);
    let base = compared.base.median.filter(|median| median.is_finite());
    let was = base.map(|median| match compared.scale {
        Scale::Values => format!("{} in the baseline", figure.unit().show(median)),
        Scale::SharesLost => format!("{} of all requests in the baseline", percent(median)),
    });
    let said = [was, ratio(compared), compared.why.clone()];
    let sentence = said.into_iter().flatten().collect::<Vec<_>>().join("; ");
    ComparedFigure { regression: compared.regression, ratio: times, sentence }
}

/// Returns the factor by which the metric has become worse; below 1 if it has become better.
fn times_as_bad(figure: Figure, compared: &Compared) -> f64 {
    let ratio = compared.ratio.map_or(1.0, |ratio| ratio.value);
    match figure.better() {
        Better::Higher => 1.0 / ratio,
        Better::Lower | Better::Neither => ratio,
    }
}

fn ratio(compared: &Compared) -> Option<String> {
    let Interval { value, low, high, coverage } = compared.ratio.filter(|ratio| ratio.value.is_finite())?;
    let are_fewer_lost = compared.scale == Scale::SharesLost && value < 1.0;
    let end = |ratio: f64| match compared.scale {
        Scale::Values => number(ratio),
        Scale::SharesLost if are_fewer_lost => percent(1.0 - ratio),
        Scale::SharesLost => percent(ratio - 1.0),
    };
    let (low, high) = if are_fewer_lost { (high, low) } else { (low, high) };
    let interval = if low.is_finite() && high.is_finite() && compared.method != Some(Method::Exact) {
        format!(" (between {} and {} with {} confidence)", end(low), end(high), percent(coverage))
    } else {
        String::new()
    };
    let said = match compared.scale {
        Scale::Values => format!("{} times that", number(value)),
        Scale::SharesLost => more_lost(value),
    };
    Some(said + &interval)
}

impl Outcome {
    /// Text of the implicit gate of a run whose gates do not use its baseline.
    pub const NO_REGRESSION: &'static str = "nothing regressed against baseline";

    /// Returns the outcome of [`Self::NO_REGRESSION`]: the comparison's conclusion, or unknown if the
    /// comparison failed.
    pub fn of_comparison(comparison: &Result<Comparison, Error>) -> Self {
        let (verdict, mut checks) = match comparison {
            Ok(comparison) => {
                let conclusion = &comparison.conclusion;
                let deciding = comparison.rows.iter().filter(|row| row.role == Role::Decides);
                let checks = deciding.map(row).collect();
                (conclusion.regression.verdict(&conclusion.sentence), checks)
            }
            Err(error) => {
                let why = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                (Verdict::unknown(why), Vec::new())
            }
        };
        checks.sort_by_key(|check: &Check| super::rank(&check.verdict));
        Self { gate: Self::NO_REGRESSION.into(), name: None, scope: Scope::default(), verdict, checks }
    }
}

fn row(row: &Row) -> Check {
    let said = [
        Some(format!("{} {}", row.figure, row.compared.verdict)),
        ratio(&row.compared),
        row.compared.why.clone(),
    ];
    let sentence = said.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Check {
        strategy: row.cell.strategy.clone(),
        contenders: row.cell.contenders,
        verdict: row.compared.regression.verdict(&sentence),
        observed: None,
        limit: None,
        sentence,
    }
}
