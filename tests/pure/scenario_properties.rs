//! Parsing never panics on any text, and every diagnostic has a position inside the text.

use crate::support::cards;
use proptest::prelude::*;
use zklockbench_scenario::{Diagnostics, Preview, TrialPlan, parse};

/// Words of scenario files, separated by white space.
const WORDS: &str = r#"
name strategies contenders locks hold think read_ratio depth poll_interval load duration acquisitions ramp_up
warm_up repetitions order seed session_timeout acquire_timeout time_scale ensemble servers data_dir connect
clients watch uniform min max log-normal sigma median µ "naïve" [ensemble] [[strategies]] [[fault]] [fault]
fault kind target contender at after_acquisitions times every jitter latency shape
rate rate_each arrivals popularity late backlog_at_most warm_up_at_most on_lost hold_limit
"#;

/// Values, separated by four spaces or newlines.
const VALUES: &str = r##"
1    0    -1    1.5    nan    inf    -inf    1e308    99999999999999999999    0x_    0xff    true    "20ms"
"1s"    "0s"    "9999999999999d"    "-1s"    "1.99999999999999999999s"    "polling"    "no-lock"    "batch"
"closed"    "é́🦓"    ""    '    """    []    {}    [1, 5, 20]    [1, 1]    [100000, 99999]
{ uniform = { min = "5ms", max = "1ms" } }    { a.b = 1, a.c = 2 }
{ log-normal = { median = "24h", sigma = 3 } }    ["polling", "no-lock"]    1979-05-27T07:32:00Z
[{ name = "polling", poll_interval = "1ms" }]    "zk1:2181,[::1]:2181/a"    "://,/"    20ms    [[[[    "kill"
"partition"    "delay"    "leader"    "holder"    [{ kind = "kill", at = "1s", duration = "1s" }]
"open"    "fresh"    "ignore"    "poisson"    "bursts"    { bursts = { peak = 4.0, length = "5ms" } }    { zipf = 1.0 }    "drop"
{ day = { amplitude = 0.8, period = "1ms" } }    { ramp = { from = 0, to = 0 } }    { replay = "a.csv" }    0.2
{ steps = [{ rate = 1000000, for = "7d" }, { rate = 0, for = "1ms" }] }    { steps = [] }    { ramp = 3 }    1000000
[{ kind = "crash", after_acquisitions = 3, times = 1000, every = "7d" }, 5]    { kind = "stall" }
"##;

const VALID: &str = r#"name = "valid"
strategies = ["polling", { name = "parent-watch", while_holding = "relist" }]
contenders = [1, 5]
hold = { uniform = { min = "1ms", max = "5ms" } }
think = "1ms"
poll_interval = "100ms"
duration = "5s"
warm_up = "1s"
acquire_timeout = "30s"

[ensemble]
servers = 3

[[fault]]
kind = "delay"
at = "1s"
duration = "500ms"
times = 3
every = "1s"
latency = "5ms"
"#;

const VALID_OPEN: &str = r#"name = "valid"
strategies = ["predecessor-watch", "polling"]
contenders = [1, 5]
load = "open"
rate = 4.5
locks = 20
popularity = { zipf = 1.0 }
arrivals = { bursts = { peak = 4.0, length = "500ms" } }
late = "drop"
backlog_at_most = "5s"
hold = "1ms"
duration = "5s"
warm_up = "1s"
warm_up_at_most = "3s"
time_scale = 0.5
"#;

fn in_bounds(diagnostics: &Diagnostics, text: &str) {
    for diagnostic in diagnostics.iter() {
        assert!(text.get(diagnostic.span.clone()).is_some(), "{:?} is outside the text", diagnostic.span);
        assert!(!diagnostic.message.is_empty() && diagnostic.help.is_some());
    }
    let lines = text.matches('\n').count() + 1;
    for machine in diagnostics.machine() {
        assert!((1..=lines).contains(&machine.position.line) && machine.position.column >= 1);
    }
    let _ = (diagnostics.render(false), diagnostics.render(true));
}

/// Parses `text` and processes the result as `validate` does.
fn check(text: &str) {
    match parse("random.toml", text, &cards::catalog()) {
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a reason");
            in_bounds(&errors, text);
        }
        Ok(parsed) => {
            in_bounds(&parsed.warnings, text);
            let plan = TrialPlan::of(&parsed.scenario);
            assert!(!plan.trials.is_empty() && plan.trials.len() <= 10_000);
            let _ = Preview::of(&parsed).to_string();
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let word = || proptest::sample::select(WORDS.split_whitespace().collect::<Vec<_>>());
    let values = VALUES.lines().flat_map(|line| line.split("    ")).filter(|value| !value.is_empty());
    let value = proptest::sample::select(values.collect::<Vec<_>>());
    prop_oneof![
        8 => (word(), value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        1 => word().prop_map(|word| format!("{word}\n")),
        1 => "[\\PC]{0,12}\n",
        1 => Just("[ensemble]\r\n".to_owned()),
        1 => Just("[[fault]]\n".to_owned()),
    ]
}

proptest! {
    #![proptest_config(crate::cases())]

    #[test]
    fn files_of_plausible_lines_are_parsed_or_rejected_with_a_position(lines in proptest::collection::vec(line(), 0..14)) {
        check(&lines.concat());
    }

    #[test]
    fn files_with_a_changed_line_are_parsed_or_rejected_with_a_position(at in 0usize..20, line in line(), replace: bool) {
        let mut lines: Vec<_> = VALID.split_inclusive('\n').map(str::to_owned).collect();
        if replace {
            lines[at] = line;
        } else {
            lines.insert(at, line);
        }
        check(&lines.concat());
    }

    #[test]
    fn open_loads_with_replaced_lines_are_parsed_or_rejected_with_a_position(
        changes in proptest::collection::vec((0usize..15, line()), 1..4)
    ) {
        let mut lines: Vec<_> = VALID_OPEN.split_inclusive('\n').map(str::to_owned).collect();
        changes.into_iter().for_each(|(at, line)| lines[at] = line);
        check(&lines.concat());
    }

    #[test]
    fn files_with_changed_characters_are_parsed_or_rejected_with_a_position(
        open: bool,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<char>(), 0u8..3), 1..5)
    ) {
        let mut text: Vec<char> = if open { VALID_OPEN } else { VALID }.chars().collect();
        for (index, character, kind) in changes {
            let at = index.index(text.len());
            match kind {
                0 => text[at] = character,
                1 => text.insert(at, character),
                _ => { text.remove(at); }
            }
        }
        check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn truncated_files_are_parsed_or_rejected_with_a_position(at in 0..VALID.len()) {
        check(&VALID[..at]);
    }

    #[test]
    fn any_scenario_text_is_parsed_or_rejected_with_a_position(text in "\\PC{0,80}") {
        check(&text);
    }
}

#[test]
fn deeply_nested_scenarios_do_not_panic() {
    check(&format!("hold = {}", "[".repeat(5000)));
    check(&format!("hold = {}", "{ a = ".repeat(5000)));
    check(&format!("{} = 1", vec!["a"; 5000].join(".")));
}
