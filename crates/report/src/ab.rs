//! Renders an A/B comparison for a terminal, as Markdown and as a page. The brief form lists only metrics
//! that differ or are inconclusive. Charts show each ratio with its interval, and the ratios by block.

use std::path::Path;

use super::chart::{Drawn, draw_each};
use super::comparison::{RATIOS, corrected, finding, of_panels, of_ratios, on_scale};
use super::document::{
    Axis, Block, Chart, Columns, Curve, Document, Finding, GAP, Guide, GuideCourse, Lines, Mark, Panels,
    PlotPoint, RatioRow, Ratios, Table, Tone, Value, Weight,
};
use super::page::{drawn, fact, filled, noted, place, program, section, when};
use super::table::counts::{self, CountedRow};
use super::table::{Printed, Style, bullets, escaped, folded, margins, markdown_table};
use zklockbench_analysis::ab::{AbFile, Comparison, Conclusion, Ending, Turn, Values};
use zklockbench_analysis::compare::{self, ComparisonVerdict};
use zklockbench_core::error::Error;
use zklockbench_core::measure::Unit;
use zklockbench_core::units::{self, counted, grouped, joined, listed, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_stats::Interval;

const NO_BLOCK: &str = "No block finished, so there is nothing to show.";

pub fn ab(file: &AbFile, style: Style) -> String {
    let is_shown = |one: &Comparison| style.all || one.verdict != ComparisonVerdict::Same;
    let same = file.comparisons.iter().filter(|one| !is_shown(one)).count();
    let stayed = || format!("{} stayed within the margin.", counted(same, "metric", "metrics"));
    let same = (same > 0).then(stayed);
    let notes = notes(file).into_iter().map(|note| format!("! {note}"));
    let printed = Printed {
        outcome: ab_headline(file),
        above: file.blocks.is_empty().then(|| NO_BLOCK.to_owned()),
        tables: vec![grid(file, is_shown), by_kind(file)],
        remarks: notes.chain(same).collect(),
        basis: vec![both_sides(file).join("; ") + "."],
        more: vec![format!("Measured on: {}.", places(file))],
        ..Printed::default()
    };
    printed.text(style)
}

/// Returns Markdown for a pull request: the conclusion and each comparison, with the other details collapsed.
pub fn ab_markdown(file: &AbFile) -> String {
    let mut said = vec![format!("### {}", escaped(&ab_headline(file)))];
    said.extend(bullets(both_sides(file)));
    if file.blocks.is_empty() {
        said.push(NO_BLOCK.into());
        return said.join("\n\n") + "\n";
    }
    let all = grid(file, |_| true);
    said.push(markdown_table(&all));
    let counted = by_kind(file);
    if !counted.is_empty() {
        said.extend([markdown_table(&counted), escaped(&counted.legend(&[]))]);
    }
    said.extend(bullets(notes(file)));
    let place = format!("Measured on: {}.", places(file));
    said.push(folded("How to read this", &[escaped(&place), escaped(&all.legend(&[]))].join("\n\n")));
    said.join("\n\n") + "\n"
}

pub fn sides(turn: Turn, differs: &[String]) -> String {
    let differs = if differs.is_empty() { "as in the scenario".to_owned() } else { differs.join(", ") };
    format!("{}: {differs}", turn.title())
}

fn both_sides(file: &AbFile) -> [String; 2] {
    [sides(Turn::A, &file.sides.a.differs), sides(Turn::B, &file.sides.b.differs)]
}

fn outcome(file: &AbFile) -> (Value, &'static str) {
    let judged = file.judged();
    let (word, tone, what) = match (&judged, file.conclusion) {
        (Verdict::Violated(_), _) => return (Value::from(&judged), "VIOLATED: a lock broke a promise"),
        (_, Conclusion::Regressed) => ("regressed", Tone::Bad, "Regressed: B is worse than A"),
        (_, Conclusion::Unknown) => {
            ("inconclusive", Tone::Doubtful, "Inconclusive: B may or may not be worse than A")
        }
        (Verdict::Unknown(_), _) => {
            return (Value::from(&judged), "Unknown: not enough evidence that the locks held");
        }
        (_, Conclusion::Improved) => {
            ("improved", Tone::Good, "Improved: B is better than A, and nothing is worse")
        }
        (_, Conclusion::NotWorse) => {
            ("not worse", Tone::Good, "Not worse: B is not worse than A by more than the margin")
        }
        (_, Conclusion::Same) => {
            ("the same", Tone::Good, "The same: B differs from A by less than the margin")
        }
    };
    (Value::verdict(word, tone), what)
}

pub fn ab_headline(file: &AbFile) -> String {
    let count = |verdict| file.comparisons.iter().filter(|one| one.verdict == verdict).count();
    let verdicts = ComparisonVerdict::ALL.into_iter().map(|verdict| (count(verdict), verdict.word()));
    let counts = verdicts.filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let counts = joined(counts, ", ");
    let (_, what) = outcome(file);
    let most = most_changed(file).map_or_else(String::new, |most| format!(": {most}"));
    let all = counted(file.comparisons.len(), "comparison", "comparisons");
    let blocks = counted(file.blocks.len(), "block", "blocks");
    format!("{what}{most} ({all}: {counts}; {blocks}; scenario {}).", file.scenario)
}

/// Returns the metric with the largest change in the direction of the conclusion.
fn most_changed(file: &AbFile) -> Option<String> {
    let wanted = match (file.judged(), file.conclusion) {
        (Verdict::Held, Conclusion::Regressed) => ComparisonVerdict::Regressed,
        (Verdict::Held, Conclusion::Improved) => ComparisonVerdict::Improved,
        _ => return None,
    };
    let changed = file.comparisons.iter().filter(|one| one.verdict == wanted);
    let ratios = changed.filter_map(|one| Some((one, one.ratio?.value)));
    let (one, ratio) = compare::farthest_from_one(ratios)?;
    let change = match one.scale {
        compare::Scale::Values => units::changed(ratio),
        compare::Scale::SharesLost => compare::more_lost(ratio),
    };
    Some(format!("{} of {} {change}", one.figure, one.cells))
}

fn places(file: &AbFile) -> String {
    let place = |ensemble: &zklockbench_record::EnsembleInfo| {
        let version = ensemble.servers.first().map_or("not known", |server| server.version.as_str());
        let (kind, servers) = (&ensemble.kind, counted(ensemble.servers.len(), "server", "servers"));
        format!("{kind} ensemble, {servers} (ZooKeeper {version}); data: {}", ensemble.placement)
    };
    let (a, b) = (&file.sides.a.ensemble, &file.sides.b.ensemble);
    let is_shared = a.connect == b.connect && !file.sides.a.opened_anew;
    let where_ = if is_shared { place(a) } else { format!("A: {}; B: {}", place(a), place(b)) };
    let cores = counted(file.host.cores, "core", "cores");
    format!("{where_}; generator on {} with {cores}", file.host.hostname)
}

fn grid(file: &AbFile, is_shown: impl Fn(&Comparison) -> bool) -> Table {
    let losses = file.comparisons.iter().filter(|one| one.scale == compare::Scale::SharesLost).count();
    let margin = |one: &Comparison| Some((one.figure.clone(), file.margin_of(one)?));
    let margins = margins(file.comparisons.iter().filter_map(margin));
    Columns::<&Comparison>::new()
        .words("strategy", |one| one.cells.strategy())
        .numbers("contenders", 0, |one| one.cells.contenders())
        .words("metric", |one| one.figure.as_str())
        .numbers("A", 0, |one| value(one.unit, one.a, one.a_at_least))
        .explained("median over the pairs")
        .numbers("B", 0, |one| value(one.unit, one.b, one.b_at_least))
        .numbers("B/A", 0, |one| ratio(one, one.ratio))
        .explained(format!(
            "the ratio within a pair, with its {} interval, not corrected for multiple comparisons",
            percent(1.0 - file.terms.alpha)
        ))
        .numbers("pairs", 2, |one| one.pairs)
        .words("verdict", |one| Value::from(one.verdict))
        .explained(
            "regressed and improved: the interval, corrected for multiple comparisons, lies entirely beyond the \
             margin; same: the interval lies within it",
        )
        .numbers("A/A", 1, |one| ratio(one, one.itself))
        .explained("the second run of A compared with the first, which shows the noise on this machine")
        .table("Each metric of each combination", 2, file.comparisons.iter().filter(|one| is_shown(one)))
        .noted(format!("{} {}", corrected(file.comparisons.len() - losses, losses > 0), margins))
}

/// Returns the requests by kind, one row per side.
fn by_kind(file: &AbFile) -> Table {
    let rows = file.counted.iter().filter(|one| one.counting.is_there()).map(|one| CountedRow {
        side: Some(one.turn.title()),
        strategy: &one.cell.strategy,
        contenders: one.cell.contenders,
        counting: &one.counting,
    });
    counts::by_kind(&rows.collect::<Vec<_>>())
}

fn value(unit: Unit, value: Option<f64>, at_least: bool) -> String {
    value.map_or_else(|| GAP.into(), |value| units::at_least(unit.show(value), at_least))
}

fn ratio(of: &Comparison, ratio: Option<Interval>) -> String {
    let Some(ratio) = ratio else { return GAP.into() };
    let end = |end: f64| if end.is_finite() { on_scale(of.scale, end) } else { "no bound".to_owned() };
    let ends = ratio.is_bounded().then(|| format!(" [{}, {}]", end(ratio.low), end(ratio.high)));
    end(ratio.value) + &ends.unwrap_or_default()
}

/// Describes how server restarts affect the comparison; `None` if both sides share an ensemble that was not
/// restarted.
fn starts(file: &AbFile) -> Option<String> {
    let (a, b) = (&file.sides.a, &file.sides.b);
    let kept = match (a.opened_anew, b.opened_anew) {
        (true, true) => {
            let again = "and A's servers again before the second run of A";
            return Some(format!("the servers of both sides were restarted for each block, {again}"));
        }
        _ if a.ensemble.connect == b.ensemble.connect => return None,
        (true, false) => "B",
        (false, true) => "A",
        (false, false) => "A and B",
    };
    let hidden = "so their state may affect the ratio; the second run of A cannot show this";
    Some(format!("the servers of {kept} ran throughout, {hidden}"))
}

fn notes(file: &AbFile) -> Vec<String> {
    let ending = match file.ending {
        Ending::Complete => None,
        Ending::GoingOn => {
            Some("the comparison was still in progress when this report was written".to_owned())
        }
        Ending::Interrupted => {
            let blocks = counted(file.blocks.len(), "block", "blocks");
            Some(format!("interrupted after {blocks}: based on the measurements until then"))
        }
        Ending::Aborted => {
            Some(file.why.as_ref().map_or("ended early".into(), |why| format!("ended early: {why}")))
        }
    };
    let judged = file.judged().why().map(|why| format!("{}: {why}", file.judged().word()));
    let until = file.asked.until.map(percent).zip(file.asked.reached);
    let until = until.map(|(until, reached)| match reached {
        true => {
            format!("every interval is within ± {until}; only the intervals' width determined when to stop")
        }
        false => format!("some intervals exceed ± {until} or allow no verdict"),
    });
    let (reasons, resumed) = (reasons(&file.comparisons), resumed(&file.resumed_after));
    let before = ending.into_iter().chain(judged).chain(reasons);
    before.chain(resumed).chain(starts(file)).chain(until).collect()
}

/// Describes the resumptions in a sentence. Blocks before and after a resumption used different ensembles,
/// but both sides of a block shared one.
fn resumed(after: &[usize]) -> Option<String> {
    let after: Vec<String> = after.iter().filter(|after| **after > 0).map(ToString::to_string).collect();
    let blocks = if after == ["1"] { "block" } else { "blocks" };
    (!after.is_empty()).then(|| format!("resumed after {} {blocks}, on a reopened ensemble", listed(&after)))
}

/// Returns the reasons for the verdicts, each with the metrics to which it applies.
fn reasons(comparisons: &[Comparison]) -> Vec<String> {
    let told = |one: &Comparison| Some(format!("{}: {}", one.verdict.word(), one.why.as_ref()?));
    let line = |(told, same): (String, Vec<&Comparison>)| match same.as_slice() {
        [one] => format!("{} of {}: {told}", one.figure, one.cells),
        [Comparison { figure, cells, .. }, ..] => {
            let count = counted(same.len(), "comparison", "comparisons");
            format!("{count} (such as {figure} of {cells}): {told}")
        }
        [] => told,
    };
    grouped(comparisons.iter().filter_map(|one| Some((told(one)?, one)))).into_iter().map(line).collect()
}

pub fn of_ab(file: &AbFile) -> Document {
    let charts = [("Ratios", ab_ratios(file)), ("Ratios block by block", ab_blocks(file))];
    let (a, b) = (&file.sides.a, &file.sides.b);
    let same = a.ensemble.connect == b.ensemble.connect;
    let mut measured = vec![Block::Facts(place(&a.ensemble, &file.host))];
    measured.extend((!same).then(|| Block::Facts(place(&b.ensemble, &file.host))));
    let reproduce = vec![
        Block::code("Scenario of A:", a.scenario_text.clone()),
        Block::code("Scenario of B:", b.scenario_text.clone()),
        Block::Facts(vec![
            fact("Measured", when(file.started_at)),
            fact("Seed", file.seed.to_string()),
            program(&file.tool_version, file.tool_commit.as_deref()),
        ]),
    ];
    let sections = [
        section(RATIOS.section, "Ratios", charts.map(|(title, chart)| drawn(title, chart))),
        section("figures", "Figures", [grid(file, |_| true), by_kind(file)]),
        section("notes", "Notes", noted(notes(file))),
        section("environment", "Measurement environment", measured),
        section("reproduce", "How to reproduce this", reproduce),
    ];
    let (verdict, _) = outcome(file);
    let differing = file.comparisons.iter().filter_map(|one| {
        let ratio = ratio(one, one.ratio);
        finding(one.verdict, format!("{} of {}: B/A {ratio}.", one.figure, one.cells))
    });
    Document {
        title: format!("A/B comparison: {}", file.scenario),
        about: both_sides(file).join("; "),
        headline: Finding::new("B against A", verdict.tone(), ab_headline(file), Some(RATIOS)),
        verdict,
        comes_to: "Conclusions",
        findings: differing.collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

/// Draws the charts of an A/B comparison into a directory. Charts without a ratio are listed with the reason.
pub fn draw_ab(file: &AbFile, dir: &Path) -> Result<Drawn, Error> {
    draw_each([("ratios", ab_ratios(file)), ("blocks", ab_blocks(file))], &ab_headline(file), dir)
}

const OVER_A: [&str; 2] = ["B / A", "A again / A"];

fn ab_ratios(file: &AbFile) -> Result<Chart, String> {
    const HOW_TO_READ: &str = "Bar: interval of B / A. Dots: B / A in each block (lower), and A again / A (upper), \
        which shows the noise on this machine. Thick line: no change; thin lines: the margin.";
    let measured = file.comparisons.iter().filter(|one| one.ratio.is_some());
    let of = Ratios { of: OVER_A[0], rows: measured.map(|one| ab_row(file, one)).collect() };
    of_ratios("ratios", of, [HOW_TO_READ.to_owned()].into_iter().chain(both_sides(file)).collect())
}

fn ab_row(file: &AbFile, one: &Comparison) -> RatioRow {
    let [below, above] = [0, 1].map(|which| over_a(one, which).map(|(_, ratio)| ratio).collect());
    let margin = file.margin_of(one).map(|margin| one.scale.margin(margin));
    RatioRow { label: label(one), verdict: one.verdict, interval: one.ratio, margin, above, below }
}

/// Charts the ratios in the order of measurement, to reveal drift or a single bad block, which intervals
/// hide.
fn ab_blocks(file: &AbFile) -> Result<Chart, String> {
    let labels: Vec<String> = file.blocks.iter().map(|block| block.number.to_string()).collect();
    let mut comparisons: Vec<&Comparison> = file.comparisons.iter().collect();
    comparisons.sort_by_key(|one| one.verdict);
    let panel = |one: &Comparison| block_panel(one, &labels, file.margin_of(one));
    let panels: Vec<(String, Lines)> = comparisons.into_iter().filter_map(panel).collect();
    if panels.is_empty() {
        return Err("no block has a ratio".to_owned());
    }
    let how_to_read = "Dashed: no change, and the margin. A block without a ratio has no marker.".to_owned();
    let caption = std::iter::once(how_to_read).chain(both_sides(file)).collect();
    let keys = OVER_A.map(str::to_owned).into();
    Ok(of_panels("blocks", "Ratios block by block", Panels { keys, panels }, caption))
}

fn block_panel(one: &Comparison, labels: &[String], margin: Option<f64>) -> Option<(String, Lines)> {
    let series: Vec<Curve> = (0..OVER_A.len())
        .map(|which| Curve::new(which, OVER_A[which]).through(over_a(one, which).collect(), Mark::default()))
        .collect();
    if series.iter().all(|series| series.line.is_empty()) {
        return None;
    }
    let ends = margin.map(|margin| one.scale.margin(margin)).into_iter().flatten();
    // The axis is logarithmic.
    let rules: Vec<f64> = std::iter::once(1.0).chain(ends.filter(|end| *end > 0.0)).collect();
    let heights = series.iter().flat_map(Curve::heights).chain(rules.iter().copied());
    let (x, y) = (Axis::columns("block", labels), Axis::logarithmic("ratio", heights));
    let guide = |rule: &f64| Guide::new(GuideCourse::Level(*rule), "", Weight::Faint);
    let guides = rules.iter().map(guide).collect();
    let heading = format!("{}: {}", label(one), one.verdict.word());
    Some((heading, Lines { guides, ..Lines::new(x, y, series) }))
}

fn label(one: &Comparison) -> String {
    format!("{}, {}: {}", one.cells.strategy(), one.cells.contenders(), one.figure)
}

/// Returns the ratios of B to A, or of the repeated A to A, on the scale of the comparison and by the position of
/// their block. Blocks without a ratio are skipped.
fn over_a(one: &Comparison, which: usize) -> impl Iterator<Item = PlotPoint> + '_ {
    let value = move |values: &Values| if which == 0 { values.b } else { values.again };
    one.values.iter().enumerate().filter_map(move |(at, values)| {
        let ratio = one.scale.relative(values.a?, value(values)?)?;
        (ratio > 0.0).then_some((at as f64 + 1.0, ratio))
    })
}
