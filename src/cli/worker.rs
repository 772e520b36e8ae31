//! `worker`: runs one of several processes, on one or more hosts, that share the load of a run. The workers
//! are started by Slurm, MPI, Kubernetes or a shell, and coordinate through the ensemble.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;
use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use super::args::{MergeArgs, RunArgs, WorkerArgs};
use super::export::Outputs;
use super::run::{self, MeasuredRun, host};
use super::runs::{NEEDS_CONNECT, own_program, parts_of};
use super::scenario_file::ScenarioFile;
use super::shared_args::ConcludingArgs;
use super::{drivers, merge, output};
use zklockbench_core::connect::{Connect, FORM};
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::counted;
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::{namespace_of, parse_connect};
use zklockbench_load::{Credentials, Job, MeetingPlace, PublishedRun, Rendezvous, TOP};
use zklockbench_record::{RunEnding, Trial, WorkerPart, Workers};
use zklockbench_results::{digest_of, digest_of_file};
use zklockbench_scenario::{Load, Scenario, Slice};
use zklockbench_zk::Target;

const NAME: &str = "worker";

pub async fn execute(args: WorkerArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let slice = place(args.index, args.of, |name| std::env::var(name).ok())?;
    match args.follow.clone() {
        Some(job) => follow(args, slice, &job, stop).await,
        None => make_part(args, slice, stop).await,
    }
}

async fn follow(args: WorkerArgs, slice: Slice, name: &str, stop: &CancellationToken) -> Result<Exit, Error> {
    let target = target(&args)?;
    let joining = Job::follow(&target, name, args.wait);
    let job = stop.run_until_cancelled(joining).await.unwrap_or(Err(Error::Interrupted))?;
    let (mut last, mut worst) = (None, Exit::Held);
    loop {
        let next = stop.run_until_cancelled(job.next(last.as_deref())).await;
        let Some((node, run)) = next.unwrap_or(Err(Error::Interrupted))? else { return Ok(worst) };
        let scenario = kept(&run.scenario)?;
        let of_run = WorkerArgs {
            scenario: Some(scenario.path().to_owned()),
            run_id: Some(run.run_id),
            out: parts_of(&args.out, name),
            ..args.clone()
        };
        let exit = match make_part(of_run, slice, stop).await {
            Ok(exit) => exit,
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // Continue, because the job's leading process decides whether to end the job.
            Err(error) => {
                output::complain(&error);
                error.exit()
            }
        };
        worst = worse(worst, exit);
        last = Some(node);
    }
}

/// Combines the exit codes of two runs. A failure of a later run does not hide a violation.
fn worse(worst: Exit, exit: Exit) -> Exit {
    match (worst, exit) {
        (Exit::Violated, _) | (_, Exit::Held) => worst,
        _ => exit,
    }
}

fn kept(scenario: &str) -> Result<NamedTempFile, Error> {
    let write = || -> std::io::Result<NamedTempFile> {
        let mut file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        file.write_all(scenario.as_bytes())?;
        Ok(file)
    };
    write().map_err(|error| Error::environment(format!("cannot store the scenario of a run: {error}")))
}

/// Returns the ensemble on which jobs are announced, as set by `--connect`.
fn target(args: &WorkerArgs) -> Result<Target, Error> {
    let connect = args.overrides.place.connect.clone().ok_or_else(|| Error::usage(NEEDS_CONNECT))?;
    let connect = parse_connect(&connect)?.text();
    Ok(Target { connect, access: args.opening.access.access(None)? })
}

async fn make_part(args: WorkerArgs, slice: Slice, stop: &CancellationToken) -> Result<Exit, Error> {
    let scenario = args.scenario.clone().unwrap_or_default();
    let file = match ScenarioFile::read(&scenario, &args.overrides) {
        Ok(file) => file,
        Err(unusable) => return unusable.tell(NAME, &scenario),
    };
    check(&file.parsed.scenario, slice)?;
    let run_id = args.run_id.clone().unwrap_or_default();
    if let Some(job) = &args.job {
        let run = PublishedRun { run_id: run_id.clone(), scenario: file.text.clone() };
        Job::publish(&target(&args)?, job, &run).await?;
    }
    let (merge_into, parts) = (args.merge_into.clone(), args.out.join(&run_id));
    let (rendezvous, wait) = (args.rendezvous.clone(), args.wait);
    let program = own_program()?;
    let program = digest_of_file(&program).map_err(Error::cannot("read", &program))?;
    let worker = WorkerPlace { slice, run_id, rendezvous, wait, program };
    let measured = run::measure(of_a_run(args, slice), file, None, None, Some(worker), stop).await?;
    let exit = conclude(measured, slice)?;
    match merge_into {
        Some(into) => merge_into_one(parts, slice.of, &into, stop).await,
        None => Ok(exit),
    }
}

/// Time limit for the other workers to write their parts.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(50);

async fn merge_into_one(
    parts: PathBuf,
    of: usize,
    into: &Path,
    stop: &CancellationToken,
) -> Result<Exit, Error> {
    let all_are_there = async {
        while !(0..of).all(|index| parts.join(part_name(index)).is_dir()) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    if tokio::time::timeout(WRITTEN_WITHIN, all_are_there).await.is_err() {
        return Err(Error::environment(format!(
            "parts of some workers are missing in {}: set --out to a directory shared by all workers",
            parts.display()
        )));
    }
    let (out, run_id) = (into.parent().unwrap_or(Path::new("")).to_owned(), into.file_name());
    let args = MergeArgs {
        parts: vec![parts],
        out,
        run_id: run_id.map(|name| name.to_string_lossy().into_owned()),
        concluding: unseen(),
        outputs: Outputs::default(),
    };
    super::reading(stop, move || merge::execute(&args)).await
}

fn part_name(index: usize) -> String {
    format!("worker-{index}")
}

/// Returns options for results that only programs read.
fn unseen() -> ConcludingArgs {
    ConcludingArgs { no_charts: true, ..ConcludingArgs::default() }
}

fn of_a_run(args: WorkerArgs, slice: Slice) -> RunArgs {
    RunArgs {
        scenario: args.scenario,
        // Record a history: only the order of the ensemble's transactions shows whether workers excluded each other.
        history: slice.is_part(),
        generator: args.generator,
        out: args.out.join(args.run_id.unwrap_or_default()),
        run_id: Some(part_name(slice.index)),
        concluding: unseen(),
        no_floor: args.no_floor || !slice.leads(),
        no_progress: true,
        overrides: args.overrides,
        opening: args.opening,
        ..RunArgs::default()
    }
}

/// Variables with the index of a process and the number of processes, for each launcher. MPI precedes Slurm, because
/// a batch script of Slurm has the variables of a task, too, and passes them on to `mpirun`.
const ENGINES: [(&str, &str); 4] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    // Kubernetes does not provide the number of processes.
    ("JOB_COMPLETION_INDEX", "ZKLOCKBENCH_WORKERS"),
];

/// Returns this worker's part, from its options or from the launcher.
fn place(
    index: Option<usize>,
    of: Option<usize>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Slice, Error> {
    let number = |name: &str| {
        let read = |text: String| {
            text.trim()
                .parse()
                .map_err(|_| Error::usage(format!("{name} is `{text}`, which is not a whole number")))
        };
        variable(name).map(read).transpose()
    };
    let (index, of, told) = match (index, of) {
        (Some(index), Some(of)) => (index, of, "--index and --of".to_owned()),
        _ => {
            let found = ENGINES.iter().find(|(index, of)| {
                // Launchers set their counts for other purposes, too. Without an index, consider only
                // $ZKLOCKBENCH_WORKERS.
                variable(index).is_some() || (*of == "ZKLOCKBENCH_WORKERS" && variable(of).is_some())
            });
            let Some((index, of)) = found else {
                return Err(Error::usage(
                    "unknown worker number: add --index I and --of N, or start the worker with srun or \
                     mpirun, or as an indexed Kubernetes Job",
                ));
            };
            match (number(index)?, number(of)?) {
                (Some(at), Some(count)) => (at, count, format!("{index} and {of}")),
                (at, _) => {
                    let (known, missing) = if at.is_some() { (index, of) } else { (of, index) };
                    return Err(Error::usage(format!(
                        "{known} is set, but {missing} is not: set both, or use --index I and --of N"
                    )));
                }
            }
        }
    };
    refuse_if!(index >= of, "there is no worker {index} of {of} ({told}): workers are numbered from 0");
    Ok(Slice { index, of })
}

/// Rejects scenarios that cannot be shared by several workers.
fn check(scenario: &Scenario, slice: Slice) -> Result<(), Error> {
    refuse_if!(!scenario.ensemble.is_external(), "{NEEDS_CONNECT}");
    if !slice.is_part() {
        return Ok(());
    }
    refuse_if!(
        scenario.load == Load::Batch,
        "several workers cannot share a batch, because one process coordinates it: use a closed or open load, \
         or `run`"
    );
    refuse_if!(
        scenario.precision.is_some(),
        "`precision` is not supported with several workers: remove `precision`, and set `repetitions`"
    );
    match scenario.contenders.iter().min() {
        Some(least) if *least < slice.of => Err(Error::usage(format!(
            "cannot spread {} over {}: use fewer workers or more contenders",
            counted(*least, "contender", "contenders"),
            counted(slice.of, "worker", "workers")
        ))),
        _ => Ok(()),
    }
}

/// Stores the measurements. Only the merged run is judged; a single part can show violations, but not their
/// absence.
fn conclude(measured: MeasuredRun, slice: Slice) -> Result<Exit, Error> {
    let MeasuredRun { writer, run, ran, .. } = measured;
    let mut sealed = writer.seal(run, ran.judge())?;
    let unfinished = sealed.finish().err();
    let path = sealed.publish()?;
    let why = || ran.outcome.why.clone().unwrap_or_default();
    let cut_short = match ran.outcome.ending {
        RunEnding::Complete => None,
        RunEnding::Interrupted => Some(Error::Interrupted),
        RunEnding::Aborted if ran.trials.iter().any(Trial::lost_a_worker) => Some(Error::Unknown(why())),
        RunEnding::Aborted | RunEnding::GateFailed => Some(Error::Environment(why())),
    };
    let error = cut_short.or(unfinished);
    let violated = ran.trials.iter().find(|trial| trial.is_violated());
    let verdict = violated.map_or(Verdict::Held, |trial| trial.judged.verdict.clone());
    let exit = RunEnding::Complete.exit(&verdict);
    let acquired: u64 = ran.trials.iter().map(|trial| trial.whole.acquired()).sum();
    let trials = ran.trials.len();
    let Slice { index, of } = slice;
    let results = path.display().to_string();
    let found =
        || json!({ "results": results, "worker": index, "of": of, "trials": trials, "acquired": acquired });
    output::conclude(NAME, exit, error, found, || {
        output::text(&format!(
            "{slice}: {}, {}: {}\nonce all workers have ended, merge their parts: zklockbench merge {}{}\n",
            counted(trials, "trial", "trials"),
            counted(acquired, "acquisition", "acquisitions"),
            path.display(),
            path.parent().unwrap_or(Path::new(".")).display(),
            drivers::options()
        ))
    })
}

pub struct WorkerPlace {
    pub slice: Slice,
    pub run_id: String,
    /// Connect string of the ensemble on which workers meet; `None` for the measured ensemble.
    pub rendezvous: Option<String>,
    pub wait: Duration,
    pub program: String,
}

impl WorkerPlace {
    /// Joins the run. If this is worker 0, sets the limit for all workers.
    pub async fn join(
        &self,
        target: &Target,
        file: &ScenarioFile,
        at_most: Option<f64>,
    ) -> Result<Rendezvous, Error> {
        let (meeting, place) = match &self.rendezvous {
            Some(connect) => {
                let connect = Connect::parse(connect)
                    .map_err(|wrong| Error::usage(format!("--rendezvous: {wrong}. Write {FORM}")))?;
                let elsewhere = Target { connect: connect.text(), access: target.access.clone() };
                (elsewhere, MeetingPlace::Elsewhere)
            }
            None => {
                let (_, chroot) = target.parts();
                let shares = namespace_of(chroot, TOP) != namespace_of("", TOP);
                let place = if shares { MeetingPlace::SameNamespace } else { MeetingPlace::SameServers };
                (target.clone(), place)
            }
        };
        let credentials = Credentials {
            version: env!("CARGO_PKG_VERSION").into(),
            program: self.program.clone(),
            scenario: of_scenario(file),
            of: self.slice.of,
            host: host::describe().hostname,
            at_most,
        };
        Rendezvous::join(&meeting, &self.run_id, self.slice, &credentials, place, self.wait).await
    }

    pub fn part(&self, file: &ScenarioFile, generator_threads: usize) -> Workers {
        let host = host::describe().hostname;
        let text = format!("{} {}", of_scenario(file), self.program);
        Workers {
            run_id: self.run_id.clone(),
            of: self.slice.of,
            configuration: digest_of(text.as_bytes()),
            parts: vec![WorkerPart { index: self.slice.index, host, generator_threads }],
        }
    }
}

/// Returns a digest of the scenario with overrides, and of the replayed file.
fn of_scenario(file: &ScenarioFile) -> String {
    let replayed = file.replayed.as_ref().map_or("", |replayed| replayed.sha256.as_str());
    digest_of(format!("{}\n{replayed}", file.text).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(set: &[(&str, &str)]) -> Result<Slice, String> {
        let variable =
            |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        place(None, None, variable).map_err(|error| error.to_string())
    }

    #[test]
    fn launcher_variables_determine_the_worker_number() {
        let third = Ok(Slice { index: 2, of: 4 });
        assert_eq!(placed(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")]), third);
        assert_eq!(placed(&[("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")]), third);
        assert_eq!(placed(&[("PMI_RANK", "2"), ("PMI_SIZE", "4")]), third);
        assert_eq!(placed(&[("JOB_COMPLETION_INDEX", "2"), ("ZKLOCKBENCH_WORKERS", "4")]), third);
        assert_eq!(place(Some(1), Some(2), |_| None).ok(), Some(Slice { index: 1, of: 2 }));
        let mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")];
        let batch_script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")];
        assert_eq!(placed(&[batch_script, mpi].concat()), third);
    }

    #[test]
    fn violation_outweighs_later_failures_of_a_followed_job() {
        let of = |runs: &[Exit]| runs.iter().fold(Exit::Held, |worst, exit| worse(worst, *exit));
        assert_eq!(of(&[Exit::Violated, Exit::Unknown, Exit::Held]), Exit::Violated);
        assert_eq!(of(&[Exit::Environment, Exit::Violated]), Exit::Violated);
        assert_eq!(of(&[Exit::Held, Exit::Unknown, Exit::Held]), Exit::Unknown);
    }

    #[test]
    fn incomplete_or_too_large_worker_numbers_are_rejected() {
        let told = |set: &[(&str, &str)]| placed(set).unwrap_err();
        let expected = "JOB_COMPLETION_INDEX is set, but ZKLOCKBENCH_WORKERS";
        assert!(told(&[("JOB_COMPLETION_INDEX", "2")]).starts_with(expected));
        let expected = "ZKLOCKBENCH_WORKERS is set, but JOB_COMPLETION_INDEX";
        assert!(told(&[("ZKLOCKBENCH_WORKERS", "2")]).starts_with(expected));
        assert!(told(&[("SLURM_PROCID", "0")]).starts_with("SLURM_PROCID is set, but SLURM_NTASKS is not"));
        assert!(
            told(&[("SLURM_PROCID", "4"), ("SLURM_NTASKS", "4")]).starts_with("there is no worker 4 of 4")
        );
        let expected = "is `x`, which is not a whole number";
        assert!(told(&[("SLURM_PROCID", "x"), ("SLURM_NTASKS", "4")]).contains(expected));
        assert!(told(&[]).starts_with("unknown worker number:"));
    }
}
