//! Renders a plan for a terminal and as a page: question, verdicts, predictions and their verification.

use super::document::{
    Axis, Block, Chart, ChartKind, Columns, Curve, Document, Ends, Finding, Guide, GuideCourse, Lines, Link,
    Mark, Marked, Table, Tone, Value, Weight,
};
use super::page::{fact, filled, noted, place, program, section, when};
use super::table::{Printed, Style};
use zklockbench_analysis::model::{Part, Predicted, Prediction};
use zklockbench_analysis::plan::{
    Answer, ByServers, Checked, CheckedFailure, CurvePoint, FailureCost, FreshCost, Headroom, MapCell,
    MapChoice, MeasuredRange, PlanFile, Question, Sensitivity, Verification, most_promising, wait_of,
};
use zklockbench_core::units::{
    a_day, as_a_word, capitalised, counted, format_micros, grouped, joined, number,
};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{THROUGHPUT, WAIT_P50, WAIT_P99, WON_SHARE};

/// Renders the outcome, the expected waits, and the answer for each strategy; with `--all`, also their basis.
pub fn plan(plan: &PlanFile, style: Style) -> String {
    let answers = plan.answers.iter().flat_map(|answer| {
        let sentence = format!("{}: {}.", answer.strategy, answer.sentence(&plan.question.objective));
        let costs = answer.failures.iter().filter_map(FailureCost::sentence);
        std::iter::once(sentence).chain(costs.map(move |cost| format!("{}: {cost}.", answer.strategy)))
    });
    let verified = plan.verifications.iter().map(|one| format!("Verified with {}", verified(one)));
    let failed = plan.verifications.iter().flat_map(|one| one.notes.clone());
    let doubts = [missing(plan), plan.caveats(), left_out(plan), unverified(plan)].concat().into_iter();
    let doubts = doubts.chain(failed).map(|note| format!("! {note}"));
    let verifications = plan.verifications.iter().flat_map(|one| [checked(one), checked_failures(one)]);
    let tables = [by_servers(plan), waits(plan), ensemble(plan), fresh(plan), failures(plan), fits(plan)];
    let printed = Printed {
        outcome: headline(plan),
        tables: tables.into_iter().chain(verifications).collect(),
        remarks: verified.chain(answers).chain(doubts).collect(),
        basis: vec![capitalised(&plan.question.describe())],
        more: sensitivities(plan).into_iter().chain(plan.place().map(|place| format!("{place}."))).collect(),
        ..Printed::default()
    };
    printed.text(style)
}

/// Returns the recommended lock and its predictions, or the reason why no lock is recommended, preceded by a
/// warning if the verification contradicts the recommendation.
pub fn headline(plan: &PlanFile) -> String {
    joined(doubt(plan).into_iter().chain([recommendation(plan)]), " ")
}

fn recommendation(plan: &PlanFile) -> String {
    let objective = &plan.question.objective;
    if let Some(one) = &plan.recommendation {
        return one.sentence(&plan.answers, objective);
    }
    let nearest = most_promising(&plan.answers, objective);
    let why = nearest.and_then(|at| plan.answers[at].verdict.why()).unwrap_or_default();
    if !plan.answers.iter().all(|answer| matches!(answer.verdict, Verdict::Violated(_))) {
        return format!("UNKNOWN: no strategy is known to meet {}: {why}.", objective.text);
    }
    let locks = plan.answers.iter().filter_map(|answer| Some((answer.locks_needed?, &answer.strategy))).min();
    let is_so = |limits: fn(&Answer, &Question) -> bool| {
        nearest.is_some_and(|at| limits(&plan.answers[at], &plan.question))
    };
    let less = "hold for less time, request less often, or allow a longer wait";
    let instead = match locks {
        Some((locks, strategy)) => format!(
            "spread the load over {locks} locks ({strategy}), hold for less time, or allow a longer wait"
        ),
        None if is_so(Answer::needs_longer_even_if_free) => {
            "even a free lock takes longer to acquire, so allow a longer wait".to_owned()
        }
        None if is_so(Answer::lacks_clients) => format!("use more clients, {less}"),
        None => less.to_owned(),
    };
    format!("NO: no strategy meets {} ({why}): {instead}.", objective.text)
}

fn word(verdict: &Verdict) -> Value {
    Value::worded(verdict, ["yes", "NO", "unknown"])
}

/// Returns a predicted value with its interval.
fn within(unit: fn(f64) -> Value, Predicted { low, middle, high }: Predicted) -> Value {
    unit(middle).between(unit(low), unit(high))
}

fn time(predicted: Predicted) -> Value {
    within(Value::Duration, predicted)
}

fn rate(Predicted { low, middle, high }: Predicted) -> Value {
    Value::Rate(middle).between(Value::Amount(low), Value::Amount(high))
}

/// Returns the maximum rate or number of clients that meets the objective.
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

fn of_prediction(answer: &Answer, read: impl Fn(&Prediction) -> Value) -> Option<Value> {
    answer.prediction.as_ref().map(read)
}

fn waits(plan: &PlanFile) -> Table {
    let is_rate = plan.question.objective.figure == THROUGHPUT.figure();
    let quantity = if is_rate { Value::Rate } else { Value::Duration };
    Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .words("plan", |answer| word(&answer.verdict))
        .metric(&WON_SHARE, |answer| Some(within(Value::Share, answer.prediction.as_ref()?.won_share?)))
        .metric(&WAIT_P50, |answer| of_prediction(answer, |one| time(one.wait_p50)))
        .explained(
            "from the request to the acquisition; the 90 % interval is for a trial of 20,000 arrivals and includes \
             the uncertainty of the service time",
        )
        .metric(&WAIT_P99, |answer| of_prediction(answer, |one| time(one.wait_p99)))
        .numbers("measured", 1, move |answer| {
            answer.measured.as_ref().map(|one| quantity(one.value).at_least(one.at_least))
        })
        .explained("the objective's metric under your own load")
        .numbers("wait p99.9", 4, |answer| of_prediction(answer, |one| time(one.wait_p999)))
        .numbers("p99 if holds vary", 5, |answer| Some(time(answer.if_variable.as_ref()?.prediction.wait_p99)))
        .explained("with exponentially distributed holds, because only their mean is known")
        .numbers("throughput", 3, |answer| of_prediction(answer, |one| rate(one.throughput)))
        .numbers("lock busy", 2, |answer| of_prediction(answer, |one| Value::Share(one.utilisation.middle)))
        .explained("share of the time that a lock is held or being handed over")
        .numbers("limit", 0, |answer| answer.headroom.map(room))
        .explained("the highest rate that meets the objective, with its 90 % interval")
        .numbers("locks needed", 1, |answer| answer.locks_needed)
        .table("Predictions for each lock", 1, &plan.answers)
        .lean()
        .shown_if(is_predicted(plan))
}

fn map(plan: &PlanFile) -> Table {
    let lock = |cell: &MapCell| match cell.take {
        MapChoice::Lock { locks, wait_us, .. } => Some((locks, Value::Duration(wait_us))),
        MapChoice::None | MapChoice::NotKnown => None,
    };
    Columns::<&MapCell>::new()
        .numbers("requests", 0, |cell| Value::Rate(cell.rate))
        .numbers("clients", 0, |cell| cell.clients)
        .words("take", |cell| match &cell.take {
            MapChoice::Lock { strategy, .. } => strategy.as_str().into(),
            MapChoice::None => Value::verdict("none", Tone::Bad),
            MapChoice::NotKnown => Value::verdict("not measured", Tone::Doubtful),
        })
        .explained(
            "the strategy that meets the objective with the fewest locks and, among equals, the shortest wait",
        )
        .numbers("locks", 0, move |cell| lock(cell).map(|(locks, _)| locks))
        .numbers("wait", 0, move |cell| lock(cell).map(|(_, wait)| wait))
        .explained("approximate value of the objective's metric")
        .table("What to use at other rates", 1, &plan.map)
        .noted("From the same measurements.")
}

fn is_predicted(plan: &PlanFile) -> bool {
    plan.answers.iter().any(|answer| answer.prediction.is_some())
}

fn ensemble(plan: &PlanFile) -> Table {
    let or_not = |value: Option<Value>| value.unwrap_or_else(|| "not measured".into());
    Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .numbers("sessions", 0, |answer| of_prediction(answer, |one| Value::Amount(one.sessions.high)))
        .explained("maximum in use at once, in 19 of 20 simulations")
        .numbers("waiting", 0, |answer| of_prediction(answer, |one| Value::Amount(one.waiting.middle)))
        .explained("average number of requests waiting for a lock")
        .numbers("watches", 1, |answer| answer.watches.map(Value::Amount))
        .numbers("requests", 0, |answer| answer.requests().map(Value::Rate))
        .numbers("ensemble busy", 0, move |answer| or_not(answer.ensemble_utilisation.map(Value::Share)))
        .explained("share of its write capacity in use")
        .numbers("outage", 0, move |answer| or_not(answer.outage_us.map(Value::micros)))
        .explained("longest time that a wanted lock was not acquired when a server failed")
        .numbers("wait p99 then", 0, move |answer| {
            or_not(answer.outage_wait.map(|wait| Value::micros(wait.us).at_least(wait.at_least)))
        })
        .explained("of all requests around that time")
        .table("Load on the ensemble", 1, &plan.answers)
        .shown_if(is_predicted(plan))
}

/// Returns the cost of using a new lock for each request.
fn fresh(plan: &PlanFile) -> Table {
    Columns::<&FreshCost>::new()
        .words("strategy", |cost| cost.strategy.as_str())
        .numbers("acquire p50", 0, |cost| cost.acquire_p50_us.map(Value::Duration))
        .explained("including the creation of missing directories")
        .numbers("requests/acq", 0, |cost| cost.requests.map(Value::Amount))
        .numbers("nodes left/acq", 0, |cost| cost.nodes_left.map(Value::Amount))
        .explained("persistent nodes that stay on the ensemble")
        .numbers("nodes a day", 0, |cost| cost.nodes_a_day.map(|nodes| a_day(nodes / 86_400.0)))
        .explained("growth at your rate")
        .table("A lock per request", 1, &plan.fresh)
}

fn failures(plan: &PlanFile) -> Table {
    let rows = plan.answers.iter().flat_map(|one| one.failures.iter().map(move |cost| (one, cost)));
    let longest = plan.answers.iter().flat_map(|answer| &answer.failures).map(|cost| cost.granted_us).max();
    let granted = longest.filter(|us| *us > 0).map(format_micros);
    let granted = granted.map_or_else(String::new, |us| format!(" Session timeout granted: {us}."));
    Columns::<(&Answer, &FailureCost)>::new()
        .words("strategy", |(answer, _)| answer.strategy.as_str())
        .words("failure", |(_, cost)| cost.fault.as_str())
        .numbers("times", 3, |(_, cost)| cost.times)
        .numbers("outage", 0, |(_, cost)| cost.gap.map(measured))
        .explained("the longest time that a wanted lock was not acquired")
        .numbers("requests", 0, |(_, cost)| cost.requests.map(Value::Amount))
        .explained("requests that arrive after each failure until the queue is as short as before")
        .numbers("sessions lost", 0, |(_, cost)| cost.sessions_lost.map(Value::Amount))
        .explained("sessions that end each time, excluding a killed client's")
        .numbers("usual wait", 2, |(_, cost)| cost.usual_wait_us.map(Value::Duration))
        .numbers("wait then", 0, |(_, cost)| cost.wait_mean.map(measured))
        .explained("of these requests")
        .numbers("p99 then", 0, |(_, cost)| cost.wait_p99.map(measured))
        .numbers("drained after", 2, |(_, cost)| match cost.not_drained {
            0 => cost.drained.map(measured).into(),
            _ => Value::verdict("not in time", Tone::Bad),
        })
        .explained("the time to drain the queue once the lock is acquired again")
        .numbers("of a year", 1, |(_, cost)| cost.yearly_share(plan.question.rate).map(Value::Share))
        .explained("share of a year's requests that are delayed if the failure happens once a week")
        .words("meanwhile", |(_, cost)| cost.meanwhile.as_ref().map(word))
        .explained("whether the objective is met after the outage, while the server is still down")
        .table("What failures cost", 1, rows)
        .noted(format!("Medians, with minimum and maximum.{granted}"))
        .lean()
}

fn by_servers(plan: &PlanFile) -> Table {
    let strategy = plan.by_servers.first().map(|row| row.strategy.as_str()).unwrap_or_default();
    Columns::<&ByServers>::new()
        .numbers("servers", 0, |row| row.servers)
        .words("plan", |row| word(&row.verdict))
        .numbers("wait", 0, |row| row.wait.map(time))
        .explained("the objective's wait, or else the 99th percentile, with the 90 % interval")
        .numbers("limit", 0, |row| row.headroom.map(room))
        .explained("the highest rate that meets the objective, with its 90 % interval")
        .numbers("a write", 0, |row| row.write_us.map(Value::micros))
        .explained("median of a synced write through the leader without other load")
        .numbers("writes at most", 1, |row| row.writes_per_s.map(Value::Rate))
        .numbers("leader killed", 0, |row| row.outage_us.map(Value::micros))
        .explained(
            "longest time without an acquisition; with a single server, every lock stops until it is restarted",
        )
        .table("How many servers", 1, &plan.by_servers)
        .noted(format!("With {strategy}, all servers on one host."))
}

pub(super) fn measured(range: MeasuredRange) -> Value {
    let MeasuredRange { least_us, median_us, most_us, at_least } = range;
    let [least, most] = [least_us, most_us].map(Value::micros);
    match least_us == most_us {
        true => Value::Duration(median_us).at_least(at_least),
        false => Value::Duration(median_us).between(least, most.at_least(at_least)),
    }
}

fn fits(plan: &PlanFile) -> Table {
    let range = |from: f64, to: f64, unit: &str| format!("{} to {}{unit}", number(from), number(to));
    let part = |part: Part| format!("{} ± {} µs", number(part.us), number(part.error_us));
    Columns::<&Answer>::new()
        .words("strategy", |answer| answer.strategy.as_str())
        .numbers("first", 0, move |answer| Some(part(answer.fit.as_ref()?.first)))
        .numbers("more", 0, move |answer| answer.fit.as_ref()?.each_more.map(part))
        .numbers("load", 0, move |answer| answer.fit.as_ref()?.by_rate.map(part))
        .numbers("off", 0, |answer| Some(Value::Share(answer.fit.as_ref()?.spread)))
        .explained("deviation of the trials from the fit (standard deviation)")
        .numbers("trials", 0, |answer| Some(answer.fit.as_ref()?.residuals.len()))
        .numbers("measured at", 1, move |answer| {
            answer.fit.as_ref().map(|fit| range(fit.range.rate_from, fit.range.rate_to, "/s"))
        })
        .numbers("waiting", 2, move |answer| {
            answer.fit.as_ref().map(|fit| range(fit.range.waiting_from, fit.range.waiting_to, ""))
        })
        .table("Inputs of the predictions", 1, &plan.answers)
        .noted(
            "handoff = first + more × (waiting − 1) + load × acquisitions a second, fitted over trials. ±: standard error. \
             Missing: not significantly different from zero.",
        )
        .shown_if(plan.answers.iter().any(|answer| answer.fit.is_some()))
}

/// Describes the objective's metric with longer or shorter service times, for each strategy.
fn sensitivities(plan: &PlanFile) -> Vec<String> {
    let figure = plan.question.objective.figure;
    let one = |one: &Sensitivity| {
        let (change, misses) = (100.0 * (one.service - 1.0), if one.holds { "" } else { " (misses)" });
        format!("{change:+.0} %: {}{misses}", figure.unit().show(one.value))
    };
    let of = |answer: &Answer| {
        let all = joined(answer.sensitivity.iter().map(one), ", ");
        format!("{}: {figure} if holds and handoffs are longer or shorter: {all}", answer.strategy)
    };
    plan.answers.iter().filter(|answer| !answer.sensitivity.is_empty()).map(of).collect()
}

/// Describes unknown facts, each with the affected strategies unless all are affected.
fn missing(plan: &PlanFile) -> Vec<String> {
    let all = plan.answers.iter().flat_map(|answer| {
        answer.missing.iter().map(move |missing| (missing.as_str(), answer.strategy.as_str()))
    });
    let said = |(text, of): (&str, Vec<&str>)| {
        let of = (of.len() < plan.answers.len()).then(|| format!(" for {}", of.join(", ")));
        format!("not known{}: {text}", of.unwrap_or_default())
    };
    grouped(all).into_iter().map(said).collect()
}

fn left_out(plan: &PlanFile) -> Vec<String> {
    plan.left_out.iter().map(|left| format!("left out: {left}")).collect()
}

/// Returns the strategy and load of a verification, and whether it met the objective.
fn verified(one: &Verification) -> String {
    let (arrivals, locks) =
        (counted(one.arrivals, "arrival", "arrivals"), counted(one.locks, "lock", "locks"));
    let result = match one.verdict() {
        Verdict::Held => "the objective was met".to_owned(),
        Verdict::Violated(_) if one.held => format!("it failed: {}", why(&one.verdict())),
        Verdict::Violated(_) => "the objective was missed".to_owned(),
        Verdict::Unknown(_) => format!("inconclusive: {}", why(&one.verdict())),
    };
    let end =
        one.agrees.map_or("", |same| if same { ", as predicted" } else { ", contrary to the prediction" });
    format!("{}: {arrivals} at {}/s over {locks}; {result}{end}.", one.strategy, number(one.rate))
}

fn why(verdict: &Verdict) -> String {
    verdict.why().unwrap_or_default()
}

/// Returns reasons for skipped verifications, one sentence each.
fn unverified(plan: &PlanFile) -> Vec<String> {
    plan.unverified.iter().map(|one| format!("{} was not verified: {}", one.strategy, one.why)).collect()
}

/// Warns if the verification does not confirm the recommendation; `None` if it does.
fn doubt(plan: &PlanFile) -> Option<String> {
    let verdict = plan.verdict();
    plan.recommendation.as_ref().filter(|_| verdict != Verdict::Held)?;
    let alarm = if matches!(verdict, Verdict::Violated(_)) { "FAILED" } else { "UNKNOWN" };
    Some(format!("{alarm}: the verification does not confirm the recommendation: {}.", why(&verdict)))
}

fn told(is_so: bool, good: &str, bad: &str) -> Value {
    if is_so { Value::verdict(good, Tone::Good) } else { Value::verdict(bad, Tone::Bad) }
}

fn checked(one: &Verification) -> Table {
    let is_rate = |figure: &Checked| figure.figure == THROUGHPUT.card.name;
    let show = move |figure: &Checked, value| {
        if is_rate(figure) { Value::Rate(value) } else { Value::Duration(value) }
    };
    Columns::<&Checked>::new()
        .words("metric", |figure| figure.figure.as_str())
        .numbers("predicted", 0, move |figure| {
            if is_rate(figure) { rate(figure.predicted) } else { time(figure.predicted) }
        })
        .numbers("measured", 0, move |figure| show(figure, figure.measured).at_least(figure.at_least))
        .words("interval", |figure| {
            if figure.at_least && figure.measured <= figure.predicted.high {
                Value::verdict("not known", Tone::Doubtful)
            } else {
                told(figure.inside, "inside", "OUTSIDE")
            }
        })
        .numbers("by its own service", 0, move |figure| show(figure, figure.by_observed_service))
        .explained("the simulation with the handoffs measured in the verification")
        .words("within 15 %", |figure| told(figure.reproduced, "yes", "NO"))
        .table("Predicted and measured", 1, &one.figures)
}

fn checked_failures(one: &Verification) -> Table {
    Columns::<&CheckedFailure>::new()
        .words("failure", |failure| failure.fault.as_str())
        .numbers("times", 0, |failure| failure.times)
        .numbers("p99 predicted", 0, |failure| measured(failure.predicted))
        .explained(
            "99th percentile of the waits of requests that arrived before the queue was as short as before the \
             failure, as measured for the plan",
        )
        .numbers("p99 measured", 0, |failure| measured(failure.measured))
        .explained("the same percentile, on restarted servers")
        .words("within 30 %", |failure| {
            let unknown = || Value::verdict("not known", Tone::Doubtful);
            failure.reproduced.map_or_else(unknown, |is_so| told(is_so, "yes", "NO"))
        })
        .table("Failures, predicted and measured", 1, &one.failures)
        .noted("Medians, with minimum and maximum.")
}

const CURVE: Link = Link { section: "curve", text: "waits by rate" };
const FIGURES: Link = Link { section: "figures", text: "figures" };
const VERIFICATION: Link = Link { section: "verification", text: "verification" };

pub fn of_plan(plan: &PlanFile) -> Document {
    let figures = [waits(plan), by_servers(plan), ensemble(plan), fresh(plan), failures(plan)];
    let verification = plan.verifications.iter().flat_map(|one| {
        let all = [Block::Text(verified(one)), checked(one).into(), checked_failures(one).into()];
        all.into_iter().chain(noted(one.notes.clone()))
    });
    let lacks = missing(plan).into_iter().chain(left_out(plan)).map(|note| capitalised(&note));
    let place = plan.ensemble.as_ref().zip(plan.host.as_ref()).map(|(ensemble, host)| place(ensemble, host));
    let environment = place.map(Block::Facts).into_iter().chain(noted(plan.caveats()));
    let basis = [fits(plan).into()].into_iter().chain(noted(sensitivities(plan)));
    let sections = [
        section(CURVE.section, "Waits by rate", [curve(plan)]),
        section(FIGURES.section, "Figures", figures),
        section("map", "At other rates", [map(plan)]),
        section(VERIFICATION.section, "Verification", verification),
        section("missing", "What is missing", noted(lacks.collect())),
        section("load", "The load", load(plan)),
        section("basis", "Model inputs", basis),
        section("environment", "Measurement environment", environment),
        section("reproduce", "How to reproduce this", reproduce(plan)),
    ];
    let verdict = word(&plan.verdict());
    let topic = if plan.recommendation.is_some() { "Recommended" } else { "No recommendation" };
    Document {
        title: match plan.question.think {
            Some(_) => format!("Can it serve {} clients?", plan.question.clients),
            None => format!("Can it serve {} requests a second?", number(plan.question.rate)),
        },
        about: capitalised(&plan.question.describe()),
        headline: Finding::new(topic, verdict.tone(), headline(plan), Some(CURVE)),
        verdict,
        comes_to: "Answer",
        findings: findings(plan),
        strategies: plan.answers.iter().map(|answer| answer.strategy.clone()).collect(),
        sections: filled(sections),
    }
}

/// Returns the scenario's description, which may list learned and assumed facts.
fn load(plan: &PlanFile) -> Option<Block> {
    let scenario: toml::Table = plan.question.scenario.as_ref()?.parse().ok()?;
    Some(Block::Text(scenario.get("description")?.as_str().filter(|text| !text.is_empty())?.to_owned()))
}

fn findings(plan: &PlanFile) -> Vec<Finding> {
    let tone = |verdict: &Verdict| word(verdict).tone();
    let tried = plan.verifications.iter().map(|one| (tone(&one.verdict()), verified(one)));
    let tried = tried.map(|(tone, said)| Finding::new("Verified", tone, said, Some(VERIFICATION)));
    let answers = plan.answers.iter().map(|answer| {
        let costs = answer.failures.iter().filter_map(FailureCost::sentence);
        let sentences = [answer.sentence(&plan.question.objective)].into_iter().chain(costs);
        let sentences = joined(sentences.map(|sentence| format!("{}.", capitalised(&sentence))), " ");
        Finding::new(answer.strategy.as_str(), tone(&answer.verdict), sentences, Some(FIGURES))
    });
    let not_tried = unverified(plan).into_iter().map(|one| format!("{one}."));
    let not_tried = not_tried.map(|one| Finding::new("Not verified", Tone::Doubtful, one, None));
    tried.chain(not_tried).chain(answers).collect()
}

fn curve(plan: &PlanFile) -> Block {
    let question = &plan.question;
    let figure = wait_of(&question.objective);
    let title = format!("Predicted {figure} by rate");
    let series: Vec<Curve> =
        plan.answers.iter().zip(0..).filter_map(|(one, at)| line(plan, one, at)).collect();
    if series.is_empty() {
        let why = match is_predicted(plan) {
            true if question.think.is_some() => "returning clients have no fixed rate",
            true => "the version that created this plan stored no predictions for other rates",
            false => "nothing could be predicted",
        };
        return Block::NoChart { title, why: why.to_owned() };
    }
    let rates = || series.iter().flat_map(|one| &one.line).map(|point| point.0);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let objective = format!("Objective: {}.", question.objective.text);
    let said = plan.answers.iter().filter_map(|answer| said(plan, answer));
    let measured = || series.iter().flat_map(|one| &one.measured);
    let thin = if measured().any(|(_, mark)| mark.doubtful) { " (thin: lower bounds)" } else { "" };
    let rings = format!(" Rings{thin}: measured by the verification, at the same rate per lock.");
    let rings = if measured().next().is_some() { rings } else { String::new() };
    let caption = format!(
        "Lines: predicted; shaded: the 90 % interval; markers: your rate.{rings} A line ends \
         about where the objective is missed, or at the end of the measured range."
    );
    let limit = Some(question.objective.limit).filter(|_| figure == question.objective.figure);
    let y = Axis::durations(&figure.to_string(), series.iter().flat_map(Curve::heights).chain(limit));
    let x = match most >= 10.0 * least {
        true => Axis::logarithmic("lock requests a second", [least, most]),
        false => Axis::from_zero("lock requests a second", most),
    };
    let limit = limit.map(|at| Guide::new(GuideCourse::Level(at), &*question.objective.text, Weight::Limit));
    let rate = format!("your rate: {}/s", number(question.rate));
    let rate = Guide::new(GuideCourse::Upright(question.rate), rate, Weight::Strong);
    let guides = limit.into_iter().chain([rate]).collect();
    Block::from(Chart {
        id: "waits-over-rate".to_owned(),
        title,
        said: joined([objective].into_iter().chain(said), " "),
        caption: vec![caption],
        kind: ChartKind::Lines(Lines { guides, ..Lines::either_way(x, y, series) }),
    })
}

fn asked(plan: &PlanFile, answer: &Answer) -> Option<CurvePoint> {
    let far = |point: &CurvePoint| (point.rate - plan.question.rate).abs();
    answer.curve.iter().copied().min_by(|one, other| far(one).total_cmp(&far(other)))
}

/// Returns the waits measured in a strategy's verifications, each at its rate for the planned number of locks.
fn verified_waits(plan: &PlanFile, answer: &Answer) -> Vec<Marked> {
    let figure = wait_of(&plan.question.objective).to_string();
    let own = plan.verifications.iter().filter(|one| one.strategy == answer.strategy);
    own.filter_map(|one| {
        let checked = one.figures.iter().find(|checked| checked.figure == figure)?;
        // With more locks than planned, a verification has a proportionally higher total rate.
        let rate = one.rate * plan.question.locks as f64 / one.locks as f64;
        Some(((rate, checked.measured), Mark { doubtful: checked.at_least, violated: false }))
    })
    .collect()
}

fn line(plan: &PlanFile, answer: &Answer, strategy: usize) -> Option<Curve> {
    let asked = asked(plan, answer)?;
    let ends = |point: &CurvePoint| {
        let Predicted { low, middle, high } = point.wait;
        Ends { at: point.rate, low, middle, high }
    };
    Some(Curve {
        line: answer.curve.iter().map(|point| (point.rate, point.wait.middle)).collect(),
        shaded: answer.curve.iter().map(ends).collect(),
        markers: vec![((asked.rate, asked.wait.middle), Mark::default())],
        measured: verified_waits(plan, answer),
        ..Curve::new(strategy, answer.strategy.as_str())
    })
}

fn said(plan: &PlanFile, answer: &Answer) -> Option<String> {
    let (asked, first, last) = (asked(plan, answer)?, answer.curve.first()?, answer.curve.last()?);
    let wait = |us: f64| Value::Duration(us).shown();
    let at = |point: &CurvePoint| format!("{} at {}/s", wait(point.wait.middle), number(point.rate));
    let measured = verified_waits(plan, answer)
        .into_iter()
        .map(|((_, us), mark)| format!(", {} measured", Value::Duration(us).at_least(mark.doubtful).shown()));
    let [low, middle, high] = [asked.wait.low, asked.wait.middle, asked.wait.high].map(wait);
    let all = format!("{}: from {} to {}", answer.strategy, at(first), at(last));
    let asked = format!("at {}/s, your rate, {middle} (90 %: {low} to {high})", number(asked.rate));
    Some(format!("{all}; {asked}{}.", measured.collect::<String>()))
}

/// Returns the words of a command without `--resume` and its directory.
fn asks_anew(command: &[String]) -> impl Iterator<Item = &str> {
    let mut names_directory = false;
    command.iter().map(String::as_str).filter(move |word| {
        let is_directory = std::mem::replace(&mut names_directory, *word == "--resume");
        !is_directory && !names_directory && !word.starts_with("--resume=")
    })
}

fn reproduce(plan: &PlanFile) -> Vec<Block> {
    let words = asks_anew(&plan.command).skip(1).map(as_a_word);
    let command = ["zklockbench".to_owned()].into_iter().chain(words);
    vec![
        Block::code("Repeat the plan:", joined(command, " ")),
        Block::Facts(vec![
            fact("Asked", when(plan.asked_at)),
            fact("Based on", joined(plan.sources.iter().map(|source| source.display().to_string()), ", ")),
            program(&plan.tool_version, plan.tool_commit.as_deref()),
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_to_repeat_a_resumed_plan_omits_its_directory() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let anew = |line: &str| asks_anew(&words(line)).collect::<Vec<_>>().join(" ");
        assert_eq!(anew("plan --rate 5/s --resume dir --verify"), "plan --rate 5/s --verify");
        assert_eq!(anew("plan --resume=dir --rate 5/s"), "plan --rate 5/s");
    }
}
