//! Known troubles of Curator's mutex: reproduced here, or shown absent. Each name says the trouble's number, whose
//! client, and what was found. docs/curator-troubles.md tells of them.

#![allow(clippy::unwrap_used, clippy::expect_used)] // what prepares a test may stop it at once
#![allow(clippy::print_stdout, clippy::print_stderr)] // the figures are part of the result

#[path = "support/contender.rs"]
mod contender;
#[path = "troubles/crowd.rs"]
mod crowd;
#[path = "support/ensemble.rs"]
mod ensemble;
#[path = "troubles/expiry.rs"]
mod expiry;
#[path = "support/foreign.rs"]
mod foreign;
#[path = "troubles/orphan.rs"]
mod orphan;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "troubles/release.rs"]
mod release;
#[path = "support/sessions.rs"]
mod sessions;
#[path = "support/trials.rs"]
mod trials;

use foreign::Obedient;
use sessions::Scene;

/// Java's owners, connected by way of that address. They send again for ever what has met a lost connection.
async fn java_by(connect: &str, scene: &Scene, session_timeout_ms: u32) -> Obedient {
    java_with(&[connect, &scene.lock, &session_timeout_ms.to_string()]).await
}

/// The same with these arguments.
async fn java_with(arguments: &[&str]) -> Obedient {
    let mut java = foreign::java("CuratorObeys");
    java.args(arguments);
    let java = Obedient::start(java);
    java.says("ready").await;
    java
}
