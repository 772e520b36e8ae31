//! Tables: what a row says, what is said below, and how they look in a terminal and in Markdown.

use crate::support::shown::{markdown, terminal};
use crate::support::views::{FIVE, line, samples, view};
use crate::support::{records, views};
use zklockbench_core::measure::{Measure, Outcome, OutcomeCounts};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::{Cause, Counted, CutShort, Floor, Standstill, Trial};
use zklockbench_report::{Style, View};

const PLAIN: Style = Style::EVERYTHING;

/// One strategy, one trial, with figures that are easy to check.
fn known() -> View<'static> {
    let mut view = view(&["predecessor-watch"], &[4]);
    view.cells[0].trials.truncate(1);
    let trial = only(&mut view);
    views::pace(trial, 123.456);
    trial.histograms = [(Measure::Wait, samples(0.0, 100, 1))].into(); // all of them 1 µs
    view
}

fn only<'v>(view: &'v mut View<'static>) -> &'v mut Trial {
    view.cells[0].trials[0].to_mut()
}

/// The lines of the first table.
fn table(shown: &str) -> Vec<&str> {
    let from_heading = shown.lines().skip_while(|line| !line.starts_with("strategy"));
    from_heading.take_while(|line| !line.is_empty()).collect()
}

fn words<'a>(table: &'a str, text: &str) -> Vec<&'a str> {
    table.lines().find(|line| line.contains(text)).unwrap_or_default().split_whitespace().collect()
}

#[test]
fn only_a_held_verdict_is_followed_by_its_evidence() {
    let mut view = view(&["polling"], &[2]);
    view.evidence = Some("in the trial with the least 40 of 60 entries could have been caught".into());
    let said =
        "exclusion held.\nEvidence: in the trial with the least 40 of 60 entries could have been caught.\n";
    assert!(terminal(&view, Style::EVERYTHING).contains(said));
    assert!(markdown(&view).contains("\nEvidence: in the trial"));
    view.judged = records::judged(Verdict::Violated(vec!["two".into()]));
    assert!(!terminal(&view, Style::EVERYTHING).contains("Evidence"));
}

#[test]
fn a_page_with_every_kind_of_trouble() {
    let mut view = view(&["predecessor-watch", "no-lock"], &[1, 4]);
    views::interrupt(views::trial(&mut view, 0, 1, 2));
    views::trial(&mut view, 1, 1, 0).accounting = vec![line(Counted::Reads, 100, Some(101), None)];
    views::break_all(&mut view, &["crash holder", "kill leader"]);
    views::spoil(views::trial(&mut view, 0, 4, 1), "timer lag 40 ms");
    views::violate(views::trial(&mut view, 1, 4, 0), 7);
    view.remarks = vec!["The run was interrupted: 12 of 15 trials ran".into()];
    view.judged = records::judged(Verdict::Violated(vec!["no-lock let two in".into()]));
    let page = [terminal(&view, PLAIN), markdown(&view)].join("\n");
    insta::assert_snapshot!(page);
}

#[test]
fn a_row_shows_metrics_in_readable_units() {
    let shown = terminal(&known(), PLAIN);
    let row = words(&shown, "predecessor-watch  ");
    assert_eq!(row[..9], ["predecessor-watch", "4", "held", "123", "1", "µs", "1", "µs", "1"]);
}

#[test]
fn an_unmeasured_metric_has_no_column_and_a_missing_value_a_dash() {
    // Given a handoff in no row
    assert!(!terminal(&known(), PLAIN).contains("handoff p50"));
    // Given a handoff with four contenders, none with one
    let shown = terminal(&view(&["polling"], &[1, 4]), PLAIN);
    assert!(shown.contains("handoff p50"));
    assert!(words(&shown, "polling  ").contains(&"-"), "{shown}");
}

#[test]
fn repetitions_are_shown_as_median_and_range() {
    let mut view = view(&["polling"], &[4]);
    views::trials(&mut view).zip([30.0, 10.0, 20.0]).for_each(|(trial, per_s)| views::pace(trial, per_s));
    let shown = terminal(&view, PLAIN);
    assert_eq!(words(&shown, "polling  ")[..5], ["polling", "4", "held", "3", "20"]);
}

#[test]
fn an_invalid_repetition_is_excluded_and_named_with_its_reason() {
    // Given three repetitions of which the one that stands out is invalid
    let mut view = view(&["polling"], &[4]);
    views::trials(&mut view).zip([900.0, 10.0, 20.0]).for_each(|(trial, per_s)| views::pace(trial, per_s));
    views::spoil(only(&mut view), "timer lag 40 ms");
    // When the table is drawn
    let shown = terminal(&view, PLAIN);
    // Then the figures are those of the other two; who was inside was seen all the same
    let row = words(&shown, "polling  ");
    assert_eq!(row[..8], ["polling", "4", "held", "2", "of", "3", "15", "10-20"]);
    assert_eq!(row[row.len() - 2..], ["1", "invalid"]);
    assert!(shown.contains("! invalid: polling, 4 contenders, repetition 1: timer lag 40 ms"), "{shown}");
}

#[test]
fn a_violation_outweighs_all_and_its_first_case_is_described() {
    let mut view = view(&["no-lock"], &[4]);
    let trial = views::trial(&mut view, 0, 4, 1);
    trial.violation_count = 12;
    let why = "12 violations; the first: contender 3 entered lock 0 while contender 1 was inside";
    trial.judged = records::judged(Verdict::Violated(vec![why.into()]));
    let shown = terminal(&view, PLAIN);
    assert_eq!(words(&shown, "no-lock  ")[2], "VIOLATED");
    let note = "! violated: no-lock, 4 contenders, repetition 2: 12 violations; the first: contender 3 entered lock 0";
    assert!(shown.contains(note), "{shown}");
}

#[test]
fn a_violation_is_marked_even_without_an_observed_overlap() {
    // Given a trial in which contenders were stuck, or entered before the ensemble had deleted the node before
    let mut view = view(&["no-lock"], &[4]);
    views::trial(&mut view, 0, 4, 1).judged =
        records::judged(Verdict::Violated(vec!["1 contender is stuck".into()]));
    // Then table and note say so, and neither of 0 violations
    let shown = terminal(&view, PLAIN);
    assert_eq!(words(&shown, "no-lock  ")[2], "VIOLATED");
    assert!(
        shown.contains("! violated: no-lock, 4 contenders, repetition 2: 1 contender is stuck\n"),
        "{shown}"
    );
}

#[test]
fn unserved_waits_appear_in_the_table_and_make_percentiles_lower_bounds() {
    // Given a hundred waits of a microsecond, and two that had not ended after four seconds, of which one timed out
    let mut view = known();
    let trial = only(&mut view);
    trial.measured.outcomes = OutcomeCounts::default();
    trial.measured.outcomes.add(Outcome::Acquired, 100);
    trial.measured.outcomes.add(Outcome::TimedOut, 1);
    trial.histograms.insert(Measure::Unserved, records::histogram(&[4_000_000, 4_000_000]));
    // When the table is drawn
    let shown = terminal(&view, PLAIN);
    // Then half of all waits are known to be short, and one in a hundred takes at least that long
    let row = words(&shown, "predecessor-watch  ").join(" ");
    assert!(row.starts_with("predecessor-watch 4 held 123 1 µs ≥ 4 s ≥ 4 s 2 "), "{row}");
    let note = "! unserved: predecessor-watch, 4 contenders: 100 acquired, 1 timed out, 1 failed otherwise";
    assert!(shown.contains(note), "{shown}");
    assert!(shown.contains("≥: at least, because of unserved waits"), "{shown}");
}

#[test]
fn a_starved_contender_shows_even_if_all_others_are_served_at_once() {
    // Given a starved contender: of 500 waits one is not served, and it lasts as long as the trial
    let mut view = known();
    only(&mut view).histograms.insert(Measure::Unserved, records::histogram(&[10_000_000]));
    let shown = terminal(&view, PLAIN);
    let row = words(&shown, "predecessor-watch  ").join(" ");
    assert!(row.contains("1 µs 1 µs ≥ 10 s 1 "), "{row}");
}

#[test]
fn a_growing_queue_is_unstable_and_has_no_percentiles() {
    // Given 8 arrivals a second at a lock that serves 2.4 of them, so that its queue grows by 5.6 a second
    let mut trial = records::overloaded(0);
    zklockbench_judge::judge(&mut trial);
    let stored = records::stored(&records::run(1), &[trial]);
    let shown = terminal(&View::of(&stored), PLAIN);
    // Then what was offered stands beside what was achieved, and no percentile of the waits
    let row = words(&shown, "  unstable");
    assert_eq!(row.iter().filter(|word| **word == "unstable").count(), 2, "{shown}");
    // And a table of its own says what became of the arrivals
    let row = words(&shown, "+5.59").join(" ");
    assert!(row.contains("20 6 14 120 µs 98 % +5.59"), "{row}: {shown}");
    assert!(shown.contains("the queue grew by 5.59"), "{shown}");
    assert!(shown.contains("2.4 of 8 acquisitions a second; in use: the busiest lock 98 %"), "{shown}");
}

#[test]
fn percentiles_are_medians_over_repetitions_not_pooled() {
    // Given two repetitions of few short waits, and one of many long ones
    let mut view = view(&["polling"], &[4]);
    for (trial, (us, times)) in views::trials(&mut view).zip([(10, 5), (1_000, 500), (20, 5)]) {
        trial.histograms = [(Measure::Wait, records::histogram(&vec![us; times]))].into();
    }
    let row = words(&terminal(&view, PLAIN), "polling  ").join(" ");
    assert!(row.contains(" 20 µs 20 µs 1 ms "), "{row}");
}

#[test]
fn a_cell_shows_the_requests_of_its_median_repetition() {
    use zklockbench_core::measure::RequestKind::{Create, Delete};
    let mut view = view(&["polling"], &[4]);
    let kinds =
        [[(Create, 1.0), (Delete, 1.0)], [(Create, 5.0), (Delete, 5.0)], [(Create, 1.0), (Delete, 2.0)]];
    views::trials(&mut view).zip(kinds).for_each(|(trial, kinds)| views::acquire(trial, &kinds));
    assert_eq!(view.cells[0].requests(), [(Create, 1.0), (Delete, 2.0)]);
    // And with an even number half of each of the two in the middle
    view.cells[0].trials.truncate(2);
    assert_eq!(view.cells[0].requests(), [(Create, 3.0), (Delete, 3.0)]);
}

#[test]
fn an_outage_is_a_metric_and_no_reason_to_exclude_a_repetition() {
    let mut view = view(&["polling"], &[4]);
    views::trials(&mut view).zip([10.0, 20.0, 30.0]).for_each(|(trial, per_s)| views::pace(trial, per_s));
    let signs = vec!["zk1:2181 was started anew".into()];
    only(&mut view).standstill = Some(Standstill { lasted_us: 1_500_000, began_us: 9, signs });
    let shown = terminal(&view, PLAIN);
    let row = words(&shown, "polling  ").join(" ");
    assert!(row.starts_with("polling 4 held 3 20 10-30") && row.contains(" 1.5 s "), "{row}");
    let note = "! standstill: polling, 4 contenders, repetition 1: for 1.5 s the lock was free, but no waiter \
                acquired it: zk1:2181 was started anew";
    assert!(shown.contains(note), "{shown}");
}

#[test]
fn contenders_are_the_ones_that_took_part() {
    let mut view = view(&["polling"], &[50]);
    views::trial(&mut view, 0, 50, 1).sessions.opened = 30;
    let row = words(&terminal(&view, PLAIN), "polling  ").join(" ");
    assert!(row.starts_with("polling 30 of 50 "), "{row}");
}

#[test]
fn a_single_contender_is_never_called_held() {
    let shown = terminal(&view(&["polling"], &[1]), PLAIN);
    assert_eq!(words(&shown, "polling  ")[2], "-", "{shown}");
}

#[test]
fn inconsistent_counts_are_reported_with_all_three_numbers() {
    let mut view = known();
    only(&mut view).accounting = vec![line(Counted::Reads, 100, Some(101), None)];
    let shown = terminal(&view, PLAIN);
    let note = "predecessor-watch, 4 contenders: reads: client 100, cost model 101, servers -";
    assert!(shown.contains(&format!("! counts disagree: {note}")), "{shown}");
    assert!(
        markdown(&view).contains("\n| predecessor-watch | 4 | reads | 100 | 101 | - | NO |\n"),
        "{shown}"
    );
}

#[test]
fn the_accounting_adds_up_repetitions_and_omits_incomplete_metrics() {
    // Given two repetitions, of which the servers could only be asked in one
    let mut view = view(&["polling"], &[4]);
    view.cells[0].trials.truncate(2);
    only(&mut view).accounting = vec![line(Counted::Reads, 100, Some(100), Some(100))];
    views::trial(&mut view, 0, 4, 1).accounting = vec![line(Counted::Reads, 50, Some(50), None)];
    // Then a sum of one would look like a disagreement, so there is none
    let shown = markdown(&view);
    assert!(shown.contains("\n| polling | 4 | reads | 150 | 150 | - | yes |\n"), "{shown}");
}

#[test]
fn the_terminal_shows_client_and_server_counts_side_by_side() {
    // Given counts of all kinds, of which the servers saw one notification less
    let mut view = known();
    only(&mut view).accounting = vec![
        line(Counted::Requests, 10, None, None),
        line(Counted::Reads, 100, None, Some(100)),
        line(Counted::Writes, 50, None, Some(50)),
        line(Counted::NodeDeleted, 7, None, Some(6)),
        line(Counted::ChildrenChanged, 1, None, Some(1)),
    ];
    // Then each count has a row, and one of them does not agree
    let shown = terminal(&view, PLAIN);
    let row = words(&shown, "  NO");
    assert_eq!(row[row.len() - 4..], ["7", "-", "6", "NO"], "{shown}");
    assert_eq!(shown.matches("  yes").count(), 3, "{shown}");
}

#[test]
fn unreadable_counters_are_reported_as_missing() {
    let mut view = known();
    only(&mut view).accounting = vec![line(Counted::Reads, 100, None, None)];
    let shown = terminal(&view, PLAIN);
    assert!(
        shown.contains("The client's counts could not be checked: the servers returned none."),
        "{shown}"
    );
}

#[test]
fn without_server_counts_client_counts_are_compared_with_the_cost_model() {
    let shown = |expected| {
        let mut view = known();
        only(&mut view).accounting = vec![line(Counted::Reads, 100, Some(expected), None)];
        terminal(&view, PLAIN)
    };
    let (agree, disagree) = ("the client's agree with the cost model", "! counts disagree: ");
    let both = |shown: &str| {
        (shown.contains(agree), shown.contains(disagree), shown.contains("could not be checked"))
    };
    assert_eq!(both(&shown(100)), (true, false, false), "{}", shown(100));
    assert_eq!(both(&shown(101)), (false, true, false), "{}", shown(101));
}

#[test]
fn failed_requests_are_reported() {
    let mut view = known();
    only(&mut view).errors = [("create: connection loss".into(), 2)].into();
    let shown = terminal(&view, PLAIN);
    assert!(shown.contains("! errors: predecessor-watch, 4 contenders, repetition 1: "), "{shown}");
}

#[test]
fn the_table_names_the_environment_and_explains_a_dash() {
    let view = view(&["polling"], &[1, 4]);
    for shown in [terminal(&view, PLAIN), markdown(&view)] {
        assert!(shown.contains("ensemble and load generator share one host with 2 cores"));
        assert!(shown.contains("tmpfs: no fsync cost"));
        assert!(shown.contains("-: not measured"));
    }
}

#[test]
fn a_table_with_multiples_of_the_floor_fits_the_terminal_and_names_omitted_columns() {
    let mut view = view(&FIVE, &[1, 10, 100]);
    for floor in [None, Some(records::floor())] {
        let has_floor = floor.is_some();
        view.floor = floor;
        for width in [80, 100, 120, 160] {
            let shown = terminal(&view, Style { colour: false, width: Some(width), ..Style::EVERYTHING });
            let table = table(&shown);
            let widest = table.iter().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= usize::from(width), "{widest} > {width}\n{shown}");
            if has_floor {
                // The multiple goes before the handoff itself
                assert!(table[0].contains("handoff p50") || !table[0].contains("handoff/floor"), "{shown}");
            } else {
                assert!(table[0].contains("verdict") && table[0].contains("wait p99"));
                assert!(shown.contains("Left out at this width: fairness"), "{shown}");
            }
        }
    }
    view.floor = None;
    assert!(!terminal(&view, PLAIN).contains("Left out"));
}

#[test]
fn handoffs_and_uncontended_acquires_are_shown_as_multiples_of_the_floor() {
    // Given handoffs of 1.5 ms above a floor of 1 ms, and uncontended acquires of 3 ms above 2 ms
    let mut view = known();
    let histograms = &mut only(&mut view).histograms;
    histograms.insert(Measure::Handoff, records::histogram(&[1_500]));
    histograms.insert(Measure::Uncontended, records::histogram(&[5_000]));
    view.floor = Some(records::floor());
    // When it is shown, in a terminal and as Markdown
    for shown in [terminal(&view, PLAIN), markdown(&view)] {
        // Then each is a multiple of its own floor, and it is said what that is
        assert!(shown.contains("handoff/floor") && shown.contains("uncontended/floor"), "{shown}");
        assert!(shown.contains("1.5×") && shown.contains("2.5×"), "{shown}");
        let said =
            "handoff/floor: its median as a multiple of 1 ms, the median of 270 handoffs without a lock";
        assert!(shown.contains(said) && !shown.contains("below 1"), "{shown}");
    }
    // And a handoff that was faster than the floor is explained
    only(&mut view).histograms.insert(Measure::Handoff, records::histogram(&[900]));
    let shown = terminal(&view, PLAIN);
    assert!(
        shown.contains("A multiple below 1: the host was slower while the floor was measured"),
        "{shown}"
    );
    // And where no floor was measured, or nothing to compare, there is neither column nor word of it
    for floor in [None, Some(Floor::not_measured("why"))] {
        view.floor = floor;
        assert!(!terminal(&view, PLAIN).contains("floor"));
    }
}

#[test]
fn a_row_without_a_handoff_shows_a_dash() {
    let mut view = view(&["polling"], &[1, 4]);
    view.floor = Some(records::floor());
    let shown = terminal(&view, PLAIN);
    let heading = words(&shown, "handoff/floor");
    assert!(heading.len() > 3 && shown.contains('×'), "{shown}");
    assert!(!words(&shown, "polling  ").iter().any(|word| word.ends_with('×')), "{shown}");
}

#[test]
fn a_long_label_is_wrapped_and_values_are_not() {
    let view = view(&["parent-watch (while_holding=relist)"], &[100]);
    let shown = terminal(&view, Style { colour: false, width: Some(80), ..Style::EVERYTHING });
    assert!(table(&shown).iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(table(&shown).iter().any(|line| line.contains("held")), "{shown}");
}

#[test]
fn colour_is_used_only_if_allowed() {
    let escape = '\u{1b}';
    assert!(!terminal(&known(), PLAIN).contains(escape));
    assert!(terminal(&known(), Style { colour: true, width: None, ..Style::EVERYTHING }).contains(escape));
}

#[test]
fn markdown_escapes_table_characters() {
    let mut view = view(&["a|b <i>"], &[4]);
    let why = "lost | gone\nfor good".into();
    views::trial(&mut view, 0, 4, 0).cut_short = Some(CutShort { cause: Cause::EnsembleLost, why });
    let shown = markdown(&view);
    assert!(shown.contains("| a\\|b &lt;i> | 4 |"), "{shown}");
    assert!(shown.contains("lost \\| gone for good"), "{shown}");
}

#[test]
fn every_markdown_row_has_as_many_cells_as_headings() {
    let shown = markdown(&view(&FIVE, &[1, 10]));
    let rows: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with('|')).collect();
    let table: Vec<&&str> = rows.iter().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table.len(), 2 + FIVE.len() * 2);
    assert!(table.iter().all(|row| row.matches(" | ").count() == table[0].matches(" | ").count()), "{shown}");
}

#[test]
fn an_empty_run_is_reported_as_empty() {
    let mut view = views::empty();
    view.judged = records::judged(Verdict::Unknown(vec!["0 of 15 trials ran".into()]));
    for shown in [terminal(&view, PLAIN), markdown(&view)] {
        assert!(shown.contains("herd-effect: unknown (0 of 15 trials ran)"), "{shown}");
        assert!(shown.contains("No trial ran"), "{shown}");
    }
    assert!(!markdown(&view).contains("<details>"), "there are no counts");
}
