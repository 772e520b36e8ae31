//! Combinations that cannot be: each key is fine by itself, together they are not.

use std::iter;
use std::time::Duration;

use super::distribution::Distribution;
use super::draft::{Draft, LoadWord};
use super::fields::{POLL_INTERVAL, POLL_INTERVAL_PARAM, TRIALS_MAX};
use super::keys::KeySpan;
use super::nearest::listed;
use super::read::{Sink, written};
use super::strategies::{ListedStrategy, takers};
use crate::words::catalog::{LockCard, ParamValue};
use crate::words::units::contenders;

pub(super) fn check(draft: &Draft<'_>, cards: &[LockCard], sink: &Sink<'_>) {
    stop(draft, sink);
    if draft.load == Some(LoadWord::Batch) {
        batch(draft, sink);
        batch_patience(draft, sink);
    }
    identical(draft, sink);
    clients(draft, sink);
    pollers(draft, cards, sink);
    locks(draft, sink);
    warm_up(draft, sink);
    depth(draft, cards, sink);
    ensemble(draft, sink);
    scaled(draft, sink);
    precision(draft, sink);
    size(draft, sink);
}

fn stop(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (duration, acquisitions) = (draft.places.get("duration"), draft.places.get("acquisitions"));
    match (&draft.load, duration, acquisitions) {
        (Some(LoadWord::Closed), Some(one), Some(other)) => {
            let later = if one.key.start > other.key.start { one } else { other };
            sink.idle(
                &["duration", "acquisitions"],
                later.key.clone(),
                "both `duration` and `acquisitions` end the measured phase",
                "keep one of them",
            );
        }
        (Some(LoadWord::Closed), None, None) => {
            let at = draft.places.get("load").map_or(draft.start..draft.start, |place| place.key.clone());
            sink.error(
                at,
                "nothing ends the measured phase",
                "add `duration = \"5s\"`, or `acquisitions = 10` for each contender",
            );
        }
        (Some(LoadWord::Batch), Some(place), _) => sink.idle(
            &["duration"],
            place.key.clone(),
            "a batch has no `duration`: it ends when each contender has acquired once",
            "leave the key out, or use load = \"closed\"",
        ),
        _ => {}
    }
    if let (Some(LoadWord::Batch), Some(count @ 2..), Some(place)) =
        (&draft.load, draft.acquisitions, acquisitions)
    {
        sink.idle(
            &["acquisitions"],
            place.value.clone(),
            format!("in a batch each contender acquires once, not {count} times"),
            "leave the key out, or use load = \"closed\"",
        );
    }
}

fn batch(draft: &Draft<'_>, sink: &Sink<'_>) {
    let refuse = |name: &'static str, why: &str| {
        if let Some(KeySpan { value, .. }) = draft.places.get(name) {
            sink.idle(&[name], value.clone(), why, "leave the key out, or use load = \"closed\"");
        }
    };
    let positive = |time: Option<Duration>| time.is_some_and(|time| !time.is_zero());
    if positive(draft.warm_up) {
        refuse("warm_up", "a batch has no `warm_up`: every acquisition of it is measured");
    }
    if positive(draft.warm_up_at_most) {
        refuse("warm_up_at_most", "a batch has no `warm_up_at_most`: every acquisition of it is measured");
    }
    if positive(draft.ramp_up) {
        refuse("ramp_up", "a batch has no `ramp_up`: contenders queue up one after the other");
    }
    no_think(draft, "a batch has no `think`: each contender acquires only once", sink);
    if draft.locks.is_some_and(|locks| locks > 1) {
        refuse("locks", "a batch has one lock, for which all contenders queue");
    }
    for strategy in draft.strategies.iter().filter(|strategy| never_waits(strategy)) {
        let message = format!("`{}` lets everybody in, so its batch never queues", strategy.card.name);
        sink.error(strategy.span.clone(), message, "use load = \"closed\" for it");
    }
}

/// What every kind of clients says itself means nothing at the top.
fn clients(draft: &Draft<'_>, sink: &Sink<'_>) {
    for name in ["hold", "think", "read_ratio"] {
        let Some(place) = draft.places.get(name).filter(|_| !draft.clients.is_empty()) else { continue };
        if draft.clients.iter().all(|kind| kind.places.contains_key(name)) {
            let message = format!("every kind of clients has its own `{name}`");
            sink.idle(&[name], place.key.clone(), message, "leave the key out here, or in one `[[client]]`");
        }
    }
}

/// Refuses think times, of all or of one kind of clients.
pub(super) fn no_think(draft: &Draft<'_>, why: &str, sink: &Sink<'_>) {
    let of_all = (&draft.think, draft.places.get("think"));
    let of_kinds = draft.clients.iter().map(|kind| (&kind.think, kind.places.get("think")));
    for (think, place) in iter::once(of_all).chain(of_kinds) {
        if let (Some(think), Some(place)) = (think, place)
            && *think != Distribution::ZERO
        {
            sink.idle(&["think"], place.value.clone(), why, "leave the key out, or use load = \"closed\"");
        }
    }
}

fn never_waits(strategy: &ListedStrategy<'_>) -> bool {
    !strategy.card.guarantees.exclusive && !strategy.card.guarantees.watches
}

/// The last of a batch waits for the holds of all others; a shorter timeout cannot be met.
fn batch_patience(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(timeout), Some(place)) = (draft.acquire_timeout, draft.places.get("acquire_timeout")) else {
        return;
    };
    if !draft.clients.is_empty() {
        return;
    }
    let shortest = match &draft.hold {
        Some(Distribution::Fixed(hold)) => *hold,
        Some(Distribution::Uniform { min, .. }) => *min,
        _ => return,
    };
    let Some(most) = draft.contenders.iter().flatten().max() else { return };
    let others = u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = shortest.mul_f64(draft.time_scale.unwrap_or(1.0)).saturating_mul(others);
    if wait > timeout {
        sink.error(
            place.value.clone(),
            format!("the last of a batch of {most} waits at least {}", written(wait)),
            "make `acquire_timeout` longer, or leave it out to wait forever",
        );
    }
}

fn identical(draft: &Draft<'_>, sink: &Sink<'_>) {
    for (index, strategy) in draft.strategies.iter().enumerate() {
        let this = &strategy.choice;
        let same = |other: &&ListedStrategy<'_>| {
            other.choice.name == this.name && other.choice.params == this.params
        };
        let Some(other) = draft.strategies.iter().take(index).find(same) else { continue };
        let message = if other.choice.label == this.label {
            format!("`{}` is listed twice", this.label)
        } else {
            format!("`{}` and `{}` have the same parameters in force", other.choice.label, this.label)
        };
        sink.error(strategy.span.clone(), message, "use `repetitions` to run it again");
    }
}

fn pollers(draft: &Draft<'_>, cards: &[LockCard], sink: &Sink<'_>) {
    let Some(place) = draft.places.get(POLL_INTERVAL_PARAM).filter(|_| draft.strategies_whole) else {
        return;
    };
    if !draft.strategies.iter().any(ListedStrategy::polls) {
        let pollers = listed(takers(cards, POLL_INTERVAL_PARAM));
        let help = format!("leave the key out; the strategies that poll: {pollers}");
        let message = "no listed strategy polls, so `poll_interval` has no effect";
        sink.idle(&[POLL_INTERVAL_PARAM], place.key.clone(), message, help);
    }
}

fn locks(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(locks), Some(place)) = (draft.locks, draft.places.get("locks")) else { return };
    let Some(most) = draft.contenders.iter().flatten().max() else { return };
    // A batch has one lock anyway, and of an open load not all locks are held at once.
    if locks > *most && draft.load == Some(LoadWord::Closed) {
        let message = format!("{locks} locks are more than {} can use", contenders(*most));
        sink.error(place.value.clone(), message, format!("write at most {most}"));
    }
}

fn warm_up(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(least), Some(most), Some(place)) =
        (draft.warm_up, draft.warm_up_at_most, draft.places.get("warm_up_at_most"))
    else {
        return;
    };
    if most < least {
        let message = format!("the warm-up takes at least {}", written(least));
        sink.error(place.value.clone(), message, "give `warm_up_at_most` at least that, or leave it out");
    }
}

/// Who takes a lock again that is not reentrant waits for itself.
fn depth(draft: &Draft<'_>, cards: &[LockCard], sink: &Sink<'_>) {
    let Some(depth @ 2..) = draft.depth else { return };
    let reentrant = cards.iter().filter(|card| card.guarantees.reentrant).map(|card| card.name);
    let help = format!("leave `depth` out, or list only reentrant strategies: {}", listed(reentrant));
    for strategy in draft.strategies.iter().filter(|strategy| !strategy.card.guarantees.reentrant) {
        let message =
            format!("`{}` is not reentrant: its holder cannot take it {depth} times", strategy.card.name);
        sink.error(strategy.span.clone(), message, &help);
    }
}

fn ensemble(draft: &Draft<'_>, sink: &Sink<'_>) {
    const WHY: [(&str, &[&str], &str); 2] = [
        (
            "connect",
            &["servers", "data_dir", "compose"],
            "is for an ensemble started by the suite, but `connect` names an existing one",
        ),
        (
            "compose",
            &["servers", "data_dir"],
            "is for servers run as processes here, but `compose` names a file of containers",
        ),
    ];
    for (key, others, why) in WHY.iter().filter(|(key, ..)| draft.places.contains_key(key)) {
        for (name, place) in others.iter().filter_map(|name| Some((name, draft.places.get(name)?))) {
            sink.idle(
                &[key, name],
                place.key.clone(),
                format!("`{name}` {why}"),
                format!("keep either `{key}` or `{name}`"),
            );
        }
    }
}

/// What is long enough as written may not be once it is scaled.
fn scaled(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(scale), Some(place)) = (draft.time_scale, draft.places.get("time_scale")) else { return };
    let shortest = *POLL_INTERVAL.start();
    let intervals = draft.strategies.iter().filter_map(|strategy| {
        match strategy.choice.params.get(POLL_INTERVAL_PARAM) {
            Some(ParamValue::Duration(interval)) => Some((POLL_INTERVAL_PARAM, *interval)),
            _ => None,
        }
    });
    let smallest = intervals.min_by_key(|(_, interval)| *interval);
    for (name, time) in smallest.into_iter().chain(draft.duration.map(|duration| ("duration", duration))) {
        if time.mul_f64(scale) < shortest {
            let message =
                format!("`time_scale` makes `{name}` {} shorter than {}", written(time), written(shortest));
            sink.error(place.value.clone(), message, format!("scale less, or give a longer `{name}`"));
        }
    }
}

/// How often to repeat at most is a bound on repeating for a precision, and none below what is repeated anyway.
fn precision(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (precision, at_most) = (draft.places.get("precision"), draft.places.get("repetitions_at_most"));
    if let (None, Some(place)) = (precision, at_most) {
        sink.idle(
            &["repetitions_at_most"],
            place.key.clone(),
            "`repetitions_at_most` has no effect without `precision`",
            "leave the key out, or add a line such as precision = \"2%\"",
        );
    }
    if let (Some(place), Some(least), Some(most)) = (precision, draft.repetitions, draft.repetitions_at_most)
        && least > most
    {
        sink.error(
            at_most.unwrap_or(place).value.clone(),
            format!("{least} repetitions are more than `repetitions_at_most`, {most}"),
            format!("set repetitions_at_most to {least} or more, or use fewer `repetitions`"),
        );
    }
}

fn size(draft: &Draft<'_>, sink: &Sink<'_>) {
    let Some(contenders) = &draft.contenders else { return };
    let most = if draft.precision.is_some() { draft.repetitions_at_most } else { draft.repetitions };
    let repetitions = most.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
    let trials = draft.strategies.len().saturating_mul(contenders.len()).saturating_mul(repetitions);
    if let (true, Some(place)) = (trials > TRIALS_MAX, draft.places.get("contenders")) {
        let message = format!("the plan has {trials} trials, more than {TRIALS_MAX}");
        sink.error(place.value.clone(), message, "list fewer contender counts or strategies, or repeat less");
    }
}
