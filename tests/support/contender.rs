//! Contenders outside a trial, and their waits.

use std::pin::pin;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use zklockbench_core::catalog::{Mode, ParamValue, Params};
use zklockbench_locks::{AcquireError, DeadlineClock, Held, HoldOver, LockConfig, Strategy, find};
use zklockbench_zk::{Failure, Session, SessionStates, runtime};

use crate::support::sessions::{Scene, Trace, patience};

/// Time without requests after which a contender counts as settled.
pub const SETTLE: Duration = Duration::from_millis(150);
/// Time limit for a server's answer, generous enough for a busy host.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for any wait in a test.
pub const LONG: Duration = Duration::from_secs(60);

/// Parameters whose values are words.
pub fn words(params: &[(&str, &str)]) -> Params {
    params.iter().map(|(name, word)| ((*name).to_owned(), ParamValue::Word((*word).to_owned()))).collect()
}

/// A lock object, its session, and the requests sent.
pub struct Contender {
    pub lock: Box<dyn Strategy>,
    pub session: Session,
    pub trace: Trace,
}

impl Contender {
    pub async fn of(name: &str, scene: &Scene) -> Self {
        Self::with(name, &Params::new(), scene).await
    }

    pub async fn with(name: &str, params: &Params, scene: &Scene) -> Self {
        Self::on((name, 0), params, scene, scene.traced().await)
    }

    /// A contender that holds the lock in write mode.
    pub async fn holding(name: &str, scene: &Scene) -> (Self, Held) {
        Self::of(name, scene).await.enter().await
    }

    /// Acquires in write mode.
    pub async fn enter(mut self) -> (Self, Held) {
        let held = self.acquire(Mode::Write).await.unwrap();
        (self, held)
    }

    /// Acquires and releases in write mode.
    pub async fn cycle(&mut self) {
        let held = self.acquire(Mode::Write).await.unwrap();
        self.release(held).await.unwrap();
    }

    /// Like [`Contender::of`], through another address of the same ensemble.
    pub async fn by(connect: &str, name: &str, scene: &Scene) -> Self {
        Self::by_with(connect, name, &Params::new(), scene).await
    }

    /// Like [`Contender::with`], through another address of the same ensemble.
    pub async fn by_with(connect: &str, name: &str, params: &Params, scene: &Scene) -> Self {
        Self::on((name, 0), params, scene, scene.traced_by(connect).await)
    }

    /// Like [`Contender::by_with`], with the contender's number.
    pub async fn numbered(
        connect: &str,
        (name, number): (&str, usize),
        params: &Params,
        scene: &Scene,
    ) -> Self {
        Self::on((name, number), params, scene, scene.traced_by(connect).await)
    }

    fn on(
        (name, contender): (&str, usize),
        params: &Params,
        scene: &Scene,
        (session, trace): (Session, Trace),
    ) -> Self {
        let entry = find(name).unwrap_or_else(|| panic!("no strategy {name}"));
        let config =
            LockConfig { path: scene.lock.clone(), params: params.clone(), contender, drivers: None };
        Self { lock: (entry.build)(&config), session, trace }
    }

    pub async fn acquire(&mut self, mode: Mode) -> Result<Held, AcquireError> {
        self.acquire_within(LONG, mode).await
    }

    pub async fn acquire_within(&mut self, limit: Duration, mode: Mode) -> Result<Held, AcquireError> {
        self.lock.acquire(&self.session, mode, &patience(Some(limit))).await
    }

    /// Holds until `limit` or until a release is requested. Returns whether a release was requested.
    pub async fn hold(&mut self, limit: Duration) -> bool {
        self.hold_on(limit).await == HoldOver::Asked
    }

    /// Holds until `limit` or until the lock ends the hold.
    pub async fn hold_on(&mut self, limit: Duration) -> HoldOver {
        self.lock.hold(&self.session, pin!(runtime::sleep(limit))).await
    }

    pub async fn release(&mut self, held: Held) -> Result<(), Failure> {
        self.lock.release(&self.session, held).await
    }

    /// Starts an acquire in write mode, and waits until the contender has settled.
    pub async fn queue_up(self) -> Waiting {
        let waiting = Waiting::start(self, Mode::Write);
        settled([&waiting]).await;
        waiting
    }

    /// Closes the session without releasing the lock. The server then deletes the node.
    pub async fn die(self) {
        self.session.close(Duration::from_secs(10)).await;
    }

    pub fn kinds(&self) -> Vec<&'static str> {
        self.trace.borrow().iter().map(|sent| sent.kind.name()).collect()
    }
}

pub struct Waiting {
    pub cancel: CancellationToken,
    /// Clock of the acquire's deadline.
    pub clock: DeadlineClock,
    trace: Trace,
    session: Session,
    task: runtime::Task<(Contender, Result<Held, AcquireError>)>,
}

impl Waiting {
    pub fn start(contender: Contender, mode: Mode) -> Self {
        Self::start_within(contender, mode, LONG)
    }

    pub fn start_within(mut contender: Contender, mode: Mode, limit: Duration) -> Self {
        let patience = patience(Some(limit));
        let (cancel, clock) = (patience.cancel.clone(), patience.clock.clone());
        let (trace, session) = (Trace::clone(&contender.trace), contender.session.clone());
        let task = runtime::spawn_local(async move {
            let held = contender.lock.acquire(&contender.session, mode, &patience).await;
            (contender, held)
        });
        Self { cancel, clock, trace, session, task }
    }

    /// The session's states from now on.
    pub fn states(&self) -> SessionStates {
        self.session.states()
    }

    /// Waits until the server has answered every request, on a new connection if the old connection broke.
    pub async fn catches_up(&self) {
        while !self.session.is_over() && !self.session.catch_up_beside().await {
            runtime::sleep(SETTLE / 10).await;
        }
    }

    pub fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    pub async fn until_over(&self) {
        self.until("over", || self.is_over()).await;
    }

    /// Waits until the contender has sent this many requests.
    pub async fn has_sent(&self, requests: usize) {
        self.until("sending", || self.trace.borrow().len() >= requests).await;
    }

    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let seen = async {
            while !is_so() {
                runtime::sleep(Duration::from_millis(5)).await;
            }
        };
        assert!(runtime::timeout(LONG, seen).await.is_some(), "not {what} within {LONG:?}");
    }

    pub async fn over(self) -> (Contender, Result<Held, AcquireError>) {
        // The session can close only after its last clone is dropped.
        drop(self.session);
        self.task.await
    }

    /// Waits for the lock.
    pub async fn entered(self) -> (Contender, Held) {
        let (contender, held) = self.over().await;
        (contender, held.unwrap())
    }

    /// Waits for the lock, and releases it.
    pub async fn serve(self) -> Contender {
        let (mut contender, held) = self.entered().await;
        contender.release(held).await.unwrap();
        contender
    }

    /// Waits until the contender's acquire has been cancelled.
    pub async fn gone(self) -> Contender {
        let (contender, held) = self.over().await;
        assert_eq!(held.unwrap_err(), AcquireError::Cancelled);
        contender
    }
}

/// Waits until these contenders have settled: all requests are answered, all notifications have arrived, and no
/// request has been sent for a while.
pub async fn settled<'a>(waits: impl IntoIterator<Item = &'a Waiting>) {
    let waits: Vec<&Waiting> = waits.into_iter().collect();
    let sent = || waits.iter().map(|waiting| waiting.trace.borrow().len()).sum::<usize>();
    loop {
        let before = sent();
        for waiting in &waits {
            let _ = runtime::timeout(CATCHES_UP_WITHIN, waiting.catches_up()).await;
        }
        if is_quiet(&sent, before).await {
            return;
        }
    }
}

/// Returns whether no request is sent during [`SETTLE`]. Ignores late steps: whatever delays this process also
/// delays the contenders.
async fn is_quiet(sent: &impl Fn() -> usize, before: usize) -> bool {
    const STEPS: u32 = 10;
    let mut on_time = 0;
    while on_time < STEPS {
        let began = Instant::now();
        runtime::sleep(SETTLE / STEPS).await;
        if sent() != before {
            return false;
        }
        on_time += u32::from(began.elapsed() < 2 * SETTLE / STEPS);
    }
    true
}
