//! The program from outside: what it prints, where, and with which exit code.

use std::io::Read;
use std::process::Stdio;

use crate::support::program::{Bench, stderr, stdout};
use zklockbench::{fault, lock};

const BROKEN: &str = "name = \"broken\"\nstrategies = [\"poling\"]\ncontenders = [0]\nhold = \"20 parsecs\"\nhodl = 1\n\
                      duration = \"1s\"\n";

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
    assert!(stderr(&output).contains("with contenders=[0]"), "{}", stderr(&output));
}

#[test]
fn a_plan_shows_every_trial_and_how_long_it_takes() {
    let bench = Bench::new();
    let quick = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/quick.toml");
    let output = bench.output(&["validate", quick]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("predecessor-watch").count(), 6, "{}", stdout(&output));
}

#[test]
fn an_open_load_is_shown_with_what_it_offers_and_with_advice_at_its_line() {
    let bench = Bench::new();
    let open = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/open-loop.toml");
    let output = bench.output(&["validate", open]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let offered =
        "offered: 40 arrivals a second, about 480 in all; the busiest lock is held 40 % of the time";
    assert!(stdout(&output).contains(offered), "{}", stdout(&output));
    let output = bench.output(&["validate", open, "--set", "rate=120"]);
    assert_eq!(output.status.code(), Some(0));
    let said = stderr(&output);
    assert!(said.contains("the queue will grow without end") && said.contains("rate = 120"), "{said}");
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

#[test]
fn every_strategy_has_one_line_with_its_source() {
    let bench = Bench::new();
    let text = stdout(&bench.output(&["strategies"]));
    assert_eq!(text.lines().count(), 1 + lock::cards().len());
    for card in lock::cards() {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{} ", card.name)));
        assert!(line.unwrap_or_default().contains(card.source), "{}", card.name);
    }
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
    assert_eq!(text.lines().count(), 1 + fault::cards().len());
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&bench.output(&["faults", "--json"]))).unwrap();
    for (card, value) in fault::cards().iter().zip(json["faults"].as_array().unwrap()) {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{} ", card.name)));
        assert!(line.unwrap_or_default().contains(card.summary), "{}", card.name);
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
