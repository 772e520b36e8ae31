//! Faults that cannot be: by themselves, in this scenario, or on this ensemble.

use std::ops::Range;
use std::time::Duration;

use super::draft::{Draft, LoadWord};
use super::faults::FaultDraft;
use super::fields::{SHORTEST, Section, field};
use super::keys::KeySpan;
use super::read::{Sink, written};
use crate::words::catalog::fault::{Capability, Ends, Target, Targets};
use crate::words::units::{contenders, counted};

pub(super) fn check(draft: &Draft<'_>, sink: &Sink<'_>) {
    for fault in &draft.faults {
        target(fault, sink);
        start(fault, sink);
        duration(fault, sink);
        repetition(fault, sink);
        load(fault, draft, sink);
        ensemble(fault, draft, sink);
        contender(fault, draft, sink);
        needed_key(fault, draft, sink);
        phase(fault, draft, sink);
        acquisitions(fault, draft, sink);
        scaled(fault, draft, sink);
    }
}

/// The keys among these that were given, in the order of the file.
fn given<'a>(fault: &'a FaultDraft<'_>, keys: &[&'static str]) -> Vec<(&'static str, &'a KeySpan)> {
    let mut given: Vec<_> = keys.iter().filter_map(|key| Some((*key, fault.places.get(key)?))).collect();
    given.sort_by_key(|(_, place)| place.key.start);
    given
}

fn value_of(fault: &FaultDraft<'_>, key: &str) -> Range<usize> {
    fault.places.get(key).map_or_else(|| fault.span.clone(), |place| place.value.clone())
}

fn target(fault: &FaultDraft<'_>, sink: &Sink<'_>) {
    let name = fault.card.name;
    let wrong: &[&str] = match fault.card.targets {
        Targets::Servers => &["contender"],
        Targets::Contenders => &["server"],
        Targets::Fixed => &["target", "server", "contender"],
    };
    let given = given(fault, &["target", "server", "contender"]);
    for (key, place) in given.iter().filter(|(key, _)| wrong.contains(key)) {
        let message = match fault.card.targets {
            Targets::Fixed => format!("`{name}` takes no `{key}`: its kind says whom it hits"),
            targets => format!("`{name}` hits {}, so it takes no `{key}`", targets.noun()),
        };
        sink.error(place.key.clone(), message, "leave the key out");
    }
    let mut right = given.iter().filter(|(key, _)| !wrong.contains(key));
    if let (Some((one, _)), Some((other, place))) = (right.next(), right.next()) {
        let message = format!("both `{one}` and `{other}` say whom `{name}` hits");
        sink.error(place.key.clone(), message, "keep one of them");
    }
}

fn start(fault: &FaultDraft<'_>, sink: &Sink<'_>) {
    let name = fault.card.name;
    match given(fault, &["at", "after_acquisitions"]).as_slice() {
        [] => sink.error(
            fault.span.clone(),
            format!("nothing says when `{name}` fires"),
            "add `at = \"5s\"`, or `after_acquisitions = 100`",
        ),
        [(one, _), (other, place)] => sink.error(
            place.key.clone(),
            format!("both `{one}` and `{other}` say when `{name}` fires"),
            "keep one of them",
        ),
        _ => {}
    }
}

fn duration(fault: &FaultDraft<'_>, sink: &Sink<'_>) {
    let name = fault.card.name;
    match (fault.card.ends, fault.places.get("duration")) {
        (Ends::Healed, None) => sink.error(
            fault.span.clone(),
            format!("`{name}` has no `duration`, after which it is healed"),
            "add a line such as duration = \"2s\"",
        ),
        (Ends::ByItself, Some(place)) => sink.error(
            place.key.clone(),
            format!("`{name}` ends by itself, so it takes no `duration`"),
            "leave the key out",
        ),
        _ => {}
    }
}

/// A fault must have ended before it fires again.
fn repetition(fault: &FaultDraft<'_>, sink: &Sink<'_>) {
    let name = fault.card.name;
    let said = &fault.said;
    match (said.times, fault.places.get("every")) {
        (Some(times @ 2..), None) => sink.error(
            value_of(fault, "times"),
            format!("`{name}` fires {times} times, but nothing says how far apart"),
            "add a line such as every = \"10s\"",
        ),
        (Some(1), Some(place)) => sink.error(
            place.key.clone(),
            format!("`every` has no effect on `{name}`, which fires once"),
            "leave the key out, or add times = 2",
        ),
        _ => {}
    }
    let (Some(every), Some(jitter)) = (said.every, said.jitter) else { return };
    let busy = said.duration.unwrap_or_default() + jitter;
    if said.times > Some(1) && every <= busy {
        let parts = if jitter.is_zero() { "`duration`" } else { "`duration` and `jitter` together" };
        sink.error(
            value_of(fault, "every"),
            format!("`every` {} is not longer than {parts}, {}", written(every), written(busy)),
            format!("give a longer `every`: `{name}` would fire again before it has ended"),
        );
    }
}

fn load(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    if draft.load == Some(LoadWord::Batch) {
        let message =
            format!("`{}` cannot fire in a batch: its totals are exact only undisturbed", fault.card.name);
        sink.error(fault.span.clone(), message, "leave the fault out, or use load = \"closed\"");
    }
}

fn ensemble(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let name = fault.card.name;
    if draft.places.contains_key("connect") {
        let by_command = draft.has_host_commands && fault.card.needs == Capability::Processes;
        if fault.card.needs.reaches_servers() && !by_command {
            let message = format!(
                "`{name}` disturbs servers, but `connect` names an ensemble that the suite did not start"
            );
            let help = if draft.has_host_commands {
                "leave out the fault: commands end, start and pause servers, but cut no links between them"
            } else {
                "leave out the fault or `connect`: servers that others rely on are never disturbed. Those that may be broken \
                 take commands of your own: --hosts FILE (docs/hosts.md)"
            };
            sink.error(fault.span.clone(), message, help);
        }
        return;
    }
    if draft.places.contains_key("compose") {
        if fault.card.needs == Capability::Links {
            let message = format!(
                "`{name}` drops what one server sends to another, and Docker cannot: it takes a server off its network \
                 altogether"
            );
            let help = "use `isolate`, or leave out `compose`: the suite's own servers have networks that can be cut";
            sink.error(fault.span.clone(), message, help);
        }
        // How many servers there are is in the Compose file.
        return;
    }
    let Some(servers) = draft.servers.and_then(|count| usize::try_from(count).ok()) else { return };
    if servers < fault.card.least_servers {
        let message = format!(
            "`{name}` needs at least {} servers, but `servers` is {servers}",
            fault.card.least_servers
        );
        let help =
            format!("leave it out, or write servers = {} under `[ensemble]`", fault.card.least_servers);
        sink.error(fault.span.clone(), message, help);
        return;
    }
    match fault.target() {
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
}

fn contender(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let Target::Contender(number) = fault.target() else { return };
    let Some(fewest) = draft.contenders.iter().flatten().min() else { return };
    if number >= *fewest {
        sink.error(
            value_of(fault, "contender"),
            format!("there is no contender {number} among {}, who are counted from 0", contenders(*fewest)),
            format!("write a number from 0 to {}", fewest - 1),
        );
    }
}

fn needed_key(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let Some(needed) = fault.card.needs_key.and_then(|key| field(Section::Top, key)) else { return };
    if !draft.places.contains_key(needed.name) {
        let message =
            format!("without `{}` there is nothing for `{}` to act on", needed.name, fault.card.name);
        sink.error(fault.span.clone(), message, format!("add a line such as {} at the top", needed.example));
    }
}

/// Everything has begun and ended before the measured phase is over.
fn phase(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(whole), name, said) = (draft.duration, fault.card.name, &fault.said) else { return };
    let at = said.at.unwrap_or_default();
    if at >= whole {
        let message =
            format!("`{name}` fires at {}, but the measured phase lasts {}", written(at), written(whole));
        let help = "let it fire earlier, or give a longer `duration` at the top of the file";
        sink.error(value_of(fault, "at"), message, help);
        return;
    }
    let end = at + lasting(fault);
    // What takes no time must at least begin within the phase.
    if end > whole || end == whole && said.duration.is_none() {
        let (when, key) = match (said.at, said.duration) {
            (None, _) => ("may take", "duration"),
            (Some(_), Some(_)) => ("may last until", "duration"),
            (Some(_), None) => ("may fire at", "at"),
        };
        sink.error(
            value_of(fault, key),
            format!("`{name}` {when} {}, but the measured phase lasts {}", written(end), written(whole)),
            "let it begin earlier, last shorter or fire less often, or give a longer `duration` at the top",
        );
    }
}

/// The longest that it can take from when it first might fire until it has ended.
fn lasting(fault: &FaultDraft<'_>) -> Duration {
    let said = &fault.said;
    let more = said.times.unwrap_or(1).saturating_sub(1);
    let starts = said.every.unwrap_or_default().saturating_mul(more);
    starts + said.jitter.unwrap_or_default() + said.duration.unwrap_or_default()
}

/// A fault that waits for more acquisitions than there will be never fires.
fn acquisitions(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(after), Some(each)) = (fault.said.after_acquisitions, draft.acquisitions) else { return };
    let Some(fewest) = draft.contenders.iter().flatten().min() else { return };
    let all = each.saturating_mul(u64::try_from(*fewest).unwrap_or(u64::MAX));
    if after >= all {
        sink.error(
            value_of(fault, "after_acquisitions"),
            format!(
                "{} of {} each are done after {all} of them",
                contenders(*fewest),
                counted(each, "acquisition", "acquisitions")
            ),
            format!("write less than {all}, or give more `acquisitions` at the top"),
        );
    }
}

/// What is long enough as written may not be once it is scaled.
fn scaled(fault: &FaultDraft<'_>, draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(scale), Some(place)) = (draft.time_scale, draft.places.get("time_scale")) else { return };
    for (key, time) in [("duration", fault.said.duration), ("every", fault.said.every)] {
        let Some(time) = time.filter(|time| time.mul_f64(scale) < SHORTEST) else { continue };
        let message = format!(
            "`time_scale` makes `{key}` {} of `{}` shorter than {}",
            written(time),
            fault.card.name,
            written(SHORTEST)
        );
        sink.error(place.value.clone(), message, format!("scale less, or give it a longer `{key}`"));
    }
}
