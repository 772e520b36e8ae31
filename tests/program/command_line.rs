//! The program from outside: what it prints, where, and with which exit code.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::support::program::{Bench, stderr, stdout};
use zklockbench::lock;
use zklockbench::world::fault;

const BROKEN: &str = "name = \"broken\"\nstrategies = [\"poling\"]\ncontenders = [0]\nhold = \"20 parsecs\"\nhodl = 1\n\
                      duration = \"1s\"\n";

#[test]
fn what_help_gives_as_examples_of_looking_something_up_does_that() {
    let bench = Bench::new();
    for command in ["scenarios", "strategies", "faults", "validate", "schema", "completions"] {
        let help = stdout(&bench.output(&[command, "--help"]));
        let (_, examples) = help.split_once("Examples:\n").unwrap();
        let lines = examples.lines().map_while(|line| line.strip_prefix("  zklockbench "));
        let typed: Vec<_> =
            lines.map(|line| shlex::split(line.split('>').next().unwrap()).unwrap()).collect();
        assert_eq!(typed.len(), 2, "{help}");
        for words in typed {
            let output = bench.output(&words.iter().map(String::as_str).collect::<Vec<_>>());
            assert!(output.status.success() && !output.stdout.is_empty(), "{words:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn a_command_has_a_page_of_its_own_and_all_can_be_written_at_once() {
    let bench = Bench::new();
    assert!(stdout(&bench.output(&["man", "run"])).contains("\\-\\-contenders"));
    let wrong = bench.output(&["man", "rum"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("did you mean `run`?"), "{}", stderr(&wrong));
    assert!(bench.output(&["man", "--out", "pages"]).status.success());
    for page in ["zklockbench.1", "zklockbench-run.1", "zklockbench-baseline-add.1"] {
        assert!(bench.path("pages").join(page).is_file(), "{page}");
    }
}

#[test]
fn colours_are_as_the_option_says_and_the_version_tells_its_commit() {
    let bench = Bench::new();
    let coloured = |when: &str| {
        let output = bench.output(&["--color", when, "run", "no-such-scenario"]);
        assert_eq!(output.status.code(), Some(2));
        stderr(&output).contains('\u{1b}')
    };
    assert_eq!(["always", "never", "auto"].map(coloured), [true, false, false]);
    let version = stdout(&bench.output(&["--version"]));
    assert!(version.starts_with(concat!("zklockbench ", env!("CARGO_PKG_VERSION"))), "{version}");
}

#[test]
fn every_mistake_of_a_scenario_is_told_with_its_place_and_the_nearest_name() {
    let bench = Bench::new();
    let scenario = bench.scenario(BROKEN);
    for command in ["validate", "run"] {
        let output = bench.output(&[command, scenario.to_str().unwrap()]);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        for part in [
            "scenario.toml:2:",
            "scenario.toml:3:",
            "scenario.toml:4:",
            "scenario.toml:5:",
            "polling",
            "hold",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
    assert!(bench.results().is_empty());
}

#[test]
fn mistakes_are_told_to_programs_as_json() {
    let bench = Bench::new();
    let scenario = bench.scenario(BROKEN);
    let output = bench.output(&["validate", scenario.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let mistakes = told["error"]["mistakes"].as_array().unwrap();
    assert!(mistakes.iter().any(|mistake| mistake["line"] == 5), "{told}");
    // And run tells them the same
    let run = bench.output(&["run", scenario.to_str().unwrap(), "--json"]);
    let by_run: serde_json::Value = serde_json::from_str(&stdout(&run)).unwrap();
    assert_eq!((run.status.code(), &by_run["error"]), (Some(2), &told["error"]));
}

#[test]
fn a_scenario_that_is_not_utf_8_is_told_with_the_place_of_its_first_bad_byte_to_people_and_to_programs() {
    let bench = Bench::new();
    let path = bench.path("latin.toml");
    std::fs::write(&path, b"name = \"x\"\ndescription = \"caf\xe9\"\n").unwrap();
    let file = path.to_str().unwrap();
    for command in ["validate", "run"] {
        let output = bench.output(&[command, file]);
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        assert!(
            said.contains("latin.toml:2:19") && said.contains("the byte 0xe9 is not UTF-8 text"),
            "{said}"
        );
    }
    let output = bench.output(&["validate", file, "--json"]);
    assert_eq!(output.status.code(), Some(2));
    let told: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let mistake = &told["error"]["mistakes"][0];
    assert_eq!((mistake["line"].as_u64(), mistake["column"].as_u64()), (Some(2), Some(19)));
    assert_eq!(mistake["file"], file);
}

#[test]
fn a_mistake_on_the_command_line_is_told_like_one_in_the_file() {
    let bench = Bench::new();
    let scenario =
        bench.scenario("name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 2\nduration = \"1s\"\n");
    let output = bench.output(&["validate", scenario.to_str().unwrap(), "--contenders", "0"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("command line:1:1") && said.contains("--contenders [0]"), "{said}");
}

#[test]
fn a_plan_shows_every_trial_and_how_long_it_takes() {
    let bench = Bench::new();
    let quick = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quick.toml");
    let output = bench.output(&["validate", quick]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("predecessor-watch").count(), 7, "{}", stdout(&output));
}

#[test]
fn an_open_load_is_shown_with_what_it_offers_and_with_advice_at_its_line() {
    let bench = Bench::new();
    let open = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/open-loop.toml");
    let output = bench.output(&["validate", open]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let offered =
        "offered: 40 arrivals a second, about 140 in all; the busiest lock is held 40 % of the time";
    assert!(stdout(&output).contains(offered), "{}", stdout(&output));
    let output = bench.output(&["validate", open, "--set", "rate=120"]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains("the queue grows without end") && said.contains("--set rate=120"), "{said}");
}

#[test]
fn a_replay_is_read_beside_its_scenario_and_its_mistakes_are_told_with_file_and_line() {
    let bench = Bench::new();
    let scenario = bench.scenario(
        "name = \"x\"\nstrategies = [\"baton\"]\ncontenders = 5\nlocks = 2\nload = \"open\"\n\
         arrivals = { replay = \"trace.csv\" }\n",
    );
    let trace = scenario.with_file_name("trace.csv");
    let rows = "time,lock,hold\n0,orders,20ms\n0.5,stock,\n1250ms,orders,0.005\n";
    std::fs::write(&trace, rows).unwrap();
    let output = bench.output(&["validate", scenario.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(shown.contains("as trace.csv has them, 2 locks alike, for 1.25 s"), "{shown}");
    // Given a file whose times go back
    std::fs::write(&trace, rows.replace("1250ms", "250ms")).unwrap();
    let output = bench.output(&["run", scenario.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("trace.csv line 4: its time is before") && said.contains("scenario.toml:6:"),
        "{said}"
    );
}

#[test]
fn a_file_that_is_not_there_is_a_usage_error_that_names_it() {
    let bench = Bench::new();
    let output = bench.output(&["run", "nowhere.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("nowhere.toml"), "{}", stderr(&output));
}

#[test]
fn places_that_cannot_be_are_usage_errors_that_name_the_option_and_leave_nothing() {
    let bench = Bench::new();
    let scenario =
        bench.scenario("name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 2\nduration = \"1s\"\n");
    let scenario = scenario.to_str().unwrap();
    for (arguments, option) in
        [(["--out", "scenario.toml"], "--out"), (["--data-dir", "nowhere/deep"], "--data-dir")]
    {
        let output = bench.output(&[&["run", scenario], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(option) && stderr(&output).contains(arguments[1]),
            "{}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("os error"), "{}", stderr(&output));
    }
    assert!(!bench.path("nowhere").exists() && bench.results().is_empty());
}

#[test]
fn a_wrong_identity_is_not_repeated() {
    let output = Bench::new().output(&["clean", "--connect", "127.0.0.1:1", "--auth", "hunter2"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--auth needs USER:PASSWORD"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
}

/// A list for people: no line wider than a terminal of 80 columns, and a row for each name.
fn is_list_of<'a>(text: &str, names: impl Iterator<Item = &'a str>) {
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 80), "{widest:?}:\n{text}");
    for name in names {
        assert!(text.lines().any(|line| line.starts_with(&format!("{name} "))), "{name}:\n{text}");
    }
}

#[test]
fn every_strategy_has_a_row_and_its_source_in_its_description() {
    let bench = Bench::new();
    let cards = lock::cards();
    is_list_of(&stdout(&bench.output(&["strategies"])), cards.iter().map(|card| card.name));
    let one = stdout(&bench.output(&["strategies", "ahead"]));
    let source = cards.iter().find(|card| card.name == "ahead").unwrap().source;
    assert!(one.contains(source), "{one}");
}

#[test]
fn built_in_scenarios_are_listed_shown_and_found_by_name() {
    let bench = Bench::new();
    let list = stdout(&bench.output(&["scenarios"]));
    is_list_of(&list, ["quick", "faults/leader-killed", "three-strategies"].into_iter());
    let file = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quick.toml")).unwrap();
    assert_eq!(stdout(&bench.output(&["scenarios", "quick"])), file);
    let by_name = bench.output(&["validate", "quick"]);
    assert_eq!(by_name.status.code(), Some(0), "{}", stderr(&by_name));
    assert!(stdout(&by_name).starts_with("quick is valid: "), "{}", stdout(&by_name));
    // A file of that name wins
    std::fs::write(
        bench.path("quick"),
        "name = \"mine\"\nstrategies = [\"baton\"]\ncontenders = 2\nduration = \"1s\"\n",
    )
    .unwrap();
    assert!(stdout(&bench.output(&["validate", "quick"])).starts_with("mine"));
}

#[test]
fn a_scenario_may_come_from_standard_input() {
    let bench = Bench::new();
    let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quick.toml")).unwrap();
    let output = bench.command(&["validate", "-"]).stdin(file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("quick is valid: "), "{}", stdout(&output));
    let broken = bench.scenario("contenders = 0\n");
    let file = std::fs::File::open(broken).unwrap();
    let output = bench.command(&["run", "-"]).stdin(file).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("standard input:1:"), "{}", stderr(&output));
}

#[test]
fn what_an_option_leaves_without_meaning_is_a_note_and_a_file_that_is_no_scenario_is_told_once() {
    let bench = Bench::new();
    let output = bench.output(&["validate", "quick", "--set", "strategies=[\"curator-mutex\", \"baton\"]"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("note: `poll_interval` of quick is ignored"), "{}", stderr(&output));
    let output = bench.output(&["validate", "three-strategies", "--duration", "5s", "--set", "hold=30ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = bench.output(&["validate", concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("this is not a scenario") && said.contains("1 mistake;"), "{said}");
    let output = bench.output(&["validate", "quick", "--set", "ensemble.servers=[1,3,5]"]);
    assert!(stderr(&output).contains("write one of 1, 3, 5, without brackets"), "{}", stderr(&output));
}

#[test]
fn an_unknown_strategy_is_answered_with_the_nearest() {
    let bench = Bench::new();
    let output = bench.output(&["strategies", "poling"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `polling`"), "{}", stderr(&output));
}

#[test]
fn every_fault_has_one_line_and_a_description_for_people_and_for_programs() {
    let bench = Bench::new();
    let text = stdout(&bench.output(&["faults"]));
    is_list_of(&text, fault::cards().iter().map(|card| card.name));
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&bench.output(&["faults", "--json"]))).unwrap();
    for (card, value) in fault::cards().iter().zip(json["faults"].as_array().unwrap()) {
        assert_eq!((&value["name"], &value["details"]), (&card.name.into(), &card.details.into()));
    }
    let one = stdout(&bench.output(&["faults", "partition"]));
    for part in ["Source: Jepsen", "Servers: at least 3", "Parameter shape (minority or majority or"] {
        assert!(one.contains(part), "{part} is missing in:\n{one}");
    }
}

#[test]
fn an_unknown_fault_is_answered_with_the_nearest() {
    let bench = Bench::new();
    let output = bench.output(&["faults", "kil"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `kill`"), "{}", stderr(&output));
}

#[test]
fn on_somebody_elses_ensemble_nothing_is_broken_unasked() {
    let bench = Bench::new();
    let scenario = bench.scenario(
        "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 2\nduration = \"5s\"\n\
         [[fault]]\nkind = \"reset\"\nat = \"1s\"\n",
    );
    let scenario = scenario.to_str().unwrap();
    let output = bench.output(&["run", scenario, "--connect", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--allow-faults"), "{}", stderr(&output));
    assert!(bench.results().is_empty());
    let output = bench.output(&["validate", scenario, "--set", "fault=[]"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn the_schema_is_json_and_knows_the_strategies() {
    let bench = Bench::new();
    let text = stdout(&bench.output(&["schema"]));
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert!(text.contains("curator-mutex") && text.contains("drop-reply"));
    let text = stdout(&bench.output(&["schema", "summary"]));
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(schema["properties"]["cells"].is_object(), "{schema}");
}

#[test]
fn completions_and_the_manual_page_know_every_command() {
    let bench = Bench::new();
    for arguments in
        [["completions", "bash"].as_slice(), &["completions", "zsh"], &["completions", "fish"], &["man"]]
    {
        let output = bench.output(arguments);
        assert_eq!(output.status.code(), Some(0));
        for command in ["validate", "ensemble", "no-progress"] {
            let text = stdout(&output).replace('\\', "");
            assert!(text.contains(command), "{arguments:?}: {command} is missing");
        }
    }
}

#[test]
fn the_manual_is_one_page_with_every_command_and_variable_and_bash_completes_names_and_files() {
    let bench = Bench::new();
    let page = stdout(&bench.output(&["man"]));
    assert_eq!(page.matches(".TH ").count(), 1);
    for part in ["ZKLOCKBENCH ENSEMBLE UP", "ZKLOCKBENCH BASELINE TREND", "SH ENVIRONMENT", "ZOOKEEPER_HOME"]
    {
        assert!(page.contains(part), "{part} is missing");
    }
    let script = bench.path("complete.bash");
    std::fs::write(&script, bench.output(&["completions", "bash"]).stdout).unwrap();
    std::fs::write(bench.path("mine.toml"), "").unwrap();
    let completed = |words: &str| {
        let text = format!(
            "source {}; COMP_WORDS=({words} ''); COMP_CWORD=2; COMP_LINE='{words} '; _zklockbench_files zklockbench '' ''; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = std::process::Command::new("bash")
            .args(["-c", &text])
            .current_dir(bench.dir.path())
            .output()
            .unwrap();
        stdout(&output)
    };
    let after_run = completed("zklockbench run");
    for name in ["mine.toml", "quick", "faults/leader-killed"] {
        assert!(after_run.lines().any(|line| line == name), "{name} is missing in:\n{after_run}");
    }
    let after_faults = completed("zklockbench faults");
    assert!(after_faults.lines().any(|line| line == "drop-reply"), "{after_faults}");
}

#[test]
fn help_names_every_exit_code() {
    let text = stdout(&Bench::new().output(&["--help"]));
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "130 "] {
        assert!(text.contains(code), "{text}");
    }
}

#[test]
fn an_unknown_option_is_a_usage_error() {
    let output = Bench::new().output(&["run", "x.toml", "--fast"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let bench = Bench::new();
    let mut child = bench.command(&["man"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn articles_are_decided_again_by_the_runs_that_are_kept_as_their_decisions_say() {
    // Given all that is kept but the decisions
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
    assert!(bytes <= 5_000_000, "{bytes} bytes are kept");
    // When the claims are decided by that
    let output = bench.output(&["articles", "articles", "--keep", "decisions.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("left out"), "{}", stderr(&output));
    // Then each is decided as is kept, by a run that is kept
    let claims = |file: &Path| {
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        json["claims"].as_array().unwrap().clone()
    };
    let (again, before) = (claims(&bench.path("decisions.json")), claims(&kept.join("decisions.json")));
    assert_eq!((again.len(), before.len()), (40, 40));
    for (again, before) in again.iter().zip(&before) {
        assert_eq!(again, before, "claim {}", again["number"]);
        assert!(!again["runs"].as_array().unwrap().is_empty(), "claim {}", again["number"]);
    }
}
