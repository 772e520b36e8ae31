//! Sentences of the ranking: the recommendation, and the fastest, lightest and fairest strategies.

use super::ranking::{Entry, Field, Standing};
use super::{Certainty, Conclusion, Evidence, Topic};
use crate::document::Value;
use crate::view::Cell;
use zklockbench_analysis::compare::Limits;
use zklockbench_core::measure::Measure;
use zklockbench_core::units::{at_least, contenders, counted, listed, number, percent};
use zklockbench_core::verdict::Verdict;
use zklockbench_record::Better;
use zklockbench_record::figures::{NOTIFICATIONS_PER_ACQUISITION, REQUESTS_PER_ACQUISITION};

/// Returns the recommendation, the rankings at the main contender count, and those rankings at other counts that
/// differ from them.
pub(super) fn ranked(field: &Field<'_>) -> Vec<Conclusion> {
    let limits = Limits::default();
    let (standings, focus) = (field.standings(limits), field.focus());
    let choice = choice(field, &standings, focus, limits);
    let is_open = choice.as_ref().is_some_and(|one| one.certainty == Certainty::Unknown);
    let all = standings.iter().map(|one| standing(one, limits));
    let (at_focus, mut others): (Vec<_>, Vec<_>) = all.partition(|one| one.contenders == Some(focus));
    others.retain(|one| {
        let is_sure = matches!(one.certainty, Certainty::Shown | Certainty::Same);
        is_sure && !at_focus.iter().any(|said| said.topic == one.topic && said.strategies == one.strategies)
    });
    // An inconclusive recommendation states the reason, so inconclusive rankings are omitted.
    let said = at_focus.into_iter().chain(others);
    choice.into_iter().chain(said.filter(|one| !is_open || one.certainty != Certainty::Unknown)).collect()
}

fn names<'e>(entries: impl Iterator<Item = &'e Entry>) -> Vec<String> {
    entries.map(|entry| entry.label.clone()).collect()
}

/// Returns the sentence on one aspect at one contender count.
fn standing(of: &Standing, limits: Limits) -> Conclusion {
    let at = contenders(of.contenders);
    let (superlative, adjective) = of.aspect.words;
    let leaders = names(of.leaders());
    // Exact counts need no interval.
    let once = if of.repetitions < 2 { ", counted in one trial only" } else { "" };
    let among = if of.apart.is_empty() { "" } else { " of those counted" };
    let (certainty, said) = match leaders.as_slice() {
        _ if !of.decidable => {
            (Certainty::Unknown, format!("it is unknown which lock is {superlative}: {}", too_few(of)))
        }
        [best] => {
            let value = of.shown(of.best());
            let next = of.beaten().next().and_then(|next| multiple(of, next)).unwrap_or_default();
            (Certainty::Shown, format!("{best} is {superlative}{among}: {value}{once}{next}"))
        }
        several if of.is_level() => {
            let (several, margin) = (listed(several), percent(limits.margin));
            (Certainty::Same, format!("{several} are equally {adjective}{among}, to within {margin}"))
        }
        several => {
            let why = format!("{} differ by no more than noise could explain", listed(several));
            (Certainty::Tied, format!("no single lock is shown to be {superlative}{among}: {why}"))
        }
    };
    Conclusion {
        topic: of.aspect.topic,
        certainty,
        contenders: Some(of.contenders),
        strategies: if of.decidable { leaders } else { Vec::new() },
        sentence: format!("With {at}, {said}."),
        evidence: of.aspect.evidence,
    }
}

/// Returns the reason for an inconclusive ranking.
fn too_few(of: &Standing) -> String {
    let are = if of.repetitions == 1 { "is" } else { "are" };
    format!("{} {are} too few for an interval", counted(of.repetitions, "repetition", "repetitions"))
}

/// Returns the text after the best strategy's value: the ratio of the best to a beaten strategy, with its
/// interval.
fn multiple(of: &Standing, entry: &Entry) -> Option<String> {
    let ratio = entry.against.as_ref()?.ratio?;
    let is_inverted = of.aspect.better == Better::Lower;
    let turned = |value: f64| if is_inverted { 1.0 / value } else { value };
    let (low, high) = if is_inverted { (ratio.high, ratio.low) } else { (ratio.low, ratio.high) };
    let interval = match (turned(low), turned(high)) {
        (low, high) if low < high && high.is_finite() => format!(" [{}, {}]", number(low), number(high)),
        _ => String::new(),
    };
    let times = Some(turned(ratio.value)).filter(|times| times.is_finite())?;
    let times = at_least(number(times), is_inverted && entry.is_bound() && !of.best().is_bound());
    Some((of.aspect.beaten)(&entry.label, &format!("{times}{interval}"), entry.median()))
}

/// Returns the fastest lock that kept its promises, or the lightest of several equally fast ones. `None` if
/// fewer than two strategies can be compared.
fn choice(field: &Field<'_>, standings: &[Standing], focus: usize, limits: Limits) -> Option<Conclusion> {
    let mut at_focus = standings.iter().filter(|one| one.contenders == focus);
    let speed = at_focus.clone().find(|one| one.aspect.topic == Topic::Fastest)?;
    let load = at_focus.find(|one| one.aspect.topic == Topic::Lightest);
    let is_proven = |label: &str| {
        let verdict = field.ranked(focus, label).map(Cell::verdict);
        verdict.is_some_and(|verdict| verdict.is_none_or(|verdict| verdict == Verdict::Held))
    };
    let at = contenders(focus);
    let conclude = |certainty, strategies, sentence| Conclusion {
        topic: Topic::Choice,
        certainty,
        contenders: Some(focus),
        strategies,
        sentence,
        evidence: Evidence::Table,
    };
    let most = if speed.decidable { usize::MAX } else { 1 };
    let fastest = names(speed.leaders().take(most).filter(|entry| is_proven(&entry.label)));
    if fastest.is_empty() {
        let why = "it is unknown whether the fastest lock excluded other contenders";
        let sentence = format!("No recommendation for {at}: {why}.");
        return Some(conclude(Certainty::Unknown, Vec::new(), sentence));
    }
    if !speed.decidable {
        return Some(conclude(Certainty::Unknown, Vec::new(), undecided(speed, &at)));
    }
    let chosen = load.map_or_else(|| fastest.clone(), |load| lightest(&fastest, load, limits));
    let is_lighter = chosen.len() < fastest.len();
    let (certainty, named) = match chosen.as_slice() {
        [one] => (Certainty::Shown, one.clone()),
        [one, other] => (Certainty::Tied, format!("{one} or {other}")),
        several => (Certainty::Tied, format!("any of {}", listed(several))),
    };
    let own = speed.entry(&chosen[0]).unwrap_or_else(|| speed.best());
    // Only the best strategy has been compared with each of the others.
    let last = speed.beaten().last().filter(|_| own.against.is_none());
    let multiple = last.and_then(|last| multiple(speed, last));
    let value = format!("{}{}", speed.shown(own), multiple.unwrap_or_default());
    let why = match (chosen.len(), load.filter(|_| is_lighter)) {
        (_, Some(load)) => {
            format!("Nothing measured was significantly faster, and {}.", least_load(&chosen, load))
        }
        (1, None) => "No other candidate was as fast.".to_owned(),
        (_, None) => {
            "Nothing measured was significantly faster, and the metrics do not separate them.".to_owned()
        }
    };
    let costs = if let [one] = &*chosen { costs(field, focus, one, speed, load) } else { String::new() };
    Some(conclude(certainty, chosen, format!("Use {named} with {at}: {value}. {why}{costs}")))
}

/// Returns a sentence on an inconclusive ranking: the medians, and how to get an answer.
fn undecided(speed: &Standing, at: &str) -> String {
    let confirm = match speed.needed {
        Some(needed) => format!("run with --repetitions {needed}"),
        None => "compare fewer strategies".to_owned(),
    };
    let end = |entry: &Entry| format!("{} ({})", speed.shown(entry), entry.label);
    let last = speed.entries.last().unwrap_or_else(|| speed.best());
    let (why, best, last) = (too_few(speed), end(speed.best()), end(last));
    format!("No winner yet with {at}: {why}; {confirm}. Medians: {best} to {last}.")
}

/// Returns the strategies of `fastest` that are not heavier than the lightest strategy of the run; all if the
/// lightest is not among them. Counts from a separate trial can show that a lock is heavier, but not that it
/// is equally light.
fn lightest(fastest: &[String], load: &Standing, limits: Limits) -> Vec<String> {
    if !load.decidable || !fastest.contains(&load.best().label) {
        return fastest.to_vec();
    }
    let beyond = load.best().median() * (1.0 + limits.margin);
    let is_heavier = |label: &String| {
        let apart = load.apart.iter().find(|(other, _)| other == label);
        load.entry(label).is_some_and(Entry::is_beaten)
            || apart.is_some_and(|(_, amount)| amount.is_some_and(|amount| amount > beyond))
    };
    fastest.iter().filter(|label| !is_heavier(label)).cloned().collect()
}

/// Returns a clause on the load of the chosen strategies, if it was counted.
fn least_load(chosen: &[String], load: &Standing) -> String {
    let counted: Vec<&String> = chosen.iter().filter(|label| load.entry(label).is_some()).collect();
    let among = if counted.len() < chosen.len() { " of those counted" } else { "" };
    let verb = if counted.len() == 1 { "puts" } else { "put" };
    let subject = match (counted.len() == chosen.len(), counted.len()) {
        (true, 1) => "it".to_owned(),
        (true, _) => "they".to_owned(),
        (false, _) => listed(&counted),
    };
    format!("{subject} {verb} the least load on the ensemble{among}")
}

/// Describes the costs of the chosen lock: its requests, its tail, and the savings of a lighter lock.
fn costs(field: &Field<'_>, focus: usize, label: &str, speed: &Standing, load: Option<&Standing>) -> String {
    let Some(cell) = field.ranked(focus, label) else { return String::new() };
    let requests = cell.figure(&REQUESTS_PER_ACQUISITION).zip(cell.figure(&NOTIFICATIONS_PER_ACQUISITION));
    let amount = |value: f64, one: &str| {
        let shown = number(value);
        format!("{shown} {one}{}", if shown == "1" { "" } else { "s" })
    };
    let requests = requests.map(|(requests, notifications)| {
        let notifications = amount(notifications, "notification");
        format!(" It costs {} and {notifications} per acquisition.", amount(requests, "request"))
    });
    let tail = cell.percentile(Measure::Wait, 0.99);
    let tail = tail.map(|wait| format!(" The 99th percentile of its waits is {}.", wait.shown()));
    let lighter = load.filter(|load| load.decidable && load.best().label != label).and_then(|load| {
        let entry = load.entry(label).filter(|entry| entry.is_beaten())?;
        let share = Value::Share(entry.against.as_ref()?.ratio?.value).shown();
        let best = &load.best().label;
        // The lightest lock may be just as fast, but without proof that it excludes other contenders.
        speed.entry(best).filter(|best| best.is_beaten())?;
        Some(format!(" {best} is slower but needs only {share} of these requests and notifications."))
    });
    [requests, tail, lighter].into_iter().flatten().collect()
}
