//! The JSON Schema (draft 2020-12) of the scenario file, for editors that complete and check TOML.
//!
//! The schema covers single keys and the most common impossible combinations; `validate` checks everything.

use serde_json::{Map, Value, json};

use super::fields::{CLIENT, ENSEMBLE, FAULT, Field, GATE, Section, definitions, fields_of};
use zklockbench_core::catalog::fault::{Ends, FaultCard, Targets};
use zklockbench_core::catalog::{LockCard, Param, ParamKind};

/// Pattern of the durations that [`zklockbench_core::units::parse_duration`] accepts.
const DURATION_PATTERN: &str = r"^\s*(0|([0-9]+(\.[0-9]+)?\s*[a-zA-Zµ]+\s*)+)\s*$";

pub fn schema(locks: &[LockCard], kinds: &[FaultCard]) -> Value {
    let mut properties = properties(Section::Top);
    properties["strategies"]["items"] = strategies(locks);
    properties["strategies"]["minItems"] = json!(1);
    properties.insert(ENSEMBLE.to_owned(), ensemble());
    let clients = "Kinds of clients, if they are not all alike.";
    properties.insert(CLIENT.to_owned(), list(clients, &section(Section::Client)));
    let faults: Vec<_> = kinds.iter().map(fault).collect();
    let wrong = "Faults to inject into each trial.";
    properties.insert(FAULT.to_owned(), list(wrong, &json!({ "anyOf": faults })));
    let mut condition = json!({ "type": "string", "minLength": 1 });
    condition["examples"] =
        json!(["wait.p99 < 50ms", "throughput of baton > 1.2 * throughput of curator-mutex"]);
    let gates = "Conditions that the results must meet for exit code 0.";
    let gate = json!({ "anyOf": [condition, section(Section::Gate)] });
    properties.insert(GATE.to_owned(), list(gates, &gate));
    let mut definitions = definitions().clone();
    let duration =
        json!({ "type": "string", "pattern": DURATION_PATTERN, "examples": ["20ms", "1s", "2m 30s"] });
    definitions.insert("duration".to_owned(), duration);
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zklockbench scenario",
        "type": "object",
        "properties": properties,
        "required": required(Section::Top),
        "additionalProperties": false,
        "$defs": definitions,
    });
    let combinations: Map<String, Value> =
        serde_json::from_str(include_str!("combinations.json")).unwrap_or_default();
    if let Some(schema) = schema.as_object_mut() {
        schema.extend(combinations);
    }
    without_annotations(&mut schema);
    schema
}

/// Removes annotations that only the parser and the reference page use.
fn without_annotations(schema: &mut Value) {
    match schema {
        Value::Object(keywords) => {
            keywords.retain(|keyword, _| !keyword.starts_with("x-"));
            keywords.values_mut().for_each(without_annotations);
        }
        Value::Array(items) => items.iter_mut().for_each(without_annotations),
        _ => {}
    }
}

fn any_of(names: &[&str]) -> Value {
    let each: Vec<_> = names.iter().map(|name| json!({ "required": [name] })).collect();
    json!({ "anyOf": each })
}

fn ensemble() -> Value {
    // `compose` is not allowed in a file.
    let mut properties = properties(Section::Ensemble);
    properties.remove("compose");
    json!({
        "type": "object",
        "description": "An ensemble that the suite starts, or an existing one.",
        "properties": properties,
        "additionalProperties": false,
        "if": { "required": ["connect"] },
        "then": { "not": any_of(&["servers", "data_dir"]) },
    })
}

fn properties(section: Section) -> Map<String, Value> {
    fields_of(section).map(|field| (field.name.to_owned(), property(field))).collect()
}

fn required(section: Section) -> Vec<&'static str> {
    fields_of(section).filter(|field| field.is_required()).map(|field| field.name).collect()
}

fn property(field: &Field) -> Value {
    let mut schema = field.schema.clone();
    if let Some(text) = field.default() {
        // Defaults are TOML that is also valid JSON.
        schema["default"] = serde_json::from_str(text).unwrap_or_default();
    }
    schema
}

fn strategies(cards: &[LockCard]) -> Value {
    let names: Vec<_> = cards.iter().map(|card| card.name).collect();
    let mut choices = vec![json!({ "type": "string", "enum": names })];
    choices.extend(cards.iter().map(with_params));
    // A driver's locks are known only when the command line specifies the driver, so their parameters are not
    // described.
    let drivers: [Value; 2] = serde_json::from_str(include_str!("drivers.json")).unwrap_or_default();
    choices.extend(drivers);
    json!({ "anyOf": choices })
}

fn with_params(card: &LockCard) -> Value {
    let mut properties = Map::new();
    properties.insert("name".to_owned(), json!({ "const": card.name }));
    properties.extend(card.params.iter().map(|param| (param.name.to_owned(), parameter(param))));
    json!({
        "type": "object",
        "description": card.summary,
        "properties": properties,
        "required": ["name"],
        "additionalProperties": false,
    })
}

fn parameter(param: &Param) -> Value {
    let (mut value, default) = match param.kind {
        ParamKind::Duration => (json!({ "$ref": "#/$defs/duration" }), json!(param.default)),
        ParamKind::Bool => (json!({ "type": "boolean" }), json!(param.default == "true")),
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            (json!({ "type": "string", "enum": param.kind.words() }), json!(param.default))
        }
        ParamKind::Count(least, most) | ParamKind::CountWithin(least, most, _) => (
            json!({ "type": "integer", "minimum": least, "maximum": most }),
            json!(param.default.parse::<u64>().ok()),
        ),
    };
    value["description"] = json!(param.doc);
    value["default"] = default;
    value
}

fn list(description: &str, items: &Value) -> Value {
    json!({ "type": "array", "description": description, "items": items })
}

fn section(section: Section) -> Value {
    json!({
        "type": "object",
        "properties": properties(section),
        "required": required(section),
        "additionalProperties": false,
    })
}

fn fault(card: &FaultCard) -> Value {
    let mut properties = properties(Section::Fault);
    properties.retain(|name, _| has_key(card, name));
    properties["kind"] = json!({ "const": card.name, "description": card.summary });
    if let Some(target) = properties.get_mut("target") {
        target["enum"] = json!(card.words());
        target["default"] = json!(card.default_target);
    }
    properties.extend(card.params.iter().map(|param| (param.name.to_owned(), parameter(param))));
    let mut required = vec!["kind"];
    required.extend((card.ends == Ends::Healed).then_some("duration"));
    let both = |other: &str| json!({ "required": ["target", other] });
    json!({
        "type": "object",
        "description": card.summary,
        "properties": properties,
        "required": required,
        "oneOf": [{ "required": ["at"] }, { "required": ["after_acquisitions"] }],
        "not": { "anyOf": [both("server"), both("contender")] },
        "additionalProperties": false,
    })
}

/// Returns whether a key shared by all faults applies to this kind.
fn has_key(card: &FaultCard, name: &str) -> bool {
    match name {
        "target" => card.targets != Targets::Fixed,
        "server" => card.targets == Targets::Servers,
        "contender" => card.targets == Targets::Contenders,
        "duration" => card.ends == Ends::Healed,
        _ => true,
    }
}
