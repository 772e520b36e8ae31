//! Command lines that are refused before anything starts: `snapshots/` contains each with its exit code and message.

use crate::support::answered::answered;
use crate::support::program::Bench;

const REFUSALS: &str = include_str!("snapshots/program__refusals__refusals.snap");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Writes the case's files (`scenario.toml` first, further ones after a line `> name`), runs its command (the line
/// after `$`), and returns the exit code and the output.
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
    // The command line's parser has its own wording, and the location of servers depends on the host.
    let others = ["Usage: ", "For more information", "  tip: ", "starting "];
    let is_ours = |line: &&str| !others.iter().any(|begin| line.starts_with(begin));
    if output.status.success() {
        "exit 0".into()
    } else {
        told.lines().filter(is_ours).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn each_impossible_command_line_is_refused_with_its_reason() {
    insta::assert_snapshot!("refusals", answered(REFUSALS, refused));
}
