//! Messages of a driver's contender, read from its connections because a driver does not use the suite's client.

use std::collections::VecDeque;
use std::sync::Arc;

use super::protocol::{self, ClientRequest};
use zklockbench_core::clock;
use zklockbench_core::measure::RequestKind;
use zklockbench_zk::{MessageKind, Messages};

/// Maximum number of unanswered requests to track.
const PENDING: usize = 64;
const NO_NODE: i32 = -101;

/// Messages of one connection. Requests still unanswered when the connection ends are recorded as lost.
#[derive(Debug)]
pub struct Trace {
    messages: Arc<Messages>,
    pending: VecDeque<(i32, RequestKind)>,
}

impl Trace {
    pub fn of(messages: Arc<Messages>) -> Self {
        Self { messages, pending: VecDeque::new() }
    }

    fn note(&self, kind: MessageKind, path: &str) {
        self.messages.note(clock::now(), kind, path);
    }

    pub fn requested(&mut self, head: &[u8]) {
        let Some(ClientRequest { xid, kind, path, .. }) = protocol::request(head) else { return };
        self.note(MessageKind::Request(kind), &path);
        if self.pending.len() < PENDING {
            self.pending.push_back((xid, kind));
        }
    }

    /// Records a reply or notification passed on to the client.
    pub fn replied(&mut self, head: &[u8]) {
        match protocol::reply(head) {
            None => {
                if let Some((event, path)) = protocol::notification(head) {
                    self.note(MessageKind::Notification(event), &path);
                }
            }
            Some(reply) => {
                let Some(at) = self.pending.iter().position(|(xid, _)| *xid == reply.xid) else { return };
                let Some((_, kind)) = self.pending.remove(at) else { return };
                let looks_for = matches!(kind, RequestKind::Exists | RequestKind::ExistsWatch);
                self.note(
                    match reply.error {
                        0 => MessageKind::Reply(kind),
                        NO_NODE if looks_for => MessageKind::Reply(kind),
                        error => MessageKind::Refusal(kind, refusal(error)),
                    },
                    "",
                );
            }
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        for (_, kind) in self.pending.drain(..) {
            self.messages.note(clock::now(), MessageKind::NoReply(kind, "connection lost"), "");
        }
    }
}

fn refusal(error: i32) -> &'static str {
    match error {
        NO_NODE => "no node",
        -110 => "node exists",
        -111 => "not empty",
        -112 => "session expired",
        -118 => "session moved",
        -102 => "not authorized",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use zklockbench_zk::EventKind;

    use super::*;

    fn head(parts: &[&[u8]]) -> Vec<u8> {
        parts.concat()
    }

    fn path(path: &str) -> Vec<u8> {
        [&i32::try_from(path.len()).unwrap().to_be_bytes()[..], path.as_bytes()].concat()
    }

    #[test]
    fn requests_replies_notifications_and_lost_replies_are_recorded() {
        let messages = Arc::<Messages>::default();
        let mut trace = Trace::of(Arc::clone(&messages));
        let request = |xid: i32, opcode: i32| {
            head(&[&xid.to_be_bytes(), &opcode.to_be_bytes(), &path("/run/lock-0"), &[0]])
        };
        let reply =
            |xid: i32, error: i32| head(&[&xid.to_be_bytes(), &7_i64.to_be_bytes(), &error.to_be_bytes()]);
        trace.requested(&request(1, 8));
        trace.requested(&request(2, 2));
        trace.requested(&request(3, 3));
        trace.requested(&request(4, 8));
        trace.requested(&head(&[&(-2_i32).to_be_bytes(), &11_i32.to_be_bytes()]));
        trace.replied(&reply(1, 0));
        trace.replied(&reply(2, NO_NODE));
        trace.replied(&reply(3, NO_NODE));
        let deleted = [2_i32.to_be_bytes(), 3_i32.to_be_bytes()].concat();
        trace.replied(&head(&[&reply(-1, 0), &deleted, &path("/run/lock-0/n-1")]));
        drop(trace);
        let mut all = messages.latest();
        all.sort_by_key(|message| message.number);
        let kinds: Vec<MessageKind> = all.iter().map(|message| message.kind).collect();
        use MessageKind::{NoReply, Notification, Refusal, Reply, Request};
        use RequestKind::{Delete, Exists, GetChildren};
        let requests = [GetChildren, Delete, Exists, GetChildren].map(Request);
        let replies = [Reply(GetChildren), Refusal(Delete, "no node"), Reply(Exists)];
        let last = [Notification(EventKind::NodeDeleted), NoReply(GetChildren, "connection lost")];
        assert_eq!(kinds, [&requests[..], &replies, &last].concat());
        assert_eq!([all[0].name(), all[7].name()], ["lock-0", "n-1"]);
    }
}
