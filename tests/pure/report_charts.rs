//! Which charts are drawn, and that none invents or hides anything. `report_gallery.rs` checks their contents.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::support::drawn::{boxes, texts};
use crate::support::views::{self, FIVE, break_by, fault, view};
use zklockbench_record::{Election, FaultRecord};
use zklockbench_report::View;
use zklockbench_report::chart::{draw_all, svgs};

/// SVG texts of a view's charts by name, and the names of those not drawn, with the reasons.
fn drawn(view: &View<'_>) -> (BTreeMap<String, String>, Vec<(String, String)>) {
    let (mut charts, mut left_out) = (BTreeMap::new(), Vec::new());
    for (name, chart) in svgs(view) {
        match chart {
            Ok(svg) => drop(charts.insert(name, svg)),
            Err(why) => left_out.push((name, why)),
        }
    }
    (charts, left_out)
}

#[test]
fn a_whole_run_gives_seven_charts_each_as_svg_and_png() {
    let dir = tempfile::tempdir().unwrap();
    let charts = dir.path().join("run").join("charts");
    let drawn = draw_all(&view(&["predecessor-watch", "polling"], &[2, 10]), &charts).unwrap();
    let expected = [
        "wait-by-percentile-n10",
        "handoff-by-percentile-n10",
        "throughput",
        "fan-out",
        "requests",
        "requests-by-kind-n10",
        "throughput-over-time-n10",
    ];
    let files = expected.iter().flat_map(|name| [format!("{name}.svg"), format!("{name}.png")]);
    assert_eq!(drawn.files, files.map(|name| charts.join(name)).collect::<Vec<_>>());
    assert!(drawn.left_out.is_empty(), "{:?}", drawn.left_out);
    for file in &drawn.files {
        let bytes = std::fs::read(file).unwrap();
        assert!(bytes.starts_with(b"<svg ") || bytes.starts_with(b"\x89PNG"), "{}", file.display());
    }
    // Below a file no directory can be created, and without charts none is
    let error = draw_all(&view(&["polling"], &[2]), &drawn.files[0].join("charts")).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
    let none = draw_all(&views::empty(), &dir.path().join("none")).unwrap();
    assert!(none.files.is_empty() && !dir.path().join("none").exists(), "{:?}", none.files);
}

/// A change of a run adds this to one chart, or adds a chart, and leaves the others unchanged.
#[test]
fn floor_elections_and_herds_are_on_their_own_chart_only() {
    type Change = fn(&mut View<'static>);
    let plain = || {
        let mut view = view(&["parent-watch", "predecessor-watch"], &[2, 10]);
        // Each release woke one waiter
        views::trials(&mut view).for_each(|trial| trial.herd = Some(views::herd(1, trial.spec.repetition)));
        view
    };
    let without = drawn(&plain()).0;
    assert!(without.keys().all(|name| !name.starts_with("herd")), "{:?}", without.keys());
    let cases: [(&str, &str, Change); 3] = [
        ("handoff-by-percentile-n10", "floor: 1 ms", |view| {
            view.floor = Some(crate::support::records::floor());
        }),
        // One election outside the measured phase, and one so late that there is no space for its label to the right of
        // its line
        ("throughput-over-time-n10", "election", |view| {
            let election =
                |seen_us| Election { seen_us, leader: "zk2:2181".into(), epoch: 5, after_fault: None };
            views::trial(view, 0, 10, 0).elections = Some(vec![election(-3), election(29_900_000)]);
        }),
        ("herd-n10", "9-16", |view| {
            for trial in views::trials_of(view, 0, 10) {
                trial.herd = Some(views::herd(9, trial.spec.repetition));
            }
        }),
    ];
    for (chart, said, change) in cases {
        let mut view = plain();
        change(&mut view);
        let mut with = drawn(&view).0;
        let changed = with.remove(chart).unwrap();
        assert_eq!(texts(&changed).iter().filter(|text| **text == said).count(), 1, "{:?}", texts(&changed));
        assert!(boxes(&changed).iter().all(|one| one.is_inside(&changed)), "{chart}");
        let others = without.iter().filter(|(name, _)| *name != chart);
        assert!(others.eq(with.iter()), "{chart}: the others are as they were");
    }
}

#[test]
fn a_strategy_keeps_its_colour_when_another_was_not_measured() {
    let colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"];
    let mut view = view(&FIVE, &[2, 10]);
    view.cells.retain(|cell| cell.strategy != 0);
    let (charts, _) = drawn(&view);
    assert_eq!(charts.len(), 7);
    // Kinds of requests have their own colours.
    for (chart, svg) in charts.iter().filter(|(chart, _)| !chart.starts_with("requests-by-kind")) {
        assert!(!svg.contains(colours[0]), "{chart}");
        assert!(colours[1..].iter().all(|colour| svg.contains(colour)), "{chart}");
    }
}

#[test]
fn no_text_is_too_small_to_read_in_a_readme() {
    for (chart, svg) in drawn(&view(&FIVE, &[1, 2, 10, 100])).0 {
        let sizes =
            svg.split("font-size=\"").skip(1).filter_map(|part| part.split('"').next()?.parse::<f64>().ok());
        // Coordinates are twice as fine as pixels, and a README shows 1000 pixels on about 900.
        let smallest = sizes.fold(f64::INFINITY, f64::min) / 2.0 * 0.9;
        assert!((11.0..100.0).contains(&smallest), "{chart}: {smallest}");
    }
}

#[test]
fn a_run_without_measurements_draws_no_chart_and_explains_why() {
    let mut unmeasured = view(&FIVE, &[2, 10]);
    for cell in &mut unmeasured.cells {
        cell.trials = vec![Cow::Owned(views::unmeasured("x", cell.contenders, 1))];
    }
    for view in [views::empty(), unmeasured] {
        let (charts, left_out) = drawn(&view);
        assert!(charts.is_empty(), "{:?}", charts.keys());
        assert_eq!(left_out.len(), 5);
        assert!(left_out.iter().all(|(_, why)| !why.is_empty()), "{left_out:?}");
    }
}

#[test]
fn labels_are_escaped_in_the_svg() {
    let (charts, _) = drawn(&view(&["a<b & \"c\""], &[2]));
    assert!(!charts["throughput"].contains("a<b"));
    assert!(texts(&charts["throughput"]).contains(&"a&lt;b &amp; &quot;c&quot;"));
}

#[test]
fn throughput_over_time_is_shaded_by_the_share_of_locks_that_met_the_fault() {
    let over_time = |view: &View<'_>| drawn(view).0.remove("throughput-over-time-n4").unwrap();
    // Given two locks, neither of which met a fault, or one that did not happen
    let mut view = view(&["polling", "curator-mutex"], &[4]);
    assert!(!over_time(&view).contains("Shaded"));
    let not_done = FaultRecord { ended_us: None, ..fault("kill leader", 0) };
    let not_done = views::unproved("no such server", not_done);
    views::trials(&mut view).for_each(|trial| break_by(trial, std::slice::from_ref(&not_done)));
    assert!(!over_time(&view).contains("Shaded"));
    // When one of them met a fault, then the shade is half as dark as for both
    views::trials_of(&mut view, 0, 4).for_each(|trial| break_by(trial, &[fault("crash holder", 10_000)]));
    let half = over_time(&view);
    assert!(half.contains("Shaded") && half.contains("crash holder"));
    assert!(half.contains("opacity=\"0.22\"") && !half.contains("opacity=\"0.32\""), "the shade of both");
    break_by(views::trial(&mut view, 1, 4, 0), &[fault("crash holder", 10_000)]);
    assert!(over_time(&view).contains("opacity=\"0.32\""));
}

#[test]
fn a_lock_has_a_tile_only_for_faults_that_it_met() {
    let mut view = view(&["polling", "curator-mutex", "no-lock"], &[4]);
    for (strategy, label) in [(0, "crash holder"), (1, "kill leader")] {
        views::trials_of(&mut view, strategy, 4).for_each(|trial| break_by(trial, &[fault(label, 10_000)]));
    }
    let charts = drawn(&view).0;
    let tiles = texts(charts.iter().find(|(name, _)| name.starts_with("faults")).unwrap().1);
    assert_eq!(tiles.iter().filter(|text| **text == "-").count(), 2, "{tiles:?}");
    assert!(!tiles.contains(&"no-lock"));
}
