//! Runs as each output shows them.

use zklockbench::report::ci::CiReport;
use zklockbench::report::page::{Source, document};
use zklockbench::report::{self, Gated, RunReport, Style, Summary, View, html};
use zklockbench::results::StoredRun;

pub fn terminal(view: &View<'_>, style: Style) -> String {
    report::terminal(&RunReport::of(view, &Gated::default()), None, style)
}

pub fn markdown(view: &View<'_>) -> String {
    report::markdown(&RunReport::of(view, &Gated::default()))
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
