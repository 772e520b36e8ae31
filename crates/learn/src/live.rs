//! Watches a running ensemble through one read-only session with a persistent recursive watch.
//!
//! A watch reports created and deleted nodes in order, but neither their sessions nor their times, so the
//! arrival time of a notification counts as the time of the change. After a lost connection, the tree is read
//! again.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use zookeeper_client::{AddWatchMode, Client, Error as ClientError, EventType, WatchedEvent};

use crate::not_spooled;
use crate::recipe::{before_number, recognise};
use crate::reconstruct::{Listing, Observed, Reconstruction, Scope, Seen, split};
use crate::snapshot::StoredNode;
use crate::summary::WatchFacts;
use zklockbench_core::clock::{WallClock, now};
use zklockbench_core::error::Error;
use zklockbench_core::txn::Happened;
use zklockbench_core::units::counted;
use zklockbench_zk::{Failure, Target, reach, session_of};

const SESSION: Duration = Duration::from_secs(20);
const CONNECTS_WITHIN: Duration = Duration::from_secs(20);
/// Time limit for opening the first session.
const FIRST_CONTACT: Duration = Duration::from_secs(6);
const BETWEEN_TRIES: Duration = Duration::from_millis(500);
const STOPPED: &str = "the watch was stopped";
/// Limit on the requests that read the tree.
const READS: usize = 20_000;

/// Path, duration and limits of a watch.
#[derive(Debug, Clone)]
pub struct Watching {
    pub path: String,
    pub lasts: Duration,
    /// Maximum number of notifications per second.
    pub at_most: u64,
}

impl Watching {
    /// Returns a description of all requests that a watch sends.
    pub fn requests(&self) -> Vec<String> {
        let path = &self.path;
        vec![
            format!("addWatch {path} (persistent, recursive), again after each lost connection"),
            format!(
                "getChildren and exists on {path} and below it, at most {READS} requests, to find existing nodes"
            ),
            "exists on the first new node of each directory whose node names are unknown".to_owned(),
            format!("a ping every few seconds for {} s, then closeSession", self.lasts.as_secs()),
        ]
    }
}

/// Watches until the deadline and returns the observed cycles. Ends early if there are too many
/// notifications, with the reason in the facts.
pub async fn watch(
    target: &Target,
    watching: &Watching,
    scratch: &Path,
    stop: &CancellationToken,
) -> Result<(Observed, WatchFacts), Error> {
    let scope = Scope { path: watching.path.clone(), ..Scope::default() };
    let facts =
        WatchFacts { connect: target.connect.clone(), path: watching.path.clone(), ..WatchFacts::default() };
    let mut live = Live {
        watching,
        ends: Instant::now() + watching.lasts,
        reconstruction: Reconstruction::new(scope, scratch),
        facts,
        latest: VecDeque::new(),
        pending: None,
        are_ephemeral: HashMap::new(),
        wall: WallClock::read(),
    };
    live.reconstruction.watches_at(live.wall.ms(now()));
    while live.once_connected(target, stop).await? == Left::Lost && Instant::now() < live.ends {
        live.facts.reconnects += 1;
        sleep(BETWEEN_TRIES).await;
    }
    live.reconstruction.watches_at(live.wall.ms(now()));
    Ok((live.reconstruction.finish().map_err(not_spooled)?, live.facts))
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// The time limit was reached, or the watch was abandoned.
    Over,
    Lost,
}

struct Live<'a> {
    watching: &'a Watching,
    ends: Instant,
    reconstruction: Reconstruction,
    facts: WatchFacts,
    /// Times in ms of the notifications in the last second.
    latest: VecDeque<i64>,
    /// Changes that arrived before the whole tree was read; `None` afterwards.
    pending: Option<Vec<Seen>>,
    /// Whether new nodes are ephemeral, by directory and by whether their names end with a sequence number.
    are_ephemeral: HashMap<(Vec<u8>, bool), bool>,
    wall: WallClock,
}

impl Live<'_> {
    async fn once_connected(&mut self, target: &Target, stop: &CancellationToken) -> Result<Left, Error> {
        let Some(client) = self.client(target, stop).await? else { return Ok(Left::Over) };
        let (ends, mut listing) = (self.ends, Listing::default());
        let (left, why) = tokio::select! {
            left = self.follow(target, &client, &mut listing) => (left?, None),
            () = sleep_until(ends) => (Left::Over, None),
            () = stop.cancelled() => (Left::Over, Some(STOPPED.to_owned())),
        };
        self.facts.cut_short = self.facts.cut_short.take().or(why);
        if self.pending.is_some() {
            // The tree was not read to the end.
            self.facts.has_unread_nodes |= left == Left::Over;
            listing.unread.push(self.watching.path.clone());
            self.add_existing(listing)?;
        }
        Ok(left)
    }

    /// Watches until the connection is lost or there are too many notifications; the caller enforces the time
    /// limit. `listing` receives existing nodes as they are read.
    async fn follow(
        &mut self,
        target: &Target,
        client: &Client,
        listing: &mut Listing,
    ) -> Result<Left, Error> {
        let watching = self.watching;
        let path = &watching.path;
        self.pending = Some(Vec::new());
        let refused = |error: ClientError| match Failure::from(error) {
            Failure::Refused(why) => Error::environment(format!(
                "{} does not support persistent watches ({why}); use ZooKeeper 3.6 or later, or learn from its logs",
                target.connect
            )),
            failure => Error::environment(format!("cannot watch {path} on {}: {failure}", target.connect)),
        };
        let watched = client.watch(path, AddWatchMode::PersistentRecursive).await;
        let mut watcher = match watched.map_err(refused) {
            Err(_) if self.facts.reconnects > 0 => return Ok(Left::Lost),
            watched => watched?,
        };
        let read = {
            let mut reading = pin!(existing(client, path, READS, listing));
            loop {
                tokio::select! {
                    biased;
                    // A lost connection also fails the reading, whose error states the cause.
                    read = &mut reading => break read,
                    event = watcher.changed() => {
                        if let Some(left) = self.take(client, event).await? {
                            return Ok(left);
                        }
                    }
                }
            }
        };
        match read {
            Ok(()) => {}
            // After a lost connection, keep the results so far.
            Err(ClientError::NoNode) if self.facts.reconnects > 0 => {}
            Err(_) if self.facts.reconnects > 0 => return Ok(Left::Lost),
            Err(ClientError::NoNode) => {
                return Err(Error::usage(format!("{path} does not exist on {}", target.connect)));
            }
            Err(error) => {
                let failure = Failure::from(error);
                return Err(Error::environment(format!(
                    "cannot read {path} on {}: {failure}",
                    target.connect
                )));
            }
        }
        // A server sends notifications before replies that reflect their changes, so these have arrived.
        loop {
            let event = tokio::select! {
                biased;
                event = watcher.changed() => event,
                () = std::future::ready(()) => break,
            };
            if let Some(left) = self.take(client, event).await? {
                return Ok(left);
            }
        }
        self.facts.has_unread_nodes |= !listing.unread.is_empty();
        // A known node may have been deleted during the gap. If kept, it would block its lock until the end.
        listing.unread.clear();
        self.add_existing(std::mem::take(listing))?;
        loop {
            let event = watcher.changed().await;
            if let Some(left) = self.take(client, event).await? {
                return Ok(left);
            }
        }
    }

    /// Adds the existing nodes, and then the changes that arrived while these nodes were read.
    fn add_existing(&mut self, mut listing: Listing) -> Result<(), Error> {
        let pending = self.pending.take().unwrap_or_default();
        listing.found.sort_by_key(|node| node.created);
        self.reconstruction.resumes(listing, &pending).map_err(not_spooled)
    }

    /// Opens a session; `None` if no attempt succeeds before the deadline, or if the user stops a reconnection.
    async fn client(&mut self, target: &Target, stop: &CancellationToken) -> Result<Option<Client>, Error> {
        let is_first = self.facts.reconnects == 0;
        let within = if is_first { FIRST_CONTACT } else { CONNECTS_WITHIN };
        loop {
            let opened = tokio::select! {
                opened = timeout(within, target.client(SESSION)) => opened,
                () = stop.cancelled(), if is_first => return Err(Error::Interrupted),
                () = stop.cancelled() => {
                    self.facts.cut_short = Some(STOPPED.to_owned());
                    return Ok(None);
                }
            };
            let (why, states_the_cause) = match opened {
                Ok(Ok(client)) => return Ok(Some(client)),
                Ok(Err(failure)) => (failure.to_string(), matches!(failure, Failure::NotAuthenticated(_))),
                Err(_) => (format!("no session within {within:?}"), false),
            };
            if is_first {
                let why = if states_the_cause { why } else { reach::with_reasons(&why, target).await };
                return Err(Error::environment(format!(
                    "cannot open a session to {}: {why}",
                    target.connect
                )));
            }
            if Instant::now() >= self.ends {
                self.facts.cut_short = Some(format!("the ensemble did not recover: {why}"));
                return Ok(None);
            }
            sleep(BETWEEN_TRIES).await;
        }
    }

    /// Records a notification, dated now. Returns why the watch ends, if it does.
    async fn take(&mut self, client: &Client, event: WatchedEvent) -> Result<Option<Left>, Error> {
        if event.event_type == EventType::Session {
            return Ok(Some(Left::Lost));
        }
        let at_ms = self.wall.ms(now());
        self.facts.notifications += 1;
        self.latest.push_back(at_ms);
        while self.latest.front().is_some_and(|first| *first <= at_ms - 1_000) {
            self.latest.pop_front();
        }
        let within = self.latest.len() as u64;
        self.facts.most_per_second = self.facts.most_per_second.max(within);
        if within > self.watching.at_most {
            let most = counted(self.watching.at_most, "notification", "notifications");
            self.facts.cut_short = Some(format!("more than {most} in a second (--at-most)"));
        }
        let path = event.path.as_bytes();
        let happened = match event.event_type {
            EventType::NodeCreated if self.may_be_ephemeral(client, path).await => Some(Happened::Created),
            EventType::NodeDeleted => Some(Happened::Deleted),
            _ => None,
        };
        match (happened, &mut self.pending) {
            (Some(happened), Some(pending)) => pending.push(Seen { path: path.to_vec(), happened, at_ms }),
            (Some(happened), None) => self.reconstruction.sees(path, happened, at_ms).map_err(not_spooled)?,
            (None, _) => {}
        }
        Ok(self.facts.cut_short.is_some().then_some(Left::Over))
    }

    /// Returns whether a new node may be ephemeral, judging by its name or, if the name is unknown, by the
    /// directory's first new node.
    async fn may_be_ephemeral(&mut self, client: &Client, path: &[u8]) -> bool {
        let (directory, name) = split(path);
        if recognise(directory, name).is_some() {
            return true;
        }
        let key = (directory.to_owned(), before_number(name).is_some());
        if let Some(known) = self.are_ephemeral.get(&key) {
            return *known;
        }
        let Ok(path) = std::str::from_utf8(path) else { return false };
        match client.check_stat(path).await {
            Ok(Some(stat)) => {
                let is_ephemeral = session_of(stat.ephemeral_owner).is_some();
                self.are_ephemeral.insert(key, is_ephemeral);
                is_ephemeral
            }
            // The node is already gone, as lock nodes often are.
            _ => true,
        }
    }
}

/// Lists the existing ephemeral nodes with at most this many requests. The listing so far remains if the future is
/// dropped.
async fn existing(
    client: &Client,
    path: &str,
    most: usize,
    listing: &mut Listing,
) -> Result<(), ClientError> {
    let mut unread = vec![path.to_owned()];
    let mut reads = 0;
    while let Some(parent) = unread.pop() {
        if reads >= most {
            listing.unread.push(parent);
            continue;
        }
        reads += 1;
        let children = match client.list_children(&parent).await {
            Err(ClientError::NoNode | ClientError::NoAuth) if parent != path => continue,
            children => children?,
        };
        for child in children {
            let child = format!("{}/{child}", parent.trim_end_matches('/'));
            if reads >= most {
                listing.unread.push(child);
                continue;
            }
            reads += 1;
            let Some(stat) = client.check_stat(&child).await? else { continue };
            match session_of(stat.ephemeral_owner) {
                Some(owner) => listing.found.push(StoredNode {
                    path: child.into_bytes(),
                    created: stat.czxid,
                    created_ms: stat.ctime,
                    owner: Some(owner),
                }),
                None if stat.num_children > 0 => unread.push(child),
                None => {}
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use zklockbench_core::txn::buffer;
    use zklockbench_zk::Access;

    const NODE: &str = "/l/_c_0f8fad5b-d9cb-469f-a165-70867728950e-lock-0000000001";
    const LASTS: Duration = Duration::from_secs(600);

    fn watching(at_most: u64) -> Watching {
        Watching { path: "/l".to_owned(), lasts: LASTS, at_most }
    }

    fn live<'a>(watching: &'a Watching, scratch: &Path) -> Live<'a> {
        Live {
            watching,
            ends: Instant::now() + LASTS,
            reconstruction: Reconstruction::new(Scope::default(), scratch),
            facts: WatchFacts::default(),
            latest: VecDeque::new(),
            pending: None,
            are_ephemeral: HashMap::new(),
            wall: WallClock::read(),
        }
    }

    fn target(connect: String) -> Target {
        Target { connect, access: Access::default() }
    }

    async fn send(stream: &mut TcpStream, parts: &[&[u8]]) {
        let frame = parts.concat();
        stream.write_all(&(frame.len() as u32).to_be_bytes()).await.unwrap();
        stream.write_all(&frame).await.unwrap();
    }

    async fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
        let mut frame = vec![0; stream.read_u32().await? as usize];
        stream.read_exact(&mut frame).await?;
        Ok(frame)
    }

    /// Starts a server that accepts a session and a watch. Each list of children has these names, of ephemeral
    /// nodes. Without names, the server sends a notification of a new node and cancels `stop` instead of a reply.
    async fn server(names: &'static [&'static str], stop: CancellationToken) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            receive(&mut stream).await.unwrap();
            let (version, timeout, session) = ([0_u8; 4], 20_000_i32.to_be_bytes(), 1_i64.to_be_bytes());
            send(&mut stream, &[&version, &timeout, &session, &buffer(&[1; 16]), &[0]]).await;
            while let Ok(request) = receive(&mut stream).await {
                let is_list = request[4..8] == 8_i32.to_be_bytes();
                if is_list && names.is_empty() {
                    let header = [&(-1_i32).to_be_bytes()[..], &(-1_i64).to_be_bytes(), &[0; 4]].concat();
                    let (created, connected) = (1_i32.to_be_bytes(), 3_i32.to_be_bytes());
                    send(&mut stream, &[&header, &created, &connected, &buffer(NODE.as_bytes())]).await;
                    stop.cancel();
                } else if is_list {
                    let names_sent: Vec<u8> = names.iter().flat_map(|name| buffer(name.as_bytes())).collect();
                    let count = (names.len() as i32).to_be_bytes();
                    send(&mut stream, &[&request[..4], &[0; 12], &count, &names_sent]).await;
                } else {
                    // If the request is an exists: a node of session 7.
                    let stat = [&[0_u8; 44][..], &7_i64.to_be_bytes(), &[0; 16]].concat();
                    let body = if request[4..8] == 3_i32.to_be_bytes() { &stat[..] } else { &[] };
                    send(&mut stream, &[&request[..4], &[0; 12], body]).await;
                }
            }
        });
        address
    }

    #[tokio::test]
    async fn watch_can_be_stopped_while_the_tree_is_read() {
        let (scratch, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
        let (target, watching) = (target(server(&[], stop.clone()).await), watching(100));
        let mut live = live(&watching, scratch.path());
        assert_eq!(live.once_connected(&target, &stop).await.unwrap(), Left::Over);
        assert_eq!(live.facts.cut_short.as_deref(), Some(STOPPED));
        assert!(live.facts.has_unread_nodes);
    }

    #[tokio::test]
    async fn notifications_are_counted_on_arrival_while_the_tree_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let (target, watching) = (target(server(&[], CancellationToken::new()).await), watching(0));
        let mut live = live(&watching, scratch.path());
        let left = live.once_connected(&target, &CancellationToken::new()).await;
        assert_eq!(left.unwrap(), Left::Over);
        assert_eq!(live.facts.notifications, 1);
        assert!(live.facts.cut_short.as_ref().is_some_and(|why| why.contains("--at-most")));
        let observed = live.reconstruction.finish().unwrap();
        assert_eq!(observed.cycles.iter().unwrap().count(), 1);
    }

    #[tokio::test]
    async fn nodes_beyond_the_request_limit_are_listed_as_unread() {
        let target = target(server(&["a", "b", "c"], CancellationToken::new()).await);
        let (client, mut listing) = (target.client(SESSION).await.unwrap(), Listing::default());
        existing(&client, "/l", 3, &mut listing).await.unwrap();
        let found: Vec<&[u8]> = listing.found.iter().map(|node| node.path.as_slice()).collect();
        assert_eq!(found, [b"/l/a", b"/l/b"]);
        assert_eq!(listing.unread, ["/l/c"]);
    }

    #[tokio::test]
    async fn results_so_far_are_kept_if_the_user_stops_a_reconnection() {
        let scratch = tempfile::tempdir().unwrap();
        // Connections to this address are refused.
        let (target, watching) = (target("127.0.0.1:1".to_owned()), watching(100));
        let mut live = live(&watching, scratch.path());
        live.facts.reconnects = 1;
        let stop = CancellationToken::new();
        stop.cancel();
        assert_eq!(live.once_connected(&target, &stop).await.unwrap(), Left::Over);
        assert_eq!(live.facts.cut_short.as_deref(), Some(STOPPED));
    }
}
