//! Contenders' requests, replies and notifications, counted frame by frame, and the notifications that
//! releases caused.
//!
//! A client's frames count for the cycle during which they pass. Zxids identify the cause of a notification: a
//! watch fires at the first change after the read that set the watch, and the replies to both requests contain
//! zxids.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;

use super::protocol::{self, Operation, is_refused, operations};
use zklockbench_core::jute::Reader;
use zklockbench_core::locked::locked;
use zklockbench_core::measure::{RequestKind, WireCounts};
use zklockbench_zk::EventKind;

/// Maximum number of changes and notifications to remember.
const REMEMBERED: usize = 1 << 20;
const NO_NODE: i32 = -101;
/// Length of a request's header in bytes.
const REQUEST_HEADER: usize = 8;
const REPLY_HEADER: usize = 16;

/// Counts of everything that contenders send and receive.
#[derive(Debug, Default)]
pub struct Wire(Mutex<WireState>);

/// Totals of [`Wire`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wired {
    /// Counts of each contender's first cycle.
    pub first: WireCounts,
    /// Counts of later cycles that have ended.
    pub later: WireCounts,
    /// Counts of all frames, including unfinished cycles.
    pub whole: WireCounts,
    /// Notifications caused by releases, or the reason why their number is unknown.
    pub fan_out: Result<FanOut, String>,
}

/// Notifications caused by releases: in clients' first cycles, in later ended cycles, and in total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FanOut {
    pub by_first: u64,
    pub by_later: u64,
    pub by_all: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Watched {
    /// Existence and data of a node.
    Node,
    Children,
}

/// A request that has no reply yet.
#[derive(Debug)]
struct AskedOnWire {
    xid: i32,
    opcode: i32,
    /// `None` for a request that is counted separately or has no kind.
    kind: Option<RequestKind>,
    is_apart: bool,
    watch: Option<(String, Watched)>,
    removes: Vec<(String, Watched)>,
    /// Changes that the request makes; `None` if the changes could not be read.
    changes: Option<Vec<Operation>>,
    turn: u64,
}

#[derive(Debug, Default)]
struct OfClient {
    first: WireCounts,
    later: WireCounts,
    /// Counts of the current cycle.
    current: WireCounts,
    /// Number of cycles that have ended.
    turns: u64,
    holds: bool,
    /// Nodes that the client created, and whether it held the lock at any time while each node existed.
    nodes: HashMap<String, bool>,
    /// Zxid at which each watch was set.
    watches: HashMap<(String, Watched), i64>,
    /// Requests without a reply, by connection.
    asked: HashMap<u64, VecDeque<AskedOnWire>>,
}

#[derive(Debug, Clone, Copy)]
struct WireChange {
    zxid: i64,
    /// Client and cycle of the release that made this change, if any.
    released: Option<(usize, u64)>,
}

#[derive(Debug)]
struct Fired {
    event: EventKind,
    path: String,
    /// Zxid at which the watch was set.
    set: i64,
}

#[derive(Debug, Default)]
struct WireState {
    clients: BTreeMap<usize, OfClient>,
    changes: HashMap<(EventKind, String), Vec<WireChange>>,
    fired: Vec<Fired>,
    remembered: usize,
    /// Reason why the causes of notifications are unknown.
    unclear: Option<&'static str>,
}

impl Wire {
    /// Counts a connect request for a new or an existing session.
    pub(super) fn connects(&self, client: usize, bytes: usize) {
        let mut state = locked(&self.0);
        if state.of(client).whole().apart.connects > 0 {
            state.is_unclear("a contender reconnected, so its watches could not be followed");
        }
        let apart = &mut state.of(client).current.apart;
        apart.connects += 1;
        apart.bytes += bytes as u64;
    }

    pub(super) fn connected(&self, client: usize, bytes: usize) {
        locked(&self.0).of(client).current.apart.bytes += bytes as u64;
    }

    /// Counts a request of `bytes` bytes that starts with `head`.
    pub(super) fn requested(&self, connection: u64, client: usize, head: &[u8], bytes: usize) {
        let mut state = locked(&self.0);
        let mut reader = Reader(head);
        let (Some(xid), Some(opcode)) = (reader.int(), reader.int()) else { return };
        let (of, bytes) = (state.of(client), bytes as u64);
        let kind = protocol::request(head).map(|request| request.kind);
        let apart = &mut of.current.apart;
        let count_apart = match opcode {
            11 => Some(&mut apart.pings),
            100 => Some(&mut apart.auths),
            101 | 105 => Some(&mut apart.watches_set_anew),
            -11 => Some(&mut apart.closes),
            _ => None,
        };
        let is_apart = count_apart.is_some();
        if let Some(count) = count_apart {
            *count += 1;
            apart.bytes += bytes;
        }
        let body = head.get(REQUEST_HEADER..).unwrap_or_default();
        let parts = if is_apart { Some(Vec::new()) } else { operations(opcode, body) };
        if !is_apart {
            let counts = &mut of.current;
            counts.bytes_sent += bytes;
            match kind {
                Some(kind) => counts.requests.add(kind, 1),
                None => *counts.other_requests.entry(opcode_name(opcode)).or_default() += 1,
            }
            if kind == Some(RequestKind::Multi) {
                let parts = parts.iter().flatten().map(|(opcode, _)| opcode_name(*opcode));
                parts.for_each(|part| *counts.parts_of_multis.entry(part).or_default() += 1);
            }
        }
        let watch = match kind {
            Some(RequestKind::GetDataWatch | RequestKind::ExistsWatch) => Some(Watched::Node),
            Some(RequestKind::GetChildrenWatch) => Some(Watched::Children),
            _ => None,
        };
        let watch = watch.and_then(|watched| Some((Reader(body).string()?, watched)));
        let removes = if kind == Some(RequestKind::RemoveWatches) { removed(body) } else { Vec::new() };
        let changes = parts.map(|parts| parts.into_iter().map(|(_, what)| what).collect());
        let asked = AskedOnWire { xid, opcode, kind, is_apart, watch, removes, changes, turn: of.turns };
        of.asked.entry(connection).or_default().push_back(asked);
        match opcode {
            101 | 105 => state.is_unclear("a contender restored its watches"),
            106 => state.is_unclear("a contender uses watches that fire more than once"),
            _ => {}
        }
    }

    /// Counts a reply or notification of `bytes` bytes.
    pub(super) fn answered(&self, connection: u64, client: usize, head: &[u8], bytes: usize) {
        let mut state = locked(&self.0);
        let mut reader = Reader(head);
        let (Some(xid), Some(zxid), Some(error)) = (reader.int(), reader.long(), reader.int()) else {
            return;
        };
        if xid == protocol::NOTIFICATION {
            return state.notified(client, head, bytes as u64);
        }
        let of = state.of(client);
        let pending = of.asked.entry(connection).or_default();
        // Replies arrive in request order, except for ping replies.
        let asked = pending.iter().position(|asked| asked.xid == xid).and_then(|at| pending.remove(at));
        let Some(asked) = asked.filter(|asked| !asked.is_apart) else {
            of.current.apart.bytes += bytes as u64;
            return;
        };
        let body = head.get(REPLY_HEADER..).unwrap_or_default();
        let is_done = error == 0 && !is_refused(asked.opcode, body);
        of.current.bytes_received += bytes as u64;
        if let Some(kind) = asked.kind.filter(|_| is_done) {
            of.current.succeeded.add(kind, 1);
            if matches!(kind, RequestKind::GetChildren | RequestKind::GetChildrenWatch) {
                let names = Reader(body).int().and_then(|names| u64::try_from(names).ok());
                of.current.names_returned += names.unwrap_or(0);
            }
        }
        let is_set = is_done || (error == NO_NODE && asked.kind == Some(RequestKind::ExistsWatch));
        if let Some(watch) = asked.watch.clone().filter(|_| is_set) {
            of.watches.entry(watch).or_insert(zxid);
        }
        if is_done {
            for watch in &asked.removes {
                of.watches.remove(watch);
            }
            state.changed(client, asked, zxid, body);
        }
    }

    pub fn granted(&self, client: usize) {
        let mut state = locked(&self.0);
        let of = state.of(client);
        of.holds = true;
        of.nodes.values_mut().for_each(|holds| *holds = true);
        of.current.acquired += 1;
    }

    /// Ends a client's cycle. The client has released or stopped waiting, and is idle until the next cycle.
    pub fn turn_ended(&self, client: usize) {
        let mut state = locked(&self.0);
        let of = state.of(client);
        let counts = std::mem::take(&mut of.current);
        *if of.turns == 0 { &mut of.first } else { &mut of.later } += counts;
        of.turns += 1;
        of.holds = false;
    }

    pub fn counted(&self) -> Wired {
        let state = locked(&self.0);
        let [first, later, whole] = <[WireCounts; 3]>::default();
        let mut counted = Wired { first, later, whole, fan_out: state.fan_out() };
        for of in state.clients.values() {
            counted.first += of.first.clone();
            counted.later += of.later.clone();
            counted.whole += of.whole();
        }
        counted
    }
}

/// Returns the watches that a request removes: of the children, the node, or both.
fn removed(body: &[u8]) -> Vec<(String, Watched)> {
    let mut reader = Reader(body);
    let (Some(path), Some(which)) = (reader.string(), reader.int()) else { return Vec::new() };
    let watched = match which {
        1 => &[Watched::Children][..],
        2 => &[Watched::Node],
        _ => &[Watched::Children, Watched::Node],
    };
    watched.iter().map(|watched| (path.clone(), *watched)).collect()
}

/// Returns ZooKeeper's name for a request, or its opcode.
fn opcode_name(opcode: i32) -> String {
    protocol::name(opcode).map_or_else(|| format!("opcode {opcode}"), str::to_owned)
}

impl OfClient {
    fn whole(&self) -> WireCounts {
        self.first.clone() + self.later.clone() + self.current.clone()
    }
}

impl WireState {
    fn of(&mut self, client: usize) -> &mut OfClient {
        self.clients.entry(client).or_default()
    }

    fn is_unclear(&mut self, why: &'static str) {
        self.unclear.get_or_insert(why);
    }

    /// Counts a change or notification to remember. Returns whether the total is within the limit.
    fn remembers(&mut self) -> bool {
        self.remembered += 1;
        if self.remembered > REMEMBERED {
            self.is_unclear("there were too many changes to remember");
        }
        self.remembered <= REMEMBERED
    }

    fn notified(&mut self, client: usize, head: &[u8], bytes: u64) {
        let of = self.of(client);
        of.current.bytes_received += bytes;
        let Some((event, path)) = protocol::notification(head) else { return };
        let seen = &mut of.current.notifications;
        let (count, fires) = match event {
            EventKind::NodeCreated => (&mut seen.node_created, &[Watched::Node][..]),
            EventKind::NodeDeleted => (&mut seen.node_deleted, &[Watched::Node, Watched::Children][..]),
            EventKind::DataChanged => (&mut seen.data_changed, &[Watched::Node][..]),
            EventKind::ChildrenChanged => (&mut seen.children_changed, &[Watched::Children][..]),
            EventKind::SessionOver => return,
        };
        *count += 1;
        let set = fires.iter().filter_map(|watched| of.watches.remove(&(path.clone(), *watched))).min();
        match set {
            Some(set) if self.remembers() => self.fired.push(Fired { event, path, set }),
            Some(_) => {}
            None => self.is_unclear("a notification arrived for a watch that was not seen"),
        }
    }

    fn changed(&mut self, client: usize, asked: AskedOnWire, zxid: i64, body: &[u8]) {
        let (changes, names) = (asked.changes, Reader(body).created(asked.opcode));
        let (Some(changes), Some(names)) = (changes, names) else {
            return self.is_unclear("a multi was too long for all of its changes to be read");
        };
        let mut names = names.into_iter();
        for change in changes {
            let of = self.of(client);
            let by_release = |is: bool| is.then_some((client, asked.turn));
            match change {
                Operation::Look => {}
                Operation::Create => {
                    let Some(path) = names.next() else { continue };
                    let holds = of.holds;
                    of.nodes.insert(path.clone(), holds);
                    self.children_change(&path, zxid, None);
                    self.happens(EventKind::NodeCreated, path, WireChange { zxid, released: None });
                }
                Operation::Delete(path) => {
                    // The owner may be in a later cycle by now, but the node's record shows whether the owner
                    // held the lock.
                    let released = by_release(of.nodes.remove(&path).unwrap_or(of.holds));
                    self.children_change(&path, zxid, released);
                    self.happens(EventKind::NodeDeleted, path, WireChange { zxid, released });
                }
                Operation::SetData(path) => {
                    let released = by_release(of.holds);
                    self.happens(EventKind::DataChanged, path, WireChange { zxid, released });
                }
            }
        }
    }

    fn children_change(&mut self, path: &str, zxid: i64, released: Option<(usize, u64)>) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.happens(EventKind::ChildrenChanged, parent.to_owned(), WireChange { zxid, released });
        }
    }

    fn happens(&mut self, event: EventKind, path: String, change: WireChange) {
        if self.remembers() {
            self.changes.entry((event, path)).or_default().push(change);
        }
    }

    fn fan_out(&self) -> Result<FanOut, String> {
        if let Some(why) = self.unclear {
            return Err(why.to_owned());
        }
        // Replies to different clients may pass in a different order than their transactions.
        let mut changes = self.changes.clone();
        changes.values_mut().for_each(|changes| changes.sort_by_key(|change| change.zxid));
        let mut fan_out = FanOut::default();
        for Fired { event, path, set } in &self.fired {
            let changes = changes.get(&(*event, path.clone())).map(Vec::as_slice).unwrap_or_default();
            let cause = changes.get(changes.partition_point(|change| change.zxid <= *set));
            let Some(cause) = cause else {
                return Err("another client changed a node that a contender watched".to_owned());
            };
            let Some((client, turn)) = cause.released else { continue };
            fan_out.by_all += 1;
            let ended = self.clients.get(&client).map_or(0, |of| of.turns);
            if turn < ended {
                *if turn == 0 { &mut fan_out.by_first } else { &mut fan_out.by_later } += 1;
            }
        }
        Ok(fan_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: i32 = 1;
    const DELETE: i32 = 2;
    const GET_DATA: i32 = 4;
    const GET_CHILDREN: i32 = 12;

    fn text(text: &str) -> Vec<u8> {
        [&i32::try_from(text.len()).unwrap().to_be_bytes(), text.as_bytes()].concat()
    }

    /// Clients that send requests and get replies. Each client's connection has the client's number.
    struct Clients {
        wire: Wire,
        xid: i32,
        zxid: i64,
    }

    impl Clients {
        fn new() -> Self {
            Self { wire: Wire::default(), xid: 0, zxid: 100 }
        }

        fn asks(&mut self, client: usize, opcode: i32, body: &[u8]) -> i32 {
            self.xid += 1;
            let head = [&self.xid.to_be_bytes()[..], &opcode.to_be_bytes(), body].concat();
            self.wire.requested(client as u64, client, &head, head.len() + 4);
            self.xid
        }

        fn gets_reply(&self, client: usize, xid: i32, zxid: i64, body: &[u8]) {
            let head = [&xid.to_be_bytes()[..], &zxid.to_be_bytes(), &[0; 4], body].concat();
            self.wire.answered(client as u64, client, &head, head.len() + 4);
        }

        fn creates(&mut self, client: usize, path: &str) {
            let xid = self.asks(client, CREATE, &text("/q/n-"));
            self.zxid += 1;
            self.gets_reply(client, xid, self.zxid, &text(path));
        }

        fn deletes(&mut self, client: usize, path: &str) {
            let xid = self.asks(client, DELETE, &text(path));
            self.zxid += 1;
            self.gets_reply(client, xid, self.zxid, &[]);
        }

        /// Sends a read request that sets a watch.
        fn watches(&mut self, client: usize, opcode: i32, path: &str) {
            let xid = self.asks(client, opcode, &[&text(path)[..], &[1]].concat());
            self.gets_reply(client, xid, self.zxid, &3_i32.to_be_bytes());
        }

        fn is_notified(&self, client: usize, kind: i32, path: &str) {
            self.gets_reply(client, -1, -1, &[&kind.to_be_bytes()[..], &[0; 4], &text(path)].concat());
        }

        fn fan_out(&self) -> Result<FanOut, String> {
            self.wire.counted().fan_out
        }
    }

    #[test]
    fn unfinished_cycle_counts_only_in_the_total() {
        let mut clients = Clients::new();
        for turn in 0..3 {
            clients.creates(7, &format!("/q/n-{turn}"));
            clients.watches(7, GET_CHILDREN, "/q");
            clients.wire.granted(7);
            clients.deletes(7, &format!("/q/n-{turn}"));
            clients.wire.turn_ended(7);
        }
        clients.creates(7, "/q/n-3");
        let ping = clients.asks(7, 11, &[]);
        clients.gets_reply(7, ping, 0, &[]);
        let Wired { first, later, whole, .. } = clients.wire.counted();
        let kinds = |counts: &WireCounts| {
            [RequestKind::Create, RequestKind::GetChildrenWatch, RequestKind::Delete]
                .map(|kind| counts.requests.get(kind))
        };
        assert_eq!((kinds(&first), first.acquired), ([1, 1, 1], 1));
        assert_eq!((kinds(&later), later.acquired), ([2, 2, 2], 2));
        assert_eq!((kinds(&whole), whole.succeeded.get(RequestKind::Create)), ([4, 3, 3], 4));
        assert_eq!((whole.names_returned, whole.apart.pings, later.apart.pings), (9, 1, 0));
        assert!(whole.apart.bytes > 0 && first.bytes_sent * 2 == later.bytes_sent);
    }

    #[test]
    fn notifications_of_a_deletion_are_attributed_to_the_release() {
        let mut clients = Clients::new();
        clients.creates(0, "/q/n-0");
        clients.wire.granted(0);
        clients.creates(1, "/q/n-1");
        clients.watches(1, GET_DATA, "/q/n-0");
        clients.creates(2, "/q/n-2");
        clients.watches(2, GET_DATA, "/q/n-1");
        // Given a contender that stops waiting, so the next contender moves up
        clients.deletes(1, "/q/n-1");
        clients.is_notified(2, 2, "/q/n-1");
        clients.wire.turn_ended(1);
        clients.watches(2, GET_DATA, "/q/n-0");
        assert_eq!(clients.fan_out(), Ok(FanOut::default()));
        // When the notification of a release passes before the reply to the delete
        let xid = clients.asks(0, DELETE, &text("/q/n-0"));
        clients.is_notified(2, 2, "/q/n-0");
        clients.gets_reply(0, xid, 200, &[]);
        clients.wire.turn_ended(0);
        assert_eq!(clients.fan_out(), Ok(FanOut { by_first: 1, by_later: 0, by_all: 1 }));
    }

    #[test]
    fn notification_of_a_child_watch_is_attributed_to_the_first_change() {
        let mut clients = Clients::new();
        clients.creates(0, "/q/n-0");
        clients.wire.granted(0);
        clients.watches(1, GET_CHILDREN, "/q");
        clients.creates(2, "/q/n-2");
        clients.deletes(0, "/q/n-0");
        // The create caused the notification, although the release was executed before the notification arrived.
        clients.is_notified(1, 4, "/q");
        assert_eq!(clients.fan_out().map(|fan_out| fan_out.by_all), Ok(0));
        clients.watches(1, GET_CHILDREN, "/q");
        clients.wire.granted(2);
        clients.deletes(2, "/q/n-2");
        clients.is_notified(1, 4, "/q");
        assert_eq!(clients.fan_out().map(|fan_out| fan_out.by_all), Ok(1));
    }

    #[test]
    fn unknown_fan_out_has_a_reason_and_leaves_counts_intact() {
        let mut clients = Clients::new();
        clients.wire.connects(0, 49);
        clients.watches(0, GET_DATA, "/q/n-0");
        clients.is_notified(0, 2, "/q/n-0");
        assert!(clients.fan_out().is_err_and(|why| why.contains("another client changed")));
        clients.wire.connects(0, 49);
        assert!(clients.fan_out().is_err_and(|why| why.contains("reconnected")));
        let whole = clients.wire.counted().whole;
        assert_eq!((whole.apart.connects, whole.notifications.node_deleted), (2, 1));
        let mut unseen = Clients::new();
        unseen.is_notified(0, 2, "/q/n-0");
        assert!(unseen.fan_out().is_err_and(|why| why.contains("a watch that was not seen")));
        unseen.asks(1, 106, &text("/q"));
        assert_eq!(unseen.wire.counted().whole.other_requests["addWatch"], 1);
    }
}
