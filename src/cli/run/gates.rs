//! The gates of a run, and the runs that it is compared with.

use std::path::{Path, PathBuf};

use super::super::output;
use crate::compare::{Ask, Comparison, Loaded, Side, compare};
use crate::error::Error;
use crate::gate::{self, Cell, Evaluation, Outcome, Sides};
use crate::results::{self, layout};
use crate::scenario::Scenario;
use crate::units::shown;
use crate::verdict::Verdict;

/// The runs that a run is compared with.
pub struct Baseline {
    /// What was named.
    path: PathBuf,
    /// Their directories, of which there is one at least.
    dirs: Vec<PathBuf>,
}

impl Baseline {
    /// Looks for it before anything is started, and reads it, so that one that is damaged is told at once.
    ///
    /// # Errors
    /// A usage error when there is no such run or none of that scenario, or when a gate needs one and none was given.
    pub fn find(dir: Option<&Path>, scenario: &Scenario) -> Result<Option<Self>, Error> {
        let Some(dir) = dir else {
            return match scenario.gates.iter().find(|gate| gate.condition.needs_baseline()) {
                None => Ok(None),
                Some(gate) => Err(Error::usage(format!(
                    "gate `{}` needs a baseline: name a run or a store with --baseline DIR",
                    gate.condition
                ))),
            };
        };
        let dirs =
            if dir.join(layout::RUN).is_file() { vec![dir.to_owned()] } else { newest(dir, scenario)? };
        let found = Self { path: dir.to_owned(), dirs };
        for Loaded { path: dir, stored } in found.read()?.runs {
            let run = stored.run;
            if run.scenario != scenario.name {
                return Err(Error::usage(format!(
                    "--baseline: {} is a run of `{}`, not of `{}`",
                    dir.display(),
                    shown(&run.scenario, 60),
                    scenario.name
                )));
            }
        }
        Ok(Some(found))
    }

    /// Reads them: not kept for the time of a run, because of their size.
    fn read(&self) -> Result<Side, Error> {
        let read = |dir: &PathBuf| Ok(Loaded { path: dir.clone(), stored: results::read(dir)? });
        Ok(Side { path: self.path.clone(), runs: self.dirs.iter().map(read).collect::<Result<_, Error>>()? })
    }
}

/// The runs of the newest commit of a store.
fn newest(store: &Path, scenario: &Scenario) -> Result<Vec<PathBuf>, Error> {
    let dirs = results::newest_baselines(&results::baselines(store)?, &scenario.name);
    if dirs.is_empty() {
        return Err(Error::usage(format!(
            "--baseline: {} has no run of `{}`; add one with `zklockbench baseline add RUN`",
            store.display(),
            scenario.name
        )));
    }
    Ok(dirs)
}

/// What the gates of a run came to, and what it was compared with.
pub struct Gated {
    /// The gates, the worst first.
    pub outcomes: Vec<Outcome>,
    /// The comparison; `None` where there was no baseline, or where it cannot be compared.
    pub comparison: Option<Comparison>,
}

/// What the scenario's gates came to in that run, on which the verdict is this. Without a gate about the baseline, all of the
/// comparison is one.
pub fn judge(scenario: &Scenario, new: &Side, baseline: Option<&Baseline>, verdict: &Verdict) -> Gated {
    let cells: Vec<Cell> = cells(scenario).collect();
    // What was measured must not be lost because something else was: the gates are unknown then.
    let base = baseline.and_then(|baseline| {
        let unreadable =
            |error| output::note(&format!("warning: the baseline can no longer be read: {error}"));
        baseline.read().map_err(unreadable).ok()
    });
    let Some(stored) = new.runs.first().map(|run| &run.stored) else {
        return Gated { outcomes: Vec::new(), comparison: None };
    };
    let evaluation = Evaluation {
        gates: &scenario.gates,
        cells: &cells,
        repetitions: usize::try_from(scenario.repetitions).unwrap_or(usize::MAX),
        stored,
        baseline: base.as_ref().map(|base| Sides { base, new }),
    };
    let mut outcomes = evaluation.outcomes(verdict);
    let compared = base.map(|base| compare(&base, new, &Ask::default()));
    let is_gated = scenario.gates.iter().any(|gate| gate.condition.needs_baseline());
    if baseline.is_some() && !is_gated {
        let gone = || Err(Error::usage("the baseline can no longer be read"));
        let compared = compared.unwrap_or_else(gone);
        outcomes.push(Outcome::of_comparison(&compared));
        gate::worst_first(&mut outcomes);
        return Gated { outcomes, comparison: compared.ok() };
    }
    Gated { outcomes, comparison: compared.and_then(Result::ok) }
}

/// Every combination that the scenario runs.
fn cells(scenario: &Scenario) -> impl Iterator<Item = Cell> {
    scenario.strategies.iter().flat_map(|strategy| {
        let label = &strategy.label;
        scenario.contenders.iter().map(|contenders| Cell { strategy: label.clone(), contenders: *contenders })
    })
}
