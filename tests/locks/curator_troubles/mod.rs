//! Known bugs of Curator's mutex: reproduced here, or shown absent. Each test's name gives the issue, the
//! client and the result. docs/known-client-bugs.md describes them.

mod crowd;
mod expiry;
mod orphan;
mod release;

use crate::support::foreign;
use crate::support::foreign::Obedient;
use crate::support::sessions::Scene;

/// Java lock owners connected through this address. They retry forever after a lost connection.
async fn java_by(connect: &str, scene: &Scene, session_timeout_ms: u32) -> Obedient {
    java_with(&[connect, &scene.lock, &session_timeout_ms.to_string()]).await
}

/// Java lock owners with these arguments.
async fn java_with(arguments: &[&str]) -> Obedient {
    let mut java = foreign::java("CuratorObeys");
    java.args(arguments);
    Obedient::ready(java).await
}
