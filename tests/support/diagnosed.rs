//! `line:column message => help` of every error of a file, in the order of the file.

use crate::support::cards::catalog_of;
use zklockbench_core::catalog::LockCard;
use zklockbench_scenario::parse;

/// A valid file of five lines.
const RIGHT: &str = r#"name = "x"
strategies = ["polling"]
contenders = 2
duration = "60s"
warm_up = "1s"
"#;

pub fn file(cards: &[LockCard], text: &str, expected: &[&str]) {
    assert_eq!(errors(cards, text), expected, "in\n{text}");
}

/// Errors of each file of a snapshot, whose own answers are ignored. A file consists of the lines before an
/// answer, which begins with `#`; titles begin with `##`. A new file needs only `# ?` below it.
pub fn said_of_files(cards: &[LockCard], snapshot: &str) -> String {
    said(cards, "", snapshot)
}

/// Errors of a valid file with each of these groups of lines after its five.
pub fn said_of_added_lines(cards: &[LockCard], snapshot: &str) -> String {
    file(cards, RIGHT, &[]);
    said(cards, RIGHT, snapshot)
}

fn said(cards: &[LockCard], before: &str, snapshot: &str) -> String {
    let (_, body) =
        snapshot.split_once("\n---\n").expect("insta's own header ends with a line of three dashes");
    let (mut said, mut lines) = (String::new(), String::new());
    for line in body.lines().filter(|line| !line.is_empty()) {
        if line.starts_with("## ") {
            said += &format!("\n{line}\n\n");
        } else if !line.starts_with('#') {
            lines += &format!("{line}\n");
        } else if !lines.is_empty() {
            let text = if lines == "(an empty file)\n" { "" } else { &lines };
            let mut errors = errors(cards, &format!("{before}{text}"));
            if errors.is_empty() {
                errors.push("nothing is wrong".into());
            }
            said += &format!("{lines}# {}\n", errors.join("\n# "));
            lines.clear();
        }
    }
    assert!(lines.is_empty() && said.contains("\n# "), "no answer, not even `# ?`, stands below: {lines}");
    said
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
