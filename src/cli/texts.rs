//! `completions`, `man`, `schema`: print texts generated from the definition of the command line and from types.
//!
//! `schema answer` prints one JSON Schema for the `--json` output of all commands. Fields that are also written to
//! files take their schema from the types of those files. Other fields are listed here with their types; a test
//! compares the list with real output.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use clap_complete::Shell;
use clap_mangen::Man;
use schemars::generate::SchemaSettings;
use schemars::{SchemaGenerator, schema_for};
use serde_json::{Map, Value, json};

use super::args::SchemaOf;
use super::baseline::Listed;
use super::output::{self, Envelope};
use super::scenario_source::SHIPPED;
use super::torture::Round;
use crate::conformance::Finding;
use zklockbench_analysis::ab::AbFile;
use zklockbench_analysis::compare::{Comparison, Power};
use zklockbench_analysis::plan::PlanFile;
use zklockbench_analysis::sweep::SweepFile;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::verdict::Verdict;
use zklockbench_ensemble::fault;
use zklockbench_learn::Learned;
use zklockbench_locks::driver::protocol;
use zklockbench_record::Judged;
use zklockbench_report::Summary;
use zklockbench_results::{CalibrationFile, RunFile, TrialFile};
use zklockbench_scenario::{Preview, did_you_mean};

pub fn completions(shell: Option<Shell>) -> Result<Exit, Error> {
    let Some(shell) = shell.or_else(Shell::from_env) else {
        let all = Shell::value_variants().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return Err(Error::usage(format!("specify the shell: {all}; e.g. zklockbench completions bash")));
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::definition(), "zklockbench", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Bash {
        let names: Vec<&str> = SHIPPED.iter().map(|shipped| shipped.name).collect();
        script += &BASH_FILES.replace("NAMES", &names.join(" "));
    }
    output::data(&script)?;
    Ok(Exit::Held)
}

/// Bash functions that complete files and built-in scenarios, because clap generates only placeholders for them.
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

const VARIABLES: [(&str, &str); 11] = [
    ("ZOOKEEPER_HOME", "Directory of an unpacked ZooKeeper release, unless --zookeeper-home is set."),
    ("ZKLOCKBENCH_AUTH", "Digest identity USER:PASSWORD, as for --auth."),
    ("ZKLOCKBENCH_SASL_PASSWORD", "Password for --sasl, unless --sasl-password-file is set."),
    (
        "ZKLOCKBENCH_COLD, ZKLOCKBENCH_NO_FLOOR, ZKLOCKBENCH_NO_CHARTS",
        "If set to 1, same as --cold, --no-floor and --no-charts.",
    ),
    (
        "ZKLOCKBENCH_AT_MOST, ZKLOCKBENCH_ALLOW_SATURATION, ZKLOCKBENCH_STOP_IF_LATENCY",
        "Same as --at-most, --allow-saturation (set to 1) and --stop-if-latency.",
    ),
    (
        "ZKLOCKBENCH_STATE_DIR",
        "Directory for the state of `ensemble up` and for releases from `scripts/install --zookeeper`.",
    ),
    (
        "ZKLOCKBENCH_LOG",
        "Log to stderr in more detail than -v: a level such as debug, or targets such as zookeeper_client=trace.",
    ),
    ("ZKLOCKBENCH_DRIVERS", "Drivers, one per line, in the format of --driver."),
    ("SSL_CERT_FILE", "Certificate authorities for --tls without --tls-ca."),
    ("GITHUB_STEP_SUMMARY", "File for the summary of --github; set by GitHub."),
    ("NO_COLOR", "Any value disables colours."),
];

pub fn man(command: Option<&str>, out: Option<&Path>) -> Result<Exit, Error> {
    let failed = |error: std::io::Error| Error::environment(format!("cannot write the page: {error}"));
    match (command, out) {
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
        // Sections of a command become subsections.
        *page += &String::from_utf8_lossy(&section).replace(".SH DESCRIPTION\n", "").replace(".SH ", ".SS ");
        of_commands(sub, page)?;
    }
    Ok(())
}

pub fn schema(of: SchemaOf) -> Result<Exit, Error> {
    match of {
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
        SchemaOf::Learned => output::json(schema_for!(Learned).as_value())?,
        SchemaOf::Summary => output::json(zklockbench_report::summary::schema().as_value())?,
        SchemaOf::Driver => output::json(&protocol::schemas())?,
    }
    Ok(Exit::Held)
}

/// Returns a JSON Schema with the fields common to all commands, and the other fields of each successful command.
fn answer_schema() -> Value {
    let mut types = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let rule = |(command, found): (&str, Value)| {
        json!({
            "if": { "properties": { "command": { "const": command }, "error": { "type": "null" } } },
            "then": found,
        })
    };
    let found = [of_results(&mut types), of_others(&mut types)].concat();
    let rules: Vec<Value> = found.into_iter().map(rule).collect();
    let mut schema = types.into_root_schema_for::<Envelope<'_>>().to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("allOf".to_owned(), rules.into());
    }
    schema
}

/// Returns the schema of an object with at least these fields.
macro_rules! object {
    ($types:ident { $($field:ident: $type:ty),* $(,)? }) => {{
        let fields = [$((stringify!($field), $types.subschema_for::<$type>())),*];
        let required = fields.each_ref().map(|(name, _)| *name);
        json!({ "type": "object", "required": required, "properties": Map::from_iter(
            fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.as_value().clone())),
        ) })
    }};
}

type Object = Map<String, Value>;

fn of_results(types: &mut SchemaGenerator) -> Vec<(&'static str, Value)> {
    let run = object!(types { results: PathBuf, resume: Option<String>, run: RunFile, summary: Summary,
        comparison: Option<Comparison>, trials: Vec<TrialFile<'_>> });
    let checked_run = object!(types { run: String, judged: Judged, recorded: Judged, trials: Vec<Object>,
        changed: Vec<String> });
    let checked_history = object!(types { history: String, notes: Vec<String>, events: u64, contenders: u64,
        clocks: Value, locks: Vec<Object>, findings: Vec<Object> });
    let verdict = types.subschema_for::<Verdict>();
    vec![
        ("run", run),
        ("ab", object!(types { results: PathBuf, ab: AbFile })),
        (
            "torture",
            object!(types { results: PathBuf, seed: u64, rounds: Vec<Round>, left_out: Vec<String> }),
        ),
        (
            "explore",
            json!({ "properties": { "headline": { "type": "string" }, "explored": { "type": "array" } } }),
        ),
        ("learn", object!(types { results: PathBuf, learned: Learned })),
        ("calibrate", object!(types { results: PathBuf, calibration: CalibrationFile })),
        ("export", object!(types { run: PathBuf, written: Vec<PathBuf> })),
        ("check", json!({ "allOf": [verdict, either(checked_run, checked_history)] })),
        ("compare", either(object!(types { comparison: Comparison }), object!(types { power: Power }))),
        ("baseline add", types.subschema_for::<Listed<'_>>().to_value()),
        ("baseline list", object!(types { baselines: Vec<Listed<'_>> })),
        ("baseline check", object!(types { comparisons: Vec<Comparison> })),
    ]
}

fn of_others(types: &mut SchemaGenerator) -> Vec<(&'static str, Value)> {
    let driver_check = object!(types { driver: String, inside: Object, system: String, locks: Vec<String>,
        headline: String, checks: Vec<Finding> });
    let card = object!(types { name: String, summary: String, source: String, details: String,
        params: Vec<Object> });
    let cards = |field: &str| json!({ "required": [field], "properties": { (field): { "type": "array", "items": card } } });
    let clean = either(object!(types { runs: Vec<Object> }), object!(types { projects: Vec<Object> }));
    vec![
        ("validate", types.subschema_for::<Preview>().to_value()),
        ("strategies", cards("strategies")),
        ("faults", cards("faults")),
        ("driver check", driver_check),
        ("driver new", object!(types { directory: PathBuf, edit: PathBuf, files: Vec<String> })),
        (
            "ensemble up",
            object!(types { connect: String, servers: Vec<Object>, directory: PathBuf, since: String }),
        ),
        ("ensemble status", object!(types { up: bool })),
        ("ensemble down", object!(types { ended: u64, removed: Option<PathBuf> })),
        ("clean", clean),
    ]
}

fn either(one: Value, other: Value) -> Value {
    json!({ "anyOf": [one, other] })
}
