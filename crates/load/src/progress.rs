//! Checks progress: every contender that wants the lock gets it, and no leftover node blocks the lock.
//!
//! Progress is required only while the ensemble can serve, after the last fault has healed. The load then
//! continues until all waiting contenders have been served. A phase that ends after a fixed number of
//! acquisitions is abandoned if acquisitions stop.
//!
//! In an outage, a lock is free and contenders wait for it, but none gets it. A short outage occurs between
//! every release and the next acquisition. If an outage is too long for a handoff, the suite reports it and searches
//! for possible causes: unavailable servers, a foreign node in the queue, or server versions that can leave a request
//! unprocessed.
//!
//! Source: TigerBeetle's vortex, which checks liveness only while its faults are within the tolerated limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use zookeeper_client::Client;

use super::counters::NearEnd;
use super::orphans::owner_name;
use super::shared::Shared;
use super::workspace::open;
use zklockbench_core::clock::{self, Stamp};
use zklockbench_core::locked::locked;
use zklockbench_core::units::{contenders, counted};
use zklockbench_locks::longest_pause;
use zklockbench_record::{ServerCounters, Standstill, Stuck};
use zklockbench_scenario::TrialSpec;
use zklockbench_zk::{CaughtUp, Target, admin, sequence_of, session_of};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of acquisitions by other contenders, per contender, after which a waiter counts as passed over.
const TURNS_BY_OTHERS: u64 = 20;
const OUTAGE_POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Time limit for a server's answer during an outage; slower servers are reported.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// Maximum time for which a lock may be free while contenders wait, excluding its configured pauses.
const FREE_AT_MOST: Duration = Duration::from_secs(1);

/// Continues the load until all current waiters have been served and every lock that is free and wanted has been
/// acquired. Returns the stuck contenders.
///
/// If acquires time out, no contender waits long. A lock that was free and wanted but not acquired for too long
/// therefore also counts as stuck.
pub async fn settle(shared: &Shared, target: &Target, servers: &[String]) -> Vec<Stuck> {
    let mark = clock::now();
    let first = shared.board.acquired.load(Ordering::Acquire);
    let mut served = Unchanged { last: first, since: mark };
    let patience = clock::micros(shared.settling().progress);
    let may_be_free =
        clock::micros(shared.settling().progress + 2 * longest_pause(&shared.spec.strategy.params));
    let may_pause = clock::micros(FREE_AT_MOST + shared.spec.think_rarely_exceeded());
    let mut unserved = unserved_locks(shared);
    let mut wanted = Unchanged { last: 0, since: mark };
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let waiting = if shared.has_faults() { waiting_since(shared, mark) } else { Vec::new() };
        unserved.retain(|lock| {
            let time = &shared.lock_states[*lock].unserved;
            !time.was_acquired_since(mark) && !time.is_used_up()
        });
        let now = clock::now();
        let waits = first_waits(shared);
        let lasted: Vec<u64> = unserved.iter().map(|lock| unserved_us(shared, *lock, &waits, now)).collect();
        let is_wanted = wanted.lasts(lasted.iter().sum::<u64>(), now) < may_pause;
        if waiting.is_empty() && (unserved.is_empty() || !is_wanted) {
            return Vec::new();
        }
        let acquired = shared.board.acquired.load(Ordering::Acquire);
        let stands_still = !waiting.is_empty() && served.lasts(acquired, now) > patience;
        let others = (acquired - first) / (shared.count_own() as u64).max(1);
        let is_passed_over = !waiting.is_empty() && now - mark > patience && others > TURNS_BY_OTHERS;
        let free: Vec<(usize, u64)> =
            unserved.iter().copied().zip(lasted).filter(|(_, lasted)| *lasted > may_be_free).collect();
        let are_stuck = stands_still || is_passed_over;
        if are_stuck || !free.is_empty() {
            let stuck = all_stuck(shared, waiting, are_stuck, &free, now);
            return describe(shared, &stuck, target, servers).await;
        }
    }
}

/// Returns all contenders of locks that have been `free` for too long and, if they are stuck, all other waiters.
fn all_stuck(
    shared: &Shared,
    waiting: Vec<(usize, Stamp)>,
    are_stuck: bool,
    free: &[(usize, u64)],
    now: Stamp,
) -> Vec<(usize, Stamp)> {
    // Waiters that are not stuck wait for locks that still serve. If no contender uses the free locks any longer, only
    // these waiters can be reported.
    let is_used = |lock: usize| shared.own().any(|contender| shared.lock_of(contender) == lock);
    let is_explained = free.iter().any(|(lock, _)| is_used(*lock));
    let mut stuck = if are_stuck || !is_explained { waiting } else { Vec::new() };
    for (lock, lasted) in free {
        stuck.retain(|(contender, _)| shared.lock_of(*contender) != *lock);
        let own = shared.own().filter(|contender| shared.lock_of(*contender) == *lock);
        stuck.extend(own.map(|contender| (contender, now - lasted)));
    }
    stuck
}

/// Returns whether a lock of a trial without faults may be stuck at the end of its load.
pub fn may_be_stuck(shared: &Shared) -> bool {
    needs_explanation(shared) && !unserved_locks(shared).is_empty()
}

/// Returns the wanted locks that must still be acquired; without faults, only locks that were free for too long.
fn unserved_locks(shared: &Shared) -> Vec<usize> {
    if shared.slice.is_part() {
        // A lock that looks free may be held by a contender of another worker.
        return Vec::new();
    }
    let (now, waits) = (clock::now(), first_waits(shared));
    let is_due_after = if shared.has_faults() { 0 } else { clock::micros(may_be_free(shared)) };
    let is_unserved = |lock: &usize| {
        let is_wanted = shared.has_faults() && waits.contains_key(lock);
        let is_used_up = shared.lock_states[*lock].unserved.is_used_up();
        !is_used_up && (is_wanted || unserved_us(shared, *lock, &waits, now) > is_due_after)
    };
    shared.lock_states.used().map(|state| state.number).filter(is_unserved).collect()
}

/// Returns the time for which a lock has been free and wanted but not acquired; 0 while the lock is held.
fn unserved_us(shared: &Shared, lock: usize, waits: &BTreeMap<usize, Stamp>, now: Stamp) -> u64 {
    let state = &shared.lock_states[lock];
    if state.is_held() { 0 } else { state.unserved.until(waits.get(&lock).copied(), now) }
}

/// Returns the start of the longest current wait for each lock.
fn first_waits(shared: &Shared) -> BTreeMap<usize, Stamp> {
    let mut first = BTreeMap::new();
    for (contender, since) in waiting_since(shared, Stamp::MAX) {
        let earliest = first.entry(shared.lock_of(contender)).or_insert(since);
        *earliest = since.min(*earliest);
    }
    first
}

/// Waits until no lock has been acquired for longer than the trial allows, and returns the reason for abandoning the
/// trial. Contenders may be waiting for each other, or a foreign node may block the queue.
pub async fn give_up(shared: &Shared) -> String {
    let limit = patience(&shared.spec) + shared.sessions_outlast();
    let progress = || (shared.board.acquired.load(Ordering::Acquire), *shared.signals.arrivals.borrow());
    let mut trial = Unchanged { last: progress(), since: clock::now() };
    while trial.lasts(progress(), clock::now()) < clock::micros(limit) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    format!(
        "no contender acquired the lock for {}, while {} of {} were waiting; the scenario's `give_up_after` sets \
         this limit",
        humantime::format_duration(limit),
        shared.gauge.waiting(),
        contenders(shared.count_own())
    )
}

struct Unchanged<T> {
    last: T,
    since: Stamp,
}

impl<T: PartialEq> Unchanged<T> {
    /// Returns the time in microseconds since the last change of `seen`.
    fn lasts(&mut self, seen: T, now: Stamp) -> Stamp {
        if seen != self.last {
            *self = Self { last: seen, since: now };
        }
        now - self.since
    }
}

/// Returns the maximum time between acquisitions before a trial is abandoned.
fn patience(spec: &TrialSpec) -> Duration {
    let broken = spec.faults.iter().filter_map(|fault| fault.duration).max().unwrap_or_default();
    let paused = longest_pause(&spec.strategy.params);
    [spec.hold_rarely_exceeded(), spec.think_rarely_exceeded(), 2 * paused, 2 * broken]
        .into_iter()
        .fold(spec.give_up_after, Duration::saturating_add)
}

fn waiting_since(shared: &Shared, mark: Stamp) -> Vec<(usize, Stamp)> {
    let controls = shared.controls.iter().enumerate();
    controls
        .filter_map(|(id, control)| Some((id, control.waiting_since()?)))
        .filter(|(_, since)| *since <= mark)
        .collect()
}

async fn describe(
    shared: &Shared,
    waiting: &[(usize, Stamp)],
    target: &Target,
    servers: &[String],
) -> Vec<Stuck> {
    let now = clock::now();
    let mut stuck: Vec<Stuck> = waiting
        .iter()
        .map(|(contender, since)| Stuck {
            contender: *contender,
            lock: shared.lock_of(*contender),
            waited_us: now - since,
            ..Stuck::default()
        })
        .collect();
    let watches = watches(servers).await;
    let Ok(client) = open(target).await else {
        // An ensemble that serves no client is not the lock's fault.
        return if shared.has_faults() { stuck } else { Vec::new() };
    };
    let mut queues: BTreeMap<usize, Vec<Node>> = BTreeMap::new();
    for lock in stuck.iter().map(|one| one.lock).collect::<BTreeSet<_>>() {
        queues.insert(lock, queue(&client, shared.lock_states[lock].queue()).await);
    }
    for one in &mut stuck {
        let session = shared.controls[one.contender].session().map(|key| key.id());
        let nodes = &queues[&one.lock];
        let waiting_node = waiting_node(nodes, session);
        let directory =
            waiting_node.map_or_else(|| nodes.first().map(Node::directory), |at| Some(nodes[at].directory()));
        let mut queue = nodes.iter().filter(|node| Some(node.directory()) == directory);
        let first = queue.clone().next();
        one.node = waiting_node.map(|at| nodes[at].name.clone());
        one.position = queue.position(|node| Some(&node.name) == one.node.as_ref());
        let first = first.filter(|_| one.position != Some(0));
        one.blocked_by = first.map(|node| node.described(shared, one.contender, one.lock));
        one.stranger = first.is_some_and(|node| node.is_strangers(shared));
        one.blocker = first.and_then(|node| node.contender(shared));
        one.watches = watches.iter().filter(|(of, _)| Some(*of) == session).map(|(_, p)| p.clone()).collect();
    }
    stuck
}

/// Returns all nodes of a lock, sorted by directory and number.
async fn queue(client: &Client, path: &str) -> Vec<Node> {
    let mut nodes = nodes(client, path, false, &AtomicU64::new(0)).await;
    nodes.sort_by(|one, other| (one.directory(), one.sequence).cmp(&(other.directory(), other.sequence)));
    nodes
}

/// Returns the index of the node with which a session waits: the last numbered node that the session created.
/// Its earlier nodes are leftovers, and unnumbered nodes are not queue positions.
fn waiting_node(nodes: &[Node], session: Option<i64>) -> Option<usize> {
    let own = nodes.iter().enumerate().filter(|(_, node)| Some(node.owner) == session);
    let queued = own.filter(|(_, node)| node.sequence.is_some());
    queued.max_by_key(|(_, node)| node.czxid).map(|(at, _)| at)
}

/// A queue node. Its owner is 0 if the node is persistent.
#[derive(Debug)]
struct Node {
    name: String,
    sequence: Option<i64>,
    owner: i64,
    czxid: i64,
}

impl Node {
    /// Returns the directory of the node. A lock with several parts has one directory per part.
    fn directory(&self) -> &str {
        self.name.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    fn contender(&self, shared: &Shared) -> Option<usize> {
        shared.controls.iter().position(|one| one.session().map(|key| key.id()) == Some(self.owner))
    }

    /// Returns whether no contender ever had the node's session. The suite's locks queue only with ephemeral
    /// nodes, but a driver's lock may also create persistent nodes.
    fn is_strangers(&self, shared: &Shared) -> bool {
        match session_of(self.owner) {
            None => !shared.drivers.are_there(),
            Some(_) => !shared.controls.iter().any(|control| control.has_had(self.owner)),
        }
    }

    /// Describes the owner of a node that belongs to no current session of a contender.
    fn whose(&self, shared: &Shared) -> String {
        match session_of(self.owner) {
            None => "is persistent".to_owned(),
            Some(session) if self.is_strangers(shared) => {
                format!("belongs to session 0x{session:x}, which is not a contender's")
            }
            Some(session) => format!("belongs to session 0x{session:x}, an earlier session of a contender"),
        }
    }

    /// Describes the node to waiter `to`: its path, its session, its owner, and whether the owner is inside.
    fn described(&self, shared: &Shared, to: usize, lock: usize) -> String {
        let whose = match self.contender(shared) {
            None if self.is_strangers(shared) => "unknown to the contenders".to_owned(),
            None if session_of(self.owner).is_none() => "created by an unknown client".to_owned(),
            None => "an earlier session of a contender".to_owned(),
            Some(id) if id == to => format!("contender {id} itself, from an earlier cycle"),
            Some(id) if shared.lock_states[shared.lock_of(id)].all_inside().contains(&id) => {
                format!("contender {id}, which is inside")
            }
            Some(id) => format!("contender {id}, which is not inside"),
        };
        format!("{}/{} ({}, {whose})", shared.lock_states[lock].queue(), self.name, owner_name(self.owner))
    }
}

/// Finds a queue whose first node belongs to no current session of a contender, and describes that node. Returns `None`
/// if there is no such queue, or if the ensemble does not answer.
async fn foreign_first_node(shared: &Shared, target: &Target) -> Option<String> {
    let client = open(target).await.ok()?;
    for lock_state in shared.lock_states.used() {
        let firsts = nodes(&client, lock_state.queue(), true, &shared.board.looked).await;
        if let Some(first) = firsts.into_iter().find(|first| first.contender(shared).is_none()) {
            return Some(format!("the first node of the queue, {}, {}", first.name, first.whose(shared)));
        }
    }
    None
}

/// Returns the nodes below a lock's directory that may block a queue. With `only_first`, reads only the first node
/// of each directory. Adds the successful reads, which servers count, to `reads`.
async fn nodes(client: &Client, path: &str, only_first: bool, reads: &AtomicU64) -> Vec<Node> {
    let mut nodes = Vec::new();
    let Ok(now) = CaughtUp::with(client).await else { return nodes };
    let mut directories = vec![String::new()];
    while let Some(below) = directories.pop() {
        let Ok(mut names) = now.children(&format!("{path}{below}")).await else { continue };
        reads.fetch_add(1, Ordering::AcqRel);
        if only_first {
            names = lowest(&names).cloned().collect();
        }
        for name in names {
            let place = format!("{below}/{name}");
            let Ok(Some(stat)) = now.stat(&format!("{path}{place}")).await else { continue };
            reads.fetch_add(1, Ordering::AcqRel);
            let sequence = sequence_of(&name);
            if blocks(sequence, stat.ephemeral_owner, stat.num_children) {
                let name = place[1..].to_owned();
                nodes.push(Node { name, sequence, owner: stat.ephemeral_owner, czxid: stat.czxid });
            } else if below.is_empty() {
                directories.push(place);
            }
        }
    }
    nodes
}

/// Returns whether a node may be a queue position: ephemeral, or numbered and without children.
fn blocks(sequence: Option<i64>, owner: i64, children: i32) -> bool {
    session_of(owner).is_some() || (sequence.is_some() && children == 0)
}

/// Returns the name with the lowest number, and all names without a number, which may be directories.
fn lowest(names: &[String]) -> impl Iterator<Item = &String> {
    let first = names.iter().filter_map(|name| Some((sequence_of(name)?, name))).min();
    names.iter().filter(|name| sequence_of(name).is_none()).chain(first.map(|(_, name)| name))
}

async fn watches(servers: &[String]) -> Vec<(i64, String)> {
    let mut all = Vec::new();
    for server in servers {
        all.extend(admin::watches(server).await.unwrap_or_default());
    }
    all
}

/// Records the longest outage on the board, with signs that are visible only during the outage. Never returns.
pub async fn watch_standstills(shared: &Shared, target: &Target, servers: &[String]) {
    if shared.slice.is_part() {
        // A lock that looks free may be held by a contender of another worker.
        return std::future::pending().await;
    }
    let board = &shared.board;
    let (may_be_free, needs_explanation) = (clock::micros(may_be_free(shared)), needs_explanation(shared));
    let mut since: Option<(Stamp, u64)> = None;
    let mut searched_at = None;
    // Searches run in the background, because the ensemble may answer late or not at all.
    let mut searches = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(OUTAGE_POLL_INTERVAL) => {}
            Some(signs) = searches.next() => {
                locked(&board.signs).extend::<Vec<String>>(signs);
                continue;
            }
        }
        let acquired = board.acquired.load(Ordering::Acquire);
        let is_free = shared.gauge.waiting() > 0 && !shared.lock_states.is_any_inside();
        let now = clock::now();
        since = match since {
            Some((began, before)) if is_free && before == acquired => {
                let lasts = now.saturating_sub(began);
                if board.standstill_us.fetch_max(lasts, Ordering::Relaxed) < lasts {
                    board.standstill_began.store(began, Ordering::Relaxed);
                }
                if needs_explanation && lasts > may_be_free && searched_at != Some(began) {
                    searched_at = Some(began);
                    searches.push(find_signs(shared, target, servers));
                }
                Some((began, before))
            }
            _ => is_free.then_some((now, acquired)),
        };
    }
}

/// Searches for signs of the cause of an outage: silent servers, or a first queue node that no contender owns.
async fn find_signs(shared: &Shared, target: &Target, servers: &[String]) -> Vec<String> {
    // If this search is dropped, it stays counted as incomplete.
    shared.board.looking.fetch_add(1, Ordering::AcqRel);
    let silent = join_all(servers.iter().map(|server| async move {
        match admin::srvr(server, ANSWERS_WITHIN).await {
            Ok(Some(_)) => None,
            Ok(None) => Some(format!("{server} did not serve during that time: it had no quorum")),
            Err(why) => Some(format!("{server} did not answer during that time ({why})")),
        }
    }));
    let (silent, stranger) = join(silent, foreign_first_node(shared, target)).await;
    shared.board.looking.fetch_sub(1, Ordering::AcqRel);
    silent.into_iter().flatten().chain(stranger).collect()
}

/// Returns whether outages require an explanation: only for exclusive locks, and only without faults.
fn needs_explanation(shared: &Shared) -> bool {
    shared.entry.card.guarantees.exclusive && !shared.has_faults()
}

/// Returns the longest outage if it requires an explanation, with signs of its cause: search results, server
/// counters, and requests that lost their connection.
pub fn longest_standstill(
    shared: &Shared,
    begin: Stamp,
    servers: &[ServerCounters],
    lost: u64,
    near_end: &[NearEnd],
) -> Option<Standstill> {
    let lasted_us = shared.board.standstill_us.load(Ordering::Relaxed);
    if !needs_explanation(shared) || Duration::from_micros(lasted_us) <= may_be_free(shared) {
        return None;
    }
    let began = shared.board.standstill_began.load(Ordering::Relaxed);
    let seen = locked(&shared.board.signs);
    let mut signs: Vec<String> = seen.iter().cloned().collect();
    signs.extend(signs_of_servers(servers));
    signs.extend(near_end.iter().filter(|one| one.is_used_up()).take(1).map(ToString::to_string));
    if lost > 0 {
        signs.push(format!("{} lost their connection", counted(lost, "request", "requests")));
    }
    if signs.is_empty() {
        signs.extend(forgetful(servers, lasted_us));
    }
    let began_us = clock::signed_difference(began, begin);
    Some(Standstill { lasted_us, began_us, signs })
}

fn may_be_free(shared: &Shared) -> Duration {
    FREE_AT_MOST + 2 * longest_pause(&shared.spec.strategy.params)
}

fn signs_of_servers(servers: &[ServerCounters]) -> impl Iterator<Item = String> {
    servers.iter().filter_map(|server| {
        let address = &server.address;
        match &server.silent {
            Some(why) => Some(format!("{address} did not report its state ({why})")),
            None => {
                server.has_restarted().then(|| format!("{address} restarted or took part in an election"))
            }
        }
    })
}

/// Describes servers whose versions can leave a request unprocessed until the next request arrives. Excludes
/// servers that are kept awake, where a request waits at most for the next read.
fn forgetful(servers: &[ServerCounters], lasted_us: u64) -> Option<String> {
    let versions: BTreeSet<&str> = servers
        .iter()
        .filter(|server| server.unread_us.is_none_or(|unread| unread >= lasted_us))
        .filter_map(|server| server.version.as_deref())
        .filter(|version| can_forget(version))
        .collect();
    let versions = versions.into_iter().collect::<Vec<_>>().join(" and ");
    (!versions.is_empty()).then(|| {
        format!(
            "servers running {versions} can leave a request unprocessed until the next one arrives \
             (ZOOKEEPER-4537)"
        )
    })
}

/// Returns whether this version has ZOOKEEPER-4537, which was fixed in 3.6.4, 3.7.2 and 3.8.1.
fn can_forget(version: &str) -> bool {
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    match numbers[..] {
        [3, 6, patch] => patch < 4,
        [3, 7, patch] => patch < 2,
        [3, 8, patch] => patch < 1,
        [3, minor, _] => minor < 6,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::tests::shared;
    use zklockbench_zk::SessionKey;

    #[test]
    fn unchanged_time_starts_at_the_last_change() {
        let mut number = Unchanged { last: 0, since: 1_000 };
        assert_eq!(number.lasts(0, 1_150), 150);
        assert_eq!(number.lasts(1, 1_200), 0);
        assert_eq!((number.lasts(1, 1_260), number.lasts(2, 1_300)), (60, 0));
        assert_eq!(number.lasts(2, 1_450), 150);
    }

    #[tokio::test]
    async fn phase_without_acquisitions_is_abandoned() {
        let shared = shared("acquisitions = 5\nhold = \"200ms\"\ngive_up_after = \"800ms\"");
        assert_eq!(patience(&shared.spec), Duration::from_secs(1));
        let began = clock::now();
        let acquiring = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            shared.board.acquired.fetch_add(1, Ordering::AcqRel);
        };
        let (why, ()) = futures_util::future::join(give_up(&shared), acquiring).await;
        assert!(
            clock::now() - began >= clock::micros(Duration::from_millis(1200)),
            "the limit counts from the last acquisition"
        );
        let expected = "no contender acquired the lock for 1s, while 0 of 2 contenders were waiting";
        assert!(why.starts_with(expected), "{why}");
    }

    #[test]
    fn waiters_of_a_lock_that_serves_are_not_stuck_with_another_lock() {
        // Given a free lock that contender 0 cannot acquire, and a lock with a slow queue in which contender 1 waits
        let shared = shared("duration = \"1s\"\nlocks = 2");
        let stuck = |are_stuck| all_stuck(&shared, vec![(1, 5)], are_stuck, &[(0, 40)], 100);
        assert_eq!((stuck(false), stuck(true)), (vec![(0, 60)], vec![(1, 5), (0, 60)]));
    }

    #[test]
    fn patience_includes_holds_and_think_times() {
        let slow =
            shared("acquisitions = 1\nthink = \"1h\"\nhold = { uniform = { min = \"1s\", max = \"1m\" } }");
        assert_eq!(patience(&slow.spec), Duration::from_secs(3600 + 60 + 600));
    }

    #[test]
    fn lowest_keeps_the_first_numbered_node_and_all_unnumbered_nodes() {
        let queue: Vec<String> = (0..2_000).rev().map(|number| format!("n-{number:010}")).collect();
        assert_eq!(lowest(&queue).collect::<Vec<_>>(), ["n-0000000000"]);
        let parts = ["leases", "n-0000000007", "locks", "n-0000000003"].map(str::to_owned);
        assert_eq!(lowest(&parts).collect::<Vec<_>>(), ["leases", "locks", "n-0000000003"]);
    }

    fn node(name: &str, owner: i64, czxid: i64) -> Node {
        Node { name: name.into(), sequence: sequence_of(name), owner, czxid }
    }

    #[test]
    fn waiting_node_is_the_last_queue_node_of_the_session() {
        let left_and_again =
            [node("n-0000000001", 7, 10), node("n-0000000002", 8, 11), node("n-0000000003", 7, 12)];
        assert_eq!(waiting_node(&left_and_again, Some(7)), Some(2));
        assert_eq!(waiting_node(&left_and_again, Some(9)), None);
        assert_eq!(waiting_node(&left_and_again, None), None);
        // With a lock in several parts, the latest part counts
        let parts = [node("part-0/n-0000000009", 7, 20), node("part-1/n-0000000004", 7, 21)];
        assert_eq!((waiting_node(&parts, Some(7)), parts[1].directory()), (Some(1), "part-1"));
        // And the single node that all contenders try to create is not a queue position
        assert_eq!(waiting_node(&[node("lock", 7, 10)], Some(7)), None);
    }

    #[test]
    fn numbered_persistent_node_blocks_the_queue_and_is_foreign() {
        let of = |name, owner, children| blocks(sequence_of(name), owner, children);
        assert!(of("n-0000000000", 0, 0) && of("n-0000000000", 7, 0) && of("lock", 7, 0));
        assert!(!of("n-0000000000", 0, 1) && !of("leases", 0, 0));
        let shared = shared("duration = \"1s\"");
        let persistent = node("n-0000000000", 0, 10);
        assert!(persistent.is_strangers(&shared));
        let described = persistent.described(&shared, 0, 0);
        assert!(described.ends_with("/n-0000000000 (persistent, unknown to the contenders)"), "{described}");
    }

    #[test]
    fn node_of_an_earlier_session_is_not_attributed_to_another_client() {
        let shared = shared("duration = \"1s\"");
        shared.controls[0].set_session(Some(SessionKey::of_another(7, None)));
        shared.controls[0].set_session(None);
        let whose = |owner| node("n-0000000000", owner, 10).whose(&shared);
        assert_eq!(whose(7), "belongs to session 0x7, an earlier session of a contender");
        assert_eq!(whose(8), "belongs to session 0x8, which is not a contender's");
        assert_eq!(whose(0), "is persistent");
    }

    #[test]
    fn only_versions_before_the_fix_can_leave_a_request_unprocessed() {
        let forget = ["3.4.14", "3.6.3", "3.7.1", "3.8.0"];
        assert!(forget.iter().all(|version| can_forget(version)));
        let sound = ["3.6.4", "3.7.2", "3.8.1", "3.9.3", "4.0.0", "unknown"];
        assert!(!sound.iter().any(|version| can_forget(version)));
    }

    #[test]
    fn restarted_server_is_reported_as_a_possible_cause() {
        let uptime = |value| [("zk_uptime".to_owned(), value)].into();
        let server = |before, after| ServerCounters {
            address: "zk1:2181".into(),
            version: Some("3.8.0".into()),
            before: uptime(before),
            after: uptime(after),
            ..ServerCounters::default()
        };
        assert_eq!(signs_of_servers(&[server(100, 200)]).count(), 0);
        let signs: Vec<String> = signs_of_servers(&[server(100, 20)]).collect();
        assert_eq!(signs, ["zk1:2181 restarted or took part in an election"]);
        assert!(forgetful(&[server(1, 2)], 1).unwrap().contains("servers running 3.8.0 can leave a request"));
    }

    #[test]
    fn used_up_counter_replaces_an_affected_version_as_the_reported_cause() {
        let shared = shared("duration = \"1s\"");
        shared.board.standstill_us.store(5_000_000, Ordering::Relaxed);
        let servers = [ServerCounters { version: Some("3.8.0".into()), ..ServerCounters::default() }];
        let signs =
            |near_end: &[NearEnd]| longest_standstill(&shared, 0, &servers, 0, near_end).unwrap().signs;
        let near_end = |left| [NearEnd { directory: "/l".into(), left }];
        assert!(signs(&[])[0].contains("ZOOKEEPER-4537"));
        assert!(signs(&near_end(9))[0].contains("ZOOKEEPER-4537"));
        assert_eq!(signs(&near_end(0)), ["the sequence counter of /l is used up"]);
    }

    #[test]
    fn signs_of_an_outage_in_the_warm_up_are_not_reported() {
        let shared = shared("duration = \"1s\"");
        let outage = |sign: &str| {
            shared.board.standstill_us.store(5_000_000, Ordering::Relaxed);
            locked(&shared.board.signs).insert(sign.to_owned());
        };
        outage("zk1:2181 did not answer");
        shared.board.begin_measured();
        assert_eq!(longest_standstill(&shared, 0, &[], 0, &[]), None);
        outage("zk2:2181 did not answer");
        assert_eq!(longest_standstill(&shared, 0, &[], 0, &[]).unwrap().signs, ["zk2:2181 did not answer"]);
    }

    #[test]
    fn affected_version_is_reported_only_if_the_server_was_not_kept_awake() {
        let blamed = |unread_us| {
            let server =
                ServerCounters { version: Some("3.8.0".into()), unread_us, ..ServerCounters::default() };
            forgetful(&[server], 2_000_000).is_some()
        };
        assert_eq!((blamed(None), blamed(Some(40_000)), blamed(Some(9_000_000))), (true, false, true));
    }
}
