//! What follows from the counts of a trial, as its file has it: figures, each of which is missing where what it divides by
//! did not happen.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::Trial;
use super::figures::{self, FigureEntry};
use crate::scenario::{Load, Stop};

/// The figures of a trial that are stored with it, by the names that files give them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Derived(BTreeMap<String, Option<f64>>);

fn stored() -> impl Iterator<Item = (&'static str, &'static FigureEntry)> {
    figures::ALL.iter().filter_map(|entry| Some((entry.stored_as?, *entry)))
}

impl From<&Trial> for Derived {
    fn from(trial: &Trial) -> Self {
        Self(stored().map(|(name, entry)| (name.to_owned(), entry.of(trial))).collect())
    }
}

impl Derived {
    /// What a figure is; `None` where it was not measured, or is not stored here.
    pub fn get(&self, entry: &FigureEntry) -> Option<f64> {
        *self.0.get(entry.stored_as?)?
    }

    /// Whether a figure has another value here than there. Other versions know of other figures.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.0.iter().any(|(name, value)| other.0.get(name).is_some_and(|its| its != value))
    }

    pub fn measured(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().filter_map(|(name, value)| Some((name.as_str(), (*value)?)))
    }
}

impl JsonSchema for Derived {
    fn schema_name() -> Cow<'static, str> {
        "Derived".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let property = |(name, entry): (&str, &FigureEntry)| {
            let property = serde_json::json!({
                "description": entry.card.what,
                "type": ["number", "null"],
                "format": "double",
            });
            (name.to_owned(), property)
        };
        let properties: serde_json::Map<String, serde_json::Value> = stored().map(property).collect();
        json_schema!({
            "description": "Figures of the measured phase.",
            "type": "object",
            "properties": properties,
        })
    }
}

impl Trial {
    /// Whether its load is over when each contender has acquired as often as it was to: then the total time is a result.
    pub fn is_one_shot(&self) -> bool {
        self.is_batch() || matches!(self.spec.stop, Stop::Acquisitions(_))
    }

    /// Whether each contender acquires once: the first to do so has finished, so there is no time in which all were there.
    pub(super) fn acquires_once(&self) -> bool {
        self.spec.stop == Stop::Acquisitions(1)
    }

    pub(super) fn is_batch(&self) -> bool {
        self.spec.load == Load::Batch
    }

    pub fn derived(&self) -> Derived {
        self.into()
    }
}
