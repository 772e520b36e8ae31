//! Runs one schedule: starts the contenders, delivers their messages one by one with the schedule's faults, and
//! inspects the remaining nodes.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::judged::{Deed, Intrusion};
use super::names::contender_name;
use super::schedule::{Act, Choice, Decision, Footprint, Schedule, TraceStep};
use super::stage::{Direction, Stage, Status, Unexplored};
use super::wire::{OperationKind, Request};
use super::world::World;
use zklockbench_core::error::Error;
use zklockbench_core::worded;
use zklockbench_record::StepKind;

/// How a trace states that a contender has entered.
pub const HOLDS: &str = "holds the lock";
/// Name of the event that ends a hold.
pub const RELEASES: &str = "releases";
/// More messages than any schedule needs. A lock that polls forever is not explored further.
const MOST_MOVES: u64 = 4_000;

/// Longest duration of a schedule, as a multiple of `stuck_after`.
const LONGEST: u32 = 8;
/// Time without progress after which a contender that still sends messages is stuck, as a multiple of `stuck_after`.
const POLLS: u32 = 2;
/// Fraction of `stuck_after` after which contenders are asked for their next action although messages still arrive.
const PATIENCE: u32 = 4;

worded! {
    /// A broken promise of the lock.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fault by word {
        /// A contender entered while another held the lock with a live session.
        Violated = "violated",
        /// A contender waits forever although the lock is free.
        Stuck = "stuck",
        /// A contender has finished, but its node still exists.
        NodeLeft = "node left",
    }
}

/// Outcome of a schedule.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub schedule: Schedule,
    pub trace: Vec<TraceStep>,
    pub fault: Option<Fault>,
    /// What happened, in one sentence; empty if all promises were kept.
    pub sentence: String,
    /// Index in the trace of the first entry that was a violation.
    pub entry: Option<usize>,
    pub zombies: u64,
    /// Why the schedule could not run.
    pub unexplored: Option<String>,
    /// Why the schedule's fault or order is impossible.
    pub impossible: Option<String>,
    /// The choices at each step of an order, with the index of the chosen one.
    pub choices: Vec<(Vec<Choice>, usize)>,
    /// Names of the delivered events in order, each with the contender's number.
    pub events: Vec<(usize, String)>,
    /// Remaining nodes of finished contenders, by name.
    pub left: Vec<String>,
}

impl Outcome {
    /// Equal for runs with the same messages in the same order.
    pub fn class(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.trace.hash(&mut hasher);
        hasher.finish()
    }
}

/// A schedule in progress.
struct Play<'s, 'w> {
    stage: Stage<'w>,
    schedule: &'s Schedule,
    /// Decisions not yet taken.
    open: Vec<Decision>,
    /// Decisions taken, each with the length of the trace at that time.
    taken: Vec<(Decision, usize)>,
    path: String,
    /// Contender of the last fault or choice, whose messages are delivered first.
    first: usize,
    choices: Vec<(Vec<Choice>, usize)>,
    events: Vec<(usize, String)>,
    wanted: VecDeque<String>,
    /// The first contender that was stuck.
    stuck: Option<usize>,
    /// Decisions that had no effect.
    missed: Vec<String>,
}

/// Runs a schedule. `usually_left` is the number of nodes that finished contenders keep in an undisturbed run.
///
/// # Errors If this host has no free port.
pub async fn play(world: &mut World, schedule: &Schedule, usually_left: usize) -> Result<Outcome, Error> {
    let path = world.next().await?;
    let stage = Stage::new(world, &path, schedule.contenders + 1);
    let mut play = Play {
        stage,
        schedule,
        open: schedule.decisions.clone(),
        taken: Vec::new(),
        path,
        first: 0,
        choices: Vec::new(),
        events: Vec::new(),
        wanted: schedule.order.iter().flatten().cloned().collect(),
        stuck: None,
        missed: Vec::new(),
    };
    let limit = LONGEST * play.stage.world.pace.stuck_after;
    let played = tokio::time::timeout(limit, play.whole(usually_left)).await;
    let late = |_| Err(Unexplored(format!("it did not end within {limit:?}")));
    let played = played.unwrap_or_else(late);
    let outcome = play.outcome(played, usually_left);
    // Nodes that cannot be removed in time remain until the end of the exploration.
    let _ = tokio::time::timeout(limit, play.clear()).await;
    Ok(outcome)
}

/// State after the contenders have finished.
#[derive(Default)]
struct Aftermath {
    left: Vec<String>,
    is_blocked: bool,
}

impl Play<'_, '_> {
    async fn whole(&mut self, usually_left: usize) -> Result<Aftermath, Unexplored> {
        self.stage.world.cast.create(&self.path).await.map_err(|failure| Unexplored(failure.to_string()))?;
        for contender in 0..self.schedule.contenders {
            self.open(contender).await?;
        }
        if self.schedule.order.is_some() {
            (0..self.schedule.contenders).for_each(|contender| self.ask(contender));
        }
        loop {
            self.stage.settle().await?;
            if self.stage.moves > MOST_MOVES {
                return Err(Unexplored(format!("more than {MOST_MOVES} messages")));
            }
            if self.only_polls() && self.schedule.order.is_none() && self.direct().await? {
                continue;
            }
            if self.polls_in_vain() || !(self.step().await? || self.lingers().await) {
                break;
            }
        }
        self.look_back(usually_left).await
    }

    async fn open(&mut self, contender: usize) -> Result<(), Unexplored> {
        let address = self.stage.world.net.addresses[contender].clone();
        self.stage.all[contender].status = Status::Opening;
        self.stage.all[contender].is_free = true;
        self.stage.world.cast.open(contender, &address, &self.path);
        let until = Instant::now() + 2 * self.stage.world.pace.stuck_after;
        while self.stage.all[contender].status == Status::Opening && Instant::now() < until {
            self.stage.pass_on();
            self.stage.wait_until(until).await;
        }
        self.stage.all[contender].is_free = false;
        match &self.stage.all[contender].status {
            Status::Idle => Ok(()),
            other => Err(Unexplored(format!("{} has no session: {other:?}", contender_name(contender)))),
        }
    }

    /// Makes one move: delivers a message, or gives the contenders a command. Returns whether a move was possible.
    async fn step(&mut self) -> Result<bool, Unexplored> {
        if let Some((contender, direction)) = self.next_message() {
            self.message(contender, direction).await?;
            return Ok(true);
        }
        if self.schedule.order.is_some() {
            return self.choose();
        }
        self.direct().await
    }

    /// The next message by rank: messages to contenders come before messages to the server, and the contender of the
    /// last fault comes first. With an order, requests are choices.
    fn next_message(&self) -> Option<(usize, Direction)> {
        let count = self.stage.all.len();
        let ranked = || std::iter::once(self.first).chain((0..count).filter(|other| *other != self.first));
        let find = |direction| ranked().find(|one| self.stage.all[*one].front(direction).is_some());
        let to_client = find(Direction::ToClient).map(|one| (one, Direction::ToClient));
        let to_server = || find(Direction::ToServer).map(|one| (one, Direction::ToServer));
        if self.schedule.order.is_some() { to_client } else { to_client.or_else(to_server) }
    }

    async fn message(&mut self, contender: usize, direction: Direction) -> Result<(), Unexplored> {
        let Some(name) = self.stage.all[contender].front(direction).map(|pending| pending.name.clone())
        else {
            return Ok(());
        };
        match self.due(contender, &name) {
            Some(decision) => self.fault(contender, direction, &decision).await,
            None => {
                self.events.push((contender, name));
                self.stage.deliver(contender, direction, false);
                Ok(())
            }
        }
    }

    /// Takes the decision for this event of a contender, whose messages are delivered first from now on.
    fn due(&mut self, contender: usize, event: &str) -> Option<Decision> {
        let due = self.open.iter().position(|decision| decision.at == event)?;
        self.first = contender;
        let decision = self.open.remove(due);
        self.taken.push((decision.clone(), self.stage.trace.len()));
        Some(decision)
    }

    async fn fault(
        &mut self,
        contender: usize,
        direction: Direction,
        decision: &Decision,
    ) -> Result<(), Unexplored> {
        let contender = decision.victim.unwrap_or(contender);
        match &decision.act {
            Act::LoseRequest => {
                self.fault_noted(contender, "the request is lost, and the connection breaks");
                self.stage.lose_request(contender);
            }
            Act::LoseReply => {
                self.fault_noted(contender, "the reply will be lost, and the connection breaks");
                self.events.push((contender, decision.at.clone()));
                self.stage.deliver(contender, direction, true);
            }
            Act::Cut => {
                self.events.push((contender, decision.at.clone()));
                self.stage.deliver(contender, direction, false);
                self.fault_noted(contender, "the connection breaks");
                self.stage.disconnect(contender);
            }
            Act::Expire => {
                self.fault_noted(contender, "the session ends");
                self.stage.end_session(contender).await?;
            }
            Act::Kill => {
                self.fault_noted(contender, "is killed, and its session ends");
                self.kill(contender).await?;
            }
            Act::Freeze => {
                self.fault_noted(contender, "is frozen, and its session ends");
                self.stage.world.cast.freeze(contender);
                self.stage.all[contender].is_frozen = true;
                self.stage.end_session(contender).await?;
            }
            Act::Delete => self.delete(contender, decision).await,
            Act::Delay { past } => {
                self.fault_noted(contender, format!("`{}` is delayed", decision.at));
                self.stage.all[contender].delayed = Some((direction, past.clone()));
            }
        }
        Ok(())
    }

    fn fault_noted(&mut self, contender: usize, what: impl Into<String>) {
        self.stage.note(contender, StepKind::Fault, what);
    }

    async fn kill(&mut self, contender: usize) -> Result<(), Unexplored> {
        self.stage.world.net.refuse(contender);
        self.stage.world.cast.kill(contender);
        self.stage.end_session(contender).await?;
        self.stage.all[contender].is_dead = true;
        self.stage.all[contender].status = Status::Done(Some("killed".into()));
        self.stage.disconnect(contender);
        Ok(())
    }

    /// Deletes the contender's newest node from outside. A contender without its node has no right to the lock.
    async fn delete(&mut self, contender: usize, decision: &Decision) {
        let node = self.stage.names.newest_of(contender).map(str::to_owned);
        let deleted = match &node {
            Some(path) => self.stage.world.cast.delete(path).await.is_ok(),
            None => false,
        };
        if !deleted {
            self.missed.push(format!("{} had no node at `{}`", contender_name(contender), decision.at));
            return;
        }
        self.fault_noted(contender, "its node is deleted by another program");
        self.stage.lose_right(contender);
        self.stage.note_write();
    }

    fn ask(&mut self, contender: usize) {
        self.stage.note(contender, StepKind::Deed, "asks for the lock");
        self.stage.deeds.add(contender, Deed::Asks);
        self.stage.set(contender, Status::Acquiring);
        self.stage.touch(contender, &format!("{} asks", contender_name(contender)));
        self.stage.world.cast.acquire(contender);
        self.stage.moves += 1;
    }

    /// Releases, unless a fault is due during the hold.
    async fn end_hold(&mut self, holder: usize) -> Result<(), Unexplored> {
        let name = format!("{}: {RELEASES}", contender_name(holder));
        match self.due(holder, &name) {
            Some(decision) => self.fault(holder, Direction::ToServer, &decision).await,
            None => {
                self.events.push((holder, name));
                self.release(holder);
                Ok(())
            }
        }
    }

    fn release(&mut self, contender: usize) {
        self.stage.note(contender, StepKind::Deed, RELEASES);
        self.stage.deeds.add(contender, Deed::Leaves);
        self.stage.set(contender, Status::Releasing);
        self.stage.touch(contender, &format!("{} releases", contender_name(contender)));
        self.stage.world.cast.release(contender);
        self.stage.moves += 1;
    }

    /// Once no message is in flight, gives the next command: start contenders, then release holders, then resume
    /// stopped contenders. Returns whether there was a command to give.
    async fn direct(&mut self) -> Result<bool, Unexplored> {
        let contenders = 0..self.schedule.contenders;
        let with = |status: Status| {
            contenders
                .clone()
                .find(|one| self.stage.all[*one].status == status && !self.stage.all[*one].is_frozen)
        };
        if let Some(next) = with(Status::Idle) {
            self.ask(next);
            return Ok(true);
        }
        if let Some(holder) = with(Status::Holding) {
            self.end_hold(holder).await?;
            return Ok(true);
        }
        Ok(self.end_delay() || self.thaw())
    }

    /// Delivers a delayed message because the event that it waited for did not happen.
    fn end_delay(&mut self) -> bool {
        let delayed = self.stage.all.iter().position(|one| one.delayed.is_some());
        let Some((_, past)) = delayed.and_then(|one| self.stage.all[one].delayed.take()) else {
            return false;
        };
        self.missed.push(format!("`{past}` did not arrive while the message was delayed"));
        true
    }

    fn thaw(&mut self) -> bool {
        let Some(frozen) = self.stage.all.iter().position(|one| one.is_frozen) else { return false };
        self.fault_noted(frozen, "goes on");
        self.stage.all[frozen].is_frozen = false;
        self.stage.touch(frozen, "goes on");
        self.stage.world.cast.thaw(frozen);
        true
    }

    /// Makes the next choice of an order; returns whether there was one.
    fn choose(&mut self) -> Result<bool, Unexplored> {
        let choices = self.choices_now();
        if choices.is_empty() {
            return Ok(false);
        }
        let wanted = self.wanted.pop_front();
        let index = match &wanted {
            Some(name) => choices.iter().position(|choice| choice.name == *name).ok_or_else(|| {
                let there: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
                Unexplored(format!("`{name}` was next, but the choices were {}", there.join(", ")))
            })?,
            None => choices.iter().position(|choice| choice.footprint.contender == self.first).unwrap_or(0),
        };
        let contender = choices[index].footprint.contender;
        self.first = contender;
        if self.stage.all[contender].status == Status::Holding {
            self.release(contender);
        } else {
            self.events.push((contender, choices[index].name.clone()));
            self.stage.deliver(contender, Direction::ToServer, false);
        }
        self.choices.push((choices, index));
        Ok(true)
    }

    fn choices_now(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for contender in 0..self.schedule.contenders {
            let one = &self.stage.all[contender];
            if one.status == Status::Holding {
                let footprint = Footprint { contender, is_global: true, ..Footprint::default() };
                choices
                    .push(Choice { name: format!("{}: {RELEASES}", contender_name(contender)), footprint });
            } else if let Some(pending) = one.front(Direction::ToServer) {
                let footprint = pending
                    .request
                    .as_ref()
                    .map_or_else(Footprint::default, |request| footprint(contender, request));
                choices.push(Choice { name: pending.name.clone(), footprint });
            }
        }
        choices
    }

    /// The first contender that is waiting.
    fn waiting(&self) -> Option<usize> {
        self.stage.all.iter().position(|one| {
            !one.is_over() && !matches!(one.status, Status::Absent | Status::Idle | Status::Holding)
        })
    }

    /// Whether messages have arrived for a while without any progress, as from a waiter that polls.
    fn only_polls(&self) -> bool {
        self.stage.progressed.elapsed() > self.stage.world.pace.stuck_after / PATIENCE
    }

    /// Whether contenders have sent messages without progress for too long, as a polling waiter does.
    fn polls_in_vain(&mut self) -> bool {
        let is_late = self.stage.progressed.elapsed() > POLLS * self.stage.world.pace.stuck_after;
        let is_held_up = self.stage.all.iter().any(|one| one.is_frozen || one.delayed.is_some());
        if is_late && !is_held_up {
            self.stuck = self.waiting();
        }
        self.stuck.is_some()
    }

    /// Waits for unfinished contenders although no message is in flight. Returns whether anything arrived; otherwise
    /// the contender is stuck.
    async fn lingers(&mut self) -> bool {
        let Some(waiting) = self.waiting() else { return false };
        let moves = self.stage.moves;
        let until = Instant::now() + self.stage.world.pace.stuck_after;
        while Instant::now() < until && self.stage.moves == moves {
            self.stage.wait_until(until).await;
            self.stage.pass_on();
            if self.next_message().is_some() || !self.choices_now().is_empty() {
                return true;
            }
        }
        if self.stage.moves != moves {
            return true;
        }
        self.stuck = Some(waiting);
        false
    }

    /// The remaining nodes, and whether they block a new contender.
    async fn look_back(&mut self, usually_left: usize) -> Result<Aftermath, Unexplored> {
        let nodes = self.stage.world.cast.list(&self.path).await;
        let nodes = nodes.map_err(|failure| Unexplored(failure.to_string()))?;
        let owned = nodes.iter().filter(|(_, owner)| *owner != 0);
        let mut left: Vec<String> = owned.map(|(path, _)| self.stage.names.node(path)).collect();
        left.sort();
        if self.stuck.is_some() || left.len() <= usually_left {
            return Ok(Aftermath { left, is_blocked: false });
        }
        Ok(Aftermath { left, is_blocked: !self.newcomer_gets_in().await? })
    }

    async fn newcomer_gets_in(&mut self) -> Result<bool, Unexplored> {
        let newcomer = self.schedule.contenders;
        self.open(newcomer).await?;
        self.stage.all.iter_mut().for_each(|one| one.is_free = true);
        self.ask(newcomer);
        let until = Instant::now() + self.stage.world.pace.stuck_after;
        while self.stage.all[newcomer].status == Status::Acquiring && Instant::now() < until {
            self.stage.wait_until(until).await;
            self.stage.pass_on();
        }
        Ok(self.stage.all[newcomer].status == Status::Holding)
    }

    fn outcome(&mut self, played: Result<Aftermath, Unexplored>, usually_left: usize) -> Outcome {
        let judged = self.stage.deeds.judge();
        let exclusion = judged.clone().unwrap_or_default();
        self.missed.extend(self.open.iter().map(|decision| format!("`{}` did not arrive", decision.at)));
        let unexplored = played.as_ref().err().map(|why| why.0.clone()).or_else(|| judged.err());
        let aftermath = played.unwrap_or_default();
        let fault = if exclusion.violations > 0 {
            Some(Fault::Violated)
        } else if self.stuck.is_some() || aftermath.is_blocked {
            Some(Fault::Stuck)
        } else {
            (aftermath.left.len() > usually_left).then_some(Fault::NodeLeft)
        };
        let entry = exclusion.first.map(|first| self.entry_step(first));
        let first = exclusion.first.zip(entry);
        let sentence = fault.map_or_else(String::new, |fault| self.sentence(fault, first, &aftermath.left));
        Outcome {
            schedule: self.schedule.clone(),
            trace: std::mem::take(&mut self.stage.trace),
            fault,
            sentence,
            entry,
            zombies: exclusion.zombies,
            unexplored,
            impossible: self.missed.first().cloned(),
            choices: std::mem::take(&mut self.choices),
            events: std::mem::take(&mut self.events),
            left: aftermath.left,
        }
    }

    /// Index of that intrusion in the trace.
    fn entry_step(&self, entry: Intrusion) -> usize {
        let trace = self.stage.trace.iter().enumerate();
        let mut entries = trace.filter(|(_, step)| step.what == HOLDS).map(|(number, _)| number);
        entries.nth(entry.entry).unwrap_or(self.stage.trace.len())
    }

    /// `first` is the first violation, with its step in the trace. Only faults before it can have caused it.
    fn sentence(&self, fault: Fault, first: Option<(Intrusion, usize)>, left: &[String]) -> String {
        let until = first.map_or(usize::MAX, |(_, step)| step);
        let happened = self.taken.iter().filter(|(_, at)| *at < until);
        let cause = happened.map(|(decision, _)| cause(decision)).collect::<Vec<_>>().join(", and ");
        let after = if cause.is_empty() { String::new() } else { format!("{cause}; then ") };
        let nodes = if left.is_empty() { String::new() } else { format!("; left: {}", left.join(", ")) };
        let what = match fault {
            Fault::Violated => {
                let name = |who: Option<usize>, other: &str| who.map_or(other.to_owned(), contender_name);
                let intruder = name(first.map(|(first, _)| first.intruder), "a contender");
                let holder = name(first.and_then(|(first, _)| first.holder), "another contender");
                format!("{intruder} entered while {holder} held the lock")
            }
            Fault::Stuck => {
                let who = self.stuck.map_or_else(|| "a newcomer".to_owned(), contender_name);
                format!("{who} waited forever, although no contender held the lock{nodes}")
            }
            Fault::NodeLeft => format!("every contender had finished{nodes}"),
        };
        format!("{after}{what}")
    }

    async fn clear(&mut self) {
        // Sessions are closed at the server before their connections; otherwise, their nodes would remain until the
        // timeout.
        for contender in 0..self.stage.all.len() {
            if self.stage.all[contender].conn.is_some() {
                let _ = self.stage.end_session(contender).await;
            }
        }
        self.stage.world.cast.clear().await;
        // Nodes that cannot be removed are below the exploration's own directory and are removed with it.
        let _ = self.stage.world.cast.remove_all(&self.path).await;
    }
}

fn footprint(contender: usize, request: &Request) -> Footprint {
    let mut footprint = Footprint { contender, ..Footprint::default() };
    for operation in &request.operations {
        let (path, parent) = (operation.path.clone(), parent(&operation.path));
        match operation.kind {
            OperationKind::Create { .. } | OperationKind::Delete => footprint.writes.extend([path, parent]),
            OperationKind::Write => footprint.writes.push(path),
            OperationKind::Read => footprint.reads.push(path),
            OperationKind::Session => {}
        }
    }
    footprint
}

fn parent(path: &str) -> String {
    path.rsplit_once('/').map_or_else(String::new, |(parent, _)| parent.to_owned())
}

/// A fault as a clause: `the reply to "c1: create own node" was lost`.
fn cause(decision: &Decision) -> String {
    let (who, what) = decision.at.split_once(": ").unwrap_or(("", &decision.at));
    let (hit, event) = match decision.victim {
        None => (who.to_owned(), format!("`{what}`")),
        Some(victim) => (contender_name(victim), format!("{who}'s `{what}`")),
    };
    match &decision.act {
        Act::LoseRequest => format!("{who}'s `{what}` was lost"),
        Act::LoseReply => format!("{who}'s `{what}` was carried out, but its reply was lost"),
        Act::Cut => format!("{hit}'s connection broke after {event}"),
        Act::Expire => format!("{hit}'s session ended before {event}"),
        Act::Kill => format!("{hit} was killed before {event}"),
        Act::Freeze => format!("{hit} was frozen before {event} until its session had ended"),
        Act::Delete => format!("another program deleted {hit}'s node before {event}"),
        Act::Delay { past } => format!("{who}'s `{what}` came after `{past}`"),
    }
}
