//! Modified and damaged run directories are rejected with an error that identifies the file.

use crate::support::records;
use crate::support::run_dirs::{self, sha256};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use zklockbench_core::error::Error;

/// Publishes a run of two trials, damages the directory, and returns the reader's error.
///
/// Digests are checked first, so tests of other checks must update the digests.
fn told_after(damage: impl FnOnce(&Path)) -> String {
    let (_parent, dir) = run_dirs::published(&[records::trial(0), records::trial(1)]);
    zklockbench_results::read(&dir).unwrap();
    damage(&dir);
    let error = zklockbench_results::read(&dir).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string().replace(dir.to_str().unwrap(), "RUN")
}

/// Changes the value at a JSON pointer, and updates the digests, so that only the content can reveal the change.
fn change(dir: &Path, file: &str, pointer: &str, value: Value) {
    set(dir, file, pointer, value);
    digest_anew(dir);
}

fn digest_anew(dir: &Path) {
    run_dirs::change(dir, |run| {
        for (name, digest) in run["files"].as_object_mut().unwrap() {
            if let Ok(bytes) = fs::read(dir.join(name)) {
                *digest = json!(sha256(&bytes));
            }
        }
    });
}

fn set(dir: &Path, file: &str, pointer: &str, value: Value) {
    let path = dir.join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    *json.pointer_mut(pointer).unwrap() = value;
    fs::write(path, serde_json::to_vec_pretty(&json).unwrap()).unwrap();
}

/// Changes a text file and updates the digests.
fn rewrite(dir: &Path, file: &str, with: impl FnOnce(&str) -> String) {
    let path = dir.join(file);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, with(&text)).unwrap();
    digest_anew(dir);
}

type Damage = fn(&Path);

const DAMAGES: [(&str, Damage); 14] = [
    ("a truncated trial", |dir| {
        rewrite(dir, "trials/001.json", |text| text.lines().take(10).collect::<Vec<_>>().join("\n"));
    }),
    ("a seed in words", |dir| change(dir, "run.json", "/seed", json!("many"))),
    ("an end at noon", |dir| change(dir, "run.json", "/ended_at", json!("noon"))),
    ("one trial too many", |dir| change(dir, "run.json", "/trials", json!(1))),
    ("no digests", |dir| change(dir, "run.json", "/files", json!({}))),
    ("a trial twice", |dir| {
        fs::copy(dir.join("trials/000.json"), dir.join("trials/001.json")).unwrap();
        digest_anew(dir);
    }),
    ("a later version", |dir| change(dir, "trials/001.json", "/schema_version", json!(3))),
    // Truncates the last histogram in the file, `wait`.
    ("a truncated histogram", |dir| {
        rewrite(dir, "trials/000.hlog", |text| text[..text.len() - 5].to_owned());
    }),
    ("a missing histogram", |dir| {
        let lost = |text: &str| text[..text.rfind("Tag=request_create").unwrap()].to_owned();
        rewrite(dir, "trials/000.hlog", lost);
    }),
    ("a histogram that is not base64", |dir| {
        let broken = ("Tag=wait,1.030,2.500,", "Tag=wait,1.030,2.500,1.0,!");
        rewrite(dir, "trials/000.hlog", |text| text.replacen(broken.0, broken.1, 1));
    }),
    ("no trials", |dir| fs::remove_dir_all(dir.join("trials")).unwrap()),
    ("no first trial", |dir| fs::remove_file(dir.join("trials/000.json")).unwrap()),
    ("no last trial", |dir| fs::remove_file(dir.join("trials/001.json")).unwrap()),
    ("no histograms", |dir| fs::remove_file(dir.join("trials/001.hlog")).unwrap()),
];

#[test]
fn damage_and_contradictions_are_reported_with_file_and_position() {
    let damages = DAMAGES.map(|(what, damage)| format!("{what}: {}\n", told_after(damage)));
    let contradictions = [
        ("/measured/requests/create", json!(19)),
        ("/measured/releases", json!(5)),
        ("/derived/fan_out", json!(1.5)),
        ("/whole/releases", json!(5)),
        ("/tallies/0/acquired", json!(4)),
        ("/latencies/wait/p99_us", json!(5)),
        ("/violation_count", json!(1)),
    ];
    let contradictions = contradictions.map(|(pointer, value)| {
        let told = told_after(|dir| change(dir, "trials/000.json", pointer, value.clone()));
        format!("{pointer} = {value}: {told}\n")
    });
    insta::assert_snapshot!("damages", damages.concat() + &contradictions.concat());
}

#[test]
fn reader_ignores_a_field_added_by_a_later_version() {
    let (_parent, dir) = run_dirs::published(&[records::trial(0)]);
    let text = fs::read_to_string(dir.join("run.json")).unwrap();
    fs::write(dir.join("run.json"), text.replacen('{', "{ \"weather\": \"fair\",", 1)).unwrap();
    digest_anew(&dir);
    assert!(zklockbench_results::read(&dir).is_ok());
}

#[test]
fn reader_ignores_files_that_no_run_writes() {
    let (_parent, dir) = run_dirs::published(&[records::trial(0)]);
    for name in ["0.json", "+1.json", "000 (copy).json", ".000.json.swp"] {
        fs::copy(dir.join("trials/000.json"), dir.join("trials").join(name)).unwrap();
        assert_eq!(zklockbench_results::read(&dir).unwrap().trials.len(), 1, "{name}");
    }
}

#[test]
fn missing_trial_is_reported_even_if_the_numbers_have_a_gap() {
    // A trial that could not start leaves a gap.
    let (_parent, dir) = run_dirs::published(&[records::trial(0), records::trial(2)]);
    let found = zklockbench_results::read(&dir).unwrap().trials;
    assert_eq!(found.iter().map(|trial| trial.spec.index).collect::<Vec<_>>(), [0, 2]);
    fs::remove_file(dir.join("trials/002.json")).unwrap();
    let told = zklockbench_results::read(&dir).unwrap_err().to_string();
    assert!(told.contains("trials/002.json: is missing, though the run had 2 trials"), "{told}");
}

#[test]
fn reader_detects_a_changed_digit_in_any_file() {
    let (_parent, dir) = run_dirs::published(&[records::trial(0)]);
    let mut files = vec!["run.json".to_owned()];
    files.extend(zklockbench_results::read(&dir).unwrap().run.files.keys().cloned());
    assert!(files.len() >= 5, "{files:?}");
    for name in files {
        let path = dir.join(&name);
        let whole = fs::read(&path).unwrap();
        // Change every digit of small files, and a sample of the digits of large files.
        let digits: Vec<usize> = (0..whole.len()).filter(|at| whole[*at].is_ascii_digit()).collect();
        for at in digits.iter().step_by(digits.len() / 40 + 1) {
            let mut changed = whole.clone();
            changed[*at] = if changed[*at] == b'9' { b'1' } else { changed[*at] + 1 };
            fs::write(&path, changed).unwrap();
            let error = zklockbench_results::read(&dir).expect_err(&format!("{name}: byte {at}"));
            assert!(error.to_string().contains(&name), "{error}");
        }
        fs::write(&path, whole).unwrap();
    }
    assert!(zklockbench_results::read(&dir).is_ok());
}

#[test]
fn charts_may_be_deleted_but_not_changed() {
    let parent = tempfile::tempdir().unwrap();
    let mut writer = zklockbench_results::RunWriter::create(parent.path(), "drawn").unwrap();
    writer.trial(&records::trial(0)).unwrap();
    let sealed = writer.seal(records::run(1), records::held()).unwrap();
    fs::create_dir(sealed.dir().join("charts")).unwrap();
    fs::write(sealed.dir().join("charts/throughput.svg"), "<svg/>").unwrap();
    let dir = sealed.publish().unwrap();
    assert!(zklockbench_results::read(&dir).is_ok());
    fs::write(dir.join("charts/throughput.svg"), "<svg>better</svg>").unwrap();
    let expected = "charts/throughput.svg: was modified: its digest";
    assert!(zklockbench_results::read(&dir).unwrap_err().to_string().contains(expected));
    fs::remove_dir_all(dir.join("charts")).unwrap();
    assert!(zklockbench_results::read(&dir).is_ok());
    fs::remove_file(dir.join("summary.csv")).unwrap();
    assert!(zklockbench_results::read(&dir).unwrap_err().to_string().contains("summary.csv: is missing"));
}

/// Hostile values in `run.json`: the field, its replacement, and the error message.
const HOSTILE: [(&str, &str, &str); 9] = [
    ("seed", "1e400", "run.json: `seed`: number out of range"),
    ("seed", "99999999999999999999999", "run.json: `seed`: invalid type"),
    ("seed", "-1", "run.json: `seed`: invalid value: integer `-1`, expected u64"),
    (
        "trials",
        "18446744073709551615",
        "trials/002.json: is missing, though the run had 18446744073709551615 trials",
    ),
    ("started_at", "\"9999-12-31T23:61:00Z\"", "run.json"),
    ("scenario", "\"../../etc\"", "run.json: `scenario`"),
    ("scenario", "{\"$ref\": 1}", "run.json: `scenario`: invalid type: map, expected a string"),
    ("strategies", "[[[]]]", "run.json: `strategies"),
    ("outcome", "null", "run.json: `outcome`: invalid type: null"),
];

/// Replaces a field's value with raw text and updates the digest of `run.json`.
fn change_text(dir: &Path, field: &str, text: &str) {
    const MARK: &str = "\"placeholder for raw text\"";
    set(dir, "run.json", &format!("/{field}"), json!("placeholder for raw text"));
    let path = dir.join("run.json");
    let changed = fs::read_to_string(&path).unwrap().replace(MARK, text);
    let digest = serde_json::from_str::<Value>(&changed.replace(text, "0")).unwrap()["digest"].clone();
    let blank = changed.replace(digest.as_str().unwrap(), &"0".repeat(64));
    fs::write(path, blank.replace(&"0".repeat(64), &sha256(blank.as_bytes()))).unwrap();
}

#[test]
fn every_reader_rejects_a_hostile_run_json_and_reports_file_and_field() {
    for (field, text, said) in HOSTILE {
        let (parent, dir) = run_dirs::published(&[records::trial(0), records::trial(1)]);
        change_text(&dir, field, text);
        let store = parent.path().join("store");
        let added = zklockbench_results::add_baseline(&store, &dir, Some("abc"), records::began());
        let Err(Error::Usage(told)) = added else { panic!("{field} = {text}: {added:?}") };
        assert!(told.contains(said), "{field} = {text}: {told}");
        assert!(!store.exists() || fs::read_dir(&store).unwrap().next().is_none(), "{field} = {text}");
        // Comparisons use the scenario's name only as text.
        if said != "run.json: `scenario`" {
            let compared = zklockbench_analysis::compare::Side::read(&dir);
            let Err(Error::Usage(told)) = compared else { panic!("{field} = {text}: {compared:?}") };
            assert!(told.contains(said), "{field} = {text}: {told}");
        }
    }
}

#[test]
fn error_for_a_truncated_run_json_contains_the_file_name() {
    let (parent, dir) = run_dirs::published(&[records::trial(0)]);
    let (path, store) = (dir.join("run.json"), parent.path().join("store"));
    let whole = fs::read(&path).unwrap();
    for length in (0..whole.len() - 1).step_by(97) {
        fs::write(&path, &whole[..length]).unwrap();
        let added = zklockbench_results::add_baseline(&store, &dir, Some("abc"), records::began());
        let Err(Error::Usage(told)) = added else { panic!("{length}: {added:?}") };
        assert!(told.contains("run.json: "), "{length}: {told}");
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    fs::write(&path, nested).unwrap();
    let added = zklockbench_results::add_baseline(&store, &dir, Some("abc"), records::began());
    let told = added.unwrap_err().to_string();
    assert!(told.contains("run.json: "), "{told}");
    assert!(!store.exists());
}
