//! Ending a server: at once, or in order.

use std::time::Duration;

use rustix::process::Signal;

use super::fact::{Done, eventually};
use super::local::Local;

/// How long a server may take to end when asked, before it is killed.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// How long the system may take to clear a killed process away.
const KILLED_WITHIN: Duration = Duration::from_secs(30);

/// Sends the signal, waits for the end, and kills what has not ended in time.
///
/// # Errors
/// When the server does not run, or its process stays even so.
pub async fn end(local: &Local, number: usize, signal: Signal) -> Done {
    ask(local, number, signal)?;
    if signal != Signal::KILL {
        if gone(local, number, STOPPED_WITHIN).await.is_ok() {
            return Ok(());
        }
        ask(local, number, Signal::KILL)?;
    }
    gone(local, number, KILLED_WITHIN).await
}

fn ask(local: &Local, number: usize, signal: Signal) -> Done {
    let mut server = local.server(number)?;
    server.end(signal).map_err(|error| format!("cannot end server {number}: {error}"))
}

async fn gone(local: &Local, number: usize, within: Duration) -> Done {
    eventually(within, || async {
        if local.server(number)?.is_running() {
            return Err(format!("the process of server {number} is still there"));
        }
        Ok(())
    })
    .await
}
