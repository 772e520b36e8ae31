//! Comparisons of two sides, each with one or more runs, as described in `docs/comparing-runs.md`.

use std::fs;
use std::path::Path;

use zklockbench_analysis::compare::{Ask, Comparison, Loaded, Regression, Side, between_parts, compare};
use zklockbench_record::{EnsembleInfo, ServerInfo, Trial};
use zklockbench_report::{Style, chart};

use zklockbench_core::error::{Error, Exit};
use zklockbench_core::measure::Measure;

use crate::support::json_schema::Schema;
use crate::support::records::side;
use crate::support::{records, run_dirs};

/// Factors that simulate noise between the repetitions of a side.
pub const NOISE: [f64; 10] = [1.0, 1.01, 0.99, 1.02, 0.98, 1.005, 0.995, 1.015, 0.985, 1.008];

pub fn repetition(at: usize, times: f64) -> Trial {
    records::trial_taking(at, times * NOISE[at % 10])
}

/// A side whose repetitions are slower than usual by the factor `times`, each with its own noise.
pub fn taking(name: &str, times: f64, count: usize) -> Side {
    side(name, &(0..count).map(|at| repetition(at, times)).collect::<Vec<_>>())
}

pub fn base() -> Side {
    taking("base", 1.0, 10)
}

pub fn new(times: f64) -> Side {
    taking("new", times, 10)
}

/// Applies a change to every trial. The change receives the trial's position in the run.
pub fn each(mut side: Side, change: impl Fn(usize, &mut Trial)) -> Side {
    for run in &mut side.runs {
        run.stored.trials.iter_mut().enumerate().for_each(|(at, trial)| change(at, trial));
    }
    side
}

pub fn with(mut side: Side, change: impl Fn(&mut Loaded)) -> Side {
    change(&mut side.runs[0]);
    side
}

/// A side with an open load, whose queue grows or is stable.
pub fn open(name: &str, grows: bool) -> Side {
    let trial = |at: usize| {
        let mut trial = records::overloaded(at);
        if grows {
            zklockbench_judge::judge(&mut trial);
        } else {
            trial.steady = None;
            trial.histograms.remove(&Measure::Unserved);
        }
        trial
    };
    side(name, &(0..10).map(trial).collect::<Vec<_>>())
}

pub fn compared(base: &Side, new: &Side) -> Comparison {
    compare(base, new, &Ask::default()).unwrap()
}

#[test]
fn comparison_json_matches_its_schema_and_contains_only_finite_numbers() {
    let validator = Schema::new(schemars::schema_for!(Comparison).as_value());
    for found in
        [compared(&base(), &taking("new", 1.2, 9)), compared(&open("base", false), &open("new", true))]
    {
        let json = serde_json::to_value(&found).unwrap();
        let wrong: Vec<String> = validator.complaints(&json);
        assert!(wrong.is_empty(), "{wrong:?}\n{json:#}");
        assert_eq!(json["schema_version"], 3);
    }
}

#[test]
fn hostile_text_in_a_compared_run_is_escaped_in_terminal_and_markdown() {
    let hostile = |name: &str| {
        let side = each(taking(name, 1.0, 10), |at, trial| {
            trial.spec.strategy.label = "\u{1b}]0;pwned\u{7}<img src=x>".into();
            trial.health.invalid = (at == 0).then(|| "\u{1b}[31m".into());
        });
        with(side, |run| {
            run.stored.run.run.scenario = "\u{1b}[2J<script>".into();
            run.stored.run.run.host.hostname = "a\u{7}|b\n# c".into();
        })
    };
    let found = compared(&hostile("base"), &hostile("new"));
    let terminal = zklockbench_report::comparison(&found, Style::EVERYTHING);
    let page = zklockbench_report::comparison_markdown(&found);
    for text in [&terminal, &page] {
        assert!(text.chars().all(|letter| letter == '\n' || !letter.is_control()), "{text:?}");
    }
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
}

#[test]
fn comparison_is_printed_as_a_list_when_the_table_is_too_wide() {
    let compared = compared(&base(), &new(1.5));
    let shown = |width, style| zklockbench_report::comparison(&compared, Style { width, ..style });
    let screens = [40, 60, 80].map(|width| shown(Some(width), Style::EVERYTHING));
    for (width, screen) in [40, 60, 80].into_iter().zip(&screens) {
        let coloured = shown(Some(width), Style { colour: true, ..Style::EVERYTHING });
        let ends = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(ends(&console::strip_ansi_codes(&coloured)), ends(screen), "{width}");
    }
    // Unchanged metrics are omitted by default.
    let brief = shown(None, Style::default());
    let markdown = zklockbench_report::comparison_markdown(&compared);
    let all = [screens.join("\n===\n"), brief, markdown].join("\n===\n");
    insta::assert_snapshot!("screens", all);
}

#[test]
fn comparison_charts_show_every_ratio_and_every_cell() {
    let dir = tempfile::tempdir().unwrap();
    let (base, new) = (base(), new(1.5));
    let found = compared(&base, &new);
    let (svg, png) = (dir.path().join("c.svg"), dir.path().join("c.png"));
    let text = || fs::read_to_string(&svg).unwrap();
    for path in [&svg, &png] {
        chart::draw_comparison(&found, path).unwrap();
    }
    assert_eq!(text().matches("\nregressed\n").count(), 5, "{}", text());
    assert_eq!(text().matches("\nsame\n").count(), 5, "{}", text());
    assert!(fs::read(&png).unwrap().starts_with(b"\x89PNG"));
    let error = chart::draw_comparison(&found, &dir.path().join("c.gif")).unwrap_err();
    assert!(error.to_string().contains("must end with .svg or .png"), "{error}");
    for path in [&svg, &png] {
        chart::draw_percentiles(&base, &new, &found, path).unwrap();
    }
    for told in ["base: base", "new: new", "3 contenders, closed load", "99.9 %"] {
        assert!(text().contains(told), "{told}");
    }
    // A cell that exists only in the base is also drawn, unless it has no samples.
    let both = (0..4).flat_map(|at| {
        let mut seven = repetition(at, 1.0);
        seven.spec.contenders = 7;
        [repetition(at, 1.0), seven]
    });
    let more = side("base", &both.collect::<Vec<_>>());
    chart::draw_percentiles(&more, &new, &compared(&more, &new), &svg).unwrap();
    assert!(text().contains(", 7 contenders"));
    let silent = each(base, |_, trial| trial.histograms.clear());
    let nothing = chart::draw_percentiles(&silent, &silent, &found, &svg).unwrap_err();
    assert!(nothing.to_string().contains("no valid trial of either side measured a wait"), "{nothing}");
}

fn told(path: &Path) -> String {
    let error = Side::read(path).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string()
}

#[test]
fn side_includes_every_run_in_a_directory_and_reports_damaged_runs() {
    let dir = tempfile::tempdir().unwrap();
    assert!(told(dir.path()).contains("is not a run directory"), "{}", told(dir.path()));
    assert!(told(&dir.path().join("absent")).contains("is not a directory"));
    let first = run_dirs::publish(dir.path(), &[records::trial(0)]);
    let second = run_dirs::publish(dir.path(), &[records::trial(0), records::trial(1)]);
    fs::create_dir(dir.path().join(".quick.partial")).unwrap();
    fs::write(dir.path().join("README.md"), "nothing").unwrap();
    let both = Side::read(dir.path()).unwrap();
    assert_eq!(both.runs.iter().map(|run| run.stored.trials.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(Side::read(&first).unwrap().runs.len(), 1);

    let run = second.join("run.json");
    let whole = fs::read(&run).unwrap();
    let name = run.display().to_string();
    for damage in [&whole[..whole.len() / 2], b"", b"\xff\xfe", b"[]", b"{\"schema_version\": 99}"] {
        fs::write(&run, damage).unwrap();
        assert!(told(dir.path()).contains(&name), "{}", told(dir.path()));
    }
    fs::remove_file(&run).unwrap();
    assert!(told(dir.path()).contains("is an incomplete run"), "{}", told(dir.path()));
    fs::create_dir(&run).unwrap();
    assert!(told(dir.path()).contains("run.json: is not a regular file"), "{}", told(dir.path()));
}

#[test]
fn forced_comparison_of_a_run_with_itself_is_inconclusive() {
    let example = Side::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results/example")).unwrap();
    let itself = compare(&example, &example, &Ask { force: true, ..Ask::default() }).unwrap();
    // Two repetitions are too few for a verdict.
    assert_eq!(itself.conclusion.exit(), Exit::Unknown);
    assert!(itself.rows.iter().all(|row| row.compared.regression != Regression::Yes));
}

#[test]
fn versions_of_two_run_parts_differ_only_if_both_are_known() {
    let run = |versions: &[&str]| {
        let mut run = records::run(1);
        let servers =
            versions.iter().map(|version| ServerInfo { version: (*version).into(), ..ServerInfo::default() });
        run.ensemble.servers = servers.collect();
        run
    };
    let (known, unknown) = ("3.9.3", EnsembleInfo::NOT_KNOWN);
    for (earlier, later, differ) in [
        ([known, known], [known, known], false),
        ([known, unknown], [known, known], false),
        ([unknown, unknown], [known, known], false),
        ([known, known], [unknown, known], false),
        ([known, "3.8.0"], [known, unknown], false),
        ([known, unknown], ["3.8.0", unknown], true),
        ([known, known], ["3.8.0", unknown], true),
        ([known, known], ["3.8.0", known], true),
    ] {
        let differences = between_parts(&run(&earlier), &run(&later));
        let found = differences.iter().any(|difference| difference.what == "ZooKeeper");
        assert_eq!(found, differ, "{earlier:?} and {later:?}");
    }
}
