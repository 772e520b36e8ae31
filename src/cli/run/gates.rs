//! The gates of a run, and the runs that it is compared with.

use std::path::{Path, PathBuf};

use super::super::output;
use crate::answer::compare::{Ask, Comparison, Loaded, Side, compare, differences};
use crate::answer::gate::{self, Evaluation, Outcome, Sides};
use crate::results::record::CellKey;
use crate::results::{self, layout};
use crate::scenario::Scenario;
use crate::words::error::Error;
use crate::words::units::shown;
use crate::words::verdict::Verdict;

pub struct Baseline {
    path: PathBuf,
    /// Their directories, of which there is one at least.
    dirs: Vec<PathBuf>,
    which: Which,
}

/// Which of the runs of a baseline count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// The first that can be compared with: they lie in a directory of runs, the newest first.
    NewestThatFits,
}

impl Baseline {
    /// Looks for it before anything is started, and reads it, so that one that is damaged is told at once.
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
        let (dirs, which) = if dir.join(layout::RUN).is_file() {
            (vec![dir.to_owned()], Which::All)
        } else if !dir.is_dir() || results::is_store_of_baselines(dir) {
            (newest(dir, scenario)?, Which::All)
        } else {
            (in_directory(dir, scenario)?, Which::NewestThatFits)
        };
        let found = Self { path: dir.to_owned(), dirs, which };
        for Loaded { path: dir, stored } in found.first()?.runs {
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

    /// What is compared with where nothing is known of the run yet.
    fn first(&self) -> Result<Side, Error> {
        match self.which {
            Which::All => self.side(&self.dirs),
            Which::NewestThatFits => self.side(&self.dirs[..1]),
        }
    }

    /// What that run is compared with. Where none fits, it is the newest: the comparison then says why it does not.
    fn fitting(&self, new: &Side) -> Result<Side, Error> {
        if self.which == Which::NewestThatFits {
            for dir in &self.dirs {
                let side = self.side(std::slice::from_ref(dir))?;
                if !differences(&side, new).iter().any(|one| one.meaningless) {
                    return Ok(side);
                }
            }
        }
        self.first()
    }

    /// Reads these: not kept for the time of a run, because of their size.
    fn side(&self, dirs: &[PathBuf]) -> Result<Side, Error> {
        let read = |dir: &PathBuf| Ok(Loaded { path: dir.clone(), stored: results::read(dir)? });
        let path = match (self.which, dirs) {
            (Which::NewestThatFits, [one]) => one.clone(),
            _ => self.path.clone(),
        };
        Ok(Side { path, runs: dirs.iter().map(read).collect::<Result<_, Error>>()? })
    }
}

/// The runs of a directory that is no store, the newest first.
fn in_directory(dir: &Path, scenario: &Scenario) -> Result<Vec<PathBuf>, Error> {
    let (runs, passed_over) = results::runs_of(dir, &scenario.name)?;
    for error in passed_over {
        output::note(&format!("warning: passed over as a baseline: {error}"));
    }
    if runs.is_empty() {
        return Err(Error::usage(format!(
            "--baseline: {} has no complete run of `{}`; name a run, a directory of runs, or a store of baselines \
             (`zklockbench baseline add RUN` begins one)",
            dir.display(),
            scenario.name
        )));
    }
    Ok(runs)
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
    pub outcomes: Vec<Outcome>,
    /// The comparison; `None` where there was no baseline, or where it cannot be compared.
    pub comparison: Option<Comparison>,
    pub baseline: Option<String>,
}

/// What the scenario's gates came to in that run, on which the verdict is this. Without a gate about the baseline, all of the
/// comparison is one.
pub fn judge(scenario: &Scenario, new: &Side, baseline: Option<&Baseline>, verdict: &Verdict) -> Gated {
    let cells: Vec<CellKey> = cells(scenario).collect();
    // What was measured must not be lost because something else was: the gates are unknown then.
    let base = baseline.and_then(|baseline| {
        let unreadable =
            |error| output::note(&format!("warning: the baseline can no longer be read: {error}"));
        baseline.fitting(new).map_err(unreadable).ok()
    });
    let Some(stored) = new.runs.first().map(|run| &run.stored) else {
        return Gated { outcomes: Vec::new(), comparison: None, baseline: None };
    };
    let evaluation = Evaluation {
        gates: &scenario.gates,
        cells: &cells,
        repetitions: usize::try_from(scenario.repetitions).unwrap_or(usize::MAX),
        stored,
        baseline: base.as_ref().map(|base| Sides { base, new }),
    };
    let mut outcomes = evaluation.outcomes(verdict);
    let path = base.as_ref().map(|base| base.path.display().to_string());
    let compared = base.map(|base| compare(&base, new, &Ask::default()));
    let is_gated = scenario.gates.iter().any(|gate| gate.condition.needs_baseline());
    if baseline.is_some() && !is_gated {
        let gone = || Err(Error::usage("the baseline can no longer be read"));
        let compared = compared.unwrap_or_else(gone);
        outcomes.push(Outcome::of_comparison(&compared));
        gate::worst_first(&mut outcomes);
        return Gated { outcomes, comparison: compared.ok(), baseline: path };
    }
    Gated { outcomes, comparison: compared.and_then(Result::ok), baseline: path }
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
