//! Names of nodes and events by role. Names contain no sequence numbers, GUIDs or sessions, so they are the same in
//! every run.

use std::collections::{BTreeMap, HashMap};

use super::wire::{OperationKind, Request};

/// Names used in one schedule.
#[derive(Debug)]
pub struct Names {
    lock: String,
    /// Names of the contenders' nodes, by path.
    nodes: BTreeMap<String, String>,
    /// Creator of each node, by path.
    makers: HashMap<String, usize>,
    /// Number of nodes named so far, by contender.
    made: HashMap<usize, u32>,
    /// Ephemeral nodes of each contender's last create. A multi may create several.
    newest: HashMap<usize, Vec<String>>,
    /// Number of events so far, by name.
    seen: HashMap<String, u32>,
}

/// Returns a contender's name; `c1` is the first contender.
pub fn contender_name(contender: usize) -> String {
    format!("c{}", contender + 1)
}

impl Names {
    pub fn new(lock: &str) -> Self {
        Self {
            lock: lock.to_owned(),
            nodes: BTreeMap::new(),
            makers: HashMap::new(),
            made: HashMap::new(),
            newest: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    /// Records the nodes that a contender's request created; returns whether any of these nodes is ephemeral. A poll's
    /// node takes the name of the contender's last node, because the number of polls depends on timing.
    pub fn learn(&mut self, contender: usize, request: &Request, created: &[String], is_poll: bool) -> bool {
        let mut ephemeral = Vec::new();
        let creates = request.operations.iter().filter_map(|operation| match operation.kind {
            OperationKind::Create { is_ephemeral } => Some(is_ephemeral),
            _ => None,
        });
        for (is_ephemeral, path) in creates.zip(created) {
            self.makers.insert(path.clone(), contender);
            if is_ephemeral {
                self.add(contender, path, is_poll);
                ephemeral.push(path.clone());
            }
        }
        let has_new = !ephemeral.is_empty();
        if has_new {
            self.newest.insert(contender, ephemeral);
        }
        has_new
    }

    /// Forgets the nodes that a request deleted; returns the contenders that created them.
    pub fn unlearn(&mut self, request: &Request) -> Vec<usize> {
        let operations = request.operations.iter();
        let deleted = operations.filter(|operation| operation.kind == OperationKind::Delete);
        deleted.filter_map(|operation| self.makers.remove(&operation.path)).collect()
    }

    fn add(&mut self, contender: usize, path: &str, is_poll: bool) {
        let number = self.made.entry(contender).or_default();
        *number += u32::from(!is_poll || *number == 0);
        self.nodes.insert(path.to_owned(), format!("{}.node{number}", contender_name(contender)));
    }

    /// Returns the paths of the ephemeral nodes of a contender's last create.
    pub fn newest_of(&self, contender: usize) -> &[String] {
        self.newest.get(&contender).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns a node's name: the lock's directory, a contender's node, or a path below the lock.
    pub fn node(&self, path: &str) -> String {
        if let Some(name) = self.nodes.get(path) {
            return name.clone();
        }
        match path.strip_prefix(&self.lock) {
            Some("") => "lock".to_owned(),
            Some(rest) => format!("lock{}", without_numbers(rest)),
            None => "above the lock".to_owned(),
        }
    }

    /// Describes a request without its number, e.g. `getChildren lock`.
    fn request(&self, request: &Request) -> String {
        let is_create = matches!(
            request.operations.first().map(|operation| operation.kind),
            Some(OperationKind::Create { is_ephemeral: true })
        );
        match (request.path(), is_create) {
            ("", _) => request.name(),
            (_, true) => format!("{} own node", request.name()),
            (path, false) => format!("{} {}", request.name(), self.node(path)),
        }
    }

    /// Returns the name of a contender's request. Repeated names are numbered.
    pub fn of_request(&mut self, contender: usize, request: &Request) -> String {
        let name = format!("{}: {}", contender_name(contender), self.request(request));
        self.numbered(name)
    }

    /// Returns the name of a request that a contender repeats while nothing changes.
    pub fn of_poll(&self, contender: usize, request: &Request) -> String {
        format!("{}: {} again", contender_name(contender), self.request(request))
    }

    pub fn of_notification(&mut self, contender: usize, event: &str, path: &str) -> String {
        let name = format!("{}: notification, {} {event}", contender_name(contender), self.node(path));
        self.numbered(name)
    }

    fn numbered(&mut self, name: String) -> String {
        let number = self.seen.entry(name.clone()).or_default();
        *number += 1;
        if *number == 1 { name } else { format!("{name} #{number}") }
    }
}

/// Replaces GUIDs and sequence numbers with `*`: every run of hexadecimal digits and hyphens with at least eight
/// digits.
fn without_numbers(path: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for letter in path.chars().chain(['\0']) {
        if letter.is_ascii_hexdigit() || letter == '-' {
            word.push(letter);
            continue;
        }
        let digits = word.chars().filter(char::is_ascii_hexdigit).count();
        if digits >= 8 {
            out.push('*')
        } else {
            out.push_str(&word)
        }
        word.clear();
        if letter != '\0' {
            out.push(letter);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Operation;

    #[test]
    fn node_names_omit_sequence_numbers_and_guids() {
        let names = Names::new("/x/lock");
        assert_eq!(names.node("/x/lock"), "lock");
        assert_eq!(names.node("/x/lock/leases"), "lock/leases");
        let found = names.node("/x/lock/_c_5f0c1f2e-9e0e-4b8f-b7a3-2f9a1c2d3e4f-lock-0000000012");
        assert_eq!(found, names.node("/x/lock/_c_00000000-1111-2222-3333-444444444444-lock-0000000001"));
        assert_eq!(names.node("/x"), "above the lock");
    }

    #[test]
    fn nodes_of_a_contender_are_numbered_in_creation_order() {
        let mut names = Names::new("/l");
        names.add(1, "/l/n-0000000004", false);
        names.add(1, "/l/n-0000000009", false);
        names.add(1, "/l/n-0000000010", true);
        assert_eq!(names.node("/l/n-0000000004"), "c2.node1");
        let last = ["/l/n-0000000009", "/l/n-0000000010"].map(|path| names.node(path));
        assert_eq!(last, ["c2.node2"; 2], "a poll's node must not get a new number");
    }

    #[test]
    fn newest_nodes_are_all_ephemeral_nodes_of_the_last_create() {
        let create = |is_ephemeral| Operation {
            name: "create",
            path: "/l".into(),
            kind: OperationKind::Create { is_ephemeral },
        };
        let multi = |ephemeral: &[bool]| Request {
            xid: 1,
            opcode: 14,
            operations: ephemeral.iter().copied().map(create).collect(),
            is_multi: true,
        };
        let mut names = Names::new("/l");
        for (ephemeral, paths) in [
            (&[true][..], &["/l/a"][..]),
            (&[true, false, true], &["/l/b", "/l/c", "/l/d"]),
            (&[false], &["/l/e"]),
        ] {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            assert_eq!(names.learn(1, &multi(ephemeral), &paths, false), ephemeral.contains(&true));
        }
        assert_eq!(names.newest_of(1), ["/l/b", "/l/d"]);
        assert!(names.newest_of(0).is_empty());
    }

    #[test]
    fn deletion_returns_the_contender_that_last_created_the_node() {
        let request = |opcode, kind| {
            let operation = Operation { name: "", path: "/l/held".into(), kind };
            Request { xid: 1, opcode, operations: vec![operation], is_multi: false }
        };
        let (create, delete) =
            (request(1, OperationKind::Create { is_ephemeral: false }), request(2, OperationKind::Delete));
        let mut names = Names::new("/l");
        for contender in [0, 1] {
            assert!(!names.learn(contender, &create, &["/l/held".to_owned()], false));
        }
        assert_eq!(names.unlearn(&delete), [1]);
        assert!(names.unlearn(&delete).is_empty());
    }

    #[test]
    fn polls_have_no_numbers() {
        let operation = Operation { name: "getChildren", path: "/l".into(), kind: OperationKind::Read };
        let request = Request { xid: 1, opcode: 8, operations: vec![operation], is_multi: false };
        let mut names = Names::new("/l");
        assert_eq!([0; 2].map(|_| names.of_poll(1, &request)), ["c2: getChildren lock again"; 2]);
        assert_eq!(names.of_request(1, &request), "c2: getChildren lock");
    }

    #[test]
    fn events_with_the_same_name_are_numbered() {
        let mut names = Names::new("/l");
        assert_eq!(names.of_notification(0, "deleted", "/l"), "c1: notification, lock deleted");
        assert_eq!(names.of_notification(0, "deleted", "/l"), "c1: notification, lock deleted #2");
    }
}
