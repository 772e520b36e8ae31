//! An A/B comparison: the outcome, differing or inconclusive metrics, and with `--all` every metric.

use super::columns::{Columns, Grid};
use super::comparison::on_scale;
use super::counts::{self, CountedRow};
use super::layout::{Style, bullets, escaped, folded, table};
use super::printed::Printed;
use super::{NOT_MEASURED, margins};
use crate::document::{Tone, Value, numbers, words};
use zklockbench_analysis::ab::{AbFile, Comparison, Conclusion, Ending, Turn};
use zklockbench_analysis::compare::{self, ComparisonVerdict};
use zklockbench_core::measure::Unit;
use zklockbench_core::units::{self, counted, grouped, listed, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_stats::Interval;

const NO_BLOCK: &str = "No block ran to its end, so there is nothing to show.";

pub fn ab(file: &AbFile, style: Style) -> String {
    let is_shown = |one: &Comparison| style.all || one.verdict != ComparisonVerdict::Same;
    let same = file.comparisons.iter().filter(|one| !is_shown(one)).count();
    let same =
        (same > 0).then(|| format!("{} stayed within the margin.", counted(same, "metric", "metrics")));
    let changed = grid(file, is_shown);
    let tables = if changed.is_empty() { Vec::new() } else { vec![changed] };
    let notes = notes(file).into_iter().map(|note| format!("! {note}"));
    let printed = Printed {
        outcome: ab_headline(file),
        above: file.blocks.is_empty().then(|| NO_BLOCK.to_owned()),
        tables: tables.into_iter().chain(by_kind(file)).collect(),
        remarks: notes.chain(same).collect(),
        basis: vec![both_sides(file).join("; ") + "."],
        more: vec![format!("Measured on: {}.", places(file))],
        ..Printed::default()
    };
    printed.text(style)
}

/// Markdown for a pull request: the conclusion and each comparison, with everything else folded.
pub fn ab_markdown(file: &AbFile) -> String {
    let mut said = vec![format!("### {}", escaped(&ab_headline(file)))];
    said.extend(bullets(both_sides(file)));
    if file.blocks.is_empty() {
        said.push(NO_BLOCK.into());
        return said.join("\n\n") + "\n";
    }
    let all = grid(file, |_| true);
    said.push(table(&all.table));
    if let Some(counted) = by_kind(file) {
        said.extend([table(&counted.table), escaped(&counted.legend(&[]))]);
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

pub(crate) fn both_sides(file: &AbFile) -> [String; 2] {
    [sides(Turn::A, &file.sides.a.differs), sides(Turn::B, &file.sides.b.differs)]
}

pub(crate) fn outcome(file: &AbFile) -> (Value, &'static str) {
    let judged = file.judged();
    match (&judged, file.conclusion) {
        (Verdict::Violated(_), _) => (Value::from(&judged), "VIOLATED: a lock broke a promise"),
        (_, Conclusion::Regressed) => {
            (Value::verdict("regressed", Tone::Bad), "Regressed: B is worse than A")
        }
        (_, Conclusion::Unknown) => (
            Value::verdict("inconclusive", Tone::Doubtful),
            "Inconclusive: it is unknown whether B is worse than A",
        ),
        (Verdict::Unknown(_), _) => (Value::from(&judged), "Unknown: it is unknown whether the locks held"),
        (_, Conclusion::Improved) => {
            (Value::verdict("improved", Tone::Good), "Improved: B is better than A, and nothing is worse")
        }
        (_, Conclusion::NotWorse) => (
            Value::verdict("not worse", Tone::Good),
            "Not worse: B is not worse than A by more than the margin",
        ),
        (_, Conclusion::Same) => {
            (Value::verdict("the same", Tone::Good), "The same: B differs from A by less than the margin")
        }
    }
}

pub fn ab_headline(file: &AbFile) -> String {
    let count = |verdict| file.comparisons.iter().filter(|one| one.verdict == verdict).count();
    let verdicts = ComparisonVerdict::ALL.into_iter().map(|verdict| (count(verdict), verdict.word()));
    let counts = verdicts.filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let (_, what) = outcome(file);
    let most = most_changed(file).map_or_else(String::new, |most| format!(": {most}"));
    format!(
        "{what}{most} ({}: {}; {}; scenario {}).",
        counted(file.comparisons.len(), "comparison", "comparisons"),
        counts.join(", "),
        counted(file.blocks.len(), "block", "blocks"),
        file.scenario
    )
}

/// The metric with the largest change in the direction of the conclusion, whether regressed or improved.
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
        format!(
            "{} ensemble, {} (ZooKeeper {version}); data: {}",
            ensemble.kind,
            counted(ensemble.servers.len(), "server", "servers"),
            ensemble.placement
        )
    };
    let (a, b) = (&file.sides.a.ensemble, &file.sides.b.ensemble);
    let where_ = if a.connect == b.connect && !file.sides.a.opened_anew {
        place(a)
    } else {
        format!("A: {}; B: {}", place(a), place(b))
    };
    format!(
        "{where_}; generator on {} with {}",
        file.host.hostname,
        counted(file.host.cores, "core", "cores")
    )
}

pub(crate) fn grid(file: &AbFile, is_shown: impl Fn(&Comparison) -> bool) -> Grid {
    let of_figures =
        file.comparisons.iter().filter_map(|one| Some((one.figure.clone(), file.margin_of(one)?)));
    Columns::<&Comparison>::new()
        .words("strategy", |one| one.cells.strategy())
        .numbers("contenders", |one| one.cells.contenders())
        .words("metric", |one| one.figure.as_str())
        .numbers("A", |one| value(one.unit, one.a, one.a_at_least))
        .explained("median over the pairs")
        .numbers("B", |one| value(one.unit, one.b, one.b_at_least))
        .numbers("B/A", |one| ratio(one, one.ratio))
        .explained(format!(
            "the ratio within a pair, with its {} interval, not widened for the number of comparisons",
            percent(1.0 - file.terms.alpha)
        ))
        .numbers("pairs", |one| Value::Count(one.pairs as u64))
        .spare(2)
        .words("verdict", |one| Value::from(one.verdict))
        .explained(
            "regressed and improved: the interval widened for the number of comparisons lies wholly beyond the margin; same: \
             the interval lies within it",
        )
        .numbers("A/A", |one| ratio(one, one.itself))
        .spare(1)
        .explained("A again against A, the noise on this machine")
        .grid("Each metric of each combination", 2, file.comparisons.iter().filter(|one| is_shown(one)))
        .noted(format!(
            "Widened for {}. {}",
            counted(file.comparisons.len(), "comparison", "comparisons"),
            margins(of_figures)
        ))
}

/// Requests by kind, one row per side; `None` if none were counted.
pub(crate) fn by_kind(file: &AbFile) -> Option<Grid> {
    let rows = file.counted.iter().filter(|one| one.counting.is_there()).map(|one| CountedRow {
        labels: vec![
            one.turn.title().into(),
            one.cell.strategy.as_str().into(),
            Value::Count(one.cell.contenders as u64),
        ],
        counting: &one.counting,
    });
    let rows: Vec<CountedRow<'_>> = rows.collect();
    counts::by_kind(vec![words("side"), words("strategy"), numbers("contenders", 0)], &rows)
}

fn value(unit: Unit, value: Option<f64>, at_least: bool) -> String {
    value.map_or_else(|| NOT_MEASURED.into(), |value| units::at_least(unit.show(value), at_least))
}

pub(crate) fn ratio(of: &Comparison, ratio: Option<Interval>) -> String {
    let Some(ratio) = ratio else { return NOT_MEASURED.into() };
    let end = |end: f64| if end.is_finite() { on_scale(of.scale, end) } else { "no bound".to_owned() };
    match ratio.is_bounded() {
        false => end(ratio.value),
        true => format!("{} [{}, {}]", end(ratio.value), end(ratio.low), end(ratio.high)),
    }
}

/// How restarts of the servers affect the comparison; `None` if both sides share an ensemble that kept running.
fn starts(file: &AbFile) -> Option<String> {
    let (a, b) = (&file.sides.a, &file.sides.b);
    let kept: Vec<&str> = [(a, "A"), (b, "B")]
        .into_iter()
        .filter(|(side, _)| !side.opened_anew)
        .map(|(_, name)| name)
        .collect();
    match kept.as_slice() {
        [] => Some(
            "the servers of both sides were restarted for each block, those of A once more for A again"
                .to_owned(),
        ),
        _ if a.ensemble.connect == b.ensemble.connect => None,
        kept => Some(format!(
            "the servers of {} ran throughout: their own state is part of the difference, which repeating A can't show",
            listed(kept)
        )),
    }
}

pub(crate) fn notes(file: &AbFile) -> Vec<String> {
    let mut notes = Vec::new();
    match file.ending {
        Ending::Complete => {}
        Ending::GoingOn => notes.push(
            "the comparison was still in progress when this was \
            written"
                .to_owned(),
        ),
        Ending::Interrupted => notes.push(format!(
            "interrupted after {}: judged by what was measured until then",
            counted(file.blocks.len(), "block", "blocks")
        )),
        Ending::Aborted => {
            let why = file.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
            notes.push(format!("cut short{why}"));
        }
    }
    notes.extend(file.judged().why().map(|why| format!("{}: {why}", file.judged().word())));
    notes.extend(reasons(&file.comparisons));
    notes.extend(resumed(&file.resumed_after));
    notes.extend(starts(file));
    if let (Some(until), Some(reached)) = (file.asked.until, file.asked.reached) {
        let until = percent(until);
        notes.push(if reached {
            format!("every interval is within ± {until}; only their width decided when to stop")
        } else {
            format!("± {until} was requested but not reached")
        });
    }
    notes
}

/// Blocks before and after a resumption used different ensembles, but both sides of a block shared one.
fn resumed(after: &[usize]) -> Option<String> {
    let after: Vec<String> = after.iter().filter(|after| **after > 0).map(ToString::to_string).collect();
    let blocks = if after == ["1"] { "block" } else { "blocks" };
    (!after.is_empty())
        .then(|| format!("resumed after {} {blocks}, each time on a reopened ensemble", listed(&after)))
}

/// Reasons of verdicts, once for all comparisons with the same reason.
fn reasons(comparisons: &[Comparison]) -> Vec<String> {
    let told = |one: &Comparison| Some(format!("{}: {}", one.verdict.word(), one.why.as_ref()?));
    let line = |(told, same): (String, Vec<&Comparison>)| match same.as_slice() {
        [one] => format!("{} of {}: {told}", one.figure, one.cells),
        [first, ..] => format!(
            "{} (such as {} of {}): {told}",
            counted(same.len(), "comparison", "comparisons"),
            first.figure,
            first.cells
        ),
        [] => told,
    };
    grouped(comparisons.iter().filter_map(|one| Some((told(one)?, one)))).into_iter().map(line).collect()
}
