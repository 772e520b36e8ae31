//! JUnit XML for Jenkins, GitLab, Azure and others: one test case per check. A failed check is a *failure*,
//! and an unknown check is an *error*, so neither passes.
//!
//! Metrics and the measurement environment are properties. Only suites have properties, because Jenkins'
//! xUnit plugin rejects everything outside its schema (junit-10.xsd).

use std::time::Duration;

use quick_junit::{NonSuccessKind, Property, Report, TestCase, TestCaseStatus, TestSuite};

use super::{Check, CheckKind, CiReport, TrackedValue};
use zklockbench_core::verdict::Verdict;

pub fn render(document: &CiReport) -> Result<String, String> {
    let mut report = Report::new(format!("zklockbench {}", document.title));
    report.set_time(document.took);
    for kind in CheckKind::ALL {
        let checks: Vec<&Check> = document.checks.iter().filter(|check| check.kind == kind).collect();
        if !checks.is_empty() {
            report.add_test_suite(suite(document, kind, &checks));
        }
    }
    let text = report.to_string().map_err(|error| error.to_string())?;
    // `quick_junit` adds a count of skipped tests to the root, which the schema forbids. Quotes in the name before
    // it are escaped, so the first match is this attribute.
    Ok(text.replacen(&format!(" skipped=\"{}\"", report.skipped), "", 1))
}

fn suite(document: &CiReport, kind: CheckKind, checks: &[&Check]) -> TestSuite {
    let mut suite = TestSuite::new(format!("{}: {}s", document.title, kind.name()));
    suite.set_time(checks.iter().map(|check| check.took).sum::<Duration>());
    let began = humantime::format_rfc3339_seconds(document.began).to_string();
    suite.extra.insert("timestamp".into(), began.into());
    if let Some(host) = document.fact("host") {
        suite.extra.insert("hostname".into(), host.into());
    }
    suite.add_properties(document.facts.iter().map(|(name, value)| Property::new(*name, value.as_str())));
    if kind == CheckKind::Lock {
        for cell in &document.cells {
            let name = |value: &TrackedValue| format!("{}: {}", cell.name(), value.figure);
            suite.add_properties(cell.values.iter().map(|value| Property::new(name(value), value.shown())));
        }
    }
    suite.add_test_cases(checks.iter().map(|check| case(document, check)));
    suite
}

fn case(document: &CiReport, check: &Check) -> TestCase {
    let status = match &check.verdict {
        Verdict::Held => TestCaseStatus::success(),
        Verdict::Violated(reasons) => status(NonSuccessKind::Failure, check, reasons),
        Verdict::Unknown(reasons) => status(NonSuccessKind::Error, check, reasons),
    };
    let mut case = TestCase::new(check.name.as_str(), status);
    case.set_classname(format!("zklockbench.{}.{}", document.title, check.kind.name()));
    case.set_time(check.took);
    if !check.seen.is_empty() {
        case.set_system_out(check.seen.join("\n"));
    }
    case
}

fn status(kind: NonSuccessKind, check: &Check, reasons: &[String]) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(check.word()).set_message(check.verdict.why().unwrap_or_default());
    if reasons.len() > 1 {
        status.set_description(reasons.join("\n"));
    }
    status
}
