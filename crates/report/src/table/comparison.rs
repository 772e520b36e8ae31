//! What a comparison came to: the sentence first, then every figure, and what must be said of them. And how many repetitions
//! it takes to see a change.

use super::layout::{bullets, escaped, fitted, fitted_above, folded, table};
use super::{NOT_MEASURED, Style, Table, numbers, words};
use crate::document::{Column, Value};
use zklockbench_analysis::compare::{
    About, Comparison, ComparisonVerdict, LeftOut, Method, Power, PowerRow, Role, Row, Sample, Scale,
    SideInfo,
};
use zklockbench_core::units::{counted, grouped, number, percent};
use zklockbench_record::Unit;
use zklockbench_stats::Interval;

pub fn comparison(compared: &Comparison, style: Style) -> String {
    let mut said = vec![format!("{}.", compared.conclusion.sentence)];
    said.extend(sides(compared));
    said.extend(forced(compared).map(|why| format!("! {why}")));
    said.push(String::new());
    said.extend(fitted_above(grid(compared, |_| true), style, |_| legend(compared)));
    said.extend(faster(compared));
    said.extend(notes(compared).into_iter().map(|note| format!("! {note}")));
    said.join("\n") + "\n"
}

/// For a pull request: what calls for a person at first sight, the rest folded away.
pub fn comparison_markdown(compared: &Comparison) -> String {
    let mut said = vec![format!("### {}", escaped(&compared.conclusion.sentence))];
    said.extend(forced(compared).map(|why| format!("**{}**", escaped(&why))));
    let is_news = |row: &Row| row.role == Role::Decides && row.compared.verdict != ComparisonVerdict::Same;
    let (news, same) = (grid(compared, is_news), grid(compared, |row| !is_news(row)));
    if !news.rows.is_empty() {
        said.push(table(&news));
    }
    said.extend(faster(compared).iter().map(|line| escaped(line)));
    said.extend(bullets(notes(compared)));
    if !same.rows.is_empty() {
        said.push(folded(&format!("{} the same or only shown", same.rows.len()), &table(&same)));
    }
    let sides = bullets(sides(compared)).unwrap_or_default();
    said.push(folded("How to read this", &[sides, escaped(&legend(compared))].join("\n\n")));
    said.join("\n\n") + "\n"
}

pub(crate) fn sides(compared: &Comparison) -> [String; 2] {
    let side = |name: &str, side: &SideInfo| {
        let runs: Vec<String> = side
            .runs
            .iter()
            .map(|run| {
                let commit = run.tool_commit.as_deref().unwrap_or("of no commit");
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

/// The rows that are shown: that there was no violation on either side takes no row for each cell.
pub(crate) fn grid(compared: &Comparison, is_shown: impl Fn(&Row) -> bool) -> Table {
    let mut rows: Vec<&Row> = compared.rows.iter().filter(|row| !is_idle(row) && is_shown(row)).collect();
    rows.sort_by_key(|row| (row.role, row.compared.verdict));
    let columns = vec![
        words("strategy"),
        numbers("contenders", 0),
        words("figure"),
        numbers("base", 2),
        numbers("new", 2),
        numbers("new/base", 0),
        Column { spare: 1, ..words("interval") },
        numbers("reps", 3),
        words("verdict"),
    ];
    Table { columns, labels: 1, rows: rows.into_iter().map(row).collect() }
}

fn is_idle(row: &Row) -> bool {
    row.figure == "violations"
        && row.compared.verdict == ComparisonVerdict::Same
        && row.compared.why.is_none()
}

fn row(row: &Row) -> Vec<Value> {
    let compared = &row.compared;
    let scaled = |ratio: f64| on_scale(compared.scale, ratio);
    let interval = match (compared.method, compared.ratio) {
        (Some(Method::Exact), _) => "exact".into(),
        (_, Some(ratio)) if ratio.is_bounded() => {
            format!("{} to {}", scaled(ratio.low), scaled(ratio.high)).into()
        }
        _ => Value::NotMeasured,
    };
    let (was, is) = (compared.base.values.len(), compared.new.values.len());
    vec![
        row.cell.strategy.as_str().into(),
        Value::Count(row.cell.contenders as u64),
        row.figure.as_str().into(),
        value(&compared.base, row.measured_in).into(),
        value(&compared.new, row.measured_in).into(),
        Value::or_missing(compared.ratio, |ratio: Interval| scaled(ratio.value).into()),
        interval,
        if was == is { Value::Count(was as u64) } else { format!("{was}, {is}").into() },
        match row.role {
            Role::Decides => Value::from(compared.verdict),
            Role::Shown => format!("({})", compared.verdict).into(),
        },
    ]
}

/// What a ratio says: of shares that were lost, how many more of a hundred are.
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

/// A ratio; without an end where the base is 0.
pub(crate) fn times(ratio: f64) -> String {
    if ratio.is_infinite() { "∞".to_owned() } else { number(ratio) }
}

fn value(sample: &Sample, unit: Unit) -> String {
    let Some(median) = sample.median else { return NOT_MEASURED.to_owned() };
    if median.is_infinite() {
        return "grows".to_owned();
    }
    let text = unit.show(median);
    if sample.at_least { format!("≥ {text}") } else { text }
}

pub(crate) fn legend(compared: &Comparison) -> String {
    let unit = match compared.about {
        About::TheseRuns => {
            "Medians over the repetitions, which are the unit: it is said of these runs, as how much others would differ \
             was not measured. new/base: the median ratio over all pairs of repetitions (Hodges-Lehmann)"
        }
        About::SuchRuns => {
            "Medians over the repetitions; the runs are the unit. new/base: the median ratio over all pairs of the runs' \
             medians (Hodges-Lehmann)"
        }
    };
    let margins = compared.rows.iter().filter_map(|row| {
        let together = if row.strategies.is_empty() { "" } else { " together" };
        Some((format!("{}{together}", row.figure), row.compared.margin?))
    });
    format!(
        "{unit}, with its interval of {} at least. {} Regressed or improved: the interval widened for {} lies wholly \
         beyond the margin; the same: the interval lies within it. \
         exact: counts that the load determines. (In parentheses): only shown, not part of the answer.",
        percent(1.0 - compared.terms.alpha),
        super::margins(margins),
        counted(compared.family, "comparison", "comparisons"),
    )
}

pub(crate) fn faster(compared: &Comparison) -> Vec<String> {
    let mut said: Vec<String> =
        compared.faster.iter().map(|faster| format!("In the new, {}.", faster.sentence())).collect();
    if !said.is_empty() {
        said.push(
            "(Throughput, repetition by repetition; ± is half the interval of the ratio, not a deviation.)"
                .into(),
        );
    }
    said
}

pub(crate) fn notes(compared: &Comparison) -> Vec<String> {
    let mut notes = whys(compared);
    notes.extend(without_partner(compared));
    notes.extend(
        compared
            .differences
            .iter()
            .filter(|one| !one.meaningless)
            .map(|one| format!("differs: {}", one.describe())),
    );
    const MOST: usize = 6;
    notes.extend(compared.unsound.iter().take(MOST).map(|unsound| format!("does not count: {unsound}")));
    if let Some(more) = compared.unsound.len().checked_sub(MOST).filter(|more| *more > 0) {
        notes.push(format!("does not count: {more} more"));
    }
    notes.extend(left_out(&compared.left_out));
    notes
}

/// What is said of verdicts, once for all that it is said of.
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
    (!names.is_empty()).then(|| format!("only the new has: {}", some_of(&names)))
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
    let legend = format!(
        "spread: how far the repetitions lie apart (standard deviation); needed: about so many a side, so that the change is seen \
         with {} among {}. A change within a figure's margin fails nothing: lower --margin with it.",
        percent(power.seen),
        counted(power.family as u64, "comparison", "comparisons"),
    );
    let columns = vec![
        words("strategy"),
        numbers("contenders", 0),
        words("figure"),
        numbers("median", 2),
        numbers("spread", 1),
        numbers("reps", 1),
        numbers("needed", 0),
    ];
    let table = Table { columns, labels: 1, rows: power.rows.iter().map(power_row).collect() };
    [power_headline(power), String::new(), fitted(table, style).0, String::new(), legend].join("\n") + "\n"
}

fn power_headline(power: &Power) -> String {
    let change = percent(power.change);
    let most = power.rows.iter().filter_map(|row| row.repetitions).max();
    let open = power.rows.iter().filter(|row| row.repetitions.is_none()).count();
    if power.rows.iter().all(|row| row.spread.is_none()) {
        return "How far the repetitions lie apart is not known of one, nor where a queue grew: make more of them first.".into();
    }
    let Some(most) = most else {
        return format!("No number of repetitions up to 500 a side shows a change of {change}.");
    };
    let most = counted(most as u64, "repetition", "repetitions");
    let of = match open {
        0 => "in every figure".to_owned(),
        open => format!("in all but {}", counted(open as u64, "figure", "figures")),
    };
    format!("{most} a side show a change of {change} {of}.")
}

fn power_row(row: &PowerRow) -> Vec<Value> {
    let median = row.readings.median.filter(|median| median.is_finite());
    vec![
        row.cell.strategy.as_str().into(),
        Value::Count(row.cell.contenders as u64),
        row.figure.as_str().into(),
        Value::or_missing(median, |median| row.measured_in.show(median).into()),
        Value::or_missing(row.spread, Value::Share),
        Value::Count(row.readings.values.len() as u64),
        match (row.repetitions, row.spread) {
            (Some(count), _) => Value::Count(count as u64),
            (None, Some(_)) => "more than 500".into(),
            (None, None) => "not known".into(),
        },
    ]
}
