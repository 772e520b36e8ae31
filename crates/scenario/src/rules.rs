//! Rejects impossible combinations of individually valid keys.

use std::collections::BTreeSet;
use std::iter;
use std::time::Duration;

use super::diagnostic::listed;
use super::distribution::Distribution;
use super::document::Document;
use super::fields::{OPEN_KEYS, POLL_INTERVAL_PARAM, PROCESSES_WITH_RATE};
use super::file::{LoadWord, Sessions};
use super::model::StrategyChoice;
use super::read::Sink;
use super::shapes::Times;
use super::strategies::{ListedStrategy, takers};
use super::value::{Is, Time, written};
use zklockbench_core::units::contenders;

/// Maximum number of arrivals in a trial; the outcome of each is kept in memory.
const ARRIVALS_MAX: usize = 50_000_000;

const TRIALS_MAX: usize = 10_000;

/// Minimum length of the measured phase, before and after scaling.
pub(super) const SHORTEST: Duration = Duration::from_millis(1);

/// A rule that reports errors to the sink. It returns an `Option` only so that it can use `?`; the result is
/// ignored.
type Rule = fn(&Document<'_>, &Sink<'_>) -> Option<()>;

const CLOSED: &[Rule] = &[closed_stop, useless_locks];
const BATCH: &[Rule] = &[acquires_once, queues, patience];
const OPEN: &[Rule] = &[rate, open_stop, changes_at_once, count];
const ALL: &[Rule] = &[
    contenders_once,
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
    fresh_locks,
];

pub(super) fn check(file: &Document<'_>, sink: &Sink<'_>) {
    let of_load = match file.said.load {
        Some(LoadWord::Closed) => CLOSED,
        Some(LoadWord::Batch) => BATCH,
        Some(LoadWord::Open) => OPEN,
        None => &[],
    };
    for rule in of_load.iter().chain(ALL) {
        rule(file, sink);
    }
}

const CLOSE_IT: &str = "remove the key, or use load = \"closed\"";

fn meaningless(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let said = &file.said;
    let refuse = |is_set: bool, key: &'static str, why: &str| {
        if let Some(value) = file.places.value(key).filter(|_| is_set) {
            sink.idle(&[key], value, why, CLOSE_IT);
        }
    };
    match said.load? {
        LoadWord::Closed => {}
        LoadWord::Batch => {
            let measured = |key: &str| format!("a batch has no `{key}`: every acquisition in it is measured");
            refuse(positive(said.warm_up), "warm_up", &measured("warm_up"));
            refuse(positive(said.warm_up_at_most), "warm_up_at_most", &measured("warm_up_at_most"));
            let why = "a batch has no `ramp_up`: contenders queue up one after the other";
            refuse(positive(said.ramp_up), "ramp_up", why);
            let why = "in a batch, all contenders queue for one lock";
            refuse(said.locks.is_some_and(|locks| locks.0 != Some(1)), "locks", why);
            let why = "a batch has no `hold_limit`: its holds end one after the other";
            refuse(said.hold_limit.is_some(), "hold_limit", why);
            let why = "in a batch, sessions are opened before the contenders queue up";
            refuse(said.sessions == Some(Sessions::PerAcquisition), "sessions", why);
            no_think(file, "a batch has no `think`: each contender acquires only once", sink);
        }
        LoadWord::Open => {
            refuse(true, "acquisitions", "an open load has no `acquisitions`: it ends by the clock");
            let why = "an open load has no `ramp_up`: all contenders are ready before the first arrival";
            refuse(positive(said.ramp_up), "ramp_up", why);
            let why = "in an open load, sessions are opened before the arrivals";
            refuse(said.sessions == Some(Sessions::PerAcquisition), "sessions", why);
            let why = "an open load has no `think`: arrivals do not wait for a free contender";
            no_think(file, why, sink);
            return None;
        }
    }
    for (name, key) in file.places.given(OPEN_KEYS) {
        let help = "remove the key, or use load = \"open\"";
        sink.idle(&[name], key, format!("`{name}` requires an open load"), help);
    }
    None
}

fn positive<const LEAST: u64, const MOST: u64>(time: Option<Is<Time<LEAST, MOST>>>) -> bool {
    time.is_some_and(|time| !time.0.is_zero())
}

fn no_think(file: &Document<'_>, why: &str, sink: &Sink<'_>) {
    let of_all = (&file.said.think, file.places.value("think"));
    let of_kinds = file.clients.iter().map(|kind| (&kind.said.think, kind.places.value("think")));
    for (think, value) in iter::once(of_all).chain(of_kinds) {
        if let (Some(think), Some(value)) = (think, value)
            && think.0 != Distribution::ZERO
        {
            sink.idle(&["think"], value, why, CLOSE_IT);
        }
    }
}

fn closed_stop(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    match file.places.given(&["duration", "acquisitions"]).as_slice() {
        [] => sink.error(
            file.load_key(),
            "the measured phase has no end",
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

/// Rejects more locks than can be used. Does not apply to open loads, where not all locks are held at once.
fn useless_locks(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (locks, value, most) = (file.said.locks?.0?, file.places.value("locks")?, file.most_contenders()?);
    let message = format!("{locks} locks are more than {} can use", contenders(most));
    (locks > most).then(|| sink.error(value, message, format!("write at most {most}")))
}

fn acquires_once(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    if let Some(key) = file.places.key("duration") {
        let message = "a batch has no `duration`: it ends when each contender has acquired once";
        sink.idle(&["duration"], key, message, CLOSE_IT);
    }
    let (count, value) = (file.said.acquisitions?.0, file.places.value("acquisitions")?);
    let message = format!("in a batch, each contender acquires once, not {count} times");
    (count > 1).then(|| sink.idle(&["acquisitions"], value, message, CLOSE_IT))
}

fn queues(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    for ListedStrategy { card, span, .. } in &file.strategies {
        if !card.guarantees.exclusive && !card.guarantees.watches {
            let message = format!("`{}` excludes no contender, so a batch never queues for it", card.name);
            sink.error(span.clone(), message, "use load = \"closed\" for it");
        }
    }
    None
}

/// Rejects a timeout that always expires: the last contender for a lock with one holder waits for the holds of
/// all others.
fn patience(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (timeout, value) = (file.said.acquire_timeout?.0, file.places.value("acquire_timeout")?);
    if timeout.is_zero() {
        let message = "a batch cannot use try-locks, because each contender acquires once";
        sink.error(value, message, "remove `acquire_timeout`, or use load = \"closed\"");
        return None;
    }
    let Times(hold) = file.said.hold.as_ref().filter(|_| file.clients.is_empty())?;
    let reads = file.said.read_ratio?.0 > 0.0;
    if !file.strategies.iter().any(|listed| listed.card.guarantees.has_one_holder(reads)) {
        return None;
    }
    let shortest = match hold {
        Distribution::Fixed(hold) => *hold,
        Distribution::Uniform { min, .. } => *min,
        _ => return None,
    };
    let most = file.most_contenders()?;
    let others = u32::try_from(most.saturating_sub(1)).unwrap_or(u32::MAX);
    let wait = shortest.mul_f64(file.said.time_scale?.0).saturating_mul(others);
    let message = format!("the last contender of a batch of {most} waits at least {}", written(wait));
    let help = "use a longer `acquire_timeout`, or remove it to wait without a limit";
    (wait > timeout).then(|| sink.error(value, message, help))
}

fn rate(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (process, _) = file.arrivals.as_ref()?;
    let given = file.places.given(&["rate", "rate_each"]);
    match (process.takes_rate(), given.as_slice()) {
        (true, []) => sink.error(
            file.load_key(),
            "the arrival rate is not set",
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
            let takers = listed(PROCESSES_WITH_RATE);
            let help = format!("remove the key, or use another arrival process: {takers}");
            for (name, key) in given {
                let message = format!("`{}` sets its own arrival rate", process.name());
                sink.idle(&[*name], key.clone(), message, help.as_str());
            }
        }
    }
    None
}

fn open_stop(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let is_endless = file.arrivals.is_some() && file.replay().is_none() && !file.places.has("duration");
    let help = "add a line such as duration = \"60s\"";
    is_endless.then(|| sink.error(file.load_key(), "the measured phase has no end", help))
}

/// Requires a warm-up of fixed length if rates change from the start of the measured phase.
fn changes_at_once(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (process, arrivals) = file.arrivals.as_ref()?;
    let changes = !arrivals.is_stationary() && file.replay().is_none();
    let is_longer = file.said.warm_up_at_most?.0 > file.said.warm_up?.0;
    let value = file.places.value("warm_up_at_most")?;
    let message =
        format!("`{}` starts with the measured phase, which a longer warm-up would delay", process.name());
    let help = "remove the key, or use a longer `warm_up`";
    (changes && is_longer).then(|| sink.idle(&["warm_up_at_most"], value, message, help))
}

/// Checks that a trial has at least one arrival, and no more arrivals than fit in memory. `time_scale` does
/// not change their number.
fn count(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let ((process, _), said) = (file.arrivals.as_ref()?, &file.said);
    let most = file.most_contenders().unwrap_or(1) as f64;
    let (rate, key) = match (said.rate, said.rate_each) {
        _ if !process.takes_rate() => (None, "arrivals"),
        (None, each) => (each.map(|each| each.0 * most), "rate_each"),
        (Some(rate), _) => (Some(rate.0), "rate"),
    };
    let (arrivals, value) = (file.arrivals_at(rate)?, file.places.value(key)?);
    let measured = file.measured()?;
    let most = arrivals.at_most(file.warm_up_at_most(), measured);
    if most > ARRIVALS_MAX as f64 {
        let message = format!("there would be up to {most:.0} arrivals; the maximum is {ARRIVALS_MAX}");
        sink.error(value, message, "use a lower rate or a shorter `duration`");
    } else if arrivals.mean_rate(measured) <= 0.0 && file.replay().is_none() {
        let message = format!("at these rates, nothing arrives within {}", written(measured));
        sink.error(value, message, "set at least one rate above 0");
    }
    None
}

fn contenders_once(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let counts = file.said.contenders.as_ref()?;
    let mut before = BTreeSet::new();
    for count in counts {
        let number = count.get_ref().0;
        if !before.insert(number) {
            sink.error(
                count.span(),
                format!("`{number}` is listed twice"),
                "use `repetitions` to run it again",
            );
        }
    }
    if counts.is_empty() {
        let help = "list at least one count, such as [1, 5, 20]";
        sink.error(file.places.value("contenders")?, "the list is empty", help);
    }
    None
}

fn identical(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    for (index, ListedStrategy { choice: this, span, .. }) in file.strategies.iter().enumerate() {
        let same = |other: &&StrategyChoice| other.name == this.name && other.params == this.params;
        let mut before = file.strategies.iter().take(index).map(|listed| &listed.choice);
        let Some(other) = before.find(same) else { continue };
        let message = if other.label == this.label {
            format!("`{}` is listed twice", this.label)
        } else {
            format!("`{}` and `{}` have the same effective parameters", other.label, this.label)
        };
        sink.error(span.clone(), message, "use `repetitions` to run it again");
    }
    None
}

/// Rejects a top-level key that every kind of client overrides, because the key has no effect.
fn clients(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let said_by_all = |name: &&str| file.clients.iter().all(|kind| kind.places.has(name));
    for name in ["hold", "think", "read_ratio"].into_iter().filter(said_by_all) {
        let key = file.places.key(name).filter(|_| !file.clients.is_empty());
        let Some(key) = key else { continue };
        let message = format!("every kind of client has its own `{name}`");
        sink.idle(&[name], key, message, "remove the key here or in one `[[client]]`");
    }
    None
}

fn pollers(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let key = file.places.key(POLL_INTERVAL_PARAM).filter(|_| file.strategies_whole)?;
    let pollers = listed(takers(&file.catalog.locks, POLL_INTERVAL_PARAM));
    let help = format!("remove the key, or list a strategy that polls: {pollers}");
    let message = "no listed strategy polls, so `poll_interval` has no effect";
    let polls = file.strategies.iter().any(ListedStrategy::polls);
    (!polls).then(|| sink.idle(&[POLL_INTERVAL_PARAM], key, message, help))
}

fn warm_up(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (least, most) = (file.said.warm_up?.0, file.said.warm_up_at_most?.0);
    let value = file.places.value("warm_up_at_most")?;
    let message = format!("the warm-up takes at least {}", written(least));
    let help = "set `warm_up_at_most` to at least that time, or remove it";
    (most < least).then(|| sink.error(value, message, help))
}

/// Rejects nested acquires of a lock that is not reentrant, because they would deadlock.
fn depth(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let depth = file.said.depth?.0;
    let reentrant = file.catalog.locks.iter().filter(|card| card.guarantees.reentrant);
    let reentrant = listed(reentrant.map(|card| card.name));
    let help = format!("remove `depth`, or list only reentrant strategies: {reentrant}");
    for strategy in file.strategies.iter().filter(|strategy| depth > 1 && !strategy.card.guarantees.reentrant)
    {
        let message =
            format!("`{}` is not reentrant: its holder cannot acquire it {depth} times", strategy.card.name);
        sink.error(strategy.span.clone(), message, &help);
    }
    None
}

fn ensemble(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    const WHY: [(&str, &[&str], &str); 2] = [
        (
            "connect",
            &["servers", "data_dir", "compose"],
            "is for an ensemble started by the suite, but `connect` specifies an existing one",
        ),
        (
            "compose",
            &["servers", "data_dir"],
            "is for servers run as processes here, but `compose` specifies containers",
        ),
    ];
    for (key, others, why) in WHY.into_iter().filter(|(key, ..)| file.places.has(key)) {
        for (name, place) in file.places.given(others) {
            let help = format!("keep either `{key}` or `{name}`");
            sink.idle(&[key, name], place, format!("`{name}` {why}"), help);
        }
    }
    None
}

/// Rejects times that are too short after scaling.
fn scaled(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (scale, value) = (file.said.time_scale?.0, file.places.value("time_scale")?);
    let smallest = file.strategies.iter().filter_map(|listed| listed.choice.poll_interval()).min();
    for (name, time) in [(POLL_INTERVAL_PARAM, smallest), ("duration", file.said.duration.map(|time| time.0))]
    {
        let Some(time) = time.filter(|time| time.mul_f64(scale) < SHORTEST) else { continue };
        let message =
            format!("`time_scale` makes `{name}` ({}) shorter than {}", written(time), written(SHORTEST));
        sink.error(value.clone(), message, format!("use a larger `time_scale` or a longer `{name}`"));
    }
    None
}

/// Checks that `repetitions_at_most` is used only with `precision`.
fn repetitions_at_most(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let key = file.places.key("repetitions_at_most").filter(|_| !file.places.has("precision"))?;
    sink.idle(
        &["repetitions_at_most"],
        key,
        "`repetitions_at_most` has no effect without `precision`",
        "remove the key, or add a line such as precision = \"2%\"",
    );
    None
}

/// Checks that `repetitions_at_most` is not below `repetitions`.
fn repetitions(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let precision = file.places.value("precision")?;
    let (least, most) = (file.said.repetitions?.0, file.said.repetitions_at_most?.0);
    let value = file.places.value("repetitions_at_most").unwrap_or(precision);
    let message = format!("{least} repetitions are more than `repetitions_at_most` ({most})");
    let help = format!("set repetitions_at_most to {least} or more, or use fewer `repetitions`");
    (least > most).then(|| sink.error(value, message, help))
}

fn trials(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (said, value) = (&file.said, file.places.value("contenders")?);
    let most = if said.precision.is_some() { said.repetitions_at_most?.0 } else { said.repetitions?.0 };
    let repetitions = usize::try_from(most).unwrap_or(usize::MAX);
    let combinations = file.strategies.len().saturating_mul(said.contenders.as_ref()?.len());
    let trials = combinations.saturating_mul(repetitions);
    let message = format!("the plan has {trials} trials; the maximum is {TRIALS_MAX}");
    let help = "list fewer contender counts or strategies, or use fewer `repetitions`";
    (trials > TRIALS_MAX).then(|| sink.error(value, message, help))
}

/// Rejects a warm-up in a replay, because every arrival of the file is measured.
fn replayed_from_the_start(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    file.replay()?;
    let said = &file.said;
    for (name, is_set) in
        [("warm_up", positive(said.warm_up)), ("warm_up_at_most", positive(said.warm_up_at_most))]
    {
        if let Some(value) = file.places.value(name).filter(|_| is_set) {
            let message = format!("a replay has no `{name}`: every arrival of its file is measured");
            sink.idle(&[name], value, message, "remove the key");
        }
    }
    None
}

fn replayed(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (replay, locks) = (file.replay()?, file.said.locks?.0.unwrap_or(usize::MAX));
    let (path, named, lasts) = (replay.file.display(), replay.locks(), replay.lasts());
    let place = || file.places.value("locks").or_else(|| file.places.value("arrivals"));
    if named > locks
        && let Some(value) = place()
    {
        let message = format!("{path} uses {named} locks, but `locks` is {locks}");
        sink.error(value, message, format!("write locks = {named}"));
    }
    let value = file.places.value("time_scale").filter(|_| file.said.duration.is_none())?;
    let message =
        format!("`time_scale` makes the {} of {path} shorter than {}", written(lasts), written(SHORTEST));
    let is_short = lasts.mul_f64(file.said.time_scale?.0) < SHORTEST;
    is_short.then(|| sink.error(value, message, "use a larger `time_scale`"))
}

/// Rejects fresh locks with popularity or with a replay that specifies locks.
fn fresh_locks(file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    if file.said.locks?.0.is_some() {
        return None;
    }
    let (value, help) = (file.places.value("locks")?, "remove the key, or set `locks` to a number");
    if let Some(key) = file.places.key("popularity") {
        sink.idle(&["popularity"], key, "each arrival has its own lock, so none is popular", help);
    }
    let (replay, named) = (file.replay()?, file.replay()?.locks());
    let message =
        format!("{} uses {named} locks, not a new lock for each acquisition", replay.file.display());
    (named > 1).then(|| sink.error(value, message, format!("write locks = {named}")))
}
