//! The last messages of a contender, kept to explain violations. They are not read unless an overlap occurs.

use std::sync::Mutex;

use super::notification::EventKind;
use zklockbench_core::clock::Stamp;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::RequestKind;

/// Number of messages kept for each contender.
const KEPT: u64 = 32;
/// Maximum length of a node's name, in bytes.
const NAME: usize = 22;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    Request(RequestKind),
    Reply(RequestKind),
    /// A reply with an error from the server.
    Refusal(RequestKind, &'static str),
    /// A request that ended without a reply.
    NoReply(RequestKind, &'static str),
    Notification(EventKind),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Sequence number among the contender's messages.
    pub number: u64,
    pub at: Stamp,
    pub kind: MessageKind,
    name: NodeName,
}

impl Message {
    /// Returns the end of the node's name, at most 22 bytes; empty if the message has no node.
    pub fn name(&self) -> &str {
        str::from_utf8(&self.name.bytes[..self.name.length.into()]).unwrap_or_default()
    }
}

/// End of a path's last component, at most `NAME` bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NodeName {
    bytes: [u8; NAME],
    length: u8,
}

impl NodeName {
    fn of(path: &str) -> Self {
        let is_continued = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
        let end = &path.as_bytes()[path.len().saturating_sub(NAME)..];
        let from = match end.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => slash + 1,
            None => end.iter().take_while(|byte| is_continued(byte)).count(),
        };
        let name = &end[from..];
        let mut kept = Self { length: name.len() as u8, ..Self::default() };
        kept.bytes[..name.len()].copy_from_slice(name);
        kept
    }
}

/// Ring buffer of a contender's last messages across all its sessions, readable from other threads.
#[derive(Debug, Default)]
pub struct Messages(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    /// Allocated with the first message.
    all: Vec<Message>,
    /// Number of the next message.
    next: u64,
}

impl Messages {
    pub fn note(&self, at: Stamp, kind: MessageKind, path: &str) {
        let mut latest = locked(&self.0);
        let Latest { all, next: number } = &mut *latest;
        let message = Message { number: *number, at, kind, name: NodeName::of(path) };
        if all.is_empty() {
            all.reserve_exact(KEPT as usize);
        }
        match all.get_mut((*number % KEPT) as usize) {
            Some(oldest) => *oldest = message,
            None => all.push(message),
        }
        *number += 1;
    }

    /// Returns the kept messages, in no particular order.
    pub fn latest(&self) -> Vec<Message> {
        locked(&self.0).all.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(messages: &Messages, at: Stamp, path: &str) {
        messages.note(at, MessageKind::Request(RequestKind::Exists), path);
    }

    #[test]
    fn only_the_last_messages_are_kept() {
        let messages = Messages::default();
        assert!(messages.latest().is_empty());
        note(&messages, 0, "/a");
        assert_eq!(messages.latest().len(), 1);
        (1..KEPT + 5).for_each(|at| note(&messages, at, "/a/b"));
        let mut numbers: Vec<u64> = messages.latest().iter().map(|message| message.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (5..KEPT + 5).collect::<Vec<_>>());
        assert!(messages.latest().iter().all(|message| message.number == message.at));
    }

    #[test]
    fn message_name_is_the_end_of_the_last_path_component() {
        let name = |path: &str| {
            let messages = Messages::default();
            note(&messages, 0, path);
            messages.latest()[0].name().to_owned()
        };
        assert_eq!(name("/run/lock-0/n-0000000012"), "n-0000000012");
        assert_eq!(name("/run/lock-0/"), "");
        let found = name("/_c_5f0c1f2e-9e0e-4b8f-b7a3-2f9a1c2d3e4f-lock-0000000012");
        assert_eq!(found, "1c2d3e4f-lock-0000000012"[2..]);
        assert_eq!(name("/äöüäöüäöüäöüx"), "üäöüäöüäöüx", "multi-byte characters are not split");
    }
}
