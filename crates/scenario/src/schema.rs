//! The JSON Schema (draft 2020-12) of the scenario file, for editors that complete and check TOML.
//!
//! It says what one key may hold and the commonest impossible combinations; `validate` says everything.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use super::distribution::MeasuredTimes;
use super::fields::{
    CLIENT, DRAWN, ENSEMBLE, FAULT, Field, Form, GATE, KeyKind, Need, OPEN_KEYS, PROCESSES, SHAPES, Section,
    SubKey, fields_of,
};
use zklockbench_core::catalog::fault::{Ends, FaultCard, Targets};
use zklockbench_core::catalog::{LockCard, Param, ParamKind};

/// Durations as [`zklockbench_core::units::parse_duration`] reads them.
const DURATION_PATTERN: &str = r"^\s*(0|([0-9]+(\.[0-9]+)?\s*[a-zA-Zµ]+\s*)+)\s*$";
const SENSITIVITY_PATTERN: &str = r"^\s*0?\.[0-9]+\s*@\s*[0-9]+(\.[0-9]+)?\s*%\s*$";
const PERCENT_PATTERN: &str = r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$";
const NAME_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,59}$";

pub fn schema(locks: &[LockCard], kinds: &[FaultCard]) -> Value {
    let mut properties = properties(Section::Top, locks);
    properties.insert(ENSEMBLE.to_owned(), ensemble(locks));
    let clients = "The kinds of clients, where they are not all alike.";
    properties.insert(CLIENT.to_owned(), list(clients, &section(Section::Client)));
    let faults: Vec<_> = kinds.iter().map(fault).collect();
    let wrong = "What goes wrong on purpose in each trial.";
    properties.insert(FAULT.to_owned(), list(wrong, &json!({ "anyOf": faults })));
    let gate = json!({ "anyOf": [kind(&KeyKind::Gate, &[]), section(Section::Gate)] });
    let gates = "What the results must show for the run to end with exit code 0.";
    properties.insert(GATE.to_owned(), list(gates, &gate));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zklockbench scenario",
        "type": "object",
        "properties": properties,
        "required": required(Section::Top),
        "additionalProperties": false,
        "if": load_is("open"),
        "then": open(),
        "else": {
            "not": any_of(OPEN_KEYS),
            "if": load_is("batch"),
            "then": { "not": any_of(&["duration"]) },
            "else": { "oneOf": [{ "required": ["duration"] }, { "required": ["acquisitions"] }] },
        },
        "$defs": {
            "duration": {
                "type": "string",
                "pattern": DURATION_PATTERN,
                "examples": ["20ms", "1s", "2m 30s"],
            },
            "distribution": distribution(),
            "arrivals": arrivals(),
        },
    })
}

fn load_is(word: &str) -> Value {
    json!({ "properties": { "load": { "const": word } }, "required": ["load"] })
}

fn any_of(names: &[&str]) -> Value {
    let each: Vec<_> = names.iter().map(|name| json!({ "required": [name] })).collect();
    json!({ "anyOf": each })
}

fn open() -> Value {
    let with_own_rates: Vec<_> = PROCESSES
        .iter()
        .filter(|process| !process.takes_rate)
        .map(|process| json!({ "required": [process.name] }))
        .collect();
    let is_one_of = |choices: &[Value]| {
        let table = json!({ "type": "object", "anyOf": choices });
        json!({ "properties": { "arrivals": table }, "required": ["arrivals"] })
    };
    json!({
        "not": any_of(&["acquisitions"]),
        "allOf": [
            {
                "if": is_one_of(&with_own_rates),
                "then": { "not": any_of(&["rate", "rate_each"]) },
                "else": { "oneOf": [{ "required": ["rate"] }, { "required": ["rate_each"] }] },
            },
            {
                "if": is_one_of(&[json!({ "required": ["replay"] })]),
                "else": { "required": ["duration"] },
            },
        ],
    })
}

fn arrivals() -> Value {
    let words: Vec<_> =
        PROCESSES.iter().filter(|process| process.form == Form::Word).map(|process| process.name).collect();
    let mut choices = vec![json!({ "type": "string", "enum": words })];
    choices.extend(PROCESSES.iter().filter_map(|one| named(one.name, one.doc, one.form)));
    json!({ "anyOf": choices })
}

/// A process or shape that is written as a table; `None` for one that is a word.
fn named(name: &str, doc: &str, form: Form) -> Option<Value> {
    let inner = match form {
        Form::Word => return None,
        Form::Table(parts) => table_of(parts),
        Form::List(parts) => json!({ "type": "array", "items": table_of(parts), "minItems": 1 }),
        Form::Durations => json!({
            "type": "array",
            "items": kind(&KeyKind::Duration(DRAWN), &[]),
            "minItems": 1,
            "maxItems": MeasuredTimes::MOST,
        }),
        Form::File => kind(&KeyKind::Path, &[]),
    };
    Some(table_of_one(name, doc, &inner))
}

fn table_of(parts: &[SubKey]) -> Value {
    let properties: Map<_, _> =
        parts.iter().map(|part| (part.name.to_owned(), kind(&part.kind, &[]))).collect();
    json!({
        "type": "object",
        "required": properties.keys().collect::<Vec<_>>(),
        "properties": properties,
        "additionalProperties": false,
    })
}

fn table_of_one(name: &str, doc: &str, inner: &Value) -> Value {
    json!({
        "type": "object",
        "description": doc,
        "properties": { name: inner },
        "required": [name],
        "additionalProperties": false,
    })
}

fn ensemble(cards: &[LockCard]) -> Value {
    // No file may say it.
    let mut properties = properties(Section::Ensemble, cards);
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

fn properties(section: Section, cards: &[LockCard]) -> Map<String, Value> {
    fields_of(section).map(|field| (field.name.to_owned(), property(field, cards))).collect()
}

fn required(section: Section) -> Vec<&'static str> {
    fields_of(section).filter(|field| field.need == Need::Required).map(|field| field.name).collect()
}

fn property(field: &Field, cards: &[LockCard]) -> Value {
    let mut value = kind(&field.kind, cards);
    value["description"] = json!(field.doc);
    if let Need::Default(text) = field.need {
        // Every default is written so that JSON reads it as TOML does.
        value["default"] = serde_json::from_str(text).unwrap_or(Value::Null);
    }
    value
}

fn kind(kind: &KeyKind, cards: &[LockCard]) -> Value {
    match kind {
        KeyKind::Name => json!({ "type": "string", "pattern": NAME_PATTERN }),
        KeyKind::Text => json!({ "type": "string" }),
        KeyKind::Path | KeyKind::Connect => json!({ "type": "string", "minLength": 1 }),
        KeyKind::Strategies => strategies(cards),
        KeyKind::Count(bounds) => count(bounds),
        KeyKind::Counts(bounds) => json!({ "anyOf": [
            count(bounds),
            { "type": "array", "items": count(bounds), "minItems": 1, "uniqueItems": true },
        ] }),
        KeyKind::OneOfCounts(choices) => json!({ "type": "integer", "enum": choices }),
        KeyKind::Duration(_) => json!({ "$ref": "#/$defs/duration" }),
        KeyKind::Distribution => json!({ "$ref": "#/$defs/distribution" }),
        KeyKind::Arrivals => json!({ "$ref": "#/$defs/arrivals" }),
        KeyKind::Popularity(bounds) => json!({ "anyOf": [
            { "const": "uniform" },
            table_of_one("zipf", "the power by which popularity falls with the rank", &number(bounds)),
        ] }),
        KeyKind::Word(words) => json!({ "type": "string", "enum": words }),
        KeyKind::Factor(bounds) => number(bounds),
        KeyKind::Sensitivity => json!({ "type": "string", "pattern": SENSITIVITY_PATTERN }),
        KeyKind::Percent(_) => json!({ "type": "string", "pattern": PERCENT_PATTERN }),
        // What these hold depends on the fault.
        KeyKind::Fault | KeyKind::Target => json!({ "type": "string" }),
        KeyKind::Gate => json!({
            "type": "string",
            "minLength": 1,
            "examples": ["wait.p99 < 50ms", "throughput of baton > 1.2 * throughput of curator-mutex"],
        }),
    }
}

fn count(bounds: &RangeInclusive<u64>) -> Value {
    json!({ "type": "integer", "minimum": bounds.start(), "maximum": bounds.end() })
}

fn number(bounds: &RangeInclusive<f64>) -> Value {
    json!({ "type": "number", "minimum": bounds.start(), "maximum": bounds.end() })
}

fn distribution() -> Value {
    let mut choices = vec![json!({ "$ref": "#/$defs/duration" })];
    choices.extend(SHAPES.iter().filter_map(|one| named(one.name, one.doc, one.form)));
    json!({ "anyOf": choices })
}

fn strategies(cards: &[LockCard]) -> Value {
    let names: Vec<_> = cards.iter().map(|card| card.name).collect();
    let mut choices = vec![json!({ "type": "string", "enum": names })];
    choices.extend(cards.iter().map(with_params));
    choices.extend(of_drivers());
    json!({ "type": "array", "items": { "anyOf": choices }, "minItems": 1 })
}

/// Locks of drivers, which are known only where they are named on the command line: nothing is said of their parameters.
fn of_drivers() -> [Value; 2] {
    [
        json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9-]*:[A-Za-z0-9_.-]+$" }),
        json!({
            "type": "object",
            "description": "a lock of another program, which --driver NAME=COMMAND names",
            "properties": {
                "driver": { "type": "string" },
                "lock": { "type": "string" },
                "processes": {
                    "description": "over how many processes of the driver the contenders are spread",
                    "anyOf": [
                        { "type": "string", "enum": ["one", "per-contender"] },
                        { "type": "integer", "minimum": 1, "maximum": 1000 },
                    ],
                },
            },
            "required": ["driver", "lock"],
        }),
    ]
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
        "properties": properties(section, &[]),
        "required": required(section),
        "additionalProperties": false,
    })
}

fn fault(card: &FaultCard) -> Value {
    let mut properties = properties(Section::Fault, &[]);
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

/// Whether a key of all faults means something to this kind.
fn has_key(card: &FaultCard, name: &str) -> bool {
    match name {
        "target" => card.targets != Targets::Fixed,
        "server" => card.targets == Targets::Servers,
        "contender" => card.targets == Targets::Contenders,
        "duration" => card.ends == Ends::Healed,
        _ => true,
    }
}
