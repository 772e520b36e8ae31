//! `counter-near-end`: raises the sequence counters of the locks' directories to just below their limit.

use std::time::Duration;

use super::aim::proof;
use super::outage::{COMES_BACK, lift};
use super::reach::{Effect, FaultReach, How};
use super::{Active, FaultEntry, Firing};
use crate::{eventually, raise_counters};
use zklockbench_core::catalog::fault::{Ends, FaultCard};
use zklockbench_core::catalog::{Param, ParamKind};
use zklockbench_core::units::counted;
use zklockbench_zk::counter;

pub const NAME: &str = "counter-near-end";

const LEFT: Param = Param {
    name: "left",
    kind: ParamKind::Count(0, 10_000_000),
    default: "20",
    doc: "Number of children that can still be created in each directory before its counter is exhausted.",
};

pub const CARD: FaultCard = FaultCard {
    name: NAME,
    summary: "raises the sequence counters of the locks' directories to just below 2^31",
    source: "ZooKeeper's DataTree.createNode and PrepRequestProcessor, as observed in 3.8.0",
    details: "\
Inject: all servers are stopped (SIGTERM). A transaction log that gives each directory a high parentCVersion is added
after the newest transaction. The server with that log is started first, then the others.
Proof: the directories' stats show the new counter.
Ends by itself once the ensemble is healthy. Works only with servers that the suite started as processes on this host.

A correct lock: it works until the counter is exhausted. After that, it fails every acquire, leaves no node behind
and never admits two holders. A counter does not wrap: every later node gets the number 2147483647 or a
negative number, and a restart does not fix this.
Caveat: the ensemble is down for a few seconds, so sessions with a short timeout end.",
    ends: Ends::ByItself,
    stops_service: true,
    params: &[LEFT],
    ..FaultCard::FIXED
};

const GOES_DOWN: Duration = Duration::from_secs(20);

pub const ENTRY: FaultEntry = FaultEntry { card: CARD, inject: |firing| Box::pin(inject(firing)) };

async fn inject(Firing { choice, reach, .. }: Firing<'_>) -> Result<Active<'_>, String> {
    let processes = reach.processes()?;
    let data = processes.logs_at_hand().ok_or("the servers' data is not on this host")?.directories;
    let left = i64::try_from(choice.count(LEFT.name)).unwrap_or(i64::MAX);
    let number = i32::try_from(counter::END - left).map_err(|_| "`left` is too large")?;
    let found = reach.target.directories(&reach.contenders.locks()).await;
    let found = found.map_err(|failure| format!("cannot read the locks' directories: {failure}"))?;
    let directories = paths(found)?;
    let effects: Vec<Effect> = (1..=processes.servers()).map(Effect::Down).collect();
    let raised = async {
        for server in 1..=processes.servers() {
            reach.begin(Effect::Down(server), How::Stopped).await?;
        }
        for server in 1..=processes.servers() {
            eventually(GOES_DOWN, || processes.is_down(server)).await?;
        }
        let newest = raise_counters(&data, &directories, number)
            .map_err(|error| format!("cannot write the transaction log: {error}"))?;
        reach.end(Effect::Down(newest)).await?;
        Ok::<usize, String>(newest)
    };
    let raised = raised.await;
    let others = effects
        .into_iter()
        .filter(|effect| raised.as_ref().ok().is_none_or(|newest| *effect != Effect::Down(*newest)));
    let lifted = lift(reach, others.collect()).await;
    let seen = match raised.and(lifted) {
        Ok(()) => eventually(COMES_BACK, || is_raised(reach, &directories, number)).await,
        Err(why) => Err(why),
    };
    Ok(Active::over("all servers".into(), proof(seen)))
}

/// Returns the directories' paths. Fails if no directory exists, because no counter could be raised.
fn paths(found: Vec<(String, i64)>) -> Result<Vec<String>, String> {
    if found.is_empty() {
        return Err("no lock that was used has a directory yet".into());
    }
    Ok(found.into_iter().map(|(path, _)| path).collect())
}

async fn is_raised(reach: &FaultReach<'_>, directories: &[String], number: i32) -> Result<String, String> {
    let found = reach.target.directories(directories).await.map_err(|failure| failure.to_string())?;
    let next = |directory| found.iter().find(|(path, _)| path == directory).map(|(_, next)| *next);
    for directory in directories {
        if next(directory).is_none_or(|next| next < i64::from(number)) {
            return Err(format!("the counter of {directory} was not raised"));
        }
    }
    let count = directories.len();
    Ok(format!("the counters of {} are at {number} or higher", counted(count, "directory", "directories")))
}

#[cfg(test)]
mod tests {
    use super::paths;

    #[test]
    fn locks_without_directories_are_rejected() {
        assert!(paths(Vec::new()).is_err());
        assert_eq!(paths(vec![("/l".into(), 7)]), Ok(vec!["/l".to_owned()]));
    }
}
