//! CI outputs of a run, both during the run and at its end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::ensemble::free_ports;
use crate::support::foreign::Bounded;
use crate::support::program::{self, Answers, Bench, eventually, has, stderr};
use crate::support::{records, run_dirs, skip::skipped};

const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nhold = \"100ms\"\n\
                     duration = \"3s\"\nrepetitions = 1\n[ensemble]\nservers = 1\n";

/// Returns the response at this address; `None` if nothing is listening there.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Starts a server on a free port. Returns the server and its address after it responds to this path; `None`, and
/// skips the test, if the program is not installed.
fn served(bench: &Bench, program: &str, options: &[&str], path: &str) -> Option<(Bounded, String)> {
    let address = format!("127.0.0.1:{}", free_ports(1)[0]);
    let mut command = Command::new(program);
    command.args(options).arg(format!("--web.listen-address={address}"));
    let Ok(server) = command.current_dir(bench.dir.path()).stderr(Stdio::null()).spawn().map(Bounded) else {
        skipped(format!("no {program} (Debian: {program})"));
        return None;
    };
    eventually(program, Duration::from_secs(60), || {
        get(&address, path).is_some_and(|answer| answer.starts_with("HTTP/1.1 200 "))
    });
    Some((server, address))
}

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results/example");

/// Returns the value of the first sample whose line starts with this name.
fn sample(answer: &str, name: &str) -> Option<f64> {
    answer.lines().find(|line| line.starts_with(name))?.rsplit_once(' ')?.1.parse().ok()
}

#[test]
fn run_serves_live_metrics_and_writes_ci_outputs_at_the_end() {
    // Given any free port, and a summary that an earlier step has started
    let bench = Bench::with(SHORT);
    std::fs::write(bench.path("summary.md"), "before\n").unwrap();
    let mut command = bench.typed(
        "run scenario.toml --data-dir data --metrics 127.0.0.1:0 --github --junit junit.xml --openmetrics metrics.txt \
         --bencher bencher.json --benchmark-action figures --gate 'throughput > 1000000/s'",
    );
    command.env("GITHUB_STEP_SUMMARY", bench.path("summary.md"));
    let run = bench.listen(command);
    eventually("the address is printed", Duration::from_secs(60), || {
        run.says_after("metrics at http://").is_some()
    });
    let address = run.says_after("metrics at http://").unwrap().replace("/metrics", "");
    // When a client requests metrics during the measurement
    let acquired = || sample(&get(&address, "/metrics")?, "zklockbench_acquisitions_total{");
    eventually("acquisitions are reported", Duration::from_secs(60), || {
        acquired().is_some_and(|count| count > 0.0)
    });
    let first = acquired().unwrap();
    assert!(get(&address, "/").unwrap().starts_with("HTTP/1.1 404 "));
    eventually("more acquisitions are reported", Duration::from_secs(10), || {
        acquired().is_some_and(|count| count > first)
    });
    let (code, said) = run.end();
    // Then an impossible gate fails the run, and every output reports the failure. (On a machine that is too busy
    // to measure, the gate is reported as unknown.)
    let (word, junit) = match code {
        Some(1) => ("failed", "failures=\"1\" errors=\"0\""),
        Some(4) => ("no evidence", "failures=\"0\" errors=\"3\""),
        other => panic!("{other:?}: {said}"),
    };
    assert!(said.contains(&format!("metrics at http://{address}/metrics")), "{said}");
    assert!(said.contains(&format!("::error title=gate {word}%3A throughput > ")), "{said}");
    has(&bench.text("junit.xml"), &[junit]);
    let summary = bench.text("summary.md");
    assert!(summary.starts_with("before\n### "), "{summary}");
    assert!(summary.contains("\n\n**zklockbench: short: ") && summary.contains(word), "{summary}");
    assert!(bench.text("metrics.txt").ends_with("# EOF\n"));
    for name in ["bencher.json", "figures/bigger-is-better.json", "figures/smaller-is-better.json"] {
        assert!(serde_json::from_str::<Value>(&bench.text(name)).is_ok(), "{name}");
    }
    // And `export` writes the same files, including the gates
    bench.shows(&format!("export {} --junit again.xml", bench.results()[0].display()));
    let without_place = |name| {
        let text = bench.text(name);
        text.lines().filter(|line| !line.contains("\"results\"")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_place("again.xml"), without_place("junit.xml"));
}

#[test]
#[ignore = "long: needs prometheus-pushgateway"]
fn pushgateway_accepts_the_metrics_of_a_run() {
    // Given Debian's Pushgateway on a free port and the metrics of the example run
    let bench = Bench::new();
    let Some((gateway, address)) = served(&bench, "prometheus-pushgateway", &[], "/metrics") else { return };
    bench.shows(&format!("export '{EXAMPLE}' --openmetrics metrics.txt"));
    let metrics = bench.text("metrics.txt");
    // When the metrics are pushed as in a pipeline
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!(
        "PUT /metrics/job/zklockbench HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        metrics.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(metrics.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let shown = get(&address, "/metrics");
    drop(gateway);
    // Then Pushgateway accepts the metrics and exposes them to Prometheus
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(sample(&shown.unwrap(), "zklockbench_run_info{").is_some_and(|value| value == 1.0));
}

#[test]
#[ignore = "long: needs prometheus-node-exporter"]
fn node_exporter_exposes_the_metrics_of_a_run() {
    // Given the metrics of the example run in the directory that Debian's node_exporter reads
    let bench = Bench::new();
    bench.shows(&format!("export '{EXAMPLE}' --openmetrics zklockbench.prom"));
    let textfile = format!("--collector.textfile.directory={}", bench.dir.path().display());
    let options = ["--collector.disable-defaults", "--collector.textfile", &textfile];
    let started = served(&bench, "prometheus-node-exporter", &options, "/metrics");
    let Some((exporter, address)) = started else { return };
    let shown = get(&address, "/metrics").unwrap();
    drop(exporter);
    // Then node_exporter reads and exposes all metrics
    assert_eq!(sample(&shown, "node_textfile_scrape_error "), Some(0.0), "{shown}");
    assert!(sample(&shown, "zklockbench_acquisitions_total{").is_some_and(|count| count > 0.0), "{shown}");
}

#[test]
#[ignore = "long: needs prometheus"]
fn prometheus_stores_the_metrics_that_a_run_pushes() {
    let bench = Bench::with(SHORT);
    std::fs::write(bench.path("prometheus.yml"), "").unwrap();
    let options =
        ["--config.file=prometheus.yml", "--storage.tsdb.path=tsdb", "--web.enable-remote-write-receiver"];
    let Some((prometheus, address)) = served(&bench, "prometheus", &options, "/-/ready") else { return };
    // When a run pushes its metrics to Prometheus and also writes them to a file
    let push = format!("--metrics-push http://{address}/api/v1/write");
    let run = format!("run scenario.toml --data-dir data --openmetrics metrics.txt {push}");
    let run = bench.typed(&run).output().unwrap();
    let written =
        std::fs::read_to_string(bench.path("metrics.txt")).unwrap_or_else(|_| panic!("{}", stderr(&run)));
    assert!(!stderr(&run).contains("cannot push"), "{}", stderr(&run));
    // Then Prometheus returns each sample in the file
    let query =
        ["query", "-o", "json", "instant", &format!("http://{address}"), "{__name__=~\"zklockbench_.*\"}"];
    let answer = Command::new("promtool").args(query).output().unwrap();
    drop(prometheus);
    let found = program::json(&answer);
    let found = found.as_array().unwrap();
    let samples: Vec<&str> = written.lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(found.len(), samples.len(), "{found:?}\n{written}");
    let value_of = |name: &str| {
        let one = found.iter().find(|one| one["metric"]["__name__"] == name)?;
        one["value"][1].as_str()?.parse::<f64>().ok()
    };
    for name in ["zklockbench_run_info", "zklockbench_acquisitions_total", "zklockbench_run_duration_seconds"]
    {
        assert_eq!(value_of(name), sample(&written, &format!("{name}{{")), "{name}: {found:?}\n{written}");
    }
    // And it is an error if the receiver rejects the metrics
    let (_, said) = bench.ends(3, &format!("export '{EXAMPLE}' {push}"));
    assert!(said.contains("cannot push metrics to http://") && said.contains("refused"), "{said}");
}

#[test]
fn run_with_a_used_port_or_unwritable_output_fails_before_starting_anything() {
    let bench = Bench::with(SHORT);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = "http://127.0.0.1:1/write";
    for (options, code, why) in [
        (["--metrics", &*address], 3, "cannot serve /metrics on 127.0.0.1:"),
        (["--metrics-push", refused], 3, &*format!("cannot push metrics to {refused}: ")),
        (["--metrics-push", "https://host/write"], 2, "only http:// is supported"),
        (["--metrics", "nowhere"], 2, "`nowhere` is not an address with a port"),
        (["--junit", "no/such/junit.xml"], 3, "cannot write no/such/junit.xml"),
        (["--github", "--quiet"], 2, "GITHUB_STEP_SUMMARY"),
    ] {
        let mut command = bench.command(&[&["run", "scenario.toml"], options.as_slice()].concat());
        let output = command.env_remove("GITHUB_STEP_SUMMARY").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{options:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{options:?}: {}", stderr(&output));
        assert!(bench.results().is_empty() && !bench.path("results").exists(), "{options:?}");
    }
}

#[test]
fn run_that_cannot_start_replaces_a_passing_junit_report() {
    let bench = Bench::with(SHORT);
    std::fs::write(bench.path("junit.xml"), "<testsuites errors=\"0\"/>").unwrap();
    let told = bench.json(3, "run scenario.toml --zookeeper-home nowhere --junit junit.xml --json");
    has(&bench.text("junit.xml"), &["errors=\"1\"", "nowhere"]);
    assert_eq!((&told["command"], &told["error"]["kind"]), (&"run".into(), &"environment".into()));
}

#[test]
fn every_command_has_the_same_json_envelope_for_results_and_errors() {
    let bench = Bench::new();
    let answers = Answers::of(&bench);
    for wrong in [
        json!({ "schema_version": 1, "command": "run", "exit_code": 0, "error": null }),
        json!({ "schema_version": 1, "command": "faults", "exit_code": 0, "error": null, "faults": 3 }),
        json!({ "command": "man" }),
    ] {
        assert_ne!(answers.complaints(&wrong), Vec::<String>::new(), "{wrong}");
    }
    bench.scenario(SHORT);
    let run = run_dirs::publish(bench.dir.path(), &[records::trial(0)]);
    let run = run.to_str().unwrap();
    for (words, command, code, field) in [
        (&["strategies"][..], "strategies", 0, "strategies"),
        (&["strategies", "nothing"], "strategies", 2, ""),
        (&["faults"], "faults", 0, "faults"),
        (&["validate", "scenario.toml"], "validate", 0, "trials"),
        (&["validate", "nowhere.toml"], "validate", 2, ""),
        (&["validate", "scenario.toml", "--contenders", "0"], "validate", 2, ""),
        (&["run", "nowhere.toml"], "run", 2, ""),
        (&["run", "--nonsense"], "run", 2, ""),
        (&["calibrate", "--servers", "4"], "calibrate", 2, ""),
        (&["check", run], "check", 0, "trials"),
        (&["check", "nowhere"], "check", 2, ""),
        (&["export", run, "--junit", "junit.xml"], "export", 0, "written"),
        (&["export", run], "export", 2, ""),
        (&["export", "nowhere", "--junit", "junit.xml"], "export", 2, ""),
        (&["baseline", "list", "nowhere"], "baseline list", 2, ""),
        (&["baseline", "add", run, "store", "--commit", "abc"], "baseline add", 0, "commit"),
        (&["baseline", "list", "store"], "baseline list", 0, "baselines"),
        (&["baseline", "check", "store"], "baseline check", 4, "comparisons"),
        (&["baseline", "check", "store", "--reference", "def"], "baseline check", 2, ""),
        (&["compare", run, run, "--force"], "compare", 4, "comparison"),
        (&["compare", run, "nowhere"], "compare", 2, ""),
        (&["compare", run], "compare", 2, ""),
        (&["compare", run, "--power", "5%"], "compare", 0, "power"),
        (&["compare", run, "--power", "0%"], "compare", 2, ""),
        (&["ensemble", "status"], "ensemble status", 3, "up"),
        (&["ensemble", "down"], "ensemble down", 0, "ended"),
        (&["clean", "--connect", "127.0.0.1:1"], "clean", 3, ""),
    ] {
        let output = bench.output(&[words, &["--json"]].concat());
        let told: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|wrong| panic!("{words:?}: {wrong}: {}", stderr(&output)));
        assert_eq!(answers.complaints(&told), Vec::<String>::new(), "{words:?}");
        let shape = (&told["schema_version"], told["command"].as_str(), told["exit_code"].as_i64());
        assert_eq!(shape, (&1.into(), Some(command), Some(code)), "{words:?}: {told}");
        assert_eq!(output.status.code().map(i64::from), Some(code), "{words:?}");
        if field.is_empty() {
            let message = told["error"]["message"].as_str().unwrap();
            let first = message.lines().next().unwrap();
            assert!(stderr(&output).contains(first.trim_start_matches("error: ")), "{words:?}: {told}");
        } else {
            assert_eq!(told["error"], Value::Null, "{words:?}");
            assert!(!told[field].is_null(), "{words:?}: {told}");
        }
    }
    assert!(bench.path("junit.xml").exists());
}

#[test]
fn baseline_check_fails_when_the_newest_run_regressed() {
    let bench = Bench::new();
    let add_of = |scenario: &str, minutes: u64, times: f64, commit: &str| {
        let noise = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 0.985, 1.008].into_iter().enumerate();
        let trials: Vec<_> =
            noise.map(|(index, noise)| records::trial_taking(index, times * noise)).collect();
        let mut run = records::run(trials.len());
        run.started_at += Duration::from_secs(60 * minutes);
        run.scenario = scenario.into();
        let run = run_dirs::publish_run(bench.dir.path(), run, &trials);
        bench.shows(&format!("baseline add '{}' --commit {commit}", run.display()));
    };
    let add = |minutes, times, commit: &str| add_of("quick", minutes, times, commit);
    add(0, 1.0, "first");
    assert!(bench.ends(4, "baseline check").0.contains("no earlier run of `quick`"));
    add(1, 1.5, "slow");
    assert_eq!(bench.ends(1, "baseline check --all").0.matches("Base: ").count(), 1);
    // The newest run is as slow as the previous run, but still slower than the oldest run, which is the reference
    add(2, 1.5, "as-slow");
    let shown = bench.ends(1, "baseline check --all").0;
    assert!(shown.starts_with("Regressed") && shown.matches("Base: ").count() == 2, "{shown}");
    bench.ends(0, "baseline check --reference slow");
    add(3, 1.0, "mended");
    bench.ends(0, "baseline check");
    assert!(bench.refuses("baseline check --reference nothing").contains("earlier run, commit or directory"));
    // A pipeline that switches to another scenario keeps its store
    add_of("other", 4, 1.0, "switched");
    assert!(bench.ends(4, "baseline check").0.contains("no earlier run of `other`"));
    bench.ends(0, "baseline check --scenario quick");
    assert!(bench.refuses("baseline check --scenario third").contains("only of other, quick"));
}
