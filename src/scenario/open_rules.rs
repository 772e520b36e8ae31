//! Combinations of an open load that cannot be.

use std::time::Duration;

use super::arrivals::Arrivals;
use super::draft::{Draft, LoadWord};
use super::fields::{ARRIVALS_MAX, OPEN_KEYS, PROCESSES};
use super::keys::KeySpan;
use super::nearest::listed;
use super::open::Comes;
use super::read::{Sink, written};
use super::rules::no_think;

pub(super) fn check(draft: &Draft<'_>, sink: &Sink<'_>) {
    match draft.load {
        Some(LoadWord::Open) => {
            rate(draft, sink);
            stop(draft, sink);
            refused(draft, sink);
            warm_up(draft, sink);
            replay(draft, sink);
            count(draft, sink);
        }
        Some(LoadWord::Closed | LoadWord::Batch) => {
            for (name, place) in OPEN_KEYS.iter().filter_map(|name| Some((name, draft.places.get(name)?))) {
                let message = format!("`{name}` is for an open load");
                sink.idle(&[*name], place.key.clone(), message, "leave the key out, or use load = \"open\"");
            }
        }
        None => {}
    }
}

fn load_key(draft: &Draft<'_>) -> std::ops::Range<usize> {
    draft.places.get("load").map_or(draft.start..draft.start, |place| place.key.clone())
}

fn rate(draft: &Draft<'_>, sink: &Sink<'_>) {
    let Some(process) = draft.open.arrivals.as_ref().and_then(Comes::process) else { return };
    let given: Vec<&KeySpan> =
        ["rate", "rate_each"].iter().filter_map(|name| draft.places.get(name)).collect();
    match (process.takes_rate, given.as_slice()) {
        (true, []) => sink.missing(
            load_key(draft),
            "nothing sets the arrival rate",
            "add `rate = 40`, in arrivals a second, or `rate_each = 0.2` for each contender",
        ),
        (true, [one, other]) => {
            let later = if one.key.start > other.key.start { one } else { other };
            sink.idle(
                &["rate", "rate_each"],
                later.key.clone(),
                "both `rate` and `rate_each` set the arrival rate",
                "keep one of them",
            );
        }
        (false, given) => {
            let takers = PROCESSES.iter().filter(|process| process.takes_rate).map(|process| process.name);
            let help = format!("leave the key out, or use another arrival process: {}", listed(takers));
            for place in given {
                let message = format!("`{}` sets its own arrival rate", process.name);
                sink.error(place.key.clone(), message, help.as_str());
            }
        }
        _ => {}
    }
}

fn stop(draft: &Draft<'_>, sink: &Sink<'_>) {
    let lasts_by_itself = matches!(draft.open.arrivals, None | Some(Comes::Replay(_)));
    if draft.places.contains_key("duration") || lasts_by_itself {
        return;
    }
    sink.missing(load_key(draft), "nothing ends the measured phase", "add a line such as duration = \"60s\"");
}

/// What an open load has no use for.
fn refused(draft: &Draft<'_>, sink: &Sink<'_>) {
    let refuse = |name: &'static str, why: &str| {
        if let Some(KeySpan { value, .. }) = draft.places.get(name) {
            sink.idle(&[name], value.clone(), why, "leave the key out, or use load = \"closed\"");
        }
    };
    refuse("acquisitions", "an open load has no `acquisitions`: it ends by the clock");
    no_think(draft, "an open load has no `think`: arrivals come whether or not a contender is free", sink);
    if draft.ramp_up.is_some_and(|time| !time.is_zero()) {
        refuse("ramp_up", "an open load has no `ramp_up`: all contenders are ready before the first arrival");
    }
}

/// What changes from the beginning of the measured phase needs to know when that is.
fn warm_up(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(comes), Some(warm_up)) = (&draft.open.arrivals, draft.warm_up) else { return };
    let Some(process) = comes.process() else { return };
    let changes = matches!(comes, Comes::Day { .. } | Comes::Ramp { .. } | Comes::Steps(_));
    if matches!(comes, Comes::Replay(_)) {
        for (name, time) in [("warm_up", Some(warm_up)), ("warm_up_at_most", draft.warm_up_at_most)] {
            if let (Some(time), Some(place)) = (time, draft.places.get(name))
                && !time.is_zero()
            {
                let message = format!("a replay has no `{name}`: every arrival of its file is measured");
                sink.error(place.value.clone(), message, "leave the key out");
            }
        }
    } else if let (true, Some(most), Some(place)) =
        (changes, draft.warm_up_at_most, draft.places.get("warm_up_at_most"))
        && most > warm_up
    {
        let message =
            format!("`{}` starts with the measured phase, which a longer warm-up would delay", process.name);
        sink.error(place.value.clone(), message, "leave the key out, or give a longer `warm_up`");
    }
}

fn replay(draft: &Draft<'_>, sink: &Sink<'_>) {
    let (Some(Comes::Replay(replay)), Some(locks)) = (&draft.open.arrivals, draft.locks) else { return };
    let named = replay.locks();
    if named > locks {
        let place = draft.places.get("locks").or_else(|| draft.places.get("arrivals"));
        let span = place.map_or(draft.start..draft.start, |place| place.value.clone());
        let message = format!("{} asks for {named} locks, but `locks` is {locks}", replay.file.display());
        sink.error(span, message, format!("write locks = {named}"));
    }
    let scale = draft.time_scale.unwrap_or(1.0);
    if draft.duration.is_none()
        && replay.lasts().mul_f64(scale) < super::fields::SHORTEST
        && let Some(place) = draft.places.get("time_scale")
    {
        let message = format!(
            "`time_scale` makes the {} of {} shorter than {}",
            written(replay.lasts()),
            replay.file.display(),
            written(super::fields::SHORTEST)
        );
        sink.error(place.value.clone(), message, "scale less");
    }
}

/// Neither no arrival at all nor more than there is room for. `time_scale` changes nothing about their number.
fn count(draft: &Draft<'_>, sink: &Sink<'_>) {
    let Some(comes) = draft.open.arrivals.clone() else { return };
    let Some(process) = comes.process() else { return };
    let (rate, key) = match (draft.open.rate, draft.open.rate_each) {
        _ if !process.takes_rate => (None, "arrivals"),
        (Some(rate), _) => (Some(rate), "rate"),
        (None, Some(each)) => {
            let most = draft.contenders.iter().flatten().max().copied().unwrap_or(1);
            (Some(each * most as f64), "rate_each")
        }
        (None, None) => return,
    };
    let (Some(arrivals), Some(place)) = (comes.at(rate), draft.places.get(key)) else { return };
    let Some(measured) = draft.duration.or_else(|| draft.open.replayed()) else { return };
    let warm_up = draft.warm_up_at_most();
    let most = arrivals.at_most(warm_up, measured);
    if most > ARRIVALS_MAX as f64 {
        let message = format!("there would be up to {most:.0} arrivals, more than {ARRIVALS_MAX}");
        sink.error(place.value.clone(), message, "lower the rate, or measure for a shorter time");
    } else if arrivals.mean_rate(measured) <= 0.0 && !matches!(arrivals, Arrivals::Replay(_)) {
        let message = format!("at these rates nothing arrives within {}", written(measured));
        sink.error(place.value.clone(), message, "give at least one rate above 0");
    }
}

impl Draft<'_> {
    /// How long the warm-up may take: what was said, or what that is by default.
    pub(super) fn warm_up_at_most(&self) -> Duration {
        let warm_up = self.warm_up.unwrap_or_default();
        let changes = self.load == Some(LoadWord::Open)
            && !matches!(
                self.open.arrivals,
                None | Some(Comes::Constant | Comes::Poisson | Comes::Bursts { .. })
            );
        self.warm_up_at_most.unwrap_or(if changes { warm_up } else { warm_up.saturating_mul(4) })
    }
}
