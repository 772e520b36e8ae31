//! Faults that cannot be: by themselves, in this scenario, or on this ensemble.

use std::ops::Range;
use std::time::Duration;

use super::draft::{Draft, FaultDraft};
use super::fields::{LoadWord, SHORTEST, Section, field};
use super::read::{Sink, written};
use zklockbench_core::catalog::fault::{Capability, Ends, Target, Targets};
use zklockbench_core::units::{contenders, counted};

/// As the rules of everything else: reports what is wrong; `None` where there is nothing to look at.
type Rule = fn(&FaultDraft<'_>, &Draft<'_>, &Sink<'_>) -> Option<()>;

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

pub(super) fn check(draft: &Draft<'_>, sink: &Sink<'_>) {
    for fault in &draft.faults {
        for rule in RULES {
            rule(fault, draft, sink);
        }
    }
}

fn value_of(fault: &FaultDraft<'_>, key: &str) -> Range<usize> {
    fault.places.value(key).unwrap_or_else(|| fault.span.clone())
}

fn target(fault: &FaultDraft<'_>, _: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
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
            Targets::Fixed => format!("`{name}` takes no `{key}`: its kind says whom it hits"),
            targets => format!("`{name}` hits {}, so it takes no `{key}`", targets.noun()),
        };
        sink.error(place, message, "leave the key out");
    }
    if let [(one, _), (other, place), ..] = right.as_slice() {
        let message = format!("both `{one}` and `{other}` say whom `{name}` hits");
        sink.error(place.clone(), message, "keep one of them");
    }
    None
}

fn start(fault: &FaultDraft<'_>, _: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match fault.places.given(&["at", "after_acquisitions"]).as_slice() {
        [] => sink.error(
            fault.span.clone(),
            format!("nothing says when `{name}` fires"),
            "add `at = \"5s\"`, or `after_acquisitions = 100`",
        ),
        [(one, _), (other, place)] => sink.error(
            place.clone(),
            format!("both `{one}` and `{other}` say when `{name}` fires"),
            "keep one of them",
        ),
        _ => {}
    }
    None
}

fn duration(fault: &FaultDraft<'_>, _: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match (fault.card.ends, fault.places.key("duration")) {
        (Ends::Healed, None) => sink.error(
            fault.span.clone(),
            format!("`{name}` has no `duration`, after which it is healed"),
            "add a line such as duration = \"2s\"",
        ),
        (Ends::ByItself, Some(key)) => sink.error(
            key,
            format!("`{name}` ends by itself, so it takes no `duration`"),
            "leave the key out",
        ),
        _ => {}
    }
    None
}

fn how_often(fault: &FaultDraft<'_>, _: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    match (fault.said.times, fault.places.key("every")) {
        (Some(times @ 2..), None) => sink.error(
            value_of(fault, "times"),
            format!("`{name}` fires {times} times, but nothing says how far apart"),
            "add a line such as every = \"10s\"",
        ),
        (Some(1), Some(key)) => sink.error(
            key,
            format!("`every` has no effect on `{name}`, which fires once"),
            "leave the key out, or add times = 2",
        ),
        _ => {}
    }
    None
}

/// A fault must have ended before it fires again.
fn overlap(fault: &FaultDraft<'_>, _: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, said) = (fault.card.name, &fault.said);
    let (every, jitter) = (said.every?, said.jitter?);
    let busy = said.duration.unwrap_or_default() + jitter;
    let parts = if jitter.is_zero() { "`duration`" } else { "`duration` and `jitter` together" };
    let message = format!("`every` {} is not longer than {parts}, {}", written(every), written(busy));
    let help = format!("give a longer `every`: `{name}` would fire again before it has ended");
    (said.times > Some(1) && every <= busy).then(|| sink.error(value_of(fault, "every"), message, help))
}

fn load(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    let message = format!("`{name}` cannot fire in a batch: its totals are exact only undisturbed");
    let help = "leave the fault out, or use load = \"closed\"";
    (draft.said.load? == LoadWord::Batch).then(|| sink.error(fault.span.clone(), message, help))
}

fn connected(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, needs) = (fault.card.name, fault.card.needs);
    let has_commands = draft.catalog.has_host_commands;
    let by_command = has_commands && needs == Capability::Processes;
    let message =
        format!("`{name}` disturbs servers, but `connect` names an ensemble that the suite did not start");
    let help = if has_commands {
        "leave out the fault: commands end, start and pause servers, but cut no links between them"
    } else {
        "leave out the fault or `connect`: servers that others rely on are never disturbed. Those that may be broken \
         take commands of your own: --hosts FILE (docs/operating.md)"
    };
    let is_wrong = draft.places.has("connect") && needs.reaches_servers() && !by_command;
    is_wrong.then(|| sink.error(fault.span.clone(), message, help))
}

fn containers(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let name = fault.card.name;
    let is_wrong = draft.places.has("compose") && !draft.places.has("connect");
    let message = format!(
        "`{name}` drops what one server sends to another, and Docker cannot: it takes a server off its network altogether"
    );
    let help = "use `isolate`, or leave out `compose`: the suite's own servers have networks that can be cut";
    (is_wrong && fault.card.needs == Capability::Links).then(|| sink.error(fault.span.clone(), message, help))
}

/// How many servers there are is known of those that the suite starts; of containers their file says it.
fn servers(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (name, least) = (fault.card.name, fault.card.least_servers);
    let is_own = !draft.places.has("connect") && !draft.places.has("compose");
    let servers = draft.ensemble.servers.filter(|_| is_own)?;
    match fault.target() {
        _ if servers < least => sink.error(
            fault.span.clone(),
            format!("`{name}` needs at least {least} servers, but `servers` is {servers}"),
            format!("leave it out, or write servers = {least} under `[ensemble]`"),
        ),
        Target::Server(number) if number > servers => sink.error(
            value_of(fault, "server"),
            format!("there is no server {number}: `servers` is {servers}"),
            format!("write a number from 1 to {servers}"),
        ),
        Target::Word("follower") if servers == 1 => sink.error(
            value_of(fault, "target"),
            "one server has no `follower`: `servers` is 1",
            "hit the `leader`, or write servers = 3 under `[ensemble]`",
        ),
        _ => {}
    }
    None
}

fn contender(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let Target::Contender(number) = fault.target() else { return None };
    let fewest = draft.fewest_contenders()?;
    let message =
        format!("there is no contender {number} among {}, who are counted from 0", contenders(fewest));
    let help = format!("write a number from 0 to {}", fewest - 1);
    (number >= fewest).then(|| sink.error(value_of(fault, "contender"), message, help))
}

fn needed_key(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let needed = field(Section::Top, fault.card.needs_key?)?;
    let message = format!("without `{}` there is nothing for `{}` to act on", needed.name, fault.card.name);
    let help = format!("add a line such as {} at the top", needed.example);
    (!draft.places.has(needed.name)).then(|| sink.error(fault.span.clone(), message, help))
}

/// Everything has begun and ended before the measured phase is over.
fn phase(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (whole, name, said) = (draft.said.duration?, fault.card.name, &fault.said);
    let at = said.at.unwrap_or_default();
    if at >= whole {
        let message =
            format!("`{name}` fires at {}, but the measured phase lasts {}", written(at), written(whole));
        let help = "let it fire earlier, or give a longer `duration` at the top of the file";
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
        "let it begin earlier, last shorter or fire less often, or give a longer `duration` at the top";
    // What takes no time must at least begin within the phase.
    let is_late = end > whole || end == whole && said.duration.is_none();
    is_late.then(|| sink.error(value_of(fault, key), message, help))
}

/// The longest that it can take from when it first might fire until it has ended.
fn lasting(fault: &FaultDraft<'_>) -> Duration {
    let said = &fault.said;
    let more = said.times.unwrap_or(1).saturating_sub(1);
    let starts = said.every.unwrap_or_default().saturating_mul(more);
    starts + said.jitter.unwrap_or_default() + said.duration.unwrap_or_default()
}

/// A fault that waits for more acquisitions than there will be never fires.
fn acquisitions(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (after, each) = (fault.said.after_acquisitions?, draft.said.acquisitions?);
    let fewest = draft.fewest_contenders()?;
    let all = each.saturating_mul(u64::try_from(fewest).unwrap_or(u64::MAX));
    let each = counted(each, "acquisition", "acquisitions");
    let message = format!("{} of {each} each are done after {all} of them", contenders(fewest));
    let help = format!("write less than {all}, or give more `acquisitions` at the top");
    (after >= all).then(|| sink.error(value_of(fault, "after_acquisitions"), message, help))
}

/// What is long enough as written may not be once it is scaled.
fn scaled(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) -> Option<()> {
    let (scale, value) = (draft.said.time_scale?, draft.places.value("time_scale")?);
    let name = fault.card.name;
    for (key, time) in [("duration", fault.said.duration), ("every", fault.said.every)] {
        let Some(time) = time.filter(|time| time.mul_f64(scale) < SHORTEST) else { continue };
        let (time, least) = (written(time), written(SHORTEST));
        let message = format!("`time_scale` makes `{key}` {time} of `{name}` shorter than {least}");
        sink.error(value.clone(), message, format!("scale less, or give it a longer `{key}`"));
    }
    None
}
