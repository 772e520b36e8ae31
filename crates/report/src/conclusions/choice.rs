//! Which strategy to use in the settings of the run, and what it costs.

use super::ranking::{Against, Apart, Aspect, RankingContext, Speed, Standing, StrategyReadings};
use super::{Certainty, Conclusion, Evidence, Topic};
use crate::document::Value;
use crate::view::Cell;
use zklockbench_analysis::compare::{ComparisonVerdict as Compared, Limits};
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{contenders, listed, number};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::figures::{NOTIFICATIONS_PER_ACQUISITION, REQUESTS_PER_ACQUISITION};

/// The recommendation for that number of contenders; `None` where there is nothing to choose from.
///
/// Of those that kept their promises the fastest is taken; where several are not shown to differ, the one that is shown to
/// be the lightest of them.
pub(super) fn of(
    field: &RankingContext<'_>,
    standings: &[Standing],
    focus: usize,
    limits: Limits,
) -> Option<Conclusion> {
    let find = |aspect| standings.iter().find(|one| one.aspect == aspect && one.contenders == focus);
    let speed = find(Aspect::Speed)?;
    let is_proven = |label: &str| {
        let verdict = field.ranked(focus, label).map(Cell::verdict);
        verdict.is_some_and(|verdict| verdict.is_none_or(|verdict| verdict == Verdict::Held))
    };
    let conclude = |certainty, strategies: Vec<String>, sentence: String| Conclusion {
        topic: Topic::Choice,
        certainty,
        contenders: Some(focus),
        strategies,
        sentence,
        evidence: Evidence::Table,
    };
    let at = contenders(focus);
    let unproven = || {
        let sentence =
            format!("No recommendation for {at}: it is not known whether the fastest kept others out.");
        Some(conclude(Certainty::Unknown, Vec::new(), sentence))
    };
    if !speed.decidable {
        if !is_proven(&speed.best().label) {
            return unproven();
        }
        return Some(conclude(Certainty::Unknown, Vec::new(), provisional(field, speed, &at)));
    }
    let fastest: Vec<&str> =
        speed.leaders().iter().map(|entry| entry.label.as_str()).filter(|label| is_proven(label)).collect();
    if fastest.is_empty() {
        return unproven();
    }
    let load = find(Aspect::Load);
    let chosen = load.map_or_else(|| fastest.clone(), |load| lightest_of(&fastest, load, limits));
    let is_beaten = |against: &Against| against.verdict == Compared::Improved;
    let decides = match load {
        // What decides is what has a number: in speed they are level.
        Some(load) if chosen.len() < fastest.len() && !speed.others().any(|(_, one)| is_beaten(one)) => load,
        _ => speed,
    };
    // What is asked of the ensemble is told of those that were counted.
    let (counted, others): (Vec<&str>, Vec<&str>) =
        chosen.iter().copied().partition(|label| decides.has(label));
    let subject = counted.first().copied().unwrap_or(chosen[0]);
    let number = decides.in_numbers_of(subject, field.speed, is_beaten);
    let number = if others.is_empty() { number } else { format!("{subject} has {number}") };
    let (certainty, names) = match chosen.as_slice() {
        [one] => (Certainty::Shown, (*one).to_owned()),
        [one, other] => (Certainty::Tied, format!("{one} or {other}")),
        several => (Certainty::Tied, format!("any of {}", listed(several))),
    };
    let why = match (chosen.len(), fastest.len()) {
        (1, 1) => "nothing measured is as fast".to_owned(),
        (chosen, fastest) if chosen == fastest => {
            "nothing measured is shown to be faster, and nothing here tells them apart".to_owned()
        }
        _ => {
            let load = load.map_or_else(String::new, |load| lightest(&chosen, &fastest, load));
            format!("nothing measured is shown to be faster, and {load}")
        }
    };
    let what = format!("Use {names} with {at}: {number}; {why}");
    let costs = match chosen.as_slice() {
        [one] => costs(field, focus, one, load),
        _ => String::new(),
    };
    let names = chosen.iter().map(|label| (*label).to_owned()).collect();
    Some(conclude(certainty, names, format!("{what}.{costs}")))
}

/// What came out best where there are too few repetitions for an interval, and how many it takes.
fn provisional(field: &RankingContext<'_>, speed: &Standing, at: &str) -> String {
    let confirm = match speed.needed {
        Some(needed) => format!("run with --repetitions {needed}"),
        None => "compare fewer strategies".to_owned(),
    };
    let value = |entry: &StrategyReadings| {
        let value = speed.value(entry, field.speed);
        // What is done once is judged by what it costs, too.
        let is_once = field.speed == Speed::TotalTime;
        match requests(field, speed.contenders, &entry.label).filter(|_| is_once) {
            Some(requests) => format!("{value} and {requests} per acquisition"),
            None => value,
        }
    };
    let last = speed.others().last();
    let last =
        last.map_or_else(String::new, |(last, _)| format!(", {} last with {}", last.label, value(last)));
    let ends = format!("{} came out best with {}{last}", speed.best().label, value(speed.best()));
    match speed.repetitions {
        0 | 1 => format!(
            "With {at} {ends}. One repetition can't separate the result from noise; to confirm it, {confirm}."
        ),
        several => {
            format!("No winner yet with {at}: {ends}; {several} repetitions are too few, so {confirm}.")
        }
    }
}

fn one_or_more(amount: f64, one: &str) -> String {
    let shown = number(amount);
    let ending = if shown == "1" { "" } else { "s" };
    format!("{shown} {one}{ending}")
}

fn requests(field: &RankingContext<'_>, contenders: usize, label: &str) -> Option<String> {
    let amount = field.ranked(contenders, label)?.figure(&REQUESTS_PER_ACQUISITION)?;
    Some(one_or_more(amount, "request"))
}

/// Of these, the lightest and those that it is not shown to be lighter than; all where it is not among them. What was counted
/// in a trial of its own shows that a lock is heavier, but not that it is as light as another.
fn lightest_of<'a>(fastest: &[&'a str], load: &Standing, limits: Limits) -> Vec<&'a str> {
    if !load.decidable || !fastest.contains(&load.best().label.as_str()) {
        return fastest.to_vec();
    }
    let heavier = load.others().filter(|(_, against)| against.verdict == Compared::Improved);
    let heavier = heavier.map(|(entry, _)| entry.label.as_str());
    let beyond = load.best().median() * (1.0 + limits.margin);
    let heavier_apart = load.apart.iter().filter(|one| one.amount.is_some_and(|amount| amount > beyond));
    let heavier: Vec<&str> = heavier.chain(heavier_apart.map(|one| one.label.as_str())).collect();
    fastest.iter().copied().filter(|label| !heavier.contains(label)).collect()
}

/// That the chosen are the lightest of the fastest, so far as they were counted, and what is known of those that were not.
fn lightest(chosen: &[&str], fastest: &[&str], load: &Standing) -> String {
    let counted: Vec<&str> = chosen.iter().copied().filter(|label| load.has(label)).collect();
    let who = match (counted.len() == chosen.len(), counted.as_slice()) {
        (true, [_]) => "it is".to_owned(),
        (true, _) => "they are".to_owned(),
        (false, [one]) => format!("{one} is"),
        (false, several) => format!("{} are", listed(several)),
    };
    let is_as_fast = |one: &&Apart| fastest.contains(&one.label.as_str());
    let apart: String = load.apart.iter().filter(is_as_fast).map(|one| format!("; {}", one.told())).collect();
    let of = if apart.is_empty() { "" } else { " that were counted in each repetition" };
    format!("{who} the lightest of those as fast{of}{apart}")
}

/// What the chosen one costs: what it asks of the ensemble, how long one waits, and what a lighter one would save.
fn costs(field: &RankingContext<'_>, focus: usize, label: &str, load: Option<&Standing>) -> String {
    let Some(cell) = field.ranked(focus, label) else { return String::new() };
    let mut said = Vec::new();
    if let (Some(requests), Some(notifications)) =
        (cell.figure(&REQUESTS_PER_ACQUISITION), cell.figure(&NOTIFICATIONS_PER_ACQUISITION))
    {
        said.push(format!(
            "{} and {} per acquisition",
            one_or_more(requests, "request"),
            one_or_more(notifications, "notification")
        ));
    }
    if let Some(wait) = cell.percentile(Measure::Wait, 0.99) {
        said.push(format!("waits of {} at the 99th percentile", wait.shown()));
    }
    if said.is_empty() {
        return String::new();
    }
    let lighter = load.filter(|load| load.decidable && load.best().label != label).and_then(|load| {
        let (_, against) = load.others().find(|(entry, _)| entry.label == label)?;
        let share = against.ratio?.value;
        (against.verdict == Compared::Improved).then(|| {
            format!(
                " {} is slower but needs only {} of these requests and notifications.",
                load.best().label,
                Value::Share(share).shown()
            )
        })
    });
    format!(" It costs {}.{}", listed(&said), lighter.unwrap_or_default())
}
