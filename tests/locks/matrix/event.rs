//! Events that may happen to a contender. Each event is played on a real server, and its requests are recorded.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zklockbench_core::catalog::after::Event as Named;
use zklockbench_core::catalog::{Mode, Params};
use zklockbench_locks::AcquireError;
use zklockbench_zk::{Failure, runtime, sequence_of};

use crate::support::contender::{Contender, LONG, Waiting};
use crate::support::proxy::{Fate, Proxy, Request};
use crate::support::rehearsal::shortened;
use crate::support::sessions::{Scene, scene};

/// Timeout of an acquire that never gets the lock.
const SHORT: Duration = Duration::from_secs(2);
/// Time shorter than any pause before a retry.
const BRIEF: Duration = Duration::from_millis(40);
/// Time without a reachable server, longer than two connection attempts of Java's client.
const AWAY: Duration = Duration::from_secs(4);
/// Opcode of `exists`.
const EXISTS: i32 = 3;
/// Time limit for any request of any client.
const STUCK: Duration = Duration::from_secs(60);

pub const DIRECTORY_MADE: &str = "directory made meanwhile";
pub const PREDECESSOR_GONE: &str = "predecessor gone";

pub struct Event {
    pub name: &'static str,
    /// Whether another contender holds the lock until the subject is idle.
    is_contended: bool,
    /// Whether the lock's directory contains a node that belongs to no contender.
    has_stranger: bool,
    happens: Happens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    Nothing,
    /// The first request of a kind, or its reply, is lost.
    Lost(Fate, What),
    /// All creates that the policy allows are lost. For the last create, only the reply is lost.
    CreatesExhausted,
    Moved,
    Expired,
    TimesOut,
    /// The list's reply is lost, and the timeout expires before the pause that follows.
    TimesOutInBackOff,
    OwnNodeGoes,
    NoDirectory,
    DirectoryGoes,
    /// Another contender creates the missing directory while the error reply is in flight.
    DirectoryMade,
    /// The holder releases while the list's reply is in flight.
    PredecessorGoes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Create,
    /// A list that follows the create.
    List,
    Watch,
    /// The request that releases the lock.
    Delete,
}

impl What {
    fn is(self, request: &Request) -> bool {
        match self {
            Self::Create => request.may_create(),
            // A list of a queue node's children does not count: its child watch only reports the node's deletion.
            Self::List => matches!(request.kind, 8 | 12) && !is_of_queue_node(request),
            Self::Watch => request.watches && matches!(request.kind, 3 | 4 | 8 | 12),
            Self::Delete => matches!(request.kind, 2 | 14 | 20),
        }
    }
}

/// Returns whether the path belongs to a queue node. The first component, the lock's directory, also ends with a
/// number.
fn is_of_queue_node(request: &Request) -> bool {
    request.path.split('/').skip(2).last().is_some_and(|name| sequence_of(name).is_some())
}

fn alone(name: &'static str, happens: Happens) -> Event {
    Event { name, is_contended: false, has_stranger: false, happens }
}

fn waiting(name: &'static str, happens: Happens) -> Event {
    Event { is_contended: true, ..alone(name, happens) }
}

fn beside_stranger(name: &'static str, happens: Happens) -> Event {
    Event { has_stranger: true, ..waiting(name, happens) }
}

/// Events to play for locks and for their originals.
pub fn of_pairs() -> [Event; 18] {
    let named = Event::named;
    [
        alone("nothing", Happens::Nothing),
        waiting("another holds", Happens::Nothing),
        named(Named::CreateReplyLost),
        named(Named::CreateRequestLost),
        alone(Named::ListReplyLost.name(), Happens::Lost(Fate::ReplyLost, What::List)),
        waiting("no server for 4 s", Happens::Lost(Fate::CutOff, What::List)),
        named(Named::WatchReplyLost),
        named(Named::DeleteReplyLost),
        named(Named::CreatesExhausted),
        named(Named::SessionMoved),
        named(Named::SessionExpired),
        named(Named::TimedOut),
        waiting(Named::TimedOutInBackOff.name(), Happens::TimesOutInBackOff),
        named(Named::OwnNodeDeleted),
        named(Named::ForeignChild),
        named(Named::NoDirectory),
        alone(DIRECTORY_MADE, Happens::DirectoryMade),
        waiting(PREDECESSOR_GONE, Happens::PredecessorGoes),
    ]
}

impl Event {
    /// The event with this name in the tables below the cards.
    pub fn named(event: Named) -> Self {
        use Fate::{ReplyLost, RequestLost};
        use Happens::{
            CreatesExhausted, DirectoryGoes, Expired, Lost, Moved, NoDirectory, Nothing, OwnNodeGoes,
        };
        let name = event.name();
        match event {
            Named::CreateReplyLost => alone(name, Lost(ReplyLost, What::Create)),
            Named::CreateRequestLost => alone(name, Lost(RequestLost, What::Create)),
            Named::CreatesExhausted => alone(name, CreatesExhausted),
            // In a directory with a foreign node, even locks that can find their predecessor without a list send a
            // list.
            Named::ListReplyLost => beside_stranger(name, Lost(ReplyLost, What::List)),
            Named::WatchReplyLost => waiting(name, Lost(ReplyLost, What::Watch)),
            Named::DeleteReplyLost => alone(name, Lost(ReplyLost, What::Delete)),
            Named::DeleteRequestLost => alone(name, Lost(RequestLost, What::Delete)),
            Named::SessionMoved => waiting(name, Moved),
            Named::SessionExpired => waiting(name, Expired),
            Named::TimedOut => waiting(name, Happens::TimesOut),
            Named::TimedOutInBackOff => beside_stranger(name, Happens::TimesOutInBackOff),
            Named::OwnNodeDeleted => waiting(name, OwnNodeGoes),
            Named::ForeignChild => beside_stranger(name, Nothing),
            Named::NoDirectory => alone(name, NoDirectory),
            Named::DirectoryDeleted => waiting(name, DirectoryGoes),
        }
    }

    fn limit(&self, terms: &Terms) -> Duration {
        match self.happens {
            Happens::TimesOut => SHORT,
            Happens::TimesOutInBackOff if terms.sets_limits_beforehand => BRIEF,
            _ => LONG,
        }
    }
}

/// Properties of a lock that are needed to play events.
pub struct Terms {
    pub lock: &'static str,
    pub params: Params,
    pub mode: Mode,
    /// Number of creates to lose until the lock gives up.
    pub creates: usize,
    /// Whether the request to lose is certain to be sent.
    pub comes: bool,
    /// Time longer than any pause of the lock between two requests. Polling intervals are longer still.
    pub calm: Duration,
    /// Silence after which the event counts as over, longer than any pause of the lock, even between two polls.
    pub last_calm: Duration,
    /// Silence after which a contender that has no connection or no pending acquire sends no more requests.
    pub gone: Duration,
    /// Whether the timeout must be set when the acquire starts, as for an acquire in another process. Otherwise, the
    /// timeout expires right after the event, however busy the host is.
    pub sets_limits_beforehand: bool,
}

/// Record of an event that was played for one contender.
pub struct Course {
    pub scene: Scene,
    requests: Vec<Request>,
    /// Events, each with the number of requests before it.
    marks: Vec<(usize, String)>,
    /// Whether the whole event has happened.
    pub has_happened: bool,
    pub ended: Ended,
    /// Number of the contender's nodes left at the end. Its session is still open then, unless the event ended it.
    pub left: usize,
}

pub enum Ended {
    Waits,
    Failed(AcquireError),
    Entered(Entered),
}

pub struct Entered {
    /// Number of the contender's nodes when it entered.
    pub nodes: usize,
    /// Whether the holder had not yet released when the contender entered.
    pub is_beside: bool,
    pub released: Result<(), Failure>,
}

impl Ended {
    fn label(&self) -> &'static str {
        match self {
            Self::Waits => "still waits",
            Self::Failed(AcquireError::TimedOut) => "timed out",
            Self::Failed(_) => "failed",
            Self::Entered(Entered { released: Ok(()), .. }) => "released",
            Self::Entered(_) => "the release failed",
        }
    }
}

/// Plays an event for the contender that `contender` returns for an address.
pub async fn play(
    event: &Event,
    terms: &Terms,
    connect: &str,
    contender: impl AsyncFnOnce(&str, &Scene) -> Contender,
) -> Course {
    let scene = scene(connect).await;
    // The first acquire creates all directories.
    let mut holder = Some(Contender::with(terms.lock, &terms.params, &scene).await.enter().await);
    if !event.is_contended
        && let Some((mut holder, held)) = holder.take()
    {
        holder.release(held).await.unwrap();
        holder.die().await;
    }
    if event.has_stranger {
        scene.add_foreign_child().await;
    }
    if matches!(event.happens, Happens::NoDirectory | Happens::DirectoryMade) {
        scene.delete_all().await;
    }
    let proxy = Proxy::before(connect);
    let subject = contender(&proxy.connect, &scene).await;
    let session = subject.session.id();
    let mut stage = Stage { proxy, connect, terms, scene: &scene, marks: Vec::new() };
    stage.prepare(event.happens);
    let waits = Waiting::start_within(subject, terms.mode, event.limit(terms));
    if event.happens == Happens::TimesOutInBackOff && !terms.sets_limits_beforehand {
        stage.time_out_after_loss(&waits).await;
    }
    stage.rest(&waits, terms.calm).await;
    let mut has_happened = stage.bring_about(event.happens, &waits, session).await;
    stage.rest(&waits, if holder.is_some() { terms.calm } else { terms.last_calm }).await;
    let is_beside = waits.is_over() && holder.is_some();
    if !waits.is_over()
        && let Some((holder, held)) = &mut holder
    {
        stage.mark("the holder releases");
        let released = holder.release(held.clone()).await;
        assert!(released.is_ok() || event.happens == Happens::DirectoryGoes, "{}: {released:?}", terms.lock);
        if event.happens == Happens::PredecessorGoes {
            // The subject's server may apply the release later than the holder's server.
            runtime::sleep(terms.calm).await;
        }
        stage.proxy.let_go();
        stage.rest(&waits, terms.last_calm).await;
    }
    let (ended, subject) = stage.end(event.happens, waits, is_beside).await;
    let holders = match &holder {
        Some((holder, _)) => scene.nodes_of(holder.session.id()).await.len(),
        None => 0,
    };
    let left = scene.nodes().await - holders;
    let label = ended.label();
    stage.mark(match left {
        0 => label.to_owned(),
        1 => format!("{label}; its node is left"),
        more => format!("{label}; {more} nodes are left"),
    });
    has_happened &= stage.proxy.is_done_striking();
    let (requests, marks) = (stage.proxy.requests(), stage.marks);
    match subject {
        Subject::Ended(subject) => subject.die().await,
        Subject::Waits(waits) => {
            waits.cancel.cancel();
            waits.over().await.0.die().await;
        }
    }
    if let Some((mut holder, held)) = holder {
        // The holder may have released already, or its node may have been deleted.
        let _ = holder.release(held).await;
        holder.die().await;
    }
    Course { scene, requests, marks, has_happened, ended, left }
}

/// A contender whose acquire has ended or is still pending.
enum Subject {
    Ended(Box<Contender>),
    Waits(Waiting),
}

struct Stage<'a> {
    proxy: Proxy,
    /// Address of the servers behind the proxy.
    connect: &'a str,
    terms: &'a Terms,
    scene: &'a Scene,
    /// Events, each with the number of requests before it.
    marks: Vec<(usize, String)>,
}

impl Stage<'_> {
    fn mark(&mut self, what: impl Into<String>) {
        self.marks.push((self.proxy.requests().len(), what.into()));
    }

    /// Prepares the loss of the acquire's requests.
    fn prepare(&self, happens: Happens) {
        match happens {
            Happens::Lost(_, What::Delete) => {}
            Happens::Lost(fate, what) => self.lose(fate, what),
            Happens::TimesOutInBackOff => self.lose(Fate::ReplyLost, What::List),
            Happens::PredecessorGoes => self.lose(Fate::ReplyHeld, What::List),
            Happens::DirectoryMade => {
                let lock = self.scene.lock.clone();
                self.proxy.strike_where(Fate::ReplyHeld, 1, move |request| {
                    request.kind == EXISTS && request.path == lock
                });
            }
            Happens::CreatesExhausted => {
                (1..self.terms.creates).for_each(|_| self.lose(Fate::RequestLost, What::Create));
                self.lose(Fate::ReplyLost, What::Create);
            }
            _ => {}
        }
    }

    /// Causes the event while the acquire is pending or after it has ended; returns whether the event was possible.
    async fn bring_about(&mut self, happens: Happens, waits: &Waiting, session: i64) -> bool {
        match happens {
            Happens::Moved => {
                self.mark("the connection breaks; the next one is to another server");
                self.proxy.move_to(self.connect.rsplit(',').next().unwrap());
            }
            Happens::Expired => {
                self.mark("the session ends");
                self.proxy.end_session();
            }
            Happens::OwnNodeGoes => {
                self.mark("its node is deleted");
                let own = self.scene.nodes_of(session).await;
                let has_one = !own.is_empty();
                self.scene.delete(own).await;
                return has_one;
            }
            Happens::DirectoryGoes => self.scene.delete_all().await,
            Happens::DirectoryMade => {
                self.mark("another contender creates the directory");
                self.scene.restore().await;
                self.proxy.let_go();
            }
            Happens::TimesOut => runtime::sleep(SHORT).await,
            Happens::Lost(Fate::CutOff, _) => {
                runtime::sleep(AWAY).await;
                self.mark("servers can be reached again");
                self.proxy.mend();
            }
            Happens::CreatesExhausted => {
                // WriteLock pauses once more before it fails.
                let over = async {
                    while !waits.is_over() {
                        runtime::sleep(self.terms.gone).await;
                    }
                };
                let _ = runtime::timeout(STUCK, over).await;
            }
            _ => {}
        }
        true
    }

    /// Lets the acquire time out once the request to lose is lost, or would have been sent.
    async fn time_out_after_loss(&self, waits: &Waiting) {
        let mut states = waits.states();
        let lost = async {
            while !self.proxy.is_done_striking() && !waits.is_over() {
                runtime::sleep(Duration::from_millis(2)).await;
            }
            // Until the client notices the loss, the lock's next request would be lost with the same connection.
            if !waits.is_over() {
                states.changed().await;
            }
        };
        let within = if self.terms.comes { STUCK } else { self.terms.calm };
        let _ = runtime::timeout(within, lost).await;
        waits.clock.jump(LONG);
    }

    /// Strikes the next request of a kind; for a list, the next list after a create.
    fn lose(&self, fate: Fate, what: What) {
        let lock = self.scene.lock.clone();
        let has_created = AtomicBool::new(what != What::List);
        self.proxy.strike_where(fate, 1, move |request| {
            // The path of a multi is unknown.
            let is_of_lock = request.is_multi() || request.path.starts_with(&lock);
            if is_of_lock && What::Create.is(request) {
                has_created.store(true, Ordering::Relaxed);
            }
            is_of_lock && what.is(request) && has_created.load(Ordering::Relaxed)
        });
    }

    async fn rest(&self, waits: &Waiting, silence: Duration) {
        self.calm(silence, || waits.is_over()).await;
    }

    /// Waits until the requests to lose are lost, and then until the client is connected and sends no more requests.
    async fn calm(&self, silence: Duration, is_over: impl Fn() -> bool) {
        const STEP: Duration = Duration::from_millis(20);
        let poll = || (self.proxy.requests().len(), self.proxy.is_connected());
        let (began, mut since, mut seen) = (Instant::now(), Instant::now(), poll());
        // After this time, either the request to lose was never sent, or the client sends requests forever.
        while began.elapsed() < STUCK {
            let late = Instant::now();
            runtime::sleep(STEP).await;
            // Silence counts only while this process is scheduled on time and no reply is due.
            if poll() != seen || late.elapsed() > 4 * STEP || !self.proxy.is_answered() {
                (since, seen) = (Instant::now(), poll());
            }
            let (_, is_connected) = seen;
            let is_lost = !self.terms.comes || is_over() || self.proxy.is_done_striking();
            if is_lost && self.proxy.is_cut() {
                return;
            }
            let quiet = if is_connected { silence } else { self.terms.gone };
            if is_lost && (is_connected || is_over()) && since.elapsed() >= quiet {
                return;
            }
        }
    }

    /// Returns how the acquire ended and, if the lock was granted, how the release ended.
    async fn end(&mut self, happens: Happens, waits: Waiting, is_beside: bool) -> (Ended, Subject) {
        if !waits.is_over() {
            return (Ended::Waits, Subject::Waits(waits));
        }
        let (mut subject, ended) = waits.over().await;
        let ended = match ended {
            Err(why) => Ended::Failed(why),
            Ok(held) => {
                self.mark("acquired");
                if let Happens::Lost(fate, what @ What::Delete) = happens {
                    self.lose(fate, what);
                }
                let nodes = self.scene.nodes_of(subject.session.id()).await.len();
                let released = subject.release(held).await;
                self.calm(self.terms.calm, || false).await;
                Ended::Entered(Entered { nodes, is_beside, released })
            }
        };
        (ended, Subject::Ended(Box::new(subject)))
    }
}

impl Course {
    /// Requests with their fates, and the events in between, excluding a driver's reads of its token.
    pub fn lines(&self, is_original: bool) -> Vec<String> {
        let own = self.own_ids();
        let mut marks = self.marks.iter().peekable();
        let mut lines = Vec::new();
        for (at, request) in self.requests.iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|(before, _)| *before <= at) {
                lines.push(format!("-- {mark}"));
            }
            let is_of_lock = request.path.starts_with(&self.scene.lock);
            if is_of_lock && !(is_original && reads_token(request, &own)) {
                lines.push(self.written(request, &own));
            }
        }
        lines.extend(marks.map(|(_, mark)| format!("-- {mark}")));
        lines
    }

    /// Identifiers in the names of the contender's own nodes, in the order of their creates.
    fn own_ids(&self) -> Vec<String> {
        let own = RefCell::new(Vec::new());
        for request in self.requests.iter().filter(|request| What::Create.is(request)) {
            shortened(&request.path, |id| {
                let mut own = own.borrow_mut();
                if !own.iter().any(|known| known == id) {
                    own.push(id.to_owned());
                }
                String::new()
            });
        }
        own.into_inner()
    }

    fn written(&self, request: &Request, own: &[String]) -> String {
        let kind = match request.kind {
            1 | 15 => "create",
            2 | 20 => "delete",
            3 => "exists",
            4 => "getData",
            5 => "setData",
            8 | 12 => "getChildren",
            9 => "sync",
            14 => "multi",
            17 => "checkWatches",
            18 => "removeWatches",
            19 => "createContainer",
            other => panic!("unexpected request of kind {other}"),
        };
        let watch =
            if request.watches && matches!(request.kind, 3 | 4 | 8 | 12) { " with watch" } else { "" };
        let named = |id: &str| {
            let (before, after) = if id.starts_with("x-") { ("x-", "-") } else { ("", "") };
            let name = match own.iter().position(|own| own == id) {
                Some(0) => "own".to_owned(),
                Some(at) => format!("own {}", at + 1),
                None => "other".to_owned(),
            };
            format!("{before}<{name}>{after}")
        };
        let below = request.path.replace(&format!("{}/", self.scene.lock), "").replace(&self.scene.lock, ".");
        let fate = match request.fate {
            Some(Fate::RequestLost) => " [lost]",
            Some(Fate::ReplyHeld) => " [reply waits]",
            Some(_) => " [reply lost]",
            None => "",
        };
        format!("{kind}{watch} {}{fate}", shortened(&below, named))
    }
}

/// Returns whether this request is a driver's read of its own node. The lock itself never reads its own node.
fn reads_token(request: &Request, own: &[String]) -> bool {
    matches!(request.kind, 3 | 4) && !request.watches && own.iter().any(|id| request.path.contains(id))
}
