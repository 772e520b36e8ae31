//! A plan: question, verdicts, what is expected of each strategy, and how it was verified.

use super::layout::fitted;
use super::{ExplainedTable, Style, Table, numbers, words};
use crate::document::{Column, Tone, Value};
use zklockbench_analysis::model::{Fit, Part, Predicted, Prediction};
use zklockbench_analysis::plan::{
    Answer, Checked, CheckedFailure, FailureCost, Headroom, MapCell, MapChoice, MeasuredRange, PlanFile,
    Sensitivity, Verification,
};
use zklockbench_core::units::{capitalised, counted, grouped, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::THROUGHPUT;

/// The answer in words, tables of what it rests on, and what is missing.
pub fn plan(plan: &PlanFile, style: Style) -> String {
    let mut said = vec![headline(plan), String::new(), capitalised(&plan.question.describe()), String::new()];
    for answer in &plan.answers {
        said.push(format!("{}: {}.", answer.strategy, answer.sentence(&plan.question.objective)));
        said.extend(
            answer.failures.iter().filter_map(FailureCost::sentence).map(|cost| format!("  {cost}.")),
        );
    }
    said.push(String::new());
    let tables = [waits(plan), ensemble(plan), failures(plan), fits(plan)];
    let laid_out = |ExplainedTable { table, legend, .. }| [fitted(table, style).0, String::new(), legend];
    for one in tables.into_iter().flatten() {
        said.extend(laid_out(one));
        said.push(String::new());
    }
    said.extend(sensitivities(plan));
    said.extend(plan.place().map(|place| format!("{place}.")));
    let notes = plan.caveats().into_iter().chain(missing(plan)).chain(left_out(plan));
    said.extend(notes.map(|note| format!("! {note}")));
    said.extend(unverified(plan).into_iter().map(|note| format!("! {note}")));
    for one in &plan.verifications {
        said.extend([String::new(), format!("Verified with {}", verified(one)), String::new()]);
        said.extend(laid_out(checked(one)));
        if let Some(failures) = checked_failures(one) {
            said.push(String::new());
            said.extend(laid_out(failures));
        }
        said.extend(one.notes.iter().map(|note| format!("! {note}")));
    }
    said.join("\n") + "\n"
}

/// Which lock to take and what is expected of it, or why there is none; first what a verification has against it.
pub fn headline(plan: &PlanFile) -> String {
    doubt(plan).into_iter().chain([recommendation(plan)]).collect::<Vec<_>>().join(" ")
}

fn recommendation(plan: &PlanFile) -> String {
    match &plan.recommendation {
        Some(one) => one.sentence(&plan.answers, &plan.question.objective),
        None if plan.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Violated(_))) => {
            let locks =
                plan.answers.iter().filter_map(|answer| Some((answer.locks_needed?, &answer.strategy))).min();
            let instead = locks.map_or_else(
                || "hold for less, ask for less, or allow a longer wait".to_owned(),
                |(locks, strategy)| format!("spread the load over {locks} locks ({strategy}), hold for less, or allow a longer wait"),
            );
            format!("NO: none of them holds {}: {instead}.", plan.question.objective.text)
        }
        None => format!(
            "UNKNOWN: none of them is known to hold {}: see why below, and measure that.",
            plan.question.objective.text
        ),
    }
}

pub(crate) fn word(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Held => Value::verdict("holds", Tone::Good),
        Verdict::Violated(_) => Value::verdict("NO", Tone::Bad),
        Verdict::Unknown(_) => Value::verdict("unknown", Tone::Doubtful),
    }
}

fn time(Predicted { low, middle, high }: Predicted) -> Value {
    Value::Duration(middle).between(Value::Duration(low), Value::Duration(high))
}

fn rate(Predicted { low, middle, high }: Predicted) -> Value {
    Value::Rate(middle).between(Value::Amount(low), Value::Amount(high))
}

/// Up to which rate the objective holds.
fn room(room: Headroom) -> Value {
    if let Some(clients) = room.clients {
        return Value::Text(format!("{clients} clients")).at_least(room.at_least);
    }
    let rate = Value::Rate(room.rate).at_least(room.at_least);
    match (room.low, room.high) {
        (Some(low), Some(high)) => rate.between(Value::Amount(low), Value::Amount(high)),
        _ => rate,
    }
}

fn table(columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Table {
    Table { columns, labels: 1, rows }
}

pub(crate) fn waits(plan: &PlanFile) -> Option<ExplainedTable> {
    let row = |answer: &Answer| {
        let of = |read: fn(&Prediction) -> Value| Value::or_missing(answer.prediction.as_ref(), read);
        vec![
            answer.strategy.as_str().into(),
            word(&answer.verdict),
            of(|one| time(one.wait_p50)),
            of(|one| time(one.wait_p99)),
            of(|one| time(one.wait_p999)),
            Value::or_missing(answer.if_variable.as_ref(), |varied| time(varied.prediction.wait_p99)),
            of(|one| rate(one.throughput)),
            of(|one| Value::Share(one.utilisation.middle)),
            Value::or_missing(answer.headroom, room),
            Value::or_missing(answer.locks_needed, |locks| Value::Count(locks as u64)),
        ]
    };
    let columns = vec![
        words("strategy"),
        words("plan"),
        numbers("wait p50", 0),
        numbers("wait p99", 0),
        numbers("wait p99.9", 2),
        numbers("p99 if holds vary", 1),
        numbers("throughput", 2),
        numbers("lock busy", 0),
        numbers("room", 0),
        numbers("locks needed", 3),
    ];
    is_predicted(plan).then(|| ExplainedTable::new(
        "What is expected of each lock",
        table(columns, plan.answers.iter().map(row).collect()).without_idle_columns(),
        "wait: from requesting a lock to having it, with the 90 % interval for a trial of 20,000 arrivals: it covers \
         chance and what is not known about the service time. lock busy: share of time in which a lock is held or \
         being handed over. p99 if holds vary: as an exponential's do, as only their mean is known. room: the highest rate that meets the objective, with \
         its 90 % interval.",
    ))
}

pub(crate) fn map(plan: &PlanFile) -> Option<ExplainedTable> {
    let row = |cell: &MapCell| {
        let take: [Value; 3] = match &cell.take {
            MapChoice::Lock { strategy, locks, wait_us } => {
                [strategy.as_str().into(), Value::Count(*locks as u64), Value::Duration(*wait_us)]
            }
            MapChoice::None => [Value::verdict("none", Tone::Bad), Value::NotMeasured, Value::NotMeasured],
            MapChoice::NotKnown => {
                [Value::verdict("not measured", Tone::Doubtful), Value::NotMeasured, Value::NotMeasured]
            }
        };
        [Value::Rate(cell.rate), Value::Count(cell.clients as u64)].into_iter().chain(take).collect()
    };
    let columns = vec![
        numbers("requests", 0),
        numbers("clients", 0),
        words("take"),
        numbers("locks", 0),
        numbers("wait", 0),
    ];
    (!plan.map.is_empty()).then(|| ExplainedTable::new(
        "What to take at other rates",
        table(columns, plan.map.iter().map(row).collect()),
        "take: the lock that keeps the objective over the fewest locks and, of these, with the shortest wait. wait: about \
         how long, by the objective's figure. From the same measurements.",
    ))
}

fn is_predicted(plan: &PlanFile) -> bool {
    plan.answers.iter().any(|answer| answer.prediction.is_some())
}

pub(crate) fn ensemble(plan: &PlanFile) -> Option<ExplainedTable> {
    let row = |answer: &Answer| {
        let of = |read: fn(&Prediction) -> f64| {
            Value::or_missing(answer.prediction.as_ref(), |one| Value::Amount(read(one)))
        };
        let or_not = |value: Option<Value>| value.unwrap_or_else(|| "not measured".into());
        vec![
            answer.strategy.as_str().into(),
            of(|one| one.sessions.high),
            of(|one| one.waiting.middle),
            Value::or_missing(answer.watches, Value::Amount),
            Value::or_missing(answer.requests_per_s, Value::Rate),
            or_not(answer.ensemble_utilisation.map(Value::Share)),
            or_not(answer.outage_us.map(|us| Value::Duration(us as f64))),
            or_not(answer.outage_wait.map(|wait| Value::Duration(wait.us as f64).at_least(wait.at_least))),
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
        numbers("wait p99 then", 0),
    ];
    is_predicted(plan).then(|| ExplainedTable::new(
        "Load on the ensemble",
        table(columns, plan.answers.iter().map(row).collect()),
        "sessions: the most in use at a time, in 19 of 20 simulations. waiting: for a lock, at a time, on average. \
         server down: the longest time that nobody acquired a lock that somebody wanted, when a server failed. wait p99 then: of \
         all who came around that time. ensemble busy: the \
         share of its write capacity that is used.",
    ))
}

pub(crate) fn failures(plan: &PlanFile) -> Option<ExplainedTable> {
    let row = |answer: &Answer, cost: &FailureCost| {
        vec![
            answer.strategy.as_str().into(),
            cost.fault.as_str().into(),
            Value::Count(cost.times as u64),
            Value::or_missing(cost.gap, measured),
            Value::or_missing(cost.requests, Value::Amount),
            Value::or_missing(cost.usual_wait_us, Value::Duration),
            Value::or_missing(cost.wait_mean, measured),
            Value::or_missing(cost.wait_p99, measured),
            match cost.not_drained {
                0 => Value::or_missing(cost.drained, measured),
                _ => Value::verdict("not in time", Tone::Bad),
            },
            Value::or_missing(cost.yearly_share(plan.question.rate), Value::Share),
            Value::or_missing(cost.meanwhile.as_ref(), word),
        ]
    };
    let rows: Vec<Vec<Value>> =
        plan.answers.iter().flat_map(|one| one.failures.iter().map(move |cost| row(one, cost))).collect();
    let columns = vec![
        words("strategy"),
        words("failure"),
        numbers("times", 3),
        numbers("no lock for", 0),
        numbers("requests", 0),
        numbers("usual wait", 2),
        numbers("wait then", 0),
        numbers("p99 then", 0),
        numbers("drained after", 2),
        numbers("of a year", 1),
        words("meanwhile"),
    ];
    (!rows.is_empty()).then(|| ExplainedTable::new(
        "What failures cost",
        table(columns, rows).without_idle_columns(),
        "Medians over the times, with the least and the most. no lock for: the longest time that nobody acquired a lock \
         that somebody wanted. requests: of your load, those that come each time until the queue is as short as before; \
         wait then, p99 then: how long they wait. drained after: how long that takes once the lock is acquired again. of a \
         year: the share of its requests that are delayed if it happens once a week. meanwhile: whether the objective \
         holds after that, while the server is still missing.",
    ))
}

fn measured(range: MeasuredRange) -> Value {
    let MeasuredRange { least_us, median_us, most_us, at_least } = range;
    let [least, most] = [least_us, most_us].map(|us| Value::Duration(us as f64));
    match least_us == most_us {
        true => Value::Duration(median_us).at_least(at_least),
        false => Value::Duration(median_us).between(least, most.at_least(at_least)),
    }
}

pub(crate) fn fits(plan: &PlanFile) -> Option<ExplainedTable> {
    let row = |answer: &Answer| {
        let of = |read: fn(&Fit) -> Value| Value::or_missing(answer.fit.as_ref(), read);
        vec![
            answer.strategy.as_str().into(),
            of(|fit| part(fit.first)),
            of(|fit| Value::or_missing(fit.each_more, part)),
            of(|fit| Value::or_missing(fit.by_rate, part)),
            of(|fit| Value::Share(fit.spread)),
            of(|fit| Value::Count(fit.residuals.len() as u64)),
            of(|fit| format!("{} to {}/s", number(fit.range.rate_from), number(fit.range.rate_to)).into()),
            of(|fit| {
                format!("{} to {}", number(fit.range.waiting_from), number(fit.range.waiting_to)).into()
            }),
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
    plan.answers.iter().any(|answer| answer.fit.is_some()).then(|| ExplainedTable::new(
        "What it was predicted from",
        table(columns, plan.answers.iter().map(row).collect()),
        "handoff = first + more × (waiting − 1) + load × acquisitions a second, fitted over trials; ±: standard error; \
         -: not significantly different from zero. off: how far trials lie from it (standard deviation).",
    ))
}

fn part(part: Part) -> Value {
    format!("{} ± {} µs", number(part.us), number(part.error_us)).into()
}

/// What the objective's figure would be if services took longer or less, for each strategy.
pub(crate) fn sensitivities(plan: &PlanFile) -> Vec<String> {
    let figure = plan.question.objective.figure;
    let one = |one: &Sensitivity| {
        let change = format!("{:+.0} %", 100.0 * (one.service - 1.0));
        format!("{change}: {}{}", figure.unit().show(one.value), if one.holds { "" } else { " (breaks)" })
    };
    let of = |answer: &Answer| {
        let all: Vec<String> = answer.sensitivity.iter().map(one).collect();
        format!("{}: {figure} if holds and handoffs took longer or less: {}", answer.strategy, all.join(", "))
    };
    plan.answers.iter().filter(|answer| !answer.sensitivity.is_empty()).map(of).collect()
}

/// What is not known, each once, with whose it is where it is not all's.
pub(crate) fn missing(plan: &PlanFile) -> Vec<String> {
    let all = plan.answers.iter().flat_map(|answer| {
        answer.missing.iter().map(move |missing| (missing.as_str(), answer.strategy.as_str()))
    });
    let said = |(text, of): (&str, Vec<&str>)| match of.len() == plan.answers.len() {
        true => format!("not known: {text}"),
        false => format!("not known of {}: {text}", of.join(", ")),
    };
    grouped(all).into_iter().map(said).collect()
}

pub(crate) fn left_out(plan: &PlanFile) -> Vec<String> {
    plan.left_out.iter().map(|left| format!("left out: {left}")).collect()
}

/// With which strategy which load was tried, and whether the objective held.
pub(crate) fn verified(one: &Verification) -> String {
    format!(
        "{}: {} at {}/s over {}; {}.",
        one.strategy,
        counted(one.arrivals, "arrival", "arrivals"),
        number(one.rate),
        counted(one.locks as u64, "lock", "locks"),
        match one.verdict() {
            Verdict::Held => "the objective held".to_owned(),
            Verdict::Violated(_) if one.held => format!("it failed: {}", why(&one.verdict())),
            Verdict::Violated(_) => "the objective did not hold".to_owned(),
            Verdict::Unknown(_) => format!("that shows nothing: {}", why(&one.verdict())),
        },
    )
}

fn why(verdict: &Verdict) -> String {
    verdict.why().unwrap_or_default()
}

/// What was to be tried and was not, each in a sentence without a full stop.
pub(crate) fn unverified(plan: &PlanFile) -> Vec<String> {
    plan.unverified.iter().map(|one| format!("{} was not verified: {}", one.strategy, one.why)).collect()
}

/// That the plan does not hold although a strategy is recommended; `None` where it does.
fn doubt(plan: &PlanFile) -> Option<String> {
    let verdict = plan.verdict();
    plan.recommendation.as_ref().filter(|_| verdict != Verdict::Held)?;
    let alarm = if matches!(verdict, Verdict::Violated(_)) { "FAILED" } else { "UNKNOWN" };
    Some(format!("{alarm}: the verification does not confirm it: {}.", why(&verdict)))
}

fn told(is_so: bool, good: &str, bad: &str) -> Value {
    match is_so {
        true => Value::verdict(good, Tone::Good),
        false => Value::verdict(bad, Tone::Bad),
    }
}

pub(crate) fn checked(one: &Verification) -> ExplainedTable {
    let row = |figure: &Checked| {
        let is_rate = figure.figure == THROUGHPUT.card.name;
        let (show, predicted): (fn(f64) -> Value, Value) = match is_rate {
            true => (Value::Rate, rate(figure.predicted)),
            false => (Value::Duration, time(figure.predicted)),
        };
        vec![
            figure.figure.as_str().into(),
            predicted,
            show(figure.measured).at_least(figure.at_least),
            if figure.at_least && figure.measured <= figure.predicted.high {
                Value::verdict("not known", Tone::Doubtful)
            } else {
                told(figure.inside, "inside", "OUTSIDE")
            },
            show(figure.by_observed_service),
            told(figure.reproduced, "yes", "NO"),
        ]
    };
    let columns = vec![
        words("figure"),
        numbers("predicted", 0),
        numbers("measured", 0),
        words("interval"),
        numbers("by its own service", 0),
        words("within 15 %"),
    ];
    ExplainedTable::new(
        "Predicted and measured",
        table(columns, one.figures.iter().map(row).collect()),
        "by its own service: the simulation with the handoffs of the verifying trial itself.",
    )
}

pub(crate) fn checked_failures(one: &Verification) -> Option<ExplainedTable> {
    let row = |failure: &CheckedFailure| {
        vec![
            failure.fault.as_str().into(),
            Value::Count(failure.times as u64),
            measured(failure.predicted),
            measured(failure.measured),
            failure.reproduced.map_or_else(
                || Value::verdict("not known", Tone::Doubtful),
                |is_so| told(is_so, "yes", "NO"),
            ),
        ]
    };
    let columns = vec![
        words("failure"),
        numbers("times", 0),
        numbers("p99 predicted", 0),
        numbers("p99 measured", 0),
        words("within 30 %"),
    ];
    (!one.failures.is_empty()).then(|| ExplainedTable::new(
        "Failures, predicted and measured",
        table(columns, one.failures.iter().map(row).collect()),
        "p99: of the waits of those that came around a failure, on servers started anew. Medians over the times, with \
         the least and the most.",
    ))
}
