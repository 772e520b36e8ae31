//! A plan: question, verdicts, predictions for each strategy, and their verification.

use super::columns::{Columns, Grid};
use super::layout::Style;
use super::printed::Printed;
use crate::document::{Tone, Value};
use zklockbench_analysis::model::{Fit, Part, Predicted, Prediction};
use zklockbench_analysis::plan::{
    Answer, ByServers, Checked, CheckedFailure, FailureCost, FreshCost, Headroom, MapCell, MapChoice,
    MeasuredLoad, MeasuredRange, PlanFile, Sensitivity, Verification, most_promising,
};
use zklockbench_core::units::{a_day, capitalised, counted, format_micros, grouped, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{THROUGHPUT, WAIT_P50, WAIT_P99, WON_SHARE};

/// The outcome, the expected waits, and the answer for each strategy; with `--all`, also their basis.
pub fn plan(plan: &PlanFile, style: Style) -> String {
    let answers = plan.answers.iter().flat_map(|answer| {
        let sentence = format!("{}: {}.", answer.strategy, answer.sentence(&plan.question.objective));
        let costs = answer.failures.iter().filter_map(FailureCost::sentence);
        std::iter::once(sentence).chain(costs.map(move |cost| format!("{}: {cost}.", answer.strategy)))
    });
    let verified = plan.verifications.iter().map(|one| format!("Verified with {}", verified(one)));
    let noted = |note: String| format!("! {note}");
    let missing = missing(plan).into_iter().map(noted);
    let others = plan.caveats().into_iter().chain(left_out(plan)).chain(unverified(plan));
    let failed = plan.verifications.iter().flat_map(|one| one.notes.clone());
    let verifications = plan.verifications.iter().flat_map(|one| [Some(checked(one)), checked_failures(one)]);
    let tables = [by_servers(plan), waits(plan), ensemble(plan), fresh(plan), failures(plan), fits(plan)]
        .into_iter()
        .chain(verifications);
    let printed = Printed {
        outcome: headline(plan),
        tables: tables.flatten().collect(),
        remarks: verified.chain(answers).chain(missing).chain(others.chain(failed).map(noted)).collect(),
        basis: vec![capitalised(&plan.question.describe())],
        more: sensitivities(plan).into_iter().chain(plan.place().map(|place| format!("{place}."))).collect(),
        ..Printed::default()
    };
    printed.text(style)
}

/// The recommended lock and its predictions, or the reason why there is none. A contradicting verification comes first.
pub fn headline(plan: &PlanFile) -> String {
    doubt(plan).into_iter().chain([recommendation(plan)]).collect::<Vec<_>>().join(" ")
}

fn recommendation(plan: &PlanFile) -> String {
    match &plan.recommendation {
        Some(one) => one.sentence(&plan.answers, &plan.question.objective),
        None if plan.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Violated(_))) => {
            let why = most_promising(&plan.answers, &plan.question.objective);
            let why = why.and_then(|at| plan.answers[at].verdict.why()).unwrap_or_default();
            let locks =
                plan.answers.iter().filter_map(|answer| Some((answer.locks_needed?, &answer.strategy))).min();
            let instead = locks.map_or_else(
                || "hold for less time, request less often, or allow a longer wait".to_owned(),
                |(locks, strategy)| {
                    format!(
                        "spread the load over {locks} locks ({strategy}), hold for \
                    less time, or allow a longer wait"
                    )
                },
            );
            format!("NO: none of them meets {} ({why}): {instead}.", plan.question.objective.text)
        }
        None => {
            let why = most_promising(&plan.answers, &plan.question.objective);
            let why = why.and_then(|at| plan.answers[at].verdict.why()).unwrap_or_default();
            format!("UNKNOWN: none of them is known to meet {}: {why}.", plan.question.objective.text)
        }
    }
}

pub(crate) fn word(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Held => Value::verdict("yes", Tone::Good),
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

/// Maximum rate that meets the objective.
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

fn of_prediction(answer: &Answer, read: impl Fn(&Prediction) -> Value) -> Value {
    Value::or_missing(answer.prediction.as_ref(), read)
}

pub(crate) fn waits(plan: &PlanFile) -> Option<Grid> {
    let columns = Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .words("plan", |answer| word(&answer.verdict))
        .metric(&WON_SHARE, |answer| {
            let won = answer.prediction.as_ref().and_then(|one| one.won_share);
            Value::or_missing(won, |Predicted { low, middle, high }| {
                Value::Share(middle).between(Value::Share(low), Value::Share(high))
            })
        })
        .metric(&WAIT_P50, |answer| of_prediction(answer, |one| time(one.wait_p50)))
        .explained(
            "from requesting a lock to having it, with the 90 % interval for a trial of 20,000 arrivals: it covers chance \
             and what is not known about the service time",
        )
        .metric(&WAIT_P99, |answer| of_prediction(answer, |one| time(one.wait_p99)))
        .numbers("measured", move |answer| {
            let shown = |one: &MeasuredLoad| unit_value(plan, one.value).at_least(one.at_least);
            Value::or_missing(answer.measured.as_ref(), shown)
        })
        .spare(1)
        .explained("the objective's metric under your own load")
        .numbers("wait p99.9", |answer| of_prediction(answer, |one| time(one.wait_p999)))
        .spare(4)
        .numbers("p99 if holds vary", |answer| {
            Value::or_missing(answer.if_variable.as_ref(), |varied| time(varied.prediction.wait_p99))
        })
        .spare(5)
        .explained("with exponentially distributed holds, because only their mean is known")
        .numbers("throughput", |answer| of_prediction(answer, |one| rate(one.throughput)))
        .spare(3)
        .numbers("lock busy", |answer| of_prediction(answer, |one| Value::Share(one.utilisation.middle)))
        .spare(2)
        .explained("share of time in which a lock is held or being handed over")
        .numbers("limit", |answer| Value::or_missing(answer.headroom, room))
        .explained("the highest rate that meets the objective, with its 90 % interval")
        .numbers("locks needed", |answer| {
            Value::or_missing(answer.locks_needed, |locks| Value::Count(locks as u64))
        })
        .spare(1);
    let grid = columns.grid("Predictions for each lock", 1, &plan.answers).lean();
    is_predicted(plan).then_some(grid)
}

/// A value of the objective's metric.
fn unit_value(plan: &PlanFile, value: f64) -> Value {
    if plan.question.objective.figure == THROUGHPUT.figure() {
        Value::Rate(value)
    } else {
        Value::Duration(value)
    }
}

pub(crate) fn map(plan: &PlanFile) -> Option<Grid> {
    let grid = Columns::<&MapCell>::new()
        .numbers("requests", |cell| Value::Rate(cell.rate))
        .numbers("clients", |cell| Value::Count(cell.clients as u64))
        .words("take", |cell| match &cell.take {
            MapChoice::Lock { strategy, .. } => strategy.as_str().into(),
            MapChoice::None => Value::verdict("none", Tone::Bad),
            MapChoice::NotKnown => Value::verdict("not measured", Tone::Doubtful),
        })
        .explained(
            "the lock that meets the objective with the fewest locks and, of these, with the shortest wait",
        )
        .numbers("locks", |cell| match cell.take {
            MapChoice::Lock { locks, .. } => Value::Count(locks as u64),
            MapChoice::None | MapChoice::NotKnown => Value::NotMeasured,
        })
        .numbers("wait", |cell| match cell.take {
            MapChoice::Lock { wait_us, .. } => Value::Duration(wait_us),
            MapChoice::None | MapChoice::NotKnown => Value::NotMeasured,
        })
        .explained("about how long, by the objective's metric")
        .grid("What to use at other rates", 1, &plan.map)
        .noted("From the same measurements.");
    (!grid.is_empty()).then_some(grid)
}

fn is_predicted(plan: &PlanFile) -> bool {
    plan.answers.iter().any(|answer| answer.prediction.is_some())
}

pub(crate) fn ensemble(plan: &PlanFile) -> Option<Grid> {
    let or_not = |value: Option<Value>| value.unwrap_or_else(|| "not measured".into());
    let columns = Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .numbers("sessions", |answer| of_prediction(answer, |one| Value::Amount(one.sessions.high)))
        .explained("maximum in use at once, in 19 of 20 simulations")
        .numbers("waiting", |answer| of_prediction(answer, |one| Value::Amount(one.waiting.middle)))
        .explained("for a lock, at a time, on average")
        .numbers("watches", |answer| Value::or_missing(answer.watches, Value::Amount))
        .spare(1)
        .numbers("requests", |answer| Value::or_missing(answer.requests_per_s, Value::Rate))
        .numbers("ensemble busy", move |answer| or_not(answer.ensemble_utilisation.map(Value::Share)))
        .explained("the share of its write capacity that is used")
        .numbers("server down", move |answer| or_not(answer.outage_us.map(|us| Value::Duration(us as f64))))
        .explained("the longest time that a wanted lock was not acquired, when a server failed")
        .numbers("wait p99 then", move |answer| {
            or_not(answer.outage_wait.map(|wait| Value::Duration(wait.us as f64).at_least(wait.at_least)))
        })
        .explained("of all requests around that time");
    let grid = columns.grid("Load on the ensemble", 1, &plan.answers);
    is_predicted(plan).then_some(grid)
}

/// Cost of a lock per request.
pub(crate) fn fresh(plan: &PlanFile) -> Option<Grid> {
    let grid = Columns::<&FreshCost>::new()
        .words("strategy", |cost| cost.strategy.as_str())
        .numbers("acquire p50", |cost| Value::or_missing(cost.acquire_p50_us, Value::Duration))
        .explained("with the creation of missing directories")
        .numbers("requests/acq", |cost| Value::or_missing(cost.requests, Value::Amount))
        .numbers("nodes left/acq", |cost| Value::or_missing(cost.nodes_left, Value::Amount))
        .explained("persistent nodes that stay on the ensemble")
        .numbers("nodes a day", |cost| {
            Value::or_missing(cost.nodes_a_day, |nodes| a_day(nodes / 86_400.0).into())
        })
        .explained("growth at your rate")
        .grid("A lock per request", 1, &plan.fresh);
    (!grid.is_empty()).then_some(grid)
}

pub(crate) fn failures(plan: &PlanFile) -> Option<Grid> {
    let rows = plan.answers.iter().flat_map(|one| one.failures.iter().map(move |cost| (one, cost)));
    let grid = Columns::<(&Answer, &FailureCost)>::new()
        .words("strategy", |(answer, _)| answer.strategy.as_str())
        .words("failure", |(_, cost)| cost.fault.as_str())
        .numbers("times", |(_, cost)| Value::Count(cost.times as u64))
        .spare(3)
        .numbers("no lock for", |(_, cost)| Value::or_missing(cost.gap, measured))
        .explained("the longest time that a wanted lock was not acquired")
        .numbers("requests", |(_, cost)| Value::or_missing(cost.requests, Value::Amount))
        .explained("those of your load that arrive each time until the queue is as short as before")
        .numbers("sessions lost", |(_, cost)| Value::or_missing(cost.sessions_lost, Value::Amount))
        .explained("sessions that end each time, excluding that of a killed client")
        .numbers("usual wait", |(_, cost)| Value::or_missing(cost.usual_wait_us, Value::Duration))
        .spare(2)
        .numbers("wait then", |(_, cost)| Value::or_missing(cost.wait_mean, measured))
        .explained("of these requests")
        .numbers("p99 then", |(_, cost)| Value::or_missing(cost.wait_p99, measured))
        .numbers("drained after", |(_, cost)| match cost.not_drained {
            0 => Value::or_missing(cost.drained, measured),
            _ => Value::verdict("not in time", Tone::Bad),
        })
        .spare(2)
        .explained("how long that takes once the lock is acquired again")
        .numbers("of a year", |(_, cost)| {
            Value::or_missing(cost.yearly_share(plan.question.rate), Value::Share)
        })
        .spare(1)
        .explained("the share of its requests that are delayed if it happens once a week")
        .words("meanwhile", |(_, cost)| Value::or_missing(cost.meanwhile.as_ref(), word))
        .explained("whether the objective is met after that, while the server is still missing")
        .grid("What failures cost", 1, rows)
        .noted(format!("Medians, with minimum and maximum.{}", granted(plan)))
        .lean();
    (!grid.is_empty()).then_some(grid)
}

pub(crate) fn by_servers(plan: &PlanFile) -> Option<Grid> {
    let duration = |us: Option<u64>| Value::or_missing(us, |us| Value::Duration(us as f64));
    let grid = Columns::<&ByServers>::new()
        .numbers("servers", |row| Value::Count(row.servers as u64))
        .words("plan", |row| word(&row.verdict))
        .numbers("wait", |row| Value::or_missing(row.wait, time))
        .explained("the objective's wait, or else the 99th percentile, with the 90 % interval")
        .numbers("limit", |row| Value::or_missing(row.headroom, room))
        .explained("the highest rate that meets the objective, with its 90 % interval")
        .numbers("a write", move |row| duration(row.write_us))
        .explained("a synced write through the leader without other load, the median")
        .numbers("writes at most", |row| Value::or_missing(row.writes_per_s, Value::Rate))
        .spare(1)
        .numbers("leader killed", move |row| duration(row.outage_us))
        .explained("the longest time without an acquisition; the death of a single server stops every lock until it is restarted")
        .grid("How many servers", 1, &plan.by_servers);
    let strategy = plan.by_servers.first().map(|row| row.strategy.as_str()).unwrap_or_default();
    (!grid.is_empty()).then(|| grid.noted(format!("With {strategy}, all servers on one host.")))
}

/// The session timeout behind the failures, as a sentence.
fn granted(plan: &PlanFile) -> String {
    let all = plan.answers.iter().flat_map(|answer| &answer.failures).map(|cost| cost.granted_us);
    match all.max().unwrap_or(0) {
        0 => String::new(),
        us => format!(" Session timeout granted: {}.", format_micros(us)),
    }
}

pub(super) fn measured(range: MeasuredRange) -> Value {
    let MeasuredRange { least_us, median_us, most_us, at_least } = range;
    let [least, most] = [least_us, most_us].map(|us| Value::Duration(us as f64));
    match least_us == most_us {
        true => Value::Duration(median_us).at_least(at_least),
        false => Value::Duration(median_us).between(least, most.at_least(at_least)),
    }
}

pub(crate) fn fits(plan: &PlanFile) -> Option<Grid> {
    let of = |answer: &Answer, read: &dyn Fn(&Fit) -> Value| Value::or_missing(answer.fit.as_ref(), read);
    let range =
        |from: f64, to: f64, unit: &str| Value::from(format!("{} to {}{unit}", number(from), number(to)));
    let grid = Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .numbers("first", move |answer| of(answer, &|fit| part(fit.first)))
        .numbers("more", move |answer| of(answer, &|fit| Value::or_missing(fit.each_more, part)))
        .numbers("load", move |answer| of(answer, &|fit| Value::or_missing(fit.by_rate, part)))
        .numbers("off", move |answer| of(answer, &|fit| Value::Share(fit.spread)))
        .explained("how far trials lie from it (standard deviation)")
        .numbers("trials", move |answer| of(answer, &|fit| Value::Count(fit.residuals.len() as u64)))
        .numbers("measured at", move |answer| {
            of(answer, &|fit| range(fit.range.rate_from, fit.range.rate_to, "/s"))
        })
        .spare(1)
        .numbers("waiting", move |answer| {
            of(answer, &|fit| range(fit.range.waiting_from, fit.range.waiting_to, ""))
        })
        .spare(2)
        .grid("What it was predicted from", 1, &plan.answers)
        .noted(
            "handoff = first + more × (waiting − 1) + load × acquisitions a second, fitted over trials. ±: standard error. \
             Missing: not significantly different from zero.",
        );
    plan.answers.iter().any(|answer| answer.fit.is_some()).then_some(grid)
}

fn part(part: Part) -> Value {
    format!("{} ± {} µs", number(part.us), number(part.error_us)).into()
}

/// The objective's metric with longer or shorter services, for each strategy.
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

/// Unknown facts, once each, with the affected strategies unless all are.
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

/// The strategy and load of a verification, and whether it met the objective.
pub(crate) fn verified(one: &Verification) -> String {
    let agrees =
        one.agrees.map_or("", |agrees| if agrees { ", as predicted" } else { ", which was not predicted" });
    format!(
        "{}: {} at {}/s over {}; {}{agrees}.",
        one.strategy,
        counted(one.arrivals, "arrival", "arrivals"),
        number(one.rate),
        counted(one.locks as u64, "lock", "locks"),
        match one.verdict() {
            Verdict::Held => "the objective was met".to_owned(),
            Verdict::Violated(_) if one.held => format!("it failed: {}", why(&one.verdict())),
            Verdict::Violated(_) => "the objective was missed".to_owned(),
            Verdict::Unknown(_) => format!("that shows nothing: {}", why(&one.verdict())),
        },
    )
}

fn why(verdict: &Verdict) -> String {
    verdict.why().unwrap_or_default()
}

/// Verifications that did not take place, each as a sentence.
pub(crate) fn unverified(plan: &PlanFile) -> Vec<String> {
    plan.unverified.iter().map(|one| format!("{} was not verified: {}", one.strategy, one.why)).collect()
}

/// Warning that the verification does not confirm a recommendation; `None` if it does.
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

pub(crate) fn checked(one: &Verification) -> Grid {
    let is_rate = |figure: &Checked| figure.figure == THROUGHPUT.card.name;
    let show = move |figure: &Checked, value| {
        if is_rate(figure) { Value::Rate(value) } else { Value::Duration(value) }
    };
    Columns::<&Checked>::new()
        .words("metric", |figure| figure.figure.as_str())
        .numbers(
            "predicted",
            move |figure| {
                if is_rate(figure) { rate(figure.predicted) } else { time(figure.predicted) }
            },
        )
        .numbers("measured", move |figure| show(figure, figure.measured).at_least(figure.at_least))
        .words("interval", |figure| {
            if figure.at_least && figure.measured <= figure.predicted.high {
                Value::verdict("not known", Tone::Doubtful)
            } else {
                told(figure.inside, "inside", "OUTSIDE")
            }
        })
        .numbers("by its own service", move |figure| show(figure, figure.by_observed_service))
        .explained("the simulation with the handoffs of the verifying trial itself")
        .words("within 15 %", |figure| told(figure.reproduced, "yes", "NO"))
        .grid("Predicted and measured", 1, &one.figures)
}

pub(crate) fn checked_failures(one: &Verification) -> Option<Grid> {
    let grid = Columns::<&CheckedFailure>::new()
        .words("failure", |failure| failure.fault.as_str())
        .numbers("times", |failure| Value::Count(failure.times as u64))
        .numbers("p99 predicted", |failure| measured(failure.predicted))
        .explained("of the waits of requests that arrived around a failure, on restarted servers")
        .numbers("p99 measured", |failure| measured(failure.measured))
        .words("within 30 %", |failure| {
            let unknown = || Value::verdict("not known", Tone::Doubtful);
            failure.reproduced.map_or_else(unknown, |is_so| told(is_so, "yes", "NO"))
        })
        .grid("Failures, predicted and measured", 1, &one.failures)
        .noted("Medians, with minimum and maximum.");
    (!grid.is_empty()).then_some(grid)
}
