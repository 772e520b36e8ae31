//! The answer at the top of each output, and the conclusions that a run does and does not support.

use std::path::Path;

use regex::Regex;
use zklockbench_core::{measure::Measure, verdict::Verdict};
use zklockbench_record::{Calibration, RunOutcome, Trial};
use zklockbench_report::{Gated, RunReport, Style, View, ci::github, document::Document, page};
use zklockbench_results::StoredRun;

use crate::support::ranked::{
    Lock, around, counted_apart, idle, invalid, lock, not_counted, overloaded, stored, unknown, violated,
};
use crate::support::{plans, records, shown};
use crate::{ab, articles, compare, learn, sweep_file};

struct Case {
    name: &'static str,
    run: StoredRun,
    gated: Gated,
}

fn gate(verdict: Verdict) -> Gated {
    let outcome = shown::gate("throughput within 20 %", ("a", 3), "0.6 times the baseline's 500/s", verdict);
    Gated { gates: vec![outcome], baseline: Some("baselines/main".into()) }
}

fn judged(mut run: StoredRun, verdict: Verdict) -> StoredRun {
    run.run.judged = records::judged(verdict);
    run
}

fn interrupted(mut run: StoredRun) -> StoredRun {
    run.run.run.outcome = RunOutcome::INTERRUPTED;
    run.run.run.planned_trials = 20;
    run
}

fn why(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

/// Three locks with 400, 200 and 100 acquisitions per second.
fn three(repetitions: u32) -> Vec<Lock> {
    let paces = [("a", 400.0), ("b", 200.0), ("c", 100.0)];
    paces.map(|(label, pace)| lock(label, around(pace, repetitions))).into()
}

/// Three locks. `what` changes the trials of the fastest lock.
fn special(what: fn(&mut Trial)) -> StoredRun {
    let [_, b, c]: [Lock; 3] = three(8).try_into().unwrap_or_else(|_| panic!("three locks"));
    stored(&[Lock { what, ..lock("a", around(900.0, 8)) }, b, c])
}

/// Two equally fast locks, one of which sends more requests, and another lock.
fn tied_with(other: Lock) -> StoredRun {
    let heavy = Lock { requests: 12, ..lock("heavy", around(400.0, 10)) };
    stored(&[heavy, lock("light", around(401.0, 10)), other])
}

fn team(what: fn(&mut Trial), pace: f64) -> Lock {
    Lock { what, ..lock("team:Lock", around(pace, 10)) }
}

fn cases() -> Vec<Case> {
    let case = |name, run| Case { name, run, gated: Gated::default() };
    let example = |name: &str| {
        zklockbench_results::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)).unwrap()
    };
    let both = |what| ["a", "b"].map(|label| Lock { what, ..lock(label, around(400.0, 2)) });
    let noise = [
        lock("a", [300.0, 520.0, 350.0, 450.0, 380.0, 420.0, 310.0, 500.0]),
        lock("b", [510.0, 310.0, 440.0, 360.0, 430.0, 370.0, 490.0, 320.0]),
    ];
    let five = ["a", "b", "c", "d", "e"]
        .map(|label| Lock { what: violated, ..lock(label, around(400.0, if label == "a" { 5 } else { 1 })) });
    let let_in = || Verdict::Violated(why("a admitted two holders"));
    let no_evidence = Verdict::Unknown(why("nothing could have been caught"));
    let gated = |name, verdict| Case { gated: gate(verdict), ..case(name, stored(&three(8)[..2])) };
    vec![
        case("a clear winner", stored(&three(8))),
        case("a tie", stored(&[lock("a", around(400.0, 10)), lock("b", around(401.0, 10))])),
        case("a tie with a driver's lock with more requests", tied_with(team(counted_apart::<6>, 400.0))),
        case("a tie with a driver's lock with fewer requests", tied_with(team(counted_apart::<2>, 400.0))),
        case("a tie with a driver's lock that was not counted", tied_with(team(not_counted, 402.0))),
        case("noise", stored(&noise)),
        case("one repetition", stored(&three(1))),
        case("three repetitions, far apart", stored(&three(3))),
        case("an invalid winner", special(invalid)),
        case("a violated winner", judged(special(violated), let_in())),
        case("a winner without enough evidence", judged(special(unknown), no_evidence)),
        case("nothing acquired", stored(&both(idle))),
        case("an unstable open loop", stored(&both(overloaded))),
        case("one strategy", stored(&three(8)[..1])),
        case("two violated locks", judged(stored(&both(violated)), let_in())),
        case("five violated locks", judged(stored(&five), let_in())),
        case("interrupted", interrupted(stored(&three(3)[..2]))),
        gated("a gate that failed", Verdict::Violated(why("throughput regressed"))),
        gated("a gate that is unknown", Verdict::Unknown(why("the floor moved"))),
        case("faults", example("example-faults")),
        case("the example", example("example")),
    ]
}

#[test]
fn report_states_only_conclusions_that_the_metrics_support() {
    let answers = cases().into_iter().map(|Case { name, run, gated }| {
        let view = View::of(&run);
        let report = RunReport::of(&view, &gated);
        let conclusions = report.conclusions.iter().map(|one| {
            let (topic, certainty, strategies) = (one.topic, one.certainty, one.strategies.join(", "));
            format!("- {topic:?}, {certainty:?}, {strategies}: {}\n", one.sentence)
        });
        format!("## {name}\n{}\n{}", report.headline.text(), conclusions.collect::<String>())
    });
    insta::assert_snapshot!("answers", answers.collect::<Vec<_>>().join("\n"));
}

#[test]
fn lighter_lock_is_called_slower_only_if_it_is_slower() {
    let said = |pace| {
        let heavy = Lock { requests: 12, ..lock("heavy", around(400.0, 10)) };
        let light = Lock { what: unknown, ..lock("light", around(pace, 10)) };
        let (run, gated) = (stored(&[heavy, light]), Gated::default());
        let view = View::of(&run);
        RunReport::of(&view, &gated).conclusions[0].sentence.clone()
    };
    let [slow, fast] = [200.0, 401.0].map(said);
    assert!(slow.contains("light is slower but needs only"), "{slow}");
    assert!(fast.starts_with("Use heavy") && !fast.contains("slower"), "{fast}");
}

#[test]
fn wait_cut_off_by_timeouts_is_recommended_only_as_a_lower_bound() {
    fn with_waits(trial: &mut Trial, served: &[u64], unserved: &[u64]) {
        overloaded(trial);
        trial.steady = None;
        let waits = [(Measure::Wait, served), (Measure::Unserved, unserved)];
        trial.histograms = waits.map(|(measure, us)| (measure, records::histogram(us))).into();
    }
    let timed_out = |trial: &mut Trial| with_waits(trial, &[1_000; 10], &[10_000; 90]);
    let served = |trial: &mut Trial| with_waits(trial, &[20_000; 100], &[]);
    let run = stored(&[
        Lock { what: timed_out, ..lock("a", around(400.0, 10)) },
        Lock { what: served, ..lock("b", around(400.0, 10)) },
    ]);
    let (view, gated) = (View::of(&run), Gated::default());
    let report = RunReport::of(&view, &gated);
    let said = &report.conclusions[0].sentence;
    assert!(said.starts_with("Use a or b with 3 contenders: a median wait of ≥ 10 ms."), "{said}");
}

#[test]
fn report_lists_the_first_reasons_for_each_violated_lock() {
    let Case { run, .. } = cases().into_iter().find(|case| case.name == "five violated locks").unwrap();
    insta::assert_snapshot!("five_violated_locks", shown::terminal(&View::of(&run), Style::EVERYTHING));
}

fn plain(text: &str) -> String {
    Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

/// The first paragraph as one line.
fn first(text: &str) -> String {
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn every_output_of_a_run_starts_with_the_answer() {
    let mut tones = String::new();
    for Case { name, run, gated } in cases() {
        let view = View::of(&run);
        let report = RunReport::of(&view, &gated);
        let line = report.headline.text();
        for width in [None, Some(80), Some(120)] {
            for colour in [false, true] {
                let style = Style { colour, width, ..Style::EVERYTHING };
                let text = zklockbench_report::terminal(&report, None, style);
                assert_eq!(first(&plain(&text)), line, "{name}, width {width:?}");
            }
        }
        let words =
            |text: &str| text.replace(['\\', '*', '`'], "").replace("&#58;", ":").replace("&lt;", "<");
        for text in
            [zklockbench_report::markdown(&report), github::summary(&shown::ci_report(&run, &gated), 1 << 20)]
        {
            assert_eq!(words(first(&text).trim_start_matches(['#', ' '])), words(&line), "{name}");
        }
        let page = shown::page(&run, &gated);
        let (_, shown) = page.split_once("<ul class=\"headline\">").unwrap();
        let (shown, _) = shown.split_once("</ul>").unwrap();
        let expected = line.replace('&', "&amp;").replace('<', "&lt;");
        assert!(shown.contains(&expected), "{name}: {shown}");
        tones += &format!("{name}: {}\n", shown.split('>').next().unwrap());
    }
    insta::assert_snapshot!("tones", tones);
}

/// The terminal output and page of a command.
struct Answer {
    name: &'static str,
    draw: Box<dyn Fn(Style) -> String>,
    page: Document,
}

fn answers() -> Vec<Answer> {
    let answer = |name, page, draw| Answer { name, draw, page };
    let (plan, ab, sweep) = (plans::plan(), ab::file(), sweep_file::file());
    let (base, new) = (compare::taking("base", 1.0, 10), compare::taking("new", 1.5, 10));
    let compared = compare::compared(&base, &new);
    let learned = learn::load_of(300);
    let calibration = Calibration { floor: records::floor(), ..articles::calibration() };
    vec![
        answer("plan", page::of_plan(&plan), Box::new(move |style| zklockbench_report::plan(&plan, style))),
        answer("ab", page::of_ab(&ab), Box::new(move |style| zklockbench_report::ab(&ab, style))),
        answer(
            "sweep",
            page::of_sweep(&sweep),
            Box::new(move |style| zklockbench_report::sweep(&sweep, &[], style)),
        ),
        answer(
            "compare",
            page::of_comparison(&base, &new, &compared),
            Box::new(move |style| zklockbench_report::comparison(&compared, style)),
        ),
        answer(
            "calibrate",
            page::of_calibration(&calibration),
            Box::new(move |style| zklockbench_report::calibration(&calibration, style)),
        ),
        answer(
            "learn",
            page::of_learned(&learned),
            Box::new(move |style| zklockbench_report::learned(&learned, style)),
        ),
    ]
}

#[test]
fn output_of_every_other_command_starts_with_the_answer() {
    let mut lines = String::new();
    for Answer { name, draw, page } in answers() {
        for width in [None, Some(80), Some(120)] {
            let text = plain(&draw(Style { colour: true, width, ..Style::EVERYTHING }));
            assert_eq!(text.lines().next(), Some(page.headline.sentence.as_str()), "{name}, {width:?}");
        }
        lines += &format!("{name}: {}\n", page.headline.sentence);
    }
    insta::assert_snapshot!("first_lines", lines);
}

/// Renders a screen in a style.
type Screen = Box<dyn Fn(Style) -> String>;

/// The screens of all cases and commands, by name.
fn screens() -> Vec<(&'static str, Screen)> {
    let runs = cases().into_iter().map(|Case { name, run, gated }| -> (_, Box<dyn Fn(Style) -> String>) {
        let draw =
            move |style| zklockbench_report::terminal(&RunReport::of(&View::of(&run), &gated), None, style);
        (name, Box::new(draw))
    });
    runs.chain(answers().into_iter().map(|answer| (answer.name, answer.draw))).collect()
}

#[test]
fn output_fits_the_terminal_without_breaking_words() {
    for (name, draw) in screens() {
        let wide = draw(Style::EVERYTHING);
        // A narrow table may become a list with punctuation between values, or omit columns and list their names.
        let without_marks = |word: &str| word.trim_matches([',', ';', '.', ':']).to_owned();
        let known: Vec<String> = wide.split_whitespace().map(without_marks).collect();
        for width in [80, 120] {
            let text = draw(Style { width: Some(width), ..Style::EVERYTHING });
            // Sentences are wrapped only when printed.
            let is_table = |line: &&str| line.contains("  ") && !line.starts_with([' ', '!']);
            for line in text.lines().filter(is_table) {
                assert!(line.chars().count() <= usize::from(width), "{name}, {width}: {line}");
            }
            let is_of_the_frame = |word: &&str| {
                word.starts_with("---") || ["Left", "out", "at", "this", "width:"].contains(word)
            };
            let is_broken = |word: &&str| !known.contains(&without_marks(word)) && !is_of_the_frame(word);
            let broken: Vec<&str> = text.split_whitespace().filter(is_broken).collect();
            assert!(broken.is_empty(), "{name}, {width}: {broken:?}\n{text}");
            let letters = text.lines().filter(|line| line.trim().chars().count() == 1).count();
            assert_eq!(letters, 0, "{name}, {width}:\n{text}");
            // Colours must not change the text.
            let without_ends = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
            let coloured = plain(&draw(Style { colour: true, width: Some(width), ..Style::EVERYTHING }));
            assert_eq!(without_ends(&coloured), without_ends(&text), "{name}, {width}");
        }
    }
}

#[test]
fn every_command_prints_an_answer_one_table_and_a_few_short_lines() {
    for (name, draw) in screens() {
        for width in [80, 120] {
            let text = draw(Style { width: Some(width), ..Style::default() });
            let wrapped = |line: &str| match line.contains("  ") {
                true => line.to_owned(),
                false => zklockbench_report::wrapped(line, "", usize::from(width)),
            };
            let lines = text.lines().map(wrapped).collect::<Vec<_>>().join("\n");
            let after = lines.lines().skip_while(|line| !line.is_empty()).count();
            // The examples and the sweep are larger, with more than two strategies.
            let is_small = !["faults", "the example", "sweep"].contains(&name);
            assert!(!is_small || after <= 25, "{name}, {width}: {after} lines\n{text}");
            assert!(lines.lines().all(|line| line.chars().count() <= usize::from(width)), "{name}:\n{text}");
            shown::assert_is_brief(name, &text);
        }
    }
}
