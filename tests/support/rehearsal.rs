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
        let config = LockConfig { path: scene.lock.clone(), params: self.params.clone(), contender: 0 };
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

    /// As [`Subject::alone`], where the lock's directory is missing, and the one above it; what is above both
    /// is written as `top`.
    pub fn alone_below_nothing(&self) -> Lines {
        reactor::block_on(async {
            let mut scene = scene(crate::ensemble::shared()).await;
            let top = std::mem::take(&mut scene.lock);
            scene.lock = format!("{top}/above/lock");
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            one.release(held).await;
            let top = short(&top);
            one.lines().into_iter().map(|line| line.replace(&top, "top")).collect()
        })
    }

    /// One contender acquires and releases so many times, by the same lock object.
    pub fn again(&self, times: usize) -> Vec<Lines> {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut one = self.contender(&scene).await;
            let mut turns = Vec::new();
            for _ in 0..times {
                let held = one.acquire(Mode::Write).await.unwrap();
                one.release(held).await;
                turns.push(one.lines());
                one.trace.borrow_mut().clear();
            }
            turns
        })
    }

    /// Whether it gets in on the path where a lock of another kind is held.
    pub fn is_let_in_beside(&self, other: &Self) -> bool {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut holder = other.contender(&scene).await;
            holder.acquire(Mode::Write).await.unwrap();
            let mut one = self.contender(&scene).await;
            let ended = one.lock.acquire(&one.session, Mode::Write, &patience(Some(SHORT))).await;
            assert!(matches!(ended, Ok(_) | Err(AcquireError::TimedOut)), "{ended:?}");
            ended.is_ok()
        })
    }

    /// What a second acquire by an object that holds already ends with, and what it sent.
    pub fn twice(&self) -> (Result<Held, AcquireError>, Lines) {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut one = self.contender(&scene).await;
            one.acquire(Mode::Write).await.unwrap();
            one.trace.borrow_mut().clear();
            let second = one.lock.acquire(&one.session, Mode::Write, &patience(Some(SHORT))).await;
            (second, one.lines())
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
        self.queue_served(modes, std::array::from_fn(|position| position))
    }

    /// As [`Subject::queue_of`], but they release in that order of their positions. Whoever is named must be
    /// in by then.
    pub fn queue_served<const N: usize>(&self, modes: [Mode; N], order: [usize; N]) -> [Lines; N] {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut waits = Vec::new();
            for mode in modes {
                waits.push(Some(Waiting::start(self.contender(&scene).await, mode)));
                reactor::sleep(SETTLE).await;
            }
            let mut lines = [const { Lines::new() }; N];
            for position in order {
                lines[position] = waits[position].take().unwrap().serve().await;
                reactor::sleep(SETTLE).await;
            }
            lines
        })
    }

    /// One holds to write and another waits to write; the holder takes the read side as well, lets the write
    /// side go, and then the read side. Until that the other is not in.
    pub fn downgrade(&self) -> Downgrade {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut owner = self.contender(&scene).await;
            let write = owner.acquire(Mode::Write).await.unwrap();
            let waiting = Waiting::start(self.contender(&scene).await, Mode::Write);
            reactor::sleep(SETTLE).await;
            let read = owner.acquire(Mode::Read).await.unwrap();
            owner.release(write).await;
            reactor::sleep(SETTLE).await;
            assert!(!waiting.task.is_finished(), "{}: a writer got in beside the reader", self.name);
            owner.release(read).await;
            Downgrade { owner: owner.lines(), writer: waiting.serve().await }
        })
    }

    /// One holds and the others wait; then whoever holds releases when all is quiet. The requests of the
    /// contenders in the order in which they were served.
    pub fn race<const N: usize>(&self) -> [Lines; N] {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut waits = Vec::new();
            for _ in 0..N {
                waits.push(Waiting::start(self.contender(&scene).await, Mode::Write));
                reactor::sleep(SETTLE).await;
            }
            let mut lines = Vec::new();
            while !waits.is_empty() {
                let inside: Vec<usize> =
                    (0..waits.len()).filter(|at| waits[*at].task.is_finished()).collect();
                assert_eq!(inside.len(), 1, "{}: {inside:?}", self.name);
                lines.push(waits.remove(inside[0]).serve().await);
                reactor::sleep(SETTLE).await;
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

    /// One holds and three wait; the second of them leaves. How many are inside then.
    pub fn inside_after_the_middle_has_left(&self) -> usize {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let mut waits = Vec::new();
            for _ in 0..4 {
                waits.push(Waiting::start(self.contender(&scene).await, Mode::Write));
                reactor::sleep(SETTLE).await;
            }
            waits.remove(2).leave().await;
            reactor::sleep(SETTLE).await;
            waits.iter().filter(|waiting| waiting.task.is_finished()).count()
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

/// What the two of [`Subject::downgrade`] sent.
pub struct Downgrade {
    /// Who wrote first and read then.
    pub owner: Lines,
    /// Who waited to write.
    pub writer: Lines,
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

    /// Makes it leave, and waits until it has.
    async fn leave(self) -> Lines {
        self.cancel.cancel();
        self.gone().await
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

/// Queue numbers without their zeros; identifiers, which differ each time, as `<id>` and `<session>`.
fn short(path: &str) -> String {
    let uuid = regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let hex = regex::Regex::new("[0-9a-f]{32}").unwrap();
    let session = regex::Regex::new("x--?[0-9]+-").unwrap();
    let number = regex::Regex::new("0*([0-9]+)").unwrap();
    let named = hex.replace_all(&uuid.replace_all(path, "<id>"), "<id>").into_owned();
    let named = session.replace_all(&named, "x-<session>-").into_owned();
    let ten_digits = regex::Regex::new("[0-9]{10}").unwrap();
    ten_digits
        .replace_all(&named, |found: &regex::Captures<'_>| number.replace(&found[0], "$1").into_owned())
        .into_owned()
}

/// Lines as a test writes them: one a line, without indentation.
pub fn lines(text: &str) -> Lines {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
