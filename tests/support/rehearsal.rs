//! Four scripts that every lock runs, and the requests that its contenders send in them.
//!
//! A request is written as its kind and its path below the lock: `create n-`, `get_children .`,
//! `get_data_watch n-0`. Queue numbers are shortened, identifiers are written as `<id>`.

use std::time::{Duration, Instant};

use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::{AcquireError, Held};
use zklockbench_zk::{Sent, reactor};

use crate::support::contender::{Contender, LONG, SETTLE, Waiting, settled};
use crate::support::sessions::{Scene, on_scene, scene};

/// Acquire timeout that is too short.
const SHORT: Duration = Duration::from_millis(200);

/// Requests of one contender, one per line.
pub type Lines = Vec<String>;

/// A lock as a scenario names it, with its parameters.
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

    /// Starts a contender for each of these modes, in order, each after the earlier ones have settled.
    async fn line_up(&self, scene: &Scene, modes: &[Mode]) -> Vec<Waiting> {
        let mut waits = Vec::new();
        for mode in modes {
            waits.push(Waiting::start(self.contender(scene).await, *mode));
            settled(&waits).await;
        }
        waits
    }

    /// One contender acquires and releases without others.
    pub fn alone(&self) -> Lines {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            let held = one.acquire(Mode::Write).await.unwrap();
            one.release(held).await.unwrap();
            sent_by(&one, &scene)
        })
    }

    /// Like [`Subject::alone`], with the lock's directory and its parent missing; the path above both is
    /// written as `top`.
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

    /// One contender acquires and releases this many times with the same lock object.
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

    /// Returns whether it is admitted on a path where a lock of another kind is held.
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

    /// One contender acquires `depth` times before it releases as often. Another queues up meanwhile, and
    /// enters only after the last release. Returns the first contender's requests.
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

    /// One contender holds until it is asked to release, and another waits long enough to ask. Returns both
    /// their requests.
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

    /// One contender holds while a foreign client overwrites its node's data. Returns whether it was asked to
    /// release, and its requests.
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

    /// Result of a second acquire by an object that already holds, and the requests.
    pub fn twice(&self) -> (Result<Held, AcquireError>, Lines) {
        self.twice_as(Mode::Write)
    }

    /// Like [`Subject::twice`], in this mode.
    pub fn twice_as(&self, mode: Mode) -> (Result<Held, AcquireError>, Lines) {
        on_scene(async |scene| {
            let mut one = self.contender(&scene).await;
            one.acquire(mode).await.unwrap();
            one.trace.borrow_mut().clear();
            let second = one.acquire_within(SHORT, mode).await;
            (second, sent_by(&one, &scene))
        })
    }

    /// One contender holds and three queue up behind it; each releases once the next is known to wait again.
    /// Returns their requests in the order of arrival.
    pub fn queue(&self) -> [Lines; 4] {
        self.queue_of([Mode::Write; 4])
    }

    /// Like [`Subject::queue`], in these modes. The first contenders that may be inside together are; each
    /// release waits until all have settled.
    pub fn queue_of<const N: usize>(&self, modes: [Mode; N]) -> [Lines; N] {
        self.queue_served(modes, std::array::from_fn(|position| position))
    }

    /// Like [`Subject::queue_of`], but contenders release in this order of their positions. Each must have
    /// entered by then.
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

    /// A holder of the write side also takes the read side, while another contender waits to write. It
    /// releases the write side and then the read side; the other enters only after that.
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

    /// One contender holds and the others wait; each holder releases once all have settled. Returns the
    /// requests in the order in which the contenders were served.
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

    /// One contender holds; another times out. Returns the latter's requests, and the number of nodes then.
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

    /// One contender holds; another gives up before its long timeout. Returns after how long.
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

    /// One contender holds and three wait; the second waiter leaves. Returns how many are inside then.
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

    /// One contender holds and three wait; the second waiter leaves, then the others are served in order.
    /// Returns the requests of the holder and of the first, second and third waiter.
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

/// Requests of the two contenders of [`Subject::downgrade`].
pub struct Downgrade {
    /// Requests of the contender that wrote first and then read.
    pub owner: Lines,
    /// Requests of the contender that waited to write.
    pub writer: Lines,
}

/// Requests of a contender so far.
pub fn sent_by(contender: &Contender, scene: &Scene) -> Lines {
    contender.trace.borrow().iter().map(|sent| written(sent, &scene.lock)).collect()
}

fn written(sent: &Sent, lock: &str) -> String {
    let below = sent.path.replace(&format!("{lock}/"), "").replace(lock, ".");
    format!("{} {}", sent.kind.name(), short(&below))
}

/// Shortens queue numbers, and replaces identifiers, which differ each time, by `<id>` and `<session>`.
fn short(path: &str) -> String {
    shortened(path, |id| if id.starts_with("x-") { "x-<session>-".into() } else { "<id>".into() })
}

/// Shortens queue numbers in a path, and replaces each identifier by its name: a UUID, 32 hex digits, or a
/// session number in a name of WriteLock, `x-<number>-`.
pub fn shortened(path: &str, name: impl Fn(&str) -> String) -> String {
    let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|x--?[0-9]+-").unwrap();
    let number = regex::Regex::new("0{0,9}([0-9]+)").unwrap();
    let ten_digits = regex::Regex::new("[0-9]{10}").unwrap();
    let named = id.replace_all(path, |found: &regex::Captures<'_>| name(&found[0]));
    let shorter = |found: &regex::Captures<'_>| number.replace(&found[0], "$1").into_owned();
    ten_digits.replace_all(&named, shorter).into_owned()
}

/// Parses lines as tests write them: one per line, ignoring indentation.
pub fn lines(text: &str) -> Lines {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
