//! Rejects faults that are contradictory, or impossible in this scenario or on this ensemble.

use std::ops::Range;
use std::time::Duration;

use super::document::Document;
use super::faults::FaultEntry;
use super::fields::{Section, field};
use super::file::LoadWord;
use super::read::Sink;
use super::rules::SHORTEST;
use super::value::written;
use zklockbench_core::catalog::fault::{Capability, Ends, Target, Targets};
use zklockbench_core::units::{contenders, counted};

/// A rule that reports errors to the sink. It returns an `Option` only so that it can use `?`; the result is
/// ignored.
type Rule = fn(&FaultEntry<'_>, &Document<'_>, &Sink<'_>) -> Option<()>;

const RULES: &[Rule] = &[
    target,
    start,
    duration,
    how_often,
    overlap,
    load,
    connected,
    containers,
    servers,
    contender,
    needed_key,
    phase,
    acquisitions,
    scaled,
];

pub(super) fn check(file: &Document<'_>, sink: &Sink<'_>) {
    for fault in &file.faults {
        for rule in RULES {
            rule(fault, file, sink);
        }
    }
}

fn value_of(fault: &FaultEntry<'_>, key: &str) -> Range<usize> {
    fault.places.value(key).unwrap_or_else(|| fault.span.clone())
}

fn target(fault: &FaultEntry<'_>, _: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    let wrong: &[&str] = match fault.card.targets {
        Targets::Servers => &["contender"],
        Targets::Contenders => &["server"],
        Targets::Fixed => &["target", "server", "contender"],
    };
    let given = fault.places.given(&["target", "server", "contender"]).into_iter();
    let (wrong, right): (Vec<_>, Vec<_>) = given.partition(|(key, _)| wrong.contains(key));
    for (key, place) in wrong {
        let message = match fault.card.targets {
            Targets::Fixed => format!("`{name}` takes no `{key}`: its kind determines the target"),
            targets => format!("`{name}` hits {}, so it takes no `{key}`", targets.noun()),
        };
        sink.error(place, message, "remove the key");
    }
    if let [(one, _), (other, place), ..] = right.as_slice() {
        let message = format!("both `{one}` and `{other}` set the target of `{name}`");
        sink.error(place.clone(), message, "keep one of them");
    }
    None
}

fn start(fault: &FaultEntry<'_>, _: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match fault.places.given(&["at", "after_acquisitions"]).as_slice() {
        [] => sink.error(
            fault.span.clone(),
            format!("no time is set for `{name}` to fire"),
            "add `at = \"5s\"`, or `after_acquisitions = 100`",
        ),
        [(one, _), (other, place)] => sink.error(
            place.clone(),
            format!("both `{one}` and `{other}` set the time at which `{name}` fires"),
            "keep one of them",
        ),
        _ => {}
    }
    None
}

fn duration(fault: &FaultEntry<'_>, _: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match (fault.card.ends, fault.places.key("duration")) {
        (Ends::Healed, None) => sink.error(
            fault.span.clone(),
            format!("`{name}` requires a `duration`, after which the fault is healed"),
            "add a line such as duration = \"2s\"",
        ),
        (Ends::ByItself, Some(key)) => {
            sink.error(key, format!("`{name}` ends on its own, so it takes no `duration`"), "remove the key")
        }
        _ => {}
    }
    None
}

fn how_often(fault: &FaultEntry<'_>, _: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match (fault.said.times.map(|times| times.0), fault.places.key("every")) {
        (Some(times @ 2..), None) => sink.error(
            value_of(fault, "times"),
            format!("`{name}` fires {times} times, but no interval is set"),
            "add a line such as every = \"10s\"",
        ),
        (Some(1), Some(key)) => sink.error(
            key,
            format!("`every` has no effect on `{name}`, which fires once"),
            "remove the key, or add times = 2",
        ),
        _ => {}
    }
    None
}

/// Checks that a fault ends before it fires again.
fn overlap(fault: &FaultEntry<'_>, _: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, said) = (fault.card.name, &fault.said);
    let (every, jitter, times) = (said.every?.0, said.jitter?.0, said.times?.0);
    let busy = said.duration.unwrap_or_default().0 + jitter;
    let parts = if jitter.is_zero() { "`duration`" } else { "`duration` and `jitter` together" };
    let message = format!("`every` ({}) is not longer than {parts} ({})", written(every), written(busy));
    let help = format!("use a longer `every`; otherwise, `{name}` would fire again before it has ended");
    (times > 1 && every <= busy).then(|| sink.error(value_of(fault, "every"), message, help))
}

fn load(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    let message = format!("`{name}` cannot fire in a batch: faults would make the batch's totals inexact");
    let help = "remove the fault, or use load = \"closed\"";
    (file.said.load? == LoadWord::Batch).then(|| sink.error(fault.span.clone(), message, help))
}

fn connected(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, needs) = (fault.card.name, fault.card.needs);
    let has_commands = file.catalog.has_host_commands;
    let by_command = has_commands && needs == Capability::Processes;
    let message = format!("`{name}` disturbs servers, but the suite did not start the ensemble in `connect`");
    let help = if has_commands {
        "remove the fault: commands can kill, start and pause servers, but cannot cut links between servers"
    } else {
        "remove the fault or `connect`: by default, the suite never disturbs an existing ensemble. To allow faults, \
         provide commands with --hosts FILE (docs/operating.md)"
    };
    let is_wrong = file.places.has("connect") && needs.reaches_servers() && !by_command;
    is_wrong.then(|| sink.error(fault.span.clone(), message, help))
}

fn containers(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    let is_wrong = file.places.has("compose") && !file.places.has("connect");
    let message = format!(
        "`{name}` drops messages from one server to another, but Docker can only disconnect a server from its whole \
         network"
    );
    let help = "use `isolate`, or remove `compose`: links between the suite's own servers can be cut";
    (is_wrong && fault.card.needs == Capability::Links).then(|| sink.error(fault.span.clone(), message, help))
}

/// Checks the number of servers in a local ensemble; it is unknown with `connect` or `compose`.
fn servers(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, least) = (fault.card.name, fault.card.least_servers);
    let is_own = !file.places.has("connect") && !file.places.has("compose");
    let servers = file.ensemble.servers.filter(|_| is_own)?.0;
    match fault.target() {
        _ if servers < least => sink.error(
            fault.span.clone(),
            format!("`{name}` needs at least {least} servers, but `servers` is {servers}"),
            format!("remove the fault, or set servers = {least} under `[ensemble]`"),
        ),
        Target::Server(number) if number > servers => sink.error(
            value_of(fault, "server"),
            format!("there is no server {number}: `servers` is {servers}"),
            format!("write a number from 1 to {servers}"),
        ),
        Target::Word("follower") if servers == 1 => sink.error(
            value_of(fault, "target"),
            "a single server has no `follower`: `servers` is 1",
            "target the `leader`, or set servers = 3 under `[ensemble]`",
        ),
        _ => {}
    }
    None
}

fn contender(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let Target::Contender(number) = fault.target() else { return None };
    let fewest = file.fewest_contenders()?;
    let message = format!("there is no contender {number} among {} (numbered from 0)", contenders(fewest));
    let help = format!("write a number from 0 to {}", fewest - 1);
    (number >= fewest).then(|| sink.error(value_of(fault, "contender"), message, help))
}

fn needed_key(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let needed = field(Section::Top, fault.card.needs_key?)?;
    let message = format!("without `{}`, `{}` has no effect", needed.name, fault.card.name);
    let help = format!("add a line such as {} at the top", needed.example());
    let only_tries = needed.name == "acquire_timeout"
        && file.said.acquire_timeout.is_some_and(|timeout| timeout.0.is_zero());
    (only_tries || !file.places.has(needed.name)).then(|| sink.error(fault.span.clone(), message, help))
}

/// Checks that a fault begins and ends within the measured phase.
fn phase(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (whole, name, said) = (file.measured()?, fault.card.name, &fault.said);
    let at = said.at.unwrap_or_default().0;
    if at >= whole {
        let message =
            format!("`{name}` fires at {}, but the measured phase lasts {}", written(at), written(whole));
        let help = "fire the fault earlier, or use a longer `duration` at the top of the file";
        sink.error(value_of(fault, "at"), message, help);
        return None;
    }
    let end = at + lasting(fault);
    let (when, key) = match (said.at, said.duration) {
        (None, _) => ("may take", "duration"),
        (Some(_), Some(_)) => ("may last until", "duration"),
        (Some(_), None) => ("may fire at", "at"),
    };
    let message =
        format!("`{name}` {when} {}, but the measured phase lasts {}", written(end), written(whole));
    let help =
        "start the fault earlier, shorten it, fire it less often, or use a longer `duration` at the top";
    // A fault without a duration must at least start within the phase.
    let is_late = end > whole || end == whole && said.duration.is_none();
    is_late.then(|| sink.error(value_of(fault, key), message, help))
}

/// Returns the maximum time from the first scheduled start of a fault to its last end.
fn lasting(fault: &FaultEntry<'_>) -> Duration {
    let said = &fault.said;
    let more = said.times.map_or(0, |times| times.0 - 1);
    let starts = said.every.unwrap_or_default().0.saturating_mul(more);
    starts + said.jitter.unwrap_or_default().0 + said.duration.unwrap_or_default().0
}

/// Rejects a fault that never fires, because it waits for more acquisitions than there will be.
fn acquisitions(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (after, each) = (fault.said.after_acquisitions?.0, file.said.acquisitions?.0);
    let fewest = file.fewest_contenders()?;
    let all = each.saturating_mul(u64::try_from(fewest).unwrap_or(u64::MAX));
    let each = counted(each, "acquisition", "acquisitions");
    let message =
        format!("the measured phase ends after only {all} acquisitions ({} × {each})", contenders(fewest));
    let help = format!("use a value below {all}, or raise `acquisitions` at the top");
    (after >= all).then(|| sink.error(value_of(fault, "after_acquisitions"), message, help))
}

/// Rejects times that are too short after scaling.
fn scaled(fault: &FaultEntry<'_>, file: &Document<'_>, sink: &Sink<'_>) -> Option<()> {
    let (scale, value) = (file.said.time_scale?.0, file.places.value("time_scale")?);
    let name = fault.card.name;
    let said = &fault.said;
    for (key, time) in [("duration", said.duration), ("every", said.every)] {
        let time = time.map(|time| time.0);
        let Some(time) = time.filter(|time| time.mul_f64(scale) < SHORTEST) else { continue };
        let (time, least) = (written(time), written(SHORTEST));
        let message = format!("`time_scale` makes the `{key}` of `{name}` ({time}) shorter than {least}");
        sink.error(value.clone(), message, format!("use a larger `time_scale` or a longer `{key}`"));
    }
    None
}
