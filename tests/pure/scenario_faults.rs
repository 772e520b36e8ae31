//! Valid `[[fault]]` tables of a scenario file, and every mistake that one can have.

use std::time::Duration;

use crate::support::cards;
use crate::support::cards::CARDS;
use crate::support::diagnosed::{file, said_of_added_lines, said_of_files};
use proptest::prelude::*;
use zklockbench_core::catalog::ParamValue;
use zklockbench_core::catalog::fault::{Capability, Ends, FaultCard, Start, Target, Targets};
use zklockbench_ensemble::fault;
use zklockbench_scenario::fields::{Section, fields_of};
use zklockbench_scenario::{Diagnostics, MachineDiagnostic, Parsed, Preview, TrialPlan, parse};

const HEAD: &str =
    "name = \"x\"\nstrategies = [\"parent-watch\"]\nwarm_up = \"1s\"\nacquire_timeout = \"30s\"\n";

fn read(text: &str) -> Result<Parsed, Diagnostics> {
    parse("x.toml", text, &cards::catalog())
}

/// A scenario of four contenders and a measured phase of 60 s, followed by these lines.
fn parsed(lines: &str) -> Parsed {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{lines}");
    read(&text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The lines that a kind requires.
fn least(card: &FaultCard) -> String {
    let duration = if card.ends == Ends::Healed { "duration = \"1s\"\n" } else { "" };
    format!("[[fault]]\nkind = \"{}\"\nat = \"5s\"\n{duration}", card.name)
}

#[test]
fn every_fault_is_valid_with_a_start_and_a_duration_if_it_heals() {
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
fn every_fault_accepts_its_target_names_and_numbers() {
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
fn no_parameter_has_the_name_of_a_common_key() {
    for card in &fault::cards() {
        for param in card.params {
            let taken = fields_of(Section::Fault)
                .any(|field| field.name == param.name || field.also().any(|word| word == param.name));
            assert!(!taken, "{}: {}", card.name, param.name);
        }
    }
}

#[test]
fn set_parameters_are_in_force_and_in_the_label() {
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
fn times_of_a_fault_are_scaled_and_its_label_is_not() {
    let lines = "time_scale = 0.1\n[[fault]]\nkind = \"delay\"\nat = \"5s\"\nduration = \"1s\"\ntimes = 2\nevery = \"10s\"\n\
                 jitter = \"2s\"\nlatency = \"50ms\"\n";
    let plan = TrialPlan::of(&parsed(lines).scenario);
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
fn the_preview_shows_target_and_time_of_each_fault() {
    let lines = "time_scale = 0.5\n[[fault]]\nkind = \"kill\"\nat = \"5s\"\nduration = \"2s\"\ntimes = 3\nevery = \"10s\"\n\
                 jitter = \"1s\"\n[[fault]]\nkind = \"crash\"\nafter_acquisitions = 100\n";
    let preview = Preview::of(&parsed(lines));
    let shown = preview.to_string();
    for expected in [
        "\nfault: kill leader, at 2.5 s for 1 s, 3 times, every 5 s, delayed by up to 500 ms at random\n",
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
fn a_scenario_without_faults_prints_none() {
    for lines in ["", "fault = []\n"] {
        let parsed = parsed(lines);
        assert_eq!(parsed.scenario.faults, []);
        assert!(TrialPlan::of(&parsed.scenario).trials.iter().all(|trial| trial.faults.is_empty()));
        let preview = Preview::of(&parsed);
        assert!(!preview.to_string().contains("fault"));
        assert!(serde_json::to_value(&preview).unwrap().get("faults").is_none());
    }
}

#[test]
fn errors_in_faults_added_to_a_valid_file_are_reported() {
    insta::assert_snapshot!(
        "errors_in_added_faults",
        said_of_added_lines(
            &CARDS,
            include_str!("snapshots/pure__scenario_faults__errors_in_added_faults.snap")
        )
    );
}

#[test]
fn errors_in_files_with_faults_are_reported() {
    insta::assert_snapshot!(
        "errors_in_files_with_faults",
        said_of_files(
            &CARDS,
            include_str!("snapshots/pure__scenario_faults__errors_in_files_with_faults.snap")
        )
    );
}

#[test]
fn containers_support_every_fault_except_one_way_partitions() {
    for card in &fault::cards() {
        let message = format!(
            "7:8 `{}` drops what one server sends to another, which Docker cannot do: it takes a server \
             off its network altogether => use `isolate`, or leave out `compose`: the suite's own servers \
             have networks that can be cut",
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
fn foreign_servers_are_never_disturbed() {
    for card in &fault::cards() {
        let message = format!(
            "6:8 `{}` disturbs servers, but `connect` names an ensemble that the suite did not start => \
             leave out the fault or `connect`: servers that others rely on are never disturbed. If these \
             may be broken, give commands that do it: --hosts FILE (docs/operating.md)",
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

fn warnings(lines: &str) -> Vec<String> {
    let shown = |warning: MachineDiagnostic| {
        format!("{}:{} {}", warning.position.line, warning.position.column, warning.message)
    };
    parsed(lines).warnings.machine().into_iter().map(shown).collect()
}

#[test]
fn outages_longer_than_the_session_timeout_get_advice() {
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
fn loads_without_waiters_get_advice() {
    let text = format!(
        "{HEAD}contenders = [4, 1]\nduration = \"60s\"\n[[fault]]\nkind = \"clock-jump\"\nat = \"5s\"\n"
    );
    let warnings = read(&text).unwrap().warnings.machine();
    let messages: Vec<_> = warnings.into_iter().map(|warning| warning.message).collect();
    assert_eq!(
        messages,
        ["with 1 contender no contender ever waits, so `clock-jump waiter` hits no contender there"]
    );
}

#[test]
fn fault_that_may_outlast_the_load_is_warned_about_however_its_start_is_given() {
    let warnings = |lines: &str| -> Vec<String> {
        let measured = if lines.contains("at = \"1h\"") { "acquisitions = 50" } else { "duration = \"3s\"" };
        let text = format!("{HEAD}contenders = [3]\nhold = \"10ms\"\n{measured}\n[[fault]]\n{lines}");
        let told = read(&text).unwrap().warnings.machine().into_iter().map(|warning| warning.message);
        told.filter(|message| message.contains("is not proved")).collect()
    };
    let freeze = |when: &str, lasts: &str| format!("kind = \"freeze\"\n{when}\nduration = \"{lasts}\"\n");
    for late in [
        // The scenario that revealed the problem: about 200 acquisitions of 13 ms each
        freeze("after_acquisitions = 200", "2900ms"),
        freeze("after_acquisitions = 1000", "100ms"),
        freeze("after_acquisitions = 1", "2900ms"),
        freeze("after_acquisitions = 1\ntimes = 3\nevery = \"900ms\"", "800ms"),
        freeze("at = \"100ms\"", "2900ms"),
        "kind = \"crash\"\nafter_acquisitions = 1000\n".into(),
        // Acquisitions end this load after about two seconds
        "kind = \"crash\"\nat = \"1h\"\n".into(),
    ] {
        assert_eq!(warnings(&late).len(), 1, "{late}");
    }
    for early in [
        freeze("after_acquisitions = 10", "2s"),
        freeze("at = \"100ms\"", "2s"),
        "kind = \"crash\"\nafter_acquisitions = 10\n".into(),
    ] {
        assert_eq!(warnings(&early), [""; 0], "{early}");
    }
    let told = warnings(&freeze("at = \"100ms\"", "2900ms"));
    assert_eq!(
        told,
        [
            "`freeze holder` may last until about 3 s of the 3 s measured; a fault that the end of the load cuts short is \
          not proved"
        ]
    );
}

/// Number of schema violations of a file with this fault.
fn complaints(fault: &str) -> usize {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{fault}");
    let value: toml::Value = toml::from_str(&text).unwrap();
    super::scenario_schema::complaints(&serde_json::to_value(value).unwrap()).len()
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
fn the_schema_refuses_the_most_common_mistakes() {
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
    #![proptest_config(crate::cases())]

    #[test]
    fn accepted_faults_never_overlap_themselves_and_end_with_the_measured_phase(
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
        // A fault without a duration must begin before the end.
        let ends = end < 60 || end == 60 && length > 0;
        let right = at < 60 && ends && (times == 1 || every > length + jitter);
        match read(&text) {
            Ok(parsed) => {
                prop_assert!(right, "accepted:\n{}", text);
                let fault = &TrialPlan::of(&parsed.scenario).trials[0].faults[0];
                prop_assert!(fault.times == 1 || fault.every > fault.duration.unwrap_or_default() + fault.jitter);
            }
            Err(errors) => prop_assert!(!right, "refused:\n{}", errors),
        }
    }
}
