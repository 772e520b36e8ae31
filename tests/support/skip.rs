//! Reports tests that cannot run on this host. They would otherwise pass silently.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Reports that the calling test is skipped, with the reason. Also appends the line to the file
/// `ZKLOCKBENCH_SKIPPED`, which `scripts/test` prints at the end. With `CI=true`, panics unless
/// `ZKLOCKBENCH_ALLOW_SKIPS=1`.
pub fn skipped(why: impl Display) {
    let thread = std::thread::current();
    let why = why.to_string().replace('\n', " ");
    let line = format!("SKIPPED {}::{}: {why}", env!("CARGO_CRATE_NAME"), thread.name().unwrap_or("?"));
    println!("{line}");
    if let Some(list) = std::env::var_os("ZKLOCKBENCH_SKIPPED") {
        let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
        list.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
    let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|set| set == value);
    assert!(!is("CI", "true") || is("ZKLOCKBENCH_ALLOW_SKIPS", "1"), "{line}");
}
