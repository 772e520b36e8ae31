//! Turns records into cycles: finds the lock nodes, and determines when each was created, got the lock and was
//! deleted.
//!
//! Memory grows with the number of simultaneous nodes and of distinct locks, not with the length of the log.

mod readers;
mod semaphore;
mod watched;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::cycle::{Cycle, Ending};
use crate::family::{KAZOO_INNER, folded, lock_below, semaphore_of};
use crate::queue::{Grant, Moment, Node, NodePath, Queue};
use crate::recipe::{Recipe, Recipes, Role, is_bare_hex, is_of_work_queue, is_sequential, recognise};
use crate::snapshot::StoredNode;
use zklockbench_core::spool::{Sorted, Sorter};
use zklockbench_core::txn::{self, Change, Happened, Record};

pub use watched::{Listing, Seen};

/// Largest number of distinct locks; further locks are folded into families.
const LOCKS_MOST: usize = 500_000;
/// Error code of a create that fails because the node exists.
const NODE_EXISTS: i32 = -110;
/// Longest time from the deletion of a single node until a waiting client creates it again.
const RECREATED_WITHIN_MS: i64 = 1_000;

/// Part of the logs to reconstruct.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Path of the locks; empty for all.
    pub path: String,
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
}

impl Scope {
    fn has_path(&self, path: &[u8]) -> bool {
        let rest = path.strip_prefix(self.path.trim_end_matches('/').as_bytes());
        // The inner queue of kazoo's semaphore is not below its path.
        let rest = rest.map(|rest| rest.strip_prefix(KAZOO_INNER).unwrap_or(rest));
        rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
    }

    fn has_time(&self, ms: i64) -> bool {
        self.since_ms.is_none_or(|since| ms >= since) && self.until_ms.is_none_or(|until| ms < until)
    }
}

/// A lock, shared by many cycles.
#[derive(Debug)]
pub struct Lock {
    pub path: NodePath,
    pub recipes: Recipes,
    /// Largest number of nodes in the queue at the same time.
    pub longest: u32,
    /// Whether the lock's directory exists at the end of the logs.
    pub remains: bool,
    /// Whether the lock has a node at the end of the logs.
    pub is_in_use: bool,
    /// Last period during which the lock's single node existed.
    occupied: Option<Occupied>,
}

/// A period during which the lock's single node existed, apart from short gaps between one client's node and the
/// next.
#[derive(Debug, Clone, Copy)]
struct Occupied {
    since_ms: i64,
    /// Time at which the last node was created.
    created_ms: i64,
    ended_ms: i64,
}

impl Occupied {
    /// Returns the start of a wait for the node, given the session's first and last failed create, which may
    /// have targeted other nodes. A client that polls may create the node long after the last failure.
    fn wait_from(self, (first, last): (Moment, Moment), now: Moment) -> Option<Moment> {
        let from = if first.ms >= self.since_ms { first } else { last };
        let polls = now.ms - last.ms <= RECREATED_WITHIN_MS.max(last.ms - from.ms);
        let since_ms = if polls { self.since_ms } else { self.created_ms };
        (since_ms..=self.ended_ms + RECREATED_WITHIN_MS).contains(&last.ms).then_some(from)
    }
}

/// Counts of transactions in scope.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    pub records: u64,
    /// Creates, deletes and writes of nodes, including each operation of a multi.
    pub writes: u64,
    /// Creates and deletes of lock nodes.
    pub lock_writes: u64,
    pub sessions: u64,
    /// Number of failed requests by error code.
    pub failed: BTreeMap<i32, u64>,
}

/// A node that still exists at the end of the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staying {
    pub lock: u32,
    pub session: i64,
    pub arrived_ms: i64,
    pub is_holder: bool,
}

/// All cycles in order of arrival, and facts about them.
#[derive(Debug)]
pub struct Observed {
    pub cycles: Sorted<Cycle, i64>,
    pub locks: Vec<Lock>,
    pub counts: Counts,
    pub first_ms: i64,
    pub last_ms: i64,
    /// Earliest and latest time in the logs, even outside the scope.
    pub covers_ms: (i64, i64),
    /// Number of times the clock was set back.
    pub clock_steps: u32,
    pub staying: Vec<Staying>,
    /// Whether locks were folded into families because there were too many.
    pub has_folded_locks: bool,
}

#[derive(Debug)]
pub struct Reconstruction {
    scope: Scope,
    nodes: HashMap<NodePath, Node>,
    queues: HashMap<NodePath, Queue>,
    sessions: HashMap<i64, OpenSession>,
    locks: Vec<Lock>,
    numbers: HashMap<NodePath, u32>,
    /// Paths of semaphores, whose inner queues do not count as locks, with the time of the first release since the
    /// last create of a lease.
    semaphores: BTreeMap<NodePath, Option<Moment>>,
    cycles: Sorter<Cycle, i64>,
    counts: Counts,
    now: Moment,
    first_ms: Option<i64>,
    last_ms: i64,
    covers_ms: (i64, i64),
    failure: Option<io::Error>,
    /// Whether changes come from a watch, which reports no sessions.
    is_watch: bool,
    /// Number of the last observed change.
    last: i64,
    /// Nodes created before this zxid may have been deleted by a transaction that is not in the logs.
    doubtful_before: i64,
}

#[derive(Debug, Default)]
struct OpenSession {
    /// Session timeout; `None` if the session is older than the logs and their snapshots.
    timeout_ms: Option<u32>,
    nodes: BTreeSet<NodePath>,
    /// Number of nodes in queues of locks. They may belong to several threads that share the session.
    queued: usize,
    released: Option<Moment>,
    /// Request number and time of the session's last write, if that write deleted its only lock node.
    deleted: Option<(i32, Moment)>,
    /// Times of the first and last create that failed with `NODE_EXISTS` since the session's last write.
    refused: Option<(Moment, Moment)>,
}

/// The request that made a change.
#[derive(Clone, Copy)]
struct Request {
    session: i64,
    cxid: i32,
    zxid: i64,
    /// Position of the change in its transaction.
    place: u32,
    /// Timeout of the session, if it has expired with this request.
    expired_after_ms: Option<u32>,
}

impl Request {
    /// Returns whether the client died before it could notice that it holds the lock. Servers expire a session a full
    /// timeout after its last request or ping, or later, and a client that waits sends a request to see whether it
    /// holds the lock.
    fn is_of_dead_waiter(self, node: &Node, now: Moment) -> bool {
        let (Grant::At(granted), Some(timeout_ms)) = (node.grant, self.expired_after_ms) else {
            return false;
        };
        node.is_contended && now.since(granted).is_some_and(|ms| ms < timeout_ms)
    }
}

impl Reconstruction {
    /// Creates a reconstruction, which spools cycles that do not fit in memory to `scratch`.
    pub fn new(scope: Scope, scratch: &Path) -> Self {
        Self {
            scope,
            nodes: HashMap::new(),
            queues: HashMap::new(),
            sessions: HashMap::new(),
            locks: Vec::new(),
            numbers: HashMap::new(),
            semaphores: BTreeMap::new(),
            cycles: Sorter::by(|cycle: &Cycle| cycle.arrived_ms, scratch),
            counts: Counts::default(),
            now: Moment { ms: i64::MIN, setting: 0 },
            first_ms: None,
            last_ms: i64::MIN,
            covers_ms: (i64::MAX, i64::MIN),
            failure: None,
            is_watch: false,
            last: 0,
            doubtful_before: 0,
        }
    }

    /// Adds a node that existed before the first record.
    pub fn existed(&mut self, stored: StoredNode) {
        let Some(session) = stored.owner else { return };
        self.last = self.last.max(stored.created);
        let request = Request { session, cxid: 0, zxid: stored.created, place: 0, expired_after_ms: None };
        let arrived = Moment { ms: plausible(stored.created_ms), setting: self.now.setting };
        self.create(&stored.path, request, None, arrived, true);
    }

    /// Records the timeouts of sessions.
    pub fn note_timeouts(&mut self, timeouts: impl IntoIterator<Item = (i64, i32)>) {
        for (session, ms) in timeouts {
            self.sessions.entry(session).or_default().timeout_ms = u32::try_from(ms).ok();
        }
    }

    /// Records that transactions before this one are missing from the logs; 0 if a snapshot contains their effects.
    pub fn lost_before(&mut self, zxid: i64) {
        self.doubtful_before = zxid;
    }

    /// Continues after a gap: ends the cycles of nodes that the snapshot does not contain, and adds the new nodes.
    pub fn goes_on_with(&mut self, stored: Vec<StoredNode>) -> io::Result<()> {
        let lost: Vec<NodePath> = {
            let kept: BTreeMap<&[u8], Option<i64>> =
                stored.iter().map(|node| (node.path.as_slice(), node.owner)).collect();
            // Another session may have created a single node again.
            let is_kept = |path: &NodePath, node: &Node| kept.get(&**path) == Some(&Some(node.session));
            let lost = self.nodes.iter().filter(|(path, node)| !is_kept(path, node));
            lost.map(|(path, _)| Arc::clone(path)).collect()
        };
        self.replace(lost, stored)
    }

    /// Ends the cycles of lost nodes, and adds the stored nodes that are new.
    fn replace(&mut self, lost: Vec<NodePath>, stored: Vec<StoredNode>) -> io::Result<()> {
        self.end_all(lost, Ending::Unobserved, None);
        let is_fresh = |node: &StoredNode| !self.nodes.contains_key(node.path.as_slice());
        let fresh: Vec<StoredNode> = stored.into_iter().filter(is_fresh).collect();
        fresh.into_iter().for_each(|node| self.existed(node));
        self.failure.take().map_or(Ok(()), Err)
    }

    pub fn take(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.pass_time(record.at_ms);
        if self.scope.has_time(self.now.ms) {
            self.count(record);
        }
        self.note_timeouts(record.session_timeout().map(|ms| (record.session, ms)));
        let expired_after_ms = self.expired_after(record);
        let Record { session, cxid, zxid, .. } = *record;
        let mut request = Request { session, cxid, zxid, place: 0, expired_after_ms };
        if record.error() == Some(NODE_EXISTS) {
            let open = self.sessions.entry(record.session).or_default();
            open.refused.get_or_insert((self.now, self.now)).1 = self.now;
        }
        let ending = if record.ends_session() { Ending::SessionEnded } else { Ending::Released };
        let is_batch = record.ends_session() || record.kind == txn::MULTI;
        let (mut last, mut ended, mut removed) = (None, Vec::new(), Vec::new());
        record.changes(&mut |change| {
            let node = self.nodes.get_key_value(change.path).map(|(path, _)| path);
            last = Some((change.happened, node.is_some()));
            match node.filter(|_| is_batch && change.happened == Happened::Deleted) {
                Some(path) => {
                    ended.push(Arc::clone(path));
                    self.count_write(true);
                }
                None => {
                    if change.happened == Happened::Created {
                        self.end_all(std::mem::take(&mut ended), ending, Some(request));
                        self.set_removed(std::mem::take(&mut removed));
                    }
                    self.apply(&change, request);
                    if is_batch && change.happened == Happened::Deleted {
                        removed.push(NodePath::from(change.path));
                    }
                }
            }
            request.place += 1;
        });
        if record.ends_session() {
            let nodes = self.sessions.remove(&record.session).map(|open| open.nodes).unwrap_or_default();
            // Without a list of the nodes, their deletes have not been counted.
            let unlisted = if ended.is_empty() { nodes.len() } else { 0 };
            (0..unlisted).for_each(|_| self.count_write(true));
            ended.extend(nodes);
        }
        self.end_all(ended, ending, Some(request));
        self.set_removed(removed);
        if let Some((happened, was_lock)) = last {
            self.note_write(request, happened, was_lock);
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Returns the timeout of a session that expired with this record. Servers end such a session with the request
    /// number 0; clients that close their session number the request like any other.
    fn expired_after(&self, record: &Record<'_>) -> Option<u32> {
        let is_expiry = record.ends_session() && record.cxid == 0;
        self.sessions.get(&record.session).filter(|_| is_expiry)?.timeout_ms
    }

    fn pass_time(&mut self, ms: i64) {
        let ms = plausible(ms);
        if self.now.ms > ms {
            self.now.setting += 1;
        }
        self.now.ms = ms;
        self.covers_ms = (self.covers_ms.0.min(ms), self.covers_ms.1.max(ms));
        if self.scope.has_time(ms) {
            self.first_ms.get_or_insert(ms);
            self.last_ms = self.last_ms.max(ms);
        }
    }

    fn count(&mut self, record: &Record<'_>) {
        self.counts.records += 1;
        self.counts.sessions += u64::from(record.kind == txn::CREATE_SESSION);
        if let Some(code) = record.error() {
            *self.counts.failed.entry(code).or_default() += 1;
        }
    }

    fn apply(&mut self, change: &Change<'_>, request: Request) {
        let is_lock = match change.happened {
            Happened::Written => false,
            Happened::Created if change.ephemeral => {
                self.create(change.path, request, change.sequence, self.now, false)
            }
            Happened::Created => self.set_remains(change.path, true),
            Happened::Deleted => match self.nodes.get_key_value(change.path) {
                Some((path, _)) => {
                    let path = Arc::clone(path);
                    self.end(&path, Ending::Released, Some(request));
                    true
                }
                None => self.set_remains(change.path, false),
            },
        };
        self.count_write(is_lock);
    }

    fn count_write(&mut self, is_lock: bool) {
        let counts = self.scope.has_time(self.now.ms);
        self.counts.writes += u64::from(counts);
        self.counts.lock_writes += u64::from(counts && is_lock);
    }

    /// Notes the deletion of directories whose locks may have become known only when the directories' last nodes
    /// ended, in the same transaction.
    fn set_removed(&mut self, directories: Vec<NodePath>) {
        for directory in directories {
            self.set_remains(&directory, false);
        }
    }

    /// Records whether a lock's directory exists. Returns `false`, because a directory is not a lock node.
    fn set_remains(&mut self, path: &[u8], remains: bool) -> bool {
        if let Some(number) = self.numbers.get(path)
            && let Some(lock) = self.locks.get_mut(*number as usize)
        {
            lock.remains = remains;
        }
        false
    }

    /// Records an ephemeral node, with the number that its create appended if the node is sequential. Returns
    /// whether the node may belong to a lock.
    fn create(
        &mut self,
        path: &[u8],
        request: Request,
        sequence: Option<i32>,
        arrived: Moment,
        is_carried_over: bool,
    ) -> bool {
        if !self.scope.has_path(path) {
            return false;
        }
        let path: NodePath = path.into();
        if self.nodes.contains_key(&path) {
            self.end(&path, Ending::Unobserved, None);
        }
        let (directory, name) = split(&path);
        let (recipe, role) =
            recognise(directory, name).unwrap_or_else(|| self.guess(directory, name, sequence, request));
        let is_single = recipe.is_single();
        let writer = match role {
            Role::Read => self.downgraded_writer(directory, name, sequence, request.session),
            Role::Write | Role::Lease => None,
        };
        let directory: NodePath = if is_single { Arc::clone(&path) } else { directory.into() };
        let mut node = Node {
            directory: Arc::clone(&directory),
            position: writer.map_or((request.zxid, request.place), |(at, _)| (at.0, at.1 + 1)),
            arrived,
            session: request.session,
            cxid: request.cxid,
            recipe,
            role,
            grant: Grant::Waits,
            is_contended: false,
            since_ms: None,
            after_release_ms: None,
            is_carried_over,
            handoff_ms: None,
            may_be_registered: recipe == Recipe::Sequential && !self.numbers.contains_key(&directory),
            writers_ahead: 0,
            without_writers: None,
            has_lease: false,
        };
        let is_pending = role == Role::Lease && self.link_to_inner(&mut node);
        let open = self.sessions.entry(request.session).or_default();
        if let Some(refused) = open.refused.filter(|_| is_single)
            && let Some(lock) = self.numbers.get(&path).and_then(|number| self.locks.get(*number as usize))
            && let Some(from) = lock.occupied.and_then(|occupied| occupied.wait_from(refused, self.now))
        {
            node.arrived = from;
            node.is_contended = true;
        }
        // If the session has other nodes in queues, its last release may be another thread's.
        let released = open.released.filter(|_| open.queued == 0);
        node.since_ms = released.and_then(|released| node.arrived.since(released));
        let is_next = |cxid: i32| (1..=3).contains(&request.cxid.wrapping_sub(cxid));
        let deleted = open.deleted.filter(|(cxid, _)| is_next(*cxid));
        node.after_release_ms = deleted.and_then(|(_, at)| self.now.since(at)).filter(|ms| *ms <= 1_000);
        open.queued += usize::from(node.is_queued());
        open.nodes.insert(Arc::clone(&path));
        let queue = self.queues.entry(directory).or_default();
        node.writers_ahead = queue.writers;
        node.without_writers = (queue.writers == 0).then_some(self.now);
        let holds = queue.add(&path, &node) || writer.is_some_and(|(_, holds)| holds);
        if is_pending {
            queue.set_pending(&path);
        }
        queue.note_length();
        node.is_contended |= !holds;
        node.grant = match holds {
            false => Grant::Waits,
            true if is_carried_over => Grant::Earlier,
            true => Grant::At(self.now),
        };
        self.nodes.insert(path, node);
        true
    }

    /// Guesses the recipe of a node with an unknown name.
    fn guess(
        &self,
        directory: &[u8],
        name: &[u8],
        sequence: Option<i32>,
        request: Request,
    ) -> (Recipe, Role) {
        if is_bare_hex(name) && self.inner_node(directory, Recipe::KazooSemaphore, request.session).is_some()
        {
            return (Recipe::KazooSemaphore, Role::Lease);
        }
        match is_sequential(name, sequence) && !is_of_work_queue(directory, name) {
            true => (Recipe::Sequential, Role::Write),
            false => (Recipe::SingleNode, Role::Write),
        }
    }

    /// Ends the cycles of nodes that disappear together, the last nodes first, so that no end grants the lock
    /// to another of these nodes.
    fn end_all(&mut self, paths: Vec<NodePath>, ending: Ending, request: Option<Request>) {
        if paths.is_empty() {
            return;
        }
        let position = |path: NodePath| Some((self.nodes.get(&path)?.position, path));
        let mut all: Vec<((i64, u32), NodePath)> = paths.into_iter().filter_map(position).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        all.dedup();
        all.iter().for_each(|(_, path)| self.end(path, ending, request));
    }

    /// Ends the nodes that block a node deleted by its own session, if the deletes of all blockers may be missing
    /// from the logs. For some recipes, an odd number of requests since the create indicates a timeout, not a release,
    /// so the blockers are kept.
    fn end_doubtful_blockers(&mut self, path: &NodePath, request: Request) {
        let waits = |node: &&Node| node.grant == Grant::Waits && node.session == request.session;
        let Some(node) = self.nodes.get(path).filter(waits) else { return };
        // kazoo restarts its request numbers with each connection, so they may decrease.
        let requests = request.cxid.wrapping_sub(node.cxid);
        if node.recipe.lists_before_holding() && node.cxid > 0 && requests > 0 && requests % 2 != 0 {
            return;
        }
        let Some(queue) = self.queues.get(&node.directory) else { return };
        let is_doubtful =
            |path: &NodePath| self.nodes.get(path).is_some_and(|node| node.position.0 < self.doubtful_before);
        if queue.blockers(node, &self.nodes).all(is_doubtful) {
            let blockers: Vec<NodePath> = queue.blockers(node, &self.nodes).cloned().collect();
            self.end_all(blockers, Ending::Unobserved, None);
        }
    }

    fn end(&mut self, path: &NodePath, ending: Ending, request: Option<Request>) {
        let mut waited_until = None;
        if let (Ending::Released, Some(request)) = (ending, request) {
            waited_until = self.waited_until(path, request);
            if self.doubtful_before > 0 {
                self.end_doubtful_blockers(path, request);
            }
        }
        let Some(mut node) = self.nodes.remove(path) else { return };
        let now = self.now;
        if request.is_some_and(|request| request.is_of_dead_waiter(&node, now)) {
            node.grant = Grant::Waits;
        }
        let is_by_other = request.is_some_and(|request| request.session != node.session);
        let ending = if ending == Ending::Released && is_by_other { Ending::Broken } else { ending };
        // If the node's end was not observed, its time is unknown.
        let grant = if ending == Ending::Unobserved { Grant::Earlier } else { Grant::At(now) };
        if let Some(open) = self.sessions.get_mut(&node.session) {
            open.nodes.remove(path);
            open.queued -= usize::from(node.is_queued());
            if ending == Ending::Released && node.grant != Grant::Waits {
                open.released = Some(now);
            }
        }
        let (mut longest, mut was_pending) = (0, false);
        if let Some(queue) = self.queues.get_mut(&node.directory) {
            longest = queue.longest;
            was_pending = queue.pending.take_if(|pending| pending == path).is_some();
            queue.remove(&node, grant, &mut self.nodes);
            if queue.is_empty() {
                self.queues.remove(&node.directory);
            }
        }
        if node.role == Role::Lease && ending != Ending::Unobserved {
            self.note_lease_end(&node);
        }
        if node.has_lease {
            self.confirm_lease(&node);
            return;
        }
        // Before a client deletes its lease, it also uses the inner queue, so do not count its requests.
        let counts = node.cxid > 0 && node.role != Role::Lease;
        let is_own = request.is_some_and(|request| counts && request.session == node.session);
        let requests = request.filter(|_| is_own).map_or(0, |request| request.cxid.wrapping_sub(node.cxid));
        // A client that leaves a semaphore's inner queue without a lease has given up.
        let is_inner = semaphore_of(&node.directory).is_some_and(|outer| self.semaphores.contains_key(outer));
        let is_granted = node.grant != Grant::Waits && !was_pending && !is_inner;
        let ending = if ending == Ending::Released && !is_granted { Ending::GaveUp } else { ending };
        let (waited_ms, held_ms) = match node.grant {
            Grant::At(at) if is_granted => (at.since(node.arrived), now.since(at)),
            _ => (None, None),
        };
        let late_ms = match node.grant {
            Grant::At(at) if waited_ms.and(held_ms).is_some() => {
                waited_until.and_then(|until| until.since(at))
            }
            _ => None,
        };
        let is_over = !matches!(ending, Ending::Open | Ending::Unobserved);
        // A request from before the logs counts if it ends within the scope.
        let counts_at = if node.is_carried_over { now } else { node.arrived };
        if !self.scope.has_time(counts_at.ms) {
            return;
        }
        // The length of a semaphore is its number of leases, not of requests in its inner queue.
        let lock = self.lock(&node.directory, node.recipe, if is_inner { 0 } else { longest });
        if node.recipe.is_single()
            && let Some(lock) = self.locks.get_mut(lock as usize)
        {
            let created_ms = if let Grant::At(at) = node.grant { at.ms } else { node.arrived.ms };
            let before = lock.occupied.filter(|before| created_ms <= before.ended_ms + RECREATED_WITHIN_MS);
            let since_ms = before.map_or(created_ms, |before| before.since_ms);
            lock.occupied = Some(Occupied { since_ms, created_ms, ended_ms: now.ms });
        }
        // After the clock was set back, requests may arrive before the first transaction's time.
        if !node.is_carried_over {
            self.first_ms = self.first_ms.map(|first| first.min(node.arrived.ms));
        }
        let cycle = Cycle {
            arrived_ms: node.arrived.ms,
            lock,
            session: self.known(node.session),
            is_read: node.role == Role::Read,
            is_granted,
            is_contended: node.is_contended || waited_ms.is_some_and(|ms| ms > 0),
            is_carried_over: node.is_carried_over,
            waited_ms: waited_ms.filter(|_| !node.is_carried_over),
            unserved_ms: (is_over && !is_granted).then(|| now.since(node.arrived)).flatten(),
            held_ms: held_ms.filter(|_| is_over),
            ending,
            writes: u32::from(!node.is_carried_over) + u32::from(is_over && self.scope.has_time(now.ms)),
            requests: u32::try_from(requests).unwrap_or(0),
            since_ms: node.since_ms,
            after_release_ms: node.after_release_ms,
            handoff_ms: node.handoff_ms,
            late_ms,
        };
        let pushed = self.cycles.push(cycle);
        self.failure = self.failure.take().or(pushed.err());
    }

    /// Returns the path of the lock to which the nodes of a directory belong.
    fn lock_path<'a>(&self, directory: &'a [u8], recipe: Recipe) -> &'a [u8] {
        let outer = semaphore_of(directory).filter(|outer| self.semaphores.contains_key(*outer));
        outer.unwrap_or_else(|| lock_below(directory, recipe))
    }

    /// Returns the index of the lock to which the nodes of a directory belong.
    fn lock(&mut self, directory: &NodePath, recipe: Recipe, longest: u32) -> u32 {
        let path = self.lock_path(directory, recipe);
        let number = match self.numbers.get(path) {
            Some(number) => *number,
            None => self.add_lock(path),
        };
        if let Some(lock) = self.locks.get_mut(number as usize) {
            lock.recipes.add(recipe);
            lock.longest = lock.longest.max(longest);
        }
        number
    }

    fn add_lock(&mut self, path: &[u8]) -> u32 {
        let path: NodePath = match self.locks.len() {
            0..LOCKS_MOST => path.into(),
            _ => folded(path).into_bytes().into(),
        };
        if let Some(number) = self.numbers.get(&path) {
            return *number;
        }
        let number = u32::try_from(self.locks.len()).unwrap_or(u32::MAX);
        self.numbers.insert(Arc::clone(&path), number);
        self.locks.push(Lock {
            path,
            recipes: Recipes::default(),
            longest: 0,
            remains: true,
            is_in_use: false,
            occupied: None,
        });
        number
    }

    fn note_write(&mut self, request: Request, happened: Happened, was_lock: bool) {
        let now = self.now;
        let Some(open) = self.sessions.get_mut(&request.session) else { return };
        open.refused = None;
        let is_release = happened == Happened::Deleted && was_lock && open.queued == 0;
        open.deleted = is_release.then_some((request.cxid, now));
    }

    /// Ends the cycles of all nodes that still exist, and returns the result.
    pub fn finish(mut self) -> io::Result<Observed> {
        let open: Vec<NodePath> = self.nodes.keys().cloned().collect();
        let mut staying = Vec::new();
        for path in &open {
            let Some(node) = self.nodes.get(path).filter(|node| !node.has_lease) else { continue };
            let (session, arrived_ms) = (self.known(node.session), node.arrived.ms);
            let is_holder = node.grant != Grant::Waits;
            let (directory, recipe) = (Arc::clone(&node.directory), node.recipe);
            let is_in_scope = self.scope.until_ms.is_none_or(|until| arrived_ms < until);
            // A node outside the scope still shows that the directory of a known lock is not empty.
            let lock = match is_in_scope {
                true => Some(self.lock(&directory, recipe, 0)),
                false => self.numbers.get(self.lock_path(&directory, recipe)).copied(),
            };
            let Some(lock) = lock else { continue };
            self.locks.get_mut(lock as usize).into_iter().for_each(|lock| lock.is_in_use = true);
            if is_in_scope {
                staying.push(Staying { lock, session, arrived_ms, is_holder });
            }
        }
        staying.sort_by_key(|node| node.arrived_ms);
        self.end_all(open, Ending::Open, None);
        self.failure.take().map_or(Ok(()), Err)?;
        Ok(Observed {
            has_folded_locks: self.locks.len() > LOCKS_MOST,
            cycles: self.cycles.finish(),
            locks: self.locks,
            counts: self.counts,
            first_ms: self.first_ms.unwrap_or(0),
            last_ms: self.last_ms.max(self.first_ms.unwrap_or(0)),
            covers_ms: self.covers_ms,
            clock_steps: self.now.setting,
            staying,
        })
    }
}

/// Returns the time, clamped to the years 1970 to 9999. Times outside this range come from damaged or forged
/// records.
fn plausible(ms: i64) -> i64 {
    const LATEST_MS: i64 = 253_402_300_799_000;
    ms.clamp(0, LATEST_MS)
}

/// Returns the directory and name of a path.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    (&path[..slash], path.get(slash + 1..).unwrap_or_default())
}
