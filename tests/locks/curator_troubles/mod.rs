//! Known bugs of Curator's mutex, reproduced or shown to be absent. Each test name states the issue, the result
//! and the client. docs/known-client-bugs.md describes the bugs.

mod crowd;
mod expiry;
mod orphan;
mod release;

use crate::support::foreign::{self, Obedient};
use crate::support::sessions::Scene;

/// Starts Java lock owners that connect through this address and retry forever after a lost connection.
async fn java_by(connect: &str, scene: &Scene, session_timeout_ms: u32) -> Obedient {
    java_with(&[connect, &scene.lock, &session_timeout_ms.to_string()]).await
}

/// Starts Java lock owners with these arguments.
async fn java_with(arguments: &[&str]) -> Obedient {
    let mut java = foreign::java("CuratorObeys");
    java.args(arguments);
    Obedient::ready(java).await
}
