//! The scenarios that every lock must survive. Each returns a list of failures.

use std::time::Duration;

use futures_util::future::{join, join3};
use zklockbench_core::catalog::Mode;
use zklockbench_locks::{AcquireError, Held};
use zklockbench_zk::{Failure, runtime};

use super::expected;
use crate::support::contender::{Contender, SETTLE, Waiting, settled};
use crate::support::ensemble::shared;
use crate::support::oracle::Oracle;
use crate::support::proxy::{Fate, Proxy, Request};
use crate::support::sessions::{Scene, scene};
use crate::support::ways::Way;

/// Time after which a contender counts as stuck.
const BOUND: Duration = Duration::from_secs(120);
/// Time limit until an ended session's nodes are gone from every server.
const NODES_GO_WITHIN: Duration = Duration::from_secs(60);
/// Poll interval, long enough for all contenders to settle between two polls.
const POLL: Duration = Duration::from_millis(400);
const STAY: Duration = Duration::from_millis(40);
/// Acquire timeout of an attempt that must fail.
const SHORT: Duration = Duration::from_millis(100);

/// A request that is lost, or whose reply is lost.
#[derive(Debug, Clone, Copy)]
pub struct Strike {
    fate: Fate,
    kind: i32,
    /// Position among the requests of its kind, counted from 1.
    n: usize,
    in_release: bool,
}

/// Situation of the contender whose connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Story {
    /// No other contender exists.
    Alone,
    /// The contender requests this mode, with one writer ahead of it and another behind it.
    Waits(Mode),
}

/// Outcome of a scenario.
#[derive(Debug, Default)]
pub struct Told {
    /// Requests of the contender whose connection may break.
    pub requests: Vec<Request>,
    /// Number of these requests that belong to its acquire.
    of_acquire: usize,
    acquired: Option<Result<(), AcquireError>>,
    released: Option<Result<(), Failure>>,
    has_struck: bool,
    /// Outcomes that no card allows.
    pub complaints: Vec<String>,
}

impl Strike {
    /// One strike for each request of an undisturbed scenario, up to `most` for each kind.
    pub fn each(told: &Told, fate: Fate, most: impl Fn(&str) -> usize) -> Vec<Self> {
        let strikes = told.requests.iter().enumerate().map(|(at, request)| {
            let alike = told.requests[..=at].iter().filter(|other| other.kind == request.kind);
            Self { fate, kind: request.kind, n: alike.count(), in_release: at >= told.of_acquire }
        });
        strikes.filter(|strike| strike.n <= most(strike.kind())).collect()
    }

    fn kind(&self) -> &'static str {
        match self.kind {
            1 | 15 | 19 => "create",
            2 => "delete",
            3 => "exists",
            4 => "get_data",
            8 | 12 => "get_children",
            9 => "sync",
            14 if self.in_release => "delete",
            14 => "create",
            17 => "check_watches",
            18 => "remove_watches",
            other => panic!("unexpected request of kind {other}"),
        }
    }
}

impl Told {
    /// Returns all failures, including an outcome that differs from the card.
    pub fn judged(self, of: Way, strike: Strike, story: Story) -> Vec<String> {
        let mut complaints = self.complaints;
        if !self.has_struck {
            complaints.push("the request was never sent".into());
        }
        let is_lost = |failure: &Failure| *failure == Failure::ConnectionLoss;
        let survives = if strike.in_release {
            expected::releases(of, strike.fate)
        } else {
            expected::survives(of, strike.kind(), strike.fate)
        };
        let as_expected = match (&self.acquired, &self.released) {
            (Some(Ok(())), Some(Ok(()))) => survives,
            (Some(Ok(())), Some(Err(failure))) => strike.in_release && !survives && is_lost(failure),
            (Some(Err(AcquireError::Failed(failure))), None) => {
                !strike.in_release && !survives && is_lost(failure)
            }
            _ => false,
        };
        if !as_expected {
            complaints.push(format!("acquire {:?}, release {:?}", self.acquired, self.released));
        }
        let what = format!(
            "{}, {story:?}, {:?} of {} {}{}",
            of.label(),
            strike.fate,
            strike.kind(),
            strike.n,
            if strike.in_release { " in the release" } else { "" }
        );
        complaints.into_iter().map(|complaint| format!("{what}: {complaint}")).collect()
    }
}

/// Returns whether two simultaneous holders are a fault rather than behaviour stated on the card.
fn excludes(of: Way) -> bool {
    of.entry.card.guarantees.exclusive
}

/// Returns whether a waiter checks at intervals instead of being notified.
fn polls(of: Way) -> bool {
    of.entry.card.params.iter().any(|param| param.name == "poll_interval")
}

/// A contender with a unique number.
async fn contender(connect: &str, of: Way, number: usize, scene: &Scene) -> Contender {
    Contender::numbered(connect, (of.name(), number), &of.params(POLL), scene).await
}

async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> Result<T, String> {
    runtime::timeout(BOUND, work).await.ok_or_else(|| format!("stuck: {what}"))
}

/// Like [`tell`], repeated until the request to lose was sent. The number of polls varies, and a scenario without
/// a loss proves nothing.
pub async fn tell_struck(of: Way, story: Story, strike: Strike) -> Told {
    for _ in 0..5 {
        let told = tell(of, story, Some(strike)).await;
        if told.has_struck || !told.complaints.is_empty() {
            return told;
        }
    }
    tell(of, story, Some(strike)).await
}

/// Plays a scenario in which a contender acquires and releases. Its connection breaks at the request of `strike`, if
/// any.
pub async fn tell(of: Way, story: Story, strike: Option<Strike>) -> Told {
    let mut told = Told::default();
    let ended = match story {
        Story::Alone => alone(of, strike, &mut told).await,
        Story::Waits(mode) => contended(of, mode, strike, &mut told).await,
    };
    told.complaints.extend(ended.err());
    told
}

fn proxy_with(strike: Option<Strike>) -> Proxy {
    let proxy = Proxy::before(shared());
    if let Some(strike) = strike {
        proxy.strike(strike.fate, strike.kind, strike.n);
    }
    proxy
}

async fn alone(of: Way, strike: Option<Strike>, told: &mut Told) -> Result<(), String> {
    let scene = scene(shared()).await;
    let proxy = proxy_with(strike);
    let mut one = contender(&proxy.connect, of, 0, &scene).await;
    let held = bounded("acquire", one.acquire(Mode::Write)).await?;
    told.of_acquire = proxy.requests().len();
    if held.is_ok() && excludes(of) {
        let mut other = contender(shared(), of, 1, &scene).await;
        let let_in = bounded("an acquire with a timeout", other.acquire_within(SHORT, Mode::Write)).await?;
        if let_in.is_ok() {
            told.complaints.push("another contender entered while the holder was inside".into());
        }
        other.die().await;
    }
    end(one, held, told).await?;
    (told.requests, told.has_struck) = (proxy.requests(), proxy.has_struck());
    serves_another(of, &scene).await
}

async fn end(mut one: Contender, held: Result<Held, AcquireError>, told: &mut Told) -> Result<(), String> {
    told.acquired = Some(held.as_ref().map(drop).map_err(Clone::clone));
    if let Ok(held) = held {
        told.released = Some(bounded("release", one.release(held)).await?);
    }
    bounded("close", one.die()).await
}

async fn contended(of: Way, mode: Mode, strike: Option<Strike>, told: &mut Told) -> Result<(), String> {
    let scene = scene(shared()).await;
    let mut holder = contender(shared(), of, 0, &scene).await;
    let held = bounded("the holder", holder.acquire(Mode::Write)).await?.unwrap();
    let proxy = proxy_with(strike);
    let waiter = Waiting::start(contender(&proxy.connect, of, 1, &scene).await, mode);
    settled([&waiter]).await;
    let behind = Waiting::start(contender(shared(), of, 2, &scene).await, Mode::Write);
    settled([&waiter, &behind]).await;
    if polls(of) {
        // The first check finds the holder still inside, so there is certainly a second check.
        runtime::sleep(POLL).await;
    }
    // A failed waiter ends its session while the holder is still inside.
    let mut waiter = Some(waiter);
    if let Some(over) = waiter.take_if(|waiter| waiter.is_over()) {
        let (one, result) = over.over().await;
        if result.is_ok() && excludes(of) {
            told.complaints.push("the waiter entered while the holder was inside".into());
        }
        end(one, result, told).await?;
        runtime::sleep(SETTLE).await;
    }
    if behind.is_over() && excludes(of) {
        told.complaints.push("the contender behind entered while the holder was inside".into());
    }
    bounded("the holder's release", holder.release(held)).await?.unwrap();
    // The two contenders may enter in either order.
    let inside = Oracle::of(1);
    let of_waiter = async {
        let Some(waiter) = waiter else { return Ok(()) };
        let (one, result) = bounded("the waiter", waiter.over()).await?;
        told.of_acquire = proxy.requests().len();
        if result.is_ok() {
            stay(&inside).await;
        }
        end(one, result, told).await
    };
    let (of_waiter, of_behind) = join(of_waiter, visit(&inside, behind)).await;
    of_waiter.and(of_behind)?;
    (told.requests, told.has_struck) = (proxy.requests(), proxy.has_struck());
    if inside.violations.get() > 0 && excludes(of) {
        told.complaints.push("two contenders were inside".into());
    }
    holder.die().await;
    is_empty(&scene).await
}

async fn stay(inside: &Oracle) {
    inside.enter(Mode::Write);
    runtime::sleep(STAY).await;
    inside.exit(Mode::Write);
}

/// Lets an undisturbed waiter enter, stay, release and leave.
async fn visit(inside: &Oracle, waiting: Waiting) -> Result<(), String> {
    let (mut visitor, held) = bounded("the waiter", waiting.over()).await?;
    let held = held.map_err(|why| format!("the waiter: {why}"))?;
    stay(inside).await;
    bounded("its release", visitor.release(held)).await?.map_err(|why| format!("its release: {why}"))?;
    visitor.die().await;
    Ok(())
}

/// Checks that a newcomer is served and that no node is left afterwards.
async fn serves_another(of: Way, scene: &Scene) -> Result<(), String> {
    let mut another = contender(shared(), of, 9, scene).await;
    let held = bounded("a newcomer", another.acquire(Mode::Write)).await?;
    let held = held.map_err(|why| format!("a newcomer was not served: {why}"))?;
    another.release(held).await.map_err(|why| format!("the newcomer's release: {why}"))?;
    another.die().await;
    is_empty(scene).await
}

/// Checks that no node is left once all sessions have ended.
async fn is_empty(scene: &Scene) -> Result<(), String> {
    let empty = async {
        while scene.nodes().await > 0 {
            runtime::sleep(Duration::from_millis(20)).await;
        }
    };
    runtime::timeout(NODES_GO_WITHIN, empty).await.ok_or_else(|| "a node is left".to_owned())
}

/// Returns the failures, prefixed with the lock's name.
fn complaints(of: Way, ended: Result<Vec<String>, String>) -> Vec<String> {
    let all = ended.unwrap_or_else(|complaint| vec![complaint]);
    all.into_iter().map(|complaint| format!("{}: {complaint}", of.label())).collect()
}

/// Ends a holder's session. The waiters must be admitted one by one, whatever the former holder does.
pub async fn holders_session_ends(of: Way) -> Vec<String> {
    let story = async {
        let scene = scene(shared()).await;
        let proxy = Proxy::before(shared());
        let mut former = contender(&proxy.connect, of, 0, &scene).await;
        let held = bounded("the holder", former.acquire(Mode::Write)).await?.unwrap();
        let next = contender(shared(), of, 1, &scene).await.queue_up().await;
        let behind = contender(shared(), of, 2, &scene).await.queue_up().await;
        proxy.end_session();
        let inside = Oracle::of(1);
        let release_too_late = bounded("a late release", former.release(held));
        let (too_late, one, other) =
            join3(release_too_late, visit(&inside, next), visit(&inside, behind)).await;
        let _ = too_late?;
        one.and(other)?;
        former.die().await;
        is_empty(&scene).await?;
        let is_crowded = inside.violations.get() > 0 && excludes(of);
        Ok(if is_crowded { vec!["two contenders were inside".to_owned()] } else { Vec::new() })
    };
    complaints(of, story.await)
}
