//! What becomes of a lock when its contenders' connections break, or their nodes go while they hold.

use std::time::Duration;

use zklockbench::catalog::{Mode, Params};
use zklockbench::lock::{AcquireError, Held, LockConfig, Strategy, find};
use zklockbench::zk::{Failure, Session, reactor};

use crate::proxy::Proxy;
use crate::sessions::{Scene, Trace, patience, scene};

const FASTER: [&str; 3] = ["ahead", "baton", "ticket"];
const SETTLE: Duration = Duration::from_millis(200);

fn lock(name: &str, scene: &Scene) -> Box<dyn Strategy> {
    (find(name).unwrap().build)(&LockConfig { path: scene.lock.clone(), params: Params::new(), contender: 0 })
}

/// A contender on a connection of its own or on one that can be broken.
struct Contender {
    lock: Box<dyn Strategy>,
    session: Session,
    trace: Trace,
}

type Waiting = reactor::Task<(Contender, Result<Held, AcquireError>)>;

impl Contender {
    async fn new(name: &str, scene: &Scene) -> Self {
        let (session, trace) = scene.traced().await;
        Self { lock: lock(name, scene), session, trace }
    }

    async fn behind(proxy: &Proxy, name: &str, scene: &Scene) -> Self {
        let (session, trace) = scene.traced_by(&proxy.connect).await;
        Self { lock: lock(name, scene), session, trace }
    }

    async fn acquire(&mut self) -> Result<Held, AcquireError> {
        self.lock.acquire(&self.session, Mode::Write, &patience(Some(Duration::from_secs(20)))).await
    }

    async fn release(&mut self, held: Held) -> Result<(), Failure> {
        self.lock.release(&self.session, held).await
    }

    async fn queue_up(mut self) -> Waiting {
        let waiting = reactor::spawn_local(async move {
            let held = self.acquire().await;
            (self, held)
        });
        reactor::sleep(SETTLE).await;
        waiting
    }

    /// The kinds of its requests.
    fn kinds(&self) -> Vec<&'static str> {
        self.trace.borrow().iter().map(|sent| sent.kind.name()).collect()
    }
}

async fn serve(waiting: Waiting) -> Contender {
    let (mut contender, held) = waiting.await;
    contender.release(held.unwrap()).await.unwrap();
    contender
}

#[test]
fn a_lock_handed_over_while_the_waiter_is_cut_off_is_found_after_the_reconnection() {
    for name in FASTER {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let proxy = Proxy::before(crate::ensemble::shared());
            let mut holder = Contender::new(name, &scene).await;
            let held = holder.acquire().await.unwrap();
            // Given a holder that was granted the lock, so that a baton's release hands on
            let second = Contender::new(name, &scene).await.queue_up().await;
            let third = Contender::new(name, &scene).await.queue_up().await;
            let waiter = Contender::behind(&proxy, name, &scene).await.queue_up().await;
            holder.release(held).await.unwrap();
            serve(second).await;
            let (mut holder, held) = third.await;
            // When it releases while the one behind it is cut off
            proxy.cut();
            holder.release(held.unwrap()).await.unwrap();
            reactor::sleep(SETTLE).await;
            assert!(!waiter.is_finished(), "{name}");
            // Then that one has the lock as soon as it is back
            proxy.mend();
            serve(waiter).await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}

#[test]
fn a_reconnection_lets_nobody_in_and_forgets_nobody() {
    for name in FASTER {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let proxy = Proxy::before(crate::ensemble::shared());
            let mut holder = Contender::new(name, &scene).await;
            let held = holder.acquire().await.unwrap();
            let waiter = Contender::behind(&proxy, name, &scene).await.queue_up().await;
            proxy.cut();
            reactor::sleep(SETTLE).await;
            proxy.mend();
            reactor::sleep(Duration::from_secs(2)).await;
            assert!(!waiter.is_finished(), "{name}: let in beside the holder");
            holder.release(held).await.unwrap();
            let waiter = serve(waiter).await;
            // A baton's waiter, which else never asks for it, reads its own data before it waits on.
            let kinds = waiter.kinds();
            assert!(name != "baton" || kinds.contains(&"get_data"), "{kinds:?}");
        });
    }
}

#[test]
fn aheads_node_is_found_again_when_the_reply_to_its_create_is_lost() {
    reactor::block_on(async {
        let scene = scene(crate::ensemble::shared()).await;
        let proxy = Proxy::before(crate::ensemble::shared());
        let contender = Contender::behind(&proxy, "ahead", &scene).await;
        proxy.mute();
        let acquiring = contender.queue_up().await;
        assert_eq!(scene.nodes().await, 1);
        proxy.cut();
        proxy.mend();
        let (mut contender, held) = acquiring.await;
        let held = held.unwrap();
        let expected = ["create", "get_children", "sync", "get_children", "exists", "get_children"];
        assert_eq!(contender.kinds(), expected);
        assert_eq!(scene.nodes().await, 1);
        contender.release(held).await.unwrap();
        assert_eq!(scene.nodes().await, 0);
    });
}

#[test]
fn an_unprotected_node_whose_reply_is_lost_goes_with_its_session() {
    for name in ["baton", "ticket"] {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let proxy = Proxy::before(crate::ensemble::shared());
            let contender = Contender::behind(&proxy, name, &scene).await;
            proxy.mute();
            let acquiring = contender.queue_up().await;
            proxy.cut();
            proxy.mend();
            // The failure leaves it open, and so the caller ends the session.
            let (contender, held) = acquiring.await;
            let failure = held.unwrap_err();
            assert!(
                matches!(&failure, AcquireError::Failed(failure) if !failure.is_definite()),
                "{failure:?}"
            );
            assert_eq!(scene.nodes().await, 1, "{name}");
            contender.session.close(Duration::from_secs(10)).await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}

#[test]
fn a_release_whose_reply_is_lost_has_handed_on_all_the_same() {
    for name in FASTER {
        reactor::block_on(async {
            let scene = scene(crate::ensemble::shared()).await;
            let proxy = Proxy::before(crate::ensemble::shared());
            let mut first = Contender::new(name, &scene).await;
            let held = first.acquire().await.unwrap();
            let holder = Contender::behind(&proxy, name, &scene).await.queue_up().await;
            let next = Contender::new(name, &scene).await.queue_up().await;
            first.release(held).await.unwrap();
            let (mut holder, held) = holder.await;
            let held = held.unwrap();
            proxy.mute();
            let releasing = reactor::spawn_local(async move { holder.release(held).await });
            serve(next).await;
            proxy.cut();
            proxy.mend();
            assert!(releasing.await.is_err_and(|failure| !failure.is_definite()), "{name}");
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}

#[test]
fn a_holder_whose_node_has_gone_hands_nothing_on() {
    for name in FASTER {
        reactor::block_on(async {
            // Given a holder whose node goes while it holds, as at its session's end, and two waiters
            let scene = scene(crate::ensemble::shared()).await;
            let mut zombie = Contender::new(name, &scene).await;
            let held = zombie.acquire().await.unwrap();
            let next = Contender::new(name, &scene).await.queue_up().await;
            let last = Contender::new(name, &scene).await.queue_up().await;
            let outside = scene.session().await;
            outside.delete(&held.node.as_ref().unwrap().path).await.unwrap();
            let (mut next, next_held) = next.await;
            // When it releases although the next one is in already
            zombie.release(held).await.unwrap();
            reactor::sleep(SETTLE).await;
            // Then nobody else is let in
            assert!(!last.is_finished(), "{name}: let in beside the holder");
            next.release(next_held.unwrap()).await.unwrap();
            serve(last).await;
            assert_eq!(scene.nodes().await, 0, "{name}");
        });
    }
}
