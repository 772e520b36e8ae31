//! Servers in containers: started for a run, broken by Docker, and removed no matter how the run ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::docker::{
    Docker, available, available_alone, docker, of_project, project_in, unused_volumes,
};
use crate::support::program::{Bench, eventually, signal, stderr, stdout, went_through};
use crate::support::skip::skipped;
use rustix::process::Signal;

const ONE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/compose.1.yaml");
const THREE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/compose.3.yaml");

const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\"]\ncontenders = [3]\nhold = \"200ms\"\n\
                     duration = \"2s\"\nrepetitions = 1\n";

/// Four server faults, one after another. Isolation comes last, because Docker may need seconds to isolate a server.
const FAULTS: &str = "name = \"broken\"\nstrategies = [\"curator-mutex\"]\ncontenders = 6\nhold = \"50ms\"\n\
                      duration = \"33s\"\nwarm_up = \"0s\"\nrepetitions = 1\nsession_timeout = \"20s\"\n[[fault]]\n\
                      kind = \"wipe\"\ntarget = \"follower\"\nat = \"1s\"\nduration = \"1s\"\n[[fault]]\n\
                      kind = \"kill\"\ntarget = \"leader\"\nat = \"7s\"\nduration = \"2s\"\n[[fault]]\n\
                      kind = \"pause\"\ntarget = \"leader\"\nat = \"15s\"\nduration = \"3s\"\n[[fault]]\n\
                      kind = \"isolate\"\ntarget = \"leader\"\nat = \"21s\"\nduration = \"4s\"\n";

fn run(bench: &Bench, docker: &Docker, (scenario, file): (&Path, &Path), more: &[&str]) -> Output {
    let mut arguments = vec!["run", scenario.to_str().unwrap(), "--compose", file.to_str().unwrap()];
    arguments.extend(more);
    let mut command = bench.command(&arguments);
    let flags = std::env::var("JDK_JAVA_OPTIONS").unwrap_or_default();
    command.env("ZOOKEEPER_IMAGE", &docker.zookeeper).env("ZOOKEEPER_JVM_FLAGS", flags).output().unwrap()
}

/// Writes an unusable Compose file whose only service has these lines.
fn file_with(bench: &Bench, lines: &[&str]) -> PathBuf {
    let path = bench.path("compose.yaml");
    let lines: String = lines.iter().map(|line| format!("    {line}\n")).collect();
    let text = format!("services:\n  odd:\n    image: ${{ZOOKEEPER_IMAGE}}\n{lines}");
    std::fs::write(&path, text).unwrap();
    path
}

const PUBLISHED: &str = "ports: [\"127.0.0.1:${ZOO1_PORT}:2181\"]";

/// Checks that every unused volume already existed before.
fn assert_no_volume_is_left(before: &BTreeSet<String>) {
    eventually("no volume is left", Duration::from_secs(10), || unused_volumes().is_subset(before));
}

fn ended(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), stderr(output))
}

/// Three servers as in the official image's example: without a list of allowed four-letter commands, restarted by
/// Docker, and on ports that Docker chooses.
fn official_example(bench: &Bench) -> PathBuf {
    let servers = "server.1=zoo1:2888:3888;2181 server.2=zoo2:2888:3888;2181 server.3=zoo3:2888:3888;2181";
    let service = |id: usize| {
        let environment = match id {
            1 => format!("{{ ZOO_MY_ID: 1, ZOO_SERVERS: \"{servers}\" }}"),
            _ => format!("[ZOO_MY_ID={id}, \"ZOO_SERVERS={servers}\"]"),
        };
        format!(
            "  zoo{id}:\n    image: ${{ZOOKEEPER_IMAGE}}\n    restart: always\n    hostname: zoo{id}\n    ports: [\"2181\"]\n    \
             environment: {environment}\n"
        )
    };
    let path = bench.path("compose.yaml");
    std::fs::write(&path, format!("services:\n{}", (1..=3).map(service).collect::<String>())).unwrap();
    path
}

#[test]
fn official_image_example_runs_without_counters_but_with_logs() {
    let Some(docker) = available() else { return };
    let bench = Bench::new();
    let output = run(&bench, &docker, (&bench.scenario(SHORT), &official_example(&bench)), &["--history"]);
    went_through(&output);
    let (_, said) = ended(&output);
    assert!(said.contains("servers' own counters not available"), "{said}");
    let stored = bench.stored();
    let roles: Vec<&str> = stored.run.ensemble.servers.iter().map(|server| server.role.as_str()).collect();
    assert_eq!(roles.iter().filter(|role| **role == "leader").count(), 1, "{roles:?}");
    assert_eq!(roles.iter().filter(|role| **role == "follower").count(), 2, "{roles:?}");
    let order = stored.trials[0].ensemble_order.as_ref().expect("the transaction logs were not read");
    assert!(order.checked > 0 && order.overlaps == 0, "{order:?}");
    assert_eq!(of_project(&project_in(&said)), [""; 0]);
}

#[test]
#[ignore = "long: three servers in containers, broken in four ways"]
fn locks_ensure_exclusion_when_containers_are_killed_paused_isolated_or_wiped() {
    let Some(docker) = available() else { return };
    let (bench, before) = (Bench::new(), unused_volumes());
    let output = run(&bench, &docker, (&bench.scenario(FAULTS), Path::new(THREE)), &[]);
    let said = stderr(&output);
    went_through(&output);
    let stored = bench.stored();
    let trial = &stored.trials[0];
    // Then each fault was proved and healed
    let kinds: Vec<&str> = trial.faults.iter().map(|fault| fault.kind.as_str()).collect();
    assert_eq!(kinds, ["wipe", "kill", "pause", "isolate"]);
    for fault in &trial.faults {
        println!("{}: {} ({})", fault.label, fault.target, fault.proof);
        assert!(fault.proved && fault.ended_us.is_some() && fault.left.is_none(), "{fault:?}");
    }
    // And exclusion held, also according to the servers' logs
    assert_eq!(trial.violation_count, 0);
    let order = trial.ensemble_order.as_ref().expect("the transaction logs were not read");
    assert!(order.checked > 0 && order.overlaps == 0, "{order:?}");
    // And the results describe the ensemble
    let ensemble = &stored.run.ensemble;
    assert_eq!((ensemble.kind.as_str(), ensemble.servers.len()), ("compose", 3));
    assert!(ensemble.servers.iter().all(|server| server.version.starts_with("3.")), "{ensemble:?}");
    let told = |key: &str| ensemble.config.iter().find(|(name, _)| name == key).map(|(_, value)| &**value);
    assert!(told("image").unwrap().starts_with(&docker.zookeeper), "{ensemble:?}");
    assert_eq!(told("tickTime"), Some("500"));
    assert!(ensemble.placement.contains("Docker volumes"), "{}", ensemble.placement);
    let log = std::fs::read_to_string(bench.results()[0].join("server-logs/server-3.log")).unwrap();
    assert!(log.contains("myid"), "{log}");
    // And no container, network or volume is left
    assert_eq!(of_project(&project_in(&said)), [""; 0]);
    assert_no_volume_is_left(&before);
}

#[test]
#[ignore = "long: starts containers twice"]
fn containers_of_a_killed_run_are_listed_by_clean_and_removed_by_the_next_run() {
    let Some(docker) = available_alone() else { return };
    let (bench, before) = (Bench::new(), unused_volumes());
    // Given a run that was killed while its servers were up
    let scenario = bench.scenario(&SHORT.replace("2s", "60s"));
    let mut command = bench.command(&["run", scenario.to_str().unwrap(), "--compose", ONE]);
    let mut child = command.env("ZOOKEEPER_IMAGE", &docker.zookeeper).stderr(bench.log()).spawn().unwrap();
    eventually("contenders run", Duration::from_secs(60), || {
        bench.logged().contains("starting the first trial")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let project = project_in(&bench.logged());
    assert!(of_project(&project).len() >= 2, "expected a container and a network");
    // Then `clean` lists the leftovers
    let listed = bench.output(&["clean", "--docker"]);
    assert!(stdout(&listed).contains(&format!("{project}  left behind")), "{}", stdout(&listed));
    // And the next run removes the leftovers and leaves nothing behind
    let docker = docker.share();
    let output = run(&bench, &docker, (&bench.scenario(SHORT), Path::new(ONE)), &[]);
    went_through(&output);
    let said = stderr(&output);
    assert_eq!(of_project(&project), [""; 0]);
    assert_eq!(of_project(&project_in(&said)), [""; 0]);
    assert_no_volume_is_left(&before);
}

#[test]
fn ctrl_c_while_the_servers_start_leaves_nothing_behind() {
    let Some(docker) = available() else { return };
    let (bench, before) = (Bench::new(), unused_volumes());
    bench.scenario(SHORT);
    let mut command = bench.command(&["run", "scenario.toml", "--compose", THREE]);
    let mut child = command.env("ZOOKEEPER_IMAGE", &docker.zookeeper).stderr(bench.log()).spawn().unwrap();
    eventually("the servers start", Duration::from_secs(60), || bench.logged().contains("(project "));
    signal(child.id(), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130), "{}", bench.logged());
    assert_eq!(of_project(&project_in(&bench.logged())), [""; 0]);
    assert_no_volume_is_left(&before);
    assert!(bench.results().is_empty());
}

#[test]
fn partition_of_containers_is_rejected_before_anything_starts() {
    let bench =
        Bench::with(&format!("{SHORT}[[fault]]\nkind = \"partition\"\nat = \"0s\"\nduration = \"100ms\"\n"));
    let said = bench.refuses(&format!("run scenario.toml --compose '{THREE}'"));
    assert!(said.contains("Docker can only disconnect a server") && said.contains("use `isolate`"), "{said}");
    assert!(!said.contains("containers of"), "containers were created: {said}");
}

#[test]
fn missing_compose_file_is_a_usage_error() {
    let bench = Bench::with(SHORT);
    let said = bench.refuses("run scenario.toml --compose no.yaml");
    assert!(said.contains("no.yaml: Compose file not found"), "{said}");
}

#[test]
fn compose_run_without_docker_reports_what_is_missing() {
    let bench = Bench::with(SHORT);
    let mut command = bench.command(&["run", "scenario.toml", "--compose", ONE]);
    let (code, said) = ended(&command.env("PATH", "/nowhere").output().unwrap());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("`docker version") && said.contains("docker.io"), "{said}");
    if std::process::Command::new("docker").arg("--version").output().is_err() {
        skipped("no `docker` command to test without its daemon");
        return;
    }
    // And a Docker daemon that does not respond is also reported
    let mut command = bench.command(&["run", "scenario.toml", "--compose", ONE]);
    let (code, said) = ended(&command.env("DOCKER_HOST", "unix:///nowhere.sock").output().unwrap());
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("daemon"), "{said}");
}

#[test]
#[ignore = "long: starts containers for each mistake"]
fn invalid_compose_file_is_reported_with_a_remedy() {
    let Some(mut docker) = available() else { return };
    let bench = Bench::new();
    let killed =
        format!("{SHORT}[[fault]]\nkind = \"restart\"\nserver = 1\nat = \"0s\"\nduration = \"100ms\"\n");
    let twice = killed.replace("restart", "kill").replace("server = 1", "server = 2");
    let isolated = killed.replace("restart", "isolate");
    let (unpublished, exits) =
        ("`odd` does not publish port 2181/tcp", r#"entrypoint: ["sh", "-c", "echo broken >&2; exit 9"]"#);
    let odd_servers = r#"environment: ["ZOO_SERVERS=server.1=odd:2888:3888"]"#;
    let restarts = ["ports: [\"2181\"]", "restart: always", exits];
    let cases: [(&str, &[&str], i32, &[&str]); 11] = [
        (SHORT, &["command: [\"true\"]"], 2, &[unpublished]),
        (SHORT, &["command: [\"true\"]", "volumes: [\"./odd:/odd\"]"], 2, &[unpublished]),
        (SHORT, &["image: [\"true\"]"], 2, &["compose.yaml"]),
        (SHORT, &[PUBLISHED, exits], 3, &["exit code 9", "broken"]),
        (SHORT, &restarts, 3, &["ended", ", and Docker ", "broken"]),
        (SHORT, &[PUBLISHED, odd_servers], 2, &["`server.1=odd:2888:3888;2181`"]),
        (SHORT, &["network_mode: host"], 2, &["--connect 127.0.0.1:PORT"]),
        (&killed, &[PUBLISHED, "restart: always"], 2, &["`restart: always`", "restart: \"no\""]),
        (&killed, &[PUBLISHED, "tmpfs: /datalog"], 2, &["/datalog in memory"]),
        (&twice, &[PUBLISHED], 2, &["there is no server 2"]),
        (&isolated, &[PUBLISHED], 2, &["at least 3 servers"]),
    ];
    for (scenario, lines, exit, words) in cases {
        let file = file_with(&bench, lines);
        let (code, said) = ended(&run(&bench, &docker, (&bench.scenario(scenario), &file), &[]));
        assert_eq!(code, Some(exit), "{lines:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{lines:?}: {said}");
    }
    // And an image from a missing registry is also reported
    docker.zookeeper = "localhost:1/no-such-image".into();
    let (code, said) = ended(&run(&bench, &docker, (&bench.scenario(SHORT), Path::new(ONE)), &[]));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("ZOOKEEPER_IMAGE=") && said.contains("scripts/base-image"), "{said}");
    let left = docker_names();
    assert!(!left.contains("odd"), "{left}");
}

#[test]
fn data_from_outside_the_run_is_refused_and_kept() {
    // Exclusive, because other tests would mistake the volume for a leftover.
    let Some(alone) = available_alone() else { return };
    let (bench, before) = (Bench::new(), unused_volumes());
    // Given a directory on this host and a volume with data
    let log = bench.path("zoo1/version-2/log.1");
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "").unwrap();
    let volume = format!("zklockbench-test-{}", std::process::id());
    docker(&["volume", "create", &volume]);
    let external = &*format!("volumes:\n  kept:\n    external: true\n    name: {volume}\n");
    let in_volume = "stores /datalog in the volume `zklockbench-test-";
    for (mount, rest, words) in [
        ("volumes: [\"./zoo1:/data\"]", "", "zoo1 on this host, and the run would change or wipe data there"),
        ("volumes: [\"kept:/datalog\"]", external, in_volume),
    ] {
        // When a Compose file mounts either
        let file = file_with(&bench, &[PUBLISHED, mount]);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text + rest).unwrap();
        // Then the run is refused before a server starts, and leaves no container behind
        let (code, said) = ended(&run(&bench, &alone, (&bench.scenario(SHORT), &file), &[]));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words) && said.contains("remove the mount"), "{said}");
        assert!(!said.contains("containers to start"), "{said}");
    }
    assert!(!docker_names().contains("odd"));
    // And the data is still there
    assert!(log.exists());
    docker(&["volume", "rm", &volume]);
    assert_no_volume_is_left(&before);
}

fn docker_names() -> String {
    docker(&["ps", "--all", "--format", "{{.Names}}"])
}

#[test]
#[ignore = "long: builds an image whose servers start slowly"]
fn suite_image_runs_the_quick_scenario_on_its_own_servers() {
    let Some(_docker) = available() else { return };
    // Given an image with the program under test
    let bench = Bench::new();
    let Some(image) = suite_image(&bench) else { return };
    let image = image.as_str();
    // When the image runs as its own non-root user and stores results in its own volume
    let user = docker(&["image", "inspect", "--format", "{{.Config.User}}", image]);
    assert!(!matches!(user.trim().split(':').next(), None | Some("" | "0" | "root")), "{user}");
    let container = format!("zklockbench-test-{}", std::process::id());
    let less =
        [&["--contenders", "4", "--duration", "1s", "--repetitions", "1"][..], &["--cold", "--no-charts"]]
            .concat();
    let run = ["run", "--name", &container, "--init", "--shm-size", "1g", "--env", "JDK_JAVA_OPTIONS", image];
    let quick = ["run", "scenarios/quick.toml", "--data-dir", "/dev/shm"];
    let output = Command::new("docker").args([&run[..], &quick, &less].concat()).output().unwrap();
    let results = bench.path("results").display().to_string();
    docker(&["cp", &format!("{container}:/zklockbench/results"), &results]);
    docker(&["rm", "--force", "--volumes", &container]);
    // Then the results exist. While other tests run, a slow generator may invalidate them.
    assert!(matches!(output.status.code(), Some(0 | 4)), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("predecessor-watch"), "{table}");
    assert_eq!(bench.stored().trials.len(), 4);
    docker(&["image", "rm", "--force", image]);
}

/// Builds the suite's image with the program under test. Returns `None` and skips the test if there is no base
/// image.
pub fn suite_image(bench: &Bench) -> Option<String> {
    let debian = debian()?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let context = bench.path("context");
    std::fs::create_dir_all(context.join("dist")).unwrap();
    std::fs::create_dir_all(context.join("scenarios")).unwrap();
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "scenarios/quick.toml"] {
        std::fs::copy(root.join(name), context.join(name)).unwrap();
    }
    std::fs::copy(env!("CARGO_BIN_EXE_zklockbench"), context.join("dist/zklockbench")).unwrap();
    let (dockerfile, context) = (root.join("docker/Dockerfile"), context.display().to_string());
    let base = format!("DEBIAN_IMAGE={debian}");
    let build = ["build", "--quiet", "--target", "prebuilt", "--build-arg", &base];
    let from = ["--file", dockerfile.to_str().unwrap(), &context];
    Some(docker(&[&build[..], &from].concat()).trim().to_owned())
}

/// Returns a local Debian image as the base, because builds must not use a registry.
fn debian() -> Option<String> {
    let made = docker(&["image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "zklockbench-debian"]);
    let official = docker(&["image", "ls", "--quiet", "debian:bookworm-slim"]);
    let official = (!official.trim().is_empty()).then(|| "debian:bookworm-slim".to_owned());
    let found =
        std::env::var("DEBIAN_IMAGE").ok().or_else(|| made.lines().next().map(str::to_owned)).or(official);
    if found.is_none() {
        skipped("no Debian image; create one with scripts/base-image");
    }
    found
}
