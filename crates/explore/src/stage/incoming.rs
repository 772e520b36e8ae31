//! Handles events from clients, servers and contenders.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::{CLOSING, Conn, Direction, HOLDER_RECONNECTED, Pending, Stage, Status, overtaken_by, short};
use crate::cast::{Ended, Report};
use crate::judged::Deed;
use crate::net::{ConnId, NetEvent};
use crate::play::HOLDS;
use crate::wire::{self, Answer, Request, error_name};
use zklockbench_record::StepKind;
use zklockbench_zk::SessionKey;

impl Stage<'_> {
    pub(super) fn heard(&mut self, event: NetEvent) {
        match event {
            NetEvent::Connected { conn, contender, session } => self.connected(conn, contender, session),
            NetEvent::FromClient { conn, frame } => self.client_sent(conn, frame),
            NetEvent::FromServer { conn, frame } => self.server_sent(conn, frame),
            NetEvent::ClientGone { conn } => self.client_gone(conn),
            NetEvent::ServerGone { conn } => {
                if let Some(contender) = self.of_conn(conn) {
                    self.all[contender].conn.iter_mut().for_each(|conn| conn.server_gone = true);
                }
            }
        }
    }

    fn connected(&mut self, id: ConnId, contender: usize, session: Option<SessionKey>) {
        let one = &mut self.all[contender];
        one.session = session;
        one.replaced.extend(one.conn.as_ref().map(|conn| conn.id));
        let is_holder = self.all[contender].status == Status::Holding;
        self.touch(contender, if is_holder { HOLDER_RECONNECTED } else { "a new connection" });
        self.moves += 1;
        self.repeats.connected(contender);
        self.all[contender].is_moving = false;
        self.all[contender].conn = Some(Conn {
            id,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            awaited: VecDeque::new(),
            pings: VecDeque::new(),
            is_stale: false,
            is_syncing: false,
            pinged: Instant::now(),
            server_gone: false,
        });
    }

    fn of_conn(&self, id: ConnId) -> Option<usize> {
        self.all.iter().position(|one| one.conn.as_ref().is_some_and(|conn| conn.id == id))
    }

    fn client_sent(&mut self, id: ConnId, frame: Vec<u8>) {
        let Some(contender) = self.of_conn(id) else { return self.sent_by_another_client(id) };
        let request = Request::read(&frame);
        let passes = request.as_ref().is_none_or(Request::passes);
        let is_poll =
            request.as_ref().is_some_and(|request| !passes && self.repeats.include(contender, request));
        let name = match &request {
            Some(request) if is_poll => self.names.of_poll(contender, request),
            Some(request) if !passes => self.names.of_request(contender, request),
            _ => String::new(),
        };
        if !passes {
            self.reacted(contender);
        }
        let ends_session = request.as_ref().is_some_and(Request::ends_session);
        if ends_session {
            self.all[contender].session = None;
        }
        if !passes || ends_session {
            self.stale_for.take_if(|moved| *moved == contender);
        }
        let pending =
            Pending { name, frame, request, refusal: None, kind: StepKind::Request, passes, is_poll };
        if let Some(conn) = self.all[contender].conn.as_mut() {
            conn.to_server.push_back(pending);
        }
    }

    /// Notes a contender with two clients, whose messages cannot be told apart.
    fn sent_by_another_client(&mut self, id: ConnId) {
        let contender = self.all.iter().position(|one| one.replaced.contains(&id));
        self.two_clients = self.two_clients.or(contender);
    }

    /// Delivers the messages that a client sent before it closed its connection, then disconnects.
    fn client_gone(&mut self, id: ConnId) {
        let Some(contender) = self.of_conn(id) else { return };
        while self.all[contender].conn.as_ref().is_some_and(|conn| !conn.to_server.is_empty()) {
            self.deliver(contender, Direction::ToServer, false);
        }
        self.disconnect(contender);
    }

    fn server_sent(&mut self, id: ConnId, frame: Vec<u8>) {
        let Some(contender) = self.of_conn(id) else { return };
        if frame.get(4..8) == Some(&CLOSING) {
            return;
        }
        let Some(conn) = self.all[contender].conn.as_mut() else { return };
        if frame.get(4..8) == Some(&wire::SYNC.to_be_bytes()) {
            conn.is_syncing = false;
            return;
        }
        let answer = Answer::read(&frame, conn.awaited.front().map(|awaited| &awaited.request));
        let mut is_poll = false;
        let (name, kind, refusal, passes) = match answer {
            None | Some(Answer::Authenticated) => (String::new(), StepKind::Reply, None, true),
            Some(Answer::Pong) if conn.pings.pop_front() == Some(true) => return,
            Some(Answer::Pong) => (String::new(), StepKind::Reply, None, true),
            Some(Answer::Notification { event, path }) => {
                (self.names.of_notification(contender, event, &path), StepKind::Notification, None, false)
            }
            Some(Answer::Reply { error, created }) => {
                let Some(awaited) = conn.awaited.pop_front() else { return };
                self.all[contender].is_answered_since = self.all[contender].session_ended;
                self.all[contender].has_arrived |= awaited.request.arrives(error, &created);
                is_poll = awaited.is_poll;
                if error == 0 {
                    self.forget_deleted(contender, &awaited.request);
                    // A lease that its holder renews again and again is no reason for others to read again.
                    if awaited.request.writes() && !is_poll {
                        self.changed(Some(contender));
                    }
                }
                if is_poll {
                    self.repeats.created(contender, &created);
                }
                if self.names.learn(contender, &awaited.request, &created, is_poll)
                    && self.all[contender].has_lost_right
                {
                    self.all[contender].has_lost_right = false;
                    self.deeds.add(contender, Deed::GainsRight);
                }
                if awaited.is_doomed {
                    self.note(contender, StepKind::LostReply, format!("{}, reply", short(&awaited.name)));
                    return self.disconnect(contender);
                }
                let refusal = (error != 0).then(|| format!(": {}", error_name(error)));
                (format!("{}, reply", awaited.name), StepKind::Reply, refusal, awaited.request.passes())
            }
        };
        let pending = Pending { name, frame, request: None, refusal, kind, passes, is_poll };
        if let Some(conn) = self.all[contender].conn.as_mut() {
            conn.to_client.push_back(pending);
        }
    }

    /// Records whether a contender has closed its session. A client without a connection cannot close its session.
    fn closed(&mut self, contender: usize, lives: bool) {
        let one = &mut self.all[contender];
        one.lives = lives;
        one.has_left_session = !lives && one.session.is_some();
    }

    fn forget_deleted(&mut self, contender: usize, request: &Request) {
        for maker in self.names.unlearn(request) {
            let other = &self.all[maker];
            self.is_trespassed |= maker != contender && !other.is_dead && !other.session_ended;
        }
    }

    pub(super) fn reported(&mut self, contender: usize, report: Report) {
        if self.all[contender].is_dead {
            return;
        }
        self.reacted(contender);
        self.moves += 1;
        let status = match report {
            Report::Opened(Ok(())) => Status::Idle,
            Report::Opened(Err(why)) => Status::Done(Some(format!("no session: {why}"))),
            Report::Acquired(token) => {
                self.note(contender, StepKind::Deed, HOLDS);
                // The contender has used a new session, so it must know that its node is gone. Overlaps are
                // therefore violations.
                if self.all[contender].has_lost_right && self.all[contender].is_answered_since {
                    self.deeds.add(contender, Deed::GainsRight);
                }
                self.deeds.add(contender, Deed::Enters { token });
                let overtaken = overtaken_by(&self.all, contender).map(|other| (contender, other));
                self.overtaken = self.overtaken.or(overtaken);
                Status::Holding
            }
            // A lease may end, or a lock may give up its hold, although the session is alive.
            Report::Lost => {
                if self.all[contender].may_lose_hold() {
                    self.note(contender, StepKind::Deed, "has lost the lock");
                    self.lose_right(contender);
                }
                return;
            }
            Report::NotAcquired(Ended { why, lives }) => {
                self.closed(contender, lives);
                self.note(contender, StepKind::Deed, format!("gives up: {why}"));
                self.deeds.add(contender, Deed::IsRefused);
                Status::Done(Some(why))
            }
            Report::Released(outcome) => {
                // A failed release may leave the lock held, so treat the session as unusable.
                self.closed(contender, outcome.as_ref().map_or_else(|ended| ended.lives, |()| true));
                self.all[contender].lives = outcome.is_ok();
                let what = match &outcome {
                    Ok(()) => "has released".to_owned(),
                    Err(Ended { why, .. }) => {
                        self.failed_release.get_or_insert_with(|| (contender, why.clone()));
                        format!("release failed: {why}")
                    }
                };
                self.note(contender, StepKind::Deed, what);
                self.deeds.add(contender, Deed::HasLeft { is_sure: outcome.is_ok() });
                Status::Done(None)
            }
        };
        self.set(contender, status);
    }
}
