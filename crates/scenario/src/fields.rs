//! Keys of scenario files by section, derived from the types of the sections.

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::de::value::Error;
use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::file::{Client, Ensemble, Fault, Gate, Top};
use super::shapes::{Process, Shape};

pub const ENSEMBLE: &str = "ensemble";
pub const CLIENT: &str = "client";
pub const FAULT: &str = "fault";
pub const GATE: &str = "gate";

/// Parameter of polling strategies. The top-level key with this name applies to strategies that do not set
/// the parameter.
pub const POLL_INTERVAL_PARAM: &str = "poll_interval";

/// Arrival processes that take a rate; other processes have their own rates or times.
pub const PROCESSES_WITH_RATE: [&str; 4] = ["poisson", "constant", "bursts", "day"];

pub const OPEN_KEYS: &[&str] = &["rate", "rate_each", "arrivals", "popularity", "late", "backlog_at_most"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Top,
    Ensemble,
    /// Under each `[[client]]`: a kind of client.
    Client,
    /// Under each `[[fault]]`. Keys of a single kind are parameters on its card.
    Fault,
    Gate,
}

impl Section {
    pub const ALL: [Self; 5] = [Self::Top, Self::Ensemble, Self::Client, Self::Fault, Self::Gate];

    /// Returns the header of the section; `None` for the top level.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Top => None,
            Self::Ensemble => Some("[ensemble]"),
            Self::Client => Some("[[client]]"),
            Self::Fault => Some("[[fault]]"),
            Self::Gate => Some("[[gate]]"),
        }
    }
}

#[derive(Debug)]
pub struct Field {
    pub section: Section,
    pub name: &'static str,
    /// Schema of the key, with the annotations of its type.
    pub schema: Value,
}

impl Field {
    fn annotation(&self, name: &str) -> Option<&str> {
        self.schema.get(name)?.as_str()
    }

    pub fn doc(&self) -> &str {
        self.annotation("description").unwrap_or_default()
    }

    /// Returns the example assignment.
    pub fn example(&self) -> String {
        format!("{} = {}", self.name, self.annotation("x-example").unwrap_or_default())
    }

    /// Returns other names that users may try.
    pub fn also(&self) -> impl Iterator<Item = &str> {
        self.annotation("x-also").unwrap_or_default().split_whitespace()
    }

    /// Returns the default, as TOML.
    pub fn default(&self) -> Option<&str> {
        self.annotation("x-default")
    }

    /// Returns the behaviour if the key is absent.
    pub fn absent(&self) -> Option<&str> {
        self.annotation("x-absent")
    }

    pub fn is_required(&self) -> bool {
        self.default().is_none() && self.absent().is_none()
    }

    /// Returns the description of the valid values.
    pub fn words(&self) -> &str {
        self.annotation("x-words").unwrap_or("text")
    }
}

/// Returns the description of a definition's valid values: its own text, or its alternatives.
fn words(definition: &Value) -> Value {
    let quoted = |word: &&str| format!("`\"{word}\"`");
    let alternatives = || alternatives(definition).iter().map(quoted).collect::<Vec<_>>().join(" or ");
    definition.get("x-words").cloned().unwrap_or_else(|| alternatives().into())
}

fn alternatives(schema: &Value) -> Vec<&str> {
    let all = |keyword: &str| schema[keyword].as_array().into_iter().flatten();
    let own = all("enum").chain(schema.get("const")).filter_map(Value::as_str);
    own.chain(all("oneOf").flat_map(alternatives)).collect()
}

/// Every key in the order of the reference page, and the definitions of their schemas.
static MODEL: LazyLock<(Vec<Field>, Map<String, Value>)> = LazyLock::new(|| {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let mut fields = Vec::new();
    fields.extend(fields_from::<Top>(Section::Top, &mut generator));
    fields.extend(fields_from::<Ensemble>(Section::Ensemble, &mut generator));
    fields.extend(fields_from::<Client>(Section::Client, &mut generator));
    fields.extend(fields_from::<Fault>(Section::Fault, &mut generator));
    fields.extend(fields_from::<Gate>(Section::Gate, &mut generator));
    let definitions = generator.take_definitions(true);
    for field in &mut fields {
        let definition =
            field.schema["$ref"].as_str().and_then(|path| definitions.get(path.rsplit('/').next()?));
        if let (None, Some(definition)) = (field.annotation("x-words"), definition) {
            field.schema["x-words"] = words(definition);
        }
    }
    (fields, definitions)
});

fn fields_from<T: DeserializeOwned + JsonSchema>(
    section: Section,
    generator: &mut SchemaGenerator,
) -> impl Iterator<Item = Field> {
    let schema = T::json_schema(generator).to_value();
    let mut names: &[&str] = &[];
    let _ = T::deserialize(FieldNames(&mut names));
    names.iter().map(move |name| {
        let mut schema = schema["properties"][*name].clone();
        without_null(&mut schema);
        if let Some(doc) = schema["description"].as_str() {
            schema["description"] = doc.replace('\n', " ").into();
        }
        Field { section, name, schema }
    })
}

/// Removes null from a schema, because TOML has no null.
fn without_null(schema: &mut Value) {
    let is_null = |value: &Value| value.is_null() || value == "null" || value["type"] == "null";
    let Value::Object(keywords) = schema else { return };
    for keyword in ["type", "enum", "anyOf"] {
        if let Some(Value::Array(several)) = keywords.get_mut(keyword) {
            several.retain(|one| !is_null(one));
        }
    }
    if let Some(Value::Array(kinds)) = keywords.get("type") {
        keywords.insert("type".to_owned(), kinds.iter().next().cloned().unwrap_or_default());
    }
    let only = match keywords.get_mut("anyOf") {
        Some(Value::Array(several)) if several.len() == 1 => several.pop(),
        _ => None,
    };
    if let Some(Value::Object(only)) = only {
        keywords.remove("anyOf");
        for (name, value) in only {
            keywords.entry(name).or_insert(value);
        }
    }
}

/// Collects the names of a struct's fields, in order.
struct FieldNames<'n>(&'n mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("only the names are needed"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("not a struct"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

pub fn fields() -> &'static [Field] {
    &MODEL.0
}

pub(super) fn definitions() -> &'static Map<String, Value> {
    &MODEL.1
}

pub fn field(section: Section, name: &str) -> Option<&'static Field> {
    fields_of(section).find(|field| field.name == name)
}

pub fn fields_of(section: Section) -> impl Iterator<Item = &'static Field> {
    fields().iter().filter(move |field| field.section == section)
}

/// A form of an arrival process or distribution: its syntax and its meaning.
pub struct Form {
    pub name: String,
    pub example: String,
    pub doc: String,
}

pub fn processes() -> Vec<Form> {
    forms::<Process>()
}

/// Returns all distributions except a plain duration.
pub fn distributions() -> Vec<Form> {
    forms::<Shape>().into_iter().skip(1).collect()
}

fn forms<T: JsonSchema>() -> Vec<Form> {
    let schema = T::json_schema(&mut SchemaGenerator::default()).to_value();
    let form = |one: &Value| {
        let text = |keyword: &str| one[keyword].as_str().unwrap_or_default().replace('\n', " ");
        let name = one["required"][0].as_str().or(one["const"].as_str()).unwrap_or_default().to_owned();
        Form { name, example: text("x-example"), doc: text("description") }
    };
    schema["oneOf"].as_array().into_iter().flatten().map(form).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_aliases_are_unambiguous() {
        for section in Section::ALL {
            let mut words: Vec<_> =
                fields_of(section).flat_map(|field| field.also().chain([field.name])).collect();
            words.sort_unstable();
            let count = words.len();
            assert!(count >= 2);
            words.dedup();
            assert_eq!(words.len(), count);
        }
    }
}
