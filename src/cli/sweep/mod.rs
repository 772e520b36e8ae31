//! `sweep`: a scenario measured over a range, point by point, on an ensemble that is kept for all of them.
//!
//! Every run is a process of its own and leaves an ordinary directory, as in `ab`. What is measured next follows from what
//! was measured alone (`zklockbench_analysis::sweep`), so a sweep that was killed goes on where it was.

#![expect(clippy::disallowed_methods, reason = "when it began is a label, and a budget is no measurement")]

pub mod question;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::run::open_ensemble::Needs;
use super::run::{host, places as where_results_are, tool_commit};
use super::runs::{
    AROUND_A_RUN, JobOptions, NEEDS_CONNECT, ReadyEnsemble, SeriesEnd, expected, leading, own_program,
    tell_resumed, to_resume,
};
use super::shared_args::{GeneratorArgs, PlaceArgs};
use super::{drivers, output};
use zklockbench_analysis::sweep::{
    Ask, At, Ending, FILE, Next, POINTS, RunRecord, Sample, State, Step, SweepFile, Why, find, next, read,
    samples,
};
use zklockbench_locks::DrivenLocks;

use crate::run::series::{DoneRun, Folders, RunPlace, SeriesDirectory};
use question::{SweepArgs, SweepQuestion, announcement};
use zklockbench_core::clock::micros;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{as_a_word, format_duration, whole_seconds};
use zklockbench_scenario::EnsembleChoice;
use zklockbench_zk::Target;

const BUDGET: Duration = Duration::from_secs(15 * 60);
const START: f64 = 14.0;
/// The share of the budget that covering the range once may take, where there is a choice.
const COVERING: f64 = 0.3;
/// Half the range of the throughputs of a point, as a share, from which on there are more repetitions.
const PRECISE: f64 = 0.1;
/// Where a run's directory grows until it is whole.
const UNDER_WAY: &str = ".under-way";
const FOLDERS: Folders = Folders { runs: POINTS, logs: "logs", scenarios: "scenarios" };

pub async fn execute(args: SweepArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let named =
        args.run_id.as_ref().map(|name| args.out.join(name)).filter(|path| path.join(FILE.name).is_file());
    let (question, file, directory) = match args.resume.clone().or(named) {
        Some(directory) => resume(&args, directory)?,
        None => begin(&args)?,
    };
    let directory = SeriesDirectory::take(directory, FOLDERS)?;
    directory.check(&format!("{POINTS}/{UNDER_WAY}"))?;
    let grid = file.grid.clone();
    if !args.opening.quiet {
        output::note(&announcement(&question, &grid, Duration::from_micros(file.budget_us)));
    }
    tell_resumed(file.runs.len(), args.opening.quiet);
    let ask = Ask {
        over: question.over[0].clone(),
        grid,
        beside: question.beside(),
        strategies: question.strategies.clone(),
        objective: question.objective.clone(),
        points_at_most: file.points_at_most,
        precise: PRECISE,
    };
    let spent_before = file.spent_us;
    let name = format!("sweep-{:08x}", rand::random::<u32>());
    let mut under_way = SweepInProgress {
        args,
        question,
        ask,
        file,
        directory,
        ensemble: None,
        began: Instant::now(),
        spent_before,
        name,
    };
    let measured = leading(&under_way.args.job.clone(), under_way.target(), under_way.measure(stop)).await;
    under_way.conclude(
        measured
            .map_or_else(|error| SeriesEnd::by(error, Ending::Interrupted, Ending::Aborted), SeriesEnd::of),
    )
}

fn begin(args: &SweepArgs) -> Result<(SweepQuestion, SweepFile, PathBuf), Error> {
    let question = SweepQuestion::read(args)?;
    let (scenario, driven) = (&question.scenario, DrivenLocks::registered());
    Needs::of(scenario).check(scenario, driven, &args.generator, &args.opening.access)?;
    args.opening.access.access(args.overrides.unnamed(&question.scenario))?;
    let budget = args.budget.unwrap_or(BUDGET);
    let points_at_most = usize::from(args.points_at_most);
    let now = SystemTime::now();
    let file = SweepFile {
        schema_version: FILE.version,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        tool_commit: tool_commit(),
        scenario: question.scenario.name.clone(),
        scenario_text: question.text.clone(),
        load: question.scenario.load.name().into(),
        over: question.over.clone(),
        grid: grid(&question, budget, points_at_most),
        strategies: question.strategies.clone(),
        objective: question.objective.clone(),
        seed: question.scenario.seed,
        budget_us: micros(budget),
        spent_us: 0,
        points_at_most,
        threads: args.generator.threads,
        host: host::describe(),
        ensembles: Vec::new(),
        started_at: now,
        written_at: now,
        ending: Ending::GoingOn,
        why: None,
        findings: Vec::new(),
        runs: Vec::new(),
        samples: Vec::new(),
    };
    let directory = match &args.run_id {
        None => zklockbench_results::create_dated(&args.out, &format!("sweep-{}", file.scenario), now)?,
        Some(name) => {
            let path = args.out.join(name);
            let created = fs::create_dir_all(&args.out).and_then(|()| fs::create_dir(&path));
            created.map_err(Error::cannot("create", &path))?;
            path
        }
    };
    file.write(&directory)?;
    Ok((question, file, directory))
}

fn resume(args: &SweepArgs, directory: PathBuf) -> Result<(SweepQuestion, SweepFile, PathBuf), Error> {
    let mut file = read(&directory)?;
    let at = |why: &str| Error::usage(format!("{}: {why}", directory.join(FILE.name).display()));
    let question = SweepQuestion::of(&file.scenario_text, file.over.clone(), file.objective.clone())?;
    // Where it goes on is named once more where that takes trust, and can be no other place.
    let PlaceArgs { connect, compose, .. } = &args.overrides.place;
    let is_elsewhere = match &question.scenario.ensemble {
        EnsembleChoice::Connect(same) => compose.is_some() || connect.as_ref().is_some_and(|one| one != same),
        EnsembleChoice::Compose(same) => connect.is_some() || compose.as_ref().is_some_and(|one| one != same),
        EnsembleChoice::Local { .. } => connect.is_some() || compose.is_some(),
    };
    if args.resume.is_some() && (is_elsewhere || args.overrides.change_more_than_the_place()?) {
        return Err(at("a sweep resumes as it was started: leave out the options that change its scenario"));
    }
    args.overrides.check_containers(&directory.join(FILE.name).display().to_string(), &question.scenario)?;
    args.opening.access.access(args.overrides.unnamed(&question.scenario))?;
    if question.strategies != file.strategies {
        return Err(at("its strategies are not those of its scenario"));
    }
    if args.resume.is_none() {
        let asked = SweepQuestion::read(args)?;
        let is_same = asked.text == question.text
            && asked.over == question.over
            && asked.objective == question.objective;
        if !is_same {
            return Err(at("another sweep has that name: choose another --run-id"));
        }
    }
    if let Some(budget) = args.budget {
        file.budget_us = micros(budget);
    }
    file.threads = args.generator.threads.or(file.threads);
    Ok((question, file, directory))
}

/// The values to begin with: fewer where covering the range with all of them would take too much of the time.
fn grid(question: &SweepQuestion, budget: Duration, at_most: usize) -> Vec<f64> {
    let over = &question.over[0];
    let mut grid = over.grid();
    let beside = question.beside();
    let cost = |grid: &[f64]| -> f64 {
        let each = beside.iter().flat_map(|beside| grid.iter().map(move |x| At { x: *x, beside: *beside }));
        each.map(|at| {
            estimate(question, &Step { at, strategies: question.strategies.clone(), why: Why::Cover })
        })
        .sum()
    };
    while grid.len() > at_most.max(2) || grid.len() > 4 && cost(&grid) > COVERING * budget.as_secs_f64() {
        let fewer = over.spaced(grid.len() - 1);
        // A list is taken as it is.
        if fewer.len() >= grid.len() {
            break;
        }
        grid = fewer;
    }
    grid
}

/// What a run takes in seconds, by the scenario alone.
fn estimate(question: &SweepQuestion, step: &Step) -> f64 {
    question.step(step).map_or(AROUND_A_RUN, |(_, scenario)| expected(&scenario)).as_secs_f64()
}

struct SweepEnsemble {
    ready: ReadyEnsemble,
    servers: Option<usize>,
    /// Its position among the ensembles of the sweep.
    number: usize,
}

struct SweepInProgress {
    args: SweepArgs,
    question: SweepQuestion,
    ask: Ask,
    file: SweepFile,
    directory: SeriesDirectory,
    ensemble: Option<SweepEnsemble>,
    began: Instant,
    spent_before: u64,
    /// What the names of its runs begin with on the ensemble.
    name: String,
}

impl SweepInProgress {
    async fn measure(&mut self, stop: &CancellationToken) -> Result<Ending, Error> {
        loop {
            if stop.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let left = (self.file.budget_us as f64 - self.spent() as f64) / 1e6;
            let step = match next(&self.ask, &self.file.samples, &|step| self.cost(step), left) {
                Next::Run(step) => step,
                Next::Enough => return Ok(Ending::Complete),
                Next::NoTime { covered: true } => return Ok(Ending::OutOfTime),
                Next::NoTime { covered: false } => return Ok(Ending::NotCovered),
            };
            self.step(&step, stop).await?;
            self.refresh(SeriesEnd::of(Ending::GoingOn));
            self.file.write(self.directory.path())?;
        }
    }

    /// The number of the next run: one that nothing in the directory has, neither a run nor what a killed sweep left of one,
    /// nor what others put there. All of that stays as it is.
    fn next_number(&self) -> Result<u32, Error> {
        let mut last = self.file.runs.iter().map(|run| run.number).max().unwrap_or(0);
        for folder in [FOLDERS.runs, FOLDERS.scenarios, FOLDERS.logs] {
            let path = self.directory.folder(folder)?;
            let cannot = Error::cannot("read", &path);
            for entry in fs::read_dir(&path).map_err(&cannot)? {
                let name = entry.map_err(&cannot)?.file_name();
                let digits = name.to_str().and_then(|name| name.split('.').next()).unwrap_or_default();
                last = last.max(digits.parse().unwrap_or(0));
            }
        }
        last.checked_add(1).ok_or_else(|| {
            let directory = self.directory.path().display();
            Error::usage(format!("{directory}: a file in it has the last number that there is: move it away"))
        })
    }

    /// The ensemble that others run, if it is on one.
    fn target(&self) -> Result<Target, Error> {
        let EnsembleChoice::Connect(connect) = &self.question.scenario.ensemble else {
            return Err(Error::usage(NEEDS_CONNECT));
        };
        let access = self.args.opening.access.access(self.args.overrides.unnamed(&self.question.scenario))?;
        Ok(Target { connect: connect.clone(), access })
    }

    /// How long it has taken, in microseconds.
    fn spent(&self) -> u64 {
        self.spent_before.saturating_add(micros(self.began.elapsed()))
    }

    /// What a step is expected to take in seconds: by the scenario, corrected by what the nearest run took.
    fn cost(&self, step: &Step) -> f64 {
        let far =
            |at: At| (at.x / step.at.x).ln().abs() + if at.beside == step.at.beside { 0.0 } else { 10.0 };
        let nearest = self.file.runs.iter().min_by(|one, other| far(one.at).total_cmp(&far(other.at)));
        let correction = nearest.map_or(1.0, |run| {
            let same = Step { at: run.at, strategies: run.strategies.clone(), why: Why::Repeat };
            run.took_us as f64 / 1e6 / estimate(&self.question, &same)
        });
        let changes =
            self.ensemble.as_ref().is_none_or(|open| open.servers != self.question.servers(step.at));
        estimate(&self.question, step) * correction + if changes { START } else { 0.0 }
    }

    async fn open(&mut self, step: &Step, stop: &CancellationToken) -> Result<(), Error> {
        let servers = self.question.servers(step.at);
        if self.ensemble.as_ref().is_some_and(|open| open.servers == servers) {
            return Ok(());
        }
        self.leave();
        let (_, scenario) = self.question.step(step)?;
        let number = self.file.ensembles.len();
        let logs = self.directory.server_logs(&number.to_string());
        let access = self.args.opening.access.access(self.args.overrides.unnamed(&scenario))?;
        let ready = ReadyEnsemble::open(&scenario, &self.args.opening, access, logs, stop).await?;
        self.file.ensembles.push(ready.ensemble.clone());
        self.ensemble = Some(SweepEnsemble { ready, servers, number });
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(open) = self.ensemble.take() {
            open.ready.close();
        }
    }

    async fn step(&mut self, step: &Step, stop: &CancellationToken) -> Result<(), Error> {
        self.open(step, stop).await?;
        let number = self.next_number()?;
        self.tell(number, step);
        let (text, _) = self.question.step(step)?;
        let key = format!("{number:03}");
        let scenario = self.directory.scenario(&key, &text)?;
        let seed = self.file.seed.wrapping_add(u64::from(number)) % super::shared_args::SEEDS;
        let place = RunPlace { parent: self.under_way(), name: format!("{}-{key}", self.name) };
        let run = self.directory.run(&place, &key, self.command(&scenario, &place, seed)?, stop).await?;
        let found = if run.directory.is_dir() {
            let directory = self.directory.path().join(POINTS).join(&key);
            fs::rename(&run.directory, &directory).map_err(Error::cannot("move", &directory))?;
            let stored = zklockbench_results::read(&directory)?;
            samples(
                &stored,
                number,
                step.at,
                self.question.objective.as_ref().map(|objective| objective.figure),
            )
        } else {
            self.failed(step, number, &run)?
        };
        self.file.samples.extend(found);
        self.file.runs.push(RunRecord {
            number,
            at: step.at,
            strategies: step.strategies.clone(),
            seed,
            took_us: micros(run.ended.took),
            exit_code: run.ended.code,
            ensemble: self.ensemble.as_ref().map_or(0, |open| open.number),
        });
        Ok(())
    }

    /// A run that left no results. Where others had some, it is the load that was too much; otherwise the sweep ends.
    fn failed(&self, step: &Step, number: u32, run: &DoneRun) -> Result<Vec<Sample>, Error> {
        let server = self.ensemble.as_ref().and_then(|open| open.ready.opened.ended());
        let any_sound = self.file.samples.iter().any(|sample| sample.state == State::Sound);
        let is_usage = run.ended.code == Some(Exit::Usage as i32);
        if server.is_some() || !any_sound || is_usage {
            return Err(run.without_results(&format!("run {number}"), server));
        }
        let (how, last) = (run.ended.how(), run.last_words());
        let sample = |strategy: &String| Sample {
            run: number,
            strategy: strategy.clone(),
            at: step.at,
            state: State::Failed,
            why: Some(format!("no results ({how}): {}", last.lines().last().unwrap_or_default().trim())),
            throughput: None,
            wait_p50: None,
            wait_p99: None,
            objective: None,
        };
        Ok(step.strategies.iter().map(sample).collect())
    }

    fn under_way(&self) -> PathBuf {
        self.directory.path().join(POINTS).join(UNDER_WAY)
    }

    fn command(&self, scenario: &Path, place: &RunPlace, seed: u64) -> Result<Process, Error> {
        let Some(SweepEnsemble { ready, .. }) = &self.ensemble else {
            return Err(Error::environment("no ensemble is open"));
        };
        let generator = GeneratorArgs { threads: self.file.threads, ..self.args.generator.clone() };
        let job = JobOptions::of(&self.args.job, &self.args.out);
        let mut more = vec!["--seed".into(), seed.to_string().into()];
        if let Some(hosts) = &self.args.overrides.hosts {
            more.extend(["--hosts".into(), hosts.into()]);
        }
        Ok(ready.run(&own_program()?, scenario, place, generator, job, more))
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
        let spent = whole_seconds(Duration::from_micros(self.spent()));
        let budget = format_duration(Duration::from_micros(self.file.budget_us));
        output::note(&format!(
            "[{number}] {place}: {} ({}; {spent} of {budget})",
            step.strategies.join(", "),
            step.why.word()
        ));
    }

    fn refresh(&mut self, SeriesEnd { ending, why }: SeriesEnd<Ending>) {
        self.file.spent_us = self.spent();
        self.file.written_at = SystemTime::now();
        (self.file.ending, self.file.why) = (ending, why);
        self.file.findings = find(&self.ask, &self.file.samples);
    }

    fn conclude(mut self, end: SeriesEnd<Ending>) -> Result<Exit, Error> {
        self.leave();
        self.refresh(end);
        let directory = self.directory.path();
        self.file.write(directory)?;
        // Where a run was broken off, its trials are in there.
        let _ = fs::remove_dir(self.under_way());
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
        let hint = goes_on.then(|| {
            let place = match &self.question.scenario.ensemble {
                EnsembleChoice::Connect(connect) => format!(" --connect {}", as_a_word(connect)),
                EnsembleChoice::Compose(file) => {
                    format!(" --compose {}", as_a_word(&file.display().to_string()))
                }
                EnsembleChoice::Local { .. } => String::new(),
            };
            let directory = as_a_word(&directory.display().to_string());
            format!("zklockbench sweep --resume {directory}{place}{}", drivers::options())
        });
        let error = (self.file.ending == Ending::Aborted)
            .then(|| Error::environment(self.file.why.clone().unwrap_or_default()));
        let found = || json!({ "results": directory, "charts": charts, "notes": notes, "resume": hint, "sweep": self.file });
        let whole = || {
            let more = if self.file.ending == Ending::OutOfTime { " --budget TIME, for more" } else { "" };
            let (text, resume) =
                (zklockbench_report::sweep(&self.file, &notes, output::style()), to_resume(hint.as_deref()));
            format!("{text}\n{}{resume}{more}", where_results_are(directory))
        };
        output::conclude("sweep", exit, error, found, || {
            output::outcome(self.args.opening.quiet, &zklockbench_report::sweep_headline(&self.file), whole)
        })
    }
}
