//! A plan: question, verdicts, what is expected of each strategy, and how it was verified.

use super::terminal::fitted;
use super::{NOT_MEASURED, Style, Table, numbers, words};
use crate::model::Interval;
use crate::plan::{Answer, PlanFile, Verification};
use crate::units::{capitalised, counted, format_micros, number};
use crate::verdict::Verdict;

/// The answer in words, tables of what it rests on, and what is missing.
pub fn plan(plan: &PlanFile, style: Style) -> String {
    let mut said = vec![capitalised(&plan.question.describe()), String::new()];
    for answer in &plan.answers {
        said.push(format!("{}: {}.", answer.strategy, answer.sentence()));
    }
    said.extend([String::new(), recommendation(plan), String::new()]);
    if plan.answers.iter().any(|answer| answer.prediction.is_some()) {
        said.extend([fitted(waits(plan), style).0, String::new(), WAITS.to_owned(), String::new()]);
        said.extend([fitted(ensemble(plan), style).0, String::new(), ENSEMBLE.to_owned(), String::new()]);
    }
    if plan.answers.iter().any(|answer| answer.fit.is_some()) {
        said.extend([fitted(fits(plan), style).0, String::new(), FITS.to_owned(), String::new()]);
    }
    said.extend(
        plan.answers
            .iter()
            .filter(|answer| !answer.sensitivity.is_empty())
            .map(|answer| sensitivity(plan, answer)),
    );
    said.extend(missing(plan));
    for verification in &plan.verifications {
        said.extend(verified(verification, style));
    }
    said.join("\n") + "\n"
}

const WAITS: &str = "wait: from asking for a lock to having it, with the 90 % interval of a trial of 20,000 arrivals: what is \
    not known of the service, and chance. lock busy: held or handed over. room: up to which rate the objective holds.";
const ENSEMBLE: &str = "sessions: the most in use at a time, in 19 of 20 simulations. waiting: for a lock, at a time, on average. \
    server down: the longest time without an acquisition that a failing server caused. ensemble busy: of its synced writes.";
const FITS: &str = "handoff = first + more × (waiting − 1) + load × acquisitions a second, fitted over trials; ±: standard \
    error; -: the trials do not tell it from nothing. off: how far trials lie from it (standard deviation).";

fn recommendation(plan: &PlanFile) -> String {
    match &plan.recommendation {
        Some(one) => format!("Recommended: {}, {}.", one.strategy, one.why),
        None if plan.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Violated(_))) => {
            let locks =
                plan.answers.iter().filter_map(|answer| Some((answer.locks_needed?, &answer.strategy))).min();
            let instead = locks.map_or_else(
                || "hold for less, ask for less, or allow a longer wait".to_owned(),
                |(locks, strategy)| format!("spread the load over {locks} locks ({strategy}), hold for less, or allow a longer wait"),
            );
            format!("None of them holds: {instead}.")
        }
        None => "None of them is known to hold: see why above, and measure that.".to_owned(),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "holds",
        Verdict::Violated(_) => "NO",
        Verdict::Unknown(_) => "unknown",
    }
}

fn time(interval: Interval) -> String {
    let of = |us: f64| format_micros(us.max(0.0).round() as u64);
    format!("{} ({} to {})", of(interval.middle), of(interval.low), of(interval.high))
}

fn amount(interval: Interval, unit: &str) -> String {
    let Interval { low, middle, high } = interval;
    format!("{}{unit} ({} to {})", number(middle), number(low), number(high))
}

fn percent(share: f64) -> String {
    format!("{} %", number(100.0 * share))
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOT_MEASURED.to_owned())
}

fn waits(plan: &PlanFile) -> Table {
    let row = |answer: &Answer| {
        let one = answer.prediction.as_ref();
        let room = answer.headroom.map(|room| {
            let at_least = if room.at_least { "≥ " } else { "" };
            format!("{at_least}{}/s", number(room.rate))
        });
        vec![
            answer.strategy.clone(),
            word(&answer.verdict).to_owned(),
            or_dash(one.map(|one| time(one.wait_p50))),
            or_dash(one.map(|one| time(one.wait_p99))),
            or_dash(one.map(|one| time(one.wait_p999))),
            or_dash(one.map(|one| amount(one.throughput, "/s"))),
            or_dash(one.map(|one| percent(one.utilisation.middle))),
            or_dash(room),
            or_dash(answer.locks_needed.map(|locks| locks.to_string())),
        ]
    };
    let columns = vec![
        words("strategy"),
        words("plan"),
        numbers("wait p50", 0),
        numbers("wait p99", 0),
        numbers("wait p99.9", 2),
        numbers("throughput", 1),
        numbers("lock busy", 0),
        numbers("room", 0),
        numbers("locks needed", 3),
    ];
    Table::of_texts(columns, 1, plan.answers.iter().map(row)).without_idle_columns()
}

fn ensemble(plan: &PlanFile) -> Table {
    let row = |answer: &Answer| {
        let one = answer.prediction.as_ref();
        vec![
            answer.strategy.clone(),
            or_dash(one.map(|one| number(one.sessions.high))),
            or_dash(one.map(|one| number(one.waiting.middle))),
            or_dash(answer.watches.map(number)),
            or_dash(answer.requests_per_s.map(|rate| format!("{}/s", number(rate)))),
            answer.ensemble_utilisation.map_or_else(|| "not measured".to_owned(), percent),
            answer.outage_us.map_or_else(|| "not measured".to_owned(), format_micros),
        ]
    };
    let columns = vec![
        words("strategy"),
        numbers("sessions", 0),
        numbers("waiting", 0),
        numbers("watches", 1),
        numbers("requests", 0),
        numbers("ensemble busy", 0),
        numbers("server down", 0),
    ];
    Table::of_texts(columns, 1, plan.answers.iter().map(row))
}

fn fits(plan: &PlanFile) -> Table {
    let part = |part: crate::model::Part| format!("{} ± {} µs", number(part.us), number(part.error_us));
    let row = |answer: &Answer| {
        let fit = answer.fit.as_ref();
        vec![
            answer.strategy.clone(),
            or_dash(fit.map(|fit| part(fit.first))),
            or_dash(fit.and_then(|fit| fit.each_more).map(part)),
            or_dash(fit.and_then(|fit| fit.by_rate).map(part)),
            or_dash(fit.map(|fit| percent(fit.spread))),
            or_dash(fit.map(|fit| fit.residuals.len().to_string())),
            or_dash(
                fit.map(|fit| format!("{} to {}/s", number(fit.range.rate_from), number(fit.range.rate_to))),
            ),
            or_dash(fit.map(|fit| {
                format!("{} to {}", number(fit.range.waiting_from), number(fit.range.waiting_to))
            })),
        ]
    };
    let columns = vec![
        words("strategy"),
        numbers("first", 0),
        numbers("more", 0),
        numbers("load", 0),
        numbers("off", 0),
        numbers("trials", 0),
        numbers("measured at", 1),
        numbers("waiting", 2),
    ];
    Table::of_texts(columns, 1, plan.answers.iter().map(row))
}

/// What the objective's figure would be if services took longer or less.
fn sensitivity(plan: &PlanFile, answer: &Answer) -> String {
    let figure = plan.question.objective.figure;
    let one = |one: &crate::plan::Sensitivity| {
        let change = format!("{:+.0} %", 100.0 * (one.service - 1.0));
        let value = match figure {
            crate::measure::Figure::Ratio(_) => format!("{}/s", number(one.value)),
            _ => format_micros(one.value.max(0.0) as u64),
        };
        format!("{change}: {value}{}", if one.holds { "" } else { " (breaks)" })
    };
    let all: Vec<String> = answer.sensitivity.iter().map(one).collect();
    format!("{}: {figure} if holds and handoffs took longer or less: {}", answer.strategy, all.join(", "))
}

/// What is missing, each once, with whose it is where it is not all's.
fn missing(plan: &PlanFile) -> Vec<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for answer in &plan.answers {
        for missing in &answer.missing {
            match all.iter_mut().find(|(text, _)| text == missing) {
                Some((_, of)) => of.push(&answer.strategy),
                None => all.push((missing, vec![&answer.strategy])),
            }
        }
    }
    let said = all.into_iter().map(|(text, of)| match of.len() == plan.answers.len() {
        true => format!("! not known: {text}"),
        false => format!("! not known of {}: {text}", of.join(", ")),
    });
    said.chain(plan.left_out.iter().map(|left| format!("! left out: {left}"))).collect()
}

fn verified(one: &Verification, style: Style) -> Vec<String> {
    let rows = one.figures.iter().map(|figure| {
        let is_rate = figure.figure == "throughput";
        let show = |value: f64| {
            if is_rate { format!("{}/s", number(value)) } else { format_micros(value.max(0.0) as u64) }
        };
        vec![
            figure.figure.clone(),
            if is_rate { amount(figure.predicted, "/s") } else { time(figure.predicted) },
            show(figure.measured),
            if figure.inside { "inside" } else { "OUTSIDE" }.to_owned(),
            show(figure.by_observed_service),
            if figure.reproduced { "yes" } else { "NO" }.to_owned(),
        ]
    });
    let columns = vec![
        words("figure"),
        numbers("predicted", 0),
        numbers("measured", 0),
        words("interval"),
        numbers("by its own service", 0),
        words("within 15 %"),
    ];
    let grid = Table::of_texts(columns, 1, rows);
    let kept = if one.held { "the objective held" } else { "the objective did not hold" };
    let mut said = vec![
        String::new(),
        format!(
            "Verified with {}: {} at {}/s over {}; {kept}.",
            one.strategy,
            counted(one.arrivals, "arrival", "arrivals"),
            number(one.rate),
            counted(one.locks as u64, "lock", "locks"),
        ),
        String::new(),
        fitted(grid, style).0,
        String::new(),
        "by its own service: the simulation with the handoffs of the verifying trial itself.".to_owned(),
    ];
    said.extend(one.notes.iter().map(|note| format!("! {note}")));
    said
}
