//! Kinds of values for keys and parameters, with their parsing, description and JSON Schema.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, Error as _, Visitor};
use serde_json::json;
use toml::Value;

use super::columns::TimeUnit;
use super::diagnostic::{did_you_mean, listed};
use super::model::DriverProcesses;
use zklockbench_core::catalog::{Param, ParamKind, ParamValue};
use zklockbench_core::connect::Connect;
use zklockbench_core::evidence::Sensitivity;
use zklockbench_core::units::{parse_duration, shown};

/// Problem with a value and, on a second line, its remedy.
pub(super) type Wrong = String;

pub(super) fn wrong(message: impl Display, help: impl Display) -> Wrong {
    format!("{message}\n{help}")
}

pub(super) fn wrong_type(expected: &str, found: &Value, help: &str) -> Wrong {
    let kind = found.type_str();
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    wrong(format!("expected {expected}, found {article} {kind}: `{}`", shown(&found.to_string(), 40)), help)
}

pub(super) trait Kind {
    type Value;

    /// Description of the valid values, without an article. Kinds with bounds override `words`.
    const WORDS: &'static str = "";

    fn words() -> String {
        Self::WORDS.to_owned()
    }

    fn schema() -> serde_json::Value;
    fn read(value: &Value) -> Result<Self::Value, Wrong>;
}

/// A value of kind `K`.
pub(super) struct Is<K: Kind>(pub(super) K::Value);

impl<K: Kind<Value: Clone>> Clone for Is<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K: Kind<Value: Copy>> Copy for Is<K> {}

impl<K: Kind<Value: Default>> Default for Is<K> {
    fn default() -> Self {
        Self(K::Value::default())
    }
}

impl<'de, K: Kind> Deserialize<'de> for Is<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Errors in a newtype get the position of its value, even inside a list.
        deserializer.deserialize_newtype_struct("Is", Read(PhantomData))
    }
}

struct Read<K>(PhantomData<K>);

impl<'de, K: Kind> Visitor<'de> for Read<K> {
    type Value = Is<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&K::words())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Is<K>, D::Error> {
        K::read(&Value::deserialize(deserializer)?).map(Is).map_err(D::Error::custom)
    }
}

impl<K: Kind> JsonSchema for Is<K> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        K::words().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut schema = K::schema();
        schema["x-words"] = K::words().into();
        Schema::try_from(schema).unwrap_or_default()
    }
}

/// A whole number within these bounds.
pub(super) struct Whole<T, const LEAST: u64, const MOST: u64>(PhantomData<T>);

/// Largest whole number in TOML, which messages do not mention as a bound.
pub(super) const UNBOUNDED: u64 = i64::MAX as u64;

impl<T: TryFrom<u64>, const LEAST: u64, const MOST: u64> Kind for Whole<T, LEAST, MOST> {
    type Value = T;

    fn words() -> String {
        match MOST {
            UNBOUNDED => format!("whole number of at least {LEAST}"),
            _ => format!("whole number from {LEAST} to {MOST}"),
        }
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "integer", "minimum": LEAST, "maximum": MOST })
    }

    fn read(value: &Value) -> Result<T, Wrong> {
        let help = format!("write a {}", Self::words());
        whole(value, &(LEAST..=MOST), &help)?.try_into().map_err(|_| out_of_bounds(value, &help))
    }
}

/// A number of locks, or `"fresh"`.
pub(super) struct LockCount<const MOST: u64>;

const FRESH: &str = "fresh";

impl<const MOST: u64> Kind for LockCount<MOST> {
    /// `None` for a new lock for each acquisition.
    type Value = Option<usize>;

    fn words() -> String {
        format!("{}, or `\"{FRESH}\"`", Whole::<usize, 1, MOST>::words())
    }

    fn schema() -> serde_json::Value {
        json!({ "anyOf": [Whole::<usize, 1, MOST>::schema(), { "const": FRESH }] })
    }

    fn read(value: &Value) -> Result<Option<usize>, Wrong> {
        match value.as_str() {
            Some(FRESH) => Ok(None),
            Some(text) if text.trim().parse::<u64>().is_err() => Err(wrong(
                format!("`{}` is not a number of locks", shown(text, 60)),
                format!("write a number without quotes, or \"{FRESH}\" for a new lock each time"),
            )),
            _ => Whole::<usize, 1, MOST>::read(value).map(Some),
        }
    }
}

fn whole(value: &Value, bounds: &RangeInclusive<u64>, help: &str) -> Result<u64, Wrong> {
    match value {
        Value::Integer(number) => {
            let within = u64::try_from(*number).ok().filter(|number| bounds.contains(number));
            within.ok_or_else(|| out_of_bounds(value, help))
        }
        Value::String(text) if text.trim().parse::<u64>().is_ok() => {
            Err(wrong_type("a whole number", value, &format!("write {} without quotes", text.trim())))
        }
        _ => Err(wrong_type("a whole number", value, help)),
    }
}

fn out_of_bounds(value: &Value, help: &str) -> Wrong {
    let text = value.as_str().map_or_else(|| value.to_string(), |text| text.trim().to_owned());
    wrong(format!("`{}` is out of range", shown(&text, 40)), help)
}

/// A duration within these bounds, in milliseconds.
pub(super) struct Time<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Time<LEAST, MOST> {
    pub(super) const BOUNDS: RangeInclusive<Duration> =
        Duration::from_millis(LEAST)..=Duration::from_millis(MOST);
}

impl<const LEAST: u64, const MOST: u64> Kind for Time<LEAST, MOST> {
    type Value = Duration;

    fn words() -> String {
        format!("duration from {} to {}", written(*Self::BOUNDS.start()), written(*Self::BOUNDS.end()))
    }

    fn schema() -> serde_json::Value {
        json!({ "$ref": "#/$defs/duration" })
    }

    fn read(value: &Value) -> Result<Duration, Wrong> {
        duration(value, &Self::BOUNDS)
    }
}

pub(super) fn written(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

fn duration(value: &Value, bounds: &RangeInclusive<Duration>) -> Result<Duration, Wrong> {
    let text = match value {
        Value::String(text) => text,
        Value::Integer(0..) | Value::Float(0.0..=1e9) => {
            let help = format!("write \"{value}ms\" or \"{value}s\", in quotes and with a unit");
            return Err(wrong_type("a duration", value, &help));
        }
        _ => {
            let help = "write it in quotes and with a unit, such as \"20ms\" or \"1s\"";
            return Err(wrong_type("a duration", value, help));
        }
    };
    let duration = parse_duration(&shown(text, 60)).map_err(|why| why.replacen("; ", "\n", 1))?;
    if bounds.contains(&duration) {
        return Ok(duration);
    }
    let (least, most) = (written(*bounds.start()), written(*bounds.end()));
    Err(out_of_bounds(value, &format!("write a duration from {least} to {most}")))
}

/// A number within these bounds, in millionths.
pub(super) struct Number<const LEAST: u64, const MOST: u64>;

impl<const LEAST: u64, const MOST: u64> Number<LEAST, MOST> {
    const BOUNDS: RangeInclusive<f64> = LEAST as f64 / 1e6..=MOST as f64 / 1e6;
}

impl<const LEAST: u64, const MOST: u64> Kind for Number<LEAST, MOST> {
    type Value = f64;

    fn words() -> String {
        format!("number from {} to {}", Self::BOUNDS.start(), Self::BOUNDS.end())
    }

    fn schema() -> serde_json::Value {
        json!({ "type": "number", "minimum": Self::BOUNDS.start(), "maximum": Self::BOUNDS.end() })
    }

    fn read(value: &Value) -> Result<f64, Wrong> {
        let mut help = format!("write a {}", Self::words());
        let number = match value {
            Value::Float(number) => *number,
            Value::Integer(number) => *number as f64,
            other => {
                // For "40/s", suggest the bare number, because the key implies the unit.
                let digits = other.as_str().map(|text| text.trim().trim_end_matches("/s").trim_end());
                if let Some(digits) = digits
                    .filter(|digits| digits.parse::<f64>().is_ok_and(|number| Self::BOUNDS.contains(&number)))
                {
                    help = format!("write {digits}, without quotes or a unit");
                }
                return Err(wrong_type("a number", value, &help));
            }
        };
        if Self::BOUNDS.contains(&number) { Ok(number) } else { Err(out_of_bounds(value, &help)) }
    }
}

fn text<'v>(value: &'v Value, expected: &str, help: &str) -> Result<&'v str, Wrong> {
    value.as_str().ok_or_else(|| wrong_type(expected, value, help))
}

fn matches(pattern: &str) -> serde_json::Value {
    json!({ "type": "string", "pattern": pattern })
}

/// The number of servers that the suite starts.
pub(super) struct Servers;

impl Kind for Servers {
    type Value = usize;

    const WORDS: &'static str = "1, 3, 5";

    fn schema() -> serde_json::Value {
        json!({ "type": "integer", "enum": [1, 3, 5] })
    }

    fn read(value: &Value) -> Result<usize, Wrong> {
        let help = "use one of 1, 3, 5, without brackets";
        match value {
            Value::Integer(number) if !matches!(number, 1 | 3 | 5) => {
                let help = match number {
                    2 | 4 => {
                        "use 1, 3 or 5: 2 servers tolerate no more failures than 1, and 4 no more than 3"
                    }
                    6.. => {
                        "start at most 5 local servers; for more, run them elsewhere and list them in `connect`"
                    }
                    _ => "use one of these",
                };
                Err(wrong(format!("`{number}` is not one of 1, 3, 5"), help))
            }
            _ => whole(value, &(1..=5), help)?.try_into().map_err(|_| out_of_bounds(value, help)),
        }
    }
}

/// A name of lower-case letters, digits and hyphens, which becomes part of a directory name.
pub(super) struct Name;

impl Kind for Name {
    type Value = String;

    const WORDS: &'static str = "name";

    fn schema() -> serde_json::Value {
        matches("^[a-z0-9][a-z0-9-]{0,59}$")
    }

    fn read(value: &Value) -> Result<String, Wrong> {
        let name = text(value, "a name", "write it in quotes")?;
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.is_empty() && name.len() <= 60 && name.chars().all(fine) && !name.starts_with('-') {
            return Ok(name.to_owned());
        }
        let slug: String =
            name.to_lowercase().chars().map(|c| if fine(c) { c } else { '-' }).take(60).collect();
        let slug = Some(slug.trim_matches('-')).filter(|slug| !slug.is_empty()).unwrap_or("quick");
        let rule = "use up to 60 lower-case letters, digits and hyphens, and do not start with a hyphen";
        Err(wrong(
            format!("`{}` is not a valid name: {rule}", shown(name, 60)),
            format!("for example `{slug}`"),
        ))
    }
}

/// A share with a percent sign.
pub(super) struct Percent;

impl Kind for Percent {
    type Value = f64;

    const WORDS: &'static str = "share from `\"0.1%\"` to `\"50%\"`";

    fn schema() -> serde_json::Value {
        matches(r"^\s*[0-9]+(\.[0-9]+)?\s*%\s*$")
    }

    fn read(value: &Value) -> Result<f64, Wrong> {
        let text = text(value, "a share", "write it in quotes, with its percent sign: \"2%\"")?;
        let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let shown = shown(text, 60);
        match number {
            Some(percent) if (0.1..=50.0).contains(&percent) => Ok(percent / 100.0),
            Some(_) => Err(wrong(format!("`{shown}` is out of range"), "write a share from 0.1% to 50%")),
            None => {
                Err(wrong(format!("`{shown}` is not a share"), "write a number and a percent sign: \"2%\""))
            }
        }
    }
}

/// A probability and an error rate.
pub(super) struct Evidence;

impl Kind for Evidence {
    type Value = Sensitivity;

    const WORDS: &'static str = "probability and error rate, such as `\"0.99@1%\"`";

    fn schema() -> serde_json::Value {
        matches(r"^\s*0?\.[0-9]+\s*@\s*[0-9]+(\.[0-9]+)?\s*%\s*$")
    }

    fn read(value: &Value) -> Result<Sensitivity, Wrong> {
        let text = text(value, "a probability and a rate", "write it in quotes: \"0.99@1%\"")?;
        shown(text, 60).parse().map_err(|why: String| wrong(why, "for example `\"0.99@1%\"`"))
    }
}

pub(super) struct File;

impl Kind for File {
    type Value = PathBuf;

    const WORDS: &'static str = "path";

    fn schema() -> serde_json::Value {
        json!({ "type": "string", "minLength": 1 })
    }

    fn read(value: &Value) -> Result<PathBuf, Wrong> {
        let path = text(value, "a path", "write it in quotes")?;
        let is_empty = path.trim().is_empty();
        (!is_empty)
            .then(|| path.into())
            .ok_or_else(|| wrong("the path is empty", "write a path, or remove the key"))
    }
}

/// The name of a column, or its number, starting at 1.
pub(super) struct ColumnName;

impl Kind for ColumnName {
    type Value = String;

    const WORDS: &'static str = "name of a column, or its number";

    fn schema() -> serde_json::Value {
        json!({ "type": ["string", "integer"] })
    }

    fn read(value: &Value) -> Result<String, Wrong> {
        match value {
            Value::Integer(number) => Ok(number.to_string()),
            _ => text(value, "the name of a column", "write it in quotes, or write its number")
                .map(str::to_owned),
        }
    }
}

/// The unit of a column's numbers.
pub(super) struct Unit;

impl Kind for Unit {
    type Value = TimeUnit;

    fn words() -> String {
        listed(TimeUnit::NAMES)
    }

    fn schema() -> serde_json::Value {
        json!({ "enum": TimeUnit::NAMES })
    }

    fn read(value: &Value) -> Result<TimeUnit, Wrong> {
        word(value, &TimeUnit::NAMES, "use one of these, in quotes")?.parse()
    }
}

pub(super) struct ConnectString;

impl Kind for ConnectString {
    type Value = String;

    const WORDS: &'static str = "connect string";

    fn schema() -> serde_json::Value {
        File::schema()
    }

    fn read(value: &Value) -> Result<String, Wrong> {
        let help = "write host:port pairs separated by commas, with a chroot only after the last pair: \
                    \"zk1:2181,zk2:2181/chroot\"";
        let connect = text(value, "a connect string", help)?;
        Connect::parse(connect).map(|connect| connect.text()).map_err(|problem| wrong(problem, help))
    }
}

/// Reads the number of driver processes over which the contenders are spread.
pub(super) fn processes(value: &Value) -> Result<DriverProcesses, Wrong> {
    match value.as_str() {
        Some("one") => Ok(DriverProcesses::One),
        Some("per-contender") => Ok(DriverProcesses::PerContender),
        Some(word) => Err(wrong(
            format!("`{}` is not a number of processes", shown(word, 60)),
            "write \"one\", \"per-contender\", or a number without quotes",
        )),
        None => Whole::<usize, 1, 1000>::read(value).map(DriverProcesses::Count),
    }
}

/// A poll interval of at least 1 ms; a shorter interval would measure a busy loop.
pub(super) type PollInterval = Time<1, 3_600_000>;

pub(super) fn param_value(param: &Param, value: &Value) -> Result<ParamValue, Wrong> {
    match param.kind {
        ParamKind::Duration if param.name == super::fields::POLL_INTERVAL_PARAM => {
            PollInterval::read(value).map(ParamValue::Duration)
        }
        ParamKind::Duration => Time::<0, { super::file::DAY }>::read(value).map(ParamValue::Duration),
        ParamKind::Bool => {
            let help = "write true or false, without quotes";
            let flag = value.as_bool().ok_or_else(|| wrong_type("`true` or `false`", value, help));
            flag.map(ParamValue::Bool)
        }
        ParamKind::OneOf(_) | ParamKind::Choice(_) => {
            word(value, &param.kind.words(), "use one of these, in quotes")
                .map(|word| ParamValue::Word(word.to_owned()))
        }
        ParamKind::Count(least, most) | ParamKind::CountWithin(least, most, _) => {
            let help = format!("write a whole number from {least} to {most}");
            whole(value, &(least..=most), &help).map(ParamValue::Count)
        }
    }
}

/// Reads one of these words. For any other text, suggests a similar word or gives `otherwise` as help.
pub(super) fn word<'w>(value: &Value, words: &[&'w str], otherwise: &str) -> Result<&'w str, Wrong> {
    let all = listed(words.iter().copied());
    let text = text(value, &format!("one of {all}"), otherwise)?;
    words.iter().copied().find(|word| *word == text).ok_or_else(|| {
        let help = did_you_mean(text, words.iter().copied(), otherwise);
        wrong(format!("`{}` is not one of {all}", shown(text, 60)), help)
    })
}

/// Returns a parameter's default value; `None` if the card's text does not fit the kind of parameter.
pub fn default_value(param: &Param) -> Option<ParamValue> {
    let text = || Value::String(param.default.to_owned());
    let value = match param.kind {
        ParamKind::Duration | ParamKind::OneOf(_) | ParamKind::Choice(_) => text(),
        ParamKind::Bool => Value::Boolean(param.default.parse().ok()?),
        ParamKind::Count(..) | ParamKind::CountWithin(..) => Value::Integer(param.default.parse().ok()?),
    };
    param_value(param, &value).ok()
}
