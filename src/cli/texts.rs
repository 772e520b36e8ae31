//! `completions`, `man`, `schema`: texts that are made from the definitions of the command line and of scenario files.
//!
//! `schema answer` is one JSON Schema of what every command prints with `--json`. What begins every answer, and what is also
//! written into files, is described by the types that are printed. What a command puts together for its answer alone is
//! described here, and a test holds real answers against it.

use std::path::PathBuf;

use clap_complete::Shell;
use clap_mangen::Man;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator, schema_for};
use serde_json::{Map, Value, json};

use super::args::{CompletionsArgs, ManArgs, SchemaArgs, SchemaOf};
use super::baseline::Listed;
use super::output::{self, Envelope};
use super::scenario_source::SHIPPED;
use crate::conformance::Finding;
use zklockbench_analysis::ab::AbFile;
use zklockbench_analysis::compare::{Comparison, Power};
use zklockbench_analysis::plan::PlanFile;
use zklockbench_analysis::sweep::SweepFile;
use zklockbench_core::error::{Error, Exit};
use zklockbench_ensemble::fault;
use zklockbench_locks::driver::protocol;
use zklockbench_record::Judged;
use zklockbench_report::{CheckedChange, Summary, Trend};
use zklockbench_results::{CalibrationFile, RunFile, TrialFile};
use zklockbench_scenario::{MachineDiagnostic, did_you_mean};

pub fn completions(args: &CompletionsArgs) -> Result<Exit, Error> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::definition(), "zklockbench", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Bash {
        let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        script += &BASH_FILES.replace("NAMES", &names.join(" "));
    }
    output::data(&script)?;
    Ok(Exit::Held)
}

/// The generated script for bash offers placeholders where a file is due: files and built-in scenarios instead.
const BASH_FILES: &str = r#"
_zklockbench_files() {
    _zklockbench "$@"
    local cur="${COMP_WORDS[COMP_CWORD]}" reply=() word
    for word in "${COMPREPLY[@]}"; do [[ $word == [\<\[]* ]] || reply+=("$word"); done
    COMPREPLY=("${reply[@]}")
    [[ $COMP_CWORD -gt 1 && $cur != -* ]] || return 0
    case ${COMP_WORDS[1]} in
        run|validate|ab) COMPREPLY+=($(compgen -W "NAMES" -- "$cur") $(compgen -f -- "$cur")) ;;
        check|export|compare|baseline|articles|report|sweep|plan) COMPREPLY+=($(compgen -f -- "$cur")) ;;
    esac
}
complete -F _zklockbench_files -o nosort -o filenames -o bashdefault -o default zklockbench
"#;

const VARIABLES: [(&str, &str); 10] = [
    ("ZOOKEEPER_HOME", "Directory of an unpacked ZooKeeper release, unless --zookeeper-home names one."),
    ("ZKLOCKBENCH_AUTH", "Digest identity, as --auth takes it: USER:PASSWORD."),
    (
        "ZKLOCKBENCH_COLD, ZKLOCKBENCH_NO_FLOOR, ZKLOCKBENCH_NO_CHARTS",
        "Set to 1: same as --cold, --no-floor and --no-charts.",
    ),
    (
        "ZKLOCKBENCH_AT_MOST, ZKLOCKBENCH_ALLOW_SATURATION, ZKLOCKBENCH_STOP_IF_LATENCY",
        "Same as --at-most, --allow-saturation (set to 1) and --stop-if-latency.",
    ),
    (
        "ZKLOCKBENCH_STATE_DIR",
        "Where `ensemble up` remembers what it started, and `scripts/install --zookeeper` keeps a release.",
    ),
    (
        "ZKLOCKBENCH_LOG",
        "Log of the ZooKeeper client on stderr: a level such as debug, or targets such as zookeeper_client=trace.",
    ),
    ("ZKLOCKBENCH_DRIVERS", "Drivers as --driver names them, one on each line."),
    ("SSL_CERT_FILE", "Certificate authorities for --tls without --tls-ca."),
    ("GITHUB_STEP_SUMMARY", "Where --github appends its summary; GitHub sets it."),
    ("NO_COLOR", "Set to anything: no colours."),
];

pub fn man(args: &ManArgs) -> Result<Exit, Error> {
    let failed = |error: std::io::Error| Error::environment(format!("cannot write the page: {error}"));
    match (&args.command, &args.out) {
        (_, Some(directory)) => {
            std::fs::create_dir_all(directory).map_err(Error::cannot("create", directory))?;
            clap_mangen::generate_to(super::definition(), directory).map_err(failed)?;
        }
        (Some(name), None) => output::data(&page_of(name)?.map_err(failed)?)?,
        (None, None) => output::data(&page().map_err(failed)?)?,
    }
    Ok(Exit::Held)
}

fn page_of(name: &str) -> Result<std::io::Result<String>, Error> {
    let mut definition = super::definition();
    definition.build();
    let command = definition.find_subcommand(name).ok_or_else(|| {
        let names = definition.get_subcommands().map(clap::Command::get_name);
        let help = did_you_mean(name, names, "`zklockbench --help` lists them");
        Error::usage(format!("there is no command `{name}`; {help}"))
    })?;
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    Ok(rendered.map(|()| String::from_utf8_lossy(&page).into_owned()))
}

fn page() -> std::io::Result<String> {
    let mut command = super::definition();
    command.build();
    let mut page = Vec::new();
    let whole = Man::new(command.clone());
    whole.render_title(&mut page)?;
    whole.render_name_section(&mut page)?;
    whole.render_synopsis_section(&mut page)?;
    whole.render_description_section(&mut page)?;
    whole.render_subcommands_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    of_commands(&command, &mut page)?;
    page += ".SH ENVIRONMENT\n";
    for (name, meaning) in VARIABLES {
        page += &format!(".TP\n\\fB{name}\\fR\n{}\n", meaning.replace('-', "\\-"));
    }
    page += ".SH \"EXIT STATUS\"\n";
    for (exit, meaning) in Exit::ALL {
        page += &format!(".TP\n\\fB{}\\fR\n{meaning}\n", exit as u8);
    }
    Ok(page)
}

fn of_commands(command: &clap::Command, page: &mut String) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let name = sub.get_bin_name().unwrap_or(sub.get_name()).to_uppercase();
        let mut section = Vec::new();
        let man = Man::new(sub.clone());
        man.render_description_section(&mut section)?;
        man.render_synopsis_section(&mut section)?;
        man.render_options_section(&mut section)?;
        *page += &format!(".SH \"{name}\"\n");
        // Its parts are sections of that section.
        *page += &String::from_utf8_lossy(&section).replace(".SH DESCRIPTION\n", "").replace(".SH ", ".SS ");
        of_commands(sub, page)?;
    }
    Ok(())
}

pub fn schema(args: &SchemaArgs) -> Result<Exit, Error> {
    match args.of {
        SchemaOf::Scenario => {
            output::json(&zklockbench_scenario::schema(&zklockbench_locks::cards(), &fault::cards()))?
        }
        SchemaOf::Answer => output::json(&answer_schema())?,
        SchemaOf::Comparison => output::json(&schema_for!(Comparison))?,
        SchemaOf::Calibration => output::json(&zklockbench_results::calibration_schema())?,
        SchemaOf::Run => output::json(&serde_json::Map::from_iter(
            zklockbench_results::schemas().map(|(file, schema)| (file.to_owned(), schema.to_value())),
        ))?,
        SchemaOf::Ab => output::json(schema_for!(AbFile).as_value())?,
        SchemaOf::Sweep => output::json(schema_for!(SweepFile).as_value())?,
        SchemaOf::Plan => output::json(schema_for!(PlanFile).as_value())?,
        SchemaOf::Summary => output::json(zklockbench_report::summary::schema().as_value())?,
        SchemaOf::Driver => output::json(&protocol::schemas())?,
    }
    Ok(Exit::Held)
}

/// The schema: what begins every answer and, where nothing went wrong, what each command adds to it.
fn answer_schema() -> Value {
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

    fn found(&mut self) -> Vec<(&'static str, Value)> {
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
                    ("results", text()),
                    ("resume", json!({ "type": ["string", "null"] })),
                    ("run", self.of::<RunFile>()),
                    ("summary", self.of::<Summary>()),
                    ("comparison", self.of::<Option<Comparison>>()),
                    ("trials", self.of::<Vec<TrialFile<'_>>>()),
                ]),
            ),
            ("ab", having([("results", text()), ("ab", self.of::<AbFile>())])),
            (
                "torture",
                having([
                    ("results", text()),
                    ("seed", amount()),
                    ("rounds", objects()),
                    ("left_out", list(text())),
                ]),
            ),
            ("calibrate", having([("results", text()), ("calibration", self.of::<CalibrationFile>())])),
            ("export", having([("run", text()), ("written", self.of::<Vec<PathBuf>>())])),
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
                    ("estimated_requests_per_s", amount()),
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
                            ("run", text()),
                            ("judged", self.of::<Judged>()),
                            ("recorded", self.of::<Judged>()),
                            ("trials", objects()),
                            ("changed", list(text())),
                        ]),
                        having([
                            ("history", text()),
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
                    ("directory", text()),
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

fn text() -> Value {
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
