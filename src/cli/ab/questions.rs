//! What is compared by default, by what the load measures.

use crate::answer::ab::{CellPair, FigureQuestion, pair};
use crate::answer::compare::{losses_under, without_twins};
use crate::record::figures::THROUGHPUT;
use crate::record::{Figure, Statistic};
use crate::scenario::{Load, TrialPlan, TrialSpec};
use crate::words::error::Error;
use crate::words::measure::Measure;

use super::side::Side;

pub fn questions(a: &Side, b: &Side, asked: &[Figure]) -> Result<Vec<FigureQuestion>, Error> {
    let cells = pair(&a.matrix(), &b.matrix()).map_err(Error::usage)?;
    let plans = [TrialPlan::of(a.scenario()), TrialPlan::of(b.scenario())];
    let common = |cells: &CellPair, of: fn(&TrialSpec) -> Vec<Figure>| -> Vec<Figure> {
        let [first, second] = [(&plans[0], &cells.a), (&plans[1], &cells.b)].map(|(plan, cell)| {
            let is_it = |trial: &&TrialSpec| {
                trial.strategy.label == cell.strategy && trial.contenders == cell.contenders
            };
            plan.trials.iter().find(is_it).map(of).unwrap_or_default()
        });
        first.into_iter().filter(|figure| second.contains(figure)).collect()
    };
    if !asked.is_empty() {
        return Ok(each(&cells, false, |_| without_twins(asked)));
    }
    let planned = each(&cells, false, |cells| common(cells, usual));
    if planned.is_empty() {
        return Err(Error::usage("A and B have no usual figure in common: choose one with --figure"));
    }
    Ok([planned, each(&cells, true, |cells| common(cells, lost))].concat())
}

fn each(
    cells: &[CellPair],
    only_if_lost: bool,
    figures: impl Fn(&CellPair) -> Vec<Figure>,
) -> Vec<FigureQuestion> {
    let of = |cells: &CellPair| {
        let question = |figure| FigureQuestion { cells: cells.clone(), figure, only_if_lost };
        figures(cells).into_iter().map(question).collect::<Vec<_>>()
    };
    cells.iter().flat_map(of).collect()
}

/// What a load can lose.
fn lost(trial: &TrialSpec) -> Vec<Figure> {
    losses_under(trial.load.name()).collect()
}

/// The figures of which a trial has enough samples for them to say something.
fn usual(trial: &TrialSpec) -> Vec<Figure> {
    let percentile = |measure, percent| Figure::Latency(measure, Statistic::percent(percent));
    let mut figures = match trial.load {
        // Its throughput is that of the conductor, who lets contenders queue up one by one.
        Load::Batch => Vec::new(),
        Load::Closed | Load::Open(_) => vec![percentile(Measure::Wait, 50), percentile(Measure::Wait, 99)],
    };
    if trial.load == Load::Closed {
        figures.insert(0, THROUGHPUT.figure());
    }
    if trial.contenders.div_ceil(trial.locks.max(1)) > 1 {
        figures.push(percentile(Measure::Handoff, 50));
    }
    if figures.is_empty() {
        figures.push(percentile(Measure::Uncontended, 50));
    }
    let expected = trial.estimated_acquisitions();
    figures.retain(|figure| {
        let needed = figure.samples_needed();
        needed == 1 || needed as f64 <= expected
    });
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load;
    use crate::scenario::parse;

    fn names(text: &str) -> Vec<String> {
        let text = format!("name = \"x\"\nstrategies = [\"baton\"]\n{text}");
        let parsed = parse("x", &text, &load::catalog()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        usual(&TrialPlan::of(&parsed.scenario).trials[0]).iter().map(Figure::to_string).collect()
    }

    #[test]
    fn what_is_compared_follows_from_the_load() {
        let closed = "contenders = 5\nhold = \"5ms\"\n";
        assert_eq!(names(&format!("{closed}duration = \"2s\"")), ["throughput", "wait.p50", "handoff.p50"]);
        assert_eq!(
            names(&format!("{closed}duration = \"30s\"")),
            ["throughput", "wait.p50", "wait.p99", "handoff.p50"],
            "once a trial has a thousand samples"
        );
        assert_eq!(names("contenders = 1\nhold = \"5ms\"\nduration = \"2s\""), ["throughput", "wait.p50"]);
        assert_eq!(names("contenders = 50\nload = \"batch\"\nhold = \"1ms\""), ["handoff.p50"]);
    }
}
