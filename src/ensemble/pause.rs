//! Holding a server still, like a very long garbage collection, and letting it go on.

use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::fact::{Done, Fact, eventually};
use super::local::Local;
use super::state::answers_nothing;

/// How long a signal may take to reach every thread of a JVM.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// Stops a server's process and waits until it stands.
///
/// # Errors
/// When the server does not run.
pub async fn pause(local: &Local, number: usize) -> Done {
    local.server(number)?.pause().map_err(|error| format!("cannot pause server {number}: {error}"))?;
    eventually(SEEN_WITHIN, || async { stands(local, number) }).await.map(drop)
}

/// Lets a server's process go on and waits until it does.
///
/// # Errors
/// When the server does not run.
pub async fn resume(local: &Local, number: usize) -> Done {
    local.server(number)?.resume().map_err(|error| format!("cannot resume server {number}: {error}"))?;
    let goes_on = || async {
        match stands(local, number) {
            Ok(stands) => Err(stands),
            Err(_) => Ok(()),
        }
    };
    eventually(SEEN_WITHIN, goes_on).await
}

/// The process stands, its port is open, and there was no answer. The first alone says little of what clients
/// see, and the last alone is what a busy machine looks like, too.
pub async fn is_silent(local: &Local, number: usize) -> Fact {
    let stands = stands(local, number)?;
    let address = local.server(number)?.address();
    Ok(format!("{stands}; {}", answers_nothing(&(number, address)).await?))
}

/// Whether the system says that the process is stopped.
fn stands(local: &Local, number: usize) -> Fact {
    let pid = local.server(number)?.pid().ok_or_else(|| format!("server {number} does not run"))?;
    let pid = Pid::from_u32(pid);
    let mut system = System::new();
    let what = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    match system.process(pid).map(sysinfo::Process::status) {
        Some(ProcessStatus::Stop) => Ok(format!("process {pid} of server {number} is stopped")),
        Some(other) => Err(format!("process {pid} of server {number} is not stopped: {other}")),
        None => Err(format!("process {pid} of server {number} is gone")),
    }
}
