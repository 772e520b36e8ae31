//! Every shipped scenario is valid, has the name of its file, and takes the documented time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::generated_docs::assert_fresh;
use zklockbench_ensemble::fault;
use zklockbench_scenario::{Parsed, TrialPlan, parse};

/// Path and text of every shipped scenario.
fn files() -> impl Iterator<Item = (PathBuf, String)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    walkdir::WalkDir::new(directory)
        .into_iter()
        .map(|entry| entry.unwrap().into_path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
}

/// Name and text of every shipped scenario, sorted by name.
pub fn shipped() -> Vec<(String, String)> {
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut shipped: Vec<_> = files().map(|(path, text)| (name(path), text)).collect();
    shipped.sort();
    shipped
}

fn parsed(name: &str, text: &str) -> Parsed {
    parse(&format!("{name}.toml"), text, &zklockbench_load::catalog())
        .unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn each_shipped_scenario_parses_and_is_named_after_its_file() {
    let files = shipped();
    assert!(files.len() >= 7);
    for (name, text) in files {
        let scenario = parsed(&name, &text).scenario;
        assert_eq!(scenario.name, name);
        assert!(!scenario.description.is_empty());
    }
}

#[test]
fn shipped_scenarios_cause_no_unexpected_warnings() {
    for (name, text) in shipped() {
        let warnings = parsed(&name, &text).warnings;
        // Some article scenarios also have only one repetition, which causes a second warning.
        if name.starts_with("articles-") {
            let is_told = warnings.to_string().contains("one repetition");
            assert_eq!(is_told, text.contains("\nrepetitions = 1\n"), "{name}: {warnings}");
        } else {
            assert_eq!(warnings.len(), usize::from(name == "three-strategies"), "{name}: {warnings}");
        }
    }
}

#[test]
fn each_shipped_scenario_starts_with_purpose_expectation_and_source() {
    for (name, text) in shipped() {
        let comment: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        for word in ["Purpose:", "Expect:", "Source:"] {
            assert!(comment.contains(word), "{name} has no line `{word}`");
        }
    }
}

#[test]
fn each_shipped_scenario_references_the_schema_for_editors() {
    let schema = zklockbench_scenario::schema(&zklockbench_locks::cards(), &fault::cards());
    let schema = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
    assert_fresh("scenarios/scenario.schema.json", &schema);
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios"));
    for (path, text) in files() {
        let named = text.lines().next().unwrap().strip_prefix("#:schema ");
        let named = named.unwrap_or_else(|| panic!("{}: no line `#:schema` at its start", path.display()));
        let found = path.parent().unwrap().join(named).canonicalize().unwrap();
        assert_eq!(found, root.join("scenario.schema.json").canonicalize().unwrap(), "{}", path.display());
    }
}

#[test]
fn the_article_scenarios_cover_every_fault_within_ten_minutes() {
    // Once a counter is used up, locks can no longer be compared.
    let passes = |name: &&str| *name != fault::COUNTER_NEAR_END;
    let every_kind: BTreeSet<&str> =
        zklockbench_load::catalog().faults.iter().map(|fault| fault.name).filter(passes).collect();
    let of = |wanted: &str| {
        let (name, text) = shipped().into_iter().find(|(name, _)| name == wanted).unwrap();
        parsed(&name, &text).scenario
    };
    let [classes, one_that_goes_on] = ["articles-reliability", "articles-safety"].map(of);
    assert_eq!(classes.faults.iter().map(|fault| fault.kind.as_str()).collect::<BTreeSet<_>>(), every_kind);
    // The losses of the two scenarios are comparable only with the same faults.
    assert_eq!(classes.faults, one_that_goes_on.faults);
    for scenario in [classes, one_that_goes_on] {
        assert!(scenario.repetitions >= 3);
        let takes = TrialPlan::of(&scenario).estimated_duration();
        assert!(takes <= Duration::from_secs(600), "{} takes {takes:?}", scenario.name);
    }
}

#[test]
fn quick_and_open_load_scenarios_take_at_most_about_two_minutes() {
    let mut open = 0;
    for (name, text) in shipped() {
        let plan = TrialPlan::of(&parsed(&name, &text).scenario);
        let is_open = plan.trials.iter().all(|trial| trial.load.open().is_some());
        let seconds = match name.as_str() {
            "quick" => 80,
            "readers-writers" => 120,
            _ if is_open || name.starts_with("coordinated") => 125,
            _ => continue,
        };
        open += u32::from(seconds == 125);
        let takes = plan.estimated_duration();
        assert!(takes <= Duration::from_secs(seconds), "{name} takes {takes:?}");
        assert!(name != "quick" || plan.trials.len() == 4 * 7);
        assert!(name != "readers-writers" || plan.trials.iter().all(|trial| trial.read_ratio > 0.5));
    }
    assert_eq!(open, 7);
}
