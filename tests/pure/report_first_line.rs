//! The first line of every output of a run is its outcome, in the same words and the same colour.

use std::path::Path;

use regex::Regex;
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Calibration, RunOutcome};
use zklockbench_report::ci::github;
use zklockbench_report::document::Document;
use zklockbench_report::{Gated, RunReport, Style, View, page};
use zklockbench_results::StoredRun;

use crate::support::ranked::{Lock, around, lock, stored, unknown, violated};
use crate::support::{plans, records, shown};
use crate::{ab, articles, compare, sweep_file};

/// A run, how its first line begins, and the colour of that.
struct Case {
    name: &'static str,
    run: StoredRun,
    gated: Gated,
    begins: &'static str,
    tone: &'static str,
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

fn cases() -> Vec<Case> {
    let two =
        |repetitions| stored(&[lock("a", around(400.0, repetitions)), lock("b", around(200.0, repetitions))]);
    let doubtful =
        |what| stored(&[Lock { what, ..lock("a", around(400.0, 8)) }, lock("b", around(200.0, 8))]);
    let example = |name: &str| {
        zklockbench_results::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)).unwrap()
    };
    let case = |name, run, begins, tone| Case { name, run, gated: Gated::default(), begins, tone };
    vec![
        case("a winner", two(8), "Use a with 3 contenders: 401 acquisitions a second, 2 ", "good"),
        case(
            "a tie",
            stored(&[lock("a", around(400.0, 10)), lock("b", around(401.0, 10))]),
            "Use b or a with 3 contenders: 402 acquisitions a second",
            "good",
        ),
        case(
            "noise",
            stored(&[lock("a", [300.0, 520.0, 350.0]), lock("b", [510.0, 310.0, 440.0])]),
            "No winner yet with 3 contenders: 3 repetitions are too few for an interval; run with --repetitions ",
            "doubtful",
        ),
        case(
            "one repetition",
            two(1),
            "No winner yet with 3 contenders: 1 repetition is too few for an interval; run with --repetitions ",
            "doubtful",
        ),
        case(
            "three repetitions",
            two(3),
            "No winner yet with 3 contenders: 3 repetitions are too few for an interval; run with --repetitions ",
            "doubtful",
        ),
        case(
            "one strategy",
            stored(&[lock("a", around(400.0, 8))]),
            "a with 3 contenders: 401 acquisitions a second, a median wait of ",
            "good",
        ),
        Case {
            gated: gate(Verdict::Violated(why("throughput regressed"))),
            ..case(
                "a gate that failed",
                two(8),
                "FAILED: throughput within 20 %: a, 3 contenders: 0.6 times the baseline's 500/s.",
                "bad",
            )
        },
        Case {
            gated: gate(Verdict::Unknown(why("the floor moved"))),
            ..case("a gate that is unknown", two(8), "UNKNOWN: throughput within 20 %: ", "doubtful")
        },
        case(
            "a violation",
            judged(doubtful(violated), Verdict::Violated(why("a let two in"))),
            "VIOLATED: a must not be used: it did not exclude others in 8 of 8 trials",
            "bad",
        ),
        case(
            "two violations",
            judged(
                stored(&["a", "b"].map(|label| Lock { what: violated, ..lock(label, around(400.0, 2)) })),
                Verdict::Violated(why("a let two in")),
            ),
            "VIOLATED: a must not be used: it did not exclude others in 2 of 2 trials (3 entries beside a holder). \
             b must not be used: it did not exclude others in 2 of 2 trials (3 entries beside a holder).",
            "bad",
        ),
        case(
            "too little evidence",
            judged(doubtful(unknown), Verdict::Unknown(why("nothing could have been caught"))),
            "UNKNOWN: nothing could have been caught.",
            "doubtful",
        ),
        case(
            "interrupted",
            interrupted(two(3)),
            "Interrupted after 6 of 20 trials. No winner yet with 3 contenders: ",
            "doubtful",
        ),
        case("faults", example("example-faults"), "Kill leader: no acquisition for ", "good"),
        case("the example", example("example"), "Use ", "good"),
    ]
}

fn plain(text: &str) -> String {
    Regex::new("\u{1b}\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

/// The first paragraph on one line.
fn first(text: &str) -> String {
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_line_of_a_run_is_its_outcome_in_every_output() {
    for Case { name, run, gated, begins, tone } in cases() {
        let view = View::of(&run);
        let report = RunReport::of(&view, &gated);
        let line = report.headline.text();
        assert!(line.starts_with(begins), "{name}: {line}");
        for width in [None, Some(80), Some(120)] {
            for colour in [false, true] {
                let text =
                    zklockbench_report::terminal(&report, None, Style { colour, width, ..Style::EVERYTHING });
                assert_eq!(first(&plain(&text)), line, "{name}, width {width:?}");
            }
        }
        let words =
            |text: &str| text.replace(['\\', '*', '`'], "").replace("&#58;", ":").replace("&lt;", "<");
        assert_eq!(
            words(
                first(&zklockbench_report::markdown(&report))
                    .trim_start_matches("# ")
                    .trim_start_matches('#')
                    .trim()
            ),
            words(&line),
            "{name}"
        );
        let page = shown::page(&run, &gated);
        let (_, shown) = page.split_once("<ul class=\"headline\">").unwrap();
        let (shown, _) = shown.split_once("</ul>").unwrap();
        let expected = line.replace('&', "&amp;").replace('<', "&lt;");
        assert!(shown.contains(&expected), "{name}: {shown}");
        assert!(shown.starts_with(&format!("<li class=\"{tone}\">")), "{name}: {shown}");
        let workflow = github::summary(&shown::ci_report(&run, &gated), 1 << 20);
        assert_eq!(words(first(&workflow).trim_start_matches('#').trim()), words(&line), "{name}");
    }
}

#[test]
fn every_violated_lock_is_named_on_the_first_line_and_on_the_last() {
    let of = |label, repetitions| Lock { what: violated, ..lock(label, around(400.0, repetitions)) };
    let locks = [of("a", 5), of("b", 1), of("c", 1), of("d", 1), of("e", 1)];
    let run = judged(stored(&locks), Verdict::Violated(why("a let two in")));
    let view = View::of(&run);
    let gated = Gated::default();
    let report = RunReport::of(&view, &gated);
    let text = zklockbench_report::terminal(&report, None, Style::EVERYTHING);
    let line = first(&text);
    assert!(
        ["a", "b", "c"].iter().all(|label| line.contains(&format!("{label} must not be used: it"))),
        "{line}"
    );
    assert!(line.ends_with(" Nor must d and e be used."), "{line}");
    // What the first line does not tell stands among the conclusions.
    assert!(text.contains("\nd must not be used: ") && !text.contains("\nc must not be used: "), "{text}");
    let last = "violated (trial 0 (a, 3 contenders): 3 entries beside a holder; trial 5 (b, 3 contenders): 3 entries \
                beside a holder; trial 6 (c, 3 contenders): 3 entries beside a holder; trial 7 (d, 3 contenders): 3 \
                entries beside a holder; trial 8 (e, 3 contenders): 3 entries beside a holder; and 4 more reasons).\n";
    assert!(text.contains(last), "{text}");
    // The first reasons of each lock are told one by one.
    for note in [
        "\n! violated: a, 3 contenders, repetition 3: 3 entries beside a holder\n",
        "\n! violated: a, 3 contenders: 2 more reasons, in the files of its trials\n",
        "\n! violated: b, 3 contenders, repetition 1: 3 entries beside a holder\n",
    ] {
        assert!(text.contains(note), "{note}\n{text}");
    }
}

/// Fails where a table is wider than the terminal, or a word is broken to fit.
fn assert_readable(name: &str, draw: impl Fn(Style) -> String) {
    let wide = draw(Style::EVERYTHING);
    // A narrow table is told row by row, with marks between its figures, and says what it leaves out.
    let without_marks = |word: &str| word.trim_matches([',', ';', '.', ':']).to_owned();
    let known: Vec<String> = wide.split_whitespace().map(without_marks).collect();
    for width in [80, 120] {
        let text = draw(Style { colour: false, width: Some(width), ..Style::EVERYTHING });
        // Full sentences are broken between words where they leave the program.
        let is_table = |line: &&str| line.contains("  ") && !line.starts_with([' ', '!']);
        for line in text.lines().filter(is_table) {
            assert!(line.chars().count() <= usize::from(width), "{name}, {width}: {line}");
        }
        let is_new = |word: &&str| !known.contains(&without_marks(word));
        let is_of_the_frame =
            |word: &&str| word.starts_with("---") || ["Left", "out", "at", "this", "width:"].contains(word);
        let broken: Vec<&str> =
            text.split_whitespace().filter(is_new).filter(|word| !is_of_the_frame(word)).collect();
        assert!(broken.is_empty(), "{name}, {width}: {broken:?}\n{text}");
        let letters = text.lines().filter(|line| line.trim().chars().count() == 1).count();
        assert_eq!(letters, 0, "{name}, {width}:\n{text}");
        // And colours change nothing but the colour
        let without_ends = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        let coloured = plain(&draw(Style { colour: true, width: Some(width), ..Style::EVERYTHING }));
        assert_eq!(without_ends(&coloured), without_ends(&text), "{name}, {width}");
    }
}

#[test]
fn nothing_is_wider_than_the_terminal_and_no_word_is_broken() {
    for Case { name, run, gated, .. } in cases() {
        let view = View::of(&run);
        let report = RunReport::of(&view, &gated);
        assert_readable(name, |style| zklockbench_report::terminal(&report, None, style));
    }
    for Answer { name, draw, .. } in answers() {
        assert_readable(name, draw);
    }
}

/// What another command shows, and how it begins.
struct Answer {
    name: &'static str,
    draw: Box<dyn Fn(Style) -> String>,
    begins: &'static str,
    page: Option<Document>,
}

fn answers() -> Vec<Answer> {
    let answer = |name, begins, page, draw| Answer { name, draw, begins, page };
    let (plan, ab, sweep) = (plans::plan(), ab::file(), sweep_file::file());
    let (base, new) = (compare::taking("base", 1.0, 10), compare::taking("new", 1.5, 10));
    let compared = compare::compared(&base, &new);
    let calibration = Calibration { floor: records::floor(), ..articles::calibration() };
    vec![
        answer(
            "plan",
            "Use predecessor-watch: wait.p99 150 ms (90 %: 135 ms to 180 ms), asked: < 500 ms;",
            Some(page::of_plan(&plan)),
            Box::new(move |style| zklockbench_report::plan(&plan, style)),
        ),
        answer(
            "ab",
            "Regressed: B is worse than A: throughput of baton, 5 contenders 16.8 % lower (",
            Some(page::of_ab(&ab)),
            Box::new(move |style| zklockbench_report::ab(&ab, style)),
        ),
        answer(
            "sweep",
            "wait.p99 < 100ms is met over contenders: baton up to 10, parent-watch up to 10.",
            Some(page::of_sweep(&sweep)),
            Box::new(move |style| zklockbench_report::sweep(&sweep, &[], style)),
        ),
        answer(
            "compare",
            "Regressed between these two runs: turn.p50 of predecessor-watch",
            Some(page::of_comparison(&base, &new, &compared)),
            Box::new(move |style| zklockbench_report::comparison(&compared, style)),
        ),
        answer(
            "calibrate",
            "Without a lock a handoff takes ",
            Some(page::of_calibration(&calibration)),
            Box::new(move |style| zklockbench_report::calibration(&calibration, style)),
        ),
    ]
}

#[test]
fn the_first_line_of_every_other_command_is_its_outcome_too() {
    for Answer { name, draw, begins, page } in answers() {
        for width in [None, Some(80), Some(120)] {
            let text = plain(&draw(Style { colour: true, width, ..Style::EVERYTHING }));
            let line = text.lines().next().unwrap();
            assert!(line.starts_with(begins), "{name}, {width:?}: {line}");
            assert!(page.as_ref().is_none_or(|page| page.headline.sentence == line), "{name}: {line}");
        }
    }
}

/// Sentences of a text, without the values and brackets between them.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([';', '\n']).flat_map(|part| part.split_inclusive(". "))
}

#[test]
fn a_command_prints_its_outcome_one_table_and_a_few_short_lines() {
    let runs =
        cases().into_iter().map(|Case { name, run, gated, .. }| -> (_, Box<dyn Fn(Style) -> String>) {
            let draw = move |style| {
                let view = View::of(&run);
                zklockbench_report::terminal(&RunReport::of(&view, &gated), None, style)
            };
            (name, Box::new(draw))
        });
    let others = answers().into_iter().map(|answer| (answer.name, answer.draw));
    for (name, draw) in runs.chain(others) {
        for width in [80, 120] {
            let text = draw(Style { width: Some(width), ..Style::default() });
            let lines: Vec<String> = text
                .lines()
                .flat_map(|line| match line.contains("  ") {
                    true => vec![line.to_owned()],
                    false => {
                        let wrapped = zklockbench_report::wrapped(line, "", usize::from(width));
                        wrapped.lines().map(str::to_owned).collect()
                    }
                })
                .collect();
            let after = lines.iter().skip_while(|line| !line.is_empty()).count();
            // The examples have more than two strategies.
            let is_small = !["faults", "the example", "sweep"].contains(&name);
            assert!(!is_small || after <= 25, "{name}, {width}: {after} lines\n{text}");
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)), "{name}:\n{text}");
            let tables = text.matches("\n---").count();
            assert!(tables <= 1, "{name}, {width}: {tables} tables\n{text}");
            let prose = text.lines().filter(|line| !line.contains("  ")).collect::<Vec<_>>().join("\n");
            for sentence in sentences(&prose) {
                let words = sentence.split_whitespace().count();
                assert!(words <= 25, "{name}, {width}: {words} words: {sentence}");
            }
        }
    }
}
