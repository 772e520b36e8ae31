//! Charts: what each shows, and that none invents or hides anything.

use crate::support::drawn::{boxes, texts};
use crate::support::{records, views};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::support::views::{FIVE, view};
use zklockbench_record::Election;
use zklockbench_report::View;
use zklockbench_report::chart::{draw_all, svgs};

/// The SVG texts of a view's charts by name, and the names of those not drawn, with the reasons.
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

/// A whole run, drawn once for all tests that only look.
static RUN: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| drawn(&view(&FIVE, &[1, 2, 10, 100])).0);

/// Whether a chart shows kinds of requests by their colours, and strategies by name only.
fn has_colours_of_kinds(chart: &str) -> bool {
    chart.starts_with("requests-by-kind")
}

/// The colours of strategies, as SVG writes them, in their order.
const COLOURS: [&str; 5] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"];

#[test]
fn a_whole_run_gives_seven_charts_each_as_svg_and_png() {
    // Given a directory that does not exist yet
    let dir = tempfile::tempdir().unwrap();
    let charts = dir.path().join("run").join("charts");
    // When everything is drawn into it
    let drawn = draw_all(&view(&["predecessor-watch", "polling"], &[2, 10]), &charts).unwrap();
    // Then each chart is there twice, as its first bytes show
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
}

#[test]
fn the_floor_is_a_dashed_line_on_the_chart_of_handoffs_only() {
    let mut view = view(&["predecessor-watch", "polling"], &[2, 10]);
    let without = drawn(&view).0;
    view.floor = Some(records::floor());
    let with = drawn(&view).0;
    let handoffs = "handoff-by-percentile-n10";
    assert!(with[handoffs].contains("floor: 1 ms"));
    assert!(texts(&with[handoffs]).join(" ").contains("Dashed: the floor, 1 ms, a handoff without a lock"));
    for (name, chart) in &without {
        assert!(!chart.contains("floor"), "{name}");
        assert!(name == handoffs || *chart == with[name], "{name}");
    }
}

#[test]
fn an_unplanned_election_is_a_labelled_line_on_the_chart_over_time_only() {
    // Given a run in which the servers elected a leader, twice in a repetition each
    let mut view = view(&["predecessor-watch", "polling"], &[2, 10]);
    let without = drawn(&view).0;
    let election = |seen_us| Election { seen_us, leader: "zk2:2181".into(), epoch: 5, after_fault: None };
    views::trial(&mut view, 1, 10, 1).elections = Some(vec![election(12_400_000)]);
    // One of them when nothing was measured, one so late that its label has no room to the right of its line
    let two = vec![election(-3), election(29_900_000)];
    views::trial(&mut view, 0, 10, 0).elections = Some(two);
    let with = drawn(&view).0;
    // When its charts are drawn, then those in the measured phase are on the one over time
    let over_time = "throughput-over-time-n10";
    let written = texts(&with[over_time]);
    assert_eq!(written.iter().filter(|text| **text == "election").count(), 2, "{written:?}");
    for said in ["Dashed: the servers elected a leader", "at 12.4 s", "at 29.9 s."] {
        assert!(written.iter().any(|text| text.contains(said)), "{said}: {written:?}");
    }
    assert!(boxes(&with[over_time]).iter().all(|one| one.is_inside(&with[over_time])));
    // And the others are as they were
    for (name, chart) in &without {
        assert!(!chart.contains("election"), "{name}");
        assert!(name == over_time || *chart == with[name], "{name}");
    }
}

#[test]
fn the_herd_curve_is_drawn_only_if_a_release_woke_two_waiters() {
    // Given locks of which each release woke one waiter
    let mut view = view(&["parent-watch", "predecessor-watch"], &[2, 10]);
    for trial in views::trials(&mut view) {
        trial.herd = Some(views::herd(1, trial.spec.repetition));
    }
    let without = drawn(&view).0;
    assert!(without.keys().all(|name| !name.starts_with("herd")), "{:?}", without.keys());
    // When one wakes nine
    for trial in views::trials_of(&mut view, 0, 10) {
        trial.herd = Some(views::herd(9, trial.spec.repetition));
    }
    // Then there is a column for each class of ranks, and both locks are in the chart
    let mut with = drawn(&view).0;
    let herd = with.remove("herd-n10").unwrap();
    let texts = texts(&herd);
    for said in ["1", "2", "3-4", "5-8", "9-16", "parent-watch", "predecessor-watch"] {
        assert!(texts.contains(&said), "{said}: {texts:?}");
    }
    assert!(!texts.contains(&"17-32"));
    assert_eq!(with, without, "the others are as they were");
}

#[test]
fn a_directory_that_cannot_be_created_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = draw_all(&view(&["polling"], &[2, 10]), &file.path().join("charts")).unwrap_err();
    assert!(error.to_string().contains("cannot create"), "{error}");
}

#[test]
fn without_charts_no_directory_is_created() {
    let place = tempfile::tempdir().unwrap();
    let drawn = draw_all(&views::empty(), &place.path().join("charts")).unwrap();
    assert!(drawn.files.is_empty() && !place.path().join("charts").exists(), "{:?}", drawn.files);
}

#[test]
fn every_axis_has_a_title_and_a_unit() {
    let axes = [
        ("throughput", "acquisitions per second"),
        ("throughput", "contenders, one session each (log scale)"),
        ("fan-out", "fan-out: notifications caused by a release, per release"),
        ("requests", "requests per acquisition"),
        ("requests-by-kind-n100", "share of the requests per acquisition (%)"),
        ("wait-by-percentile-n100", "wait (log scale)"),
        ("wait-by-percentile-n100", "percentile (log scale)"),
        ("throughput-over-time-n100", "seconds since the measured phase began"),
    ];
    for (chart, title) in axes {
        assert!(texts(&RUN[chart]).iter().any(|text| text.starts_with(title)), "{chart} lacks `{title}`");
    }
    let ticks = texts(&RUN["wait-by-percentile-n100"]);
    assert!(ticks.contains(&"99.9 %") && ticks.iter().any(|tick| tick.ends_with(" ms")), "{ticks:?}");
}

#[test]
fn every_strategy_is_drawn_and_named_in_every_chart_in_its_own_colour() {
    for (chart, svg) in &*RUN {
        for (label, colour) in FIVE.iter().zip(COLOURS) {
            assert!(texts(svg).contains(label), "{chart} does not name {label}");
            assert!(
                svg.contains(colour) || has_colours_of_kinds(chart),
                "{chart}: {label} is not in {colour}"
            );
        }
    }
}

#[test]
fn a_strategy_keeps_its_colour_when_another_was_not_measured() {
    // Given a run in which the first strategy measured nothing
    let mut view = view(&FIVE, &[2, 10]);
    view.cells.retain(|cell| cell.strategy != 0);
    // When its charts are drawn, then the others keep their colours and the first one's does not occur
    let (charts, _) = drawn(&view);
    assert_eq!(charts.len(), 7);
    for (chart, svg) in charts.iter().filter(|(chart, _)| !has_colours_of_kinds(chart)) {
        assert!(!svg.contains(COLOURS[0]), "{chart}");
        assert!(COLOURS[1..].iter().all(|colour| svg.contains(colour)), "{chart}");
    }
}

#[test]
fn no_text_is_too_small_to_read_in_a_readme() {
    for (chart, svg) in &*RUN {
        let sizes =
            svg.split("font-size=\"").skip(1).filter_map(|part| part.split('"').next()?.parse::<f64>().ok());
        // Coordinates are twice as fine as pixels, and a README shows 1000 pixels on about 900.
        let smallest = sizes.fold(f64::INFINITY, f64::min) / 2.0 * 0.9;
        assert!((11.0..100.0).contains(&smallest), "{chart}: {smallest}");
    }
}

#[test]
fn every_chart_names_the_measured_environment() {
    for (chart, svg) in &*RUN {
        assert!(svg.contains("share one host with 2 cores"), "{chart}");
        assert!(svg.contains("seed 42"), "{chart}");
    }
}

#[test]
fn the_fan_out_chart_shows_both_bounds_and_zero() {
    let texts = texts(&RUN["fan-out"]);
    for said in ["1: one waiter is notified", "N−1: every waiter is notified", "0"] {
        assert!(texts.contains(&said), "{said}: {texts:?}");
    }
    assert!(!texts.contains(&"1 contender"), "a single contender has no waiter to notify");
}

#[test]
fn contender_ticks_are_the_measured_counts() {
    let all = texts(&RUN["throughput"]);
    for count in ["1", "2", "10", "100"] {
        assert!(all.contains(&count), "{count}");
    }
    assert!(!all.contains(&"3"));
}

#[test]
fn a_single_contender_count_gives_bars_with_their_values() {
    // Given one contender count, so that there is nothing to draw a line over
    let (charts, left_out) = drawn(&view(&FIVE, &[50]));
    // Then all charts are drawn, and the bars carry their values
    assert!(left_out.is_empty(), "{:?}", left_out);
    assert!(texts(&charts["fan-out"]).contains(&"49"));
    assert!(charts["throughput"].contains("Throughput, 50 contenders"));
}

#[test]
fn doubtful_and_violated_trials_are_marked_and_explained() {
    // Given an invalid trial and a lock that did not exclude
    let mut view = view(&["parent-watch", "no-lock"], &[2, 10]);
    views::trials_of(&mut view, 0, 10).for_each(|trial| views::spoil(trial, "timer lag 40 ms"));
    views::violate(views::trial(&mut view, 1, 2, 0), 7);
    // When charts are drawn
    let (charts, _) = drawn(&view);
    // Then the caption says so, and the cross is there
    let throughput = &charts["throughput"];
    assert!(
        throughput
            .contains("parent-watch at 10 contenders: 3 of 3 trials, the first invalid: timer lag 40 ms")
    );
    assert!(throughput.contains("no-lock at 2 contenders: 7 violations"));
    assert!(throughput.contains("#BE0000"), "no cross");
    assert!(!charts["fan-out"].contains("Hollow: no-lock"));
}

#[test]
fn an_empty_run_draws_no_chart_and_explains_why() {
    let (charts, left_out) = drawn(&views::empty());
    assert!(charts.is_empty());
    assert_eq!(left_out.len(), 7);
    assert!(left_out.iter().all(|(_, why)| !why.is_empty()));
}

#[test]
fn a_run_without_measurements_draws_no_chart() {
    // Given trials that all ended before anything was acquired
    let mut view = view(&FIVE, &[2, 10]);
    for cell in &mut view.cells {
        cell.trials = vec![Cow::Owned(views::unmeasured("x", cell.contenders, 1))];
    }
    let (charts, left_out) = drawn(&view);
    assert!(charts.is_empty(), "{:?}", charts.keys());
    assert_eq!(left_out.len(), 7);
}

#[test]
fn labels_are_escaped_in_the_svg() {
    let (charts, _) = drawn(&view(&["a<b & \"c\""], &[2]));
    assert!(!charts["throughput"].contains("a<b"));
    assert!(texts(&charts["throughput"]).contains(&"a&lt;b &amp; &quot;c&quot;"));
}
