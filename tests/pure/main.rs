//! Tests without servers: scenarios, records, verdicts, results, tables, charts, and source code rules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "tests may panic, and their measurements are worth printing"
)]

mod ab;
mod architecture;
mod arrival_schedule;
mod articles;
mod baselines;
mod batch_costs;
mod built_from;
mod ci_outputs;
mod ci_pipelines;
mod compare;
mod compare_bets;
mod compare_equal_runs;
mod compare_verdicts;
mod count_model;
mod driver_protocol;
mod exclusion;
mod gate_grammar;
mod gate_verdicts;
mod generated_docs;
mod history_random;
mod history_rules;
mod hostile_text;
mod learn;
mod mixed_holders;
mod parts;
mod plan;
mod plan_page;
mod queueing;
mod queueing_formulas;
mod report_answers;
mod report_charts;
mod report_gallery;
mod report_page;
mod report_screens;
mod report_summary;
mod results_damage;
mod results_golden;
mod results_resumed;
mod results_roundtrip;
mod results_tables;
mod scenario_clients;
mod scenario_errors;
mod scenario_faults;
mod scenario_plan;
mod scenario_properties;
mod scenario_schema;
mod scenario_shipped;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod sweep_file;
mod workers;

/// Configuration of all property tests. `PROPTEST_CASES` overrides the default of 256 cases.
fn cases() -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() }
}
