//! A proxy in front of the shared ensemble, sessions through the proxy, and waits for effects on them.

use std::future::Future;
use std::time::Duration;

use zklockbench_core::clock;
use zklockbench_ensemble::proxy::Proxy;
use zklockbench_zk::{Observed, Session, runtime};

use crate::support::ensemble;
use crate::support::sessions::{Scene, on_scene, target};

/// Time limit for any step.
const LONG: Duration = Duration::from_secs(60);

/// Runs a test on the ensemble, with a proxy in front of it.
pub fn by_proxy(play: impl AsyncFnOnce(Scene, Proxy)) {
    on_scene(async |scene| play(scene, proxy()).await);
}

/// Runs a test with a session through the proxy.
pub fn in_session(play: impl AsyncFnOnce(Scene, Proxy, Session)) {
    by_proxy(async |scene, proxy| {
        let session = session(&scene, &proxy, 0).await;
        play(scene, proxy, session).await;
    });
}

pub fn servers() -> Vec<String> {
    ensemble::shared().split(',').map(str::to_owned).collect()
}

pub fn proxy() -> Proxy {
    Proxy::before(&servers()).unwrap()
}

/// Opens a session as the client with this number.
pub async fn session(scene: &Scene, proxy: &Proxy, client: usize) -> Session {
    scene.traced_by(&proxy.connect_for(client).unwrap()).await.0
}

/// Opens a session for the first client, with a short timeout.
pub async fn short_session(proxy: &Proxy) -> Session {
    let target = target(&proxy.connect_for(0).unwrap());
    target.open(Duration::from_secs(2), LONG, Observed::by_nobody()).await.unwrap()
}

pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    runtime::timeout(LONG, work).await.unwrap()
}

pub async fn eventually(is_so: impl Fn() -> bool) {
    in_time(async {
        while !is_so() {
            runtime::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until a session is connected again.
pub async fn answers(session: &Session) {
    in_time(async {
        while session.exists("/").await.is_err() {
            assert!(!session.is_over());
            runtime::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until this session no longer sees a node.
pub async fn is_gone(session: &Session, path: &str) {
    in_time(async {
        while session.exists(path).await.unwrap().is_some() {
            runtime::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// Duration of an operation that must succeed.
pub async fn timed<T, E: std::fmt::Debug>(work: impl Future<Output = Result<T, E>>) -> Duration {
    let began = clock::now();
    work.await.unwrap();
    Duration::from_micros(clock::now() - began)
}

/// Shortest duration of an operation that is repeated this many times.
pub async fn fastest<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(
    times: usize,
    work: impl Fn() -> F,
) -> Duration {
    let mut fastest = Duration::MAX;
    for _ in 0..times {
        fastest = fastest.min(timed(work()).await);
    }
    fastest
}
