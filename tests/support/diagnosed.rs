//! Errors in scenario files as `line:column message => help`, in file order.

use crate::support::{answered::answered, cards::catalog_of};
use zklockbench_core::catalog::LockCard;
use zklockbench_scenario::parse;

/// A valid scenario.
const RIGHT: &str = r#"name = "x"
strategies = ["polling"]
contenders = 2
duration = "60s"
warm_up = "1s"
"#;

pub fn file(cards: &[LockCard], text: &str, expected: &[&str]) {
    assert_eq!(errors(cards, text), expected, "in\n{text}");
}

/// Snapshot of files with the errors in each file.
pub fn said_of_files(cards: &[LockCard], snapshot: &str) -> String {
    said(cards, "", snapshot)
}

/// Snapshot of groups of lines, each with the errors that it causes when added to a valid file.
pub fn said_of_added_lines(cards: &[LockCard], snapshot: &str) -> String {
    file(cards, RIGHT, &[]);
    said(cards, RIGHT, snapshot)
}

fn said(cards: &[LockCard], before: &str, snapshot: &str) -> String {
    answered(snapshot, |text| {
        let text = if text == "(an empty file)\n" { "" } else { text };
        let errors = errors(cards, &format!("{before}{text}"));
        if errors.is_empty() { "nothing is wrong".into() } else { errors.join("\n") }
    })
}

fn errors(cards: &[LockCard], text: &str) -> Vec<String> {
    let errors = match parse("a.toml", text, &catalog_of(cards)) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.machine(),
    };
    let shown = errors.iter().map(|error| {
        let (at, help) = (error.position, error.help.as_deref().unwrap_or("nothing to do"));
        format!("{}:{} {} => {help}", at.line, at.column, error.message)
    });
    shown.collect()
}
