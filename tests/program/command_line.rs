//! The command line from the user's point of view: output streams, messages and exit codes.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::program::{Bench, eventually, has, signal, stderr, stdout};
use crate::support::{records, run_dirs};

use zklockbench_ensemble::fault;

const QUICK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quick.toml");
const BROKEN: &str = "name = \"broken\"\nstrategies = [\"poling\"]\ncontenders = [0]\nhold = \"20 parsecs\"\nhodl = 1\n\
                      duration = \"1s\"\n";

#[test]
fn help_examples_of_lookup_commands_work() {
    let bench = Bench::new();
    for command in ["scenarios", "strategies", "faults", "validate", "schema", "completions"] {
        let help = bench.shows(&format!("{command} --help"));
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let lines = examples.lines().map_while(|line| line.strip_prefix("  zklockbench "));
        let typed: Vec<&str> = lines.map(|line| line.split('>').next().unwrap()).collect();
        assert_eq!(typed.len(), 2, "{help}");
        assert!(typed.iter().all(|line| !bench.shows(line).is_empty()), "{help}");
    }
}

#[test]
fn every_command_handles_non_utf_8_arguments_without_panicking() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::with("name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\n");
    let odd = OsStr::from_bytes(b"a\xffb");
    let names: Vec<String> = zklockbench::cli::definition()
        .get_subcommands()
        .flat_map(|command| {
            let below =
                command.get_subcommands().map(|below| format!("{} {}", command.get_name(), below.get_name()));
            std::iter::once(command.get_name().to_owned()).chain(below)
        })
        .collect();
    for name in &names {
        for more in [None, Some("--json")] {
            let mut command = bench.typed(name);
            let output = command.args(more).arg(odd).output().unwrap();
            let said = stderr(&output);
            assert!(output.status.code().is_some_and(|code| code != 101), "{name}: {said}");
            assert!(!said.contains("panicked"), "{name}: {said}");
        }
    }
    // Paths need not be UTF-8.
    for typed in ["validate scenario.toml --seed", "run scenario.toml --connect 127.0.0.1:1 --out", "run"] {
        let output = bench.typed(typed).arg(odd).output().unwrap();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{typed}: {}", stderr(&output));
    }
}

#[test]
fn results_below_a_directory_with_a_non_utf_8_name_are_read_and_exported() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let bench = Bench::new();
    let parent = bench.dir.path().join(OsStr::from_bytes(b"old\xffruns"));
    std::fs::create_dir(&parent).unwrap();
    let dir = run_dirs::publish(&parent, &[records::trial(0)]);
    let store = parent.join("store");
    for (command, paths) in [
        ("report", vec![dir.clone()]),
        ("report", vec![dir.clone(), dir.clone(), "--output".into(), parent.join("page.html")]),
        ("export", vec![dir.clone(), "--junit".into(), parent.join("junit.xml")]),
        ("baseline add --commit abc", vec![dir.clone(), store.clone()]),
        ("baseline list", vec![store]),
        ("driver new --language python", vec![parent.join("mine")]),
    ] {
        for more in [None, Some("--json")] {
            let output = bench.typed(command).args(&paths).args(more).output().unwrap();
            // Baselines and drivers are not added twice.
            let is_again = more.is_some() && (command.contains("add") || command.contains("new"));
            let expected = if is_again { 2 } else { 0 };
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(expected), "{command} {more:?}: {said}{}", stdout(&output));
        }
    }
}

#[test]
fn runs_with_the_same_name_are_reported_by_their_paths() {
    let bench = Bench::new();
    for host in ["one", "two"] {
        run_dirs::publish(&bench.path(host), &[records::trial(0)]);
    }
    let name = "quick-2026-11-21T08-45-08Z";
    bench.shows(&format!("report one/{name} two/{name}"));
    let page = bench.text("report.html");
    assert!(["one", "two"].iter().all(|host| page.contains(&format!(">{host}/{name}<"))), "{page}");
}

#[test]
fn man_writes_one_page_or_all_pages() {
    let bench = Bench::new();
    assert!(bench.shows("man run").contains("\\-\\-contenders"));
    bench.shows("man --out pages");
    for page in ["zklockbench.1", "zklockbench-run.1", "zklockbench-baseline-add.1"] {
        assert!(bench.path("pages").join(page).is_file(), "{page}");
    }
}

#[test]
fn color_option_controls_colours_and_version_option_prints_the_package_version() {
    let bench = Bench::new();
    let coloured =
        |when: &str| bench.refuses(&format!("--color {when} run no-such-scenario")).contains('\u{1b}');
    assert_eq!(["always", "never", "auto"].map(coloured), [true, false, false]);
    let version = bench.shows("--version");
    assert!(version.starts_with(concat!("zklockbench ", env!("CARGO_PKG_VERSION"))), "{version}");
}

#[test]
fn ensemble_options_override_the_connect_variable() {
    let bench = Bench::new();
    for (options, code, expected) in [
        ("", 0, "ensemble: existing, first.invalid:1"),
        ("--connect second.invalid:2", 0, "ensemble: existing, second.invalid:2"),
        ("--servers 3", 0, "ensemble: own, 3 servers"),
        ("--data-dir data", 0, "ensemble: own, 3 servers"),
        // Options that conflict with each other are still rejected
        ("--connect second.invalid:2 --servers 3", 2, ""),
    ] {
        let mut command = bench.typed(&format!("validate quick {options}"));
        let output = command.env("ZKLOCKBENCH_CONNECT", "first.invalid:1").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{options}: {}", stderr(&output));
        assert!(stdout(&output).contains(expected), "{options}: {}{}", stdout(&output), stderr(&output));
    }
    // Other options override variables, too
    for (variable, value, options) in [
        ("ZKLOCKBENCH_AUTH", "ann:secret", "--auth-file missing"),
        ("ZKLOCKBENCH_ALLOW_SATURATION", "0", "--at-most 50/s"),
        ("ZKLOCKBENCH_AT_MOST", "50/s", "--allow-saturation"),
    ] {
        let line = format!("run quick --connect 127.0.0.1:1 {options}");
        let output = bench.typed(&line).env(variable, value).output().unwrap();
        assert!(!stderr(&output).contains("cannot be used with"), "{options}: {}", stderr(&output));
    }
    // Errors name the variable
    let output = bench.typed("validate quick").env("ZKLOCKBENCH_CONNECT", "a:port").output().unwrap();
    let said = stderr(&output);
    assert!(
        said.contains("ZKLOCKBENCH_CONNECT: `a:port` has no valid port") && !said.contains("--connect"),
        "{said}"
    );
    // An empty variable counts as unset
    let mut command = bench.typed("validate quick");
    for name in
        ["ZKLOCKBENCH_CONNECT", "ZKLOCKBENCH_AUTH", "ZKLOCKBENCH_AT_MOST", "ZKLOCKBENCH_STOP_IF_LATENCY"]
    {
        command.env(name, "");
    }
    let output = command.output().unwrap();
    assert!(stdout(&output).contains("ensemble: own, 3 servers"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn scenario_mistakes_are_reported_as_json() {
    let bench = Bench::with(BROKEN);
    let [told, by_run] =
        ["validate", "run"].map(|command| bench.json(2, &format!("{command} scenario.toml --json")));
    let mistakes = told["error"]["mistakes"].as_array().unwrap();
    assert!(mistakes.iter().any(|mistake| mistake["line"] == 5), "{told}");
    assert_eq!(by_run["error"], told["error"]);
}

#[test]
fn non_utf_8_scenario_is_rejected_with_the_position_of_the_bad_byte() {
    let bench = Bench::new();
    let file = bench.path("latin.toml");
    std::fs::write(&file, b"name = \"x\"\ndescription = \"caf\xe9\"\n").unwrap();
    let file = file.to_str().unwrap();
    for command in ["validate", "run"] {
        let said = bench.refuses(&format!("{command} '{file}'"));
        has(&said, &["latin.toml:2:19", "the byte 0xe9 is not UTF-8 text"]);
    }
    let told = bench.json(2, &format!("validate '{file}' --json"));
    let mistake = &told["error"]["mistakes"][0];
    assert_eq!((mistake["line"].as_u64(), mistake["column"].as_u64()), (Some(2), Some(19)));
    assert_eq!(mistake["file"], file);
}

#[test]
fn oversized_file_is_not_replaced_by_the_built_in_scenario_of_its_name() {
    let bench = Bench::new();
    std::fs::File::create(bench.path("quick.toml")).unwrap().set_len(5 << 20).unwrap();
    let said = bench.refuses("validate quick.toml");
    assert!(said.contains("cannot read the scenario quick.toml: it is larger than 4 MiB"), "{said}");
}

/// A minimal scenario.
const LEAST: &str = "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 2\nduration = \"1s\"\n";

#[test]
fn validate_shows_every_strategy_of_the_plan() {
    let shown = Bench::new().shows("validate quick");
    assert_eq!(shown.matches("predecessor-watch").count(), 7, "{shown}");
}

#[test]
fn validate_shows_the_offered_load_and_warns_about_overload() {
    let bench = Bench::new();
    let open = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/open-loop.toml");
    let (shown, said) = bench.ends(0, &format!("validate '{open}'"));
    let offered =
        "offered: 40 arrivals a second, about 140 in all; the busiest lock is held 40 % of the time";
    assert!(said.is_empty() && shown.contains(offered), "{said}{shown}");
    let (_, said) = bench.ends(0, &format!("validate '{open}' --set rate=120"));
    assert!(said.contains("the queue grows without limit") && said.contains("--set rate=120"), "{said}");
}

#[test]
fn replayed_file_is_read_relative_to_its_scenario_with_configurable_columns() {
    let bench = Bench::with(
        "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 5\nlocks = 2\nload = \"open\"\n\
         arrivals = { replay = \"trace.csv\" }\n",
    );
    let rows = "time,lock,hold\n0,orders,20ms\n0.5,stock,\n1250ms,orders,0.005\n";
    std::fs::write(bench.path("trace.csv"), rows).unwrap();
    let shown = bench.shows("validate scenario.toml");
    assert!(shown.contains("as in trace.csv, 2 equally popular locks, for 1.25 s"), "{shown}");
    // And options select the columns of another program's file
    let jmeter = "timeStamp,elapsed,label\n1700158623979,20,a\n1700158624979,30,b\n";
    std::fs::write(bench.path("trace.csv"), jmeter).unwrap();
    let said = bench.refuses("validate scenario.toml");
    let options = "--time-column timeStamp --hold-column elapsed --time-unit ms";
    assert!(said.contains(&format!("to read a JMeter file, use {options}")), "{said}");
    let shown = bench.shows(&format!("validate scenario.toml {options}"));
    assert!(shown.contains("as in trace.csv, 2 equally popular locks, for 1 s"), "{shown}");
    // A unit that was inferred is shown
    std::fs::write(bench.path("trace.csv"), "time\n1700158623979\n1700158624979\n").unwrap();
    let shown = bench.shows("validate scenario.toml");
    assert!(shown.contains("as in trace.csv (with times read as ms since 1970)"), "{shown}");
    // Given a file with decreasing times
    std::fs::write(bench.path("trace.csv"), rows.replace("1250ms", "250ms")).unwrap();
    let said = bench.refuses("run scenario.toml");
    has(&said, &["trace.csv line 4: its time is earlier", "scenario.toml:6:"]);
}

/// Checks that a list fits into 80 columns and has a row for each name.
fn is_list_of<'a>(text: &str, names: impl Iterator<Item = &'a str>) {
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{widest:?}:\n{text}");
    for name in names {
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}:\n{text}");
    }
}

#[test]
fn strategies_lists_every_strategy_and_describes_its_source() {
    let bench = Bench::new();
    let cards = zklockbench_locks::cards();
    is_list_of(&bench.shows("strategies"), cards.iter().map(|card| card.name));
    let one = bench.shows("strategies ahead");
    let source = cards.iter().find(|card| card.name == "ahead").unwrap().source;
    assert!(one.contains(source), "{one}");
}

#[test]
fn built_in_scenarios_are_listed_shown_and_found_by_name() {
    let bench = Bench::new();
    is_list_of(&bench.shows("scenarios"), ["quick", "faults/leader-killed", "three-strategies"].into_iter());
    let file = std::fs::read_to_string(QUICK).unwrap();
    assert_eq!(bench.shows("scenarios quick"), file);
    let by_name = bench.shows("validate quick");
    assert!(by_name.starts_with("quick is valid: "), "{by_name}");
    // A file with the same name takes precedence
    std::fs::write(bench.path("quick"), LEAST.replace("\"x\"", "\"mine\"")).unwrap();
    assert!(bench.shows("validate quick").starts_with("mine"));
}

#[test]
fn scenario_can_be_read_from_standard_input() {
    let bench = Bench::new();
    let broken = bench.scenario("contenders = 0\n");
    let read = |command: &str, file: &Path| {
        let file = std::fs::File::open(file).unwrap();
        let output = bench.command(&[command, "-"]).stdin(file).output().unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, shown, said) = read("validate", Path::new(QUICK));
    assert!(code == Some(0) && shown.starts_with("quick is valid: "), "{said}{shown}");
    let (code, _, said) = read("run", &broken);
    assert!(code == Some(2) && said.contains("standard input:1:"), "{said}");
}

#[test]
fn signal_ends_a_command_that_waits_for_its_scenario() {
    let bench = Bench::new();
    for command in ["validate", "run"] {
        let mut child = bench.command(&[command, "-"]).stdin(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(500));
        assert!(child.try_wait().unwrap().is_none(), "{command} does not wait for its scenario");
        signal(child.id(), Signal::TERM);
        let ended = || child.try_wait().unwrap().is_some();
        eventually("the command ends", Duration::from_secs(10), ended);
    }
}

#[test]
fn validate_notes_keys_that_options_make_ineffective() {
    let bench = Bench::new();
    let (_, said) = bench.ends(0, "validate quick --set 'strategies=[\"curator-mutex\", \"baton\"]'");
    assert!(said.contains("note: `poll_interval` of quick is ignored, because"), "{said}");
    bench.shows("validate three-strategies --duration 5s --set hold=30ms");
}

#[test]
fn faults_lists_and_describes_every_fault_as_text_and_json() {
    let bench = Bench::new();
    is_list_of(&bench.shows("faults"), fault::cards().iter().map(|card| card.name));
    let json = bench.json(0, "faults --json");
    for (card, value) in fault::cards().iter().zip(json["faults"].as_array().unwrap()) {
        assert_eq!((&value["name"], &value["details"]), (&card.name.into(), &card.details.into()));
    }
    let parts = ["Source: Jepsen", "Servers: at least 3", "Parameter shape (minority or majority or"];
    has(&bench.shows("faults partition"), &parts);
}

#[test]
fn scenario_schema_is_json_and_lists_the_strategies() {
    let bench = Bench::new();
    has(&bench.json(0, "schema").to_string(), &["curator-mutex", "drop-reply"]);
    let schema = bench.json(0, "schema summary");
    assert!(schema["properties"]["cells"].is_object(), "{schema}");
}

#[test]
fn man_page_and_completions_list_every_command_and_bash_completes_names() {
    let bench = Bench::new();
    let commands = ["validate", "ensemble", "no-progress"];
    let parts = ["ZKLOCKBENCH ENSEMBLE UP", "ZKLOCKBENCH BASELINE CHECK", "SH ENVIRONMENT", "ZOOKEEPER_HOME"];
    for typed in ["completions bash", "completions zsh", "completions fish", "man"] {
        let text = bench.shows(typed).replace('\\', "");
        let missing = |part: &&&str| !text.contains(**part);
        let expected = commands.iter().chain(parts.iter().filter(|_| typed == "man"));
        assert_eq!(expected.filter(missing).collect::<Vec<_>>(), [&""; 0], "{typed}");
        assert_eq!(text.matches(".TH ").count(), usize::from(typed == "man"), "{typed}");
    }
    let script = bench.path("complete.bash");
    std::fs::write(&script, bench.shows("completions bash")).unwrap();
    std::fs::write(bench.path("mine.toml"), "").unwrap();
    let completed = |words: &str| {
        let text = format!(
            "source {}; COMP_WORDS=({words} ''); COMP_CWORD=2; COMP_LINE='{words} '; _zklockbench_files zklockbench '' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        stdout(&bench.command_of("bash", &["-c", &text]).output().unwrap())
    };
    let after_run = completed("zklockbench run");
    for name in ["mine.toml", "quick", "faults/leader-killed"] {
        assert!(after_run.lines().any(|line| line == name), "{name} is missing from:\n{after_run}");
    }
    let after_faults = completed("zklockbench faults");
    assert!(after_faults.lines().any(|line| line == "drop-reply"), "{after_faults}");
}

#[test]
fn help_lists_every_exit_code() {
    has(&Bench::new().shows("--help"), &["0 ", "1 ", "2 ", "3 ", "4 ", "130 "]);
}

#[test]
fn closed_stdout_pipe_is_not_an_error() {
    let bench = Bench::new();
    let mut child = bench.command(&["man"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn stored_runs_reproduce_the_stored_article_decisions() {
    // Given all stored files except the decisions
    let bench = Bench::new();
    let kept = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/results/articles"));
    let mut bytes = 0;
    for file in walkdir::WalkDir::new(kept).into_iter().map(Result::unwrap) {
        let to = bench.path("articles").join(file.path().strip_prefix(kept).unwrap());
        if file.file_type().is_dir() {
            std::fs::create_dir_all(to).unwrap();
        } else if file.file_name() != "decisions.json" {
            bytes += std::fs::copy(file.path(), to).unwrap();
        }
    }
    assert!(bytes <= 5_000_000, "the stored runs take {bytes} bytes");
    // When the claims are decided from the stored runs
    let (_, said) = bench.ends(0, "articles articles --keep decisions.json");
    assert!(!said.contains("skipped"), "{said}");
    // Then each decision matches the stored decision, and is based on a stored run or a test
    let claims = |file: &Path| {
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        json["claims"].as_array().unwrap().clone()
    };
    let (again, before) = (claims(&bench.path("decisions.json")), claims(&kept.join("decisions.json")));
    assert_eq!((again.len(), before.len()), (43, 43));
    for (again, before) in again.iter().zip(&before) {
        assert_eq!(again, before, "claim {}", again["number"]);
        let is_empty = |key: &str| again[key].as_array().is_none_or(Vec::is_empty);
        assert!(!is_empty("runs") || !is_empty("tests"), "claim {}", again["number"]);
    }
}
