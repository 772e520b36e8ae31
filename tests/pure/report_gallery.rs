//! Charts of views that are hard to draw. The tests check the contents, and that no text overlaps other text or
//! leaves the picture. `REPORT_GALLERY=<directory> cargo test --test pure gallery` writes the charts to a directory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::support::drawn::{boxes, colours, svgs, texts};
use crate::support::{records, shown, views};
use zklockbench_core::measure::{Measure, new_histogram};
use zklockbench_record::{Election, FaultRecord};
use zklockbench_report::{Style, View, chart};

/// Describes the charts whose names start with `charts`: each colour with its use count, and all text.
fn gallery(name: &str, view: &View<'_>, charts: &str) -> String {
    if let Some(root) = std::env::var_os("REPORT_GALLERY") {
        let dir = Path::new(&root).join(name);
        chart::draw_all(view, &dir).unwrap();
        std::fs::write(dir.join("tables.txt"), shown::terminal(view, Style::EVERYTHING)).unwrap();
        std::fs::write(dir.join("tables.md"), shown::markdown(view)).unwrap();
    }
    let mut shown = String::new();
    for (chart, svg) in svgs(view).into_iter().filter(|(chart, _)| chart.starts_with(charts)) {
        match svg {
            Ok(svg) => {
                assert_laid_out(&format!("{name}/{chart}"), &svg);
                let mut counts = BTreeMap::<&str, usize>::new();
                colours(&svg).into_iter().for_each(|colour| *counts.entry(colour).or_default() += 1);
                let colours: Vec<_> =
                    counts.iter().map(|(colour, count)| format!("{colour} × {count}")).collect();
                writeln!(shown, "{name}/{chart}: {}\n{}\n", colours.join(", "), texts(&svg).join(" | "))
                    .unwrap();
            }
            Err(why) => writeln!(shown, "{name}/{chart} is not drawn: {why}\n").unwrap(),
        }
    }
    shown
}

/// Asserts that every text is inside the picture, readable in a README, and free of overlaps.
fn assert_laid_out(chart: &str, svg: &str) {
    for size in svg.split("font-size=\"").skip(1).filter_map(|part| part.split('"').next()) {
        // Two units make a pixel, and a README scales 1000 pixels down to about 900.
        let pixels = size.parse::<f64>().unwrap() / 2.0 * 0.9;
        assert!((11.0..100.0).contains(&pixels), "{chart}: {pixels}");
    }
    let boxes = boxes(svg);
    for (at, one) in boxes.iter().enumerate() {
        assert!(one.is_inside(svg), "{chart}: {one:?} leaves the picture");
        let covered = boxes[..at].iter().find(|other| other.overlaps(one));
        assert!(covered.is_none(), "{chart}: {one:?} covers {covered:?}");
    }
}

#[test]
fn layout_check_finds_overlapping_text_and_text_outside_the_picture() {
    let text = |x: u32, y: u32, anchor: &str| {
        format!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"0.5ex\" text-anchor=\"{anchor}\" font-size=\"25\">\nlong enough\n</text>"
        )
    };
    let svg = |texts: [String; 2]| format!("<svg viewBox=\"0 0 400 100\">{}</svg>", texts.concat());
    let right = svg([text(200, 30, "end"), text(200, 30, "start")]);
    assert_laid_out("right", &right);
    for wrong in [
        svg([text(200, 30, "middle"), text(200, 40, "start")]),
        svg([text(200, 30, "start"), text(20, 30, "end")]),
        svg([text(200, 30, "start"), text(200, 99, "start")]),
    ] {
        assert!(std::panic::catch_unwind(|| assert_laid_out("wrong", &wrong)).is_err(), "{wrong}");
    }
}

/// A name, a view, and the prefix of the chart names to show.
type Picture = (&'static str, fn() -> View<'static>, &'static str);

const GALLERY: &[Picture] = &[
    ("empty", views::empty, ""),
    ("five", || views::view(&views::FIVE, &[1, 2, 10, 50, 100, 500]), ""),
    ("single", || views::view(&views::FIVE, &[50]), ""),
    ("one", one_strategy_with_a_floor, ""),
    ("marked", marked, ""),
    ("ten", ten_with_long_labels_and_wide_ranges, ""),
    ("bars", bars_without_an_acquisition, ""),
    ("herd", herd_of_2000, ""),
    ("elections", unplanned_elections_next_to_faults, ""),
    ("first-not-measured", first_not_measured, ""),
    ("escaped", || views::view(&["a<b & \"c\""], &[2]), "throughput"),
    ("tiles", tiles_only_for_the_faults_that_each_met, "faults"),
    ("faults-none", faults_without_metrics, ""),
];

#[test]
fn charts_of_each_view_match_the_snapshot() {
    for (name, view, charts) in GALLERY {
        insta::assert_snapshot!(*name, gallery(name, &view(), charts));
    }
}

fn one_strategy_with_a_floor() -> View<'static> {
    let mut view = views::view(&["predecessor-watch"], &[1, 10, 100]);
    view.floor = Some(records::floor());
    view
}

fn marked() -> View<'static> {
    let mut view = views::view(&views::FIVE, &[2, 10, 100]);
    for trial in views::trials_of(&mut view, 1, 100) {
        views::spoil(trial, "the generator's own lag was 31 % of the mean handoff (limit 10 %)");
    }
    views::interrupt(views::trial(&mut view, 2, 100, 1));
    views::pace(views::trial(&mut view, 2, 100, 1), 90.0);
    for contenders in [2, 10, 100] {
        views::violate(views::trial(&mut view, 4, contenders, 0), 1234);
    }
    view.cells.retain(|cell| cell.strategy != 3 || cell.contenders < 100);
    view.remarks = vec!["The run was interrupted: 44 of 45 trials ran".into()];
    view
}

fn ten_with_long_labels_and_wide_ranges() -> View<'static> {
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
    views::trial(&mut view, 0, 1000, 0).histograms.insert(Measure::Wait, extreme);
    view
}

fn bars_without_an_acquisition() -> View<'static> {
    let mut view = views::view(&views::FIVE, &[50]);
    for trial in views::trials_of(&mut view, 1, 50) {
        views::spoil(trial, "timer lag 40 ms");
        (trial.timeline[9].acquisitions, trial.timeline[10].acquisitions) = (0, 0);
    }
    views::interrupt(views::trial(&mut view, 2, 50, 1));
    views::violate(views::trial(&mut view, 4, 50, 0), 9);
    view
}

/// A lock that wakes a herd, and locks that wake at most one waiter.
fn herd_of_2000() -> View<'static> {
    let mut view = views::view(&["parent-watch", "predecessor-watch", "polling"], &[10, 2000]);
    for (strategy, waiters) in [(0, 1_999), (1, 1)] {
        for (trial, number) in views::trials_of(&mut view, strategy, 2000).zip(1..) {
            trial.herd = Some(views::herd(waiters, number));
        }
    }
    view
}

/// Elections close together and at the right edge, next to fault numbers.
fn unplanned_elections_next_to_faults() -> View<'static> {
    let mut view = views::view(&["predecessor-watch", "polling"], &[10]);
    views::break_all(&mut view, &["kill leader", "pause follower"]);
    let election = |seen_us| Election { seen_us, leader: "zk2:2181".into(), epoch: 5, after_fault: None };
    views::trial(&mut view, 0, 10, 0).elections = Some([9_000_000, 9_400_000].map(election).into());
    views::trial(&mut view, 1, 10, 2).elections = Some([2_100_000, 29_900_000].map(election).into());
    view
}

/// A view without results of the first strategy. The other strategies must keep their colours.
fn first_not_measured() -> View<'static> {
    let mut view = views::view(&views::FIVE, &[2, 10]);
    view.cells.retain(|cell| cell.strategy != 0);
    view
}

fn tiles_only_for_the_faults_that_each_met() -> View<'static> {
    let mut view = views::view(&["polling", "curator-mutex", "no-lock"], &[4]);
    for (strategy, label) in [(0, "crash holder"), (1, "kill leader")] {
        let faults = [views::fault(label, 10_000)];
        views::trials_of(&mut view, strategy, 4).for_each(|trial| views::break_by(trial, &faults));
    }
    view
}

fn faults_without_metrics() -> View<'static> {
    let mut view = views::view(&views::FIVE, &[20]);
    for cell in &mut view.cells {
        let mut nothing = views::unmeasured("x", 20, 1);
        let undone = FaultRecord { ended_us: None, ..views::fault("kill leader", 0) };
        views::break_by(&mut nothing, &[views::unproved("no such server", undone)]);
        cell.trials = vec![Cow::Owned(nothing)];
    }
    view
}

const FAULTS: [&str; 12] = [
    "kill leader",
    "crash holder",
    "expire any",
    "freeze waiter",
    "restart follower",
    "delay any latency=20ms jitter=5ms",
    "partition leader direction=both",
    "drop-reply holder request=create times=3",
    "kill all",
    "black-hole holder",
    "freeze leader",
    "slow-disk follower latency=50ms",
];

/// Replaces the repetitions of each cell with one trial per fault.
fn spread(view: &mut View<'static>, faults: &[&str]) {
    for cell in &mut view.cells {
        let broken = |(at, label): (usize, &&str)| {
            let mut trial = cell.trials[0].clone().into_owned();
            let us =
                8_000 * (1 + cell.strategy as u64 * 7 + cell.contenders as u64) * 3_u64.pow(at as u32 % 6);
            trial.spec.repetition = at as u32 + 1;
            views::break_by(&mut trial, &[views::fault(label, us)]);
            Cow::Owned(trial)
        };
        cell.trials = faults.iter().enumerate().map(broken).collect();
    }
}

/// Labels of locks, including long labels.
fn locks(count: usize) -> Vec<String> {
    (0..count)
        .map(|at| match at {
            0..5 => views::FIVE[at].to_owned(),
            _ => format!("{} (while_holding=relist version={at})", views::FIVE[at % 5]),
        })
        .collect()
}

#[test]
fn charts_fit_up_to_twenty_locks_under_up_to_twelve_faults() {
    let mut shown = String::new();
    for (count, faults) in [(1, 1), (3, 4), (20, 12)] {
        let labels = locks(count);
        let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
        let counts: &[usize] = if count == 3 { &[4, 20] } else { &[20] };
        let mut apart = views::view(&labels, counts);
        spread(&mut apart, &FAULTS[..faults]);
        shown += &gallery(&format!("faults-{count}-{faults}-apart"), &apart, "faults");
        let mut together = views::view(&labels, counts);
        views::break_all(&mut together, &FAULTS[..faults]);
        shown += &gallery(&format!("faults-{count}-{faults}-together"), &together, "faults");
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn charts_show_every_kind_of_problem_under_faults() {
    insta::assert_snapshot!(wrong(6) + &wrong(12));
}

fn wrong(faults: usize) -> String {
    let labels = locks(8);
    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
    let mut view = views::view(&labels, &[4, 20]);
    spread(&mut view, &FAULTS[..faults]);
    for (cell, at) in view.cells.iter_mut().zip(0..) {
        let Some(trial) = cell.trials.get_mut(at % 6).map(Cow::to_mut) else { continue };
        match at % 5 {
            0 => views::violate(trial, 1_234),
            1 => trial.stuck = vec![views::stuck(1); 17],
            2 => trial.faults[0].recovered_us = None,
            3 => trial.faults[0].proved = false,
            _ => {
                trial.stuck = vec![views::stuck(1)];
                views::violate(trial, 3);
            }
        }
    }
    views::trials_of(&mut view, 2, 20).for_each(|trial| views::spoil(trial, "timer lag 40 ms"));
    views::cell(&mut view, 3, 4).trials.truncate(2);
    gallery(&format!("faults-wrong-{faults}"), &view, "faults")
}
