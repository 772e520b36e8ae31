//! The schema and the reference page agree with the parser.

use std::sync::LazyLock;

use crate::generated_docs::scenario_keys;
use crate::support::{answered::answered, cards::CARDS, json_schema::Schema};
use serde_json::{Value, json};

use zklockbench_core::catalog::LockCard;
use zklockbench_ensemble::fault;
use zklockbench_scenario::fields::{
    CLIENT, ENSEMBLE, FAULT, GATE, OPEN_KEYS, Section, distributions, fields, processes,
};
use zklockbench_scenario::schema;

fn validator(cards: &[LockCard]) -> Schema {
    Schema::new(&schema(cards, &fault::cards()))
}

pub fn complaints(file: &Value) -> Vec<String> {
    static VALIDATOR: LazyLock<Schema> = LazyLock::new(|| validator(&CARDS));
    VALIDATOR.complaints(file)
}

fn file(extra: Value) -> Value {
    let mut file = json!({ "name": "a", "strategies": ["polling"], "contenders": 2, "duration": "5s" });
    for (key, value) in extra.as_object().unwrap() {
        file[key] = value.clone();
    }
    file
}

#[test]
fn every_shipped_scenario_matches_the_schema() {
    let files = super::scenario_shipped::shipped();
    assert!(files.len() >= 7);
    let validator = validator(&zklockbench_locks::cards());
    for (name, text) in files {
        let value = serde_json::to_value(toml::from_str::<toml::Value>(&text).unwrap()).unwrap();
        let complaints = validator.complaints(&value);
        assert_eq!(complaints, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn schema_has_a_description_and_a_valid_default_for_every_key() {
    let schema = schema(&CARDS, &fault::cards());
    let faults = schema["properties"][FAULT]["items"]["anyOf"].as_array().unwrap();
    for field in fields() {
        let properties = match field.section {
            Section::Top => &schema["properties"],
            Section::Ensemble => &schema["properties"][ENSEMBLE]["properties"],
            Section::Client => &schema["properties"][CLIENT]["items"]["properties"],
            Section::Gate => &schema["properties"][GATE]["items"]["anyOf"][1]["properties"],
            Section::Fault => {
                let knows = |one: &&Value| one["properties"][field.name].is_object();
                &faults.iter().find(knows).unwrap()["properties"]
            }
        };
        let property = &properties[field.name];
        // Only the command line may set `compose`, so editors must not suggest the key.
        if field.name == "compose" {
            assert!(property.is_null());
            continue;
        }
        // The card of each fault describes `kind`.
        assert!(property["description"] == field.doc() || field.name == "kind", "{}", field.name);
        let default = &property["default"];
        assert!(!default.is_null() || field.default().is_none());
        if field.section == Section::Top && !default.is_null() {
            let alone = json!({ field.name: default });
            let within_open = json!({ "load": "open", "rate": 1, field.name: default });
            let extra = if OPEN_KEYS.contains(&field.name) { within_open } else { alone };
            assert_eq!(complaints(&file(extra)), Vec::<String>::new());
        }
    }
}

#[test]
fn every_strategy_can_be_a_name_or_a_table_with_its_parameters() {
    for card in &CARDS {
        let both = json!({ "strategies": [card.name, { "name": card.name }] });
        assert_eq!(complaints(&file(both)), Vec::<String>::new());
        let stranger = json!({ "strategies": [{ "name": card.name, "nonsense": 1 }] });
        assert!(!complaints(&file(stranger)).is_empty());
        for param in card.params {
            let value = param.default.parse::<bool>().map_or(json!(param.default), |flag| json!(flag));
            let set = json!({ "strategies": [{ "name": card.name, param.name: value }] });
            assert_eq!(complaints(&file(set)), Vec::<String>::new());
        }
    }
}

#[test]
fn the_schema_rejects_common_mistakes() {
    let snapshot = include_str!("snapshots/pure__scenario_schema__mistakes.snap");
    let answer = |lines: &str| {
        let extra = toml::from_str::<toml::Value>(lines).unwrap();
        let complaints = complaints(&file(serde_json::to_value(extra).unwrap()));
        assert!(!complaints.is_empty(), "{lines} passed");
        let shortly = |complaint: &String| match complaint.split_once(" against ") {
            Some((value, rule)) => format!("{value} against {}\n", rule.split(':').next().unwrap()),
            None => format!("{complaint}\n"),
        };
        complaints.iter().map(shortly).collect()
    };
    insta::assert_snapshot!("mistakes", answered(snapshot, answer));
}

#[test]
fn every_arrival_example_matches_the_schema() {
    let processes = processes();
    assert_eq!(processes.len(), 7);
    for process in processes {
        let example = toml::from_str::<toml::Value>(&format!("arrivals = {}", process.example)).unwrap();
        let mut extra = serde_json::to_value(example).unwrap();
        extra["load"] = json!("open");
        if ["poisson", "constant", "bursts", "day"].contains(&process.name.as_str()) {
            extra["rate"] = json!(4.5);
        }
        assert_eq!(complaints(&file(extra)), Vec::<String>::new(), "{}", process.name);
    }
}

#[test]
fn the_reference_page_lists_every_key_strategy_and_parameter() {
    let page = scenario_keys::page(&CARDS, &fault::cards());
    for field in fields() {
        assert!(page.contains(&format!("| `{}` |", field.name)), "{}", field.name);
    }
    for card in &CARDS {
        assert!(page.contains(&format!("| `{}` |", card.name)), "{}", card.name);
        assert!(card.params.iter().all(|param| page.contains(&format!("| `{}` |", param.name))));
    }
    assert!(page.contains("log-normal"));
    assert!(processes().iter().chain(&distributions()).all(|form| page.contains(&form.example)));
}
