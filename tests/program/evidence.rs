//! Evidence required for a verdict of *held*, and its description in the output.

use zklockbench_core::verdict::Verdict;

use crate::support::program::{Bench, held_unless_the_host_was_busy, says, stderr, stdout};

fn scenario(lines: &str) -> String {
    format!(
        "name = \"evidence\"\nstrategies = [\"predecessor-watch\"]\ncontenders = 3\nrepetitions = 1\n{lines}\n\
         ensemble = {{ servers = 1 }}\n"
    )
}

#[test]
fn verdict_is_unknown_without_acquisitions_in_the_measured_phase() {
    let bench = Bench::new();
    // Acquisitions at 0, 0.4, 0.8 and 1.2 s, and a measured phase from 1 s to 1.15 s
    let text = scenario("hold = \"400ms\"\nwarm_up = \"1s\"\nwarm_up_at_most = \"1s\"\nduration = \"150ms\"");
    let output = bench.run_with(&[], &text, &[]);
    let trial = bench.stored().trials.remove(0);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let Verdict::Unknown(why) = &trial.judged.exclusion else { panic!("{:?}", trial.judged) };
    let none = "no acquisition in the measured phase (";
    assert!(trial.measured.acquired() > 0 || why[0].starts_with(none), "{why:?}");
}

#[test]
fn verdict_is_unknown_if_the_evidence_is_less_than_required() {
    let bench = Bench::new();
    let text = scenario("hold = \"10ms\"\nduration = \"1s\"");
    let held = bench.run_with(&[], &text, &[]);
    held_unless_the_host_was_busy(&held, &bench.stored().trials);
    let stated = "acquisitions checked; a lock that errs once in ";
    assert!(stdout(&held).contains(stated), "{}", stdout(&held));
    let run = bench.results().remove(0).display().to_string();
    let found = bench.json(4, &format!("check {run} --evidence 0.99@1% --json"));
    let why = found["reasons"][0].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("0.99@1% needs 461"), "{found}");
    assert_eq!(bench.output(&["check", &run]).status.code(), held.status.code());
    std::fs::remove_dir_all(&run).unwrap();
    let asked = bench.run_with(&[], &text, &["--evidence", "0.99@1%"]);
    assert_eq!(asked.status.code(), Some(4), "{}", stderr(&asked));
    assert!(stdout(&asked).contains("0.99@1% needs 461"), "{}", stdout(&asked));
    says(&bench.run_with(&[], &text, &["--evidence", "0.99"]), 2, "`0.99` is not PROBABILITY@RATE");
}
