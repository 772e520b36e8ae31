//! State of one schedule: its contenders, their connections, messages in flight, and expected replies.

mod incoming;
mod repeats;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::judged::{Deed, Deeds, kind_of};
use super::names::{Names, contender_name};
use super::net::ConnId;
use super::schedule::TraceStep;
use super::wire::{self, Request};
use super::world::World;
use repeats::Repeats;
pub use zklockbench_ensemble::proxy::Direction;
use zklockbench_record::StepKind;
use zklockbench_zk::SessionKey;

/// Time limit for a server's reply. If it is exceeded, the schedule counts as unexplored.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// Event after which a lock may give up its hold.
const HOLDER_RECONNECTED: &str = "a new connection during a hold";
/// Xid of the exploration's own request to close a session.
const CLOSING: [u8; 4] = i32::MAX.to_be_bytes();

/// Why a schedule could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplored(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    Absent,
    Opening,
    Idle,
    Acquiring,
    Holding,
    Releasing,
    /// The contender has finished; contains the reason if the contender did not get the lock.
    Done(Option<String>),
}

/// A received frame that awaits delivery.
#[derive(Debug)]
pub struct Pending {
    pub name: String,
    frame: Vec<u8>,
    pub request: Option<Request>,
    /// Error of a failed request, for the trace.
    refusal: Option<String>,
    kind: StepKind,
    passes: bool,
    /// Whether the message is a poll or its reply. Polls are not numbered or recorded, and faults are never
    /// injected at them, because the number of polls depends on timing.
    pub is_poll: bool,
}

/// A request that awaits the server's reply.
#[derive(Debug)]
pub struct Awaited {
    request: Request,
    name: String,
    pub since: Instant,
    is_doomed: bool,
    is_poll: bool,
}

#[derive(Debug)]
pub struct Conn {
    id: ConnId,
    pub to_server: VecDeque<Pending>,
    pub to_client: VecDeque<Pending>,
    pub awaited: VecDeque<Awaited>,
    /// Unanswered pings; `true` marks the exploration's own pings.
    pings: VecDeque<bool>,
    /// Whether a write since the last ping may have caused notifications.
    is_stale: bool,
    /// Whether the exploration's own `sync` is unanswered.
    is_syncing: bool,
    pinged: Instant,
    server_gone: bool,
}

impl Conn {
    fn queue(&mut self, direction: Direction) -> &mut VecDeque<Pending> {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }
}

#[derive(Debug)]
pub struct Contender {
    pub status: Status,
    /// Time of the last status change.
    since: Instant,
    pub conn: Option<Conn>,
    pub is_frozen: bool,
    pub is_dead: bool,
    /// Whether the contender cannot connect.
    pub is_away: bool,
    /// Whether the contender acquires once more, e.g. because a fault hit it.
    pub acquires_again: bool,
    /// Whether the contender's session is still usable after its last acquire or release.
    pub lives: bool,
    /// The client's current session, unless the client closed it.
    session: Option<SessionKey>,
    /// Whether the client was closed, but its session was not.
    has_left_session: bool,
    /// Connections that another connection of the contender replaced.
    replaced: Vec<ConnId>,
    /// Number of acquires so far.
    pub asked: u32,
    /// Whether the contender has joined the queue or found the lock taken during the current acquire.
    has_arrived: bool,
    /// Contenders that had arrived and were waiting when this contender last asked for the lock.
    before: Vec<usize>,
    /// Whether the contender's messages are delivered immediately.
    pub is_free: bool,
    /// Direction of a delayed message, and the event that ends the delay.
    pub delayed: Option<(Direction, String)>,
    /// Last event that reached the contender, and its time.
    touched: (String, Instant),
    /// Whether the contender was recorded as quiet after that event.
    was_quiet: bool,
    disconnected: Instant,
    /// Whether a fault ended the contender's session or deleted its node, and the contender has no new node yet.
    has_lost_right: bool,
    /// Whether the contender's session has yet to reach another server.
    pub is_moving: bool,
    /// Whether the exploration ended the contender's session.
    session_ended: bool,
    /// Whether a request was answered in a later session.
    is_answered_since: bool,
}

impl Contender {
    fn new(now: Instant) -> Self {
        Self {
            status: Status::Absent,
            since: now,
            conn: None,
            is_frozen: false,
            is_dead: false,
            is_away: false,
            acquires_again: false,
            lives: true,
            session: None,
            has_left_session: false,
            replaced: Vec::new(),
            asked: 0,
            has_arrived: false,
            before: Vec::new(),
            is_free: false,
            delayed: None,
            touched: (String::new(), now),
            was_quiet: false,
            disconnected: now,
            has_lost_right: false,
            is_moving: false,
            session_ended: false,
            is_answered_since: false,
        }
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.status, Status::Opening | Status::Acquiring | Status::Releasing)
    }

    pub fn is_over(&self) -> bool {
        matches!(self.status, Status::Done(_)) || self.is_dead
    }

    /// Returns whether the contender should acquire the lock once more now: it has finished with a live session.
    pub fn may_ask_again(&self) -> bool {
        let has_finished = matches!(self.status, Status::Done(_)) && !self.is_dead && !self.is_away;
        has_finished && self.acquires_again && self.lives && self.asked == 1
    }

    /// Returns whether a driver's report of a lost hold applies to the current hold. If the exploration has ended the
    /// contender's session, the report concerns that session, even if the client now holds the lock in its next one.
    fn may_lose_hold(&self) -> bool {
        self.status == Status::Holding && !self.has_lost_right && !self.session_ended
    }

    pub fn front(&self, direction: Direction) -> Option<&Pending> {
        let conn = self.conn.as_ref().filter(|_| !self.is_frozen)?;
        let queue = match direction {
            Direction::ToServer => &conn.to_server,
            Direction::ToClient => &conn.to_client,
        };
        queue.front().filter(|_| self.delayed.as_ref().is_none_or(|(held, _)| *held != direction))
    }
}

pub struct Stage<'w> {
    pub world: &'w mut World,
    pub names: Names,
    pub all: Vec<Contender>,
    pub trace: Vec<TraceStep>,
    pub deeds: Deeds,
    /// Number of deliveries (except heartbeats and polls) and reports, used to detect that nothing happens.
    pub moves: u64,
    /// Time of the last status change.
    pub progressed: Instant,
    repeats: Repeats,
    /// Whether a contender deleted the node of another contender with a live session.
    pub is_trespassed: bool,
    /// The first contender that acquired the lock out of order, and the contender that had waited before it asked.
    pub overtaken: Option<(usize, usize)>,
    /// The first contender with a failed release, and the reason.
    pub failed_release: Option<(usize, String)>,
    /// Time at which the servers' links were blocked.
    pub held_since: Option<Instant>,
    /// Contender that moved to the stale server and has sent nothing since.
    pub stale_for: Option<usize>,
    /// Contender with two clients.
    two_clients: Option<usize>,
}

impl<'w> Stage<'w> {
    pub fn new(world: &'w mut World, lock: &str, contenders: usize, readers: &[usize]) -> Self {
        let kind = kind_of(&world.lock.entry.card, &world.lock.params);
        let now = Instant::now();
        Self {
            world,
            names: Names::new(lock),
            all: (0..contenders).map(|_| Contender::new(now)).collect(),
            trace: Vec::new(),
            deeds: Deeds::new(kind, readers),
            moves: 0,
            progressed: now,
            repeats: Repeats::default(),
            is_trespassed: false,
            overtaken: None,
            failed_release: None,
            held_since: None,
            stale_for: None,
            two_clients: None,
        }
    }

    pub fn note(&mut self, contender: usize, kind: StepKind, what: impl Into<String>) {
        self.trace.push(TraceStep { contender, kind, what: what.into() });
    }

    /// Records that an event reached the contender, which may react to it.
    pub fn touch(&mut self, contender: usize, event: &str) {
        let one = &mut self.all[contender];
        one.touched = (event.to_owned(), Instant::now());
        one.was_quiet = false;
    }

    /// Ignores the contender's next reaction: its timing reveals nothing about the client's pauses.
    pub fn leave_unlearned(&mut self, contender: usize) {
        self.all[contender].touched.0.clear();
    }

    fn reacted(&mut self, contender: usize) {
        let (event, since) = &self.all[contender].touched;
        if !event.is_empty() {
            self.world.habits.acted(event, since.elapsed());
        }
        self.all[contender].touched.0.clear();
    }

    /// Waits until nothing more can arrive without another delivery: servers have answered, notifications have
    /// arrived, and contenders have reacted.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if a server does not answer, or if a contender has two clients.
    pub async fn settle(&mut self) -> Result<(), Unexplored> {
        loop {
            self.take_news();
            self.pass_on();
            self.has_one_client_each()?;
            if self.needs_links() {
                self.let_links_go().await?;
            }
            if self.held_since.is_none()
                && let Some(closed) = self.all.iter().position(|one| one.has_left_session)
            {
                self.end_left_session(closed).await;
            }
            let Some(until) = self.waits_until()? else { return Ok(()) };
            self.wait_until(until).await;
        }
    }

    /// Handles the next event or report, or returns at `until`.
    pub async fn wait_until(&mut self, until: Instant) {
        let World { net, cast, .. } = &mut *self.world;
        tokio::select! {
            biased;
            Some(event) = net.events.recv() => self.heard(event),
            Some((contender, report)) = cast.reports.recv() => self.reported(contender, report),
            () = tokio::time::sleep_until(until) => {}
        }
    }

    /// Forwards messages that need no decision until the given time.
    pub async fn forward_until(&mut self, until: Instant) {
        while Instant::now() < until {
            self.wait_until(until).await;
            self.pass_on();
        }
    }

    pub fn take_news(&mut self) {
        while let Ok(event) = self.world.net.events.try_recv() {
            self.heard(event);
        }
        while let Ok((contender, report)) = self.world.cast.reports.try_recv() {
            self.reported(contender, report);
        }
    }

    /// Returns the time at which to stop waiting, or `None` if there is nothing to wait for.
    fn waits_until(&mut self) -> Result<Option<Instant>, Unexplored> {
        let now = Instant::now();
        let mut until: Option<Instant> = None;
        let mut wait = |at: Instant| until = Some(until.map_or(at, |other| other.min(at)));
        let mut answers_are_due = false;
        for (number, one) in self.all.iter().enumerate() {
            let Some(conn) = one.conn.as_ref().filter(|conn| !conn.server_gone) else { continue };
            let asked = conn.awaited.front().map(|awaited| awaited.since);
            let is_pinged = conn.is_syncing || conn.pings.iter().any(|own| *own);
            let pinged = is_pinged.then_some(conn.pinged);
            let Some(since) = asked.or(pinged) else { continue };
            if since + ANSWERS_WITHIN <= now {
                let name = contender_name(number);
                return Err(Unexplored(format!(
                    "the server did not answer {name} within {ANSWERS_WITHIN:?}"
                )));
            }
            answers_are_due = true;
            wait(since + ANSWERS_WITHIN);
        }
        if let Some(due) = self.links_due() {
            // Do not send barriers now: they would need the links.
            if answers_are_due {
                wait(due);
            }
        } else if !answers_are_due && self.ping_stale() {
            wait(now + ANSWERS_WITHIN);
        }
        for contender in 0..self.all.len() {
            if let Some(at) = self.reacts_until(contender, now) {
                wait(at);
            }
        }
        Ok(until)
    }

    /// Pings the connections on which a write may have caused notifications; returns whether there are any. The
    /// reply to a ping follows all of the server's earlier messages. With several servers, a server may not have
    /// applied the write yet, so a `sync` replaces the ping.
    fn ping_stale(&mut self) -> bool {
        let syncs = self.world.servers.other.is_some();
        let mut any = false;
        for one in &mut self.all {
            let Some(conn) = one.conn.as_mut().filter(|conn| conn.is_stale && !conn.server_gone) else {
                continue;
            };
            (conn.is_stale, conn.pinged) = (false, Instant::now());
            if syncs {
                conn.is_syncing = true;
                self.world.net.to_server(conn.id, wire::sync());
            } else {
                conn.pings.push_back(true);
                self.world.net.to_server(conn.id, wire::ping());
            }
            any = true;
        }
        any
    }

    /// Returns the time until which the contender may still react, or `None` if no reaction is expected.
    fn reacts_until(&mut self, contender: usize, now: Instant) -> Option<Instant> {
        let one = &self.all[contender];
        let reconnects = one.conn.is_none() || one.touched.0 == HOLDER_RECONNECTED;
        let is_awaited_holder = one.status == Status::Holding && !one.has_lost_right && reconnects;
        if !(one.is_busy() || is_awaited_holder) || one.is_frozen || one.is_dead {
            return None;
        }
        let Some(conn) = &one.conn else {
            if one.is_away {
                return None;
            }
            return Some(one.disconnected + self.world.pace.reconnects_within).filter(|at| *at > now);
        };
        if !conn.to_server.is_empty() || one.touched.0.is_empty() {
            return None;
        }
        let until = one.touched.1 + self.world.habits.patience(&one.touched.0);
        if until <= now && !one.was_quiet {
            self.world.habits.was_quiet(&one.touched.0);
            self.all[contender].was_quiet = true;
        }
        Some(until).filter(|at| *at > now)
    }

    /// Forwards everything that needs no decision: heartbeats, messages of free contenders, and closed connections.
    pub fn pass_on(&mut self) {
        for contender in 0..self.all.len() {
            for direction in [Direction::ToClient, Direction::ToServer] {
                while let Some(pending) = self.all[contender].front(direction) {
                    if !pending.passes && !self.all[contender].is_free {
                        break;
                    }
                    self.deliver(contender, direction, false);
                }
            }
            let one = &self.all[contender];
            let ended = one.conn.as_ref().filter(|conn| conn.server_gone && conn.to_client.is_empty());
            if ended.is_some() && !one.is_frozen {
                self.disconnect(contender);
            }
        }
    }

    /// Delivers the next message in the given direction. The reply to a doomed request will be lost.
    pub fn deliver(&mut self, contender: usize, direction: Direction, is_doomed: bool) {
        let Some(conn) = self.all[contender].conn.as_mut() else { return };
        let id = conn.id;
        let Some(pending) = conn.queue(direction).pop_front() else { return };
        self.moves += u64::from(!pending.passes && !pending.is_poll);
        // Release the messages that were delayed until this event.
        self.all.iter_mut().for_each(|one| drop(one.delayed.take_if(|(_, past)| *past == pending.name)));
        if !pending.passes && !pending.is_poll {
            let short = short(&pending.name).to_owned() + pending.refusal.as_deref().unwrap_or_default();
            self.note(contender, pending.kind, short);
        }
        match direction {
            Direction::ToServer => {
                let Pending { name, frame, request, is_poll, .. } = pending;
                if let Some(request) = request {
                    let since = Instant::now();
                    self.sent(contender, Awaited { request, name, since, is_doomed, is_poll });
                }
                self.world.net.to_server(id, frame);
            }
            Direction::ToClient => {
                if !pending.passes {
                    self.touch(contender, &pending.name);
                }
                self.world.net.to_client(id, pending.frame);
            }
        }
    }

    fn sent(&mut self, contender: usize, sent: Awaited) {
        if sent.request.writes() {
            self.note_write();
        }
        self.repeats.sent(contender, &sent.request);
        let Some(conn) = self.all[contender].conn.as_mut() else { return };
        match sent.request.xid {
            wire::PING => conn.pings.push_back(false),
            wire::AUTH => {}
            _ => conn.awaited.push_back(sent),
        }
    }

    /// Records a change, after which requests are not polls, except requests of the contender that caused the change.
    fn changed(&mut self, by: Option<usize>) {
        self.repeats.changed(by);
        for (number, one) in self.all.iter_mut().enumerate().filter(|(number, _)| Some(*number) != by) {
            let waiting = one.conn.iter_mut().flat_map(|conn| &mut conn.to_server);
            for pending in waiting.filter(|pending| pending.is_poll) {
                pending.is_poll = false;
                if let Some(request) = &pending.request {
                    pending.name = self.names.of_request(number, request);
                }
            }
        }
    }

    /// Records that nodes changed, so every connection may receive notifications.
    pub fn note_write(&mut self) {
        self.all.iter_mut().filter_map(|one| one.conn.as_mut()).for_each(|conn| conn.is_stale = true);
    }

    /// Drops the next message in the given direction and breaks the contender's connection.
    pub fn lose(&mut self, contender: usize, direction: Direction) {
        let lost = self.all[contender].conn.as_mut().and_then(|conn| conn.queue(direction).pop_front());
        if let Some(pending) = lost {
            let kind = match direction {
                Direction::ToServer => StepKind::LostRequest,
                Direction::ToClient => StepKind::LostReply,
            };
            self.note(contender, kind, short(&pending.name));
        }
        self.disconnect(contender);
    }

    /// Closes a contender's connection on both sides.
    pub fn disconnect(&mut self, contender: usize) {
        let one = &mut self.all[contender];
        one.disconnected = Instant::now();
        if let Some(conn) = one.conn.take() {
            self.world.net.cut(conn.id);
            self.moves += 1;
            self.touch(contender, "the connection broke");
        }
    }

    /// Allows a contender to connect again.
    pub fn comes_back(&mut self, contender: usize) {
        self.world.net.refuse(contender, false);
        self.all[contender].is_away = false;
        self.all[contender].disconnected = Instant::now();
        self.touch(contender, "can connect again");
    }

    /// Returns whether the contender has a connection through which its session can be ended.
    pub fn is_connected(&self, contender: usize) -> bool {
        self.all[contender].conn.as_ref().is_some_and(|conn| !conn.server_gone)
    }

    /// Ends a contender's session at the server. The session's nodes are gone once the server closes the connection.
    ///
    /// # Errors
    ///
    /// [`Unexplored`] if the contender has no connection or the server does not answer.
    pub async fn end_session(&mut self, contender: usize) -> Result<(), Unexplored> {
        let conn = self.all[contender].conn.as_ref().filter(|conn| !conn.server_gone);
        let Some(id) = conn.map(|conn| conn.id) else {
            return Err(Unexplored(format!("{} had no connection", contender_name(contender))));
        };
        self.world.net.to_server(id, wire::close_session());
        let until = Instant::now() + ANSWERS_WITHIN;
        while self.all[contender].conn.as_ref().is_some_and(|conn| conn.id == id && !conn.server_gone) {
            if Instant::now() >= until {
                return Err(Unexplored("the server did not end the session".into()));
            }
            self.wait_until(until).await;
        }
        self.lose_right(contender);
        (self.all[contender].session_ended, self.all[contender].is_answered_since) = (true, false);
        Ok(())
    }

    /// # Errors
    ///
    /// [`Unexplored`] if a contender has two clients.
    pub fn has_one_client_each(&self) -> Result<(), Unexplored> {
        self.two_clients.map_or(Ok(()), |one| {
            Err(Unexplored(format!(
                "{} opened a second connection: its client must use one session",
                contender_name(one)
            )))
        })
    }

    /// Ends the session of a closed client, as the session's timeout would. If the session has already ended, nothing
    /// changes.
    async fn end_left_session(&mut self, contender: usize) {
        self.all[contender].has_left_session = false;
        let Some(session) = self.all[contender].session.take() else { return };
        if self.world.cast.expire(session).await.is_ok() {
            self.note(
                contender,
                StepKind::Fault,
                "its client is closed, but not its session, which now ends",
            );
            self.lose_right(contender);
        }
    }

    /// Records that the contender's session or node is gone, so another contender may acquire the lock and every
    /// connection may receive notifications.
    pub fn lose_right(&mut self, contender: usize) {
        self.changed(None);
        self.all[contender].has_lost_right = true;
        self.deeds.add(contender, Deed::LosesRight);
        self.note_write();
    }

    /// Records that a contender asks for the lock, and which contenders are already waiting.
    pub fn asks(&mut self, contender: usize) {
        self.deeds.add(contender, Deed::Asks);
        let waits = |one: &Contender| one.status == Status::Acquiring && one.has_arrived;
        let before = (0..self.all.len()).filter(|other| waits(&self.all[*other])).collect();
        let one = &mut self.all[contender];
        (one.has_arrived, one.before) = (false, before);
        one.asked += 1;
        self.set(contender, Status::Acquiring);
    }

    pub fn set(&mut self, contender: usize, status: Status) {
        self.changed(None);
        let now = Instant::now();
        (self.all[contender].status, self.all[contender].since) = (status, now);
        self.progressed = now;
    }
}

/// Returns the contender whose acquire or release has lasted longest. A release comes first, because acquires may wait
/// for its end.
pub fn waits_longest(all: &[Contender]) -> Option<usize> {
    let waits = |one: &Contender| !one.is_over() && one.is_busy();
    let waiting = (0..all.len()).filter(|number| waits(&all[*number]));
    waiting.min_by_key(|number| (all[*number].status != Status::Releasing, all[*number].since))
}

/// Returns a contender that was already waiting when the given contender asked, and is still waiting.
fn overtaken_by(all: &[Contender], contender: usize) -> Option<usize> {
    all[contender].before.iter().copied().find(|other| all[*other].status == Status::Acquiring)
}

/// Strips the contender from an event's name: `create own node`.
pub fn short(name: &str) -> &str {
    name.split_once(": ").map_or(name, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_is_overtaken_while_a_later_contender_holds_the_lock() {
        let contender = |status, before| Contender { status, before, ..Contender::new(Instant::now()) };
        let overtaken = |first| {
            let all = [
                contender(first, vec![]),
                contender(Status::Holding, vec![0]),
                contender(Status::Idle, vec![]),
            ];
            [overtaken_by(&all, 1), overtaken_by(&all, 2)]
        };
        assert_eq!(overtaken(Status::Acquiring), [Some(0), None]);
        assert_eq!(overtaken(Status::Done(None)), [None, None]);
    }

    #[test]
    fn contender_that_waits_longest_is_stuck_unless_a_release_has_not_ended() {
        let now = Instant::now();
        let contender = |status, waited_ms: u64| Contender {
            status,
            since: now + Duration::from_millis(100 - waited_ms),
            ..Contender::new(now)
        };
        let (waits, over) = (Status::Acquiring, Status::Done(None));
        let mut all = [
            contender(over, 90),
            contender(waits.clone(), 10),
            contender(waits, 50),
            contender(Status::Idle, 99),
        ];
        assert_eq!(waits_longest(&all), Some(2));
        all[1].status = Status::Releasing;
        assert_eq!(waits_longest(&all), Some(1));
        assert_eq!(waits_longest(&all[..1]), None);
    }

    #[test]
    fn report_of_a_lost_hold_does_not_concern_a_hold_of_a_later_session() {
        let holder = || Contender { status: Status::Holding, ..Contender::new(Instant::now()) };
        assert!(holder().may_lose_hold());
        assert!(!Contender { session_ended: true, ..holder() }.may_lose_hold());
        assert!(!Contender { has_lost_right: true, ..holder() }.may_lose_hold());
    }

    #[test]
    fn contender_hit_by_a_fault_acquires_again_if_its_session_is_alive() {
        let finished = || Contender {
            status: Status::Done(None),
            acquires_again: true,
            asked: 1,
            ..Contender::new(Instant::now())
        };
        assert!(finished().may_ask_again());
        for other in [
            Contender { acquires_again: false, ..finished() },
            Contender { asked: 2, ..finished() },
            Contender { lives: false, ..finished() },
            Contender { is_dead: true, ..finished() },
            Contender { is_away: true, ..finished() },
            Contender { status: Status::Releasing, ..finished() },
        ] {
            assert!(!other.may_ask_again(), "{other:?}");
        }
    }
}
