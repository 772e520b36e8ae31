//! Requests and replies that are to be lost: which request each loss waits for, and what became of it.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::protocol::{ClientRequest, Reply};
use super::setting::{Owner, Who};
use crate::words::clock::{self, Stamp};
use crate::words::measure::RequestKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPart {
    /// The request itself: no server ever sees it.
    Request,
    /// The reply: a server has carried the request out. A refusal is passed on.
    Reply,
}

/// A request that never reached its server, or whose reply the client never got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    pub request: ClientRequest,
    /// The zxid in the lost reply's header; 0 when the request itself was lost.
    pub zxid: i64,
    /// When request or reply was swallowed, on the process's clock.
    pub at: Stamp,
}

impl Struck {
    /// Of a request whose reply is swallowed now.
    pub fn answered(request: ClientRequest, reply: Reply) -> Self {
        Self { request, zxid: reply.zxid, at: clock::now() }
    }

    /// Of a request that is swallowed now.
    pub fn unheard(request: ClientRequest) -> Self {
        Self { request, zxid: 0, at: clock::now() }
    }
}

#[derive(Debug)]
struct Armed {
    who: Who,
    part: LostPart,
    kinds: Vec<RequestKind>,
    /// The connection with the request that it has found.
    found_on: Option<u64>,
    told: watch::Sender<Option<Struck>>,
}

/// All losses that are to be, by number.
#[derive(Debug, Default)]
pub struct Losses(BTreeMap<u64, Armed>);

impl Losses {
    /// Adds one; what it becomes is told there.
    pub fn arm(
        &mut self,
        number: u64,
        who: Who,
        part: LostPart,
        kinds: &[RequestKind],
    ) -> watch::Receiver<Option<Struck>> {
        let (told, hears) = watch::channel(None);
        self.0.insert(number, Armed { who, part, kinds: kinds.to_vec(), found_on: None, told });
        hears
    }

    /// The loss that such a request on that connection is for, if any is, and what is to be lost.
    pub fn find(&mut self, connection: u64, owner: Owner, kind: RequestKind) -> Option<(u64, LostPart)> {
        let is_for = |armed: &Armed| {
            armed.found_on.is_none() && armed.who.covers(owner) && armed.kinds.contains(&kind)
        };
        let (number, armed) = self.0.iter_mut().find(|(_, armed)| is_for(armed))?;
        armed.found_on = Some(connection);
        Some((*number, armed.part))
    }

    /// The server has refused what was found: the next one is waited for.
    pub fn spare(&mut self, number: u64) {
        if let Some(armed) = self.0.get_mut(&number) {
            armed.found_on = None;
        }
    }

    /// A request or a reply was swallowed.
    pub fn strike(&mut self, number: u64, struck: Struck) {
        if let Some(armed) = self.0.remove(&number) {
            armed.told.send_replace(Some(struck));
        }
    }

    /// That connection is gone: what it has not lost by now is to be lost on another.
    pub fn gone(&mut self, connection: u64) {
        for armed in self.0.values_mut().filter(|armed| armed.found_on == Some(connection)) {
            armed.found_on = None;
        }
    }

    pub fn disarm(&mut self, number: u64) {
        self.0.remove(&number);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: RequestKind = RequestKind::Create;

    fn of(session: i64) -> Owner {
        Owner { client: None, session: Some(session) }
    }

    fn struck() -> Struck {
        let request = ClientRequest { xid: 1, opcode: 1, kind: CREATE, path: "/a".into() };
        Struck::answered(request, Reply { xid: 1, zxid: 5, error: 0 })
    }

    #[test]
    fn one_request_of_its_session_and_kind_is_found_and_no_second() {
        let mut losses = Losses::default();
        let told = losses.arm(1, Who::Session(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, of(11), CREATE), None);
        assert_eq!(losses.find(1, of(10), RequestKind::Delete), None);
        assert_eq!(losses.find(1, of(10), CREATE), Some((1, LostPart::Reply)));
        assert_eq!(losses.find(1, of(10), CREATE), None);
        assert!(told.borrow().is_none());
        losses.strike(1, struck());
        assert_eq!(told.borrow().as_ref().map(|struck| struck.zxid), Some(5));
        assert_eq!(losses.len(), 0);
    }

    #[test]
    fn a_connection_that_breaks_on_its_own_leaves_the_loss_to_the_next() {
        let mut losses = Losses::default();
        let _told = losses.arm(1, Who::Session(10), LostPart::Reply, &[CREATE]);
        assert_eq!(losses.find(1, of(10), CREATE), Some((1, LostPart::Reply)));
        losses.gone(2);
        assert_eq!(losses.find(2, of(10), CREATE), None);
        losses.gone(1);
        assert_eq!(losses.find(2, of(10), CREATE), Some((1, LostPart::Reply)));
        losses.disarm(1);
        losses.strike(1, struck());
        assert_eq!(losses.len(), 0);
    }
}
