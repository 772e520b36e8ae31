//! Draws every chart from hand-made data, for people to look at:
//! `REPORT_GALLERY=<directory> cargo test --test report_gallery -- --ignored`.

#[path = "support/views.rs"]
mod views;

use std::path::PathBuf;

use zklockbench::measure::new_histogram;
use zklockbench::report::{self, Style, View, chart};

fn gallery(name: &str, view: &View) {
    let root = std::env::var_os("REPORT_GALLERY").map_or_else(std::env::temp_dir, PathBuf::from);
    let drawn = chart::draw_all(view, &root.join(name)).unwrap();
    println!("{name}: {drawn:?}");
    for width in [None, Some(120), Some(80)] {
        println!("{}", report::terminal(view, Style { colour: false, width }));
    }
    println!("{}\n{}", report::accounting_table(view, Style::default()), report::markdown(view));
}

#[test]
#[ignore = "makes pictures to look at"]
fn five_strategies_at_six_contender_counts() {
    gallery("five", &views::view(&views::FIVE, &[1, 2, 10, 50, 100, 500]));
}

#[test]
#[ignore = "makes pictures to look at"]
fn a_single_contender_count() {
    gallery("single", &views::view(&views::FIVE, &[50]));
}

#[test]
#[ignore = "makes pictures to look at"]
fn one_strategy() {
    gallery("one", &views::view(&["predecessor-watch"], &[1, 10, 100]));
}

#[test]
#[ignore = "makes pictures to look at"]
fn invalid_partial_and_violated_trials() {
    let mut view = views::view(&views::FIVE, &[2, 10, 100]);
    for repetition in &mut views::cell(&mut view, 1, 100).repetitions {
        repetition.invalid = Some("the generator's own lag was 31 % of the mean handoff (limit 10 %)".into());
    }
    views::cell(&mut view, 2, 100).repetitions[1].partial = Some("interrupted".into());
    views::cell(&mut view, 2, 100).repetitions[1].throughput = Some(90.0);
    for contenders in [2, 10, 100] {
        let repetitions = &mut views::cell(&mut view, 4, contenders).repetitions;
        repetitions[0].violations = 1234;
        repetitions[0].first_violation =
            Some("contender 3 entered lock 0 while contender 1 was inside".into());
    }
    view.cells.retain(|cell| cell.strategy != 3 || cell.contenders < 100);
    view.remarks = vec!["The run was interrupted: 44 of 45 trials ran".into()];
    gallery("marked", &view);
}

#[test]
#[ignore = "makes pictures to look at"]
fn ten_strategies_with_long_labels_and_wide_ranges() {
    let labels: Vec<String> = (0..10)
        .map(|at| match at {
            0..5 => format!("{} (while_holding=relist)", views::FIVE[at]),
            _ => format!("{} (interval=250ms watch=exists-{at})", views::FIVE[at - 5]),
        })
        .collect();
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut view = views::view(&labels, &[1, 2, 3, 5, 10, 20, 50, 100, 200, 1000]);
    let mut extreme = new_histogram();
    for (value, count) in [(1, 900_000), (1_000, 90_000), (1_000_000, 9_000), (3_600_000_000, 3)] {
        extreme.record_n(value, count).unwrap();
    }
    views::cell(&mut view, 0, 1000).repetitions[0].wait = Some(extreme);
    gallery("ten", &view);
}
