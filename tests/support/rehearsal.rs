//! Scripts for contenders of a lock on the shared servers, and the requests that the contenders send.
//!
//! A request is shown by its kind and its path below the lock, such as `create n-`, `get_children .`, or
//! `get_data_watch n-0`. Queue numbers lose their leading zeros, and identifiers become `<id>`.

use std::pin::pin;
use std::time::Duration;

use zklockbench_core::catalog::Mode::{Read, Write};
use zklockbench_core::catalog::{Mode, Params};
use zklockbench_locks::{AcquireError, HoldOver};
use zklockbench_scenario::StrategyChoice;
use zklockbench_zk::{Sent, runtime};

use crate::support::contender::{Contender, LONG, SETTLE, Waiting, settled};
use crate::support::ensemble::shared;
use crate::support::sessions::{Scene, scene};
use crate::support::trials;

/// Acquire timeout that expires before the holder releases.
const SHORT: Duration = Duration::from_millis(200);

/// Requests of one contender, one per line.
pub type Lines = Vec<String>;

#[derive(Debug, Clone, Copy)]
pub enum Script {
    /// One contender acquires and releases `n` times with the same lock object.
    Again(usize),
    /// Like [`ALONE`], but the lock's directory and its parent are missing. The path above the parent is shown as
    /// `top`.
    BelowNothing,
    /// Contenders arrive in these modes, and release in this order of positions. Before each step, all other
    /// contenders must settle.
    Served(&'static [Mode], &'static [usize]),
    /// `n` contenders arrive. The current holder releases once all other contenders have settled.
    Race(usize),
    /// One contender holds, and another contender's acquire times out.
    TimedOut,
    /// One contender holds and three wait. The second waiter leaves, and the other waiters are served in order.
    MiddleLeaves,
    /// One contender acquires three times, then releases three times. A waiter that arrived before the
    /// releases enters only after the last release.
    Nested,
    /// A contender that already holds the lock in this mode acquires it again with the same lock object.
    Twice(Mode),
    /// A writer also acquires the read side, then releases the write side, and then the read side. A waiting writer
    /// enters only after both releases.
    Downgrade,
    /// One contender holds until a waiter requests revocation.
    Revoked,
    /// One contender holds while a foreign client overwrites the data of its node.
    Overwritten(&'static str),
}

pub const ALONE: Script = Script::Again(1);
pub const QUEUE: Script = Script::Served(&[Write; 4], &[0, 1, 2, 3]);

/// A lock with the parameters from a scenario.
pub struct Subject {
    pub label: String,
    name: String,
    params: Params,
}

/// Parses a strategy of a scenario, in TOML.
pub fn subject(strategy: &str) -> Subject {
    let StrategyChoice { label, name, params, .. } = trials::strategy(strategy);
    Subject { label, name, params }
}

impl Subject {
    async fn contender(&self, scene: &Scene) -> Contender {
        Contender::with(&self.name, &self.params, scene).await
    }

    /// A contender that has acquired and released once.
    async fn served_once(&self, scene: &Scene) -> Contender {
        let mut one = self.contender(scene).await;
        one.cycle().await;
        one
    }

    /// Starts one contender per mode, each after the earlier contenders have settled.
    async fn line_up(&self, scene: &Scene, modes: &[Mode]) -> Vec<Waiting> {
        let mut waits = Vec::new();
        for mode in modes {
            waits.push(Waiting::start(self.contender(scene).await, *mode));
            settled(&waits).await;
        }
        waits
    }

    /// Plays a script. Returns the requests of each contender or, for [`Script::Again`], the requests of each round.
    pub async fn play(&self, script: Script) -> Vec<Lines> {
        let scene = scene(shared()).await;
        match script {
            Script::Again(times) => self.again(&scene, times).await,
            Script::BelowNothing => self.below_nothing(scene).await,
            Script::Served(modes, order) => self.served(&scene, modes, order).await,
            Script::Race(contenders) => self.race(&scene, contenders).await,
            Script::TimedOut => self.timed_out(&scene).await,
            Script::MiddleLeaves => self.middle_leaves(&scene).await,
            Script::Nested => self.nested(&scene).await,
            Script::Twice(mode) => self.twice(&scene, mode).await,
            Script::Downgrade => self.downgrade(&scene).await,
            Script::Revoked => self.revoked(&scene).await,
            Script::Overwritten(data) => self.overwritten(&scene, data).await,
        }
    }

    async fn again(&self, scene: &Scene, times: usize) -> Vec<Lines> {
        let mut one = self.contender(scene).await;
        let mut rounds = Vec::new();
        for _ in 0..times {
            one.cycle().await;
            rounds.push(sent_by(&one, scene));
            one.trace.borrow_mut().clear();
        }
        rounds
    }

    async fn below_nothing(&self, mut scene: Scene) -> Vec<Lines> {
        let top = std::mem::take(&mut scene.lock);
        scene.lock = format!("{top}/above/lock");
        let one = self.served_once(&scene).await;
        let top = short(&top);
        vec![sent_by(&one, &scene).into_iter().map(|line| line.replace(&top, "top")).collect()]
    }

    async fn served(&self, scene: &Scene, modes: &[Mode], order: &[usize]) -> Vec<Lines> {
        let waits = self.line_up(scene, modes).await;
        let mut waits: Vec<Option<Waiting>> = waits.into_iter().map(Some).collect();
        let mut lines = vec![Lines::new(); modes.len()];
        for position in order {
            let served = waits[*position].take().unwrap().serve().await;
            lines[*position] = sent_by(&served, scene);
            settled(waits.iter().flatten()).await;
        }
        lines
    }

    async fn race(&self, scene: &Scene, contenders: usize) -> Vec<Lines> {
        let mut waits = self.line_up(scene, &vec![Write; contenders]).await;
        let mut lines = Vec::new();
        while !waits.is_empty() {
            let inside: Vec<usize> = (0..waits.len()).filter(|at| waits[*at].is_over()).collect();
            assert_eq!(inside.len(), 1, "{}: {inside:?}", self.label);
            lines.push(sent_by(&waits.remove(inside[0]).serve().await, scene));
            settled(&waits).await;
        }
        lines
    }

    async fn timed_out(&self, scene: &Scene) -> Vec<Lines> {
        let (mut holder, held) = self.contender(scene).await.enter().await;
        let late = self.contender(scene).await.queue_up().await;
        let at_once = if late.is_over() { " at once" } else { "" };
        late.clock.jump(LONG);
        let (late, ended) = late.over().await;
        let mut sent = sent_by(&late, scene);
        sent.push(format!("{}{at_once}, nodes left: {}", ended.unwrap_err(), scene.nodes().await));
        holder.release(held).await.unwrap();
        vec![sent]
    }

    async fn middle_leaves(&self, scene: &Scene) -> Vec<Lines> {
        let mut waits = self.line_up(scene, &[Write; 4]).await;
        waits[2].cancel.cancel();
        settled(&waits).await;
        let mut lines = Vec::new();
        while !waits.is_empty() {
            let waiting = waits.remove(0);
            let ended = if lines.len() == 2 { waiting.gone().await } else { waiting.serve().await };
            lines.push(sent_by(&ended, scene));
            settled(&waits).await;
        }
        lines
    }

    /// Returns the number of holders after the second of three waiters has left the queue.
    pub async fn inside_after_the_middle_has_left(&self) -> usize {
        let scene = scene(shared()).await;
        let mut waits = self.line_up(&scene, &[Write; 4]).await;
        let middle = waits.remove(2);
        middle.cancel.cancel();
        middle.gone().await;
        settled(&waits).await;
        waits.iter().filter(|waiting| waiting.is_over()).count()
    }

    /// Returns whether a contender can acquire the lock while another kind of lock is held on the same path.
    pub async fn is_let_in_beside(&self, other: &Self) -> bool {
        let scene = scene(shared()).await;
        let _holder = other.contender(&scene).await.enter().await;
        let waiting = self.contender(&scene).await.queue_up().await;
        waiting.cancel.cancel();
        let (_, ended) = waiting.over().await;
        assert!(matches!(ended, Ok(_) | Err(AcquireError::Cancelled)), "{ended:?}");
        ended.is_ok()
    }

    async fn nested(&self, scene: &Scene) -> Vec<Lines> {
        let mut owner = self.contender(scene).await;
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(owner.acquire(Write).await.unwrap());
        }
        let waiting = self.contender(scene).await.queue_up().await;
        while let Some(inner) = held.pop() {
            assert!(!waiting.is_over(), "{}: entered while another contender held the lock", self.label);
            owner.release(inner).await.unwrap();
            settled([&waiting]).await;
        }
        waiting.serve().await;
        vec![sent_by(&owner, scene)]
    }

    async fn twice(&self, scene: &Scene, mode: Mode) -> Vec<Lines> {
        let mut one = self.contender(scene).await;
        one.acquire(mode).await.unwrap();
        one.trace.borrow_mut().clear();
        let second = one.acquire_within(SHORT, mode).await;
        let mut sent = sent_by(&one, scene);
        sent.push(second.unwrap_err().to_string());
        vec![sent]
    }

    async fn downgrade(&self, scene: &Scene) -> Vec<Lines> {
        let (mut owner, write) = self.contender(scene).await.enter().await;
        let waiting = self.contender(scene).await.queue_up().await;
        let read = owner.acquire(Read).await.unwrap();
        owner.release(write).await.unwrap();
        runtime::sleep(SETTLE).await;
        assert!(!waiting.is_over(), "{}: a writer entered while a reader held the lock", self.label);
        owner.release(read).await.unwrap();
        vec![sent_by(&owner, scene), sent_by(&waiting.serve().await, scene)]
    }

    async fn revoked(&self, scene: &Scene) -> Vec<Lines> {
        let (mut holder, held) = self.contender(scene).await.enter().await;
        let waiting = self.contender(scene).await.queue_up().await;
        assert!(holder.hold(LONG).await, "{}: no waiter requested revocation", self.label);
        settled([&waiting]).await;
        assert!(!waiting.is_over(), "{}: entered while another contender held the lock", self.label);
        holder.release(held).await.unwrap();
        vec![sent_by(&holder, scene), sent_by(&waiting.serve().await, scene)]
    }

    async fn overwritten(&self, scene: &Scene, data: &str) -> Vec<Lines> {
        let (mut holder, held) = self.contender(scene).await.enter().await;
        let path = held.node.clone().unwrap().path;
        scene.session().await.set_data(&path, data.as_bytes()).await.unwrap();
        // The hold ends once the change has been reported, and a read that follows it has been answered.
        let session = holder.session.clone();
        let end = async {
            for _ in 0..2 {
                while !session.catch_up_beside().await {}
                runtime::sleep(SETTLE).await;
            }
        };
        let asked = holder.lock.hold(&holder.session, pin!(end)).await == HoldOver::Asked;
        holder.release(held).await.unwrap();
        let mut sent = sent_by(&holder, scene);
        sent.push(if asked { "asked to release" } else { "not asked to release" }.to_owned());
        vec![sent]
    }
}

/// Requests that a contender has sent.
pub fn sent_by(contender: &Contender, scene: &Scene) -> Lines {
    contender.trace.borrow().iter().map(|sent| written(sent, &scene.lock)).collect()
}

fn written(sent: &Sent, lock: &str) -> String {
    let below = sent.path.replace(&format!("{lock}/"), "").replace(lock, ".");
    format!("{} {}", sent.kind.name(), short(&below))
}

/// Shortens queue numbers, and replaces identifiers with `<id>` and `<session>`.
fn short(path: &str) -> String {
    shortened(path, |id| if id.starts_with("x-") { "x-<session>-".into() } else { "<id>".into() })
}

/// Shortens queue numbers in a path, and replaces each identifier with `name`. An identifier is a UUID, 32 hex
/// digits, or WriteLock's `x-<session>-`.
pub fn shortened(path: &str, name: impl Fn(&str) -> String) -> String {
    let id = regex::Regex::new("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|x--?[0-9]+-").unwrap();
    let number = regex::Regex::new("0{0,9}([0-9]+)").unwrap();
    let ten_digits = regex::Regex::new("[0-9]{10}").unwrap();
    let named = id.replace_all(path, |found: &regex::Captures<'_>| name(&found[0]));
    let shorter = |found: &regex::Captures<'_>| number.replace(&found[0], "$1").into_owned();
    ten_digits.replace_all(&named, shorter).into_owned()
}

/// Splits indented text into lines, and omits empty lines.
pub fn lines(text: &str) -> Lines {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
