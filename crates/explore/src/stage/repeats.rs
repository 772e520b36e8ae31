//! Requests that a contender repeats although no other contender has changed anything, such as the reads of a lock that
//! polls. Their number depends on timing, so only the first repetition is an event of a schedule.

use std::collections::HashMap;

use crate::wire::{Operation, Request};

/// Number of times that a contender may send a request before repetitions count as polls.
const SENT_BEFORE_POLLS: u32 = 2;

#[derive(Debug, Default)]
pub struct Repeats {
    /// Number of times that a contender has sent a request, by contender, opcode and paths.
    sent: HashMap<(usize, i32, String), u32>,
    /// Creators of nodes that were created by polls. All requests about such a node are polls, too.
    nodes: HashMap<String, usize>,
}

impl Repeats {
    pub fn sent(&mut self, contender: usize, request: &Request) {
        *self.sent.entry(key(contender, request)).or_default() += 1;
    }

    /// Records the nodes that a contender's poll created.
    pub fn created(&mut self, contender: usize, paths: &[String]) {
        self.nodes.extend(paths.iter().map(|path| (path.clone(), contender)));
    }

    /// Returns whether the request is a poll.
    pub fn include(&self, contender: usize, request: &Request) -> bool {
        let is_of_poll = |operation: &Operation| self.nodes.get(&operation.path) == Some(&contender);
        let times = self.sent.get(&key(contender, request)).copied().unwrap_or_default();
        times >= SENT_BEFORE_POLLS
            || (!request.operations.is_empty() && request.operations.iter().all(is_of_poll))
    }

    /// Forgets all requests, except those of the contender that caused a change.
    pub fn changed(&mut self, by: Option<usize>) {
        self.sent.retain(|(contender, ..), _| Some(*contender) == by);
        self.nodes.retain(|_, contender| Some(*contender) == by);
    }

    /// Forgets a contender's requests, because its client may repeat them on a new connection.
    pub fn connected(&mut self, contender: usize) {
        self.sent.retain(|(one, ..), _| *one != contender);
        self.nodes.retain(|_, one| *one != contender);
    }
}

fn key(contender: usize, request: &Request) -> (usize, i32, String) {
    let paths: Vec<&str> = request.operations.iter().map(|operation| operation.path.as_str()).collect();
    (contender, request.opcode, paths.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::OperationKind;

    fn request(opcode: i32, path: &str, kind: OperationKind) -> Request {
        let operation = Operation { name: "", path: path.to_owned(), kind };
        Request { xid: 1, opcode, operations: vec![operation], is_multi: false }
    }

    #[test]
    fn request_is_a_poll_from_its_third_time_until_another_contender_changes_something() {
        let read = request(8, "/l", OperationKind::Read);
        let mut repeats = Repeats::default();
        repeats.sent(1, &read);
        assert!(!repeats.include(1, &read));
        repeats.sent(1, &read);
        assert!(repeats.include(1, &read) && !repeats.include(0, &read));
        repeats.changed(Some(1));
        assert!(repeats.include(1, &read), "a contender's own change is no reason to read again");
        repeats.changed(Some(0));
        assert!(!repeats.include(1, &read));
    }

    #[test]
    fn requests_about_a_node_that_a_poll_created_are_polls() {
        let delete = |path| request(2, path, OperationKind::Delete);
        let mut repeats = Repeats::default();
        repeats.created(1, &["/l/n-3".to_owned()]);
        assert!(repeats.include(1, &delete("/l/n-3")));
        assert!(!repeats.include(0, &delete("/l/n-3")) && !repeats.include(1, &delete("/l/n-2")));
        repeats.connected(1);
        assert!(!repeats.include(1, &delete("/l/n-3")));
    }
}
