//! `schema answer`: one JSON Schema of what every command prints with `--json`.
//!
//! What begins every answer, and what is also written into files, is described by the types that are printed. What a command
//! puts together for its answer alone is described here, and a test holds real answers against it.

use std::path::PathBuf;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::baseline::Listed;
use super::output::Envelope;
use crate::answer::ab::AbFile;
use crate::answer::compare::{Comparison, Power};
use crate::record::Judged;
use crate::report::{CheckedChange, Summary, Trend};
use crate::results::{CalibrationFile, RunFile, TrialFile};
use crate::scenario::MachineDiagnostic;
use crate::world::conformance::Finding;

/// The schema: what begins every answer and, where nothing went wrong, what each command adds to it.
pub fn schema() -> Value {
    let mut types = Types(SchemaSettings::draft2020_12().for_serialize().into_generator());
    let rule = |(command, found): (&str, Value)| {
        json!({
            "if": { "properties": { "command": { "const": command }, "error": { "type": "null" } } },
            "then": found,
        })
    };
    let rules: Vec<Value> = types.found().into_iter().map(rule).collect();
    let mut schema = types.0.into_root_schema_for::<Envelope<'_>>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("allOf".to_owned(), rules.into());
    }
    schema
}

/// Types whose schemas stand beside each other in one.
struct Types(SchemaGenerator);

impl Types {
    fn of<T: JsonSchema>(&mut self) -> Value {
        self.0.subschema_for::<T>().to_value()
    }

    fn of_comparisons(&mut self) -> Vec<(&'static str, Value)> {
        vec![
            (
                "compare",
                either(
                    having([("comparison", self.of::<Comparison>())]),
                    having([("power", self.of::<Power>())]),
                ),
            ),
            ("baseline add", self.of::<Listed<'_>>()),
            ("baseline list", having([("baselines", self.of::<Vec<Listed<'_>>>())])),
            ("baseline trend", self.of::<Trend>()),
            (
                "baseline check",
                having([("changes", self.of::<Vec<CheckedChange>>()), ("notes", self.of::<Vec<String>>())]),
            ),
        ]
    }

    fn of_driver_check(&mut self) -> (&'static str, Value) {
        let text = || json!({ "type": "string" });
        let found = having([
            ("driver", text()),
            ("inside", json!({ "type": "object" })),
            ("system", text()),
            ("locks", list(text())),
            ("headline", text()),
            ("checks", self.of::<Vec<Finding>>()),
        ]);
        ("driver check", found)
    }

    /// What each command adds where it could do what was asked.
    fn found(&mut self) -> Vec<(&'static str, Value)> {
        let text = || json!({ "type": "string" });
        let amount = || json!({ "type": "integer", "minimum": 0 });
        let objects = || list(json!({ "type": "object" }));
        let verdict = || json!({ "enum": ["held", "violated", "unknown"] });
        let card = having([
            ("name", text()),
            ("summary", text()),
            ("source", text()),
            ("details", text()),
            ("params", objects()),
        ]);
        let (of_comparisons, of_driver_check) = (self.of_comparisons(), self.of_driver_check());
        let others = vec![
            (
                "run",
                having([
                    ("results", path()),
                    ("resume", json!({ "type": ["string", "null"] })),
                    ("run", self.of::<RunFile>()),
                    ("summary", self.of::<Summary>()),
                    ("comparison", self.of::<Option<Comparison>>()),
                    ("trials", self.of::<Vec<TrialFile<'_>>>()),
                ]),
            ),
            ("ab", having([("results", path()), ("ab", self.of::<AbFile>())])),
            (
                "torture",
                having([
                    ("results", path()),
                    ("seed", amount()),
                    ("rounds", objects()),
                    ("left_out", objects()),
                    ("faults", json!({ "type": "object" })),
                ]),
            ),
            ("calibrate", having([("results", path()), ("calibration", self.of::<CalibrationFile>())])),
            ("export", having([("run", path()), ("written", self.of::<Vec<PathBuf>>())])),
            (
                "validate",
                having([
                    ("name", text()),
                    ("description", text()),
                    ("ensemble", text()),
                    ("load", text()),
                    ("trials", objects()),
                    ("estimated_us", amount()),
                    ("estimate_basis", text()),
                    ("estimated_memory_bytes", amount()),
                    ("memory_basis", text()),
                    ("estimated_disk_bytes", amount()),
                    ("disk_basis", text()),
                    ("warnings", self.of::<Vec<MachineDiagnostic>>()),
                ]),
            ),
            ("strategies", having([("strategies", list(card.clone()))])),
            ("faults", having([("faults", list(card))])),
            (
                "check",
                json!({
                    "required": ["verdict", "reasons"],
                    "properties": { "verdict": verdict(), "reasons": list(text()) },
                    "anyOf": [
                        having([
                            ("run", path()),
                            ("judged", self.of::<Judged>()),
                            ("recorded", self.of::<Judged>()),
                            ("trials", objects()),
                            ("changed", list(text())),
                        ]),
                        having([
                            ("history", path()),
                            ("notes", list(text())),
                            ("events", amount()),
                            ("contenders", amount()),
                            ("clocks", json!({})),
                            ("locks", objects()),
                            ("findings", objects()),
                        ]),
                    ],
                }),
            ),
            (
                "ensemble up",
                having([
                    ("connect", text()),
                    ("servers", objects()),
                    ("directory", path()),
                    ("since", text()),
                ]),
            ),
            ("ensemble status", having([("up", json!({ "type": "boolean" }))])),
            (
                "ensemble down",
                having([("ended", amount()), ("removed", json!({ "type": ["string", "null"] }))]),
            ),
            ("clean", either(having([("runs", objects())]), having([("projects", objects())]))),
        ];
        others.into_iter().chain([of_driver_check]).chain(of_comparisons).collect()
    }
}

fn either(one: Value, other: Value) -> Value {
    json!({ "anyOf": [one, other] })
}

fn path() -> Value {
    json!({ "type": "string" })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object with these fields at least.
fn having<const COUNT: usize>(fields: [(&str, Value); COUNT]) -> Value {
    let required: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}
