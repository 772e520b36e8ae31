//! Locks of other programs as contenders: Python's kazoo itself, the whole driver that the documentation shows, and one that lies.

use std::path::Path;
use std::process::Command;

use zklockbench::record::Trial;

use crate::support::foreign;
use crate::support::program::{Bench, stderr};
use crate::support::skip;

const KAZOO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/kazoo/run");
const CURATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/curator/run");
const ONE_SERVER: &str = "contenders = 5\nhold = \"3ms\"\nduration = \"2s\"\nwarm_up = \"100ms\"\nrepetitions = 1\n\
                          [ensemble]\nservers = 1\n";

/// A driver that grants whatever it is asked for.
const LIAR: &str = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["t"] == "hello":
        told = {"t": "ready", "v": 1, "driver": "liar", "locks": {"Lock": {"timeout": "none", "cancel": "none"}}}
    else:
        told = {"id": asked["id"], "ok": {"session": hex(asked.get("c", 0) + 1)}}
    print(json.dumps(told), flush=True)
"#;

/// The driver that drivers/README.md shows.
fn documented() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/README.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, program) = page.split_once("```python\n").unwrap();
    program.split("```\n").next().unwrap().to_owned()
}

fn trial_of<'a>(trials: &'a [Trial], strategy: &str) -> &'a Trial {
    trials.iter().find(|trial| trial.spec.strategy.label == strategy).unwrap()
}

#[test]
fn a_drivers_lock_is_measured_beside_our_own_and_what_is_not_known_of_it_is_not_zero() {
    let Some(python) = foreign::python() else { return };
    let bench = Bench::new();
    let scenario = bench.scenario(&format!(
        "name = \"driven\"\nstrategies = [{{ driver = \"kazoo\", lock = \"Lock\" }}, \"my:MyLock\", \"kazoo\"]\n{ONE_SERVER}"
    ));
    std::fs::write(bench.path("my-lock.py"), documented()).unwrap();
    let (kazoo, my) = (format!("kazoo={python} '{KAZOO}'"), format!("my={python} my-lock.py"));
    let output = bench.output(&[
        "run",
        scenario.to_str().unwrap(),
        "--driver",
        &kazoo,
        "--driver",
        &my,
        "--data-dir",
        "data",
        "--no-floor",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let trials = bench.stored().trials;
    for strategy in ["kazoo:Lock", "my:MyLock"] {
        let trial = trial_of(&trials, strategy);
        assert!(trial.measured.acquired() > 10 && trial.errors.is_empty(), "{strategy}: {:?}", trial.errors);
        let derived = serde_json::to_value(trial.derived()).unwrap();
        for figure in ["requests_per_acquisition", "notifications_per_acquisition", "fan_out"] {
            assert!(derived[figure].is_null(), "{strategy}: {figure}");
        }
        assert!(trial.accounting.is_empty());
    }
    assert_eq!(trial_of(&trials, "kazoo:Lock").driver.as_deref(), Some("kazoo 1"));
    let own = trial_of(&trials, "kazoo");
    assert!(own.driver.is_none() && !serde_json::to_value(own.derived()).unwrap()["fan_out"].is_null());
}

#[test]
fn curators_own_locks_are_driven_and_hold() {
    if !Path::new("/usr/share/java/curator-recipes.jar").exists() {
        return skip::skipped("this machine has no Curator in /usr/share/java");
    }
    let bench = Bench::new();
    let locks = "{ driver = \"curator\", lock = \"InterProcessMutex\", token = true }, \
                 \"curator:InterProcessSemaphoreMutex\", \"curator:InterProcessReadWriteLock\"";
    let scenario = bench.scenario(&format!(
        "name = \"driven\"\nstrategies = [{locks}]\nread_ratio = 0.5\nacquire_timeout = \"2s\"\n{ONE_SERVER}"
    ));
    // Called by hand it compiles, says what it is, and ends.
    let by_hand = Command::new(CURATOR).env("XDG_CACHE_HOME", bench.path("cache")).output().unwrap();
    assert_eq!(by_hand.status.code(), Some(2), "{}", stderr(&by_hand));
    let driver = format!("curator=env XDG_CACHE_HOME={} '{CURATOR}'", bench.path("cache").display());
    let words = ["run", scenario.to_str().unwrap(), "--driver", &driver, "--data-dir", "data", "--no-floor"];
    let output = bench.output(&words);
    let trials = bench.stored().trials;
    for trial in &trials {
        let strategy = &trial.spec.strategy.label;
        assert!(trial.measured.acquired() > 10, "{strategy}: {}", stderr(&output));
        assert!(trial.errors.is_empty() && !trial.is_violated(), "{strategy}: {:?}", trial.errors);
    }
    assert_eq!((trials.len(), output.status.code()), (3, Some(0)), "{}", stderr(&output));
}

#[test]
fn a_driver_that_grants_without_a_lock_is_found_out() {
    let bench = Bench::new();
    let scenario = bench.scenario(&format!("name = \"lies\"\nstrategies = [\"liar:Lock\"]\n{ONE_SERVER}"));
    std::fs::write(bench.path("liar.py"), LIAR).unwrap();
    let run = |more: &[&str]| {
        let mut words = vec!["run", scenario.to_str().unwrap(), "--driver", "liar=python3 liar.py"];
        words.extend(["--data-dir", "data", "--no-floor"]);
        words.extend(more);
        bench.output(&words)
    };
    // It has said that it knows no timeouts.
    let refused = run(&["--set", "acquire_timeout=1s"]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`liar:Lock` knows no timeout"), "{}", stderr(&refused));
    let found = run(&[]);
    assert_eq!(found.status.code(), Some(1), "{}", stderr(&found));
    assert!(bench.stored().trials[0].is_violated());
}

#[test]
fn what_is_wrong_with_a_driver_is_told_before_anything_is_started() {
    let bench = Bench::new();
    let text = |strategy: &str| format!("name = \"x\"\nstrategies = [{strategy}]\n{ONE_SERVER}");
    let validate = |strategy: &str, driver: Option<&str>| {
        let scenario = bench.scenario(&text(strategy));
        let mut words = vec!["validate", scenario.to_str().unwrap()];
        words.extend(driver.iter().flat_map(|driver| ["--driver", driver]));
        let output = bench.output(&words);
        (output.status.code(), stderr(&output))
    };
    std::fs::write(bench.path("liar.py"), LIAR).unwrap();
    let liar = Some("liar=python3 liar.py");
    let (code, said) = validate("{ driver = \"liar\", lock = \"Lock\" }", None);
    assert!(code == Some(2) && said.contains("unknown driver `liar`"), "{said}");
    assert!(said.contains("scenario.toml:2:") && said.contains("--driver liar=COMMAND"), "{said}");
    let (code, said) = validate("{ driver = \"liar\", lock = \"Lokc\" }", liar);
    assert!(code == Some(2) && said.contains("driver `liar` has no lock `Lokc`"), "{said}");
    let (code, said) = validate("{ driver = \"liar\", lock = \"Lock\", tries = 3 }", liar);
    assert!(code == Some(2) && said.contains("`liar:Lock` has no parameter `tries`"), "{said}");
    assert_eq!(validate("{ driver = \"liar\", lock = \"Lock\" }", liar).0, Some(0));
    let (code, said) = validate("\"liar:Lock\"", Some("liar=sh -c 'echo no such module >&2; exit 3'"));
    assert!(code == Some(3) && said.contains("exit status 3") && said.contains("no such module"), "{said}");
    assert!(bench.results().is_empty() && Path::new(KAZOO).is_file());
}
