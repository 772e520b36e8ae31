//! Reads the frames of one connection: finds the negotiated session, and the requests or replies to drop.

use std::sync::Mutex;

use super::protocol::{self, ClientRequest, Frames, NotFrames};
use super::setting::Struck;
use super::table::{FoundLoss, Registration};
use super::trace::Trace;
use super::traffic::Traffic;

use zklockbench_core::locked::locked;

/// A request or reply to drop.
#[derive(Debug)]
pub struct LostRequest {
    loss: FoundLoss,
    struck: Struck,
    /// Offset in the bytes passed to `requested` or `replied`.
    pub start: usize,
}

impl LostRequest {
    /// Reports the loss.
    pub fn strike(self) {
        self.loss.strike(self.struck);
    }
}

#[derive(Debug, Default)]
struct ConversationState {
    requests: Frames,
    replies: Frames,
    /// Whether the client has sent its connect request, after which frames follow.
    asked: bool,
    answered: bool,
    /// Request whose reply must be dropped.
    doomed: Option<(ClientRequest, FoundLoss)>,
    trace: Option<Trace>,
}

#[derive(Debug)]
pub struct Conversation<'a> {
    registration: &'a Registration,
    state: Mutex<ConversationState>,
}

impl<'a> Conversation<'a> {
    pub fn new(registration: &'a Registration) -> Self {
        let trace = registration.messages.clone().map(Trace::of);
        Self { registration, state: Mutex::new(ConversationState { trace, ..ConversationState::default() }) }
    }

    pub fn traffic(&self) -> &Traffic {
        &self.registration.traffic
    }

    pub fn has_passed_data(&self) {
        self.registration.course.has_passed_data();
    }

    /// Reads bytes from the client. Returns the first request to drop, and stops reading there.
    pub fn requested(&self, bytes: &[u8]) -> Option<LostRequest> {
        let mut lost = None;
        let mut state = locked(&self.state);
        let mut requests = std::mem::take(&mut state.requests);
        requests.read(bytes, |frame| {
            if state.asked {
                self.registration.count(|wire, client| {
                    wire.requested(self.registration.number, client, frame.head, frame.bytes);
                });
                if let Some(trace) = &mut state.trace {
                    trace.requested(frame.head);
                }
                let Some((request, loss)) = state.note(self.registration, frame.head) else { return Ok(()) };
                lost = Some(LostRequest { loss, struck: Struck { request, zxid: 0 }, start: frame.start });
                return Err(NotFrames);
            }
            if !protocol::is_connect_request(frame.head) {
                return Err(NotFrames);
            }
            state.asked = true;
            self.registration.count(|wire, client| wire.connects(client, frame.bytes));
            Ok(())
        });
        if !state.asked && requests.is_opaque() {
            self.registration.course.is_unreadable();
        }
        state.requests = requests;
        lost
    }

    /// Reads bytes from the server. Returns the first reply to drop, and stops reading there.
    pub fn replied(&self, bytes: &[u8]) -> Option<LostRequest> {
        let mut lost = None;
        let mut state = locked(&self.state);
        if !state.asked {
            return None;
        }
        let mut replies = std::mem::take(&mut state.replies);
        replies.read(bytes, |frame| {
            if !state.answered {
                let session = protocol::granted_session(frame.head).ok_or(NotFrames)?;
                state.answered = true;
                self.registration.course.carries(session);
                self.registration.count(|wire, client| wire.connected(client, frame.bytes));
                return Ok(());
            }
            self.registration.count(|wire, client| {
                wire.answered(self.registration.number, client, frame.head, frame.bytes);
            });
            let Some(reply) = protocol::reply(frame.head) else {
                state.pass_on(frame.head);
                return Ok(());
            };
            let answered = state.doomed.take_if(|(request, _)| request.xid == reply.xid);
            // If the server refused the request, the loss waits for the next request.
            let is_lost = |loss: &FoundLoss| reply.error == 0 && !loss.is_cancelled();
            if let Some((request, loss)) = answered.filter(|(_, loss)| is_lost(loss)) {
                let struck = Struck { request, zxid: reply.zxid };
                lost = Some(LostRequest { loss, struck, start: frame.start });
                return Err(NotFrames);
            }
            state.pass_on(frame.head);
            Ok(())
        });
        state.replies = replies;
        lost
    }
}

impl ConversationState {
    fn pass_on(&mut self, head: &[u8]) {
        if let Some(trace) = &mut self.trace {
            trace.replied(head);
        }
    }

    /// Checks whether to drop a request or its reply. Returns a request that must be dropped now, with its loss.
    fn note(&mut self, registration: &Registration, head: &[u8]) -> Option<(ClientRequest, FoundLoss)> {
        let request = protocol::request(head).filter(|_| self.doomed.is_none())?;
        let loss = registration.loss_for(request.kind)?;
        if loss.is_of_request() {
            return Some((request, loss));
        }
        self.doomed = Some((request, loss));
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::proxy::setting::{LostPart, Who};
    use crate::proxy::table::ProxyTable;
    use zklockbench_core::measure::RequestKind;

    fn frame(parts: &[&[u8]]) -> Vec<u8> {
        let body = parts.concat();
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }

    fn asks_for(session: i64) -> Vec<u8> {
        frame(&[&[0; 16], &session.to_be_bytes(), &16_i32.to_be_bytes(), &[0; 17]])
    }

    fn grants(session: i64) -> Vec<u8> {
        frame(&[&[0; 8], &session.to_be_bytes(), &16_i32.to_be_bytes(), &[0; 17]])
    }

    fn create(xid: i32) -> Vec<u8> {
        frame(&[&xid.to_be_bytes(), &1_i32.to_be_bytes(), &2_i32.to_be_bytes(), b"/a"])
    }

    fn reply(xid: i32, zxid: i64) -> Vec<u8> {
        frame(&[&xid.to_be_bytes(), &zxid.to_be_bytes(), &[0; 4]])
    }

    #[test]
    fn lost_reply_starts_after_earlier_replies() {
        let table = Arc::new(ProxyTable::default());
        let registration = table.join(None);
        let conversation = Conversation::new(&registration);
        conversation.requested(&asks_for(0));
        conversation.replied(&grants(7));
        conversation.requested(&create(1));
        let told = table.arm(Who::All, LostPart::Reply, &[RequestKind::Create]);
        conversation.requested(&[create(2), create(3)].concat());
        let before = [reply(1, 11), reply(-1, -1)].concat();
        let lost = conversation.replied(&[before.clone(), reply(2, 12), reply(3, 13)].concat()).unwrap();
        assert_eq!(lost.start, before.len());
        lost.strike();
        let struck = told.borrow().clone().unwrap();
        assert_eq!((struck.request.xid, struck.request.path.as_str(), struck.zxid), (2, "/a", 12));
        assert!(conversation.replied(&reply(3, 13)).is_none());
    }

    #[test]
    fn refusal_is_passed_on_and_the_next_reply_is_dropped() {
        let table = Arc::new(ProxyTable::default());
        let registration = table.join(None);
        let conversation = Conversation::new(&registration);
        conversation.requested(&asks_for(0));
        conversation.replied(&grants(7));
        let _told = table.arm(Who::All, LostPart::Reply, &[RequestKind::Create]);
        conversation.requested(&create(1));
        let refusal = frame(&[&1_i32.to_be_bytes(), &11_i64.to_be_bytes(), &(-110_i32).to_be_bytes()]);
        assert!(conversation.replied(&refusal).is_none());
        conversation.requested(&create(2));
        assert!(conversation.replied(&reply(2, 12)).is_some());
    }

    #[test]
    fn reply_passes_if_its_loss_is_cancelled_before_it_arrives() {
        let table = Arc::new(ProxyTable::default());
        let registration = table.join(None);
        let conversation = Conversation::new(&registration);
        conversation.requested(&asks_for(0));
        conversation.replied(&grants(7));
        let told = table.arm(Who::All, LostPart::Reply, &[RequestKind::Create]);
        conversation.requested(&create(1));
        drop(told);
        assert!(conversation.replied(&reply(1, 11)).is_none());
    }

    #[test]
    fn dropped_request_is_located_by_its_first_byte() {
        let table = Arc::new(ProxyTable::default());
        let registration = table.join(None);
        let conversation = Conversation::new(&registration);
        conversation.requested(&asks_for(0));
        conversation.replied(&grants(7));
        let told = table.arm(Who::All, LostPart::Request, &[RequestKind::Create]);
        let ping = frame(&[&(-2_i32).to_be_bytes(), &11_i32.to_be_bytes()]);
        let lost = conversation.requested(&[ping.clone(), create(2), create(3)].concat()).unwrap();
        assert_eq!((lost.start, told.borrow().is_none()), (ping.len(), true));
        lost.strike();
        let struck = told.borrow().clone().unwrap();
        assert_eq!((struck.request.xid, struck.zxid), (2, 0));
        assert!(conversation.requested(&create(4)).is_none());
    }

    #[test]
    fn connection_without_a_connect_request_has_no_frames() {
        let table = Arc::new(ProxyTable::default());
        let registration = table.join(None);
        let conversation = Conversation::new(&registration);
        let _told = table.arm(Who::All, LostPart::Reply, &[RequestKind::Create]);
        conversation.requested(&create(1));
        conversation.requested(&asks_for(7));
        conversation.requested(&create(2));
        assert!(conversation.replied(&[grants(7), reply(2, 5)].concat()).is_none());
    }
}
