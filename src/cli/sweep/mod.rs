//! `sweep`: measures a scenario over a range, point by point, on a single ensemble if possible.
//!
//! As in `ab`, every run is a separate process with its own directory. Only the measurements determine the
//! next point (`zklockbench_analysis::sweep`). The series lists each run with its point.

#![expect(clippy::disallowed_methods, reason = "the time of writing is only a label")]

pub mod question;

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::output;
use super::run::open_ensemble::Needs;
use super::run::{host, places as where_results_are, tool_commit};
use super::runs::{
    AROUND_A_RUN, NEEDS_CONNECT, ReadyEnsemble, SeriesEnd, alike, expected, how_to_resume, leading,
    own_program, run_apart, tell_resumed, to_resume, with_paths,
};
use super::shared_args::GeneratorArgs;
use zklockbench_analysis::sweep::{
    Ask, At, Ending, FILE, POINTS, RunRecord, Sample, State, Step, SweepFile, find, next, samples,
};
use zklockbench_locks::DrivenLocks;

use crate::run::series::{DoneRun, Layout, Name, Series};
use question::{SweepArgs, SweepQuestion, announcement};
use zklockbench_core::clock::micros;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{format_duration, whole_seconds};
use zklockbench_record::EnsembleInfo;
use zklockbench_scenario::EnsembleChoice;
use zklockbench_zk::Target;

const BUDGET: Duration = Duration::from_secs(15 * 60);
const START: f64 = 14.0;
/// Maximum share of the budget to spend on covering the range once.
const COVERING: f64 = 0.3;
/// A point is repeated if the relative half-width of its throughput's interval exceeds this value.
const PRECISE: f64 = 0.1;

pub async fn execute(args: SweepArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let question = SweepQuestion::read(&args)?;
    let (scenario, driven) = (&question.scenario, DrivenLocks::registered());
    Needs::of(scenario).check(scenario, driven, &args.generator, &args.opening.access)?;
    args.opening.access.access(args.overrides.unnamed(scenario))?;
    let budget = args.budget.unwrap_or(BUDGET);
    let points_at_most = usize::from(args.points_at_most);
    let ask = Ask {
        over: question.over[0].clone(),
        grid: grid(&question, budget, points_at_most),
        beside: question.beside(),
        strategies: question.strategies.clone(),
        objective: question.objective.clone(),
        points_at_most,
        precise: if question.breaks_sessions() { f64::INFINITY } else { PRECISE },
    };
    let named = args.run_id.as_ref().map(|name| args.out.join(name)).filter(|path| path.is_dir());
    let dated = format!("sweep-{}", scenario.name);
    let name = args.run_id.as_deref().map_or(Name::Dated(&dated), Name::Exactly);
    let (resume, asked) = (args.resume.as_deref().or(named.as_deref()), asked(&args, &question));
    let series = Series::open("sweep", Layout::Separate(POINTS), &args.out, name, resume, asked)?;
    if !args.opening.quiet {
        output::note(&announcement(&question, &ask.grid, budget));
    }
    tell_resumed(series.count(), args.opening.quiet);
    let started_at = series.started_at();
    let file = SweepFile {
        schema_version: FILE.version,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        tool_commit: tool_commit(),
        scenario: scenario.name.clone(),
        scenario_text: question.text.clone(),
        load: scenario.load.name().into(),
        over: question.over.clone(),
        grid: ask.grid.clone(),
        strategies: ask.strategies.clone(),
        objective: ask.objective.clone(),
        seed: scenario.seed,
        budget_us: micros(budget),
        spent_us: 0,
        points_at_most,
        threads: args.generator.threads,
        host: host::describe(),
        ensembles: Vec::new(),
        started_at,
        written_at: started_at,
        ending: Ending::GoingOn,
        why: None,
        findings: Vec::new(),
        runs: Vec::new(),
        samples: Vec::new(),
    };
    let mut under_way = SweepInProgress { args, question, ask, file, series, ensemble: None };
    let measured = leading(&under_way.args.job.clone(), under_way.target(), under_way.measure(stop)).await;
    under_way.conclude(SeriesEnd::after(measured, Ending::Interrupted, Ending::Aborted))
}

/// Settings that must be the same when the sweep is resumed; the budget may change.
fn asked(args: &SweepArgs, question: &SweepQuestion) -> Value {
    let SweepQuestion { text, over, objective, .. } = question;
    json!({ "scenario": text, "over": over, "objective": objective, "threads": args.generator.threads })
}

/// Returns the values to measure first, or fewer if covering the range would take too much of the budget.
fn grid(question: &SweepQuestion, budget: Duration, at_most: usize) -> Vec<f64> {
    let over = &question.over[0];
    let mut grid = over.grid();
    let beside = question.beside();
    let cost = |grid: &[f64]| -> f64 {
        let each = beside.iter().flat_map(|beside| grid.iter().map(move |x| At { x: *x, beside: *beside }));
        each.map(|at| estimate(question, at, &question.strategies)).sum()
    };
    while grid.len() > at_most.max(2) || grid.len() > 4 && cost(&grid) > COVERING * budget.as_secs_f64() {
        let fewer = over.spaced(grid.len() - 1);
        // Never shorten an explicit list.
        if fewer.len() >= grid.len() {
            break;
        }
        grid = fewer;
    }
    grid
}

/// Estimates the duration of a run in seconds from the scenario alone.
fn estimate(question: &SweepQuestion, at: At, strategies: &[String]) -> f64 {
    question.point(at, strategies).map_or(AROUND_A_RUN, |(_, scenario)| expected(&scenario)).as_secs_f64()
}

struct SweepEnsemble {
    ready: ReadyEnsemble,
    servers: Option<usize>,
}

/// Measured point of a run, as a note in the series.
#[derive(Serialize, Deserialize)]
struct MeasuredPoint {
    at: At,
    strategies: Vec<String>,
    /// Shared ensemble; `None` if each run starts its own.
    ensemble: Option<EnsembleInfo>,
}

struct SweepInProgress {
    args: SweepArgs,
    question: SweepQuestion,
    ask: Ask,
    file: SweepFile,
    series: Series,
    ensemble: Option<SweepEnsemble>,
}

impl SweepInProgress {
    async fn measure(&mut self, stop: &CancellationToken) -> Result<Ending, Error> {
        loop {
            if stop.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let number = next_number(self.file.runs.last().map_or(0, |run| run.number), self.series.keys());
            if let Some(point) = self.series.note(&key(number))? {
                self.point(number, point, stop).await?;
                continue;
            }
            let left = self.file.budget_us as f64 / 1e6 - self.series.spent().as_secs_f64();
            let step = match next(&self.ask, &self.file.samples, &|step| self.cost(step), left) {
                Ok(step) => step,
                Err(ending) => return Ok(ending),
            };
            self.step(number, step, stop).await?;
            self.refresh(SeriesEnd::of(Ending::GoingOn));
            self.file.write(self.series.path())?;
        }
    }

    /// Returns the external ensemble, which workers require.
    fn target(&self) -> Result<Target, Error> {
        let EnsembleChoice::Connect(connect) = &self.question.scenario.ensemble else {
            return Err(Error::usage(NEEDS_CONNECT));
        };
        let access = self.args.opening.access.access(self.args.overrides.unnamed(&self.question.scenario))?;
        Ok(Target { connect: connect.clone(), access })
    }

    /// Estimates the duration of a step in seconds from the scenario, corrected by the nearest run.
    fn cost(&self, step: &Step) -> f64 {
        let far =
            |at: At| (at.x / step.at.x).ln().abs() + if at.beside == step.at.beside { 0.0 } else { 10.0 };
        let nearest = self.file.runs.iter().min_by(|one, other| far(one.at).total_cmp(&far(other.at)));
        let correction = nearest
            .map_or(1.0, |run| run.took_us as f64 / 1e6 / estimate(&self.question, run.at, &run.strategies));
        let changes =
            self.ensemble.as_ref().is_none_or(|open| open.servers != self.question.servers(step.at));
        let estimated = estimate(&self.question, step.at, &step.strategies);
        estimated * correction + if changes { START } else { 0.0 }
    }

    async fn open(&mut self, step: &Step, stop: &CancellationToken) -> Result<(), Error> {
        let servers = self.question.servers(step.at);
        let is_open = self.ensemble.as_ref().is_some_and(|open| open.servers == servers);
        if is_open || self.question.breaks_servers() {
            return Ok(());
        }
        self.leave();
        let (_, scenario) = self.question.point(step.at, &step.strategies)?;
        let logs = self.series.server_logs("0");
        let access = self.args.opening.access.access(self.args.overrides.unnamed(&scenario))?;
        let ready = ReadyEnsemble::open(&scenario, &self.args.opening, access, logs, stop).await?;
        self.ensemble = Some(SweepEnsemble { ready, servers });
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(open) = self.ensemble.take() {
            open.ready.close();
        }
    }

    async fn step(&mut self, number: u32, step: Step, stop: &CancellationToken) -> Result<(), Error> {
        self.open(&step, stop).await?;
        self.tell(number, &step);
        let ensemble = self.ensemble.as_ref().map(|open| open.ready.ensemble.clone());
        self.point(number, MeasuredPoint { at: step.at, strategies: step.strategies, ensemble }, stop).await
    }

    /// Measures a point, unless a listed run of the series has already measured it.
    async fn point(
        &mut self,
        number: u32,
        point: MeasuredPoint,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let key = key(number);
        let (text, _) = self.question.point(point.at, &point.strategies)?;
        let scenario = self.series.scenario(&key, &text)?;
        let seed = self.file.seed.wrapping_add(u64::from(number)) % super::shared_args::SEEDS;
        let Self { series, ensemble, args, .. } = self;
        let command = |place: &Path| {
            let seed: [OsString; 2] = ["--seed".into(), seed.to_string().into()];
            let Some(open) = ensemble else {
                let generator = GeneratorArgs { allow_faults: true, ..args.generator.clone() };
                let place_words = alike(&args.overrides.place, &args.opening);
                let words = [place_words, generator.words(), seed.into(), vec!["--quiet".into()]];
                return run_apart(&scenario, place, words.concat());
            };
            let job = Some((&args.job, args.out.as_path()));
            let hosts = with_paths(&[("--hosts", &args.overrides.hosts)]);
            let more = [seed.into(), hosts].concat();
            Ok(open.ready.run(&own_program()?, &scenario, place, args.generator.clone(), job, more))
        };
        let run = series.run(&key, &point, command, stop).await?;
        let (found, own) = if run.directory.is_dir() {
            let stored = zklockbench_results::read(&run.directory)?;
            let objective = self.question.objective.as_ref().map(|objective| objective.figure);
            (samples(&stored, number, point.at, objective), Some(stored.run.ensemble.clone()))
        } else {
            (self.failed(&point, number, &run)?, None)
        };
        let ensemble = self.number_of(point.ensemble.or(own));
        self.file.samples.extend(found);
        self.file.runs.push(RunRecord {
            number,
            directory: run.directory.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            at: point.at,
            strategies: point.strategies,
            seed,
            took_us: micros(run.took),
            exit_code: run.code,
            ensemble,
        });
        Ok(())
    }

    /// Returns the index of an ensemble in the file, which lists each ensemble only once.
    fn number_of(&mut self, ensemble: Option<EnsembleInfo>) -> usize {
        let Some(ensemble) = ensemble else { return 0 };
        let all = &mut self.file.ensembles;
        all.iter().position(|known| *known == ensemble).unwrap_or_else(|| {
            all.push(ensemble);
            all.len() - 1
        })
    }

    /// Handles a run without results. If other runs had valid results, the load is assumed to be too high;
    /// otherwise, the sweep ends.
    fn failed(&self, point: &MeasuredPoint, number: u32, run: &DoneRun) -> Result<Vec<Sample>, Error> {
        let server = self.ensemble.as_ref().and_then(|open| open.ready.opened.ended());
        let any_sound = self.file.samples.iter().any(|sample| sample.state == State::Sound);
        let is_usage = run.code == Some(Exit::Usage as i32);
        if server.is_some() || !any_sound || is_usage {
            return Err(run.without_results(&format!("run {number}"), server));
        }
        let (how, last) = (run.how(), run.last_words());
        let why = format!("no results ({how}): {}", last.lines().last().unwrap_or_default().trim());
        let sample = |strategy: &String| {
            Sample::without_results(number, strategy, point.at, State::Failed, why.clone())
        };
        Ok(point.strategies.iter().map(sample).collect())
    }

    fn tell(&self, number: u32, step: &Step) {
        if self.args.opening.quiet {
            return;
        }
        let over = &self.question.over;
        let mut place = format!("{} {}", over[0].variable.name(), over[0].variable.show(step.at.x));
        if let (Some(second), Some(value)) = (over.get(1), step.at.beside) {
            place = format!("{place}, {} {}", second.variable.name(), second.variable.show(value));
        }
        let spent = whole_seconds(self.series.spent());
        let budget = format_duration(Duration::from_micros(self.file.budget_us));
        output::note(&format!(
            "[{number}] {place}: {} ({}; {spent} of {budget})",
            step.strategies.join(", "),
            step.why.word()
        ));
    }

    fn refresh(&mut self, SeriesEnd { ending, why }: SeriesEnd<Ending>) {
        self.file.spent_us = micros(self.series.spent());
        self.file.written_at = SystemTime::now();
        (self.file.ending, self.file.why) = (ending, why);
        self.file.findings = find(&self.ask, &self.file.samples);
    }

    fn conclude(mut self, end: SeriesEnd<Ending>) -> Result<Exit, Error> {
        self.leave();
        self.refresh(end);
        self.series.keep();
        let directory = self.series.path();
        self.file.write(directory)?;
        let charts = if self.args.no_charts {
            Vec::new()
        } else {
            super::report::write_into(directory, zklockbench_report::page::of_sweep(&self.file));
            super::report::drawn(zklockbench_report::chart::draw_sweep(&self.file, directory))
        };
        let notes = self.question.notes();
        let exit = self.file.ending.of_a_run().exit(&self.file.judged());
        let goes_on = matches!(
            self.file.ending,
            Ending::Interrupted | Ending::Aborted | Ending::NotCovered | Ending::OutOfTime
        );
        let hint = goes_on.then(|| how_to_resume(directory));
        let error = (self.file.ending == Ending::Aborted)
            .then(|| Error::environment(self.file.why.clone().unwrap_or_default()));
        let (results, charts) = (directory.display().to_string(), output::paths(&charts));
        let found = || json!({ "results": results, "charts": charts, "notes": notes, "resume": hint, "sweep": self.file });
        let whole = || {
            let more = more_time(self.file.ending);
            let (text, resume) =
                (zklockbench_report::sweep(&self.file, &notes, output::style()), to_resume(hint.as_deref()));
            format!("{text}\n{}{resume}{more}", where_results_are(directory))
        };
        output::conclude("sweep", exit, error, found, || {
            output::outcome(self.args.opening.quiet, &zklockbench_report::sweep_headline(&self.file), whole)
        })
    }
}

fn key(number: u32) -> String {
    format!("{number:03}")
}

/// Returns the option without which a sweep that ran out of time would measure nothing more.
fn more_time(ending: Ending) -> &'static str {
    match ending {
        Ending::OutOfTime | Ending::NotCovered => " --budget TIME (longer than before)",
        Ending::GoingOn | Ending::Complete | Ending::Interrupted | Ending::Aborted => "",
    }
}

/// Returns the number of the run after `last`: of the next listed run, if any. Listed numbers may have gaps, because
/// runs without results are not listed.
fn next_number<'a>(last: u32, listed: impl Iterator<Item = &'a str>) -> u32 {
    let listed = listed.filter_map(|key| key.parse::<u32>().ok()).filter(|number| *number > last);
    listed.min().unwrap_or(last.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resumed_sweep_reads_all_listed_runs_although_some_left_no_results() {
        // Run 2 left no results.
        let listed = ["001", "003", "1000", "999"];
        let mut numbers = vec![next_number(0, listed.into_iter())];
        for _ in 0..4 {
            numbers.push(next_number(numbers[numbers.len() - 1], listed.into_iter()));
        }
        assert_eq!(numbers, [1, 3, 999, 1000, 1001]);
    }

    #[test]
    fn sweep_that_ran_out_of_time_is_resumed_with_more_time() {
        for ending in [Ending::OutOfTime, Ending::NotCovered] {
            assert_eq!(more_time(ending), " --budget TIME (longer than before)");
        }
        assert_eq!(more_time(Ending::Interrupted), "");
    }
}
