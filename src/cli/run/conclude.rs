//! Concludes a run: seals its directory, writes charts and reports, and prints the result.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::gates::{self, Baseline};
use super::{NAME, RESUME};
use crate::cli::export::Prepared;
use crate::cli::runs::to_resume;
use crate::cli::scenario_file::ScenarioFile;
use crate::cli::shared_args::ConcludingArgs;
use crate::cli::{drivers, output};
use crate::run::Ran;
use zklockbench_analysis::compare::{Comparison, Loaded, Side};
use zklockbench_analysis::gate;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Run, RunEnding};
use zklockbench_report::ci::CiReport;
use zklockbench_report::page::{Source, document};
use zklockbench_report::{RunReport, Summary, View};
use zklockbench_results::{RunWriter, StoredRun, TrialFile, layout};
use zklockbench_scenario::Scenario;

/// Options for judging and reporting a run.
#[derive(Default)]
pub(in crate::cli) struct Concluding {
    args: ConcludingArgs,
    /// Whether to print only the first line.
    only_outcome: bool,
    baseline: Option<Baseline>,
}

impl Concluding {
    /// Finds and reads the baseline before anything is started.
    pub fn of(args: &ConcludingArgs, only_outcome: bool, scenario: &Scenario) -> Result<Self, Error> {
        Ok(Self { args: args.clone(), only_outcome, baseline: Baseline::find(args, scenario)? })
    }
}

pub(in crate::cli) struct MeasuredRun {
    pub concluding: Concluding,
    pub file: ScenarioFile,
    pub writer: RunWriter,
    pub run: Run,
    pub ran: Ran,
}

impl MeasuredRun {
    pub fn conclude(self, outputs: &Prepared) -> Result<Exit, Error> {
        let Self { concluding, file, writer, run, ran } = self;
        let scenario = &file.parsed.scenario;
        let outcome = ran.outcome.clone();
        let mut sealed = writer.seal(run, ran.judge())?;
        let stored = zklockbench_results::read(sealed.dir())?;
        let found = RunResult::of(scenario, sealed.end(), stored, &concluding);
        let view = found.view();
        let report = RunReport::of(&view, &found.gated);
        // All files written below can be regenerated from the results.
        if let Err(error) =
            sealed.summary(zklockbench_report::summary::FILE, &Summary::of(found.stored(), &report))
        {
            output::warn(error);
        }
        if !concluding.args.no_charts {
            draw(&view, sealed.dir());
            let name = sealed.name();
            let source = Source { name: &name, stored: found.stored(), view: &view };
            crate::cli::report::write_into(sealed.dir(), document(&source, &report));
        }
        write_markdown(&report, sealed.dir());
        let unfinished = sealed.finish_with(found.stored()).err();
        let path = sealed.publish()?;
        let aborted = (outcome.ending == RunEnding::Aborted).then(|| {
            Error::environment(format!(
                "{}; the results so far are in {}",
                outcome.why.unwrap_or_default(),
                path.display()
            ))
        });
        found.tell(scenario, outputs, aborted.or(unfinished))
    }
}

fn draw(view: &View<'_>, directory: &Path) {
    let charts = directory.join(layout::CHARTS);
    let drawn = zklockbench_report::chart::draw_all(view, &charts).inspect_err(|_| {
        // Remove incomplete charts, which could be mistaken for results.
        let _ = std::fs::remove_dir_all(&charts);
    });
    for (chart, why) in crate::cli::report::drawn(drawn).left_out {
        output::note(&format!("note: skipped chart {chart}: {why}"));
    }
}

fn write_markdown(report: &RunReport<'_>, directory: &Path) {
    let path = directory.join("summary.md");
    if let Err(error) = std::fs::write(&path, zklockbench_report::markdown(report)) {
        let _ = std::fs::remove_file(&path);
        output::warn(format!("summary.md could not be written: {error}"));
    }
}

pub(super) struct RunResult {
    path: PathBuf,
    /// The run, as one side of a comparison.
    side: Side,
    only_outcome: bool,
    gated: zklockbench_report::Gated,
    comparison: Option<Comparison>,
    /// Whether a baseline was requested, but none is comparable.
    lacks_baseline: bool,
    exit: Exit,
}

impl RunResult {
    pub fn of(scenario: &Scenario, path: PathBuf, stored: StoredRun, concluding: &Concluding) -> Self {
        let Concluding { args, only_outcome, baseline } = concluding;
        let strict = if args.strict { zklockbench_judge::zombies(&stored.trials) } else { Verdict::Held };
        let verdict = stored.run.judged.verdict.clone().and(strict);
        let ending = stored.run.outcome.ending;
        let side = Side { path: path.clone(), runs: vec![Loaded { path: path.clone(), stored }] };
        let (gated, comparison) = gates::judge(scenario, &side, baseline.as_ref(), &verdict);
        let exit = ending.exit(&gate::overall(&gated.gates));
        let lacks_baseline = baseline.is_some() && gated.baseline.is_none();
        Self { path, side, only_outcome: *only_outcome, gated, comparison, lacks_baseline, exit }
    }

    fn stored(&self) -> &StoredRun {
        &self.side.runs[0].stored
    }

    fn view(&self) -> View<'_> {
        View::of(self.stored())
    }

    /// Writes the CI reports and prints the result. Returns the given error, if any.
    pub fn tell(&self, scenario: &Scenario, outputs: &Prepared, error: Option<Error>) -> Result<Exit, Error> {
        let Self { path, comparison, exit, .. } = self;
        let (stored, view) = (self.stored(), self.view());
        let report = RunReport::of(&view, &self.gated);
        let mut document = CiReport::of_run(stored, &report);
        // If gates judge regressions, the CI reports omit the comparison itself: a build that passes its gates must
        // have no failed test case.
        let is_gated = scenario.gates.iter().any(|gate| gate.condition.needs_baseline());
        if let Some(comparison) = comparison.as_ref().filter(|_| !is_gated) {
            document = document.with_comparison(comparison);
        }
        if self.lacks_baseline {
            document.notes.push("No baseline was comparable, so regressions were not judged".to_owned());
        }
        let written = outputs.write(&document.with_fact("results", &path.display().to_string()));
        let error = error.or(written.err());
        let is_cut_short = stored.run.outcome.ending != RunEnding::Complete;
        let can_resume = is_cut_short && stored.run.workers.is_none();
        let resume = can_resume.then(|| format!("{RESUME}{}{}", path.display(), drivers::options()));
        let found = || {
            json!({
                "results": path.display().to_string(),
                "resume": resume,
                "run": stored.run,
                "summary": Summary::of(stored, &report),
                "comparison": comparison,
                "trials": stored.trials.iter().map(TrialFile::from).collect::<Vec<_>>(),
            })
        };
        let whole = || {
            let told = zklockbench_report::terminal(&report, comparison.as_ref(), output::style());
            format!("{told}\n{}{}", places(path), to_resume(resume.as_deref()))
        };
        output::conclude(NAME, *exit, error, found, || {
            output::outcome(self.only_outcome, &report.headline.text(), whole)
        })
    }
}

/// Returns the paths of the results and of their page, if any.
pub(in crate::cli) fn places(path: &Path) -> String {
    let page = path.join(layout::REPORT);
    let page = if page.exists() { format!("\nreport: {}", page.display()) } else { String::new() };
    format!("results: {}{page}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_path_is_printed_only_if_the_page_exists() {
        let run = tempfile::tempdir().unwrap();
        assert_eq!(places(run.path()), format!("results: {}", run.path().display()));
        std::fs::write(run.path().join(layout::REPORT), "").unwrap();
        assert!(places(run.path()).ends_with(layout::REPORT));
    }
}
