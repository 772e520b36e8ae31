//! `clean`: lists or removes leftovers of killed runs.

#![expect(clippy::disallowed_methods, reason = "ages of leftovers are measured by the wall clock")]

use std::time::SystemTime;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::args::CleanArgs;
use super::output;
use zklockbench_core::error::{Error, Exit};
use zklockbench_core::units::{counted, one_line};
use zklockbench_ensemble::{LeftProject, left_projects, parse_connect, reach_servers, remove_left_projects};
use zklockbench_load::{Alive, Leftover, leftovers, remove};
use zklockbench_zk::Target;

pub async fn execute(args: CleanArgs, stop: &CancellationToken) -> Result<Exit, Error> {
    stop.run_until_cancelled(clean(args)).await.unwrap_or(Err(Error::Interrupted))
}

async fn clean(args: CleanArgs) -> Result<Exit, Error> {
    let Some(connect) = args.connect.clone() else { return clean_docker(&args) };
    let external = parse_connect(&connect)?;
    let target = Target { connect: external.text(), access: args.access.access(None)? };
    reach_servers(&external).await?;
    let found = leftovers(&target).await?;
    let chosen: Vec<&Leftover> = match &args.run_id {
        Some(name) => vec![named(&found, name)?],
        None => found.iter().filter(|run| args.all && run.may_be_removed(SystemTime::now())).collect(),
    };
    for run in &chosen {
        remove(&target, &run.run_id).await?;
    }
    let runs: Vec<Value> = found.iter().map(|run| machine(run, chosen.contains(&run))).collect();
    output::tell("clean", Exit::Held, &json!({ "runs": runs }), || {
        for run in &found {
            output::data(&describe(run, chosen.contains(&run)))?;
        }
        if found.is_empty() {
            output::note("no leftovers found");
        } else if chosen.is_empty() && args.all {
            output::note(
                "nothing was removed; if you know that a run has ended, remove it with --run-id NAME",
            );
        } else if chosen.is_empty() {
            output::note("remove them with --all, or one with --run-id NAME");
        }
        Ok(())
    })
}

/// Lists or removes containers of killed runs. The next `--compose` run would also remove them.
fn clean_docker(args: &CleanArgs) -> Result<Exit, Error> {
    let all = args.all;
    let found = if all { remove_left_projects().map_err(Error::environment)? } else { left_projects() };
    let state = |in_use: bool| match (in_use, all) {
        (true, _) => "under way",
        (false, true) => "removed",
        (false, false) => "left behind",
    };
    let machine = |project: &LeftProject| json!({ "name": project.name, "state": state(project.in_use) });
    let projects: Vec<Value> = found.iter().map(machine).collect();
    output::tell("clean", Exit::Held, &json!({ "projects": projects }), || {
        for project in &found {
            output::data(&format!("{}  {}", project.name, state(project.in_use)))?;
        }
        if found.is_empty() {
            output::note("no leftovers found");
        } else if !all {
            output::note("remove them with --all; the next run with --compose also removes them");
        }
        Ok(())
    })
}

fn named<'a>(found: &'a [Leftover], name: &str) -> Result<&'a Leftover, Error> {
    let run = found.iter().find(|run| run.run_id == name);
    let run = run.ok_or_else(|| Error::usage(format!("the ensemble has no nodes of run `{name}`")))?;
    if run.ephemeral > 0 {
        return Err(Error::environment(format!(
            "run `{name}` may be in progress: {} alive; retry once the sessions have expired",
            counted(run.ephemeral, "of its sessions is", "of its sessions are")
        )));
    }
    Ok(run)
}

/// Returns the leftovers of a run as JSON; `newest` is the creation time of the newest node.
fn machine(run: &Leftover, removed: bool) -> Value {
    json!({
        "run_id": run.run_id,
        "nodes": run.nodes,
        "ephemeral": run.ephemeral,
        "newest": humantime::format_rfc3339_seconds(run.newest).to_string(),
        "state": state(run, removed).0,
    })
}

/// Returns the state of a run as a JSON value and as text.
fn state(run: &Leftover, removed: bool) -> (&'static str, String) {
    match (removed, run.alive(SystemTime::now())) {
        (true, _) => ("removed", "removed".to_owned()),
        (false, _) if !run.is_own => ("not the suite's", "not created by zklockbench; kept".to_owned()),
        (false, None) => ("left behind", "left behind".to_owned()),
        (false, Some(Alive::Sessions(_))) => {
            ("under way", "may be in progress: one of its sessions is alive".to_owned())
        }
        (false, Some(Alive::Until(end))) => {
            let end = humantime::format_rfc3339_seconds(end);
            ("under way", format!("may be in progress until {end}: it created a node recently"))
        }
    }
}

fn describe(run: &Leftover, removed: bool) -> String {
    let state = state(run, removed).1;
    let newest = humantime::format_rfc3339_seconds(run.newest);
    let nodes = counted(run.nodes, "node", "nodes");
    format!("{}  {nodes}, {} ephemeral, newest {newest}  {state}", one_line(&run.run_id), run.ephemeral)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn run_that_may_be_in_progress_is_listed_with_its_latest_possible_end() {
        let ago = |seconds| SystemTime::now() - Duration::from_secs(seconds);
        let left = |ephemeral, newest| {
            let (run_id, shows_life) = ("x".into(), false);
            describe(&Leftover { run_id, nodes: 3, ephemeral, newest, shows_life, is_own: true }, false)
        };
        let killed = ago(30);
        let end = humantime::format_rfc3339_seconds(killed + Duration::from_secs(600));
        let told = left(0, killed);
        assert!(told.contains(&format!("may be in progress until {end}: ")), "{told}");
        assert!(left(2, ago(3_000)).ends_with("one of its sessions is alive"));
        assert!(left(0, ago(700)).ends_with("left behind"));
    }
}
