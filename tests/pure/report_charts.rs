//! The set of charts of a run, and the shading of faults. `report_gallery.rs` tests the contents of charts.

use crate::support::drawn::svgs;
use crate::support::views::{self, break_by, fault, view};
use zklockbench_record::FaultRecord;
use zklockbench_report::{View, chart::draw_all};

#[test]
fn a_complete_run_has_seven_charts_as_svg_and_png() {
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
    // A directory that cannot be created is an error, and a run without charts creates no directory.
    let error = draw_all(&view(&["polling"], &[2]), &drawn.files[0].join("charts")).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
    let none = draw_all(&views::empty(), &dir.path().join("none")).unwrap();
    assert!(none.files.is_empty() && !dir.path().join("none").exists(), "{:?}", none.files);
}

#[test]
fn throughput_chart_is_shaded_by_the_share_of_locks_under_a_fault() {
    let over_time = |view: &View<'_>| {
        let mut charts = svgs(view).into_iter();
        charts.find(|(name, _)| name == "throughput-over-time-n4").unwrap().1.unwrap()
    };
    // Given two locks without a fault, or with a fault that did not take effect
    let mut view = view(&["polling", "curator-mutex"], &[4]);
    assert!(!over_time(&view).contains("Shaded"));
    let not_done = FaultRecord { ended_us: None, ..fault("kill leader", 0) };
    let not_done = views::unproved("no such server", not_done);
    views::trials(&mut view).for_each(|trial| break_by(trial, std::slice::from_ref(&not_done)));
    assert!(!over_time(&view).contains("Shaded"));
    // Then a fault of one lock is shaded half as dark as a fault of both locks
    views::trials_of(&mut view, 0, 4).for_each(|trial| break_by(trial, &[fault("crash holder", 10_000)]));
    let half = over_time(&view);
    assert!(half.contains("Shaded") && half.contains("crash holder"));
    assert!(half.contains("opacity=\"0.22\"") && !half.contains("opacity=\"0.32\""), "the shade is too dark");
    break_by(views::trial(&mut view, 1, 4, 0), &[fault("crash holder", 10_000)]);
    assert!(over_time(&view).contains("opacity=\"0.32\""));
}
