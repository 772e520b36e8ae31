//! `report.html` in a browser: headless Chromium opens the example pages in common sizes and colour schemes, with
//! an appended probe that inspects and operates the page.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use zklockbench_record::{Run, Trial};

use crate::support::program::{Bench, measured_within, stderr};
use crate::support::skip::skipped;
use crate::support::{plans, records, run_dirs};

/// Script that inspects the loaded page and records its findings. It sends the keyboard events of a user without a
/// mouse.
const PROBE: &str = include_str!("../data/probe.html");

/// Returns the name of the browser's program; `None` if no browser is installed.
fn browser() -> Option<&'static str> {
    let works = |name: &&&str| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    };
    ["chromium", "chromium-browser", "google-chrome"].iter().find(works).copied()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("results").join(name)
}

fn planned(bench: &Bench) -> PathBuf {
    let directory = bench.path("plan");
    std::fs::create_dir(&directory).unwrap();
    plans::plan().write(&directory).unwrap();
    directory
}

/// Writes a run with gaps: a strategy without metrics, a violation, a trial that was cut short, a queue that grows
/// without limit, and cells of only one strategy.
fn with_holes(bench: &Bench) -> PathBuf {
    let of = |mut trial: Trial, strategy: &str, contenders: usize| {
        trial.spec.strategy.label = strategy.into();
        trial.spec.contenders = contenders;
        trial
    };
    let trials = [
        of(records::trial(0), "predecessor-watch", 3),
        of(records::trial(1), "predecessor-watch", 30),
        of(records::trial_without_measurements(2), "predecessor-watch", 300),
        of(records::trial_with_a_violation(3), "no-lock", 3),
        of(records::overloaded(4), "curator-mutex", 30),
        of(records::trial_without_measurements(5), "polling", 3),
    ];
    let strategies = ["predecessor-watch", "no-lock", "curator-mutex", "polling", "parent-watch"];
    let run = Run { strategies: strategies.map(String::from).into(), ..records::run(trials.len() + 1) };
    run_dirs::publish_run(&bench.path("holes"), run, &trials)
}

fn given(bench: &Bench, name: &str) -> PathBuf {
    match name {
        "plan" => planned(bench),
        "holes" => with_holes(bench),
        stored => example(stored),
    }
}

fn page_of(bench: &Bench, name: &str) -> PathBuf {
    let page = bench.path(&format!("{name}.html"));
    let given = given(bench, name);
    bench.shows(&format!("report '{}' --output '{}'", given.display(), page.display()));
    page
}

/// Opens a page in the browser, with its own profile.
fn browse(bench: &Bench, program: &str, page: &Path, options: &[&str]) -> Output {
    let profile = format!("--user-data-dir={}", bench.path("profile").display());
    let mut command = Command::new(program);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command.args(["--hide-scrollbars", "--enable-logging=stderr", "--v=0", &profile]);
    command.args(options).arg(format!("file://{}", page.display())).output().unwrap()
}

/// Window of a size and colour scheme.
#[derive(Clone, Copy)]
struct Window(u32, u32, bool);

impl Window {
    fn open(self, bench: &Bench, program: &str, page: &Path, option: &str) -> Output {
        let Self(width, height, dark) = self;
        let size = format!("--window-size={width},{height}");
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
        browse(bench, program, page, &[&size, &scheme, "--virtual-time-budget=10000", option])
    }
}

/// Returns the findings of the probe on this page in a window of this width.
fn probed(bench: &Bench, program: &str, page: &Path, width: u32, dark: bool) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let with_probe = bench.path("probed.html");
    std::fs::write(&with_probe, text.replacen("<body>", &format!("<body>{PROBE}"), 1)).unwrap();
    let output = Window(width, 900, dark).open(bench, program, &with_probe, "--dump-dom");
    let said = stderr(&output);
    assert!(!said.contains("CONSOLE"), "{said}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let probe = dom.split("<pre id=\"probe\">").nth(1).and_then(|rest| rest.split('<').next());
    let probe = probe.unwrap_or_else(|| panic!("the probe did not run: {said}"));
    let bytes = BASE64_STANDARD.decode(probe).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
#[ignore = "long: a browser"]
fn browser_renders_every_chart_of_the_examples_at_every_size() {
    let Some(program) = browser() else { return skipped("no chromium") };
    let bench = Bench::new();
    // Given the pages of a plan, a run with gaps, and stored runs
    for (name, charts_at_least) in [("plan", 1), ("holes", 3), ("example", 5), ("example-faults", 5)] {
        let page = page_of(&bench, name);
        for (width, dark) in [(1280, false), (500, true), (1920, true)] {
            // When a user opens a page
            let found = probed(&bench, program, &page, width, dark);
            // Then the page has no errors
            assert_eq!(found["errors"], Value::Array(Vec::new()), "{name}");
            assert!(found["overflow"].as_i64().unwrap() <= 1, "{name} at {width}: {found}");
            assert_eq!(found["paper"] == "rgb(27, 27, 27)", dark, "{name}: {}", found["paper"]);
            let charts = found["charts"].as_array().unwrap();
            assert!(charts.len() >= charts_at_least, "{name}: {}", charts.len());
            for chart in charts {
                let size = |of: &str| chart[of].as_f64().unwrap();
                assert!(size("width") > 200.0 && size("height") > 40.0, "{name}: {chart}");
                assert!(size("marks") >= 1.0, "{name}: {chart}");
                assert_eq!(chart["broken"], false, "{name}: {chart}");
                // And the arrow keys show values
                let said = &chart["said"];
                assert!(said.is_null() || said.as_str().unwrap().contains(": "), "{name}: {chart}");
                // And a chart with two axes shows one axis at a time
                let (axes, apart) = (&chart["axes"], serde_json::json!(["true,false", "false,true"]));
                assert!(axes.is_null() || *axes == apart, "{name}: {chart}");
            }
            // And a strategy can be hidden
            let lines = |at: usize| found["switched"][at].as_u64().unwrap();
            assert!(lines(0) > 0 && lines(1) == 0, "{name}: {}", found["switched"]);
            // And a table can be sorted with a button, which keeps the focus
            let sorted: Vec<f64> =
                found["sorted"].as_array().unwrap().iter().filter_map(Value::as_f64).collect();
            assert!(sorted.is_sorted_by(|one, other| one >= other), "{name}: {sorted:?}");
            assert_eq!(found["focused"], true, "{name}");
        }
        // And the page can be printed
        let printed = bench.path(&format!("{name}.pdf"));
        let print = format!("--print-to-pdf={}", printed.display());
        browse(&bench, program, &page, &[&print, "--no-pdf-header-footer"]);
        assert!(std::fs::metadata(&printed).unwrap().len() > 20_000, "{name}");
    }
}

/// Width and height of a block, in pixels.
const BLOCK: usize = 16;
/// Maximum difference in a block's brightness, out of 255, that is invisible at a glance.
const SAME: u8 = 32;

/// Brightness of each block of a picture. Blocks reveal missing or moved parts, but not the anti-aliasing of
/// letters.
#[derive(PartialEq, Eq)]
struct Glance {
    columns: usize,
    blocks: Vec<u8>,
}

impl Glance {
    fn at(picture: &Path) -> Self {
        let (width, samples, channels) = decoded(picture);
        let columns = width / BLOCK;
        let rows = samples.len() / channels / width / BLOCK;
        let brightness = |row: usize, column: usize| {
            let pixels =
                (0..BLOCK * BLOCK).map(|at| (row * BLOCK + at / BLOCK) * width + column * BLOCK + at % BLOCK);
            let sum: usize =
                pixels.flat_map(|at| &samples[at * channels..][..3]).map(|value| usize::from(*value)).sum();
            u8::try_from(sum / (BLOCK * BLOCK * 3)).unwrap()
        };
        let blocks = (0..rows * columns).map(|at| brightness(at / columns, at % columns)).collect();
        Self { columns, blocks }
    }

    fn read(file: &Path) -> Self {
        let (columns, blocks, _) = decoded(file);
        Self { columns, blocks }
    }

    fn write(&self, file: &Path) {
        let rows = self.blocks.len() / self.columns;
        let size = |value: usize| u32::try_from(value).unwrap();
        let mut encoder =
            png::Encoder::new(std::fs::File::create(file).unwrap(), size(self.columns), size(rows));
        encoder.set_color(png::ColorType::Grayscale);
        encoder.write_header().unwrap().write_image_data(&self.blocks).unwrap();
    }

    fn differs(&self, other: &Self) -> f64 {
        if self.columns != other.columns || self.blocks.len() != other.blocks.len() {
            return 1.0;
        }
        let pairs = self.blocks.iter().zip(&other.blocks);
        pairs.filter(|(one, other)| one.abs_diff(**other) > SAME).count() as f64 / self.blocks.len() as f64
    }
}

/// Returns a picture's width, its samples row by row, and the number of samples per pixel.
fn decoded(file: &Path) -> (usize, Vec<u8>, usize) {
    let decoder = png::Decoder::new(std::io::BufReader::new(std::fs::File::open(file).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut samples = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut samples).unwrap();
    (info.width as usize, samples, info.color_type.samples())
}

#[test]
#[ignore = "long: a browser"]
fn pages_look_as_they_did_at_their_last_review() {
    let Some(program) = browser() else { return skipped("no chromium") };
    let bench = Bench::new();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/pages");
    let update = std::env::var_os("ZKLOCKBENCH_UPDATE_DOCS").is_some();
    let mut changed = Vec::new();
    for name in ["plan", "holes", "example", "example-faults"] {
        let made = page_of(&bench, name);
        let left = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let page = left.join(format!("{name}.html"));
        std::fs::copy(made, &page).unwrap();
        for (width, height, dark) in [(1280, 2000, false), (500, 2400, true), (1920, 1080, true)] {
            // When a browser shows the page on a desktop, a phone and a projector
            let picture = left.join(format!("{name}-{width}.png"));
            let shot = format!("--screenshot={}", picture.display());
            Window(width, height, dark).open(&bench, program, &page, &shot);
            let seen = Glance::at(&picture);
            let before = kept.join(format!("{name}-{width}.png"));
            if update {
                seen.write(&before);
                continue;
            }
            // Then the page looks as it did at its last human review
            let differs = Glance::read(&before).differs(&seen);
            if differs > 0.02 {
                changed.push(format!("{}: {:.0} % differs", picture.display(), 100.0 * differs));
            }
        }
    }
    assert!(
        changed.is_empty(),
        "pages look different. Review them, and if they are correct, rerun this test with \
         ZKLOCKBENCH_UPDATE_DOCS=1:\n{}",
        changed.join("\n")
    );
}

#[test]
#[ignore = "long: measures memory"]
fn report_of_four_runs_needs_little_more_memory_than_a_report_of_one() {
    let bench = Bench::new();
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/results/example");
    let resident = |count: usize| {
        let arguments = [vec!["report"], vec![run; count], vec!["--output", "page.html"]].concat();
        let ended = measured_within(bench.command(&arguments), Duration::from_secs(120));
        assert_eq!(ended.code, Some(0), "{}", ended.said);
        ended.resident_kb
    };
    let (one, several) = (resident(1), resident(4));
    assert!(several < one + one / 2, "{one} kB for one run, {several} kB for four");
}
