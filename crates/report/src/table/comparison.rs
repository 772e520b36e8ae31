//! A comparison of stored runs: the outcome, changed or inconclusive metrics, and with `--all` every metric. Also, the number of
//! repetitions needed to detect a change.

use super::columns::{Columns, Grid};
use super::layout::{Style, bullets, escaped, folded, table};
use super::printed::Printed;
use super::{NOT_MEASURED, margins};
use crate::document::Value;
use zklockbench_analysis::compare::{
    About, Comparison, ComparisonVerdict, LeftOut, Method, Power, PowerRow, Role, Row, Sample, Scale,
    SideInfo,
};
use zklockbench_core::units::{at_least, counted, grouped, number, percent};
use zklockbench_record::Unit;
use zklockbench_stats::Interval;

/// Maximum number of rows with changes; `--all` prints more.
const MOST_ROWS: usize = 12;

pub fn comparison(compared: &Comparison, style: Style) -> String {
    let news: Vec<&Row> = compared.rows.iter().filter(|row| is_news(row)).collect();
    let same = compared.rows.len() - news.len();
    let mut remarks: Vec<String> = forced(compared).map(|why| format!("! {why}")).collect();
    let (table, legend) = if style.all {
        (grid(compared, |_| true), None)
    } else {
        let mut table = grid(compared, is_news);
        let hidden = table.table.rows.len().saturating_sub(MOST_ROWS);
        table.table.rows.truncate(MOST_ROWS);
        if hidden > 0 {
            remarks.push(format!("{hidden} more rows like these: --all."));
        }
        (table, (same > 0).then(|| same_or_shown(compared)))
    };
    remarks.extend(legend);
    remarks.extend(notes(compared).into_iter().map(|note| format!("! {note}")));
    remarks.extend(faster(compared));
    let printed = Printed {
        outcome: format!("{}.", compared.conclusion.sentence),
        tables: if table.is_empty() { Vec::new() } else { vec![table] },
        remarks,
        more: sides(compared).into(),
        ..Printed::default()
    };
    printed.text(style)
}

/// Number of metrics outside the table, with the reason.
fn same_or_shown(compared: &Comparison) -> String {
    let count = |role| compared.rows.iter().filter(|row| !is_news(row) && row.role == role).count();
    let same = counted(count(Role::Decides), "metric", "metrics");
    match count(Role::Shown) {
        0 => format!("{same} stayed within the margin."),
        shown => format!("{same} stayed within the margin; {shown} more do not decide."),
    }
}

/// Whether a deciding row changed, is inconclusive, or was not measured.
fn is_news(row: &Row) -> bool {
    row.role == Role::Decides && row.compared.verdict != ComparisonVerdict::Same
}

/// Markdown for a pull request: everything that needs attention, with the rest folded.
pub fn comparison_markdown(compared: &Comparison) -> String {
    let mut said = vec![format!("### {}", escaped(&compared.conclusion.sentence))];
    said.extend(forced(compared).map(|why| format!("**{}**", escaped(&why))));
    let (news, same) = (grid(compared, is_news), grid(compared, |row| !is_news(row)));
    if !news.is_empty() {
        said.push(table(&news.table));
    }
    said.extend(faster(compared).iter().map(|line| escaped(line)));
    said.extend(bullets(notes(compared)));
    if !same.is_empty() {
        said.push(folded(&format!("{} the same or only shown", same.table.rows.len()), &table(&same.table)));
    }
    let sides = bullets(sides(compared)).unwrap_or_default();
    said.push(folded("How to read this", &[sides, escaped(&news.legend(&[]))].join("\n\n")));
    said.join("\n\n") + "\n"
}

pub(crate) fn sides(compared: &Comparison) -> [String; 2] {
    let side = |name: &str, side: &SideInfo| {
        let runs: Vec<String> = side
            .runs
            .iter()
            .map(|run| {
                let commit = run.tool_commit.as_deref().unwrap_or("of unknown commit");
                format!(
                    "{} of {} by {} {commit} on {}",
                    run.scenario, run.started_at, run.tool_version, run.host
                )
            })
            .collect();
        format!("{name}: {} ({})", side.path, runs.join("; "))
    };
    [side("Base", &compared.base), side("New", &compared.new)]
}

pub(crate) fn forced(compared: &Comparison) -> impl Iterator<Item = String> + '_ {
    compared.forced.iter().map(|why| format!("Forced, although it cannot be compared: {why}"))
}

/// Selected rows, except violation counts of cells without violations on either side.
pub(crate) fn grid(compared: &Comparison, is_shown: impl Fn(&Row) -> bool) -> Grid {
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| !is_idle(row) && is_shown(row)).collect();
    rows.sort_by_key(|row| (row.role, row.compared.verdict));
    Columns::<&Row>::new()
        .words("strategy", |row| row.cell.strategy.as_str())
        .numbers("contenders", |row| Value::Count(row.cell.contenders as u64))
        .words("metric", |row| row.figure.as_str())
        .numbers("base", |row| value(&row.compared.base, row.measured_in))
        .numbers("new", |row| value(&row.compared.new, row.measured_in))
        .numbers("new/base", |row| {
            let scale = row.compared.scale;
            Value::or_missing(row.compared.ratio, |ratio: Interval| on_scale(scale, ratio.value).into())
        })
        .spare(1)
        .explained(ratio_explained(compared))
        .words("interval", |row| interval(row))
        .explained(format!(
            "of new/base, with a confidence of at least {}; exact: counts that the load determines",
            percent(1.0 - compared.terms.alpha)
        ))
        .numbers("reps", |row| repetitions(row))
        .spare(3)
        .words("verdict", |row| match row.role {
            Role::Decides => Value::from(row.compared.verdict),
            Role::Shown => format!("({})", row.compared.verdict).into(),
        })
        .explained(
            "regressed or improved: the interval, widened for the number of comparisons, lies wholly beyond the margin; \
             same: the interval lies within it; (in parentheses): not part of the outcome",
        )
        .grid("Each metric of each combination", 2, rows)
        .noted(note(compared))
}

fn is_idle(row: &Row) -> bool {
    row.figure == "violations"
        && row.compared.verdict == ComparisonVerdict::Same
        && row.compared.why.is_none()
}

fn ratio_explained(compared: &Comparison) -> &'static str {
    match compared.about {
        About::TheseRuns => "the median ratio over all pairs of repetitions (Hodges-Lehmann)",
        About::SuchRuns => "the median ratio over all pairs of the runs' medians (Hodges-Lehmann)",
    }
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
    let comparisons = counted(compared.family, "comparison", "comparisons");
    format!("{unit} Widened for {comparisons}. {}", margins(of_figures))
}

fn interval(row: &Row) -> Value {
    let compared = &row.compared;
    let scaled = |ratio: f64| on_scale(compared.scale, ratio);
    match (compared.method, compared.ratio) {
        (Some(Method::Exact), _) => "exact".into(),
        (_, Some(ratio)) if ratio.is_bounded() => {
            format!("{} to {}", scaled(ratio.low), scaled(ratio.high)).into()
        }
        _ => Value::NotMeasured,
    }
}

fn repetitions(row: &Row) -> Value {
    let (was, is) = (row.compared.base.values.len(), row.compared.new.values.len());
    if was == is { Value::Count(was as u64) } else { format!("{was}, {is}").into() }
}

/// A ratio of values, or the difference in percentage points for lost shares.
pub(super) fn on_scale(scale: Scale, ratio: f64) -> String {
    match scale {
        Scale::Values => times(ratio),
        Scale::SharesLost => {
            let points = 100.0 * (ratio - 1.0);
            let sign = if points > 0.0 { "+" } else { "" };
            format!("{sign}{} %", number(points))
        }
    }
}

/// A ratio; infinite if the base is 0.
pub(crate) fn times(ratio: f64) -> String {
    if ratio.is_infinite() { "∞".to_owned() } else { number(ratio) }
}

fn value(sample: &Sample, unit: Unit) -> String {
    match sample.median {
        None => NOT_MEASURED.to_owned(),
        Some(median) if median.is_infinite() => "grows".to_owned(),
        Some(median) => at_least(unit.show(median), sample.at_least),
    }
}

pub(crate) fn faster(compared: &Comparison) -> Vec<String> {
    compared
        .faster
        .iter()
        .map(|faster| format!("In the new run, {} (throughput; ±: half the interval).", faster.sentence()))
        .collect()
}

pub(crate) fn notes(compared: &Comparison) -> Vec<String> {
    const MOST: usize = 6;
    let mut notes = whys(compared);
    notes.extend(without_partner(compared));
    let differences = compared.differences.iter().filter(|one| !one.meaningless);
    notes.extend(differences.map(|one| format!("differs: {}", one.describe())));
    notes.extend(compared.unsound.iter().take(MOST).map(|unsound| format!("does not count: {unsound}")));
    if let Some(more) = compared.unsound.len().checked_sub(MOST).filter(|more| *more > 0) {
        notes.push(format!("does not count: {more} more"));
    }
    notes.extend(left_out(&compared.left_out));
    notes
}

/// Reasons of verdicts, once for all rows with the same reason.
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
    match names.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{} and {more} more", names[..MOST].join(", ")),
        _ => names.join(", "),
    }
}

fn without_partner(compared: &Comparison) -> Option<String> {
    let names: Vec<String> =
        compared.only_new.iter().map(zklockbench_analysis::compare::CellUnderLoad::name).collect();
    (!names.is_empty()).then(|| format!("only in the new run: {}", some_of(&names)))
}

fn left_out(left_out: &[LeftOut]) -> Vec<String> {
    let named = |LeftOut { cell, .. }: &LeftOut| format!("{} at {}", cell.strategy, cell.contenders);
    let groups = grouped(left_out.iter().map(|one| ((&one.figure, &one.why), named(one))));
    let said = |((figure, why), names): &((_, _), Vec<String>)| {
        format!("not compared: {figure} of {}: {why}", some_of(names))
    };
    groups.iter().map(said).collect()
}

pub fn power(power: &Power, style: Style) -> String {
    let table = Columns::<&PowerRow>::new()
        .words("strategy", |row| row.cell.strategy.as_str())
        .numbers("contenders", |row| Value::Count(row.cell.contenders as u64))
        .words("metric", |row| row.figure.as_str())
        .numbers("median", |row| {
            let median = row.readings.median.filter(|median| median.is_finite());
            Value::or_missing(median, |median| row.measured_in.show(median).into())
        })
        .spare(2)
        .numbers("spread", |row| Value::or_missing(row.spread, Value::Share))
        .spare(1)
        .explained("how far the repetitions lie apart (standard deviation)")
        .numbers("reps", |row| Value::Count(row.readings.values.len() as u64))
        .spare(1)
        .numbers("needed", |row| match (row.repetitions, row.spread) {
            (Some(count), _) => Value::Count(count as u64),
            (None, Some(_)) => "more than 500".into(),
            (None, None) => "not known".into(),
        })
        .explained(format!(
            "approximate number per side, to detect the change with {} among {}",
            percent(power.seen),
            counted(power.family as u64, "comparison", "comparisons")
        ))
        .grid("Repetitions needed", 2, &power.rows);
    let printed = Printed {
        outcome: power_headline(power),
        tables: vec![table],
        basis: vec![
            "A change within a metric's margin does not count as a regression: lower --margin as \
            well."
                .to_owned(),
        ],
        ..Printed::default()
    };
    printed.text(style)
}

fn power_headline(power: &Power) -> String {
    let change = percent(power.change);
    let most = power.rows.iter().filter_map(|row| row.repetitions).max();
    let open = power.rows.iter().filter(|row| row.repetitions.is_none()).count();
    if power.rows.iter().all(|row| row.spread.is_none()) {
        return "The spread of the repetitions is unknown: one repetition has none, and neither has a \
            growing queue. Run more repetitions first."
            .into();
    }
    let Some(most) = most else {
        return format!("No number of repetitions up to 500 a side shows a change of {change}.");
    };
    let most = counted(most as u64, "repetition", "repetitions");
    let of = match open {
        0 => "in every metric".to_owned(),
        open => format!("in all but {}", counted(open as u64, "metric", "metrics")),
    };
    format!("{most} a side show a change of {change} {of}.")
}
