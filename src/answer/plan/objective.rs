//! What a plan can say of an objective.

use crate::answer::model::{Predicted, Prediction};
use crate::answer::objective::Objective;
use crate::results::record::figures::THROUGHPUT;
use crate::scenario::gate::Relation;
use crate::words::measure::{Figure, Measure, Statistic};
use crate::words::verdict::Verdict;

/// Reads an objective that a plan can predict: a wait below a limit, or throughput above one.
///
/// # Errors
/// What is wrong with it, or why no plan predicts that, and what to write.
pub fn objective(text: &str) -> Result<Objective, String> {
    const EXAMPLE: &str = "write e.g. 'wait.p99 < 200ms'";
    let objective: Objective = text.parse()?;
    let figure = objective.figure;
    if reader(figure).is_none() {
        return Err(format!(
            "a plan does not predict {figure}, only wait.p50, wait.p99, wait.p99.9, wait.mean and throughput; {EXAMPLE}"
        ));
    }
    let fits = match figure {
        Figure::Plain(_) => matches!(objective.relation, Relation::More | Relation::AtLeast),
        _ => matches!(objective.relation, Relation::Less | Relation::AtMost),
    };
    if fits && objective.limit > 0.0 {
        return Ok(objective);
    }
    Err(format!(
        "a wait is to stay below a limit, and throughput above one, which is more than nothing; {EXAMPLE}"
    ))
}

/// What is predicted of a figure; `None` of one that is not predicted.
pub fn predicted(figure: Figure, prediction: &Prediction) -> Option<Predicted> {
    reader(figure).map(|read| read(prediction))
}

/// Whether a prediction keeps the objective: with all of its interval, or with nothing of it, or it can't be told.
pub fn judge(objective: &Objective, prediction: &Prediction) -> Verdict {
    let Objective { figure, limit, relation, .. } = objective;
    let Some(interval) = predicted(*figure, prediction) else {
        return Verdict::Unknown(vec![format!("{figure} is not predicted")]);
    };
    let [low, high, limit] = [interval.low, interval.high, *limit].map(|value| figure.unit().show(value));
    let between = format!("{figure} is predicted between {low} and {high}");
    match (objective.holds(interval.low), objective.holds(interval.high)) {
        (true, true) => Verdict::Held,
        (false, false) => {
            Verdict::Violated(vec![format!("{between}, and is to be {} {limit}", relation.sign())])
        }
        _ => Verdict::Unknown(vec![format!("{between}, and the limit of {limit} lies within")]),
    }
}

/// The wait that a curve over the rate shows: the objective's or, where that is something else, the 99th percentile.
pub fn wait_of(objective: &Objective) -> Figure {
    match objective.figure {
        figure @ Figure::Latency(Measure::Wait, _) => figure,
        _ => Figure::Latency(Measure::Wait, Statistic::percent(99)),
    }
}

fn reader(figure: Figure) -> Option<fn(&Prediction) -> Predicted> {
    match figure {
        Figure::Latency(Measure::Wait, Statistic::Percentile(50_000)) => Some(|one| one.wait_p50),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_000)) => Some(|one| one.wait_p99),
        Figure::Latency(Measure::Wait, Statistic::Percentile(99_900)) => Some(|one| one.wait_p999),
        Figure::Latency(Measure::Wait, Statistic::Mean) => Some(|one| one.wait_mean),
        figure if figure == THROUGHPUT.figure() => Some(|one| one.throughput),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_written_as_a_gate_is() {
        let read = objective("wait.p99<200ms").unwrap();
        assert_eq!((read.limit, read.relation), (200_000.0, Relation::Less));
        assert!(read.holds(199_999.0) && !read.holds(200_000.0));
        assert!(objective("throughput >= 49/s").is_ok());
    }

    #[test]
    fn what_no_plan_predicts_is_refused_with_what_to_write() {
        for (text, says) in [
            ("wait.p99", "column"),
            ("speed < 3", "column"),
            ("handoff.p50 < 9ms", "does not predict handoff.p50"),
            ("wait.p99 < 2 * wait.p50", "a figure and a number"),
            ("wait.p99 > 3ms", "stay below a limit"),
            ("wait.p99 < 0ms", "never below 0"),
            ("wait.p99 at 5 contenders < 3ms", "leave `of` and `at` out"),
        ] {
            let told = objective(text).unwrap_err();
            assert!(told.contains(says), "{text}: {told}");
        }
    }

    #[test]
    fn a_curve_shows_the_wait_of_the_objective_or_its_99th_percentile() {
        let shows = |text| wait_of(&objective(text).unwrap()).to_string();
        assert_eq!([shows("wait.mean < 1s"), shows("throughput >= 49/s")], ["wait.mean", "wait.p99"]);
    }
}
