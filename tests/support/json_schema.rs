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
            return assert!(schema.is_boolean(), "not a schema: {schema}");
        };
        for (keyword, rule) in keywords {
            let mut inner: Vec<&Value> = Vec::new();
            let is_right = match keyword.as_str() {
                "$ref" => self.0.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).is_some(),
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependencies"
                | "dependentRequired" => {
                    inner.extend(object(rule).values().filter(|one| !one.is_array()));
                    true
                }
                "items" | "additionalProperties" | "propertyNames" | "not" | "if" | "then" | "else" => {
                    inner.push(rule);
                    true
                }
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                    inner.extend(list(rule));
                    true
                }
                "type" => kinds(rule).iter().all(|kind| KINDS.contains(&kind.as_str().unwrap())),
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
            inner.into_iter().for_each(|one| self.assert_is_schema(one));
        }
    }

    pub fn is_valid(&self, value: &Value) -> bool {
        self.complaints(value).is_empty()
    }

    /// Violations in a value, with their positions.
    pub fn complaints(&self, value: &Value) -> Vec<String> {
        self.violations(&self.0, value, "")
    }

    fn allows(&self, schema: &Value, value: &Value) -> bool {
        self.violations(schema, value, "").is_empty()
    }

    fn violations(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let rules = match schema {
            Value::Bool(true) => return Vec::new(),
            Value::Bool(false) => return vec![format!("{at}: no value is allowed here")],
            schema => schema.as_object().expect("a schema must be an object"),
        };
        let others = rules.iter().filter(|(keyword, _)| *keyword != "$ref");
        let mut violations = Vec::new();
        for (keyword, rule) in rules.get_key_value("$ref").into_iter().chain(others) {
            for (schema, value, at) in self.parts(keyword, rule, rules, value, at) {
                violations.extend(self.violations(schema, value, &at));
            }
            if !self.follows(keyword, rule, value) {
                violations.push(format!("{at}: {value} against {keyword}: {rule}"));
            }
        }
        violations
    }

    /// Returns the schemas in a rule that apply to the value or its members, each with that value and its position.
    fn parts<'a>(
        &'a self,
        keyword: &str,
        rule: &'a Value,
        rules: &'a Map<String, Value>,
        value: &'a Value,
        at: &str,
    ) -> Vec<(&'a Value, &'a Value, String)> {
        let here = |rule: &'a Value| (rule, value, at.to_owned());
        let member = |rule: &'a Value, name: &str, member: &'a Value| (rule, member, format!("{at}/{name}"));
        match (keyword, value) {
            ("$ref", _) => {
                let path = rule.as_str().unwrap().strip_prefix('#').expect("`$ref` must start with `#`");
                vec![here(self.0.pointer(path).unwrap())]
            }
            ("allOf", _) => list(rule).iter().map(here).collect(),
            ("if", _) => {
                let branch = if self.allows(rule, value) { "then" } else { "else" };
                rules.get(branch).map(here).into_iter().collect()
            }
            ("properties", Value::Object(members)) => {
                let named =
                    object(rule).iter().filter_map(|(name, rule)| Some((name, rule, members.get(name)?)));
                named.map(|(name, rule, value)| member(rule, name, value)).collect()
            }
            ("patternProperties", Value::Object(members)) => {
                let all = object(rule).iter().map(|(text, rule)| (pattern(text).unwrap(), rule));
                all.flat_map(|(pattern, rule)| {
                    let matching = members.iter().filter(move |(name, _)| pattern.is_match(name));
                    matching.map(move |(name, value)| member(rule, name, value))
                })
                .collect()
            }
            ("additionalProperties", Value::Object(members)) => {
                let others = members.iter().filter(|(name, _)| !is_named(rules, name));
                others.map(|(name, value)| member(rule, name, value)).collect()
            }
            ("dependencies", Value::Object(members)) => {
                let there = object(rule).iter().filter(|(name, _)| members.contains_key(*name));
                there.map(|(_, rule)| rule).filter(|rule| !rule.is_array()).map(here).collect()
            }
            ("items", Value::Array(items)) => {
                (0..).zip(items).map(|(at, item): (usize, _)| member(rule, &at.to_string(), item)).collect()
            }
            ("prefixItems", Value::Array(items)) => {
                let both = (0..).zip(items.iter().zip(list(rule)));
                both.map(|(at, (item, rule)): (usize, _)| member(rule, &at.to_string(), item)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a value satisfies one keyword, apart from the schemas in [`Self::parts`].
    fn follows(&self, keyword: &str, rule: &Value, value: &Value) -> bool {
        let allowing = || list(rule).iter().filter(|one| self.allows(one, value)).count();
        let limit = || rule.as_f64().unwrap();
        match (keyword, value) {
            ("type", _) => kinds(rule).iter().any(|kind| is_of(kind, value)),
            ("enum", _) => list(rule).iter().any(|one| is_same(one, value)),
            ("const", _) => is_same(rule, value),
            ("anyOf", _) => allowing() > 0,
            ("oneOf", _) => allowing() == 1,
            ("not", _) => !self.allows(rule, value),
            ("required", Value::Object(members)) => has_all(members, rule),
            ("minProperties", Value::Object(members)) => members.len() as f64 >= limit(),
            ("maxProperties", Value::Object(members)) => members.len() as f64 <= limit(),
            ("propertyNames", Value::Object(members)) => {
                members.keys().all(|name| self.allows(rule, &Value::String(name.clone())))
            }
            ("dependencies" | "dependentRequired", Value::Object(members)) => {
                let there = object(rule).iter().filter(|(name, _)| members.contains_key(*name));
                there.map(|(_, rule)| rule).filter(|rule| rule.is_array()).all(|rule| has_all(members, rule))
            }
            ("minItems", Value::Array(items)) => items.len() as f64 >= limit(),
            ("maxItems", Value::Array(items)) => items.len() as f64 <= limit(),
            ("uniqueItems", Value::Array(items)) => {
                rule == &Value::Bool(false) || (1..items.len()).all(|at| !items[..at].contains(&items[at]))
            }
            ("pattern", Value::String(text)) => pattern(rule.as_str().unwrap()).unwrap().is_match(text),
            ("minLength", Value::String(text)) => text.chars().count() as f64 >= limit(),
            ("maxLength", Value::String(text)) => text.chars().count() as f64 <= limit(),
            ("minimum", Value::Number(number)) => number.as_f64().unwrap() >= limit(),
            ("maximum", Value::Number(number)) => number.as_f64().unwrap() <= limit(),
            ("exclusiveMinimum", Value::Number(number)) => number.as_f64().unwrap() > limit(),
            ("exclusiveMaximum", Value::Number(number)) => number.as_f64().unwrap() < limit(),
            _ => true,
        }
    }
}

fn list(rule: &Value) -> &Vec<Value> {
    rule.as_array().unwrap()
}

fn object(rule: &Value) -> &Map<String, Value> {
    rule.as_object().unwrap()
}

/// One type or several types.
fn kinds(rule: &Value) -> &[Value] {
    rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice)
}

/// Returns whether an object has all members in a list.
fn has_all(members: &Map<String, Value>, names: &Value) -> bool {
    list(names).iter().all(|name| members.contains_key(name.as_str().unwrap()))
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
