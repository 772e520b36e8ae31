//! Four stories that every lock is put through, and the requests that its contenders send in them.
//!
//! A request is written as its kind and what it names below the lock: `create n-`, `get_children .`,
//! `get_data_watch n-0`. Queue numbers are written short, identifiers as `<id>`.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::{AcquireError, Held};
use zklockbench_zk::{Sent, reactor};

use crate::support::contender::{Contender, LONG, SETTLE, Waiting, settled};
use crate::support::sessions::{Scene, on_scene, scene};

/// A wait that is too short.
const SHORT: Duration = Duration::from_millis(200);

/// What one contender sent, line by line.
pub type Lines = Vec<String>;

/// A lock as a scenario names it, by one word or number for each parameter.
pub struct Subject {
    name: &'static str,
    params: Params,
}

pub fn subject(name: &'static str) -> Subject {
    Subject { name, params: Params::new() }
}

impl Subject {
    pub fn with(mut self, name: &str, value: ParamValue) -> Self {
        self.params.insert(name.to_owned(), value);
        self
    }

    pub fn word(self, name: &str, word: &str) -> Self {
        self.with(name, ParamValue::Word(word.to_owned()))
    }

    async fn contender(&self, scene: &Scene) -> Contender {
        Contender::with(self.name, &self.params, scene).await
    }

    /// A contender for each of these, in this order; the ones in front have come to rest before the next.
    async fn line_up(&self, scene: &Scene, modes: &[Mode]) -> Vec<Waiting> {
        let mut waits = Vec::new();
        for mode in modes {
            waits.push(Waiting::start(self.contender(scene).await, *mode));
            settled(&waits).await;
        }
        waits
    }

    /// One contender acquires and releases, with nobody else there.
    pub fn alone(&self) -> Lines {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            one.release(held).await.unwrap();
            sent_by(&one, &scene)
        })
    }

    /// As [`Subject::alone`], where the lock's directory is missing, and the one above it; what is above both
    /// is written as `top`.
    pub fn alone_below_nothing(&self) -> Lines {
        reactor::block_on(async {
            let mut scene = scene(crate::support::ensemble::shared()).await;
            let top = std::mem::take(&mut scene.lock);
            scene.lock = format!("{top}/above/lock");
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            one.release(held).await.unwrap();
            let top = short(&top);
            sent_by(&one, &scene).into_iter().map(|line| line.replace(&top, "top")).collect()
        })
    }

    /// One contender acquires and releases so many times, by the same lock object.
    pub fn again(&self, times: usize) -> Vec<Lines> {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            let mut turns = Vec::new();
            for _ in 0..times {
                let held = one.acquire(Mode::Write).await.unwrap();
                one.release(held).await.unwrap();
                turns.push(sent_by(&one, &scene));
                one.trace.borrow_mut().clear();
            }
            turns
        })
    }

    /// Whether it gets in on the path where a lock of another kind is held.
    pub fn is_let_in_beside(&self, other: &Self) -> bool {
        on_scene(async |scene| {
            let mut holder = other.contender(&scene).await;
            holder.acquire(Mode::Write).await.unwrap();
            let mut one = self.contender(&scene).await;
            let ended = one.acquire_within(SHORT, Mode::Write).await;
            assert!(matches!(ended, Ok(_) | Err(AcquireError::TimedOut)), "{ended:?}");
            ended.is_ok()
        })
    }

    /// One contender acquires so many times before it releases as many times; another queues up meanwhile, and
    /// is not in until the last of the releases. Returns what the first one sent.
    pub fn nested(&self, depth: usize) -> Lines {
        on_scene(async |scene| {
            let mut owner = self.contender(&scene).await;
            let mut held = Vec::new();
            for _ in 0..depth {
                held.push(owner.acquire(Mode::Write).await.unwrap());
            }
            let waiting = self.contender(&scene).await.queue_up().await;
            while let Some(inner) = held.pop() {
                assert!(!waiting.is_over(), "{}: in beside a holder", self.name);
                owner.release(inner).await.unwrap();
                settled([&waiting]).await;
            }
            waiting.serve().await;
            sent_by(&owner, &scene)
        })
    }

    /// One holds until it is asked to let go, and another waits long enough to ask it. What the two sent.
    pub fn revoked(&self) -> [Lines; 2] {
        on_scene(async |scene| {
            let mut holder = self.contender(&scene).await;
            let held = holder.acquire(Mode::Write).await.unwrap();
            let waiting = self.contender(&scene).await.queue_up().await;
            assert!(holder.hold(LONG).await, "{}: nobody asked", self.name);
            settled([&waiting]).await;
            assert!(!waiting.is_over(), "{}: in beside a holder", self.name);
            holder.release(held).await.unwrap();
            let waiter = waiting.serve().await;
            [sent_by(&holder, &scene), sent_by(&waiter, &scene)]
        })
    }

    /// One holds for a while; a stranger overwrites its node's data. Whether it was asked to let go, and what it
    /// sent.
    pub fn overwritten(&self, data: &[u8]) -> (bool, Lines) {
        on_scene(async |scene| {
            let mut holder = self.contender(&scene).await;
            let held = holder.acquire(Mode::Write).await.unwrap();
            let path = held.node.clone().unwrap().path;
            scene.session().await.set_data(&path, data).await.unwrap();
            let asked = holder.hold(Duration::from_secs(1)).await;
            holder.release(held).await.unwrap();
            (asked, sent_by(&holder, &scene))
        })
    }

    /// What a second acquire by an object that holds already ends with, and what it sent.
    pub fn twice(&self) -> (Result<Held, AcquireError>, Lines) {
        self.twice_as(Mode::Write)
    }

    /// As [`Subject::twice`], on that side.
    pub fn twice_as(&self, mode: Mode) -> (Result<Held, AcquireError>, Lines) {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            one.acquire(mode).await.unwrap();
            one.trace.borrow_mut().clear();
            let second = one.acquire_within(SHORT, mode).await;
            (second, sent_by(&one, &scene))
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
        on_scene(async |scene| {
            let mut waits: Vec<Option<Waiting>> =
                self.line_up(&scene, &modes).await.into_iter().map(Some).collect();
            let mut lines = [const { Lines::new() }; N];
            for position in order {
                let served = waits[position].take().unwrap().serve().await;
                lines[position] = sent_by(&served, &scene);
                settled(waits.iter().flatten()).await;
            }
            lines
        })
    }

    /// One holds to write and another waits to write; the holder takes the read side as well, lets the write
    /// side go, and then the read side. Until that the other is not in.
    pub fn downgrade(&self) -> Downgrade {
        on_scene(async |scene| {
            let mut owner = self.contender(&scene).await;
            let write = owner.acquire(Mode::Write).await.unwrap();
            let waiting = self.contender(&scene).await.queue_up().await;
            let read = owner.acquire(Mode::Read).await.unwrap();
            owner.release(write).await.unwrap();
            reactor::sleep(SETTLE).await;
            assert!(!waiting.is_over(), "{}: a writer got in beside the reader", self.name);
            owner.release(read).await.unwrap();
            Downgrade { owner: sent_by(&owner, &scene), writer: sent_by(&waiting.serve().await, &scene) }
        })
    }

    /// One holds and the others wait; then whoever holds releases when all is quiet. The requests of the
    /// contenders in the order in which they were served.
    pub fn race<const N: usize>(&self) -> [Lines; N] {
        on_scene(async |scene| {
            let mut waits = self.line_up(&scene, &[Mode::Write; N]).await;
            let mut lines = Vec::new();
            while !waits.is_empty() {
                let inside: Vec<usize> = (0..waits.len()).filter(|at| waits[*at].is_over()).collect();
                assert_eq!(inside.len(), 1, "{}: {inside:?}", self.name);
                lines.push(sent_by(&waits.remove(inside[0]).serve().await, &scene));
                settled(&waits).await;
            }
            lines.try_into().unwrap()
        })
    }

    /// One holds; another's patience ends. Returns what that one sent, and how many nodes were left then.
    pub fn timed_out(&self) -> (Lines, usize) {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            let mut other = self.contender(&scene).await;
            let ended = other.acquire_within(SHORT, Mode::Write).await;
            assert_eq!(ended.unwrap_err(), AcquireError::TimedOut, "{}", self.name);
            let nodes = scene.nodes().await;
            one.release(held).await.unwrap();
            (sent_by(&other, &scene), nodes)
        })
    }

    /// One holds; another has much patience and gives up all the same. After how long.
    pub fn gives_up_after(&self) -> Duration {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            one.acquire(Mode::Write).await.unwrap();
            let mut other = self.contender(&scene).await;
            let begun = Instant::now();
            assert_eq!(
                other.acquire(Mode::Write).await.unwrap_err(),
                AcquireError::TimedOut,
                "{}",
                self.name
            );
            begun.elapsed()
        })
    }

    /// One holds and three wait; the second of them leaves. How many are inside then.
    pub fn inside_after_the_middle_has_left(&self) -> usize {
        on_scene(async |scene| {
            let mut waits = self.line_up(&scene, &[Mode::Write; 4]).await;
            let middle = waits.remove(2);
            middle.cancel.cancel();
            middle.gone().await;
            settled(&waits).await;
            waits.iter().filter(|waiting| waiting.is_over()).count()
        })
    }

    /// One holds and three wait; the second of them leaves, then the others are served in turn. The requests
    /// of holder, first, second and third waiter.
    pub fn middle_leaves(&self) -> [Lines; 4] {
        on_scene(async |scene| {
            let mut waits = self.line_up(&scene, &[Mode::Write; 4]).await;
            waits[2].cancel.cancel();
            settled(&waits).await;
            let mut lines = Vec::new();
            while !waits.is_empty() {
                let waiting = waits.remove(0);
                let ended = if lines.len() == 2 { waiting.gone().await } else { waiting.serve().await };
                lines.push(sent_by(&ended, &scene));
                settled(&waits).await;
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

/// What a contender has sent.
pub fn sent_by(contender: &Contender, scene: &Scene) -> Lines {
    contender.trace.borrow().iter().map(|sent| written(sent, &scene.lock)).collect()
}

fn written(sent: &Sent, lock: &str) -> String {
    let below = sent.path.replace(&format!("{lock}/"), "").replace(lock, ".");
    format!("{} {}", sent.kind.name(), short(&below))
}

/// Queue numbers without their zeros; identifiers, which differ each time, as `<id>` and `<session>`.
fn short(path: &str) -> String {
    shortened(path, |id| if id.starts_with("x-") { "x-<session>-".into() } else { "<id>".into() })
}

/// A path with queue numbers without their zeros, and each identifier in it as it is to be named: a uuid, 32 digits, or a
/// session's number as WriteLock has it in its names, `x-<number>-`.
pub fn shortened(path: &str, name: impl Fn(&str) -> String) -> String {
    let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|x--?[0-9]+-").unwrap();
    let number = regex::Regex::new("0{0,9}([0-9]+)").unwrap();
    let ten_digits = regex::Regex::new("[0-9]{10}").unwrap();
    let named = id.replace_all(path, |found: &regex::Captures<'_>| name(&found[0]));
    let shorter = |found: &regex::Captures<'_>| number.replace(&found[0], "$1").into_owned();
    ten_digits.replace_all(&named, shorter).into_owned()
}

/// Lines as a test writes them: one a line, without indentation.
pub fn lines(text: &str) -> Lines {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
