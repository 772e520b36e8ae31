//! `clean`: list or remove what killed runs left on an ensemble.

use std::time::SystemTime;

use tokio_util::sync::CancellationToken;

use super::args::CleanArgs;
use super::output;
use crate::error::{Error, Exit};
use crate::load::{Leftover, leftovers, remove};
use crate::zk::Target;

/// Does it.
///
/// # Errors
/// When the ensemble can't be reached, or the run that was named may still be under way.
pub async fn execute(args: CleanArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    stop.run_until_cancelled(clean(args)).await.unwrap_or(Err(Error::Interrupted))
}

async fn clean(args: CleanArgs) -> Result<Exit, Error> {
    let target = Target { connect: args.connect.clone(), access: args.access.access()? };
    let found = leftovers(&target).await?;
    let chosen: Vec<&Leftover> = match &args.run_id {
        Some(name) => vec![named(&found, name)?],
        None => found.iter().filter(|run| args.all && !run.may_be_alive(SystemTime::now())).collect(),
    };
    for run in &chosen {
        remove(&target, &run.run_id).await?;
    }
    for run in &found {
        output::data(&describe(run, chosen.contains(&run)))?;
    }
    if found.is_empty() {
        output::note("nothing is left of any run");
    } else if chosen.is_empty() {
        output::note("remove them with --all, or one with --run-id NAME");
    }
    Ok(Exit::Held)
}

fn named<'a>(found: &'a [Leftover], name: &str) -> Result<&'a Leftover, Error> {
    let run = found.iter().find(|run| run.run_id == name);
    let run = run.ok_or_else(|| Error::usage(format!("no run `{name}` has nodes there")))?;
    if run.ephemeral > 0 {
        return Err(Error::environment(format!(
            "run `{name}` may be under way: {} sessions of it are alive. They end by themselves soon after their \
             process does",
            run.ephemeral
        )));
    }
    Ok(run)
}

fn describe(run: &Leftover, removed: bool) -> String {
    let state = match (removed, run.may_be_alive(SystemTime::now())) {
        (true, _) => "removed",
        (false, true) => "may be under way",
        (false, false) => "left behind",
    };
    let newest = humantime::format_rfc3339_seconds(run.newest);
    format!("{}  {} nodes, {} ephemeral, newest {newest}  {state}", run.run_id, run.nodes, run.ephemeral)
}
