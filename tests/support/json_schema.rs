//! JSON Schema validator for the keywords that the schemas of this repository use. It panics on any other
//! keyword.

use regex::Regex;
use serde_json::{Map, Value};

const KINDS: [&str; 7] = ["null", "boolean", "object", "array", "string", "number", "integer"];
/// Keywords that do not affect validation.
const ANNOTATIONS: [&str; 8] =
    ["$schema", "$id", "$comment", "title", "description", "markdownDescription", "format", "deprecated"];

pub struct Schema(Value);

impl Schema {
    /// Panics if `schema` is invalid.
    pub fn new(schema: &Value) -> Self {
        let new = Self(schema.clone());
        new.assert_is_schema(&new.0);
        new
    }

    fn assert_is_schema(&self, schema: &Value) {
        let Value::Object(keywords) = schema else {
            assert!(schema.is_boolean(), "not a schema: {schema}");
            return;
        };
        for (keyword, rule) in keywords {
            let is_right = match keyword.as_str() {
                "$ref" => self.0.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).is_some(),
                "properties" | "patternProperties" | "$defs" | "definitions" => {
                    rule.as_object().unwrap().values().for_each(|one| self.assert_is_schema(one));
                    true
                }
                "dependencies" | "dependentRequired" => {
                    let rules = rule.as_object().unwrap().values();
                    rules.filter(|one| !one.is_array()).for_each(|one| self.assert_is_schema(one));
                    true
                }
                "items" | "additionalProperties" | "propertyNames" | "not" | "if" | "then" | "else" => {
                    self.assert_is_schema(rule);
                    true
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                    rule.as_array().unwrap().iter().for_each(|one| self.assert_is_schema(one));
                    true
                }
                "type" => {
                    let kinds = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
                    kinds.iter().all(|kind| KINDS.contains(&kind.as_str().unwrap()))
                }
                "enum" | "required" => rule.is_array(),
                "const" | "default" | "examples" => true,
                "pattern" => pattern(rule.as_str().unwrap()).is_ok(),
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                    rule.is_u64()
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => rule.is_number(),
                "uniqueItems" => rule.is_boolean(),
                annotation => ANNOTATIONS.contains(&annotation) || annotation.starts_with("x-"),
            };
            assert!(is_right, "{keyword}: {rule}");
        }
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.complaints(value).is_empty()
    }

    /// Violations in a value, with their positions.
    pub fn complaints(&self, value: &Value) -> Vec<String> {
        let mut complaints = Vec::new();
        self.check(&self.0, value, "", &mut complaints);
        complaints
    }

    fn allows(&self, schema: &Value, value: &Value) -> bool {
        let mut complaints = Vec::new();
        self.check(schema, value, "", &mut complaints);
        complaints.is_empty()
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, complaints: &mut Vec<String>) {
        let schema = match schema {
            Value::Bool(true) => return,
            Value::Bool(false) => return complaints.push(format!("{at}: no value is allowed here")),
            schema => schema.as_object().expect("a schema must be an object"),
        };
        if let Some(path) = schema.get("$ref") {
            let path = path.as_str().unwrap().strip_prefix('#').expect("`$ref` must start with `#`");
            self.check(self.0.pointer(path).unwrap(), value, at, complaints);
        }
        for (keyword, rule) in schema.iter().filter(|(keyword, _)| *keyword != "$ref") {
            if !self.follows(keyword, rule, schema, value, at, complaints) {
                complaints.push(format!("{at}: {value} against {keyword}: {rule}"));
            }
        }
    }

    /// Returns whether a value satisfies one keyword. Adds violations in nested values to `complaints`.
    fn follows(
        &self,
        keyword: &str,
        rule: &Value,
        schema: &Map<String, Value>,
        value: &Value,
        at: &str,
        complaints: &mut Vec<String>,
    ) -> bool {
        let allowing = || rule.as_array().unwrap().iter().filter(|one| self.allows(one, value)).count();
        match keyword {
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "enum" => rule.as_array().unwrap().iter().any(|one| is_same(one, value)),
            "const" => is_same(rule, value),
            "anyOf" => allowing() > 0,
            "oneOf" => allowing() == 1,
            "allOf" => {
                for one in rule.as_array().unwrap() {
                    self.check(one, value, at, complaints);
                }
                true
            }
            "not" => !self.allows(rule, value),
            "if" => {
                let branch = if self.allows(rule, value) { "then" } else { "else" };
                if let Some(branch) = schema.get(branch) {
                    self.check(branch, value, at, complaints);
                }
                true
            }
            _ => match value {
                Value::Object(members) => self.object_follows(keyword, rule, schema, members, at, complaints),
                Value::Array(items) => self.array_follows(keyword, rule, items, at, complaints),
                Value::String(text) => text_follows(keyword, rule, text),
                Value::Number(number) => number_follows(keyword, rule, number.as_f64().unwrap()),
                Value::Bool(_) | Value::Null => true,
            },
        }
    }

    fn object_follows(
        &self,
        keyword: &str,
        rule: &Value,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
        complaints: &mut Vec<String>,
    ) -> bool {
        match keyword {
            "required" => {
                rule.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
            }
            "minProperties" => members.len() as u64 >= rule.as_u64().unwrap(),
            "maxProperties" => members.len() as u64 <= rule.as_u64().unwrap(),
            "properties" => {
                for (name, rule) in rule.as_object().unwrap() {
                    if let Some(member) = members.get(name) {
                        self.check(rule, member, &format!("{at}/{name}"), complaints);
                    }
                }
                true
            }
            "patternProperties" => {
                for (pattern, rule) in rule.as_object().unwrap() {
                    let pattern = self::pattern(pattern).unwrap();
                    for (name, member) in members.iter().filter(|(name, _)| pattern.is_match(name)) {
                        self.check(rule, member, &format!("{at}/{name}"), complaints);
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, member) in members.iter().filter(|(name, _)| !is_named(schema, name)) {
                    self.check(rule, member, &format!("{at}/{name}"), complaints);
                }
                true
            }
            "propertyNames" => members.keys().all(|name| self.allows(rule, &Value::String(name.clone()))),
            "dependencies" | "dependentRequired" => {
                for (_, rule) in
                    rule.as_object().unwrap().iter().filter(|(name, _)| members.contains_key(*name))
                {
                    match rule {
                        Value::Array(names) => {
                            let is_there = |name: &Value| members.contains_key(name.as_str().unwrap());
                            if !names.iter().all(is_there) {
                                return false;
                            }
                        }
                        rule => self.check(rule, &Value::Object(members.clone()), at, complaints),
                    }
                }
                true
            }
            _ => true,
        }
    }

    fn array_follows(
        &self,
        keyword: &str,
        rule: &Value,
        items: &[Value],
        at: &str,
        complaints: &mut Vec<String>,
    ) -> bool {
        match keyword {
            "minItems" => items.len() as u64 >= rule.as_u64().unwrap(),
            "maxItems" => items.len() as u64 <= rule.as_u64().unwrap(),
            "uniqueItems" => {
                rule == &Value::Bool(false) || (1..items.len()).all(|at| !items[..at].contains(&items[at]))
            }
            "items" => {
                for (number, item) in items.iter().enumerate() {
                    self.check(rule, item, &format!("{at}/{number}"), complaints);
                }
                true
            }
            "prefixItems" => {
                for (number, (item, rule)) in items.iter().zip(rule.as_array().unwrap()).enumerate() {
                    self.check(rule, item, &format!("{at}/{number}"), complaints);
                }
                true
            }
            _ => true,
        }
    }
}

fn text_follows(keyword: &str, rule: &Value, text: &str) -> bool {
    let length = text.chars().count() as u64;
    match keyword {
        "pattern" => pattern(rule.as_str().unwrap()).unwrap().is_match(text),
        "minLength" => length >= rule.as_u64().unwrap(),
        "maxLength" => length <= rule.as_u64().unwrap(),
        _ => true,
    }
}

fn number_follows(keyword: &str, rule: &Value, number: f64) -> bool {
    match keyword {
        "minimum" => number >= rule.as_f64().unwrap(),
        "maximum" => number <= rule.as_f64().unwrap(),
        "exclusiveMinimum" => number > rule.as_f64().unwrap(),
        "exclusiveMaximum" => number < rule.as_f64().unwrap(),
        _ => true,
    }
}

/// Compiles a JavaScript pattern. In JavaScript, `\w` and `\d` match only ASCII characters.
fn pattern(text: &str) -> Result<Regex, regex::Error> {
    Regex::new(&text.replace(r"\w", "[A-Za-z0-9_]").replace(r"\d", "[0-9]"))
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("unknown type: {other}"),
    }
}

/// Returns whether two values are equal; 1 equals 1.0.
fn is_same(one: &Value, other: &Value) -> bool {
    one == other || (one.is_number() && one.as_f64() == other.as_f64())
}

/// Returns whether a schema's `properties` or `patternProperties` match a name.
fn is_named(schema: &Map<String, Value>, name: &str) -> bool {
    let of = |keyword| schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    of("properties").any(|one| one == name)
        || of("patternProperties").any(|one| pattern(one).unwrap().is_match(name))
}

#[test]
fn the_json_schema_validator_supports_every_keyword() {
    use serde_json::json;
    for (schema, right, wrong) in [
        (json!({ "type": "integer", "minimum": 0 }), json!(1.0), json!(-1)),
        (json!({ "type": ["string", "null"], "minLength": 2 }), json!(null), json!("a")),
        (json!({ "enum": ["a", 1] }), json!(1), json!("b")),
        (json!({ "const": 1 }), json!(1.0), json!(2)),
        (json!({ "oneOf": [{ "minimum": 1 }, { "maximum": 3 }] }), json!(0), json!(2)),
        (json!({ "anyOf": [{ "maximum": 1 }, { "minimum": 3 }] }), json!(3), json!(2)),
        (json!({ "allOf": [{ "minimum": 1 }, { "maximum": 3 }] }), json!(2), json!(4)),
        (json!({ "not": { "type": "string" } }), json!(2), json!("a")),
        (json!({ "if": { "minimum": 5 }, "then": { "maximum": 7 }, "else": false }), json!(6), json!(1)),
        (json!({ "exclusiveMinimum": 1, "exclusiveMaximum": 3 }), json!(2), json!(3)),
        (json!({ "pattern": "^a.$", "maxLength": 2 }), json!("ab"), json!("ba")),
        (json!({ "items": { "type": "string" }, "minItems": 1, "maxItems": 2 }), json!(["a"]), json!([1])),
        (json!({ "uniqueItems": true }), json!([1, 2]), json!([1, 1])),
        (json!({ "prefixItems": [{ "const": 1 }] }), json!([1, 5]), json!([2])),
        (json!({ "required": ["a"], "minProperties": 1 }), json!({ "a": 1 }), json!({ "b": 1 })),
        (json!({ "maxProperties": 1 }), json!({ "a": 1 }), json!({ "a": 1, "b": 1 })),
        (json!({ "properties": { "a": { "type": "null" } } }), json!({ "b": 1 }), json!({ "a": 1 })),
        (
            json!({ "properties": { "a": {} }, "patternProperties": { "^x": {} }, "additionalProperties": false }),
            json!({ "a": 1, "xy": 2 }),
            json!({ "b": 1 }),
        ),
        (json!({ "patternProperties": { "^x": { "const": 1 } } }), json!({ "y": 2 }), json!({ "x": 2 })),
        (json!({ "propertyNames": { "pattern": "^a" } }), json!({ "ab": 1 }), json!({ "b": 1 })),
        (json!({ "dependencies": { "a": ["b"] } }), json!({ "a": 1, "b": 1 }), json!({ "a": 1 })),
        (json!({ "$ref": "#/$defs/a", "$defs": { "a": { "const": 1 } } }), json!(1), json!(2)),
    ] {
        let known = Schema::new(&schema);
        assert_eq!(known.complaints(&right), Vec::<String>::new(), "{schema}");
        assert!(!known.is_valid(&wrong), "{schema}");
    }
}
