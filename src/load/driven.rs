//! The processes of a driver's lock: how many a trial has, and what is said of them when it is over.

use std::sync::Arc;

use super::environment::{EnvironmentEvent, Sink};
use crate::lock;
use crate::scenario::TrialSpec;
use crate::words::error::Error;
use crate::words::units::counted;
use crate::world::driver::Processes;
use crate::world::zk::Target;

/// Faults that hit a contender's whole process, so that each contender has one of its own.
const OF_PROCESSES: [&str; 2] = ["crash", "freeze"];

/// What takes a trial's locks, where that is another program. None of its processes has been started.
///
/// # Errors
/// When the ensemble asks for what drivers are not told.
pub fn processes_of(spec: &TrialSpec, target: &Target) -> Result<Option<Arc<Processes>>, Error> {
    let Some(lock) = lock::driven(&spec.strategy.name) else { return Ok(None) };
    if target.access.tls.is_some() {
        let name = &spec.strategy.name;
        return Err(Error::usage(format!(
            "`{name}` is a driver's lock, and drivers are not told of TLS: go without"
        )));
    }
    let each_has_its_own = spec.faults.iter().any(|fault| OF_PROCESSES.contains(&fault.kind.as_str()));
    let per_process = if each_has_its_own { 1 } else { lock.program.ready.contenders.max(1) };
    let wanted = lock.wanted(&spec.strategy.params, per_process);
    Ok(Some(Arc::new(Processes::new(wanted, spec.contenders))))
}

/// Ends the processes of a trial, and says what was wrong with them.
pub async fn end(processes: Arc<Processes>, driver: &str, sink: Sink<'_>) {
    for failure in processes.failures() {
        sink(EnvironmentEvent::Warning(&failure));
    }
    let late = processes.late_grants();
    if late > 0 {
        let granted = counted(late, "lock was", "locks were");
        sink(EnvironmentEvent::Warning(&format!(
            "{granted} granted to `{driver}` after it had said that the acquire had timed out; each was released at once"
        )));
    }
    // They may take seconds to end.
    let _ = tokio::task::spawn_blocking(move || processes.close()).await;
}
