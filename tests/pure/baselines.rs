//! The store of baselines: what is kept, what is refused, and what is drawn of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zklockbench_core::error::Error;
use zklockbench_core::measure::Figure;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures;
use zklockbench_record::{Run, RunOutcome};
use zklockbench_report::{CheckedTrends, Style, Trend};
use zklockbench_results::RunWriter;
use zklockbench_scenario::gate::Scope;

use crate::support::records;

/// A run of one trial below that directory, changed so.
fn run(parent: &Path, name: &str, change: impl Fn(&mut Run)) -> PathBuf {
    let mut writer = RunWriter::create(parent, name).unwrap();
    let trial = records::trial(0);
    writer.trial(&trial).unwrap();
    let mut run = records::run(1);
    change(&mut run);
    writer.seal(run, zklockbench_judge::of_run(&[trial], 1)).unwrap().publish().unwrap()
}

fn add(store: &Path, run: &Path, commit: &str) -> Result<zklockbench_results::Baseline, Error> {
    zklockbench_results::add_baseline(store, run, Some(commit), records::began())
}

/// What is said of it, which is a matter of usage.
fn told<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    error.to_string()
}

/// A store of two runs of `abc` and, later, one of `def` on another host.
fn store(dir: &Path) -> PathBuf {
    let store = dir.join("baselines");
    for (minutes, commit, host) in [(0, "abc", "here"), (5, "abc", "here"), (9, "def", "there")] {
        let later = |run: &mut Run| {
            run.started_at = records::began() + Duration::from_secs(60 * minutes);
            run.host.hostname = host.into();
        };
        add(&store, &run(dir, &format!("run-{minutes}"), later), commit).unwrap();
    }
    store
}

#[test]
fn a_copy_is_the_run_as_it_was_with_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let source = run(dir.path(), "mine", |_| ());
    fs::write(source.join("notes.txt"), "no part of the run").unwrap();
    let added = add(&dir.path().join("store"), &source, "abc123").unwrap();
    assert_eq!(zklockbench_results::read(&added.dir).unwrap(), zklockbench_results::read(&source).unwrap());
    assert!(!added.dir.join("notes.txt").exists());
    assert_eq!(zklockbench_results::baselines(&dir.path().join("store")).unwrap(), [added]);
    // Where no commit is given, it is that of the program
    let other = run(dir.path(), "other", |run| run.seed = 1);
    let added =
        zklockbench_results::add_baseline(&dir.path().join("store"), &other, None, records::began()).unwrap();
    assert_eq!(added.commit, "0123abc-dirty");
}

#[test]
fn what_cannot_be_a_baseline_is_refused_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let refused = |run: &Path, commit: Option<&str>| {
        told(zklockbench_results::add_baseline(&store, run, commit, records::began()))
    };
    assert!(refused(&dir.path().join("absent"), None).contains("is not a directory"));
    let nameless = run(dir.path(), "nameless", |run| run.tool_commit = None);
    assert!(refused(&nameless, None).contains("use --commit"));
    for name in ["", "a b", "\u{1b}[31m", &"x".repeat(101)] {
        assert!(refused(&nameless, Some(name)).contains("is no name of a commit"));
    }
    let damaged = run(dir.path(), "damaged", |_| ());
    fs::write(damaged.join("summary.csv"), "x").unwrap();
    assert!(refused(&damaged, Some("abc")).contains("summary.csv: is not as it was written"));
    assert!(!store.exists() || fs::read_dir(&store).unwrap().next().is_none());
    // And twice the same
    add(&store, &nameless, "abc").unwrap();
    let again = refused(&nameless, Some("def"));
    assert!(again.contains("is in the store already") && again.ends_with("of commit abc"), "{again}");
    assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
}

#[test]
fn a_store_that_is_none_or_is_damaged_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        told(zklockbench_results::baselines(&dir.path().join("absent")))
            .contains("`zklockbench baseline add RUN` creates one")
    );
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(told(zklockbench_results::baselines(&file)).contains("is not a directory"));
    let store = store(dir.path());
    // A read-me and what is on its way are nobody's mistake
    fs::write(store.join("README.md"), "our baselines").unwrap();
    fs::create_dir(store.join(".other.partial")).unwrap();
    let one = zklockbench_results::baselines(&store).unwrap().swap_remove(0).dir;
    let commit = one.join("baseline.json");
    for (text, said) in [
        ("{", "baseline.json: EOF while parsing"),
        (r#"{"schema_version": 9}"#, "baseline.json: schema version 9, but this program reads version 1"),
        (
            r#"{"schema_version": 1, "commit": "a\u001b", "added_at": "2026-11-21T08:45:08Z"}"#,
            "baseline.json: `commit` is no name of a commit",
        ),
    ] {
        fs::write(&commit, text).unwrap();
        let told = told(zklockbench_results::baselines(&store));
        assert!(told.contains(said), "{told}");
    }
    fs::remove_file(&commit).unwrap();
    assert!(
        told(zklockbench_results::baselines(&store)).contains("is not a baseline: it has no baseline.json")
    );
}

#[test]
fn commits_have_all_their_runs_of_a_scenario_the_newest_commit_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let of = |store: &Path, scenario| {
        zklockbench_results::baselines_by_commit(&zklockbench_results::baselines(store).unwrap(), scenario)
    };
    let sizes = |store: &Path| of(store, "quick").iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(&store), [1, 2]);
    let later = run(dir.path(), "later", |run| run.started_at += Duration::from_secs(3_600));
    add(&store, &later, "abc").unwrap();
    assert_eq!(sizes(&store), [3, 1]);
    assert!(of(&store, "other").is_empty());
}

#[test]
fn a_trend_says_when_hosts_differ_and_leaves_gaps_where_nothing_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let mut trend = Trend::new(figures::named("wait.p50").unwrap(), Scope::default());
    for (at, one) in zklockbench_results::baselines(&store).unwrap().iter().enumerate() {
        let mut stored = zklockbench_results::read(&one.dir).unwrap();
        if at == 1 {
            stored.trials[0].cut_short = records::interrupted();
        }
        trend.add(&one.commit, &stored);
    }
    let shown = zklockbench_report::trend(&trend, Style::default());
    insta::assert_snapshot!("trend", shown);
    assert!(shown.contains("! the hosts differ"), "{shown}");
    let svg = dir.path().join("trend.svg");
    zklockbench_report::chart::draw_trend(&trend, &svg).unwrap();
    let drawn = fs::read_to_string(svg).unwrap();
    for text in ["wait.p50 by commit", "abc", "def", "host there"] {
        assert!(drawn.contains(text), "{text}");
    }
    // Nothing measured, nothing drawn
    let mut empty = Trend::new(figures::named("read_wait.p50").unwrap(), Scope::default());
    empty.add(
        "abc",
        &zklockbench_results::read(&zklockbench_results::baselines(&store).unwrap()[0].dir).unwrap(),
    );
    let nowhere = dir.path().join("nothing.svg");
    assert!(
        told(zklockbench_report::chart::draw_trend(&empty, &nowhere))
            .contains("none of the runs measured read_wait.p50")
    );
    assert!(!nowhere.exists());
}

#[test]
fn of_a_plain_directory_of_runs_the_complete_ones_of_the_scenario_are_there_the_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let later = |minutes: u64| {
        move |run: &mut Run| run.started_at = records::began() + Duration::from_secs(60 * minutes)
    };
    let old = run(dir.path(), "b-old", later(0));
    let new = run(dir.path(), "a-new", later(5));
    run(dir.path(), "other", |run| run.scenario = "other".into());
    run(dir.path(), "interrupted", |run| run.outcome = RunOutcome::INTERRUPTED);
    let damaged = run(dir.path(), "damaged", later(9));
    fs::write(damaged.join("run.json"), "{").unwrap();
    assert!(!zklockbench_results::is_store_of_baselines(dir.path()));
    let (runs, passed_over) = zklockbench_results::runs_of(dir.path(), "quick").unwrap();
    assert_eq!(runs, [new, old]);
    assert!(
        passed_over.len() == 1 && passed_over[0].to_string().contains("damaged/run.json"),
        "{passed_over:?}"
    );
    assert!(zklockbench_results::is_store_of_baselines(&store(dir.path())));
}

#[test]
fn gates_and_comments_make_no_other_scenario_of_it_and_another_hold_does() {
    let dir = tempfile::tempdir().unwrap();
    let texts = [
        "# The first one\nname = \"quick\"\nhold = \"5ms\"\n",
        "hold = \"5ms\"\nname = \"quick\"\n[[gate]]\nrequire = \"wait.p50 not regressed by 5% against baseline\"\n",
        "name = \"quick\"\nhold = \"6ms\"\n",
    ];
    let mut trend = Trend::new(figures::named("throughput").unwrap(), Scope::default());
    let told = texts.map(|text| {
        let run =
            run(dir.path(), &format!("run-{}", trend.runs.len()), |run| run.scenario_text = text.into());
        trend.add("abc", &zklockbench_results::read(&run).unwrap());
        trend.notes.iter().any(|note| note.contains("the scenario was changed"))
    });
    assert_eq!(told, [false, false, true]);
}

/// A trend of the throughput over runs that take so many times as long, each of a commit of its own.
pub fn over(times: &[f64]) -> Trend {
    let times: Vec<_> = times.iter().copied().map(Some).collect();
    trend(figures::THROUGHPUT.figure(), &times).concluded(0.05)
}

#[test]
fn a_change_is_named_with_its_commit_its_size_and_how_sure_it_is() {
    // Given eight runs, and six that take half as long again
    let found = over(&[vec![1.0; 8], vec![1.5; 6]].concat());
    let [change] = found.changes.as_slice() else { panic!("{:?}", found.changes) };
    assert_eq!((change.commit.as_str(), change.run, change.is_last), ("commit8", 8, true));
    assert!((change.times - 1.0 / 1.5).abs() < 0.01 && change.p < 0.05, "{change:?}");
    assert!(change.is_worse(figures::THROUGHPUT.figure().better(), 0.05));
    let said = zklockbench_report::trend(&found, Style::default());
    assert!(
        said.contains(": throughput is 0.66") && said.contains(" times what it was from commit8 of "),
        "{said}"
    );
    // Once it is as good as before, the last change is none for the worse
    let mended = over(&[vec![1.0; 8], vec![1.5; 8], vec![1.0; 8]].concat());
    let last = mended.changes.iter().find(|change| change.is_last).unwrap();
    assert_eq!((mended.changes.len(), last.run), (2, 16));
    assert!(!last.is_worse(figures::THROUGHPUT.figure().better(), 0.05));
}

#[test]
fn where_nothing_changed_or_little_is_known_no_change_is_named() {
    let steady = over(&[1.0; 14]);
    assert!(steady.changes.is_empty(), "{:?}", steady.changes);
    assert!(
        zklockbench_report::trend(&steady, Style::default())
            .starts_with("No clear change in throughput over 14 runs.")
    );
    let few = over(&[1.0, 1.0, 9.0, 9.0]);
    assert!(
        zklockbench_report::trend(&few, Style::default())
            .starts_with("throughput over 4 runs: whether it changed can be told from 8 runs on.")
    );
    // Half as fast, but of one run fewer than that no order is rare enough.
    let halved = over(&[1.0, 1.01, 1.02, 1.03, 2.0, 2.01, 2.02]);
    assert!(halved.changes.is_empty() && halved.runs_at_least == 8, "{halved:?}");
}

/// A trend that is not concluded, of that figure in runs whose trials were measured for so many times as long; `None` of a
/// run whose trial is invalid.
fn trend(figure: Figure, times: &[Option<f64>]) -> Trend {
    let mut trend = Trend::new(figure, Scope { strategy: None, contenders: None });
    for (at, times) in times.iter().enumerate() {
        let mut trial = records::trial(0);
        match times {
            Some(times) => trial.measured_us = (2_500_000.0 * times * (1.0 + 0.002 * (at % 3) as f64)) as u64,
            None => trial.health.invalid = Some("lag".into()),
        }
        trend.add(&format!("commit{at}"), &records::stored(&records::run(1), &[trial]));
    }
    trend
}

fn checked(times: &[Option<f64>], accepted: usize) -> CheckedTrends {
    CheckedTrends::of(vec![trend(figures::THROUGHPUT.figure(), times)], accepted, 0.05).unwrap()
}

fn levels(levels: &[f64]) -> Vec<Option<f64>> {
    levels.iter().flat_map(|level| [Some(*level); 8]).collect()
}

#[test]
fn what_is_still_worse_fails_and_what_was_mended_or_accepted_does_not() {
    for (times, accepted, fails) in [
        (levels(&[1.0, 1.0]), 0, 0),
        (levels(&[1.0, 1.5]), 0, 1),
        // Accepted with the run that it begins with
        (levels(&[1.0, 1.5]), 9, 0),
        // Mended wholly, or only in part: the last change is then for the better, and it is worse all the same
        (levels(&[1.0, 1.5, 1.0]), 0, 0),
        (levels(&[1.0, 1.5, 1.3]), 0, 1),
        // Twice by less than the margin
        (levels(&[1.0, 1.04, 1.08]), 0, 1),
        (levels(&[1.5, 1.0, 1.0]), 0, 0),
    ] {
        let found = checked(&times, accepted);
        let failed = found.changes.iter().filter(|one| one.fails).count();
        assert_eq!(failed, fails, "{times:?}: {}", found.told());
        assert_eq!(matches!(found.verdict, Verdict::Violated(_)), fails > 0, "{}", found.told());
        assert_eq!(found.verdict == Verdict::Held, fails == 0, "{}", found.told());
    }
}

#[test]
fn of_too_few_values_it_is_not_known_whether_anything_changed_however_many_runs_there_are() {
    let unknown = |found: &CheckedTrends| matches!(found.verdict, Verdict::Unknown(_));
    // Given twelve runs of which nine are invalid
    let gaps: Vec<Option<f64>> = (0..12).map(|at| (at < 3).then_some(1.0)).collect();
    let found = checked(&gaps, 0);
    assert!(unknown(&found), "{}", found.told());
    assert!(found.told().contains("3 values, and it takes 8 to tell a change"), "{}", found.told());
    // Given a figure that no run has, although there are runs enough
    let missing = trend(figures::named("uncontended.p50").unwrap(), &levels(&[1.0, 1.0]));
    assert!(!missing.applies());
    assert!(unknown(&CheckedTrends::of(vec![missing], 0, 0.05).unwrap()));
    assert!(unknown(&CheckedTrends::of(Vec::new(), 0, 0.05).unwrap()));
    // And of what belongs to the load nothing is worse, so that it can't be checked
    let of_load = trend(figures::named("unserved").unwrap(), &levels(&[1.0, 1.0]));
    assert!(told(CheckedTrends::of(vec![of_load], 0, 0.05)).contains("belongs to the load"));
}
