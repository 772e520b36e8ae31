//! `[[fault]]` tables in a scenario file: valid tables, and messages for every mistake.

use crate::scenario_plan::planned;
use crate::support::answered::answered;
use crate::support::cards::{self, CARDS};
use crate::support::diagnosed::{file, said_of_added_lines, said_of_files};
use proptest::prelude::*;
use zklockbench_core::catalog::fault::{Capability, Ends, FaultCard, Target};
use zklockbench_ensemble::fault;
use zklockbench_scenario::fields::{Section, fields_of};
use zklockbench_scenario::{Diagnostics, Parsed, TrialPlan, parse};

const HEAD: &str =
    "name = \"x\"\nstrategies = [\"parent-watch\"]\nwarm_up = \"1s\"\nacquire_timeout = \"30s\"\n";

fn read(text: &str) -> Result<Parsed, Diagnostics> {
    parse("x.toml", text, &cards::catalog())
}

/// Parses a scenario with four contenders and a duration of 60 s, followed by these lines.
fn parsed(lines: &str) -> Parsed {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{lines}");
    read(&text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The minimum set of lines for a kind of fault.
fn least(card: &FaultCard) -> String {
    let duration = if card.ends == Ends::Healed { "duration = \"1s\"\n" } else { "" };
    format!("[[fault]]\nkind = \"{}\"\nat = \"5s\"\n{duration}", card.name)
}

#[test]
fn every_fault_needs_a_start_and_every_healing_fault_a_duration() {
    let choice = |card| format!("{:?}\n", parsed(&least(card)).scenario.faults[0]);
    insta::assert_snapshot!("least", fault::cards().iter().map(choice).collect::<String>());
}

#[test]
fn faults_appear_in_trials_preview_and_advice() {
    let snapshot = include_str!("snapshots/pure__scenario_faults__planned.snap");
    let answer = |lines: &str| {
        let length =
            if lines.contains("contenders = ") { "" } else { "contenders = [4]\nduration = \"60s\"\n" };
        planned(&format!("{HEAD}{length}{lines}"))
    };
    insta::assert_snapshot!("planned", answered(snapshot, answer));
}

#[test]
fn every_fault_accepts_its_target_names() {
    for card in &fault::cards() {
        for word in card.words() {
            let choice = parsed(&format!("{}target = \"{word}\"\n", least(card))).scenario.faults.remove(0);
            assert_eq!(choice.target, Target::Word(word));
        }
    }
}

#[test]
fn no_fault_parameter_has_the_name_of_a_common_key() {
    for card in &fault::cards() {
        for param in card.params {
            let taken = fields_of(Section::Fault)
                .any(|field| field.name == param.name || field.also().any(|word| word == param.name));
            assert!(!taken, "{}: {}", card.name, param.name);
        }
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

/// Checks a scenario with a fault of this kind and this `[ensemble]`, which has at most one mistake.
fn check_in(ensemble: &str, card: &FaultCard, mistake: Option<&str>) {
    let text = format!(
        "name = \"x\"\nstrategies = [\"polling\"]\ncontenders = 4\nduration = \"60s\"\nacquire_timeout = \"9s\"\n\
         {}[ensemble]\n{ensemble}\n",
        least(card)
    );
    let message = mistake.map(|mistake| format!("7:8 `{}` {mistake}", card.name));
    file(&CARDS, &text, message.as_deref().as_slice());
}

#[test]
fn containers_support_every_fault_except_one_way_partitions() {
    let mistake = "drops messages from one server to another, but Docker can only disconnect a server from its whole \
                   network => use `isolate`, or remove `compose`: links between the suite's own servers can be cut";
    for card in &fault::cards() {
        let mistake = (card.needs == Capability::Links).then_some(mistake);
        check_in("compose = \"compose.yaml\"", card, mistake);
    }
}

#[test]
fn server_faults_are_rejected_on_foreign_ensembles() {
    let mistake = "disturbs servers, but the suite did not start the ensemble in `connect` => remove the fault or \
                   `connect`: by default, the suite never disturbs an existing ensemble. To allow faults, provide \
                   commands with --hosts FILE (docs/operating.md)";
    for card in &fault::cards() {
        let is_allowed = matches!(card.needs, Capability::Proxies | Capability::Contenders);
        check_in("connect = \"zk1:2181\"", card, (!is_allowed).then_some(mistake));
    }
}

/// Number of schema violations in a file with this fault.
fn complaints(fault: &str) -> usize {
    let text = format!("{HEAD}contenders = [4]\nduration = \"60s\"\n{fault}");
    let value: toml::Value = toml::from_str(&text).unwrap();
    super::scenario_schema::complaints(&serde_json::to_value(value).unwrap()).len()
}

#[test]
fn schema_accepts_every_kind_of_fault_with_its_targets_and_parameters() {
    for card in &fault::cards() {
        let quoted =
            |text: &str| text.parse::<u64>().map_or(format!("\"{text}\""), |number| number.to_string());
        let params = card.params.iter().map(|param| format!("{} = {}\n", param.name, quoted(param.default)));
        let with_params = format!("{}{}", least(card), params.collect::<String>());
        assert_eq!(complaints(&with_params), 0, "{}", card.name);
        for word in card.words() {
            let found = complaints(&format!("{}target = \"{word}\"\n", least(card)));
            assert_eq!(found, 0, "{} {word}", card.name);
        }
    }
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn repeated_faults_never_overlap_and_end_within_the_measured_phase(
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
        // An instantaneous fault must start before the end.
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
