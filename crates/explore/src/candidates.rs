//! Schedules to try: every single fault at every event of an undisturbed run, orders of requests, and pairs of
//! faults.

use std::collections::HashSet;

use super::outcome::Outcome;
use super::play::RELEASES;
use super::schedule::{Act, Choice, Decision, Move, Schedule};

/// Kind of event, derived from its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Request,
    Reply,
    Notification,
    /// End of a contender's hold.
    Release,
}

fn kind(event: &str) -> EventKind {
    if event.ends_with(", reply") {
        EventKind::Reply
    } else if event.ends_with(&format!(": {RELEASES}")) {
        EventKind::Release
    } else if event.contains(": notification, ") {
        EventKind::Notification
    } else {
        EventKind::Request
    }
}

/// Returns whether the event ends a hold.
pub fn is_release(event: &str) -> bool {
    kind(event) == EventKind::Release
}

/// Returns all single faults at the events of a run.
pub fn single_faults(events: &[(usize, String)]) -> Vec<Decision> {
    let mut all = Vec::new();
    for (number, (contender, event)) in events.iter().enumerate() {
        let mut add = |act| all.push(Decision::new(act, event));
        match kind(event) {
            EventKind::Request => {
                add(Act::LoseRequest);
                add(Act::LoseReply);
            }
            EventKind::Notification => {
                add(Act::LoseReply);
                add(Act::Cut);
            }
            EventKind::Reply | EventKind::Release => add(Act::Cut),
        }
        [Act::Expire, Act::Kill, Act::Freeze].into_iter().for_each(&mut add);
        if has_node(&events[..number], *contender) {
            add(Act::Delete);
        }
        let later =
            events[number + 1..].iter().filter(|(other, past)| other != contender && !is_release(past));
        if !is_release(event) {
            later.for_each(|(_, past)| add(Act::Delay { past: past.clone() }));
        }
    }
    all
}

/// Returns all single faults except delays.
pub fn immediate(events: &[(usize, String)]) -> Vec<Decision> {
    single_faults(events).into_iter().filter(|decision| !decision.act.is_delay()).collect()
}

/// Returns delays of each event past each later acquisition by another contender. What the delayed contender read
/// before may no longer be true.
pub fn delays_past_acquisitions(events: &[(usize, String)]) -> Vec<Decision> {
    // A contender's last event before its release belongs to its acquisition.
    let of_acquisition = |(at, (holder, _)): (usize, &(usize, String))| {
        events[..at].iter().rposition(|(who, event)| who == holder && !is_release(event))
    };
    let releases = events.iter().enumerate().filter(|(_, (_, event))| is_release(event));
    let acquisitions: Vec<usize> = releases.filter_map(of_acquisition).collect();
    let mut all = Vec::new();
    for (number, (contender, event)) in events.iter().enumerate().filter(|(_, (_, event))| !is_release(event))
    {
        let later = acquisitions.iter().filter(|at| **at > number && events[**at].0 != *contender);
        all.extend(later.map(|at| Decision::new(Act::Delay { past: events[*at].1.clone() }, event)));
    }
    all
}

/// Returns the faults that break a connection.
fn broken(events: &[(usize, String)]) -> impl Iterator<Item = Decision> {
    let singles = single_faults(events).into_iter();
    singles.filter(|one| matches!(one.act, Act::LoseRequest | Act::LoseReply | Act::Cut))
}

/// Returns, for each connection fault, a variant that keeps the contender disconnected for a while.
pub fn outages(events: &[(usize, String)]) -> Vec<Decision> {
    broken(events).map(|decision| Decision { stays_away: true, ..decision }).collect()
}

/// Returns, for each connection fault, a variant that moves the contender's session to another server.
pub fn moves(events: &[(usize, String)]) -> Vec<Decision> {
    broken(events).map(|decision| Decision { moves: Some(Move::Other), ..decision }).collect()
}

/// Returns the moves to a server that has not applied the contender's last write.
pub fn stale_moves(events: &[(usize, String)]) -> Vec<Decision> {
    let lost = broken(events).filter(|one| one.act == Act::LoseReply && is_write(&one.at));
    lost.map(|decision| Decision { moves: Some(Move::Stale), ..decision }).collect()
}

/// Returns whether the request, named with or without its contender, changes a node.
pub fn is_write(request: &str) -> bool {
    let (_, what) = request.split_once(": ").unwrap_or(("", request));
    ["create", "delete", "setData", "multi("].iter().any(|write| what.starts_with(write))
}

/// Returns decisions that end a contender's wait: one at each event from the contender's first event to its last
/// event before it releases the lock. Events before all `others` have started are omitted. A contender that sends no
/// messages while it waits is assumed to wait at least until another contender releases the lock.
pub fn abandoned_waits(
    events: &[(usize, String)],
    waiter: usize,
    others: &[usize],
    ways: &[Act],
) -> Vec<Decision> {
    let first = |who: usize| events.iter().position(|(contender, _)| *contender == who);
    let released = events.iter().position(|(contender, event)| *contender == waiter && is_release(event));
    let handed_on = events.iter().position(|(contender, event)| *contender != waiter && is_release(event));
    let wait = &events[..released.unwrap_or(events.len())];
    let last = wait.iter().rposition(|(contender, _)| *contender == waiter);
    let begins = first(waiter).into_iter().chain(handed_on).min();
    let all_began =
        others.iter().map(|other| first(*other)).chain([begins]).map(|at| at.unwrap_or(usize::MAX)).max();
    let ends = last.into_iter().chain(handed_on).max().map_or(0, |last| last + 1);
    let wait = wait.get(all_began.unwrap_or(usize::MAX)..ends).unwrap_or_default();
    let at = |way: &Act, contender: usize, event: &str| {
        let decision = Decision::new(way.clone(), event);
        if contender == waiter { decision } else { decision.of(waiter) }
    };
    ways.iter().flat_map(|way| wait.iter().map(move |(who, event)| at(way, *who, event))).collect()
}

/// Returns decisions to kill the other contenders that have a node, at each event of a run. A node may disappear
/// between two messages of a contender that watches it, while a third contender holds the lock.
pub fn ends_of_others(events: &[(usize, String)], contenders: usize) -> Vec<Decision> {
    let mut all = Vec::new();
    for (number, (contender, event)) in events.iter().enumerate() {
        let others =
            (0..contenders).filter(|other| other != contender && has_node(&events[..number], *other));
        all.extend(others.map(|other| Decision::new(Act::Kill, event).of(other)));
    }
    all
}

/// Returns whether the contender created its node in these events and has not deleted it.
fn has_node(events: &[(usize, String)], contender: usize) -> bool {
    let own = || events.iter().filter(|(who, event)| *who == contender && kind(event) == EventKind::Reply);
    own().any(|(_, event)| event.contains("create") && event.contains("own node"))
        && !own().any(|(_, event)| event.contains("delete"))
}

/// Returns schedules that add a second fault to `first`. Faults at events that are missing from the undisturbed run
/// come first, because locks usually fail during recovery.
pub fn pairs(first: &Outcome, undisturbed: &[(usize, String)]) -> Vec<Schedule> {
    let usual: HashSet<&str> = undisturbed.iter().map(|(_, event)| event.as_str()).collect();
    let [decision] = first.schedule.decisions.as_slice() else { return Vec::new() };
    let at = first.events.iter().position(|(_, event)| *event == decision.at).map_or(0, |at| at + 1);
    let seconds = immediate(&first.events[at.min(first.events.len())..]);
    let (recovering, others): (Vec<_>, Vec<_>) =
        seconds.into_iter().partition(|second| !usual.contains(second.at.as_str()));
    let both = |second| Schedule { decisions: vec![decision.clone(), second], ..first.schedule.clone() };
    recovering.into_iter().chain(others).map(both).collect()
}

/// An order to try: its first choices, and the actions that need not come next because equivalent orders were already
/// tried.
#[derive(Debug, Clone)]
pub struct OpenOrder {
    pub prefix: Vec<String>,
    asleep: Vec<Choice>,
}

impl OpenOrder {
    pub fn start() -> Self {
        Self { prefix: Vec::new(), asleep: Vec::new() }
    }

    /// Returns the orders that differ from a run with this prefix in one later choice, and whether the run itself was
    /// new, i.e. not equivalent to an earlier run. Uses the sleep sets of Godefroid's partial-order reduction.
    pub fn alternatives(&self, choices: &[(Vec<Choice>, usize)]) -> (Vec<Self>, bool) {
        let mut open = Vec::new();
        let mut asleep = self.asleep.clone();
        let mut prefix = self.prefix.clone();
        for (choices, made) in choices.iter().skip(self.prefix.len()) {
            let chosen = &choices[*made];
            // Every continuation is equivalent to an order that was already tried.
            if asleep.iter().any(|other| other.name == chosen.name) {
                return (open, false);
            }
            let mut tried = asleep.clone();
            tried.push(chosen.clone());
            for other in choices.iter().filter(|other| other.name != chosen.name) {
                if asleep.iter().any(|sleeping| sleeping.name == other.name) {
                    continue;
                }
                let mut further = prefix.clone();
                further.push(other.name.clone());
                let still = tried.iter().filter(|one| one.footprint.commutes_with(&other.footprint)).cloned();
                open.push(Self { prefix: further, asleep: still.collect() });
                tried.push(other.clone());
            }
            asleep.retain(|one| one.footprint.commutes_with(&chosen.footprint));
            prefix.push(chosen.name.clone());
        }
        (open, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Footprint;

    fn events(names: &[(usize, &str)]) -> Vec<(usize, String)> {
        names.iter().map(|(who, name)| (*who, (*name).to_owned())).collect()
    }

    #[test]
    fn single_faults_include_lost_messages_and_session_ends_at_each_event() {
        let run = events(&[
            (0, "c1: create own node"),
            (0, "c1: create own node, reply"),
            (1, "c2: notification, c1.node1 deleted"),
            (0, "c1: releases"),
        ]);
        let all = single_faults(&run);
        let at = |event: &str| -> Vec<&str> {
            all.iter().filter(|one| one.at == event).map(|one| one.act.name()).collect()
        };
        let ends = ["expired session", "killed process", "frozen process"];
        let found = at("c1: create own node");
        assert_eq!(found, [&["lost request", "lost reply"], &ends[..], &["delayed message"]].concat());
        let found = at("c2: notification, c1.node1 deleted");
        assert_eq!(found, [&["lost reply", "cut connection"], &ends[..]].concat());
        assert_eq!(at("c1: releases"), [&["cut connection"], &ends[..], &["deleted node"]].concat());
    }

    #[test]
    fn events_are_delayed_past_later_acquisitions_of_other_contenders() {
        let run = events(&[
            (0, "c1: create own node, reply"),
            (1, "c2: exists c1.node1"),
            (0, "c1: releases"),
            (0, "c1: delete c1.node1"),
            (2, "c3: create own node, reply"),
            (1, "c2: delete c1.node1"),
            (2, "c3: releases"),
        ]);
        let delayed =
            |event| Decision::new(Act::Delay { past: "c3: create own node, reply".to_owned() }, event);
        let before = ["c1: create own node, reply", "c2: exists c1.node1", "c1: delete c1.node1"];
        assert_eq!(delays_past_acquisitions(&run), before.map(delayed));
    }

    #[test]
    fn other_contenders_are_killed_only_while_they_have_a_node() {
        let run = events(&[
            (1, "c2: create own node"),
            (1, "c2: create own node, reply"),
            (2, "c3: getChildren lock"),
            (1, "c2: delete c2.node1, reply"),
            (2, "c3: exists c2.node1"),
        ]);
        assert_eq!(ends_of_others(&run, 3), [Decision::new(Act::Kill, "c3: getChildren lock").of(1)]);
    }

    #[test]
    fn abandoned_waits_cover_each_event_of_the_wait() {
        let run = events(&[
            (0, "c1: create own node"),
            (1, "c2: create own node"),
            (1, "c2: exists+watch c1.node1"),
            (2, "c3: create own node"),
            (0, "c1: releases"),
            (1, "c2: notification, c1.node1 deleted"),
            (0, "c1: delete c1.node1, reply"),
            (1, "c2: releases"),
            (1, "c2: delete c2.node1"),
        ]);
        let gives_up = |event: &str| Decision::new(Act::GiveUp, event);
        let (released, notified) =
            (gives_up("c1: releases").of(1), gives_up("c2: notification, c1.node1 deleted"));
        let found = abandoned_waits(&run, 1, &[2], &[Act::GiveUp]);
        assert_eq!(found, [gives_up("c3: create own node").of(1), released, notified]);
        assert_eq!(abandoned_waits(&run, 1, &[], &[Act::GiveUp]).len(), 5);
        assert_eq!(abandoned_waits(&run, 1, &[], &[Act::GiveUp, Act::TimeOut]).len(), 10);
        assert_eq!(abandoned_waits(&run, 4, &[], &[Act::GiveUp]), [gives_up("c1: releases").of(4)]);
        assert_eq!(abandoned_waits(&run, 1, &[4], &[Act::GiveUp]), []);
    }

    #[test]
    fn every_connection_fault_has_an_outage_variant() {
        let run = events(&[(0, "c1: create own node"), (0, "c1: create own node, reply")]);
        let all = outages(&run);
        let names: Vec<&str> = all.iter().map(|one| one.act.name()).collect();
        assert_eq!(names, ["lost request", "lost reply", "cut connection"]);
        assert!(all.iter().all(|one| one.stays_away));
    }

    #[test]
    fn moves_follow_connection_faults_and_stale_moves_follow_writes_with_lost_replies() {
        let run = events(&[
            (0, "c1: create own node"),
            (0, "c1: create own node, reply"),
            (0, "c1: getChildren lock"),
        ]);
        let faults = |all: Vec<Decision>| all.iter().map(|one| one.act.name()).collect::<Vec<_>>();
        let moved = ["lost request", "lost reply", "cut connection", "lost request", "lost reply"];
        assert_eq!(faults(moves(&run)), moved);
        let stale = stale_moves(&run);
        assert_eq!(stale.iter().map(|one| one.at.as_str()).collect::<Vec<_>>(), ["c1: create own node"]);
        assert!(stale.iter().chain(&moves(&run)).all(|one| one.mistake().is_none()));
    }

    #[test]
    fn a_node_is_deleted_only_while_it_exists() {
        let run = events(&[
            (0, "c1: create own node"),
            (0, "c1: create own node, reply"),
            (0, "c1: getChildren lock"),
            (0, "c1: delete c1.node1"),
            (0, "c1: delete c1.node1, reply"),
            (0, "c1: sync lock"),
        ]);
        let deleted: Vec<String> =
            single_faults(&run).into_iter().filter(|one| one.act == Act::Delete).map(|one| one.at).collect();
        assert_eq!(deleted, ["c1: getChildren lock", "c1: delete c1.node1", "c1: delete c1.node1, reply"]);
    }

    /// An action's name, and the nodes that it reads and writes.
    type Action<'a> = (&'a str, &'a [&'a str], &'a [&'a str]);

    /// Explores a model of two contenders with these actions and counts the orders tried.
    fn tried(actions: [&[Action<'_>]; 2]) -> usize {
        let choice = |contender: usize, at: usize| {
            let (name, reads, writes) = actions[contender][at];
            let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
            let footprint =
                Footprint { contender, reads: owned(reads), writes: owned(writes), is_global: false };
            Choice { name: format!("c{}: {name}", contender + 1), footprint }
        };
        let mut open = vec![OpenOrder::start()];
        let mut runs = 0;
        while let Some(next) = open.pop() {
            let (mut at, mut choices) = ([0, 0], Vec::new());
            loop {
                let there: Vec<Choice> = (0..2)
                    .filter(|who| at[*who] < actions[*who].len())
                    .map(|who| choice(who, at[who]))
                    .collect();
                if there.is_empty() {
                    break;
                }
                let wanted = next.prefix.get(choices.len());
                let made = wanted.map_or(0, |name| there.iter().position(|one| one.name == *name).unwrap());
                at[there[made].footprint.contender] += 1;
                choices.push((there, made));
            }
            let (further, is_new) = next.alternatives(&choices);
            open.extend(further);
            runs += usize::from(is_new);
        }
        runs
    }

    #[test]
    fn independent_actions_are_tried_in_one_order() {
        let a: &[Action<'_>] = &[("a", &[], &["/a"]), ("b", &[], &["/b"])];
        let b: &[Action<'_>] = &[("c", &[], &["/c"]), ("d", &[], &["/d"])];
        assert_eq!(tried([a, b]), 1);
    }

    #[test]
    fn dependent_actions_are_tried_in_every_order() {
        // Two writers of one node with two actions each: 4! / (2! 2!)
        let same: &[Action<'_>] = &[("x", &[], &["/x"]), ("y", &[], &["/x"])];
        assert_eq!(tried([same, same]), 6);
        // Only the first actions conflict.
        let first: &[Action<'_>] = &[("x", &[], &["/x"]), ("own", &[], &["/1"])];
        let other: &[Action<'_>] = &[("x", &[], &["/x"]), ("own", &[], &["/2"])];
        assert_eq!(tried([first, other]), 2);
    }
}
