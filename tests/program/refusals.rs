//! Command lines that are rejected before anything starts; `snapshots/` contains their exit codes and messages.

use crate::support::{answered::answered, program::Bench};

const REFUSALS: &str = include_str!("snapshots/program__refusals__refusals.snap");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Writes the files of a case (first `scenario.toml`, then further files after a line `> name`), runs its command
/// (the line after `$`), and returns the exit code and the output.
fn refused(case: &str) -> String {
    let (files, command) = case.split_once("$ ").unwrap();
    let bench = Bench::new();
    for file in format!("> scenario.toml\n{files}").split("> ").skip(1) {
        let (name, text) = file.split_once('\n').unwrap();
        std::fs::write(bench.path(name), text).unwrap();
    }
    let output = bench.typed(&command.trim().replace("ROOT", ROOT)).output().unwrap();
    assert!(bench.results().is_empty() && !bench.path("nowhere").exists(), "{case}");
    let told = bench.told(&output);
    // Drop the argument parser's own wording, and the location of servers, which depends on the host.
    let others = ["Usage: ", "For more information", "  tip: ", "starting "];
    let is_ours = |line: &&str| !others.iter().any(|begin| line.starts_with(begin));
    if output.status.success() {
        "exit 0".into()
    } else {
        told.lines().filter(is_ours).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn invalid_command_lines_are_rejected_as_in_the_snapshot() {
    insta::assert_snapshot!("refusals", answered(REFUSALS, refused));
}
