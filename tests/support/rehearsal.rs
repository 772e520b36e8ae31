//! Four stories that every lock is put through, and the requests that its contenders send in them.
//!
//! A request is written as its kind and what it names below the lock: `create n-`, `get_children .`,
//! `get_data_watch n-0`. Queue numbers are written short, identifiers as `<id>`.

#![allow(dead_code)] // each test binary uses a part

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zklockbench::catalog::{Mode, ParamValue, Params};
use zklockbench::lock::{AcquireError, Held, LockConfig, Strategy, find};
use zklockbench::zk::{Sent, Session, reactor};

use crate::sessions::{Scene, Trace, patience, scene};

/// Long enough for everything under way to have come to rest.
const SETTLE: Duration = Duration::from_millis(150);
/// A wait that is too short.
const SHORT: Duration = Duration::from_millis(200);

/// What one contender sent, line by line.
pub type Lines = Vec<String>;

/// A lock as a scenario names it, by one word or number for each parameter.
pub struct Subject {
    name: &'static str,
    params: Params,
}

/// The strategy of that name with its defaults.
pub fn subject(name: &'static str) -> Subject {
    Subject { name, params: Params::new() }
}

impl Subject {
    /// With a parameter.
    pub fn with(mut self, name: &str, value: ParamValue) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    /// With a parameter that is a word.
    pub fn word(self, name: &str, word: &str) -> Self {
        self.with(name, ParamValue::Word(word.to_owned()))
    }

    async fn contender(&self, scene: &Scene) -> Contender {
        let entry = find(self.name).unwrap_or_else(|| panic!("no strategy {}", self.name));
        let config = LockConfig { path: scene.lock.clone(), params: self.params.clone() };
        let (session, trace) = scene.traced().await;
        Contender { lock: (entry.build)(&config), session, trace, scene_path: scene.lock.clone() }
    }

    /// One contender acquires and releases, with nobody else there.
    pub fn alone(&self) -> Lines {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            one.release(held).await;
            one.lines()
        })
    }

    /// One holds and three queue up behind it; then each releases when the next one is known to wait again.
    /// The contenders' requests in the order of arrival.
    pub fn queue(&self) -> [Lines; 4] {
        self.queue_of([Mode::Write; 4])
    }

    /// As [`Subject::queue`], each asking for what is given. The first ones in line that may be inside together
    /// are; each release waits until all is quiet.
    pub fn queue_of<const N: usize>(&self, modes: [Mode; N]) -> [Lines; N] {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut waits = Vec::new();
            for mode in modes {
                waits.push(Waiting::start(self.contender(&scene).await, mode));
                quiet(&waits).await;
            }
            let mut lines = Vec::new();
            while !waits.is_empty() {
                lines.push(waits.remove(0).serve().await);
                quiet(&waits).await;
            }
            lines.try_into().unwrap()
        })
    }

    /// One holds; another's patience ends. Returns what that one sent, and how many nodes were left then.
    pub fn timed_out(&self) -> (Lines, usize) {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            let mut other = self.contender(&scene).await;
            let ended = other.lock.acquire(&other.session, Mode::Write, &patience(Some(SHORT))).await;
            assert_eq!(ended.unwrap_err(), AcquireError::TimedOut, "{}", self.name);
            let nodes = scene.nodes().await;
            one.release(held).await;
            (other.lines(), nodes)
        })
    }

    /// One holds and three wait; the second of them leaves, then the others are served in turn. The requests
    /// of holder, first, second and third waiter.
    pub fn middle_leaves(&self) -> [Lines; 4] {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut waits = Vec::new();
            for _ in 0..4 {
                waits.push(Waiting::start(self.contender(&scene).await, Mode::Write));
                reactor::sleep(SETTLE).await;
            }
            waits[2].cancel.cancel();
            reactor::sleep(SETTLE).await;
            let mut lines = Vec::new();
            for (position, waiting) in waits.into_iter().enumerate() {
                lines.push(if position == 2 { waiting.gone().await } else { waiting.serve().await });
                reactor::sleep(SETTLE).await;
            }
            lines.try_into().unwrap()
        })
    }
}

struct Contender {
    lock: Box<dyn Strategy>,
    session: Session,
    trace: Trace,
    scene_path: String,
}

impl Contender {
    async fn acquire(&mut self, mode: Mode) -> Result<Held, AcquireError> {
        self.lock.acquire(&self.session, mode, &patience(Some(Duration::from_secs(10)))).await
    }

    async fn release(&mut self, held: Held) {
        self.lock.release(&self.session, held).await.unwrap();
    }

    fn lines(&self) -> Lines {
        self.trace.borrow().iter().map(|sent| written(sent, &self.scene_path)).collect()
    }
}

/// A contender in its acquire.
struct Waiting {
    cancel: CancellationToken,
    trace: Trace,
    task: reactor::Task<(Contender, Result<Held, AcquireError>)>,
}

impl Waiting {
    fn start(mut contender: Contender, mode: Mode) -> Self {
        let patience = patience(Some(Duration::from_secs(20)));
        let cancel = patience.cancel.clone();
        let trace = Trace::clone(&contender.trace);
        let task = reactor::spawn_local(async move {
            let held = contender.lock.acquire(&contender.session, mode, &patience).await;
            (contender, held)
        });
        Self { cancel, trace, task }
    }

    /// Waits until it holds, and releases.
    async fn serve(self) -> Lines {
        let (mut contender, held) = self.task.await;
        contender.release(held.unwrap()).await;
        contender.lines()
    }

    /// Waits until it has left.
    async fn gone(self) -> Lines {
        let (contender, held) = self.task.await;
        assert_eq!(held.unwrap_err(), AcquireError::Cancelled);
        contender.lines()
    }
}

/// Waits until nobody has sent anything for a while.
async fn quiet(waits: &[Waiting]) {
    let sent = || waits.iter().map(|waiting| waiting.trace.borrow().len()).sum::<usize>();
    let mut before = None;
    while before != Some(sent()) {
        before = Some(sent());
        reactor::sleep(SETTLE).await;
    }
}

fn written(sent: &Sent, lock: &str) -> String {
    let below = sent.path.replace(&format!("{lock}/"), "").replace(lock, ".");
    format!("{} {}", sent.kind.name(), short(&below))
}

/// Queue numbers without their zeros; identifiers, which differ each time, as `<id>`.
fn short(path: &str) -> String {
    let uuid = regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let hex = regex::Regex::new("[0-9a-f]{32}").unwrap();
    let number = regex::Regex::new("0*([0-9]+)").unwrap();
    let named = hex.replace_all(&uuid.replace_all(path, "<id>"), "<id>").into_owned();
    let ten_digits = regex::Regex::new("[0-9]{10}").unwrap();
    ten_digits
        .replace_all(&named, |found: &regex::Captures<'_>| number.replace(&found[0], "$1").into_owned())
        .into_owned()
}

/// Lines as a test writes them: one a line, without indentation.
pub fn lines(text: &str) -> Lines {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
