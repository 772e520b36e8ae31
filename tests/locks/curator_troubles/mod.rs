//! Known troubles of Curator's mutex: reproduced here, or shown absent. Each name says the trouble's number, whose
//! client, and what was found. docs/known-client-bugs.md describes them.

mod crowd;
mod expiry;
mod orphan;
mod release;

use crate::support::foreign;
use crate::support::foreign::Obedient;
use crate::support::sessions::Scene;

/// Java's owners, connected by way of that address. They send again for ever what has met a lost connection.
async fn java_by(connect: &str, scene: &Scene, session_timeout_ms: u32) -> Obedient {
    java_with(&[connect, &scene.lock, &session_timeout_ms.to_string()]).await
}

/// The same with these arguments.
async fn java_with(arguments: &[&str]) -> Obedient {
    let mut java = foreign::java("CuratorObeys");
    java.args(arguments);
    Obedient::ready(java).await
}
