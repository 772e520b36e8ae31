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
