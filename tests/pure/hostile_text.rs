//! Hostile text in foreign results is escaped in every output.

use proptest::prelude::*;
use zklockbench_core::{units::harmless, verdict::Verdict};
use zklockbench_record::{Run, Trial};
use zklockbench_report::ci::{github, junit};
use zklockbench_report::{Gated, Style, View};
use zklockbench_results::add_baseline;

use crate::support::{records, run_dirs, shown};

const FORGED: &str = "verdict: held";

/// Text with terminal escapes, forged lines, bidirectional controls and arbitrary characters.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\u{1b}[2J\u{1b}[H".to_owned()),
        Just(format!("\n{FORGED}\n")),
        Just(format!("\r\n{FORGED}")),
        Just("\u{9b}8m".to_owned()),
        Just("\u{202e}".to_owned()),
        Just("\u{7}\u{8}\u{0}\u{7f}\t".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

fn run(text: &str, trials: usize) -> Run {
    let mut run = records::run(trials);
    text.clone_into(&mut run.scenario);
    text.clone_into(&mut run.host.hostname);
    text.clone_into(&mut run.host.cpu);
    text.clone_into(&mut run.ensemble.placement);
    run.ensemble.config.push((text.to_owned(), text.to_owned()));
    for server in &mut run.ensemble.servers {
        text.clone_into(&mut server.version);
        text.clone_into(&mut server.role);
    }
    run.tool_commit = Some(text.to_owned());
    run
}

fn trial(text: &str) -> Trial {
    let mut trial = records::trial_with_a_violation(0);
    text.clone_into(&mut trial.spec.strategy.label);
    trial.judged = records::judged(Verdict::Violated(vec![text.to_owned()]));
    trial.health.invalid = Some(text.to_owned());
    trial
}

/// Returns whether the output is plain text without a forged verdict line.
fn is_only_read(shown: &str) -> bool {
    let only_text = shown.chars().all(|c| matches!(c, '\n' | '\t') || harmless(c) == c.to_string());
    only_text
        && !shown
            .lines()
            .any(|line| line.trim_start_matches(['>', '-', '!', ' ', '#', '|']).starts_with(FORGED))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::cases().cases / 8, ..crate::cases() })]
    #[test]
    fn hostile_text_in_results_is_escaped_in_every_output(text in hostile()) {
        let parent = tempfile::tempdir().unwrap();
        let trials = [trial(&text)];
        let dir = run_dirs::publish_run(parent.path(), run(&text, 1), &trials);
        let stored = zklockbench_results::read(&dir).unwrap();
        let view = View::of(&stored);
        let gated = Gated::default();
        let ci = shown::ci_report(&stored, &gated);
        for (place, text) in [
            ("terminal", shown::terminal(&view, Style::EVERYTHING)),
            ("narrow terminal", shown::terminal(&view, Style { colour: false, width: Some(60), ..Style::EVERYTHING })),
            ("markdown", shown::markdown(&view)),
            ("page", shown::page(&stored, &gated)),
            ("summary of a workflow", github::summary(&ci, 1 << 20)),
            ("annotations", github::annotations(&ci).join("\n")),
            ("junit", junit::render(&ci).unwrap()),
        ] {
            prop_assert!(is_only_read(&text), "{}: {:?}", place, text);
        }
        // Directory names must not contain hostile text either.
        let store = parent.path().join("baselines");
        let now = std::time::SystemTime::UNIX_EPOCH;
        if let Ok(added) = add_baseline(&store, &dir, Some("abc"), now) {
            let name = added.dir.file_name().unwrap().to_str().unwrap().to_owned();
            prop_assert!(is_only_read(&name) && !name.contains(['\n', '\t', '\\']), "{:?}", name);
        }
    }
}
