//! What may happen to a contender, as data, and how it is played before a real server: what goes over the wire then.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use zklockbench::lock::AcquireError;
use zklockbench::words::catalog::Mode::Write;
use zklockbench::world::zk::reactor;

use super::pair::{Pair, Side};
use crate::support::contender::{Contender, LONG, Waiting};
use crate::support::proxy::{Fate, Proxy, Request};
use crate::support::rehearsal::shortened;
use crate::support::sessions::scene;

/// A wait that ends in vain, and one that is shorter than any pause before another try.
const SHORT: Duration = Duration::from_secs(2);
const BRIEF: Duration = Duration::from_millis(40);
/// For how long servers can't be reached: longer than a client of Java's takes for two tries to connect.
const AWAY: Duration = Duration::from_secs(4);
/// For so long nothing comes any more from a client that has no connection and no acquire under way.
const GONE: Duration = Duration::from_secs(3);
/// Longer than a client takes for anything.
const STUCK: Duration = Duration::from_secs(60);

pub struct Event {
    pub name: &'static str,
    /// Whether another holds the lock at first, until all has come to rest.
    is_contended: bool,
    happens: Happens,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Happens {
    Nothing,
    /// The first request of a kind is lost, or its reply.
    Lost(Fate, What),
    /// All creates that the policy allows are lost, of the last one the reply.
    CreatesExhausted,
    Moved,
    Expired,
    TimesOut,
    /// The list's reply is lost, and the time is over before the pause that follows.
    TimesOutInBackOff,
    OwnNodeGoes,
    ForeignChild,
    NoDirectory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Create,
    /// After the create.
    List,
    Watch,
    /// By which the lock is released.
    Delete,
}

impl What {
    fn is(self, request: &Request) -> bool {
        match self {
            Self::Create => matches!(request.kind, 1 | 15),
            Self::List => matches!(request.kind, 8 | 12),
            Self::Watch => request.watches && matches!(request.kind, 3 | 4 | 8 | 12),
            Self::Delete => matches!(request.kind, 2 | 20),
        }
    }
}

const fn alone(name: &'static str, happens: Happens) -> Event {
    Event { name, is_contended: false, happens }
}

const fn waiting(name: &'static str, happens: Happens) -> Event {
    Event { name, is_contended: true, happens }
}

pub const EVENTS: [Event; 16] = [
    alone("nothing", Happens::Nothing),
    waiting("another holds", Happens::Nothing),
    alone("create's reply lost", Happens::Lost(Fate::ReplyLost, What::Create)),
    alone("create's request lost", Happens::Lost(Fate::RequestLost, What::Create)),
    alone("list's reply lost", Happens::Lost(Fate::ReplyLost, What::List)),
    waiting("no server for 4 s", Happens::Lost(Fate::CutOff, What::List)),
    waiting("watch's reply lost", Happens::Lost(Fate::ReplyLost, What::Watch)),
    alone("delete's reply lost", Happens::Lost(Fate::ReplyLost, What::Delete)),
    alone("creates exhausted", Happens::CreatesExhausted),
    waiting("session moved", Happens::Moved),
    waiting("session expired", Happens::Expired),
    waiting("timed out", Happens::TimesOut),
    waiting("timed out in back-off", Happens::TimesOutInBackOff),
    waiting("own node deleted", Happens::OwnNodeGoes),
    waiting("foreign child", Happens::ForeignChild),
    alone("no directory", Happens::NoDirectory),
];

impl Event {
    /// Whether it can happen to that lock.
    pub fn concerns(&self, pair: &Pair) -> bool {
        !pair.skips.contains(&self.name)
    }

    fn limit(&self) -> Duration {
        match self.happens {
            Happens::TimesOut => SHORT,
            Happens::TimesOutInBackOff => BRIEF,
            _ => LONG,
        }
    }
}

/// Plays an event to one side of a pair; what its contender sent, line by line, with what happened in between.
pub async fn play(event: &Event, pair: &Pair, side: &Side, number: usize, connect: &str) -> Vec<String> {
    let scene = scene(connect).await;
    // By its first acquire all directories are made.
    let mut one = Contender::with(pair.ours, &pair.params(), &scene).await;
    let held = one.acquire(Write).await.unwrap();
    let mut holder = Some((one, held));
    if !event.is_contended
        && let Some((mut holder, held)) = holder.take()
    {
        holder.release(held).await.unwrap();
        holder.die().await;
    }
    match event.happens {
        Happens::ForeignChild => scene.add_foreign_child().await,
        Happens::NoDirectory => scene.delete_all().await,
        _ => {}
    }
    let proxy = Proxy::before(connect);
    let subject = side.contender(pair, &proxy.connect, &scene, number).await;
    let session = subject.session.id();
    let mut stage = Stage { proxy, event, pair, lock: scene.lock.clone(), marks: Vec::new() };
    stage.prepare(event.happens);
    let waits = Waiting::start_within(subject, pair.mode, event.limit());
    stage.rest(&waits).await;
    match event.happens {
        Happens::Moved => {
            stage.mark("the connection breaks; the next one is to another server");
            stage.proxy.move_to(connect.rsplit(',').next().unwrap());
        }
        Happens::Expired => {
            stage.mark("the session ends");
            stage.proxy.end_session();
        }
        Happens::OwnNodeGoes => {
            stage.mark("its node is deleted");
            scene.delete(scene.nodes_of(session).await).await;
        }
        Happens::TimesOut => reactor::sleep(SHORT).await,
        Happens::Lost(Fate::CutOff, _) => {
            reactor::sleep(AWAY).await;
            stage.mark("servers can be reached again");
            stage.proxy.mend();
        }
        Happens::CreatesExhausted => {
            // WriteLock pauses once more before it fails.
            let over = async {
                while !waits.is_over() {
                    reactor::sleep(GONE).await;
                }
            };
            let _ = reactor::timeout(STUCK, over).await;
        }
        _ => {}
    }
    stage.rest(&waits).await;
    if !waits.is_over()
        && let Some((holder, held)) = &mut holder
    {
        stage.mark("the holder releases");
        holder.release(held.clone()).await.unwrap();
        stage.rest(&waits).await;
    }
    let (ended, subject) = stage.end(event.happens, waits).await;
    let holders = match &holder {
        Some((holder, _)) => scene.nodes_of(holder.session.id()).await.len(),
        None => 0,
    };
    let left = scene.nodes().await - holders;
    stage.mark(match left {
        0 => ended.to_owned(),
        1 => format!("{ended}; its node is left"),
        more => format!("{ended}; {more} nodes are left"),
    });
    let lines = stage.lines(side);
    match subject {
        Subject::Ended(subject) => subject.die().await,
        Subject::Waits(waits) => {
            waits.cancel.cancel();
            waits.over().await.0.die().await;
        }
    }
    if let Some((holder, _)) = holder {
        holder.die().await;
    }
    lines
}

/// A contender whose acquire is over, or not.
enum Subject {
    Ended(Box<Contender>),
    Waits(Waiting),
}

struct Stage<'a> {
    proxy: Proxy,
    event: &'a Event,
    pair: &'a Pair,
    lock: String,
    /// What happened, and after how many requests.
    marks: Vec<(usize, String)>,
}

impl Stage<'_> {
    fn mark(&mut self, what: impl Into<String>) {
        self.marks.push((self.proxy.requests().len(), what.into()));
    }

    /// What is to happen to requests of the acquire.
    fn prepare(&self, happens: Happens) {
        match happens {
            Happens::Lost(_, What::Delete) => {}
            Happens::Lost(fate, what) => self.lose(fate, what),
            Happens::TimesOutInBackOff => self.lose(Fate::ReplyLost, What::List),
            Happens::CreatesExhausted => {
                (1..self.pair.creates).for_each(|_| self.lose(Fate::RequestLost, What::Create));
                self.lose(Fate::ReplyLost, What::Create);
            }
            _ => {}
        }
    }

    fn lose(&self, fate: Fate, what: What) {
        let lock = self.lock.clone();
        let is = move |request: &Request| request.path.starts_with(&lock) && what.is(request);
        let n = if what == What::List { self.pair.lists_before_create + 1 } else { 1 };
        self.proxy.strike_where(fate, n, is);
    }

    async fn rest(&self, waits: &Waiting) {
        self.calm(|| waits.is_over()).await;
    }

    /// Waits until all that is to be lost is lost, and then until its client is connected again and asks for nothing more.
    async fn calm(&self, is_over: impl Fn() -> bool) {
        const STEP: Duration = Duration::from_millis(20);
        let look = || (self.proxy.requests().len(), self.proxy.is_connected());
        let (began, mut since, mut seen) = (Instant::now(), Instant::now(), look());
        loop {
            let late = Instant::now();
            reactor::sleep(STEP).await;
            // Where this process is not served in time nobody is, and that nothing has moved says nothing.
            if look() != seen || late.elapsed() > 4 * STEP {
                (since, seen) = (Instant::now(), look());
            }
            let (_, is_connected) = seen;
            let is_lost = is_over() || self.proxy.is_done_striking();
            if is_lost && self.proxy.is_cut() {
                return;
            }
            let quiet = if is_connected { self.pair.calm } else { GONE };
            if is_lost && (is_connected || is_over()) && since.elapsed() >= quiet {
                return;
            }
            let requests = self.proxy.requests();
            assert!(began.elapsed() < STUCK, "{}, {}: {requests:?}", self.pair.name, self.event.name);
        }
    }

    /// How the acquire ended and, if it was granted, the release.
    async fn end(&mut self, happens: Happens, waits: Waiting) -> (&'static str, Subject) {
        if !waits.is_over() {
            return ("still waits", Subject::Waits(waits));
        }
        let (mut subject, ended) = waits.over().await;
        let word = match ended {
            Err(AcquireError::TimedOut) => "timed out",
            Err(_) => "failed",
            Ok(held) => {
                self.mark("acquired");
                if let Happens::Lost(fate, what @ What::Delete) = happens {
                    self.lose(fate, what);
                }
                let released = subject.release(held).await;
                self.calm(|| false).await;
                if released.is_ok() { "released" } else { "the release failed" }
            }
        };
        (word, Subject::Ended(Box::new(subject)))
    }

    /// What was sent, each request with what became of it, and what happened in between.
    fn lines(&self, side: &Side) -> Vec<String> {
        let requests = self.proxy.requests();
        let own = self.own_ids(&requests);
        let mut marks = self.marks.iter().peekable();
        let mut lines = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            while let Some((_, mark)) = marks.next_if(|(before, _)| *before <= at) {
                lines.push(format!("-- {mark}"));
            }
            let is_of_lock = request.path.starts_with(&self.lock);
            if is_of_lock && !(side.is_original() && self.tells_token(request, &own)) {
                lines.push(self.written(request, &own));
            }
        }
        lines.extend(marks.map(|(_, mark)| format!("-- {mark}")));
        lines
    }

    /// The identifiers in the names of its own nodes, in the order of their creates.
    fn own_ids(&self, requests: &[Request]) -> Vec<String> {
        let own = RefCell::new(Vec::new());
        for request in requests.iter().filter(|request| What::Create.is(request)) {
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

    /// Whether a driver looks at its own node there, which the lock itself never does.
    fn tells_token(&self, request: &Request, own: &[String]) -> bool {
        matches!(request.kind, 3 | 4) && !request.watches && own.iter().any(|id| request.path.contains(id))
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
            other => panic!("a request of kind {other}"),
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
        let below = request.path.replace(&format!("{}/", self.lock), "").replace(&self.lock, ".");
        let fate = match request.fate {
            Some(Fate::RequestLost) => " [lost]",
            Some(_) => " [reply lost]",
            None => "",
        };
        format!("{kind}{watch} {}{fate}", shortened(&below, named))
    }
}
