//! Combinations that cannot be: each key is fine by itself, together they are not.

use std::iter;
use std::time::Duration;

use super::arrivals::Replay;
use super::diagnostic::listed;
use super::distribution::Distribution;
use super::draft::Draft;
use super::fields::{
    ARRIVALS_MAX, LoadWord, OPEN_KEYS, POLL_INTERVAL_PARAM, PROCESSES, SHORTEST, TRIALS_MAX,
};
use super::model::StrategyChoice;
use super::read::{Sink, written};
use super::strategies::{ListedStrategy, takers};
use zklockbench_core::units::contenders;

/// Reports what is wrong, where, and what to do about it; `None` where there is nothing to look at.
type Rule = fn(&Draft<'_>, &Sink<'_>) -> Option<()>;

const CLOSED: &[Rule] = &[closed_stop, useless_locks];
const BATCH: &[Rule] = &[acquires_once, queues, patience];
const OPEN: &[Rule] = &[rate, open_stop, changes_at_once, count];
const ALL: &[Rule] = &[
    meaningless,
    identical,
    clients,
    pollers,
    warm_up,
    depth,
    ensemble,
    scaled,
    repetitions_at_most,
    repetitions,
    trials,
    replayed_from_the_start,
    replayed,
];

pub(super) fn check(draft: &Draft<'_>, sink: &Sink<'_>) {
    let of_load = match draft.said.load {
        Some(LoadWord::Closed) => CLOSED,
        Some(LoadWord::Batch) => BATCH,
        Some(LoadWord::Open) => OPEN,
        None => &[],
    };
    for rule in of_load.iter().chain(ALL) {
        rule(draft, sink);
    }
}

const CLOSE_IT: &str = "leave the key out, or use load = \"closed\"";

fn meaningless(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let said = &draft.said;
    let positive = |time: Option<Duration>| time.is_some_and(|time| !time.is_zero());
    let refuse = |is_set: bool, key: &'static str, why: &str| {
        if let Some(value) = draft.places.value(key).filter(|_| is_set) {
            sink.idle(&[key], value, why, CLOSE_IT);
        }
    };
    match said.load? {
        LoadWord::Closed => {}
        LoadWord::Batch => {
            let measured = |key: &str| format!("a batch has no `{key}`: every acquisition of it is measured");
            refuse(positive(said.warm_up), "warm_up", &measured("warm_up"));
            refuse(positive(said.warm_up_at_most), "warm_up_at_most", &measured("warm_up_at_most"));
            let why = "a batch has no `ramp_up`: contenders queue up one after the other";
            refuse(positive(said.ramp_up), "ramp_up", why);
            let why = "a batch has one lock, for which all contenders queue";
            refuse(said.locks > Some(1), "locks", why);
            no_think(draft, "a batch has no `think`: each contender acquires only once", sink);
        }
        LoadWord::Open => {
            refuse(true, "acquisitions", "an open load has no `acquisitions`: it ends by the clock");
            let why = "an open load has no `ramp_up`: all contenders are ready before the first arrival";
            refuse(positive(said.ramp_up), "ramp_up", why);
            let why = "an open load has no `think`: arrivals come whether or not a contender is free";
            no_think(draft, why, sink);
            return None;
        }
    }
    for (name, key) in draft.places.given(OPEN_KEYS) {
        let help = "leave the key out, or use load = \"open\"";
        sink.idle(&[name], key, format!("`{name}` is for an open load"), help);
    }
    None
}

fn no_think(draft: &Draft<'_>, why: &str, sink: &Sink<'_>) {
    let of_all = (&draft.said.think, draft.places.value("think"));
    let of_kinds = draft.clients.iter().map(|kind| (&kind.said.think, kind.places.value("think")));
    for (think, value) in iter::once(of_all).chain(of_kinds) {
        if let (Some(think), Some(value)) = (think, value)
            && *think != Distribution::ZERO
        {
            sink.idle(&["think"], value, why, CLOSE_IT);
        }
    }
}

fn closed_stop(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    match draft.places.given(&["duration", "acquisitions"]).as_slice() {
        [] => sink.error(
            draft.load_key(),
            "nothing ends the measured phase",
            "add `duration = \"5s\"`, or `acquisitions = 10` for each contender",
        ),
        [_, (_, later)] => sink.idle(
            &["duration", "acquisitions"],
            later.clone(),
            "both `duration` and `acquisitions` end the measured phase",
            "keep one of them",
        ),
        _ => {}
    }
    None
}

/// Of an open load not all locks are held at once.
fn useless_locks(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (locks, value, most) = (draft.said.locks?, draft.places.value("locks")?, draft.most_contenders()?);
    let message = format!("{locks} locks are more than {} can use", contenders(most));
    (locks > most).then(|| sink.error(value, message, format!("write at most {most}")))
}

fn acquires_once(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    if let Some(key) = draft.places.key("duration") {
        let message = "a batch has no `duration`: it ends when each contender has acquired once";
        sink.idle(&["duration"], key, message, CLOSE_IT);
    }
    let (count, value) = (draft.said.acquisitions?, draft.places.value("acquisitions")?);
    let message = format!("in a batch each contender acquires once, not {count} times");
    (count > 1).then(|| sink.idle(&["acquisitions"], value, message, CLOSE_IT))
}

fn queues(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    for ListedStrategy { card, span, .. } in &draft.strategies {
        if !card.guarantees.exclusive && !card.guarantees.watches {
            let message = format!("`{}` lets everybody in, so its batch never queues", card.name);
            sink.error(span.clone(), message, "use load = \"closed\" for it");
        }
    }
    None
}

/// The last of a batch waits for the holds of all others; a shorter timeout cannot be met.
fn patience(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (timeout, value) = (draft.said.acquire_timeout?, draft.places.value("acquire_timeout")?);
    let shortest = match draft.said.hold.as_ref().filter(|_| draft.clients.is_empty())? {
        Distribution::Fixed(hold) => *hold,
        Distribution::Uniform { min, .. } => *min,
        _ => return None,
    };
    let most = draft.most_contenders()?;
    let others = u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = shortest.mul_f64(draft.said.time_scale.unwrap_or(1.0)).saturating_mul(others);
    let message = format!("the last of a batch of {most} waits at least {}", written(wait));
    let help = "make `acquire_timeout` longer, or leave it out to wait forever";
    (wait > timeout).then(|| sink.error(value, message, help))
}

fn rate(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let process = draft.arrivals.as_ref()?.process;
    let given = draft.places.given(&["rate", "rate_each"]);
    match (process.takes_rate, given.as_slice()) {
        (true, []) => sink.missing(
            draft.load_key(),
            "nothing sets the arrival rate",
            "add `rate = 40`, in arrivals a second, or `rate_each = 0.2` for each contender",
        ),
        (true, [_, (_, later)]) => sink.idle(
            &["rate", "rate_each"],
            later.clone(),
            "both `rate` and `rate_each` set the arrival rate",
            "keep one of them",
        ),
        (true, _) => {}
        (false, given) => {
            let takers = PROCESSES.iter().filter(|process| process.takes_rate).map(|process| process.name);
            let help = format!("leave the key out, or use another arrival process: {}", listed(takers));
            for (_, key) in given {
                let message = format!("`{}` sets its own arrival rate", process.name);
                sink.error(key.clone(), message, help.as_str());
            }
        }
    }
    None
}

fn open_stop(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let is_endless = draft.arrivals.is_some() && draft.replay().is_none() && !draft.places.has("duration");
    let help = "add a line such as duration = \"60s\"";
    is_endless.then(|| sink.missing(draft.load_key(), "nothing ends the measured phase", help))
}

/// What changes from the beginning of the measured phase needs to know when that is.
fn changes_at_once(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let comes = draft.arrivals.as_ref()?;
    let changes = !comes.arrivals.is_stationary() && draft.replay().is_none();
    let is_longer = draft.said.warm_up_at_most? > draft.said.warm_up?;
    let value = draft.places.value("warm_up_at_most")?;
    let message = format!(
        "`{}` starts with the measured phase, which a longer warm-up would delay",
        comes.process.name
    );
    let help = "leave the key out, or give a longer `warm_up`";
    (changes && is_longer).then(|| sink.error(value, message, help))
}

/// Neither no arrival at all nor more than there is room for. `time_scale` changes nothing about their number.
fn count(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (comes, said) = (draft.arrivals.as_ref()?, &draft.said);
    let most = draft.most_contenders().unwrap_or(1) as f64;
    let (rate, key) = match (said.rate, said.rate_each) {
        _ if !comes.process.takes_rate => (None, "arrivals"),
        (None, each) => (each.map(|each| each * most), "rate_each"),
        (rate, _) => (rate, "rate"),
    };
    let (arrivals, value) = (comes.at(rate)?, draft.places.value(key)?);
    let measured = said.duration.or_else(|| draft.replay().map(Replay::lasts))?;
    let most = arrivals.at_most(draft.warm_up_at_most(), measured);
    if most > ARRIVALS_MAX as f64 {
        let message = format!("there would be up to {most:.0} arrivals, more than {ARRIVALS_MAX}");
        sink.error(value, message, "lower the rate, or measure for a shorter time");
    } else if arrivals.mean_rate(measured) <= 0.0 && draft.replay().is_none() {
        let message = format!("at these rates nothing arrives within {}", written(measured));
        sink.error(value, message, "give at least one rate above 0");
    }
    None
}

fn identical(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    for (index, ListedStrategy { choice: this, span, .. }) in draft.strategies.iter().enumerate() {
        let same = |other: &&StrategyChoice| other.name == this.name && other.params == this.params;
        let mut before = draft.strategies.iter().take(index).map(|listed| &listed.choice);
        let Some(other) = before.find(same) else { continue };
        let message = if other.label == this.label {
            format!("`{}` is listed twice", this.label)
        } else {
            format!("`{}` and `{}` have the same parameters in force", other.label, this.label)
        };
        sink.error(span.clone(), message, "use `repetitions` to run it again");
    }
    None
}

/// What every kind of clients says itself means nothing at the top.
fn clients(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let said_by_all = |name: &&str| draft.clients.iter().all(|kind| kind.places.has(name));
    for name in ["hold", "think", "read_ratio"].into_iter().filter(said_by_all) {
        let key = draft.places.key(name).filter(|_| !draft.clients.is_empty());
        let Some(key) = key else { continue };
        let message = format!("every kind of clients has its own `{name}`");
        sink.idle(&[name], key, message, "leave the key out here, or in one `[[client]]`");
    }
    None
}

fn pollers(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let key = draft.places.key(POLL_INTERVAL_PARAM).filter(|_| draft.strategies_whole)?;
    let pollers = listed(takers(&draft.catalog.locks, POLL_INTERVAL_PARAM));
    let help = format!("leave the key out; the strategies that poll: {pollers}");
    let message = "no listed strategy polls, so `poll_interval` has no effect";
    let polls = draft.strategies.iter().any(ListedStrategy::polls);
    (!polls).then(|| sink.idle(&[POLL_INTERVAL_PARAM], key, message, help))
}

fn warm_up(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (least, most) = (draft.said.warm_up?, draft.said.warm_up_at_most?);
    let value = draft.places.value("warm_up_at_most")?;
    let message = format!("the warm-up takes at least {}", written(least));
    let help = "give `warm_up_at_most` at least that, or leave it out";
    (most < least).then(|| sink.error(value, message, help))
}

/// Who takes a lock again that is not reentrant waits for itself.
fn depth(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let depth = draft.said.depth.filter(|depth| *depth > 1)?;
    let reentrant = draft.catalog.locks.iter().filter(|card| card.guarantees.reentrant);
    let reentrant = listed(reentrant.map(|card| card.name));
    let help = format!("leave `depth` out, or list only reentrant strategies: {reentrant}");
    for strategy in draft.strategies.iter().filter(|strategy| !strategy.card.guarantees.reentrant) {
        let message =
            format!("`{}` is not reentrant: its holder cannot take it {depth} times", strategy.card.name);
        sink.error(strategy.span.clone(), message, &help);
    }
    None
}

fn ensemble(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
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
    for (key, others, why) in WHY.into_iter().filter(|(key, ..)| draft.places.has(key)) {
        for (name, place) in draft.places.given(others) {
            let help = format!("keep either `{key}` or `{name}`");
            sink.idle(&[key, name], place, format!("`{name}` {why}"), help);
        }
    }
    None
}

/// What is long enough as written may not be once it is scaled.
fn scaled(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (scale, value) = (draft.said.time_scale?, draft.places.value("time_scale")?);
    let smallest = draft.strategies.iter().filter_map(|listed| listed.choice.poll_interval()).min();
    for (name, time) in [(POLL_INTERVAL_PARAM, smallest), ("duration", draft.said.duration)] {
        let Some(time) = time.filter(|time| time.mul_f64(scale) < SHORTEST) else { continue };
        let message =
            format!("`time_scale` makes `{name}` {} shorter than {}", written(time), written(SHORTEST));
        sink.error(value.clone(), message, format!("scale less, or give a longer `{name}`"));
    }
    None
}

/// How often to repeat at most is a bound on repeating for a precision …
fn repetitions_at_most(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let key = draft.places.key("repetitions_at_most").filter(|_| !draft.places.has("precision"))?;
    sink.idle(
        &["repetitions_at_most"],
        key,
        "`repetitions_at_most` has no effect without `precision`",
        "leave the key out, or add a line such as precision = \"2%\"",
    );
    None
}

/// … and none below what is repeated anyway.
fn repetitions(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let precision = draft.places.value("precision")?;
    let (least, most) = (draft.said.repetitions?, draft.said.repetitions_at_most?);
    let value = draft.places.value("repetitions_at_most").unwrap_or(precision);
    let message = format!("{least} repetitions are more than `repetitions_at_most`, {most}");
    let help = format!("set repetitions_at_most to {least} or more, or use fewer `repetitions`");
    (least > most).then(|| sink.error(value, message, help))
}

fn trials(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (said, value) = (&draft.said, draft.places.value("contenders")?);
    let most = if said.precision.is_some() { said.repetitions_at_most } else { said.repetitions };
    let repetitions = most.and_then(|count| usize::try_from(count).ok()).unwrap_or(1);
    let combinations = draft.strategies.len().saturating_mul(said.contenders.as_ref()?.len());
    let trials = combinations.saturating_mul(repetitions);
    let message = format!("the plan has {trials} trials, more than {TRIALS_MAX}");
    let help = "list fewer contender counts or strategies, or repeat less";
    (trials > TRIALS_MAX).then(|| sink.error(value, message, help))
}

/// Every arrival of a file is measured, so there is nothing before.
fn replayed_from_the_start(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    draft.replay()?;
    let (warm_up, at_most) = (draft.said.warm_up?, draft.said.warm_up_at_most.unwrap_or_default());
    for (name, time) in [("warm_up", warm_up), ("warm_up_at_most", at_most)] {
        if let Some(value) = draft.places.value(name).filter(|_| !time.is_zero()) {
            let message = format!("a replay has no `{name}`: every arrival of its file is measured");
            sink.error(value, message, "leave the key out");
        }
    }
    None
}

fn replayed(draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (replay, locks) = (draft.replay()?, draft.said.locks?);
    let (file, named, lasts) = (replay.file.display(), replay.locks(), replay.lasts());
    let place = || draft.places.value("locks").or_else(|| draft.places.value("arrivals"));
    if named > locks
        && let Some(value) = place()
    {
        let message = format!("{file} asks for {named} locks, but `locks` is {locks}");
        sink.error(value, message, format!("write locks = {named}"));
    }
    let value = draft.places.value("time_scale").filter(|_| draft.said.duration.is_none())?;
    let message =
        format!("`time_scale` makes the {} of {file} shorter than {}", written(lasts), written(SHORTEST));
    let is_short = lasts.mul_f64(draft.said.time_scale.unwrap_or(1.0)) < SHORTEST;
    is_short.then(|| sink.error(value, message, "scale less"))
}
