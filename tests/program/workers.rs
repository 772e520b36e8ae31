//! Several workers form one run: they start together, each worker runs its part, and the parts add up to the
//! measurements of a single worker. Any problem is reported and leaves no passing result.

use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::Duration;

use crate::support::program::{Bench, eventually, executable, says, signal, stderr, stdout, went_through};
use crate::support::sessions::{client, with_client};
use crate::support::{depth, ensemble};
use rustix::process::Signal;
use zklockbench_core::{measure::Measure, verdict::Verdict};
use zklockbench_record::Trial;
use zklockbench_results::{StoredRun, layout, read};

const OPEN: &str = "name = \"open\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 24\nlocks = 2\n\
                    load = \"open\"\nrate = 60\nhold = \"2ms\"\nwarm_up = \"1s\"\nwarm_up_at_most = \"1s\"\n\
                    duration = \"4s\"\nrepetitions = 1\n";

const CLOSED: &str = "name = \"closed\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 8\nhold = \"5ms\"\n\
                      think = \"5ms\"\nwarm_up = \"500ms\"\nwarm_up_at_most = \"500ms\"\nduration = \"2s\"\n\
                      repetitions = 1\n";

struct Job<'a> {
    bench: &'a Bench,
    connect: &'a str,
    name: &'a str,
    of: usize,
}

impl Job<'_> {
    fn start(&self, index: usize, more: &[&str]) -> Child {
        self.start_program(env!("CARGO_BIN_EXE_zklockbench"), index, more)
    }

    fn start_program(&self, program: &str, index: usize, more: &[&str]) -> Child {
        self.command(program, index, more).spawn().unwrap()
    }

    fn command(&self, program: &str, index: usize, more: &[&str]) -> Command {
        let scenario = self.bench.path("scenario.toml");
        let (index, of) = (index.to_string(), self.of.to_string());
        let mut arguments = vec!["worker", scenario.to_str().unwrap(), "--connect", self.connect, "--quiet"];
        arguments.extend(["--run-id", self.name, "--index", &index, "--of", &of]);
        arguments.extend(more);
        let mut command = self.bench.command_of(program, &arguments);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    }

    fn start_all(&self) -> Vec<Child> {
        (0..self.of).map(|index| self.start(index, &[])).collect()
    }

    fn run(&self) -> Vec<Output> {
        ended(self.start_all())
    }

    fn parts(&self) -> PathBuf {
        self.bench.path("results").join(self.name)
    }

    fn part(&self, index: usize) -> PathBuf {
        self.parts().join(format!("worker-{index}"))
    }

    fn merge(&self) -> Output {
        self.bench.output(&["merge", self.parts().to_str().unwrap()])
    }

    fn merged(&self) -> StoredRun {
        read(&self.bench.path("results").join(format!("{}-merged", self.name))).unwrap()
    }

    /// Waits until all workers have recorded the start of the first trial.
    fn wait_until_started(&self) {
        self.wait_for(self.of, "t000-started");
    }

    fn wait_for(&self, workers: usize, place: &str) {
        let path = format!("/zklockbench-workers/{}/{place}", self.name);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(client(self.connect));
        eventually(place, Duration::from_secs(30), || {
            runtime.block_on(client.list_children(&path)).unwrap_or_default().len() == workers
        });
    }
}

fn ended(workers: Vec<Child>) -> Vec<Output> {
    workers.into_iter().map(|worker| worker.wait_with_output().unwrap()).collect()
}

fn only(stored: &StoredRun) -> &Trial {
    assert_eq!(stored.trials.len(), 1);
    &stored.trials[0]
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[tokio::test]
async fn four_workers_produce_the_same_load_as_one() {
    // Given servers that no other test uses
    let local = ensemble::start(depth::of(1, 3)).await;
    let connect = local.connect();
    let measured = move || {
        let bench = Bench::with(OPEN);
        // When the same load is run by one worker and by four workers
        let runs = [1, 4].map(|of| {
            let name = format!("by-{of}");
            let job = Job { bench: &bench, connect: &connect, name: &name, of };
            job.run().iter().for_each(went_through);
            went_through(&job.merge());
            job.merged()
        });
        let [one, four] = [only(&runs[0]), only(&runs[1])];
        // Then the number of offered arrivals is the same, and all arrivals were served
        let arrived = |trial: &Trial| trial.arrived.map(|arrived| (arrived.offered, arrived.served));
        assert!(arrived(one).unwrap().0 > 150, "{:?}", one.arrived);
        assert_eq!(arrived(four), arrived(one));
        let samples = |trial: &Trial| trial.histograms[&Measure::Wait].len();
        assert_eq!(samples(four), samples(one));
        let offered = |trial: &Trial| trial.timeline.iter().map(|second| second.offered).collect::<Vec<_>>();
        assert_eq!(offered(four), offered(one));
        // And the counts of clients and servers agree, excluding requests of the workers' meetings
        assert_eq!(four.servers_agree(), Some(true), "{:?}\n{:?}", four.accounting, four.beside);
        assert_eq!(four.tallies.len(), 24);
        // On a busy host, a worker may wait for a processor.
        let is_together = four.start_spread_us.is_some_and(|spread| 10 * spread < four.measured_us);
        assert!(is_together, "{:?} of {}", four.start_spread_us, four.measured_us);
        let workers = runs[1].run.workers.as_ref().unwrap();
        assert_eq!((workers.of, workers.parts.len()), (4, 4));
    };
    tokio::task::spawn_blocking(measured).await.unwrap();
    local.close();
}

#[test]
fn lock_shared_by_workers_is_judged_by_all_transactions() {
    let bench = Bench::with(CLOSED);
    let connect = ensemble::place_on_shared();
    let job = Job { bench: &bench, connect: &connect, name: "held", of: 4 };
    job.run().iter().for_each(went_through);
    let merged = job.merge();
    went_through(&merged);
    let stored = job.merged();
    let trial = only(&stored);
    let order = trial.ensemble_order.as_ref().unwrap();
    assert!(order.contested_by_zxid > 5 && order.too_early == 0, "{order:?}");
    assert_eq!(trial.judged.verdict, Verdict::Held, "{:?}", trial.judged);
    // Metrics that require a single clock are reported only for single parts
    assert!(trial.full_crew.is_none() && trial.utilisation.is_none() && trial.standstill.is_none());
    assert!(!trial.histograms.contains_key(&Measure::Uncontended));
    assert!(stdout(&merged).contains("4 workers"), "{}", stdout(&merged));
    // And `check` of the merged history returns the same verdict
    let history = layout::trial_history(&bench.path("results").join("held-merged"), 0);
    bench.shows(&format!("check {}", history.display()));
    // And no node of the run is left on the ensemble
    let left = with_client(&connect, async |client| client.list_children("/").await.unwrap());
    assert_eq!(left, [""; 0]);
}

#[test]
fn worker_0_sets_the_limit_for_all_workers() {
    let bench = Bench::with(CLOSED);
    let connect = ensemble::place_on_shared();
    let job = Job { bench: &bench, connect: &connect, name: "limited", of: 2 };
    // Given workers that would decide differently
    let workers = [(0, "400/s"), (1, "900/s")].map(|(index, at_most)| {
        let more = ["--at-most", at_most, "--stop-if-latency", "1000x"];
        let mut command = job.command(env!("CARGO_BIN_EXE_zklockbench"), index, &more);
        command.env_remove("ZKLOCKBENCH_ALLOW_SATURATION").spawn().unwrap()
    });
    ended(workers.into()).iter().for_each(went_through);
    for index in [0, 1] {
        let stored = read(&job.part(index)).unwrap();
        assert_eq!(stored.run.ensemble.load_limit(), Some("400 requests/s"), "worker {index}");
    }
}

#[test]
fn merge_rejects_incomplete_or_mixed_parts() {
    let bench = Bench::new();
    let connect = ensemble::place_on_shared();
    let short = CLOSED.replace("\"2s\"", "\"1s\"");
    bench.scenario(&short);
    let [first, second] =
        ["first", "second"].map(|name| Job { bench: &bench, connect: &connect, name, of: 2 });
    first.run().iter().for_each(went_through);
    bench.scenario(&short.replace("hold = \"5ms\"", "hold = \"6ms\""));
    second.run().iter().for_each(went_through);
    let told = |parts: &[PathBuf]| {
        let mut arguments = vec!["merge"];
        arguments.extend(parts.iter().map(|part| part.to_str().unwrap()));
        let output = bench.output(&arguments);
        assert_eq!(code(&output), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(told(&[first.part(0)]).contains("there is no part of worker 1"));
    assert!(told(&[first.part(0), first.part(0)]).contains("two parts of worker 0"));
    let mixed = told(&[first.part(0), second.part(1)]);
    assert!(mixed.contains("first/worker-0 and"), "{mixed}");
    assert!(mixed.contains("second/worker-1: they are parts"), "{mixed}");
    let merged = first.merge();
    went_through(&merged);
    assert!(told(&[bench.path("results/first-merged")]).contains("not one worker's part"));
}

#[test]
fn workers_reject_unsupported_loads_before_any_request() {
    let bench = Bench::new();
    let job = Job { bench: &bench, connect: "127.0.0.1:1", name: "x", of: 9 };
    let told = |text: &str, index| {
        bench.scenario(text);
        let output = job.start(index, &[]).wait_with_output().unwrap();
        assert_eq!(code(&output), Some(2), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(told(CLOSED, 0).contains("cannot spread 8 contenders over 9 workers"));
    assert!(told(CLOSED, 9).contains("there is no worker 9 of 9"));
    let batch = "name = \"x\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 10\nload = \"batch\"\n";
    assert!(told(batch, 0).contains("several workers cannot share a batch"));
    let place = |name, value| {
        let scenario = bench.path("scenario.toml");
        let arguments = ["worker", scenario.to_str().unwrap(), "--run-id", "x", "--connect", "127.0.0.1:1"];
        let output = bench.command(&arguments).env(name, value).output().unwrap();
        assert_eq!(code(&output), Some(2));
        stderr(&output)
    };
    assert!(place("JOB_COMPLETION_INDEX", "1").contains("ZKLOCKBENCH_WORKERS is not"));
    assert!(place("SLURM_NTASKS", "4").contains("unknown worker number:"));
}

#[test]
#[ignore = "long"]
fn workers_wait_for_a_late_worker_and_fail_if_one_never_arrives() {
    let bench = Bench::with(&CLOSED.replace("\"2s\"", "\"1s\""));
    let connect = ensemble::place_on_shared();
    // Given a worker that joins 3 s after the other workers
    let job = Job { bench: &bench, connect: &connect, name: "late", of: 3 };
    let mut workers: Vec<Child> = (0..2).map(|index| job.start(index, &[])).collect();
    std::thread::sleep(Duration::from_secs(3));
    workers.push(job.start(2, &[]));
    // Then all workers start together
    ended(workers).iter().for_each(went_through);
    went_through(&job.merge());
    let spread = only(&job.merged()).start_spread_us;
    assert!(spread.is_some_and(|spread| spread < 100_000), "{spread:?}");
    // Given a worker that never joins
    let job = Job { bench: &bench, connect: &connect, name: "never", of: 3 };
    let waiting = [0, 1].map(|index| job.start(index, &["--wait", "2s"]));
    for output in ended(waiting.into()) {
        says(&output, 3, "worker 2 did not arrive in time");
    }
    assert!(!job.part(0).exists() && !job.part(1).exists());
}

#[test]
fn workers_reject_different_programs_and_scenarios_before_the_load() {
    let bench = Bench::with(CLOSED);
    let connect = ensemble::place_on_shared();
    // Given a worker with a slightly different program
    let other = bench.path("other");
    let mut program = std::fs::read(env!("CARGO_BIN_EXE_zklockbench")).unwrap();
    program.push(0);
    executable(&other, program);
    let job = Job { bench: &bench, connect: &connect, name: "other", of: 2 };
    let workers = vec![job.start(0, &[]), job.start_program(other.to_str().unwrap(), 1, &[])];
    for output in ended(workers) {
        says(&output, 2, "worker 1 has a different build of the program");
    }
    // Given a worker with another seed
    let job = Job { bench: &bench, connect: &connect, name: "seed", of: 2 };
    for output in ended(vec![job.start(0, &[]), job.start(1, &["--seed", "7"])]) {
        says(&output, 2, "worker 1 has a different scenario or seed");
    }
}

/// Kills worker 2 of three when `moment` returns. Checks that the other workers fail and report the lost worker.
fn killed(name: &str, moment: impl FnOnce(&Job<'_>)) {
    let bench =
        Bench::with(&CLOSED.replace("= \"500ms\"", "= \"3s\"").replace("hold = \"5ms\"", "hold = \"50ms\""));
    let connect = ensemble::place_on_shared();
    let job = Job { bench: &bench, connect: &connect, name, of: 3 };
    let workers = job.start_all();
    moment(&job);
    signal(workers[2].id(), Signal::KILL);
    let outputs = ended(workers);
    for (index, output) in outputs.iter().enumerate().take(2) {
        says(output, 4, "lost worker 2");
        // The measurements are kept and marked as partial
        let part = read(&job.part(index)).unwrap();
        assert!(only(&part).cut_short.as_ref().is_some_and(|cut| cut.why.contains("lost worker 2")));
    }
    says(&job.merge(), 2, "there is no part of worker 2");
}

#[test]
fn run_fails_when_a_worker_is_killed_during_the_warm_up() {
    killed("in-warm-up", |job| {
        job.wait_until_started();
        std::thread::sleep(Duration::from_millis(500));
    });
}

#[test]
#[ignore = "long"]
fn run_fails_when_a_worker_is_killed_during_a_hold() {
    killed("while-holding", |job| {
        job.wait_until_started();
        std::thread::sleep(Duration::from_millis(4_500));
    });
}

#[test]
#[ignore = "long"]
fn run_fails_when_a_worker_is_killed_before_all_have_arrived() {
    let bench = Bench::with(CLOSED);
    let connect = ensemble::place_on_shared();
    let job = Job { bench: &bench, connect: &connect, name: "before", of: 3 };
    // Given two workers that wait for a third worker
    let mut waiting = vec![job.start(0, &[]), job.start(2, &[])];
    job.wait_for(2, "join");
    // When one of the two waiting workers dies
    signal(waiting.remove(1).id(), Signal::KILL);
    says(&ended(waiting).remove(0), 4, "lost worker 2");
    assert!(!job.part(0).exists());
}

/// Starts the second of two workers of a job.
fn follow(bench: &Bench, job: &str, connect: &str) -> Child {
    bench.spawn(&["worker", "--follow", job, "--index", "1", "--of", "2", "--connect", connect, "--quiet"])
}

#[test]
#[ignore = "long"]
fn workers_follow_a_sweep_until_it_ends() {
    let bench = Bench::with(&CLOSED.replace("\"2s\"", "\"1s\""));
    let connect = ensemble::place_on_shared();
    // When a sweep shares its load with a follower
    let follower = follow(&bench, "swept", &connect);
    let sweep = format!("sweep scenario.toml --over contenders=4,8 --connect {connect} --budget 40s");
    let sweep = bench.typed(&format!("{sweep} --run-id swept --workers 2 --job swept")).output().unwrap();
    went_through(&follower.wait_with_output().unwrap());
    // Then each point of the sweep is a run of both workers
    let points = std::fs::read_dir(bench.path("results/swept/points")).unwrap();
    let runs: Vec<StoredRun> = points.map(|point| read(&point.unwrap().path()).unwrap()).collect();
    assert!(runs.len() >= 2, "{}", stderr(&sweep));
    assert!(runs.iter().all(|run| run.run.workers.as_ref().is_some_and(|workers| workers.parts.len() == 2)));
}

#[test]
#[ignore = "long: a plan measures for minutes"]
fn workers_follow_a_plan_through_its_verification() {
    let bench = Bench::new();
    let connect = ensemble::place_on_shared();
    let follower = follow(&bench, "planned", &connect);
    let plan = "plan --clients 8 --rate 40/s --hold 2ms --slo 'wait.p99 < 1s' --strategies predecessor-watch";
    let shared = "--verify --verify-for 10s --quiet --workers 2 --job planned";
    let plan = bench.typed(&format!("{plan} --connect {connect} {shared}")).output().unwrap();
    went_through(&follower.wait_with_output().unwrap());
    assert!(matches!(code(&plan), Some(0 | 1 | 4)), "{}", stderr(&plan));
    let found = stdout(&plan);
    assert!(found.contains("predecessor-watch"), "{found}{}", stderr(&plan));
}

#[test]
#[ignore = "long"]
fn workers_can_meet_on_another_ensemble() {
    let bench = Bench::new();
    let text = CLOSED.replace("warm_up_at_most = \"500ms\"\n", "warm_up_at_most = \"2s\"\n");
    bench.scenario(&text);
    let (connect, elsewhere) = (ensemble::place_on_shared(), ensemble::place_on_shared());
    let job = Job { bench: &bench, connect: &connect, name: "steady", of: 2 };
    let workers = (0..2).map(|index| job.start(index, &["--rendezvous", &elsewhere])).collect();
    ended(workers).iter().for_each(went_through);
    went_through(&job.merge());
    let [one, other] = [0, 1].map(|index| only(&read(&job.part(index)).unwrap()).steady.clone().unwrap());
    // The measured phases of both workers start at the same offset in the load
    assert_eq!((one.warm_up_us, one.slot_us), (2_000_000, other.slot_us));
    assert_eq!(one.warm_up_us, other.warm_up_us);
}
