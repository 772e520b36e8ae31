//! Locks of the repository's drivers other than Curator's and kazoo's own locks: baton in Java, Redis and etcd.

use std::path::Path;
use std::process::{Command, Output};

use zklockbench_record::Trial;

use crate::support::program::{Bench, held_unless_the_host_was_busy, stderr, stdout, went_through};
use crate::support::{foreign, skip};

const REDIS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/redis");
const ETCD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/etcd");

/// Returns whether this machine has these programs, and Debian's Python has the module to access them.
fn has(programs: &[&str], python: &str) -> bool {
    let there = |program: &&str| Path::new("/usr/bin").join(program).exists();
    let can_import = || {
        Command::new("/usr/bin/python3").args(["-c", python]).output().is_ok_and(|told| told.status.success())
    };
    let all = programs.iter().all(there) && can_import();
    if !all {
        skip::skipped(format!(
            "this machine lacks one of {programs:?}, or `{python}` fails in Debian's Python"
        ));
    }
    all
}

/// Servers started by a driver's script, which also stops them.
struct Servers {
    script: String,
    directory: tempfile::TempDir,
    port: (&'static str, &'static str),
    addresses: String,
}

impl Servers {
    fn up(script: String, port: (&'static str, &'static str)) -> Self {
        let mut servers =
            Self { script, directory: tempfile::tempdir().unwrap(), port, addresses: String::new() };
        let up = servers.told("up");
        assert!(up.status.success(), "{}", stderr(&up));
        servers.addresses = stdout(&up).trim().to_owned();
        servers
    }

    fn told(&self, what: &str) -> Output {
        let mut command = Command::new(&self.script);
        command.arg(what).arg(self.directory.path()).env(self.port.0, self.port.1);
        command.output().unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.told("down");
    }
}

#[test]
#[ignore = "long: servers of three systems"]
fn java_baton_and_count_recover_from_lost_replies_without_violations() {
    let bench = Bench::new();
    let Some(curator) = foreign::curator(&bench.path("cache")) else { return };
    let lock = |name: &str| format!("{{ driver = \"curator\", lock = \"{name}\", retry_sleep = \"100ms\" }}");
    let fault = |kind: &str, request: &str, at: u32| {
        format!(
            "[[fault]]\nkind = \"{kind}\"\nrequest = \"{request}\"\ntarget = \"any\"\nat = \"{at}s\"\ntimes = 2\nevery = \"1s\"\n"
        )
    };
    let scenario = format!(
        "name = \"lost\"\nstrategies = [{}, {}]\ncontenders = 5\nhold = \"3ms\"\nduration = \"9s\"\nwarm_up = \"0s\"\n\
         repetitions = 1\nsession_timeout = \"6s\"\n[ensemble]\nservers = 1\n{}{}{}",
        lock("Baton"),
        lock("Count"),
        fault("drop-reply", "create", 1),
        fault("drop-reply", "release", 3),
        fault("drop-request", "release", 5),
    );
    let output = bench.run_with(&[&curator], &scenario, &[]);
    let trials = bench.stored().trials;
    for trial in &trials {
        let strategy = &trial.spec.strategy.label;
        // An abandoned acquire or release would be an error, and a leftover node would block later contenders.
        assert!(trial.measured.acquired() > 50, "{strategy}: {}", stderr(&output));
        assert!(trial.errors.is_empty() && !trial.is_violated(), "{strategy}: {:?}", trial.errors);
    }
    assert_eq!(trials.len(), 2);
    held_unless_the_host_was_busy(&output, &trials);
}

#[test]
#[ignore = "long: Java's semaphore"]
fn curator_semaphore_and_multi_lock_ensure_exclusion_through_a_driver() {
    let bench = Bench::new();
    let Some(curator) = foreign::curator(&bench.path("cache")) else { return };
    let scenario = "name = \"leases\"\nstrategies = [{ driver = \"curator\", lock = \"InterProcessSemaphoreV2\", leases = 2 }, \
         { driver = \"curator\", lock = \"InterProcessMultiLock\", members = 2 }]\ncontenders = 5\nhold = \"20ms\"\n\
         duration = \"3s\"\nwarm_up = \"100ms\"\nrepetitions = 1\n[ensemble]\nservers = 1\n";
    let output = bench.run_with(&[&curator], scenario, &[]);
    went_through(&output);
    let trials = bench.stored().trials;
    assert_eq!(trials.len(), 2);
    let sound =
        |trial: &Trial| trial.measured.acquired() > 10 && trial.errors.is_empty() && !trial.is_violated();
    assert!(trials.iter().all(sound), "{}", stderr(&output));
}

#[test]
#[ignore = "long: servers of three systems"]
fn redis_lock_violates_exclusion_when_the_primary_dies_before_replication() {
    if !has(&["redis-server", "redis-cli"], "import redis") {
        return;
    }
    let bench = Bench::new();
    let mut command = Command::new(format!("{REDIS}/primary-dies"));
    command.args(["SetNx", "--data-dir", "data"]).current_dir(bench.dir.path()).env("REDIS_PORT", "6440");
    command
        .env("ZKLOCKBENCH", env!("CARGO_BIN_EXE_zklockbench"))
        .env("ZKLOCKBENCH_COLD", "1")
        .env("ZKLOCKBENCH_NO_CHARTS", "1");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(bench.stored().trials[0].is_violated());
}

#[test]
#[ignore = "long: servers of three systems"]
fn redis_and_etcd_locks_are_measured_alongside_zookeeper_locks() {
    if !has(&["redis-server", "redis-cli", "etcd", "curl"], "import redis") {
        return;
    }
    let bench = Bench::new();
    let redis = Servers::up(format!("{REDIS}/server"), ("REDIS_PORT", "6450"));
    let etcd = Servers::up(format!("{ETCD}/server"), ("ETCD_PORT", "6550"));
    let scenario = "name = \"others\"\nstrategies = [\"redis:SetNx\", \"redis:SetNxLocalFirst\", \"redis:SetNxWait\", \"etcd:Mutex\", \
         \"baton\"]\ncontenders = 4\nhold = \"5ms\"\nduration = \"2s\"\nwarm_up = \"100ms\"\nacquire_timeout = \"1s\"\n\
         repetitions = 1\n[ensemble]\nservers = 1\n";
    let drivers =
        [format!("redis='{REDIS}/run' {}", redis.addresses), format!("etcd='{ETCD}/run' {}", etcd.addresses)];
    let output = bench.run_with(&drivers.each_ref().map(String::as_str), scenario, &[]);
    let trials = bench.stored().trials;
    for trial in &trials {
        let strategy = &trial.spec.strategy.label;
        assert!(trial.measured.acquired() > 10, "{strategy}: {}", stderr(&output));
        assert!(trial.errors.is_empty() && !trial.is_violated(), "{strategy}: {:?}", trial.errors);
    }
    assert_eq!(trials.len(), 5, "{}", stderr(&output));
}

#[test]
#[ignore = "long: servers of three systems"]
fn etcd_waiter_notices_its_lost_lease_only_when_the_holder_releases() {
    if !has(&["etcd", "curl"], "import http.client") {
        return;
    }
    let etcd = Servers::up(format!("{ETCD}/server"), ("ETCD_PORT", "6570"));
    let address = etcd.addresses.split(' ').next().unwrap();
    let output = Command::new(format!("{ETCD}/waiter-loses-lease")).arg(address).output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
}
