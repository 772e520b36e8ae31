//! Renders runs in each output format.

use zklockbench_analysis::gate::{Check, Outcome};
use zklockbench_core::verdict::Verdict;
use zklockbench_report::ci::CiReport;
use zklockbench_report::page::{Source, document};
use zklockbench_report::{Gated, RunReport, Style, Summary, View, html};
use zklockbench_results::StoredRun;
use zklockbench_scenario::gate::Scope;

pub fn terminal(view: &View<'_>, style: Style) -> String {
    zklockbench_report::terminal(&RunReport::of(view, &Gated::default()), None, style)
}

pub fn markdown(view: &View<'_>) -> String {
    zklockbench_report::markdown(&RunReport::of(view, &Gated::default()))
}

pub fn summary(stored: &StoredRun) -> Summary {
    Summary::of(stored, &RunReport::of(&View::of(stored), &Gated::default()))
}

pub fn ci_report(stored: &StoredRun, gated: &Gated) -> CiReport {
    CiReport::of_run(stored, &RunReport::of(&View::of(stored), gated))
}

pub fn page(stored: &StoredRun, gated: &Gated) -> String {
    let view = View::of(stored);
    let source = Source { name: "a-run", stored, view: &view };
    html::page(&[document(&source, &RunReport::of(&view, gated))], None)
}

/// Outcome of a gate with a single check.
pub fn gate(text: &str, (strategy, contenders): (&str, usize), sentence: &str, verdict: Verdict) -> Outcome {
    let check = Check {
        strategy: strategy.into(),
        contenders,
        verdict: verdict.clone(),
        observed: None,
        limit: None,
        sentence: sentence.into(),
    };
    Outcome { gate: text.into(), name: None, scope: Scope::default(), verdict, checks: vec![check] }
}

/// Asserts that a command's output has at most one table and no sentence above 25 words, also split at semicolons.
pub fn assert_is_brief(name: &str, text: &str) {
    assert!(text.matches("\n---").count() <= 1, "{name}: more than one table\n{text}");
    let prose = text.lines().filter(|line| !line.contains("  "));
    for sentence in prose.flat_map(|line| line.split_inclusive(';')).flat_map(|part| part.split(". ")) {
        let words = sentence.split_whitespace().count();
        assert!(words <= 25, "{name}: {words} words: {sentence}\n{text}");
    }
}
