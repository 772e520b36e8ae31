//! A series whose runs are made by several workers: they hear of each run for as long as the series goes on.

use crate::cli::output;
use crate::cli::worker_args::JobArgs;
use crate::load::Job;
use crate::words::error::Error;
use crate::world::zk::Target;

/// What a command says that is to share its load and names no ensemble.
pub const NEEDS_CONNECT: &str = "workers need an ensemble that all of them reach: add --connect HOST:PORT,…";

/// Does something that makes runs, while the workers of the job may follow it, if there is one.
///
/// # Errors
/// Same errors as the work, and when the job can't begin.
pub async fn leading<T>(
    args: &JobArgs,
    target: Result<Target, Error>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(name) = &args.job else { return work.await };
    let job = Job::begin(&target?, name).await?;
    output::note(&format!("waiting for each run's other workers: zklockbench worker --follow {name} …"));
    let done = work.await;
    if let Err(error) = job.end().await {
        output::note(&format!("warning: {error}"));
    }
    done
}
