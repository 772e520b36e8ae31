//! `check`: judge what was recorded: a history, or the trials of a run.

mod history;
mod machine;
mod run_dir;
mod shown;
mod text;

use tokio_util::sync::CancellationToken;

use super::args::CheckArgs;
use super::output;
use crate::error::{Error, Exit};
use crate::verdict::Verdict;

/// Judges it and says why.
///
/// # Errors
/// A usage error when the file or directory is not what it should be; an error of the environment when it cannot be
/// read.
pub async fn execute(args: CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let stop = stop.clone();
    // A history may have gigabytes: meanwhile this thread listens for Ctrl-C.
    let judged = tokio::task::spawn_blocking(move || judge(&args, &stop)).await;
    judged.map_err(|error| Error::environment(format!("the check broke off: {error}")))?
}

fn judge(args: &CheckArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    let verdict = if args.path.is_dir() {
        run_dir::judge(args)?
    } else {
        history::judge(args, || stop.is_cancelled())?
    };
    Ok(exit(&verdict))
}

fn exit(verdict: &Verdict) -> Exit {
    match verdict {
        Verdict::Held => Exit::Held,
        Verdict::Violated(_) => Exit::Violated,
        Verdict::Unknown(_) => Exit::Unknown,
    }
}

/// Prints a verdict and its reasons.
fn conclusion(verdict: &Verdict) -> String {
    let reasons = verdict.reasons().iter().map(|reason| format!("\n  {reason}"));
    format!("verdict: {}{}\n", verdict.word(), reasons.collect::<String>())
}
