//! Renders a comparison of stored runs for a terminal, as Markdown and as a page. Charts show each ratio with
//! its interval and the values behind it, and the waits of both sides. Also renders the number of repetitions
//! needed to detect a change.

use std::path::Path;

use super::chart::{one_by_one, series};
use super::document::{
    Axis, Block, Chart, ChartKind, Columns, Curve, Document, Finding, GAP, Lines, Link, Mark, Panels,
    RatioRow, Ratios, Table, Tone, Value,
};
use super::draw;
use super::page::{drawn, filled, noted, section};
use super::table::{Printed, Style, bullets, escaped, folded, margins, markdown_table};
use zklockbench_analysis::compare::{
    About, CellUnderLoad, Compared, Comparison, ComparisonVerdict, LeftOut, Method, Power, PowerRow, Role,
    Row, Sample, Scale, Side, SideInfo, more_lost,
};
use zklockbench_core::error::Error;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{at_least, capitalised, counted, distinct, grouped, joined, number, percent};
use zklockbench_record::Unit;
use zklockbench_stats::Interval;

/// Maximum number of rows with changes; `--all` prints more.
const MOST_ROWS: usize = 12;

pub fn comparison(compared: &Comparison, style: Style) -> String {
    let has_same = compared.rows.iter().any(|row| !is_news(row));
    let mut remarks: Vec<String> = forced(compared).map(|why| format!("! {why}")).collect();
    let mut table = grid(compared, |row| style.all || is_news(row));
    let most = if style.all { usize::MAX } else { MOST_ROWS };
    let hidden = table.rows.drain(table.rows.len().min(most)..).count();
    remarks.extend((hidden > 0).then(|| format!("{hidden} more rows: use --all to show them.")));
    remarks.extend((has_same && !style.all).then(|| same_or_shown(compared)));
    remarks.extend(notes(compared).into_iter().map(|note| format!("! {note}")));
    remarks.extend(faster(compared));
    let printed = Printed {
        outcome: format!("{}.", compared.conclusion.sentence),
        tables: vec![table],
        remarks,
        more: sides(compared).into(),
        ..Printed::default()
    };
    printed.text(style)
}

/// Returns a sentence on the metrics that the table omits.
fn same_or_shown(compared: &Comparison) -> String {
    let count = |role| compared.rows.iter().filter(|row| !is_news(row) && row.role == role).count();
    let same = counted(count(Role::Decides), "metric", "metrics");
    let shown = count(Role::Shown);
    let more = if shown > 0 { format!("; {shown} more do not affect the outcome") } else { String::new() };
    format!("{same} stayed within the margin{more}.")
}

/// Returns whether a deciding row changed, is inconclusive, or was not measured.
fn is_news(row: &Row) -> bool {
    row.role == Role::Decides && row.compared.verdict != ComparisonVerdict::Same
}

/// Returns Markdown for a pull request: everything that needs attention, with the rest collapsed.
pub fn comparison_markdown(compared: &Comparison) -> String {
    let mut said = vec![format!("### {}", escaped(&compared.conclusion.sentence))];
    said.extend(forced(compared).map(|why| format!("**{}**", escaped(&why))));
    let (news, same) = (grid(compared, is_news), grid(compared, |row| !is_news(row)));
    said.extend((!news.is_empty()).then(|| markdown_table(&news)));
    said.extend(faster(compared).iter().map(|line| escaped(line)));
    said.extend(bullets(notes(compared)));
    let rest = || folded(&format!("Same or informational: {}", same.rows.len()), &markdown_table(&same));
    said.extend((!same.is_empty()).then(rest));
    let sides = bullets(sides(compared)).unwrap_or_default();
    said.push(folded("How to read this", &[sides, escaped(&news.legend(&[]))].join("\n\n")));
    said.join("\n\n") + "\n"
}

pub(super) fn sides(compared: &Comparison) -> [String; 2] {
    let side = |name: &str, side: &SideInfo| {
        let runs = side.runs.iter().map(|run| {
            let commit = run.tool_commit.as_deref().unwrap_or("of unknown commit");
            format!("{} of {} by {} {commit} on {}", run.scenario, run.started_at, run.tool_version, run.host)
        });
        format!("{name}: {} ({})", side.path, joined(runs, "; "))
    };
    [side("Base", &compared.base), side("New", &compared.new)]
}

fn forced(compared: &Comparison) -> impl Iterator<Item = String> + '_ {
    let forced = |why: &String| format!("Comparison forced, although the runs are not comparable: {why}");
    compared.forced.iter().map(forced)
}

/// Returns the selected rows, without violation counts of cells that have no violations.
fn grid(compared: &Comparison, is_shown: impl Fn(&Row) -> bool) -> Table {
    let is_same = |row: &Row| row.compared.verdict == ComparisonVerdict::Same && row.compared.why.is_none();
    let is_idle = |row: &Row| row.figure == "violations" && is_same(row);
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| !is_idle(row) && is_shown(row)).collect();
    rows.sort_by_key(|row| (row.role, row.compared.verdict));
    let pairs = match compared.about {
        About::TheseRuns => "repetitions",
        About::SuchRuns => "the runs' medians",
    };
    Columns::<&Row>::new()
        .words("strategy", |row| row.cell.strategy.as_str())
        .numbers("contenders", 0, |row| row.cell.contenders)
        .words("metric", |row| row.figure.as_str())
        .numbers("base", 0, |row| value(&row.compared.base, row.measured_in))
        .numbers("new", 0, |row| value(&row.compared.new, row.measured_in))
        .numbers("new/base", 1, |row| Some(on_scale(row.compared.scale, row.compared.ratio?.value)))
        .explained(format!("the median ratio over all pairs of {pairs} (Hodges-Lehmann)"))
        .words("interval", |row| interval(row))
        .explained(format!(
            "range of new/base, with a confidence of at least {}; exact: counts that the load determines",
            percent(1.0 - compared.terms.alpha)
        ))
        .numbers("reps", 3, |row| {
            let (was, is) = (row.compared.base.values.len(), row.compared.new.values.len());
            if was == is { Value::from(was) } else { format!("{was}, {is}").into() }
        })
        .words("verdict", |row| match row.role {
            Role::Decides => Value::from(row.compared.verdict),
            Role::Shown => format!("({})", row.compared.verdict).into(),
        })
        .explained(
            "regressed or improved: the interval, corrected for multiple comparisons, lies entirely beyond the margin; \
             same: the interval lies within it; (in parentheses): not part of the outcome",
        )
        .table("Each metric of each combination", 2, rows)
        .noted(note(compared))
}

fn note(compared: &Comparison) -> String {
    let unit = match compared.about {
        About::TheseRuns => {
            "Medians over the repetitions. They describe these runs; run-to-run variation was not measured."
        }
        About::SuchRuns => "Medians over the repetitions; the runs are the unit.",
    };
    let of_figures = compared.rows.iter().filter_map(|row| {
        let together = if row.strategies.is_empty() { "" } else { " together" };
        Some((format!("{}{together}", row.figure), row.compared.margin?))
    });
    let any_losses = compared.rows.iter().any(|row| row.compared.scale == Scale::SharesLost);
    let (corrected, margins) = (corrected(compared.family, any_losses), margins(of_figures));
    format!("{unit} {corrected} {margins}")
}

/// Describes the correction of the verdicts. Losses form a separate family.
pub(super) fn corrected(family: usize, any_losses: bool) -> String {
    if family == 0 && any_losses {
        return "Verdicts are corrected for the comparisons of losses.".to_owned();
    }
    let losses = if any_losses { ", and those on losses separately" } else { "" };
    format!("Verdicts are corrected for {}{losses}.", counted(family, "comparison", "comparisons"))
}

fn interval(row: &Row) -> Option<String> {
    if row.compared.method == Some(Method::Exact) {
        return Some("exact".to_owned());
    }
    let ratio = row.compared.ratio.filter(Interval::is_bounded)?;
    let [low, high] = [ratio.low, ratio.high].map(|end| on_scale(row.compared.scale, end));
    Some(format!("{low} to {high}"))
}

/// Formats a ratio of values, or a difference in percentage points for lost shares.
pub(super) fn on_scale(scale: Scale, ratio: f64) -> String {
    if scale == Scale::Values {
        return times(ratio);
    }
    let points = 100.0 * (ratio - 1.0);
    let sign = if points > 0.0 { "+" } else { "" };
    format!("{sign}{} %", number(points))
}

/// Describes a ratio of values, or a difference of lost shares.
pub(super) fn in_words(scale: Scale, ratio: f64) -> String {
    if scale == Scale::Values { format!("{} times the base's", times(ratio)) } else { more_lost(ratio) }
}

/// Formats a ratio, which is infinite if the base is 0.
fn times(ratio: f64) -> String {
    if ratio.is_infinite() { "∞".to_owned() } else { number(ratio) }
}

fn value(sample: &Sample, unit: Unit) -> String {
    match sample.median {
        None => GAP.to_owned(),
        Some(median) if median.is_infinite() => "grows".to_owned(),
        Some(median) => at_least(unit.show(median), sample.at_least),
    }
}

fn faster(compared: &Comparison) -> Vec<String> {
    let said = compared.faster.iter().map(|faster| faster.sentence());
    said.map(|said| format!("In the new run, {said} (throughput; ±: half the interval).")).collect()
}

fn notes(compared: &Comparison) -> Vec<String> {
    const MOST: usize = 6;
    let mut notes = whys(compared);
    let only_new: Vec<String> = compared.only_new.iter().map(CellUnderLoad::name).collect();
    notes.extend((!only_new.is_empty()).then(|| format!("only in the new run: {}", some_of(&only_new))));
    let differences = compared.differences.iter().filter(|one| !one.meaningless);
    notes.extend(differences.map(|one| format!("differs: {}", one.describe())));
    notes.extend(compared.unsound.iter().take(MOST).map(|unsound| format!("excluded: {unsound}")));
    let more = compared.unsound.len().saturating_sub(MOST);
    notes.extend((more > 0).then(|| format!("excluded: {more} more")));
    notes.extend(left_out(&compared.left_out));
    notes
}

/// Returns the reasons for the verdicts, each with the metrics to which it applies.
fn whys(compared: &Comparison) -> Vec<String> {
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| row.role == Role::Decides).collect();
    rows.sort_by_key(|row| row.compared.verdict);
    let groups = grouped(rows.into_iter().filter_map(|row| {
        let name = format!("{} of {} at {}", row.figure, row.cell.strategy, row.cell.contenders);
        Some(((row.compared.verdict, row.compared.why.as_deref()?), name))
    }));
    groups.iter().map(|((verdict, why), names)| format!("{verdict}: {}: {why}", some_of(names))).collect()
}

fn some_of(names: &[String]) -> String {
    const MOST: usize = 3;
    let (first, more) = names.split_at(names.len().min(MOST));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    first.join(", ") + &more
}

fn left_out(left_out: &[LeftOut]) -> Vec<String> {
    let named = |LeftOut { cell, .. }: &LeftOut| format!("{} at {}", cell.strategy, cell.contenders);
    let groups = grouped(left_out.iter().map(|one| ((&one.figure, &one.why), named(one))));
    let groups = groups.iter().map(|((figure, why), names)| (figure, why, some_of(names)));
    groups.map(|(figure, why, names)| format!("not compared: {figure} of {names}: {why}")).collect()
}

pub fn power(power: &Power, style: Style) -> String {
    let table = Columns::<&PowerRow>::new()
        .words("strategy", |row| row.cell.strategy.as_str())
        .numbers("contenders", 0, |row| row.cell.contenders)
        .words("metric", |row| row.figure.as_str())
        .numbers("median", 2, |row| {
            Some(row.measured_in.show(row.readings.median.filter(|it| it.is_finite())?))
        })
        .numbers("spread", 1, |row| row.spread.map(Value::Share))
        .explained("standard deviation of the repetitions")
        .numbers("reps", 1, |row| row.readings.values.len())
        .numbers("needed", 0, |row| match (row.repetitions, row.spread) {
            (Some(count), _) => Value::from(count),
            (None, Some(_)) => "more than 500".into(),
            (None, None) => "not known".into(),
        })
        .explained(format!(
            "approximate number per side to detect the change with a probability of {} among {}",
            percent(power.seen),
            counted(power.family as u64, "comparison", "comparisons")
        ))
        .table("Repetitions needed", 2, &power.rows);
    let basis = "A change within a metric's margin does not count as a regression: lower --margin as well.";
    let (outcome, tables, basis) = (power_headline(power), vec![table], vec![basis.to_owned()]);
    Printed { outcome, tables, basis, ..Printed::default() }.text(style)
}

fn power_headline(power: &Power) -> String {
    const UNKNOWN: &str = "The spread of the repetitions is unknown with a single repetition or a growing queue. \
        Run more repetitions first.";
    if power.rows.iter().all(|row| row.spread.is_none()) {
        return UNKNOWN.to_owned();
    }
    let change = percent(power.change);
    let Some(most) = power.rows.iter().filter_map(|row| row.repetitions).max() else {
        return format!("Even 500 repetitions per side would not detect a change of {change}.");
    };
    let most = counted(most, "repetition", "repetitions");
    let open = power.rows.iter().filter(|row| row.repetitions.is_none()).count();
    let of = match open {
        0 => "in every metric".to_owned(),
        open => format!("in all but {}", counted(open, "metric", "metrics")),
    };
    format!("{most} per side would detect a change of {change} {of}.")
}

pub(super) const RATIOS: Link = Link { section: "ratios", text: "ratios" };

pub fn of_comparison(base: &Side, new: &Side, compared: &Comparison) -> Document {
    let percentiles = percentiles_compared(base, new, compared);
    let faster = faster(compared).into_iter().map(Block::Text);
    let sections = [
        section(RATIOS.section, "Ratios", [drawn("Ratios", ratios_compared(compared))]),
        section("figures", "Figures", [grid(compared, |_| true)]),
        section("waits", "Waits by percentile", [drawn("Waits by percentile", percentiles)]),
        section("faster", "Within the new run", faster),
        section("notes", "Notes", noted(notes(compared))),
    ];
    let words = ["nothing regressed", "regressed", "inconclusive"];
    let verdict = Value::worded(&compared.conclusion.regression.verdict(""), words);
    let limits = forced(compared).map(|sentence| Finding::new("Limits", Tone::Doubtful, sentence, None));
    let said = format!("{}.", compared.conclusion.sentence);
    Document {
        title: "Comparison of stored runs".to_owned(),
        about: sides(compared).join("; "),
        headline: Finding::new("New against base", verdict.tone(), said, Some(RATIOS)),
        verdict,
        comes_to: "Conclusions",
        findings: limits.chain(compared.rows.iter().filter_map(of_row)).collect(),
        strategies: Vec::new(),
        sections: filled(sections),
    }
}

fn of_row(row: &Row) -> Option<Finding> {
    let ratio = row.compared.ratio.map(|one| format!(": {}", in_words(row.compared.scale, one.value)));
    let ratio = ratio.unwrap_or_default();
    let sentence = format!("{} of {}{ratio}.", row.figure, row.cell.name());
    finding(row.compared.verdict, sentence).filter(|_| row.role == Role::Decides)
}

/// Returns a finding on a metric with a clear difference.
pub(super) fn finding(verdict: ComparisonVerdict, sentence: String) -> Option<Finding> {
    let tone = Value::from(verdict).tone();
    matches!(tone, Tone::Good | Tone::Bad)
        .then(|| Finding::new(capitalised(verdict.word()), tone, sentence, Some(RATIOS)))
}

/// Draws each ratio of a comparison with its interval, as SVG or PNG depending on the file extension.
///
/// # Errors
/// [`Error::Usage`] for any other extension, or if there is no ratio; [`Error::Environment`] if writing
/// fails.
pub fn draw_comparison(compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, &compared.conclusion.sentence, || ratios_compared(compared))
}

/// Draws the waits of both sides by percentile, one panel per cell. File types and errors are the same as for
/// [`draw_comparison`].
pub fn draw_percentiles(base: &Side, new: &Side, compared: &Comparison, path: &Path) -> Result<(), Error> {
    draw_into(path, &compared.conclusion.sentence, || percentiles_compared(base, new, compared))
}

fn draw_into(path: &Path, place: &str, chart: impl FnOnce() -> Result<Chart, String>) -> Result<(), Error> {
    let chart = chart().map_err(|why| Error::usage(format!("there is no chart: {why}")))?;
    draw::write(&chart, place, path)
}

fn ratios_compared(compared: &Comparison) -> Result<Chart, String> {
    const HOW_TO_READ: &str = "Bar: interval of new / base for that comparison alone. Dots: repetitions of the \
        base (upper) and of the new run (lower), divided by the base's median. Thick line: no change; thin lines: \
        the margin.";
    let sides = format!("base: {}; new: {}", compared.base.path, compared.new.path);
    let is_measured = |row: &&Row| row.compared.method.is_some_and(|method| method != Method::Exact);
    let rows = compared.rows.iter().filter(is_measured).map(ratio_row).collect();
    let of = Ratios { of: "new / base", rows };
    let forced = forced(compared).map(|said| said + ".");
    of_ratios("comparison", of, [HOW_TO_READ.to_owned(), sides].into_iter().chain(forced).collect())
}

/// Returns a chart of these ratios, worst verdict first; an error with the reason if there are none.
pub(super) fn of_ratios(id: &str, mut ratios: Ratios, caption: Vec<String>) -> Result<Chart, String> {
    if ratios.rows.is_empty() {
        return Err("no metric has a ratio".to_owned());
    }
    ratios.rows.sort_by_key(|row| row.verdict);
    let said = |row: &RatioRow| {
        let ratio = row.interval.map(|interval| interval.value).filter(|ratio| ratio.is_finite()).map(number);
        format!("{}: {}, {}", row.label, ratio.as_deref().unwrap_or("no ratio"), row.verdict.word())
    };
    Ok(Chart {
        id: id.to_owned(),
        title: format!("{}, metric by metric", ratios.of),
        said: one_by_one(ratios.rows.iter().map(said)),
        caption,
        kind: ChartKind::Ratios(ratios),
    })
}

fn ratio_row(row: &Row) -> RatioRow {
    let Compared { base, new, verdict, ratio, margin, scale, .. } = &row.compared;
    // Repetitions are relative to the base's median; there are none for a ratio to 0.
    let relative = |value: &f64| scale.relative(base.median?, *value);
    let [above, below] = [base, new].map(|side| side.values.iter().filter_map(relative).collect());
    let shown = if row.role == Role::Shown { " (informational)" } else { "" };
    let label = format!("{}, {}: {}{shown}", row.cell.strategy, row.cell.contenders, row.figure);
    let margin = margin.map(|margin| scale.margin(margin));
    RatioRow { label, verdict: *verdict, interval: *ratio, margin, above, below }
}

const SIDES: [&str; 2] = ["base", "new"];

/// Charts the waits of both sides by percentile on shared axes, one panel per cell, worst verdicts first.
fn percentiles_compared(base: &Side, new: &Side, compared: &Comparison) -> Result<Chart, String> {
    let mut rows: Vec<_> = compared.rows.iter().filter(|row| row.strategies.is_empty()).collect();
    rows.sort_by_key(|row| row.compared.verdict);
    let cells = distinct(rows.iter().map(|row| &row.cell)).into_iter();
    let panels: Vec<(String, Lines)> = cells.filter_map(|cell| panel(cell, [base, new])).collect();
    if panels.is_empty() {
        return Err("no valid trial of either side measured a wait".to_owned());
    }
    let how_to_read = "Wait: from the intended start of the acquire to its return. The samples of all \
        valid repetitions of a side are pooled; a line ends where fewer than ten samples remain beyond it, \
        or only unserved waits.";
    let forced = forced(compared).map(|said| said + ".");
    let caption = std::iter::once(how_to_read.to_owned()).chain(forced).collect();
    let keys = SIDES.iter().zip([&compared.base.path, &compared.new.path]);
    let keys = keys.map(|(side, path)| format!("{side}: {path}")).collect();
    Ok(of_panels("waits", "Wait by percentile, both sides", Panels { keys, panels }, caption))
}

const MOST_PANELS: usize = 12;

pub(super) fn of_panels(id: &str, title: &str, mut all: Panels, mut caption: Vec<String>) -> Chart {
    let said = one_by_one(all.panels.iter().map(|(heading, _)| heading.clone()));
    let more = all.panels.drain(all.panels.len().min(MOST_PANELS)..).count();
    caption.extend((more > 0).then(|| format!("{more} more are not shown.")));
    Chart { id: id.to_owned(), title: title.to_owned(), said, caption, kind: ChartKind::Panels(all) }
}

fn panel(cell: &CellUnderLoad, sides: [&Side; 2]) -> Option<(String, Lines)> {
    let of = |(look, side): (usize, &&Side)| {
        let samples = side.pooled(cell, Measure::Wait)?;
        Some(series(look, SIDES[look], &samples, Mark::default()))
    };
    let series: Vec<Curve> = sides.iter().enumerate().filter_map(of).collect();
    if series.is_empty() {
        return None;
    }
    let furthest = Curve::furthest(&series, 10.0);
    let y = Axis::durations("wait", series.iter().flat_map(Curve::heights));
    let grew = SIDES.into_iter().zip(sides).filter(|(_, side)| side.queue_grew(cell));
    let grew = joined(grew.map(|(name, _)| name), " and the ");
    let grew = if grew.is_empty() { grew } else { format!(" (the queue of the {grew} grew)") };
    Some((cell.name() + &grew, Lines::new(Axis::percentiles(furthest), y, series)))
}
