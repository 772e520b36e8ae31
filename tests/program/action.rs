//! The GitHub Action in `action.yml`, run step by step in an empty repository, with stand-ins for GitHub's own
//! actions and for commands that install software.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use yaml_rust2::{Yaml, YamlLoader};
use zklockbench::cli;

use crate::support::program::{executable, stderr, stdout};
use crate::support::run_dirs;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// One server, one strategy and two repetitions, which are too few for a comparison.
const SHORT: &str = "name = \"short\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 2\nhold = \"10ms\"\n\
                     duration = \"1s\"\nrepetitions = 2\n[ensemble]\nservers = 1\n";

/// A repository on a runner, with a cache shared by its jobs.
struct Repository {
    dir: tempfile::TempDir,
}

/// Outcome of a job.
#[derive(Debug, Default)]
struct Job {
    /// Exit code of each command that ran, by step name.
    codes: BTreeMap<String, i32>,
    outputs: BTreeMap<String, String>,
    uploaded: Vec<String>,
    log: String,
}

impl Job {
    fn failed(&self) -> bool {
        self.codes.values().any(|code| *code != 0)
    }
}

impl Repository {
    /// Creates an empty repository on a runner where `cargo install` installs this program.
    fn new(program: &str) -> Self {
        let new = Self { dir: tempfile::tempdir().unwrap() };
        for place in ["work", "cache", "stubs", "state"] {
            std::fs::create_dir(new.path(place)).unwrap();
        }
        let cargo = format!(
            "#!/bin/sh\ncase $1 in --version) echo cargo 1.999.0;; \
             install) while [ \"$1\" != --root ]; do shift; done; ln -sf '{program}' \"$2/bin/zklockbench\";; *) exit 9;; esac\n"
        );
        executable(&new.path("stubs/cargo"), cargo);
        assert!(new.git(&["init", "--quiet"]));
        new
    }

    fn git(&self, words: &[&str]) -> bool {
        let user = ["-c", "user.name=me", "-c", "user.email=me@localhost"];
        let status = Command::new("git").args(user).args(words).current_dir(self.path("work")).status();
        status.unwrap().success()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn push(&self, branch: &str, commit: &str, inputs: &[(&str, &str)]) -> Job {
        self.run("push", branch, commit, inputs)
    }

    /// Runs all steps of the action for an event on a branch, as a runner does.
    fn run(&self, event: &str, branch: &str, commit: &str, inputs: &[(&str, &str)]) -> Job {
        let text = std::fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap();
        let action = YamlLoader::load_from_str(&text).unwrap().swap_remove(0);
        let mut known: BTreeMap<String, String> = [
            ("runner.os", "Linux"),
            ("runner.arch", "X64"),
            ("github.sha", commit),
            ("github.ref_name", branch),
            ("github.event_name", event),
            // GitHub omits the repository from the event of a schedule.
            ("github.event.repository.default_branch", if event == "schedule" { "" } else { "main" }),
            ("steps.check.outputs.keeps", ""),
            ("github.action_repository", ""),
            ("github.action_ref", ""),
            ("github.token", "secret"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        for (name, input) in action["inputs"].as_hash().unwrap() {
            let value = filled(input["default"].as_str().unwrap(), &known);
            known.insert(format!("inputs.{}", name.as_str().unwrap()), value);
        }
        for (name, value) in inputs {
            let before = known.insert(format!("inputs.{name}"), (*value).into());
            assert!(before.is_some(), "action.yml has no input {name}");
        }
        for name in ["output", "path", "summary"] {
            std::fs::write(self.path(name), "").unwrap();
        }
        let mut job = Job::default();
        for step in action["runs"]["steps"].as_vec().unwrap() {
            if !applies(step["if"].as_str(), &known, job.failed()) {
                continue;
            }
            match step["uses"].as_str() {
                Some(uses) => self.stand_in(uses, &step["with"], &known, &mut job),
                None => self.execute(step, &known, &mut job),
            }
            for line in std::fs::read_to_string(self.path("output")).unwrap().lines() {
                let (name, value) = line.split_once('=').unwrap();
                let id = step["id"].as_str().unwrap_or_default();
                known.insert(format!("steps.{id}.outputs.{name}"), value.into());
                job.outputs.insert(name.into(), value.into());
            }
        }
        for output in action["outputs"].as_hash().unwrap().values() {
            let name = output["value"].as_str().unwrap().trim_start_matches("${{ steps.measure.outputs.");
            let name = name.trim_end_matches(" }}");
            let measured = job.codes.contains_key("Measure, compare, gate");
            assert!(
                !measured || job.outputs.contains_key(name),
                "no step sets the output {name}: {:?}",
                job.outputs
            );
        }
        job
    }

    fn execute(&self, step: &Yaml, known: &BTreeMap<String, String>, job: &mut Job) {
        let found = step["shell"].as_str();
        assert_eq!(found, Some("bash"), "each step of a composite action must specify its shell");
        let script = filled(step["run"].as_str().unwrap(), known);
        let more = std::fs::read_to_string(self.path("path")).unwrap();
        let mut path: Vec<&str> = more.lines().collect();
        let (stubs, machine) = (self.path("stubs"), std::env::var("PATH").unwrap());
        path.extend([stubs.to_str().unwrap(), &machine]);
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", &script]);
        command.current_dir(self.path("work")).env("PATH", path.join(":"));
        command.env("CARGO", self.path("stubs/cargo")).env("RUNNER_TEMP", self.path("temp dir"));
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_ACTION_PATH", ROOT);
        command.env("GITHUB_OUTPUT", self.path("output")).env("GITHUB_PATH", self.path("path"));
        command.env("GITHUB_STEP_SUMMARY", self.path("summary")).env("GITHUB_SHA", &known["github.sha"]);
        command.env("ZKLOCKBENCH_STATE_DIR", self.path("state")).env_remove("ZKLOCKBENCH_CONNECT");
        if let Some(variables) = step["env"].as_hash() {
            let value = |value: &Yaml| filled(value.as_str().unwrap(), known);
            command.envs(variables.iter().map(|(name, text)| (name.as_str().unwrap(), value(text))));
        }
        let output = command.output().unwrap();
        job.log += &format!("{}{}", stdout(&output), stderr(&output));
        job.codes.insert(step["name"].as_str().unwrap().into(), output.status.code().unwrap());
    }

    /// Replaces GitHub's own actions: the cache is a directory for each key.
    fn stand_in(&self, uses: &str, with: &Yaml, known: &BTreeMap<String, String>, job: &mut Job) {
        let value = |name: &str| filled(with[name].as_str().unwrap(), known);
        let copy = |from: PathBuf, to: PathBuf| {
            let copied = Command::new("cp").arg("-RT").args([from, to]).status();
            assert!(copied.unwrap().success(), "{uses}");
        };
        match uses.split('@').next().unwrap() {
            "actions/cache/restore" => {
                let keys = std::fs::read_dir(self.path("cache")).unwrap().map(|entry| entry.unwrap().path());
                let prefix = value("restore-keys");
                let matching =
                    keys.filter(|key| key.file_name().unwrap().to_str().unwrap().starts_with(prefix.trim()));
                if let Some(newest) = matching.max_by_key(|key| key.metadata().unwrap().created().unwrap()) {
                    copy(newest, self.path("work").join(value("path")));
                }
            }
            "actions/cache/save" => {
                copy(self.path("work").join(value("path")), self.path("cache").join(value("key")));
            }
            "actions/checkout" => {
                let (path, base) = (value("path"), value("ref"));
                let is_there = self.git(&["worktree", "add", "--quiet", "--force", "--detach", &path, &base]);
                job.codes.insert(uses.into(), i32::from(!is_there));
            }
            "actions/upload-artifact" => {
                let found = value("path");
                let found = found.lines().filter(|line| self.path("work").join(line).exists());
                job.uploaded.extend(found.map(str::to_owned));
            }
            other => panic!("no stand-in for {other}"),
        }
    }

    /// Empties the checkout for the next job.
    fn clean(&self) {
        for entry in std::fs::read_dir(self.path("work")).unwrap() {
            let path = entry.unwrap().path();
            let is_kept = path.ends_with(".git") || path.ends_with("short.toml");
            if path.is_dir() && !is_kept {
                std::fs::remove_dir_all(&path).unwrap();
            } else if !is_kept {
                std::fs::remove_file(&path).unwrap();
            }
        }
        std::fs::remove_dir_all(self.path("temp dir")).unwrap();
    }

    fn cached(&self) -> usize {
        std::fs::read_dir(self.path("cache")).unwrap().count()
    }
}

/// Replaces the expressions in `text` with their values.
fn filled(text: &str, known: &BTreeMap<String, String>) -> String {
    let mut parts = text.split("${{ ");
    let mut all = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" }}").unwrap();
        all += known.get(name).unwrap_or_else(|| panic!("unexpected expression {name}"));
        all += rest;
    }
    all
}

/// Returns whether a step runs. A step without a condition runs unless an earlier step failed.
fn applies(condition: Option<&str>, known: &BTreeMap<String, String>, failed: bool) -> bool {
    match condition {
        Some("always()") => true,
        _ if failed => false,
        None => true,
        Some(condition) => condition.split(" && ").all(|part| {
            let value = |text: &str| {
                text.strip_prefix('\'').map_or_else(|| known[text].clone(), |word| word.replace('\'', ""))
            };
            match (part.split_once(" == "), part.split_once(" != ")) {
                (Some((left, right)), _) => value(left) == value(right),
                (_, Some((left, right))) => value(left) != value(right),
                _ => panic!("{part} is not a comparison"),
            }
        }),
    }
}

#[test]
fn action_steps_pass_their_inputs_to_the_program() {
    // Given a program that records its command lines and exits with the specified codes
    let bench = tempfile::tempdir().unwrap();
    let [program, calls, code] = ["program", "calls", "code"].map(|name| bench.path().join(name));
    let text = format!(
        "#!/bin/bash\nprintf '%s\\0' zklockbench \"$@\" $'\\n' >>{}\ncase $1 in\n\
         run) mkdir -p results/bench; echo page >results/bench/report.html; touch bench.junit.xml; exit \"$(<{})\";;\n\
         baseline) [ \"$2\" != add ] || mkdir -p \"$4/run-$RANDOM\";;\nesac\n",
        calls.display(),
        code.display()
    );
    executable(&program, text);
    let repository = Repository::new(program.to_str().unwrap());
    let gates = "wait.p99 of 'my lock' < 50ms\n\nviolations == 0\n";
    let inputs = [
        ("name", "bench"),
        ("gates", gates),
        ("options", "--contenders 5 --set 'hold=10ms' --repetitions 3"),
        ("driver", "mine=./driver 'a b'"),
    ];
    let push = |branch, commit, exit: &str, more: &[(&str, &str)]| {
        std::fs::write(&code, exit).unwrap();
        let job = repository.push(branch, commit, &[&inputs, more].concat());
        repository.clean();
        job
    };
    // When the default branch is measured, its run becomes a baseline
    let first = push("main", "c1", "0", &[]);
    assert!(!first.failed() && repository.cached() == 1, "{first:?}");
    assert_eq!(first.outputs["results"], "results/bench");
    assert_eq!(first.uploaded, ["results/bench", "bench.junit.xml"]);
    // And the program accepts each command
    let called = std::fs::read_to_string(&calls).unwrap();
    let called: Vec<Vec<&str>> =
        called.split("\n\0").map(|call| call.split_terminator('\0').collect()).collect();
    let called: Vec<_> = called.into_iter().filter(|words| words.len() > 2).collect();
    assert_eq!(called.len(), 3, "{called:?}");
    for words in &called {
        cli::definition().try_get_matches_from(words).unwrap_or_else(|wrong| panic!("{words:?}: {wrong}"));
    }
    let run = &called[0];
    for word in [
        "quick",
        "hold=10ms",
        "--gate=wait.p99 of 'my lock' < 50ms",
        "--gate=violations == 0",
        "mine=./driver 'a b'",
    ] {
        assert!(run.contains(&word), "{word} is missing from {run:?}");
    }
    // Other branches store no baseline. A failed run is uploaded for inspection, but does not become a baseline
    assert!(!push("feature", "c2", "0", &[]).failed());
    let failed = push("main", "c3", "1", &[]);
    assert!(failed.failed() && failed.uploaded.len() == 2, "{failed:?}");
    assert_eq!((failed.outputs["exit-code"].as_str(), repository.cached()), ("1", 1));
    // A scheduled run is on the default branch; a run for a pull request may not be, although its event names it
    std::fs::write(&code, "0").unwrap();
    for event in ["schedule", "pull_request_target", "pull_request"] {
        assert!(!repository.run(event, "main", event, &inputs).failed(), "{event}");
        repository.clean();
        assert_eq!(repository.cached(), 2, "{event}");
    }
    // An inconclusive result fails the job unless an input allows it
    assert!(push("feature", "c4", "4", &[]).failed());
    let undecided = push("feature", "c5", "4", &[("undecided", "pass")]);
    assert!(!undecided.failed() && undecided.log.contains("::warning title=zklockbench::"), "{undecided:?}");
    // Options with an unclosed quote are rejected instead of truncated
    let cut = push("feature", "c6", "0", &[("options", "--contenders 5 'hold")]);
    assert!(cut.failed() && cut.log.contains("an unclosed quote"), "{cut:?}");
}

#[test]
fn action_compares_the_driver_in_the_head_with_the_driver_in_the_base() {
    // Given a program that starts both drivers, and writes an outcome unless it cannot compare
    let bench = tempfile::tempdir().unwrap();
    let [program, calls, code] = ["program", "calls", "code"].map(|name| bench.path().join(name));
    let text = format!(
        "#!/bin/bash\n[ \"$1\" = ab ] || exit 0\nprintf '%s\\0' zklockbench \"$@\" >{}\ncode=$(<{})\n\
         while [ $# -gt 0 ]; do case $1 in --?-driver) eval \"${{2#*=}}\";; --markdown) page=$2;; esac; shift; done\n\
         [ $code = 3 ] || echo '### Outcome: 5% slower' >\"$page\"\nexit $code\n",
        calls.display(),
        code.display()
    );
    executable(&program, text);
    // And a branch `base` with an older driver
    let repository = Repository::new(program.to_str().unwrap());
    let driver = repository.path("work/driver");
    executable(&driver, "#!/bin/sh\necho \"base: $1 in $(pwd)\"\n");
    let commit = ["commit", "--quiet", "--message", "old"];
    assert!(repository.git(&["add", "driver"]) && repository.git(&commit));
    assert!(repository.git(&["branch", "base"]));
    executable(&driver, "#!/bin/sh\necho \"head: $1\"\n");
    let push = |exit: &str, more: &[(&str, &str)]| {
        std::fs::write(&code, exit).unwrap();
        let _ = std::fs::remove_file(&calls);
        let inputs = [("name", "my bench"), ("driver", "mine=./driver 'a b'"), ("base", "base")];
        let job = repository.push("main", "c1", &[&inputs, more].concat());
        (job, std::fs::read_to_string(repository.path("summary")).unwrap())
    };
    // Then each driver starts in its own checkout, and the base is outside the head
    let (job, summary) = push("0", &[("options", "--blocks 10")]);
    assert!(!job.failed() && summary == "### Outcome: 5% slower\n", "{job:?}");
    let base = repository.path("temp dir/zklockbench-base").canonicalize().unwrap();
    let started = format!("base: a b in {}\n", base.display());
    assert!(job.log.contains("head: a b\n") && job.log.contains(&started), "{}", job.log);
    assert!(!job.log.contains("::error"), "{}", job.log);
    assert_eq!(job.uploaded, ["results/my bench"]);
    let called = std::fs::read_to_string(&calls).unwrap();
    let words: Vec<&str> = called.split_terminator('\0').collect();
    cli::definition().try_get_matches_from(&words).unwrap_or_else(|wrong| panic!("{words:?}: {wrong}"));
    assert!(words.contains(&"--blocks"), "{words:?}");
    // A regression fails the job, and so does an inconclusive result unless an input allows it
    for (exit, undecided, fails) in [("1", "pass", true), ("4", "fail", true), ("4", "pass", false)] {
        let (job, _) = push(exit, &[("undecided", undecided)]);
        assert_eq!((job.failed(), job.outputs["exit-code"].as_str()), (fails, exit), "{job:?}");
        let is_told = job.log.contains("::error title=zklockbench::Outcome: 5%25 slower\n");
        assert_eq!(is_told, fails, "{}", job.log);
    }
    // A comparison that cannot run does not show an earlier outcome
    let (job, summary) = push("3", &[]);
    assert!(job.failed() && summary.is_empty(), "{job:?}");
    // A base that was deleted, and inputs that contradict each other, fail the job before anything is built
    for more in [("base", "deleted"), ("driver", ""), ("gates", "violations == 0"), ("name", "a/b")] {
        let (job, _) = push("0", &[more]);
        assert!(job.failed() && !calls.exists(), "{more:?}: {job:?}");
        assert!(
            !job.codes.contains_key("Install zklockbench, Java and ZooKeeper's jars"),
            "{more:?}: {job:?}"
        );
    }
    // And comparisons leave the baselines alone
    assert_eq!(repository.cached(), 0);
}

#[test]
fn action_installs_a_release_without_building_and_rejects_a_modified_download() {
    let repository = Repository::new("/nonexistent");
    // Given a release whose program prints its version, and a cargo that fails
    executable(&repository.path("stubs/cargo"), "#!/bin/sh\nexit 9\n");
    let gh = "#!/bin/bash\nset -e\nwhile [ \"$1\" != --dir ]; do shift; done\ncd \"$2\"\nmkdir release\n\
              printf '#!/bin/sh\\necho released\\n' >release/zklockbench; chmod +x release/zklockbench\n\
              name=zklockbench-1.2.3-$(uname -m)-linux.tar.gz\ntar -czf $name release\n\
              sha256sum $name >SHA256SUMS\n";
    executable(&repository.path("stubs/gh"), gh);
    let installed = |job: &Job| job.codes["Install zklockbench, Java and ZooKeeper's jars"];
    let job = repository.push("feature", "c1", &[("version", "v1.2.3")]);
    assert!(installed(&job) == 0 && job.log.contains("released"), "{job:?}");
    repository.clean();
    // And a download that does not match its digest is rejected
    executable(&repository.path("stubs/gh"), format!("{gh}echo more >>$name\n"));
    let job = repository.push("feature", "c2", &[("version", "v1.2.3")]);
    assert!(installed(&job) != 0 && !job.log.contains("released"), "{job:?}");
}

#[test]
#[ignore = "long: four runs of the action"]
fn action_gates_runs_against_a_baseline_from_the_same_processor() {
    let repository = Repository::new(env!("CARGO_BIN_EXE_zklockbench"));
    std::fs::write(repository.path("work/short.toml"), SHORT).unwrap();
    let inputs =
        [("name", "bench"), ("scenario", "short.toml"), ("options", "--no-charts"), ("undecided", "pass")];
    let push = |commit, more: &[(&str, &str)]| {
        let job = repository.push("main", commit, &[&inputs, more].concat());
        let summary = std::fs::read_to_string(repository.path("summary")).unwrap();
        assert!(summary.contains("zklockbench: short"), "{summary}\n{}", job.log);
        assert!(job.uploaded.contains(&"results/bench".into()), "{job:?}");
        job
    };
    // With an empty cache, the first run becomes the baseline
    let first = push("c1", &[]);
    assert!(!first.failed() && repository.cached() == 1, "{}", first.log);
    repository.clean();
    // Then the next run is compared with the baseline and passes
    let second = push("c2", &[]);
    assert!(!second.failed() && repository.cached() == 2, "{}", second.log);
    assert!(!second.log.contains("no baseline"), "{}", second.log);
    repository.clean();
    // A run with an impossible gate fails and does not become a baseline, unless this machine is too busy to
    // measure anything
    let third = push("c3", &[("gates", "throughput > 1000000/s")]);
    if third.outputs["exit-code"] != "4" {
        assert_eq!((third.failed(), third.outputs["exit-code"].as_str()), (true, "1"), "{}", third.log);
        assert_eq!(repository.cached(), 2);
    }
    repository.clean();
    // And if all baselines are from another processor, the run continues with a warning
    for entry in walkdir::WalkDir::new(repository.path("cache")).into_iter().map(Result::unwrap) {
        if entry.file_name() == "run.json" {
            let processor = |run: &mut serde_json::Value| run["host"]["cpu"] = "Another processor".into();
            run_dirs::change(entry.path().parent().unwrap(), processor);
        }
    }
    let fourth = push("c4", &[]);
    assert!(!fourth.failed(), "{}", fourth.log);
    assert!(fourth.log.contains("warning: no baseline to compare with (processors: "), "{}", fourth.log);
}
