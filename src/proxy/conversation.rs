//! What client and server say to each other on one connection, as far as the proxy understands it.
//!
//! It finds out whose the connection is, how far the replies let the client see, and which reply is to be lost.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::book::{Book, Direction, Mark};
use super::frame::{Frames, NotFrames};
use super::loss::Struck;
use super::protocol::{self, Request};
use super::table::Seat;

/// A reply that is to be lost.
#[derive(Debug)]
pub struct Lost {
    /// What it is for.
    loss: u64,
    struck: Struck,
    /// Where it begins in the bytes at hand.
    pub start: usize,
}

/// What some bytes to the client hold.
#[derive(Debug, Default)]
pub struct Replies {
    /// The replies that end in them.
    pub marks: Vec<Mark>,
    /// The first that is to be lost; nothing after it is looked at.
    pub lost: Option<Lost>,
}

#[derive(Debug, Default)]
struct State {
    book: Arc<Book>,
    requests: Frames,
    replies: Frames,
    /// Whether the client has asked for a session, so that what follows is frames.
    asked: bool,
    /// Whether the server has answered that.
    answered: bool,
    /// The request whose reply is to be lost, and what for.
    doomed: Option<(Request, u64)>,
}

/// One connection's conversation.
#[derive(Debug)]
pub struct Conversation<'a> {
    seat: &'a Seat,
    state: Mutex<State>,
}

impl<'a> Conversation<'a> {
    /// Of a new connection.
    pub fn new(seat: &'a Seat) -> Self {
        let state = State { book: seat.identify(None), ..State::default() };
        Self { seat, state: Mutex::new(state) }
    }

    /// Writes a piece of data and counts what went; see [`Book::write`].
    ///
    /// # Errors
    /// Those of the writing.
    pub fn write(
        &self,
        direction: Direction,
        from: usize,
        marks: &[Mark],
        write: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let book = Arc::clone(&self.locked().book);
        book.write(direction, from, marks, write)
    }

    /// Reads what the client has sent.
    pub fn requested(&self, bytes: &[u8]) {
        let mut state = self.locked();
        let mut requests = std::mem::take(&mut state.requests);
        requests.read(bytes, |frame| {
            if state.asked {
                state.note(self.seat, frame.head);
                return Ok(());
            }
            let session = protocol::session_asked_for(frame.head).ok_or(NotFrames)?;
            state.asked = true;
            state.belongs_to(self.seat, session);
            Ok(())
        });
        state.requests = requests;
    }

    /// Reads what the server has sent.
    pub fn replied(&self, bytes: &[u8]) -> Replies {
        let mut found = Replies::default();
        let mut state = self.locked();
        if !state.asked {
            return found;
        }
        let mut replies = std::mem::take(&mut state.replies);
        replies.read(bytes, |frame| {
            if !state.answered {
                let session = protocol::session_granted(frame.head).ok_or(NotFrames)?;
                state.answered = true;
                state.belongs_to(self.seat, session);
                return Ok(());
            }
            let Some(reply) = protocol::reply(frame.head) else { return Ok(()) };
            if let Some((request, loss)) = state.doomed.take_if(|(request, _)| request.xid == reply.xid) {
                let struck = Struck::now(request, reply);
                found.lost = Some(Lost { loss, struck, start: frame.start });
                return Err(NotFrames);
            }
            found.marks.push(Mark { end: frame.end, zxid: reply.zxid });
            Ok(())
        });
        state.replies = replies;
        found
    }

    /// Tells that a reply was lost.
    pub fn lose(&self, lost: Lost) {
        self.seat.strike(lost.loss, lost.struck);
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn belongs_to(&mut self, seat: &Seat, session: i64) {
        self.book = seat.identify((session != 0).then_some(session));
    }

    fn note(&mut self, seat: &Seat, head: &[u8]) {
        let Some(request) = protocol::request(head).filter(|_| self.doomed.is_none()) else { return };
        self.doomed = seat.loss_for(request.kind).map(|loss| (request, loss));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::RequestKind;
    use crate::proxy::setting::Who;
    use crate::proxy::table::Table;

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
    fn a_connection_belongs_to_the_session_that_it_asks_for_until_that_is_over() {
        let table = Arc::new(Table::default());
        let seat = table.join();
        let conversation = Conversation::new(&seat);
        conversation.requested(&asks_for(7));
        assert_eq!(table.connections(Who::Session(7)), 1);
        conversation.replied(&grants(0));
        assert_eq!((table.connections(Who::Session(7)), table.connections(Who::All)), (0, 1));
    }

    #[test]
    fn the_lost_reply_and_what_comes_after_it_is_not_marked() {
        let table = Arc::new(Table::default());
        let seat = table.join();
        let conversation = Conversation::new(&seat);
        conversation.requested(&asks_for(0));
        conversation.replied(&grants(7));
        conversation.requested(&create(1));
        let (_, told) = table.arm(7, &[RequestKind::Create]);
        conversation.requested(&[create(2), create(3)].concat());
        let before = [reply(1, 11), reply(-1, -1)].concat();
        let found = conversation.replied(&[before.clone(), reply(2, 12), reply(3, 13)].concat());
        assert_eq!(found.marks, [Mark { end: 20, zxid: 11 }]);
        let lost = found.lost.unwrap();
        assert_eq!(lost.start, before.len());
        conversation.lose(lost);
        let struck = told.borrow().clone().unwrap();
        assert_eq!((struck.request.xid, struck.request.path.as_str(), struck.zxid), (2, "/a", 12));
        assert_eq!(conversation.replied(&reply(3, 13)).marks, []);
    }

    #[test]
    fn without_a_connect_request_nothing_is_understood() {
        let table = Arc::new(Table::default());
        let seat = table.join();
        let conversation = Conversation::new(&seat);
        conversation.requested(&create(1));
        conversation.requested(&asks_for(7));
        assert_eq!(conversation.replied(&[grants(7), reply(1, 5)].concat()).marks, []);
        assert_eq!(table.connections(Who::Session(7)), 0);
    }
}
