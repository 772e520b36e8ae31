//! Workers started by other systems: Slurm tasks on virtual nodes of this host, and containers with the environment
//! of a Kubernetes Job, whose manifest is checked against its schema.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crate::compose::suite_image;
use crate::support::docker::{available, docker};
use crate::support::ensemble;
use crate::support::program::{Bench, eventually, says, stderr, stdout, went_through};
use crate::support::skip::skipped;
use zklockbench_record::Trial;
use zklockbench_results::read;

const SCENARIO: &str = "name = \"shared\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 16\nload = \"open\"\n\
                        rate = 60\nhold = \"2ms\"\nwarm_up = \"2s\"\nwarm_up_at_most = \"2s\"\nduration = \"5s\"\n\
                        repetitions = 1\n";
const NODES: usize = 4;

/// Slurm's daemons on this host, which end when this value is dropped.
struct Slurm {
    dir: PathBuf,
    daemons: Vec<Child>,
}

impl Slurm {
    /// Starts the daemons. Returns `None` and skips the test if Slurm is not installed.
    fn start(dir: &Path) -> Option<Self> {
        let is_there = |program: &str| {
            Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        if !["slurmctld", "slurmd", "srun"].into_iter().all(is_there) {
            skipped("Slurm is not installed (slurmctld, slurmd, slurm-client)");
            return None;
        }
        let base = ensemble::free_ports(NODES + 1)[0];
        std::fs::create_dir_all(dir.join("state")).unwrap();
        std::fs::write(dir.join("slurm.conf"), configuration(dir, base)).unwrap();
        let mut slurm = Self { dir: dir.to_owned(), daemons: Vec::new() };
        slurm.daemon("slurmctld", &["-D"]);
        for node in 0..NODES {
            std::fs::create_dir_all(dir.join(format!("spool/w{node}"))).unwrap();
            slurm.daemon("slurmd", &["-D", "-N", &format!("w{node}")]);
        }
        eventually("all nodes are idle", Duration::from_secs(60), || {
            let told = slurm.command("sinfo").args(["--noheader", "--format", "%t %D"]).output();
            told.is_ok_and(|told| stdout(&told).trim() == format!("idle {NODES}"))
        });
        Some(slurm)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.dir.join("slurm.conf"));
        command
    }

    fn daemon(&mut self, program: &str, arguments: &[&str]) {
        let log =
            std::fs::File::create(self.dir.join(format!("{program}{}.log", self.daemons.len()))).unwrap();
        let mut command = self.command(program);
        command.args(arguments).arg("-f").arg(self.dir.join("slurm.conf")).stderr(log).stdout(Stdio::null());
        self.daemons.push(command.spawn().unwrap());
    }

    /// Starts one worker per task; each task runs this shell command.
    fn srun(&self, bench: &Bench, line: &str) -> Output {
        let tasks = NODES.to_string();
        let mut command = self.command("srun");
        command.args(["-N", &tasks, "-n", &tasks, "--kill-on-bad-exit=0", "--chdir"]).arg(bench.dir.path());
        command.args(["sh", "-c", line]).env("ZKLOCKBENCH", env!("CARGO_BIN_EXE_zklockbench"));
        command.output().unwrap()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn configuration(dir: &Path, base: u16) -> String {
    let (dir, first, last) = (dir.display(), base + 1, base + NODES as u16);
    format!(
        "ClusterName=zk
SlurmctldHost=localhost
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool/%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldPort={base}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName=w[0-3] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs=1 RealMemory=100 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"
    )
}

fn worker(connect: &str, run_id: &str, before: &str) -> String {
    format!(
        "{before} exec \"$ZKLOCKBENCH\" worker scenario.toml --connect {connect} --run-id {run_id} --wait 30s --quiet"
    )
}

#[test]
#[ignore = "long: starts Slurm"]
fn slurm_workers_start_together_and_all_end_if_one_fails() {
    let bench = Bench::with(SCENARIO);
    let Some(slurm) = Slurm::start(&bench.path("slurm")) else { return };
    let connect = ensemble::place_on_shared();
    let merge = |name: &str| bench.output(&["merge", &format!("results/{name}")]);
    let merged = |name: &str| read(&bench.path("results").join(format!("{name}-merged"))).unwrap();
    // Given four workers that start together
    went_through(&slurm.srun(&bench, &worker(&connect, "whole", "")));
    let judged = merge("whole");
    went_through(&judged);
    println!("{}", stdout(&judged));
    let trial = merged("whole").trials[0].clone();
    // Then the spread of the workers' start times is small compared with the measured phase
    let together =
        |trial: &Trial| trial.start_spread_us.is_some_and(|spread| 10 * spread < trial.measured_us);
    assert!(together(&trial), "{:?} of {}", trial.start_spread_us, trial.measured_us);
    assert!(trial.arrived.is_some_and(|arrived| arrived.served == arrived.offered), "{:?}", trial.arrived);
    // Given a worker that starts 3 s late
    went_through(&slurm.srun(&bench, &worker(&connect, "late", "[ $SLURM_PROCID != 3 ] || sleep 3;")));
    went_through(&merge("late"));
    assert!(together(&merged("late").trials[0]));
    // Given a worker from another build
    let other = "[ $SLURM_PROCID != 2 ] || { cp $ZKLOCKBENCH other; echo >>other; ZKLOCKBENCH=./other; };";
    let other = slurm.srun(&bench, &worker(&connect, "other", other));
    says(&other, 2, "worker 2 has a different build of the program");
    // Given a worker that is killed before the other workers meet, during the warm-up, or during a hold
    for (name, after) in [("before", "3"), ("warm-up", "3"), ("hold", "6")] {
        let wait = if name == "before" { "[ $SLURM_PROCID != 0 ] || sleep 5;" } else { "" };
        let kill = format!("[ $SLURM_PROCID != 1 ] || {{ (sleep {after}; kill -9 $$) & }}; {wait}");
        let output = slurm.srun(&bench, &worker(&connect, name, &kill));
        let found = output.status.code().map(|code| code & 127);
        assert_eq!(found, Some(9), "{name}: exit code of the killed task");
        assert!(stderr(&output).contains("error: lost worker 1"), "{name}: {}", stderr(&output));
        assert_eq!(merge(name).status.code(), Some(2), "{name}");
    }
}

#[test]
#[ignore = "long: builds an image"]
fn four_containers_of_an_indexed_job_form_one_run() {
    let bench = Bench::with(SCENARIO);
    let Some(_docker) = available() else { return };
    let Some(image) = suite_image(&bench) else { return };
    let connect = ensemble::place_on_shared();
    let results = bench.path("results");
    std::fs::create_dir(&results).unwrap();
    std::fs::set_permissions(&results, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let mount = format!("{}:/results", results.display());
    let scenario = format!("{}:/scenario.toml:ro", bench.path("scenario.toml").display());
    let start = |index: usize| {
        let index = format!("JOB_COMPLETION_INDEX={index}");
        let mut command = Command::new("docker");
        command.args(["run", "--rm", "--network", "host", "--volume", &mount, "--volume", &scenario]);
        let variables: [&str; 3] = [&index, "ZKLOCKBENCH_WORKERS=4", "ZKLOCKBENCH_RUN_ID=job"];
        command.args(variables.into_iter().flat_map(|variable| ["--env", variable])).arg(&image);
        command.args(["worker", "/scenario.toml", "--connect", &connect, "--wait", "1m"]);
        command.args(["--out", "/results"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let workers: Vec<Child> = (0..4).map(start).collect();
    for worker in workers {
        went_through(&worker.wait_with_output().unwrap());
    }
    went_through(&bench.output(&["merge", "results/job"]));
    docker(&["image", "rm", "--force", &image]);
}

#[test]
#[ignore = "long: installs a schema validator from PyPI"]
fn job_manifest_matches_the_kubernetes_schema() {
    let bench = Bench::new();
    let venv = bench.path("venv");
    let python = |arguments: &[&str]| {
        Command::new(venv.join("bin/python"))
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let made = Command::new("python3").args(["-m", "venv"]).arg(&venv).output();
    let is_there = made.is_ok_and(|made| made.status.success())
        && python(&["-m", "pip", "install", "--quiet", "kubernetes-validate"]);
    if !is_there {
        return skipped("kubernetes-validate cannot be installed from PyPI");
    }
    let validate = |file: &Path| {
        Command::new(venv.join("bin/kubernetes-validate")).arg("--strict").arg(file).output().unwrap()
    };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/job.yaml");
    let output = validate(&manifest);
    assert!(output.status.success(), "{}", stderr(&output));
    // And an invalid manifest is rejected
    let text = std::fs::read_to_string(manifest).unwrap().replace("parallelism: 4", "parallel: 4");
    std::fs::write(bench.path("wrong.yaml"), text).unwrap();
    assert!(!validate(&bench.path("wrong.yaml")).status.success());
}
