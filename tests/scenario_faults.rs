//! What a `[[fault]]` of a scenario file may say, and every mistake that it can hold.

#![allow(clippy::unwrap_used)] // what prepares a test may stop it at once

#[path = "support/cards.rs"]
mod cards;
#[path = "support/diagnosed.rs"]
mod diagnosed;

use std::time::Duration;

use cards::CARDS;
use diagnosed::{added, file};
use proptest::prelude::*;
use zklockbench::catalog::ParamValue;
use zklockbench::catalog::fault::{Capability, Ends, FaultCard, Start, Target, Targets};
use zklockbench::fault;
use zklockbench::scenario::fields::{Section, fields_of};
use zklockbench::scenario::{Diagnostics, MachineDiagnostic, Parsed, Plan, Preview, parse, schema};

const HEAD: &str =
    "name = \"x\"\nstrategies = [\"parent-watch\"]\nwarm_up = \"1s\"\nacquire_timeout = \"30s\"\n";

fn read(text: &str) -> Result<Parsed, Diagnostics> {
    parse("x.toml", text, &CARDS, &fault::cards())
}

/// A scenario of four contenders and a measured phase of 60 s with these lines after that.
fn parsed(lines: &str) -> Parsed {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{lines}");
    read(&text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A right file with one fault of these lines, the first of which is line 7, has exactly these errors.
fn one(lines: &str, expected: &[&str]) {
    added(&CARDS, &format!("[[fault]]\n{lines}"), expected);
}

fn names() -> String {
    let names: Vec<_> = fault::cards().iter().map(|card| format!("`{}`", card.name)).collect();
    names.join(", ")
}

/// The lines without which a kind is not whole.
fn least(card: &FaultCard) -> String {
    let duration = if card.ends == Ends::Healed { "duration = \"1s\"\n" } else { "" };
    format!("[[fault]]\nkind = \"{}\"\nat = \"5s\"\n{duration}", card.name)
}

#[test]
fn every_kind_is_right_with_a_start_and_a_duration_if_it_is_healed() {
    for card in &fault::cards() {
        let choice = &parsed(&least(card)).scenario.faults[0];
        assert_eq!((choice.kind.as_str(), choice.times), (card.name, 1));
        assert_eq!(choice.start, Start::At(Duration::from_secs(5)));
        assert_eq!(choice.duration.is_some(), card.ends == Ends::Healed, "{}", card.name);
        assert_eq!((choice.every, choice.jitter), (Duration::ZERO, Duration::ZERO));
        assert_eq!(choice.params.len(), card.params.len(), "{}", card.name);
        let expected =
            if card.targets == Targets::Fixed { Target::Fixed } else { Target::Word(card.default_target) };
        assert_eq!(choice.target, expected);
        assert_eq!(choice.label, format!("{} {}", card.name, card.default_target).trim_end());
    }
}

#[test]
fn every_word_of_a_kind_and_a_number_name_its_target() {
    for card in &fault::cards() {
        for word in card.words() {
            let choice = parsed(&format!("{}target = \"{word}\"\n", least(card))).scenario.faults.remove(0);
            assert_eq!(choice.target, Target::Word(word));
        }
    }
    let kill = "[[fault]]\nkind = \"kill\"\nserver = 2\nat = \"5s\"\nduration = \"1s\"\n";
    let crash = "[[fault]]\nkind = \"crash\"\ncontender = 0\nafter_acquisitions = 100\n";
    let faults = parsed(&format!("{kill}{crash}")).scenario.faults;
    assert_eq!((&faults[0].target, faults[0].label.as_str()), (&Target::Server(2), "kill server 2"));
    assert_eq!((&faults[1].target, faults[1].label.as_str()), (&Target::Contender(0), "crash contender 0"));
    assert_eq!(faults[1].start, Start::AfterAcquisitions(100));
}

#[test]
fn no_parameter_is_called_like_a_key_that_all_faults_have() {
    for card in &fault::cards() {
        for param in card.params {
            let taken = fields_of(Section::Fault)
                .any(|field| field.name == param.name || field.also.contains(&param.name));
            assert!(!taken, "{}: {}", card.name, param.name);
        }
    }
}

#[test]
fn parameters_are_in_force_and_those_that_were_set_are_in_the_label() {
    let lines =
        "[[fault]]\nkind = \"delay\"\ntarget = \"any\"\nat = \"5s\"\nduration = \"1s\"\nlatency = \"50ms\"\n";
    let choice = parsed(lines).scenario.faults.remove(0);
    assert_eq!(choice.label, "delay any latency=50ms");
    assert_eq!(choice.params["latency"], ParamValue::Duration(Duration::from_millis(50)));
    assert_eq!(choice.params["extra"], ParamValue::Duration(Duration::ZERO));
    let lines = "[[fault]]\nkind = \"partition\"\nat = \"5s\"\nduration = \"1s\"\nshape = \"bridge\"\n";
    assert_eq!(parsed(lines).scenario.faults[0].label, "partition shape=bridge");
}

#[test]
fn all_times_of_a_fault_are_scaled_and_its_label_stays_as_written() {
    let lines = "time_scale = 0.1\n[[fault]]\nkind = \"delay\"\nat = \"5s\"\nduration = \"1s\"\ntimes = 2\nevery = \"10s\"\n\
                 jitter = \"2s\"\nlatency = \"50ms\"\n";
    let plan = Plan::of(&parsed(lines).scenario);
    let ms = Duration::from_millis;
    for trial in &plan.trials {
        let fault = &trial.faults[0];
        assert_eq!((fault.start, fault.duration), (Start::At(ms(500)), Some(ms(100))));
        assert_eq!((fault.every, fault.jitter), (ms(1000), ms(200)));
        assert_eq!(fault.params["latency"], ParamValue::Duration(ms(5)));
        assert_eq!(fault.label, "delay all latency=50ms");
    }
    assert_eq!(plan.scenario.faults[0].duration, Some(ms(1000)));
}

#[test]
fn the_preview_shows_each_fault_with_whom_and_when() {
    let lines = "time_scale = 0.5\n[[fault]]\nkind = \"kill\"\nat = \"5s\"\nduration = \"2s\"\ntimes = 3\nevery = \"10s\"\n\
                 jitter = \"1s\"\n[[fault]]\nkind = \"crash\"\nafter_acquisitions = 100\n";
    let preview = Preview::of(&parsed(lines));
    let shown = preview.to_string();
    for expected in [
        "\nfault: kill leader, at 2.5 s for 1 s, 3 times, every 5 s, put off by up to 500 ms\n",
        "\nfault: crash holder, after 100 acquisitions\n",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }
    let json = serde_json::to_value(&preview).unwrap();
    assert_eq!(json["faults"][0]["at_us"], 2_500_000);
    assert_eq!(json["faults"][0]["duration_us"], 1_000_000);
    assert_eq!(json["faults"][1]["after_acquisitions"], 100);
    assert_eq!(json["faults"][1]["target"], "holder");
}

#[test]
fn a_scenario_without_faults_reads_and_prints_as_if_there_were_none() {
    for lines in ["", "fault = []\n"] {
        let parsed = parsed(lines);
        assert_eq!(parsed.scenario.faults, []);
        assert!(Plan::of(&parsed.scenario).trials.iter().all(|trial| trial.faults.is_empty()));
        let preview = Preview::of(&parsed);
        assert!(!preview.to_string().contains("fault"));
        assert!(serde_json::to_value(&preview).unwrap().get("faults").is_none());
    }
}

#[test]
fn a_fault_has_a_known_kind() {
    let all = names();
    one("at = \"1s\"", &[&format!("6:1 the fault has no `kind` => the faults are {all}")]);
    one("kind = \"kil\"\nat = \"1s\"", &["7:8 unknown fault `kil` => did you mean `kill`?"]);
    one("kind = \"zebra\"", &[&format!("7:8 unknown fault `zebra` => the faults are {all}")]);
    one("kind = 5", &["7:8 expected a fault's name, found an integer: `5` => write it in quotes"]);
    one("name = \"reset\"\nat = \"1s\"", &["7:1 unknown key `name` in `[[fault]]` => did you mean `kind`?"]);
}

#[test]
fn faults_are_a_list_of_tables() {
    added(
        &CARDS,
        "fault = \"kill\"",
        &[
            r#"6:9 expected a list of faults, found a string: `"kill"` => write `[[fault]]` and, under it, kind = "kill""#,
        ],
    );
    added(
        &CARDS,
        "fault = [\"kill\"]",
        &[
            r#"6:10 expected a fault, found a string: `"kill"` => write { kind = "kill", at = "5s", duration = "2s" }"#,
        ],
    );
    added(
        &CARDS,
        "[fault]\nkind = \"reset\"\nat = \"1s\"",
        &[
            "6:1 `fault` is one table, but a list of them is expected => write its header with two brackets: [[fault]]",
        ],
    );
    added(
        &CARDS,
        "[[faults]]\nkind = \"reset\"\nat = \"1s\"",
        &["6:3 unknown key `faults` => did you mean `fault`?"],
    );
    added(
        &CARDS,
        "[[fault]\nkind = \"reset\"",
        &["6:9 not TOML: unclosed array table, expected `]` => close the header with `]]`, as in [[fault]]"],
    );
}

#[test]
fn a_key_that_is_not_known_is_answered_with_the_one_that_was_meant() {
    one(
        "kind = \"reset\"\nat = \"1s\"\njiter = \"1s\"",
        &["9:1 unknown key `jiter` in `[[fault]]` => did you mean `jitter`?"],
    );
    one(
        "kind = \"delay\"\nat = \"1s\"\nduration = \"1s\"\nlatancy = \"1s\"",
        &["10:1 unknown key `latancy` in `[[fault]]` => did you mean `latency`?"],
    );
    one(
        "kind = \"reset\"\nat = \"1s\"\nlatency = \"1s\"",
        &["9:1 unknown key `latency` in `[[fault]]` => it is a parameter of `delay`"],
    );
    one(
        "kind = \"reset\"\nat = \"1s\"\nseed = 3",
        &[
            "9:1 unknown key `seed` in `[[fault]]` => `seed` belongs at the top of the file, before `[ensemble]`",
        ],
    );
    one(
        "kind = \"bandwidth\"\nat = \"1s\"\nduration = \"1s\"\nzebra = 3",
        &[
            "10:1 unknown key `zebra` in `[[fault]]` => the keys here are `kind`, `target`, `server`, `contender`, `at`, `after_acquisitions`, `duration`, `times`, `every`, `jitter`, `bytes_per_second`",
        ],
    );
    added(&CARDS, "times = 3", &["6:1 unknown key `times` => `times` belongs under `[[fault]]`"]);
    added(
        &CARDS,
        "server = 3",
        &["6:1 unknown key `server` => did you mean `servers`? `servers` belongs under `[ensemble]`"],
    );
    added(&CARDS, "kind = \"kill\"", &["6:1 unknown key `kind` => `kind` belongs under `[[fault]]`"]);
}

#[test]
fn a_value_of_the_wrong_type_or_out_of_bounds_is_quoted_with_what_was_expected() {
    one(
        "kind = \"reset\"\nat = 5",
        &[
            r#"8:6 expected a duration, found an integer: `5` => write "5ms" or "5s", in quotes and with a unit"#,
        ],
    );
    one(
        "kind = \"kill\"\nat = \"1s\"\nduration = \"1us\"",
        &["9:12 `1us` is out of bounds => write a duration from 1ms to 7days"],
    );
    one(
        "kind = \"reset\"\nat = \"1s\"\ntimes = 1001\nevery = \"10ms\"",
        &["9:9 `1001` is out of bounds => write a whole number from 1 to 1000"],
    );
    one(
        "kind = \"reset\"\nafter_acquisitions = 0",
        &["8:22 `0` is out of bounds => write a whole number from 1 to 1000000000"],
    );
    one(
        "kind = \"partition\"\nat = \"1s\"\nduration = \"1s\"\nshape = \"circle\"",
        &["10:9 `circle` is not one of `minority`, `majority`, `one-way`, `bridge` => write one of them"],
    );
    one(
        "kind = \"bandwidth\"\nat = \"1s\"\nduration = \"1s\"\nbytes_per_second = 0",
        &["10:20 `0` is out of bounds => write a whole number from 1 to 1000000000"],
    );
}

#[test]
fn a_target_is_a_word_for_what_the_kind_hits() {
    let rest = "at = \"1s\"\nduration = \"1s\"";
    one(
        &format!("kind = \"kill\"\n{rest}\ntarget = \"leadr\""),
        &["10:10 `leadr` is not one of `leader`, `follower`, `any`, `all` => did you mean `leader`?"],
    );
    one(
        &format!("kind = \"kill\"\n{rest}\ntarget = \"holder\""),
        &[
            "10:10 `holder` is not one of `leader`, `follower`, `any`, `all` => `kill` hits servers: write one of these words in quotes, or name one of the servers by server = 1",
        ],
    );
    one(
        &format!("kind = \"freeze\"\n{rest}\ntarget = 2"),
        &[
            "10:10 expected one of `holder`, `waiter`, `any`, `all`, found an integer: `2` => write one of these words in quotes, or name one of the contenders by contender = 0",
        ],
    );
    one(
        &format!("kind = \"wipe\"\n{rest}\ntarget = \"all\""),
        &[
            "10:10 `all` is not one of `leader`, `follower`, `any` => `wipe` hits servers: write one of these words in quotes, or name one of the servers by server = 1",
        ],
    );
}

#[test]
fn a_target_is_said_once_and_in_a_way_that_fits_the_kind() {
    let rest = "at = \"1s\"\nduration = \"1s\"";
    one(
        &format!("kind = \"kill\"\n{rest}\nserver = 2\ntarget = \"any\""),
        &["11:1 both `server` and `target` say whom `kill` hits => keep one of them"],
    );
    one(
        &format!("kind = \"kill\"\n{rest}\ncontender = 1"),
        &["10:1 `kill` hits servers, so it takes no `contender` => leave the key out"],
    );
    one(
        &format!("kind = \"freeze\"\n{rest}\nserver = 1"),
        &["10:1 `freeze` hits contenders, so it takes no `server` => leave the key out"],
    );
    one(
        &format!("kind = \"partition\"\n{rest}\ntarget = \"leader\"\nserver = 1"),
        &[
            "10:1 `partition` takes no `target`: its kind says whom it hits => leave the key out",
            "11:1 `partition` takes no `server`: its kind says whom it hits => leave the key out",
        ],
    );
}

#[test]
fn a_fault_fires_at_a_time_or_after_a_number_of_acquisitions() {
    one(
        "kind = \"reset\"",
        &["7:8 nothing says when `reset` fires => add `at = \"5s\"`, or `after_acquisitions = 100`"],
    );
    one(
        "kind = \"reset\"\nafter_acquisitions = 5\nat = \"1s\"",
        &["9:1 both `after_acquisitions` and `at` say when `reset` fires => keep one of them"],
    );
}

#[test]
fn what_is_healed_has_a_duration_and_what_ends_by_itself_has_none() {
    one(
        "kind = \"kill\"\nat = \"1s\"",
        &["7:8 `kill` has no `duration`, after which it is healed => add a line such as duration = \"2s\""],
    );
    one(
        "kind = \"drop-reply\"\nat = \"1s\"\nduration = \"1s\"",
        &["9:1 `drop-reply` ends by itself, so it takes no `duration` => leave the key out"],
    );
}

#[test]
fn a_fault_that_fires_again_has_ended_before() {
    one(
        "kind = \"drop-reply\"\nat = \"1s\"\ntimes = 3",
        &[
            "9:9 `drop-reply` fires 3 times, but nothing says how far apart => add a line such as every = \"10s\"",
        ],
    );
    one(
        "kind = \"reset\"\nat = \"1s\"\nevery = \"3s\"",
        &["9:1 `every` means nothing to `reset`, which fires once => leave the key out, or add times = 2"],
    );
    let twice = "kind = \"kill\"\nat = \"1s\"\nduration = \"2s\"\ntimes = 2";
    one(
        &format!("{twice}\nevery = \"2s\""),
        &[
            "11:9 `every` 2s is not longer than `duration`, 2s => give a longer `every`: `kill` would fire again before it has ended",
        ],
    );
    one(
        &format!("{twice}\nevery = \"3s\"\njitter = \"1s\""),
        &[
            "11:9 `every` 3s is not longer than `duration` and `jitter` together, 3s => give a longer `every`: `kill` would fire again before it has ended",
        ],
    );
    one(&format!("{twice}\nevery = \"3s\"\njitter = \"900ms\""), &[]);
}

#[test]
fn a_fault_begins_and_ends_within_the_measured_phase() {
    let help =
        "let it begin earlier, last shorter or fire less often, or give a longer `duration` at the top";
    one(
        "kind = \"reset\"\nat = \"60s\"",
        &[
            "8:6 `reset` fires at 1m, but the measured phase lasts 1m => let it fire earlier, or give a longer `duration` at the top of the file",
        ],
    );
    one(
        "kind = \"kill\"\nat = \"50s\"\nduration = \"11s\"",
        &[&format!("9:12 `kill` may last until 1m 1s, but the measured phase lasts 1m => {help}")],
    );
    one("kind = \"kill\"\nat = \"50s\"\nduration = \"10s\"", &[]);
    one(
        "kind = \"kill\"\nat = \"10s\"\nduration = \"2s\"\ntimes = 4\nevery = \"15s\"\njitter = \"4s\"",
        &[&format!("9:12 `kill` may last until 1m 1s, but the measured phase lasts 1m => {help}")],
    );
    one(
        "kind = \"reset\"\nat = \"50s\"\ntimes = 3\nevery = \"5s\"",
        &[&format!("8:6 `reset` may fire at 1m, but the measured phase lasts 1m => {help}")],
    );
    one("kind = \"reset\"\nat = \"50s\"\ntimes = 3\nevery = \"4s\"", &[]);
    one(
        "kind = \"reset\"\nafter_acquisitions = 1\ntimes = 5\nevery = \"20s\"",
        &[&format!("7:8 `reset` may take 1m 20s, but the measured phase lasts 1m => {help}")],
    );
}

#[test]
fn a_fault_does_not_wait_for_more_acquisitions_than_there_will_be() {
    let counted = |after: u64| {
        format!(
            "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = [3, 2]\nacquisitions = 5\n[[fault]]\nkind = \"reset\"\n\
             after_acquisitions = {after}\n"
        )
    };
    file(&CARDS, &counted(9), &[]);
    file(
        &CARDS,
        &counted(10),
        &[
            "7:22 2 contenders of 5 acquisitions each are done after 10 of them => write less than 10, or give more `acquisitions` at the top",
        ],
    );
}

#[test]
fn a_batch_has_no_faults() {
    file(
        &CARDS,
        "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 4\nload = \"batch\"\n[[fault]]\nkind = \"reset\"\nat = \"1s\"\n",
        &[
            "6:8 `reset` cannot fire in a batch: its totals are exact only undisturbed => leave the fault out, or use load = \"closed\"",
        ],
    );
}

#[test]
fn containers_have_every_fault_but_those_that_drop_what_one_server_sends_to_another() {
    for card in &fault::cards() {
        let message = format!(
            "7:8 `{}` drops what one server sends to another, and Docker cannot: it takes a server off its network altogether => use `isolate`, or leave out `compose`: the suite's own servers have networks that can be cut",
            card.name
        );
        let expected: &[&str] = if card.needs == Capability::Links { &[&message] } else { &[] };
        let text = format!(
            "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 4\nduration = \"60s\"\nacquire_timeout = \"9s\"\n{}[ensemble]\ncompose = \"compose.yaml\"\n",
            least(card)
        );
        file(&CARDS, &text, expected);
    }
}

#[test]
fn servers_that_the_suite_did_not_start_are_never_disturbed() {
    for card in &fault::cards() {
        let message = format!(
            "6:8 `{}` disturbs servers, but `connect` names an ensemble that the suite did not start => leave out the fault or `connect`: servers that others rely on are never disturbed",
            card.name
        );
        let expected: &[&str] = match card.needs {
            Capability::Processes | Capability::Isolation | Capability::Links => &[&message],
            Capability::Proxies | Capability::Contenders => &[],
        };
        let text = format!(
            "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 4\nduration = \"60s\"\n{}[ensemble]\nconnect = \"zk1:2181\"\n",
            least(card)
        );
        let text = text.replace("duration = \"60s\"", "duration = \"60s\"\nacquire_timeout = \"9s\"");
        let expected: Vec<_> = expected.iter().map(|line| line.replacen("6:8", "7:8", 1)).collect();
        file(&CARDS, &text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn what_needs_several_servers_is_refused_on_one() {
    for kind in ["partition", "isolate", "lose-majority", "wipe"] {
        let text =
            format!("[ensemble]\nservers = 1\n[[fault]]\nkind = \"{kind}\"\nat = \"1s\"\nduration = \"1s\"");
        let expected = format!(
            "9:8 `{kind}` needs at least 3 servers, but `servers` is 1 => leave it out, or write servers = 3 under `[ensemble]`"
        );
        added(&CARDS, &text, &[&expected]);
    }
    added(
        &CARDS,
        "[ensemble]\nservers = 1\n[[fault]]\nkind = \"kill\"\nat = \"1s\"\nduration = \"1s\"\ntarget = \"follower\"",
        &[
            "12:10 one server has no `follower`: `servers` is 1 => hit the `leader`, or write servers = 3 under `[ensemble]`",
        ],
    );
}

#[test]
fn a_number_names_somebody_who_is_there_in_every_trial() {
    one(
        "kind = \"kill\"\nat = \"1s\"\nduration = \"1s\"\nserver = 4",
        &["10:10 there is no server 4: `servers` is 3 => write a number from 1 to 3"],
    );
    one(
        "kind = \"kill\"\nat = \"1s\"\nduration = \"1s\"\nserver = 0",
        &["10:10 `0` is out of bounds => write a whole number from 1 to 5"],
    );
    file(
        &CARDS,
        "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = [5, 2]\nduration = \"60s\"\n[[fault]]\nkind = \"reset\"\nat = \"1s\"\ncontender = 2\n",
        &[
            "8:13 there is no contender 2 among 2 contenders, who are counted from 0 => write a number from 0 to 1",
        ],
    );
}

#[test]
fn a_fault_that_acts_on_a_key_needs_that_key() {
    one(
        "kind = \"clock-jump\"\nat = \"1s\"",
        &[
            "7:8 without `acquire_timeout` there is nothing for `clock-jump` to act on => add a line such as acquire_timeout = \"30s\" at the top",
        ],
    );
}

#[test]
fn what_is_scaled_stays_measurable() {
    file(
        &CARDS,
        "name = \"x\"\nstrategies = [\"parent-watch\"]\ncontenders = 4\nduration = \"60s\"\ntime_scale = 0.01\n[[fault]]\n\
         kind = \"kill\"\nat = \"1s\"\nduration = \"20ms\"\ntimes = 2\nevery = \"50ms\"\n",
        &[
            "5:14 `time_scale` makes `duration` 20ms of `kill` shorter than 1ms => scale less, or give it a longer `duration`",
            "5:14 `time_scale` makes `every` 50ms of `kill` shorter than 1ms => scale less, or give it a longer `every`",
        ],
    );
}

#[test]
fn all_mistakes_of_all_faults_are_told_at_once() {
    added(
        &CARDS,
        "[[fault]]\nkind = \"kil\"\nat = 5\n[[fault]]\nkind = \"kill\"\nserver = 9\n[[fault]]\nkind = \"reset\"\nat = \"2m\"\ntims = \"x\"",
        &[
            "7:8 unknown fault `kil` => did you mean `kill`?",
            r#"8:6 expected a duration, found an integer: `5` => write "5ms" or "5s", in quotes and with a unit"#,
            "10:8 nothing says when `kill` fires => add `at = \"5s\"`, or `after_acquisitions = 100`",
            "10:8 `kill` has no `duration`, after which it is healed => add a line such as duration = \"2s\"",
            "11:10 `9` is out of bounds => write a whole number from 1 to 5",
            "14:6 `reset` fires at 2m, but the measured phase lasts 1m => let it fire earlier, or give a longer `duration` at the top of the file",
            "15:1 unknown key `tims` in `[[fault]]` => did you mean `times`?",
            r#"15:8 expected a whole number, found a string: `"x"` => write a whole number from 1 to 1000"#,
        ],
    );
}

fn warnings(lines: &str) -> Vec<String> {
    let shown = |warning: MachineDiagnostic| {
        format!("{}:{} {}", warning.position.line, warning.position.column, warning.message)
    };
    parsed(lines).warnings.machine().into_iter().map(shown).collect()
}

#[test]
fn advice_where_no_server_serves_for_longer_than_sessions_last() {
    let fault = |lines: &str| format!("session_timeout = \"4s\"\n[[fault]]\nat = \"5s\"\n{lines}");
    for (lines, label) in [
        ("kind = \"pause\"\nduration = \"5s\"\n", "pause leader"),
        ("kind = \"lose-majority\"\nduration = \"5s\"\n", "lose-majority"),
        ("kind = \"kill\"\nduration = \"5s\"\ntarget = \"all\"\n", "kill all"),
    ] {
        let expected =
            format!("10:8 `{label}` lasts 5s, longer than the session timeout of 4s: sessions may expire");
        assert_eq!(warnings(&fault(lines)), [expected]);
        assert_eq!(warnings(&fault(&lines.replace("5s", "4s"))), [""; 0]);
        assert_eq!(warnings(&format!("time_scale = 0.5\n{}", fault(lines))), [""; 0]);
    }
    assert_eq!(warnings(&fault("kind = \"kill\"\nduration = \"5s\"\n")), [""; 0]);
    assert_eq!(warnings(&fault("kind = \"freeze\"\nduration = \"5s\"\n")), [""; 0]);
    assert_eq!(
        warnings(&format!("{}[ensemble]\nservers = 1\n", fault("kind = \"kill\"\nduration = \"5s\"\n")))
            .len(),
        1
    );
}

#[test]
fn advice_where_nobody_ever_waits() {
    let text = format!(
        "{HEAD}contenders = [4, 1]\nduration = \"60s\"\n[[fault]]\nkind = \"clock-jump\"\nat = \"5s\"\n"
    );
    let warnings = read(&text).unwrap().warnings.machine();
    let messages: Vec<_> = warnings.into_iter().map(|warning| warning.message).collect();
    assert_eq!(messages, ["with 1 contender nobody ever waits, so `clock-jump waiter` hits nobody there"]);
}

/// What the schema says against a file with this fault.
fn complaints(fault: &str) -> usize {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{fault}");
    let value: toml::Value = toml::from_str(&text).unwrap();
    let schema = schema(&CARDS, &fault::cards());
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    validator.iter_errors(&serde_json::to_value(value).unwrap()).count()
}

#[test]
fn the_schema_accepts_every_kind_with_its_targets_and_parameters() {
    for card in &fault::cards() {
        let quoted =
            |text: &str| text.parse::<u64>().map_or(format!("\"{text}\""), |number| number.to_string());
        let params = card.params.iter().map(|param| format!("{} = {}\n", param.name, quoted(param.default)));
        let with_params = format!("{}{}", least(card), params.collect::<String>());
        assert_eq!(complaints(&with_params), 0, "{}", card.name);
        for word in card.words() {
            assert_eq!(
                complaints(&format!("{}target = \"{word}\"\n", least(card))),
                0,
                "{} {word}",
                card.name
            );
        }
    }
}

#[test]
fn the_schema_refuses_what_the_reader_refuses_most_often() {
    for wrong in [
        "[[fault]]\nkind = \"kil\"\nat = \"5s\"\nduration = \"1s\"\n",
        "[[fault]]\nkind = \"kill\"\nduration = \"1s\"\n",
        "[[fault]]\nkind = \"kill\"\nat = \"5s\"\n",
        "[[fault]]\nkind = \"kill\"\nat = \"5s\"\nafter_acquisitions = 5\nduration = \"1s\"\n",
        "[[fault]]\nkind = \"kill\"\nat = \"5s\"\nduration = \"1s\"\ntarget = \"holder\"\n",
        "[[fault]]\nkind = \"kill\"\nat = \"5s\"\nduration = \"1s\"\ntarget = \"any\"\nserver = 1\n",
        "[[fault]]\nkind = \"wipe\"\nat = \"5s\"\nduration = \"1s\"\ntarget = \"all\"\n",
        "[[fault]]\nkind = \"partition\"\nat = \"5s\"\nduration = \"1s\"\ntarget = \"all\"\n",
        "[[fault]]\nkind = \"reset\"\nat = \"5s\"\nduration = \"1s\"\n",
        "[[fault]]\nkind = \"reset\"\nat = \"5s\"\nlatency = \"1s\"\n",
        "[[fault]]\nkind = \"reset\"\nat = 5\n",
    ] {
        assert!(complaints(wrong) > 0, "{wrong} passed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

    #[test]
    fn whatever_is_accepted_never_overlaps_itself_and_has_ended_with_the_measured_phase(
        kind in proptest::sample::select(fault::cards()),
        at in 0u64..70, duration in 1u64..20, times in 1u32..6, every in 1u64..30, jitter in 0u64..5,
        scale in proptest::sample::select(vec!["0.1", "1.0", "3.0"]),
    ) {
        let mut text = format!(
            "{HEAD}contenders = [4]\nduration = \"60s\"\ntime_scale = {scale}\n[[fault]]\nkind = \"{}\"\nat = \"{at}s\"\n\
             times = {times}\njitter = \"{jitter}s\"\n",
            kind.name
        );
        if kind.ends == Ends::Healed {
            text += &format!("duration = \"{duration}s\"\n");
        }
        if times > 1 {
            text += &format!("every = \"{every}s\"\n");
        }
        let length = if kind.ends == Ends::Healed { duration } else { 0 };
        let end = at + u64::from(times - 1) * every + jitter + length;
        // What takes no time must begin before the end.
        let ends = end < 60 || end == 60 && length > 0;
        let right = at < 60 && ends && (times == 1 || every > length + jitter);
        match read(&text) {
            Ok(parsed) => {
                prop_assert!(right, "accepted:\n{}", text);
                let fault = &Plan::of(&parsed.scenario).trials[0].faults[0];
                prop_assert!(fault.times == 1 || fault.every > fault.duration.unwrap_or_default() + fault.jitter);
            }
            Err(errors) => prop_assert!(!right, "refused:\n{}", errors),
        }
    }
}
