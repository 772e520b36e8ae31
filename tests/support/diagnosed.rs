//! `line:column message => help` of every error of a file, in the order of the file.

use zklockbench::catalog::LockCard;
use zklockbench::fault;
use zklockbench::scenario::parse;

/// A file of five lines in which nothing is wrong.
const RIGHT: &str = r#"name = "x"
strategies = ["polling"]
contenders = 2
duration = "60s"
warm_up = "1s"
"#;

/// The file has exactly these errors.
pub fn file(cards: &[LockCard], text: &str, expected: &[&str]) {
    let errors = match parse("a.toml", text, cards, &fault::cards()) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.machine(),
    };
    let shown: Vec<_> = errors
        .iter()
        .map(|error| {
            let (at, help) = (error.position, error.help.as_deref().unwrap_or("nothing to do"));
            format!("{}:{} {} => {help}", at.line, at.column, error.message)
        })
        .collect();
    assert_eq!(shown, expected, "in\n{text}");
}

/// A right file with these lines after its five has exactly these errors.
pub fn added(cards: &[LockCard], lines: &str, expected: &[&str]) {
    file(cards, RIGHT, &[]);
    file(cards, &format!("{RIGHT}{lines}\n"), expected);
}
