//! Gates of a run, and the baselines for its comparison.

use std::path::{Path, PathBuf};

use crate::cli::output;
use crate::cli::shared_args::ConcludingArgs;
use zklockbench_analysis::compare::{Ask, Comparison, Loaded, Side, compare, differences};
use zklockbench_analysis::gate::{self, Evaluation, Outcome, Sides};
use zklockbench_core::error::Error;
use zklockbench_core::units::shown;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::CellKey;
use zklockbench_report::Gated;
use zklockbench_results::layout;
use zklockbench_scenario::Scenario;
use zklockbench_scenario::gate::{Gate, Rule};

pub struct Baseline {
    /// Candidates, newest first; empty only if the baseline is optional.
    candidates: Vec<Candidate>,
    /// Whether the run may continue without a baseline. If it does, gates that need a baseline are skipped.
    is_optional: bool,
}

/// Runs whose repetitions are combined.
struct Candidate {
    /// Path to show in messages.
    path: PathBuf,
    dirs: Vec<PathBuf>,
}

/// Maximum number of candidates to search for a run on a similar machine.
const CANDIDATES_MOST: usize = 50;

impl Baseline {
    /// Finds and reads the baseline before anything is started, so damaged files are reported immediately.
    pub fn find(args: &ConcludingArgs, scenario: &Scenario) -> Result<Option<Self>, Error> {
        let Some(dir) = args.baseline.as_deref() else {
            return match scenario.gates.iter().find(|gate| gate.condition.needs_baseline()) {
                None => Ok(None),
                Some(gate) => Err(Error::usage(format!(
                    "gate `{}` needs a baseline: specify a run or a store with --baseline DIR",
                    gate.condition
                ))),
            };
        };
        let one = |dir: PathBuf| Candidate { path: dir.clone(), dirs: vec![dir] };
        let is_optional = args.baseline_optional;
        let mut candidates = if dir.join(layout::RUN).is_file() {
            vec![one(dir.to_owned())]
        } else if !dir.is_dir() && is_optional {
            Vec::new()
        } else if !dir.is_dir() || zklockbench_results::is_store_of_baselines(dir) {
            let commits = zklockbench_results::baselines_by_commit(
                &zklockbench_results::baselines(dir)?,
                &scenario.name,
            );
            commits.into_iter().map(|dirs| Candidate { path: dir.to_owned(), dirs }).collect()
        } else {
            in_directory(dir, &scenario.name)?.into_iter().map(one).collect()
        };
        candidates.truncate(CANDIDATES_MOST);
        match candidates.first() {
            Some(newest) => newest.check(&scenario.name)?,
            None if is_optional => {}
            None => {
                return Err(Error::usage(format!(
                    "--baseline: {} has no complete run of `{}`; specify a run, a directory of runs, or a store of \
                     baselines (`zklockbench baseline add RUN` creates one), or add --baseline-optional",
                    dir.display(),
                    scenario.name
                )));
            }
        }
        Ok(Some(Self { candidates, is_optional }))
    }

    /// Returns the newest baseline that is comparable with this run. Without such a baseline, returns `None` if
    /// the baseline is optional, and otherwise the newest baseline, so the comparison reports the difference.
    fn fitting(&self, new: &Side) -> Result<Option<Side>, Error> {
        let mut why = "there is none yet".to_owned();
        for (at, candidate) in self.candidates.iter().enumerate() {
            let side = candidate.read()?;
            let apart = differences(&side, new);
            let Some(first) = apart.iter().find(|one| one.meaningless) else {
                if at > 0 {
                    let dir = candidate.dirs[0].display();
                    output::note(&format!(
                        "note: the newest baseline is not comparable ({why}); comparing with {dir}"
                    ));
                }
                return Ok(Some(side));
            };
            if at == 0 {
                why = first.describe();
            }
        }
        if self.is_optional {
            output::warn(format!(
                "no baseline to compare with ({why}): regressions are not judged. To make this run the first \
                 baseline, use `zklockbench baseline add`"
            ));
            return Ok(None);
        }
        self.candidates.first().map(Candidate::read).transpose()
    }
}

impl Candidate {
    /// Reads the runs only when needed, because they are too large to keep in memory during a run.
    fn read(&self) -> Result<Side, Error> {
        let read = |dir: &PathBuf| Ok(Loaded { path: dir.clone(), stored: zklockbench_results::read(dir)? });
        let runs = self.dirs.iter().map(read).collect::<Result<_, Error>>()?;
        Ok(Side { path: self.path.clone(), runs })
    }

    fn check(&self, scenario: &str) -> Result<(), Error> {
        for Loaded { path, stored } in self.read()?.runs {
            refuse_if!(
                stored.run.scenario != scenario,
                "--baseline: {} is a run of `{}`, not of `{scenario}`",
                path.display(),
                shown(&stored.run.scenario, 60),
            );
        }
        Ok(())
    }
}

/// Returns the complete runs in a directory that is not a store, newest first.
fn in_directory(dir: &Path, scenario: &str) -> Result<Vec<PathBuf>, Error> {
    let (runs, passed_over) = zklockbench_results::runs_of(dir, scenario)?;
    for error in passed_over {
        output::warn(format!("skipped as a baseline: {error}"));
    }
    Ok(runs)
}

/// Judges the scenario's gates for a run with this verdict. If no gate uses the baseline, the comparison
/// itself is a gate. Also returns the comparison; `None` if there is no comparable baseline.
pub fn judge(
    scenario: &Scenario,
    new: &Side,
    baseline: Option<&Baseline>,
    verdict: &Verdict,
) -> (Gated, Option<Comparison>) {
    let cells: Vec<CellKey> = cells(scenario).collect();
    // An unreadable baseline must not discard the measurements: gates that need a baseline become unknown.
    let (base, goes_without) = match baseline.map(|baseline| (baseline.fitting(new), baseline.is_optional)) {
        None => (None, false),
        Some((Ok(base), is_optional)) => (base, is_optional),
        Some((Err(error), _)) => {
            output::warn(format!("the baseline can no longer be read: {error}"));
            (None, false)
        }
    };
    let goes_without = goes_without && base.is_none();
    let Some(stored) = new.runs.first().map(|run| &run.stored) else {
        return (Gated { gates: Vec::new(), baseline: None }, None);
    };
    let is_judged = |gate: &&Gate| !(goes_without && gate.condition.needs_baseline());
    let gates: Vec<Gate> = scenario.gates.iter().filter(is_judged).cloned().collect();
    let evaluation = Evaluation {
        gates: &gates,
        cells: &cells,
        repetitions: usize::try_from(scenario.repetitions).unwrap_or(usize::MAX),
        stored,
        baseline: base.as_ref().map(|base| Sides { base, new }),
    };
    let mut outcomes = evaluation.outcomes(verdict);
    let path = base.as_ref().map(|base| base.path.display().to_string());
    let ask = asked_by(&gates);
    let is_gated = !ask.figures.is_empty();
    let mut compared = base.map(|base| compare(&base, new, &ask));
    if baseline.is_some() && !is_gated && !goes_without {
        let gone = || Err(Error::usage("the baseline can no longer be read"));
        outcomes.push(Outcome::of_comparison(compared.get_or_insert_with(gone)));
        gate::worst_first(&mut outcomes);
    }
    (Gated { gates: outcomes, baseline: path }, compared.and_then(Result::ok))
}

/// Returns the comparison to report alongside the gates, with the metrics and margins of the gates, so both agree.
fn asked_by(gates: &[Gate]) -> Ask {
    let mut ask = Ask::default();
    for gate in gates {
        let Rule::NotRegressed { percent } = gate.condition.rule else { continue };
        let figure = gate.condition.subject.figure;
        let margin = ask.terms.margins.entry(figure.to_string()).or_insert(f64::INFINITY);
        *margin = margin.min(percent / 100.0);
        if !ask.figures.contains(&figure) {
            ask.figures.push(figure);
        }
    }
    ask
}

fn cells(scenario: &Scenario) -> impl Iterator<Item = CellKey> {
    scenario.strategies.iter().flat_map(|strategy| {
        let label = &strategy.label;
        scenario
            .contenders
            .iter()
            .map(|contenders| CellKey { strategy: label.clone(), contenders: *contenders })
    })
}
