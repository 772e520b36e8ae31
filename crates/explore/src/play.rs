//! Runs one schedule: starts the contenders, delivers their messages one by one with the schedule's faults, and
//! inspects the remaining nodes.

mod faults;
mod interleaving;
mod verdict;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::cast::{Command, Order, Wanted};
use super::judged::Deed;
use super::names::contender_name;
use super::outcome::{Fault, Nodes, Outcome};
use super::schedule::{Choice, Decision, Footprint, Schedule};
use super::stage::{Contender, Direction, Stage, Status, Unexplored, waits_longest};
use super::world::World;
use zklockbench_core::catalog::Mode;
use zklockbench_core::error::Error;
use zklockbench_record::StepKind;
use zklockbench_zk::session_of;

/// Trace text of an acquisition.
pub const HOLDS: &str = "holds the lock";
/// Name of the event that ends a hold.
pub const RELEASES: &str = "releases";
/// Maximum number of messages in a schedule, without polls.
const MOST_MOVES: u64 = 20_000;

/// Maximum duration of a schedule, as a multiple of `stuck_after`.
const LONGEST: u32 = 8;
/// Time without progress after which a polling contender counts as stuck, as a multiple of `stuck_after`.
const POLLS: u32 = 2;
/// Timeout of an acquire that should time out. It is longer than any contender takes to reach an event.
const TIMES_OUT_AFTER: Duration = Duration::from_millis(1_500);
/// Interval at which messages are forwarded while clients close their sessions.
const CLEARS_EVERY: Duration = Duration::from_millis(50);
/// Divisor of `stuck_after`. After the resulting time without progress, contenders get their next command even if
/// messages are still arriving.
const PATIENCE: u32 = 4;

/// A schedule in progress.
struct Play<'s, 'w> {
    stage: Stage<'w>,
    schedule: &'s Schedule,
    /// Decisions not yet taken.
    open: Vec<Decision>,
    /// Decisions taken, each with the length of the trace at that time.
    taken: Vec<(Decision, usize)>,
    path: String,
    /// Contender of the last fault or choice. Its messages are delivered first.
    first: usize,
    choices: Vec<(Vec<Choice>, usize)>,
    events: Vec<(usize, String)>,
    wanted: VecDeque<String>,
    /// The contender that was stuck.
    stuck: Option<usize>,
    /// Contender that gives up waiting, and when.
    gives_up: Option<(usize, Instant)>,
    /// Whether the stuck contender ignored its cancellation or timeout.
    is_deaf: bool,
    /// Reasons why decisions had no effect.
    missed: Vec<String>,
}

/// Runs a schedule until it ends or `stopped` completes. `usually_left` contains the nodes that remain after an
/// undisturbed run, if known.
///
/// # Errors
///
/// If this host has no free port.
pub async fn play(
    world: &mut World,
    schedule: &Schedule,
    usually_left: Option<&Nodes>,
    stopped: impl Future<Output = ()>,
) -> Result<Outcome, Error> {
    let path = world.next().await?;
    let mut stage = Stage::new(world, &path, schedule.contenders + 1, &schedule.readers);
    let contenders = stage.all.iter_mut().take(schedule.contenders);
    contenders.for_each(|one| one.acquires_again = schedule.acquires_again);
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
        gives_up: None,
        is_deaf: false,
        missed: Vec::new(),
    };
    let limit = LONGEST * play.stage.world.pace.stuck_after;
    let played = tokio::select! {
        biased;
        played = play.whole(usually_left) => played,
        () = stopped => Err(Unexplored("the exploration was stopped".into())),
        () = tokio::time::sleep(limit) => Err(Unexplored(format!("the schedule did not finish within {limit:?}"))),
    };
    let driver_failed = play.driver_failure();
    let played = match (play.stage.let_links_go().await, played) {
        (Err(why), Ok(_)) => Err(why),
        (_, played) => played,
    };
    let mut outcome = play.outcome(played);
    if driver_failed.is_some() {
        outcome.unexplored = driver_failed;
        outcome.fault.take_if(|fault| *fault != Fault::Violated);
    }
    // Nodes that cannot be removed in time remain until the end of the exploration.
    let _ = tokio::time::timeout(limit, play.clear()).await;
    // A driver may exit when its sessions end.
    let late = play.stage.world.cast.driver_failures();
    if let Some(end) = late.into_iter().find(|end| !end.exited) {
        outcome.unexplored.get_or_insert(end.why);
    }
    Ok(outcome)
}

/// State after the contenders have finished.
#[derive(Default)]
struct Aftermath {
    left: Nodes,
    /// Remaining nodes beyond the usual ones.
    beyond: Vec<String>,
    is_blocked: bool,
}

impl Play<'_, '_> {
    async fn whole(&mut self, usually_left: Option<&Nodes>) -> Result<Aftermath, Unexplored> {
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
            if self.stuck.is_some() || self.polls_in_vain() || !(self.step().await? || self.lingers().await) {
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
        self.wait_while(contender, &Status::Opening, 2 * self.stage.world.pace.stuck_after).await;
        self.stage.all[contender].is_free = false;
        self.stage.has_one_client_each()?;
        match &self.stage.all[contender].status {
            Status::Idle => Ok(()),
            Status::Done(Some(why)) => Err(Unexplored(format!("{} has {why}", contender_name(contender)))),
            _ => Err(Unexplored(format!("{} did not open a session in time", contender_name(contender)))),
        }
    }

    /// Forwards messages while the contender has the given status, for at most `within`.
    async fn wait_while(&mut self, contender: usize, status: &Status, within: Duration) {
        let until = Instant::now() + within;
        while self.stage.all[contender].status == *status && Instant::now() < until {
            self.stage.pass_on();
            self.stage.wait_until(until).await;
        }
    }

    /// Delivers one message or gives one command. Returns whether there was anything to do.
    async fn step(&mut self) -> Result<bool, Unexplored> {
        if let Some((contender, direction)) = self.next_message() {
            self.message(contender, direction).await?;
            return Ok(true);
        }
        if self.stage.held_since.is_some() {
            self.stage.wait_with_links().await?;
            return Ok(true);
        }
        if self.schedule.order.is_some() {
            return self.choose().await;
        }
        self.direct().await
    }

    /// Returns the next message to deliver. Messages to contenders come before messages to the server, polls come
    /// last, and the contender of the last fault comes first. With an order, requests are left to `choose`.
    fn next_message(&self) -> Option<(usize, Direction)> {
        let count = self.stage.all.len();
        let ranked = || std::iter::once(self.first).chain((0..count).filter(|other| *other != self.first));
        let front = |one: usize, direction| self.stage.all[one].front(direction);
        let to_client = ranked().find(|one| front(*one, Direction::ToClient).is_some());
        let to_server = || {
            let has = |one: &usize| front(*one, Direction::ToServer).is_some_and(|next| !next.is_poll);
            ranked().find(has).or_else(|| self.next_poll())
        };
        match to_client {
            Some(one) => Some((one, Direction::ToClient)),
            None if self.schedule.order.is_some() => None,
            None => Some((to_server()?, Direction::ToServer)),
        }
    }

    async fn message(&mut self, contender: usize, direction: Direction) -> Result<(), Unexplored> {
        let Some(pending) = self.stage.all[contender].front(direction) else { return Ok(()) };
        if pending.is_poll {
            self.stage.deliver(contender, direction, false);
            return Ok(());
        }
        let name = pending.name.clone();
        match self.due(contender, &name) {
            Some(decision) => self.fault(contender, direction, &decision).await,
            None => {
                self.note_event(contender, name);
                self.stage.deliver(contender, direction, false);
                Ok(())
            }
        }
    }

    /// Records an event as a possible position of a fault. Events of the newcomer are ignored.
    fn note_event(&mut self, contender: usize, name: String) {
        if contender < self.schedule.contenders {
            self.events.push((contender, name));
        }
    }

    /// Takes the decision for an event, if there is one. The contender's messages are then delivered first.
    fn due(&mut self, contender: usize, event: &str) -> Option<Decision> {
        let due = self.open.iter().position(|decision| decision.at == event)?;
        self.first = contender;
        let decision = self.open.remove(due);
        self.taken.push((decision.clone(), self.stage.trace.len()));
        Some(decision)
    }

    fn ask(&mut self, contender: usize) {
        self.stage.note(contender, StepKind::Deed, "asks for the lock");
        self.stage.asks(contender);
        self.stage.touch(contender, &format!("{} asks", contender_name(contender)));
        let is_first = self.stage.all[contender].asked == 1;
        let timeout = (is_first && self.times_out(contender)).then_some(TIMES_OUT_AFTER);
        if let Some(timeout) = timeout {
            self.gives_up = Some((contender, Instant::now() + timeout));
        }
        let mode = if self.schedule.readers.contains(&contender) { Mode::Read } else { Mode::Write };
        let order = Order::Acquire(Wanted { mode, timeout });
        self.stage.world.cast.send(Command::Order(contender, order));
        self.stage.moves += 1;
    }

    /// Releases the lock, unless a fault is due at that event.
    async fn end_hold(&mut self, holder: usize) -> Result<(), Unexplored> {
        let name = format!("{}: {RELEASES}", contender_name(holder));
        if self.stage.all[holder].asked == 1
            && self.gives_up.is_some_and(|(waiter, _)| waiter == holder)
            && self.taken.iter().any(|(decision, _)| decision.act.gives_up())
        {
            self.missed.push(format!("{} got the lock before its wait ended", contender_name(holder)));
        }
        match self.due(holder, &name) {
            Some(decision) => self.fault(holder, Direction::ToServer, &decision).await,
            None => {
                self.note_event(holder, name);
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
        self.stage.world.cast.send(Command::Order(contender, Order::Release));
        self.stage.moves += 1;
    }

    /// Gives the next command when no message is in flight, in this order: start contenders, end
    /// abandoned waits, acquire again after faults, end outages, release holders, end delays, resume frozen
    /// contenders, let a newcomer try the lock. Returns whether there was a command to give.
    async fn direct(&mut self) -> Result<bool, Unexplored> {
        let with =
            |status: Status| self.stage.all.iter().position(|one| one.status == status && !one.is_frozen);
        if let Some(next) = with(Status::Idle) {
            self.ask(next);
            return Ok(true);
        }
        if let Some(waiter) = self.is_to_give_up() {
            self.gives_up = None;
            if !self.wait_ends(waiter).await {
                (self.stuck, self.is_deaf) = (Some(waiter), true);
            }
            return Ok(true);
        }
        if let Some(again) = self.stage.all.iter().position(Contender::may_ask_again) {
            self.ask(again);
            return Ok(true);
        }
        let holder = with(Status::Holding);
        // Let contenders reconnect while another contender holds the lock, because their recovery may break that
        // hold. A disconnected holder releases the lock before it reconnects.
        if !holder.is_some_and(|holder| self.stage.all[holder].is_away) && self.end_outage() {
            return Ok(true);
        }
        if let Some(holder) = holder {
            if self.is_worth_a_newcomer(holder) {
                self.open(self.schedule.contenders).await?;
            } else {
                self.end_hold(holder).await?;
            }
            return Ok(true);
        }
        if self.end_delay() || self.thaw() {
            return Ok(true);
        }
        let newcomer = self.schedule.contenders;
        if self.stage.all[newcomer].status != Status::Absent || waits_longest(&self.stage.all).is_some() {
            return Ok(false);
        }
        self.open(newcomer).await?;
        Ok(true)
    }

    /// Returns the contender that is still waiting although its wait was cancelled or timed out, if any.
    fn is_to_give_up(&self) -> Option<usize> {
        let (waiter, end) = self.gives_up?;
        let one = &self.stage.all[waiter];
        let goes_on = one.status == Status::Acquiring && one.asked == 1 && !one.is_frozen && !one.is_away;
        (goes_on && end <= Instant::now()).then_some(waiter)
    }

    /// Returns whether a newcomer should try the lock during this hold. If a node was wrongly deleted or the holder
    /// acquired the lock again after a fault, only a newcomer can reveal whether the hold excludes other contenders.
    fn is_worth_a_newcomer(&self, holder: usize) -> bool {
        let newcomer = self.schedule.contenders;
        let is_again = self.stage.all[holder].asked > 1 && !self.taken.is_empty();
        holder != newcomer
            && self.stage.all[newcomer].status == Status::Absent
            && (is_again || self.stage.is_trespassed)
    }

    /// Ends a delay because its event did not happen; returns whether there was a delay.
    fn end_delay(&mut self) -> bool {
        let delayed = self.stage.all.iter().position(|one| one.delayed.is_some());
        let Some((_, past)) = delayed.and_then(|one| self.stage.all[one].delayed.take()) else {
            return false;
        };
        self.missed.push(format!("`{past}` did not arrive while the message was delayed"));
        true
    }

    /// Lets a disconnected contender connect again; returns whether there was one.
    fn end_outage(&mut self) -> bool {
        let Some(away) = self.stage.all.iter().position(|one| one.is_away) else { return false };
        self.fault_noted(away, "can connect again");
        self.stage.comes_back(away);
        true
    }

    fn thaw(&mut self) -> bool {
        let Some(frozen) = self.stage.all.iter().position(|one| one.is_frozen) else { return false };
        self.fault_noted(frozen, "resumes");
        self.stage.all[frozen].is_frozen = false;
        self.stage.touch(frozen, "resumes");
        self.stage.world.cast.send(Command::Thaw(frozen));
        true
    }

    /// Makes the next choice of the order; returns whether a choice was left.
    async fn choose(&mut self) -> Result<bool, Unexplored> {
        let Some(choices) = self.wanted_choices().await else { return Ok(true) };
        if choices.is_empty() {
            let poll = self.next_poll();
            poll.iter().for_each(|poller| self.stage.deliver(*poller, Direction::ToServer, false));
            return Ok(poll.is_some());
        }
        let wanted = self.wanted.pop_front();
        let index = match &wanted {
            Some(name) => choices.iter().position(|choice| choice.name == *name).ok_or_else(|| {
                let there: Vec<&str> = choices.iter().map(|choice| choice.name.as_str()).collect();
                Unexplored(format!("expected the choice `{name}`, found {}", there.join(", ")))
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

    /// Returns the present choices. If the wanted choice is missing, waits for contenders that pause before their next
    /// request. Returns `None` once there is a message to deliver first.
    async fn wanted_choices(&mut self) -> Option<Vec<Choice>> {
        let until = Instant::now() + self.stage.world.pace.stuck_after;
        loop {
            let choices = self.choices_now();
            let is_there = |name: &String| choices.iter().any(|choice| choice.name == *name);
            let pauses = |one: &Contender| one.is_busy() && one.front(Direction::ToServer).is_none();
            if choices.is_empty()
                || self.wanted.front().is_none_or(is_there)
                || !self.stage.all.iter().any(pauses)
                || Instant::now() >= until
            {
                return Some(choices);
            }
            self.stage.wait_until(until).await;
            self.stage.pass_on();
            if self.next_message().is_some() {
                return None;
            }
        }
    }

    /// Returns the first contender with an undelivered poll. Polls are delivered only if there is nothing else to
    /// deliver: they change nothing, and a contender that polls would otherwise keep a holder from its release.
    fn next_poll(&self) -> Option<usize> {
        self.stage.all.iter().position(|one| one.front(Direction::ToServer).is_some_and(|next| next.is_poll))
    }

    fn choices_now(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for contender in 0..self.schedule.contenders {
            let one = &self.stage.all[contender];
            if one.status == Status::Holding {
                let footprint = Footprint { contender, is_global: true, ..Footprint::default() };
                choices
                    .push(Choice { name: format!("{}: {RELEASES}", contender_name(contender)), footprint });
            } else if let Some(pending) = one.front(Direction::ToServer).filter(|next| !next.is_poll) {
                let footprint = pending
                    .request
                    .as_ref()
                    .map_or_else(Footprint::default, |request| Footprint::of(contender, request));
                choices.push(Choice { name: pending.name.clone(), footprint });
            }
        }
        choices
    }

    /// Returns whether there has been no progress for a while although messages are arriving, as with a polling waiter.
    fn only_polls(&self) -> bool {
        self.stage.held_since.is_none()
            && self.stage.progressed.elapsed() > self.stage.world.pace.stuck_after / PATIENCE
    }

    /// Returns whether there has been no progress for too long although messages are arriving. Records the stuck
    /// contender.
    fn polls_in_vain(&mut self) -> bool {
        let is_late = self.stage.progressed.elapsed() > POLLS * self.stage.world.pace.stuck_after;
        let is_held_up =
            |one: &Contender| one.status == Status::Holding || one.is_frozen || one.delayed.is_some();
        let is_held_up = self.stage.all.iter().any(is_held_up);
        if is_late && !is_held_up {
            self.stuck = waits_longest(&self.stage.all);
        }
        self.stuck.is_some()
    }

    /// Waits for unfinished contenders while no message is in flight. Returns whether anything arrived; if not, the
    /// contender that has waited longest is stuck.
    async fn lingers(&mut self) -> bool {
        let Some(waiting) = waits_longest(&self.stage.all) else { return false };
        let moves = self.stage.moves;
        let until = Instant::now() + self.stage.world.pace.stuck_after;
        while Instant::now() < until && self.stage.moves == moves {
            self.stage.wait_until(until).await;
            self.stage.pass_on();
            if self.next_message().is_some() || !self.choices_now().is_empty() || self.next_poll().is_some() {
                return true;
            }
        }
        if self.stage.moves != moves {
            return true;
        }
        self.stuck = Some(waiting);
        false
    }

    /// Lists the remaining nodes and checks whether they block a new contender.
    async fn look_back(&mut self, usually_left: Option<&Nodes>) -> Result<Aftermath, Unexplored> {
        let mut left = self.list().await?;
        let is_stuck = self.stuck.is_some();
        let beyond = |left: &Nodes| match usually_left {
            Some(usual) => left.beyond(usual),
            None if is_stuck => left.beyond(&Nodes::default()),
            None => Vec::new(),
        };
        // A release may return before its node is deleted.
        if !is_stuck && !beyond(&left).is_empty() {
            self.stage.all.iter_mut().for_each(|one| one.is_free = true);
            self.stage.forward_until(Instant::now() + self.stage.world.pace.stuck_after / PATIENCE).await;
            left = self.list().await?;
        }
        let beyond = beyond(&left);
        let is_blocked = self.schedule.order.is_some()
            && !is_stuck
            && !beyond.is_empty()
            && !self.newcomer_is_served().await?;
        Ok(Aftermath { left, beyond, is_blocked })
    }

    /// Lists the remaining nodes below the lock.
    async fn list(&self) -> Result<Nodes, Unexplored> {
        let nodes = self.stage.world.cast.list(&self.path).await;
        let nodes = nodes.map_err(|failure| Unexplored(failure.to_string()))?;
        let newcomer = format!("{}.", contender_name(self.schedule.contenders));
        let mut left = Nodes::default();
        for (path, owner) in nodes.iter().filter(|(path, _)| *path != self.path) {
            let names = if session_of(*owner).is_some() { &mut left.ephemeral } else { &mut left.persistent };
            names.push(self.stage.names.node(path).replace(&newcomer, "newcomer."));
        }
        left.ephemeral.sort();
        left.persistent.sort();
        Ok(left)
    }

    /// Returns whether a newcomer's acquire ends after an order. The newcomer's requests are not part of the order, so
    /// they are delivered immediately.
    async fn newcomer_is_served(&mut self) -> Result<bool, Unexplored> {
        let newcomer = self.schedule.contenders;
        self.open(newcomer).await?;
        self.stage.all.iter_mut().for_each(|one| one.is_free = true);
        self.ask(newcomer);
        self.wait_while(newcomer, &Status::Acquiring, self.stage.world.pace.stuck_after).await;
        Ok(self.stage.all[newcomer].status != Status::Acquiring)
    }

    async fn clear(&mut self) {
        if self.stage.world.lock.driven.is_some() {
            self.close_clients().await;
        }
        // Close the sessions before their connections. Otherwise, their nodes would remain until the session timeout.
        for contender in 0..self.stage.all.len() {
            if self.stage.all[contender].conn.is_some() {
                let _ = self.stage.end_session(contender).await;
            }
        }
        if self.stage.world.lock.driven.is_none() {
            let _ = self.stage.world.cast.clear().await;
        }
        while self.stage.world.cast.reports.try_recv().is_ok() {}
        // Nodes that cannot be removed now are removed later with the exploration's own directory.
        let _ = self.stage.world.cast.remove_all(&self.path).await;
    }

    /// Closes the sessions of the driver's clients. Messages are forwarded meanwhile, because a client that gets no
    /// answers would be killed.
    async fn close_clients(&mut self) {
        for one in &mut self.stage.all {
            (one.is_free, one.is_frozen, one.delayed) = (true, false, None);
        }
        let mut cleared = std::pin::pin!(self.stage.world.cast.clear());
        loop {
            self.stage.pass_on();
            let soon = Instant::now() + CLEARS_EVERY;
            tokio::select! {
                biased;
                _ = &mut cleared => return,
                () = self.stage.wait_until(soon) => {}
            }
        }
    }
}
